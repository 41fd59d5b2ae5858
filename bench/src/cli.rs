//! The command line: what can be asked for, and what is said about it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use rmalab::study::{Backend, MAX_RANKS, Options, Target};

/// Studies of locks over network atomics: throughput, latency, fairness, remote operations.
#[derive(Debug, Parser)]
#[command(name = "rmalab", version, about, long_about = ABOUT, after_long_help = MANUAL, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const ABOUT: &str = "\
A laboratory for locks over network atomics, such as MPI's lock, lock_all, unlock and unlock_all are made of.

Without an argument, rmalab runs the main study at a size fit for this machine: every lock, alone and against the others, \
with threads and with processes as ranks, for a bit more than a minute. It ends with a table, and writes a report: one \
self-contained page with plots, the figures as SVG, the data as CSV and JSON, and a description of the machine.";

const MANUAL: &str = "\
Examples:
  rmalab
      The main study; see rmalab-report/index.html afterwards.
  rmalab study --locks mcs,ticket --ranks 2,8 --read-fraction 0 --duration 1s
      Two mutexes against each other, one second for each cell.
  rmalab study --backend local --read-fraction 0.5 --critical-section 1us --csv - --quiet
      Longer critical sections, data to standard output.
  rmalab list
      All locks, policies and backends, with their papers.
  rmalab launch -n 4 -- ./program argument
      Four ranks of a program that attaches to its world.

Exit codes:
  0    done
  1    the run failed; standard error says why
  2    an argument is wrong, or the report's folder cannot be used
  130  interrupted (Ctrl-C); what was measured until then is in the table and in the report

Environment:
  NO_COLOR          no colours in messages
  RMALAB_*          set by rmalab for the ranks that it starts; not for people";

/// What rmalab can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put locks under load on threads and processes, and write a report
    #[command(after_help = "Durations are numbers with a unit: 500ns, 10us, 20ms, 1s.")]
    Study(StudyArgs),
    /// List the locks, the policies and the backends
    List,
    /// Run a program as the ranks of one world on this host
    Launch(LaunchArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Options of `rmalab study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// Where the ranks run: local (threads), shm (processes), or all [default: all]
    #[arg(long, value_name = "BACKEND", value_delimiter = ',', value_parser = ["local", "shm", "all"])]
    pub(crate) backend: Vec<String>,
    /// Numbers of ranks; each is a world of its own [default: powers of two up to twice the processors, at least 8]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)))]
    pub(crate) ranks: Vec<u32>,
    /// Names of locks and policies, see `rmalab list` [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) locks: Vec<String>,
    /// Shares of acquisitions that are lock_all; the others are exclusive locks [default: 1,0.9]
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = fraction, allow_negative_numbers = true)]
    pub(crate) read_fraction: Vec<f64>,
    /// How long a rank computes while it holds the lock
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = duration)]
    pub(crate) critical_section: Duration,
    /// How long a rank computes between two acquisitions
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = duration)]
    pub(crate) think_time: Duration,
    /// How long each cell is measured [default: such that the study takes little more than a minute, 1s at the most]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Duration>,
    /// How often each cell is measured; what is told is the median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Where the ranks' random choices start from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many ranks share a node, by which distances are told [default: the machine's NUMA nodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// Leave the ranks to the scheduler, instead of binding each to a core in turn
    #[arg(long)]
    pub(crate) no_bind: bool,
    /// The rank at which global locks live
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub(crate) home: u32,
    /// Whom exclusive locks name
    #[arg(long, value_name = "WHOM", value_enum, default_value_t = Whom::Home)]
    pub(crate) target: Whom,
    /// The report's folder; an older report there is replaced, anything else is not
    #[arg(long, value_name = "DIR", default_value = "rmalab-report", value_hint = ValueHint::DirPath)]
    pub(crate) report: PathBuf,
    /// Write the data as JSON, to FILE or (without FILE, or with -) to standard output instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Write one line for each cell as CSV, to FILE or (without FILE, or with -) to standard output instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,
    /// Say nothing on standard error but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Whom exclusive locks name, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Whom {
    /// Always the home rank
    Home,
    /// A rank drawn for every lock
    Random,
}

impl StudyArgs {
    /// What the command line says, over what it leaves open.
    pub(crate) fn options(&self) -> rmalab::Result<Options> {
        let mut options = Options::default();
        let given = |names: &[String]| names.iter().any(|name| name == "all");
        if !self.backend.is_empty() && !given(&self.backend) {
            options.backends = self.backend.iter().map(|name| name.parse::<Backend>()).collect::<Result<_, _>>()?;
        }
        if !self.ranks.is_empty() {
            options.ranks.clone_from(&self.ranks);
        }
        if !self.read_fraction.is_empty() {
            options.read_fractions.clone_from(&self.read_fraction);
        }
        options.locks.clone_from(&self.locks);
        options.critical_section = self.critical_section;
        options.think_time = self.think_time;
        options.duration = self.duration;
        options.repetitions = self.repetitions;
        options.seed = self.seed;
        options.ranks_per_node = self.ranks_per_node;
        options.bind = !self.no_bind;
        options.home = self.home;
        options.target = match self.target {
            Whom::Home => Target::Home,
            Whom::Random => Target::Random,
        };
        Ok(options)
    }
}

/// Options of `rmalab launch`.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// How many ranks
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)))]
    pub(crate) n: u32,
    /// How many ranks share a node [default: the machine's NUMA nodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// How many nodes share a rack
    #[arg(long, value_name = "N", default_value_t = 1, requires = "ranks_per_node", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes_per_rack: u32,
    /// Length of every rank's segment in bytes, or with a unit: 64K, 16M, 1G
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) segment: Option<u64>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) program: Vec<std::ffi::OsString>,
}

fn fraction(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("not from 0 to 1".into()) }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error} (durations look like 500ns, 10us, 20ms, 1s)"))
}

/// A duration that is not 0.
fn span(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("nothing can be measured in no time".into()) } else { Ok(duration) }
}

fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let count: u64 = number.parse().map_err(|_| "not a number of bytes, such as 65536, 64K, 16M or 1G".to_owned())?;
    count.checked_mul(unit).filter(|&bytes| bytes > 0).ok_or_else(|| "not a length that a segment can have".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lengths_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64K"), Ok(65536));
        assert_eq!(bytes("1g"), Ok(1 << 30));
        for wrong in ["", "K", "0", "-1", "1T", "99999999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
