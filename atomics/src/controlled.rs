//! The controlled backend: every call is handed, as a value, to whoever decides what happens next.
//!
//! [`Controlled`] turns each operation into a [`Call`] and asks an [`Executor`] for the [`Answer`]. [`spawn`] makes the
//! executor a coroutine's [`Port`]: the rank's blocking code stops at each call; the engine that holds the memory carries
//! the call out when it pleases, by whatever memory model it has, and resumes the rank. Nothing else reaches the rank,
//! so that its next call is a function of its code and of its answers.
//!
//! What is a call: one operation on one word, a wait, a flush, a pause. Bulk operations are split into words, each of
//! which is a call, as nothing beyond one aligned word is atomic; a get is carried out before it returns, so that
//! requests are complete at once, and bulk puts are complete at the next flush.
//!
//! A rank that unwinds, by a panic of its own or because its task is stopped, makes no calls: what its destructors call
//! fails with its own [`PeerFailed`](Error::PeerFailed), and the time is the end of all deadlines.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::coroutine::{Port, Task, Turn};
use crate::error::Operation;
use crate::{
    Address, Capabilities, Disp, Error, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Topology, Until,
    WORD,
};

/// One call of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// Adds and answers the old word.
    FetchAdd {
        /// The word.
        at: Address,
        /// What is added, modulo 2^64.
        value: u64,
    },
    /// Stores `desired` where `expected` is, and answers the old word.
    CompareAndSwap {
        /// The word.
        at: Address,
        /// What it must be.
        expected: u64,
        /// What it then becomes.
        desired: u64,
    },
    /// Stores, and answers the old word.
    FetchStore {
        /// The word.
        at: Address,
        /// What it becomes.
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
        /// What it becomes.
        value: u64,
    },
    /// Posts a bulk put within one word: answered at once, visible at any time until a flush.
    BulkPut {
        /// The word.
        at: Address,
        /// Which bits are written.
        mask: u64,
        /// What they become.
        value: u64,
    },
    /// Answers the word, as part of a bulk get.
    BulkGet {
        /// The word.
        at: Address,
    },
    /// Answered when all that this rank posted to the target is visible.
    Flush {
        /// The target; all of them if there is none.
        target: Option<Rank>,
    },
    /// Answered with a word of the rank's own segment, once that is as waited for.
    WaitUntil {
        /// The word.
        own: Disp,
        /// What it has to be.
        until: Until,
        /// When the wait is over anyway, answered by [`Answer::TimedOut`].
        deadline: Option<Time>,
    },
    /// Answered when all puts of words that any rank has posted are visible.
    FenceEverywhere,
    /// A pause between two polls.
    Pause {
        /// For how long, in uncontended word operations.
        operations: u32,
    },
    /// Answers the time, as a word of nanoseconds.
    Now,
}

impl Call {
    /// The word that the call is on; of a wait, the one of `rank`, which makes it.
    pub fn address(&self, rank: Rank) -> Option<Address> {
        match *self {
            Call::FetchAdd { at, .. }
            | Call::CompareAndSwap { at, .. }
            | Call::FetchStore { at, .. }
            | Call::Get { at }
            | Call::Put { at, .. }
            | Call::BulkPut { at, .. }
            | Call::BulkGet { at } => Some(at),
            Call::WaitUntil { own, .. } => Some(rank.at(own)),
            Call::Flush { .. } | Call::FenceEverywhere | Call::Pause { .. } | Call::Now => None,
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
            Call::BulkPut { at, mask: u64::MAX, value } => write!(f, "bulk put({at}, {value:#x})"),
            Call::BulkPut { at, mask, value } => write!(f, "bulk put({at}, {value:#x} in {mask:#x})"),
            Call::BulkGet { at } => write!(f, "bulk get({at})"),
            Call::Flush { target: Some(target) } => write!(f, "flush({target})"),
            Call::Flush { target: None } => f.write_str("flush_all"),
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
        }
    }
}

/// What a call comes back with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// It is done, and there is nothing to tell.
    Done,
    /// It is done, and this is the word.
    Word(u64),
    /// The deadline of a wait has passed.
    TimedOut,
    /// A rank has failed, and so does the call.
    PeerFailed(Rank),
}

/// What all ranks of a controlled world know of it.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Which ranks share a node, and how many there are.
    pub topology: Arc<Topology>,
    /// Bytes of each rank's segment, all of them the symmetric heap's.
    pub segment: u64,
    /// What the backend says of itself.
    pub capabilities: Capabilities,
}

impl Shape {
    /// A world of `size` ranks on one node, with word puts that may be late, and a fence for all of them.
    pub fn new(size: u32) -> Shape {
        let capabilities =
            Capabilities { late_puts: true, asymmetric_fence: true, ..Capabilities::coherent("controlled") };
        Shape { topology: Arc::new(Topology::one_node(size)), segment: crate::SEGMENT_BYTES, capabilities }
    }
}

/// Who carries out the calls of one rank.
pub trait Executor {
    /// Carries out `call`, and returns with its answer.
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
    rank: Rank,
    shape: Shape,
    heap: SymmetricHeap,
}

/// One rank of a controlled world, as the engine sees it.
pub type RankTask<R> = Task<Answer, Call, R>;

/// What a rank did until it stopped.
pub type RankTurn<R> = Turn<Call, R>;

/// Makes `body` the code of `rank`; it begins with the first [`Task::resume`], whose answer is thrown away.
///
/// # Errors
///
/// Those of [`Task::new`].
pub fn spawn<R: 'static>(
    shape: &Shape,
    rank: Rank,
    body: impl for<'t> FnOnce(&Controlled<&'t Port<'t, Answer, Call>>) -> R + 'static,
) -> Result<RankTask<R>> {
    let shape = shape.clone();
    Task::new(move |port| body(&Controlled::new(port, &shape, rank)))
}

impl<E: Executor> Controlled<E> {
    /// Rank `rank` of a world of that shape, whose calls `executor` carries out.
    pub fn new(executor: E, shape: &Shape, rank: Rank) -> Controlled<E> {
        Controlled { executor, rank, shape: shape.clone(), heap: SymmetricHeap::new(shape.segment) }
    }

    /// Who carries out the calls.
    pub fn executor(&self) -> &E {
        &self.executor
    }

    /// Whether this rank has failed, or its task is given up, so that its destructors run: nobody answers them, and a
    /// coroutine that is asked for an answer while it unwinds would take the process with it.
    #[inline]
    fn unwinds(&self) -> bool {
        std::thread::panicking()
    }

    fn check(&self, operation: Operation, at: Address, len: u64) -> Result<()> {
        self.check_rank(operation, at.rank)?;
        if at.disp.0.checked_add(len).is_none_or(|end| end > self.shape.segment) {
            return Err(Error::OutOfSegment { operation, at, len, segment: self.shape.segment });
        }
        Ok(())
    }

    fn check_rank(&self, operation: Operation, rank: Rank) -> Result<()> {
        let size = self.size();
        if rank.0 < size { Ok(()) } else { Err(Error::RankOutOfRange { operation, rank, size }) }
    }

    fn check_word(&self, operation: Operation, at: Address) -> Result<()> {
        self.check_rank(operation, at.rank)?;
        if !at.disp.0.is_multiple_of(WORD) {
            return Err(Error::Misaligned { operation, at });
        }
        self.check(operation, at, WORD)
    }

    fn call(&self, call: Call) -> Result<Answer> {
        if self.unwinds() {
            return Err(Error::PeerFailed { rank: self.rank });
        }
        match self.executor.call(call) {
            Answer::PeerFailed(rank) => Err(Error::PeerFailed { rank }),
            answer => Ok(answer),
        }
    }

    fn word(&self, call: Call) -> Result<u64> {
        match self.call(call)? {
            Answer::Word(word) => Ok(word),
            answer => panic!("{call} was answered by {answer:?}"),
        }
    }

    fn done(&self, call: Call) -> Result<()> {
        match self.call(call)? {
            Answer::Done => Ok(()),
            answer => panic!("{call} was answered by {answer:?}"),
        }
    }

    fn wait_call(&self, own: Disp, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.check_word(Operation::WaitUntil, self.rank.at(own))?;
        let call = Call::WaitUntil { own, until, deadline };
        match self.call(call)? {
            Answer::Word(word) => Ok(Some(word)),
            Answer::TimedOut if deadline.is_some() => Ok(None),
            answer => panic!("{call} was answered by {answer:?}"),
        }
    }
}

/// The words that a range of bytes touches: for each its address, and its bytes in the range as offset and count.
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

impl<E: Executor> RemoteAtomics for Controlled<E> {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shape.topology.size()
    }

    fn topology(&self) -> &Topology {
        &self.shape.topology
    }

    fn capabilities(&self) -> Capabilities {
        self.shape.capabilities
    }

    fn heap(&self) -> &SymmetricHeap {
        &self.heap
    }

    fn fetch_add(&self, at: Address, value: u64) -> Result<u64> {
        self.check_word(Operation::FetchAdd, at)?;
        self.word(Call::FetchAdd { at, value })
    }

    fn compare_and_swap(&self, at: Address, expected: u64, desired: u64) -> Result<u64> {
        self.check_word(Operation::CompareAndSwap, at)?;
        self.word(Call::CompareAndSwap { at, expected, desired })
    }

    fn fetch_store(&self, at: Address, value: u64) -> Result<u64> {
        self.check_word(Operation::FetchStore, at)?;
        self.word(Call::FetchStore { at, value })
    }

    fn get(&self, at: Address) -> Result<u64> {
        self.check_word(Operation::Get, at)?;
        self.word(Call::Get { at })
    }

    fn put(&self, at: Address, value: u64) -> Result<()> {
        self.check_word(Operation::Put, at)?;
        self.done(Call::Put { at, value })
    }

    unsafe fn put_bytes_nb(&self, at: Address, source: *const u8, len: usize) -> Result<Request> {
        self.check(Operation::PutBytes, at, len as u64)?;
        for (at, offset, from, count) in words(at, len) {
            let mut bytes = [0; WORD as usize];
            let mut mask = [0; WORD as usize];
            mask[offset..offset + count].fill(u8::MAX);
            // SAFETY: the caller vouches for `len` bytes at `source`, and `from + count <= len`.
            let part = unsafe { std::slice::from_raw_parts(source.add(from), count) };
            bytes[offset..offset + count].copy_from_slice(part);
            self.done(Call::BulkPut { at, mask: u64::from_ne_bytes(mask), value: u64::from_ne_bytes(bytes) })?;
        }
        Ok(Request(0))
    }

    unsafe fn get_bytes_nb(&self, at: Address, dest: *mut u8, len: usize) -> Result<Request> {
        self.check(Operation::GetBytes, at, len as u64)?;
        for (at, offset, to, count) in words(at, len) {
            let bytes = self.word(Call::BulkGet { at })?.to_ne_bytes();
            // SAFETY: the caller vouches for `len` bytes at `dest`, and `to + count <= len`.
            unsafe { dest.add(to).copy_from_nonoverlapping(bytes[offset..].as_ptr(), count) };
        }
        Ok(Request(0))
    }

    fn test(&self, _request: &Request) -> Result<bool> {
        Ok(true)
    }

    fn wait(&self, _request: Request) -> Result<()> {
        Ok(())
    }

    fn flush(&self, target: Rank) -> Result<()> {
        self.check_rank(Operation::Flush, target)?;
        self.done(Call::Flush { target: Some(target) })
    }

    fn flush_all(&self) -> Result<()> {
        self.done(Call::Flush { target: None })
    }

    fn wait_until(&self, own: Disp, until: Until) -> Result<u64> {
        Ok(self.wait_call(own, until, None)?.expect("only a wait with a deadline times out"))
    }

    fn wait_until_deadline(&self, own: Disp, until: Until, deadline: Time) -> Result<Option<u64>> {
        self.wait_call(own, until, Some(deadline))
    }

    /// Nothing: a post is no step that a rank could stop at.
    fn fence_light(&self) {}

    fn fence_everywhere(&self) -> Result<bool> {
        self.done(Call::FenceEverywhere)?;
        Ok(self.shape.capabilities.asymmetric_fence)
    }

    fn pause(&self, operations: u32) -> Result<()> {
        self.done(Call::Pause { operations })
    }

    /// A pause of one operation: an engine of calls knows no other time.
    fn compute(&self, _time: Duration) -> Result<()> {
        self.pause(1)
    }

    fn now(&self) -> Time {
        if self.unwinds() {
            return Time(u64::MAX);
        }
        match self.executor.call(Call::Now) {
            Answer::Word(nanoseconds) => Time(nanoseconds),
            answer => panic!("{} was answered by {answer:?}", Call::Now),
        }
    }
}
