//! Worlds of processes.
//!
//! By default, the program starts itself again as each rank. An environment variable has the rank's task. Rank 0 writes
//! its messages to its standard output, one on each line, with a mark that distinguishes them from other output of a
//! rank.
//!
//! In a *job*, a launcher (`mpirun`, `srun`, `rmalab launch`) has already started the program as all ranks. They join
//! one world. Smaller worlds are [`Subset`]s of it, while the other ranks wait. Rank 0 receives its own messages.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use rmalab_atomics::{
    Backend, Collectives, Launcher, Line, Output, Rank, RemoteAtomics, Stream, Subset, Topology, Wishes, shm,
};
use rmalab_job::say;
use serde::{Deserialize, Serialize};

use super::outcome::Message;
use super::rank::{self, SEGMENT_BYTES};
use super::{Options, Study, WorldOfStudy};
use crate::Registry;
use rmalab_job::{Error, Result};

/// The environment variable with the task of a rank of a study.
const TASK: &str = "RMALAB_STUDY_TASK";

/// The prefix of output lines for the study.
const MARK: &str = "rmalab-study ";

/// The task of a rank.
#[derive(Debug, Serialize, Deserialize)]
struct RankTask {
    backend: Backend,
    options: Options,
}

/// Runs the task of a rank and ends the process, if it was started as a rank of a study; otherwise does nothing.
///
/// # Errors
///
/// [`Error::Ranks`] for an invalid task.
pub fn serve(registry: &Registry) -> Result<()> {
    let Some(task) = std::env::var_os(TASK) else { return Ok(()) };
    let task: RankTask = serde_json::from_slice(task.as_encoded_bytes())
        .map_err(|error| Error::Ranks(format!("{TASK}: {error}; only the program itself sets it, for its ranks")))?;
    let stop = Arc::<AtomicBool>::default();
    rmalab_job::interrupt::sets(&stop)?;
    let failed = |error: Error| report(Message::Failed(error.to_string()));
    if task.backend == Backend::Shm {
        let ra = shm::attach().unwrap_or_else(|error| {
            failed(error.into());
            std::process::exit(1)
        });
        if let Err(error) = rank::measure(&ra, Some(&ra), registry, task.backend, &task.options, &stop, &report) {
            failed(error);
            ra.fail();
            std::process::exit(1)
        }
        drop(ra);
    } else {
        let member = task.backend.join(wishes(SEGMENT_BYTES)).unwrap_or_else(|error| {
            failed(error.into());
            std::process::exit(1)
        });
        if let Err(error) = rank::measure(member.atomics(), None, registry, task.backend, &task.options, &stop, &report)
        {
            failed(error);
            member.fail();
            std::process::exit(1)
        }
        drop(member);
    }
    std::process::exit(0)
}

/// Reports to the process that started this rank.
#[allow(
    clippy::needless_pass_by_value,
    reason = "same signature as the closure of the threads, which sends the message"
)]
fn report(message: Message) {
    let text = serde_json::to_string(&message).expect("messages are JSON");
    // If no process reads the output, the process that started this rank is gone, and the rank ends with it.
    let _ = writeln!(std::io::stdout().lock(), "{MARK}{text}");
}

/// The rank's wishes for its world.
fn wishes(segment_bytes: u64) -> Wishes {
    let mut wishes = Wishes::default();
    wishes.segment_bytes = Some(segment_bytes);
    wishes
}

impl WorldOfStudy<'_> {
    /// Runs the world as processes; `receive` gets the messages of rank 0.
    pub(super) fn processes(&self, stop: &AtomicBool, receive: &mut dyn FnMut(Message)) -> Result<()> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Ranks(format!("cannot find this program's file, which its ranks run: {error}")))?;
        let task = RankTask { backend: self.backend, options: self.options.clone() };
        let (report, messages) = mpsc::channel();
        let output = move |line: Line<'_>| {
            let text = String::from_utf8_lossy(line.bytes);
            match (line.stream, text.strip_prefix(MARK).map(serde_json::from_str)) {
                (Stream::Out, Some(Ok(message))) => drop(report.send((line.rank, message))),
                _ => say!("{}: {text}", line.rank),
            }
        };
        let job = Launcher::new(self.ranks)
            .command(program, [] as [&str; 0])
            .env(TASK, serde_json::to_string(&task).expect("options are JSON"))
            .segment_bytes(self.segment_bytes())
            .hub(self.backend.meets())
            .topology(self.topology()?)
            .output(Output::Lines(Box::new(output)))
            .spawn()?;
        // The channel closes when the launcher drops the function, after the last line of the last rank.
        let mut failures = BTreeMap::new();
        for (rank, message) in messages {
            match message {
                Message::Failed(why) => drop(failures.insert(rank, why)),
                message => receive(message),
            }
        }
        let ended = job.wait()?;
        match ended.first_failure {
            None => Ok(()),
            // The user ended the study ahead of the point at which a rank handles signals.
            Some(_) if stop.load(Ordering::Relaxed) => {
                receive(Message::Interrupted);
                Ok(())
            }
            Some(rank) => Err(Error::Ranks(failure(rank, &failures).unwrap_or_else(|| ended.describe(rank)))),
        }
    }
}

/// The error message of the rank that failed first, if there is one.
fn failure(first: Rank, failures: &BTreeMap<Rank, String>) -> Option<String> {
    failures.get(&first).map(|why| format!("{first}: {why}"))
}

/// Bytes of a rank's segment in a job: the segment of a world of the study, and room for the synchronization of the
/// job.
const JOB_SEGMENT_BYTES: u64 = SEGMENT_BYTES + (256 << 10);

impl Study<'_> {
    /// Measures all worlds as one rank of a job of `size` ranks; on rank 0, `receive` gets the results.
    ///
    /// A rank that fails prints the error and ends the process, since other ranks may wait for it.
    pub(super) fn job(&self, size: u32, stop: &AtomicBool, receive: &mut dyn FnMut(Message)) -> Result<()> {
        let backend = self.options.backends[0];
        let mut wishes = wishes(JOB_SEGMENT_BYTES);
        if let Some(ranks) = self.options.ranks_per_node {
            wishes.topology = Some(Topology::blocks(size, ranks, 1)?);
        }
        let member = backend.join(wishes)?;
        let rank = member.atomics().rank();
        if let Err(error) = self.worlds_of_job(member.atomics(), backend, stop, receive) {
            // One report of the failed rank is enough.
            if rank.0 == 0 || !error.is_peer_failure() {
                say!("error: {rank}: {error}");
            }
            member.fail();
            std::process::exit(1)
        }
        Ok(())
    }

    fn worlds_of_job(
        &self,
        ra: &dyn RemoteAtomics,
        backend: Backend,
        stop: &AtomicBool,
        receive: &mut dyn FnMut(Message),
    ) -> Result<()> {
        let receive = RefCell::new(receive);
        let report = |message| (receive.borrow_mut())(message);
        let all = Collectives::new(ra)?;
        for &ranks in &self.options.ranks {
            let members: Vec<Rank> = (0..ranks).map(Rank).collect();
            let part = Subset::of_with_arena(ra, &members, SEGMENT_BYTES)?;
            if let Some(part) = &part {
                rank::measure(part, None, self.registry, backend, &self.options, stop, &report)?;
            }
            // Here the other ranks wait.
            let stopped = all.allgather(&[u64::from(stop.load(Ordering::Relaxed))])?.contains(&1);
            Subset::free(part, &all)?;
            if stopped {
                report(Message::Interrupted);
                break;
            }
        }
        Ok(())
    }
}
