//! Ranks as automata, learned from their code.
//!
//! A local state is a node. It stands for the histories of answers after which the rank is in that state, and has the
//! rank's next call. The explorer asks for `next(node, answer)`. An unknown edge runs the code once (`runs`), and later
//! uses are table look-ups: the search itself never runs the lock's code.
//!
//! # Equivalent histories
//! - [`Forget::Unused`]: two histories are one node if the code goes on alike after them (`experiments`). All other
//!   rules are for programs, for searches without merging, and for locks that this rule does not suit.
//! - At a boundary, the code is between two calls of acquire and release. Of the past, only the position in the
//!   scenario and the lock's handle are left. Two histories with the same position and the same handle, as `Debug`
//!   shows it, are one node. So the history of a node is the sequence of answers since its phase began.
//! - A polling loop pauses in each round. After a pause, a node keeps none of the answers since the phase began
//!   ([`Forget::Phase`]), or all of them ([`Forget::Nothing`]). Under [`Forget::Rounds`], it keeps the answers up to
//!   the first pause and the last rounds since then. With the last rule, the search can explore only loops that end by
//!   themselves.
//!
//! A rank that has failed and comes back has no handle. Its next steps are a function of its position in the scenario.
//! So all its failures at one position lead to one node, without a run of the code for each.
//!
//! All rules assume something of the code, for example that a loop remembers nothing of past rounds. The search tests
//! the assumptions. A node keeps several different histories that lead to it, its witnesses, and runs each edge up to
//! the next boundary from all of them. The code runs each loop [`ROUNDS`] times, and each way out of a loop after
//! [`PUMPS`] rounds. If two runs differ, the search starts again with more experiments or with the next stricter rule.
//! If the strictest rule fails, the search ends with an error. A difference that no witness shows stays hidden.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use rmalab_atomics::controlled::Call;
use rmalab_atomics::{Address, Rank};
use rustc_hash::FxBuildHasher;

use super::experiments::Experiments;
use super::node::{Edge, Failure, Node, NodeId};
use super::permutation::{Permutation, holds};
use super::runs::{RESTARTS, Run, Runs};
use crate::check::Check;
use crate::live::Slots;
use crate::network::Issued;
use crate::outcome::{CLOCK, DEADLINE};
use crate::play::Event;
use crate::status::Status;
use crate::subject::Holds;

/// The number of histories of a node that are kept as witnesses.
pub(super) const WITNESSES: usize = 16;

/// The number of rounds for the test that a loop does not count its rounds.
pub(super) const ROUNDS: usize = 300;

/// The numbers of additional rounds after which a loop's ways out are tested.
const PUMPS: [usize; 7] = [1, 2, 3, 5, 8, 20, 150];

/// The number of other loops of a node with which a loop takes turns in the tests.
const LOOPS: usize = 4;

/// The number of histories of a node that are kept as witnesses of additional rounds.
pub(super) const WITNESSES_OF_ROUNDS: usize = 32;

/// The number of witnesses for a node in a polling loop. Each of them came to the node by another answer. So one of
/// them shows the loop's memory from before its first pause, for example a ticket.
const WITNESSES_OF_POLLS: usize = 64;

/// The largest number of witnesses, not counting witnesses of rounds, so that a byte can number all. Each different
/// prefix is kept up to this number, and one more makes the search stricter.
const MOST_WITNESSES: usize = u8::MAX as usize - WITNESSES_OF_ROUNDS;

/// The answers that a node after a pause forgets; see the module's text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Forget {
    /// All answers that the code does not use any more, as far as experiments show.
    Unused,
    /// All answers since the phase began.
    Phase,
    /// The rounds since the first pause, but for the last ones. Of equal rounds in a row, and of such rows, it keeps up
    /// to this number.
    Rounds(u16),
    /// Nothing.
    Nothing,
}

impl Forget {
    /// The next stricter rule.
    pub(super) fn stricter(self) -> Option<Forget> {
        match self {
            Forget::Unused => Some(Forget::Phase),
            Forget::Phase => Some(Forget::Rounds(0)),
            Forget::Rounds(0) => Some(Forget::Rounds(1)),
            Forget::Rounds(kept @ ..MOST_ROUNDS) => Some(Forget::Rounds(2 * kept)),
            Forget::Rounds(_) => Some(Forget::Nothing),
            Forget::Nothing => None,
        }
    }
}

/// The largest number of rounds that a node keeps.
const MOST_ROUNDS: u16 = 256;

/// The rounds that a node keeps: the number of a round, and how often it came in a row.
type Rounds = Vec<(u32, u16)>;

/// The identity of a node: two histories with equal keys are one node.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Boundary {
        rank: Rank,
        status: Status,
        handle: u32,
        issued: Option<Issued>,
    },
    Behaviour {
        rank: Rank,
        status: Status,
        issued: Option<Issued>,
        begins: bool,
        polls: bool,
        row: u32,
        kept: u64,
        broken: Option<String>,
    },
    Poll {
        start: NodeId,
        rounds: Rounds,
        status: Status,
        issued: Option<Issued>,
    },
}

/// One history of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    /// The parent, and the number of the parent's history; none for a rank's first node.
    pub(super) from: Option<(NodeId, u32)>,
    pub(super) answer: u64,
    /// The run of the code along it.
    pub(super) run: Run,
    /// True if it goes around a loop more often than the parent's history, so that it does not continue that history.
    pub(super) whole: bool,
    /// True if it goes around a loop more often than the first history.
    pub(super) pumped: bool,
    /// A hash of its answers from the start of the phase to the first pause; for [`Forget::Unused`], of its calls.
    pub(super) prefix: u64,
}

impl History {
    /// The history of a rank's first node.
    const fn begin(run: Run) -> History {
        History { from: None, answer: 0, run, whole: false, pumped: false, prefix: 0 }
    }
}

/// The data that only learning needs.
#[derive(Debug)]
pub(super) struct Roots {
    /// Histories from the beginning, the first found first.
    pub(super) ways: Vec<History>,
    /// The node from which its phase counts polls.
    anchor: Option<NodeId>,
    /// The node at which its phase began.
    pub(super) start: NodeId,
    /// True if its call is the first one after a pause.
    pub(super) paused: bool,
    /// The rounds since the anchor that it keeps.
    rounds: Rounds,
    /// The loops from it and back.
    pub(super) loops: Vec<Vec<(Call, u64)>>,
    pub(super) edges: Vec<Edge>,
    /// The runs along its first history and each edge.
    pub(super) moves: Vec<Run>,
    /// The number of its row, if it has one.
    pub(super) row: u32,
}

/// The learned automata, and the means to learn more.
pub(super) struct Learner {
    pub(super) check: Arc<Check>,
    forget: Forget,
    pub(super) experiments: Experiments,
    pub(super) runs: Runs,
    /// The number of runs of the code before this search.
    pub(super) runs_before: u64,
    pub(super) slots: Slots,
    pub(super) nodes: Vec<Arc<Node>>,
    /// The moves of ranks that fail and come back, by the rank and its status before the failure. The rank's handle is
    /// gone, so nothing else counts.
    returns: HashMap<(Rank, Status), Edge, FxBuildHasher>,
    /// Every edge, in the order of learning.
    pub(super) log: Vec<(NodeId, Edge)>,
    pub(super) roots: Vec<Roots>,
    keys: HashMap<Key, NodeId, FxBuildHasher>,
    /// The numbers of rows.
    pub(super) rows: HashMap<Vec<u32>, u32, FxBuildHasher>,
    /// The numbers of rounds.
    numbers: HashMap<Vec<(Call, u64)>, u32, FxBuildHasher>,
    /// The number of edges that have been tested for symmetry.
    pub(super) tested: usize,
    pub(super) starts: Vec<NodeId>,
    /// For each node, the first of the nodes that permutations of ranks make of it, or one that leads there.
    pub(super) orbits: Vec<NodeId>,
    /// The number of nodes whose orbits are known.
    pub(super) ordered: usize,
    /// The images of nodes under permutations.
    pub(super) permuted: HashMap<(NodeId, Permutation), NodeId, FxBuildHasher>,
    /// True if some rank's code has a loop, so that schedules need not end.
    has_loops: bool,
    /// True if the code makes other calls at another time.
    acts_on_clock: bool,
}

impl Learner {
    pub(super) fn new(
        check: &Arc<Check>,
        forget: Forget,
        experiments: Experiments,
        runs: Runs,
    ) -> Result<Learner, Failure> {
        let mut learner = Learner {
            check: Arc::clone(check),
            forget,
            experiments,
            runs_before: runs.count,
            runs,
            slots: Slots::default(),
            nodes: Vec::new(),
            returns: HashMap::default(),
            log: Vec::new(),
            roots: Vec::new(),
            keys: HashMap::default(),
            rows: HashMap::default(),
            numbers: HashMap::default(),
            tested: 0,
            starts: Vec::new(),
            orbits: Vec::new(),
            ordered: 0,
            permuted: HashMap::default(),
            has_loops: false,
            acts_on_clock: false,
        };
        for rank in (0..check.active()).map(Rank) {
            let mut status = Status::of(&check.scenario, rank);
            for &event in &learner.runs.stop(rank.0).events {
                status.record(event);
            }
            let start = learner.add(rank, status, None, History::begin(rank.0))?;
            learner.starts.push(start);
        }
        Ok(learner)
    }

    pub(super) fn forgets_unused(&self) -> bool {
        self.forget == Forget::Unused
    }

    /// The calls and answers of history number `way` of `node`.
    fn path(&self, node: NodeId, way: u32) -> Vec<(Call, u64)> {
        self.runs.path(self.run(node, way))
    }

    /// The run along history number `way` of `node`.
    pub(super) fn run(&self, node: NodeId, way: u32) -> Run {
        self.roots[node as usize].ways[way as usize].run
    }

    /// Returns the edge from `node` by `answer`.
    pub(super) fn learn(&mut self, node: NodeId, answer: u64) -> Result<Edge, Failure> {
        if let Some(edge) = self.known(node, answer) {
            return Ok(edge);
        }
        let way = self.way(node, 0, answer)?;
        if self.runs.seen.clock && !self.acts_on_clock {
            self.acts_on_clock = self.runs.acts_on_clock(way.run)?;
        }
        let ways = self.roots[node as usize].ways.len() as u32;
        let mut others = Vec::new();
        for number in 1..ways {
            let other = self.way(node, number, answer)?;
            if !self.alike(other.run, way.run)? {
                return Err(self.differ_by(node, number, answer));
            }
            others.push(other);
        }
        let Node { rank, mut status, .. } = *self.nodes[node as usize].as_ref();
        status.answered();
        let before = self.nodes.len();
        let edge = self.edge(rank, status, answer, way)?;
        let to = edge.to;
        let stop = Arc::clone(self.runs.stop(way.run));
        let roots = &mut self.roots[node as usize];
        roots.edges.push(edge);
        roots.moves.push(way.run);
        self.log.push((node, edge));
        if self.forgets_unused() {
            // A new node already has its first history.
            let known = (self.nodes.len() == before).then_some(way);
            for way in known.into_iter().chain(others) {
                self.witness_uses(to, way)?;
            }
            return Ok(edge);
        }
        for way in others {
            self.witness(to, way)?;
        }
        // A further acquisition is no round of a loop: its histories are witnesses like all others.
        if !stop.is_boundary()
            && let Some(round) = self.round(node, to)
        {
            self.go_round(node, answer, round)?;
            self.pump(node, answer, to, round)?;
        }
        Ok(edge)
    }

    /// The edge by the last move of `way`, from a node of `rank` with this status.
    fn edge(&mut self, rank: Rank, mut status: Status, answer: u64, way: History) -> Result<Edge, Failure> {
        let mut saw = None;
        let stop = Arc::clone(self.runs.stop(way.run));
        for &event in &stop.events {
            status.record(event);
            if let Event::Saw { target, writes } = event {
                saw = Some((target, writes));
            }
        }
        let handle = if stop.is_boundary() { Some(self.runs.handle(way.run)?) } else { None };
        let to = self.add(rank, status, handle, way)?;
        let gave_up = stop.events.iter().any(|event| matches!(event, Event::GaveUp { .. }));
        let has = |event| stop.events.contains(&event);
        let (enters, told, idle) = (has(Event::Entered), has(Event::Told), has(Event::Idle));
        Ok(Edge { answer, to, saw, enters, gave_up, told, idle })
    }

    /// The edge by which the rank of `node` fails there and comes back.
    pub(super) fn restart(&mut self, node: NodeId) -> Result<Edge, Failure> {
        let Node { rank, status, .. } = *self.nodes[node as usize].as_ref();
        let key = (rank, status.failed());
        if let Some(&edge) = self.returns.get(&key) {
            return Ok(edge);
        }
        let way = self.way(node, 0, RESTARTS)?;
        let before = self.nodes.len();
        let edge = self.edge(rank, status.failed(), RESTARTS, way)?;
        if self.forgets_unused() && self.nodes.len() == before {
            self.witness_uses(edge.to, way)?;
        }
        self.returns.insert(key, edge);
        Ok(edge)
    }

    /// The edge of `node` by `answer`, if it is known.
    pub(super) fn known(&self, node: NodeId, answer: u64) -> Option<Edge> {
        if answer == RESTARTS {
            let Node { rank, status, .. } = *self.nodes[node as usize].as_ref();
            return self.returns.get(&(rank, status.failed())).copied();
        }
        self.roots[node as usize].edges.iter().find(|edge| edge.answer == answer).copied()
    }

    /// The number of answers of a round, if the edge closes a loop.
    fn round(&self, node: NodeId, to: NodeId) -> Option<usize> {
        let mut at = node;
        let mut steps = 1;
        while at != to {
            at = self.origin(at, 0)?.0;
            steps += 1;
        }
        Some(steps)
    }

    /// Runs the code through the loop [`ROUNDS`] times, and compares the rounds.
    fn go_round(&mut self, node: NodeId, answer: u64, round: usize) -> Result<(), Failure> {
        let way = self.way(node, 0, answer)?;
        let one = self.runs.path(way.run).split_off(self.path(node, 0).len() + 1 - round);
        if self.runs.leaves(way.run, &one.repeat(ROUNDS - 1))?.is_some() {
            return Err(self.differ(node, answer));
        }
        Ok(())
    }

    /// Returns whether the code fences everywhere.
    pub(super) fn fences(&self) -> bool {
        self.runs.seen.fences
    }

    /// Returns whether some rank's code has a loop, so that schedules need not end.
    pub(super) fn has_loops(&self) -> bool {
        if self.forget != Forget::Unused {
            return self.has_loops || self.check.scenario.is_endless();
        }
        // Nodes without an edge that leads to them are taken away until none is left (A. Kahn, 1962).
        let mut edges_to = vec![0_usize; self.nodes.len()];
        for (_, edge) in &self.log {
            edges_to[edge.to as usize] += 1;
        }
        let mut open: Vec<usize> = (0..self.nodes.len()).filter(|&node| edges_to[node] == 0).collect();
        let mut taken = 0;
        while let Some(node) = open.pop() {
            taken += 1;
            for edge in &self.roots[node].edges {
                edges_to[edge.to as usize] -= 1;
                if edges_to[edge.to as usize] == 0 {
                    open.push(edge.to as usize);
                }
            }
        }
        taken < self.nodes.len()
    }

    /// Behaviours of the code that a search does not explore.
    pub(super) fn unexplored(&self) -> Vec<&'static str> {
        let deadline = self.runs.seen.deadline;
        [(self.acts_on_clock, CLOCK), (deadline, DEADLINE)]
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, what)| what)
            .collect()
    }

    /// History number `way` of `node`, continued by `answer`.
    pub(super) fn way(&mut self, node: NodeId, way: u32, answer: u64) -> Result<History, Failure> {
        let roots = &self.roots[node as usize];
        let History { run, pumped, prefix, .. } = roots.ways[way as usize];
        let prefix = match roots.anchor {
            _ if self.forgets_unused() => {
                let at = self.nodes[node as usize].as_ref();
                let call = at.issued.map(|issued| issued.call);
                let of = call.map(|call| (std::mem::discriminant(&call), call.address(at.rank).map(|at| at.disp)));
                FxBuildHasher.hash_one((prefix, of))
            }
            Some(_) => prefix,
            None if roots.start == node => FxBuildHasher.hash_one(answer),
            None => FxBuildHasher.hash_one((prefix, answer)),
        };
        let run = self.runs.answered(run, answer)?;
        Ok(History { from: Some((node, way)), answer, run, whole: false, pumped, prefix })
    }

    /// Adds witnesses that have gone several times around the loop from `to` to `node` and back by `answer`. Further
    /// witnesses go around this loop and each known loop of `to` in turn.
    fn pump(&mut self, node: NodeId, answer: u64, to: NodeId, round: usize) -> Result<(), Failure> {
        let way = self.way(node, 0, answer)?;
        let one = self.runs.path(way.run).split_off(self.path(node, 0).len() + 1 - round);
        let before = self.runs.before(way.run, round);
        let others = self.roots[to as usize].loops.clone();
        let sequences = pumped(&one, &others);
        self.roots[to as usize].loops.push(one);
        for sequence in sequences {
            let Ok(run) = self.runs.along(before, &sequence)? else { return Err(self.differ(node, answer)) };
            self.witness(to, History { run, whole: true, pumped: true, ..way })?;
        }
        Ok(())
    }

    /// The parent and the answer of history number `way` of `node`. `None` for a rank's first node, and if there is no
    /// such history.
    pub(super) fn origin(&self, node: NodeId, way: usize) -> Option<(NodeId, u64)> {
        let history = self.roots[node as usize].ways.get(way)?;
        history.from.map(|(parent, _)| (parent, history.answer))
    }

    pub(super) fn differ(&self, node: NodeId, answer: u64) -> Failure {
        let Node { rank, issued, .. } = *self.nodes[node as usize].as_ref();
        let call = issued.map_or(String::new(), |issued| issued.call.to_string());
        Failure::Differ(format!(
            "{}: the calls of {rank} after the answer {answer:#x} to {call} depend on more than its phase, its handle's \
             Debug and the answers that a polling loop has to remember, so the explorer cannot distinguish its states; \
             let Debug show everything that the handle remembers",
            self.check.subject.name()
        ))
    }

    /// The node of a stop: an equivalent node, or a new one.
    fn add(&mut self, rank: Rank, status: Status, handle: Option<u32>, way: History) -> Result<NodeId, Failure> {
        let stop = Arc::clone(self.runs.stop(way.run));
        let slots = &mut self.slots;
        let issued = stop.call.map(|call| Issued::new(self.check.network, rank, call, |at: Address| slots.of(at)));
        let parent = way.from.map(|(parent, _)| parent);
        let inherited = parent.map(|parent| &self.roots[parent as usize]);
        let id = self.nodes.len() as NodeId;
        let mut rounds = Rounds::new();
        let polls = handle.is_none() && (inherited.is_some_and(|parent| parent.anchor.is_some()) || stop.paused);
        let mut row = 0;
        let (key, start, anchor) = match (handle, inherited) {
            (handle, Some(parent)) if self.forget == Forget::Unused => {
                let start = if handle.is_some() { id } else { parent.start };
                row = self.row(rank, status, way.run)?;
                let begins = handle.is_some();
                let kept = if begins { 0 } else { self.kept(&way) };
                let broken = stop.broken.as_ref().map(|(_, text)| text.clone());
                let key = Key::Behaviour { rank, status, issued, begins, polls, row, kept, broken };
                (Some(key), start, polls.then_some(start))
            }
            (Some(handle), _) => (Some(Key::Boundary { rank, status, handle, issued }), id, None),
            (None, None) => (None, id, None),
            (None, Some(parent)) if stop.paused && self.forget != Forget::Nothing => {
                let (start, anchor) = (parent.start, parent.anchor);
                let anchor = match (self.forget, anchor) {
                    (Forget::Rounds(kept), Some(anchor)) => {
                        rounds = self.rounds(&way, kept);
                        anchor
                    }
                    (Forget::Rounds(_), None) => id,
                    _ => start,
                };
                (Some(Key::Poll { start: anchor, rounds: rounds.clone(), status, issued }), start, Some(anchor))
            }
            (None, Some(parent)) => (None, parent.start, parent.anchor),
        };
        if let Some(known) = key.as_ref().and_then(|key| self.keys.get(key)).copied() {
            if self.forget == Forget::Unused {
                return Ok(known);
            }
            self.has_loops |= matches!(key, Some(Key::Poll { .. }));
            // A loop's further rounds are tested by `go_round`, so that they leave room for other histories here.
            let (parent, _) = way.from.expect("only a rank's first node has no parent");
            if handle.is_some() || self.round(parent, known).is_none() {
                self.witness(known, way)?;
            }
            return Ok(known);
        }
        let merges = key.is_some();
        if let Some(key) = key {
            self.keys.insert(key, id);
        }
        let before = parent.filter(|_| !merges).map_or(0, |parent| {
            let parent = self.nodes[parent as usize].as_ref();
            let holds = parent.issued.and_then(|issued| holds(&self.check, self.slots.address(issued.slot)));
            let answer = match holds.and_then(Holds::pointer_bits) {
                Some(bits) if way.answer & bits != 0 => u64::MAX,
                _ => way.answer,
            };
            FxBuildHasher.hash_one((parent.class, answer))
        });
        let call = issued.map(|Issued { call, .. }| {
            let place = call.address(rank).map(|at| (at.disp, at.rank == rank));
            (std::mem::discriminant(&call), place)
        });
        let class = FxBuildHasher.hash_one((before, status, call));
        let node = Node { rank, issued, status, polls: anchor.is_some(), class, broken: stop.broken.clone() };
        self.nodes.push(Arc::new(node));
        let (paused, loops) = (stop.paused, Vec::new());
        self.roots.push(Roots {
            ways: vec![way],
            anchor,
            start,
            paused,
            rounds,
            loops,
            edges: Vec::new(),
            moves: Vec::new(),
            row,
        });
        Ok(id)
    }

    /// The rounds that a node keeps. Its first history is `way`, which ends with a pause.
    fn rounds(&mut self, way: &History, kept: u16) -> Rounds {
        let mut round = Vec::new();
        let (mut at, mut answer) = (way.from.expect("only a rank's first node has no parent").0, way.answer);
        loop {
            round.push((self.nodes[at as usize].issued.expect("a node with an edge has a call").call, answer));
            if self.roots[at as usize].paused {
                break;
            }
            (at, answer) = self.origin(at, 0).expect("a phase begins before its first pause");
        }
        round.reverse();
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(round).or_insert(next);
        let mut rounds = self.roots[at as usize].rounds.clone();
        match rounds.last_mut() {
            Some((last, times)) if *last == number => *times = (*times + 1).min(kept),
            _ => rounds.push((number, kept.min(1))),
        }
        let first = rounds.len().saturating_sub(usize::from(kept));
        rounds.split_off(first)
    }

    /// Adds `way` as a history of `node`, and runs the known edges from there along it.
    fn witness(&mut self, node: NodeId, way: History) -> Result<(), Failure> {
        let mut open = vec![(node, way)];
        while let Some((node, way)) = open.pop() {
            let polls = self.nodes[node as usize].polls;
            let roots = &mut self.roots[node as usize];
            let kept = roots.ways.iter().filter(|other| other.pumped == way.pumped);
            let is_like_others = !polls || kept.clone().any(|other| other.answer == way.answer);
            let most = match way.pumped {
                true => WITNESSES_OF_ROUNDS,
                false if is_like_others => WITNESSES,
                false => WITNESSES_OF_POLLS,
            };
            let is_new = polls && !way.pumped && kept.clone().all(|other| other.prefix != way.prefix);
            if is_new && roots.ways.len() >= MOST_WITNESSES {
                // There may be a difference after some prefix that has no witness.
                return Err(self.differ(node, way.answer));
            }
            if !is_new && kept.count() >= most {
                continue;
            }
            let number = roots.ways.len() as u32;
            roots.ways.push(way);
            for edge in self.roots[node as usize].edges.clone() {
                let (first, other) = (self.way(node, 0, edge.answer)?, self.way(node, number, edge.answer)?);
                if !self.alike(first.run, other.run)? {
                    return Err(self.differ(node, edge.answer));
                }
                // Stop at the next boundary: nodes after it have their own histories.
                let within = self.roots[edge.to as usize].start == self.roots[node as usize].start;
                if within && edge.to != node {
                    open.push((edge.to, other));
                }
            }
        }
        Ok(())
    }
}

/// Several rounds of the loop `one`, and rounds of it and of each other loop in turn.
pub(super) fn pumped(one: &[(Call, u64)], others: &[Vec<(Call, u64)>]) -> Vec<Vec<(Call, u64)>> {
    let mut sequences: Vec<Vec<(Call, u64)>> = PUMPS.iter().map(|&times| one.repeat(times)).collect();
    for other in others.iter().take(LOOPS) {
        let both = [one, other].concat();
        sequences.extend([[other, one].concat(), both.repeat(2), both]);
    }
    sequences
}

/// One thread's copy of the learned automata.
#[derive(Default)]
pub(super) struct Automata {
    pub(super) nodes: Vec<Arc<Node>>,
    /// For each node, a number that is equal for nodes that are each other's images.
    pub(super) classes: Vec<u64>,
    edges: Vec<Vec<Edge>>,
    returns: HashMap<(Rank, Status), Edge, FxBuildHasher>,
    log: usize,
}

impl Automata {
    /// The edge, if this copy has it.
    #[inline]
    pub(super) fn edge(&self, node: NodeId, answer: u64) -> Option<Edge> {
        self.edges[node as usize].iter().find(|edge| edge.answer == answer).copied()
    }

    /// The edge by which the rank of `node` fails there and comes back, if this copy has it.
    pub(super) fn restart(&self, node: NodeId) -> Option<Edge> {
        let Node { rank, status, .. } = *self.nodes[node as usize].as_ref();
        self.returns.get(&(rank, status.failed())).copied()
    }

    /// Copies all nodes and edges that are new in `learner`.
    pub(super) fn catch_up(&mut self, learner: &Learner) {
        self.classes.extend((self.nodes.len()..learner.nodes.len()).map(|node| learner.class(node as NodeId)));
        self.nodes.extend_from_slice(&learner.nodes[self.nodes.len()..]);
        self.edges.resize_with(self.nodes.len(), Vec::new);
        for &(node, edge) in &learner.log[self.log..] {
            self.edges[node as usize].push(edge);
        }
        self.log = learner.log.len();
        if self.returns.len() < learner.returns.len() {
            self.returns.clone_from(&learner.returns);
        }
    }
}
