//! The subjects of the studies: every lock by its unique name.

mod standard;

use std::fmt::Debug;

use rmalab_atomics::Rank;
use rmalab_job::{Error, Result};
use rmalab_locks::{
    Exclusive, Global, GlobalParams, PolicyKind, RawMutex, RawMutexTimed, RawMutexTry, RawRwLock, RawRwLockTimed,
    WindowLock,
};
use rmalab_report::names;

use crate::subject::{Info, Kind, Subject};

/// The subjects that a study can choose from.
///
/// One call adds an outside lock:
///
/// ```
/// # fn add<MyLock: rmalab_locks::RawRwLock + std::fmt::Debug + 'static>() {
/// let mut registry = rmalab_lab::Registry::standard();
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
    /// Its `Debug` has to show the whole state of a handle, as the derived one does: the explorer distinguishes handles
    /// by it.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_rw_lock<L: RawRwLock + Debug + 'static>(&mut self, description: &str) -> &mut Subject {
        self.add_global::<L>(Kind::ReaderWriter, description)
    }

    /// Adds a mutex, under its own name: its readers exclude one another like its writers.
    ///
    /// Its `Debug` has to show the whole state of a handle, as for a [reader-writer lock](Self::add_rw_lock).
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_mutex<M: RawMutex + Debug + 'static>(&mut self, description: &str) -> &mut Subject {
        self.add_global::<Exclusive<M>>(Kind::Mutex, description)
    }

    /// Adds a mutex that can be tried, too: scenarios such as `2Wtry x2` check its tries.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_tried_mutex<M: RawMutexTry + Debug + 'static>(&mut self, description: &str) -> &mut Subject {
        let check = rmalab_verify::Subject::tried_mutex::<M>(M::Params::default());
        self.add_checked::<Exclusive<M>>(Kind::Mutex, description, check)
    }

    /// Adds a mutex in every form of acquisition: scenarios such as `2Wtimed x2` check its deadlines.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_timed_mutex<M: RawMutexTimed + Debug + 'static>(&mut self, description: &str) -> &mut Subject {
        let check = rmalab_verify::Subject::timed_mutex::<M>(M::Params::default());
        self.add_checked::<Exclusive<M>>(Kind::Mutex, description, check)
    }

    /// Adds a reader-writer lock in every form of acquisition.
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_timed_rw_lock<L: RawRwLockTimed + Debug + 'static>(&mut self, description: &str) -> &mut Subject {
        let check = rmalab_verify::Subject::timed_lock::<L>(L::Params::default());
        self.add_checked::<L>(Kind::ReaderWriter, description, check)
    }

    fn add_global<L: RawRwLock + Debug + 'static>(&mut self, kind: Kind, description: &str) -> &mut Subject {
        self.add_checked::<L>(kind, description, rmalab_verify::Subject::lock::<L>(L::Params::default()))
    }

    fn add_checked<L: RawRwLock + 'static>(
        &mut self,
        kind: Kind,
        description: &str,
        check: rmalab_verify::Subject,
    ) -> &mut Subject {
        let params = |home| GlobalParams { home, lock: L::Params::default() };
        self.add(Subject::new::<Global<L>>(Info::new(L::NAME, kind, description), check, params))
    }

    /// Adds a window policy; `params` gets the home rank of its global words.
    ///
    /// Its `Debug` has to show the whole state of a handle, as for a [reader-writer lock](Self::add_rw_lock).
    ///
    /// # Panics
    ///
    /// When the name is taken.
    pub fn add_policy<W: WindowLock + Debug + 'static>(
        &mut self,
        description: &str,
        params: impl Fn(Rank) -> W::Params + Clone + Send + Sync + 'static,
    ) -> &mut Subject {
        let check = rmalab_verify::Subject::window::<W>(params.clone());
        self.add(Subject::new::<W>(Info::new(W::NAME, Kind::Policy, description), check, params))
    }

    /// Replaces the parameters of the subject with that name.
    pub(crate) fn replace<W: WindowLock + 'static>(
        &mut self,
        name: &str,
        params: impl Fn(Rank) -> W::Params + Clone + Send + Sync + 'static,
    ) {
        if let Some(subject) = self.subjects.iter_mut().find(|subject| subject.info.name == name) {
            *subject = Subject::new::<W>(subject.info.clone(), subject.check.clone(), params);
        }
    }

    fn add(&mut self, mut subject: Subject) -> &mut Subject {
        let name = &subject.info.name;
        assert!(self.subjects().all(|other| other.info.name != *name), "two subjects are called '{name}'");
        subject.info.place = self.subjects.len();
        self.subjects.push(subject);
        self.subjects.last_mut().expect("a subject was just added")
    }

    /// All subjects, in the order in which they were added.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.subjects.iter()
    }

    /// The subjects from outside the workspace.
    pub(crate) fn outside(&self) -> impl Iterator<Item = &Subject> {
        self.subjects().filter(|subject| !PolicyKind::NAMES.contains(&subject.info.name.as_str()))
    }

    /// The subject called `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`], which lists the known names, the most similar one first.
    pub fn find(&self, name: &str) -> Result<&Subject> {
        self.subjects().find(|subject| subject.info.name == name).ok_or_else(|| {
            Error::usage(names::unknown("lock", name, self.subjects().map(|subject| subject.info.name.as_str())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_unknown_name_suggests_the_closest_one() {
        let message = Registry::standard().find("mcs-rw-pr").unwrap_err().to_string();
        assert!(message.contains("did you mean 'mcs-rw-"), "{message}");
        assert!(message.contains(" list` prints the names"), "{message}");
    }

    /// The studies measure every policy that windows know by name. They also measure two other locks: a window's epoch does not end
    /// with time, and its ranks do not come back.
    #[test]
    fn windows_know_the_same_names() {
        let registry = Registry::standard();
        let mut subjects: Vec<&str> = registry.subjects().map(|subject| subject.info().name.as_str()).collect();
        let mut policies: Vec<&str> = PolicyKind::NAMES.iter().copied().chain(["lease", "rme-mcs"]).collect();
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
