//! Every lock and policy under stress, on threads and on processes, with more ranks than most machines have cores.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use std::collections::BTreeSet;
use std::time::Duration;

use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_locks::{
    ALock, BigReader, BrLock, Bravo, Clh, Cna, CnaParams, Cohort, DecLock, DslrWide, Elements, Exclusive, Gcr, GcrRw,
    Hapax, Hierarchical, Lease, LockKind, MAX_LEVELS, Malthusian, MalthusianParams, Mcs, McsRwNeutral, McsRwRp,
    McsRwWp, Mpi4pyMcs, OshmemMcs, PerTarget, Place, PolicyKind, RawRwLock, Reciprocating, RmaMcs, RmaMcsParams, RmaRw,
    RmaRwParams, RmeMcs, RobustHierarchical, RobustMcs, RobustRw, RobustTas, RobustTicket, RobustTwoLevel, Sherman,
    ShermanParams, ShiftLock, Tas, TasRw, Ticket, TwoLevel, TwoLevelScan, WindowLock,
};
use rmalab_verify::Scenario;
use rmalab_verify::stress::{self, Options, Rest, Verdict};

/// A policy as a reader-writer lock: lock_all for reading, an exclusive lock of one target for writing.
struct Policy<W>(W);

/// The target of all exclusive locks.
const TARGET: Rank = Rank(1);

impl<W: WindowLock> RawRwLock for Policy<W> {
    const NAME: &'static str = W::NAME;
    const WORDS: u64 = 0;
    const NODE: u64 = 0;
    type Params = W::Params;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, _place: Place, params: W::Params) -> rmalab_locks::Result<Policy<W>> {
        W::new(ra, params).map(Policy)
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.lock_all(ra)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.unlock_all(ra)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.lock(ra, LockKind::Exclusive, TARGET)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.0.unlock(ra, LockKind::Exclusive, TARGET)
    }
}

/// The result of a rank of a world of processes: for each lock its name, the largest number of readers together, and
/// the violations.
type Found = Vec<(String, u32, Vec<String>)>;

/// Runs all locks with `ranks` ranks that read and write alternately, `acquisitions` times each.
fn check_all<A: RemoteAtomics>(ra: &A, acquisitions: u32) -> Found {
    let scenario: Scenario = format!("{}Mx{acquisitions}", ra.size()).parse().unwrap();
    let mut found = Found::new();
    let mut note = |verdict: Verdict| {
        let violations = verdict.violations.iter().map(ToString::to_string).collect();
        found.push((verdict.lock.to_owned(), verdict.readers_together, violations));
    };
    fn run<L: RawRwLock, A: RemoteAtomics>(ra: &A, scenario: &Scenario, rest: Rest) -> Verdict
    where
        L::Params: Default,
    {
        stress::run::<L, A>(ra, scenario, &Options { rest, ..Options::default() }).unwrap()
    }
    note(run::<Exclusive<Tas>, A>(ra, &scenario, Rest::Zero));
    note(run::<TasRw, A>(ra, &scenario, Rest::Zero));
    note(run::<RobustRw, A>(ra, &scenario, Rest::Zero));
    // Tickets never return to zero.
    note(run::<Exclusive<Ticket>, A>(ra, &scenario, Rest::Any));
    note(run::<Exclusive<Lease>, A>(ra, &scenario, Rest::Any));
    note(run::<Exclusive<RobustTas>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<RobustTicket>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<RobustMcs>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<RmeMcs>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<Mcs>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<Cohort>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<OshmemMcs>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<Mpi4pyMcs>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<ALock>, A>(ra, &scenario, Rest::Zero));
    let params = ShermanParams { max: 2, ranks: 2, ..ShermanParams::default() };
    note(stress::run::<Exclusive<Sherman>, A>(ra, &scenario, &Options { params, ..Options::default() }).unwrap());
    note(run::<Exclusive<Reciprocating>, A>(ra, &scenario, Rest::Zero));
    let params = CnaParams { threshold: 3, scan: 4, ranks: 2 };
    note(stress::run::<Exclusive<Cna>, A>(ra, &scenario, &Options { params, ..Options::default() }).unwrap());
    let params = MalthusianParams { period: 3 };
    note(stress::run::<Exclusive<Malthusian>, A>(ra, &scenario, &Options { params, ..Options::default() }).unwrap());
    note(run::<Exclusive<Hapax>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<Clh>, A>(ra, &scenario, Rest::Zero));
    note(run::<Exclusive<Gcr<Mcs>>, A>(ra, &scenario, Rest::Zero));
    note(run::<GcrRw<McsRwNeutral>, A>(ra, &scenario, Rest::Zero));
    // On three levels, with small thresholds.
    let (levels, t_l) = (Elements::Blocks([4, 2, 0]), [2; MAX_LEVELS]);
    let params = RmaMcsParams { levels, t_l, ..RmaMcsParams::default() };
    note(stress::run::<Exclusive<RmaMcs>, A>(ra, &scenario, &Options { params, ..Options::default() }).unwrap());
    note(run::<McsRwRp, A>(ra, &scenario, Rest::Zero));
    note(run::<McsRwWp, A>(ra, &scenario, Rest::Zero));
    note(run::<McsRwNeutral, A>(ra, &scenario, Rest::Zero));
    note(run::<BigReader, A>(ra, &scenario, Rest::Zero));
    note(run::<BrLock, A>(ra, &scenario, Rest::Zero));
    note(run::<Bravo<McsRwNeutral>, A>(ra, &scenario, Rest::Zero));
    let params = RmaRwParams { levels, t_l, t_dc: 2, t_r: 3, ..RmaRwParams::default() };
    note(stress::run::<RmaRw, A>(ra, &scenario, &Options { params, ..Options::default() }).unwrap());
    note(run::<DecLock, A>(ra, &scenario, Rest::Zero));
    note(run::<DslrWide, A>(ra, &scenario, Rest::Zero));
    note(run::<ShiftLock, A>(ra, &scenario, Rest::Zero));
    note(run::<Policy<PerTarget<McsRwRp>>, A>(ra, &scenario, Rest::Zero));
    note(run::<Policy<TwoLevel>, A>(ra, &scenario, Rest::Zero));
    note(run::<Policy<TwoLevelScan>, A>(ra, &scenario, Rest::Zero));
    note(run::<Policy<RobustTwoLevel>, A>(ra, &scenario, Rest::Zero));
    note(run::<Policy<Hierarchical>, A>(ra, &scenario, Rest::Zero));
    note(run::<Policy<RobustHierarchical>, A>(ra, &scenario, Rest::Zero));
    found
}

fn check(found: Vec<Found>, backend: &str, ranks: u32) {
    assert_eq!(found.len(), ranks as usize);
    let names = |found: &Found| found.iter().map(|(lock, ..)| lock.clone()).collect::<BTreeSet<String>>();
    let all = names(&found[0]);
    let missing: Vec<&str> = PolicyKind::NAMES.iter().copied().filter(|&name| !all.contains(name)).collect();
    assert_eq!(missing, ["nocheck"], "locks that no rank has run");
    for (rank, found) in found.into_iter().enumerate() {
        assert_eq!((names(&found), found.len()), (all.clone(), all.len()), "locks run by rank {rank}");
        for (lock, _, violations) in found {
            assert!(violations.is_empty(), "{lock} on {backend}, {ranks} ranks, rank {rank}: {violations:#?}");
        }
    }
}

/// Acquisitions of each rank, for some thousands in all.
fn acquisitions(ranks: u32) -> u32 {
    4_800 / ranks
}

#[test]
fn no_lock_is_found_broken_on_threads() {
    for ranks in [2, 3, 4, 8, 16] {
        check(World::threads(ranks).run(|ra| check_all(ra, acquisitions(ranks))).unwrap(), "local", ranks);
    }
}

/// One test for each number of ranks, since each rank process joins the first world of its test.
macro_rules! on_processes {
    ($($(#[$ignored:meta])? $name:ident: $ranks:literal,)*) => {$(
        #[test]
        $(#[$ignored])?
        fn $name() {
            let found = World::processes($ranks)
                .command(std::env::current_exe().unwrap(), [stringify!($name), "--exact", "--nocapture", "--include-ignored"])
                .time_limit(Duration::from_secs(120))
                .run(|ra| check_all(ra, acquisitions($ranks)));
            check(found.unwrap(), "shm", $ranks);
        }
    )*};
}

on_processes! {
    no_lock_is_found_broken_on_2_processes: 2,
    no_lock_is_found_broken_on_3_processes: 3,
    no_lock_is_found_broken_on_4_processes: 4,
    no_lock_is_found_broken_on_8_processes: 8,
    #[ignore = "some seconds; .ci/run longer"]
    longer_no_lock_is_found_broken_on_16_processes: 16,
}
