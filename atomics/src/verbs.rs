//! The `verbs` backend: ranks reach each other's memory through RDMA network adapters.
//!
//! A rank's memory is registered with its adapter when it joins. To reach it, a peer connects a queue pair of the
//! *reliable connected* service, once, with its first operation: it asks for it through the bootstrap, whose thread
//! answers on the other side, so that nobody has to take part who is computing. Word operations are the adapter's
//! fetch-and-add and compare-and-swap, an RDMA read, and a write that carries its word; bulk operations are RDMA reads
//! and writes of slots of registered memory (verbs/bounce.rs), from and to which the processor copies.
//!
//! # Memory
//!
//! A queue pair belongs to the rank that has asked for it, and its other end only answers. So two ranks that operate on
//! each other have two pairs, and nobody waits for anybody; a rank that is never operated on, and operates on nobody,
//! has none. A rank keeps for each peer that it operates on a queue pair with 256 requests and a completion queue, and
//! for each peer that operates on it a pair with one.
//!
//! # Ordering
//!
//! What the trait promises follows from the InfiniBand Architecture Specification, volume 1, for requests of one queue
//! pair (section 9.5, and the table of section 10.8.3.3, Work Request Operation Ordering):
//!
//! * A responder executes requests in the order of posting. An RDMA write is ordered before any later request, so puts to
//!   one target arrive in order, and a read or an atomic behind a put sees it.
//! * Behind a read or an atomic a later request is not ordered unless it is fenced. No fence is needed: operations that
//!   return a value are waited for before the next one is posted. Bulk gets are not waited for; they have no order.
//! * Requests complete in the order of posting, so a completion tells of all before it: that is a flush.
//! * A completed atomic has been carried out at the target, and any later operation there by any adapter's request or by
//!   a read of its owner's through the same adapter sees it: so operations that return a value are sequentially
//!   consistent. The owner's processor reads its words only in a wait, which asks for no more than to acquire.
//! * A completed write has arrived at the target's adapter. Whoever is told of it by an operation on memory of the same
//!   host sees it, as the adapter's writes to memory keep their order (no relaxed ordering is asked for).
//! * What the processor has copied (see below) is in memory before a later request is posted: a post of the library orders
//!   stores to memory before it, and a flush is a fence besides.
//!
//! The specification (section 9.4.5) says that atomics are atomic with each other. It does not say so of a write. An adapter
//! may lose a put to an atomic that changes the word at the same time, so [`Capabilities::atomic_puts`] is false. The
//! formal model of RDMA is as weak: G. Ambal, B. Dongol, H. Eran, V. Klimis, O. Lahav, A. Raad, Semantics of remote direct
//! memory access (RDMA^TSO), OOPSLA 2024. A compare-and-swap that fails writes nothing, so it loses no put.
//!
//! Puts could be loops of compare-and-swaps, as `fetch_store` is. Each would then wait for one round trip, or two if it
//! guesses the old word wrong. Three puts of a packet, or the wake-up of a lock's next rank, are posted today.
//!
//! # The owner's words
//!
//! Where the adapter's atomics are atomic among themselves only (`ATOMIC_HCA`, as almost everywhere), a rank's operations
//! on its own words go through its adapter, by a queue pair to itself. Where they are atomic with the processor's
//! (`ATOMIC_GLOB`), they are the processor's. A device without atomics is refused.
//!
//! # Ranks of one host
//!
//! The processor carries out bulk operations on the local segment, and those on segments of other ranks of the host.
//! With the first of them a rank maps the other rank's memory. `RMALAB_NODE_SHARED=0` or the program
//! ([`Attach::node_shared`]) has the adapter carry out the latter, as it does between hosts. Words go through the owner's
//! adapter all the same, so that each has one kind of atomics.
//!
//! # Buffers of the program
//!
//! The adapter reaches no buffer of the program. Bulk operations are cut into parts of 32 KiB at most. A put copies each
//! part into a slot before it is posted, so the buffer is free again when the call returns. A get copies each part out of
//! its slot when the rank sees that the part has arrived. An operation of more parts than there are free slots waits for
//! slots within its call. When a call fails, the parts that are under way keep their slots, and their bytes go nowhere.
//!
//! The alternatives register the buffer. A registration that outlives its operation is wrong: it names the pages that the
//! buffer had, and no backend learns that the program has freed them. A registration for each operation was measured on
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
//! A request that fails takes its queue pair along. Whether a rank has died is asked of the bootstrap first, which knows
//! of it at once; an adapter needs seconds of sending again to find out that nobody answers. Before an error is returned
//! the queue pair is destroyed: the adapter touches no slot of its requests any more.
//!
//! # Bindings
//!
//! The library is called through `rdma-mummy-sys`, which loads libibverbs when the program starts: a program with this
//! backend starts on any host, and says that there is no device. `ibverbs-sys` links it: without libibverbs.so.1 the same
//! program does not start (the loader ends it with status 127). Otherwise they are alike: posts and polls are calls through
//! the device's own table. The same loop of fetch-and-adds over Soft-RoCE, twice each on a loaded machine, took 21.3 and
//! 21.3 µs at the 10th percentile with the first and 33.0 and 21.3 µs with the second, which tells them apart no further. The
//! safe crate `ibverbs` has sends and receives only; `sideway`, over the first of the two, was not measured: it has what is
//! needed, but is MPL-2.0, and this module would still have to say who owns a buffer, and for how long.

mod bounce;
mod connection;
mod device;
mod exposed;
mod memory;
mod message;
mod queue_pair;
mod settings;
mod shared;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::bootstrap::Membership;
use crate::exposed::{ExposedKey, Lease, Refused, UserMemory};
use crate::mapped::copy;
use crate::shm::environment::Environment;
use crate::{
    Address, Atomicity, Capabilities, Disp, Error, Joined, Operation, Rank, RemoteAtomics, Request, Result,
    SEGMENT_BYTES, SymmetricHeap, Time, Topology, Until, WORD, Wishes,
};
use bounce::{BouncePool, Slot};
use connection::{Broken, Connection, Hold, Posted, Target, buffer};
use device::{Completions, Device, Region};
use exposed::Exposures;
use memory::{FRONT, Memory};
use message::Opened;
use queue_pair::{Buffer, INLINE, Place, QueuePair, Work};

/// The backend's name, as `--backend` takes it.
const BACKEND: &str = "verbs";

/// What a rank asks of the world that it joins, and of the adapter.
#[derive(Clone, Default, Debug)]
#[must_use = "nothing happens before `attach`"]
pub struct Attach {
    segment_bytes: Option<u64>,
    device: Option<String>,
    gid_index: Option<u8>,
    port: Option<u8>,
    node_shared: Option<bool>,
    topology: Option<Topology>,
    completion_entries: Option<u32>,
    failing_part: Option<u64>,
}

impl Attach {
    /// Segments of [`SEGMENT_BYTES`], and the first device with a port that is up, unless the environment says otherwise.
    pub fn new() -> Attach {
        Attach::default()
    }

    /// Segments of this length, in bytes, rounded up to whole words; all ranks ask for the same.
    pub fn segment_bytes(mut self, bytes: u64) -> Attach {
        self.segment_bytes = Some(bytes);
        self
    }

    /// The device's name, or several with commas between them, which the ranks of a host take in turn; otherwise
    /// `RMALAB_DEVICE`.
    pub fn device(mut self, name: impl Into<String>) -> Attach {
        self.device = Some(name.into());
        self
    }

    /// The number of the port's address; otherwise `RMALAB_GID_INDEX`, or the best one: RoCE v2 over IPv4.
    pub fn gid_index(mut self, index: u8) -> Attach {
        self.gid_index = Some(index);
        self
    }

    /// The device's port; otherwise `RMALAB_IB_PORT`, or 1.
    pub fn port(mut self, number: u8) -> Attach {
        self.port = Some(number);
        self
    }

    /// Places the ranks on nodes, instead of each host being one; what ranks share depends on their hosts all the same.
    pub fn topology(mut self, topology: Topology) -> Attach {
        self.topology = Some(topology);
        self
    }

    /// Whether bulk operations between ranks of one host are copies by the processor; otherwise `RMALAB_NODE_SHARED`, or
    /// yes. Words go through the adapter either way.
    pub fn node_shared(mut self, shared: bool) -> Attach {
        self.node_shared = Some(shared);
        self
    }

    /// Entries of the completion queues, instead of as many as there are requests: for tests of what happens to full ones.
    #[doc(hidden)]
    pub fn completion_entries(mut self, entries: u32) -> Attach {
        self.completion_entries = Some(entries);
        self
    }

    /// The part with this number of every bulk operation fails: for tests of what is under way after a failure.
    #[doc(hidden)]
    pub fn failing_part(mut self, part: u64) -> Attach {
        self.failing_part = Some(part);
        self
    }

    /// Joins the world of `membership`; all its ranks call this.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there is no such device, port or address, when the device has no atomics, or when the ranks
    /// disagree; [`Error::System`] when the system refuses memory or its registration; [`Error::PeerFailed`] when
    /// another rank could not join.
    pub fn attach(self, membership: Membership) -> Result<Verbs> {
        match self.prepare(&membership) {
            Ok(parts) => Verbs::join(parts, membership),
            Err(error) => {
                // The others wait for this one.
                membership.fail();
                Err(error)
            }
        }
    }

    fn prepare(self, membership: &Membership) -> Result<Parts> {
        let (rank, hosts) = (membership.rank(), membership.hosts());
        let local = hosts[..rank.index()].iter().filter(|host| **host == hosts[rank.index()]).count();
        let list = match self.device {
            Some(list) => Some(list),
            None => settings::variable(settings::DEVICE)?,
        };
        let number = match self.port {
            Some(number) => number,
            None => settings::number(settings::PORT)?.unwrap_or(1),
        };
        let device = match list {
            Some(list) => Device::open(settings::turn(&list, local)?)?,
            None => first_active(number)?,
        };
        let abilities = device.abilities()?;
        let name = device.name();
        let Some(atomicity) = abilities.atomicity else {
            return Err(Error::world(format!(
                "verbs: device {name} has no atomic operations (atomic_cap is ATOMIC_NONE)"
            )));
        };
        let port = device.port(number)?;
        if !port.active {
            return Err(Error::world(format!(
                "verbs: port {number} of {name} is not active; `rdma link` shows its state ({} chooses another port, {} another device)",
                settings::PORT,
                settings::DEVICE
            )));
        }
        let wanted = match self.gid_index {
            Some(index) => Some(index),
            None => settings::number(settings::GID_INDEX)?,
        };
        let gid = if port.ethernet {
            let gids = device.gids(&port);
            let chosen = settings::choose(&gids, wanted).ok_or_else(|| {
                let there: Vec<String> = gids.iter().map(|gid| gid.index.to_string()).collect();
                Error::world(format!(
                    "verbs: port {number} of {name} has no usable address{} (numbers in use: [{}]; an IP address on its network interface gives it one, {} names one)",
                    wanted.map_or(String::new(), |index| format!(" with number {index}")),
                    there.join(", "),
                    settings::GID_INDEX
                ))
            })?;
            Some(chosen)
        } else {
            None
        };
        let node_shared = match self.node_shared {
            Some(shared) => shared,
            None => settings::number(shared::NODE_SHARED)? != Some(0),
        };
        let completions = self.completion_entries.unwrap_or(connection::DEPTH as u32);
        let (initiator, responder) = (abilities.initiator.clamp(1, READS), abilities.responder.clamp(1, READS));
        let place = Place { port, gid, initiator, responder };
        let segment = self.segment_bytes.unwrap_or(SEGMENT_BYTES);
        let segment = segment
            .checked_next_multiple_of(WORD)
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| Error::world(format!("a segment of {segment} bytes is none")))?;
        let memory = Arc::new(Memory::new(segment)?);
        let region = Arc::new(Region::segment(&device, Arc::clone(&memory))?);
        let bounce = BouncePool::new(SLOTS, SLOT_BYTES, |start, len| Region::local(&device, start, len))?;
        Ok(Parts {
            device,
            place,
            atomicity,
            segment,
            memory,
            region,
            bounce,
            node_shared,
            topology: self.topology,
            completions,
            failing_part: self.failing_part,
        })
    }
}

/// The first device whose port with this number is up.
fn first_active(number: u8) -> Result<Arc<Device>> {
    let names = Device::names()?;
    for name in &names {
        let device = Device::open(name)?;
        if device.port(number).is_ok_and(|port| port.active) {
            return Ok(device);
        }
    }
    Err(Error::world(format!(
        "verbs: no RDMA device of this host ({}) has a port {number} that is active; `rdma link` shows their state",
        names.join(", ")
    )))
}

/// Reads and atomics under way on a connection that this backend makes use of.
const READS: u8 = 16;

/// Slots for the parts of bulk operations, and the bytes of each: the longest single request.
const SLOTS: usize = 64;
const SLOT_BYTES: usize = 32 << 10;

/// What a rank has before it meets the others.
struct Parts {
    device: Arc<Device>,
    place: Place,
    atomicity: Atomicity,
    segment: u64,
    memory: Arc<Memory>,
    region: Arc<Region>,
    bounce: BouncePool<Region>,
    node_shared: bool,
    topology: Option<Topology>,
    completions: u32,
    failing_part: Option<u64>,
}

/// The ends of the queue pairs that others have asked for.
struct Answering {
    // The pairs go before their queue.
    pairs: Vec<QueuePair>,
    queue: Completions,
    device: Arc<Device>,
    place: Place,
    memory: Opened,
    shared: Arc<Memory>,
    _region: Arc<Region>,
}

impl Answering {
    /// Makes the other end of the pair in a request, ready to receive.
    fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        if *request == message::SHARE {
            return shared::description(self.shared.file()).map(|shared| message::shared(&shared));
        }
        let peer = message::read_request(request).ok_or("a request that this version does not know")?;
        let pair = QueuePair::new(&self.device, self.place, &self.queue, 1).map_err(|error| error.to_string())?;
        pair.connect(&peer).map_err(|error| error.to_string())?;
        let answer = message::answer(&pair.endpoint(), &self.memory);
        self.pairs.push(pair);
        Ok(answer)
    }
}

/// Requests that a rank has posted, and what else shows the cost of its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Peers that this rank has connected to, itself included.
    pub connections: u64,
    /// Requests posted.
    pub requests: u64,
    /// Requests that asked for a completion.
    pub signalled: u64,
    /// Compare-and-swaps of `fetch_store` beyond the first of each.
    pub second_guesses: u64,
}

/// One rank of a world over RDMA verbs; see [the module](self).
///
/// Dropping it waits for all ranks to come so far, as `MPI_Finalize` does, so that none loses memory that it still
/// operates on; unless a rank has failed, or this one is panicking, which the others are told.
pub struct Verbs {
    rank: Rank,
    size: u32,
    segment: u64,
    atomicity: Atomicity,
    topology: Topology,
    heap: SymmetricHeap,
    // Connections go before the memory that their requests use, and the membership, with the thread that answers, too.
    peers: RefCell<FxHashMap<u32, Connection>>,
    membership: Option<Membership>,
    bounce: BouncePool<Region>,
    scratch: Buffer,
    region: Arc<Region>,
    memory: Arc<Memory>,
    device: Arc<Device>,
    place: Place,
    /// Entries of a connection's completion queue: of as many as its requests it is never full.
    completions: u32,
    failing_part: Option<u64>,
    /// What has broken a connection: from then on nothing can be relied on.
    failed: RefCell<Option<Failed>>,
    /// The number of this burst of puts.
    burst: Cell<u64>,
    /// When the device was last asked for events.
    looked: Cell<Option<Instant>>,
    guesses: Guesses,
    exposures: RefCell<Exposures>,
    /// Whether ranks of this host reach each other's data by the processor, and the memory of those whose was asked for.
    node_shared: bool,
    neighbours: RefCell<FxHashMap<u32, Option<Rc<Memory>>>>,
    /// What connections that are gone have posted.
    past: Cell<Posted>,
    second_guesses: Cell<u64>,
}

impl fmt::Debug for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verbs")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

/// Why nothing goes on.
#[derive(Clone, Debug)]
enum Failed {
    Peer(Rank),
    Other(Box<str>),
}

impl Failed {
    fn of(error: &Error) -> Failed {
        match error {
            Error::PeerFailed { rank } => Failed::Peer(*rank),
            other => Failed::Other(other.to_string().into()),
        }
    }

    fn error(&self) -> Error {
        match self {
            Failed::Peer(rank) => Error::PeerFailed { rank: *rank },
            Failed::Other(words) => Error::World(words.clone()),
        }
    }
}

/// What a word was when this rank last saw it: the first guess of a `fetch_store`.
#[derive(Default)]
struct Guesses([Cell<(u32, u64, u64)>; 32]);

impl Guesses {
    #[inline]
    fn place(&self, at: Address) -> &Cell<(u32, u64, u64)> {
        &self.0[(at.disp.0 / WORD) as usize % self.0.len()]
    }

    #[inline]
    fn note(&self, at: Address, value: u64) {
        self.place(at).set((at.rank.0, at.disp.0, value));
    }

    /// Zero, the state at rest, for a word that is not known.
    #[inline]
    fn of(&self, at: Address) -> u64 {
        let (rank, disp, value) = self.place(at).get();
        if (rank, disp) == (at.rank.0, at.disp.0) { value } else { 0 }
    }
}

/// Requests of this backend: the rank and the request's number; 0 for what is complete already.
const DONE: Request = Request(0);
const PENDING: u64 = 1 << 63;
const NUMBER_BITS: u32 = 39;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
const MOST_RANKS: u32 = 1 << (63 - NUMBER_BITS);

fn request(rank: Rank, number: u64) -> Request {
    Request(PENDING | u64::from(rank.0) << NUMBER_BITS | number & NUMBERS)
}

/// The rank and the low bits of the number.
fn read_request(request: &Request) -> Option<(u32, u64)> {
    (request.0 & PENDING != 0).then_some((((request.0 & !PENDING) >> NUMBER_BITS) as u32, request.0 & NUMBERS))
}

/// Polls before a waiting rank gives the processor to others, gifts before it sleeps, and for how long it does.
///
/// Soft-RoCE's kernel threads, and other ranks, need the processor that a rank spins on.
const SPINS: u32 = 2_000;
const YIELDS: u32 = 1_000;
const SLEEP: Duration = Duration::from_micros(50);

/// How often a waiting rank asks its device for events.
const EVENTS: Duration = Duration::from_millis(100);

/// What one uncontended word operation takes, in nanoseconds: the unit of `pause`.
const OPERATION: u64 = 2_000;

/// How long the bootstrap has to tell of a death when a request has failed.
const GRACE: Duration = Duration::from_secs(1);

/// The place of a rank that waits: how long it has.
#[derive(Default)]
struct Turns(u32);

impl Turns {
    /// Waits a little, longer each time.
    #[inline]
    fn turn(&mut self, verbs: &Verbs) -> Result<()> {
        if self.0 < SPINS {
            self.0 += 1;
            // Not each time: an emulated processor leaves its loop for a pause.
            if self.0.is_multiple_of(16) {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        self.slow_turn(verbs)
    }

    #[cold]
    fn slow_turn(&mut self, verbs: &Verbs) -> Result<()> {
        verbs.check()?;
        if self.0 < SPINS + YIELDS {
            self.0 += 1;
            std::thread::yield_now();
        } else {
            verbs.look()?;
            std::thread::sleep(SLEEP);
        }
        Ok(())
    }
}

impl Verbs {
    fn join(parts: Parts, membership: Membership) -> Result<Verbs> {
        let Parts { device, place, atomicity, segment, memory, region, bounce, node_shared, .. } = parts;
        let Parts { topology, completions, failing_part, .. } = parts;
        let (rank, size) = (membership.rank(), membership.size());
        let verbs = Verbs {
            rank,
            size,
            segment,
            atomicity,
            topology: topology.unwrap_or_else(|| membership.topology().clone()),
            heap: SymmetricHeap::new(segment),
            peers: RefCell::default(),
            membership: Some(membership),
            bounce,
            scratch: buffer(memory.start().as_ptr(), WORD as usize, region.local_key()),
            region,
            memory,
            device,
            place,
            completions,
            failing_part,
            failed: RefCell::default(),
            burst: Cell::new(0),
            looked: Cell::new(None),
            guesses: Guesses::default(),
            exposures: RefCell::default(),
            node_shared,
            neighbours: RefCell::default(),
            past: Cell::default(),
            second_guesses: Cell::new(0),
        };
        if verbs.topology.size() != size {
            let ranks = verbs.topology.size();
            return verbs.refuse(Error::world(format!("the topology has {ranks} ranks and the world {size}")));
        }
        if size > MOST_RANKS {
            return verbs.refuse(Error::world(format!("verbs: {size} ranks; this backend takes {MOST_RANKS}")));
        }
        match verbs.open() {
            Ok(()) => Ok(verbs),
            Err(error) => verbs.refuse(error),
        }
    }

    fn refuse(self, error: Error) -> Result<Verbs> {
        self.fail();
        Err(error)
    }

    /// Answers the others from now on, and sees that all agree.
    fn open(&self) -> Result<()> {
        let mut answering = Answering {
            pairs: Vec::new(),
            queue: Completions::new(&self.device, 1)?,
            device: Arc::clone(&self.device),
            place: self.place,
            memory: Opened { address: self.memory.start().as_ptr() as u64, key: self.region.remote_key() },
            shared: Arc::clone(&self.memory),
            _region: Arc::clone(&self.region),
        };
        let membership = self.membership();
        membership.serve(move |_, bytes| answering.answer(bytes));
        let mine = (self.segment, self.place.port.ethernet);
        let card = [&mine.0.to_le_bytes()[..], &[mine.1.into()]].concat();
        for (rank, card) in (0..).map(Rank).zip(membership.allgather(&card)?) {
            let theirs = card.split_first_chunk().map(|(bytes, rest)| (u64::from_le_bytes(*bytes), rest == [1]));
            if theirs != Some(mine) {
                return Err(Error::world(format!(
                    "verbs: {rank} and {} disagree: (bytes of a segment, whether the link is Ethernet) are {theirs:?} and {mine:?}",
                    self.rank
                )));
            }
        }
        Ok(())
    }

    /// Leaves the world as failed: the waits of all other ranks return [`Error::PeerFailed`] with this rank.
    pub fn fail(mut self) {
        if let Some(membership) = self.membership.take() {
            membership.fail();
        }
    }

    /// What the rank has posted since it joined.
    pub fn statistics(&self) -> Statistics {
        let peers = self.peers.borrow();
        let add = |sum: Posted, one: Posted| Posted {
            requests: sum.requests + one.requests,
            signalled: sum.signalled + one.signalled,
        };
        let Posted { requests, signalled } = peers.values().map(Connection::count).fold(self.past.get(), add);
        Statistics { connections: peers.len() as u64, requests, signalled, second_guesses: self.second_guesses.get() }
    }

    /// A word of the own segment as the processor reaches it.
    ///
    /// The adapter's atomics are not atomic with those of the processor on it, where the
    /// [capabilities](RemoteAtomics::capabilities) say [`Hca`](Atomicity::Hca): this is for looking at what happens then.
    ///
    /// # Errors
    ///
    /// Those of a wait for the word.
    pub fn own_word_by_processor(&self, own: Disp) -> Result<&AtomicU64> {
        self.own_word(own)
    }

    fn membership(&self) -> &Membership {
        self.membership.as_ref().expect("it is there until the rank has left")
    }

    /// An error if any rank has failed.
    #[inline]
    fn check(&self) -> Result<()> {
        match &*self.failed.borrow() {
            None => self.membership().check(),
            Some(failed) => Err(failed.error()),
        }
    }

    /// An error if the device has failed; asks it now and then.
    fn look(&self) -> Result<()> {
        let now = Instant::now();
        if self.looked.get().is_none_or(|then| now.duration_since(then) >= EVENTS) {
            self.looked.set(Some(now));
            if let Err(error) = self.device.look() {
                return Err(self.has_failed(Failed::of(&error)));
            }
        }
        Ok(())
    }

    /// Remembers the first failure, and returns it.
    #[cold]
    fn has_failed(&self, failed: Failed) -> Error {
        self.failed.borrow_mut().get_or_insert(failed).error()
    }

    #[cold]
    fn bad_address(&self, operation: Operation, at: Address, len: u64) -> Error {
        if at.rank.0 >= self.size {
            Error::RankOutOfRange { operation, rank: at.rank, size: self.size }
        } else if at.disp.0.checked_add(len).is_none_or(|end| end > self.segment) {
            Error::OutOfSegment { operation, at, len, segment: self.segment }
        } else {
            Error::Misaligned { operation, at }
        }
    }

    /// Checks a word's address, and says where it is in its rank's mapping.
    #[inline(always)]
    fn word(&self, operation: Operation, at: Address) -> Result<u64> {
        // The segment is a multiple of 8, so an aligned word that starts in it ends in it.
        if at.rank.0 >= self.size || at.disp.0 >= self.segment || !at.disp.0.is_multiple_of(WORD) {
            return Err(self.bad_address(operation, at, WORD));
        }
        Ok(FRONT as u64 + at.disp.0)
    }

    /// The own word at `at`, if its owner's processor may change it.
    #[inline(always)]
    fn by_processor(&self, at: Address) -> Option<&AtomicU64> {
        if at.rank != self.rank || self.atomicity != Atomicity::Global { None } else { self.memory.word(at.disp.0) }
    }

    /// Checks a range.
    #[inline(always)]
    fn range(&self, operation: Operation, at: Address, len: u64) -> Result<u64> {
        if at.rank.0 >= self.size || at.disp.0.checked_add(len).is_none_or(|end| end > self.segment) {
            return Err(self.bad_address(operation, at, len));
        }
        Ok(FRONT as u64 + at.disp.0)
    }

    /// Runs `body` on the connection to `rank`, which is made if there is none; if it fails, the connection is gone.
    #[inline]
    fn with<T>(&self, rank: Rank, body: impl FnOnce(&mut Connection) -> Result<T, Broken>) -> Result<T> {
        {
            let mut peers = self.peers.borrow_mut();
            if let Some(connection) = peers.get_mut(&rank.0) {
                return match body(connection) {
                    Ok(value) => Ok(value),
                    Err(broken) => {
                        self.drop_connection(&mut peers, rank);
                        drop(peers);
                        Err(self.explain(rank, broken))
                    }
                };
            }
        }
        self.connect(rank)?;
        self.with(rank, body)
    }

    /// As [`with`](Self::with), for what needs room for a request.
    #[inline]
    fn with_room<T>(&self, rank: Rank, body: impl FnOnce(&mut Connection) -> Result<T, Broken>) -> Result<T> {
        self.with(rank, |connection| {
            let mut turns = Turns::default();
            while connection.is_full() {
                if !connection.poll()? {
                    turns.turn(self)?;
                }
            }
            body(connection)
        })
    }

    fn drop_connection(&self, peers: &mut FxHashMap<u32, Connection>, rank: Rank) {
        let Some(connection) = peers.remove(&rank.0) else { return };
        let (past, count) = (self.past.get(), connection.count());
        self.past.set(Posted { requests: past.requests + count.requests, signalled: past.signalled + count.signalled });
    }

    /// Connects to `rank`, whose bootstrap's thread makes the other end.
    #[cold]
    fn connect(&self, rank: Rank) -> Result<()> {
        self.check()?;
        let mut connection = Connection::new(&self.device, self.place, self.completions)?;
        let answer = self.membership().request(rank, &message::request(&connection.endpoint()))?;
        let (peer, memory) = message::read_answer(&answer)
            .ok_or_else(|| Error::world(format!("verbs: {rank} answers what this version does not know")))?;
        connection.connect(&peer, memory)?;
        self.peers.borrow_mut().insert(rank.0, connection);
        Ok(())
    }

    /// Why the connection to `rank` broke.
    #[cold]
    fn explain(&self, rank: Rank, broken: Broken) -> Error {
        let status = match broken {
            Broken::Error(error) => return self.has_failed(Failed::of(&error)),
            Broken::Status(status) => status,
        };
        // The bootstrap knows who has died, and the device whether it has.
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if let Err(error) = self.check().and_then(|()| self.device.look()) {
                return self.has_failed(Failed::of(&error));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if !queue_pair::is_local(status) {
            return self.has_failed(Failed::Peer(rank));
        }
        let words = device::status_words(status);
        let name = self.device.name();
        self.has_failed(Failed::Other(format!("verbs: a request to {rank} failed on device {name}: {words}").into()))
    }

    /// Waits for request `number`, and so for all before it.
    #[inline]
    fn finish(&self, connection: &mut Connection, number: u64) -> Result<(), Broken> {
        let mut turns = Turns::default();
        while !connection.is_done(number) {
            if !connection.poll()? {
                turns.turn(self)?;
            }
        }
        Ok(())
    }

    /// An operation on a word that returns what the word was.
    #[inline]
    fn fetch(&self, rank: Rank, offset: u64, work: Work) -> Result<u64> {
        self.with_room(rank, |connection| {
            // SAFETY: the scratch word is part of this rank's memory, which outlives all connections (the order of the
            // fields); one operation at a time uses it, this one, and if its wait fails, the connection goes.
            let number = unsafe { connection.fetch(Target::Mapping(offset), work)? };
            self.finish(connection, number)
        })?;
        // The adapter has written it before the completion that was seen.
        fence(Ordering::Acquire);
        Ok(self.memory.front(0).load(Ordering::Relaxed))
    }

    /// Starts to write at `target` of another rank.
    ///
    /// # Safety
    ///
    /// As [`put_bytes_nb`](RemoteAtomics::put_bytes_nb); the target exists.
    unsafe fn write(&self, rank: Rank, target: Target, source: *const u8, len: usize) -> Result<Request> {
        if len == 0 {
            return Ok(DONE);
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(source, len) };
        if len <= INLINE {
            let burst = self.burst.get();
            self.with_room(rank, |connection| Ok(connection.put(target, bytes, burst)?))?;
            return Ok(DONE);
        }
        for (number, part) in (0..).zip(bytes.chunks(SLOT_BYTES)) {
            // Whatever fails, the parts before this one are copies.
            self.may_fail(number)?;
            let slot = self.slot()?;
            slot.copy_in(part);
            let work = Work::Write(buffer(slot.start(), part.len(), slot.region().local_key()));
            let target = target.plus(number * SLOT_BYTES as u64);
            self.with_room(rank, |connection| {
                // SAFETY: the slot is what the work reads, and is held.
                Ok(unsafe { connection.bulk(target, work, Hold { slot, arrives: None })? })
            })?;
        }
        Ok(DONE)
    }

    /// Starts to read at `target` of another rank.
    ///
    /// # Safety
    ///
    /// As [`get_bytes_nb`](RemoteAtomics::get_bytes_nb); the target exists.
    unsafe fn read(&self, rank: Rank, target: Target, dest: *mut u8, len: usize) -> Result<Request> {
        if len == 0 {
            return Ok(DONE);
        }
        let mut posted = None;
        for (number, start) in (0..).zip((0..len).step_by(SLOT_BYTES)) {
            let part = (len - start).min(SLOT_BYTES);
            // SAFETY: a part of the ranges that the caller vouches for.
            let request = self
                .may_fail(number)
                .and_then(|()| unsafe { self.read_part(rank, target.plus(start as u64), dest.add(start), part) });
            match request {
                Ok(request) => posted = Some((posted.map_or(request, |(first, _)| first), request)),
                Err(error) => {
                    // Without its connection nothing is under way.
                    if let Some((first, _)) = posted
                        && let Some(connection) = self.peers.borrow_mut().get_mut(&rank.0)
                    {
                        connection.give_up(first);
                    }
                    return Err(error);
                }
            }
        }
        Ok(posted.map_or(DONE, |(_, last)| request(rank, last)))
    }

    /// Starts to read what fits into a slot; returns the request's number.
    ///
    /// # Safety
    ///
    /// As [`read`](Self::read), until the request is complete or given up.
    unsafe fn read_part(&self, rank: Rank, target: Target, dest: *mut u8, len: usize) -> Result<u64> {
        let slot = self.slot()?;
        let work = Work::Read(buffer(slot.start(), len, slot.region().local_key()));
        self.with_room(rank, |connection| {
            // SAFETY: the slot is what the work writes, and is held; `dest` is valid by the caller's promise.
            Ok(unsafe { connection.bulk(target, work, Hold { slot, arrives: Some((dest, len)) })? })
        })
    }

    /// An error where a test wants part `number` of a bulk operation to fail.
    fn may_fail(&self, number: u64) -> Result<()> {
        match self.failing_part {
            Some(part) if part == number => Err(Error::world(format!("verbs: part {part} fails, as a test wants it"))),
            _ => Ok(()),
        }
    }

    fn own_word(&self, own: Disp) -> Result<&AtomicU64> {
        let at = self.rank.at(own);
        self.word(Operation::WaitUntil, at)?;
        Ok(self.memory.word(own.0).expect("it was checked to be in the segment"))
    }

    fn wait_for(&self, own: Disp, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let word = self.own_word(own)?;
        self.burst.set(self.burst.get() + 1);
        let mut turns = Turns::default();
        loop {
            let value = word.load(Ordering::SeqCst);
            if until.holds(value) {
                return Ok(Some(value));
            }
            if deadline.is_some_and(|deadline| self.now() >= deadline) {
                return self.check().map(|()| None);
            }
            turns.turn(self)?;
        }
    }

    /// A free slot. While all are in use, waits for operations that are under way.
    fn slot(&self) -> Result<Slot<Region>> {
        let mut turns = Turns::default();
        loop {
            if let Some(slot) = self.bounce.acquire() {
                return Ok(slot);
            }
            let busy: Vec<u32> =
                self.peers.borrow().iter().filter(|(_, peer)| peer.holds()).map(|(&rank, _)| rank).collect();
            for rank in busy {
                self.with(Rank(rank), |connection| connection.poll())?;
            }
            turns.turn(self)?;
        }
    }
}

impl Joined for Verbs {
    const MEETS: bool = true;

    /// By whichever launcher the environment tells of, on the device that it names, if it names one.
    fn join(wishes: Wishes) -> Result<Verbs> {
        let mut attach = Attach::new();
        let environment = Environment::own();
        if let Some(bytes) = wishes.segment_bytes.max(environment.segment_bytes()?) {
            attach = attach.segment_bytes(bytes);
        }
        let membership = Membership::by_environment()?;
        let placed = wishes.topology.or(environment.topology(membership.size())?);
        let mut verbs = attach.attach(membership)?;
        if let Some(topology) = placed {
            verbs.topology = topology;
        }
        Ok(verbs)
    }

    fn fail(self) {
        Verbs::fail(self);
    }
}

impl RemoteAtomics for Verbs {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            backend: BACKEND,
            atomicity: self.atomicity,
            native_fetch_store: false,
            late_puts: true,
            ordered_puts: false,
            atomic_puts: false,
            passive_progress: true,
            asymmetric_fence: false,
        }
    }

    fn heap(&self) -> &SymmetricHeap {
        &self.heap
    }

    #[inline]
    fn fetch_add(&self, at: Address, value: u64) -> Result<u64> {
        let offset = self.word(Operation::FetchAdd, at)?;
        if let Some(word) = self.by_processor(at) {
            return Ok(word.fetch_add(value, Ordering::SeqCst));
        }
        let old = self.fetch(at.rank, offset, Work::FetchAdd(self.scratch, value))?;
        self.guesses.note(at, old.wrapping_add(value));
        Ok(old)
    }

    #[inline]
    fn compare_and_swap(&self, at: Address, expected: u64, desired: u64) -> Result<u64> {
        let offset = self.word(Operation::CompareAndSwap, at)?;
        if let Some(word) = self.by_processor(at) {
            let seen = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            return Ok(seen.unwrap_or_else(|old| old));
        }
        let old = self.fetch(at.rank, offset, Work::CompareAndSwap(self.scratch, expected, desired))?;
        self.guesses.note(at, if old == expected { desired } else { old });
        Ok(old)
    }

    /// A loop of compare-and-swaps, the first of which guesses what this rank last saw in the word, or 0.
    #[inline]
    fn fetch_store(&self, at: Address, value: u64) -> Result<u64> {
        let offset = self.word(Operation::FetchStore, at)?;
        if let Some(word) = self.by_processor(at) {
            return Ok(word.swap(value, Ordering::SeqCst));
        }
        let mut guess = self.guesses.of(at);
        loop {
            let old = self.fetch(at.rank, offset, Work::CompareAndSwap(self.scratch, guess, value))?;
            if old == guess {
                self.guesses.note(at, value);
                return Ok(old);
            }
            self.second_guesses.set(self.second_guesses.get() + 1);
            guess = old;
        }
    }

    #[inline]
    fn get(&self, at: Address) -> Result<u64> {
        let offset = self.word(Operation::Get, at)?;
        if let Some(word) = self.by_processor(at) {
            return Ok(word.load(Ordering::SeqCst));
        }
        let value = self.fetch(at.rank, offset, Work::Read(self.scratch))?;
        self.guesses.note(at, value);
        Ok(value)
    }

    #[inline]
    fn put(&self, at: Address, value: u64) -> Result<()> {
        let offset = self.word(Operation::Put, at)?;
        if let Some(word) = self.by_processor(at) {
            word.store(value, Ordering::SeqCst);
            return Ok(());
        }
        self.guesses.note(at, value);
        let burst = self.burst.get();
        self.with_room(at.rank, |connection| {
            Ok(connection.put(Target::Mapping(offset), &value.to_ne_bytes(), burst)?)
        })
    }

    unsafe fn put_bytes_nb(&self, at: Address, source: *const u8, len: usize) -> Result<Request> {
        let offset = self.range(Operation::PutBytes, at, len as u64)?;
        if len == 0 {
            return Ok(DONE);
        }
        if let Some(shared) = self.reach(at, len)? {
            // SAFETY: the caller vouches for `source`; the range was checked, and all access to it acts as atomic.
            unsafe { copy::to_shared(source, shared, len) };
            return Ok(DONE);
        }
        // SAFETY: the caller's promise.
        unsafe { self.write(at.rank, Target::Mapping(offset), source, len) }
    }

    unsafe fn get_bytes_nb(&self, at: Address, dest: *mut u8, len: usize) -> Result<Request> {
        let offset = self.range(Operation::GetBytes, at, len as u64)?;
        if len == 0 {
            return Ok(DONE);
        }
        if let Some(shared) = self.reach(at, len)? {
            // SAFETY: the caller vouches for `dest`; the range was checked, and all access to it acts as atomic.
            unsafe { copy::from_shared(shared, dest, len) };
            // Pairs with the release of whatever told this rank that the bytes are there.
            fence(Ordering::Acquire);
            return Ok(DONE);
        }
        // SAFETY: the caller's promise.
        unsafe { self.read(at.rank, Target::Mapping(offset), dest, len) }
    }

    fn test(&self, request: &Request) -> Result<bool> {
        let Some((rank, number)) = read_request(request) else { return Ok(true) };
        let done = self.with_there(rank, |connection| {
            connection.poll()?;
            Ok(connection.pending(number).is_none())
        })?;
        if !done {
            self.check()?;
        }
        Ok(done)
    }

    fn wait(&self, request: Request) -> Result<()> {
        let Some((rank, number)) = read_request(&request) else { return Ok(()) };
        self.with_there(rank, |connection| match connection.pending(number) {
            Some(number) => self.finish(connection, number).map(|()| true),
            None => Ok(true),
        })?;
        fence(Ordering::Acquire);
        Ok(())
    }

    fn flush(&self, target: Rank) -> Result<()> {
        if target.0 >= self.size {
            return Err(self.bad_address(Operation::Flush, target.at(Disp(0)), 0));
        }
        // Of what the processor has copied into segments of this host.
        fence(Ordering::SeqCst);
        self.flush_there(target.0)
    }

    fn flush_all(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        let peers: Vec<u32> = self.peers.borrow().keys().copied().collect();
        // All targets work at the same time: first everything is posted, then waited for.
        let mut result = Ok(());
        for &peer in &peers {
            result = result.and(self.start_flush(peer));
        }
        for &peer in &peers {
            let flushed = if result.is_ok() { self.flush_there(peer) } else { Ok(()) };
            result = result.and(flushed);
        }
        if result.is_err() {
            // What is under way is given up.
            let mut peers = self.peers.borrow_mut();
            let ranks: Vec<u32> = peers.keys().copied().collect();
            ranks.into_iter().for_each(|rank| self.drop_connection(&mut peers, Rank(rank)));
        }
        result
    }

    #[inline]
    fn wait_until(&self, own: Disp, until: Until) -> Result<u64> {
        let value = self.wait_for(own, until, None)?;
        Ok(value.expect("a wait without a deadline ends with a value or an error"))
    }

    #[inline]
    fn wait_until_deadline(&self, own: Disp, until: Until, deadline: Time) -> Result<Option<u64>> {
        self.wait_for(own, until, Some(deadline))
    }

    fn pause(&self, operations: u32) -> Result<()> {
        self.check()?;
        self.look()?;
        let time = Duration::from_nanos(u64::from(operations) * OPERATION);
        if time >= SLEEP {
            std::thread::sleep(time);
        } else {
            let end = self.now().after(time);
            std::thread::yield_now();
            while self.now() < end {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    #[inline]
    fn now(&self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn expose(&self, memory: UserMemory) -> Result<ExposedKey, Refused> {
        self.open_memory(memory)
    }

    fn withdraw(&self, key: ExposedKey) -> Result<UserMemory> {
        self.withdraw_memory(key)
    }

    fn lease(&self, rank: Rank, key: ExposedKey) -> Result<Box<dyn Lease + '_>> {
        self.lease_memory(rank, key)
    }

    /// By the processor, behind what this rank has itself put there.
    fn clear(&self, own: Disp, len: u64) -> Result<()> {
        let at = self.rank.at(own);
        self.range(Operation::PutBytes, at, len)?;
        self.flush(self.rank)?;
        let start = self.memory.range(own.0, len as usize).expect("the range was checked");
        // SAFETY: the range lies in this rank's memory, and all access to it acts as atomic.
        unsafe { copy::zero_shared(start, len as usize) };
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Verbs {
    /// Runs `body` on the connection to `rank` if there is one; without one everything is done, or has been given up.
    fn with_there(&self, rank: u32, body: impl FnOnce(&mut Connection) -> Result<bool, Broken>) -> Result<bool> {
        if self.peers.borrow().contains_key(&rank) {
            return self.with(Rank(rank), body);
        }
        self.check().map(|()| true)
    }

    /// Posts what a flush waits for.
    fn start_flush(&self, rank: u32) -> Result<()> {
        self.with_there(rank, |connection| {
            connection.poll()?;
            let mut turns = Turns::default();
            while connection.flush_posts() && connection.is_full() {
                if !connection.poll()? {
                    turns.turn(self)?;
                }
            }
            connection.flush()?;
            Ok(true)
        })?;
        Ok(())
    }

    fn flush_there(&self, rank: u32) -> Result<()> {
        if !self.peers.borrow().contains_key(&rank) {
            // What was under way on a connection that is gone has been given up.
            return self.check();
        }
        self.start_flush(rank)?;
        self.with_there(rank, |connection| {
            let last = connection.last();
            self.finish(connection, last).map(|()| true)
        })?;
        fence(Ordering::Acquire);
        Ok(())
    }
}

impl Drop for Verbs {
    fn drop(&mut self) {
        if let Some(membership) = &self.membership
            && !std::thread::panicking()
            && self.check().is_ok()
        {
            // Whatever fails now, the others hear of it from the bootstrap, and there is nobody to tell here.
            self.close_all();
            let _ = self.flush_all();
            let _ = membership.barrier();
        }
    }
}

#[cfg(test)]
mod tests;
