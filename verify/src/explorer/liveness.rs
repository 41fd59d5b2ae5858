//! Weakly fair livelocks: cycles of states round which every rank goes on, and no rank enters.
//!
//! Where no rank's code has a loop, every schedule ends, and there is nothing to look for. Otherwise the strongly
//! connected components of the state graph are found (Tarjan 1972), the edges being computed anew from the states. No
//! rank enters or leaves inside a component, since acquisitions are counted. A component is a livelock if a schedule
//! that stays in it for ever can be weakly fair: each rank takes a step in it, or waits in some of its states; and each
//! rank's posted puts arrive in it, or there are none in some of its states. A rank whose operation is kept from a word
//! by another one's, on a network whose atomics take two steps, does not wait in this sense: the network serves it in
//! its turn.

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

/// A livelock: a state of it, what happens round it, and what to say of it.
pub(super) struct Livelock {
    pub(super) state: StateId,
    pub(super) cycle: Vec<Choice>,
    pub(super) violation: Violation,
}

/// A state's way to be left: by which choice, to which state.
type Steps = Vec<(Choice, StateId)>;

struct Graph<'s> {
    walker: Walker<'s>,
    store: &'s Store,
    state: State,
    /// The number of the first state of each shard, if all are counted in one row.
    offsets: Vec<usize>,
}

impl Graph<'_> {
    fn dense(&self, id: StateId) -> usize {
        self.offsets[id as usize % SHARDS] + id as usize / SHARDS
    }

    /// Loads a state, and returns its steps.
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

/// Looks for a livelock among the states of a complete search; `go_on` is asked now and then.
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
    // When a state was first seen, counted from 1, and the earliest of those that it leads back to; u32::MAX once its
    // component is known.
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
                let Frame { id, steps, .. } = path.pop().expect("the frame is there");
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

/// What a weakly fair schedule has to come to again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// The step by this choice out of the state.
    Step(StateId, usize),
    /// The state.
    Visit(StateId),
}

/// Returns whether a schedule that stays in the component can be weakly fair.
fn judge(graph: &mut Graph<'_>, members: &[StateId]) -> Result<Option<Livelock>, Failure> {
    let ranks = graph.walker.space.parts.ranks;
    let mut inside: HashMap<StateId, Steps, FxBuildHasher> = HashMap::default();
    inside.extend(members.iter().map(|&id| (id, Steps::new())));
    // For each rank's steps, and then for each rank's puts.
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
        seen: format!("{} can go on for ever, each taking its turn, and nobody enters", names.join(", ")),
    };
    Ok(Some(Livelock { state: begin, cycle, violation }))
}

/// Adds a shortest way from `from` to `to` to `cycle`.
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
