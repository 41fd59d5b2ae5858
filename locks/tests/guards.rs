//! Tests of guards, over a mutex that fails on request, and over the same mutex as a reader-writer lock.

use std::time::Duration;

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Time, WORD, World};
use rmalab_locks::{
    Assert, Error, Exclusive, Global, GlobalParams, LockKind, Mutex, Place, RawMutex, RawMutexTimed, RawMutexTry,
    Result, RwLock, WindowLocks,
};

/// One word. The rank that sets it holds the lock.
struct OneWord {
    word: Address,
    fails: bool,
}

/// True if the release returns an error instead of releasing.
#[derive(Clone, Copy, Default, Debug)]
struct Fails(bool);

impl RawMutex for OneWord {
    const NAME: &'static str = "one-word";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = Fails;

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, fails: Fails) -> Result<OneWord> {
        Ok(OneWord { word: place.home.at(place.words), fails: fails.0 })
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while !self.try_acquire(ra)? {
            ra.pause(4)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.fails {
            // The effect of a rank that is gone: an operation that the network refuses.
            ra.get(Rank(ra.size()).at(Disp(0)))?;
        }
        ra.fetch_store(self.word, 0)?;
        Ok(())
    }
}

impl RawMutexTry for OneWord {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        Ok(ra.compare_and_swap(self.word, 0, 1)? == 0)
    }
}

impl RawMutexTimed for OneWord {
    fn acquire_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        while !self.try_acquire(ra)? {
            if ra.now() >= deadline {
                return Ok(false);
            }
            ra.pause(4)?;
        }
        Ok(true)
    }
}

/// Adds 1 to a word, in two steps.
fn increment<A: RemoteAtomics + ?Sized>(ra: &A, at: Address) -> u64 {
    let value = ra.get(at).unwrap() + 1;
    ra.put(at, value).unwrap();
    ra.flush(at.rank).unwrap();
    value
}

#[test]
fn a_mutex_excludes_however_it_is_released() {
    let world = World::threads(4).run(|ra| {
        let counter = Rank(1).at(ra.heap().alloc(WORD, WORD).unwrap());
        let mut mutex = Mutex::<_, OneWord>::create(ra, Rank(2), Fails(false)).unwrap();
        let mut last = 0;
        for round in 0..1_000 {
            let guard = match round % 3 {
                0 => loop {
                    if let Some(guard) = mutex.acquire_within(Duration::from_millis(1)).unwrap() {
                        break guard;
                    }
                },
                _ => mutex.acquire().unwrap(),
            };
            last = increment(ra, counter);
            if round % 2 == 0 {
                guard.release().unwrap();
            }
        }
        last
    });
    assert_eq!(world.unwrap().into_iter().max(), Some(4_000));
}

#[test]
fn a_reader_writer_lock_excludes_however_it_is_released() {
    let world = World::threads(4).run(|ra| {
        let counter = Rank(1).at(ra.heap().alloc(WORD, WORD).unwrap());
        let mut lock = RwLock::<_, Exclusive<OneWord>>::create(ra, Rank(0), Fails(false)).unwrap();
        for round in 0..1_000 {
            let guard = lock.acquire_write().unwrap();
            increment(ra, counter);
            if round % 2 == 0 {
                guard.release().unwrap();
            } else {
                drop(guard);
            }
            let guard = lock.acquire_read().unwrap();
            let seen = ra.get(counter).unwrap();
            assert_eq!(ra.get(counter).unwrap(), seen);
            if round % 2 == 1 {
                guard.release().unwrap();
            }
        }
        drop(lock.acquire_write().unwrap());
        let _guard = lock.acquire_read().unwrap();
        ra.get(counter).unwrap()
    });
    assert_eq!(world.unwrap().into_iter().max(), Some(4_000));
}

/// An attempt that fails must not release what another rank holds.
#[test]
fn a_failed_attempt_releases_nothing() {
    let world = World::threads(1).run(|ra| {
        let place = Place::alloc(ra, Rank(0), OneWord::WORDS, OneWord::NODE).unwrap();
        let mut holder = Mutex::<_, OneWord>::at(ra, place, Fails(false)).unwrap();
        let mut other = Mutex::<_, OneWord>::at(ra, place, Fails(false)).unwrap();
        let mut shared = RwLock::<_, Exclusive<OneWord>>::at(ra, place, Fails(false)).unwrap();
        let guard = holder.acquire().unwrap();
        for _ in 0..2 {
            assert!(other.try_acquire().unwrap().is_none());
            assert!(other.acquire_within(Duration::ZERO).unwrap().is_none());
            assert!(shared.try_acquire_read().unwrap().is_none());
            assert!(shared.try_acquire_write().unwrap().is_none());
            assert!(shared.acquire_read_within(Duration::ZERO).unwrap().is_none());
            assert!(shared.acquire_write_within(Duration::ZERO).unwrap().is_none());
        }
        guard.release().unwrap();
        assert!(other.try_acquire().unwrap().is_some());
        assert!(holder.acquire_within(Duration::ZERO).unwrap().is_some());
        assert!(shared.try_acquire_read().unwrap().is_some());
        assert!(shared.try_acquire_write().unwrap().is_some());
        assert!(shared.acquire_read_within(Duration::ZERO).unwrap().is_some());
        assert!(shared.acquire_write_within(Duration::ZERO).unwrap().is_some());
        assert!(holder.try_acquire().unwrap().is_some());
    });
    world.unwrap();
}

#[test]
fn an_error_of_a_release_is_returned_and_that_of_a_drop_comes_out_of_the_next_acquire() {
    let world = World::threads(1).run(|ra| {
        let mut mutex = Mutex::<_, OneWord>::create(ra, Rank(0), Fails(true)).unwrap();
        let result = mutex.acquire().unwrap().release();
        assert!(matches!(result, Err(Error::Atomics(_))), "{result:?}");

        let mut mutex = Mutex::<_, OneWord>::create(ra, Rank(0), Fails(true)).unwrap();
        drop(mutex.acquire().unwrap());
        let error = mutex.acquire().map(drop).unwrap_err();
        assert!(matches!(error, Error::Atomics(_)), "{error:?}");

        let lock = || RwLock::<_, Exclusive<OneWord>>::create(ra, Rank(0), Fails(true)).unwrap();
        let error = lock().acquire_read().unwrap().release().unwrap_err();
        assert!(matches!(error, Error::Atomics(_)), "{error:?}");
        let error = lock().acquire_write().unwrap().release().unwrap_err();
        assert!(matches!(error, Error::Atomics(_)), "{error:?}");

        let mut read = lock();
        drop(read.acquire_read().unwrap());
        let error = read.acquire_write().map(drop).unwrap_err();
        assert!(matches!(error, Error::Atomics(_)), "{error:?}");
        let mut written = lock();
        drop(written.acquire_write().unwrap());
        let error = written.acquire_read().map(drop).unwrap_err();
        assert!(matches!(error, Error::Atomics(_)), "{error:?}");
    });
    world.unwrap();
}

#[test]
fn an_error_of_an_unlock_is_returned_and_that_of_a_drop_comes_out_of_the_next_lock() {
    let world = World::threads(1).run(|ra| {
        let params = GlobalParams { lock: Fails(true), ..GlobalParams::default() };
        let locks = || WindowLocks::<Global<Exclusive<OneWord>>>::new(ra, params).unwrap();
        let lost = |error: Error| assert!(matches!(error, Error::Atomics(_)), "{error:?}");

        lost(locks().lock_guard(ra, LockKind::Exclusive, Rank(0), Assert::None).unwrap().unlock().unwrap_err());
        lost(locks().lock_all_guard(ra, Assert::None).unwrap().unlock_all().unwrap_err());

        let mut one = locks();
        drop(one.lock_guard(ra, LockKind::Exclusive, Rank(0), Assert::None).unwrap());
        lost(one.lock_all_guard(ra, Assert::None).map(drop).unwrap_err());
        let mut all = locks();
        drop(all.lock_all_guard(ra, Assert::None).unwrap());
        lost(all.lock_guard(ra, LockKind::Exclusive, Rank(0), Assert::None).map(drop).unwrap_err());
    });
    world.unwrap();
}

/// A rank that panics inside leaves its lock. The ranks after it learn of the failure, or acquire, but do not hang.
#[test]
fn a_panic_inside_releases() {
    let result = std::panic::catch_unwind(|| {
        World::threads(2).run(|ra| {
            let mut mutex = Mutex::<_, OneWord>::create(ra, Rank(0), Fails(false)).unwrap();
            let _guard = mutex.acquire();
            assert!(ra.rank() != Rank(1), "rank 1 gives up");
        })
    });
    let panic = result.unwrap_err();
    let text = panic.downcast_ref::<String>().map_or_else(|| panic.downcast_ref::<&str>().copied(), |s| Some(s));
    assert_eq!(text, Some("rank 1 gives up"));
}
