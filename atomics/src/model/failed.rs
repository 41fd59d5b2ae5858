//! Sets of ranks that have failed.

use std::fmt;

use crate::Rank;

/// A set of ranks that have failed.
///
/// ```
/// use rmalab_atomics::{Failed, Rank};
///
/// let failed = Failed::from_iter([Rank(4), Rank(1)]);
/// assert!(failed.contains(Rank(4)) && !failed.contains(Rank(0)));
/// assert_eq!(failed.to_string(), "rank 1, rank 4");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Failed {
    /// In ascending order, each once.
    ranks: Vec<Rank>,
}

impl Failed {
    /// Returns whether no rank has failed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Returns whether `rank` has failed.
    #[inline]
    pub fn contains(&self, rank: Rank) -> bool {
        self.ranks.binary_search(&rank).is_ok()
    }

    /// Returns the ranks, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Rank> {
        self.ranks.iter().copied()
    }
}

impl FromIterator<Rank> for Failed {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Failed {
        let mut ranks: Vec<Rank> = ranks.into_iter().collect();
        ranks.sort_unstable();
        ranks.dedup();
        Failed { ranks }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no rank");
        }
        for (i, rank) in self.ranks.iter().enumerate() {
            write!(f, "{}{rank}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
