//! What a lock promises, and the finding that it does not hold.

use rmalab_atomics::Rank;

/// A promise of a lock that a check can find broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Property {
    /// No two ranks are inside by accesses that exclude each other.
    MutualExclusion,
    /// A rank inside finds the data as one writer left them, and they stay so while it is inside.
    Consistent,
    /// Each write is based on the one before it: none is lost.
    NoLostUpdate,
    /// A rank that enters gets what the last writer put before it left.
    Visibility,
    /// Ranks that acquire or release do not all wait for each other.
    NoDeadlock,
    /// A rank that waits is woken once no other rank is inside or on the way.
    NoLostWakeUp,
    /// While every rank goes on, some rank enters or leaves sooner or later.
    NoLivelock,
    /// No rank is overtaken by one that the lock's order puts after it.
    Order,
    /// When all have left, the lock's words and nodes are zero, as before its first use.
    CleanRest,
    /// The lock's code meets nothing that it calls impossible: it does not panic, and no call of it fails.
    Invariant,
}

impl Property {
    /// All properties.
    pub const ALL: [Property; 10] = [
        Property::MutualExclusion,
        Property::Consistent,
        Property::NoLostUpdate,
        Property::Visibility,
        Property::NoDeadlock,
        Property::NoLostWakeUp,
        Property::NoLivelock,
        Property::Order,
        Property::CleanRest,
        Property::Invariant,
    ];

    /// The property's name, as reports print it.
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

/// One property found broken.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// What is broken.
    pub property: Property,
    /// The rank that saw it.
    pub rank: Rank,
    /// In which of its acquisitions, counted from 0; `None` when it was after the last one.
    pub acquisition: Option<u32>,
    /// What it saw, values included.
    pub seen: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.property, self.rank)?;
        match self.acquisition {
            Some(acquisition) => write!(f, " in acquisition {acquisition}")?,
            None => write!(f, " after the last release")?,
        }
        write!(f, ": {}", self.seen)
    }
}
