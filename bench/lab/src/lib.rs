//! The laboratory itself: locks under test, studies on real ranks, simulations, checks, and advice on a workload.
//!
//! Locks come from a [`Registry`]; an outside lock is added to it and goes through the same studies.
#![forbid(unsafe_code)]

pub mod advise;
pub mod calibrate;
mod registry;
pub mod simulate;
pub mod study;
mod subject;
pub mod verify;
pub mod workload;

pub use registry::Registry;
pub use rmalab_verify::subject::{Holds, Order};
pub use subject::{Info, Kind, Subject};
