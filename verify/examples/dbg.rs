//! scratch
#![allow(clippy::unwrap_used)]
use rmalab_verify::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let row = kill_matrix::row(mutant(&a[1]).unwrap(), &a[2], &kill_matrix::options(), &|_| true).unwrap();
    let kill_matrix::Fate::Killed { counterexample: c, .. } = row.fate else { panic!() };
    let check = kill_matrix::check(mutant(&a[1]).unwrap(), &subject(&a[2]).unwrap(), c.scenario.parse().unwrap());
    println!("{}", c.violation);
    let (steps, v) = replay(&check, &c.schedule).unwrap();
    for s in steps { println!("{:?} {:?} {:?}", s.choice, s.effect, s.told); }
    println!("{v:?}");
}
