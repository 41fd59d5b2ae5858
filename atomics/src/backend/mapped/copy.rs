//! Copies between private memory and memory that others access at the same time.
//!
//! An ordinary `copy_nonoverlapping` that races with another access is undefined behaviour. Here one relaxed atomic
//! access moves each aligned word of the shared side, and byte accesses move the odd bytes at both ends. So a value
//! that a processor stores at once is copied by one access. Long runs go through vector registers, where the processor
//! has wide ones.
//!
//! The string move (`rep movs`) is not used. From 64 KiB to 4 MiB it is at most as fast as vectors. For short runs its
//! start-up costs more than the run. It is several times slower where the destination begins up to 64 bytes after the
//! source, modulo the page size (measured on Zen 4).

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

const WORD: usize = size_of::<u64>();

/// Bytes of a vector register.
#[cfg(target_arch = "x86_64")]
const VECTOR: usize = 32;

/// The number of vectors that one round of the loop over long runs moves. With eight of them 1 MiB takes as long as
/// with the C library, with four 10 % longer (measured on Zen 4).
#[cfg(target_arch = "x86_64")]
const ROUND: usize = 8;

/// From this many bytes on, vectors are worth their set-up.
#[cfg(target_arch = "x86_64")]
const VECTORS: usize = 3 * VECTOR;

/// Copies `len` bytes to shared memory.
///
/// # Safety
///
/// `source` is valid for reads and `shared` for reads and writes of `len` bytes; during the call nothing writes
/// `source`, and all accesses to `shared` are atomics or these copies.
#[inline(always)]
pub(crate) unsafe fn to_shared(source: *const u8, shared: *mut u8, len: usize) {
    // SAFETY: `shared` is aligned to the word (just checked), `source` need not be; both have `len` bytes.
    unsafe {
        if len == WORD && shared.addr().is_multiple_of(WORD) {
            ToShared::copy::<u64>(source.cast(), shared.cast());
        } else {
            run::<ToShared>(source, shared, len);
        }
    }
}

/// Copies `len` bytes from shared memory, after the earlier atomic operations of this rank.
///
/// # Safety
///
/// `dest` is valid for writes and `shared` for reads of `len` bytes; during the call nothing else accesses `dest`, and
/// all accesses to `shared` are atomics or these copies.
#[inline(always)]
pub(crate) unsafe fn from_shared(shared: *const u8, dest: *mut u8, len: usize) {
    // ORDER: a bulk get follows the operations that this rank has completed. On x86, atomic operations that write are
    // full fences.
    if cfg!(not(any(target_arch = "x86", target_arch = "x86_64"))) {
        fence(Ordering::SeqCst);
    }
    // SAFETY: `shared` is aligned to the word (just checked), `dest` need not be; both have `len` bytes.
    unsafe {
        if len == WORD && shared.addr().is_multiple_of(WORD) {
            FromShared::copy::<u64>(shared.cast(), dest.cast());
        } else {
            run::<FromShared>(shared, dest, len);
        }
    }
}

/// Zeroes `len` bytes of shared memory.
///
/// # Safety
///
/// `shared` is valid for writes of `len` bytes, and during the call it is accessed only by atomics or by these copies.
pub(crate) unsafe fn zero_shared(shared: *mut u8, len: usize) {
    let head = shared.align_offset(WORD).min(len);
    let (words, tail) = ((len - head) / WORD, (len - head) % WORD);
    let bytes = (0..head).chain(len - tail..len);
    for i in bytes {
        // SAFETY: byte `i` lies in the range.
        unsafe { (*shared.cast::<AtomicU8>().add(i)).store(0, Ordering::Relaxed) };
    }
    for i in 0..words {
        // SAFETY: word `i` after the head lies in the range and is aligned.
        unsafe { (*shared.add(head).cast::<AtomicU64>().add(i)).store(0, Ordering::Relaxed) };
    }
}

/// A number that the processor loads and stores with one access.
trait Number: Copy {
    /// # Safety
    ///
    /// `at` is aligned and valid for reads, and during the call all accesses to it are atomics or these copies.
    unsafe fn load(at: *const Self) -> Self;

    /// # Safety
    ///
    /// `at` is aligned and valid for writes, and during the call it is accessed only by atomics or by these copies.
    unsafe fn store(at: *mut Self, value: Self);
}

macro_rules! number {
    ($($number:ty, $atomic:ty;)*) => {$(
        impl Number for $number {
            #[inline(always)]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { (*at.cast::<$atomic>()).load(Ordering::Relaxed) }
            }

            #[inline(always)]
            unsafe fn store(at: *mut Self, value: Self) {
                // SAFETY: the caller's promise.
                unsafe { (*at.cast::<$atomic>()).store(value, Ordering::Relaxed) };
            }
        }
    )*};
}
number! { u8, AtomicU8; u16, AtomicU16; u32, AtomicU32; u64, AtomicU64; }

/// The direction of a copy: which side is shared.
trait Direction {
    /// The shared side.
    fn shared(source: *const u8, dest: *mut u8) -> *const u8;

    /// Copies one number.
    ///
    /// # Safety
    ///
    /// The conditions of [`to_shared`] or [`from_shared`], for the bytes of the number; the shared side is aligned to
    /// it.
    unsafe fn copy<T: Number>(source: *const T, dest: *mut T);
}

struct ToShared;

impl Direction for ToShared {
    #[inline(always)]
    fn shared(_source: *const u8, dest: *mut u8) -> *const u8 {
        dest
    }

    #[inline(always)]
    unsafe fn copy<T: Number>(source: *const T, dest: *mut T) {
        // SAFETY: the caller's promise; `source` need not be aligned.
        unsafe { T::store(dest, source.read_unaligned()) };
    }
}

struct FromShared;

impl Direction for FromShared {
    #[inline(always)]
    fn shared(source: *const u8, _dest: *mut u8) -> *const u8 {
        source
    }

    #[inline(always)]
    unsafe fn copy<T: Number>(source: *const T, dest: *mut T) {
        // SAFETY: the caller's promise; `dest` need not be aligned.
        unsafe { dest.write_unaligned(T::load(source)) };
    }
}

/// Copies `count` numbers, one by one.
///
/// # Safety
///
/// The conditions of [`Direction::copy`], for all of them.
#[inline(always)]
unsafe fn each<D: Direction, T: Number>(source: *const u8, dest: *mut u8, count: usize) {
    for i in 0..count {
        // SAFETY: number `i` lies in both ranges, and its shared side has the alignment of the first number.
        unsafe { D::copy::<T>(source.cast::<T>().add(i), dest.cast::<T>().add(i)) };
    }
}

/// Copies `len` bytes of any number and alignment.
///
/// # Safety
///
/// The conditions of [`to_shared`] or [`from_shared`].
#[inline(never)] // so that the one access to a word costs no more where it is inlined
unsafe fn run<D: Direction>(mut source: *const u8, mut dest: *mut u8, mut len: usize) {
    let shared = D::shared(source, dest);
    // SAFETY: both sides have `len` bytes. The shared side is aligned to the access (checked), and the other side need
    // not be.
    unsafe {
        match len {
            1 => return D::copy::<u8>(source, dest),
            2 if shared.addr().is_multiple_of(2) => return D::copy::<u16>(source.cast(), dest.cast()),
            4 if shared.addr().is_multiple_of(4) => return D::copy::<u32>(source.cast(), dest.cast()),
            _ => {}
        }
    }
    let head = shared.align_offset(WORD).min(len);
    // SAFETY: all parts stay within `len` bytes of both pointers; the shared side is word-aligned from the second part on.
    unsafe {
        each::<D, u8>(source, dest, head);
        (source, dest, len) = (source.add(head), dest.add(head), len - head);
        #[cfg(target_arch = "x86_64")]
        if len >= VECTORS && is_x86_feature_detected!("avx") {
            let head = D::shared(source, dest).align_offset(VECTOR);
            each::<D, u64>(source, dest, head / WORD);
            let count = (len - head) / VECTOR;
            vectors(source.add(head), dest.add(head), count);
            let done = head + count * VECTOR;
            (source, dest, len) = (source.add(done), dest.add(done), len - done);
        }
        let words = len / WORD;
        each::<D, u64>(source, dest, words);
        each::<D, u8>(source.add(words * WORD), dest.add(words * WORD), len % WORD);
    }
}

/// Adds `values` to `words`, up to the length of the shorter one, each with a separate load and store.
///
/// This is not atomic: concurrent additions by others to the same words may be lost. It is not ordered either: fence
/// after it.
pub fn add_words(words: &[AtomicU64], values: &[u64]) {
    let count = words.len().min(values.len());
    let (words, values) = (&words[..count], &values[..count]);
    let singly = |words: &[AtomicU64], values: &[u64]| {
        for (word, value) in words.iter().zip(values) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(*value), Ordering::Relaxed);
        }
    };
    #[cfg(target_arch = "x86_64")]
    if count * WORD >= VECTORS && is_x86_feature_detected!("avx2") {
        let head = words.as_ptr().align_offset(VECTOR).min(count);
        let rounds = (count - head) / ADDED;
        let tail = head + rounds * ADDED;
        singly(&words[..head], &values[..head]);
        // SAFETY: the processor has AVX2. Both slices have `rounds * ADDED` words from `head` on, and in `words` these are
        // aligned to a vector.
        unsafe { add_vectors(values.as_ptr().add(head), words.as_ptr().add(head), rounds) };
        return singly(&words[tail..], &values[tail..]);
    }
    singly(words, values);
}

/// The number of words that one round of [`add_vectors`] adds.
#[cfg(target_arch = "x86_64")]
const ADDED: usize = 4 * VECTOR / WORD;

/// Adds `rounds` times [`ADDED`] values.
///
/// # Safety
///
/// The processor has AVX2. Both pointers are valid for that many words, and `words` is aligned to [`VECTOR`] bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn add_vectors(values: *const u64, words: *const AtomicU64, rounds: usize) {
    // SAFETY: as for `vectors`.
    unsafe {
        std::arch::asm!(
            "test rcx, rcx",
            "jz 3f",
            "2:",
            "vmovdqu ymm0, [rsi]",
            "vmovdqu ymm1, [rsi + 32]",
            "vmovdqu ymm2, [rsi + 64]",
            "vmovdqu ymm3, [rsi + 96]",
            "vpaddq ymm0, ymm0, [rdi]",
            "vpaddq ymm1, ymm1, [rdi + 32]",
            "vpaddq ymm2, ymm2, [rdi + 64]",
            "vpaddq ymm3, ymm3, [rdi + 96]",
            "vmovdqu [rdi], ymm0",
            "vmovdqu [rdi + 32], ymm1",
            "vmovdqu [rdi + 64], ymm2",
            "vmovdqu [rdi + 96], ymm3",
            "add rsi, 128",
            "add rdi, 128",
            "dec rcx",
            "jnz 2b",
            "3:",
            "vzeroupper",
            inout("rsi") values => _,
            inout("rdi") words => _,
            inout("rcx") rounds => _,
            clobber_abi("sysv64"),
            options(nostack),
        );
    }
}

/// Moves `count` times [`VECTOR`] bytes.
///
/// # Safety
///
/// The processor has AVX. In addition, the conditions of the two copies above hold. The shared side is aligned to
/// [`VECTOR`] bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn vectors(source: *const u8, dest: *mut u8, count: usize) {
    // SAFETY: the code reads and writes only the two ranges. To the compiler this is code of another language that
    // accesses memory with machine instructions, which act on each word of an aligned vector as relaxed atomics do.
    unsafe {
        std::arch::asm!(
            "test rcx, rcx",
            "jz 3f",
            "2:",
            "vmovdqu ymm0, [rsi]",
            "vmovdqu ymm1, [rsi + 32]",
            "vmovdqu ymm2, [rsi + 64]",
            "vmovdqu ymm3, [rsi + 96]",
            "vmovdqu ymm4, [rsi + 128]",
            "vmovdqu ymm5, [rsi + 160]",
            "vmovdqu ymm6, [rsi + 192]",
            "vmovdqu ymm7, [rsi + 224]",
            "vmovdqu [rdi], ymm0",
            "vmovdqu [rdi + 32], ymm1",
            "vmovdqu [rdi + 64], ymm2",
            "vmovdqu [rdi + 96], ymm3",
            "vmovdqu [rdi + 128], ymm4",
            "vmovdqu [rdi + 160], ymm5",
            "vmovdqu [rdi + 192], ymm6",
            "vmovdqu [rdi + 224], ymm7",
            "add rsi, 256",
            "add rdi, 256",
            "dec rcx",
            "jnz 2b",
            "3:",
            "test rdx, rdx",
            "jz 5f",
            "4:",
            "vmovdqu ymm0, [rsi]",
            "vmovdqu [rdi], ymm0",
            "add rsi, 32",
            "add rdi, 32",
            "dec rdx",
            "jnz 4b",
            "5:",
            // Later code may use the narrow registers, which are slow while the wide ones hold values.
            "vzeroupper",
            inout("rsi") source => _,
            inout("rdi") dest => _,
            inout("rcx") count / ROUND => _,
            inout("rdx") count % ROUND => _,
            // All vector registers, for `vzeroupper`.
            clobber_abi("sysv64"),
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_and_length_copies_just_its_bytes() {
        let pattern: Vec<u8> = (0..2048u32).map(|i| (i * 7 + 1) as u8).collect();
        for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 2), (7, 7), (0, 8), (3, 8), (4, 12)] {
            for len in (0..140).chain([255, 256, 257, 264, 383, 511, 512, 513, 520, 1000]) {
                let mut shared = vec![0u64; 256];
                let base: *mut u8 = shared.as_mut_ptr().cast();
                // SAFETY: 1,000 bytes from offset 12 lie within both buffers of 2,048 bytes.
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

    #[test]
    fn every_offset_and_length_is_added_alone() {
        let values: Vec<u64> = (0..200).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        for start in 0..9 {
            for len in (0..70_usize).chain([100, 127, 128, 129]) {
                let words: Vec<AtomicU64> = (0..150).map(|i| AtomicU64::new(u64::MAX - i)).collect();
                // One of the two slices is longer than the other.
                if len.is_multiple_of(2) {
                    add_words(&words[start..], &values[start + 1..][..len]);
                } else {
                    add_words(&words[start..][..len], &values[start + 1..]);
                }
                for (i, word) in words.into_iter().enumerate() {
                    let added = if (start..start + len).contains(&i) { values[i + 1] } else { 0 };
                    assert_eq!(word.into_inner(), added.wrapping_sub(i as u64 + 1), "{i} of {len} from {start}");
                }
            }
        }
    }

    #[test]
    fn every_offset_and_length_is_zeroed_alone() {
        for start in 0..9 {
            for len in (0..20).chain([255, 1000]) {
                let mut shared = [u64::MAX; 256];
                let base: *mut u8 = shared.as_mut_ptr().cast();
                // SAFETY: 1,000 bytes from offset 8 lie within the array of 2,048 bytes.
                unsafe { zero_shared(base.add(start), len) };
                let seen: &[u8] = bytemuck::cast_slice(&shared);
                assert!(seen.iter().enumerate().all(|(i, &byte)| (byte == 0) == (start..start + len).contains(&i)));
            }
        }
    }
}
