//! Invalid parameters, and worlds with more ranks than a lock's words can count, give one clear error and no lock.

use rmalab_atomics::fabric::{Bytes, Completion, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use rmalab_atomics::{Disp, Rank, RemoteAtomics, Request, Result, SymmetricHeap, Time, Topology, Until, World};
use rmalab_locks::{
    ALock, ALockParams, BigReader, BrLock, Bravo, Clh, ClhParams, Cna, CnaParams, Cohort, DecLock, DslrWide,
    DslrWideParams, Error, Gcr, GcrParams, GcrRw, Hapax, Hierarchical, HierarchicalParams, Lease, Malthusian,
    MalthusianParams, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Mpi4pyMcs, OshmemMcs, Place, RawMutex, RawRwLock,
    Reciprocating, RmaMcs, RmaMcsParams, RmaRw, RmaRwParams, RmeMcs, RobustHierarchical, RobustHierarchicalParams,
    RobustMcs, RobustRw, RobustTas, RobustTicket, RobustTwoLevel, Sherman, ShermanParams, ShiftLock, ShiftLockParams,
    Tas, TasRw, Ticket, TicketParams, TwoLevel, TwoLevelScan, WindowLock,
};

/// One rank of a world of any size, without memory: a lock can be made, but not used.
struct Claimed<'a> {
    inner: &'a dyn RemoteAtomics,
    view: WorldView,
}

/// Calls `make` as rank 0 of a world of `ranks` ranks, `on_node` of them on a node.
fn claimed<T: Send>(ranks: u32, on_node: u32, make: impl Fn(&Claimed<'_>) -> T + Sync) -> T {
    let made = World::threads(1).run(|ra| {
        let topology = Topology::blocks(ranks, on_node, 1).unwrap();
        let heap = SymmetricHeap::over(Disp(0), 1 << 50);
        let view = WorldView::new(Rank(0), 1 << 50, ra.capabilities(), topology, heap).unwrap();
        make(&Claimed { inner: ra, view })
    });
    made.unwrap().remove(0)
}

impl Fabric for Claimed<'_> {
    fn view(&self) -> &WorldView {
        &self.view
    }

    fn word(&self, _: Word, _: WordOp) -> Result<u64> {
        panic!("a lock that is only made has no operation")
    }

    unsafe fn start_word(&self, _: Word, _: WordOp, _: *mut u64) -> Result<Request> {
        panic!("a lock that is only made has no operation")
    }

    unsafe fn transfer(&self, _: Span, _: Bytes, _: Completion) -> Result<Request> {
        panic!("a lock that is only made has no operation")
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
        Extras::default()
    }
}

fn mutex<L: RawMutex>(ra: &Claimed<'_>, params: L::Params) -> rmalab_locks::Result<()> {
    let place = Place::alloc(ra, Rank(0), L::WORDS, L::NODE)?;
    L::bind(ra, place, params).map(drop)
}

fn rw_lock<L: RawRwLock>(ra: &Claimed<'_>, params: L::Params) -> rmalab_locks::Result<()> {
    let place = Place::alloc(ra, Rank(0), L::words(ra.size()), L::NODE)?;
    L::bind(ra, place, params).map(drop)
}

fn policy<L: WindowLock>(ra: &Claimed<'_>, params: L::Params) -> rmalab_locks::Result<()> {
    L::new(ra, params).map(drop)
}

type Made = fn(&Claimed<'_>) -> rmalab_locks::Result<()>;

macro_rules! by_default {
    ($make:ident: $($lock:ty),*) => {
        [$((<$lock>::NAME, (|ra| $make::<$lock>(ra, Default::default())) as Made)),*]
    };
}

/// Every lock with its default parameters, by its name.
fn all() -> Vec<(&'static str, Made)> {
    let mutexes = by_default!(mutex: ALock, Clh, Cna, Cohort, Gcr<Mcs>, Hapax, Lease, Malthusian, Mcs, Mpi4pyMcs, OshmemMcs, Reciprocating,
        RmaMcs, RmeMcs, RobustMcs, RobustTas, RobustTicket, Sherman, Tas, Ticket);
    let rw_locks = by_default!(rw_lock: BigReader, BrLock, Bravo<McsRwNeutral>, DecLock, DslrWide, GcrRw<McsRwRp>, McsRwNeutral, McsRwRp,
        McsRwWp, RmaRw, RobustRw, ShiftLock, TasRw);
    let policies = by_default!(policy: Hierarchical, RobustHierarchical, RobustTwoLevel, TwoLevel, TwoLevelScan);
    mutexes.into_iter().chain(rw_locks).chain(policies).collect()
}

/// The largest number of ranks that the words of a lock can count, where that is less than 2^30.
fn most(name: &str) -> Option<u32> {
    match name {
        "robust-rw" => Some(64 - 6),
        "rme-mcs" | "robust-hierarchical" | "robust-mcs" => Some(u16::MAX.into()),
        "declock" => Some(1 << 15),
        "shiftlock" => Some((1 << 21) - 1),
        "lease" => Some((1 << 24) - 2),
        "cna" | "malthusian" => Some((1 << 23) - 1),
        "hierarchical" => Some(1 << 29),
        _ => None,
    }
}

fn one_line(error: &Error, name: &str, part: &str) {
    let line = error.to_string();
    assert!(line.starts_with(name) && line.contains(part) && !line.contains('\n'), "{name}: {line}");
}

#[test]
fn a_world_that_a_lock_cannot_count_is_refused_in_one_line() {
    for (name, make) in all() {
        match most(name) {
            Some(most) => {
                claimed(most, 48, make).unwrap_or_else(|error| panic!("{name} at {most} ranks: {error}"));
                let made = claimed(most + 1, 48, make);
                let error = made.err().unwrap_or_else(|| panic!("{name} takes {} ranks", most + 1));
                assert!(
                    matches!(error, Error::TooManyRanks { size, limit, .. } if (size, limit) == (most + 1, most)),
                    "{error}"
                );
                one_line(
                    &error,
                    name,
                    &format!("{} ranks are more than its words can count, which is {most}", most + 1),
                );
            }
            None => claimed(1 << 30, 48, make).unwrap_or_else(|error| panic!("{name}: {error}")),
        }
    }
    // The number of ranks of a counter is limited, not the number of ranks of the world.
    let most = (1 << 24) - 1;
    let shared =
        |t_dc: u32| move |ra: &Claimed<'_>| rw_lock::<RmaRw>(ra, RmaRwParams { t_dc, ..RmaRwParams::default() });
    claimed(1 << 30, 48, shared(most)).unwrap();
    one_line(&claimed(1 << 30, 48, shared(most + 1)).unwrap_err(), "rma-rw", "which is 16777215");
}

/// Makes a lock with a value of one of its parameters.
type With = (&'static str, &'static str, fn(&Claimed<'_>, u32) -> rmalab_locks::Result<()>);

/// A value out of the range of its parameter is refused, and the ends of the range are accepted.
#[test]
fn a_number_without_room_in_a_word_is_refused_in_one_line() {
    let cna: With =
        ("cna", "threshold", |ra, threshold| mutex::<Cna>(ra, CnaParams { threshold, ..CnaParams::default() }));
    let malthusian: With = ("malthusian", "period", |ra, period| mutex::<Malthusian>(ra, MalthusianParams { period }));
    let hierarchical: With = ("hierarchical", "fan_out", |ra, fan_out| {
        Hierarchical::new(ra, HierarchicalParams { fan_out, ..HierarchicalParams::default() }).map(drop)
    });
    let robust_hierarchical: With = ("robust-hierarchical", "fan_out", |ra, fan_out| {
        let params = RobustHierarchicalParams { fan_out, ..RobustHierarchicalParams::default() };
        RobustHierarchical::new(ra, params).map(drop)
    });
    for ((name, parameter, make), least, most) in
        [(cna, 0_u32, 1 << 17), (malthusian, 1, 1 << 15), (hierarchical, 2, 64), (robust_hierarchical, 2, 64)]
    {
        for wrong in [least.checked_sub(1), Some(most + 1)].into_iter().flatten() {
            let error = claimed(1 << 15, 48, |ra| make(ra, wrong)).unwrap_err();
            one_line(&error, name, &format!("it is {wrong}, but it has to be from {least} to {most}"));
        }
        for right in [least, most] {
            claimed(1 << 15, 48, |ra| make(ra, right)).unwrap_or_else(|error| panic!("{name}, {parameter}: {error}"));
        }
    }
}

/// A threshold of 0 is refused by the name of the parameter, and 1 is accepted.
#[test]
fn a_threshold_of_zero_is_refused_in_one_line() {
    let all: [With; 13] = [
        ("alock", "near", |ra, near| mutex::<ALock>(ra, ALockParams { near, ..ALockParams::default() })),
        ("alock", "far", |ra, far| mutex::<ALock>(ra, ALockParams { far, ..ALockParams::default() })),
        ("sherman", "max", |ra, max| mutex::<Sherman>(ra, ShermanParams { max, ..ShermanParams::default() })),
        ("clh", "pause", |ra, pause| mutex::<Clh>(ra, ClhParams { pause })),
        ("ticket", "hold", |ra, hold| mutex::<Ticket>(ra, TicketParams { hold })),
        ("robust-ticket", "hold", |ra, hold| mutex::<RobustTicket>(ra, TicketParams { hold })),
        ("gcr", "active", |ra, active| mutex::<Gcr<Mcs>>(ra, GcrParams { active, ..GcrParams::default() })),
        ("gcr", "threshold", |ra, threshold| mutex::<Gcr<Mcs>>(ra, GcrParams { threshold, ..GcrParams::default() })),
        ("gcr-rw", "active", |ra, active| rw_lock::<GcrRw<McsRwRp>>(ra, GcrParams { active, ..GcrParams::default() })),
        ("dslr-wide", "hold", |ra, hold| rw_lock::<DslrWide>(ra, DslrWideParams { hold })),
        ("shiftlock", "n", |ra, n| rw_lock::<ShiftLock>(ra, ShiftLockParams { n, ..ShiftLockParams::default() })),
        ("rma-mcs", "t_l", |ra, t_l| {
            mutex::<RmaMcs>(ra, RmaMcsParams { t_l: [t_l as u16; 4], ..RmaMcsParams::default() })
        }),
        ("rma-rw", "t_l", |ra, t_l| {
            rw_lock::<RmaRw>(ra, RmaRwParams { t_l: [t_l as u16; 4], ..RmaRwParams::default() })
        }),
    ];
    for (name, parameter, make) in all {
        let error = claimed(96, 48, |ra| make(ra, 0)).unwrap_err();
        one_line(&error, name, "it has to be at least 1");
        assert!(
            matches!(error, Error::Parameter { lock, parameter: wrong, .. } if (lock, wrong) == (name, parameter)),
            "{error}"
        );
        claimed(96, 48, |ra| make(ra, 1)).unwrap_or_else(|error| panic!("{name}, {parameter}: {error}"));
    }
}

#[test]
fn a_tree_whose_words_have_one_child_or_more_than_bits_is_refused_in_one_line() {
    let with = |fan_out| {
        let params = HierarchicalParams { fan_out, ..HierarchicalParams::default() };
        claimed(96, 48, move |ra| policy::<Hierarchical>(ra, params))
    };
    for fan_out in [0, 1, 65, u32::MAX] {
        let error = with(fan_out).unwrap_err();
        one_line(&error, "hierarchical", &format!("fan_out: it is {fan_out}, but it has to be from 2 to 64"));
    }
    for fan_out in [2, 64] {
        with(fan_out).unwrap_or_else(|error| panic!("{fan_out}: {error}"));
    }
}
