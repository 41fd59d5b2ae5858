//! The big-reader lock where the kernel refuses the fence of all ranks: a writer gets an error, and leaves the lock as it was.

use rmalab_atomics::fabric::{
    AsymmetricFence, Bytes, Completion, Delay, Extras, Fabric, Span, Word, WordOp, WorldView,
};
use rmalab_atomics::{Collectives, Mapped, Rank, RemoteAtomics, Request, Result, Time, Until, World};
use rmalab_locks::{BigReader, BigReaderParams, Error, Place, RawRwLock};

/// A rank with late puts, whose kernel refuses the fence.
struct Refusing<'a> {
    inner: &'a Mapped,
    view: WorldView,
}

impl<'a> Refusing<'a> {
    fn new(inner: &'a Mapped) -> Refusing<'a> {
        let mut capabilities = inner.capabilities();
        capabilities.late_puts = true;
        capabilities.asymmetric_fence = true;
        Refusing { inner, view: inner.view().clone().with_capabilities(capabilities) }
    }
}

impl AsymmetricFence for Refusing<'_> {
    fn fence_light(&self) {}

    fn fence_everywhere(&self) -> Result<bool> {
        Ok(false)
    }
}

impl Fabric for Refusing<'_> {
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
        // SAFETY: the caller's promise, passed on. The span is also a span of the inner world.
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
        let mut extras = Extras::default();
        extras.fence = Some(self);
        extras
    }
}

#[test]
fn a_writer_whose_fence_is_refused_releases() {
    let words = World::threads(3).run(|ra| {
        let ra = &Refusing::new(ra);
        let place = Place::alloc(ra, Rank(1), BigReader::WORDS, BigReader::NODE).unwrap();
        let all = Collectives::new(ra).unwrap();
        let mut lock = BigReader::bind(ra, place, BigReaderParams::default()).unwrap();
        if ra.rank() == Rank(0) {
            let error = lock.acquire_write(ra).unwrap_err();
            assert!(matches!(error, Error::Parameter { parameter: "fence", .. }), "{error}");
        }
        all.barrier().unwrap();
        let words = |from: rmalab_atomics::Disp, bytes: u64| {
            (0..bytes / 8).map(|word| ra.get(ra.rank().at(from.word(word))).unwrap()).collect::<Vec<u64>>()
        };
        let mine = [words(place.words, BigReader::WORDS), words(place.node, BigReader::NODE)].concat();
        all.barrier().unwrap();
        mine
    });
    for (rank, words) in words.unwrap().into_iter().enumerate() {
        assert!(words.iter().all(|&word| word == 0), "rank {rank}: gates closed or mutex held: {words:?}");
    }
}
