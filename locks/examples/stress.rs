//! Puts every lock and every window policy under contention on any backend, and checks by the data inside whether it
//! keeps its promise.
//!
//! `cargo run --release -p rmalab-locks --example stress -- --backend shm --ranks 4`; with `--features mpi` under
//! `mpirun -n 4`, with `--features verbs` either way. One line for each lock; exit code 1 if one of them is broken.
//!
//! Each rank's segment has two words that an exclusive lock of that rank covers. The rank that holds it adds one to
//! both, by a put and by a bulk write. A rank that shares it, or has locked all, reads both twice. A rank that has
//! locked all also reads the words of other ranks. So if a rank is not alone there, it sees two words differ, or change
//! under its lock. If an increment was lost, the words end below the number of increments. The program uses none of the
//! checkers in `verify`, and knows no lock's state.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{Backend, Collectives, Disp, Rank, RemoteAtomics, WORD, started_as};
use rmalab_locks::{LockKind, Policy, PolicyKind, Result, WindowLock};

const USAGE: &str = "the options are --backend local|shm|verbs|mpi, --ranks N, --acquisitions N (of each rank and lock), \
                     --lock NAME,... and --seed N";

/// The options of the command line.
struct Arguments {
    backend: Backend,
    ranks: u32,
    acquisitions: u64,
    locks: Vec<PolicyKind>,
    seed: u64,
}

/// The observations of one rank on one lock: acquisitions by kind, and faults.
#[derive(Default)]
struct Seen {
    exclusive: u64,
    shared: u64,
    all: u64,
    /// Two words that differed, or changed, under a lock.
    disturbed: u64,
}

/// The two words of `target`, read one after the other.
fn read(ra: &dyn RemoteAtomics, words: Disp, target: Rank) -> Result<[u64; 2]> {
    let left = ra.get(target.at(words))?;
    let mut right = [0; WORD as usize];
    ra.get_bytes(target.at(words.word(1)), &mut right)?;
    Ok([left, u64::from_ne_bytes(right)])
}

/// Returns whether the words of `target` are equal, and stay as they are.
fn is_quiet(ra: &dyn RemoteAtomics, words: Disp, target: Rank) -> Result<bool> {
    let [left, right] = read(ra, words, target)?;
    Ok(left == right && read(ra, words, target)? == [left, right])
}

/// Adds one to both words of `target`, not atomically. Returns whether they were equal, and no other rank wrote
/// meanwhile.
fn add_one(ra: &dyn RemoteAtomics, words: Disp, target: Rank) -> Result<bool> {
    let [left, right] = read(ra, words, target)?;
    ra.put(target.at(words), left + 1)?;
    ra.post_bytes(target.at(words.word(1)), &(right + 1).to_ne_bytes())?;
    ra.flush(target)?; // a release covers what is complete only
    Ok(left == right && read(ra, words, target)? == [left + 1, right + 1])
}

/// This rank's acquisitions of `lock`.
fn acquire(ra: &dyn RemoteAtomics, lock: &mut Policy, words: Disp, asked: &Arguments, seen: &mut Seen) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(asked.seed << 32 | u64::from(ra.rank().0));
    for _ in 0..asked.acquisitions {
        // Half of the locks are at rank 0, so that the other ranks meet there.
        let target = Rank(if random.random() { 0 } else { random.random_range(0..ra.size()) });
        let quiet = match random.random_range(0..4) {
            0 => {
                seen.exclusive += 1;
                lock.lock(ra, LockKind::Exclusive, target)?;
                let quiet = add_one(ra, words, target)?;
                lock.unlock(ra, LockKind::Exclusive, target)?;
                quiet
            }
            1 => {
                seen.shared += 1;
                lock.lock(ra, LockKind::Shared, target)?;
                let quiet = is_quiet(ra, words, target)?;
                lock.unlock(ra, LockKind::Shared, target)?;
                quiet
            }
            _ => {
                seen.all += 1;
                lock.lock_all(ra)?;
                let next = Rank((target.0 + 1) % ra.size());
                let quiet = is_quiet(ra, words, target)? && is_quiet(ra, words, next)?;
                lock.unlock_all(ra)?;
                quiet
            }
        };
        seen.disturbed += u64::from(!quiet);
    }
    Ok(())
}

/// Puts one lock under stress. Returns `false` on all ranks if it is broken.
fn stress(
    ra: &dyn RemoteAtomics,
    all: &Collectives<'_, dyn RemoteAtomics + '_>,
    kind: PolicyKind,
    asked: &Arguments,
) -> Result<bool> {
    let words = ra.heap().alloc(2 * WORD, WORD)?;
    let mut lock = Policy::new(ra, kind)?;
    all.barrier()?;
    let start = Instant::now();
    let mut seen = Seen::default();
    acquire(ra, &mut lock, words, asked, &mut seen)?;
    all.barrier()?;
    let time = start.elapsed();

    let [left, right] = read(ra, words, ra.rank())?;
    let mut sums = [seen.exclusive, seen.shared, seen.all, seen.disturbed, left, right];
    all.allreduce(&mut sums, u64::wrapping_add)?;
    let [exclusive, shared, alls, disturbed, left, right] = sums;
    let holds = disturbed == 0 && left == exclusive && right == exclusive;
    if ra.rank() == Rank(0) {
        let verdict = if holds {
            "holds".to_owned()
        } else {
            format!("BROKEN: {disturbed} disturbed, {left} and {right} of {exclusive} increments are there")
        };
        println!(
            "{kind:15} {exclusive:>7} exclusive {shared:>7} shared {alls:>7} lock_all {:>9}  {verdict}",
            format!("{:.1?}", Duration::from_micros(time.as_micros() as u64))
        );
    }
    for disp in lock.allocations().into_iter().chain([words]) {
        all.free(disp)?;
    }
    Ok(holds)
}

fn arguments(mut args: impl Iterator<Item = String>) -> std::result::Result<Arguments, String> {
    let started = started_as().map_err(|error| error.to_string())?;
    let mut asked = Arguments {
        backend: Backend::Local,
        ranks: started.map_or(4, |(_, ranks)| if ranks > 1 { ranks } else { 4 }),
        acquisitions: 250,
        // A policy that takes no lock excludes no rank. A user who names it sees how the program finds a broken lock.
        locks: PolicyKind::ALL.iter().copied().filter(|&kind| kind != PolicyKind::NoCheck).collect(),
        seed: 1,
    };
    while let Some(option) = args.next() {
        let Some(value) = args.next() else { return Err(format!("{option}: unknown, or without its value")) };
        let wrong = |why: &dyn std::fmt::Display| format!("{option} {value}: {why}");
        match option.as_str() {
            "--backend" => {
                asked.backend = value.parse().map_err(|error: rmalab_atomics::Error| wrong(&error))?;
                asked.backend.check_built().map_err(|error| wrong(&error))?;
            }
            "--ranks" => {
                asked.ranks = value
                    .parse()
                    .ok()
                    .filter(|ranks| (1..=4096).contains(ranks))
                    .ok_or_else(|| wrong(&"not from 1 to 4096"))?;
            }
            "--acquisitions" => asked.acquisitions = value.parse().map_err(|error| wrong(&error))?,
            "--seed" => asked.seed = value.parse().map_err(|error| wrong(&error))?,
            "--lock" => {
                asked.locks =
                    value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
            }
            _ => return Err(wrong(&"unknown")),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let asked = match arguments(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(wrong) => {
            eprintln!("{wrong}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = asked.backend.try_run(asked.ranks, |ra| -> Result<u32> {
        let all = Collectives::new(ra)?;
        let mut broken = 0;
        for &kind in &asked.locks {
            broken += u32::from(!stress(ra, &all, kind, &asked)?);
        }
        Ok(broken)
    });
    match outcome {
        Ok(broken) if broken.iter().all(|&broken| broken == 0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
