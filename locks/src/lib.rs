//! Locks over network atomics.
#![forbid(unsafe_code)]

mod backoff;
mod error;
mod raw;

pub use backoff::{Backoff, BackoffState};
pub use error::{Error, Result};
pub use raw::{LINE, LockKind, Place, RawMutex, RawMutexTimed, RawRwLock, RawRwLockTimed, WindowLock};
