//! The calls that programs see, and all unsafe code of the crate.
//!
//! Each call has the host's name and signature. It finds the window's state, which decides whether the call goes to the
//! host.

#![allow(unsafe_code, reason = "C calls these functions, and they call C's")]
#![allow(non_snake_case, reason = "the names are MPI's")]

pub(crate) mod engine;
mod events;
mod fortran;
pub(crate) mod host;
pub(crate) mod native;
pub(crate) mod threads;
mod types;

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mpi_sys as ffi;
use rmalab_atomics::{Rank, Topology};
use rmalab_windows::replay::Step;
use rmalab_windows::trace::Description;
use rmalab_windows::{
    AccumulateStrategy, Assert, Call, Class, FenceAssert, Flavor, Info, LockKind, PolicyKind, PostAssert, StartAssert,
};

use self::engine::{Engine, Memory};
use self::native::{Items, Native, Remote};
use self::threads::{outside, pass};
use crate::policy::{Failure, Managed};
use crate::settings::{Control, Mode, Settings, digest};
use crate::table::Window;
use crate::world::Worlds;
use crate::{record, summary, table, world};

/// Writes a line to standard error, in one piece, since several ranks may write at a time.
fn print(line: &str) {
    use std::io::Write;
    // There is no other place for it.
    let _ = std::io::stderr().write_all(format!("rmalab: {line}\n").as_bytes());
}

fn is_verbose() -> bool {
    std::env::var_os("RMALAB_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The agreement of a communicator's ranks on a new window.
struct Plan {
    rank: u32,
    size: u32,
    settings: Settings,
    /// The communicator's worlds, or the reason why the host keeps the window to itself.
    worlds: Result<Rc<Worlds>, String>,
    /// The reason why the window is not native although it was chosen to be.
    why_not: Option<String>,
    /// The largest part of any rank, and whether all parts are alike.
    most: u64,
    alike: bool,
    /// True if some part is larger than the memory of its rank's machine.
    is_too_large: bool,
    /// The handle of a native window, with true if it was made for this window only.
    carrier: Option<(ffi::MPI_Win, bool)>,
    /// The folder of the window's trace, on which all ranks agree.
    record: Option<PathBuf>,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // The window is not native.
        if let Some((carrier, is_marked)) = self.carrier.take() {
            host::give_back(carrier, is_marked);
        }
    }
}

/// The memory that a program asks for, or gives from `base` on.
#[derive(Clone, Copy)]
struct WindowMemory {
    flavor: Flavor,
    base: *mut c_void,
    bytes: i64,
    unit: i64,
}

impl WindowMemory {
    /// Describes memory that the call allocates for the window.
    fn new(flavor: Flavor, bytes: i64, unit: i64) -> WindowMemory {
        WindowMemory { flavor, base: std::ptr::null_mut(), bytes, unit }
    }

    /// Returns whether the memory is the program's.
    fn is_programs(self) -> bool {
        matches!(self.flavor, Flavor::Create | Flavor::Dynamic)
    }

    /// Returns the bytes that a world needs for it at each rank if the largest part is `most` bytes; `None` if that is too much.
    fn room(self, most: u64, ranks: u32) -> Option<u64> {
        match self.flavor {
            Flavor::Create | Flavor::Dynamic => Some(0),
            Flavor::Allocate => Some(most),
            // All ranks' parts are in one piece.
            Flavor::Shared => most.checked_mul(ranks.into()),
        }
    }
}

/// Returns the choices for a window with this info. Variables are read once.
fn settings(info: ffi::MPI_Info) -> Settings {
    static DEFAULTS: OnceLock<Settings> = OnceLock::new();
    let variable = |name: &str| std::env::var(name).ok();
    if host::is_null(info) {
        return DEFAULTS.get_or_init(|| Settings::read(|_| None, variable)).clone();
    }
    Settings::read(|key| host::hint(info, key), variable)
}

/// Agrees on a new window. Collective; `None` if windows of this communicator are never managed.
fn plan(comm: ffi::MPI_Comm, info: ffi::MPI_Info, wanted: WindowMemory) -> Option<Plan> {
    if !host::has_one_group(comm) {
        return None;
    }
    let (rank, size) = host::place(comm).ok()?;
    let settings = settings(info);
    let worlds = Err(String::new());
    let mut plan = Plan {
        rank,
        size,
        settings,
        worlds,
        why_not: None,
        most: 0,
        alike: false,
        is_too_large: false,
        carrier: None,
        record: None,
    };
    plan.worlds = agree(&mut plan, comm, info, wanted);
    Some(plan)
}

/// Returns the worlds of the communicator, if its window can be managed. All ranks return the same. Collective.
fn agree(
    plan: &mut Plan,
    comm: ffi::MPI_Comm,
    info: ffi::MPI_Info,
    wanted: WindowMemory,
) -> Result<Rc<Worlds>, String> {
    let digest = plan.settings.digest;
    let many = u64::from(threads::are_many());
    // The host does some barriers of this rank.
    let by_host = u64::from(!host::has_one_thread() || host::has_fortran());
    // Each reason has its own word, since the ranks agree on the largest word.
    let odd = wanted.bytes < 0 || !u32::try_from(wanted.unit).is_ok_and(|unit| unit > 0);
    let (bytes, unit) = (wanted.bytes as u64, wanted.unit as u64);
    let too_large = u64::from(!odd && !wanted.is_programs() && bytes > world::most_memory());
    if plan.settings.mode == Mode::Native {
        plan.carrier = host::carrier(info).ok();
    }
    let no_handle = u64::from(plan.carrier.is_none());
    let numbers = [digest, !digest, many, by_host, u64::from(odd), no_handle, too_large, bytes, !bytes, unit, !unit];
    let known = world::of(comm);
    let [most, least, many, by_host, odd, no_handle, too_large, bytes, no_bytes, unit, no_unit] =
        match known.as_ref().and_then(|worlds| worlds.shared()) {
            Some(ranks) => ranks.largest(&numbers)?,
            None => host::largest(comm, &numbers)?,
        };
    if most != !least {
        let why = disagreement(comm, &plan.settings)?;
        plan.settings.warnings.push(format!("{why}: the MPI's own window is used"));
        return Err(why);
    }
    plan.record = plan.settings.record.clone();
    if plan.settings.mode.is_hosts() {
        return Err(format!("its mode is {}", plan.settings.mode));
    }
    (plan.most, plan.alike) = (bytes, bytes == !no_bytes && unit == !no_unit);
    if too_large != 0 && plan.settings.mode == Mode::Native && plan.settings.control != Control::Remote {
        plan.is_too_large = true;
        return Err("it is larger than the machine's memory".to_owned());
    }
    if plan.settings.mode == Mode::Native {
        plan.why_not = if plan.settings.control == Control::Remote {
            Some("rmalab_control is remote".to_owned())
        } else if odd != 0 {
            Some("its size or unit is wrong".to_owned())
        } else if no_handle != 0 {
            Some("the MPI makes no window of one rank".to_owned())
        } else {
            None
        };
    }
    if many != 0 {
        let room = if plan.why_not.is_none() && plan.settings.mode == Mode::Native {
            wanted.room(bytes, plan.size)
        } else {
            Some(0)
        };
        return room.map(world::for_one_window).ok_or_else(|| "it is larger than all addresses".to_owned());
    }
    let worlds = world::made_for(comm)?;
    if by_host == 0 {
        worlds.take_barriers();
    }
    Ok(worlds)
}

/// Returns the difference between the choices of two ranks, one of which is rank 0. All ranks return the same.
/// Collective.
fn disagreement(comm: ffi::MPI_Comm, settings: &Settings) -> Result<String, String> {
    let mut differing = Vec::new();
    for (key, value) in settings.choices() {
        let digest = digest(&value);
        let [most, least] = host::largest(comm, &[digest, !digest])?;
        if most != !least {
            differing.push(format!("{key}={value}"));
        }
    }
    let own = differing.join(" ");
    let (rank, _) = host::place(comm)?;
    let first = host::text_of_lowest(comm, Some(&own))?;
    // A long text is truncated.
    let other = (!own.starts_with(&first)).then(|| format!("rank {rank} has {own}"));
    let other = host::text_of_lowest(comm, other.as_deref())?;
    Ok(format!("the ranks disagree on a window: rank 0 has {first}, {other}"))
}

/// Makes a window of mode `native`; `None` where that is not wanted, or cannot be. Collective.
fn make_native(
    plan: &mut Plan,
    call: &str,
    comm: ffi::MPI_Comm,
    wanted: WindowMemory,
) -> Option<(ffi::MPI_Win, *mut c_void)> {
    if plan.settings.mode != Mode::Native || plan.why_not.is_some() {
        return None;
    }
    let worlds = Rc::clone(plan.worlds.as_ref().ok()?);
    match native(plan, &worlds, comm, wanted) {
        Ok(window) => {
            let made = (window.win, window.base());
            let window = Window::Native(window);
            report(plan, call, Ok(&window));
            begin_trace(plan, call, made.0, comm, wanted, Some(&window));
            table::add(window);
            Some(made)
        }
        Err(why) => {
            plan.why_not = Some(why);
            None
        }
    }
}

/// The most ranks of a window in shared memory whose lock_alls look at all targets, unless a policy is named. Then an exclusive lock has
/// half of the locked instructions. With more ranks, lock_all would be slower than that is worth.
const MOST_TO_SCAN: u32 = 8;

/// Makes the window. All ranks return it, or a reason.
fn native(plan: &mut Plan, worlds: &Worlds, comm: ffi::MPI_Comm, wanted: WindowMemory) -> Result<Native, String> {
    let ranks = worlds.make_shared(comm)?;
    let (bytes, unit) = (wanted.bytes as u64, wanted.unit as u32);
    let memory = match (wanted.flavor, plan.alike) {
        (Flavor::Shared, _) => Memory::Adjacent { bytes, unit },
        (Flavor::Allocate, true) => Memory::Same { bytes, unit },
        (Flavor::Allocate, false) => Memory::Differing { bytes, unit },
        (Flavor::Create, _) => Memory::Program { base: wanted.base, bytes, unit },
        (Flavor::Dynamic, _) => Memory::Attached,
    };
    let mut config = plan.settings.config;
    if !plan.settings.names_policy && plan.size <= MOST_TO_SCAN {
        config.policy = PolicyKind::TwoLevelScan;
    }
    if !worlds.has_fence() || config.policy == PolicyKind::NoCheck || wanted.is_programs() {
        // Without that fence, updates that the engine lacks cannot exclude its atomics. This process has no atomics on another process's
        // memory.
        config.accumulate = AccumulateStrategy::Locked;
    }
    if wanted.flavor == Flavor::Dynamic {
        worlds.reach(|| engine::reach(ranks).map_err(|error| common_reason(comm, &error)))?;
    }
    let engine = match Engine::new(ranks, config, memory) {
        // At some ranks the error is only that another rank has failed.
        Err(error) if wanted.is_programs() => return Err(common_reason(comm, &error)),
        // The communicator's world is full: the window gets its own.
        Err(error) if error.class() == Class::NoMem => {
            let need = wanted.room(plan.most, plan.size).ok_or("it is larger than all addresses")?;
            Engine::new(&world::new_shared(comm, Some(need))?.ranks, config, memory)
        }
        made => made,
    };
    let engine = engine.map_err(|error| error.to_string())?;
    let (win, is_marked) = plan.carrier.ok_or("it has no handle")?;
    // From here on, nothing fails at one rank only.
    let window = Native::new(win, engine, host::group_of_comm(comm)?, memory, is_marked)?;
    plan.carrier = None;
    plan.settings.config.policy = config.policy;
    Ok(window)
}

/// Returns the reason of the lowest rank that has one, when making a window has failed at all ranks. Collective.
fn common_reason(comm: ffi::MPI_Comm, error: &rmalab_windows::Error) -> String {
    let own = (!matches!(error, rmalab_windows::Error::NotMade { .. })).then(|| error.to_string());
    host::text_of_lowest(comm, own.as_deref()).unwrap_or_else(|_| error.to_string())
}

/// Manages a window that the host has just made by `call`, or leaves it to the host. Collective.
fn adopt(mut plan: Plan, call: &str, win: ffi::MPI_Win, comm: ffi::MPI_Comm, wanted: WindowMemory) {
    let worlds = std::mem::replace(&mut plan.worlds, Err(String::new()));
    let outcome = worlds.and_then(|worlds| manage(win, comm, &worlds, &plan.settings));
    match outcome {
        Ok(window) => {
            report(&plan, call, Ok(&window));
            begin_trace(&plan, call, win, comm, wanted, Some(&window));
            table::add(window);
        }
        Err(why) => {
            report(&plan, call, Err(&why));
            begin_trace(&plan, call, win, comm, wanted, None);
        }
    }
}

/// Records the calls on a new window of the host, or on a managed one, if the ranks have agreed on it. Collective.
fn begin_trace(
    plan: &Plan,
    call: &str,
    win: ffi::MPI_Win,
    comm: ffi::MPI_Comm,
    wanted: WindowMemory,
    managed: Option<&Window>,
) {
    let Some(folder) = &plan.record else { return };
    let hosts = || vec![("rmalab_mode", plan.settings.mode.to_string())];
    let mut info = Info::new();
    for (key, value) in managed.map_or_else(hosts, Window::in_force) {
        // Both are short.
        let _ = info.set(key, &value);
    }
    let WindowMemory { flavor, bytes, unit, .. } = wanted;
    let what = Description {
        rank: Rank(plan.rank),
        topology: Topology::one_node(plan.size),
        window: String::new(),
        flavor,
        bytes: u64::try_from(bytes).unwrap_or(0),
        unit: u32::try_from(unit).unwrap_or(1),
        info,
        clock: "nanoseconds of a monotonic clock".to_owned(),
    };
    if let Err(Some(why)) = record::window(folder, win, comm, what) {
        warn_once(&[format!("{call} of {} ranks: not recorded: {why}", plan.size)]);
    }
}

/// Prints the choices of a new window, or the reason why the host keeps it to itself, and counts the window.
fn report(plan: &Plan, call: &str, outcome: Result<&Window, &str>) {
    if plan.rank != 0 {
        return;
    }
    summary::window(outcome.is_ok().then(|| plan.settings.config.policy.name()));
    warn_once(&plan.settings.warnings);
    if !is_verbose() {
        return;
    }
    let mut what = match outcome {
        Ok(window) => {
            let pairs: Vec<String> = window.in_force().iter().map(|(key, value)| format!("{key}={value}")).collect();
            pairs.join(" ")
        }
        Err(why) => format!("the MPI's own, since {why}"),
    };
    if let (Ok(_), Some(why)) = (outcome, &plan.why_not) {
        what = format!("{what}, and not native, since {why}");
    }
    print(&format!("{call} of {} ranks: {what}", plan.size));
}

/// Manages the window, or returns the reason why the host keeps it to itself. All ranks do the same.
fn manage(win: ffi::MPI_Win, comm: ffi::MPI_Comm, worlds: &Worlds, settings: &Settings) -> Result<Window, String> {
    let managed = Managed::new(win, comm, worlds, settings).and_then(|managed| match managed.open_host() {
        Ok(()) => Ok(managed),
        Err(failure) => Err(format!("the MPI cannot lock it: {failure:?}")),
    });
    let failed = [u64::from(managed.is_err())];
    let [failed] = match worlds.shared() {
        Some(ranks) => ranks.largest(&failed)?,
        None => host::largest(comm, &failed)?,
    };
    if failed != 0 {
        return Err(managed.err().unwrap_or_else(|| "another rank cannot manage it".to_owned()));
    }
    let managed = managed?;
    Ok(Window::Policy(managed))
}

/// Prints each warning when it comes for the first time.
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
///
/// The host's text of an error that ends the program names `MPI_Win_call_errhandler`. So a line before it names the program's call.
#[cold]
fn fail(win: ffi::MPI_Win, call: &str, failure: &Failure) -> c_int {
    let (code, why) = match failure {
        Failure::Host(code) => return *code,
        Failure::Class(code) => (*code, host::text_of(*code)),
        Failure::Engine(error) => (host::code_of(error.class()), error.to_string()),
    };
    if is_verbose() || host::has_fatal_errors(win) {
        print(&format!("{call}: {why}"));
    }
    host::raise(win, code)
}

#[inline(always)]
fn code(win: ffi::MPI_Win, call: &str, result: crate::policy::Result<()>) -> c_int {
    match result {
        Ok(()) => host::SUCCESS,
        Err(failure) => fail(win, call, &failure),
    }
}

/// Returns the target that a program names: `None` for MPI_PROC_NULL. A negative number becomes a rank that does not
/// exist.
#[inline(always)]
fn target(rank: c_int) -> Option<Rank> {
    // SAFETY: a constant of C.
    if rank == unsafe { ffi::RSMPI_PROC_NULL } { None } else { Some(Rank(rank as u32)) }
}

#[inline(always)]
fn has(assert: c_int, flag: u32) -> bool {
    assert & flag as c_int != 0
}

/// Defines calls that make a window over the program's memory.
macro_rules! creations {
    ($($(#[$attribute:meta])* $name:ident = $host:ident($($argument:ident: $type:ty),*) of $info:ident, $comm:ident, $win:ident, $wanted:expr;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            check_host();
            check_launcher();
            threads::learn(host::has_many_threads);
            let _pass = pass();
            let wanted: WindowMemory = $wanted;
            let mut plan = plan($comm, $info, wanted);
            if let Some(plan) = &mut plan
                && let Some((handle, _)) = make_native(plan, stringify!($name), $comm, wanted)
            {
                // SAFETY: the program's variable.
                unsafe { $win.write(handle) };
                return host::SUCCESS;
            }
            // SAFETY: the program's own call, passed on.
            let code = outside(|| unsafe { ffi::$host($($argument),*) });
            if code == host::SUCCESS && let Some(plan) = plan {
                // SAFETY: the host has written the window there.
                adopt(plan, stringify!($name), unsafe { *$win }, $comm, wanted);
            }
            code
        }
    )*};
}

creations! {
    MPI_Win_create = PMPI_Win_create(base: *mut c_void, size: ffi::MPI_Aint, disp_unit: c_int, info: ffi::MPI_Info, comm: ffi::MPI_Comm, win: *mut ffi::MPI_Win) of info, comm, win, WindowMemory { base, ..WindowMemory::new(Flavor::Create, host::wide(size), wide(disp_unit)) };
    MPI_Win_create_dynamic = PMPI_Win_create_dynamic(info: ffi::MPI_Info, comm: ffi::MPI_Comm, win: *mut ffi::MPI_Win) of info, comm, win, WindowMemory::new(Flavor::Dynamic, 0, 1);
    #[cfg(large_counts)]
    MPI_Win_create_c = PMPI_Win_create_c(base: *mut c_void, size: ffi::MPI_Aint, disp_unit: ffi::MPI_Aint, info: ffi::MPI_Info, comm: ffi::MPI_Comm, win: *mut ffi::MPI_Win) of info, comm, win, WindowMemory { base, ..WindowMemory::new(Flavor::Create, host::wide(size), wide(disp_unit)) };
}

/// Refuses a window with more memory than some rank's machine has. This rank's part has `bytes` bytes.
#[cold]
fn refuse_memory(comm: ffi::MPI_Comm, call: &str, bytes: i64) -> c_int {
    if is_verbose() || host::has_fatal_errors_on(comm) {
        print(&format!("{call}: {bytes} bytes at this rank, and at some rank more than the machine's memory"));
    }
    host::raise_on(comm, ffi::MPI_ERR_NO_MEM as c_int)
}

/// Defines calls that make a window with memory.
macro_rules! allocations {
    ($($(#[$attribute:meta])* $name:ident = $host:ident, $unit:ty, $flavor:expr;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            size: ffi::MPI_Aint,
            disp_unit: $unit,
            info: ffi::MPI_Info,
            comm: ffi::MPI_Comm,
            base: *mut c_void,
            win: *mut ffi::MPI_Win,
        ) -> c_int {
            let wanted = WindowMemory::new($flavor, host::wide(size), wide(disp_unit));
            check_host();
            check_launcher();
            threads::learn(host::has_many_threads);
            let _pass = pass();
            let mut plan = plan(comm, info, wanted);
            if plan.as_ref().is_some_and(|plan| plan.is_too_large) {
                return refuse_memory(comm, stringify!($name), wanted.bytes);
            }
            if let Some(plan) = &mut plan
                && let Some((handle, memory)) = make_native(plan, stringify!($name), comm, wanted)
            {
                // SAFETY: the program's variables; `base` is the address of a pointer.
                unsafe {
                    base.cast::<*mut c_void>().write(memory);
                    win.write(handle);
                }
                return host::SUCCESS;
            }
            // SAFETY: the program's own call, passed on.
            let code = outside(|| unsafe { ffi::$host(size, disp_unit, info, comm, base, win) });
            if code == host::SUCCESS && let Some(plan) = plan {
                // SAFETY: the host has written the window there.
                adopt(plan, stringify!($name), unsafe { *win }, comm, wanted);
            }
            code
        }
    )*};
}

allocations! {
    MPI_Win_allocate = PMPI_Win_allocate, c_int, Flavor::Allocate;
    MPI_Win_allocate_shared = PMPI_Win_allocate_shared, c_int, Flavor::Shared;
    #[cfg(large_counts)]
    MPI_Win_allocate_c = PMPI_Win_allocate_c, ffi::MPI_Aint, Flavor::Allocate;
    #[cfg(large_counts)]
    MPI_Win_allocate_shared_c = PMPI_Win_allocate_shared_c, ffi::MPI_Aint, Flavor::Shared;
}

/// Defines operations. On a native window the engine executes them. On other managed windows they check their epoch by `$way`, and the
/// host executes them.
///
/// `$short` is tried first, in a function that needs few registers. It does the operation, or nothing.
macro_rules! operations {
    ($way:ident of $rank:ident, $win:ident; $($(#[$attribute:meta])* $name:ident = $host:ident($($argument:ident: $type:ty),*) as $call:ident($disp:expr, $count:expr, $of:expr $(, $op:expr)?), $window:ident => $native:expr $(, short $short:expr)?;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            #[inline(never)]
            unsafe extern "C" fn long($($argument: $type),*) -> c_int {
                const PLACE: usize = summary::place(stringify!($name));
                summary::count(PLACE);
                let began = record::begin();
                // SAFETY: the program's own call, passed on.
                let pass_on = || unsafe { ffi::$host($($argument),*) };
                let code = match table::find($win).as_deref() {
                    // SAFETY: the program's own buffers, which MPI may access until this call returns.
                    Some(Window::Native($window)) => code($win, stringify!($name), unsafe { $native }),
                    Some(Window::Policy(window)) => match window.$way(Call::$call, target($rank)) {
                        Ok(()) => pass_on(),
                        Err(failure) => fail($win, stringify!($name), &failure),
                    },
                    None => pass_on(),
                };
                if let Some(began) = began.filter(|_| code == host::SUCCESS) {
                    let op: [ffi::MPI_Op; _] = [$($op)?];
                    let there = remote($disp, $count, $of);
                    record::call($win, began, |on| events::operation(on, Call::$call, $rank, there, op.first().copied()));
                }
                code
            }
            $(if let Some($window) = native::last($win)
                // SAFETY: the program's own buffers, which MPI may access until this call returns.
                && unsafe { $short }
            {
                return host::SUCCESS;
            })?
            // SAFETY: the program's own call, passed on.
            unsafe { long($($argument),*) }
        }
    )*};
}

/// Returns a count or a unit of either width.
#[inline(always)]
fn wide(number: impl Into<i64>) -> i64 {
    number.into()
}

/// The items of a call at this rank.
#[inline(always)]
fn items(at: *const c_void, count: impl Into<i64>, of: ffi::MPI_Datatype) -> Items {
    Items { at: at.cast_mut(), count: wide(count), of }
}

/// The items of a call at its target.
#[inline(always)]
fn remote(disp: ffi::MPI_Aint, count: impl Into<i64>, of: ffi::MPI_Datatype) -> Remote {
    Remote { disp: host::wide(disp), count: wide(count), of }
}

/// Returns a complete request after a native operation.
///
/// # Safety
///
/// `request` may be written.
#[inline]
unsafe fn requested(done: crate::policy::Result<()>, request: *mut ffi::MPI_Request) -> crate::policy::Result<()> {
    // SAFETY: the caller's promise.
    done.and_then(|()| unsafe { host::completed(request) })
}

operations! {
    operate of target_rank, win;
    MPI_Put = PMPI_Put(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Put(target_disp, target_count, target_type), window => window.put::<false>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), short window.short_put(items(origin, origin_count, origin_type), target_rank, remote(target_disp, target_count, target_type));
    MPI_Get = PMPI_Get(origin: *mut c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Get(target_disp, target_count, target_type), window => window.get::<false>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), short window.short_get(items(origin, origin_count, origin_type), target_rank, remote(target_disp, target_count, target_type));
    MPI_Accumulate = PMPI_Accumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as Accumulate(target_disp, target_count, target_type, op), window => window.accumulate::<false>(items(origin, origin_count, origin_type), None, target(target_rank), remote(target_disp, target_count, target_type), op), short window.short_accumulate(items(origin, origin_count, origin_type), target_rank, remote(target_disp, target_count, target_type), op);
    MPI_Get_accumulate = PMPI_Get_accumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: c_int, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as GetAccumulate(target_disp, target_count, target_type, op), window => window.accumulate::<false>(items(origin, origin_count, origin_type), Some(items(result, result_count, result_type)), target(target_rank), remote(target_disp, target_count, target_type), op);
    MPI_Fetch_and_op = PMPI_Fetch_and_op(origin: *const c_void, result: *mut c_void, datatype: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, op: ffi::MPI_Op, win: ffi::MPI_Win) as FetchAndOp(target_disp, 1, datatype, op), window => window.fetch_and_op(origin, result, datatype, target(target_rank), host::wide(target_disp), op), short window.short_fetch_and_op(origin, result, datatype, target_rank, host::wide(target_disp), op);
    MPI_Compare_and_swap = PMPI_Compare_and_swap(origin: *const c_void, compare: *const c_void, result: *mut c_void, datatype: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, win: ffi::MPI_Win) as CompareAndSwap(target_disp, 1, datatype), window => window.compare_and_swap(origin, compare, result, datatype, target(target_rank), host::wide(target_disp)), short window.short_compare_and_swap(origin, compare, result, datatype, target_rank, host::wide(target_disp));
    #[cfg(large_counts)]
    MPI_Put_c = PMPI_Put_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Put(target_disp, target_count, target_type), window => window.put::<false>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), short window.short_put(items(origin, origin_count, origin_type), target_rank, remote(target_disp, target_count, target_type));
    #[cfg(large_counts)]
    MPI_Get_c = PMPI_Get_c(origin: *mut c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win) as Get(target_disp, target_count, target_type), window => window.get::<false>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), short window.short_get(items(origin, origin_count, origin_type), target_rank, remote(target_disp, target_count, target_type));
    #[cfg(large_counts)]
    MPI_Accumulate_c = PMPI_Accumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as Accumulate(target_disp, target_count, target_type, op), window => window.accumulate::<false>(items(origin, origin_count, origin_type), None, target(target_rank), remote(target_disp, target_count, target_type), op), short window.short_accumulate(items(origin, origin_count, origin_type), target_rank, remote(target_disp, target_count, target_type), op);
    #[cfg(large_counts)]
    MPI_Get_accumulate_c = PMPI_Get_accumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: ffi::MPI_Count, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win) as GetAccumulate(target_disp, target_count, target_type, op), window => window.accumulate::<false>(items(origin, origin_count, origin_type), Some(items(result, result_count, result_type)), target(target_rank), remote(target_disp, target_count, target_type), op);
}

operations! {
    operate_with_request of target_rank, win;
    MPI_Rput = PMPI_Rput(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Put(target_disp, target_count, target_type), window => requested(window.put::<true>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), request);
    MPI_Rget = PMPI_Rget(origin: *mut c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Get(target_disp, target_count, target_type), window => requested(window.get::<true>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), request);
    MPI_Raccumulate = PMPI_Raccumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Accumulate(target_disp, target_count, target_type, op), window => requested(window.accumulate::<true>(items(origin, origin_count, origin_type), None, target(target_rank), remote(target_disp, target_count, target_type), op), request);
    MPI_Rget_accumulate = PMPI_Rget_accumulate(origin: *const c_void, origin_count: c_int, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: c_int, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: c_int, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as GetAccumulate(target_disp, target_count, target_type, op), window => requested(window.accumulate::<true>(items(origin, origin_count, origin_type), Some(items(result, result_count, result_type)), target(target_rank), remote(target_disp, target_count, target_type), op), request);
    #[cfg(large_counts)]
    MPI_Rput_c = PMPI_Rput_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Put(target_disp, target_count, target_type), window => requested(window.put::<true>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), request);
    #[cfg(large_counts)]
    MPI_Rget_c = PMPI_Rget_c(origin: *mut c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Get(target_disp, target_count, target_type), window => requested(window.get::<true>(items(origin, origin_count, origin_type), target(target_rank), remote(target_disp, target_count, target_type)), request);
    #[cfg(large_counts)]
    MPI_Raccumulate_c = PMPI_Raccumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as Accumulate(target_disp, target_count, target_type, op), window => requested(window.accumulate::<true>(items(origin, origin_count, origin_type), None, target(target_rank), remote(target_disp, target_count, target_type), op), request);
    #[cfg(large_counts)]
    MPI_Rget_accumulate_c = PMPI_Rget_accumulate_c(origin: *const c_void, origin_count: ffi::MPI_Count, origin_type: ffi::MPI_Datatype, result: *mut c_void, result_count: ffi::MPI_Count, result_type: ffi::MPI_Datatype, target_rank: c_int, target_disp: ffi::MPI_Aint, target_count: ffi::MPI_Count, target_type: ffi::MPI_Datatype, op: ffi::MPI_Op, win: ffi::MPI_Win, request: *mut ffi::MPI_Request) as GetAccumulate(target_disp, target_count, target_type, op), window => requested(window.accumulate::<true>(items(origin, origin_count, origin_type), Some(items(result, result_count, result_type)), target(target_rank), remote(target_disp, target_count, target_type), op), request);
}

/// Defines calls of synchronization, which the engine does for managed windows.
macro_rules! synchronizations {
    ($($name:ident = $host:ident($($argument:ident: $type:ty),*) on $win:ident, $window:ident => $managed:expr $(, short $short:expr)? $(, medium $medium:expr)? $(, step |$on:pat_param| $step:expr)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            #[inline(never)]
            unsafe extern "C" fn long($($argument: $type),*) -> c_int {
                $(if let Some($window) = native::last($win)
                    && $medium
                {
                    return host::SUCCESS;
                })?
                const PLACE: usize = summary::place(stringify!($name));
                let begin = summary::begin();
                let began = record::begin();
                let code = match table::find($win).as_deref() {
                    Some(Window::Policy($window)) => code($win, stringify!($name), $managed),
                    Some(Window::Native($window)) => code($win, stringify!($name), $managed),
                    // SAFETY: the program's own call, passed on.
                    None => unsafe { ffi::$host($($argument),*) },
                };
                summary::end(PLACE, begin);
                if let Some(began) = began.filter(|_| code == host::SUCCESS) {
                    $(record::call($win, began, |$on| $step);)?
                    let _ = began;
                }
                code
            }
            $(if let Some($window) = native::last($win)
                && $short
            {
                return host::SUCCESS;
            })?
            // SAFETY: the program's own call, passed on.
            unsafe { long($($argument),*) }
        }
    )*};
}

synchronizations! {
    MPI_Win_lock = PMPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: ffi::MPI_Win) on win, window => lock_type_of(lock_type).and_then(|kind| asserting(assert, OF_LOCK, || window.lock(kind, target(rank), lock_assert(assert)))), short window.short_lock(lock_type, rank, assert), medium window.medium_lock(lock_type, rank, assert), step |_| events::lock(lock_type, rank, assert);
    // SAFETY: the program's variable.
    MPI_Win_test = PMPI_Win_test(win: ffi::MPI_Win, flag: *mut c_int) on win, window => window.test().map(|over| unsafe { flag.write(c_int::from(over)) }), step |_| (unsafe { *flag } != 0).then_some(Step::Test);
    MPI_Win_unlock = PMPI_Win_unlock(rank: c_int, win: ffi::MPI_Win) on win, window => window.unlock(target(rank)), short window.short_unlock(rank), medium window.medium_unlock(rank), step |_| events::unlock(rank);
    MPI_Win_lock_all = PMPI_Win_lock_all(assert: c_int, win: ffi::MPI_Win) on win, window => asserting(assert, OF_LOCK, || window.lock_all(lock_assert(assert))), short window.short_lock_all(assert), step |_| events::lock_all(assert);
    MPI_Win_unlock_all = PMPI_Win_unlock_all(win: ffi::MPI_Win) on win, window => window.unlock_all(), short window.short_unlock_all(), step |_| Some(Step::UnlockAll);
    MPI_Win_flush = PMPI_Win_flush(rank: c_int, win: ffi::MPI_Win) on win, window => window.flush(target(rank)), short window.short_flush(rank), step |_| events::flush(rank);
    MPI_Win_flush_all = PMPI_Win_flush_all(win: ffi::MPI_Win) on win, window => window.flush_all(), short window.short_flush_all(), step |_| Some(Step::FlushAll);
    MPI_Win_flush_local = PMPI_Win_flush_local(rank: c_int, win: ffi::MPI_Win) on win, window => window.flush_local(target(rank)), short window.short_flush_local(rank);
    MPI_Win_flush_local_all = PMPI_Win_flush_local_all(win: ffi::MPI_Win) on win, window => window.flush_local_all(), short window.short_flush_local_all();
    MPI_Win_fence = PMPI_Win_fence(assert: c_int, win: ffi::MPI_Win) on win, window => asserting(assert, OF_FENCE, || window.fence(fence_assert(assert))), step |_| events::fence(assert);
    MPI_Win_start = PMPI_Win_start(group: ffi::MPI_Group, assert: c_int, win: ffi::MPI_Win) on win, window => asserting(assert, OF_START, || window.start(group, start_assert(assert))), step |on| events::start(on, group, assert);
    MPI_Win_complete = PMPI_Win_complete(win: ffi::MPI_Win) on win, window => window.complete(), step |_| Some(Step::Complete);
    MPI_Win_post = PMPI_Win_post(group: ffi::MPI_Group, assert: c_int, win: ffi::MPI_Win) on win, window => asserting(assert, OF_POST, || window.post(group, post_assert(assert))), step |on| events::post(on, group, assert);
    MPI_Win_wait = PMPI_Win_wait(win: ffi::MPI_Win) on win, window => window.wait(), step |_| Some(Step::Wait);
}

/// The assertions that each call takes.
const OF_LOCK: u32 = ffi::MPI_MODE_NOCHECK;
const OF_START: u32 = ffi::MPI_MODE_NOCHECK;
const OF_POST: u32 = ffi::MPI_MODE_NOCHECK | ffi::MPI_MODE_NOSTORE | ffi::MPI_MODE_NOPUT;
const OF_FENCE: u32 = ffi::MPI_MODE_NOSTORE | ffi::MPI_MODE_NOPUT | ffi::MPI_MODE_NOPRECEDE | ffi::MPI_MODE_NOSUCCEED;

/// Makes a call if it takes the assertions that the program makes.
#[inline(always)]
fn asserting(assert: c_int, taken: u32, call: impl FnOnce() -> crate::policy::Result<()>) -> crate::policy::Result<()> {
    if assert & !(taken as c_int) == 0 { call() } else { native::refuse(ffi::MPI_ERR_ASSERT) }
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

fn start_assert(assert: c_int) -> StartAssert {
    StartAssert { nocheck: has(assert, ffi::MPI_MODE_NOCHECK) }
}

fn post_assert(assert: c_int) -> PostAssert {
    PostAssert {
        nocheck: has(assert, ffi::MPI_MODE_NOCHECK),
        nostore: has(assert, ffi::MPI_MODE_NOSTORE),
        noput: has(assert, ffi::MPI_MODE_NOPUT),
    }
}

/// Returns the kind of a lock.
#[inline(always)]
fn lock_type_of(lock_type: c_int) -> crate::policy::Result<LockKind> {
    const EXCLUSIVE: c_int = ffi::MPI_LOCK_EXCLUSIVE as c_int;
    const SHARED: c_int = ffi::MPI_LOCK_SHARED as c_int;
    match lock_type {
        EXCLUSIVE => Ok(LockKind::Exclusive),
        SHARED => Ok(LockKind::Shared),
        _ => native::refuse(ffi::MPI_ERR_LOCKTYPE),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Win_sync(win: ffi::MPI_Win) -> c_int {
    #[inline(never)]
    fn long(win: ffi::MPI_Win) -> c_int {
        match table::find(win).as_deref() {
            Some(Window::Native(window)) => {
                window.sync();
                host::SUCCESS
            }
            // SAFETY: the program's own call, passed on.
            _ => unsafe { ffi::PMPI_Win_sync(win) },
        }
    }
    match native::last(win) {
        Some(window) if window.short_sync() => host::SUCCESS,
        _ => long(win),
    }
}

/// Defines calls on a dynamic window's memory, which the host does for windows that are not native.
macro_rules! regions {
    ($($name:ident = $host:ident($($argument:ident: $type:ty),*) of $base:ident, $window:ident => $native:expr, $bytes:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(win: ffi::MPI_Win, $base: *const c_void $(, $argument: $type)*) -> c_int {
            let began = record::begin();
            let code = match table::find(win).as_deref() {
                Some(Window::Native($window)) => code(win, stringify!($name), $native),
                // SAFETY: the program's own call, passed on.
                _ => unsafe { ffi::$host(win, $base.cast_mut() $(, $argument)*) },
            };
            if let Some(began) = began.filter(|_| code == host::SUCCESS) {
                record::region(win, began, $base.addr() as u64, $bytes);
            }
            code
        }
    )*};
}

regions! {
    MPI_Win_attach = PMPI_Win_attach(size: ffi::MPI_Aint) of base, window => {
        // SAFETY: MPI requires the memory to be valid until it is detached or the window is freed.
        unsafe { window.attach(base, host::wide(size)) }
    }, Some(host::wide(size) as u64);
    MPI_Win_detach = PMPI_Win_detach() of base, window => window.detach(base), None;
}

/// Waits for all ranks in the world of the communicator's windows, or by the host if there is none in shared memory.
///
/// A waiting rank lets the host make progress. A rank that does not have to wait does that at intervals, since it may make no
/// other call.
#[inline]
fn barrier(comm: ffi::MPI_Comm) -> c_int {
    /// One barrier out of this many lets the host make progress.
    const BARRIERS: u32 = 64;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Some(ranks) = world::shared_of(comm) else {
        // SAFETY: the program's own call, passed on.
        return unsafe { ffi::PMPI_Barrier(comm) };
    };
    if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(BARRIERS) {
        host::progress();
    }
    match ranks.barrier() {
        Ok(()) => host::SUCCESS,
        Err(why) => {
            print(&format!("MPI_Barrier: {why}"));
            host::raise_on(comm, ffi::MPI_ERR_OTHER as c_int)
        }
    }
}

/// A barrier is a call on each recorded window that has the communicator's ranks.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Barrier(comm: ffi::MPI_Comm) -> c_int {
    let began = record::begin();
    let code = barrier(comm);
    if let Some(began) = began.filter(|_| code == host::SUCCESS) {
        record::barrier(comm, began);
    }
    code
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Win_get_group(win: ffi::MPI_Win, group: *mut ffi::MPI_Group) -> c_int {
    match table::find(win).as_deref() {
        Some(Window::Native(window)) => match host::copy_of(window.group()) {
            Ok(copy) => {
                // SAFETY: the program's variable.
                unsafe { group.write(copy) };
                host::SUCCESS
            }
            Err(failure) => fail(win, "MPI_Win_get_group", &failure),
        },
        // SAFETY: the program's own call, passed on.
        _ => unsafe { ffi::PMPI_Win_get_group(win, group) },
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Win_get_attr(
    win: ffi::MPI_Win,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    if let Some(Window::Native(window)) = table::find(win).as_deref()
        && let Some(attribute) = window.attribute(key)
    {
        // SAFETY: the program's variables; `value` is the address of a pointer.
        unsafe {
            value.cast::<*const c_void>().write(attribute);
            flag.write(1);
        }
        return host::SUCCESS;
    }
    // SAFETY: the program's own call, passed on.
    unsafe { ffi::PMPI_Win_get_attr(win, key, value, flag) }
}

/// Returns the value of a predefined attribute of a native window, in Fortran's form. MPICH's Fortran keys are one more than its C
/// keys.
fn fortran_attribute(win: ffi::MPI_Win, key: c_int) -> Option<i64> {
    let key = if cfg!(open_mpi) { key } else { key.wrapping_sub(1) };
    match table::find(win).as_deref() {
        Some(Window::Native(window)) => window.attribute_value(key),
        _ => None,
    }
}

/// Defines the calls that ask for a rank's part of a window.
macro_rules! queries {
    ($($(#[$attribute:meta])* $name:ident = $host:ident, $unit:ty;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            win: ffi::MPI_Win,
            rank: c_int,
            size: *mut ffi::MPI_Aint,
            disp_unit: *mut $unit,
            base: *mut c_void,
        ) -> c_int {
            let Some(found) = table::find(win) else {
                // SAFETY: the program's own call, passed on.
                return unsafe { ffi::$host(win, rank, size, disp_unit, base) };
            };
            let Window::Native(window) = &*found else {
                // SAFETY: as above.
                return unsafe { ffi::$host(win, rank, size, disp_unit, base) };
            };
            match window.shared_query(target(rank)) {
                Ok((bytes, unit, at)) => {
                    // SAFETY: the program's variables; `base` is the address of a pointer.
                    unsafe {
                        size.write(bytes as ffi::MPI_Aint);
                        disp_unit.write(unit as $unit);
                        base.cast::<*mut c_void>().write(at);
                    }
                    host::SUCCESS
                }
                Err(failure) => fail(win, stringify!($name), &failure),
            }
        }
    )*};
}

queries! {
    MPI_Win_shared_query = PMPI_Win_shared_query, c_int;
    #[cfg(large_counts)]
    MPI_Win_shared_query_c = PMPI_Win_shared_query_c, ffi::MPI_Aint;
}

/// Defines calls that change a window of the host. After such a call, no other window gets a native window's carrier.
macro_rules! changes {
    ($($name:ident = $host:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(win: ffi::MPI_Win, $($argument: $type),*) -> c_int {
            if let Some(Window::Native(window)) = table::find(win).as_deref() {
                window.mark();
            }
            // SAFETY: the program's own call, passed on.
            unsafe { ffi::$host(win, $($argument),*) }
        }
    )*};
}

changes! {
    MPI_Win_set_attr = PMPI_Win_set_attr(key: c_int, value: *mut c_void);
    MPI_Win_set_errhandler = PMPI_Win_set_errhandler(handler: ffi::MPI_Errhandler);
    MPI_Win_set_info = PMPI_Win_set_info(info: ffi::MPI_Info);
    MPI_Win_set_name = PMPI_Win_set_name(name: *const c_char);
}

/// Ends everything but the host's window. Returns whether that window is a carrier which another window may use.
fn free(window: Option<Window>) -> (crate::policy::Result<()>, bool) {
    match window {
        Some(Window::Policy(window)) => (window.free(), false),
        Some(Window::Native(window)) => window.free(),
        None => (Ok(()), false),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Win_free(win: *mut ffi::MPI_Win) -> c_int {
    // SAFETY: the program's variable.
    let handle = unsafe { *win };
    record::finish(handle);
    let _pass = pass();
    let (ended, is_reusable) = free(table::take(handle));
    let reported = code(handle, "MPI_Win_free", ended);
    if is_reusable {
        host::give_back(handle, false);
        // SAFETY: as above.
        unsafe { *win = host::no_window() };
        return reported;
    }
    // SAFETY: the program's own call, passed on.
    let freed = outside(|| unsafe { ffi::PMPI_Win_free(win) });
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
            Some(window) => window.in_force().iter().for_each(|(key, value)| host::set_hint(info, key, value)),
            None => {
                let mode = if record::folder(win).is_some() { Mode::Record } else { Mode::Off };
                host::set_hint(info, "rmalab_mode", &mode.to_string());
            }
        }
        if let Some(folder) = record::folder(win) {
            host::set_hint(info, "rmalab_record", &folder);
        }
    }
    code
}

/// Ends the program if its MPI is not the MPI for which this library is built, since the handles of other MPIs have another form. A
/// Fortran program may begin without a call that reaches this library, so a new window checks that, too.
///
/// This and [`check_launcher`] run in programs without a window, too. So they are part of `MPI_Init` and call little, since each call
/// brings more pages of this library into memory.
#[inline(always)]
fn check_host() {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    if !CHECKED.swap(true, Ordering::Relaxed) {
        let found = host::library();
        if found.starts_with(b"Open MPI") != cfg!(open_mpi) {
            refuse_other_host(&found);
        }
    }
}

/// The MPI for which this library is built, and the other one.
const HOSTS: (&str, &str) = if cfg!(open_mpi) { ("Open MPI", "MPICH") } else { ("MPICH", "Open MPI") };

#[cold]
fn refuse_other_host(found: &[u8]) -> ! {
    let (built_for, other) = HOSTS;
    print(&format!(
        "the preloaded library is built for {built_for}, but the program's MPI is {}: preload the library that is built with the mpicc of {other}",
        host::name(found)
    ));
    std::process::exit(1);
}

/// The variables in which the launchers of MPICH and of Open MPI pass the number of processes, and a process's own number.
const LAUNCHERS: [(&str, &str); 2] = [("PMI_SIZE", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")];

/// Prints a line if the launcher of the other MPI has started the program, since its processes then do not find each
/// other.
#[inline(always)]
fn check_launcher() {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    let is_set = |name| std::env::var_os(name).is_some();
    let [mpich, open_mpi] = LAUNCHERS;
    // The launcher of this MPI may itself run under the other MPI. Usually the first variable tells that all is well.
    if !CHECKED.swap(true, Ordering::Relaxed)
        && is_set(mpich.0) == cfg!(open_mpi)
        && is_set(open_mpi.0) != cfg!(open_mpi)
    {
        report_other_launcher(if cfg!(open_mpi) { mpich } else { open_mpi });
    }
}

/// Prints the line if this is the first of several processes, each of which is a program of one rank.
#[cold]
fn report_other_launcher((size, rank): (&str, &str)) {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(size @ 2..), Some(0)) = (number(size), number(rank))
        && let Ok((_, 1)) = host::place(host::everyone())
    {
        print(&format!(
            "the program's MPI is {}, but the launcher belongs to {}: each of the {size} processes is a program of one rank",
            HOSTS.0, HOSTS.1
        ));
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    check_host();
    // SAFETY: the program's own call, passed on.
    let code = unsafe { ffi::PMPI_Init(argc, argv) };
    check_launcher();
    code
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
    let code = unsafe { ffi::PMPI_Init_thread(argc, argv, required, provided) };
    check_launcher();
    code
}

/// Prints the summary if any rank requests it, and the limits of the traces. Collective over all ranks of the program.
fn summarize() {
    let all = host::everyone();
    let (early, why) = record::early();
    let own = [u64::from(summary::is_wanted()), record::inexacts(), early];
    let Ok([wanted, inexact, most_early]) = host::largest(all, &own) else { return };
    let is_wanted = wanted != 0;
    if is_wanted && let (Ok(sums), Ok((0, size))) = (host::sum(all, &summary::numbers()), host::place(all)) {
        summary::table(&sums, size).iter().for_each(|line| print(line));
    }
    let inexact = if inexact == 0 { Ok([0]) } else { host::sum(all, &[record::inexacts()]) };
    if let (Ok([inexact]), Ok((0, _))) = (inexact, host::place(all)) {
        summary::traces(&record::names(), inexact, is_wanted).iter().for_each(|line| print(line));
    }
    if most_early > 0
        && let (Ok([early]), Ok(why), Ok((0, _))) =
            (host::sum(all, &[early]), host::text_of_lowest(all, why.as_deref()), host::place(all))
    {
        let count = if early == 1 { "1 trace ends".to_owned() } else { format!("{early} traces end") };
        print(&format!("{count} early: {why}"));
    }
}

/// Frees the windows that the program has left open, whose worlds need MPI, and then ends MPI.
///
/// The host's windows are freed, too: MPICH over UCX otherwise ends with a failed assertion.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MPI_Finalize() -> c_int {
    let _pass = pass();
    while let Some(window) = table::take_oldest() {
        let mut win = window.win();
        // The program no longer asks for the errors of these windows.
        if let (Err(failure), _) = free(Some(window))
            && is_verbose()
        {
            print(&format!("MPI_Finalize: {failure:?}"));
        }
        // SAFETY: the window was just taken out of the table, into which it came when the host had made it.
        outside(|| unsafe { ffi::PMPI_Win_free(&mut win) });
    }
    record::finish_all();
    summarize();
    world::forget_all();
    host::free_private();
    // SAFETY: the program's own call, passed on.
    outside(|| unsafe { ffi::PMPI_Finalize() })
}
