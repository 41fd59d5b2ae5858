//! Words that a rank's processor reaches by loads and stores, as an object that an engine can implement.
//!
//! A protocol may use the processor's instructions in addition to network operations. If it held references to the memory, no engine would see
//! these accesses. So it holds [`LocalWords`]. Over memory they are a slice, and each access is one instruction. The only branch is the check
//! of bounds, which an engine's words fail, since their slice is empty. Over an engine each access is a call of [`LocalEngine`], and so a step
//! that the engine orders with all others.
//!
//! # What an access means
//!
//! * A load acquires, a store releases, and an atomic operation is sequentially consistent with the trait's operations.
//! * A store is a [posted put](crate::RemoteAtomics#memory-model) that no flush completes until its rank has called
//!   [`stored`](crate::RemoteAtomics::stored). The rank's own loads of the word see it at once.
//! * No access wakes a rank that waits on the word.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::model::word::{Word, WordOp};

/// An engine that executes accesses to local words in place of the processor.
pub trait LocalEngine {
    /// Reads a word.
    fn load(&self, at: Word) -> Result<u64>;

    /// Writes a word.
    fn store(&self, at: Word, value: u64) -> Result<()>;

    /// Executes an atomic operation, and returns its result.
    fn atomic(&self, at: Word, op: WordOp) -> Result<u64>;
}

/// Consecutive words that this rank's processor reaches.
#[derive(Clone, Copy, Default)]
pub struct LocalWords<'a> {
    /// Empty where an engine has them.
    words: &'a [AtomicU64],
    engine: Option<EngineWords<'a>>,
}

#[derive(Clone, Copy)]
struct EngineWords<'a> {
    engine: &'a dyn LocalEngine,
    first: Word,
    count: u64,
}

impl<'a> LocalWords<'a> {
    /// Makes the local words of `words`.
    #[inline(always)]
    pub fn of(words: &'a [AtomicU64]) -> LocalWords<'a> {
        LocalWords { words, engine: None }
    }

    /// Makes the local words of the `count` words from `first` on, which `engine` accesses.
    pub fn by(engine: &'a dyn LocalEngine, first: Word, count: u64) -> LocalWords<'a> {
        LocalWords { words: &[], engine: Some(EngineWords { engine, first, count }) }
    }

    /// Returns the number of words.
    pub fn len(&self) -> u64 {
        self.engine.map_or(self.words.len() as u64, |words| words.count)
    }

    /// Returns whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether an engine accesses them.
    #[inline(always)]
    pub fn is_by_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Returns word number `index`, if there is one.
    #[inline(always)]
    pub fn get(&self, index: u64) -> Option<LocalWord<'a>> {
        match self.in_memory(index) {
            Some(word) => Some(LocalWord::Memory(word)),
            None => self.by_engine(index),
        }
    }

    /// Returns word number `index`, if there is one and no engine accesses it.
    ///
    /// A caller whose path takes a nanosecond calls this first, and [`by_engine`](Self::by_engine) out of line. The compiler would keep a word
    /// of either kind in memory.
    #[inline(always)]
    pub fn in_memory(&self, index: u64) -> Option<MemoryWord<'a>> {
        self.words.get(usize::try_from(index).ok()?).map(MemoryWord)
    }

    /// Returns word number `index`, if there is one and an engine accesses it.
    #[inline(always)]
    pub fn by_engine(&self, index: u64) -> Option<LocalWord<'a>> {
        let EngineWords { engine, first, count } = self.engine?;
        (index < count).then(|| LocalWord::Engine(EngineWord { engine, at: first.next(index) }))
    }
}

impl fmt::Debug for LocalWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.engine.is_some() { "an engine" } else { "the processor" };
        write!(f, "{} words by {by}", self.len())
    }
}

/// A word of memory that this rank's processor reaches.
#[derive(Clone, Copy, Debug)]
pub struct MemoryWord<'a>(&'a AtomicU64);

impl MemoryWord<'_> {
    /// Reads the word, and acquires.
    #[inline(always)]
    pub fn load(self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Writes the word, and releases. The module's text explains when that is complete.
    #[inline(always)]
    pub fn store(self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Adds to the word, modulo 2^64, and returns the old word.
    #[inline(always)]
    pub fn fetch_add(self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::SeqCst)
    }

    /// Replaces the word, and returns the old word.
    #[inline(always)]
    pub fn fetch_store(self, value: u64) -> u64 {
        self.0.swap(value, Ordering::SeqCst)
    }

    /// Stores `desired` if the word is `expected`, and returns the old word.
    #[inline(always)]
    pub fn compare_and_swap(self, expected: u64, desired: u64) -> u64 {
        match self.0.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(old) | Err(old) => old,
        }
    }

    /// Executes an atomic operation, sequentially consistent. Returns the old word, and 0 for a put.
    #[inline(always)]
    pub fn atomic(self, op: WordOp) -> u64 {
        match op {
            WordOp::FetchAdd(value) => self.fetch_add(value),
            WordOp::FetchStore(value) => self.fetch_store(value),
            WordOp::CompareAndSwap { expected, desired } => self.compare_and_swap(expected, desired),
            WordOp::Get => self.0.load(Ordering::SeqCst),
            WordOp::Put(value) => {
                self.fetch_store(value);
                0
            }
        }
    }
}

/// A word that an engine accesses in place of the processor.
#[derive(Clone, Copy)]
pub struct EngineWord<'a> {
    engine: &'a dyn LocalEngine,
    at: Word,
}

impl fmt::Debug for EngineWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by an engine", self.at.address())
    }
}

/// A word that this rank's processor, or an engine in its place, accesses.
#[derive(Clone, Copy, Debug)]
pub enum LocalWord<'a> {
    /// In memory.
    Memory(MemoryWord<'a>),
    /// Accessed by an engine.
    Engine(EngineWord<'a>),
}

impl LocalWord<'_> {
    /// Reads the word, and acquires.
    ///
    /// # Errors
    ///
    /// The errors of the engine. Over memory there are no errors.
    #[inline(always)]
    pub fn load(self) -> Result<u64> {
        match self {
            LocalWord::Memory(word) => Ok(word.load()),
            LocalWord::Engine(EngineWord { engine, at }) => engine.load(at),
        }
    }

    /// Writes the word, and releases. The module's text explains when that is complete.
    ///
    /// # Errors
    ///
    /// The errors of [`load`](Self::load).
    #[inline(always)]
    pub fn store(self, value: u64) -> Result<()> {
        match self {
            LocalWord::Memory(word) => {
                word.store(value);
                Ok(())
            }
            LocalWord::Engine(EngineWord { engine, at }) => engine.store(at, value),
        }
    }

    /// Executes an atomic operation, sequentially consistent. Returns the old word, and 0 for a put.
    ///
    /// # Errors
    ///
    /// The errors of [`load`](Self::load).
    #[inline(always)]
    pub fn atomic(self, op: WordOp) -> Result<u64> {
        match self {
            LocalWord::Memory(word) => Ok(word.atomic(op)),
            LocalWord::Engine(EngineWord { engine, at }) => engine.atomic(at, op),
        }
    }
}
