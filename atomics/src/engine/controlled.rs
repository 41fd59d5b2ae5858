//! The controlled backend: it hands every call, as a value, to an engine that decides the next step.
//!
//! [`Controlled`] turns each operation into a [`Call`] and asks an [`Executor`] for the [`Answer`]. [`spawn`] makes the
//! executor a coroutine's [`Port`]: the rank's blocking code stops at each call. The engine that holds the memory
//! executes the call at a time of its choice, by its own memory model, and resumes the rank. The rank has no other input,
//! so its next call is a function of its code and of its answers.
//!
//! A call is one operation on one word, a wait, a flush or a pause. Bulk operations are split into words, each of which is
//! a call, since only single aligned words are atomic. A get is executed before it returns, so that requests of bulk
//! operations are complete at once. Bulk puts are complete at the next flush. A word operation without a wait is two calls:
//! [`Call::Start`], and [`Call::Finish`], which returns its result. After a flush comes the finish of each operation that
//! it has completed.
//!
//! A rank that unwinds, from its own panic or because its task is stopped, makes no calls. Operations of its
//! destructors fail with [`PeerFailed`](Error::PeerFailed) of the rank itself, and the time is after all deadlines.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fmt, slice};

use crate::engine::coroutine::{Port, Task, Turn};
use crate::model::fabric::{
    AsymmetricFence, Bytes, Completion, DONE, Delay, Extras, Fabric, Failures, LocalMemory, Span, Word, WordOp,
    WorldView,
};
use crate::model::words::{LocalEngine, LocalWords};
use crate::{
    Address, Capabilities, Disp, Error, Failed, Operation, Rank, Request, Result, SymmetricHeap, Time, Topology, Until,
    WORD,
};

/// One call of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// Adds, and answers the old word.
    FetchAdd {
        /// The word.
        at: Address,
        /// The number to add, modulo 2^64.
        value: u64,
    },
    /// Stores `desired` if the word is `expected`, and answers the old word.
    CompareAndSwap {
        /// The word.
        at: Address,
        /// The value that the word must have.
        expected: u64,
        /// The new value.
        desired: u64,
    },
    /// Stores, and answers the old word.
    FetchStore {
        /// The word.
        at: Address,
        /// The new value.
        value: u64,
    },
    /// Answers the word.
    Get {
        /// The word.
        at: Address,
    },
    /// Posts a put of a word: answered at once, visible later, in order of the posts to one target.
    Put {
        /// The word.
        at: Address,
        /// The new value.
        value: u64,
    },
    /// Posts one word of a bulk put: answered at once, visible at any time until a flush.
    BulkPut {
        /// The word.
        at: Address,
        /// The bits that are written.
        mask: u64,
        /// The new values of these bits.
        value: u64,
        /// True for the first word of a bulk put, false for its further words. These follow directly, and are words of the
        /// same rank. The words of one bulk put have no order, even where puts keep theirs.
        first: bool,
    },
    /// Answers the word, as part of a bulk get.
    BulkGet {
        /// The word.
        at: Address,
    },
    /// Starts an operation on a word: answered at once. It takes effect some time before its [`Finish`](Call::Finish) and
    /// before a flush of its target are answered.
    Start {
        /// The number of the operation among this rank's unfinished operations.
        request: u32,
        /// The word.
        at: Address,
        /// The operation on the word.
        op: WordOp,
    },
    /// Answers the result of a started operation, when the operation has taken effect. The number is free again.
    Finish {
        /// The number of the operation.
        request: u32,
        /// Its word.
        at: Address,
    },
    /// Answers 1 if a started operation has taken effect, 0 if not.
    Test {
        /// The number of the operation.
        request: u32,
    },
    /// Answered when all operations that this rank posted or started to the target have taken effect.
    Flush {
        /// The target, or all targets if there is none.
        target: Option<Rank>,
    },
    /// Orders the word puts that this rank has posted to the target ahead of its later puts and atomics of words: answered at once.
    Order {
        /// The target.
        target: Rank,
    },
    /// Answered with a word of the rank's own segment, once the condition holds.
    WaitUntil {
        /// The word.
        own: Disp,
        /// The condition.
        until: Until,
        /// The end of the wait in any case, answered by [`Answer::TimedOut`].
        deadline: Option<Time>,
    },
    /// Answers the word as the rank's processor loads it: after its own stores.
    Load {
        /// The word.
        at: Address,
    },
    /// Stores with the rank's processor: a put for which flushes do not wait before [`Stored`](Call::Stored).
    Store {
        /// The word.
        at: Address,
        /// The new value.
        value: u64,
    },
    /// From here on, flushes wait for the stores that the rank has made.
    Stored,
    /// Answered when all puts of words that any rank has posted are visible.
    FenceEverywhere,
    /// A pause between two polls.
    Pause {
        /// The length of the pause, in uncontended word operations.
        operations: u32,
    },
    /// Answers the time, as a word of nanoseconds.
    Now,
    /// Answers the ranks that are known here to have failed: bit i is rank i.
    Failed,
    /// From here on, waits of this rank go on after the failures of these ranks. Answers the ranks of the mask that are
    /// not known here to have failed. If there are any, none is acknowledged.
    Acknowledge {
        /// The ranks: bit i is rank i.
        ranks: u64,
    },
    /// Answered when every live rank knows that these ranks have failed, and none of their operations can still take effect.
    /// Answers the ranks of the mask that are not known here to have failed. If there are any, the call does nothing.
    Silence {
        /// The ranks: bit i is rank i.
        ranks: u64,
    },
}

impl Call {
    /// Returns the call that executes `op` on the word at `at`.
    #[inline]
    pub fn new(at: Address, op: WordOp) -> Call {
        match op {
            WordOp::FetchAdd(value) => Call::FetchAdd { at, value },
            WordOp::CompareAndSwap { expected, desired } => Call::CompareAndSwap { at, expected, desired },
            WordOp::FetchStore(value) => Call::FetchStore { at, value },
            WordOp::Get => Call::Get { at },
            WordOp::Put(value) => Call::Put { at, value },
        }
    }

    /// Returns whether the answer is a word.
    #[inline]
    pub fn answers_a_word(&self) -> bool {
        match self {
            Call::FetchAdd { .. }
            | Call::CompareAndSwap { .. }
            | Call::FetchStore { .. }
            | Call::Get { .. }
            | Call::BulkGet { .. }
            | Call::Finish { .. }
            | Call::Test { .. }
            | Call::WaitUntil { .. }
            | Call::Load { .. }
            | Call::Failed
            | Call::Acknowledge { .. }
            | Call::Silence { .. }
            | Call::Now => true,
            Call::Put { .. }
            | Call::Store { .. }
            | Call::Stored
            | Call::BulkPut { .. }
            | Call::Start { .. }
            | Call::Flush { .. }
            | Call::Order { .. }
            | Call::FenceEverywhere
            | Call::Pause { .. } => false,
        }
    }

    /// Returns the word of the call. A wait of `rank` is on that rank's own word.
    #[inline]
    pub fn address(&self, rank: Rank) -> Option<Address> {
        match *self {
            Call::FetchAdd { at, .. }
            | Call::CompareAndSwap { at, .. }
            | Call::FetchStore { at, .. }
            | Call::Get { at }
            | Call::Put { at, .. }
            | Call::BulkPut { at, .. }
            | Call::BulkGet { at }
            | Call::Start { at, .. }
            | Call::Load { at }
            | Call::Store { at, .. }
            | Call::Finish { at, .. } => Some(at),
            Call::WaitUntil { own, .. } => Some(rank.at(own)),
            Call::Stored
            | Call::Test { .. }
            | Call::Flush { .. }
            | Call::Order { .. }
            | Call::FenceEverywhere
            | Call::Pause { .. }
            | Call::Failed
            | Call::Acknowledge { .. }
            | Call::Silence { .. }
            | Call::Now => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Call::FetchAdd { at, value } => write!(f, "fetch_add({at}, {})", value as i64),
            Call::CompareAndSwap { at, expected, desired } => {
                write!(f, "compare_and_swap({at}, {expected:#x} -> {desired:#x})")
            }
            Call::FetchStore { at, value } => write!(f, "fetch_store({at}, {value:#x})"),
            Call::Get { at } => write!(f, "get({at})"),
            Call::Put { at, value } => write!(f, "put({at}, {value:#x})"),
            Call::BulkPut { at, mask: u64::MAX, value, .. } => write!(f, "bulk put({at}, {value:#x})"),
            Call::BulkPut { at, mask, value, .. } => write!(f, "bulk put({at}, {value:#x} in {mask:#x})"),
            Call::BulkGet { at } => write!(f, "bulk get({at})"),
            Call::Start { request, at, op } => write!(f, "start #{request} {}", Call::new(at, op)),
            Call::Finish { request, at } => write!(f, "finish #{request} ({at})"),
            Call::Test { request } => write!(f, "test #{request}"),
            Call::Load { at } => write!(f, "load({at})"),
            Call::Store { at, value } => write!(f, "store({at}, {value:#x})"),
            Call::Stored => f.write_str("stored"),
            Call::Flush { target: Some(target) } => write!(f, "flush({target})"),
            Call::Flush { target: None } => f.write_str("flush_all"),
            Call::Order { target } => write!(f, "order({target})"),
            Call::WaitUntil { own, until, deadline } => {
                write!(f, "wait_until(own {own} {until}")?;
                if deadline.is_some() {
                    f.write_str(", or a deadline")?;
                }
                f.write_str(")")
            }
            Call::Pause { operations } => write!(f, "pause({operations})"),
            Call::FenceEverywhere => f.write_str("fence_everywhere"),
            Call::Now => f.write_str("now"),
            Call::Failed => f.write_str("failed"),
            Call::Acknowledge { ranks } => write!(f, "acknowledge({})", ranks_of(ranks)),
            Call::Silence { ranks } => write!(f, "silence({})", ranks_of(ranks)),
        }
    }
}

/// Returns the ranks of a mask of [`Call::Failed`], [`Call::Acknowledge`] and [`Call::Silence`].
pub fn ranks_of(mask: u64) -> Failed {
    (0..u64::BITS - mask.leading_zeros()).filter(|rank| mask >> rank & 1 == 1).map(Rank).collect()
}

/// Returns an error if a rank is not known to have failed.
fn known(unknown: u64) -> Result<()> {
    match ranks_of(unknown).iter().next() {
        Some(rank) => Err(Error::NotFailed { rank }),
        None => Ok(()),
    }
}

/// Returns the mask of [`Call::Acknowledge`] and [`Call::Silence`], if all ranks have a bit in it.
fn mask_of(failed: &Failed) -> Result<u64> {
    failed.iter().try_fold(0, |mask, rank| match 1_u64.checked_shl(rank.0) {
        Some(bit) => Ok(mask | bit),
        None => Err(Error::NotFailed { rank }),
    })
}

/// The answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// The call is done, and has no result.
    Done,
    /// The call is done, with this word as its result.
    Word(u64),
    /// The deadline of a wait has passed.
    TimedOut,
    /// A rank has failed, and so the call fails.
    PeerFailed(Rank),
    /// The engine needs no further call of the rank. The call fails with an error that ends every wait.
    GivenUp,
}

/// The properties of a controlled world, which all its ranks know.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The ranks and their nodes.
    pub topology: Arc<Topology>,
    /// Bytes of each rank's segment, all of which belong to the symmetric heap.
    pub segment: u64,
    /// The capabilities of the backend.
    pub capabilities: Capabilities,
    /// True if every rank's processor reaches all memory: [`RemoteAtomics::local_words`](crate::RemoteAtomics::local_words).
    pub local_words: bool,
}

impl Shape {
    /// Makes a world of `size` ranks on one node, with word puts that may be late, and a fence for all of them.
    pub fn new(size: u32) -> Shape {
        let capabilities =
            Capabilities { late_puts: true, asymmetric_fence: true, ..Capabilities::coherent("controlled") };
        Shape {
            topology: Arc::new(Topology::one_node(size)),
            segment: crate::SEGMENT_BYTES,
            capabilities,
            local_words: false,
        }
    }

    fn view(&self, rank: Rank) -> Result<WorldView> {
        let heap = SymmetricHeap::new(self.segment);
        WorldView::new(rank, self.segment, self.capabilities, Arc::clone(&self.topology), heap)
    }
}

/// Executes the calls of one rank.
pub trait Executor {
    /// Executes `call`, and returns its answer.
    fn call(&self, call: Call) -> Answer;
}

impl Executor for Port<'_, Answer, Call> {
    #[inline]
    fn call(&self, call: Call) -> Answer {
        Port::call(self, call)
    }
}

impl<E: Executor + ?Sized> Executor for &E {
    #[inline]
    fn call(&self, call: Call) -> Answer {
        E::call(self, call)
    }
}

/// One rank of a controlled world, as its code sees it.
#[derive(Debug)]
pub struct Controlled<E> {
    executor: E,
    view: WorldView,
    local_words: bool,
    /// The unfinished operations, by number. A new operation takes the lowest free number, so that the calls of a rank do
    /// not depend on how many operations it has finished.
    started: RefCell<Vec<Option<Started>>>,
}

#[derive(Debug)]
struct Started {
    at: Address,
    result: *mut u64,
}

/// One rank of a controlled world, as the engine sees it.
pub type RankTask<R> = Task<Answer, Call, R>;

/// The next stop of a rank: a call, or its end.
pub type RankTurn<R> = Turn<Call, R>;

/// Makes `body` the code of `rank`. It begins with the first [`Task::resume`], whose answer is ignored.
///
/// # Errors
///
/// The errors of [`Task::new`] and [`WorldView::new`].
pub fn spawn<R: 'static>(
    shape: &Shape,
    rank: Rank,
    body: impl for<'t> FnOnce(&Controlled<&'t Port<'t, Answer, Call>>) -> R + 'static,
) -> Result<RankTask<R>> {
    let (view, local_words) = (shape.view(rank)?, shape.local_words);
    Task::new(move |port| body(&Controlled::over(port, view, local_words)))
}

impl<E: Executor> Controlled<E> {
    /// Makes rank `rank` of a world of this shape. `executor` executes its calls.
    ///
    /// # Panics
    ///
    /// If a world of this shape has no such rank, or its segments are not whole words.
    pub fn new(executor: E, shape: &Shape, rank: Rank) -> Controlled<E> {
        let view = shape.view(rank).unwrap_or_else(|error| panic!("controlled: {error}"));
        Controlled::over(executor, view, shape.local_words)
    }

    fn over(executor: E, view: WorldView, local_words: bool) -> Controlled<E> {
        Controlled { executor, view, local_words, started: RefCell::default() }
    }

    /// Returns the executor of the calls.
    pub fn executor(&self) -> &E {
        &self.executor
    }

    /// Returns whether this rank has failed, or its task is given up, so that its destructors run. No engine answers
    /// them, and a coroutine that makes a call while it unwinds would abort the process.
    #[inline]
    fn unwinds(&self) -> bool {
        std::thread::panicking()
    }

    fn call(&self, call: Call) -> Result<Answer> {
        if self.unwinds() {
            return Err(Error::PeerFailed { rank: self.view.rank() });
        }
        match self.executor.call(call) {
            Answer::PeerFailed(rank) => Err(Error::PeerFailed { rank }),
            Answer::GivenUp => Err(Error::world("the engine has given up this rank")),
            answer => Ok(answer),
        }
    }

    // The messages do not name the call: a copy of it for them would be the slowest part of a call that a script answers.

    fn answer(&self, call: Call) -> Result<u64> {
        match self.call(call)? {
            Answer::Word(word) => Ok(word),
            answer => panic!("a call that asks for a word was answered by {answer:?}"),
        }
    }

    fn make(&self, call: Call) -> Result<()> {
        match self.call(call)? {
            Answer::Done => Ok(()),
            answer => panic!("a call without a result was answered by {answer:?}"),
        }
    }

    /// Returns the number of the operation of `request`, if it is not finished.
    fn number(&self, request: &Request) -> Option<usize> {
        let number = usize::try_from(request.0).ok()?.checked_sub(1)?;
        self.started.borrow().get(number)?.as_ref().map(|_| number)
    }

    /// Waits for operation `number`, if there is one, and delivers its result. If that fails, the operation is given up.
    fn deliver(&self, number: usize) -> Result<()> {
        let started = self.started.borrow_mut().get_mut(number).and_then(Option::take);
        let Some(Started { at, result }) = started else { return Ok(()) };
        let old = self.answer(Call::Finish { request: number as u32, at })?;
        // SAFETY: the promise of the caller of `start_word`: the operation was neither finished nor given up before.
        unsafe { result.write(old) };
        Ok(())
    }

    /// Delivers the results of all operations on `target`. If one fails, gives up the rest.
    fn deliver_all(&self, target: Option<Rank>) -> Result<()> {
        let wanted = |started: &Started| target.is_none_or(|target| started.at.rank == target);
        let count = self.started.borrow().len();
        for number in 0..count {
            if self.started.borrow()[number].as_ref().is_some_and(wanted) {
                self.deliver(number)?;
            }
        }
        Ok(())
    }

    /// Gives up all operations on `target`, so that nothing accesses their results any longer.
    fn give_up(&self, target: Option<Rank>) {
        for started in self.started.borrow_mut().iter_mut() {
            started.take_if(|started| target.is_none_or(|target| started.at.rank == target));
        }
    }
}

/// Returns the words that a range of bytes touches: the address of each, and its bytes in the range as offset and
/// count.
fn words(at: Address, len: usize) -> impl Iterator<Item = (Address, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let here = at.disp.0 + done as u64;
        let offset = (here % WORD) as usize;
        let count = (WORD as usize - offset).min(len - done);
        let part = (at.rank.at(Disp(here - offset as u64)), offset, done, count);
        done += count;
        Some(part)
    })
}

impl<E: Executor> Fabric for Controlled<E> {
    #[inline]
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        let call = Call::new(at.address(), op);
        match op {
            WordOp::Put(_) => self.make(call).map(|()| 0),
            _ => self.answer(call),
        }
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        let at = at.address();
        let free = self.started.borrow().iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| self.started.borrow().len());
        self.make(Call::Start { request: number as u32, at, op })?;
        let mut started = self.started.borrow_mut();
        if number == started.len() {
            started.push(None);
        }
        started[number] = Some(Started { at, result });
        Ok(Request(number as u64 + 1))
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        for (at, offset, from, count) in words(at.address(), at.len()) {
            let mut mask = [0; WORD as usize];
            mask[offset..offset + count].fill(u8::MAX);
            let mut value = [0; WORD as usize];
            let part = &mut value[offset..offset + count];
            match bytes {
                // SAFETY: the caller vouches for the span's length at `source`, and `from + count` is not larger.
                Bytes::Put(source) => part.copy_from_slice(unsafe { slice::from_raw_parts(source.add(from), count) }),
                Bytes::Get(dest) => {
                    let bytes = self.answer(Call::BulkGet { at })?.to_ne_bytes();
                    // SAFETY: the caller vouches for the span's length at `dest`, and `from + count` is not larger.
                    unsafe { dest.add(from).copy_from_nonoverlapping(bytes[offset..].as_ptr(), count) };
                    continue;
                }
                Bytes::Clear => {}
            }
            let (mask, value) = (u64::from_ne_bytes(mask), u64::from_ne_bytes(value));
            self.make(Call::BulkPut { at, mask, value, first: from == 0 })?;
        }
        if until == Completion::Target && !matches!(bytes, Bytes::Get(_)) {
            self.complete(Some(at.rank()))?;
        }
        Ok(DONE)
    }

    fn done(&self, request: &Request) -> Result<bool> {
        let Some(number) = self.number(request) else { return Ok(true) };
        if self.answer(Call::Test { request: number as u32 })? == 0 {
            return Ok(false);
        }
        self.deliver(number).map(|()| true)
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.number(&request).map_or(Ok(()), |number| self.deliver(number))
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        let completed = self.make(Call::Flush { target }).and_then(|()| self.deliver_all(target));
        if completed.is_err() {
            self.give_up(target);
        }
        completed
    }

    fn keep_order(&self, target: Rank) -> Result<()> {
        self.make(Call::Order { target })
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let call = Call::WaitUntil { own: own.disp(), until, deadline };
        match self.call(call)? {
            Answer::Word(word) => Ok(Some(word)),
            Answer::TimedOut if deadline.is_some() => Ok(None),
            answer => panic!("{call} was answered by {answer:?}"),
        }
    }

    /// A computation is a pause of one operation, since an engine of calls has no other notion of time.
    fn delay(&self, delay: Delay) -> Result<()> {
        let operations = match delay {
            Delay::Operations(operations) => operations,
            Delay::Compute(_) => 1,
        };
        self.make(Call::Pause { operations })
    }

    fn clock(&self) -> Time {
        if self.unwinds() {
            return Time(u64::MAX);
        }
        match self.executor.call(Call::Now) {
            Answer::Word(nanoseconds) => Time(nanoseconds),
            Answer::GivenUp => Time(u64::MAX),
            answer => panic!("{} was answered by {answer:?}", Call::Now),
        }
    }

    fn extras(&self) -> Extras<'_> {
        let memory = self.local_words.then_some(self as &dyn LocalMemory);
        Extras { fence: Some(self), memory, failures: Some(self), ..Extras::default() }
    }
}

impl<E: Executor> LocalMemory for Controlled<E> {
    /// Returns `None`: no engine sees direct accesses to memory.
    fn shared_words(&self, _at: Address, _words: u64) -> Option<&[AtomicU64]> {
        None
    }

    /// Returns `None`, like [`shared_words`](LocalMemory::shared_words).
    fn direct_words(&self, _at: Address, _words: u64) -> Option<&[AtomicU64]> {
        None
    }

    /// Returns `None`, like [`shared_words`](LocalMemory::shared_words).
    fn own_words(&self, _at: Disp, _words: u64) -> Option<&[AtomicU64]> {
        None
    }

    fn local_words(&self, at: Address, words: u64) -> Option<LocalWords<'_>> {
        let len = words.checked_mul(WORD)?;
        self.view.span(Operation::Get, at, len).ok()?;
        let first = self.view.word(Operation::Get, at).ok()?;
        Some(LocalWords::by(self, first, words))
    }

    /// If this fails, all later calls fail.
    fn stored(&self) {
        let _ = self.make(Call::Stored);
    }
}

impl<E: Executor> LocalEngine for Controlled<E> {
    fn load(&self, at: Word) -> Result<u64> {
        self.answer(Call::Load { at: at.address() })
    }

    fn store(&self, at: Word, value: u64) -> Result<()> {
        self.make(Call::Store { at: at.address(), value })
    }

    fn atomic(&self, at: Word, op: WordOp) -> Result<u64> {
        match op {
            // This store is part of the single order of the atomics.
            WordOp::Put(value) => self.word(at, WordOp::FetchStore(value)).map(|_| 0),
            _ => self.word(at, op),
        }
    }
}

/// The engine knows which of 64 ranks have failed. Other ranks never do.
impl<E: Executor> Failures for Controlled<E> {
    fn failed(&self) -> Result<Failed> {
        self.answer(Call::Failed).map(ranks_of)
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        known(self.answer(Call::Acknowledge { ranks: mask_of(failed)? })?)
    }

    fn silence(&self, failed: &Failed) -> Result<()> {
        known(self.answer(Call::Silence { ranks: mask_of(failed)? })?)
    }

    fn expel(&self, _rank: Rank) -> Result<()> {
        Err(Error::Unsupported { what: "expelling a rank", why: "engines decide which ranks fail; use processes" })
    }

    fn generation(&self) -> u32 {
        0
    }

    /// Does nothing: no world is revoked.
    fn enter(&self, _generation: u32) {}

    fn revoke(&self, _generation: u32) -> Result<()> {
        Err(Error::Unsupported {
            what: "revoking a world",
            why: "engines have no step for it; use threads or processes",
        })
    }
}

impl<E: Executor> AsymmetricFence for Controlled<E> {
    /// Does nothing: a rank cannot stop at a post.
    fn fence_light(&self) {}

    fn fence_everywhere(&self) -> Result<bool> {
        self.make(Call::FenceEverywhere)?;
        Ok(self.view.capabilities().asymmetric_fence)
    }
}
