//! The guarantees of global memory, on units that are all on one node, each on its own node, or a mix.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmalab_atomics::{Counted, Counts, Mapped, Output, Rank, RemoteAtomics, Topology, World};
use rmalab_windows::{Call, Error, GlobalMemory, GlobalPtr, Handle, Op, Pair, Reserve, Result, Team};

const RESERVE: Reserve = Reserve { collective: 128 << 10, pool: 4 << 10 };

/// Runs `body` on threads, `per_node` of them on each node.
fn on<T: Send>(units: u32, per_node: u32, body: impl Fn(&GlobalMemory<'_, Mapped>) -> Result<T> + Sync) -> Vec<T> {
    let world = World::threads(units).segment_bytes(2 << 20);
    let world = world.topology(Topology::blocks(units, per_node, 1).unwrap());
    let results = world.run(|ra| {
        let team = Team::new(ra).unwrap();
        let free = ra.heap().free_bytes();
        let result = GlobalMemory::run(&team, RESERVE, &body).unwrap();
        assert_eq!(ra.heap().free_bytes(), free, "all memory is given back");
        result
    });
    results.unwrap()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Neighbouring bytes of one unit, and their expected values.
struct Block {
    start: GlobalPtr,
    bytes: Vec<u8>,
}

/// A random program. Every unit runs all of it on its model, and its own part of it on the memory.
///
/// In every phase the units share the bytes of all blocks in runs, which begin and end within words. Each unit writes
/// only its own runs, so the outcome is defined. After a barrier all units compare all bytes.
struct Program<'p, 'm> {
    memory: &'p GlobalMemory<'m, Mapped>,
    random: Random,
    /// Live collective allocations, with the blocks of all units.
    collective: Vec<Vec<Block>>,
    /// Live allocations of single units.
    single: Vec<Block>,
}

impl<'m> Program<'_, 'm> {
    fn allocate(&mut self) -> Result<()> {
        let (memory, size) = (self.memory, self.memory.team().size());
        if self.random.below(3) > 0 {
            let long = if self.random.below(4) == 0 { 1_500 } else { 150 };
            let len = 1 + self.random.below(long);
            let first = memory.team_memalloc_aligned(len as u64)?;
            let blocks = (0..size).map(|unit| Block { start: first.at_unit(Rank(unit)), bytes: vec![0; len] });
            self.collective.push(blocks.collect());
        }
        if !self.collective.is_empty() && self.random.below(3) == 0 {
            let blocks = self.collective.swap_remove(self.random.below(self.collective.len()));
            memory.team_memfree(blocks[self.random.below(blocks.len())].start)?;
        }
        // The other units learn of these through a collective.
        let owner = Rank(self.random.below(size as usize) as u32);
        let len = 1 + self.random.below(60);
        let mine = if owner == memory.rank() { memory.memalloc(len as u64)? } else { GlobalPtr::NULL };
        let mut words = mine.to_words();
        memory.team().broadcast(owner, &mut words)?;
        self.single.push(Block { start: GlobalPtr::from_words(words), bytes: vec![0; len] });
        if self.random.below(2) == 0 {
            let block = self.single.swap_remove(self.random.below(self.single.len()));
            if block.start.unit() == memory.rank() {
                memory.memfree(block.start)?;
            }
        }
        // No unit writes to memory that is not zeroed yet.
        memory.team().barrier()?;
        Ok(())
    }

    /// `actor` makes an operation on its runs of every block.
    fn act(&mut self, actor: Rank, run: usize) -> Result<()> {
        let memory = self.memory;
        let (mine, units) = (actor == memory.rank(), memory.team().size() as usize);
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for block in self.collective.iter_mut().flatten().chain(&mut self.single) {
            let starts = (0..block.bytes.len()).step_by(run).skip(actor.index()).step_by(units);
            for start in starts.collect::<Vec<_>>() {
                let at = block.start.plus(start as i64);
                let end = (start + run).min(block.bytes.len());
                let (bytes, choice) = (&mut block.bytes[start..end], self.random.below(6));
                let fresh: Vec<u8> = bytes.iter().map(|_| self.random.next() as u8).collect();
                match choice {
                    0 if mine => memory.put(at, &fresh)?,
                    1 if mine => puts.push(memory.put_handle(at, fresh.clone())?),
                    2 if mine => {
                        let mut seen = vec![0; bytes.len()];
                        memory.get(at, &mut seen)?;
                        assert_eq!(seen, bytes, "get at {at}");
                    }
                    3 if mine => gets.push((at, bytes.to_vec(), memory.get_handle(at, vec![0; bytes.len()])?)),
                    4 if mine => assert_eq!(memory.fetch_and_op(at, Op::BitXor, fresh[0])?, bytes[0], "fetch at {at}"),
                    5 if mine => {
                        let expected = if fresh[0].is_multiple_of(2) { bytes[0] } else { !bytes[0] };
                        assert_eq!(memory.compare_and_swap(at, expected, fresh[0])?, bytes[0], "swap at {at}");
                    }
                    _ => {}
                }
                match choice {
                    0 | 1 => bytes.copy_from_slice(&fresh),
                    4 => bytes[0] ^= fresh[0],
                    5 if fresh[0].is_multiple_of(2) => bytes[0] = fresh[0],
                    _ => {}
                }
            }
        }
        for (at, expected, get) in gets {
            assert_eq!(get.wait()?, expected, "get with a handle at {at}");
        }
        Handle::wait_all(puts)?;
        Ok(())
    }

    /// All of the memory equals the model.
    fn compare(&self) -> Result<()> {
        for block in self.collective.iter().flatten().chain(&self.single) {
            let mut seen = vec![0; block.bytes.len()];
            self.memory.get(block.start, &mut seen)?;
            assert_eq!(seen, block.bytes, "at {}", block.start);
            let whole = block.bytes.len() as u64 / 8 * 8;
            if let Some(words) = self.memory.local(block.start, whole)? {
                let seen: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes()).collect();
                assert_eq!(seen, block.bytes[..whole as usize], "words at {}", block.start);
            }
        }
        Ok(())
    }

    /// Runs the program, and returns a digest of all pointers and bytes.
    fn run(memory: &GlobalMemory<'m, Mapped>, seed: u64) -> Result<u64> {
        let mut program = Program { memory, random: Random(seed), collective: Vec::new(), single: Vec::new() };
        let units = memory.team().size();
        for _ in 0..12 {
            program.allocate()?;
            let shortest = if program.random.below(4) == 0 { 505 } else { 1 };
            let run = shortest + program.random.below(12);
            for actor in (0..units).map(Rank) {
                program.act(actor, run)?;
            }
            memory.team().barrier()?;
            program.compare()?;
            memory.team().barrier()?;
        }
        let mut digest = Random(seed);
        for block in program.collective.iter().flatten().chain(&program.single) {
            for word in block.start.to_words().into_iter().chain(block.bytes.iter().map(|&byte| u64::from(byte))) {
                digest.0 ^= word;
                digest.next();
            }
        }
        Ok(digest.next())
    }
}

/// The same programs have the same results for all placements of the units.
#[test]
fn random_programs_agree_with_a_model_on_any_nodes() {
    for seed in 0..25 {
        for units in [1, 3, 6] {
            let digests = |per_node| on(units, per_node, |memory| Program::run(memory, seed));
            let alone = digests(1);
            assert!(alone.iter().all(|digest| *digest == alone[0]), "{alone:?}");
            assert_eq!(digests(2), alone);
            assert_eq!(digests(units), alone);
        }
    }
}

fn on_processes(test: &str, units: u32, per_node: u32) {
    let program = std::env::current_exe().unwrap();
    let world = World::processes(units).segment_bytes(2 << 20).ranks_per_node(per_node);
    // The ranks run this same test, and do not return from the call.
    let world = world.command(program, [test, "--exact", "--nocapture", "--test-threads=1"]);
    let world = world.output(Output::Discard).time_limit(Duration::from_secs(120));
    let digests = world.try_run(|ra| {
        let team = Team::new(ra)?;
        (0..10)
            .map(|seed| GlobalMemory::run(&team, RESERVE, |memory| Program::run(memory, seed)))
            .collect::<Result<Vec<u64>>>()
    });
    let expected: Vec<u64> = (0..10).map(|seed| on(units, 1, |memory| Program::run(memory, seed))[0]).collect();
    assert_eq!(digests.unwrap(), vec![expected; units as usize]);
}

#[test]
fn random_programs_on_processes_of_two_nodes() {
    on_processes("global::random_programs_on_processes_of_two_nodes", 4, 2);
}

#[test]
fn random_programs_on_processes_of_one_node() {
    on_processes("global::random_programs_on_processes_of_one_node", 3, 3);
}

/// The cost of every operation, by its target: loads and stores, or operations of the network.
#[test]
fn the_local_node_is_reached_by_loads_and_stores() {
    let world = World::threads(4).topology(Topology::blocks(4, 2, 1).unwrap());
    let world = world.run(|ra| {
        let ra = Counted::new(ra);
        let team = Team::new(&ra).unwrap();
        GlobalMemory::run(&team, RESERVE, |memory| {
            let array = memory.team_memalloc_aligned(2048)?;
            let mut words = memory.memalloc(8)?.to_words();
            memory.team().broadcast(Rank(1), &mut words)?;
            let single = GlobalPtr::from_words(words);
            let here = |unit: Rank| unit.0 / 2 == memory.rank().0 / 2;
            for unit in (0..4).map(Rank) {
                // This is done once, so that this unit knows the attached memory there.
                memory.fetch_and_op(array.at_unit(unit), Op::NoOp, 0_u64)?;
                let targets = [Some(array.at_unit(unit)), (unit == single.unit()).then_some(single)];
                for at in targets.into_iter().flatten() {
                    ra.reset();
                    memory.put(at, &[unit.0; 2])?;
                    memory.put(at.plus(3), &[1_u8; 5])?;
                    let puts = ra.take();
                    memory.get(at.plus(1), &mut [0_u8; 7])?;
                    let gets = ra.take();
                    let mut expected = (Counts::default(), Counts::default());
                    if !here(unit) {
                        // A check whether memory was detached, and the operation.
                        expected.0.get.remote = 2;
                        expected.0.put_bytes.remote = 2;
                        expected.0.bytes.remote = 13;
                        expected.0.flush.remote = 2;
                        expected.1.get.remote = 1;
                        expected.1.get_bytes.remote = 1;
                        expected.1.bytes.remote = 7;
                    }
                    assert_eq!((puts, gets), expected, "{} on {at}", memory.rank());
                }
                // Long copies on the local node are bulk operations, and nothing else.
                memory.put(array.at_unit(unit).plus(1), &[1_u8; 1000])?;
                memory.get(array.at_unit(unit).plus(1), &mut [0_u8; 1000])?;
                let counts = ra.take();
                let seen = (counts.get.total(), counts.put_bytes.remote, counts.get_bytes.remote, counts.bytes.total());
                assert_eq!(seen, if here(unit) { (0, 0, 0, 2000) } else { (2, 1, 1, 2000) }, "{unit}");
                // Non-blocking operations and atomics use the window on all nodes.
                memory.put_handle(array.at_unit(unit), vec![1_u64])?.wait()?;
                memory.fetch_and_op(array.at_unit(unit), Op::Sum, 1_u64)?;
                let counts = ra.take();
                let seen =
                    (counts.get.total(), counts.put_bytes.total(), counts.fetch_add.total(), counts.flush.total());
                assert_eq!(seen, (2, 1, 1, 1), "{} on {unit}", memory.rank());
                assert_eq!(memory.local(array.at_unit(unit), 64)?.is_some(), here(unit));
            }
            // Without the barrier the following free would come before the others are done.
            memory.team().barrier()?;
            Ok::<_, Error>(())
        })
        .unwrap();
    });
    world.unwrap();
}

/// A unit that changes a byte of a word, from the same node or another one, changes no other byte.
#[test]
fn neighbours_in_one_word_lose_nothing() {
    on(4, 2, |memory| {
        let word = memory.team_memalloc_aligned(8)?;
        let mine = word.plus(2 * i64::from(memory.rank().0));
        for round in 0..5_000_u16 {
            memory.put_value(mine, round)?;
            assert_eq!(memory.get_value::<u16>(mine)?, round);
            if round % 8 == 0 {
                assert_eq!(memory.fetch_and_op(mine, Op::Sum, 7_u16)?, round);
            }
        }
        memory.team().barrier()
    });
}

#[test]
fn atomics_of_all_units_meet() {
    const ROUNDS: u64 = 1_000;
    on(5, 2, |memory| {
        let memory_of = memory.team_memalloc_aligned(64)?.at_unit(Rank(1));
        let me = memory.rank().0;
        for round in 0..ROUNDS {
            memory.fetch_and_op(memory_of, Op::Sum, 1_u64)?;
            memory.fetch_and_op(memory_of.plus(9), Op::Sum, 1_u8)?;
            memory.fetch_and_op(memory_of.plus(16), Op::Sum, 0.5_f64)?;
            memory.fetch_and_op(memory_of.plus(24), Op::MaxLoc, Pair::new(round as i64, i64::from(me)))?;
            // Counts with compare-and-swap.
            let mut seen = memory.get_value::<u32>(memory_of.plus(44))?;
            loop {
                match memory.compare_and_swap(memory_of.plus(44), seen, seen + 1)? {
                    found if found == seen => break,
                    found => seen = found,
                }
            }
        }
        memory.team().barrier()?;
        let all = 5 * ROUNDS;
        assert_eq!(memory.get_value::<u64>(memory_of)?, all);
        assert_eq!(memory.get_value::<u8>(memory_of.plus(9))?, all as u8);
        assert_eq!(memory.get_value::<f64>(memory_of.plus(16))?, all as f64 / 2.0);
        let last: Pair<i64, i64> = memory.get_value(memory_of.plus(24))?;
        assert_eq!((last.value(), last.index()), (ROUNDS as i64 - 1, 0));
        assert_eq!(u64::from(memory.get_value::<u32>(memory_of.plus(44))?), all);
        Ok(())
    });
}

/// A list through the pools of all units, whose links are global pointers in global memory.
#[test]
fn pointers_are_data() {
    on(6, 2, |memory| {
        let (me, size) = (memory.rank().0, memory.team().size());
        let heads = memory.team_memalloc_aligned(size_of::<GlobalPtr>() as u64)?;
        assert!(memory.get_value::<GlobalPtr>(heads.at_unit(Rank(me)))?.is_null(), "fresh memory holds null pointers");
        // Each node is a link and a value.
        let node = memory.memalloc(24)?;
        memory.put_value(node.plus(16), u64::from(me))?;
        memory.put_value(heads.at_unit(Rank(me)), node)?;
        memory.team().barrier()?;
        if me + 1 < size {
            let next: GlobalPtr = memory.get_value(heads.at_unit(Rank(me + 1)))?;
            memory.put_value(node, next)?;
        }
        memory.team().barrier()?;
        let mut at: GlobalPtr = memory.get_value(heads)?;
        let mut values = Vec::new();
        while !at.is_null() {
            assert_eq!((at.is_collective(), at.segment()), (false, 0));
            values.push(memory.get_value::<u64>(at.plus(16))?);
            at = memory.get_value(at)?;
        }
        assert_eq!(values, (0..u64::from(size)).collect::<Vec<_>>());
        memory.team().barrier()?;
        memory.memfree(node)
    });
}

#[test]
fn a_table_of_many_segments_finds_each() {
    const SEGMENTS: usize = 300;
    let reserve = Reserve { collective: 1 << 20, pool: 0 };
    let world = World::threads(3).segment_bytes(4 << 20).topology(Topology::blocks(3, 2, 1).unwrap());
    let world = world.run(|ra| {
        let team = Team::new(ra).unwrap();
        GlobalMemory::run(&team, reserve, |memory| {
            let me = u64::from(memory.rank().0);
            let right = Rank((memory.rank().0 + 1) % 3);
            let mut random = Random(1);
            let (mut live, mut freed) = (Vec::new(), Vec::new());
            for round in 0..6 {
                while live.len() < SEGMENTS {
                    let segment = memory.team_memalloc_aligned(16)?;
                    memory.put(segment.at_unit(right), &[u64::from(segment.segment()), me])?;
                    live.push(segment);
                }
                memory.team().barrier()?;
                for segment in &live {
                    for unit in 0..3 {
                        let seen: [u64; 2] = memory.get_value(segment.at_unit(Rank(unit)))?;
                        assert_eq!(seen, [u64::from(segment.segment()), u64::from((unit + 2) % 3)], "{segment}");
                    }
                }
                memory.team().barrier()?;
                for _ in 0..SEGMENTS / (2 + round) {
                    let segment = live.swap_remove(random.below(live.len()));
                    memory.team_memfree(segment)?;
                    freed.push(segment);
                }
                for &segment in &freed {
                    let error = memory.get_value::<u64>(segment.at_unit(right)).unwrap_err();
                    assert!(matches!(error, Error::BadPointer { call: Call::Get, .. }), "{error}");
                }
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    });
    world.unwrap();
}

#[test]
fn a_pool_hands_out_zeroed_memory_once() {
    on(2, 1, |memory| {
        let whole = memory.pool_free_bytes();
        assert_eq!(whole, RESERVE.pool);
        let mut random = Random(u64::from(memory.rank().0));
        // Blocks in use, each filled with its own byte.
        let mut live: Vec<(GlobalPtr, Vec<u8>)> = Vec::new();
        let mut refused = 0;
        for round in 0..2_000_u32 {
            let bytes = random.below(200);
            match memory.memalloc(bytes as u64) {
                Ok(start) => {
                    let mut seen = vec![1_u8; bytes];
                    memory.get(start, &mut seen)?;
                    assert!(seen.iter().all(|&byte| byte == 0), "fresh memory is zero");
                    let content = vec![round as u8 | 1; bytes];
                    memory.put(start, &content)?;
                    live.push((start, content));
                }
                Err(Error::Atomics(rmalab_atomics::Error::OutOfMemory { .. })) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if refused > 0 || random.below(3) == 0 {
                for _ in 0..live.len().min(3) {
                    let (start, content) = live.swap_remove(random.below(live.len()));
                    let mut seen = vec![0; content.len()];
                    memory.get(start, &mut seen)?;
                    assert_eq!(seen, content, "no other unit has got the memory at {start}");
                    memory.memfree(start)?;
                }
            }
        }
        assert!(refused > 0, "the pool was full at times");
        for (start, _) in live {
            memory.memfree(start)?;
        }
        assert_eq!(memory.pool_free_bytes(), whole);
        memory.memfree(memory.memalloc(whole)?)
    });
}

#[test]
fn bad_pointers_are_errors_and_change_nothing() {
    on(3, 2, |memory| {
        let (me, other) = (memory.rank(), Rank((memory.rank().0 + 1) % 3));
        let array = memory.team_memalloc_aligned(20)?;
        let single = memory.memalloc(20)?;
        let bad = |result: Result<()>, expected: &str| match result {
            Err(Error::BadPointer { why, .. }) => assert!(why.contains(expected), "{why}: {expected}"),
            result => panic!("{result:?} is not {expected}"),
        };
        bad(memory.put(GlobalPtr::NULL, &[1_u8]), "nothing is there");
        bad(memory.put(array.at_unit(Rank(3)), &[1_u8]), "no such unit");
        bad(memory.put_handle(array.at_unit(Rank(3)), vec![1_u8]).map(drop), "no such unit");
        bad(memory.put(GlobalPtr::from_words([u64::MAX, 0]), &[1_u8]), "never allocated");
        bad(memory.team_memfree(array.plus(8)), "into an allocation");
        bad(memory.team_memfree(single), "memfree frees such memory");
        bad(memory.memfree(array), "team_memfree frees such memory");
        bad(memory.memfree(single.plus(8)), "no allocation starts there");
        bad(memory.memfree(single.at_unit(other)), "another unit's");
        bad(memory.memfree(GlobalPtr::NULL), "nothing is there");
        // The part ends at its last byte, not at its last word, at both kinds of units.
        for at in [array.at_unit(me), array.at_unit(other)] {
            memory.put(at.plus(12), &[5_u64])?;
            memory.put::<u64>(at.plus(20), &[])?;
            for (at, len) in [(at.plus(13), 8), (at.plus(-1), 1), (at.plus(21), 0), (at.plus(i64::MIN), 1), (at, 21)] {
                let error = memory.put(at, &vec![1_u8; len]).unwrap_err();
                assert!(matches!(error, Error::OutOfSegment { bytes: 20, .. }), "{error}");
                let error = memory.local(at, len as u64).unwrap_err();
                assert!(matches!(error, Error::OutOfSegment { call: Call::Local, .. }), "{error}");
            }
            let error = memory.fetch_and_op(at.plus(16), Op::Sum, 1_u64).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "{me}: fetch_and_op of 8 bytes at offset 16 of segment 1 of unit {}, which has 20 bytes of each unit",
                    at.unit().0
                )
            );
        }
        assert!(memory.local(array.at_unit(me).plus(4), 8)?.is_none(), "not at a word");
        assert!(memory.local(array.at_unit(me), 12)?.is_none(), "not in whole words");
        let last = RESERVE.pool as i64 - single.offset() as i64;
        memory.get_value::<u64>(single.plus(last))?;
        let error = memory.get_value::<u64>(single.plus(last + 1)).unwrap_err();
        assert!(matches!(error, Error::OutOfSegment { .. }), "{error}");
        memory.team().barrier()?;
        let mut seen = [1_u32; 5];
        memory.get(array.at_unit(me), &mut seen)?;
        assert_eq!(seen[..3], [0; 3]);
        memory.memfree(single)?;
        bad(memory.memfree(single), "freed before");
        memory.team_memfree(array.at_unit(Rank(2)))?;
        bad(memory.team_memfree(array), "was freed");
        bad(memory.get_value::<u8>(array).map(drop), "was freed");
        let again = memory.team_memalloc_aligned(20)?;
        assert_ne!(again, array, "a pointer to freed memory does not become valid again");
        Ok(())
    });
}

/// While one unit still uses the memory, the others wait in the free.
#[test]
fn a_free_waits_for_all_units() {
    on(4, 2, |memory| {
        for round in 0..40 {
            let array = memory.team_memalloc_aligned(8)?;
            if memory.rank() == Rank(round % 4) {
                for unit in (0..400).map(|i| Rank(i % 4)) {
                    memory.put_value(array.at_unit(unit), u64::MAX)?;
                    assert_eq!(memory.get_value::<u64>(array.at_unit(unit))?, u64::MAX);
                }
            }
            memory.team_memfree(array)?;
        }
        Ok(())
    });
}

#[test]
fn allocations_are_made_by_all_units_or_by_none() {
    // Two units on one node, one on another, whose arena has more room, since its team needs no words.
    on(3, 2, |memory| {
        let error = memory.team_memalloc_aligned(u64::MAX).unwrap_err();
        assert!(matches!(error, Error::Atomics(rmalab_atomics::Error::OutOfMemory { .. })), "{error}");
        let different = 8 + 8 * u64::from(memory.rank().0 / 2);
        let error = memory.team_memalloc_aligned(different).unwrap_err();
        assert!(matches!(error, Error::Uneven { .. }), "{error}");
        let mut not_made = 0;
        let largest = (0..512).rev().find_map(|lines| {
            let bytes = 512 * lines;
            match memory.team_memalloc_aligned(bytes) {
                Ok(array) => return Some((bytes, array)),
                Err(Error::NotMade { rank: Rank(0) }) => not_made += 1,
                Err(error) => assert!(error.to_string().contains("no room"), "{error}"),
            }
            None
        });
        assert_eq!(not_made > 0, memory.rank() == Rank(2), "where there was room, it was given back");
        let (bytes, array) = largest.unwrap();
        assert!(bytes >= RESERVE.collective, "{bytes}");
        memory.team_memfree(array)?;
        let array = memory.team_memalloc_aligned(bytes)?;
        let last = array.plus(bytes as i64 - 8);
        assert_eq!(memory.get_value::<u64>(last.at_unit(memory.rank()))?, 0);
        Ok(())
    });
}

/// The end frees all remaining memory, which is zero when it is allocated again. The run returns an error of the body.
#[test]
fn global_memories_can_follow_each_other() {
    let world = World::threads(2).topology(Topology::one_node(2)).run(|ra| {
        let team = Team::new(ra).unwrap();
        let mut earlier = GlobalPtr::NULL;
        for _ in 0..20 {
            earlier = GlobalMemory::run(&team, RESERVE, |memory| {
                let error = memory.get_value::<u8>(earlier).unwrap_err();
                assert!(matches!(error, Error::BadPointer { .. }), "{error}");
                let array = memory.team_memalloc_aligned(50_000)?;
                let last = array.at_unit(memory.rank()).plus(49_992);
                assert_eq!(memory.get_value::<u64>(last)?, 0);
                memory.put_value(last, u64::MAX)?;
                memory.put_value(memory.memalloc(8)?, u64::MAX)?;
                Ok::<_, Error>(array)
            })
            .unwrap();
        }
        let own = GlobalMemory::run(&team, RESERVE, |memory| {
            memory.put_value(earlier, 1_u8)?;
            Ok::<_, Box<dyn std::error::Error>>(())
        });
        assert!(own.unwrap_err().to_string().contains("never allocated"));
    });
    world.unwrap();
}
