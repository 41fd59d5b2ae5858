//! Locks over network atomics.
#![forbid(unsafe_code)]

mod error;
mod raw;

pub use error::{Error, Result};
pub use raw::{LINE, LockKind, Place, RawMutex, RawMutexTimed, RawRwLock, RawRwLockTimed, WindowLock};
