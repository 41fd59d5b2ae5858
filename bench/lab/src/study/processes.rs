//! Worlds of processes.
//!
//! As a rule the program starts itself again as each rank. A rank learns what to do from an environment variable. What
//! rank 0 has to say it writes on its standard output, one line each, marked so that nothing else that a rank may print
//! is taken for it.
//!
//! In a *job* somebody else (`mpirun`, `srun`, `rmalab launch`) has started the program as all ranks already. They join
//! one world, of which smaller ones are [`Subset`]s, while the other ranks wait; rank 0 hears itself.

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
    let stop = Arc::<AtomicBool>::default();
    rmalab_job::interrupt::sets(&stop)?;
    let failed = |error: Error| tell(Message::Failed(error.to_string()));
    if task.backend == Backend::Shm {
        let ra = shm::attach().unwrap_or_else(|error| {
            failed(error.into());
            std::process::exit(1)
        });
        if let Err(error) = rank::measure(&ra, Some(&ra), registry, task.backend, &task.options, &stop, &tell) {
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
        if let Err(error) = rank::measure(member.atomics(), None, registry, task.backend, &task.options, &stop, &tell) {
            failed(error);
            member.fail();
            std::process::exit(1)
        }
        drop(member);
    }
    std::process::exit(0)
}

/// Tells whoever has started this process as a rank.
#[allow(clippy::needless_pass_by_value, reason = "as what is told on a thread, where it is passed on")]
fn tell(message: Message) {
    let text = serde_json::to_string(&message).expect("messages are JSON");
    // Whoever has started this rank has gone away if nobody reads; the rank ends with it.
    let _ = writeln!(std::io::stdout().lock(), "{MARK}{text}");
}

/// What a rank asks of its world.
fn wishes(segment_bytes: u64) -> Wishes {
    let mut wishes = Wishes::default();
    wishes.segment_bytes = Some(segment_bytes);
    wishes
}

impl WorldOfStudy<'_> {
    /// Runs the world as processes; `hear` is told what rank 0 says.
    pub(super) fn processes(&self, stop: &AtomicBool, hear: &mut dyn FnMut(Message)) -> Result<()> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Ranks(format!("cannot find this program's file, which its ranks run: {error}")))?;
        let task = RankTask { backend: self.backend, options: self.options.clone() };
        let (tell, said) = mpsc::channel();
        let output = move |line: Line<'_>| {
            let text = String::from_utf8_lossy(line.bytes);
            match (line.stream, text.strip_prefix(MARK).map(serde_json::from_str)) {
                (Stream::Out, Some(Ok(message))) => drop(tell.send((line.rank, message))),
                _ => say!("{}: {text}", line.rank),
            }
        };
        let job = Launcher::new(self.ranks)
            .command(program, [] as [&str; 0])
            .env(TASK, serde_json::to_string(&task).expect("options are JSON"))
            .segment_bytes(SEGMENT_BYTES)
            .hub(self.backend.meets())
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

/// Bytes of a rank's segment in a job: those of a world of the study, and room for what the whole job meets by.
const JOB_SEGMENT_BYTES: u64 = SEGMENT_BYTES + (256 << 10);

impl Study<'_> {
    /// Measures all worlds as one rank of a job of `size` ranks; `hear` is told what comes out, on rank 0.
    ///
    /// A rank that fails says so and ends the process, since the others may wait for it.
    pub(super) fn job(&self, size: u32, stop: &AtomicBool, hear: &mut dyn FnMut(Message)) -> Result<()> {
        let backend = self.options.backends[0];
        let mut wishes = wishes(JOB_SEGMENT_BYTES);
        if let Some(ranks) = self.options.ranks_per_node {
            wishes.topology = Some(Topology::blocks(size, ranks, 1)?);
        }
        let member = backend.join(wishes)?;
        let rank = member.atomics().rank();
        if let Err(error) = self.worlds_of_job(member.atomics(), backend, stop, hear) {
            // The others need not repeat which rank has failed.
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
        hear: &mut dyn FnMut(Message),
    ) -> Result<()> {
        let hear = RefCell::new(hear);
        let tell = |message| (hear.borrow_mut())(message);
        let all = Collectives::new(ra)?;
        for &ranks in &self.options.ranks {
            let members: Vec<Rank> = (0..ranks).map(Rank).collect();
            let part = Subset::of_with_arena(ra, &members, SEGMENT_BYTES)?;
            if let Some(part) = &part {
                rank::measure(part, None, self.registry, backend, &self.options, stop, &tell)?;
            }
            // Here the other ranks wait.
            let stopped = all.allgather(&[u64::from(stop.load(Ordering::Relaxed))])?.contains(&1);
            Subset::free(part, &all)?;
            if stopped {
                tell(Message::Interrupted);
                break;
            }
        }
        Ok(())
    }
}
