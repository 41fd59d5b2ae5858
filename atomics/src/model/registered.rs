//! Memory that the program already has, opened to the other ranks.
//!
//! A rank [registers](crate::RemoteAtomics::register) memory that it owns, tells the others the key, and gets the memory back
//! when it [deregisters](crate::RemoteAtomics::deregister) it. Whoever accesses it holds a [`Pinned`] meanwhile; a deregistration
//! waits for the pins. So no access ever meets memory that has been given back, whatever a program does with its
//! keys: a key is a plain number, and one that was made up is refused, or names other memory that is registered. A key is
//! never given twice.
//!
//! A deregistration waits for ever for a pin that its holder has forgotten, or that the caller holds itself. A handle that
//! is dropped drops what it still registers, and leaks what is pinned, since its holders may still write to it.
//!
//! Between threads an access is a copy, and [`Pinned::words`] gives the memory itself. Between processes the kernel copies
//! (`process_vm_readv(2)`), which it allows to those who may debug the owner: processes of the same user, unless it is set
//! up more strictly or a container forbids it; a pin then says so. While anything is registered, a process lets any other
//! process of its user do that (`PR_SET_PTRACER`), where only its parents may otherwise. Memory of the symmetric heap
//! needs nothing of this and costs less to access.
//!
//! ```
//! use rmalab_atomics::registered::{RegisteredKey, UserMemory};
//! use rmalab_atomics::{Collectives, Rank, RemoteAtomics, World};
//!
//! World::threads(2).run(|ra| {
//!     let collectives = Collectives::new(ra).expect("room for collectives");
//!     let key = ra.register(UserMemory::from_vec(vec![0u32; 4])).expect("memory to register");
//!     let keys = collectives.allgather(&[key.0]).expect("keys");
//!     let peer = Rank(1 - ra.rank().0);
//!     let pin = ra.pin(peer, RegisteredKey(keys[peer.index()])).expect("a pin");
//!     pin.put(4, &7u32.to_ne_bytes()).expect("four bytes in sixteen");
//!     ra.flush(peer).expect("a flush");
//!     drop(pin);
//!     collectives.barrier().expect("a barrier");
//!     let memory = ra.deregister(key).expect("what was registered");
//!     assert_eq!(memory.into_vec::<u32>().expect("a vector"), [0, 7, 0, 0]);
//! })?;
//! # Ok::<(), rmalab_atomics::Error>(())
//! ```

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crate::{Error, Result};

/// The name of a piece of registered memory, for its owner's peers; travels as a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisteredKey(pub u64);

impl fmt::Display for RegisteredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:#x}", self.0)
    }
}

/// Memory of the program, with whatever owns it.
pub struct UserMemory {
    start: NonNull<u8>,
    len: usize,
    owner: Box<dyn Any + Send>,
}

// SAFETY: the memory belongs to `owner`, which is Send; `start` is only a way to it.
unsafe impl Send for UserMemory {}

impl UserMemory {
    /// The elements of `vec`.
    pub fn from_vec<T: bytemuck::Pod + Send>(mut vec: Vec<T>) -> UserMemory {
        let (start, len) = (NonNull::from(vec.as_mut_slice()).cast(), size_of_val(vec.as_slice()));
        UserMemory { start, len, owner: Box::new(vec) }
    }

    /// `len` bytes at `start`, such as those of a mapped file or of another language's array.
    ///
    /// # Safety
    ///
    /// They are valid for reads and writes, and nothing but this value accesses them, until `owner` is dropped.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize, owner: Box<dyn Any + Send>) -> UserMemory {
        UserMemory { start, len, owner }
    }

    /// The bytes `range` of it; the others stay untouched until the owner comes back.
    ///
    /// # Errors
    ///
    /// The memory itself, if it does not have them all.
    pub fn part(self, range: Range<usize>) -> Result<UserMemory, UserMemory> {
        let UserMemory { start, len, owner } = self;
        if range.start > range.end || range.end > len {
            return Err(UserMemory { start, len, owner });
        }
        // SAFETY: the offset was checked to lie in the memory, or at its end.
        let start = unsafe { start.add(range.start) };
        Ok(UserMemory { start, len: range.end - range.start, owner })
    }

    /// Its first `len` bytes and the others, to be registered apart. What owns them is dropped with the later of the two.
    ///
    /// # Errors
    ///
    /// The memory itself, if it does not have as many.
    pub fn split(self, len: usize) -> Result<(UserMemory, UserMemory), UserMemory> {
        if len > self.len {
            return Err(self);
        }
        let UserMemory { start, len: all, owner } = self;
        let owner = Arc::new(Mutex::new(owner));
        // SAFETY: the offset was checked to lie in the memory, or at its end.
        let rest = unsafe { start.add(len) };
        let part = |start, len| UserMemory { start, len, owner: Box::new(Arc::clone(&owner)) };
        Ok((part(start, len), part(rest, all - len)))
    }

    /// The vector that it was made from, with what peers have written.
    ///
    /// # Errors
    ///
    /// The memory itself, if it was made from something else, such as a vector of another type.
    pub fn into_vec<T: bytemuck::Pod + Send>(self) -> Result<Vec<T>, UserMemory> {
        let UserMemory { start, len, owner } = self;
        match owner.downcast() {
            Ok(vec) => Ok(*vec),
            Err(owner) => Err(UserMemory { start, len, owner }),
        }
    }

    /// Bytes of the memory.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts in this process.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl fmt::Debug for UserMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserMemory({} bytes at {:p})", self.len, self.start)
    }
}

/// Memory that could not be registered, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    #[source]
    pub error: Error,
    /// The memory, given back.
    pub memory: UserMemory,
}

impl Refused {
    /// The refusal of a backend that has no registration.
    pub(crate) fn unsupported(memory: UserMemory) -> Refused {
        let error = Error::Unsupported {
            what: "a window over the program's own memory",
            why: "this backend reaches its own segments only; allocate the window's memory instead",
        };
        Refused { error, memory }
    }
}

/// The word-aligned interior of pinned memory, where this rank's processor reaches it by loads and stores.
#[derive(Clone, Copy, Debug)]
pub struct PinnedWords<'a> {
    /// Bytes of the memory before the first word: 0 to 7.
    pub head: u64,
    /// The words; there may be none, and up to 7 bytes of the memory are behind them.
    pub words: &'a [AtomicU64],
    /// Whether every rank has these words, so that atomics on them are atomic against those of all ranks.
    pub everywhere: bool,
}

/// A contiguous part of a transfer that has many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it is in the caller's buffer.
    pub at: usize,
    /// Where it is in the registered memory.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

/// Access to memory that a rank has registered, which cannot be deregistered before the pin is dropped.
///
/// # Errors
///
/// [`OutOfRegistered`](Error::OutOfRegistered) for a range that the memory does not have; nothing was done then.
pub trait Pinned: fmt::Debug {
    /// Bytes of the memory.
    fn bytes(&self) -> u64;

    /// Writes `source` at `offset`; complete at the next flush of the owner, as a bulk put.
    ///
    /// `source` may be used again at once. An aligned word is written as a whole where [`words`](Self::words) gives this
    /// rank the words, and need not be elsewhere.
    fn put(&self, offset: u64, source: &[u8]) -> Result<()>;

    /// Reads `dest.len()` bytes at `offset`; complete when it returns.
    fn get(&self, offset: u64, dest: &mut [u8]) -> Result<()>;

    /// As [`put`](Self::put) of each run's part of `source`, in their order.
    ///
    /// Where a copy is a call of the kernel, one call copies many runs. A run that does not exist is an error, and nothing
    /// is done then; after another error some runs may be written.
    ///
    /// # Panics
    ///
    /// When a run reaches outside of `source`.
    fn put_runs(&self, source: &[u8], runs: &[Run]) -> Result<()> {
        runs.iter().try_for_each(|run| self.put(run.offset, &source[run.at..run.at + run.len]))
    }

    /// As [`get`](Self::get) into each run's part of `dest`, in their order.
    ///
    /// Of runs whose parts of `dest` overlap, the last one stays. Otherwise as [`put_runs`](Self::put_runs).
    ///
    /// # Panics
    ///
    /// When a run reaches outside of `dest`.
    fn get_runs(&self, dest: &mut [u8], runs: &[Run]) -> Result<()> {
        runs.iter().try_for_each(|run| self.get(run.offset, &mut dest[run.at..run.at + run.len]))
    }

    /// The memory as words, where this rank's processor reaches it: of every rank between threads, of this one between
    /// processes.
    ///
    /// Copies of ranks that have the words themselves do not tear them; those of other processes may.
    fn words(&self) -> Option<PinnedWords<'_>>;
}
