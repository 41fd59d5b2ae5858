//! Measures short operations: in batches of as many calls as fill a share of a budget.
//!
//! `peers/mpi.c` and `peers/ck.c` do the same.

use rmalab_job::Result;
use rmalab_report::statistics::median;

/// The number of batches, of which the median counts.
const BATCHES: usize = 5;

/// The largest number of calls in a batch.
const MOST_CALLS: u64 = 10_000_000;

/// Between two readings of the clock, a chunk of calls takes a time in this range, in nanoseconds, or has that many
/// calls.
const CHUNK_NS: (f64, f64) = (10e3, 100e3);
const MOST_CHUNK: u64 = 4096;

/// Returns nanoseconds of a call, and the total number of calls; `batch` makes that many calls and returns their time.
///
/// Ranks with the same times make the same numbers of calls. An operation that takes longer than the budget is timed
/// less often, but at least once.
pub(super) fn measure(budget: f64, mut batch: impl FnMut(u64) -> Result<f64>) -> Result<(f64, u64)> {
    let target = budget / BATCHES as f64;
    let (mut calls, mut total) = (1_u64, 0);
    let time = loop {
        let time = batch(calls)?;
        total += calls;
        if time >= target / 2.0 || calls >= MOST_CALLS {
            break time;
        }
        let grown = if time > 0.0 { (calls as f64 * (target / time)) as u64 + 1 } else { u64::MAX };
        calls = grown.min(10 * calls);
    };
    if calls > 1 {
        // Calls without a measurable time can be repeated any number of times.
        calls = ((calls as f64 * (target / time)) as u64).saturating_add(1).min(MOST_CALLS);
    }
    let (mut times, mut sum) = (Vec::new(), 0.0);
    while times.is_empty() || times.len() < BATCHES && sum < 4.0 * budget {
        let time = batch(calls)?;
        sum += time;
        total += calls;
        times.push(time / calls as f64);
    }
    Ok((median(times.into_iter()), total))
}

/// Returns nanoseconds of a call, where `batch` runs for a time and returns that: one to warm up, and then several.
pub(super) fn measure_freely(budget: f64, mut batch: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let target = budget / BATCHES as f64;
    batch(target / 2.0)?;
    let times: Vec<f64> = (0..BATCHES).map(|_| batch(target)).collect::<Result<_>>()?;
    Ok(median(times.into_iter()))
}

/// Calls `body` with numbers of calls until `time` has passed; returns nanoseconds of a call, and their number.
pub(super) fn until(time: f64, now: impl Fn() -> f64, body: &mut dyn FnMut(u64) -> Result<()>) -> Result<(f64, u64)> {
    let begin = now();
    let (mut chunk, mut calls, mut last) = (1, 0, begin);
    loop {
        body(chunk)?;
        calls += chunk;
        let end = now();
        if end - begin >= time {
            return Ok(((end - begin) / calls as f64, calls));
        }
        if end - last < CHUNK_NS.0 {
            chunk = MOST_CHUNK.min(2 * chunk);
        } else if end - last > CHUNK_NS.1 {
            chunk = 1.max(chunk / 2);
        }
        last = end;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn short_calls_fill_the_budget_and_long_ones_run_once() {
        for (each, most_batches) in [(7.0, 1e9), (4e6, 6.0), (1e9, 2.0)] {
            let (mut made, mut spent, mut batches) = (0, 0.0, 0.0);
            let (time, total) = measure(20e6, |calls| {
                made += calls;
                batches += 1.0;
                spent += each * calls as f64;
                Ok(each * calls as f64)
            })
            .unwrap();
            assert_eq!((time, total), (each, made));
            assert!(batches <= most_batches && ((15e6..=60e6).contains(&spent) || each == 1e9), "{each}: {spent}");
        }
    }

    #[test]
    fn the_clock_is_read_once_for_each_chunk() {
        for each in [0.5, 50.0, 3e6] {
            let (time, looks) = (Cell::new(0.0), Cell::new(0.0));
            let now = || {
                looks.set(looks.get() + 1.0);
                time.get()
            };
            let mut body = |calls: u64| {
                time.set(time.get() + each * calls as f64);
                Ok(())
            };
            let (found, calls) = until(10e6, now, &mut body).unwrap();
            assert!((found - each).abs() < 1e-6 && calls as f64 * each >= 10e6, "{each}: {found} of {calls}");
            assert!(
                looks.get() <= 16.0 + 10e6 / 2e3 && calls as f64 * each <= 10e6 + 4e6,
                "{each}: {} looks",
                looks.get()
            );
        }
    }

    #[test]
    fn calls_without_measurable_time_end() {
        assert_eq!(measure(20e6, |_| Ok(0.0)).unwrap().0, 0.0);
    }
}
