//! One step of a schedule.

use rmalab_atomics::Rank;

/// One of the possible next steps of a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The rank's call is carried out, and the rank runs to its next call.
    Step(Rank),
    /// The deadline of the rank's acquisition passes.
    Deadline(Rank),
    /// An operation of the rank that is under way takes effect.
    Arrive {
        /// The rank.
        from: Rank,
        /// Its index among the rank's operations under way, oldest first.
        index: u16,
    },
    /// The rank fails: it makes no further call.
    Crash(Rank),
    /// The rank fails amid an atomic operation, which takes effect at a later time, or never.
    CrashAmid(Rank),
    /// The rank fails, loses what it has posted, and comes back: its handle is gone, and it runs to the first call of its resume.
    Restart(Rank),
    /// Time passes on all clocks while no rank does anything. The rank is one that is inside, if there is one.
    Lapse(Rank),
    /// The rank learns of a failure.
    Notice {
        /// The rank that learns.
        rank: Rank,
        /// The rank that has failed.
        of: Rank,
    },
}

impl Choice {
    /// Returns the rank that acts, or whose operation arrives.
    pub const fn rank(&self) -> Rank {
        match *self {
            Choice::Step(rank) | Choice::Deadline(rank) | Choice::Arrive { from: rank, .. } => rank,
            Choice::Crash(rank) | Choice::CrashAmid(rank) | Choice::Restart(rank) => rank,
            Choice::Lapse(rank) | Choice::Notice { rank, .. } => rank,
        }
    }

    /// Returns whether this step need not happen, now or ever. `down` is true if a rank has failed.
    pub(crate) fn is_optional(&self, down: impl Fn(Rank) -> bool) -> bool {
        match *self {
            Choice::Deadline(_) | Choice::Lapse(_) => true,
            Choice::Crash(_) | Choice::CrashAmid(_) | Choice::Restart(_) => true,
            Choice::Arrive { from, .. } => down(from),
            Choice::Step(_) | Choice::Notice { .. } => false,
        }
    }
}
