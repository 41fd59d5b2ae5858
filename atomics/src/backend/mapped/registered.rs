//! The program's own memory, opened to ranks that share coherent memory. Threads access it by pointers, and processes
//! by the kernel.
//!
//! # State
//!
//! Each rank has a registry of [`CAPACITY`] entries in the mapping, after all segments. No displacement reaches it, so no
//! put can forge an address. An [`Entry`] is one word of state, and the place of the memory. Keys are the entry's index
//! (low half) and generation (high half). Between processes a rank also notes which entries of other ranks it pins, up to
//! [`HELD`] at a time. So when a rank has been killed, an owner knows which pins it has left.
//!
//! | bits of the state | meaning |
//! | --- | --- |
//! | 0–29 | the number of pins |
//! | 30 | taken: the owner is about to open the entry, or it is open, or it waits for the last pins |
//! | 31 | open: new pins are granted |
//! | 32–63 | the generation of the current or last registration; 0 before the first |
//!
//! # Invariants
//!
//! * I1. The number of pins grows in an open entry only, and only by a compare-and-swap that has seen the generation of
//!   the key. So a failed pin leaves no trace, and a closed entry's number can only fall.
//! * I2. The place of the memory changes only while the entry is taken, not open and without pins. A pin reads the
//!   place after it has counted itself.
//! * I3. Opening an entry begins a new generation, so no key names two pieces of memory. An entry whose generations are
//!   used up is never taken again.
//! * I4. The owner keeps the [`UserMemory`] in a table of its own process. It takes the memory out, to return or drop it,
//!   only when the entry is closed and has no pins except pins of dead processes. If it cannot wait for that, since a rank
//!   has failed or the handle is dropped, the memory is leaked: a rank with a pin may still write to it.
//! * I5. A rank notes a pin after it has counted it, and removes the note before it gives the count back. So the notes of
//!   a dead rank have at most its counted pins. An entry whose count equals the pins of dead ranks has no pins of live
//!   ranks. Such an entry stays taken forever, since its count never falls.
//!
//! # Memory ordering
//!
//! Opening releases the memory's contents and I2's fields, and pinning acquires them. The end of a pin releases the
//! writes through the pin, and the deregistration acquires them. Between opening and closing, all these operations are
//! read-modify-writes of one word, so the deregistration acquires every pin's release.
//!
//! # Between processes
//!
//! The kernel copies (`process_vm_readv(2)`), page by page, with ordinary loads and stores of the calling processor on
//! the same physical memory. To the owner these are stores of another process to memory that, while it is registered,
//! the owner accesses only by atomics (through a pin of its own). Caches are coherent, and the stores precede the
//! caller's next release in the order of its instructions. Unlike the copies between threads, they may tear within a
//! word.
//!
//! * Rights. The kernel requires the rights of a debugger: the same user, and with Yama (`ptrace_scope` 1) the owner's
//!   consent. While memory is registered, the owner gives that consent to all processes (`PR_SET_PTRACER_ANY`), since it can
//!   give it only to one or to all. So in that time any process of the same user may attach to the owner, as on a system
//!   without Yama. If other code of the program has given such a consent before, the last deregistration takes it away.
//! * Checks. An owner can find out only whether the call exists, and whether the kernel can copy this kind of memory. A
//!   peer's pin finds out whether that peer may make the call.
//! * Identity. A process number is valid only in its namespace, and the system reuses it some time after the owner's
//!   end. So an entry names the owner's namespace, which a pin compares, and a cookie: a random word in the owner's
//!   memory, with its address. A pin reads the cookie when it begins, and again before a copy if the last check is
//!   older than [`RECHECK`]. A copy could reach another process only if in that time the owner died and the system used
//!   every other process number (2^15 or more).
//! * A process that can write the file of the shared memory without this crate can forge an entry. So it can direct
//!   copies at any process of the user, as with `/proc/PID/mem`. A rank takes no pointers or lengths for its own
//!   registered memory from that file: it uses its own table.
//!
//! # Cost
//!
//! A pin costs a compare-and-swap, and a fetch-and-add at its end. Between processes it also costs two calls of the kernel
//! and two writes of a word. A copy between threads is a copy and a fence. Between processes it is one call of the kernel,
//! for up to [`BATCH`] runs of bytes. A deregistration that waits sleeps on the state's word, and the last pin wakes it.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::memory::Mapping;
use super::registry::{CAPACITY, Entry, HELD, OPEN, PINS, Process, held};
use super::{Mapped, copy};
use crate::model::registered::{Pinned, PinnedWords, Refused, RegisteredKey, Run, UserMemory};
use crate::{Error, Operation, Rank, RemoteAtomics, Result};

/// The registrations of a handle, with the memory itself.
pub(super) struct Registrations {
    mapping: Arc<Mapping>,
    rank: Rank,
    memory: Mutex<HashMap<RegisteredKey, UserMemory>>,
    /// The places for pins of this rank that have been used and are free, and the number of places that have been used.
    places: Mutex<(Vec<usize>, usize)>,
}

impl Registrations {
    pub(super) fn new(mapping: Arc<Mapping>, rank: Rank) -> Registrations {
        Registrations { mapping, rank, memory: Mutex::default(), places: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<RegisteredKey, UserMemory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        let between_processes = !self.mapping.is_private();
        let owner = if between_processes { Process::own() } else { Process::default() };
        if between_processes
            && let Err(error) = owner.probe(self.rank, memory.start().addr().get() as u64, memory.len() as u64)
        {
            return Err(Refused { error, memory });
        }
        let entries = &self.mapping.registry(self.rank).entries;
        let Some((index, entry)) = entries.iter().enumerate().find(|(_, entry)| entry.take()) else {
            let error = Error::RegistrationFull { rank: self.rank, what: "registered memory", limit: CAPACITY as u64 };
            return Err(Refused { error, memory });
        };
        if between_processes {
            Consent::give();
        }
        let mut table = self.memory();
        let key = RegisteredKey(entry.open(&memory, owner) | index as u64);
        table.insert(key, memory);
        Ok(key)
    }

    /// Closes the entry of `key` and takes the memory out of the table, if it is there.
    fn close(&self, key: RegisteredKey) -> Option<(&Entry, UserMemory)> {
        let entry = entry(&self.mapping, self.rank, key)?;
        let memory = self.memory().remove(&key)?;
        entry.close();
        Some((entry, memory))
    }

    /// Frees an entry after `close`, when all remaining pins belong to dead processes.
    fn free(&self, entry: &Entry) {
        if entry.pins() == 0 {
            entry.free();
        }
        if !self.mapping.is_private() {
            Consent::take_back();
        }
    }

    /// Returns the list in which this rank notes its pins.
    fn held(&self) -> &[AtomicU64; HELD] {
        &self.mapping.registry(self.rank).held
    }

    /// Notes that this rank has pinned an entry of `owner`, if there is a place for the note.
    fn write_down(&self, owner: Rank, index: usize) -> Note<'_> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, used) = &mut *places;
        let place = free.pop().or_else(|| (*used < HELD).then(|| std::mem::replace(used, *used + 1)));
        if let Some(place) = place {
            // After the pin was counted (I5).
            self.held()[place].store(held(owner, index), Ordering::Release);
        }
        Note { registrations: self, place }
    }

    /// Returns the start and the length of memory that this same handle has registered.
    fn place(&self, key: RegisteredKey) -> Option<(NonNull<u8>, u64)> {
        self.memory().get(&key).map(|memory| (memory.start(), memory.len() as u64))
    }
}

/// A note of a pin for its owner, until this value is dropped.
struct Note<'a> {
    registrations: &'a Registrations,
    place: Option<usize>,
}

impl std::fmt::Debug for Note<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Note({:?})", self.place)
    }
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.registrations.held()[place].store(0, Ordering::Relaxed);
            self.registrations.places.lock().unwrap_or_else(PoisonError::into_inner).0.push(place);
        }
    }
}

impl Drop for Registrations {
    /// Drops memory without pins, and leaks the rest (I4).
    fn drop(&mut self) {
        let keys: Vec<RegisteredKey> = self.memory().keys().copied().collect();
        for (entry, memory) in keys.into_iter().filter_map(|key| self.close(key)) {
            if entry.pins() > 0 {
                std::mem::forget(memory);
            } else {
                self.free(entry);
            }
        }
    }
}

/// Returns the entry for `key`, if its index exists.
fn entry(mapping: &Mapping, owner: Rank, key: RegisteredKey) -> Option<&Entry> {
    // The low half of the key is the index.
    mapping.registry(owner).entries.get(key.0 as u32 as usize)
}

/// The time for which a deregistration watches the pins before it sleeps.
const WATCH: Duration = Duration::from_micros(200);

/// The time for which it sleeps before it checks whether its peers live. The end of the last pin wakes it earlier.
const SLEEP: Duration = Duration::from_millis(100);

/// The time for which a deregistration waits for the pins of live ranks after another rank has failed. It is several
/// times as long as a rank needs to learn of the failure and to end its access.
const FAREWELL: Duration = Duration::from_secs(2);

impl Mapped {
    pub(super) fn deregister_registered(&self, key: RegisteredKey) -> Result<UserMemory> {
        let registrations = &self.cells.registrations;
        let (entry, memory) = registrations.close(key).ok_or(Error::NotRegistered { rank: self.view.rank(), key })?;
        match self.wait_for_pins(entry, key) {
            Ok(()) => {
                registrations.free(entry);
                Ok(memory)
            }
            Err(error) => {
                // I4.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    fn wait_for_pins(&self, entry: &Entry, key: RegisteredKey) -> Result<()> {
        let start = self.now();
        let mut failed = None;
        loop {
            let state = entry.state.load(Ordering::Acquire);
            if state & PINS == 0 {
                return Ok(());
            }
            if let Err(error) = self.pause(1) {
                if state & PINS == self.pins_of_the_dead(key) {
                    return Ok(());
                }
                if self.now().since(*failed.get_or_insert_with(|| self.now())) >= FAREWELL {
                    return Err(error);
                }
            }
            if self.now().since(start) >= WATCH {
                self.mapping.sleep_word(&entry.state, state, SLEEP);
            }
        }
    }

    /// Returns the number of pins of this rank's registration `key` that belong to dead ranks.
    #[cold]
    fn pins_of_the_dead(&self, key: RegisteredKey) -> u64 {
        let pin = held(self.view.rank(), key.0 as u32 as usize);
        let dead = (0..self.view.size()).map(Rank).filter(|&rank| self.liveness().is_dead(rank));
        let held_by = |rank| &self.mapping.registry(rank).held;
        dead.flat_map(held_by).filter(|place| place.load(Ordering::Acquire) == pin).count() as u64
    }

    pub(super) fn pin_registered(&self, owner: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        if owner.0 >= self.view.size() {
            return Err(Error::RankOutOfRange { operation: Operation::Pin, rank: owner, size: self.view.size() });
        }
        if self.mapping.has_failed(owner) {
            return Err(Error::PeerFailed { rank: owner });
        }
        let refused = Error::NotRegistered { rank: owner, key };
        let Some(entry) = entry(&self.mapping, owner, key) else { return Err(refused) };
        match entry.pin(key) {
            Some(true) => {}
            Some(false) => return Err(refused),
            None => return Err(Error::RegistrationFull { rank: owner, what: "a pin of this memory", limit: PINS }),
        }
        let pin = Pin { mapping: &self.mapping, entry };
        let (start, bytes) = (entry.start.load(Ordering::Relaxed), entry.bytes.load(Ordering::Relaxed));
        let direct = if self.mapping.is_private() {
            NonNull::new(std::ptr::with_exposed_provenance_mut(start as usize)).map(|start| (start, bytes))
        } else if owner == self.view.rank() {
            self.cells.registrations.place(key)
        } else {
            None
        };
        let (access, bytes) = match direct {
            Some((start, bytes)) => (PinnedAccess::Direct(start), bytes),
            None => {
                let process = entry.owner();
                process.probe(owner, start, bytes)?;
                let note = self.cells.registrations.write_down(owner, key.0 as u32 as usize);
                let kernel = Kernel { process, start, checked: Cell::new(coarse_time()), _note: note };
                (PinnedAccess::Kernel(Box::new(kernel)), bytes)
            }
        };
        let everywhere = self.mapping.is_private() || self.view.size() == 1;
        Ok(Box::new(MappedPinned { access, _pin: pin, owner, bytes, everywhere }))
    }
}

/// One pin in an entry's count.
struct Pin<'a> {
    mapping: &'a Mapping,
    entry: &'a Entry,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let old = self.entry.state.fetch_sub(1, Ordering::Release);
        // This was the last pin of a closed entry, whose owner may sleep until then. If the entry has other memory by
        // now, no rank waits for the wake-up, which is harmless.
        if old & (OPEN | PINS) == 1 {
            self.mapping.wake_word(&self.entry.state);
        }
    }
}

/// The way in which this rank reaches pinned memory.
#[derive(Debug)]
enum PinnedAccess<'a> {
    /// By a pointer: the memory starts here, in this process.
    Direct(NonNull<u8>),
    /// By copies of the kernel. The data are boxed, so that a pin between threads is short.
    Kernel(Box<Kernel<'a>>),
}

/// Pinned memory of another process.
#[derive(Debug)]
struct Kernel<'a> {
    process: Process,
    /// The start of the memory in that process.
    start: u64,
    /// The time of the last check of the process.
    checked: Cell<Duration>,
    _note: Note<'a>,
}

struct MappedPinned<'a> {
    /// Ahead of the pin, since it is dropped first: the note is removed before the count is given back (I5).
    access: PinnedAccess<'a>,
    _pin: Pin<'a>,
    owner: Rank,
    bytes: u64,
    /// True if every rank reaches the memory directly.
    everywhere: bool,
}

impl std::fmt::Debug for MappedPinned<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MappedPinned { owner, bytes, access, everywhere: _, _pin: _ } = self;
        write!(f, "Pinned({bytes} bytes of {owner}, {access:?})")
    }
}

impl MappedPinned<'_> {
    fn check(&self, offset: u64, len: usize) -> Result<()> {
        let len = len as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.bytes) {
            return Err(Error::OutOfRegistered { rank: self.owner, offset, len, bytes: self.bytes });
        }
        Ok(())
    }

    /// Checks that all runs lie in this memory and in a buffer of `buffer` bytes.
    fn check_runs(&self, buffer: usize, runs: &[Run]) -> Result<()> {
        for run in runs {
            assert!(
                run.at <= buffer && run.len <= buffer - run.at,
                "a run of {} bytes at {} of a buffer of {buffer}",
                run.len,
                run.at
            );
            self.check(run.offset, run.len)?;
        }
        Ok(())
    }

    /// Copies runs of the buffer at `local` by the kernel. The runs exist.
    ///
    /// # Safety
    ///
    /// The conditions of [`kernel_copy`], with `process` as the owner of this memory.
    unsafe fn copy(&self, call: Call, local: *mut u8, runs: &[Run]) -> Result<()> {
        let PinnedAccess::Kernel(kernel) = &self.access else { return Ok(()) };
        let Kernel { process, start, checked, .. } = &**kernel;
        let now = coarse_time();
        if now.saturating_sub(checked.get()) >= RECHECK {
            process.recognize(self.owner)?;
            checked.set(now);
        }
        // SAFETY: the caller's promise.
        unsafe { kernel_copy(call, process.pid, local, *start, runs) }.map_err(|error| refusal(self.owner, call, error))
    }

    /// Every put ends here. It is complete at the owner once a flush, or this fence, has ordered it before later
    /// operations.
    fn complete(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

impl Pinned for MappedPinned<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn put(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.check(offset, source.len())?;
        match self.access {
            // SAFETY: `source` is borrowed. The range lies in the memory (checked), which stays valid while this pin
            // lives (I4). All accesses in that time go through pins, by these copies and atomics.
            PinnedAccess::Direct(start) => unsafe {
                copy::to_shared(source.as_ptr(), start.as_ptr().add(offset as usize), source.len());
            },
            // SAFETY: the kernel only reads `source`, which is borrowed; the range was checked.
            PinnedAccess::Kernel(_) => unsafe {
                self.copy(Call::Writev, source.as_ptr().cast_mut(), &[Run { offset, ..whole(source.len()) }])?;
            },
        }
        self.complete();
        Ok(())
    }

    fn put_runs(&self, source: &[u8], runs: &[Run]) -> Result<()> {
        self.check_runs(source.len(), runs)?;
        match self.access {
            PinnedAccess::Direct(start) => {
                for run in runs {
                    // SAFETY: as for a put; the run lies in both (checked).
                    unsafe {
                        let there = start.as_ptr().add(run.offset as usize);
                        copy::to_shared(source.as_ptr().add(run.at), there, run.len);
                    }
                }
            }
            // SAFETY: as for a put; the runs lie in both (checked).
            PinnedAccess::Kernel(_) => unsafe { self.copy(Call::Writev, source.as_ptr().cast_mut(), runs)? },
        }
        self.complete();
        Ok(())
    }

    fn get(&self, offset: u64, dest: &mut [u8]) -> Result<()> {
        self.check(offset, dest.len())?;
        match self.access {
            // SAFETY: as for a put; `dest` is borrowed mutably.
            PinnedAccess::Direct(start) => unsafe {
                copy::from_shared(start.as_ptr().add(offset as usize), dest.as_mut_ptr(), dest.len());
            },
            // SAFETY: the kernel writes to `dest`, which is borrowed mutably; the range was checked.
            PinnedAccess::Kernel(_) => unsafe {
                self.copy(Call::Readv, dest.as_mut_ptr(), &[Run { offset, ..whole(dest.len()) }])?;
            },
        }
        // Pairs with the release of the operation from which this rank knows that the bytes are there.
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(())
    }

    fn get_runs(&self, dest: &mut [u8], runs: &[Run]) -> Result<()> {
        self.check_runs(dest.len(), runs)?;
        match self.access {
            PinnedAccess::Direct(start) => {
                for run in runs {
                    // SAFETY: as for a get; the run lies in both (checked).
                    unsafe {
                        let there = start.as_ptr().add(run.offset as usize);
                        copy::from_shared(there, dest.as_mut_ptr().add(run.at), run.len);
                    }
                }
            }
            // SAFETY: as for a get; the runs lie in both (checked).
            PinnedAccess::Kernel(_) => unsafe { self.copy(Call::Readv, dest.as_mut_ptr(), runs)? },
        }
        std::sync::atomic::fence(Ordering::Acquire);
        Ok(())
    }

    fn words(&self) -> Option<PinnedWords<'_>> {
        let PinnedAccess::Direct(start) = self.access else { return None };
        let bytes = self.bytes as usize;
        let head = start.as_ptr().align_offset(size_of::<u64>()).min(bytes);
        let words = match (bytes - head) / size_of::<u64>() {
            // The memory may have no aligned address.
            0 => &[],
            // SAFETY: the words lie in the memory, after the bytes before the first aligned one; it stays valid while
            // this pin lives (I4), and is accessed by atomics and copies that act as such.
            words => unsafe {
                std::slice::from_raw_parts(start.as_ptr().add(head).cast::<AtomicU64>().cast_const(), words)
            },
        };
        Some(PinnedWords { head: head as u64, words, everywhere: self.everywhere })
    }
}

/// The largest age of a check that a process number still belongs to the owner.
const RECHECK: Duration = Duration::from_millis(100);

/// Returns the time of a clock that ticks every few milliseconds and costs almost nothing.
fn coarse_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Process {
    fn own() -> Process {
        /// A word that no other process has at this address, except children of this process.
        static COOKIE: OnceLock<u64> = OnceLock::new();
        let cookie = COOKIE.get_or_init(|| std::hash::RandomState::new().hash_one(std::process::id()));
        Process {
            pid: std::process::id().into(),
            namespace: namespace(),
            cookie_at: std::ptr::from_ref(cookie).expose_provenance() as u64,
            cookie: *cookie,
        }
    }

    /// Checks that this process may reach the process of `rank`, and its memory.
    fn probe(&self, rank: Rank, start: u64, bytes: u64) -> Result<()> {
        if self.namespace != namespace() {
            return Err(unsupported(
                "its owner counts processes in another namespace (another container); start all ranks in the same one, or allocate the window's memory instead",
            ));
        }
        self.recognize(rank)?;
        let mut first = 0;
        // SAFETY: the kernel writes at most one byte, to `first`.
        unsafe { kernel_copy(Call::Readv, self.pid, &raw mut first, start, &[whole(bytes.min(1) as usize)]) }
            .map_err(|error| refusal(rank, Call::Readv, error))
    }

    /// Checks that the process with this number is still the owner.
    fn recognize(&self, rank: Rank) -> Result<()> {
        let mut cookie = 0u64;
        // SAFETY: the kernel writes at most 8 bytes, to `cookie`.
        let read = unsafe {
            kernel_copy(Call::Readv, self.pid, (&raw mut cookie).cast(), self.cookie_at, &[whole(size_of::<u64>())])
        };
        match read {
            Ok(()) if cookie == self.cookie => Ok(()),
            // Another process has the number now.
            Ok(()) => Err(Error::PeerFailed { rank }),
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Err(Error::PeerFailed { rank }),
            Err(error) => Err(refusal(rank, Call::Readv, error)),
        }
    }
}

/// Returns the namespace of this process's number, in which a process stays for life.
fn namespace() -> u64 {
    static NAMESPACE: OnceLock<u64> = OnceLock::new();
    *NAMESPACE.get_or_init(|| std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()))
}

/// The direction in which the kernel copies.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// From the other process.
    Readv,
    /// To the other process.
    Writev,
}

/// The largest number of runs of one call of the kernel (`UIO_MAXIOV`).
const BATCH: usize = 1024;

#[cfg(test)]
thread_local! {
    /// The number of times that this thread has called the kernel to copy.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Copies runs, in their order, between a buffer at `local` of this process and memory at `remote` of process number
/// `pid`.
///
/// # Safety
///
/// The runs of `local` are valid for reads if the kernel writes to the other process, and otherwise for writes, with no
/// other access to them. If the process is this one, the runs of `remote` are valid as well, and during the call they
/// are accessed only by atomics or such copies.
unsafe fn kernel_copy(call: Call, pid: u64, local: *mut u8, remote: u64, runs: &[Run]) -> std::io::Result<()> {
    // Another user of the shared memory has stored the number. 0 is not the number of a process.
    let pid = libc::pid_t::try_from(pid).unwrap_or(0);
    // A single run needs no allocation for its vectors.
    let (mut one, mut many) = ([NO_BYTES; 2], Vec::new());
    for batch in runs.chunks(BATCH) {
        let vectors = if batch.len() == 1 {
            &mut one[..]
        } else {
            many.clear();
            many.resize(2 * batch.len(), NO_BYTES);
            &mut many[..]
        };
        let (here, there) = vectors.split_at_mut(batch.len());
        for ((here, there), run) in here.iter_mut().zip(there.iter_mut()).zip(batch) {
            here.iov_base = local.wrapping_add(run.at).cast();
            there.iov_base = std::ptr::with_exposed_provenance_mut(remote.wrapping_add(run.offset) as usize);
            (here.iov_len, there.iov_len) = (run.len, run.len);
        }
        while let Some(first) = here.iter().position(|vector| vector.iov_len > 0) {
            let (here, there) = (&mut here[first..], &mut there[first..]);
            #[cfg(test)]
            CALLS.set(CALLS.get() + 1);
            let (ours, theirs, n) = (here.as_ptr(), there.as_ptr(), here.len() as libc::c_ulong);
            // SAFETY: the caller's promise for `local`; the kernel checks the other process's addresses.
            let moved = unsafe {
                match call {
                    Call::Readv => libc::process_vm_readv(pid, ours, n, theirs, n, 0),
                    Call::Writev => libc::process_vm_writev(pid, ours, n, theirs, n, 0),
                }
            };
            match usize::try_from(moved) {
                // The call stops early at 2 GiB, or at memory that does not exist, which the next call then finds
                // first.
                Ok(moved) if moved > 0 => advance(here, there, moved),
                Ok(_) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    if error.kind() != std::io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns the one run of `len` bytes from both starts.
fn whole(len: usize) -> Run {
    Run { at: 0, offset: 0, len }
}

/// An empty vector.
const NO_BYTES: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Takes the first `moved` bytes off both sides, whose vectors have the same lengths.
fn advance(here: &mut [libc::iovec], there: &mut [libc::iovec], mut moved: usize) {
    for (here, there) in here.iter_mut().zip(there) {
        let part = moved.min(here.iov_len);
        for vector in [here, there] {
            vector.iov_base = vector.iov_base.wrapping_byte_add(part);
            vector.iov_len -= part;
        }
        moved -= part;
        if moved == 0 {
            break;
        }
    }
}

fn unsupported(why: &'static str) -> Error {
    Error::Unsupported { what: "access to another process's own memory", why }
}

/// Returns the error for the kernel's refusal to copy from or to the memory of `rank`.
#[cold]
fn refusal(rank: Rank, call: Call, error: std::io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Error::PeerFailed { rank },
        Some(errno @ (libc::EPERM | libc::ENOSYS)) => {
            let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
            unsupported(why_forbidden(errno, scope.as_deref().unwrap_or_default().trim()))
        }
        _ => {
            let call = match call {
                Call::Readv => "process_vm_readv",
                Call::Writev => "process_vm_writev",
            };
            Error::system(format!("{call} on memory that {rank} has registered"), error)
        }
    }
}

/// Returns the text of what forbids the access, with advice. `scope` is Yama's setting, empty without Yama.
fn why_forbidden(errno: i32, scope: &str) -> &'static str {
    match (errno, scope) {
        (libc::ENOSYS, _) => {
            "this kernel has no process_vm_readv and process_vm_writev, or a container hides them (allow them in its seccomp profile, or start it with --cap-add=SYS_PTRACE); or allocate the window's memory instead"
        }
        (_, "3") => {
            "/proc/sys/kernel/yama/ptrace_scope is 3, which forbids it to all until the next boot; allocate the window's memory instead"
        }
        (_, "2") => {
            "/proc/sys/kernel/yama/ptrace_scope is 2, which takes the capability CAP_SYS_PTRACE (for a container, --cap-add=SYS_PTRACE): give it, or set 1, or allocate the window's memory instead"
        }
        _ => {
            "the kernel forbids process_vm_readv and process_vm_writev (EPERM): the ranks are of different users or one is not dumpable, or a container's seccomp profile is in the way (start it with --cap-add=SYS_PTRACE); or allocate the window's memory instead"
        }
    }
}

/// The consent of this process that other processes of its user may reach its memory. Yama requires it.
struct Consent;

/// The number of registrations that need the consent.
static CONSENTS: Mutex<usize> = Mutex::new(0);

impl Consent {
    /// Gives the consent with the first registration of the process.
    fn give() {
        let mut count = CONSENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if *count == 0 {
            Consent::set(libc::PR_SET_PTRACER_ANY);
        }
        *count += 1;
    }

    /// Takes the consent back with the last registration.
    fn take_back() {
        let mut count = CONSENTS.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            Consent::set(0);
        }
    }

    fn set(who: libc::c_ulong) {
        // SAFETY: the call takes numbers only. It fails without Yama, where no consent is needed.
        let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, who) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;
    use crate::backend::mapped::registry::GENERATION;

    #[test]
    fn a_place_whose_generations_are_used_up_is_retired() {
        World::threads(1)
            .run(|ra| {
                let last = u64::from(u32::MAX) << GENERATION;
                let entry = &ra.mapping().registry(Rank(0)).entries[0];
                entry.state.store(last - (1 << GENERATION), Ordering::Relaxed);
                let key = ra.register(UserMemory::from_vec(vec![1u8])).unwrap();
                assert_eq!(key.0, last);
                ra.pin(Rank(0), key).unwrap();
                ra.deregister(key).unwrap();
                assert_eq!(entry.state.load(Ordering::Relaxed), last);
                let next = ra.register(UserMemory::from_vec(vec![2u8])).unwrap();
                assert_eq!(next.0, 1 << GENERATION | 1, "the next place");
                assert!(matches!(ra.pin(Rank(0), key), Err(Error::NotRegistered { .. })));
            })
            .unwrap();
    }

    #[test]
    fn a_rank_takes_the_length_of_its_own_memory_from_no_file() {
        let layout = crate::mapped::Layout::new(1, 8).unwrap();
        let file = crate::backend::shm::create(layout).unwrap();
        // SAFETY: a new sealed file, which no other code writes.
        let mapping = unsafe { Mapping::shared(std::os::fd::AsFd::as_fd(&file), layout, true).unwrap() };
        let ra = Mapped::new(Arc::new(mapping), Rank(0), crate::Topology::one_node(1), "test").unwrap();
        let key = ra.register(UserMemory::from_vec(vec![0u8; 24])).unwrap();
        ra.mapping().registry(Rank(0)).entries[0].bytes.store(1 << 40, Ordering::Relaxed);
        let pin = ra.pin(Rank(0), key).unwrap();
        assert!(matches!(pin.put(16, &[1; 9]), Err(Error::OutOfRegistered { bytes: 24, .. })));
        pin.put(16, &[1; 8]).unwrap();
        drop(pin);
        assert_eq!(ra.deregister(key).unwrap().into_vec::<u8>().unwrap()[15..], [0, 1, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn there_is_an_end_to_pins() {
        World::threads(1)
            .run(|ra| {
                let key = ra.register(UserMemory::from_vec(vec![1u8])).unwrap();
                let state = &ra.mapping().registry(Rank(0)).entries[0].state;
                state.fetch_add(PINS - 1, Ordering::Relaxed);
                let last = ra.pin(Rank(0), key).unwrap();
                let error = ra.pin(Rank(0), key).unwrap_err();
                assert!(matches!(error, Error::RegistrationFull { limit: PINS, .. }), "{error}");
                drop(last);
                state.fetch_sub(PINS - 1, Ordering::Relaxed);
                ra.deregister(key).unwrap();
            })
            .unwrap();
    }

    #[test]
    fn processes_with_the_same_number_are_distinguished() {
        let own = Process::own();
        let byte = 1u8;
        let (at, rank) = (std::ptr::from_ref(&byte).expose_provenance() as u64, Rank(4));
        own.probe(rank, at, 1).unwrap();
        let failed = |process: Process| matches!(process.probe(rank, at, 1), Err(Error::PeerFailed { rank: Rank(4) }));
        assert!(failed(Process { cookie: own.cookie ^ 1, ..own }), "another word there");
        assert!(failed(Process { cookie_at: 8, ..own }), "nothing there");
        // Numbers end at 2^22 (proc_pid(5)).
        assert!(failed(Process { pid: 1 << 30, ..own }), "no such process");
        assert!(failed(Process { pid: u64::MAX, ..own }), "no such number");
        let error = Process { namespace: own.namespace ^ 1, ..own }.probe(rank, at, 1).unwrap_err().to_string();
        assert!(error.contains("another namespace"), "{error}");
        let error = own.probe(rank, 8, 1).unwrap_err().to_string();
        assert!(error.contains("process_vm_readv on memory that rank 4 has registered"), "{error}");
        own.probe(rank, 8, 0).unwrap();
    }

    /// Copies within this process as if from another one: `run` copies 5 of every 8 bytes.
    fn copied(call: Call, runs: usize) -> usize {
        let mut other = vec![7u8; 8 * runs];
        let mut buffer: Vec<u8> = (0..5 * runs).map(|i| i as u8).collect();
        let pieces: Vec<Run> = (0..runs).map(|i| Run { at: 5 * i, offset: 8 * i as u64 + 3, len: 5 }).collect();
        let (pid, remote) = (std::process::id().into(), other.as_mut_ptr().expose_provenance() as u64);
        CALLS.set(0);
        // SAFETY: the runs lie in both vectors, which only the kernel accesses during the call.
        unsafe { kernel_copy(call, pid, buffer.as_mut_ptr(), remote, &pieces).unwrap() };
        for (i, Run { at, offset, len }) in pieces.into_iter().enumerate() {
            let (here, there) = (&buffer[at..at + len], &other[offset as usize..offset as usize + len]);
            assert_eq!(here, there, "run {i} of {runs}");
        }
        CALLS.get()
    }

    #[test]
    fn one_call_of_the_kernel_copies_many_runs() {
        for call in [Call::Readv, Call::Writev] {
            for (runs, calls) in [(0, 0), (1, 1), (2, 1), (1023, 1), (1024, 1), (1025, 2), (50_000, 49)] {
                assert_eq!(copied(call, runs), calls, "{call:?} of {runs} runs");
            }
        }
    }

    #[test]
    fn a_call_that_stops_early_goes_on_where_it_stopped() {
        let vector = |base: usize, len| libc::iovec { iov_base: std::ptr::without_provenance_mut(base), iov_len: len };
        let ends = |side: &[libc::iovec]| -> Vec<(usize, usize)> {
            side.iter().map(|vector| (vector.iov_base.addr(), vector.iov_len)).collect()
        };
        let mut ours = [vector(100, 8), vector(200, 4), vector(300, 2)];
        let mut theirs = [vector(10, 8), vector(20, 4), vector(30, 2)];
        advance(&mut ours, &mut theirs, 10);
        assert_eq!(ends(&ours), [(108, 0), (202, 2), (300, 2)]);
        assert_eq!(ends(&theirs), [(18, 0), (22, 2), (30, 2)]);
        advance(&mut ours, &mut theirs, 4);
        assert_eq!(ends(&theirs), [(18, 0), (24, 0), (32, 0)]);
    }

    #[test]
    fn the_error_names_what_forbids_access() {
        for (errno, scope, words) in [
            (libc::ENOSYS, "1", "no process_vm_readv"),
            (libc::EPERM, "3", "is 3"),
            (libc::EPERM, "2", "is 2"),
            (libc::EPERM, "1", "EPERM"),
            (libc::EPERM, "", "EPERM"),
        ] {
            let why = why_forbidden(errno, scope);
            assert!(why.contains(words) && why.contains("allocate the window's memory instead"), "{why}");
        }
    }
}
