//! The calls of Fortran that do not reach the calls of C.
//!
//! An MPI's interfaces of Fortran are functions that convert their arguments and call C:
//!
//! | | mpif.h, `use mpi` | `use mpi_f08` |
//! | --- | --- | --- |
//! | MPICH | `mpi_put_` calls `MPI_Put`; attributes have internal functions | `mpi_put_f08ts_` calls `MPI_Put`, but `mpi_win_lock_f08_` calls `PMPI_Win_lock` |
//! | Open MPI | `mpi_put_` calls `PMPI_Put` | `mpi_put_f08_` calls the function of `mpi_put_` by an internal name |
//!
//! So this module defines the functions of Fortran. It leaves out functions with a choice buffer under MPICH, where they take descriptors
//! of arrays. Names are gfortran's, with one underscore. All arguments are addresses; `ierror` may be null, where it is optional.

#![allow(clippy::too_many_arguments, reason = "the arguments are MPI's")]

use std::ffi::{CStr, c_char, c_int, c_void};

use mpi_sys as ffi;

use super::host;

/// Returns the C handle for a Fortran handle.
#[cfg(not(open_mpi))]
unsafe fn handle<T: Copy>(number: c_int) -> T {
    const { assert!(size_of::<T>() == size_of::<c_int>()) };
    // SAFETY: MPICH's handles are numbers in both languages.
    unsafe { std::mem::transmute_copy(&number) }
}

/// Returns the Fortran handle for a C handle.
#[cfg(not(open_mpi))]
unsafe fn number<T: Copy>(handle: T) -> c_int {
    const { assert!(size_of::<T>() == size_of::<c_int>()) };
    // SAFETY: as in `handle`.
    unsafe { std::mem::transmute_copy(&handle) }
}

/// Returns a buffer, which is MPI_BOTTOM if the argument is Fortran's variable of that name.
#[cfg(open_mpi)]
fn buffer(at: *mut c_void) -> *mut c_void {
    unsafe extern "C" {
        static mpi_fortran_bottom_: c_int;
    }
    if at.cast_const() == (&raw const mpi_fortran_bottom_).cast() { std::ptr::null_mut() } else { at }
}

/// Converts one argument, at an address of the caller.
macro_rules! argument {
    (int, $at:ident) => {
        *$at.cast::<c_int>()
    };
    (aint, $at:ident) => {
        *$at.cast::<ffi::MPI_Aint>()
    };
    // Written by the call, in a form that both languages have.
    (out, $at:ident) => {
        $at.cast()
    };
    (buffer, $at:ident) => {
        buffer($at)
    };
    ($kind:ident, $at:ident) => {
        convert!($kind, *$at.cast::<c_int>())
    };
}

#[cfg(not(open_mpi))]
macro_rules! convert {
    ($kind:ident, $number:expr) => {
        handle($number)
    };
}

#[cfg(open_mpi)]
macro_rules! convert {
    (win, $number:expr) => {
        ffi::PMPI_Win_f2c($number)
    };
    (comm, $number:expr) => {
        ffi::PMPI_Comm_f2c($number)
    };
    (info, $number:expr) => {
        ffi::PMPI_Info_f2c($number)
    };
    (group, $number:expr) => {
        ffi::PMPI_Group_f2c($number)
    };
    (of, $number:expr) => {
        ffi::PMPI_Type_f2c($number)
    };
    (op, $number:expr) => {
        ffi::PMPI_Op_f2c($number)
    };
}

#[cfg(not(open_mpi))]
macro_rules! give {
    ($kind:ident, $handle:expr) => {
        number($handle)
    };
}

#[cfg(open_mpi)]
macro_rules! give {
    (win, $handle:expr) => {
        ffi::PMPI_Win_c2f($handle)
    };
    (info, $handle:expr) => {
        ffi::PMPI_Info_c2f($handle)
    };
    (group, $handle:expr) => {
        ffi::PMPI_Group_c2f($handle)
    };
    (request, $handle:expr) => {
        ffi::PMPI_Request_c2f($handle)
    };
}

macro_rules! null {
    (win) => {
        ffi::RSMPI_WIN_NULL
    };
    (info) => {
        ffi::RSMPI_INFO_NULL
    };
    (group) => {
        ffi::RSMPI_GROUP_NULL
    };
    (request) => {
        ffi::RSMPI_REQUEST_NULL
    };
}

/// Writes the code of a call to Fortran's variable.
unsafe fn report(code: c_int, ierror: *mut c_int) {
    if !ierror.is_null() {
        // SAFETY: the program's variable.
        unsafe { ierror.write(code) };
    }
}

/// Defines Fortran functions by C calls with the arguments in the same order, followed by a handle that the call returns.
macro_rules! functions {
    ($($name:ident ($($argument:ident: $kind:ident),*) $(-> $out:ident)? = $($fortran:ident)*;)*) => {$(
        functions!(@body $name ($($argument: $kind),*) [$($out)?]);
        functions!(@each $name ($($argument)*) [$($out)?] $($fortran)*);
    )*};
    (@body $name:ident ($($argument:ident: $kind:ident),*) []) => {
        unsafe fn $name($($argument: *mut c_void,)* ierror: *mut c_int) {
            // SAFETY: the program's variables, of the types that the call names.
            unsafe { report(super::$name($(argument!($kind, $argument)),*), ierror) };
        }
    };
    (@body $name:ident ($($argument:ident: $kind:ident),*) [$out:ident]) => {
        unsafe fn $name($($argument: *mut c_void,)* returned: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the program's variables, of the types that the call names.
            unsafe {
                let mut handle = null!($out);
                let code = super::$name($(argument!($kind, $argument),)* &mut handle);
                if code == host::SUCCESS {
                    returned.write(give!($out, handle));
                }
                report(code, ierror);
            }
        }
    };
    (@each $name:ident $arguments:tt $out:tt $($fortran:ident)*) => {
        $(functions!(@one $name $arguments $out $fortran);)*
    };
    (@one $name:ident ($($argument:ident)*) [] $fortran:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $fortran($($argument: *mut c_void,)* ierror: *mut c_int) {
            // SAFETY: the program's own call.
            unsafe { $name($($argument,)* ierror) };
        }
    };
    (@one $name:ident ($($argument:ident)*) [$out:ident] $fortran:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $fortran($($argument: *mut c_void,)* $out: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the program's own call.
            unsafe { $name($($argument,)* $out, ierror) };
        }
    };
}

functions! {
    MPI_Win_create_dynamic(i: info, c: comm) -> win = mpi_win_create_dynamic_ mpi_win_create_dynamic_f08_;
    MPI_Win_allocate(bytes: aint, unit: int, i: info, c: comm, base: out) -> win = mpi_win_allocate_ mpi_win_allocate_cptr_ mpi_win_allocate_f08_;
    MPI_Win_allocate_shared(bytes: aint, unit: int, i: info, c: comm, base: out) -> win = mpi_win_allocate_shared_ mpi_win_allocate_shared_cptr_ mpi_win_allocate_shared_f08_;
    MPI_Win_shared_query(w: win, rank: int, bytes: out, unit: out, base: out) = mpi_win_shared_query_ mpi_win_shared_query_cptr_ mpi_win_shared_query_f08_;
    MPI_Win_lock(kind: int, rank: int, assert: int, w: win) = mpi_win_lock_ mpi_win_lock_f08_;
    MPI_Win_unlock(rank: int, w: win) = mpi_win_unlock_ mpi_win_unlock_f08_;
    MPI_Win_lock_all(assert: int, w: win) = mpi_win_lock_all_ mpi_win_lock_all_f08_;
    MPI_Win_unlock_all(w: win) = mpi_win_unlock_all_ mpi_win_unlock_all_f08_;
    MPI_Win_flush(rank: int, w: win) = mpi_win_flush_ mpi_win_flush_f08_;
    MPI_Win_flush_all(w: win) = mpi_win_flush_all_ mpi_win_flush_all_f08_;
    MPI_Win_flush_local(rank: int, w: win) = mpi_win_flush_local_ mpi_win_flush_local_f08_;
    MPI_Win_flush_local_all(w: win) = mpi_win_flush_local_all_ mpi_win_flush_local_all_f08_;
    MPI_Win_fence(assert: int, w: win) = mpi_win_fence_ mpi_win_fence_f08_;
    MPI_Win_start(g: group, assert: int, w: win) = mpi_win_start_ mpi_win_start_f08_;
    MPI_Win_complete(w: win) = mpi_win_complete_ mpi_win_complete_f08_;
    MPI_Win_post(g: group, assert: int, w: win) = mpi_win_post_ mpi_win_post_f08_;
    MPI_Win_wait(w: win) = mpi_win_wait_ mpi_win_wait_f08_;
    // A truth value is 0 or 1, as in C.
    MPI_Win_test(w: win, flag: out) = mpi_win_test_ mpi_win_test_f08_;
    MPI_Win_sync(w: win) = mpi_win_sync_ mpi_win_sync_f08_;
    MPI_Win_get_group(w: win) -> group = mpi_win_get_group_ mpi_win_get_group_f08_;
    MPI_Win_get_info(w: win) -> info = mpi_win_get_info_ mpi_win_get_info_f08_;
    MPI_Barrier(c: comm) = mpi_barrier_ mpi_barrier_f08_;
    MPI_Finalize() = mpi_finalize_ mpi_finalize_f08_;
}

#[cfg(open_mpi)]
functions! {
    MPI_Win_create(base: buffer, bytes: aint, unit: int, i: info, c: comm) -> win = mpi_win_create_ mpi_win_create_f08_;
    MPI_Win_attach(w: win, base: buffer, bytes: aint) = mpi_win_attach_ mpi_win_attach_f08_;
    MPI_Win_detach(w: win, base: buffer) = mpi_win_detach_ mpi_win_detach_f08_;
    MPI_Put(a: buffer, n: int, t: of, rank: int, disp: aint, count: int, there: of, w: win) = mpi_put_ mpi_put_f08_;
    MPI_Get(a: buffer, n: int, t: of, rank: int, disp: aint, count: int, there: of, w: win) = mpi_get_ mpi_get_f08_;
    MPI_Accumulate(a: buffer, n: int, t: of, rank: int, disp: aint, count: int, there: of, o: op, w: win) = mpi_accumulate_ mpi_accumulate_f08_;
    MPI_Get_accumulate(a: buffer, n: int, t: of, b: buffer, m: int, u: of, rank: int, disp: aint, count: int, there: of, o: op, w: win) = mpi_get_accumulate_ mpi_get_accumulate_f08_;
    MPI_Fetch_and_op(a: buffer, b: buffer, t: of, rank: int, disp: aint, o: op, w: win) = mpi_fetch_and_op_ mpi_fetch_and_op_f08_;
    MPI_Compare_and_swap(a: buffer, b: buffer, c: buffer, t: of, rank: int, disp: aint, w: win) = mpi_compare_and_swap_ mpi_compare_and_swap_f08_;
    MPI_Rput(a: buffer, n: int, t: of, rank: int, disp: aint, count: int, there: of, w: win) -> request = mpi_rput_ mpi_rput_f08_;
    MPI_Rget(a: buffer, n: int, t: of, rank: int, disp: aint, count: int, there: of, w: win) -> request = mpi_rget_ mpi_rget_f08_;
    MPI_Raccumulate(a: buffer, n: int, t: of, rank: int, disp: aint, count: int, there: of, o: op, w: win) -> request = mpi_raccumulate_ mpi_raccumulate_f08_;
    MPI_Rget_accumulate(a: buffer, n: int, t: of, b: buffer, m: int, u: of, rank: int, disp: aint, count: int, there: of, o: op, w: win) -> request = mpi_rget_accumulate_ mpi_rget_accumulate_f08_;
}

/// Frees a window, whose handle becomes the null one.
unsafe fn free(win: *mut c_int, ierror: *mut c_int) {
    // SAFETY: the program's variables.
    unsafe {
        let mut handle: ffi::MPI_Win = convert!(win, *win);
        let code = super::MPI_Win_free(&mut handle);
        win.write(give!(win, handle));
        report(code, ierror);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_win_free_(win: *mut c_int, ierror: *mut c_int) {
    // SAFETY: the program's own call.
    unsafe { free(win, ierror) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_win_free_f08_(win: *mut c_int, ierror: *mut c_int) {
    // SAFETY: the program's own call.
    unsafe { free(win, ierror) };
}

type GetAttr = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut ffi::MPI_Aint, *mut c_int, *mut c_int);

/// Returns an attribute of a window: its value, where C returns its address. `name` is the function of the host.
unsafe fn get_attr(
    name: &CStr,
    (win, key): (*mut c_int, *mut c_int),
    value: *mut ffi::MPI_Aint,
    (flag, ierror): (*mut c_int, *mut c_int),
) {
    unsafe extern "C" {
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    /// The libraries after this one (`RTLD_NEXT`).
    const NEXT: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);
    // SAFETY: the program's variables; the function of the host has the signature of this function.
    unsafe {
        if let Some(number) = super::fortran_attribute(convert!(win, *win), *key) {
            value.write(number as ffi::MPI_Aint);
            flag.write(1);
            return report(host::SUCCESS, ierror);
        }
        let hosts = dlsym(NEXT, name.as_ptr());
        if hosts.is_null() {
            flag.write(0);
            return report(ffi::MPI_ERR_OTHER as c_int, ierror);
        }
        std::mem::transmute::<*mut c_void, GetAttr>(hosts)(win, key, value, flag, ierror);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_win_get_attr_(
    win: *mut c_int,
    key: *mut c_int,
    value: *mut ffi::MPI_Aint,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the program's own call.
    unsafe { get_attr(c"mpi_win_get_attr_", (win, key), value, (flag, ierror)) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_win_get_attr_f08_(
    win: *mut c_int,
    key: *mut c_int,
    value: *mut ffi::MPI_Aint,
    flag: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the program's own call.
    unsafe { get_attr(c"mpi_win_get_attr_f08_", (win, key), value, (flag, ierror)) };
}
