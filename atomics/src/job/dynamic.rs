//! A backend that is chosen by its name when the program runs.
//!
//! Everything here goes through `dyn RemoteAtomics`, so a program has one copy of its code for all backends. That adds a few nanoseconds to
//! each operation, which do not matter compared to a network's microseconds. To measure shared memory, use [`Mapped`] itself.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::join::environment::{Environment, Identity};
use crate::{Error, Joined, Mapped, Output, Rank, RemoteAtomics, Result, Wishes, World};

/// A backend whose ranks a program can be, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Backend {
    /// Threads of one process.
    Local,
    /// Processes of one host, over shared memory.
    Shm,
    /// Processes over RDMA; feature `verbs`.
    Verbs,
    /// Processes of an MPI job; feature `mpi`.
    Mpi,
}

impl Backend {
    /// All backends, including those that are missing in this program.
    pub const ALL: [Backend; 4] = [Backend::Local, Backend::Shm, Backend::Verbs, Backend::Mpi];

    /// Returns the name that `--backend` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Local => "local",
            Backend::Shm => "shm",
            Backend::Verbs => "verbs",
            Backend::Mpi => "mpi",
        }
    }

    /// Returns a description of one line.
    pub const fn description(self) -> &'static str {
        match self {
            Backend::Local => "ranks are threads of one process",
            Backend::Shm => "ranks are processes of this host over shared memory",
            Backend::Verbs => "ranks are processes over RDMA: InfiniBand, RoCE, Soft-RoCE",
            Backend::Mpi => "ranks are processes of an MPI job, over MPI-3's remote memory access",
        }
    }

    /// Returns whether this program was built with the backend.
    pub const fn is_built(self) -> bool {
        match self {
            Backend::Local | Backend::Shm => true,
            Backend::Verbs => cfg!(feature = "verbs"),
            Backend::Mpi => cfg!(feature = "mpi"),
        }
    }

    /// Returns an error that explains how to build it, if this program was built without it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`].
    pub const fn check_built(self) -> Result<()> {
        match self {
            Backend::Verbs if !self.is_built() => Err(Error::Unsupported {
                what: "the backend verbs",
                why: "this program was built without it; add `--features verbs` to the cargo command (needs cmake and libclang)",
            }),
            Backend::Mpi if !self.is_built() => Err(Error::Unsupported {
                what: "the backend mpi",
                why: "this program was built without it; add `--features mpi` to the cargo command (needs an MPI's mpicc and libclang)",
            }),
            _ => Ok(()),
        }
    }

    /// Returns the way to start its ranks, if only another launcher can start them.
    pub const fn started_by(self) -> Option<&'static str> {
        match self {
            #[cfg(feature = "verbs")]
            Backend::Verbs => <crate::backend::verbs::Verbs as Joined>::STARTED_BY,
            #[cfg(feature = "mpi")]
            Backend::Mpi => <crate::backend::mpi::Mpi as Joined>::STARTED_BY,
            _ => None,
        }
    }

    /// Returns whether its ranks meet through a hub, which their launcher has to [open](crate::Launcher::hub).
    pub const fn meets(self) -> bool {
        match self {
            #[cfg(feature = "verbs")]
            Backend::Verbs => <crate::backend::verbs::Verbs as Joined>::MEETS,
            #[cfg(feature = "mpi")]
            Backend::Mpi => <crate::backend::mpi::Mpi as Joined>::MEETS,
            _ => false,
        }
    }

    /// Joins the world of this process. Call it once. See [`Joined::join`].
    ///
    /// # Errors
    ///
    /// The errors of the backend; [`Error::Unsupported`] when this program was built without it, and [`Error::World`]
    /// for `local`, whose ranks are not processes.
    pub fn join(self, wishes: Wishes) -> Result<Member> {
        match self {
            Backend::Local => Err(Error::world("local: its ranks are threads, which join nothing")),
            Backend::Shm => Member::join::<Mapped>(wishes),
            #[cfg(feature = "verbs")]
            Backend::Verbs => Member::join::<crate::backend::verbs::Verbs>(wishes),
            #[cfg(feature = "mpi")]
            Backend::Mpi => Member::join::<crate::backend::mpi::Mpi>(wishes),
            #[allow(unreachable_patterns)] // with all features
            _ => Err(self.missing()),
        }
    }

    /// Runs `body` on `ranks` ranks and returns the results in their order, like [`Processes::try_run`], which documents when the call does
    /// not return, or returns one result. Processes write to the program's streams.
    ///
    /// ```
    /// use rmalab_atomics::{Backend, Rank, Result};
    ///
    /// let backend: Backend = "local".parse()?;
    /// let counts: Vec<u64> = backend.try_run(3, |ra| -> Result<u64> {
    ///     let counter = ra.heap().alloc(8, 8)?;
    ///     ra.fetch_add(Rank(0).at(counter), 1)
    /// })?;
    /// assert_eq!(counts.iter().sum::<u64>(), 0 + 1 + 2);
    /// # Ok::<(), rmalab_atomics::Error>(())
    /// ```
    ///
    /// [`Processes::try_run`]: crate::Processes::try_run
    ///
    /// # Errors
    ///
    /// The errors of [`Processes::try_run`]. For threads, [`Error::World`] with the error of the first rank whose body failed.
    pub fn try_run<T, E>(self, ranks: u32, body: impl Fn(&dyn RemoteAtomics) -> Result<T, E> + Sync) -> Result<Vec<T>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display,
    {
        match self {
            Backend::Local => World::threads(ranks).try_run(|ra| body(ra)),
            Backend::Shm => processes::<Mapped, T, E>(ranks, body),
            #[cfg(feature = "verbs")]
            Backend::Verbs => processes::<crate::backend::verbs::Verbs, T, E>(ranks, body),
            #[cfg(feature = "mpi")]
            Backend::Mpi => processes::<crate::backend::mpi::Mpi, T, E>(ranks, body),
            #[allow(unreachable_patterns)] // with all features
            _ => Err(self.missing()),
        }
    }

    /// Returns the error for a backend that this program was built without.
    fn missing(self) -> Error {
        match self.check_built() {
            Err(error) => error,
            Ok(()) => Error::world(format!("the backend {self} has no ranks here")),
        }
    }
}

fn processes<J: Joined, T, E>(ranks: u32, body: impl Fn(&dyn RemoteAtomics) -> Result<T, E>) -> Result<Vec<T>>
where
    T: Serialize + DeserializeOwned,
    E: Display,
{
    World::processes(ranks).output(Output::Inherit).over::<J>().try_run(|ra| body(ra))
}

impl Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(name: &str) -> Result<Backend> {
        let backend = Backend::ALL.into_iter().find(|backend| backend.name() == name);
        backend.ok_or_else(|| {
            Error::world(format!(
                "no backend is called '{name}': there are {}",
                Backend::ALL.map(Backend::name).join(", ")
            ))
        })
    }
}

/// A rank that is a process, on a backend that was chosen by name; from [`Backend::join`].
pub struct Member(Box<dyn Leave>);

trait Leave {
    fn atomics(&self) -> &dyn RemoteAtomics;
    fn fail(self: Box<Self>);
}

impl<J: Joined + 'static> Leave for J {
    fn atomics(&self) -> &dyn RemoteAtomics {
        self
    }

    fn fail(self: Box<Self>) {
        Joined::fail(*self);
    }
}

impl Member {
    fn join<J: Joined + 'static>(wishes: Wishes) -> Result<Member> {
        Ok(Member(Box::new(J::join(wishes)?)))
    }

    /// Returns the rank's operations.
    pub fn atomics(&self) -> &dyn RemoteAtomics {
        self.0.atomics()
    }

    /// Leaves the world as failed, see [`Joined::fail`].
    pub fn fail(self) {
        self.0.fail();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ra = self.atomics();
        f.debug_struct("Member").field("backend", &ra.capabilities().backend).field("rank", &ra.rank()).finish()
    }
}

/// Returns this process's rank and the number of ranks, if a launcher has started it: this crate's, `mpirun` or `srun`.
///
/// # Errors
///
/// [`Error::World`] when the launcher's variables contradict each other.
pub fn started_as() -> Result<Option<(Rank, u32)>> {
    Ok(match Environment::own().identity()? {
        Identity::Alone => None,
        Identity::Launched { rank, size, .. } | Identity::Foreign { rank, size, .. } => Some((rank, size)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Until;

    #[test]
    fn names_are_read_as_they_are_written() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse::<Backend>().unwrap(), backend);
            assert_eq!(backend.check_built().is_ok(), backend.is_built());
        }
        let error = "infiniband".parse::<Backend>().unwrap_err().to_string();
        assert_eq!(error, "no backend is called 'infiniband': there are local, shm, verbs, mpi");
    }

    #[test]
    fn the_error_of_a_missing_backend_says_how_to_build_it() {
        for backend in Backend::ALL.into_iter().filter(|backend| !backend.is_built()) {
            let flag = format!("--features {backend}");
            let ran = backend.try_run(2, |_| Ok::<(), Error>(())).unwrap_err().to_string();
            let joined = backend.join(Wishes::default()).unwrap_err().to_string();
            assert!(ran.contains(&flag) && joined.contains(&flag), "{ran}, {joined}");
        }
    }

    #[test]
    fn a_thread_whose_body_fails_is_named_and_no_thread_waits_for_it() {
        let outcome = Backend::Local.try_run(3, |ra| {
            if ra.rank() == Rank(1) {
                return Err("out of ideas".to_owned());
            }
            let word = ra.heap().alloc(8, 8).map_err(|error| error.to_string())?;
            ra.wait_until(word, Until::Ne(0)).map_err(|error| error.to_string())
        });
        assert_eq!(outcome.unwrap_err().to_string(), "rank 1: out of ideas");
        let outcome = Backend::Local.try_run(1, |ra| Err::<(), _>(format!("{}: no epoch", ra.rank())));
        assert_eq!(outcome.unwrap_err().to_string(), "rank 0: no epoch", "the error names its rank already");
    }

    #[test]
    #[should_panic(expected = "a bug")]
    fn a_panic_goes_on() {
        let _ = Backend::Local.try_run(2, |_| -> Result<()> { panic!("a bug") });
    }
}
