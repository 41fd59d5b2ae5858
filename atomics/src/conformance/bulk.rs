//! Bulk transfers: any range, alignment and length, completion by wait, test and flush, and their order with words.

use std::sync::atomic::Ordering;

use super::{Lab, Outcome, require};
use crate::model::fabric::WordOp;
use crate::random::Random;
use crate::{Address, Disp, Error, Rank, RemoteAtomics, Request, Result, Until, WORD, bulk};

/// Puts `source`, and completes it in one of the three ways.
fn put_somehow<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, source: &[u8], random: &mut Random) -> Result<()> {
    // SAFETY: `source` is borrowed, so it is valid and unwritten, until `complete` has flushed. A failed post reads
    // nothing.
    let request = unsafe { ra.put_bytes_nb(at, source.as_ptr(), source.len())? };
    complete(ra, at.rank, request, random)?;
    // A wait and a test concern only this rank's buffer; the target's memory needs a flush.
    ra.flush(at.rank)
}

/// Gets into `dest`, and completes it in one of the three ways.
fn get_somehow<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, dest: &mut [u8], random: &mut Random) -> Result<()> {
    // SAFETY: `dest` is borrowed mutably, so it is valid and untouched, until `complete` has returned.
    let request = unsafe { ra.get_bytes_nb(at, dest.as_mut_ptr(), dest.len())? };
    complete(ra, at.rank, request, random)
}

pub(super) fn complete<A: RemoteAtomics + ?Sized>(
    ra: &A,
    target: Rank,
    request: Request,
    random: &mut Random,
) -> Result<()> {
    match random.below(4) {
        0 => ra.wait(request),
        1 => {
            while !ra.test(&request)? {
                ra.pause(1)?;
            }
            Ok(())
        }
        2 => ra.flush(target),
        _ => ra.flush_all(),
    }
}

pub(super) fn bulk_agrees_with_a_model<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const BYTES: u64 = 256;
    // Each rank has its own range on every rank.
    let at = lab.alloc(lab.size() * BYTES / 8)?.plus(lab.me() * BYTES);
    let ra = lab.ra;
    let mut random = lab.random();
    let mut model = vec![[0u8; BYTES as usize]; lab.size() as usize];
    for step in 0..lab.rounds(1_000) {
        let target = lab.any_rank(&mut random);
        let model = &mut model[target.index()];
        let start = random.below(BYTES + 1);
        let len = random.below(BYTES - start + 1).min(if random.below(2) == 0 { 12 } else { BYTES });
        let range = start as usize..(start + len) as usize;
        let place = target.at(at.plus(start));
        let mut bytes = vec![0x5a; len as usize];
        match random.below(5) {
            0 => {
                random.fill(&mut bytes);
                ra.put_bytes(place, &bytes)?;
                model[range].copy_from_slice(&bytes);
            }
            1 => {
                random.fill(&mut bytes);
                put_somehow(ra, place, &bytes, &mut random)?;
                model[range].copy_from_slice(&bytes);
            }
            2 => {
                // Several puts at once, of ranges that do not overlap.
                random.fill(&mut bytes);
                let (low, high) = bytes.split_at(bytes.len() / 2);
                bulk::scope(ra, |bulk| {
                    bulk.put(place, low)?;
                    bulk.put(target.at(place.disp.plus(low.len() as u64)), high)
                })?;
                model[range].copy_from_slice(&bytes);
            }
            3 => {
                ra.get_bytes(place, &mut bytes)?;
                require!(bytes == model[range], "step {step}: get of {len} bytes on {place}: {bytes:x?}");
            }
            _ => {
                get_somehow(ra, place, &mut bytes, &mut random)?;
                require!(bytes == model[range], "step {step}: started get of {len} bytes on {place}: {bytes:x?}");
            }
        }
    }
    let mut all = vec![[0u8; BYTES as usize]; lab.size() as usize];
    bulk::scope(ra, |bulk| {
        let mut targets = lab.ranks().zip(&mut all);
        targets.try_for_each(|(target, bytes)| bulk.get(target.at(at), bytes))
    })?;
    for (target, (seen, expected)) in lab.ranks().zip(all.iter().zip(&model)) {
        require!(seen == expected, "at the end {target} holds {seen:x?} and not {expected:x?}");
    }
    Ok(())
}

pub(super) fn bulk_puts_touch_only_their_bytes<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // The ranks take ranges of 1 to 13 bytes in turn, and all write at the same time: neighbours share words.
    const BYTES: usize = 1024;
    let at = lab.alloc(BYTES as u64 / 8)?;
    let mut random = lab.common_random();
    for round in 1..=lab.rounds(40) as u8 {
        let mut expected = [0; BYTES];
        let mut start = 0;
        let mut turn = 0;
        lab.barrier()?;
        while start < BYTES {
            let len = (1 + random.below(13) as usize).min(BYTES - start);
            let owner = Rank((turn % lab.size()) as u32);
            let bytes = vec![round.wrapping_mul(31).wrapping_add(owner.0 as u8); len];
            if owner == lab.ra.rank() {
                for target in lab.ranks() {
                    lab.ra.put_bytes(target.at(at.plus(start as u64)), &bytes)?;
                }
            }
            expected[start..start + len].copy_from_slice(&bytes);
            (start, turn) = (start + len, turn + 1);
        }
        lab.barrier()?;
        let mut seen = [0; BYTES];
        lab.ra.get_bytes(lab.own(at), &mut seen)?;
        let wrong = (0..BYTES).find(|&i| seen[i] != expected[i]);
        require!(wrong.is_none(), "round {round}: byte {wrong:?} was overwritten by a put beside it");
    }
    Ok(())
}

pub(super) fn bulk_and_words_see_each_other<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let at = lab.alloc(lab.size())?.word(lab.me());
    let mut random = lab.random();
    for _ in 0..lab.rounds(200) {
        let word = lab.any_rank(&mut random).at(at);
        let (first, second, addend) = (random.next(), random.next(), random.next());
        lab.ra.put_bytes(word, &first.to_ne_bytes())?;
        let seen = lab.ra.fetch_add(word, addend)?;
        require!(seen == first, "bulk put of {first:#x}, then fetch_add returned {seen:#x}");
        let mut bytes = [0; 8];
        lab.ra.get_bytes(word, &mut bytes)?;
        let (seen, expected) = (u64::from_ne_bytes(bytes), first.wrapping_add(addend));
        require!(seen == expected, "fetch_add to {expected:#x}, then a bulk get of {seen:#x}");
        lab.ra.put(word, second)?;
        lab.ra.flush(word.rank)?;
        lab.ra.get_bytes(word, &mut bytes)?;
        let seen = u64::from_ne_bytes(bytes);
        require!(seen == second, "put of {second:#x} and flush, then a bulk get of {seen:#x}");
    }
    Ok(())
}

pub(super) fn bulk_scope_completes_before_the_flag<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // A scope of scattered puts, then one word: a rank that sees the word sees all bytes.
    const BYTES: usize = 600;
    let (data, flag, receipt) = (lab.alloc(BYTES as u64 / 8)?, lab.alloc(1)?, lab.alloc(1)?);
    let (to, from) = (lab.neighbour(1), lab.neighbour(lab.size() - 1));
    for round in 1..=lab.rounds(200) {
        let mut bytes = [0; BYTES];
        Random::new(round, lab.me()).fill(&mut bytes);
        bulk::scope(lab.ra, |bulk| {
            // In pieces of odd lengths, the last one first.
            let pieces = bytes.chunks(97).enumerate().collect::<Vec<_>>();
            pieces.iter().rev().try_for_each(|&(i, piece)| bulk.put(to.at(data.plus(97 * i as u64)), piece))
        })?;
        lab.ra.put(to.at(flag), round)?;
        lab.ra.wait_until(flag, Until::Eq(round))?;
        let (mut seen, mut expected) = ([0; BYTES], [0; BYTES]);
        lab.ra.get_bytes(lab.own(data), &mut seen)?;
        Random::new(round, u64::from(from.0)).fill(&mut expected);
        let wrong = (0..BYTES).find(|&i| seen[i] != expected[i]);
        require!(wrong.is_none(), "round {round}: the flag is there, but byte {wrong:?} of the earlier scope is not");
        lab.ra.put(from.at(receipt), round)?;
        lab.ra.wait_until(receipt, Until::Eq(round))?;
    }
    Ok(())
}

/// Puts any number of bytes, then a word that announces them, without a flush between.
pub(super) fn puts_keep_their_order_where_it_is_promised<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const BYTES: usize = 3000;
    let (bytes, told, read) = (lab.alloc(BYTES as u64 / WORD)?, lab.alloc(1)?, lab.alloc(1)?);
    let ra = lab.ra;
    if !ra.capabilities().ordered_puts {
        return Ok(());
    }
    let (next, last) = (lab.neighbour(1), lab.neighbour(lab.size() - 1));
    let mut random = lab.common_random();
    for round in 1..=lab.rounds(300) {
        let len = 1 + random.below(BYTES as u64) as usize;
        ra.post_bytes(next.at(bytes), &vec![round as u8; len])?;
        ra.put(next.at(told), round)?;
        ra.wait_until(told, Until::Ge(round))?;
        let mut seen = vec![0; len];
        ra.get_bytes(lab.own(bytes), &mut seen)?;
        require!(
            seen == vec![round as u8; len],
            "round {round}: the word announces {len} bytes that are not all there: {seen:x?}"
        );
        ra.put(last.at(read), round)?;
        ra.wait_until(read, Until::Ge(round))?;
    }
    Ok(())
}

pub(super) fn long_transfers<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const BYTES: usize = 64 << 10;
    let at = lab.alloc(BYTES as u64 / 8)?;
    let target = lab.neighbour(1);
    for (offset, len) in [(0, BYTES), (1, BYTES - 1), (3, BYTES - 7), (0, 4096), (8, 513), (5, 40_001)] {
        let mut bytes = vec![0; len];
        Random::new(len as u64, lab.me()).fill(&mut bytes);
        let place = target.at(at.plus(offset as u64));
        lab.ra.put_bytes(place, &bytes)?;
        let mut seen = vec![0; len];
        lab.ra.get_bytes(place, &mut seen)?;
        let wrong = (0..len).find(|&i| seen[i] != bytes[i]);
        require!(wrong.is_none(), "{len} bytes on {place}: byte {wrong:?} is wrong");
    }
    Ok(())
}

/// Fresh pages of this process, each time at the same address.
struct Pages {
    start: *mut u8,
    len: usize,
}

impl Pages {
    /// Reserves `len` bytes of addresses and maps zeroed pages there.
    fn new(len: usize) -> Result<Pages> {
        // SAFETY: a new mapping at an address of the kernel's choice aliases no memory of Rust's.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, Self::ACCESS, rustix::mm::MapFlags::PRIVATE)
        };
        let start = start.map_err(|error| Error::system(format!("mapping {len} bytes"), error))?;
        Ok(Pages { start: start.cast(), len })
    }

    const ACCESS: rustix::mm::ProtFlags = rustix::mm::ProtFlags::READ.union(rustix::mm::ProtFlags::WRITE);

    /// Gives the pages back to the kernel and maps zeroed ones at the same address.
    fn renew(&mut self) -> Result<()> {
        use rustix::mm::MapFlags;
        // SAFETY: the range is a mapping of `self`, which nothing borrows now (`&mut`). The call replaces it at once.
        let start = unsafe {
            rustix::mm::mmap_anonymous(self.start.cast(), self.len, Self::ACCESS, MapFlags::PRIVATE | MapFlags::FIXED)
        };
        start.map(drop).map_err(|error| Error::system(format!("mapping {} bytes anew", self.len), error))
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `self` owns the mapping, of initialized bytes, and is borrowed mutably as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by this value, and nothing borrows it any longer.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
    }
}

/// A buffer may be freed after a transfer, and other memory may be mapped at its address: transfers use the current
/// bytes.
pub(super) fn buffers_come_and_go<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // Long enough that a backend could pass the buffer itself to the network adapter.
    const BYTES: usize = 16 << 10;
    let at = lab.alloc(BYTES as u64 / WORD)?;
    let place = lab.neighbour(1).at(at);
    let (mut source, mut dest) = (Pages::new(BYTES)?, Pages::new(BYTES)?);
    for round in 1..=lab.rounds(20).max(3) as u8 {
        source.renew()?;
        source.bytes().fill(round);
        lab.ra.put_bytes(place, source.bytes())?;
        // Through another buffer, which is not one of these pages and is shorter than a page.
        let mut first = [0; 64];
        lab.ra.get_bytes(place, &mut first)?;
        require!(first == [round; 64], "round {round}: a put from a fresh buffer has written {:?}", first[0]);
        dest.renew()?;
        lab.ra.get_bytes(place, dest.bytes())?;
        let wrong = dest.bytes().iter().position(|&byte| byte != round);
        require!(
            wrong.is_none(),
            "round {round}: byte {wrong:?} of a fresh buffer differs from the byte that the get has read"
        );
    }
    Ok(())
}

pub(super) fn clears_zero_just_their_range<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    // Long enough to hold many pages, whole and in part.
    const BYTES: usize = 96 << 10;
    let at = lab.alloc(BYTES as u64 / WORD)?;
    let ra = lab.ra;
    let mut seen = vec![0; BYTES];
    for (start, len) in [(0, 0), (13, 1), (8, 8), (3, 4_099), (5_000, 70_001), (1_024, 90_000), (0, BYTES)] {
        lab.barrier()?;
        ra.put_bytes(lab.own(at), &[0xa5; BYTES])?;
        lab.barrier()?;
        // A rank that reads the memory has it mapped when it is zeroed.
        ra.get_bytes(lab.neighbour(1).at(at), &mut seen)?;
        require!(seen.iter().all(|&byte| byte == 0xa5), "{len} bytes at {start} differ from the put bytes");
        lab.barrier()?;
        ra.clear(at.plus(start as u64), len as u64)?;
        lab.barrier()?;
        for target in [ra.rank(), lab.neighbour(1)] {
            ra.get_bytes(target.at(at), &mut seen)?;
            let wrong = (0..BYTES).find(|&i| (seen[i] == 0) != (start..start + len).contains(&i));
            require!(wrong.is_none(), "after a clear of {len} bytes at {start} byte {wrong:?} of {target} is wrong");
        }
        lab.barrier()?;
        // Cleared memory is usable like any other memory.
        if len >= WORD as usize {
            let word = lab.own(at.plus(start.next_multiple_of(WORD as usize) as u64));
            let old = ra.fetch_add(word, 7)?;
            require!(old == 0 && ra.get(word)? == 7, "a cleared word does not count");
        }
    }
    let end = ra.heap().end().0;
    for (own, len) in [(Disp(end), 1), (Disp(end - WORD), WORD + 1), (Disp(u64::MAX), 1), (Disp(u64::MAX - 7), 100)] {
        let outcome = ra.clear(own, len);
        require!(matches!(outcome, Err(Error::OutOfSegment { .. })), "a clear of {len} bytes at {own}: {outcome:?}");
    }
    Ok(())
}

pub(super) fn local_words_are_the_words<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const WORDS: u64 = 8;
    let at = lab.alloc(lab.size() * WORDS)?.word(lab.me() * WORDS);
    let ra = lab.ra;
    for target in lab.ranks() {
        let Some(words) = ra.local_words(target.at(at), WORDS) else { continue };
        require!(words.len() == WORDS && words.get(WORDS).is_none(), "{WORDS} words were requested: {words:?}");
        for i in 0..WORDS {
            let same = target.at(at.word(i));
            let word = words.get(i);
            require!(word.is_some(), "{same}: no local word");
            let Some(word) = word else { continue };
            ra.fetch_store(same, i + 1)?;
            let seen = word.load()?;
            require!(seen == i + 1, "{same}: fetch_store of {}, and the local word is {seen}", i + 1);
            word.store(i + 2)?;
            let seen = word.load()?;
            require!(seen == i + 2, "{same}: a store of {}, and the rank itself loads {seen}", i + 2);
            ra.stored();
            ra.flush(target)?;
            let seen = ra.fetch_add(same, 10)?;
            require!(seen == i + 2, "{same}: a flushed store of {}, and fetch_add returned {seen}", i + 2);
            let seen = word.atomic(WordOp::CompareAndSwap { expected: i + 12, desired: i })?;
            require!(seen == i + 12, "{same}: an atomic operation on the local word returned {seen}");
            let seen = ra.get(same)?;
            require!(seen == i, "{same}: an atomic operation stored {i}, and get returned {seen}");
        }
        let end = ra.heap().end().0;
        for (at, words) in [(target.at(at.plus(4)), 1), (target.at(Disp(end - WORD)), 2), (target.at(Disp(end)), 1)] {
            require!(ra.local_words(at, words).is_none(), "{words} words on {at} exist");
        }
        require!(ra.local_words(Rank(ra.size()).at(at), 1).is_none(), "words of no rank exist");
    }
    Ok(())
}

pub(super) fn shared_words_are_the_words<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    const WORDS: u64 = 8;
    let at = lab.alloc(lab.size() * WORDS)?.word(lab.me() * WORDS);
    let ra = lab.ra;
    for target in lab.ranks() {
        let Some(words) = ra.shared_words(target.at(at), WORDS) else {
            // If some words are not shared, none are, at any address.
            require!(
                ra.shared_words(target.at(at), 0).is_none(),
                "{target} does not share all words, but shares some of them"
            );
            continue;
        };
        require!(words.len() as u64 == WORDS, "{WORDS} words were requested, but {} returned", words.len());
        for (i, word) in (0..).zip(words) {
            let same = target.at(at.word(i));
            ra.put_bytes(same, &(i + 1).to_ne_bytes())?;
            let seen = word.fetch_add(10, Ordering::SeqCst);
            require!(seen == i + 1, "{same}: put {}, and the shared word is {seen}", i + 1);
            let seen = ra.fetch_add(same, 100)?;
            require!(seen == i + 11, "{same}: the shared word is {}, and fetch_add returned {seen}", i + 11);
            require!(word.load(Ordering::SeqCst) == i + 111, "{same}: fetch_add has changed something else");
        }
        if let Some(direct) = ra.direct_words(target.at(at), WORDS) {
            require!(std::ptr::eq(words, direct), "{target}: direct words are other words than the shared ones");
        }
        if target == ra.rank()
            && let Some(own) = ra.own_words(at, WORDS)
        {
            require!(std::ptr::eq(words, own), "{target}: own words are other words than the shared ones");
        }
        let end = ra.heap().end().0;
        let outside = [
            (target.at(at.plus(4)), 1),
            (target.at(Disp(end)), 1),
            (target.at(Disp(end - WORD)), 2),
            (target.at(Disp(0)), end / WORD + 1),
            (target.at(Disp(0)), u64::MAX),
            (target.at(Disp(8)), 1 << 61),
            (target.at(Disp(u64::MAX - 7)), 1),
            (Rank(ra.size()).at(at), 1),
        ];
        for (at, words) in outside {
            require!(ra.shared_words(at, words).is_none(), "{words} words on {at} exist");
            let own = at.rank == ra.rank() && ra.own_words(at.disp, words).is_some();
            require!(!own, "{words} own words on {at} exist");
        }
        let last = ra.shared_words(target.at(Disp(end - WORD)), 1);
        require!(last.is_some_and(|words| words.len() == 1), "the last word of the segment is shared, too");
        let own = ra.own_words(Disp(end - WORD), 1);
        require!(own.is_none_or(|words| words.len() == 1), "the last word of the segment is this rank's own, too");
    }
    Ok(())
}
