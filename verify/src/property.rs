//! The promises of a lock, and violations of them.

use rmalab_atomics::Rank;

/// A promise of a lock that a check can find broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Property {
    /// No two ranks are inside with accesses that exclude each other. A rank whose lease has passed is not inside.
    MutualExclusion,
    /// A rank inside finds the data as one writer left them, and they do not change while it is inside.
    Consistent,
    /// Each write is based on the previous one: no write is lost.
    NoLostUpdate,
    /// A rank that enters reads the last put of the previous writer.
    Visibility,
    /// The ranks that acquire or release do not all wait for each other.
    NoDeadlock,
    /// A waiting rank is woken once no other rank is inside, acquires or releases.
    NoLostWakeUp,
    /// While every rank goes on, some rank eventually enters or leaves.
    NoLivelock,
    /// No rank is overtaken by a rank that the lock's order puts after it.
    Order,
    /// A rank that has failed inside, and comes back, is inside.
    ReEntry,
    /// A rank that enters after another rank has failed inside learns of that failure.
    Told,
    /// The data get the writes of one grant after the writes of all earlier grants.
    Fenced,
    /// A try fails only after a look at the lock, and only beside another rank or a late operation. No rank gives up ahead of its
    /// deadline.
    NoEarlyFailure,
    /// After all ranks have left, the lock's words and nodes are zero, as before its first use. After a failure, its pointers may also
    /// name ranks that have failed, and its numbers may have any value.
    CleanRest,
    /// The lock's code does not panic. No call of it fails, or uses a word outside of the lock's memory.
    Invariant,
}

impl Property {
    /// All properties.
    pub const ALL: [Property; 14] = [
        Property::MutualExclusion,
        Property::Consistent,
        Property::NoLostUpdate,
        Property::Visibility,
        Property::NoDeadlock,
        Property::NoLostWakeUp,
        Property::NoLivelock,
        Property::Order,
        Property::ReEntry,
        Property::Told,
        Property::Fenced,
        Property::NoEarlyFailure,
        Property::CleanRest,
        Property::Invariant,
    ];

    /// The property's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Property::MutualExclusion => "mutual-exclusion",
            Property::Consistent => "consistent",
            Property::NoLostUpdate => "no-lost-update",
            Property::Visibility => "visibility",
            Property::NoDeadlock => "no-deadlock",
            Property::NoLostWakeUp => "no-lost-wake-up",
            Property::NoLivelock => "no-livelock",
            Property::Order => "order",
            Property::ReEntry => "re-entry",
            Property::Told => "told",
            Property::Fenced => "fenced",
            Property::NoEarlyFailure => "no-early-failure",
            Property::CleanRest => "clean-rest",
            Property::Invariant => "invariant",
        }
    }
}

impl std::fmt::Display for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A violation of one property.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// The violated property.
    pub property: Property,
    /// The rank that observed it.
    pub rank: Rank,
    /// The number of its acquisition, counted from 0; `None` after the last one.
    pub acquisition: Option<u32>,
    /// The observation, with its values.
    pub seen: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The ranks go on for ever, so that no release is the last. The text names all of them.
        if self.property == Property::NoLivelock && self.acquisition.is_none() {
            return write!(f, "{}: {}", self.property, self.seen);
        }
        write!(f, "{}: {}", self.property, self.rank)?;
        match self.acquisition {
            Some(acquisition) => write!(f, " in acquisition {acquisition}")?,
            None => write!(f, " after the last release")?,
        }
        write!(f, ": {}", self.seen)
    }
}
