//! DecLock: the order of its queue, and numbers that wrap.

use rmalab_atomics::Rank;

use super::*;
use crate::suite;

#[test]
fn conforms() {
    suite::rw_lock::<DecLock>(Backoff::default());
}

#[test]
fn costs_one_and_one() {
    assert_eq!(suite::rw_lock_cost::<DecLock>(Backoff::default()), [(1, 1), (1, 1)]);
}

#[test]
fn first_come_first_served() {
    // Rank 0 writes until the others have arrived: two readers, a writer, two readers.
    suite::scenario::<DecLock>(6, Backoff::default(), |ra, mut lock, place, order| {
        let layout = Layout::new(6);
        let arrived = |rank: u32| {
            suite::poll(ra, place.word(0), |header| layout.head(header) + layout.size(header) > u64::from(rank))
        };
        let rank = ra.rank().0;
        if rank > 0 {
            arrived(rank - 1)?;
        }
        if rank % 3 == 0 {
            lock.acquire_write(ra)?;
            if rank == 0 {
                arrived(5)?;
            }
            assert_eq!(ra.fetch_add(order, 1)?, u64::from(rank));
            return lock.release_write(ra);
        }
        lock.acquire_read(ra)?;
        ra.fetch_add(order, 1)?;
        // Both readers of a group are inside together, and no rank of a later group is.
        let group = u64::from(rank / 3 * 3 + 3);
        assert_eq!(suite::poll(ra, order, |served| served >= group)?, group);
        lock.release_read(ra)
    });
}

#[test]
fn numbers_wrap() {
    const RANKS: u32 = 3;
    suite::scenario::<DecLock>(RANKS, Backoff::default(), |ra, mut lock, place, turns| {
        let layout = lock.layout;
        if ra.rank() == Rank(0) {
            // The last five tickets before the counter wraps.
            ra.compare_and_swap(place.word(0), 0, layout.after(0, 5u64.wrapping_neg()) << (2 * layout.w))?;
        }
        suite::poll(ra, place.word(0), |header| header != 0)?;
        for turn in 0..4 {
            if (ra.rank().0 + turn) % 3 == 0 {
                lock.acquire_read(ra)?;
                lock.release_read(ra)?;
            } else {
                lock.acquire_write(ra)?;
                let turn = ra.get(turns)?;
                ra.fetch_store(turns, turn + 1)?;
                lock.release_write(ra)?;
            }
        }
        ra.flush_all()?;
        let released = |header| header == 7 << (2 * layout.w);
        suite::poll(ra, place.word(0), released)?;
        assert_eq!(ra.get(turns)?, 8);
        Ok(())
    });
}

#[test]
fn fields_hold_every_number_of_ranks() {
    for size in [1, 2, 3, 4, 5, 8, 9, 1 << 14, MAX_RANKS - 1, MAX_RANKS] {
        let layout = Layout::new(size);
        let all = (0..size).fold(0, |header: u64, _| header + layout.draw(1));
        assert_eq!((layout.head(all), layout.size(all), layout.excl(all)), (0, size.into(), size.into()));
        let none = (0..size).fold(all, |header: u64, _| header.wrapping_add(layout.serve(1)));
        assert_eq!((layout.head(none), layout.size(none), layout.excl(none)), (size.into(), 0, 0));
        assert!(1 << layout.k >= size && DecLock::words(size) >= LINE + (WORD << layout.k));
        assert!(64 - 2 * layout.w - layout.k >= 17, "bits of a version among {size} ranks");
        // A writer comes after all of them, and is alone.
        assert_eq!(layout.alone(size.into()), none + layout.draw(1));
        let last = layout.head(u64::MAX);
        assert_eq!(layout.after(last, 1), 0, "tickets wrap");
        let much_later = layout.after(last, 1 << (16 + layout.k));
        assert_eq!(layout.slot(much_later), layout.slot(last));
        assert_ne!(layout.version(much_later), layout.version(last));
    }
}
