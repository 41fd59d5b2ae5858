//! Subsets of worlds of processes.

use rmalab_atomics::conformance::checks;
use rmalab_atomics::{Collectives, Launcher, Mapped, Rank, RemoteAtomics, Subset, Topology, World};

use super::{be_a_rank, here, launcher, results};

#[test]
fn all_checks_pass_on_the_parts_of_a_split() {
    be_a_rank(5, |ra: &Mapped| {
        let world = Collectives::new(ra).unwrap();
        let rest = ra.heap().free_bytes() / 128 * 128;
        let colour = ra.rank().0 % 2;
        let part = Subset::split_with_arena(&world, Some(colour), 9 - ra.rank().0, rest).unwrap().unwrap();
        for check in checks::<dyn RemoteAtomics>().into_iter().filter(|check| check.suits(part.size())) {
            (check.run)(&part).unwrap_or_else(|failure| panic!("{failure}"));
        }
        let members: Vec<u32> = (0..part.size()).map(|rank| part.world_rank(Rank(rank)).0).collect();
        Subset::free(Some(part), &world).unwrap();
        assert!(ra.heap().free_bytes() >= rest);
        members
    });
    let outcome = launcher(here!(), 5).spawn().unwrap().wait().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    let members: Vec<Option<Vec<u32>>> = results(&outcome);
    let (even, odd) = (Some(vec![4, 2, 0]), Some(vec![3, 1]));
    assert_eq!(members, [even.clone(), odd.clone(), even.clone(), odd, even]);
}

#[test]
fn a_launcher_takes_topologies_of_blocks_only() {
    let world = World::threads(4).topology(Topology::blocks(4, 2, 1).unwrap());
    let parts = world.run(|ra| Subset::of(ra, &[0, 2, 1].map(Rank)).unwrap().map(|part| part.topology().clone()));
    let topology = parts.unwrap()[0].clone().unwrap();
    assert!(!topology.is_blocks());
    let error = Launcher::new(3).topology(topology).spawn().unwrap_err().to_string();
    assert!(error.contains("do not form blocks"), "{error}");
}
