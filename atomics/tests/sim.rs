//! The simulator: its costs, computed by hand, its determinism, and the conformance suite on it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use rmalab_atomics::bulk::{self, Owned, Piece};
use rmalab_atomics::conformance::{checks, peer_death, survivors_go_on};
use rmalab_atomics::sim::network::Shape;
use rmalab_atomics::sim::profile::{Arbitration, Jitter, LocalAtomics, Nic, Node, Placement, Profile, Span};
use rmalab_atomics::sim::{OperationKind, Options, Outcome, Sim, Simulator};
use rmalab_atomics::{Collectives, Disp, Distance, Error, Rank, RemoteAtomics, Time, Until, WORD};

/// Returns a machine whose costs are easy to add.
fn machine(shape: Shape) -> Profile {
    let ns = Span::nanoseconds;
    Profile {
        name: "test".into(),
        about: "costs that are easy to add".into(),
        shape,
        ranks_per_node: 2,
        placement: Placement::Block,
        overhead: ns(100),
        completion: ns(50),
        wire: ns(400),
        hop: ns(30),
        loopback: ns(200),
        local_atomics: LocalAtomics::Processor,
        arbitration: Arbitration::RoundRobin,
        jitter: Jitter::None,
        nic: Nic { engines: 1, gap: ns(10), byte: 100.0, atomic: ns(20), word: ns(60), put: ns(15), get: ns(25) },
        node: Node {
            sockets: 1,
            hit: ns(1),
            atomic: ns(5),
            core: ns(40),
            socket: ns(90),
            notice: ns(0),
            keep: 1.0,
            pause: ns(0),
            fence: None,
            byte: 50.0,
        },
    }
}

fn torus() -> Shape {
    Shape::Torus { free: 3, fixed: vec![], wrap: true }
}

/// Returns a network of nodes in a row.
fn row() -> Shape {
    Shape::Torus { free: 1, fixed: vec![], wrap: false }
}

#[test]
fn a_fence_for_all_ranks_needs_one_node_and_its_time() {
    let fenced = |shape, fence: Option<Span>| {
        let mut machine = machine(shape);
        machine.node.fence = fence;
        let simulator = Simulator::new(&machine, &Options::new(2)).unwrap();
        let outcome = simulator.run(|ra| {
            let start = ra.now();
            let is_there = ra.fence_everywhere().unwrap();
            assert_eq!(ra.capabilities().asymmetric_fence, is_there);
            (is_there, ra.now().since(start).as_nanos())
        });
        outcome.unwrap().results[0]
    };
    assert_eq!(fenced(Shape::OneNode, Some(Span(7_000_000))), (true, 7_000));
    assert_eq!(fenced(Shape::OneNode, None), (false, 0));
    assert_eq!(fenced(torus(), Some(Span(7_000_000))), (false, 0), "ranks of several nodes have no fence in common");
}

#[test]
fn operations_take_the_times_of_the_profile() {
    let simulator = Simulator::new(&machine(torus()), &Options::new(4)).unwrap();
    let outcome = simulator.run(|ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        let mut times = Vec::new();
        if ra.rank() == Rank(0) {
            let mut timed = |what: &mut dyn FnMut()| {
                let before = ra.time().0;
                what();
                times.push((ra.time().0 - before) / 1000);
            };
            timed(&mut || assert_eq!(ra.fetch_add(Rank(2).at(word), 3).unwrap(), 0));
            timed(&mut || assert_eq!(ra.get(Rank(2).at(word)).unwrap(), 3));
            timed(&mut || ra.put(Rank(2).at(word), 9).unwrap());
            timed(&mut || ra.flush(Rank(2)).unwrap());
            timed(&mut || assert_eq!(ra.fetch_store(Rank(1).at(word), 1).unwrap(), 0));
            timed(&mut || assert_eq!(ra.compare_and_swap(Rank(1).at(word), 1, 2).unwrap(), 1));
            timed(&mut || ra.compute(Duration::from_nanos(123)).unwrap());
            timed(&mut || ra.put_bytes(Rank(3).at(Disp(64)), &[7; 1000]).unwrap());
        }
        times
    });
    // One hop. An atomic takes 100 + 430 + 20 + 60 + 430 + 50; a get has 25 in the engine. A put takes 100, and its flush
    // 430 + 15 + 430 + 50. Bulk takes 100, 430, 15 + 100 while the bytes arrive, 430, 50.
    assert_eq!(outcome.unwrap().results[0], [1090, 1035, 100, 925, 5, 5, 123, 1125]);
}

/// Returns the times of a put and a get of bytes to the other rank of the node, and of the put's flush, in nanoseconds.
fn bulk_in_a_node(local_bulk: Option<LocalAtomics>) -> [u64; 3] {
    let options = Options { local_bulk, ..Options::new(2) };
    let outcome = Simulator::new(&machine(torus()), &options).expect("a machine").run(|ra| {
        let mut times = [0; 3];
        if ra.rank() == Rank(0) {
            let before = ra.time().0;
            ra.post_bytes(Rank(1).at(Disp(64)), &[7; 1000]).expect("a put");
            times[0] = ra.time().0 - before;
            ra.flush(Rank(1)).expect("a flush");
            times[1] = ra.time().0 - before - times[0];
            let mut bytes = [0; 1000];
            let before = ra.time().0;
            ra.get_bytes(Rank(1).at(Disp(64)), &mut bytes).expect("a get");
            times[2] = ra.time().0 - before;
            assert_eq!(bytes, [7; 1000]);
        }
        times.map(|time| time / 1000)
    });
    outcome.expect("it ends").results[0]
}

#[test]
fn the_processor_or_the_adapter_moves_bytes_within_a_node() {
    let usual = bulk_in_a_node(None);
    assert_eq!(bulk_in_a_node(Some(LocalAtomics::Processor)), usual);
    let [post, flush, get] = bulk_in_a_node(Some(LocalAtomics::Nic));
    // The processor copies in the call. With the adapter, the flush waits.
    assert!(flush > 0 && usual[1] == 0, "{flush}, {usual:?}");
    assert!(post + flush > usual[0] + usual[1] && get > usual[2], "{post} + {flush} and {get}, {usual:?}");
}

/// Only a word that the processor puts overtakes bytes on their way through the adapter.
#[test]
fn words_overtake_bytes_only_where_no_order_is_promised() {
    use LocalAtomics::{Nic, Processor};
    for (words, bulk, ordered) in
        [(Processor, None, true), (Processor, Some(Nic), false), (Nic, None, true), (Nic, Some(Nic), true)]
    {
        let options = Options { local_atomics: Some(words), local_bulk: bulk, ..Options::new(2) };
        let simulator = Simulator::new(&machine(torus()), &options).unwrap();
        let outcome = simulator.run(|ra| {
            let (bytes, told) = (Disp(64), Disp(0));
            if ra.rank() == Rank(0) {
                ra.post_bytes(Rank(1).at(bytes), &[7; 1000]).expect("a put");
                ra.put(Rank(1).at(told), 1).expect("a put");
                return (ra.capabilities().ordered_puts, 7);
            }
            ra.wait_until(told, Until::Eq(1)).expect("a put");
            let mut last = [0];
            ra.get_bytes(Rank(1).at(bytes.plus(999)), &mut last).expect("a get");
            (ra.capabilities().ordered_puts, last[0])
        });
        let seen = if ordered { 7 } else { 0 };
        assert_eq!(outcome.expect("it ends").results, [(ordered, 7), (ordered, seen)], "{words:?}, {bulk:?}");
    }
}

/// The machines that run the suite.
#[derive(Clone, Copy)]
enum On {
    /// Nodes of two ranks, whose processors operate on their words.
    Nodes,
    /// The same nodes; all atomics go through adapters of four engines, and messages overtake each other.
    Adapters,
    /// One node.
    OneNode,
}

fn simulate<R: 'static>(on: On, ranks: u32, seed: u64, body: impl for<'t> Fn(&Sim<'t>) -> R + 'static) -> Outcome<R> {
    let mut options = Options { seed, ..Options::new(ranks) };
    let mut profile = machine(if matches!(on, On::OneNode) { Shape::OneNode } else { torus() });
    if matches!(on, On::Adapters) {
        profile.jitter = Jitter::Exponential(Span::nanoseconds(300));
        options.local_atomics = Some(LocalAtomics::Nic);
        options.local_bulk = Some(LocalAtomics::Nic);
        options.engines = Some(4);
    }
    Simulator::new(&profile, &options).expect("a machine").run(body).expect("it ends")
}

fn conforms(on: On, name: &'static str, sizes: &[u32]) {
    for &ranks in sizes {
        let outcome = simulate(on, ranks, u64::from(ranks), move |ra| {
            let check = checks::<dyn RemoteAtomics>()
                .into_iter()
                .find(|check| check.name == name)
                .expect("a check of that name");
            (check.run)(ra).map_err(|failure| failure.to_string())
        });
        assert_eq!(outcome.results, vec![Ok(()); ranks as usize]);
    }
}

macro_rules! suite {
    ([$module:ident $on:expr] $($group:ident $name:ident $ranks:expr,)*) => {
        mod $module {
            use super::{On, conforms};
            $(#[test]
            fn $name() {
                conforms($on, stringify!($name), &$ranks);
            })*
        }
    };
}

rmalab_atomics::__conformance_list!([suite] nodes On::Nodes);
rmalab_atomics::__conformance_list!([suite] adapters On::Adapters);
rmalab_atomics::__conformance_list!([suite] one_node On::OneNode);

#[test]
fn all_ranks_get_the_death_of_a_rank() {
    for ranks in [3, 4, 8] {
        let saw = Rc::new(RefCell::new(Vec::new()));
        let told = Rc::clone(&saw);
        let simulator = Simulator::new(&machine(torus()), &Options::new(ranks)).unwrap();
        let outcome = simulator.run(move |ra| {
            let result =
                peer_death::<dyn RemoteAtomics>(ra, || panic!("rank 1 dies")).map_err(|failure| failure.to_string());
            told.borrow_mut().push((ra.rank(), result));
        });
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("rank 1 of the simulation panicked: rank 1 dies ("), "{error}");
        let mut saw = saw.take();
        saw.sort_by_key(|(rank, _)| *rank);
        let others = (0..ranks).filter(|&rank| rank != 1).map(|rank| (Rank(rank), Ok(())));
        assert_eq!(saw, others.collect::<Vec<_>>());
    }
}

/// Returns a machine whose ranks learn of a failure after 20 microseconds.
fn mortal(ranks: u32) -> Simulator {
    let options = Options { detection: Some(Span::nanoseconds(20_000)), ..Options::new(ranks) };
    Simulator::new(&machine(torus()), &options).expect("a machine")
}

#[test]
fn survivors_of_a_failure_go_on() {
    for ranks in [3, 4, 8] {
        let outcome = mortal(ranks).run(|ra| {
            let fails = || {
                survivors_go_on::<dyn RemoteAtomics>(ra, || {
                    ra.fail().expect("a rank of this machine can fail");
                    resume_unwind(Box::new("rank 1 fails"))
                })
            };
            catch_unwind(AssertUnwindSafe(fails)).ok().map(|result| result.map_err(|failure| failure.to_string()))
        });
        let expected = (0..ranks).map(|rank| (rank != 1).then_some(Ok(())));
        assert_eq!(outcome.unwrap().results, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_failure_is_known_after_the_time_of_detection() {
    let outcome = mortal(4).run(|ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        ra.compute(Duration::from_micros(5)).unwrap();
        if ra.rank() == Rank(2) {
            // It arrives, although the rank fails first.
            ra.put(Rank(0).at(word), 7).unwrap();
            ra.fail().unwrap();
            let refused = ra.fetch_add(Rank(0).at(word), 1);
            assert!(matches!(refused, Err(Error::PeerFailed { rank: Rank(2) })), "{refused:?}");
            return (0, 0);
        }
        let told = ra.wait_until(word, Until::Ge(100));
        assert!(matches!(told, Err(Error::PeerFailed { rank: Rank(2) })), "{told:?}");
        let told = ra.time().0;
        let failed = ra.failed().unwrap();
        ra.silence(&failed).unwrap();
        (told, ra.get(Rank(0).at(word)).unwrap())
    });
    // 5 µs, the start of the put (100 ns), and 20 µs.
    assert_eq!(outcome.unwrap().results, [(25_100_000, 7), (25_100_000, 7), (0, 0), (25_100_000, 7)]);
}

/// The put takes ten microseconds to another node, and the detection no time.
#[test]
fn silence_waits_for_the_puts_of_a_failed_rank() {
    let options = Options { detection: Some(Span::nanoseconds(0)), ..Options::new(3) };
    let outcome = Simulator::new(&machine(torus()), &options).unwrap().run(|ra| {
        let bytes = ra.heap().alloc(100_000, 8).unwrap();
        if ra.rank() == Rank(2) {
            ra.post_bytes(Rank(0).at(bytes), &[7; 100_000]).unwrap();
            ra.fail().unwrap();
            return [0; 2];
        }
        let told = ra.wait_until(bytes.plus(99_992), Until::Eq(1));
        assert!(matches!(told, Err(Error::PeerFailed { rank: Rank(2) })), "{told:?}");
        let last = Rank(0).at(bytes.plus(99_992));
        let early = ra.get(last).unwrap();
        ra.silence(&ra.failed().unwrap()).unwrap();
        [early, ra.get(last).unwrap()]
    });
    let late = [0, u64::from_ne_bytes([7; 8])];
    assert_eq!(outcome.unwrap().results, [late, late, [0; 2]]);
}

#[test]
fn a_failed_rank_leaves_its_obligations_undone_and_counts_do_not_wait_for_it() {
    let outcome = mortal(3).run(|ra| {
        if ra.rank() == Rank(1) {
            ra.forsake("a lock that it holds");
            ra.fail().unwrap();
            return None;
        }
        // One rank waits for the failed one, and the other comes later.
        ra.compute(Duration::from_micros(50 * u64::from(ra.rank().0))).unwrap();
        Some(ra.begin_stats().unwrap_err().to_string())
    });
    let told = Some("rank 1 has failed".to_owned());
    assert_eq!(outcome.unwrap().results, [told.clone(), None, told]);
}

#[test]
fn a_rank_that_cannot_be_detected_cannot_fail() {
    let outcome = Simulator::new(&machine(torus()), &Options::new(2))
        .unwrap()
        .run(|ra| (ra.fail().unwrap_err().to_string(), ra.failed().is_err()));
    for (error, is_unsupported) in outcome.unwrap().results {
        assert!(is_unsupported && error.contains("no time of detection"), "{error}");
    }
}

/// Bytes of a get in the tests below; small, so that the allocator reuses freed memory at once.
const LEN: usize = 512;

/// Lets all operations under way arrive.
fn settle(ra: &Sim<'_>) {
    ra.compute(Duration::from_secs(1)).expect("no rank fails");
    ra.flush_all().expect("no rank fails");
}

#[test]
fn a_get_touches_no_buffer_after_a_caught_panic_has_ended_its_scope() {
    for on in [On::Nodes, On::Adapters, On::OneNode] {
        let outcome = simulate(on, 4, 1, |ra| {
            let mut untouched = true;
            for target in (0..ra.size()).map(Rank) {
                let (mut buffer, mut word) = ([1; LEN], 1);
                let panics = || {
                    bulk::scope(ra, |bulk| -> rmalab_atomics::Result<()> {
                        bulk.get(target.at(Disp(0)), &mut buffer)?;
                        bulk.get_word(target.at(Disp(0)), &mut word)?;
                        panic!("this rank panics while gets are under way")
                    })
                };
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                // The borrows are over: only this rank writes here.
                buffer.fill(7);
                word = 7;
                settle(ra);
                untouched &= buffer == [7; LEN] && word == 7;
            }
            untouched
        });
        assert_eq!(outcome.results, [true; 4]);
    }
}

#[test]
fn a_get_touches_no_memory_after_a_caught_panic_has_dropped_its_owned_buffer() {
    let outcome = simulate(On::Nodes, 4, 1, |ra| {
        let get = |target: u32| {
            let piece = Piece { offset: 0, at: Rank(target).at(Disp(0)), len: LEN };
            Owned::get(ra, vec![1_u8; LEN], [piece]).expect("a get")
        };
        let panics = || {
            let _get = get(3);
            panic!("this rank panics while a get is under way")
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        // One of these blocks is the memory that the drop has freed.
        let reused = [(); 8].map(|()| vec![7_u8; LEN]);
        settle(ra);
        reused.iter().all(|bytes| bytes.iter().all(|&byte| byte == 7))
    });
    assert_eq!(outcome.results, [true; 4]);
}

#[test]
fn a_caught_panic_gives_up_only_the_operations_that_it_drops() {
    let outcome = simulate(On::Nodes, 4, 1, |ra| {
        let me = u64::from(ra.rank().0);
        ra.put_bytes(ra.rank().at(Disp(0)), &[me + 1].map(u64::to_ne_bytes)[0]).expect("a put");
        settle(ra);
        let target = Rank((ra.rank().0 + 2) % 4);
        let get = || Owned::get(ra, vec![0_u64], [Piece { offset: 0, at: target.at(Disp(0)), len: 8 }]).expect("a get");
        let kept = get();
        let panics = || {
            let _dropped = get();
            panic!("this rank panics while two gets are under way")
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        kept.wait().expect("a get that nothing has given up") == [u64::from(target.0) + 1]
    });
    assert_eq!(outcome.results, [true; 4]);
}

#[test]
fn a_wait_without_a_writer_is_detected() {
    let simulator = Simulator::new(&machine(torus()), &Options::new(3)).unwrap();
    let error = simulator.run(|ra| {
        if ra.rank() != Rank(1) {
            let _ = ra.wait_until(Disp(8), Until::Ge(5));
        }
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("2 of 3 ranks wait forever, from 0 ns"), "{error}");
    assert!(error.contains("rank 0 until its word 0x8 is ≥ 0x5, rank 2 until"), "{error}");
}

#[test]
fn waiting_ranks_get_an_error_when_a_rank_has_left() {
    let simulator = Simulator::new(&machine(torus()), &Options::new(3)).unwrap();
    let outcome = simulator.run(|ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        let collectives = Collectives::new(ra).unwrap();
        collectives.barrier().unwrap();
        if ra.rank() == Rank(2) {
            // The put arrives after the rank has left.
            ra.put(Rank(0).at(word), 1).unwrap();
            return None;
        }
        let told = (ra.rank() == Rank(0)).then(|| ra.wait_until_from(word, Until::Eq(1), Rank(2)).unwrap());
        Some((told, collectives.barrier().unwrap_err().to_string()))
    });
    let results = outcome.unwrap().results;
    assert_eq!(results[0].as_ref().map(|(told, _)| *told), Some(Some(1)));
    let left = results.iter().flatten().filter(|(_, error)| error.contains("rank 2 has left")).count();
    assert!(left > 0, "{results:?}");
}

#[test]
fn a_rank_that_leaves_an_obligation_undone_has_failed() {
    let simulator = Simulator::new(&machine(torus()), &Options::new(2)).unwrap();
    let seen = Rc::new(RefCell::new(String::new()));
    let told = Rc::clone(&seen);
    let outcome = simulator.run(move |ra| {
        let lock = ra.heap().alloc(8, 8).unwrap();
        if ra.rank() == Rank(1) {
            ra.forsake("a lock");
            ra.forsake("another one");
        } else {
            *told.borrow_mut() = ra.wait_until(lock, Until::Ne(0)).unwrap_err().to_string();
        }
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::RankEnded { rank: Rank(1), .. }), "{error}");
    assert!(error.to_string().contains("rank 1 has left with a lock"), "{error}");
    assert!(seen.borrow().contains("rank 1 has failed"), "{}", seen.borrow());
    // No rank has waited for the operation.
    let outcome = simulator.run(|ra| ra.forsake("a lock"));
    assert!(matches!(outcome.unwrap_err(), Error::RankEnded { rank: Rank(0), .. }));
}

#[test]
fn a_simulation_can_be_stopped() {
    let simulator = Simulator::new(&machine(torus()), &Options::new(2)).unwrap();
    let mut told = Vec::new();
    let error = simulator.run_with(
        |ra| {
            while ra.fetch_add(Rank(0).at(Disp(0)), 1).is_ok_and(|old| old < 1 << 40) {}
        },
        &mut |progress| {
            told.push(*progress);
            told.len() < 3
        },
    );
    assert!(error.unwrap_err().to_string().contains("was stopped after"));
    assert!(told.is_sorted_by(|a, b| a.now < b.now && a.events < b.events));
}

/// Returns all observable results of a run with contention, irregular messages, bulk transfers, waits and deadlines.
fn busy(seed: u64) -> Outcome<Vec<u64>> {
    simulate(On::Adapters, 64, seed, |ra| {
        let collectives = Collectives::with_chunk(ra, 64).expect("it does");
        let word = ra.heap().alloc(64, 64).expect("it does");
        let mut seen = Vec::new();
        for round in 0..5 {
            seen.push(ra.fetch_add(Rank(0).at(word), 1).expect("it does"));
            ra.put_bytes(Rank((ra.rank().0 + 7) % 64).at(word.plus(8)), &[round; 40]).expect("it does");
            seen.push(ra.time().0);
            let deadline = Time(ra.now().0 + 700);
            seen.push(ra.wait_until_deadline(word.plus(16), Until::Eq(3), deadline).expect("it does").unwrap_or(77));
            collectives.barrier().expect("it does");
        }
        seen
    })
}

#[test]
fn one_seed_gives_one_result_to_the_bit() {
    let (first, again, other) = (busy(5), busy(5), busy(6));
    assert_eq!(first, again);
    assert_ne!(first.results, other.results);
}

#[test]
fn a_busy_word_is_served_at_its_rate_and_the_statistics_show_it() {
    let pairs = 200_u64;
    let outcome = simulate(On::Nodes, 32, 1, move |ra| {
        for _ in 0..pairs {
            ra.fetch_add(Rank(0).at(Disp(0)), 1).unwrap();
        }
        ra.get(Rank(0).at(Disp(0))).unwrap()
    });
    let stats = &outcome.stats;
    // 30 ranks use the adapter, whose engine takes 80 ns for each; of 30 messages some 15 are on their way.
    let served = 30 * pairs;
    let (busiest, hottest) = (stats.busiest.unwrap(), stats.hottest.unwrap());
    assert_eq!((hottest.rank, hottest.disp, hottest.served), (0, 0, served));
    assert_eq!(hottest.bound, Span::nanoseconds(80 * served));
    assert!(stats.end >= hottest.bound && stats.end.0 < hottest.bound.0 * 13 / 10, "{stats:?}");
    assert_eq!((busiest.node, busiest.served), (0, served + 30));
    assert!(busiest.utilization > 0.8 && busiest.utilization <= 1.0, "{busiest:?}");
    assert!(busiest.longest_queue >= 28 && (8.0..17.0).contains(&busiest.mean_queue), "{busiest:?}");
    let operations = &stats.operations;
    assert_eq!(operations.count(OperationKind::Atomic, Distance::Remote), served);
    assert_eq!(operations.count(OperationKind::Atomic, Distance::Own), pairs);
    assert_eq!(operations.count(OperationKind::Atomic, Distance::Node), pairs);
    assert_eq!(operations.count(OperationKind::Get, Distance::Remote), 30);
    assert_eq!(operations.total(), 32 * (pairs + 1));
    assert_eq!(*outcome.results.iter().max().unwrap(), 32 * pairs);
}

/// Operations before the start and after the end of the counts do not count, and the start waits for the slowest rank.
#[test]
fn counts_have_a_begin_and_an_end() {
    let outcome = simulate(On::Nodes, 32, 1, |ra| {
        let add = |disp| ra.fetch_add(Rank(0).at(Disp(disp)), 1).unwrap();
        for _ in 0..ra.rank().0 {
            add(0);
        }
        ra.begin_stats().unwrap();
        let begin = ra.time();
        for _ in 0..10 {
            add(64);
        }
        let word = Disp(192);
        if add(128) == 31 {
            ra.end_stats().unwrap();
            for rank in 0..32 {
                ra.put(Rank(rank).at(word), 1).unwrap();
            }
        }
        ra.wait_until(word, Until::Eq(1)).unwrap();
        add(0);
        begin
    });
    assert!(outcome.results.iter().all(|begin| *begin == outcome.results[0]), "{:?}", outcome.results);
    let stats = &outcome.stats;
    let hottest = stats.hottest.unwrap();
    assert_eq!((hottest.disp, hottest.served), (64, 300));
    assert_eq!((stats.operations.count(OperationKind::Atomic, Distance::Remote), stats.operations.total()), (330, 352));
    let busiest = stats.busiest.unwrap();
    assert_eq!((busiest.node, busiest.served), (0, 330));
    assert!(busiest.utilization > 0.8 && busiest.utilization <= 1.0, "{busiest:?}");
    assert!(stats.end > outcome.results[0]);
}

#[test]
fn four_engines_are_limited_by_the_word() {
    let rate = |engines: u32| {
        let options = Options { engines: Some(engines), ..Options::new(64) };
        let outcome = Simulator::new(&machine(torus()), &options).unwrap().run(|ra| {
            for _ in 0..100 {
                ra.fetch_add(Rank(0).at(Disp(0)), 1).unwrap();
            }
        });
        let stats = outcome.unwrap().stats;
        stats.end.as_nanoseconds() / stats.hottest.unwrap().served as f64
    };
    let (one, four) = (rate(1), rate(4));
    assert!((80.0..92.0).contains(&one), "{one}");
    assert!((60.0..72.0).contains(&four), "{four}");
}

#[test]
fn ranks_near_a_busy_word_finish_first() {
    // 16 nodes in a row with 8 ranks each; the word is on the first node.
    let options = Options { ranks_per_node: Some(8), ..Options::new(128) };
    let of_nodes = |ends: &[u64]| ends.chunks(8).map(|node| *node.iter().max().unwrap()).collect::<Vec<_>>();
    let outcome = Simulator::new(&machine(row()), &options).unwrap().run(|ra| {
        for _ in 0..500 {
            ra.fetch_add(Rank(0).at(Disp(0)), 1).unwrap();
        }
        ra.time().0
    });
    let ends = of_nodes(&outcome.unwrap().results);
    assert!(ends[1..].is_sorted(), "{ends:?}");
    assert!(ends[15] > 5 * ends[1], "{ends:?}");
    let fifo = Profile { arbitration: Arbitration::Fifo, ..machine(row()) };
    let outcome = Simulator::new(&fifo, &options).unwrap().run(|ra| {
        for _ in 0..500 {
            ra.fetch_add(Rank(0).at(Disp(0)), 1).unwrap();
        }
        ra.time().0
    });
    let ends = of_nodes(&outcome.unwrap().results);
    assert!(ends[15] < ends[1] * 12 / 10, "{ends:?}");
}

#[test]
fn puts_to_one_target_arrive_in_order() {
    let outcome = simulate(On::Adapters, 4, 9, |ra| {
        if ra.rank() == Rank(0) {
            for value in 1..=2_000 {
                ra.put(Rank(3).at(Disp(0)), value).unwrap();
            }
        }
        let mut last = 0;
        if ra.rank() == Rank(3) {
            while last < 2_000 {
                let value = ra.wait_until(Disp(0), Until::Ge(last + 1)).unwrap();
                assert!(value > last);
                last = value;
            }
        }
        last
    });
    assert_eq!(outcome.results[3], 2_000);
}

#[test]
fn bad_simulations_are_refused() {
    let message = |options: &Options| Simulator::new(&machine(torus()), options).unwrap_err().to_string();
    assert!(message(&Options::new(0)).contains("0 ranks"), "{}", message(&Options::new(0)));
    let none = Options { ranks_per_node: Some(0), ..Options::new(4) };
    assert!(message(&none).contains("0 a node"), "{}", message(&none));
    assert!(message(&Options::new(u32::MAX)).contains("GiB are available"), "{}", message(&Options::new(u32::MAX)));
}

#[test]
fn ten_thousand_ranks_meet() {
    many_ranks_meet(10_000);
}

#[test]
#[ignore = "a quarter of a minute; .ci/run longer"]
fn longer_a_hundred_thousand_ranks_meet() {
    many_ranks_meet(100_000);
}

fn many_ranks_meet(ranks: u32) {
    let outcome = simulate(On::Nodes, ranks, 1, |ra| {
        let collectives = Collectives::with_chunk(ra, 64).unwrap();
        let word = ra.heap().alloc(WORD, WORD).unwrap();
        ra.fetch_add(Rank(ra.rank().0 / 1000).at(word), 1).unwrap();
        collectives.barrier().unwrap();
        ra.get(Rank(ra.rank().0 / 1000).at(word)).unwrap()
    });
    assert_eq!(outcome.results, vec![1000; ranks as usize]);
}
