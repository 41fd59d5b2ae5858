//! Signals that end the program.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{Error, Result};

/// The last signal that requested an end; 0 if none has.
static CAUGHT: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// The exit code of a command that a signal ended: 128 plus the signal's number, as in shells.
///
/// 130 for a Ctrl-C, and for a stop flag set without a signal; 143 for SIGTERM; 129 for SIGHUP.
pub fn exit_code() -> u8 {
    let signal = match CAUGHT.load(Ordering::Relaxed) {
        0 => SIGINT as usize,
        signal => signal,
    };
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The first Ctrl-C (or SIGTERM, or SIGHUP) sets `stop`; a second one ends the program at once.
///
/// # Errors
///
/// [`Error::Ranks`] when the system refuses it.
pub fn sets(stop: &Arc<AtomicBool>) -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal finds the flag clear, and sets it afterwards.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&CAUGHT), signal as usize))
            .and_then(|_| flag::register(signal, Arc::clone(stop)))
            .map_err(|error| Error::Ranks(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(())
}
