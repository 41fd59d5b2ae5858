//! The code that each rank of a check runs: a lock, a window's policy, or a program.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Time};
use rmalab_locks::{
    Entry, Error as LockError, Exclusive, LINE, Lease, LeaseParams, LockKind, Place, RawMutex, RawMutexTry, RawRwLock,
    RawRwLockTimed, Recoverable, RecoverableRw, Result as LockResult, Resumable, WindowLock, WindowLockTimed,
};

use rmalab_locks::lease::{FencedWord, Grant};
use rmalab_locks::recoverable::Stage as Resumed;

use crate::play::{DATA, Event, Handle, Player, Stage};
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

type BindFn = dyn Fn(&Stage<'_>, Rank) -> LockResult<Box<dyn Handle>> + Send + Sync;

type ResumeFn = dyn Fn(&Stage<'_>, Rank) -> LockResult<(Box<dyn Handle>, Resumed)> + Send + Sync;

/// Creates a rank's handle of a new lock or policy.
#[derive(Clone)]
pub struct Bind {
    bind: Arc<BindFn>,
    /// Creates the handle of a rank that has failed and comes back.
    resume: Option<Arc<ResumeFn>>,
    /// The memory of a lock, or of two, on the symmetric heap; none of a policy.
    memory: Vec<LockMemory>,
}

/// The memory of a lock on the symmetric heap, and which of it is zero at rest.
#[derive(Clone, Copy)]
pub(crate) struct LockMemory {
    /// The bytes of its words that have names.
    pub(crate) named: u64,
    /// The bytes of its words in a world of that many ranks: more, if the lock has words for each rank.
    words: fn(u32) -> u64,
    pub(crate) words_rest: bool,
    pub(crate) node: u64,
    pub(crate) node_at_rest: u64,
}

/// The bytes that [`Place::alloc`] takes for that many bytes.
pub(crate) fn lines(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(LINE)
}

impl LockMemory {
    fn of<L: RawRwLock>() -> LockMemory {
        LockMemory {
            named: L::WORDS,
            words: L::words,
            words_rest: L::RESTS_AT_ZERO,
            node: L::NODE,
            node_at_rest: L::NODE_AT_REST,
        }
    }
}

/// Attempts an acquisition, like [`Handle::attempt`]. Locks have several traits for that, or none.
pub(crate) type Attempt<L> = fn(&mut L, &Stage<'_>, Access, Option<Time>) -> LockResult<bool>;

impl Bind {
    /// Binds the lock `L`.
    pub(crate) fn lock<L: RawRwLock + Debug + 'static>(params: L::Params, attempt: Attempt<L>) -> Bind {
        let bind = move |stage: &Stage<'_>, place| {
            Ok(Box::new(LockHandle { lock: L::bind(stage, place, params)?, attempt }) as Box<dyn Handle>)
        };
        Bind::placed::<L>(bind)
    }

    /// Binds the mutex `M`, which can be tried.
    pub(crate) fn tried_mutex<M: RawMutexTry + Debug + 'static>(params: M::Params) -> Bind {
        let bind =
            move |stage: &Stage<'_>, place| Ok(Box::new(TriedMutex(M::bind(stage, place, params)?)) as Box<dyn Handle>);
        Bind::placed::<Exclusive<M>>(bind)
    }

    /// Binds the mutex `M`, which goes on after the failure of a rank.
    pub(crate) fn recoverable<M: Recoverable + Debug + 'static>(params: M::Params) -> Bind {
        let bind = move |stage: &Stage<'_>, place| {
            Ok(Box::new(RecoverableMutex(M::bind(stage, place, params)?)) as Box<dyn Handle>)
        };
        Bind::placed::<Exclusive<M>>(bind)
    }

    /// Binds the mutex `M`, whose ranks may fail and come back.
    pub(crate) fn resumable<M: Resumable + Debug + 'static>(params: M::Params) -> Bind {
        let resume = move |stage: &Stage<'_>, home| {
            let place = Place::alloc(stage, home, M::WORDS, M::NODE)?;
            let (lock, resumed) = M::resume(stage, place, params)?;
            Ok((Box::new(ResumableMutex(lock)) as Box<dyn Handle>, resumed))
        };
        let bind = move |stage: &Stage<'_>, place| {
            Ok(Box::new(ResumableMutex(M::bind(stage, place, params)?)) as Box<dyn Handle>)
        };
        Bind { resume: Some(Arc::new(resume)), ..Bind::placed::<Exclusive<M>>(bind) }
    }

    /// Binds the lock `L`, which goes on after the failure of a rank.
    pub(crate) fn recoverable_rw<L: RecoverableRw + Debug + 'static>(params: L::Params) -> Bind {
        let bind = move |stage: &Stage<'_>, place| {
            Ok(Box::new(RecoverableRwLock(L::bind(stage, place, params)?)) as Box<dyn Handle>)
        };
        Bind::placed::<L>(bind)
    }

    /// Binds the lease mutex.
    pub(crate) fn lease(params: LeaseParams) -> Bind {
        let bind = move |stage: &Stage<'_>, place| {
            Ok(Box::new(LeaseHandle { lock: Lease::bind(stage, place, params)?, grant: None }) as Box<dyn Handle>)
        };
        Bind::placed::<Exclusive<Lease>>(bind)
    }

    /// With the words and the node of `L` on the heap.
    fn placed<L: RawRwLock>(
        bind: impl Fn(&Stage<'_>, Place) -> LockResult<Box<dyn Handle>> + Send + Sync + 'static,
    ) -> Bind {
        let bind =
            move |stage: &Stage<'_>, home| bind(stage, Place::alloc(stage, home, L::words(stage.size()), L::NODE)?);
        Bind { bind: Arc::new(bind), resume: None, memory: vec![LockMemory::of::<L>()] }
    }

    /// Binds the policy `W`; `params` gets the rank for its global words.
    pub(crate) fn window<W: WindowLock + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
        attempt: Attempt<W>,
    ) -> Bind {
        let bind = move |stage: &Stage<'_>, home| {
            Ok(Box::new(WindowHandle { policy: W::new(stage, params(home))?, attempt }) as Box<dyn Handle>)
        };
        Bind { bind: Arc::new(bind), resume: None, memory: Vec::new() }
    }

    /// Binds the policy `W`, which goes on after the failure of a rank.
    pub(crate) fn recoverable_window<W: WindowLock + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> Bind {
        let bind = move |stage: &Stage<'_>, home| {
            Ok(Box::new(RecoverableWindow(W::new(stage, params(home))?)) as Box<dyn Handle>)
        };
        Bind { bind: Arc::new(bind), resume: None, memory: Vec::new() }
    }

    /// Binds two locks. Each rank acquires one inside the other: `inner` inside `outer`. If they are
    /// `opposite`, odd ranks acquire `outer` inside `inner`.
    pub(crate) fn nested(outer: &Bind, inner: &Bind, opposite: bool) -> Bind {
        let (outer, inner) = (outer.clone(), inner.clone());
        let memory = [outer.memory.as_slice(), &inner.memory].concat();
        let bind = move |stage: &Stage<'_>, home| {
            let (outer, inner) = (outer.bind(stage, home)?, inner.bind(stage, home)?);
            let is_opposite = opposite && stage.rank().0 % 2 == 1;
            let (first, second) = if is_opposite { (inner, outer) } else { (outer, inner) };
            Ok(Box::new(Nested { first, second }) as Box<dyn Handle>)
        };
        Bind { bind: Arc::new(bind), resume: None, memory }
    }

    /// Returns whether a rank may fail and come back.
    pub(crate) fn resumes(&self) -> bool {
        self.resume.is_some()
    }

    /// The handle of a rank that comes back to the lock of [`bind`](Self::bind), and whether it holds the lock.
    pub(crate) fn resume(&self, stage: &Stage<'_>, home: Rank) -> LockResult<(Box<dyn Handle>, Resumed)> {
        self.resume.as_ref().expect("a valid check restarts only ranks that may come back")(stage, home)
    }

    /// The bytes of a lock's named words and its node on the symmetric heap.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.iter().map(|memory| lines(memory.named) + lines(memory.node)).sum()
    }

    /// The memory of a lock, if it is one lock.
    pub(crate) fn memory(&self) -> Option<&LockMemory> {
        match self.memory.as_slice() {
            [memory] => Some(memory),
            _ => None,
        }
    }

    /// The bytes of one lock's named words on the symmetric heap, and the bytes of all its words in a world of that many
    /// ranks.
    pub(crate) fn words(&self, ranks: u32) -> Option<(u64, u64)> {
        self.memory().map(|memory| (lines(memory.named), lines((memory.words)(ranks))))
    }

    /// Returns whether the constants of the locks promise that all their shared words are zero at rest.
    pub(crate) fn words_rest(&self) -> bool {
        self.memory.iter().all(|memory| memory.words_rest)
    }

    /// Returns whether the lock's constants promise that the word at `disp` is zero at rest, in a world of that many
    /// ranks. Its words begin at `from`.
    pub(crate) fn rests(&self, disp: Disp, from: Disp, ranks: u32) -> bool {
        let Some(mut offset) = disp.0.checked_sub(from.0) else { return true };
        for memory in &self.memory {
            let (words, node) = (lines((memory.words)(ranks)), lines(memory.node));
            if offset < words {
                return memory.words_rest;
            }
            offset -= words;
            if offset < node {
                return offset < memory.node_at_rest;
            }
            offset -= node;
        }
        true
    }

    /// Returns whether the word at `disp` is one of the lock's, in a world of that many ranks. Its words begin at
    /// `from`.
    pub(crate) fn owns(&self, disp: Disp, from: Disp, ranks: u32) -> bool {
        let Some(mut offset) = disp.0.checked_sub(from.0) else { return false };
        for memory in &self.memory {
            for bytes in [(memory.words)(ranks), memory.node] {
                if offset < lines(bytes) {
                    return offset < bytes;
                }
                offset -= lines(bytes);
            }
        }
        false
    }

    /// This rank's handle of a new lock, whose global words are at `home`. The heap may contain only the data so far,
    /// and the outer lock.
    pub(crate) fn bind(&self, stage: &Stage<'_>, home: Rank) -> LockResult<Box<dyn Handle>> {
        (self.bind)(stage, home)
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
    /// Without this, engines assume that no rank's call observes another rank's posted puts, until one does.
    #[must_use]
    pub fn fencing(self) -> Program {
        Program { fences: true, ..self }
    }

    /// Declares that these words are zero at the end. All other words may have any value.
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

struct LockHandle<L> {
    lock: L,
    attempt: Attempt<L>,
}

impl<L: Debug> Debug for LockHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<L: RawRwLock + Debug> Handle for LockHandle<L> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        if access.writes() { self.lock.acquire_write(stage) } else { self.lock.acquire_read(stage) }
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        (self.attempt)(&mut self.lock, stage, access, deadline)
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        if access.writes() { self.lock.release_write(stage) } else { self.lock.release_read(stage) }
    }
}

/// The attempt of a lock that has none: [`Check::validate`](crate::Check::validate) refuses its scenarios.
pub(crate) fn no_attempt<L>(_: &mut L, _: &Stage<'_>, _: Access, _: Option<Time>) -> LockResult<bool> {
    unreachable!("a valid check attempts only what its lock supports")
}

pub(crate) fn attempt_lock<L: RawRwLockTimed>(
    lock: &mut L,
    stage: &Stage<'_>,
    access: Access,
    deadline: Option<Time>,
) -> LockResult<bool> {
    match (access.writes(), deadline) {
        (false, None) => lock.try_acquire_read(stage),
        (false, Some(deadline)) => lock.acquire_read_until(stage, deadline),
        (true, None) => lock.try_acquire_write(stage),
        (true, Some(deadline)) => lock.acquire_write_until(stage, deadline),
    }
}

struct WindowHandle<W> {
    policy: W,
    attempt: Attempt<W>,
}

impl<W: Debug> Debug for WindowHandle<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}

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
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        match window_call(access) {
            Some((kind, target)) => self.policy.lock(stage, kind, target),
            None => self.policy.lock_all(stage),
        }
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        (self.attempt)(&mut self.policy, stage, access, deadline)
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        release_window(&mut self.policy, stage, access)
    }
}

fn release_window<W: WindowLock>(policy: &mut W, stage: &Stage<'_>, access: Access) -> LockResult<()> {
    match window_call(access) {
        Some((kind, target)) => policy.unlock(stage, kind, target),
        None => policy.unlock_all(stage),
    }
}

pub(crate) fn attempt_window<W: WindowLockTimed>(
    policy: &mut W,
    stage: &Stage<'_>,
    access: Access,
    deadline: Option<Time>,
) -> LockResult<bool> {
    match (window_call(access), deadline) {
        (Some((kind, target)), None) => policy.try_lock(stage, kind, target),
        (Some((kind, target)), Some(deadline)) => policy.lock_until(stage, kind, target, deadline),
        (None, None) => policy.try_lock_all(stage),
        (None, Some(deadline)) => policy.lock_all_until(stage, deadline),
    }
}

/// A mutex that can be tried, but has no deadlines.
#[derive(Debug)]
struct TriedMutex<M>(M);

impl<M: RawMutexTry + Debug> Handle for TriedMutex<M> {
    fn acquire(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        self.0.acquire(stage)
    }

    fn attempt(&mut self, stage: &Stage<'_>, _access: Access, _deadline: Option<Time>) -> LockResult<bool> {
        self.0.try_acquire(stage)
    }

    fn release(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        self.0.release(stage)
    }
}

/// A mutex that goes on after the failure of a rank. A rank that learns of a failure inside declares the data
/// consistent.
#[derive(Debug)]
struct RecoverableMutex<M>(M);

impl<M: Recoverable + Debug> Handle for RecoverableMutex<M> {
    fn acquire(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        if let Entry::OwnerDead(_) = self.0.recoverable_acquire(stage)? {
            stage.executor().event(Event::Told, self);
        }
        Ok(())
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        no_attempt(&mut self.0, stage, access, deadline)
    }

    fn release(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        self.0.release(stage)
    }
}

/// A mutex whose ranks may fail and come back.
#[derive(Debug)]
struct ResumableMutex<M>(M);

impl<M: Resumable + Debug> Handle for ResumableMutex<M> {
    fn acquire(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        self.0.acquire(stage)
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        no_attempt(&mut self.0, stage, access, deadline)
    }

    fn release(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        self.0.release(stage)
    }
}

/// A reader-writer lock that goes on after the failure of a rank. A rank that learns of a failure inside declares the
/// data consistent. If it reads, it then shares the lock with other readers.
#[derive(Debug)]
struct RecoverableRwLock<L>(L);

impl<L: RecoverableRw + Debug> Handle for RecoverableRwLock<L> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        let entry = match access.writes() {
            true => self.0.recoverable_acquire_write(stage)?,
            false => self.0.recoverable_acquire_read(stage)?,
        };
        if let Entry::OwnerDead(_) = entry {
            // Until then it repairs the data, alone. If it fails, or another rank enters, the next rank has to learn of
            // the failure.
            self.0.share(stage)?;
            stage.executor().event(Event::Told, self);
        }
        Ok(())
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        no_attempt(&mut self.0, stage, access, deadline)
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        if access.writes() { self.0.release_write(stage) } else { self.0.release_read(stage) }
    }
}

/// A window whose locks go on after the failure of a rank.
#[derive(Debug)]
struct RecoverableWindow<W>(W);

impl<W: WindowLock + Debug> Handle for RecoverableWindow<W> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        let entry = match window_call(access) {
            Some((kind, target)) => self.0.recoverable_lock(stage, kind, target)?,
            None => self.0.recoverable_lock_all(stage)?,
        };
        if let Entry::OwnerDead(_) = entry {
            // The repair. If the rank fails or another rank enters before it is done, the next rank has to learn of the
            // failure.
            stage.get(window_call(access).map_or(Rank(0), |(_, target)| target).at(DATA))?;
            stage.executor().event(Event::Told, self);
            self.0.consistent(stage)?;
        }
        Ok(())
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        no_attempt(&mut self.0, stage, access, deadline)
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        release_window(&mut self.0, stage, access)
    }
}

/// A lease mutex, whose holders write by their tokens.
#[derive(Debug)]
struct LeaseHandle {
    lock: Lease,
    grant: Option<Grant>,
}

impl LeaseHandle {
    /// A refusal is right if the lease has passed, and otherwise an error.
    fn passed(&self, stage: &Stage<'_>, done: LockResult<()>) -> LockResult<()> {
        match done {
            Err(LockError::Expired { .. }) if self.grant.is_some_and(|grant| stage.now() >= grant.until) => Ok(()),
            other => other,
        }
    }
}

impl Handle for LeaseHandle {
    fn acquire(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        let grant = self.lock.acquire_lease(stage)?;
        self.grant = Some(grant);
        if grant.took_over {
            stage.executor().event(Event::Told, self);
        }
        Ok(())
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        no_attempt(&mut self.lock, stage, access, deadline)
    }

    fn write(&mut self, stage: &Stage<'_>, data: Address) -> LockResult<()> {
        let Some(grant) = self.grant else { return Ok(()) };
        self.passed(stage, FencedWord::at(data).put(stage, grant.token, stage.rank().0 + 1))
    }

    fn release(&mut self, stage: &Stage<'_>, _access: Access) -> LockResult<()> {
        let released = self.lock.release(stage);
        let released = self.passed(stage, released);
        self.grant = None;
        released
    }
}

/// Two locks: the second is acquired inside the first.
#[derive(Debug)]
struct Nested {
    first: Box<dyn Handle>,
    second: Box<dyn Handle>,
}

impl Handle for Nested {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        self.first.acquire(stage, access)?;
        self.second.acquire(stage, access)
    }

    fn attempt(&mut self, stage: &Stage<'_>, access: Access, deadline: Option<Time>) -> LockResult<bool> {
        if !self.first.attempt(stage, access, deadline)? {
            return Ok(false);
        }
        let acquired = self.second.attempt(stage, access, deadline)?;
        if !acquired {
            self.first.release(stage, access)?;
        }
        Ok(acquired)
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> LockResult<()> {
        self.second.release(stage, access)?;
        self.first.release(stage, access)
    }
}
