//! Mutants.

use rmalab_verify::{Check, Choice, Live, Violation, mutants, subject};

/// A walk along random choices, to the first violation, the end, or `steps` steps.
fn walk(check: &Check, seed: u64, steps: usize) -> (Vec<Choice>, Option<Violation>) {
    let mut live = Live::new(check).unwrap();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut schedule = Vec::new();
    let mut last = None;
    while schedule.len() < steps {
        let choices = live.choices();
        if choices.is_empty() {
            return (schedule, live.end());
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Long runs of one rank reach other places than even mixtures do.
        let stay = (seed % 3 == 0 && random >> 60 != 0).then_some(last).flatten().filter(|last| choices.contains(last));
        let choice = stay.unwrap_or(choices[(random >> 20) as usize % choices.len()]);
        last = Some(choice);
        schedule.push(choice);
        let step = live.take(choice).unwrap();
        if step.violation.is_some() {
            return (schedule, step.violation);
        }
    }
    (schedule, None)
}

#[test]
fn walks() {
    for mutant in mutants() {
        for lock in mutant.locks {
            let rw = ["1Rx1+1Wx1", "2W", "1R1Wx2", "2Wx2", "2R1W", "1R2W", "1R2Wx2", "3R1W", "3Rx1+1Wx2"];
            let mutex = ["2W", "2Wx2", "3W", "3Wx2"];
            let two =
                ["1A1E@0", "1S@0 1E@0", "2E@0", "1A1E@0x2", "1S@0 1E@0x2", "2A1E@0", "1A2E@0", "1A1E@1", "1A1E@1x2"];
            let list: &[&str] = match *lock {
                "tas" | "ticket" | "mcs" => &mutex,
                "global" | "per-target" | "two-level" => &two,
                _ => &rw,
            };
            let mut found = None;
            'l: for scenario in list {
                for seed in 0..3000 {
                    let mut check = Check::new(subject(lock).unwrap(), scenario.parse().unwrap());
                    check.mutant = Some(mutant);
                    check.network = mutant.network;
                    check.section = mutant.section;
                    check.home = mutant.home;
                    let (s, v) = walk(&check, seed, 2000);
                    if s.len() == 2000 {
                        found = Some(format!("{scenario}: 2000 steps"));
                    }
                    if let Some(v) = v {
                        found = Some(format!("{scenario}: {v} ({} steps)", s.len()));
                        break 'l;
                    }
                }
            }
            println!("{} {lock}: {} {found:?}", mutant.name, if mutant.equivalent.is_some() { "EQ" } else { "" });
        }
    }
}
