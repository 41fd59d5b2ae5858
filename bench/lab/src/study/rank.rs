//! One world of a study, as each of its ranks sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmalab_atomics::{Backend, Collectives, Disp, Mapped, Rank, RemoteAtomics, Time};
use rmalab_locks::LINE;

use super::options::Options;
use super::outcome::{Message, RankSample, Sample, Values, world_keys};
use crate::Registry;
use crate::subject::passes::{Ledger, Passes, Task};
use crate::workload::Layout;
use rmalab_job::{Error, Result, say};
use rmalab_report::numbers::nanoseconds;

/// Bytes of a rank's segment: the locks' words, and room for results.
pub(crate) const SEGMENT_BYTES: u64 = 4 << 20;

/// Room for one rank's results, as JSON.
///
/// These are at most six histograms of two digits from 1 ns to 1,000 s. Each has about 4,500 values of some 20 letters.
const RESULT_BYTES: u64 = 1 << 20;

/// Shares of a cell's time: warm-up, throughput, latency and counted pass, in percent.
const SPLIT: [u32; 4] = [5, 40, 40, 15];

/// The longest turn of a rank at the lock, without the rank's computing: a time slice of the scheduler.
const TURN: Duration = Duration::from_millis(1);

/// Notice of a pass for each rank: a wake-up takes some 50 µs.
const NOTICE: Duration = Duration::from_micros(100);

/// The longest notice of a pass.
const LONGEST_NOTICE: Duration = Duration::from_millis(10);

/// Measures all cells of one world: every rank calls this, and rank 0 passes the results to `report`.
///
/// `memory` is `ra` again if the backend is shared memory. Its locks take nanoseconds, so separate code measures them.
///
/// # Errors
///
/// The errors of the locks and of the atomics. Other ranks may be waiting, so the rank has to fail, not only to leave.
pub(crate) fn measure(
    ra: &dyn RemoteAtomics,
    memory: Option<&Mapped>,
    registry: &Registry,
    backend: Backend,
    options: &Options,
    stop: &AtomicBool,
    report: &dyn Fn(Message),
) -> Result<()> {
    if options.bind {
        rmalab_atomics::bind_to_core(ra.rank())?;
    }
    let meeting = Meeting::new(ra, memory.is_some())?;
    let home = Rank(options.home);
    let layout = options.table()?.map(|table| Arc::new(Layout::new(table, ra.topology())));
    let mut locks: Vec<(&str, Box<dyn Passes + '_>)> = Vec::new();
    for name in &options.locks {
        let subject = registry.find(name)?;
        let passes = match &layout {
            Some(layout) => subject.passes_over(ra, layout)?,
            None => subject.passes(ra, memory, home)?,
        };
        locks.push((name, passes));
    }
    let line = || ra.heap().alloc(LINE, LINE);
    let ledger = Ledger { grants: line()?, last: line()?, inside: line()?, beats: line()? };
    let watchdog = Watchdog::start()?;
    let share = |percent: u32| options.cell_duration() * percent / 100;
    for repetition in 0..options.repetitions {
        for (number, key) in (0u64..).zip(world_keys(options, backend, ra.size())) {
            if meeting.any(stop.load(Ordering::Relaxed))? {
                if ra.rank().0 == 0 {
                    report(Message::Interrupted);
                }
                return Ok(());
            }
            let (_, lock) = locks.iter_mut().find(|(name, _)| *name == key.lock).expect("every named lock was bound");
            let mut task = Task {
                read_fraction: key.read_fraction,
                critical_section: options.critical_section,
                think_time: options.think_time,
                home,
                target: options.target,
                seed: options.seed.wrapping_add(u64::from(repetition) << 32).wrapping_add(number),
                ledger,
                patience: options.patience,
                stop,
            };
            let sample = measure_cell(ra, &meeting, lock.as_mut(), &mut task, &key.lock, &watchdog, share)
                .map_err(|source| Error::Lock { lock: key.lock.clone(), source })?;
            let text = serde_json::to_vec(&sample).expect("numbers in lists are JSON");
            if let Some(samples) = meeting.gather(&text)? {
                let samples = samples
                    .iter()
                    .map(|text| serde_json::from_slice(text))
                    .collect::<Result<Vec<RankSample>, _>>()
                    .map_err(|error| Error::Ranks(format!("a rank's results cannot be read: {error}")))?;
                if !samples.iter().any(|sample| sample.interrupted) {
                    report(Message::Sample(Box::new(Sample { key, values: Values::of(&samples) })));
                }
            }
        }
    }
    Ok(())
}

/// All passes of one cell.
fn measure_cell(
    ra: &dyn RemoteAtomics,
    meeting: &Meeting<'_>,
    lock: &mut dyn Passes,
    task: &mut Task<'_>,
    name: &str,
    watchdog: &Watchdog,
    share: impl Fn(u32) -> Duration,
) -> rmalab_locks::Result<RankSample> {
    // The last holder of the previous cell must not count as a handover in this one.
    ra.fetch_store(ra.rank().at(task.ledger.last), 0)?;
    let [warm_up, timed, latency, counted] = SPLIT.map(share);
    // After the end each rank still completes a batch of acquisitions, and all batches may take turns.
    let turns = 16 * ra.size();
    let grace = (task.critical_section + task.think_time + TURN).saturating_mul(turns).saturating_add(task.patience);
    let pass = |what: &str, span: Duration| -> rmalab_locks::Result<Time> {
        let end = meeting.start()?.after(span);
        watchdog.expects(end.since(ra.now()).saturating_add(grace), || {
            format!(
                "{name}: {} has not returned from an acquire or a release {grace:?} after the end of the {what}: the \
                 lock is not released, or a wake-up is lost",
                ra.rank()
            )
        });
        Ok(end)
    };
    let tried = lock.trial(task, name)?;
    lock.throughput(task, pass("warm-up", warm_up)?)?;
    watchdog.rests();
    let throughput = lock.throughput(task, pass("throughput pass", timed)?)?;
    watchdog.rests();
    let latency = lock.latency(task, pass("latency pass", latency)?)?;
    watchdog.rests();
    let mut counts = lock.counted(task, pass("counted pass", counted)?)?;
    watchdog.rests();
    counts.violations += tried;
    let interrupted = task.stop.load(Ordering::Relaxed);
    Ok(RankSample { throughput, span_ns: nanoseconds(timed), latency, counts, interrupted })
}

/// Ends the process when a rank does not return from a lock.
///
/// The timed loops take nanoseconds, so they cannot check this themselves.
struct Watchdog {
    /// The time by which a rank has to return, and the error otherwise.
    expected: Arc<Mutex<Option<(Instant, String)>>>,
}

/// Time between two checks of a [`Watchdog`].
const LOOK: Duration = Duration::from_millis(500);

impl Watchdog {
    fn start() -> Result<Watchdog> {
        let expected: Arc<Mutex<Option<(Instant, String)>>> = Arc::default();
        let seen = Arc::downgrade(&expected);
        let watch = move || {
            while let Some(expected) = seen.upgrade() {
                let late =
                    expected.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(at, _)| Instant::now() >= *at);
                if let Some((_, what)) = late {
                    say!("error: {what}");
                    std::process::exit(1);
                }
                drop(expected);
                std::thread::sleep(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(watch);
        thread.map_err(|error| {
            rmalab_atomics::Error::system(
                "starting the thread of the watchdog (ulimit -u says how many this user may have)",
                error,
            )
        })?;
        Ok(Watchdog { expected })
    }

    /// Requires the rank to return within `time`; otherwise `what` is the error.
    fn expects(&self, time: Duration, what: impl FnOnce() -> String) {
        // A time beyond the range of this clock never comes.
        let at = Instant::now().checked_add(time).map(|at| (at, what()));
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Records that the rank has returned.
    fn rests(&self) {
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Barrier and exchange of the ranks of a study.
struct Meeting<'a> {
    ra: &'a dyn RemoteAtomics,
    /// True if all ranks read the same clock, as ranks of one host do.
    one_clock: bool,
    together: Collectives<'a, dyn RemoteAtomics + 'a>,
    /// At each rank: its results.
    results: Disp,
}

impl<'a> Meeting<'a> {
    fn new(ra: &'a dyn RemoteAtomics, one_clock: bool) -> Result<Meeting<'a>> {
        Ok(Meeting { ra, one_clock, together: Collectives::new(ra)?, results: ra.heap().alloc(RESULT_BYTES, LINE)? })
    }

    /// Waits until all ranks have arrived, and then until a common time, which it returns.
    ///
    /// Without a common clock it returns the time on the local clock at which the barrier released this rank.
    fn start(&self) -> rmalab_atomics::Result<Time> {
        self.together.barrier()?;
        if !self.one_clock {
            return Ok(self.ra.now());
        }
        // The ranks sleep until then, so that ranks without that time yet get a processor.
        let notice = (NOTICE * self.ra.size()).min(LONGEST_NOTICE);
        let mut start = [self.ra.now().after(notice).0];
        self.together.broadcast(Rank(0), &mut start)?;
        let start = Time(start[0]);
        std::thread::sleep(start.since(self.ra.now()));
        Ok(start)
    }

    /// Returns whether any rank says yes. All ranks get the same answer.
    fn any(&self, yes: bool) -> rmalab_atomics::Result<bool> {
        Ok(self.together.allgather(&[u64::from(yes)])?.contains(&1))
    }

    /// Sends every rank's bytes to rank 0. Only rank 0 gets them.
    fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let ra = self.ra;
        let length = bytes.len() as u64;
        if length > RESULT_BYTES {
            return Err(Error::Ranks(format!(
                "the results of {} take {length} bytes, but the limit is {RESULT_BYTES}",
                ra.rank()
            )));
        }
        ra.put_bytes(ra.rank().at(self.results), bytes)?;
        let lengths = self.together.allgather(&[length])?;
        if ra.rank().0 != 0 {
            // This rank writes there again only after a barrier. Rank 0 enters it after it has read all results.
            return Ok(None);
        }
        let all = (0u32..).zip(lengths).map(|(rank, length)| {
            let mut bytes = vec![0; usize::try_from(length).expect("results fit into memory")];
            ra.get_bytes(Rank(rank).at(self.results), &mut bytes)?;
            Ok(bytes)
        });
        all.collect::<Result<Vec<_>>>().map(Some)
    }
}
