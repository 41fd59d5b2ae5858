//! The lease mutex: a holder that keeps it too long loses it, and each grant has a token that grows.
//!
//! # Paper
//! C. Gray, D. Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File Cache Consistency", SOSP 1989, DOI
//! 10.1145/74850.74870, have locks that end with a time. Tokens that refuse a late write are the sequencers of M. Burrows, "The
//! Chubby Lock Service for Loosely-Coupled Distributed Systems", OSDI 2006. The word and the polls are as in
//! [`tas`](crate::tas).
//!
//! # Properties
//! - Mutual exclusion of the ranks whose leases have not passed. Not fair: other ranks can pass a waiter any number of times.
//! - A holder that is paused, or has failed, delays others for the patience of a waiter, which is 9/8 of the term of the
//!   lease. No rank has to notice its failure.
//! - A holder that has lost the lock may not know it yet. A [`FencedWord`] refuses its writes, by their token, once a later
//!   holder has written there. Plain puts are not refused on any backend.
//! - Waiters poll a remote word.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Without a lapse: the same as for `tas`. With a
//!   time longer than a lease that passes at any step, under sequential consistency and with posted puts that arrive late: 3
//!   ranks × 1 and 2 × 2 acquisitions with one lapse. Livelocks are included.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | lock | words + 0 | 8 | home | lowest 24 bits: 0, or the holder's rank plus one; above them: the token of the last grant |
//!
//! # Invariants
//! - I1: only compare-and-swaps change `lock`. A swap that grants or renews adds 1 to the token. A release keeps the token. So
//!   no value that names a holder comes back.
//! - I2: a waiter takes over only from a value that it has found, and then finds again by its compare-and-swap. Between the end of
//!   the first look and the start of that swap its clock has advanced by its patience.
//! - I3: a lease begins at the start of the compare-and-swap that grants it, by the holder's clock. By I2, the holder's term has
//!   then passed before a waiter takes over, if clocks differ in speed by less than an eighth.
//!
//! # Memory ordering
//! The compare-and-swap of an acquire comes after the compare-and-swap of the last release. So its rank sees all operations
//! that the last holder had completed. A rank that takes over has no such guarantee: puts of the last holder may still arrive.
//!
//! # Deviations from the paper
//! No server grants leases, and no clocks are compared. A waiter measures by its own clock how long the word stays
//! unchanged.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (compare-and-swap) if the rank held it last or has seen it since, else 2;
//! release 1 (compare-and-swap). Each poll of a waiter adds 1, and taking over 1. A write to a [`FencedWord`] takes 2.

use std::time::Duration;

use rmalab_atomics::{Address, Error as AtomicsError, RemoteAtomics, Time, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::recoverable::acknowledged;
use crate::{Error, Place, RawMutex, Result};

mod fenced;
mod guards;

pub use fenced::{FencedWord, MAX_VALUE};
pub use guards::{LeaseGuard, LeaseMutex};

/// The bits of a word below the token: a holder, or a value.
const LOW_BITS: u32 = 24;
const LOW: u64 = (1 << LOW_BITS) - 1;

/// The number of a grant. A later grant of the same lock has a larger one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub(crate) u64);

impl Token {
    /// The token of a word.
    const fn of(word: u64) -> Token {
        Token(word >> LOW_BITS)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "token {}", self.0)
    }
}

/// The parameters of a [`Lease`]. All ranks pass the same values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseParams {
    /// The time for which a grant lasts, by the holder's clock.
    pub term: Duration,
    /// The pauses between two polls.
    pub backoff: Backoff,
}

impl Default for LeaseParams {
    /// 10 seconds. A machine with more ranks than cores stops a live rank for less than that. DSLR and ShiftLock have leases of
    /// 10 ms.
    fn default() -> LeaseParams {
        LeaseParams { term: Duration::from_secs(10), backoff: Backoff::default() }
    }
}

/// One grant of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "after a takeover, the data may be half written"]
pub struct Grant {
    /// Its token.
    pub token: Token,
    /// The time at which it has passed, by this rank's clock.
    pub until: Time,
    /// True if the lease of the last holder passed before that holder released. The data may be half written then, and the last
    /// holder may still write by plain puts.
    pub took_over: bool,
}

/// One rank's handle of a lease mutex.
///
/// [`LeaseMutex`] has guards for it. As a [`RawMutex`] it ends with the failure of a rank, as other locks do.
#[derive(Debug)]
pub struct Lease {
    lock: Address,
    me: u64,
    term: Duration,
    patience: Duration,
    backoff: BackoffState,
    /// While this rank holds the lock: the value that it has given to the word. Otherwise: a value that the word may have
    /// when it is free.
    word: u64,
}

impl RawMutex for Lease {
    const NAME: &'static str = "lease";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    /// The release keeps the token.
    const RESTS_AT_ZERO: bool = false;
    type Params = LeaseParams;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: LeaseParams) -> Result<Lease> {
        if u64::from(ra.size()) > LOW - 1 {
            return Err(Error::TooManyRanks { lock: Lease::NAME, size: ra.size(), limit: LOW as u32 - 1 });
        }
        let LeaseParams { term, backoff } = params;
        let patience = term.saturating_add(term / 8);
        let backoff = BackoffState::new(backoff, ra.rank());
        Ok(Lease { lock: place.word(0), me: u64::from(ra.rank().0) + 1, term, patience, backoff, word: 0 })
    }

    #[inline]
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.enter(ra, false).map(drop)
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// [`Expired`](Error::Expired) if another rank has taken the lock over.
    #[inline]
    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let free = self.word & !LOW;
        let found = ra.compare_and_swap(self.lock, self.word, free)?;
        let held = std::mem::replace(&mut self.word, found & !LOW);
        if found == held { Ok(()) } else { Err(Error::Expired { lock: Lease::NAME, token: Token::of(held) }) }
    }
}

impl Lease {
    /// Acquires the lock, also after ranks have failed. It acknowledges their failures.
    ///
    /// # Errors
    ///
    /// [`OutOfTokens`](Error::OutOfTokens), and the errors of the network.
    #[inline]
    pub fn acquire_lease<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Grant> {
        self.enter(ra, true)
    }

    /// Begins the term of this rank's lease again. The new grant has a larger token.
    ///
    /// # Errors
    ///
    /// [`Expired`](Error::Expired) if another rank has taken the lock over, and the errors of [`acquire_lease`](Self::acquire_lease).
    pub fn renew<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Grant> {
        let (held, begin) = (self.word, ra.now());
        match self.attempt(ra, held, begin)? {
            Ok(grant) => Ok(Grant { took_over: false, ..grant }),
            Err(_) => Err(Error::Expired { lock: Lease::NAME, token: Token::of(held) }),
        }
    }

    #[inline]
    fn enter<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, goes_on: bool) -> Result<Grant> {
        let begin = ra.now();
        match self.attempt(ra, self.word & !LOW, begin)? {
            Ok(grant) => Ok(grant),
            Err(found) => self.wait(ra, found, goes_on),
        }
    }

    /// Tries to acquire the lock, whose word was `seen`. If that fails, returns its present word. The caller has read
    /// `begin` from the clock before (I3).
    #[inline]
    fn attempt<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, seen: u64, begin: Time) -> Result<Result<Grant, u64>> {
        let Token(token) = Token::of(seen);
        if token == u64::MAX >> LOW_BITS {
            return Err(Error::OutOfTokens { lock: Lease::NAME });
        }
        let mine = (token + 1) << LOW_BITS | self.me;
        let found = ra.compare_and_swap(self.lock, seen, mine)?;
        if found != seen {
            return Ok(Err(found));
        }
        self.word = mine;
        // This rank itself may be the holder that has not released: a guard was forgotten, or a panic kept the lock.
        Ok(Ok(Grant { token: Token(token + 1), until: begin.after(self.term), took_over: seen & LOW != 0 }))
    }

    /// The attempts after the first one, which has found `seen`.
    #[cold]
    #[inline(never)]
    fn wait<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, mut seen: u64, goes_on: bool) -> Result<Grant> {
        self.backoff.reset();
        let mut since = ra.now();
        loop {
            let is_free = seen & LOW == 0;
            if !is_free {
                self.pause(ra, goes_on)?;
            }
            // By I2, the clock is read ahead of the next look.
            let now = ra.now();
            let found = if is_free || now.since(since) >= self.patience {
                match self.attempt(ra, seen, now)? {
                    Ok(grant) => return Ok(grant),
                    Err(found) => found,
                }
            } else {
                ra.get(self.lock)?
            };
            if found != seen {
                (seen, since) = (found, ra.now());
            }
        }
    }

    /// Pauses. If this rank goes on after failures, they do not end the pause.
    fn pause<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, goes_on: bool) -> Result<()> {
        match self.backoff.wait(ra) {
            // A backend that ends with its first failure returns its error here.
            Err(Error::Atomics(AtomicsError::PeerFailed { .. })) if goes_on => acknowledged(ra).map(drop),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
