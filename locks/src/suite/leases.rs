//! The leases' part of the suite.

use rmalab_atomics::{Rank, RemoteAtomics};

use super::*;
use crate::lease::{FencedWord, LeaseMutex};
use crate::{Error, LeaseParams};

/// Checks a lease mutex with a short term, on threads: holders lose it, and cannot write to a fenced word afterwards.
pub fn leases(params: LeaseParams) {
    for size in SIZES {
        on_threads_of(size, |ra| leases_on(ra, params));
    }
}

/// One rank's part of [`leases`].
pub fn leases_on<A: RemoteAtomics + ?Sized>(ra: &A, params: LeaseParams) -> Result<()> {
    let all = Collectives::new(ra)?;
    let word = FencedWord::create(ra, middle(ra))?;
    let mut lock = LeaseMutex::create(ra, middle(ra), params)?;
    // If no rank stops, all acquire it, and the token of the word never decreases.
    let mut last = word.get(ra)?.1;
    for _ in 0..ROUND {
        let mut guard = lock.acquire()?;
        assert!(guard.token() > last, "{}: a grant has an old token", ra.rank());
        last = guard.token();
        // The machine may stop any rank for longer than its lease.
        for _ in ["a grant", "a renewed grant"] {
            match guard.put(word, ra.rank().0).and_then(|()| guard.renew()) {
                Ok(()) | Err(Error::Expired { .. }) => {}
                Err(other) => return Err(other),
            }
            let (_, token) = word.get(ra)?;
            assert!(token >= last, "{}: {token} comes after {last}", ra.rank());
            last = token;
        }
    }
    drop(lock);
    all.barrier()?;
    taken_over_on(ra, params, |done| poll(ra, done, |word| word != 0).map(drop))
}

/// Rank 0 stops while it holds the lock, until rank 1 has taken it over and written. Then the lock and the word refuse
/// all calls of rank 0.
///
/// `stop` gets the word that rank 1 sets when rank 0 is to go on.
pub fn taken_over_on<A: RemoteAtomics + ?Sized>(
    ra: &A,
    params: LeaseParams,
    stop: impl FnOnce(Address) -> Result<()>,
) -> Result<()> {
    let all = Collectives::new(ra)?;
    let word = FencedWord::create(ra, middle(ra))?;
    let [held, done] = [(); 2].map(|()| ra.heap().alloc(WORD, WORD));
    let (held, done) = (Rank(0).at(held?), Rank(0).at(done?));
    let mut lock = LeaseMutex::create(ra, middle(ra), params)?;
    match ra.rank() {
        Rank(0) => {
            let mut guard = lock.acquire()?;
            guard.put(word, 1)?;
            ra.put(held, 1)?;
            ra.flush_all()?;
            stop(done)?;
            assert!(guard.has_passed(), "rank 1 has waited for longer than the lease");
            for refused in [guard.put(word, 2), guard.renew(), guard.release()] {
                assert!(matches!(refused, Err(Error::Expired { .. })), "rank 0 writes after rank 1: {refused:?}");
            }
        }
        Rank(1) => {
            poll(ra, held, |word| word != 0)?;
            let guard = lock.acquire()?;
            assert!(guard.took_over(), "rank 0 has not released");
            let (value, token) = word.get(ra)?;
            assert!(value == 1 && token < guard.token(), "rank 0 has written before");
            guard.put(word, 3)?;
            ra.put(done, 1)?;
            ra.flush_all()?;
            guard.release()?;
        }
        _ => {}
    }
    all.barrier()?;
    assert_eq!(word.get(ra)?.0, 3, "the write of rank 1 is the last one");
    let guard = lock.acquire()?;
    assert!(guard.token() > word.get(ra)?.1, "tokens grow");
    drop(guard);
    all.barrier().map_err(Error::from)
}
