//! The MPI library: its start and end, its errors, and the handles that the headers define.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_sys as ffi;

use crate::{Error, Result};

// mpi-sys does not have these; see mpi/constants.c.
unsafe extern "C" {
    static rmalab_replace: ffi::MPI_Op;
    static rmalab_no_op: ffi::MPI_Op;
    static rmalab_win_model: c_int;
    static rmalab_win_unified: c_int;
}

/// The handles and numbers that operations need.
#[derive(Clone, Copy)]
pub(super) struct Handles {
    pub(super) word: ffi::MPI_Datatype,
    pub(super) byte: ffi::MPI_Datatype,
    pub(super) sum: ffi::MPI_Op,
    pub(super) replace: ffi::MPI_Op,
    pub(super) no_op: ffi::MPI_Op,
    pub(super) null_request: ffi::MPI_Request,
    pub(super) ignored_status: *mut ffi::MPI_Status,
    pub(super) ignored_statuses: *mut ffi::MPI_Status,
    pub(super) any_source: c_int,
    pub(super) any_tag: c_int,
    pub(super) win_model: c_int,
    pub(super) win_unified: c_int,
}

impl Handles {
    pub(super) fn new() -> Handles {
        // SAFETY: constants of C, which nothing writes.
        unsafe {
            Handles {
                word: ffi::RSMPI_UINT64_T,
                byte: ffi::RSMPI_UINT8_T,
                sum: ffi::RSMPI_SUM,
                replace: rmalab_replace,
                no_op: rmalab_no_op,
                null_request: ffi::RSMPI_REQUEST_NULL,
                ignored_status: ffi::RSMPI_STATUS_IGNORE,
                ignored_statuses: ffi::RSMPI_STATUSES_IGNORE,
                any_source: ffi::RSMPI_ANY_SOURCE,
                any_tag: ffi::RSMPI_ANY_TAG,
                win_model: rmalab_win_model,
                win_unified: rmalab_win_unified,
            }
        }
    }
}

/// The longest text of a version in any MPI. The program may run with another MPI than it was built for.
const LONGEST_VERSION: usize = 8192;

/// Returns the name and version of the MPI with which this program is linked, such as `Open MPI v4.1.4`: the first part
/// of its own description.
pub fn library() -> String {
    let mut text = vec![0u8; (ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1).max(LONGEST_VERSION)];
    let mut len: c_int = 0;
    // SAFETY: the buffer is as long as the call may write (MPI-3.1, section 8.1.1). The call may come before MPI_Init.
    let code = unsafe { ffi::PMPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &mut len) };
    if code != ffi::MPI_SUCCESS as c_int {
        return "an MPI without a name".to_owned();
    }
    text.truncate(usize::try_from(len).unwrap_or(0));
    let text = String::from_utf8_lossy(&text);
    let line = text.split(['\n', '\0', ',']).next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the error of a call that was doing `what`, unless `code` is a success.
#[inline(always)]
pub(super) fn check(code: c_int, what: impl FnOnce() -> String) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int { Ok(()) } else { Err(failed(code, what())) }
}

#[cold]
fn failed(code: c_int, what: String) -> Error {
    Error::system(what, std::io::Error::other(format!("MPI reports: {}", explain(code))))
}

/// Returns MPI's text for an error.
pub(super) fn explain(code: c_int) -> String {
    let mut text = vec![0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len: c_int = 0;
    // SAFETY: the buffer is as long as the call may write (MPI-3.1, section 8.4).
    let explained = unsafe { ffi::PMPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut len) };
    if explained != ffi::MPI_SUCCESS as c_int {
        return format!("error {code}");
    }
    text.truncate(usize::try_from(len).unwrap_or(0));
    String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An initialized MPI. If this crate has initialized it, the drop of this value finalizes it.
pub(super) struct Session {
    finalizes: bool,
}

impl Session {
    /// Initializes MPI, unless the program has done so. Once in the life of a process.
    pub(super) fn start() -> Result<Session> {
        static STARTED: AtomicBool = AtomicBool::new(false);
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::world(
                "this process has joined its MPI world before; a process can join once, as one rank",
            ));
        }
        let (mut initialized, mut finalized) = (0, 0);
        // SAFETY: both may be called at any time (MPI-3.1, section 8.7), and write one integer each.
        unsafe {
            check(ffi::PMPI_Initialized(&mut initialized), || "asking whether MPI is initialized".to_owned())?;
            check(ffi::PMPI_Finalized(&mut finalized), || "asking whether MPI is finalized".to_owned())?;
        }
        if finalized != 0 {
            return Err(Error::world("MPI was finalized before this process joined its world"));
        }
        if initialized != 0 {
            return Ok(Session { finalizes: false });
        }
        let mut provided = 0;
        // SAFETY: MPI is not initialized (just asked, and no other thread comes past STARTED); null arguments are
        // allowed (section 8.7).
        let code = unsafe {
            let (mut argc, mut argv) = (0, std::ptr::null_mut());
            ffi::PMPI_Init_thread(&mut argc, &mut argv, ffi::RSMPI_THREAD_FUNNELED, &mut provided)
        };
        check(code, || "initializing MPI".to_owned())?;
        Ok(Session { finalizes: true })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.finalizes {
            // SAFETY: this value represents an initialization that has not been finalized. It stays in its thread.
            let _ = unsafe { ffi::PMPI_Finalize() };
        }
    }
}

/// Ends all ranks of the job, including this one.
pub(super) fn abort(comm: ffi::MPI_Comm) -> ! {
    // SAFETY: MPI is initialized, since there is a communicator.
    unsafe { ffi::PMPI_Abort(comm, 1) };
    // It does not return, but its signature does not say so.
    std::process::abort()
}
