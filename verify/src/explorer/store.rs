//! The set of visited states: their encodings, and for each state its parent in the search.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::panics::lock;

/// The number of a state: its shard in the lower bits.
pub(super) type StateId = u32;

/// No state: the parent of the first one.
pub(super) const NOWHERE: StateId = StateId::MAX;

const SHARD_BITS: u32 = 6;
/// The number of parts of the set, with one lock each: enough that a few threads rarely wait.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// The size of a chunk of encodings in bytes. Chunks do not move when the set grows.
const CHUNK: usize = 1 << 18;

/// One part of the set.
#[derive(Default)]
pub(super) struct Shard {
    table: HashTable<u32>,
    chunks: Vec<Box<[u8]>>,
    /// The first free byte of the last chunk.
    end: usize,
    /// The start of each state's encoding: its chunk and the position there. The encoding's length is stored ahead of
    /// it.
    starts: Vec<u32>,
    parents: Vec<StateId>,
}

/// The set.
pub(super) struct Store {
    shards: Vec<Mutex<Shard>>,
}

/// The result of adding a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Added {
    New(StateId),
    /// The set contained it.
    Known(StateId),
    /// The set has no number left for it, or the encoding is too long.
    Full,
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    hasher.write(bytes);
    // FxHash leaves its low bits weak. The multiplication by an odd constant and the fold spread them.
    let hash = hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

impl Shard {
    fn bytes(&self, index: u32) -> &[u8] {
        let start = self.starts[index as usize] as usize;
        let (chunk, at) = (&self.chunks[start / CHUNK], start % CHUNK);
        let len = usize::from(u16::from_le_bytes([chunk[at], chunk[at + 1]]));
        &chunk[at + 2..at + 2 + len]
    }

    fn add(&mut self, shard: usize, hash: u64, bytes: &[u8], parent: StateId) -> Added {
        if let Some(&known) = self.table.find(hash, |&index| self.bytes(index) == bytes) {
            return Added::Known(Store::id(shard, known));
        }
        let Ok(len) = u16::try_from(bytes.len()) else { return Added::Full };
        let need = bytes.len() + 2;
        if self.chunks.is_empty() || self.end + need > CHUNK {
            // A start has 32 bits.
            if (self.chunks.len() + 1) * CHUNK > u32::MAX as usize {
                return Added::Full;
            }
            self.chunks.push(vec![0; CHUNK].into_boxed_slice());
            self.end = 0;
        }
        let index = self.starts.len() as u32;
        if index >> (32 - SHARD_BITS) != 0 || index == u32::MAX >> SHARD_BITS {
            return Added::Full;
        }
        let last = self.chunks.len() - 1;
        let at = self.end;
        self.chunks[last][at..at + 2].copy_from_slice(&len.to_le_bytes());
        self.chunks[last][at + 2..at + need].copy_from_slice(bytes);
        self.end += need;
        self.starts.push((last * CHUNK + at) as u32);
        self.parents.push(parent);
        let Shard { table, chunks, starts, .. } = self;
        table.insert_unique(hash, index, |&index| {
            let start = starts[index as usize] as usize;
            let (chunk, at) = (&chunks[start / CHUNK], start % CHUNK);
            let len = usize::from(u16::from_le_bytes([chunk[at], chunk[at + 1]]));
            self::hash(&chunk[at + 2..at + 2 + len])
        });
        Added::New(Store::id(shard, index))
    }

    fn memory(&self) -> u64 {
        let tables = self.table.allocation_size() + self.starts.capacity() * 4 + self.parents.capacity() * 4;
        (tables + self.chunks.len() * CHUNK) as u64
    }
}

impl Store {
    pub(super) fn new() -> Store {
        Store { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard])
    }

    /// Adds the state with this encoding and this parent, unless the set contains it.
    pub(super) fn add(&self, bytes: &[u8], parent: StateId) -> Added {
        let hash = hash(bytes);
        // The table uses the upper seven bits and the low bits of the hash, so that the shard uses bits in between.
        let shard = (hash >> 40) as usize % SHARDS;
        self.shard(shard).add(shard, hash, bytes, parent)
    }

    /// The number of the state with this encoding, if the set contains it.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<StateId> {
        let hash = hash(bytes);
        let shard = (hash >> 40) as usize % SHARDS;
        let part = self.shard(shard);
        part.table.find(hash, |&index| part.bytes(index) == bytes).map(|&index| Store::id(shard, index))
    }

    /// The number of states of each shard.
    pub(super) fn lens(&self) -> Vec<u32> {
        (0..SHARDS).map(|shard| self.shard(shard).starts.len() as u32).collect()
    }

    /// Copies the encodings of some states of one shard, one after the other, with their ends.
    pub(super) fn copy(&self, shard: usize, range: Range<u32>, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        bytes.clear();
        ends.clear();
        let part = self.shard(shard);
        for index in range {
            bytes.extend_from_slice(part.bytes(index));
            ends.push(bytes.len());
        }
    }

    /// The encoding of one state, and its parent.
    pub(super) fn get(&self, id: StateId) -> (Vec<u8>, StateId) {
        let part = self.shard(id as usize % SHARDS);
        let index = id >> SHARD_BITS;
        (part.bytes(index).to_vec(), part.parents[index as usize])
    }

    /// The number of state `index` of `shard`.
    pub(super) fn id(shard: usize, index: u32) -> StateId {
        index << SHARD_BITS | shard as u32
    }

    /// The memory of the set, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (0..SHARDS).map(|shard| self.shard(shard).memory()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_refuses_a_state_that_is_too_long() {
        let store = Store::new();
        let Added::New(id) = store.add(&[7; 65_535], NOWHERE) else { panic!("it is new") };
        assert_eq!(store.add(&[7; 65_535], NOWHERE), Added::Known(id));
        assert_eq!(store.add(&[7; 65_536], NOWHERE), Added::Full);
    }
}
