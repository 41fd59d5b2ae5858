//! Messages between ranks over network atomics: the two-sided transport with which the papers compare one-sided
//! communication.
//!
//! # Sources
//!
//! * R. Thakur, W. Gropp, B. Toonen, Minimizing Synchronization Overhead in the Implementation of MPI One-Sided
//!   Communication, EuroPVM/MPI 2004, section 4: typed packets, followed by data, that the target's progress serves; an
//!   agent thread that makes progress while the target computes.
//! * W. Jiang, J. Liu, H.-W. Jin, D. K. Panda, W. Gropp, R. Thakur, High Performance MPI-2 One-Sided Communication over
//!   InfiniBand, CCGrid 2004, section 3: the costs of a transport of sends and receives (copies, matching, the
//!   handshake of long messages, dependence on the target's progress).
//! * Matching: the MPI standard 4.1, section 3.5.
//!
//! # Layers
//!
//! *Packets* are active messages: a [`Kind`], a word and bytes. They arrive in order from each end-point at each other one. Sending a packet
//! never waits. The sender keeps packets without room, and sends them when the end-point makes progress. `messages/packets.rs` has the state
//! and the invariants of the rings below. [`two_sided`](crate::two_sided) windows use packets.
//!
//! *Messages* ([`Messages::send`], [`Messages::recv`] and their non-blocking forms) are packets of four kinds:
//!
//! | kind | word | data | when |
//! | --- | --- | --- | --- |
//! | `EAGER` | tag | the message | up to [`Options::eager_limit`], and to the local rank |
//! | `RTS` | tag | length, number of the send | longer messages: asks to send |
//! | `CTS` | number of the send | number of the receive | once the receive is there: clear to send |
//! | `DATA` | number of the receive | the message | the answer to `CTS` |
//!
//! # Invariants
//!
//! * M1. `EAGER` and `RTS` packets of one sender arrive in the order of its sends, since packets do. They are matched
//!   in that order, against posted receives in the order of the receives. So messages do not overtake each other.
//! * M2. A message waits in `unexpected` only if no posted receive matches it, and a receive only if no message does.
//! * M3. A waiting rank serves arriving packets. So two ranks that wait for room at each other both make room.
//!
//! # Progress
//!
//! An end-point serves packets only while its rank is in one of its calls.
//!
//! # Memory
//!
//! Every rank has one ring for each end-point, 64 KiB by default, for any number of ranks. Its private memory holds a few words for each
//! peer to which it has sent, and the messages that are under way.

mod matching;
mod packets;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use matching::{Arrival, Body, Matching};
use packets::Packets;
use rmalab_atomics::{Collectives, Rank, RemoteAtomics, SymmetricHeap};

/// Any source, for a receive (`MPI_ANY_SOURCE`).
pub const ANY_SOURCE: Option<Rank> = None;

/// Any tag, for a receive (`MPI_ANY_TAG`).
pub const ANY_TAG: Option<Tag> = None;

/// The tag of a message, by which a receive selects among the messages of one sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(pub u32);

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tag {}", self.0)
    }
}

/// The source or destination of packets: a rank, and the number of one of its end-points.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// The rank of the end-point.
    pub rank: Rank,
    /// The number among the rank's end-points, counted from 0.
    pub port: u8,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "end-point {} of {}", self.port, self.rank)
    }
}

/// The kind of a packet: a packet of messages, in this module, or of windows, in [`two_sided`](crate::two_sided).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u8);

impl Kind {
    /// A whole message.
    pub const EAGER: Kind = Kind(240);
    /// The request to send a long message.
    pub const RTS: Kind = Kind(241);
    /// The receiver is ready for a long message.
    pub const CTS: Kind = Kind(242);
    /// A long message.
    pub const DATA: Kind = Kind(243);
    /// The end of an agent's service.
    const STOP: Kind = Kind(244);
}

/// A packet that has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    /// The end-point that sent it.
    pub(crate) from: Endpoint,
    /// Its kind.
    pub(crate) kind: Kind,
    /// The packet's word.
    pub(crate) word: u64,
    /// The packet's data.
    pub(crate) data: Vec<u8>,
}

/// The source, tag and length of a message (`MPI_Status`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Status {
    /// The rank that sent it.
    pub from: Rank,
    /// Its tag.
    pub tag: Tag,
    /// Its length in bytes.
    pub len: usize,
}

/// The sizes of an end-point. All ranks pass the same values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The number of slots of a ring, at least 1.
    pub slots: u32,
    /// Bytes of a slot, a multiple of 64 up to 1,048,576; 24 of them are not data.
    pub slot_bytes: u32,
    /// The longest message, in bytes, that is sent without a request to the receiver.
    pub eager_limit: usize,
}

impl Default for Options {
    /// 16 slots of 4 KiB, so that a ring takes little of a segment; eager messages up to 8 KiB.
    fn default() -> Options {
        Options { slots: 16, slot_bytes: 4096, eager_limit: 8192 }
    }
}

/// The result of an end-point's operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A message is longer than the buffer of its receive (`MPI_ERR_TRUNCATE`). The buffer is unchanged, and the message is lost.
    #[error(
        "recv at {at}: the message of {len} bytes from {from} with {tag} is longer than the buffer of {room} bytes"
    )]
    Truncated {
        /// The receiver.
        at: Rank,
        /// The sender.
        from: Rank,
        /// Its tag.
        tag: Tag,
        /// Its length in bytes.
        len: usize,
        /// The buffer's length in bytes.
        room: usize,
    },
    /// The end-point does not exist.
    #[error("there is no {to}: there are {ranks} ranks")]
    NoSuchEndpoint {
        /// The end-point that was named.
        to: Endpoint,
        /// The number of ranks.
        ranks: u32,
    },
    /// The end-point no longer accepts packets.
    #[error(
        "{to} has left: its rank serves no more requests; all ranks free (Window::free) their windows before they return"
    )]
    Left {
        /// The end-point.
        to: Endpoint,
    },
    /// A packet is impossible: its bytes are damaged, or its sender is broken.
    #[error("{at} has received a damaged packet: {what}")]
    Damaged {
        /// The receiver.
        at: Endpoint,
        /// The fault.
        what: Box<str>,
    },
    /// The options do not allow end-points.
    #[error("{0}")]
    Options(Box<str>),
    /// An operation of the network failed.
    #[error(transparent)]
    Atomics(#[from] rmalab_atomics::Error),
}

/// One end-point, with which one thread of a rank sends and receives.
///
/// All ranks make their end-points at the same point of their sequences of allocations, with the same arguments. An end-point keeps its state
/// in plain cells, so it is not [`Sync`]. It can move to another thread if the rank's handle can be shared.
///
/// Dropping an end-point forgets messages that were not sent yet, so wait for the requests first.
///
/// ```
/// use rmalab_atomics::{Rank, RemoteAtomics, World};
/// use rmalab_windows::messages::{ANY_SOURCE, Messages, Tag};
///
/// let seen = World::threads(3).try_run(|ra| {
///     let messages = Messages::new(ra)?;
///     if ra.rank() != Rank(0) {
///         messages.send(Rank(0), Tag(7), &[ra.rank().0 as u8])?;
///         return Ok(0);
///     }
///     let (first, _) = messages.recv_vec(ANY_SOURCE, Tag(7))?;
///     let (second, _) = messages.recv_vec(ANY_SOURCE, Tag(7))?;
///     Ok::<u8, rmalab_windows::messages::Error>(first[0] + second[0])
/// })?;
/// assert_eq!(seen, [3, 0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Messages<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    eager_limit: usize,
    /// The largest number of packets that one call of `progress` takes from the ring.
    batch: u32,
    state: RefCell<EndpointState>,
}

impl<A: RemoteAtomics + ?Sized> std::fmt::Debug for Messages<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messages").field("endpoint", &self.endpoint()).finish_non_exhaustive()
    }
}

/// One end-point without its handle. Each call takes the handle that numbers the ranks as the packets do.
#[derive(Debug)]
pub(crate) struct EndpointState {
    /// True if the packets belong to windows, not to messages.
    of_windows: bool,
    packets: Packets,
    matching: Matching,
    /// Packets of windows, in the order of their arrival.
    arrived: VecDeque<Packet>,
    /// True if the agent must end.
    stopped: bool,
    /// Sends for which a request exists, with their buffers once they are complete.
    sends: BTreeMap<u64, Option<Vec<u8>>>,
    /// Long messages that wait for their receivers, by the number of their send.
    announced: BTreeMap<u64, Vec<u8>>,
    /// The number of the next send.
    next_send: u64,
}

impl<'a, A: RemoteAtomics + ?Sized> Messages<'a, A> {
    /// Makes one end-point for each rank, with the default [`Options`]. Collective, without communication.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), on all ranks.
    pub fn new(ra: &'a A) -> Result<Self> {
        Messages::with_options(ra, Options::default())
    }

    /// Makes one end-point for each rank. Collective, without communication.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] and [`OutOfMemory`](rmalab_atomics::Error::OutOfMemory), on all ranks alike.
    pub fn with_options(ra: &'a A, options: Options) -> Result<Self> {
        let Options { slots, slot_bytes, eager_limit } = options;
        let refused = |what: String| Err(Error::Options(format!("an end-point for messages: {what}").into()));
        if slots == 0 {
            return refused("a ring needs at least one slot".into());
        }
        if slot_bytes == 0 || slot_bytes % 64 != 0 || u64::from(slot_bytes) > packets::LARGEST_SLOT {
            return refused(format!(
                "a slot has a multiple of 64 bytes, up to {}, and {slot_bytes} were asked for",
                packets::LARGEST_SLOT
            ));
        }
        let layout = packets::Layout::alloc(ra.heap(), 1, &options)?;
        let state = RefCell::new(EndpointState::new(layout, Endpoint { rank: ra.rank(), port: 0 }, false));
        Ok(Messages { ra, eager_limit, batch: slots, state })
    }

    /// Returns the name of this end-point.
    pub fn endpoint(&self) -> Endpoint {
        self.state.borrow().packets.me()
    }

    /// Frees the memory of this end-point's ring. Collective, after all messages have been received.
    ///
    /// # Errors
    ///
    /// The errors of [`Collectives::free`].
    pub fn free(self, collectives: &Collectives<'_, A>) -> Result<()> {
        let state = self.state.into_inner();
        let ring = state.packets.layout().ring(state.packets.me().port);
        Ok(collectives.free(ring)?)
    }

    /// Sends a message, and returns when `data` is no longer needed (`MPI_Send`).
    ///
    /// For messages up to the eager limit, and to itself, a rank waits at most for room in rings. For longer messages it waits for the receive.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEndpoint`] and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn send(&self, to: Rank, tag: Tag, data: &[u8]) -> Result<()> {
        let target = self.peer(to)?;
        if self.is_eager(to, data.len())
            && self.state.borrow_mut().packets.send_now(self.ra, target, Kind::EAGER, tag.0.into(), data)?
        {
            return Ok(());
        }
        self.isend(to, tag, data.to_vec())?.wait().map(drop)
    }

    /// Begins to send a message (`MPI_Isend`). The request returns `data`.
    ///
    /// Dropping the request does not end the send.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEndpoint`] and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn isend(&self, to: Rank, tag: Tag, data: Vec<u8>) -> Result<SendRequest<'_, 'a, A>> {
        let target = self.peer(to)?;
        let mut state = self.state.borrow_mut();
        let number = state.next_send;
        state.next_send += 1;
        state.sends.insert(number, None);
        if self.is_eager(to, data.len()) {
            state.packets.send(self.ra, target, Kind::EAGER, tag.0.into(), data, Some(number))?;
        } else {
            let announcement = [data.len() as u64, number].map(u64::to_ne_bytes).concat();
            state.announced.insert(number, data);
            state.packets.send(self.ra, target, Kind::RTS, tag.0.into(), announcement, None)?;
        }
        state.collect_sent();
        Ok(SendRequest { messages: self, number })
    }

    fn is_eager(&self, to: Rank, len: usize) -> bool {
        len <= self.eager_limit || to == self.ra.rank()
    }

    /// Receives a message into the beginning of `buffer` (`MPI_Recv`).
    ///
    /// `from` and `tag` are a rank and a tag, or [`ANY_SOURCE`] and [`ANY_TAG`].
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`], [`Error::NoSuchEndpoint`] and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn recv(
        &self,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<Tag>>,
        buffer: &mut [u8],
    ) -> Result<Status> {
        let (data, status) = self.recv_vec(from, tag)?;
        let Status { from, tag, len } = status;
        let room = buffer.len();
        let Some(part) = buffer.get_mut(..len) else {
            return Err(Error::Truncated { at: self.ra.rank(), from, tag, len, room });
        };
        part.copy_from_slice(&data);
        Ok(status)
    }

    /// Receives a message of any length.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEndpoint`] and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn recv_vec(&self, from: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Result<(Vec<u8>, Status)> {
        let (from, tag) = (from.into(), tag.into());
        self.check_source(from)?;
        // Arriving messages go to earlier receives first, if they match.
        let Arrival { status, body } = self.wait_for(|state| state.matching.claim(from, tag))?;
        match body {
            Body::Whole(data) => Ok((data, status)),
            Body::Announced { from, send } => {
                let number = {
                    let mut state = self.state.borrow_mut();
                    let number = state.matching.expect(status);
                    state.clear_to_send(self.ra, from, send, number)?;
                    number
                };
                RecvRequest { messages: self, number }.wait()
            }
        }
    }

    /// Begins to receive a message (`MPI_Irecv`). The request returns it.
    ///
    /// Dropping the request discards a message that it has been matched with.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEndpoint`] and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn irecv(&self, from: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Result<RecvRequest<'_, 'a, A>> {
        let from = from.into();
        self.check_source(from)?;
        let mut state = self.state.borrow_mut();
        let (number, clear) = state.matching.post(from, tag.into());
        if let Some((to, send)) = clear {
            state.clear_to_send(self.ra, to, send, number)?;
        }
        Ok(RecvRequest { messages: self, number })
    }

    /// Waits for a message, and returns its source, tag and length without receiving it (`MPI_Probe`).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEndpoint`] and [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn probe(&self, from: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Result<Status> {
        let (from, tag) = (from.into(), tag.into());
        self.check_source(from)?;
        self.wait_for(|state| state.matching.find(from, tag))
    }

    /// Does what [`probe`](Self::probe) does, without waiting (`MPI_Iprobe`).
    ///
    /// # Errors
    ///
    /// The errors of [`probe`](Self::probe), since a program may call this repeatedly until a message arrives.
    pub fn try_probe(&self, from: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Result<Option<Status>> {
        let (from, tag) = (from.into(), tag.into());
        self.check_source(from)?;
        self.look_for(|state| state.matching.find(from, tag))
    }

    /// Serves packets that have arrived, and sends packets that found no room before. Never waits.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed), and [`Error::Damaged`].
    pub fn progress(&self) -> Result<()> {
        self.state.borrow_mut().progress(self.ra, self.batch)
    }

    /// Returns the number of packets of a kind that this end-point has sent.
    ///
    /// A packet counts once, for any number of slots, from the call that sends it on.
    pub fn sent(&self, kind: Kind) -> u64 {
        self.state.borrow().packets.count(kind)
    }

    /// Returns the number of slots that this end-point has filled. A packet needs one slot, and one more for each slot that its data fills.
    pub fn slots_filled(&self) -> u64 {
        self.state.borrow().packets.slots_filled()
    }

    fn check_source(&self, from: Option<Rank>) -> Result<()> {
        from.map_or(Ok(()), |from| self.peer(from).map(drop))
    }

    /// Returns the end-point of `rank`.
    fn peer(&self, rank: Rank) -> Result<Endpoint> {
        let to = Endpoint { rank, port: 0 };
        let ranks = self.ra.size();
        if rank.0 < ranks { Ok(to) } else { Err(Error::NoSuchEndpoint { to, ranks }) }
    }

    /// Makes progress until `ready` returns a value (M3). Only packets change the result of `ready`.
    fn wait_for<T>(&self, mut ready: impl FnMut(&mut EndpointState) -> Option<T>) -> Result<T> {
        let mut ready = || ready(&mut self.state.borrow_mut());
        loop {
            if let Some(found) = ready() {
                return Ok(found);
            }
            self.progress()?;
            if let Some(found) = ready() {
                return Ok(found);
            }
            self.state.borrow_mut().packets.sleep(self.ra, None)?;
        }
    }

    /// Makes progress once if `ready` returns no value at first.
    fn look_for<T>(&self, mut ready: impl FnMut(&mut EndpointState) -> Option<T>) -> Result<Option<T>> {
        let mut ready = || ready(&mut self.state.borrow_mut());
        if let Some(found) = ready() {
            return Ok(Some(found));
        }
        self.progress()?;
        let found = ready();
        if found.is_none() {
            // A polling caller gets the failure of a peer, and lets other threads run.
            self.ra.pause(1)?;
        }
        Ok(found)
    }
}

impl EndpointState {
    /// Makes an end-point with nothing under way.
    fn new(layout: packets::Layout, me: Endpoint, of_windows: bool) -> EndpointState {
        EndpointState {
            of_windows,
            packets: Packets::new(layout, me),
            matching: Matching::default(),
            arrived: VecDeque::new(),
            stopped: false,
            sends: BTreeMap::new(),
            announced: BTreeMap::new(),
            next_send: 0,
        }
    }

    /// Makes end-points of windows, with the default [`Options`], in memory of `heap`. `me` is the rank's number in
    /// packets. Collective.
    pub(crate) fn set(heap: &SymmetricHeap, me: Rank, ports: u8) -> Result<Vec<EndpointState>> {
        let layout = packets::Layout::alloc(heap, ports, &Options::default())?;
        Ok((0..ports).map(|port| EndpointState::new(layout.clone(), Endpoint { rank: me, port }, true)).collect())
    }

    pub(crate) fn me(&self) -> Endpoint {
        self.packets.me()
    }

    pub(crate) fn sent(&self, kind: Kind) -> u64 {
        self.packets.count(kind)
    }

    /// Returns whether every packet is in its target's ring.
    pub(crate) fn all_sent(&self) -> bool {
        self.packets.all_sent()
    }

    /// Returns the next packet of windows that has arrived.
    pub(crate) fn take(&mut self) -> Option<Packet> {
        self.arrived.pop_front()
    }

    /// Returns whether the end-point was stopped since the last call.
    pub(crate) fn take_stop(&mut self) -> bool {
        std::mem::take(&mut self.stopped)
    }

    /// Sends a packet of windows. Data without room follow when the end-point makes progress.
    pub(crate) fn send<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        to: Endpoint,
        kind: Kind,
        word: u64,
        data: Vec<u8>,
    ) -> Result<()> {
        self.packets.send(ra, to, kind, word, data, None)
    }

    /// Sends the packet that ends an agent's service.
    pub(crate) fn stop<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, agent: Endpoint) -> Result<()> {
        self.packets.send(ra, agent, Kind::STOP, 0, Vec::new(), None)
    }

    /// Waits until there may be work, for at most the time `at_most`.
    pub(crate) fn sleep<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, at_most: Option<Duration>) -> Result<()> {
        self.packets.sleep(ra, at_most)
    }

    /// Leaves, unless there are packets to read. Returns whether it has left.
    pub(crate) fn leave<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        self.packets.leave(ra)
    }

    /// Reads up to `batch` packets that have arrived, and sends packets that found no room before.
    pub(crate) fn progress<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, batch: u32) -> Result<()> {
        // The loop is bounded, since packets may arrive as fast as they are served.
        for _ in 0..batch {
            let Some(packet) = self.packets.next(ra)? else { break };
            self.serve(ra, packet)?;
        }
        self.packets.pump(ra)?;
        self.collect_sent();
        Ok(())
    }

    fn serve<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, packet: Packet) -> Result<()> {
        if self.of_windows {
            match packet.kind {
                Kind::STOP => self.stopped = true,
                _ => self.arrived.push_back(packet),
            }
            return Ok(());
        }
        let Packet { from, kind, word, data } = packet;
        match kind {
            Kind::EAGER => {
                let status = Status { from: from.rank, tag: self.tag(from, word)?, len: data.len() };
                self.matching.arrive(Arrival { status, body: Body::Whole(data) });
            }
            Kind::RTS => {
                let [len, send] = self.words(from, kind, &data)?;
                let tag = self.tag(from, word)?;
                let len =
                    usize::try_from(len).map_err(|_| self.damaged(from, kind, &format!("it announces {len} bytes")))?;
                let status = Status { from: from.rank, tag, len };
                let body = Body::Announced { from, send };
                if let Some(receive) = self.matching.arrive(Arrival { status, body }) {
                    self.clear_to_send(ra, from, send, receive)?;
                }
            }
            Kind::CTS => {
                let [receive] = self.words(from, kind, &data)?;
                // A send is cleared once, after its announcement.
                let Some(message) = self.announced.remove(&word) else {
                    return Err(self.damaged(from, kind, &format!("it clears send {word}, which waits for nothing")));
                };
                self.packets.send(ra, from, Kind::DATA, receive, message, Some(word))?;
            }
            Kind::DATA => self.matching.complete(word, data),
            Kind(code) => return Err(self.damaged(from, kind, &format!("there is no kind {code} of messages"))),
        }
        Ok(())
    }

    fn damaged(&self, from: Endpoint, kind: Kind, what: &str) -> Error {
        let what = format!("kind {} from {from}: {what}", kind.0).into();
        Error::Damaged { at: self.me(), what }
    }

    fn tag(&self, from: Endpoint, word: u64) -> Result<Tag> {
        let tag = u32::try_from(word);
        tag.map(Tag).map_err(|_| self.damaged(from, Kind::EAGER, &format!("{word:#x} is not a tag")))
    }

    /// Returns the words of a packet's data.
    fn words<const N: usize>(&self, from: Endpoint, kind: Kind, data: &[u8]) -> Result<[u64; N]> {
        let (words, rest) = data.as_chunks();
        match <[[u8; 8]; N]>::try_from(words) {
            Ok(words) if rest.is_empty() => Ok(words.map(u64::from_ne_bytes)),
            _ => Err(self.damaged(from, kind, &format!("{} bytes in place of {N} words", data.len()))),
        }
    }

    fn clear_to_send<A: RemoteAtomics + ?Sized>(
        &mut self,
        ra: &A,
        to: Endpoint,
        send: u64,
        receive: u64,
    ) -> Result<()> {
        self.packets.send(ra, to, Kind::CTS, send, receive.to_ne_bytes().to_vec(), None)
    }

    /// Moves buffers to the requests that wait for them.
    fn collect_sent(&mut self) {
        for (number, data) in self.packets.take_sent() {
            if let Some(place) = self.sends.get_mut(&number) {
                *place = Some(data);
            }
        }
    }
}

/// A send under way, from [`Messages::isend`].
#[derive(Debug)]
#[must_use = "a send is known to be complete only after a wait"]
pub struct SendRequest<'m, 'a, A: RemoteAtomics + ?Sized> {
    messages: &'m Messages<'a, A>,
    number: u64,
}

impl<A: RemoteAtomics + ?Sized> SendRequest<'_, '_, A> {
    /// Waits until the message no longer needs its buffer, and returns the buffer (`MPI_Wait`).
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn wait(self) -> Result<Vec<u8>> {
        self.messages.wait_for(|state| state.sends.get_mut(&self.number)?.take())
    }

    /// Makes progress, and returns whether a wait would return at once (`MPI_Test`).
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn test(&self) -> Result<bool> {
        let left = |state: &mut EndpointState| matches!(state.sends.get(&self.number), Some(Some(_))).then_some(());
        Ok(self.messages.look_for(left)?.is_some())
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for SendRequest<'_, '_, A> {
    fn drop(&mut self) {
        self.messages.state.borrow_mut().sends.remove(&self.number);
    }
}

/// A receive under way, from [`Messages::irecv`].
#[derive(Debug)]
#[must_use = "a receive that is dropped gives its message up"]
pub struct RecvRequest<'m, 'a, A: RemoteAtomics + ?Sized> {
    messages: &'m Messages<'a, A>,
    number: u64,
}

impl<A: RemoteAtomics + ?Sized> RecvRequest<'_, '_, A> {
    /// Waits for the message (`MPI_Wait`).
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn wait(self) -> Result<(Vec<u8>, Status)> {
        self.messages.wait_for(|state| state.matching.take(self.number))
    }

    /// Makes progress, and returns whether a wait would return at once (`MPI_Test`).
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](rmalab_atomics::Error::PeerFailed).
    pub fn test(&self) -> Result<bool> {
        let there = |state: &mut EndpointState| state.matching.is_complete(self.number).then_some(());
        Ok(self.messages.look_for(there)?.is_some())
    }
}

impl<A: RemoteAtomics + ?Sized> Drop for RecvRequest<'_, '_, A> {
    fn drop(&mut self) {
        self.messages.state.borrow_mut().matching.forget(self.number);
    }
}
