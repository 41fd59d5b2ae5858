//! Fourier transforms of one length in double precision.
//!
//! The library's code is generic over the type of numbers, and large. This crate depends on no other part of the
//! laboratory, so it is compiled once, and not again after a change to a lock.
#![forbid(unsafe_code)]

use std::sync::Arc;

pub use rustfft::Fft as Plan;
use rustfft::FftPlanner;

/// A plan for transforms of length `n`, forward or inverse. An inverse transform does not divide by `n`.
pub fn plan(n: usize, inverse: bool) -> Arc<dyn Plan<f64>> {
    let mut planner = FftPlanner::new();
    if inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) }
}

#[cfg(test)]
mod tests {
    use rustfft::num_complex::Complex64;

    #[test]
    fn an_inverse_transform_undoes_a_forward_one() {
        let numbers: Vec<Complex64> = (0..8).map(|k| Complex64::new(f64::from(k), 1.0)).collect();
        let mut transformed = numbers.clone();
        super::plan(8, false).process(&mut transformed);
        assert!((transformed[0] - numbers.iter().sum::<Complex64>()).norm() < 1e-9);
        super::plan(8, true).process(&mut transformed);
        assert!(numbers.iter().zip(&transformed).all(|(before, after)| (after / 8.0 - before).norm() < 1e-9));
    }
}
