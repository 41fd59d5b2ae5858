//! The laboratory's studies: put locks over network atomics under load, and write down what happens; and its checks,
//! which look for what a lock does wrong.
//!
//! The `rmalab` command is a thin layer over this library, so that a lock from outside of the workspace can be put
//! through the same study: add it to a [`Registry`], and [`study::run`] it.
#![forbid(unsafe_code)]

pub use rmalab_apps as applications;
pub use rmalab_job::{self as job, Error, Result, interrupt};
pub use rmalab_lab::study::{Options, Outcome, Study, table};
pub use rmalab_lab::{Info, Registry, Subject, advise, calibrate, simulate, study, verify, workload};
pub use rmalab_papers::{compare, reproduce, serve};
pub use rmalab_report::{Machine, finding};

/// Reports: a folder with one self-contained page, its figures, and the data.
pub mod report {
    pub use rmalab_lab::simulate::SimulationReport;
    pub use rmalab_lab::study::report::{Report, csv, json};
    pub use rmalab_papers::compare::ComparisonReport;
    pub use rmalab_papers::reproduce::ReproductionReport;
}

/// What the program was built by and from, for reports: see [`rmalab_report::machine::Build::keep`].
pub const BUILD: rmalab_report::machine::Build = rmalab_report::machine::Build {
    rustc: env!("RMALAB_RUSTC"),
    profile: env!("RMALAB_PROFILE"),
    commit: env!("RMALAB_COMMIT"),
};
