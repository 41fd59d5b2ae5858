//! Local states as what the code does next, found by experiments.
//!
//! An experiment is a sequence of answers. The code runs along a history, gets these answers, and goes on up to its next
//! call that tells it something. Histories with equal moves in all experiments of their site are one node. So a node
//! forgets each answer that the code does not use any more. When two histories of a node turn out to differ, the answers
//! that show it become an experiment, and the search starts again (D. Angluin, "Learning Regular Sets from Queries and
//! Counterexamples", 1987). The experiment is chosen as by R. Rivest and R. Schapire ("Inference of Finite Automata Using
//! Homing Sequences", 1993).
//!
//! # What is tested
//! The nodes allow all histories that combine their edges, also some that no schedule reaches. Within a phase, each of
//! them that enters no node twice is a witness: the code runs all edges and all experiments after it. At a boundary, each
//! text of the handle has a witness, and the first [`WITNESSES_OF_BOUNDARIES`] histories are witnesses in any case. A node with too many witnesses keeps
//! the answers of more calls up to the end of the phase, which leaves fewer histories together ([`Effort`]). Loops are
//! tested by [`ROUNDS`] rounds, and their ways out after [`PUMPS`] rounds and after pairs of loops.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::Discriminant;

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::{Disp, Rank};

use super::learned::{History, LOOPS, Learner, PUMPS, ROUNDS, Stop, WITNESSES_OF_ROUNDS, answer_to};
use super::node::{Failure, Node, NodeId};
use crate::Result;
use crate::actor::Actor;
use crate::play::Event;
use crate::status::{Phase, Status};

/// The calls for which the same experiments tell histories apart: in one phase, of one kind, to one word of any rank.
pub(super) type Site = (Phase, Option<(Discriminant<Call>, Option<Disp>)>);

/// Calls of one kind to one word of any rank, in acquisitions or in releases.
pub(super) type Answers = (bool, Discriminant<Call>, Option<Disp>);

/// What is known about the code's use of its answers.
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
            Effort::Quick | Effort::All => 1 << 15,
        }
    }
}

/// The number of runs of the code that [`Effort::Quick`] allows: they take about a second.
const RUNS: u64 = 100_000;

/// The number of states that [`Effort::Few`] allows.
pub(super) const STATES: u64 = 300_000;

/// The largest number of tested loops of a node, apart from those of first histories.
const MOST_LOOPS: usize = 32;

/// The number of histories at a boundary that are kept although the handle's text is known there; and of those whose
/// sequence of calls is not known there.
const WITNESSES_OF_BOUNDARIES: [usize; 2] = [16, 48];

/// The number of moves without an answer after an experiment.
const WORDLESS: usize = 16;

/// An experiment of this many answers counts the rounds of a loop: whoever needs one of them needs all.
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

    /// Returns whether two moves are one to other ranks and to the properties. The handle's text is not compared.
    pub(super) fn alike(&self, one: &Stop, other: &Stop) -> bool {
        if self.forgets_unused() {
            (one.paused, one.call, &one.broken) == (other.paused, other.call, &other.broken)
                && one.events.iter().map(|(event, _)| event).eq(other.events.iter().map(|(event, _)| event))
        } else {
            one == other
        }
    }

    /// The number of the handle's text after `stop`, if a phase begins there.
    pub(super) fn handle(&mut self, stop: &Stop) -> Option<u32> {
        let text = stop.events.iter().rev().find(|(event, _)| !matches!(event, Event::Saw { .. }))?;
        let next = self.texts.len() as u32;
        Some(*self.texts.entry(text.1.clone()).or_insert(next))
    }

    /// The calls and answers of `way`.
    pub(super) fn path_of(&self, way: &History) -> Vec<(Call, u64)> {
        match (&way.whole, way.from) {
            (Some(whole), _) => whole.to_vec(),
            (None, None) => Vec::new(),
            (None, Some((node, number))) => {
                let mut path = self.path(node, number);
                path.push((self.call(node), way.answer));
                path
            }
        }
    }

    fn call(&self, node: NodeId) -> Call {
        self.nodes[node as usize].issued.expect("a node with an edge has a call").call
    }

    /// The moves of `rank` by these answers after `path`, and by those without a word that follow.
    fn observe(&self, rank: Rank, path: &[(Call, u64)], answers: &[u64]) -> Result<Vec<Stop>, Failure> {
        let (actor, stop) = self.begin(rank, path)?;
        self.go_on(actor, stop.call, answers)
    }

    /// The moves of `actor`, whose next call is `call`, by these answers, and by those without a word that follow.
    fn go_on(&self, mut actor: Actor, call: Option<Call>, answers: &[u64]) -> Result<Vec<Stop>, Failure> {
        // Nobody looks at its handle.
        actor.be_terse(true);
        let mut next = call;
        let mut stops = Vec::new();
        let mut answers = answers.iter();
        let mut wordless = 0;
        while let Some(call) = next {
            let answer = match answers.next() {
                Some(&word) => answer_to(call, word),
                None if call.answers_a_word() || wordless == WORDLESS => break,
                None => {
                    wordless += 1;
                    Answer::Done
                }
            };
            let stop = self.stop(&mut actor, answer)?;
            next = stop.call;
            stops.push(stop);
        }
        actor.stop();
        Ok(stops)
    }

    fn all_alike(&self, one: &[Stop], other: &[Stop]) -> bool {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| self.alike(one, other))
    }

    /// The move of `node` by `answer` after its history number `way`, and the moves without a word that follow.
    pub(super) fn run_on(&self, node: NodeId, way: u16, answer: u64) -> Result<(Stop, Vec<Stop>), Failure> {
        if !self.forgets_unused() {
            return Ok((self.run_edge(node, way, answer)?, Vec::new()));
        }
        let path = self.path_of(&self.way(node, way, answer));
        let (actor, stop) = self.begin(self.nodes[node as usize].rank, &path)?;
        let after = self.go_on(actor, stop.call, &[])?;
        Ok((stop, after))
    }

    /// History number `way` of `node`, continued by `answer`, which leads to `stop`.
    pub(super) fn way_by(&mut self, node: NodeId, way: u16, answer: u64, stop: &Stop) -> History {
        let handle = if self.forgets_unused() { self.handle(stop) } else { None };
        History { handle, ..self.way(node, way, answer) }
    }

    /// A number that is equal for histories with equal moves in all experiments; `after` has the moves without a word
    /// after `path`.
    pub(super) fn row(
        &self,
        rank: Rank,
        status: Status,
        call: Option<Call>,
        path: &[(Call, u64)],
        after: &[Stop],
    ) -> Result<u64, Failure> {
        let mut hasher = DefaultHasher::new();
        let mut record = |stops: &[Stop]| {
            stops.len().hash(&mut hasher);
            for Stop { events, paused, call, broken } in stops {
                for (event, _) in events {
                    event.hash(&mut hasher);
                }
                (paused, call, broken.as_ref().map(|(property, text)| (*property as u8, text))).hash(&mut hasher);
            }
        };
        record(after);
        for answers in self.experiments.of_sites.get(&self.site(rank, status, call)).into_iter().flatten() {
            record(&self.observe(rank, path, answers)?);
        }
        Ok(hasher.finish())
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
            way = &roots.ways[usize::from(number)];
        }
        answers
    }

    /// A number that is equal for histories with the same kept answers.
    pub(super) fn kept(&self, way: &History) -> u64 {
        if self.experiments.kept.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        let mut answers = self.answers(way);
        answers.retain(|(call, _)| self.experiments.kept.contains(call));
        answers.hash(&mut hasher);
        hasher.finish()
    }

    /// The failure that `node` has too many histories, so that it has to keep the answers of more calls: of those that
    /// leave the fewest histories together.
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

    /// The failure that the moves of history number `way` of `node` by `answer` are not those of its first history.
    pub(super) fn differ_by(&self, node: NodeId, way: u16, answer: u64) -> Failure {
        if self.forgets_unused() {
            self.refine(node, &self.path(node, way), &[answer]).unwrap_or_else(|failure| failure)
        } else {
            self.differ(node, answer)
        }
    }

    /// The experiment that tells histories apart, given that `answers` after `path`, which leads to `node`, show other
    /// moves than after the node's first history.
    fn refine(&self, node: NodeId, path: &[(Call, u64)], answers: &[u64]) -> Result<Failure, Failure> {
        let rank = self.nodes[node as usize].rank;
        let mut nodes = vec![self.starts[rank.index()]];
        for &(_, answer) in path {
            let last = nodes[nodes.len() - 1];
            let edge = self.roots[last as usize].edges.iter().find(|edge| edge.answer == answer);
            let Some(edge) = edge else { return Ok(self.differ(node, answer)) };
            nodes.push(edge.to);
        }
        let all: Vec<u64> = path.iter().map(|&(_, answer)| answer).chain(answers.iter().copied()).collect();
        let mut after: Option<Vec<Stop>> = None;
        for from in (0..=path.len()).rev() {
            let history = self.path(nodes[from], 0);
            let mut stops = self.observe(rank, &history, &all[from..])?;
            let stops = stops.split_off(stops.len().min(path.len() - from));
            if let Some(after) = &after
                && !self.all_alike(after, &stops)
            {
                let site = self.site_of(nodes[from + 1]);
                // A loop that counts its rounds needs an experiment for each round.
                let same = (from + 1..nodes.len()).filter(|&at| self.site_of(nodes[at]) == site);
                return Ok(Failure::Uses(same.map(|at| (site, all[at..].to_vec())).collect()));
            }
            after = Some(stops);
        }
        Ok(self.differ(node, answers.first().copied().unwrap_or(0)))
    }

    /// The number of answers of a round, if `way` comes to `to` again within its phase.
    fn closes(&self, way: &History, to: NodeId) -> Option<usize> {
        let (mut at, mut number) = way.from?;
        let mut steps = 1;
        while at != to {
            let roots = &self.roots[at as usize];
            let history = &roots.ways[usize::from(number)];
            if history.whole.is_some() || roots.start == at {
                return None;
            }
            (at, number) = history.from?;
            steps += 1;
        }
        Some(steps)
    }

    /// Adds `way` as a history of `node`, and all that follow from it by known edges, and tests them.
    pub(super) fn witness_uses(&mut self, node: NodeId, way: History, after: Vec<Stop>) -> Result<(), Failure> {
        let mut open = vec![(node, way, after)];
        while let Some((node, way, after)) = open.pop() {
            let path = self.path_of(&way);
            let (rank, status) = (self.nodes[node as usize].rank, self.nodes[node as usize].status);
            let call = self.nodes[node as usize].issued.map(|issued| issued.call);
            let roots = &self.roots[node as usize];
            if way.whole.is_none()
                && let Some(round) = self.closes(&way, node)
            {
                let is_new = self.go_rounds(node, &way, &path, round, &mut open)?;
                if is_new && self.row(rank, status, call, &path, &after)? != self.roots[node as usize].row {
                    return Err(self.tell_apart(node, &path)?);
                }
                continue;
            }
            // Those around its own loops are always tested.
            let of_rounds = || roots.ways.iter().filter(|way| way.pumped && way.whole.is_none()).count();
            if way.pumped && way.whole.is_none() && of_rounds() >= WITNESSES_OF_ROUNDS {
                continue;
            }
            if roots.start == node && roots.ways.iter().any(|other| other.handle == way.handle) {
                let is_new = roots.ways.iter().all(|other| other.prefix != way.prefix);
                let [most, most_new] = WITNESSES_OF_BOUNDARIES;
                if roots.ways.len() >= if is_new { most_new } else { most } {
                    continue;
                }
            }
            if self.row(rank, status, call, &path, &after)? != roots.row {
                return Err(self.tell_apart(node, &path)?);
            }
            if roots.ways.len() >= self.experiments.effort.most() {
                return Err(self.keep_more(node));
            }
            if self.experiments.effort == Effort::Quick && self.runs.get() > RUNS {
                return Err(Failure::Slow);
            }
            let number = roots.ways.len() as u16;
            self.roots[node as usize].ways.push(way);
            for i in 0..self.roots[node as usize].edges.len() {
                let edge = self.roots[node as usize].edges[i];
                let (stop, after) = self.run_on(node, number, edge.answer)?;
                if !self.alike(&stop, &self.roots[node as usize].stops[i]) {
                    return Err(self.refine(node, &path, &[edge.answer])?);
                }
                open.push((edge.to, self.way_by(node, number, edge.answer, &stop), after));
            }
        }
        Ok(())
    }

    /// The failure that `path` and the first history of `node` have different rows.
    fn tell_apart(&self, node: NodeId, path: &[(Call, u64)]) -> Result<Failure, Failure> {
        let (rank, first) = (self.nodes[node as usize].rank, self.path(node, 0));
        let known = self.experiments.of_sites.get(&self.site_of(node));
        let known = || std::iter::once([].as_slice()).chain(known.into_iter().flatten().map(Vec::as_slice));
        for answers in known() {
            if self.all_alike(&self.observe(rank, path, answers)?, &self.observe(rank, &first, answers)?) {
                continue;
            }
            let mut failure = self.refine(node, path, answers)?;
            if let Failure::Uses(all) = &mut failure
                && let [(site, only)] = all.as_slice()
                && let Some(before) = only.strip_suffix(answers)
                && answers.len() >= LONG
            {
                let (site, before) = (*site, before.to_vec());
                let long = known().filter(|other| other.len() >= LONG);
                all.extend(long.map(|other| (site, [&before, other].concat())));
            }
            return Ok(failure);
        }
        Ok(self.differ(node, 0))
    }

    /// The index of the first call of `path` that the code does not make.
    fn leaves(&self, rank: Rank, path: &[(Call, u64)]) -> Result<Option<usize>, Failure> {
        let mut actor = Actor::new(&self.check, rank)?;
        actor.be_terse(true);
        let mut next = Answer::Done;
        let mut left = None;
        for (at, &(call, answer)) in path.iter().enumerate() {
            if self.stop(&mut actor, next)?.call != Some(call) {
                left = Some(at);
                break;
            }
            next = answer_to(call, answer);
        }
        actor.stop();
        Ok(left)
    }

    /// Runs the code through the last `round` answers of `path` again and again, and adds histories that have.
    fn go_rounds(
        &mut self,
        node: NodeId,
        way: &History,
        path: &[(Call, u64)],
        round: usize,
        open: &mut Vec<(NodeId, History, Vec<Stop>)>,
    ) -> Result<bool, Failure> {
        let (before, one) = path.split_at(path.len() - round);
        let loops = &mut self.roots[node as usize].loops;
        // The loops of first histories are always tested.
        let is_first = way.from.is_some_and(|(_, number)| number == 0);
        if loops.len() >= MOST_LOOPS && !is_first || loops.iter().any(|other| other == one) {
            return Ok(false);
        }
        let others = loops.clone();
        loops.push(one.to_vec());
        let rank = self.nodes[node as usize].rank;
        let mut sequences: Vec<Vec<(Call, u64)>> = PUMPS.iter().map(|&times| one.repeat(times)).collect();
        for other in others.iter().take(LOOPS) {
            let both = [one, other].concat();
            sequences.extend([[other, one].concat(), both.repeat(2), both]);
        }
        let rounds = one.repeat(ROUNDS);
        for sequence in std::iter::once(&rounds).chain(&sequences) {
            // The code is to begin the next round, too.
            let path = [before, sequence, &one[..1]].concat();
            if let Some(at) = self.leaves(rank, &path)? {
                // The answer before that call shows the difference.
                return Err(match at.checked_sub(1) {
                    Some(last) => self.refine(node, &path[..last], &[path[last].1])?,
                    None => self.differ(node, way.answer),
                });
            }
        }
        for sequence in sequences {
            let whole = [before, &sequence].concat();
            let after = self.observe(rank, &whole, &[])?;
            open.push((node, History { whole: Some(whole.into()), pumped: true, ..way.clone() }, after));
        }
        Ok(true)
    }
}
