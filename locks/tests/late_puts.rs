//! The locks under posted puts that arrive late: after later operations of the same rank, in another order at other
//! ranks, but before a flush of their target returns.
//!
//! On coherent memory a put is visible when its call returns, so that a missing flush would show on a network only.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rmalab_atomics::{
    Address, Capabilities, Disp, Mapped, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Topology, Until,
    World,
};
use rmalab_locks::{
    Backoff, Cohort, CohortParams, Elements, Mcs, McsRwNeutral, McsRwRp, McsRwWp, RmaMcs, RmaMcsParams, RmaRw,
    RmaRwParams, Tas, TasRw, Ticket, suite,
};

/// A rank whose word puts arrive late.
struct Late<'a> {
    inner: &'a Mapped,
    /// Puts under way, in order, for each target.
    posted: RefCell<Vec<VecDeque<(Address, u64)>>>,
    random: RefCell<SmallRng>,
    /// Operations that overtook a put.
    overtakings: Cell<u64>,
}

impl<'a> Late<'a> {
    fn new(inner: &'a Mapped) -> Late<'a> {
        Late {
            inner,
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
                self.inner.put(at, value)?;
            }
            under_way += queue.len();
        }
        self.overtakings.set(self.overtakings.get() + u64::from(under_way > 0));
        self.linger();
        Ok(())
    }

    /// Lets other ranks run while puts are under way, or few of them would be seen missing.
    fn linger(&self) {
        let under_way = self.posted.borrow().iter().any(|queue| !queue.is_empty());
        if under_way && self.random.borrow_mut().random_range(0..2) == 0 {
            std::thread::yield_now();
        }
    }

    fn complete(&self, target: Rank) -> Result<()> {
        let queue = std::mem::take(&mut self.posted.borrow_mut()[target.index()]);
        queue.into_iter().try_for_each(|(at, value)| self.inner.put(at, value))
    }

    /// A put arrives some time, so a rank that waits does not keep its own back.
    fn complete_all(&self) -> Result<()> {
        self.linger();
        (0..self.inner.size()).try_for_each(|target| self.complete(Rank(target)))
    }
}

impl RemoteAtomics for Late<'_> {
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
        let mut capabilities = self.inner.capabilities();
        capabilities.late_puts = true;
        capabilities
    }

    fn heap(&self) -> &SymmetricHeap {
        self.inner.heap()
    }

    fn fetch_add(&self, at: Address, value: u64) -> Result<u64> {
        self.progress()?;
        self.inner.fetch_add(at, value)
    }

    fn compare_and_swap(&self, at: Address, expected: u64, desired: u64) -> Result<u64> {
        self.progress()?;
        self.inner.compare_and_swap(at, expected, desired)
    }

    fn fetch_store(&self, at: Address, value: u64) -> Result<u64> {
        self.progress()?;
        self.inner.fetch_store(at, value)
    }

    fn get(&self, at: Address) -> Result<u64> {
        self.progress()?;
        self.inner.get(at)
    }

    fn put(&self, at: Address, value: u64) -> Result<()> {
        self.inner.get(at)?;
        self.posted.borrow_mut()[at.rank.index()].push_back((at, value));
        Ok(())
    }

    unsafe fn put_bytes_nb(&self, at: Address, source: *const u8, len: usize) -> Result<Request> {
        self.progress()?;
        // SAFETY: the caller vouches for `source`.
        unsafe { self.inner.put_bytes_nb(at, source, len) }
    }

    unsafe fn get_bytes_nb(&self, at: Address, dest: *mut u8, len: usize) -> Result<Request> {
        self.progress()?;
        // SAFETY: the caller vouches for `dest`.
        unsafe { self.inner.get_bytes_nb(at, dest, len) }
    }

    fn test(&self, request: &Request) -> Result<bool> {
        self.inner.test(request)
    }

    fn wait(&self, request: Request) -> Result<()> {
        self.inner.wait(request)
    }

    fn flush(&self, target: Rank) -> Result<()> {
        self.complete(target)?;
        self.inner.flush(target)
    }

    fn flush_all(&self) -> Result<()> {
        self.complete_all()?;
        self.inner.flush_all()
    }

    fn wait_until(&self, own: Disp, until: Until) -> Result<u64> {
        self.complete_all()?;
        self.inner.wait_until(own, until)
    }

    fn wait_until_deadline(&self, own: Disp, until: Until, deadline: Time) -> Result<Option<u64>> {
        self.complete_all()?;
        self.inner.wait_until_deadline(own, until, deadline)
    }

    fn pause(&self, operations: u32) -> Result<()> {
        self.complete_all()?;
        self.inner.pause(operations)
    }

    fn now(&self) -> Time {
        self.inner.now()
    }
}

/// Runs `body` on each rank of some worlds, and checks that puts were overtaken at all.
fn late(body: impl Fn(&Late<'_>) -> rmalab_locks::Result<()> + Sync) {
    for size in [2, 3, 4] {
        let overtakings = World::threads(size)
            .run(|ra| {
                let ra = Late::new(ra);
                body(&ra).unwrap_or_else(|error| panic!("{}: {error}", ra.rank()));
                ra.complete_all().expect("puts to addresses that exist");
                ra.overtakings.get()
            })
            .expect("a world of threads");
        assert!(overtakings.iter().sum::<u64>() > 0, "no put was late");
    }
}

/// Nodes of two ranks.
const NODES: Elements = Elements::Blocks([2, 0, 0]);

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
        late(|ra| suite::rw_lock_on::<TasRw, _>(ra, Backoff::default(), 150, writers));
        late(|ra| suite::rw_lock_on::<RmaRw, _>(ra, rma_rw(1, 2, 1), 150, writers));
        late(|ra| suite::rw_lock_on::<RmaRw, _>(ra, rma_rw(2, 1, 2), 150, writers));
    }
    late(|ra| suite::readers_meet_on::<McsRwRp, _>(ra, ()));
    late(|ra| suite::readers_meet_on::<McsRwWp, _>(ra, ()));
    late(|ra| suite::readers_meet_on::<McsRwNeutral, _>(ra, ()));
}
