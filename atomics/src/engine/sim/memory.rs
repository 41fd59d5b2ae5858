//! The segments of all ranks, of which only the lines that were touched take memory.

use rustc_hash::FxHashMap;

use crate::{Disp, Rank, WORD};

/// Words of a line.
const WORDS: usize = 8;

/// No core.
pub(super) const NOBODY: u32 = u32::MAX;

/// The adapter, as who has touched a line.
pub(super) const ADAPTER: u32 = u32::MAX - 1;

/// Who goes on with a line while it is on its way to another core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) rank: u32,
    /// When it is done with what it had under way.
    pub(super) from: u64,
    /// When the line has gone.
    pub(super) until: u64,
}

impl Before {
    pub(super) const NOBODY: Before = Before { rank: NOBODY, from: 0, until: 0 };
}

/// 64 bytes of a segment, and who has used them.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: [u64; WORDS],
    /// When the line can be written to next.
    pub(super) free: u64,
    /// The rank whose core has written it last, or the adapter.
    pub(super) writer: u32,
    /// The rank whose core has read it last since then.
    pub(super) reader: u32,
    /// The rank whose core had it before, and still has it until then: the line is on its way.
    pub(super) before: Before,
    /// Atomic operations of adapters on it.
    pub(super) served: u32,
}

#[derive(Default)]
pub(super) struct Memory {
    /// By rank and number.
    index: FxHashMap<u64, u32>,
    lines: Vec<Line>,
}

impl Memory {
    /// The number of the line at a place, which is made if it is not there.
    #[inline]
    pub(super) fn line(&mut self, rank: Rank, disp: Disp) -> u32 {
        let key = (u64::from(rank.0) << 32) | (disp.0 / (WORDS as u64 * WORD));
        *self.index.entry(key).or_insert_with(|| {
            self.lines.push(Line {
                words: [0; WORDS],
                free: 0,
                writer: NOBODY,
                reader: NOBODY,
                before: Before::NOBODY,
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

    /// Calls `then` with each part of a range of bytes that lies in one word: the word, where the part starts in it and in the
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

    pub(super) fn touched(&self) -> usize {
        self.lines.len()
    }
}
