//! A hash table in a window: each rank has a part, with slots, and a heap of cells for keys whose slot is taken.

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{LockAll, Op, WindowDisp};

use super::random::mixed;
use rmalab_job::{Error, Result};

// A part, in words: the number of taken cells, then the slots, then the cells. Both are places: a key (0 for none), the index of
// the next cell (0 for none), and the value, if the table has values.
const TAKEN: u64 = 0;
const FIRST_SLOT: u64 = 1;

/// The layout of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) slots: u64,
    pub(super) cells: u64,
    /// True if each key has a value, of one word.
    pub(super) values: bool,
}

pub(super) fn word(place: u64) -> WindowDisp {
    WindowDisp((8 * place) as i64)
}

fn next_at(place: u64) -> WindowDisp {
    word(place + 1)
}

/// The displacement of the value of the key at `place`.
pub(super) fn value_at(place: u64) -> WindowDisp {
    word(place + 2)
}

/// Cells that `keys` random keys of a rank need: the expected number, and ten standard deviations more.
pub(super) fn cells_for(keys: u64) -> u64 {
    keys + 10 * keys.isqrt() + 64
}

impl Parts {
    fn width(&self) -> u64 {
        if self.values { 3 } else { 2 }
    }

    fn first_cell(&self) -> u64 {
        FIRST_SLOT + self.width() * self.slots
    }

    pub(super) fn words(&self) -> u64 {
        self.first_cell() + self.width() * self.cells
    }

    /// The rank and the index of a key's slot.
    pub(super) fn slot_of(&self, key: u64, ranks: u32) -> (Rank, u64) {
        let (hash, ranks) = (mixed(key ^ 0x9e37_79b9_7f4a_7c15), u64::from(ranks));
        (Rank((hash % ranks) as u32), FIRST_SLOT + self.width() * (hash / ranks % self.slots))
    }

    /// Inserts a key that is not there yet. Returns whether it went into a cell.
    ///
    /// For a moment, a key in a slot is there without its value, which is 0.
    pub(super) fn insert<A: RemoteAtomics + ?Sized>(
        &self,
        table: &LockAll<'_, '_, A>,
        key: u64,
        value: u64,
    ) -> Result<bool> {
        let (rank, slot) = self.slot_of(key, table.window().team().size());
        let part = table.at(rank)?;
        if part.compare_and_swap(word(slot), 0, key)? == 0 {
            if self.values {
                part.accumulate(value_at(slot), Op::Replace, &[value])?;
                table.flush(rank)?;
            }
            return Ok(false);
        }
        let taken = part.fetch_and_op(word(TAKEN), Op::Sum, 1_u64)?;
        if taken >= self.cells {
            return Err(Error::Wrong(format!("hash-table: all {} cells of {rank} are taken", self.cells)));
        }
        let cell = self.first_cell() + self.width() * taken;
        let mut head: u64 = part.get_value(next_at(slot))?;
        loop {
            part.put(word(cell), &[key, head, value][..self.width() as usize])?;
            table.flush(rank)?; // no rank may find the cell before its words are there
            match part.compare_and_swap(next_at(slot), head, cell)? {
                seen if seen == head => return Ok(true),
                seen => head = seen,
            }
        }
    }

    /// Finds a key: its rank, and its place there.
    pub(super) fn find<A: RemoteAtomics + ?Sized>(
        &self,
        table: &LockAll<'_, '_, A>,
        key: u64,
    ) -> Result<Option<(Rank, u64)>> {
        let (rank, slot) = self.slot_of(key, table.window().team().size());
        let part = table.at(rank)?;
        let mut place = slot;
        // A list is not longer than the heap.
        for _ in 0..=self.cells {
            let mut found = [0; 2];
            part.get(word(place), &mut found)?;
            match found {
                [other, _] if other == key => return Ok(Some((rank, place))),
                [_, 0] => return Ok(None),
                [_, next] => place = next,
            }
        }
        Err(Error::Wrong(format!("hash-table: the list of the slot at word {slot} of {rank} has no end")))
    }

    /// The keys of a part with these words, and their values, or 0.
    ///
    /// # Errors
    ///
    /// A sentence on the defect of the part.
    pub(super) fn content(&self, words: &[u64]) -> Result<Vec<(u64, u64)>, String> {
        let mut found = Vec::new();
        for slot in (FIRST_SLOT..self.first_cell()).step_by(self.width() as usize) {
            let mut place = slot;
            while let Some(at) = words.get(place as usize..(place + self.width()) as usize) {
                if at[0] != 0 {
                    found.push((at[0], at.get(2).copied().unwrap_or(0)));
                }
                if found.len() as u64 > self.slots + self.cells {
                    return Err(format!("the list of the slot at word {slot} has no end"));
                }
                if at[1] == 0 {
                    break;
                }
                place = at[1];
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Compares the keys of a part with the expected ones, sorted.
    ///
    /// # Errors
    ///
    /// A sentence on their difference.
    pub(super) fn compare(found: &[(u64, u64)], expected: &[u64]) -> Result<(), String> {
        if found.iter().map(|&(key, _)| key).eq(expected.iter().copied()) {
            return Ok(());
        }
        let lost = expected.iter().find(|key| found.binary_search_by_key(*key, |found| found.0).is_err());
        let odd = found.iter().find(|found| expected.binary_search(&found.0).is_err());
        Err(format!(
            "{} keys instead of {}{}{}",
            found.len(),
            expected.len(),
            lost.map_or(String::new(), |key| format!("; {key:#x} is not there")),
            odd.map_or(String::new(), |(key, _)| format!("; {key:#x} is unexpected")),
        ))
    }
}
