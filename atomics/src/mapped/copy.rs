//! Copies between private memory and memory that others access at the same time.
//!
//! An ordinary `copy_nonoverlapping` that races with another access is undefined behaviour. Here every aligned word of
//! the shared side is moved by one relaxed atomic access, and the odd bytes at both ends by byte accesses; long runs are
//! left to the processor's string move, which does the same in hardware.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// From this many bytes on, the string move's start-up (some 30 cycles) is paid back.
#[cfg(target_arch = "x86_64")]
const STRING_MOVE: usize = 512;

/// Copies `len` bytes to shared memory.
///
/// # Safety
///
/// `source` is valid for reads and `shared` for reads and writes of `len` bytes; nothing writes `source` meanwhile, and
/// `shared` is accessed meanwhile by atomics or by these copies only.
pub(super) unsafe fn to_shared(mut source: *const u8, mut shared: *mut u8, mut len: usize) {
    let head = shared.align_offset(WORD).min(len);
    // SAFETY: all three parts stay within `len` bytes of both pointers; the middle part's `shared` is word-aligned.
    unsafe {
        bytes_to_shared(source, shared, head);
        (source, shared, len) = (source.add(head), shared.add(head), len - head);
        let words = len / WORD;
        words_to_shared(source, shared, words);
        bytes_to_shared(source.add(words * WORD), shared.add(words * WORD), len % WORD);
    }
}

/// Copies `len` bytes from shared memory.
///
/// # Safety
///
/// `dest` is valid for writes and `shared` for reads of `len` bytes; nothing else accesses `dest` meanwhile, and
/// `shared` is accessed meanwhile by atomics or by these copies only.
pub(super) unsafe fn from_shared(mut shared: *const u8, mut dest: *mut u8, mut len: usize) {
    let head = shared.align_offset(WORD).min(len);
    // SAFETY: all three parts stay within `len` bytes of both pointers; the middle part's `shared` is word-aligned.
    unsafe {
        bytes_from_shared(shared, dest, head);
        (shared, dest, len) = (shared.add(head), dest.add(head), len - head);
        let words = len / WORD;
        words_from_shared(shared, dest, words);
        bytes_from_shared(shared.add(words * WORD), dest.add(words * WORD), len % WORD);
    }
}

/// Moves `words` words; the direction flag is clear, as the calling convention promises.
///
/// # Safety
///
/// As the two copies above, for whichever side is the shared one, which is word-aligned.
#[cfg(target_arch = "x86_64")]
unsafe fn string_move(source: *const u8, dest: *mut u8, words: usize) {
    // SAFETY: reads and writes just the two ranges. To the compiler this is code of another language that accesses
    // memory with machine instructions, which act on each aligned word as relaxed atomics do.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") words => _, inout("rsi") source => _, inout("rdi") dest => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies `words` words to shared memory.
///
/// # Safety
///
/// As [`to_shared`]; `shared` is word-aligned.
unsafe fn words_to_shared(source: *const u8, shared: *mut u8, words: usize) {
    #[cfg(target_arch = "x86_64")]
    if words * WORD >= STRING_MOVE {
        // SAFETY: the caller's promise.
        return unsafe { string_move(source, shared, words) };
    }
    for i in 0..words {
        // SAFETY: word `i` lies in both ranges; `shared` is word-aligned, `source` need not be.
        unsafe {
            let word = source.cast::<u64>().add(i).read_unaligned();
            (*shared.cast::<AtomicU64>().add(i)).store(word, Ordering::Relaxed);
        }
    }
}

/// Copies `words` words from shared memory.
///
/// # Safety
///
/// As [`from_shared`]; `shared` is word-aligned.
unsafe fn words_from_shared(shared: *const u8, dest: *mut u8, words: usize) {
    #[cfg(target_arch = "x86_64")]
    if words * WORD >= STRING_MOVE {
        // SAFETY: the caller's promise.
        return unsafe { string_move(shared, dest, words) };
    }
    for i in 0..words {
        // SAFETY: word `i` lies in both ranges; `shared` is word-aligned, `dest` need not be.
        unsafe {
            let word = (*shared.cast::<AtomicU64>().add(i)).load(Ordering::Relaxed);
            dest.cast::<u64>().add(i).write_unaligned(word);
        }
    }
}

/// Copies `len` bytes to shared memory, one by one.
///
/// # Safety
///
/// As [`to_shared`].
unsafe fn bytes_to_shared(source: *const u8, shared: *mut u8, len: usize) {
    for i in 0..len {
        // SAFETY: byte `i` lies in both ranges.
        unsafe { (*shared.cast::<AtomicU8>().add(i)).store(source.add(i).read(), Ordering::Relaxed) };
    }
}

/// Copies `len` bytes from shared memory, one by one.
///
/// # Safety
///
/// As [`from_shared`].
unsafe fn bytes_from_shared(shared: *const u8, dest: *mut u8, len: usize) {
    for i in 0..len {
        // SAFETY: byte `i` lies in both ranges.
        unsafe { dest.add(i).write((*shared.cast::<AtomicU8>().add(i)).load(Ordering::Relaxed)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_and_length_copies_just_its_bytes() {
        let pattern: Vec<u8> = (0..2048u32).map(|i| (i * 7 + 1) as u8).collect();
        for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 2), (7, 7)] {
            for len in (0..40).chain([255, 256, 511, 512, 513, 520, 1000]) {
                let mut shared = vec![0u64; 256];
                let base: *mut u8 = shared.as_mut_ptr().cast();
                // SAFETY: 1,000 bytes from offset 7 lie within both buffers of 2,048 bytes.
                unsafe { to_shared(pattern[from..].as_ptr(), base.add(to), len) };
                // SAFETY: the buffer is 2,048 initialized bytes.
                let seen = unsafe { std::slice::from_raw_parts(base, 2048) };
                assert_eq!(&seen[to..to + len], &pattern[from..from + len]);
                assert!(seen[..to].iter().chain(&seen[to + len..]).all(|&byte| byte == 0));
                let mut back = vec![0u8; 2048];
                // SAFETY: as above.
                unsafe { from_shared(base.add(to), back[from..].as_mut_ptr(), len) };
                assert_eq!(&back[from..from + len], &pattern[from..from + len]);
                assert!(back[..from].iter().chain(&back[from + len..]).all(|&byte| byte == 0));
            }
        }
    }
}
