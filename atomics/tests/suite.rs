//! The conformance suite itself: it requires only the memory model's guarantees, and it detects faults.
//!
//! [`Bent`] is a backend over the thread backend with two kinds of changes. It may be as weak as the model allows, with
//! late puts, unordered between targets; then every check must pass. Or it may have one fault; then a named check must
//! fail.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use rmalab_atomics::conformance::checks;
use rmalab_atomics::fabric::{Bytes, Completion, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use rmalab_atomics::{
    Address, Disp, Mapped, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Until, WORD, World,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bend {
    /// Puts are late, and ordered only for each target; bulk puts are late and not ordered at all. All this is allowed.
    Weak,
    /// Atomics are a read and a write. No other atomic comes between them, but puts do. That is allowed.
    PutsMeetAtomics,
    /// Weak, and puts to one target overtake each other.
    PutsOvertake,
    /// Weak, and a flush completes nothing.
    FlushIsEmpty,
    /// A fetching store that is a get and a late put.
    FetchStoreIsLate,
    /// The owner's additions are not atomic with the additions of others.
    OwnerIsNotAtomic,
    FetchAddIsNotAtomic,
    FetchAddSaturates,
    FetchStoreIsNotAtomic,
    CompareAndSwapIsNotAtomic,
    /// A compare-and-swap that fails writes the old word back.
    CompareAndSwapWritesBack,
    CompareAndSwapComparesHalf,
    CompareAndSwapReturnsDesired,
    PutTears,
    GetIsStale,
    /// Bulk puts write whole words.
    BulkWritesWords,
    BulkDropsLastByte,
    /// The address after the last word of a segment is its first word.
    SegmentHasTooManyWords,
    WaitComparesHalf,
    WaitLooksOnce,
    WaitIsOffByOneWord,
    DeadlineGoesFirst,
    DeadlineIsEarly,
    FreshMemoryIsDirty,
    /// Started operations are not atomic.
    StartedIsNotAtomic,
    StartedGivesNoResult,
    StartedIsNeverDone,
}

#[derive(Debug)]
enum Posted {
    Word(Address, u64),
    Bytes(Address, Vec<u8>),
    Started(Address, WordOp, *mut u64),
}

impl Posted {
    fn target(&self) -> Rank {
        match self {
            Posted::Word(at, _) | Posted::Bytes(at, _) | Posted::Started(at, ..) => at.rank,
        }
    }
}

/// The request of every late started operation.
const LATE: Request = Request(1);

struct Bent<'a> {
    inner: &'a Mapped,
    view: WorldView,
    bend: Bend,
    posted: RefCell<Vec<Posted>>,
    random: Cell<u64>,
    /// The value of the last get, for a stale get.
    last: Cell<Option<(Address, u64)>>,
}

impl<'a> Bent<'a> {
    fn new(inner: &'a Mapped, bend: Bend) -> Bent<'a> {
        let view = inner.view();
        let mut capabilities = view.capabilities();
        capabilities.atomic_puts = bend != Bend::PutsMeetAtomics;
        // Barriers that consist of puts only. A fault of an atomic has to fail its check, and must not lose an arrival for which
        // all ranks would wait.
        capabilities.shares_processors = false;
        let segment = view.segment() + if bend == Bend::SegmentHasTooManyWords { WORD } else { 0 };
        let heap = SymmetricHeap::new(view.segment());
        if bend == Bend::FreshMemoryIsDirty {
            let at = inner.rank().at(Disp(heap.capacity() / 2));
            inner.put(at, 1).expect("half of the segment");
            heap.alloc(heap.capacity() / 2 - 64, 8).expect("nearly half of the segment");
        }
        let view = WorldView::new(view.rank(), segment, capabilities, view.topology().clone(), heap);
        let view = view.expect("a rank of the inner world");
        let random = Cell::new(0x9e37_79b9 + u64::from(inner.rank().0));
        Bent { inner, view, bend, posted: RefCell::default(), random, last: Cell::new(None) }
    }

    fn chance(&self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn below(&self, bound: u64) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 16) % bound
    }

    fn is_late(&self) -> bool {
        matches!(self.bend, Bend::Weak | Bend::PutsOvertake | Bend::FlushIsEmpty | Bend::FetchStoreIsLate)
    }

    /// Lets others run between the halves of an operation that should be atomic.
    fn gap(&self) {
        if self.chance(64) {
            std::thread::yield_now();
        }
    }

    /// Delivers one of the posted puts that `wanted` selects, if there is one. It may be any put that may be next.
    fn deliver_one(&self, wanted: impl Fn(Rank) -> bool) -> Result<bool> {
        let mut posted = self.posted.borrow_mut();
        let candidates: Vec<usize> = (0..posted.len())
            .filter(|&i| wanted(posted[i].target()))
            .filter(|&i| {
                let overtakes =
                    |earlier: &Posted| matches!(earlier, Posted::Word(at, _) if at.rank == posted[i].target());
                self.bend == Bend::PutsOvertake
                    || matches!(posted[i], Posted::Bytes(..) | Posted::Started(..))
                    || !posted[..i].iter().any(overtakes)
            })
            .collect();
        if candidates.is_empty() {
            return Ok(false);
        }
        match posted.remove(candidates[self.below(candidates.len() as u64) as usize]) {
            Posted::Word(at, value) => self.inner.put(at, value)?,
            Posted::Bytes(at, bytes) => self.inner.put_bytes(at, &bytes)?,
            // SAFETY: the promise of the caller of `start`, who waits for this or flushes.
            Posted::Started(at, op, result) => drop(unsafe { self.inner.start(at, op, result)? }),
        }
        Ok(true)
    }

    fn deliver(&self, wanted: impl Fn(Rank) -> bool) -> Result<()> {
        while self.deliver_one(&wanted)? {}
        Ok(())
    }

    /// Runs before every operation.
    fn step(&self) -> Result<()> {
        // The largest number of operations under way, since a network is limited, too.
        const UNDER_WAY: usize = 8;
        if self.is_late() && (self.chance(4) || self.posted.borrow().len() > UNDER_WAY) {
            self.deliver_one(|_| true)?;
        }
        Ok(())
    }

    /// Executes an atomic on the word at `at` as a read and a write, which are locked only against other atomics.
    fn halves(&self, at: Address, new: impl FnOnce(u64) -> Option<u64>) -> Result<u64> {
        static ATOMICS: Mutex<()> = Mutex::new(());
        let _atomics = ATOMICS.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.inner.get(at)?;
        self.gap();
        if let Some(new) = new(old) {
            self.inner.fetch_store(at, new)?;
        }
        Ok(old)
    }

    fn post_word(&self, at: Address, value: u64) {
        self.posted.borrow_mut().push(Posted::Word(at, value));
    }

    /// Returns the address with the fault.
    fn bend_address(&self, at: Address) -> Address {
        match self.bend {
            Bend::SegmentHasTooManyWords if at.disp == self.inner.heap().end() => at.rank.at(Disp(0)),
            _ => at,
        }
    }

    fn fetch_add(&self, at: Address, value: u64) -> Result<u64> {
        let halves = match self.bend {
            Bend::PutsMeetAtomics => return self.halves(at, |old| Some(old.wrapping_add(value))),
            Bend::FetchAddIsNotAtomic => true,
            Bend::OwnerIsNotAtomic => at.rank == self.view.rank(),
            _ => false,
        };
        if halves {
            let old = self.inner.get(at)?;
            self.gap();
            self.inner.fetch_store(at, old.wrapping_add(value))?;
            return Ok(old);
        }
        if self.bend == Bend::FetchAddSaturates {
            let old = self.inner.get(at)?;
            let value = value.min(u64::MAX - old);
            return self.inner.fetch_add(at, value);
        }
        self.inner.fetch_add(at, value)
    }

    fn compare_and_swap(&self, at: Address, expected: u64, desired: u64) -> Result<u64> {
        match self.bend {
            Bend::PutsMeetAtomics => self.halves(at, |old| (old == expected).then_some(desired)),
            Bend::CompareAndSwapWritesBack => {
                let old = self.inner.get(at)?;
                self.gap();
                if old == expected {
                    return self.inner.compare_and_swap(at, expected, desired);
                }
                self.inner.put(at, old)?;
                Ok(old)
            }
            Bend::CompareAndSwapIsNotAtomic => {
                let old = self.inner.get(at)?;
                self.gap();
                if old == expected {
                    self.inner.fetch_store(at, desired)?;
                }
                Ok(old)
            }
            Bend::CompareAndSwapComparesHalf => {
                let old = self.inner.get(at)?;
                let expected = if old as u32 == expected as u32 { old } else { expected };
                self.inner.compare_and_swap(at, expected, desired)
            }
            Bend::CompareAndSwapReturnsDesired => {
                let old = self.inner.compare_and_swap(at, expected, desired)?;
                Ok(if old == expected { desired } else { old })
            }
            _ => self.inner.compare_and_swap(at, expected, desired),
        }
    }

    fn fetch_store(&self, at: Address, value: u64) -> Result<u64> {
        match self.bend {
            Bend::PutsMeetAtomics => self.halves(at, |_| Some(value)),
            Bend::FetchStoreIsNotAtomic => {
                let old = self.inner.get(at)?;
                self.gap();
                self.inner.put(at, value)?;
                Ok(old)
            }
            Bend::FetchStoreIsLate => {
                let old = self.inner.get(at)?;
                self.post_word(at, value);
                Ok(old)
            }
            _ => self.inner.fetch_store(at, value),
        }
    }

    fn get(&self, at: Address) -> Result<u64> {
        let value = self.inner.get(at)?;
        match self.last.replace(Some((at, value))) {
            Some((before, old)) if self.bend == Bend::GetIsStale && before == at && self.chance(4) => Ok(old),
            _ => Ok(value),
        }
    }

    fn put(&self, at: Address, value: u64) -> Result<()> {
        if self.is_late() {
            self.post_word(at, value);
            return Ok(());
        }
        if self.bend == Bend::PutTears {
            let bytes = value.to_ne_bytes();
            self.inner.put_bytes(at, &bytes[..4])?;
            self.gap();
            return self.inner.put_bytes(at.rank.at(at.disp.plus(4)), &bytes[4..]);
        }
        self.inner.put(at, value)
    }

    fn put_bytes(&self, at: Address, mut bytes: &[u8]) -> Result<()> {
        if self.is_late() {
            self.posted.borrow_mut().push(Posted::Bytes(at, bytes.to_vec()));
            return Ok(());
        }
        let len = bytes.len();
        if self.bend == Bend::BulkDropsLastByte && len % 8 == 1 {
            bytes = &bytes[..len - 1];
        }
        if self.bend == Bend::BulkWritesWords && len > 0 {
            let start = at.disp.0 / 8 * 8;
            let mut words = vec![0; (at.disp.0 - start) as usize + len];
            words.resize(words.len().next_multiple_of(8), 0);
            self.inner.get_bytes(at.rank.at(Disp(start)), &mut words)?;
            self.gap();
            words[(at.disp.0 - start) as usize..][..len].copy_from_slice(bytes);
            return self.inner.put_bytes(at.rank.at(Disp(start)), &words);
        }
        self.inner.put_bytes(at, bytes)
    }
}

impl Drop for Bent<'_> {
    fn drop(&mut self) {
        let _ = self.deliver(|_| true);
    }
}

impl Fabric for Bent<'_> {
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.step()?;
        let at = self.bend_address(at.address());
        match op {
            WordOp::FetchAdd(value) => self.fetch_add(at, value),
            WordOp::CompareAndSwap { expected, desired } => self.compare_and_swap(at, expected, desired),
            WordOp::FetchStore(value) => self.fetch_store(at, value),
            WordOp::Get => self.get(at),
            WordOp::Put(value) => self.put(at, value).map(|()| 0),
        }
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        self.step()?;
        let at = self.bend_address(at.address());
        let old = match self.bend {
            Bend::StartedIsNeverDone => return Ok(Request(0)),
            // Without flushes the result's memory may be gone before the operation is executed.
            _ if self.is_late() && self.bend != Bend::FlushIsEmpty => {
                self.posted.borrow_mut().push(Posted::Started(at, op, result));
                return Ok(LATE);
            }
            Bend::PutsMeetAtomics => self.halves(at, |old| op.written(old))?,
            Bend::StartedIsNotAtomic => {
                let old = self.inner.get(at)?;
                self.gap();
                self.inner.fetch_store(at, op.written(old).unwrap_or(old))?;
                old
            }
            _ => {
                let mut old = 0;
                // SAFETY: a live variable; operations of the inner backend are complete at once.
                let _done = unsafe { self.inner.start(at, op, &mut old)? };
                old
            }
        };
        if self.bend != Bend::StartedGivesNoResult {
            // SAFETY: the caller's promise.
            unsafe { result.write(old) };
        }
        Ok(Request(0))
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        self.step()?;
        let (at, len) = (self.bend_address(at.address()), at.len());
        match bytes {
            Bytes::Put(source) => {
                // SAFETY: the caller's promise.
                self.put_bytes(at, unsafe { std::slice::from_raw_parts(source, len) })?;
            }
            // SAFETY: the caller's promise.
            Bytes::Get(dest) => drop(unsafe { self.inner.get_bytes_nb(at, dest, len)? }),
            Bytes::Clear => self.inner.clear(at.disp, len as u64)?,
        }
        if until == Completion::Target && !matches!(bytes, Bytes::Get(_)) {
            self.complete(Some(at.rank))?;
        }
        Ok(Request(0))
    }

    fn done(&self, request: &Request) -> Result<bool> {
        if *request == LATE {
            self.deliver_one(|_| true)?;
            return Ok(!self.posted.borrow().iter().any(|posted| matches!(posted, Posted::Started(..))));
        }
        Ok(true)
    }

    fn finish(&self, request: Request) -> Result<()> {
        if request == LATE { self.deliver(|_| true) } else { Ok(()) }
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.inner.complete(target)?;
        if self.bend == Bend::FlushIsEmpty {
            return Ok(());
        }
        self.deliver(|rank| target.is_none_or(|target| rank == target))
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.deliver(|_| true)?;
        let at = self.bend_address(own.address());
        if let Some(deadline) = deadline {
            return match self.bend {
                Bend::DeadlineGoesFirst if self.now() >= deadline => Ok(None),
                Bend::DeadlineIsEarly => {
                    self.inner.wait_until_deadline(at.disp, until, Time(deadline.0.saturating_sub(1_000_000)))
                }
                _ => self.inner.wait_until_deadline(at.disp, until, deadline),
            };
        }
        let word = match (self.bend, until) {
            (Bend::WaitComparesHalf, Until::Ge(value)) => loop {
                let word = self.inner.get(at)?;
                if word as u32 >= value as u32 {
                    break word;
                }
                self.inner.pause(1)?;
            },
            (Bend::WaitLooksOnce, Until::AnySet(_)) => self.inner.get(at)?,
            (Bend::WaitIsOffByOneWord, Until::Lt(_)) => self.inner.wait_until(at.disp.plus(8), until)?,
            _ => self.inner.wait_until(at.disp, until)?,
        };
        Ok(Some(word))
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        // Puts become visible at some time, even if their rank only polls.
        if self.chance(2) {
            self.deliver(|_| true)?;
        }
        self.inner.delay(delay)
    }

    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn extras(&self) -> Extras<'_> {
        Extras::default()
    }
}

/// Runs one check on bent ranks.
fn run(name: &str, ranks: u32, bend: Bend) {
    let body = |ra: &Mapped| {
        let bent = Bent::new(ra, bend);
        let check =
            checks::<dyn RemoteAtomics>().into_iter().find(|check| check.name == name).expect("a check of this name");
        (check.run)(&bent).unwrap_or_else(|failure| panic!("{failure}"));
    };
    World::threads(ranks).run(body).expect("a world of threads");
}

fn passes_all(bend: Bend) {
    for check in checks::<dyn RemoteAtomics>() {
        for &ranks in check.ranks {
            run(check.name, ranks, bend);
        }
    }
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_a_backend_as_weak_as_the_model_allows_passes() {
    passes_all(Bend::Weak);
}

#[test]
#[ignore = "some seconds; .ci/run longer"]
fn longer_a_backend_whose_puts_are_not_atomic_with_its_atomics_passes() {
    passes_all(Bend::PutsMeetAtomics);
}

#[test]
fn every_fault_fails_its_check() {
    let faults = [
        (Bend::PutsOvertake, "message_passing_put_same_target", 2),
        (Bend::PutsOvertake, "puts_of_one_rank_arrive_in_order", 2),
        (Bend::PutsOvertake, "two_plus_two_writes_put_same_target", 2),
        (Bend::FlushIsEmpty, "store_buffering_flushed_put", 2),
        (Bend::FlushIsEmpty, "store_buffering_bulk", 2),
        (Bend::FlushIsEmpty, "message_passing_flushed_put", 2),
        (Bend::FlushIsEmpty, "message_passing_ordered_put", 2),
        (Bend::FlushIsEmpty, "message_passing_ordered_put_then_atomic", 2),
        (Bend::FlushIsEmpty, "message_passing_bulk", 2),
        (Bend::FlushIsEmpty, "return_values", 1),
        (Bend::FlushIsEmpty, "bulk_agrees_with_a_model", 2),
        (Bend::FlushIsEmpty, "bulk_and_words_see_each_other", 2),
        (Bend::FetchStoreIsLate, "store_buffering_fetch_store", 2),
        (Bend::FetchStoreIsLate, "return_values", 1),
        (Bend::OwnerIsNotAtomic, "fetch_add_loses_nothing", 3),
        (Bend::OwnerIsNotAtomic, "kinds_are_atomic_with_each_other", 3),
        (Bend::FetchAddIsNotAtomic, "fetch_add_loses_nothing", 2),
        (Bend::FetchAddIsNotAtomic, "fetch_add_returns_each_value_once", 3),
        (Bend::FetchAddSaturates, "return_values", 1),
        (Bend::FetchStoreIsNotAtomic, "fetch_store_returns_each_token_once", 3),
        (Bend::CompareAndSwapIsNotAtomic, "compare_and_swap_increments", 3),
        (Bend::CompareAndSwapIsNotAtomic, "compare_and_swap_stores_only_on_equality", 4),
        (Bend::FetchAddIsNotAtomic, "no_put_is_lost_to_atomics", 2),
        (Bend::FetchStoreIsNotAtomic, "no_put_is_lost_to_atomics", 3),
        (Bend::CompareAndSwapIsNotAtomic, "no_put_is_lost_to_atomics", 2),
        (Bend::CompareAndSwapWritesBack, "no_put_is_lost_to_a_failed_comparison", 2),
        (Bend::CompareAndSwapComparesHalf, "return_values", 1),
        (Bend::CompareAndSwapReturnsDesired, "return_values", 1),
        (Bend::PutTears, "words_do_not_tear", 3),
        (Bend::GetIsStale, "return_values", 1),
        (Bend::BulkWritesWords, "bulk_puts_touch_only_their_bytes", 3),
        (Bend::BulkDropsLastByte, "bulk_agrees_with_a_model", 1),
        (Bend::BulkDropsLastByte, "long_transfers", 1),
        (Bend::SegmentHasTooManyWords, "word_operations_refuse_bad_addresses", 1),
        (Bend::SegmentHasTooManyWords, "waits_and_flushes_refuse_bad_addresses", 1),
        (Bend::SegmentHasTooManyWords, "bulk_operations_refuse_bad_addresses", 1),
        (Bend::SegmentHasTooManyWords, "started_operations_refuse_bad_addresses", 1),
        (Bend::WaitComparesHalf, "every_condition", 2),
        (Bend::WaitLooksOnce, "every_condition", 3),
        (Bend::WaitIsOffByOneWord, "every_condition", 3),
        (Bend::DeadlineGoesFirst, "deadlines", 1),
        (Bend::DeadlineIsEarly, "deadlines", 1),
        (Bend::FreshMemoryIsDirty, "fresh_memory_is_zero", 1),
        (Bend::StartedIsNotAtomic, "started_operations_are_atomic_with_all_others", 3),
        (Bend::StartedGivesNoResult, "started_operations_agree_with_a_model", 1),
        (Bend::StartedIsNeverDone, "started_operations_agree_with_a_model", 1),
    ];
    const ATTEMPTS: u32 = 10;
    let mut survived = Vec::new();
    for (fault, check, ranks) in faults {
        // Some faults are visible only in some schedules.
        let passes = || catch_unwind(AssertUnwindSafe(|| run(check, ranks, fault))).is_ok();
        if (0..ATTEMPTS).all(|_| passes()) {
            survived.push((fault, check, ranks));
        }
    }
    assert!(survived.is_empty(), "faults that no check detected: {survived:#?}");
}
