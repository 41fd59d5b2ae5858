//! `rmalab simulate`: options, progress and output.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rmalab_atomics::sim::{Profile, profile};
use rmalab_job::say;

use crate::document::Run;
use crate::document::numbers::counted;
use crate::output::OutputArgs;
use crate::quantities::{Sweep, ranks};
use crate::simulate::validate::{self, Check};
use crate::simulate::{
    self, Ended, LeftOut, Load, Mix, Options, Parameters, Progress, Section, Simulation, Target, arena, machine,
    rma_rw, scale,
};
use crate::workload::{Benchmark, Table};
use crate::{Error, Registry, Result, interrupt};

/// The start of `--help`.
pub(crate) const ABOUT: &str = "\
Run the real lock code with very many ranks of a simulated machine, in virtual time.

Each lock runs at each number of ranks on each profile, deterministically: the same command and seed give the same result, \
to the bit. The table has the time of a pair (an acquisition and its release) on the slowest rank at every number \
of ranks, and all counters at the largest. A point that exceeds the memory or --max-events is left out, with a \
line for the reason.";

/// The end of `--help`.
pub(crate) const MANUAL: &str = "\
Numbers of ranks:
  64, 4k, 1M        a number
  4:4096:4          a sweep from 4 to 4096, both included, by a factor of 4

Measurements:
  Each rank first makes --warm-up of its pairs, at least one, unmeasured; 0 measures from the first
  acquisition, as in the FX100 study. Then all begin to measure at the same time, and each ends
  after --pairs. Beside --exclusive-ranks the others go on until those have ended, too.
  time for a pair   of a rank: its measured time, divided by its pairs; of the slowest, the
                    fastest, and the mean of all
  acquire           from the request to the grant, of every measured acquisition
  bypass            grants to others between a request and its grant
  operations        of all ranks for a pair, by distance: on the local rank, in its node, in other
                    nodes
  adapter, queue    busy share of the busiest adapter, and number of messages that waited for it
  With --table, each rank goes on until all ranks together have made their pairs, or half of
  --max-events has passed; starved is a rank that made none. A pair is then one lock of a trace's
  transaction.
  bound             the least time of a pair, since operations on one word take turns: operations
                    on the busiest word, times the time of each, for one pair of every rank

Sections, as in the HPDC'16 paper on RMA-RW:
  empty             nothing inside
  operation         one get inside, one put and its flush inside exclusive locks
  work:1us-4us      computing inside, uniformly distributed
  wait:1us-4us      computing after the release

Examples:
  rmalab simulate --lock mcs-rw-rp,two-level --ranks 4:4096:4
      The time of lock_all, on the FX100 profile.
  rmalab simulate --lock mcs-rw-rp --ranks 4096 --local-atomics nic --warm-up 0 --pairs 1000
      One point of the FX100 study.
  rmalab simulate --lock tas-rw,mcs-rw-neutral --writers 2%,5% --section empty,work
      Four loads, side by side.
  rmalab simulate --profile aries --lock two-level,rma-rw --writers 0.2%,2%,5% --params t_r=100
      RMA-RW against foMPI's protocol.
  rmalab simulate --profile infiniband-ndr --table 1k:zipf=0.99,10M --writers 5%,50% --ranks 1k
      Tables of locks, contended and hardly contended.
  rmalab simulate trace tpcc -o tpcc.csv; rmalab simulate --table trace=tpcc.csv --ranks 96
      Transactions as in TPC-C, each of which holds all its locks at a time.
  rmalab simulate validate paper
      Simulated against published figures; exit code 1 if they do not agree.

Exit codes:
  0    done, perhaps with points left out
  1    the simulation failed, or a lock is broken; or, for validate: a value is outside its bounds
  2    an argument is wrong, or the report's folder cannot be used
  130  interrupted (Ctrl-C); results until then are in the table and in the report";

/// Options of `rmalab simulate`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    mode: Option<SimulateMode>,
    #[command(flatten)]
    points: PointsArgs,
}

/// Subcommands of simulate.
#[derive(Debug, Subcommand)]
enum SimulateMode {
    /// Compare simulated figures with published ones of the FX100, or with this machine
    Validate(ValidateArgs),
    /// Run all locks over tables of locks, and print which one is best where
    Arena(Box<PointsArgs>),
    /// Write a trace of the locks of a database benchmark's transactions, for --table trace=FILE
    Trace(TraceArgs),
}

/// Options of `rmalab simulate trace`.
#[derive(Debug, Args)]
struct TraceArgs {
    /// The benchmark
    #[arg(value_enum, value_name = "BENCHMARK")]
    benchmark: BenchmarkArg,
    /// Number of subscribers or warehouses [default: 100000 subscribers, 10 warehouses]
    #[arg(long, value_name = "N", value_parser = crate::quantities::count)]
    size: Option<u64>,
    /// Number of transactions
    #[arg(long, value_name = "N", default_value = "100k", value_parser = crate::quantities::count)]
    transactions: u64,
    /// The seed
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
}

/// Benchmarks with a trace, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum BenchmarkArg {
    /// Locks of TATP's transactions on telephone subscribers
    Tatp,
    /// Locks of TPC-C's transactions on warehouses
    Tpcc,
}

/// Options of `rmalab simulate validate`.
#[derive(Debug, Args)]
struct ValidateArgs {
    /// The reference
    #[arg(value_enum, value_name = "WITH", default_value_t = With::Paper)]
    with: With,
    /// The machine: a profile's name or file [default: fx100; with machine: from a calibration before the measurement]
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// Measured acquisitions of each rank, with paper [default: 1000, as in the paper]
    #[arg(long, value_name = "N", value_parser = pairs)]
    pairs: Option<Pairs>,
    /// The first seed, with machine
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
}

/// Options of points.
#[derive(Clone, Debug, Args)]
pub(crate) struct PointsArgs {
    /// Names of locks and policies, see `rmalab list` [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = crate::quantities::lock)]
    lock: Vec<String>,
    /// Parameters of the locks: leaf=4,fan_out=8,may_pass_local=64,n=16,t_dc=32,t_l=8/16,t_r=1000
    #[arg(long, value_name = "NAME=VALUE,...")]
    params: Option<Parameters>,
    /// Numbers of ranks, and sweeps START:END:FACTOR [default: 4:4096:4]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = ranks)]
    ranks: Vec<Sweep>,
    /// Machines: names of profiles, or files [default: fx100]
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    profile: Vec<String>,
    /// Number of ranks on a node [default: the profile's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Option<u32>,
    /// Placement of ranks on nodes [default: the profile's]
    #[arg(long, value_enum, value_name = "HOW")]
    placement: Option<Placement>,
    /// Number of atomic engines of a network adapter [default: the profile's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    engines: Option<u32>,
    /// Device that carries out atomics inside a node [default: the profile's]
    #[arg(long, value_enum, value_name = "WHO")]
    local_atomics: Option<LocalAtomics>,
    /// Measured acquisitions of each rank [default: 1000; fewer from 1000 ranks on, so that a point takes seconds]
    #[arg(long, value_name = "N|auto", value_parser = pairs)]
    pairs: Option<Pairs>,
    /// Share of a rank's pairs ahead of the measurement; 0 measures from the first pair to the last
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = simulate::share)]
    warm_up: f64,
    /// Shares of acquisitions by kind: lock_all=90%,shared=5%,exclusive=5% [default: lock_all=100%]
    #[arg(long, value_name = "KIND=SHARE,...", conflicts_with = "writers")]
    mix: Option<Mix>,
    /// Shares of acquisitions that are exclusive locks, the others being lock_all; each is a separate load
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = simulate::share)]
    writers: Vec<f64>,
    /// Number of ranks, evenly spread, that take only exclusive locks
    #[arg(long, value_name = "N", default_value = "0")]
    exclusive_ranks: u32,
    /// Target of shared and exclusive locks
    #[arg(long, value_enum, value_name = "TARGET", default_value_t = TargetArg::Same)]
    target: TargetArg,
    /// Critical section: empty, operation, work:1us-4us, wait:1us-4us; each is a separate load [default: empty]
    #[arg(long, value_name = "SECTION,...", value_delimiter = ',')]
    section: Vec<Section>,
    /// Tables of locks, from which each acquisition draws one: 10M, 100k:zipf=0.99, 1k:local=90%:homes=4; or tables
    /// whose transactions are in a trace: trace=FILE:homes=4. Each is a separate load. --writers are then the shares of
    /// exclusive locks, the others being shared [default mix: half of each, or the trace's]
    #[arg(long, value_name = "LOCKS[:HOW],...", value_delimiter = ',', conflicts_with = "exclusive_ranks")]
    table: Vec<Table>,
    /// The rank that hosts global locks
    #[arg(long, value_name = "RANK", default_value = "0")]
    home: u32,
    /// Number of seeds for each point; the result is the median
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// Leave out points with more events: 500k, 20M
    #[arg(long, value_name = "N", default_value_t = simulate::MAX_EVENTS, value_parser = crate::quantities::count)]
    max_events: u64,
    /// Number of simultaneous simulations [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    output: OutputArgs,
}

/// References of a validation, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum With {
    /// Published figures of the FX100
    Paper,
    /// This machine
    Machine,
}

/// The number of acquisitions, if given.
#[derive(Clone, Copy, Debug)]
struct Pairs(Option<u32>);

fn pairs(text: &str) -> Result<Pairs, String> {
    if text == "auto" {
        return Ok(Pairs(None));
    }
    let count = crate::quantities::count(text)?;
    u32::try_from(count).map(|count| Pairs(Some(count))).map_err(|_| format!("{count} is too many; give at most 4G"))
}

/// Placement of ranks on nodes, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Placement {
    /// Fill node 0 first
    Block,
    /// One rank to each node in turn
    Cyclic,
}

/// Device that carries out atomics inside a node, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LocalAtomics {
    /// The network adapter
    Nic,
    /// The processor
    Processor,
}

/// Targets of locks, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum TargetArg {
    /// Each rank locks itself
    Own,
    /// All ranks lock the home rank
    Same,
    /// A rank drawn for every lock
    Random,
}

impl PointsArgs {
    /// Returns the options of the command line, with defaults for the rest.
    fn options(&self) -> Result<Options> {
        let names = if self.profile.is_empty() { vec!["fx100".to_owned()] } else { self.profile.clone() };
        let profiles = names.iter().map(|name| Ok(Profile::find(name)?)).collect::<Result<Vec<_>>>()?;
        let mut options = Options::new(profiles[0].clone());
        options.profiles = profiles;
        options.locks.clone_from(&self.lock);
        if !self.ranks.is_empty() {
            options.ranks = Sweep::all(&self.ranks);
        }
        let mixes = match (&self.mix, &self.writers[..]) {
            (Some(mix), _) => vec![*mix],
            (None, []) if !self.table.is_empty() => vec![Mix::writers(0.5)],
            (None, []) => vec![Mix::default()],
            (None, writers) => writers.iter().map(|&share| Mix::writers(share)).collect(),
        };
        let sections = if self.section.is_empty() { &[Section::Empty][..] } else { &self.section };
        let of = |mixes: &[Mix], table: Option<&Table>| -> Vec<Load> {
            let load = |mix, section| Load { mix, section, table: table.cloned() };
            mixes.iter().flat_map(|&mix| sections.iter().map(move |&section| load(mix, section))).collect()
        };
        options.loads = if self.table.is_empty() { of(&mixes, None) } else { Vec::new() };
        for table in &self.table {
            let given = self.mix.is_some() || !self.writers.is_empty();
            let mixes = match &table.trace {
                Some(trace) if !given => vec![Mix::of(trace)],
                _ => mixes.iter().map(|mix| mix.in_table()).collect(),
            };
            options.loads.extend(of(&mixes, Some(table)));
        }
        options.target = match self.target {
            TargetArg::Own => Target::Own,
            TargetArg::Same => Target::Same,
            TargetArg::Random => Target::Random,
        };
        options.home = self.home;
        options.exclusive_ranks = self.exclusive_ranks;
        options.pairs = self.pairs.and_then(|pairs| pairs.0);
        options.warm_up = self.warm_up;
        options.seeds = self.seeds;
        options.seed = self.seed;
        options.machine.ranks_per_node = self.ranks_per_node;
        options.machine.placement = self.placement.map(|placement| match placement {
            Placement::Block => profile::Placement::Block,
            Placement::Cyclic => profile::Placement::Cyclic,
        });
        options.machine.engines = self.engines;
        options.machine.local_atomics = self.local_atomics.map(|who| match who {
            LocalAtomics::Nic => profile::LocalAtomics::Nic,
            LocalAtomics::Processor => profile::LocalAtomics::Processor,
        });
        options.max_events = self.max_events;
        options.threads = self.threads.map(usize::from);
        Ok(options)
    }
}

/// Runs the sub-command.
pub(crate) fn run(registry: Registry, arguments: &SimulateArgs) -> Result<ExitCode> {
    let mut registry = registry;
    let points = &arguments.points;
    points.params.unwrap_or_default().apply(&mut registry);
    let registry = &registry;
    match &arguments.mode {
        Some(SimulateMode::Validate(validate)) if validate.with == With::Paper => paper(validate, &points.output),
        Some(SimulateMode::Validate(validate)) => machine(registry, validate, &points.output),
        Some(SimulateMode::Arena(points)) => arena(registry, points),
        Some(SimulateMode::Trace(trace)) => write_trace(trace, &points.output),
        None => simulate_points(registry, points),
    }
}

/// Writes the trace of a benchmark.
fn write_trace(arguments: &TraceArgs, output: &OutputArgs) -> Result<ExitCode> {
    let benchmark = match arguments.benchmark {
        BenchmarkArg::Tatp => Benchmark::Tatp,
        BenchmarkArg::Tpcc => Benchmark::TpcC,
    };
    let size = arguments.size.unwrap_or_else(|| benchmark.size().into());
    benchmark.check(size, arguments.transactions)?;
    let size = u32::try_from(size).expect("a size that passes the check has 32 bits");
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let written = output.write_data(&stop, |to| benchmark.write(size, arguments.transactions, arguments.seed, to));
    if let Err(Error::Interrupted) = written {
        say!("interrupted: the trace is incomplete, and no file has it");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    written.map(|()| ExitCode::SUCCESS)
}

/// The arena's defaults, for options with other defaults in `rmalab simulate`.
pub(crate) fn arena_defaults() -> [(&'static str, String); 7] {
    let shares = arena::WRITERS.map(|share| format!("{}%", share * 100.0)).join(",");
    [
        ("lock", "all but the policies of windows".to_owned()),
        ("ranks", arena::RANKS.map(|ranks| ranks.to_string()).join(",")),
        ("profile", arena::PROFILE.to_owned()),
        ("pairs", format!("{} of all ranks together, and at least {} of each", arena::PAIRS.0, arena::PAIRS.1)),
        ("writers", shares),
        ("table", arena::TABLES.join(",")),
        ("max_events", format!("{} for each rank, and at least {}", arena::EVENTS.1, arena::EVENTS.0)),
    ]
}

/// Runs the arena: which lock is best where.
fn arena(registry: &Registry, arguments: &PointsArgs) -> Result<ExitCode> {
    let mut arguments = arguments.clone();
    if arguments.profile.is_empty() {
        arguments.profile.push(arena::PROFILE.to_owned());
    }
    if arguments.table.is_empty() {
        arguments.table = arena::TABLES.iter().filter_map(|table| table.parse().ok()).collect();
    }
    if arguments.writers.is_empty() && arguments.mix.is_none() {
        arguments.writers = arena::WRITERS.to_vec();
    }
    let mut options = arguments.options()?;
    if arguments.ranks.is_empty() {
        options.ranks = arena::RANKS.to_vec();
    }
    let outlet = arguments.output.prepare(None)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let watch = Watch::new(arguments.output.quiet, arena::simulations(registry, &options)?);
    let made = arena::run(registry, &options, &stop, |progress| watch.show(progress))?;
    watch.finish();
    let Some(document) = made else {
        say!("interrupted: no map was made");
        return Ok(ExitCode::from(interrupt::exit_code()));
    };
    outlet.write(&document)?;
    Ok(ExitCode::SUCCESS)
}

fn simulate_points(registry: &Registry, arguments: &PointsArgs) -> Result<ExitCode> {
    let simulation = Simulation::new(registry, arguments.options()?)?;
    let outlet = arguments.output.prepare(None)?;
    if !arguments.output.quiet {
        let of = simulation.options();
        say!(
            "simulate: {} at {} of ranks, {} in all",
            counted(of.locks.len() as u64, "lock"),
            counted(of.ranks.len() as u64, "number"),
            counted(of.simulations() as u64, "simulation")
        );
    }
    let all = simulation.options().simulations();
    let watch = Watch::new(arguments.output.quiet, all);
    interrupt::sets(&simulation.stop_flag())?;
    let mut ended = 0;
    let outcome = simulation.run(|progress| {
        ended += usize::from(progress.ended.is_some());
        watch.show(progress);
    })?;
    watch.finish();
    if !outcome.run.complete && outcome.points.is_empty() {
        say!("interrupted before the first result");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if !outcome.run.complete {
        say!("interrupted: {} of {} simulations have ended", ended, all);
    }
    outlet.write(&outcome.document())?;
    if outcome.left_out.iter().any(LeftOut::is_violated) {
        return Ok(ExitCode::FAILURE);
    }
    if outcome.points.is_empty() && outcome.run.complete {
        return Err(Error::Ranks("no point could be simulated".into()));
    }
    Ok(if outcome.run.complete { ExitCode::SUCCESS } else { ExitCode::from(interrupt::exit_code()) })
}

/// Acquisitions of each rank in the paper.
const PAPER_PAIRS: u32 = 1000;

/// Compares with published figures.
fn paper(arguments: &ValidateArgs, output: &OutputArgs) -> Result<ExitCode> {
    let (outlet, run) = (output.prepare(None)?, Run::begin());
    let profile = &Profile::find(arguments.profile.as_deref().unwrap_or("fx100"))?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let pairs = arguments.pairs.and_then(|pairs| pairs.0).unwrap_or(PAPER_PAIRS);
    if !output.quiet {
        say!("simulating up to 4096 ranks, {pairs} pairs each, of profile {}", profile.name);
    }
    let checks = match validate::paper(profile, pairs, &stop) {
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(ExitCode::from(interrupt::exit_code())),
        checks => checks?,
    };
    let about = format!(
        "Profile {}, fitted to these figures, with words served by the adapter. Each rank makes {pairs} pairs.",
        profile.name
    );
    outlet.write(&validate::document(run, &about, "published", &checks))?;
    Ok(verdict(&checks))
}

/// Compares with this machine.
fn machine(registry: &Registry, arguments: &ValidateArgs, output: &OutputArgs) -> Result<ExitCode> {
    let (outlet, run) = (output.prepare(None)?, Run { seed: Some(arguments.seed), ..Run::begin() });
    let profile = arguments.profile.as_deref().map(Profile::find).transpose()?;
    let name = profile.as_ref().map_or("from a calibration", |profile| &profile.name);
    if !output.quiet {
        say!("measuring, and simulating profile {name}: about {} s", machine::SECONDS);
    }
    let (checks, count) = machine::compare(registry, profile.as_ref(), arguments.seed)?;
    let about = format!("Profile {name}, beside processes of this machine; medians of {count} repetitions.");
    outlet.write(&validate::document(run, &about, "measured", &checks))?;
    Ok(verdict(&checks))
}

/// Returns the exit code of a comparison.
fn verdict(checks: &[Check]) -> ExitCode {
    if checks.iter().all(Check::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Simulates all locks at all sizes, and writes the plot and the page.
pub(crate) fn scale(registry: Registry, arguments: &PointsArgs) -> Result<ExitCode> {
    let mut registry = registry;
    arguments.params.unwrap_or_default().apply(&mut registry);
    let registry = &registry;
    let plain = arguments.mix.is_none() && arguments.writers.is_empty() && arguments.section.is_empty();
    if !plain || arguments.exclusive_ranks > 0 {
        return Err(Error::usage(
            "scale has a fixed load: leave out --mix, --writers, --section and --exclusive-ranks",
        ));
    }
    let mut options = arguments.options()?;
    if arguments.ranks.is_empty() {
        options.ranks = scale::RANKS.to_vec();
    }
    let outlet = arguments.output.prepare(None)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let watch = Watch::new(arguments.output.quiet, options.clone().checked(registry)?.simulations());
    let made = scale::run(registry, &options, &stop, |progress| watch.show(progress))?;
    watch.finish();
    let Some(document) = made else {
        say!("interrupted: no page was written");
        return Ok(ExitCode::from(interrupt::exit_code()));
    };
    outlet.write(&document)?;
    Ok(ExitCode::SUCCESS)
}

/// Simulates the workloads of the paper on RMA-RW and RMA-MCS, and writes the page.
pub(crate) fn rma_rw(output: &OutputArgs) -> Result<ExitCode> {
    let outlet = output.prepare(None)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let Some(document) = rma_rw::run(&stop)? else {
        say!("interrupted: no page was written");
        return Ok(ExitCode::from(interrupt::exit_code()));
    };
    outlet.write(&document)?;
    Ok(ExitCode::SUCCESS)
}

/// Time between two lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows the progress: a bar on a terminal, otherwise a line now and then, nothing if quiet.
enum Watch {
    Quiet,
    Bar(ProgressBar),
    Lines(Lines),
}

/// The state for lines of progress.
struct Lines {
    /// The number of simulations, and how many have ended.
    of: usize,
    ended: Cell<usize>,
    begin: Instant,
    /// The time of the last line.
    last: Cell<Option<Instant>>,
}

impl Watch {
    fn new(quiet: bool, of: usize) -> Watch {
        if quiet {
            Watch::Quiet
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            let style = "{bar:30} {percent}% of pairs  {elapsed} elapsed, {eta} left  {wide_msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
            bar.enable_steady_tick(Duration::from_millis(250));
            Watch::Bar(bar)
        } else {
            Watch::Lines(Lines { of, ended: Cell::new(0), begin: Instant::now(), last: Cell::new(None) })
        }
    }

    fn show(&self, progress: &Progress) {
        let line = progress.ended.as_ref().map(|ended| match ended {
            Ended::Point(key, events, seconds) => {
                format!("{key}: {:.1} M events in {seconds:.1} s", *events as f64 / 1e6)
            }
            Ended::LeftOut(left) => format!("left out: {}: {}", left.key, left.why),
        });
        match self {
            Watch::Quiet => {}
            Watch::Bar(bar) => {
                bar.set_length(progress.of);
                bar.set_position(progress.done);
                match (line, &progress.ended) {
                    (Some(line), Some(Ended::LeftOut(_))) => bar.println(line),
                    (Some(line), _) => bar.set_message(line),
                    _ => {}
                }
            }
            Watch::Lines(Lines { of, ended, begin, last }) => {
                let Some(line) = line else { return };
                ended.set(ended.get() + 1);
                if last.get().is_some_and(|last| last.elapsed() < LINES) {
                    return;
                }
                last.set(Some(Instant::now()));
                let share = progress.done as f64 / progress.of.max(1) as f64;
                let left = begin.elapsed().as_secs_f64() * (1.0 - share) / share.max(1e-6);
                say!("{}/{of}, {:.0} % of pairs, about {left:.0} s left: {line}", ended.get(), share * 100.0);
            }
        }
    }

    fn finish(&self) {
        if let Watch::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
