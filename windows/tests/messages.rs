//! The guarantees of messages and packets: order, matching, room, errors and counts, on threads and on processes.

#[path = "../../atomics/tests/controlled/world.rs"]
#[allow(dead_code, reason = "another crate's test engine, which is not fully used here")]
mod world;

use std::time::Duration;

use proptest::prelude::*;
use rmalab_atomics::{Collectives, Counted, Error as AtomicsError, Output, Rank, RemoteAtomics, World};
use rmalab_windows::messages::{ANY_SOURCE, ANY_TAG, Error, Kind, Messages, Options, Status, Tag};
use world::{Puts, Ra, run as run_engine};

/// Rings that are full after a few packets, and slots of 40 bytes of data.
const TIGHT: Options = Options { slots: 2, slot_bytes: 64, eager_limit: 100 };

/// The time after which a world of processes counts as hung.
const HUNG: Duration = Duration::from_secs(120);

/// Returns bytes that identify their sender and number.
fn bytes(from: Rank, number: usize, len: usize) -> Vec<u8> {
    let seed = u64::from(from.0) << 32 | number as u64;
    (0..len as u64).map(|i| ((seed + 1).wrapping_mul(i.wrapping_add(0x9E37_79B9_7F4A_7C15)) >> 29) as u8).collect()
}

fn others<A: RemoteAtomics>(ra: &A) -> impl Iterator<Item = Rank> + use<A> {
    let (me, size) = (ra.rank().0, ra.size());
    (1..size).map(move |distance| Rank((me + distance) % size))
}

#[test]
fn every_length_arrives() {
    World::threads(2)
        .segment_bytes(8 << 20)
        .run(|ra| {
            let small = Options { slots: 4, slot_bytes: 256, eager_limit: 1000 };
            for options in [Options::default(), small, TIGHT, Options { slots: 1, slot_bytes: 64, eager_limit: 0 }] {
                let messages = Messages::with_options(ra, options).unwrap();
                let peer = Rank(1 - ra.rank().0);
                let room = options.slot_bytes as usize - 24;
                let edges = [0, 40, room, 2 * room, 5 * room, options.eager_limit];
                let lengths =
                    edges.into_iter().flat_map(|edge| edge.saturating_sub(1)..=edge + 1).chain([7, 9, 70 * room]);
                for (number, len) in lengths.enumerate() {
                    let tag = Tag(number as u32);
                    let expected = Status { from: peer, tag, len };
                    // In the opposite order, so that both sides wait for each other.
                    let receive = messages.irecv(peer, tag).unwrap();
                    let send = messages.isend(peer, tag, bytes(ra.rank(), number, len)).unwrap();
                    let (data, status) = receive.wait().unwrap();
                    assert_eq!((status, data == bytes(peer, number, len)), (expected, true));
                    assert_eq!(send.wait().unwrap(), bytes(ra.rank(), number, len));
                    // Blocking calls, in turns.
                    if ra.rank() == Rank(0) {
                        messages.send(peer, tag, &bytes(Rank(0), number, len)).unwrap();
                    } else {
                        let mut buffer = vec![0xAA; len + 3];
                        assert_eq!(messages.recv(peer, tag, &mut buffer).unwrap(), expected);
                        assert_eq!(buffer[..len], bytes(Rank(0), number, len));
                        assert_eq!(buffer[len..], [0xAA; 3]);
                    }
                    // Messages to this rank itself, before and after the receive.
                    let me = ra.rank();
                    messages.send(me, tag, &bytes(me, number, len)).unwrap();
                    assert_eq!(messages.recv_vec(me, ANY_TAG).unwrap().0, bytes(me, number, len));
                    let receive = messages.irecv(me, tag).unwrap();
                    messages.isend(me, tag, bytes(me, number + 1, len)).unwrap().wait().unwrap();
                    assert_eq!(receive.wait().unwrap(), (bytes(me, number + 1, len), Status { from: me, tag, len }));
                }
            }
        })
        .unwrap();
}

/// Every rank sends `count` messages to every other one before it receives any, then receives them in order.
fn flood<A: RemoteAtomics>(ra: &A, options: Options, count: usize) {
    let messages = Messages::with_options(ra, options).unwrap();
    let len = |number: usize| number * 7 % (options.eager_limit + 1);
    for number in 0..count {
        for to in others(ra) {
            messages.send(to, Tag(0), &bytes(ra.rank(), number, len(number))).unwrap();
        }
    }
    let mut next = vec![0; ra.size() as usize];
    for _ in 0..count * (ra.size() as usize - 1) {
        let (data, Status { from, .. }) = messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap();
        let number = &mut next[from.index()];
        assert_eq!(data, bytes(from, *number, len(*number)), "message {number} from {from} to {}", ra.rank());
        *number += 1;
    }
    assert_eq!(messages.try_probe(ANY_SOURCE, ANY_TAG).unwrap(), None);
}

#[test]
fn full_rings_of_all_ranks_do_not_deadlock() {
    for options in [TIGHT, Options { slots: 1, ..TIGHT }, Options { slots: 3, ..TIGHT }] {
        World::threads(8).run(|ra| flood(ra, options, 60)).unwrap();
    }
}

#[test]
fn more_full_rings_than_a_rank_has_nodes() {
    World::threads(12)
        .run(|ra| {
            let messages = Messages::with_options(ra, Options { slots: 1, ..TIGHT }).unwrap();
            let sends: Vec<_> = (0..20)
                .flat_map(|number| others(ra).map(move |to| (number, to)))
                .map(|(number, to)| messages.isend(to, Tag(number), bytes(ra.rank(), number as usize, 90)).unwrap())
                .collect();
            for send in sends {
                assert_eq!(send.wait().unwrap().len(), 90);
            }
            for number in (0..20).rev() {
                for from in others(ra) {
                    assert_eq!(messages.recv_vec(from, Tag(number)).unwrap().0, bytes(from, number as usize, 90));
                }
            }
        })
        .unwrap();
}

/// A sender that has found a ring full sleeps until there is room, although no rank sends to it.
#[test]
fn a_rank_that_waits_for_room_is_woken() {
    World::threads(3)
        .run(|ra| {
            let messages = Messages::with_options(ra, TIGHT).unwrap();
            for round in 0..10 {
                if ra.rank() == Rank(0) {
                    // Computes long enough for the others to park.
                    std::thread::sleep(Duration::from_millis(3 * round));
                    for _ in 0..2 * 40 {
                        messages.recv_vec(ANY_SOURCE, Tag(round as u32)).unwrap();
                    }
                } else {
                    for _ in 0..40 {
                        messages.send(Rank(0), Tag(round as u32), &[1; 90]).unwrap();
                    }
                }
            }
        })
        .unwrap();
}

#[test]
fn all_to_all_with_everything_outstanding() {
    for options in [Options::default(), TIGHT] {
        World::threads(5)
            .run(|ra| {
                let messages = Messages::with_options(ra, options).unwrap();
                let len = |number: usize| [0, 8, 90, 3_000, 20_000][number % 5];
                let peers: Vec<Rank> = (0..ra.size()).map(Rank).collect();
                let receives: Vec<_> = (0..40)
                    .rev()
                    .flat_map(|number| peers.iter().map(move |&from| (number, from)))
                    .map(|(number, from)| (number, from, messages.irecv(from, Tag(number as u32)).unwrap()))
                    .collect();
                let sends: Vec<_> = (0..40)
                    .flat_map(|number| peers.iter().map(move |&to| (number, to)))
                    .map(|(number, to)| {
                        messages.isend(to, Tag(number as u32), bytes(ra.rank(), number, len(number))).unwrap()
                    })
                    .collect();
                for (number, from, receive) in receives {
                    while number == 7 && !receive.test().unwrap() {}
                    let status = Status { from, tag: Tag(number as u32), len: len(number) };
                    assert_eq!(receive.wait().unwrap(), (bytes(from, number, len(number)), status));
                }
                for send in sends {
                    while !send.test().unwrap() {}
                    send.wait().unwrap();
                }
            })
            .unwrap();
    }
}

#[test]
fn a_message_that_is_too_long_is_an_error_and_the_next_one_is_not() {
    World::threads(2)
        .run(|ra| {
            let messages = Messages::with_options(ra, TIGHT).unwrap();
            if ra.rank() == Rank(1) {
                for len in [10, 100, 101, 5_000] {
                    messages.send(Rank(0), Tag(3), &vec![7; len]).unwrap();
                }
                return messages.send(Rank(0), Tag(4), &[1]).unwrap();
            }
            for len in [10, 100, 101, 5_000] {
                let mut buffer = vec![9; len - 1];
                let error = messages.recv(ANY_SOURCE, Tag(3), &mut buffer).unwrap_err();
                let room = len - 1;
                assert_eq!(
                    error.to_string(),
                    format!(
                        "recv at rank 0: the message of {len} bytes from rank 1 with tag 3 is longer than the buffer \
                         of {room} bytes"
                    )
                );
                assert!(buffer.iter().all(|&byte| byte == 9));
            }
            assert_eq!(messages.recv(Rank(1), Tag(4), &mut [0]).unwrap().len, 1);
        })
        .unwrap();
}

#[test]
fn a_probe_returns_the_message_that_a_receive_gets() {
    World::threads(2)
        .run(|ra| {
            let messages = Messages::with_options(ra, TIGHT).unwrap();
            let me = ra.rank();
            if me == Rank(1) {
                messages.send(Rank(0), Tag(1), &[1; 70]).unwrap();
                messages.send(Rank(0), Tag(2), &[2; 1_000]).unwrap();
                return;
            }
            let second = Status { from: Rank(1), tag: Tag(2), len: 1_000 };
            assert_eq!(messages.probe(ANY_SOURCE, Tag(2)).unwrap(), second);
            let first = Status { from: Rank(1), tag: Tag(1), len: 70 };
            assert_eq!(messages.probe(Rank(1), ANY_TAG).unwrap(), first);
            assert_eq!(messages.try_probe(Rank(0), ANY_TAG).unwrap(), None);
            assert_eq!(messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap().1, first);
            assert_eq!(messages.try_probe(ANY_SOURCE, ANY_TAG).unwrap(), Some(second));
            assert_eq!(messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap().1, second);
        })
        .unwrap();
}

#[test]
fn requests_that_are_dropped() {
    World::threads(2)
        .run(|ra| {
            let messages = Messages::with_options(ra, TIGHT).unwrap();
            let collectives = Collectives::new(ra).unwrap();
            let peer = Rank(1 - ra.rank().0);
            // A receive that is given up before it is matched takes no message.
            drop(messages.irecv(peer, Tag(0)).unwrap());
            collectives.barrier().unwrap();
            // A send continues without its request, eager or not.
            drop(messages.isend(peer, Tag(0), vec![1; 50]).unwrap());
            drop(messages.isend(peer, Tag(0), vec![2; 500]).unwrap());
            drop(messages.isend(peer, Tag(0), vec![3; 500]).unwrap());
            assert_eq!(messages.recv_vec(peer, Tag(0)).unwrap().0, [1; 50]);
            messages.probe(peer, Tag(0)).unwrap();
            // This receive matches the second message, which is lost.
            drop(messages.irecv(peer, Tag(0)).unwrap());
            assert_eq!(messages.recv_vec(peer, Tag(0)).unwrap().0, [3; 500]);
            messages.send(peer, Tag(9), &[]).unwrap();
            messages.recv_vec(peer, Tag(9)).unwrap();
        })
        .unwrap();
}

#[test]
fn impossible_options_and_ranks_are_errors() {
    World::threads(2)
        .run(|ra| {
            for (options, text) in [
                (Options { slots: 0, ..TIGHT }, "at least one slot"),
                (Options { slot_bytes: 0, ..TIGHT }, "multiple of 64"),
                (Options { slot_bytes: 100, ..TIGHT }, "multiple of 64"),
                (Options { slot_bytes: 1 << 21, ..TIGHT }, "up to 1048576"),
            ] {
                let error = Messages::with_options(ra, options).unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
            let huge = Options { slots: u32::MAX, slot_bytes: 1 << 20, eager_limit: 0 };
            let error = Messages::with_options(ra, huge).unwrap_err();
            assert!(matches!(error, Error::Atomics(AtomicsError::OutOfMemory { .. })), "{error}");

            let messages = Messages::new(ra).unwrap();
            let missing = Rank(2);
            let expected = "there is no end-point 0 of rank 2: there are 2 ranks";
            for error in [
                messages.send(missing, Tag(0), &[]).unwrap_err(),
                messages.isend(missing, Tag(0), vec![]).map(drop).unwrap_err(),
                messages.irecv(missing, ANY_TAG).map(drop).unwrap_err(),
                messages.recv(missing, ANY_TAG, &mut []).unwrap_err(),
                messages.probe(missing, ANY_TAG).unwrap_err(),
                messages.try_probe(missing, ANY_TAG).unwrap_err(),
            ] {
                assert_eq!(error.to_string(), expected);
            }
        })
        .unwrap();
}

#[test]
fn every_wait_for_a_dead_rank_is_an_error() {
    let outcome = std::panic::catch_unwind(|| {
        World::threads(8).run(|ra| {
            let messages = Messages::with_options(ra, TIGHT).unwrap();
            let collectives = Collectives::new(ra).unwrap();
            collectives.barrier().unwrap();
            let dead = Rank(1);
            assert_ne!(ra.rank(), dead, "rank 1 dies");
            let error = match ra.rank().0 {
                0 => messages.recv_vec(dead, ANY_TAG).unwrap_err(),
                2 => messages.send(dead, Tag(0), &[0; 1_000]).unwrap_err(),
                // In the end the dead rank's ring is full.
                3 => (0..).find_map(|_| messages.send(dead, Tag(0), &[0; 50]).err()).unwrap(),
                4 => messages.probe(ANY_SOURCE, ANY_TAG).unwrap_err(),
                5 => {
                    let receive = messages.irecv(dead, ANY_TAG).unwrap();
                    (0..).find_map(|_| receive.test().err()).unwrap()
                }
                6 => (0..).find_map(|_| messages.try_probe(dead, ANY_TAG).err()).unwrap(),
                _ => (0..).find_map(|_| messages.progress().and_then(|()| Ok(ra.pause(1)?)).err()).unwrap(),
            };
            assert!(
                matches!(error, Error::Atomics(AtomicsError::PeerFailed { rank }) if rank == dead),
                "{}: {error}",
                ra.rank()
            );
        })
    });
    let panic = outcome.unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("rank 1 dies"), "of rank 1's panic only");
}

#[test]
fn a_freed_ring_leaves_clean_memory() {
    World::threads(3)
        .run(|ra| {
            let collectives = Collectives::new(ra).unwrap();
            let free = ra.heap().free_bytes();
            for _ in 0..20 {
                let messages = Messages::with_options(ra, Options { slots: 2, ..Options::default() }).unwrap();
                let next = Rank((ra.rank().0 + 1) % 3);
                let sends: Vec<_> = (0..30).map(|_| messages.isend(next, Tag(0), vec![5; 5_000]).unwrap()).collect();
                for _ in 0..30 {
                    assert_eq!(messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap().0, [5; 5_000]);
                }
                sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
                messages.free(&collectives).unwrap();
                assert_eq!(ra.heap().free_bytes(), free);
            }
        })
        .unwrap();
}

#[test]
fn packets_are_counted_by_kind_and_have_the_documented_cost() {
    World::threads(2)
        .run(|ra| {
            let counted = Counted::new(ra);
            let messages = Messages::new(&counted).unwrap();
            let collectives = Collectives::new(ra).unwrap();
            let peer = Rank(1 - ra.rank().0);
            let counts = || [Kind::EAGER, Kind::RTS, Kind::CTS, Kind::DATA].map(|kind| messages.sent(kind));
            counted.take();

            messages.send(peer, Tag(0), &[0; 40]).unwrap();
            let short = counted.take();
            assert_eq!((short.compare_and_swap.total(), short.put.total()), (1, 3 + 5));
            assert_eq!((short.remote_operations(), short.flush.total()), (9, 0));
            messages.send(peer, Tag(0), &[0; 41]).unwrap();
            let bulk = counted.take();
            assert_eq!((bulk.compare_and_swap.total(), bulk.put.total(), bulk.put_bytes.total()), (1, 3, 1));
            assert_eq!((bulk.remote_operations(), bulk.flush.total()), (5, 1));
            assert_eq!((counts(), messages.slots_filled()), ([2, 0, 0, 0], 2));

            messages.recv_vec(peer, ANY_TAG).unwrap();
            messages.recv_vec(peer, ANY_TAG).unwrap();
            assert_eq!(counted.take().remote_operations(), 0, "a receive of a message that has arrived is local");

            // 8,192 bytes are more than two slots of 4,072.
            messages.send(peer, Tag(0), &[0; 8_192]).unwrap();
            messages.recv_vec(peer, ANY_TAG).unwrap();
            assert_eq!((counts(), messages.slots_filled()), ([3, 0, 0, 0], 5));

            let send = messages.isend(peer, Tag(0), vec![0; 8_193]).unwrap();
            messages.recv_vec(peer, ANY_TAG).unwrap();
            send.wait().unwrap();
            assert_eq!((counts(), messages.slots_filled()), ([3, 1, 1, 1], 5 + 2 + 3));

            // A rank stays while the other one may still need its progress.
            collectives.barrier().unwrap();
        })
        .unwrap();
}

/// Every rank exchanges messages of all kinds with every other rank at the same time.
fn exchange<A: RemoteAtomics>(ra: &A, options: Options, count: usize) {
    let messages = Messages::with_options(ra, options).unwrap();
    let len = |number: usize| [0, 50, 120][number % 3];
    let peers: Vec<Rank> = (0..ra.size()).map(Rank).collect();
    let mut sends = Vec::new();
    for number in 0..count {
        for &to in &peers {
            sends.push(messages.isend(to, Tag(number as u32), bytes(ra.rank(), number, len(number))).unwrap());
        }
    }
    for number in (0..count).rev() {
        for &from in &peers {
            assert_eq!(messages.recv_vec(from, Tag(number as u32)).unwrap().0, bytes(from, number, len(number)));
        }
    }
    sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
}

/// Random numbers choose the rank of the next operation and the arrival of puts. A rank whose wait can never end is
/// found at once.
#[test]
fn random_schedules_lose_no_packet_and_no_wake_up() {
    for seed in 0..300 {
        let puts = [Puts::AtOnce, Puts::Late][seed as usize % 2];
        let ranks = 2 + seed as u32 / 2 % 3;
        let slots = 1 + seed as u32 / 7 % 3;
        // In the larger slots some data travel as bulk puts.
        let slot_bytes = 64 << (seed / 3 % 2);
        let options = Options { slots, slot_bytes, eager_limit: 100 };
        let run = run_engine(ranks, 64 << 10, puts, seed, move |ra: &Ra<'_>| {
            flood(ra, options, 4);
            exchange(ra, options, 3);
            Ok(())
        });
        assert_eq!(run.ends, vec![Ok(()); ranks as usize], "seed {seed}");
    }
}

/// Returns a world of processes whose ranks run the test of this name.
fn processes(test: &str, size: u32) -> rmalab_atomics::Processes {
    let only = [test, "--exact", "--nocapture", "--test-threads=1"];
    World::processes(size).command(std::env::current_exe().unwrap(), only).output(Output::Discard).time_limit(HUNG)
}

#[test]
fn processes_exchange_messages() {
    let done = processes("messages::processes_exchange_messages", 4).run(|ra| {
        flood(ra, TIGHT, 60);
        flood(ra, Options::default(), 60);
        ra.rank().0
    });
    assert_eq!(done.unwrap(), [0, 1, 2, 3]);
}

#[test]
fn waiting_ranks_get_the_death_of_a_process() {
    let outcome = processes("messages::waiting_ranks_get_the_death_of_a_process", 3).run(|ra| {
        let messages = Messages::with_options(ra, TIGHT).unwrap();
        Collectives::new(ra).unwrap().barrier().unwrap();
        if ra.rank() == Rank(1) {
            std::process::abort();
        }
        let error = if ra.rank() == Rank(0) {
            messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap_err()
        } else {
            (0..).find_map(|_| messages.send(Rank(1), Tag(0), &[0; 90]).err()).unwrap()
        };
        assert!(matches!(error, Error::Atomics(AtomicsError::PeerFailed { rank: Rank(1) })), "{error}");
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, AtomicsError::RankEnded { rank: Rank(1), .. }), "{error}");
}

/// A step of a random program; numbers are taken modulo the valid range.
#[derive(Clone, Debug)]
enum Step {
    Send { from: u32, to: u32, tag: u32, len: usize },
    Receive { at: u32, from: Option<u32>, tag: Option<u32> },
}

const RANKS: u32 = 3;

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![Just(0), 1..=100usize, 101..=500usize];
    prop_oneof![
        (0..RANKS, 0..RANKS, 0..3u32, len).prop_map(|(from, to, tag, len)| Step::Send { from, to, tag, len }),
        (0..RANKS, prop::option::of(0..RANKS), prop::option::of(0..3u32)).prop_map(|(at, from, tag)| Step::Receive {
            at,
            from,
            tag
        }),
    ]
}

/// Matches messages and receives in order, as the standard defines it, by the indices of their steps.
fn model(program: &[Step]) -> Vec<Option<usize>> {
    let mut partner = vec![None; program.len()];
    for (now, step) in program.iter().enumerate() {
        let fits = |send: &Step, receive: &Step| match (send, receive) {
            (&Step::Send { from, to, tag, .. }, Step::Receive { at, from: wanted, tag: wanted_tag }) => {
                to == *at && wanted.is_none_or(|wanted| wanted == from) && wanted_tag.is_none_or(|wanted| wanted == tag)
            }
            _ => false,
        };
        let earlier = (0..now)
            .find(|&then| partner[then].is_none() && (fits(&program[then], step) || fits(step, &program[then])));
        if let Some(then) = earlier {
            (partner[then], partner[now]) = (Some(now), Some(then));
        }
    }
    partner
}

/// Runs a program, one step at a time on all ranks, and returns the matched send of each receive.
fn run(program: &[Step]) -> Vec<Option<usize>> {
    let options = Options { slots: 64, slot_bytes: 64, eager_limit: 100 };
    let ranks = World::threads(RANKS).run(|ra| {
        let messages = Messages::with_options(ra, options).unwrap();
        let collectives = Collectives::new(ra).unwrap();
        let me = ra.rank();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (now, step) in program.iter().enumerate() {
            match *step {
                Step::Send { from, to, tag, len } if me == Rank(from) => {
                    let mut data = bytes(me, now, len);
                    data.extend((now as u64).to_le_bytes());
                    sends.push(messages.isend(Rank(to), Tag(tag), data).unwrap());
                }
                Step::Receive { at, from, tag } if me == Rank(at) => {
                    receives.push((now, messages.irecv(from.map(Rank), tag.map(Tag)).unwrap()));
                }
                _ => {}
            }
            collectives.barrier().unwrap();
            if now % 3 == 0 {
                // A message that is clear to send leaves in one barrier, and arrives in the next.
                for _ in 0..3 {
                    messages.progress().unwrap();
                    collectives.barrier().unwrap();
                }
            }
        }
        for _ in 0..6 {
            messages.progress().unwrap();
            collectives.barrier().unwrap();
        }
        let mut got = vec![None; program.len()];
        for (now, receive) in receives {
            if receive.test().unwrap() {
                let (data, status) = receive.wait().unwrap();
                let (data, number) = data.split_at(data.len() - 8);
                let send = u64::from_le_bytes(number.try_into().unwrap()) as usize;
                let Step::Send { from, to, tag, len } = program[send] else { panic!("step {send} sends nothing") };
                assert_eq!(Rank(to), me);
                assert_eq!(status, Status { from: Rank(from), tag: Tag(tag), len: len + 8 });
                assert_eq!(data, bytes(Rank(from), send, len));
                got[now] = Some(send);
            }
        }
        collectives.barrier().unwrap();
        got
    });
    let mut merged = vec![None; program.len()];
    for got in ranks.unwrap() {
        merged.iter_mut().zip(got).for_each(|(all, one)| *all = all.or(one));
    }
    merged
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_match_like_the_model(program in prop::collection::vec(step(), 1..30)) {
        let mut expected = model(&program);
        for (step, partner) in program.iter().zip(&mut expected) {
            if matches!(step, Step::Send { .. }) {
                *partner = None;
            }
        }
        prop_assert_eq!(run(&program), expected);
    }
}
