use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::window_programs::programs;
use rmalab_verify::{Network, diagram};
#[test]
fn tmp() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for program in programs().into_iter().filter(|p| p.name.starts_with("bias") && p.name.contains(&only)) {
        for network in [Network::Sc, Network::LatePuts, Network::UnorderedBulk] {
            let start = std::time::Instant::now();
            let check = program.check(network).unwrap();
            let options = Options { threads: 1, max_bytes: 1 << 30, ..Options::default() };
            let outcome = match explore(&check, &options, &|_| true) {
                Ok(o) => o,
                Err(e) => {
                    println!("{} {network}: {e}", program.name);
                    continue;
                }
            };
            println!(
                "{} {network}: {:?} states {:?} {:?} sometimes {:?}",
                program.name,
                match &outcome.finding {
                    rmalab_verify::explorer::Finding::Violated(f) => {
                        println!("{}", diagram::text(&check, f).unwrap());
                        "VIOLATED".to_owned()
                    }
                    other => format!("{other:?}"),
                },
                outcome.progress.states,
                start.elapsed(),
                outcome.sometimes
            );
        }
    }
}
#[test]
fn tmp_defects() {
    for defect in rmalab_verify::window_programs::defects().iter().filter(|d| d.name.starts_with("bias")) {
        let check = programs().into_iter().find(|p| p.name == defect.program).unwrap().check_defect(defect).unwrap();
        let options = Options { threads: 1, max_bytes: 1 << 30, ..Options::default() };
        match explore(&check, &options, &|_| true) {
            Ok(outcome) => match &outcome.finding {
                rmalab_verify::explorer::Finding::Violated(f) => {
                    println!("DEFECT {} found: {:?} {}", defect.name, f.violation, f.schedule.len());
                    if std::env::var("DRAW").is_ok() {
                        println!("{}", diagram::text(&check, f).unwrap());
                    }
                }
                other => println!("DEFECT {} NOT FOUND {other:?}", defect.name),
            },
            Err(e) => println!("DEFECT {} {e}", defect.name),
        }
    }
}
