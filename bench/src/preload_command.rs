//! `rmalab preload`: starts an unchanged MPI program whose windows rmalab manages.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, ValueHint};
use rmalab_job::say;
use rmalab_windows::Config;

use crate::compare::Preload;
use crate::{Error, Result};

pub(crate) const ABOUT: &str = "\
Start an unchanged MPI program whose windows rmalab manages.

The command finds the MPI of the program, chooses the library that is built for it, sets the variables, and replaces \
itself by the program: signals and the exit status are the program's. At the end, standard error has the windows of \
each policy, and the \
number and time of the calls.";

pub(crate) const MANUAL: &str = "\
Examples:
  target/measure/rmalab preload -- mpirun -n 4 ./program
      Allocated and shared windows are rmalab's, with the default policy.
  rmalab preload --policy hierarchical --mode policy -- mpirun -n 4 ./program
      Locks and epochs are rmalab's, and the MPI moves the data.
  rmalab preload --record traces -- mpirun -n 4 ./program && rmalab advise --trace traces
      The program runs on the MPI's own windows, and the advice names a lock policy for its window.
  rmalab preload --quiet --library lib/librmalab_mpi.so -- mpirun -n 4 python3 program.py
      A library at another place, and no table at the end.

The library:
  MPICC=mpicc cargo build --profile measure -p rmalab-mpi --features mpi --target-dir target/NAME
      Builds it for the MPI of this mpicc; NAME is any name. For target/measure/rmalab, it is
      found there, in target/lib, and in target/NAME/measure (or release, or debug); then in
      ./target/NAME/measure of the current folder.

Several hosts:
  Open MPI passes variables to other hosts only if mpirun names them: -x LD_PRELOAD -x RMALAB_MODE.
  Each rank writes its trace where it runs: copy the files into one folder.

Exit codes:
  2    an argument is wrong, or there is no library for the program's MPI
  126  the program cannot be executed
  127  there is no such program
  The others are the program's.";

/// The file of the library.
const LIBRARY: &str = "librmalab_mpi.so";

/// Options of `rmalab preload`.
#[derive(Debug, Args)]
pub(crate) struct PreloadArgs {
    /// The lock policy of windows whose info names none [default: two-level-scan for up to 8 ranks in mode native, else two-level]
    #[arg(long, value_name = "NAME", value_parser = rmalab_apps::policies(), hide_possible_values = true)]
    policy: Option<String>,
    /// rmalab's part of a window: all of it where possible, or its locks and epochs, or nothing [default: native; record with --record]
    #[arg(long, value_name = "MODE", value_parser = ["native", "policy", "off", "record"])]
    mode: Option<String>,
    /// Record the calls on windows in this folder, for rmalab advise; the MPI does everything meanwhile, unless --mode names more
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    record: Option<PathBuf>,
    /// The library to preload [default: the one for the program's MPI, see below]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    library: Option<PathBuf>,
    /// Print the choices for each window, with the reasons
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Print no table at the end
    #[arg(long, short)]
    quiet: bool,
    /// The program and its arguments, with the launcher
    #[arg(last = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

/// Replaces this process by the program. Returns only with an error.
pub(crate) fn run(arguments: &PreloadArgs) -> Result<ExitCode> {
    let (program, rest) = arguments.program.split_first().expect("clap requires a program");
    if executable(program).is_none() {
        let missing = !(program.as_encoded_bytes().contains(&b'/') && Path::new(program).exists());
        let why = if missing {
            format!("there is no program {}", program.display())
        } else {
            format!("{} is not executable", program.display())
        };
        return Err(rmalab_atomics::Error::Program { why: why.into(), missing }.into());
    }
    let mut command = Command::new(program);
    command.args(rest);
    for (name, value) in [("RMALAB_MODE", &arguments.mode), (Config::LOCK_POLICY_VARIABLE, &arguments.policy)] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    if let Some(folder) = &arguments.record {
        // Ranks may be started in other folders.
        let folder = std::path::absolute(folder)
            .and_then(|folder| writable(&folder).map(|()| folder))
            .map_err(|error| Error::usage(format!("--record {}: {error}", folder.display())))?;
        command.env(Config::RECORD_VARIABLE, folder);
        if arguments.mode.is_none() {
            command.env("RMALAB_MODE", "record");
        }
    }
    if let Some(library) = library_for(arguments)? {
        command.env("LD_PRELOAD", preloads(&library)?);
    }
    if arguments.verbose {
        command.env("RMALAB_VERBOSE", "1");
    }
    command.env("RMALAB_SUMMARY", if arguments.quiet { "0" } else { "1" });
    let error = command.exec();
    Err(rmalab_atomics::Error::program(format!("cannot start {}", program.display()), &error).into())
}

/// Makes the folder of traces, and checks that files can be made in it: otherwise the whole job would run unrecorded.
fn writable(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let trial = folder.join(format!(".rmalab-{}", std::process::id()));
    File::create_new(&trial)?;
    std::fs::remove_file(trial)
}

/// The value of `LD_PRELOAD`: the library, and the variable's present value.
fn preloads(library: &Path) -> Result<OsString> {
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(Error::usage(format!(
            "{}: a library whose path has a space or a colon cannot be preloaded: move it",
            library.display()
        )));
    }
    let mut value = library.as_os_str().to_owned();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        value.push(":");
        value.push(more);
    }
    Ok(value)
}

/// The library for the MPI of the program, as named or found; `None` if the program has no use for one.
fn library_for(arguments: &PreloadArgs) -> Result<Option<PathBuf>> {
    if let Some(path) = &arguments.library {
        let library = Library::read(path).map_err(Error::usage)?;
        return match mpi_of(&arguments.program).0 {
            Mpi::Wanted(wanted) if !wanted.is(&library.mpi) => Err(Error::usage(format!(
                "{} is built for {}, but {wanted}: {}",
                path.display(),
                described(&library.mpi),
                how_to_build(wanted.family())
            ))),
            _ => Ok(Some(library.path)),
        };
    }
    let mut libraries = found();
    let candidates = |libraries: &[Library]| {
        let all: Vec<String> = libraries.iter().map(ToString::to_string).collect();
        all.join(", ")
    };
    let (mpi, note) = mpi_of(&arguments.program);
    if let Some(note) = note {
        say!("note: {note}");
    }
    match mpi {
        Mpi::Wanted(wanted) => match libraries.iter().position(|library| wanted.is(&library.mpi)) {
            Some(at) => Ok(Some(libraries.swap_remove(at).path)),
            None => {
                let others = match libraries.len() {
                    0 => String::new(),
                    _ => format!(", only {}", candidates(&libraries)),
                };
                Err(Error::usage(format!(
                    "{wanted}, and no {LIBRARY} for it is found in {}{others}: {}",
                    places(),
                    how_to_build(wanted.family())
                )))
            }
        },
        // It may load an MPI later. If there is a choice of two, the note has asked for it.
        Mpi::None => Ok((libraries.len() == 1).then(|| libraries.remove(0).path)),
        Mpi::Unknown => match libraries.len() {
            1 => Ok(Some(libraries.remove(0).path)),
            0 => Err(Error::usage(format!("no {LIBRARY} is found in {}: {}", places(), how_to_build(None)))),
            _ => Err(Error::usage(format!(
                "cannot tell which MPI the program uses: name its library by --library: {}",
                candidates(&libraries)
            ))),
        },
    }
}

fn how_to_build(family: Option<Family>) -> String {
    let name = match family {
        Some(Family::Mpich) => "mpich",
        Some(Family::OpenMpi) => "openmpi",
        None => "NAME",
    };
    format!(
        "build it in this folder by `MPICC=mpicc cargo build --profile measure -p rmalab-mpi --features mpi --target-dir target/{name}` \
         with the mpicc of that MPI, or name its file by --library"
    )
}

/// Two MPIs with different binary interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    Mpich,
    OpenMpi,
}

impl Family {
    /// The family of the MPI with this shared library, such as `libmpi.so.40`. MPICH and its relatives call theirs
    /// `libmpi.so.12` or `libmpich.so.12`.
    fn of_library(name: &str) -> Option<Family> {
        match name.strip_prefix("libmpi.so.") {
            Some(version) if version.split('.').next() == Some("12") => Some(Family::Mpich),
            Some(_) => Some(Family::OpenMpi),
            None => name.starts_with("libmpich.so.").then_some(Family::Mpich),
        }
    }
}

/// The evidence for the MPI that the program uses.
#[derive(Debug)]
enum Wanted {
    /// The program loads this library.
    Loads { program: PathBuf, mpi: String },
    /// The launcher belongs to an MPI.
    Launched { launcher: PathBuf, family: Family },
}

impl Wanted {
    /// Returns whether a library for the MPI `mpi` fits.
    fn is(&self, mpi: &str) -> bool {
        match self {
            Wanted::Loads { mpi: wanted, .. } => wanted == mpi,
            Wanted::Launched { family, .. } => Family::of_library(mpi) == Some(*family),
        }
    }

    fn family(&self) -> Option<Family> {
        match self {
            Wanted::Loads { mpi, .. } => Family::of_library(mpi),
            Wanted::Launched { family, .. } => Some(*family),
        }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Loads { program, mpi } => write!(f, "{} uses {}", program.display(), described(mpi)),
            Wanted::Launched { launcher, family } => {
                write!(f, "{} is a launcher of {}", launcher.display(), family.name())
            }
        }
    }
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Family::Mpich => "MPICH",
            Family::OpenMpi => "Open MPI",
        }
    }
}

/// The MPI with this shared library.
fn described(library: &str) -> String {
    match Family::of_library(library) {
        Some(family) => format!("{} ({library})", family.name()),
        None => library.to_owned(),
    }
}

/// The known facts about the MPI of a command line.
enum Mpi {
    Wanted(Wanted),
    /// No program of the line loads an MPI at its start, or starts another program.
    None,
    /// A script or an interpreter may start any program.
    Unknown,
}

/// Finds the MPI of a command line: the MPI that its first program loads, or else the launcher's. Adds a note if the
/// library will not reach the program.
fn mpi_of(line: &[OsString]) -> (Mpi, Option<String>) {
    let programs: Vec<PathBuf> = line.iter().filter_map(|word| executable(word)).collect();
    for program in &programs {
        if let Some(mpi) = loaded(program).and_then(mpi_among) {
            return (Mpi::Wanted(Wanted::Loads { program: program.clone(), mpi }), None);
        }
    }
    // The caller has found the first word's program.
    let launcher = &programs[0];
    let of_launcher = launcher_of(launcher);
    let started = &programs[usize::from(of_launcher.is_some())..];
    let has_none = |program: &PathBuf| is_elf(program) && !is_interpreter(program);
    let note = started.first().filter(|program| has_none(program)).map(|program| {
        if loaded(program).is_none() {
            format!("{} is linked statically, so that no library can be preloaded: its windows stay the MPI's", program.display())
        } else {
            format!(
                "{} loads no MPI at its start: rmalab manages windows only if it loads one later (name that MPI's library by --library)",
                program.display()
            )
        }
    });
    match of_launcher {
        Some(family) => (Mpi::Wanted(Wanted::Launched { launcher: launcher.clone(), family }), note),
        None if programs.iter().all(has_none) => (Mpi::None, note),
        None => (Mpi::Unknown, None),
    }
}

/// Returns whether a program runs other programs, which may load an MPI.
fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    ["python", "pypy", "julia", "sh", "bash", "dash", "env", "perl", "java", "R"].iter().any(|interpreter| {
        name.strip_prefix(interpreter).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    })
}

/// The family of a launcher, if it is one of an MPI.
fn launcher_of(path: &Path) -> Option<Family> {
    let name = path.file_name()?.to_str()?;
    if !["mpirun", "mpiexec", "orterun", "prterun"].iter().any(|launcher| name.starts_with(launcher)) {
        return None;
    }
    let said = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["Open MPI", "OpenRTE", "PRRTE", "PRTE"]) {
        Some(Family::OpenMpi)
    } else {
        has(&["HYDRA", "MPICH", "Intel(R) MPI", "MVAPICH"]).then_some(Family::Mpich)
    }
}

/// The executable file that a word of a command line names, if any.
fn executable(word: &OsStr) -> Option<PathBuf> {
    let bytes = word.as_encoded_bytes();
    if bytes.is_empty() || bytes.starts_with(b"-") {
        return None;
    }
    let is_executable = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if bytes.contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|path| is_executable(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|path| is_executable(path))
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// The names of the shared libraries that a file loads, by the system's `ldd`; `None` if it loads none.
fn loaded(path: &Path) -> Option<Vec<String>> {
    if !is_elf(path) {
        return None;
    }
    // `ldd` would look elsewhere for a path without a slash.
    let listed = Command::new("ldd")
        .arg(path.canonicalize().ok()?)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    listed.status.success().then(|| {
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    })
}

/// The library of an MPI among these.
fn mpi_among(names: Vec<String>) -> Option<String> {
    names.into_iter().find(|name| Family::of_library(name).is_some())
}

/// A library that can be preloaded.
struct Library {
    path: PathBuf,
    /// The library of the MPI that it is built for.
    mpi: String,
}

impl std::fmt::Display for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {}", self.path.display(), described(&self.mpi))
    }
}

impl Library {
    fn read(path: &Path) -> std::result::Result<Library, String> {
        let absolute = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        match loaded(&absolute).and_then(mpi_among) {
            Some(mpi) => Ok(Library { path: absolute, mpi }),
            None => Err(format!(
                "{} is not built for an MPI: build rmalab-mpi with its feature mpi, or name another file by --library",
                path.display()
            )),
        }
    }
}

/// The libraries near this program, one for each MPI.
pub(crate) fn preloads_found() -> Vec<Preload> {
    let mut preloads: Vec<Preload> = Vec::new();
    for Library { path, mpi } in found() {
        if preloads.iter().all(|preload| preload.mpi != mpi) {
            preloads.push(Preload { library: path, mpi });
        }
    }
    preloads
}

/// The folder of this program, and the one above it.
fn own_folders() -> Option<(PathBuf, PathBuf)> {
    let folder = std::env::current_exe().ok()?.canonicalize().ok()?.parent()?.to_owned();
    let above = folder.parent().unwrap_or(&folder).to_owned();
    Some((folder, above))
}

/// The places where [`found`] looks.
fn places() -> String {
    let own = own_folders().map(|(folder, above)| {
        let (folder, above) = (folder.display(), above.display());
        format!("{folder}, {above}/lib, {above}/*/measure (or release, debug) and ")
    });
    format!("{}./target/*/measure", own.unwrap_or_default())
}

/// The libraries near this program, and then the libraries built in the current folder.
fn found() -> Vec<Library> {
    // Cargo's folders for other targets are beside this program's folder.
    let built = |above: &Path| {
        let mut targets: Vec<PathBuf> =
            std::fs::read_dir(above).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
        targets.sort();
        let of_profile = |profile| targets.iter().map(move |target: &PathBuf| target.join(profile));
        ["measure", "release", "debug"].into_iter().flat_map(of_profile).collect::<Vec<PathBuf>>()
    };
    let mut folders = Vec::new();
    if let Some((folder, above)) = own_folders() {
        folders.extend([folder, above.join("lib")]);
        folders.extend(built(&above));
    }
    folders.extend(built(Path::new("target")));
    let mut libraries: Vec<Library> = Vec::new();
    for library in folders.iter().filter_map(|folder| Library::read(&folder.join(LIBRARY)).ok()) {
        if libraries.iter().all(|known| known.path != library.path) {
            libraries.push(library);
        }
    }
    libraries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_tell_their_family() {
        assert_eq!(Family::of_library("libmpich.so.12"), Some(Family::Mpich));
        assert_eq!(Family::of_library("libmpi.so.12"), Some(Family::Mpich));
        assert_eq!(Family::of_library("libmpi.so.12.1.8"), Some(Family::Mpich));
        assert_eq!(Family::of_library("libmpi.so.40"), Some(Family::OpenMpi));
        assert_eq!(Family::of_library("libmpi_mpifh.so.40"), None);
        assert_eq!(Family::of_library("libm.so.6"), None);
    }

    #[test]
    fn interpreters_have_numbers_in_their_names() {
        assert!(is_interpreter(Path::new("/usr/bin/python3.11")));
        assert!(is_interpreter(Path::new("sh")));
        assert!(!is_interpreter(Path::new("./shallow_water")));
    }

    #[test]
    fn options_and_missing_files_are_no_programs() {
        assert_eq!(executable(OsStr::new("-n")), None);
        assert_eq!(executable(OsStr::new("./no-such-file")), None);
        assert_eq!(executable(OsStr::new("/")), None);
        assert!(executable(OsStr::new("sh")).is_some());
    }

    #[test]
    fn a_program_loads_its_libraries() {
        let names = loaded(&std::env::current_exe().unwrap()).unwrap();
        assert!(names.iter().any(|name| name.starts_with("libc.so.")), "{names:?}");
        assert_eq!(loaded(Path::new(file!())), None);
    }
}
