//! All tests of locks in one program.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod after_failures;
mod examples;
mod guards;
mod late_puts;
mod limits;
mod refused_fence;
mod suite;
mod window_policies;
