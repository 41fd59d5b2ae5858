//! Symmetry reduction: of the states that differ only in the numbers of ranks with equal parts, the search visits one.
//!
//! A permutation of such ranks maps a state to another state. It maps local states to the states with the permuted
//! history, words of one rank's memory to words of another's, and pointers to other pointers. The search tests that the
//! lock treats all ranks alike. For each permutation of each answer of a local state, the code has run with the permuted
//! answers and made the permuted call. If that fails for a lock, or if one of its words has no name, the search runs
//! without symmetry.
//!
//! A lock also sees the placement of ranks. With several nodes, only ranks of one node are permuted, and never the
//! node's first rank, where locks keep the words of a node. Such a permutation preserves the topology. So only the
//! ranks' numbers can distinguish them, which the runs above would show.
//!
//! The candidates for a representative are the states whose ranks are sorted by a key. The key does not depend on
//! numbers: it is the rank's progress, the values of its words, and the words that point to it. The representative is
//! the candidate with the least encoding. If all keys differ, one permutation is left. Ranks with equal keys are tried
//! in all orders, up to [`ORDERS`] of them. Beyond that, a state can have several representatives, which costs states
//! but loses none.

use std::collections::HashMap;
use std::hash::BuildHasher;

use rmalab_atomics::Rank;
use rustc_hash::FxBuildHasher;

use super::learned::Learner;
use super::node::{Edge, Failure, NodeId};
use super::permutation::{Permutation, RANKS, holds};
use super::state::State;
use crate::Access;
use crate::check::Check;
use crate::network::{Change, Delivered, Issued, Memory, Posted};
use crate::subject::Holds;
use crate::workload::Workload;

/// The exchanges of two neighbours in each group.
pub(super) fn exchanges(groups: &[Vec<usize>]) -> Vec<Permutation> {
    let neighbours = groups.iter().flat_map(|group| group.windows(2));
    let exchange = |pair: &[usize]| {
        let mut exchange = Permutation::IDENTITY;
        exchange.0.swap(pair[0], pair[1]);
        exchange
    };
    neighbours.map(exchange).collect()
}

/// The largest number of orders of ranks with equal keys that are tried.
const ORDERS: usize = 120;

/// The groups of interchangeable ranks, without groups of one rank.
pub(super) fn groups(check: &Check) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    // The ranks of a program distinguish each other by their numbers. Sets of failed ranks, leases and returns are not permuted.
    if check.scenario.crashes() + check.scenario.restarts() > 0
        || check.scenario.lapses() > 0
        || check.world() as usize > RANKS
        || matches!(check.subject.workload(), Workload::Program(_))
    {
        return groups;
    }
    let topology = check.topology();
    let is_first = |rank: Rank| rank.0 == 0 || topology.node_of(rank) != topology.node_of(Rank(rank.0 - 1));
    for rank in (0..check.active()).map(Rank) {
        // The memory of such a rank has a special role.
        if check.is_named(rank) || topology.nodes() > 1 && is_first(rank) {
            continue;
        }
        // The first two accesses repeat, if there are two.
        let part = |rank| {
            let first: Vec<Access> = check.scenario.accesses(rank).take(2).collect();
            (first, check.scenario.part(rank).map(|(_, times)| times), check.scenario.form(rank))
        };
        let same = |group: &&mut Vec<usize>| {
            let of_group = Rank(group[0] as u32);
            topology.node_of(of_group) == topology.node_of(rank) && part(of_group) == part(rank)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(rank.index()),
            None => groups.push(vec![rank.index()]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

impl Learner {
    /// The local state of the permuted rank, with the permuted history of `node`.
    fn permuted(&mut self, node: NodeId, by: &Permutation) -> Result<NodeId, Failure> {
        if let Some(&known) = self.permuted.get(&(node, *by)) {
            return Ok(known);
        }
        let rank = self.nodes[node as usize].rank;
        let to = match self.origin(node, 0) {
            None => self.starts[by.rank(rank.index())],
            Some(origin) => self.image_by(origin, by)?,
        };
        let calls = match self.nodes[node as usize].issued {
            Some(issued) => Some(by.call(issued.call, self.holds(&issued)?)),
            None => None,
        };
        if self.nodes[to as usize].issued.map(|issued| issued.call) != calls {
            return Err(Failure::Asymmetric);
        }
        self.permuted.insert((node, *by), to);
        // Histories that are one state here must be one state there.
        for way in 1.. {
            let Some(origin) = self.origin(node, way) else { break };
            if self.image_by(origin, by)? != to {
                return Err(Failure::Asymmetric);
            }
        }
        Ok(to)
    }

    /// Tests that the code treats ranks alike in every new edge since the last test: each exchange of two neighbours
    /// maps it to an edge. The images are edges, too, so they are tested as well. Since neighbours' exchanges generate
    /// all permutations, every permutation maps every learned edge to an edge.
    pub(super) fn test_symmetry(&mut self, exchanges: &[Permutation]) -> Result<(), Failure> {
        while let Some(&(node, edge)) = self.log.get(self.tested) {
            self.tested += 1;
            for by in exchanges {
                if self.image_by((node, edge.answer), by)? != self.permuted(edge.to, by)? {
                    return Err(Failure::Asymmetric);
                }
            }
        }
        for node in self.ordered..self.nodes.len() {
            for by in exchanges {
                let image = self.permuted(node as NodeId, by)?;
                self.orbits.extend(self.orbits.len() as NodeId..self.nodes.len() as NodeId);
                let (one, other) = (self.orbit(node as NodeId), self.orbit(image));
                self.orbits[one.max(other) as usize] = one.min(other);
            }
            self.ordered = node + 1;
        }
        Ok(())
    }

    /// The first of the nodes that permutations make of `node`.
    fn orbit(&self, node: NodeId) -> NodeId {
        let mut node = node;
        while self.orbits[node as usize] != node {
            node = self.orbits[node as usize];
        }
        node
    }

    /// A number that is equal for nodes that are each other's images.
    pub(super) fn class(&self, node: NodeId) -> u64 {
        if self.forgets_unused() && self.orbits.len() > node as usize {
            FxBuildHasher.hash_one(self.orbit(node))
        } else {
            self.nodes[node as usize].class
        }
    }

    /// The node that the permuted answer leads to from the permuted parent.
    fn image_by(&mut self, (parent, answer): (NodeId, u64), by: &Permutation) -> Result<NodeId, Failure> {
        let image = self.permuted(parent, by)?;
        let issued = self.nodes[parent as usize].issued.expect("a node with an edge has a call");
        let holds = self.holds(&issued)?;
        let Edge { to, .. } = self.learn(image, by.word(holds, answer))?;
        Ok(to)
    }

    fn holds(&self, issued: &Issued) -> Result<Holds, Failure> {
        if issued.call.address(Rank(0)).is_none() {
            return Ok(Holds::Number);
        }
        holds(&self.check, self.slots.address(issued.slot)).ok_or(Failure::Asymmetric)
    }
}

/// One thread's data for finding representatives.
pub(super) struct Symmetry {
    groups: Vec<Vec<usize>>,
    /// For each slot: the rank that owns it, its position there (independent of ranks), and the kind of its value.
    slots: Vec<(usize, u64, Holds)>,
    tables: HashMap<Permutation, Table, FxBuildHasher>,
    keys: [u64; RANKS],
}

/// The known images of nodes and slots under one permutation.
#[derive(Default)]
struct Table {
    nodes: Vec<NodeId>,
    slots: Vec<u16>,
}

/// An unknown entry of a table.
const UNKNOWN: NodeId = NodeId::MAX;

impl Symmetry {
    pub(super) fn new(groups: &[Vec<usize>]) -> Symmetry {
        Symmetry { groups: groups.to_vec(), slots: Vec::new(), tables: HashMap::default(), keys: [0; RANKS] }
    }

    /// Returns whether `state` has slots that are unknown here.
    pub(super) fn lags(&self, state: &State) -> bool {
        slots_of(&state.memory) > self.slots.len()
    }

    /// Copies the slots that are new in `learner`.
    pub(super) fn catch_up(&mut self, learner: &Learner) -> Result<(), Failure> {
        for slot in self.slots.len()..learner.slots.len() {
            let at = learner.slots.address(slot as u16);
            let holds = holds(&learner.check, at).ok_or(Failure::Asymmetric)?;
            self.slots.push((at.rank.index(), at.disp.0, holds));
        }
        Ok(())
    }

    /// The permutations that sort the ranks of `state` by their keys. `class` maps a local state to a number that does
    /// not depend on ranks.
    pub(super) fn candidates(&mut self, state: &State, class: impl Fn(NodeId) -> u64) -> Vec<Permutation> {
        let mix = |values: [u64; 3]| FxBuildHasher.hash_one(values);
        let ranks = state.locals.len();
        let mut first = [0; RANKS];
        for (class_of, &local) in first.iter_mut().zip(&state.locals) {
            *class_of = class(local);
        }
        let of = |word: u64, bits: u64| match word & bits {
            0 => 0,
            plus_one => first.get(plus_one as usize - 1).copied().unwrap_or(1) ^ (word & !bits).rotate_left(32),
        };
        self.keys = first;
        for (&word, &(owner, at, holds)) in state.memory.words.iter().zip(&self.slots) {
            let value = holds.pointer_bits().map_or(word, |bits| of(word, bits));
            if value != 0 && owner < ranks {
                self.keys[owner] = self.keys[owner].wrapping_add(mix([at, value, 1]));
            }
            if let Some(bits) = holds.pointer_bits()
                && let Some(pointed) = ((word & bits) as usize).checked_sub(1)
                && pointed < ranks
            {
                let owner = first.get(owner).copied().unwrap_or(0);
                self.keys[pointed] = self.keys[pointed].wrapping_add(mix([at, owner, 2]));
            }
        }
        for (rank, posts) in state.memory.posts.iter().enumerate() {
            self.keys[rank] = self.keys[rank].wrapping_add(mix([posts.len() as u64, 0, 3]));
        }
        for (rank, results) in state.memory.results.iter().enumerate() {
            self.keys[rank] = self.keys[rank].wrapping_add(results.len() as u64);
        }
        for (rank, clock) in state.memory.clocks.iter().enumerate().filter(|(_, clock)| clock.0 > 0) {
            self.keys[rank] = self.keys[rank].wrapping_add(mix([clock.0, 0, 4]));
        }
        if let Some(rank) = state.alone {
            self.keys[rank.index()] = self.keys[rank.index()].wrapping_add(1);
        }
        let mut all = vec![Permutation::IDENTITY];
        for group in &self.groups {
            let mut sorted = [0; RANKS];
            let sorted = &mut sorted[..group.len()];
            sorted.copy_from_slice(group);
            sorted.sort_by_key(|&rank| self.keys[rank]);
            if sorted.windows(2).all(|pair| self.keys[pair[0]] != self.keys[pair[1]]) {
                for permutation in &mut all {
                    for (&rank, &to) in sorted.iter().zip(group) {
                        permutation.0[rank] = to as u8;
                    }
                }
                continue;
            }
            let mut runs: Vec<&[usize]> = sorted.chunk_by(|&a, &b| self.keys[a] == self.keys[b]).collect();
            let orders: usize = runs.iter().map(|run| (1..=run.len()).product::<usize>()).product();
            if all.len() * orders > ORDERS {
                runs = sorted.chunks(1).collect();
            }
            let mut place = 0;
            for run in runs {
                let places = &group[place..place + run.len()];
                place += run.len();
                let mut more = Vec::with_capacity(all.len());
                orders_of(run, &mut |order| {
                    for permutation in &all {
                        let mut next = *permutation;
                        for (&rank, &to) in order.iter().zip(places) {
                            next.0[rank] = to as u8;
                        }
                        more.push(next);
                    }
                });
                all = more;
            }
        }
        all
    }

    /// Writes the permuted `state` into `image`.
    pub(super) fn apply(
        &mut self,
        state: &State,
        by: &Permutation,
        image: &mut State,
        learner: impl Fn(&mut dyn FnMut(&mut Learner) -> Result<(), Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let table = self.tables.entry(*by).or_default();
        image.copy_from(state);
        for (rank, &local) in state.locals.iter().enumerate() {
            if table.nodes.len() <= local as usize {
                table.nodes.resize(local as usize + 1, UNKNOWN);
            }
            if table.nodes[local as usize] == UNKNOWN {
                learner(&mut |learner| {
                    table.nodes[local as usize] = learner.permuted(local, by)?;
                    Ok(())
                })?;
            }
            image.locals[by.rank(rank)] = table.nodes[local as usize];
        }
        let needed = slots_of(&state.memory);
        if table.slots.len() < needed {
            learner(&mut |learner| {
                for slot in table.slots.len()..needed {
                    let at = by.address(learner.slots.address(slot as u16));
                    table.slots.push(learner.slots.of(at));
                }
                Ok(())
            })?;
        }
        let words = &mut image.memory.words;
        words.clear();
        for (slot, &word) in state.memory.words.iter().enumerate() {
            let to = usize::from(table.slots[slot]);
            if words.len() <= to {
                words.resize(to + 1, 0);
            }
            words[to] = by.word(self.slots[slot].2, word);
        }
        for (rank, posts) in state.memory.posts.iter().enumerate() {
            let to = &mut image.memory.posts[by.rank(rank)];
            to.clear();
            to.extend(posts.iter().map(|post| {
                let slot = usize::from(post.slot);
                let holds = self.slots[slot].2;
                let change = match post.change {
                    Change::Put { mask, value } => Change::Put { mask, value: by.word(holds, value) },
                    Change::Store { value, flushed } => Change::Store { value: by.word(holds, value), flushed },
                    Change::Start { request, op } => Change::Start { request, op: by.operation(holds, op) },
                };
                let target = Rank(by.rank(post.target.index()) as u32);
                Posted { slot: table.slots[slot], target, change, ..*post }
            }));
        }
        for (rank, results) in state.memory.results.iter().enumerate() {
            let to = &mut image.memory.results[by.rank(rank)];
            to.clear();
            to.extend(results.iter().map(|result| {
                let slot = usize::from(result.slot);
                Delivered { slot: table.slots[slot], word: by.word(self.slots[slot].2, result.word), ..*result }
            }));
        }
        for (rank, half) in state.memory.halfway.iter().enumerate() {
            image.memory.halfway[by.rank(rank)] =
                half.map(|(slot, old)| (table.slots[usize::from(slot)], by.word(self.slots[usize::from(slot)].2, old)));
        }
        for (rank, &clock) in state.memory.clocks.iter().enumerate() {
            image.memory.clocks[by.rank(rank)] = clock;
        }
        image.alone = state.alone.map(|rank| Rank(by.rank(rank.index()) as u32));
        image.run = state.run.map(|(rank, count)| (by.rank(rank as usize) as u32, count));
        Ok(())
    }
}

/// The number of slots in `memory`.
fn slots_of(memory: &Memory) -> usize {
    let posted = memory.posts.iter().flatten().map(|post| post.slot);
    let results = memory.results.iter().flatten().map(|result| result.slot);
    let half = memory.halfway.iter().flatten().map(|half| half.0);
    let last = posted.chain(results).chain(half).max();
    last.map_or(0, |last| usize::from(last) + 1).max(memory.words.len())
}

/// Calls `each` with every order of `items`.
fn orders_of(items: &[usize], each: &mut dyn FnMut(&[usize])) {
    fn from(items: &mut [usize], at: usize, each: &mut dyn FnMut(&[usize])) {
        if at + 1 >= items.len() {
            return each(items);
        }
        for i in at..items.len() {
            items.swap(at, i);
            from(items, at + 1, each);
            items.swap(at, i);
        }
    }
    let mut items = items.to_vec();
    from(&mut items, 0, each);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_appears_once() {
        let mut seen = std::collections::HashSet::new();
        orders_of(&[4, 5, 6, 7], &mut |order| assert!(seen.insert(order.to_vec())));
        assert_eq!(seen.len(), 24);
    }
}
