//! What the examples have in common: a world of ranks, as the command line asks for it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::time::Duration;

use rmalab_atomics::{Mapped, World};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Runs `body` on `--ranks N` ranks (4 by default): threads with `--backend local`, the default, processes with
/// `--backend shm`. Returns the sum of what they return.
///
/// With `--record DIR` the body is given the folder, for its window to be recorded in.
pub(crate) fn run(body: impl Fn(&Mapped, Option<&Path>) -> Result<u64> + Sync) -> Result<u64> {
    let Arguments { backend, ranks, record } = arguments(std::env::args().skip(1)).unwrap_or_else(|wrong| {
        eprintln!("{wrong}; the options are --backend local|shm, --ranks N and --record DIR");
        exit(2)
    });
    let body = |ra: &Mapped| body(ra, record.as_deref());
    let results = match backend {
        Backend::Local => World::threads(ranks).run(body)?.into_iter().collect::<Result<Vec<u64>>>()?,
        // Each process runs this program from its start, and in it this call does not return.
        Backend::Shm => World::processes(ranks).time_limit(Duration::from_secs(60)).try_run(body)?,
    };
    Ok(results.iter().sum())
}

enum Backend {
    Local,
    Shm,
}

struct Arguments {
    backend: Backend,
    ranks: u32,
    record: Option<PathBuf>,
}

fn arguments(mut args: impl Iterator<Item = String>) -> std::result::Result<Arguments, String> {
    let (mut backend, mut ranks, mut record) = (Backend::Local, 4, None);
    while let Some(option) = args.next() {
        match (option.as_str(), args.next().as_deref()) {
            ("--backend", Some("local")) => backend = Backend::Local,
            ("--backend", Some("shm")) => backend = Backend::Shm,
            ("--ranks", Some(n)) => match n.parse() {
                Ok(n @ 1..=64) => ranks = n,
                _ => return Err(format!("--ranks {n}: not a number from 1 to 64")),
            },
            ("--record", Some(dir)) => record = Some(dir.into()),
            (_, Some(value)) => return Err(format!("{option} {value}: unknown")),
            (_, None) => return Err(format!("{option}: unknown, or without its value")),
        }
    }
    Ok(Arguments { backend, ranks, record })
}
