//! Levels: the parts of the machine that a topology-aware lock distinguishes, from the whole world down to its nodes.
//!
//! Level 1 is the world, one element with all ranks. Each further level divides the elements of the level above into smaller ones (racks,
//! nodes, sockets, ...). The elements of the last level, N, contain ranks. The first rank of an element has the element's words.
//!
//! A level is left out if each of its elements is one rank, or if its one element is the whole world. So with one node, or with one rank
//! on each node, the world is the only level.

use rmalab_atomics::{Rank, RemoteAtomics, Topology};

use crate::{Error, Result};

/// The largest number of levels, the world included.
pub const MAX_LEVELS: usize = 4;

/// The definition of the machine's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Elements {
    /// The world, its racks and its nodes, from the [`Topology`].
    #[default]
    Topology,
    /// Blocks of these numbers of ranks below the world, the largest first; 0 ends the list.
    ///
    /// Each size has to be a multiple of the next one. The last block may be smaller.
    Blocks([u32; MAX_LEVELS - 1]),
}

/// The elements that contain one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    count: usize,
    first: [Rank; MAX_LEVELS],
}

impl Levels {
    /// Returns the elements of this rank, for the lock with the name `lock`.
    ///
    /// If the topology's nodes are not blocks of ranks, this searches their first ranks, in time linear in the size of the world.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] when the blocks do not nest.
    pub fn new<A: RemoteAtomics + ?Sized>(ra: &A, lock: &'static str, elements: Elements) -> Result<Levels> {
        let mut levels = Levels { count: 1, first: [Rank(0); MAX_LEVELS] };
        let (rank, size) = (ra.rank(), ra.size());
        let block = |of: u32| Rank(rank.0 - rank.0 % of);
        match elements {
            Elements::Blocks(sizes) => {
                let refused = |why: String| Error::Parameter { lock, parameter: "levels", why };
                let ended = sizes.iter().position(|&of| of == 0).unwrap_or(sizes.len());
                let (sizes, after) = sizes.split_at(ended);
                if after.iter().any(|&of| of != 0) {
                    return Err(refused(format!("sizes {after:?} begin with 0, after which there are none")));
                }
                for (i, &of) in sizes.iter().enumerate() {
                    if i > 0 && (sizes[i - 1] % of != 0 || sizes[i - 1] == of) {
                        let larger = sizes[i - 1];
                        return Err(refused(format!("blocks of {larger} ranks are not some blocks of {of}")));
                    }
                    levels.add(block(of), of > 1 && of < size);
                }
            }
            Elements::Topology => {
                let topology = ra.topology();
                let (nodes, racks) = (topology.nodes(), racks(topology));
                levels.add(first_of(topology, rank, Topology::rack_of), racks > 1 && racks < nodes);
                levels.add(first_of(topology, rank, Topology::node_of), nodes > 1 && nodes < size);
            }
        }
        Ok(levels)
    }

    fn add(&mut self, first: Rank, differs: bool) {
        if differs {
            self.first[self.count] = first;
            self.count += 1;
        }
    }

    /// Returns N, the number of levels, at least 1.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the first rank of this rank's element of level `level`, counted from 1. For the world that is rank 0.
    ///
    /// # Panics
    ///
    /// When there is no such level.
    pub fn first(&self, level: usize) -> Rank {
        assert!((1..=self.count).contains(&level), "level {level} of {}", self.count);
        self.first[level - 1]
    }
}

/// Returns the number of racks.
fn racks(topology: &Topology) -> u32 {
    if topology.is_blocks() {
        return topology.nodes().div_ceil(topology.nodes_per_rack());
    }
    let ranks = (0..topology.size()).map(Rank);
    ranks.map(|rank| topology.rack_of(rank) + 1).max().unwrap_or(1)
}

/// Returns the first rank for which `of` returns the same as for `rank`.
fn first_of(topology: &Topology, rank: Rank, of: fn(&Topology, Rank) -> u32) -> Rank {
    let element = of(topology, rank);
    if topology.is_blocks() {
        // Elements are ranges, so halving finds the first rank.
        let (mut low, mut high) = (0, rank.0);
        while low < high {
            let middle = low + (high - low) / 2;
            if of(topology, Rank(middle)) < element { low = middle + 1 } else { high = middle }
        }
        return Rank(low);
    }
    (0..rank.0).map(Rank).find(|&other| of(topology, other) == element).unwrap_or(rank)
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::{Subset, World};

    use super::*;

    /// For each rank the first ranks of its elements, level by level.
    fn firsts(topology: Topology, elements: Elements) -> Vec<Vec<u32>> {
        let world = World::threads(topology.size()).topology(topology);
        let of = |ra: &rmalab_atomics::Mapped| {
            let levels = Levels::new(ra, "test", elements).unwrap();
            (1..=levels.count()).map(|level| levels.first(level).0).collect()
        };
        world.run(of).unwrap()
    }

    #[test]
    fn topologies_have_levels() {
        let of = |size, ranks, nodes| firsts(Topology::blocks(size, ranks, nodes).unwrap(), Elements::Topology);
        assert_eq!(of(7, 2, 2)[6], [0, 4, 6]);
        assert_eq!(of(8, 2, 2)[3], [0, 0, 2]);
        assert_eq!(of(5, 2, 1)[3], [0, 2], "a rack a node");
        assert_eq!(of(4, 1, 2)[3], [0, 2], "a rank a node");
        for one in [of(4, 4, 1), of(4, 1, 1), of(4, 1, 4), of(1, 1, 1)] {
            assert!(one.iter().all(|firsts| *firsts == [0]), "{one:?}");
        }
    }

    #[test]
    fn ranks_that_form_no_blocks_have_levels() {
        // Nodes of 2 and racks of 4. In the subset, ranks 0 and 2 share a node, and so do 1 and 4. Rank 3 is in the
        // rack of 1 and 4.
        let world = World::threads(8).topology(Topology::blocks(8, 2, 2).unwrap());
        let of = |ra: &rmalab_atomics::Mapped| {
            let members = [5, 1, 4, 2, 0].map(Rank);
            let subset = Subset::of(ra, &members).unwrap()?;
            assert!(!subset.topology().is_blocks());
            let levels = Levels::new(&subset, "test", Elements::Topology).unwrap();
            Some((subset.rank().0, [1, 2, 3].map(|level| levels.first(level).0)))
        };
        let mut found: Vec<_> = world.run(of).unwrap().into_iter().flatten().collect();
        found.sort_unstable();
        assert_eq!(found, [(0, [0, 0, 0]), (1, [0, 1, 1]), (2, [0, 0, 0]), (3, [0, 1, 3]), (4, [0, 1, 1])]);
    }

    #[test]
    fn blocks_have_levels() {
        let of = |sizes| firsts(Topology::one_node(8), Elements::Blocks(sizes));
        assert_eq!(of([4, 2, 0])[7], [0, 4, 6]);
        assert_eq!(of([3, 0, 0])[7], [0, 6]);
        assert_eq!(of([16, 8, 4])[5], [0, 4], "the world again, twice");
        assert_eq!(of([4, 1, 0])[5], [0, 4], "single ranks");
        assert_eq!(of([0, 0, 0])[5], [0]);
    }

    #[test]
    fn blocks_have_to_nest() {
        let why = |sizes| {
            let refused = |ra: &rmalab_atomics::Mapped| Levels::new(ra, "test", Elements::Blocks(sizes)).unwrap_err();
            World::threads(1).run(refused).unwrap()[0].to_string()
        };
        assert_eq!(why([4, 3, 0]), "test: levels: blocks of 4 ranks are not some blocks of 3");
        assert_eq!(why([4, 4, 0]), "test: levels: blocks of 4 ranks are not some blocks of 4");
        assert_eq!(why([0, 2, 0]), "test: levels: sizes [0, 2, 0] begin with 0, after which there are none");
    }
}
