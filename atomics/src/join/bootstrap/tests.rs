//! Ranks that are threads, around a hub on loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(20);

fn join(invitation: &Invitation, rank: u32, size: u32) -> Result<Membership> {
    Membership::join(invitation, Rank(rank), size, &format!("host {}", rank / 2), PATIENCE, None)
}

/// Runs `body` on every rank of a job, each a thread.
fn job<T: Send>(size: u32, body: impl Fn(Membership) -> T + Sync) -> Vec<T> {
    let hub = Hub::open(HERE, size).unwrap();
    let (invitation, body) = (hub.invitation(), &body);
    std::thread::scope(|scope| {
        let ranks: Vec<_> =
            (0..size).map(|rank| scope.spawn(move || body(join(invitation, rank, size).unwrap()))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn exchanges_give_all_ranks_all_data_in_order() {
    for size in [1, 2, 3, 8, 40] {
        job(size, |member| {
            for round in 0..20 {
                let mine = vec![round as u8; (member.rank().index() + round) % 7 * 100];
                let all = member.allgather(&mine).unwrap();
                let expected: Vec<Vec<u8>> =
                    (0..size as usize).map(|rank| vec![round as u8; (rank + round) % 7 * 100]).collect();
                assert_eq!(all, expected);
                member.barrier().unwrap();
            }
            assert_eq!(member.topology().nodes(), size.div_ceil(2));
            assert_eq!(&*member.hosts()[size as usize - 1], format!("host {}", (size - 1) / 2));
        });
    }
}

#[test]
fn too_many_bytes_are_refused_and_the_longest_are_not() {
    job(3, |member| {
        let words = member.allgather(&vec![0; wire::MOST + 1]).unwrap_err().to_string();
        assert!(words.contains("65536"), "{words}");
        assert_eq!(member.allgather(&vec![7; wire::MOST]).unwrap(), vec![vec![7; wire::MOST]; 3]);
    });
}

#[test]
fn frames_of_any_length_arrive_whole() {
    // Among them are frames that end exactly where a read ends.
    job(1, |member| {
        for chunks in 1..4 {
            for length in (chunks * (16 << 10) - 16)..(chunks * (16 << 10) + 16) {
                assert_eq!(member.allgather(&vec![1; length]).unwrap(), [vec![1; length]]);
            }
        }
    });
}

#[test]
fn threads_of_one_rank_take_turns() {
    job(2, |member| {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        member.barrier().unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn a_server_that_panics_has_failed() {
    let seen = job(2, |member| {
        if member.rank() == Rank(1) {
            member.serve(|_, _| panic!("a test's server"));
            member.barrier().unwrap();
        } else {
            member.barrier().unwrap();
            assert!(matches!(member.request(Rank(1), b""), Err(Error::PeerFailed { rank: Rank(1) })));
        }
        loop {
            match member.check() {
                Err(Error::PeerFailed { rank }) => break rank,
                Err(other) => panic!("{other}"),
                Ok(()) => std::thread::yield_now(),
            }
        }
    });
    assert_eq!(seen, [Rank(1); 2]);
}

#[test]
fn requests_are_answered_by_ranks_that_do_other_things() {
    job(5, |member| {
        let me = member.rank();
        let early = member.rank().0 % 2 == 0;
        let server = move |from: Rank, bytes: &[u8]| {
            if bytes == b"no" {
                Err(format!("{me} will not"))
            } else {
                Ok([bytes, &[from.0 as u8, me.0 as u8]].concat())
            }
        };
        if early {
            member.serve(server);
        }
        member.barrier().unwrap();
        if !early {
            // Requests are waiting by now, or come later. Both are answered.
            std::thread::yield_now();
            member.serve(server);
        }
        for to in 0..5 {
            let answer = member.request(Rank(to), b"hello").unwrap();
            assert_eq!(answer, [&b"hello"[..], &[me.0 as u8, to as u8]].concat());
            let words = member.request(Rank(to), b"no").unwrap_err().to_string();
            assert!(words.contains(&format!("rank {to}: rank {to} will not")), "{words}");
        }
        assert!(member.request(Rank(5), b"hello").unwrap_err().to_string().contains("does not exist"));
        member.barrier().unwrap();
    });
}

#[test]
fn all_ranks_get_a_failure_in_every_call() {
    let seen = job(4, |member| {
        if member.rank() == Rank(2) {
            member.fail();
            return Rank(2);
        }
        // A barrier that one rank does not call, then a request, and a look without waiting.
        let error = member.barrier().unwrap_err();
        assert!(matches!(member.request(Rank(2), b"").unwrap_err(), Error::PeerFailed { .. }));
        assert!(matches!(member.check(), Err(Error::PeerFailed { .. })));
        match error {
            Error::PeerFailed { rank } => rank,
            other => panic!("{other}"),
        }
    });
    assert_eq!(seen, [Rank(2); 4]);
}

#[test]
fn a_connection_that_ends_without_farewell_is_a_death() {
    let hub = Hub::open(HERE, 2).unwrap();
    let invitation = hub.invitation();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let member = join(invitation, 1, 2).unwrap();
            member.cut();
            std::mem::forget(member);
        });
        let member = join(invitation, 0, 2).unwrap();
        assert!(matches!(member.barrier(), Err(Error::PeerFailed { rank: Rank(1) })));
        other.join().unwrap();
    });
}

/// A server that counts, for all ranks, the failed ranks for which it is done.
struct Retiring(&'static AtomicU32);

impl Serve for Retiring {
    fn answer(&mut self, _: Rank, request: &[u8]) -> Answer {
        Ok(request.to_vec())
    }

    fn retire(&mut self, _: Rank) {
        std::thread::sleep(Duration::from_millis(20));
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn until_failures(member: &Membership, failures: u32) {
    while member.failures() < failures {
        std::thread::yield_now();
    }
}

#[test]
fn live_ranks_go_on_after_one_death_after_another() {
    static RETIRED: AtomicU32 = AtomicU32::new(0);
    job(5, |member| {
        member.serve_until_failures(Retiring(&RETIRED));
        member.barrier().unwrap();
        for (dead, number) in [(3, 1), (0, 2)] {
            if member.rank() == Rank(dead) {
                member.cut();
                std::mem::forget(member);
                return;
            }
            until_failures(&member, number);
            assert_eq!(member.failed()[number as usize - 1], Rank(dead), "all learn of them in one order");
            assert!(matches!(member.check_rank(Rank(dead)), Err(Error::PeerFailed { rank }) if rank == Rank(dead)));
            assert!(matches!(member.request(Rank(dead), b""), Err(Error::PeerFailed { rank }) if rank == Rank(dead)));
            // The first failure is the error of those who do not go on.
            assert!(matches!(member.check(), Err(Error::PeerFailed { rank: Rank(3) })));
            member.await_silence([Rank(dead)].into_iter()).unwrap();
            let retired = RETIRED.load(Ordering::SeqCst);
            assert!(retired >= [4, 4 + 3][number as usize - 1], "{retired} servers have retired {dead}");
            for live in [1, 2, 4].map(Rank) {
                member.check_rank(live).unwrap();
                assert_eq!(member.request(live, b"are you there?").unwrap(), b"are you there?");
            }
        }
        member.finish().unwrap();
        assert_eq!(member.failed(), [Rank(3), Rank(0)]);
    });
}

#[test]
fn a_revocation_reaches_all_ranks_and_none_undoes_a_later_one() {
    job(3, |member| {
        assert_eq!(member.revoked(), 0);
        member.barrier().unwrap();
        if member.rank() == Rank(1) {
            member.revoke(4).unwrap();
            member.revoke(2).unwrap();
        }
        // Frames of the hub are in one order for all, and the barrier's comes later.
        member.barrier().unwrap();
        assert_eq!(member.revoked(), 5);
        member.check().unwrap();
    });
}

#[test]
fn an_expelled_rank_has_failed_for_the_others_and_learns_why() {
    job(3, |member| {
        member.barrier().unwrap();
        if member.rank() == Rank(1) {
            let told = member.barrier().unwrap_err();
            assert!(matches!(told, Error::Expelled), "{told:?}");
            assert!(matches!(member.check_hub(), Err(Error::Expelled)));
            return;
        }
        if member.rank() == Rank(2) {
            member.expel(Rank(1)).unwrap();
            member.expel(Rank(1)).unwrap();
        }
        until_failures(&member, 1);
        assert_eq!(member.failed(), [Rank(1)]);
        member.await_silence([Rank(1)].into_iter()).unwrap();
        member.finish().unwrap();
    });
}

#[test]
fn a_rank_that_dies_before_it_is_done_with_a_failed_rank_is_not_waited_for() {
    static RETIRED: AtomicU32 = AtomicU32::new(0);
    struct Stuck(std::sync::mpsc::Receiver<()>);
    impl Serve for Stuck {
        fn answer(&mut self, _: Rank, _: &[u8]) -> Answer {
            Err("not asked".into())
        }
        fn retire(&mut self, _: Rank) {
            let _ = self.0.recv();
        }
    }
    job(4, |member| {
        let (keep, wait) = std::sync::mpsc::channel();
        if member.rank() == Rank(1) {
            member.serve_until_failures(Stuck(wait));
        } else {
            member.serve_until_failures(Retiring(&RETIRED));
        }
        member.barrier().unwrap();
        match member.rank() {
            Rank(2) => {
                member.cut();
                std::mem::forget(member);
            }
            Rank(1) => {
                until_failures(&member, 1);
                member.cut();
                drop(keep);
                std::mem::forget(member);
            }
            _ => {
                until_failures(&member, 1);
                member.await_silence([Rank(2)].into_iter()).unwrap();
                // Rank 1 has never said that it is done, so its failure is known by now.
                assert_eq!(member.failed(), [Rank(2), Rank(1)]);
                member.await_silence([Rank(1)].into_iter()).unwrap();
                member.finish().unwrap();
            }
        }
    });
}

#[test]
fn an_early_request_of_a_failed_rank_is_not_answered() {
    let asked: &'static _ = Box::leak(Box::new(std::sync::Mutex::new(Vec::new())));
    job(3, |member| {
        member.barrier().unwrap();
        match member.rank() {
            Rank(1) => {
                member.send_request(Rank(0), b"early");
                // The hub passes it on before it reports the failure.
                member.fail();
            }
            Rank(2) => {
                member.send_request(Rank(0), b"early");
                until_failures(&member, 1);
                member.await_silence([Rank(1)].into_iter()).unwrap();
                member.finish().unwrap();
            }
            _ => {
                until_failures(&member, 1);
                member.await_silence([Rank(1)].into_iter()).unwrap();
                member.serve(|from, _| {
                    asked.lock().unwrap().push(from);
                    Ok(Vec::new())
                });
                member.finish().unwrap();
            }
        }
    });
    assert!(!asked.lock().unwrap().contains(&Rank(1)), "{asked:?}");
}

#[test]
fn ranks_about_to_leave_wait_for_the_live_ones() {
    let left = AtomicU32::new(0);
    job(5, |member| {
        match member.rank() {
            // It dies while others wait.
            Rank(1) => {
                std::thread::sleep(Duration::from_millis(20));
                member.cut();
                std::mem::forget(member);
            }
            // It leaves without a word.
            Rank(2) => {}
            Rank(3) => {
                until_failures(&member, 1);
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(left.load(Ordering::SeqCst), 0, "a rank has left before this one");
                member.finish().unwrap();
            }
            _ => {
                member.finish().unwrap();
                left.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
}

#[test]
fn without_the_hub_no_rank_is_silenced() {
    let hub = Hub::open(HERE, 1).unwrap();
    let member = join(hub.invitation(), 0, 1).unwrap();
    drop(hub);
    let error = member.await_silence([Rank(7)].into_iter()).unwrap_err();
    assert!(error.to_string().contains("launcher"), "{error}");
    assert!(member.check_rank(Rank(0)).is_err() && member.check_hub().is_err() && member.finish().is_err());
}

#[test]
fn an_exchange_with_a_rank_that_has_left_ends_and_leaving_is_not_a_failure() {
    job(3, |member| {
        if member.rank() == Rank(1) {
            return;
        }
        let error = member.barrier().unwrap_err();
        assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
    });
    job(2, |member| {
        if member.rank() == Rank(0) {
            // Continues after the other has left, and gets an error when it sends a request.
            let words = loop {
                match member.request(Rank(1), b"") {
                    Err(Error::World(words)) => break words,
                    Err(other) => panic!("{other}"),
                    Ok(_) => {}
                }
            };
            assert!(words.contains("has left"), "{words}");
            member.check().unwrap();
        } else {
            member.serve(|_, _| Ok(Vec::new()));
        }
    });
}

#[test]
fn the_launcher_reports_deaths_that_no_connection_reports() {
    let mut hub = Hub::open(HERE, 2).unwrap();
    let invitation = &hub.invitation().clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| join(invitation, 0, 2).map(drop).unwrap_err());
        assert_eq!(hub.ended(Rank(1)), Presence::Absent);
        assert!(matches!(waiting.join().unwrap(), Error::PeerFailed { rank: Rank(1) }));
    });
}

#[test]
fn the_hub_knows_how_each_rank_has_left() {
    let mut hub = Hub::open(HERE, 4).unwrap();
    let invitation = &hub.invitation().clone();
    let members: Vec<Membership> = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..4).map(|rank| scope.spawn(move || join(invitation, rank, 4).unwrap())).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let [stays, departs, fails, cut] = members.try_into().unwrap();
    drop(departs);
    fails.fail();
    cut.cut();
    assert_eq!([1, 2, 3].map(|rank| hub.ended(Rank(rank))), [Presence::Departed, Presence::Failed, Presence::Failed]);
    assert_eq!(hub.ended(Rank(0)), Presence::Joined);
    drop(stays);
    // Now or soon the hub has ended, and it still knows the last state.
    assert_eq!(hub.ended(Rank(0)), Presence::Departed);
    hub.settle();
    let last = [0, 1, 2, 3].map(|rank| hub.ended(Rank(rank)));
    assert_eq!(last, [Presence::Departed, Presence::Departed, Presence::Failed, Presence::Failed]);
}

#[test]
fn a_launcher_that_goes_away_ends_the_waits() {
    let hub = Hub::open(HERE, 1).unwrap();
    let member = join(hub.invitation(), 0, 1).unwrap();
    drop(hub);
    let words = loop {
        if let Err(error) = member.check() {
            break error.to_string();
        }
        std::thread::yield_now();
    };
    assert!(words.contains("launcher"), "{words}");
    assert!(member.barrier().is_err());
}

#[test]
fn a_peer_without_the_secret_is_refused_and_disturbs_no_rank() {
    let hub = Hub::open(HERE, 2).unwrap();
    let invitation = hub.invitation();
    let wrong = Invitation { secret: Secret::new().unwrap(), ..invitation.clone() };
    let words = join(&wrong, 0, 2).unwrap_err().to_string();
    assert!(words.contains("secret"), "{words}");
    // A connection that does not check the hub's proof, and cannot make its own.
    let mut stream = TcpStream::connect(invitation.hub).unwrap();
    let mut hello = wire::MAGIC.to_vec();
    hello.resize(wire::HELLO, 0);
    stream.write_all(&hello).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).ok();
    assert_eq!(said, [0; wire::CHALLENGE], "a challenge that proves nothing, and the end");
    // Noise, and silence.
    let mut noise = TcpStream::connect(invitation.hub).unwrap();
    noise.write_all(&[0xff; 200]).unwrap();
    let _silence = TcpStream::connect(invitation.hub).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || join(invitation, rank, 2).unwrap().barrier().unwrap());
        }
    });
}

/// Returns a connection that has sent its hello as `rank`, the hub's nonce, and the proof that this connection has to
/// send.
fn greet(invitation: &Invitation, rank: u32, size: u32, slowly: bool) -> (TcpStream, [u8; secret::BYTES], Vec<u8>) {
    let nonce = [7; secret::BYTES];
    let mut claim = [0; 8];
    claim[..4].copy_from_slice(&rank.to_le_bytes());
    claim[4..].copy_from_slice(&size.to_le_bytes());
    let greeting = invitation.secret.prove(wire::GREETING, [&nonce, &[0; secret::BYTES]], &claim);
    let hello = [&wire::MAGIC[..], &nonce, &claim, &greeting].concat();
    let mut stream = TcpStream::connect(invitation.hub).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for part in hello.chunks(if slowly { 1 } else { wire::HELLO }) {
        stream.write_all(part).unwrap();
    }
    let mut challenge = [0; wire::CHALLENGE];
    stream.read_exact(&mut challenge).unwrap();
    let theirs: [u8; secret::BYTES] = *challenge.first_chunk().unwrap();
    let proof = invitation.secret.prove(wire::RANK, [&nonce, &theirs], &claim);
    (stream, theirs, proof.to_vec())
}

#[test]
fn a_repeated_handshake_and_one_that_stops_half_way_get_no_place() {
    let hub = Hub::open(HERE, 2).unwrap();
    let invitation = hub.invitation();
    // A half-open connection, which never proves its claim.
    let (_half, first, proof) = greet(invitation, 0, 2, true);
    // A listener repeats a hello and a proof that it has heard, but the hub's nonce differs.
    let (mut again, second, _) = greet(invitation, 0, 2, false);
    assert_ne!(first, second);
    again.write_all(&proof).unwrap();
    let mut said = Vec::new();
    again.read_to_end(&mut said).unwrap();
    let words = String::from_utf8_lossy(&said);
    assert!(said[4] == wire::kind::REFUSED && words.contains("secret"), "{words}");
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || join(invitation, rank, 2).unwrap().barrier().unwrap());
        }
    });
}

#[test]
fn a_rank_that_announces_an_oversize_frame_has_failed() {
    let hub = Hub::open(HERE, 2).unwrap();
    let invitation = hub.invitation();
    let (mut stream, _, proof) = greet(invitation, 0, 2, false);
    stream.write_all(&proof).unwrap();
    let mut welcome = [0; 5];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome[4], wire::kind::WELCOME);
    // The hub does not wait for half a gigabyte that it would refuse.
    stream.write_all(&[0xff, 0xff, 0xff, 0x1f, wire::kind::GATHER]).unwrap();
    // A wait for that body ends in a failed assertion, not in a test that hangs.
    let waits = stream.read(&mut [0; 1]).err().is_some_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!waits, "the hub waits for the body");
    let words = join(invitation, 0, 2).unwrap_err().to_string();
    assert!(words.contains("has failed before"), "{words}");
}

#[test]
fn impossible_ranks_are_refused() {
    let hub = Hub::open(HERE, 2).unwrap();
    let invitation = hub.invitation();
    for (rank, size, because) in [(2, 2, "does not exist"), (0, 3, "3 ranks, and it has 2")] {
        let words = join(invitation, rank, size).unwrap_err().to_string();
        assert!(words.contains(because), "{words}");
    }
    // If two processes connect as rank 0, the hub refuses the second, and the first waits for rank 1.
    std::thread::scope(|scope| {
        let twins = [0, 1].map(|_| scope.spawn(|| join(invitation, 0, 2)?.barrier()));
        while !twins.iter().any(|twin| twin.is_finished()) {
            std::thread::yield_now();
        }
        join(invitation, 1, 2).unwrap().barrier().unwrap();
        let refused: Vec<Error> = twins.into_iter().filter_map(|twin| twin.join().unwrap().err()).collect();
        assert!(refused.len() == 1 && refused[0].to_string().contains("joined before"), "{refused:?}");
    });
}

#[test]
fn ranks_that_do_not_come_are_waited_for_no_longer_than_asked() {
    let hub = Hub::open(HERE, 2).unwrap();
    let invitation = hub.invitation().clone();
    let joined = Membership::join(&invitation, Rank(0), 2, "", Duration::from_millis(20), None);
    assert!(joined.unwrap_err().to_string().contains("20ms"));
    // Neither the other rank nor the rank with the hub waits forever. The other rank may connect before the hub has noticed that
    // the first one has gone.
    let other = join(&invitation, 1, 2).and_then(|member| member.barrier());
    assert!(matches!(other, Err(Error::PeerFailed { rank: Rank(0) })), "{other:?}");
    drop(hub);
    let hub = Hub::open(HERE, 2).unwrap();
    let mut invitation = hub.invitation().clone();
    invitation.host = Some(Rank(0));
    let joined = Membership::join(&invitation, Rank(0), 2, "", Duration::from_millis(20), Some(hub));
    assert!(joined.unwrap_err().to_string().contains("20ms"));
}

#[test]
fn a_port_in_use_is_named() {
    let hub = Hub::open(HERE, 1).unwrap();
    let words = Hub::open_at(hub.invitation().hub, 1).unwrap_err().to_string();
    assert!(words.contains(&hub.invitation().hub.to_string()), "{words}");
    assert!(Hub::open(HERE, 0).is_err());
}

#[test]
fn invitations_pass_through_text() {
    let hub = Hub::open_at(SocketAddr::new(HERE, 0), 1).unwrap();
    let text = hub.invitation().to_text();
    assert_eq!(&text.parse::<Invitation>().unwrap(), hub.invitation());
    for wrong in ["", "/", "localhost:1/ab", &text[..text.len() - 1], &text.replace(':', " ")] {
        assert!(wrong.parse::<Invitation>().is_err(), "{wrong}");
    }
}

#[test]
fn the_rank_that_hosts_the_hub_leaves_last() {
    let hub = Hub::open(HERE, 3).unwrap();
    let mut invitation = hub.invitation().clone();
    invitation.host = Some(Rank(0));
    let invitation = &invitation;
    std::thread::scope(|scope| {
        for rank in 1..3 {
            scope.spawn(move || {
                let member = join(invitation, rank, 3).unwrap();
                member.serve(|_, _| Ok(Vec::new()));
                member.barrier().unwrap();
                // Rank 0 is leaving, and the others still communicate.
                member.request(Rank(3 - rank), b"").ok();
                member.check().unwrap();
            });
        }
        let member = Membership::join(invitation, Rank(0), 3, "", PATIENCE, Some(hub)).unwrap();
        member.barrier().unwrap();
        drop(member);
    });
}

/// Makes connections that send `said` and stay open. They are more connections without ranks than a hub keeps.
fn crowd(hub: SocketAddr, said: &[u8]) -> Vec<TcpStream> {
    const CROWD: usize = 1_000;
    crate::join::limits::open_files(3 * CROWD as u64, 3).unwrap();
    let connect = |_| {
        let mut stream = TcpStream::connect(hub).unwrap();
        // The hub may have ended the connection already.
        let _ = stream.write_all(said);
        stream
    };
    (0..CROWD).map(connect).collect()
}

#[test]
fn ranks_join_beside_any_number_of_connections() {
    let mut hello = wire::MAGIC.to_vec();
    hello.resize(wire::HELLO, 7);
    for said in [&[][..], &hello[..wire::HELLO - 1], &hello, &[0xff; wire::HELLO]] {
        let hub = Hub::open(HERE, 3).unwrap();
        let invitation = hub.invitation();
        let before = crowd(invitation.hub, said);
        std::thread::scope(|scope| {
            let ranks = [0, 1, 2].map(|rank| scope.spawn(move || join(invitation, rank, 3)?.barrier()));
            for rank in ranks {
                rank.join().unwrap().unwrap();
            }
        });
        drop(before);
    }
}

#[test]
fn a_rank_without_an_answering_hub_reports_what_it_has_seen() {
    let listener = std::net::TcpListener::bind(SocketAddr::new(HERE, 0)).unwrap();
    let invitation = Invitation { hub: listener.local_addr().unwrap(), secret: Secret::new().unwrap(), host: None };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
        }
    });
    let joined = Membership::join(&invitation, Rank(1), 2, "", Duration::from_millis(50), None);
    let words = joined.unwrap_err().to_string();
    assert!(words.contains("closed") && words.contains("do not belong to the job"), "{words}");
}
