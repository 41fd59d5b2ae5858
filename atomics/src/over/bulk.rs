//! Non-blocking operations on bytes and on words, whose buffers stay alive long enough.
//!
//! As in [`std::thread::scope`], operations that begin inside a scope are complete when the scope returns, whether its closure returns,
//! fails or panics. Buffers are borrowed for the whole scope, so no `mem::forget` ends a borrow early.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use bytemuck::Pod;

use crate::model::fabric::WordOp;
use crate::{Address, RemoteAtomics, Request, Result};

/// Starts bulk operations; see [`scope`].
pub struct BulkScope<'scope, 'env: 'scope, A: RemoteAtomics + ?Sized> {
    ra: &'scope A,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env, A: RemoteAtomics + ?Sized> BulkScope<'scope, 'env, A> {
    /// The rank's handle that operations go through.
    pub fn ra(&self) -> &'scope A {
        self.ra
    }

    /// Starts to write `source` at `at`.
    pub fn put(&self, at: Address, source: &'env [u8]) -> Result<()> {
        // SAFETY: `source` is borrowed for 'env, which outlives the flush at the end of the scope. If the call fails,
        // nothing is under way with it (see `RemoteAtomics::put_bytes_nb`).
        let _request = unsafe { self.ra.put_bytes_nb(at, source.as_ptr(), source.len())? };
        Ok(())
    }

    /// Starts to read `dest.len()` bytes at `at`.
    pub fn get(&self, at: Address, dest: &'env mut [u8]) -> Result<()> {
        // SAFETY: `dest` is borrowed mutably for 'env, which outlives the flush at the end of the scope. If the call
        // fails, nothing is under way with it.
        let _request = unsafe { self.ra.get_bytes_nb(at, dest.as_mut_ptr(), dest.len())? };
        Ok(())
    }
}

/// Word operations that a network executes at the same time. Their results have arrived when the scope returns. They have no order; see
/// [`RemoteAtomics::start`].
impl<'scope, 'env, A: RemoteAtomics + ?Sized> BulkScope<'scope, 'env, A> {
    /// Starts to add `value` to the word at `at`. `result` gets the old word.
    #[inline]
    pub fn fetch_add(&self, at: Address, value: u64, result: &'env mut u64) -> Result<()> {
        self.start(at, WordOp::FetchAdd(value), result)
    }

    /// Starts to store `desired` if the word at `at` is `expected`. `result` gets the old word.
    #[inline]
    pub fn compare_and_swap(&self, at: Address, expected: u64, desired: u64, result: &'env mut u64) -> Result<()> {
        self.start(at, WordOp::CompareAndSwap { expected, desired }, result)
    }

    /// Starts to store `value` in the word at `at`. `result` gets the old word.
    #[inline]
    pub fn fetch_store(&self, at: Address, value: u64, result: &'env mut u64) -> Result<()> {
        self.start(at, WordOp::FetchStore(value), result)
    }

    /// Starts to read the word at `at` into `result`.
    #[inline]
    pub fn get_word(&self, at: Address, result: &'env mut u64) -> Result<()> {
        self.start(at, WordOp::Get, result)
    }

    #[inline]
    fn start(&self, at: Address, op: WordOp, result: &'env mut u64) -> Result<()> {
        // SAFETY: `result` is borrowed mutably for 'env, which outlives the flush at the end of the scope.
        let _request = unsafe { self.ra.start(at, op, result)? };
        Ok(())
    }
}

/// Flushes when dropped, so that even a panic leaves no operation under way.
struct FlushOnDrop<'a, A: RemoteAtomics + ?Sized>(&'a A);

impl<A: RemoteAtomics + ?Sized> Drop for FlushOnDrop<'_, A> {
    fn drop(&mut self) {
        // A flush that fails has given the operations up (see `RemoteAtomics::flush`): nothing touches the buffers.
        let _ = self.0.flush_all();
    }
}

/// Runs `body`, which may start bulk operations, and returns when all of them are complete.
///
/// # Errors
///
/// The errors of `body`, and of the flush at the end.
///
/// ```
/// # use rmalab_atomics::{World, Rank, RemoteAtomics, bulk};
/// # fn main() -> rmalab_atomics::Result<()> {
/// World::threads(2).run(|ra| {
///     let at = ra.heap().alloc(4, 8).expect("room");
///     let (mine, mut back) = ([1, 2, 3, 4], [0; 4]);
///     let me = ra.rank();
///     bulk::scope(ra, |bulk| bulk.put(me.at(at), &mine)).expect("put");
///     bulk::scope(ra, |bulk| bulk.get(me.at(at), &mut back)).expect("get");
///     assert_eq!(back, mine);
/// })?;
/// # Ok(()) }
/// ```
pub fn scope<'env, A, T>(ra: &A, body: impl for<'scope> FnOnce(&BulkScope<'scope, 'env, A>) -> Result<T>) -> Result<T>
where
    A: RemoteAtomics + ?Sized,
{
    let flush = FlushOnDrop(ra);
    let result = body(&BulkScope { ra, env: PhantomData });
    std::mem::forget(flush);
    ra.flush_all()?;
    result
}

/// A piece of a non-contiguous operation: its place in the buffer, its place at the target, and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Offset in the buffer, in bytes.
    pub offset: usize,
    /// Its destination or source.
    pub at: Address,
    /// Bytes.
    pub len: usize,
}

/// A bulk operation under way that owns its buffer: it cannot go away too early, not even by `mem::forget`.
///
/// Dropping it waits for it.
#[derive(Debug)]
pub struct Owned<'a, A: RemoteAtomics + ?Sized, T: Pod> {
    ra: &'a A,
    /// The vector is taken apart, so that moving `self` does not access the buffer. It is rebuilt when nothing is under
    /// way.
    buffer: (*mut T, usize, usize),
    requests: Vec<Request>,
}

/// The direction in which an owned buffer's bytes move.
#[derive(Clone, Copy)]
enum Direction {
    Put,
    Get,
}

impl<'a, A: RemoteAtomics + ?Sized, T: Pod> Owned<'a, A, T> {
    /// Starts to write pieces of `buffer`.
    ///
    /// # Errors
    ///
    /// The errors of [`RemoteAtomics::put_bytes_nb`]. The call then waits for the pieces that have begun, and drops the
    /// buffer.
    ///
    /// # Panics
    ///
    /// When a piece reaches outside of the buffer.
    pub fn put(ra: &'a A, buffer: Vec<T>, pieces: impl IntoIterator<Item = Piece>) -> Result<Self> {
        Self::start(ra, buffer, pieces, Direction::Put)
    }

    /// Starts to read pieces of `buffer`, which must not overlap each other.
    ///
    /// # Errors
    ///
    /// Like [`put`](Self::put).
    ///
    /// # Panics
    ///
    /// As for [`put`](Self::put), and when a piece does not start after the end of the previous one.
    pub fn get(ra: &'a A, buffer: Vec<T>, pieces: impl IntoIterator<Item = Piece>) -> Result<Self> {
        Self::start(ra, buffer, pieces, Direction::Get)
    }

    /// Starts word operations whose results go to the elements of `buffer`, in their order.
    ///
    /// # Errors
    ///
    /// The errors of [`RemoteAtomics::start`]. The call then waits for the operations that have begun, and drops the
    /// buffer.
    ///
    /// # Panics
    ///
    /// When `T` is not as long and aligned as a word, or when there are more operations than elements.
    pub fn update(ra: &'a A, buffer: Vec<T>, words: impl IntoIterator<Item = (Address, WordOp)>) -> Result<Self> {
        assert!(size_of::<T>() == size_of::<u64>() && align_of::<T>() == align_of::<u64>(), "elements are not words");
        let mut buffer = ManuallyDrop::new(buffer);
        let parts = (buffer.as_mut_ptr(), buffer.len(), buffer.capacity());
        let mut owned = Owned { ra, buffer: parts, requests: Vec::new() };
        for (i, (at, op)) in words.into_iter().enumerate() {
            assert!(i < parts.1, "an operation without an element of the {} for its result", parts.1);
            // SAFETY: element `i` is in the buffer (just checked) and is a word (checked above). No other operation has its
            // result there, and nothing else can reach it until `self` has waited. T is Pod, so that any word is a value.
            // If the call fails, nothing is under way with it, and the drop of `owned` waits for the operations before it.
            owned.requests.push(unsafe { ra.start(at, op, parts.0.add(i).cast::<u64>())? });
        }
        Ok(owned)
    }

    fn start(ra: &'a A, buffer: Vec<T>, pieces: impl IntoIterator<Item = Piece>, direction: Direction) -> Result<Self> {
        let mut buffer = ManuallyDrop::new(buffer);
        let parts = (buffer.as_mut_ptr(), buffer.len(), buffer.capacity());
        let bytes = size_of_val(buffer.as_slice());
        let mut owned = Owned { ra, buffer: parts, requests: Vec::new() };
        let mut behind = 0;
        for Piece { offset, at, len } in pieces {
            assert!(
                offset <= bytes && len <= bytes - offset,
                "a piece of {len} bytes at {offset} of a buffer of {bytes}"
            );
            // SAFETY: the piece lies in the buffer (just checked), which nothing else can reach until `self` has
            // waited. T is Pod, so any bytes that arrive are a value. If the call fails, nothing is under way with this
            // piece, and the drop of `owned` waits for the pieces before it.
            let request = unsafe {
                let start = parts.0.cast::<u8>().add(offset);
                match direction {
                    Direction::Put => ra.put_bytes_nb(at, start, len)?,
                    Direction::Get => {
                        assert!(offset >= behind, "a piece at {offset} of a buffer overlaps one that ends at {behind}");
                        behind = offset + len;
                        ra.get_bytes_nb(at, start, len)?
                    }
                }
            };
            owned.requests.push(request);
        }
        Ok(owned)
    }

    /// Returns whether it is complete at this rank: [`wait`](Self::wait) would return at once.
    ///
    /// # Errors
    ///
    /// The errors of [`RemoteAtomics::test`].
    pub fn test(&mut self) -> Result<bool> {
        while let Some(request) = self.requests.last() {
            if !self.ra.test(request)? {
                return Ok(false);
            }
            self.requests.pop();
        }
        Ok(true)
    }

    /// Waits until it is complete at this rank, and gives the buffer back.
    ///
    /// # Errors
    ///
    /// The errors of [`RemoteAtomics::wait`]; the buffer is dropped then.
    pub fn wait(mut self) -> Result<Vec<T>> {
        self.finish()?;
        self.requests = Vec::new();
        let this = ManuallyDrop::new(self);
        // SAFETY: nothing is under way, and `this` is not dropped: the vector is put together once.
        Ok(unsafe { Self::buffer(this.buffer) })
    }

    /// Waits for all requests, the failing ones too.
    fn finish(&mut self) -> Result<()> {
        let mut finished = Ok(());
        for request in self.requests.drain(..) {
            finished = finished.and(self.ra.wait(request));
        }
        finished
    }

    /// # Safety
    ///
    /// `parts` are the parts of the vector that `start` took apart, and nothing is under way with it.
    unsafe fn buffer((start, len, capacity): (*mut T, usize, usize)) -> Vec<T> {
        // SAFETY: the caller's promise.
        unsafe { Vec::from_raw_parts(start, len, capacity) }
    }
}

impl<A: RemoteAtomics + ?Sized, T: Pod> Drop for Owned<'_, A, T> {
    fn drop(&mut self) {
        // A wait that fails has given its operation up (see `RemoteAtomics::flush`): nothing touches the buffer.
        let _ = self.finish();
        // SAFETY: nothing is under way, and this is the last use.
        drop(unsafe { Self::buffer(self.buffer) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disp, Rank, World};

    fn piece(offset: usize, disp: u64, len: usize) -> Piece {
        Piece { offset, at: Rank(0).at(Disp(disp)), len }
    }

    #[test]
    fn owned_buffers_are_returned_with_the_bytes_read() {
        World::threads(1)
            .run(|ra| {
                ra.heap().alloc(64, 8).unwrap();
                let put = Owned::put(ra, vec![1u32, 2, 3], [piece(4, 8, 8), piece(0, 20, 4)]).unwrap();
                assert_eq!(put.wait().unwrap(), [1, 2, 3]);
                ra.flush_all().unwrap();
                let mut get = Owned::get(ra, vec![9u32; 5], [piece(0, 8, 8), piece(12, 20, 4)]).unwrap();
                assert!(get.test().unwrap());
                assert_eq!(get.wait().unwrap(), [2, 3, 9, 1, 9]);
                drop(Owned::put(ra, vec![7u8], [piece(0, 0, 1)]).unwrap());
                std::mem::forget(Owned::get(ra, vec![7u8], [piece(0, 0, 1)]).unwrap());
            })
            .unwrap();
    }

    #[test]
    fn owned_results_come_back_with_the_old_words() {
        World::threads(1)
            .run(|ra| {
                ra.heap().alloc(64, 8).unwrap();
                let word = |i: u64| Rank(0).at(Disp(8 * i));
                ra.put(word(1), 5).unwrap();
                let ops = [(word(1), WordOp::FetchAdd(2)), (word(1), WordOp::FetchStore(9)), (word(1), WordOp::Get)];
                let update = Owned::update(ra, vec![0_u64; 4], ops).unwrap();
                assert_eq!(update.wait().unwrap(), [5, 7, 9, 0]);
                let refused = || Owned::update(ra, vec![0_u64; 1], ops).map(drop);
                assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(refused)).is_err());
                let halves = || Owned::update(ra, vec![0_u32; 8], ops).map(drop);
                assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(halves)).is_err());
            })
            .unwrap();
    }

    #[test]
    fn pieces_outside_the_buffer_or_over_each_other_are_refused() {
        World::threads(1)
            .run(|ra| {
                let refused = |pieces: Vec<Piece>| {
                    let get = || drop(Owned::get(ra, vec![0u8; 8], pieces.iter().copied()));
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(get)).is_err()
                };
                assert!(refused(vec![piece(1, 0, 8)]));
                assert!(refused(vec![piece(usize::MAX, 0, 2)]));
                assert!(refused(vec![piece(0, 0, 4), piece(3, 0, 1)]));
                assert!(!refused(vec![piece(0, 0, 4), piece(4, 0, 4)]));
            })
            .unwrap();
    }
}
