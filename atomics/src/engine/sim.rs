//! The simulator: ranks as coroutines in virtual time, over a model of a machine's network and processors.
//!
//! [`Simulator`] runs the same blocking code as every other backend, for as many ranks as memory holds (some 5 KiB each).
//! It is deterministic: the same profile and seed give the same result, to the bit. A machine is a [`Profile`]: the times
//! of operations in processors, in adapters and on the network, and the order of waiting messages. `engine.rs` defines
//! the time of each step.
//!
//! # Limits of the model
//!
//! * The network has no contention inside: messages wait at the adapters of their origin and target, not on links. But
//!   the waiting times at a busy target do depend on the way ([`Arbitration`](profile::Arbitration)).
//! * Processors take no time between their operations, except for [`compute`](crate::RemoteAtomics::compute). Caches have
//!   lines, but no sizes.
//! * Bulk transfers through memory take the processor's time, but hold no line.

mod engine;
mod failures;
mod gets;
mod memory;
pub mod network;
pub mod profile;
mod queue;
pub mod settings;
mod stacks;
mod stats;
mod turns;
pub mod units;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub use network::Network;
pub use profile::Profile;
pub use stats::{Busiest, Hottest, OperationKind, Operations, Stats};

use crate::engine::coroutine::{Port, Task};
use crate::model::fabric::{
    AsymmetricFence, Bytes, Completion, DONE, Delay, Extras, Fabric, Failures, Leaving, Span as Range, Word, WordOp,
    WorldView,
};
use crate::{
    Atomicity, Capabilities, Distance, Error, Failed, Rank, Request, Result, SymmetricHeap, Time, Topology, Until, WORD,
};
use engine::{Op, Setting, World};
use failures::Known;
use gets::Gets;
use network::Shape;
use profile::{LocalAtomics, Placement, Span};

/// What each rank runs.
type Body = dyn for<'t> Fn(&Sim<'t>);

/// The reply to an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Done,
    Word(u64),
    TimedOut,
    Failed(Rank),
    /// The rank that had to write the word has left.
    Left(Rank),
}

/// The first rank that has left an obligation undone, and a description of it.
type Forsaken = Cell<Option<(Rank, &'static str)>>;

/// Virtual time, in picoseconds.
struct Clock(Cell<u64>);

/// The options of a simulation besides the machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of ranks.
    pub ranks: u32,
    /// The number of ranks of a node; by default that number of the profile.
    pub ranks_per_node: Option<u32>,
    /// The placement of ranks; by default the profile's.
    pub placement: Option<Placement>,
    /// The number of engines of an adapter; by default the profile's.
    pub engines: Option<u32>,
    /// The part of the machine that executes atomics inside a node; by default the profile's setting.
    pub local_atomics: Option<LocalAtomics>,
    /// The part of the machine that executes bulk operations inside a node; by default the processor.
    pub local_bulk: Option<LocalAtomics>,
    /// The seed of all irregularities.
    pub seed: u64,
    /// Bytes of a rank's segment; only the touched part takes memory.
    pub segment_bytes: u64,
    /// Bytes of a rank's stack; only the touched part takes memory.
    pub stack_bytes: usize,
    /// The time from [a rank's failure](Sim::fail) until all other ranks know of it; `None` for machines whose ranks do not
    /// fail.
    pub detection: Option<Span>,
}

impl Options {
    /// Makes options for this many ranks, with the profile's settings for all else.
    pub fn new(ranks: u32) -> Options {
        Options {
            ranks,
            ranks_per_node: None,
            placement: None,
            engines: None,
            local_atomics: None,
            local_bulk: None,
            seed: 1,
            segment_bytes: crate::SEGMENT_BYTES,
            stack_bytes: 64 << 10,
            detection: None,
        }
    }
}

/// The progress of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Events that were handled.
    pub events: u64,
    /// Virtual time.
    pub now: Span,
    /// Ranks that have ended.
    pub ended: u32,
    /// All ranks.
    pub size: u32,
}

/// The outcome of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<R> {
    /// The results of the ranks.
    pub results: Vec<R>,
    /// The counts.
    pub stats: Stats,
}

/// A machine with ranks on it, ready to run code.
#[derive(Clone, Debug)]
pub struct Simulator {
    profile: Profile,
    options: Options,
    network: Network,
    topology: Arc<Topology>,
    ranks_per_node: u32,
}

/// The smallest memory of a rank, in bytes: a page of stack, its part of a page table, and the simulator's own state.
const BYTES_PER_RANK: u64 = 4096 + 1024;

impl Simulator {
    /// Makes a machine with this profile.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there are 0 ranks, or 0 ranks a node, when the network cannot have that many nodes, and when
    /// the available memory cannot hold that many ranks.
    pub fn new(profile: &Profile, options: &Options) -> Result<Simulator> {
        let ranks = options.ranks;
        let one_node = matches!(profile.shape, Shape::OneNode);
        let ranks_per_node = if one_node { ranks } else { options.ranks_per_node.unwrap_or(profile.ranks_per_node) };
        let engines = options.engines.unwrap_or(profile.nic.engines);
        if ranks == 0 || ranks_per_node == 0 || engines == 0 || profile.node.sockets == 0 {
            return Err(Error::world(format!(
                "a simulation of {ranks} ranks, {ranks_per_node} a node, on profile {} with {engines} engines and {} \
                 sockets: each must be at least 1",
                profile.name, profile.node.sockets
            )));
        }
        let needed = u64::from(ranks) * BYTES_PER_RANK;
        if let Some(available) = available_memory()
            && needed > available
        {
            return Err(Error::world(format!(
                "{ranks} ranks take {:.1} GiB of memory at least, and {:.1} GiB are available: some {} ranks fit",
                gib(needed),
                gib(available),
                available / BYTES_PER_RANK
            )));
        }
        let nodes = ranks.div_ceil(ranks_per_node);
        let network = Network::new(&profile.shape, nodes)?;
        let topology = match (&profile.shape, options.placement.unwrap_or(profile.placement)) {
            // On one node, the sockets are the nodes of the locks' topology.
            (Shape::OneNode, _) => Topology::blocks(ranks, ranks.div_ceil(profile.node.sockets), profile.node.sockets)?,
            (shape, Placement::Block) => Topology::blocks(ranks, ranks_per_node, rack(shape, nodes))?,
            (shape, Placement::Cyclic) => {
                let rack = rack(shape, nodes);
                Topology::of_places((0..ranks).map(|rank| (rank % nodes, rank % nodes / rack)))
            }
        };
        Ok(Simulator {
            profile: profile.clone(),
            options: options.clone(),
            network,
            topology: Arc::new(topology),
            ranks_per_node,
        })
    }

    fn local_atomics(&self) -> LocalAtomics {
        self.options.local_atomics.unwrap_or(self.profile.local_atomics)
    }

    /// Returns the time of a fence by one rank for all ranks: only processors have one, and only for their own node.
    fn fence(&self) -> Option<Span> {
        let is_shared = self.profile.shape == Shape::OneNode && self.local_atomics() == LocalAtomics::Processor;
        self.profile.node.fence.filter(|_| is_shared)
    }

    /// Returns the topology of the ranks, as their code sees it.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Runs `body` as the code of each rank, until all have returned.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when a rank panics or when ranks wait forever, [`Error::RankEnded`] when a rank has left with
    /// [an obligation undone](crate::RemoteAtomics::forsake), and [`Error::System`] when their stacks cannot be mapped.
    pub fn run<R: 'static>(&self, body: impl for<'t> Fn(&Sim<'t>) -> R + 'static) -> Result<Outcome<R>> {
        self.run_with(body, &mut |_| true)
    }

    /// Like [`run`](Self::run), and also reports the progress every 65,536 events. It stops when the report returns
    /// `false`.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), and [`Error::World`] when it was stopped.
    pub fn run_with<R: 'static>(
        &self,
        body: impl for<'t> Fn(&Sim<'t>) -> R + 'static,
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Outcome<R>> {
        let results: Vec<Option<R>> = (0..self.options.ranks).map(|_| None).collect();
        let results = Rc::new(RefCell::new(results));
        let kept = Rc::clone(&results);
        let body: Rc<Body> = Rc::new(move |sim: &Sim<'_>| {
            let value = body(sim);
            kept.borrow_mut()[sim.view.rank().index()] = Some(value);
        });
        let stats = self.run_each(&body, progress)?;
        let results = results.take().into_iter().map(|result| result.expect("every rank has ended")).collect();
        Ok(Outcome { results, stats })
    }

    /// Runs a body that keeps its own results, so that the engine is compiled once for all of them.
    fn run_each(&self, body: &Rc<Body>, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<Stats> {
        let clock = Rc::new(Clock(Cell::new(0)));
        let gets = Rc::new(Gets::default());
        let forsaken = Rc::new(Forsaken::default());
        let known = Rc::new(Known::new(self.options.ranks, self.options.detection));
        let shared = Rc::new(Shared {
            clock: Rc::clone(&clock),
            gets: Rc::clone(&gets),
            forsaken: Rc::clone(&forsaken),
            known: Rc::clone(&known),
            topology: Arc::clone(&self.topology),
            // Whole words, like on the other backends.
            segment: self.options.segment_bytes.checked_next_multiple_of(WORD).unwrap_or(u64::MAX - WORD + 1),
            word_adapter: self.local_atomics() == LocalAtomics::Nic,
            capabilities: Capabilities {
                late_puts: true,
                // Words do not overtake bytes on their way to one target.
                ordered_puts: self.local_atomics() == LocalAtomics::Nic
                    || self.options.local_bulk != Some(LocalAtomics::Nic),
                atomicity: Atomicity::Global,
                asymmetric_fence: self.fence().is_some(),
                ..Capabilities::coherent("sim")
            },
            fence: self.fence(),
        });
        let stacks = stacks::Stacks::new(self.options.ranks as usize, self.options.stack_bytes)?;
        let mut tasks: Vec<engine::RankTask> = (0..self.options.ranks)
            .map(|rank| {
                let (body, shared) = (Rc::clone(body), Rc::clone(&shared));
                Task::on(stacks.take(rank as usize), move |port| {
                    let (segment, topology) = (shared.segment, Arc::clone(&shared.topology));
                    let heap = SymmetricHeap::new(segment);
                    let view = WorldView::new(Rank(rank), segment, shared.capabilities, topology, heap);
                    let view = view.expect("the options were checked");
                    let sim = Sim {
                        port,
                        shared,
                        view,
                        forsaken: OnceCell::new(),
                        has_failed: Cell::new(false),
                        acknowledged: RefCell::default(),
                        generation: Cell::new(0),
                    };
                    body(&sim);
                    sim.leave();
                })
            })
            .collect();
        let setting = Setting {
            size: self.options.ranks,
            ranks_per_node: self.ranks_per_node,
            cyclic: matches!(self.options.placement.unwrap_or(self.profile.placement), Placement::Cyclic)
                && !matches!(self.profile.shape, Shape::OneNode),
            engines: self.options.engines.unwrap_or(self.profile.nic.engines),
            local_atomics: self.local_atomics(),
            local_bulk: self.options.local_bulk,
            seed: self.options.seed,
        };
        let mut world = World::new(&self.profile, &self.network, &setting, clock, gets, known);
        let ended = world.run(&mut tasks, progress, &forsaken);
        for task in &mut tasks {
            // After an error some ranks have not ended.
            task.unwind();
        }
        ended?;
        Ok(world.stats())
    }
}

/// Returns the number of nodes of a rack: nodes that are near each other in the network.
fn rack(shape: &Shape, nodes: u32) -> u32 {
    let rack = match shape {
        Shape::OneNode => 1,
        Shape::Torus { fixed, .. } => fixed.iter().product(),
        Shape::Dragonfly { nodes, routers } => nodes * routers,
        Shape::FatTree { down } => down.first().copied().unwrap_or(1),
    };
    if rack <= 1 { nodes } else { rack }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

/// Returns the bytes that the kernel can provide without swapping; `None` where it does not report them.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The state that all ranks share.
struct Shared {
    clock: Rc<Clock>,
    gets: Rc<Gets>,
    forsaken: Rc<Forsaken>,
    known: Rc<Known>,
    topology: Arc<Topology>,
    segment: u64,
    capabilities: Capabilities,
    /// True if word operations within a node go through its adapter.
    word_adapter: bool,
    /// The time of a fence by one rank for all ranks, if they have one.
    fence: Option<Span>,
}

/// One rank of a simulated machine.
pub struct Sim<'t> {
    port: &'t Port<'t, Reply, Op>,
    shared: Rc<Shared>,
    view: WorldView,
    forsaken: OnceCell<&'static str>,
    has_failed: Cell<bool>,
    /// The failures that this rank has acknowledged.
    acknowledged: RefCell<Failed>,
    /// The generation of this rank's world.
    generation: Cell<u32>,
}

impl fmt::Debug for Sim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("rank", &self.view.rank()).finish_non_exhaustive()
    }
}

impl Sim<'_> {
    /// Returns the virtual time, to the picosecond.
    pub fn time(&self) -> Span {
        Span(self.shared.clock.0.get())
    }

    /// Waits until all ranks have called this, and then restarts the [`Stats`] from zero, except for their events, end and
    /// lines. It takes no virtual time: all ranks return at the time of the last call.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`] when a rank has failed.
    pub fn begin_stats(&self) -> Result<()> {
        self.tell(Op::BeginStats)
    }

    /// Ends the [`Stats`], except for their events, end and lines. The first call of any rank counts.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`] when a rank has failed.
    pub fn end_stats(&self) -> Result<()> {
        self.tell(Op::EndStats)
    }

    #[inline]
    fn call(&self, op: Op) -> Result<Reply> {
        // A rank that unwinds gets no answer: its coroutine cannot stop here, since `panicking` is a state of the whole
        // thread.
        if std::thread::panicking() {
            return Err(Error::PeerFailed { rank: self.view.rank() });
        }
        match self.port.call(op) {
            Reply::Failed(rank) => Err(Error::PeerFailed { rank }),
            Reply::Left(rank) => Err(Error::PeerLeft { rank }),
            reply => Ok(reply),
        }
    }

    /// Leaves the world, and reports an obligation that is left undone, unless the rank has failed.
    fn leave(&self) {
        if self.has_failed.get() {
            return;
        }
        if let (Some(&what), None) = (self.forsaken.get(), self.shared.forsaken.get()) {
            self.shared.forsaken.set(Some((self.view.rank(), what)));
        }
    }

    /// Returns whether the word operation goes through an adapter, so that this rank's processor is free during it.
    fn adapter_carries_out(&self, target: Rank, op: WordOp) -> bool {
        match self.view.topology().distance(self.view.rank(), target) {
            Distance::Remote => true,
            Distance::Node => self.shared.word_adapter,
            Distance::Own => self.shared.word_adapter && op != WordOp::Get,
        }
    }

    /// Makes a word operation, and returns the answered word.
    #[inline]
    fn answer(&self, op: Op) -> Result<u64> {
        match self.call(op)? {
            Reply::Word(word) => Ok(word),
            reply => panic!("{op:?} was answered by {reply:?}"),
        }
    }

    #[inline]
    fn tell(&self, op: Op) -> Result<()> {
        self.call(op).map(drop)
    }
}

impl Fabric for Sim<'_> {
    fn view(&self) -> &WorldView {
        &self.view
    }

    #[inline]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        let call = Op::Word { at: at.address(), op };
        match op {
            WordOp::Put(_) => self.tell(call).map(|()| 0),
            _ => self.answer(call),
        }
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        if matches!(op, WordOp::Put(_)) || !self.adapter_carries_out(at.rank(), op) {
            let old = self.word(at, op)?;
            // SAFETY: the caller's promise.
            unsafe { result.write(old) };
            return Ok(DONE);
        }
        self.answer(Op::Start { at: at.address(), op, result }).map(Request)
    }

    unsafe fn transfer(&self, at: Range, bytes: Bytes, until: Completion) -> Result<Request> {
        let (address, len) = (at.address(), at.len());
        match bytes {
            Bytes::Put(source) => self.tell(Op::PutBytes { at: address, source, len })?,
            Bytes::Get(dest) => {
                let request = Request(self.answer(Op::GetBytes { at: address, dest, len })?);
                if until == Completion::Request {
                    return Ok(request);
                }
                self.finish(request)?;
            }
            Bytes::Clear => {
                for start in (0..len).step_by(ZEROS.len()) {
                    let at = address.rank.at(address.disp.plus(start as u64));
                    let len = (len - start).min(ZEROS.len());
                    self.tell(Op::PutBytes { at, source: ZEROS.as_ptr(), len })?;
                    self.complete(Some(at.rank))?;
                }
            }
        }
        if until == Completion::Target && matches!(bytes, Bytes::Put(_)) {
            self.complete(Some(at.rank()))?;
        }
        // The bytes of a put were copied.
        Ok(DONE)
    }

    fn done(&self, request: &Request) -> Result<bool> {
        self.answer(Op::Test { request: request.0 }).map(|done| done != 0)
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.tell(Op::Wait { request: request.0 }).inspect_err(|_| self.shared.gets.give_up(request.0))
    }

    /// If it fails, the engine no longer accesses the buffers of these gets.
    fn complete(&self, target: Option<Rank>) -> Result<()> {
        let give_up = |_: &Error| self.shared.gets.give_up_all(self.view.rank(), target);
        self.tell(Op::Flush { target }).inspect_err(give_up)
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let deadline = deadline.map(|deadline| deadline.0.saturating_mul(1000));
        match self.call(Op::WaitUntil { own: own.disp(), until, deadline, writer: None })? {
            Reply::Word(word) => Ok(Some(word)),
            _ => Ok(None),
        }
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.tell(match delay {
            Delay::Operations(operations) => Op::Pause { operations },
            Delay::Compute(time) => {
                Op::Compute { time: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000) }
            }
        })
    }

    fn clock(&self) -> Time {
        if std::thread::panicking() {
            return Time(u64::MAX);
        }
        Time(self.shared.clock.0.get() / 1000)
    }

    fn extras(&self) -> Extras<'_> {
        let failures = self.shared.known.detection().map(|_| self as &dyn Failures);
        let fence = self.shared.fence.map(|_| self as &dyn AsymmetricFence);
        Extras { leaving: Some(self), failures, fence, ..Extras::default() }
    }
}

impl AsymmetricFence for Sim<'_> {
    /// Does nothing: a rank's put takes effect sooner than any fence ends.
    fn fence_light(&self) {}

    fn fence_everywhere(&self) -> Result<bool> {
        match self.shared.fence {
            Some(Span(time)) => self.tell(Op::Compute { time }).map(|()| true),
            None => Ok(false),
        }
    }
}

impl Leaving for Sim<'_> {
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        self.answer(Op::WaitUntil { own: own.disp(), until, deadline: None, writer: Some(writer) })
    }

    fn forsake(&self, what: &'static str) {
        // The error names the first rank.
        let _ = self.forsaken.set(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.forsaken.get().copied()
    }
}

/// The zeros that a clear writes at a time.
static ZEROS: [u8; 4096] = [0; 4096];
