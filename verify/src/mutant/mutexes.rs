//! Mutants of the mutexes.

use rmalab_atomics::controlled::Call;

use super::Rule::{Answer, AsStore, Change, ClaimSuccess, Instead, Late, See, Skip, Split, Twice, ZeroFirst};
use super::{Mutant, compare_and_swap, fetch_add, fetch_store, flush, get, put, wait_until};
use crate::network::Network;

const TAS: &[&str] = &["tas"];
const TICKET: &[&str] = &["ticket"];
const MCS: &[&str] = &["mcs"];

/// One ticket in `next_ticket`, the upper half of the ticket lock's word.
const NEXT: u64 = 1 << 32;

/// A test-and-set, in the place of a step on the ticket lock's word.
fn take(call: Call) -> Call {
    match call {
        Call::FetchAdd { at, .. } | Call::Get { at } => Call::CompareAndSwap { at, expected: 0, desired: NEXT },
        other => other,
    }
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("tas-split", TAS, "the test-and-set is a get and a put", &[Split(compare_and_swap("owner"))]),
    Mutant::new(
        "tas-unchecked",
        TAS,
        "whether the test-and-set found the lock free is not looked at",
        &[ClaimSuccess(compare_and_swap("owner"))],
    ),
    Mutant::new("tas-no-release", TAS, "the release does nothing", &[Skip(put("owner"))]).leaves(&["owner"]),
    Mutant::new(
        "tas-swap-release",
        TAS,
        "the release is a swap instead of a posted put",
        &[Change(put("owner"), |call| match call {
            Call::Put { at, value } => Call::FetchStore { at, value },
            other => other,
        })],
    )
    .equivalent("a swap is a put that is complete at once; that the put may be late is room given, never needed")
    .on(Network::LatePuts),
    Mutant::new(
        "ticket-split",
        TICKET,
        "a ticket is taken by a get and a put",
        &[Split(fetch_add("lock").acquiring())],
    ),
    Mutant::new(
        "ticket-taken-twice",
        TICKET,
        "a rank that has to wait goes by the ticket before its own",
        &[See(
            fetch_add("lock").acquiring(),
            |lock| if lock >> 32 == u64::from(lock as u32) { lock } else { lock - NEXT },
        )],
    ),
    Mutant::new(
        "ticket-carry",
        TICKET,
        "the addition to now_serving carries into next_ticket, which at 2^32 is not subtracted",
        &[Change(fetch_add("lock").releasing(), |call| match call {
            Call::FetchAdd { at, value } => Call::FetchAdd { at, value: value + NEXT },
            other => other,
        })],
    )
    .leaves(&["lock"]),
    Mutant::new(
        "ticket-reset",
        TICKET,
        "the release sets the word to 0 without comparing",
        &[AsStore(compare_and_swap("lock"))],
    ),
    Mutant::new(
        "ticket-no-release",
        TICKET,
        "the release does not add to now_serving",
        &[Skip(fetch_add("lock").releasing())],
    ),
    Mutant::new(
        "ticket-unfair",
        TICKET,
        "there are no tickets: whoever finds the word 0 first takes the lock",
        &[
            Change(fetch_add("lock").acquiring(), take),
            Instead(get("lock"), take, |old| if old == 0 { 2 * NEXT + 1 } else { old }),
            AsStore(compare_and_swap("lock")),
        ],
    )
    .of_order(),
    Mutant::new(
        "mcs-late-reset",
        MCS,
        "a rank resets its flag after it has linked itself, instead of after the last wait",
        &[ZeroFirst(wait_until("unblocked"))],
    )
    .stands_for("MCS: blocked=1 after linking"),
    Mutant::new(
        "mcs-tail-store",
        MCS,
        "the release stores nil to the tail without comparing",
        &[AsStore(compare_and_swap("tail"))],
    )
    .stands_for("MCS: release by a plain store of the tail"),
    Mutant::new("mcs-stale-next", MCS, "the link to the successor is not reset", &[Skip(put("next").own())])
        .leaves(&["next"])
        .stands_for("MCS: stale `next`"),
    Mutant::new("mcs-no-reset", MCS, "the flag is not reset after the wait", &[Skip(put("unblocked").own())])
        .leaves(&["unblocked"]),
    Mutant::new("mcs-no-link", MCS, "a rank does not link itself", &[Skip(put("next").another())]),
    Mutant::new("mcs-no-wait", MCS, "a rank with a predecessor does not wait", &[Answer(wait_until("unblocked"), 1)]),
    Mutant::new("mcs-no-wake-up", MCS, "the successor is not woken", &[Skip(put("unblocked").another())]),
    Mutant::new("mcs-two-wake-ups", MCS, "the successor is woken twice", &[Twice(put("unblocked").another())]),
    Mutant::new("mcs-split-swap", MCS, "the swap of the tail is a get and a put", &[Split(fetch_store("tail"))]),
    Mutant::new(
        "mcs-no-prepare",
        MCS,
        "the resets of the last acquisition are not flushed before the node is published",
        &[Skip(flush().own())],
    )
    .on(Network::LatePuts),
    Mutant::new(
        "mcs-late-wake-up",
        MCS,
        "the successor is woken after the link to it is reset",
        &[Late(&[put("unblocked").another()], &[put("next").own()])],
    )
    .equivalent("the link is in this rank's node, and by then nobody else will write it until this rank acquires again")
    .on(Network::LatePuts),
    Mutant::new(
        "mcs-no-early-next",
        MCS,
        "the release does not look for a successor before its compare-and-swap",
        &[Answer(get("next"), 0)],
    )
    .equivalent("with a successor the tail is not this rank, so the compare-and-swap fails, and the link is waited for")
    .on(Network::LatePuts),
];
