//! Finds, builds and runs other implementations, and reads their output.
//!
//! Each is a small program of ours (`bench/papers/peers`), built by the peer's own compiler wrapper. It prints its
//! measurements line by line. A crash or a hang costs one operation: the program is started again for the rest.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use rmalab_job::{Error, Result};

/// Our programs for MPIs and for Concurrency Kit.
const MPI_PROGRAM: &str = include_str!("../../peers/mpi.c");
const CK_PROGRAM: &str = include_str!("../../peers/ck.c");

/// Arguments of the compilers.
const FLAGS: [&str; 2] = ["-O3", "-march=native"];

/// The longest silence of a peer.
pub(super) const SILENCE: Duration = Duration::from_secs(90);

/// The time of a peer to end after a request.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The result of an operation, of a peer or of ours.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Took {
    /// Nanoseconds.
    Time(f64),
    /// No result, since it crashed, hung or was wrong, with the reason.
    Failed(String),
}

/// An implementation on this machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its version, as it reports it.
    pub version: String,
    /// The command that built its program.
    pub built: String,
    /// The command that starts its program, without the number of ranks and the program.
    pub launched: String,
    /// The library of rmalab that its program preloads, if there is one.
    pub preloads: Option<PathBuf>,
    #[serde(skip)]
    program: PathBuf,
    #[serde(skip)]
    launcher: Vec<String>,
}

/// The implementations found, and a sentence for each missing one.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) peers: Vec<Peer>,
    pub(super) skipped: Vec<String>,
}

/// A library of rmalab that programs of an MPI preload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preload {
    /// Its file.
    pub library: PathBuf,
    /// The file name of the MPI's library that it is for, such as `libmpi.so.40`.
    pub mpi: String,
}

/// An MPI.
struct Mpi {
    name: &'static str,
    /// The suffix of its commands' names where several MPIs are installed.
    suffix: &'static str,
    /// Debian's packages.
    packages: &'static str,
    /// Its launcher's version contains one of these.
    says: [&'static str; 2],
    /// Arguments of the launcher.
    launch: &'static [&'static str],
    /// Names, and additional arguments: each is a separate peer.
    variants: &'static [(&'static str, &'static [&'static str])],
    /// Additional arguments where a library of rmalab is preloaded.
    preloaded: &'static [&'static str],
}

const MPIS: [Mpi; 2] = [
    Mpi {
        name: "MPICH",
        suffix: "mpich",
        packages: "mpich libmpich-dev",
        says: ["HYDRA", "MPICH"],
        launch: &[],
        variants: &[("MPICH", &[])],
        preloaded: &[],
    },
    Mpi {
        name: "Open MPI",
        suffix: "openmpi",
        packages: "openmpi-bin libopenmpi-dev",
        says: ["Open MPI", "OpenRTE"],
        // Otherwise the launcher refuses root, and more ranks than cores. The program binds its ranks as we do.
        launch: &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
        variants: &[("Open MPI", &[]), ("Open MPI osc/sm", &["--mca", "osc", "sm"])],
        preloaded: &[],
    },
];

/// A program with that name in one of the folders of `path`.
fn which(path: &OsStr, name: &str) -> Option<PathBuf> {
    let runs =
        |at: &PathBuf| fs::metadata(at).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).map(|folder| folder.join(name)).find(runs)
}

impl Mpi {
    /// The compiler and the launcher; or the reason why one is missing.
    fn tools(&self, path: &OsStr) -> Result<(PathBuf, PathBuf), String> {
        let find = |end: &str| {
            let cc = which(path, &format!("mpicc{end}"));
            let launcher = ["mpiexec", "mpirun"].iter().find_map(|name| which(path, &format!("{name}{end}")));
            (cc, launcher)
        };
        let suffix = format!(".{}", self.suffix);
        let own = find(&suffix);
        if let (Some(cc), Some(launcher)) = own {
            return Ok((cc, launcher));
        }
        if let (Some(cc), Some(launcher)) = find("")
            && let Ok(output) = Command::new(&launcher).arg("--version").stdin(Stdio::null()).output()
        {
            let said = String::from_utf8_lossy(&output.stdout);
            if self.says.iter().any(|name| said.contains(name)) {
                return Ok((cc, launcher));
            }
        }
        let missing = if own.0.is_none() { "mpicc" } else { "mpiexec" };
        Err(format!("there is no {missing}{suffix}, and no mpicc and mpiexec of this MPI"))
    }

    fn find(
        &self,
        path: &OsStr,
        folder: &Path,
        preloads: &[Preload],
        found: &mut Found,
        stop: &AtomicBool,
    ) -> Result<()> {
        let skip =
            |name: &str, why: String| format!("{name} is skipped: {why} (Debian: apt-get install {})", self.packages);
        let (cc, launcher) = match self.tools(path) {
            Ok(tools) => tools,
            Err(why) => {
                found.skipped.push(skip(self.name, why));
                return Ok(());
            }
        };
        let program = folder.join(format!("mpi-{}", self.suffix));
        let built = match build(&cc, MPI_PROGRAM, &program, &[]) {
            Ok(built) => built,
            Err(why) => {
                found.skipped.push(skip(self.name, why));
                return Ok(());
            }
        };
        let preload = preloads.iter().find(|preload| loads(&program, &preload.mpi));
        if preload.is_none() {
            found.skipped.push(format!(
                "{} preloaded is skipped: there is no librmalab_mpi.so for it (MPICC={} cargo build --profile measure -p rmalab-mpi \
                 --features mpi --target-dir target/{})",
                self.name,
                cc.display(),
                self.suffix
            ));
        }
        let preloaded = format!("{} preloaded", self.name);
        let hosts = self.variants.iter().map(|&(name, more)| (name, more, None));
        let all = hosts.chain(preload.map(|preload| (preloaded.as_str(), self.preloaded, Some(&preload.library))));
        for (name, more, library) in all {
            let launcher: Vec<String> = [launcher.to_string_lossy().into_owned()]
                .into_iter()
                .chain(self.launch.iter().chain(more).map(|&argument| argument.to_owned()))
                .collect();
            let with = library.map_or(String::new(), |library| preloading(library));
            let mut peer = Peer {
                name: name.to_owned(),
                version: String::new(),
                built: built.clone(),
                launched: format!("{}{with}", launcher.join(" ")),
                preloads: library.cloned(),
                program: program.clone(),
                launcher,
            };
            let heard = listen(peer.mpi(2, 0.0, &[]), SILENCE, stop)?;
            match heard.version {
                Some(version) if heard.done => {
                    peer.version = version;
                    found.peers.push(peer);
                }
                _ => found.skipped.push(skip(name, format!("its program does not run: {}", heard.ending))),
            }
        }
        Ok(())
    }
}

/// The text by which a page says that a program preloads `library`. Readers are elsewhere, so it names no folder of
/// this machine.
fn preloading(library: &Path) -> String {
    format!(", with LD_PRELOAD={}", library.file_name().unwrap_or_default().display())
}

/// Returns whether a program loads the library with that file name, by the system's `ldd`.
fn loads(program: &Path, library: &str) -> bool {
    let listed = Command::new("ldd").arg(program).stdin(Stdio::null()).output();
    listed.is_ok_and(|listed| {
        let listed = String::from_utf8_lossy(&listed.stdout);
        listed.lines().any(|line| line.split_whitespace().next() == Some(library))
    })
}

/// The MPIs in the folders of `path`, each with its library among `preloads`, too; builds their programs in `folder`.
pub(super) fn mpis(path: &OsStr, folder: &Path, preloads: &[Preload], stop: &AtomicBool) -> Result<Found> {
    let mut found = Found::default();
    for mpi in &MPIS {
        mpi.find(path, folder, preloads, &mut found, stop)?;
    }
    // The hosts come first, as columns.
    found.peers.sort_by_key(|peer| peer.preloads.is_some());
    Ok(found)
}

/// Concurrency Kit and the C library's locks, if installed.
pub(super) fn concurrency_kit(path: &OsStr, folder: &Path, stop: &AtomicBool) -> Result<Found> {
    let mut found = Found::default();
    let skip = |why: String| {
        format!("Concurrency Kit and pthread are skipped: {why} (Debian: apt-get install gcc libc6-dev libck-dev)")
    };
    let Some(cc) = which(path, "cc") else {
        found.skipped.push(skip("there is no C compiler called cc".into()));
        return Ok(found);
    };
    let program = folder.join("ck");
    match build(&cc, CK_PROGRAM, &program, &["-lck", "-lpthread"]) {
        Err(why) => found.skipped.push(skip(why)),
        Ok(built) => {
            let mut peer = Peer {
                name: "Concurrency Kit, pthread".into(),
                version: String::new(),
                built,
                launched: String::new(),
                preloads: None,
                program,
                launcher: Vec::new(),
            };
            let heard = listen(peer.locks(1, 0, 0.0, &[]), SILENCE, stop)?;
            match heard.version {
                Some(version) if heard.done => {
                    peer.version = version;
                    found.peers.push(peer);
                }
                _ => found.skipped.push(skip(format!("its program does not run: {}", heard.ending))),
            }
        }
    }
    Ok(found)
}

/// Builds a program; returns the command, or the reason of a failure.
fn build(cc: &Path, source: &str, program: &Path, libraries: &[&str]) -> Result<String, String> {
    let file = program.with_extension("c");
    fs::write(&file, source).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let mut command = Command::new(cc);
    command.args(FLAGS).arg("-o").arg(program).arg(&file).args(libraries).stdin(Stdio::null());
    let Output { status, stderr, .. } =
        command.output().map_err(|error| format!("{} does not start: {error}", cc.display()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        let line =
            said.lines().find(|line| line.contains("error")).or(said.lines().next()).unwrap_or("it prints nothing");
        return Err(format!("{} cannot build its program: {line}", cc.display()));
    }
    let libraries = libraries.iter().map(|library| format!(" {library}")).collect::<String>();
    Ok(format!("{} {}{libraries}", cc.display(), FLAGS.join(" ")))
}

impl Peer {
    /// A missing library.
    #[cfg(test)]
    pub(super) fn named(name: &str) -> Peer {
        let nothing = String::new;
        let (program, launcher) = (PathBuf::new(), Vec::new());
        let preloads = name.ends_with("preloaded").then(PathBuf::new);
        Peer {
            name: name.into(),
            version: nothing(),
            built: nothing(),
            launched: nothing(),
            preloads,
            program,
            launcher,
        }
    }

    /// The command that measures operations of an MPI.
    fn mpi(&self, ranks: u32, budget: f64, operations: &[String]) -> Command {
        let mut command = Command::new(&self.launcher[0]);
        command.args(&self.launcher[1..]).args(["-n", &ranks.to_string()]);
        if let Some(library) = &self.preloads {
            // The launcher does without it.
            let mut preload = OsString::from("LD_PRELOAD=");
            preload.push(library);
            command.arg("env").arg(preload);
        }
        command.arg(&self.program).arg(budget.to_string()).args(operations);
        command
    }

    /// The command that measures locks.
    fn locks(&self, threads: u32, writers: u32, budget: f64, locks: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args([budget.to_string(), threads.to_string(), writers.to_string()]).args(locks);
        command
    }

    /// Times of an MPI's operations, in order.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`]; errors of the peer are in the result.
    pub(super) fn measure_operations(
        &self,
        ranks: u32,
        budget: f64,
        operations: &[String],
        stop: &AtomicBool,
    ) -> Result<Vec<Took>> {
        each(|names| self.mpi(ranks, budget, names), operations, SILENCE, stop)
    }

    /// Times of locks, in order; `writers` in percent.
    ///
    /// # Errors
    ///
    /// Errors of [`measure_operations`](Self::measure_operations).
    pub(super) fn measure_locks(
        &self,
        threads: u32,
        writers: u32,
        budget: f64,
        locks: &[String],
        stop: &AtomicBool,
    ) -> Result<Vec<Took>> {
        each(|names| self.locks(threads, writers, budget, names), locks, SILENCE, stop)
    }
}

/// Times of each of `names`. If the program ends, or is silent for too long, it is started again for the rest.
fn each(
    command: impl Fn(&[String]) -> Command,
    names: &[String],
    silence: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Took>> {
    let mut took: Vec<Took> = Vec::new();
    while took.len() < names.len() {
        let left = &names[took.len()..];
        let heard = listen(command(left), silence, stop)?;
        let began = heard.began;
        for (name, one) in heard.took {
            // Ignores a program that answers other requests.
            if names.get(took.len()) == Some(&name) {
                took.push(one);
            }
        }
        if took.len() == names.len() {
            break;
        }
        match began {
            Some(name) if name == names[took.len()] => took.push(Took::Failed(heard.ending)),
            // It did not even begin, so another start would not help.
            _ => took.resize(names.len(), Took::Failed(format!("fails to start: {}", heard.ending))),
        }
    }
    Ok(took)
}

/// The output of a program.
#[derive(Debug, Default)]
struct Heard {
    version: Option<String>,
    took: Vec<(String, Took)>,
    /// The operation that it began last, if it did not report a time.
    began: Option<String>,
    done: bool,
    /// The reason of its end, if it failed.
    ending: String,
}

impl Heard {
    fn line(&mut self, line: &str) {
        let (word, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        let (name, rest_of) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "version" => self.version = Some(rest.split_whitespace().collect::<Vec<_>>().join(" ")),
            "begin" => self.began = Some(rest.to_owned()),
            "done" => self.done = true,
            "row" | "wrong" => {
                let took = match rest_of.parse::<f64>() {
                    Ok(time) if word == "row" && time.is_finite() && time >= 0.0 => Took::Time(time),
                    _ if word == "wrong" => Took::Failed(format!("wrong: {rest_of}")),
                    _ => Took::Failed(format!("said '{rest_of}'")),
                };
                self.took.push((name.to_owned(), took));
                self.began = None;
            }
            // Other output of a peer.
            _ => (),
        }
    }
}

/// A program with all processes that it started; they end when this value is dropped.
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.0.id().cast_signed()) {
            // It may have ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Returns whether it ends by itself within `time`.
    fn ends(&mut self, time: Duration) -> bool {
        let begin = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if begin.elapsed() > time {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Group {
    /// Launchers end their ranks on request; ranks end with the process that started them.
    fn drop(&mut self) {
        if !self.ends(Duration::ZERO) {
            self.signal(Signal::TERM);
            if !self.ends(LAST_WORDS) {
                self.signal(Signal::KILL);
                let _ = self.0.wait();
            }
        }
    }
}

/// Runs a program and reads its output, until it ends or is silent for too long.
///
/// # Errors
///
/// [`Error::Interrupted`] when `stop` is set.
fn listen(mut command: Command, silence: Duration, stop: &AtomicBool) -> Result<Heard> {
    // In its own process group, so that this program handles a Ctrl-C and can end all of it at once.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut heard = Heard::default();
    let mut group = match command.spawn() {
        Ok(child) => Group(child),
        Err(error) => {
            heard.ending = format!("{} does not start: {error}", command.get_program().display());
            return Ok(heard);
        }
    };
    let (sender, lines) = mpsc::channel();
    let (tell_errors, errors) = mpsc::channel();
    if let (Some(out), Some(err)) = (group.0.stdout.take(), group.0.stderr.take()) {
        std::thread::spawn(move || read_lines(out, &sender));
        std::thread::spawn(move || read_lines(err, &tell_errors));
    }
    let mut last = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                heard.line(&line);
                last = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) if last.elapsed() < silence => (),
            Err(RecvTimeoutError::Timeout) => {
                heard.ending = format!("hangs: nothing within {} s", silence.as_secs());
                return Ok(heard);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if heard.done {
        // Errors at its end do not belong to an operation.
        group.ends(LAST_WORDS);
        return Ok(heard);
    }
    group.ends(LAST_WORDS);
    let status = group.0.try_wait().ok().flatten();
    // Its standard error closes with the program, unless processes that it left behind keep it open.
    let mut said = Vec::new();
    let end = Instant::now() + LAST_WORDS;
    while let Ok(line) = errors.recv_timeout(end.saturating_duration_since(Instant::now())) {
        said.push(line);
    }
    heard.ending = ending(status.map(|status| status.to_string()), &said);
    Ok(heard)
}

fn read_lines(from: impl Read, sender: &mpsc::Sender<String>) {
    for line in BufReader::new(from).split(b'\n') {
        let Ok(line) = line else { break };
        if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            break;
        }
    }
}

/// The reason of a premature end: a signal that its launcher reports, or otherwise its last line.
fn ending(status: Option<String>, said: &[String]) -> String {
    let words = ["Segmentation fault", "Bus error", "Aborted", "Floating point exception"];
    let fault = words.iter().find(|word| said.iter().any(|line| line.contains(*word)));
    let line = said.iter().rev().map(|line| line.trim()).find(|line| line.contains(char::is_alphabetic));
    match (fault, line, status) {
        (Some(fault), ..) => format!("crashes ({})", fault.to_lowercase()),
        (None, Some(line), Some(status)) => format!("crashes ({status}; {line})"),
        (None, _, Some(status)) => format!("crashes ({status})"),
        (None, ..) => "does not end".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn shell(script: &str) -> impl Fn(&[String]) -> Command {
        move |names| {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(script).arg("peer").args(names);
            command
        }
    }

    #[test]
    fn lines_are_understood() {
        let mut heard = Heard::default();
        for line in [
            "version A  B\t1.2",
            "begin put-8",
            "a warning",
            "row put-8 12.5",
            "begin x",
            "wrong x 3 instead of 4",
            "row y NaN",
            "row",
            "begin z",
        ] {
            heard.line(line);
        }
        assert_eq!(heard.version.as_deref(), Some("A B 1.2"));
        let failed = |text: &str| Took::Failed(text.into());
        let rows = [("put-8", Took::Time(12.5)), ("x", failed("wrong: 3 instead of 4")), ("y", failed("said 'NaN'"))];
        assert_eq!(heard.took[..3], rows.map(|(name, took)| (name.to_owned(), took)));
        assert_eq!((heard.began.as_deref(), heard.done), (Some("z"), false));
    }

    #[test]
    fn a_crash_loses_one_operation() {
        let script = "for name; do
            echo begin $name
            if [ $name = b ]; then kill -SEGV $$; fi
            echo row $name 7
        done; echo done";
        let stop = AtomicBool::new(false);
        let took = each(shell(script), &strings(&["a", "b", "c"]), SILENCE, &stop).unwrap();
        assert_eq!((&took[0], &took[2]), (&Took::Time(7.0), &Took::Time(7.0)));
        assert!(matches!(&took[1], Took::Failed(how) if how.starts_with("crashes")), "{took:?}");
    }

    #[test]
    fn a_hanging_program_is_ended_with_its_children() {
        let at = tempfile::tempdir().unwrap();
        let file = at.path().join("pid");
        let script = format!("echo begin $1; sleep 1000 & echo $! > {}; wait", file.display());
        let stop = AtomicBool::new(false);
        let took = each(shell(&script), &strings(&["a"]), Duration::from_millis(300), &stop).unwrap();
        assert!(matches!(&took[0], Took::Failed(how) if how.starts_with("hangs")), "{took:?}");
        let pid = fs::read_to_string(file).unwrap();
        let gone = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            // Its new parent process may not have noticed its end yet.
            stat.is_empty() || stat.contains(") Z ")
        };
        assert!((0..1000).any(|_| gone() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }));
    }

    #[test]
    fn a_program_that_does_not_start_is_tried_once() {
        let stop = AtomicBool::new(false);
        let took = each(|_| Command::new("/nowhere/peer"), &strings(&["a", "b"]), SILENCE, &stop).unwrap();
        assert!(took.iter().all(|one| matches!(one, Took::Failed(how) if how.contains("/nowhere/peer"))), "{took:?}");
        let took = each(shell("echo no such device >&2; exit 1"), &strings(&["a", "b"]), SILENCE, &stop).unwrap();
        assert!(took.iter().all(|one| matches!(one, Took::Failed(how) if how.contains("no such device"))), "{took:?}");
    }

    #[test]
    fn an_interrupt_ends_it() {
        let stop = AtomicBool::new(true);
        let done = each(shell("sleep 1000"), &strings(&["a"]), SILENCE, &stop);
        assert!(matches!(done, Err(Error::Interrupted)), "{done:?}");
    }

    #[test]
    fn a_preloaded_library_is_named_without_its_folder() {
        assert_eq!(preloading(Path::new("/home/me/target/librmalab_mpi.so")), ", with LD_PRELOAD=librmalab_mpi.so");
    }

    #[test]
    fn missing_peers_are_named_with_their_packages() {
        let at = tempfile::tempdir().unwrap();
        let (empty, stop) = (at.path().as_os_str(), AtomicBool::new(false));
        let found = mpis(empty, at.path(), &[], &stop).unwrap();
        assert!(found.peers.is_empty());
        for (line, [name, package]) in
            found.skipped.iter().zip([["MPICH", "libmpich-dev"], ["Open MPI", "openmpi-bin"]])
        {
            assert!(line.starts_with(name) && line.contains(package), "{line}");
        }
        assert_eq!(found.skipped.len(), 2);
        let found = concurrency_kit(empty, at.path(), &stop).unwrap();
        assert!(found.peers.is_empty() && found.skipped[0].contains("libck-dev"), "{:?}", found.skipped);
    }
}
