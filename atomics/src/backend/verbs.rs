//! The `verbs` backend: ranks reach each other's memory through RDMA network adapters.
//!
//! A rank's memory is registered with its adapter when the rank joins. A peer reaches it through a queue pair of the
//! *reliable connected* service, which the peer connects with its first operation. The peer sends its request through
//! the bootstrap, and the bootstrap's thread answers on the other side, so that a computing rank need not take part.
//! Word operations are the adapter's fetch-and-add and compare-and-swap, an RDMA read, and a write that carries its
//! word. Bulk operations are RDMA reads and writes of slots of registered memory (verbs/bounce.rs). The processor
//! copies from and to the slots.
//!
//! # Memory
//!
//! A queue pair belongs to the rank that has requested it, and its other end only answers. So two ranks that operate on
//! each other have two pairs, and neither waits for the other. A rank without operations, on either side, has no pairs.
//! For each peer that a rank operates on, it keeps a queue pair with 256 requests, a completion queue, and 256
//! registered words (verbs/landing.rs). For each peer that operates on it, it keeps a pair with one request.
//!
//! # Started operations
//!
//! Each request of a word operation has its own registered word, in which its result arrives. The call that starts an
//! operation posts it. A poll that finds it complete copies the result to the program's word. So the adapter never writes
//! to memory of the program, and a dropped connection leaves nothing under way. With 256 requests under way to a peer,
//! the next one polls until there is room. The adapter itself holds back reads and atomics beyond the number that both
//! ends accept at a time (64 at most, `READS`). A started swap is a compare-and-swap, which a poll posts again if its
//! guess of the old word was wrong.
//!
//! Each request is posted by a separate call and asks for a completion. On Soft-RoCE, perftest gains nothing from lists
//! of 16 requests (`-l 16`), nor from one completion for 16 (`-Q 16`).
//!
//! # Ordering
//!
//! The trait's guarantees follow from the InfiniBand Architecture Specification, volume 1, for requests of one queue
//! pair (section 9.5, and the table of section 10.8.3.3, Work Request Operation Ordering):
//!
//! * A responder executes requests in the order of posting. An RDMA write is ordered before any later request, so puts to
//!   one target arrive in order, and a read or an atomic after a put sees it.
//! * A request after a read or an atomic is not ordered after it unless the request is fenced. No fence is needed: a
//!   rank waits for each operation that returns a value before it posts the next one. It does not wait for bulk gets
//!   and started operations; they have no order.
//! * Requests complete in the order of posting, so a completion covers all earlier requests: that is a flush.
//! * A completed atomic has been executed at the target. Any later request of any adapter there sees it, and so does a
//!   read of the owner through the same adapter. So operations that return a value are sequentially consistent. The
//!   owner's processor reads its words only in a wait, which needs only acquire order.
//! * A completed write has arrived at the target's adapter. A rank that learns of it through an operation on memory of
//!   the same host sees it, since the adapter's writes to memory keep their order (relaxed ordering is not requested).
//! * Bytes that the processor has copied (see below) are in memory before a later request is posted. A post of the library
//!   orders earlier stores to memory, and a flush is also a fence.
//!
//! The specification (section 9.4.5) says that atomics are atomic with each other. It does not guarantee that for a write.
//! An adapter may lose a put to an atomic that changes the word at the same time, so
//! [`Capabilities::atomic_puts`](crate::Capabilities::atomic_puts) is false. The formal model of RDMA is equally weak: G.
//! Ambal, B. Dongol, H. Eran, V. Klimis, O. Lahav, A. Raad, Semantics of remote direct memory access (RDMA^TSO),
//! OOPSLA 2024.
//!
//! The trait's memory model requires that a failed compare-and-swap writes nothing, so that it loses no put. Soft-RoCE
//! breaks this rule in Linux 6.1 (6.1.192, rxe_resp.c, `atomic_reply`): it takes a lock, loads the word, compares, and
//! stores a word in any case. If the comparison has failed, that is the old word. A write takes no lock, so a write
//! between the load and the store is lost. Four emulated processors lost 5 of 40,000 puts beside 360,000 failed
//! comparisons of three ranks. The mutex `robust-tas` lost its release in one of 130 runs of four ranks, and hung. Kernels
//! in which `rxe_mr_do_atomic_op` of rxe_mr.c executes atomics (2023) store only if the comparison has succeeded. So the
//! machines of scripts/soft-roce have a later kernel.
//!
//! Soft-RoCE copies written and read bytes with the kernel's `memcpy`. On processors with the flag `erms` that is `rep
//! movsb`, which guarantees only single bytes: a rank may then see a part of a put of a word. An emulated processor does
//! copy single bytes: 1 of 670 loads saw a part of a word during repeated puts. Without the flag the kernel copies words,
//! and none of 440 million loads saw a part. So the machines of scripts/soft-roce have no `erms`.
//!
//! Puts could be loops of compare-and-swaps, like `fetch_store`. Each would then wait for one round trip, or two if its
//! guess of the old word is wrong. Today the three puts of a packet, or the wake-up of a lock's next rank, are posted.
//!
//! # The owner's words
//!
//! On most devices the adapter's atomics are atomic only among themselves (`ATOMIC_HCA`). Then a rank's operations on its
//! own words go through its adapter, with a queue pair to itself. Where they are atomic with the processor's atomics
//! (`ATOMIC_GLOB`), the processor executes them. A device without atomics is refused.
//!
//! # Ranks of one host
//!
//! The processor executes bulk operations on the local segment and on segments of other ranks of the host. With the first
//! operation a rank maps the other rank's memory. With `RMALAB_NODE_SHARED=0`, or if the program asks for it
//! ([`Attach::node_shared`]), the adapter executes operations on other segments, as between hosts. Word operations always
//! go through the owner's adapter, so that each word has one kind of atomics.
//!
//! # Buffers of the program
//!
//! The adapter reaches no buffer of the program. Bulk operations are cut into parts of at most 32 KiB. A put copies each
//! part into a slot before it is posted, so the buffer is free again when the call returns. A get copies each part out of
//! its slot when the rank sees that the part has arrived. An operation with more parts than free slots waits for slots
//! within its call. When a call fails, the parts that are under way keep their slots, and their bytes are discarded.
//!
//! The alternatives register the buffer. A registration that outlives its operation is wrong: it names the old pages of
//! the buffer, and no backend learns that the program has freed them. A registration for each operation was measured on
//! Soft-RoCE against slots of 4, 16 and 64 KiB: best medians of three runs, in microseconds, on a loaded machine.
//!
//! | | kept registration | one for each operation | slots of 4 KiB | of 16 KiB | of 64 KiB |
//! | --- | --- | --- | --- | --- | --- |
//! | put of 64 KiB | 903 | 1,235 | 1,230 | 1,892 | 1,039 |
//! | get of 64 KiB | 987 | 1,157 | 1,641 | 2,562 | 1,093 |
//! | put of 1 MiB | 18,940 | 20,046 | 37,922 | 22,303 | 21,394 |
//! | get of 1 MiB | 18,217 | 18,418 | 38,098 | 23,545 | 20,648 |
//!
//! # Failures
//!
//! A failed request makes its queue pair unusable. The rank first asks the bootstrap whether the peer has died. The
//! bootstrap knows it at once, but an adapter needs seconds of retries to find that the peer does not answer. Before an
//! error is returned, the queue pair is destroyed, so that the adapter no longer accesses any slot of its requests.
//! Connections to other ranks stay, and a rank may go on without the peer (verbs/failures.rs). All other errors of a
//! connection end all operations (verbs/fault.rs), as does a peer that does not answer while the bootstrap knows of no
//! death.
//!
//! # Bindings
//!
//! The backend calls the library through `rdma-mummy-sys`, which loads libibverbs when the program starts: a program with
//! this backend starts on any host, and reports that there is no device. `ibverbs-sys` links it: without libibverbs.so.1 the
//! same program does not start (the loader ends it with status 127). Otherwise the two crates are alike: posts and polls are
//! calls through the device's own table. The same loop of fetch-and-adds over Soft-RoCE, twice each on a loaded machine,
//! took 21.3 and 21.3 µs at the 10th percentile with the first and 33.0 and 21.3 µs with the second. That shows no further
//! difference. The safe crate `ibverbs` has only sends and receives. `sideway`, over the first of the two, was not measured.
//! It has the needed calls, but is MPL-2.0, and this module would still have to define the owner of a buffer, and for how
//! long.

mod answering;
mod attach;
mod bounce;
mod bulk;
mod connection;
mod device;
mod failures;
mod fault;
mod guesses;
mod landing;
mod memory;
mod message;
mod peers;
mod queue_pair;
mod registered;
mod request;
mod settings;
mod shared;
mod waiting;
mod words;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::join::bootstrap::Membership;
use crate::model::fabric::{self, Bytes, Completion, DONE, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use crate::{Disp, Operation, Rank, Request, Result, Time, Until};
pub use attach::Attach;
use bounce::BouncePool;
use connection::{Connection, Posted};
use device::{Device, Region};
use failures::Deaths;
use fault::Fault;
use guesses::Guesses;
use memory::Memory;
use queue_pair::LocalPort;
use registered::Registrations;
use request::read_request;

/// Counts of a rank's posted requests, and other measures of the cost of its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Peers to which this rank has connected, including itself.
    pub connections: u64,
    /// Requests posted.
    pub requests: u64,
    /// Requests that asked for a completion.
    pub signalled: u64,
    /// Compare-and-swaps of `fetch_store` beyond the first of each call.
    pub second_guesses: u64,
}

/// One rank of a world over RDMA verbs; see [the module](self).
///
/// Dropping it waits until all ranks are dropped, like `MPI_Finalize`, so that no rank loses memory on which it still
/// operates. Ranks that have failed are not waited for. It does not wait if this rank has [failed](Self::fail) or is
/// panicking, or if its adapter has. It reports a panic to the others.
pub struct Verbs {
    view: WorldView,
    // Connections are dropped before the memory of their requests, and so is the membership with its answering thread.
    peers: RefCell<FxHashMap<u32, Connection>>,
    membership: Option<Membership>,
    bounce: BouncePool<Region>,
    region: Arc<Region>,
    memory: Arc<Memory>,
    device: Arc<Device>,
    local_port: LocalPort,
    /// Entries of a connection's completion queue: with as many entries as requests it is never full.
    completions: u32,
    failing_part: Option<u64>,
    /// The fault after which all operations fail.
    fault: RefCell<Option<Fault>>,
    deaths: Deaths,
    /// The number of the current burst of puts.
    burst: Cell<u64>,
    /// The time at which the device was last asked for events.
    looked: Cell<Option<Instant>>,
    guesses: Guesses,
    registrations: RefCell<Registrations>,
    /// True if ranks of this host reach each other's data with the processor.
    node_shared: bool,
    /// The memory of other ranks of this host that was mapped, or that cannot be.
    neighbours: RefCell<FxHashMap<u32, Option<Rc<Memory>>>>,
    /// The counts of connections that are gone.
    past: Cell<Posted>,
    second_guesses: Cell<u64>,
}

impl fmt::Debug for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verbs")
            .field("rank", &self.view.rank())
            .field("size", &self.view.size())
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

impl Verbs {
    /// Leaves the world as failed: the waits of all other ranks return [`PeerFailed`](crate::Error::PeerFailed) with this rank.
    pub fn fail(mut self) {
        if let Some(membership) = self.membership.take() {
            membership.fail();
        }
    }

    /// Returns the rank's counts since it joined.
    pub fn statistics(&self) -> Statistics {
        let peers = self.peers.borrow();
        let add = |sum: Posted, one: Posted| Posted {
            requests: sum.requests + one.requests,
            signalled: sum.signalled + one.signalled,
        };
        let Posted { requests, signalled } = peers.values().map(Connection::count).fold(self.past.get(), add);
        Statistics { connections: peers.len() as u64, requests, signalled, second_guesses: self.second_guesses.get() }
    }

    /// Returns a word of the local segment for access by the processor.
    ///
    /// The adapter's atomics are not atomic with the processor's atomics on this word where the
    /// [capabilities](crate::RemoteAtomics::capabilities) say [`Hca`](crate::Atomicity::Hca). This call is for experiments with that
    /// case.
    ///
    /// # Errors
    ///
    /// The errors of a wait for the word.
    pub fn own_word_by_processor(&self, own: Disp) -> Result<&AtomicU64> {
        let own = self.view.word(Operation::WaitUntil, self.view.rank().at(own))?;
        Ok(self.own_word(own))
    }

    fn membership(&self) -> &Membership {
        self.membership.as_ref().expect("it is there until the rank has left")
    }
}

impl Fabric for Verbs {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        &self.view
    }

    #[inline]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        match self.by_processor(at) {
            Some(word) => Ok(words::apply(word, op)),
            None => self.word_by_adapter(at, op),
        }
    }

    #[inline]
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        let Some(word) = self.by_processor(at) else {
            // SAFETY: the caller's promise.
            return unsafe { self.start_by_adapter(at, op, result) };
        };
        // SAFETY: the caller's promise.
        unsafe { result.write(words::apply(word, op)) };
        Ok(DONE)
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.start_transfer(at, bytes)? };
        match (until, bytes) {
            (Completion::Request, _) => return Ok(request),
            (Completion::Target, Bytes::Put(_)) => self.complete(Some(at.rank()))?,
            _ => self.finish(request)?,
        }
        Ok(DONE)
    }

    fn done(&self, request: &Request) -> Result<bool> {
        let Some((rank, number)) = read_request(request) else { return Ok(true) };
        self.with_there(rank, |connection| {
            connection.poll()?;
            let done = connection.pending(number).is_none();
            if !done {
                self.check_rank(Rank(rank))?;
            }
            Ok(done)
        })
    }

    fn finish(&self, request: Request) -> Result<()> {
        let Some((rank, number)) = read_request(&request) else { return Ok(()) };
        self.with_there(rank, |connection| {
            while let Some(number) = connection.pending(number) {
                self.await_request(connection, number)?;
            }
            Ok(true)
        })?;
        fence(Ordering::Acquire);
        Ok(())
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        // Orders the processor's copies into segments of this host.
        fence(Ordering::SeqCst);
        match target {
            Some(target) => self.flush_there(target.0),
            None => self.flush_everywhere(),
        }
    }

    #[inline]
    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.wait_for(own, until, deadline)
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        match delay {
            Delay::Operations(operations) => self.pause_for(operations),
            Delay::Compute(time) => {
                fabric::keep_busy(self, time);
                Ok(())
            }
        }
    }

    #[inline]
    fn clock(&self) -> Time {
        fabric::monotonic()
    }

    fn extras(&self) -> Extras<'_> {
        Extras { registration: Some(self), failures: Some(self), ..Extras::default() }
    }
}

impl Drop for Verbs {
    fn drop(&mut self) {
        if let Some(membership) = &self.membership
            && !std::thread::panicking()
            && self.fault.borrow().is_none()
        {
            // The bootstrap reports any failure to the other ranks, and no caller is left here to take an error.
            self.close_all();
            let _ = self.complete(None);
            let _ = membership.finish();
        }
    }
}
