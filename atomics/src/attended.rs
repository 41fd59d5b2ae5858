//! The `attended` wrapper: a handle whose waits do something for other ranks meanwhile.
//!
//! A rank that waits inside a lock or a barrier may be needed by the rank that it waits for, where a layer above serves
//! requests. [`Attended`] forwards every call, and calls a function of that layer again and again while it waits. A handle
//! that is not wrapped pays nothing.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::exposed::{ExposedKey, Lease, Refused, UserMemory};
use crate::fabric::WordOp;
use crate::{Address, Capabilities, Disp, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Topology, Until};

/// The first wait between two calls of the function.
const SHORTEST: Duration = Duration::from_micros(2);

/// The longest wait between two calls of the function: each one that finds nothing doubles the wait up to here.
const LONGEST: Duration = Duration::from_millis(2);

/// What a call of an [`Attended`] handle's function has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// There is nothing that could ever need this rank: the wait goes on without further calls.
    Never,
    /// Nothing has come.
    Nothing,
    /// Something has come and is done.
    Something,
}

/// A rank whose waits call a function again and again.
///
/// ```
/// use rmalab_atomics::{Attended, Rank, RemoteAtomics, Served, Until, World};
///
/// World::threads(1).run(|ra| {
///     let word = ra.heap().alloc(8, 8)?;
///     // What this rank waits for comes of what it does meanwhile.
///     let attended = Attended::new(ra, || ra.fetch_add(Rank(0).at(word), 1).map(|_| Served::Something));
///     attended.wait_until(word, Until::Ge(3)).map(drop)
/// })?.into_iter().collect::<Result<(), _>>()?;
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
pub struct Attended<'a, A: RemoteAtomics + ?Sized, F> {
    inner: &'a A,
    serve: F,
}

impl<'a, A: RemoteAtomics + ?Sized, F: Fn() -> Result<Served>> Attended<'a, A, F> {
    /// The handle `inner`, whose waits call `serve`.
    pub fn new(inner: &'a A, serve: F) -> Self {
        Attended { inner, serve }
    }

    fn attend(&self, own: Disp, until: Until, deadline: Option<Time>, writer: Option<Rank>) -> Result<Option<u64>> {
        let mut step = SHORTEST;
        loop {
            match (self.serve)()? {
                Served::Never => break,
                Served::Nothing => step = (2 * step).min(LONGEST),
                Served::Something => step = SHORTEST,
            }
            let next = self.inner.now().after(step);
            if deadline.is_some_and(|deadline| deadline <= next) {
                break;
            }
            if let Some(value) = self.inner.wait_until_deadline(own, until, next)? {
                return Ok(Some(value));
            }
        }
        match (deadline, writer) {
            (Some(deadline), _) => self.inner.wait_until_deadline(own, until, deadline),
            (None, Some(writer)) => self.inner.wait_until_from(own, until, writer).map(Some),
            (None, None) => self.inner.wait_until(own, until).map(Some),
        }
    }
}

impl<A: RemoteAtomics + ?Sized, F> fmt::Debug for Attended<'_, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended").field("rank", &self.inner.rank()).finish_non_exhaustive()
    }
}

impl<A: RemoteAtomics + ?Sized, F: Fn() -> Result<Served>> RemoteAtomics for Attended<'_, A, F> {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn topology(&self) -> &Topology {
        self.inner.topology()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn heap(&self) -> &SymmetricHeap {
        self.inner.heap()
    }

    fn fetch_add(&self, at: Address, value: u64) -> Result<u64> {
        self.inner.fetch_add(at, value)
    }

    fn compare_and_swap(&self, at: Address, expected: u64, desired: u64) -> Result<u64> {
        self.inner.compare_and_swap(at, expected, desired)
    }

    fn fetch_store(&self, at: Address, value: u64) -> Result<u64> {
        self.inner.fetch_store(at, value)
    }

    fn get(&self, at: Address) -> Result<u64> {
        self.inner.get(at)
    }

    fn put(&self, at: Address, value: u64) -> Result<()> {
        self.inner.put(at, value)
    }

    unsafe fn start(&self, at: Address, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.start(at, op, result) }
    }

    unsafe fn put_bytes_nb(&self, at: Address, source: *const u8, len: usize) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.put_bytes_nb(at, source, len) }
    }

    unsafe fn get_bytes_nb(&self, at: Address, dest: *mut u8, len: usize) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.get_bytes_nb(at, dest, len) }
    }

    fn test(&self, request: &Request) -> Result<bool> {
        self.inner.test(request)
    }

    fn wait(&self, request: Request) -> Result<()> {
        self.inner.wait(request)
    }

    fn flush(&self, target: Rank) -> Result<()> {
        self.inner.flush(target)
    }

    fn flush_all(&self) -> Result<()> {
        self.inner.flush_all()
    }

    fn wait_until(&self, own: Disp, until: Until) -> Result<u64> {
        let value = self.attend(own, until, None, None)?;
        // Without a deadline there is a value.
        value.map_or_else(|| self.inner.wait_until(own, until), Ok)
    }

    fn wait_until_deadline(&self, own: Disp, until: Until, deadline: Time) -> Result<Option<u64>> {
        self.attend(own, until, Some(deadline), None)
    }

    /// Learns that `writer` has left only once there is nothing to serve any more.
    fn wait_until_from(&self, own: Disp, until: Until, writer: Rank) -> Result<u64> {
        let value = self.attend(own, until, None, Some(writer))?;
        // Without a deadline there is a value.
        value.map_or_else(|| self.inner.wait_until_from(own, until, writer), Ok)
    }

    fn forsake(&self, what: &'static str) {
        self.inner.forsake(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.inner.forsaken()
    }

    fn pause(&self, operations: u32) -> Result<()> {
        (self.serve)()?;
        self.inner.pause(operations)
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn compute(&self, time: Duration) -> Result<()> {
        self.inner.compute(time)
    }

    fn world_rank(&self, rank: Rank) -> Rank {
        self.inner.world_rank(rank)
    }

    fn outer_world(&self) -> Option<&dyn RemoteAtomics> {
        Some(self.inner.whole_world())
    }

    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.inner.shared_words(at, words)
    }

    fn direct_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.inner.direct_words(at, words)
    }

    fn stored(&self) {
        self.inner.stored();
    }

    fn fence_light(&self) {
        self.inner.fence_light();
    }

    fn fence_everywhere(&self) -> Result<bool> {
        self.inner.fence_everywhere()
    }

    fn clear(&self, own: Disp, len: u64) -> Result<()> {
        self.inner.clear(own, len)
    }

    fn expose(&self, memory: UserMemory) -> Result<ExposedKey, Refused> {
        self.inner.expose(memory)
    }

    fn withdraw(&self, key: ExposedKey) -> Result<UserMemory> {
        self.inner.withdraw(key)
    }

    fn lease(&self, rank: Rank, key: ExposedKey) -> Result<Box<dyn Lease + '_>> {
        self.inner.lease(rank, key)
    }

    fn post_bytes(&self, at: Address, source: &[u8]) -> Result<()> {
        self.inner.post_bytes(at, source)
    }

    fn put_bytes(&self, at: Address, source: &[u8]) -> Result<()> {
        self.inner.put_bytes(at, source)
    }

    fn get_bytes(&self, at: Address, dest: &mut [u8]) -> Result<()> {
        self.inner.get_bytes(at, dest)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{WholeWorld, World};

    #[test]
    fn waits_serve_until_their_condition_holds() {
        World::threads(1)
            .run(|ra| {
                let word = ra.heap().alloc(8, 8).unwrap();
                let calls = Cell::new(0);
                let attended = Attended::new(ra, || {
                    calls.set(calls.get() + 1);
                    ra.fetch_add(Rank(0).at(word), u64::from(calls.get() % 2 == 0))?;
                    Ok(if calls.get() % 2 == 0 { Served::Something } else { Served::Nothing })
                });
                assert_eq!(attended.wait_until(word, Until::Ge(2)).unwrap(), 2);
                assert_eq!(calls.get(), 4);
                attended.pause(1).unwrap();
                assert_eq!(calls.get(), 5);
                let deadline = ra.now().after(Duration::from_secs(3600));
                assert_eq!(attended.wait_until_deadline(word, Until::Ge(3), deadline).unwrap(), Some(3));
                assert_eq!(attended.wait_until_deadline(word, Until::Eq(7), ra.now()).unwrap(), None);
            })
            .unwrap();
    }

    #[test]
    fn the_handle_of_the_world_is_behind_every_handle() {
        World::threads(3)
            .run(|ra| {
                let subset = crate::Subset::of(ra, &[Rank(2), Rank(0)]).unwrap();
                let Some(subset) = &subset else { return };
                let counted = crate::Counted::new(subset);
                let attended = Attended::new(&counted, || Ok(Served::Never));
                for world in [ra.whole_world(), subset.whole_world(), counted.whole_world(), attended.whole_world()] {
                    assert_eq!((world.rank(), world.size()), (ra.rank(), 3));
                    assert!(std::ptr::addr_eq(world.heap(), ra.heap()));
                }
                // A count misses nothing of the world.
                let counted = crate::Counted::new(ra);
                counted.whole_world().get(Rank(1).at(Disp(0))).unwrap();
                assert_eq!(counted.counts().get.total(), 1);
            })
            .unwrap();
    }
}
