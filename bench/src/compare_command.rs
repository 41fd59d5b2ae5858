//! `rmalab compare`: what it is asked for, shows and writes.

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

/// The folder of the report, if none is named.
const FOLDER: &str = "rmalab-comparison";

/// What `--help` begins with.
pub(crate) const ABOUT: &str = "\
Measure windows and locks beside those of others, in one interleaved run, and print the ratios.

Windows are measured through this program, MPICH and Open MPI (its default, and its component osc/sm), with 2 ranks and with \
more ranks than there are cores on a small machine. Locks of one process are measured beside Concurrency Kit's, pthread's, the \
standard library's, parking_lot's and mcslock's. What is not installed is skipped, and named with what to install. The \
programs for the others are built when they are asked for; see bench/papers/peers.";

/// What `--help` ends with.
pub(crate) const MANUAL: &str = "\
Examples:
  rmalab compare
      Everything, 5 times, in about five minutes; rmalab-comparison/index.html afterwards.
  rmalab compare --only mpi --ranks 2 --operations put-8,lock-exclusive,lock-all
      Three operations of windows.
  rmalab compare --only locks --repetitions 9 --format json --quiet
      Locks, with more repetitions, as JSON on standard output.

How it is measured:
  Ranks and threads are bound to cores in turn, ours as well as the others'. Each repetition starts with another
  implementation. An operation is timed in 5 batches that fill --budget; what is told is the median of the batches, and of
  the repetitions. Memory is checked afterwards.

Stopping and going on:
  What is measured is kept in a file beside the report, REPORT.unfinished, until the run is complete. The same command again,
  after Ctrl-C or a kill, goes on where it was; --fresh starts again.

Exit codes:
  0    done, whoever is ahead; others may be missing, crash, or be wrong, which the table and the notes say
  1    our own ranks failed
  2    an argument is wrong, or the report's folder cannot be used
  130  interrupted (Ctrl-C); what was measured until then is in the table and in the report";

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
    /// One part only
    #[arg(long, value_name = "PART", value_enum)]
    only: Option<Part>,
    /// Names of operations of windows, see `rmalab list operations` [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    operations: Vec<String>,
    /// Numbers of ranks of windows: 2, 4 and 8 [default: all]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = ranks)]
    ranks: Vec<Sweep>,
    /// How often everything is measured; what is told is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// How long each operation and each lock is measured in a repetition, five times as long with more ranks than cores
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = crate::quantities::span)]
    budget: Duration,
    /// Start again, where an unfinished run is kept
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl CompareArgs {
    fn options(&self) -> Result<Options> {
        if self.only == Some(Part::Locks) && !(self.operations.is_empty() && self.ranks.is_empty()) {
            return Err(Error::usage("--only locks has no --operations and no --ranks, which are those of windows"));
        }
        let asked = Sweep::all(&self.ranks);
        if let Some(ranks) = asked.iter().find(|ranks| !RANKS.contains(ranks)) {
            return Err(Error::usage(format!("--ranks: {ranks} is none of 2, 4 and 8")));
        }
        if self.budget < Options::LEAST_BUDGET {
            return Err(Error::usage("--budget: at least 1ms, or the clock is what is measured"));
        }
        let operations = compare::named(&self.operations)?;
        let wanted = |ranks: &u32| asked.is_empty() || asked.contains(ranks);
        let windows = self.only != Some(Part::Locks);
        Ok(Options {
            operations: if windows { operations } else { Vec::new() },
            ranks: if windows { RANKS.into_iter().filter(wanted).collect() } else { Vec::new() },
            // Who names operations wants those.
            locks: self.only != Some(Part::Mpi) && self.operations.is_empty() && self.ranks.is_empty(),
            repetitions: self.repetitions,
            budget: self.budget,
        })
    }
}

/// Runs the sub-command.
pub(crate) fn run(arguments: &CompareArgs) -> Result<ExitCode> {
    // Everything that can be refused is refused before anything is measured.
    let options = arguments.options()?;
    let outlet = arguments.output.prepare(Some(FOLDER))?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let peers = match Peers::find(&options, &stop) {
        Err(Error::Interrupted) => return Ok(ExitCode::from(interrupt::exit_code())),
        peers => peers?,
    };
    for line in &peers.skipped {
        say!("{line}");
    }
    let path = unfinished(&arguments.output.folder(FOLDER));
    let mut journal = Journal::open(&path, &of(&peers), arguments.fresh)?;
    if !arguments.output.quiet && !journal.is_empty() {
        say!("going on with {}: {} results are taken from it", path.display(), journal.len());
    }
    let watch = Watch::new(arguments.output.quiet);
    let outcome = compare::run(&options, &peers, &stop, Some(&mut journal), |progress| watch.show(progress))?;
    watch.finish();
    if !outcome.run.complete && outcome.cells.is_empty() {
        say!("interrupted before anything was measured: the report stays as it was");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if !outcome.run.complete && !arguments.output.quiet {
        say!("interrupted: the same command goes on where it was ({})", path.display());
    }
    outlet.write(&outcome.document())?;
    // Only now: until the report is written, the journal is all that there is.
    if outcome.run.complete {
        journal.finish()?;
    }
    Ok(if outcome.run.complete { ExitCode::SUCCESS } else { ExitCode::from(interrupt::exit_code()) })
}

/// Where an unfinished run is kept.
fn unfinished(report: &Path) -> PathBuf {
    let mut path = report.as_os_str().to_owned();
    path.push(".unfinished");
    PathBuf::from(path)
}

/// What results depend on beside their options.
fn of(peers: &Peers) -> String {
    let machine = Machine::describe();
    let (commit, profile, cpu) = (machine.commit, machine.profile, machine.cpu);
    format!("rmalab {} ({commit}, {profile}) on {cpu} beside {}", env!("CARGO_PKG_VERSION"), peers.versions())
}

/// Time between two lines of progress where there is no terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows how far the run is.
struct Watch {
    bar: ProgressBar,
    lines: bool,
    last: RefCell<Option<Instant>>,
}

impl Watch {
    fn new(quiet: bool) -> Watch {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal && !quiet {
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {elapsed} gone, {msg}");
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
