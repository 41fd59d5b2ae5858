//! `rmalab compare`: options, progress and output.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;

use crate::compare::{self, Options, Peers, Progress, RANKS};
use crate::output::OutputArgs;
use crate::quantities::{Sweep, ranks};
use crate::reproduce::Journal;
use crate::{Error, Machine, Result, interrupt};

/// The default folder of the report.
pub(crate) const FOLDER: &str = "rmalab-comparison";

/// The start of `--help`.
pub(crate) const ABOUT: &str = "\
Measure windows and locks beside other implementations, in one interleaved run, and print the ratios.

The windows of this program, MPICH and Open MPI (its default, and its component osc/sm) run with 2 ranks, and with \
more ranks than a small machine has cores. Locks of one process are measured beside Concurrency Kit, pthread, the \
standard library, parking_lot and mcslock. A note names the package of each \
implementation that is not installed and therefore skipped. Where librmalab_mpi.so is built for an MPI, the program of \
that MPI runs once more and preloads it. The command builds the peers' programs when it needs them; \
see bench/papers/peers.";

/// The end of `--help`.
pub(crate) const MANUAL: &str = "\
Examples:
  cargo run --profile measure -- compare
      Everything, 5 times, in about five minutes; rmalab-comparison/index.html afterwards.
  rmalab compare --only mpi --ranks 2 --operations put-8,lock-exclusive,lock-all
      Three operations of windows.
  rmalab compare --only locks --repetitions 9 --format json --quiet
      Locks only, with more repetitions, as JSON on standard output.

How it is measured:
  Ranks and threads are bound to cores in turn, for every implementation. Each repetition starts
  with another implementation. An operation is timed in 5 batches that fill --budget; the result
  is the median of the batches, and of the repetitions. Memory is checked afterwards.

Stopping and going on:
  A file beside the report, REPORT.unfinished, keeps the results until the run is complete. The
  same command, after Ctrl-C or a kill, resumes there; --fresh starts again.

Exit codes:
  0    done, whichever is faster; the table and the notes name peers that are missing, crash, or
       are wrong
  1    our own ranks failed
  2    an argument is wrong, or the report's folder cannot be used
  130  interrupted (Ctrl-C); results until then are in the table and in the report";

/// A part of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Windows, beside MPICH and Open MPI
    Mpi,
    /// Locks of one process
    Locks,
}

/// Options of `rmalab compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Compare one part only
    #[arg(long, value_name = "PART", value_enum)]
    only: Option<Part>,
    /// Names of window operations, see `rmalab list operations` [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    operations: Vec<String>,
    /// Numbers of ranks for windows: 2, 4 and 8 [default: all]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = ranks)]
    ranks: Vec<Sweep>,
    /// Number of repetitions; the result is the median
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Time for each operation and each lock in a repetition, five times as long with more ranks than cores
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = crate::quantities::span)]
    budget: Duration,
    /// Start again, even if there is an unfinished run
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl CompareArgs {
    fn options(&self) -> Result<Options> {
        if self.only == Some(Part::Locks) && !(self.operations.is_empty() && self.ranks.is_empty()) {
            return Err(Error::usage("--only locks does not take --operations and --ranks, which apply to windows"));
        }
        let asked = Sweep::all(&self.ranks);
        if let Some(ranks) = asked.iter().find(|ranks| !RANKS.contains(ranks)) {
            return Err(Error::usage(format!("--ranks: {ranks} is not 2, 4 or 8")));
        }
        if self.budget < Options::LEAST_BUDGET {
            return Err(Error::usage("--budget: give at least 1ms; less would measure the clock"));
        }
        let operations = compare::named(&self.operations)?;
        let wanted = |ranks: &u32| asked.is_empty() || asked.contains(ranks);
        let windows = self.only != Some(Part::Locks);
        Ok(Options {
            operations: if windows { operations } else { Vec::new() },
            ranks: if windows { RANKS.into_iter().filter(wanted).collect() } else { Vec::new() },
            // --operations implies windows only.
            locks: self.only != Some(Part::Mpi) && self.operations.is_empty() && self.ranks.is_empty(),
            repetitions: self.repetitions,
            budget: self.budget,
            preloads: if windows { crate::preload_command::preloads_found() } else { Vec::new() },
        })
    }
}

/// What an interrupted run without a result says.
const NOTHING: &str = "interrupted before the first measurement: nothing is written, and an older report is unchanged";

/// Runs the sub-command.
pub(crate) fn run(arguments: &CompareArgs) -> Result<ExitCode> {
    // Checks the arguments before the measurement.
    let options = arguments.options()?;
    let outlet = arguments.output.prepare(Some(FOLDER))?;
    if !arguments.output.quiet
        && let Some(line) = compare::slow_build(&Machine::describe())
    {
        say!("note: {line}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let peers = match Peers::find(&options, &stop) {
        Err(Error::Interrupted) => {
            say!("{NOTHING}");
            return Ok(ExitCode::from(interrupt::exit_code()));
        }
        peers => peers?,
    };
    for line in &peers.skipped {
        say!("{line}");
    }
    let path = unfinished(&arguments.output.folder(FOLDER));
    let mut journal = Journal::open(&path, &of(&peers), arguments.fresh)?;
    let resumed = !journal.is_empty();
    if !arguments.output.quiet && resumed {
        say!("resuming {}: it has {} results", path.display(), journal.len());
    }
    let watch = Watch::new(arguments.output.quiet);
    let outcome = compare::run(&options, &peers, &stop, Some(&mut journal), |progress| watch.show(progress))?;
    watch.finish();
    if !outcome.run.complete && outcome.cells.is_empty() {
        // At most the time of a cache line, which is not worth a file.
        if !resumed {
            journal.finish()?;
        }
        say!("{NOTHING}");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if !outcome.run.complete && !arguments.output.quiet {
        say!("interrupted: the same command resumes there ({})", path.display());
    }
    outlet.write(&outcome.document())?;
    // The report replaces the journal, so write it first.
    if outcome.run.complete {
        journal.finish()?;
    }
    Ok(if outcome.run.complete { ExitCode::SUCCESS } else { ExitCode::from(interrupt::exit_code()) })
}

/// The journal of an unfinished run.
fn unfinished(report: &Path) -> PathBuf {
    let mut path = report.as_os_str().to_owned();
    path.push(".unfinished");
    PathBuf::from(path)
}

/// Returns the options on which results depend.
fn of(peers: &Peers) -> String {
    let machine = Machine::describe();
    let (commit, profile, cpu) = (machine.commit, machine.profile, machine.cpu);
    format!("rmalab {} ({commit}, {profile}) on {cpu} beside {}", env!("CARGO_PKG_VERSION"), peers.versions())
}

/// Time between two lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows the progress of the run.
struct Watch {
    bar: ProgressBar,
    lines: bool,
    last: RefCell<Option<Instant>>,
}

impl Watch {
    fn new(quiet: bool) -> Watch {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal && !quiet {
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {elapsed} elapsed, {msg}");
            ProgressBar::new(0).with_style(style.expect("the template is a constant"))
        } else {
            ProgressBar::hidden()
        };
        Watch { bar, lines: !terminal && !quiet, last: RefCell::new(None) }
    }

    fn show(&self, progress: &Progress<'_>) {
        let Progress { done, of, what, left } = progress;
        let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
        let text = format!("about {left} left  {what}");
        self.bar.set_length(*of as u64);
        self.bar.set_position(*done as u64);
        self.bar.set_message(text.clone());
        let due = self.last.borrow().is_none_or(|last| last.elapsed() >= LINES);
        if self.lines && due {
            *self.last.borrow_mut() = Some(Instant::now());
            say!("{}/{of}: {text}", done + 1);
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
