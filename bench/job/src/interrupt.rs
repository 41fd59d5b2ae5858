//! Signals that ask for an end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{Error, Result};

/// The exit code of what a Ctrl-C has ended: 128 and the signal's number, as shells have it.
pub const EXIT_CODE: u8 = 130;

/// The first Ctrl-C (or SIGTERM, or SIGHUP) sets `stop`; a second one ends the program at once.
///
/// # Errors
///
/// [`Error::Ranks`] when the system refuses it.
pub fn sets(stop: &Arc<AtomicBool>) -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal finds the flag clear, and sets it afterwards.
        flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), Arc::clone(stop))
            .and_then(|_| flag::register(signal, Arc::clone(stop)))
            .map_err(|error| Error::Ranks(format!("signal {signal} cannot be caught: {error}")))?;
    }
    Ok(())
}
