//! Correct locks that are unlike the workspace's locks. Each has the flushes that late puts need.
//!
//! Some papers leave a value at rest, such as the last victim. The release clears it where a compare-and-swap by the
//! rank that left it is enough. Otherwise the lock declares that it keeps the value.

use std::time::Duration;

use rmalab_atomics::{Address, Rank, Result, Until};
use rmalab_locks::qnode::{NIL, rank_of};
use rmalab_verify::subject::Holds::{Number, Pointer};

use crate::protocol::{Memory, Protocol, Side, Words, lock};
use crate::{BOTH, Entry, LATE, SC, holds};

/// Two ranks.
const TWO: &[&str] = &["2Wx1", "2Wx2"];
/// Three ranks, too.
const THREE: &[&str] = &["2Wx1", "2Wx2", "3Wx1"];
/// Readers and writers.
const READERS: &[&str] = &["2Wx1", "2Wx2", "1R1Wx2", "2R1Wx1"];

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        holds("bakery", THREE, BOTH, || lock("bakery", Bakery { flushes: true })),
        holds("bakery-without-flushes-sc", THREE, SC, || lock("bakery", Bakery { flushes: false })),
        holds("filter", THREE, BOTH, || lock("filter", Filter)),
        holds("lamport-fast", THREE, BOTH, || lock("lamport-fast", LamportFast)),
        holds("clh", THREE, BOTH, || lock("clh", Clh)),
        holds("graunke-thakkar", THREE, BOTH, || lock("graunke-thakkar", GraunkeThakkar { flushes: true })),
        holds("graunke-thakkar-without-flush-sc", THREE, SC, || {
            lock("graunke-thakkar", GraunkeThakkar { flushes: false })
        }),
        holds("hemlock", THREE, BOTH, || lock("hemlock", Hemlock)),
        holds("tournament", THREE, BOTH, || lock("tournament", Tournament)),
        holds("szymanski", TWO, BOTH, || lock("szymanski", Szymanski { tells_loops_apart: false })),
        holds("szymanski-told-apart", TWO, BOTH, || lock("szymanski", Szymanski { tells_loops_apart: true })),
        holds("dekker", TWO, BOTH, || lock("dekker", Dekker)),
        holds("dijkstra", THREE, BOTH, || lock("dijkstra", Dijkstra)),
        holds("kessels", TWO, BOTH, || lock("kessels", Kessels)),
        holds("burns-lynch", THREE, BOTH, || lock("burns-lynch", BurnsLynch)),
        holds("sleeping-ticket", THREE, BOTH, || lock("sleeping-ticket", SleepingTicket)),
        holds("free-list", THREE, BOTH, || lock("free-list", FreeList { tag: 1 })),
        holds("seqlock", READERS, BOTH, || lock("seqlock", Seqlock)),
        // Two loops of its writer begin with the same call after a pause.
        holds("bitmap", READERS, BOTH, || lock("bitmap", Bitmap { tells_loops_apart: false })),
        holds("bitmap-told-apart", READERS, BOTH, || lock("bitmap", Bitmap { tells_loops_apart: true })),
        holds("reads-then-waits", &["2Wx1", "1R1Wx2", "2R1Wx1"], BOTH, || lock("reads-then-waits", ReadsThenWaits)),
        holds("courtois", READERS, BOTH, || lock("courtois", Courtois)),
        holds("backoff", THREE, BOTH, || lock("backoff", Backoff)),
        holds("looks-elsewhere", &["3Wx1", "3Wx2"], BOTH, || lock("looks-elsewhere", LooksElsewhere)),
        holds("polls-then-queues", TWO, BOTH, || lock("polls-then-queues", PollsThenQueues(150))),
        holds("yields-then-insists", TWO, BOTH, || lock("yields-then-insists", YieldsThenInsists(150)))
            .at_most(10_000)
            .today("limit: "),
        holds("yields-1000-then-insists", TWO, BOTH, || lock("yields-then-insists", YieldsThenInsists(1_000)))
            .at_most(10_000)
            .today("limit: "),
        holds("polls-3-then-queues", TWO, BOTH, || lock("polls-then-queues", PollsThenQueues(3))),
        holds("yields-3-then-insists", TWO, BOTH, || lock("yields-then-insists", YieldsThenInsists(3))),
        holds("counts-polls-shown", TWO, BOTH, || lock("counts-polls", CountsPolls::<true>)),
        holds("counts-polls-hidden", TWO, BOTH, || lock("counts-polls", CountsPolls::<false>)),
        holds("backoff-by-clock", TWO, BOTH, || lock("backoff-by-clock", BackoffByClock)).today("unsound: "),
        holds("retries-after-deadline", THREE, BOTH, || lock("retries", RetriesAfterDeadline)),
        holds("misnamed-words", THREE, BOTH, || lock("misnamed", Misnamed)),
        holds("asymmetric-dekker", TWO, LATE, || lock("asymmetric-dekker", AsymmetricDekker)),
    ]
}

/// L. Lamport, "A New Solution of Dijkstra's Concurrent Programming Problem", CACM 17(8), 1974.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Bakery {
    pub(crate) flushes: bool,
}

impl Protocol for Bakery {
    const EACH: Words = &[("choosing", Number), ("number", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let flush = || if self.flushes { side.flush(side.rank()) } else { Ok(()) };
        side.put(side.own(0), 1)?;
        flush()?;
        let mut number = 0;
        for other in side.others() {
            number = number.max(side.get(side.of(other, 1))?);
        }
        number += 1;
        side.put(side.own(1), number)?;
        side.put(side.own(0), 0)?;
        flush()?;
        for other in side.others() {
            side.poll_zero(side.of(other, 0))?;
            side.poll(side.of(other, 1), |theirs| theirs == 0 || (theirs, other) > (number, side.rank()))?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(1), 0)
    }
}

/// G. L. Peterson, "Myths about the Mutual Exclusion Problem", IPL 12(3), 1981: the lock for n ranks.
#[derive(Clone, Copy, Default, Debug)]
struct Filter;

impl Protocol for Filter {
    const HOME: Words = &[("victim1", Pointer), ("victim2", Pointer), ("victim3", Pointer)];
    const EACH: Words = &[("level", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        for level in 1..side.ranks().count() as u64 {
            side.write(side.own(0), level)?;
            let victim = side.home(level - 1);
            side.write(victim, side.me())?;
            'wait: while side.get(victim)? == side.me() {
                for other in side.others() {
                    if side.get(side.of(other, 0))? >= level {
                        side.pause(1)?;
                        continue 'wait;
                    }
                }
                break;
            }
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        for level in 1..side.ranks().count() as u64 {
            side.compare_and_swap(side.home(level - 1), side.me(), NIL)?;
        }
        side.put(side.own(0), 0)
    }
}

/// L. Lamport, "A Fast Mutual Exclusion Algorithm", ACM TOCS 5(1), 1987.
#[derive(Clone, Copy, Default, Debug)]
struct LamportFast;

impl Protocol for LamportFast {
    const HOME: Words = &[("x", Pointer), ("y", Pointer)];
    const EACH: Words = &[("b", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (x, y) = (side.home(0), side.home(1));
        loop {
            side.write(side.own(0), 1)?;
            side.write(x, side.me())?;
            if side.get(y)? == NIL {
                side.write(y, side.me())?;
                if side.get(x)? == side.me() {
                    return Ok(());
                }
                side.write(side.own(0), 0)?;
                for other in side.others() {
                    side.poll_zero(side.of(other, 0))?;
                }
                if side.get(y)? == side.me() {
                    return Ok(());
                }
            } else {
                side.write(side.own(0), 0)?;
            }
            side.poll_zero(y)?;
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.compare_and_swap(side.home(0), side.me(), NIL)?;
        side.write(side.home(1), NIL)?;
        side.put(side.own(0), 0)
    }
}

/// T. Craig, "Building FIFO and Priority-Queueing Spin Locks from Atomic Swap", TR 93-02-02, Univ. of Washington, 1993;
/// P. Magnusson, A. Landin, E. Hagersten, "Queue Locks on Cache Coherent Multiprocessors", IPPS 1994. A rank polls its
/// predecessor's node, and takes that node over.
#[derive(Clone, Copy, Default, Debug)]
struct Clh;

#[derive(Default, Debug)]
struct ClhNodes {
    /// The rank's node, once it is not the node in its own memory.
    mine: Option<u64>,
    before: u64,
}

/// The word of a node. Nil is the node with which the queue begins, at the home.
fn pending(side: &Side<'_, ClhNodes>, node: u64) -> Address {
    if node == NIL { side.home(1) } else { side.of(rank_of(node), 0) }
}

impl Protocol for Clh {
    const HOME: Words = &[("tail", Pointer), ("pending", Number)];
    const EACH: Words = &[("pending_of", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("tail", u64::MAX)];
    type Memo = ClhNodes;

    fn acquire(self, side: &mut Side<'_, ClhNodes>) -> Result<()> {
        let mine = side.memo.mine.unwrap_or(side.me());
        side.write(pending(side, mine), 1)?;
        let before = side.fetch_store(side.home(0), mine)?;
        side.poll_zero(pending(side, before))?;
        *side.memo = ClhNodes { mine: Some(mine), before };
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ClhNodes>) -> Result<()> {
        let ClhNodes { mine, before } = *side.memo;
        side.memo.mine = Some(before);
        side.put(pending(side, mine.expect("it has acquired")), 0)
    }
}

/// G. Graunke, S. Thakkar, "Synchronization Algorithms for Shared-Memory Multiprocessors", IEEE Computer 23(6), 1990: a
/// rank polls its predecessor's bit until it has changed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GraunkeThakkar {
    /// The rank's last bit is complete before the rank comes again.
    pub(crate) flushes: bool,
}

impl Protocol for GraunkeThakkar {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("bit", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("tail", u64::MAX), ("bit", 1)];
    /// The rank's bit.
    type Memo = u64;

    fn acquire(self, side: &mut Side<'_, u64>) -> Result<()> {
        if self.flushes {
            side.flush(side.rank())?;
        }
        let before = side.fetch_store(side.home(0), *side.memo << 32 | side.me())?;
        // If this rank was the last one, it has left.
        if before != NIL && before as u32 != side.me() as u32 {
            side.poll(side.of(rank_of(before), 0), |bit| bit != before >> 32)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, u64>) -> Result<()> {
        *side.memo ^= 1;
        side.put(side.own(0), *side.memo)
    }
}

/// D. Dice, A. Kogan, "Hemlock: Compact and Scalable Mutual Exclusion", SPAA 2021.
#[derive(Clone, Copy, Default, Debug)]
struct Hemlock;

impl Protocol for Hemlock {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("grant", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            let grant = side.of(rank_of(before), 0);
            side.poll(grant, |word| word != 0)?;
            side.put(grant, 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? != side.me() {
            side.write(side.own(0), 1)?;
            side.wait_until(side.own(0).disp, Until::Eq(0))?;
        }
        Ok(())
    }
}

/// G. L. Peterson, M. J. Fischer, "Economical Solutions for the Critical Section Problem in a Distributed System", STOC
/// 1977: a tree of locks for two, here for 4 ranks.
#[derive(Clone, Copy, Default, Debug)]
struct Tournament;

impl Tournament {
    /// The nodes from the leaf to the root: the side, and the words of both sides' flags and of the turn.
    fn path<M>(side: &Side<'_, M>) -> [(u64, [Address; 2], Address); 2] {
        // Ranks 0 and 1 meet at the root.
        let leaf = [4, 6, 5, 7][side.rank().index()];
        [leaf, leaf / 2].map(|from: u64| {
            let first = (from / 2 - 1) * 3;
            (from % 2, [side.home(first), side.home(first + 1)], side.home(first + 2))
        })
    }
}

impl Protocol for Tournament {
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        for (mine, flags, turn) in Tournament::path(side) {
            side.put(flags[mine as usize], 1)?;
            side.write(turn, mine + 1)?;
            while side.get(flags[1 - mine as usize])? != 0 && side.get(turn)? == mine + 1 {
                side.pause(1)?;
            }
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        for (mine, flags, turn) in Tournament::path(side).into_iter().rev() {
            side.compare_and_swap(turn, mine + 1, 0)?;
            // The next rank of this side must not find its flag cleared later.
            side.write(flags[mine as usize], 0)?;
        }
        Ok(())
    }
}

/// B. K. Szymanski, "A Simple Solution to Lamport's Concurrent Programming Problem with Linear Wait", ICS 1988.
#[derive(Clone, Copy, Default, Debug)]
struct Szymanski {
    /// True if rounds of some loops also make a call without effect, so that no two loops are alike.
    tells_loops_apart: bool,
}

impl Protocol for Szymanski {
    const EACH: Words = &[("flag", Number), ("unused1", Number), ("unused2", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let any = |value| -> Result<bool> {
            for other in side.others() {
                if side.get(side.of(other, 0))? == value {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        side.write(side.own(0), 1)?;
        for other in side.others() {
            side.poll(side.of(other, 0), |flag| flag <= 2)?;
        }
        side.write(side.own(0), 3)?;
        if any(1)? {
            side.write(side.own(0), 2)?;
            while !any(4)? {
                side.pause(1)?;
                if self.tells_loops_apart {
                    side.get(side.own(1))?;
                }
            }
        }
        side.write(side.own(0), 4)?;
        for lower in side.others().filter(|&other| other < side.rank()) {
            while side.get(side.of(lower, 0))? > 1 {
                side.pause(1)?;
                if self.tells_loops_apart {
                    side.get(side.own(2))?;
                }
            }
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        for higher in side.others().filter(|&other| other > side.rank()) {
            side.poll(side.of(higher, 0), |flag| flag <= 1 || flag == 4)?;
        }
        side.put(side.own(0), 0)
    }
}

/// E. W. Dijkstra, "Cooperating Sequential Processes", EWD 123, 1965: Dekker's lock for two ranks.
#[derive(Clone, Copy, Default, Debug)]
struct Dekker;

impl Protocol for Dekker {
    const HOME: Words = &[("turn", Number)];
    const EACH: Words = &[("flag", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("turn", 1)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (me, turn) = (u64::from(side.rank().0), side.home(0));
        side.write(side.own(0), 1)?;
        while side.get(side.of(side.other(), 0))? != 0 {
            if side.get(turn)? != me {
                side.write(side.own(0), 0)?;
                side.poll(turn, |word| word == me)?;
                side.write(side.own(0), 1)?;
            }
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.write(side.home(0), u64::from(side.other().0))?;
        side.put(side.own(0), 0)
    }
}

/// E. W. Dijkstra, "Solution of a Problem in Concurrent Programming Control", CACM 8(9), 1965.
#[derive(Clone, Copy, Default, Debug)]
struct Dijkstra;

impl Protocol for Dijkstra {
    const HOME: Words = &[("k", Number)];
    const EACH: Words = &[("state", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("k", u64::MAX)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        'again: loop {
            let k = Rank(side.get(side.home(0))? as u32);
            if k != side.rank() {
                side.write(side.own(0), 1)?;
                if side.get(side.of(k, 0))? == 0 {
                    side.write(side.home(0), u64::from(side.rank().0))?;
                }
                side.pause(1)?;
                continue;
            }
            side.write(side.own(0), 2)?;
            for other in side.others() {
                if side.get(side.of(other, 0))? == 2 {
                    side.pause(1)?;
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// J. L. W. Kessels, "Arbitration Without Common Modifiable Variables", Acta Informatica 17, 1982: each word has one
/// writer.
#[derive(Clone, Copy, Default, Debug)]
struct Kessels;

impl Protocol for Kessels {
    const EACH: Words = &[("q", Number), ("t", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("t", 1)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (me, other) = (u64::from(side.rank().0), side.other());
        side.write(side.own(0), 1)?;
        // Rank 0 wants both to be equal, rank 1 wants them to differ: the last one to write waits.
        let mine = side.get(side.of(other, 1))? ^ me;
        side.write(side.own(1), mine)?;
        while side.get(side.of(other, 0))? != 0 && side.get(side.of(other, 1))? ^ me == mine {
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// J. E. Burns, N. A. Lynch, "Bounds on Shared Memory for Mutual Exclusion", Information and Computation 107, 1993: one
/// bit for each rank.
#[derive(Clone, Copy, Default, Debug)]
struct BurnsLynch;

fn burns_lynch(side: &Side<'_, ()>) -> Result<()> {
    let lower = || side.others().filter(|&other| other < side.rank());
    'again: loop {
        for set in [0, 1] {
            if set == 1 {
                side.write(side.own(0), 1)?;
            }
            for lower in lower() {
                if side.get(side.of(lower, 0))? != 0 {
                    if set == 1 {
                        side.write(side.own(0), 0)?;
                    }
                    side.pause(1)?;
                    continue 'again;
                }
            }
        }
        break;
    }
    for higher in side.others().filter(|&other| other > side.rank()) {
        side.poll_zero(side.of(higher, 0))?;
    }
    Ok(())
}

impl Protocol for BurnsLynch {
    const EACH: Words = &[("bit", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        burns_lynch(side)
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// A ticket lock (J. M. Mellor-Crummey, M. L. Scott, ACM TOCS 9(1), 1991) with a slot for each ticket, modulo the ranks.
/// The waiter and the releaser of the previous ticket meet there. The later one finds the other's word.
#[derive(Clone, Copy, Default, Debug)]
struct SleepingTicket;

/// A slot's value once its ticket is called.
const CALLED: u64 = 1 << 32;

fn slot(side: &Side<'_, u64>, ticket: u64) -> Address {
    side.home(1 + ticket % side.ranks().count() as u64)
}

impl Protocol for SleepingTicket {
    const HOME: Words = &[("next", Number), ("slot0", Pointer), ("slot1", Pointer), ("slot2", Pointer)];
    const EACH: Words = &[("woken", Number)];
    const KEEPS: &'static [(&'static str, u64)] =
        &[("next", u64::MAX), ("slot0", CALLED), ("slot1", CALLED), ("slot2", CALLED)];
    type Memo = u64;

    fn acquire(self, side: &mut Side<'_, u64>) -> Result<()> {
        let ticket = side.fetch_add(side.home(0), 1)?;
        *side.memo = ticket;
        // No rank calls the first ticket.
        if ticket == 0 {
            return Ok(());
        }
        if side.fetch_store(slot(side, ticket), side.me())? != CALLED {
            side.wait_until(side.own(0).disp, Until::Ne(0))?;
            side.write(side.own(0), 0)?;
        }
        side.write(slot(side, ticket), NIL)
    }

    fn release(self, side: &mut Side<'_, u64>) -> Result<()> {
        let waiter = side.fetch_store(slot(side, *side.memo + 1), CALLED)?;
        if waiter == NIL { Ok(()) } else { side.put(side.of(rank_of(waiter), 0), 1) }
    }
}

/// A queue lock whose nodes are at the home, in a stack of free ones with a tag (R. K. Treiber, "Systems Programming:
/// Coping with Parallelism", IBM RJ 5118, 1986). Link 0 of a free node leads to the next number, so that zero words are
/// a stack of all nodes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FreeList {
    /// The number by which the tag grows when a node is taken.
    pub(crate) tag: u64,
}

const FREE: u64 = 2;
const LINK: u64 = 6;
const GO: u64 = 10;

impl Protocol for FreeList {
    const HOME: Words = &[
        ("head", Number),
        ("tail", Number),
        ("free0", Number),
        ("free1", Number),
        ("free2", Number),
        ("free3", Number),
        ("link0", Number),
        ("link1", Number),
        ("link2", Number),
        ("link3", Number),
        ("go0", Number),
        ("go1", Number),
        ("go2", Number),
        ("go3", Number),
    ];
    const KEEPS: &'static [(&'static str, u64)] =
        &[("head", u64::MAX), ("free0", u64::MAX), ("free1", u64::MAX), ("free2", u64::MAX), ("free3", u64::MAX)];
    /// The number of the node.
    type Memo = u64;

    fn acquire(self, side: &mut Side<'_, u64>) -> Result<()> {
        let node = loop {
            let head = side.get(side.home(0))?;
            let node = u64::from(head as u32);
            let next = side.get(side.home(FREE + node))?.wrapping_add(node + 1);
            if side.compare_and_swap(side.home(0), head, ((head >> 32) + self.tag) << 32 | next)? == head {
                break node;
            }
            side.pause(1)?;
        };
        let before = side.fetch_store(side.home(1), node + 1)?;
        if before != 0 {
            side.put(side.home(LINK + before - 1), node + 1)?;
            side.poll(side.home(GO + node), |go| go != 0)?;
            side.put(side.home(GO + node), 0)?;
        }
        *side.memo = node;
        Ok(())
    }

    fn release(self, side: &mut Side<'_, u64>) -> Result<()> {
        let node = *side.memo;
        if side.compare_and_swap(side.home(1), node + 1, 0)? != node + 1 {
            let next = side.poll(side.home(LINK + node), |link| link != 0)?;
            side.put(side.home(LINK + node), 0)?;
            side.put(side.home(GO + next - 1), 1)?;
        }
        loop {
            let head = side.get(side.home(0))?;
            // The flush also completes the node's resets.
            side.write(side.home(FREE + node), u64::from(head as u32).wrapping_sub(node + 1))?;
            if side.compare_and_swap(side.home(0), head, head >> 32 << 32 | node)? == head {
                return Ok(());
            }
            side.pause(1)?;
        }
    }
}

/// A sequence lock as a reader-writer lock: readers count themselves, and withdraw if the number has changed. (C.
/// Lameter, "Effective Synchronization on Linux/NUMA Systems", Gelato 2005.)
#[derive(Clone, Copy, Default, Debug)]
struct Seqlock;

impl Protocol for Seqlock {
    const HOME: Words = &[("sequence", Number), ("readers", Number)];
    const KEEPS: &'static [(&'static str, u64)] = &[("sequence", !1)];
    const READERS_SHARE: bool = true;
    /// The sequence number of a writer inside.
    type Memo = u64;

    fn acquire(self, side: &mut Side<'_, u64>) -> Result<()> {
        loop {
            let sequence = side.get(side.home(0))?;
            if sequence % 2 == 0 && side.compare_and_swap(side.home(0), sequence, sequence + 1)? == sequence {
                *side.memo = sequence + 1;
                return side.poll_zero(side.home(1));
            }
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, u64>) -> Result<()> {
        let sequence = std::mem::take(side.memo);
        side.put(side.home(0), sequence + 1)
    }

    fn acquire_read(self, side: &mut Side<'_, u64>) -> Result<()> {
        loop {
            let sequence = side.get(side.home(0))?;
            if sequence % 2 == 0 {
                side.fetch_add(side.home(1), 1)?;
                if side.get(side.home(0))? == sequence {
                    return Ok(());
                }
                side.release_reader()?;
            }
            side.pause(1)?;
        }
    }

    fn release_read(self, side: &mut Side<'_, u64>) -> Result<()> {
        side.release_reader()
    }
}

impl Side<'_, u64> {
    fn release_reader(&self) -> Result<()> {
        self.fetch_add(self.home(1), 1_u64.wrapping_neg()).map(drop)
    }
}

/// One word with a bit for each reader and one for the writer. (Compare Y. Lev, V. Luchangco, M. Olszewski, "Scalable
/// Reader-Writer Locks", SPAA 2009.)
#[derive(Clone, Copy, Default, Debug)]
struct Bitmap {
    /// True if rounds of some loops also make a call without effect, so that no two loops are alike.
    tells_loops_apart: bool,
}

const WRITER: u64 = 1 << 63;

impl Protocol for Bitmap {
    const HOME: Words = &[("bits", Number)];
    const EACH: Words = &[("unused", Number)];
    const READERS_SHARE: bool = true;
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        loop {
            let bits = side.get(side.home(0))?;
            if bits & WRITER == 0 && side.compare_and_swap(side.home(0), bits, bits | WRITER)? == bits {
                while side.get(side.home(0))? != WRITER {
                    side.pause(1)?;
                    if self.tells_loops_apart {
                        side.get(side.own(0))?;
                    }
                }
                return Ok(());
            }
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.fetch_add(side.home(0), WRITER).map(drop)
    }

    fn acquire_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        let mine = 1_u64 << side.rank().0;
        while side.fetch_add(side.home(0), mine)? & WRITER != 0 {
            side.fetch_add(side.home(0), mine.wrapping_neg())?;
            side.poll(side.home(0), |bits| bits & WRITER == 0)?;
            side.pause(1)?;
        }
        Ok(())
    }

    fn release_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.fetch_add(side.home(0), (1_u64 << side.rank().0).wrapping_neg()).map(drop)
    }
}

/// The writer reads the words of all readers, and then waits for each reader that it has seen. It pauses ahead of each
/// further look. So a word may be free already when it pauses for it.
#[derive(Clone, Copy, Default, Debug)]
struct ReadsThenWaits;

impl Protocol for ReadsThenWaits {
    const HOME: Words = &[("gate", Pointer)];
    const EACH: Words = &[("inside", Number)];
    const READERS_SHARE: bool = true;
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.take(side.home(0))?;
        let mut seen = Vec::new();
        for other in side.others() {
            if side.get(side.of(other, 0))? != 0 {
                seen.push(other);
            }
        }
        for other in seen {
            side.pause(1)?;
            side.poll_zero(side.of(other, 0))?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }

    fn acquire_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        loop {
            side.write(side.own(0), 1)?;
            if side.get(side.home(0))? == NIL {
                return Ok(());
            }
            side.write(side.own(0), 0)?;
            side.poll(side.home(0), |gate| gate == NIL)?;
        }
    }

    fn release_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// P. J. Courtois, F. Heymans, D. L. Parnas, "Concurrent Control with 'Readers' and 'Writers'", CACM 14(10), 1971: the
/// first problem. One reader takes the writers' lock, and perhaps another reader releases it.
#[derive(Clone, Copy, Default, Debug)]
struct Courtois;

impl Protocol for Courtois {
    const HOME: Words = &[("mutex", Pointer), ("w", Pointer), ("readers", Number)];
    const READERS_SHARE: bool = true;
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.take(side.home(1))
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(1), NIL)
    }

    fn acquire_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.take(side.home(0))?;
        let readers = side.get(side.home(2))?;
        side.write(side.home(2), readers + 1)?;
        if readers == 0 {
            side.take(side.home(1))?;
        }
        side.put(side.home(0), NIL)
    }

    fn release_read(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.take(side.home(0))?;
        let readers = side.get(side.home(2))?;
        side.write(side.home(2), readers - 1)?;
        if readers == 1 {
            side.put(side.home(1), NIL)?;
        }
        side.put(side.home(0), NIL)
    }
}

/// Test-and-set with exponential backoff (T. E. Anderson, "The Performance of Spin Lock Alternatives", IEEE TPDS 1(1),
/// 1990): only the lengths of the pauses depend on the number of polls.
#[derive(Clone, Copy, Default, Debug)]
struct Backoff;

impl Protocol for Backoff {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let mut pause = 1;
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            side.pause(pause)?;
            pause = (2 * pause).min(64);
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// A test-and-set whose waiters, once they have seen the holder change, also look at a separate word in each round.
#[derive(Clone, Copy, Default, Debug)]
struct LooksElsewhere;

impl Protocol for LooksElsewhere {
    const HOME: Words = &[("owner", Pointer)];
    const EACH: Words = &[("spare", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let (mut last, mut changed) = (NIL, false);
        loop {
            let holder = side.compare_and_swap(side.home(0), NIL, side.me())?;
            if holder == NIL {
                return Ok(());
            }
            changed |= last != NIL && holder != last;
            last = holder;
            if changed {
                side.get(side.own(0))?;
            }
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.compare_and_swap(side.home(0), side.me(), NIL)?;
        Ok(())
    }
}

/// Polls a number of times, and then queues (J. M. Mellor-Crummey, M. L. Scott, ACM TOCS 9(1), 1991).
#[derive(Clone, Copy, Default, Debug)]
struct PollsThenQueues(u32);

impl Protocol for PollsThenQueues {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("next", Pointer), ("unblocked", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        for _ in 0..self.0 {
            if side.compare_and_swap(side.home(0), NIL, side.me())? == NIL {
                return Ok(());
            }
            side.pause(1)?;
        }
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            side.put(side.of(rank_of(before), 0), side.me())?;
            side.wait_until(side.own(1).disp, Until::Ne(0))?;
            side.write(side.own(1), 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        if side.compare_and_swap(side.home(0), side.me(), NIL)? != side.me() {
            let next = side.wait_until(side.own(0).disp, Until::Ne(NIL))?;
            side.write(side.own(0), NIL)?;
            side.put(side.of(rank_of(next), 1), 1)?;
        }
        Ok(())
    }
}

/// Yields to other ranks a number of times, and then behaves like [`BurnsLynch`]. It never polls forever: each of two
/// yielding ranks stops yielding.
#[derive(Clone, Copy, Default, Debug)]
struct YieldsThenInsists(u32);

impl Protocol for YieldsThenInsists {
    const EACH: Words = &[("bit", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        'again: for _ in 0..self.0 {
            side.write(side.own(0), 1)?;
            for other in side.others() {
                if side.get(side.of(other, 0))? != 0 {
                    side.write(side.own(0), 0)?;
                    side.pause(1)?;
                    continue 'again;
                }
            }
            return Ok(());
        }
        burns_lynch(side)
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// D. Dice, H. Huang, M. Yang, "Asymmetric Dekker Synchronization", Sun Microsystems, 2001: rank 0 does not flush, and
/// rank 1 fences for both.
#[derive(Clone, Copy, Default, Debug)]
struct AsymmetricDekker;

impl Protocol for AsymmetricDekker {
    const EACH: Words = &[("flag", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let theirs = side.of(side.other(), 0);
        if side.rank() == Rank(1) {
            side.write(side.own(0), 1)?;
            side.fence_everywhere()?;
            return side.poll_zero(theirs);
        }
        loop {
            side.put(side.own(0), 1)?;
            side.fence_light();
            if side.get(theirs)? == 0 {
                return Ok(());
            }
            side.put(side.own(0), 0)?;
            side.poll_zero(theirs)?;
            side.pause(1)?;
        }
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.own(0), 0)
    }
}

/// Test-and-set that counts its polls for a statistic, which decides nothing.
#[derive(Clone, Copy, Default, Debug)]
struct CountsPolls<const SHOWN: bool>;

impl<const SHOWN: bool> Protocol for CountsPolls<SHOWN> {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = Memory<SHOWN, u64>;

    fn acquire(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            side.memo.0 += 1;
            side.pause(1)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// Test-and-set that pauses for a time by the clock between two polls.
#[derive(Clone, Copy, Default, Debug)]
struct BackoffByClock;

impl Protocol for BackoffByClock {
    const HOME: Words = &[("owner", Pointer)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        while side.compare_and_swap(side.home(0), NIL, side.me())? != NIL {
            let end = side.now().after(Duration::from_micros(1));
            while side.now() < end {
                side.pause(1)?;
            }
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        side.put(side.home(0), NIL)
    }
}

/// A queue lock whose waits have deadlines, after which it waits again.
#[derive(Clone, Copy, Default, Debug)]
struct RetriesAfterDeadline;

impl Protocol for RetriesAfterDeadline {
    const HOME: Words = &[("tail", Pointer)];
    const EACH: Words = &[("next", Pointer), ("unblocked", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        let before = side.fetch_store(side.home(0), side.me())?;
        if before != NIL {
            side.put(side.of(rank_of(before), 0), side.me())?;
            let wait = || {
                let deadline = side.now().after(Duration::from_millis(1));
                side.wait_until_deadline(side.own(1).disp, Until::Ne(0), deadline)
            };
            while wait()?.is_none() {}
            side.write(side.own(1), 0)?;
        }
        Ok(())
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        PollsThenQueues(0).release(side)
    }
}

/// The same queue, but its words of pointers are named as numbers.
#[derive(Clone, Copy, Default, Debug)]
struct Misnamed;

impl Protocol for Misnamed {
    const HOME: Words = &[("tail", Number)];
    const EACH: Words = &[("next", Number), ("unblocked", Number)];
    type Memo = ();

    fn acquire(self, side: &mut Side<'_, ()>) -> Result<()> {
        PollsThenQueues(0).acquire(side)
    }

    fn release(self, side: &mut Side<'_, ()>) -> Result<()> {
        PollsThenQueues(0).release(side)
    }
}
