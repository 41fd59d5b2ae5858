//! Windows over the memory of another window, for some of its ranks.

use rmalab_atomics::{Rank, RemoteAtomics, Subset, World};
use rmalab_windows::{Builder, Call, Error, Flavor, LockKind, Team, Window, WindowDisp};

const VALUE: WindowDisp = WindowDisp(3);

#[test]
fn a_window_over_another_ones_memory_has_its_content_and_new_locks() {
    let world = World::threads(4).run(|ra| {
        let team = Team::new(ra).unwrap();
        let old = Window::builder(&team).disp_unit(8).allocate(64).unwrap();
        let at = |rank: u32| 100 + u64::from(rank);
        let part = old.lock(LockKind::Exclusive, team.rank()).unwrap();
        part.put_value(VALUE, at(ra.rank().0)).unwrap();
        part.unlock().unwrap();
        team.barrier().unwrap();
        // Rank 0 keeps the old lock of rank 1.
        let kept = (ra.rank() == Rank(0)).then(|| old.lock(LockKind::Exclusive, Rank(1)).unwrap());
        team.collectives().barrier().unwrap();
        let some = Subset::of(ra, &[Rank(3), Rank(1), Rank(2)]).unwrap();
        if let Some(some) = &some {
            let team = Team::new(some).unwrap();
            let new = Window::builder(&team).over(&old).unwrap();
            for (rank, outer) in [(0, 3), (1, 1), (2, 2)] {
                let part = new.lock(LockKind::Exclusive, Rank(rank)).unwrap();
                assert_eq!(part.get_value::<u64>(VALUE).unwrap(), at(outer));
                part.unlock().unwrap();
            }
            assert_eq!((new.flavor(), new.team().size()), (Flavor::Allocate, 3));
            team.barrier().unwrap();
        }
        team.collectives().barrier().unwrap();
        drop(kept);
    });
    world.unwrap();
}

#[test]
fn only_parts_of_one_size_can_be_taken_over_and_only_by_their_ranks() {
    let world = World::threads(3).run(|ra| {
        let team = Team::new(ra).unwrap();
        let different = Window::allocate(&team, 8 * (1 + u64::from(ra.rank().0))).unwrap();
        let error = Builder::over(Window::builder(&team), &different).unwrap_err();
        assert!(matches!(error, Error::Flavor { call: Call::Create, flavor: Flavor::Allocate }), "{error:?}");
        let pair = Subset::of(ra, &[Rank(0), Rank(1)]).unwrap();
        if let Some(pair) = &pair {
            let of_pair = Team::new(pair).unwrap();
            let small = Window::allocate(&of_pair, 8).unwrap();
            let error = Window::builder(&team).over(&small).unwrap_err();
            assert!(error.to_string().contains("rank 2 of the team is no rank of that window"), "{error}");
        }
    });
    world.unwrap();
}
