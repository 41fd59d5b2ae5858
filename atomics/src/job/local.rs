//! The `local` backend: ranks are threads of one process.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

use crate::backend::mapped::{Layout, Mapped, Mapping};
use crate::model::error::of_rank;
use crate::model::world::{SEGMENT_BYTES, SHARED_SEGMENT_BYTES, World};
use crate::{Error, Rank, RemoteAtomics, Result, Topology};

/// The mappings of a thread: its stack, the stack of its signal handlers, and a guard page of each.
const MAPPINGS_PER_THREAD: u32 = 4;

/// A result is stored in one move.
const NO_PANIC: &str = "no rank panics while it stores its result";

/// Refuses more threads than the kernel has mappings for. A thread that gets too few ends the process as it starts.
fn room_for_threads(size: u32) -> Result<()> {
    const LIMIT: &str = "/proc/sys/vm/max_map_count";
    // Other systems have no such limit.
    let limit = std::fs::read_to_string(LIMIT).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX);
    let most = limit / MAPPINGS_PER_THREAD;
    if size > most {
        return Err(Error::world(format!(
            "{size} ranks as threads are more than the {most} that {LIMIT} ({limit}) has room for"
        )));
    }
    Ok(())
}

/// A world of threads, from [`World::threads`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `run`"]
pub struct Threads {
    size: u32,
    segment_bytes: Option<u64>,
    topology: Option<Topology>,
}

impl World {
    /// Makes a world of `size` ranks, each a thread of this process.
    ///
    /// ```
    /// use rmalab_atomics::{Rank, RemoteAtomics, World};
    ///
    /// let counts = World::threads(4).run(|ra| {
    ///     let counter = ra.heap().alloc(8, 8).expect("room for one word");
    ///     ra.fetch_add(Rank(0).at(counter), 1).expect("a word of rank 0")
    /// })?;
    /// assert_eq!(counts.iter().sum::<u64>(), 0 + 1 + 2 + 3);
    /// # Ok::<(), rmalab_atomics::Error>(())
    /// ```
    pub fn threads(size: u32) -> Threads {
        Threads { size, segment_bytes: None, topology: None }
    }
}

impl Threads {
    /// Sets the length of every rank's segment, in bytes.
    pub fn segment_bytes(mut self, bytes: u64) -> Threads {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Places the ranks on nodes; by default the machine's own NUMA nodes.
    pub fn topology(mut self, topology: Topology) -> Threads {
        self.topology = Some(topology);
        self
    }

    /// Runs `body` on every rank at the same time and returns the results in the order of the ranks.
    ///
    /// A result is a value like any other, even an `Err`. A rank that returns it has left in good order, and another rank that waits
    /// for it waits forever. [`try_run`](Self::try_run) is for bodies that can fail.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when the world is empty or does not fit into memory, [`Error::System`] when the system does not provide the memory
    /// or a thread. [`Error::RankEnded`] when a rank has [left something undone](RemoteAtomics::forsake).
    ///
    /// # Panics
    ///
    /// When the first rank to fail has panicked, with its panic. Waits of the other ranks return [`Error::PeerFailed`], so that no rank waits
    /// forever.
    pub fn run<T: Send>(self, body: impl Fn(&Mapped) -> T + Sync) -> Result<Vec<T>> {
        self.try_run(|ra| Ok::<T, Infallible>(body(ra)))
    }

    /// Does what [`run`](Self::run) does, for a body that can fail. A rank that returns an error has failed, as if it had panicked.
    ///
    /// ```
    /// use rmalab_atomics::{Error, RemoteAtomics, Result, Until, World};
    ///
    /// let outcome = World::threads(2).try_run(|ra| -> Result<u64> {
    ///     if ra.rank().0 == 0 {
    ///         return Err(Error::world("no input"));
    ///     }
    ///     let word = ra.heap().alloc(8, 8)?;
    ///     ra.wait_until(word, Until::Ne(0)) // ends with `PeerFailed`
    /// });
    /// assert_eq!(outcome.unwrap_err().to_string(), "rank 0: no input");
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), and [`Error::World`] with the error of the first rank whose body failed.
    ///
    /// # Panics
    ///
    /// When the first rank to fail has panicked.
    pub fn try_run<T: Send, E: Display>(self, body: impl Fn(&Mapped) -> Result<T, E> + Sync) -> Result<Vec<T>> {
        room_for_threads(self.size)?;
        let results: Vec<Mutex<Option<T>>> = (0..self.size).map(|_| Mutex::new(None)).collect();
        self.run_each(&|ra| {
            let value = body(ra).map_err(|error| of_rank(ra.rank(), &error))?;
            *results[ra.rank().index()].lock().expect(NO_PANIC) = Some(value);
            Ok(())
        })?;
        Ok(results
            .into_iter()
            .map(|result| result.into_inner().expect(NO_PANIC).expect("all ranks have ended"))
            .collect())
    }

    /// Runs a body that keeps its own results, so that a world of threads is compiled once for all of them.
    fn run_each(self, body: &(dyn Fn(&Mapped) -> Result<(), String> + Sync)) -> Result<()> {
        let topology = self.topology.unwrap_or_else(|| Topology::of_machine(self.size));
        let mapping = Layout::new(self.size, self.segment_bytes.unwrap_or(SHARED_SEGMENT_BYTES))
            .and_then(Mapping::anonymous)
            .or_else(|error| match self.segment_bytes {
                None => Mapping::anonymous(Layout::new(self.size, SEGMENT_BYTES)?),
                Some(_) => Err(error),
            });
        let mapping = Arc::new(mapping?);
        let ranks = (0..self.size)
            .map(|rank| Mapped::new(Arc::clone(&mapping), Rank(rank), topology.clone(), "local"))
            .collect::<Result<Vec<Mapped>>>()?;
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(ranks.len());
            let mut refused = None;
            for ra in ranks {
                let rank = ra.rank();
                let builder = std::thread::Builder::new().name(format!("rank {}", rank.0));
                // The handle moves into the thread, and leaves the world when the thread is done or unwinds.
                match builder.spawn_scoped(scope, move || {
                    let ra = ra;
                    match body(&ra) {
                        Ok(()) => match ra.forsaken() {
                            None => Ok(()),
                            Some(what) => {
                                Err(Error::RankEnded { rank, how: format!("{rank} has left with {what}").into() })
                            }
                        },
                        Err(error) => {
                            ra.fail();
                            Err(Error::world(error))
                        }
                    }
                }) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        // Running ranks must not wait for ranks that will never start.
                        mapping.mark_failed(rank);
                        refused = Some(Error::system(format!("starting a thread for {rank}"), error));
                        break;
                    }
                }
            }
            let mut failures = Vec::new();
            for (rank, thread) in threads.into_iter().enumerate() {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => failures.push((rank, Ok(error))),
                    Err(panic) => failures.push((rank, Err(panic))),
                }
            }
            if let Some(error) = refused {
                return Err(error);
            }
            if failures.is_empty() {
                return Ok(());
            }
            let first = mapping.failed().map(Rank::index);
            let at = failures.iter().position(|&(rank, _)| Some(rank) == first).unwrap_or(0);
            match failures.swap_remove(at).1 {
                Ok(error) => Err(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}
