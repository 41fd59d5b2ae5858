//! `rmalab verify`: input, progress and output.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;
use rmalab_verify::kill_matrix::{self, Fate, Row};
use rmalab_verify::{Check, Counterexample, Progress, Violation, diagram, mutants};

use crate::cli::{CheckArgs, VerifyArgs, VerifyMode};
use crate::document::numbers::counted;
use crate::document::{Document, Run, Section};
use crate::finding::{Table, Value};
use crate::list_command::{self, Kind};
use crate::output::{OutputArgs, create_folder, plain, print};
use crate::verify::{self, Checked, Engine, Job, Outcome, failed, section_name};
use crate::{Error, Machine, Registry, Result, interrupt};

/// Runs the sub-command.
pub(crate) fn run(registry: &Registry, arguments: &VerifyArgs) -> Result<ExitCode> {
    match &arguments.mode {
        Some(VerifyMode::Replay { file, svg }) => play_again(registry, file, svg.as_deref(), &arguments.check.output),
        Some(VerifyMode::Mutants) => list_command::print_kind(registry, Kind::Mutants, &arguments.check.output),
        None => check(registry, &arguments.check),
    }
}

/// Runs the explorer on every mutant, and writes the broken properties as a Markdown page to `path`.
pub(crate) fn kill_matrix(path: &Path, quiet: bool) -> Result<ExitCode> {
    writable(path)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let watch = Watch::new(mutants().map(|mutant| mutant.locks.len()).sum(), quiet);
    let (done, last) = (AtomicUsize::new(0), Mutex::new("the first mutant".to_owned()));
    let note = |extra: &str| {
        let last = last.lock().expect("no thread panics while it holds the lock");
        watch.note(done.load(Ordering::Relaxed), || format!("{last}{extra}"));
    };
    note("");
    let rows = kill_matrix::rows(
        mutants(),
        &kill_matrix::options(),
        &|progress| {
            note(&format!("; the next one: {} states", progress.states.max(progress.executions)));
            !stop.load(Ordering::Relaxed)
        },
        |row| {
            done.fetch_add(1, Ordering::Relaxed);
            *last.lock().expect("no thread panics while it holds the lock") =
                format!("{} on {} is done", row.mutant.name, row.lock);
            note("");
        },
    );
    watch.finish();
    if stop.load(Ordering::Relaxed) {
        say!("interrupted: no page was written");
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    let rows = rows.map_err(failed)?;
    write(path, &kill_matrix::document(&rows))?;
    let killed = rows.iter().filter(|row| matches!(row.fate, Fate::Killed { .. })).count();
    print(&format!("{killed} killed, {} survive: {}\n", rows.len() - killed, path.display()))?;
    let mut code = ExitCode::SUCCESS;
    for row in rows.iter().filter(|row| row.is_unexpected()) {
        let Row { mutant, lock, fate } = row;
        let what =
            if matches!(fate, Fate::Killed { .. }) { "dies, though it is called equivalent" } else { "survives" };
        say!("error: the mutant {} of {lock} {what}", mutant.name);
        code = ExitCode::FAILURE;
    }
    Ok(code)
}

fn check(registry: &Registry, arguments: &CheckArgs) -> Result<ExitCode> {
    // Checks all arguments before the search.
    let mut jobs = arguments.selection()?.jobs(registry, &arguments.options())?;
    let at_once = arguments.jobs.map_or_else(|| default_jobs(&jobs), usize::from);
    if arguments.threads.is_none() && at_once > 1 && jobs.len() >= MANY * at_once {
        jobs.iter_mut().for_each(|job| job.options.threads = 1);
    }
    let jobs = jobs;
    let mut save = arguments.save.as_deref().map(Save::prepare).transpose()?;
    arguments.svg.as_deref().map(writable).transpose()?;
    let outlet = arguments.output.prepare(None)?;

    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let mut run = Run::begin();
    let start = Instant::now();
    if !arguments.output.quiet {
        let locks: HashSet<&str> = jobs.iter().map(|job| job.check.subject.name()).collect();
        say!("verify: {} of {}", counted(jobs.len() as u64, "check"), counted(locks.len() as u64, "lock"));
        if let Some(note) = verify::without_end(&jobs) {
            say!("{note}");
        }
    }
    let watch = Watch::new(jobs.len(), arguments.output.quiet);
    let mut checks = Vec::with_capacity(jobs.len());
    let (mut findings, mut drawn) = (Vec::new(), HashSet::new());
    let mut svg = arguments.svg.as_deref();
    // A counterexample that cannot be written must not lose the results of the search.
    let mut unwritten = None;
    in_turn(&jobs, at_once, &watch, &stop, |job, checked| {
        if let Some(counterexample) = checked.counterexample() {
            let saved = save.as_mut().map_or(Ok(None), |save| save.keep(&checked, counterexample));
            let saved = saved.unwrap_or_else(|error| {
                unwritten.get_or_insert(error);
                None
            });
            if let Some(path) = svg.take()
                && let Err(error) = write(path, &diagram::svg(&job.check, counterexample).map_err(failed)?)
            {
                unwritten.get_or_insert(error);
            }
            // Most checks of a lock break in the same way: one picture shows it.
            let seen = !drawn.insert(job.check.subject.name().to_owned());
            findings.push(finding(&run, job, counterexample, saved.as_deref(), seen)?);
        }
        checks.push(checked);
        Ok(())
    })?;
    watch.finish();

    let complete = checks.len() == jobs.len() && !stop.load(Ordering::Relaxed);
    run.complete = complete;
    let outcome = Outcome::new(run, start.elapsed(), checks);
    let mut document = if arguments.by_size { outcome.by_size() } else { outcome.document() };
    if !findings.is_empty() {
        let mut section = Section::new("counterexamples", "Counterexamples");
        section.listings = findings;
        document.sections.insert(0, section);
    }
    outlet.write(&document)?;
    if let Some(error) = unwritten {
        return Err(error);
    }
    if !complete {
        let ended = outcome.checks.iter().filter(|checked| !checked.is_interrupted()).count();
        say!("interrupted: {ended} of {} ended", counted(jobs.len() as u64, "check"));
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    Ok(match () {
        () if outcome.is_broken() => ExitCode::FAILURE,
        () if outcome.is_incomplete() => ExitCode::from(INCOMPLETE),
        () => ExitCode::SUCCESS,
    })
}

/// The exit code when no property is broken, but a limit ended a search.
const INCOMPLETE: u8 = 3;

/// The least number of checks, for each one at a time, with which each search has one thread. Other searches use the other processors
/// then, and no number of states depends on the order in which threads learn.
const MANY: usize = 8;

/// The number of checks at the same time, unless an option gives it. Much of a check runs on one thread, which learns the
/// behaviour of the lock's code.
fn default_jobs(jobs: &[Job]) -> usize {
    // Loom and shuttle take over state of the process that simultaneous checks cannot share.
    let all_by_explorer = jobs.iter().all(|job| job.engine == Engine::Explorer);
    if all_by_explorer { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 }
}

/// Makes checks, several at a time, and gives their results to `take` in the order of `jobs`, each as early as that allows.
/// It ends early when `stop` is set, or at the first error of `take`.
fn in_turn(
    jobs: &[Job],
    at_once: usize,
    watch: &Watch,
    stop: &AtomicBool,
    mut take: impl FnMut(&Job, Checked) -> Result<()>,
) -> Result<()> {
    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let has_failed = AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed) && !has_failed.load(Ordering::Relaxed);
    let (sender, results) = mpsc::channel();
    let work = |sender: Sender<(usize, Checked)>| {
        while goes_on() {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { break };
            watch.begin(ended.load(Ordering::Relaxed), job);
            let checked = job.run(&|progress| {
                watch.show(ended.load(Ordering::Relaxed), job, progress);
                goes_on()
            });
            ended.fetch_add(1, Ordering::Relaxed);
            if checked.counterexample().is_some() {
                watch.say(&format!("{job}: {}", checked.verdict));
            }
            if sender.send((number, checked)).is_err() {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..at_once.clamp(1, jobs.len().max(1)) {
            let (of_thread, work) = (sender.clone(), &work);
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || work(of_thread));
            // If the system refuses all threads, this one does the work.
            if spawned.is_err() && thread == 0 {
                work(sender.clone());
            }
        }
        drop(sender);
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        for (number, checked) in results {
            waiting.insert(number, checked);
            while let Some(checked) = waiting.remove(&next) {
                take(&jobs[next], checked).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
                next += 1;
            }
        }
        Ok(())
    })
}

/// Reports a broken property: the steps that break it, or only their number if the lock's steps were `seen`, and the command that
/// repeats them.
fn finding(run: &Run, job: &Job, counterexample: &Counterexample, saved: Option<&Path>, seen: bool) -> Result<String> {
    let program = run.command.split(' ').next().unwrap_or("rmalab");
    let saved = saved.map(|path| format!("again: {program} verify replay {}", path.display()));
    if seen {
        let steps = counted(counterexample.schedule.len() as u64, "step");
        let again = saved.map_or(String::new(), |again| format!("; {again}"));
        return Ok(format!("{job}: {} after {steps}{again}\n", counterexample.violation.property));
    }
    let again = saved.unwrap_or_else(|| format!("not saved; --save DIR saves it for `{program} verify replay`"));
    Ok(format!("{}\n{again}\n", diagram::text(&job.check, counterexample).map_err(failed)?))
}

/// Repeats the steps of the counterexample in the file at `path`.
fn play_again(registry: &Registry, path: &Path, svg: Option<&Path>, output: &OutputArgs) -> Result<ExitCode> {
    let run = Run::begin();
    let counterexample = Counterexample::load(path).map_err(failed)?;
    let check = verify::check_of(registry, &counterexample)?;
    let violation = verify::again(&check, &counterexample).map_err(failed)?;
    let document = replayed(run, &check, &counterexample, violation.as_ref())?;
    svg.map(writable).transpose()?;
    let outlet = output.prepare(None)?;
    if let Some(svg) = svg {
        write(svg, &diagram::svg(&check, &counterexample).map_err(failed)?)?;
    }
    outlet.write(&document)?;
    Ok(if violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The document of a replay: the diagram, and the property that the steps still break.
fn replayed(run: Run, check: &Check, of: &Counterexample, broken: Option<&Violation>) -> Result<Document> {
    let lock = check.subject.name();
    let mut document =
        Document::new("replay", format!("Replay of a counterexample to {lock}"), run, Machine::describe());
    // The file is not trusted: its texts must not control a terminal.
    let mut section = Section::new("counterexample", "Counterexample");
    section.listings.push(plain(&diagram::text(check, of).map_err(failed)?));
    document.sections.push(section);
    document.summary.push(match broken {
        Some(violation) => plain(&format!("still broken: {violation}")),
        None => format!("no longer broken: the {} steps break nothing", of.schedule.len()),
    });
    let columns = ["lock", "mutant", "network", "scenario", "section", "home", "steps", "property", "verdict"];
    let mut table = Table::new("Replay", columns).keyed(6);
    table.row([
        lock.into(),
        check.mutant.map_or(Value::None, |mutant| mutant.name.into()),
        check.network.to_string().into(),
        check.scenario.to_string().into(),
        section_name(check.section).into(),
        Value::Count(check.home().0.into()),
        Value::Count(of.schedule.len() as u64),
        broken.map_or(of.violation.property, |violation| violation.property).to_string().into(),
        if broken.is_some() { "still broken" } else { "no longer broken" }.into(),
    ]);
    document.data = Some(table);
    Ok(document)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let is_new = !path.exists();
    std::fs::write(path, text).map_err(|source| {
        discard(path, is_new);
        Error::File { path: path.into(), source }
    })
}

/// Removes a new file that is incomplete. If this fails, the error of the write has its name.
fn discard(path: &Path, is_new: bool) {
    if is_new {
        let _ = std::fs::remove_file(path);
    }
}

/// Destination of counterexamples.
enum Save {
    /// Each goes to its own file in this folder; the set has the names in use.
    Folder(PathBuf, HashSet<String>),
    /// The first one goes to this file; none after that.
    File(Option<PathBuf>),
}

impl Save {
    /// Checks the destination.
    fn prepare(path: &Path) -> Result<Save> {
        if path.extension().is_some_and(|extension| extension == "json") {
            writable(path)?;
            return Ok(Save::File(Some(path.to_owned())));
        }
        create_folder(path)?;
        Ok(Save::Folder(path.to_owned(), HashSet::new()))
    }

    /// Writes a counterexample if there is a file for it, and returns the path.
    fn keep(&mut self, checked: &Checked, counterexample: &Counterexample) -> Result<Option<PathBuf>> {
        let path = match self {
            Save::Folder(folder, taken) => {
                let name = file_name(checked, counterexample);
                let numbered = (2..).map(|number| format!("{name}-{number}"));
                let free = std::iter::once(name.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
                folder.join(format!("{}.json", free.expect("there are enough numbers")))
            }
            Save::File(path) => match path.take() {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        let is_new = !path.exists();
        counterexample.save(&path).inspect_err(|_| discard(&path, is_new)).map_err(|error| match error {
            rmalab_verify::Error::File { path, source } => Error::File { path, source },
            other => failed(other),
        })?;
        Ok(Some(path))
    }
}

/// Returns the file name of a check: words and numbers, joined by dashes.
fn file_name(checked: &Checked, counterexample: &Counterexample) -> String {
    let mut title = checked.title();
    if checked.engine != Engine::Explorer {
        title += &format!(" {}", checked.engine.name());
    }
    if let Some(order) = checked.order {
        title += &format!(" order {order}");
    }
    if let Some(home) = counterexample.home {
        title += &format!(" home {}", home.0);
    }
    let words = title.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Refuses a file that cannot be written, as far as a check without a write can find out.
fn writable(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(Error::usage(format!("{} is a folder, and cannot be written as a file", path.display())));
    }
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)
        .map_err(|error| Error::usage(format!("{} cannot be written: {error}", path.display())))
}

/// Time between two lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows the progress of the checks: a bar on a terminal, otherwise a line now and then, nothing if quiet.
enum Watch {
    Quiet,
    Bar(ProgressBar),
    Lines { of: usize, last: Mutex<Option<Instant>> },
}

impl Watch {
    fn new(of: usize, quiet: bool) -> Watch {
        if quiet {
            return Watch::Quiet;
        }
        if !io::stderr().is_terminal() {
            return Watch::Lines { of, last: Mutex::new(None) };
        }
        let bar = ProgressBar::new(of as u64);
        let style = "{bar:20} {pos}/{len}  {elapsed}  {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
        bar.enable_steady_tick(Duration::from_millis(250));
        Watch::Bar(bar)
    }

    /// Reports the start of the first check, and of long ones.
    fn begin(&self, number: usize, job: &Job) {
        self.note(number, || job.to_string());
    }

    fn show(&self, number: usize, job: &Job, progress: &Progress) {
        self.note(number, || {
            let seconds = progress.elapsed.as_secs_f64().max(1e-9);
            if job.engine != Engine::Explorer {
                let executions = progress.executions;
                return format!("{job}: {executions} executions, {:.0}/s", executions as f64 / seconds);
            }
            format!(
                "{job}: {} states, {:.0}/s, {} MiB, depth {}, {} to go",
                progress.states,
                progress.states as f64 / seconds,
                progress.bytes >> 20,
                progress.depth,
                progress.frontier
            )
        });
    }

    fn note(&self, number: usize, message: impl FnOnce() -> String) {
        match self {
            Watch::Quiet => (),
            Watch::Bar(bar) => {
                bar.set_position(number as u64);
                bar.set_message(message());
            }
            Watch::Lines { of, last } => {
                let mut last = last.lock().expect("no thread panics while it holds the lock");
                if last.is_none_or(|last| last.elapsed() >= LINES) {
                    *last = Some(Instant::now());
                    say!("{}/{of}: {}", number + 1, message());
                }
            }
        }
    }

    /// Prints a message at once.
    fn say(&self, line: &str) {
        match self {
            Watch::Quiet => (),
            Watch::Bar(bar) => bar.println(line),
            Watch::Lines { .. } => say!("{line}"),
        }
    }

    fn finish(&self) {
        if let Watch::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
