//! What epochs promise, on threads, over foMPI's locks.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use rmalab_atomics::{Collectives, Mapped, Rank, RemoteAtomics, World};
use rmalab_locks::{Assert, Error as LockError, LockKind, TwoLevel};
use rmalab_windows::{Error, Operation, Window, WindowDisp};

const COUNTER: WindowDisp = WindowDisp(0);

fn two_level(ra: &Mapped, bytes: u64) -> Window<'_, Mapped, TwoLevel> {
    Window::allocate(ra, bytes, Default::default()).unwrap()
}

#[test]
fn exclusive_epochs_count_without_atomics() {
    const ROUNDS: u64 = 2_000;
    let seen = World::threads(4).run(|ra| {
        let collectives = Collectives::new(ra).unwrap();
        let window = two_level(ra, 8);
        let target = Rank(1);
        for round in 0..ROUNDS {
            let epoch = window.lock(LockKind::Exclusive, target).unwrap();
            let mut bytes = [0; 8];
            epoch.get(COUNTER, &mut bytes).unwrap();
            let next = u64::from_le_bytes(bytes) + 1;
            epoch.put(COUNTER, &next.to_le_bytes()).unwrap();
            // Both ways to end an epoch.
            if round.is_multiple_of(2) {
                epoch.unlock().unwrap();
            }
        }
        collectives.barrier().unwrap();
        let epoch = window.lock(LockKind::Shared, target).unwrap();
        epoch.get_word(COUNTER).unwrap()
    });
    assert_eq!(seen.unwrap(), [4 * ROUNDS; 4]);
}

#[test]
fn fetch_add_counts_under_lock_all() {
    const ROUNDS: u64 = 5_000;
    let seen = World::threads(3).run(|ra| {
        let collectives = Collectives::new(ra).unwrap();
        let window = two_level(ra, 8);
        let epoch = window.lock_all().unwrap();
        for _ in 0..ROUNDS {
            epoch.fetch_add(Rank(2), COUNTER, 1).unwrap();
        }
        epoch.flush(Rank(2)).unwrap();
        epoch.unlock_all().unwrap();
        collectives.barrier().unwrap();
        window.lock_all().unwrap().get_word(Rank(2), COUNTER).unwrap()
    });
    assert_eq!(seen.unwrap(), [3 * ROUNDS; 3]);
}

#[test]
fn compare_and_swap_lets_one_rank_win() {
    let winners = World::threads(4).run(|ra| {
        let window = two_level(ra, 8);
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        let mine = u64::from(ra.rank().0) + 1;
        epoch.compare_and_swap(COUNTER, 0, mine).unwrap() == 0
    });
    assert_eq!(winners.unwrap().into_iter().filter(|&won| won).count(), 1);
}

/// Each holder finds every word of the block as one earlier holder left it, and leaves its own.
#[test]
fn the_next_holder_sees_all_of_it() {
    const WORDS: usize = 64;
    let world = World::threads(4).run(|ra| {
        let window = two_level(ra, 8 * WORDS as u64);
        for round in 0..500_u64 {
            let epoch = window.lock(LockKind::Exclusive, Rank(3)).unwrap();
            let mut block = [0; 8 * WORDS];
            epoch.get(WindowDisp(0), &mut block).unwrap();
            let mut words = block.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            let first = words.next().unwrap();
            assert!(words.all(|word| word == first), "{}: a torn block in round {round}", ra.rank());
            // The last word first, so that posting order does not help.
            for word in (0..WORDS as u64).rev() {
                epoch.put_word(WindowDisp(0).word(word), first + 1).unwrap();
            }
            epoch.unlock().unwrap();
        }
        let epoch = window.lock(LockKind::Exclusive, Rank(3)).unwrap();
        epoch.get_word(COUNTER).unwrap()
    });
    let last = world.unwrap();
    assert_eq!(last.iter().max(), Some(&2_000));
}

#[test]
fn several_epochs_at_once_to_different_targets() {
    let world = World::threads(3).run(|ra| {
        let collectives = Collectives::new(ra).unwrap();
        let window = two_level(ra, 8);
        // In the order of the ranks, so that nobody waits in a circle.
        for _ in 0..200 {
            let low = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            let middle = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            let high = window.lock(LockKind::Shared, Rank(2)).unwrap();
            let value = low.get_word(COUNTER).unwrap();
            assert_eq!(middle.get_word(COUNTER).unwrap(), value);
            low.put_word(COUNTER, value + 1).unwrap();
            drop(high);
            middle.put_word(COUNTER, value + 1).unwrap();
            low.flush().unwrap();
            middle.flush().unwrap();
            // The first one locked is the first one unlocked.
            middle.unlock().unwrap();
            low.unlock().unwrap();
        }
        collectives.barrier().unwrap();
        window.lock_all().unwrap().get_word(Rank(1), COUNTER).unwrap()
    });
    assert_eq!(world.unwrap(), [600; 3]);
}

#[test]
fn the_window_ends_where_it_ends() {
    let world = World::threads(2).run(|ra| {
        let window = two_level(ra, 16);
        let other = Rank(1 - ra.rank().0);
        let epoch = window.lock(LockKind::Shared, other).unwrap();
        epoch.put(WindowDisp(16), &[]).unwrap();
        epoch.get(WindowDisp(12), &mut [0; 4]).unwrap();
        match epoch.put(WindowDisp(12), &[0; 5]) {
            Err(Error::OutOfWindow { operation: Operation::Put, target, disp, len: 5, bytes: 16 }) => {
                assert_eq!((target, disp), (other, WindowDisp(12)));
            }
            result => panic!("{result:?}"),
        }
        let result = epoch.get(WindowDisp(u64::MAX), &mut [0; 2]);
        assert!(matches!(result, Err(Error::OutOfWindow { operation: Operation::Get, .. })), "{result:?}");
        let result = epoch.fetch_add(WindowDisp(16), 1);
        assert!(matches!(result, Err(Error::OutOfWindow { operation: Operation::FetchAdd, .. })), "{result:?}");
        let result = epoch.put_word(WindowDisp(4), 1);
        assert!(matches!(result, Err(Error::Misaligned { operation: Operation::PutWord, .. })), "{result:?}");
        let message = epoch.put(WindowDisp(8), &[0; 9]).unwrap_err().to_string();
        assert_eq!(message, format!("put of 9 bytes at 0x8 of {other}: the window has 16 bytes there"));
    });
    world.unwrap();
}

#[test]
fn a_window_of_no_bytes_and_a_world_of_one_rank() {
    let world = World::threads(1).run(|ra| {
        let window = two_level(ra, 0);
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        epoch.put(WindowDisp(0), &[]).unwrap();
        assert!(epoch.get_word(WindowDisp(0)).is_err());
        epoch.unlock().unwrap();
        window.lock_all().unwrap().unlock_all().unwrap();
    });
    world.unwrap();
}

#[test]
fn misuse_is_an_error_that_names_the_target() {
    let world = World::threads(2).run(|ra| {
        let window = two_level(ra, 8);
        let me = ra.rank();
        let epoch = window.lock(LockKind::Exclusive, me).unwrap();
        match window.lock(LockKind::Shared, me) {
            Err(Error::Locks(LockError::AlreadyLocked { rank, target, held: "exclusive", .. })) => {
                assert_eq!((rank, target), (me, me));
            }
            result => panic!("{result:?}"),
        }
        let result = window.lock_all();
        assert!(matches!(result, Err(Error::Locks(LockError::LockAllWhileLocked { .. }))), "{result:?}");
        epoch.unlock().unwrap();
        let result = window.lock(LockKind::Shared, Rank(2));
        assert!(
            matches!(result, Err(Error::Locks(LockError::NoSuchTarget { target: Rank(2), size: 2, .. }))),
            "{result:?}"
        );
        let all = window.lock_all().unwrap();
        let result = window.lock(LockKind::Shared, me);
        assert!(matches!(result, Err(Error::Locks(LockError::AlreadyLocked { held: "lock_all", .. }))), "{result:?}");
        let result = all.get_word(Rank(7), COUNTER);
        assert!(matches!(result, Err(Error::Atomics(_))), "{result:?}");
        all.unlock_all().unwrap();
    });
    world.unwrap();
}

#[test]
fn an_epoch_asserted_free_of_conflicts_locks_nothing() {
    let world = World::threads(1).run(|ra| {
        let window = two_level(ra, 8);
        // A second window lock over the same memory would be needed to see a conflict; here, what is not locked is not
        // unlocked either: a lock that follows still works.
        window.lock_assert(LockKind::Exclusive, Rank(0), Assert::NoCheck).unwrap().unlock().unwrap();
        window.lock_all_assert(Assert::NoCheck).unwrap().unlock_all().unwrap();
        window.lock(LockKind::Exclusive, Rank(0)).unwrap().unlock().unwrap();
        window.lock_all().unwrap().unlock_all().unwrap();
    });
    world.unwrap();
}

#[test]
fn a_freed_window_leaves_clean_memory() {
    let world = World::threads(3).run(|ra| {
        let collectives = Collectives::new(ra).unwrap();
        let bytes = 200_000;
        // More windows than fit at once.
        for round in 1..20 {
            let window = two_level(ra, bytes);
            let epoch = window.lock(LockKind::Shared, ra.rank()).unwrap();
            let last = WindowDisp(bytes - 8);
            assert_eq!(epoch.get_word(last).unwrap(), 0);
            epoch.put_word(last, round).unwrap();
            epoch.unlock().unwrap();
            window.free(&collectives).unwrap();
        }
    });
    world.unwrap();
}
