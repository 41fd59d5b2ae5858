//! Local states, identified by the code's further calls, which experiments find.
//!
//! An experiment is a sequence of answers. The code runs along a history, gets these answers, and goes on up to its next
//! call with more than one possible answer. Histories with equal moves in all experiments of their site are one node. So
//! a node forgets each answer that the code does not use any more. When two histories of a node turn out to differ, the
//! answers that show it become an experiment, and the search starts again (D. Angluin, "Learning Regular Sets from
//! Queries and Counterexamples", 1987). The search chooses the experiment by the method of R. Rivest and R. Schapire
//! ("Inference of Finite Automata Using Homing Sequences", 1993).
//!
//! # What is tested
//! The nodes allow all histories that combine their edges, including some that no schedule reaches. Within a phase, each
//! history that enters no node twice is a witness: the code runs all edges and all experiments after it. At a boundary,
//! each text of the handle has a witness, and the first [`WITNESSES_OF_BOUNDARIES`] histories are witnesses in any case.
//! A node with too many witnesses keeps the answers of more calls up to the end of the phase, which leaves fewer
//! histories together ([`Effort`]). Loops are tested by [`ROUNDS`] rounds, and their ways out after several numbers of
//! rounds and after pairs of loops ([`pumped`]).

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::mem::Discriminant;

use rmalab_atomics::controlled::Call;
use rmalab_atomics::{Disp, Rank};
use rustc_hash::FxHasher;

use super::learned::{History, Learner, ROUNDS, WITNESSES_OF_ROUNDS, pumped};
use super::node::{Edge, Failure, Node, NodeId};
use super::runs::Run;
use crate::status::{Phase, Status};

/// The calls for which the same experiments distinguish histories: in one phase, of one kind, to one word of any rank.
pub(super) type Site = (Phase, Option<(Discriminant<Call>, Option<Disp>)>);

/// Calls of one kind to one word of any rank, in acquisitions or in releases.
pub(super) type Answers = (bool, Discriminant<Call>, Option<Disp>);

/// The known facts about the code's use of its answers.
#[derive(Clone, Debug)]
pub(super) struct Experiments {
    /// The experiments of each site.
    of_sites: HashMap<Site, Vec<Vec<u64>>>,
    /// The calls whose answers a node keeps up to the end of the phase, since their nodes had too many histories.
    kept: Vec<Answers>,
    pub(super) effort: Effort,
}

impl Default for Experiments {
    fn default() -> Experiments {
        Experiments { of_sites: HashMap::new(), kept: Vec::new(), effort: Effort::Quick }
    }
}

/// The largest number of experiments of a site.
const MOST: usize = 32;

/// The work that a search may spend on histories.
///
/// Many histories make few states, but each of them has to be tested. So a search first tries it with all of them, up
/// to a number of runs of the code. Then it tries few, up to a number of states, and then all of them again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effort {
    /// All histories, up to [`RUNS`] runs.
    Quick,
    /// Few histories of a node, up to [`STATES`] states.
    Few,
    /// All histories.
    All,
}

impl Effort {
    /// The largest number of histories of a node.
    fn most(self) -> usize {
        match self {
            Effort::Few => 1 << 8,
            Effort::Quick | Effort::All => 1 << 18,
        }
    }
}

/// The number of new runs of the code that [`Effort::Quick`] allows: they take about a second.
const RUNS: u64 = 300_000;

/// The number of states that [`Effort::Few`] allows.
pub(super) const STATES: u64 = 300_000;

/// The largest number of tested loops of a node, not counting the loops of first histories.
const MOST_LOOPS: usize = 32;

/// The largest numbers of histories that a boundary keeps although it knows the handle's text. The second number is for
/// histories with an unknown sequence of calls.
const WITNESSES_OF_BOUNDARIES: [usize; 2] = [16, 48];

/// An experiment of this many answers counts the rounds of a loop: a site that needs one of them needs all.
const LONG: usize = 3;

impl Experiments {
    /// Adds experiments. Returns false if their sites have them already, or too many.
    pub(super) fn add(&mut self, experiments: Vec<(Site, Vec<u64>)>) -> bool {
        let mut is_new = false;
        for (site, experiment) in experiments {
            let known = self.of_sites.entry(site).or_default();
            if !known.contains(&experiment) {
                known.push(experiment);
                is_new = known.len() <= MOST;
            }
        }
        is_new
    }

    /// Keeps the answers of more calls.
    pub(super) fn keep(&mut self, answers: Answers) {
        self.kept.push(answers);
    }

    /// Spends another effort, and keeps no answers yet.
    pub(super) fn spend(&mut self, effort: Effort) {
        self.kept.clear();
        self.effort = effort;
    }
}

impl Learner {
    fn site(&self, rank: Rank, status: Status, call: Option<Call>) -> Site {
        (status.phase, call.map(|call| (std::mem::discriminant(&call), call.address(rank).map(|at| at.disp))))
    }

    fn site_of(&self, node: NodeId) -> Site {
        let Node { rank, status, issued, .. } = *self.nodes[node as usize].as_ref();
        self.site(rank, status, issued.map(|issued| issued.call))
    }

    /// Returns whether the last moves of two runs look the same to other ranks and to the properties.
    pub(super) fn alike(&mut self, one: Run, other: Run) -> Result<bool, Failure> {
        if self.runs.stop_number(one) != self.runs.stop_number(other) {
            return Ok(false);
        }
        // The rules that do not experiment compare what the handle shows.
        let shows = !self.forgets_unused() && self.runs.stop(one).is_boundary();
        Ok(!shows || self.runs.handle(one)? == self.runs.handle(other)?)
    }

    fn all_alike(&self, one: &[Run], other: &[Run]) -> bool {
        let number = |&run: &Run| self.runs.stop_number(run);
        one.iter().map(number).eq(other.iter().map(number))
    }

    fn call(&self, node: NodeId) -> Call {
        self.nodes[node as usize].issued.expect("a node with an edge has a call").call
    }

    /// A number that is equal for runs with equal moves in all experiments of their site.
    pub(super) fn row(&mut self, rank: Rank, status: Status, run: Run) -> Result<u32, Failure> {
        let site = self.site(rank, status, self.runs.stop(run).call);
        let mut moves = Vec::new();
        let experiments = self.experiments.of_sites.get(&site).map_or([].as_slice(), Vec::as_slice);
        // The last experiments are the longest. Their runs begin with the runs of the others.
        for answers in experiments.iter().rev().map(Vec::as_slice).chain([[].as_slice()]) {
            let all = self.runs.observe(run, answers)?;
            moves.push(all.len() as u32);
            moves.extend(all.iter().map(|&run| self.runs.stop_number(run)));
        }
        let next = self.rows.len() as u32;
        Ok(*self.rows.entry(moves).or_insert(next))
    }

    /// Runs the code from `run` along `edge` and each experiment after it, so that no run is a part of a later one.
    fn run_ahead(&mut self, run: Run, edge: Edge) -> Result<(), Failure> {
        let site = self.site_of(edge.to);
        for answers in self.experiments.of_sites.get(&site).into_iter().flatten().rev() {
            self.runs.observe(run, &[&[edge.answer], answers.as_slice()].concat())?;
        }
        Ok(())
    }

    /// The answers of `way` since its phase began, up to its first pause.
    fn answers(&self, way: &History) -> Vec<(Answers, u64)> {
        let mut answers = Vec::new();
        let mut way = way;
        while let Some((node, number)) = way.from {
            let roots = &self.roots[node as usize];
            let Node { rank, status, .. } = *self.nodes[node as usize].as_ref();
            if roots.paused {
                answers.clear();
            }
            let call = self.call(node);
            let releases = matches!(status.phase, Phase::Inside | Phase::Releasing);
            let disp = call.address(rank).map(|at| at.disp);
            answers.push(((releases, std::mem::discriminant(&call), disp), way.answer));
            if roots.start == node {
                break;
            }
            way = &roots.ways[number as usize];
        }
        answers
    }

    /// A number that is equal for histories with the same kept answers.
    pub(super) fn kept(&self, way: &History) -> u64 {
        if self.experiments.kept.is_empty() {
            return 0;
        }
        let mut hasher = FxHasher::default();
        let mut answers = self.answers(way);
        answers.retain(|(call, _)| self.experiments.kept.contains(call));
        answers.hash(&mut hasher);
        hasher.finish()
    }

    /// The failure that `node` has too many histories, so that it has to keep the answers of more calls. These are the
    /// calls that leave the fewest histories together.
    fn keep_more(&self, node: NodeId) -> Failure {
        let ways = &self.roots[node as usize].ways;
        let all: Vec<Vec<(Answers, u64)>> =
            ways.iter().filter(|way| !way.pumped).map(|way| self.answers(way)).collect();
        let mut calls: Vec<Answers> = Vec::new();
        for (call, _) in all.iter().flatten() {
            if !self.experiments.kept.contains(call) && !calls.contains(call) {
                calls.push(*call);
            }
        }
        let together = |call: &Answers| {
            let mut groups: HashMap<Vec<u64>, usize> = HashMap::new();
            for way in &all {
                let answers = way.iter().filter(|(of, _)| of == call).map(|&(_, answer)| answer).collect();
                *groups.entry(answers).or_default() += 1;
            }
            groups.values().copied().max().unwrap_or(0)
        };
        let best = calls.into_iter().map(|call| (together(&call), call)).min_by_key(|(together, _)| *together);
        match best {
            Some((together, call)) if together < all.len() => Failure::Keeps(call),
            _ => self.differ(node, 0),
        }
    }

    /// The failure that `answer` leads history number `way` of `node` to other moves than the node's first history.
    pub(super) fn differ_by(&mut self, node: NodeId, way: u32, answer: u64) -> Failure {
        if self.forgets_unused() {
            self.refine(node, self.run(node, way), &[answer]).unwrap_or_else(|failure| failure)
        } else {
            self.differ(node, answer)
        }
    }

    /// The experiment that distinguishes histories, given that `answers` after `run`, which leads to `node`, show other
    /// moves than after the node's first history.
    fn refine(&mut self, node: NodeId, run: Run, answers: &[u64]) -> Result<Failure, Failure> {
        let rank = self.nodes[node as usize].rank;
        let path = self.runs.path(run);
        let mut nodes = vec![self.starts[rank.index()]];
        for &(_, answer) in &path {
            let last = nodes[nodes.len() - 1];
            let Some(edge) = self.known(last, answer) else { return Ok(self.differ(node, answer)) };
            nodes.push(edge.to);
        }
        let all: Vec<u64> = path.iter().map(|&(_, answer)| answer).chain(answers.iter().copied()).collect();
        let mut after: Option<Vec<Run>> = None;
        for from in (0..=path.len()).rev() {
            let mut moves = self.runs.observe(self.run(nodes[from], 0), &all[from..])?;
            let moves = moves.split_off(moves.len().min(path.len() - from));
            if let Some(after) = &after
                && !self.all_alike(after, &moves)
            {
                let site = self.site_of(nodes[from + 1]);
                // A loop that counts its rounds needs an experiment for each round.
                let same = (from + 1..nodes.len()).filter(|&at| self.site_of(nodes[at]) == site);
                return Ok(Failure::Uses(same.map(|at| (site, all[at..].to_vec())).collect()));
            }
            after = Some(moves);
        }
        Ok(self.differ(node, answers.first().copied().unwrap_or(0)))
    }

    /// The number of answers of a round, if `way` comes to `to` again within its phase.
    fn closes(&self, way: &History, to: NodeId) -> Option<usize> {
        let (mut at, mut number) = way.from?;
        let mut steps = 1;
        while at != to {
            let roots = &self.roots[at as usize];
            let history = &roots.ways[number as usize];
            if history.whole || roots.start == at {
                return None;
            }
            (at, number) = history.from?;
            steps += 1;
        }
        Some(steps)
    }

    /// Adds `way` as a history of `node`, and all that follow from it by known edges, and tests them.
    pub(super) fn witness_uses(&mut self, node: NodeId, way: History) -> Result<(), Failure> {
        let mut open = vec![(node, way)];
        while let Some((node, way)) = open.pop() {
            let (rank, status) = (self.nodes[node as usize].rank, self.nodes[node as usize].status);
            if !way.whole
                && let Some(round) = self.closes(&way, node)
            {
                let is_new = self.go_rounds(node, &way, round, &mut open)?;
                if is_new && self.row(rank, status, way.run)? != self.roots[node as usize].row {
                    return Err(self.tell_apart(node, way.run)?);
                }
                continue;
            }
            let roots = &self.roots[node as usize];
            // Histories around its own loops are always tested.
            let of_rounds = || roots.ways.iter().filter(|way| way.pumped && !way.whole).count();
            if way.pumped && !way.whole && of_rounds() >= WITNESSES_OF_ROUNDS {
                continue;
            }
            if roots.start == node && self.has_handle_of(node, &way)? {
                let roots = &self.roots[node as usize];
                let is_new = roots.ways.iter().all(|other| other.prefix != way.prefix);
                let [most, most_new] = WITNESSES_OF_BOUNDARIES;
                if roots.ways.len() >= if is_new { most_new } else { most } {
                    continue;
                }
            }
            if self.row(rank, status, way.run)? != self.roots[node as usize].row {
                return Err(self.tell_apart(node, way.run)?);
            }
            let number = self.roots[node as usize].ways.len();
            if number >= self.experiments.effort.most() {
                return Err(self.keep_more(node));
            }
            if self.experiments.effort == Effort::Quick && self.runs.count - self.runs_before > RUNS {
                return Err(Failure::Slow);
            }
            self.roots[node as usize].ways.push(way);
            for i in 0..self.roots[node as usize].edges.len() {
                let edge = self.roots[node as usize].edges[i];
                self.run_ahead(way.run, edge)?;
                let next = self.way(node, number as u32, edge.answer)?;
                if !self.alike(next.run, self.roots[node as usize].moves[i])? {
                    return Err(self.refine(node, way.run, &[edge.answer])?);
                }
                open.push((edge.to, next));
            }
        }
        Ok(())
    }

    /// Returns whether a history of `node`, where a phase begins, has the handle's text of `way`.
    fn has_handle_of(&mut self, node: NodeId, way: &History) -> Result<bool, Failure> {
        let handle = self.runs.handle(way.run)?;
        for i in 0..self.roots[node as usize].ways.len() {
            if self.runs.handle(self.roots[node as usize].ways[i].run)? == handle {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The failure that `run` and the first history of `node` have different rows.
    fn tell_apart(&mut self, node: NodeId, run: Run) -> Result<Failure, Failure> {
        let first = self.run(node, 0);
        let mut known = vec![Vec::new()];
        known.extend(self.experiments.of_sites.get(&self.site_of(node)).into_iter().flatten().cloned());
        for answers in &known {
            let (one, other) = (self.runs.observe(run, answers)?, self.runs.observe(first, answers)?);
            if self.all_alike(&one, &other) {
                continue;
            }
            let mut failure = self.refine(node, run, answers)?;
            if let Failure::Uses(all) = &mut failure
                && let [(site, only)] = all.as_slice()
                && let Some(before) = only.strip_suffix(answers.as_slice())
                && answers.len() >= LONG
            {
                let (site, before) = (*site, before.to_vec());
                let long = known.iter().filter(|other| other.len() >= LONG);
                all.extend(long.map(|other| (site, [before.as_slice(), other].concat())));
            }
            return Ok(failure);
        }
        Ok(self.differ(node, 0))
    }

    /// Runs the code through the last `round` answers of `way` again and again, and adds the resulting histories.
    fn go_rounds(
        &mut self,
        node: NodeId,
        way: &History,
        round: usize,
        open: &mut Vec<(NodeId, History)>,
    ) -> Result<bool, Failure> {
        let before = self.runs.before(way.run, round);
        let path = self.runs.path(way.run);
        let one = &path[path.len() - round..];
        let loops = &mut self.roots[node as usize].loops;
        // The loops of first histories are always tested.
        let is_first = way.from.is_some_and(|(_, number)| number == 0);
        if loops.len() >= MOST_LOOPS && !is_first || loops.iter().any(|other| other == one) {
            return Ok(false);
        }
        let sequences = pumped(one, loops);
        loops.push(one.to_vec());
        let rounds = one.repeat(ROUNDS);
        if let Some(at) = self.runs.leaves(before, &rounds)? {
            return Err(self.left(node, before, &rounds, at)?);
        }
        for sequence in sequences {
            match self.runs.along(before, &sequence)? {
                // The code must begin the next round, too.
                Ok(run) if self.runs.stop(run).call == Some(one[0].0) => {
                    open.push((node, History { run, whole: true, pumped: true, ..*way }));
                }
                Ok(_) => return Err(self.left(node, before, &sequence, sequence.len())?),
                Err(at) => return Err(self.left(node, before, &sequence, at)?),
            }
        }
        Ok(true)
    }

    /// The failure that the code does not make call number `at` of `path` after `before`: the answer before that call
    /// shows the difference.
    fn left(&mut self, node: NodeId, before: Run, path: &[(Call, u64)], at: usize) -> Result<Failure, Failure> {
        let Some(last) = at.checked_sub(1) else { return Ok(self.differ(node, 0)) };
        match self.runs.along(before, &path[..last])? {
            Ok(run) => self.refine(node, run, &[path[last].1]),
            Err(_) => Ok(self.differ(node, 0)),
        }
    }
}
