//! A rank that is killed, stopped or unwound ahead of its n-th operation: real failures that can be repeated.

use std::cell::Cell;
use std::fmt;
use std::panic::resume_unwind;

use rustix::process::Signal;

use crate::model::fabric::{
    Bytes, Completion, Delay, Extras, Fabric, Failures, Leaving, Span, Word, WordOp, WorldView,
};
use crate::model::remote::survival;
use crate::{Failed, Rank, RemoteAtomics, Request, Result, Time, Until};

/// The payload of a panic by [`Crashing::arm_unwind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwound;

/// Kills or stops this process, or unwinds its caller, ahead of one of its operations, and passes on all others.
///
/// Word and bulk operations, flushes, waits, pauses and calls about failures are numbered from 1. Between two operations
/// a rank only computes. So the deaths ahead of each number are all deaths between operations. A death amid a bulk
/// operation, or between a store and its wake-up, is not among them. The handle has no loads and stores of local memory,
/// since it could not number them.
///
/// One thread uses it.
pub struct Crashing<'a, A: ?Sized> {
    inner: &'a A,
    view: &'a WorldView,
    /// The number of operations that are still passed on; `None` for all.
    left: Cell<Option<u64>>,
    /// The signal that this process gets then; `None` unwinds.
    signal: Cell<Option<Signal>>,
}

impl<'a, A: RemoteAtomics + ?Sized> Crashing<'a, A> {
    /// Kills this process by SIGKILL ahead of operation number `ahead_of`, counted from 1. `None` stands for never.
    pub fn new(inner: &'a A, ahead_of: Option<u64>) -> Crashing<'a, A> {
        let crashing = Crashing { inner, view: inner.view(), left: Cell::new(None), signal: Cell::new(None) };
        crashing.arm(ahead_of);
        crashing
    }

    /// Numbers the operations from 1 again, and kills this process ahead of operation number `ahead_of`.
    pub fn arm(&self, ahead_of: Option<u64>) {
        self.left.set(ahead_of.map(|number| number.saturating_sub(1)));
        self.signal.set(Some(Signal::KILL));
    }

    /// Numbers the operations from 1 again, and stops this process by SIGSTOP ahead of operation number `ahead_of`, once.
    /// It goes on when another process sends it SIGCONT.
    pub fn arm_stop(&self, ahead_of: u64) {
        self.arm(Some(ahead_of));
        self.signal.set(Some(Signal::STOP));
    }

    /// Numbers the operations from 1 again, and unwinds the caller of operation number `ahead_of`, once, by a panic with the payload
    /// [`Unwound`], which prints nothing. The operation is not executed. A program that catches the panic goes on.
    pub fn arm_unwind(&self, ahead_of: u64) {
        self.arm(Some(ahead_of));
        self.signal.set(None);
    }

    fn count(&self) {
        match self.left.get() {
            None => {}
            Some(0) => {
                self.left.set(None);
                let Some(signal) = self.signal.get() else { resume_unwind(Box::new(Unwound)) };
                // The signal goes to this thread. Another thread that gets a SIGSTOP may run late, and this thread would go on
                // until then. If the kernel refuses, the test that waits for this failure reports it.
                let _ = signal_hook::low_level::raise(signal.as_raw());
            }
            Some(left) => self.left.set(Some(left - 1)),
        }
    }
}

impl<A: ?Sized> fmt::Debug for Crashing<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crashing")
            .field("rank", &self.view.rank())
            .field("left", &self.left.get())
            .finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized> Fabric for Crashing<'_, A> {
    fn view(&self) -> &WorldView {
        self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.count();
        self.inner.word(at, op)
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        self.count();
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.start_word(at, op, result) }
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        self.count();
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.transfer(at, bytes, until) }
    }

    fn done(&self, request: &Request) -> Result<bool> {
        self.count();
        self.inner.done(request)
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.count();
        self.inner.finish(request)
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.count();
        self.inner.complete(target)
    }

    fn keep_order(&self, target: Rank) -> Result<()> {
        self.count();
        self.inner.keep_order(target)
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.count();
        self.inner.wait_on(own, until, deadline)
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.count();
        self.inner.delay(delay)
    }

    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn extras(&self) -> Extras<'_> {
        let inner = self.inner.extras();
        Extras {
            shared: None,
            memory: None,
            leaving: inner.leaving.is_some().then_some(self as &dyn Leaving),
            failures: inner.failures.is_some().then_some(self as &dyn Failures),
            ..inner
        }
    }
}

impl<A: RemoteAtomics + ?Sized> Leaving for Crashing<'_, A> {
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        self.count();
        self.inner.wait_until_from(own.disp(), until, writer)
    }

    fn forsake(&self, what: &'static str) {
        self.inner.forsake(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.inner.forsaken()
    }
}

impl<A: RemoteAtomics + ?Sized> Failures for Crashing<'_, A> {
    fn failed(&self) -> Result<Failed> {
        self.count();
        self.inner.failed()
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        self.count();
        self.inner.acknowledge(failed)
    }

    fn silence(&self, failed: &Failed) -> Result<()> {
        self.count();
        self.inner.silence(failed)
    }

    fn expel(&self, rank: Rank) -> Result<()> {
        self.count();
        self.inner.expel(rank)
    }

    fn generation(&self) -> u32 {
        survival(self.inner.extras()).map_or(0, |inner| inner.generation())
    }

    fn enter(&self, generation: u32) {
        if let Ok(inner) = survival(self.inner.extras()) {
            inner.enter(generation);
        }
    }

    fn revoke(&self, generation: u32) -> Result<()> {
        self.count();
        survival(self.inner.extras())?.revoke(generation)
    }
}
