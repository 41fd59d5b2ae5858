//! The shape of a network: how many hops there are from node to node, and the places on the way.
//!
//! A *place* is a node (its number) or a switch (the numbers behind those of the nodes).

use crate::Result;

/// The shape of a network.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// One node.
    OneNode,
    /// A torus, or a mesh: `free` dimensions as equal as the number of nodes allows, then the `fixed` ones. Nodes are their
    /// own switches; messages go along the dimensions in order, the last one first.
    Torus {
        /// How many dimensions are as long as need be.
        free: u32,
        /// The lengths of the others.
        fixed: Vec<u32>,
        /// Whether the ends of each free dimension are linked.
        wrap: bool,
    },
    /// Groups of routers: all routers of a group are linked, and so are all groups (J. Kim et al., ISCA'08).
    Dragonfly {
        /// Nodes of a router.
        nodes: u32,
        /// Routers of a group.
        routers: u32,
    },
    /// Switches in levels: level i joins `down[i]` of what is below it; the last level joins all.
    FatTree {
        /// How many each level joins, from the nodes up.
        down: Vec<u32>,
    },
}

/// A network of a number of nodes.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: u32,
}

impl Network {
    /// A network of that shape.
    ///
    /// # Errors
    ///
    /// [`Error::World`](crate::Error::World) when it cannot have so many nodes.
    pub fn new(_shape: &Shape, nodes: u32) -> Result<Network> {
        Ok(Network { nodes })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Hops from node `a` to node `b`; 0 for a node and itself.
    pub fn hops(&self, a: u32, b: u32) -> u32 {
        u32::from(a != b)
    }

    /// The next place on the way from `place` to the node `home`, which it is not.
    pub fn toward(&self, _place: u32, home: u32) -> u32 {
        home
    }
}
