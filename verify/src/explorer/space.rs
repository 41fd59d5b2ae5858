//! The graph of global states: the possible transitions of a state, and their results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmalab_atomics::controlled::Call;
use rmalab_atomics::{Address, Rank};

use super::experiments::{Effort, Experiments, STATES};
use super::learned::{Automata, Forget, Learner};
use super::node::{Edge, Failure, Node, NodeId};
use super::options::Options;
use super::order;
use super::permutation::Permutation;
use super::runs::Runs;
use super::state::{Parts, State, Values, decode, encode};
use super::symmetry::{self, Symmetry};
use crate::actor::word_of;
use crate::counterexample::Choice;
use crate::network::Memory;
use crate::outcome::{GAVE_UP, RE_ENTERED, TOGETHER, TOLD, TOOK_OVER, WAITED};
use crate::panics::lock;
use crate::play::Section;
use crate::status::{Phase, Status};
use crate::subject::Order;
use crate::workload::Workload;
use crate::{Check, Error, Form, Violation, clock};

/// The number of puts under way up to which a rank posts more of them at once.
const SETTLED: usize = 256;

/// The data that all threads of a search share.
pub(super) struct Space {
    pub(super) check: Arc<Check>,
    pub(super) parts: Parts,
    pub(super) bound: Option<u32>,
    /// Groups of interchangeable ranks; none if the search runs without symmetry.
    groups: Vec<Vec<usize>>,
    /// The exchanges of neighbours in these groups.
    exchanges: Vec<Permutation>,
    /// True if local steps are taken at once.
    settles: bool,
    /// True if posting a put is a local step.
    no_fences: bool,
    /// The ranks whose acquisitions have deadlines.
    timed: Vec<bool>,
    /// True if the search leaves out steps that lead to no other behaviour: a deadline passes only where its rank looks at the clock,
    /// and a failure amid an atomic operation stands for the one ahead of it.
    leaves_out: bool,
    /// The first local state of each rank, which a rank that has failed goes back to.
    starts: Vec<NodeId>,
    order: Order,
    learner: Mutex<Learner>,
    /// The memory of the runs that the learner keeps, in bytes.
    memory: AtomicU64,
    values: Mutex<Values>,
}

/// The facts about the lock's code that a search assumes and tests.
#[derive(Clone, Debug)]
pub(super) struct Assumed {
    pub(super) forget: Forget,
    pub(super) experiments: Experiments,
    /// Interchangeable ranks count as one.
    pub(super) symmetry: bool,
    /// No rank observes when another rank posts its puts.
    pub(super) no_fences: bool,
}

impl Assumed {
    /// The limit for the states of this try.
    pub(super) fn most_states(&self, options: &Options) -> Option<u64> {
        if self.forget == Forget::Unused && self.experiments.effort == Effort::Few {
            return Some(options.max_states.map_or(STATES, |most| most.min(STATES)));
        }
        options.max_states
    }
}

/// Events that happened at least once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sometimes {
    /// Bit i: rank i has entered in its last acquisition.
    pub(super) entered: u64,
    /// Two ranks were inside together.
    pub(super) together: bool,
    /// A rank had to wait.
    pub(super) waited: bool,
    /// A rank gave up.
    pub(super) gave_up: bool,
    /// A rank learned that another rank had failed inside.
    pub(super) told: bool,
    /// A rank that failed inside came back.
    pub(super) re_entered: bool,
    /// All ranks came to their end.
    pub(super) ended: bool,
    /// The preemption bound excluded a step.
    pub(super) bounded: bool,
}

impl Sometimes {
    pub(super) fn merge(&mut self, other: Sometimes) {
        self.entered |= other.entered;
        self.together |= other.together;
        self.waited |= other.waited;
        self.gave_up |= other.gave_up;
        self.told |= other.told;
        self.re_entered |= other.re_entered;
        self.ended |= other.ended;
        self.bounded |= other.bounded;
    }
}

/// One thread's view of the space: copies of the learned automata, and buffers.
pub(super) struct Walker<'s> {
    pub(super) space: &'s Space,
    pub(super) automata: Automata,
    encoder: Encoder<'s>,
    owners: Vec<Address>,
    pub(super) sometimes: Sometimes,
    /// The result of the last step.
    pub(super) next: State,
    /// The ranks whose local steps were joined to the last step.
    pub(super) settled: Vec<Rank>,
    /// True if a rank entered by the last step.
    pub(super) entered: bool,
}

/// What encodes states, with its buffers.
struct Encoder<'s> {
    space: &'s Space,
    values: Values,
    symmetry: Option<Symmetry>,
    image: State,
    least: Vec<u8>,
}

impl Space {
    /// The space of `check`.
    pub(super) fn new(check: &Arc<Check>, options: &Options, assumed: &Assumed, runs: Runs) -> Result<Space, Failure> {
        let mut learner = Learner::new(check, assumed.forget, assumed.experiments.clone(), runs)?;
        let late = check.network.puts_are_late();
        let order = match check.subject.claimed_order() {
            Order::WritersFirst if late => Order::None,
            order if options.order => order,
            _ => Order::None,
        };
        if order != Order::None && check.active() > order::RANKS {
            return Err(Failure::Error(Error::Unsound(format!(
                "scenario {}: the explorer checks the order of at most {} ranks",
                check.scenario,
                order::RANKS
            ))));
        }
        let parts = Parts {
            ranks: check.active() as usize,
            posts: late,
            halfway: check.network.splits_atomics(),
            run: options.preemptions.is_some(),
            ahead: order != Order::None,
            clocks: check.scenario.has(Form::Timed) || check.scenario.lapses() > 0,
            alone: check.has_attempts(),
            deaths: check.scenario.crashes() > 0,
            restarts: check.scenario.restarts() > 0,
            leases: check.scenario.lapses() > 0,
        };
        // A bound on preemptions, and an order of arrival, depend on every step.
        let settles = options.partial_order && (parts.posts || parts.deaths) && !parts.run && !parts.ahead;
        if settles && assumed.no_fences && learner.fences() {
            return Err(Failure::Fences);
        }
        let groups = if assumed.symmetry && order == Order::None { symmetry::groups(check) } else { Vec::new() };
        let exchanges = symmetry::exchanges(&groups);
        learner.test_symmetry(&exchanges)?;
        Ok(Space {
            check: Arc::clone(check),
            parts,
            settles,
            no_fences: assumed.no_fences,
            timed: (0..check.active()).map(|rank| check.is_timed(Rank(rank))).collect(),
            leaves_out: options.partial_order,
            starts: learner.starts.clone(),
            bound: options.preemptions,
            exchanges,
            groups,
            order,
            learner: Mutex::new(learner),
            memory: AtomicU64::new(0),
            values: Mutex::default(),
        })
    }

    fn learner(&self) -> MutexGuard<'_, Learner> {
        lock(&self.learner)
    }

    /// A state to decode other states into.
    pub(super) fn blank(&self) -> State {
        State { memory: Memory::new(self.parts.ranks), ..State::nothing() }
    }

    /// Returns whether interchangeable ranks count as one.
    pub(super) fn is_symmetric(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The runs of the code so far, for a search that starts again.
    pub(super) fn into_runs(self) -> Runs {
        self.learner.into_inner().unwrap_or_else(PoisonError::into_inner).runs
    }

    /// Behaviours of the code that a search does not explore.
    pub(super) fn unexplored(&self) -> Vec<&'static str> {
        self.learner().unexplored()
    }

    /// The memory of the learned automata, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Returns whether schedules may go on forever.
    pub(super) fn has_loops(&self) -> bool {
        self.learner().has_loops()
    }
}

impl<'s> Walker<'s> {
    pub(super) fn new(space: &'s Space) -> Walker<'s> {
        let mut walker = Walker {
            space,
            automata: Automata::default(),
            encoder: Encoder {
                space,
                values: Values::default(),
                symmetry: (!space.groups.is_empty()).then(|| Symmetry::new(&space.groups)),
                image: space.blank(),
                least: Vec::new(),
            },
            owners: Vec::new(),
            sometimes: Sometimes::default(),
            next: space.blank(),
            settled: Vec::new(),
            entered: false,
        };
        walker.catch_up(&space.learner());
        walker
    }

    fn catch_up(&mut self, learner: &Learner) {
        self.automata.catch_up(learner);
        self.owners.extend((self.owners.len()..learner.slots.len()).map(|slot| learner.slots.address(slot as u16)));
    }

    /// The first state.
    pub(super) fn start(&mut self) -> Result<State, Failure> {
        self.next = State { locals: self.space.learner().starts.clone(), ..self.space.blank() };
        self.settled.clear();
        for rank in 0..self.space.parts.ranks {
            self.settle(rank)?;
        }
        Ok(self.next.clone())
    }

    /// The local state of `rank` in `state`.
    pub(super) fn node(&self, state: &State, rank: usize) -> &Node {
        &self.automata.nodes[state.locals[rank] as usize]
    }

    /// Encodes the representative of `state`: without symmetry, this is `state` itself. Returns the permutation that
    /// maps `state` to it.
    pub(super) fn encode(&mut self, state: &State, bytes: &mut Vec<u8>) -> Result<Permutation, Failure> {
        self.encoder.encode(&self.automata, state, bytes)
    }

    /// Encodes the result of the last step.
    pub(super) fn encode_next(&mut self, bytes: &mut Vec<u8>) -> Result<Permutation, Failure> {
        self.encoder.encode(&self.automata, &self.next, bytes)
    }

    pub(super) fn decode(&mut self, bytes: &[u8], state: &mut State) {
        if !self.try_decode(bytes, state) {
            self.encoder.values.catch_up(&lock(&self.space.values));
            self.catch_up(&self.space.learner());
            assert!(self.try_decode(bytes, state), "a stored state has only known words and slots");
        }
        self.learn_of(state);
    }

    /// Updates this copy with the local states of `state`, which another thread may have learned.
    pub(super) fn learn_of(&mut self, state: &State) {
        if let Some(&newest) = state.locals.iter().max()
            && newest as usize >= self.automata.nodes.len()
        {
            self.catch_up(&self.space.learner());
        }
    }

    fn try_decode(&self, bytes: &[u8], state: &mut State) -> bool {
        let owner = |slot| self.owners.get(usize::from(slot)).map(|at| at.rank);
        decode(self.space.parts, &self.encoder.values, owner, bytes, state)
    }

    /// All transitions of `state` within the bound.
    pub(super) fn choices(&mut self, state: &State, choices: &mut Vec<Choice>) {
        choices.clear();
        let running = self.space.bound.and(state.run);
        let running_ready = running.is_some_and(|(rank, _)| self.ready(state, rank as usize));
        for rank in 0..self.space.parts.ranks {
            let node = &self.automata.nodes[state.locals[rank] as usize];
            let Some(issued) = &node.issued else { continue };
            if state.memory.deaths.is_down(rank) {
                continue;
            }
            if !state.memory.ready(rank, issued) {
                self.sometimes.waited = true;
                continue;
            }
            if let (Some(bound), Some((before, count))) = (self.space.bound, running)
                && running_ready
                && before as usize != rank
                && count >= bound
            {
                self.sometimes.bounded = true;
                continue;
            }
            choices.push(Choice::Step(Rank(rank as u32)));
        }
        for rank in 0..self.space.parts.ranks {
            if self.space.timed[rank] && self.deadline_may_pass(state, rank) {
                choices.push(Choice::Deadline(Rank(rank as u32)));
            }
        }
        if self.space.parts.posts {
            for (rank, posts) in state.memory.posts.iter().enumerate() {
                for index in (0..posts.len()).filter(|&index| state.memory.may_arrive(rank, index)) {
                    choices.push(Choice::Arrive { from: Rank(rank as u32), index: index as u16 });
                }
            }
        }
        if self.space.parts.leases && self.may_lapse(state) {
            choices.push(self.space.check.lapse(&self.statuses(state)));
        }
        if self.space.check.may_restart(state.memory.restarts) {
            let comes_back = |&rank: &usize| self.node(state, rank).issued.is_some() && state.memory.may_fail(rank);
            let ranks = (0..self.space.parts.ranks).filter(comes_back);
            choices.extend(ranks.map(|rank| Choice::Restart(Rank(rank as u32))));
        }
        if self.space.parts.deaths {
            for rank in 0..self.space.parts.ranks {
                choices.extend(self.notices(state, rank));
                let has_more = self.node(state, rank).issued.is_some() || !state.memory.posts[rank].is_empty();
                let may_fail = has_more && state.memory.may_fail(rank);
                if may_fail && self.space.check.may_crash(Rank(rank as u32), state.memory.deaths.down) {
                    let node = self.node(state, rank);
                    let amid =
                        node.issued.and_then(|issued| state.memory.amid(self.space.check.network, rank, &issued));
                    let rank = Rank(rank as u32);
                    choices.extend(amid.map(|_| Choice::CrashAmid(rank)));
                    // The operation may also never take effect. A failure amid it leaves nothing half written.
                    let is_same = amid.is_some() && self.space.check.half_written(rank, &node.status) == 0;
                    if !is_same || !self.space.leaves_out {
                        choices.push(Choice::Crash(rank));
                    }
                }
            }
        }
    }

    /// The failures of which `rank` may learn now.
    fn notices(&self, state: &State, rank: usize) -> impl Iterator<Item = Choice> {
        let issued = self.node(state, rank).issued.filter(|_| !state.memory.deaths.is_down(rank));
        (0..self.space.parts.ranks)
            .filter(move |&of| issued.is_some_and(|issued| state.memory.may_notice(rank, &issued, of)))
            .map(move |of| Choice::Notice { rank: Rank(rank as u32), of: Rank(of as u32) })
    }

    /// Returns whether the deadline of the acquisition of `rank` may pass.
    ///
    /// Only its own rank sees that a deadline has passed: by a read of the clock, and by a wait that ends. So the step
    /// commutes with all steps up to that, and the search needs to take it only there.
    fn deadline_may_pass(&self, state: &State, rank: usize) -> bool {
        let node = self.node(state, rank);
        let Some(issued) = node.issued else { return false };
        let is_seen = match issued.call {
            Call::Now => true,
            Call::WaitUntil { deadline, .. } => deadline.is_some() && !state.memory.ready(rank, &issued),
            _ => false,
        };
        (is_seen || !self.space.leaves_out) && state.memory.clocks[rank] < clock::deadline(node.status.acquisition)
    }

    /// Returns whether time may pass now.
    ///
    /// Ranks see that only by reads of their clocks. The step commutes with all other steps, except that it ends leases: ahead
    /// of an entry it allows more. But no rank enters because of a lease that has passed without a read of the clock. So it is
    /// enough to let time pass where a rank is about to read it.
    fn may_lapse(&self, state: &State) -> bool {
        let reads = |rank| {
            self.node(state, rank).issued.is_some_and(|issued| issued.call == Call::Now || !self.space.leaves_out)
        };
        self.space.check.may_lapse(state.memory.lapses()) && (0..self.space.parts.ranks).any(reads)
    }

    /// Returns whether the call of `rank` is enabled.
    pub(super) fn ready(&self, state: &State, rank: usize) -> bool {
        !state.memory.deaths.is_down(rank)
            && self.node(state, rank).issued.as_ref().is_some_and(|issued| state.memory.ready(rank, issued))
    }

    /// Takes `choice` from `state` to [`next`](Walker::next), and returns the violation, if any.
    pub(super) fn step(&mut self, state: &State, choice: Choice) -> Result<Option<Violation>, Failure> {
        self.next.copy_from(state);
        self.settled.clear();
        self.entered = false;
        let rank = match choice {
            Choice::Arrive { from, index } => {
                let slot = state.memory.posts[from.index()][usize::from(index)].slot;
                self.next.memory.arrive(from.index(), usize::from(index));
                if let Some(violation) = self.fenced(state, from, slot) {
                    return Ok(Some(violation));
                }
                self.settle(from.index())?;
                return Ok(None);
            }
            Choice::Lapse(_) => {
                let inside = self.statuses(state);
                self.next.memory.lapse(|rank| inside[rank].phase == Phase::Inside);
                return Ok(None);
            }
            Choice::Deadline(rank) => {
                let acquisition = self.node(state, rank.index()).status.acquisition;
                self.next.memory.pass(rank.index(), clock::deadline(acquisition));
                return Ok(None);
            }
            Choice::Crash(rank) | Choice::CrashAmid(rank) => {
                let Node { status, issued, .. } = *self.node(state, rank.index());
                let (network, rank) = (self.space.check.network, rank.index());
                match issued {
                    Some(issued) if matches!(choice, Choice::CrashAmid(_)) => {
                        self.next.memory.crash_amid(network, rank, &issued);
                    }
                    _ => self.next.memory.crash(rank, self.space.check.half_written(choice.rank(), &status)),
                }
                self.next.locals[rank] = self.space.starts[rank];
                return Ok(None);
            }
            Choice::Restart(rank) => {
                self.next.memory.restart(rank.index());
                let from = state.locals[rank.index()];
                let edge = self.restart(from)?;
                return self.go(rank, from, edge);
            }
            Choice::Notice { rank, of } => {
                self.next.memory.notice(rank.index(), of.index());
                return Ok(None);
            }
            Choice::Step(rank) => rank,
        };
        let from = state.locals[rank.index()];
        let issued = self.automata.nodes[from as usize].issued.expect("a step is of a rank that has a call");
        if let Some(run) = &mut self.next.run {
            let (before, count) = *run;
            let preempts = before != rank.0 && self.ready(state, before as usize);
            self.next.run = Some((rank.0, count + u32::from(preempts)));
        } else if self.space.parts.run {
            self.next.run = Some((rank.0, 0));
        }
        if self.space.parts.alone {
            let begins = self.automata.nodes[from as usize].status.phase == Phase::Outside;
            if begins && state.memory.halfway[rank.index()].is_none() {
                let alone = self.space.check.is_alone(rank, self.statuses(state), &state.memory);
                self.next.alone = alone.then_some(rank);
            }
        }
        let Some(answer) = self.next.memory.carry_out(self.space.check.network, rank.index(), &issued) else {
            return Ok(None);
        };
        let edge = self.edge(from, word_of(&issued.call, answer))?;
        if let Some(violation) = issued.call.address(rank).and_then(|_| self.fenced(state, rank, issued.slot)) {
            self.next.locals[rank.index()] = edge.to;
            return Ok(Some(violation));
        }
        self.go(rank, from, edge)
    }

    /// Lets `rank` go along `edge`, and returns the violation, if any.
    fn go(&mut self, rank: Rank, from: NodeId, edge: Edge) -> Result<Option<Violation>, Failure> {
        self.next.locals[rank.index()] = edge.to;
        self.entered = edge.enters;
        if edge.enters || self.automata.nodes[edge.to as usize].status.phase != Phase::Inside {
            self.next.memory.held[rank.index()] = 0;
        }
        let violation = self.judge(rank, from, edge);
        self.end_acquisition(rank, edge.to);
        if violation.is_none() {
            self.settle(rank.index())?;
        }
        Ok(violation)
    }

    /// The violation by a write of `rank` to the word in `slot` on the way from `state` to the next one, if any.
    fn fenced(&self, state: &State, rank: Rank, slot: u16) -> Option<Violation> {
        if !self.space.parts.leases {
            return None;
        }
        let (at, acquisition) = (self.owners[usize::from(slot)], self.node(state, rank.index()).status.acquisition);
        self.space.check.fenced(rank, acquisition, at, state.memory.word(slot), self.next.memory.word(slot))
    }

    /// Lets the time of `rank` pass if its acquisition has ended, and forgets that the rank had the lock to itself.
    fn end_acquisition(&mut self, rank: Rank, to: NodeId) {
        let status = self.automata.nodes[to as usize].status;
        if self.space.timed[rank.index()] {
            self.next.memory.pass(rank.index(), clock::begin(status.acquisition));
        }
        if self.next.alone == Some(rank) && status.phase != Phase::Acquiring {
            self.next.alone = None;
        }
    }

    fn edge(&mut self, from: NodeId, answer: u64) -> Result<Edge, Failure> {
        if let Some(edge) = self.automata.edge(from, answer) {
            return Ok(edge);
        }
        let space = self.space;
        let mut learner = space.learner();
        let edge = learner.learn(from, answer)?;
        learner.test_symmetry(&space.exchanges)?;
        space.memory.store(learner.runs.memory(), Ordering::Relaxed);
        if space.settles && space.no_fences && learner.fences() {
            return Err(Failure::Fences);
        }
        self.catch_up(&learner);
        Ok(edge)
    }

    /// The edge by which the rank of `from` fails there and comes back.
    fn restart(&mut self, from: NodeId) -> Result<Edge, Failure> {
        if let Some(edge) = self.automata.restart(from) {
            return Ok(edge);
        }
        let space = self.space;
        let mut learner = space.learner();
        let edge = learner.restart(from)?;
        space.memory.store(learner.runs.memory(), Ordering::Relaxed);
        self.catch_up(&learner);
        Ok(edge)
    }

    /// Takes the next local steps of `rank`: those that post or order puts, and flushes of puts that have arrived.
    ///
    /// Such a step reads and writes only the rank's own list of posted puts, and appends to its end. So it commutes
    /// with every step of other ranks and with every arrival, and it stays enabled until it is taken. If the rank
    /// neither enters, leaves nor gives up by it, no property observes it. So it is an ample set of its own (D. Peled, "All from
    /// One, One for All: on Model Checking Using Representatives", CAV 1993). Taking it at once omits only other
    /// interleavings of the same behaviours. No cycle consists of such steps alone: a flush needs an arrival, and a
    /// list cannot grow forever in finitely many states.
    ///
    /// Code that posts more than [`SETTLED`] puts without a flush goes on by steps, where limits end it.
    ///
    /// If the rank fails between such steps, its later puts count as lost, also if it comes back. Where ranks fail, some calls
    /// of a rank are local once it knows all failures that can happen: see [`nothing_new`](Self::nothing_new).
    /// Acknowledgements are always local, since they matter only for the rank's own waits.
    fn settle(&mut self, rank: usize) -> Result<(), Failure> {
        if !self.space.settles || self.next.memory.deaths.is_down(rank) {
            return Ok(());
        }
        let may_fail = self.space.parts.deaths || self.space.parts.restarts;
        for _ in 0..SETTLED {
            let from = self.next.locals[rank];
            let node = &self.automata.nodes[from as usize];
            let Some(issued) = node.issued else { return Ok(()) };
            let local = match issued.call {
                Call::Flush { .. } => self.next.memory.ready(rank, &issued),
                // A rank that fails ahead of it may lose the puts.
                Call::Order { .. } => !may_fail || self.next.memory.posts[rank].is_empty(),
                Call::Acknowledge { ranks } => ranks & !self.next.memory.deaths.known[rank] == 0,
                Call::Failed | Call::Pause { .. } => self.nothing_new(rank, issued.call),
                // A fence of another rank observes posted puts.
                call => self.space.no_fences && self.space.check.network.is_late(&call),
            };
            let inside = node.status.phase == Phase::Inside;
            // Other ranks see the start of an acquisition if they may fail because of it.
            let begins = self.space.parts.alone && node.status.phase == Phase::Outside;
            if !local || begins || self.next.memory.posts[rank].len() >= SETTLED {
                return Ok(());
            }
            let known = self.next.memory.deaths.known[rank];
            let edge = self.edge(from, if issued.call == Call::Failed { known } else { 0 })?;
            let to = &self.automata.nodes[edge.to as usize];
            let is_seen = edge.saw.is_some() || edge.enters || edge.gave_up || to.broken.is_some();
            if inside != (to.status.phase == Phase::Inside) || is_seen {
                return Ok(());
            }
            self.next.memory.carry_out(self.space.check.network, rank, &issued);
            self.next.locals[rank] = edge.to;
            self.end_acquisition(Rank(rank as u32), edge.to);
            self.settled.push(Rank(rank as u32));
        }
        Ok(())
    }

    /// Returns whether `rank` knows all failures that can happen, and has acknowledged them if that matters for `call`. Then
    /// the answer to the call is known, too.
    fn nothing_new(&self, rank: usize, call: Call) -> bool {
        let deaths = &self.next.memory.deaths;
        let all_down = deaths.down.count_ones() >= self.space.check.scenario.crashes();
        self.space.parts.deaths
            && all_down
            && deaths.known[rank] == deaths.down
            && (call == Call::Failed || deaths.acknowledged[rank] == deaths.down)
    }

    fn statuses(&self, state: &State) -> Vec<Status> {
        let status = |rank: usize| match state.memory.deaths.is_down(rank) {
            true => Status::default(),
            false => self.node(state, rank).status.lapsed(self.space.check.has_lapsed(state.memory.held[rank])),
        };
        (0..self.space.parts.ranks).map(status).collect()
    }

    /// The violation ahead of the first step, if any.
    pub(super) fn at_once(&mut self) -> Result<Option<Violation>, Failure> {
        let start = self.start()?;
        let statuses = self.statuses(&start);
        Ok((0..self.space.parts.ranks).find_map(|rank| {
            let (node, rank) = (self.node(&start, rank), Rank(rank as u32));
            let broken = node.broken.clone().map(|(property, seen)| Violation {
                property,
                rank,
                acquisition: Some(node.status.acquisition),
                seen,
            });
            // The ranks begin one after the other.
            self.space.check.exclusion(rank, &statuses[..=rank.index()]).or(broken)
        }))
    }

    /// The violation by the step of `rank` into `self.next`, if any.
    fn judge(&mut self, rank: Rank, from: NodeId, edge: Edge) -> Option<Violation> {
        let Edge { to, saw, enters, gave_up, told, idle, .. } = edge;
        let check = &self.space.check;
        let (old, new) = (&self.automata.nodes[from as usize], &self.automata.nodes[to as usize]);
        if let Some((property, seen)) = &new.broken {
            let acquisition = Some(new.status.acquisition);
            return Some(Violation { property: *property, rank, acquisition, seen: seen.clone() });
        }
        self.sometimes.waited |= new.polls;
        self.sometimes.gave_up |= gave_up;
        if gave_up {
            let (alone, now) = (self.next.alone == Some(rank), self.next.memory.clocks[rank.index()]);
            let violation = check.gives_up(rank, old.status.acquisition, alone, now);
            if violation.is_some() {
                return violation;
            }
        }
        if idle {
            let violation = check.comes_back_idle(rank, old.status.acquisition, old.status.phase);
            if violation.is_some() {
                return violation;
            }
        }
        if told {
            self.sometimes.told = true;
            self.next.memory.deaths.untold &= !check.told(rank, old.status.acquisition);
        }
        self.sometimes.re_entered |= enters && old.status.phase == Phase::Inside;
        if enters && new.status.phase == Phase::Inside {
            let statuses = self.statuses(&self.next);
            if let Some(violation) = check.exclusion(rank, &statuses) {
                return Some(violation);
            }
            if self.next.memory.deaths.untold & check.told(rank, new.status.acquisition) != 0 {
                return Some(check.untold(rank, new.status.acquisition));
            }
            let inside = statuses.iter().filter(|status| status.phase == Phase::Inside).count();
            self.sometimes.together |= inside > 1;
            if check.is_last(rank, new.status.acquisition) {
                self.sometimes.entered |= 1 << (rank.0 % 64);
            }
        }
        if let Some((target, writes)) = saw {
            let statuses = self.statuses(&self.next);
            if let Some(violation) = check.visibility(rank, &statuses, target, writes) {
                return Some(violation);
            }
        }
        if self.space.parts.ahead {
            let nodes: Vec<&Node> =
                self.next.locals.iter().map(|&local| self.automata.nodes[local as usize].as_ref()).collect();
            return self.next.ahead.moved(check, self.space.order, rank, old, &nodes);
        }
        None
    }

    /// The violation in a state without transitions, if any.
    pub(super) fn end(&mut self, state: &State) -> Option<Violation> {
        let deaths = &state.memory.deaths;
        let live = |rank: usize| self.node(state, rank).issued.filter(|_| !deaths.is_down(rank));
        let waits: Vec<Option<Call>> =
            (0..self.space.parts.ranks).map(|rank| live(rank).map(|issued| issued.call)).collect();
        self.sometimes.ended |= waits.iter().all(Option::is_none);
        let learner = self.space.learner();
        let words = (0..learner.slots.len() as u16).map(|slot| (learner.slots.address(slot), state.memory.word(slot)));
        self.space.check.end(&self.statuses(state), &waits, deaths.down, words)
    }

    /// Returns whether no step is possible, even without the bound.
    pub(super) fn is_end(&self, state: &State) -> bool {
        let deaths = &state.memory.deaths;
        (0..self.space.parts.ranks).all(|rank| {
            let waits = || !self.ready(state, rank) && state.memory.posts[rank].is_empty();
            deaths.is_down(rank) || waits() && self.notices(state, rank).next().is_none()
        })
    }
}

impl Encoder<'_> {
    fn encode(&mut self, automata: &Automata, state: &State, bytes: &mut Vec<u8>) -> Result<Permutation, Failure> {
        let Encoder { space, values, symmetry, image, least } = self;
        let mut exactly = |state: &State, bytes: &mut Vec<u8>| {
            while let Err(word) = encode(space.parts, values, state, bytes) {
                let mut all = lock(&space.values);
                all.number(word);
                values.catch_up(&all);
            }
        };
        let Some(symmetry) = symmetry else {
            exactly(state, bytes);
            return Ok(Permutation::IDENTITY);
        };
        if symmetry.lags(state) {
            symmetry.catch_up(&space.learner())?;
        }
        let candidates = symmetry.candidates(state, |node| automata.classes[node as usize]);
        let mut by = Permutation::IDENTITY;
        for (i, permutation) in candidates.iter().enumerate() {
            if *permutation == Permutation::IDENTITY {
                exactly(state, least);
            } else {
                symmetry.apply(state, permutation, image, |learn| learn(&mut space.learner()))?;
                exactly(image, least);
            }
            if i == 0 || *least < *bytes {
                std::mem::swap(least, bytes);
                by = *permutation;
            }
        }
        Ok(by)
    }
}

/// The names of the events that should happen at least once, and whether they did.
pub(super) fn sometimes(space: &Space, seen: &Sometimes) -> Vec<(&'static str, bool)> {
    let check = &space.check;
    let ranks = check.active();
    let all = if ranks >= 64 { u64::MAX } else { (1 << ranks) - 1 };
    // If one of several interchangeable ranks does something, each of them does it in another state.
    let entered = space.groups.iter().fold(seen.entered, |entered, group| {
        let bits = group.iter().fold(0, |bits, rank| bits | 1 << (rank % 64));
        if entered & bits == 0 { entered } else { entered | bits }
    });
    let mut list = vec![("all ranks end", seen.ended)];
    if matches!(check.subject.workload(), Workload::Program(_)) {
        return list;
    }
    if check.scenario.is_endless() {
        list = vec![("every rank enters", entered == all)];
    } else {
        list.insert(0, ("every rank enters in its last acquisition", entered == all));
    }
    if check.some_rank_waits() {
        list.push((WAITED, seen.waited));
    }
    if check.some_rank_gives_up() {
        list.push((GAVE_UP, seen.gave_up));
    }
    if check.scenario.crashes() > 0 {
        list.push((TOLD, seen.told));
    }
    if check.scenario.restarts() > 0 {
        list.push((RE_ENTERED, seen.re_entered));
    }
    if check.scenario.lapses() > 0 {
        list.push((TOOK_OVER, seen.told));
    }
    if check.some_ranks_share() && check.section == Section::Empty {
        list.push((TOGETHER, seen.together));
    }
    list
}
