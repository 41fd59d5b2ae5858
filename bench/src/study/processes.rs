//! Worlds of processes: the program starts itself again as each rank.
//!
//! A rank learns what to do from an environment variable. What rank 0 has to say it writes on its standard output, one
//! line each, marked so that nothing else that a rank may print is taken for it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use rmalab_atomics::{Launcher, Rank, shm};
use rmalab_atomics::{Line, Output, Stream};
use serde::{Deserialize, Serialize};

use super::outcome::Message;
use super::rank::{self, SEGMENT_BYTES};
use super::{Backend, Options, WorldOfStudy};
use crate::{Error, Registry, Result};

/// The environment variable that tells a process what to do as a rank of a study.
const TASK: &str = "RMALAB_STUDY_TASK";

/// What a line of a rank's output starts with if it is meant for the study.
const MARK: &str = "rmalab-study ";

/// What a rank is told.
#[derive(Debug, Serialize, Deserialize)]
struct RankTask {
    backend: Backend,
    options: Options,
}

/// Does the work of a rank and ends the process, if this process was started as a rank of a study; otherwise nothing.
///
/// # Errors
///
/// [`Error::Ranks`] in a process that was told nonsense.
pub fn serve(registry: &Registry) -> Result<()> {
    let Some(task) = std::env::var_os(TASK) else { return Ok(()) };
    let task: RankTask = serde_json::from_slice(task.as_encoded_bytes())
        .map_err(|error| Error::Ranks(format!("{TASK}: {error}; it is set for ranks by the program itself")))?;
    let ra = shm::attach()?;
    let stop = Arc::<AtomicBool>::default();
    crate::interrupt::sets(&stop)?;
    let tell = |message| {
        let text = serde_json::to_string(&message).expect("messages are JSON");
        // Whoever has started this rank has gone away if nobody reads; the rank ends with it.
        let _ = writeln!(std::io::stdout().lock(), "{MARK}{text}");
    };
    match rank::measure(&ra, registry, task.backend, &task.options, &stop, &tell) {
        Ok(()) => {
            drop(ra);
            std::process::exit(0)
        }
        Err(error) => {
            tell(Message::Failed(error.to_string()));
            ra.fail();
            std::process::exit(1)
        }
    }
}

impl WorldOfStudy<'_> {
    /// Runs the world as processes; `hear` is told what rank 0 says.
    pub(super) fn processes(&self, stop: &AtomicBool, hear: &mut dyn FnMut(Message)) -> Result<()> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Ranks(format!("this program, which its ranks are, cannot be found: {error}")))?;
        let task = RankTask { backend: self.backend, options: self.options.clone() };
        let (tell, said) = mpsc::channel();
        let output = move |line: Line<'_>| {
            let text = String::from_utf8_lossy(line.bytes);
            match (line.stream, text.strip_prefix(MARK).map(serde_json::from_str)) {
                (Stream::Out, Some(Ok(message))) => drop(tell.send((line.rank, message))),
                _ => eprintln!("{}: {text}", line.rank),
            }
        };
        let job = Launcher::new(self.ranks)
            .command(program, [] as [&str; 0])
            .env(TASK, serde_json::to_string(&task).expect("options are JSON"))
            .segment_bytes(SEGMENT_BYTES)
            .topology(self.topology()?)
            .output(Output::Lines(Box::new(output)))
            .spawn()?;
        // The channel closes when the launcher drops the function, after the last line of the last rank.
        let mut failures = BTreeMap::new();
        for (rank, message) in said {
            match message {
                Message::Failed(why) => drop(failures.insert(rank, why)),
                message => hear(message),
            }
        }
        let ended = job.wait()?;
        match ended.first_failure {
            None => Ok(()),
            // The user ended it, and a rank had not come to the point where it listens.
            Some(_) if stop.load(Ordering::Relaxed) => {
                hear(Message::Interrupted);
                Ok(())
            }
            Some(rank) => Err(Error::Ranks(failure(rank, &failures).unwrap_or_else(|| ended.describe(rank)))),
        }
    }
}

/// What the rank that failed first said, if it said anything.
fn failure(first: Rank, failures: &BTreeMap<Rank, String>) -> Option<String> {
    failures.get(&first).map(|why| format!("{first}: {why}"))
}
