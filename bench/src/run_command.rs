//! `rmalab run`: what it is asked for, and shows.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use rmalab::applications::{self, Chosen, Done};
use rmalab::job::{Place, Ranks};
use rmalab::study::MAX_RANKS;
use rmalab::{Error, Machine, Result, interrupt};

/// What `--help` begins with.
pub(crate) const ABOUT: &str = "\
Run an application on windows, on this machine or on a simulated one, and check what it computes.

Each application compares its result with a sequential computation in every run; a run whose result is wrong ends with what \
differs, and exit code 1. It ends with a table: sizes, times, rates, and how the result was checked.";

/// What `--help` ends with.
pub(crate) const MANUAL: &str = "\
Options of the application follow its name, in any order with those above: `rmalab run NAME --help` has all of them.

Examples:
  rmalab run --list
      All applications.
  rmalab run ghost --bytes 1024 --sync pscw
      A ghost exchange of 1 KiB to each of four neighbours, on as many processes as there are processors.
  rmalab run ghost --sync fence --transport two-sided --repetitions 5
      The same with MPICH-2's deferred fence over messages; told is the run with the median time.
  rmalab run random-access --backend sim --profile aries --ranks 1024
      Random updates on 1,024 simulated ranks.
  rmalab run hash-table --policy mcs-rw-rp --json -
      The data as JSON.

Exit codes:
  0    done, and the result is right
  1    the result is wrong, or the run failed; standard error says what
  2    an argument is wrong, or arguments do not go together
  130  interrupted (Ctrl-C)";

/// The profile of a simulated machine if none is named.
const PROFILE: &str = "fx100";

/// Options of `rmalab run`.
#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Applications", disable_help_subcommand = true)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    application: Option<Chosen>,
    /// List the applications and do nothing else
    #[arg(long)]
    list: bool,
    /// How many ranks [default: one for each processor]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// What ranks are: threads (local), processes (shm), or ranks of a simulated machine (sim)
    #[arg(long, global = true, value_name = "BACKEND", default_value = "shm", value_parser = ["local", "shm", "sim"])]
    backend: String,
    /// The simulated machine: the name of a profile, or a file [default: fx100]
    #[arg(long, global = true, value_name = "NAME|FILE", value_parser = NonEmptyStringValueParser::new())]
    profile: Option<String>,
    /// How many ranks share a simulated node [default: the profile's]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Option<u32>,
    /// How often it is run; what is told is the run with the median time
    #[arg(long, global = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Write the data as JSON, to FILE or (without FILE, or with -) to standard output instead of the table
    #[arg(long, global = true, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,
    /// Say nothing on standard error but errors
    #[arg(long, short, global = true)]
    quiet: bool,
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
                "--ranks {ranks}: there can be {MAX_RANKS} on this machine; simulate more"
            )));
        }
        for (option, given) in
            [("--profile", self.profile.is_some()), ("--ranks-per-node", self.ranks_per_node.is_some())]
        {
            if given && !simulated {
                return Err(Error::usage(format!("{option} is of simulated machines: add --backend sim")));
            }
        }
        Ok(match self.backend.as_str() {
            "local" => Ranks::threads(ranks),
            "shm" => Ranks::processes(ranks),
            _ => {
                let mut world = Ranks::simulated(self.profile.as_deref().unwrap_or(PROFILE), ranks);
                if let Place::Sim(machine) = &mut world.place {
                    machine.ranks_per_node = self.ranks_per_node;
                }
                world
            }
        })
    }
}

/// All applications, a line each.
pub(crate) fn list() -> String {
    let width = applications::ALL.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, title): &(&str, &str)| format!("  {name:width$}  {title}\n");
    format!("Applications:\n{}", applications::ALL.iter().map(line).collect::<String>())
}

/// Runs the sub-command.
pub(crate) fn run(arguments: &RunArgs) -> Result<ExitCode> {
    if arguments.list {
        // A reader that has gone away has seen what it wanted.
        let _ = io::stdout().lock().write_all(list().as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(application) = &arguments.application else {
        let names: Vec<&str> = applications::ALL.iter().map(|(name, _)| *name).collect();
        return Err(Error::usage(format!("which application? There are {}", names.join(", "))));
    };
    let world = arguments.world()?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let bar = watch(arguments, &world);
    let done = application.run(&world, arguments.repetitions, &stop);
    bar.finish_and_clear();
    let done = match done {
        Err(Error::Interrupted) => {
            eprintln!("interrupted");
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
        done => done?,
    };
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    if let Some(path) = &arguments.json {
        write(path, &done)?;
    }
    let text = format!("{}, {world}: {}", done.application, done.table);
    if !to_stdout {
        let _ = io::stdout().lock().write_all(text.as_bytes());
    } else if !arguments.quiet {
        eprint!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows that something is being done, and for how long.
fn watch(arguments: &RunArgs, world: &Ranks) -> ProgressBar {
    let times = match arguments.repetitions {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    let text = format!("{world}{times}");
    if arguments.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed} gone").expect("the template is a constant");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(text);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn write(path: &Path, done: &Done) -> Result<()> {
    let data = serde_json::json!({
        "generator": concat!("rmalab ", env!("CARGO_PKG_VERSION")),
        "command": std::env::args().collect::<Vec<_>>().join(" "),
        "machine": Machine::describe(),
        "done": done,
    });
    let mut text = serde_json::to_string_pretty(&data).expect("numbers and texts are JSON");
    text.push('\n');
    if path == Path::new("-") {
        let _ = io::stdout().lock().write_all(text.as_bytes());
        return Ok(());
    }
    std::fs::write(path, text).map_err(|source| Error::File { path: path.to_owned(), source })
}
