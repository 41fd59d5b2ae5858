//! This machine, measured, beside its profile, simulated.

use std::time::Duration;

use rmalab_atomics::sim::Profile;

use super::validate::Check;
use super::{Load, Mix, Options, Section, Simulation};
use crate::study::{self, Backend};
use crate::{Error, Registry, Result};

/// The locks that are compared, with whether it is lock_all that is made, or exclusive locks.
const COMPARED: [(&str, bool); 5] =
    [("mcs", false), ("mcs-rw-rp", true), ("mcs-rw-rp", false), ("ticket", false), ("two-level", true)];

/// Whose contended throughput depends on how the processors' caches arbitrate: compared all the same.
const POLLED: (&str, bool) = ("tas", false);

/// What the study's loop takes by itself: the policy that does nothing. The simulated ranks compute for as long.
const LOOP: &str = "nocheck";

/// How often each is measured, interleaved with all others; what is compared is the median.
const REPETITIONS: u32 = 7;

/// How long each is measured once.
const CELL: Duration = Duration::from_millis(200);

/// How many seconds it all takes.
pub const SECONDS: u64 = CELL.as_millis() as u64 * REPETITIONS as u64 * 2 * 6 * 2 / 1000 + 1;

/// How far a simulated time may be from the measured one.
const BOUND: f64 = 0.25;

/// How many acquisitions a rank is simulated for.
const PAIRS: u32 = 5000;

/// Measures locks on processes of this machine, one rank alone and two against each other, and simulates the same.
///
/// # Errors
///
/// Those of the study and of the simulator.
pub fn compare(registry: &Registry, profile: &Profile, seed: u64) -> Result<Vec<Check>> {
    let compared: Vec<(&str, bool)> = COMPARED.into_iter().chain([POLLED]).collect();
    let mut locks: Vec<String> = compared.iter().map(|(name, _)| (*name).to_owned()).collect();
    locks.dedup();
    // What the study's own loop takes.
    locks.push(LOOP.to_owned());
    let asked = study::Options {
        backends: vec![Backend::Shm],
        ranks: vec![1, 2],
        locks: locks.clone(),
        read_fractions: vec![1.0, 0.0],
        duration: Some(CELL),
        repetitions: REPETITIONS,
        seed,
        ..study::Options::default()
    };
    let measured = study::run(registry, &asked)?;
    let mut options = Options::new(profile.clone());
    locks.pop();
    options.locks = locks;
    options.ranks = vec![1, 2];
    let looping = |fraction: f64| {
        let cells = measured.cells.iter();
        let mut own = cells.filter(|cell| cell.key.lock == LOOP && cell.key.ranks == 1);
        let cell = own.find(|cell| cell.key.read_fraction == fraction);
        Duration::from_nanos(cell.map_or(0.0, |cell| 1e9 / cell.values.throughput.max(1.0)).round() as u64)
    };
    let load = |share: f64| {
        let time = looping(1.0 - share);
        Load { mix: Mix::writers(share), section: Section::Wait(time, time) }
    };
    options.loads = [0.0, 1.0].map(load).to_vec();
    options.pairs = Some(PAIRS);
    options.seed = seed;
    let simulated = Simulation::new(registry, options)?.run(|_| {})?;
    let mut checks = Vec::new();
    for ranks in [1, 2] {
        for &(lock, all) in &compared {
            let fraction = if all { 1.0 } else { 0.0 };
            let cell = measured
                .cells
                .iter()
                .find(|cell| cell.key.lock == lock && cell.key.ranks == ranks && cell.key.read_fraction == fraction);
            let point = simulated.points.iter().find(|point| {
                let key = &point.key;
                key.lock == lock && key.ranks == ranks && key.load.mix.lock_all == fraction
            });
            let (Some(cell), Some(point)) = (cell, point) else {
                return Err(Error::Ranks(format!("{lock} at {ranks} ranks was not measured and simulated")));
            };
            let pair = |throughput: f64| f64::from(ranks) * 1e9 / throughput.max(1e-9);
            let what = if all { "lock_all" } else { "exclusive" };
            let who = if ranks == 1 { "alone" } else { "two ranks" };
            checks.push(Check::time(
                &format!("{lock}, {what}, {who}"),
                pair(cell.values.throughput),
                pair(point.throughput),
                BOUND,
            ));
        }
    }
    Ok(checks)
}
