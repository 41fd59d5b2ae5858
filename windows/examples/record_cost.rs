//! The cost of recording a window: nanoseconds of each call with and without it, and bytes of each event.
//!
//! `cargo run --release -p rmalab-windows --example record_cost`

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_windows::trace::Trace;
use rmalab_windows::{LockKind, Result, Team, Window, WindowDisp};

const CALLS: u32 = 300_000;
const ROUNDS: u32 = 5;

/// Returns the nanoseconds of a put under lock_all, and of a lock, a put and an unlock together.
fn measure(record: Option<&Path>) -> Result<[f64; 2]> {
    let ranks = World::threads(1).run(|ra| {
        let team = Team::new(ra)?;
        let mut builder = Window::builder(&team);
        if let Some(dir) = record {
            builder = builder.record(dir);
        }
        let mut window = builder.allocate(64)?;
        let each = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(CALLS);

        let all = window.lock_all()?;
        let part = all.at(ra.rank())?;
        let start = Instant::now();
        for i in 0..CALLS {
            part.put(WindowDisp(0), &[i])?;
        }
        let puts = each(start);
        all.unlock_all()?;

        let start = Instant::now();
        for i in 0..CALLS {
            let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
            epoch.put(WindowDisp(0), &[i])?;
            epoch.unlock()?;
        }
        let locks = each(start);
        window.free()?;
        Ok([puts, locks])
    })?;
    ranks.into_iter().next().expect("one rank")
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut best = [[f64::INFINITY; 2]; 2];
    let mut bytes = 0.0;
    for _ in 0..ROUNDS {
        // The runs are interleaved, so that both suffer the same disturbances.
        let dir = tempfile::tempdir()?;
        for (best, record) in best.iter_mut().zip([None, Some(dir.path())]) {
            for (best, now) in best.iter_mut().zip(measure(record)?) {
                *best = best.min(now);
            }
        }
        let trace = Trace::open(dir.path())?;
        bytes = trace.parts()[0].bytes() as f64 / trace.events() as f64;
    }
    let [without, with] = best;
    println!("put: {:.1} ns, recorded {:.1} ns", without[0], with[0]);
    println!("lock, put, unlock: {:.1} ns, recorded {:.1} ns", without[1], with[1]);
    println!("an event costs {:.1} ns, or {:.1} ns", with[0] - without[0], (with[1] - without[1]) / 3.0);
    println!("an event has {bytes:.2} bytes");
    Ok(())
}
