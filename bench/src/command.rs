//! The `rmalab` command, for any registry of locks.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use rmalab_atomics::started_as;
use rmalab_job::say;
use rmalab_report::names;
use rmalab_windows::Config;

use crate::cli::{self, Cli, Command, SHORT, STUDY_FOLDER, StudyArgs};
use crate::output::{create_folder, plain, print};
use crate::study::{Outcome, Study};
use crate::{
    Error, Registry, advise_command, calibrate_command, compare_command, interrupt, launch_command, list_command,
    preload_command, report_command, reproduce_command, run_command, simulate_command, verify_command, watch,
};

/// Runs the whole command line with the locks of `registry`, which every sub-command accepts by name.
///
/// Studies and other jobs start the calling program again as each rank. Call this first in `main`.
pub fn main_with(registry: Registry) -> ExitCode {
    crate::BUILD.keep();
    // A rank of a study, of advice, or of another job runs this program, too, without its own command line.
    if let Err(error) =
        crate::study::serve(&registry).and_then(|()| crate::advise::serve(&registry)).and_then(|()| crate::serve())
    {
        return failed(&error);
    }
    let Some(Cli { command }) = parse() else {
        return print(SHORT).map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS);
    };
    if std::env::var_os(Config::RECORD_VARIABLE).is_some() && !command.may_have_windows() {
        say!("note: {} is set, but this command uses no windows: it records nothing", Config::RECORD_VARIABLE);
    }
    let done = match command {
        Command::Study(arguments) => study(&registry, &arguments),
        Command::Verify(arguments) => verify_command::run(&registry, &arguments),
        Command::Simulate(arguments) => simulate_command::run(registry, &arguments),
        Command::Advise(arguments) => advise_command::run(&registry, &arguments),
        Command::Reproduce(arguments) => reproduce_command::run(&arguments),
        Command::Run(arguments) => run_command::run(&arguments),
        Command::Compare(arguments) => compare_command::run(&arguments),
        Command::Calibrate(arguments) => calibrate_command::run(&arguments),
        Command::Report(arguments) => report_command::report(&arguments),
        Command::Diff(arguments) => report_command::compare(&arguments),
        Command::List(arguments) => list_command::run(&registry, &arguments),
        Command::Launch(arguments) => launch_command::run(&arguments),
        Command::Preload(arguments) => preload_command::run(&arguments),
        Command::Man { folder } => man(&folder),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::command(), "rmalab", &mut script);
            print(&String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| failed(&error))
}

/// Parses the command line; `None` if it is empty.
fn parse() -> Option<Cli> {
    if std::env::args_os().len() < 2 {
        // `cargo run` is the main study: cargo sets this variable for the programs that it runs.
        let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
        return by_cargo.then(|| parse_from(["rmalab".into(), "study".into()]).unwrap_or_else(|error| error.exit()));
    }
    match parse_from(std::env::args_os()) {
        Ok(cli) => Some(cli),
        Err(error) => {
            if let Some(line) = renamed(&error).or_else(|| unknown(&error)).or_else(|| no_number(&error)) {
                say!("error: {line}");
                std::process::exit(2);
            }
            // Clap says nothing of a help text that could not be written. A terminal gets it with its colours, by clap.
            if error.exit_code() == 0 && !std::io::stdout().is_terminal() {
                let printed = print(&error.render().to_string()).inspect_err(|error| {
                    failed(error);
                });
                std::process::exit(i32::from(printed.is_err()));
            }
            error.exit()
        }
    }
}

fn parse_from(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&cli::command().try_get_matches_from(words)?)
}

/// Renamed options: the sub-command (empty for all), the old name, and the new one.
const RENAMED: [(&str, &str, &str); 18] = [
    ("", "--json", "--format json, with -o FILE for a file"),
    ("", "--csv", "--format csv, with -o FILE for a file"),
    ("simulate", "--out", "rmalab simulate --report DIR"),
    ("calibrate", "--out", "rmalab calibrate -o FILE"),
    ("study", "--locks", "rmalab study --lock"),
    ("study", "--read-fraction", "rmalab study --writers, the share of exclusive locks: 10% for 0.9"),
    ("simulate", "--locks", "rmalab simulate --lock"),
    ("simulate", "--validate", "rmalab simulate validate"),
    ("simulate", "--scale", "cargo xtask scale, in the repository"),
    ("advise", "--policies", "rmalab advise --lock"),
    ("verify", "--replay", "rmalab verify replay FILE"),
    ("verify", "--list-mutants", "rmalab verify mutants"),
    ("verify", "--kill-matrix", "cargo xtask kill-matrix FILE, in the repository"),
    ("verify", "--table", "rmalab verify --format markdown -o FILE"),
    ("reproduce", "--list", "rmalab list experiments"),
    ("run", "--list", "rmalab list applications"),
    ("run", "--policy", "rmalab run APPLICATION --lock"),
    ("compare", "--list", "rmalab list operations"),
];

/// Returns the hint for a renamed option.
fn renamed(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = option.split('=').next().unwrap_or(option);
    let command = std::env::args().nth(1)?;
    let (.., new) = RENAMED.iter().find(|(of, old, _)| (of.is_empty() || *of == command) && *old == option)?;
    Some(format!("{option} is now: {new}"))
}

/// Returns the error for a command or an application that does not exist, in the form that other names have.
fn unknown(error: &clap::Error) -> Option<String> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    let words: Vec<String> = std::env::args().take_while(|word| word != name).collect();
    let mut of = cli::command();
    let mut thing = "command";
    for word in &words[1..] {
        if let Some(inner) = of.find_subcommand(word) {
            of = inner.clone();
            thing = if word == "run" { "application" } else { "command" };
        }
    }
    let names: Vec<&str> = of.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
    Some(names::unknown(thing, name, names.into_iter().filter(|&name| name != "help")))
}

/// Returns the error for a value that is no whole number: the standard library's says "invalid digit found in string".
fn no_number(error: &clap::Error) -> Option<String> {
    let why = match std::error::Error::source(error)?.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "the number is too large",
        _ => "not a whole number",
    };
    let (Some(ContextValue::String(option)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    Some(format!("invalid value '{}' for '{option}': {why}", plain(value)))
}

/// Prints the error, and returns the exit code.
pub(crate) fn failed(error: &Error) -> ExitCode {
    // All ranks of a job have the same arguments, so one rank reports errors in them.
    let repeats = error.is_usage() && matches!(started_as(), Ok(Some((rank, _))) if rank.0 > 0);
    if !repeats {
        say!("error: {}", plain(&error.to_string()));
    }
    ExitCode::from(error.exit_code())
}

fn study(registry: &Registry, arguments: &StudyArgs) -> crate::Result<ExitCode> {
    let study = Study::new(registry, arguments.options()?)?;
    if !study.receives_results() {
        interrupt::sets(&study.stop_flag())?;
        let outcome = study.run()?;
        return Ok(ended(&outcome));
    }
    // Checks the arguments before the measurement.
    let outlet = arguments.output.prepare(Some(STUDY_FOLDER))?;
    let quiet = arguments.output.quiet;
    let mut watch = watch::Watch::new(&study, quiet);
    interrupt::sets(&study.stop_flag())?;
    let outcome = study.on_progress(|progress| watch.show(progress)).run()?;
    watch.finish();
    if !outcome.run.complete && outcome.cells.is_empty() {
        say!("interrupted before the first measurement: nothing is written, and an older report is unchanged");
        return Ok(ended(&outcome));
    }
    if !quiet && !outcome.run.complete {
        say!("interrupted: {} of {} cells were measured", outcome.cells.len(), outcome.options.cells());
    }
    outlet.write(&outcome.document())?;
    for cell in outcome.violated() {
        let (crate::study::Key { lock, backend, ranks, .. }, violations) = (&cell.key, cell.values.violations);
        say!(
            "error: {lock}: two ranks were inside together in {violations} acquisitions ({backend}, {ranks} ranks): \
             the lock is broken; `rmalab verify --lock {lock}` shows how"
        );
    }
    Ok(ended(&outcome))
}

/// Returns the exit code of a study.
fn ended(outcome: &Outcome) -> ExitCode {
    match outcome.violated().next() {
        Some(_) => ExitCode::FAILURE,
        None if outcome.run.complete => ExitCode::SUCCESS,
        None => ExitCode::from(interrupt::exit_code()),
    }
}

/// Writes a manual page for each command.
fn man(folder: &Path) -> crate::Result<ExitCode> {
    create_folder(folder)?;
    let written = clap_mangen::generate_to(cli::command(), folder);
    written.map(|()| ExitCode::SUCCESS).map_err(|source| Error::File { path: folder.to_owned(), source })
}
