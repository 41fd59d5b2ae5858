//! The tests of all backends that need neither an RDMA device nor an MPI, in one program. Otherwise each of several
//! programs would build the conformance suite again. Virtual time has its own program, `engines.rs`, since it would
//! keep the processor from threads that wait for each other.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers and ranks included")]

mod conformance;
mod processes;
mod registered;
mod registration;
mod subsets;
mod suite;
mod threads;
mod wrappers;
