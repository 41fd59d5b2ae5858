//! Two-sided windows: operations are requests that travel as messages, and the target serves them.
//!
//! # Sources
//!
//! * R. Thakur, W. Gropp, B. Toonen, Minimizing Synchronization Overhead in the Implementation of MPI One-Sided
//!   Communication, EuroPVM/MPI 2004, section 4: operations are queued at the origin and sent by the call that ends the
//!   epoch. That section lists the messages that each synchronization needs.
//! * W. Jiang and others, High Performance MPI-2 One-Sided Communication over InfiniBand, CCGrid 2004, compares one-sided
//!   windows with these.
//!
//! # Messages
//!
//! For an epoch with k puts or accumulates to each of m targets, p ranks, packets as [`WindowCore::messages_sent`](crate::WindowCore::messages_sent) counts them:
//!
//! | epoch | packets of an origin | packets of a target |
//! | --- | --- | --- |
//! | opening fence, or with NOPRECEDE | none | none |
//! | closing fence | ⌈log₂ p⌉ [`SUM`], k m operations | none |
//! | post, start, complete, wait | k operations a target, or one [`COMPLETE`] if k = 0 | one [`POST`] for each origin, none with NOCHECK |
//! | lock, unlock, k = 0 | none | none |
//! | lock, unlock, k = 1 and short | the operation | one [`ACK`] |
//! | lock, unlock, exclusive | one [`LOCK`], k operations | one [`GRANT`] |
//! | lock, unlock, shared | one [`LOCK`], k operations | one [`GRANT`], one [`ACK`] |
//! | lock, one get, unlock | the [`GET`], one [`UNLOCK`] | one [`ANSWER`] |
//! | lock_all | as for shared locks of the used targets | as for these |
//! | flush | the recorded operations, by the lines above without the release | one [`ACK`], none if nothing was recorded |
//!
//! *Carried*: a short operation (up to 4,000 bytes, in one piece) travels with its lock request, waits with it in the target's
//! queue, and releases the lock. *Released*: the last of several operations releases the lock. An exclusive lock then needs no
//! acknowledgement, since no rank sees the memory before the operations are done. With an agent there is one, since the agent
//! does not serve the active epochs that follow. There is also one on shared windows and for the local rank, since loads see
//! the memory.
//!
//! # When
//!
//! * `put` and `accumulate`, and their forms with requests and layouts (one operation for any layout), are *recorded*,
//!   with a copy of their data. The call that ends the epoch sends them. So does a flush, and so does an operation of
//!   the next point to the same target.
//! * `get`, `get_accumulate`, `fetch_and_op` and `compare_and_swap` return values, so their calls send the operations that were
//!   recorded for the target, then the request, and wait for the answer. The request carries the lock request if the lock is
//!   not held yet. A batch does the same for one operation after the other, and flushes at its end.
//! * In active epochs a rank's operations on itself are done at once. In passive epochs they are messages, too. The
//!   call acquires a rank's lock of itself, and all locks of shared windows, whose memory can be reached without
//!   operations.
//! * `lock_all` locks nothing before a target is used, except on shared windows.
//!
//! # Progress
//!
//! A rank serves requests on all of its two-sided windows, of all teams, while any call of this crate waits. These calls are a
//! lock, a fence, a start or a wait of any window, a barrier or another collective of any team, and the calls that make and
//! free windows. [`Team::progress`] serves without waiting. A rank that computes serves nothing, and neither does a rank that
//! waits in calls of the layers below. So before a program computes for long, it waits in [`Team::barrier`] for the ranks that
//! still need it. The processor wakes a rank that waits at one ring. A rank that waits for a word of a one-sided window, or
//! has rings of several teams, polls all of them. It does so every 2 µs at first, and every 2 ms at last.
//!
//! Only the [`Agent`], if there is one, serves the requests of passive epochs, at any time. The rank itself still
//! serves the requests of active epochs. Until a rank makes its agent, it serves all requests itself.
//!
//! # Errors
//!
//! * The answer to a request that fails at its target is the error: [`Error::AtTarget`], with the class of the target's
//!   error. The target acquires and releases the lock that it carries, and epochs end, as if it had not failed.
//! * If an operation fails after its call has returned, the first later flush or end of an epoch of its window that finds
//!   the error returns it. Under an exclusive lock and between fences it may come later than the operation's own epoch,
//!   at the latest in [`Window::free`].
//! * The target refuses an impossible packet, such as a packet with an unknown code, with an error that names the
//!   fault. The origin gets the error if the packet can be answered. Otherwise the receiver's next call on a window of
//!   the team returns it.
//! * A rank that drops its team serves the packets that have arrived and leaves. A rank that sends to it from then on gets an
//!   error. Freeing is collective, so a rank that frees its windows serves until all ranks have reached the free. A window
//!   that is dropped instead is served as long as its team lives. If its rank then holds a lock of a target, the rank has
//!   failed when it leaves the world.
//!
//! [`Error::AtTarget`]: crate::Error::AtTarget
//! [`Window::free`]: crate::Window::free
//!
//! # The target's side
//!
//! The target serves one request at a time, by one-sided operations on its own memory. A lock is a queue in the order of
//! arrival. Shared locks at its head are granted together. For `local`, a rank's own memory is separate
//! ([`Model::Separate`](crate::Model::Separate)): the operations that others have completed in an epoch are visible once this
//! rank has called fence, wait or [`Team::barrier`], or has locked itself.
//!
//! # Invariants
//!
//! * I1. Packets of one rank to another arrive in order, so operations are served in the order of the calls.
//! * I2. A request carries the number of fences that its origin has left. The target keeps the request until it has left
//!   the same number of fences. So no operation after a fence touches memory before that fence, although the opening fence
//!   does nothing.
//! * I3. In a closing fence a rank sends its recorded operations only once it has the sum. All ranks have contributed
//!   to the sum, so they all have reached the fence, and have done their earlier stores.
//! * I4. An operation is acknowledged before the call that sent it returns, or that call waits for the answer to a later
//!   request. The exceptions are the last operations under an exclusive lock, and those that fence and wait count.
//! * I5. The barrier sends after everything else, so a rank that leaves it has served all that others sent before it.
//! * I6. Before a rank acquires a lock that stays held after the call, it waits for the locks and posts of its earlier lock
//!   and start calls, on any window. So programs can order their calls to avoid a circle of waiting ranks, although a rank
//!   waits for locks and posts only when there are operations. The locks of a lock_all count as locked when their targets
//!   are first used. Where others hold exclusive locks of several targets at once, use the targets in the same order.
//!
//! # Deviations from the paper
//!
//! * The sum counts operations, not their origins, so that no operation needs to be the last one. Packets compute it,
//!   not the team's collectives, since a rank has to serve others' gets while it waits for the sum.
//! * A get is not reordered to the end of the epoch, since its call returns the value. So the lock needs an [`UNLOCK`]
//!   after it.
//! * The agent is one thread that waits for requests, instead of a thread that looks at intervals.
//!
//! # Memory
//!
//! Each team with such windows has two end-points, for any number of ranks and windows: 130 KiB of a segment, as long as the
//! world lives. The origin keeps the recorded data. A closing fence takes p words at each rank, and a team over a part of the
//! world 4 bytes for each rank.
//!
//! [`Team::barrier`]: crate::Team::barrier
//! [`Team::progress`]: crate::Team::progress

mod agent;
mod endpoints;
mod progress;
mod serve;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;

use rmalab_atomics::Rank;
use rmalab_locks::{Assert, LockKind};

pub use agent::Agent;
pub(crate) use endpoints::Endpoints;
use endpoints::{Hub, PendingAcquire};
pub(crate) use progress::{attended, is_needed, serve as serve_all};
use serve::Header;
pub(crate) use serve::{OwnPart, OwnPlace};

use crate::element::{ElementKind, Op, from_word, to_word};
use crate::messages::{Endpoint, Kind};
use crate::place::ByRequest;
use crate::{Error, Result};

/// A put.
pub const PUT: Kind = Kind(1);
/// An accumulate.
pub const ACCUMULATE: Kind = Kind(2);
/// A get.
pub const GET: Kind = Kind(3);
/// A get_accumulate or fetch_and_op.
pub const FETCH: Kind = Kind(4);
/// A compare_and_swap.
pub const CAS: Kind = Kind(5);
/// A lock request that carries no operation.
pub const LOCK: Kind = Kind(6);
/// A release that no operation carries.
pub const UNLOCK: Kind = Kind(7);
/// A complete that no operation carries.
pub const COMPLETE: Kind = Kind(8);
/// A lock was granted, whose request carried no operation.
pub const GRANT: Kind = Kind(9);
/// Puts or accumulates are done.
pub const ACK: Kind = Kind(10);
/// The values that an operation has fetched.
pub const ANSWER: Kind = Kind(11);
/// The target has posted the window.
pub const POST: Kind = Kind(12);
/// A part of a fence's sum, or of a barrier.
pub const SUM: Kind = Kind(13);
/// A window was made or freed. Sent only to this rank's own agent.
const REGISTER: Kind = Kind(14);
/// A request has failed at its target.
const REFUSED: Kind = Kind(15);

/// The number of end-points of a rank: one of its own and one of its agent.
const PORTS: u8 = 2;

/// The port of the agent's end-point.
const AGENT: u8 = 1;

/// The largest number of data bytes that a lock request carries: with its header it fills a slot of the default size.
const CARRIED: usize = 4000;

/// Bits for all that a request asks for in addition to its operation.
mod flags {
    use rmalab_locks::LockKind;

    pub(super) const SHARED: u32 = 1;
    pub(super) const EXCLUSIVE: u32 = 2;
    /// Release the lock after the request.
    pub(super) const RELEASE: u32 = 4;
    /// Answer the request.
    pub(super) const ANSWER: u32 = 8;
    /// The target's fence waits for the request.
    pub(super) const COUNTED: u32 = 16;
    /// The request is the last one of an access epoch.
    pub(super) const LAST: u32 = 32;

    /// Returns the lock that must be acquired before the request is served, or the fault of the flags.
    pub(super) fn lock(flags: u32) -> Result<Option<LockKind>, String> {
        match flags & (SHARED | EXCLUSIVE) {
            _ if flags > (2 * LAST - 1) => Err(format!("{flags:#x} are not the flags of a request")),
            0 => Ok(None),
            SHARED => Ok(Some(LockKind::Shared)),
            EXCLUSIVE => Ok(Some(LockKind::Exclusive)),
            _ => Err(format!("{flags:#x} asks for two locks")),
        }
    }

    pub(super) fn of(kind: LockKind) -> u32 {
        match kind {
            LockKind::Shared => SHARED,
            LockKind::Exclusive => EXCLUSIVE,
        }
    }
}

/// An operation that has to be sent.
#[derive(Debug)]
struct Record {
    kind: Kind,
    element: ElementKind,
    op: Op,
    /// Offsets and lengths at the target.
    runs: Vec<(u64, u64)>,
    data: Vec<u8>,
}

impl Record {
    /// A record without an operation.
    fn signal(kind: Kind) -> Record {
        Record { kind, element: ElementKind::U8, op: Op::NoOp, runs: Vec::new(), data: Vec::new() }
    }

    /// Returns the number of bytes that the operation fetches.
    fn fetches(&self) -> usize {
        self.runs.iter().map(|&(_, len)| len as usize).sum()
    }
}

/// This rank's remaining work at a target in the open epoch.
#[derive(Debug, Default)]
struct Pending {
    /// The lock of the epoch, if the epoch needs one.
    lock: Option<LockKind>,
    records: Vec<Record>,
    /// The number of operations that a fence counts and that were sent ahead of it.
    counted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Epoch {
    Passive,
    Fence,
    Access,
}

/// The origin's side of one window.
#[derive(Debug)]
struct Origin {
    epoch: Epoch,
    /// The lock that a lock_all acquires when a target is first used.
    all: Option<LockKind>,
    targets: BTreeMap<Rank, Pending>,
    fences: u32,
    /// The number of operations of fence epochs that other ranks have announced to this rank, since the window was
    /// made.
    expected: u64,
    /// The sum of the sizes of the groups of posts, since the window was made.
    exposed: u64,
}

/// One window's requests, at their origin.
#[derive(Debug)]
pub(crate) struct Requests<'t> {
    endpoints: &'t Endpoints<'t>,
    window: u32,
    /// True if an agent serves passive epochs.
    agent: bool,
    /// True if the calls of locks acquire them at once.
    eager: bool,
    origin: RefCell<Origin>,
}

impl<'t> Requests<'t> {
    /// Makes the requests of a new window. Collective. All ranks make the windows of a team in the same order.
    ///
    /// The ranks in `part` are numbers of the team.
    pub(crate) fn new(
        endpoints: &'t Endpoints<'t>,
        agent: bool,
        eager: bool,
        mut part: OwnPart,
    ) -> Result<Requests<'t>> {
        endpoints.open()?;
        if let OwnPlace::Segment(at) = &mut part.place {
            at.rank = endpoints.in_world(at.rank);
        }
        let hub = endpoints.hub();
        let mut state = hub.state.borrow_mut();
        let window = state.next_window;
        state.next_window += 1;
        drop(state);
        hub.main.borrow_mut().server.register(window, part);
        let origin =
            Origin { epoch: Epoch::Passive, all: None, targets: BTreeMap::new(), fences: 0, expected: 0, exposed: 0 };
        let requests = Requests { endpoints, window, agent, eager, origin: RefCell::new(origin) };
        if agent {
            hub.uses_agent.set(true);
            requests.notify_agent(Some(part))?;
        }
        endpoints.replay(window)?;
        Ok(requests)
    }

    /// Notifies this rank's agent that the window was made, with `part`, or freed.
    fn notify_agent(&self, part: Option<OwnPart>) -> Result<()> {
        if let Some(agent) = &mut *self.endpoints.hub().agent.borrow_mut() {
            match part {
                Some(part) => agent.server.register_passive(self.window, part),
                None => agent.server.forget(self.window),
            }
            return Ok(());
        }
        let own = self.endpoint(self.endpoints.rank(), true);
        let data = part.map_or_else(Vec::new, OwnPart::encode);
        match self.endpoints.send(own, REGISTER, self.window.into(), data) {
            // An agent that is gone serves no window. Passive epochs return that error.
            Err(Error::Messages(crate::messages::Error::Left { .. })) => Ok(()),
            sent => sent,
        }
    }

    /// Forgets the window, after a barrier.
    pub(crate) fn leave(&self) -> Result<()> {
        let hub = self.endpoints.hub();
        hub.main.borrow_mut().server.forget(self.window);
        hub.state.borrow_mut().posts.retain(|&(window, _), _| window != self.window);
        if self.agent {
            self.notify_agent(None)?;
        }
        self.endpoints.finish_sends()
    }

    /// Returns the first error of a request that no call has waited for, once all ranks have left the window.
    pub(crate) fn last_error(&self) -> Result<()> {
        self.progress()?;
        self.refused()
    }

    /// Returns the number of packets of a kind that this rank, without its agent, has sent for windows of the team.
    pub(crate) fn sent(&self, kind: Kind) -> u64 {
        self.endpoints.sent(kind)
    }

    fn endpoint(&self, rank: Rank, passive: bool) -> Endpoint {
        Endpoint { rank: self.endpoints.in_world(rank), port: if passive && self.agent { AGENT } else { 0 } }
    }

    fn answer(&self, ticket: u32) -> Result<Vec<u8>> {
        self.endpoints.wait(|hub| hub.state.borrow_mut().take_answer(ticket))?
    }

    /// Returns the first error of this window's requests that no call has waited for.
    fn refused(&self) -> Result<()> {
        self.endpoints.hub().state.borrow_mut().take_refused(self.window)
    }

    /// Serves the requests that have arrived.
    pub(crate) fn progress(&self) -> Result<()> {
        self.endpoints.progress()
    }

    /// Sends a request, and returns the ticket of its answer, or 0 if there will be none.
    fn send(&self, target: Rank, record: &Record, flags: u32) -> Result<u32> {
        let Origin { epoch, fences, .. } = *self.origin.borrow();
        let at = self.endpoint(target, epoch == Epoch::Passive);
        self.request(at, self.window, fences, record, flags)
    }

    fn request(&self, at: Endpoint, window: u32, fences: u32, record: &Record, flags: u32) -> Result<u32> {
        let answered = record.kind == LOCK || flags & flags::ANSWER != 0;
        let state = &self.endpoints.hub().state;
        let ticket = if answered { state.borrow_mut().ticket() } else { 0 };
        let header = Header { fences, ticket, element: record.element, op: record.op };
        let data = header.encode(&record.runs, &record.data);
        let word = u64::from(window) | u64::from(flags) << 32;
        let sent = self.endpoints.send(at, record.kind, word, data);
        if sent.is_err() {
            state.borrow_mut().answers.remove(&ticket);
        }
        sent.map(|()| ticket)
    }

    /// Sends a request without an operation.
    fn signal(&self, target: Rank, kind: Kind, flags: u32) -> Result<u32> {
        self.send(target, &Record::signal(kind), flags)
    }

    /// Calls `body` with this rank's remaining work at a target.
    fn with<R>(&self, target: Rank, body: impl FnOnce(&mut Pending) -> R) -> R {
        let origin = &mut *self.origin.borrow_mut();
        let (all, fences) = (origin.all, origin.fences);
        body(origin.targets.entry(target).or_insert_with(|| {
            all.into_iter().for_each(|kind| self.want(target, Some(kind), fences));
            Pending { lock: all, ..Pending::default() }
        }))
    }

    /// Notes a lock to acquire, or a post to wait for.
    fn want(&self, target: Rank, lock: Option<LockKind>, fences: u32) {
        let at = self.endpoint(target, true);
        let wanted = PendingAcquire { window: self.window, target, at, lock, fences };
        self.endpoints.hub().state.borrow_mut().wanted.push(wanted);
    }

    /// Returns the lock of `target` if it is still to be acquired.
    fn wanted(&self, target: Rank) -> Option<LockKind> {
        let state = self.endpoints.hub().state.borrow();
        let mut wanted = state.wanted.iter().filter(|wanted| wanted.window == self.window);
        wanted.find(|wanted| wanted.target == target)?.lock
    }

    /// Returns whether this rank holds the lock of a target, for which other ranks may wait.
    pub(crate) fn holds_a_lock(&self) -> bool {
        let locked = |pending: &Pending| pending.lock.is_some();
        self.origin.borrow().targets.iter().any(|(&target, pending)| locked(pending) && self.wanted(target).is_none())
    }

    /// Notes that there is nothing left to wait for at `target`.
    fn settle(&self, target: Rank) {
        let gone = |wanted: &PendingAcquire| wanted.window == self.window && wanted.target == target;
        self.endpoints.hub().state.borrow_mut().wanted.retain(|wanted| !gone(wanted));
    }

    fn record(&self, target: Rank, record: Record) {
        self.with(target, |pending| pending.records.push(record));
    }

    fn fetch(&self, target: Rank, record: &Record) -> Result<Vec<u8>> {
        self.force(target, 0)?;
        self.acquire_earlier(target)?;
        let ticket = self.send(target, record, flags::ANSWER | self.wanted(target).map_or(0, flags::of))?;
        let answer = self.answer(ticket);
        // Even a failed operation has acquired the lock.
        self.settle(target);
        let answer = answer?;
        let (came, expected) = (answer.len(), record.fetches());
        if came != expected {
            let what = format!("{came} bytes from {target} in place of the {expected} requested bytes").into();
            let at = Endpoint { rank: self.endpoints.world().rank(), port: 0 };
            return Err(crate::messages::Error::Damaged { at, what }.into());
        }
        Ok(answer)
    }

    /// Acquires the lock of `target`, unless it is held or not needed.
    fn acquire(&self, target: Rank) -> Result<()> {
        self.acquire_earlier(target)?;
        self.acquire_this(target)
    }

    fn acquire_this(&self, target: Rank) -> Result<()> {
        if let Some(kind) = self.wanted(target) {
            let ticket = self.signal(target, LOCK, flags::of(kind))?;
            self.answer(ticket)?;
            self.settle(target);
        }
        Ok(())
    }

    /// Waits for the locks and posts, of all windows, that come before the lock of `target`, unless that lock is held
    /// (I6).
    fn acquire_earlier(&self, target: Rank) -> Result<()> {
        while self.wanted(target).is_some() {
            let first = self.endpoints.hub().state.borrow().wanted[0];
            let PendingAcquire { window, target: of, at, lock, fences } = first;
            if (window, of) == (self.window, target) {
                break;
            }
            let Some(kind) = lock else {
                self.endpoints.take_post(window, of)?;
                continue;
            };
            let ticket = self.request(at, window, fences, &Record::signal(LOCK), flags::of(kind))?;
            self.answer(ticket)?;
            self.endpoints.hub().state.borrow_mut().wanted.remove(0);
        }
        Ok(())
    }

    /// Sends the operations recorded for `target`. Returns the ticket of an acknowledgement for which the caller has to
    /// wait.
    ///
    /// `last` has the flags of the last operation: none, or an answer, a release, or the end of the epoch.
    fn force(&self, target: Rank, last: u32) -> Result<Option<u32>> {
        let epoch = self.origin.borrow().epoch;
        if epoch == Epoch::Access {
            self.endpoints.take_post(self.window, target)?;
        }
        let (records, lock) = self.with(target, |pending| (std::mem::take(&mut pending.records), pending.lock));
        let counted = if epoch == Epoch::Fence { flags::COUNTED } else { 0 };
        if counted != 0 {
            self.with(target, |pending| pending.counted += records.len() as u64);
        }
        let releases = last & flags::RELEASE != 0;
        if let Some(kind) = self.wanted(target) {
            match &records[..] {
                [] => return Ok(None),
                [record] if record.runs.len() == 1 && record.data.len() <= CARRIED => {
                    let all = flags::of(kind) | flags::ANSWER | last;
                    if releases {
                        self.settle(target);
                        return self.send(target, record, all).map(Some);
                    }
                    self.acquire_earlier(target)?;
                    let ticket = self.send(target, record, all)?;
                    let answer = self.answer(ticket);
                    self.settle(target);
                    return answer.map(|_| None);
                }
                _ if releases => self.acquire_this(target)?,
                _ => self.acquire(target)?,
            }
        }
        let Some((record, others)) = records.split_last() else {
            match (last & flags::LAST != 0, releases && lock.is_some()) {
                (true, _) => self.signal(target, COMPLETE, flags::LAST)?,
                (_, true) => self.signal(target, UNLOCK, flags::RELEASE)?,
                _ => 0,
            };
            return Ok(None);
        };
        for record in others {
            self.send(target, record, counted)?;
        }
        let loads = self.eager || target == self.endpoints.rank();
        let unseen = lock == Some(LockKind::Exclusive) && !self.agent && !loads;
        let mut flags = counted | last;
        if releases && lock.is_none() {
            flags &= !flags::RELEASE;
        }
        if releases && !unseen {
            flags |= flags::ANSWER;
        }
        let ticket = self.send(target, record, flags)?;
        Ok((flags & flags::ANSWER != 0).then_some(ticket))
    }

    /// Forces all targets, then waits for all of them. Returns the first error after it has tried all.
    fn force_all(&self, last: u32) -> Result<()> {
        let targets: Vec<Rank> = self.origin.borrow().targets.keys().copied().collect();
        let forced: Vec<_> = targets.into_iter().map(|target| self.force(target, last)).collect();
        let mut done = Ok(());
        for ticket in forced {
            let answered = ticket.and_then(|ticket| ticket.map_or(Ok(()), |ticket| self.answer(ticket).map(drop)));
            done = done.and(answered);
        }
        let sent = self.endpoints.finish_sends();
        done.and(sent).and(self.refused())
    }

    /// Opens an epoch to `target`. Acquires the lock only if that must be done at once.
    pub(crate) fn lock(&self, kind: LockKind, target: Rank, assert: Assert) -> Result<()> {
        self.origin.borrow_mut().epoch = Epoch::Passive;
        let lock = (assert == Assert::None).then_some(kind);
        let fences = self.origin.borrow().fences;
        self.with(target, |pending| *pending = Pending { lock, ..Pending::default() });
        lock.into_iter().for_each(|kind| self.want(target, Some(kind), fences));
        let at_once = self.eager || target == self.endpoints.rank();
        let done = if at_once { self.acquire(target) } else { Ok(()) };
        done.inspect_err(|_| self.end(target))
    }

    /// Sends the operations recorded for `target`, and releases its lock.
    pub(crate) fn unlock(&self, target: Rank) -> Result<()> {
        let done = self.force(target, flags::RELEASE).and_then(|ticket| match ticket {
            Some(ticket) => self.answer(ticket).map(drop),
            None => self.endpoints.finish_sends(),
        });
        self.end(target);
        done.and(self.refused())
    }

    fn end(&self, target: Rank) {
        self.settle(target);
        self.origin.borrow_mut().targets.remove(&target);
    }

    pub(crate) fn lock_all(&self, assert: Assert) -> Result<()> {
        let mut origin = self.origin.borrow_mut();
        origin.epoch = Epoch::Passive;
        origin.all = (assert == Assert::None).then_some(LockKind::Shared);
        drop(origin);
        let targets = if self.eager { self.endpoints.size() } else { 0 };
        let done = (0..targets).try_for_each(|target| {
            self.with(Rank(target), |_| ());
            self.acquire(Rank(target))
        });
        done.inspect_err(|_| self.end_all())
    }

    pub(crate) fn unlock_all(&self) -> Result<()> {
        let done = self.force_all(flags::RELEASE);
        self.end_all();
        done
    }

    fn end_all(&self) {
        self.want_nothing();
        let mut origin = self.origin.borrow_mut();
        origin.targets.clear();
        origin.all = None;
    }

    /// Notes that there is nothing left to wait for at any target.
    fn want_nothing(&self) {
        self.endpoints.hub().state.borrow_mut().wanted.retain(|wanted| wanted.window != self.window);
    }

    /// Completes the operations recorded for `target`, at the origin and at the target.
    pub(crate) fn flush(&self, target: Rank) -> Result<()> {
        if !self.origin.borrow().targets.contains_key(&target) {
            return Ok(());
        }
        let forced = self.force(target, flags::ANSWER);
        let done = forced.and_then(|ticket| ticket.map_or(Ok(()), |ticket| self.answer(ticket).map(drop)));
        done.and(self.refused())
    }

    pub(crate) fn flush_all(&self) -> Result<()> {
        self.force_all(flags::ANSWER)
    }

    /// Calls a fence. `closes` is true if it ends an epoch with operations.
    pub(crate) fn fence(&self, closes: bool) -> Result<()> {
        let mut failed = Ok(());
        if closes {
            let (me, size) = (self.endpoints.rank().0, self.endpoints.size());
            let mut counts = vec![0; size as usize];
            for (target, pending) in &self.origin.borrow().targets {
                counts[((target.0 + size - me) % size) as usize] = pending.counted + pending.records.len() as u64;
            }
            let more = self.sum(counts)?;
            // An error is returned only after the fence, since the other ranks wait for this rank.
            let forced = self.force_all(0); // I3
            let mut origin = self.origin.borrow_mut();
            origin.targets.clear();
            origin.expected += more;
            let expected = origin.expected;
            drop(origin);
            self.endpoints.wait(|hub| (self.at_target(hub, |served| served.served) >= expected).then_some(()))?;
            failed = forced;
        }
        let mut origin = self.origin.borrow_mut();
        origin.epoch = Epoch::Fence;
        origin.fences += 1;
        self.endpoints.hub().main.borrow_mut().server.window(self.window).fences = origin.fences;
        drop(origin);
        self.endpoints.replay(self.window)?; // I2
        self.progress()?;
        failed
    }

    /// Returns the result of `look` at this rank's serving side of the window.
    fn at_target(&self, hub: &Hub, look: impl FnOnce(&serve::Served) -> u64) -> u64 {
        look(hub.main.borrow_mut().server.window(self.window))
    }

    /// Adds up `counts` over all ranks: each rank gets the sum of the counts for it. Element k is for the rank k places
    /// after this rank.
    ///
    /// An allgather by Bruck's algorithm run backwards, with additions instead of copies.
    fn sum(&self, mut counts: Vec<u64>) -> Result<u64> {
        let step = self.endpoints.next_step();
        for round in (0..rounds(self.endpoints.size())).rev() {
            let have = 1 << round;
            let more = have.min(counts.len() - have);
            let others = self.endpoints.exchange(step, round, &counts[have..have + more])?;
            for (count, other) in counts.iter_mut().zip(others) {
                *count = count.wrapping_add(other);
            }
        }
        Ok(counts[0])
    }

    /// Opens an exposure epoch, and notifies the origins unless `nocheck`.
    pub(crate) fn post(&self, group: &[Rank], nocheck: bool) -> Result<()> {
        self.origin.borrow_mut().exposed += group.len() as u64;
        if !nocheck {
            for &rank in group {
                self.endpoints.send(self.endpoint(rank, false), POST, self.window.into(), Vec::new())?;
            }
        }
        Ok(())
    }

    /// Opens an access epoch, without waiting.
    pub(crate) fn start(&self, group: &[Rank], nocheck: bool) {
        let mut origin = self.origin.borrow_mut();
        origin.epoch = Epoch::Access;
        origin.targets = group.iter().map(|&rank| (rank, Pending::default())).collect();
        if !nocheck {
            group.iter().for_each(|&rank| self.want(rank, None, origin.fences));
        }
    }

    /// Gives up the operations of an access epoch for targets that have not posted, since they may never post.
    pub(crate) fn give_up_unposted(&self) -> Result<()> {
        self.endpoints.progress()?;
        for (&rank, pending) in &mut self.origin.borrow_mut().targets {
            if self.endpoints.gives_post_up(self.window, rank) {
                *pending = Pending::default();
            }
        }
        Ok(())
    }

    /// Sends the operations recorded in the access epoch, once its targets have posted.
    pub(crate) fn complete(&self) -> Result<()> {
        let done = self.force_all(flags::LAST);
        self.end_all();
        done
    }

    /// Returns whether the origins of all exposure epochs so far have completed.
    pub(crate) fn exposure_is_over(&self) -> bool {
        let exposed = self.origin.borrow().exposed;
        self.at_target(self.endpoints.hub(), |served| served.completed) >= exposed
    }

    /// Waits until the origins of all exposure epochs so far have completed.
    pub(crate) fn wait_exposure(&self) -> Result<()> {
        let exposed = self.origin.borrow().exposed;
        self.endpoints.wait(|hub| (self.at_target(hub, |served| served.completed) >= exposed).then_some(()))
    }
}

impl ByRequest for Requests<'_> {
    /// Writes `data` to the pieces `runs` of the target's part.
    fn put(&self, target: Rank, runs: Vec<(u64, u64)>, data: Vec<u8>) {
        if !data.is_empty() {
            self.record(target, Record { kind: PUT, element: ElementKind::U8, op: Op::Replace, runs, data });
        }
    }

    /// Reads the pieces `runs` of the target's part.
    fn get(&self, target: Rank, runs: Vec<(u64, u64)>) -> Result<Vec<u8>> {
        if runs.iter().all(|&(_, len)| len == 0) {
            return Ok(Vec::new());
        }
        self.fetch(target, &Record { kind: GET, element: ElementKind::U8, op: Op::NoOp, runs, data: Vec::new() })
    }

    /// Combines `source` into the elements in `runs`. Their old values go to `result`, if there is one.
    fn update(
        &self,
        target: Rank,
        runs: Vec<(u64, u64)>,
        element: ElementKind,
        op: Op,
        source: &[u8],
        result: Option<&mut [u8]>,
    ) -> Result<()> {
        if runs.iter().all(|&(_, len)| len == 0) {
            return Ok(());
        }
        // With no_op the source is ignored.
        let data = if op == Op::NoOp { Vec::new() } else { source.to_vec() };
        let record = |kind| Record { kind, element, op, runs, data };
        match result {
            None => self.record(target, record(ACCUMULATE)),
            Some(result) => result.copy_from_slice(&self.fetch(target, &record(FETCH))?),
        }
        Ok(())
    }

    /// Stores `desired` at `offset` if the element there is `expected`. Returns its old value. All three are words that
    /// represent elements.
    fn compare_and_swap(
        &self,
        target: Rank,
        offset: u64,
        element: ElementKind,
        expected: u64,
        desired: u64,
    ) -> Result<u64> {
        let size = element.size();
        let mut data = vec![0; 2 * size as usize];
        let (first, second) = data.split_at_mut(size as usize);
        from_word(expected, first);
        from_word(desired, second);
        let record = Record { kind: CAS, element, op: Op::Replace, runs: vec![(offset, size)], data };
        Ok(to_word(&self.fetch(target, &record)?))
    }
}

impl Drop for Requests<'_> {
    /// No epoch of the window can still end, so later windows must not wait for locks or posts of an open epoch.
    fn drop(&mut self) {
        self.want_nothing();
    }
}

/// The synchronization that is the same for all windows of a team.
impl Endpoints<'_> {
    /// Calls a barrier by dissemination, during which this rank serves.
    pub(crate) fn barrier(&self) -> Result<()> {
        let step = self.next_step();
        for round in 0..rounds(self.size()) {
            self.exchange(step, round, &[])?;
        }
        self.finish_sends()?;
        self.progress()
    }

    /// Stops waiting for `target` if it has not posted yet. Returns whether that was so.
    fn gives_post_up(&self, window: u32, target: Rank) -> bool {
        let this =
            |wanted: &PendingAcquire| (wanted.window, wanted.target) == (window, target) && wanted.lock.is_none();
        let poster = self.in_world(target);
        let mut state = self.hub().state.borrow_mut();
        if state.posts.get(&(window, poster)).is_some_and(|&posts| posts > 0) || !state.wanted.iter().any(this) {
            return false;
        }
        state.wanted.retain(|wanted| !this(wanted));
        true
    }

    /// Waits until `target` has posted, unless an earlier call has waited for that.
    fn take_post(&self, window: u32, target: Rank) -> Result<()> {
        let this =
            |wanted: &PendingAcquire| (wanted.window, wanted.target) == (window, target) && wanted.lock.is_none();
        if !self.hub().state.borrow().wanted.iter().any(this) {
            return Ok(());
        }
        let poster = self.in_world(target);
        self.wait(|hub| {
            let state = &mut *hub.state.borrow_mut();
            let posts = state.posts.get_mut(&(window, poster)).filter(|posts| **posts > 0)?;
            *posts -= 1;
            state.wanted.retain(|wanted| !this(wanted));
            Some(())
        })
    }

    /// Returns the number of the next sum or barrier, with room for its rounds.
    fn next_step(&self) -> u32 {
        let mut state = self.hub().state.borrow_mut();
        state.steps = state.steps.wrapping_add(64);
        state.steps
    }

    /// Sends `words` to the rank 2^`round` places after this rank, and takes as many words from the rank 2^`round`
    /// places before it.
    fn exchange(&self, step: u32, round: u32, words: &[u64]) -> Result<Vec<u64>> {
        let to = (u64::from(self.rank().0) + (1 << round)) % u64::from(self.size());
        let step = step | round;
        let data = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.send(Endpoint { rank: self.in_world(Rank(to as u32)), port: 0 }, SUM, step.into(), data)?;
        let came = self.wait(|hub| hub.state.borrow_mut().sums.remove(&step))?;
        if came.len() != words.len() {
            let what = format!("a part of a sum has {} words in place of {}", came.len(), words.len()).into();
            let at = Endpoint { rank: self.world().rank(), port: 0 };
            return Err(crate::messages::Error::Damaged { at, what }.into());
        }
        Ok(came)
    }
}

/// Returns ⌈log₂ `size`⌉.
fn rounds(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}
