//! The host MPI's calls, as safe functions.
//!
//! Handles come from the program's calls, or from the host. In MPI, the use of a freed handle is erroneous. So a program that passes
//! one has undefined behaviour, with or without this library.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mpi_sys as ffi;
use rmalab_atomics::{Mpi, Rank, Served, Topology, mpi};
use rmalab_windows::{Class, Op};

use super::native::{Items, Remote};
use super::threads::{self, Guarded, outside};
use super::types;
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
    if code == SUCCESS { Ok(()) } else { Err(format!("{what}: MPI reports: {}", text_of(code))) }
}

/// Returns the host's text of a code.
pub(crate) fn text_of(code: c_int) -> String {
    let mut text = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len = 0;
    // SAFETY: the buffer is as long as the call may write.
    unsafe { ffi::PMPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut len) };
    CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default().into_owned()
}

/// Returns how the program's MPI describes itself, whichever it is.
pub(crate) fn library() -> Vec<u8> {
    /// More than any MPI writes: MPICH up to 8 KiB, though Open MPI only 256 bytes.
    const LONGEST: usize = 64 << 10;
    let mut text = vec![0_u8; LONGEST];
    let mut len = 0;
    // SAFETY: the buffer is longer than the call may write, and both MPIs have the same signature.
    unsafe { ffi::PMPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &mut len) };
    text
}

/// Returns the first line of an MPI's description.
pub(crate) fn name(library: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(library).map(CStr::to_string_lossy).unwrap_or_default();
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

/// Returns whether several threads may call MPI at a time.
pub(crate) fn has_many_threads() -> bool {
    let mut provided = 0;
    // SAFETY: the call writes to a live variable; the constants are C's.
    unsafe { ffi::PMPI_Query_thread(&mut provided) != SUCCESS || provided > ffi::RSMPI_THREAD_SERIALIZED }
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
    let code = outside(|| unsafe {
        let (from, to) = (numbers.as_ptr().cast(), reduced.as_mut_ptr().cast());
        ffi::PMPI_Allreduce(from, to, N as c_int, ffi::RSMPI_UINT64_T, op, comm)
    });
    ours(code, "agreeing with the other ranks").map(|()| reduced)
}

/// Returns the text of the lowest rank that has one, or nothing if no rank has. Collective.
pub(crate) fn text_of_lowest(comm: Comm, own: Option<&str>) -> std::result::Result<String, String> {
    /// Longer texts are truncated.
    const WORDS: usize = 64;
    /// Bytes of the text in a word. MPICH 4.0 compares 64-bit words as signed numbers when it takes the largest.
    const BYTES: usize = 7;
    let (rank, _) = place(comm)?;
    let own_order = own.map_or(0, |_| u64::from(u32::MAX - rank));
    let [first] = largest(comm, &[own_order])?;
    let mut text = [0_u64; WORDS];
    if let Some(own) = own.filter(|_| first == own_order) {
        for (word, bytes) in text.iter_mut().zip(own.as_bytes().chunks(BYTES)) {
            *word = bytes.iter().rfold(0, |word, &byte| word << 8 | u64::from(byte));
        }
    }
    let words = largest(comm, &text)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).filter(|&byte| byte != 0).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Copies rank 0's numbers to all ranks. Collective.
pub(crate) fn broadcast<const N: usize>(comm: Comm, numbers: &mut [u64; N]) -> std::result::Result<(), String> {
    // SAFETY: the buffer has N words, as all ranks' do.
    let code =
        outside(|| unsafe { ffi::PMPI_Bcast(numbers.as_mut_ptr().cast(), N as c_int, ffi::RSMPI_UINT64_T, 0, comm) });
    ours(code, "receiving from rank 0")
}

/// Returns the numbers of all ranks. Collective.
pub(crate) fn gather(comm: Comm, number: u64) -> std::result::Result<Vec<u64>, String> {
    let (_, size) = place(comm)?;
    let mut numbers = vec![0_u64; size as usize];
    // SAFETY: the first buffer has one word, as at all ranks, and the second one for each rank.
    let code = outside(|| unsafe {
        let of = ffi::RSMPI_UINT64_T;
        ffi::PMPI_Allgather((&raw const number).cast(), 1, of, numbers.as_mut_ptr().cast(), 1, of, comm)
    });
    ours(code, "gathering from the other ranks").map(|()| numbers)
}

/// Returns the nodes of the communicator: the ranks that share memory. Collective.
pub(crate) fn topology(comm: Comm) -> std::result::Result<Topology, String> {
    let (rank, _) = place(comm)?;
    // SAFETY: see the module; the call writes to a live variable; the constants are C's.
    let node = unsafe {
        let mut node = ffi::RSMPI_COMM_NULL;
        let split = ffi::RSMPI_COMM_TYPE_SHARED;
        let code = outside(|| ffi::PMPI_Comm_split_type(comm, split, rank as c_int, ffi::RSMPI_INFO_NULL, &mut node));
        ours(code, "finding the ranks of this host").map(|()| node)
    }?;
    // The lowest rank of a node is its number.
    let mut leader = [u64::from(rank)];
    let told = broadcast(node, &mut leader);
    let mut node = node;
    // SAFETY: the communicator was just made.
    unsafe { ffi::PMPI_Comm_free(&mut node) };
    told?;
    let nodes = gather(comm, leader[0])?;
    Ok(Topology::of_places(nodes.into_iter().map(|node| (node as u32, 0))))
}

/// Returns a window's handle as a number.
#[inline(always)]
pub(crate) fn number(win: Win) -> usize {
    win.0 as usize
}

/// A group that this library keeps, for calls of any thread.
pub(crate) struct Held(Group);

// SAFETY: a handle is a value. Any thread that may call MPI may use it.
unsafe impl Send for Held {}

impl Held {
    /// Returns the group of a communicator's ranks.
    pub(crate) fn of(comm: Comm) -> std::result::Result<Held, String> {
        group_of_comm(comm).map(Held)
    }

    /// Returns the numbers that the members of `group` have in this group.
    pub(crate) fn ranks(&self, group: Group) -> Result<Vec<Rank>> {
        ranks(group, self.0)
    }

    /// Returns whether both groups have the same ranks.
    pub(crate) fn has_the_ranks_of(&self, other: &Held) -> bool {
        let mut result = 0;
        // SAFETY: see the module; the call writes to a live variable; the constants are C's.
        unsafe {
            ffi::PMPI_Group_compare(self.0, other.0, &mut result) == SUCCESS
                && (result == ffi::RSMPI_IDENT || result == ffi::RSMPI_SIMILAR)
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        free_group(self.0);
    }
}

/// Makes a world of the communicator's ranks over the host's windows. Collective.
pub(crate) fn remote_world(comm: Comm, segment_bytes: u64) -> std::result::Result<Mpi, String> {
    // SAFETY: MPI is initialized, and its communicator has one group (the caller has checked); MPI_Finalize of this library ends all
    // worlds first.
    let world = unsafe { mpi::Attach::new().segment_bytes(segment_bytes).over(comm) };
    world.map_err(|error| error.to_string())
}

/// The key of the attribute that holds the number of a communicator's worlds.
static KEY: OnceLock<c_int> = OnceLock::new();

/// A duplicate of a communicator has no worlds yet.
unsafe extern "C" fn copy_nothing(
    _comm: Comm,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the host's variable.
    unsafe { flag.write(0) };
    SUCCESS
}

/// The communicator is being freed.
unsafe extern "C" fn forget(_comm: Comm, _key: c_int, number: *mut c_void, _extra: *mut c_void) -> c_int {
    let _pass = threads::pass();
    crate::world::forget(number.addr());
    SUCCESS
}

/// Gives a number to a communicator, which [`crate::world::forget`] gets when the communicator is freed.
pub(crate) fn mark(comm: Comm, number: usize) -> std::result::Result<(), String> {
    let key = match KEY.get() {
        Some(&key) => key,
        None => {
            let mut key = 0;
            // SAFETY: the functions have the signatures that the call names, and the key lives to the end of the program.
            let code = unsafe {
                ffi::PMPI_Comm_create_keyval(Some(copy_nothing), Some(forget), &mut key, std::ptr::null_mut())
            };
            ours(code, "making an attribute of communicators")?;
            *KEY.get_or_init(|| key)
        }
    };
    // SAFETY: see the module. The value is a number, not an address.
    ours(
        unsafe { ffi::PMPI_Comm_set_attr(comm, key, std::ptr::without_provenance_mut(number)) },
        "setting an attribute of a communicator",
    )
}

/// Returns the number of a communicator, if it has one.
#[inline(always)]
pub(crate) fn mark_of(comm: Comm) -> Option<usize> {
    let &key = KEY.get()?;
    let (mut value, mut found) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: see the module; the call writes to live variables.
    let code = unsafe { ffi::PMPI_Comm_get_attr(comm, key, (&raw mut value).cast(), &mut found) };
    (code == SUCCESS && found != 0).then_some(value.addr())
}

/// A communicator of this rank alone, for copies from one type to another.
static ALONE: Guarded<Cell<Option<Comm>>> = Guarded::new(Cell::new(None));

/// Windows over this rank alone that no window of the program has.
static CARRIERS: Guarded<RefCell<Vec<Win>>> = Guarded::new(RefCell::new(Vec::new()));

/// Returns the error of a call on a private communicator, for the error handler of a window.
fn class(code: c_int) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(Failure::Class(code)) }
}

fn alone() -> Result<Comm> {
    let alone = ALONE.enter();
    if let Some(comm) = alone.get() {
        return Ok(comm);
    }
    // SAFETY: MPI is initialized while there are windows; the calls write to a live variable, which begins as a constant of C.
    let comm = unsafe {
        let mut comm = ffi::RSMPI_COMM_NULL;
        class(ffi::PMPI_Comm_dup(ffi::RSMPI_COMM_SELF, &mut comm))?;
        class(ffi::PMPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN))?;
        comm
    };
    alone.set(Some(comm));
    Ok(comm)
}

/// Copies items to items with the same elements, in any layouts, by a message of this rank to itself.
///
/// # Safety
///
/// The program's call allows reads and writes of the items.
pub(crate) unsafe fn copy(from: Items, to: Items) -> Result<()> {
    let comm = alone()?;
    // SAFETY: the caller's promise; MPI checks the types.
    unsafe {
        let status = ffi::RSMPI_STATUS_IGNORE;
        if let (Ok(sent), Ok(received)) = (c_int::try_from(from.count), c_int::try_from(to.count)) {
            return class(ffi::PMPI_Sendrecv(from.at, sent, from.of, 0, 0, to.at, received, to.of, 0, 0, comm, status));
        }
        #[cfg(large_counts)]
        return class(ffi::PMPI_Sendrecv_c(
            from.at,
            from.count as ffi::MPI_Count,
            from.of,
            0,
            0,
            to.at,
            to.count as ffi::MPI_Count,
            to.of,
            0,
            0,
            comm,
            status,
        ));
        #[cfg(not(large_counts))]
        Err(Failure::Class(ffi::MPI_ERR_COUNT as c_int))
    }
}

/// Returns an address of MPI as a number. MPICH has a `long` for it, and Open MPI a `ptrdiff_t`.
#[inline(always)]
#[allow(clippy::unnecessary_cast, reason = "for one of the two")]
pub(crate) fn wide(address: ffi::MPI_Aint) -> i64 {
    address as i64
}

/// Returns the size of a type in bytes, and its extent.
pub(crate) fn size_of(of: ffi::MPI_Datatype) -> Result<(u64, u64)> {
    let (mut size, mut lower, mut extent) = (0, 0, 0);
    // SAFETY: see the module; the calls write to live variables.
    unsafe {
        class(ffi::PMPI_Type_size(of, &mut size))?;
        class(ffi::PMPI_Type_get_extent(of, &mut lower, &mut extent))?;
    }
    Ok((size.max(0) as u64, wide(extent).unsigned_abs()))
}

/// Returns the lower bound of a type, and its extent.
pub(crate) fn bounds(of: ffi::MPI_Datatype) -> Result<(i64, i64)> {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: see the module; the call writes to live variables.
    class(unsafe { ffi::PMPI_Type_get_extent(of, &mut lower, &mut extent) })?;
    Ok((wide(lower), wide(extent)))
}

/// Returns bytes as items whose elements may be of any type, without gaps.
pub(crate) fn packed(bytes: &mut [u8]) -> Items {
    unsafe extern "C" {
        #[link_name = "rmalab_mpi_packed"]
        static PACKED: ffi::MPI_Datatype;
    }
    // SAFETY: a constant of C.
    Items { at: bytes.as_mut_ptr().cast(), count: bytes.len() as i64, of: unsafe { PACKED } }
}

/// Combines the origin's items into the first items of the target, after it has copied all of the target's items to `result`. Nothing
/// else updates the target. `there` has the target's count and type, while `target` may be a packed copy. The caller has compared the
/// sizes.
///
/// # Safety
///
/// The conditions of [`copy`].
pub(crate) unsafe fn combine(origin: Items, result: Option<Items>, target: Items, there: Remote, op: Op) -> Result<()> {
    let element = types::element(there.of).filter(|&element| types::element(origin.of) == Some(element));
    let element = match op {
        Op::NoOp | Op::Replace => None,
        _ if element.is_none() => return Err(Failure::Class(ffi::MPI_ERR_TYPE as c_int)),
        _ => element,
    };
    // SAFETY: the caller's promise; the buffers have room for all elements.
    unsafe {
        if let Some(result) = result {
            copy(target, result)?;
        }
        let Some(of) = element else { return if op == Op::NoOp { Ok(()) } else { copy(origin, target) } };
        let (size, extent) = size_of(of)?;
        let elements = |of, count: i64| -> Result<u64> { Ok(size_of(of)?.0 * count as u64 / size.max(1)) };
        let (updated, count) = (elements(origin.of, origin.count)?, elements(there.of, there.count)?);
        let Ok(number) = c_int::try_from(updated) else { return Err(Failure::Class(ffi::MPI_ERR_COUNT as c_int)) };
        // Words of 16 bytes, the largest alignment of a predefined type.
        let room = |count: u64| vec![0_u128; (count * extent).div_ceil(16) as usize];
        let (mut new, mut old) = (room(updated), room(count));
        let first = |room: &mut Vec<u128>, count: u64| Items { at: room.as_mut_ptr().cast(), count: count as i64, of };
        copy(origin, first(&mut new, updated))?;
        copy(target, first(&mut old, count))?;
        class(ffi::PMPI_Reduce_local(new.as_ptr().cast(), old.as_mut_ptr().cast(), number, of, types::handle(op)))?;
        copy(first(&mut old, updated), target)
    }
}

/// Returns the first byte that the items touch, counted from their address, and the number of bytes to the last one.
pub(crate) fn span(count: i64, of: ffi::MPI_Datatype) -> Result<(i64, u64)> {
    let (mut first, mut len, mut lower, mut extent) = (0, 0, 0, 0);
    // SAFETY: see the module; the calls write to live variables.
    unsafe {
        class(ffi::PMPI_Type_get_true_extent(of, &mut first, &mut len))?;
        class(ffi::PMPI_Type_get_extent(of, &mut lower, &mut extent))?;
    }
    let (first, len, extent) = (wide(first), wide(len), wide(extent));
    if count <= 0 || len <= 0 {
        return Ok((0, 0));
    }
    let reach = (count - 1).saturating_mul(extent);
    Ok((first.saturating_add(reach.min(0)), (len as u64).saturating_add(reach.unsigned_abs())))
}

/// Returns a request that is complete: a message from no rank.
///
/// # Safety
///
/// `request` may be written.
pub(crate) unsafe fn completed(request: *mut ffi::MPI_Request) -> Result<()> {
    // SAFETY: the caller's promise; the constants are C's.
    class(unsafe {
        let (byte, none) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_PROC_NULL);
        ffi::PMPI_Irecv(std::ptr::null_mut(), 0, byte, none, 0, ffi::RSMPI_COMM_SELF, request)
    })
}

/// Returns a window over this rank alone: a window that was given back, or a new one with this info. Local.
pub(crate) fn carrier(info: Info) -> std::result::Result<(Win, bool), String> {
    let is_plain = is_null(info);
    if is_plain && let Some(win) = CARRIERS.get().and_then(|carriers| carriers.borrow_mut().pop()) {
        return Ok((win, false));
    }
    // SAFETY: MPI is initialized; the call writes to live variables; the constants are C's.
    unsafe {
        let (mut base, mut win) = (std::ptr::null_mut::<c_void>(), ffi::RSMPI_WIN_NULL);
        let at = (&raw mut base).cast();
        let code = ffi::PMPI_Win_allocate(0, 1, info, ffi::RSMPI_COMM_SELF, at, &mut win);
        ours(code, "making a window of this rank").map(|()| (win, !is_plain))
    }
}

/// Takes a carrier back. If it `is_marked`, it is freed. Otherwise another window of the program may use it.
pub(crate) fn give_back(mut carrier: Win, is_marked: bool) {
    if is_marked {
        // SAFETY: it was made by `carrier`, and no window of the program has it.
        unsafe { ffi::PMPI_Win_free(&mut carrier) };
        return;
    }
    let _pass = threads::pass();
    CARRIERS.enter().borrow_mut().push(carrier);
}

/// Frees the objects that this library has made over this rank alone.
pub(crate) fn free_private() {
    let carriers = CARRIERS.get().map(RefCell::take).unwrap_or_default();
    for mut win in carriers {
        // SAFETY: it was made by `carrier`, and no window of the program has it.
        unsafe { ffi::PMPI_Win_free(&mut win) };
    }
    if let Some(mut comm) = ALONE.get().and_then(Cell::take) {
        // SAFETY: it was made by `alone`.
        unsafe { ffi::PMPI_Comm_free(&mut comm) };
    }
}

/// Returns the null handle of windows.
pub(crate) fn no_window() -> Win {
    // SAFETY: a constant of C.
    unsafe { ffi::RSMPI_WIN_NULL }
}

/// Returns a group of the ranks of `group`, for the program.
pub(crate) fn copy_of(group: Group) -> Result<Group> {
    // SAFETY: see the module; the call reads no ranks, and writes to a live variable, which begins as a constant of C.
    unsafe {
        let mut copy = ffi::RSMPI_GROUP_NULL;
        class(ffi::PMPI_Group_excl(group, 0, std::ptr::null(), &mut copy)).map(|()| copy)
    }
}

/// Returns the group of a communicator's ranks.
pub(crate) fn group_of_comm(comm: Comm) -> std::result::Result<Group, String> {
    // SAFETY: as in `group_of`.
    unsafe {
        let mut group = ffi::RSMPI_GROUP_NULL;
        ours(ffi::PMPI_Comm_group(comm, &mut group), "asking for the communicator's ranks").map(|()| group)
    }
}

/// Returns whether the process has MPI's interface of Fortran, some of whose calls do not reach this library.
pub(crate) fn has_fortran() -> bool {
    unsafe extern "C" {
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    static HAS: OnceLock<bool> = OnceLock::new();
    // SAFETY: the call names no library, so it searches the whole process. The name ends with 0.
    *HAS.get_or_init(|| !unsafe { dlsym(std::ptr::null_mut(), c"mpi_win_set_attr_".as_ptr()) }.is_null())
}

/// A tag that programs hardly use: the largest that every MPI has.
const TAG: c_int = 32_767;

/// A probe that takes longer than this has probably served another rank.
const SERVED: Duration = Duration::from_micros(1);

/// The time for which a rank that has served another rank expects the next request at once, since the holder of a lock
/// may need several.
const AWAKE: Duration = Duration::from_millis(1);

thread_local! {
    static AWAKE_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets the host make progress on requests of other ranks, by a probe, which takes no message. Returns whether to expect more requests.
///
/// The communicator has to have several ranks, since MPICH answers a probe of this rank alone without a look at the network. A probe that
/// finds a message ends sooner, so the tag matches no message.
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
    if is_null(info) {
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

/// Returns whether the info is the null handle.
pub(crate) fn is_null(info: Info) -> bool {
    // SAFETY: a constant of C.
    info == unsafe { ffi::RSMPI_INFO_NULL }
}

/// Adds a pair to an info of the program.
pub(crate) fn set_hint(info: Info, key: &str, value: &str) {
    let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else { return };
    // SAFETY: see the module; the host copies both texts. A failure leaves the key out, and nothing else can be done.
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

/// Returns the numbers that the members of `group` have in `all`. A member that is not in `all` is an error of the
/// group.
pub(crate) fn ranks(group: Group, all: Group) -> Result<Vec<Rank>> {
    let mut members = Members::default();
    members.read(group, all)?;
    Ok(members.ranks)
}

/// The members of a group, in reusable lists.
#[derive(Default)]
pub(crate) struct Members {
    /// The numbers from 0 on, up to the largest number of members of any group so far.
    own: Vec<c_int>,
    translated: Vec<c_int>,
    ranks: Vec<Rank>,
}

impl Members {
    /// Reads the numbers that the members of `group` have in `all`, and returns them. A member that is not in `all` is an error of the
    /// group.
    pub(crate) fn read(&mut self, group: Group, all: Group) -> Result<&[Rank]> {
        // SAFETY: a constant of C. The host would call the communicator's error handler, not the window's.
        if group == unsafe { ffi::RSMPI_GROUP_NULL } {
            return Err(Failure::Class(ffi::MPI_ERR_GROUP as c_int));
        }
        let mut size = 0;
        // SAFETY: see the module; the call writes to a live variable.
        done(unsafe { ffi::PMPI_Group_size(group, &mut size) })?;
        self.own.extend(self.own.len() as c_int..size);
        self.translated.resize(size as usize, 0);
        let (own, translated) = (self.own.as_ptr(), self.translated.as_mut_ptr());
        // SAFETY: as above; both arrays have `size` numbers, or more.
        done(unsafe { ffi::PMPI_Group_translate_ranks(group, size, own, all, translated) })?;
        self.ranks.clear();
        for &rank in &self.translated {
            // A rank that is not in `all` has a negative number.
            self.ranks.push(Rank(u32::try_from(rank).map_err(|_| Failure::Class(ffi::MPI_ERR_GROUP as c_int))?));
        }
        Ok(&self.ranks)
    }
}

/// Opens the host's epoch of all operations on a managed window. No call takes another kind of lock there.
pub(crate) fn lock_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_lock_all(ffi::MPI_MODE_NOCHECK as c_int, win) }))
}

pub(crate) fn unlock_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_unlock_all(win) }))
}

#[inline]
pub(crate) fn flush(target: Rank, win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_flush(target.0 as c_int, win) }))
}

#[inline]
pub(crate) fn flush_local(target: Rank, win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_flush_local(target.0 as c_int, win) }))
}

#[inline]
pub(crate) fn flush_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_flush_all(win) }))
}

#[inline]
pub(crate) fn flush_local_all(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_flush_local_all(win) }))
}

#[inline]
pub(crate) fn sync(win: Win) -> Result<()> {
    // SAFETY: see the module.
    done(outside(|| unsafe { ffi::PMPI_Win_sync(win) }))
}

/// Returns whether an error of the window ends the program.
pub(crate) fn has_fatal_errors(win: Win) -> bool {
    // SAFETY: see the module; the call writes to a live variable, which begins as a constant of C.
    unsafe {
        let mut handler = ffi::RSMPI_ERRORS_RETURN;
        ffi::PMPI_Win_get_errhandler(win, &mut handler);
        is_fatal(handler)
    }
}

/// Returns whether an error of the communicator ends the program.
pub(crate) fn has_fatal_errors_on(comm: Comm) -> bool {
    // SAFETY: as in `has_fatal_errors`.
    unsafe {
        let mut handler = ffi::RSMPI_ERRORS_RETURN;
        ffi::PMPI_Comm_get_errhandler(comm, &mut handler);
        is_fatal(handler)
    }
}

/// Returns whether the handler ends the program, and drops the handle.
fn is_fatal(mut handler: ffi::MPI_Errhandler) -> bool {
    unsafe extern "C" {
        #[link_name = "rmalab_mpi_errors_abort"]
        static ERRORS_ABORT: ffi::MPI_Errhandler;
    }
    // SAFETY: see the module; the constants are C's.
    unsafe {
        let is_fatal = handler == ffi::RSMPI_ERRORS_ARE_FATAL || handler == ERRORS_ABORT;
        // The host has counted this handle. Predefined handlers are never freed.
        if !is_fatal && handler != ffi::RSMPI_ERRORS_RETURN {
            ffi::PMPI_Errhandler_free(&mut handler);
        }
        is_fatal
    }
}

/// Calls the window's error handler, as the host does for its own errors, and returns the code.
pub(crate) fn raise(win: Win, code: c_int) -> c_int {
    // SAFETY: see the module.
    outside(|| unsafe { ffi::PMPI_Win_call_errhandler(win, code) });
    code
}

/// Calls the communicator's error handler with an error of this library, and returns the code.
#[cold]
pub(crate) fn raise_on(comm: Comm, code: c_int) -> c_int {
    // SAFETY: see the module.
    outside(|| unsafe { ffi::PMPI_Comm_call_errhandler(comm, code) });
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
        Class::InfoKey => ffi::MPI_ERR_INFO_KEY,
        Class::InfoValue => ffi::MPI_ERR_INFO_VALUE,
        Class::Info => ffi::MPI_ERR_INFO,
        _ => ffi::MPI_ERR_OTHER,
    }) as c_int
}
