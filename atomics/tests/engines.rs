//! The tests of ranks in virtual time in one program: the controlled backend and the simulator.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod controlled;
mod sim;
