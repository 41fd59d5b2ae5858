//! Which ranks share a node, and which nodes share a rack.

use crate::{Error, Rank, Result};

/// How far two ranks are from each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// The same rank.
    Own,
    /// Another rank of the same node.
    Node,
    /// A rank of another node.
    Remote,
}

impl Distance {
    /// All distances, near to far.
    pub const ALL: [Distance; 3] = [Distance::Own, Distance::Node, Distance::Remote];

    /// The distance as an index into a table with one entry a distance.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The ranks of a world, placed in blocks: rank r lives on node r / `ranks_per_node`, and so on up.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Topology {
    size: u32,
    ranks_per_node: u32,
    nodes_per_rack: u32,
}

impl Topology {
    /// All `size` ranks on one node.
    pub fn one_node(size: u32) -> Topology {
        Topology { size, ranks_per_node: size.max(1), nodes_per_rack: 1 }
    }

    /// `size` ranks in blocks of `ranks_per_node`, and nodes in blocks of `nodes_per_rack`.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when one of the blocks is empty.
    pub fn blocks(size: u32, ranks_per_node: u32, nodes_per_rack: u32) -> Result<Topology> {
        if ranks_per_node == 0 || nodes_per_rack == 0 {
            return Err(Error::world(format!(
                "topology: {ranks_per_node} ranks a node and {nodes_per_rack} nodes a rack: both must be at least 1"
            )));
        }
        Ok(Topology { size, ranks_per_node, nodes_per_rack })
    }

    /// `size` ranks on this machine: its NUMA nodes are the nodes, the ranks spread over them in equal blocks.
    ///
    /// A machine that tells nothing of NUMA nodes is one node.
    pub fn of_machine(size: u32) -> Topology {
        let nodes = std::fs::read_to_string("/sys/devices/system/node/has_cpu")
            .ok()
            .and_then(|list| count_list(list.trim()))
            .unwrap_or(1)
            .clamp(1, size.max(1));
        Topology { size, ranks_per_node: size.max(1).div_ceil(nodes), nodes_per_rack: nodes }
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many ranks a (full) node has.
    pub fn ranks_per_node(&self) -> u32 {
        self.ranks_per_node
    }

    /// How many nodes a (full) rack has.
    pub fn nodes_per_rack(&self) -> u32 {
        self.nodes_per_rack
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.size.div_ceil(self.ranks_per_node)
    }

    /// The node of `rank`, counted from 0.
    pub fn node_of(&self, rank: Rank) -> u32 {
        rank.0 / self.ranks_per_node
    }

    /// The rack of `rank`, counted from 0.
    pub fn rack_of(&self, rank: Rank) -> u32 {
        self.node_of(rank) / self.nodes_per_rack
    }

    /// How far `a` and `b` are from each other.
    pub fn distance(&self, a: Rank, b: Rank) -> Distance {
        if a == b {
            Distance::Own
        } else if self.node_of(a) == self.node_of(b) {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}

/// How many numbers a kernel list such as `0-3,8` names.
fn count_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_counted() {
        assert_eq!(count_list("0"), Some(1));
        assert_eq!(count_list("0-3,8"), Some(5));
        assert_eq!(count_list("3-1"), None);
        assert_eq!(count_list(""), None);
    }

    #[test]
    fn blocks_place_ranks() {
        let topology = Topology::blocks(10, 2, 2).unwrap();
        assert_eq!(topology.nodes(), 5);
        assert_eq!((topology.node_of(Rank(5)), topology.rack_of(Rank(5))), (2, 1));
        assert_eq!(topology.distance(Rank(4), Rank(5)), Distance::Node);
        assert_eq!(topology.distance(Rank(3), Rank(4)), Distance::Remote);
        assert_eq!(topology.distance(Rank(4), Rank(4)), Distance::Own);
        assert!(Topology::blocks(4, 0, 1).is_err());
    }

    #[test]
    fn the_machine_has_at_least_one_node() {
        let topology = Topology::of_machine(3);
        assert_eq!(topology.size(), 3);
        assert!((1..=3).contains(&topology.nodes()));
    }
}
