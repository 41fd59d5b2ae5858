//! The code that each rank of a check runs: a lock, a window's policy, or a program.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use rmalab_atomics::{Disp, Rank};
use rmalab_locks::{LockKind, Place, RawRwLock, WindowLock};

use crate::play::{Handle, Player, Stage};
use crate::{Access, Result};

/// The code that each rank of a check runs.
#[derive(Clone)]
pub enum Workload {
    /// Ranks acquire and release a reader-writer lock, or a mutex instead.
    Lock(Bind),
    /// Ranks lock and unlock targets of a window by its policy.
    Window(Bind),
    /// Each rank runs code of its own. No rank is ever inside.
    Program(Program),
}

type BindFn = dyn Fn(&Stage<'_>, Rank) -> rmalab_locks::Result<Box<dyn Handle>> + Send + Sync;

/// Creates a rank's handle of a new lock or policy.
#[derive(Clone)]
pub struct Bind(Arc<BindFn>);

impl Bind {
    /// Binds the lock `L`.
    pub(crate) fn lock<L: RawRwLock + Debug + 'static>(params: L::Params) -> Bind {
        Bind(Arc::new(move |stage, home| {
            let place = Place::alloc(stage, home, L::WORDS, L::NODE)?;
            Ok(Box::new(LockHandle(L::bind(stage, place, params)?)))
        }))
    }

    /// Binds the policy `W`; `params` gets the rank for its global words.
    pub(crate) fn window<W: WindowLock + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> Bind {
        Bind(Arc::new(move |stage, home| Ok(Box::new(WindowHandle(W::new(stage, params(home))?)))))
    }

    /// This rank's handle of a new lock, whose global words are at `home`. The heap may contain only the data so far.
    pub(crate) fn bind(&self, stage: &Stage<'_>, home: Rank) -> rmalab_locks::Result<Box<dyn Handle>> {
        (self.0)(stage, home)
    }
}

type Body = dyn Fn(Rank, &dyn Player) -> Result<()> + Send + Sync;

/// Code for a number of ranks, without the acquisitions of a scenario.
///
/// It reports an observation that must not occur by [`Error::Seen`](crate::Error::Seen). With
/// [`Event::Left`](crate::play::Event) it may end a *step*, which counts as an acquisition. The handle of that event
/// shows everything that it remembers from there on.
#[derive(Clone)]
pub struct Program {
    ranks: u32,
    body: Arc<Body>,
    rest: Vec<Range<Disp>>,
    fences: bool,
}

impl Program {
    /// A program of `ranks` ranks, each of which runs `body`.
    pub fn new(ranks: u32, body: impl Fn(Rank, &dyn Player) -> Result<()> + Send + Sync + 'static) -> Program {
        Program { ranks, body: Arc::new(body), rest: Vec::new(), fences: false }
    }

    /// Declares that ranks may call [`fence_everywhere`](rmalab_atomics::RemoteAtomics::fence_everywhere).
    ///
    /// Without this, the explorer assumes that no rank's call observes another rank's posted puts.
    #[must_use]
    pub fn fencing(self) -> Program {
        Program { fences: true, ..self }
    }

    /// Declares that these words are zero at the end. All others may have any value.
    #[must_use]
    pub fn rest(mut self, words: Range<Disp>) -> Program {
        self.rest.push(words);
        self
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(crate) fn run(&self, rank: Rank, player: &dyn Player) -> Result<()> {
        (self.body)(rank, player)
    }

    pub(crate) fn fences(&self) -> bool {
        self.fences
    }

    pub(crate) fn rests(&self, disp: Disp) -> bool {
        self.rest.iter().any(|words| words.contains(&disp))
    }
}

#[derive(Debug)]
struct LockHandle<L>(L);

impl<L: RawRwLock + Debug> Handle for LockHandle<L> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        if access.writes() { self.0.acquire_write(stage) } else { self.0.acquire_read(stage) }
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        if access.writes() { self.0.release_write(stage) } else { self.0.release_read(stage) }
    }
}

#[derive(Debug)]
struct WindowHandle<W>(W);

/// The arguments of a policy's lock for an access; `None` for lock_all.
fn window_call(access: Access) -> Option<(LockKind, Rank)> {
    match access {
        Access::Read | Access::All => None,
        Access::Write => Some((LockKind::Exclusive, Rank(0))),
        Access::Shared(target) => Some((LockKind::Shared, target)),
        Access::Exclusive(target) => Some((LockKind::Exclusive, target)),
    }
}

impl<W: WindowLock + Debug> Handle for WindowHandle<W> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        match window_call(access) {
            Some((kind, target)) => self.0.lock(stage, kind, target),
            None => self.0.lock_all(stage),
        }
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        match window_call(access) {
            Some((kind, target)) => self.0.unlock(stage, kind, target),
            None => self.0.unlock_all(stage),
        }
    }
}
