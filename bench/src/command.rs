//! The `rmalab` command, for any registry of locks.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use rmalab_atomics::started_as;
use rmalab_job::say;
use rmalab_windows::Config;

use crate::cli::{Cli, Command, StudyArgs};
use crate::output::{plain, print};
use crate::report::{self, Report};
use crate::study::{Backend, Outcome, Study};
use crate::{
    Error, Registry, advise_command, calibrate_command, compare_command, interrupt, launch_command, reproduce_command,
    run_command, simulate_command, verify_command, watch,
};

/// Runs the whole command line with the locks of `registry`: every sub-command knows them by their names.
///
/// A program that calls this is started again as each rank of a study and of other jobs. Call it first in `main`.
pub fn main_with(registry: Registry) -> ExitCode {
    crate::BUILD.keep();
    // A rank of a study, of advice, or of another job is this program again, and has no command line of its own.
    if let Err(error) =
        crate::study::serve(&registry).and_then(|()| crate::advise::serve(&registry)).and_then(|()| crate::serve())
    {
        return failed(&error);
    }
    let command = Cli::parse().command.unwrap_or_else(main_study);
    if std::env::var_os(Config::RECORD_VARIABLE).is_some() && !command.may_have_windows() {
        say!("note: {} is set, and this command has no window: nothing is recorded", Config::RECORD_VARIABLE);
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
        Command::List => list(&registry),
        Command::Launch(arguments) => launch_command::run(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "rmalab", &mut script);
            print(&String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| failed(&error))
}

/// What no argument means: a study with every option at its default.
fn main_study() -> Command {
    Cli::parse_from(["rmalab", "study"]).command.expect("the sub-command was just given")
}

fn failed(error: &Error) -> ExitCode {
    // All ranks of a job have the same arguments, and one of them says what is wrong with those.
    let repeats = error.is_usage() && matches!(started_as(), Ok(Some((rank, _))) if rank.0 > 0);
    if !repeats {
        say!("error: {}", plain(&error.to_string()));
    }
    ExitCode::from(if error.is_usage() { 2 } else { 1 })
}

fn study(registry: &Registry, arguments: &StudyArgs) -> crate::Result<ExitCode> {
    let study = Study::new(registry, arguments.options()?)?;
    if !study.learns() {
        interrupt::sets(&study.stop_flag())?;
        let outcome = study.run()?;
        return Ok(ended(&outcome));
    }
    let outputs = [(&arguments.json, Format::Json), (&arguments.csv, Format::Csv)];
    let outputs: Vec<(&Path, Format)> =
        outputs.into_iter().filter_map(|(path, format)| Some((path.as_deref()?, format))).collect();
    if outputs.iter().filter(|(path, _)| *path == Path::new("-")).count() > 1 {
        return Err(Error::usage("--json and --csv cannot both go to standard output"));
    }
    // Everything that can be refused is refused before anything is measured.
    let report = Report::prepare(&arguments.report)?;
    let outputs =
        outputs.into_iter().map(|(path, format)| Output::open(path, format)).collect::<Result<Vec<_>, _>>()?;

    let watch = watch::Watch::new(&study, arguments.quiet);
    interrupt::sets(&study.stop_flag())?;
    let outcome = study.on_progress(|progress| watch.show(progress)).run()?;
    watch.finish();

    let to_stdout = outputs.iter().any(|output| output.path == Path::new("-"));
    for output in outputs {
        output.write(&outcome)?;
    }
    let table = crate::table(&outcome);
    if !to_stdout {
        print(&table)?;
    } else if !arguments.quiet {
        say!("{}", table.trim_end());
    }
    if !outcome.complete && outcome.cells.is_empty() {
        say!("interrupted before anything was measured: the report stays as it was");
        return Ok(ended(&outcome));
    }
    let folder = report.write(&outcome)?;
    if !arguments.quiet {
        if !outcome.complete {
            say!("interrupted: {} of {} cells were measured", outcome.cells.len(), outcome.options.cells());
        }
        say!("report: {}", folder.join("index.html").display());
    }
    for cell in outcome.violated() {
        let (crate::study::Key { lock, backend, ranks, .. }, violations) = (&cell.key, cell.values.violations);
        say!(
            "error: {lock}: two ranks were inside together in {violations} acquisitions ({backend}, {ranks} ranks): the lock is \
             broken; `rmalab verify --lock {lock}` shows how"
        );
    }
    Ok(ended(&outcome))
}

/// The exit code of a study.
fn ended(outcome: &Outcome) -> ExitCode {
    match outcome.violated().next() {
        Some(_) => ExitCode::FAILURE,
        None if outcome.complete => ExitCode::SUCCESS,
        None => ExitCode::from(interrupt::exit_code()),
    }
}

/// What data can be written as.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Csv,
}

/// A file, or standard output, that data go to.
struct Output<'a> {
    path: &'a Path,
    format: Format,
    to: Box<dyn Write>,
}

impl<'a> Output<'a> {
    fn open(path: &'a Path, format: Format) -> crate::Result<Output<'a>> {
        let to: Box<dyn Write> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            let file = File::create(path)
                .map_err(|error| Error::usage(format!("{} cannot be written: {error}", path.display())))?;
            Box::new(BufWriter::new(file))
        };
        Ok(Output { path, format, to })
    }

    fn write(mut self, outcome: &Outcome) -> crate::Result<()> {
        let written = match self.format {
            Format::Json => report::json(outcome, &mut self.to),
            Format::Csv => report::csv(outcome, &mut self.to),
        };
        match written.and_then(|()| self.to.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.path == Path::new("-") => Ok(()),
            Err(source) => Err(Error::File { path: self.path.to_owned(), source }),
            Ok(()) => Ok(()),
        }
    }
}

fn list(registry: &Registry) -> crate::Result<ExitCode> {
    let mut text = String::from("Locks and policies:\n");
    let width = registry.subjects().map(|subject| subject.info().name.len()).max().unwrap_or(0);
    for subject in registry.subjects() {
        let info = subject.info();
        text += &format!("  {:width$}  {}\n", info.name, info.description);
        text += &format!("  {:width$}  fairness: {}\n", "", info.fairness);
        text += &format!("  {:width$}  paper: {}\n", "", info.paper);
    }
    text += "\nBackends:\n";
    for backend in Backend::ALL {
        text += &format!("  {:width$}  {}", backend.name(), backend.description());
        if !backend.is_built() {
            text += &format!(" (not in this program: build it with --features {backend})");
        }
        text.push('\n');
    }
    text += &run_command::list();
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
