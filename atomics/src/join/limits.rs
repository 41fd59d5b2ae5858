//! The machine's resources, compared with a world's requirements before anything is started.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit};

use crate::{Error, Result};

/// Descriptors that the launcher needs for each rank: its standard output and error, its result, its process, and its
/// connection to the hub.
const FDS_PER_RANK: u64 = 5;

/// Further descriptors that it needs: standard streams, shared memory, signals, and the descriptors of a start under
/// way.
const FDS_BESIDE: u64 = 64;

/// Refuses a world of `ranks` ranks that needs more bytes of memory than are free.
///
/// The kernel allocates pages when they are touched. So a world that is too large would start, and be killed later.
pub(crate) fn memory(ranks: u32, segment_bytes: u64, needed: u64) -> Result<()> {
    let Some(available) = available_memory() else { return Ok(()) };
    if needed > available {
        return Err(Error::world(format!(
            "{} ranks with segments of {} need {} of memory, and {} are available; take fewer ranks or smaller segments",
            ranks,
            in_units(segment_bytes),
            in_units(needed),
            in_units(available)
        )));
    }
    Ok(())
}

/// Returns the bytes that the kernel can provide without swapping.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn in_units(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    match bytes as f64 / (1u64 << (10 * unit)) as f64 {
        _ if unit == 0 => format!("{bytes} bytes"),
        scaled => format!("{scaled:.1} {}", units[unit as usize]),
    }
}

/// Raises the limit of descriptors of this process for `size` ranks if needed, and returns the old limit.
///
/// # Errors
///
/// [`Error::World`] when the hard limit is too low.
pub(crate) fn descriptors(size: u32) -> Result<Rlimit> {
    open_files(FDS_BESIDE + FDS_PER_RANK * u64::from(size), size)
}

/// Raises the limit of descriptors of this process by `more` for `size` ranks if needed, and returns the old limit.
///
/// # Errors
///
/// [`Error::World`] when the hard limit is too low.
pub(crate) fn open_files(more: u64, size: u32) -> Result<Rlimit> {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let needed = open + more;
    if before.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(Error::world(format!(
            "{size} ranks need {needed} open files, and this process may have {} (ulimit -Hn)",
            before.maximum.unwrap_or(0)
        )));
    }
    if before.current.is_some_and(|current| current < needed) {
        let raised = Rlimit { current: before.maximum, maximum: before.maximum };
        rustix::process::setrlimit(Resource::Nofile, raised)
            .map_err(|error| Error::system(format!("raising the limit on open files to {needed}"), error))?;
    }
    Ok(before)
}

/// Refuses more ranks than the number of processes that this user may have.
pub(crate) fn processes(size: u32) -> Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nproc).current;
    // The kernel does not apply this limit to root.
    if !rustix::process::geteuid().is_root() && limit.is_some_and(|limit| limit <= u64::from(size)) {
        return Err(Error::world(format!(
            "{size} ranks are more processes than this user may have, {} (ulimit -u)",
            limit.unwrap_or(0)
        )));
    }
    let most = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|text| text.trim().parse().ok());
    if most.is_some_and(|most: u64| most <= u64::from(size)) {
        return Err(Error::world(format!(
            "{size} ranks are more processes than this machine has numbers for, {} (kernel.pid_max)",
            most.unwrap_or(0)
        )));
    }
    Ok(())
}

/// Returns the file that `program` names: a path if it has a slash, and otherwise a file in `PATH`.
///
/// # Errors
///
/// [`Error::Program`] when there is no such file, or it cannot be executed.
pub(crate) fn program(program: &OsStr) -> Result<PathBuf> {
    let named = Path::new(program);
    if named.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match std::fs::metadata(named) {
            Ok(found) if found.is_dir() => Err(not_executable(named, "is a folder, not a program")),
            Ok(found) if found.permissions().mode() & 0o111 == 0 => Err(not_executable(named, "is not executable")),
            Ok(_) => Ok(named.to_path_buf()),
            Err(error) => Err(Error::program(format!("no program {}", named.display()), &error)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let mut other = None;
    for file in std::env::split_paths(&path).map(|folder| folder.join(named)) {
        match std::fs::metadata(&file) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => return Ok(file),
            Ok(found) if found.is_file() => other = other.or(Some(file)),
            _ => {}
        }
    }
    Err(match other {
        Some(file) => not_executable(&file, "is not executable"),
        None => Error::Program {
            why: format!("no program {:?} in PATH", named.display().to_string()).into(),
            missing: true,
        },
    })
}

fn not_executable(file: &Path, why: &str) -> Error {
    Error::Program { why: format!("{} {why}", file.display()).into(), missing: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_larger_than_memory_is_refused_with_its_size() {
        memory(2, 4096, 2 * 4096).unwrap();
        let error = memory(1000, 1 << 40, 1000 << 40).unwrap_err().to_string();
        assert!(error.contains("1000 ranks with segments of 1.0 TiB need 1000.0 TiB"), "{error}");
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(in_units(0), "0 bytes");
        assert_eq!(in_units(1023), "1023 bytes");
        assert_eq!(in_units(1536), "1.5 KiB");
        assert_eq!(in_units(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn programs_are_found_or_named() {
        assert!(program(OsStr::new("sh")).unwrap().is_absolute());
        assert_eq!(program(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        for (name, says, is_missing) in [
            ("rmalab-no-such-program", "rmalab-no-such-program", true),
            ("/no/such/program", "/no/such/program", true),
            ("", "no program", true),
            ("/etc/passwd", "not executable", false),
            ("/etc/passwd/program", "/etc/passwd/program", false),
            ("/usr", "folder", false),
        ] {
            match program(OsStr::new(name)).unwrap_err() {
                Error::Program { why, missing } => {
                    assert!(why.contains(says) && missing == is_missing, "{name}: {why}");
                }
                error => panic!("{name}: {error}"),
            }
        }
    }

    #[test]
    fn too_many_ranks_are_refused() {
        assert!(descriptors(u32::MAX).is_err());
        assert!(processes(u32::MAX).is_err());
        descriptors(8).unwrap();
        processes(8).unwrap();
    }
}
