//! Ranks acquire a lock again and again, and some of them fail while they hold it.

use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, Time, WORD};
use rmalab_locks::{Backoff, Entry, LINE, Lease, LeaseParams, LockKind, Place, Policy, RawMutex, Result, WindowLock};
use serde::{Deserialize, Serialize};

use crate::pthread::{self, Pthread};

/// What the ranks of a world do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The name of the lock.
    pub(crate) lock: String,
    /// The number of ranks that fail, fewer than all.
    pub(crate) failures: u32,
    /// The acquisitions for each failure; all acquisitions, if there is none.
    pub(crate) period: u64,
    /// The time for which a grant of `lease` lasts.
    pub(crate) lease: Duration,
}

impl Task {
    /// The number of all acquisitions.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.period * u64::from(self.failures.max(1))
    }

    /// Returns whether the next failure is due after that many failures and acquisitions: in the middle of each period.
    fn is_due(&self, failures: u64, acquisitions: u64) -> bool {
        failures < u64::from(self.failures) && acquisitions == failures * self.period + self.period / 2
    }
}

/// The result of a world.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The time of all acquisitions.
    pub(crate) seconds: f64,
    /// For each failure, the time until another rank held the lock, in nanoseconds.
    pub(crate) recoveries: Vec<f64>,
}

/// The data of the lock: the number of acquisitions, and above it the number of failures.
const COUNT_BITS: u32 = 48;

/// Acquires the lock until all ranks together have made their acquisitions. A holder fails by `fail` where that is due.
/// Returns the result on the first rank that finds all acquisitions made.
pub(crate) fn play(ra: &dyn RemoteAtomics, task: &Task, fail: &dyn Fn() -> Result<()>) -> Result<Option<Outcome>> {
    let home = Rank(0);
    let words = ra.heap().alloc(WORD * (5 + u64::from(task.failures)), LINE)?;
    let [state, failed_at, arrived, begin, is_over] = [0, 1, 2, 3, 4].map(|word| home.at(words.word(word)));
    let recovery = |failure: u64| home.at(words.word(5 + failure));
    let mut mutex = mutex(ra, home, task)?;
    // No rank fails while another rank is still in a barrier, which would end with the failure.
    if ra.fetch_add(arrived, 1)? + 1 == u64::from(ra.size()) {
        ra.put(begin, ra.now().0)?;
    }
    while ra.get(arrived)? < u64::from(ra.size()) {
        let _ = ra.pause(1);
    }
    loop {
        let told = mutex.acquire(ra)?;
        let word = ra.get(state)?;
        let (failures, acquisitions) = (word >> COUNT_BITS, word & ((1 << COUNT_BITS) - 1));
        if told && failures > 0 && ra.get(recovery(failures - 1))? == 0 {
            let failed_at = ra.get(failed_at)?;
            ra.put(recovery(failures - 1), ra.now().0 - failed_at)?;
        }
        if acquisitions == task.acquisitions() {
            let is_first = ra.fetch_store(is_over, 1)? == 0;
            mutex.release(ra)?;
            if !is_first {
                return Ok(None);
            }
            break;
        }
        let fails = task.is_due(failures, acquisitions + 1);
        ra.put(state, (failures + u64::from(fails)) << COUNT_BITS | (acquisitions + 1))?;
        if fails {
            ra.put(failed_at, ra.now().0)?;
        }
        ra.flush(home)?;
        if fails {
            fail()?;
            return Ok(None);
        }
        mutex.release(ra)?;
    }
    let seconds = ra.now().since(Time(ra.get(begin)?)).as_secs_f64();
    let recoveries = (0..u64::from(task.failures)).map(|failure| Ok(ra.get(recovery(failure))? as f64));
    let recoveries: Vec<f64> = recoveries.collect::<Result<_>>()?;
    assert!(!recoveries.contains(&0.0), "{}: no rank was told of a failure inside: {recoveries:?}", task.lock);
    Ok(Some(Outcome { seconds, recoveries }))
}

/// A mutex that goes on after its holder has failed.
pub(crate) trait Mutex {
    /// Acquires it. Returns whether a holder has failed, and no rank was told of that.
    fn acquire(&mut self, ra: &dyn RemoteAtomics) -> Result<bool>;

    /// Releases it.
    fn release(&mut self, ra: &dyn RemoteAtomics) -> Result<()>;
}

fn mutex<'a>(ra: &'a dyn RemoteAtomics, home: Rank, task: &Task) -> Result<Box<dyn Mutex + 'a>> {
    Ok(match task.lock.as_str() {
        "lease" => {
            let place = Place::alloc(ra, home, Lease::WORDS, Lease::NODE)?;
            Box::new(Lease::bind(ra, place, LeaseParams { term: task.lease, backoff: Backoff::default() })?)
        }
        pthread::NAME => Box::new(Pthread::new(ra, home)?),
        policy => Box::new(Policy::new(ra, policy.parse().expect("the names are those of policies"))?),
    })
}

impl Mutex for Lease {
    fn acquire(&mut self, ra: &dyn RemoteAtomics) -> Result<bool> {
        Ok(self.acquire_lease(ra)?.took_over)
    }

    fn release(&mut self, ra: &dyn RemoteAtomics) -> Result<()> {
        RawMutex::release(self, ra)
    }
}

/// The exclusive lock of the home.
impl Mutex for Policy {
    fn acquire(&mut self, ra: &dyn RemoteAtomics) -> Result<bool> {
        let entry = self.recoverable_lock(ra, LockKind::Exclusive, Rank(0))?;
        let told = matches!(entry, Entry::OwnerDead(_));
        if told {
            self.consistent(ra)?;
        }
        Ok(told)
    }

    fn release(&mut self, ra: &dyn RemoteAtomics) -> Result<()> {
        self.unlock(ra, LockKind::Exclusive, Rank(0))
    }
}
