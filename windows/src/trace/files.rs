//! The files that make one trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::TraceError;

/// Returns the files of a trace, by rank.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let (dir, stem) = if path.is_dir() {
        (path, None)
    } else {
        let stem = path.file_name().map(|name| name.to_string_lossy().into_owned());
        (path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")), stem)
    };
    let failed = |error| TraceError::io(dir, "reading the folder of a trace", error);
    let mut windows: BTreeMap<String, BTreeMap<u32, PathBuf>> = BTreeMap::new();
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
    let names: Vec<&String> = windows.keys().collect();
    if names.len() > 1 {
        let names = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let what = format!("traces of several windows ({names}); name one, as {}/WINDOW", dir.display());
        return Err(TraceError::set(path, what));
    }
    let Some((window, files)) = windows.pop_first() else {
        return Err(TraceError::set(
            path,
            "there is no trace here; the files of a trace are called WINDOW-rank-N.trace",
        ));
    };
    if let Some((rank, _)) = (0..).zip(files.keys()).find(|(rank, there)| rank != *there) {
        return Err(TraceError::set(
            &dir.join(format!("{window}-rank-{rank}.trace")),
            "this file of the trace is missing; copy the files of all ranks into one folder, or record the program again",
        ));
    }
    Ok(files.into_values().collect())
}
