//! Copies between a buffer and words that others may access at the same time, by loads and stores, exact to the byte.
//!
//! Whole words are stored with release and loaded with acquire. A compare-and-swap changes a word with only some
//! written bytes, so that writers of its other bytes lose nothing.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// Returns the number of bytes, out of `len` bytes from `offset` on, that are ahead of the first whole word.
fn head(offset: usize, len: usize) -> usize {
    len.min(offset.next_multiple_of(WORD) - offset)
}

/// Writes `source` at the byte `offset` of `words`, which has room for it.
#[inline]
pub(super) fn store(words: &[AtomicU64], offset: usize, source: &[u8]) {
    let (head, rest) = source.split_at(head(offset, source.len()));
    if !head.is_empty() {
        merge(&words[offset / WORD], offset % WORD, head);
    }
    let words = &words[offset.div_ceil(WORD)..];
    let (whole, tail) = rest.as_chunks();
    for (word, &bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(bytes), Ordering::Release);
    }
    if !tail.is_empty() {
        merge(&words[whole.len()], 0, tail);
    }
}

/// Changes some bytes of a word.
fn merge(word: &AtomicU64, first: usize, source: &[u8]) {
    let merged = |old: u64| {
        let mut bytes = old.to_ne_bytes();
        bytes[first..first + source.len()].copy_from_slice(source);
        Some(u64::from_ne_bytes(bytes))
    };
    word.fetch_update(Ordering::Release, Ordering::Relaxed, merged).expect("every word is merged");
}

/// Reads `dest` from the byte `offset` of `words`, which has at least that many bytes.
#[inline]
pub(super) fn load(words: &[AtomicU64], offset: usize, dest: &mut [u8]) {
    let part = |word: &AtomicU64| word.load(Ordering::Acquire).to_ne_bytes();
    let (head, rest) = dest.split_at_mut(head(offset, dest.len()));
    if !head.is_empty() {
        let first = offset % WORD;
        head.copy_from_slice(&part(&words[offset / WORD])[first..first + head.len()]);
    }
    let words = &words[offset.div_ceil(WORD)..];
    let (whole, tail) = rest.as_chunks_mut();
    for (word, bytes) in words.iter().zip(&mut *whole) {
        *bytes = part(word);
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&part(&words[whole.len()])[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every offset and length in five words, against a copy of bytes.
    #[test]
    fn copies_are_exact_to_the_byte() {
        for offset in 0..=40 {
            for len in 0..=40 - offset {
                let words: Vec<AtomicU64> = (0..5).map(|_| AtomicU64::new(u64::MAX)).collect();
                let source: Vec<u8> = (1..=len as u8).collect();
                store(&words, offset, &source);
                let mut expected = [0xff; 40];
                expected[offset..offset + len].copy_from_slice(&source);
                let found: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
                assert_eq!(found, expected, "{len} bytes at {offset}");
                let mut dest = vec![0; len];
                load(&words, offset, &mut dest);
                assert_eq!(dest, source, "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn writers_of_one_word_lose_nothing() {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        let start = std::sync::Barrier::new(4);
        // Three bytes each, at 0, 3, 6, ...: the third thread's bytes are in both words.
        std::thread::scope(|scope| {
            for writer in 0..4_usize {
                let (words, start) = (&words, &start);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..600_000_u32 {
                        let mine = [round as u8, (round >> 8) as u8, writer as u8];
                        store(words, 3 * writer, &mine);
                        let mut seen = [0; 3];
                        load(words, 3 * writer, &mut seen);
                        assert_eq!(seen, mine, "writer {writer} in round {round}");
                    }
                });
            }
        });
    }
}
