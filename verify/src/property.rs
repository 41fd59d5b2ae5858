//! What a lock promises, and the finding that it does not hold.

use rmalab_atomics::Rank;

/// A promise of a lock that a check can find broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Property {
    /// Nobody else is inside with a writer.
    WriterAlone,
    /// No writer is inside with a reader.
    NoWriterAmongReaders,
    /// Whoever is inside finds the data as one writer left them, and they stay so while it is inside.
    Consistent,
    /// Each write is based on the one before it: none is lost.
    NoLostUpdate,
    /// When all have left, the lock's words and nodes are zero, as before its first use.
    CleanRest,
}

impl Property {
    /// All properties.
    pub const ALL: [Property; 5] = [
        Property::WriterAlone,
        Property::NoWriterAmongReaders,
        Property::Consistent,
        Property::NoLostUpdate,
        Property::CleanRest,
    ];

    /// The property's name, as reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            Property::WriterAlone => "writer-alone",
            Property::NoWriterAmongReaders => "no-writer-among-readers",
            Property::Consistent => "consistent",
            Property::NoLostUpdate => "no-lost-update",
            Property::CleanRest => "clean-rest",
        }
    }
}

impl std::fmt::Display for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One property found broken.
#[derive(Clone, PartialEq, Eq, Debug)]
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
