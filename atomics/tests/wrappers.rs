//! The wrappers pass on the calls that they do not change.
//!
//! [`Probe`] is a backend that only records the calls that reach it. A call on a wrapper has to reach the probe like a call
//! on the probe itself, unless the test gives a reason for the difference.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rmalab_atomics::fabric::{
    AsymmetricFence, Bytes, Completion, Delay, Extras, Fabric, Failures, Leaving, LocalMemory, OuterWorld,
    Registration, Span, Word, WordOp, WorldView,
};
use rmalab_atomics::registered::{Pinned, Refused, RegisteredKey, UserMemory};
use rmalab_atomics::words::LocalWords;
use rmalab_atomics::{
    Address, Attended, Capabilities, Counted, Crashing, Disp, Error, Failed, Rank, RemoteAtomics, Request, Result,
    Served, Subset, SymmetricHeap, Time, Topology, Until, Unwound,
};

/// A backend that only records calls.
struct Probe {
    view: WorldView,
    words: [AtomicU64; 1],
    reached: Mutex<Vec<String>>,
}

impl Probe {
    fn new(size: u32) -> Probe {
        let heap = SymmetricHeap::new(1 << 20);
        let view = WorldView::new(Rank(0), 1 << 20, Capabilities::coherent("probe"), Topology::one_node(size), heap);
        Probe { view: view.expect("a rank of the world"), words: [AtomicU64::new(0)], reached: Mutex::default() }
    }

    fn note<T>(&self, call: String, answer: T) -> T {
        self.reached.lock().expect("no test panics here").push(call);
        answer
    }
}

impl Fabric for Probe {
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        self.note(format!("word {at:?} {op:?}"), Ok(0))
    }

    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        self.note(format!("start_word {at:?} {op:?} {}", result.is_null()), Ok(Request(7)))
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        let kind = match bytes {
            Bytes::Put(_) => "put",
            Bytes::Get(_) => "get",
            Bytes::Clear => "clear",
        };
        self.note(format!("transfer {at:?} {kind} {until:?}"), Ok(Request(8)))
    }

    fn done(&self, request: &Request) -> Result<bool> {
        self.note(format!("done {request:?}"), Ok(true))
    }

    fn finish(&self, request: Request) -> Result<()> {
        self.note(format!("finish {request:?}"), Ok(()))
    }

    fn complete(&self, target: Option<Rank>) -> Result<()> {
        self.note(format!("complete {target:?}"), Ok(()))
    }

    fn keep_order(&self, target: Rank) -> Result<()> {
        self.note(format!("keep_order {target:?}"), Ok(()))
    }

    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.note(format!("wait_on {own:?} {until:?} {deadline:?}"), Ok(Some(0)))
    }

    fn delay(&self, delay: Delay) -> Result<()> {
        self.note(format!("delay {delay:?}"), Ok(()))
    }

    fn clock(&self) -> Time {
        self.note("clock".to_owned(), Time(0))
    }

    fn extras(&self) -> Extras<'_> {
        let mut extras = Extras::default();
        extras.shared = Some(self);
        extras.memory = Some(self);
        extras.fence = Some(self);
        extras.registration = Some(self);
        extras.leaving = Some(self);
        extras.failures = Some(self);
        extras.outer = Some(self);
        extras
    }
}

impl LocalMemory for Probe {
    fn shared_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.note(format!("shared_words {at:?} {words}"), Some(&self.words))
    }

    fn direct_words(&self, at: Address, words: u64) -> Option<&[AtomicU64]> {
        self.note(format!("direct_words {at:?} {words}"), Some(&self.words))
    }

    fn own_words(&self, at: Disp, words: u64) -> Option<&[AtomicU64]> {
        self.note(format!("own_words {at:?} {words}"), Some(&self.words))
    }

    fn local_words(&self, at: Address, words: u64) -> Option<LocalWords<'_>> {
        self.note(format!("local_words {at:?} {words}"), Some(LocalWords::of(&self.words)))
    }

    fn stored(&self) {
        self.note("stored".to_owned(), ());
    }
}

impl AsymmetricFence for Probe {
    fn fence_light(&self) {
        self.note("fence_light".to_owned(), ());
    }

    fn fence_everywhere(&self) -> Result<bool> {
        self.note("fence_everywhere".to_owned(), Ok(true))
    }
}

impl Registration for Probe {
    fn register(&self, memory: UserMemory) -> Result<RegisteredKey, Refused> {
        let error = Error::Unsupported { what: "memory", why: "this is a probe" };
        self.note(format!("register {}", memory.len()), Err(Refused { error, memory }))
    }

    fn deregister(&self, key: RegisteredKey) -> Result<UserMemory> {
        self.note(format!("deregister {key}"), Err(Error::NotRegistered { rank: Rank(0), key }))
    }

    fn pin(&self, rank: Rank, key: RegisteredKey) -> Result<Box<dyn Pinned + '_>> {
        self.note(format!("pin {rank} {key}"), Err(Error::NotRegistered { rank, key }))
    }
}

impl Leaving for Probe {
    fn wait_on_writer(&self, own: Word, until: Until, writer: Rank) -> Result<u64> {
        self.note(format!("wait_on_writer {own:?} {until:?} {writer}"), Ok(0))
    }

    fn forsake(&self, what: &'static str) {
        self.note(format!("forsake {what}"), ());
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.note("forsaken".to_owned(), None)
    }
}

impl Failures for Probe {
    fn failed(&self) -> Result<Failed> {
        self.note("failed".to_owned(), Ok(Failed::from_iter([Rank(0)])))
    }

    fn acknowledge(&self, failed: &Failed) -> Result<()> {
        self.note(format!("acknowledge {failed}"), Ok(()))
    }

    fn silence(&self, failed: &Failed) -> Result<()> {
        self.note(format!("silence {failed}"), Ok(()))
    }

    fn expel(&self, rank: Rank) -> Result<()> {
        self.note(format!("expel {rank}"), Ok(()))
    }

    fn generation(&self) -> u32 {
        self.note("generation".to_owned(), 3)
    }

    fn enter(&self, generation: u32) {
        self.note(format!("enter {generation}"), ());
    }

    fn revoke(&self, generation: u32) -> Result<()> {
        self.note(format!("revoke {generation}"), Ok(()))
    }
}

impl OuterWorld for Probe {
    fn number_of(&self, rank: Rank) -> Rank {
        self.note(format!("world_rank {rank}"), rank)
    }

    fn handle(&self) -> &dyn RemoteAtomics {
        self.note("outer_world".to_owned(), self)
    }
}

/// A method's name, and a call of it with a rank.
type Method = (&'static str, fn(&dyn RemoteAtomics, Rank));

const AT: Disp = Disp(8);

/// Every method of the trait that makes a call of the backend.
const METHODS: &[Method] = &[
    ("fetch_add", |ra, rank| _ = ra.fetch_add(rank.at(AT), 1)),
    ("compare_and_swap", |ra, rank| _ = ra.compare_and_swap(rank.at(AT), 2, 3)),
    ("fetch_store", |ra, rank| _ = ra.fetch_store(rank.at(AT), 4)),
    ("get", |ra, rank| _ = ra.get(rank.at(AT))),
    ("put", |ra, rank| _ = ra.put(rank.at(AT), 5)),
    // SAFETY: the probe never accesses its arguments.
    ("start", |ra, rank| _ = unsafe { ra.start(rank.at(AT), WordOp::FetchStore(6), &mut 0) }),
    // SAFETY: as above.
    ("put_bytes_nb", |ra, rank| _ = unsafe { ra.put_bytes_nb(rank.at(AT), [0; 9].as_ptr(), 9) }),
    // SAFETY: as above.
    ("get_bytes_nb", |ra, rank| _ = unsafe { ra.get_bytes_nb(rank.at(AT), [0; 9].as_mut_ptr(), 9) }),
    ("test", |ra, _| _ = ra.test(&Request(7))),
    ("wait", |ra, _| _ = ra.wait(Request(8))),
    ("flush", |ra, rank| _ = ra.flush(rank)),
    ("flush_all", |ra, _| _ = ra.flush_all()),
    ("order", |ra, rank| _ = ra.order(rank)),
    ("wait_until", |ra, _| _ = ra.wait_until(AT, Until::Eq(0))),
    ("wait_until_deadline", |ra, _| _ = ra.wait_until_deadline(AT, Until::Eq(0), Time(0))),
    ("wait_until_from", |ra, rank| _ = ra.wait_until_from(AT, Until::Eq(0), rank)),
    ("forsake", |ra, _| ra.forsake("a call")),
    ("forsaken", |ra, _| _ = ra.forsaken()),
    ("pause", |ra, _| _ = ra.pause(1)),
    ("now", |ra, _| _ = ra.now()),
    ("compute", |ra, _| _ = ra.compute(Duration::ZERO)),
    ("failed", |ra, _| _ = ra.failed()),
    ("acknowledge", |ra, rank| _ = ra.acknowledge(&Failed::from_iter([rank]))),
    ("silence", |ra, rank| _ = ra.silence(&Failed::from_iter([rank]))),
    ("world_rank", |ra, rank| _ = ra.world_rank(rank)),
    ("outer_world", |ra, _| _ = ra.outer_world()),
    ("shared_words", |ra, rank| _ = ra.shared_words(rank.at(AT), 1)),
    ("direct_words", |ra, rank| _ = ra.direct_words(rank.at(AT), 1)),
    ("own_words", |ra, _| _ = ra.own_words(AT, 1)),
    ("local_words", |ra, rank| _ = ra.local_words(rank.at(AT), 1)),
    ("stored", |ra, _| ra.stored()),
    ("fence_light", |ra, _| ra.fence_light()),
    ("fence_everywhere", |ra, _| _ = ra.fence_everywhere()),
    ("clear", |ra, _| _ = ra.clear(AT, 8)),
    ("register", |ra, _| _ = ra.register(UserMemory::from_vec(vec![0_u64]))),
    ("deregister", |ra, _| _ = ra.deregister(RegisteredKey(1))),
    ("pin", |ra, rank| _ = ra.pin(rank, RegisteredKey(1))),
    ("post_bytes", |ra, rank| _ = ra.post_bytes(rank.at(AT), &[0; 9])),
    ("put_bytes", |ra, rank| _ = ra.put_bytes(rank.at(AT), &[0; 9])),
    ("get_bytes", |ra, rank| _ = ra.get_bytes(rank.at(AT), &mut [0; 9])),
];

/// Returns the calls that reach the probe for a call of `method` on `ra` with `rank`.
fn reached(probe: &Probe, ra: &dyn RemoteAtomics, method: &Method, rank: Rank) -> Vec<String> {
    probe.reached.lock().expect("no test panics here").clear();
    (method.1)(ra, rank);
    std::mem::take(&mut probe.reached.lock().expect("no test panics here"))
}

/// Returns the methods that `wrapper` changes. For these, a call on `wrapper` with one of its ranks reaches `probe`
/// differently from the same call on the probe with that rank's number by `outer`.
fn changed(wrapper: &dyn RemoteAtomics, probe: &Probe, outer: impl Fn(Rank) -> Rank) -> Vec<&'static str> {
    let ranks = (0..wrapper.size()).map(Rank);
    let differs = |method: &&Method| {
        ranks.clone().any(|rank| {
            let direct = reached(probe, probe, method, outer(rank));
            assert!(!direct.is_empty(), "{} reaches the probe", method.0);
            reached(probe, wrapper, method, rank) != direct
        })
    };
    METHODS.iter().filter(differs).map(|(name, _)| *name).collect()
}

/// Returns the extras that `ra` does not have.
fn missing(ra: &dyn RemoteAtomics) -> Vec<String> {
    let extras = format!("{:?}", ra.extras());
    let fields = extras.trim_start_matches("Extras { ").trim_end_matches(" }").split(", ");
    fields.filter_map(|field| field.strip_suffix(": false")).map(str::to_owned).collect()
}

#[test]
fn the_probe_has_all_extras() {
    assert_eq!(missing(&Probe::new(1)), [""; 0]);
}

#[test]
fn a_subset_passes_on_all_calls_with_the_ranks_of_its_parent() {
    let probe = Probe::new(3);
    let lists: [&[u32]; 3] = [&[0, 1, 2], &[0, 2], &[2, 0]];
    for list in lists {
        let members: Vec<Rank> = list.iter().copied().map(Rank).collect();
        let subset = Subset::of(&probe, &members).expect("room").expect("rank 0 is a member");
        assert_eq!(changed(&subset, &probe, |rank| members[rank.index()]), [""; 0], "{list:?}");
        assert_eq!(missing(&subset), [""; 0]);
        let inner = Subset::of(&subset, &[Rank(1), Rank(0)]).expect("room").expect("a member");
        let outer = |rank: Rank| members[1 - rank.index()];
        assert_eq!(changed(&inner, &probe, outer), [""; 0], "a subset of {list:?}");
    }
}

#[test]
fn the_threads_of_a_rank_share_a_subset_by_its_own_numbers() {
    let probe = Probe::new(4);
    let members = [Rank(3), Rank(0)];
    let subset = Subset::of(&probe, &members).expect("room").expect("rank 0 is a member");
    let shared = subset.shared().expect("the parent can be shared");
    assert_eq!((shared.rank(), shared.size(), shared.world_rank(Rank(0))), (Rank(1), 2, Rank(3)));
    assert_eq!(shared.topology(), subset.topology());
    assert_eq!(changed(shared, &probe, |rank| members[rank.index()]), [""; 0]);
    assert_eq!(missing(shared), ["shared"]);
    // There is one heap for all handles.
    let first = subset.heap().alloc(8, 8).expect("room");
    assert_eq!(shared.heap().alloc(8, 8).expect("room"), first.plus(8));
}

#[test]
fn a_counted_rank_passes_on_all_calls_that_can_be_counted() {
    let probe = Probe::new(3);
    let counted = Counted::new(&probe);
    assert_eq!(changed(&counted, &probe, |rank| rank), ["direct_words", "own_words", "local_words"]);
    assert!(RemoteAtomics::own_words(&counted, AT, 1).is_none(), "loads and stores are not counted");
    assert!(RemoteAtomics::direct_words(&counted, Rank(0).at(AT), 1).is_none(), "loads and stores are not counted");
    assert_eq!(missing(&counted), ["shared"], "its counters belong to one thread");
}

#[test]
fn an_attended_rank_passes_on_all_calls() {
    let probe = Probe::new(3);
    let attended = Attended::new(&probe, || Ok(Served::Never));
    assert_eq!(changed(&attended, &probe, |rank| rank), [""; 0]);
    assert_eq!(missing(&attended), ["shared"], "the function belongs to one thread");
}

#[test]
fn a_rank_that_is_to_be_killed_later_passes_on_all_calls_that_can_be_numbered() {
    let probe = Probe::new(3);
    let crashing = Crashing::new(&probe, None);
    let local = ["shared_words", "direct_words", "own_words", "local_words", "stored"];
    assert_eq!(changed(&crashing, &probe, |rank| rank), local);
    assert_eq!(missing(&crashing), ["shared", "memory"], "loads and stores could not be numbered");
}

#[test]
fn a_rank_is_unwound_once_ahead_of_the_operation_of_that_number() {
    let probe = Probe::new(3);
    let crashing = Crashing::new(&probe, None);
    let put = |value| crashing.put(Rank(0).at(AT), value).expect("a put");
    crashing.arm_unwind(2);
    let unwound = catch_unwind(AssertUnwindSafe(|| [1, 2].map(put))).expect_err("the second put is not made");
    assert!(unwound.is::<Unwound>());
    put(3);
    let reached = probe.reached.lock().expect("no test panics there").clone();
    assert!(matches!(&*reached, [one, two] if one.ends_with("Put(1)") && two.ends_with("Put(3)")), "{reached:?}");
}

#[test]
fn a_counted_rank_counts_bytes_that_are_posted() {
    let probe = Probe::new(3);
    let counted = Counted::new(&probe);
    counted.post_bytes(Rank(0).at(AT), &[0; 24]).expect("a put");
    let counts = counted.counts();
    assert_eq!((counts.put_bytes.own, counts.bytes.own, counts.flush.own), (1, 24, 0));
}
