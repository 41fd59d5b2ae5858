//! The `counted` wrapper: the number of operations that a rank issues, by kind and by distance.
//!
//! Costs of locks are stated in remote operations of an acquire and a release. [`Counted`] measures them, so that a table of costs is a test
//! and not prose. It wraps any backend and forwards every call. A backend that is not wrapped pays nothing.
//!
//! One call counts as one operation. A call that fails is not counted, since it has done nothing. If a backend emulates an operation by
//! several others, only the emulated operation is counted. A put or get through a [`Pinned`] is a bulk operation on the memory's owner.
//! Taking a pin is not counted, since it is set-up. Accesses to the words of a pin are not calls, and are not counted.

use std::cell::Cell;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::AtomicU64;

use crate::model::fabric::{
    Bytes, Completion, Delay, Extras, Fabric, Leaving, LocalMemory, Registration, Span, Word, WordOp, WorldView,
};
use crate::model::registered::{Pinned, PinnedWords, Refused, RegisteredKey, Run, UserMemory};
use crate::model::words::LocalWords;
use crate::{Address, Disp, Distance, Rank, RemoteAtomics, Request, Result, Time, Until};

/// A number for each [`Distance`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ByDistance {
    /// Operations of a rank on itself.
    pub own: u64,
    /// Operations on other ranks of the same node.
    pub node: u64,
    /// Operations on ranks of other nodes.
    pub remote: u64,
}

impl ByDistance {
    /// The sum over all distances.
    pub const fn total(self) -> u64 {
        self.own + self.node + self.remote
    }

    /// The sum over all other ranks.
    pub const fn others(self) -> u64 {
        self.node + self.remote
    }

    /// The number at one distance.
    pub const fn at(self, distance: Distance) -> u64 {
        match distance {
            Distance::Own => self.own,
            Distance::Node => self.node,
            Distance::Remote => self.remote,
        }
    }

    fn zip(self, other: ByDistance, f: impl Fn(u64, u64) -> u64) -> ByDistance {
        ByDistance { own: f(self.own, other.own), node: f(self.node, other.node), remote: f(self.remote, other.remote) }
    }
}

/// The number of issued operations of each kind.
///
/// Counts are plain data. Add the counts of several ranks; subtract two snapshots to get the counts of the code between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Calls of [`fetch_add`](RemoteAtomics::fetch_add).
    pub fetch_add: ByDistance,
    /// Calls of [`compare_and_swap`](RemoteAtomics::compare_and_swap), including calls that stored nothing.
    pub compare_and_swap: ByDistance,
    /// Calls of [`fetch_store`](RemoteAtomics::fetch_store).
    pub fetch_store: ByDistance,
    /// Calls of [`get`](RemoteAtomics::get).
    pub get: ByDistance,
    /// Calls of [`put`](RemoteAtomics::put).
    pub put: ByDistance,
    /// Bulk gets, of any length.
    pub get_bytes: ByDistance,
    /// Bulk puts, of any length.
    pub put_bytes: ByDistance,
    /// Calls of [`flush`](RemoteAtomics::flush), by its target; [`put_bytes`](RemoteAtomics::put_bytes) makes one.
    pub flush: ByDistance,
    /// Calls of [`flush_all`](RemoteAtomics::flush_all), which has no single target.
    pub flush_all: u64,
    /// Calls of [`wait_until`](RemoteAtomics::wait_until) and its form with a deadline, on words of the local rank.
    pub wait: u64,
    /// Calls of [`pause`](RemoteAtomics::pause).
    pub pause: u64,
    /// Bytes that bulk operations moved, by the distance of their target.
    pub bytes: ByDistance,
}

impl Counts {
    /// Word and bulk operations on other ranks: the cost of a lock as papers count it.
    ///
    /// Waits and pauses do not count, since they act on this rank alone. Flushes do not count, since a flush waits for
    /// operations that were already counted, and is not an operation at the target.
    pub fn remote_operations(&self) -> u64 {
        self.operations().map(|(_, counts)| counts.others()).sum()
    }

    /// Returns the number of word and bulk operations on the local rank.
    pub fn own_operations(&self) -> u64 {
        self.operations().map(|(_, counts)| counts.own).sum()
    }

    /// Adds the counts of another rank, or of another stretch of code.
    pub fn merge(&mut self, other: &Counts) {
        *self = self.zip(other, |a, b| a + b);
    }

    /// The kinds that are operations at a target, with their names.
    fn operations(&self) -> impl Iterator<Item = (&'static str, ByDistance)> {
        [
            ("fetch_add", self.fetch_add),
            ("compare_and_swap", self.compare_and_swap),
            ("fetch_store", self.fetch_store),
            ("get", self.get),
            ("put", self.put),
            ("get_bytes", self.get_bytes),
            ("put_bytes", self.put_bytes),
        ]
        .into_iter()
    }

    fn zip(&self, other: &Counts, f: impl Fn(u64, u64) -> u64) -> Counts {
        Counts {
            fetch_add: self.fetch_add.zip(other.fetch_add, &f),
            compare_and_swap: self.compare_and_swap.zip(other.compare_and_swap, &f),
            fetch_store: self.fetch_store.zip(other.fetch_store, &f),
            get: self.get.zip(other.get, &f),
            put: self.put.zip(other.put, &f),
            get_bytes: self.get_bytes.zip(other.get_bytes, &f),
            put_bytes: self.put_bytes.zip(other.put_bytes, &f),
            flush: self.flush.zip(other.flush, &f),
            flush_all: f(self.flush_all, other.flush_all),
            wait: f(self.wait, other.wait),
            pause: f(self.pause, other.pause),
            bytes: self.bytes.zip(other.bytes, &f),
        }
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        self.zip(&other, |a, b| a + b)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.merge(&other);
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), Add::add)
    }
}

impl Sub for Counts {
    type Output = Counts;

    /// Returns the counts since the snapshot `earlier`.
    ///
    /// # Panics
    ///
    /// When `earlier` is not an earlier snapshot of these counts.
    fn sub(self, earlier: Counts) -> Counts {
        self.zip(&earlier, |now, then| now.checked_sub(then).expect("the earlier counts are not larger"))
    }
}

/// Writes a table with a line for each kind that was issued, and the bulk bytes in the last line.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<18}{:>10}{:>10}{:>10}", "operation", "own", "node", "remote")?;
        let rows = self.operations().chain([("flush", self.flush)]);
        for (name, ByDistance { own, node, remote }) in rows.filter(|(_, counts)| counts.total() > 0) {
            write!(f, "\n{name:<18}{own:>10}{node:>10}{remote:>10}")?;
        }
        for (name, count) in [("flush_all", self.flush_all), ("wait", self.wait), ("pause", self.pause)] {
            if count > 0 {
                write!(f, "\n{name:<18}{count:>10}{:>10}{:>10}", "-", "-")?;
            }
        }
        let ByDistance { own, node, remote } = self.bytes;
        if self.bytes.total() > 0 {
            write!(f, "\n{:<18}{own:>10}{node:>10}{remote:>10}", "bulk bytes")?;
        }
        Ok(())
    }
}

/// One counter for each distance.
#[derive(Debug, Default)]
struct Cells([Cell<u64>; Distance::ALL.len()]);

impl Cells {
    #[inline(always)]
    fn add(&self, distance: Distance, amount: u64) {
        let cell = &self.0[distance.index()];
        cell.set(cell.get() + amount);
    }

    fn read(&self) -> ByDistance {
        let at = |distance: Distance| self.0[distance.index()].get();
        ByDistance { own: at(Distance::Own), node: at(Distance::Node), remote: at(Distance::Remote) }
    }

    fn reset(&self) {
        self.0.iter().for_each(|cell| cell.set(0));
    }
}

/// A rank whose operations are counted.
///
/// It counts in plain cells, so it is not [`Sync`]: a rank of several threads needs one wrapper for each of them, and
/// merges the [`Counts`].
///
/// ```
/// use rmalab_atomics::{Counted, Rank, RemoteAtomics, World};
///
/// World::threads(2).run(|ra| {
///     let ra = Counted::new(ra);
///     let word = ra.heap().alloc(8, 8).expect("room for one word");
///     ra.fetch_add(Rank(0).at(word), 1).expect("a word of rank 0");
///     assert_eq!(ra.counts().fetch_add.total(), 1);
///     assert_eq!(ra.counts().remote_operations(), u64::from(ra.rank() != Rank(0)));
/// })?;
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
#[derive(Debug)]
pub struct Counted<'a, A: RemoteAtomics + ?Sized> {
    inner: &'a A,
    view: &'a WorldView,
    fetch_add: Cells,
    compare_and_swap: Cells,
    fetch_store: Cells,
    get: Cells,
    put: Cells,
    get_bytes: Cells,
    put_bytes: Cells,
    flush: Cells,
    bytes: Cells,
    flush_all: Cell<u64>,
    wait: Cell<u64>,
    pause: Cell<u64>,
}

impl<'a, A: RemoteAtomics + ?Sized> Counted<'a, A> {
    /// Makes a wrapper that counts the operations through it. Operations through `inner` itself are not counted.
    pub fn new(inner: &'a A) -> Counted<'a, A> {
        Counted {
            inner,
            view: inner.view(),
            fetch_add: Cells::default(),
            compare_and_swap: Cells::default(),
            fetch_store: Cells::default(),
            get: Cells::default(),
            put: Cells::default(),
            get_bytes: Cells::default(),
            put_bytes: Cells::default(),
            flush: Cells::default(),
            bytes: Cells::default(),
            flush_all: Cell::new(0),
            wait: Cell::new(0),
            pause: Cell::new(0),
        }
    }

    /// Returns the wrapped handle.
    pub fn inner(&self) -> &'a A {
        self.inner
    }

    /// Returns the counts since the wrapper was made, or since the last [`take`](Self::take) or [`reset`](Self::reset).
    pub fn counts(&self) -> Counts {
        Counts {
            fetch_add: self.fetch_add.read(),
            compare_and_swap: self.compare_and_swap.read(),
            fetch_store: self.fetch_store.read(),
            get: self.get.read(),
            put: self.put.read(),
            get_bytes: self.get_bytes.read(),
            put_bytes: self.put_bytes.read(),
            flush: self.flush.read(),
            flush_all: self.flush_all.get(),
            wait: self.wait.get(),
            pause: self.pause.get(),
            bytes: self.bytes.read(),
        }
    }

    /// Returns the counts and starts again from zero.
    pub fn take(&self) -> Counts {
        let counts = self.counts();
        self.reset();
        counts
    }

    /// Starts again from zero.
    pub fn reset(&self) {
        let kinds = [
            &self.fetch_add,
            &self.compare_and_swap,
            &self.fetch_store,
            &self.get,
            &self.put,
            &self.get_bytes,
            &self.put_bytes,
            &self.flush,
            &self.bytes,
        ];
        kinds.into_iter().for_each(Cells::reset);
        for cell in [&self.flush_all, &self.wait, &self.pause] {
            cell.set(0);
        }
    }

    #[inline(always)]
    fn kind(&self, op: WordOp) -> &Cells {
        match op {
            WordOp::FetchAdd(_) => &self.fetch_add,
            WordOp::CompareAndSwap { .. } => &self.compare_and_swap,
            WordOp::FetchStore(_) => &self.fetch_store,
            WordOp::Get => &self.get,
            WordOp::Put(_) => &self.put,
        }
    }

    /// Returns the distance of `target`, which must exist.
    #[inline(always)]
    fn distance(&self, target: Rank) -> Distance {
        let rank = self.view.rank();
        if target == rank { Distance::Own } else { self.view.topology().distance(rank, target) }
    }

    #[inline(always)]
    fn count(&self, cells: &Cells, target: Rank) {
        cells.add(self.distance(target), 1);
    }

    #[inline(always)]
    fn count_bulk(&self, cells: &Cells, target: Rank, len: usize) {
        let distance = self.distance(target);
        cells.add(distance, 1);
        self.bytes.add(distance, len as u64);
    }
}

#[inline(always)]
fn increment(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl<A: RemoteAtomics + ?Sized> Fabric for Counted<'_, A> {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        self.view
    }

    #[inline(always)]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        let old = self.inner.word(at, op)?;
        self.count(self.kind(op), at.rank());
        Ok(old)
    }

    #[inline]
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        let request = unsafe { self.inner.start_word(at, op, result)? };
        self.count(self.kind(op), at.rank());
        Ok(request)
    }

    #[inline]
    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        let request = unsafe { self.inner.transfer(at, bytes, until)? };
        let target = at.rank();
        match bytes {
            Bytes::Get(_) => self.count_bulk(&self.get_bytes, target, at.len()),
            Bytes::Put(_) | Bytes::Clear => {
                self.count_bulk(&self.put_bytes, target, at.len());
                if until == Completion::Target {
                    self.count(&self.flush, target);
                }
            }
        }
        Ok(request)
    }

    #[inline]
    fn done(&self, request: &Request) -> Result<bool> {
        self.inner.done(request)
    }

    #[inline]
    fn finish(&self, request: Request) -> Result<()> {
        self.inner.finish(request)
    }

    #[inline]
    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.inner.complete(target)?;
        match target {
            Some(target) => self.count(&self.flush, target),
            None => increment(&self.flush_all),
        }
        Ok(())
    }

    fn keep_order(&self, target: Rank) -> Result<()> {
        self.inner.keep_order(target)?;
        self.count(&self.flush, target);
        Ok(())
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        let value = self.inner.wait_on(own, until, deadline)?;
        increment(&self.wait);
        Ok(value)
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.inner.delay(delay)?;
        if let Delay::Operations(_) = delay {
            increment(&self.pause);
        }
        Ok(())
    }

    #[inline]
    fn clock(&self) -> Time {
        self.inner.clock()
    }

    /// Returns `None`. The counters belong to one thread, so the operations of a handle for several would not be
    /// counted.
    #[inline(always)]
    fn extras(&self) -> Extras<'_> {
        let inner = self.inner.extras();
        Extras {
            shared: None,
            memory: inner.memory.is_some().then_some(self as &dyn LocalMemory),
            registration: inner.registration.is_some().then_some(self as &dyn Registration),
            leaving: inner.leaving.is_some().then_some(self as &dyn Leaving),
            ..inner
        }
    }
}

impl<A: RemoteAtomics + ?Sized> LocalMemory for Counted<'_, A> {
    #[inline(always)]
    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.inner.shared_words(at, words)
    }

    /// Returns `None`: a load or a store is not a call, and would not be counted.
    #[inline(always)]
    fn direct_words(&self, _at: Address, _words: u64) -> Option<&[AtomicU64]> {
        None
    }

    /// Returns `None`, like [`direct_words`](LocalMemory::direct_words).
    #[inline(always)]
    fn own_words(&self, _at: Disp, _words: u64) -> Option<&[AtomicU64]> {
        None
    }

    /// Returns `None`, like [`direct_words`](LocalMemory::direct_words).
    #[inline(always)]
    fn local_words(&self, _at: Address, _words: u64) -> Option<LocalWords<'_>> {
        None
    }

    #[inline(always)]
    fn stored(&self) {
        self.inner.stored();
    }
}

impl<A: RemoteAtomics + ?Sized> Leaving for Counted<'_, A> {
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        let value = self.inner.wait_until_from(own.disp(), until, writer)?;
        increment(&self.wait);
        Ok(value)
    }

    fn forsake(&self, what: &'static str) {
        self.inner.forsake(what);
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.inner.forsaken()
    }
}

impl<A: RemoteAtomics + ?Sized> Registration for Counted<'_, A> {
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        self.inner.register(memory)
    }

    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory> {
        self.inner.deregister(key)
    }

    fn pin(&self, rank: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        let inner = self.inner.pin(rank, key)?;
        Ok(Box::new(CountedPinned { counted: self, owner: rank, inner }))
    }
}

/// A pin whose puts and gets are counted.
struct CountedPinned<'a, A: RemoteAtomics + ?Sized> {
    counted: &'a Counted<'a, A>,
    owner: Rank,
    inner: Box<dyn Pinned + 'a>,
}

impl<A: RemoteAtomics + ?Sized> fmt::Debug for CountedPinned<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counted {:?}", self.inner)
    }
}

impl<A: RemoteAtomics + ?Sized> Pinned for CountedPinned<'_, A> {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn put(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.inner.put(offset, source)?;
        self.counted.count_bulk(&self.counted.put_bytes, self.owner, source.len());
        Ok(())
    }

    fn get(&self, offset: u64, dest: &mut [u8]) -> Result<()> {
        self.inner.get(offset, dest)?;
        self.counted.count_bulk(&self.counted.get_bytes, self.owner, dest.len());
        Ok(())
    }

    fn put_runs(&self, source: &[u8], runs: &[Run]) -> Result<()> {
        self.inner.put_runs(source, runs)?;
        runs.iter().for_each(|run| self.counted.count_bulk(&self.counted.put_bytes, self.owner, run.len));
        Ok(())
    }

    fn get_runs(&self, dest: &mut [u8], runs: &[Run]) -> Result<()> {
        self.inner.get_runs(dest, runs)?;
        runs.iter().for_each(|run| self.counted.count_bulk(&self.counted.get_bytes, self.owner, run.len));
        Ok(())
    }

    fn words(&self) -> Option<PinnedWords<'_>> {
        self.inner.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Topology, World, bulk};

    fn one_of(distance: Distance) -> ByDistance {
        let mut counts = ByDistance::default();
        match distance {
            Distance::Own => counts.own = 1,
            Distance::Node => counts.node = 1,
            Distance::Remote => counts.remote = 1,
        }
        counts
    }

    #[test]
    fn every_operation_is_counted_once_at_its_distance() {
        let topology = Topology::blocks(4, 2, 1).unwrap();
        let counts = World::threads(4).topology(topology).run(|ra| {
            let counted = Counted::new(ra);
            let at = counted.heap().alloc(64, 8).unwrap();
            if counted.rank() != Rank(1) {
                return Vec::new();
            }
            let mut seen = Vec::new();
            for (target, distance) in [(1, Distance::Own), (0, Distance::Node), (3, Distance::Remote)] {
                let word = Rank(target).at(at);
                counted.fetch_add(word, 2).unwrap();
                counted.compare_and_swap(word, 7, 1).unwrap();
                counted.fetch_store(word, 3).unwrap();
                counted.put(word, 4).unwrap();
                assert_eq!(counted.get(word).unwrap(), 4);
                counted.flush(word.rank).unwrap();
                bulk::scope(&counted, |bulk| bulk.put(Rank(target).at(at.plus(8)), &[1, 2, 3])).unwrap();
                let mut back = [0; 5];
                counted.get_bytes(Rank(target).at(at.plus(8)), &mut back).unwrap();
                assert_eq!(back, [1, 2, 3, 0, 0]);
                let one = one_of(distance);
                let bytes = one.zip(ByDistance::default(), |count, _| 8 * count);
                let expected = Counts {
                    fetch_add: one,
                    compare_and_swap: one,
                    fetch_store: one,
                    get: one,
                    put: one,
                    get_bytes: one,
                    put_bytes: one,
                    flush: one,
                    flush_all: 1,
                    bytes,
                    ..Counts::default()
                };
                assert_eq!(counted.counts(), expected);
                assert_eq!(expected.remote_operations(), if distance == Distance::Own { 0 } else { 7 });
                assert_eq!(expected.own_operations(), if distance == Distance::Own { 7 } else { 0 });
                seen.push(counted.take());
                assert_eq!(counted.counts(), Counts::default());
            }
            seen
        });
        let counts: Counts = counts.unwrap().concat().into_iter().sum();
        assert_eq!(counts.remote_operations(), 14);
        assert_eq!(counts.flush, ByDistance { own: 1, node: 1, remote: 1 });
        assert_eq!(counts.flush.at(Distance::Remote), 1);
        assert_eq!(counts.bytes.total(), 24);
    }

    #[test]
    fn waits_pauses_and_flushes_are_no_network_operations() {
        World::threads(2)
            .run(|ra| {
                let ra = Counted::new(ra);
                let at = ra.heap().alloc(8, 8).unwrap();
                ra.wait_until(at, Until::Eq(0)).unwrap();
                ra.wait_until_deadline(at, Until::Eq(1), Time(0)).unwrap();
                ra.pause(1).unwrap();
                ra.flush(Rank(1 - ra.rank().0)).unwrap();
                let counts = ra.counts();
                assert_eq!((counts.wait, counts.pause, counts.flush.total()), (2, 1, 1));
                assert_eq!(counts.remote_operations() + counts.own_operations(), 0);
            })
            .unwrap();
    }

    #[test]
    fn a_clear_is_a_bulk_put_that_is_flushed_and_words_are_shared_as_they_are() {
        World::threads(2)
            .run(|ra| {
                let ra = Counted::new(ra);
                let at = ra.heap().alloc(20_000, 8).unwrap();
                ra.put(ra.rank().at(at), 1).unwrap();
                ra.reset();
                ra.clear(at, 20_000).unwrap();
                let own = |own| ByDistance { own, ..ByDistance::default() };
                let expected = Counts { put_bytes: own(1), flush: own(1), bytes: own(20_000), ..Counts::default() };
                assert_eq!(ra.counts(), expected);
                ra.clear(Disp(u64::MAX), 1).unwrap_err();
                let words = RemoteAtomics::shared_words(&ra, ra.rank().at(at), 3).unwrap();
                words[1].fetch_add(5, std::sync::atomic::Ordering::SeqCst);
                assert_eq!(ra.counts(), expected, "accesses past the trait are not counted");
                assert_eq!(ra.get(ra.rank().at(at.word(1))).unwrap(), 5);
                assert_eq!(ra.world_rank(Rank(1)), Rank(1));
            })
            .unwrap();
    }

    #[test]
    fn refused_operations_are_not_counted() {
        World::threads(1)
            .run(|ra| {
                let ra = Counted::new(ra);
                ra.fetch_add(Rank(1).at(Disp(0)), 1).unwrap_err();
                ra.get(Rank(0).at(Disp(3))).unwrap_err();
                ra.put_bytes(Rank(0).at(Disp(u64::MAX)), &[1]).unwrap_err();
                ra.flush(Rank(9)).unwrap_err();
                assert_eq!(ra.counts(), Counts::default());
            })
            .unwrap();
    }

    #[test]
    fn counts_add_subtract_print_and_travel() {
        let earlier = Counts { get: ByDistance { own: 1, node: 2, remote: 3 }, wait: 1, ..Counts::default() };
        let mut later = earlier;
        later.merge(&Counts { put: ByDistance { own: 0, node: 0, remote: 5 }, wait: 1, ..Counts::default() });
        let between = later - earlier;
        assert_eq!((between.put.remote, between.get.total(), between.wait), (5, 0, 1));
        assert_eq!(between + earlier, later);
        let text = serde_json::to_string(&later).unwrap();
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), later);
        assert_eq!(
            later.to_string(),
            "\
operation                own      node    remote
get                        1         2         3
put                        0         0         5
wait                       2         -         -"
        );
    }
}
