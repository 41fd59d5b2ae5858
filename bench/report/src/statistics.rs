//! Medians, fairness, and distributions of times.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Precision of the latency histograms: 1 % is finer than the difference of two runs.
const DIGITS: u8 = 2;

/// The longest latency that histograms distinguish from longer ones, in nanoseconds.
const LONGEST: u64 = 1_000_000_000_000;

/// A distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// The number of recorded times.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Quantiles {
    /// The quantiles of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Quantiles {
        Quantiles {
            count: histogram.len(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }

    /// The median of each value, except that it has the longest time of all and the sum of the counts.
    pub fn median(each: impl Iterator<Item = Quantiles>) -> Quantiles {
        let each: Vec<Quantiles> = each.collect();
        let middle = |value: fn(&Quantiles) -> u64| median(each.iter().map(|quantiles| value(quantiles) as f64)) as u64;
        Quantiles {
            count: each.iter().map(|quantiles| quantiles.count).sum(),
            mean: median(each.iter().map(|quantiles| quantiles.mean)),
            p50: middle(|quantiles| quantiles.p50),
            p90: middle(|quantiles| quantiles.p90),
            p99: middle(|quantiles| quantiles.p99),
            p999: middle(|quantiles| quantiles.p999),
            max: each.iter().map(|quantiles| quantiles.max).max().unwrap_or(0),
        }
    }
}

/// An empty histogram of latencies in nanoseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are constants that the library accepts")
}

/// Jain's fairness index of the ranks' shares.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The middle value, or the mean of the two in the middle; 0 for no values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (count, middle) if count % 2 == 1 => values[middle],
        (_, middle) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equal_rates_and_one_nth_for_a_single_winner() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }
}
