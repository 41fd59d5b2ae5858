//! Global states, and their encoding as bytes.

use std::collections::HashMap;

use rmalab_atomics::Rank;
use rustc_hash::FxBuildHasher;

use super::learned::NodeId;
use super::order::Ahead;
use crate::network::{Memory, Posted};

/// One global state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// Each rank's local state.
    pub(super) locals: Vec<NodeId>,
    /// The words, and what is under way.
    pub(super) memory: Memory,
    /// Under a preemption bound: the rank that ran last, and how many preemptions there were.
    pub(super) run: Option<(u32, u32)>,
    /// Where the order is checked: who was there before whom.
    pub(super) ahead: Ahead,
}

impl State {
    /// No state, in the place of one that is taken away for a moment.
    pub(super) fn nothing() -> State {
        State { locals: Vec::new(), memory: Memory::default(), run: None, ahead: Ahead::default() }
    }

    pub(super) fn copy_from(&mut self, other: &State) {
        self.locals.clone_from(&other.locals);
        self.memory.words.clone_from(&other.memory.words);
        self.memory.posts.clone_from(&other.memory.posts);
        self.memory.halfway.clone_from(&other.memory.halfway);
        self.run = other.run;
        self.ahead = other.ahead;
    }
}

/// Which parts of a state an encoding has: the same for all states of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) ranks: usize,
    pub(super) posts: bool,
    pub(super) halfway: bool,
    pub(super) run: bool,
    pub(super) ahead: bool,
}

/// Words below this are their own code; others have a number in a table.
const PLAIN: u64 = 64;

/// The numbers of large words, the same for all threads.
#[derive(Default)]
pub(super) struct Values {
    numbers: HashMap<u64, u64, FxBuildHasher>,
    words: Vec<u64>,
}

impl Values {
    /// The number of `word`, a new one if it has none.
    pub(super) fn number(&mut self, word: u64) -> u64 {
        *self.numbers.entry(word).or_insert_with(|| {
            self.words.push(word);
            self.words.len() as u64 - 1
        })
    }

    /// Catches up with `all`, of which this is a copy.
    pub(super) fn catch_up(&mut self, all: &Values) {
        for &word in &all.words[self.words.len()..] {
            self.number(word);
        }
    }

    fn code(&self, word: u64) -> Option<u64> {
        if word < PLAIN { Some(word) } else { self.numbers.get(&word).map(|number| number + PLAIN) }
    }

    fn word(&self, code: u64) -> Option<u64> {
        if code < PLAIN { Some(code) } else { self.words.get((code - PLAIN) as usize).copied() }
    }
}

fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn pull(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first().expect("an encoded state has all its parts");
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return value;
        }
        shift += 7;
    }
}

/// Encodes `state`; two states are equal if and only if their encodings are. Returns a word without a number, if there
/// is one.
pub(super) fn encode(parts: Parts, values: &Values, state: &State, bytes: &mut Vec<u8>) -> Result<(), u64> {
    bytes.clear();
    for &local in &state.locals {
        push(bytes, u64::from(local));
    }
    if parts.posts {
        for posts in &state.memory.posts {
            push(bytes, posts.len() as u64);
            for post in posts {
                push(bytes, u64::from(post.slot) << 2 | u64::from(post.mask != u64::MAX) << 1 | u64::from(post.bulk));
                push(bytes, values.code(post.value).ok_or(post.value)?);
                if post.mask != u64::MAX {
                    push(bytes, post.mask);
                }
            }
        }
    }
    if parts.halfway {
        for half in &state.memory.halfway {
            match *half {
                None => push(bytes, 0),
                Some((slot, old)) => {
                    push(bytes, u64::from(slot) + 1);
                    push(bytes, values.code(old).ok_or(old)?);
                }
            }
        }
    }
    if parts.run {
        let (rank, preemptions) = state.run.unwrap_or((u32::MAX, 0));
        push(bytes, u64::from(rank.wrapping_add(1)));
        push(bytes, u64::from(preemptions));
    }
    if parts.ahead {
        push(bytes, state.ahead.before);
        push(bytes, state.ahead.passed);
    }
    // Words that nobody has named yet are zero, so zeros at the end are left out.
    let words = &state.memory.words;
    let len = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    for &word in &words[..len] {
        push(bytes, values.code(word).ok_or(word)?);
    }
    Ok(())
}

/// Decodes `bytes` into `state`, whose vectors are used again; `owner` tells whose memory a slot is in. Returns whether
/// all slots and all words are known here.
pub(super) fn decode(
    parts: Parts,
    values: &Values,
    owner: impl Fn(u16) -> Option<Rank>,
    mut bytes: &[u8],
    state: &mut State,
) -> bool {
    let bytes = &mut bytes;
    state.locals.clear();
    for _ in 0..parts.ranks {
        state.locals.push(pull(bytes) as NodeId);
    }
    let memory = &mut state.memory;
    if parts.posts {
        for posts in &mut memory.posts {
            posts.clear();
            for _ in 0..pull(bytes) {
                let head = pull(bytes);
                let slot = (head >> 2) as u16;
                let Some(value) = values.word(pull(bytes)) else { return false };
                let mask = if head & 2 == 0 { u64::MAX } else { pull(bytes) };
                let Some(target) = owner(slot) else { return false };
                posts.push(Posted { slot, target, bulk: head & 1 == 1, mask, value });
            }
        }
    }
    if parts.halfway {
        for half in &mut memory.halfway {
            let slot = pull(bytes);
            *half = None;
            if slot > 0 {
                let Some(old) = values.word(pull(bytes)) else { return false };
                *half = Some((slot as u16 - 1, old));
            }
        }
    }
    state.run = None;
    if parts.run {
        let (rank, preemptions) = (pull(bytes) as u32, pull(bytes) as u32);
        state.run = rank.checked_sub(1).map(|rank| (rank, preemptions));
    }
    state.ahead = Ahead::default();
    if parts.ahead {
        state.ahead = Ahead { before: pull(bytes), passed: pull(bytes) };
    }
    memory.words.clear();
    while !bytes.is_empty() {
        let Some(word) = values.word(pull(bytes)) else { return false };
        memory.words.push(word);
    }
    true
}
