//! Litmus tests of the network models: each test's exact set of outcomes on each [`Network`].
//!
//! # Comparison with RDMA
//! *RDMA^TSO* below is the model of G. Ambal, B. Dongol, H. Eran, V. Klimis, O. Lahav and A. Raad, "Semantics of Remote
//! Direct Memory Access: Operational and Declarative Models of RDMA on TSO Architectures", OOPSLA 2024, DOI
//! 10.1145/3689781. Its atomic operations are from G. Ambal, M. Stupple, B. Dongol and A. Raad, "Specifying and
//! Verifying RDMA Synchronisation", 2026, arXiv 2601.14642. It describes operations on one queue pair, to one remote
//! node, and *polls* of their completions. The trait has targets and flushes. In short:
//!
//! | pair | the trait (`rmalab_atomics::RemoteAtomics`) | RDMA^TSO, one queue pair | the trait is |
//! | --- | --- | --- | --- |
//! | put, put of one rank to one target | in order | in order | the same |
//! | put, get | not ordered | in order: a read pushes the writes before it | weaker |
//! | put, atomic | not ordered | in order, like a put and a get | weaker |
//! | get, put | in order: the get has returned | not ordered without a remote fence, or a poll of the get | stronger |
//! | bulk put, anything | not ordered | like a put: there is only one kind | weaker |
//! | any two, to two targets | each completes by itself | each is polled by itself | the same |
//! | put, its completion | flush: visible at the target | poll: sent, but perhaps not yet in memory there | stronger |
//! | atomic, put of another rank | atomic | not atomic: remote atomics are atomic only with each other | stronger |
//! | atomic, any operation of the owner | atomic | not atomic: the owner's processor does the latter | stronger |
//!
//! Where the trait is weaker, a property of its models also holds on RDMA. Where it is stronger, a backend must add the
//! difference. A get polls. A flush is a read on the queue pair and the poll of that read, instead of the poll of the put. LOCO calls it a
//! *global fence* (arXiv 2510.10531). The owner uses its adapter. A vendor may promise more for puts beside atomics. NVIDIA's adapters allow
//! no operation of another queue pair on the address between the read and the write
//! (<https://docs.nvidia.com/networking/display/rdmacore50/Atomic+Operations>). One rule has no counterpart there: a rank's own segment is a
//! target like any other here. So its puts to that segment are late even for itself, while a processor reads its own stores at once.

use std::collections::{BTreeSet, HashSet};

use rmalab_atomics::controlled::Call;
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Disp, Mapped, Rank, Until, World};
use rmalab_verify::Network;
use rmalab_verify::litmus::{Litmus, Step};

fn put(at: Address, value: u64) -> Step {
    Call::Put { at, value }.into()
}

fn bulk_put(at: Address, value: u64) -> Step {
    bulk_part(at, u64::MAX, value)
}

/// A further word of the bulk put of the step before.
fn bulk_further(at: Address, value: u64) -> Step {
    Call::BulkPut { at, mask: u64::MAX, value, first: false }.into()
}

fn bulk_part(at: Address, mask: u64, value: u64) -> Step {
    Call::BulkPut { at, mask, value, first: true }.into()
}

fn get(at: Address) -> Step {
    Call::Get { at }.into()
}

fn bulk_get(at: Address) -> Step {
    Call::BulkGet { at }.into()
}

fn fetch_store(at: Address, value: u64) -> Step {
    Call::FetchStore { at, value }.into()
}

fn fetch_add(at: Address, value: u64) -> Step {
    Call::FetchAdd { at, value }.into()
}

fn compare_and_swap(at: Address, expected: u64, desired: u64) -> Step {
    Call::CompareAndSwap { at, expected, desired }.into()
}

/// A load by the rank's processor.
fn load(at: Address) -> Step {
    Call::Load { at }.into()
}

/// A store by the rank's processor.
fn store(at: Address, value: u64) -> Step {
    Call::Store { at, value }.into()
}

fn stored() -> Step {
    Call::Stored.into()
}

/// The start of operation `request` on the word.
fn start(request: u32, at: Address, op: WordOp) -> Step {
    Call::Start { request, at, op }.into()
}

/// The start of an addition of 1.
fn start_add(request: u32, at: Address) -> Step {
    start(request, at, WordOp::FetchAdd(1))
}

/// The end of operation `request`, which shows its result.
fn finish(request: u32, at: Address) -> Step {
    Call::Finish { request, at }.into()
}

/// A flush of the word's home.
fn flush(at: Address) -> Step {
    Call::Flush { target: Some(at.rank) }.into()
}

/// An order of the word's home.
fn order(at: Address) -> Step {
    Call::Order { target: at.rank }.into()
}

fn flush_all() -> Step {
    Call::Flush { target: None }.into()
}

/// A wait by the word's home until it is not zero.
fn wait(at: Address) -> Step {
    Call::WaitUntil { own: at.disp, until: Until::Ne(0), deadline: None }.into()
}

/// One litmus test of two words, x and y, that are initially zero.
struct Test {
    name: &'static str,
    /// The reason, and the comparison with RDMA^TSO.
    why: &'static str,
    /// The homes of x and y. Ranks from 2 on have no program in most tests.
    homes: [u32; 2],
    programs: fn(Address, Address) -> Vec<Vec<Step>>,
    /// The words that are read at the end.
    ends: &'static str,
    /// The outcomes under sequential consistency.
    sc: &'static [&'static str],
    /// The additional outcomes of late puts.
    late_puts: &'static [&'static str],
    /// The further outcomes of unordered bulk puts.
    unordered_bulk: &'static [&'static str],
    /// The outcomes of unordered bulk puts that are not possible where puts keep their order.
    in_order: &'static [&'static str],
    /// The outcomes of `hca` beyond the sequentially consistent ones.
    hca: &'static [&'static str],
    /// The outcomes of `hca-owner-cpu` beyond the sequentially consistent ones.
    owner_cpu: &'static [&'static str],
}

/// The defaults of most tests: two words on two ranks without other work, and no outcomes beyond the outcomes of `sc`.
const PLAIN: Test = Test {
    name: "",
    why: "",
    homes: [2, 3],
    programs: |_, _| Vec::new(),
    ends: "",
    sc: &[],
    late_puts: &[],
    unordered_bulk: &[],
    in_order: &[],
    hca: &[],
    owner_cpu: &[],
};

/// Two started operations on data and flag, against gets of flag and data.
const MESSAGE_PASSING_STARTED: Test = Test {
    programs: |x, y| vec![vec![start_add(0, x), start_add(1, y), finish(0, x), finish(1, y)], vec![get(y), get(x)]],
    sc: &["0 0 0 0", "0 0 0 1", "0 0 1 1"],
    ..PLAIN
};

/// Flag and data, in this order, without the outcome in which the flag is visible without the data.
const PASSED: &[&str] = &["0 0", "0 1", "1 1"];
/// The flag without the data.
const STALE: &[&str] = &["1 0"];
/// At least one of the reads sees the other rank's write.
const SEEN: &[&str] = &["0 1", "1 0", "1 1"];
/// Readers of independent writes that agree on the order.
const AGREED: &[&str] = &[
    "0 0 0 0", "0 0 0 1", "0 0 1 0", "0 0 1 1", "0 1 0 0", "0 1 0 1", "0 1 1 0", "0 1 1 1", "1 0 0 0", "1 0 0 1",
    "1 0 1 1", "1 1 0 0", "1 1 0 1", "1 1 1 0", "1 1 1 1",
];

/// The tests. A test of the conformance suite has its counterpart here under the same name.
const TESTS: &[Test] = &[
    // Message passing: rank 0 writes the data x, then the flag y; rank 1 reads the flag, then the data.
    Test {
        name: "message_passing_put_same_target",
        why: "posts to one target arrive in order, like puts on one queue pair",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_put_two_targets",
        why: "posts to two targets arrive in any order, like puts on two queue pairs",
        programs: |x, y| vec![vec![put(x, 1), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_flushed_put",
        why: "a flush is remote completion: stronger than a poll of the put, after which it may still be on its way",
        programs: |x, y| vec![vec![put(x, 1), flush(x), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_ordered_put",
        why: "an ordered put arrives ahead of a later put, to whatever target; a fence of the queue pair orders one target only",
        programs: |x, y| vec![vec![put(x, 1), order(x), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_ordered_put_then_atomic",
        why: "an ordered put arrives ahead of a later atomic, to whatever target",
        programs: |x, y| vec![vec![put(x, 1), order(x), fetch_store(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_ordered_put_then_started_atomic",
        why: "an ordered put arrives ahead of a later started operation",
        programs: |x, y| vec![vec![put(x, 1), order(x), start_add(0, y)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_order_of_the_flag",
        why: "an order of one target does not order the puts to another",
        programs: |x, y| vec![vec![put(x, 1), order(y), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_ordered_put_then_bulk",
        why: "an order concerns later operations on words only",
        programs: |x, y| vec![vec![put(x, 1), order(x), bulk_put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_flush_of_the_flag",
        why: "a flush of one target does not flush another; a poll, too, concerns one queue pair",
        programs: |x, y| vec![vec![put(x, 1), flush(y), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_flush_all",
        why: "it flushes every target; RDMA^TSO needs a read and its poll on each queue pair",
        programs: |x, y| vec![vec![put(x, 1), flush_all(), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_fetch_add",
        why: "an atomic operation is complete when it returns, so a put after it releases it, to whatever target; \
              a remote atomic and its poll do the same",
        programs: |x, y| vec![vec![fetch_add(x, 1), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_put_then_atomic",
        why: "an atomic operation does not wait for what was posted before it, not even to its own target; weaker than \
              RDMA^TSO, where it pushes the puts of its queue pair",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), fetch_store(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk_then_put",
        why: "a bulk put is unordered, so a later put overtakes it; weaker than RDMA^TSO, where it is a put",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk",
        why: "a flush completes bulk puts, too: a window does this before it releases its lock",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), flush(x), put(y, 1)], vec![get(y), bulk_get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_put_then_bulk",
        why: "a bulk put overtakes earlier puts, even where bulk puts are never late; weaker than RDMA^TSO",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), bulk_put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk_then_bulk",
        why: "bulk puts are not ordered with each other; weaker than RDMA^TSO",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), bulk_put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_words_of_one_bulk_put",
        why: "a bulk put is atomic for each word only, even where puts keep their order; RDMA^TSO has no such operation",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), bulk_further(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_put_then_two_words_of_bulk",
        why: "where puts keep their order, all words of a bulk put come after an earlier put",
        homes: [2, 2],
        programs: |x, y| {
            let further = Rank(2).at(Disp(128));
            vec![vec![put(x, 1), bulk_put(further, 1), bulk_further(y, 1)], vec![get(y), get(x)]]
        },
        sc: PASSED,
        late_puts: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_two_words_of_bulk_then_put",
        why: "where puts keep their order, a put comes after all words of an earlier bulk put",
        homes: [2, 2],
        programs: |x, y| {
            let further = Rank(2).at(Disp(128));
            vec![vec![bulk_put(further, 1), bulk_further(x, 1), put(y, 1)], vec![get(y), get(x)]]
        },
        sc: PASSED,
        unordered_bulk: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_two_words_of_bulk_then_bulk",
        why: "where puts keep their order, a bulk put comes after all words of an earlier one, also of its last word",
        homes: [2, 2],
        programs: |x, y| {
            let further = Rank(2).at(Disp(128));
            vec![vec![bulk_put(further, 1), bulk_further(x, 1), bulk_put(y, 1)], vec![get(y), get(x)]]
        },
        sc: PASSED,
        unordered_bulk: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk_then_put_two_targets",
        why: "puts keep their order to one target only, bulk puts as well",
        programs: |x, y| vec![vec![bulk_put(x, 1), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk_then_atomic",
        why: "an atomic operation waits for no bulk put to its own target, even where puts keep their order; weaker than \
              RDMA^TSO",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), fetch_add(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk_then_started_put",
        why: "nor does a started operation, even if it is a put",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), start(0, y, WordOp::Put(1))], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_order_of_bulk",
        why: "an order concerns word puts: it orders no bulk put ahead of an atomic, even where puts keep their order",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), order(x), fetch_store(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_order_of_bulk_then_put_two_targets",
        why: "nor ahead of a put to another target",
        programs: |x, y| vec![vec![bulk_put(x, 1), order(x), put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        unordered_bulk: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_bulk_then_ordered_put",
        why: "where puts keep their order, a bulk put comes ahead of a later put, and so of what that put is ordered ahead of",
        programs: |x, y| {
            let further = Rank(2).at(Disp(128));
            vec![vec![bulk_put(x, 1), put(further, 1), order(x), fetch_store(y, 1)], vec![get(y), get(x)]]
        },
        sc: PASSED,
        unordered_bulk: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "message_passing_ordered_put_then_bulk_same_target",
        why: "an order concerns later operations on words only, but where puts keep their order a put precedes a bulk put",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), order(x), bulk_put(y, 1)], vec![get(y), get(x)]],
        sc: PASSED,
        late_puts: STALE,
        in_order: STALE,
        ..PLAIN
    },
    // Waits: rank 1 waits for the flag on a local word.
    Test {
        name: "wait_for_a_put_behind_a_put",
        why: "the wait acquires the put's release, with data and flag at one target; like a poll loop of RDMA^TSO",
        homes: [1, 1],
        programs: |x, y| vec![vec![put(x, 1), put(y, 1)], vec![wait(y), get(x)]],
        sc: &["1 1"],
        ..PLAIN
    },
    Test {
        name: "wait_for_a_put_with_the_data_elsewhere",
        why: "a wake-up overtakes unflushed data at a third rank: an incorrect handover",
        homes: [2, 1],
        programs: |x, y| vec![vec![put(x, 1), put(y, 1)], vec![wait(y), get(x)]],
        sc: &["1 1"],
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "wait_for_a_put_with_flushed_data_elsewhere",
        why: "the correct handover: flush, then wake; RDMA^TSO needs more than a poll of the first put",
        homes: [2, 1],
        programs: |x, y| vec![vec![put(x, 1), flush(x), put(y, 1)], vec![wait(y), get(x)]],
        sc: &["1 1"],
        ..PLAIN
    },
    Test {
        name: "wait_for_a_put_behind_a_bulk_put",
        why: "the flag overtakes the bulk put, although both go to one target; weaker than RDMA^TSO",
        homes: [1, 1],
        programs: |x, y| vec![vec![bulk_put(x, 1), put(y, 1)], vec![wait(y), get(x)]],
        sc: &["1 1"],
        unordered_bulk: STALE,
        in_order: STALE,
        ..PLAIN
    },
    Test {
        name: "a_late_reset_erases_a_wake_up",
        why: "rank 0 resets its flag x by a put and announces itself at y; the reset, being late, may arrive after the \
              wake-up and leave it waiting forever; a processor's own store is never that late to its own loads",
        homes: [0, 1],
        programs: |x, y| vec![vec![put(x, 0), fetch_store(y, 1), wait(x)], vec![wait(y), put(x, 1)]],
        ends: "x",
        sc: &["1 1 1"],
        late_puts: &["- 1 0", "1 1 0"],
        ..PLAIN
    },
    Test {
        name: "a_flushed_reset_erases_nothing",
        why: "the flush completes the reset before the notification, as in the queue locks' nodes",
        homes: [0, 1],
        programs: |x, y| vec![vec![put(x, 0), flush(x), fetch_store(y, 1), wait(x)], vec![wait(y), put(x, 1)]],
        ends: "x",
        sc: &["1 1 1"],
        ..PLAIN
    },
    // Store buffering: each rank writes one word, then reads the other.
    Test {
        name: "store_buffering_fetch_store",
        why: "atomic operations and gets are sequentially consistent; so are remote ones that are each polled",
        programs: |x, y| vec![vec![fetch_store(x, 1), get(y)], vec![fetch_store(y, 1), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "store_buffering_flushed_put",
        why: "a flushed put is complete; in RDMA^TSO a polled one is not, and both reads may miss",
        programs: |x, y| vec![vec![put(x, 1), flush(x), get(y)], vec![put(y, 1), flush(y), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "store_buffering_ordered_put",
        why: "an order is no flush: a get may still come ahead of the put",
        programs: |x, y| vec![vec![put(x, 1), order(x), get(y)], vec![put(y, 1), order(y), get(x)]],
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_ordered_put_then_put",
        why: "a later put does not complete an ordered one: it is late itself, and a get may come ahead of both",
        homes: [2, 2],
        programs: |x, y| {
            let further = Rank(3).at(Disp(128));
            vec![vec![put(x, 1), order(x), put(further, 1), get(y)], vec![put(y, 1), order(y), put(further, 2), get(x)]]
        },
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_stored",
        why: "a store to a word that its rank reaches directly is a put, once the rank has announced it",
        programs: |x, y| vec![vec![put(x, 1), flush(x), get(y)], vec![put(y, 1), flush(y), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "store_buffering_asymmetric",
        why: "a fence everywhere completes the puts of all ranks, so that the other rank needs no flush",
        programs: |x, y| vec![vec![put(x, 1), get(y)], vec![put(y, 1), flush(y), Call::FenceEverywhere.into(), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "store_buffering_bulk",
        why: "a flush completes bulk puts, too, before a later read of another target",
        programs: |x, y| vec![vec![bulk_put(x, 1), flush(x), get(y)], vec![bulk_put(y, 1), flush(y), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "store_buffering_put",
        why: "a get does not wait for puts to other targets; nor does it across queue pairs",
        programs: |x, y| vec![vec![put(x, 1), get(y)], vec![put(y, 1), get(x)]],
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_put_to_own_words",
        why: "local puts are late, too, like the stores of a TSO processor",
        homes: [0, 1],
        programs: |x, y| vec![vec![put(x, 1), get(y)], vec![put(y, 1), get(x)]],
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_put_to_one_target",
        why: "a get does not even wait for a put to its own target; weaker than RDMA^TSO, where it pushes the put",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), get(y)], vec![put(y, 1), get(x)]],
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    // One rank and its own put.
    Test {
        name: "own_put_then_get",
        why: "a rank need not see its own put; weaker than RDMA^TSO, where a get pushes the puts of its queue pair",
        programs: |x, _| vec![vec![put(x, 1), get(x)]],
        sc: &["1"],
        late_puts: &["0"],
        ..PLAIN
    },
    Test {
        name: "own_put_to_own_word_then_get",
        why: "nor in the local segment; a processor does see its own stores",
        homes: [0, 0],
        programs: |x, _| vec![vec![put(x, 1), get(x)]],
        sc: &["1"],
        late_puts: &["0"],
        ..PLAIN
    },
    Test {
        name: "own_flushed_put_then_get",
        why: "a flush completes the put, in the local segment, too",
        homes: [0, 0],
        programs: |x, _| vec![vec![put(x, 1), flush(x), get(x)]],
        sc: &["1"],
        ..PLAIN
    },
    Test {
        name: "own_put_then_fetch_add_on_one_word",
        why: "the addition overtakes the put, which then erases it; weaker than RDMA^TSO, which orders the two",
        programs: |x, _| vec![vec![put(x, 5), fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["5 6"],
        late_puts: &["0 5"],
        ..PLAIN
    },
    Test {
        name: "fetch_add_then_put_on_one_word",
        why: "a put is ordered after the atomic operations before it: release",
        programs: |x, _| vec![vec![fetch_add(x, 1).shown(), put(x, 5)]],
        ends: "x",
        sc: &["0 5"],
        ..PLAIN
    },
    Test {
        name: "get_then_put_on_one_word",
        why: "the get has returned before the put is posted; in RDMA^TSO, without poll or fence, it may read the put",
        programs: |x, _| vec![vec![get(x), put(x, 1)]],
        ends: "x",
        sc: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "load_buffering",
        why: "the same across two ranks; RDMA^TSO forbids it once the gets are polled",
        programs: |x, y| vec![vec![get(x), put(y, 1)], vec![get(y), put(x, 1)]],
        sc: &["0 0", "0 1", "1 0"],
        ..PLAIN
    },
    // Coherence of one word.
    Test {
        name: "coherent_reads",
        why: "a word does not go back in time; polled gets of RDMA^TSO do not either",
        programs: |x, _| vec![vec![put(x, 1)], vec![get(x), get(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "coherent_puts_of_one_rank",
        why: "two puts to one word arrive in order, as on one queue pair",
        programs: |x, _| vec![vec![put(x, 1), put(x, 2)], vec![get(x), get(x)]],
        ends: "x",
        sc: &["0 0 2", "0 1 2", "0 2 2", "1 1 2", "1 2 2", "2 2 2"],
        ..PLAIN
    },
    Test {
        name: "coherent_puts_of_two_ranks",
        why: "the readers and the final value agree on the order of the puts, as in RDMA^TSO",
        programs: |x, _| vec![vec![put(x, 1)], vec![put(x, 2)], vec![get(x), get(x)]],
        ends: "x",
        sc: &[
            "0 0 1", "0 0 2", "0 1 1", "0 1 2", "0 2 1", "0 2 2", "1 1 1", "1 1 2", "1 2 2", "2 1 1", "2 2 1", "2 2 2",
        ],
        ..PLAIN
    },
    Test {
        name: "put_then_bulk_put_on_one_word",
        why: "the later bulk put overtakes the put, which then wins; weaker than RDMA^TSO",
        programs: |x, _| vec![vec![put(x, 1), bulk_put(x, 2)]],
        ends: "x",
        sc: &["2"],
        late_puts: &["1"],
        in_order: &["1"],
        ..PLAIN
    },
    Test {
        name: "bulk_put_then_put_on_one_word",
        why: "the put overtakes the bulk put, which then wins; weaker than RDMA^TSO",
        programs: |x, _| vec![vec![bulk_put(x, 1), put(x, 2)]],
        ends: "x",
        sc: &["2"],
        unordered_bulk: &["1"],
        in_order: &["1"],
        ..PLAIN
    },
    Test {
        name: "bulk_put_then_fetch_store_on_one_word",
        why: "an atomic operation does not wait for a bulk put either; weaker than RDMA^TSO",
        programs: |x, _| vec![vec![bulk_put(x, 1), fetch_store(x, 2).shown()]],
        ends: "x",
        sc: &["1 2"],
        unordered_bulk: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "fetch_store_then_bulk_put_on_one_word",
        why: "no late operation overtakes one that was complete at its issue",
        programs: |x, _| vec![vec![fetch_store(x, 2).shown(), bulk_put(x, 1)]],
        ends: "x",
        sc: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "bulk_puts_of_two_halves_of_a_word",
        why: "a bulk put writes its bytes alone, in one step for each word, so that neither half is lost",
        programs: |x, _| vec![vec![bulk_part(x, 0xffff_ffff, 1)], vec![bulk_part(x, !0xffff_ffff, 1 << 32)]],
        ends: "x",
        sc: &["4294967297"],
        ..PLAIN
    },
    Test {
        name: "bulk_put_and_bulk_get_of_two_words",
        why: "only single words are atomic: every mixture is visible, as in RDMA^TSO, whose operations are on words",
        homes: [2, 2],
        programs: |x, y| vec![vec![bulk_put(x, 1), bulk_put(y, 1)], vec![bulk_get(x), bulk_get(y)]],
        sc: &["0 0", "0 1", "1 0", "1 1"],
        ..PLAIN
    },
    // Two words, two writers.
    Test {
        name: "two_plus_two_writes_fetch_store",
        why: "writes that are complete in program order agree on one order",
        programs: |x, y| vec![vec![fetch_store(x, 1), fetch_store(y, 2)], vec![fetch_store(y, 1), fetch_store(x, 2)]],
        ends: "xy",
        sc: &["1 2", "2 1", "2 2"],
        ..PLAIN
    },
    Test {
        name: "two_plus_two_writes_put_same_target",
        why: "and so do puts to one target, as on one queue pair of each rank",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), put(y, 2)], vec![put(y, 1), put(x, 2)]],
        ends: "xy",
        sc: &["1 2", "2 1", "2 2"],
        ..PLAIN
    },
    Test {
        name: "two_plus_two_writes_put_two_targets",
        why: "puts to two targets need not; nor need puts on two queue pairs",
        programs: |x, y| vec![vec![put(x, 1), put(y, 2)], vec![put(y, 1), put(x, 2)]],
        ends: "xy",
        sc: &["1 2", "2 1", "2 2"],
        late_puts: &["1 1"],
        ..PLAIN
    },
    Test {
        name: "puts_against_an_atomic_same_target",
        why: "a rank whose swap reads the flag also reads the data: both went to one target",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), put(y, 1)], vec![fetch_store(y, 2), get(x)]],
        ends: "y",
        sc: &["0 1", "1 1", "1 2"],
        ..PLAIN
    },
    Test {
        name: "puts_against_an_atomic_two_targets",
        why: "and need not if they went to two targets",
        programs: |x, y| vec![vec![put(x, 1), put(y, 1)], vec![fetch_store(y, 2), get(x)]],
        ends: "y",
        sc: &["0 1", "1 1", "1 2"],
        late_puts: &["0 2"],
        ..PLAIN
    },
    // Three and four ranks.
    Test {
        name: "read_to_write_causality",
        why: "a value that one rank has read is visible to all: a put takes effect for all ranks at once, as in RDMA^TSO, \
              where all but the storing processor share one memory",
        programs: |x, y| vec![vec![put(x, 1)], vec![get(x), put(y, 1)], vec![get(y), get(x)]],
        sc: &["0 0 0", "0 0 1", "0 1 0", "0 1 1", "1 0 0", "1 0 1", "1 1 1"],
        ..PLAIN
    },
    Test {
        name: "independent_reads_of_independent_writes",
        why: "two readers agree on the order of two atomic operations",
        programs: |x, y| {
            vec![vec![fetch_store(x, 1)], vec![fetch_store(y, 1)], vec![get(x), get(y)], vec![get(y), get(x)]]
        },
        sc: AGREED,
        ..PLAIN
    },
    Test {
        name: "independent_reads_of_independent_puts",
        why: "and on the order of two puts, since each takes effect for all ranks at once",
        programs: |x, y| vec![vec![put(x, 1)], vec![put(y, 1)], vec![get(x), get(y)], vec![get(y), get(x)]],
        sc: AGREED,
        ..PLAIN
    },
    // Atomic operations in two steps. Ranks 0 and 1 race for x, which rank 0 owns where its home is 0.
    Test {
        name: "increments_through_the_adapter",
        why: "two remote atomics: no update is lost, as in RDMA^TSO",
        programs: |x, _| vec![vec![fetch_add(x, 1).shown()], vec![fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["0 1 2", "1 0 2"],
        ..PLAIN
    },
    Test {
        name: "increments_with_the_owner",
        why: "an owner that goes through its processor loses one, as RDMA^TSO has it for every local atomic; one that \
              goes through its adapter, as the trait demands, does not",
        homes: [0, 0],
        programs: |x, _| vec![vec![fetch_add(x, 1).shown()], vec![fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["0 1 2", "1 0 2"],
        owner_cpu: &["0 0 1"],
        ..PLAIN
    },
    Test {
        name: "compare_and_swaps_with_the_owner",
        why: "both succeed, so that a test-and-set lock has two holders",
        homes: [0, 0],
        programs: |x, _| vec![vec![compare_and_swap(x, 0, 1).shown()], vec![compare_and_swap(x, 0, 2).shown()]],
        ends: "x",
        sc: &["0 1 1", "2 0 2"],
        owner_cpu: &["0 0 2"],
        ..PLAIN
    },
    Test {
        name: "swap_of_the_owner_and_compare_and_swap",
        why: "the owner's swap vanishes: a queue lock would lose the rank that has joined",
        homes: [0, 0],
        programs: |x, _| vec![vec![fetch_store(x, 3).shown()], vec![compare_and_swap(x, 0, 1).shown()]],
        ends: "x",
        sc: &["0 3 3", "1 0 3"],
        owner_cpu: &["0 0 1"],
        ..PLAIN
    },
    Test {
        name: "put_of_the_owner_and_fetch_add",
        why: "the owner's put vanishes, although it is no atomic operation",
        homes: [0, 0],
        programs: |x, _| vec![vec![put(x, 5)], vec![fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["0 5", "5 6"],
        hca: &["0 1"],
        owner_cpu: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "bulk_put_of_the_owner_and_fetch_add",
        why: "and so does its bulk put",
        homes: [0, 0],
        programs: |x, _| vec![vec![bulk_put(x, 5)], vec![fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["0 5", "5 6"],
        hca: &["0 1"],
        owner_cpu: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "failed_compare_and_swap_and_put_of_the_owner",
        why: "a compare-and-swap that fails writes nothing, so that it erases nothing",
        homes: [0, 0],
        programs: |x, _| vec![vec![put(x, 5)], vec![compare_and_swap(x, 7, 1).shown()]],
        ends: "x",
        sc: &["0 5", "5 5"],
        ..PLAIN
    },
    Test {
        name: "put_and_fetch_add_through_the_adapter",
        why: "the addition overwrites the put that came between its halves, as in RDMA^TSO, whose atomics are atomic with \
              atomics only",
        programs: |x, _| vec![vec![put(x, 5)], vec![fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["0 5", "5 6"],
        hca: &["0 1"],
        owner_cpu: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "put_and_compare_and_swap_through_the_adapter",
        why: "the same for a compare-and-swap that stores",
        programs: |x, _| vec![vec![put(x, 5)], vec![compare_and_swap(x, 0, 1).shown()]],
        ends: "x",
        sc: &["0 5", "5 5"],
        hca: &["0 1"],
        owner_cpu: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "put_and_failed_compare_and_swap_through_the_adapter",
        why: "a failed compare-and-swap writes nothing, so no put is lost: a put can release a test-and-set lock",
        programs: |x, _| vec![vec![put(x, 5)], vec![compare_and_swap(x, 7, 1).shown()]],
        ends: "x",
        sc: &["0 5", "5 5"],
        ..PLAIN
    },
    Test {
        name: "swap_and_fetch_add_through_the_adapter",
        why: "a swap is an atomic: it writes a word that others change by atomics, where puts are not atomic",
        programs: |x, _| vec![vec![fetch_store(x, 5).shown()], vec![fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["0 5 6", "1 0 5"],
        ..PLAIN
    },
    Test {
        name: "reads_of_the_owner_between_the_halves",
        why: "a read between the halves returns the old word, and later reads never go back in time",
        homes: [0, 0],
        programs: |x, _| vec![vec![get(x), get(x)], vec![fetch_add(x, 1)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "store_buffering_through_own_atomics",
        why: "with or without halves, on any path of the owner: an atomic operation is complete when it returns",
        homes: [0, 1],
        programs: |x, y| vec![vec![fetch_add(x, 1), get(y)], vec![fetch_add(y, 1), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    // Started operations take effect at one moment between start and finish, in an unspecified order.
    Test {
        name: "started_additions_to_one_word",
        why: "both take effect once, in some order; RDMA^TSO keeps the order of their start on one queue pair",
        programs: |x, _| vec![vec![start_add(0, x), start_add(1, x), finish(0, x), finish(1, x)]],
        ends: "x",
        sc: &["0 1 2"],
        unordered_bulk: &["1 0 2"],
        ..PLAIN
    },
    Test {
        name: "started_additions_of_two_ranks_to_one_word",
        why: "an operation is atomic whenever it takes effect: no addition is lost",
        programs: |x, _| vec![vec![start_add(0, x), finish(0, x)], vec![start_add(0, x), finish(0, x)]],
        ends: "x",
        sc: &["0 1 2", "1 0 2"],
        ..PLAIN
    },
    Test {
        name: "started_addition_and_get_before_it_is_finished",
        why: "a get does not wait for what was started before it, not even on its word; weaker than RDMA^TSO, where both are \
              on one queue pair",
        programs: |x, _| vec![vec![start_add(0, x), get(x), finish(0, x), get(x)]],
        sc: &["1 0 1"],
        late_puts: &["0 0 1"],
        ..PLAIN
    },
    Test {
        name: "message_passing_started_same_target",
        why: "two started operations on words of one target are not ordered; weaker than RDMA^TSO",
        homes: [2, 2],
        unordered_bulk: &["0 0 1 0"],
        ..MESSAGE_PASSING_STARTED
    },
    Test {
        name: "message_passing_started_two_targets",
        why: "nor are those on words of two targets, on any network, as on two queue pairs",
        late_puts: &["0 0 1 0"],
        ..MESSAGE_PASSING_STARTED
    },
    Test {
        name: "message_passing_started_and_finished",
        why: "a finished operation is complete, like a blocking one",
        programs: |x, y| vec![vec![start_add(0, x), finish(0, x), start_add(0, y), finish(0, y)], vec![get(y), get(x)]],
        sc: &["0 0 0 0", "0 0 0 1", "0 0 1 1"],
        ..PLAIN
    },
    Test {
        name: "message_passing_started_then_put_same_target",
        why: "a put may overtake an operation that started before it; weaker than RDMA^TSO",
        homes: [2, 2],
        programs: |x, y| vec![vec![start_add(0, x), put(y, 1), finish(0, x)], vec![get(y), get(x)]],
        sc: &["0 0 0", "0 0 1", "0 1 1"],
        unordered_bulk: &["0 1 0"],
        ..PLAIN
    },
    Test {
        name: "message_passing_put_then_started_same_target",
        why: "and a started operation may overtake a put; weaker than RDMA^TSO",
        homes: [2, 2],
        programs: |x, y| vec![vec![put(x, 1), start_add(0, y), finish(0, y)], vec![get(y), get(x)]],
        sc: &["0 0 0", "0 0 1", "0 1 1"],
        unordered_bulk: &["0 1 0"],
        ..PLAIN
    },
    Test {
        name: "message_passing_started_then_flush_then_put",
        why: "a flush completes started operations, too, before any later operation",
        programs: |x, y| vec![vec![start_add(0, x), flush(x), put(y, 1), finish(0, x)], vec![get(y), get(x)]],
        sc: &["0 0 0", "0 0 1", "0 1 1"],
        ..PLAIN
    },
    Test {
        name: "message_passing_started_then_flush_of_the_flag_then_put",
        why: "a flush of one target does not complete operations on another",
        programs: |x, y| vec![vec![start_add(0, x), flush(y), put(y, 1), finish(0, x)], vec![get(y), get(x)]],
        sc: &["0 0 0", "0 0 1", "0 1 1"],
        late_puts: &["0 1 0"],
        ..PLAIN
    },
    Test {
        name: "started_addition_then_flush_then_put_on_one_word",
        why: "the put comes after the addition that the flush has completed, and remains",
        homes: [2, 2],
        programs: |x, _| vec![vec![start_add(0, x), flush(x), put(x, 5), finish(0, x)]],
        ends: "x",
        sc: &["0 5"],
        ..PLAIN
    },
    Test {
        name: "started_addition_then_put_on_one_word",
        why: "without the flush the addition may come after the put",
        homes: [2, 2],
        programs: |x, _| vec![vec![start_add(0, x), put(x, 5), finish(0, x)]],
        ends: "x",
        sc: &["0 5"],
        unordered_bulk: &["5 6"],
        ..PLAIN
    },
    Test {
        name: "started_put_on_one_word",
        why: "a started put has the result 0, and is complete when it is finished",
        programs: |x, _| vec![vec![start(0, x, WordOp::Put(7)), finish(0, x), get(x)]],
        sc: &["0 7"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_started",
        why: "ranks that read before they have finished their own writes may both miss the other's write",
        programs: |x, y| vec![vec![start_add(0, x), get(y), finish(0, x)], vec![start_add(0, y), get(x), finish(0, y)]],
        sc: &["0 0 1 0", "1 0 0 0", "1 0 1 0"],
        late_puts: &["0 0 0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_started_and_finished",
        why: "and ranks that read afterwards may not",
        programs: |x, y| vec![vec![start_add(0, x), finish(0, x), get(y)], vec![start_add(0, y), finish(0, y), get(x)]],
        sc: &["0 0 0 1", "0 1 0 0", "0 1 0 1"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_started_and_flushed",
        why: "a flush has the same effect",
        programs: |x, y| vec![vec![start_add(0, x), flush_all(), get(y)], vec![start_add(0, y), flush(y), get(x)]],
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "load_buffering_started",
        why: "a started get may read a write that depends on a later put of its own rank",
        programs: |x, y| vec![vec![start(0, x, WordOp::Get), put(y, 1), finish(0, x)], vec![get(y), put(x, 1)]],
        sc: &["0 0", "0 1", "1 0"],
        late_puts: &["1 1"],
        ..PLAIN
    },
    Test {
        name: "started_addition_and_put_through_the_adapter",
        why: "a started operation takes two steps where other atomics do",
        programs: |x, _| vec![vec![put(x, 5)], vec![start_add(0, x), finish(0, x)]],
        ends: "x",
        sc: &["0 5", "5 6"],
        hca: &["0 1"],
        owner_cpu: &["0 1"],
        ..PLAIN
    },
    Test {
        name: "a_test_of_a_started_operation",
        why: "a test may come before or after the operation's effect; on a consistent network, it comes after",
        programs: |x, _| vec![vec![start_add(0, x), Step::from(Call::Test { request: 0 }).shown(), finish(0, x)]],
        sc: &["1 0"],
        late_puts: &["0 0"],
        ..PLAIN
    },
    // Loads and stores by the processor, of words that it reaches. RDMA^TSO uses a TSO processor, whose stores to all
    // words are in one order.
    Test {
        name: "store_buffering_local",
        why: "a store is as late as a put",
        programs: |x, y| vec![vec![store(x, 1), load(y)], vec![store(y, 1), load(x)]],
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_local_flushed",
        why: "a flush completes the announced stores of the rank",
        programs: |x, y| {
            vec![vec![store(x, 1), stored(), flush(x), load(y)], vec![store(y, 1), stored(), flush_all(), load(x)]]
        },
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "store_buffering_local_not_announced",
        why: "but no others: an announcement covers only the stores before it",
        programs: |x, y| vec![vec![store(x, 1), flush(x), load(y)], vec![stored(), store(y, 1), flush(y), load(x)]],
        sc: SEEN,
        late_puts: &["0 0"],
        ..PLAIN
    },
    Test {
        name: "store_buffering_local_asymmetric",
        why: "a fence everywhere completes all ranks' stores, announced or not: the two sides of an accumulate's bias",
        programs: |x, y| {
            vec![vec![store(x, 1), load(y)], vec![fetch_store(y, 1), Call::FenceEverywhere.into(), get(x)]]
        },
        sc: SEEN,
        ..PLAIN
    },
    Test {
        name: "message_passing_local_same_target",
        why: "stores to one target are in order with each other and with puts",
        homes: [2, 2],
        programs: |x, y| vec![vec![store(x, 1), put(y, 1)], vec![load(y), load(x)]],
        sc: PASSED,
        ..PLAIN
    },
    Test {
        name: "message_passing_local_two_targets",
        why: "to two targets they need not be; stronger in RDMA^TSO",
        programs: |x, y| vec![vec![store(x, 1), store(y, 1)], vec![load(y), load(x)]],
        sc: PASSED,
        late_puts: STALE,
        ..PLAIN
    },
    Test {
        name: "own_store_then_load",
        why: "a processor sees its own stores at once",
        programs: |x, _| vec![vec![store(x, 1), store(x, 2), load(x)]],
        ends: "x",
        sc: &["2 2"],
        ..PLAIN
    },
    Test {
        name: "own_store_then_get",
        why: "a get waits for a store no more than for a put",
        programs: |x, _| vec![vec![store(x, 1), get(x)]],
        sc: &["1"],
        late_puts: &["0"],
        ..PLAIN
    },
    Test {
        name: "own_store_then_fetch_add_on_one_word",
        why: "an atomic operation on a word comes after this rank's stores to it",
        programs: |x, _| vec![vec![store(x, 5), fetch_add(x, 1).shown()]],
        ends: "x",
        sc: &["5 6"],
        ..PLAIN
    },
];

impl Test {
    fn litmus(&self, homes: [u32; 2]) -> Litmus {
        let [x, y] = homes.map(Rank);
        let (x, y) = (x.at(Disp(0)), y.at(Disp(64)));
        let ends = self.ends.chars().map(|word| if word == 'x' { x } else { y }).collect();
        Litmus { programs: (self.programs)(x, y), ends }
    }

    fn outcomes(&self, homes: [u32; 2], network: Network) -> BTreeSet<String> {
        self.litmus(homes).outcomes(network)
    }

    /// The expected outcomes of the table.
    fn expected(&self, network: Network) -> BTreeSet<String> {
        let parts: &[&[&str]] = match network {
            Network::Sc => &[self.sc],
            Network::Hca => &[self.sc, self.hca],
            Network::LatePuts => &[self.sc, self.late_puts],
            Network::UnorderedBulk | Network::OrderedBulk => &[self.sc, self.late_puts, self.unordered_bulk],
            Network::HcaOwnerCpu => &[self.sc, self.owner_cpu],
        };
        let mut all: BTreeSet<String> = parts.iter().copied().flatten().map(|&outcome| outcome.to_owned()).collect();
        assert_eq!(
            all.len(),
            parts.iter().map(|part| part.len()).sum::<usize>(),
            "{}: an outcome occurs twice",
            self.name
        );
        if network == Network::OrderedBulk {
            for &outcome in self.in_order {
                assert!(!self.sc.contains(&outcome) && all.remove(outcome), "{}: {outcome}", self.name);
            }
        }
        all
    }
}

#[test]
fn each_model_has_exactly_the_outcomes_of_the_table() {
    let mut wrong = Vec::new();
    for test in TESTS {
        for network in Network::ALL {
            let (seen, expected) = (test.outcomes(test.homes, network), test.expected(network));
            if seen != expected {
                wrong.push(format!("{} on {network}: {seen:?}, not {expected:?} ({})", test.name, test.why));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names: HashSet<&str> = TESTS.iter().map(|test| test.name).collect();
    assert_eq!(names.len(), TESTS.len(), "two tests have one name");
}

/// The litmus tests of the conformance suite state, for each outcome, whether the trait forbids it. No model may have a
/// forbidden outcome, whatever the words' homes, and the weakest model must have all others.
#[test]
fn the_conformance_suite_and_the_models_forbid_the_same() {
    for known in rmalab_atomics::conformance::litmus::<Mapped>() {
        let test = TESTS.iter().find(|test| test.name == known.name);
        let test = test.unwrap_or_else(|| panic!("{} has no counterpart", known.name));
        let ran = World::threads(known.roles.max(2)).run(|ra| (known.run)(ra, 1).expect("a run")).expect("a world");
        let outcomes = |forbidden: bool| -> BTreeSet<String> {
            let of_kind = ran[0].outcomes.iter().filter(|outcome| outcome.forbidden == forbidden);
            let values = |reads: &str| -> Vec<String> {
                reads.split(' ').map(|read| read.split_once('=').expect("name=value").1.to_owned()).collect()
            };
            of_kind.map(|outcome| values(&outcome.reads).join(" ")).collect()
        };
        let (allowed, forbidden) = (outcomes(false), outcomes(true));
        let ranks = known.roles + 2;
        for homes in (0..ranks).flat_map(|x| (0..ranks).map(move |y| [x, y])) {
            // If a test fixes whether the words share a home, its verdict applies only to that case.
            if homes[0] == homes[1] && test.homes[0] != test.homes[1] && test.name.ends_with("two_targets")
                || homes[0] != homes[1] && test.name.ends_with("same_target")
            {
                continue;
            }
            for network in Network::ALL {
                let seen = test.outcomes(homes, network);
                let wrong: Vec<&String> = seen.intersection(&forbidden).collect();
                assert!(wrong.is_empty(), "{} on {network}, homes {homes:?}: {wrong:?}", test.name);
            }
            assert_eq!(test.outcomes(homes, Network::UnorderedBulk), allowed, "{}, homes {homes:?}", test.name);
        }
    }
}

/// The memory model of the trait in a second form: as an order of effects.
///
/// Every call has one effect. A run is any order of all effects that respects [`ordered`]. Where puts are not atomic
/// with atomics, an atomic has two effects, a read and a write. No other atomic on its word has an effect between them.
mod declared {
    use super::*;

    /// Returns whether the effect of `first` must precede the effect of `second`, a later call of the same rank.
    /// `same_bulk` is true if both are words of one bulk put.
    pub(super) fn ordered(network: Network, first: Call, second: Call, same_bulk: bool) -> bool {
        let weak = matches!(network, Network::LatePuts | Network::UnorderedBulk | Network::OrderedBulk);
        let late = |call: Call| match call {
            Call::Put { .. } | Call::Start { .. } => weak,
            Call::BulkPut { .. } => matches!(network, Network::UnorderedBulk | Network::OrderedBulk),
            _ => false,
        };
        match (first, second) {
            _ if !late(first) => true,
            (Call::Put { at, .. } | Call::BulkPut { at, .. } | Call::Start { at, .. }, Call::Flush { target }) => {
                target.is_none_or(|target| target == at.rank)
            }
            (Call::Start { request, .. }, Call::Finish { request: finished, .. }) => request == finished,
            (Call::Put { at, .. }, Call::Put { at: then, .. }) => at.rank == then.rank,
            (
                Call::Put { at, .. } | Call::BulkPut { at, .. },
                Call::Put { at: then, .. } | Call::BulkPut { at: then, .. },
            ) => network == Network::OrderedBulk && at.rank == then.rank && !same_bulk,
            (
                Call::Put { at, .. } | Call::Start { at, .. },
                Call::Put { at: then, .. } | Call::Start { at: then, .. },
            ) => network == Network::LatePuts && at.rank == then.rank,
            _ => false,
        }
    }

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Run {
        done: Vec<bool>,
        words: [u64; 2],
        answers: Vec<Option<u64>>,
        /// The atomics that have read but not written.
        halfway: Vec<bool>,
    }

    /// The outcomes of a test whose words are `x` and `y`, both of them read at the end.
    pub(super) fn outcomes(test: &Litmus, network: Network) -> BTreeSet<String> {
        let calls: Vec<(usize, Call)> = test
            .programs
            .iter()
            .enumerate()
            .flat_map(|(rank, steps)| steps.iter().map(move |s| (rank, s.call)))
            .collect();
        let none = vec![false; calls.len()];
        let start = Run { done: none.clone(), words: [0; 2], answers: vec![None; calls.len()], halfway: none };
        // A started operation counts as its operation, and its finish shows the result.
        let effect = |call| match call {
            Call::Start { at, op, .. } => Call::new(at, op),
            call => call,
        };
        let atomic = |call| {
            matches!(effect(call), Call::FetchAdd { .. } | Call::FetchStore { .. } | Call::CompareAndSwap { .. })
        };
        let started = |before: usize, rank: usize, request: u32| {
            let is_it = |&(of, call): &(usize, Call)| {
                of == rank && matches!(call, Call::Start { request: number, .. } if number == request)
            };
            calls[..before].iter().rposition(is_it).expect("an operation is started before it is finished")
        };
        let (mut known, mut open, mut ends) = (HashSet::new(), vec![start], BTreeSet::new());
        while let Some(run) = open.pop() {
            if !known.insert(run.clone()) {
                continue;
            }
            if run.done.iter().all(|&done| done) {
                let shown = test.programs.iter().flatten().zip(&run.answers).filter(|(step, _)| step.shown);
                let answers = shown.map(|(_, answer)| answer.expect("an answer").to_string());
                ends.insert(answers.chain(run.words.map(|word| word.to_string())).collect::<Vec<_>>().join(" "));
            }
            for (i, &(rank, call)) in calls.iter().enumerate().filter(|&(i, _)| !run.done[i]) {
                let before = calls[..i].iter().enumerate().filter(|&(_, &(other, _))| other == rank);
                let further = |&(_, call): &(usize, Call)| matches!(call, Call::BulkPut { first: false, .. });
                let same_bulk = |j: usize| calls[j + 1..=i].iter().all(further);
                let mut before = before.filter(|&(j, _)| !run.done[j]);
                if before.any(|(j, &(_, first))| ordered(network, first, call, same_bulk(j))) {
                    continue;
                }
                let mut after = run.clone();
                if let Call::Finish { request, .. } | Call::Test { request } = call {
                    let start = started(i, rank, request);
                    after.answers[i] = match (call, calls[start].1) {
                        (Call::Test { .. }, _) => Some(u64::from(run.done[start])),
                        (_, Call::Start { op, .. }) => run.answers[start].map(|old| op.result(old)),
                        _ => None,
                    };
                } else if let Some(at) = call.address(Rank(rank as u32)) {
                    let word = &mut after.words[usize::from(at.disp != Disp(0))];
                    if network == Network::Hca && atomic(call) {
                        let same = |other: usize| calls[other].1.address(Rank(calls[other].0 as u32)) == Some(at);
                        if (0..calls.len()).any(|other| other != i && run.halfway[other] && same(other)) {
                            continue;
                        }
                        after.halfway[i] = !run.halfway[i];
                        if after.halfway[i] {
                            after.answers[i] = Some(*word);
                            open.push(after);
                            continue;
                        }
                    }
                    let old = *after.answers[i].get_or_insert(*word);
                    *word = match effect(call) {
                        Call::FetchAdd { value, .. } => old.wrapping_add(value),
                        Call::FetchStore { value, .. } | Call::Put { value, .. } => value,
                        Call::CompareAndSwap { expected, desired, .. } if old == expected => desired,
                        Call::BulkPut { mask, value, .. } => *word & !mask | value & mask,
                        _ => *word,
                    };
                }
                after.done[i] = true;
                open.push(after);
            }
        }
        ends
    }
}

/// Compares the models with the declaration on small random programs: the outcomes are equal.
#[test]
fn the_models_are_what_the_memory_model_says() {
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut beyond_sc, mut in_order, mut of_two_words) = (0, 0, 0);
    for number in 0..600 {
        let (ranks, steps) = [(1, 6), (2, 4), (3, 2)][number % 3];
        let words = [Rank(below(4) as u32).at(Disp(0)), Rank(below(4) as u32).at(Disp(64))];
        let (mut value, mut requests) = (0, 0);
        let mut step = |started: &mut Vec<(u32, Address)>, before: Option<&Step>| {
            let at = words[below(2) as usize];
            value += 1;
            if let Some(Call::BulkPut { at, first: true, .. }) = before.map(|step| step.call)
                && words[0].rank == words[1].rank
                && below(3) > 0
            {
                return bulk_further(if at == words[0] { words[1] } else { words[0] }, value);
            }
            match below(13) {
                10 | 11 => {
                    let op = match below(5) {
                        0 => WordOp::FetchAdd(16),
                        1 => WordOp::FetchStore(value),
                        2 => WordOp::CompareAndSwap { expected: below(2) * (value - 1), desired: value },
                        3 => WordOp::Get,
                        _ => WordOp::Put(value),
                    };
                    requests += 1;
                    started.push((requests, at));
                    start(requests, at, op)
                }
                12 if !started.is_empty() => {
                    let index = below(started.len() as u64) as usize;
                    if below(4) == 0 {
                        return Step::from(Call::Test { request: started[index].0 }).shown();
                    }
                    let (request, at) = started.swap_remove(index);
                    finish(request, at)
                }
                0 => fetch_add(at, 16).shown(),
                1 => fetch_store(at, value).shown(),
                2 => compare_and_swap(at, below(2) * (value - 1), value).shown(),
                3 | 4 => get(at),
                5 | 6 => put(at, value),
                7 => bulk_part(at, [0xff, !0xff, u64::MAX][below(3) as usize], value | value << 8),
                8 => bulk_get(at),
                _ if below(4) == 0 => flush_all(),
                _ => flush(at),
            }
        };
        let mut program = || -> Vec<Step> {
            let mut started = Vec::new();
            (0..steps).fold(Vec::new(), |mut program: Vec<Step>, _| {
                program.push(step(&mut started, program.last()));
                program
            })
        };
        let programs = (0..ranks).map(|_| program()).collect();
        let test = Litmus { programs, ends: words.to_vec() };
        let is_further = |step: &Step| matches!(step.call, Call::BulkPut { first: false, .. });
        let has_two_words = test.programs.iter().flatten().any(is_further);
        let on = |network| test.outcomes(network);
        let sc = on(Network::Sc);
        for network in [Network::Sc, Network::LatePuts, Network::UnorderedBulk, Network::OrderedBulk, Network::Hca] {
            assert_eq!(on(network), declared::outcomes(&test, network), "program {number} on {network}: {test:?}");
        }
        assert!(sc.is_subset(&on(Network::LatePuts)) && sc.is_subset(&on(Network::HcaOwnerCpu)));
        assert!(on(Network::LatePuts).is_subset(&on(Network::UnorderedBulk)));
        let (ordered, unordered) = (on(Network::OrderedBulk), on(Network::UnorderedBulk));
        assert!(sc.is_subset(&ordered) && ordered.is_subset(&unordered));
        beyond_sc += usize::from(unordered != sc);
        in_order += usize::from(ordered != unordered);
        of_two_words += usize::from(has_two_words && ordered != sc && ordered != unordered);
    }
    assert!(beyond_sc > 50, "only {beyond_sc} programs had outcomes beyond sc");
    assert!(in_order > 20, "only {in_order} programs had fewer outcomes with ordered puts");
    assert!(of_two_words > 2, "only {of_two_words} of them had a bulk put of two words");
}
