//! Windows of mode `native`: the engine has the epochs, the locks and the data. All ranks map the memory. Created and dynamic windows have
//! the program's own memory, which the kernel copies between the processes.
//!
//! The program's handle is a window of the host over this rank alone, the *carrier*. It has no memory that the program sees, but it
//! has the name, the attributes, the info and the error handler. So the host never accesses the program's memory by an operation, and
//! there is one path for accumulates:
//!
//! | operation | path |
//! | --- | --- |
//! | put and get of dense predefined types | the engine |
//! | put and get of other types, in memory that this rank maps | a message of this rank to itself: the host's copy from one type to another |
//! | put and get of other types, elsewhere | the engine, with the layout of the target's type; the host packs and unpacks the origin's items |
//! | accumulates, fetches and swaps of dense predefined types that the engine has | the engine |
//! | accumulates of other types | the host's `MPI_Reduce_local` on copies, while the engine keeps all other updates of the target away |
//!
//! Because of the last row, all accumulates are atomic against each other:
//! [`Target::exclusively`](rmalab_windows::Target::exclusively) also excludes the engine's atomics. On memory of the program, all
//! accumulates hold the target's lock, including accumulates of the target's rank.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use mpi_sys as ffi;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{
    Assert, Begun, Call, ElementKind, Error, FenceAssert, Flavor, Layout, LockKind, Op, PostAssert, StartAssert,
    WindowDisp,
};

use super::engine::{Engine, Memory, Shared, program_memory};
use super::host::{self, Group, Members, Win};
use super::threads;
use super::types::{self, Dense, Types};
use crate::policy::{Failure, Result, strategies};
use crate::settings::{Control, Mode};
use crate::table::Window;

/// Items in memory: their first byte, their number and their type.
#[derive(Clone, Copy)]
pub(crate) struct Items {
    pub(crate) at: *mut c_void,
    pub(crate) count: i64,
    pub(crate) of: ffi::MPI_Datatype,
}

/// Items of a target's part.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) disp: i64,
    pub(crate) count: i64,
    pub(crate) of: ffi::MPI_Datatype,
}

/// A rank's part of a window.
struct RankMemory {
    base: *mut u8,
    bytes: u64,
    unit: u32,
    /// True if it is at this address in this process. Otherwise it has no bytes here.
    is_mapped: bool,
}

impl RankMemory {
    /// A part that only the engine reaches.
    const ELSEWHERE: RankMemory = RankMemory { base: std::ptr::null_mut(), bytes: 0, unit: 1, is_mapped: false };
}

/// The values of a window's attributes, at the addresses that a program gets.
struct Attributes {
    base: *mut c_void,
    size: ffi::MPI_Aint,
    unit: c_int,
    flavor: c_int,
    model: c_int,
}

unsafe extern "C" {
    #[link_name = "rmalab_mpi_win_base"]
    static WIN_BASE: c_int;
    #[link_name = "rmalab_mpi_win_size"]
    static WIN_SIZE: c_int;
    #[link_name = "rmalab_mpi_win_disp_unit"]
    static WIN_DISP_UNIT: c_int;
    #[link_name = "rmalab_mpi_win_create_flavor"]
    static WIN_CREATE_FLAVOR: c_int;
    #[link_name = "rmalab_mpi_win_model"]
    static WIN_MODEL: c_int;
    #[link_name = "rmalab_mpi_flavor_allocate"]
    static FLAVOR_ALLOCATE: c_int;
    #[link_name = "rmalab_mpi_flavor_shared"]
    static FLAVOR_SHARED: c_int;
    #[link_name = "rmalab_mpi_flavor_create"]
    static FLAVOR_CREATE: c_int;
    #[link_name = "rmalab_mpi_flavor_dynamic"]
    static FLAVOR_DYNAMIC: c_int;
    #[link_name = "rmalab_mpi_model_unified"]
    static MODEL_UNIFIED: c_int;
}

/// One call out of this many lets the host make progress. A program that polls a window may wait for data that the host still
/// has to send.
const CALLS: u32 = 1024;

/// A window whose data the engine moves.
pub(crate) struct Native {
    pub(crate) win: Win,
    engine: Engine<Shared>,
    flavor: Flavor,
    parts: Box<[RankMemory]>,
    /// The addresses at which this rank has attached zero bytes, which the engine does not support.
    attached_empty: RefCell<Vec<usize>>,
    group: Group,
    /// Lists for the group of a call, so that a call of an epoch allocates nothing.
    members: Cell<Option<Box<Members>>>,
    attributes: Box<Attributes>,
    types: &'static Types,
    /// The number of calls since the host last made progress.
    calls: Cell<u32>,
    /// A locked target, plus one; [`NONE`], or [`ALL`]. The engine may have locked other targets, too.
    open: Cell<u64>,
    /// True if a short path has begun a lock that waits.
    is_begun: Cell<bool>,
    /// True if this rank has stored by a short path since its last flush.
    is_dirty: Cell<bool>,
    /// True if the engine has written for this rank since then.
    has_posted: Cell<bool>,
    /// The dense type of the last operation.
    last_type: Cell<(ffi::MPI_Datatype, Dense)>,
    /// True if the program has changed the carrier, so that no other window gets it.
    is_marked: Cell<bool>,
}

const EXCLUSIVE: c_int = ffi::MPI_LOCK_EXCLUSIVE as c_int;
const SHARED: c_int = ffi::MPI_LOCK_SHARED as c_int;

/// No target is known to the short paths.
const NONE: u64 = 0;
/// All targets, by lock_all.
const ALL: u64 = u64::MAX;

/// The window of the last call, if it was a native window.
static LAST: AtomicPtr<Native> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the window of the last call, if it has this handle and calls are not counted.
///
/// The caller uses the reference only for a short path. Nothing frees the window there: no error handler runs. A waiting lock lets
/// the host make progress, but a program must not free a window that it is locking.
#[inline(always)]
pub(crate) fn last<'a>(win: Win) -> Option<&'a Native> {
    // SAFETY: the table resets the pointer before it releases a window to be freed. Where several threads may call at a time, there is
    // no such pointer (`set_last`).
    let last = unsafe { LAST.load(Ordering::Relaxed).as_ref() };
    last.filter(|last| last.win == win)
}

/// Records the window of a call.
pub(crate) fn set_last(window: &Window) {
    let is_short = !crate::summary::is_wanted() && !crate::record::is_on() && !threads::are_many();
    let at = match window {
        // The short paths count and record no calls, and pass no gate.
        Window::Native(native) if is_short => std::ptr::from_ref(native).cast_mut(),
        Window::Native(_) => std::ptr::null_mut(),
        Window::Policy(_) => std::ptr::null_mut(),
    };
    LAST.store(at, Ordering::Relaxed);
}

/// Forgets a window that is about to be freed.
pub(crate) fn forget_last() {
    LAST.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Runs an operation in its epoch. An operation with a request belongs to an epoch of locks.
macro_rules! within {
    ($self:expr, $request:expr, $call:ident, $target:expr, $there:ident => $body:expr) => {
        if !$request && let Some(there) = $self.engine.raw().locked($target) {
            let $there = &there;
            let done: std::result::Result<_, Error> = $body;
            done?
        } else if $request {
            $self.engine.raw().operate_with_requests(Call::$call, $target, |$there| $body)?
        } else {
            $self.engine.raw().operate(Call::$call, $target, |$there| $body)?
        }
    };
}

/// Returns `len` bytes of the program. At the null address there are none.
///
/// # Safety
///
/// The bytes are valid for reads until the MPI call that named them returns, and nothing writes them meanwhile.
#[inline(always)]
unsafe fn bytes<'a>(at: *const c_void, len: u64) -> Result<&'a [u8]> {
    match len {
        0 => Ok(&[]),
        _ if at.is_null() => refuse(ffi::MPI_ERR_BUFFER),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(at.cast(), len as usize) }),
    }
}

/// Returns `len` bytes of the program, to be written.
///
/// # Safety
///
/// The conditions of [`bytes`], and nothing reads the bytes meanwhile.
#[inline(always)]
unsafe fn bytes_mut<'a>(at: *mut c_void, len: u64) -> Result<&'a mut [u8]> {
    match len {
        0 => Ok(&mut []),
        _ if at.is_null() => refuse(ffi::MPI_ERR_BUFFER),
        // SAFETY: as in `bytes`.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len as usize) }),
    }
}

/// Returns the error of a class, which the window's error handler has not got yet.
#[cold]
pub(super) fn refuse<T>(class: u32) -> Result<T> {
    Err(Failure::Class(class as c_int))
}

impl Native {
    /// Makes the window over an engine that has `memory`. `is_marked` is true if the carrier was made for this window
    /// only.
    pub(crate) fn new(
        win: Win,
        engine: Engine<Shared>,
        group: Group,
        memory: Memory,
        is_marked: bool,
    ) -> std::result::Result<Native, String> {
        let raw = engine.raw();
        let ranks = engine.ranks();
        let (rank, flavor) = (raw.team().rank(), raw.flavor());
        let mut parts = Vec::new();
        for each in (0..ranks.size()).map(Rank) {
            match memory {
                Memory::Program { base, bytes, unit } if each == rank => {
                    parts.push(RankMemory { base: base.cast(), bytes, unit, is_mapped: true });
                    continue;
                }
                Memory::Program { .. } | Memory::Attached => {
                    parts.push(RankMemory::ELSEWHERE);
                    continue;
                }
                _ => {}
            }
            let part = raw.shared_query(each).map_err(|error| error.to_string())?;
            let at = part.address().ok_or("a part of the window is in no segment")?;
            let segment =
                ranks.shared_words(at.rank.at(rmalab_atomics::Disp(0)), 1).ok_or("a rank's memory is not shared")?;
            let base = segment.as_ptr().cast_mut().cast::<u8>().wrapping_add(at.disp.0 as usize);
            parts.push(RankMemory { base, bytes: part.bytes(), unit: part.disp_unit(), is_mapped: true });
        }
        let own = &parts[rank.index()];
        // SAFETY: constants of C.
        let (number, model) = unsafe {
            let number = match flavor {
                Flavor::Allocate => FLAVOR_ALLOCATE,
                Flavor::Shared => FLAVOR_SHARED,
                Flavor::Create => FLAVOR_CREATE,
                Flavor::Dynamic => FLAVOR_DYNAMIC,
            };
            (number, MODEL_UNIFIED)
        };
        // A dynamic window has the base MPI_BOTTOM, which is null, no bytes and the unit 1.
        let (base, size, unit) = (own.base.cast(), own.bytes as ffi::MPI_Aint, own.unit as c_int);
        let attributes = Box::new(Attributes { base, size, unit, flavor: number, model });
        Ok(Native {
            win,
            flavor,
            parts: parts.into(),
            attached_empty: RefCell::default(),
            group,
            members: Cell::default(),
            attributes,
            types: Types::all(),
            calls: Cell::new(0),
            open: Cell::new(NONE),
            is_begun: Cell::new(false),
            is_dirty: Cell::new(false),
            has_posted: Cell::new(false),
            last_type: Cell::new(Types::all().bytes()),
            // Fortran may change a carrier without a call that reaches this library.
            is_marked: Cell::new(is_marked || host::has_fortran()),
            engine,
        })
    }

    /// Returns the choices in force, as info keys.
    pub(crate) fn in_force(&self) -> Vec<(&'static str, String)> {
        strategies(&self.engine.raw().info(), Mode::Native, Control::Shared)
    }

    /// Returns the address of this rank's part.
    pub(crate) fn base(&self) -> *mut c_void {
        self.attributes.base
    }

    /// Returns whether this process has the target's part at an address.
    fn is_mapped(&self, target: Rank) -> bool {
        self.parts.get(target.index()).is_some_and(|part| part.is_mapped)
    }

    /// Notes that the program has changed the carrier.
    pub(crate) fn mark(&self) {
        self.is_marked.set(true);
    }

    /// Frees the engine, and returns whether another window may have the carrier. Collective.
    pub(crate) fn free(self) -> (Result<()>, bool) {
        let freed = self.engine.free();
        host::free_group(self.group);
        (freed.map_err(Failure::from), !self.is_marked.get())
    }

    /// Lets the host make progress at intervals.
    #[inline(always)]
    fn count(&self) {
        if self.is_time() {
            self.progress();
        }
    }

    #[cold]
    #[inline(never)]
    fn progress(&self) {
        self.calls.set(0);
        host::progress();
    }

    /// Returns the bytes of the items at both ends, if both types are dense.
    #[inline(always)]
    fn dense(&self, here: Items, there: Remote) -> Option<(u64, u64)> {
        let near = self.dense_type(here.of)?;
        let far = if here.of == there.of { near } else { self.types.dense(there.of)? };
        let bytes = |count: i64, size: u64| u64::try_from(count).ok()?.checked_mul(size);
        Some((bytes(here.count, near.size)?, bytes(there.count, far.size)?))
    }

    #[inline(always)]
    fn dense_type(&self, of: ffi::MPI_Datatype) -> Option<Dense> {
        let (last, dense) = self.last_type.get();
        if last == of {
            return Some(dense);
        }
        let dense = self.types.dense(of)?;
        self.last_type.set((of, dense));
        Some(dense)
    }

    /// Returns whether a short path may operate on this rank of the program.
    #[inline(always)]
    fn is_open(&self, target: c_int) -> bool {
        let open = self.open.get();
        // With the conversion, a null target or a negative rank is larger than any rank.
        open == u64::from(target as u32) + 1 || open == ALL && (target as u32 as usize) < self.parts.len()
    }

    /// Returns the word at a displacement of a target, if the short paths know that the target is locked.
    #[inline(always)]
    fn word(&self, target: c_int, disp: i64) -> Option<&AtomicU64> {
        if !self.is_open(target) {
            return None;
        }
        let part = self.parts.get(target as usize)?;
        let offset = (disp as u64).checked_mul(u64::from(part.unit))?;
        let at = part.base.wrapping_add(offset as usize);
        // A negative displacement is beyond any part.
        if part.bytes < 8 || offset > part.bytes - 8 || !at.addr().is_multiple_of(8) {
            return None;
        }
        // SAFETY: the word is aligned and lies in the part (checked), which is mapped as long as the engine lives. All accesses of this
        // crate to it are atomic, or are copies of other languages.
        Some(unsafe { &*at.cast::<AtomicU64>() })
    }

    /// Returns whether the items at both ends are 8 bytes of a dense type.
    #[inline(always)]
    fn is_word(&self, origin: Items, there: Remote) -> bool {
        let (last, dense) = self.last_type.get();
        !origin.at.is_null()
            && origin.of == last
            && there.of == last
            && origin.count == there.count
            && origin.count.wrapping_mul(dense.size as i64) == 8
    }

    /// Returns whether this is the type of the last operation, and a 64-bit integer.
    #[inline(always)]
    fn is_integer(&self, of: ffi::MPI_Datatype) -> bool {
        let (last, dense) = self.last_type.get();
        of == last && matches!(dense.kind, Some(ElementKind::I64 | ElementKind::U64))
    }

    /// Puts a word, or does nothing and returns false.
    ///
    /// # Safety
    ///
    /// The program may read the origin's items.
    #[inline(always)]
    pub(crate) unsafe fn short_put(&self, origin: Items, target: c_int, there: Remote) -> bool {
        if self.is_word(origin, there)
            && let Some(word) = self.word(target, there.disp)
        {
            // SAFETY: the caller's promise.
            word.store(unsafe { origin.at.cast::<u64>().read_unaligned() }, Ordering::Release);
            self.is_dirty.set(true);
            return true;
        }
        false
    }

    /// Gets a word, or does nothing and returns false.
    ///
    /// # Safety
    ///
    /// The program may write the origin's items.
    #[inline(always)]
    pub(crate) unsafe fn short_get(&self, origin: Items, target: c_int, there: Remote) -> bool {
        if self.is_word(origin, there)
            && let Some(word) = self.word(target, there.disp)
        {
            // SAFETY: the caller's promise.
            unsafe { origin.at.cast::<u64>().write_unaligned(word.load(Ordering::Acquire)) };
            return true;
        }
        false
    }

    /// Updates a 64-bit integer, and returns its old value; or does nothing.
    #[inline(always)]
    fn short_update(
        &self,
        value: u64,
        of: ffi::MPI_Datatype,
        target: c_int,
        disp: i64,
        op: ffi::MPI_Op,
    ) -> Option<u64> {
        if !self.is_integer(of) || !self.is_open(target) {
            return None;
        }
        let at = self.engine.raw().locked(Rank(target as u32))?;
        let disp = WindowDisp(disp);
        // The signed and the unsigned operations are the same.
        if op == types::handle(Op::Sum) {
            at.update_word(disp, Op::Sum, value)
        } else if op == types::handle(Op::BitXor) {
            at.update_word(disp, Op::BitXor, value)
        } else if op == types::handle(Op::Replace) {
            at.update_word(disp, Op::Replace, value)
        } else {
            None
        }
    }

    /// Accumulates into 64-bit integers, or does nothing and returns false.
    ///
    /// # Safety
    ///
    /// The program may read the origin's items.
    #[inline(always)]
    pub(crate) unsafe fn short_accumulate(&self, origin: Items, target: c_int, there: Remote, op: ffi::MPI_Op) -> bool {
        if origin.count != there.count || origin.of != there.of || !self.is_integer(origin.of) {
            return false;
        }
        if origin.count != 1 {
            // SAFETY: the caller's promise.
            return op == types::handle(Op::Sum) && unsafe { self.short_sums(origin, target, there.disp) };
        }
        if origin.at.is_null() {
            return false;
        }
        // SAFETY: the caller's promise.
        let value = unsafe { origin.at.cast::<u64>().read_unaligned() };
        self.short_update(value, there.of, target, there.disp, op).is_some()
    }

    /// Adds several 64-bit integers, or does nothing and returns false.
    ///
    /// # Safety
    ///
    /// The program may read the origin's items.
    #[inline(never)]
    unsafe fn short_sums(&self, origin: Items, target: c_int, disp: i64) -> bool {
        let Ok(count) = usize::try_from(origin.count) else { return false };
        let is_aligned = origin.at.cast::<u64>().is_aligned() && !origin.at.is_null();
        if !is_aligned || count > isize::MAX as usize / 8 || !self.is_open(target) {
            return false;
        }
        // SAFETY: the caller's promise; the first integer is aligned.
        let values = unsafe { std::slice::from_raw_parts(origin.at.cast::<u64>(), count) };
        self.engine.raw().add_to_words(Rank(target as u32), WindowDisp(disp), values)
    }

    /// Fetches and updates a 64-bit integer, or does nothing and returns false.
    ///
    /// # Safety
    ///
    /// `origin` and `result` are elements of this type, which the program may read and write.
    #[inline(always)]
    pub(crate) unsafe fn short_fetch_and_op(
        &self,
        origin: *const c_void,
        result: *mut c_void,
        of: ffi::MPI_Datatype,
        target: c_int,
        disp: i64,
        op: ffi::MPI_Op,
    ) -> bool {
        if !self.is_integer(of) || origin.is_null() || result.is_null() {
            return false;
        }
        // SAFETY: the caller's promise; `origin` may be null for an operation that ignores it.
        let value = unsafe { origin.cast::<u64>().read_unaligned() };
        let Some(old) = self.short_update(value, of, target, disp, op) else { return false };
        // SAFETY: the caller's promise.
        unsafe { result.cast::<u64>().write_unaligned(old) };
        true
    }

    /// Swaps a 64-bit integer, or does nothing and returns false.
    ///
    /// # Safety
    ///
    /// The three pointers are to elements of this type. The program may read the first two, and write the third.
    #[inline(always)]
    pub(crate) unsafe fn short_compare_and_swap(
        &self,
        origin: *const c_void,
        compare: *const c_void,
        result: *mut c_void,
        of: ffi::MPI_Datatype,
        target: c_int,
        disp: i64,
    ) -> bool {
        if !self.is_integer(of) || !self.is_open(target) || origin.is_null() || compare.is_null() || result.is_null() {
            return false;
        }
        let Some(at) = self.engine.raw().locked(Rank(target as u32)) else { return false };
        // SAFETY: the caller's promise.
        let (desired, expected) =
            unsafe { (origin.cast::<u64>().read_unaligned(), compare.cast::<u64>().read_unaligned()) };
        let Some(old) = at.swap_word(WindowDisp(disp), expected, desired) else { return false };
        // SAFETY: the caller's promise.
        unsafe { result.cast::<u64>().write_unaligned(old) };
        true
    }

    /// Flushes a target to which only short paths have written, or does nothing and returns false.
    #[inline(always)]
    pub(crate) fn short_flush(&self, target: c_int) -> bool {
        self.is_open(target) && self.short_flush_any()
    }

    /// Flushes all targets if only short paths have written to them, or does nothing and returns false.
    #[inline(always)]
    pub(crate) fn short_flush_all(&self) -> bool {
        self.open.get() != NONE && self.short_flush_any()
    }

    #[inline(always)]
    fn short_flush_any(&self) -> bool {
        if self.has_posted.get() || self.is_time() {
            return false;
        }
        self.fence_stores();
        true
    }

    /// Operations of this mode are complete at the origin when they return.
    #[inline(always)]
    pub(crate) fn short_flush_local(&self, target: c_int) -> bool {
        self.is_open(target) && !self.is_time()
    }

    #[inline(always)]
    pub(crate) fn short_flush_local_all(&self) -> bool {
        self.open.get() != NONE && !self.is_time()
    }

    /// Orders loads and stores, unless the host has to make progress now.
    #[inline(always)]
    pub(crate) fn short_sync(&self) -> bool {
        let is_short = !self.is_time();
        if is_short {
            // The same as the engine's call.
            fence(Ordering::SeqCst);
        }
        is_short
    }

    /// Locks a target, or begins that, if it is short: with the default policy, and as long as nothing is locked. Returns whether the target
    /// is locked.
    #[inline(always)]
    pub(crate) fn short_lock(&self, lock_type: c_int, target: c_int, assert: c_int) -> bool {
        let Some(kind) = unasserted(lock_type, assert) else { return false };
        match self.engine.raw().begin_plainly(kind, Rank(target as u32)) {
            Begun::Held => {
                self.open.set(u64::from(target as u32) + 1);
                true
            }
            // `lock` goes on from there.
            Begun::Waits => {
                self.is_begun.set(true);
                false
            }
            Begun::Nothing | Begun::Failed(_) => false,
        }
    }

    /// Locks a target, or does nothing and returns false.
    #[inline]
    pub(crate) fn medium_lock(&self, lock_type: c_int, target: c_int, assert: c_int) -> bool {
        let Some(kind) = unasserted(lock_type, assert) else { return false };
        if self.is_begun.get() || !self.engine.raw().lock_plainly(kind, Rank(target as u32)) {
            return false;
        }
        self.open.set(u64::from(target as u32) + 1);
        true
    }

    /// Unlocks a target if that is short. Otherwise it does nothing and returns false.
    #[inline(always)]
    pub(crate) fn short_unlock(&self, target: c_int) -> bool {
        if self.has_posted.get() || self.is_time() {
            return false;
        }
        self.fence_stores();
        let is_unlocked = self.engine.raw().unlock_shortly(Rank(target as u32));
        if is_unlocked {
            self.open.set(NONE);
        }
        is_unlocked
    }

    /// Unlocks a target, or does nothing and returns false.
    #[inline]
    pub(crate) fn medium_unlock(&self, target: c_int) -> bool {
        // A call of `short_unlock` has counted this one, and has completed the stores.
        if self.has_posted.get() || self.calls.get() >= CALLS {
            return false;
        }
        self.open.set(NONE);
        self.engine.raw().unlock_plainly(Rank(target as u32))
    }

    #[inline(always)]
    pub(crate) fn short_lock_all(&self, assert: c_int) -> bool {
        if assert != 0 || !self.engine.raw().lock_all_plainly() {
            return false;
        }
        self.open.set(ALL);
        true
    }

    #[inline(always)]
    pub(crate) fn short_unlock_all(&self) -> bool {
        if self.has_posted.get() || self.is_time() {
            return false;
        }
        self.fence_stores();
        self.open.set(NONE);
        self.engine.raw().unlock_all_plainly()
    }

    /// Counts a call, and returns whether the host has to make progress now.
    #[inline(always)]
    fn is_time(&self) -> bool {
        let calls = self.calls.get() + 1;
        self.calls.set(calls);
        calls >= CALLS
    }

    /// `MPI_Put` and `MPI_Rput`.
    ///
    /// # Safety
    ///
    /// The program may read the origin's items.
    #[inline(always)]
    pub(crate) unsafe fn put<const REQUEST: bool>(
        &self,
        origin: Items,
        target: Option<Rank>,
        there: Remote,
    ) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        match self.dense(origin, there) {
            // The engine does not know of a longer target.
            Some((from, into)) if from == into => {
                self.has_posted.set(true);
                // SAFETY: the caller's promise.
                let source = unsafe { bytes(origin.at, from)? };
                within!(self, REQUEST, Put, target, at => at.put(WindowDisp(there.disp), source));
                Ok(())
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.put_slowly::<REQUEST>(origin, target, there) },
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_slowly<const REQUEST: bool>(&self, origin: Items, target: Rank, there: Remote) -> Result<()> {
        fits(len_of(origin.count, origin.of)?, len_of(there.count, there.of)?)?;
        if !self.is_mapped(target) {
            // SAFETY: the caller's promise.
            return unsafe { self.put_elsewhere::<REQUEST>(origin, target, there) };
        }
        // SAFETY: the caller's promise; `reach` has checked the target's items.
        let copy = || unsafe { host::copy(origin, self.reach(target, there)?) };
        within!(self, REQUEST, Put, target, _at => Ok(copy()))?;
        // The engine's flush does not know of these stores.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Puts items of any types into memory that only the engine reaches.
    unsafe fn put_elsewhere<const REQUEST: bool>(&self, origin: Items, target: Rank, there: Remote) -> Result<()> {
        // SAFETY: the caller's promise.
        let source = unsafe { self.pack(origin)? };
        let len = source.len() as u64;
        let (layout, count) = (types::layout(there.of)?, there.count as u64);
        let (first, firsts) = beginning(&layout, count, len)?;
        let (disp, whole) = (WindowDisp(there.disp), run(len)?);
        self.has_posted.set(true);
        within!(self, REQUEST, Put, target, at => {
            if matches!(first, Cow::Owned(_)) {
                at.check(Call::Put, disp, layout.items(count))?;
            }
            at.put_layout(disp, first.items(firsts), &source, whole.item())
        });
        Ok(())
    }

    /// Returns the bytes of the program's items without gaps.
    unsafe fn pack<'a>(&self, items: Items) -> Result<Cow<'a, [u8]>> {
        let len = len_of(items.count, items.of)?;
        if self.types.dense(items.of).is_some() {
            // SAFETY: the caller's promise.
            return Ok(Cow::Borrowed(unsafe { bytes(items.at, len)? }));
        }
        let mut copy = vec![0; len as usize];
        // SAFETY: the caller's promise.
        unsafe { host::copy(items, host::packed(&mut copy))? };
        Ok(Cow::Owned(copy))
    }

    /// `MPI_Get` and `MPI_Rget`.
    ///
    /// # Safety
    ///
    /// The program may write the origin's items.
    #[inline(always)]
    pub(crate) unsafe fn get<const REQUEST: bool>(
        &self,
        origin: Items,
        target: Option<Rank>,
        there: Remote,
    ) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        match self.dense(origin, there) {
            Some((into, from)) if from <= into => {
                // SAFETY: the caller's promise.
                let dest = unsafe { bytes_mut(origin.at, from)? };
                within!(self, REQUEST, Get, target, at => at.get(WindowDisp(there.disp), dest));
                Ok(())
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.get_slowly::<REQUEST>(origin, target, there) },
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn get_slowly<const REQUEST: bool>(&self, origin: Items, target: Rank, there: Remote) -> Result<()> {
        fits(len_of(there.count, there.of)?, len_of(origin.count, origin.of)?)?;
        if !self.is_mapped(target) {
            // SAFETY: the caller's promise.
            return unsafe { self.get_elsewhere::<REQUEST>(origin, target, there) };
        }
        // SAFETY: the caller's promise; `reach` has checked the target's items.
        let copy = || unsafe { host::copy(self.reach(target, there)?, origin) };
        within!(self, REQUEST, Get, target, _at => Ok(copy()))
    }

    /// Gets items of any types from memory that only the engine reaches.
    unsafe fn get_elsewhere<const REQUEST: bool>(&self, origin: Items, target: Rank, there: Remote) -> Result<()> {
        let len = len_of(there.count, there.of)?;
        let (layout, count) = (types::layout(there.of)?, there.count as u64);
        let (disp, whole, mut got) = (WindowDisp(there.disp), run(len)?, Vec::new());
        within!(self, REQUEST, Get, target, at => {
            // The window bounds the memory that this takes.
            at.check(Call::Get, disp, layout.items(count))?;
            got.resize(len as usize, 0);
            at.get_layout(disp, layout.items(count), &mut got, whole.item())
        });
        // SAFETY: the caller's promise.
        unsafe { host::copy(host::packed(&mut got), origin) }
    }

    /// `MPI_Accumulate`, `MPI_Get_accumulate` and their forms with requests. Without a `result`, nothing is read.
    ///
    /// # Safety
    ///
    /// The program may read the origin's items, and write the items of the result.
    #[inline(always)]
    pub(crate) unsafe fn accumulate<const REQUEST: bool>(
        &self,
        origin: Items,
        result: Option<Items>,
        target: Option<Rank>,
        there: Remote,
        op: ffi::MPI_Op,
    ) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        let Some(op) = types::op(op).filter(|&op| op != Op::NoOp || result.is_some()) else {
            return refuse(ffi::MPI_ERR_OP);
        };
        let near = if op == Op::NoOp { there.of } else { origin.of };
        let one_type = near == there.of && result.is_none_or(|result| result.of == there.of);
        let one_count =
            (op == Op::NoOp || origin.count == there.count) && result.is_none_or(|result| result.count == there.count);
        if one_type
            && one_count
            && let Some(dense) = self.dense_type(there.of)
            && let Some(kind) = dense.kind
            && let Some(len) = u64::try_from(there.count).ok().and_then(|count| count.checked_mul(dense.size))
        {
            if len == 0 {
                // The hosts take any operation on no elements.
                within!(self, REQUEST, Accumulate, target, _at => Ok(()));
                return Ok(());
            }
            let disp = WindowDisp(there.disp);
            // SAFETY: the caller's promise.
            let source = unsafe { bytes(origin.at, if op == Op::NoOp { 0 } else { len })? };
            match result {
                None => within!(self, REQUEST, Accumulate, target, at => at.accumulate_untyped(disp, kind, op, source)),
                Some(result) => {
                    // SAFETY: as above.
                    let result = unsafe { bytes_mut(result.at, len)? };
                    within!(self, REQUEST, GetAccumulate, target,
                        at => at.get_accumulate_untyped(disp, kind, op, source, result));
                }
            }
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.accumulate_slowly::<REQUEST>(origin, result, target, there, op) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn accumulate_slowly<const REQUEST: bool>(
        &self,
        origin: Items,
        result: Option<Items>,
        target: Rank,
        there: Remote,
        op: Op,
    ) -> Result<()> {
        let len = len_of(there.count, there.of)?;
        let updated = if op == Op::NoOp { 0 } else { len_of(origin.count, origin.of)? };
        fits(updated, len)?;
        if let Some(result) = result {
            fits(len, len_of(result.count, result.of)?)?;
        }
        // SAFETY: the caller's promise; `reach` has checked the target's items.
        let combine = |items| unsafe { host::combine(origin, result, items, there, op) };
        if !self.is_mapped(target) {
            let (layout, count) = (types::layout(there.of)?, there.count as u64);
            let (first, firsts) = beginning(&layout, count, updated)?;
            let (disp, whole, written) = (WindowDisp(there.disp), run(len)?, run(updated)?);
            self.has_posted.set(true);
            return within!(self, REQUEST, GetAccumulate, target, at => {
                // The window bounds the memory that this takes.
                at.check(Call::GetAccumulate, disp, layout.items(count))?;
                let mut copy = vec![0_u8; len as usize];
                at.exclusively(|| -> Result<()> {
                    at.get_layout(disp, layout.items(count), &mut copy, whole.item())?;
                    combine(host::packed(&mut copy))?;
                    Ok(at.put_layout(disp, first.items(firsts), &copy[..updated as usize], written.item())?)
                })
            });
        }
        within!(self, REQUEST, GetAccumulate, target, at => Ok(match self.reach(target, there) {
            Ok(items) => at.exclusively(|| combine(items))?,
            Err(failure) => Err(failure),
        }))
    }

    /// `MPI_Fetch_and_op`.
    ///
    /// # Safety
    ///
    /// `origin` and `result` are elements of this type, which the program may read and write.
    #[inline(always)]
    pub(crate) unsafe fn fetch_and_op(
        &self,
        origin: *const c_void,
        result: *mut c_void,
        of: ffi::MPI_Datatype,
        target: Option<Rank>,
        disp: i64,
        op: ffi::MPI_Op,
    ) -> Result<()> {
        let origin = Items { at: origin.cast_mut(), count: 1, of };
        let result = Items { at: result, count: 1, of };
        // SAFETY: the caller's promise.
        unsafe { self.accumulate::<false>(origin, Some(result), target, Remote { disp, count: 1, of }, op) }
    }

    /// `MPI_Compare_and_swap`.
    ///
    /// # Safety
    ///
    /// The three pointers are to elements of this type. The program may read the first two, and write the third.
    #[inline(always)]
    pub(crate) unsafe fn compare_and_swap(
        &self,
        origin: *const c_void,
        compare: *const c_void,
        result: *mut c_void,
        of: ffi::MPI_Datatype,
        target: Option<Rank>,
        disp: i64,
    ) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        let Some(dense) = self.dense_type(of) else { return refuse(ffi::MPI_ERR_TYPE) };
        let (call, disp) = (Call::CompareAndSwap, WindowDisp(disp));
        // The engine lacks Fortran's logical values and integers. The call swaps bytes.
        let kind = dense.kind.or(match dense.size {
            1 => Some(ElementKind::U8),
            2 => Some(ElementKind::U16),
            4 => Some(ElementKind::U32),
            8 => Some(ElementKind::U64),
            _ => None,
        });
        let Some(kind) = kind else { return refuse(ffi::MPI_ERR_TYPE) };
        // SAFETY: the caller's promise.
        let (desired, expected, result) =
            unsafe { (bytes(origin, dense.size)?, bytes(compare, dense.size)?, bytes_mut(result, dense.size)?) };
        let swap = self
            .engine
            .raw()
            .operate(call, target, |at| at.compare_and_swap_untyped(disp, kind, expected, desired, result));
        Ok(swap?)
    }

    /// Returns the items of a rank's part, after a check that they are within it.
    fn reach(&self, rank: Rank, there: Remote) -> Result<Items> {
        let part = &self.parts[rank.index()];
        let (first, len) = host::span(there.count, there.of)?;
        let start = i128::from(there.disp) * i128::from(part.unit);
        let (low, high) = (start + i128::from(first), start + i128::from(first) + i128::from(len));
        if len > 0 && (low < 0 || high > i128::from(part.bytes)) {
            return refuse(ffi::MPI_ERR_RMA_RANGE);
        }
        // The base and the first item may be outside of the part, if the type begins later.
        let at = part.base.wrapping_offset(start as isize).cast();
        Ok(Items { at, count: there.count, of: there.of })
    }

    pub(crate) fn lock(&self, kind: LockKind, target: Option<Rank>, assert: Assert) -> Result<()> {
        match target {
            Some(target) if self.is_begun.take() => self.engine.raw().complete_lock(kind, target)?,
            _ => self.engine.raw().lock(kind, target, assert)?,
        }
        if let Some(target) = target {
            // Of several locked targets, the short paths know the latest one.
            self.open.set(u64::from(target.0) + 1);
        }
        Ok(())
    }

    pub(crate) fn unlock(&self, target: Option<Rank>) -> Result<()> {
        self.complete_stores();
        self.open.set(NONE);
        Ok(self.engine.raw().unlock(target)?)
    }

    pub(crate) fn lock_all(&self, assert: Assert) -> Result<()> {
        self.engine.raw().lock_all(assert)?;
        self.open.set(ALL);
        Ok(())
    }

    pub(crate) fn unlock_all(&self) -> Result<()> {
        self.complete_stores();
        self.engine.raw().unlock_all()?;
        self.open.set(NONE);
        Ok(())
    }

    /// Completes the stores of the short paths.
    #[inline(always)]
    fn fence_stores(&self) {
        if self.is_dirty.get() {
            fence(Ordering::SeqCst);
            self.is_dirty.set(false);
        }
    }

    /// Completes all stores, and counts the call.
    fn complete_stores(&self) {
        self.count();
        if self.is_dirty.replace(false) | self.has_posted.replace(false) {
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn flush(&self, target: Option<Rank>) -> Result<()> {
        self.complete_stores();
        Ok(self.engine.raw().flush(target)?)
    }

    pub(crate) fn flush_all(&self) -> Result<()> {
        self.complete_stores();
        Ok(self.engine.raw().flush_all()?)
    }

    pub(crate) fn flush_local(&self, target: Option<Rank>) -> Result<()> {
        self.count();
        Ok(self.engine.raw().flush_local(target)?)
    }

    pub(crate) fn flush_local_all(&self) -> Result<()> {
        self.count();
        Ok(self.engine.raw().flush_local_all()?)
    }

    pub(crate) fn sync(&self) {
        self.count();
        self.engine.raw().sync();
    }

    pub(crate) fn fence(&self, assert: FenceAssert) -> Result<()> {
        Ok(self.engine.raw().fence(assert)?)
    }

    /// Makes a call with the ranks of a group.
    fn with_ranks<R>(&self, group: Group, call: impl FnOnce(&[Rank]) -> Result<R>) -> Result<R> {
        let mut members = self.members.take().unwrap_or_default();
        let done = members.read(group, self.group).and_then(call);
        self.members.set(Some(members));
        done
    }

    pub(crate) fn start(&self, group: Group, assert: StartAssert) -> Result<()> {
        self.with_ranks(group, |targets| Ok(self.engine.raw().start(targets, assert)?))
    }

    pub(crate) fn complete(&self) -> Result<()> {
        Ok(self.engine.raw().complete()?)
    }

    pub(crate) fn post(&self, group: Group, assert: PostAssert) -> Result<()> {
        self.with_ranks(group, |origins| Ok(self.engine.raw().post(origins, assert)?))
    }

    pub(crate) fn wait(&self) -> Result<()> {
        Ok(self.engine.raw().wait()?)
    }

    pub(crate) fn test(&self) -> Result<bool> {
        // A program that only tests lets the host make progress here.
        host::progress();
        Ok(self.engine.raw().test()?)
    }

    /// Returns the value of a predefined attribute, in the form of `MPI_Win_get_attr`.
    pub(crate) fn attribute(&self, key: c_int) -> Option<*const c_void> {
        // SAFETY: constants of C.
        let keys = unsafe { [WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL] };
        let attributes = &*self.attributes;
        let values: [*const c_void; 5] = [
            attributes.base,
            (&raw const attributes.size).cast(),
            (&raw const attributes.unit).cast(),
            (&raw const attributes.flavor).cast(),
            (&raw const attributes.model).cast(),
        ];
        keys.iter().position(|&other| other == key).map(|at| values[at])
    }

    /// Returns the value of a predefined attribute, in the form of Fortran's `MPI_Win_get_attr`.
    pub(crate) fn attribute_value(&self, key: c_int) -> Option<i64> {
        // SAFETY: constants of C.
        let keys = unsafe { [WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL] };
        let attributes = &*self.attributes;
        let values = [
            self.base().addr() as i64,
            host::wide(attributes.size),
            attributes.unit.into(),
            attributes.flavor.into(),
            attributes.model.into(),
        ];
        keys.iter().position(|&other| other == key).map(|at| values[at])
    }

    /// Returns the bytes, the unit and the address of a rank's part. For the null target, that is the first part that is
    /// not empty.
    pub(crate) fn shared_query(&self, rank: Option<Rank>) -> Result<(u64, u32, *mut c_void)> {
        if matches!(self.flavor, Flavor::Create | Flavor::Dynamic) {
            return refuse(ffi::MPI_ERR_RMA_FLAVOR);
        }
        let part = match rank {
            Some(rank) if rank.0 as usize >= self.parts.len() => return refuse(ffi::MPI_ERR_RANK),
            Some(rank) => &self.parts[rank.index()],
            None => self.parts.iter().find(|part| part.bytes > 0).unwrap_or(&self.parts[0]),
        };
        Ok((part.bytes, part.unit, part.base.cast()))
    }

    /// `MPI_Win_attach`.
    ///
    /// # Safety
    ///
    /// The memory belongs to the program, and stays valid until it is detached or the window is freed.
    pub(crate) unsafe fn attach(&self, base: *const c_void, bytes: i64) -> Result<()> {
        let Ok(bytes) = u64::try_from(bytes) else { return refuse(ffi::MPI_ERR_SIZE) };
        if bytes == 0 && self.flavor == Flavor::Dynamic {
            self.attached_empty.borrow_mut().push(base.addr());
            return Ok(());
        }
        if base.is_null() && self.flavor == Flavor::Dynamic {
            return refuse(ffi::MPI_ERR_RMA_ATTACH);
        }
        // SAFETY: the caller's promise.
        self.engine.raw().attach(unsafe { program_memory(base.cast_mut(), bytes) })?;
        Ok(())
    }

    /// `MPI_Win_detach`.
    pub(crate) fn detach(&self, base: *const c_void) -> Result<()> {
        let empty = self.attached_empty.borrow().iter().position(|&at| at == base.addr());
        if let Some(at) = empty {
            self.attached_empty.borrow_mut().swap_remove(at);
            return Ok(());
        }
        self.engine.raw().detach(WindowDisp(base.addr() as i64))?;
        Ok(())
    }

    /// Returns the group of the window's ranks.
    pub(crate) fn group(&self) -> Group {
        self.group
    }
}

/// Returns the kind of a lock without assertions.
#[inline(always)]
fn unasserted(lock_type: c_int, assert: c_int) -> Option<LockKind> {
    match lock_type {
        EXCLUSIVE if assert == 0 => Some(LockKind::Exclusive),
        SHARED if assert == 0 => Some(LockKind::Shared),
        _ => None,
    }
}

/// Checks that this many bytes of data need not be truncated.
fn fits(from: u64, into: u64) -> Result<()> {
    if from > into { refuse(ffi::MPI_ERR_TRUNCATE) } else { Ok(()) }
}

/// Returns the bytes of data of items.
fn len_of(count: i64, of: ffi::MPI_Datatype) -> Result<u64> {
    let (size, _) = host::size_of(of)?;
    match u64::try_from(count).ok().and_then(|count| count.checked_mul(size)) {
        Some(len) => Ok(len),
        None => refuse(ffi::MPI_ERR_COUNT),
    }
}

/// Returns the layout of this many consecutive bytes.
fn run(len: u64) -> Result<Layout> {
    Ok(Layout::contiguous(len, &Layout::of::<u8>()).map_err(Error::from)?)
}

/// Returns the layout of the first `len` bytes of `count` items, and the number of its items.
fn beginning(layout: &Layout, count: u64, len: u64) -> Result<(Cow<'_, Layout>, u64)> {
    if len == layout.total(count).map_err(Error::from)? {
        return Ok((Cow::Borrowed(layout), count));
    }
    let mut left = len;
    let runs = layout.runs(count).map_err(Error::from)?.map_while(|run| {
        let bytes = run.bytes.min(left);
        left -= bytes;
        (bytes > 0).then_some((bytes, run.offset))
    });
    let runs: Vec<(u64, i64)> = runs.collect();
    Ok((Cow::Owned(Layout::hindexed(&runs, &Layout::of::<u8>()).map_err(Error::from)?), 1))
}
