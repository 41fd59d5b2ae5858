//! A comparison of this machine's measured times with simulated ones of its profile.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rmalab_atomics::sim::Profile;

use super::validate::Check;
use super::{Load, Mix, Options, Section, Simulation};
use crate::study::{self, Backend};
use crate::{Registry, calibrate};
use rmalab_job::{Error, Result};

/// The compared locks, with true for lock_all, and false for exclusive locks.
const COMPARED: [(&str, bool); 5] =
    [("mcs", false), ("mcs-rw-rp", true), ("mcs-rw-rp", false), ("ticket", false), ("two-level", true)];

/// A lock whose contended throughput depends on the arbitration of the processors' caches; compared all the same.
const POLLED: (&str, bool) = ("tas", false);

/// The time of this lock alone, beyond its [`ATOMICS`], is the time of the study's loop and of a lock's code. The
/// simulator takes no time for them, so the simulated ranks compute for that long. The comparison leaves out this lock.
const LOOP: &str = "tas-rw";

/// Atomics in a pair of [`LOOP`].
const ATOMICS: f64 = 2.0;

/// The number of repetitions; the comparison uses medians.
const REPETITIONS: u32 = 7;

/// Duration of each calibration: ahead of the first repetition, and after each. A hypervisor may move the processors
/// within minutes.
const CALIBRATION: Duration = Duration::from_millis(500);

/// A repetition counts if a transfer changes by at most this share between the calibrations around it.
const STEADY: f64 = 0.25;

/// Duration of each single measurement.
const CELL: Duration = Duration::from_millis(200);

/// Duration of everything, in seconds.
pub const SECONDS: u64 =
    (CELL.as_millis() as u64 * 2 * 6 * 2 + CALIBRATION.as_millis() as u64) * REPETITIONS as u64 / 1000 + 10;

/// Largest allowed deviation of a simulated time from the measured one.
const BOUND: f64 = 0.25;

/// Simulated acquisitions of a rank.
const PAIRS: u32 = 5000;

/// The figures of one repetition: nanoseconds of a pair, measured and simulated.
type Pairs = Vec<[f64; 2]>;

/// Measures locks on processes of this machine, one rank alone and two against each other, and simulates the same. It
/// uses `profile`, or a calibration ahead of each repetition.
///
/// Returns the checks, and the number of valid repetitions. A repetition is valid if the calibrations before and after
/// it agree.
///
/// # Errors
///
/// Errors of the study, of the calibration and of the simulator; [`Error::Ranks`] when no repetition counts.
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
        let why = "the time of transfers between the two processors changed after each repetition; try again later";
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

/// The given profile, or a profile of this machine, calibrated now.
fn calibrated(profile: Option<&Profile>) -> Result<Profile> {
    match profile {
        Some(profile) => Ok(profile.clone()),
        None => {
            let asked = calibrate::Options { name: "this-machine".into(), duration: CALIBRATION };
            Ok(calibrate::calibrate(&asked, &AtomicBool::new(false), |_| {})?.profile)
        }
    }
}

/// One repetition: first with one rank alone, then with two.
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
        options.loads.push(Load { mix: Mix::writers(share), section: Section::Wait(time, time), ..Load::default() });
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
