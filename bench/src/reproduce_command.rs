//! `rmalab reproduce`: options, progress and output.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;
use rmalab_report::numbers::counted;

use crate::output::OutputArgs;
use crate::reproduce::{self, Context, Extent, Journal, Outcome, Progress, Reproduced};
use crate::{Machine, Result, interrupt};

/// The default folder of the report.
pub(crate) const FOLDER: &str = "rmalab-reproduction";

/// The start of `--help`.
pub(crate) const ABOUT: &str = "\
Repeat experiments of papers: the same protocols on this program's stack, with the papers' figures beside ours.

Each experiment runs on processes of this machine at sizes that fit it, and on simulated machines with the paper's profile at \
the paper's sizes. It prints tables, states in one sentence whether the paper's finding holds here, or why not, \
and adds a section with plots to the report.";

/// The end of `--help`.
pub(crate) const MANUAL: &str = "\
Examples:
  rmalab list experiments
      List all experiments, with their subjects and durations.
  rmalab reproduce fx100-lockall fompi-locks
      Run two experiments.
  rmalab reproduce --all
      All of them, in three to five minutes on two processors; rmalab-reproduction/index.html
      afterwards.
  rmalab reproduce --all --long
      All of them at the papers' sizes.

Stopping and going on:
  A file beside the report, REPORT.unfinished, keeps the results until the run is complete. The
  same command, after Ctrl-C or a kill, resumes there; --fresh starts again.

Exit codes:
  0    done; whether the papers' findings hold or not
  1    an experiment failed
  2    an argument is wrong, or the report's folder cannot be used
  130  interrupted (Ctrl-C); results until then are in the report";

/// Options of `rmalab reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Names of experiments, see `rmalab list experiments`
    #[arg(value_name = "ID", value_delimiter = ',', required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All experiments
    #[arg(long)]
    all: bool,
    /// Use the papers' sizes and more repetitions
    #[arg(long)]
    long: bool,
    /// Start again, even if there is an unfinished run
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the sub-command.
pub(crate) fn run(arguments: &ReproduceArgs) -> Result<ExitCode> {
    let experiments = if arguments.all { reproduce::all() } else { reproduce::named(&arguments.ids)? };
    let extent = if arguments.long { Extent::Long } else { Extent::Quick };
    let mut outlet = arguments.output.prepare(Some(FOLDER))?;
    let path = unfinished(&arguments.output.folder(FOLDER));
    let journal = Journal::open(&path, &of(), arguments.fresh)?;
    if !arguments.output.quiet {
        let seconds: u64 = experiments.iter().map(|experiment| experiment.estimate(extent).as_secs()).sum();
        say!(
            "reproduce: {}: about {}",
            counted(experiments.len() as u64, "experiment"),
            humantime::format_duration(Duration::from_secs(seconds))
        );
        if !journal.is_empty() {
            say!("resuming {}: it has {} results", path.display(), journal.len());
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let watch = Watch::new(experiments.len(), arguments.output.quiet);
    let context = Context::new(extent, &experiments, &stop, Some(journal), |progress| watch.show(progress));
    // On a terminal, or in a text file, print findings one by one; other formats are one document at the end.
    let each = RefCell::new(Ok(()));
    let text = outlet.is_text();
    let outcome = reproduce::run(&experiments, &context, |one| {
        if text && each.borrow().is_ok() {
            *each.borrow_mut() = watch.bar.suspend(|| outlet.print(&found(one)));
        }
    })?;
    watch.finish();
    each.into_inner()?;
    if !outcome.run.complete && outcome.experiments.is_empty() {
        say!(
            "interrupted in the first experiment: the report is unchanged; the same command resumes there ({})",
            path.display()
        );
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if !outcome.run.complete && !arguments.output.quiet {
        say!("interrupted: the same command resumes there ({})", path.display());
    }
    let document = outcome.document();
    let rendered = if text { summary(&outcome) } else { outlet.render(&document) };
    outlet.print(&rendered)?;
    outlet.report(&document)?;
    // The report replaces the journal, so write it first.
    if outcome.run.complete {
        context.finish()?;
    }
    let failed = outcome.experiments.iter().any(|one| one.finding.is_err());
    Ok(match (outcome.run.complete, failed) {
        (false, _) => ExitCode::from(interrupt::exit_code()),
        (true, true) => ExitCode::FAILURE,
        (true, false) => ExitCode::SUCCESS,
    })
}

/// The journal of an unfinished run.
fn unfinished(report: &Path) -> PathBuf {
    let mut path = report.as_os_str().to_owned();
    path.push(".unfinished");
    PathBuf::from(path)
}

/// Returns the options on which results depend, beside their jobs.
fn of() -> String {
    let machine = Machine::describe();
    format!("rmalab {} ({}, {}) on {}", env!("CARGO_PKG_VERSION"), machine.commit, machine.profile, machine.cpu)
}

/// Formats the finding of one experiment as text.
fn found(one: &Reproduced) -> String {
    let experiment = one.experiment;
    let mut text = format!("== {}: {}\n   {}\n\n", experiment.id, experiment.title, experiment.source);
    match &one.finding {
        Err(why) => text += &format!("failed: {why}\n\n"),
        Ok(finding) => {
            for table in &finding.tables {
                text += &format!("{table}\n");
            }
            for claim in &finding.claims {
                text += &format!("- the paper: {}\n  here: {} ({})\n", claim.expected, claim.here, claim.verdict());
            }
            text += &format!("\n{}\n\n", finding.sentence());
        }
    }
    text
}

/// Returns a line for each experiment.
fn summary(outcome: &Outcome) -> String {
    let width = outcome.experiments.iter().map(|one| one.experiment.id.len()).max().unwrap_or(0);
    let line = |one: &Reproduced| {
        let said = one.finding.as_ref().map_or_else(|why| format!("failed: {why}"), |finding| finding.sentence());
        format!("{:width$}  {said}\n", one.experiment.id)
    };
    outcome.experiments.iter().map(line).collect()
}

/// Time between two lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows the progress of the run.
struct Watch {
    bar: ProgressBar,
    of: usize,
    lines: bool,
    last: RefCell<Option<Instant>>,
}

impl Watch {
    fn new(of: usize, quiet: bool) -> Watch {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal && !quiet {
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {elapsed} elapsed, {msg}");
            ProgressBar::new(of as u64).with_style(style.expect("the template is a constant"))
        } else {
            ProgressBar::hidden()
        };
        Watch { bar, of, lines: !terminal && !quiet, last: RefCell::new(None) }
    }

    fn show(&self, progress: &Progress<'_>) {
        let Progress { experiment, place, what, left } = progress;
        let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
        let text = format!("about {left} left  {}: {what}", experiment.id);
        self.bar.set_position(*place as u64);
        self.bar.set_message(text.clone());
        let due = self.last.borrow().is_none_or(|last| last.elapsed() >= LINES);
        if self.lines && due && !what.is_empty() {
            *self.last.borrow_mut() = Some(Instant::now());
            say!("{}/{}: {text}", place + 1, self.of);
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
