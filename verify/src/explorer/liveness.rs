//! Weakly fair livelocks: cycles of states in which every rank goes on, but no rank enters.
//!
//! If no rank's code has a loop, every schedule ends, so that there is no livelock. Otherwise the search finds the
//! strongly connected components of the state graph (Tarjan 1972), and computes the edges again from the states.
//! Acquisitions are counted, so that no rank enters or leaves inside a component. A component is a livelock if a
//! schedule that stays in it forever can be weakly fair. That needs, for each rank, a step in the component, or a state
//! of it in which the rank waits. It also needs, for each rank, an arrival of one of its posted puts, or a state in
//! which it has none. On a network whose atomics take two steps, another rank's operation can lock a word. A rank that
//! is delayed by that does not wait in this sense, since the network serves each rank in turn.

use std::collections::{HashMap, VecDeque};

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;
use rustc_hash::FxBuildHasher;

use super::node::Failure;
use super::space::{Space, Walker};
use super::state::State;
use super::store::{SHARDS, StateId, Store};
use crate::counterexample::Choice;
use crate::status::Phase;
use crate::{Property, Violation};

/// A livelock: one of its states, its cycle, and the violation.
pub(super) struct Livelock {
    pub(super) state: StateId,
    pub(super) cycle: Vec<Choice>,
    pub(super) violation: Violation,
}

/// The transitions of a state, with the resulting states.
type Steps = Vec<(Choice, StateId)>;

struct Graph<'s> {
    walker: Walker<'s>,
    store: &'s Store,
    state: State,
    /// For each shard, the number of states in the shards before it.
    offsets: Vec<usize>,
}

impl Graph<'_> {
    fn dense(&self, id: StateId) -> usize {
        self.offsets[id as usize % SHARDS] + id as usize / SHARDS
    }

    /// Loads a state, and returns its transitions.
    fn steps(&mut self, id: StateId) -> Result<Steps, Failure> {
        let (bytes, _) = self.store.get(id);
        self.walker.decode(&bytes, &mut self.state);
        let (mut choices, mut encoded, mut steps) = (Vec::new(), Vec::new(), Steps::new());
        self.walker.choices(&self.state, &mut choices);
        for choice in choices {
            self.walker.step(&self.state, choice)?;
            let next = self.walker.next.clone();
            self.walker.encode(&next, &mut encoded)?;
            let to = self.store.find(&encoded).expect("a complete search has stored every state");
            steps.push((choice, to));
        }
        Ok(steps)
    }
}

/// One state on the path of the depth-first search.
struct Frame {
    id: StateId,
    steps: Steps,
    next: usize,
}

/// Searches for a livelock among the states of a complete search. It calls `go_on` from time to time.
pub(super) fn search(
    space: &Space,
    store: &Store,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Livelock>, Failure> {
    let lens = store.lens();
    let offsets: Vec<usize> = lens
        .iter()
        .scan(0, |sum, &len| {
            let first = *sum;
            *sum += len as usize;
            Some(first)
        })
        .collect();
    let count: usize = lens.iter().map(|&len| len as usize).sum();
    let (walker, state) = (Walker::new(space), space.blank());
    let mut graph = Graph { walker, store, state, offsets };
    // The position in the order of discovery, counted from 1, and the lowest position that is reachable; u32::MAX once
    // the component is known.
    let mut seen = vec![0_u32; count];
    let mut low = vec![0_u32; count];
    let mut stack: Vec<StateId> = Vec::new();
    let mut time = 0;
    for (shard, &len) in lens.iter().enumerate() {
        for index in 0..len {
            let root = Store::id(shard, index);
            if seen[graph.dense(root)] != 0 {
                continue;
            }
            let mut path: Vec<Frame> = Vec::new();
            let mut enter = Some(root);
            loop {
                if let Some(id) = enter.take() {
                    time += 1;
                    let at = graph.dense(id);
                    (seen[at], low[at]) = (time, time);
                    stack.push(id);
                    path.push(Frame { id, steps: graph.steps(id)?, next: 0 });
                    if time % 4096 == 0 && !go_on() {
                        return Ok(None);
                    }
                }
                let Some(frame) = path.last_mut() else { break };
                let at = graph.dense(frame.id);
                if let Some(&(_, to)) = frame.steps.get(frame.next) {
                    frame.next += 1;
                    let to_at = graph.dense(to);
                    if seen[to_at] == 0 {
                        enter = Some(to);
                    } else if low[to_at] != u32::MAX {
                        low[at] = low[at].min(seen[to_at]);
                    }
                    continue;
                }
                let Frame { id, steps, .. } = path.pop().expect("the path is not empty");
                if low[at] == seen[at] {
                    let from =
                        stack.iter().rposition(|&member| member == id).expect("a component's root is on the stack");
                    let members = stack.split_off(from);
                    for &member in &members {
                        low[graph.dense(member)] = u32::MAX;
                    }
                    let cyclic = members.len() > 1 || steps.iter().any(|&(_, to)| to == id);
                    if cyclic && let Some(livelock) = judge(&mut graph, &members)? {
                        return Ok(Some(livelock));
                    }
                }
                if let Some(parent) = path.last() {
                    let parent_at = graph.dense(parent.id);
                    if low[at] != u32::MAX {
                        low[parent_at] = low[parent_at].min(low[at]);
                    }
                }
            }
        }
    }
    Ok(None)
}

/// A goal that a weakly fair schedule must reach again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// This transition from the state.
    Step(StateId, usize),
    /// This state.
    Visit(StateId),
}

/// Returns whether a schedule that stays in the component can be weakly fair.
fn judge(graph: &mut Graph<'_>, members: &[StateId]) -> Result<Option<Livelock>, Failure> {
    let ranks = graph.walker.space.parts.ranks;
    let mut inside: HashMap<StateId, Steps, FxBuildHasher> = HashMap::default();
    inside.extend(members.iter().map(|&id| (id, Steps::new())));
    // First for each rank's steps, then for each rank's puts.
    let mut goals: Vec<Option<Goal>> = vec![None; 2 * ranks];
    let mut acquiring = Vec::new();
    for &id in members {
        let steps: Steps = graph.steps(id)?.into_iter().filter(|(_, to)| inside.contains_key(to)).collect();
        for rank in 0..ranks {
            let call = graph.walker.node(&graph.state, rank).issued.map(|issued| issued.call);
            let may_wait = matches!(
                call,
                None | Some(Call::WaitUntil { .. } | Call::Finish { .. } | Call::Flush { .. } | Call::FenceEverywhere)
            );
            if may_wait && !graph.walker.ready(&graph.state, rank) {
                goals[rank].get_or_insert(Goal::Visit(id));
            }
            if graph.state.memory.posts[rank].is_empty() {
                goals[ranks + rank].get_or_insert(Goal::Visit(id));
            }
        }
        for (i, &(choice, _)) in steps.iter().enumerate() {
            let goal = match choice {
                Choice::Step(rank) => &mut goals[rank.index()],
                Choice::Arrive { from, .. } => &mut goals[ranks + from.index()],
            };
            goal.get_or_insert(Goal::Step(id, i));
        }
        if acquiring.is_empty() {
            acquiring = (0..ranks)
                .filter(|&rank| graph.walker.node(&graph.state, rank).status.phase == Phase::Acquiring)
                .map(|rank| Rank(rank as u32))
                .collect();
        }
        inside.insert(id, steps);
    }
    let Some(goals) = goals.into_iter().collect::<Option<Vec<Goal>>>() else { return Ok(None) };
    let begin = members[0];
    let mut cycle = Vec::new();
    let mut at = begin;
    for goal in goals.into_iter().chain([Goal::Visit(begin)]) {
        let (Goal::Visit(to) | Goal::Step(to, _)) = goal;
        walk(&inside, at, to, &mut cycle);
        at = to;
        if let Goal::Step(from, i) = goal {
            let (choice, to) = inside[&from][i];
            cycle.push(choice);
            at = to;
        }
    }
    let names: Vec<String> = acquiring.iter().map(Rank::to_string).collect();
    let violation = Violation {
        property: Property::NoLivelock,
        rank: acquiring.first().copied().unwrap_or_default(),
        acquisition: None,
        seen: format!("{} can go on forever in turn, and no rank enters", names.join(", ")),
    };
    Ok(Some(Livelock { state: begin, cycle, violation }))
}

/// Appends a shortest path from `from` to `to` to `cycle`.
fn walk(inside: &HashMap<StateId, Steps, FxBuildHasher>, from: StateId, to: StateId, cycle: &mut Vec<Choice>) {
    let mut came: HashMap<StateId, (StateId, Choice), FxBuildHasher> = HashMap::default();
    let mut open = VecDeque::from([from]);
    while let Some(id) = open.pop_front() {
        if id == to {
            break;
        }
        for &(choice, next) in &inside[&id] {
            if next != from && !came.contains_key(&next) {
                came.insert(next, (id, choice));
                open.push_back(next);
            }
        }
    }
    let mut way = Vec::new();
    let mut at = to;
    while at != from {
        let (before, choice) = came[&at];
        way.push(choice);
        at = before;
    }
    cycle.extend(way.into_iter().rev());
}
