//! Runs on the simulator.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use rmalab_atomics::sim::profile::{LocalAtomics, Profile};
use rmalab_atomics::sim::{Options, Sim, Simulator, Stats};
use rmalab_atomics::{Distance, RemoteAtomics};
use rmalab_windows::Team;

use super::rank::{Done, drive, rates, throughput, window};
use super::source::Source;
use crate::subject::any_lock::Maker;
use rmalab_report::statistics::{histogram, jain};

/// The limit on a candidate's events is this number, plus this multiple of the events without any lock.
const EVENTS: (u64, u64) = (20_000_000, 50);

/// The results of one run.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) throughput: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) fairness: f64,
    pub(super) acquisitions: u64,
    /// Of all ranks together, in nanoseconds.
    pub(super) time: u64,
    pub(super) computed: u64,
    pub(super) locking: u64,
    pub(super) stats: Stats,
}

/// The reason of a missing sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    Interrupted,
    /// It takes too long to simulate: this many events.
    Long(u64),
    Failed(String),
}

/// A machine and the work on it.
pub(super) struct Machine<'a> {
    pub(super) profile: &'a Profile,
    pub(super) source: &'a Arc<Source>,
    pub(super) stop: &'a AtomicBool,
    /// The events without any lock, if known.
    pub(super) events: Option<u64>,
}

impl Machine<'_> {
    fn simulator(&self, seed: u64) -> rmalab_atomics::Result<Simulator> {
        let options = Options {
            ranks_per_node: Some(self.source.ranks_per_node().min(self.source.ranks())),
            segment_bytes: self.source.segment_bytes(1),
            seed,
            ..Options::new(self.source.ranks())
        };
        Simulator::new(self.profile, &options)
    }

    /// The nanoseconds of an undisturbed operation, by distance.
    pub(super) fn operations(&self) -> [f64; 3] {
        let (profile, nanoseconds) = (self.profile, |ps: u64| ps as f64 / 1000.0);
        let (own, node) = match profile.local_atomics {
            LocalAtomics::Processor => (profile.node.atomic.0, profile.node.atomic.0 + profile.node.core.0),
            LocalAtomics::Nic => {
                let ways = 2 * profile.loopback.0 + profile.overhead.0 + profile.completion.0;
                (ways + profile.nic.atomic.0 + profile.nic.word.0, ways + profile.nic.atomic.0 + profile.nic.word.0)
            }
        };
        let remote = self.simulator(1).map_or(0.0, |simulator| {
            let network = simulator.network();
            let nodes = self.source.ranks().div_ceil(self.source.ranks_per_node());
            let others = (1..nodes).step_by(nodes.div_ceil(64).max(1) as usize);
            let hops: Vec<u32> = others.map(|other| network.hops(0, other)).collect();
            profile.remote_word(hops.iter().sum::<u32>() / (hops.len().max(1) as u32)).as_nanoseconds()
        });
        [nanoseconds(own), nanoseconds(node), remote]
    }
}

/// The results of a run, which all ranks write.
struct Written {
    latency: Histogram<u64>,
    /// The error of the first rank that failed.
    failed: Option<String>,
}

impl Machine<'_> {
    /// One policy under one seed.
    pub(super) fn simulate(&self, seed: u64, maker: Maker) -> Result<Sample, Failure> {
        let machine = self;
        let failed = |error: rmalab_atomics::Error| Failure::Failed(error.to_string());
        let simulator = machine.simulator(seed).map_err(failed)?;
        let written = Rc::new(RefCell::new(Written { latency: histogram(), failed: None }));
        let most = machine.events.map_or(u64::MAX, |events| EVENTS.0.saturating_add(EVENTS.1.saturating_mul(events)));
        let mut long = None;
        let body = {
            let (source, written) = (Arc::clone(machine.source), Rc::clone(&written));
            move |ra: &Sim<'_>| {
                let done = rank(ra, &source, seed, maker, &written);
                done.unwrap_or_else(|error| {
                    // Other ranks may wait for this rank for ever; this error is the cause.
                    written.borrow_mut().failed.get_or_insert_with(|| error.to_string());
                    Done::default()
                })
            }
        };
        let outcome = simulator.run_with(body, &mut |progress| {
            if progress.events > most {
                long = Some(progress.events);
            }
            long.is_none() && !machine.stop.load(Ordering::Relaxed)
        });
        if machine.stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        if let Some(events) = long {
            return Err(Failure::Long(events));
        }
        if let Some(error) = written.borrow_mut().failed.take() {
            return Err(Failure::Failed(error));
        }
        let outcome = outcome.map_err(failed)?;
        let (ranks, latency) = (&outcome.results, &written.borrow().latency);
        let sum = |part: fn(&Done) -> u64| ranks.iter().map(part).sum();
        Ok(Sample {
            throughput: throughput(ranks),
            p50: latency.value_at_quantile(0.5) as f64,
            p99: latency.value_at_quantile(0.99) as f64,
            fairness: jain(&rates(ranks)),
            acquisitions: sum(|done| done.acquisitions),
            time: sum(|done| done.ended - done.began),
            computed: sum(|done| done.computed),
            locking: sum(|done| done.locking),
            stats: outcome.stats,
        })
    }
}

fn rank(
    ra: &dyn RemoteAtomics,
    source: &Source,
    seed: u64,
    maker: Maker,
    written: &RefCell<Written>,
) -> rmalab_windows::Result<Done> {
    let team = Team::new(ra)?;
    let mut window = window(&team, source, maker)?;
    let mut latency = |ns| written.borrow_mut().latency.saturating_record(ns);
    drive(&mut window, &mut source.steps(seed, ra.rank()), &mut latency)
}

impl Sample {
    /// Operations of an acquisition, by distance, including operations on the data.
    pub(super) fn operations(&self) -> [f64; 3] {
        Distance::ALL.map(|distance| self.stats.operations.at(distance) as f64 / self.acquisitions.max(1) as f64)
    }
}
