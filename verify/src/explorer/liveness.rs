//! Weakly fair livelocks: cycles of states in which every rank goes on, but no rank enters.
//!
//! If no rank's code has a loop, every schedule ends, so that there is no livelock. Otherwise the search finds the
//! strongly connected components of the state graph without the transitions in which a rank enters (Tarjan 1972). A
//! component is a livelock if a
//! schedule that stays in it forever can be weakly fair. That needs, for each rank, a step in the component, or a state
//! of it in which the rank waits. It also needs, for each rank, an arrival of one of its posted puts, or a state in
//! which it has none. On a network whose atomics take two steps, another rank's operation can lock a word. A rank that
//! is delayed by that does not wait in this sense, since the network serves each rank in turn.
//!
//! Under symmetry, the graph consists of the representatives. A path through it stands for a path through the states,
//! whose ranks change their numbers on the way. [`judge`] follows the numbers (E. A. Emerson and A. P. Sistla, "Utilizing
//! Symmetry when Model-Checking under Fairness Assumptions", 1997).

use std::collections::{HashMap, HashSet, VecDeque};

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::Call;
use rustc_hash::FxBuildHasher;

use super::node::Failure;
use super::permutation::Permutation;
use super::space::{Space, Walker};
use super::state::State;
use super::store::{StateId, Store};
use super::transitions::{Move, Transitions};
use crate::counterexample::Choice;
use crate::status::Phase;
use crate::{Property, Violation};

/// A livelock.
pub(super) struct Livelock {
    /// One of its representatives.
    pub(super) state: StateId,
    /// Its cycle from there.
    pub(super) cycle: Vec<Choice>,
    /// The ranks that acquire.
    acquiring: Vec<Rank>,
}

impl Livelock {
    /// The violation in the state that `by` makes of the representative.
    pub(super) fn violation(&self, by: &Permutation) -> Violation {
        let mut ranks: Vec<Rank> = self.acquiring.iter().map(|rank| Rank(by.rank(rank.index()) as u32)).collect();
        ranks.sort_unstable();
        let names: Vec<String> = ranks.iter().map(Rank::to_string).collect();
        Violation {
            property: Property::NoLivelock,
            rank: ranks.first().copied().unwrap_or_default(),
            acquisition: None,
            seen: format!("{} can go on forever in turn, and no rank enters", names.join(", ")),
        }
    }
}

/// A transition of a representative in which no rank enters.
#[derive(Clone, Copy)]
struct Step {
    choice: Choice,
    /// The representative of the resulting state.
    to: StateId,
    /// The permutation that maps that representative to the resulting state.
    back: Permutation,
}

impl Step {
    fn of(one: &Move) -> Option<Step> {
        (!one.enters).then(|| Step { choice: one.choice, to: one.to, back: one.by.inverse() })
    }
}

/// The transitions of a representative.
type Steps = Vec<Step>;

struct Graph<'s> {
    walker: Walker<'s>,
    store: &'s Store,
    state: State,
    /// The numbers of the states.
    numbers: &'s Transitions,
    /// The transitions, if the search has recorded them.
    recorded: Option<&'s Transitions>,
}

impl Graph<'_> {
    fn dense(&self, id: StateId) -> usize {
        self.numbers.dense(id)
    }

    /// Loads a state.
    fn load(&mut self, id: StateId) {
        let (bytes, _) = self.store.get(id);
        self.walker.decode(&bytes, &mut self.state);
    }

    /// The transitions of a state.
    fn steps(&mut self, id: StateId) -> Result<Steps, Failure> {
        if let Some(recorded) = self.recorded {
            return Ok(recorded.of(recorded.dense(id)).filter_map(|one| Step::of(&one)).collect());
        }
        self.load(id);
        let (mut choices, mut encoded, mut steps) = (Vec::new(), Vec::new(), Steps::new());
        self.walker.choices(&self.state, &mut choices);
        for choice in choices {
            self.walker.step(&self.state, choice)?;
            if self.walker.entered {
                continue;
            }
            let back = self.walker.encode_next(&mut encoded)?.inverse();
            let to = self.store.find(&encoded).expect("a complete search has stored every state");
            steps.push(Step { choice, to, back });
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

/// Searches for a livelock among the states of a complete search. Transitions that were not recorded are computed again
/// from the states. It calls `go_on` from time to time.
pub(super) fn search(
    space: &Space,
    store: &Store,
    recorded: Option<&Transitions>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Livelock>, Failure> {
    let lens = store.lens();
    let unrecorded = Transitions::without_moves(store);
    let numbers = recorded.unwrap_or(&unrecorded);
    let count = numbers.len();
    let (walker, state) = (Walker::new(space), space.blank());
    let mut graph = Graph { walker, store, state, numbers, recorded };
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
                if let Some(&Step { to, .. }) = frame.steps.get(frame.next) {
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
                    let cyclic = members.len() > 1 || steps.iter().any(|step| step.to == id);
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

/// A state: a representative, and the permutation that maps it to the state.
type Place = (StateId, Permutation);

/// The facts about a representative that a judgement needs.
struct Member {
    /// The transitions to other members.
    steps: Steps,
    /// For each rank: whether it goes on or waits here. Then, for each rank: whether one of its puts arrives here, or
    /// it has none.
    fair: Vec<bool>,
}

/// Returns whether a schedule that stays in the component can be weakly fair.
///
/// The component consists of representatives. The states that they represent form several components, which
/// permutations map to each other. In the component of the first representative itself, each rank has its own place in
/// each state. A schedule can reach each state of that component from every other state. So it can be fair if each rank
/// is treated fairly in one of its places.
fn judge(graph: &mut Graph<'_>, members: &[StateId]) -> Result<Option<Livelock>, Failure> {
    let ranks = graph.walker.space.parts.ranks;
    let known: HashSet<StateId, FxBuildHasher> = members.iter().copied().collect();
    let mut inside: HashMap<StateId, Member, FxBuildHasher> = HashMap::default();
    let mut acquiring = Vec::new();
    for &id in members {
        let steps = graph.steps(id)?;
        // A rank that looks for failures again and again learns of each of them.
        if steps.iter().any(|step| matches!(step.choice, Choice::Notice { .. })) {
            return Ok(None);
        }
        let steps: Steps = steps.into_iter().filter(|step| known.contains(&step.to)).collect();
        graph.load(id);
        let mut fair = vec![false; 2 * ranks];
        for rank in 0..ranks {
            let call = graph.walker.node(&graph.state, rank).issued.map(|issued| issued.call);
            let may_wait = matches!(
                call,
                None | Some(Call::WaitUntil { .. } | Call::Finish { .. } | Call::Flush { .. } | Call::FenceEverywhere)
            );
            let is_down = graph.state.memory.deaths.is_down(rank);
            fair[rank] = is_down || may_wait && !graph.walker.ready(&graph.state, rank);
            fair[ranks + rank] = is_down || graph.state.memory.posts[rank].is_empty();
        }
        for step in &steps {
            fair[place_of(ranks, step.choice)] = true;
        }
        if acquiring.is_empty() {
            acquiring = (0..ranks)
                .filter(|&rank| !graph.state.memory.deaths.is_down(rank))
                .filter(|&rank| graph.walker.node(&graph.state, rank).status.phase == Phase::Acquiring)
                .map(|rank| Rank(rank as u32))
                .collect();
        }
        inside.insert(id, Member { steps, fair });
    }
    let begin = members[0];
    if !(0..ranks).all(|rank| [0, ranks].iter().all(|kind| is_treated_fairly(&inside, begin, rank, *kind))) {
        return Ok(None);
    }
    let start = (begin, Permutation::IDENTITY);
    let mut cycle = Vec::new();
    let mut at = start;
    for goal in 0..2 * ranks {
        let (kind, rank) = (goal / ranks * ranks, goal % ranks);
        let here = |place: Place| kind + place.1.inverse().rank(rank);
        at = walk(&inside, at, &|place| inside[&place.0].fair[here(place)], &mut cycle);
        // A step rather than a wait, if there is one.
        let step = inside[&at.0].steps.iter().find(|step| place_of(ranks, step.choice) == here(at));
        if let Some(step) = step {
            cycle.push(at.1.choice(step.choice));
            at = (step.to, at.1.after(&step.back));
        }
    }
    if cycle.is_empty()
        && let Some(step) = inside[&begin].steps.first()
    {
        cycle.push(step.choice);
        at = (step.to, step.back);
    }
    walk(&inside, at, &|place| place == start, &mut cycle);
    Ok(Some(Livelock { state: begin, cycle, acquiring }))
}

/// The index of a choice in [`Member::fair`].
fn place_of(ranks: usize, choice: Choice) -> usize {
    match choice {
        // No deadline passes in a component, since no clock goes back. No rank fails, comes back or learns of a
        // failure, and no time passes.
        Choice::Step(rank) | Choice::Deadline(rank) | Choice::Lapse(rank) => rank.index(),
        Choice::Crash(rank) | Choice::CrashAmid(rank) | Choice::Restart(rank) => rank.index(),
        Choice::Notice { rank, .. } => rank.index(),
        Choice::Arrive { from, .. } => ranks + from.index(),
    }
}

/// Returns whether a rank of `begin` is treated fairly somewhere, in one of the places that it has in the members.
fn is_treated_fairly(
    inside: &HashMap<StateId, Member, FxBuildHasher>,
    begin: StateId,
    rank: usize,
    kind: usize,
) -> bool {
    let mut seen: HashSet<(StateId, usize), FxBuildHasher> = HashSet::default();
    let mut open = vec![(begin, rank)];
    while let Some((id, rank)) = open.pop() {
        if !seen.insert((id, rank)) {
            continue;
        }
        let Member { steps, fair } = &inside[&id];
        if fair[kind + rank] {
            return true;
        }
        open.extend(steps.iter().map(|step| (step.to, step.back.inverse().rank(rank))));
    }
    false
}

/// Appends to `cycle` a shortest path from `from` to a wanted state, and returns that state.
fn walk(
    inside: &HashMap<StateId, Member, FxBuildHasher>,
    from: Place,
    is_wanted: &dyn Fn(Place) -> bool,
    cycle: &mut Vec<Choice>,
) -> Place {
    let mut came: HashMap<Place, (Place, Choice), FxBuildHasher> = HashMap::default();
    let mut open = VecDeque::from([from]);
    let mut to = from;
    while let Some(place) = open.pop_front() {
        if is_wanted(place) {
            to = place;
            break;
        }
        let (id, by) = place;
        for step in &inside[&id].steps {
            let next = (step.to, by.after(&step.back));
            if next != from && !came.contains_key(&next) {
                came.insert(next, (place, by.choice(step.choice)));
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
    to
}
