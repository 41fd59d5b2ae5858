//! The guarantees of registered memory on every backend that has it. All ranks of a world call each function.

use std::ptr::NonNull;
use std::time::Duration;

use rmalab_atomics::registered::{RegisteredKey, UserMemory};
use rmalab_atomics::{Collectives, Error, Operation, Rank, RemoteAtomics, Until};

/// The number of ranks of the checks.
pub(crate) const RANKS: u32 = 3;

/// Random numbers for the choice of tests (Knuth's generator, MMIX).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// Returns `len` zeroed bytes that start `skew` bytes after a word.
pub(crate) fn skewed(len: usize, skew: usize) -> UserMemory {
    let mut words = vec![0u64; (skew + len).div_ceil(8) + 1];
    let start = NonNull::new(words.as_mut_ptr()).unwrap().cast::<u8>();
    // SAFETY: the bytes lie in the vector, which the memory owns and nothing else accesses.
    unsafe { UserMemory::from_raw(start.add(skew), len, Box::new(words)) }
}

/// Returns the keys of all ranks.
pub(crate) fn exchange(collectives: &Collectives<'_, impl RemoteAtomics>, key: RegisteredKey) -> Vec<RegisteredKey> {
    collectives.allgather(&[key.0]).unwrap().into_iter().map(RegisteredKey).collect()
}

/// Returns all bytes of the memory of `rank`, through a pin.
pub(crate) fn contents(ra: &impl RemoteAtomics, rank: Rank, key: RegisteredKey) -> Vec<u8> {
    let pin = ra.pin(rank, key).unwrap();
    let mut bytes = vec![0; pin.bytes() as usize];
    pin.get(0, &mut bytes).unwrap();
    bytes
}

/// Ranks write in turn to all ranks' memory, and all ranks read the values of their model.
pub(crate) fn agrees_with_a_model(ra: &impl RemoteAtomics) {
    let collectives = Collectives::new(ra).unwrap();
    let me = ra.rank().index();
    for (base, skew) in [(0, 0), (1, 3), (7, 1), (8, 0), (23, 5), (64, 7), (1021, 2), (70_001, 0), (300_003, 6)] {
        let len = |rank: usize| if base == 0 { rank } else { base + 2 * rank };
        let key = ra.register(skewed(len(me), (skew + me) % 8)).unwrap();
        let keys = exchange(&collectives, key);
        let pins: Vec<_> = (0..ra.size()).map(|rank| ra.pin(Rank(rank), keys[rank as usize]).unwrap()).collect();
        let mut model: Vec<Vec<u8>> = (0..pins.len()).map(|rank| vec![0; len(rank)]).collect();
        // The random numbers are the same on all ranks.
        let mut random = Random(base as u64);
        for turn in 0..9 {
            let writer = turn % pins.len();
            for rank in 0..pins.len() {
                let len = len(rank);
                assert_eq!(pins[rank].bytes(), len as u64);
                // Short memory is tested at all offsets in all lengths, long memory at some.
                let ranges: Vec<(usize, usize)> = if len <= 16 {
                    (0..=len).flat_map(|at| (0..=len - at).map(move |part| (at, part))).collect()
                } else {
                    let mut range = || {
                        let at = random.below(len as u64 + 1);
                        (at as usize, random.below(len as u64 - at + 1) as usize)
                    };
                    (0..6).map(|_| range()).collect()
                };
                for (at, part) in ranges {
                    let bytes = random.bytes(part);
                    if writer == me {
                        pins[rank].put(at as u64, &bytes).unwrap();
                        let mut back = vec![0; part];
                        pins[rank].get(at as u64, &mut back).unwrap();
                        assert_eq!(back, bytes, "{part} of {len} bytes at {at} of rank {rank}");
                    }
                    model[rank][at..at + part].copy_from_slice(&bytes);
                }
                if writer == me {
                    ra.flush(Rank(rank as u32)).unwrap();
                }
            }
            collectives.barrier().unwrap();
            for rank in 0..pins.len() {
                let mut all = vec![0; len(rank)];
                pins[rank].get(0, &mut all).unwrap();
                assert!(all == model[rank], "turn {turn}: rank {rank} with {} bytes", all.len());
                if let Some(words) = pins[rank].words() {
                    let words_at = |i: usize| words.words[i].load(std::sync::atomic::Ordering::Relaxed);
                    let seen: Vec<u8> = (0..words.words.len()).flat_map(|i| words_at(i).to_ne_bytes()).collect();
                    let head = words.head as usize;
                    assert!(head < 8 && (len(rank) - head - seen.len() < 8), "all words that there are");
                    assert_eq!(seen, model[rank][head..head + seen.len()]);
                }
            }
            collectives.barrier().unwrap();
        }
        drop(pins);
        let memory = ra.deregister(key).unwrap();
        assert_eq!(memory.len(), len(me));
    }
}

/// Memory is returned with its type, and with the writes of others.
pub(crate) fn memory_comes_back(ra: &impl RemoteAtomics) {
    let collectives = Collectives::new(ra).unwrap();
    let size = ra.size() as usize;
    let mut own: Vec<u32> = (0..2 * size as u32).collect();
    let place = own.as_ptr();
    for round in 0..50u32 {
        let key = ra.register(UserMemory::from_vec(own)).unwrap();
        let keys = exchange(&collectives, key);
        for (rank, &key) in keys.iter().enumerate() {
            let pin = ra.pin(Rank(rank as u32), key).unwrap();
            let value = 1000 * round + 10 * rank as u32 + ra.rank().0;
            pin.put(4 * (size as u64 + u64::from(ra.rank().0)), &value.to_ne_bytes()).unwrap();
        }
        ra.flush_all().unwrap();
        collectives.barrier().unwrap();
        let memory = ra.deregister(key).unwrap().into_vec::<u64>().expect_err("it is a vector of u32");
        own = memory.into_vec().expect("a vector of u32");
        assert_eq!(own.as_ptr(), place);
        let written: Vec<u32> = (0..ra.size()).map(|by| 1000 * round + 10 * ra.rank().0 + by).collect();
        assert_eq!(own[..size], (0..ra.size()).collect::<Vec<u32>>());
        assert_eq!(own[size..], written);
    }
}

/// Keys, ranks and ranges that do not exist are refused, without effect.
pub(crate) fn refusals(ra: &impl RemoteAtomics) {
    let collectives = Collectives::new(ra).unwrap();
    let pattern = vec![0x5au8; 100];
    let key = ra.register(UserMemory::from_vec(pattern.clone())).unwrap();
    let keys = exchange(&collectives, key);
    let not_registered = |rank: Rank, key: RegisteredKey| {
        let error = ra.pin(rank, key).unwrap_err();
        assert!(
            matches!(error, Error::NotRegistered { rank: named, key: asked } if (named, asked) == (rank, key)),
            "{error}"
        );
    };
    for rank in (0..ra.size()).map(Rank) {
        let right = keys[rank.index()].0;
        for wrong in
            [0, 1, right + 1, right + 1023, right + 1024, right + (1 << 32), right & !0 >> 32, !0, right | 1 << 63]
        {
            not_registered(rank, RegisteredKey(wrong));
        }
        let pin = ra.pin(rank, keys[rank.index()]).unwrap();
        for (offset, len) in [(100, 1), (101, 0), (0, 101), (99, 2), (u64::MAX, 1), (u64::MAX, 0), (1 << 63, 8)] {
            let error = pin.put(offset, &vec![1; len]).unwrap_err();
            let right = matches!(error, Error::OutOfRegistered { rank: named, offset: at, len: asked, bytes: 100 }
                if (named, at, asked) == (rank, offset, len as u64));
            assert!(right, "{error}");
            let mut dest = vec![7; len];
            assert!(matches!(pin.get(offset, &mut dest), Err(Error::OutOfRegistered { .. })));
            assert_eq!(dest, vec![7; len]);
        }
        pin.put(100, &[]).unwrap();
        pin.get(100, &mut []).unwrap();
    }
    let error = ra.pin(Rank(ra.size()), key).unwrap_err();
    assert!(matches!(error, Error::RankOutOfRange { operation: Operation::Pin, .. }), "{error}");
    assert!(matches!(ra.deregister(RegisteredKey(key.0 + 1)), Err(Error::NotRegistered { .. })));
    collectives.barrier().unwrap();
    for rank in (0..ra.size()).map(Rank) {
        assert_eq!(contents(ra, rank, keys[rank.index()]), pattern);
    }
    collectives.barrier().unwrap();
    ra.deregister(key).unwrap();
    assert!(matches!(ra.deregister(key), Err(Error::NotRegistered { .. })));
    collectives.barrier().unwrap();
    for rank in (0..ra.size()).map(Rank) {
        not_registered(rank, keys[rank.index()]);
    }
    collectives.barrier().unwrap();
    // The place may be the same, but the key never is.
    let again = ra.register(UserMemory::from_vec(pattern)).unwrap();
    collectives.barrier().unwrap();
    for rank in (0..ra.size()).map(Rank) {
        not_registered(rank, keys[rank.index()]);
    }
    collectives.barrier().unwrap();
    ra.deregister(again).unwrap();
}

/// Rank 0 deregisters while the others have pins. Returns the processor time that the wait took, in nanoseconds.
pub(crate) fn a_deregistration_waits_for_the_pins(ra: &impl RemoteAtomics) -> u64 {
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let word = ra.heap().alloc(8, 8).unwrap();
    let collectives = Collectives::new(ra).unwrap();
    let key = ra.register(UserMemory::from_vec(vec![0u8; 9])).unwrap();
    let keys = exchange(&collectives, key);
    let pin = (ra.rank() != Rank(0)).then(|| ra.pin(Rank(0), keys[0]).unwrap());
    collectives.barrier().unwrap();
    let mut used = 0;
    if let Some(pin) = pin {
        let me = ra.rank().0;
        ra.wait_until(word, Until::Ge(1)).unwrap();
        // Soon new pins are refused, while this rank still writes.
        while let Ok(another) = ra.pin(Rank(0), keys[0]) {
            drop(another);
            ra.pause(100).unwrap();
        }
        // The pins end one after the other, so that the last pin is not the first one that the owner checks.
        ra.wait_until(word, Until::Ge(u64::from(me))).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        pin.put(u64::from(me), &[me as u8; 7]).unwrap();
        drop(pin);
        if me + 1 < ra.size() {
            ra.fetch_store(Rank(me + 1).at(word), u64::from(me) + 1).unwrap();
        }
    } else {
        for rank in 1..ra.size() {
            ra.fetch_store(Rank(rank).at(word), 1).unwrap();
        }
        let before = clock();
        let memory = ra.deregister(key).unwrap().into_vec::<u8>().unwrap();
        used = clock() - before;
        assert_eq!(memory, [0, 1, 2, 2, 2, 2, 2, 2, 2]);
    }
    collectives.barrier().unwrap();
    if ra.rank() != Rank(0) {
        ra.deregister(key).unwrap();
    }
    used
}

/// Rank 0 registers and deregisters as fast as it can, and the others access all memory that they can pin.
pub(crate) fn nothing_is_written_after_a_deregistration(ra: &impl RemoteAtomics) {
    const LEN: usize = 200;
    let word = ra.heap().alloc(16, 8).unwrap();
    let granted = word.word(1);
    let collectives = Collectives::new(ra).unwrap();
    let until = ra.now().after(Duration::from_millis(400));
    if ra.rank() == Rank(0) {
        let mut random = Random(1);
        let mut rounds = 0u64;
        // At least this many rounds, even on a slow machine.
        while ra.now() < until || rounds < 200 {
            let key = ra.register(skewed(LEN, rounds as usize % 8)).unwrap();
            for rank in 1..ra.size() {
                ra.fetch_store(Rank(rank).at(word), key.0).unwrap();
            }
            if rounds.is_multiple_of(4) {
                // In some rounds the test makes sure that there are pins.
                let before = ra.get(Rank(0).at(granted)).unwrap();
                ra.wait_until(granted, Until::Ne(before)).unwrap();
            }
            ra.pause(random.below(200) as u32).unwrap();
            let memory = ra.deregister(key).unwrap();
            // SAFETY: the memory has come back, so only this rank accesses it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr(), LEN) };
            assert!(bytes.iter().all(|&byte| u32::from(byte) < ra.size()), "only what ranks write");
            bytes.fill(0xee);
            ra.pause(random.below(100) as u32).unwrap();
            assert!(std::hint::black_box(bytes).iter().all(|&byte| byte == 0xee), "written after the deregistration");
            rounds += 1;
        }
        for rank in 1..ra.size() {
            ra.fetch_store(Rank(rank).at(word), u64::MAX).unwrap();
        }
    } else {
        let mut random = Random(u64::from(ra.rank().0));
        let (mut key, mut bytes) = (0, [0; LEN]);
        while key != u64::MAX {
            match ra.pin(Rank(0), RegisteredKey(key)) {
                Ok(pin) => {
                    ra.fetch_add(Rank(0).at(granted), 1).unwrap();
                    for _ in 0..random.below(4) {
                        let at = random.below(LEN as u64 + 1);
                        let len = random.below(LEN as u64 - at + 1) as usize;
                        pin.put(at, &vec![ra.rank().0 as u8; len]).unwrap();
                        pin.get(0, &mut bytes).unwrap();
                        assert!(bytes.iter().all(|&byte| u32::from(byte) < ra.size()), "{bytes:?}");
                    }
                }
                Err(Error::NotRegistered { .. }) => ra.pause(5).unwrap(),
                Err(error) => panic!("{error}"),
            }
            key = ra.get(ra.rank().at(word)).unwrap();
        }
    }
    collectives.barrier().unwrap();
}

/// The number of places is `limit`, which the error reports, and freed places are reused.
pub(crate) fn used_up_places_are_reused(ra: &impl RemoteAtomics, limit: usize) {
    let register = || ra.register(UserMemory::from_vec(vec![ra.rank().0]));
    let mut keys = Vec::new();
    let refused = loop {
        match register() {
            Ok(key) => keys.push(key),
            Err(refused) => break refused,
        }
        assert!(keys.len() <= limit, "places without an end");
    };
    assert!(matches!(refused.error, Error::RegistrationFull { limit: full, .. } if full == limit as u64), "{refused}");
    assert_eq!(refused.memory.into_vec::<u32>().unwrap(), [ra.rank().0], "the memory was returned");
    assert_eq!(keys.len(), limit);
    ra.deregister(keys.remove(500)).unwrap();
    keys.push(register().unwrap());
    register().unwrap_err();
    for &key in &keys {
        assert_eq!(contents(ra, ra.rank(), key), ra.rank().0.to_ne_bytes());
    }
    for key in keys {
        ra.deregister(key).unwrap();
    }
    ra.deregister(register().unwrap()).unwrap();
}
