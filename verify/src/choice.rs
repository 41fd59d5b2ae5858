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
    /// A put that the rank has posted takes effect.
    Arrive {
        /// The rank that posted it.
        from: Rank,
        /// Its index among the rank's puts under way, oldest first.
        index: u16,
    },
}

impl Choice {
    /// Returns whether this step is a deadline that passes. Such a step is always optional.
    pub(crate) const fn is_deadline(&self) -> bool {
        matches!(self, Choice::Deadline(_))
    }
}
