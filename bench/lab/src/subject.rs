//! A lock under test: its description, and the functions that make a rank's part of it for each kind of run.

pub(crate) mod any_lock;
pub(crate) mod lock_table;
pub(crate) mod over_table;
pub(crate) mod passes;

use std::sync::Arc;

use any_lock::AnyLock;
use over_table::OverTable;
use passes::{Anywhere, OnMemory, Passes};
use rmalab_atomics::{Mapped, Rank, RemoteAtomics};
use rmalab_job::{Error, Result};
use rmalab_locks::WindowLock;
use rmalab_verify::subject::{Holds, Order};

use crate::advise::Advised;
use crate::workload::Layout;

/// Kinds of subjects: plots show the subjects of a kind together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A reader-writer lock.
    ReaderWriter,
    /// A lock policy of a window.
    Policy,
}

impl Kind {
    /// The plural in headings.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Mutex => "mutexes",
            Kind::ReaderWriter => "reader-writer locks",
            Kind::Policy => "window policies",
        }
    }
}

/// The description of a subject.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The name on the command line, in tables and in plots.
    pub name: String,
    /// One line of description.
    pub description: String,
    /// Its kind.
    pub kind: Kind,
    /// The publication.
    pub paper: String,
    /// Fairness: the ranks that may pass other ranks.
    pub fairness: String,
    /// True if it excludes anything. A subject that does not is no lock, but a bound for comparisons.
    pub excludes: bool,
    /// Its index among all subjects. Plots choose its colour and mark by it.
    pub place: usize,
    /// True if each rank has state for each target, so that memory grows with the square of the number of ranks.
    #[serde(skip)]
    pub(crate) square: bool,
}

impl Info {
    pub(crate) fn new(name: &str, kind: Kind, description: &str) -> Info {
        Info {
            name: name.into(),
            description: description.into(),
            kind,
            paper: String::new(),
            fairness: String::new(),
            excludes: true,
            place: 0,
            square: false,
        }
    }
}

/// Makes one rank's part of a lock with its global words at a home rank.
pub(crate) type Make = dyn Fn(&dyn RemoteAtomics, Rank) -> rmalab_locks::Result<Box<dyn AnyLock>> + Send + Sync;

/// Makes one rank's part on shared memory. The timed loops are compiled for the types of lock and backend.
type MakeOnMemory = dyn for<'a> Fn(&'a Mapped, Rank) -> rmalab_locks::Result<Box<dyn Passes + 'a>> + Send + Sync;

/// One lock or window policy for studies, simulations, checks and advice.
pub struct Subject {
    pub(crate) info: Info,
    /// The subject of the checks.
    pub(crate) check: rmalab_verify::Subject,
    /// The candidate of advice.
    pub(crate) advised: Arc<Advised>,
    make: Arc<Make>,
    make_on_memory: Box<MakeOnMemory>,
}

impl Subject {
    /// Sets the publication.
    pub fn paper(&mut self, paper: &str) -> &mut Subject {
        self.info.paper = paper.into();
        self
    }

    /// Sets the fairness: the ranks that may pass other ranks.
    pub fn fairness(&mut self, fairness: &str) -> &mut Subject {
        self.info.fairness = fairness.into();
        self
    }

    /// Declares that each rank has state for each target, so that simulations know how many ranks fit into memory.
    pub fn state_by_target(&mut self) -> &mut Subject {
        self.info.square = true;
        self
    }

    /// Declares that it excludes nothing.
    pub fn excludes_nobody(&mut self) -> &mut Subject {
        self.info.excludes = false;
        self
    }

    /// Names the words of a lock in drawings, and says what their values are: a number, or a rank. The words at its
    /// home come first, then the words of each rank's node.
    ///
    /// ```
    /// # use rmalab_lab::{Holds, Subject};
    /// # fn add(mcs: &mut Subject) {
    /// mcs.words(&[("tail", Holds::Pointer)], &[("next", Holds::Pointer), ("unblocked", Holds::Number)]);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If it is a policy, or has fewer words.
    pub fn words(&mut self, home: &[(&'static str, Holds)], node: &[(&'static str, Holds)]) -> &mut Subject {
        self.check = self.check.clone().lock_words(home, node);
        self
    }

    /// Declares which rank may overtake which: `verify --order` checks it.
    pub fn order(&mut self, order: Order) -> &mut Subject {
        self.check = self.check.clone().order(order);
        self
    }

    pub(crate) fn new<W: WindowLock + 'static>(
        info: Info,
        check: rmalab_verify::Subject,
        params: impl Fn(Rank) -> W::Params + Clone + Send + Sync + 'static,
    ) -> Subject {
        let same = params.clone();
        Subject {
            advised: Arc::new(Advised::new::<W>(&check, params(Rank(0)))),
            info,
            check,
            make: Arc::new(move |ra, home| Ok(Box::new(W::new(ra, params(home))?))),
            make_on_memory: Box::new(move |ra, home| Ok(Box::new(OnMemory::new(ra, W::new(ra, same(home))?)))),
        }
    }

    /// The description.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Makes a rank's part of a new lock on any backend; every rank calls this at the same point.
    pub(crate) fn maker(&self) -> Arc<Make> {
        Arc::clone(&self.make)
    }

    /// Makes a rank's part of a new lock for the passes of a study. `memory` is `ra` again if the backend is shared
    /// memory.
    pub(crate) fn passes<'a>(
        &self,
        ra: &'a dyn RemoteAtomics,
        memory: Option<&'a Mapped>,
        home: Rank,
    ) -> Result<Box<dyn Passes + 'a>> {
        let made = match memory {
            Some(memory) => (self.make_on_memory)(memory, home),
            None => (self.make)(ra, home).map(|lock| Box::new(Anywhere::new(ra, lock)) as Box<dyn Passes>),
        };
        made.map_err(|source| Error::Lock { lock: self.info.name.clone(), source })
    }
}

impl Subject {
    /// Bytes of each rank's segment that a table of these locks takes in a study.
    pub(crate) fn table_bytes(&self, ra: &dyn RemoteAtomics, locks: u32) -> Result<u64> {
        OverTable::bytes(ra, &*self.make, locks).map_err(|source| self.failed(source))
    }

    /// Makes a rank's part of a table of new locks for the passes of a study.
    pub(crate) fn passes_over<'a>(
        &'a self,
        ra: &'a dyn RemoteAtomics,
        layout: &Arc<Layout>,
    ) -> Result<Box<dyn Passes + 'a>> {
        let made = OverTable::new(ra, &*self.make, layout).map_err(|source| self.failed(source))?;
        Ok(Box::new(made))
    }

    fn failed(&self, source: rmalab_locks::Error) -> Error {
        Error::Lock { lock: self.info.name.clone(), source }
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("info", &self.info).finish_non_exhaustive()
    }
}
