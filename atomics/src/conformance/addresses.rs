//! Addresses that do not exist: the right error with the right fields, and no effect.

use super::{Lab, Outcome, require};
use crate::{Address, Disp, Error, Operation, Rank, RemoteAtomics, Result, Time, Until, WORD};

/// A word operation with its name. If the address existed, each of them would change a word, or end a wait at once.
type WordOperation<A> = (Operation, fn(&A, Address) -> Result<()>);

fn word_operations<A: RemoteAtomics + ?Sized>() -> [WordOperation<A>; 6] {
    [
        (Operation::FetchAdd, |ra, at| ra.fetch_add(at, 1).map(drop)),
        (Operation::CompareAndSwap, |ra, at| ra.compare_and_swap(at, PATTERN, 1).map(drop)),
        (Operation::CompareAndSwap, |ra, at| ra.compare_and_swap(at, 0, 1).map(drop)),
        (Operation::FetchStore, |ra, at| ra.fetch_store(at, 1).map(drop)),
        (Operation::Get, |ra, at| ra.get(at).map(drop)),
        (Operation::Put, |ra, at| ra.put(at, 1)),
    ]
}

/// The value of all words of the region, so that a write would be visible.
const PATTERN: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// The number of words of the region.
const WORDS: u64 = 32;

/// Fills the region of this rank, lets all ranks run `body`, and checks that nothing has changed.
fn unchanged<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>, body: impl FnOnce(Disp) -> Outcome) -> Outcome {
    let ra = lab.ra;
    let region = lab.alloc(WORDS)?;
    let end = ra.heap().end().0;
    for i in 0..WORDS {
        ra.fetch_store(lab.own(region.word(i)), PATTERN)?;
    }
    let last = ra.get(lab.own(Disp(end - WORD)))?;
    lab.barrier()?;
    body(region)?;
    lab.complete_barrier()?;
    for i in 0..WORDS {
        let word = ra.get(lab.own(region.word(i)))?;
        require!(word == PATTERN, "a refused operation changed {} to {word:#x}", region.word(i));
    }
    let now = ra.get(lab.own(Disp(end - WORD)))?;
    require!(now == last, "a refused operation changed the last word of the segment to {now:#x}");
    Ok(())
}

/// Returns whether `outcome` is the error for a rank that does not exist.
fn refuses_rank(outcome: &Result<()>, named: Operation, target: Rank, ranks: u32) -> bool {
    matches!(outcome, Err(Error::RankOutOfRange { operation, rank, size })
        if (*operation, *rank, *size) == (named, target, ranks))
}

fn refuses_alignment(outcome: &Result<()>, named: Operation, address: Address) -> bool {
    matches!(outcome, Err(Error::Misaligned { operation, at }) if (*operation, *at) == (named, address))
}

fn refuses_range(outcome: &Result<()>, named: Operation, address: Address, bytes: u64, end: u64) -> bool {
    matches!(outcome, Err(Error::OutOfSegment { operation, at, len, segment })
        if (*operation, *at, *len, *segment) == (named, address, bytes, end))
}

/// Returns aligned displacements of words outside a segment of `end` bytes, a multiple of 8.
fn beyond(end: u64) -> [Disp; 6] {
    let half = (1 << 63) + WORD;
    [end, end + WORD, end + 4096, u64::from(u32::MAX) + 1 + end, half, u64::MAX - 7].map(Disp)
}

/// Returns displacements that are neither aligned nor in the segment, for which either error is correct.
fn beyond_and_misaligned(end: u64) -> [Disp; 4] {
    [end - 4, end + 1, u64::MAX, u64::MAX - 6].map(Disp)
}

pub(super) fn word_operations_refuse_bad_addresses<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let (ra, size, end) = (lab.ra, lab.ra.size(), lab.ra.heap().end().0);
    unchanged(lab, |region| {
        for (operation, call) in word_operations::<A>() {
            for rank in [size, size + 1, u32::MAX].map(Rank) {
                for disp in [region, Disp(0), Disp(u64::MAX - 7), Disp(end)] {
                    let seen = call(ra, rank.at(disp));
                    require!(refuses_rank(&seen, operation, rank, size), "{operation} on {rank} at {disp}: {seen:?}");
                }
            }
            for target in lab.ranks() {
                for offset in (1..8).chain([12, 65]) {
                    let at = target.at(region.plus(offset));
                    let seen = call(ra, at);
                    require!(refuses_alignment(&seen, operation, at), "{operation} on {at}: {seen:?}");
                }
                for at in beyond(end).map(|disp| target.at(disp)) {
                    let seen = call(ra, at);
                    require!(refuses_range(&seen, operation, at, WORD, end), "{operation} on {at}: {seen:?}");
                }
                for at in beyond_and_misaligned(end).map(|disp| target.at(disp)) {
                    let seen = call(ra, at);
                    require!(
                        refuses_range(&seen, operation, at, WORD, end) || refuses_alignment(&seen, operation, at),
                        "{operation} on {at}: {seen:?}"
                    );
                }
            }
        }
        Ok(())
    })
}

pub(super) fn bulk_operations_refuse_bad_addresses<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let (ra, size, end) = (lab.ra, lab.ra.size(), lab.ra.heap().end().0);
    unchanged(lab, |region| {
        let source = [0x11; 64];
        let mut dest = [0x22; 64];
        let mut both = |at: Address, len: usize| {
            let put = ra.put_bytes(at, &source[..len]);
            let get = ra.get_bytes(at, &mut dest[..len]);
            (put, get, dest.iter().all(|&byte| byte == 0x22))
        };
        for rank in [size, size + 1, u32::MAX].map(Rank) {
            for (disp, len) in [(region, 8), (region, 0), (Disp(end), 8), (Disp(u64::MAX), 64)] {
                let (put, get, untouched) = both(rank.at(disp), len);
                let right = refuses_rank(&put, Operation::PutBytes, rank, size)
                    && refuses_rank(&get, Operation::GetBytes, rank, size);
                require!(right && untouched, "{len} bytes on {rank} at {disp}: put {put:?}, get {get:?}");
            }
        }
        for target in lab.ranks() {
            let cases = [
                (end, 1),
                (end - 1, 2),
                (end - 7, 8),
                (end - 63, 64),
                (end + 1, 1),
                (end + 4096, 64),
                (u64::MAX, 1),
                (u64::MAX - 7, 8),
                (u64::MAX - 3, 64),
            ];
            for (disp, len) in cases {
                let at = target.at(Disp(disp));
                let (put, get, untouched) = both(at, len);
                let right = refuses_range(&put, Operation::PutBytes, at, len as u64, end)
                    && refuses_range(&get, Operation::GetBytes, at, len as u64, end);
                require!(right && untouched, "{len} bytes on {at}: put {put:?}, get {get:?}");
            }
        }
        let mut all_and_one = vec![0; end as usize + 1];
        let at = lab.own(Disp(0));
        let put = ra.put_bytes(at, &all_and_one);
        require!(refuses_range(&put, Operation::PutBytes, at, end + 1, end), "one byte too many: {put:?}");
        let get = ra.get_bytes(at, &mut all_and_one);
        require!(refuses_range(&get, Operation::GetBytes, at, end + 1, end), "one byte too many: {get:?}");
        Ok(())
    })
}

pub(super) fn waits_and_flushes_refuse_bad_addresses<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let (ra, size, end) = (lab.ra, lab.ra.size(), lab.ra.heap().end().0);
    for rank in [size, u32::MAX].map(Rank) {
        let seen = ra.flush(rank);
        require!(refuses_rank(&seen, Operation::Flush, rank, size), "flush of {rank}: {seen:?}");
        let seen = lab.ra.order(rank);
        require!(refuses_rank(&seen, Operation::Order, rank, size), "order of {rank}: {seen:?}");
    }
    for target in lab.ranks() {
        ra.flush(target)?;
    }
    // A condition that always holds, so that the wait ends on a backend that looks at another word.
    let always = Until::Ge(0);
    let wait = |disp| {
        let with_deadline = ra.wait_until_deadline(disp, always, Time(u64::MAX)).map(drop);
        [ra.wait_until(disp, always).map(drop), with_deadline]
    };
    let region = lab.alloc(2)?;
    for disp in (1..8).map(|offset| region.plus(offset)) {
        let seen = wait(disp);
        let right = seen.iter().all(|seen| refuses_alignment(seen, Operation::WaitUntil, lab.own(disp)));
        require!(right, "waits at {disp}: {seen:?}");
    }
    for disp in beyond(end) {
        let seen = wait(disp);
        let right = seen.iter().all(|seen| refuses_range(seen, Operation::WaitUntil, lab.own(disp), WORD, end));
        require!(right, "waits at {disp}: {seen:?}");
    }
    for disp in beyond_and_misaligned(end) {
        let seen = wait(disp);
        require!(seen.iter().all(Result::is_err), "waits at {disp}: {seen:?}");
    }
    Ok(())
}

pub(super) fn the_whole_segment_exists<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let (ra, end) = (lab.ra, lab.ra.heap().end().0);
    require!(end.is_multiple_of(WORD), "a segment of {end} bytes is not a whole number of words");
    for target in lab.ranks() {
        for disp in [Disp(0), Disp(end - WORD)] {
            // Additions of 0, since the words may belong to other code.
            ra.fetch_add(target.at(disp), 0)?;
            ra.get(target.at(disp))?;
        }
        let mut bytes = [0; 64];
        for len in [0, 1, 7, 8, 9, 64] {
            ra.get_bytes(target.at(Disp(end - len)), &mut bytes[..len as usize])?;
        }
        ra.put_bytes(target.at(Disp(end)), &[])?;
    }
    Ok(())
}
