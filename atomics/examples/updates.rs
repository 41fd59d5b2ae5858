//! Random updates with several under way: the gain from not waiting for each.
//!
//! `cargo run --release -p rmalab-atomics --example updates -- --backend sim`
//!
//! Rank 0 adds to random words of the other rank, with 1, 8 and 64 additions under way. `fetch_add` uses scopes of this
//! many; `sliding` starts the next addition when the oldest is complete. It inserts keys into a hash table there with
//! compare-and-swaps, in scopes (`insert`). Each line has the backend, the test, the number under way, millions a
//! second, and the speed relative to one at a time. The rate is the best of five rounds, which take turns. All results
//! are checked afterwards.

use std::collections::VecDeque;
use std::error::Error;
use std::process::ExitCode;

use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::sim::{Options, Profile, Simulator};
use rmalab_atomics::{Address, Collectives, Joined, Mapped, Output, Rank, RemoteAtomics, Result, World, bulk};

/// The number of updated words.
const WORDS: u64 = 1 << 12;

/// The number of slots of the hash table, a power of two.
const SLOTS: u64 = 1 << 14;

/// The numbers of operations under way.
const DEPTHS: [usize; 3] = [1, 8, 64];

/// The number of rounds of each measurement.
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    match arguments().and_then(|(backend, times)| run(&backend, times)) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("updates: {error}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> std::result::Result<(String, u64), Box<dyn Error>> {
    let (mut backend, mut times) = ("shm".to_owned(), 2048);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option}: unknown, or without its value"))?;
        match option.as_str() {
            "--backend" => backend = value,
            "--times" => {
                times = value.parse().ok().filter(|&times| times > 0).ok_or("--times: not a number from 1 on")?;
            }
            _ => {
                return Err(format!("{option}: the options are --backend local|shm|sim|verbs|mpi and --times N").into());
            }
        }
    }
    Ok((backend, times))
}

fn run(backend: &str, times: u64) -> std::result::Result<Vec<String>, Box<dyn Error>> {
    let ranks = match backend {
        "local" => World::threads(2).run(|ra| measure(ra, times))?.into_iter().collect::<Result<Vec<_>>>()?,
        "shm" => processes::<Mapped>(times)?,
        "sim" => {
            let profile = Profile::builtin("infiniband-ndr")?;
            let simulator = Simulator::new(&profile, &Options { ranks_per_node: Some(1), ..Options::new(2) })?;
            simulator.run(move |ra| measure(ra, times))?.results.into_iter().collect::<Result<Vec<_>>>()?
        }
        #[cfg(feature = "verbs")]
        "verbs" => processes::<rmalab_atomics::Verbs>(times)?,
        #[cfg(feature = "mpi")]
        "mpi" => processes::<rmalab_atomics::Mpi>(times)?,
        other => return Err(format!("--backend {other}: not known, or this was built without its feature").into()),
    };
    Ok(ranks.into_iter().flatten().collect())
}

fn processes<J: Joined>(times: u64) -> Result<Vec<Vec<String>>> {
    World::processes(2).output(Output::Inherit).over::<J>().try_run(|ra| measure(ra, times))
}

/// Pseudo-random numbers (a multiplicative generator of L'Ecuyer, 1999).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0xd1342543de82ef95).wrapping_add(1);
        (self.0 >> 32) % end
    }
}

fn measure<A: RemoteAtomics>(ra: &A, times: u64) -> Result<Vec<String>> {
    let together = Collectives::new(ra)?;
    let words = ra.heap().alloc(8 * WORDS, 64)?;
    let table = ra.heap().alloc(8 * SLOTS, 64)?;
    let mut lines = Vec::new();
    together.barrier()?;
    if ra.rank() == Rank(0) {
        let mut numbers = Numbers(1);
        let mut best = [[0.0_f64; DEPTHS.len()]; 3];
        let (mut added, mut key) = (0, 0);
        for _ in 0..ROUNDS {
            for (index, &depth) in DEPTHS.iter().enumerate() {
                let start = ra.now();
                let mut done = 0;
                while done < times {
                    let mut old = [0; 64];
                    bulk::scope(ra, |scope| {
                        let each = |old| scope.fetch_add(Rank(1).at(words.word(numbers.below(WORDS))), 1, old);
                        old[..depth].iter_mut().try_for_each(each)
                    })?;
                    done += depth as u64;
                }
                added += done;
                best[0][index] = best[0][index].max(done as f64 / ra.now().since(start).as_secs_f64());
                let start = ra.now();
                slide(ra, times, depth, || Rank(1).at(words.word(numbers.below(WORDS))))?;
                added += times;
                best[2][index] = best[2][index].max(times as f64 / ra.now().since(start).as_secs_f64());
                let start = ra.now();
                let inserts = (times / 16).clamp(64, SLOTS / 64);
                let first = key + 1;
                while key < first + inserts {
                    insert(ra, Rank(1).at(table), key + 1, depth)?;
                    key += depth as u64;
                }
                best[1][index] = best[1][index].max((key + 1 - first) as f64 / ra.now().since(start).as_secs_f64());
            }
        }
        let sum = (0..WORDS).map(|word| ra.get(Rank(1).at(words.word(word)))).sum::<Result<u64>>()?;
        assert_eq!(sum, added, "additions were lost");
        let mut keys = (0..SLOTS).map(|slot| ra.get(Rank(1).at(table.word(slot)))).collect::<Result<Vec<u64>>>()?;
        keys.retain(|&key| key != 0);
        keys.sort_unstable();
        assert!(keys.iter().copied().eq(1..=key), "keys were lost, or are there twice");
        for (what, best) in [("fetch_add", best[0]), ("sliding", best[2]), ("insert", best[1])] {
            for (depth, rate) in DEPTHS.iter().zip(best) {
                let backend = ra.capabilities().backend;
                lines.push(format!("{backend} {what} {depth} {:.4} M/s {:.2}", rate / 1e6, rate / best[0]));
            }
        }
    }
    together.barrier()?;
    Ok(lines)
}

/// Adds 1 to `times` words, with `depth` additions under way.
fn slide<A: RemoteAtomics>(ra: &A, times: u64, depth: usize, mut word: impl FnMut() -> Address) -> Result<()> {
    let mut results = vec![0; depth];
    let old = results.as_mut_ptr();
    let mut under_way = VecDeque::new();
    let mut run = || {
        for slot in (0..depth).cycle().take(times as usize) {
            if under_way.len() == depth {
                under_way.pop_front().map_or(Ok(()), |oldest| ra.wait(oldest))?;
            }
            // SAFETY: `results` has `depth` words, and lives until the flush below. No addition under way uses this
            // word.
            under_way.push_back(unsafe { ra.start(word(), WordOp::FetchAdd(1), old.add(slot))? });
        }
        Ok(())
    };
    let ran = run();
    ra.flush_all().and(ran)?;
    drop(results);
    Ok(())
}

/// Inserts `count` keys from `first` on, all at a time. Each key tries the slots after its hash until it finds a free
/// one.
fn insert<A: RemoteAtomics>(ra: &A, table: Address, first: u64, count: usize) -> Result<()> {
    let slot_of = |key: u64, tries: u64| (Numbers(key).below(SLOTS) + tries) % SLOTS;
    let mut waiting: Vec<(u64, u64)> = (first..).map(|key| (key, 0)).take(count).collect();
    while !waiting.is_empty() {
        let mut seen = [0; 64];
        bulk::scope(ra, |scope| {
            waiting.iter().zip(&mut seen).try_for_each(|(&(key, tries), seen)| {
                let slot = table.rank.at(table.disp.word(slot_of(key, tries)));
                scope.compare_and_swap(slot, 0, key, seen)
            })
        })?;
        let mut seen = seen.into_iter();
        waiting.retain_mut(|(_, tries)| {
            *tries += 1;
            seen.next() != Some(0)
        });
    }
    Ok(())
}
