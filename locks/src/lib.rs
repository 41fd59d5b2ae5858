//! Locks over network atomics.
#![forbid(unsafe_code)]

mod backoff;
mod error;
mod mcs;
pub mod qnode;
mod raw;
pub mod suite;

pub use backoff::{Backoff, BackoffState};
pub use error::{Error, Result};
pub use mcs::Mcs;
pub use raw::{LINE, LockKind, Place, RawMutex, RawMutexTimed, RawMutexTry, RawRwLock, RawRwLockTimed, WindowLock};
