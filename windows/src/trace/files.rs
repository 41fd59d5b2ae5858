//! The files that make one trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::TraceError;

/// The files of each window, by rank.
type Windows = BTreeMap<String, BTreeMap<u32, PathBuf>>;

/// Returns the folder of a path, and the files of its windows: of all of them, or of the one that the path names.
fn windows_in(path: &Path) -> Result<(&Path, Windows), TraceError> {
    let (dir, stem) = if path.is_dir() {
        (path, None)
    } else {
        let stem = path.file_name().map(|name| name.to_string_lossy().into_owned());
        (path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")), stem)
    };
    let failed = |error| TraceError::io(dir, "reading the folder of a trace", error);
    let mut windows = Windows::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let Some((window, rank)) = name.strip_suffix(".trace").and_then(|name| name.rsplit_once("-rank-")) else {
            continue;
        };
        if let Ok(number) = rank.parse()
            && stem.as_ref().is_none_or(|stem| stem == window)
        {
            windows.entry(window.to_owned()).or_default().insert(number, file.clone());
        }
    }
    if windows.is_empty() {
        return Err(TraceError::set(
            path,
            "there is no trace here; the files of a trace are called WINDOW-rank-N.trace",
        ));
    }
    Ok((dir, windows))
}

/// Returns the path of each window's trace. Windows of one name are in the order in which the program made them.
pub(super) fn windows_of(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let (dir, windows) = windows_in(path)?;
    if windows.len() == 1 {
        return Ok(vec![path.to_owned()]);
    }
    let mut names: Vec<&String> = windows.keys().collect();
    // The first window of a name has no number.
    names.sort_by_key(|name| match name.rsplit_once('-').map(|(stem, number)| (stem, number.parse())) {
        Some((stem, Ok(number))) => (stem, number),
        _ => (name.as_str(), 1_u64),
    });
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Returns the files of a trace, by rank.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let (dir, mut windows) = windows_in(path)?;
    let names: Vec<&str> = windows.keys().map(String::as_str).collect();
    if names.len() > 1 {
        let what = format!("traces of several windows ({}); name one, as {}/WINDOW", names.join(", "), dir.display());
        return Err(TraceError::set(path, what));
    }
    let (window, files) = windows.pop_first().expect("there is a window");
    if let Some((rank, _)) = (0..).zip(files.keys()).find(|(rank, there)| rank != *there) {
        return Err(TraceError::set(
            &dir.join(format!("{window}-rank-{rank}.trace")),
            "this file of the trace is missing; copy the files of all ranks into one folder, or record the program again",
        ));
    }
    Ok(files.into_values().collect())
}
