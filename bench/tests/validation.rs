//! Compares simulated figures with published ones, in virtual time, so that a slow machine changes nothing.

use std::sync::Arc;

use rmalab::simulate::validate::{self, Check, Value};
use rmalab_atomics::sim::Profile;

/// Acquisitions of each rank: the published figures have 1,000, but these are enough.
const PAIRS: u32 = 50;

fn shown(checks: &[Check]) -> String {
    rmalab::document::text::table(&validate::table("published", checks), usize::MAX)
}

/// Figures 8, 10 and 12 of the FX100 study, all with one profile.
#[test]
fn the_fx100_profile_meets_the_paper() {
    let profile = Profile::builtin("fx100").unwrap();
    let checks = validate::paper(&profile, PAIRS, &Arc::default()).unwrap();
    assert_eq!(checks.len(), 9);
    assert!(checks.iter().all(Check::holds), "{}", shown(&checks));
    let fastest = checks.iter().find(|check| check.what.contains("fastest")).unwrap();
    let (Value::Time(fastest), Value::Time(reference)) = (fastest.simulated, fastest.reference) else { panic!() };
    assert!((reference / 2.0..=reference * 2.0).contains(&fastest), "{}", shown(&checks));
}

/// A machine with an adapter twice as slow does not meet them.
#[test]
fn a_wrong_profile_is_detected() {
    let mut profile = Profile::builtin("fx100").unwrap();
    profile.nic.atomic.0 *= 2;
    profile.nic.word.0 *= 2;
    let checks = validate::paper(&profile, 10, &Arc::default()).unwrap();
    let broken = checks.iter().filter(|check| !check.holds()).count();
    assert!(broken >= 5, "{}", shown(&checks));
}

/// Without turns by distance, near ranks do not end first.
#[test]
fn turns_let_near_ranks_end_first() {
    let mut profile = Profile::builtin("fx100").unwrap();
    profile.arbitration = rmalab_atomics::sim::profile::Arbitration::Fifo;
    let checks = validate::paper(&profile, 10, &Arc::default()).unwrap();
    let order = checks.iter().find(|check| check.what.contains("correlation")).unwrap();
    assert!(!order.holds(), "{}", shown(&checks));
}
