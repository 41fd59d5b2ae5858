//! A word that refuses late writes.

use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};

use super::{LOW, LOW_BITS, Lease, Token};
use crate::{Error, RawMutex, Result};

/// The largest value of a [`FencedWord`]: 2^24 - 1.
pub const MAX_VALUE: u32 = LOW as u32;

/// A word of 24 bits that is written with the token of a [`Lease`], and keeps the token of its last write.
///
/// The word refuses a write with a smaller token: the writer has lost the lock, and a later holder has written. All backends can
/// do that, since it is a compare-and-swap. No backend can do it for a put. So data of more than 24 bits need two or more
/// copies. A holder writes a copy that no rank reads, flushes it, and then writes its number to this word.
///
/// Before a rank may rely on several words of one lock together, the new holder has to write all of them. A word that it has not
/// written yet does not refuse a late write of an old holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FencedWord {
    at: Address,
}

impl FencedWord {
    /// Makes a new word at `home`, with the value 0. All ranks call it at the same point of their sequences of allocations.
    ///
    /// # Errors
    ///
    /// The errors of an allocation.
    pub fn create<A: RemoteAtomics + ?Sized>(ra: &A, home: Rank) -> Result<FencedWord> {
        Ok(FencedWord::at(home.at(ra.heap().alloc(WORD, WORD)?)))
    }

    /// Makes a handle of the word at this address, which is 0 or was written as a fenced word.
    pub const fn at(at: Address) -> FencedWord {
        // No rank waits for the word, so a write need not look for a sleeping rank.
        FencedWord { at: at.unwatched() }
    }

    /// Returns the value, and the token of its last write.
    ///
    /// # Errors
    ///
    /// The errors of a get.
    pub fn get<A: RemoteAtomics + ?Sized>(self, ra: &A) -> Result<(u32, Token)> {
        let word = ra.get(self.at)?;
        Ok(((word & LOW) as u32, Token::of(word)))
    }

    /// Writes `value`, unless a rank with a later token has written.
    ///
    /// # Errors
    ///
    /// [`Expired`](Error::Expired) if such a rank has, and the errors of the network.
    ///
    /// # Panics
    ///
    /// If `value` is more than [`MAX_VALUE`].
    pub fn put<A: RemoteAtomics + ?Sized>(self, ra: &A, token: Token, value: u32) -> Result<()> {
        assert!(value <= MAX_VALUE, "{value} has more than 24 bits");
        let desired = token.0 << LOW_BITS | u64::from(value);
        let mut seen = ra.get(self.at)?;
        loop {
            if Token::of(seen) > token {
                return Err(Error::Expired { lock: Lease::NAME, token });
            }
            let found = ra.compare_and_swap(self.at, seen, desired)?;
            if found == seen {
                return Ok(());
            }
            seen = found;
        }
    }
}
