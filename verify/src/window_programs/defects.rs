//! What the window layer would be without one of its parts.

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::{Address, Rank, Until, WORD};
use rmalab_locks::LINE;

use crate::network::Network::{self, LatePuts, Sc, UnorderedBulk};
use crate::play::Player;

/// One part of the window layer left out or done wrong, by what becomes of its calls.
#[derive(Clone, Debug)]
pub struct Defect {
    /// Its name.
    pub name: &'static str,
    /// What is wrong, in a line.
    pub about: &'static str,
    /// The name of the program that breaks by it.
    pub program: &'static str,
    /// The network on which it does.
    pub network: Network,
    /// What becomes of a rank's call: a function of the call, so that ranks stay functions of their answers.
    pub(super) call: fn(&dyn Player, Rank, Call) -> Answer,
}

const fn defect(
    name: &'static str,
    about: &'static str,
    program: &'static str,
    network: Network,
    call: fn(&dyn Player, Rank, Call) -> Answer,
) -> Defect {
    Defect { name, about, program, network, call }
}

/// The line that holds the flags of posts in the program `pscw-flags-2`, behind the one with those of completions.
const POSTS: u64 = 35;

/// The lines of the words for accumulates in programs of two ranks with default windows: those of a target, and each
/// rank's own. Behind the lock's word, or node, are those of the bias.
const ACCUMULATES: u64 = 36;

/// The mode of a target.
fn is_mode(at: Address) -> bool {
    at.disp.0 == ACCUMULATES * LINE + WORD
}

/// What a rank may be updating by atomics.
fn is_busy(at: Address) -> bool {
    at.disp.0 == (ACCUMULATES + 1) * LINE + 2 * WORD
}

/// Nobody has to wait for the lock of accumulates.
fn no_lock(player: &dyn Player, call: Call) -> Answer {
    match call {
        Call::FetchStore { at, .. } if !is_mode(at) => Answer::Word(0),
        Call::CompareAndSwap { expected, .. } => Answer::Word(expected),
        call => player.call(call),
    }
}

/// All defects.
pub fn defects() -> &'static [Defect] {
    DEFECTS
}

fn no_flush(player: &dyn Player, _: Rank, call: Call) -> Answer {
    match call {
        Call::Flush { .. } => Answer::Done,
        call => player.call(call),
    }
}

/// No wait for a number that only grows: of barriers, completions.
fn no_wait(player: &dyn Player, _: Rank, call: Call) -> Answer {
    match call {
        Call::WaitUntil { until: Until::Ge(number), .. } => Answer::Word(number),
        call => player.call(call),
    }
}

const DEFECTS: &[Defect] = &[
    defect("fence-no-flush", "a fence is its barrier alone", "fence-2", UnorderedBulk, no_flush),
    defect("fence-no-wait", "a barrier tells, and does not wait", "fence-2", Sc, no_wait),
    defect("fence-one-round", "a barrier of 3 ranks has one round", "fence-3", Sc, |player, rank, call| match call {
        Call::Put { at, .. } if at.rank.0 == (rank.0 + 2) % 3 => Answer::Done,
        Call::WaitUntil { own, until: Until::Ge(number), .. } if own.0 == 8 => Answer::Word(number),
        call => player.call(call),
    }),
    defect(
        "complete-no-flush",
        "complete tells the targets before the puts are there",
        "pscw-flags-2",
        UnorderedBulk,
        no_flush,
    ),
    defect("start-no-wait", "start takes posts that have not come", "pscw-flags-2", Sc, |player, _, call| match call {
        // The posts' flags have the second line of the two that hold a small team's flags.
        Call::WaitUntil { own, until: Until::Ge(number), .. } if own.0 / LINE == POSTS => Answer::Word(number),
        call => player.call(call),
    }),
    defect("wait-no-wait", "wait does not wait", "pscw-matching-2", Sc, |player, _, call| match call {
        // The tail of the ring is the first word of a line as well; what is waited for there is taken from slots.
        Call::WaitUntil { until: Until::Ge(number), .. } => Answer::Word(number),
        call => player.call(call),
    }),
    defect(
        "post-no-number",
        "a post puts 1 instead of the epoch's number",
        "pscw-flags-2",
        Sc,
        |player, rank, call| match call {
            Call::Put { at, .. } if at.rank != rank && at.disp.0 / LINE == POSTS => {
                player.call(Call::Put { at, value: 1 })
            }
            call => player.call(call),
        },
    ),
    defect(
        "complete-ahead",
        "complete puts the number of the epoch after its own",
        "pscw-flags-2",
        Sc,
        |player, rank, call| match call {
            Call::Put { at, value } if at.rank != rank && at.disp.0 / LINE == POSTS - 1 => {
                player.call(Call::Put { at, value: value + 1 })
            }
            call => player.call(call),
        },
    ),
    defect("complete-stores", "complete stores 1 instead of adding it", "pscw-matching-2", Sc, |player, rank, call| {
        match call {
            Call::FetchAdd { at, value: 1 } if at.rank != rank => player.call(Call::FetchStore { at, value: 1 }),
            call => player.call(call),
        }
    }),
    defect(
        "slot-overwritten",
        "two posts get one ticket, and the second one overwrites the first one's slot",
        "pscw-matching-3",
        Sc,
        |player, _, call| match call {
            Call::FetchAdd { at, value: 1 } => {
                let old = player.call(Call::Get { at });
                if let Answer::Word(word) = old {
                    player.call(Call::Put { at, value: word + 1 });
                }
                old
            }
            Call::CompareAndSwap { at, expected: 0, desired } => {
                player.call(Call::FetchStore { at, value: desired });
                Answer::Word(0)
            }
            call => player.call(call),
        },
    ),
    defect(
        "full-ring-waits",
        "a post that finds a ring full waits for the posts to its own rank, instead of taking what is there",
        "pscw-full-3",
        Sc,
        |player, rank, call| match call {
            // The own tail is at the start of a line, the one slot behind it.
            Call::Get { at } if at.rank == rank && at.disp.0 % LINE == WORD => {
                player.call(Call::WaitUntil { own: at.disp, until: Until::Ne(0), deadline: None })
            }
            call => player.call(call),
        },
    ),
    defect("unlock-no-flush", "unlock releases before the puts are there", "1E1A-two-level", UnorderedBulk, no_flush),
    defect(
        "lock_all-uncounted",
        "lock_all does not count itself, and looks for nobody",
        "1E1A-two-level",
        Sc,
        |player, _, call| match call {
            Call::FetchAdd { value, .. } if value == 1 << 32 || value == (1_u64 << 32).wrapping_neg() => {
                Answer::Word(0)
            }
            call => player.call(call),
        },
    ),
    defect("flush-nothing", "flush does nothing", "flush-shared", UnorderedBulk, no_flush),
    defect(
        "accumulate-lock-not-taken",
        "everybody finds the lock of accumulates free",
        "maxloc-pair-2",
        Sc,
        |player, _, call| no_lock(player, call),
    ),
    defect(
        "accumulate-lock-kept",
        "nobody releases the lock of accumulates",
        "maxloc-pair-2",
        Sc,
        |player, _, call| match call {
            Call::CompareAndSwap { expected, desired: 0, .. } => Answer::Word(expected),
            call => player.call(call),
        },
    ),
    defect(
        "accumulate-no-flush",
        "an accumulate under the lock releases it before its put is there",
        "maxloc-pair-2",
        UnorderedBulk,
        no_flush,
    ),
    defect(
        "bias-not-looked-at",
        "an update by atomics does not look at the mode",
        "bias-2",
        Sc,
        |player, rank, call| match call {
            Call::Get { at } if rank == Rank(1) && is_mode(at) => Answer::Word(0),
            call => player.call(call),
        },
    ),
    defect(
        "bias-taken-for-locked",
        "a run takes the mode for locked, under the lock as well",
        "bias-2",
        Sc,
        |player, rank, call| match call {
            Call::Get { at } if rank == Rank(0) && is_mode(at) => Answer::Word(1),
            call => player.call(call),
        },
    ),
    defect("bias-no-wait", "nobody waits for those who are updating by atomics", "bias-2", Sc, |player, rank, call| {
        match call {
            Call::Get { at } if at.rank != rank && is_busy(at) => Answer::Word(0),
            call => player.call(call),
        }
    }),
    defect("bias-no-fence", "nobody fences everywhere", "bias-2", LatePuts, |player, _, call| match call {
        Call::FenceEverywhere => Answer::Done,
        call => player.call(call),
    }),
    defect("bias-not-busy", "an update by atomics says so to nobody", "bias-2", Sc, |player, _, call| match call {
        Call::Put { at, .. } if is_busy(at) => Answer::Done,
        call => player.call(call),
    }),
    defect("bias-busy-early", "an update by atomics is over before it is done", "bias-2", Sc, |player, _, call| {
        match call {
            Call::Put { at, .. } if is_busy(at) => {
                player.call(call);
                player.call(Call::Put { at, value: 0 })
            }
            call => player.call(call),
        }
    }),
    defect("bias-busy-kept", "who has updated by atomics stays busy", "bias-2", Sc, |player, _, call| match call {
        Call::Put { at, value: 0 } if is_busy(at) => Answer::Done,
        call => player.call(call),
    }),
    defect("bias-runs-unlocked", "runs do not take the lock", "bias-runs", Sc, |player, _, call| no_lock(player, call)),
    defect(
        "bias-singles-unlocked",
        "an update by atomics does not take the lock where it should",
        "bias-2",
        Sc,
        |player, rank, call| if rank == Rank(1) { no_lock(player, call) } else { player.call(call) },
    ),
    defect(
        "bias-mode-posted",
        "mode atomics is put, and may arrive when the lock is another rank's",
        "bias-2",
        LatePuts,
        |player, _, call| match call {
            Call::FetchStore { at, value: 0 } if is_mode(at) => {
                player.call(Call::Put { at, value: 0 });
                Answer::Word(1)
            }
            call => player.call(call),
        },
    ),
    defect("bias-no-flush", "a plain loop ends before its puts are there", "bias-2", UnorderedBulk, no_flush),
    defect(
        "part-of-a-word-stored",
        "an element of 2 bytes is stored with the rest of its word as it was read",
        "sum-u16-native",
        Sc,
        |player, _, call| match call {
            Call::CompareAndSwap { at, expected, desired } => {
                player.call(Call::FetchStore { at, value: desired });
                Answer::Word(expected)
            }
            call => player.call(call),
        },
    ),
    defect("sum-by-get-and-put", "a sum is a get and a put", "sum-native", Sc, |player, _, call| match call {
        Call::FetchAdd { at, value } if value < 64 => {
            let old = player.call(Call::Get { at });
            if let Answer::Word(word) = old {
                player.call(Call::Put { at, value: word + value });
            }
            old
        }
        call => player.call(call),
    }),
    defect(
        "replace-posted",
        "an accumulate that replaces is a put, and nothing waits for it",
        "order-native",
        LatePuts,
        |player, _, call| match call {
            Call::FetchStore { at, value } => {
                player.call(Call::Put { at, value });
                Answer::Word(0)
            }
            call => player.call(call),
        },
    ),
    defect("free-one-barrier", "free has no barrier behind the clearing", "free", Sc, |player, _, call| match call {
        Call::WaitUntil { until: Until::Ge(number), .. } if number == 2 => Answer::Word(number),
        call => player.call(call),
    }),
    defect("free-late", "free has no barrier before the clearing", "free", Sc, |player, _, call| match call {
        Call::WaitUntil { until: Until::Ge(number), .. } if number == 1 => Answer::Word(number),
        call => player.call(call),
    }),
    defect("free-not-cleared", "free leaves the memory as it is", "free", Sc, |player, _, call| match call {
        Call::BulkPut { value: 0, .. } => Answer::Done,
        call => player.call(call),
    }),
];
