//! The segments of all ranks. Only touched lines take memory.

use rustc_hash::FxHashMap;

use crate::{Disp, Rank, WORD};

/// Words of a line.
const WORDS: usize = 8;

/// No core.
pub(super) const NO_CORE: u32 = u32::MAX;

/// The adapter, as the last user of a line.
pub(super) const ADAPTER: u32 = u32::MAX - 1;

/// The core that still uses a line while the line is on its way to another core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) rank: u32,
    /// The time at which its operations under way end.
    pub(super) from: u64,
    /// The time at which the line has left the core.
    pub(super) until: u64,
}

impl Before {
    pub(super) const NO_CORE: Before = Before { rank: NO_CORE, from: 0, until: 0 };
}

/// 64 bytes of a segment, and the cores that have used them.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: [u64; WORDS],
    /// The time at which the next write to the line can begin.
    pub(super) free: u64,
    /// The rank whose core was the last to write the line, or the adapter.
    pub(super) writer: u32,
    /// The rank whose core was the last to read the line since then.
    pub(super) reader: u32,
    /// The core that had the line before, and still uses it while the line is on its way.
    pub(super) before: Before,
    /// The number of adapters' complete atomic operations on the line.
    pub(super) served: u32,
}

#[derive(Default)]
pub(super) struct Memory {
    /// The index of each line, by rank and number.
    index: FxHashMap<u64, u32>,
    lines: Vec<Line>,
}

impl Memory {
    /// Returns the index of the line at a place, which is made if it does not exist.
    #[inline]
    pub(super) fn line(&mut self, rank: Rank, disp: Disp) -> u32 {
        let key = (u64::from(rank.0) << 32) | (disp.0 / (WORDS as u64 * WORD));
        *self.index.entry(key).or_insert_with(|| {
            self.lines.push(Line {
                words: [0; WORDS],
                free: 0,
                writer: NO_CORE,
                reader: NO_CORE,
                before: Before::NO_CORE,
                served: 0,
            });
            (self.lines.len() - 1) as u32
        })
    }

    #[inline]
    pub(super) fn get(&mut self, line: u32) -> &mut Line {
        &mut self.lines[line as usize]
    }

    #[inline]
    pub(super) fn word(&mut self, line: u32, disp: Disp) -> &mut u64 {
        &mut self.lines[line as usize].words[(disp.0 / WORD) as usize % WORDS]
    }

    /// Splits a range of bytes at words. Calls `then` with the word of each part, the part's start in the word and in the
    /// range, and its length.
    pub(super) fn parts(
        &mut self,
        rank: Rank,
        disp: Disp,
        len: usize,
        mut then: impl FnMut(&mut u64, Disp, usize, usize, usize),
    ) {
        let mut done = 0;
        while done < len {
            let here = disp.0 + done as u64;
            let offset = (here % WORD) as usize;
            let count = (WORD as usize - offset).min(len - done);
            let at = Disp(here - offset as u64);
            let line = self.line(rank, at);
            then(self.word(line, at), at, offset, done, count);
            done += count;
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &Line)> {
        self.index.iter().map(|(&key, &line)| (key, &self.lines[line as usize]))
    }

    /// Sets the numbers of atomic operations to zero.
    pub(super) fn forget_served(&mut self) {
        for line in &mut self.lines {
            line.served = 0;
        }
    }

    pub(super) fn touched(&self) -> usize {
        self.lines.len()
    }
}
