//! The tests of engines that compute, in one program, so that long ones run side by side.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod caught;
mod diagram;
mod litmus;
mod loom;
mod mutants;
mod placement;
mod planted;
mod shuttle;
mod store_buffers;
mod windows;
