//! The programs.
//!
//! They use [`BYTES`](super::BYTES) of a window as two words, four halves of words, or a pair of two words. A program
//! reads another rank's put as MPI requires: never in the epoch of the put, unless that is its purpose.

use std::sync::Arc;

use rmalab_atomics::{Rank, RemoteAtomics, Until, WORD};
use rmalab_locks::LINE;
use rmalab_windows::messages::{ANY_SOURCE, ANY_TAG, Options, Tag};
use rmalab_windows::{
    AccumulateStrategy, Assert, Config, FenceStrategy, LockKind, Op, Pair, PolicyKind, PscwStrategy, Target, Team,
    Window, WindowDisp,
};

use super::{BYTES, Scene, WindowProgram, sees, step};
use crate::Property::{MutualExclusion, NoLostUpdate, Order, Visibility};
use crate::Result;
use crate::network::Network::{self, Hca, LatePuts, OrderedBulk, Sc, UnorderedBulk};
use crate::play::Stage;

const FIRST: WindowDisp = WindowDisp(0);
const SECOND: WindowDisp = WindowDisp(8);

/// `sc`, and the networks with late puts.
const LATE: &[Network] = &[Sc, LatePuts, UnorderedBulk];
/// The same, and the network with ordered puts, for code that asks for these.
const PUTS: &[Network] = &[Sc, LatePuts, UnorderedBulk, OrderedBulk];
/// All networks within the contract, for code that also asks for atomic puts.
const ALL: &[Network] = &[Sc, LatePuts, UnorderedBulk, OrderedBulk, Hca];
/// Those with late puts, and the network whose atomics take two steps.
const ATOMICS: &[Network] = &[Sc, LatePuts, UnorderedBulk, Hca];
/// The networks whose bulk puts are not late.
const WORDS: &[Network] = &[Sc, LatePuts];

/// Rings for the programs' messages, each of which has one slot.
const MESSAGES: Options = Options { slots: 4, slot_bytes: 128, eager_limit: 1024 };

/// All programs.
pub fn programs() -> Vec<WindowProgram> {
    let mut all = Vec::new();
    let mut add = |name, about, ranks, windows: &[Config], networks, code: fn(Scene<'_, '_>) -> Result<()>| {
        let (windows, code) = (windows.to_vec(), Arc::new(code));
        all.push(WindowProgram {
            name,
            about,
            ranks,
            windows,
            messages: None,
            slots: None,
            bias: None,
            centralized: false,
            networks,
            claims_ordered_puts: false,
            local_words: false,
            code,
        });
    };

    let fence = |fence| [Config { fence, ..Config::default() }];
    let (dissemination, naive) = (fence(FenceStrategy::Dissemination), fence(FenceStrategy::Naive));
    let about = "each puts to the next rank, fences, gets from another one, fences; twice";
    add("fence-2", about, 2, &dissemination, LATE, fences);
    add("fence-3", about, 3, &dissemination, LATE, fences);
    add("fence-4", about, 4, &dissemination, WORDS, fences);
    add("fence-centralized-3", about, 3, &dissemination, LATE, fences);
    add("fence-naive-2", about, 2, &naive, LATE, fences);
    add("fence-naive-3", about, 3, &naive, LATE, fences);

    let pscw = |pscw| [Config { pscw, ..Config::default() }];
    let (flags, matching) = (pscw(PscwStrategy::Flags), pscw(PscwStrategy::Matching));
    let about = "each exposes to the previous rank, and puts to the next one; twice";
    add("pscw-flags-ring", about, 3, &flags, PUTS, pscw_ring);
    add("pscw-matching-ring", about, 3, &matching, PUTS, pscw_ring);
    let about = "each exposes to all others, and puts to all of them; 3 times";
    add("pscw-flags-2", about, 2, &flags, PUTS, |scene| pscw_all(scene, 3));
    add("pscw-matching-2", about, 2, &matching, PUTS, |scene| pscw_all(scene, 3));
    let about = "each exposes to all others, and puts to all of them; twice";
    add("pscw-flags-3", about, 3, &flags, PUTS, |scene| pscw_all(scene, 2));
    add("pscw-matching-3", about, 3, &matching, PUTS, |scene| pscw_all(scene, 2));
    let about = "two ranks expose to the third, which puts to both; twice";
    add("pscw-flags-one", about, 3, &flags, PUTS, pscw_one);
    add("pscw-matching-one", about, 3, &matching, PUTS, pscw_one);

    let about = "a fence epoch of A encloses an exposure and an access epoch of B, with puts to both; once";
    let two = |a: &[Config; 1], b: &[Config; 1]| [a[0], b[0]];
    add("fence+pscw-flags-2", about, 2, &two(&dissemination, &flags), PUTS, fence_round_pscw);
    add("fence+pscw-flags-3", about, 3, &two(&dissemination, &flags), PUTS, fence_round_pscw);
    add("fence+pscw-matching-2", about, 2, &two(&naive, &matching), PUTS, fence_round_pscw);
    add("fence+pscw-matching-3", about, 3, &two(&naive, &matching), PUTS, fence_round_pscw);
    let about = "exclusive locks of B inside a fence epoch of A; after the fence all ranks have counted";
    let policy = |policy| [Config { policy, ..Config::default() }];
    let policies =
        [PolicyKind::TwoLevel, PolicyKind::TwoLevelScan, PolicyKind::PerTarget, PolicyKind::McsRwRp].map(policy);
    let [two_level, scan, per_target, global] = &policies;
    add("fence+lock-two-level", about, 3, &two(&dissemination, two_level), LATE, fence_round_locks);
    add("fence+lock-per-target", about, 3, &two(&dissemination, per_target), LATE, fence_round_locks);
    add("fence+lock-mcs-rw-rp", about, 3, &two(&dissemination, global), LATE, fence_round_locks);
    let about = "lock_all of B inside exposure and access epochs of A; after wait the origin has counted";
    add("pscw+lock_all-two-level", about, 3, &two(&flags, two_level), PUTS, pscw_round_lock_all);
    add("pscw+lock_all-per-target", about, 2, &two(&matching, per_target), PUTS, pscw_round_lock_all);
    add("pscw+lock_all-mcs-rw-rp", about, 3, &two(&flags, global), PUTS, pscw_round_lock_all);

    let about = "one rank counts under exclusive locks, twice; the other one looks under lock_all, twice";
    add("1E1A-two-level", about, 2, two_level, LATE, |scene| counters(scene, 1, 2));
    add("1E1A-per-target", about, 2, per_target, LATE, |scene| counters(scene, 1, 2));
    add("1E1A-mcs-rw-rp", about, 2, global, LATE, |scene| counters(scene, 1, 2));
    let about = "two ranks count under exclusive locks, twice; the third looks under lock_all, twice";
    add("2E1A-two-level", about, 3, two_level, LATE, |scene| counters(scene, 2, 2));
    add("2E1A-two-level-scan", about, 3, scan, LATE, |scene| counters(scene, 2, 2));
    let about = "two ranks count under exclusive locks, and the third looks under lock_all; once";
    add("2E1A-per-target", about, 3, per_target, LATE, |scene| counters(scene, 2, 1));
    add("2E1A-mcs-rw-rp", about, 3, global, LATE, |scene| counters(scene, 2, 1));
    let about =
        "a rank counts at two targets, both locked; the second looks at both under lock_all, the third locks one";
    add("2-targets-two-level", about, 3, two_level, LATE, targets);
    add("2-targets-two-level-scan", about, 3, scan, LATE, targets);
    add("2-targets-per-target", about, 3, per_target, LATE, targets);
    add("2-targets-mcs-rw-rp", about, 3, global, LATE, targets);

    let about = "put, flush, and a notification to a third rank, which gets the new value";
    add("flush-shared", about, 3, two_level, LATE, |scene| notify(scene, false));
    add("flush-lock_all", about, 3, two_level, LATE, |scene| notify(scene, true));

    let accumulate = |accumulate| [Config { accumulate, ..Config::default() }];
    let strategies = [AccumulateStrategy::Native, AccumulateStrategy::Cas, AccumulateStrategy::Locked].map(accumulate);
    let [native, cas, locked] = &strategies;
    let about = "all ranks add to one u64 by fetch_and_op and by accumulate";
    add("sum-native", about, 3, native, ATOMICS, sums);
    add("sum-cas", about, 3, cas, ATOMICS, sums);
    add("sum-locked-2", about, 2, locked, LATE, sums);
    add("sum-locked-3", about, 3, locked, &[Sc], sums);
    let about = "all ranks add to one u16, and each to a u16 of its own in the same word";
    add("sum-u16-native", about, 3, native, ATOMICS, parts_of_a_word);
    add("sum-u16-locked", about, 2, locked, LATE, parts_of_a_word);
    let about = "one rank adds to a u64 by a network atomic, the other one takes the bitwise or by CAS";
    add("sum+bit_or-native", about, 2, native, ATOMICS, sum_and_bit_or);
    let about = "the greatest of the ranks' 16-byte pairs, which are fetched whole";
    add("maxloc-pair-2", about, 2, native, LATE, pairs);
    add("maxloc-pair-3", about, 3, native, LATE, pairs);
    let about = "one rank replaces and then adds, twice; the others never see another order";
    add("order-native", about, 3, native, ATOMICS, order);
    add("order-cas", about, 3, cas, ATOMICS, order);
    add("order-locked", about, 2, locked, LATE, order);

    let about = "one rank updates both words by runs, the other one only the first word; twice";
    add("bias-2", about, 2, native, LATE, |scene| biased(scene, 1, 2));
    add("bias-cas-2", about, 2, cas, LATE, |scene| biased(scene, 1, 2));
    let about = "both ranks update both words by runs; 3 times, under a lock from the second time on";
    add("bias-runs", about, 2, native, LATE, |scene| biased(scene, 2, 3));
    let about = "one rank updates both words by runs, the others only the first word; twice";
    add("bias-3", about, 3, native, LATE, |scene| biased(scene, 1, 2));
    let about = "two ranks update both words by runs, the third only the first word; once";
    add("bias-3-runs", about, 3, native, LATE, |scene| biased(scene, 2, 1));

    let about = "put, free directly afterwards, allocate again: all zero, and no put is lost";
    // Any interleaving of the consistent network is possible here, too.
    add("free", about, 2, two_level, &[LatePuts], free);

    let about = "a ring of one slot: three ranks expose to the fourth; twice";
    add("pscw-full-one", about, 4, &matching, PUTS, pscw_one);
    let about = "one rank sends three messages of 48 bytes, which the other receives";
    add("messages-2", about, 2, &[], ALL, |scene| messages(&scene, 3));
    let about = "two ranks send a message of 48 bytes each to the third";
    add("messages-3", about, 3, &[], ALL, |scene| messages(&scene, 1));
    let about = "a ring of one slot: one rank sends two messages of 48 bytes, which the other receives";
    add("messages-full-2", about, 2, &[], ALL, |scene| messages(&scene, 2));

    let about = "rings of one slot: each sends two messages of 8 bytes to the other, and then receives two";
    add("messages-full-exchange", about, 2, &[], &[Sc, LatePuts, Hca], |scene| exchange(&scene));

    let about = "rings of one slot: each exposes to all others, and puts to all of them; twice (by shuttle)";
    add("pscw-full-3", about, 3, &matching, &[], |scene| pscw_all(scene, 2));
    add("pscw-full-4", about, 4, &matching, &[], |scene| pscw_all(scene, 2));
    for program in &mut all {
        program.centralized = program.name.contains("centralized");
        program.slots = program.name.starts_with("pscw-full").then_some(1);
        let slots = if program.name.contains("full") { 1 } else { 4 };
        program.messages = program.name.starts_with("messages").then_some(Options { slots, ..MESSAGES });
        program.bias = match program.name {
            "bias-runs" => Some((2, 4, 1)),
            // Each run sets the mode to locked, and each single update sets it back to atomics.
            name if name.starts_with("bias") => Some((2, 2, 1)),
            _ => None,
        };
    }
    all
}

fn size(scene: &Scene<'_, '_>) -> u32 {
    scene.team.size()
}

/// The rank `by` places after this one.
fn rank_after(scene: &Scene<'_, '_>, by: u32) -> Rank {
    Rank((scene.team.rank().0 + by) % size(scene))
}

/// A value that identifies the rank and the round of a put.
fn value(rank: Rank, round: u64) -> u64 {
    u64::from(rank.0) + 1 + 16 * round
}

/// The element of a rank among four of 4 bytes.
fn of(rank: Rank) -> WindowDisp {
    WindowDisp(4 * i64::from(rank.0))
}

fn fences(mut scene: Scene<'_, '_>) -> Result<()> {
    let (me, next, other, writer) =
        (scene.team.rank(), rank_after(&scene, 1), rank_after(&scene, 2), rank_after(&scene, 1));
    let team = scene.team;
    let mut epoch = scene.windows[0].fence()?;
    for round in 1..=2 {
        step(team, &());
        epoch.at(next)?.put_value(FIRST, value(me, round))?;
        epoch.at(next)?.put_value(SECOND, value(me, round))?;
        epoch = epoch.next()?;
        step(team, &());
        let mut seen = [0_u64; 2];
        epoch.at(other)?.get(FIRST, &mut seen)?;
        sees(Visibility, "the value put before the fence", seen, &[[value(writer, round); 2]])?;
        epoch = epoch.next()?;
    }
    Ok(epoch.close()?)
}

fn pscw_ring(scene: Scene<'_, '_>) -> Result<()> {
    let (before, after) = (rank_after(&scene, size(&scene) - 1), rank_after(&scene, 1));
    pscw_rounds(scene, &[before], &[after], 2)
}

fn pscw_all(scene: Scene<'_, '_>, rounds: u64) -> Result<()> {
    let others: Vec<Rank> = (1..size(&scene)).map(|by| rank_after(&scene, by)).collect();
    pscw_rounds(scene, &others, &others, rounds)
}

fn pscw_one(scene: Scene<'_, '_>) -> Result<()> {
    let last = Rank(size(&scene) - 1);
    if scene.team.rank() == last {
        let targets: Vec<Rank> = (0..last.0).map(Rank).collect();
        pscw_rounds(scene, &[], &targets, 2)
    } else {
        pscw_rounds(scene, &[last], &[], 2)
    }
}

/// Exposes to `origins` and puts to `targets`, `rounds` times.
fn pscw_rounds(mut scene: Scene<'_, '_>, origins: &[Rank], targets: &[Rank], rounds: u64) -> Result<()> {
    let (me, team) = (scene.team.rank(), scene.team);
    let window = &mut scene.windows[0];
    for round in 1..=rounds {
        let (mut access, mut exposure) = window.pscw()?;
        let exposed = exposure.post(origins)?;
        let accessed = access.start(targets)?;
        // All posts to this rank are matched: only counters are left.
        step(team, &());
        for &target in targets {
            accessed.at(target)?.put_value(of(me), value(me, round) as u32)?;
        }
        accessed.complete()?;
        step(team, &());
        exposed.wait()?;
        for &origin in origins {
            let seen: u32 = window.local()?.load(of(origin))?;
            sees(Visibility, "the value that an origin put before it completed", seen, &[value(origin, round) as u32])?;
        }
        step(team, &());
    }
    Ok(())
}

/// The two windows of a program.
fn both<'s, 'a, 'p>(scene: &'s mut Scene<'a, 'p>) -> (&'s mut Window<'a, Stage<'p>>, &'s mut Window<'a, Stage<'p>>) {
    match scene.windows.as_mut_slice() {
        [a, b] => (a, b),
        windows => unreachable!("the program has two windows, not {}", windows.len()),
    }
}

fn fence_round_pscw(mut scene: Scene<'_, '_>) -> Result<()> {
    let (me, next, before) = (scene.team.rank(), rank_after(&scene, 1), rank_after(&scene, size(&scene) - 1));
    let team = scene.team;
    let (a, b) = both(&mut scene);
    let mut fence = a.fence()?;
    fence.at(next)?.put_value(FIRST, value(me, 1))?;
    {
        let (mut access, mut exposure) = b.pscw()?;
        let exposed = exposure.post(&[before])?;
        let accessed = access.start(&[next])?;
        accessed.at(next)?.put_value(FIRST, value(me, 2))?;
        fence.at(next)?.put_value(SECOND, value(me, 3))?;
        accessed.complete()?;
        exposed.wait()?;
    }
    let seen: u64 = b.local()?.load(FIRST)?;
    sees(Visibility, "the value put to B before complete", seen, &[value(before, 2)])?;
    fence = fence.next()?;
    step(team, &());
    let mut seen = [0_u64; 2];
    fence.at(me)?.get(FIRST, &mut seen)?;
    sees(Visibility, "the value put to A before the fence", seen, &[[value(before, 1), value(before, 3)]])?;
    Ok(fence.close()?)
}

/// Gets a number of rank 0, and puts the next one.
fn count(window: &Window<'_, Stage<'_>>) -> Result<()> {
    let lock = window.lock(LockKind::Exclusive, Rank(0))?;
    let mut seen = [0_u64; 2];
    lock.get(FIRST, &mut seen)?;
    sees(MutualExclusion, "the second word of the count", seen[1], &[seen[0]])?;
    lock.put(FIRST, &[seen[0] + 1; 2])?;
    Ok(lock.unlock()?)
}

/// Checks the number of counts.
fn counted(window: &Window<'_, Stage<'_>>, counts: u64) -> Result<()> {
    let lock = window.lock(LockKind::Shared, Rank(0))?;
    let mut seen = [0_u64; 2];
    lock.get(FIRST, &mut seen)?;
    sees(NoLostUpdate, "the count at the end", seen, &[[counts; 2]])?;
    Ok(lock.unlock()?)
}

fn fence_round_locks(mut scene: Scene<'_, '_>) -> Result<()> {
    let (size, next) = (size(&scene), rank_after(&scene, 1));
    let (me, before) = (scene.team.rank(), rank_after(&scene, size - 1));
    let team = scene.team;
    let (a, b) = both(&mut scene);
    let mut fence = a.fence()?;
    step(team, &());
    fence.at(next)?.put_value(FIRST, value(me, 1))?;
    count(b)?;
    step(team, &());
    fence = fence.next()?;
    step(team, &());
    let seen: u64 = fence.at(me)?.get_value(FIRST)?;
    sees(Visibility, "the value put to A before the fence", seen, &[value(before, 1)])?;
    step(team, &());
    counted(b, u64::from(size))?;
    Ok(fence.close()?)
}

fn pscw_round_lock_all(mut scene: Scene<'_, '_>) -> Result<()> {
    let (me, next, before) = (scene.team.rank(), rank_after(&scene, 1), rank_after(&scene, size(&scene) - 1));
    let team = scene.team;
    let (a, b) = both(&mut scene);
    {
        let (mut access, mut exposure) = a.pscw()?;
        let exposed = exposure.post(&[before])?;
        let accessed = access.start(&[next])?;
        let all = b.lock_all()?;
        all.at(next)?.fetch_and_op(FIRST, Op::Sum, value(me, 1))?;
        accessed.at(next)?.put_value(FIRST, value(me, 2))?;
        all.at(next)?.put_value(SECOND, value(me, 3))?;
        all.unlock_all()?;
        accessed.complete()?;
        exposed.wait()?;
    }
    step(team, &());
    let seen: u64 = a.local()?.load(FIRST)?;
    sees(Visibility, "the value put to A before complete", seen, &[value(before, 2)])?;
    let mut seen = [0_u64; 2];
    b.local()?.read(FIRST, &mut seen)?;
    sees(Visibility, "the values put to B before complete", seen, &[[value(before, 1), value(before, 3)]])
}

/// The first `writers` ranks count, and the other ranks read, `rounds` times each.
fn counters(mut scene: Scene<'_, '_>, writers: u32, rounds: u64) -> Result<()> {
    let (me, team) = (scene.team.rank(), scene.team);
    let window = &mut scene.windows[0];
    let mut least = 0;
    for _ in 0..rounds {
        if me.0 < writers {
            count(window)?;
            step(team, &());
        } else {
            let all = window.lock_all()?;
            let mut seen = [0_u64; 2];
            // The two words are read by one call each, so that a torn pair can differ by more than one.
            for (i, word) in [FIRST, SECOND].into_iter().enumerate() {
                seen[i] = all.at(Rank(0))?.get_value(word)?;
            }
            sees(MutualExclusion, "the second word of the pair", seen[1], &[seen[0]])?;
            sees(Visibility, "whether a later read returns less", seen[0] < least, &[false])?;
            least = seen[0];
            all.unlock_all()?;
            step(team, &least);
        }
    }
    team.collectives().barrier()?;
    counted(window, u64::from(writers) * rounds)
}

/// Rank 0 counts at targets 0 and 1 while it has locked both, rank 1 reads both, and rank 2 counts at target 1.
fn targets(mut scene: Scene<'_, '_>) -> Result<()> {
    let (me, team) = (scene.team.rank(), scene.team);
    let window = &mut scene.windows[0];
    let [first, second] = [Rank(0), Rank(1)];
    match me {
        Rank(0) => {
            let one = window.lock(LockKind::Exclusive, first)?;
            let two = window.lock(LockKind::Exclusive, second)?;
            one.put_value(FIRST, 1_u64)?;
            let seen: u64 = two.get_value(SECOND)?;
            // The target that was locked first is unlocked first, with the other one still to be written.
            one.unlock()?;
            two.put_value(FIRST, 1_u64)?;
            two.put_value(SECOND, seen + 1)?;
            two.unlock()?;
        }
        Rank(1) => {
            let all = window.lock_all()?;
            let mut seen = [0_u64; 2];
            for target in [first, second] {
                seen[target.index()] = all.at(target)?.get_value(FIRST)?;
            }
            sees(MutualExclusion, "the value put while both targets are locked", seen[1], &[seen[0]])?;
            all.unlock_all()?;
        }
        _ => {
            let lock = window.lock(LockKind::Exclusive, second)?;
            let seen: u64 = lock.get_value(SECOND)?;
            lock.put_value(SECOND, seen + 1)?;
            lock.unlock()?;
        }
    }
    step(team, &());
    team.collectives().barrier()?;
    let lock = window.lock(LockKind::Shared, second)?;
    sees(NoLostUpdate, "the count at the end", lock.get_value(SECOND)?, &[2_u64])?;
    Ok(lock.unlock()?)
}

/// Rank 0 puts to rank 1, flushes, and notifies rank 2, which gets from rank 1.
fn notify(mut scene: Scene<'_, '_>, by_lock_all: bool) -> Result<()> {
    let ra = scene.team.ra();
    let flag = ra.heap().alloc(WORD, LINE)?;
    let window = &mut scene.windows[0];
    let put = [value(Rank(0), 1), value(Rank(0), 2)];
    match (ra.rank(), by_lock_all) {
        (Rank(0), true) => {
            let all = window.lock_all()?;
            all.at(Rank(1))?.put(FIRST, &put)?;
            all.flush(Rank(1))?;
            ra.put(Rank(2).at(flag), 1)?;
            all.unlock_all()?;
        }
        (Rank(0), false) => {
            let lock = window.lock(LockKind::Shared, Rank(1))?;
            lock.put(FIRST, &put)?;
            lock.flush()?;
            ra.put(Rank(2).at(flag), 1)?;
            lock.unlock()?;
        }
        (Rank(2), _) => {
            let lock = window.lock(LockKind::Shared, Rank(1))?;
            ra.wait_until(flag, Until::Ne(0))?;
            let mut seen = [0_u64; 2];
            lock.get(FIRST, &mut seen)?;
            lock.unlock()?;
            sees(Visibility, "the value put before the flush", seen, &[put])?;
        }
        _ => {}
    }
    Ok(())
}

/// Runs `body` under lock_all, then a barrier, then `end` under lock_all.
fn under_lock_all(
    mut scene: Scene<'_, '_>,
    body: impl FnOnce(&Target<'_, Stage<'_>>, &Team<'_, Stage<'_>>) -> Result<()>,
    end: impl FnOnce(&Target<'_, Stage<'_>>) -> Result<()>,
) -> Result<()> {
    let team = scene.team;
    let window = &mut scene.windows[0];
    let all = window.lock_all()?;
    step(team, &());
    body(&all.at(Rank(0))?, team)?;
    all.unlock_all()?;
    step(team, &());
    team.collectives().barrier()?;
    step(team, &());
    let all = window.lock_all()?;
    end(&all.at(Rank(0))?)?;
    Ok(all.unlock_all()?)
}

fn sums(scene: Scene<'_, '_>) -> Result<()> {
    let sum: u64 = (0..size(&scene)).map(|rank| 2 * 16_u64.pow(rank)).sum();
    under_lock_all(
        scene,
        |target, team| {
            let mine = 16_u64.pow(team.rank().0);
            let old = target.fetch_and_op(FIRST, Op::Sum, mine)?;
            step(team, &old);
            target.accumulate(FIRST, Op::Sum, &[mine])?;
            sees(NoLostUpdate, "this rank's part of the sum before its addition", old / mine % 16, &[0])
        },
        |target| sees(NoLostUpdate, "the sum", target.get_value(FIRST)?, &[sum]),
    )
}

/// The first `runners` ranks add to both words by runs of two elements, and the other ranks only to the first word.
fn biased(mut scene: Scene<'_, '_>, runners: u32, rounds: u64) -> Result<()> {
    let (me, size, team) = (scene.team.rank(), size(&scene), scene.team);
    let window = &mut scene.windows[0];
    let mine = 16_u64.pow(me.0);
    // Only accumulates communicate.
    let all = window.lock_all_assert(Assert::NoCheck)?;
    let target = all.at(Rank(0))?;
    step(team, &());
    for round in 0..rounds {
        if me.0 < runners {
            let mut old = [0_u64; 2];
            target.get_accumulate(FIRST, Op::Sum, &[mine; 2], &mut old)?;
            sees(NoLostUpdate, "this rank's part of both sums", old.map(|old| old / mine % 16), &[[round; 2]])?;
        } else {
            let old = target.fetch_and_op(FIRST, Op::Sum, mine)?;
            sees(NoLostUpdate, "this rank's part of the sum", old / mine % 16, &[round])?;
        }
        if runners < size {
            // The mode changes in every round, so that a rank remembers only the round.
            step(team, &round);
        }
    }
    all.unlock_all()?;
    team.collectives().barrier()?;
    step(team, &());
    let both: u64 = (0..runners).map(|rank| rounds * 16_u64.pow(rank)).sum();
    let one: u64 = (runners..size).map(|rank| rounds * 16_u64.pow(rank)).sum();
    let mut seen = [0_u64; 2];
    let all = window.lock_all_assert(Assert::NoCheck)?;
    all.at(Rank(0))?.get(FIRST, &mut seen)?;
    sees(NoLostUpdate, "the sums", seen, &[[both + one, both]])?;
    Ok(all.unlock_all()?)
}

fn parts_of_a_word(scene: Scene<'_, '_>) -> Result<()> {
    const COMMON: WindowDisp = WindowDisp(6);
    let size = size(&scene);
    let mut sums = [0_u16; 4];
    sums[..size as usize].fill(7);
    sums[3] = (0..size).map(|rank| 16_u16.pow(rank)).sum();
    let own = |rank: Rank| WindowDisp(2 * i64::from(rank.0));
    under_lock_all(
        scene,
        |target, team| {
            let me = team.rank();
            target.accumulate(own(me), Op::Sum, &[7_u16])?;
            step(team, &());
            Ok(target.accumulate(COMMON, Op::Sum, &[16_u16.pow(me.0)])?)
        },
        |target| {
            let mut seen = [0_u16; 4];
            target.get(FIRST, &mut seen)?;
            sees(NoLostUpdate, "the word's four parts", seen, &[sums])
        },
    )
}

fn sum_and_bit_or(scene: Scene<'_, '_>) -> Result<()> {
    under_lock_all(
        scene,
        |target, team| {
            let (op, value) = if team.rank() == Rank(0) { (Op::Sum, 1_u64) } else { (Op::BitOr, 1 << 32) };
            for _ in 0..2 {
                target.fetch_and_op(FIRST, op, value)?;
                step(team, &());
            }
            Ok(())
        },
        |target| sees(NoLostUpdate, "both ranks' parts", target.get_value(FIRST)?, &[2_u64 | 1 << 32]),
    )
}

fn pairs(scene: Scene<'_, '_>) -> Result<()> {
    let size = size(&scene);
    // Number 0 is the initial value; the two halves of a pair belong together.
    let of = |number: u32| Pair::new(5 * i64::from(number), i64::from(number));
    let all: Vec<_> = (0..=size).map(of).collect();
    under_lock_all(
        scene,
        |target, team| {
            let me = team.rank();
            let old = target.fetch_and_op(FIRST, Op::MaxLoc, of(me.0 + 1))?;
            let others: Vec<_> = (0..=size).filter(|&number| number != me.0 + 1).map(of).collect();
            sees(NoLostUpdate, "the pair before this rank's", old, &others)
        },
        |target| {
            let last = target.fetch_and_op(FIRST, Op::NoOp, all[0])?;
            sees(NoLostUpdate, "the greatest pair", last, &all[all.len() - 1..])
        },
    )
}

fn order(scene: Scene<'_, '_>) -> Result<()> {
    under_lock_all(
        scene,
        |target, team| {
            if team.rank() == Rank(0) {
                for base in [10_u64, 20] {
                    target.accumulate(FIRST, Op::Replace, &[base])?;
                    step(team, &());
                    target.accumulate(FIRST, Op::Sum, &[1])?;
                    step(team, &());
                }
                return Ok(());
            }
            let mut least = 0;
            for _ in 0..2 {
                let seen = target.fetch_and_op(FIRST, Op::NoOp, 0_u64)?;
                sees(Order, "a value between two accumulates", seen, &[0, 10, 11, 20, 21])?;
                sees(Order, "whether a later value is an earlier one", seen < least, &[false])?;
                least = seen;
                step(team, &least);
            }
            Ok(())
        },
        |target| sees(Order, "the value at the end", target.get_value(FIRST)?, &[21_u64]),
    )
}

fn free(mut scene: Scene<'_, '_>) -> Result<()> {
    let (me, next, before) = (scene.team.rank(), rank_after(&scene, 1), rank_after(&scene, size(&scene) - 1));
    let team = scene.team;
    let mut window = scene.windows.remove(0);
    let all = window.lock_all()?;
    all.at(next)?.put_value(FIRST, value(me, 1))?;
    all.unlock_all()?;
    window.free()?;
    step(team, &());
    let mut window = Window::builder(team).symmetric().allocate(BYTES)?;
    let all = window.lock_all()?;
    sees(Visibility, "new memory", all.at(next)?.get_value(FIRST)?, &[0_u64])?;
    all.at(next)?.put_value(SECOND, value(me, 2))?;
    all.unlock_all()?;
    step(team, &());
    team.collectives().barrier()?;
    let seen: u64 = window.local()?.load(SECOND)?;
    sees(Visibility, "the value put after the free", seen, &[value(before, 2)])
}

/// The last rank receives `count` messages of each other rank.
fn messages(scene: &Scene<'_, '_>, count: u64) -> Result<()> {
    let (me, last) = (scene.team.rank(), Rank(size(scene) - 1));
    let messages = scene.messages.as_ref().expect("the program has messages");
    // Longer data than words of puts carry.
    let data = |from: Rank, number| [value(from, number); 6].map(u64::to_ne_bytes).concat();
    if me != last {
        for number in 0..count {
            messages.send(last, Tag(1), &data(me, number)).map_err(rmalab_windows::Error::from)?;
        }
        return Ok(());
    }
    let mut received = vec![0; last.index()];
    for _ in 0..count * last.index() as u64 {
        let (got, status) = messages.recv_vec(ANY_SOURCE, ANY_TAG).map_err(rmalab_windows::Error::from)?;
        let number = &mut received[status.from.index()];
        sees(Visibility, "the message", got, &[data(status.from, *number)])?;
        *number += 1;
    }
    Ok(())
}

/// Each of two ranks sends two messages to the other, and then receives two.
fn exchange(scene: &Scene<'_, '_>) -> Result<()> {
    let (me, other) = (scene.team.rank(), rank_after(scene, 1));
    let messages = scene.messages.as_ref().expect("the program has messages");
    for number in 0..2 {
        messages.send(other, Tag(1), &value(me, number).to_ne_bytes()).map_err(rmalab_windows::Error::from)?;
    }
    for number in 0..2 {
        let (got, _) = messages.recv_vec(other, ANY_TAG).map_err(rmalab_windows::Error::from)?;
        sees(Visibility, "the message", got, &[value(other, number).to_ne_bytes().to_vec()])?;
    }
    Ok(())
}
