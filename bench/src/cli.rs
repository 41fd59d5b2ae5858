//! The command line: commands, options and help texts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use rmalab_atomics::{Rank, started_as};
use rmalab_verify::explorer::{self, Search};
use rmalab_verify::play::Section;
use rmalab_verify::{Network, Nodes, Scenario};

use crate::advise_command;
use crate::compare_command;
use crate::launch_command;
use crate::list_command;
use crate::output::OutputArgs;
use crate::preload_command;
use crate::quantities::{Sweep, bytes, count, duration, lock, ranks, share, span};
use crate::report_command;
use crate::reproduce_command;
use crate::run_command;
use crate::simulate_command;
use crate::study::{Backend, MAX_RANKS, MAX_REPETITIONS, Options, Target};
use crate::verify::{Engine, Selection, section_name};
use crate::{Error, Result};

/// Studies of locks over network atomics, and checks: throughput, latency, fairness, remote operations, proofs by
/// search.
#[derive(Debug, Parser)]
#[command(name = "rmalab", version, about, long_about = ABOUT, after_long_help = manual(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const ABOUT: &str = "\
A laboratory for locks over network atomics, as in implementations of MPI's lock, lock_all, unlock and unlock_all.

The main job is `rmalab study`, at a size fit for this machine: every lock, alone and against the others, with threads and \
with processes as ranks, for a little more than a minute. It prints a table, and writes a report: one self-contained page \
with plots, the figures as SVG, the data as CSV and JSON, and a description of the machine. `cargo run` without an argument \
does this, too.";

/// The output of `rmalab` without an argument.
pub(crate) const SHORT: &str = "\
A laboratory for locks over network atomics. Three things to try:

  rmalab study                         every lock under contention, for a little more than a
                                       minute, with a report
  rmalab verify --lock mcs-rw-rp       a lock in every order of its ranks' operations
  rmalab verify --mutant tas-split     how a race breaks a lock, step by step

`rmalab list` prints all names, `rmalab --help` all commands.
";

const MANUAL: &str = "\
Examples:
  rmalab study
      The main study; see rmalab-report/index.html afterwards.
  rmalab study --lock mcs,ticket --ranks 2,8 --writers 100% --duration 1s
      Two mutexes against each other, one second for each cell.
  rmalab study --backend local --writers 50% --critical-section 1us --format csv --quiet
      Longer critical sections; data go to standard output.
  mpirun -n 4 rmalab study --backend mpi --ranks 2,4
      Locks over the atomics of an MPI; smaller worlds use some of its ranks. verbs works
      likewise.
  rmalab verify
      Check every lock in every order of its ranks' operations, with configurations that take
      seconds.
  rmalab simulate --lock mcs-rw-rp,two-level --ranks 4:4096:4
      The time of lock_all on a simulated machine of up to 4,096 ranks.
  rmalab advise bench/workloads/shared_exclusive.toml --ranks 2
      Recommend a lock policy for this workload.
  rmalab reproduce fx100-lockall
      Repeat an experiment of a paper; the paper's figures are beside ours.
  rmalab run ghost --sync pscw --transport two-sided
      An application, with chosen strategies of the window layer.
  rmalab compare
      Windows and locks beside MPICH, Open MPI, Concurrency Kit and others, with the ratios.
  rmalab list
      All names; `rmalab list locks` prints one kind.
  rmalab launch -n 4 -- ./program argument
      Start a program as four ranks.
  rmalab launch --hosts a:2,b:2 --interface eth0 -- ./program argument
      The same on two hosts, by ssh; the program must use a backend for their network.
  rmalab preload -- mpirun -n 4 ./program
      An unchanged MPI program, whose windows rmalab manages.

Values, in every command:
  names             separated by commas: mcs,ticket
  numbers of ranks  2,8 or a sweep 4:4096:4 from the start to the end by a factor; 4k, 1M
  shares            0.9 or 90%
  times             500ns, 20us, 10ms, 1s, 5m, 1h
  lengths           4096, 64KiB, 64K, 4G

Exit codes:
  0    done
  1    the run failed (standard error has the reason), or a lock is broken
  2    an argument is wrong, or the report's folder or a saved counterexample cannot be used
  3    verify: no property is broken in the states that were visited, but a limit ended a search
  130  interrupted (Ctrl-C); results until then are in the table and in the report
  143  terminated (SIGTERM), in the same way";

/// The environment variables that users set, their readers, and their values. `docs/environment.md` has the same.
pub(crate) const ENVIRONMENT: [(&str, &str, &str); 13] = [
    ("NO_COLOR", "`rmalab`", "any value: no colours in messages"),
    ("RMALAB_LOCK_POLICY", "windows", "the lock policy of windows that name none, such as `hierarchical`"),
    ("RMALAB_RECORD", "windows", "a folder: every window of the program records its trace there"),
    (
        "RMALAB_TIMEOUT",
        "all backends of processes",
        "seconds that the ranks wait for each other at the start, 30 by default",
    ),
    (
        "RMALAB_SILENCE",
        "ranks on several hosts",
        "seconds after which a silent host counts as lost, 4 by default; or never",
    ),
    ("RMALAB_JOB", "ranks under `mpirun` and `srun`", "the job's name, with which its ranks find each other"),
    ("RMALAB_INTERFACE", "ranks on several hosts", "the network interface, or its address, on which the ranks meet"),
    (
        "RMALAB_SEGMENT_BYTES",
        "ranks under `mpirun` and `srun`",
        "the length of each rank's segment; `rmalab launch` has `--segment`",
    ),
    ("RMALAB_TOPOLOGY", "ranks under `mpirun` and `srun`", "ranks per node and nodes per rack, as in `4,2`"),
    ("RMALAB_DEVICE", "`verbs`", "the RDMA device, or several separated by commas"),
    ("RMALAB_GID_INDEX", "`verbs`", "the index of the port's address"),
    ("RMALAB_IB_PORT", "`verbs`", "the number of the device's port"),
    ("RMALAB_NODE_SHARED", "`verbs`", "`0`: ranks of one host use the adapter instead of shared memory"),
];

/// The whole command line, with the defaults that commands do not share.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    for (name, folder) in
        [("study", STUDY_FOLDER), ("reproduce", reproduce_command::FOLDER), ("compare", compare_command::FOLDER)]
    {
        let default = format!("{folder}; none with -o, or with a --format other than text");
        command = command.mut_subcommand(name, |of| of.mut_arg("report", |arg| with_default(arg, &default)));
    }
    let arena = |mut arena: clap::Command| {
        for (option, default) in simulate_command::arena_defaults() {
            arena = arena.mut_arg(option, |arg| with_default(arg, &default));
        }
        arena
    };
    command.mut_subcommand("simulate", |simulate| simulate.mut_subcommand("arena", arena))
}

fn with_default(arg: clap::Arg, default: &str) -> clap::Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let about = help.split(" [default: ").next().unwrap_or_default();
    let help = format!("{about} [default: {default}]");
    // Not the help text of the command without a subcommand.
    arg.hide_default_value(true).help(help)
}

/// The default folder of a study's report.
pub(crate) const STUDY_FOLDER: &str = "rmalab-report";

/// The end of `--help`.
fn manual() -> String {
    let mut text = format!("{MANUAL}\n\nEnvironment:\n");
    for (name, _, value) in ENVIRONMENT {
        text += &format!("  {name:20}  {}\n", value.replace('`', ""));
    }
    text + "  launchers set others that begin with RMALAB_ for their ranks"
}

const VERIFY: &str = "\
Check locks in every order of their ranks' operations, and show the steps that break them.

Without an argument, every lock is checked in its standard configurations: some ranks acquire and release it a few times, \
and the search covers every order of their operations and of the network's. A table has the results. A passed check is a \
proof for this scenario on this model of the network, and for nothing else.

The schedules of the network sc are those of late-puts in which each put arrives at once. So without --lock, a scenario that is \
searched under late-puts is not searched under sc as well; --network sc,late-puts searches both.";

const VERIFY_MANUAL: &str = "\
Scenarios:
  3R1Wx2        3 readers and 1 writer, 2 acquisitions each
  3Rx1+1Wx2     3 readers with 1 acquisition each, 1 writer with 2
  2R1Wxinf      2 readers and 1 writer that acquire again and again, without end
  4Wx2/2        4 writers on nodes of 2 ranks; 4Wx2/1/2: on nodes of 1 rank, in racks of 2 nodes
  1A1E@0 1S@1   of a window: lock_all, an exclusive lock of target 0, a shared one of target 1
  3Wx2 crash1   3 writers, of which one may fail at any step, for locks that go on then
  3Wx1 restart1 3 writers, of which one may fail at any step and come back, for locks that resume

Networks:
  sc              every operation takes effect as it is issued
  late-puts       posted puts take effect later, at the latest at a flush, in order for each
                  target
  unordered-bulk  bulk puts, too, in any order: everything that the memory model allows
  ordered-bulk    the same, but bulk puts and other puts in order for each target: a backend with
                  ordered puts, on which windows omit some flushes
  hca             network atomics read and write in two steps; owners also use the network
  hca-owner-cpu   the same, but owners use their processor: outside the contract, so some locks
                  fail

Examples:
  rmalab verify --lock mcs,mcs-rw-rp
      The standard configurations of two locks.
  rmalab verify --lock mcs-rw-neutral --scenario 3R1Wx2 --network sc,late-puts --max-memory 4G
      One scenario on two networks, within 4 GiB.
  rmalab verify --lock mcs-rw-rp --scenario 5R3Wx3 --preemptions 2 --search depth-first
      A large scenario, but only schedules with few switches.
  rmalab verify --save found && rmalab verify replay found/NAME.json
      Save counterexamples; replay one.
  rmalab verify --crashes 1
      Locks that go on after a failure, with one failure at any step.
  rmalab verify mutants
      Locks that are broken on purpose, for --mutant.

Exit codes:
  0    no property is broken
  1    a property is broken, or an engine failed; for replay: the counterexample still breaks the
       lock
  2    an argument is wrong, or a file is no counterexample to a lock of this program
  3    no property is broken in the states that were visited, but a limit ended a search
  130  interrupted (Ctrl-C); results until then are in the table";

const CALIBRATE: &str = "\
Measure this machine's shared memory, and write a profile of it for the simulator.

Two ranks, each bound to a core, measure operations on separate lines, fetch_adds on one word, copies, and the time of a \
put until the other rank notices it. The profile that fits best goes to standard output or to a file. A table \
shows measured and simulated times. The machine should do nothing else meanwhile.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put locks under load on threads and processes, and write a report
    #[command(after_help = "Durations are numbers with a unit: 500ns, 10us, 20ms, 1s.")]
    Study(StudyArgs),
    /// Check locks in every order of their ranks' operations, and draw violations
    #[command(long_about = VERIFY, after_long_help = VERIFY_MANUAL)]
    Verify(VerifyArgs),
    /// Run locks with very many ranks of a simulated machine, in virtual time
    #[command(long_about = simulate_command::ABOUT, after_long_help = simulate_command::MANUAL)]
    Simulate(simulate_command::SimulateArgs),
    /// Recommend a lock policy for a window, from simulations of all of them
    #[command(long_about = advise_command::ABOUT, after_long_help = advise_command::MANUAL)]
    Advise(advise_command::AdviseArgs),
    /// Repeat experiments of papers, and print the papers' figures beside ours
    #[command(long_about = reproduce_command::ABOUT, after_long_help = reproduce_command::MANUAL)]
    Reproduce(reproduce_command::ReproduceArgs),
    /// Run an application on windows, and check its result
    #[command(long_about = run_command::ABOUT, after_long_help = run_command::MANUAL)]
    Run(run_command::RunArgs),
    /// Measure windows and locks beside MPIs and other libraries
    #[command(long_about = compare_command::ABOUT, after_long_help = compare_command::MANUAL)]
    Compare(compare_command::CompareArgs),
    /// Measure this machine's shared memory, and write a profile of it for the simulator
    #[command(long_about = CALIBRATE, after_help = "Durations are numbers with a unit: 500ms, 10s.")]
    Calibrate(CalibrateArgs),
    /// Render a saved result again
    #[command(long_about = report_command::ABOUT)]
    Report(report_command::ReportArgs),
    /// Compare two saved results, and list what got worse
    #[command(long_about = report_command::DIFF, after_long_help = report_command::DIFF_MANUAL)]
    Diff(report_command::DiffArgs),
    /// List all names
    List(list_command::ListArgs),
    /// Run a program as the ranks of one world, on this host or on several
    #[command(after_long_help = launch_command::MANUAL)]
    Launch(LaunchArgs),
    /// Start an unchanged MPI program whose windows rmalab manages
    #[command(long_about = preload_command::ABOUT, after_long_help = preload_command::MANUAL)]
    Preload(preload_command::PreloadArgs),
    /// Write a manual page for each command
    Man {
        /// The folder, created if it does not exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Returns whether the command runs code whose windows can record traces.
    pub(crate) fn may_have_windows(&self) -> bool {
        matches!(
            self,
            Command::Run(_) | Command::Reproduce(_) | Command::Compare(_) | Command::Advise(_) | Command::Launch(_)
        )
    }
}

/// Options of `rmalab study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// Backends: local (threads), shm (processes), verbs, mpi, or all (local and shm) [default: all]
    #[arg(long, value_name = "BACKEND", value_delimiter = ',', value_parser = ["local", "shm", "verbs", "mpi", "all"])]
    pub(crate) backend: Vec<String>,
    /// Numbers of ranks; each makes a separate world [default: powers of two up to twice the processors, at least 8;
    /// up to all under mpirun]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = ranks)]
    pub(crate) ranks: Vec<Sweep>,
    /// Names of locks and policies, see `rmalab list` [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = lock)]
    pub(crate) lock: Vec<String>,
    /// Shares of acquisitions that are exclusive locks; the others are lock_all [default: 0,10%]
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = share, allow_negative_numbers = true)]
    pub(crate) writers: Vec<f64>,
    /// Computing time of a rank while it holds the lock
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = duration)]
    pub(crate) critical_section: Duration,
    /// Computing time of a rank between two acquisitions
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = duration)]
    pub(crate) think_time: Duration,
    /// Duration of each cell [default: a study takes a little more than a minute, at most 1s for each cell]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Duration>,
    /// Measurements of each cell; the result is the median, with the lowest and the highest
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPETITIONS)))]
    pub(crate) repetitions: u32,
    /// Time without progress after which the lock counts as stuck, and the study ends
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) patience: Duration,
    /// Seed of the ranks' random choices
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// Number of ranks on a node, which sets the distances [default: the machine's NUMA nodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// Leave the ranks to the scheduler, instead of binding each to a core
    #[arg(long)]
    pub(crate) no_bind: bool,
    /// The rank that hosts global locks
    #[arg(long, value_name = "RANK", default_value = "0")]
    pub(crate) home: u32,
    /// Target of exclusive locks
    #[arg(long, value_name = "TARGET", value_enum, default_value_t = TargetArg::Home)]
    pub(crate) target: TargetArg,
    /// A table of locks, from which each acquisition draws one: 100k:zipf=0.99, trace=FILE, as in rmalab simulate.
    /// --writers are then the shares of exclusive locks, the others being shared. Each lock is measured in a world of its own
    #[arg(long, value_name = "LOCKS[:HOW]", conflicts_with_all = ["home", "target"])]
    pub(crate) table: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Target of exclusive locks, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TargetArg {
    /// Always the home rank
    Home,
    /// A rank drawn for every lock
    Random,
}

impl StudyArgs {
    /// Returns the options of the command line, with defaults for the rest.
    pub(crate) fn options(&self) -> Result<Options> {
        let mut options = Options::default();
        let given = |names: &[String]| names.iter().any(|name| name == "all");
        if !self.backend.is_empty() && !given(&self.backend) {
            options.backends = self
                .backend
                .iter()
                .map(|name| name.parse::<Backend>())
                .collect::<Result<_, _>>()
                .map_err(|error| Error::usage(error.to_string()))?;
        }
        if !self.ranks.is_empty() {
            options.ranks = Sweep::all(&self.ranks);
        } else if let Ok(Some((_, size @ 2..))) = started_as() {
            options.ranks = std::iter::successors(Some(1), |ranks| Some(ranks * 2)).take_while(|&n| n < size).collect();
            options.ranks.push(size);
        }
        if !self.writers.is_empty() {
            options.read_fractions = self.writers.iter().map(|writers| 1.0 - writers).collect();
        }
        options.locks.clone_from(&self.lock);
        options.critical_section = self.critical_section;
        options.think_time = self.think_time;
        options.duration = self.duration;
        options.repetitions = self.repetitions;
        options.patience = self.patience;
        options.seed = self.seed;
        options.ranks_per_node = self.ranks_per_node;
        options.bind = !self.no_bind;
        options.home = self.home;
        options.table.clone_from(&self.table);
        options.target = match self.target {
            TargetArg::Home => Target::Home,
            TargetArg::Random => Target::Random,
        };
        Ok(options)
    }
}

/// Options of `rmalab verify`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct VerifyArgs {
    #[command(subcommand)]
    pub(crate) mode: Option<VerifyMode>,
    #[command(flatten)]
    pub(crate) check: CheckArgs,
}

/// Subcommands of verify.
#[derive(Debug, Subcommand)]
pub(crate) enum VerifyMode {
    /// Repeat the steps of a saved counterexample, and show them
    Replay {
        /// The counterexample
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Draw it as SVG to FILE
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        svg: Option<PathBuf>,
    },
    /// List the locks that are broken on purpose
    Mutants,
}

/// Options that select checks, their engines and their limits.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Names of locks and policies, see `rmalab list` [default: all that fit]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) lock: Vec<String>,
    /// Acquire LOCK inside each lock, so that each rank holds two: mcs+ticket
    #[arg(long, value_name = "LOCK", requires = "lock")]
    pub(crate) nested: Option<String>,
    /// Acquire the two locks in the opposite order on odd ranks: most pairs of locks then deadlock
    #[arg(long, requires = "nested")]
    pub(crate) opposite: bool,
    /// Scenarios instead of the standard configurations: 3R1Wx2 is 3 readers and 1 writer, 2 acquisitions each;
    /// 2R1Wtry1Wtimed is 2 readers, a writer that tries, and a writer whose deadline may pass at any time or never
    #[arg(long, value_name = "SCENARIO,...", value_delimiter = ',')]
    pub(crate) scenario: Vec<Scenario>,
    /// Number of ranks that may fail, each at any step [default: as in the scenario]; without --scenario, only the standard
    /// configurations with that number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=8))]
    pub(crate) crashes: Option<u32>,
    /// Search engine [default: explorer]
    #[arg(long, value_name = "ENGINE,...", value_delimiter = ',', value_parser = Engine::ALL.map(Engine::name))]
    pub(crate) engine: Vec<String>,
    /// Models of the network [default: as in the standard configurations; sc,late-puts for --scenario]
    #[arg(long, value_name = "NETWORK,...", value_delimiter = ',', value_parser = Network::ALL.map(Network::name))]
    pub(crate) network: Vec<String>,
    /// Critical section: empty, or with reads and writes of the data [default: as for --network]
    #[arg(long, value_name = "SECTION,...", value_delimiter = ',', value_parser = SECTIONS.map(section_name))]
    pub(crate) section: Vec<String>,
    /// Check a lock that is broken on purpose
    #[arg(long, value_name = "NAME")]
    pub(crate) mutant: Option<String>,
    /// The rank that hosts global words [default: a rank that takes no part, which is the strongest check]
    #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(u32).range(..i64::from(MAX_RANKS)))]
    pub(crate) home: Option<u32>,
    /// Number of ranks on a node, in every scenario [default: as in the scenario; all ranks if it has none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// Number of nodes in a rack
    #[arg(long, value_name = "N", default_value = "1", requires = "ranks_per_node", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes_per_rack: u32,
    /// Limit on the states of each search: 500, 20k, 1M
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) max_states: Option<u64>,
    /// Limit on the memory for states of each search: 512M, 4G [default: 8G]; searches at the same time have one limit each
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub(crate) max_memory: Option<u64>,
    /// Limit on the time of each search: 500ms, 60s, 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max_time: Option<Duration>,
    /// Limit on preemptions: switches away from a rank that could continue [default: none; 3 for loom]
    #[arg(long, value_name = "N")]
    pub(crate) preemptions: Option<u32>,
    /// Search order: breadth-first finds the shortest counterexamples, depth-first takes less memory [default:
    /// breadth-first, and depth-first for the long configurations]
    #[arg(long, value_name = "ORDER", value_parser = ["breadth-first", "depth-first"])]
    pub(crate) search: Option<String>,
    /// Number of executions of loom and shuttle [default: 10000 for random ones, otherwise all]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) executions: Option<u64>,
    /// Seed of shuttle's random schedules
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// Number of threads of each search [default: one for each processor; one if there are many checks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Number of searches at the same time [default: one for each processor; 1 with loom and shuttle]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Do not merge states that differ only by an exchange of equal ranks' numbers
    #[arg(long)]
    pub(crate) no_symmetry: bool,
    /// Do not merge histories of a rank after which it goes on alike
    #[arg(long)]
    pub(crate) no_merging: bool,
    /// Also reorder steps that no other rank can notice
    #[arg(long)]
    pub(crate) no_partial_order: bool,
    /// Check the order that each lock promises in every configuration, not only in the standard ones for order
    #[arg(long)]
    pub(crate) order: bool,
    /// Also check the long standard configurations: they take minutes and gigabytes
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) long: bool,
    /// Save counterexamples: each in a file of the folder DIR, or the first one in FILE (a name that ends in .json)
    #[arg(long, value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) save: Option<PathBuf>,
    /// Draw the first counterexample as SVG to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    /// Order the checks of a lock and network by their size, the largest first
    #[arg(long)]
    pub(crate) by_size: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const SECTIONS: [Section; 2] = [Section::Empty, Section::Data];

impl CheckArgs {
    /// Returns the selection of the command line.
    pub(crate) fn selection(&self) -> Result<Selection> {
        let named = |name: &String| Engine::ALL.into_iter().find(|engine| engine.name() == name);
        Ok(Selection {
            locks: self.lock.clone(),
            nested: self.nested.clone(),
            opposite: self.opposite,
            scenarios: self.scenario.clone(),
            crashes: self.crashes,
            networks: self.network.iter().map(|name| name.parse()).collect::<Result<_, _>>().map_err(Error::usage)?,
            sections: SECTIONS
                .into_iter()
                .filter(|&section| self.section.iter().any(|name| name == section_name(section)))
                .collect(),
            engines: self.engine.iter().filter_map(named).collect(),
            mutant: self.mutant.clone(),
            home: self.home.map(Rank),
            nodes: self
                .ranks_per_node
                .map(|ranks_per_node| Nodes { ranks_per_node, nodes_per_rack: self.nodes_per_rack }),
            order: self.order,
            long: self.long,
            search: self.search.as_deref().map(|name| match name {
                "depth-first" => Search::DepthFirst,
                _ => Search::BreadthFirst,
            }),
            executions: self.executions,
            seed: self.seed,
        })
    }

    /// Returns the limits of each check.
    pub(crate) fn options(&self) -> explorer::Options {
        let default = explorer::Options::default();
        explorer::Options {
            max_states: self.max_states,
            max_bytes: self.max_memory.unwrap_or(default.max_bytes),
            max_time: self.max_time,
            preemptions: self.preemptions,
            threads: self.threads.map_or(default.threads, usize::from),
            symmetry: !self.no_symmetry,
            merging: !self.no_merging,
            partial_order: !self.no_partial_order,
            order: self.order,
            ..default
        }
    }
}

/// Options of `rmalab calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Write the profile to FILE, or to standard output for -
    #[arg(long, short, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// The profile's name: letters, digits and hyphens
    #[arg(long, value_name = "NAME", default_value = "shm", value_parser = profile_name)]
    pub(crate) name: String,
    /// Duration of the measurement
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    pub(crate) duration: Duration,
    /// Print only errors on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Options of `rmalab launch`.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// Number of ranks [default with hosts: all their slots]
    #[arg(
        short,
        long,
        value_name = "N",
        required_unless_present_any = ["hosts", "hostfile", "part"],
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS))
    )]
    pub(crate) n: Option<u32>,
    /// Hosts, each with its number of slots for ranks: a:2,b:2
    #[arg(long, value_name = "HOSTS", conflicts_with_all = ["hostfile", "ranks_per_node"])]
    pub(crate) hosts: Option<String>,
    /// A file of hosts, one on each line: `a:2` or `a slots=2`
    #[arg(long, value_name = "FILE", conflicts_with = "ranks_per_node", value_hint = ValueHint::FilePath)]
    pub(crate) hostfile: Option<PathBuf>,
    /// The remote shell and its options, separated by spaces
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub(crate) rsh: String,
    /// The path of rmalab on the other hosts [default: the path here]
    #[arg(long, value_name = "PATH")]
    pub(crate) remote: Option<PathBuf>,
    /// The network interface or address of this host that the other hosts can reach
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// An environment variable for every rank on every host (beside those that start with RMALAB_ and RUST_)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Start the ranks of one host, as standard input requests; for internal use by `rmalab launch`
    #[arg(long, hide = true, exclusive = true)]
    pub(crate) part: bool,
    /// Number of ranks on a node [default: the machine's NUMA nodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// Number of nodes in a rack
    #[arg(long, value_name = "N", default_value = "1", requires = "ranks_per_node", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes_per_rack: u32,
    /// Length of every rank's segment, in bytes or with a unit: 64K, 16M, 1G
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) segment: Option<u64>,
    /// The time in which the other ranks may end, or go on, after one rank has failed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "part", value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) program: Vec<std::ffi::OsString>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not in the form NAME=VALUE".into()),
    }
}

/// Parses the memory limit of a search, at least 1 MiB.
fn memory(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        little @ ..1_048_576 => Err(format!("{little} bytes are too few for a search; give at least 1M, such as 512M")),
        bytes => Ok(bytes),
    }
}

fn profile_name(text: &str) -> Result<String, String> {
    let good = !text.is_empty() && text.len() <= 40 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if good { Ok(text.to_owned()) } else { Err("not up to 40 letters, digits and hyphens".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
    /// Longer lines would be wrapped in the middle of a list or a command.
    #[test]
    fn lists_and_examples_of_help_fit_into_100_columns() {
        let mut long = Vec::new();
        for command in command().get_subcommands() {
            let text = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
            let lines = text.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with(' '));
            long.extend(
                lines.filter(|line| line.chars().count() > 100).map(|line| format!("{}: {line}", command.get_name())),
            );
        }
        assert!(long.is_empty(), "{}", long.join("\n"));
    }
}
