//! Windows whose operations travel as messages: all kinds of epochs, their messages, and progress.

use std::time::Duration;

use rmalab_atomics::sim::{Options as SimOptions, Profile, Simulator};
use rmalab_atomics::{Disp, Error as AtomicsError, Mapped, Output, Rank, RemoteAtomics, Until, World};
use rmalab_locks::{Error as LockError, McsRwRp, PerTarget};
use rmalab_windows::messages::Kind;
use rmalab_windows::two_sided::{
    ACCUMULATE, ACK, ANSWER, CAS, COMPLETE, FETCH, GET, GRANT, LOCK, POST, PUT, SUM, UNLOCK,
};
use rmalab_windows::{
    Assert, Call, Class, Config, Error, FenceAssert, FenceStrategy, Layout, LockKind, Model, Op, Open, Pair,
    PolicyKind, PostAssert, PscwStrategy, StartAssert, Team, Transport, UserMemory, Window, WindowDisp,
};

const COUNTER: WindowDisp = WindowDisp(0);

/// The time after which a world of processes counts as hung.
const HUNG: Duration = Duration::from_secs(120);

/// The time after which threads count as hung.
const HANGS: Duration = Duration::from_secs(60);

fn config(transport: Transport) -> Config {
    Config { transport, ..Config::default() }
}

/// A window without an agent.
fn window<'t, A: RemoteAtomics>(team: &'t Team<'t, A>, bytes: u64) -> Window<'t, A> {
    Window::builder(team).config(config(Transport::TwoSided)).allocate(bytes).unwrap()
}

/// Runs `body` on threads, each with its team.
fn on<T: Send>(size: u32, body: impl Fn(&Mapped, &Team<'_, Mapped>) -> T + Sync) -> Vec<T> {
    // This leaves room for two-sided windows in a part of the world, whose memory is an eighth of this.
    World::threads(size).segment_bytes(8 << 20).run(|ra| body(ra, &Team::new(ra).unwrap())).unwrap()
}

#[test]
fn two_sided_windows_report_their_strategies() {
    on(1, |_, team| {
        let window = window(team, 8);
        let info = window.info();
        assert_eq!(info.get("rmalab_transport"), Some("two-sided"));
        assert_eq!(info.get("rmalab_fence"), Some(FenceStrategy::Deferred.to_string().as_str()));
        assert_eq!(info.get("rmalab_pscw"), Some(PscwStrategy::Deferred.to_string().as_str()));
        assert_eq!(window.model(), Model::Separate);
        assert!(matches!(window.agent(), Err(Error::Agent { .. })));
        assert!(matches!(window.stop_agent(), Err(Error::Agent { .. })));
        let one_sided = Window::allocate(team, 8).unwrap();
        assert_eq!(one_sided.model(), Model::Unified);
        one_sided.progress().unwrap();
        team.barrier().unwrap();
        one_sided.free().unwrap();
        window.free().unwrap();
    });
}

/// Each holder finds every word of the block with the value of one earlier holder, and writes its own value.
fn exclusive_sections<A: RemoteAtomics>(ra: &A, rounds: u64) {
    const WORDS: usize = 64;
    let team = Team::new(ra).unwrap();
    let target = Rank(ra.size() - 1);
    let window = window(&team, 8 * WORDS as u64);
    for round in 0..rounds {
        let epoch = window.lock(LockKind::Exclusive, target).unwrap();
        let mut block = [0_u64; WORDS];
        epoch.get(WindowDisp(0), &mut block).unwrap();
        let first = block[0];
        assert!(block.iter().all(|&word| word == first), "{}: a torn block in round {round}", ra.rank());
        for word in (0..WORDS as i64).rev() {
            epoch.put_value(WindowDisp(8 * word), first + 1).unwrap();
        }
        // Both ways to end an epoch.
        if round % 2 == 0 {
            epoch.unlock().unwrap();
        }
    }
    window.team().barrier().unwrap();
    let epoch = window.lock(LockKind::Shared, target).unwrap();
    assert_eq!(epoch.get_value::<u64>(COUNTER).unwrap(), rounds * u64::from(ra.size()));
    epoch.unlock().unwrap();
    window.free().unwrap();
}

#[test]
fn the_next_holder_sees_all_of_it() {
    World::threads(4).run(|ra| exclusive_sections(ra, 100)).unwrap();
}

#[test]
fn exclusive_locks_make_increments_of_four_ranks_atomic() {
    const ROUNDS: u64 = 300;
    on(4, |ra, team| {
        let window = window(team, 8);
        for _ in 0..ROUNDS {
            let epoch = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            let value = epoch.get_value::<u64>(COUNTER).unwrap();
            epoch.put_value(COUNTER, value + 1).unwrap();
            epoch.unlock().unwrap();
        }
        window.team().barrier().unwrap();
        if ra.rank() == Rank(1) {
            assert_eq!(window.local().unwrap().load::<u64>(COUNTER).unwrap(), 4 * ROUNDS);
        }
        window.free().unwrap();
    });
}

fn counters<A: RemoteAtomics>(ra: &A, rounds: u64) {
    let team = Team::new(ra).unwrap();
    let mut window = window(&team, 16);
    let target = Rank(ra.size() - 1);
    let epoch = window.lock_all().unwrap();
    let at = epoch.at(target).unwrap();
    let mut last = None;
    for round in 0..rounds {
        let old = at.fetch_and_op(COUNTER, Op::Sum, 1_u64).unwrap();
        assert!(last < Some(old), "{} in round {round}", ra.rank());
        last = Some(old);
        at.accumulate(WindowDisp(8), Op::Sum, &[1_u32, 2]).unwrap();
    }
    let won = at.compare_and_swap(WindowDisp(8), 0_u8, 1).unwrap();
    // This follows the rank's own accumulates, which were recorded before.
    assert_ne!(won, 0);
    epoch.flush(target).unwrap();
    epoch.unlock_all().unwrap();
    window.team().barrier().unwrap();
    let epoch = window.lock_all().unwrap();
    let at = epoch.at(target).unwrap();
    let total = rounds * u64::from(ra.size());
    assert_eq!(at.get_value::<u64>(COUNTER).unwrap(), total);
    let mut pair = [0_u32; 2];
    at.get_accumulate(WindowDisp(8), Op::NoOp, &[], &mut pair).unwrap();
    assert_eq!(pair.map(u64::from), [total, 2 * total]);
    epoch.unlock_all().unwrap();
    window.free().unwrap();
}

#[test]
fn fetch_and_op_counts_under_lock_all() {
    World::threads(3).run(|ra| counters(ra, 200)).unwrap();
}

#[test]
fn several_epochs_at_once_to_different_targets() {
    on(3, |_, team| {
        let mut window = window(team, 8);
        for _ in 0..50 {
            let low = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            let value = low.get_value::<u64>(COUNTER).unwrap();
            let middle = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            let high = window.lock(LockKind::Shared, Rank(2)).unwrap();
            assert_eq!(middle.get_value::<u64>(COUNTER).unwrap(), value);
            low.put_value(COUNTER, value + 1).unwrap();
            drop(high);
            middle.put_value(COUNTER, value + 1).unwrap();
            low.flush().unwrap();
            middle.unlock().unwrap();
            low.unlock().unwrap();
        }
        window.team().barrier().unwrap();
        let epoch = window.lock_all().unwrap();
        assert_eq!(epoch.at(Rank(1)).unwrap().get_value::<u64>(COUNTER).unwrap(), 150);
        epoch.unlock_all().unwrap();
        window.free().unwrap();
    });
}

/// In every round each rank writes to all ranks, finds the values of all after the fence, and gets another rank's
/// value.
fn fences<A: RemoteAtomics>(ra: &A, rounds: u64) {
    let (size, me) = (ra.size(), ra.rank().0);
    let team = Team::new(ra).unwrap();
    let builder = Window::builder(&team).config(config(Transport::TwoSided)).disp_unit(8);
    let mut window = builder.allocate(8 * u64::from(size)).unwrap();
    let mut epoch = window.fence_assert(FenceAssert { noprecede: true, ..Default::default() }).unwrap();
    for round in 1..=rounds {
        for target in 0..size {
            epoch.at(Rank(target)).unwrap().put_value(WindowDisp(me.into()), round).unwrap();
        }
        epoch = epoch.next().unwrap();
        for rank in [me, (me + 1) % size] {
            let mut seen = vec![0_u64; size as usize];
            epoch.at(Rank(rank)).unwrap().get(WindowDisp(0), &mut seen).unwrap();
            assert!(seen.iter().all(|&word| word == round), "{seen:?} in round {round}");
        }
        epoch = epoch.next().unwrap();
    }
    epoch.close().unwrap();
    window.free().unwrap();
}

#[test]
fn fences_separate_rounds() {
    for size in [1, 2, 3, 5] {
        World::threads(size).run(|ra| fences(ra, 50)).unwrap();
    }
}

/// A ring: each rank writes to its successor and reads the value of its predecessor.
fn tokens<A: RemoteAtomics>(ra: &A, rounds: u64) {
    let (size, me) = (ra.size(), ra.rank().0);
    let team = Team::new(ra).unwrap();
    let mut window = window(&team, 8);
    let (successor, predecessor) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    for round in 1..=rounds {
        let (mut access, mut exposure) = window.pscw().unwrap();
        let mut exposure = exposure.post(&[predecessor]).unwrap();
        let access = access.start(&[successor]).unwrap();
        let at = access.at(successor).unwrap();
        // Every other round fetches a value within the epoch.
        if round % 2 == 0 {
            assert_eq!(at.fetch_and_op(COUNTER, Op::Replace, round).unwrap(), round - 1);
        } else {
            at.put_value(COUNTER, round).unwrap();
        }
        access.complete().unwrap();
        if round % 3 == 0 {
            exposure.wait().unwrap();
        } else {
            while !exposure.test().unwrap() {
                ra.pause(1).unwrap();
            }
            drop(exposure);
        }
        assert_eq!(window.local().unwrap().load::<u64>(COUNTER).unwrap(), round);
    }
    window.free().unwrap();
}

#[test]
fn post_start_complete_wait_pass_a_token() {
    for size in [1, 2, 3, 5] {
        World::threads(size).run(|ra| tokens(ra, 60)).unwrap();
    }
}

/// Returns a world of processes whose ranks run the test of this name.
fn processes(test: &str, size: u32) -> rmalab_atomics::Processes {
    let only = [test, "--exact", "--nocapture", "--test-threads=1"];
    World::processes(size).command(std::env::current_exe().unwrap(), only).output(Output::Discard).time_limit(HUNG)
}

#[test]
fn epochs_of_processes() {
    let done = processes("two_sided::epochs_of_processes", 3).run(|ra| {
        fences(ra, 20);
        tokens(ra, 20);
        counters(ra, 50);
        exclusive_sections(ra, 20);
        ra.rank()
    });
    assert_eq!(done.unwrap(), [Rank(0), Rank(1), Rank(2)]);
}

/// Makes all operations on one target of an epoch, with layouts, and returns the fetched values.
fn everything<A: RemoteAtomics, P>(target: &rmalab_windows::Target<'_, A, P>, seed: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let column = Layout::vector(3, 1, 2, &Layout::of::<u32>()).unwrap();
    let block = Layout::of::<u32>();
    let numbers: Vec<u32> = (0..6).map(|i| (seed as u32).wrapping_mul(77) ^ i).collect();
    target.put(WindowDisp(1), &[seed as u8; 5]).unwrap();
    target.put::<u64>(WindowDisp(0), &[]).unwrap();
    target.put_layout(WindowDisp(8), column.item(), &numbers, block.items(3)).unwrap();
    target.accumulate(WindowDisp(32), Op::Sum, &[0.5_f64, seed as f64]).unwrap();
    target.accumulate(WindowDisp(32), Op::Prod, &[3.0_f64]).unwrap();
    target.accumulate_layout(WindowDisp(8), column.item(), Op::BitXor, &numbers[3..], block.items(3)).unwrap();
    let mut results = [0_u32; 6];
    target
        .get_accumulate_layout(
            WindowDisp(8),
            block.items(3),
            Op::Max,
            &[7_u32, 8, 9],
            block.items(3),
            &mut results,
            column.item(),
        )
        .unwrap();
    seen.extend(results.map(u64::from));
    let mut spread = [0_u32; 6];
    target.get_layout(WindowDisp(8), block.items(3), &mut spread, column.item()).unwrap();
    seen.extend(spread.map(u64::from));
    let pair = target.fetch_and_op(WindowDisp(48), Op::MaxLoc, Pair::new(seed as i64, 5_i64)).unwrap();
    seen.extend([pair.value() as u64, pair.index() as u64]);
    seen.push(target.compare_and_swap(WindowDisp(64), 0_u16, seed as u16).unwrap().into());
    seen.push(target.compare_and_swap(WindowDisp(66), 9_i8, 1).unwrap() as u64);
    // Longer than a slot of a ring, and than the data of a lock request.
    target.put(WindowDisp(80), &vec![seed as u16; 6000]).unwrap();
    let mut long = vec![0_u16; 6000];
    target.get(WindowDisp(80), &mut long).unwrap();
    seen.push(long.iter().map(|&value| u64::from(value)).sum());
    seen
}

/// Runs the same program in each kind of epoch; returns the fetched values, and the final memory.
fn program(ra: &Mapped, team: &Team<'_, Mapped>, transport: Transport) -> Vec<u64> {
    const BYTES: usize = 12_200;
    let mut window = Window::builder(team).config(config(transport)).allocate(BYTES as u64).unwrap();
    let size = ra.size();
    let me = ra.rank();
    let other = Rank((me.0 + 1) % size);
    let mut seen = Vec::new();
    let all = |window: &Window<'_, Mapped>, seen: &mut Vec<u64>| {
        let mut bytes = vec![0_u8; BYTES];
        window.local().unwrap().read(WindowDisp(0), &mut bytes).unwrap();
        seen.extend(bytes.iter().map(|&byte| u64::from(byte)));
        window.team().barrier().unwrap();
    };
    for target in [other, me] {
        let seed = u64::from(me.0 + target.0) + 2;
        let epoch = window.fence().unwrap();
        // The values have arrived when the calls return. A fence separates these calls from the earlier ones of the
        // same epoch.
        seen.extend(everything(&epoch.at(target).unwrap(), seed));
        epoch.close().unwrap();
        all(&window, &mut seen);
        let source = Rank((me.0 + size - (target.0 + size - me.0) % size) % size);
        let (mut access, mut exposure) = window.pscw().unwrap();
        let exposed = exposure.post(&[source]).unwrap();
        let epoch = access.start(&[target]).unwrap();
        seen.extend(everything(&epoch.at(target).unwrap(), seed + 1));
        epoch.complete().unwrap();
        exposed.wait().unwrap();
        all(&window, &mut seen);
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            let epoch = window.lock(kind, target).unwrap();
            seen.extend(everything(&epoch, seed + 2));
            let request = epoch.rput(WindowDisp(0), vec![seed; 2]).unwrap();
            assert_eq!(request.wait().unwrap(), [seed; 2]);
            epoch.raccumulate(WindowDisp(0), Op::Min, vec![7_i16; 3]).unwrap().wait().unwrap();
            seen.extend(epoch.rget(WindowDisp(0), vec![0_u64; 3]).unwrap().wait().unwrap());
            let layout = Layout::vector(2, 1, 3, &Layout::of::<u64>()).unwrap();
            let request = epoch.rput_layout(WindowDisp(0), layout.item(), vec![5, seed], Layout::of::<u64>().items(2));
            request.unwrap().wait().unwrap();
            let dest = epoch.rget_layout(WindowDisp(0), Layout::of::<u64>().items(2), vec![0; 4], layout.item());
            seen.extend(dest.unwrap().wait().unwrap());
            let (put, mut got) = ([seed * 3; 4], [0_u64; 2]);
            epoch
                .batch(|batch| {
                    batch.put(&epoch, WindowDisp(16), &put)?;
                    batch.get(&epoch, WindowDisp(64), &mut got)
                })
                .unwrap();
            seen.extend(got);
            epoch.unlock().unwrap();
            window.team().barrier().unwrap();
            all(&window, &mut seen);
        }
        let epoch = window.lock_all().unwrap();
        seen.extend(everything(&epoch.at(target).unwrap(), seed + 3));
        epoch.unlock_all().unwrap();
        window.team().barrier().unwrap();
        all(&window, &mut seen);
        // There is nothing to lock.
        let epoch = window.lock_assert(LockKind::Shared, target, Assert::NoCheck).unwrap();
        seen.extend(everything(&epoch, seed + 4));
        epoch.unlock().unwrap();
        window.team().barrier().unwrap();
        all(&window, &mut seen);
    }
    window.free().unwrap();
    seen
}

#[test]
fn messages_have_the_effect_of_one_sided_operations() {
    for size in [1, 2, 3] {
        let one_sided = on(size, |ra, team| program(ra, team, Transport::OneSided));
        let two_sided = on(size, |ra, team| program(ra, team, Transport::TwoSided));
        for (rank, (one, two)) in one_sided.iter().zip(&two_sided).enumerate() {
            let differ = one.iter().zip(two).position(|(one, two)| one != two);
            assert_eq!((one.len(), differ), (two.len(), None), "rank {rank} of {size}");
        }
    }
}

#[test]
fn the_null_target_takes_everything() {
    on(1, |_, team| {
        let mut window = window(team, 0);
        let epoch = window.lock_all().unwrap();
        let missing = epoch.at(None).unwrap();
        missing.put(WindowDisp(1 << 40), &[1_u64]).unwrap();
        let mut dest = [7_u32];
        missing.get(WindowDisp(-1), &mut dest).unwrap();
        assert_eq!(dest, [7]);
        missing.accumulate(WindowDisp(5), Op::Sum, &[1.0_f32]).unwrap();
        assert_eq!(missing.fetch_and_op(WindowDisp(5), Op::Replace, 5_u8).unwrap(), 0);
        let item = Layout::of::<u32>();
        missing.put_layout(WindowDisp(3), item.item(), &[1_u32], item.item()).unwrap();
        missing.get_layout(WindowDisp(3), item.item(), &mut dest, item.item()).unwrap();
        assert_eq!(dest, [7]);
        epoch.unlock_all().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn misuse_of_two_sided_windows_is_an_error() {
    on(2, |ra, team| {
        let builder = Window::builder(team).config(config(Transport::TwoSided));
        let mut window = builder.policy::<PerTarget<McsRwRp>>(()).disp_unit(4).allocate(16).unwrap();
        let me = ra.rank();
        let epoch = window.lock(LockKind::Exclusive, me).unwrap();
        let error = epoch.put(WindowDisp(3), &[0_u8; 5]).unwrap_err();
        assert_eq!(error.class(), Class::RmaRange);
        let error = window.lock(LockKind::Shared, me).unwrap_err();
        assert!(matches!(error, Error::Locks(LockError::AlreadyLocked { held: "exclusive", .. })), "{error:?}");
        epoch.unlock().unwrap();
        let fence = window.fence().unwrap();
        fence.at(me).unwrap();
        drop(fence);
        let error = window.lock(LockKind::Shared, me).unwrap_err();
        assert!(matches!(error, Error::Conflict { call: Call::Lock, open: Open::Fence, .. }), "{error:?}");
        window.fence().unwrap().close().unwrap();
        window.free().unwrap();
    });
}

/// Returns the number of packets of each kind that this rank has sent, without barriers and sums.
fn sent(window: &Window<'_, Mapped>) -> Vec<(Kind, u64)> {
    let kinds = [PUT, ACCUMULATE, GET, FETCH, CAS, LOCK, UNLOCK, COMPLETE, GRANT, ACK, ANSWER, POST];
    kinds.into_iter().map(|kind| (kind, window.messages_sent(kind))).collect()
}

/// Runs `body` on every rank of three between two barriers, and returns the packets that each has sent.
fn packets(body: impl Fn(&mut Window<'_, Mapped>, Rank) + Sync) -> Vec<Vec<(Kind, u64)>> {
    on(3, |ra, team| {
        let mut window = window(team, 16_384);
        // Before any rank can send a request to this rank.
        let before = sent(&window);
        window.team().barrier().unwrap();
        body(&mut window, ra.rank());
        window.team().barrier().unwrap();
        let after = sent(&window);
        window.free().unwrap();
        let more = after.into_iter().zip(before).map(|((kind, after), (_, before))| (kind, after - before));
        more.filter(|&(_, count)| count > 0).collect()
    })
}

#[test]
fn a_fence_is_a_sum_and_its_operations() {
    on(3, |ra, team| {
        let mut window = window(team, 64);
        let count = |window: &Window<'_, Mapped>| -> u64 {
            sent(window).iter().map(|&(_, count)| count).sum::<u64>() + window.messages_sent(SUM)
        };
        window.team().barrier().unwrap();
        let before = count(&window);
        drop(window.fence().unwrap());
        assert_eq!(count(&window), before, "the first fence does nothing");
        drop(window.fence_assert(FenceAssert { noprecede: true, ..Default::default() }).unwrap());
        assert_eq!(count(&window), before, "nor does one that nothing precedes");
        let epoch = window.fence_assert(FenceAssert { noprecede: true, ..Default::default() }).unwrap();
        if ra.rank() == Rank(0) {
            for target in [1, 2, 0] {
                let target = epoch.at(Rank(target)).unwrap();
                for word in 0..5 {
                    target.put_value(WindowDisp(8 * word), 1_u64).unwrap();
                }
            }
        }
        drop(epoch.next().unwrap());
        // Two rounds for three ranks; 5 operations to 2 targets. A rank's operations on itself are not messages.
        let operations = if ra.rank() == Rank(0) { 10 } else { 0 };
        assert_eq!(window.messages_sent(PUT), operations);
        assert_eq!(count(&window) - before, 2 + operations);
        window.fence().unwrap().close().unwrap();
        assert_eq!(count(&window) - before, 2 + operations + 4, "fences without operations are their sums");
        window.free().unwrap();
    });
}

#[test]
fn each_pair_of_post_and_start_needs_one_message_besides_operations() {
    let origin = Rank(0);
    let run = |nocheck: bool| {
        packets(move |window, me| {
            let (mut access, mut exposure) = window.pscw().unwrap();
            if me != origin {
                let assert = PostAssert { nocheck, ..PostAssert::default() };
                let exposed = exposure.post_assert(&[origin], assert).unwrap();
                exposed.wait().unwrap();
                return;
            }
            let epoch = access.start_assert(&[Rank(1), Rank(2)], StartAssert { nocheck }).unwrap();
            for _ in 0..3 {
                epoch.at(Rank(1)).unwrap().put_value(COUNTER, 1_u64).unwrap();
            }
            epoch.complete().unwrap();
        })
    };
    assert_eq!(run(false), [vec![(PUT, 3), (COMPLETE, 1)], vec![(POST, 1)], vec![(POST, 1)]]);
    // With nocheck only the operations are sent; operations that arrive before the post stay counted.
    assert_eq!(run(true), [vec![(PUT, 3), (COMPLETE, 1)], vec![], vec![]]);
}

type Sent = Vec<(Kind, u64)>;

/// Returns the packets of rank 0 and of rank 1 for one passive epoch of rank 0 to rank 1.
fn passive(body: impl Fn(&mut Window<'_, Mapped>) + Sync) -> (Sent, Sent) {
    let mut all = packets(|window, me| {
        if me == Rank(0) {
            body(window);
        }
    });
    assert_eq!(all.pop().unwrap(), [], "the third rank has nothing to do with it");
    let target = all.pop().unwrap();
    (all.pop().unwrap(), target)
}

#[test]
fn the_messages_of_locks() {
    let with = |kind: LockKind, body: fn(&rmalab_windows::Lock<'_, '_, Mapped>)| {
        passive(|window| {
            let epoch = window.lock(kind, Rank(1)).unwrap();
            body(&epoch);
            epoch.unlock().unwrap();
        })
    };
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        assert_eq!(with(kind, |_| ()), (vec![], vec![]), "a lock that is not used");
        // One short operation carries the lock request and the release.
        let one = with(kind, |epoch| epoch.put_value(COUNTER, 1_u64).unwrap());
        assert_eq!(one, (vec![(PUT, 1)], vec![(ACK, 1)]));
        let one = with(kind, |epoch| epoch.accumulate(COUNTER, Op::Sum, &[1_u8; 4000]).unwrap());
        assert_eq!(one, (vec![(ACCUMULATE, 1)], vec![(ACK, 1)]));
        let long = with(kind, |epoch| epoch.put(COUNTER, &[1_u8; 4001]).unwrap());
        let ack = if kind == LockKind::Shared { vec![(GRANT, 1), (ACK, 1)] } else { vec![(GRANT, 1)] };
        assert_eq!(long, (vec![(PUT, 1), (LOCK, 1)], ack.clone()));
        let several = with(kind, |epoch| (0..7).for_each(|_| epoch.put_value(COUNTER, 1_u64).unwrap()));
        assert_eq!(several, (vec![(PUT, 7), (LOCK, 1)], ack));
        // The origin has to wait for a fetched value, and releases the lock after it.
        let get = with(kind, |epoch| assert!(epoch.get_value::<u64>(COUNTER).is_ok()));
        assert_eq!(get, (vec![(GET, 1), (UNLOCK, 1)], vec![(ANSWER, 1)]));
        let ops = with(kind, |epoch| {
            epoch.fetch_and_op(COUNTER, Op::Sum, 1_u64).unwrap();
            epoch.compare_and_swap(COUNTER, 1_u64, 2).unwrap();
        });
        assert_eq!(ops, (vec![(FETCH, 1), (CAS, 1), (UNLOCK, 1)], vec![(ANSWER, 2)]));
        let read_and_write = with(kind, |epoch| {
            let value = epoch.get_value::<u64>(COUNTER).unwrap();
            epoch.put_value(COUNTER, value + 1).unwrap();
        });
        let ack = if kind == LockKind::Shared { vec![(ACK, 1), (ANSWER, 1)] } else { vec![(ANSWER, 1)] };
        assert_eq!(read_and_write, (vec![(PUT, 1), (GET, 1)], ack));
        let flushed = with(kind, |epoch| {
            epoch.put_value(COUNTER, 1_u64).unwrap();
            epoch.flush().unwrap();
            epoch.flush().unwrap();
        });
        assert_eq!(flushed, (vec![(PUT, 1), (UNLOCK, 1)], vec![(ACK, 1)]));
        let layout = with(kind, |epoch| {
            let column = Layout::vector(9, 1, 2, &Layout::of::<u8>()).unwrap();
            epoch.put_layout(COUNTER, column.item(), &[3_u8; 9], Layout::of::<u8>().items(9)).unwrap();
            epoch.accumulate_layout(COUNTER, column.item(), Op::Sum, &[3_u8; 9], Layout::of::<u8>().items(9)).unwrap();
        });
        let ack = if kind == LockKind::Shared { vec![(GRANT, 1), (ACK, 1)] } else { vec![(GRANT, 1)] };
        assert_eq!(layout, (vec![(PUT, 1), (ACCUMULATE, 1), (LOCK, 1)], ack), "one operation for any layout");
    }
    let unchecked = passive(|window| {
        let epoch = window.lock_assert(LockKind::Exclusive, Rank(1), Assert::NoCheck).unwrap();
        epoch.put(COUNTER, &[1_u64; 2]).unwrap();
        epoch.put(COUNTER, &[1_u64; 2]).unwrap();
        epoch.unlock().unwrap();
    });
    assert_eq!(unchecked, (vec![(PUT, 2)], vec![(ACK, 1)]));
    let all = passive(|window| {
        let epoch = window.lock_all().unwrap();
        epoch.at(Rank(1)).unwrap().put_value(COUNTER, 1_u64).unwrap();
        epoch.unlock_all().unwrap();
    });
    assert_eq!(all, (vec![(PUT, 1)], vec![(ACK, 1)]), "lock_all asks the targets that it uses");
}

/// A word that a rank waits for without a call on a window.
struct Flag<'a, A>(&'a A, Disp);

impl<'a, A: RemoteAtomics> Flag<'a, A> {
    fn new(ra: &'a A) -> Self {
        Flag(ra, ra.heap().alloc(8, 64).unwrap())
    }

    fn raise(&self, rank: Rank) {
        self.0.fetch_add(rank.at(self.1), 1).unwrap();
    }

    fn is_up(&self, times: u64) -> bool {
        self.0.get(self.0.rank().at(self.1)).unwrap() >= times
    }

    fn wait(&self, times: u64) {
        self.0.wait_until(self.1, Until::Ge(times)).unwrap();
    }
}

#[test]
fn without_an_agent_nothing_is_served_before_the_targets_next_call() {
    on(2, |ra, team| {
        let flag = Flag::new(ra);
        let window = window(team, 16);
        if ra.rank() == Rank(0) {
            let epoch = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            epoch.get_value::<u64>(COUNTER).unwrap();
            flag.raise(Rank(1));
            flag.wait(1);
            epoch.put_value(COUNTER, 1_u64).unwrap();
            epoch.put_value(WindowDisp(8), 2_u64).unwrap();
            // Under an exclusive lock no rank has to know that the operations are done.
            epoch.unlock().unwrap();
            flag.raise(Rank(1));
        } else {
            while !flag.is_up(1) {
                window.progress().unwrap();
            }
            // Computes.
            flag.raise(Rank(0));
            flag.wait(2);
            let values = || [0, 8].map(|disp| window.local().unwrap().load::<u64>(WindowDisp(disp)).unwrap());
            assert_eq!(values(), [0, 0]);
            window.progress().unwrap();
            assert_eq!(values(), [1, 2]);
        }
        window.free().unwrap();
    });
}

#[test]
fn an_agent_serves_while_its_rank_computes() {
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        on(3, |ra, team| {
            let flag = Flag::new(ra);
            let builder = || Window::builder(team).config(config(Transport::TwoSidedAgent));
            let first = builder().allocate(16).unwrap();
            let agent = first.agent().unwrap();
            assert!(matches!(first.agent(), Err(Error::Agent { .. })), "one for all windows");
            let agent = std::sync::Mutex::new(agent);
            std::thread::scope(|scope| {
                let serve = || scope.spawn(|| agent.lock().unwrap().serve().unwrap());
                let mut serving = serve();
                // A window that was made after the agent.
                let mut window = builder().allocate(16).unwrap();
                if ra.rank() == Rank(0) {
                    flag.wait(2);
                    assert_eq!(window.local().unwrap().load::<u64>(COUNTER).unwrap(), 200);
                    assert_eq!(
                        first.local().unwrap().load::<u64>(COUNTER).unwrap(),
                        2 * u64::from(kind == LockKind::Exclusive)
                    );
                    let nothing = sent(&window).iter().all(|&(_, count)| count == 0);
                    assert!(nothing, "its own end-point has answered no request: {:?}", sent(&window));
                } else {
                    for _ in 0..100 {
                        let epoch = window.lock(kind, Rank(0)).unwrap();
                        epoch.accumulate(COUNTER, Op::Sum, &[1_u64]).unwrap();
                        epoch.unlock().unwrap();
                    }
                    if kind == LockKind::Exclusive {
                        let epoch = first.lock(kind, Rank(0)).unwrap();
                        let value = epoch.get_value::<u64>(COUNTER).unwrap();
                        epoch.put_value(COUNTER, value + 1).unwrap();
                        epoch.put_value(WindowDisp(8), value).unwrap();
                        epoch.unlock().unwrap();
                    }
                    flag.raise(Rank(0));
                }
                window.team().barrier().unwrap();
                // The agent ends and begins again, while the rank itself serves active epochs.
                window.stop_agent().unwrap();
                serving.join().unwrap();
                let epoch = window.fence().unwrap();
                epoch.at(Rank(1)).unwrap().accumulate(WindowDisp(8), Op::Sum, &[1_u32]).unwrap();
                epoch.close().unwrap();
                let expected = if ra.rank() == Rank(1) { 3 } else { 0 };
                assert_eq!(window.local().unwrap().load::<u32>(WindowDisp(8)).unwrap(), expected);
                serving = serve();
                let all = window.lock_all().unwrap();
                all.at(Rank(2)).unwrap().fetch_and_op(WindowDisp(8), Op::Sum, 1_i16).unwrap();
                all.unlock_all().unwrap();
                window.team().barrier().unwrap();
                window.stop_agent().unwrap();
                serving.join().unwrap();
                let expected = if ra.rank() == Rank(0) { 0 } else { 3 };
                assert_eq!(window.local().unwrap().load::<i16>(WindowDisp(8)).unwrap(), expected);
                window.free().unwrap();
            });
            first.free().unwrap();
        });
    }
}

/// A rank that waits on one window serves the others: each rank holds a lock of its own part, and waits for the other
/// rank's window.
#[test]
fn a_rank_that_waits_on_one_window_serves_all() {
    on(2, |ra, team| {
        let windows = [window(team, 8), window(team, 8)];
        let (me, other) = (ra.rank(), Rank(1 - ra.rank().0));
        for round in 0..100_u64 {
            let epoch = windows[me.index()].lock(LockKind::Shared, other).unwrap();
            assert_eq!(epoch.fetch_and_op(COUNTER, Op::Sum, 1_u64).unwrap(), round);
            epoch.unlock().unwrap();
        }
        team.barrier().unwrap();
        let [first, second] = windows;
        first.free().unwrap();
        second.free().unwrap();
    });
}

#[test]
fn a_rank_loads_its_own_puts() {
    on(1, |_, team| {
        let window = window(team, 16);
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            for round in 1..=3_u64 {
                let epoch = window.lock(kind, Rank(0)).unwrap();
                for word in 0..2 {
                    epoch.put_value(WindowDisp(8 * word), round).unwrap();
                }
                epoch.unlock().unwrap();
                assert_eq!(window.local().unwrap().load::<[u64; 2]>(COUNTER).unwrap(), [round; 2]);
            }
        }
        window.free().unwrap();
    });
}

/// Both ranks lock in the same order, and use the locked targets in different orders.
#[test]
fn locks_are_acquired_in_the_order_of_their_calls() {
    on(2, |ra, team| {
        let windows = [window(team, 8), window(team, 8)];
        for _ in 0..100 {
            let [first, second] = windows
                .each_ref()
                .map(|window| [Rank(0), Rank(1)].map(|target| window.lock(LockKind::Exclusive, target).unwrap()));
            let mut epochs: Vec<_> = first.into_iter().chain(second).collect();
            if ra.rank() == Rank(1) {
                epochs.reverse();
            }
            for epoch in &epochs {
                let value = epoch.get_value::<u64>(COUNTER).unwrap();
                epoch.put_value(COUNTER, value + 1).unwrap();
            }
            drop(epochs);
        }
        team.barrier().unwrap();
        for window in windows {
            assert_eq!(window.local().unwrap().load::<u64>(COUNTER).unwrap(), 200);
            window.free().unwrap();
        }
    });
}

/// The opening fence does nothing, but no rank reads the earlier stores too early.
#[test]
fn operations_of_an_epoch_wait_for_the_targets_fence() {
    on(2, |ra, team| {
        let mut window = window(team, 8);
        for round in 1..=20_u64 {
            if ra.rank() == Rank(0) {
                let epoch = window.fence().unwrap();
                assert_eq!(epoch.at(Rank(1)).unwrap().get_value::<u64>(COUNTER).unwrap(), round);
                epoch.close().unwrap();
            } else {
                // Long enough for the request to arrive.
                for _ in 0..200 {
                    window.progress().unwrap();
                }
                window.local().unwrap().store(COUNTER, round).unwrap();
                let epoch = window.fence().unwrap();
                epoch.close().unwrap();
            }
        }
        window.free().unwrap();
    });
}

/// The call locks shared memory, which can be reached without operations.
#[test]
fn locks_of_shared_windows_exclude_loads_and_stores() {
    on(3, |_, team| {
        let builder = Window::builder(team).config(config(Transport::TwoSided));
        let window = builder.allocate_shared(8).unwrap();
        for _ in 0..500 {
            let epoch = window.lock(LockKind::Exclusive, Rank(2)).unwrap();
            let memory = window.shared_query(Rank(2)).unwrap();
            let value = memory.load::<u64>(COUNTER).unwrap();
            // Other ranks run here, and would load the same value.
            std::thread::yield_now();
            memory.store(COUNTER, value + 1).unwrap();
            epoch.unlock().unwrap();
        }
        window.team().barrier().unwrap();
        assert_eq!(window.shared_query(Rank(2)).unwrap().load::<u64>(COUNTER).unwrap(), 1_500);
        window.free().unwrap();
    });
}

#[test]
fn dynamic_windows_reach_attached_memory() {
    on(3, |ra, team| {
        let memory = Window::allocate(team, 64).unwrap();
        let mut window = Window::builder(team).config(config(Transport::TwoSided)).create_dynamic().unwrap();
        let own = window.attach_window(&memory).unwrap();
        let addresses = team.collectives().allgather(&[own.0 as u64]).unwrap();
        let address = WindowDisp(addresses[1] as i64 + 8);
        let epoch = window.lock_all().unwrap();
        let at = epoch.at(Rank(1)).unwrap();
        at.put(address.plus(8 * i64::from(ra.rank().0)), &[7_u64]).unwrap();
        at.accumulate(address.plus(24), Op::Sum, &[1_u32]).unwrap();
        at.fetch_and_op(address.plus(28), Op::Sum, 1_u32).unwrap();
        let error = at.put(address.plus(56), &[1_u8]).unwrap_err();
        assert_eq!(error.class(), Class::RmaRange);
        epoch.unlock_all().unwrap();
        window.team().barrier().unwrap();
        if ra.rank() == Rank(1) {
            let mut words = [0_u64; 4];
            memory.local().unwrap().read(WindowDisp(8), &mut words).unwrap();
            assert_eq!(words, [7, 7, 7, 3 | 3 << 32]);
        }
        window.detach_window(own).unwrap();
        window.free().unwrap();
        memory.free().unwrap();
    });
}

#[test]
fn waiting_ranks_get_the_death_of_a_target() {
    let outcome = processes("two_sided::waiting_ranks_get_the_death_of_a_target", 3).run(|ra| {
        let team = Team::new(ra).unwrap();
        let mut window = window(&team, 8);
        team.collectives().barrier().unwrap();
        if ra.rank() == Rank(2) {
            std::process::abort();
        }
        let error = if ra.rank() == Rank(0) {
            let epoch = window.lock(LockKind::Shared, Rank(2)).unwrap();
            epoch.get_value::<u64>(COUNTER).unwrap_err()
        } else {
            drop(window.fence().unwrap());
            window.fence().unwrap_err()
        };
        assert!(matches!(error, Error::Atomics(AtomicsError::PeerFailed { rank: Rank(2) })), "{error}");
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, AtomicsError::RankEnded { rank: Rank(2), .. }), "{error}");
}

/// Runs `body`, and fails if it has not returned after a minute: then the ranks wait for each other forever.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, end) = std::sync::mpsc::channel();
    let run = std::thread::spawn(move || drop(done.send(body())));
    match end.recv_timeout(HANGS) {
        Ok(result) => result,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the ranks wait for each other forever"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(run.join().expect_err("it sent no result"))
        }
    }
}

/// Rank 0 puts to a region that rank 1 detaches after the put's check and before it serves the put.
#[test]
fn a_request_that_fails_at_its_target_is_an_error_at_its_origin() {
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        for puts in [1, 3] {
            ends(move || {
                on(2, move |ra, team| {
                    let flag = Flag::new(ra);
                    let builder = Window::builder(team).config(config(Transport::TwoSided));
                    let window = builder.create_dynamic().unwrap();
                    let memory = UserMemory::from_vec(vec![0_u64; 4]);
                    let own = window.attach(memory).unwrap();
                    let address = WindowDisp(team.collectives().allgather(&[own.0 as u64]).unwrap()[1] as i64);
                    if ra.rank() == Rank(0) {
                        let epoch = window.lock(kind, Rank(1)).unwrap();
                        (0..puts).for_each(|_| epoch.put_value(address, 1_u64).unwrap());
                        flag.raise(Rank(1));
                        flag.wait(1);
                        let error = epoch.flush().unwrap_err();
                        assert_eq!(error.class(), Class::RmaRange, "{error}");
                        assert!(error.to_string().contains("rank 1"), "{error}");
                        epoch.unlock().unwrap();
                        // The failed request has left no lock held.
                        let epoch = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
                        let error = epoch.get_value::<u64>(address).unwrap_err();
                        assert_eq!(error.class(), Class::RmaRange, "{error}");
                        epoch.unlock().unwrap();
                    } else {
                        flag.wait(1);
                        drop(window.detach(own).unwrap());
                        flag.raise(Rank(0));
                    }
                    window.free().unwrap();
                });
            });
        }
    }
}

/// The error of an operation without an acknowledgement is returned at the latest when the window is freed.
#[test]
fn a_put_that_fails_after_its_unlock_is_an_error_of_a_later_call() {
    ends(|| {
        on(2, |ra, team| {
            let flag = Flag::new(ra);
            let window = Window::builder(team).config(config(Transport::TwoSided)).create_dynamic().unwrap();
            let own = window.attach(UserMemory::from_vec(vec![0_u64; 4])).unwrap();
            let address = WindowDisp(team.collectives().allgather(&[own.0 as u64]).unwrap()[1] as i64);
            if ra.rank() == Rank(0) {
                let epoch = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
                assert_eq!(epoch.get_value::<u64>(address).unwrap(), 0);
                epoch.put_value(address, 1_u64).unwrap();
                flag.raise(Rank(1));
                flag.wait(1);
                // No acknowledgement is needed under an exclusive lock.
                epoch.unlock().unwrap();
                let error = window.free().unwrap_err();
                assert_eq!(error.class(), Class::RmaRange, "{error}");
            } else {
                while !flag.is_up(1) {
                    window.progress().unwrap();
                }
                drop(window.detach(own).unwrap());
                flag.raise(Rank(0));
                window.free().unwrap();
            }
        });
    });
}

/// The ways to leave an epoch without an end.
#[derive(Clone, Copy, Debug)]
enum Left {
    Forgotten,
    Caught,
}

/// Leaves an epoch: its value is forgotten, or a panic unwinds it.
fn leave<E>(left: Left, epoch: impl FnOnce() -> E) {
    match left {
        Left::Forgotten => std::mem::forget(epoch()),
        Left::Caught => {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _epoch = epoch();
                std::panic::resume_unwind(Box::new("a rank's own panic"));
            }));
            assert!(caught.is_err());
        }
    }
}

/// An epoch that was never closed ends with its window, and the next window works.
#[test]
fn an_epoch_that_was_left_open_does_not_outlive_its_window() {
    for left in [Left::Forgotten, Left::Caught] {
        for kind in ["lock", "lock_all", "fence", "start"] {
            for freed in [true, false] {
                ends(move || {
                    on(2, move |ra, team| {
                        let other = Rank(1 - ra.rank().0);
                        let mut first = window(team, 8);
                        match kind {
                            "lock" => leave(left, || first.lock(LockKind::Exclusive, other).unwrap()),
                            "lock_all" => leave(left, || {
                                let epoch = first.lock_all().unwrap();
                                epoch.at(other).unwrap().put_value(COUNTER, 1_u64).unwrap();
                                epoch
                            }),
                            "fence" => leave(left, || {
                                let epoch = first.fence().unwrap();
                                epoch.at(other).unwrap().put_value(COUNTER, 1_u64).unwrap();
                                epoch
                            }),
                            _ => {
                                let (mut access, _) = first.pscw().unwrap();
                                leave(left, || access.start(&[other]).unwrap());
                            }
                        }
                        if freed {
                            // The open epoch is an error, if the window can detect it.
                            drop(first.free());
                        } else {
                            drop(first);
                            team.barrier().unwrap();
                        }
                        let mut second = window(team, 8);
                        let epoch = second.lock(LockKind::Exclusive, other).unwrap();
                        assert_eq!(epoch.fetch_and_op(COUNTER, Op::Sum, 1_u64).unwrap(), 0, "{left:?} {kind}");
                        epoch.unlock().unwrap();
                        let epoch = second.fence().unwrap();
                        epoch.at(other).unwrap().accumulate(COUNTER, Op::Sum, &[1_u64]).unwrap();
                        epoch.close().unwrap();
                        assert_eq!(second.local().unwrap().load::<u64>(COUNTER).unwrap(), 2, "{left:?} {kind}");
                        second.free().unwrap();
                    });
                });
            }
        }
    }
}

/// A rank that drops its window with a lock held, and then leaves the world, does not keep the others waiting.
#[test]
fn a_rank_that_leaves_with_a_lock_has_failed() {
    ends(|| {
        let outcome = World::threads(2).run(|ra| {
            let team = Team::new(ra).unwrap();
            let window = window(&team, 8);
            if ra.rank() == Rank(1) {
                let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
                assert_eq!(epoch.get_value::<u64>(COUNTER).unwrap(), 0);
                std::mem::forget(epoch);
                return drop(window);
            }
            while window.messages_sent(ANSWER) == 0 {
                window.progress().unwrap();
            }
            let error = window.lock(LockKind::Exclusive, Rank(0)).unwrap_err();
            assert!(matches!(error, Error::Atomics(AtomicsError::PeerFailed { rank: Rank(1) })), "{error}");
        });
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("rank 1 has left with a lock of a two-sided window"), "{error}");
    });
}

/// Rank 0 needs rank 1 to serve a get of a two-sided window, while rank 1 waits for rank 0 in `waits`.
fn serves_while(waits: impl Fn(&mut Window<'_, Mapped>, &Flag<'_, Mapped>, Rank) + Send + Sync + 'static) {
    ends(move || {
        on(2, |ra, team| {
            let flag = Flag::new(ra);
            let (two_sided, mut one_sided) = (window(team, 8), Window::allocate(team, 8).unwrap());
            if ra.rank() == Rank(0) {
                // The other rank may already be waiting, or not yet.
                flag.wait(1);
                let epoch = two_sided.lock(LockKind::Exclusive, Rank(1)).unwrap();
                assert_eq!(epoch.get_value::<u64>(COUNTER).unwrap(), 0);
                epoch.unlock().unwrap();
                waits(&mut one_sided, &flag, Rank(0));
            } else {
                flag.raise(Rank(0));
                waits(&mut one_sided, &flag, Rank(1));
            }
            one_sided.free().unwrap();
            two_sided.free().unwrap();
        });
    });
}

#[test]
fn a_fence_of_a_one_sided_window_serves_two_sided_ones() {
    serves_while(|window, _, _| window.fence().unwrap().close().unwrap());
}

#[test]
fn post_start_complete_wait_of_a_one_sided_window_serve_two_sided_ones() {
    for strategy in [PscwStrategy::Flags, PscwStrategy::Matching] {
        for waits_in_start in [true, false] {
            ends(move || {
                on(2, |ra, team| {
                    let two_sided = window(team, 8);
                    let config = Config { pscw: strategy, ..Config::default() };
                    let mut one_sided = Window::builder(team).config(config).allocate(8).unwrap();
                    let get = || {
                        let epoch = two_sided.lock(LockKind::Exclusive, Rank(1)).unwrap();
                        assert_eq!(epoch.get_value::<u64>(COUNTER).unwrap(), 0);
                        epoch.unlock().unwrap();
                    };
                    let (mut access, mut exposure) = one_sided.pscw().unwrap();
                    match (ra.rank() == Rank(0), waits_in_start) {
                        (true, true) => {
                            get();
                            exposure.post(&[Rank(1)]).unwrap().wait().unwrap();
                        }
                        (false, true) => access.start(&[Rank(0)]).unwrap().complete().unwrap(),
                        (true, false) => {
                            let epoch = access.start(&[Rank(1)]).unwrap();
                            get();
                            epoch.complete().unwrap();
                        }
                        (false, false) => exposure.post(&[Rank(0)]).unwrap().wait().unwrap(),
                    }
                    one_sided.free().unwrap();
                    two_sided.free().unwrap();
                });
            });
        }
    }
}

/// Rank 1 waits for a lock of a one-sided window, which rank 0 holds until rank 1 has served it.
#[test]
fn a_lock_of_a_one_sided_window_serves_two_sided_ones() {
    for policy in [PolicyKind::TwoLevel, PolicyKind::PerTarget, PolicyKind::McsRwRp] {
        for all in [false, true] {
            ends(move || {
                on(2, |ra, team| {
                    let flag = Flag::new(ra);
                    let two_sided = window(team, 8);
                    let config = Config { policy, ..Config::default() };
                    let mut one_sided = Window::builder(team).config(config).allocate(8).unwrap();
                    if ra.rank() == Rank(0) {
                        let held = one_sided.lock(LockKind::Exclusive, Rank(1)).unwrap();
                        flag.raise(Rank(1));
                        let epoch = two_sided.lock(LockKind::Exclusive, Rank(1)).unwrap();
                        assert_eq!(epoch.get_value::<u64>(COUNTER).unwrap(), 0);
                        epoch.unlock().unwrap();
                        held.unlock().unwrap();
                    } else {
                        flag.wait(1);
                        if all {
                            one_sided.lock_all().unwrap().unlock_all().unwrap();
                        } else {
                            one_sided.lock(LockKind::Exclusive, Rank(1)).unwrap().unlock().unwrap();
                        }
                    }
                    one_sided.free().unwrap();
                    two_sided.free().unwrap();
                });
            });
        }
    }
}

/// Rank 0 waits for rank 1 in one team while rank 1 waits for rank 0 in another team.
#[test]
fn two_sided_windows_of_one_team_are_served_in_the_calls_of_another() {
    type Waits = fn(&mut Window<'_, Mapped>);
    let waits: [(&str, Waits); 4] = [
        ("barrier", |window| window.team().barrier().unwrap()),
        ("fence", |window| {
            let epoch = window.fence().unwrap();
            epoch.next().unwrap().close().unwrap();
        }),
        ("free of a window made meanwhile", |window| {
            Window::allocate(window.team(), 8).unwrap().free().unwrap();
        }),
        ("making of a shared window", |window| {
            Window::allocate_shared(window.team(), 8).unwrap().free().unwrap();
        }),
    ];
    for (what, waits) in waits {
        for open in [true, false] {
            ends(move || {
                on(2, |ra, team| {
                    let other_team = Team::new(ra).unwrap();
                    let first = window(team, 8);
                    let transport = if open { Transport::TwoSided } else { Transport::OneSided };
                    let builder = Window::builder(&other_team).config(config(transport));
                    let mut second = builder.allocate(8).unwrap();
                    if ra.rank() == Rank(0) {
                        let epoch = first.lock(LockKind::Shared, Rank(1)).unwrap();
                        assert_eq!(epoch.get_value::<u64>(COUNTER).unwrap(), 0, "{what}");
                        epoch.unlock().unwrap();
                    }
                    waits(&mut second);
                    second.free().unwrap();
                    first.free().unwrap();
                });
            });
        }
    }
}

/// Each rank holds a lock of one team's window and gets from another team's window, in a different order for each rank.
/// One team is over a part of the world.
#[test]
fn epochs_of_several_teams_interleave() {
    ends(|| {
        on(3, |_, team| {
            // The members' numbers differ from those in the world.
            let part = team.subset(&[Rank(2), Rank(0)]).unwrap();
            let world = window(team, 16);
            let inner_team = part.as_ref().map(|part| Team::new(part).unwrap());
            let inner = inner_team
                .as_ref()
                .map(|inner| Window::builder(inner).config(config(Transport::TwoSided)).allocate(16).unwrap());
            for round in 0..50_u64 {
                for target in (0..3).map(Rank) {
                    let epoch = world.lock(LockKind::Shared, target).unwrap();
                    epoch.accumulate(COUNTER, Op::Sum, &[1_u64]).unwrap();
                    if let Some(inner) = &inner {
                        for target in (0..2).map(Rank) {
                            let nested = inner.lock(LockKind::Exclusive, target).unwrap();
                            let value = nested.get_value::<u64>(COUNTER).unwrap();
                            epoch.fetch_and_op(WindowDisp(8), Op::Sum, 1_u64).unwrap();
                            nested.put_value(COUNTER, value + 1).unwrap();
                            nested.unlock().unwrap();
                        }
                    }
                    epoch.unlock().unwrap();
                }
                if round % 7 == 0 {
                    team.barrier().unwrap();
                }
            }
            if let Some(inner) = &inner {
                inner.team().barrier().unwrap();
                assert_eq!(inner.local().unwrap().load::<u64>(COUNTER).unwrap(), 2 * 3 * 50);
            }
            team.barrier().unwrap();
            assert_eq!(world.local().unwrap().load::<u64>(COUNTER).unwrap(), 3 * 50);
            assert_eq!(world.local().unwrap().load::<u64>(WindowDisp(8)).unwrap(), 2 * 2 * 50);
            if let Some(inner) = inner {
                inner.free().unwrap();
            }
            world.free().unwrap();
        });
    });
}

/// A dynamic window over a part of the world reaches another member's shared memory.
#[test]
fn regions_in_another_members_segment_are_reached_by_its_number_in_the_team() {
    ends(|| {
        on(3, |_, team| {
            let Some(part) = team.subset(&[Rank(2), Rank(1)]).unwrap() else { return };
            let inner = Team::new(&part).unwrap();
            // The whole window is in the segment of the team's first rank.
            let shared = Window::allocate_shared(&inner, 8).unwrap();
            let mut window = Window::builder(&inner).config(config(Transport::TwoSided)).create_dynamic().unwrap();
            let own = window.attach_window(&shared).unwrap();
            let addresses = inner.collectives().allgather(&[own.0 as u64]).unwrap();
            let epoch = window.lock_all().unwrap();
            for (target, &address) in (0..).zip(&addresses) {
                epoch.at(Rank(target)).unwrap().fetch_and_op(WindowDisp(address as i64), Op::Sum, 1_u64).unwrap();
            }
            epoch.unlock_all().unwrap();
            inner.barrier().unwrap();
            assert_eq!(shared.local().unwrap().load::<u64>(COUNTER).unwrap(), 2);
            window.detach_window(own).unwrap();
            window.free().unwrap();
            shared.free().unwrap();
        });
    });
}

/// Before a rank makes its agent, it serves the agent's requests in its own calls.
#[test]
fn without_its_agent_a_rank_serves_passive_epochs_itself() {
    ends(|| {
        on(2, |ra, team| {
            let builder = Window::builder(team).config(config(Transport::TwoSidedAgent));
            let window = builder.allocate(8).unwrap();
            for round in 0..100_u64 {
                let epoch = window.lock(LockKind::Exclusive, Rank(1 - ra.rank().0)).unwrap();
                let value = epoch.get_value::<u64>(COUNTER).unwrap();
                assert_eq!(value, round);
                epoch.put_value(COUNTER, value + 1).unwrap();
                epoch.unlock().unwrap();
            }
            team.barrier().unwrap();
            // From here on the agent serves the requests that the rank served before.
            let agent = window.agent().unwrap();
            std::thread::scope(|scope| {
                let served = scope.spawn(move || agent.serve().unwrap());
                let epoch = window.lock(LockKind::Shared, Rank(1 - ra.rank().0)).unwrap();
                assert_eq!(epoch.fetch_and_op(COUNTER, Op::Sum, 1_u64).unwrap(), 100);
                epoch.unlock().unwrap();
                team.barrier().unwrap();
                window.stop_agent().unwrap();
                served.join().unwrap();
            });
            window.free().unwrap();
        });
    });
}

/// Runs a rank of a simulated machine whose peers return early. Returns its error, if it gets one.
fn after_the_last_barrier(ra: &dyn RemoteAtomics, freed: bool) -> Option<String> {
    let team = Team::new(ra).unwrap();
    let mut window = Window::builder(&team).config(config(Transport::TwoSided)).allocate(8).unwrap();
    let epoch = window.lock_all().unwrap();
    for target in (0..ra.size()).map(Rank) {
        epoch.at(target).unwrap().accumulate(COUNTER, Op::Sum, &[1_u64]).unwrap();
    }
    if ra.rank() != Rank(0) {
        epoch.unlock_all().unwrap();
        team.barrier().unwrap();
    } else {
        team.barrier().unwrap();
        // Long enough for the others to return.
        ra.compute(Duration::from_millis(5)).unwrap();
        if let Err(error) = epoch.unlock_all() {
            return Some(error.to_string());
        }
    }
    if freed {
        window.free().unwrap();
    }
    None
}

/// Runs `after_the_last_barrier` on a simulated machine, and stops it if it does not end.
fn simulated(freed: bool) -> Result<Vec<Option<String>>, String> {
    let profile = Profile::builtin("gemini").unwrap();
    let machine = Simulator::new(&profile, &SimOptions { segment_bytes: 1 << 20, ..SimOptions::new(4) }).unwrap();
    let run =
        machine.run_with(move |ra| after_the_last_barrier(ra, freed), &mut |progress| progress.events < 2_000_000);
    run.map(|done| done.results).map_err(|error| error.to_string())
}

#[test]
fn a_rank_that_frees_its_window_serves_until_all_have_freed_it() {
    assert_eq!(simulated(true), Ok(vec![None; 4]));
    ends(|| World::threads(4).run(|ra| assert_eq!(after_the_last_barrier(ra, true), None)).unwrap());
}

#[test]
fn an_epoch_to_ranks_that_have_returned_without_free_is_an_error() {
    let explains = |error: &str| error.contains("has left") && error.contains("free");
    let results = simulated(false).unwrap();
    assert!(results[0].as_ref().is_some_and(|error| explains(error)), "{results:?}");
    assert_eq!(results[1..], [None, None, None]);
    let results = ends(|| World::threads(4).run(|ra| after_the_last_barrier(ra, false)).unwrap());
    assert!(results[0].as_ref().is_some_and(|error| explains(error)), "{results:?}");
}

/// A dropped agent has served the requests that had arrived. The origin of a later request gets an error.
#[test]
fn a_request_to_an_agent_that_is_gone_is_an_error() {
    ends(|| {
        on(2, |ra, team| {
            let builder = Window::builder(team).config(config(Transport::TwoSidedAgent));
            let window = builder.allocate(8).unwrap();
            drop(window.agent().unwrap());
            team.barrier().unwrap();
            let epoch = window.lock(LockKind::Shared, Rank(1 - ra.rank().0)).unwrap();
            let error = epoch.get_value::<u64>(COUNTER).unwrap_err();
            assert!(
                error.to_string().contains("end-point 1 of rank") && error.to_string().contains("has left"),
                "{error}"
            );
            assert!(epoch.unlock().is_ok(), "the lock was never acquired");
            window.free().unwrap();
        });
    });
}
