//! The wrappers forward every method of the trait, those with a default included.
//!
//! [`Probe`] is a backend that writes down which of its methods is called, and does nothing else. Each method, called on a
//! wrapper, has to reach the method of the same name, unless the table of exceptions says why not.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rmalab_atomics::exposed::{ExposedKey, Lease, Refused, UserMemory};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{
    Address, Attended, Capabilities, Counted, Disp, Error, Rank, RemoteAtomics, Request, Result, Served, Subset,
    SymmetricHeap, Time, Topology, Until,
};

/// A backend that knows nothing but which of its methods were called.
struct Probe {
    topology: Topology,
    heap: SymmetricHeap,
    words: [AtomicU64; 1],
    called: Mutex<Vec<&'static str>>,
}

impl Probe {
    fn new(size: u32) -> Probe {
        Probe {
            topology: Topology::one_node(size),
            heap: SymmetricHeap::new(1 << 20),
            words: [AtomicU64::new(0)],
            called: Mutex::default(),
        }
    }

    fn called<T>(&self, name: &'static str, answer: T) -> T {
        self.called.lock().expect("no test panics here").push(name);
        answer
    }
}

impl RemoteAtomics for Probe {
    fn rank(&self) -> Rank {
        self.called("rank", Rank(0))
    }

    fn size(&self) -> u32 {
        self.called("size", self.topology.size())
    }

    fn topology(&self) -> &Topology {
        self.called("topology", &self.topology)
    }

    fn capabilities(&self) -> Capabilities {
        self.called("capabilities", Capabilities::coherent("probe"))
    }

    fn heap(&self) -> &SymmetricHeap {
        self.called("heap", &self.heap)
    }

    fn fetch_add(&self, _at: Address, _value: u64) -> Result<u64> {
        self.called("fetch_add", Ok(0))
    }

    fn compare_and_swap(&self, _at: Address, _expected: u64, _desired: u64) -> Result<u64> {
        self.called("compare_and_swap", Ok(0))
    }

    fn fetch_store(&self, _at: Address, _value: u64) -> Result<u64> {
        self.called("fetch_store", Ok(0))
    }

    fn get(&self, _at: Address) -> Result<u64> {
        self.called("get", Ok(0))
    }

    fn put(&self, _at: Address, _value: u64) -> Result<()> {
        self.called("put", Ok(()))
    }

    unsafe fn start(&self, _at: Address, _op: WordOp, _result: *mut u64) -> Result<Request> {
        self.called("start", Ok(Request(0)))
    }

    unsafe fn put_bytes_nb(&self, _at: Address, _source: *const u8, _len: usize) -> Result<Request> {
        self.called("put_bytes_nb", Ok(Request(0)))
    }

    unsafe fn get_bytes_nb(&self, _at: Address, _dest: *mut u8, _len: usize) -> Result<Request> {
        self.called("get_bytes_nb", Ok(Request(0)))
    }

    fn test(&self, _request: &Request) -> Result<bool> {
        self.called("test", Ok(true))
    }

    fn wait(&self, _request: Request) -> Result<()> {
        self.called("wait", Ok(()))
    }

    fn flush(&self, _target: Rank) -> Result<()> {
        self.called("flush", Ok(()))
    }

    fn flush_all(&self) -> Result<()> {
        self.called("flush_all", Ok(()))
    }

    fn wait_until(&self, _own: Disp, _until: Until) -> Result<u64> {
        self.called("wait_until", Ok(0))
    }

    fn wait_until_deadline(&self, _own: Disp, _until: Until, _deadline: Time) -> Result<Option<u64>> {
        self.called("wait_until_deadline", Ok(None))
    }

    fn wait_until_from(&self, _own: Disp, _until: Until, _writer: Rank) -> Result<u64> {
        self.called("wait_until_from", Ok(0))
    }

    fn forsake(&self, _what: &'static str) {
        self.called("forsake", ());
    }

    fn forsaken(&self) -> Option<&'static str> {
        self.called("forsaken", None)
    }

    fn pause(&self, _operations: u32) -> Result<()> {
        self.called("pause", Ok(()))
    }

    fn now(&self) -> Time {
        self.called("now", Time(0))
    }

    fn compute(&self, _time: Duration) -> Result<()> {
        self.called("compute", Ok(()))
    }

    fn shared(&self) -> Option<&(dyn RemoteAtomics + Sync)> {
        self.called("shared", Some(self))
    }

    fn world_rank(&self, rank: Rank) -> Rank {
        self.called("world_rank", rank)
    }

    fn outer_world(&self) -> Option<&dyn RemoteAtomics> {
        self.called("outer_world", None)
    }

    fn shared_words(&self, _at: Address, _words: u64) -> Option<&[AtomicU64]> {
        self.called("shared_words", Some(&self.words))
    }

    fn direct_words(&self, _at: Address, _words: u64) -> Option<&[AtomicU64]> {
        self.called("direct_words", Some(&self.words))
    }

    fn stored(&self) {
        self.called("stored", ());
    }

    fn fence_light(&self) {
        self.called("fence_light", ());
    }

    fn fence_everywhere(&self) -> Result<bool> {
        self.called("fence_everywhere", Ok(true))
    }

    fn clear(&self, _own: Disp, _len: u64) -> Result<()> {
        self.called("clear", Ok(()))
    }

    fn expose(&self, memory: UserMemory) -> Result<ExposedKey, Refused> {
        let error = Error::Unsupported { what: "memory", why: "this is a probe" };
        self.called("expose", Err(Refused { error, memory }))
    }

    fn withdraw(&self, key: ExposedKey) -> Result<UserMemory> {
        self.called("withdraw", Err(Error::NotExposed { rank: Rank(0), key }))
    }

    fn lease(&self, rank: Rank, key: ExposedKey) -> Result<Box<dyn Lease + '_>> {
        self.called("lease", Err(Error::NotExposed { rank, key }))
    }

    fn post_bytes(&self, _at: Address, _source: &[u8]) -> Result<()> {
        self.called("post_bytes", Ok(()))
    }

    fn put_bytes(&self, _at: Address, _source: &[u8]) -> Result<()> {
        self.called("put_bytes", Ok(()))
    }

    fn get_bytes(&self, _at: Address, _dest: &mut [u8]) -> Result<()> {
        self.called("get_bytes", Ok(()))
    }
}

/// A method's name, and a call of it.
type Method = (&'static str, fn(&dyn RemoteAtomics));

const AT: Address = Rank(0).at(Disp(0));

/// Every method of the trait.
const METHODS: &[Method] = &[
    ("rank", |ra| _ = ra.rank()),
    ("size", |ra| _ = ra.size()),
    ("topology", |ra| _ = ra.topology()),
    ("capabilities", |ra| _ = ra.capabilities()),
    ("heap", |ra| _ = ra.heap()),
    ("fetch_add", |ra| _ = ra.fetch_add(AT, 1)),
    ("compare_and_swap", |ra| _ = ra.compare_and_swap(AT, 0, 1)),
    ("fetch_store", |ra| _ = ra.fetch_store(AT, 1)),
    ("get", |ra| _ = ra.get(AT)),
    ("put", |ra| _ = ra.put(AT, 1)),
    // SAFETY: the probe never touches what it is given.
    ("start", |ra| _ = unsafe { ra.start(AT, WordOp::Get, &mut 0) }),
    // SAFETY: as above.
    ("put_bytes_nb", |ra| _ = unsafe { ra.put_bytes_nb(AT, [0; 8].as_ptr(), 8) }),
    // SAFETY: as above.
    ("get_bytes_nb", |ra| _ = unsafe { ra.get_bytes_nb(AT, [0; 8].as_mut_ptr(), 8) }),
    ("test", |ra| _ = ra.test(&Request(0))),
    ("wait", |ra| _ = ra.wait(Request(0))),
    ("flush", |ra| _ = ra.flush(Rank(0))),
    ("flush_all", |ra| _ = ra.flush_all()),
    ("wait_until", |ra| _ = ra.wait_until(Disp(0), Until::Eq(0))),
    ("wait_until_deadline", |ra| _ = ra.wait_until_deadline(Disp(0), Until::Eq(0), Time(0))),
    ("wait_until_from", |ra| _ = ra.wait_until_from(Disp(0), Until::Eq(0), Rank(0))),
    ("forsake", |ra| ra.forsake("a call")),
    ("forsaken", |ra| _ = ra.forsaken()),
    ("pause", |ra| _ = ra.pause(1)),
    ("now", |ra| _ = ra.now()),
    ("compute", |ra| _ = ra.compute(Duration::ZERO)),
    ("shared", |ra| _ = ra.shared()),
    ("world_rank", |ra| _ = ra.world_rank(Rank(0))),
    ("outer_world", |ra| _ = ra.outer_world()),
    ("shared_words", |ra| _ = ra.shared_words(AT, 1)),
    ("direct_words", |ra| _ = ra.direct_words(AT, 1)),
    ("stored", |ra| ra.stored()),
    ("fence_light", |ra| ra.fence_light()),
    ("fence_everywhere", |ra| _ = ra.fence_everywhere()),
    ("clear", |ra| _ = ra.clear(Disp(0), 8)),
    ("expose", |ra| _ = ra.expose(UserMemory::from_vec(vec![0_u64]))),
    ("withdraw", |ra| _ = ra.withdraw(ExposedKey(1))),
    ("lease", |ra| _ = ra.lease(Rank(0), ExposedKey(1))),
    ("post_bytes", |ra| _ = ra.post_bytes(AT, &[0; 8])),
    ("put_bytes", |ra| _ = ra.put_bytes(AT, &[0; 8])),
    ("get_bytes", |ra| _ = ra.get_bytes(AT, &mut [0; 8])),
];

#[test]
fn the_table_has_every_method_of_the_trait() {
    let source = include_str!("../src/remote.rs");
    let (_, body) = source.split_once("pub trait RemoteAtomics: WholeWorld {").expect("the trait");
    let methods: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("    fn ").or_else(|| line.strip_prefix("    unsafe fn ")))
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
        .collect();
    assert_eq!(methods, METHODS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

/// The methods that, called on `wrapper`, do not reach the same method of `probe`.
fn kept(wrapper: &dyn RemoteAtomics, probe: &Probe) -> Vec<&'static str> {
    let reaches = |&&(name, call): &&Method| {
        probe.called.lock().expect("no test panics here").clear();
        call(wrapper);
        probe.called.lock().expect("no test panics here").contains(&name)
    };
    METHODS.iter().filter(|method| !reaches(method)).map(|(name, _)| *name).collect()
}

/// What a subset answers by itself: who its ranks are, where its memory is, and the handle for threads, which it has made
/// when it was made.
const OF_SUBSETS: &[&str] = &["rank", "size", "topology", "heap", "shared"];

#[test]
fn a_subset_forwards_all_but_who_and_where_its_ranks_are() {
    let probe = Probe::new(3);
    let lists: [&[u32]; 3] = [&[0, 1, 2], &[0, 2], &[2, 0]];
    for list in lists {
        let members: Vec<Rank> = list.iter().copied().map(Rank).collect();
        let subset = Subset::of(&probe, &members).expect("room").expect("rank 0 is a member");
        assert_eq!(kept(&subset, &probe), OF_SUBSETS, "{list:?}");
        let inner = Subset::of(&subset, &[Rank(0), Rank(1)]).expect("room").expect("a member");
        assert_eq!(kept(&inner, &probe), OF_SUBSETS, "a subset of {list:?}");
    }
}

#[test]
fn the_threads_of_a_rank_share_a_subset_by_its_own_numbers() {
    let probe = Probe::new(4);
    let subset = Subset::of(&probe, &[Rank(3), Rank(0)]).expect("room").expect("rank 0 is a member");
    let shared = subset.shared().expect("the parent can be shared");
    assert_eq!((shared.rank(), shared.size(), shared.world_rank(Rank(0))), (Rank(1), 2, Rank(3)));
    assert_eq!(shared.topology(), subset.topology());
    assert_eq!(kept(shared, &probe), OF_SUBSETS);
    // There is one heap, whichever handle allocates.
    let first = subset.heap().alloc(8, 8).expect("room");
    assert_eq!(shared.heap().alloc(8, 8).expect("room"), first.plus(8));
}

#[test]
fn a_counted_rank_forwards_all_but_what_could_not_be_counted() {
    let probe = Probe::new(3);
    let counted = Counted::new(&probe);
    assert_eq!(kept(&counted, &probe), ["shared", "direct_words"]);
    assert!(counted.shared().is_none(), "its counters belong to one thread");
    assert!(counted.direct_words(AT, 1).is_none(), "loads and stores are not counted");
}

#[test]
fn an_attended_rank_forwards_all_but_the_handle_of_its_threads() {
    let probe = Probe::new(3);
    let attended = Attended::new(&probe, || Ok(Served::Never));
    assert_eq!(kept(&attended, &probe), ["shared"]);
    assert!(attended.shared().is_none(), "what it calls belongs to one thread");
}

#[test]
fn a_counted_rank_counts_bytes_that_are_posted() {
    let probe = Probe::new(3);
    let counted = Counted::new(&probe);
    counted.post_bytes(AT, &[0; 24]).expect("a put");
    let counts = counted.counts();
    assert_eq!((counts.put_bytes.own, counts.bytes.own, counts.flush.own), (1, 24, 0));
}
