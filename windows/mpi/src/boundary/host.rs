//! The host MPI's calls, as safe functions.
//!
//! Handles come from the program's calls, or from the host. MPI calls the use of a handle that was freed erroneous, so a program that
//! passes one has undefined behaviour here as it has without this library.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::time::{Duration, Instant};

use mpi_sys as ffi;
use rmalab_atomics::{Mpi, Rank, Served, mpi};
use rmalab_windows::Class;

use crate::policy::{Failure, Result};

pub(crate) use mpi_sys::{MPI_Comm as Comm, MPI_Group as Group, MPI_Info as Info, MPI_Win as Win};

pub(crate) const SUCCESS: c_int = ffi::MPI_SUCCESS as c_int;

/// Returns the error of a call on a window, whose handler the host has called.
#[inline(always)]
fn done(code: c_int) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(Failure::Host(code)) }
}

/// Returns the error of a call that was doing `what` for this library.
fn ours(code: c_int, what: &str) -> std::result::Result<(), String> {
    if code == SUCCESS {
        return Ok(());
    }
    let mut text = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len = 0;
    // SAFETY: the buffer is as long as the call may write.
    unsafe { ffi::PMPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut len) };
    let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
    Err(format!("{what}: MPI reports: {text}"))
}

/// Returns the first line of the description of the MPI that is in the program, whichever it is.
pub(crate) fn library() -> String {
    /// More than any MPI writes: MPICH up to 8 KiB, though Open MPI only 256 bytes.
    const LONGEST: usize = 64 << 10;
    let mut text = vec![0_u8; LONGEST];
    let mut len = 0;
    // SAFETY: the buffer is longer than the call may write, and both MPIs have the same signature.
    unsafe { ffi::PMPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &mut len) };
    let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
    let line = text.split(['\n', ',']).next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns this rank's number in the communicator, and the number of ranks.
pub(crate) fn place(comm: Comm) -> std::result::Result<(u32, u32), String> {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: see the module; the calls write to live variables.
    let codes = unsafe { [ffi::PMPI_Comm_rank(comm, &mut rank), ffi::PMPI_Comm_size(comm, &mut size)] };
    codes.into_iter().try_for_each(|code| ours(code, "asking for this rank"))?;
    // MPI's numbers are not negative.
    Ok((rank as u32, size as u32))
}

/// Returns whether the communicator has one group of ranks.
pub(crate) fn has_one_group(comm: Comm) -> bool {
    let mut inter = 0;
    // SAFETY: see the module; the call writes to a live variable.
    let code = unsafe { ffi::PMPI_Comm_test_inter(comm, &mut inter) };
    code == SUCCESS && inter == 0
}

/// Returns whether all calls of MPI come from one thread.
pub(crate) fn has_one_thread() -> bool {
    let mut provided = 0;
    // SAFETY: the call writes to a live variable; the constants are C's.
    unsafe { ffi::PMPI_Query_thread(&mut provided) == SUCCESS && provided <= ffi::RSMPI_THREAD_FUNNELED }
}

/// Returns the communicator of all ranks.
pub(crate) fn everyone() -> Comm {
    // SAFETY: a constant of C.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

/// Returns the largest of each number over all ranks. Collective.
pub(crate) fn largest<const N: usize>(comm: Comm, numbers: &[u64; N]) -> std::result::Result<[u64; N], String> {
    // SAFETY: a constant of C.
    reduce(comm, numbers, unsafe { ffi::RSMPI_MAX })
}

/// Returns the sum of each number over all ranks. Collective.
pub(crate) fn sum<const N: usize>(comm: Comm, numbers: &[u64; N]) -> std::result::Result<[u64; N], String> {
    // SAFETY: a constant of C.
    reduce(comm, numbers, unsafe { ffi::RSMPI_SUM })
}

fn reduce<const N: usize>(comm: Comm, numbers: &[u64; N], op: ffi::MPI_Op) -> std::result::Result<[u64; N], String> {
    let mut reduced = [0; N];
    // SAFETY: both buffers have N words, as all ranks' do.
    let code = unsafe {
        let (from, to) = (numbers.as_ptr().cast(), reduced.as_mut_ptr().cast());
        ffi::PMPI_Allreduce(from, to, N as c_int, ffi::RSMPI_UINT64_T, op, comm)
    };
    ours(code, "agreeing with the other ranks").map(|()| reduced)
}

/// Copies rank 0's numbers to all ranks. Collective.
pub(crate) fn broadcast<const N: usize>(comm: Comm, numbers: &mut [u64; N]) -> std::result::Result<(), String> {
    // SAFETY: the buffer has N words, as all ranks' do.
    let code = unsafe { ffi::PMPI_Bcast(numbers.as_mut_ptr().cast(), N as c_int, ffi::RSMPI_UINT64_T, 0, comm) };
    ours(code, "receiving from rank 0")
}

/// Makes a world of the communicator's ranks over the host's windows. Collective.
pub(crate) fn remote_world(comm: Comm, segment_bytes: u64) -> std::result::Result<Mpi, String> {
    // SAFETY: MPI is initialized, and its communicator has one group (the caller has checked); MPI_Finalize of this library ends all
    // worlds first.
    let world = unsafe { mpi::Attach::new().segment_bytes(segment_bytes).over(comm) };
    world.map_err(|error| error.to_string())
}

/// A tag that programs hardly use, the largest that every MPI has.
const TAG: c_int = 32_767;

/// A probe that takes longer than this has probably served another rank.
const SERVED: Duration = Duration::from_micros(1);

/// How long a rank that has served another one expects the next request at once: the holder of a lock may need several.
const AWAKE: Duration = Duration::from_millis(1);

thread_local! {
    static AWAKE_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets the host make progress on what other ranks have asked for: a probe, which takes no message. Returns whether more is to be expected.
///
/// The communicator has to be one of several ranks: MPICH answers a probe of this rank alone without a look at the network. A message that
/// is found ends a probe sooner, so the tag is one that finds none.
pub(crate) fn progress() -> Served {
    let before = Instant::now();
    let mut found = 0;
    // SAFETY: MPI is initialized while there are windows; the call writes to a live variable; the constants are C's.
    unsafe {
        ffi::PMPI_Iprobe(ffi::RSMPI_ANY_SOURCE, TAG, ffi::RSMPI_COMM_WORLD, &mut found, ffi::RSMPI_STATUS_IGNORE);
    }
    let now = Instant::now();
    if now - before > SERVED {
        AWAKE_UNTIL.set(Some(now + AWAKE));
    }
    if AWAKE_UNTIL.get().is_some_and(|until| now < until) { Served::Something } else { Served::Nothing }
}

/// Returns the value of a key, or `None` if the info does not have it.
pub(crate) fn hint(info: Info, key: &str) -> Option<String> {
    if info == null_info() {
        return None;
    }
    let key = CString::new(key).ok()?;
    let mut value = vec![0_u8; ffi::MPI_MAX_INFO_VAL as usize + 1];
    let mut found = 0;
    // SAFETY: see the module; the buffer is as long as the call may write.
    let code = unsafe {
        ffi::PMPI_Info_get(info, key.as_ptr(), ffi::MPI_MAX_INFO_VAL as c_int, value.as_mut_ptr().cast(), &mut found)
    };
    let value = CStr::from_bytes_until_nul(&value).ok()?.to_string_lossy().trim().to_owned();
    (code == SUCCESS && found != 0).then_some(value)
}

fn null_info() -> Info {
    // SAFETY: a constant of C.
    unsafe { ffi::RSMPI_INFO_NULL }
}

/// Adds a pair to an info of the program.
pub(crate) fn set_hint(info: Info, key: &str, value: &str) {
    let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else { return };
    // SAFETY: see the module; the host copies both texts. A failure leaves the key out, which is all that there is to do.
    unsafe { ffi::PMPI_Info_set(info, key.as_ptr(), value.as_ptr()) };
}

/// Returns the group of a window's ranks.
pub(crate) fn group_of(win: Win) -> std::result::Result<Group, String> {
    // SAFETY: see the module; the call writes to a live variable, which begins as a constant of C.
    unsafe {
        let mut group = ffi::RSMPI_GROUP_NULL;
        ours(ffi::PMPI_Win_get_group(win, &mut group), "asking for the window's ranks").map(|()| group)
    }
}

pub(crate) fn free_group(mut group: Group) {
    // SAFETY: the caller has it from `group_of`, and drops it here.
    unsafe { ffi::PMPI_Group_free(&mut group) };
}

/// Returns the numbers that the members of `group` have in `all`. A member that is not there gets the number `u32::MAX`, which no rank has.
pub(crate) fn ranks(group: Group, all: Group) -> Result<Vec<Rank>> {
    let mut size = 0;
    // SAFETY: see the module; the call writes to a live variable.
    done(unsafe { ffi::PMPI_Group_size(group, &mut size) })?;
    let members: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![0; members.len()];
    // SAFETY: as above; both arrays have `size` numbers.
    done(unsafe { ffi::PMPI_Group_translate_ranks(group, size, members.as_ptr(), all, ranks.as_mut_ptr()) })?;
    Ok(ranks.into_iter().map(|rank| Rank(u32::try_from(rank).unwrap_or(u32::MAX))).collect())
}

/// Opens the host's epoch of all operations on a managed window. No other kind of lock is ever taken there.
pub(crate) fn lock_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_lock_all(ffi::MPI_MODE_NOCHECK as c_int, win) })
}

pub(crate) fn unlock_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_unlock_all(win) })
}

#[inline]
pub(crate) fn flush(target: Rank, win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_flush(target.0 as c_int, win) })
}

#[inline]
pub(crate) fn flush_local(target: Rank, win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_flush_local(target.0 as c_int, win) })
}

#[inline]
pub(crate) fn flush_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_flush_all(win) })
}

#[inline]
pub(crate) fn flush_local_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_flush_local_all(win) })
}

#[inline]
pub(crate) fn sync(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(unsafe { ffi::PMPI_Win_sync(win) })
}

/// Calls the window's error handler, as the host does for its own errors, and returns the code.
pub(crate) fn raise(win: Win, code: c_int) -> c_int {
    // SAFETY: see the module.
    unsafe { ffi::PMPI_Win_call_errhandler(win, code) };
    code
}

/// Returns MPI's number of an error class.
pub(crate) fn code_of(class: Class) -> c_int {
    (match class {
        Class::Size => ffi::MPI_ERR_SIZE,
        Class::Disp => ffi::MPI_ERR_DISP,
        Class::RmaConflict => ffi::MPI_ERR_RMA_CONFLICT,
        Class::RmaSync => ffi::MPI_ERR_RMA_SYNC,
        Class::RmaRange => ffi::MPI_ERR_RMA_RANGE,
        Class::RmaAttach => ffi::MPI_ERR_RMA_ATTACH,
        Class::RmaShared => ffi::MPI_ERR_RMA_SHARED,
        Class::RmaFlavor => ffi::MPI_ERR_RMA_FLAVOR,
        Class::Rank => ffi::MPI_ERR_RANK,
        Class::Group => ffi::MPI_ERR_GROUP,
        Class::Op => ffi::MPI_ERR_OP,
        Class::Count => ffi::MPI_ERR_COUNT,
        Class::Type => ffi::MPI_ERR_TYPE,
        Class::NoMem => ffi::MPI_ERR_NO_MEM,
        _ => ffi::MPI_ERR_OTHER,
    }) as c_int
}
