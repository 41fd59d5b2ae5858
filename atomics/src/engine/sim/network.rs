//! The shape of a network: the number of links from node to node, and the places on the way.
//!
//! A *place* is a node (its number) or a switch (a number after the nodes' numbers). Everything is integer arithmetic on
//! these numbers, so a network takes no memory for its nodes or links.
//!
//! The shape fixes the routes, which are minimal. The gain of adaptive routing under load is not modelled. The simulator
//! relies on this invariant: from any place, [`Network::toward`] reaches the home node in as many steps as there are links
//! on the way. From node to node, that number is [`Network::hops`].
//!
//! | shape | hops between two nodes | source |
//! | --- | --- | --- |
//! | one node | | |
//! | torus, mesh | the sum over the dimensions of the shorter way; a node is its own switch | Y. Ajima et al., Computer 42(11), 2009 |
//! | dragonfly | 2 on one router, 3 in one group, else 3 to 5: cables to the routers count | J. Kim et al., ISCA'08 |
//! | fat tree | 2 for each level up to the one that joins both: cables to the switches count | C. Leiserson, IEEE ToC 34(10), 1985 |

use crate::{Error, Result};

/// The largest number of dimensions of a torus, and of levels of a fat tree.
pub const MAX_DIMENSIONS: usize = 8;

/// The shape of a network.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// One node.
    OneNode,
    /// A torus, or a mesh: `free` dimensions as equal as the number of nodes allows, then the `fixed` ones, which are
    /// rings. Nodes are their own switches; messages go along the dimensions in order, the last one first. Nodes with
    /// neighbouring numbers are neighbours in the last dimension. If the nodes do not fill it, the places at its end are
    /// switches only.
    Torus {
        /// The number of free dimensions, which are as long as needed.
        free: u32,
        /// The lengths of the fixed dimensions.
        fixed: Vec<u32>,
        /// True if the ends of each free dimension are linked.
        wrap: bool,
    },
    /// Groups of routers: all routers of a group are linked, and so are all groups (J. Kim et al., ISCA'08). The link from
    /// group i to group j starts at router j modulo `routers` of group i.
    Dragonfly {
        /// Nodes of a router.
        nodes: u32,
        /// Routers of a group.
        routers: u32,
    },
    /// Switches in levels: a switch of level i joins `down[i]` nodes or switches below it, and one switch above these
    /// levels joins all. A switch represents as many real switches as its links need: the tree is fat.
    FatTree {
        /// The number that each level joins, from the nodes up.
        down: Vec<u32>,
    },
}

/// A network with its number of nodes.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: u32,
    places: u32,
    routes: Routes,
}

/// The data from which the routes of a shape are computed.
#[derive(Clone, Debug)]
enum Routes {
    OneNode,
    /// The dimensions from the last one on, which is the order of the routes.
    Torus(Vec<Dimension>),
    Dragonfly {
        nodes: u32,
        routers: u32,
    },
    /// The levels from the nodes up.
    FatTree(Vec<Level>),
}

/// One dimension of a torus.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    length: u32,
    /// The difference between the numbers of neighbours in this dimension.
    stride: u32,
    wrap: bool,
}

/// The nodes, or the switches of one level, of a fat tree.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// The number of the first one.
    first: u32,
    /// The number of nodes below each; the last may have fewer.
    width: u32,
}

impl Network {
    /// Makes a network of this shape.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when it cannot have that many nodes, or the shape itself is impossible.
    pub fn new(shape: &Shape, nodes: u32) -> Result<Network> {
        if nodes == 0 {
            return Err(Error::world("a network needs at least one node"));
        }
        shape.check().map_err(Error::world)?;
        let (routes, places) = match shape {
            Shape::OneNode if nodes > 1 => {
                return Err(Error::world(format!(
                    "the machine is one node, but the ranks would need {nodes}; put more ranks on a node, or take another profile"
                )));
            }
            Shape::OneNode => (Routes::OneNode, 1),
            Shape::Torus { free, fixed, wrap } => torus(nodes, *free, fixed, *wrap)?,
            Shape::Dragonfly { nodes: of_router, routers } => {
                let groups = u64::from(nodes).div_ceil(u64::from(*of_router) * u64::from(*routers));
                let places = u64::from(nodes) + groups * u64::from(*routers);
                (Routes::Dragonfly { nodes: *of_router, routers: *routers }, places)
            }
            Shape::FatTree { down } => fat_tree(nodes, down),
        };
        let places = u32::try_from(places)
            .map_err(|_| Error::world(format!("a network of {nodes} nodes and its switches has too many places")))?;
        Ok(Network { nodes, places, routes })
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the number of places: nodes and switches.
    pub fn places(&self) -> u32 {
        self.places
    }

    /// Returns the number of hops, that is links, from node `a` to node `b`; 0 for a node and itself.
    #[inline]
    pub fn hops(&self, a: u32, b: u32) -> u32 {
        if a == b {
            return 0;
        }
        match &self.routes {
            Routes::OneNode => 0,
            Routes::Torus(dimensions) => {
                let (mut a, mut b, mut hops) = (a, b, 0);
                for dimension in dimensions {
                    let length = dimension.length;
                    let apart = (a % length).abs_diff(b % length);
                    hops += if dimension.wrap { apart.min(length - apart) } else { apart };
                    (a, b) = (a / length, b / length);
                    if a == b {
                        break;
                    }
                }
                hops
            }
            &Routes::Dragonfly { nodes, routers } => {
                let (from, to) = (a / nodes, b / nodes);
                let (from_group, to_group) = (from / routers, to / routers);
                if from == to {
                    2
                } else if from_group == to_group {
                    3
                } else {
                    let leaves = u32::from(from != gateway(from_group, to_group, routers));
                    let enters = u32::from(to != gateway(to_group, from_group, routers));
                    3 + leaves + enters
                }
            }
            Routes::FatTree(levels) => {
                let joining = levels.iter().position(|level| a / level.width == b / level.width);
                2 * joining.map_or(0, |level| level as u32)
            }
        }
    }

    /// Returns the next place on the way from `place` to the node `home`, which is another place.
    #[inline]
    pub fn toward(&self, place: u32, home: u32) -> u32 {
        match &self.routes {
            Routes::OneNode => home,
            Routes::Torus(dimensions) => {
                let (mut a, mut b) = (place, home);
                for dimension in dimensions {
                    let length = dimension.length;
                    let (at, to) = (a % length, b % length);
                    if at != to {
                        // On a ring of even length both ways to the opposite side are equally long. Then the route goes
                        // up.
                        let up = if dimension.wrap { 2 * ((to + length - at) % length) <= length } else { to > at };
                        let next = match (up, at) {
                            (true, at) if at + 1 == length => 0,
                            (true, at) => at + 1,
                            (false, 0) => length - 1,
                            (false, at) => at - 1,
                        };
                        return place - at * dimension.stride + next * dimension.stride;
                    }
                    (a, b) = (a / length, b / length);
                }
                home
            }
            &Routes::Dragonfly { nodes, routers } => {
                let Some(router) = place.checked_sub(self.nodes) else { return self.nodes + place / nodes };
                let last = home / nodes;
                if router == last {
                    return home;
                }
                let (group, home_group) = (router / routers, last / routers);
                let out = gateway(group, home_group, routers);
                self.nodes
                    + if group == home_group {
                        last
                    } else if router == out {
                        gateway(home_group, group, routers)
                    } else {
                        out
                    }
            }
            Routes::FatTree(levels) => {
                let level = levels.iter().rposition(|level| place >= level.first).unwrap_or(0);
                let here = levels[level];
                let index = place - here.first;
                // The top joins all nodes, so it never needs a place above it.
                let next = if home / here.width == index { levels[level - 1] } else { levels[level + 1] };
                let node = if home / here.width == index { home } else { index * here.width };
                next.first + node / next.width
            }
        }
    }
}

/// Returns the router of `group` at which the link to the group `other` starts.
#[inline]
fn gateway(group: u32, other: u32, routers: u32) -> u32 {
    group * routers + other % routers
}

impl Shape {
    /// Checks the shape itself. The error gives advice.
    pub(crate) fn check(&self) -> Result<(), String> {
        let lengths = |what: &str, lengths: &[u32]| match lengths.iter().find(|length| !LENGTHS.contains(length)) {
            Some(length) => Err(format!("{what} of {length} is not from {} to {}", LENGTHS.start(), LENGTHS.end())),
            None => Ok(()),
        };
        match self {
            Shape::OneNode => Ok(()),
            Shape::Torus { free, fixed, .. } => {
                let dimensions = *free as usize + fixed.len();
                if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
                    return Err(format!("a torus of {dimensions} dimensions; it can have 1 to {MAX_DIMENSIONS}"));
                }
                lengths("a fixed dimension", fixed)
            }
            Shape::Dragonfly { nodes, routers } => {
                lengths("a number of nodes", &[*nodes])?;
                lengths("a number of routers", &[*routers])
            }
            Shape::FatTree { down } if down.len() > MAX_DIMENSIONS => {
                Err(format!("a fat tree of {} levels; it can have up to {MAX_DIMENSIONS}", down.len()))
            }
            Shape::FatTree { down } => lengths("a level", down),
        }
    }
}

/// The lengths that a fixed dimension, a router, a group or a level can have.
const LENGTHS: std::ops::RangeInclusive<u32> = 1..=4096;

fn torus(nodes: u32, free: u32, fixed: &[u32], wrap: bool) -> Result<(Routes, u64)> {
    // The product of at most `MAX_DIMENSIONS` lengths within `LENGTHS` is at most 2^96.
    let inner: u128 = fixed.iter().map(|&length| u128::from(length)).product();
    let outer = u128::from(nodes).div_ceil(inner);
    if free == 0 && outer > 1 {
        return Err(Error::world(format!("a torus of these fixed dimensions has {inner} nodes, not {nodes}")));
    }
    let outer = u32::try_from(outer).expect("no more than the nodes, of which there are fewer than 2^32");
    let free = if free == 0 { Vec::new() } else { box_of(outer, free) };
    let free = free.into_iter().map(|length| (length, wrap));
    let fixed = fixed.iter().map(|&length| (length, true));
    let mut stride = 1u128;
    let dimensions = fixed.rev().chain(free.rev());
    let dimensions = dimensions.map(|(length, wrap)| {
        let here = stride;
        stride *= u128::from(length);
        // If the stride of a dimension does not fit, there are too many places, which the check below refuses.
        Dimension { length, stride: u32::try_from(here).unwrap_or(u32::MAX), wrap }
    });
    let dimensions = dimensions.collect();
    Ok((Routes::Torus(dimensions), u64::try_from(stride).unwrap_or(u64::MAX)))
}

/// Returns the lengths, the longest last, of a box with this many dimensions and room for `places`. Of the boxes with
/// similar lengths it is the one with the least spare room.
fn box_of(places: u32, dimensions: u32) -> Vec<u32> {
    if dimensions == 1 {
        return vec![places];
    }
    let even = (1..=places)
        .find(|&length| u64::from(length).saturating_pow(dimensions) >= u64::from(places))
        .expect("at least `places` itself is enough");
    let room = |lengths: &[u32]| lengths.iter().map(|&length| u64::from(length)).product::<u64>();
    let candidates = ((2 * even).div_ceil(3)..=even).rev().map(|length| {
        let mut lengths = box_of(places.div_ceil(length), dimensions - 1);
        lengths.push(length);
        lengths.sort_unstable();
        lengths
    });
    candidates.min_by_key(|lengths| (room(lengths), lengths.last().copied())).expect("there is an even length")
}

fn fat_tree(nodes: u32, down: &[u32]) -> (Routes, u64) {
    let mut levels = vec![Level { first: 0, width: 1 }];
    let mut places = u64::from(nodes);
    let mut width = 1u32;
    for &joined in down.iter().chain([&u32::MAX]) {
        // A switch above all nodes is the top, even if it could join more.
        width = width.saturating_mul(joined);
        levels.push(Level { first: u32::try_from(places).unwrap_or(u32::MAX), width });
        places += u64::from(nodes.div_ceil(width));
        if width >= nodes {
            break;
        }
    }
    (Routes::FatTree(levels), places)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns shapes of all kinds, with numbers of nodes that fill them and that do not.
    fn networks() -> Vec<(Shape, Vec<u32>)> {
        let torus = |free, fixed: &[u32], wrap| Shape::Torus { free, fixed: fixed.to_vec(), wrap };
        let some = || vec![1, 2, 3, 7, 12, 16, 61, 100, 125, 144];
        vec![
            (Shape::OneNode, vec![1]),
            (torus(1, &[], true), some()),
            (torus(1, &[], false), some()),
            (torus(2, &[], true), some()),
            (torus(3, &[], true), some()),
            (torus(3, &[], false), some()),
            (torus(3, &[2, 3, 2], true), [some(), vec![1536]].concat()),
            (torus(3, &[2], true), some()),
            (torus(0, &[4, 4], true), vec![1, 2, 15, 16]),
            (torus(6, &[], true), some()),
            (Shape::Dragonfly { nodes: 4, routers: 96 }, [some(), vec![1500]].concat()),
            (Shape::Dragonfly { nodes: 2, routers: 3 }, some()),
            (Shape::Dragonfly { nodes: 1, routers: 1 }, some()),
            (Shape::FatTree { down: vec![] }, some()),
            (Shape::FatTree { down: vec![4] }, some()),
            (Shape::FatTree { down: vec![18, 18] }, [some(), vec![1300]].concat()),
            (Shape::FatTree { down: vec![2, 3, 2, 5] }, some()),
        ]
    }

    /// Returns the number of steps that `toward` takes.
    fn steps(network: &Network, mut place: u32, home: u32) -> u32 {
        let mut steps = 0;
        while place != home {
            place = network.toward(place, home);
            assert!(place < network.places(), "{place}");
            steps += 1;
            assert!(steps <= network.places(), "no end of the way to {home}");
        }
        steps
    }

    #[test]
    fn every_place_reaches_every_node_in_the_given_hops() {
        for (shape, sizes) in networks() {
            for nodes in sizes {
                let network = Network::new(&shape, nodes).unwrap();
                assert_eq!(network.nodes(), nodes);
                // All pairs of the small networks, and a sample of the large ones.
                let every = 1 + nodes as usize / 160;
                for home in (0..nodes).step_by(every) {
                    for place in (0..network.places()).step_by(every) {
                        let steps = steps(&network, place, home);
                        if place < nodes {
                            assert_eq!(steps, network.hops(place, home), "{shape:?} {nodes}: {place} to {home}");
                            assert_eq!(steps, network.hops(home, place), "{shape:?} {nodes}: both ways are as long");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_million_nodes_reach_each_other() {
        for (shape, _) in networks().into_iter().skip(1) {
            let Ok(network) = Network::new(&shape, 1_000_000) else { continue };
            let diameter = match shape {
                Shape::Torus { free: 1, .. } => continue,
                Shape::Torus { .. } => 2000,
                _ => 12,
            };
            let mut random = 1u64;
            let mut draw = |below: u32| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((random >> 33) % u64::from(below)) as u32
            };
            for _ in 0..2000 {
                let (place, home) = (draw(network.places()), draw(network.nodes()));
                let steps = steps(&network, place, home);
                assert!(steps <= diameter, "{shape:?}: {steps}");
                if place < network.nodes() {
                    assert_eq!(steps, network.hops(place, home), "{shape:?}: {place} to {home}");
                }
            }
        }
    }

    #[test]
    fn each_step_takes_one_link() {
        // In a torus, links join neighbours in one dimension. Breadth-first search over the links finds no shorter way.
        let shape = Shape::Torus { free: 2, fixed: vec![3], wrap: true };
        let network = Network::new(&shape, 48).unwrap();
        assert_eq!(network.places(), 48, "4 by 4 by 3");
        let neighbours = |node: u32| {
            let (x, y, z) = (node / 12, node / 3 % 4, node % 3);
            let at = |x: u32, y: u32, z: u32| (x % 4 * 4 + y % 4) * 3 + z % 3;
            [at(x + 1, y, z), at(x + 3, y, z), at(x, y + 1, z), at(x, y + 3, z), at(x, y, z + 1), at(x, y, z + 2)]
        };
        for home in 0..48 {
            let mut far = [u32::MAX; 48];
            far[home as usize] = 0;
            let mut next = std::collections::VecDeque::from([home]);
            while let Some(node) = next.pop_front() {
                for neighbour in neighbours(node) {
                    if far[neighbour as usize] == u32::MAX {
                        far[neighbour as usize] = far[node as usize] + 1;
                        next.push_back(neighbour);
                    }
                }
            }
            for node in 0..48 {
                assert_eq!(network.hops(node, home), far[node as usize], "{node} to {home}");
                if node != home {
                    assert!(neighbours(node).contains(&network.toward(node, home)), "{node} to {home}");
                }
            }
        }
    }

    #[test]
    fn hops_agree_with_the_papers() {
        // The way goes along the last dimension first: 0 0 0 0 0 0 to 1 1 1 1 1 1.
        let tofu = Network::new(&Shape::Torus { free: 3, fixed: vec![2, 3, 2], wrap: true }, 12 * 64).unwrap();
        let far = 21 * 12 + 9;
        let mut way = vec![0];
        while *way.last().unwrap() != far {
            way.push(tofu.toward(*way.last().unwrap(), far));
        }
        assert_eq!(way, [0, 1, 3, 9, 9 + 12, 9 + 5 * 12, far]);
        let dragonfly = Network::new(&Shape::Dragonfly { nodes: 4, routers: 96 }, 4 * 96 * 10).unwrap();
        assert_eq!([1, 4, 4 * 96 * 9 + 40].map(|to| dragonfly.hops(0, to)), [2, 3, 5]);
        let tree = Network::new(&Shape::FatTree { down: vec![18, 18] }, 648).unwrap();
        assert_eq!([0, 17, 18, 323, 324].map(|to| tree.hops(0, to)), [0, 2, 4, 4, 6]);
    }

    #[test]
    fn boxes_are_nearly_cubes() {
        assert_eq!(box_of(64, 3), [4, 4, 4]);
        assert_eq!(box_of(32, 3), [2, 4, 4]);
        assert_eq!(box_of(11, 3), [2, 2, 3]);
        for places in 1..3000 {
            let lengths = box_of(places, 3);
            let room: u32 = lengths.iter().product();
            assert!(room >= places && room <= places + places / 4 + 3, "{places}: {lengths:?}");
            assert!(lengths[2] <= 3 * lengths[0], "{places}: {lengths:?}");
        }
    }

    #[test]
    fn impossible_networks_are_refused() {
        let torus = |free, fixed: &[u32]| Shape::Torus { free, fixed: fixed.to_vec(), wrap: true };
        for (shape, nodes, why) in [
            (Shape::OneNode, 0, "needs at least one node"),
            (Shape::OneNode, 2, "one node"),
            (torus(0, &[]), 1, "0 dimensions"),
            (torus(9, &[]), 1, "9 dimensions"),
            (torus(0, &[2, 3]), 7, "6 nodes, not 7"),
            (torus(1, &[0]), 7, "of 0"),
            (torus(1, &[4096; 3]), 7, "too many places"),
            (torus(0, &[4096; 8]), 7, "too many places"),
            (Shape::Dragonfly { nodes: 0, routers: 1 }, 1, "of 0"),
            (Shape::Dragonfly { nodes: 1, routers: 1 }, u32::MAX, "too many places"),
            (Shape::FatTree { down: vec![0] }, 1, "of 0"),
            (Shape::FatTree { down: vec![2; 9] }, 1, "9 levels"),
            (Shape::FatTree { down: vec![2] }, u32::MAX, "too many places"),
        ] {
            let error = Network::new(&shape, nodes).unwrap_err().to_string();
            assert!(error.contains(why), "{shape:?} {nodes}: {error}");
        }
    }
}
