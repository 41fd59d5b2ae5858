//! Word operations that are not waited for: results, atomicity, and completion by wait, test and flush.

use super::bulk::complete;
use super::{Lab, Outcome, require};
use crate::model::fabric::WordOp;
use crate::{Error, Operation, RemoteAtomics, WORD, bulk};

/// The number of operations under way at a time.
const DEPTH: usize = 16;

pub(super) fn started_operations_agree_with_a_model<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let ra = lab.ra;
    // Each rank has its own words on every rank, with at most one operation under way on each.
    let at = lab.alloc(lab.size() * DEPTH as u64)?.word(lab.me() * DEPTH as u64);
    let mut random = lab.random();
    let mut model = vec![[0u64; DEPTH]; lab.size() as usize];
    for step in 0..lab.rounds(400) {
        let mut results = [!0; DEPTH];
        let mut expected = Vec::new();
        let mut run = || {
            let mut started = Vec::new();
            for (word, result) in (0..).zip(&mut results) {
                let target = lab.any_rank(&mut random);
                let value = &mut model[target.index()][word as usize];
                let old = *value;
                let op = match random.below(5) {
                    0 => WordOp::FetchAdd(random.next()),
                    1 => WordOp::CompareAndSwap { expected: old, desired: random.next() },
                    2 => WordOp::CompareAndSwap { expected: old ^ 1, desired: random.next() },
                    3 => WordOp::FetchStore(random.next()),
                    _ => WordOp::Get,
                };
                match op {
                    WordOp::FetchAdd(added) => *value = old.wrapping_add(added),
                    WordOp::CompareAndSwap { expected, desired } if expected == old => *value = desired,
                    WordOp::FetchStore(stored) => *value = stored,
                    _ => {}
                }
                expected.push((op, old));
                // SAFETY: `results` lives until the flush below, and is not accessed before.
                started.push((target, unsafe { ra.start(target.at(at.word(word)), op, result)? }));
            }
            started.into_iter().try_for_each(|(target, request)| complete(ra, target, request, &mut random))
        };
        let ran = run();
        // After a flush no failed operation is under way.
        ran.and(ra.flush_all())?;
        for (word, (seen, (op, old))) in results.iter().zip(&expected).enumerate() {
            require!(seen == old, "step {step}: {op:?} of word {word} gave {seen:#x} and not {old:#x}");
        }
    }
    ra.flush_all()?;
    for target in lab.ranks() {
        for (word, &value) in (0..).zip(&model[target.index()]) {
            let seen = ra.get(target.at(at.word(word)))?;
            require!(seen == value, "word {word} of {target} holds {seen:#x} and not {value:#x}");
        }
    }
    Ok(())
}

pub(super) fn started_operations_are_atomic_with_all_others<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let ra = lab.ra;
    let at = lab.alloc(1)?;
    let home = crate::Rank(lab.ra.size() - 1);
    lab.barrier()?;
    let mut tickets = Vec::new();
    for _ in 0..lab.rounds(200) {
        let mut results = [0; DEPTH];
        bulk::scope(ra, |scope| results.iter_mut().try_for_each(|result| scope.fetch_add(home.at(at), 1, result)))?;
        tickets.extend(results);
        tickets.push(ra.fetch_add(home.at(at), 1)?);
    }
    let mut all = lab.collectives.allgather(&tickets)?;
    all.sort_unstable();
    let wrong = (0..).zip(&all).find(|&(expected, &ticket)| ticket != expected);
    require!(wrong.is_none(), "tickets are not 0, 1, 2 …: first (expected, returned) {wrong:?}");
    Ok(())
}

pub(super) fn started_operations_refuse_bad_addresses<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let ra = lab.ra;
    let at = lab.alloc(1)?;
    let (own, end) = (ra.rank(), ra.heap().end());
    let no_rank = crate::Rank(ra.size());
    for op in
        [WordOp::FetchAdd(1), WordOp::CompareAndSwap { expected: 0, desired: 1 }, WordOp::FetchStore(1), WordOp::Get]
    {
        let mut result = 7;
        for address in [no_rank.at(at), own.at(at.plus(4)), own.at(end), own.at(end.plus(WORD))] {
            // SAFETY: `result` is not accessed before the flush.
            let refused = unsafe { ra.start(address, op, &mut result) };
            ra.flush_all()?;
            let named = |operation: Operation| operation == op.operation();
            let right = match refused {
                Err(Error::RankOutOfRange { operation, rank, .. }) => named(operation) && rank == no_rank,
                Err(Error::Misaligned { operation, at }) => named(operation) && at == address,
                Err(Error::OutOfSegment { operation, at, .. }) => named(operation) && at == address,
                _ => false,
            };
            require!(right && result == 7, "{op:?} started on {address}: not refused, or with another error");
        }
    }
    let word = ra.get(own.at(at))?;
    require!(word == 0, "a refused operation changed a word to {word:#x}");
    Ok(())
}
