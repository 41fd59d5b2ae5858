//! The laboratory's studies: put locks over network atomics under load, and write down what happens; and its checks,
//! which look for what a lock does wrong.
//!
//! The `rmalab` command is a thin layer over this library, so that a lock from outside of the workspace can be put
//! through the same study: add it to a [`Registry`], and [`study::run`] it.
#![forbid(unsafe_code)]

// The crates that these folders become.
#[path = "../apps/src/lib.rs"]
pub mod applications;
#[path = "../job/src/lib.rs"]
pub mod job;
#[path = "../job/src"]
mod base {
    pub(crate) mod error;
    pub mod interrupt;
}
#[path = "../lab/src"]
mod lab {
    pub mod advise;
    pub mod calibrate;
    pub(crate) mod registry;
    pub mod simulate;
    pub mod study;
    pub(crate) mod subject;
    pub mod verify;
    pub mod workload;
}
#[path = "../papers/src"]
mod papers {
    pub mod compare;
    pub(crate) mod jobs;
    pub mod reproduce;
}
#[path = "../report/src"]
mod reports {
    pub mod finding;
    pub(crate) mod machine;
    pub(crate) mod names;
    pub(crate) mod numbers;
    pub(crate) mod statistics;
}

pub use base::interrupt;
pub use lab::study::report;
pub use lab::{advise, calibrate, simulate, study, verify, workload};
pub(crate) use lab::{registry, subject};
pub use papers::{compare, reproduce};
pub use reports::finding;
pub(crate) use reports::{machine, names, numbers, statistics};

pub use base::error::{Error, Result};
pub use machine::Machine;
pub use papers::jobs::serve;
pub use registry::Registry;
pub use study::table::table;
pub use study::{Options, Outcome, Study};
pub use subject::{Info, Subject};
