//! Waiting: every condition, every way to be woken, deadlines, and pauses.
//!
//! No check measures the length of a wait; the checks use only the backend's own clock, and only its guarantees.

use std::time::Duration;

use super::{Lab, Outcome, require};
use crate::{Address, RemoteAtomics, Result, Time, Until};

/// Writes `value` to a word that holds `old`, in one of the possible ways.
fn write_somehow<A: RemoteAtomics + ?Sized>(ra: &A, way: u64, at: Address, old: u64, value: u64) -> Result<()> {
    match way % 5 {
        0 => ra.put(at, value),
        1 => ra.fetch_store(at, value).map(drop),
        2 => ra.fetch_add(at, value.wrapping_sub(old)).map(drop),
        3 => ra.compare_and_swap(at, old, value).map(drop),
        _ => ra.put_bytes(at, &value.to_ne_bytes()),
    }
}

pub(super) fn every_condition<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const HIGH: u64 = 1 << 63;
    // (condition, values that do not satisfy it, a value that does)
    let cases: &[(Until, &[u64], u64)] = &[
        (Until::Eq(5), &[4, 6, 5 << 32, 5 | HIGH, u64::MAX], 5),
        (Until::Eq(0), &[1, 1 << 32, HIGH], 0),
        (Until::Ne(7), &[7], 8),
        (Until::Ne(7), &[7], 7 | HIGH),
        (Until::Ne(0), &[0], 1 << 32),
        (Until::Lt(10), &[10, 11, u64::MAX, HIGH, 1 << 32], 9),
        (Until::Ge(10), &[9, 0, 1], 10),
        (Until::Ge(10), &[9, 0], u64::MAX),
        (Until::Ge(1 << 32), &[u64::from(u32::MAX), 10], 1 << 32),
        (Until::AnySet(0b1010), &[0, 0b0101, !0b1010], 0b1000),
        (Until::AnySet(HIGH), &[1, !HIGH], HIGH | 1),
        (Until::NoneSet(0b1010), &[0b1010, 0b0010, u64::MAX], 0b0101),
        (Until::NoneSet(HIGH), &[HIGH, u64::MAX], !HIGH),
    ];
    let region = lab.alloc(3)?;
    let word = region.word(1);
    let ra = lab.ra;
    let target = lab.neighbour(1);
    let mut random = lab.random();
    for (case, &(until, short, enough)) in cases.iter().enumerate() {
        for way in 0..5 {
            ra.fetch_store(lab.own(word), short[0])?;
            lab.barrier()?;
            let mut old = short[0];
            let write = |old: &mut u64, value: u64, way: u64| -> Outcome {
                write_somehow(ra, way, target.at(word), *old, value)?;
                // Different kinds of writes follow each other only after the earlier write is complete.
                ra.flush(target)?;
                *old = value;
                Ok(())
            };
            for &value in short {
                for beside in [region, region.word(2)] {
                    ra.put(target.at(beside), enough)?;
                }
                write(&mut old, value, random.next())?;
                lab.dawdle(&mut random)?;
            }
            write(&mut old, enough, way)?;
            let seen = ra.wait_until(word, until)?;
            require!(seen == enough, "case {case}, way {way}: the wait for {until} ended with {seen:#x}");
            let again = ra.wait_until_deadline(word, until, Time(0))?;
            require!(again == Some(enough), "case {case}, way {way}: {until} held, and then {again:?}");
            lab.complete_barrier()?;
        }
    }
    Ok(())
}

pub(super) fn token_ring<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let token = lab.alloc(1)?;
    let next = lab.neighbour(1);
    for round in 1..=lab.rounds(300) {
        // Rank 0 starts a round with its number; every rank passes on the number that arrived, and rank 0 receives it
        // back.
        if lab.me() == 0 {
            write_somehow(lab.ra, round, next.at(token), round - 1, round)?;
        }
        let seen = lab.ra.wait_until(token, Until::Ge(round))?;
        require!(seen == round, "round {round}: the token is {seen}");
        if lab.me() != 0 {
            write_somehow(lab.ra, round, next.at(token), round - 1, round)?;
        }
        // This flush only keeps the writes of two rounds to one word apart.
        lab.ra.flush(next)?;
    }
    Ok(())
}

pub(super) fn all_to_one<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let (arrived, go) = (lab.alloc(1)?, lab.alloc(1)?);
    for round in 1..=lab.rounds(400) {
        let root = crate::Rank((round % lab.size()) as u32);
        if lab.ra.rank() == root {
            let others = lab.size() - 1;
            let seen = lab.ra.wait_until(arrived, Until::Ge(others))?;
            require!(seen == others, "round {round}: {seen} arrivals of {others} ranks");
            lab.ra.fetch_store(lab.own(arrived), 0)?;
            for peer in lab.ranks() {
                lab.ra.put(peer.at(go), round)?;
            }
        } else {
            lab.ra.fetch_add(root.at(arrived), 1)?;
        }
        let seen = lab.ra.wait_until(go, Until::Ge(round))?;
        require!(seen == round, "round {round}: sent on by round {seen}");
    }
    Ok(())
}

pub(super) fn bulk_puts_wake<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // The awaited word is anywhere in the range of the put.
    const WORDS: u64 = 96;
    let (region, receipt) = (lab.alloc(WORDS)?, lab.alloc(1)?);
    let (to, from) = (lab.neighbour(1), lab.neighbour(lab.size() - 1));
    let mut random = lab.common_random();
    for round in 1..=lab.rounds(200) {
        let first = random.below(WORDS);
        let words = 1 + random.below(WORDS - first);
        let watched = first + random.below(words);
        let bytes: Vec<u8> = (0..words).flat_map(|_| round.to_ne_bytes()).collect();
        lab.ra.put_bytes(to.at(region.word(first)), &bytes)?;
        let seen = lab.ra.wait_until(region.word(watched), Until::Eq(round))?;
        require!(seen == round, "round {round}: woken by {seen}");
        lab.ra.put(from.at(receipt), round)?;
        lab.ra.wait_until(receipt, Until::Eq(round))?;
    }
    Ok(())
}

pub(super) fn neighbouring_words_do_not_satisfy<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let region = lab.alloc(3)?;
    let target = lab.neighbour(1);
    let mut random = lab.random();
    for round in 0..lab.rounds(40) {
        for beside in [region, region.word(2)] {
            write_somehow(lab.ra, random.next(), target.at(beside), 0, 1)?;
            lab.ra.flush(target)?;
        }
        let deadline = lab.ra.now().after(Duration::from_micros(20 * (round % 10)));
        let seen = lab.ra.wait_until_deadline(region.word(1), Until::Ne(0), deadline)?;
        require!(seen.is_none(), "round {round}: the word between was never written, but the wait ended with {seen:?}");
    }
    Ok(())
}

pub(super) fn deadlines<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let ra = lab.ra;
    let word = lab.alloc(1)?;
    let mut before = ra.now();
    for _ in 0..100 {
        let now = ra.now();
        require!(now >= before, "the clock went back from {before:?} to {now:?}");
        before = now;
    }
    for past in [Time(0), Time(1), ra.now()] {
        let seen = ra.wait_until_deadline(word, Until::Eq(0), past)?;
        require!(seen == Some(0), "the condition holds and the deadline {past:?} is past: {seen:?}");
        let seen = ra.wait_until_deadline(word, Until::Ne(0), past)?;
        require!(seen.is_none(), "the condition does not hold and the deadline {past:?} is past: {seen:?}");
    }
    for microseconds in [1, 10, 100, 1_000, 5_000] {
        let deadline = ra.now().after(Duration::from_micros(microseconds));
        let seen = ra.wait_until_deadline(word, Until::Ge(1), deadline)?;
        require!(seen.is_none(), "no rank wrote the word, but the wait ended with {seen:?}");
        let now = ra.now();
        require!(now >= deadline, "the wait gave up at {now:?}, before its deadline {deadline:?}");
    }
    // A far deadline is like no deadline: the neighbour's write ends the wait.
    for (round, deadline) in (1..).zip([Time(u64::MAX), ra.now().after(Duration::MAX), Time(u64::MAX - 1)]) {
        lab.barrier()?;
        ra.put(lab.neighbour(1).at(word), round)?;
        let seen = ra.wait_until_deadline(word, Until::Eq(round), deadline)?;
        require!(seen == Some(round), "deadline {deadline:?}: {seen:?}");
    }
    Ok(())
}

pub(super) fn deadlines_in_the_middle_of_wake_ups<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // Short deadlines expire while writes arrive: every write is seen in the end, and no other value.
    let (word, receipt) = (lab.alloc(1)?, lab.alloc(1)?);
    let (to, from) = (lab.neighbour(1), lab.neighbour(lab.size() - 1));
    let mut random = lab.random();
    for round in 1..=lab.rounds(200) {
        lab.dawdle(&mut random)?;
        lab.ra.put(to.at(word), round)?;
        loop {
            let deadline = lab.ra.now().after(Duration::from_micros(random.below(200)));
            match lab.ra.wait_until_deadline(word, Until::Ge(round), deadline)? {
                Some(seen) => {
                    require!(seen == round, "round {round}: the wait ended with {seen}");
                    break;
                }
                None => require!(lab.ra.now() >= deadline, "round {round}: gave up before {deadline:?}"),
            }
        }
        lab.ra.put(from.at(receipt), round)?;
        lab.ra.wait_until(receipt, Until::Ge(round))?;
    }
    Ok(())
}

pub(super) fn pauses_return<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let word = lab.alloc(1)?;
    for operations in [0, 1, 10, 1_000, 10_000, 0] {
        lab.ra.pause(operations)?;
    }
    // Each rank polls a word of the next rank, with bounded exponential pauses.
    for round in 1..=lab.rounds(100) {
        let watched = lab.neighbour(1).at(word);
        lab.ra.fetch_add(lab.own(word), 1)?;
        let mut pause = 1;
        while lab.ra.get(watched)? < round {
            lab.ra.pause(pause)?;
            pause = (2 * pause).min(64);
        }
    }
    Ok(())
}
