//! docs/environment.md has exactly the variables that the crates read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::page::{read, root};

/// Variables that launchers, builds and tests set for their own processes.
const INTERNAL: [&str; 17] = [
    "RMALAB_ADVISE_TASK",
    "RMALAB_BENCH_TASK",
    "RMALAB_CALL",
    "RMALAB_COMMIT",
    "RMALAB_CONFORMANCE_PUTS",
    "RMALAB_CONFORMANCE_SHARE",
    "RMALAB_HOST",
    "RMALAB_HUB",
    "RMALAB_JOB_TASK",
    "RMALAB_MODEL_BATCH",
    "RMALAB_PROFILE",
    "RMALAB_RANK",
    "RMALAB_RESULT_FD",
    "RMALAB_RUSTC",
    "RMALAB_SIZE",
    "RMALAB_STUDY_TASK",
    "RMALAB_VERBS_FAULTS_PART",
];

/// The names that begin with `RMALAB_`, between two `mark`s.
fn names(text: &str, mark: char) -> impl Iterator<Item = String> {
    let pieces = text.split(mark).map(str::to_owned).collect::<Vec<_>>();
    let is_name = |piece: &String| {
        let rest = piece.strip_prefix("RMALAB_").unwrap_or_default();
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    pieces.into_iter().filter(is_name)
}

fn sources(folder: PathBuf, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.extend(names(&read(&path), '"'));
        }
    }
}

#[test]
fn the_page_has_every_variable() {
    let mut read_by_crates = BTreeSet::new();
    for folder in ["atomics", "locks", "windows", "verify", "bench"] {
        sources(root().join(folder), &mut read_by_crates);
    }
    let listed: BTreeSet<String> = names(&read(&root().join("docs/environment.md")), '`').collect();
    let unknown: Vec<_> = listed.difference(&read_by_crates).collect();
    assert!(unknown.is_empty(), "docs/environment.md has variables that no crate reads: {unknown:?}");
    let internal = |name: &&String| {
        INTERNAL.contains(&name.as_str()) || name.starts_with("RMALAB_SHM_") || name.starts_with("RMALAB_TEST_")
    };
    let missing: Vec<_> = read_by_crates.difference(&listed).filter(|name| !internal(name)).collect();
    assert!(missing.is_empty(), "docs/environment.md does not have {missing:?}");
}
