//! The order of messages that wait for one engine: round-robin at each place of the network on their way.
//!
//! Switches hold few messages, and serve their inputs in turn. So each place on the way to a busy adapter gives equal
//! shares to its own ranks and to each neighbour, as long as they have messages. A rank next to the adapter shares with
//! few ranks. A far rank shares with all ranks on the same route. No message waits forever, and a short queue is served
//! nearly in the order of arrival.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::network::Network;

/// The messages that wait for one engine.
#[derive(Default)]
pub(super) struct RoundRobin {
    /// The places at which messages wait.
    places: FxHashMap<u32, PlaceQueue>,
    waiting: u32,
    /// Empty places, kept for their memory.
    spare: Vec<PlaceQueue>,
    /// The places on the way to the place that has its turn.
    way: Vec<u32>,
}

#[derive(Default)]
struct PlaceQueue {
    /// The inputs with messages, in the order of their turns.
    inputs: VecDeque<Input>,
    /// The messages of the place's own ranks.
    own: VecDeque<u32>,
}

#[derive(Clone, Copy)]
enum Input {
    Own,
    From(u32),
}

impl RoundRobin {
    #[cfg(test)]
    fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Adds a message from node `from` to node `home`.
    pub(super) fn push(&mut self, network: &Network, from: u32, home: u32, message: u32) {
        self.waiting += 1;
        let (mut place, mut input) = (from, Input::Own);
        loop {
            let mut new = false;
            let spare = &mut self.spare;
            let state = self.places.entry(place).or_insert_with(|| {
                new = true;
                spare.pop().unwrap_or_default()
            });
            match input {
                Input::Own => {
                    state.own.push_back(message);
                    if state.own.len() == 1 {
                        state.inputs.push_back(Input::Own);
                    }
                }
                from => state.inputs.push_back(from),
            }
            if !new || place == home {
                return;
            }
            input = Input::From(place);
            place = network.toward(place, home);
        }
    }

    /// Takes the message whose turn it is at node `home`.
    pub(super) fn pop(&mut self, home: u32) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        let mut place = home;
        let message = loop {
            let state = self.places.get_mut(&place)?;
            match state.inputs.pop_front()? {
                Input::Own => {
                    let message = state.own.pop_front();
                    if !state.own.is_empty() {
                        state.inputs.push_back(Input::Own);
                    }
                    break message;
                }
                Input::From(next) => {
                    self.way.push(place);
                    place = next;
                }
            }
        };
        // The places on the way that still have messages wait for their next turns.
        loop {
            let empty = self.places.get(&place).is_some_and(|state| state.inputs.is_empty());
            if empty {
                self.spare.extend(self.places.remove(&place));
            }
            let Some(before) = self.way.pop() else { return message };
            if !empty && let Some(state) = self.places.get_mut(&before) {
                state.inputs.push_back(Input::From(place));
            }
            place = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sim::network::Shape;

    #[test]
    fn every_message_is_served_once_and_in_the_order_of_its_place() {
        // Node 0 of a torus of 3 by 3, and its neighbours.
        const NODES: [u32; 5] = [0, 1, 2, 3, 6];
        let shape = Shape::Torus { free: 0, fixed: vec![3, 3], wrap: true };
        let network = Network::new(&shape, 9).unwrap();
        let mut turns = RoundRobin::default();
        // Node 0 is home; messages are numbered by 100 × node + their number.
        for number in 0..4 {
            for node in NODES {
                turns.push(&network, node, 0, 100 * node + number);
            }
        }
        let mut come: Vec<u32> = Vec::new();
        while let Some(message) = turns.pop(0) {
            come.push(message);
        }
        assert_eq!(come.len(), 20);
        assert_eq!(turns.waiting(), 0);
        assert!(turns.places.is_empty());
        for node in NODES {
            let own: Vec<u32> = come.iter().copied().filter(|message| message / 100 == node).collect();
            assert_eq!(own, (0..4).map(|number| 100 * node + number).collect::<Vec<_>>());
        }
        let first: Vec<u32> = come[..5].iter().map(|message| message % 100).collect();
        assert_eq!(first, [0; 5], "each input has its first turn before any has its second");
    }
}
