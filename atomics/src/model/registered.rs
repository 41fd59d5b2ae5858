//! Registered memory: memory of the program that other ranks can access.
//!
//! A rank [registers](crate::RemoteAtomics::register) memory that it owns, and sends the key to other ranks. When it
//! [deregisters](crate::RemoteAtomics::deregister) the memory, the call returns the memory. A rank holds a [`Pinned`] while it accesses the
//! memory, and a deregistration waits for the pins. So no access touches memory that was returned, however a program uses keys. A key is a
//! plain number. An invented key is refused, or names other registered memory. A key is never used twice.
//!
//! A deregistration waits forever for a forgotten pin, or for a pin of the caller. Dropping a handle drops its registered memory, but leaks
//! memory that is pinned, since the holders of the pins may still write to it.
//!
//! Between threads an access is a copy, and [`Pinned::words`] returns the memory itself. Between processes the kernel copies
//! (`process_vm_readv(2)`). It allows that to processes that may debug the owner. These are processes of the same user, unless the system
//! or a container forbids it. A pin then returns an error. While any memory is registered, a process allows it to every other process of
//! its user (`PR_SET_PTRACER`). Otherwise only its parents may. Memory of the symmetric heap needs none of this, and costs less to access.
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

/// The name of a piece of registered memory for the owner's peers. It fits into a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisteredKey(pub u64);

impl fmt::Display for RegisteredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:#x}", self.0)
    }
}

/// Memory of the program, with its owner.
pub struct UserMemory {
    start: NonNull<u8>,
    len: usize,
    owner: Box<dyn Any + Send>,
}

// SAFETY: the memory belongs to `owner`, which is Send. `start` is only a pointer to it.
unsafe impl Send for UserMemory {}

impl UserMemory {
    /// Makes memory from the elements of `vec`.
    pub fn from_vec<T: bytemuck::Pod + Send>(mut vec: Vec<T>) -> UserMemory {
        let (start, len) = (NonNull::from(vec.as_mut_slice()).cast(), size_of_val(vec.as_slice()));
        UserMemory { start, len, owner: Box::new(vec) }
    }

    /// Makes memory from `len` bytes at `start`, such as a mapped file or another language's array.
    ///
    /// # Safety
    ///
    /// The bytes are valid for reads and writes, and only this value accesses them, until `owner` is dropped.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize, owner: Box<dyn Any + Send>) -> UserMemory {
        UserMemory { start, len, owner }
    }

    /// Returns the part `range` of it. The other bytes stay untouched until the owner is returned.
    ///
    /// # Errors
    ///
    /// The memory itself, if `range` is not inside it.
    pub fn part(self, range: Range<usize>) -> Result<UserMemory, UserMemory> {
        let UserMemory { start, len, owner } = self;
        if range.start > range.end || range.end > len {
            return Err(UserMemory { start, len, owner });
        }
        // SAFETY: the offset was checked to lie in the memory, or at its end.
        let start = unsafe { start.add(range.start) };
        Ok(UserMemory { start, len: range.end - range.start, owner })
    }

    /// Returns its first `len` bytes and the rest, to be registered separately. The owner is dropped with the later of the two.
    ///
    /// # Errors
    ///
    /// The memory itself, if it has fewer bytes.
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

    /// Returns the vector from which it was made, with the peers' writes.
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

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns its start in this process.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl fmt::Debug for UserMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserMemory({} bytes at {:p})", self.len, self.start)
    }
}

/// Memory that could not be registered, with the error.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// The error.
    #[source]
    pub error: Error,
    /// The memory.
    pub memory: UserMemory,
}

impl Refused {
    /// Returns the refusal of a backend that has no registration.
    pub(crate) fn unsupported(memory: UserMemory) -> Refused {
        let error = Error::Unsupported {
            what: "a window over the program's own memory",
            why: "this backend reaches its own segments only; allocate the window's memory instead",
        };
        Refused { error, memory }
    }
}

/// The word-aligned interior of pinned memory, which this rank's processor reaches by loads and stores.
#[derive(Clone, Copy, Debug)]
pub struct PinnedWords<'a> {
    /// Bytes of the memory before the first word: 0 to 7.
    pub head: u64,
    /// The words. There may be none, and up to 7 bytes of the memory follow them.
    pub words: &'a [AtomicU64],
    /// True if every rank has these words, so that atomics on them are atomic with all ranks' atomics.
    pub everywhere: bool,
}

/// One of several contiguous parts of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The offset in the caller's buffer.
    pub at: usize,
    /// The offset in the registered memory.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

/// A pin: access to registered memory, which cannot be deregistered before the pin is dropped.
///
/// # Errors
///
/// [`OutOfRegistered`](Error::OutOfRegistered) for a range outside the memory; nothing was done then.
pub trait Pinned: fmt::Debug {
    /// Bytes of the memory.
    fn bytes(&self) -> u64;

    /// Writes `source` at `offset`. Like a bulk put, it is complete at the next flush of the owner.
    ///
    /// `source` may be used again at once. If [`words`](Self::words) returns words to this rank, each aligned word is written as a whole.
    /// Otherwise it need not be.
    fn put(&self, offset: u64, source: &[u8]) -> Result<()>;

    /// Reads `dest.len()` bytes at `offset`. It is complete when the call returns.
    fn get(&self, offset: u64, dest: &mut [u8]) -> Result<()>;

    /// Puts each run's part of `source`, in their order, like [`put`](Self::put).
    ///
    /// If a copy is a call of the kernel, one call copies many runs. A run outside the memory is an error, and nothing is done then. After
    /// another error some runs may be written.
    ///
    /// # Panics
    ///
    /// When a run reaches outside of `source`.
    fn put_runs(&self, source: &[u8], runs: &[Run]) -> Result<()> {
        runs.iter().try_for_each(|run| self.put(run.offset, &source[run.at..run.at + run.len]))
    }

    /// Gets each run into its part of `dest`, in their order, like [`get`](Self::get).
    ///
    /// If parts of `dest` overlap, the last run stays. Otherwise it is like [`put_runs`](Self::put_runs).
    ///
    /// # Panics
    ///
    /// When a run reaches outside of `dest`.
    fn get_runs(&self, dest: &mut [u8], runs: &[Run]) -> Result<()> {
        runs.iter().try_for_each(|run| self.get(run.offset, &mut dest[run.at..run.at + run.len]))
    }

    /// Returns the memory as words, if this rank's processor reaches it. Between threads that is the memory of every rank, between
    /// processes only this rank's memory.
    ///
    /// Copies of ranks that have the words do not tear them. Copies of other processes may.
    fn words(&self) -> Option<PinnedWords<'_>>;
}
