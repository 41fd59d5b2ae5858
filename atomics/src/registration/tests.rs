//! The cache and the bounce buffer against a fake adapter, and the cache against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// An adapter that knows what is registered, and that may lock so many bytes.
#[derive(Clone)]
struct Fake(Rc<RefCell<Adapter>>);

struct Adapter {
    /// Registered regions, by their keys.
    live: BTreeMap<u64, Span>,
    registered: u64,
    refused: u64,
    may_lock: usize,
}

impl Adapter {
    fn locked(&self) -> usize {
        self.live.values().map(|span| span.len()).sum()
    }
}

/// A registration: its key, valid while the adapter has it.
struct Region {
    key: u64,
    adapter: Fake,
}

impl Drop for Region {
    fn drop(&mut self) {
        let was = self.adapter.0.borrow_mut().live.remove(&self.key);
        assert!(was.is_some(), "region {} is deregistered twice", self.key);
    }
}

impl Fake {
    fn new(may_lock: usize) -> Fake {
        Fake(Rc::new(RefCell::new(Adapter { live: BTreeMap::new(), registered: 0, refused: 0, may_lock })))
    }

    /// What the adapter does with a region: it accesses `len` bytes at `start`.
    fn access(&self, region: &Region, start: usize, len: usize) {
        let span = self.0.borrow().live.get(&region.key).copied();
        let span = span.unwrap_or_else(|| panic!("access to region {}, which is not registered", region.key));
        assert!(span.start <= start && start + len <= span.end, "{len} bytes at {start:#x} are not in {span:x?}");
    }

    fn spans(&self) -> Vec<(usize, usize)> {
        let mut spans: Vec<_> = self.0.borrow().live.values().map(|span| (span.start, span.end)).collect();
        spans.sort_unstable();
        spans
    }
}

impl Registrar for Fake {
    type Region = Region;

    fn register(&self, start: *const u8, len: usize) -> Result<Region> {
        let mut adapter = self.0.borrow_mut();
        if adapter.locked() + len > adapter.may_lock {
            adapter.refused += 1;
            return Err(Error::system("registering", ErrorKind::OutOfMemory));
        }
        let key = adapter.registered;
        adapter.registered += 1;
        adapter.live.insert(key, Span { start: start.addr(), end: start.addr() + len });
        drop(adapter);
        Ok(Region { key, adapter: self.clone() })
    }
}

const PLENTY: Limits = Limits { bytes: usize::MAX, regions: usize::MAX };

fn page() -> usize {
    rustix::param::page_size()
}

/// An address, which nobody accesses.
fn at(address: usize) -> *const u8 {
    std::ptr::without_provenance(address)
}

#[test]
fn whole_pages_are_registered_once() {
    let fake = Fake::new(usize::MAX);
    let cache = PinDownCache::new(fake.clone(), PLENTY);
    let first = cache.pin(at(5 * page() + 17), page()).unwrap();
    fake.access(first.region(), 5 * page(), 2 * page());
    for (start, len) in [(5 * page(), 1), (6 * page(), page()), (5 * page(), 2 * page()), (7 * page() - 1, 1)] {
        fake.access(cache.pin(at(start), len).unwrap().region(), start, len);
    }
    assert_eq!(fake.spans(), [(5 * page(), 7 * page())]);
    let seen = cache.statistics();
    assert_eq!((seen.hits, seen.misses, seen.bytes, seen.regions), (4, 1, 2 * page(), 1));
    drop(cache);
    fake.access(first.region(), 5 * page(), 1);
    drop(first);
    assert_eq!(fake.spans(), []);
}

#[test]
fn overlapping_regions_stay_and_contained_ones_are_replaced() {
    let fake = Fake::new(usize::MAX);
    let cache = PinDownCache::new(fake.clone(), PLENTY);
    let pin = |first: usize, pages: usize| cache.pin(at(first * page()), pages * page()).unwrap();
    drop(pin(0, 2));
    drop(pin(1, 2));
    drop(pin(0, 2));
    drop(pin(1, 2));
    assert_eq!((cache.statistics().hits, cache.statistics().regions), (2, 2), "no thrashing");
    let used = pin(1, 1);
    drop(pin(0, 3));
    assert_eq!(fake.spans(), [(0, 3 * page()), (page(), 3 * page())], "the one in use is not gone yet");
    drop(pin(1, 2));
    fake.access(used.region(), page(), page());
    drop(used);
    assert_eq!(fake.spans(), [(0, 3 * page())]);
    assert_eq!((cache.statistics().retired, cache.statistics().evictions), (2, 0));
}

#[test]
fn what_was_freed_is_registered_anew() {
    let fake = Fake::new(usize::MAX);
    let cache = PinDownCache::new(fake.clone(), PLENTY);
    drop(cache.pin(at(0), 4 * page()).unwrap());
    let used = cache.pin(at(8 * page()), 4 * page()).unwrap();
    cache.invalidate(at(4 * page()), 4 * page());
    assert_eq!(cache.statistics().retired, 0, "beside both");
    cache.invalidate(at(4 * page() - 1), 4 * page() + 2);
    assert_eq!(fake.spans(), [(8 * page(), 12 * page())]);
    let again = cache.pin(at(8 * page()), 4 * page()).unwrap();
    assert_ne!(again.region().key, used.region().key);
    fake.access(used.region(), 8 * page(), 4 * page());
    drop(used);
    fake.access(again.region(), 8 * page(), 4 * page());
    cache.invalidate(at(0), 0);
    cache.invalidate(at(usize::MAX), 2);
    assert_eq!((cache.statistics().retired, cache.statistics().regions), (2, 1));
}

#[test]
fn a_refused_registration_evicts_and_then_says_what_is_in_the_way() {
    let fake = Fake::new(4 * page());
    let cache = PinDownCache::new(fake.clone(), PLENTY);
    for first in 0..4 {
        drop(cache.pin(at(first * page()), page()).unwrap());
    }
    let used = cache.pin(at(2 * page()), page()).unwrap();
    let large = cache.pin(at(16 * page()), 3 * page()).unwrap();
    assert_eq!(fake.spans(), [(2 * page(), 3 * page()), (16 * page(), 19 * page())]);
    assert_eq!((cache.statistics().evictions, fake.0.borrow().refused), (3, 1));
    let error = cache.pin(at(32 * page()), 1).unwrap_err();
    let said = error.to_string();
    for part in [format!("{} bytes in 2 regions", 4 * page()), format!("{:#x}", 32 * page()), "ulimit -l".into()] {
        assert!(said.contains(&part), "{said}");
    }
    assert_eq!(cache.statistics().regions, 2);
    drop((used, large));
    cache.pin(at(32 * page()), 1).unwrap();
}

#[test]
fn no_bytes_and_bytes_beyond_the_address_space_are_errors() {
    let fake = Fake::new(usize::MAX);
    let cache = PinDownCache::new(fake.clone(), PLENTY);
    for (start, len) in [(page(), 0), (usize::MAX, 1), (usize::MAX, 2), (page(), usize::MAX)] {
        assert!(matches!(cache.pin(at(start), len), Err(Error::System { .. })), "{len} at {start:#x}");
    }
    assert_eq!(fake.0.borrow().registered, 0);
}

#[test]
fn slots_are_disjoint_registered_and_reused() {
    let fake = Fake::new(usize::MAX);
    let pool = BouncePool::new(&fake, 3, 100).unwrap();
    let slots: Vec<_> = std::iter::from_fn(|| pool.acquire()).collect();
    assert_eq!((slots.len(), pool.free()), (3, 0));
    for (i, slot) in (0..).zip(&slots) {
        slot.copy_in(&[i; 100]).unwrap();
        fake.access(slot.region(), slot.start().addr(), 100);
    }
    for (i, slot) in (0..).zip(&slots) {
        let mut seen = [0xff; 100];
        slot.copy_out(&mut seen).unwrap();
        assert_eq!(seen, [i; 100]);
        slot.copy_in(&[0; 101]).unwrap_err();
        slot.copy_out(&mut [0; 101]).unwrap_err();
    }
    drop(slots);
    assert_eq!(pool.free(), 3);
    let last = pool.acquire().unwrap();
    drop(pool);
    fake.access(last.region(), last.start().addr(), 100);
    drop(last);
    assert_eq!(fake.spans(), []);
    for (slots, bytes) in [(0, 8), (8, 0), (usize::MAX, 2), (1, usize::MAX), (1, isize::MAX as usize)] {
        assert!(matches!(BouncePool::new(&fake, slots, bytes), Err(Error::System { .. })), "{slots} × {bytes}");
    }
}

#[test]
fn short_bytes_are_copied_and_long_ones_pinned() {
    let fake = Fake::new(usize::MAX);
    let staging = Staging::new(fake.clone(), 2, 64, PLENTY).unwrap();
    let bytes: Vec<u8> = (0..200).collect();
    let stage = |len: usize| {
        let source = staging.stage(&bytes[..len]).unwrap();
        if let Some(source) = &source {
            fake.access(source.region(), source.start().addr(), len);
        }
        source
    };
    let short = stage(64).unwrap();
    let Source::Bounce(slot) = &short else { panic!("{short:?}") };
    let mut seen = [0; 64];
    slot.copy_out(&mut seen).unwrap();
    assert_eq!(seen, bytes[..64]);
    let nothing = stage(0).unwrap();
    assert!(stage(1).is_none(), "all slots are in use");
    let long = stage(65).unwrap();
    assert!(matches!(long, Source::Pinned(_, start) if start == bytes.as_ptr()));
    drop((short, nothing));
    assert!(stage(1).is_some());
    drop((staging, long));
    assert_eq!(fake.spans(), []);
}

/// A step of a program, in pages.
#[derive(Clone, Debug)]
enum Step {
    Pin {
        first: usize,
        pages: usize,
    },
    /// Ends one of the uses.
    Release(prop::sample::Index),
    Invalidate {
        first: usize,
        pages: usize,
    },
    /// The kernel's limit changes.
    MayLock(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (1..16usize, 1..5usize);
    let step = prop_oneof![
        8 => range().prop_map(|(first, pages)| Step::Pin { first, pages }),
        6 => any::<prop::sample::Index>().prop_map(Step::Release),
        1 => range().prop_map(|(first, pages)| Step::Invalidate { first, pages }),
        1 => (4..40usize).prop_map(Step::MayLock),
    ];
    prop::collection::vec(step, 1..80)
}

/// What the cache should be: a list of regions, gone through from end to end. Spans are in pages.
#[derive(Default)]
struct Model {
    regions: Vec<ModelRegion>,
    clock: u64,
    statistics: Statistics,
}

#[derive(Clone, Copy)]
struct ModelRegion {
    key: u64,
    start: usize,
    end: usize,
    users: usize,
    used: u64,
    found: bool,
}

impl Model {
    fn pages(&self) -> usize {
        self.regions.iter().map(|region| region.end - region.start).sum()
    }

    fn sweep(&mut self) {
        self.regions.retain(|region| region.found || region.users > 0);
    }

    fn evict(&mut self) -> Option<usize> {
        let idle = self.regions.iter().filter(|region| region.found && region.users == 0);
        let victim = *idle.min_by_key(|region| region.used)?;
        self.regions.retain(|region| region.key != victim.key);
        self.statistics.evictions += 1;
        Some(victim.end - victim.start)
    }

    fn shrink(&mut self, (pages, regions): (usize, usize), more: (usize, usize)) {
        while self.pages() + more.0 > pages || self.regions.len() + more.1 > regions {
            if self.evict().is_none() {
                break;
            }
        }
    }

    fn retire(&mut self, leaves: impl Fn(&ModelRegion) -> bool) {
        for region in self.regions.iter_mut().filter(|region| region.found && leaves(region)) {
            region.found = false;
            self.statistics.retired += 1;
        }
        self.sweep();
    }

    /// The key of the region that a pin ends up with, or `None` if it must fail.
    fn pin(&mut self, start: usize, end: usize, limits: (usize, usize), may_lock: usize, key: u64) -> Option<u64> {
        self.clock += 1;
        let clock = self.clock;
        let covers = |region: &&mut ModelRegion| region.found && region.start <= start && end <= region.end;
        if let Some(region) = self.regions.iter_mut().filter(covers).max_by_key(|region| region.start) {
            (region.users, region.used) = (region.users + 1, clock);
            self.statistics.hits += 1;
            return Some(region.key);
        }
        self.statistics.misses += 1;
        self.retire(|region| start <= region.start && region.end <= end);
        self.shrink(limits, (end - start, 1));
        while self.pages() + end - start > may_lock {
            let mut freed = 0;
            while freed < end - start
                && let Some(pages) = self.evict()
            {
                freed += pages;
            }
            if freed == 0 {
                return None;
            }
        }
        self.regions.push(ModelRegion { key, start, end, users: 1, used: clock, found: true });
        Some(key)
    }

    fn release(&mut self, key: u64, limits: (usize, usize)) {
        let region = self.regions.iter_mut().find(|region| region.key == key).expect("it is in use");
        region.users -= 1;
        let idle = region.found && region.users == 0;
        self.sweep();
        if idle {
            self.shrink(limits, (0, 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_cache_agrees_with_a_model(steps in steps(), limits in (1..24usize, 1..8usize)) {
        let fake = Fake::new(40 * page());
        let cache = PinDownCache::new(fake.clone(), Limits { bytes: limits.0 * page(), regions: limits.1 });
        let mut model = Model::default();
        let mut uses = Vec::new();
        for step in steps {
            match step {
                Step::Pin { first, pages } => {
                    let (key, may_lock) = (fake.0.borrow().registered, fake.0.borrow().may_lock / page());
                    let expected = model.pin(first, first + pages, limits, may_lock, key);
                    // Not all of the first and the last page.
                    let (start, len) = (first * page() + 3, pages * page() - 5);
                    let pinned = cache.pin(at(start), len);
                    prop_assert_eq!(pinned.as_ref().ok().map(|pinned| pinned.region().key), expected);
                    uses.extend(pinned.ok().map(|pinned| (pinned, start, len)));
                }
                Step::Release(which) => {
                    if !uses.is_empty() {
                        let (pinned, ..) = uses.swap_remove(which.index(uses.len()));
                        model.release(pinned.region().key, limits);
                    }
                }
                Step::Invalidate { first, pages } => {
                    cache.invalidate(at(first * page() + 1), pages * page() - 2);
                    model.retire(|region| region.start < first + pages && first < region.end);
                }
                Step::MayLock(pages) => fake.0.borrow_mut().may_lock = pages * page(),
            }
            for (pinned, start, len) in &uses {
                fake.access(pinned.region(), *start, *len);
            }
            let keys: Vec<u64> = fake.0.borrow().live.keys().copied().collect();
            let mut expected: Vec<u64> = model.regions.iter().map(|region| region.key).collect();
            expected.sort_unstable();
            prop_assert_eq!(keys, expected);
            let seen = cache.statistics();
            let (bytes, regions) = (model.pages() * page(), model.regions.len());
            prop_assert_eq!(seen, Statistics { bytes, regions, ..model.statistics });
            let over = bytes > limits.0 * page() || regions > limits.1;
            prop_assert!(!over || model.regions.iter().all(|region| region.users > 0), "idle beyond the limits");
        }
        // Whichever goes first: each region is deregistered once (its drop looks), and none is left.
        if uses.len() % 2 == 0 {
            drop(cache);
            drop(uses);
        } else {
            drop(uses);
            drop(cache);
        }
        prop_assert!(fake.0.borrow().live.is_empty());
    }
}
