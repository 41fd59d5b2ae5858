//! DecLock's cooperative queue: one header counts tickets, waiters leave entries beside it, and holders wake each other directly.
//!
//! # Paper
//! H. Zhang, K. Cheng, R. Chen, X. Wei and H. Chen, "DecLock: A Case of Decoupled Locking for Disaggregated Memory", 2025,
//! arXiv 2505.17641: the cooperative queue-notify lock.
//!
//! # Properties
//! - Mutual exclusion; first come, first served, in the order of the additions that take tickets. Neighbouring readers share.
//! - A waiter waits on its own word. The home sees one atomic operation of each acquire and release without contention, and
//!   the entries of ranks that wait. A rank that passes the lock on polls an entry that is still under way.
//! - The explorer (`rmalab verify`) has checked this code itself exhaustively. Under sequential consistency and with posted puts
//!   that arrive late: 2R+2W×1, 2R+1W×2 and 1R+2W×2. Its order, sequentially consistent: 2R+1W×1 and 1R+2W×1. With data and bulk
//!   puts in any order: 1R+1W×2.
//!
//! # State
//! | word | at | width | home | values |
//! | --- | --- | --- | --- | --- |
//! | header | words + 0 | 8 | home | from the top `head`, `size` (w bits), `excl` (w bits), where w bits hold the number of ranks |
//! | slots | words + [`LINE`] | 8 each | home | the entry of a ticket: bits 63–33 version, bit 32 WRITER, bits 31–0 the pointer; or 0 |
//! | grant | node + 0 | 8 | each rank | 1 from the wake-up until its rank has seen it |
//!
//! `head` counts releases, `size` the ranks that hold a ticket, and `excl` the writers among them. A ticket is the number of those
//! drawn before, `head` + `size`. There are 2^k slots, as many as ranks or more. Ticket `q` has slot `q` mod 2^k, and the version
//! `q` / 2^k. At rest `size` and `excl` are 0, while `head` and old entries stay.
//!
//! # Invariants
//! - I1: a rank enters at once if it finds no ticket outstanding, or as a reader if it finds no writer among them. All others write
//!   an entry and wait.
//! - I2: exactly one release makes `head` equal to the ticket of a waiting writer: the last release of the earlier tickets. That
//!   releaser wakes the writer. A writer's release also wakes the readers between its ticket and the next writer's.
//! - I3: an entry is read before its slot is used again. A writer releases only after it has read the entries of the ranks that
//!   it will wake. So ahead of an entry that no rank has read there is a writer that has not released, or the entry is its own. All
//!   tickets behind that writer are outstanding then, which are fewer than there are slots.
//! - I4: a releasing reader need not know whether the next ticket `q` waits. It has to wake `q` if that is a writer. It is not a
//!   writer if its entry is a reader's, if all writers have entries behind it, or if `head` has moved on.
//!
//! # Memory ordering
//! Additions to the header order the queue. Entries and wake-ups are posted puts, and the ranks that need them wait for them. A
//! rank orders the reset of its grant ahead of the next ticket that it draws. Otherwise the reset could erase the next wake-up.
//!
//! # Deviations from the paper
//! - A writer reads the entries of the readers behind it before it releases, and releases by a compare-and-swap, which fails if
//!   another rank has come. In the paper, it releases by an addition and then reads. From that addition on, other readers may enter
//!   at once and draw tickets without end. A later writer's entry can then take the slot of an entry that is unread, or still under
//!   way. Then no rank wakes its reader. The conformance suite hangs on that form; the explorer's scenarios are too small for it.
//! - The version keeps an old entry from being taken for a new one. It has 17 bits or more, and at most 31: with 2^15 ranks it
//!   repeats after 2^32 acquisitions, with fewer later. An entry that stays in its slot for exactly that long would be taken for the
//!   new one while the new one is still under way.
//! - Each rank has one request under way, so the queue cannot overflow, and the paper's reset of the queue has no use.
//! - The wake-up is a put instead of a message.
//! - Left out: the hierarchy of locks of a node, time stamps, and the leases of failed clients.
//!
//! # Cost
//! Remote operations without contention: acquire 1 (add), release 1 (a reader's add, a writer's compare-and-swap). With
//! contention: acquire 2 (add, put), release of a writer to a writer 4 (compare-and-swap, get, add, put; published 3), to n readers
//! 2 + 2n. A reader's release 1; the last one 3 (add, get, put). A reader that leaves other readers inside while a writer
//! waits reads up to `size` - 1 entries.

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};

use crate::backoff::{Backoff, BackoffState};
use crate::qnode::{NIL, pointer, rank_of};
use crate::{Error, LINE, Place, RawRwLock, Result};

/// In an entry: its rank is a writer.
const WRITER: u64 = 1 << 32;

/// The lowest bit of an entry's version.
const VERSION: u32 = 33;

/// The largest number of ranks, for which the header leaves versions of 17 bits.
const MAX_RANKS: u32 = 1 << 15;

/// The fields of the header, whose widths depend on the number of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    /// Bits of `size` and of `excl`.
    w: u32,
    /// There are 2^k slots.
    k: u32,
}

impl Layout {
    fn new(size: u32) -> Layout {
        Layout { w: u32::BITS - size.leading_zeros(), k: size.next_power_of_two().trailing_zeros() }
    }

    fn head(self, header: u64) -> u64 {
        header >> (2 * self.w)
    }

    fn size(self, header: u64) -> u64 {
        header >> self.w & self.mask()
    }

    fn excl(self, header: u64) -> u64 {
        header & self.mask()
    }

    fn mask(self) -> u64 {
        (1 << self.w) - 1
    }

    /// The value that drawing a ticket adds to the header.
    fn draw(self, excl: u64) -> u64 {
        (1 << self.w) + excl
    }

    /// The header while the rank of `ticket` writes and no other rank has come.
    fn alone(self, ticket: u64) -> u64 {
        ticket << (2 * self.w) | self.draw(1)
    }

    /// The value that a release adds to the header.
    fn serve(self, excl: u64) -> u64 {
        (1u64 << (2 * self.w)).wrapping_sub(self.draw(excl))
    }

    /// The ticket `distance` after `ticket`.
    fn after(self, ticket: u64, distance: u64) -> u64 {
        ticket.wrapping_add(distance) & u64::MAX >> (2 * self.w)
    }

    fn slot(self, ticket: u64) -> u64 {
        ticket & ((1 << self.k) - 1)
    }

    /// The version of a ticket's entry, shifted to its bits.
    fn version(self, ticket: u64) -> u64 {
        ticket >> self.k << VERSION
    }
}

/// One rank's handle of a DecLock.
#[derive(Debug)]
pub struct DecLock {
    header: Address,
    /// The first slot.
    slots: Address,
    grant: Disp,
    /// The pointer to this rank.
    me: u64,
    layout: Layout,
    /// The ticket of this rank while it writes, otherwise 0.
    ticket: u64,
    backoff: BackoffState,
}

impl RawRwLock for DecLock {
    const NAME: &'static str = "declock";
    const WORDS: u64 = 2 * LINE;
    const NODE: u64 = WORD;
    const RESTS_AT_ZERO: bool = false;
    /// The pauses between a releaser's polls of an entry that is under way.
    type Params = Backoff;

    fn words(size: u32) -> u64 {
        LINE + (WORD << Layout::new(size).k).max(LINE)
    }

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, params: Backoff) -> Result<DecLock> {
        if ra.size() > MAX_RANKS {
            return Err(Error::TooManyRanks { lock: Self::NAME, size: ra.size(), limit: MAX_RANKS });
        }
        Ok(DecLock {
            header: place.word(0),
            slots: place.word(LINE / WORD),
            grant: place.node,
            me: pointer(ra.rank()),
            layout: Layout::new(ra.size()),
            ticket: 0,
            backoff: BackoffState::new(params, ra.rank()),
        })
    }

    #[inline]
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let header = ra.fetch_add(self.header, self.layout.draw(0))?;
        if self.layout.excl(header) == 0 { Ok(()) } else { self.wait(ra, header, 0) }
    }

    #[inline]
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let header = ra.fetch_add(self.header, self.layout.serve(0))?;
        if self.layout.excl(header) == 0 { Ok(()) } else { self.pass_to_writer(ra, header) }
    }

    #[inline]
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.order(ra.rank())?;
        let header = ra.fetch_add(self.header, self.layout.draw(1))?;
        self.ticket = self.ticket_of(header);
        if self.layout.size(header) == 0 { Ok(()) } else { self.wait(ra, header, WRITER) }
    }

    #[inline]
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let ticket = std::mem::take(&mut self.ticket);
        let alone = self.layout.alone(ticket);
        let header = ra.compare_and_swap(self.header, alone, alone.wrapping_add(self.layout.serve(1)))?;
        if header == alone { Ok(()) } else { self.pass(ra, ticket, header) }
    }
}

impl DecLock {
    /// The ticket that is drawn from `header`.
    fn ticket_of(&self, header: u64) -> u64 {
        self.layout.after(self.layout.head(header), self.layout.size(header))
    }

    fn slot(&self, ticket: u64) -> Address {
        self.slots.rank.at(self.slots.disp.word(self.layout.slot(ticket))).unwatched()
    }

    /// Returns the entry of `ticket`, if it is there.
    fn entry<A: RemoteAtomics + ?Sized>(&self, ra: &A, ticket: u64) -> Result<Option<u64>> {
        let entry = ra.get(self.slot(ticket))?;
        let is_its = entry != NIL && entry >> VERSION << VERSION == self.layout.version(ticket);
        Ok(is_its.then_some(entry))
    }

    /// Waits for the turn of the ticket that was drawn from `header`.
    fn wait<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, header: u64, writer: u64) -> Result<()> {
        let ticket = self.ticket_of(header);
        ra.put(self.slot(ticket), self.layout.version(ticket) | writer | self.me)?;
        ra.wait_until(self.grant, Until::Ne(0))?;
        Ok(ra.put(ra.rank().at(self.grant).unwatched(), 0)?)
    }

    fn wake<A: RemoteAtomics + ?Sized>(&self, ra: &A, entry: u64) -> Result<()> {
        Ok(ra.put(rank_of(entry).at(self.grant), 1)?)
    }

    /// Waits for the entry of `ticket`, which is under way.
    fn poll<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, ticket: u64) -> Result<u64> {
        self.backoff.reset();
        loop {
            match self.entry(ra, ticket)? {
                Some(entry) => return Ok(entry),
                None => self.backoff.wait(ra)?,
            }
        }
    }

    /// Releases the writer of `ticket`, which is not alone in `header`, and wakes the next writer, or the readers ahead of it (I2). By
    /// I1 all of them write entries.
    fn pass<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, ticket: u64, mut header: u64) -> Result<()> {
        let mut next = Vec::new();
        let mut is_released = false;
        while !is_released {
            while (next.len() as u64) < self.layout.size(header) - 1 && !is_released {
                let entry = self.poll(ra, self.layout.after(ticket, 1 + next.len() as u64))?;
                let writes = entry & WRITER != 0;
                if !writes || next.is_empty() {
                    next.push(entry);
                }
                if writes {
                    // No reader enters ahead of this writer.
                    ra.fetch_add(self.header, self.layout.serve(1))?;
                    is_released = true;
                }
            }
            if !is_released {
                let seen = ra.compare_and_swap(self.header, header, header.wrapping_add(self.layout.serve(1)))?;
                is_released = seen == header;
                header = seen;
            }
        }
        next.into_iter().try_for_each(|entry| self.wake(ra, entry))
    }

    /// Wakes the next ticket's rank if it is a writer, after a reader's release from `header`, which counts writers (I4).
    fn pass_to_writer<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, header: u64) -> Result<()> {
        let next = self.layout.after(self.layout.head(header), 1);
        self.backoff.reset();
        loop {
            if let Some(entry) = self.entry(ra, next)? {
                return if entry & WRITER != 0 { self.wake(ra, entry) } else { Ok(()) };
            }
            let mut writers = self.layout.excl(header);
            for distance in 1..self.layout.size(header) - 1 {
                let entry = self.entry(ra, self.layout.after(next, distance))?;
                writers -= u64::from(entry.is_some_and(|entry| entry & WRITER != 0));
                if writers == 0 {
                    return Ok(());
                }
            }
            if self.layout.head(ra.get(self.header)?) != next {
                return Ok(());
            }
            self.backoff.wait(ra)?;
        }
    }
}

#[cfg(test)]
mod tests;
