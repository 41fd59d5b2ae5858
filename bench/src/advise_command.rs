//! `rmalab advise`: what it reads, shows and writes.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;

use crate::advise::{Advise, Objective, Options, Progress};
use crate::output::OutputArgs;
use crate::{Registry, Result, interrupt};

pub(crate) const ABOUT: &str = "\
Say which lock policy a window should have, by simulating all of them.

What the ranks do comes from a description (a TOML file: ranks, nodes, shares of lock_all, shared and exclusive locks, \
targets, times, transfers) or from a trace that a program has recorded. Every policy, with its main parameters, does it on \
a simulated machine under several seeds; they are ranked by what counts, with intervals, and with what limits each. It ends \
with the builder call and the info string that choose the first one.";

pub(crate) const MANUAL: &str = "\
The table:
  1/s               acquisitions in a second, of all ranks together, until the last one has ended
  95 %              half of the interval of confidence over the seeds, of what is ranked by
  p50, p99          of the time that lock and unlock take together
  Jain              fairness of the ranks' rates: 1 if all are alike, 1/ranks if one has everything
  beside the first  'as good' if the intervals overlap or the difference is below 2 %, else how much worse
  limited by        what the ranks spend most of their time with: one word that is busy, an adapter, waiting for
                    holders, the lock's own operations, transfers, the processor

Candidates:
  A policy by its name has its defaults. POLICY/... is one with another parameter, such as two-level/retract or
  tas/backoff-8; the builder call at the end spells it out. The info string knows policies only.

Traces:
  RMALAB_RECORD=DIR program, or Builder::record, leaves one; then rmalab advise --trace DIR. The simulated ranks do what
  the program's did, with its times between the calls, which each seed makes up to a tenth shorter or longer.

Limits:
  The simulator has a processor for each rank; on a machine with fewer, the scheduler decides, and the advice is void.
  The intervals are over seeds: they do not tell how far the profile is from your machine. --measure does, on this one.

Examples:
  rmalab advise bench/workloads/shared_exclusive.toml --profile infiniband-ndr
      The ranking for 64 ranks on 4 nodes, by the 99th percentile, as the file says.
  rmalab advise bench/workloads/shared_exclusive.toml --ranks 2 --measure
      The same with two ranks on this machine's model, and what they do here in truth.
  RMALAB_RECORD=trace ./program && rmalab advise --trace trace --objective p99
      For a program that is there already.
  rmalab advise work.toml --profile fx100 --ranks 4096 --lock two-level,hierarchical --seeds 3 --format json -o advice.json
      Two policies on a larger machine.

Exit codes:
  0    done
  1    the run failed, standard error says why
  2    an argument is wrong, or a file: standard error names file, line and key
  130  interrupted (Ctrl-C); there is no advice then";

/// Options of `rmalab advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// The description of the workload
    #[arg(value_name = "WORKLOAD.toml", value_hint = ValueHint::FilePath, required_unless_present = "trace")]
    workload: Option<PathBuf>,
    /// The folder of a recorded trace, in the place of a description
    #[arg(long, value_name = "DIR", conflicts_with = "workload", value_hint = ValueHint::DirPath)]
    trace: Option<PathBuf>,
    /// The machine: a profile's name, or its file [default: shm, if the ranks are on one node]
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath)]
    profile: Option<String>,
    /// What to rank by [default: as the description says; throughput for a trace]
    #[arg(long, value_enum)]
    objective: Option<By>,
    /// The number of ranks, in the place of the description's
    #[arg(long, value_name = "N", value_parser = crate::quantities::one_world)]
    ranks: Option<u32>,
    /// Acquisitions of each rank [default: as the description says, but 50,000 of all ranks together at the most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    acquisitions: Option<u64>,
    /// Policies to try [default: all but nocheck, which does not lock, and mutexes where the program shares locks]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    lock: Vec<String>,
    /// How many seeds each is simulated with
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Run the same steps here, too, by processes: at most one rank for each processor
    #[arg(long)]
    measure: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Objectives on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum By {
    /// Acquisitions in a second
    Throughput,
    /// The 99th percentile of the time that lock and unlock take
    P99,
    /// How alike the ranks' rates are
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
    };
    let advise = Advise::new(registry, options)?;
    // What cannot be written is refused before anything is simulated.
    let outlet = arguments.output.prepare(None)?;
    interrupt::sets(&advise.stop_flag())?;
    let watch = Watch::new(arguments.output.quiet, advise.describe());
    let advice = advise.run(&|progress| watch.show(progress))?;
    watch.finish();
    let Some(advice) = advice else {
        say!("interrupted: there is no advice");
        return Ok(ExitCode::from(interrupt::exit_code()));
    };
    outlet.write(&advice.document())?;
    Ok(ExitCode::SUCCESS)
}

/// What takes less than this needs no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two lines of progress where there is no terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows how far it is: a bar on a terminal, a line now and then elsewhere, nothing if it is to be quiet.
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
        let mut state = self.state.lock().expect("nobody panics while it is locked");
        let (bar, last) = &mut *state;
        if io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(|| {
                let style = "{bar:30} {pos}/{len}  {elapsed} gone, {eta} left  {msg}";
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
        if let (Some(bar), _) = &*self.state.lock().expect("nobody panics while it is locked") {
            bar.finish_and_clear();
        }
    }
}
