//! The event loop: it executes the calls of all ranks at their times.
//!
//! # An operation through adapters
//!
//! | step | when |
//! | --- | --- |
//! | the origin's processor starts it | `overhead` |
//! | it leaves the origin's adapter, one message every `gap` + bytes × `byte` | when the adapter is free |
//! | it arrives, its bytes while they still leave | `wire` + hops × `hop` (`loopback` to the same node) + jitter |
//! | an engine of the target's adapter serves it | when the engine is free, and by turns ([`Arbitration`]) |
//! | an atomic occupies its word for `word`, after `atomic` in the engine alone | when the word is free |
//! | it takes effect | then |
//! | the bytes of a get leave the target's adapter, bytes × `byte` | when that is free |
//! | the answer arrives, and the processor notices | the way back, `completion` |
//!
//! Posted puts leave the origin after `overhead`, and are complete when their acknowledgement would arrive. Messages of a
//! rank to one target arrive in the order of sending.
//!
//! # An operation by a processor
//!
//! Writing accesses to a line take turns. Each takes `hit` or `atomic`, and a transfer (`core`, `socket`) if another core,
//! or the adapter, has written the line since. It takes effect at its end. The core that has a line goes on using it for a
//! part of the transfer (`keep`), until it learns that another core wants the line. So if two cores always want a line,
//! each makes many operations on it before it moves, like real cores. A core that reads a line on its way to a writer waits
//! for that write. A core's stores take effect in order, while the core continues. Its atomics wait for the stores before
//! them. A rank that waits for its own word notices a change one transfer, and `notice`, after it.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::failures::Known;
use super::gets::Gets;
use super::memory::{ADAPTER, Before, Memory, NO_CORE};
use super::network::{Network, Shape};
use super::profile::{Arbitration, Jitter, LocalAtomics, Profile, Span};
use super::queue::{Event, Queue};
use super::stacks::SlabStack;
use super::stats::{Busiest, Hottest, OperationKind, Operations, Stats};
use super::turns::RoundRobin;
use super::{Clock, Forsaken, Progress, Reply};
use crate::backend::mapped::OPERATION;
use crate::engine::coroutine::{Task, Turn};
use crate::model::fabric::WordOp;
use crate::random::Random;
use crate::{Address, Disp, Distance, Error, Rank, Result, Until, WORD};

/// The operations of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Word {
        at: Address,
        op: WordOp,
    },
    /// A word operation through an adapter, without a wait.
    Start {
        at: Address,
        op: WordOp,
        result: *mut u64,
    },
    PutBytes {
        at: Address,
        source: *const u8,
        len: usize,
    },
    GetBytes {
        at: Address,
        dest: *mut u8,
        len: usize,
    },
    Test {
        request: u64,
    },
    Wait {
        request: u64,
    },
    Flush {
        target: Option<Rank>,
    },
    WaitUntil {
        own: Disp,
        until: Until,
        deadline: Option<u64>,
        /// The only rank that still has to write the word, if that is known.
        writer: Option<Rank>,
    },
    Pause {
        operations: u32,
    },
    Compute {
        time: u64,
    },
    /// Waits for all ranks, without virtual time, and begins the counts.
    BeginStats,
    /// Ends the counts.
    EndStats,
    /// The rank fails.
    Fail,
    /// Waits until no message of a failed rank is under way.
    Silence {
        rank: Rank,
    },
}

/// The load of a message.
#[derive(Debug)]
enum Load {
    Word(WordOp),
    /// The started operation with this number.
    Started {
        request: u64,
        op: WordOp,
    },
    PutBytes(Box<[u8]>),
    /// The get with this number, and the number of its bytes.
    GetBytes {
        request: u64,
        len: usize,
    },
    /// The bytes of a get, or the result of a started operation, with this number, on their way back.
    Bytes {
        request: u64,
        bytes: Box<[u8]>,
    },
}

#[derive(Debug)]
struct Message {
    origin: Rank,
    at: Address,
    load: Load,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The rank continues with the reply in its state.
    Resume(u32),
    /// The message has arrived at its target's adapter.
    Arrive(u32),
    /// An engine has served the message.
    Served(u32),
    /// A processor has executed the message.
    Local(u32),
    /// The bytes of a get have arrived at the origin.
    Back(u32),
    /// The deadline of the wait with this number has passed.
    Deadline(u32, u32),
    /// All ranks learn that the rank has failed.
    Known(u32),
}

/// The condition that a rank waits for.
#[derive(Clone, Copy, Debug)]
enum Blocked {
    /// The time of an event; the reply is already there.
    Reply(Reply),
    /// The answer of a message.
    Message,
    /// Its own word, and the rank that still has to write it, if that is known.
    Word(Disp, Until, Option<Rank>),
    Request(u64),
    Flush(Option<Rank>),
    /// All other ranks, at [`Op::BeginStats`].
    All,
    /// The messages of a failed rank.
    Silence(Rank),
    /// The rank has ended.
    Ended,
}

struct RankState {
    blocked: Blocked,
    /// Counts waits with deadlines, so that old deadlines are recognized.
    wait: u32,
    /// The number of incomplete messages.
    outstanding: u32,
    /// The time at which the last of the complete messages is complete at this rank.
    complete: u64,
    /// The time at which the last of the processor's stores takes effect.
    stored: u64,
    /// True once the rank has failed by its own call.
    is_down: bool,
}

/// The incomplete messages of a rank to a target.
#[derive(Default)]
struct Channel {
    outstanding: u32,
    /// The time at which the last message arrives.
    arrives: u64,
    /// The time at which all served messages are complete at the origin.
    complete: u64,
}

#[derive(Default)]
struct Adapter {
    /// The time at which the next message can leave.
    leaves: u64,
    engines: Vec<Engine>,
    served: u64,
    busy: u64,
    /// The sum of waiting messages times the time that they waited, until `counted`.
    area: u128,
    counted: u64,
    waiting: u32,
    longest: u32,
}

#[derive(Default)]
struct Engine {
    busy: bool,
    turns: RoundRobin,
}

/// The part of the [`Stats`] that begins and ends with the ranks' calls.
struct Counts {
    operations: Operations,
    busiest: Option<Busiest>,
    hottest: Option<Hottest>,
}

/// A rank's code.
pub(super) type RankTask = Task<Reply, Op, (), SlabStack>;

pub(super) struct World<'p> {
    profile: &'p Profile,
    network: &'p Network,
    ranks_per_node: u32,
    cyclic: bool,
    engines: u32,
    local_atomics: LocalAtomics,
    local_bulk: Option<LocalAtomics>,
    clock: Rc<Clock>,
    queue: Queue<What>,
    ranks: Vec<RankState>,
    memory: Memory,
    adapters: Vec<Adapter>,
    messages: Vec<Option<Message>>,
    free: Vec<u32>,
    channels: FxHashMap<u64, Channel>,
    gets: Rc<Gets>,
    /// The random numbers for messages.
    random: Random,
    /// The random numbers for lines.
    lines: Random,
    events: u64,
    operations: Operations,
    /// The number of ranks that wait for all others.
    waiting: u32,
    /// The time at which the counts began.
    counted_from: u64,
    /// The counts, once they have ended.
    counts: Option<Counts>,
    /// The rank whose failure ends the simulation.
    failed: Option<Rank>,
    /// The failures that do not.
    known: Rc<Known>,
    ended: u32,
    resumed: Vec<(u32, Reply)>,
}

/// The placement of a world's ranks, and the part of the machine that executes their operations inside a node.
pub(super) struct Setting {
    pub(super) size: u32,
    pub(super) ranks_per_node: u32,
    pub(super) cyclic: bool,
    pub(super) engines: u32,
    pub(super) local_atomics: LocalAtomics,
    pub(super) local_bulk: Option<LocalAtomics>,
    pub(super) seed: u64,
}

impl<'p> World<'p> {
    pub(super) fn new(
        profile: &'p Profile,
        network: &'p Network,
        setting: &Setting,
        clock: Rc<Clock>,
        gets: Rc<Gets>,
        known: Rc<Known>,
    ) -> World<'p> {
        let state = || RankState {
            blocked: Blocked::Reply(Reply::Done),
            wait: 0,
            outstanding: 0,
            complete: 0,
            stored: 0,
            is_down: false,
        };
        World {
            profile,
            network,
            ranks_per_node: setting.ranks_per_node,
            cyclic: setting.cyclic,
            engines: setting.engines,
            local_atomics: setting.local_atomics,
            local_bulk: setting.local_bulk,
            clock,
            queue: Queue::new(),
            ranks: (0..setting.size).map(|_| state()).collect(),
            memory: Memory::default(),
            adapters: (0..network.nodes()).map(|_| Adapter::default()).collect(),
            messages: Vec::new(),
            free: Vec::new(),
            channels: FxHashMap::default(),
            gets,
            random: Random::new(setting.seed, 0),
            lines: Random::new(setting.seed, 1),
            events: 0,
            operations: Operations::default(),
            waiting: 0,
            counted_from: 0,
            counts: None,
            failed: None,
            known,
            ended: 0,
            resumed: Vec::new(),
        }
    }

    /// Runs all ranks to their ends.
    pub(super) fn run(
        &mut self,
        tasks: &mut [RankTask],
        progress: &mut dyn FnMut(&Progress) -> bool,
        forsaken: &Forsaken,
    ) -> Result<()> {
        let size = tasks.len() as u32;
        let mut panicked = None;
        for rank in 0..size {
            self.queue.push(0, What::Resume(rank));
        }
        while let Some(event) = self.queue.pop().or_else(|| self.next_after_the_last(forsaken)) {
            self.clock.0.set(event.time);
            self.events += 1;
            if self.events.is_multiple_of(PROGRESS) {
                let told = Progress { events: self.events, now: Span(event.time), ended: self.ended, size };
                if !progress(&told) {
                    return Err(Error::world(format!(
                        "the simulation was stopped after {} events, at {} ns; {} of {size} ranks had ended",
                        self.events,
                        event.time / 1000,
                        self.ended
                    )));
                }
            }
            self.handle(event.what);
            while let Some((rank, reply)) = self.resumed.pop() {
                match tasks[rank as usize].resume(reply) {
                    Turn::Calls(op) => self.call(rank, op),
                    Turn::Finished(()) => self.end(rank),
                    Turn::Panicked(text) => {
                        self.end(rank);
                        if panicked.is_none() {
                            panicked = Some(format!("{} of the simulation panicked: {text}", Rank(rank)));
                            self.fail(rank);
                        }
                    }
                }
            }
        }
        if let Some(text) = panicked {
            return Err(Error::world(text));
        }
        if let Some((rank, what)) = forsaken.get() {
            return Err(Error::RankEnded { rank, how: format!("{rank} has left with {what}").into() });
        }
        if self.ended < size {
            return Err(self.stuck());
        }
        Ok(())
    }

    /// Returns the next event when the queue is empty: a rank learns that the rank it waits for has left.
    ///
    /// This waits for an empty queue, since a rank's posts may arrive after it has left.
    #[cold]
    fn next_after_the_last(&mut self, forsaken: &Forsaken) -> Option<Event<What>> {
        if let (Some((rank, _)), None) = (forsaken.get(), self.failed) {
            self.fail(rank.0);
        }
        for waiting in 0..self.ranks.len() as u32 {
            if let Blocked::Word(.., Some(writer)) = self.ranks[waiting as usize].blocked
                && matches!(self.ranks[writer.index()].blocked, Blocked::Ended)
            {
                self.reply(waiting, self.now(), Reply::Left(writer));
            }
        }
        self.queue.pop()
    }

    fn end(&mut self, rank: u32) {
        self.ranks[rank as usize].blocked = Blocked::Ended;
        self.ended += 1;
    }

    /// Marks `rank` as failed, which ends the simulation: all waits for other ranks fail, and so do all further calls.
    fn fail(&mut self, rank: u32) {
        self.failed = Some(Rank(rank));
        for waiting in 0..self.ranks.len() as u32 {
            if matches!(self.ranks[waiting as usize].blocked, Blocked::Word(..) | Blocked::All) {
                self.reply(waiting, self.now(), Reply::Failed(Rank(rank)));
            }
        }
    }

    fn stuck(&self) -> Error {
        let waits = self.ranks.iter().enumerate().filter(|(_, state)| !matches!(state.blocked, Blocked::Ended));
        let shown: Vec<String> = waits
            .take(4)
            .map(|(rank, state)| match state.blocked {
                Blocked::Word(own, until, _) => format!("rank {rank} until its word {own} is {until}"),
                other => format!("rank {rank} in {other:?}"),
            })
            .collect();
        Error::world(format!(
            "{} of {} ranks wait forever, from {} ns of virtual time on: {}{}",
            self.ranks.len() as u32 - self.ended,
            self.ranks.len(),
            self.now() / 1000,
            shown.join(", "),
            if self.ranks.len() as u32 - self.ended > 4 { ", ..." } else { "" }
        ))
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.0.get()
    }

    #[inline]
    fn node_of(&self, rank: Rank) -> u32 {
        if self.cyclic { rank.0 % self.network.nodes() } else { rank.0 / self.ranks_per_node }
    }

    /// Returns the socket of a rank in its node.
    fn socket_of(&self, rank: u32) -> u32 {
        let place = if self.cyclic { rank / self.network.nodes() } else { rank % self.ranks_per_node };
        place / self.ranks_per_node.div_ceil(self.profile.node.sockets)
    }

    fn distance(&self, a: Rank, b: Rank) -> Distance {
        if a == b {
            Distance::Own
        } else if self.node_of(a) == self.node_of(b) {
            Distance::Node
        } else {
            Distance::Remote
        }
    }

    fn handle(&mut self, what: What) {
        match what {
            What::Resume(rank) => {
                if let Blocked::Reply(reply) = self.ranks[rank as usize].blocked {
                    self.resumed.push((rank, reply));
                }
            }
            What::Arrive(message) => self.arrive(message),
            What::Served(message) => self.served(message),
            What::Local(message) => self.local_done(message),
            What::Back(message) => self.back(message),
            What::Deadline(rank, wait) => {
                let state = &mut self.ranks[rank as usize];
                if state.wait == wait && matches!(state.blocked, Blocked::Word(..)) {
                    state.blocked = Blocked::Reply(Reply::TimedOut);
                    self.resumed.push((rank, Reply::TimedOut));
                }
            }
            What::Known(rank) => {
                self.known.add(Rank(rank));
                for waiting in 0..self.ranks.len() as u32 {
                    if matches!(self.ranks[waiting as usize].blocked, Blocked::Word(..) | Blocked::All)
                        && let Some(failed) = self.known.news(waiting)
                    {
                        self.reply(waiting, self.now(), Reply::Failed(failed));
                    }
                }
            }
        }
    }

    /// Answers `rank` at `time`.
    #[inline]
    fn reply(&mut self, rank: u32, time: u64, reply: Reply) {
        self.ranks[rank as usize].blocked = Blocked::Reply(reply);
        self.queue.push(time, What::Resume(rank));
    }

    fn call(&mut self, rank: u32, op: Op) {
        let (now, me) = (self.now(), Rank(rank));
        if let Some(failed) = self.failed {
            self.resumed.push((rank, Reply::Failed(failed)));
            return;
        }
        if self.ranks[rank as usize].is_down {
            self.resumed.push((rank, Reply::Failed(me)));
            return;
        }
        match op {
            Op::Word { at, op: op @ WordOp::Put(_) } => {
                let distance = self.distance(me, at.rank);
                self.operations.add(OperationKind::Put, distance);
                let message = self.message(Message { origin: me, at, load: Load::Word(op) });
                self.post(message, rank, distance, WORD as usize, self.local_atomics);
            }
            Op::Word { at, op } => {
                let distance = self.distance(me, at.rank);
                let kind = if op == WordOp::Get { OperationKind::Get } else { OperationKind::Atomic };
                self.operations.add(kind, distance);
                self.ranks[rank as usize].blocked = Blocked::Message;
                let message = self.message(Message { origin: me, at, load: Load::Word(op) });
                let adapter = matches!(self.local_atomics, LocalAtomics::Nic);
                match distance {
                    Distance::Remote => self.send(message, 0),
                    Distance::Own if adapter && kind == OperationKind::Get => self.local(message),
                    _ if adapter => self.send(message, 0),
                    _ => self.local(message),
                }
            }
            Op::Start { at, op, result } => {
                let kind = if op == WordOp::Get { OperationKind::Get } else { OperationKind::Atomic };
                self.operations.add(kind, self.distance(me, at.rank));
                let request = self.gets.begin(me, at.rank, result.cast());
                let message = self.message(Message { origin: me, at, load: Load::Started { request, op } });
                self.open(rank, at.rank);
                self.send(message, 0);
                self.reply(rank, now + self.profile.overhead.0, Reply::Word(request));
            }
            Op::PutBytes { at, source, len } => {
                let distance = self.distance(me, at.rank);
                self.operations.add(OperationKind::Bulk, distance);
                let mut bytes = vec![0; len].into_boxed_slice();
                // SAFETY: the rank is suspended inside `put_bytes_nb`, whose caller vouches for `len` bytes at `source`.
                unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
                let message = self.message(Message { origin: me, at, load: Load::PutBytes(bytes) });
                // By default the processor executes puts of bytes, like gets, since atomics do not conflict with them.
                self.post(message, rank, distance, len, self.local_bulk.unwrap_or(LocalAtomics::Processor));
            }
            Op::GetBytes { at, dest, len } => {
                let distance = self.distance(me, at.rank);
                self.operations.add(OperationKind::Bulk, distance);
                let request = self.gets.begin(me, at.rank, dest);
                let message = self.message(Message { origin: me, at, load: Load::GetBytes { request, len } });
                self.open(rank, at.rank);
                let adapter = matches!(self.local_bulk, Some(LocalAtomics::Nic));
                let started = if distance == Distance::Remote || (distance == Distance::Node && adapter) {
                    self.send(message, 0);
                    self.profile.overhead.0
                } else {
                    self.local(message);
                    self.profile.node.hit.0
                };
                self.reply(rank, now + started, Reply::Word(request));
            }
            Op::Test { request } => {
                let done = !self.gets.is_under_way(request);
                self.reply(rank, now + self.profile.node.hit.0, Reply::Word(u64::from(done)));
            }
            Op::Wait { request } => {
                if self.gets.is_under_way(request) {
                    self.ranks[rank as usize].blocked = Blocked::Request(request);
                } else {
                    self.resumed.push((rank, Reply::Done));
                }
            }
            Op::Flush { target } => self.flush(rank, target),
            Op::WaitUntil { own, until, deadline, writer } => self.wait_until(me, (own, until), deadline, writer),
            Op::Pause { operations } => {
                if let Some(failed) = self.known.news(rank) {
                    self.resumed.push((rank, Reply::Failed(failed)));
                    return;
                }
                // Without a network, it is the pause of the backend of such a machine.
                let one = match self.profile.shape {
                    Shape::OneNode => OPERATION * 1000,
                    _ => self.profile.remote_word(1).0,
                };
                let time = u64::from(operations.max(1)) * one + self.profile.node.pause.0;
                self.reply(rank, now + time, Reply::Done);
            }
            Op::Compute { time } => self.reply(rank, now + time, Reply::Done),
            Op::BeginStats => {
                if let Some(failed) = self.known.first() {
                    self.resumed.push((rank, Reply::Failed(failed)));
                    return;
                }
                self.ranks[rank as usize].blocked = Blocked::All;
                self.waiting += 1;
                if self.waiting as usize == self.ranks.len() {
                    self.waiting = 0;
                    self.begin_counts();
                    for rank in 0..self.ranks.len() as u32 {
                        self.reply(rank, now, Reply::Done);
                    }
                }
            }
            Op::EndStats => {
                if self.counts.is_none() {
                    self.counts = Some(self.counts());
                }
                self.resumed.push((rank, Reply::Done));
            }
            Op::Fail => {
                self.ranks[rank as usize].is_down = true;
                let detection = self.known.detection().map_or(0, |detection| detection.0);
                self.queue.push(now + detection, What::Known(rank));
                self.resumed.push((rank, Reply::Done));
            }
            Op::Silence { rank: failed } => {
                if self.ranks[failed.index()].outstanding == 0 {
                    self.resumed.push((rank, Reply::Done));
                } else {
                    self.ranks[rank as usize].blocked = Blocked::Silence(failed);
                }
            }
        }
    }

    fn message(&mut self, message: Message) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.messages[index as usize] = Some(message);
                index
            }
            None => {
                self.messages.push(Some(message));
                (self.messages.len() - 1) as u32
            }
        }
    }

    fn peek(&self, message: u32) -> &Message {
        self.messages[message as usize].as_ref().expect("a message under way is there")
    }

    fn take(&mut self, message: u32) -> Message {
        self.free.push(message);
        self.messages[message as usize].take().expect("a message under way is there")
    }

    // Adapters.

    fn channel(rank: u32, target: Rank) -> u64 {
        (u64::from(rank) << 32) | u64::from(target.0)
    }

    /// Counts a message of `rank` to `target` for which the rank does not wait.
    fn open(&mut self, rank: u32, target: Rank) {
        self.ranks[rank as usize].outstanding += 1;
        self.channels.entry(Self::channel(rank, target)).or_default().outstanding += 1;
    }

    /// Notes that a message for which `rank` does not wait is complete at `time`.
    fn close(&mut self, rank: u32, target: Rank, time: u64) {
        let state = &mut self.ranks[rank as usize];
        state.outstanding -= 1;
        state.complete = state.complete.max(time);
        let key = Self::channel(rank, target);
        let mut left = 0;
        if let Some(channel) = self.channels.get_mut(&key) {
            channel.outstanding -= 1;
            channel.complete = channel.complete.max(time);
            left = channel.outstanding;
        }
        let now = self.now();
        let state = &self.ranks[rank as usize];
        if state.is_down && state.outstanding == 0 {
            for waiting in 0..self.ranks.len() as u32 {
                if matches!(self.ranks[waiting as usize].blocked, Blocked::Silence(failed) if failed.0 == rank) {
                    self.reply(waiting, now, Reply::Done);
                }
            }
        }
        match self.ranks[rank as usize].blocked {
            Blocked::Flush(Some(waited)) if waited == target && left == 0 => {
                let complete = self.channels.remove(&key).map_or(now, |channel| channel.complete);
                self.reply(rank, complete.max(now) + self.profile.completion.0, Reply::Done);
            }
            Blocked::Flush(None) if self.ranks[rank as usize].outstanding == 0 => {
                let complete = self.ranks[rank as usize].complete;
                self.reply(rank, complete.max(now) + self.profile.completion.0, Reply::Done);
            }
            _ => {}
        }
    }

    fn post(&mut self, message: u32, rank: u32, distance: Distance, bytes: usize, in_node: LocalAtomics) {
        let adapter = match distance {
            Distance::Remote => true,
            Distance::Node => matches!(in_node, LocalAtomics::Nic),
            Distance::Own => false,
        };
        let target = self.peek(message).at.rank;
        self.open(rank, target);
        let now = self.now();
        if adapter {
            self.send(message, bytes);
            self.reply(rank, now + self.profile.overhead.0, Reply::Done);
        } else {
            let own = if bytes > WORD as usize { self.copying(bytes) } else { self.profile.node.hit.0 };
            self.local(message);
            self.reply(rank, now + own, Reply::Done);
        }
    }

    fn copying(&self, bytes: usize) -> u64 {
        self.profile.node.hit.0 + (bytes as f64 * self.profile.node.byte) as u64
    }

    fn jitter(&mut self) -> u64 {
        let unit = |random: &mut Random| (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        match self.profile.jitter {
            Jitter::None => 0,
            Jitter::Uniform(most) => (unit(&mut self.random) * most.0 as f64) as u64,
            Jitter::Exponential(mean) => (-(1.0 - unit(&mut self.random)).ln() * mean.0 as f64) as u64,
        }
    }

    /// Returns the time of the way from `a` to `b`.
    fn way(&mut self, a: u32, b: u32) -> u64 {
        let length = if a == b {
            self.profile.loopback.0
        } else {
            self.profile.wire.0 + u64::from(self.network.hops(a, b)) * self.profile.hop.0
        };
        length + self.jitter()
    }

    /// Sends a message with `bytes` bytes from its origin's adapter.
    fn send(&mut self, message: u32, bytes: usize) {
        let &Message { origin, at, .. } = self.peek(message);
        let (from, to) = (self.node_of(origin), self.node_of(at.rank));
        let long = (bytes as f64 * self.profile.nic.byte) as u64;
        let ready = self.now() + self.profile.overhead.0;
        let adapter = &mut self.adapters[from as usize];
        let leaves = adapter.leaves.max(ready);
        adapter.leaves = leaves + self.profile.nic.gap.0 + long;
        // This is the arrival of its start: the target's adapter takes the bytes while they still leave (`serve`).
        let mut arrives = leaves + self.way(from, to);
        let waits = matches!(self.peek(message).load, Load::Word(op) if !matches!(op, WordOp::Put(_)));
        if let Some(channel) = self.channels.get_mut(&Self::channel(origin.0, at.rank)) {
            // Messages arrive in the order of sending.
            arrives = arrives.max(channel.arrives);
            if !waits {
                channel.arrives = arrives;
            }
        }
        self.queue.push(arrives, What::Arrive(message));
    }

    fn arrive(&mut self, message: u32) {
        let &Message { origin, at, .. } = self.peek(message);
        let (from, home) = (self.node_of(origin), self.node_of(at.rank));
        let now = self.now();
        let engines = self.engines;
        let adapter = &mut self.adapters[home as usize];
        if adapter.engines.is_empty() {
            adapter.engines.resize_with(engines as usize, Engine::default);
        }
        let engine = (origin.0 % engines) as usize;
        if adapter.engines[engine].busy {
            adapter.area += u128::from(adapter.waiting) * u128::from(now - adapter.counted);
            adapter.counted = now;
            adapter.waiting += 1;
            adapter.longest = adapter.longest.max(adapter.waiting);
            let from = if self.profile.arbitration == Arbitration::Fifo { home } else { from };
            adapter.engines[engine].turns.push(self.network, from, home, message);
        } else {
            adapter.engines[engine].busy = true;
            self.serve(message);
        }
    }

    /// Begins to serve a message in an engine.
    fn serve(&mut self, message: u32) {
        let now = self.now();
        let &Message { at, ref load, .. } = self.peek(message);
        let nic = &self.profile.nic;
        let done = match load {
            Load::Word(WordOp::Get) | Load::Started { op: WordOp::Get, .. } | Load::GetBytes { .. } => now + nic.get.0,
            Load::Word(WordOp::Put(_)) => now + nic.put.0,
            Load::Word(_) | Load::Started { .. } => {
                let (engine, word) = (nic.atomic.0, nic.word.0);
                let line = self.memory.line(at.rank, at.disp);
                let line = self.memory.get(line);
                let begin = line.free.max(now + engine);
                line.free = begin + word;
                line.free
            }
            Load::PutBytes(bytes) => now + nic.put.0 + (bytes.len() as f64 * nic.byte) as u64,
            Load::Bytes { .. } => now,
        };
        let home = self.node_of(at.rank);
        let adapter = &mut self.adapters[home as usize];
        adapter.busy += done - now;
        adapter.served += 1;
        self.queue.push(done, What::Served(message));
    }

    fn served(&mut self, message: u32) {
        let now = self.now();
        let &Message { origin, at, .. } = self.peek(message);
        let (from, home) = (self.node_of(origin), self.node_of(at.rank));
        let engine = (origin.0 % self.engines) as usize;
        let adapter = &mut self.adapters[home as usize];
        match adapter.engines[engine].turns.pop(home) {
            Some(next) => {
                adapter.area += u128::from(adapter.waiting) * u128::from(now - adapter.counted);
                adapter.counted = now;
                adapter.waiting -= 1;
                self.serve(next);
            }
            None => adapter.engines[engine].busy = false,
        }
        let rank = origin.0;
        let back = self.way(home, from);
        if let Load::Word(op) | Load::Started { op, .. } = self.peek(message).load
            && !matches!(op, WordOp::Get | WordOp::Put(_))
        {
            let line = self.memory.line(at.rank, at.disp);
            self.memory.get(line).served += 1;
        }
        match self.peek(message).load {
            Load::Word(op @ WordOp::Put(_)) => {
                self.act(at, op, ADAPTER);
                self.take(message);
                self.close(rank, at.rank, now + back);
            }
            Load::Word(op) => {
                let answer = self.act(at, op, ADAPTER);
                self.take(message);
                self.reply(rank, now + back + self.profile.completion.0, Reply::Word(answer));
            }
            Load::Started { request, op } => {
                let bytes = Box::new(self.act(at, op, ADAPTER).to_ne_bytes());
                let state = self.messages[message as usize].as_mut().expect("a message under way is there");
                state.load = Load::Bytes { request, bytes };
                self.queue.push(now + back, What::Back(message));
            }
            Load::PutBytes(_) => {
                if let Load::PutBytes(bytes) = self.take(message).load {
                    self.write(at, &bytes, ADAPTER);
                }
                self.close(rank, at.rank, now + back);
            }
            Load::GetBytes { request, len } => {
                let bytes = self.read(at, len);
                let long = (len as f64 * self.profile.nic.byte) as u64;
                let state = self.messages[message as usize].as_mut().expect("a message under way is there");
                state.load = Load::Bytes { request, bytes };
                // The bytes share the adapter with all leaving messages.
                let adapter = &mut self.adapters[home as usize];
                let leaves = adapter.leaves.max(now);
                adapter.leaves = leaves + long;
                self.queue.push(leaves + long + back, What::Back(message));
            }
            Load::Bytes { .. } => {}
        }
    }

    /// Delivers the bytes of a get.
    fn back(&mut self, message: u32) {
        let Message { origin, at, load } = self.take(message);
        if let Load::Bytes { request, bytes } = load {
            let dest = self.gets.end(request);
            if let Some(dest) = dest
                && !matches!(self.ranks[origin.index()].blocked, Blocked::Ended)
            {
                // SAFETY: the caller of `get_bytes_nb`, or of `start` (whose `bytes` are a word's), vouches for `dest` until a wait for the
                // request, or a flush, returns. Neither has returned: a successful one waits for this event, and a failed one has given the
                // get up, which leaves no `dest`. The rank has not ended, so its frames exist.
                unsafe { dest.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            let waits = matches!(self.ranks[origin.index()].blocked, Blocked::Request(waited) if waited == request);
            if waits {
                self.reply(origin.0, self.now() + self.profile.completion.0, Reply::Done);
            }
        }
        self.close(origin.0, at.rank, self.now());
    }

    // Processors.

    /// Returns the time of a transfer of a line from `holder` to `rank`.
    fn transfer(&self, holder: u32, rank: u32) -> u64 {
        let node = &self.profile.node;
        if holder == rank || holder == NO_CORE {
            0
        } else if holder == ADAPTER || self.socket_of(holder) == self.socket_of(rank) {
            node.core.0
        } else {
            node.socket.0
        }
    }

    /// Returns the part of a transfer of this length for which the core that has the line goes on using it. The part is
    /// `keep`, plus or minus up to a quarter of it. Otherwise ranks would run in step, unlike real ranks.
    fn kept(&mut self, moved: u64) -> u64 {
        let keep = self.profile.node.keep;
        if keep >= 1.0 {
            return moved;
        }
        let unit = (self.lines.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((moved as f64 * keep * (0.75 + unit / 2.0)) as u64).min(moved)
    }

    /// Notes that another core reads a line. The core that has written the line goes on using it until it learns of
    /// that.
    fn shared(&mut self, line: u32, moved: u64) {
        let (now, kept) = (self.now(), self.kept(moved));
        let state = self.memory.get(line);
        if state.before.until <= now && state.writer != ADAPTER {
            state.before = Before { rank: state.writer, from: state.free, until: state.free.max(now) + kept };
        }
    }

    /// Executes a message with the origin's processor, on a word of its own node.
    fn local(&mut self, message: u32) {
        let now = self.now();
        let &Message { origin, at, ref load } = self.peek(message);
        let posted = matches!(load, Load::Word(WordOp::Put(_)));
        let rank = origin.0;
        let node = &self.profile.node;
        let done = match load {
            Load::Word(WordOp::Get) => {
                let line = self.memory.line(at.rank, at.disp);
                let state = self.memory.get(line);
                let (writer, reader, free) = (state.writer, state.reader, state.free);
                let keeps = state.before.rank == rank && now < state.before.until;
                if !keeps {
                    state.reader = rank;
                }
                match if reader == rank || keeps { 0 } else { self.transfer(writer, rank) } {
                    0 => now + node.hit.0,
                    moved => {
                        let hit = node.hit.0;
                        self.shared(line, moved);
                        free.max(now) + moved + hit
                    }
                }
            }
            Load::Word(_) => {
                // Atomics wait for the stores before them.
                let now = if posted { now } else { now.max(self.ranks[rank as usize].stored) };
                let cost = if posted { node.hit.0 } else { node.atomic.0 };
                let line = self.memory.line(at.rank, at.disp);
                let state = self.memory.get(line);
                let (writer, reader, free, before) = (state.writer, state.reader, state.free, state.before);
                if before.rank == rank && now.max(before.from) < before.until {
                    // After this core's own operations under way.
                    now.max(before.from) + cost
                } else {
                    let holder = if writer == rank && reader != rank && reader != NO_CORE { reader } else { writer };
                    let moved = self.transfer(holder, rank);
                    let came = free.max(now) + moved;
                    let kept = if moved > 0 { self.kept(moved) } else { 0 };
                    let state = self.memory.get(line);
                    (state.free, state.writer, state.reader) = (came + cost, rank, rank);
                    if moved > 0 {
                        // A core that has only read the line no longer has it.
                        state.before = if holder == writer {
                            Before { rank: writer, from: free, until: came - moved + kept }
                        } else {
                            Before::NO_CORE
                        };
                    }
                    came + cost
                }
            }
            Load::Started { .. } => unreachable!("an adapter executes it"),
            Load::PutBytes(bytes) => now + self.copying(bytes.len()),
            &Load::GetBytes { len, .. } => now + self.copying(len),
            Load::Bytes { .. } => now,
        };
        let done = if posted {
            // Stores take effect in their order, even if their lines take different times.
            let stored = &mut self.ranks[rank as usize].stored;
            *stored = done.max(*stored);
            if let Some(channel) = self.channels.get_mut(&Self::channel(rank, at.rank)) {
                channel.arrives = channel.arrives.max(*stored);
            }
            *stored
        } else {
            done
        };
        self.queue.push(done, What::Local(message));
    }

    fn local_done(&mut self, message: u32) {
        let now = self.now();
        let &Message { origin, at, .. } = self.peek(message);
        match self.peek(message).load {
            Load::Word(op @ WordOp::Put(_)) => {
                self.act(at, op, origin.0);
                self.take(message);
                self.close(origin.0, at.rank, now);
            }
            Load::Word(op) => {
                let answer = self.act(at, op, origin.0);
                self.take(message);
                self.resumed.push((origin.0, Reply::Word(answer)));
            }
            Load::PutBytes(_) => {
                if let Load::PutBytes(bytes) = self.take(message).load {
                    self.write(at, &bytes, origin.0);
                }
                self.close(origin.0, at.rank, now);
            }
            Load::GetBytes { request, len } => {
                let bytes = self.read(at, len);
                let state = self.messages[message as usize].as_mut().expect("a message under way is there");
                state.load = Load::Bytes { request, bytes };
                self.back(message);
            }
            // These counts are messages of adapters.
            Load::Started { .. } | Load::Bytes { .. } => {}
        }
    }

    // Memory.

    /// Executes an operation on a word, and returns the old word.
    fn act(&mut self, at: Address, op: WordOp, by: u32) -> u64 {
        let line = self.memory.line(at.rank, at.disp);
        let word = self.memory.word(line, at.disp);
        let old = *word;
        let new = match op {
            WordOp::FetchAdd(value) => old.wrapping_add(value),
            WordOp::CompareAndSwap { expected, desired } if old == expected => desired,
            WordOp::FetchStore(value) | WordOp::Put(value) => value,
            WordOp::CompareAndSwap { .. } | WordOp::Get => return old,
        };
        *word = new;
        if by == ADAPTER {
            let state = self.memory.get(line);
            (state.writer, state.reader, state.before) = (ADAPTER, ADAPTER, Before::NO_CORE);
        }
        self.changed(at.rank, at.disp, new, by);
        old
    }

    /// Wakes the rank of the word, if its wait is over.
    fn changed(&mut self, rank: Rank, disp: Disp, value: u64, by: u32) {
        if let Blocked::Word(own, until, _) = self.ranks[rank.index()].blocked
            && own == disp
            && until.holds(value)
        {
            let moved = self.transfer(by, rank.0);
            let line = self.memory.line(rank, disp);
            self.memory.get(line).reader = rank.0;
            if moved > 0 {
                self.shared(line, moved);
            }
            let noticed = self.now() + moved + self.profile.node.notice.0 + self.profile.node.hit.0;
            self.reply(rank.0, noticed, Reply::Word(value));
        }
    }

    fn write(&mut self, at: Address, bytes: &[u8], by: u32) {
        let wait = match self.ranks[at.rank.index()].blocked {
            Blocked::Word(own, ..) => Some(own),
            _ => None,
        };
        let mut seen = None;
        self.memory.parts(at.rank, at.disp, bytes.len(), |word, disp, offset, from, count| {
            let mut all = word.to_ne_bytes();
            all[offset..offset + count].copy_from_slice(&bytes[from..from + count]);
            *word = u64::from_ne_bytes(all);
            if wait == Some(disp) {
                seen = Some((disp, *word));
            }
        });
        if let Some((disp, value)) = seen {
            self.changed(at.rank, disp, value, by);
        }
    }

    fn read(&mut self, at: Address, len: usize) -> Box<[u8]> {
        let mut bytes = vec![0; len].into_boxed_slice();
        self.memory.parts(at.rank, at.disp, len, |word, _, offset, to, count| {
            bytes[to..to + count].copy_from_slice(&word.to_ne_bytes()[offset..offset + count]);
        });
        bytes
    }

    // Waiting.

    fn flush(&mut self, rank: u32, target: Option<Rank>) {
        let now = self.now();
        let complete = match target {
            Some(target) => {
                let key = Self::channel(rank, target);
                match self.channels.get(&key) {
                    Some(channel) if channel.outstanding > 0 => {
                        self.ranks[rank as usize].blocked = Blocked::Flush(Some(target));
                        return;
                    }
                    Some(channel) => {
                        let complete = channel.complete;
                        self.channels.remove(&key);
                        complete
                    }
                    None => 0,
                }
            }
            None if self.ranks[rank as usize].outstanding > 0 => {
                self.ranks[rank as usize].blocked = Blocked::Flush(None);
                return;
            }
            None => self.ranks[rank as usize].complete,
        };
        if complete <= now {
            self.resumed.push((rank, Reply::Done));
        } else {
            self.reply(rank, complete + self.profile.completion.0, Reply::Done);
        }
    }

    fn wait_until(&mut self, me: Rank, (own, until): (Disp, Until), deadline: Option<u64>, from: Option<Rank>) {
        let now = self.now();
        let line = self.memory.line(me, own);
        let value = *self.memory.word(line, own);
        let state = self.memory.get(line);
        let (writer, reader) = (state.writer, state.reader);
        state.reader = me.0;
        if until.holds(value) {
            let moved = if reader == me.0 { 0 } else { self.transfer(writer, me.0) };
            self.reply(me.0, now + self.profile.node.hit.0 + moved, Reply::Word(value));
        } else if let Some(failed) = self.known.news(me.0) {
            self.resumed.push((me.0, Reply::Failed(failed)));
        } else if deadline.is_some_and(|deadline| deadline <= now) {
            self.reply(me.0, now + self.profile.node.hit.0, Reply::TimedOut);
        } else {
            let state = &mut self.ranks[me.index()];
            state.blocked = Blocked::Word(own, until, from);
            state.wait += 1;
            if let Some(deadline) = deadline {
                self.queue.push(deadline, What::Deadline(me.0, state.wait));
            }
        }
    }

    /// Restarts the counts from zero.
    fn begin_counts(&mut self) {
        let now = self.now();
        self.counted_from = now;
        self.operations = Operations::default();
        for adapter in &mut self.adapters {
            (adapter.served, adapter.busy, adapter.area) = (0, 0, 0);
            (adapter.counted, adapter.longest) = (now, adapter.waiting);
        }
        self.memory.forget_served();
    }

    /// Returns the counts until now.
    fn counts(&self) -> Counts {
        let now = self.now();
        let busiest = self.adapters.iter().enumerate().max_by_key(|(node, adapter)| (adapter.busy, usize::MAX - node));
        let busiest = busiest.filter(|(_, adapter)| adapter.served > 0).map(|(node, adapter)| {
            let time = (now - self.counted_from).max(1) as f64;
            let area = adapter.area + u128::from(adapter.waiting) * u128::from(now - adapter.counted);
            // Services under way end later.
            let busy = adapter.busy as f64 / (time * f64::from(self.engines));
            Busiest {
                node: node as u32,
                served: adapter.served,
                utilization: busy.min(1.0),
                mean_queue: area as f64 / time,
                longest_queue: adapter.longest,
            }
        });
        let hottest = self.memory.all().max_by_key(|(key, line)| (line.served, u64::MAX - key));
        let hottest = hottest.filter(|(_, line)| line.served > 0).map(|(key, line)| {
            let word = &self.profile.nic;
            let service = word.word.0.max((word.atomic.0 + word.word.0) / u64::from(self.engines));
            Hottest {
                rank: (key >> 32) as u32,
                disp: (key & u64::from(u32::MAX)) * 64,
                served: u64::from(line.served),
                bound: Span(u64::from(line.served) * service),
            }
        });
        Counts { operations: self.operations, busiest, hottest }
    }

    /// Returns the counts, and the counts of the whole simulation.
    pub(super) fn stats(&mut self) -> Stats {
        let Counts { operations, busiest, hottest } = self.counts.take().unwrap_or_else(|| self.counts());
        let (events, end, lines) = (self.events, Span(self.now()), self.memory.touched() as u64);
        Stats { events, end, operations, busiest, hottest, lines }
    }
}

/// The number of events between two reports of progress.
const PROGRESS: u64 = 1 << 16;
