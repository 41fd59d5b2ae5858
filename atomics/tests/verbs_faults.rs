//! Every fault of RDMA verbs is an error of one line on all ranks, and no rank waits forever.
//!
//! These tests need Soft-RoCE and the rights of root: they kill ranks, take rights from them, and remove the device.
//! They fail without it.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rmalab_atomics::bootstrap::{Hub, Invitation, Membership};
use rmalab_atomics::conformance::{expelled_rank_has_no_effect, revocation_ends_waits, survivors_go_on};
use rmalab_atomics::verbs::{Attach, Verbs};
use rmalab_atomics::{Collectives, Disp, Error, Failed, Rank, RemoteAtomics, Result, Time, Until, bulk};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(60);

/// The time within which every survivor must get the error.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// The variable for the test that plays a rank: the scenario, the rank, the number of ranks and the invitation.
const PART: &str = "RMALAB_VERBS_FAULTS_PART";

/// Ranks that are processes.
struct Ranks {
    _hub: Hub,
    ranks: Vec<Process>,
}

struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the ranks of `scenario`, each with a command that `change` may change.
fn start(scenario: &str, size: u32, change: impl Fn(u32, &mut Command)) -> Ranks {
    let hub = Hub::open(HERE, size).unwrap();
    let invitation = hub.invitation().to_text();
    let ranks = (0..size).map(|rank| start_rank(scenario, rank, size, &invitation, &change)).collect();
    Ranks { _hub: hub, ranks }
}

fn start_rank(scenario: &str, rank: u32, size: u32, invitation: &str, change: impl Fn(u32, &mut Command)) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["a_rank_of_the_other_tests", "--exact", "--ignored", "--nocapture"]);
    command.env(PART, format!("{scenario} {rank} {size} {invitation}"));
    change(rank, &mut command);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let output: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
            // The output of the test framework around it is ignored.
            if let Some((_, words)) = line.split_once("rank says: ") {
                let _ = sender.send(words.to_owned());
            }
        }
    });
    Process { child, lines }
}

impl Ranks {
    fn line(&self, rank: usize, within: Duration) -> String {
        let line = self.ranks[rank].lines.recv_timeout(within);
        line.unwrap_or_else(|error| panic!("rank {rank} says nothing within {within:?}: {error}"))
    }

    /// Waits until all ranks have reached the scenario's point.
    fn all_ready(&self) {
        for rank in 0..self.ranks.len() {
            assert_eq!(self.line(rank, PATIENCE), "ready");
        }
        // They report it just before.
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The number of bytes that a rank writes at once.
const BULK: usize = 100_000;

fn say(words: impl std::fmt::Display) {
    println!("rank says: {words}");
}

/// Plays the rank that the environment names.
#[test]
#[ignore = "a part of the other tests, which start it as a process"]
fn a_rank_of_the_other_tests() {
    let part = std::env::var(PART).expect("the other tests start this one");
    let words: Vec<&str> = part.split(' ').collect();
    let [scenario, rank, size, invitation] = words[..] else { panic!("{part}") };
    let invitation: Invitation = invitation.parse().unwrap();
    let (rank, size) = (rank.parse().unwrap(), size.parse().unwrap());
    let member = Membership::join(&invitation, Rank(rank), size, "here", PATIENCE, None).unwrap();
    match Attach::new().attach(member).and_then(|ra| play(scenario, &ra)) {
        Ok(()) => say("ended"),
        Err(Error::PeerFailed { rank }) => say(format_args!("peer failed: {}", rank.0)),
        Err(error) => say(error),
    }
}

fn play(scenario: &str, ra: &Verbs) -> Result<()> {
    let die = || {
        say("ready");
        std::thread::sleep(PATIENCE);
    };
    match scenario {
        "survivors" => return survivors_go_on(ra, die).map_err(|failure| Error::world(failure.to_string())),
        "revoked" => return revocation_ends_waits(ra, die).map_err(|failure| Error::world(failure.to_string())),
        "expelled" => return expelled_rank_has_no_effect(ra).map_err(|failure| Error::world(failure.to_string())),
        _ => {}
    }
    let word = ra.heap().alloc(8, 8)?;
    let bulk = ra.heap().alloc(BULK as u64, 8)?;
    let collectives = Collectives::new(ra)?;
    collectives.barrier()?;
    // Every rank has connected to every rank.
    for rank in (0..ra.size()).map(Rank) {
        ra.fetch_add(rank.at(word), 0)?;
    }
    collectives.barrier()?;
    say("ready");
    match (scenario, ra.rank().0) {
        ("death", 0) | ("alone", _) | ("network", 2) => ra.wait_until(word, Until::Ne(0)).map(drop),
        ("death", 2) => loop {
            ra.put(Rank(1).at(word.plus(0)), 0)?;
            ra.flush(Rank(1))?;
        },
        ("death", 3) => collectives.barrier(),
        ("death", 4) => loop {
            ra.put_bytes(Rank(1).at(bulk), &vec![0; BULK])?;
        },
        ("death", 5) => loop {
            let mut results = [0; 64];
            bulk::scope(ra, |scope| {
                results.iter_mut().try_for_each(|result| scope.fetch_add(Rank(1).at(word), 0, result))
            })?;
        },
        // This loop ignores the results of starts, so only the end of the scope can return the error.
        ("death", 6) => loop {
            // More operations than a queue holds, so that starting them takes most of the time.
            let mut results = [!0; 2000];
            bulk::scope(ra, |scope| {
                for result in &mut results {
                    let _ = scope.fetch_store(Rank(1).at(word), 0, result);
                }
                Ok(())
            })?;
            if results.contains(&!0) {
                return Err(Error::world("operations were lost, and the scope has returned no error"));
            }
        },
        ("network", _) => loop {
            ra.fetch_add(Rank(0).at(word), 1)?;
        },
        ("given-up", 0 | 2) => go_on_without_rank_1(ra, word, bulk),
        ("two", 2) => {
            let operate = |rank: u32| match ra.fetch_add(Rank(rank).at(word), 1) {
                Err(Error::PeerFailed { rank }) => rank.0,
                other => panic!("{other:?}"),
            };
            while ra.failed()?.iter().count() < 2 {
                ra.get(ra.rank().at(word))?;
            }
            // The first failure is the cause, and the others may be its consequences.
            assert_eq!([operate(0), operate(1)], [1, 1]);
            ra.acknowledge(&Failed::from_iter([Rank(1)]))?;
            assert_eq!([operate(0), operate(1)], [0, 0], "not acknowledged yet");
            ra.acknowledge(&Failed::from_iter([Rank(0)]))?;
            assert_eq!([operate(0), operate(1)], [0, 1]);
            ra.flush_all()
        }
        ("silence", 1) => loop {
            for target in [0, 2].map(Rank) {
                // It does not wait, so it does not notice that the hub is gone.
                ra.fetch_add(target.at(word), 1)?;
            }
        },
        ("silence", _) => {
            let mine = ra.rank().at(word);
            let failed = loop {
                let failed = ra.failed()?;
                if !failed.is_empty() {
                    break failed;
                }
                ra.get(mine)?;
            };
            ra.silence(&failed)?;
            let silent = ra.get(mine)?;
            assert!(silent > 0, "it has put nothing");
            std::thread::sleep(Duration::from_millis(500));
            assert_eq!(ra.get(mine)?, silent, "an operation took effect after the silence");
            ra.acknowledge(&failed)
        }
        _ => loop {
            std::thread::sleep(PATIENCE);
        },
    }
}

/// Loses rank 1 amid operations on it and on a live rank. No operation on the live rank is lost, and no resource of the
/// others stays in use.
fn go_on_without_rank_1(ra: &Verbs, word: Disp, bulk: Disp) -> Result<()> {
    let (dead, live) = (Rank(1), Rank(2 - ra.rank().0));
    let is_its_failure =
        |result: Result<()>| assert!(matches!(result, Err(Error::PeerFailed { rank: Rank(1) })), "{result:?}");
    let (mut started, mut data) = (0, vec![ra.rank().0 as u8; BULK]);
    let error = loop {
        let mut results = [0; 512];
        let worked = bulk::scope(ra, |scope| {
            scope.put(dead.at(bulk), &data)?;
            for pair in results.chunks_exact_mut(2) {
                let [first, second] = pair else { unreachable!("chunks of 2") };
                scope.fetch_add(live.at(word), 1, first)?;
                started += 1;
                scope.fetch_store(dead.at(word), 1, second)?;
            }
            Ok(())
        });
        if let Err(error) = worked {
            break error;
        }
    };
    is_its_failure(Err(error));
    is_its_failure(ra.pause(1));
    // What was given up is an error until the failure is acknowledged.
    is_its_failure(ra.flush_all());
    let failed = ra.failed()?;
    ra.acknowledge(&failed)?;
    ra.silence(&failed)?;
    ra.flush_all()?;
    for _ in 0..2 {
        is_its_failure(ra.fetch_add(dead.at(word), 1).map(drop));
        is_its_failure(ra.get(dead.at(word)).map(drop));
        is_its_failure(ra.put(dead.at(word), 1));
        is_its_failure(ra.flush(dead));
        is_its_failure(ra.put_bytes(dead.at(bulk), &data));
        is_its_failure(ra.get_bytes(dead.at(bulk), &mut data));
    }
    ra.flush_all()?;
    ra.pause(1)?;
    // More parts than there are slots for them.
    for value in 0..40 {
        data.fill(value);
        ra.post_bytes(live.at(bulk), &data)?;
    }
    ra.flush(live)?;
    let mut back = vec![0; BULK];
    ra.get_bytes(live.at(bulk), &mut back)?;
    assert!(back == data, "bulk data at a live rank");
    let found = ra.get(live.at(word))?;
    assert_eq!(found, started, "additions at a live rank were lost, or done twice");
    // Dropping the world waits for the other rank, so that this one does not take its memory away.
    Ok(())
}

/// Passes all bytes on between a new address and the hub, until it is cut.
struct Proxy {
    invitation: Invitation,
    streams: mpsc::Receiver<TcpStream>,
}

impl Proxy {
    fn new(to: &Invitation) -> Proxy {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let invitation = Invitation { hub: listener.local_addr().unwrap(), ..to.clone() };
        let (sender, streams) = mpsc::channel();
        let hub = to.hub;
        std::thread::spawn(move || {
            let (rank, _) = listener.accept().unwrap();
            let there = TcpStream::connect(hub).unwrap();
            for (from, to) in [(&rank, &there), (&there, &rank)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                sender.send(from.try_clone().unwrap()).unwrap();
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        });
        Proxy { invitation, streams }
    }

    /// Ends the hub's side only. The rank does not notice, and goes on.
    fn cut(self) {
        let [rank, hub] = [0, 1].map(|_| self.streams.recv().unwrap());
        hub.shutdown(Shutdown::Both).unwrap();
        // Its other end closes with the test.
        std::mem::forget(rank);
    }
}

/// A rank that has lost its connection to the hub goes on with its puts. They take effect until it is silent, and never
/// afterwards.
#[test]
fn a_silenced_rank_has_no_effect_even_if_it_lives() {
    let hub = Hub::open(HERE, 3).unwrap();
    let proxy = Proxy::new(hub.invitation());
    let invitation = |rank| if rank == 1 { proxy.invitation.to_text() } else { hub.invitation().to_text() };
    let ranks = (0..3).map(|rank| start_rank("silence", rank, 3, &invitation(rank), |_, _| ())).collect();
    let mut world = Ranks { _hub: hub, ranks };
    world.all_ready();
    proxy.cut();
    for rank in [0, 2] {
        assert_eq!(world.line(rank, PATIENCE), "ended", "rank {rank}");
    }
    assert_eq!(world.ranks[1].child.try_wait().unwrap(), None, "rank 1 lives, and puts");
}

#[test]
fn an_operation_on_a_failed_rank_names_the_first_failure() {
    let mut world = start("two", 3, |_, _| ());
    world.all_ready();
    for rank in [1, 0] {
        world.ranks[rank].child.kill().unwrap();
        // The hub learns of one after the other.
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(world.line(2, PATIENCE), "ended");
}

#[test]
fn survivors_of_a_killed_rank_go_on() {
    for scenario in ["survivors", "revoked"] {
        let mut world = start(scenario, 4, |_, _| ());
        assert_eq!(world.line(1, PATIENCE), "ready");
        world.ranks[1].child.kill().unwrap();
        for rank in [0, 2, 3] {
            assert_eq!(world.line(rank, PATIENCE), "ended", "{scenario}: rank {rank}");
        }
    }
}

#[test]
fn an_expelled_rank_lives_and_has_no_effect() {
    let world = start("expelled", 3, |_, _| ());
    for rank in [0, 1, 2] {
        assert_eq!(world.line(rank, PATIENCE), "ended", "rank {rank}");
    }
}

#[test]
fn a_rank_that_goes_on_has_lost_only_what_it_did_at_the_dead_rank() {
    for shared in ["0", "1"] {
        let mut world = start("given-up", 3, |_, command| {
            command.env("RMALAB_NODE_SHARED", shared);
        });
        world.all_ready();
        world.ranks[1].child.kill().unwrap();
        for rank in [0, 2] {
            assert_eq!(world.line(rank, PATIENCE), "ended", "rank {rank}");
        }
    }
}

#[test]
fn all_ranks_get_the_death_of_a_rank_in_every_call() {
    let mut world = start("death", 7, |_, command| {
        // With this, writes of bulk data go through the device.
        command.env("RMALAB_NODE_SHARED", "0");
    });
    world.all_ready();
    let killed = Instant::now();
    world.ranks[1].child.kill().unwrap();
    for rank in [0, 2, 3, 4, 5, 6] {
        let line = world.line(rank, TOLD_WITHIN.saturating_sub(killed.elapsed()));
        assert_eq!(line, "peer failed: 1", "rank {rank}");
        println!("rank {rank} got the error {:?} after the kill", killed.elapsed());
    }
}

/// Returns the last line of rank 0 of `scenario`.
fn words_of(scenario: &str, change: impl Fn(u32, &mut Command)) -> String {
    let world = start(scenario, 1, change);
    let line = world.line(0, PATIENCE);
    println!("{line}");
    line
}

#[test]
fn the_error_of_a_missing_device_names_the_others() {
    let line = words_of("alone", |_, command| {
        command.env("RMALAB_DEVICE", "mlx5_7");
    });
    assert!(line.contains("no RDMA device \"mlx5_7\"") && line.contains("it has rxe0"), "{line}");
}

#[test]
fn errors_name_missing_ports_and_addresses() {
    for (name, value, expected) in [
        ("RMALAB_IB_PORT", "7", "port 7"),
        ("RMALAB_GID_INDEX", "200", "with number 200"),
        ("RMALAB_IB_PORT", "x", "RMALAB_IB_PORT=\"x\""),
    ] {
        let line = words_of("alone", |_, command| {
            command.env("RMALAB_DEVICE", "rxe0").env(name, value);
        });
        assert!(line.contains(expected), "{name}={value}: {line}");
    }
}

#[test]
fn a_refused_registration_says_how_to_raise_the_limit() {
    let line = words_of("alone", |_, command| {
        let program = command.get_program().to_owned();
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let environment: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
        *command = Command::new("sh");
        command.args(["-c", "ulimit -l 64; exec \"$0\" \"$@\""]).arg(program).args(args).envs(environment);
        // Root may lock any amount of memory, so the test drops root.
        command.uid(65_534).gid(65_534);
    });
    for expected in
        ["registering", "limit on locked memory is 64 KiB", "ulimit -l unlimited", "limits.d", "LimitMEMLOCK"]
    {
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn a_full_completion_queue_is_an_error_of_one_line() {
    let hub = Hub::open(HERE, 1).unwrap();
    let member = Membership::join(hub.invitation(), Rank(0), 1, "here", PATIENCE, None).unwrap();
    let ra = Attach::new().completion_entries(1).attach(member).unwrap();
    let at = Rank(0).at(Disp(0));
    // After a wait a put asks for a completion, and completions stay in the queue until there is no room for another
    // request.
    let put = |value| {
        ra.put(at, value)?;
        ra.wait_until_deadline(Disp(0), Until::Ge(0), Time(0))
    };
    // A rank asks its device for failures at intervals, while it waits.
    let pauses = || (0..100).find_map(|_| ra.pause(10_000).err());
    let error = (0..1_000).find_map(|value| put(value).err()).or_else(pauses);
    let error = error.expect("a queue of few entries cannot hold this many").to_string();
    println!("{error}");
    assert!(error.contains("completion queue") && !error.contains('\n'), "{error}");
}

/// Soft-RoCE's device cannot be removed while a process has it open: the kernel waits, and reports nothing. Its network can
/// be removed, and waiting ranks get the error like working ones.
#[test]
fn a_removed_network_is_an_error_of_one_line() {
    let world = start("network", 3, |_, _| ());
    world.all_ready();
    let set = |state| assert!(Command::new("ip").args(["link", "set", "lo", state]).status().unwrap().success());
    set("down");
    let lines = [0, 1, 2].map(|rank| world.line(rank, TOLD_WITHIN));
    set("up");
    println!("{lines:?}");
    for line in lines {
        assert!(line.contains("verbs: device rxe0: its port has gone down"), "{line}");
    }
}
