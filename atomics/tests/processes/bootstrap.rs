//! Ranks that meet through a hub: under the launcher of this crate, and under the real others.

use std::path::Path;
use std::process::{Command, Output};

use rmalab_atomics::bootstrap::Membership;
use rmalab_atomics::{Error, Rank};
use rustix::process::Signal;

use crate::meeting::{MARK, marked};
use crate::{HUNG, here, is_rank, kill, launcher, only, own_binary};

const RANKS: u32 = 4;

/// Names the folder in which each rank leaves a file of what it has to tell: a launcher that has seen a rank die may
/// pass no output of the others on.
const TOLD: &str = "RMALAB_TEST_TOLD";

/// Is the rank in a rank: prints what `body` returns.
fn be_a_member(body: impl FnOnce(&Membership) -> String) {
    if !is_rank() {
        return;
    }
    // Nobody else would end a rank that hangs.
    std::thread::spawn(|| {
        std::thread::sleep(HUNG);
        std::process::exit(99)
    });
    let said = match Membership::by_environment() {
        Ok(member) => body(&member),
        Err(error) => error.to_string(),
    };
    match std::env::var_os(TOLD) {
        Some(folder) => std::fs::write(Path::new(&folder).join(std::process::id().to_string()), said).unwrap(),
        None => println!("\n{MARK}{said}"),
    }
    std::process::exit(0);
}

/// Exchanges, asks, and reports.
fn talk(member: &Membership) -> String {
    let me = member.rank().0;
    member.serve(move |from, bytes| Ok([bytes, &[from.0 as u8, me as u8]].concat()));
    let all = member.allgather(&me.to_le_bytes()).unwrap();
    let sum: u32 = all.iter().map(|bytes| u32::from_le_bytes(bytes[..].try_into().unwrap())).sum();
    let next = Rank((me + 1) % member.size());
    let answer = member.request(next, b"hello").unwrap();
    assert_eq!(answer, [&b"hello"[..], &[me as u8, next.0 as u8]].concat());
    member.barrier().unwrap();
    format!("rank {me} of {}: {sum} on {} hosts", member.size(), member.topology().nodes())
}

/// Rank 2 kills itself while the others wait for it in a barrier, and then look without waiting.
fn lose_one(member: &Membership) -> String {
    member.barrier().unwrap();
    if member.rank() == Rank(2) {
        kill(std::process::id(), Signal::KILL);
    }
    match (member.barrier(), member.check()) {
        (Err(Error::PeerFailed { rank }), Err(Error::PeerFailed { .. })) => format!("{rank} has failed"),
        other => format!("{other:?}"),
    }
}

fn under(test: &str, launcher: &[&str]) -> Command {
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).arg(own_binary()).args(only(test));
    command
}

#[track_caller]
fn talks(mut launcher: Command) {
    let output = launcher.output().unwrap();
    let mut seen = marked(&output.stdout);
    seen.sort();
    let expected: Vec<String> = (0..RANKS).map(|rank| format!("rank {rank} of 4: 6 on 1 hosts")).collect();
    assert_eq!(seen, expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}

#[track_caller]
fn loses_one(mut launcher: Command) {
    let folder = tempfile::tempdir().unwrap();
    let output: Output = launcher.env(TOLD, folder.path()).output().unwrap();
    let told = || -> Vec<String> {
        let files = std::fs::read_dir(folder.path()).unwrap();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    };
    // The launcher may end before the ranks do.
    let all = |told: &Vec<String>| told.iter().filter(|told| !told.is_empty()).count() == 3;
    crate::eventually(&format!("word of the ranks that are left ({output:?})"), || all(&told()));
    assert_eq!(told(), ["rank 2 has failed"; 3]);
}

#[test]
#[ignore = "needs mpirun: MPICH's mpiexec.hydra"]
fn under_hydra() {
    be_a_member(talk);
    talks(under(here!(), &["mpiexec.hydra", "-n", "4"]));
}

#[test]
#[ignore = "needs mpirun: MPICH's mpiexec.hydra"]
fn a_death_under_hydra() {
    be_a_member(lose_one);
    // Or it would kill the others before they can tell what they have heard.
    loses_one(under(here!(), &["mpiexec.hydra", "-disable-auto-cleanup", "-n", "4"]));
}

#[test]
#[ignore = "needs mpirun: Open MPI's mpirun.openmpi, and libpmix"]
fn under_open_mpi() {
    be_a_member(talk);
    talks(under(here!(), &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"]));
}

#[test]
#[ignore = "needs mpirun: Open MPI's mpirun.openmpi, and libpmix"]
fn a_death_under_open_mpi() {
    be_a_member(lose_one);
    // As above.
    let launcher = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-n", "4"];
    loses_one(under(here!(), &launcher));
}

#[test]
fn under_the_launcher_of_this_crate() {
    be_a_member(|member| {
        talk(member);
        lose_one(member)
    });
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = std::sync::Arc::clone(&heard);
    let take = move |line: rmalab_atomics::Line<'_>| lines.lock().unwrap().extend(marked(line.bytes));
    let output = rmalab_atomics::Output::Lines(Box::new(take));
    let outcome = launcher(here!(), RANKS).hub(true).output(output).spawn().unwrap().wait().unwrap();
    assert_eq!(outcome.first_failure, Some(Rank(2)));
    assert_eq!(*heard.lock().unwrap(), ["rank 2 has failed"; 3]);
}
