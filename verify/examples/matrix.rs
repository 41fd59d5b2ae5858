//! scratch
#![allow(clippy::unwrap_used)]
use rmalab_verify::*;
fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let mut t = std::time::Instant::now();
    for m in mutants().filter(|m| m.name.contains(&filter)) {
        for l in m.locks {
            match kill_matrix::row(m, l, &kill_matrix::options(), &|_| true) {
                Ok(row) => println!(
                    "{:6.2} {}{}",
                    t.elapsed().as_secs_f64(),
                    if matches!(row.fate, kill_matrix::Fate::Survived { .. }) != m.equivalent.is_some() {
                        "!!! "
                    } else {
                        ""
                    },
                    row.markdown()
                ),
                Err(e) => println!("ERR {} {l} {e}", m.name),
            }
            t = std::time::Instant::now();
        }
    }
}
