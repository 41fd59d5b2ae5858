//! The `rmalab` command.
#![forbid(unsafe_code)]

mod advise_command;
mod calibrate_command;
mod cli;
mod compare_command;
mod launch_command;
mod quantities;
mod reproduce_command;
mod run_command;
mod simulate_command;
mod verify_command;
mod watch;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command, StudyArgs};
use rmalab::report::{self, Report};
use rmalab::study::{Backend, Outcome, Study};
use rmalab::{Error, Registry, interrupt};
use rmalab_atomics::started_as;

fn main() -> ExitCode {
    rmalab::BUILD.keep();
    let registry = Registry::standard();
    // A rank of a study, of advice, or of another job is this program again, and has no command line of its own.
    if let Err(error) =
        rmalab::study::serve(&registry).and_then(|()| rmalab::advise::serve()).and_then(|()| rmalab::serve())
    {
        return failed(&error);
    }
    let done = match Cli::parse().command.unwrap_or_else(main_study) {
        Command::Study(arguments) => study(&registry, &arguments),
        Command::Verify(arguments) => verify_command::run(&arguments),
        Command::Simulate(arguments) => simulate_command::run(registry, &arguments),
        Command::Advise(arguments) => advise_command::run(&arguments),
        Command::Reproduce(arguments) => reproduce_command::run(&arguments),
        Command::Run(arguments) => run_command::run(&arguments),
        Command::Compare(arguments) => compare_command::run(&arguments),
        Command::Calibrate(arguments) => calibrate_command::run(&arguments),
        Command::List => list(&registry),
        Command::Launch(arguments) => launch_command::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "rmalab", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
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
        eprintln!("error: {error}");
    }
    ExitCode::from(if error.is_usage() { 2 } else { 1 })
}

fn study(registry: &Registry, arguments: &StudyArgs) -> rmalab::Result<ExitCode> {
    let study = Study::new(registry, arguments.options()?)?;
    if !study.learns() {
        interrupt::sets(&study.stop_flag())?;
        let outcome = study.run()?;
        return Ok(if outcome.complete { ExitCode::SUCCESS } else { ExitCode::from(interrupt::EXIT_CODE) });
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
    let table = rmalab::table(&outcome);
    if !to_stdout {
        // A reader that has gone away has seen what it wanted.
        let _ = write!(io::stdout().lock(), "{table}");
    } else if !arguments.quiet {
        eprint!("{table}");
    }
    let folder = report.write(&outcome)?;
    if !arguments.quiet {
        if !outcome.complete {
            eprintln!("interrupted: {} of {} cells were measured", outcome.cells.len(), outcome.options.cells());
        }
        eprintln!("report: {}", folder.join("index.html").display());
    }
    Ok(if outcome.complete { ExitCode::SUCCESS } else { ExitCode::from(interrupt::EXIT_CODE) })
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
    fn open(path: &'a Path, format: Format) -> rmalab::Result<Output<'a>> {
        let to: Box<dyn Write> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            let file = File::create(path)
                .map_err(|error| Error::usage(format!("{} cannot be written: {error}", path.display())))?;
            Box::new(BufWriter::new(file))
        };
        Ok(Output { path, format, to })
    }

    fn write(mut self, outcome: &Outcome) -> rmalab::Result<()> {
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

fn list(registry: &Registry) -> rmalab::Result<ExitCode> {
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
    let _ = io::stdout().lock().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}
