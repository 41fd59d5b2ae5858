//! The compared operations of windows, by name.

use rmalab_job::{Error, Result};
use rmalab_report::names;

/// The ranks of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Worlds {
    /// Two, each on a separate core.
    Pair,
    /// Two, and more ranks than cores.
    Crowds,
}

/// An operation that is measured with our windows and with the windows of every MPI.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name on the command line and in the peers' programs.
    pub name: &'static str,
    /// Its description.
    pub title: &'static str,
    pub(super) worlds: Worlds,
}

impl Operation {
    /// Returns whether it is measured with that many ranks.
    pub(super) fn has(&self, ranks: u32) -> bool {
        ranks == 2 || self.worlds == Worlds::Crowds
    }
}

const fn pair(name: &'static str, title: &'static str) -> Operation {
    Operation { name, title, worlds: Worlds::Pair }
}

const fn crowd(name: &'static str, title: &'static str) -> Operation {
    Operation { name, title, worlds: Worlds::Crowds }
}

/// All operations. Without "all", one rank makes them to the other rank.
pub const OPERATIONS: [Operation; 31] = [
    pair("put-8", "put 8 B, flush"),
    pair("get-8", "get 8 B, flush"),
    pair("put-8-many", "put 8 B, 1,000 per flush, each"),
    pair("put-128k", "put 128 KiB, flush"),
    pair("put-1m-burst", "put 1 MiB, 16 per flush, each"),
    pair("fetch-and-op", "fetch_and_op sum, flush"),
    pair("compare-and-swap", "compare_and_swap, flush"),
    pair("accumulate-1", "accumulate sum 1 int64, flush"),
    pair("accumulate-128", "accumulate sum 128 int64, flush"),
    pair("accumulate-1k", "accumulate sum 1,024 int64, flush"),
    pair("accumulate-64k", "accumulate sum 65,536 int64, flush"),
    pair("lock-exclusive", "lock exclusive, unlock"),
    pair("lock-shared", "lock shared, unlock"),
    pair("lock-all", "lock_all, unlock_all"),
    pair("lock-put", "lock exclusive, put 8 B, unlock"),
    pair("flush", "flush, nothing to do"),
    pair("sync", "win_sync"),
    crowd("fence-pair", "two fences, all"),
    crowd("pscw", "post, start, complete, wait in a ring, all"),
    crowd("barrier", "barrier, all"),
    crowd("all-lock-shared", "lock shared, unlock of rank 0, all"),
    crowd("all-lock-exclusive", "lock exclusive, unlock of rank 0, all"),
    crowd("all-lock-all", "lock_all, unlock_all, all"),
    crowd("all-fetch-and-op", "fetch_and_op sum at rank 0, flush, all"),
    crowd("create-4k", "window of 4 KiB allocated, freed, all"),
    pair("create-1m", "window of 1 MiB allocated, freed, all"),
    pair("create-16m", "window of 16 MiB allocated, freed, all"),
    pair("ghost-fence", "ghost exchange of 16 B, fence, all"),
    pair("ghost-pscw", "ghost exchange of 16 B, PSCW, all"),
    crowd("hash-insert", "hash-table insert (compare_and_swap, fetch_and_op), all"),
    pair("gups", "GUPS: fetch_and_op xor at random, flush, all"),
];

/// The operations with those names; all of them without names.
///
/// # Errors
///
/// [`Error::Usage`](rmalab_job::Error::Usage) for an unknown name.
pub fn named(wanted: &[String]) -> Result<Vec<Operation>> {
    for name in wanted {
        if !OPERATIONS.iter().any(|operation| operation.name == name) {
            return Err(Error::usage(names::unknown(
                "operation",
                name,
                OPERATIONS.iter().map(|operation| operation.name),
            )));
        }
    }
    let asked = |operation: &&Operation| wanted.is_empty() || wanted.iter().any(|name| name == operation.name);
    Ok(OPERATIONS.iter().filter(asked).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_program_has_exactly_these_operations() {
        let program = include_str!("../../peers/mpi.c");
        let theirs: Vec<&str> =
            program.lines().filter_map(|line| line.strip_prefix("    { \"")?.split('"').next()).collect();
        assert_eq!(theirs, OPERATIONS.map(|operation| operation.name));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert_eq!(named(&[]).unwrap().len(), OPERATIONS.len());
        let two = named(&["barrier".into(), "put-8".into()]).unwrap();
        assert_eq!(two.iter().map(|operation| operation.name).collect::<Vec<_>>(), ["put-8", "barrier"]);
        let error = named(&["put-9".into()]).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("did you mean 'put-8'"), "{error}");
    }
}
