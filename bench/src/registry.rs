//! The subjects of the studies: every lock by its one name.

mod standard;

use std::sync::Arc;

use rmalab_atomics::sim::Sim;
use rmalab_atomics::{Mapped, Rank, RemoteAtomics};
use rmalab_locks::{Exclusive, Global, GlobalParams, RawMutex, RawRwLock, WindowLock};

use crate::simulate::{Shared, Times, run_rank};
use crate::study::{Bound, Running};
use crate::{Error, Result, names};

/// What is known of a subject before it is measured.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The name on the command line, in tables and in plots.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// Where it was published.
    pub paper: String,
    /// Who may be passed by whom.
    pub fairness: String,
    /// Whether it excludes at all; what does not is a bound to compare with, and no lock.
    pub excludes: bool,
    /// Its place among all subjects, by which plots choose its colour and its mark.
    pub place: usize,
    /// Whether each rank has something for each target, so that it takes memory by the square of the number of ranks.
    #[serde(skip)]
    pub(crate) square: bool,
}

impl Info {
    fn new(name: &str, description: &str) -> Info {
        Info {
            name: name.into(),
            description: description.into(),
            paper: String::new(),
            fairness: String::new(),
            excludes: true,
            place: 0,
            square: false,
        }
    }

    /// Says where the lock was published.
    pub fn paper(&mut self, paper: &str) -> &mut Info {
        self.paper = paper.into();
        self
    }

    /// Says who may be passed by whom.
    pub fn fairness(&mut self, fairness: &str) -> &mut Info {
        self.fairness = fairness.into();
        self
    }

    /// Says that each rank has something for each target; simulations then know how many ranks fit into memory.
    pub fn state_by_target(&mut self) -> &mut Info {
        self.square = true;
        self
    }

    /// Says that it excludes nobody.
    pub fn excludes_nobody(&mut self) -> &mut Info {
        self.excludes = false;
        self
    }
}

/// Makes one rank's part of a lock whose global words are at a home rank.
type Bind = dyn Fn(&Mapped, Rank) -> rmalab_locks::Result<Box<dyn Bound<Mapped>>> + Send + Sync;

/// The same on any backend.
type BindAny = dyn for<'a> Fn(&(dyn RemoteAtomics + 'a), Rank) -> rmalab_locks::Result<Box<dyn Bound<dyn RemoteAtomics + 'a>>>
    + Send
    + Sync;

/// Makes one rank's part of a lock in a simulation, and does with it what is shared.
pub(crate) type Simulated = dyn for<'t> Fn(&Sim<'t>, &Shared) -> rmalab_locks::Result<Times> + Send + Sync;

/// What a study runs on: shared memory itself, or any backend behind a table of functions.
pub(crate) trait Studied: RemoteAtomics {
    /// Acquisitions between two looks at the clock in the throughput pass.
    ///
    /// Reading the clock takes some 25 ns, the cheapest lock of shared memory 10: one reading in 16 acquisitions stays
    /// below a fifth of it. A network's operations take a microsecond at the least.
    const BATCH: u64;

    /// Whether all ranks read the same clock, as those of one host do.
    const ONE_CLOCK: bool;

    /// This rank's part of the subject.
    fn bind(&self, subject: &Subject, home: Rank) -> rmalab_locks::Result<Box<dyn Bound<Self>>>;
}

impl Studied for Mapped {
    const BATCH: u64 = 16;
    const ONE_CLOCK: bool = true;

    fn bind(&self, subject: &Subject, home: Rank) -> rmalab_locks::Result<Box<dyn Bound<Mapped>>> {
        (subject.bind)(self, home)
    }
}

impl<'a> Studied for dyn RemoteAtomics + 'a {
    const BATCH: u64 = 1;
    const ONE_CLOCK: bool = false;

    fn bind(&self, subject: &Subject, home: Rank) -> rmalab_locks::Result<Box<dyn Bound<dyn RemoteAtomics + 'a>>> {
        (subject.bind_any)(self, home)
    }
}

/// One lock or window policy that can be put through a study, or a simulation.
pub struct Subject {
    info: Info,
    bind: Box<Bind>,
    bind_any: Box<BindAny>,
    simulated: Arc<Simulated>,
}

impl Subject {
    fn new<W: WindowLock + 'static>(info: Info, params: impl Fn(Rank) -> W::Params + Send + Sync + 'static) -> Subject {
        let params = Arc::new(params);
        let (any, simulated) = (Arc::clone(&params), Arc::clone(&params));
        Subject {
            info,
            bind: Box::new(move |ra, home| Ok(Box::new(Running::new(W::new(ra, params(home))?)))),
            bind_any: Box::new(move |ra, home| Ok(Box::new(Running::new(W::new(ra, any(home))?)))),
            simulated: Arc::new(move |ra: &Sim<'_>, shared: &Shared| {
                run_rank(|| W::new(ra, simulated(shared.task.home)), ra, shared)
            }),
        }
    }

    /// What is known of it.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// This rank's part of a new one, its global words at `home`; every rank calls this at the same point.
    pub(crate) fn bind<A: Studied + ?Sized>(&self, ra: &A, home: Rank) -> Result<Box<dyn Bound<A>>> {
        ra.bind(self, home).map_err(|source| Error::Lock { lock: self.info.name.clone(), source })
    }

    /// What a rank of a simulation does with it.
    pub(crate) fn simulated(&self) -> Arc<Simulated> {
        Arc::clone(&self.simulated)
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The subjects that a study can choose from.
///
/// An outside lock comes in by one line:
///
/// ```
/// # fn add<MyLock: rmalab_locks::RawRwLock + 'static>() {
/// let mut registry = rmalab::Registry::standard();
/// registry.add_rw_lock::<MyLock>("the lock of my paper").paper("Me, 2027").fairness("first come, first served");
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Registry {
    subjects: Vec<Subject>,
}

impl Registry {
    /// A registry with nothing in it.
    pub fn empty() -> Registry {
        Registry::default()
    }

    /// Every lock and every policy of the workspace.
    pub fn standard() -> Registry {
        let mut registry = Registry::empty();
        standard::fill(&mut registry);
        registry
    }

    /// Adds a reader-writer lock, under its own name, as a window policy with one lock for all targets.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_rw_lock<L: RawRwLock + 'static>(&mut self, description: &str) -> &mut Info {
        let params = |home| GlobalParams { home, lock: L::Params::default() };
        self.add(Subject::new::<Global<L>>(Info::new(L::NAME, description), params))
    }

    /// Adds a mutex, under its own name: its readers exclude one another like its writers.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_mutex<M: RawMutex + 'static>(&mut self, description: &str) -> &mut Info {
        self.add_rw_lock::<Exclusive<M>>(description)
    }

    /// Adds a window policy; `params` gets the rank where the study wants its global words.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_policy<W: WindowLock + 'static>(
        &mut self,
        description: &str,
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> &mut Info {
        self.add(Subject::new::<W>(Info::new(W::NAME, description), params))
    }

    /// Gives the subject of that name other parameters.
    pub(crate) fn replace<W: WindowLock + 'static>(
        &mut self,
        name: &str,
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) {
        if let Some(subject) = self.subjects.iter_mut().find(|subject| subject.info.name == name) {
            *subject = Subject::new::<W>(subject.info.clone(), params);
        }
    }

    fn add(&mut self, mut subject: Subject) -> &mut Info {
        let name = &subject.info.name;
        assert!(self.subjects().all(|other| other.info.name != *name), "two subjects are called '{name}'");
        subject.info.place = self.subjects.len();
        self.subjects.push(subject);
        &mut self.subjects.last_mut().expect("a subject was just added").info
    }

    /// All subjects, in the order in which they were added.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.subjects.iter()
    }

    /// The subject called `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`], which names those that there are, the most similar one first.
    pub fn find(&self, name: &str) -> Result<&Subject> {
        self.subjects()
            .find(|subject| subject.info.name == name)
            .ok_or_else(|| names::unknown("lock", name, self.subjects().map(|subject| subject.info.name.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_brings_the_closest_one() {
        let message = Registry::standard().find("mcs-rw-pr").unwrap_err().to_string();
        assert!(message.contains("did you mean 'mcs-rw-"), "{message}");
        assert!(message.contains("ticket"), "{message}");
    }

    /// What a window can be asked for by name is what the studies measure.
    #[test]
    fn windows_know_the_same_names() {
        let registry = Registry::standard();
        let mut subjects: Vec<&str> = registry.subjects().map(|subject| subject.info().name.as_str()).collect();
        let mut policies = rmalab_locks::PolicyKind::NAMES.to_vec();
        subjects.sort_unstable();
        policies.sort_unstable();
        assert_eq!(policies, subjects);
    }

    #[test]
    fn every_standard_subject_is_described() {
        for subject in Registry::standard().subjects() {
            let Info { name, description, paper, fairness, .. } = subject.info();
            assert!(!description.is_empty() && !paper.is_empty() && !fairness.is_empty(), "{name}");
        }
    }
}
