//! Words that a rank's processor reaches by loads and stores, as an object that an engine can stand behind.
//!
//! A protocol that uses the processor's own instructions beside network operations has paths that no engine sees, if it
//! holds references to the memory. It holds [`LocalWords`] instead. Over memory they are a slice, and each access is one
//! instruction: the only branch is that of the bounds, which an engine's words fail, since their slice is empty. Over an
//! engine each access is a call of [`LocalEngine`], and so a step that the engine orders with all others.
//!
//! # What an access means
//!
//! * A load acquires, a store releases, and an atomic operation is sequentially consistent with those of the trait.
//! * A store is a [posted put](crate::RemoteAtomics#memory-model) that no flush completes until its rank has called
//!   [`stored`](crate::RemoteAtomics::stored). The rank's own loads of the word see it at once.
//! * No access wakes a rank that waits on the word.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::word::{Word, WordOp};

/// What carries out accesses to local words in place of the processor.
pub trait LocalEngine {
    /// Reads a word.
    fn load(&self, at: Word) -> Result<u64>;

    /// Writes a word.
    fn store(&self, at: Word, value: u64) -> Result<()>;

    /// Carries out an atomic operation; returns its result.
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
    /// Those of `words`.
    #[inline(always)]
    pub fn of(words: &'a [AtomicU64]) -> LocalWords<'a> {
        LocalWords { words, engine: None }
    }

    /// The `count` words from `first` on, which `engine` accesses.
    pub fn by(engine: &'a dyn LocalEngine, first: Word, count: u64) -> LocalWords<'a> {
        LocalWords { words: &[], engine: Some(EngineWords { engine, first, count }) }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.engine.map_or(self.words.len() as u64, |words| words.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Word number `index`, if there is one.
    #[inline(always)]
    pub fn get(&self, index: u64) -> Option<LocalWord<'a>> {
        // An index beyond usize is beyond every slice.
        match self.words.get(usize::try_from(index).unwrap_or(usize::MAX)) {
            Some(word) => Some(LocalWord(Access::Memory(word))),
            None => self.by_engine(index),
        }
    }

    /// Word number `index`, if there is one and no engine stands behind it.
    ///
    /// A caller whose path takes a nanosecond asks this first and [`by_engine`](Self::by_engine) out of line: of two kinds
    /// of words the compiler would keep both in memory.
    #[inline(always)]
    pub fn in_memory(&self, index: u64) -> Option<LocalWord<'a>> {
        self.words.get(usize::try_from(index).ok()?).map(|word| LocalWord(Access::Memory(word)))
    }

    /// Word number `index`, if there is one and an engine stands behind it.
    #[inline(always)]
    pub fn by_engine(&self, index: u64) -> Option<LocalWord<'a>> {
        let EngineWords { engine, first, count } = self.engine?;
        (index < count).then(|| LocalWord(Access::Engine(engine, first.next(index))))
    }
}

impl fmt::Debug for LocalWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.engine.is_some() { "an engine" } else { "the processor" };
        write!(f, "{} words by {by}", self.len())
    }
}

/// A word that this rank's processor reaches.
#[derive(Clone, Copy)]
pub struct LocalWord<'a>(Access<'a>);

#[derive(Clone, Copy)]
enum Access<'a> {
    Memory(&'a AtomicU64),
    Engine(&'a dyn LocalEngine, Word),
}

impl LocalWord<'_> {
    /// Reads it, and acquires.
    ///
    /// # Errors
    ///
    /// None over memory; those of the engine.
    #[inline(always)]
    pub fn load(self) -> Result<u64> {
        match self.0 {
            Access::Memory(word) => Ok(word.load(Ordering::Acquire)),
            Access::Engine(engine, at) => engine.load(at),
        }
    }

    /// Writes it, and releases: see the module's text for when that is complete.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    #[inline(always)]
    pub fn store(self, value: u64) -> Result<()> {
        match self.0 {
            Access::Memory(word) => {
                word.store(value, Ordering::Release);
                Ok(())
            }
            Access::Engine(engine, at) => engine.store(at, value),
        }
    }

    /// Carries out an atomic operation, sequentially consistent; returns the old word, and 0 for a put.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    #[inline(always)]
    pub fn atomic(self, op: WordOp) -> Result<u64> {
        match self.0 {
            Access::Memory(word) => Ok(match op {
                WordOp::FetchAdd(value) => word.fetch_add(value, Ordering::SeqCst),
                WordOp::FetchStore(value) => word.swap(value, Ordering::SeqCst),
                WordOp::CompareAndSwap { expected, desired } => {
                    match word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(old) | Err(old) => old,
                    }
                }
                WordOp::Get => word.load(Ordering::SeqCst),
                WordOp::Put(value) => {
                    word.swap(value, Ordering::SeqCst);
                    0
                }
            }),
            Access::Engine(engine, at) => engine.atomic(at, op),
        }
    }
}

impl fmt::Debug for LocalWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Access::Memory(word) => write!(f, "{word:?} by the processor"),
            Access::Engine(_, at) => write!(f, "{} by an engine", at.address()),
        }
    }
}
