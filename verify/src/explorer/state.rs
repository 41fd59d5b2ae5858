//! Global states, and their encoding as bytes.

use std::collections::HashMap;

use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Rank, Time};
use rustc_hash::FxBuildHasher;

use super::node::NodeId;
use super::order::Ahead;
use crate::network::{Change, Deaths, Delivered, Memory, Posted, Sequence};

/// One global state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// Each rank's local state.
    pub(super) locals: Vec<NodeId>,
    /// The words, and the operations under way.
    pub(super) memory: Memory,
    /// Under a preemption bound: the rank that ran last, and the number of preemptions.
    pub(super) run: Option<(u32, u32)>,
    /// For a check of the order: the ranks that waited when another rank began.
    pub(super) ahead: Ahead,
    /// If acquisitions may fail: the rank that has had the lock to itself since its acquisition began.
    pub(super) alone: Option<Rank>,
}

impl State {
    /// A state without parts.
    pub(super) fn nothing() -> State {
        State { locals: Vec::new(), memory: Memory::default(), run: None, ahead: Ahead::default(), alone: None }
    }

    pub(super) fn copy_from(&mut self, other: &State) {
        self.locals.clone_from(&other.locals);
        self.memory.words.clone_from(&other.memory.words);
        self.memory.posts.clone_from(&other.memory.posts);
        self.memory.results.clone_from(&other.memory.results);
        self.memory.halfway.clone_from(&other.memory.halfway);
        self.memory.clocks.clone_from(&other.memory.clocks);
        self.memory.held.clone_from(&other.memory.held);
        let (deaths, others) = (&mut self.memory.deaths, &other.memory.deaths);
        (deaths.down, deaths.untold) = (others.down, others.untold);
        deaths.known.clone_from(&others.known);
        deaths.acknowledged.clone_from(&others.acknowledged);
        self.memory.restarts = other.memory.restarts;
        self.run = other.run;
        self.ahead = other.ahead;
        self.alone = other.alone;
    }
}

/// The parts of a state that its encoding contains: the same for all states of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) ranks: usize,
    pub(super) posts: bool,
    pub(super) halfway: bool,
    pub(super) run: bool,
    pub(super) ahead: bool,
    pub(super) clocks: bool,
    pub(super) alone: bool,
    pub(super) deaths: bool,
    pub(super) restarts: bool,
    pub(super) leases: bool,
}

/// Smaller words are their own codes; other words have a number in a table.
const PLAIN: u64 = 64;

/// The numbers of large words, the same for all threads.
#[derive(Default)]
pub(super) struct Values {
    numbers: HashMap<u64, u64, FxBuildHasher>,
    words: Vec<u64>,
}

impl Values {
    /// The number of `word`; a word without one gets a new number.
    pub(super) fn number(&mut self, word: u64) -> u64 {
        *self.numbers.entry(word).or_insert_with(|| {
            self.words.push(word);
            self.words.len() as u64 - 1
        })
    }

    /// Updates this copy of `all`.
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

/// The first byte of an encoding with results, in place of the first local state.
const HAS_RESULTS: u64 = NodeId::MAX as u64;

/// The bit of an operation under way whose kind is encoded next.
const HAS_MORE: u64 = 2;
const AHEAD: u64 = 4;
/// The bit of an operation under way without an order.
const UNORDERED: u64 = 1;

/// The kind of a put to some bits of a word; the other kinds are started operations.
const MASKED: u8 = 5;

/// The kind of a store.
const STORED: u8 = 6;

/// The kinds of an ordered bulk put's first and further words.
const BULK_FIRST: u8 = 7;
const BULK_FURTHER: u8 = 8;

/// The kind of an operation, and its words.
fn taken_apart(op: WordOp) -> (u8, [u64; 2]) {
    match op {
        WordOp::FetchAdd(value) => (0, [value, 0]),
        WordOp::CompareAndSwap { expected, desired } => (1, [expected, desired]),
        WordOp::FetchStore(value) => (2, [value, 0]),
        WordOp::Get => (3, [0, 0]),
        WordOp::Put(value) => (4, [value, 0]),
    }
}

/// The operation that [`taken_apart`] splits into these.
fn put_together(kind: u8, [first, second]: [u64; 2]) -> WordOp {
    match kind {
        0 => WordOp::FetchAdd(first),
        1 => WordOp::CompareAndSwap { expected: first, desired: second },
        2 => WordOp::FetchStore(first),
        3 => WordOp::Get,
        _ => WordOp::Put(first),
    }
}

/// Encodes `state`. Two states are equal if and only if their encodings are equal. Returns a word without a number, if
/// there is one.
pub(super) fn encode(parts: Parts, values: &Values, state: &State, bytes: &mut Vec<u8>) -> Result<(), u64> {
    bytes.clear();
    // Few checks have results, so the encoding has no byte for them in other checks.
    if state.memory.results.iter().any(|results| !results.is_empty()) {
        push(bytes, HAS_RESULTS);
        for results in &state.memory.results {
            push(bytes, results.len() as u64);
            for &Delivered { request, slot, word } in results {
                push(bytes, u64::from(request));
                push(bytes, u64::from(slot));
                push(bytes, values.code(word).ok_or(word)?);
            }
        }
    }
    for &local in &state.locals {
        push(bytes, u64::from(local));
    }
    if parts.posts {
        for posts in &state.memory.posts {
            push(bytes, posts.len() as u64);
            for post in posts {
                let (more, first, second) = match post.change {
                    Change::Put { mask, value } if let Sequence::Bulk { further } = post.sequence => {
                        (Some((if further { BULK_FURTHER } else { BULK_FIRST }, mask)), value, None)
                    }
                    Change::Put { mask: u64::MAX, value } => (None, value, None),
                    Change::Put { mask, value } => (Some((MASKED, mask)), value, None),
                    Change::Store { value, flushed } => (Some((STORED, u64::from(flushed))), value, None),
                    Change::Start { request, op } => {
                        let (kind, [first, second]) = taken_apart(op);
                        (Some((kind, u64::from(request))), first, Some(second))
                    }
                };
                let unordered = post.sequence == Sequence::Unordered;
                let head = u64::from(post.slot) << 3 | u64::from(post.ahead) << 2 | u64::from(unordered);
                push(bytes, if more.is_some() { head | HAS_MORE } else { head });
                if let Some((kind, number)) = more {
                    push(bytes, u64::from(kind));
                    push(bytes, number);
                }
                for word in [Some(first), second].into_iter().flatten() {
                    push(bytes, values.code(word).ok_or(word)?);
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
    if parts.clocks {
        for &Time(clock) in &state.memory.clocks {
            push(bytes, values.code(clock).ok_or(clock)?);
        }
    }
    if parts.leases {
        for &held in &state.memory.held {
            push(bytes, u64::from(held));
        }
    }
    if parts.alone {
        push(bytes, state.alone.map_or(0, |rank| u64::from(rank.0) + 1));
    }
    if parts.deaths {
        let Deaths { down, known, acknowledged, untold } = &state.memory.deaths;
        push(bytes, *down);
        if *down != 0 {
            push(bytes, *untold);
            for &ranks in known.iter().chain(acknowledged) {
                push(bytes, ranks);
            }
        }
    }
    if parts.restarts {
        push(bytes, u64::from(state.memory.restarts));
    }
    // Words without a name are zero, so that the encoding omits zeros at the end.
    let words = &state.memory.words;
    let len = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    for &word in &words[..len] {
        push(bytes, values.code(word).ok_or(word)?);
    }
    Ok(())
}

/// Decodes `bytes` into `state`, and reuses its vectors. `owner` returns the rank whose memory has a slot. Returns
/// whether all slots and all words are known here.
pub(super) fn decode(
    parts: Parts,
    values: &Values,
    owner: impl Fn(u16) -> Option<Rank>,
    mut bytes: &[u8],
    state: &mut State,
) -> bool {
    let bytes = &mut bytes;
    let memory = &mut state.memory;
    memory.results.iter_mut().for_each(Vec::clear);
    let mut first = pull(bytes);
    if first == HAS_RESULTS {
        for results in &mut memory.results {
            for _ in 0..pull(bytes) {
                let (request, slot) = (pull(bytes) as u32, pull(bytes) as u16);
                let Some(word) = values.word(pull(bytes)) else { return false };
                results.push(Delivered { request, slot, word });
            }
        }
        first = pull(bytes);
    }
    state.locals.clear();
    state.locals.push(first as NodeId);
    for _ in 1..parts.ranks {
        state.locals.push(pull(bytes) as NodeId);
    }
    if parts.posts {
        for posts in &mut memory.posts {
            posts.clear();
            for _ in 0..pull(bytes) {
                let head = pull(bytes);
                let slot = (head >> 3) as u16;
                let Some(target) = owner(slot) else { return false };
                let kind = if head & HAS_MORE == 0 { None } else { Some(pull(bytes) as u8) };
                let number = if kind.is_some() { pull(bytes) } else { u64::MAX };
                let Some(first) = values.word(pull(bytes)) else { return false };
                let change = match kind {
                    None | Some(MASKED | BULK_FIRST | BULK_FURTHER) => Change::Put { mask: number, value: first },
                    Some(STORED) => Change::Store { value: first, flushed: number != 0 },
                    Some(kind) => {
                        let Some(second) = values.word(pull(bytes)) else { return false };
                        Change::Start { request: number as u32, op: put_together(kind, [first, second]) }
                    }
                };
                let sequence = match kind {
                    Some(BULK_FIRST) => Sequence::Bulk { further: false },
                    Some(BULK_FURTHER) => Sequence::Bulk { further: true },
                    _ if head & UNORDERED != 0 => Sequence::Unordered,
                    _ => Sequence::InOrder,
                };
                posts.push(Posted { slot, target, sequence, ahead: head & AHEAD != 0, change });
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
    if parts.clocks {
        for clock in &mut memory.clocks {
            let Some(time) = values.word(pull(bytes)) else { return false };
            *clock = Time(time);
        }
    }
    if parts.leases {
        for held in &mut memory.held {
            *held = pull(bytes) as u8;
        }
    }
    state.alone = None;
    if parts.alone {
        state.alone = pull(bytes).checked_sub(1).map(|rank| Rank(rank as u32));
    }
    if parts.deaths {
        let Deaths { down, known, acknowledged, untold } = &mut memory.deaths;
        *down = pull(bytes);
        *untold = if *down == 0 { 0 } else { pull(bytes) };
        for ranks in known.iter_mut().chain(acknowledged) {
            *ranks = if *down == 0 { 0 } else { pull(bytes) };
        }
    }
    memory.restarts = if parts.restarts { pull(bytes) as u32 } else { 0 };
    memory.words.clear();
    while !bytes.is_empty() {
        let Some(word) = values.word(pull(bytes)) else { return false };
        memory.words.push(word);
    }
    true
}
