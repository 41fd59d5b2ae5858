//! The placement of ranks: the ranks that share a node, and the nodes that share a rack.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Error, Rank, Result};

/// The distance between two ranks.
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

    /// Returns the distance as an index into a table with one entry for each distance.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The placement of the ranks of a world.
///
/// Mostly ranks form blocks: rank r is on node r / `ranks_per_node`, and nodes form racks in the same way. That takes no memory for each rank.
/// The ranks of a [`Subset`](crate::Subset) need not form blocks. Then there is a table, which clones share.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct Topology {
    size: u32,
    /// With a table: the largest number on one node.
    ranks_per_node: u32,
    /// With a table: the largest number in one rack.
    nodes_per_rack: u32,
    table: Option<Arc<Table>>,
}

/// The places of ranks that do not form blocks.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Table {
    /// The node of each rank.
    nodes: Vec<u32>,
    /// The rack of each node.
    racks: Vec<u32>,
}

/// The serialized form of a topology. A topology of blocks has no table.
#[derive(serde::Serialize, serde::Deserialize)]
struct Plain {
    size: u32,
    ranks_per_node: u32,
    nodes_per_rack: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<Table>,
}

impl From<Topology> for Plain {
    fn from(topology: Topology) -> Plain {
        let Topology { size, ranks_per_node, nodes_per_rack, table } = topology;
        Plain { size, ranks_per_node, nodes_per_rack, table: table.map(Arc::unwrap_or_clone) }
    }
}

impl TryFrom<Plain> for Topology {
    type Error = Error;

    fn try_from(plain: Plain) -> Result<Topology> {
        let Plain { size, ranks_per_node, nodes_per_rack, table } = plain;
        let Some(Table { nodes, racks }) = table else { return Topology::blocks(size, ranks_per_node, nodes_per_rack) };
        let rack_of = |node: u32| racks.get(node as usize).copied().map(|rack| (node, rack));
        let places: Option<Vec<_>> = nodes.into_iter().map(rack_of).collect();
        match places {
            Some(places) if places.len() == size as usize => Ok(Topology::of_places(places)),
            _ => Err(Error::world(format!("topology: the table does not place each of {size} ranks"))),
        }
    }
}

impl Topology {
    /// Makes a topology of `size` ranks on one node.
    pub fn one_node(size: u32) -> Topology {
        Topology { size, ranks_per_node: size.max(1), nodes_per_rack: 1, table: None }
    }

    /// Makes a topology of `size` ranks in blocks of `ranks_per_node`, and nodes in blocks of `nodes_per_rack`.
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
        Ok(Topology { size, ranks_per_node, nodes_per_rack, table: None })
    }

    /// Makes the topology of `size` ranks on this machine: its NUMA nodes are the nodes, and the ranks are spread over them in equal blocks.
    ///
    /// A machine that reports no NUMA nodes is one node.
    pub fn of_machine(size: u32) -> Topology {
        let nodes = std::fs::read_to_string("/sys/devices/system/node/has_cpu")
            .ok()
            .and_then(|list| count_list(list.trim()))
            .unwrap_or(1)
            .clamp(1, size.max(1));
        Topology { size, ranks_per_node: size.max(1).div_ceil(nodes), nodes_per_rack: nodes, table: None }
    }

    /// Returns the topology of `ranks`. Ranks, nodes and racks are numbered anew from 0, in their order.
    pub(crate) fn of_subset(&self, ranks: impl Iterator<Item = Rank>) -> Topology {
        Topology::of_places(ranks.map(|rank| (self.node_of(rank), self.rack_of(rank))))
    }

    /// Makes a topology of ranks at the given places, each a node and its rack. Nodes and racks are renumbered, in the
    /// order of their first use.
    pub fn of_places(places: impl IntoIterator<Item = (u32, u32)>) -> Topology {
        let (mut new_nodes, mut new_racks) = (HashMap::new(), HashMap::new());
        let (mut nodes, mut racks) = (Vec::new(), Vec::new());
        for (node, rack) in places {
            let next = racks.len() as u32;
            let node = *new_nodes.entry(node).or_insert(next);
            if node == next {
                let next = new_racks.len() as u32;
                racks.push(*new_racks.entry(rack).or_insert(next));
            }
            nodes.push(node);
        }
        let size = nodes.len() as u32;
        let (ranks_per_node, nodes_per_rack) = (largest(&nodes), largest(&racks));
        let in_blocks = |of: &[u32], block: u32| (0..).zip(of).all(|(i, &of): (u32, _)| of == i / block);
        let table = if in_blocks(&nodes, ranks_per_node) && in_blocks(&racks, nodes_per_rack) {
            None
        } else {
            Some(Arc::new(Table { nodes, racks }))
        };
        Topology { size, ranks_per_node, nodes_per_rack, table }
    }

    /// Returns whether the ranks form blocks, so that [`blocks`](Self::blocks) makes this topology.
    pub fn is_blocks(&self) -> bool {
        self.table.is_none()
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of ranks of a full node, or of the largest node if the ranks do not form blocks.
    pub fn ranks_per_node(&self) -> u32 {
        self.ranks_per_node
    }

    /// Returns the number of nodes of a full rack, or of the largest rack if the nodes do not form blocks.
    pub fn nodes_per_rack(&self) -> u32 {
        self.nodes_per_rack
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        match &self.table {
            None => self.size.div_ceil(self.ranks_per_node),
            Some(table) => table.racks.len() as u32,
        }
    }

    /// Returns the node of `rank`, counted from 0. For a rank that does not exist, the number has no meaning.
    pub fn node_of(&self, rank: Rank) -> u32 {
        match &self.table {
            None => rank.0 / self.ranks_per_node,
            Some(table) => table.nodes.get(rank.index()).copied().unwrap_or(u32::MAX),
        }
    }

    /// Returns the rack of `rank`, counted from 0. For a rank that does not exist, the number has no meaning.
    pub fn rack_of(&self, rank: Rank) -> u32 {
        let node = self.node_of(rank);
        match &self.table {
            None => node / self.nodes_per_rack,
            Some(table) => table.racks.get(node as usize).copied().unwrap_or(u32::MAX),
        }
    }

    /// Returns the distance between `a` and `b`.
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

/// Returns the number of times that the most frequent number occurs in `numbers`, which count from 0; at least 1.
fn largest(numbers: &[u32]) -> u32 {
    let mut counts = vec![0; numbers.iter().max().map_or(0, |&most| most as usize + 1)];
    for &number in numbers {
        counts[number as usize] += 1;
    }
    counts.into_iter().max().unwrap_or(1)
}

/// Returns the number of numbers in a kernel list such as `0-3,8`.
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
    fn subsets_are_placed_as_their_ranks_were() {
        // Nodes 0 to 5 with two ranks each, racks 0 to 2 with two nodes each.
        let whole = Topology::blocks(12, 2, 2).unwrap();
        let subset = |ranks: &[u32]| whole.of_subset(ranks.iter().map(|&rank| Rank(rank)));
        let all: Vec<u32> = (0..12).collect();
        assert_eq!(subset(&all), whole);
        assert_eq!(subset(&[0, 2, 4, 6, 8, 10]), Topology::blocks(6, 1, 2).unwrap(), "one of each node");
        assert_eq!(subset(&[6, 7]), Topology::one_node(2));
        assert_eq!(subset(&[]), Topology::one_node(0));
        let ranks = [9, 0, 8, 3, 2, 1, 11];
        let mixed = subset(&ranks);
        assert!(!mixed.is_blocks());
        assert_eq!((mixed.size(), mixed.nodes(), mixed.ranks_per_node(), mixed.nodes_per_rack()), (7, 4, 2, 2));
        let places: Vec<_> = (0..7).map(|rank| (mixed.node_of(Rank(rank)), mixed.rack_of(Rank(rank)))).collect();
        assert_eq!(places, [(0, 0), (1, 1), (0, 0), (2, 1), (2, 1), (1, 1), (3, 0)]);
        for (i, &a) in (0..).zip(&ranks) {
            for (j, &b) in (0..).zip(&ranks) {
                assert_eq!(mixed.distance(Rank(i), Rank(j)), whole.distance(Rank(a), Rank(b)), "{a} to {b}");
            }
        }
        // A subset of the subset uses the table.
        let inner = mixed.of_subset([3, 5, 4].map(Rank).into_iter());
        assert_eq!(inner, whole.of_subset([3, 1, 2].map(Rank).into_iter()));
        assert_eq!((mixed.node_of(Rank(7)), mixed.rack_of(Rank(7))), (u32::MAX, u32::MAX));
    }

    #[test]
    fn topologies_are_read_as_they_were_written() {
        let blocks = Topology::blocks(10, 2, 3).unwrap();
        let text = serde_json::to_string(&blocks).unwrap();
        assert_eq!(text, r#"{"size":10,"ranks_per_node":2,"nodes_per_rack":3}"#);
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), blocks);
        let table = blocks.of_subset([5, 1, 4].map(Rank).into_iter());
        assert!(!table.is_blocks());
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), table);
        for refused in [
            r#"{"size":2,"ranks_per_node":0,"nodes_per_rack":1}"#,
            r#"{"size":2,"ranks_per_node":1,"nodes_per_rack":1,"table":{"nodes":[0],"racks":[0]}}"#,
            r#"{"size":2,"ranks_per_node":1,"nodes_per_rack":1,"table":{"nodes":[0,1],"racks":[0]}}"#,
        ] {
            assert!(serde_json::from_str::<Topology>(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn the_machine_has_at_least_one_node() {
        let topology = Topology::of_machine(3);
        assert_eq!(topology.size(), 3);
        assert!((1..=3).contains(&topology.nodes()));
    }
}
