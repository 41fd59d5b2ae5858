//! The conformance suite on subsets of worlds of threads, while the other ranks run it on theirs.

use rmalab_atomics::conformance::checks;
use rmalab_atomics::{Collectives, Mapped, Rank, RemoteAtomics, Subset, Topology, World};

fn all_checks(ra: &dyn RemoteAtomics) {
    for check in checks::<dyn RemoteAtomics>().into_iter().filter(|check| check.suits(ra.size())) {
        (check.run)(ra).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Returns the size of an arena with all the rest of a heap, since the suite expects the heap to end with the segment.
fn rest<A: RemoteAtomics>(ra: &A) -> u64 {
    ra.heap().free_bytes() / 128 * 128
}

/// Splits the world, and runs the suite on every part.
fn split(world: impl Fn() -> rmalab_atomics::Threads, choose: impl Fn(u32) -> (Option<u32>, u32) + Sync) -> Vec<u32> {
    let body = |ra: &Mapped| {
        let collectives = Collectives::new(ra).unwrap();
        let (colour, key) = choose(ra.rank().0);
        let subset = Subset::split_with_arena(&collectives, colour, key, rest(ra)).unwrap();
        let size = subset.as_ref().map_or(0, |subset| {
            all_checks(subset);
            subset.size()
        });
        Subset::free(subset, &collectives).unwrap();
        size
    };
    world().run(body).unwrap()
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_strided() {
    let sizes = split(|| World::threads(7), |rank| (Some(rank % 2), 0));
    assert_eq!(sizes, [4, 3, 4, 3, 4, 3, 4]);
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_listed() {
    // One part in reverse order, one part by halves, and rank 4 alone.
    let colours = [7, 9, 7, 7, 1, 9, 9, 9].map(Some);
    let sizes = split(
        || World::threads(8).topology(Topology::blocks(8, 3, 2).unwrap()),
        |rank| (colours[rank as usize], if colours[rank as usize] == Some(7) { 100 - rank } else { rank % 2 }),
    );
    assert_eq!(sizes, [3, 4, 3, 3, 1, 4, 4, 4]);
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_all_ranks_in_their_old_order_except_one() {
    let sizes = split(|| World::threads(4), |rank| ((rank != 3).then_some(0), 5));
    assert_eq!(sizes, [3, 3, 3, 0]);
    let sizes = split(|| World::threads(3), |rank| (Some(0), rank));
    assert_eq!(sizes, [3, 3, 3]);
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_nodes() {
    let world = World::threads(8).topology(Topology::blocks(8, 3, 2).unwrap());
    world.run(|ra| all_checks(&Subset::by_node_with_arena(ra, rest(ra)).unwrap())).unwrap();
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_subsets_of_subsets() {
    let body = |ra: &Mapped| {
        // Ranks 1, 3, 5, 7 and, in reverse order, 6, 4, 2, 0.
        let world = Collectives::new(ra).unwrap();
        let me = ra.rank().0;
        let (colour, key) = if me.is_multiple_of(2) { (0, 8 - me) } else { (1, 0) };
        let outer = Subset::split_with_arena(&world, Some(colour), key, rest(ra)).unwrap().unwrap();
        let members = Collectives::new(&outer).unwrap();
        // All ranks except one, and that rank.
        let colour = u32::from(outer.rank() == Rank(1));
        let inner = Subset::split_with_arena(&members, Some(colour), 0, rest(&outer)).unwrap().unwrap();
        all_checks(&inner);
        let ranks: Vec<u32> = (0..inner.size()).map(|rank| inner.world_rank(Rank(rank)).0).collect();
        Subset::free(Some(inner), &members).unwrap();
        Subset::free(Some(outer), &world).unwrap();
        ranks
    };
    let ranks = World::threads(8).run(body).unwrap();
    assert_eq!(ranks[0], [6, 2, 0]);
    assert_eq!(ranks[1], [1, 5, 7]);
    assert_eq!((&ranks[4], &ranks[3]), (&vec![4], &vec![3]));
}
