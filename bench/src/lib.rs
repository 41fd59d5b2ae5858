//! The laboratory's studies: put locks over network atomics under load, and write down what happens; and its checks,
//! which look for what a lock does wrong.
//!
//! The `rmalab` command is a thin layer over this library, so that a lock from outside of the workspace can be put
//! through the same study: add it to a [`Registry`], and [`study::run`] it.
#![forbid(unsafe_code)]

pub mod advise;
pub mod applications;
pub mod calibrate;
pub mod compare;
mod error;
pub mod finding;
pub mod interrupt;
pub mod job;
mod jobs;
mod machine;
mod names;
mod numbers;
mod registry;
pub mod report;
pub mod reproduce;
pub mod simulate;
mod statistics;
pub mod study;
mod subject;
mod table;
pub mod verify;
pub mod workload;

pub use error::{Error, Result};
pub use jobs::serve;
pub use machine::Machine;
pub use registry::Registry;
pub use study::{Options, Outcome, Study};
pub use subject::{Info, Subject};
pub use table::table;
