//! The costs of synchronization and communication in operations, which check the figures in the modules' documentation.

use rmalab_atomics::controlled::{Answer, Call, Controlled, Executor, Shape};
use rmalab_atomics::fabric::{Bytes, Completion, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use rmalab_atomics::{Counted, Counts, Mapped, Rank, RemoteAtomics, Request, Result, Time, Until, World};
use rmalab_windows::{
    AccumulateStrategy, Config, FenceAssert, FenceStrategy, LockKind, Op, PscwStrategy, Team, Window, WindowDisp,
};

const FIRST: WindowDisp = WindowDisp(0);
const SIZES: [u32; 6] = [1, 2, 3, 4, 5, 8];

type Ranks<'a> = Counted<'a, Mapped>;

/// Runs `body` on threads with a window of 16 bytes at each rank, with all counters at zero.
fn on(size: u32, config: &Config, body: impl Fn(&Ranks<'_>, &mut Window<'_, Ranks<'_>>) + Sync) {
    World::threads(size)
        .run(|ra| {
            let ra = Counted::new(ra);
            let team = Team::new(&ra).unwrap();
            ra.reset();
            team.collectives().allreduce(&mut [0; 4], u64::max).unwrap();
            let reduction = ra.take();
            let mut window = Window::builder(&team).config(*config).allocate(16).unwrap();
            assert_eq!(
                ra.take(),
                reduction,
                "making a window of equal parts is one reduction of their sizes and units"
            );
            body(&ra, &mut window);
        })
        .unwrap();
}

/// ⌈log₂ size⌉.
fn rounds(size: u32) -> u64 {
    u64::from(size.next_power_of_two().ilog2())
}

/// Checks that the puts, additions and waits of a rank are as many as this number of barriers takes.
fn are_barriers(ra: &Ranks<'_>, counts: &Counts, barriers: u64) {
    let (size, seen) = (ra.size(), (counts.put.total(), counts.fetch_add.total(), counts.wait));
    if ra.capabilities().shares_processors && size > 2 {
        // A rank waits, or is the last one, which releases all others.
        let ended = barriers.saturating_sub(counts.wait);
        let others = u64::from(size) - 1;
        assert_eq!(seen, (barriers + ended * others, barriers, barriers - ended), "{size} ranks share processors");
    } else {
        let steps = barriers * rounds(size);
        assert_eq!(seen, (steps, 0, steps), "{size} ranks");
        assert_eq!(counts.remote_operations(), steps, "{size} ranks");
    }
}

/// Returns the ranks after this one, without this one.
fn others(ra: &Ranks<'_>) -> Vec<Rank> {
    (1..ra.size()).map(|by| Rank((ra.rank().0 + by) % ra.size())).collect()
}

#[test]
fn a_fence_is_a_flush_and_a_barrier() {
    for (fence, barriers) in [(FenceStrategy::Dissemination, 1), (FenceStrategy::Naive, 2)] {
        for size in SIZES {
            let config = Config { fence, ..Config::default() };
            on(size, &config, |ra, window| {
                let epoch = window.fence().unwrap();
                ra.reset();
                let epoch = epoch.next().unwrap();
                let counts = ra.take();
                are_barriers(ra, &counts, barriers);
                assert_eq!((counts.flush_all, counts.flush.total()), (1, 0), "{fence} {size}");
                // There is nothing to complete, so no flush.
                let epoch = epoch.next_assert(FenceAssert { noprecede: true, ..Default::default() }).unwrap();
                let counts = ra.take();
                are_barriers(ra, &counts, barriers);
                assert_eq!((counts.flush_all, counts.flush.total()), (0, 0), "{fence} {size}");
                epoch.close().unwrap();
                ra.reset();
                // There is nothing before it and nothing after it, so no fence at all.
                let none = FenceAssert { noprecede: true, nosucceed: true, ..Default::default() };
                let _ = window.fence_assert(none).unwrap();
                assert_eq!(ra.take(), Counts::default(), "{fence} {size}");
            });
        }
    }
}

#[test]
fn post_and_complete_cost_a_pair_of_ranks_one_message_each() {
    // The remote operations of a post under each strategy: a put, or a ticket and a slot.
    for (pscw, post) in [(PscwStrategy::Flags, 1), (PscwStrategy::Matching, 2)] {
        for size in SIZES {
            let config = Config { pscw, ..Config::default() };
            on(size, &config, |ra, window| {
                let group = others(ra);
                let pairs = group.len() as u64;
                for round in 0..3 {
                    let (mut access, mut exposure) = window.pscw().unwrap();
                    let exposed = exposure.post(&group).unwrap();
                    let posted = ra.take();
                    let matching = pscw == PscwStrategy::Matching;
                    assert_eq!(posted.put.others(), if matching { 0 } else { pairs }, "{pscw} {size}");
                    assert_eq!(posted.remote_operations(), post * pairs, "{pscw} {size}");
                    assert_eq!((posted.wait, posted.pause), (0, 0), "{pscw} {size}");
                    let accessed = access.start(&group).unwrap();
                    assert_eq!(ra.take().remote_operations(), 0, "{pscw} {size}: start is local");
                    // Two of three epochs have operations.
                    let flushes = if round == 0 { 0 } else { pairs };
                    if let (true, Some(&target)) = (round > 0, group.first()) {
                        let _ = accessed.at(target).unwrap();
                    }
                    accessed.complete().unwrap();
                    let completed = ra.take();
                    assert_eq!(completed.put.others(), if matching { 0 } else { pairs }, "{pscw} {size}");
                    assert_eq!(completed.remote_operations(), pairs, "{pscw} {size}");
                    assert_eq!((completed.flush.total(), completed.wait), (flushes, 0), "{pscw} {size}");
                    exposed.wait().unwrap();
                    let waited = ra.take();
                    let waits = if matching { 1 } else { pairs };
                    assert_eq!((waited.wait, waited.remote_operations()), (waits, 0), "{pscw} {size}");
                }
            });
        }
    }
}

/// A handle that keeps its rank's puts to one target in order.
struct InOrder<'a> {
    inner: &'a Ranks<'a>,
    view: WorldView,
}

impl<'a> InOrder<'a> {
    fn new(inner: &'a Ranks<'a>) -> InOrder<'a> {
        let mut capabilities = inner.capabilities();
        capabilities.ordered_puts = true;
        InOrder { inner, view: inner.view().clone().with_capabilities(capabilities) }
    }
}

impl Fabric for InOrder<'_> {
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.inner.word(at, op)
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.start_word(at, op, result) }
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.transfer(at, bytes, until) }
    }

    fn done(&self, request: &Request) -> Result<bool> {
        self.inner.done(request)
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.inner.finish(request)
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.inner.complete(target)
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.inner.wait_on(own, until, deadline)
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.inner.delay(delay)
    }

    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn extras(&self) -> Extras<'_> {
        self.inner.extras()
    }
}

/// The flushes of a complete after rank 0 has put to rank 1, where puts keep their order.
fn flushes<'t, 'a: 't>(
    ra: &Ranks<'_>,
    window: &mut Window<'t, InOrder<'a>>,
    put: impl Fn(&Window<'t, InOrder<'a>>) -> WindowDisp,
) -> u64 {
    let disp = put(window);
    let (mut access, mut exposure) = window.pscw().unwrap();
    if ra.rank() == Rank(1) {
        exposure.post(&[Rank(0)]).unwrap().wait().unwrap();
        return 0;
    }
    let accessed = access.start(&[Rank(1)]).unwrap();
    accessed.at(Rank(1)).unwrap().put_value(disp, 7_u64).unwrap();
    ra.reset();
    accessed.complete().unwrap();
    ra.take().flush.total()
}

/// The complete follows the data only if it is a put to the rank that has their memory.
#[test]
fn a_complete_that_follows_the_data_takes_no_flush() {
    let ran = World::threads(2).run(|ra| {
        let counted = Counted::new(ra);
        let ra = InOrder::new(&counted);
        let team = Team::new(&ra).unwrap();
        let builder = |pscw| Window::builder(&team).config(Config { pscw, ..Config::default() });
        let flags = || builder(PscwStrategy::Flags);
        let first = |_: &Window<'_, _>| FIRST;
        let by_flags = flushes(&counted, &mut flags().allocate(64).unwrap(), first);
        let by_matching = flushes(&counted, &mut builder(PscwStrategy::Matching).allocate(64).unwrap(), first);
        // The memory of all ranks is at rank 0, or else each part at its rank.
        let mut shared = flags().allocate_shared(64).unwrap();
        let elsewhere = flushes(&counted, &mut shared, first);
        let apart = Config { alloc_shared_noncontig: true, ..Config::default() };
        let apart = Config { pscw: PscwStrategy::Flags, ..apart };
        let apart = flushes(&counted, &mut Window::builder(&team).config(apart).allocate_shared(64).unwrap(), first);
        let attached = |inner| {
            flushes(&counted, &mut flags().create_dynamic().unwrap(), |window| {
                let mut at = [window.attach_window(inner).unwrap().0 as u64 * u64::from(team.rank().0)];
                team.collectives().allreduce(&mut at, u64::max).unwrap();
                WindowDisp(at[0] as i64)
            })
        };
        let [own, other] = [attached(&flags().allocate(64).unwrap()), attached(&shared)];
        [by_flags, by_matching, elsewhere, apart, own, other]
    });
    // A dynamic window flushes the target and the owner of its memory.
    assert_eq!(ran.unwrap()[0], [0, 1, 1, 0, 0, 2]);
}

#[test]
fn lock_all_is_one_operation_at_any_number_of_ranks() {
    for size in SIZES {
        on(size, &Config::default(), |ra, window| {
            let all = window.lock_all().unwrap();
            let locked = ra.take();
            assert_eq!((locked.fetch_add.total(), locked.remote_operations() + locked.own_operations()), (1, 1));
            all.unlock_all().unwrap();
            let unlocked = ra.take();
            assert_eq!((unlocked.fetch_add.total(), unlocked.flush_all), (1, 1));
            assert_eq!(unlocked.remote_operations() + unlocked.own_operations(), 1);
        });
    }
}

/// All operations of one rank on another, while the other ranks do nothing.
#[test]
fn an_operation_is_one_operation() {
    for accumulate in [AccumulateStrategy::Native, AccumulateStrategy::Cas, AccumulateStrategy::Locked] {
        let config = Config { accumulate, ..Config::default() };
        on(3, &config, |ra, window| {
            if ra.rank() != Rank(0) {
                return;
            }
            let what = |counts: &Counts| (counts.remote_operations(), counts.flush.others() + counts.flush_all);
            let lock = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            let locked = ra.take();
            // The master, which is on this rank, and the target.
            assert_eq!((locked.own_operations(), what(&locked)), (1, (1, 0)));
            lock.put_value(FIRST, 5_u64).unwrap();
            let put = ra.take();
            assert_eq!((put.put_bytes.others(), put.bytes.others(), what(&put)), (1, 8, (1, 0)));
            lock.flush().unwrap();
            assert_eq!(what(&ra.take()), (0, 1));
            assert_eq!(lock.get_value::<u64>(FIRST).unwrap(), 5);
            let got = ra.take();
            assert_eq!((got.get_bytes.others(), got.bytes.others(), what(&got)), (1, 8, (1, 0)));
            lock.unlock().unwrap();
            let unlocked = ra.take();
            assert_eq!((unlocked.own_operations(), what(&unlocked)), (1, (1, 1)));

            let lock = window.lock(LockKind::Shared, Rank(1)).unwrap();
            assert_eq!(what(&ra.take()), (1, 0));
            lock.fetch_and_op(FIRST, Op::Sum, 1_u64).unwrap();
            let fetched = ra.take();
            match accumulate {
                AccumulateStrategy::Native => assert_eq!((fetched.fetch_add.others(), what(&fetched)), (1, (1, 0))),
                AccumulateStrategy::Cas => {
                    assert_eq!((fetched.get.others(), fetched.compare_and_swap.others()), (1, 1));
                    assert_eq!(what(&fetched), (2, 0));
                }
                AccumulateStrategy::Locked => {
                    let bulk = (fetched.get_bytes.others(), fetched.put_bytes.others());
                    let lock = (fetched.fetch_store.others(), fetched.compare_and_swap.others());
                    assert_eq!((bulk, lock, what(&fetched)), ((1, 1), (1, 1), (4, 1)));
                }
            }
            lock.compare_and_swap(FIRST, 6_u64, 7).unwrap();
            if accumulate != AccumulateStrategy::Locked {
                let swapped = ra.take();
                assert_eq!((swapped.compare_and_swap.others(), what(&swapped)), (1, (1, 0)));
            }
            ra.reset();
            lock.unlock().unwrap();
            assert_eq!(what(&ra.take()), (1, 1));
        });
    }
}

#[test]
fn free_is_two_barriers() {
    for size in SIZES {
        World::threads(size)
            .run(|ra| {
                let ra = Counted::new(ra);
                let team = Team::new(&ra).unwrap();
                let window = Window::allocate(&team, 16).unwrap();
                ra.reset();
                window.free().unwrap();
                let counts = ra.take();
                are_barriers(&ra, &counts, 2);
            })
            .unwrap();
    }
}

/// Executes no call.
struct Silent;

impl Executor for Silent {
    fn call(&self, call: Call) -> Answer {
        panic!("making a symmetric window must not communicate, but calls {call}")
    }
}

/// Returns the bytes of the symmetric heap that a window of `bytes` bytes takes at each rank.
fn memory(size: u32, bytes: u64, pscw: PscwStrategy) -> u64 {
    let ra = Controlled::new(Silent, &Shape::new(size), Rank(size / 2));
    let team = Team::new(&ra).unwrap();
    let before = ra.heap().free_bytes();
    let config = Config { pscw, ..Config::default() };
    let window = Window::builder(&team).config(config).symmetric().allocate(bytes).unwrap();
    let after = ra.heap().free_bytes();
    drop(window);
    before - after
}

#[test]
fn memory_of_an_allocated_window_does_not_grow_with_the_number_of_ranks() {
    let auto = |size| memory(size, 4096, PscwStrategy::Auto);
    // Up to 512 ranks it takes two words for each rank, at most 8 KiB.
    assert!(auto(512) - auto(2) <= 2 * 8 * 512, "{} {}", auto(512), auto(2));
    // Beyond 512 ranks posts go to a ring, with 64 slots at any number of ranks.
    assert_eq!(auto(1024), auto(1 << 20));
    assert!(auto(1 << 20) <= 4096 + 2048, "{}", auto(1 << 20));
    let matching = |size| memory(size, 4096, PscwStrategy::Matching);
    assert_eq!(matching(64), matching(1 << 20));
    // The flags take two words for each rank if the program chooses them.
    assert_eq!(memory(4096, 8, PscwStrategy::Flags) - memory(64, 8, PscwStrategy::Flags), 16 * (4096 - 64));
}
