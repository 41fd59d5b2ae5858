//! The common part of the examples: a world of ranks from the command line.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::exit;

use rmalab_atomics::{Backend, Collectives, Rank, RemoteAtomics, started_as};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Runs `body` on `--ranks N` ranks (4 by default, or as many as `mpirun` has started). Ranks are threads with
/// `--backend local`, the default, and processes with the other backends. Rank 0 prints the sum of their results.
///
/// With `--record DIR` the body gets the folder for the recording of its window.
pub(crate) fn run(
    body: impl Fn(&dyn RemoteAtomics, Option<&Path>) -> Result<u64> + Sync,
    say: impl Fn(u64) + Sync,
) -> Result<()> {
    let Arguments { backend, ranks, record } = arguments(std::env::args().skip(1)).unwrap_or_else(|wrong| {
        eprintln!("{wrong}; the options are --backend local|shm|verbs|mpi, --ranks N and --record DIR");
        exit(2)
    });
    let ranks = match (ranks, started_as()?) {
        (Some(ranks), _) | (None, Some((_, ranks @ 2..))) => ranks,
        (None, _) => 4,
    };
    // If this process starts the ranks as processes, each runs this program from its start, and ends in this call.
    backend.try_run(ranks, |ra| -> Result<()> {
        let mut sum = [body(ra, record.as_deref())?];
        Collectives::new(ra)?.allreduce(&mut sum, u64::wrapping_add)?;
        if ra.rank() == Rank(0) {
            say(sum[0]);
        }
        Ok(())
    })?;
    Ok(())
}

struct Arguments {
    backend: Backend,
    ranks: Option<u32>,
    record: Option<PathBuf>,
}

fn arguments(mut args: impl Iterator<Item = String>) -> std::result::Result<Arguments, String> {
    let (mut backend, mut ranks, mut record) = (Backend::Local, None, None);
    while let Some(option) = args.next() {
        match (option.as_str(), args.next().as_deref()) {
            ("--backend", Some(name)) => {
                let known = name.parse().and_then(|known: Backend| known.check_built().map(|()| known));
                backend = known.map_err(|error| format!("--backend {name}: {error}"))?;
            }
            ("--ranks", Some(n)) => match n.parse() {
                Ok(n @ 1..=64) => ranks = Some(n),
                _ => return Err(format!("--ranks {n}: not a number from 1 to 64")),
            },
            ("--record", Some(dir)) => record = Some(dir.into()),
            (_, Some(value)) => return Err(format!("{option} {value}: unknown")),
            (_, None) => return Err(format!("{option}: unknown, or without its value")),
        }
    }
    Ok(Arguments { backend, ranks, record })
}
