//! Word operations: their results, and their atomicity on words of every rank.

use super::{Lab, Outcome, require};
use crate::{Disp, Error, Rank, RemoteAtomics};

/// The number of operations of each rank in the checks under contention.
const OPERATIONS: u64 = 5_000;

pub(super) fn fresh_memory_is_zero<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const WORDS: u64 = 300;
    let mut random = lab.random();
    for round in 0..3 {
        let at = lab.ra.heap().alloc(WORDS * 8, 8)?;
        let mut bytes = vec![0xff; WORDS as usize * 8];
        lab.ra.get_bytes(lab.own(at), &mut bytes)?;
        require!(bytes.iter().all(|&byte| byte == 0), "memory allocated at {at} in round {round} is not zero");
        lab.barrier()?;
        for target in lab.ranks() {
            lab.ra.fetch_add(target.at(at.word(random.below(WORDS))), random.next())?;
            lab.ra.put(target.at(at.word(random.below(WORDS))), random.next())?;
        }
        lab.collectives.free(at)?;
    }
    Ok(())
}

pub(super) fn return_values<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // Each rank has its own word on every rank, so that no other rank changes the expected value.
    let at = lab.alloc(lab.size())?.word(lab.me());
    let ra = lab.ra;
    let mut random = lab.random();
    for target in lab.ranks() {
        let word = target.at(at);
        let mut model = 0u64;
        for _ in 0..lab.rounds(500) {
            // Extreme values are more frequent than by chance.
            let value = match random.below(4) {
                0 => [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, u64::from(u32::MAX)][random.below(6) as usize],
                _ => random.next(),
            };
            let (what, seen, expected) = match random.below(6) {
                0 => {
                    let old = ra.fetch_add(word, value)?;
                    let expected = model;
                    model = model.wrapping_add(value);
                    ("fetch_add", old, expected)
                }
                1 => {
                    let old = ra.compare_and_swap(word, model, value)?;
                    let expected = model;
                    model = value;
                    ("compare_and_swap that stores", old, expected)
                }
                2 => {
                    // The expected value differs in one random bit: the comparison must use all 64.
                    let old = ra.compare_and_swap(word, model ^ (1 << random.below(64)), value)?;
                    ("compare_and_swap that does not store", old, model)
                }
                3 => {
                    let old = ra.fetch_store(word, value)?;
                    let expected = model;
                    model = value;
                    ("fetch_store", old, expected)
                }
                4 => {
                    ra.put(word, value)?;
                    ra.flush(target)?;
                    model = value;
                    ("get after put and flush", ra.get(word)?, value)
                }
                _ => ("get", ra.get(word)?, model),
            };
            require!(seen == expected, "{what} of {word} returned {seen:#x} and not {expected:#x}");
            let now = ra.get(word)?;
            require!(now == model, "after {what}, {word} holds {now:#x} and not {model:#x}");
        }
        // Subtraction is the addition of the negative, through zero and back.
        ra.fetch_store(word, 2)?;
        ra.fetch_add(word, 5u64.wrapping_neg())?;
        let below = ra.fetch_add(word, 5)?;
        require!(below == 2u64.wrapping_sub(5), "2 - 5 on {word} is {below:#x}");
        let back = ra.get(word)?;
        require!(back == 2, "2 - 5 + 5 on {word} is {back:#x}");
    }
    Ok(())
}

pub(super) fn fetch_add_loses_nothing<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let at = lab.alloc(1)?;
    let mut random = lab.random();
    let mut added = vec![0u64; lab.size() as usize];
    lab.barrier()?;
    for _ in 0..lab.rounds(4 * OPERATIONS) {
        let target = lab.any_rank(&mut random);
        let value = random.next();
        lab.ra.fetch_add(target.at(at), value)?;
        added[target.index()] = added[target.index()].wrapping_add(value);
    }
    lab.barrier()?;
    for target in lab.ranks() {
        let expected = lab.sum(added[target.index()])?;
        let seen = lab.ra.get(target.at(at))?;
        require!(seen == expected, "the sum at {target} is {seen:#x}, and {expected:#x} was added");
    }
    Ok(())
}

pub(super) fn fetch_add_returns_each_value_once<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let each = lab.rounds(1_000);
    let at = lab.alloc(1)?;
    for home in [Rank(0), Rank(lab.ra.size() - 1)] {
        lab.barrier()?;
        let mut returned = Vec::new();
        for _ in 0..each {
            let ticket = lab.ra.fetch_add(home.at(at), 1)?;
            let before = returned.last().copied();
            require!(before.is_none_or(|before| before < ticket), "ticket {ticket} after {before:?}");
            returned.push(ticket);
        }
        let mut all = lab.collectives.allgather(&returned)?;
        all.sort_unstable();
        let wrong = (0..).zip(&all).find(|&(expected, &ticket)| ticket != expected);
        require!(wrong.is_none(), "tickets of {home} are not 0, 1, 2 …: first (expected, returned) {wrong:?}");
        lab.barrier()?;
        lab.ra.fetch_store(home.at(at), 0)?;
    }
    Ok(())
}

pub(super) fn compare_and_swap_increments<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let at = lab.alloc(1)?;
    let mut random = lab.random();
    let mut added = vec![0u64; lab.size() as usize];
    lab.barrier()?;
    for _ in 0..lab.rounds(OPERATIONS) {
        let target = lab.any_rank(&mut random);
        let mut seen = lab.ra.get(target.at(at))?;
        loop {
            let old = lab.ra.compare_and_swap(target.at(at), seen, seen + 1)?;
            if old == seen {
                break;
            }
            require!(old > seen, "a counter that only grows went from {seen} to {old}");
            seen = old;
        }
        added[target.index()] += 1;
    }
    lab.barrier()?;
    for target in lab.ranks() {
        let expected = lab.sum(added[target.index()])?;
        let seen = lab.ra.get(target.at(at))?;
        require!(seen == expected, "{expected} increments left {seen} at {target}");
    }
    Ok(())
}

pub(super) fn compare_and_swap_stores_only_on_equality<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // In every round all ranks try to change the word from the round's number to their own.
    let (word, winners) = (lab.alloc(1)?, lab.alloc(1)?);
    let home = Rank(lab.ra.size() - 1);
    for round in 0..lab.rounds(300) {
        let claim = (round << 32) + lab.me() + 1;
        let old = lab.ra.compare_and_swap(home.at(word), round << 32, claim)?;
        if old == round << 32 {
            lab.ra.fetch_add(home.at(winners), 1)?;
        } else {
            let winner = old.wrapping_sub((round << 32) + 1);
            require!(winner < lab.size(), "round {round}: the word held {old:#x}, which no rank stored in this round");
        }
        lab.barrier()?;
        let total = lab.ra.get(home.at(winners))?;
        require!(total == round + 1, "{total} ranks won in {} rounds", round + 1);
        lab.barrier()?;
        if lab.me() == 0 {
            lab.ra.fetch_store(home.at(word), (round + 1) << 32)?;
        }
        lab.barrier()?;
    }
    Ok(())
}

pub(super) fn fetch_store_returns_each_token_once<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let each = lab.rounds(1_000);
    let at = lab.alloc(1)?;
    for home in [Rank(0), Rank(lab.ra.size() - 1)] {
        lab.barrier()?;
        let mut returned = Vec::new();
        for i in 0..each {
            returned.push(lab.ra.fetch_store(home.at(at), 1 + lab.me() * each + i)?);
        }
        lab.barrier()?;
        let last = lab.ra.get(home.at(at))?;
        let mut all = lab.collectives.allgather(&returned)?;
        all.push(last);
        all.sort_unstable();
        let wrong = (0..).zip(&all).find(|&(expected, &token)| token != expected);
        require!(wrong.is_none(), "tokens of {home} are lost or doubled: first (expected, returned) {wrong:?}");
        lab.barrier()?;
        lab.ra.fetch_store(home.at(at), 0)?;
    }
    Ok(())
}

pub(super) fn kinds_are_atomic_with_each_other<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // Money on accounts: every kind of operation moves money, including the owners' operations, and none of it is lost.
    let at = lab.alloc(1)?;
    let mut random = lab.random();
    let mut paid_in = 0u64;
    lab.barrier()?;
    for _ in 0..lab.rounds(OPERATIONS) {
        let account = lab.any_rank(&mut random).at(at);
        let value = random.below(1 << 20);
        match random.below(3) {
            0 => {
                lab.ra.fetch_add(account, value)?;
                paid_in += value;
            }
            1 => {
                let old = lab.ra.get(account)?;
                if lab.ra.compare_and_swap(account, old, old + value)? == old {
                    paid_in += value;
                }
            }
            _ => {
                let all = lab.ra.fetch_store(account, 0)?;
                lab.ra.fetch_add(lab.any_rank(&mut random).at(at), all)?;
            }
        }
    }
    lab.barrier()?;
    let paid_in = lab.sum(paid_in)?;
    let held = lab.sum(lab.ra.get(lab.own(at))?)?;
    require!(held == paid_in, "{paid_in} was paid in, but {held} is there");
    Ok(())
}

/// An idle rank pauses once in the first number of times, for the second number of operations. That is long enough to
/// yield the processor.
const IDLE: (u64, u32) = (8, 4_000);

/// Each rank puts tokens into its own word, and the others take them with all atomics that change a word. If an atomic
/// overwrites an unseen put, no rank takes its token.
pub(super) fn no_put_is_lost_to_atomics<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    /// The bits of a word that hold a token; the other bits count additions.
    const TOKEN: u64 = (1 << 32) - 1;
    let (at, finished) = (lab.alloc(lab.size())?, Rank(0).at(lab.alloc(1)?));
    let ra = lab.ra;
    if !ra.capabilities().atomic_puts {
        return Ok(());
    }
    let tokens = lab.rounds(1_000);
    let word = |putter: u64| Rank(((putter + 1) % lab.size()) as u32).at(at.word(putter));
    let own = word(lab.me());
    let mut random = lab.random();
    // The last token that was put, and whether this rank has reported that all its tokens are gone.
    let (mut put, mut said) = (0, false);
    // The number of each rank's tokens that this rank has taken, and their sum.
    let mut taken = vec![(0, 0); lab.size() as usize];
    lab.barrier()?;
    loop {
        let mut idle = true;
        // No other rank puts to this word, so a token that is gone was taken or lost.
        if !said && (put == 0 || ra.get(own)? & TOKEN != put) {
            idle = false;
            if put < tokens {
                put += 1;
                ra.put(own, put)?;
                ra.flush(own.rank)?;
            } else {
                said = true;
                ra.fetch_add(finished, 1)?;
            }
        }
        let putter = (lab.me() + 1 + random.below(lab.size() - 1)) % lab.size();
        let old = match random.below(3) {
            0 => {
                ra.fetch_add(word(putter), TOKEN + 1)?;
                0
            }
            1 => ra.fetch_store(word(putter), 0)?,
            _ => {
                let seen = ra.get(word(putter))?;
                if ra.compare_and_swap(word(putter), seen, 0)? == seen { seen } else { 0 }
            }
        };
        let (count, sum) = &mut taken[putter as usize];
        (*count, *sum) = (*count + u64::from(old & TOKEN != 0), *sum + (old & TOKEN));
        if said && ra.get(finished)? == lab.size() {
            break;
        }
        if idle && old == 0 && random.below(IDLE.0) == 0 {
            ra.pause(IDLE.1)?;
        }
    }
    lab.barrier()?;
    for (putter, (count, sum)) in taken.into_iter().enumerate() {
        let (count, sum) = (lab.sum(count)?, lab.sum(sum)?);
        require!(
            (count, sum) == (tokens, tokens * (tokens + 1) / 2),
            "rank {putter} has put {tokens} tokens, but {count} were taken (their sum is {sum}): a put was lost to an atomic"
        );
    }
    Ok(())
}

/// A rank takes a word with a compare-and-swap and returns it with a put, while others compare the word with a
/// different value.
pub(super) fn no_put_is_lost_to_a_failed_comparison<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let (word, finished) = (lab.alloc(1)?, Rank(0).at(lab.alloc(1)?));
    let ra = lab.ra;
    // Soft-RoCE of Linux 6.1 loses such puts (see the module verbs): there the check is optional.
    if !ra.capabilities().atomic_puts && std::env::var_os(super::PUTS).is_none() {
        return Ok(());
    }
    let (word, claim) = (Rank(ra.size() - 1).at(word), lab.me() + 1);
    let mut random = lab.random();
    let mut sometimes_pause = || if random.below(IDLE.0) == 0 { ra.pause(IDLE.1) } else { Ok(()) };
    lab.barrier()?;
    let mut given_back = 0;
    while given_back < lab.rounds(1_000) {
        let old = ra.compare_and_swap(word, 0, claim)?;
        require!(old <= lab.size() && old != claim, "{word} held {old} when {claim} took it");
        // The comparisons of other ranks fail while this rank pauses.
        sometimes_pause()?;
        if old == 0 {
            ra.put(word, 0)?;
            ra.flush(word.rank)?;
            let now = ra.get(word)?;
            require!(now != claim, "a put returned {word}, but was lost: the word is still {now}");
            given_back += 1;
        }
    }
    // The last put of this rank could be lost, too, and the others would compare forever.
    ra.fetch_add(finished, 1)?;
    while ra.get(finished)? != lab.size() {
        let now = ra.get(word)?;
        require!(now != claim, "a put returned {word}, but was lost later: the word is {now} again");
        ra.pause(IDLE.1)?;
    }
    Ok(())
}

/// Returns a word that shows tearing: each half is a fixed function of the other.
fn whole(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(!half)
}

fn is_whole(word: u64) -> bool {
    word == 0 || word == whole((word >> 32) as u32)
}

pub(super) fn words_do_not_tear<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const WORDS: u64 = 8;
    let at = lab.alloc(WORDS)?;
    let ra = lab.ra;
    let mut random = lab.random();
    lab.barrier()?;
    for _ in 0..lab.rounds(OPERATIONS) {
        let target = lab.any_rank(&mut random);
        let word = target.at(at.word(random.below(WORDS)));
        let value = whole(random.next() as u32);
        let seen = match random.below(6) {
            0 => {
                ra.put(word, value)?;
                continue;
            }
            1 => {
                ra.put_bytes(word, &value.to_ne_bytes())?;
                continue;
            }
            2 => ra.fetch_store(word, value)?,
            3 => {
                let old = ra.get(word)?;
                ra.compare_and_swap(word, old, value)?
            }
            4 => ra.get(word)?,
            _ => {
                // Bulk operations are atomic for each aligned word.
                let mut bytes = [0; 8 * WORDS as usize];
                ra.get_bytes(target.at(at), &mut bytes)?;
                let words = bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
                words.into_iter().find(|&word| !is_whole(word)).unwrap_or(0)
            }
        };
        require!(is_whole(seen), "{word} held {seen:#x}, half of one value and half of another");
    }
    Ok(())
}

pub(super) fn puts_of_one_rank_arrive_in_order<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // Every rank counts up on a word of each other rank, which must never see the word decrease.
    let at = lab.alloc(lab.size())?;
    let ra = lab.ra;
    let mut seen = vec![0; lab.size() as usize];
    let mut look = |writer: Rank, disp: Disp| -> Result<Option<(u64, u64)>, Error> {
        let (before, now) = (seen[writer.index()], ra.get(lab.own(disp))?);
        seen[writer.index()] = now;
        Ok((now < before).then_some((before, now)))
    };
    let rounds = lab.rounds(OPERATIONS);
    for count in 1..=rounds {
        for target in lab.ranks() {
            ra.put(target.at(at.word(lab.me())), count)?;
        }
        for writer in lab.ranks() {
            let wrong = look(writer, at.word(u64::from(writer.0)))?;
            require!(wrong.is_none(), "{writer} counts up, but its word went (from, to) {wrong:?}");
        }
    }
    lab.complete_barrier()?;
    for writer in lab.ranks() {
        let last = ra.get(lab.own(at.word(u64::from(writer.0))))?;
        require!(last == rounds, "{writer} flushed {rounds}, but its word is {last}");
    }
    Ok(())
}
