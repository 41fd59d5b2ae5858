//! Accesses of dynamic windows across regions that touch each other.

use crate::support::{self, everywhere, threads, watched};
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Counted, Rank, RemoteAtomics, World};
use rmalab_windows::{
    AccumulateStrategy, Call, Config, Error, Layout, LockKind, Op, Result, Target, Team, Transport, Window, WindowDisp,
};

const BYTES: usize = 96;

/// Makes calls of all kinds on bytes from `start` on, and returns what they have fetched.
fn calls<A: RemoteAtomics + ?Sized>(target: &Target<'_, A>, start: WindowDisp) -> Result<Vec<u8>> {
    let mut fetched = Vec::new();
    let mut keep = |bytes: &[u8]| fetched.extend_from_slice(bytes);
    let numbers: Vec<u8> = (1..=90).collect();
    target.put(start.plus(3), &numbers)?;
    target.put_layout(
        start.plus(1),
        Layout::vector(9, 2, 5, &Layout::of::<u16>())?.item(),
        &numbers[..36],
        Layout::of::<u8>().items(36),
    )?;
    target.rput(start.plus(20), vec![u64::MAX; 3])?.wait()?;
    target.accumulate(start, Op::Sum, &[3_u64; 12])?;
    target.accumulate(start.plus(2), Op::Sum, &[5_u32; 23])?;
    target.accumulate(start.plus(1), Op::BitXor, &[0x55_u16; 45])?;
    target.accumulate(start, Op::Max, &[1.5_f64; 12])?;
    let every_second = Layout::vector(6, 1, 2, &Layout::of::<u64>())?;
    target.accumulate_layout(start, every_second.item(), Op::Sum, &[7_u64; 6], Layout::of::<u64>().items(6))?;
    let mut words = [0_u64; 12];
    target.get_accumulate(start, Op::Replace, &std::array::from_fn::<_, 12, _>(|i| i as u64), &mut words)?;
    keep(bytemuck::cast_slice(&words));
    target.get_accumulate(start, Op::NoOp, &[], &mut words)?;
    keep(bytemuck::cast_slice(&words));
    for at in 0..12 {
        keep(&target.fetch_and_op(start.plus(8 * at), Op::Sum, 1_u64 << 35)?.to_ne_bytes());
        keep(&target.compare_and_swap(start.plus(8 * at), at as u64 + (1 << 35), 9_u64)?.to_ne_bytes());
    }
    let mut bytes = [0_u8; BYTES];
    target.get(start, &mut bytes)?;
    keep(&bytes);
    let mut some = [0_u8; 48];
    target.get_layout(start, every_second.item(), &mut some, Layout::of::<u8>().items(48))?;
    keep(&some);
    keep(bytemuck::cast_slice(&target.rget(start.plus(17), vec![0_u8; 60])?.wait()?));
    Ok(fetched)
}

/// The calls have the same effect on three regions as on one.
fn compare(team: &Team<'_, impl RemoteAtomics>) {
    for transport in [Transport::OneSided, Transport::TwoSided] {
        for &accumulate in AccumulateStrategy::ALL {
            for borders in [[8, 80], [20, 50], [21, 24]] {
                let config = Config { transport, accumulate, ..Config::default() };
                let whole = Window::builder(team).config(config).allocate(BYTES as u64).unwrap();
                let window = Window::builder(team).config(config).create_dynamic().unwrap();
                let (first, rest) = UserMemory::from_vec(vec![0_u8; BYTES]).split(borders[0]).unwrap();
                let (second, third) = rest.split(borders[1] - borders[0]).unwrap();
                let own = window.attach(first).unwrap();
                for region in [third, second] {
                    window.attach(region).unwrap();
                }
                let starts = team.allgather(&[own.0 as u64]).unwrap();
                let right = Rank((team.rank().0 + 1) % team.size());
                let start = WindowDisp(starts[right.index()] as i64);
                let expected = whole.lock(LockKind::Exclusive, right).unwrap();
                let epoch = window.lock(LockKind::Exclusive, right).unwrap();
                let found = calls(&epoch, start).unwrap();
                assert_eq!(found, calls(&expected, WindowDisp(0)).unwrap(), "{transport} {accumulate} {borders:?}");
                let mut batched = [0_u8; 90];
                epoch
                    .batch(|batch| {
                        batch.put(&epoch, start.plus(3), &[7_u8; 90])?;
                        Ok(())
                    })
                    .unwrap();
                epoch.batch(|batch| batch.get(&epoch, start.plus(3), &mut batched)).unwrap();
                assert_eq!(batched, [7; 90]);
                epoch.unlock().unwrap();
                expected.unlock().unwrap();
                window.free().unwrap();
                whole.free().unwrap();
            }
        }
    }
}

#[test]
fn regions_that_touch_are_accessed_as_one() {
    watched(|| everywhere("touching::regions_that_touch_are_accessed_as_one", 2, compare));
}

/// An access that is only partly in attached memory changes no attached memory.
fn uncovered(team: &Team<'_, impl RemoteAtomics>) {
    for transport in [Transport::OneSided, Transport::TwoSided] {
        let config = Config { transport, ..Config::default() };
        let window = Window::builder(team).config(config).create_dynamic().unwrap();
        // Bytes 8 to 40 and 48 to 64 are attached.
        let (_before, rest) = UserMemory::from_vec(vec![1_u8; 64]).split(8).unwrap();
        let (first, rest) = rest.split(12).unwrap();
        let (second, rest) = rest.split(20).unwrap();
        let (_gap, third) = rest.split(8).unwrap();
        let own = window.attach(first).unwrap();
        window.attach(second).unwrap();
        window.attach(third).unwrap();
        let starts = team.allgather(&[own.0 as u64]).unwrap();
        let right = Rank((team.rank().0 + 1) % team.size());
        let start = WindowDisp(starts[right.index()] as i64);
        let epoch = window.lock(LockKind::Exclusive, right).unwrap();
        let bytes = Layout::of::<u8>();
        for (at, len) in [(-8, 16), (-8, 32), (-8, 40), (0, 40), (16, 24), (8, 48), (24, 24), (48, 16), (i64::MAX, 8)] {
            let disp = WindowDisp(start.0.wrapping_add(at));
            let (source, mut dest) = (vec![9_u8; len], vec![0_u8; len]);
            let refused = |done: Result<()>, call| {
                let error = done.unwrap_err();
                assert!(
                    matches!(error, Error::NotAttached { call: refused, regions: 3, .. } if refused == call),
                    "{error}"
                );
                assert!(error.to_string().contains("attached memory"), "{error}");
            };
            refused(epoch.put(disp, &source), Call::Put);
            refused(epoch.get(disp, &mut dest), Call::Get);
            let items = bytes.items(len as u64);
            refused(epoch.put_layout(disp, items, &source, items), Call::Put);
            refused(epoch.accumulate(disp, Op::Sum, &source), Call::Accumulate);
            refused(epoch.accumulate_layout(disp, items, Op::Sum, &source, items), Call::Accumulate);
            refused(epoch.get_accumulate(disp, Op::Sum, &source, &mut dest), Call::GetAccumulate);
            assert_eq!(dest, vec![0; len]);
        }
        let mut seen = [0_u8; 32];
        epoch.get(start, &mut seen).unwrap();
        assert_eq!(seen, [1; 32]);
        let mut seen = [0_u8; 16];
        epoch.get(start.plus(40), &mut seen).unwrap();
        assert_eq!(seen, [1; 16]);
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn an_access_beyond_attached_memory_changes_nothing() {
    watched(|| everywhere("touching::an_access_beyond_attached_memory_changes_nothing", 2, uncovered));
}

/// An element across two regions is updated atomically, and so are the elements on both sides of it.
fn contended(team: &Team<'_, impl RemoteAtomics>) {
    const TIMES: u32 = 300;
    for &accumulate in AccumulateStrategy::ALL {
        let config = support::accumulating(accumulate);
        let mut window = Window::builder(team).config(config).create_dynamic().unwrap();
        let (first, second) = UserMemory::from_vec(vec![0_u64; 3]).split(12).unwrap();
        let own = window.attach(first).unwrap();
        window.attach(second).unwrap();
        let starts = team.allgather(&[own.0 as u64]).unwrap();
        let start = WindowDisp(starts[0] as i64);
        let epoch = window.lock_all().unwrap();
        let target = epoch.at(Rank(0)).unwrap();
        for _ in 0..TIMES {
            target.fetch_and_op(start.plus(8), Op::Sum, 1_u64).unwrap();
            target.accumulate(start, Op::Sum, &[1_u64; 3]).unwrap();
            target.accumulate(start, Op::Sum, &[1_u64]).unwrap();
        }
        epoch.unlock_all().unwrap();
        team.barrier().unwrap();
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        let mut words = [0_u64; 3];
        epoch.get(start, &mut words).unwrap();
        let (once, twice) = (u64::from(TIMES * team.size()), u64::from(2 * TIMES * team.size()));
        assert_eq!(words, [twice, twice, once], "{accumulate}");
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn an_element_across_a_border_is_updated_atomically() {
    watched(|| everywhere("touching::an_element_across_a_border_is_updated_atomically", 3, contended));
}

/// Parts of other windows, which are in segments, can touch, too.
#[test]
fn windows_that_touch_are_accessed_as_one() {
    threads(2, |team| {
        let heap = team.ra().heap();
        for transport in [Transport::OneSided, Transport::TwoSided] {
            let config = Config { transport, ..Config::default() };
            // The first allocation lies after the second, which takes the only range of this length ahead of it.
            let before = heap.alloc(4096, 64).unwrap();
            let second = Window::allocate(team, 4096).unwrap();
            heap.release(before).unwrap();
            let first = Window::allocate(team, 4096).unwrap();
            let window = Window::builder(team).config(config).create_dynamic().unwrap();
            let (own, next) = (window.attach_window(&first).unwrap(), window.attach_window(&second).unwrap());
            assert_eq!(next, own.plus(4096), "the windows touch");
            let starts = team.allgather(&[own.0 as u64]).unwrap();
            let right = Rank(1 - team.rank().0);
            let start = WindowDisp(starts[right.index()] as i64);
            let epoch = window.lock(LockKind::Exclusive, right).unwrap();
            epoch.put(start.plus(4088), &[1_u64, 2]).unwrap();
            epoch.accumulate(start.plus(4080), Op::Sum, &[10_u64; 4]).unwrap();
            epoch.fetch_and_op(start.plus(4092), Op::Sum, 1_u64 << 32).unwrap();
            let mut words = [0_u64; 4];
            epoch.get(start.plus(4080), &mut words).unwrap();
            assert_eq!(words, [10, 11, 13, 10]);
            epoch.unlock().unwrap();
            team.barrier().unwrap();
            window.detach_window(own).unwrap();
            window.detach_window(next).unwrap();
            window.free().unwrap();
            second.free().unwrap();
            first.free().unwrap();
        }
    });
}

/// A rank that serves a put to memory in another rank's segment completes it there before it acknowledges it.
#[test]
fn a_served_put_is_complete_at_the_rank_that_has_the_memory() {
    World::threads(2)
        .run(|ra| {
            let ra = Counted::new(ra);
            let team = Team::new(&ra).unwrap();
            // The whole window is in the segment of rank 0.
            let shared = Window::allocate_shared(&team, 8).unwrap();
            let config = Config { transport: Transport::TwoSided, ..Config::default() };
            let window = Window::builder(&team).config(config).create_dynamic().unwrap();
            let own = window.attach_window(&shared).unwrap();
            let starts = team.allgather(&[own.0 as u64]).unwrap();
            // Ahead of the barrier, since rank 1 may serve the put before it leaves the barrier.
            ra.reset();
            team.barrier().unwrap();
            if team.rank() == Rank(0) {
                let epoch = window.lock(LockKind::Shared, Rank(1)).unwrap();
                epoch.put(WindowDisp(starts[1] as i64), &[1_u64]).unwrap();
                epoch.unlock().unwrap();
            }
            team.barrier().unwrap();
            let flushes = ra.take().flush;
            if team.rank() == Rank(1) {
                assert!(flushes.others() > 0, "{flushes:?}");
            }
            window.detach_window(own).unwrap();
            window.free().unwrap();
            shared.free().unwrap();
        })
        .unwrap();
}
