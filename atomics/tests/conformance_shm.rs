//! The suite on ranks that are processes over shared memory.
//!
//! Each test starts this test program again, once for each rank, told to run that test alone; there, the world's call is
//! the rank, and does not return.

use std::sync::{Arc, Mutex};

use rmalab_atomics::conformance::{checks, peer_death};
use rmalab_atomics::{Error, Mapped, Output, Processes, Rank, RemoteAtomics, World};

/// A world of processes that come to the test `name`.
fn processes(size: u32, name: &str) -> Processes {
    let program = std::env::current_exe().expect("the test program");
    World::processes(size).command(program, ["--exact", name, "--nocapture"])
}

fn all_checks(size: u32, name: &str) {
    let body = |ra: &Mapped| {
        for check in checks::<Mapped>().into_iter().filter(|check| check.suits(ra.size())) {
            (check.run)(ra).unwrap_or_else(|failure| panic!("{failure}"));
        }
    };
    processes(size, name).run(body).expect("all checks pass on all ranks");
}

#[test]
fn one_process_passes_all_checks() {
    all_checks(1, "one_process_passes_all_checks");
}

#[test]
fn three_processes_pass_all_checks() {
    all_checks(3, "three_processes_pass_all_checks");
}

#[test]
fn eight_processes_pass_all_checks() {
    all_checks(8, "eight_processes_pass_all_checks");
}

#[test]
fn the_death_of_a_process_is_told_to_all() {
    const SIZE: u32 = 4;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let output = Output::Lines(Box::new(move |line| {
        sink.lock().unwrap().push(format!("{}: {}", line.rank, String::from_utf8_lossy(line.bytes)));
    }));
    let outcome = processes(SIZE, "the_death_of_a_process_is_told_to_all").output(output).run(|ra| {
        match peer_death(ra, || std::process::abort()) {
            Ok(()) => println!("was told"),
            Err(failure) => println!("{failure}"),
        }
    });
    assert!(matches!(outcome, Err(Error::RankEnded { rank: Rank(1), .. })), "{outcome:?}");
    let lines = lines.lock().unwrap();
    for rank in [0, 2, 3] {
        assert!(lines.contains(&format!("rank {rank}: was told")), "{lines:#?}");
    }
}
