//! This machine, measured, beside its profile, simulated.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rmalab_atomics::sim::Profile;

use super::validate::Check;
use super::{Load, Mix, Options, Section, Simulation};
use crate::study::{self, Backend};
use crate::{Registry, calibrate};
use rmalab_job::{Error, Result};

/// The locks that are compared, with whether it is lock_all that is made, or exclusive locks.
const COMPARED: [(&str, bool); 5] =
    [("mcs", false), ("mcs-rw-rp", true), ("mcs-rw-rp", false), ("ticket", false), ("two-level", true)];

/// Whose contended throughput depends on how the processors' caches arbitrate: compared all the same.
const POLLED: (&str, bool) = ("tas", false);

/// What the study's loop and a lock's own code take around the operations, which the simulator takes for nothing: what this
/// lock takes alone, which is not compared, beyond its [`ATOMICS`]. The simulated ranks compute for as long.
const LOOP: &str = "tas-rw";

/// Atomics that a pair of [`LOOP`] does.
const ATOMICS: f64 = 2.0;

/// How often all are measured; what is compared are medians.
const REPETITIONS: u32 = 7;

/// How long each calibration takes: before the first repetition, and after each. Where a hypervisor puts the processors
/// changes between minutes.
const CALIBRATION: Duration = Duration::from_millis(500);

/// How much a transfer may change from a calibration to the next for the repetition between to count.
const STEADY: f64 = 0.25;

/// How long each is measured once.
const CELL: Duration = Duration::from_millis(200);

/// How many seconds it all takes.
pub const SECONDS: u64 =
    (CELL.as_millis() as u64 * 2 * 6 * 2 + CALIBRATION.as_millis() as u64) * REPETITIONS as u64 / 1000 + 10;

/// How far a simulated time may be from the measured one.
const BOUND: f64 = 0.25;

/// How many acquisitions a rank is simulated for.
const PAIRS: u32 = 5000;

/// What one repetition brought of each figure: nanoseconds of a pair, measured and simulated.
type Pairs = Vec<[f64; 2]>;

/// Measures locks on processes of this machine, one rank alone and two against each other, and simulates the same, with
/// `profile`, or with what a calibration measures before each repetition.
///
/// The checks, and how many repetitions count: those between two calibrations that agree.
///
/// # Errors
///
/// Those of the study, of the calibration and of the simulator; [`Error::Ranks`] when no repetition counts.
pub fn compare(registry: &Registry, profile: Option<&Profile>, seed: u64) -> Result<(Vec<Check>, u32)> {
    let compared: Vec<(&str, bool)> = COMPARED.into_iter().chain([POLLED]).collect();
    let mut repetitions: Vec<Pairs> = Vec::new();
    let mut before = calibrated(profile)?;
    for repetition in 0..REPETITIONS {
        let seed = seed.wrapping_add(u64::from(repetition) << 32);
        let pairs = repeat(registry, &compared, &before, seed)?;
        let after = calibrated(profile)?;
        let [core, next] = [&before, &after].map(|profile| profile.node.core.as_nanoseconds().max(1.0));
        if (next / core).max(core / next) <= 1.0 + STEADY {
            repetitions.push(pairs);
        }
        before = after;
    }
    if repetitions.is_empty() {
        let why = "transfers between the two processors took another time after each repetition; try again later";
        return Err(Error::Ranks(why.into()));
    }
    let median = |figure: usize, which: usize| {
        let mut pairs: Vec<f64> = repetitions.iter().map(|pairs| pairs[figure][which]).collect();
        pairs.sort_by(f64::total_cmp);
        pairs[pairs.len() / 2]
    };
    let mut checks = Vec::new();
    for (half, who) in ["alone", "two ranks"].into_iter().enumerate() {
        for (index, &(lock, all)) in compared.iter().enumerate() {
            let what = if all { "lock_all" } else { "exclusive" };
            let figure = half * compared.len() + index;
            let name = format!("{lock}, {what}, {who}");
            checks.push(Check::time(&name, median(figure, 0), median(figure, 1), BOUND));
        }
    }
    Ok((checks, repetitions.len() as u32))
}

/// The profile that is asked for, or this machine's at this moment.
fn calibrated(profile: Option<&Profile>) -> Result<Profile> {
    match profile {
        Some(profile) => Ok(profile.clone()),
        None => {
            let asked = calibrate::Options { name: "this-machine".into(), duration: CALIBRATION };
            Ok(calibrate::calibrate(&asked, &AtomicBool::new(false), |_| {})?.profile)
        }
    }
}

/// One repetition: first of one rank alone, then of two.
fn repeat(registry: &Registry, compared: &[(&str, bool)], profile: &Profile, seed: u64) -> Result<Pairs> {
    let mut locks: Vec<String> = compared.iter().map(|(name, _)| (*name).to_owned()).collect();
    locks.dedup();
    locks.push(LOOP.to_owned());
    let asked = study::Options {
        backends: vec![Backend::Shm],
        ranks: vec![1, 2],
        locks: locks.clone(),
        read_fractions: vec![1.0, 0.0],
        duration: Some(CELL),
        repetitions: 1,
        seed,
        ..study::Options::default()
    };
    let measured = study::run(registry, &asked)?;
    let pair = |ranks: u32, throughput: f64| f64::from(ranks) * 1e9 / throughput.max(1e-9);
    let measured = |lock: &str, ranks: u32, fraction: f64| {
        let mut cells = measured.cells.iter();
        let cell = cells
            .find(|cell| cell.key.lock == lock && cell.key.ranks == ranks && cell.key.read_fraction == fraction)
            .ok_or_else(|| Error::Ranks(format!("{lock} at {ranks} ranks was not measured")))?;
        Ok::<f64, Error>(pair(ranks, cell.values.throughput))
    };
    let mut options = Options::new(profile.clone());
    locks.pop();
    options.locks = locks;
    options.ranks = vec![1, 2];
    options.loads.clear();
    for share in [0.0, 1.0] {
        let own = measured(LOOP, 1, 1.0 - share)? - ATOMICS * profile.node.atomic.as_nanoseconds();
        let time = Duration::from_nanos(own.max(0.0).round() as u64);
        options.loads.push(Load { mix: Mix::writers(share), section: Section::Wait(time, time) });
    }
    options.pairs = Some(PAIRS);
    options.seed = seed;
    let simulated = Simulation::new(registry, options)?.run(|_| {})?;
    let mut pairs = Vec::new();
    for ranks in [1, 2] {
        for &(lock, all) in compared {
            let fraction = if all { 1.0 } else { 0.0 };
            let mut points = simulated.points.iter();
            let point = points
                .find(|point| {
                    let key = &point.key;
                    key.lock == lock && key.ranks == ranks && key.load.mix.lock_all == fraction
                })
                .ok_or_else(|| Error::Ranks(format!("{lock} at {ranks} ranks was not simulated")))?;
            pairs.push([measured(lock, ranks, fraction)?, pair(ranks, point.throughput)]);
        }
    }
    Ok(pairs)
}
