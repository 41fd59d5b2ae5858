//! Tests the locks under posted puts that arrive late: after later operations of the same rank, in another order at
//! other ranks, but before a flush of their target returns.
//!
//! On coherent memory a put is visible when its call returns, so a missing flush would show only on a network.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::fabric::{Bytes, Completion, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use rmalab_atomics::{Mapped, Rank, RemoteAtomics, Request, Result, Time, Until, World};
use rmalab_locks::{
    ALock, ALockParams, Backoff, BigReader, BigReaderParams, BrLock, Bravo, BravoParams, Clh, ClhParams, Cna,
    CnaParams, Cohort, CohortParams, DecLock, DslrWide, DslrWideParams, Elements, Gcr, GcrParams, GcrRw, Hapax, Lease,
    Malthusian, MalthusianParams, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Mpi4pyMcs, OshmemMcs, Reciprocating, RmaMcs,
    RmaMcsParams, RmaRw, RmaRwParams, RmeMcs, RobustMcs, RobustRw, RobustTas, RobustTicket, Sherman, ShermanParams,
    ShiftLock, ShiftLockParams, Tas, TasRw, Ticket, suite,
};

/// A rank whose word puts arrive late.
struct Late<'a> {
    inner: &'a Mapped,
    view: WorldView,
    /// Puts under way, in order, for each target.
    posted: RefCell<Vec<VecDeque<(Word, u64)>>>,
    random: RefCell<SmallRng>,
    /// The number of operations that overtook a put.
    overtakings: Cell<u64>,
}

impl<'a> Late<'a> {
    fn new(inner: &'a Mapped) -> Late<'a> {
        let mut capabilities = inner.capabilities();
        capabilities.late_puts = true;
        capabilities.asymmetric_fence = false;
        Late {
            inner,
            view: inner.view().clone().with_capabilities(capabilities),
            posted: RefCell::new(vec![VecDeque::new(); inner.size() as usize]),
            random: RefCell::new(SmallRng::seed_from_u64(u64::from(inner.rank().0))),
            overtakings: Cell::new(0),
        }
    }

    /// Lets some puts arrive, before the next operation.
    fn progress(&self) -> Result<()> {
        let mut under_way = 0;
        for queue in self.posted.borrow_mut().iter_mut() {
            while !queue.is_empty() && self.random.borrow_mut().random_range(0..4) == 0 {
                let (at, value) = queue.pop_front().expect("not empty");
                self.inner.word(at, WordOp::Put(value))?;
            }
            under_way += queue.len();
        }
        self.overtakings.set(self.overtakings.get() + u64::from(under_way > 0));
        self.linger();
        Ok(())
    }

    /// Lets other ranks run while puts are under way. Otherwise few ranks would see them missing.
    fn linger(&self) {
        let under_way = self.posted.borrow().iter().any(|queue| !queue.is_empty());
        if under_way && self.random.borrow_mut().random_range(0..2) == 0 {
            std::thread::yield_now();
        }
    }

    fn deliver(&self, target: Rank) -> Result<()> {
        let queue = std::mem::take(&mut self.posted.borrow_mut()[target.index()]);
        queue.into_iter().try_for_each(|(at, value)| self.inner.word(at, WordOp::Put(value)).map(drop))
    }

    /// Every put arrives eventually, so a rank that waits does not hold back its own puts.
    fn deliver_all(&self) -> Result<()> {
        self.linger();
        (0..self.inner.size()).try_for_each(|target| self.deliver(Rank(target)))
    }
}

impl Fabric for Late<'_> {
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        if let WordOp::Put(value) = op {
            self.posted.borrow_mut()[at.rank().index()].push_back((at, value));
            return Ok(0);
        }
        self.progress()?;
        self.inner.word(at, op)
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        let old = self.word(at, op)?;
        // SAFETY: the caller vouches for `result`.
        unsafe { result.write(old) };
        Ok(Request(0))
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        self.progress()?;
        // SAFETY: the caller vouches for the buffer and for the span, which is also a span of the inner world.
        let request = unsafe { self.inner.transfer(at, bytes, until)? };
        if until == Completion::Target && !matches!(bytes, Bytes::Get(_)) {
            self.deliver(at.rank())?;
        }
        Ok(request)
    }

    fn done(&self, request: &Request) -> Result<bool> {
        self.inner.done(request)
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.inner.finish(request)
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        match target {
            Some(target) => self.deliver(target)?,
            None => self.deliver_all()?,
        }
        self.inner.complete(target)
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.deliver_all()?;
        self.inner.wait_on(own, until, deadline)
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.deliver_all()?;
        self.inner.delay(delay)
    }

    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn extras(&self) -> Extras<'_> {
        Extras::default()
    }
}

/// Runs `body` on each rank of some worlds, and checks that some operations overtook puts.
fn late(body: impl Fn(&Late<'_>) -> rmalab_locks::Result<()> + Sync) {
    for size in [2, 3, 4] {
        let overtakings = World::threads(size)
            .run(|ra| {
                let ra = Late::new(ra);
                body(&ra).unwrap_or_else(|error| panic!("{}: {error}", ra.rank()));
                ra.deliver_all().expect("puts to addresses that exist");
                ra.overtakings.get()
            })
            .expect("a world of threads");
        assert!(overtakings.iter().sum::<u64>() > 0, "no put was late");
    }
}

/// Nodes of two ranks.
const NODES: Elements = Elements::Blocks([2, 0, 0]);

fn gcr(active: u32) -> GcrParams<()> {
    GcrParams { active, threshold: 2, inner: () }
}

fn rma_mcs(t_l: u16) -> RmaMcsParams {
    RmaMcsParams { levels: NODES, t_l: [t_l; 4], ..RmaMcsParams::default() }
}

fn rma_rw(t_dc: u32, t_l: u16, t_r: u32) -> RmaRwParams {
    RmaRwParams { levels: NODES, t_dc, t_l: [t_l; 4], t_r, ..RmaRwParams::default() }
}

#[test]
fn mutexes() {
    late(|ra| suite::mutex_on::<Mcs, _>(ra, (), 150));
    late(|ra| suite::mutex_try_on::<Mcs, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<Tas, _>(ra, Backoff::default(), 150));
    late(|ra| suite::mutex_on::<Ticket, _>(ra, Default::default(), 150));
    late(|ra| suite::mutex_on::<RobustMcs, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<RmeMcs, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<RobustTas, _>(ra, Backoff::default(), 150));
    late(|ra| suite::mutex_on::<RobustTicket, _>(ra, Default::default(), 150));
    late(|ra| suite::mutex_on::<Lease, _>(ra, Default::default(), 150));
    late(|ra| suite::mutex_on::<OshmemMcs, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<Mpi4pyMcs, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<Reciprocating, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<ALock, _>(ra, ALockParams::default(), 150));
    late(|ra| suite::mutex_on::<Sherman, _>(ra, ShermanParams { max: 2, ranks: 2, ..ShermanParams::default() }, 150));
    for active in [1, 2] {
        late(|ra| suite::mutex_on::<Gcr<Mcs>, _>(ra, gcr(active), 150));
    }
    for threshold in [1, 3] {
        late(|ra| suite::mutex_on::<Cna, _>(ra, CnaParams { threshold, scan: 16, ranks: 2 }, 150));
    }
    for period in [1, 2] {
        late(|ra| suite::mutex_on::<Malthusian, _>(ra, MalthusianParams { period }, 150));
    }
    late(|ra| suite::mutex_on::<Hapax, _>(ra, (), 150));
    late(|ra| suite::mutex_try_on::<Hapax, _>(ra, (), 150));
    late(|ra| suite::mutex_on::<Clh, _>(ra, ClhParams::default(), 150));
    late(|ra| suite::mutex_try_on::<Clh, _>(ra, ClhParams::default(), 150));
    late(|ra| suite::mutex_on::<Cohort, _>(ra, CohortParams { may_pass_local: 1, ranks: 2 }, 150));
    for t_l in [1, 2] {
        late(|ra| suite::mutex_on::<RmaMcs, _>(ra, rma_mcs(t_l), 150));
    }
}

#[test]
fn reader_writer_locks() {
    for writers in [100, 50, 10] {
        late(|ra| suite::rw_lock_on::<McsRwRp, _>(ra, (), 150, writers));
        late(|ra| suite::rw_lock_on::<McsRwWp, _>(ra, (), 150, writers));
        late(|ra| suite::rw_lock_on::<McsRwNeutral, _>(ra, (), 150, writers));
        late(|ra| suite::rw_lock_on::<BigReader, _>(ra, BigReaderParams::default(), 150, writers));
        late(|ra| suite::rw_lock_on::<BrLock, _>(ra, Backoff::default(), 150, writers));
        late(|ra| suite::rw_lock_on::<DecLock, _>(ra, Backoff::default(), 150, writers));
        late(|ra| suite::rw_lock_on::<DslrWide, _>(ra, DslrWideParams::default(), 150, writers));
        for n in [1, 3] {
            let params = ShiftLockParams { n, ..ShiftLockParams::default() };
            late(|ra| suite::rw_lock_on::<ShiftLock, _>(ra, params, 150, writers));
        }
        late(|ra| suite::rw_lock_on::<GcrRw<McsRwNeutral>, _>(ra, gcr(1), 150, writers));
        for inhibit in [0, 1] {
            let params = BravoParams { inhibit, ..BravoParams::default() };
            late(|ra| suite::rw_lock_on::<Bravo<McsRwNeutral>, _>(ra, params, 150, writers));
        }
        late(|ra| suite::rw_lock_on::<TasRw, _>(ra, Backoff::default(), 150, writers));
        late(|ra| suite::rw_lock_on::<RobustRw, _>(ra, Backoff::default(), 150, writers));
        late(|ra| suite::rw_lock_on::<RmaRw, _>(ra, rma_rw(1, 2, 1), 150, writers));
        late(|ra| suite::rw_lock_on::<RmaRw, _>(ra, rma_rw(2, 1, 2), 150, writers));
    }
    late(|ra| suite::readers_meet_on::<McsRwRp, _>(ra, ()));
    late(|ra| suite::readers_meet_on::<McsRwWp, _>(ra, ()));
    late(|ra| suite::readers_meet_on::<McsRwNeutral, _>(ra, ()));
    late(|ra| suite::readers_meet_on::<DecLock, _>(ra, Backoff::default()));
}
