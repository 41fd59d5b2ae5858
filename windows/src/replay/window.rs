//! A window on which steps are executed.

use rmalab_atomics::{Rank, RemoteAtomics, Time};
use rmalab_locks::{Assert, LockKind, Policy, WindowLock};

use super::calls::Calls;
use super::memory::{Moved, attach_all, check_size, memory};
use super::shape::{Parts, Shape};
use super::step::Step;
use crate::{Builder, Flavor, RawWindow, Result};

/// The targets of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Locked {
    /// All targets, shared.
    All,
    /// One target.
    Target(LockKind, Rank),
}

/// A phase of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// From the call of lock to its return.
    Acquire,
    /// From the return of lock to the call of unlock.
    Hold,
    /// From the call of unlock to its return, including the flush.
    Release,
}

/// The start and the end of a phase of a lock, on the rank's clock, for the observer of a replay.
///
/// The observer gets an acquisition at once, and a hold just before the release begins. Locks that assert `NoCheck` are
/// not observed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Observed {
    /// The phase.
    pub phase: Phase,
    /// The lock.
    pub locked: Locked,
    /// Its beginning.
    pub start: Time,
    /// Its end.
    pub end: Time,
}

/// One rank's handle of a replay: a window of the recorded shape, on which its steps are executed.
#[derive(Debug)]
pub struct Replay<'t, A: RemoteAtomics + ?Sized, W: WindowLock = Policy> {
    window: RawWindow<'t, A, W>,
    moved: Moved,
    calls: Calls,
    /// The locks that are held and observed, with the times of their acquisition.
    held: Vec<(Locked, Time)>,
}

impl<'t, A: RemoteAtomics + ?Sized, W: WindowLock> Replay<'t, A, W> {
    /// Makes the window with the memory of `shape` and all other settings of `builder`. Collective. The team has as
    /// many ranks as the trace.
    ///
    /// [`Builder::info`] with [`Trace::info`](crate::trace::Trace::info) asks for the recorded hints and lock policy. The
    /// replay is recorded if [`Builder::record`] asks for it. The variable
    /// [`Config::RECORD_VARIABLE`](crate::Config::RECORD_VARIABLE) has no effect.
    ///
    /// # Errors
    ///
    /// The errors of the builder, and [`Unsupported`](rmalab_atomics::Error::Unsupported) for memory that this program
    /// cannot allocate.
    pub fn new(builder: Builder<'t, A, W>, shape: &Shape) -> Result<Self> {
        let rank = builder.team().rank();
        let (bytes, unit) = shape.part(rank);
        let builder = builder.disp_unit(unit).without_variable();
        let symmetric = matches!(shape.parts, Parts::Same(..));
        let mut moved = Moved::default();
        let window = match shape.flavor {
            Flavor::Allocate => {
                moved = Moved::packed(shape);
                if symmetric { builder.symmetric() } else { builder }.allocate(bytes)?
            }
            Flavor::Shared => builder.allocate_shared(bytes)?,
            Flavor::Create => {
                check_size(shape.bytes())?;
                builder.create(memory(0, bytes)?)?
            }
            Flavor::Dynamic => {
                check_size(shape.bytes())?;
                let window = builder.create_dynamic()?;
                moved = attach_all(&window, shape)?;
                window
            }
        };
        Ok(Replay { window: window.into_raw(), moved, calls: Calls::new(shape.bytes()), held: Vec::new() })
    }

    /// The window.
    pub fn window(&self) -> &RawWindow<'t, A, W> {
        &self.window
    }

    /// Frees the window (`MPI_Win_free`); collective.
    ///
    /// # Errors
    ///
    /// The errors of [`RawWindow::free`].
    pub fn free(self) -> Result<()> {
        self.window.free()
    }

    /// Executes `steps` one after the other, and calls `observer` for each phase of a lock.
    ///
    /// Ends open epochs after the last step, since a trace may end early. Collective, if ranks meet in the steps.
    ///
    /// # Errors
    ///
    /// The error of a step that cannot be read, and the errors of the window's calls, such as an unlock without a lock.
    pub fn run(
        &mut self,
        steps: impl IntoIterator<Item = Result<Step>>,
        mut observer: impl FnMut(Observed),
    ) -> Result<()> {
        let mut steps = steps.into_iter();
        let (mut access, mut exposure) = (false, false);
        // This is the step that has ended a batch.
        let mut next = None;
        while let Some(step) = next.take().or_else(|| steps.next()) {
            match step? {
                Step::LockAll { assert } => self.acquire(Locked::All, assert, &mut observer)?,
                Step::UnlockAll => self.release(Locked::All, &mut observer)?,
                Step::Lock { kind, target, assert } => {
                    self.acquire(Locked::Target(kind, target), assert, &mut observer)?;
                }
                Step::Unlock { target } => {
                    let held = |&(locked, _): &(Locked, Time)| matches!(locked, Locked::Target(_, of) if of == target);
                    match self.held.iter().find(|held_one| held(held_one)) {
                        Some(&(locked, _)) => self.release(locked, &mut observer)?,
                        // The lock asserted `NoCheck`; otherwise the window returns the error.
                        None => self.window.unlock(target)?,
                    }
                }
                Step::Flush { target } => self.window.flush(target)?,
                Step::FlushAll => self.window.flush_all()?,
                Step::Barrier => self.window.team().barrier()?,
                Step::Fence(assert) => self.window.fence(assert)?,
                Step::Post { group, assert } => {
                    self.window.post(&group, assert)?;
                    exposure = true;
                }
                Step::Start { group, assert } => {
                    self.window.start(&group, assert)?;
                    access = true;
                }
                Step::Complete => {
                    self.window.complete()?;
                    access = false;
                }
                Step::Wait => {
                    self.window.wait()?;
                    exposure = false;
                }
                Step::Test => {
                    while !self.window.test()? {}
                    exposure = false;
                }
                Step::BatchBegin => next = self.batch(&mut steps)?.map(Ok),
                // An earlier call has already ended the batch.
                Step::BatchEnd => {}
                step @ (Step::Compute(_) | Step::Put { .. } | Step::Get { .. } | Step::Update { .. }) => {
                    self.calls.operate(&self.window, &self.moved, &step)?;
                }
            }
        }
        while let Some(&(locked, _)) = self.held.last() {
            self.release(locked, &mut observer)?;
        }
        if access {
            self.window.complete()?;
        }
        if exposure {
            self.window.wait()?;
        }
        Ok(())
    }

    /// Executes the operations of a batch. Returns the step that has ended the batch early, if there is one.
    fn batch(&mut self, steps: &mut impl Iterator<Item = Result<Step>>) -> Result<Option<Step>> {
        let mut operations = Vec::new();
        let mut next = None;
        for step in steps {
            match step? {
                Step::BatchEnd => break,
                step @ (Step::Compute(_) | Step::Put { .. } | Step::Get { .. } | Step::Update { .. }) => {
                    operations.push(step);
                }
                step => {
                    next = Some(step);
                    break;
                }
            }
        }
        self.calls.batch(&self.window, &self.moved, &operations)?;
        Ok(next)
    }

    fn acquire(&mut self, locked: Locked, assert: Assert, observer: &mut impl FnMut(Observed)) -> Result<()> {
        let ra = self.window.ra;
        let start = ra.now();
        match locked {
            Locked::All => self.window.lock_all(assert)?,
            Locked::Target(kind, target) => self.window.lock(kind, target, assert)?,
        }
        if assert == Assert::None {
            let end = ra.now();
            self.held.push((locked, end));
            observer(Observed { phase: Phase::Acquire, locked, start, end });
        }
        Ok(())
    }

    fn release(&mut self, locked: Locked, observer: &mut impl FnMut(Observed)) -> Result<()> {
        let ra = self.window.ra;
        let start = ra.now();
        let held = self.held.iter().rposition(|&(held, _)| held == locked).map(|at| self.held.swap_remove(at));
        if let Some((_, since)) = held {
            observer(Observed { phase: Phase::Hold, locked, start: since, end: start });
        }
        match locked {
            Locked::All => self.window.unlock_all()?,
            Locked::Target(_, target) => self.window.unlock(target)?,
        }
        if held.is_some() {
            observer(Observed { phase: Phase::Release, locked, start, end: ra.now() });
        }
        Ok(())
    }
}
