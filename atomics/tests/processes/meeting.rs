//! Ranks that another launcher has started. They find each other, and detect a death without a launcher's report.
//!
//! These tests are that launcher, with Hydra's variables.

use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rmalab_atomics::{Error, Mapped, Rank, RemoteAtomics, Until, World};
use rustix::process::Signal;

use super::{alone, here, is_rank, only, own_binary};

/// The text ahead of a rank's result on its standard output.
pub(crate) const MARK: &str = "the result: ";

/// Runs `body` if this process is a rank, and prints its result.
pub(crate) fn be_a_foreign_rank(size: u32, body: impl FnOnce(&Mapped) -> String) {
    if is_rank() {
        // Nothing else would end a rank that hangs.
        std::thread::spawn(|| {
            std::thread::sleep(super::HUNG);
            std::process::exit(99)
        });
        match World::processes(size).run(body) {
            Ok(results) => println!("\n{MARK}{}", results[0]),
            Err(error) => println!("\n{MARK}{error}"),
        }
        std::process::exit(0);
    }
}

pub(crate) fn marked(stdout: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stdout);
    text.lines().filter_map(|line| line.split_once(MARK)).map(|(_, result)| result.to_string()).collect()
}

/// Returns a job name that no other test has.
fn job() -> String {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    format!("test {} {}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed))
}

fn rank(test: &str, rank: u32, size: u32, job: &str) -> Command {
    let mut command = Command::new(own_binary());
    command.args(only(test));
    prepare(&mut command, rank, size).env("RMALAB_JOB", job);
    command
}

fn prepare(command: &mut Command, rank: u32, size: u32) -> &mut Command {
    command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", size.to_string()).env("RMALAB_TIMEOUT", "60");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit())
}

fn result(child: Child) -> Option<String> {
    let Output { stdout, .. } = child.wait_with_output().unwrap();
    marked(&stdout).pop()
}

fn sum(ra: &Mapped) -> String {
    let words = ra.heap().alloc(16, 8).unwrap();
    for peer in 0..ra.size() {
        ra.fetch_add(Rank(peer).at(words), u64::from(ra.rank().0) + 1).unwrap();
        ra.fetch_add(Rank(peer).at(words.word(1)), 1).unwrap();
    }
    ra.wait_until(words.word(1), Until::Eq(ra.size().into())).unwrap();
    format!("{} of {}: {}", ra.rank(), ra.size(), ra.get(ra.rank().at(words)).unwrap())
}

#[test]
fn ranks_find_each_other() {
    be_a_foreign_rank(5, sum);
    let job = job();
    let ranks: Vec<Child> = (0..5).map(|r| rank(here!(), r, 5, &job).spawn().unwrap()).collect();
    for (r, child) in ranks.into_iter().enumerate() {
        assert_eq!(result(child), Some(format!("rank {r} of 5: 15")));
    }
}

#[test]
fn ranks_find_each_other_by_their_parent_even_through_a_wrapper() {
    be_a_foreign_rank(3, sum);
    alone(here!(), || {
        let start = |r: u32| {
            let mut command = if r == 1 {
                // This is not `exec`: the shell stays in between.
                let mut command = Command::new("sh");
                command.args(["-c", "\"$0\" \"$@\"; exit $?"]).arg(own_binary());
                command
            } else {
                Command::new(own_binary())
            };
            command.args(only(here!()));
            prepare(&mut command, r, 3).spawn().unwrap()
        };
        let ranks: Vec<Child> = (0..3).rev().map(start).collect();
        for (r, child) in (0..3).rev().zip(ranks) {
            assert_eq!(result(child), Some(format!("rank {r} of 3: 6")));
        }
    });
}

#[test]
fn a_world_of_one_rank_needs_no_other_process() {
    be_a_foreign_rank(1, sum);
    let child = rank(here!(), 0, 1, &job()).spawn().unwrap();
    assert_eq!(result(child).as_deref(), Some("rank 0 of 1: 1"));
}

#[test]
fn all_ranks_name_the_ranks_that_did_not_come() {
    be_a_foreign_rank(4, sum);
    let job = job();
    let start = |r| rank(here!(), r, 4, &job).env("RMALAB_TIMEOUT", "3").spawn().unwrap();
    let ranks = [start(0), start(2)];
    for child in ranks {
        assert_eq!(result(child).as_deref(), Some("of 4 ranks, these did not come within 3s: 1, 3"));
    }
}

#[test]
fn a_missing_rank_0_is_reported() {
    be_a_foreign_rank(2, sum);
    let child = rank(here!(), 1, 2, &job()).env("RMALAB_TIMEOUT", "0.2").spawn().unwrap();
    let error = result(child).unwrap();
    assert!(error.starts_with("rank 0 did not come within 200ms"), "{error}");
}

#[test]
fn ranks_that_disagree_get_an_error() {
    be_a_foreign_rank(2, sum);
    let job = job();
    let first = rank(here!(), 0, 2, &job).env("RMALAB_SEGMENT_BYTES", "4096").spawn().unwrap();
    let second = rank(here!(), 1, 2, &job).env("RMALAB_SEGMENT_BYTES", "8192").spawn().unwrap();
    let said = "rank 1 has joined for 2 ranks with segments of 8192 bytes, and rank 0 for 2 with 4096";
    for child in [first, second] {
        assert_eq!(result(child).as_deref(), Some(said));
    }
}

#[test]
fn a_rank_that_comes_twice_is_refused() {
    be_a_foreign_rank(3, sum);
    let job = job();
    let ranks = [0, 1, 1].map(|r| rank(here!(), r, 3, &job).spawn().unwrap());
    for child in ranks {
        assert_eq!(result(child).as_deref(), Some("two processes have come as rank 1"));
    }
}

#[test]
fn strangers_are_sent_away() {
    be_a_foreign_rank(2, sum);
    let job = job();
    let host = rank(here!(), 0, 2, &job).spawn().unwrap();
    // A listener under a name of this user's jobs may be another test's rank 0, which this does not disturb.
    let mut names = Vec::new();
    super::eventually("a listener", || {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        names = sockets
            .lines()
            .filter_map(|line| line.split_once('@')?.1.strip_prefix("rmalab-").map(str::to_string))
            .collect();
        !names.is_empty()
    });
    for name in names {
        let address = rustix::net::SocketAddrUnix::new_abstract_name(format!("rmalab-{name}").as_bytes()).unwrap();
        for words in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"", b"rmal", &[0; 24]] {
            let socket =
                rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET, None)
                    .unwrap();
            if rustix::net::connect(&socket, &address).is_ok() {
                let _ = rustix::net::send(&socket, words, rustix::net::SendFlags::NOSIGNAL);
            }
        }
    }
    let guest = rank(here!(), 1, 2, &job).spawn().unwrap();
    assert_eq!(result(host).as_deref(), Some("rank 0 of 2: 3"));
    assert_eq!(result(guest).as_deref(), Some("rank 1 of 2: 3"));
}

#[test]
fn errors_name_nonsense_in_the_environment() {
    be_a_foreign_rank(2, sum);
    let message = |variables: &[(&str, &str)]| {
        let mut command = Command::new(own_binary());
        command.args(only(here!())).envs(variables.iter().copied()).env("RMALAB_TIMEOUT", "60");
        let output = command.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let launched = [("RMALAB_RANK", "0"), ("RMALAB_SIZE", "2"), ("RMALAB_SHM_SEGMENT_BYTES", "4096")];
    let with = |fd: &'static str| message(&[&launched[..], &[("RMALAB_SHM_FD", fd)]].concat());
    for (fd, because) in [("0", "RMALAB_SHM_FD=0"), ("4000", "RMALAB_SHM_FD=4000"), ("x", "is not a number")] {
        let message = with(fd);
        assert!(message.contains(because), "{message}");
    }
    let message = message(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]);
    assert!(message.contains("PMI_RANK=2 does not exist"), "{message}");
}

/// Kills rank 1 in the middle of `wait`, without a launcher that could notify the others.
fn killed_while(test: &str, wait: fn(&Mapped) -> rmalab_atomics::Result<()>) {
    be_a_foreign_rank(3, |ra| {
        if ra.rank() == Rank(1) {
            std::thread::sleep(std::time::Duration::from_millis(20));
            rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
        match wait(ra) {
            Err(Error::PeerFailed { rank }) => format!("{rank} has failed"),
            other => panic!("{other:?}"),
        }
    });
    let job = job();
    // Rank 1 is not reaped before the others have ended: they have to detect a zombie, too.
    let ranks: Vec<Child> = (0..3).map(|r| rank(test, r, 3, &job).spawn().unwrap()).collect();
    let [first, second, third] = ranks.try_into().unwrap();
    assert_eq!(result(first).as_deref(), Some("rank 1 has failed"));
    assert_eq!(result(third).as_deref(), Some("rank 1 has failed"));
    assert_eq!(result(second), None);
}

#[test]
fn waiting_ranks_detect_a_death() {
    killed_while(here!(), |ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        ra.wait_until(word, Until::Ne(0)).map(drop)
    });
}

#[test]
fn polling_ranks_detect_a_death() {
    killed_while(here!(), |ra| {
        loop {
            ra.pause(10)?;
        }
    });
}

#[test]
fn a_rank_that_has_left_is_not_dead() {
    be_a_foreign_rank(2, |ra| {
        if ra.rank() == Rank(1) {
            return "gone".to_string();
        }
        let word = ra.heap().alloc(8, 8).unwrap();
        // Twice the interval at which peers are checked.
        let deadline = ra.now().after(std::time::Duration::from_millis(1100));
        format!("{:?}", ra.wait_until_deadline(word, Until::Ne(0), deadline))
    });
    let job = job();
    let ranks = [0, 1].map(|r| rank(here!(), r, 2, &job).spawn().unwrap());
    let seen = ranks.map(result);
    assert_eq!(seen, [Some("Ok(None)".to_string()), Some("gone".to_string())]);
}
