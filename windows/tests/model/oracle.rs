//! The sequential model: the contents of windows and buffers by the standard.
//!
//! Every rank has a model of all ranks' memory. It replays the acts of all ranks in any order that keeps each rank's own
//! order, since the results of a plan depend on nothing else. Elements that several ranks update are the exception. For
//! each of these the model searches an order of the updates that explains all fetched values and the final one.

use std::collections::{HashMap, HashSet};

use rmalab_windows::{ElementKind, Op};

use super::program::{Act, Call, Contended, Phase, Plan, Step, Storm, StormWay, element};

/// One rank's part of a window.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// True if the byte's value is determined.
    pub(crate) defined: Vec<bool>,
}

/// All parts of all windows.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) parts: Vec<Vec<Part>>,
}

/// The expected content of a buffer; bytes without a value are not determined.
pub(crate) type Expected = Vec<Option<u8>>;

/// The values of contended elements that one rank has fetched, and those left in its memory.
pub(crate) struct Seen {
    pub(crate) fetched: HashMap<(u32, usize, usize), Vec<u8>>,
    pub(crate) left: Vec<Vec<u8>>,
    /// For each rank: the sum of the values that it found while all ranks counted up, and its final value at that
    /// place.
    pub(crate) storm: Vec<(u64, u64)>,
}

/// Returns the first contents of windows over memory of the program.
pub(crate) fn pattern(rank: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(29) ^ rank as u8).collect()
}

/// Returns the bytes of a local store.
pub(crate) fn stored(salt: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| element(ElementKind::U8, salt, i)[0]).collect()
}

/// Returns whether an element, or a part of a complex element, is a NaN.
fn is_nan(kind: ElementKind, bytes: &[u8]) -> bool {
    match kind {
        ElementKind::ComplexF32 => bytes.chunks(4).any(|part| is_nan(ElementKind::F32, part)),
        ElementKind::ComplexF64 => bytes.chunks(8).any(|part| is_nan(ElementKind::F64, part)),
        ElementKind::F32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        ElementKind::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    }
}

/// Returns whether two elements are the same, as far as arithmetic determines them: it does not determine which NaN.
fn same(kind: ElementKind, a: &[u8], b: &[u8]) -> bool {
    a == b || is_nan(kind, a) && is_nan(kind, b)
}

/// Returns the result of an update of `old`.
fn updated(act: &Act, i: usize, old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    if act.call == Call::CompareAndSwap {
        if old == act.expected() {
            new = act.value(i);
        }
    } else {
        act.kind.combine_bytes(act.op, &mut new, &act.value(i));
    }
    new
}

impl Oracle {
    pub(crate) fn new(parts: Vec<Vec<Vec<u8>>>) -> Oracle {
        let part = |bytes: Vec<u8>| Part { defined: vec![true; bytes.len()], bytes };
        Oracle { parts: parts.into_iter().map(|parts| parts.into_iter().map(part).collect()).collect() }
    }

    /// Replays the phase without contended elements, and returns the values that each act of `me` must have fetched.
    pub(crate) fn replay(&mut self, phase: &Phase, me: u32) -> Vec<Expected> {
        let contended: HashSet<(u32, usize, usize)> =
            phase.contended.iter().flat_map(|element| element.updates.iter().copied()).collect();
        for &(rank, window, at, len, salt) in &phase.stores {
            self.write(window, rank, at, &stored(salt, len));
        }
        let mut expected = Vec::new();
        for round in &phase.rounds {
            for (rank, sections) in (0..).zip(&round.sections) {
                for step in sections.iter().flat_map(|section| &section.steps) {
                    if let Step::Act(act) = step {
                        let fetched = self.apply(act, |i| contended.contains(&(rank, act.id, i)));
                        if rank == me {
                            expected.push(fetched);
                        }
                    }
                }
            }
        }
        expected
    }

    fn write(&mut self, window: usize, rank: u32, at: usize, bytes: &[u8]) {
        let part = &mut self.parts[window][rank as usize];
        part.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        part.defined[at..at + bytes.len()].fill(true);
    }

    fn apply(&mut self, act: &Act, is_contended: impl Fn(usize) -> bool) -> Expected {
        let size = act.size();
        let zeros = matches!(act.call, Call::GetValue | Call::FetchAndOp | Call::CompareAndSwap);
        let mut buffer: Expected = act.blank().into_iter().map(Some).collect();
        if act.refused {
            return Vec::new();
        }
        let Some(target) = act.target else {
            if zeros {
                buffer.fill(Some(0));
            }
            return if act.call.fetches() { buffer } else { Vec::new() };
        };
        let spots = act.fetched().offsets(act.n, size);
        for (i, (start, spot)) in act.places().into_iter().zip(spots).enumerate() {
            let (start, spot) = (start as usize, spot as usize);
            let part = &self.parts[act.window][target as usize];
            let (old, known) = (part.bytes[start..start + size].to_vec(), &part.defined[start..start + size]);
            let is_known = known.iter().all(|&known| known);
            let contended = is_contended(i);
            if act.call.fetches() {
                for byte in 0..size {
                    buffer[spot + byte] = (known[byte] && !contended && !act.masked).then_some(old[byte]);
                }
            }
            if contended || !act.call.writes() {
                continue;
            }
            if !act.call.updates() || act.op == Op::Replace && act.call != Call::CompareAndSwap {
                self.write(act.window, target, start, &act.value(i));
            } else if act.op != Op::NoOp || act.call == Call::CompareAndSwap {
                let new = updated(act, i, &old);
                self.write(act.window, target, start, &new);
                let computed = act.op == Op::Sum || act.op == Op::Prod;
                if !is_known || computed && is_nan(act.kind, &new) {
                    self.parts[act.window][target as usize].defined[start..start + size].fill(false);
                }
            }
        }
        if let Some((_, at, len)) = act.also {
            let part = &self.parts[act.window][target as usize];
            let range = at as usize..at as usize + len;
            let pairs = part.bytes[range.clone()].iter().zip(&part.defined[range]);
            return pairs.map(|(&byte, &known)| known.then_some(byte)).collect();
        }
        if act.call.fetches() { buffer } else { Vec::new() }
    }

    /// Explains the values of contended elements that the ranks have seen, and takes over the final ones.
    pub(crate) fn explain(&mut self, phase: &Phase, seen: &Seen) -> Result<(), String> {
        if let Some(storm) = &phase.storm {
            self.count(storm, &seen.storm)?;
        }
        let mut acts = HashMap::new();
        for round in &phase.rounds {
            for (rank, sections) in (0u32..).zip(&round.sections) {
                for step in sections.iter().flat_map(|section| &section.steps) {
                    if let Step::Act(act) = step {
                        acts.insert((rank, act.id), act);
                    }
                }
            }
        }
        for (element, left) in phase.contended.iter().zip(&seen.left) {
            let range = element.start..element.start + element.kind.size() as usize;
            let part = &self.parts[element.window][element.target as usize];
            let known = part.defined[range.clone()].iter().all(|&known| known);
            let first = part.bytes[range].to_vec();
            if known {
                explain_one(element, &acts, &seen.fetched, &first, left)?;
            }
            self.write(element.window, element.target, element.start, left);
        }
        for &(window, rank, byte) in &phase.racy {
            self.parts[window][rank as usize].defined[byte] = false;
        }
        Ok(())
    }

    /// Checks an integer to which all ranks have added 1 many times: the found values are determined, but not their
    /// finders.
    fn count(&mut self, storm: &Storm, seen: &[(u64, u64)]) -> Result<(), String> {
        let size = storm.kind.size() as usize;
        let part = &self.parts[storm.window][storm.target as usize];
        let range = storm.start..storm.start + size;
        let known = part.defined[range.clone()].iter().all(|&known| known);
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let first = word(&part.bytes[range.clone()]);
        let total = storm.times * seen.len() as u64;
        let mask = u64::MAX >> (64 - 8 * size);
        let found = seen.iter().fold(0u64, |sum, seen| sum.wrapping_add(seen.0));
        let expected = (0..total).fold(0u64, |sum, i| sum.wrapping_add(first.wrapping_add(i) & mask));
        if known && storm.way != StormWay::Accumulate && found != expected {
            return Err(format!(
                "the sum of the values that the ranks have found differs by {}: {storm:?}",
                found.wrapping_sub(expected)
            ));
        }
        // The value was not known before; now the owner's value is known.
        let last = if known { first.wrapping_add(total) & mask } else { seen[storm.target as usize].1 };
        let bytes = last.to_le_bytes();
        self.write(storm.window, storm.target, storm.start, &bytes[..size]);
        Ok(())
    }

    /// Compares a part with its actual content.
    pub(crate) fn compare(&self, plan: &Plan, window: usize, rank: u32, found: &[u8]) -> Result<(), String> {
        let part = &self.parts[window][rank as usize];
        let expected: Expected =
            part.bytes.iter().zip(&part.defined).map(|(&byte, &known)| known.then_some(byte)).collect();
        differ(&expected, found).map_or(Ok(()), |at| {
            let flavor = plan.windows[window].flavor;
            Err(format!(
                "window {window} ({flavor}) of rank {rank} differs at byte {at}: {:?} is expected, {:?} is there",
                expected.get(at),
                found.get(at)
            ))
        })
    }
}

/// Returns the first byte that differs from the expected one.
pub(crate) fn differ(expected: &Expected, found: &[u8]) -> Option<usize> {
    if expected.len() != found.len() {
        return Some(expected.len().min(found.len()));
    }
    expected.iter().zip(found).position(|(expected, found)| expected.is_some_and(|expected| expected != *found))
}

/// An act, the number of its element, and the value that it has fetched there.
type Update<'a> = (&'a Act, usize, Option<&'a Vec<u8>>);

/// Searches an order of the updates of one element that leads from `first` to `left` through all fetched values. Each
/// rank's updates stay in the order of its calls.
fn explain_one(
    element: &Contended,
    acts: &HashMap<(u32, usize), &Act>,
    fetched: &HashMap<(u32, usize, usize), Vec<u8>>,
    first: &[u8],
    left: &[u8],
) -> Result<(), String> {
    let kind = element.kind;
    let ranks = element.updates.iter().map(|update| update.0 as usize + 1).max().unwrap_or(0);
    let mut queues: Vec<Vec<Update<'_>>> = vec![Vec::new(); ranks];
    for update in &element.updates {
        let act = acts[&(update.0, update.1)];
        queues[update.0 as usize].push((act, update.2, fetched.get(update)));
    }
    let mut met = HashSet::new();
    let mut open = vec![(vec![0; ranks], first.to_vec())];
    while let Some((done, value)) = open.pop() {
        if !met.insert((done.clone(), value.clone())) {
            continue;
        }
        if queues.iter().zip(&done).all(|(queue, &done)| done == queue.len()) {
            if same(kind, &value, left) {
                return Ok(());
            }
            continue;
        }
        for (rank, queue) in queues.iter().enumerate() {
            let Some(&(act, i, old)) = queue.get(done[rank]) else { continue };
            if old.is_some_and(|old| !same(kind, old, &value)) {
                continue;
            }
            let mut done = done.clone();
            done[rank] += 1;
            open.push((done, updated(act, i, &value)));
        }
    }
    let show = |(act, i, old): &Update<'_>| format!("{:?} {} of {:?} found {old:?}", act.call, act.op, act.value(*i));
    let histories: Vec<Vec<String>> = queues.iter().map(|queue| queue.iter().map(show).collect()).collect();
    Err(format!(
        "no order of the updates explains byte {} of window {} of rank {} ({kind}): from {first:?} to {left:?} by \
         {histories:#?}",
        element.start, element.window, element.target
    ))
}
