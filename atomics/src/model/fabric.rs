//! The trait that a backend implements: access of one rank to the memory of all ranks, by few methods, none with a default.
//!
//! Users call [`RemoteAtomics`], which every [`Fabric`] has. It checks an address, once for all backends ([`WorldView::word`],
//! [`WorldView::span`]), and makes a [`WordOp`] of an operation. A wrapper that counts, delays or damages operations intercepts one method
//! for all of them, and cannot forget one.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::model::registered::{Pinned, Refused, RegisteredKey, UserMemory};
pub use crate::model::word::{Span, Word, WordOp};
use crate::model::words::LocalWords;
use crate::{
    Address, Capabilities, Disp, Error, Failed, Operation, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time,
    Topology, Until, WORD,
};

/// A rank's view of its world, as data, so that no backend computes it again for each call.
///
/// A clone has the same heap.
#[derive(Clone, Debug)]
pub struct WorldView {
    rank: Rank,
    size: u32,
    /// Bytes of every rank's segment, a multiple of 8.
    segment: u64,
    capabilities: Capabilities,
    topology: Arc<Topology>,
    /// The heap has its own allocation, so that no field here changes through a shared reference. The compiler may then keep the fields in
    /// registers across atomics. A load costs a third of an atomic.
    heap: Arc<SymmetricHeap>,
}

impl WorldView {
    /// Makes the view of `rank` of a world with the ranks of `topology`, each with a segment of `segment` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there is no such rank, or when the segment does not consist of whole words.
    pub fn new(
        rank: Rank,
        segment: u64,
        capabilities: Capabilities,
        topology: impl Into<Arc<Topology>>,
        heap: SymmetricHeap,
    ) -> Result<WorldView> {
        let topology = topology.into();
        let size = topology.size();
        if rank.0 >= size {
            let plural = if size == 1 { "" } else { "s" };
            return Err(Error::world(format!("{rank} does not exist in a world of {size} rank{plural}")));
        }
        if !segment.is_multiple_of(WORD) {
            return Err(Error::world(format!("a segment of {segment} bytes: make it a multiple of {WORD}")));
        }
        Ok(WorldView { rank, size, segment, capabilities, topology, heap: Arc::new(heap) })
    }

    /// Returns a view of the same world and heap, for a backend with other capabilities.
    #[must_use]
    pub fn with_capabilities(self, capabilities: Capabilities) -> WorldView {
        WorldView { capabilities, ..self }
    }

    /// Returns a view of the same world with another heap.
    #[must_use]
    pub fn with_heap(&self, heap: SymmetricHeap) -> WorldView {
        WorldView { heap: Arc::new(heap), ..self.clone() }
    }

    /// Returns this rank.
    #[inline(always)]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the number of ranks of the world.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Bytes of every rank's segment, a multiple of 8.
    #[inline(always)]
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// Returns the capabilities of the backend.
    #[inline(always)]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns the topology, which defines the ranks that share a node.
    #[inline(always)]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the symmetric heap, which allocates the same displacements on every rank.
    #[inline(always)]
    pub fn heap(&self) -> &SymmetricHeap {
        &self.heap
    }

    /// Returns the word at `at`.
    ///
    /// # Errors
    ///
    /// [`RankOutOfRange`](Error::RankOutOfRange), [`OutOfSegment`](Error::OutOfSegment), [`Misaligned`](Error::Misaligned).
    #[inline(always)]
    pub fn word(&self, operation: Operation, at: Address) -> Result<Word> {
        self.find_word(at).ok_or_else(|| self.refusal(operation, at.rank.0, at.disp.0, WORD))
    }

    /// Returns the word at `at`, or `None` if this world has no such word.
    #[inline(always)]
    pub fn find_word(&self, at: Address) -> Option<Word> {
        let word = Word { at };
        self.has_word(word).then_some(word)
    }

    /// Returns the `len` bytes from `at` on.
    ///
    /// # Errors
    ///
    /// [`RankOutOfRange`](Error::RankOutOfRange), [`OutOfSegment`](Error::OutOfSegment).
    #[inline(always)]
    pub fn span(&self, operation: Operation, at: Address, len: u64) -> Result<Span> {
        let end = at.disp.0.checked_add(len);
        match usize::try_from(len) {
            Ok(len) if at.rank.0 < self.size && end.is_some_and(|end| end <= self.segment) => Ok(Span { at, len }),
            _ => Err(self.refusal(operation, at.rank.0, at.disp.0, len)),
        }
    }

    /// Checks that `rank` exists.
    ///
    /// # Errors
    ///
    /// [`RankOutOfRange`](Error::RankOutOfRange).
    #[inline(always)]
    pub fn check_rank(&self, operation: Operation, rank: Rank) -> Result<()> {
        if rank.0 < self.size { Ok(()) } else { Err(self.refusal(operation, rank.0, 0, 0)) }
    }

    /// Returns whether this world has this word.
    ///
    /// A [`Word`] is a plain value, which safe code can pass to another world. A backend that accesses memory by it asserts this. If
    /// [`word`](Self::word) has just made it, the compiler removes the assertion.
    #[inline(always)]
    pub fn has_word(&self, word: Word) -> bool {
        let Address { rank, disp, .. } = word.at;
        // `segment` is a multiple of 8, so an aligned word that starts in it ends in it.
        rank.0 < self.size && disp.0 < self.segment && disp.0.is_multiple_of(WORD)
    }

    /// The function takes numbers, since a call passes an [`Address`] by reference. Every caller would then keep the address in memory, and
    /// read it again after each atomic.
    #[cold]
    #[inline(never)]
    fn refusal(&self, operation: Operation, rank: u32, disp: u64, len: u64) -> Error {
        let at = Rank(rank).at(Disp(disp));
        if at.rank.0 >= self.size {
            Error::RankOutOfRange { operation, rank: at.rank, size: self.size }
        } else if at.disp.0.checked_add(len).is_none_or(|end| end > self.segment) {
            Error::OutOfSegment { operation, at, len, segment: self.segment }
        } else {
            Error::Misaligned { operation, at }
        }
    }
}

/// The action of a bulk transfer on the bytes of its span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// Writes the bytes from this buffer.
    Put(*const u8),
    /// Reads the bytes into this buffer.
    Get(*mut u8),
    /// Zeroes the bytes. The span is in the rank's own segment.
    Clear,
}

/// The point at which the call of a bulk transfer returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Completion {
    /// At once, with a request to finish.
    Request,
    /// When the buffer at this rank may be used again.
    Local,
    /// When the transfer is complete at its target.
    Target,
}

/// The reason and length of a delay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Delay {
    /// A pause between two polls, for about the time of this many uncontended word operations.
    Operations(u32),
    /// Computation, in place of the program's computation.
    Compute(Duration),
}

/// Access of one rank to the memory of all ranks: the trait that a backend implements.
///
/// [`RemoteAtomics`] defines the meaning of each operation, and its memory model holds here, too. Once a rank of the world has failed and
/// this rank has not [acknowledged](RemoteAtomics::acknowledge) that failure, operations that could wait forever return
/// [`PeerFailed`](Error::PeerFailed).
///
/// A caller passes only a [`Word`] or [`Span`] that this fabric's [`view`](Self::view) has made.
pub trait Fabric {
    /// Returns the rank's view of its world.
    fn view(&self) -> &WorldView;

    /// Executes an operation on a word, and returns its result.
    ///
    /// # Panics
    ///
    /// When the word belongs to another world.
    fn word(&self, at: Word, op: WordOp) -> Result<u64>;

    /// Starts an operation on a word. When it is complete, its result is at `result`. See [`RemoteAtomics::start`].
    ///
    /// # Safety
    ///
    /// `result` is valid for writes, and nothing else accesses it, until the request is finished, [`done`](Self::done), or
    /// its target [complete](Self::complete).
    ///
    /// # Panics
    ///
    /// When the word belongs to another world.
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request>;

    /// Moves bytes between a buffer of this rank and the memory of `at`.
    ///
    /// After an error no part of it is under way. Only [`Completion::Request`] returns a request to finish.
    ///
    /// # Safety
    ///
    /// `at` belongs to this fabric's world. The buffer is valid for the span's length, for reads (put) or writes (get).
    /// Nothing else writes it (put) or accesses it (get) until the call has returned. With [`Completion::Request`],
    /// that holds until the request is finished, [`done`](Self::done), or its target [complete](Self::complete).
    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request>;

    /// Returns whether the transfer's buffer may be used again.
    fn done(&self, request: &Request) -> Result<bool>;

    /// Waits until the transfer's buffer may be used again.
    fn finish(&self, request: Request) -> Result<()>;

    /// Waits until all operations of this rank to `target`, or to all ranks, are complete at both ends.
    ///
    /// After an error, operations under way are abandoned, and no longer touch a buffer of this rank.
    fn complete(&self, target: Option<Rank>) -> Result<()>;

    /// Orders the word puts to `target` ahead of later puts and atomics of words. A fabric without a cheaper way completes
    /// them.
    #[inline]
    fn keep_order(&self, target: Rank) -> Result<()> {
        self.complete(Some(target))
    }

    /// Waits until a word of this rank's segment meets `until`, and returns it; `None` at the deadline.
    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>>;

    /// Lets time pass.
    fn delay(&self, delay: Delay) -> Result<()>;

    /// Returns the time now, by the clock of deadlines.
    fn clock(&self) -> Time;

    /// Returns the optional parts of this fabric.
    fn extras(&self) -> Extras<'_>;
}

/// A reference to a fabric is the same fabric. In this way code for any `F: ?Sized` gets a `&dyn` of it.
impl<F: Fabric + ?Sized> Fabric for &F {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        (**self).view()
    }

    #[inline(always)]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        (**self).word(at, op)
    }

    #[inline]
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { (**self).start_word(at, op, result) }
    }

    #[inline]
    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { (**self).transfer(at, bytes, until) }
    }

    #[inline]
    fn done(&self, request: &Request) -> Result<bool> {
        (**self).done(request)
    }

    #[inline]
    fn finish(&self, request: Request) -> Result<()> {
        (**self).finish(request)
    }

    #[inline]
    fn complete(&self, target: Option<Rank>) -> Result<()> {
        (**self).complete(target)
    }

    #[inline]
    fn keep_order(&self, target: Rank) -> Result<()> {
        (**self).keep_order(target)
    }

    #[inline]
    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        (**self).wait_on(own, until, deadline)
    }

    #[inline]
    fn delay(&self, delay: Delay) -> Result<()> {
        (**self).delay(delay)
    }

    #[inline]
    fn clock(&self) -> Time {
        (**self).clock()
    }

    #[inline]
    fn extras(&self) -> Extras<'_> {
        (**self).extras()
    }
}

/// The request of an operation that was complete before its call returned.
pub(crate) const DONE: Request = Request(0);

/// The system's monotonic clock: [`Fabric::clock`] of the backends on real machines.
#[inline]
pub(crate) fn monotonic() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Keeps the processor busy for `time`: [`Delay::Compute`] of the backends on real machines.
pub(crate) fn keep_busy(fabric: &impl Fabric, time: Duration) {
    let end = fabric.clock().after(time);
    while fabric.clock() < end {
        std::hint::spin_loop();
    }
}

/// The optional parts of a fabric.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Extras<'a> {
    /// This rank's handle for several threads.
    pub shared: Option<&'a (dyn RemoteAtomics + Sync)>,
    /// Words that the rank's processor reaches by loads and stores.
    pub memory: Option<&'a dyn LocalMemory>,
    /// A fence of one rank for all ranks.
    pub fence: Option<&'a dyn AsymmetricFence>,
    /// Registration of the program's memory.
    pub registration: Option<&'a dyn Registration>,
    /// Tracks the ranks that have left.
    pub leaving: Option<&'a dyn Leaving>,
    /// Lets this rank go on after the failure of another rank.
    pub failures: Option<&'a dyn Failures>,
    /// The world around this world; `None` if this world is the whole world.
    pub outer: Option<&'a dyn OuterWorld>,
}

impl std::fmt::Debug for Extras<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extras")
            .field("shared", &self.shared.is_some())
            .field("memory", &self.memory.is_some())
            .field("fence", &self.fence.is_some())
            .field("registration", &self.registration.is_some())
            .field("leaving", &self.leaving.is_some())
            .field("failures", &self.failures.is_some())
            .field("outer", &self.outer.is_some())
            .finish()
    }
}

/// Words that a rank's processor reaches by loads and stores.
pub trait LocalMemory {
    /// See [`RemoteAtomics::shared_words`].
    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]>;

    /// See [`RemoteAtomics::direct_words`].
    fn direct_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]>;

    /// See [`RemoteAtomics::own_words`].
    fn own_words(&self, at: Disp, words: u64) -> Option<&[AtomicU64]>;

    /// See [`RemoteAtomics::local_words`].
    fn local_words(&self, at: Address, words: u64) -> Option<LocalWords<'_>>;

    /// See [`RemoteAtomics::stored`].
    fn stored(&self);
}

/// A fence with a cheap side for frequent use, and an expensive side for rare use.
pub trait AsymmetricFence {
    /// See [`RemoteAtomics::fence_light`].
    fn fence_light(&self);

    /// See [`RemoteAtomics::fence_everywhere`].
    fn fence_everywhere(&self) -> Result<bool>;
}

/// Registration of the program's memory.
pub trait Registration {
    /// See [`RemoteAtomics::register`].
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused>;

    /// See [`RemoteAtomics::deregister`].
    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory>;

    /// See [`RemoteAtomics::pin`].
    fn pin(&self, rank: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>>;
}

/// Tracks the ranks that have left, and how this rank leaves.
pub trait Leaving {
    /// Waits like [`Fabric::wait_on`] without a deadline, see [`RemoteAtomics::wait_until_from`]. `writer` exists.
    ///
    /// # Errors
    ///
    /// [`PeerLeft`](Error::PeerLeft), and the errors of [`Fabric::wait_on`].
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64>;

    /// See [`RemoteAtomics::forsake`].
    fn forsake(&self, what: &'static str);

    /// See [`RemoteAtomics::forsaken`].
    fn forsaken(&self) -> Option<&'static str>;
}

/// Lets a rank go on after the failure of another rank. Only a backend that can outlive a rank has it.
pub trait Failures {
    /// See [`RemoteAtomics::failed`].
    fn failed(&self) -> Result<Failed>;

    /// See [`RemoteAtomics::acknowledge`].
    fn acknowledge(&self, failed: &Failed) -> Result<()>;

    /// See [`RemoteAtomics::silence`].
    fn silence(&self, failed: &Failed) -> Result<()>;

    /// See [`RemoteAtomics::expel`]. `rank` is another rank of the world.
    fn expel(&self, rank: Rank) -> Result<()>;

    /// Returns the generation of this rank's world: 0, and one more after each [`shrink`](crate::Survivors::shrink).
    fn generation(&self) -> u32;

    /// Puts this rank into a world of this generation. Revocations of earlier generations then no longer end its waits.
    fn enter(&self, generation: u32);

    /// Ends the waits and pauses of every live rank whose generation is not above this one, now and later, with
    /// [`Revoked`](Error::Revoked). See [`Survivors::revoke`](crate::Survivors::revoke).
    fn revoke(&self, generation: u32) -> Result<()>;
}

/// The world around a handle that is over another handle.
pub trait OuterWorld {
    /// See [`RemoteAtomics::world_rank`].
    fn number_of(&self, rank: Rank) -> Rank;

    /// Returns this rank's handle of the whole world.
    fn handle(&self) -> &dyn RemoteAtomics;
}
