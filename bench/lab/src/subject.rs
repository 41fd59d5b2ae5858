//! A lock under test: what is known of it, how a rank gets its part of it, and what is measured of it.

pub(crate) mod any_lock;
pub(crate) mod passes;

use std::sync::Arc;

use any_lock::AnyLock;
use passes::{Anywhere, OnMemory, Passes};
use rmalab_atomics::{Mapped, Rank, RemoteAtomics};
use rmalab_job::{Error, Result};
use rmalab_locks::WindowLock;

use crate::advise::Advised;

/// What a subject is: plots show the subjects of a kind together.
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
    /// The name of many of them.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Mutex => "mutexes",
            Kind::ReaderWriter => "reader-writer locks",
            Kind::Policy => "window policies",
        }
    }
}

/// What is known of a subject before it is measured.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The name on the command line, in tables and in plots.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// What it is.
    pub kind: Kind,
    /// Where it was published.
    pub paper: String,
    /// Which ranks may pass which others.
    pub fairness: String,
    /// Whether it excludes anything. A subject that does not is no lock, but a bound to compare locks with.
    pub excludes: bool,
    /// Its place among all subjects. Plots choose its colour and mark by it.
    pub place: usize,
    /// Whether each rank has state for each target, so that memory grows with the square of the number of ranks.
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

    /// Says where the lock was published.
    pub fn paper(&mut self, paper: &str) -> &mut Info {
        self.paper = paper.into();
        self
    }

    /// Says which ranks may pass which others.
    pub fn fairness(&mut self, fairness: &str) -> &mut Info {
        self.fairness = fairness.into();
        self
    }

    /// Says that each rank has state for each target. Simulations then know how many ranks fit into memory.
    pub fn state_by_target(&mut self) -> &mut Info {
        self.square = true;
        self
    }

    /// Says that it excludes nothing.
    pub fn excludes_nobody(&mut self) -> &mut Info {
        self.excludes = false;
        self
    }
}

/// Makes one rank's part of a lock whose global words are at a home rank.
pub(crate) type Make = dyn Fn(&dyn RemoteAtomics, Rank) -> rmalab_locks::Result<Box<dyn AnyLock>> + Send + Sync;

/// The same on shared memory, with the types of lock and backend known to the loops that are timed.
type MakeOnMemory = dyn for<'a> Fn(&'a Mapped, Rank) -> rmalab_locks::Result<Box<dyn Passes + 'a>> + Send + Sync;

/// One lock or window policy that can be put through a study, a simulation, a check, or advice.
pub struct Subject {
    pub(crate) info: Info,
    /// What the engines check.
    pub(crate) check: rmalab_verify::Subject,
    /// How it is a candidate of advice.
    pub(crate) advised: Arc<Advised>,
    make: Arc<Make>,
    make_on_memory: Box<MakeOnMemory>,
}

impl Subject {
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

    /// What is known of it.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Makes a rank's part of a new one on any backend; every rank calls this at the same point.
    pub(crate) fn maker(&self) -> Arc<Make> {
        Arc::clone(&self.make)
    }

    /// This rank's part of a new one, for the passes of a study. `memory` is `ra` again if the backend is shared memory.
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

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("info", &self.info).finish_non_exhaustive()
    }
}
