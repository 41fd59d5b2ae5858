//! The calls that programs see, and all unsafe code of the crate.
//!
//! Each call has the host's name and signature. It finds the window's state, asks it, and then passes the call on, or not.

#![allow(unsafe_code, reason = "C calls these functions, and they call C's")]
#![allow(non_snake_case, reason = "the names are MPI's")]

pub(crate) mod engine;
pub(crate) mod host;

use std::ffi::{c_char, c_int, c_void};

use mpi_sys as ffi;
use rmalab_atomics::Rank;
use rmalab_windows::{Assert, Call, FenceAssert, LockKind, PostAssert, StartAssert};

use crate::policy::{Failure, Managed};
use crate::settings::{Mode, Settings};
use crate::{summary, table};

/// Writes a line to standard error, in one piece, since several ranks may write at a time.
fn print(line: &str) {
    use std::io::Write;
    // There is no other place for it.
    let _ = std::io::stderr().write_all(format!("rmalab: {line}\n").as_bytes());
}

fn is_verbose() -> bool {
    std::env::var_os("RMALAB_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Manages a window that the host has just made by `call`, or leaves it to the host. Collective.
fn adopt(call: &str, win: ffi::MPI_Win, comm: ffi::MPI_Comm, info: ffi::MPI_Info) {
    if !host::has_one_group(comm) {
        return;
    }
    let Ok((rank, size)) = host::place(comm) else { return };
    let settings = Settings::read(|key| host::hint(info, key), |name| std::env::var(name).ok());
    let outcome = manage(win, comm, &settings);
    if rank != 0 {
        return;
    }
    summary::window(outcome.is_ok().then(|| settings.config.policy.name()));
    warn_once(&settings.warnings);
    if is_verbose() {
        let what = match outcome {
            Ok(in_force) => in_force,
            Err(why) => format!("the MPI's own, since {why}"),
        };
        print(&format!("{call} of {size} ranks: {what}"));
    }
}

/// Manages the window; returns the choices in force, or why the window is the host's alone. All ranks do the same.
fn manage(win: ffi::MPI_Win, comm: ffi::MPI_Comm, settings: &Settings) -> Result<String, String> {
    let digest = settings.digest();
    let refused = u64::from(!host::has_one_thread());
    let [most, least, refused] = host::largest(comm, &[digest, !digest, refused])?;
    if most != !least {
        return Err("the ranks disagree on its rmalab hints or variables".to_owned());
    }
    if settings.mode == Mode::Off {
        return Err("its mode is off".to_owned());
    }
    if refused != 0 {
        return Err("the program may call MPI from several threads".to_owned());
    }
    let managed = Managed::new(win, comm, settings).and_then(|managed| match managed.open_host() {
        Ok(()) => Ok(managed),
        Err(failure) => Err(format!("the MPI cannot lock it: {failure:?}")),
    });
    let failed = u64::from(managed.is_err());
    if host::largest(comm, &[failed])?[0] != 0 {
        return Err(managed.err().unwrap_or_else(|| "another rank cannot manage it".to_owned()));
    }
    let managed = managed?;
    let in_force: Vec<String> = managed.in_force.iter().map(|(key, value)| format!("{key}={value}")).collect();
    table::add(managed);
    Ok(in_force.join(" "))
}

/// Prints each warning the first time that it comes.
fn warn_once(warnings: &[String]) {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Ok(mut printed) = PRINTED.lock() else { return };
    for warning in warnings {
        if printed.insert(warning.clone()) {
            print(warning);
        }
    }
}

/// Returns a call's code to the program, after the error handler's call.
#[cold]
fn fail(win: ffi::MPI_Win, failure: &Failure) -> c_int {
    match failure {
        Failure::Host(code) => *code,
        Failure::Engine(error) => {
            if is_verbose() {
                print(&error.to_string());
            }
            host::raise(win, host::code_of(error.class()))
        }
    }
}

#[inline(always)]
fn code(win: ffi::MPI_Win, result: crate::policy::Result<()>) -> c_int {
    match result {
        Ok(()) => host::SUCCESS,
        Err(failure) => fail(win, &failure),
    }
}

/// Returns the target that a program names: `None` is MPI_PROC_NULL, and a negative number is a rank that does not exist.
#[inline(always)]
fn target(rank: c_int) -> Option<Rank> {
    // SAFETY: a constant of C.
    if rank == unsafe { ffi::RSMPI_PROC_NULL } { None } else { Some(Rank(rank as u32)) }
}

#[inline(always)]
fn has(assert: c_int, flag: u32) -> bool {
    assert & flag as c_int != 0
}

/// Defines calls that make a window.
macro_rules! creations {
    ($($(#[$attribute:meta])* $name:ident = $host:ident($($argument:ident: $type:ty),*) of $info:ident, $comm:ident, $win:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's own call, passed on.
            let code = unsafe { ffi::$host($($argument),*) };
            if code == host::SUCCESS {
                // SAFETY: the host has written the window there.
                adopt(stringify!($name), unsafe { *$win }, $comm, $info);
            }
            code
        }
    )*};
}

creations! {
    MPI_Win_create = PMPI_Win_create(base: *mut c_void, size: ffi::MPI_Aint, disp_unit: c_int, info: ffi::MPI_Info, comm: ffi::MPI_Comm, win: *mut ffi::MPI_Win) of info, comm, win;
    MPI_Win_allocate = PMPI_Win_allocate(size: ffi::MPI_Aint, disp_unit: c_int, info: ffi::MPI_Info, comm: ffi::MPI_Comm, base: *mut c_void, win: *mut ffi::MPI_Win) of info, comm, win;
    MPI_Win_allocate_shared = PMPI_Win_allocate_shared(size: ffi::MPI_Aint, disp_unit: c_int, info: ffi::MPI_Info, comm: ffi::MPI_Comm, base: *mut c_void, win: *mut ffi::MPI_Win) of info, comm, win;
    MPI_Win_create_dynamic = PMPI_Win_create_dynamic(info: ffi::MPI_Info, comm: ffi::MPI_Comm, win: *mut ffi::MPI_Win) of info, comm, win;
    #[cfg(large_counts)]
    MPI_Win_create_c = PMPI_Win_create_c(base: *mut c_void, size: ffi::MPI_Aint, disp_unit: ffi::MPI_Aint, info: ffi::MPI_Info, comm: ffi::MPI_Comm, win: *mut ffi::MPI_Win) of info, comm, win;
    #[cfg(large_counts)]
    MPI_Win_allocate_c = PMPI_Win_allocate_c(size: ffi::MPI_Aint, disp_unit: ffi::MPI_Aint, info: ffi::MPI_Info, comm: ffi::MPI_Comm, base: *mut c_void, win: *mut ffi::MPI_Win) of info, comm, win;
    #[cfg(large_counts)]
    MPI_Win_allocate_shared_c = PMPI_Win_allocate_shared_c(size: ffi::MPI_Aint, disp_unit: ffi::MPI_Aint, info: ffi::MPI_Info, comm: ffi::MPI_Comm, base: *mut c_void, win: *mut ffi::MPI_Win) of info, comm, win;
}

/// Defines operations, which ask for their epoch by `$way`, and are the host's.
macro_rules! operations {
    ($way:ident of $rank:ident, $win:ident; $($(#[$attribute:meta])* $name:ident = $host:ident($($argument:ident: $type:ty),*) as $call:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            const PLACE: usize = summary::place(stringify!($name));
            summary::count(PLACE);
            if let Some(window) = table::find($win)
                && let Err(failure) = window.$way(Call::$call, target($rank))
            {
                return fail($win, &failure);
            }
            // SAFETY: the program's own call, passed on.
            unsafe { ffi::$host($($argument),*) }
        }
    )*};
}

operations! {
    operate of target_rank, win;
    MPI_Put = PMPI_Put(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Put;
    MPI_Get = PMPI_Get(origin: *mut c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Get;
    MPI_Accumulate = PMPI_Accumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as Accumulate;
    MPI_Get_accumulate = PMPI_Get_accumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: c_int, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as GetAccumulate;
    MPI_Fetch_and_op = PMPI_Fetch_and_op(origin: *const c_void, result: *mut c_void, datatype: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, op: ffi::MPI_Op, win: ffi::MPI_Win) as FetchAndOp;
    MPI_Compare_and_swap = PMPI_Compare_and_swap(origin: *const c_void, compare: *const c_void, result: *mut c_void, datatype: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, win: ffi::MPI_Win) as CompareAndSwap;
    #[cfg(large_counts)]
    MPI_Put_c = PMPI_Put_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Put;
    #[cfg(large_counts)]
    MPI_Get_c = PMPI_Get_c(origin: *mut c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Get;
    #[cfg(large_counts)]
    MPI_Accumulate_c = PMPI_Accumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as Accumulate;
    #[cfg(large_counts)]
    MPI_Get_accumulate_c = PMPI_Get_accumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: ffi::MPI_Count, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as GetAccumulate;
}

operations! {
    operate_with_request of target_rank, win;
    MPI_Rput = PMPI_Rput(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Put;
    MPI_Rget = PMPI_Rget(origin: *mut c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Get;
    MPI_Raccumulate = PMPI_Raccumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Accumulate;
    MPI_Rget_accumulate = PMPI_Rget_accumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: c_int, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as GetAccumulate;
    #[cfg(large_counts)]
    MPI_Rput_c = PMPI_Rput_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Put;
    #[cfg(large_counts)]
    MPI_Rget_c = PMPI_Rget_c(origin: *mut c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Get;
    #[cfg(large_counts)]
    MPI_Raccumulate_c = PMPI_Raccumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Accumulate;
    #[cfg(large_counts)]
    MPI_Rget_accumulate_c = PMPI_Rget_accumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: ffi::MPI_Count, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as GetAccumulate;
}

/// Defines calls of synchronization, which the engine does for managed windows.
macro_rules! synchronizations {
    ($($name:ident = $host:ident($($argument:ident: $type:ty),*) on $win:ident, $window:ident => $managed:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            const PLACE: usize = summary::place(stringify!($name));
            summary::timed(PLACE, || match table::find($win) {
                Some($window) => $managed,
                // SAFETY: the program's own call, passed on.
                None => unsafe { ffi::$host($($argument),*) },
            })
        }
    )*};
}

synchronizations! {
    MPI_Win_lock = PMPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: ffi::MPI_Win) on win, window => lock(&window, lock_type, rank, assert);
    // SAFETY: the program's variable.
    MPI_Win_test = PMPI_Win_test(win: ffi::MPI_Win, flag: *mut c_int) on win, window => unsafe { test(&window, flag) };
    MPI_Win_unlock = PMPI_Win_unlock(rank: c_int, win: ffi::MPI_Win) on win, window => code(win, window.unlock(target(rank)));
    MPI_Win_lock_all = PMPI_Win_lock_all(assert: c_int, win: ffi::MPI_Win) on win, window => code(win, window.lock_all(lock_assert(assert)));
    MPI_Win_unlock_all = PMPI_Win_unlock_all(win: ffi::MPI_Win) on win, window => code(win, window.unlock_all());
    MPI_Win_flush = PMPI_Win_flush(rank: c_int, win: ffi::MPI_Win) on win, window => code(win, window.flush(target(rank)));
    MPI_Win_flush_all = PMPI_Win_flush_all(win: ffi::MPI_Win) on win, window => code(win, window.flush_all());
    MPI_Win_flush_local = PMPI_Win_flush_local(rank: c_int, win: ffi::MPI_Win) on win, window => code(win, window.flush_local(target(rank)));
    MPI_Win_flush_local_all = PMPI_Win_flush_local_all(win: ffi::MPI_Win) on win, window => code(win, window.flush_local_all());
    MPI_Win_fence = PMPI_Win_fence(assert: c_int, win: ffi::MPI_Win) on win, window => code(win, window.fence(fence_assert(assert)));
    MPI_Win_start = PMPI_Win_start(group: ffi::MPI_Group, assert: c_int, win: ffi::MPI_Win) on win, window => code(win, window.start(group, StartAssert { nocheck: has(assert, ffi::MPI_MODE_NOCHECK) }));
    MPI_Win_complete = PMPI_Win_complete(win: ffi::MPI_Win) on win, window => code(win, window.complete());
    MPI_Win_post = PMPI_Win_post(group: ffi::MPI_Group, assert: c_int, win: ffi::MPI_Win) on win, window => code(win, window.post(group, post_assert(assert)));
    MPI_Win_wait = PMPI_Win_wait(win: ffi::MPI_Win) on win, window => code(win, window.wait());
}

fn lock_assert(assert: c_int) -> Assert {
    if has(assert, ffi::MPI_MODE_NOCHECK) { Assert::NoCheck } else { Assert::None }
}

fn fence_assert(assert: c_int) -> FenceAssert {
    FenceAssert {
        nostore: has(assert, ffi::MPI_MODE_NOSTORE),
        noput: has(assert, ffi::MPI_MODE_NOPUT),
        noprecede: has(assert, ffi::MPI_MODE_NOPRECEDE),
        nosucceed: has(assert, ffi::MPI_MODE_NOSUCCEED),
    }
}

fn post_assert(assert: c_int) -> PostAssert {
    PostAssert {
        nocheck: has(assert, ffi::MPI_MODE_NOCHECK),
        nostore: has(assert, ffi::MPI_MODE_NOSTORE),
        noput: has(assert, ffi::MPI_MODE_NOPUT),
    }
}

/// Locks a managed window.
fn lock(window: &Managed, lock_type: c_int, rank: c_int, assert: c_int) -> c_int {
    const EXCLUSIVE: c_int = ffi::MPI_LOCK_EXCLUSIVE as c_int;
    const SHARED: c_int = ffi::MPI_LOCK_SHARED as c_int;
    let kind = match lock_type {
        EXCLUSIVE => LockKind::Exclusive,
        SHARED => LockKind::Shared,
        _ => return host::raise(window.win, ffi::MPI_ERR_LOCKTYPE as c_int),
    };
    code(window.win, window.lock(kind, target(rank), lock_assert(assert)))
}

/// Tests the exposure epoch of a managed window.
///
/// # Safety
///
/// `flag` may be written.
unsafe fn test(window: &Managed, flag: *mut c_int) -> c_int {
    match window.test() {
        Ok(over) => {
            // SAFETY: the caller's promise.
            unsafe { flag.write(c_int::from(over)) };
            host::SUCCESS
        }
        Err(failure) => fail(window.win, &failure),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Win_free(win: *mut ffi::MPI_Win) -> c_int {
    // SAFETY: the program's variable.
    let handle = unsafe { *win };
    let ended = table::take(handle).map_or(Ok(()), Managed::free);
    let reported = code(handle, ended);
    // SAFETY: the program's own call, passed on.
    let freed = unsafe { ffi::PMPI_Win_free(win) };
    if reported == host::SUCCESS { freed } else { reported }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Win_get_info(win: ffi::MPI_Win, info: *mut ffi::MPI_Info) -> c_int {
    // SAFETY: the program's own call, passed on.
    let code = unsafe { ffi::PMPI_Win_get_info(win, info) };
    if code == host::SUCCESS {
        // SAFETY: the host has written the info there.
        let info = unsafe { *info };
        match table::find(win) {
            Some(window) => window.in_force.iter().for_each(|(key, value)| host::set_hint(info, key, value)),
            None => host::set_hint(info, "rmalab_mode", &Mode::Off.to_string()),
        }
    }
    code
}

/// Ends the program if its MPI is not the one that this library is built for, whose handles have another form.
fn check_host() {
    let found = host::library();
    let (built_for, other) = if cfg!(open_mpi) { ("Open MPI", "MPICH") } else { ("MPICH", "Open MPI") };
    if found.starts_with("Open MPI") != cfg!(open_mpi) {
        print(&format!(
            "the preloaded library is built for {built_for}, but the program's MPI is {found}: preload the library that is built with the mpicc of {other}"
        ));
        std::process::exit(1);
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    check_host();
    // SAFETY: the program's own call, passed on.
    unsafe { ffi::PMPI_Init(argc, argv) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    check_host();
    // SAFETY: the program's own call, passed on.
    unsafe { ffi::PMPI_Init_thread(argc, argv, required, provided) }
}

/// Prints the summary, if any rank wants it. Collective over all ranks of the program.
fn summarize() {
    let all = host::everyone();
    let wanted = host::largest(all, &[u64::from(summary::is_wanted())]);
    if wanted != Ok([1]) {
        return;
    }
    if let (Ok(sums), Ok((0, size))) = (host::sum(all, &summary::numbers()), host::place(all)) {
        summary::table(&sums, size).iter().for_each(|line| print(line));
    }
}

/// Frees the windows that the program has left open, whose worlds need MPI, and then ends MPI.
///
/// The host's windows are freed, too: MPICH over UCX otherwise ends with a failed assertion.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Finalize() -> c_int {
    while let Some(window) = table::take_oldest() {
        let mut win = window.win;
        // The program does not ask for the errors of these windows any more.
        if let Err(failure) = window.free()
            && is_verbose()
        {
            print(&format!("MPI_Finalize: {failure:?}"));
        }
        // SAFETY: the window was just taken out of the table, into which it came when the host had made it.
        unsafe { ffi::PMPI_Win_free(&mut win) };
    }
    summarize();
    // SAFETY: the program's own call, passed on.
    unsafe { ffi::PMPI_Finalize() }
}
