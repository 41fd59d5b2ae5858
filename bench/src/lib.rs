//! The `rmalab` command: studies that put locks over network atomics under load, and checks that search for faults in
//! locks.
//!
//! A lock from outside the workspace goes through all of them. Add it to a [`Registry`], and pass the registry to
//! [`study::run`], or to [`main_with`], which is the whole command line.
#![forbid(unsafe_code)]

mod advise_command;
mod calibrate_command;
mod cli;
mod command;
mod compare_command;
mod launch_command;
mod list_command;
pub mod maintenance;
mod output;
mod preload_command;
mod quantities;
mod report_command;
mod reproduce_command;
mod run_command;
mod simulate_command;
mod verify_command;
mod watch;

pub use command::main_with;
pub use rmalab_apps as applications;
pub use rmalab_job::{self as job, Error, Result, interrupt};
pub use rmalab_lab::study::{Options, Outcome, Study};
pub use rmalab_lab::{
    Holds, Info, Kind, Order, Registry, Subject, advise, calibrate, simulate, study, verify, workload,
};
pub use rmalab_papers::{compare, reproduce, serve};
pub use rmalab_report as document;
pub use rmalab_report::{Machine, finding};

/// Compiler, profile and commit of the program, for reports: see [`rmalab_report::machine::Build::keep`].
pub const BUILD: rmalab_report::machine::Build = rmalab_report::machine::Build {
    rustc: env!("RMALAB_RUSTC"),
    profile: env!("RMALAB_PROFILE"),
    commit: env!("RMALAB_COMMIT"),
};
