//! One rank of a run, on any backend.

use rmalab_atomics::RemoteAtomics;
use rmalab_windows::replay::{Locked, Observed, Phase, Replay, Step};
use rmalab_windows::{Result, Team, Window};
use serde::{Deserialize, Serialize};

use super::source::{Source, computed};
use crate::subject::any_lock::{AnyPolicy, Maker};

/// The window of a candidate, on any backend, under any policy.
pub(super) type Tested<'t, 'a> = Replay<'t, dyn RemoteAtomics + 'a, AnyPolicy>;

/// Makes the window of a candidate.
pub(super) fn window<'t, 'a>(
    team: &'t Team<'t, dyn RemoteAtomics + 'a>,
    source: &Source,
    maker: Maker,
) -> Result<Tested<'t, 'a>> {
    Replay::new(Window::builder(team).config(source.config()).policy::<AnyPolicy>(maker), &source.shape())
}

/// The work of a rank; times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) acquisitions: u64,
    /// The computing time of its steps.
    pub(super) computed: u64,
    /// The time in calls of lock and unlock.
    pub(super) locking: u64,
}

/// Does `steps`; `latency` gets the nanoseconds of each lock and its unlock together.
pub(super) fn drive(
    replay: &mut Tested<'_, '_>,
    steps: &mut dyn Iterator<Item = Step>,
    latency: &mut dyn FnMut(u64),
) -> Result<Done> {
    let ra = replay.window().team().ra();
    let mut done = Done { began: ra.now().0, ..Done::default() };
    let mut held: Vec<(Locked, u64)> = Vec::new();
    let mut computes = 0;
    let steps = steps.map(|step| {
        computes += computed(&step).as_nanos() as u64;
        Ok(step)
    });
    replay.run(steps, |Observed { phase, locked, start, end }| {
        let took = end.since(start).as_nanos() as u64;
        match phase {
            Phase::Acquire => held.push((locked, took)),
            Phase::Hold => {}
            Phase::Release => {
                if let Some(at) = held.iter().rposition(|&(other, _)| other == locked) {
                    let all = held.swap_remove(at).1 + took;
                    done.acquisitions += 1;
                    done.locking += all;
                    latency(all);
                }
            }
        }
    })?;
    done.computed = computes;
    done.ended = ra.now().0;
    Ok(done)
}

/// Acquisitions per second, of all ranks together, from the first rank's start to the last rank's end.
pub(super) fn throughput(ranks: &[Done]) -> f64 {
    let began = ranks.iter().map(|done| done.began).min().unwrap_or(0);
    let ended = ranks.iter().map(|done| done.ended).max().unwrap_or(0);
    let acquisitions: u64 = ranks.iter().map(|done| done.acquisitions).sum();
    acquisitions as f64 / (ended.saturating_sub(began).max(1) as f64 / 1e9)
}

/// Acquisitions per second of each rank, each until its own end.
pub(super) fn rates(ranks: &[Done]) -> Vec<f64> {
    let rate = |done: &Done| done.acquisitions as f64 / done.ended.saturating_sub(done.began).max(1) as f64;
    // A rank of a trace that has locked nothing has no rate.
    ranks.iter().filter(|done| done.acquisitions > 0).map(rate).collect()
}
