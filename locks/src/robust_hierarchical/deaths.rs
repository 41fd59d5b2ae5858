//! A rank fails ahead of each of its operations that open and close gates, and in the second leaf of a gate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use rmalab_atomics::{Address, Crashing, Mapped, Topology, WORD};

use super::gates::OPEN;
use super::*;
use crate::robust_two_level::GATES;
use crate::suite::{self, wait};

const RANKS_IN_ALL: u32 = 4;
const DOOMED: Rank = Rank(1);
/// The rank with the target, the master and the root. It does nothing.
const HOME: Rank = Rank(3);

/// The progress of the ranks: one word each, at [`HOME`].
struct Steps {
    /// 1 when the doomed rank has opened the first gate, 2 when a second one is open.
    turn: Address,
    /// 1 while rank 0 holds a lock_all after the failure, and 2 afterwards.
    all: Address,
    /// 1 when rank 2 has got its exclusive lock, and 2 when it has released it.
    exclusive: Address,
}

/// Opens the first gate of all, closes that gate and another one, and opens the first gate again. Returns false if this rank has to die ahead
/// of operation number `number`.
fn play(ra: &Mapped, lock: &mut RobustHierarchical, steps: &Steps, number: u64) -> Result<bool> {
    let crashing = &Crashing::new(ra, None);
    crashing.arm_unwind(number);
    let script = || {
        assert_eq!(lock.recoverable_lock_all(crashing)?, Entry::Clean);
        lock.unlock_all(crashing)?;
        ra.put(steps.turn, 1)?;
        wait(ra, &[DOOMED], || Ok(ra.get(steps.turn)? == 2))?;
        assert_eq!(lock.recoverable_lock(crashing, LockKind::Exclusive, HOME)?, Entry::Clean);
        lock.unlock(crashing, LockKind::Exclusive, HOME)?;
        assert_eq!(lock.recoverable_lock_all(crashing)?, Entry::Clean);
        lock.unlock_all(crashing)
    };
    match catch_unwind(AssertUnwindSafe(script)) {
        Ok(ended) => ended.map(|()| true),
        Err(_) => Ok(false),
    }
}

/// I10, while no live rank changes a word.
fn check(ra: &Mapped, lock: &RobustHierarchical, number: u64) -> Result<()> {
    let (gates, tree) = (&lock.gates, &lock.gates.tree);
    assert_eq!((tree.levels, tree.gate, tree.fan_out), (2, 1, 2));
    let may_be_open = lock.lock.master_word(ra)? & GATES != 0;
    let root = ra.get(tree.root())?;
    for group in 0..2 {
        let word = ra.get(tree.word(0, group))?;
        assert!(word == 0 || root >> group & 1 != 0, "ahead of {number}: word {group} is not below the root");
        for child in 0..2 {
            let is_open = ra.get(Rank((2 * group + child) as u32).at(gates.words()))? == OPEN;
            assert!(
                !is_open || word >> child & 1 != 0,
                "ahead of {number}: gate {child} of {group} is not in the tree"
            );
        }
    }
    assert!(root == 0 || may_be_open, "ahead of {number}: the master does not say that gates may be open");
    Ok(())
}

/// Rank 0 locks all targets, while rank 2 asks for an exclusive lock.
fn survive(ra: &Mapped, lock: &mut RobustHierarchical, steps: &Steps, number: u64) -> Result<()> {
    if ra.rank() == Rank(2) {
        wait(ra, &[DOOMED], || Ok(ra.get(steps.all)? != 0))?;
        let entry = lock.recoverable_lock(ra, LockKind::Exclusive, HOME)?;
        assert_eq!((entry, ra.get(steps.all)?), (Entry::Clean, 2), "ahead of {number}: beside a lock_all");
        ra.put(steps.exclusive, 1)?;
        lock.unlock(ra, LockKind::Exclusive, HOME)?;
        return Ok(ra.put(steps.exclusive, 2)?);
    }
    let is_dead = || Ok(!ra.failed()?.is_empty());
    wait(ra, &[DOOMED], || Ok(ra.get(steps.turn)? != 0 || is_dead()?))?;
    if ra.get(steps.turn)? == 1 {
        assert_eq!(lock.recoverable_lock_all(ra)?, Entry::Clean);
        lock.unlock_all(ra)?;
        ra.put(steps.turn, 2)?;
    }
    wait(ra, &[DOOMED], is_dead)?;
    check(ra, lock, number)?;
    if lock.recoverable_lock_all(ra)? != Entry::Clean {
        lock.consistent(ra)?;
    }
    assert_eq!(ra.get(lock.gates.gate)?, OPEN, "ahead of {number}");
    ra.put(steps.all, 1)?;
    // Rank 2 closes this gate, and must not be inside.
    wait(ra, &[DOOMED], || Ok(ra.get(lock.gates.gate)? != OPEN || ra.get(steps.exclusive)? != 0))?;
    ra.put(steps.all, 2)?;
    ra.flush(HOME)?;
    lock.unlock_all(ra)?;
    wait(ra, &[DOOMED], || Ok(ra.get(steps.exclusive)? == 2))?;
    check(ra, lock, number)?;
    assert_eq!(lock.recoverable_lock_all(ra)?, Entry::Clean);
    lock.unlock_all(ra)?;
    check(ra, lock, number)
}

fn leaves_nothing_to_repair(announces: bool) {
    let has_ended = AtomicBool::new(false);
    for number in 1.. {
        let topology = Topology::blocks(RANKS_IN_ALL, 1, 1).unwrap();
        suite::with_deaths_in(&topology, |ra| {
            let params = RobustHierarchicalParams { root: HOME, fan_out: 2, announces, ..Default::default() };
            let mut lock = RobustHierarchical::new(ra, params)?;
            let words = ra.heap().alloc(3 * WORD, WORD)?;
            let [turn, all, exclusive] = [0, 1, 2].map(|word| HOME.at(words.word(word)));
            let steps = Steps { turn, all, exclusive };
            match ra.rank() {
                DOOMED => {
                    has_ended.store(play(ra, &mut lock, &steps, number)?, Ordering::Relaxed);
                    suite::die();
                }
                HOME => Ok(()),
                _ => survive(ra, &mut lock, &steps, number),
            }
        });
        if has_ended.load(Ordering::Relaxed) {
            assert!(number > if announces { 80 } else { 60 }, "{number} operations");
            return;
        }
    }
}

#[test]
fn a_failure_ahead_of_any_operation_leaves_nothing_to_repair() {
    leaves_nothing_to_repair(false);
}

#[test]
fn a_failure_ahead_of_any_operation_or_announcement_leaves_nothing_to_repair() {
    leaves_nothing_to_repair(true);
}

/// Two nodes of eight ranks, each a gate of two leaves. Rank 9 has the bit in its leaf that rank 13 has in the next one. Rank 9 fails, and
/// rank 0 closes the gates that rank 13 holds: first while rank 13 lives, then after it has failed.
#[test]
fn a_closing_rank_waits_for_the_live_ranks_of_every_leaf() {
    const DOOMED: [Rank; 2] = [Rank(9), Rank(13)];
    let topology = Topology::blocks(16, 8, 1).unwrap();
    suite::with_deaths_in(&topology, |ra| {
        let mut lock = RobustHierarchical::new(ra, RobustHierarchicalParams::default())?;
        assert_eq!((lock.gates.leaves, lock.gates.tree.gate), (2, 8));
        let turn = Rank(0).at(ra.heap().alloc(WORD, WORD)?);
        match ra.rank().0 {
            0 => {
                wait(ra, &DOOMED, || Ok(ra.get(turn)? == 1 && ra.failed()?.contains(Rank(9))))?;
                assert_eq!(lock.recoverable_lock(ra, LockKind::Exclusive, Rank(0))?, Entry::Clean);
                assert_eq!(ra.get(turn)?, 2, "beside a lock_all");
                lock.unlock(ra, LockKind::Exclusive, Rank(0))?;
                ra.put(turn, 3)?;
                wait(ra, &DOOMED, || Ok(ra.failed()?.contains(Rank(13))))?;
                assert_eq!(ra.get(turn)?, 4);
                assert_eq!(lock.recoverable_lock(ra, LockKind::Exclusive, Rank(0))?, Entry::Clean);
                lock.unlock(ra, LockKind::Exclusive, Rank(0))
            }
            9 => suite::die(),
            13 => {
                assert_eq!(lock.recoverable_lock_all(ra)?, Entry::Clean);
                ra.fetch_add(turn, 1)?;
                wait(ra, &DOOMED, || Ok(ra.get(lock.gates.gate)? != OPEN))?;
                // Time for a rank that does not wait.
                (0..1000).for_each(|_| std::thread::yield_now());
                ra.fetch_add(turn, 1)?;
                lock.unlock_all(ra)?;
                wait(ra, &DOOMED, || Ok(ra.get(turn)? == 3))?;
                assert_eq!(lock.recoverable_lock_all(ra)?, Entry::Clean);
                ra.fetch_add(turn, 1)?;
                suite::die()
            }
            _ => Ok(()),
        }
    });
}
