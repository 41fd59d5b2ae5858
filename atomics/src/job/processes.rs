//! A world of processes in one call, like [`World::threads`] for threads.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::FdFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::mapped::Mapped;
use crate::job::launch::{Launcher, Output};
use crate::join::environment::{self, Environment, Identity};
use crate::model::error::{of_rank, tell};
use crate::model::world::World;
use crate::{Error, Joined, Rank, Result, Topology, Wishes};

/// The exit code of a rank that could not join, or could not return its result.
const EXIT_NO_RANK: i32 = 2;
/// The exit code of a rank whose body has returned an error.
const EXIT_ERROR: i32 = 1;
/// The exit code of a rank that has panicked, like any Rust program.
const EXIT_PANIC: i32 = 101;

/// A world of processes, from [`World::processes`], on the backend `J`, by default over shared memory.
#[derive(Debug)]
#[must_use = "nothing happens before `run`"]
pub struct Processes<J = Mapped> {
    backend: PhantomData<fn() -> J>,
    size: u32,
    segment_bytes: Option<u64>,
    launcher: Launcher,
    /// True if the ranks run another program, or this program with other arguments.
    commanded: bool,
}

impl World {
    /// Makes a world of `size` ranks, each a process of this host, over shared memory.
    ///
    /// [`run`](Processes::run) starts this program again, once for each rank. In those processes the same call is the rank: it joins, runs
    /// the body, returns the result to the parent and ends the process.
    ///
    /// ```no_run
    /// use rmalab_atomics::{Rank, RemoteAtomics, World};
    ///
    /// let counts = World::processes(4).run(|ra| {
    ///     let counter = ra.heap().alloc(8, 8).expect("room for one word");
    ///     ra.fetch_add(Rank(0).at(counter), 1).expect("a word of rank 0")
    /// })?;
    /// assert_eq!(counts.iter().sum::<u64>(), 0 + 1 + 2 + 3);
    /// # Ok::<(), rmalab_atomics::Error>(())
    /// ```
    pub fn processes(size: u32) -> Processes {
        Processes { backend: PhantomData, size, segment_bytes: None, launcher: Launcher::new(size), commanded: false }
    }
}

impl<J: Joined> Processes<J> {
    /// Changes the backend.
    ///
    /// ```no_run
    /// # use rmalab_atomics::{Mapped, RemoteAtomics, World};
    /// # type Verbs = Mapped; // a backend of a network, where its feature is chosen
    /// let names = World::processes(4).over::<Verbs>().run(|ra| ra.capabilities().backend.to_owned())?;
    /// # Ok::<(), rmalab_atomics::Error>(())
    /// ```
    pub fn over<K: Joined>(self) -> Processes<K> {
        let Processes { size, segment_bytes, launcher, commanded, .. } = self;
        Processes { backend: PhantomData, size, segment_bytes, launcher, commanded }
    }

    fn launcher(mut self, change: impl FnOnce(Launcher) -> Launcher) -> Processes<J> {
        self.launcher = change(self.launcher);
        self
    }

    /// Sets the length of every rank's segment, in bytes.
    pub fn segment_bytes(mut self, bytes: u64) -> Processes<J> {
        self.segment_bytes = Some(bytes);
        self.launcher(|launcher| launcher.segment_bytes(bytes))
    }

    /// Places the ranks on nodes; by default the machine's own NUMA nodes.
    pub fn topology(self, topology: Topology) -> Processes<J> {
        self.launcher(|launcher| launcher.topology(topology))
    }

    /// Places blocks of `ranks` ranks on nodes.
    pub fn ranks_per_node(self, ranks: u32) -> Processes<J> {
        self.launcher(|launcher| launcher.ranks_per_node(ranks))
    }

    /// Sets the program and arguments of the ranks, instead of this program with its arguments.
    ///
    /// The program has to reach a call of [`run`](Self::run) for the same number of ranks. Its first such call is the rank.
    pub fn command<A: AsRef<OsStr>>(
        mut self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Processes<J> {
        self.commanded = true;
        self.launcher(|launcher| launcher.command(program, args))
    }

    /// Sets a variable in the environment of every rank.
    pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Processes<J> {
        self.launcher(|launcher| launcher.env(name, value))
    }

    /// Sets the destination of the ranks' output; see [`Launcher::output`].
    pub fn output(self, output: Output) -> Processes<J> {
        self.launcher(|launcher| launcher.output(output))
    }

    /// Sets the time in which other ranks may end after one rank has failed; see [`Launcher::grace`].
    pub fn grace(self, grace: Duration) -> Processes<J> {
        self.launcher(|launcher| launcher.grace(grace))
    }

    /// Kills all ranks when they have taken this long, see [`Launcher::time_limit`].
    pub fn time_limit(self, limit: Duration) -> Processes<J> {
        self.launcher(|launcher| launcher.time_limit(limit))
    }

    /// Runs `body` on every rank and returns the results in the order of the ranks.
    ///
    /// The effect of the call depends on how this process was started:
    ///
    /// * Without a launcher, the call starts the ranks and waits for them. Each rank runs the program from its start, so it also executes
    ///   everything before this call, and must reach the call. If a program has several such calls, each starts its own ranks, which must
    ///   reach *that* call first: a rank that reaches another one ends with an error. Such a program distinguishes its ranks by
    ///   [`env`](Self::env) or [`command`](Self::command).
    /// * Started by this call or by a [`Launcher`], the process is a rank. The call does not return. The process exits with 0, or with 101
    ///   after a panic. It exits with 1 when it has [left something undone](crate::RemoteAtomics::forsake), and with 2 when it could not join
    ///   (for instance a world of another size). A body that ends the process itself has failed, with any exit code.
    /// * Started by `mpirun` or `srun`, the process is a rank without a parent that gathers results. The call returns only this rank's
    ///   result. A launcher that has started a single process does not count.
    ///
    /// Results travel as JSON. Values that JSON cannot express (a NaN, a map with composite keys) are an error.
    ///
    /// # Errors
    ///
    /// [`Error::RankEnded`] when a rank has panicked, has been killed, or has failed otherwise; waits of the other ranks then return
    /// [`PeerFailed`](Error::PeerFailed). [`Error::World`] and [`Error::System`] when the ranks could not be started, or when a result is
    /// missing or is not a `T`.
    pub fn run<T: Serialize + DeserializeOwned>(self, body: impl FnOnce(&J) -> T) -> Result<Vec<T>> {
        self.try_run(|ra| Ok::<T, std::convert::Infallible>(body(ra)))
    }

    /// Does what [`run`](Self::run) does, for a body that can fail. A rank that returns an error has failed, as if it had panicked.
    ///
    /// The rank prints the error to standard error, and exits with 1.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub fn try_run<T, E>(self, body: impl FnOnce(&J) -> Result<T, E>) -> Result<Vec<T>>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
    {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
        match Environment::own().identity()? {
            Identity::Alone => self.start(call),
            Identity::Foreign { size: 1, .. } if self.size != 1 => self.start(call),
            Identity::Launched { rank, size, call: wanted, .. } => {
                let wrong = if size != self.size {
                    Some(format!("this call is for {} ranks, and {rank} is one of {size}", self.size))
                } else if wanted.is_some_and(|wanted| wanted != call) {
                    Some(format!("this is call {call} for a world of processes, and {rank} was started for another"))
                } else {
                    None
                };
                if let Some(wrong) = wrong {
                    give_up(rank, &wrong, EXIT_NO_RANK);
                }
                self.be(rank, body)
            }
            Identity::Foreign { rank, size, variable, .. } => {
                if size != self.size {
                    return Err(Error::world(format!(
                        "this world is to have {} ranks, and {rank} is one of {size} (by {variable})",
                        self.size
                    )));
                }
                let ra = self.join()?;
                // A panic continues from here, and drops the handle on its way, which notifies the others.
                match body(&ra) {
                    Ok(value) => match ra.forsaken() {
                        None => Ok(vec![value]),
                        Some(what) => {
                            ra.fail();
                            Err(Error::RankEnded { rank, how: format!("{rank} has left with {what}").into() })
                        }
                    },
                    Err(error) => {
                        ra.fail();
                        Err(Error::world(of_rank(rank, &error)))
                    }
                }
            }
        }
    }

    fn join(&self) -> Result<J> {
        J::join(Wishes { segment_bytes: self.segment_bytes, topology: self.launcher.placed()? })
    }

    /// Runs the parent's part.
    fn start<T: DeserializeOwned>(self, call: u32) -> Result<Vec<T>> {
        if let Some(how) = J::STARTED_BY {
            return Err(Error::world(format!("no launcher has started this process as a rank: {how}")));
        }
        let mut launcher = self.launcher.hub(J::MEETS);
        if !self.commanded {
            let program = std::env::current_exe()
                .ok()
                .filter(|program| program.exists())
                // Under this name the program is still available, even if its file has been replaced since the start.
                .unwrap_or_else(|| "/proc/self/exe".into());
            launcher = launcher.command(program, std::env::args_os().skip(1)).env(environment::CALL, call.to_string());
        }
        let outcome = launcher.spawn()?.wait()?;
        if let Some(rank) = outcome.first_failure {
            return Err(Error::RankEnded { rank, how: outcome.describe(rank).into() });
        }
        let results = outcome.results.iter().enumerate().map(|(rank, bytes)| {
            if bytes.is_empty() {
                return Err(Error::world(format!(
                    "rank {rank} has ended without a result: its program did not come to the call that it was started for"
                )));
            }
            serde_json::from_slice(bytes)
                .map_err(|error| Error::system(format!("reading the result of rank {rank}"), error))
        });
        results.collect()
    }

    /// Runs a rank's part.
    fn be<T: Serialize, E: Display>(self, rank: Rank, body: impl FnOnce(&J) -> Result<T, E>) -> ! {
        let joined = self.join().and_then(|ra| Ok((ra, result_pipe()?)));
        let (ra, result) = match joined {
            Ok(joined) => joined,
            Err(error) => give_up(rank, &error, EXIT_NO_RANK),
        };
        debug_assert_eq!(ra.rank(), rank);
        match catch_unwind(AssertUnwindSafe(|| body(&ra))) {
            Ok(Ok(value)) => {
                if let Some(what) = ra.forsaken() {
                    ra.fail();
                    give_up(rank, &format!("has left with {what}"), EXIT_ERROR);
                }
                if let Some(result) = result
                    && let Err(error) = hand_back(result, &value)
                {
                    ra.fail();
                    give_up(rank, &error, EXIT_NO_RANK);
                }
                drop(ra);
                std::process::exit(0)
            }
            Ok(Err(error)) => {
                ra.fail();
                give_up(rank, &error, EXIT_ERROR)
            }
            // The panic's message has already been printed.
            Err(_) => {
                ra.fail();
                std::process::exit(EXIT_PANIC)
            }
        }
    }
}

fn give_up(rank: Rank, why: &dyn Display, code: i32) -> ! {
    tell(format_args!("{}", of_rank(rank, why)));
    std::process::exit(code)
}

fn hand_back<T: Serialize>(mut pipe: File, value: &T) -> Result<()> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::system("writing the result as JSON", error))?;
    pipe.write_all(&bytes).map_err(|error| Error::system("handing the result back", error))
}

/// Returns the pipe that takes this rank's result. Called once, by the rank that has just joined.
fn result_pipe() -> Result<Option<File>> {
    let Some(number) = Environment::own().result_fd()? else { return Ok(None) };
    check_result_pipe(number)?;
    // SAFETY: it is open and is the writing end of a pipe (just checked). The environment names it as the launcher's
    // pipe, so nothing in this process owns it. A process joins once, and so calls this once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)
        .map_err(|error| Error::system("keeping the result's pipe from child processes", error))?;
    Ok(Some(File::from(fd)))
}

fn check_result_pipe(number: RawFd) -> Result<()> {
    let name = environment::RESULT_FD;
    if number < 3 {
        return Err(Error::world(format!("{name}={number} is a standard stream, not the pipe of the launcher")));
    }
    // SAFETY: the borrow ends with the checks, which fail without harm when nothing is open at this number. No code of
    // this process knows a descriptor that it has inherited, so none closes it during the checks.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let failed = |error| Error::system(format!("{name}={number} is not an open descriptor"), error);
    let stat = rustix::fs::fstat(fd).map_err(failed)?;
    let flags = rustix::fs::fcntl_getfl(fd).map_err(failed)?;
    let is_pipe = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    if !is_pipe || flags & OFlags::RWMODE != OFlags::WRONLY {
        return Err(Error::world(format!("{name}={number} is not the writing end of a pipe")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn only_the_writing_end_of_a_pipe_takes_results() {
        let (reader, writer) = std::io::pipe().unwrap();
        check_result_pipe(writer.as_raw_fd()).unwrap();
        for number in [-1, 0, 1, reader.as_raw_fd(), 999_999] {
            let error = check_result_pipe(number).unwrap_err().to_string();
            assert!(error.contains(&format!("RMALAB_RESULT_FD={number}")), "{error}");
        }
    }
}
