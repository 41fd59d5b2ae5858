//! A reliable stream of packets of any length, from every end-point to every other one.
//!
//! # State
//!
//! An end-point has one *ring* of S slots, to which all its peers write, so its memory does not grow with the ranks.
//! All its words are 0 at first. Tickets count all slots ever taken; ticket t is for slot t mod S.
//!
//! | word | written by | value |
//! | --- | --- | --- |
//! | tail | senders, owner | the next ticket; bit 63 once the owner has left |
//! | head | owner | tickets whose slots have been read, shown every S/2 |
//! | waiters | senders, owner | the top of a stack of nodes: senders that found the ring full |
//! | at | owner | the ticket at which the owner sleeps, while it has packets that found a full ring |
//! | node | owner, then its waker | the next lower node in the stack; `WOKEN` once the node is in no stack |
//! | slot: number | sender, waker | t + 1 once the packet is there; bit 63 is a nudge |
//! | slot: header, word, data | sender | kind, sender and length; the packet's own word; its data |
//!
//! # Invariants
//!
//! * I1. A sender that takes a ticket has room for it: it tries the compare-and-swap of the tail from t to t + 1 only with t
//!   < head + S, and the head only grows. So a sender fills its slot without waiting, and the owner waits for a slot at most
//!   as long as a put takes. A fetch-and-add would give tickets without room. Their holders may be computing when there is
//!   room, and all later senders in the ring would wait for them.
//! * I2. The number is put only after header, word and data are ordered ahead of it. Up to [`SHORT`] bytes, these are
//!   word puts to the same target. Longer data are a bulk put, which is flushed unless the backend keeps puts in order.
//! * I3. Slot t is written again only after its owner has shown head > t, which is after the owner has read it.
//! * I4. When an owner finds its ring empty, the head that it has shown lacks at most S/2 − 1 packets. So the ring shows
//!   room to every sender: after a sender has found the ring full, the owner shows a new head, even though a sleeping owner
//!   shows nothing.
//! * I5. No wake-up is lost. A sender enters the stack, then looks at the head; the owner shows the head, then takes the
//!   stack: one of the two sees the other. The owner then writes `WOKEN`, reads `at`, and nudges slot `at` of the sleeper,
//!   unless a packet is there. The sleeper writes `at`, then looks for `WOKEN`, then waits for its slot to change. These
//!   are fetching operations and gets, which are sequentially consistent.
//! * I6. A nudge is a compare-and-swap from the slot's number of the previous round. Once the packet's number is there, a
//!   nudge does nothing, and the put of that number overwrites a nudge that was not taken back. Where an atomic may lose a
//!   put ([`Capabilities::atomic_puts`]), the sender flushes and stores the number with a fetching operation.
//! * I7. An owner leaves by a compare-and-swap of the tail, which sets bit 63 only while the tail is the head. So every
//!   packet with a ticket is read, and the sender of every later packet gets an error.
//!
//! # Cost
//!
//! A packet of up to 40 bytes into a ring with room takes one compare-and-swap, three word puts, and one word put for each word of data. A longer packet
//! takes a bulk put for each slot, and a flush unless puts keep their order. A sender gets the head every S/2 packets or so. It repeats the
//! compare-and-swap when another sender was faster, so under contention senders are not treated fairly.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rmalab_atomics::{Capabilities, Disp, Rank, RemoteAtomics, SymmetricHeap, Until, WORD};

use super::{Endpoint, Error, Kind, Options, Packet, Result};

/// Data of up to this many bytes travel as word puts: with the three words ahead of them, they fill a cache line.
const SHORT: usize = 40;

/// Bytes of a slot ahead of its data.
pub(super) const BEFORE_DATA: u64 = 3 * WORD;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// The number of full rings for which an end-point can wait with a node at a time. It polls the others.
const NODES: usize = 8;

/// The value of a node that is no longer in a stack.
const WOKEN: u64 = u64::MAX;

/// The bit of a slot's number that wakes its owner without a packet.
const NUDGE: u64 = 1 << 63;

/// The bit of the tail that is set once its owner has left.
const LEFT: u64 = 1 << 63;

/// The time between two looks at full rings for which no node was left.
const POLL: Duration = Duration::from_millis(2);

/// The largest number of end-points of one rank: 3 bits of the header.
pub(super) const PORTS: u8 = 8;

/// The largest size of a slot: its length has 20 bits in the header.
pub(super) const LARGEST_SLOT: u64 = 1 << 20;

/// The displacements of the rings of all ports, which are the same on all ranks.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The ring of each port.
    rings: Vec<Disp>,
    slots: u64,
    /// Bytes of a slot.
    stride: u64,
}

impl Layout {
    pub(super) fn alloc(heap: &SymmetricHeap, ports: u8, options: &Options) -> Result<Layout> {
        let (slots, stride) = (u64::from(options.slots), u64::from(options.slot_bytes));
        let bytes = 4 * LINE + slots * stride;
        let rings = (0..ports).map(|_| heap.alloc(bytes, LINE)).collect::<Result<_, _>>()?;
        Ok(Layout { rings, slots, stride })
    }

    pub(super) fn ring(&self, port: u8) -> Disp {
        self.rings[usize::from(port)]
    }

    pub(super) fn ports(&self) -> u8 {
        // At most `PORTS`.
        self.rings.len() as u8
    }

    fn tail(&self, port: u8) -> Disp {
        self.ring(port)
    }

    fn head(&self, port: u8) -> Disp {
        self.ring(port).plus(LINE)
    }

    fn waiters(&self, port: u8) -> Disp {
        self.ring(port).plus(2 * LINE)
    }

    fn at(&self, port: u8) -> Disp {
        self.ring(port).plus(2 * LINE).word(1)
    }

    fn node(&self, port: u8, node: usize) -> Disp {
        self.ring(port).plus(3 * LINE).word(node as u64)
    }

    fn slot(&self, port: u8, ticket: u64) -> Disp {
        self.ring(port).plus(4 * LINE + ticket % self.slots * self.stride)
    }

    /// Returns the number of bytes of data in a slot.
    fn room(&self) -> usize {
        (self.stride - BEFORE_DATA) as usize
    }

    /// Returns the number in the slot of `ticket` before its packet is there.
    fn before(&self, ticket: u64) -> u64 {
        ticket.wrapping_add(1).saturating_sub(self.slots)
    }
}

/// The second word of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    from: Endpoint,
    kind: Kind,
    /// True if the packet continues in the sender's next slot.
    more: bool,
    /// Bytes of data in this slot.
    len: usize,
}

impl Header {
    fn encode(self) -> u64 {
        u64::from(self.from.rank.0)
            | u64::from(self.kind.0) << 32
            | u64::from(self.from.port) << 40
            | u64::from(self.more) << 43
            | (self.len as u64) << 44
    }

    fn decode(word: u64) -> Header {
        Header {
            from: Endpoint { rank: Rank(word as u32), port: (word >> 40) as u8 % PORTS },
            kind: Kind((word >> 32) as u8),
            more: word >> 43 & 1 != 0,
            len: (word >> 44) as usize,
        }
    }
}

/// Encodes a node of a stack of waiters, so that 0 is no node.
fn encode_node(of: Endpoint, node: usize) -> u64 {
    (u64::from(of.rank.0) << 8 | u64::from(of.port) << 4 | node as u64) + 1
}

/// Decodes a word of [`encode_node`]; `None` if it is not a node.
fn decode_node(word: u64) -> Option<(Endpoint, usize)> {
    let word = word.checked_sub(1).filter(|&word| word >> 40 == 0)?;
    let of = Endpoint { rank: Rank((word >> 8) as u32), port: (word >> 4) as u8 & 0xF };
    Some((of, word as usize & 0xF)).filter(|&(_, node)| node < NODES)
}

/// A packet that is not yet completely in its target's ring.
#[derive(Debug)]
struct Outgoing {
    kind: Kind,
    word: u64,
    data: Vec<u8>,
    /// The number of its bytes that are in slots.
    done: usize,
    /// The number of the send whose request takes the data back.
    id: Option<u64>,
}

/// The tail and head of a peer's ring, as this end-point last saw them. Both may be outdated.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    tail: u64,
    head: u64,
}

/// One end-point's packets: its ring, and the packets that it sends to other rings.
///
/// It borrows no handle. Each call takes the handle that numbers the ranks as the packets do.
#[derive(Debug)]
pub(super) struct Packets {
    layout: Layout,
    me: Endpoint,
    /// The next ticket of this end-point's ring to read.
    head: u64,
    /// The head as the ring shows it.
    shown: u64,
    /// Packets of which the first slots have arrived.
    partial: BTreeMap<Endpoint, Packet>,
    known: BTreeMap<Endpoint, Known>,
    /// The packets that were not sent yet, in order. No queue is empty.
    outgoing: BTreeMap<Endpoint, VecDeque<Outgoing>>,
    /// The ring for which each node waits.
    nodes: [Option<Endpoint>; NODES],
    /// Data that the end-point's packets no longer need.
    sent: Vec<(u64, Vec<u8>)>,
    /// The number of packets sent, by kind.
    counts: Vec<u64>,
    /// The number of slots filled.
    slots_filled: u64,
}

impl Packets {
    pub(super) fn new(layout: Layout, me: Endpoint) -> Self {
        Packets {
            layout,
            me,
            head: 0,
            shown: 0,
            partial: BTreeMap::new(),
            known: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            nodes: [None; NODES],
            sent: Vec::new(),
            counts: vec![0; 1 << u8::BITS],
            slots_filled: 0,
        }
    }

    pub(super) fn me(&self) -> Endpoint {
        self.me
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn count(&self, kind: Kind) -> u64 {
        self.counts[usize::from(kind.0)]
    }

    pub(super) fn slots_filled(&self) -> u64 {
        self.slots_filled
    }

    /// Returns whether every packet is in its target's ring.
    pub(super) fn all_sent(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Takes the data of packets with an id that are in their targets' rings.
    pub(super) fn take_sent(&mut self) -> std::vec::Drain<'_, (u64, Vec<u8>)> {
        self.sent.drain(..)
    }

    /// Sends a packet at once if it needs one slot, and neither waiting nor queueing.
    pub(super) fn send_now<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        to: Endpoint,
        kind: Kind,
        word: u64,
        data: &[u8],
    ) -> Result<bool> {
        if data.len() > self.layout.room() || self.outgoing.contains_key(&to) {
            return Ok(false);
        }
        let header = Header { from: self.me, kind, more: false, len: data.len() };
        let done = self.fill(ra, to, header, word, data)?;
        self.counts[usize::from(kind.0)] += u64::from(done);
        Ok(done)
    }

    /// Sends a packet, as far as there is room. The rest follows when [`pump`](Self::pump) is called.
    pub(super) fn send<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        to: Endpoint,
        kind: Kind,
        word: u64,
        data: Vec<u8>,
        id: Option<u64>,
    ) -> Result<()> {
        if self.send_now(ra, to, kind, word, &data)? {
            self.sent.extend(id.map(|id| (id, data)));
            return Ok(());
        }
        self.counts[usize::from(kind.0)] += 1;
        let queue = self.outgoing.entry(to).or_default();
        queue.push_back(Outgoing { kind, word, data, done: 0, id });
        // The packet follows those already in the queue.
        if queue.len() == 1 { self.pump(ra) } else { Ok(()) }
    }

    /// Puts queued packets into rings, as far as there is room.
    pub(super) fn pump<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let result = outgoing.iter_mut().try_for_each(|(&to, queue)| {
            let pumped = self.pump_queue(ra, to, queue);
            if let Err(Error::Left { .. }) = pumped {
                // These packets can never be sent, and must not block the other queues.
                queue.clear();
            }
            pumped
        });
        outgoing.retain(|_, queue| !queue.is_empty());
        self.outgoing = outgoing;
        result
    }

    fn pump_queue<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        to: Endpoint,
        queue: &mut VecDeque<Outgoing>,
    ) -> Result<()> {
        while let Some(packet) = queue.front_mut() {
            loop {
                let rest = &packet.data[packet.done..];
                let len = rest.len().min(self.layout.room());
                let header = Header { from: self.me, kind: packet.kind, more: len < rest.len(), len };
                // All slots except the first have the packet's whole length instead of its word.
                let word = if packet.done == 0 { packet.word } else { packet.data.len() as u64 };
                if !self.fill(ra, to, header, word, &rest[..len])? {
                    return Ok(());
                }
                packet.done += len;
                if !header.more {
                    break;
                }
            }
            if let Some(Outgoing { data, id: Some(id), .. }) = queue.pop_front() {
                self.sent.push((id, data));
            }
        }
        Ok(())
    }

    /// Fills one slot of `to`'s ring, or returns false if the ring is full.
    fn fill<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        to: Endpoint,
        header: Header,
        word: u64,
        data: &[u8],
    ) -> Result<bool> {
        let Some(ticket) = self.ticket(ra, to)? else { return Ok(false) };
        let slot = self.layout.slot(to.port, ticket);
        ra.put(to.rank.at(slot.word(1)), header.encode())?;
        ra.put(to.rank.at(slot.word(2)), word)?;
        if data.len() <= SHORT {
            for (i, part) in (3..).zip(data.chunks(WORD as usize)) {
                let mut bytes = [0; WORD as usize];
                bytes[..part.len()].copy_from_slice(part);
                ra.put(to.rank.at(slot.word(i)), u64::from_ne_bytes(bytes))?;
            }
        } else {
            ra.post_bytes(to.rank.at(slot.word(3)), data)?;
        }
        let Capabilities { ordered_puts, atomic_puts, .. } = ra.capabilities();
        if !atomic_puts || (data.len() > SHORT && !ordered_puts) {
            ra.flush(to.rank)?; // I2
        }
        if atomic_puts {
            ra.put(to.rank.at(slot), ticket + 1)?; // I2
        } else {
            ra.fetch_store(to.rank.at(slot), ticket + 1)?; // I6
        }
        self.slots_filled += 1;
        Ok(true)
    }

    /// Takes a ticket of `to`'s ring, if there is room.
    fn ticket<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, to: Endpoint) -> Result<Option<u64>> {
        let known = self.known.entry(to).or_default();
        loop {
            let Known { tail, head } = *known;
            if tail >= head.saturating_add(self.layout.slots) {
                known.head = ra.get(to.rank.at(self.layout.head(to.port)))?;
                // The ring may be far ahead of the values that this end-point knows.
                known.tail = tail.max(known.head);
                if known.tail >= known.head.saturating_add(self.layout.slots) {
                    return Ok(None);
                }
                continue;
            }
            let seen = ra.compare_and_swap(to.rank.at(self.layout.tail(to.port)), tail, tail + 1)?; // I1
            if seen & LEFT != 0 {
                return Err(Error::Left { to });
            }
            if seen == tail {
                known.tail = tail + 1;
                return Ok(Some(tail));
            }
            known.tail = seen;
        }
    }

    /// Leaves, unless there are packets to read. Returns whether it has left (I7).
    pub(super) fn leave<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        let Endpoint { rank, port } = self.me;
        let seen = ra.compare_and_swap(rank.at(self.layout.tail(port)), self.head, self.head | LEFT)?;
        if seen != self.head {
            return Ok(seen & LEFT != 0);
        }
        // This wakes the senders that wait for room.
        self.show_head(ra)?;
        Ok(true)
    }

    /// Returns the next packet that has arrived completely.
    ///
    /// A damaged packet is an error, and is dropped.
    pub(super) fn next<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Option<Packet>> {
        loop {
            let slot = self.layout.slot(self.me.port, self.head);
            let own = |disp| ra.get(self.me.rank.at(disp));
            if own(slot)? != self.head + 1 {
                return Ok(None);
            }
            let header = Header::decode(own(slot.word(1))?);
            let word = own(slot.word(2))?;
            let part = self.part(ra, slot, header);
            self.head += 1;
            if self.head - self.shown >= (self.layout.slots / 2).max(1) {
                self.show_head(ra)?;
            }
            if let Some(packet) = self.join(header, word, part?)? {
                return Ok(Some(packet));
            }
        }
    }

    /// Returns the bytes in a slot with the header `header`.
    fn part<A: RemoteAtomics + ?Sized>(&self, ra: &A, slot: Disp, header: Header) -> Result<Vec<u8>> {
        let Header { from, len, .. } = header;
        if from.rank.0 >= ra.size() || from.port >= self.layout.ports() {
            return Err(self.damaged(format!("its sender is {from}, which does not exist")));
        }
        if len > self.layout.room() {
            return Err(self.damaged(format!("{len} bytes in a slot for {}", self.layout.room())));
        }
        let mut data = vec![0; len];
        if len <= SHORT {
            for (i, part) in (3..).zip(data.chunks_mut(WORD as usize)) {
                let word = ra.get(self.me.rank.at(slot.word(i)))?;
                part.copy_from_slice(&word.to_ne_bytes()[..part.len()]);
            }
        } else {
            ra.get_bytes(self.me.rank.at(slot.word(3)), &mut data)?;
        }
        Ok(data)
    }

    /// Returns the packet that ends with this slot, if one does.
    fn join(&mut self, header: Header, word: u64, part: Vec<u8>) -> Result<Option<Packet>> {
        let Header { from, kind, more, .. } = header;
        let Some(mut packet) = self.partial.remove(&from) else {
            let packet = Packet { from, kind, word, data: part };
            if more {
                self.partial.insert(from, packet);
                return Ok(None);
            }
            return Ok(Some(packet));
        };
        // All slots except the first have the packet's whole length instead of its word.
        let have = (packet.data.len() + part.len()) as u64;
        if kind != packet.kind || have > word || more == (have == word) {
            return Err(self.damaged(format!(
                "{have} of {word} bytes of kind {} from {from}, which began as one of kind {}",
                kind.0, packet.kind.0
            )));
        }
        let rest = usize::try_from(word).ok().and_then(|whole| whole.checked_sub(packet.data.len()));
        if rest.is_none_or(|rest| packet.data.try_reserve_exact(rest).is_err()) {
            return Err(self.damaged(format!("no memory for its {word} bytes")));
        }
        packet.data.extend_from_slice(&part);
        if more {
            self.partial.insert(from, packet);
            return Ok(None);
        }
        Ok(Some(packet))
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { at: self.me, what: what.into() }
    }

    /// Shows the number of slots that were read, and wakes the end-points that found the ring full (I5).
    fn show_head<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let (layout, Endpoint { rank, port }) = (&self.layout, self.me);
        self.shown = self.head;
        ra.fetch_store(rank.at(layout.head(port)), self.head)?;
        let waiters = rank.at(layout.waiters(port));
        if ra.get(waiters)? == 0 {
            return Ok(());
        }
        let mut top = ra.fetch_store(waiters, 0)?;
        while top != 0 {
            let node = decode_node(top).filter(|(of, _)| of.port < self.layout.ports());
            let Some((Endpoint { rank, port }, node)) = node else {
                return Err(self.damaged(format!("{top:#x} on the stack of its waiters is not a node")));
            };
            top = ra.fetch_store(rank.at(layout.node(port, node)), WOKEN)?;
            let at = ra.get(rank.at(layout.at(port)))?;
            let before = layout.before(at);
            ra.compare_and_swap(rank.at(layout.slot(port, at)), before, before | NUDGE)?; // I6
        }
        Ok(())
    }

    /// Waits until there may be a packet to take, or room for a queued packet, for at most the time `at_most`.
    pub(super) fn sleep<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at_most: Option<Duration>) -> Result<()> {
        let Endpoint { rank, port } = self.me;
        let slot = self.layout.slot(port, self.head);
        if self.outgoing.is_empty() {
            let until = Until::Eq(self.head + 1);
            match at_most {
                None => drop(ra.wait_until(slot, until)?),
                Some(time) => drop(ra.wait_until_deadline(slot, until, ra.now().after(time))?),
            }
            return Ok(());
        }
        ra.fetch_store(rank.at(self.layout.at(port)), self.head)?; // I5
        let mut woken = false;
        for (i, node) in self.nodes.iter_mut().enumerate() {
            if node.is_some() && ra.get(rank.at(self.layout.node(port, i)))? == WOKEN {
                *node = None;
                woken = true;
            }
        }
        if woken {
            return Ok(());
        }
        let mut unregistered = false;
        for &to in self.outgoing.keys() {
            if self.nodes.contains(&Some(to)) {
                continue;
            }
            let Some(free) = self.nodes.iter().position(Option::is_none) else {
                unregistered = true;
                break;
            };
            self.register(ra, to, free)?;
            self.nodes[free] = Some(to);
            let head = ra.get(to.rank.at(self.layout.head(to.port)))?; // I5
            let known = self.known.entry(to).or_default();
            known.head = head;
            known.tail = known.tail.max(head);
            if known.tail < head + self.layout.slots {
                return Ok(());
            }
        }
        let before = self.layout.before(self.head);
        let at_most = if unregistered { Some(at_most.unwrap_or(POLL).min(POLL)) } else { at_most };
        let value = match at_most {
            None => Some(ra.wait_until(slot, Until::Ne(before))?),
            Some(time) => ra.wait_until_deadline(slot, Until::Ne(before), ra.now().after(time))?,
        };
        if let Some(value) = value.filter(|value| value & NUDGE != 0) {
            ra.compare_and_swap(rank.at(slot), value, before)?; // I6
        }
        Ok(())
    }

    /// Puts a node of this end-point on the stack of `to`'s waiters.
    fn register<A: RemoteAtomics + ?Sized>(&self, ra: &A, to: Endpoint, node: usize) -> Result<()> {
        let waiters = to.rank.at(self.layout.waiters(to.port));
        let own = self.me.rank.at(self.layout.node(self.me.port, node));
        let mut top = ra.get(waiters)?;
        loop {
            ra.fetch_store(own, top)?;
            let seen = ra.compare_and_swap(waiters, top, encode_node(self.me, node))?;
            if seen == top {
                return Ok(());
            }
            top = seen;
        }
    }
}

#[cfg(test)]
mod tests;
