//! The trait: one rank's view of the memory of all ranks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use crate::model::fabric::{Bytes, Completion, Delay, Extras, Fabric, Failures, WordOp};
use crate::model::registered::{Pinned, Refused, RegisteredKey, UserMemory};
use crate::model::words::LocalWords;
use crate::{Address, Disp, Error, Failed, Operation, Rank, Result, SymmetricHeap, Topology};

/// The size of a word in bytes: every atomic operation is on one 8-byte-aligned word of 8 bytes.
pub const WORD: u64 = 8;

/// The condition of a [`wait_until`](RemoteAtomics::wait_until): a comparison with the word's value.
///
/// It is a value and not a closure, so that a model checker can evaluate, store and print it. It has the comparisons of OpenSHMEM's
/// `shmem_wait_until` (section 9.10), and two on bit masks. All comparisons are unsigned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Until {
    /// The word equals the value.
    Eq(u64),
    /// The word differs from the value.
    Ne(u64),
    /// The word is less than the value.
    Lt(u64),
    /// The word is greater than the value, or equals it.
    Ge(u64),
    /// At least one bit of the mask is set in the word.
    AnySet(u64),
    /// No bit of the mask is set in the word.
    NoneSet(u64),
}

impl Until {
    /// Returns whether `word` meets the condition.
    #[inline(always)]
    pub const fn holds(self, word: u64) -> bool {
        match self {
            Until::Eq(value) => word == value,
            Until::Ne(value) => word != value,
            Until::Lt(value) => word < value,
            Until::Ge(value) => word >= value,
            Until::AnySet(mask) => word & mask != 0,
            Until::NoneSet(mask) => word & mask == 0,
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Until::Eq(value) => write!(f, "= {value:#x}"),
            Until::Ne(value) => write!(f, "≠ {value:#x}"),
            Until::Lt(value) => write!(f, "< {value:#x}"),
            Until::Ge(value) => write!(f, "≥ {value:#x}"),
            Until::AnySet(mask) => write!(f, "& {mask:#x} ≠ 0"),
            Until::NoneSet(mask) => write!(f, "& {mask:#x} = 0"),
        }
    }
}

/// A point in time on the backend's clock, in nanoseconds: real time, or virtual time on a simulator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(pub u64);

impl Time {
    /// Returns the point in time `duration` later, or the last one if that overflows.
    pub fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time from `earlier` until this point; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The operations with which network atomics are atomic (`atomic_cap` of the verbs API).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atomicity {
    /// With all atomics: the network's, and the processor's on the same word.
    Global,
    /// Only with atomics of the same network adapter, so the owner has to use the adapter, too.
    Hca,
}

/// The capabilities of a backend: its native and its emulated operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's name, as `--backend` takes it.
    pub backend: &'static str,
    /// The operations with which its atomics are atomic.
    pub atomicity: Atomicity,
    /// True if `fetch_store` is one network operation. Otherwise it is a loop of compare-and-swaps.
    pub native_fetch_store: bool,
    /// True if a posted word put may become visible after its call has returned.
    pub late_puts: bool,
    /// True if puts of a rank to one target, including bulk puts, take effect in the order of their calls. A rank that sees a word put
    /// then finds the bytes of earlier bulk puts. The words of one bulk put have no order. Atomics, gets and started operations still wait
    /// for no put.
    pub ordered_puts: bool,
    /// True if word puts are atomic with atomics on the same word. If not, an atomic of another rank that changes the word at the same time
    /// may lose the put: see the memory model. On Soft-RoCE of Linux 6.1 a `compare_and_swap` that fails may lose a put, too, which the
    /// memory model excludes.
    pub atomic_puts: bool,
    /// True if operations complete while their target makes no call.
    pub passive_progress: bool,
    /// True if a rank can fence for all other ranks: [`RemoteAtomics::fence_everywhere`].
    pub asymmetric_fence: bool,
    /// True if the memory of a rank that has failed stays readable and writable. If not, operations on it fail.
    pub lasting_memory: bool,
    /// True if there were more ranks than processors when the world began, so that a waiting rank keeps others from running. All ranks
    /// have the same value. Without shared memory it is false.
    pub shares_processors: bool,
}

impl Capabilities {
    /// Returns the capabilities of processors that share coherent memory: all operations are native, and none is late.
    pub const fn coherent(backend: &'static str) -> Capabilities {
        Capabilities {
            backend,
            atomicity: Atomicity::Global,
            native_fetch_store: true,
            late_puts: false,
            ordered_puts: false,
            atomic_puts: true,
            passive_progress: true,
            asymmetric_fence: false,
            lasting_memory: true,
            shares_processors: false,
        }
    }
}

/// An operation under way, from [`RemoteAtomics::start`], [`RemoteAtomics::put_bytes_nb`] or [`RemoteAtomics::get_bytes_nb`].
///
/// The number has a meaning only for the backend that returned it, except 0: that operation was complete at once.
#[derive(PartialEq, Eq, Hash, Debug)]
#[must_use = "an operation is complete only after a wait, a successful test, or a flush"]
pub struct Request(pub u64);

/// Access to the handle of the whole world from any handle of a rank.
///
/// Every sized [`Fabric`] has it. It is a separate trait so that unsized fabrics have it, too.
pub trait WholeWorld {
    /// Returns this rank's handle of the whole world, which numbers ranks like [`RemoteAtomics::world_rank`].
    fn whole_world(&self) -> &dyn RemoteAtomics;
}

impl<F: Fabric> WholeWorld for F {
    fn whole_world(&self) -> &dyn RemoteAtomics {
        self.outer_world().unwrap_or(self)
    }
}

/// One rank's handle of the world: its identity, and blocking operations on the memory of every rank.
///
/// Every [`Fabric`] has this trait. Addresses are checked here, and nowhere else.
///
/// Every call is one network operation, and one scheduling point of a simulator or model checker.
///
/// # Memory model
///
/// A *word* is 64 bits at a displacement that is a multiple of 8 bytes. Word operations are atomic with every other word operation
/// through this trait by any rank, including the owner. There is one exception, for puts that meet atomics:
///
/// * Without [`Capabilities::atomic_puts`], an atomic is a read and a write, and a `put` of another rank may come between them. The write
///   then overwrites the put. This concerns `fetch_add`, `fetch_store` and a `compare_and_swap` that stores. A `compare_and_swap` that
///   fails writes nothing, so it loses no put.
/// * So a put to a word is safe if no other rank changes the word by atomics at the same time. That is so if the word has one writer
///   at a time, or if other ranks only compare it with a value that it does not have. Otherwise write it by `fetch_store`.
///
/// When each operation takes effect:
///
/// * `fetch_add`, `compare_and_swap`, `fetch_store` and `get` are *complete* at the target when they return, and
///   sequentially consistent among themselves.
/// * `put` is *posted*. It is *ordered* after the earlier word operations of this rank to the same target (release). It becomes visible
///   some time later, and is *complete* at the next [`flush`](Self::flush) of that target. A protocol that needs it visible before its next
///   step flushes, or uses `fetch_store`. If that step is a put or an atomic, to any rank, [`order`](Self::order) is enough.
/// * A rank's own segment is a target like any other. A rank that posts a put to its own word flushes itself before it relies on the value,
///   or notifies a rank that does.
/// * Bulk operations are atomic only for each aligned word, and complete at flush. They have no order among themselves or with the word
///   operations of the same rank, not even with a later put to the same target. Some backends keep them in order
///   ([`Capabilities::ordered_puts`]). A bulk get reads after the operations of this rank that were complete when it started.
/// * A [started](Self::start) operation takes effect atomically, at one moment between its start and its completion. It is ordered neither
///   with other started operations nor with later operations of the same rank. It is complete at the target, and its result has arrived,
///   once the rank has waited for it or flushed its target.
/// * A successful [`wait_until`](Self::wait_until) acquires the writes that the operation which made its condition true
///   released.
///
/// # Rest
///
/// New memory is zero, and so is memory that the symmetric heap allocates again. Objects in it (locks, collectives) are all zero at rest. So
/// making one needs no communication, and any rank may use it at once.
///
/// # Errors
///
/// For an address that does not exist, every word and bulk operation does nothing, and returns
/// [`RankOutOfRange`](crate::Error::RankOutOfRange), [`Misaligned`](crate::Error::Misaligned) or
/// [`OutOfSegment`](crate::Error::OutOfSegment). Operations that could wait forever return [`PeerFailed`](crate::Error::PeerFailed) once
/// any rank of the world has failed.
///
/// # Failures of ranks
///
/// A rank *fails* when its process is killed or ends with an error, when its thread panics, or when it leaves something
/// [undone](Self::forsake). It does so between two calls, and makes no call afterwards. Of the puts that it has posted to one target, the
/// first ones arrive and the others do not; which ones is unknown, and they may arrive late. Puts that it has [ordered](Self::order) do
/// arrive. Of its bulk puts, any words may arrive.
///
/// A program that calls none of the following ends with the failure, since each of its waits does. A program can also
/// go on:
///
/// 1. [`failed`](Self::failed) returns the ranks that are known here to have failed.
/// 2. [`acknowledge`](Self::acknowledge) makes this rank's waits go on. They end again when another rank fails.
/// 3. [`silence`](Self::silence) returns when no operation of these ranks can still take effect, at any rank.
///
/// With [`Capabilities::lasting_memory`], the memory of a rank that has failed stays readable and writable. Elsewhere every operation on
/// it returns [`PeerFailed`](crate::Error::PeerFailed), also once the failure is acknowledged. What this rank had under way there is given up:
/// a [`flush_all`](Self::flush_all) returns that error until then. Operations on live ranks go on, and nothing of them is lost. A backend that
/// cannot go on after a failure returns [`Unsupported`](crate::Error::Unsupported) from all three.
pub trait RemoteAtomics: Fabric + WholeWorld {
    /// Returns this rank.
    #[inline(always)]
    fn rank(&self) -> Rank {
        self.view().rank()
    }

    /// Returns the number of ranks of the world.
    #[inline(always)]
    fn size(&self) -> u32 {
        self.view().size()
    }

    /// Returns the topology, which defines the ranks that share a node.
    #[inline(always)]
    fn topology(&self) -> &Topology {
        self.view().topology()
    }

    /// Returns the capabilities of the backend.
    #[inline(always)]
    fn capabilities(&self) -> Capabilities {
        self.view().capabilities()
    }

    /// Returns the symmetric heap, which allocates the same displacements on every rank.
    #[inline(always)]
    fn heap(&self) -> &SymmetricHeap {
        self.view().heap()
    }

    /// Adds `value` and returns the old word. The addition is modulo 2^64, so adding `wrapping_neg` subtracts.
    #[inline(always)]
    fn fetch_add(&self, at: Address, value: u64) -> Result<u64> {
        self.word(self.view().word(Operation::FetchAdd, at)?, WordOp::FetchAdd(value))
    }

    /// Stores `desired` if the word is `expected`. Returns the old word, which is `expected` if it stored.
    #[inline(always)]
    fn compare_and_swap(&self, at: Address, expected: u64, desired: u64) -> Result<u64> {
        let word = self.view().word(Operation::CompareAndSwap, at)?;
        self.word(word, WordOp::CompareAndSwap { expected, desired })
    }

    /// Stores `value` and returns the old word.
    #[inline(always)]
    fn fetch_store(&self, at: Address, value: u64) -> Result<u64> {
        self.word(self.view().word(Operation::FetchStore, at)?, WordOp::FetchStore(value))
    }

    /// Reads a word.
    #[inline(always)]
    fn get(&self, at: Address) -> Result<u64> {
        self.word(self.view().word(Operation::Get, at)?, WordOp::Get)
    }

    /// Writes a word. The put is posted; see the memory model.
    #[inline(always)]
    fn put(&self, at: Address, value: u64) -> Result<()> {
        self.word(self.view().word(Operation::Put, at)?, WordOp::Put(value))?;
        Ok(())
    }

    /// Starts an operation on a word. When it is complete, `result` has the value that the blocking form returns.
    ///
    /// A network executes many such operations at a time, while each blocking operation takes a round trip. A backend without such
    /// latency executes the operation at once. After an error nothing is under way.
    ///
    /// # Safety
    ///
    /// `result` is valid for writes, and nothing else accesses it, until the request is finished by a wait or a successful
    /// test, or the target is flushed. [`bulk::scope`](crate::over::bulk::scope) is the safe form.
    ///
    /// # Errors
    ///
    /// The errors of the blocking form.
    #[inline(always)]
    unsafe fn start(&self, at: Address, op: WordOp, result: *mut u64) -> Result<Request> {
        let word = self.view().word(op.operation(), at)?;
        // SAFETY: the caller's promise.
        unsafe { self.start_word(word, op, result) }
    }

    /// Starts to write `len` bytes at `at`, from `source`.
    ///
    /// # Errors
    ///
    /// After an error nothing is under way with this buffer any longer: no part of the operation reads it later. Parts
    /// of it may have been executed at the target, and others may still be.
    ///
    /// # Safety
    ///
    /// `source` is valid for reads of `len` bytes, and nothing writes them, until the call has failed, the request is finished
    /// by a wait or a successful test, or the target is flushed. [`bulk::scope`](crate::over::bulk::scope) is the safe form.
    #[inline(always)]
    unsafe fn put_bytes_nb(&self, at: Address, source: *const u8, len: usize) -> Result<Request> {
        let span = self.view().span(Operation::PutBytes, at, len as u64)?;
        // SAFETY: the caller's promise; the span was just checked.
        unsafe { self.transfer(span, Bytes::Put(source), Completion::Request) }
    }

    /// Starts to read `len` bytes at `at`, into `dest`.
    ///
    /// # Errors
    ///
    /// After an error nothing is under way with this buffer any longer: no part of the operation writes it later. Parts
    /// of it may have been written before.
    ///
    /// # Safety
    ///
    /// `dest` is valid for writes of `len` bytes, and nothing else reads or writes them, until the call has failed, the request
    /// is finished by a wait or a successful test, or the target is flushed. [`bulk::scope`](crate::over::bulk::scope) is the
    /// safe form.
    #[inline(always)]
    unsafe fn get_bytes_nb(&self, at: Address, dest: *mut u8, len: usize) -> Result<Request> {
        let span = self.view().span(Operation::GetBytes, at, len as u64)?;
        // SAFETY: the caller's promise; the span was just checked.
        unsafe { self.transfer(span, Bytes::Get(dest), Completion::Request) }
    }

    /// Returns whether the operation is complete at this rank, so that its buffer may be used again.
    #[inline(always)]
    fn test(&self, request: &Request) -> Result<bool> {
        self.done(request)
    }

    /// Waits until the operation is complete at this rank.
    #[inline(always)]
    fn wait(&self, request: Request) -> Result<()> {
        self.finish(request)
    }

    /// Waits until all operations of this rank to `target` are complete, at both ends.
    ///
    /// If it fails, operations under way are abandoned: they may or may not happen at the target, and no longer touch a buffer of this rank.
    /// The same holds for [`wait`](Self::wait) and [`flush_all`](Self::flush_all).
    #[inline(always)]
    fn flush(&self, target: Rank) -> Result<()> {
        self.view().check_rank(Operation::Flush, target)?;
        self.complete(Some(target))
    }

    /// Orders the word puts of this rank to `target` ahead of its later puts and atomics of words, to any rank. A rank that finds the effect
    /// of a later operation also finds these puts.
    ///
    /// They take effect even if this rank fails. A later get of this rank may still come ahead of them, which a [`flush`](Self::flush)
    /// excludes. On coherent memory, where a flush is a fence, this costs nothing. Elsewhere it is a flush.
    ///
    /// # Errors
    ///
    /// The errors of [`flush`](Self::flush).
    #[inline(always)]
    fn order(&self, target: Rank) -> Result<()> {
        self.view().check_rank(Operation::Order, target)?;
        self.keep_order(target)
    }

    /// Waits until all operations of this rank are complete.
    #[inline(always)]
    fn flush_all(&self) -> Result<()> {
        self.complete(None)
    }

    /// Waits until a word of this rank's segment meets `until`, and returns the word.
    ///
    /// After the first millisecond it uses almost no processor time.
    #[inline(always)]
    fn wait_until(&self, own: Disp, until: Until) -> Result<u64> {
        let view = self.view();
        let word = view.word(Operation::WaitUntil, view.rank().at(own))?;
        let value = self.wait_on(word, until, None)?;
        Ok(value.expect("a wait without a deadline ends with a value or an error"))
    }

    /// Waits like [`wait_until`](Self::wait_until), but gives up at `deadline` and returns `None`.
    #[inline(always)]
    fn wait_until_deadline(&self, own: Disp, until: Until, deadline: Time) -> Result<Option<u64>> {
        let view = self.view();
        let word = view.word(Operation::WaitUntil, view.rank().at(own))?;
        self.wait_on(word, until, Some(deadline))
    }

    /// Waits like [`wait_until`](Self::wait_until), for a word that only `writer` still has to write.
    ///
    /// A backend that does not know which ranks have left may wait forever.
    ///
    /// # Errors
    ///
    /// [`PeerLeft`](crate::Error::PeerLeft) when `writer` has left in good order without writing the awaited value.
    #[inline]
    fn wait_until_from(&self, own: Disp, until: Until, writer: Rank) -> Result<u64> {
        let Some(leaving) = self.extras().leaving else { return self.wait_until(own, until) };
        let view = self.view();
        view.check_rank(Operation::WaitUntil, writer)?;
        leaving.wait_on_writer(view.word(Operation::WaitUntil, view.rank().at(own))?, until, writer)
    }

    /// Records that this rank leaves something undone for which other ranks may wait, such as an epoch that it forgot to close. `what`
    /// describes it. When the rank leaves the world, it counts as failed.
    fn forsake(&self, what: &'static str) {
        if let Some(leaving) = self.extras().leaving {
            leaving.forsake(what);
        }
    }

    /// Returns the obligation that this rank has [left undone](Self::forsake), if there is one.
    fn forsaken(&self) -> Option<&'static str> {
        self.extras().leaving?.forsaken()
    }

    /// Returns the ranks that are known here to have failed, except this rank itself. A rank that is known stays known.
    ///
    /// While no rank has failed, this is one load. It does not check the other processes itself. On one host, waits and pauses do that, twice
    /// a second. Over a network, the hub where the ranks have met reports a failure to all of them.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::Error::Unsupported) on a backend that ends with its first failure. A program that has to survive a failure
    /// calls this at its start.
    #[inline]
    fn failed(&self) -> Result<Failed> {
        survival(self.extras())?.failed()
    }

    /// Makes this rank's waits and pauses go on after these failures. Other failures still end them, with the first failed rank that
    /// this rank has not acknowledged.
    ///
    /// # Errors
    ///
    /// [`NotFailed`](crate::Error::NotFailed) for a rank that is not known here to have failed. The call then acknowledges
    /// none. [`Unsupported`](crate::Error::Unsupported). Over `verbs`, the failure of the process that hosts the hub cannot be acknowledged:
    /// [`PeerFailed`](crate::Error::PeerFailed) if that is a rank, and [`Error::World`] if it is the launcher.
    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        survival(self.extras())?.acknowledge(failed)
    }

    /// Waits until every live rank knows of these failures, and no operation of these ranks can still take effect, at any rank.
    ///
    /// A repair calls this before it changes a word to which a failed rank may have posted a put.
    ///
    /// # Errors
    ///
    /// [`NotFailed`](crate::Error::NotFailed) for a rank that is not known here to have failed. [`Unsupported`](crate::Error::Unsupported).
    /// Over `verbs`, the error of [`acknowledge`](Self::acknowledge) without the hub.
    fn silence(&self, failed: &Failed) -> Result<()> {
        survival(self.extras())?.silence(failed)
    }

    /// Makes a rank that may still live count as failed, for one that holds a lock for too long. When the call returns, the failure is known
    /// here. After a [`silence`](Self::silence), no operation of that rank takes effect any more.
    ///
    /// On one host, the rank's process is killed. Over `verbs`, its connection to the hub is ended, and its calls return
    /// [`Expelled`](crate::Error::Expelled). It may still copy bytes to ranks of its own host, unless `RMALAB_NODE_SHARED` is 0.
    ///
    /// # Errors
    ///
    /// [`Error::World`] for this rank itself or a rank that does not exist. [`PeerLeft`](crate::Error::PeerLeft) for a rank that has left in
    /// good order. [`Unsupported`](crate::Error::Unsupported) for ranks that are threads, and under an engine.
    fn expel(&self, rank: Rank) -> Result<()> {
        let survival = survival(self.extras())?;
        if rank == self.rank() || rank.0 >= self.size() {
            return Err(Error::world(format!("{} cannot expel {rank}, only another rank of its world", self.rank())));
        }
        survival.expel(rank)
    }

    /// Pauses between two polls of a remote word, for about the time of `operations` uncontended operations on it.
    ///
    /// Long pauses yield the processor.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed), since a poll could go on forever.
    #[inline(always)]
    fn pause(&self, operations: u32) -> Result<()> {
        self.delay(Delay::Operations(operations))
    }

    /// Returns the time now, by the clock of deadlines.
    #[inline(always)]
    fn now(&self) -> Time {
        self.clock()
    }

    /// Computes for `time`, in place of a program's computation between its communication, for experiments.
    ///
    /// On real backends the processor is busy for this time. On a simulator virtual time passes.
    ///
    /// # Errors
    ///
    /// None on real backends; [`PeerFailed`](crate::Error::PeerFailed) where an engine runs the ranks.
    fn compute(&self, time: Duration) -> Result<()> {
        self.delay(Delay::Compute(time))
    }

    /// Returns this handle as a handle that threads of the rank can share, if the backend has one.
    #[inline(always)]
    fn shared(&self) -> Option<&(dyn RemoteAtomics + Sync)> {
        self.extras().shared
    }

    /// Returns the number of this handle's rank `rank` in the whole world. In a [`Subset`](crate::Subset) the two numbers
    /// differ.
    #[inline(always)]
    fn world_rank(&self, rank: Rank) -> Rank {
        self.extras().outer.map_or(rank, |outer| outer.number_of(rank))
    }

    /// Returns the handle of the whole world, if this handle is over another handle. Returns `None` if this handle is the
    /// whole world's.
    ///
    /// Callers use [`whole_world`](WholeWorld::whole_world).
    fn outer_world(&self) -> Option<&dyn RemoteAtomics> {
        self.extras().outer.map(|outer| outer.handle())
    }

    /// Returns the `words` words at `at`, if they exist and this rank's processor reaches them by loads and stores.
    ///
    /// Operations on them are as atomic as the trait's operations, but do not wake a rank that waits on the word.
    #[inline(always)]
    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.extras().memory?.shared_words(at, words)
    }

    /// Returns words like [`shared_words`](Self::shared_words), which this rank may use directly from now on. Also returns `None` if
    /// operations have to use this handle, for instance a handle that counts.
    ///
    /// A store to them is a put. A flush completes it if [`stored`](Self::stored) is called after the store.
    #[inline(always)]
    fn direct_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.extras().memory?.direct_words(at, words)
    }

    /// Returns words like [`direct_words`](Self::direct_words), of this rank's own memory. It takes half as many instructions.
    #[inline(always)]
    fn own_words(&self, at: Disp, words: u64) -> Option<&[AtomicU64]> {
        self.extras().memory?.own_words(at, words)
    }

    /// Returns words like [`direct_words`](Self::direct_words), as an object that an engine can implement: see [`words`](crate::model::words).
    #[inline(always)]
    fn local_words(&self, at: Address, words: u64) -> Option<LocalWords<'_>> {
        self.extras().memory?.local_words(at, words)
    }

    /// Records that this rank has stored to words of [`direct_words`](Self::direct_words) or [`local_words`](Self::local_words).
    #[inline(always)]
    fn stored(&self) {
        if let Some(memory) = self.extras().memory {
            memory.stored();
        }
    }

    /// The cheap side of an asymmetric fence, between a word put of this rank and its next operation.
    ///
    /// The fence works with [`Capabilities::asymmetric_fence`]. One rank puts to word A, calls this, and gets word B. Another rank puts to B,
    /// flushes, calls [`fence_everywhere`](Self::fence_everywhere), and gets A. Then at least one of them sees the other's put. The put may
    /// also be a store through [`shared_words`](Self::shared_words).
    #[inline(always)]
    fn fence_light(&self) {
        match self.extras().fence {
            Some(asymmetric) => asymmetric.fence_light(),
            None => fence(Ordering::SeqCst),
        }
    }

    /// The expensive side of an asymmetric fence, for the cheap sides of all other ranks. Returns whether there is one and it worked.
    ///
    /// # Errors
    ///
    /// The errors of the network.
    fn fence_everywhere(&self) -> Result<bool> {
        self.extras().fence.map_or(Ok(false), |asymmetric| asymmetric.fence_everywhere())
    }

    /// Zeroes `len` bytes of this rank's segment. It is complete when the call returns.
    ///
    /// # Errors
    ///
    /// [`OutOfSegment`](Error::OutOfSegment).
    fn clear(&self, own: Disp, len: u64) -> Result<()> {
        let view = self.view();
        let span = view.span(Operation::PutBytes, view.rank().at(own), len)?;
        // SAFETY: the span was just checked, and a clear has no buffer.
        unsafe { self.transfer(span, Bytes::Clear, Completion::Target) }.map(drop)
    }

    /// Registers memory of the program, so that other ranks can access it until it is [deregistered](Self::deregister).
    ///
    /// # Errors
    ///
    /// The memory, with [`Unsupported`](Error::Unsupported) and the reason when the backend, the kernel or a container forbids it.
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        match self.extras().registration {
            Some(registration) => registration.register(memory),
            None => Err(Refused::unsupported(memory)),
        }
    }

    /// Deregisters memory of this rank, and returns it.
    ///
    /// From now on no rank gets a new pin of it. The call returns when the last pin has ended.
    ///
    /// # Errors
    ///
    /// [`NotRegistered`](Error::NotRegistered), and [`PeerFailed`](Error::PeerFailed) when a rank has failed and another
    /// rank keeps its pin. The memory is leaked then, since that rank may still write to it. Between processes of a host,
    /// the pin of a killed rank does not keep memory. Over `verbs` it does, since the count of the pins names no rank.
    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory> {
        let registration = self.extras().registration.ok_or(Error::NotRegistered { rank: self.view().rank(), key })?;
        registration.deregister(key)
    }

    /// Pins memory that `rank` has registered. The memory stays registered as long as the pin lives.
    ///
    /// # Errors
    ///
    /// [`NotRegistered`](Error::NotRegistered) when `rank` has no memory registered under `key`, or has deregistered it.
    fn pin(&self, rank: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        self.extras().registration.ok_or(Error::NotRegistered { rank, key })?.pin(rank, key)
    }

    /// Writes `source` at `at`. When the call returns, `source` may be used again. The put is complete at the next flush.
    #[inline(always)]
    fn post_bytes(&self, at: Address, source: &[u8]) -> Result<()> {
        let span = self.view().span(Operation::PutBytes, at, source.len() as u64)?;
        // SAFETY: `source` is borrowed until the call returns; the span was just checked.
        unsafe { self.transfer(span, Bytes::Put(source.as_ptr()), Completion::Local) }.map(drop)
    }

    /// Writes `source` at `at` and waits until that is complete.
    #[inline]
    fn put_bytes(&self, at: Address, source: &[u8]) -> Result<()> {
        let span = self.view().span(Operation::PutBytes, at, source.len() as u64)?;
        // SAFETY: `source` is borrowed until the call returns; the span was just checked.
        unsafe { self.transfer(span, Bytes::Put(source.as_ptr()), Completion::Target) }.map(drop)
    }

    /// Reads `dest.len()` bytes at `at` and waits until they have arrived.
    #[inline(always)]
    fn get_bytes(&self, at: Address, dest: &mut [u8]) -> Result<()> {
        let span = self.view().span(Operation::GetBytes, at, dest.len() as u64)?;
        // SAFETY: `dest` is borrowed mutably until the call returns; the span was just checked.
        unsafe { self.transfer(span, Bytes::Get(dest.as_mut_ptr()), Completion::Target) }.map(drop)
    }
}

impl<F: Fabric> RemoteAtomics for F {}

/// Returns the part that lets a rank go on after a failure, if its backend has it.
pub(crate) fn survival(extras: Extras<'_>) -> Result<&dyn Failures> {
    extras.failures.ok_or(Error::Unsupported {
        what: "going on after the failure of a rank",
        why: "this backend ends with it; use threads, processes of one host, or verbs",
    })
}
