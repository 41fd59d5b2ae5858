//! `rmalab advise`: input, progress and output.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;

use crate::advise::{Objective, Options, Program, Progress};
use crate::document::Document;
use crate::output::{Outlet, OutputArgs};
use crate::{Registry, Result, interrupt};

pub(crate) const ABOUT: &str = "\
Recommend a lock policy for a window, from simulations of all of them.

The workload comes from a description (a TOML file: ranks, nodes, shares of lock_all, shared and exclusive locks, \
targets, times, transfers) or from a recorded trace of a program. Every policy, with its main parameters, runs it on \
a simulated machine under several seeds. The verdict comes first. A table ranks the policies that matter by \
--objective, with intervals and limits. The builder call and the info string that choose the policy follow.";

pub(crate) const MANUAL: &str = "\
The table:
  It has the first candidate, the recorded program's policy (present) or the windows' policy
  (default), the chosen one, the one that the info string selects, and with --measure the best one
  measured. With --all or --lock, it has a row for each candidate.
  1/s               acquisitions in a second, of all ranks together, until the last rank ends
  ± 95 %            half of the confidence interval over the seeds, of the column before it: the
                    objective
  p50, p99          of the time of lock and unlock together
  Jain              fairness of the ranks' rates: 1 if all are equal, 1/ranks if one rank gets
                    everything
  beside the first  'as good' if the intervals overlap or the difference is below 2 %, otherwise
                    how much worse
  limited by        the largest part of the ranks' time: one busy word, an adapter, waiting for
                    holders, the lock's own operations, transfers, the processor

Candidates:
  A policy's name alone means its defaults. POLICY/... has another parameter, such as
  two-level/retract or tas/backoff-8; the builder call at the end sets it. The info string names
  only the policy.

Traces:
  RMALAB_RECORD=DIR program, or Builder::record, records one; then use rmalab advise --trace DIR.
  rmalab preload --record DIR -- mpirun ... records an unchanged MPI program. The advice then names
  what selects the policy without a change of the program.
  The folder may have several windows: each one gets its advice, and --trace DIR/WINDOW chooses one.
  For a window without locks, the output has its calls and the settings that apply to them.
  The simulated ranks repeat the program's calls, with its times between the calls; each seed
  changes these by up to 10 %.

Limits:
  The simulator has a processor for each rank. With fewer processors the scheduler decides, and
  the advice is not valid. The intervals cover the seeds, not the difference between profile and
  machine. --measure checks that on this machine.

Examples:
  rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr
      The ranking for 64 ranks on 4 nodes, by the 99th percentile, as in the file.
  rmalab advise bench/workloads/shared_exclusive.toml --ranks 2 --measure
      The same with two ranks, simulated and measured on this machine.
  RMALAB_RECORD=trace ./program && rmalab advise --trace trace --objective p99
      Advice for an existing program.
  rmalab advise work.toml --ranks 4096 --lock two-level,hierarchical --format json -o advice.json
      Two policies on a larger machine.

Exit codes:
  0    done
  1    the run failed; standard error has the reason
  2    an argument or a file is wrong; standard error names file, line and key
  130  interrupted (Ctrl-C); there is no advice then";

/// Options of `rmalab advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// The description of the workload
    #[arg(value_name = "WORKLOAD.toml", value_hint = ValueHint::FilePath, required_unless_present = "trace")]
    workload: Option<PathBuf>,
    /// The folder of recorded traces, or DIR/WINDOW for one of its windows, instead of a description
    #[arg(long, value_name = "DIR", conflicts_with = "workload", value_hint = ValueHint::DirPath)]
    trace: Option<PathBuf>,
    /// The machine: a profile's name, or its file [default: shm, if the ranks are on one node]
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath)]
    profile: Option<String>,
    /// The objective [default: as in the description; throughput for a trace]
    #[arg(long, value_enum)]
    objective: Option<By>,
    /// The number of ranks, instead of the description's
    #[arg(long, value_name = "N", value_parser = crate::quantities::one_world)]
    ranks: Option<u32>,
    /// Acquisitions of each rank [default: as in the description, but at most 50,000 of all ranks together]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    acquisitions: Option<u64>,
    /// Policies to try, with a row for each [default: all but nocheck, which does not lock, and mutexes if the program takes
    /// shared locks]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = crate::quantities::lock)]
    lock: Vec<String>,
    /// Number of seeds for each policy
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Also measure the same steps with processes on this machine: at most one rank for each processor
    #[arg(long)]
    measure: bool,
    /// Print a row for each candidate, and not only for the ones that matter
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Objectives on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum By {
    /// Acquisitions per second
    Throughput,
    /// The 99th percentile of the time of lock and unlock
    P99,
    /// The equality of the ranks' rates
    Fairness,
}

impl From<By> for Objective {
    fn from(by: By) -> Objective {
        match by {
            By::Throughput => Objective::Throughput,
            By::P99 => Objective::P99,
            By::Fairness => Objective::Fairness,
        }
    }
}

/// Runs the sub-command.
pub(crate) fn run(registry: &Registry, arguments: &AdviseArgs) -> Result<ExitCode> {
    let options = Options {
        workload: arguments.workload.clone(),
        trace: arguments.trace.clone(),
        profile: arguments.profile.clone(),
        objective: arguments.objective.map(Objective::from),
        ranks: arguments.ranks,
        acquisitions: arguments.acquisitions,
        policies: arguments.lock.clone(),
        seeds: arguments.seeds,
        measure: arguments.measure,
        all: arguments.all,
    };
    let program = Program::new(registry, &options)?;
    // Checks the output before the simulations.
    let outlet = arguments.output.prepare(None)?;
    interrupt::sets(&program.stop_flag())?;
    let watch = Watch::new(arguments.output.quiet, program.describe());
    let advice = program.run(&|progress| watch.show(progress))?;
    watch.finish();
    let Some(advice) = advice else {
        say!("interrupted: there is no advice");
        return Ok(ExitCode::from(interrupt::exit_code()));
    };
    write(outlet, &advice)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the document. Text begins with the verdict, as a page does.
fn write(mut outlet: Outlet, document: &Document) -> Result<()> {
    if !outlet.is_text() {
        return outlet.write(document);
    }
    let (mut verdict, mut evidence) = (document.clone(), document.clone());
    verdict.sections.clear();
    evidence.summary.clear();
    let text = format!("{}\n{}\n", outlet.render(&verdict), outlet.render(&evidence).trim_end());
    outlet.print(&text)?;
    outlet.report(document)
}

/// Runs shorter than this show no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows the progress: a bar on a terminal, otherwise a line now and then, nothing if quiet.
struct Watch {
    quiet: bool,
    what: String,
    start: Instant,
    state: Mutex<(Option<ProgressBar>, Option<Instant>)>,
}

impl Watch {
    fn new(quiet: bool, what: String) -> Watch {
        Watch { quiet, what, start: Instant::now(), state: Mutex::new((None, None)) }
    }

    fn show(&self, progress: &Progress) {
        let gone = self.start.elapsed();
        let measuring = progress.measuring.map(|time| format!("measuring: about {} s", time.as_secs() + 1));
        if self.quiet || (gone < PATIENCE && progress.measuring.is_none_or(|time| time < PATIENCE)) {
            return;
        }
        let mut state = self.state.lock().expect("no thread panics while it holds the lock");
        let (bar, last) = &mut *state;
        if io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(|| {
                let style = "{bar:30} {pos}/{len}  {elapsed} elapsed, {eta} left  {msg}";
                ProgressBar::new(progress.of as u64)
                    .with_style(ProgressStyle::with_template(style).expect("the template is a constant"))
                    .with_elapsed(gone)
            });
            bar.set_length(progress.of as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(measuring.unwrap_or_else(|| self.what.clone()));
        } else if measuring.is_some() || last.is_none_or(|last| last.elapsed() >= LINES) {
            *last = Some(Instant::now());
            let left = gone.as_secs_f64() * (progress.of - progress.done.min(progress.of)) as f64;
            let left = left / progress.done.max(1) as f64;
            let tail = measuring.unwrap_or_else(|| format!("about {left:.0} s left"));
            say!("{}/{} simulations: {tail}", progress.done, progress.of);
        }
    }

    fn finish(&self) {
        if let (Some(bar), _) = &*self.state.lock().expect("no thread panics while it holds the lock") {
            bar.finish_and_clear();
        }
    }
}
