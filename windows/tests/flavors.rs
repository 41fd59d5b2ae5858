//! The memory of windows: how they get it, and how they return it.

use std::sync::atomic::Ordering;

use crate::support::{self, everywhere, threads};
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Mapped, Rank, RemoteAtomics, Topology, Until, World};
use rmalab_windows::{
    Call, Class, Config, Error, Flavor, FreeError, Info, Layout, LockKind, Model, Op, Open, Team, Window, WindowDisp,
};

fn ranks(team: &Team<'_, Mapped>) -> impl Iterator<Item = Rank> + use<> {
    (0..team.size()).map(Rank)
}

/// Rank r provides 3 r numbers; rank i mod p writes number i.
fn created(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank().0, team.size());
    let window = Window::create(team, vec![-1.0; 3 * me as usize]).unwrap();
    let attributes = (window.flavor(), window.model(), window.bytes(), window.disp_unit());
    assert_eq!(attributes, (Flavor::Create, Model::Unified, 24 * u64::from(me), 8));
    for target in ranks(team) {
        let epoch = window.lock(LockKind::Shared, target).unwrap();
        let len = 3 * i64::from(target.0);
        assert_eq!((epoch.bytes(), epoch.disp_unit()), (8 * len as u64, 8));
        for at in (i64::from(me)..len).step_by(size as usize) {
            epoch.put_value(WindowDisp(at), f64::from(100 * me) + at as f64).unwrap();
        }
        assert_eq!(epoch.put_value(WindowDisp(len), 0.0).unwrap_err().class(), Class::RmaRange);
        epoch.unlock().unwrap();
    }
    let memory: [UserMemory; 1] = window.reclaim().unwrap().try_into().unwrap();
    let expected: Vec<f64> = (0..3 * me).map(|at| f64::from(100 * (at % size) + at)).collect();
    assert_eq!(memory.map(|memory| memory.into_vec::<f64>().unwrap()), [expected]);
}

#[test]
fn created_windows_return_the_memory_with_all_writes() {
    everywhere("flavors::created_windows_return_the_memory_with_all_writes", 4, created);
}

/// Odd lengths, odd starts, and a different unit at each rank.
fn created_at_odd_places(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank().0 as usize, team.size());
    let (unit, len) = (me + 1, 7 + 5 * me);
    let memory = UserMemory::from_vec(vec![0xEE_u8; 64]).part(1 + me..1 + me + len).unwrap();
    let mut window = Window::builder(team).disp_unit(unit as u32).create(memory).unwrap();
    assert_eq!((window.bytes(), window.disp_unit()), (len as u64, unit as u32));
    let mut epoch = window.fence().unwrap();
    // Every rank writes the memory of its right neighbour, unit by unit.
    let right = Rank((me as u32 + 1) % size);
    let target = epoch.at(right).unwrap();
    let (unit, len) = (u64::from(target.disp_unit()), target.bytes());
    for disp in 0..len / unit {
        target.put(WindowDisp(disp as i64), &vec![disp as u8; unit as usize]).unwrap();
    }
    let error = target.put(WindowDisp((len / unit) as i64), &vec![0_u8; unit as usize]).unwrap_err();
    assert!(matches!(error, Error::OutOfWindow { call: Call::Put, .. }), "{error}");
    epoch = epoch.next().unwrap();
    let mut whole = vec![0_u8; len as usize];
    epoch.at(right).unwrap().get(WindowDisp(0), &mut whole).unwrap();
    let expected = |len: u64, unit: u64| -> Vec<u8> {
        (0..len).map(|at| if at < len / unit * unit { (at / unit) as u8 } else { 0xEE }).collect()
    };
    assert_eq!(whole, expected(len, unit));
    epoch.close().unwrap();
    let vec = window.reclaim().unwrap().pop().unwrap().into_vec::<u8>().unwrap();
    assert_eq!(vec[1 + me..][..7 + 5 * me], expected(7 + 5 * me as u64, me as u64 + 1));
    assert!(vec[..1 + me].iter().chain(&vec[8 + 6 * me..]).all(|&byte| byte == 0xEE), "{vec:?}");
}

#[test]
fn created_windows_of_odd_lengths_at_odd_addresses_with_different_units() {
    let test = "flavors::created_windows_of_odd_lengths_at_odd_addresses_with_different_units";
    everywhere(test, 3, created_at_odd_places);
}

#[test]
fn a_part_of_memory_lies_in_it() {
    let memory = UserMemory::from_vec(vec![1_u8, 2, 3]).part(1..4).unwrap_err();
    let memory = memory.part(1..3).unwrap().part(2..2).unwrap();
    assert!(memory.is_empty());
    assert_eq!(memory.into_vec::<u8>().unwrap(), [1, 2, 3]);
}

fn allocated(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank(), team.size());
    let window = Window::builder(team).disp_unit(8).allocate(8 * u64::from(size)).unwrap();
    assert_eq!((window.flavor(), window.bytes(), window.disp_unit()), (Flavor::Allocate, 8 * u64::from(size), 8));
    assert!(window.base().unwrap().iter().all(|word| word.load(Ordering::Relaxed) == 0));
    team.barrier().unwrap();
    for target in ranks(team) {
        let epoch = window.lock(LockKind::Shared, target).unwrap();
        epoch.put_value(WindowDisp(i64::from(me.0)), u64::from(me.0) + 1).unwrap();
    }
    team.barrier().unwrap();
    let seen: Vec<u64> = window.base().unwrap().iter().map(|word| word.load(Ordering::SeqCst)).collect();
    assert_eq!(seen, (1..=u64::from(size)).collect::<Vec<_>>());
    // Since MPI-4.1 the other ranks' parts can be queried, too.
    let right = Rank((me.0 + 1) % size);
    assert_eq!(window.shared_query(right).unwrap().words().unwrap()[0].load(Ordering::SeqCst), 1);
    window.free().unwrap();
}

#[test]
fn allocated_windows_are_zeros_at_every_rank() {
    everywhere("flavors::allocated_windows_are_zeros_at_every_rank", 3, allocated);
}

/// Returns the start and the end of the part of `rank`.
fn ends(window: &Window<'_, Mapped>, rank: Rank) -> (usize, usize) {
    let words = window.shared_query(rank).unwrap().words().unwrap().as_ptr_range();
    (words.start.addr(), words.end.addr())
}

fn shared(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank(), team.size());
    for apart in [false, true] {
        let info: Info = format!("alloc_shared_noncontig={apart}").parse().unwrap();
        // Rank 0 has no bytes.
        let window =
            Window::builder(team).info(&info).disp_unit(8 + me.0).allocate_shared(24 * u64::from(me.0)).unwrap();
        assert_eq!(
            (window.flavor(), window.model(), window.bytes()),
            (Flavor::Shared, Model::Unified, 24 * u64::from(me.0))
        );
        for rank in ranks(team) {
            let part = window.shared_query(rank).unwrap();
            assert_eq!((part.rank(), part.bytes(), part.disp_unit()), (rank, 24 * u64::from(rank.0), 8 + rank.0));
        }
        for rank in (1..size).map(Rank) {
            let (start, end) = ends(&window, rank);
            assert_eq!(end - start, 24 * rank.index());
            if apart {
                assert!(start.is_multiple_of(64), "{rank} starts at {start:#x}");
            } else if rank.0 + 1 < size {
                assert_eq!(ends(&window, Rank(rank.0 + 1)).0, end, "{rank} and the next one");
            }
        }
        assert_eq!(window.shared_query(None).unwrap().rank(), Rank(1), "the lowest rank whose part is not empty");
        assert!(matches!(window.shared_query(Rank(size)), Err(Error::NoSuchTarget { call: Call::SharedQuery, .. })));
        // Access with stores, then a barrier, then loads.
        for rank in (1..size).map(Rank) {
            let word = &window.shared_query(rank).unwrap().words().unwrap()[me.index() % 3];
            word.fetch_add(1 << (8 * me.0), Ordering::SeqCst);
        }
        window.sync();
        team.barrier().unwrap();
        let sum: u64 = window.base().unwrap().iter().map(|word| word.load(Ordering::SeqCst)).sum();
        assert_eq!(sum, if me.0 == 0 { 0 } else { (0..size).map(|rank| 1 << (8 * rank)).sum() });
        team.barrier().unwrap();
        // Access with operations.
        let last = Rank(size - 1);
        let epoch = window.lock(LockKind::Exclusive, last).unwrap();
        epoch.fetch_and_op(WindowDisp(0), Op::Replace, 7_u64).unwrap();
        epoch.unlock().unwrap();
        assert_eq!(window.shared_query(last).unwrap().load::<u64>(WindowDisp(0)).unwrap(), 7);
        window.free().unwrap();
    }
}

#[test]
fn shared_windows_are_reached_by_loads_and_stores() {
    everywhere("flavors::shared_windows_are_reached_by_loads_and_stores", 4, shared);
}

#[test]
fn nothing_is_shared_between_nodes() {
    let topology = Topology::blocks(4, 2, 1).unwrap();
    let world = World::threads(4).topology(topology).run(|ra| {
        let team = Team::new(ra).unwrap();
        let free = ra.heap().free_bytes();
        let stranger = Rank(if team.rank().0 < 2 { 2 } else { 0 });
        match Window::allocate_shared(&team, 64) {
            Err(error @ Error::NotShared { call: Call::Create, target, .. }) => {
                assert_eq!((error.class(), target), (Class::RmaShared, stranger));
            }
            result => panic!("{result:?}"),
        }
        assert_eq!(ra.heap().free_bytes(), free);
        let window = Window::allocate(&team, 64).unwrap();
        let error = window.shared_query(stranger).unwrap_err();
        assert!(matches!(error, Error::NotShared { call: Call::SharedQuery, .. }), "{error}");
        window.shared_query(Rank(team.rank().0 ^ 1)).unwrap();
        window.free().unwrap();
        // This follows the advice of the error.
        let node = team.split_by_node().unwrap();
        let team = Team::new(&node).unwrap();
        let window = Window::allocate_shared(&team, 64).unwrap();
        window.shared_query(Rank(1)).unwrap().store(WindowDisp(8 * i64::from(team.rank().0)), 1_u64).unwrap();
        team.barrier().unwrap();
        assert_eq!(window.shared_query(Rank(1)).unwrap().load::<[u64; 2]>(WindowDisp(0)).unwrap(), [1, 1]);
        window.free().unwrap();
    });
    world.unwrap();
}

/// Every rank attaches numbers, and gets them back with the additions of the others.
fn dynamic(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank().0, team.size());
    let mut window = Window::create_dynamic(team).unwrap();
    assert_eq!((window.flavor(), window.bytes(), window.disp_unit()), (Flavor::Dynamic, 0, 1));
    assert!(window.base().is_none());
    let starts = {
        let first = window.attach(UserMemory::from_vec(vec![0_u32; 16])).unwrap();
        let second = window.attach(UserMemory::from_vec(vec![f64::from(me); 4])).unwrap();
        team.allgather(&[first.0 as u64, second.0 as u64]).unwrap()
    };
    let starts: Vec<[WindowDisp; 2]> =
        starts.chunks_exact(2).map(|pair| [WindowDisp(pair[0] as i64), WindowDisp(pair[1] as i64)]).collect();
    let epoch = window.lock_all().unwrap();
    for target in ranks(team) {
        let part = epoch.at(target).unwrap();
        let [numbers, floats] = starts[target.index()];
        assert_eq!((part.bytes(), part.disp_unit()), (0, 1));
        part.put_value(numbers.plus(4 * i64::from(me)), me + 1).unwrap();
        part.accumulate(numbers.plus(60), Op::Sum, &[1_u32]).unwrap();
        part.fetch_and_op(floats.plus(8), Op::Sum, 1.0).unwrap();
        // A layout that reaches before its displacement.
        let before = Layout::hindexed(&[(1, -8)], &Layout::of::<f64>()).unwrap();
        let mut seen = [0.0];
        part.get_layout(floats.plus(8), before.item(), &mut seen, Layout::of::<f64>().item()).unwrap();
        assert_eq!(seen, [f64::from(target.0)]);
        // Unattached addresses: beside the region, across its end, and negative as numbers.
        for (disp, len) in
            [(numbers.plus(64), 1), (numbers.plus(60), 8), (WindowDisp(-8), 16), (WindowDisp(i64::MIN), 1)]
        {
            let error = part.put(disp, &vec![0_u8; len]).unwrap_err();
            let bytes = Layout::of::<u8>();
            let checked = part.check(Call::Put, disp, bytes.items(len as u64)).unwrap_err();
            assert_eq!(checked.to_string(), error.to_string());
            assert!(matches!(error, Error::NotAttached { call: Call::Put, regions: 2, .. }), "{error}");
            assert_eq!(error.class(), Class::RmaRange);
        }
        part.put::<u8>(WindowDisp(-1), &[]).unwrap();
    }
    epoch.unlock_all().unwrap();
    team.barrier().unwrap();
    let numbers = window.detach(starts[me as usize][0]).unwrap().into_vec::<u32>().unwrap();
    let expected: Vec<u32> = (0..16)
        .map(|at| {
            if at == 15 {
                size
            } else if at < size {
                at + 1
            } else {
                0
            }
        })
        .collect();
    assert_eq!(numbers, expected);
    team.barrier().unwrap();
    // A region that was used before and detached since is an error at the origin.
    let right = Rank((me + 1) % size);
    let epoch = window.lock(LockKind::Shared, right).unwrap();
    let error = epoch.get_value::<u32>(starts[right.index()][0]).unwrap_err();
    assert!(matches!(error, Error::NotAttached { call: Call::Get, regions: 1, .. }), "{error}");
    epoch.unlock().unwrap();
    assert!(matches!(window.detach(starts[me as usize][0]), Err(Error::Detach { .. })));
    let floats = window.reclaim().unwrap().pop().unwrap().into_vec::<f64>().unwrap();
    assert_eq!(floats, [f64::from(me), f64::from(me + size), f64::from(me), f64::from(me)]);
}

#[test]
fn dynamic_windows_reach_only_attached_memory() {
    everywhere("flavors::dynamic_windows_reach_only_attached_memory", 3, dynamic);
}

/// Rank 0 attaches and detaches repeatedly while the others use memory that stays.
fn attach_while_others_access(team: &Team<'_, Mapped>) {
    const ROUNDS: u64 = 300;
    let ra = team.ra();
    let done = ra.heap().alloc(8, 8).unwrap();
    let window = Window::create_dynamic(team).unwrap();
    let stays = window.attach(UserMemory::from_vec(vec![0_u64; 2])).unwrap();
    let stays = WindowDisp(team.allgather(&[stays.0 as u64]).unwrap()[0] as i64);
    if team.rank() == Rank(0) {
        let mut rounds = 0;
        while ra.get(Rank(0).at(done)).unwrap() < u64::from(team.size() - 1) || rounds < 100 {
            let at = window.attach(UserMemory::from_vec(vec![rounds; 8])).unwrap();
            assert_eq!(window.detach(at).unwrap().into_vec::<u64>().unwrap(), [rounds; 8]);
            rounds += 1;
        }
    } else {
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        for _ in 0..ROUNDS {
            epoch.fetch_and_op(stays, Op::Sum, 1_u64).unwrap();
        }
        epoch.unlock().unwrap();
        ra.fetch_add(Rank(0).at(done), 1).unwrap();
    }
    team.barrier().unwrap();
    let memory = window.reclaim().unwrap().pop().unwrap().into_vec::<u64>().unwrap();
    assert_eq!(memory[0], if team.rank() == Rank(0) { ROUNDS * u64::from(team.size() - 1) } else { 0 });
}

#[test]
fn memory_is_attached_and_detached_while_others_access_the_window() {
    everywhere(
        "flavors::memory_is_attached_and_detached_while_others_access_the_window",
        3,
        attach_while_others_access,
    );
}

#[test]
fn attach_refuses_overlapping_and_empty_memory() {
    threads(2, |team| {
        let window = Window::create_dynamic(team).unwrap();
        let refused = |result: rmalab_windows::Result<WindowDisp>, why: &str| {
            let error = result.unwrap_err();
            assert_eq!(error.class(), Class::RmaAttach);
            assert!(error.to_string().contains(why), "{error}");
        };
        refused(window.attach(UserMemory::from_vec(Vec::<u8>::new())), "no bytes");
        let inner = Window::allocate(team, 64).unwrap();
        let at = window.attach_window(&inner).unwrap();
        refused(window.attach_window(&inner), "overlaps");
        assert_eq!(window.detach(at).unwrap_err().class(), Class::RmaAttach);
        window.detach_window(at).unwrap();
        assert_eq!(window.detach_window(at).unwrap_err().class(), Class::RmaAttach);
        window.free().unwrap();
        inner.free().unwrap();
    });
}

/// Thousands of regions, which are attached and detached while another rank reads them.
fn many_regions(team: &Team<'_, Mapped>) {
    const REGIONS: usize = 3000;
    let (me, size) = (team.rank().0, team.size());
    let window = Window::create_dynamic(team).unwrap();
    let memory = |number: usize| UserMemory::from_vec(vec![u64::from(me), number as u64]);
    let mut all: Vec<WindowDisp> = Vec::new();
    // The addresses of each rank's regions, for the others.
    let places = Window::allocate(team, 8 * REGIONS as u64).unwrap();
    let publish = |number: usize, disp: WindowDisp| {
        places.local().unwrap().store(WindowDisp(8 * number as i64), disp.0).unwrap();
    };
    let right = Rank((me + 1) % size);
    let check = |numbers: std::ops::Range<usize>| {
        let (there, epoch) =
            (places.lock(LockKind::Shared, right).unwrap(), window.lock(LockKind::Shared, right).unwrap());
        for number in numbers {
            let at = WindowDisp(there.get_value(WindowDisp(8 * number as i64)).unwrap());
            assert_eq!(epoch.get_value::<[u64; 2]>(at).unwrap(), [u64::from(right.0), number as u64]);
        }
        epoch.unlock().unwrap();
        there.unlock().unwrap();
    };
    for number in 0..REGIONS {
        all.push(window.attach(memory(number)).unwrap());
        publish(number, all[number]);
        if number % 500 == 250 {
            team.barrier().unwrap();
            check(number - 200..number + 1);
        }
    }
    team.barrier().unwrap();
    check(0..REGIONS);
    team.barrier().unwrap();
    // Every third region is detached, and others take its entry.
    for number in (0..REGIONS).step_by(3) {
        let back = window.detach(all[number]).unwrap();
        assert_eq!(back.into_vec::<u64>().unwrap(), [u64::from(me), number as u64]);
    }
    for number in (0..REGIONS).step_by(3) {
        all[number] = window.attach(memory(number)).unwrap();
        publish(number, all[number]);
    }
    team.barrier().unwrap();
    check(0..REGIONS);
    places.free().unwrap();
    assert_eq!(window.reclaim().unwrap().len(), REGIONS);
}

#[test]
fn a_window_has_thousands_of_regions() {
    everywhere("flavors::a_window_has_thousands_of_regions", 2, many_regions);
}

/// The limit is the limit of registered memory: the error names it, and detached regions make room again.
#[test]
fn the_last_region_is_an_error_that_names_the_limit() {
    threads(1, |team| {
        let window = Window::create_dynamic(team).unwrap();
        let mut all = Vec::new();
        let error = loop {
            match window.attach(UserMemory::from_vec(vec![0_u64])) {
                Ok(disp) => all.push(disp),
                Err(error) => break error,
            }
        };
        assert!(all.len() > 10_000, "{}", all.len());
        assert_eq!(error.class(), Class::RmaAttach);
        assert!(error.to_string().contains("as many regions"), "{error}");
        window.detach(all.pop().unwrap()).unwrap();
        all.push(window.attach(UserMemory::from_vec(vec![5_u64])).unwrap());
        let epoch = window.lock(LockKind::Shared, team.rank()).unwrap();
        assert_eq!(epoch.get_value::<u64>(*all.last().unwrap()).unwrap(), 5);
        epoch.unlock().unwrap();
        assert_eq!(window.reclaim().unwrap().len(), all.len());
    });
}

/// Shared memory of the node, reached through a dynamic window of all ranks.
fn nested(team: &Team<'_, Mapped>) {
    let (me, size) = (team.rank().0, team.size());
    let inner = Window::allocate_shared(team, 64).unwrap();
    let allocated = Window::allocate(team, 64).unwrap();
    let window = Window::create_dynamic(team).unwrap();
    let ends = [window.attach_window(&inner).unwrap(), window.attach_window(&allocated).unwrap()];
    let starts = team.allgather(&ends.map(|disp| disp.0 as u64)).unwrap();
    let right = Rank((me + 1) % size);
    let epoch = window.lock(LockKind::Exclusive, right).unwrap();
    for &start in &starts[2 * right.index()..][..2] {
        let last = WindowDisp(start as i64).plus(56);
        epoch.put_value(last, u64::from(me) + 1).unwrap();
        assert_eq!(epoch.fetch_and_op(last, Op::Sum, 10_u64).unwrap(), u64::from(me) + 1);
        epoch.put_value(last.plus(8), 0_u8).unwrap_err();
    }
    epoch.unlock().unwrap();
    team.barrier().unwrap();
    let left = u64::from((me + size - 1) % size);
    for window in [&inner, &allocated] {
        assert_eq!(window.local().unwrap().load::<u64>(WindowDisp(56)).unwrap(), left + 11);
    }
    let created = Window::create(team, vec![0_u8; 8]).unwrap();
    let error = window.attach_window(&created).unwrap_err();
    assert!(matches!(error, Error::Flavor { call: Call::Attach, flavor: Flavor::Create }), "{error}");
    created.free().unwrap();
    ends.iter().for_each(|&disp| window.detach_window(disp).unwrap());
    window.free().unwrap();
    inner.free().unwrap();
    allocated.free().unwrap();
}

#[test]
fn windows_are_attached_to_dynamic_windows() {
    everywhere("flavors::windows_are_attached_to_dynamic_windows", 3, nested);
}

#[test]
fn calls_of_another_flavor_are_errors() {
    threads(1, |team| {
        let allocated = Window::allocate(team, 8).unwrap();
        let dynamic = Window::create_dynamic(team).unwrap();
        let refused = |error: Error, call| match error {
            Error::Flavor { call: refused, .. } => {
                assert_eq!((refused, error.class()), (call, Class::RmaFlavor));
            }
            error => panic!("{error}"),
        };
        refused(allocated.attach(UserMemory::from_vec(vec![0_u8])).unwrap_err(), Call::Attach);
        refused(allocated.detach(WindowDisp(0)).unwrap_err(), Call::Detach);
        refused(allocated.attach_window(&allocated).unwrap_err(), Call::Attach);
        refused(allocated.detach_window(WindowDisp(0)).unwrap_err(), Call::Detach);
        refused(dynamic.local().unwrap_err(), Call::Local);
        refused(dynamic.shared_query(None).unwrap_err(), Call::SharedQuery);
    });
}

/// A window with no bytes on any rank is a window.
#[test]
fn windows_of_no_bytes_of_every_flavor() {
    threads(2, |team| {
        let windows = [
            Window::allocate(team, 0).unwrap(),
            Window::allocate_shared(team, 0).unwrap(),
            Window::create(team, Vec::<u64>::new()).unwrap(),
            Window::create_dynamic(team).unwrap(),
        ];
        for mut window in windows {
            let mut epoch = window.fence().unwrap();
            for target in ranks(team) {
                let target = epoch.at(target).unwrap();
                target.put::<u64>(WindowDisp(0), &[]).unwrap();
                target.get::<u64>(WindowDisp(-3), &mut []).unwrap();
                target.accumulate::<f64>(WindowDisp(7), Op::Sum, &[]).unwrap();
                assert_eq!(target.put_value(WindowDisp(0), 1_u8).unwrap_err().class(), Class::RmaRange);
            }
            epoch = epoch.next().unwrap();
            epoch.close().unwrap();
            if window.flavor() != Flavor::Dynamic {
                assert_eq!(window.shared_query(None).unwrap().bytes(), 0);
            }
            window.free().unwrap();
        }
    });
}

/// A rank whose unit is 0 does not keep another rank waiting.
#[test]
fn a_unit_of_no_bytes_is_an_error_everywhere() {
    threads(3, |team| {
        let free = team.ra().heap().free_bytes();
        let builder = || Window::builder(team).disp_unit(u32::from(team.rank() != Rank(1)));
        let results = [builder().allocate_shared(8), builder().create(UserMemory::from_vec(vec![0_u8; 8]))];
        for result in results {
            match (team.rank(), result) {
                (Rank(1), Err(error @ Error::DispUnit)) => assert_eq!(error.class(), Class::Disp),
                (Rank(0 | 2), Err(error @ Error::NotMade { rank: Rank(1) })) => assert_eq!(error.class(), Class::Other),
                (rank, result) => panic!("{rank}: {result:?}"),
            }
        }
        let error = Window::builder(team).disp_unit(0).allocate(8).unwrap_err();
        assert!(matches!(error, Error::DispUnit));
        assert_eq!(team.ra().heap().free_bytes(), free);
    });
}

#[test]
fn a_window_that_is_too_large_is_an_error_and_takes_nothing() {
    threads(2, |team| {
        let free = team.ra().heap().free_bytes();
        for bytes in [1 << 30, u64::MAX] {
            for result in [Window::allocate(team, bytes), Window::allocate_shared(team, bytes)] {
                let error = result.unwrap_err();
                assert!(matches!(error, Error::Atomics(rmalab_atomics::Error::OutOfMemory { .. })), "{error}");
                assert_eq!(error.class(), Class::NoMem);
            }
        }
        assert_eq!(team.ra().heap().free_bytes(), free);
    });
}

/// With any open epoch the window is freed, all memory is free and zero again, and the error names the epoch.
#[test]
fn windows_are_freed_in_every_state() {
    type Forget = fn(&mut Window<'_, Mapped>, Rank);
    let states: [(Option<Open>, Forget); 8] = [
        (None, |_, _| {}),
        (Some(Open::Lock), |window, me| std::mem::forget(window.lock(LockKind::Exclusive, me).unwrap())),
        (Some(Open::Lock), |window, _| std::mem::forget(window.lock(LockKind::Shared, Rank(0)).unwrap())),
        (Some(Open::LockAll), |window, _| std::mem::forget(window.lock_all().unwrap())),
        (None, |window, _| drop(window.fence().unwrap())),
        (Some(Open::Fence), |window, me| _ = window.fence().unwrap().at(me).unwrap()),
        (Some(Open::Access), |window, _| {
            let (mut access, _) = window.pscw().unwrap();
            std::mem::forget(access.start(&[]).unwrap());
        }),
        (Some(Open::Exposure), |window, me| {
            let (_, mut exposure) = window.pscw().unwrap();
            std::mem::forget(exposure.post(&[me]).unwrap());
        }),
    ];
    threads(3, |team| {
        let free = team.ra().heap().free_bytes();
        for (open, forget) in states {
            for made in support::Made::ALL {
                let (mut window, starts) = made.make(team, Config::default(), 64);
                forget(&mut window, team.rank());
                let result = window.reclaim();
                let memory = match (open, result) {
                    (None, Ok(memory)) => memory,
                    (Some(expected), Err(FreeError { error, memory })) => {
                        assert_eq!(error.class(), Class::RmaSync, "{made:?}");
                        let left = matches!(error, Error::LeftOpen { call: Call::Free, open, .. } if open == expected);
                        assert!(left, "{made:?}, {expected:?}: {error}");
                        memory
                    }
                    (open, result) => panic!("{made:?}, {open:?}: {result:?}"),
                };
                let own = !matches!(made, support::Made::Allocated | support::Made::Shared);
                assert_eq!(memory.len(), usize::from(own), "{made:?} at {starts:?}");
                assert_eq!(team.ra().heap().free_bytes(), free, "{made:?}, {open:?}");
            }
        }
        // The next window finds clean words.
        let mut window = Window::allocate(team, 64).unwrap();
        window.lock_all().unwrap().unlock_all().unwrap();
        window.fence().unwrap().close().unwrap();
        assert_eq!(window.local().unwrap().load::<[u64; 8]>(WindowDisp(0)).unwrap(), [0; 8]);
        window.free().unwrap();
    });
}

/// A put to a window that the other rank has not made yet.
#[test]
fn a_symmetric_window_is_used_before_the_others_have_made_it() {
    threads(2, |team| {
        let ra = team.ra();
        let told = ra.heap().alloc(8, 8).unwrap();
        if team.rank() == Rank(1) {
            ra.wait_until(told, Until::Eq(1)).unwrap();
        }
        let window = Window::builder(team).symmetric().allocate(8).unwrap();
        if team.rank() == Rank(0) {
            let epoch = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            epoch.put_value(WindowDisp(0), 7_u64).unwrap();
            epoch.unlock().unwrap();
            ra.fetch_store(Rank(1).at(told), 1).unwrap();
        } else {
            assert_eq!(window.local().unwrap().load::<u64>(WindowDisp(0)).unwrap(), 7);
        }
        window.free().unwrap();
    });
}
