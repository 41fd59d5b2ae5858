//! Leases, their guards, and fenced words.

use rmalab_atomics::{Mapped, Rank, World};

use super::*;
use crate::suite;

#[test]
fn conforms() {
    suite::mutex::<Lease>(LeaseParams::default());
}

#[test]
fn costs_one_and_one_after_itself() {
    assert_eq!(suite::mutex_cost::<Lease>(LeaseParams::default()), (1, 1));
}

#[test]
fn grants_have_numbers() {
    let texts = World::threads(1).run(|ra| {
        let mut lock = LeaseMutex::create(ra, Rank(0), LeaseParams::default()).unwrap();
        [1, 2].map(|number| {
            let token = lock.acquire().unwrap().token();
            assert_eq!(token.number(), number);
            token.to_string()
        })
    });
    assert_eq!(texts.unwrap(), [["token 1", "token 2"]]);
}

#[test]
fn a_renewed_grant_is_not_taken_over_and_tokens_end() {
    let world = World::threads(1).run(|ra| {
        let params = LeaseParams { term: Duration::from_millis(1), ..LeaseParams::default() };
        let place = Place::alloc(ra, Rank(0), Lease::WORDS, Lease::NODE).unwrap();
        let mut lock = Lease::bind(ra, place, params).unwrap();
        assert!(!lock.acquire_lease(ra).unwrap().took_over);
        assert!(!lock.renew(ra).unwrap().took_over);
        lock.release(ra).unwrap();
        // Free, after the last token.
        ra.fetch_store(place.home.at(place.words), !LOW).unwrap();
        let ended = lock.acquire_lease(ra);
        assert!(matches!(ended, Err(Error::OutOfTokens { .. })), "{ended:?}");
    });
    world.unwrap();
}

/// A holder may end without a release: a panic, or a guard that is forgotten.
#[test]
fn a_rank_that_waits_for_its_own_lease_learns_that_nothing_was_released() {
    let params = LeaseParams { term: Duration::from_millis(1), ..LeaseParams::default() };
    let took_over = World::threads(1).run(|ra| {
        let mut lock = LeaseMutex::create(ra, Rank(0), params).unwrap();
        std::mem::forget(lock.acquire().unwrap());
        let mut guard = lock.acquire().unwrap();
        let first = guard.took_over();
        guard.renew().unwrap();
        [first, guard.took_over()]
    });
    assert_eq!(took_over.unwrap(), [[true, true]]);
}

#[test]
fn leases_pass_and_late_writes_are_refused() {
    suite::leases(LeaseParams { term: Duration::from_millis(1), ..LeaseParams::default() });
}

#[test]
fn a_guard_releases_when_dropped_and_tells_whether_its_lease_has_passed() {
    let world = World::threads(1).run(|ra| {
        let place = Place::alloc(ra, Rank(0), Lease::WORDS, Lease::NODE).unwrap();
        let guard_of = |term| LeaseMutex::at(ra, place, LeaseParams { term, ..LeaseParams::default() }).unwrap();
        let holder = || ra.get(place.word(0)).unwrap() & LOW;
        let mut long = guard_of(Duration::from_secs(3600));
        let guard = long.acquire().unwrap();
        assert_eq!((guard.has_passed(), guard.took_over(), holder()), (false, false, 1));
        drop(guard);
        assert_eq!(holder(), 0);
        let mut short = guard_of(Duration::ZERO);
        assert!(short.acquire().unwrap().has_passed());
    });
    world.unwrap();
}

#[test]
fn a_token_writes_as_often_as_its_holder_wants_until_a_later_one_has_written() {
    let world = World::threads(1).run(|ra| {
        let word = FencedWord::create(ra, Rank(0)).unwrap();
        for (token, value) in [(1, 5), (1, 6), (3, 7), (3, 8)] {
            word.put(ra, Token(token), value).unwrap();
            assert_eq!(word.get(ra).unwrap(), (value, Token(token)));
        }
        let late = word.put(ra, Token(2), 9);
        assert!(matches!(late, Err(Error::Expired { token: Token(2), .. })), "{late:?}");
        assert_eq!(word.get(ra).unwrap(), (8, Token(3)));
    });
    world.unwrap();
}

/// Rank 1 writes all the time with the last token, while rank 0 writes with later ones.
#[test]
fn a_write_to_a_fenced_word_that_changes_is_not_lost() {
    let world = World::threads(2).run(|ra| {
        let word = FencedWord::create(ra, Rank(0)).unwrap();
        let words = ra.heap().alloc(2 * WORD, WORD).unwrap();
        let [begun, ended] = [0, 1].map(|index| Rank(1).at(words.word(index)));
        if ra.rank() == Rank(1) {
            ra.put(begun, 1).unwrap();
            while ra.get(ended).unwrap() == 0 && ra.failed().unwrap().is_empty() {
                let (value, token) = word.get(ra).unwrap();
                let _ = word.put(ra, token, (value + 1) & MAX_VALUE);
            }
            return;
        }
        while ra.get(begun).unwrap() == 0 {
            std::thread::yield_now();
        }
        let (mut changes, mut token) = (0, 0);
        while changes < 50 {
            token += 1;
            word.put(ra, Token(token), 0).unwrap();
            let (value, last) = word.get(ra).unwrap();
            assert_eq!(last, Token(token), "after {changes} changes");
            changes += u32::from(value != 0);
        }
        ra.put(ended, 1).unwrap();
    });
    world.unwrap();
}

/// Rank 1 dies with the lease.
fn after_a_death(waits: impl Fn(&Mapped, &mut Lease) -> Result<()> + Sync) {
    suite::with_deaths(2, |ra| {
        let place = Place::alloc(ra, Rank(0), Lease::WORDS, Lease::NODE)?;
        let params = LeaseParams { term: Duration::from_millis(20), ..LeaseParams::default() };
        let mut lock = Lease::bind(ra, place, params)?;
        if ra.rank() == Rank(1) {
            let _ = lock.acquire_lease(ra)?;
            suite::die();
        }
        while ra.failed()?.is_empty() {
            std::thread::yield_now();
        }
        waits(ra, &mut lock)
    });
}

#[test]
fn a_failure_ends_a_plain_acquire_and_not_that_of_a_lease() {
    after_a_death(|ra, lock| {
        let ended = lock.acquire(ra);
        assert!(matches!(ended, Err(Error::Atomics(AtomicsError::PeerFailed { rank: Rank(1) }))), "{ended:?}");
        Ok(())
    });
    after_a_death(|ra, lock| {
        assert!(lock.acquire_lease(ra)?.took_over);
        lock.release(ra)
    });
}
