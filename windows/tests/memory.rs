//! The place of the windows' memory, and its return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{everywhere, processes, threads, watched};
use rmalab_atomics::controlled::{self, Answer, Controlled, Executor, Shape};
use rmalab_atomics::registered::{RegisteredKey, UserMemory};
use rmalab_atomics::{Counted, Counts, Mapped, Rank, RemoteAtomics, Topology, Until, World};
use rmalab_windows::{Class, Config, Error, Flavor, Layout, LockKind, Op, Open, Team, Transport, Window, WindowDisp};

const FIRST: WindowDisp = WindowDisp(0);

/// The error contains the memory.
#[test]
fn reclaim_gives_memory_back_when_it_fails() {
    threads(2, |team| {
        let window = Window::create(team, vec![5_u64; 3]).unwrap();
        std::mem::forget(window.lock(LockKind::Shared, team.rank()).unwrap());
        let failed = window.reclaim().unwrap_err();
        assert!(matches!(failed.error, Error::LeftOpen { open: Open::Lock, .. }), "{failed}");
        let [memory] = failed.memory.try_into().unwrap();
        let memory: UserMemory = memory;
        assert_eq!(memory.into_vec::<u64>().unwrap(), [5; 3]);
        let dynamic = Window::create_dynamic(team).unwrap();
        for value in 1..=3_u64 {
            dynamic.attach(UserMemory::from_vec(vec![value; 2])).unwrap();
        }
        std::mem::forget(dynamic.lock(LockKind::Shared, team.rank()).unwrap());
        let failed = dynamic.reclaim().unwrap_err();
        let mut sums: Vec<u64> = failed.memory.into_iter().map(|memory| memory.into_vec::<u64>().unwrap()[0]).collect();
        sums.sort_unstable();
        assert_eq!(sums, [1, 2, 3]);
    });
}

/// Makes a window, and returns on rank 1 only after every other rank has it. So rank 1 may fail then. Otherwise a rank
/// that still makes the window would get `PeerFailed`.
fn created<'t>(team: &'t Team<'t, Mapped>) -> Window<'t, Mapped> {
    let ra = team.ra();
    let made = ra.heap().alloc(8, 8).unwrap();
    let window = Window::create(team, vec![5_u64; 3]).unwrap();
    if team.rank() == Rank(1) {
        ra.wait_until(made, Until::Eq(u64::from(ra.size()) - 1)).unwrap();
    } else {
        ra.fetch_add(Rank(1).at(made), 1).unwrap();
    }
    window
}

/// The memory is returned even if another rank has failed, when no rank accesses the memory.
#[test]
fn reclaim_gives_memory_back_when_a_peer_has_failed() {
    let back = AtomicUsize::new(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        World::threads(2).run(|ra| {
            let team = Team::new(ra).unwrap();
            let window = created(&team);
            assert!(team.rank() != Rank(1), "rank 1 fails");
            // Waits until this rank knows of the failure.
            while ra.pause(1_000).is_ok() {}
            let failed = window.reclaim().unwrap_err();
            let peer = matches!(failed.error, Error::Atomics(rmalab_atomics::Error::PeerFailed { rank: Rank(1) }));
            assert!(peer, "{failed}");
            back.store(failed.memory.len(), Ordering::Relaxed);
        })
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"rank 1 fails"));
    assert_eq!(back.into_inner(), 1);
}

/// The memory is returned even if a process was killed while it had the memory pinned.
#[test]
fn reclaim_gives_memory_back_when_a_peer_was_killed() {
    const FOLDER: &str = "RMALAB_TEST_FOLDER";
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os(FOLDER).unwrap_or(folder.path().into());
    let world = processes("memory::reclaim_gives_memory_back_when_a_peer_was_killed", 3).env(FOLDER, path);
    let outcome = world.run(|ra| {
        let team = Team::new(ra).unwrap();
        let window = created(&team);
        if team.rank() == Rank(1) {
            std::process::abort();
        }
        let failed = window.reclaim().unwrap_err();
        let peer = matches!(failed.error, Error::Atomics(rmalab_atomics::Error::PeerFailed { rank: Rank(1) }));
        assert!(peer, "{failed}");
        let [memory] = failed.memory.try_into().unwrap();
        let memory: UserMemory = memory;
        assert_eq!(memory.into_vec::<u64>().unwrap(), [5; 3]);
        let folder = std::path::PathBuf::from(std::env::var_os(FOLDER).unwrap());
        std::fs::write(folder.join(team.rank().to_string()), "its memory").unwrap();
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, rmalab_atomics::Error::RankEnded { rank: Rank(1), .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "ranks that have their memory");
}

/// A window that could not be made leaves no memory registered.
#[test]
fn a_window_that_was_not_made_leaves_nothing_exposed() {
    threads(2, |team| {
        let ra = team.ra();
        // These are the first keys; there is no room for the window's words.
        let filled = Window::allocate(team, ra.heap().free_bytes() - 4096).unwrap();
        while ra.heap().alloc(64, 64).is_ok() {}
        let first = ra.register(UserMemory::from_vec(vec![1_u8])).unwrap();
        ra.deregister(first).unwrap();
        let next = RegisteredKey(first.0 + (1 << 32));
        let error = Window::create(team, vec![5_u64; 3]).unwrap_err();
        assert_eq!(error.class(), Class::NoMem, "{error}");
        assert!(ra.pin(team.rank(), next).is_err(), "the memory of the window that was not made");
        drop(filled);
    });
}

/// Each rank passes its own size and unit, some of them 0.
fn allocate_unevenly(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank(), team.size());
    let bytes = |rank: Rank| 24 * u64::from(rank.0);
    let unit = |rank: Rank| 1 << (rank.0 % 4);
    for transport in [Transport::OneSided, Transport::TwoSided] {
        let config = Config { transport, ..Config::default() };
        let free = team.ra().heap().free_bytes();
        let mut window = Window::builder(team).config(config).disp_unit(unit(me)).allocate(bytes(me)).unwrap();
        // The next window lies after it at every rank.
        let next = Window::builder(team).config(config).allocate(64).unwrap();
        let attributes = (window.flavor(), window.bytes(), window.disp_unit());
        assert_eq!(attributes, (Flavor::Allocate, bytes(me), unit(me)));
        let epoch = window.fence().unwrap();
        let right = Rank((me.0 + 1) % size);
        let target = epoch.at(right).unwrap();
        assert_eq!((target.bytes(), target.disp_unit()), (bytes(right), unit(right)));
        for disp in 0..bytes(right) / u64::from(unit(right)) {
            target.put(WindowDisp(disp as i64), &vec![me.0 as u8 + 1; unit(right) as usize]).unwrap();
        }
        let end = WindowDisp((bytes(right) / u64::from(unit(right))) as i64);
        assert_eq!(target.put(end, &[1_u8]).unwrap_err().class(), Class::RmaRange);
        epoch.close().unwrap();
        let mut seen = vec![0_u8; bytes(me) as usize];
        window.local().unwrap().read(FIRST, &mut seen).unwrap();
        let left = (me.0 + size - 1) % size;
        assert!(seen.iter().all(|&byte| byte == left as u8 + 1), "{seen:?}");
        assert_eq!(next.local().unwrap().load::<[u8; 64]>(FIRST).unwrap(), [0; 64]);
        team.barrier().unwrap();
        let epoch = next.lock(LockKind::Exclusive, right).unwrap();
        epoch.put_value(FIRST, 1_u64).unwrap();
        epoch.unlock().unwrap();
        next.free().unwrap();
        window.free().unwrap();
        if transport == Transport::OneSided {
            assert_eq!(team.ra().heap().free_bytes(), free);
        }
    }
}

#[test]
fn allocate_takes_a_size_and_a_unit_of_each_rank() {
    watched(|| everywhere("memory::allocate_takes_a_size_and_a_unit_of_each_rank", 4, allocate_unevenly));
}

/// Equal sizes are detected, and no table of the other ranks is kept. A program that promises them does not
/// communicate.
#[test]
fn equal_sizes_are_remembered_once() {
    World::threads(4)
        .run(|ra| {
            let ra = Counted::new(ra);
            let team = Team::new(&ra).unwrap();
            let before = Window::builder(&team).allocate(0).unwrap().remembered_bytes();
            ra.reset();
            assert_eq!(Window::builder(&team).disp_unit(8).allocate(64).unwrap().remembered_bytes(), before);
            assert_ne!(ra.take(), Counts::default(), "sizes are compared");
            Window::builder(&team).symmetric().disp_unit(8).allocate(64).unwrap();
            assert_eq!(ra.take(), Counts::default(), "nothing to compare");
        })
        .unwrap();
}

/// Wrong arguments of one rank are an error on all ranks.
#[test]
fn an_allocation_that_fails_on_one_rank_is_an_error_on_all() {
    watched(|| {
        threads(3, |team| {
            let free = team.ra().heap().free_bytes();
            let me = team.rank();
            let result = Window::builder(team).disp_unit(u32::from(me != Rank(1))).allocate(8);
            match (me, result) {
                (Rank(1), Err(Error::DispUnit)) | (_, Err(Error::NotMade { .. })) => {}
                (_, result) => panic!("{me}: {result:?}"),
            }
            let error = Window::allocate(team, if me == Rank(1) { u64::MAX } else { 8 }).unwrap_err();
            assert_eq!(error.class(), Class::NoMem, "{error}");
            let promise = Config { same_size: true, ..Config::default() };
            let error = Window::builder(team).config(promise).allocate(8 * u64::from(me.0)).unwrap_err();
            assert!(matches!(error, Error::Hint { hint: "same_size", .. }), "{error}");
            assert_eq!(team.ra().heap().free_bytes(), free);
        });
    });
}

/// The same displacement of the same rank in another world is other memory.
#[test]
fn windows_of_another_world_are_not_attached() {
    // A part of the same world is not another world.
    threads(1, |team| {
        let dynamic = Window::create_dynamic(team).unwrap();
        let node = team.split_by_node().unwrap();
        let node = Team::new(&node).unwrap();
        let nested = Window::allocate(&node, 64).unwrap();
        let at = dynamic.attach_window(&nested).unwrap();
        dynamic.detach_window(at).unwrap();
        nested.free().unwrap();
        dynamic.free().unwrap();
    });
    World::threads(1)
        .run(|outer| {
            let team = Team::new(outer).unwrap();
            let dynamic = Window::create_dynamic(&team).unwrap();
            let inner = Controlled::new(Silent, &Shape::new(1), Rank(0));
            let other = Team::new(&inner).unwrap();
            let promise = Config { same_size: true, same_disp_unit: true, ..Config::default() };
            let foreign = Window::builder(&other).config(promise).allocate(64).unwrap();
            let error = dynamic.attach_window(&foreign).unwrap_err();
            assert!(matches!(error, Error::Attach { .. }), "{error}");
            assert!(error.to_string().contains("another world"), "{error}");
            assert_eq!(error.class(), Class::RmaAttach);
            assert_eq!(other.translate(Rank(0), &team), None);
            dynamic.free().unwrap();
        })
        .unwrap();
}

/// Executes no call.
struct Silent;

impl Executor for Silent {
    fn call(&self, call: controlled::Call) -> Answer {
        panic!("this must not communicate, but calls {call}")
    }
}

/// The null rank stands for the lowest rank that shares memory with this one.
#[test]
fn the_null_rank_is_on_the_local_node() {
    World::threads(6)
        .topology(Topology::blocks(6, 2, 1).unwrap())
        .run(|ra| {
            let team = Team::new(ra).unwrap();
            let me = team.rank();
            let node = me.0 / 2 * 2;
            let even = Window::allocate(&team, 64).unwrap();
            assert_eq!(even.shared_query(None).unwrap().rank(), Rank(node));
            // On all nodes except the first, the first rank has no bytes; on the last node no rank has any.
            let bytes = if me.0 < 2 || me == Rank(3) { 16 } else { 0 };
            let uneven = Window::allocate(&team, bytes).unwrap();
            let found = uneven.shared_query(None).unwrap();
            let expected = [0, 0, 3, 3, 4, 4][me.index()];
            assert_eq!((found.rank(), found.bytes()), (Rank(expected), if me.0 < 4 { 16 } else { 0 }));
            uneven.free().unwrap();
            even.free().unwrap();
        })
        .unwrap();
}

/// The error for an allocation without room explains how to get more memory.
#[test]
fn an_allocation_without_room_says_what_to_do() {
    threads(1, |team| {
        let error = Window::allocate(team, 1 << 30).unwrap_err();
        assert!(error.to_string().contains("segment_bytes"), "{error}");
    });
}

/// The runs of a layout on memory of another process go to the kernel together, and arrive complete.
fn many_runs(team: &Team<'_, Mapped>) {
    const RUNS: usize = 3_000;
    let window = Window::create(team, vec![0_u32; 2 * RUNS]).unwrap();
    let right = Rank((team.rank().0 + 1) % team.size());
    let strided = Layout::vector(RUNS as u64, 1, 2, &Layout::of::<u32>()).unwrap();
    let source: Vec<u32> = (1..=RUNS as u32).collect();
    let mut back = vec![0_u32; 2 * RUNS];
    let epoch = window.lock(LockKind::Shared, right).unwrap();
    let number = Layout::of::<u32>();
    epoch.put_layout(FIRST, strided.item(), &source, number.items(RUNS as u64)).unwrap();
    epoch.flush().unwrap();
    epoch.get_layout(FIRST, strided.item(), &mut back, strided.item()).unwrap();
    let expected: Vec<u32> = (0..2 * RUNS as u32).map(|i| if i % 2 == 0 { i / 2 + 1 } else { 0 }).collect();
    assert_eq!(back, expected);
    // If the runs of a get overlap at the origin, the last run stays.
    let over = Layout::hvector(RUNS as u64, 1, 0, &number).unwrap();
    let mut one = [0_u32];
    epoch.get_layout(FIRST, strided.item(), &mut one, over.item()).unwrap();
    assert_eq!(one, [RUNS as u32]);
    epoch.accumulate(FIRST, Op::Sum, &[1_u32]).unwrap();
    epoch.unlock().unwrap();
    let whole = window.reclaim().unwrap().pop().unwrap().into_vec::<u32>().unwrap();
    assert_eq!((whole[0], &whole[1..]), (2, &expected[1..]));
}

#[test]
fn layouts_of_many_runs_arrive_complete() {
    everywhere("memory::layouts_of_many_runs_arrive_complete", 2, many_runs);
}
