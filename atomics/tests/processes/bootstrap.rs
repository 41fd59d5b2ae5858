//! Ranks that meet through a hub: under the launcher of this crate, and under other launchers.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output};

use rmalab_atomics::bootstrap::{Hub, Membership};
use rmalab_atomics::{Error, Rank};
use rustix::process::Signal;

use super::meeting::{MARK, marked};
use super::{HUNG, here, is_rank, kill, launcher, only, own_binary};

const RANKS: u32 = 4;

/// The variable for the folder in which each rank writes its report: a launcher that has seen a rank die may drop the
/// output of the others.
const TOLD: &str = "RMALAB_TEST_TOLD";

/// In a rank, runs `body` and prints its result.
fn be_a_member(body: impl FnOnce(&Membership) -> String) {
    if !is_rank() {
        return;
    }
    // Nothing else would end a rank that hangs.
    std::thread::spawn(|| {
        std::thread::sleep(HUNG);
        std::process::exit(99)
    });
    let said = match Membership::by_environment() {
        // The member leaves before the process ends.
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

/// Rank 2 kills itself while the others wait for it in a barrier, and then check without waiting.
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
    super::eventually(&format!("reports of the remaining ranks ({output:?})"), || all(&told()));
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
    // It kills the processes of the other ranks when one has ended. Each rank has time to report, since it is the child
    // of a shell, in its own session.
    let apart = ["sh", "-c", "setsid \"$@\" & wait $!", "sh"];
    loses_one(under(here!(), &[&["mpiexec.hydra", "-n", "4"], &apart[..]].concat()));
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
    // Otherwise it would kill the others before they have reported.
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

#[test]
fn a_rank_that_exits_without_leaving_is_named_by_the_launcher() {
    be_a_member(|member| {
        member.barrier().unwrap();
        if member.rank() == Rank(2) {
            std::process::exit(0);
        }
        format!("{}", member.barrier().unwrap_err())
    });
    let outcome = launcher(here!(), RANKS).hub(true).spawn().unwrap().wait().unwrap();
    assert_eq!((outcome.first_failure, outcome.exit_code()), (Some(Rank(2)), 1));
    assert!(outcome.describe(Rank(2)).contains("exited with code 0 without leaving"), "{}", outcome.describe(Rank(2)));
}

#[test]
fn a_program_that_never_joins_may_end_in_any_way() {
    let job = rmalab_atomics::Launcher::new(2).hub(true).command("true", [""; 0]);
    assert!(job.spawn().unwrap().wait().unwrap().success());
}

#[test]
fn a_crowd_of_strangers_is_reported() {
    if super::is_driver() {
        let hub = Hub::open(std::net::Ipv4Addr::LOCALHOST.into(), 1).unwrap();
        let connect = |_| std::net::TcpStream::connect(hub.invitation().hub).unwrap();
        let _crowd: Vec<std::net::TcpStream> = (0..200).map(connect).collect();
        Membership::join(hub.invitation(), Rank(0), 1, "", HUNG, None).unwrap().barrier().unwrap();
        // The parent waits for the report, and ends this process.
        std::thread::sleep(HUNG);
        std::process::exit(99);
    }
    let mut driver = super::driver(here!());
    let mut child = driver.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let report = "connections that do not belong to the job crowd its hub at 127.0.0.1:";
    assert!(words.any(|line| line.contains(report)));
    child.kill().unwrap();
    child.wait().unwrap();
}
