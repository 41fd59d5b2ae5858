//! Signals that this process passes on to its ranks.

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::SigId;

use crate::{Error, Result};

/// The signals that ask a job to end.
pub(super) const FORWARDED: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The running jobs of this process, and their effect on signals.
struct Jobs {
    running: u32,
    /// Set while no job runs. Then a signal has its usual effect, as without this crate.
    idle: Arc<AtomicBool>,
    /// For each of [`FORWARDED`], true if it is forwarded, once the first job has checked.
    forwarded: Option<[bool; 3]>,
}

static JOBS: Mutex<Option<Jobs>> = Mutex::new(None);

/// A stream of the signals that arrive while a job runs, one byte each.
pub(super) struct Arrivals {
    reader: PipeReader,
    hooks: Vec<SigId>,
}

impl Arrivals {
    /// Starts to take [`FORWARDED`] signals, except those that this process ignores (as under `nohup`).
    pub(super) fn new() -> Result<Arrivals> {
        let failed = |error| Error::system("preparing to pass signals on", error);
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        rustix::io::ioctl_fionbio(&reader, true).map_err(|error| failed(error.into()))?;
        rustix::io::ioctl_fionbio(&writer, true).map_err(|error| failed(error.into()))?;
        let writer = Arc::new(writer);
        let mut guard = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs =
            guard.get_or_insert_with(|| Jobs { running: 0, idle: Arc::new(AtomicBool::new(true)), forwarded: None });
        let forwarded = match jobs.forwarded {
            Some(forwarded) => forwarded,
            None => {
                let mut forwarded = [true; 3];
                for (signal, forwarded) in FORWARDED.into_iter().zip(&mut forwarded) {
                    match disposition(signal) {
                        libc::SIG_IGN => *forwarded = false,
                        // A handler stays for the life of the process: between jobs it has to give signals their usual
                        // effect.
                        libc::SIG_DFL => {
                            signal_hook::flag::register_conditional_default(signal, Arc::clone(&jobs.idle))
                                .map_err(failed)?;
                        }
                        _ => {}
                    }
                }
                *jobs.forwarded.insert(forwarded)
            }
        };
        let mut arrivals = Arrivals { reader, hooks: Vec::new() };
        // From here on the drop of `arrivals` counts this job out.
        jobs.running += 1;
        jobs.idle.store(false, Ordering::SeqCst);
        drop(guard);
        for (signal, _) in FORWARDED.into_iter().zip(forwarded).filter(|&(_, forwarded)| forwarded) {
            let writer = Arc::clone(&writer);
            let take = move || {
                // A full pipe holds more signals than any job reads.
                let _ = rustix::io::write(writer.as_fd(), &[signal as u8]);
            };
            // SAFETY: the action is one write system call, without the C library and so without errno, which is
            // async-signal-safe.
            let hook = unsafe { signal_hook::low_level::register(signal, take) }.map_err(failed)?;
            arrivals.hooks.push(hook);
        }
        Ok(arrivals)
    }

    /// Returns the descriptor to poll.
    pub(super) fn reader(&self) -> &PipeReader {
        &self.reader
    }

    /// Returns the signals that have arrived since the last call.
    pub(super) fn take(&self) -> Vec<i32> {
        let mut bytes = [0; 64];
        let len = rustix::io::read(&self.reader, &mut bytes).unwrap_or(0);
        bytes[..len].iter().map(|&signal| signal.into()).collect()
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            signal_hook::low_level::unregister(hook);
        }
        let mut guard = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = guard.as_mut() {
            jobs.running -= 1;
            jobs.idle.store(jobs.running == 0, Ordering::SeqCst);
        }
    }
}

/// Returns this process's action for `signal`: `SIG_DFL`, `SIG_IGN`, or a handler's address.
fn disposition(signal: i32) -> libc::sighandler_t {
    // SAFETY: a structure of integers, a set of bits and an optional function, of which all may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only queries. The kernel writes `action` only during the call.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action.sa_sigaction
}

/// Returns the name of a signal, for messages.
pub(super) fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => "a signal without a common name",
    }
}
