//! Means over several seeds, with confidence intervals.

use serde::Serialize;

/// A mean with its confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The mean of the seeds.
    pub mean: f64,
    /// Half of the 95 % confidence interval of the mean; none with one seed.
    pub half: Option<f64>,
}

/// The 97.5 % quantiles of Student's t distribution with 1, 2, ... degrees of freedom, to three decimals.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Estimate {
    /// Computes them from the values of the seeds, of which there is at least one.
    pub(super) fn of(values: &[f64]) -> Estimate {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Estimate { mean, half: None };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Beyond the table, the last quantile is slightly too large.
        let t = T[(values.len() - 2).min(T.len() - 1)];
        Estimate { mean, half: Some(t * (variance / count).sqrt()) }
    }

    /// Returns whether the intervals have a common value. One seed has no interval, so it overlaps none.
    pub fn overlaps(&self, other: &Estimate) -> bool {
        match (self.half, other.half) {
            (Some(own), Some(others)) => (self.mean - other.mean).abs() <= own + others,
            _ => false,
        }
    }

    /// Half of the interval as a share of the mean.
    pub fn relative(&self) -> Option<f64> {
        self.half.filter(|_| self.mean != 0.0).map(|half| half / self.mean.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        // Mean 3, standard deviation sqrt(2.5), five values: 2.776 * sqrt(2.5 / 5).
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(five.mean, 3.0);
        assert!((five.half.unwrap() - 1.9629).abs() < 1e-4, "{five:?}");
        assert_eq!(Estimate::of(&[7.0]), Estimate { mean: 7.0, half: None });
        assert_eq!(Estimate::of(&[7.0; 40]).half, Some(0.0));
    }

    #[test]
    fn overlap_of_intervals() {
        let at = |mean, half| Estimate { mean, half: Some(half) };
        assert!(at(10.0, 1.0).overlaps(&at(12.0, 1.0)));
        assert!(!at(10.0, 1.0).overlaps(&at(12.1, 1.0)));
        assert!(!at(10.0, 1.0).overlaps(&Estimate { mean: 10.0, half: None }));
    }
}
