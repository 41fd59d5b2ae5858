//! What guards of recoverable locks do when they are dropped.

use rmalab_atomics::{Address, Mapped, Survivors, WORD, World};

use super::*;
use crate::suite::{die, with_deaths};
use crate::{Backoff, RobustMcs, RobustRw, RobustTas, RobustTicket};

#[test]
fn a_plain_acquire_does_not_hide_that_a_holder_has_failed() {
    let world = World::threads(3).run(|ra| {
        let refused = refused(ra, Entry::OwnerDead([Rank(2)].into_iter().collect()));
        assert!(matches!(refused, Err(Error::Atomics(AtomicsError::PeerFailed { rank: Rank(2) }))), "{refused:?}");
    });
    world.unwrap();
}

/// Rank 1 tells rank 0, and dies with what it `holds`.
fn die_with<T>(ra: &Mapped, told: Address, holds: T) -> ! {
    ra.fetch_add(told, 1).unwrap();
    std::mem::forget(holds);
    die()
}

fn is_told(ra: &Mapped, told: Address) -> Result<()> {
    while ra.get(told)? == 0 {
        let _ = ra.pause(8);
    }
    Ok(())
}

fn is_not_recoverable<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::NotRecoverable { .. }))
}

#[test]
fn a_dropped_guard_of_a_mutex_releases_it_unless_the_data_are_inconsistent() {
    for declares in [true, false] {
        with_deaths(2, |ra| {
            let told = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
            let mut mutex = RobustMutex::<_, RobustTas>::create(ra, Rank(0), Backoff::default())?;
            if ra.rank() == Rank(1) {
                drop(mutex.acquire()?);
                let guard = mutex.acquire()?;
                assert!(matches!(guard, Acquired::Clean(_)));
                die_with(ra, told, guard);
            }
            is_told(ra, told)?;
            match mutex.acquire()? {
                Acquired::OwnerDead(inconsistent) => {
                    assert!(inconsistent.failed().contains(Rank(1)));
                    if declares { drop(inconsistent.consistent()) } else { drop(inconsistent) }
                }
                Acquired::Clean(_) => panic!("not told"),
            }
            let next = mutex.acquire();
            assert!(if declares { matches!(next, Ok(Acquired::Clean(_))) } else { is_not_recoverable(&next) });
            Ok(())
        });
    }
}

#[test]
fn a_dropped_guard_of_a_reader_or_writer_releases_the_lock_unless_the_data_are_inconsistent() {
    for (writes, declares) in [(true, true), (true, false), (false, true), (false, false)] {
        with_deaths(2, |ra| {
            let told = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
            let mut lock = RobustRwLock::<_, RobustRw>::create(ra, Rank(0), Backoff::default())?;
            if ra.rank() == Rank(1) {
                drop(lock.read()?);
                drop(lock.write()?);
                let guard = lock.write()?;
                assert!(matches!(guard, AcquiredRw::Clean(_)));
                die_with(ra, told, guard);
            }
            is_told(ra, told)?;
            match if writes { lock.write()? } else { lock.read()? } {
                AcquiredRw::OwnerDead(inconsistent) => {
                    assert!(inconsistent.failed().contains(Rank(1)));
                    if declares { drop(inconsistent.consistent()?) } else { drop(inconsistent) }
                }
                AcquiredRw::Clean(_) => panic!("not told"),
            }
            for writes in [false, true] {
                let next = if writes { lock.write() } else { lock.read() };
                assert!(if declares { matches!(next, Ok(AcquiredRw::Clean(_))) } else { is_not_recoverable(&next) });
            }
            Ok(())
        });
    }
}

/// Rank 1 holds the lock, and revokes the world while rank 0 waits. Then it uses its guard.
fn a_revocation_ends_the_wait<L: Recoverable<Params: Default>>() {
    let world = World::threads(2).run(|ra| {
        let reserved = Survivors::reserve(ra, 1 << 12).unwrap();
        let told = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
        let mut mutex = RobustMutex::<_, L>::create(ra, Rank(0), L::Params::default()).unwrap();
        if ra.rank() == Rank(1) {
            let Acquired::Clean(guard) = mutex.acquire().unwrap() else { panic!("no rank has failed") };
            ra.fetch_add(told, 1).unwrap();
            reserved.revoke().unwrap();
            while ra.get(told).unwrap() < 2 {
                std::thread::yield_now();
            }
            let ended = guard.release();
            assert!(matches!(ended, Ok(()) | Err(Error::Atomics(AtomicsError::Revoked))), "{}: {ended:?}", L::NAME);
        } else {
            is_told(ra, told).unwrap();
            let ended = mutex.acquire().map(drop);
            assert!(matches!(ended, Err(Error::Atomics(AtomicsError::Revoked))), "{}: {ended:?}", L::NAME);
            ra.fetch_add(told, 1).unwrap();
        }
    });
    world.unwrap();
}

#[test]
fn a_revocation_ends_an_acquire() {
    a_revocation_ends_the_wait::<RobustTas>();
    a_revocation_ends_the_wait::<RobustTicket>();
    a_revocation_ends_the_wait::<RobustMcs>();
}

/// A lock whose steps after an acquire are refused, except that it may be left as not recoverable. It records that.
#[derive(Debug)]
struct Refuses {
    left: Address,
}

impl Refuses {
    fn refused<T>() -> Result<T> {
        Err(Error::Atomics(AtomicsError::PeerFailed { rank: Rank(1) }))
    }
}

impl RawMutex for Refuses {
    const NAME: &'static str = "refuses";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, (): ()) -> Result<Refuses> {
        Ok(Refuses { left: place.word(0) })
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Refuses::refused()
    }
}

impl Recoverable for Refuses {
    fn recoverable_acquire<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<Entry> {
        Ok(Entry::Clean)
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.left, 1)?)
    }
}

impl RawRwLock for Refuses {
    const NAME: &'static str = "refuses";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<Refuses> {
        RawMutex::bind(ra, place, ())
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Ok(())
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Refuses::refused()
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Ok(())
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Refuses::refused()
    }
}

impl RecoverableRw for Refuses {
    fn recoverable_acquire_read<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<Entry> {
        Ok(Entry::OwnerDead([Rank(1)].into_iter().collect()))
    }

    fn recoverable_acquire_write<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<Entry> {
        Ok(Entry::Clean)
    }

    fn share<A: RemoteAtomics + ?Sized>(&mut self, _ra: &A) -> Result<()> {
        Refuses::refused()
    }

    fn release_unrecovered<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.left, 1)?)
    }
}

#[test]
fn an_error_of_a_release_is_returned_and_that_of_a_drop_comes_out_of_the_next_acquire() {
    let lost = |error: Error| assert!(matches!(error, Error::Atomics(AtomicsError::PeerFailed { .. })), "{error:?}");
    let world = World::threads(1).run(|ra| {
        let mut mutex = RobustMutex::<_, Refuses>::create(ra, Rank(0), ()).unwrap();
        let Ok(Acquired::Clean(guard)) = mutex.acquire() else { panic!("no rank has failed") };
        lost(guard.release().unwrap_err());
        drop(mutex.acquire().unwrap());
        lost(mutex.acquire().map(drop).unwrap_err());

        let mut lock = RobustRwLock::<_, Refuses>::create(ra, Rank(0), ()).unwrap();
        let Ok(AcquiredRw::Clean(guard)) = lock.write() else { panic!("no rank has failed") };
        lost(guard.release().unwrap_err());
        drop(lock.write().unwrap());
        lost(lock.write().map(drop).unwrap_err());
    });
    world.unwrap();
}

#[test]
fn data_whose_declaration_is_refused_are_not_consistent() {
    let world = World::threads(1).run(|ra| {
        let place = Place::alloc(ra, Rank(0), <Refuses as RawRwLock>::WORDS, 0).unwrap();
        let mut lock = RobustRwLock::<_, Refuses>::at(ra, place, ()).unwrap();
        let Ok(AcquiredRw::OwnerDead(inconsistent)) = lock.read() else { panic!("rank 1 has failed") };
        assert!(inconsistent.consistent().is_err());
        assert_eq!(ra.get(place.word(0)).unwrap(), 1, "the lock is left as not recoverable");
        assert!(lock.write().is_ok(), "the release had no error");
    });
    world.unwrap();
}
