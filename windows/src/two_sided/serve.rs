//! The target's side: requests that have arrived, served one at a time.

use std::collections::{HashMap, VecDeque};

use bytemuck::allocation::pod_collect_to_vec;
use rmalab_atomics::exposed::ExposedKey;
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics};
use rmalab_locks::LockKind;

use super::{ACCUMULATE, ACK, ANSWER, CAS, COMPLETE, FETCH, GET, GRANT, LOCK, PUT, REGISTER, UNLOCK, flags};
use crate::accumulate::Updates;
use crate::bias::Ways;
use crate::dynamic::Dynamic;
use crate::element::{Element, Integer, Kind as ElementKind, Op, Pair};
use crate::messages::{Messages, Packet};
use crate::target::Place;
use crate::{AccumulateStrategy, Call, Result, WindowDisp};

/// Where this rank's part of a window is, and how accumulates update it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPart {
    pub(crate) place: OwnPlace,
    pub(crate) accumulate: AccumulateStrategy,
    /// The lock of accumulates.
    pub(crate) lock: Disp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnPlace {
    Segment(Address),
    Exposed(ExposedKey),
    /// The list of regions of a dynamic window.
    Dynamic(Disp),
}

impl OwnPart {
    /// As data of a packet to this rank's agent.
    pub(super) fn encode(self) -> Vec<u8> {
        let place = match self.place {
            OwnPlace::Segment(at) => [0, at.disp.0, u64::from(at.rank.0)],
            OwnPlace::Exposed(key) => [1, key.0, 0],
            OwnPlace::Dynamic(list) => [2, list.0, 0],
        };
        let way = AccumulateStrategy::ALL.iter().position(|&way| way == self.accumulate).unwrap_or(0);
        place.into_iter().chain([way as u64, self.lock.0]).flat_map(u64::to_ne_bytes).collect()
    }

    /// `None` for no data, which says that the window is no more.
    fn decode(data: &[u8]) -> Option<OwnPart> {
        let [tag, first, second, way, lock] = words(data)?;
        let place = match tag {
            0 => OwnPlace::Segment(Rank(second as u32).at(Disp(first))),
            1 => OwnPlace::Exposed(ExposedKey(first)),
            _ => OwnPlace::Dynamic(Disp(first)),
        };
        let accumulate = AccumulateStrategy::ALL.get(way as usize).copied().unwrap_or_default();
        Some(OwnPart { place, accumulate, lock: Disp(lock) })
    }
}

/// The first words of `data`, if it has as many.
fn words<const N: usize>(data: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(data.as_chunks().0.get(..N)?) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(words)
}

/// What a request's data begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Fences of the window that the origin has left.
    pub(super) fences: u32,
    /// What the origin knows the answer by.
    pub(super) ticket: u32,
    pub(super) element: ElementKind,
    pub(super) op: Op,
}

impl Header {
    /// The header, and after it the bytes at the target that the operation is about.
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

/// A request, as its packet says it.
struct Request<'p> {
    header: Header,
    runs: Vec<(u64, u64)>,
    payload: &'p [u8],
}

impl Request<'_> {
    fn decode(data: &[u8]) -> Request<'_> {
        let [first, second] = words(data).expect("a request begins with its header");
        let runs = (second >> 16) as usize;
        let (head, payload) = data.split_at(16 * (1 + runs));
        let runs = head[16..].as_chunks::<16>().0.iter().map(|run| {
            let [offset, len] = words(run).expect("a run is two words");
            (offset, len)
        });
        let header = Header {
            fences: first as u32,
            ticket: (first >> 32) as u32,
            element: ElementKind::from_code(second as u8).unwrap_or(ElementKind::U8),
            op: Op::from_code((second >> 8) as u8).unwrap_or(Op::NoOp),
        };
        Request { header, runs: runs.collect(), payload }
    }

    fn bytes(&self) -> usize {
        self.runs.iter().map(|&(_, len)| len as usize).sum()
    }
}

/// This rank's lock of one window: who holds it, and who waits.
#[derive(Debug, Default)]
struct Queue {
    exclusive: bool,
    shared: u32,
    waiting: VecDeque<Packet>,
}

impl Queue {
    /// Takes the lock if it is free for this kind.
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

/// One window, as its own rank serves it.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// `None` before this rank has made the window.
    part: Option<OwnPart>,
    /// The reader of a dynamic window's list.
    dynamic: Option<Dynamic>,
    /// Fences that this rank has left.
    pub(super) fences: u32,
    /// Requests that came before this rank had made the window, or left as many fences as their origins.
    early: Vec<Packet>,
    queue: Queue,
    /// Operations of fence epochs that were served, since ever.
    pub(super) served: u64,
    /// Completes that have come, since ever.
    pub(super) completed: u64,
}

/// All windows that one end-point serves.
#[derive(Debug, Default)]
pub(crate) struct Server {
    windows: HashMap<u32, Served>,
}

impl Server {
    /// A window's state, which may be there before the window is.
    pub(super) fn window(&mut self, window: u32) -> &mut Served {
        self.windows.entry(window).or_default()
    }

    pub(super) fn forget(&mut self, window: u32) {
        self.windows.remove(&window);
    }

    pub(super) fn register(&mut self, window: u32, part: OwnPart) {
        let served = self.window(window);
        served.part = Some(part);
        if let OwnPlace::Dynamic(list) = part.place {
            served.dynamic = Some(Dynamic::reader(list));
        }
    }

    /// Serves a request, or keeps it until it may be served.
    pub(super) fn request<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        ends: &Messages<'_, A>,
        packet: Packet,
    ) -> Result<()> {
        let window = packet.word as u32;
        if packet.kind == REGISTER {
            match OwnPart::decode(&packet.data) {
                Some(part) => {
                    self.register(window, part);
                    // Only agents are told, and those serve no epochs of fences.
                    self.window(window).fences = u32::MAX;
                }
                None => self.forget(window),
            }
            return self.replay(ra, ends, window);
        }
        let served = self.window(window);
        let [first] = words(&packet.data).expect("a request begins with its header");
        if served.part.is_none() || first as u32 > served.fences {
            served.early.push(packet);
            return Ok(());
        }
        let flags = (packet.word >> 32) as u32;
        if let Some(kind) = flags::lock(flags)
            && (!served.queue.waiting.is_empty() || !served.queue.take(kind))
        {
            served.queue.waiting.push_back(packet);
            return Ok(());
        }
        served.execute(ra, ends, &packet)?;
        // Whoever waits gets what this one has released; a shared lock lets others in behind it.
        while let Some(next) = served.queue.waiting.front() {
            let kind = flags::lock((next.word >> 32) as u32).expect("who waits wants a lock");
            if !served.queue.take(kind) {
                break;
            }
            let next = served.queue.waiting.pop_front().expect("one was looked at");
            served.execute(ra, ends, &next)?;
        }
        Ok(())
    }

    /// Serves what came too early, once that has changed.
    pub(super) fn replay<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        ends: &Messages<'_, A>,
        window: u32,
    ) -> Result<()> {
        let early = self.windows.get_mut(&window).map(|served| std::mem::take(&mut served.early));
        early.into_iter().flatten().try_for_each(|packet| self.request(ra, ends, packet))
    }
}

impl Served {
    fn execute<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, ends: &Messages<'_, A>, packet: &Packet) -> Result<()> {
        let request = Request::decode(&packet.data);
        let flags = (packet.word >> 32) as u32;
        let answer = |kind, data| {
            let word = packet.word & u64::from(u32::MAX) | u64::from(request.header.ticket) << 32;
            ends.send_packet(packet.from, kind, word, data)
        };
        match packet.kind {
            LOCK => answer(GRANT, Vec::new())?,
            UNLOCK | COMPLETE => {}
            _ => {
                let fetched = self.operate(ra, packet, &request)?;
                if flags & flags::ANSWER != 0 {
                    let kind = if matches!(packet.kind, PUT | ACCUMULATE) { ACK } else { ANSWER };
                    answer(kind, fetched)?;
                }
            }
        }
        self.served += u64::from(flags & flags::COUNTED != 0);
        self.completed += u64::from(flags & flags::LAST != 0);
        if flags & flags::RELEASE != 0 {
            self.queue.release();
        }
        Ok(())
    }

    /// Does the operation, and returns what it fetches.
    fn operate<A: RemoteAtomics + ?Sized>(&self, ra: &A, packet: &Packet, request: &Request<'_>) -> Result<Vec<u8>> {
        let part = self.part.as_ref().expect("it was looked for");
        let me = ra.rank();
        let mut fetched = Vec::new();
        let mut at = 0;
        // Pieces of one operation: all in one region of a dynamic window, as the origin has checked.
        let mut all = |place: Place<'_>, base: u64| -> Result<()> {
            for &(offset, len) in &request.runs {
                let offset = offset.wrapping_sub(base);
                let len = len as usize;
                let payload = request.payload.get(at..at + len).unwrap_or(&[]);
                at += len;
                match packet.kind {
                    PUT => place.write(ra, offset, payload)?,
                    GET => {
                        let start = fetched.len();
                        fetched.resize(start + len, 0);
                        place.read(ra, offset, &mut fetched[start..])?;
                    }
                    _ => {
                        let Header { element, op, .. } = request.header;
                        let OwnPart { accumulate, lock, .. } = *part;
                        let ways = Ways::new(ra, accumulate, lock, false);
                        let updates = Updates { ra, ways: &ways, bias: None, rank: me, place, alone: false };
                        let payload = if packet.kind == CAS { request.payload } else { payload };
                        update(&updates, element, packet.kind, offset, op, payload, len, &mut fetched)?;
                    }
                }
            }
            Ok(())
        };
        match part.place {
            OwnPlace::Segment(start) => all(Place::Segment(start), 0)?,
            OwnPlace::Exposed(key) => all(Place::Leased(&*ra.lease(me, key)?), 0)?,
            OwnPlace::Dynamic(_) => {
                let list = self.dynamic.as_ref().expect("it was registered with the part");
                let first = request.runs.iter().map(|&(offset, _)| offset).min().unwrap_or(0);
                let end = request.runs.iter().map(|&(offset, len)| offset.wrapping_add(len)).max().unwrap_or(0);
                let (disp, len) = (WindowDisp(first as i64), end.wrapping_sub(first));
                list.with_region(ra, Call::Local, me, disp, len, |place, offset| {
                    all(place, first.wrapping_sub(offset))
                })?;
            }
        }
        if packet.kind == PUT && request.bytes() > 0 {
            ra.flush(me)?;
        }
        Ok(fetched)
    }
}

/// Runs an update on elements of the kind that the request names.
#[expect(clippy::too_many_arguments, reason = "what a request consists of")]
fn update<A: RemoteAtomics + ?Sized>(
    updates: &Updates<'_, A>,
    element: ElementKind,
    kind: crate::messages::Kind,
    offset: u64,
    op: Op,
    payload: &[u8],
    len: usize,
    fetched: &mut Vec<u8>,
) -> Result<()> {
    macro_rules! by_kind {
        ($run:ident: $($name:ident $type:ty),*) => {
            match element {
                $(ElementKind::$name => $run::<$type, A>(updates, offset, op, payload, len, fetched, kind == FETCH),)*
                #[allow(unreachable_patterns, reason = "the list of integers is not all of them")]
                _ => Ok(()),
            }
        };
    }
    debug_assert!([ACCUMULATE, FETCH, CAS].contains(&kind));
    if kind == CAS {
        return by_kind!(swap: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64);
    }
    by_kind!(combine: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
        PairI16 Pair<i16, i16>, PairI32 Pair<i32, i32>, PairI64 Pair<i64, i64>, PairU32 Pair<u32, u32>,
        PairU64 Pair<u64, u64>, PairF32I32 Pair<f32, i32>, PairF64I64 Pair<f64, i64>)
}

fn combine<T: Element, A: RemoteAtomics + ?Sized>(
    updates: &Updates<'_, A>,
    offset: u64,
    op: Op,
    payload: &[u8],
    len: usize,
    fetched: &mut Vec<u8>,
    fetch: bool,
) -> Result<()> {
    let source: Vec<T> = pod_collect_to_vec(payload);
    let mut old = vec![T::zeroed(); if fetch { len / size_of::<T>() } else { 0 }];
    updates.run(offset, op, &source, fetch.then_some(&mut old[..]))?;
    fetched.extend_from_slice(bytemuck::cast_slice(&old));
    Ok(())
}

fn swap<T: Integer, A: RemoteAtomics + ?Sized>(
    updates: &Updates<'_, A>,
    offset: u64,
    _: Op,
    payload: &[u8],
    _: usize,
    fetched: &mut Vec<u8>,
    _: bool,
) -> Result<()> {
    let values: Vec<T> = pod_collect_to_vec(payload);
    let [expected, desired] = values[..] else { return Ok(()) };
    let old = updates.compare_and_swap(offset, expected, desired)?;
    fetched.extend_from_slice(bytemuck::bytes_of(&old));
    Ok(())
}
