//! Ranks under real launchers: MPICH's Hydra and Open MPI.

use std::process::Command;

use rmalab_atomics::{Rank, RemoteAtomics, Until};

use super::meeting::{be_a_foreign_rank, marked};
use super::{here, only, own_binary};

fn under(test: &str, launcher: &[&str]) {
    be_a_foreign_rank(4, |ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        for peer in 0..ra.size() {
            ra.fetch_add(Rank(peer).at(word), 1).unwrap();
        }
        let seen = ra.wait_until(word, Until::Eq(4)).unwrap();
        format!("{} of {} sees {seen}", ra.rank(), ra.size())
    });
    let output = Command::new(launcher[0])
        .args(&launcher[1..])
        .arg(own_binary())
        .args(only(test))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", launcher[0]));
    let mut seen = marked(&output.stdout);
    seen.sort();
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4 sees 4")).collect();
    assert_eq!(seen, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}

#[test]
#[ignore = "needs mpirun: MPICH's mpiexec.hydra"]
fn under_hydra() {
    under(here!(), &["mpiexec.hydra", "-n", "4"]);
}

#[test]
#[ignore = "needs mpirun: Open MPI's mpirun.openmpi"]
fn under_open_mpi() {
    under(here!(), &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"]);
}
