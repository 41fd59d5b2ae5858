//! One-sided communication over sends and receives, as in MPICH2 over InfiniBand: the reference of the MVAPICH2
//! paper.
//!
//! # Sources
//!
//! * W. Jiang and others, High Performance MPI-2 One-Sided Communication over InfiniBand, CCGrid 2004, section 3.
//!   Operations wait for `complete`. A put is a message with its description, and one with its data. Short messages are
//!   copied through buffers, and long ones begin with a handshake. The target serves them in `wait`, and answers gets
//!   by writes.
//! * J. Liu and others, Design and Implementation of MPICH2 over InfiniBand with RDMA Support, IPDPS 2004. Each pair of
//!   processes has a ring of buffers. A sender writes remotely into it, and the receiver polls it. A small message
//!   takes 7.6 µs.
//!
//! # State
//!
//! Each rank has a ring of [`SLOTS`] slots for each peer, which that peer alone writes to. A slot begins with a word:
//! number (16 bits), kind (8), whether it is the last one of its epoch (8), bytes (32). A receiver waits until the word
//! differs from the slot's former one. Every half ring it sends the sender the number of messages that it has read.
//!
//! # What is modelled
//!
//! A simulated processor takes no time for matching, queues and descriptors. So `modelled` ranks compute for
//! [`SOFTWARE`] per message, half of it at either end. With the profile's 6.3 µs of a put, a message then takes 7.6 µs.
//! They write a slot with one put, as MVAPICH2 does; other backends do not order the bytes of a put, so the word
//! follows.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rmalab_atomics::{Disp, Rank, RemoteAtomics, Until, WORD};

use rmalab_job::Result;

/// Slots of a ring.
const SLOTS: u64 = 64;

/// The longest message, in bytes, that is sent without a handshake; assumed.
pub(super) const EAGER: usize = 8192;

/// Bytes of a slot.
const SLOT: u64 = WORD + EAGER as u64;

/// Processors' time for a message; fitted to 7.6 µs, see above.
const SOFTWARE: Duration = Duration::from_nanos(1300);

/// Time between two polls of several rings.
const POLL: Duration = Duration::from_nanos(100);

/// Kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The window was posted.
    Post = 1,
    /// A put as a whole, or the answer to a get.
    Data,
    /// The request for a long put.
    Ask,
    /// The grant for it.
    Clear,
    /// The end of a long put, or the end of an epoch without operations.
    Done,
    /// A get.
    Get,
    /// The description of the next message.
    About,
}

/// A received message.
#[derive(Clone, Copy, Debug)]
struct Message {
    from: Rank,
    kind: Kind,
    last: bool,
    len: usize,
}

/// Operations of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Their number.
    pub(super) count: u32,
    /// Bytes of each.
    pub(super) bytes: usize,
    /// True if they are gets.
    pub(super) gets: bool,
}

/// One rank's end of the rings.
pub(super) struct SendReceive<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    modelled: bool,
    rings: Disp,
    /// For each peer, the number of this rank's messages that it has read.
    heads: Disp,
    /// The buffer of messages to send.
    staging: Disp,
    /// The destination of long messages: a slot for each operation of each peer.
    landing: Disp,
    sent: RefCell<Vec<u64>>,
    read: RefCell<Vec<u64>>,
    /// The words that were in the slots.
    words: RefCell<Vec<u64>>,
    buffer: RefCell<Vec<u8>>,
    /// The last byte of the last message.
    seen: Cell<u8>,
}

impl<'a, A: RemoteAtomics + ?Sized> SendReceive<'a, A> {
    /// Bytes of a segment for the rings.
    pub(super) fn bytes(ranks: u32, burst: u32, bytes: usize) -> u64 {
        let ranks = u64::from(ranks);
        ranks * (SLOTS * SLOT + WORD + u64::from(burst.max(1)) * bytes as u64) + 2 * SLOT + 256
    }

    /// Collective.
    pub(super) fn new(ra: &'a A, burst: u32, bytes: usize, modelled: bool) -> Result<Self> {
        let ranks = u64::from(ra.size());
        let heap = ra.heap();
        let long = ranks * u64::from(burst.max(1)) * bytes as u64;
        Ok(SendReceive {
            ra,
            modelled,
            rings: heap.alloc(ranks * SLOTS * SLOT, 64)?,
            heads: heap.alloc(ranks * WORD, 64)?,
            staging: heap.alloc(SLOT, 64)?,
            landing: heap.alloc(long.max(WORD), 64)?,
            sent: RefCell::new(vec![0; ranks as usize]),
            read: RefCell::new(vec![0; ranks as usize]),
            words: RefCell::new(vec![0; (ranks * SLOTS) as usize]),
            buffer: RefCell::new(vec![0; EAGER]),
            seen: Cell::new(0),
        })
    }

    /// The last byte of the last received message.
    pub(super) fn seen(&self) -> u8 {
        self.seen.get()
    }

    fn software(&self) -> Result<()> {
        if self.modelled {
            self.ra.compute(SOFTWARE / 2)?;
        }
        Ok(())
    }

    fn slot(&self, of: Rank, ticket: u64) -> Disp {
        self.rings.plus((u64::from(of.0) * SLOTS + ticket % SLOTS) * SLOT)
    }

    /// The destination of operation `number` of `origin`.
    fn place(&self, origin: Rank, number: u32, burst: Burst) -> Disp {
        self.landing.plus(u64::from(origin.0 * burst.count.max(1) + number) * burst.bytes as u64)
    }

    fn send(&self, to: Rank, kind: Kind, last: bool, data: &[u8], len: usize) -> Result<()> {
        self.software()?;
        let ticket = {
            let sent = &mut self.sent.borrow_mut()[to.index()];
            *sent += 1;
            *sent - 1
        };
        if ticket >= SLOTS {
            self.ra.wait_until(self.heads.word(to.0.into()), Until::Ge(ticket + 1 - SLOTS))?;
        }
        let word = (ticket + 1) & 0xffff | (kind as u64) << 16 | u64::from(last) << 24 | (len as u64) << 32;
        let slot = to.at(self.slot(self.ra.rank(), ticket));
        if data.is_empty() {
            return Ok(self.ra.put(slot, word)?);
        }
        // The copy into memory that is registered with the adapter.
        self.ra.post_bytes(self.ra.rank().at(self.staging.plus(WORD)), data)?;
        if self.modelled {
            let whole = [&word.to_ne_bytes()[..], data].concat();
            self.ra.post_bytes(slot, &whole)?;
        } else {
            self.ra.post_bytes(to.at(slot.disp.plus(WORD)), data)?;
            self.ra.flush(to)?;
            self.ra.put(slot, word)?;
        }
        Ok(())
    }

    /// The next message of one of the ranks.
    fn receive(&self, from: &[Rank]) -> Result<Message> {
        let before = |rank: Rank| {
            let ticket = self.read.borrow()[rank.index()];
            (ticket, self.words.borrow()[(u64::from(rank.0) * SLOTS + ticket % SLOTS) as usize])
        };
        let (rank, word) = if let &[rank] = from {
            let (ticket, old) = before(rank);
            (rank, self.ra.wait_until(self.slot(rank, ticket), Until::Ne(old))?)
        } else {
            'found: loop {
                for &rank in from {
                    let (ticket, old) = before(rank);
                    let word = self.ra.get(self.ra.rank().at(self.slot(rank, ticket)))?;
                    if word != old {
                        break 'found (rank, word);
                    }
                }
                // Lets other ranks run if there are more ranks than processors.
                if self.modelled { self.ra.compute(POLL)? } else { self.ra.pause(1)? }
            }
        };
        let ticket = before(rank).0;
        self.words.borrow_mut()[(u64::from(rank.0) * SLOTS + ticket % SLOTS) as usize] = word;
        let kinds = [Kind::Post, Kind::Data, Kind::Ask, Kind::Clear, Kind::Done, Kind::Get, Kind::About];
        let kind = kinds[((word >> 16 & 0xff) as usize).clamp(1, kinds.len()) - 1];
        let len = (word >> 32) as usize;
        if kind == Kind::Data {
            let buffer = &mut self.buffer.borrow_mut()[..len.min(EAGER)];
            self.ra.get_bytes(self.ra.rank().at(self.slot(rank, ticket).plus(WORD)), buffer)?;
            self.seen.set(buffer.last().copied().unwrap_or(0));
        }
        self.software()?;
        let read = {
            let read = &mut self.read.borrow_mut()[rank.index()];
            *read += 1;
            *read
        };
        if read % (SLOTS / 2) == 0 {
            self.ra.put(rank.at(self.heads.word(self.ra.rank().0.into())), read)?;
        }
        Ok(Message { from: rank, kind, last: word >> 24 & 0xff != 0, len })
    }

    /// Writes a long message to its known destination.
    fn write(&self, to: Rank, at: Disp, last: bool, data: &[u8]) -> Result<()> {
        self.ra.post_bytes(to.at(at), data)?;
        if !self.ra.capabilities().ordered_puts {
            self.ra.flush(to)?;
        }
        self.send(to, Kind::Done, last, &[], data.len())
    }

    fn landed(&self, at: Disp, len: usize) -> Result<()> {
        let mut byte = [0];
        self.ra.get_bytes(self.ra.rank().at(at.plus(len.max(1) as u64 - 1)), &mut byte)?;
        self.seen.set(byte[0]);
        Ok(())
    }

    /// The target's post.
    pub(super) fn post(&self, origins: &[Rank]) -> Result<()> {
        origins.iter().try_for_each(|&origin| self.send(origin, Kind::Post, false, &[], 0))
    }

    /// The origin's complete: waits for the post, and makes all operations of the epoch.
    pub(super) fn complete(&self, target: Rank, burst: Burst, data: &[u8]) -> Result<()> {
        let me = self.ra.rank();
        let last = |number: u32| number + 1 == burst.count;
        self.receive(&[target])?;
        if burst.count == 0 {
            return self.send(target, Kind::Done, true, &[], 0);
        }
        if burst.gets {
            for number in 0..burst.count {
                self.send(target, Kind::Get, last(number), &[], burst.bytes)?;
            }
            for number in 0..burst.count {
                if self.receive(&[target])?.kind == Kind::Done {
                    self.landed(self.place(me, number, burst), burst.bytes)?;
                }
            }
            return Ok(());
        }
        if burst.bytes <= EAGER {
            return (0..burst.count).try_for_each(|number| {
                self.send(target, Kind::About, false, &[], burst.bytes)?;
                self.send(target, Kind::Data, last(number), data, burst.bytes)
            });
        }
        for _ in 0..burst.count {
            self.send(target, Kind::About, false, &[], burst.bytes)?;
            self.send(target, Kind::Ask, false, &[], burst.bytes)?;
        }
        for number in 0..burst.count {
            self.receive(&[target])?;
            self.write(target, self.place(me, number, burst), last(number), data)?;
        }
        // Long puts leave directly from the program's memory, which may change after the acknowledgement.
        Ok(self.ra.flush(target)?)
    }

    /// The target's wait: serves the origins until each has sent its last operation.
    pub(super) fn wait(&self, origins: &[Rank], burst: Burst, data: &[u8]) -> Result<()> {
        let mut open = origins.to_vec();
        let mut served = vec![0; self.ra.size() as usize];
        while !open.is_empty() {
            let Message { from, kind, last, len } = self.receive(&open)?;
            let number = served[from.index()];
            match kind {
                Kind::Ask => self.send(from, Kind::Clear, false, &[], len)?,
                Kind::Get if len <= EAGER => self.send(from, Kind::Data, false, data, len)?,
                Kind::Get => self.write(from, self.place(from, number, burst), false, data)?,
                Kind::Done if len > 0 => self.landed(self.place(from, number, burst), len)?,
                _ => {}
            }
            if matches!(kind, Kind::Get | Kind::Done) {
                served[from.index()] += 1;
            }
            if last {
                open.retain(|&rank| rank != from);
            }
        }
        Ok(())
    }

    /// Sends a message to a peer that also sends one: isend, irecv, waitall.
    pub(super) fn exchange(&self, peer: Rank, data: &[u8]) -> Result<()> {
        if data.len() <= EAGER {
            self.send(peer, Kind::Data, true, data, data.len())?;
            return self.receive(&[peer]).map(drop);
        }
        let burst = Burst { count: 1, bytes: data.len(), gets: false };
        self.send(peer, Kind::Ask, false, &[], data.len())?;
        self.receive(&[peer])?;
        self.send(peer, Kind::Clear, false, &[], data.len())?;
        self.receive(&[peer])?;
        self.write(peer, self.place(self.ra.rank(), 0, burst), true, data)?;
        self.receive(&[peer])?;
        self.landed(self.place(peer, 0, burst), data.len())
    }
}
