//! `rmalab run`: options and output.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use rmalab_atomics::{Backend, Launcher, Output, Rank, started_as};
use rmalab_job::say;

use crate::applications::{self, Chosen};
use crate::document::Run;
use crate::job::{self, Place, Ranks};
use crate::output::OutputArgs;
use crate::study::MAX_RANKS;
use crate::{Error, Result, interrupt};

/// The start of `--help`.
pub(crate) const ABOUT: &str = "\
Run an application on windows, on this machine or on a simulated one, and check its result.

Each application compares its result with a sequential computation in every run. A wrong result ends the run with the \
difference and exit code 1. The table has sizes, times, rates, and the check of the result.";

/// The end of `--help`.
pub(crate) const MANUAL: &str = "\
Options of the application follow its name, in any order with those above: `rmalab run NAME --help` lists them.

Examples:
  rmalab run ghost --bytes 1024 --sync pscw
      A ghost exchange of 1 KiB to each of four neighbours, on as many processes as there are
      processors.
  rmalab run ghost --sync fence --transport two-sided --repetitions 5
      The same with MPICH-2's deferred fence over messages; the result is the run with the median
      time.
  rmalab run random-access --backend sim --profile aries --ranks 1024
      Random updates on 1,024 simulated ranks.
  rmalab run ghost --backend verbs --ranks 2
  rmalab launch --hosts a,b --interface eth0 -n 2 -- rmalab run ghost --backend verbs
      Over RDMA, on this host and on two.
  mpirun -n 4 rmalab run ghost --backend mpi
      Over an MPI.
  rmalab run hash-table --lock mcs-rw-rp --format json
      Print the data as JSON.
  rmalab run ycsb --workload f --skew 0.99 --records 100000
      YCSB's workload F: reads, and read-modify-writes, of records drawn by Zipf's law.

Exit codes:
  0    done, and the result is right
  1    the result is wrong, or the run failed; standard error has the reason
  2    an argument is wrong, or arguments do not go together
  130  interrupted (Ctrl-C)";

/// The default profile of a simulated machine.
const PROFILE: &str = "fx100";

/// Options of `rmalab run`.
#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Applications", disable_help_subcommand = true)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    application: Option<Chosen>,
    /// Number of ranks [default: one for each processor, or all that a launcher started]
    #[arg(long, global = true, value_name = "N", value_parser = crate::quantities::one_world)]
    ranks: Option<u32>,
    /// Ranks: threads (local), processes over shared memory (shm), RDMA (verbs) or an MPI (mpi), or ranks of a simulated
    /// machine (sim)
    #[arg(long, global = true, value_name = "BACKEND", default_value = "shm", value_parser = ["local", "shm", "verbs", "mpi", "sim"])]
    backend: String,
    /// The simulated machine: a profile's name or file [default: fx100]
    #[arg(long, global = true, value_name = "NAME|FILE", value_parser = NonEmptyStringValueParser::new())]
    profile: Option<String>,
    /// Number of ranks on a simulated node [default: the profile's]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Option<u32>,
    /// Number of runs; the result is the run with the median time
    #[arg(long, global = true, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    #[command(flatten)]
    output: OutputArgs,
}

impl RunArgs {
    fn world(&self) -> Result<Ranks> {
        let ranks = match self.ranks {
            Some(ranks) => ranks,
            None => std::thread::available_parallelism().map_or(1, |processors| processors.get() as u32),
        };
        let simulated = self.backend == "sim";
        if !simulated && ranks > MAX_RANKS {
            return Err(Error::usage(format!(
                "--ranks {ranks}: this machine can have {MAX_RANKS}; simulate more with --backend sim"
            )));
        }
        for (option, given) in
            [("--profile", self.profile.is_some()), ("--ranks-per-node", self.ranks_per_node.is_some())]
        {
            if given && !simulated {
                return Err(Error::usage(format!("{option} applies to simulated machines: add --backend sim")));
            }
        }
        let started = started_as().map_err(|error| usage(&error))?;
        if simulated {
            alone(started)?;
            let mut world = Ranks::simulated(self.profile.as_deref().unwrap_or(PROFILE), ranks);
            if let Place::Sim(machine) = &mut world.place {
                machine.ranks_per_node = self.ranks_per_node;
            }
            return Ok(world);
        }
        let backend: Backend = self.backend.parse().map_err(|error| usage(&error))?;
        backend.check_built().map_err(|error| usage(&error))?;
        match (backend, started) {
            (Backend::Local, _) => alone(started).map(|()| Ranks::threads(ranks)),
            // A process that a launcher started alone is no rank.
            (Backend::Shm, None | Some((_, 1))) => Ok(Ranks::processes(ranks)),
            (_, Some((_, size))) => match self.ranks {
                Some(ranks) if ranks != size => {
                    Err(Error::usage(format!("--ranks {ranks}: a launcher started {size} ranks; leave --ranks out")))
                }
                _ => Ok(Ranks { place: Place::Launched(backend), ranks: size }),
            },
            (_, None) => match backend.started_by() {
                Some(how) => Err(Error::usage(format!(
                    "--backend {backend}: no launcher has started this process as a rank: {how}"
                ))),
                None => Ok(Ranks { place: Place::Launched(backend), ranks }),
            },
        }
    }
}

fn usage(error: &dyn Display) -> Error {
    Error::usage(error.to_string())
}

/// Checks that no launcher started this process as one of several ranks.
fn alone(started: Option<(Rank, u32)>) -> Result<()> {
    match started {
        Some((_, size @ 2..)) => Err(Error::usage(format!(
            "this process is one of {size} ranks of one world, started by a launcher: \
             name their backend with --backend shm, verbs or mpi"
        ))),
        _ => Ok(()),
    }
}

/// Starts this command again as each of `ranks` ranks, as `rmalab launch` could.
fn as_ranks(ranks: u32) -> Result<ExitCode> {
    let program = std::env::current_exe()
        .map_err(|error| Error::Ranks(format!("cannot find this program's file, which its ranks run: {error}")))?;
    let launcher = Launcher::new(ranks).hub(true).command(program, std::env::args_os().skip(1));
    let code = launcher.output(Output::Inherit).spawn()?.wait()?.exit_code();
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Runs the sub-command.
pub(crate) fn run(arguments: &RunArgs) -> Result<ExitCode> {
    let Some(application) = &arguments.application else {
        let names: Vec<&str> = applications::ALL.iter().map(|(name, _)| *name).collect();
        return Err(Error::usage(format!("no application is named; there are {}", names.join(", "))));
    };
    let world = arguments.world()?;
    let launched = matches!(world.place, Place::Launched(_));
    if launched && started_as().map_err(|error| usage(&error))?.is_none() {
        application.check(&world)?;
        return as_ranks(world.ranks);
    }
    let begun = Run::begin();
    // One rank of a job writes the result.
    let writes = !matches!(started_as(), Ok(Some((rank, _))) if launched && rank.0 > 0);
    let outlet = writes.then(|| arguments.output.prepare(None)).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let bar = watch(arguments, &world);
    if matches!(world.place, Place::Local) {
        end_threads(Arc::clone(&stop), bar.clone());
    }
    let done = application.run(&world, arguments.repetitions, &stop);
    bar.finish_and_clear();
    if launched
        && let Err(error) = &done
        && !matches!(error, Error::Interrupted)
    {
        // One rank reports what all ranks found. It does so before it leaves, since an MPI ends the process.
        let one_tells = error.is_usage() || error.is_peer_failure();
        if !one_tells || matches!(started_as(), Ok(Some((Rank(0), _)))) {
            say!("error: {error}");
        }
        job::leave(true);
        return Ok(ExitCode::from(error.exit_code()));
    }
    let rank = job::leave(false);
    let done = match done {
        Err(Error::Interrupted) => {
            if rank.is_none_or(|rank| rank.0 == 0) {
                say!("interrupted");
            }
            return Ok(ExitCode::from(interrupt::exit_code()));
        }
        done => done?,
    };
    if let Some(outlet) = outlet.filter(|_| rank.is_none_or(|rank| rank.0 == 0)) {
        outlet.write(&done.document(begun))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the program once `stop` is set. Nothing stops a thread within a run, and threads leave nothing behind.
fn end_threads(stop: Arc<AtomicBool>, bar: ProgressBar) {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        bar.finish_and_clear();
        say!("interrupted");
        std::process::exit(interrupt::exit_code().into());
    });
}

/// Shows that the run is going on, and its time.
fn watch(arguments: &RunArgs, world: &Ranks) -> ProgressBar {
    let times = match arguments.repetitions {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    let text = format!("{world}{times}");
    if arguments.output.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed} elapsed").expect("the template is a constant");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(text);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
