//! Diagrams of counterexamples.
use rmalab_verify::*;
fn random(check: &Check, mut seed: u64) -> Counterexample {
    let mut live = Live::new(check).unwrap();
    let mut schedule = vec![];
    let mut v = None;
    let mut last = None;
    while v.is_none() {
        let c = live.choices();
        if c.is_empty() {
            break;
        }
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut x = c[(seed >> 33) as usize % c.len()];
        if let Some(l) = last {
            if (seed >> 40) % 3 > 0 && c.contains(&l) {
                x = l;
            }
        }
        last = Some(x);
        schedule.push(x);
        v = live.take(x).unwrap().violation;
    }
    let v = v.or(live.end()).unwrap_or(Violation {
        property: Property::Order,
        rank: rmalab_atomics::Rank(0),
        acquisition: None,
        seen: "nothing".into(),
    });
    Counterexample::new(check, v, schedule, None)
}
#[test]
fn look() {
    for (lock, scenario, network) in [
        ("mcs-rw-rp", "2R1W", Network::Sc),
        ("mcs", "3W", Network::LatePuts),
        ("mcs-rw-neutral", "2R2W", Network::Hca),
        ("tas", "2W", Network::Sc),
        ("two-level", "1A1E@0 1S@1", Network::Sc),
    ] {
        let mut check = Check::new(subject(lock).unwrap(), scenario.parse().unwrap());
        check.network = network;
        if lock == "mcs" {
            check.section = rmalab_verify::play::Section::Data;
        }
        let cx = random(&check, 7);
        println!("{}", diagram::text(&check, &cx).unwrap());
        std::fs::write(format!("/tmp/w/diagram-scratch/{lock}.svg"), diagram::svg(&check, &cx).unwrap()).unwrap();
    }
}
