//! The program of the tutorial (`docs/tutorial.md`): the whole command line, with a wrong lock and the corrected one.
//!
//! ```text
//! cargo run --release -p tutorial -- verify --lock draft --scenario 2Wx1
//! cargo run --release -p tutorial -- study --lock gate,tas,mcs
//! ```

mod draft;
mod gate;
#[cfg(test)]
mod table;

use std::process::ExitCode;

use rmalab::Holds;

// ANCHOR: main
fn main() -> ExitCode {
    let mut registry = rmalab::Registry::standard();
    let paper = "Anderson: The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990";
    let first = registry.add_mutex::<draft::Draft>("the tutorial's first version: a get and a put");
    first.paper(paper).words(&[("taken", Holds::Number)], &[]);
    let mended = registry.add_mutex::<gate::Gate>("the tutorial's lock: a compare-and-swap");
    mended.paper(paper).words(&[("taken", Holds::Number)], &[]);
    rmalab::main_with(registry)
}
// ANCHOR_END: main

// ANCHOR: tests
/// `cargo test --release -p tutorial`
#[cfg(test)]
mod tests {
    use rmalab_locks::suite;

    use crate::gate::Gate;
    use crate::table;

    #[test]
    fn the_lock_excludes_and_a_window_uses_it() {
        suite::mutex::<Gate>(()); // 2 to 16 threads; panics with the rank if it finds a fault
        assert_eq!(suite::mutex_cost::<Gate>(()), (1, 1)); // remote operations to acquire, and to release
        // Only now: with a lock that is never released, a window waits for ever.
        assert_eq!(table::fill(4).unwrap().into_iter().max(), Some(6));
    }
}
// ANCHOR_END: tests
