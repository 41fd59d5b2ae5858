//! What happens next: one step of a schedule.

use rmalab_atomics::Rank;

/// What happens next, in a state where several things could.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The rank's call is carried out, and it goes on to its next call.
    Step(Rank),
    /// A put that the rank has posted takes effect.
    Arrive {
        /// Whose put.
        from: Rank,
        /// Which one of those that it has under way, oldest first.
        index: u16,
    },
}
