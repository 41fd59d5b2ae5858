//! RMA-RW: thresholds, the counter word by word, and the costs of writers.

use rmalab_atomics::{Counted, Mapped, Topology, World};

use super::*;
use crate::suite;

fn params(t_dc: u32, t_l: u16, t_r: u32) -> RmaRwParams {
    let levels = Elements::Blocks([2, 0, 0]);
    RmaRwParams { t_dc, t_l: [t_l; 4], t_r, levels, ..RmaRwParams::default() }
}

#[test]
fn conforms() {
    suite::rw_lock::<RmaRw>(RmaRwParams::default());
    for (t_dc, t_l, t_r) in [(1, 1, 1), (2, 2, 2), (3, 1, 0), (1_000, 100, 100)] {
        suite::rw_lock::<RmaRw>(params(t_dc, t_l, t_r));
    }
}

#[test]
fn fields_do_not_overlap() {
    let (all_inside, all_arrive) = (u64::from(MAX_RANKS) * INSIDE, (PHASE / ARRIVE - 1) * ARRIVE);
    let all = WRITE | CLOSED | all_inside | all_arrive | PHASE;
    assert_eq!(all, u64::MAX);
    assert_eq!(WRITE + CLOSED + all_inside + ARRIVE, 2 * ARRIVE - 1);
    assert_eq!((arrive(u64::MAX), FULL.count_ones()), (2 * FULL - 1, 1));
    let counter = PHASE + 7 * ARRIVE + 3 * INSIDE + WRITE;
    assert_eq!((arrive(counter), inside(counter), depart(counter)), (7, 3, 4));
}

#[test]
fn t_w_is_the_product() {
    let params = RmaRwParams { t_l: [2, 3, 5, 7], ..RmaRwParams::default() };
    assert_eq!([1, 2, 4].map(|levels| params.t_w(levels)), [2, 6, 210]);
}

/// Rank 0 is inside as a reader when the writer, rank 2, comes. With T_R = 2, one more reader enters before it.
#[test]
fn t_r_readers_enter_before_a_writer() {
    suite::scenario::<RmaRw>(3, params(3, 1, 2), |ra, mut lock, _, word| {
        let counter = lock.counter;
        let seen = |holds: &dyn Fn(u64) -> bool| suite::poll(ra, counter, holds).map(drop);
        match ra.rank().0 {
            0 => {
                lock.acquire_read(ra)?;
                ra.fetch_add(word, 1)?;
                seen(&|counter| arrive(counter) == 3)?;
                assert_eq!(ra.get(word)?, 1, "the third reader enters before the writer");
                lock.release_read(ra)
            }
            1 => {
                seen(&|counter| counter & WRITE != 0)?;
                lock.acquire_read(ra)?;
                assert_eq!(ra.get(word)?, 1, "the writer has not waited for the first reader");
                lock.release_read(ra)?;
                lock.acquire_read(ra)?;
                assert_eq!(ra.get(word)?, 2, "the writer comes first");
                lock.release_read(ra)
            }
            _ => {
                suite::poll(ra, word, |word| word == 1)?;
                lock.acquire_write(ra)?;
                ra.fetch_add(word, 1)?;
                lock.release_write(ra)
            }
        }
    });
}

#[test]
fn a_full_counter_waits_until_it_is_idle() {
    suite::scenario::<RmaRw>(2, params(2, 1, 1), |ra, mut lock, _, word| {
        let counter = lock.counter;
        if ra.rank().0 == 0 {
            // A reader is inside, after this many others.
            ra.fetch_store(counter, PHASE + FULL * ARRIVE + INSIDE)?;
            ra.fetch_add(word, 1)?;
            suite::poll(ra, counter, |counter| (arrive(counter), inside(counter)) == (FULL + 1, 1))?;
            ra.fetch_add(word, 1)?;
            ra.fetch_store(counter, 0)?;
        } else {
            suite::poll(ra, word, |word| word == 1)?;
            lock.acquire_read(ra)?;
            assert_eq!(ra.get(word)?, 2);
            lock.release_read(ra)?;
            assert_eq!(ra.get(counter)?, 0);
        }
        Ok(())
    });
}

#[test]
fn costs_on_two_nodes_of_a_rank() {
    // The rank's own counter is not remote.
    assert_eq!(suite::rw_lock_cost::<RmaRw>(RmaRwParams::default()), [(0, 0), (2, 2)]);
    assert_eq!(suite::rw_lock_cost::<RmaRw>(RmaRwParams { t_dc: 2, ..RmaRwParams::default() }), [(1, 1), (2, 2)]);
}

#[test]
fn writers_pay_for_counters() {
    // Three nodes of two ranks. Rank 3 is the second rank of the second node.
    let world = World::threads(6).topology(Topology::blocks(6, 2, 1).unwrap());
    let costs = world.run(|ra| {
        let place = Place::alloc(ra, Rank(0), RmaRw::WORDS, RmaRw::NODE).unwrap();
        if ra.rank().0 != 3 {
            return Vec::new();
        }
        let ra = Counted::new(ra);
        let mut lock = RmaRw::bind(&ra, place, RmaRwParams::default()).unwrap();
        type Step = fn(&mut RmaRw, &Counted<'_, Mapped>) -> Result<()>;
        let steps: [Step; 4] = [
            |lock, ra| lock.acquire_read(ra),
            |lock, ra| lock.release_read(ra),
            |lock, ra| lock.acquire_write(ra),
            |lock, ra| lock.release_write(ra),
        ];
        steps
            .map(|step| {
                step(&mut lock, &ra).unwrap();
                ra.take().remote_operations()
            })
            .to_vec()
    });
    // A reader: its counter. A writer: three counters, the queues of the node and of the world; then the same, and the
    // link to the next node.
    assert_eq!(costs.unwrap().concat(), [1, 1, 5, 6]);
}

#[test]
fn a_threshold_of_0_is_refused() {
    let refused = |ra: &Mapped| {
        let place = Place::alloc(ra, Rank(0), RmaRw::WORDS, RmaRw::NODE).unwrap();
        let params = RmaRwParams { t_l: [0, 1, 1, 1], ..RmaRwParams::default() };
        RmaRw::bind(ra, place, params).unwrap_err().to_string()
    };
    let why = World::threads(1).run(refused).unwrap().remove(0);
    assert_eq!(why, "rma-rw: t_l: T_L,1 is 0, so no rank could ever acquire; it has to be at least 1");
}
