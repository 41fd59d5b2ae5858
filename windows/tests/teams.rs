//! Teams, and locks and windows on their subsets, while the other ranks use other subsets.

use rmalab_atomics::{Mapped, Rank, RemoteAtomics, Subset, Topology, World};
use rmalab_locks::suite::{readers_meet_on, rw_lock_on};
use rmalab_locks::{LockKind, McsRwRp, TwoLevel};
use rmalab_windows::{Error, Team, Window, WindowDisp};

/// Tests a reader-writer lock, and a window under foMPI's locks, on a part of a split.
fn locks_exclude<A: RemoteAtomics>(part: &A) {
    const ROUNDS: u64 = 2_000;
    readers_meet_on::<McsRwRp, _>(part, ()).unwrap();
    rw_lock_on::<McsRwRp, _>(part, (), 500, 50).unwrap();
    let team = Team::new(part).unwrap();
    let mut window = Window::builder(&team).policy::<TwoLevel>(Default::default()).allocate(8).unwrap();
    let (counter, target) = (WindowDisp(0), Rank(team.size() - 1));
    for round in 0..ROUNDS {
        if round % 8 == 0 {
            let all = window.lock_all().unwrap();
            assert!(all.at(target).unwrap().get_value::<u64>(counter).unwrap() >= round, "this rank's own increments");
            all.unlock_all().unwrap();
        }
        let epoch = window.lock(LockKind::Exclusive, target).unwrap();
        let before = epoch.get_value::<u64>(counter).unwrap();
        epoch.put_value(counter, before + 1).unwrap();
        epoch.unlock().unwrap();
    }
    team.barrier().unwrap();
    let epoch = window.lock(LockKind::Shared, target).unwrap();
    assert_eq!(epoch.get_value::<u64>(counter).unwrap(), ROUNDS * u64::from(team.size()));
    epoch.unlock().unwrap();
    window.free().unwrap();
}

#[test]
fn locks_and_windows_work_on_the_parts_of_a_split() {
    let topology = Topology::blocks(8, 3, 1).unwrap();
    let world = World::threads(8).topology(topology).run(|ra| {
        let world = Team::new(ra).unwrap();
        let free = ra.heap().free_bytes();
        // Strided, listed, by nodes, and a part of a part.
        let colour = ra.rank().0 % 2;
        for key in [0, (ra.rank().0 * 5) % 8] {
            let part = world.split(Some(colour), key).unwrap().unwrap();
            locks_exclude(&part);
            Subset::free(Some(part), &world).unwrap();
        }
        let node = world.split_by_node().unwrap();
        locks_exclude(&node);
        Subset::free(Some(node), &world).unwrap();
        let part = world.subset(&[6, 1, 5, 0, 3].map(Rank)).unwrap();
        if let Some(part) = &part {
            let team = Team::new(part).unwrap();
            let inner = team.split(Some(u32::from(part.rank().0 > 2)), 10 - part.rank().0).unwrap().unwrap();
            locks_exclude(&inner);
            Subset::free(Some(inner), &team).unwrap();
        }
        Subset::free(part, &world).unwrap();
        assert_eq!(ra.heap().free_bytes(), free);
    });
    world.unwrap();
}

#[test]
fn ranks_are_translated_between_teams() {
    let world = World::threads(6).run(|ra| {
        let world = Team::new(ra).unwrap();
        let (order, back) = ([5, 2, 4, 1].map(Rank), [3, 1].map(Rank));
        let part = world.subset(&order).unwrap();
        let Some(part) = &part else { return };
        let team = Team::new(part).unwrap();
        for rank in (0..8).map(Rank) {
            let here = order.iter().position(|&member| member == rank).map(|at| Rank(at as u32));
            assert_eq!(world.translate(rank, &team), here);
            assert_eq!(team.translate(rank, &world), order.get(rank.index()).copied());
            assert_eq!(team.translate(rank, &team), (rank.0 < 4).then_some(rank));
        }
        // Ranks 1 and 2 of the world are ranks 0 and 1 here.
        let inner = team.subset(&back).unwrap();
        let Some(inner) = &inner else { return };
        let inner = Team::new(inner).unwrap();
        assert_eq!([0, 1, 2].map(|rank| inner.translate(Rank(rank), &world)), [Some(Rank(1)), Some(Rank(2)), None]);
        assert_eq!(
            [0, 1, 2, 3].map(|rank| team.translate(Rank(rank), &inner)),
            [None, Some(Rank(1)), None, Some(Rank(0))]
        );
        assert_eq!(inner.translate(Rank(0), &team), Some(Rank(3)));
    });
    world.unwrap();
}

#[test]
fn a_team_has_collectives_and_a_name() {
    let world = World::threads(3).run(|ra: &Mapped| {
        let mut team = Team::new(ra).unwrap();
        assert_eq!((team.rank(), team.size(), team.name()), (ra.rank(), 3, ""));
        team.set_name("everybody");
        assert_eq!(team.name(), "everybody");
        let me = u64::from(team.rank().0);
        let mut words = [me, 1];
        team.allreduce(&mut words, u64::wrapping_add).unwrap();
        assert_eq!(words, [3, 3]);
        assert_eq!(team.allgather(&[me]).unwrap(), [0, 1, 2]);
        assert_eq!(team.collectives().reduce_scatter(&[me, 1, 2]).unwrap(), [3, 3, 6][team.rank().index()]);
        let error = team.subset(&[Rank(0), Rank(0)]).unwrap_err();
        assert!(matches!(error, Error::Atomics(rmalab_atomics::Error::World(_))), "{error}");
        let refused = Subset::by_node_with_arena(ra, u64::MAX).map_err(Error::from).unwrap_err();
        assert!(matches!(refused, Error::Atomics(rmalab_atomics::Error::OutOfMemory { .. })), "{refused}");
    });
    world.unwrap();
}
