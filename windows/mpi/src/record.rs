//! Recording: the calls of a program on a window, as a trace that `rmalab advise` and replays read.
//!
//! A recorded window is the host's or a managed one. The calls of this library time the program's, and write them by the recorder of
//! [`rmalab_windows::trace`]. A barrier of a communicator with the ranks of a window is one of the window's calls.
//!
//! Threads of a rank are recorded one call after the other, in the order in which the calls end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rmalab_atomics::{Rank, Time};
use rmalab_windows::Error;
use rmalab_windows::replay::Step;
use rmalab_windows::trace::{Description, Recorder};

use crate::boundary::host::{self, Comm, Held, Win};

/// A window whose calls are recorded.
pub(crate) struct Recorded {
    window: usize,
    recorder: Recorder,
    /// Its ranks, to translate groups.
    pub(crate) group: Held,
    /// The displacement units of all ranks.
    pub(crate) units: Vec<u64>,
}

/// True once a window is recorded.
static ON: AtomicBool = AtomicBool::new(false);

static ALL: Mutex<Vec<Recorded>> = Mutex::new(Vec::new());

/// The files of the traces so far, of windows in which this rank is rank 0.
static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The number of updates whose type or operation a trace does not hold.
static INEXACT: AtomicU64 = AtomicU64::new(0);

/// The reasons why traces of this rank end early.
static EARLY: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data are whole after a panic: each change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a window is recorded, or was.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn now() -> Time {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    Time(u64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Begins a call, if one may have to be recorded.
#[inline(always)]
pub(crate) fn begin() -> Option<Time> {
    if is_on() { Some(now()) } else { None }
}

/// An error of the recorder or of the host; `None` if another rank has the reason.
struct Failed(Option<String>);

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed((!matches!(error, Error::NotMade { .. })).then(|| error.to_string()))
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed(Some(why))
    }
}

/// Records the calls of a new window of `comm` in the folder. Collective; on an error at any rank, no rank records.
///
/// # Errors
///
/// This rank's reason, or `None` if another rank returns it.
pub(crate) fn window(folder: &Path, win: Win, comm: Comm, what: Description) -> Result<(), Option<String>> {
    begin_window(folder, win, comm, what).map_err(|Failed(why)| why)
}

fn begin_window(folder: &Path, win: Win, comm: Comm, mut what: Description) -> Result<(), Failed> {
    let units = host::gather(comm, u64::from(what.unit))?;
    what.topology = host::topology(comm)?;
    let first = |number| {
        let mut number = [number];
        host::broadcast(comm, &mut number)?;
        Ok(number[0])
    };
    let all = |number| Ok::<_, Failed>(host::gather(comm, number)?);
    let recorder = Recorder::new(folder, &what, now, first, all)?;
    let group = Held::of(comm)?;
    if what.rank == Rank(0) {
        locked(&NAMES).push(recorder.path().to_owned());
    }
    locked(&ALL).push(Recorded { window: host::number(win), recorder, group, units });
    ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// Records a call on the window that has begun at this time and has ended well, if the window is recorded. `step` describes it;
/// `None` for a call that traces omit.
#[cold]
#[inline(never)]
pub(crate) fn call(win: Win, began: Time, step: impl FnOnce(&Recorded) -> Option<Step>) {
    let all = locked(&ALL);
    if let Some(recorded) = all.iter().find(|recorded| recorded.window == host::number(win))
        && let Some(step) = step(recorded)
    {
        recorded.recorder.record(&step, began, now);
    }
}

/// Records an attach of that many bytes, or a detach.
#[cold]
pub(crate) fn region(win: Win, began: Time, address: u64, bytes: Option<u64>) {
    if let Some(recorded) = locked(&ALL).iter().find(|recorded| recorded.window == host::number(win)) {
        recorded.recorder.record_region(address, bytes, began, now);
    }
}

/// Records a barrier of the communicator on all windows that have its ranks.
#[cold]
pub(crate) fn barrier(comm: Comm, began: Time) {
    let all = locked(&ALL);
    if all.is_empty() {
        return;
    }
    let Ok(group) = Held::of(comm) else { return };
    for recorded in all.iter().filter(|recorded| recorded.group.has_the_ranks_of(&group)) {
        recorded.recorder.record(&Step::Barrier, began, now);
    }
}

/// Returns the folder of the window's trace, if the window is recorded.
pub(crate) fn folder(win: Win) -> Option<String> {
    let all = locked(&ALL);
    let recorded = all.iter().find(|recorded| recorded.window == host::number(win))?;
    Some(recorded.recorder.path().parent()?.to_string_lossy().into_owned())
}

/// Ends the trace of a window that is being freed.
pub(crate) fn finish(win: Win) {
    if !is_on() {
        return;
    }
    let recorded = {
        let mut all = locked(&ALL);
        let Some(at) = all.iter().position(|recorded| recorded.window == host::number(win)) else { return };
        all.swap_remove(at)
    };
    end(&recorded);
}

/// Ends the traces of windows that the program has left open.
pub(crate) fn finish_all() {
    let all = std::mem::take(&mut *locked(&ALL));
    all.iter().for_each(end);
}

fn end(recorded: &Recorded) {
    if let Err(error) = recorded.recorder.finish() {
        locked(&EARLY).push(error.to_string());
    }
}

/// Returns how many traces of this rank end early, since they could not be written, and why the first one does.
pub(crate) fn early() -> (u64, Option<String>) {
    let early = locked(&EARLY);
    (early.len() as u64, early.first().cloned())
}

/// Counts an update that a trace holds in another form.
pub(crate) fn inexact() {
    INEXACT.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of updates that this rank has recorded differently.
pub(crate) fn inexacts() -> u64 {
    INEXACT.load(Ordering::Relaxed)
}

/// Returns the files of this rank's traces of windows in which it is rank 0.
pub(crate) fn names() -> Vec<PathBuf> {
    locked(&NAMES).clone()
}
