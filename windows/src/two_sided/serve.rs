//! The target's side: requests that have arrived, served one at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rmalab_atomics::registered::RegisteredKey;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};
use rmalab_locks::LockKind;

use super::{ACCUMULATE, ACK, ANSWER, CAS, COMPLETE, FETCH, GET, GRANT, LOCK, PUT, REFUSED, REGISTER, UNLOCK, flags};
use crate::accumulate::Updates;
use crate::bias::AccumulatePath;
use crate::dynamic::Dynamic;
use crate::element::{ElementKind, Op, from_word, to_word};
use crate::messages::{self, Error as MessagesError, Packet};
use crate::place::TargetMemory;
use crate::{AccumulateStrategy, Call, Class, Error, Result, WindowDisp};

/// The place of this rank's part of a window, and the way of its accumulates. Ranks are numbers of the world.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OwnPart {
    pub(crate) place: OwnPlace,
    /// Bytes of the part; 0 for a dynamic window.
    pub(crate) bytes: u64,
    pub(crate) accumulate: AccumulateStrategy,
    /// The lock of accumulates.
    pub(crate) lock: Disp,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum OwnPlace {
    Segment(Address),
    Exposed(RegisteredKey),
    /// The list of regions of a dynamic window.
    Dynamic(Disp),
}

impl OwnPart {
    /// Encodes the part as data of a packet to this rank's agent.
    pub(super) fn encode(self) -> Vec<u8> {
        let place = match self.place {
            OwnPlace::Segment(at) => [0, at.disp.0, u64::from(at.rank.0)],
            OwnPlace::Exposed(key) => [1, key.0, 0],
            OwnPlace::Dynamic(list) => [2, list.0, 0],
        };
        let way = AccumulateStrategy::ALL.iter().position(|&way| way == self.accumulate).unwrap_or(0);
        place.into_iter().chain([self.bytes, way as u64, self.lock.0]).flat_map(u64::to_ne_bytes).collect()
    }

    /// Decodes the data that [`encode`](Self::encode) has made, or returns its fault.
    fn decode(data: &[u8]) -> Result<OwnPart, String> {
        let [tag, first, second, bytes, way, lock] = words(data)
            .filter(|_| data.len() == 48)
            .ok_or_else(|| format!("{} bytes in place of 6 words", data.len()))?;
        let place = match tag {
            0 => {
                OwnPlace::Segment(Rank(u32::try_from(second).map_err(|_| format!("no rank {second}"))?).at(Disp(first)))
            }
            1 => OwnPlace::Exposed(RegisteredKey(first)),
            2 => OwnPlace::Dynamic(Disp(first)),
            _ => return Err(format!("{tag} is not a code of a place")),
        };
        let strategy = usize::try_from(way).ok().and_then(|way| AccumulateStrategy::ALL.get(way));
        let accumulate = *strategy.ok_or_else(|| format!("{way} is not a code of an accumulate strategy"))?;
        Ok(OwnPart { place, bytes, accumulate, lock: Disp(lock) })
    }
}

/// Returns the first words of `data`, if it has that many.
fn words<const N: usize>(data: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(data.as_chunks().0.get(..N)?) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(words)
}

/// The error classes of answers. An answer has the index in this list.
const CLASSES: [Class; 14] = [
    Class::Other,
    Class::Size,
    Class::Disp,
    Class::RmaConflict,
    Class::RmaSync,
    Class::RmaRange,
    Class::RmaAttach,
    Class::RmaShared,
    Class::RmaFlavor,
    Class::Rank,
    Class::Group,
    Class::Op,
    Class::Count,
    Class::Type,
];

/// Encodes an error as data of an answer.
fn encode_error(error: &Error) -> Vec<u8> {
    let class = error.class();
    let class = CLASSES.iter().position(|&known| known == class).unwrap_or(0);
    std::iter::once(class as u8).chain(error.to_string().into_bytes()).collect()
}

/// Decodes the error that `target` has encoded with [`encode_error`].
pub(super) fn refusal(target: Rank, data: &[u8]) -> Error {
    let (&class, why) = data.split_first().unwrap_or((&0, &[]));
    let class = CLASSES.get(usize::from(class)).copied().unwrap_or(Class::Other);
    Error::AtTarget { target, class, why: String::from_utf8_lossy(why).into() }
}

/// The header of a request's data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Header {
    /// The number of fences of the window that the origin has left.
    pub(super) fences: u32,
    /// The origin's number of the answer; 0 if it waits for none.
    pub(super) ticket: u32,
    pub(super) element: ElementKind,
    pub(super) op: Op,
}

impl Header {
    /// Encodes the header, followed by the runs of bytes at the target and the payload.
    pub(super) fn encode(self, runs: &[(u64, u64)], payload: &[u8]) -> Vec<u8> {
        let Header { fences, ticket, element, op } = self;
        let first = u64::from(fences) | u64::from(ticket) << 32;
        let second = u64::from(element.code()) | u64::from(op.code()) << 8 | (runs.len() as u64) << 16;
        let mut data = Vec::with_capacity(16 * (1 + runs.len()) + payload.len());
        let runs = runs.iter().flat_map(|&(offset, len)| [offset, len]);
        data.extend([first, second].into_iter().chain(runs).flat_map(u64::to_ne_bytes));
        data.extend_from_slice(payload);
        data
    }
}

/// Returns the fences and the ticket of a request, which are readable even where the rest is damaged.
fn first_word(data: &[u8]) -> Option<(u32, u32)> {
    let [first] = words(data)?;
    Some((first as u32, (first >> 32) as u32))
}

/// A decoded request.
#[derive(Debug)]
struct Request<'p> {
    element: ElementKind,
    op: Op,
    runs: Vec<(u64, u64)>,
    payload: &'p [u8],
}

impl Request<'_> {
    /// Decodes the request of a packet, or returns its fault.
    fn decode(packet: &Packet) -> Result<Request<'_>, String> {
        let kind = packet.kind;
        let data = &packet.data;
        let [_, second] = words(data).ok_or_else(|| format!("{} bytes are too few for a header", data.len()))?;
        let element = second as u8;
        let element =
            ElementKind::from_code(element).ok_or_else(|| format!("{element} is not a code of an element type"))?;
        let op = (second >> 8) as u8;
        let op = Op::from_code(op).ok_or_else(|| format!("{op} is not a code of an operation"))?;
        let count = second >> 16;
        let head = usize::try_from(count).ok().and_then(|count| count.checked_add(1)?.checked_mul(16));
        let (head, payload) = head
            .and_then(|head| data.split_at_checked(head))
            .ok_or_else(|| format!("{count} pieces do not fit in {} bytes", data.len()))?;
        let runs: Vec<(u64, u64)> = head[16..]
            .as_chunks::<16>()
            .0
            .iter()
            .filter_map(|run| {
                let [offset, len] = words(run)?;
                Some((offset, len))
            })
            .collect();
        let bytes = runs.iter().try_fold(0_u64, |sum, &(offset, len)| {
            offset.checked_add(len)?;
            sum.checked_add(len)
        });
        let bytes = bytes.ok_or("its pieces reach past the last address")?;
        let expected = match kind {
            PUT => bytes,
            GET | LOCK | UNLOCK | COMPLETE => 0,
            ACCUMULATE | FETCH if op == Op::NoOp => 0,
            ACCUMULATE | FETCH => bytes,
            _ => 2 * element.size(),
        };
        if payload.len() as u64 != expected {
            return Err(format!("{} bytes of data in place of {expected}", payload.len()));
        }
        let swaps = kind == CAS;
        if swaps && !(element.is_swappable() && runs.len() == 1 && bytes == element.size()) {
            return Err(format!("{bytes} bytes of type {element} cannot be compared and swapped"));
        }
        if matches!(kind, ACCUMULATE | FETCH) {
            if !op.is_defined_for(element) {
                return Err(format!("{op} is not defined for elements of type {element}"));
            }
            if let Some((_, len)) = runs.iter().find(|(_, len)| !len.is_multiple_of(element.size())) {
                return Err(format!("a piece of {len} bytes is not whole elements of type {element}"));
            }
        }
        Ok(Request { element, op, runs, payload })
    }
}

/// This rank's lock of one window: its holders and the requests that wait.
#[derive(Debug, Default)]
struct Queue {
    exclusive: bool,
    shared: u32,
    /// The waiting requests with the locks that they need.
    waiting: VecDeque<(LockKind, Packet)>,
}

impl Queue {
    /// Acquires the lock if it is free for this kind.
    fn take(&mut self, kind: LockKind) -> bool {
        match kind {
            LockKind::Exclusive if !self.exclusive && self.shared == 0 => self.exclusive = true,
            LockKind::Shared if !self.exclusive => self.shared += 1,
            _ => return false,
        }
        true
    }

    fn release(&mut self) {
        if self.exclusive {
            self.exclusive = false;
        } else {
            self.shared = self.shared.saturating_sub(1);
        }
    }
}

/// The state for serving one window of this rank.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// `None` before this rank has made the window.
    part: Option<OwnPart>,
    /// The reader of a dynamic window's list.
    dynamic: Option<Dynamic>,
    /// The number of fences that this rank has left.
    pub(super) fences: u32,
    /// Requests that arrived before this rank had made the window, or had left as many fences as their origins.
    early: Vec<Packet>,
    queue: Queue,
    /// The number of operations of fence epochs that were served, since the window was made.
    pub(super) served: u64,
    /// The number of completes that have arrived, since the window was made.
    pub(super) completed: u64,
}

/// All windows that one end-point serves.
#[derive(Debug)]
pub(crate) struct Server {
    windows: HashMap<u32, Served>,
    /// One more than the number of the last window that was made.
    made: u32,
    /// True if this is an agent's server, which learns of windows by packets.
    agent: bool,
    /// The numbers in the world of the team's ranks; empty where they are the same.
    ranks: Arc<[Rank]>,
}

/// The rank's handle of the world and the messages for answers, which serving needs in addition to the server.
struct Desk<'s> {
    world: &'s dyn RemoteAtomics,
    messages: &'s mut messages::EndpointState,
}

impl Desk<'_> {
    fn answer(&mut self, packet: &Packet, kind: messages::Kind, data: Vec<u8>) -> messages::Result<()> {
        let Some((_, ticket)) = first_word(&packet.data) else { return Ok(()) };
        let word = packet.word & u64::from(u32::MAX) | u64::from(ticket) << 32;
        match self.messages.send(self.world, packet.from, kind, word, data) {
            // An origin that has left does not wait for an answer.
            Err(MessagesError::Left { .. }) => Ok(()),
            sent => sent,
        }
    }

    fn refuse(&mut self, packet: &Packet, error: &Error) -> messages::Result<()> {
        self.answer(packet, REFUSED, encode_error(error))
    }

    fn damaged(&self, packet: &Packet, what: &str) -> MessagesError {
        let what = format!("kind {} from {}: {what}", packet.kind.0, packet.from).into();
        MessagesError::Damaged { at: self.messages.me(), what }
    }
}

impl Server {
    pub(super) fn new(agent: bool, ranks: Arc<[Rank]>) -> Server {
        Server { windows: HashMap::new(), made: 0, agent, ranks }
    }

    /// Returns a window's state, which may exist before the window does.
    pub(super) fn window(&mut self, window: u32) -> &mut Served {
        self.windows.entry(window).or_default()
    }

    pub(super) fn forget(&mut self, window: u32) {
        self.windows.remove(&window);
    }

    pub(super) fn register(&mut self, window: u32, part: OwnPart) {
        self.made = self.made.max(window.saturating_add(1));
        let ranks = Arc::clone(&self.ranks);
        let served = self.window(window);
        served.part = Some(part);
        if let OwnPlace::Dynamic(list) = part.place {
            served.dynamic = Some(Dynamic::reader(list, ranks));
        }
    }

    /// Like [`register`](Self::register), for an agent, which serves no fence epochs.
    pub(super) fn register_passive(&mut self, window: u32, part: OwnPart) {
        self.register(window, part);
        self.window(window).fences = u32::MAX;
    }

    /// Serves a request, or keeps it until it can be served.
    ///
    /// # Errors
    ///
    /// The errors of the network. The answer to a failed request is its error. A request that is too damaged for an
    /// answer is an error here.
    pub(super) fn request(
        &mut self,
        world: &dyn RemoteAtomics,
        messages: &mut messages::EndpointState,
        packet: Packet,
    ) -> messages::Result<()> {
        let window = packet.word as u32;
        let flags = (packet.word >> 32) as u32;
        let mut desk = Desk { world, messages };
        match packet.kind {
            REGISTER if self.agent && packet.from.rank == world.rank() => {
                if packet.data.is_empty() {
                    self.forget(window);
                    return Ok(());
                }
                let part = OwnPart::decode(&packet.data).map_err(|what| desk.damaged(&packet, &what))?;
                self.register_passive(window, part);
                return self.replay(world, messages, window);
            }
            PUT | ACCUMULATE | GET | FETCH | CAS | LOCK | UNLOCK | COMPLETE => {}
            kind => return Err(desk.damaged(&packet, &format!("{} is not a kind of request", kind.0))),
        }
        let Some((fences, _)) = first_word(&packet.data) else {
            return Err(desk.damaged(&packet, &format!("{} bytes are too few for a header", packet.data.len())));
        };
        let kind = match flags::lock(flags) {
            Ok(kind) => kind,
            Err(what) => {
                let error = Error::from(desk.damaged(&packet, &what));
                return desk.refuse(&packet, &error);
            }
        };
        if window < self.made && !self.windows.contains_key(&window) {
            let error = Error::from(desk.damaged(&packet, &format!("window {window} was freed, or never made")));
            return desk.refuse(&packet, &error);
        }
        let served = self.windows.entry(window).or_default();
        if served.part.is_none() || fences > served.fences {
            served.early.push(packet);
            return Ok(());
        }
        if let Some(kind) = kind
            && (!served.queue.waiting.is_empty() || !served.queue.take(kind))
        {
            served.queue.waiting.push_back((kind, packet));
            return Ok(());
        }
        served.execute(&mut desk, &packet)?;
        // A release grants the next locks. Shared locks at the head are granted together.
        while let Some(&(kind, _)) = served.queue.waiting.front() {
            if !served.queue.take(kind) {
                break;
            }
            if let Some((_, next)) = served.queue.waiting.pop_front() {
                served.execute(&mut desk, &next)?;
            }
        }
        Ok(())
    }

    /// Serves the requests that arrived too early, once that has changed.
    pub(super) fn replay(
        &mut self,
        world: &dyn RemoteAtomics,
        messages: &mut messages::EndpointState,
        window: u32,
    ) -> messages::Result<()> {
        let early = self.windows.get_mut(&window).map(|served| std::mem::take(&mut served.early));
        early.into_iter().flatten().try_for_each(|packet| self.request(world, messages, packet))
    }

    /// Refuses the requests that wait for this rank or for other origins, since this rank leaves.
    pub(super) fn refuse_waiting(
        &mut self,
        world: &dyn RemoteAtomics,
        messages: &mut messages::EndpointState,
    ) -> messages::Result<()> {
        let error = Error::from(MessagesError::Left { to: messages.me() });
        let mut desk = Desk { world, messages };
        for served in self.windows.values_mut() {
            let waiting = served.queue.waiting.drain(..).map(|(_, packet)| packet);
            for packet in served.early.drain(..).chain(waiting) {
                desk.refuse(&packet, &error)?;
            }
        }
        Ok(())
    }
}

impl Served {
    /// Serves a request whose lock, if it needs one, is held. It obeys the flags even if the operation fails, so that a
    /// failed request leaves no lock held and no rank waiting.
    fn execute(&mut self, desk: &mut Desk<'_>, packet: &Packet) -> messages::Result<()> {
        let flags = (packet.word >> 32) as u32;
        let request = Request::decode(packet).map_err(|what| Error::from(desk.damaged(packet, &what)));
        let done = request.and_then(|request| match packet.kind {
            LOCK | UNLOCK | COMPLETE => Ok(Vec::new()),
            _ => self.operate(desk, packet.kind, &request),
        });
        self.served += u64::from(flags & flags::COUNTED != 0);
        self.completed += u64::from(flags & flags::LAST != 0);
        if flags & flags::RELEASE != 0 {
            self.queue.release();
        }
        match done {
            Err(Error::Atomics(error @ rmalab_atomics::Error::PeerFailed { .. })) => Err(error.into()),
            Err(error) => desk.refuse(packet, &error),
            Ok(_) if packet.kind == LOCK => desk.answer(packet, GRANT, Vec::new()),
            Ok(fetched) if flags & flags::ANSWER != 0 => {
                let kind = if matches!(packet.kind, PUT | ACCUMULATE) { ACK } else { ANSWER };
                desk.answer(packet, kind, fetched)
            }
            Ok(_) => Ok(()),
        }
    }

    /// Does the operation, and returns the fetched bytes.
    fn operate(&self, desk: &Desk<'_>, kind: messages::Kind, request: &Request<'_>) -> Result<Vec<u8>> {
        let ra = desk.world;
        let part = self.part.as_ref().expect("a request is kept until there is a part");
        let me = ra.rank();
        let mut fetched = Vec::new();
        let mut at = 0;
        // The pieces of one operation; all of them lie in one place.
        let mut all = |place: TargetMemory<'_>, base: u64| -> Result<()> {
            for &(offset, len) in &request.runs {
                let offset = offset.wrapping_sub(base);
                let len = len as usize;
                let payload = request.payload.get(at..at + len).unwrap_or(&[]);
                at += len;
                match kind {
                    PUT => place.write(ra, offset, payload)?,
                    GET => {
                        let start = fetched.len();
                        fetched.resize(start + len, 0);
                        place.read(ra, offset, &mut fetched[start..])?;
                    }
                    _ => {
                        let path = AccumulatePath::new(ra, part.accumulate, part.lock, false);
                        let updates = Updates { ra, path: &path, bias: None, rank: me, place, alone: false };
                        update(&updates, request, kind, offset, payload, len, &mut fetched)?;
                    }
                }
            }
            Ok(())
        };
        let first = request.runs.iter().map(|&(offset, _)| offset).min().unwrap_or(0);
        let end = request.runs.iter().map(|&(offset, len)| offset + len).max().unwrap_or(0);
        let (disp, len) = (WindowDisp(first as i64), end - first);
        match part.place {
            OwnPlace::Segment(_) | OwnPlace::Exposed(_) if end > part.bytes => {
                return Err(Error::OutOfWindow {
                    call: Call::Local,
                    target: me,
                    disp,
                    unit: 1,
                    len,
                    bytes: part.bytes,
                });
            }
            OwnPlace::Segment(start) => all(TargetMemory::Segment(start), 0)?,
            OwnPlace::Exposed(key) => all(TargetMemory::Leased(&*ra.pin(me, key)?), 0)?,
            OwnPlace::Dynamic(_) => {
                let list = self.dynamic.as_ref().expect("it was registered with the part");
                list.with_region(ra, Call::Local, me, disp, len, |place, offset| {
                    all(place, first.wrapping_sub(offset))
                })?;
            }
        }
        if kind == PUT && len > 0 {
            match &self.dynamic {
                Some(list) => list.flush(ra, me)?,
                None => ra.flush(me)?,
            }
        }
        Ok(fetched)
    }
}

/// Updates the elements of `len` bytes at `offset`, by the request's operation.
fn update(
    updates: &Updates<'_, dyn RemoteAtomics + '_>,
    request: &Request<'_>,
    kind: messages::Kind,
    offset: u64,
    payload: &[u8],
    len: usize,
    fetched: &mut Vec<u8>,
) -> Result<()> {
    let &Request { element, op, .. } = request;
    if kind == ACCUMULATE {
        // With no_op there is no payload.
        return updates.run(offset, element, op, payload, None);
    }
    let start = fetched.len();
    fetched.resize(start + len, 0);
    let old = &mut fetched[start..];
    if kind == FETCH {
        return updates.run(offset, element, op, payload, Some(old));
    }
    let (expected, desired) = request.payload.split_at(len);
    from_word(updates.compare_and_swap(offset, element, to_word(expected), to_word(desired))?, old);
    Ok(())
}
