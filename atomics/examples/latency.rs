//! The time of one operation on another rank's memory, in microseconds.
//!
//! `cargo run --release -p rmalab-atomics --features verbs --example latency -- --backend verbs`
//!
//! Rank 0 operates on words of rank 1, which waits, so that there is no contention. Each operation has a line with the
//! backend, the operation and its median, and a second line with its 99th percentile. `write` is a put and a flush.
//! `scripts/verbs-baseline` compares these lines with perftest's. With `RMALAB_NODE_SHARED=0`, bulk transfers between
//! ranks of one host go through the adapter, as between hosts. `_fresh` uses a new buffer each time.

use std::error::Error;
use std::process::ExitCode;

use rmalab_atomics::{Collectives, Joined, Mapped, Output, Rank, RemoteAtomics, SEGMENT_BYTES, World};

/// The lengths of the bulk transfers, by their names.
const BULK: [(&str, usize); 3] = [("4KiB", 4 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20)];

/// The longest bulk transfer, in bytes.
const LONGEST: usize = BULK[BULK.len() - 1].1;

fn main() -> ExitCode {
    let ran = arguments().and_then(|Arguments { backend, times }| match backend.as_str() {
        "shm" => run::<Mapped>(times),
        #[cfg(feature = "verbs")]
        "verbs" => run::<rmalab_atomics::Verbs>(times),
        #[cfg(feature = "mpi")]
        "mpi" => run::<rmalab_atomics::Mpi>(times),
        #[allow(unreachable_patterns, reason = "with both features")]
        "verbs" | "mpi" => Err(format!("built without --features {backend}").into()),
        other => Err(format!("--backend {other}: unknown; the backends are shm, verbs and mpi").into()),
    });
    if let Err(error) = ran {
        eprintln!("latency: {error}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

struct Arguments {
    backend: String,
    times: usize,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut found = Arguments { backend: "shm".into(), times: 1000 };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option}: unknown, or without its value"))?;
        match option.as_str() {
            "--backend" => found.backend = value,
            "--times" => found.times = value.parse().ok().filter(|times| *times > 0).ok_or("--times: not a number")?,
            _ => return Err(format!("{option}: the options are --backend shm|verbs|mpi and --times N").into()),
        }
    }
    Ok(found)
}

fn run<J: Joined>(times: usize) -> Result<(), Box<dyn Error>> {
    let segment = LONGEST as u64 + SEGMENT_BYTES;
    let lines = World::processes(2)
        .segment_bytes(segment)
        .output(Output::Inherit)
        .over::<J>()
        .try_run(|ra| measure(ra, times))?;
    for line in lines.into_iter().flatten() {
        println!("{line}");
    }
    Ok(())
}

fn measure<A: RemoteAtomics>(ra: &A, times: usize) -> rmalab_atomics::Result<Vec<String>> {
    let together = Collectives::new(ra)?;
    let word = Rank(1).at(ra.heap().alloc(64, 64)?);
    let long = Rank(1).at(ra.heap().alloc(LONGEST as u64, 64)?);
    let mut lines = Vec::new();
    together.barrier()?;
    if ra.rank() == Rank(0) {
        let (source, mut dest) = (vec![1; LONGEST], vec![0; LONGEST]);
        let mut line = |name: &str, times: usize, operation: &mut dyn FnMut(u64) -> rmalab_atomics::Result<()>| {
            // The first operations connect, and warm up caches.
            for turn in 0..(times as u64 / 10).max(2) {
                operation(turn)?;
            }
            let mut each = Vec::with_capacity(times);
            for turn in 0..times as u64 {
                let start = ra.now();
                operation(turn)?;
                each.push(ra.now().since(start));
            }
            each.sort_unstable();
            let at = |percent: usize| each[(times * percent / 100).min(times - 1)].as_nanos() as f64 / 1000.0;
            let backend = ra.capabilities().backend;
            lines.push(format!("{backend} {name} {:.3}", at(50)));
            lines.push(format!("{backend} {name}_p99 {:.3}", at(99)));
            rmalab_atomics::Result::Ok(())
        };
        line("fetch_add", times, &mut |_| ra.fetch_add(word, 1).map(drop))?;
        line("compare_swap", times, &mut |turn| ra.compare_and_swap(word, turn, turn).map(drop))?;
        line("fetch_store", times, &mut |turn| ra.fetch_store(word, turn).map(drop))?;
        line("read", times, &mut |_| ra.get(word).map(drop))?;
        line("write", times, &mut |turn| ra.put(word, turn).and_then(|()| ra.flush(Rank(1))))?;
        for (name, bytes) in BULK {
            // Long transfers take long, so fewer of them contribute to a median.
            let times = (times * BULK[0].1 / bytes).max(20);
            line(&format!("write_{name}"), times, &mut |_| ra.put_bytes(long, &source[..bytes]))?;
            line(&format!("read_{name}"), times, &mut |_| ra.get_bytes(long, &mut dest[..bytes]))?;
            line(&format!("read_{name}_fresh"), times, &mut |_| ra.get_bytes(long, &mut vec![0; bytes]))?;
        }
    }
    together.barrier()?;
    Ok(lines)
}
