//! Non-blocking bulk operations whose buffers cannot go away too early.
//!
//! As in [`std::thread::scope`], what is begun inside a scope is complete when the scope returns, whether its closure
//! returns, fails or panics; buffers are borrowed for the whole scope, so that no `mem::forget` ends a borrow early.

use std::marker::PhantomData;

use crate::{Address, RemoteAtomics, Result};

/// Starts bulk operations; see [`scope`].
pub struct BulkScope<'scope, 'env: 'scope, A: RemoteAtomics + ?Sized> {
    ra: &'scope A,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env, A: RemoteAtomics + ?Sized> BulkScope<'_, 'env, A> {
    /// Starts to write `source` at `at`.
    pub fn put(&self, at: Address, source: &'env [u8]) -> Result<()> {
        // SAFETY: `source` is borrowed for 'env, which outlives the flush at the end of the scope.
        let _request = unsafe { self.ra.put_bytes_nb(at, source.as_ptr(), source.len())? };
        Ok(())
    }

    /// Starts to read `dest.len()` bytes at `at`.
    pub fn get(&self, at: Address, dest: &'env mut [u8]) -> Result<()> {
        // SAFETY: `dest` is borrowed mutably for 'env, which outlives the flush at the end of the scope.
        let _request = unsafe { self.ra.get_bytes_nb(at, dest.as_mut_ptr(), dest.len())? };
        Ok(())
    }
}

/// Flushes when dropped, so that a panic, too, leaves no operation behind.
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
/// Those of `body`, and those of the flush at the end.
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
