//! `cargo xtask`: pages of the repository's documents that the program writes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueHint};

use crate::command::failed;
use crate::output::OutputArgs;
use crate::simulate_command::{self, PointsArgs};
use crate::{Registry, verify_command};

/// Write generated pages of the repository's documents
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", max_term_width = 100)]
struct Xtask {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the explorer on every mutant, and write the properties that they break as a Markdown page
    KillMatrix {
        /// The page
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Print only errors on standard error
        #[arg(long, short)]
        quiet: bool,
    },
    /// Simulate the workloads of the paper on RMA-RW and RMA-MCS
    RmaRw {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Simulate all locks under lock_all from 4 to 1,000,000 ranks, with their growth
    Scale {
        #[command(flatten)]
        points: Box<PointsArgs>,
    },
}

/// Runs the command line, and returns the exit code.
pub fn xtask() -> ExitCode {
    crate::BUILD.keep();
    let done = match Xtask::parse().task {
        Task::KillMatrix { file, quiet } => verify_command::kill_matrix(&file, quiet),
        Task::RmaRw { output } => simulate_command::rma_rw(&output),
        Task::Scale { points } => simulate_command::scale(Registry::standard(), &points),
    };
    done.unwrap_or_else(|error| failed(&error))
}
