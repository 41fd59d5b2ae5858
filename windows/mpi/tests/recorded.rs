//! The traces of `programs/recorded.c`, which the library has recorded. `scripts/mpi-preload-suite` runs the program and this test.

use std::path::PathBuf;

use rmalab_atomics::{Rank, RemoteAtomics, World};
use rmalab_windows::replay::{Replay, Step, Update};
use rmalab_windows::trace::{Ending, Trace};
use rmalab_windows::{
    Assert, ElementKind, FenceAssert, Flavor, LockKind, Op, PostAssert, StartAssert, Team, Window, WindowDisp,
};

/// The folder of the traces.
const FOLDER: &str = "RMALAB_TEST_TRACES";

/// The calls on the allocated window of a rank whose partner is `other`, in the order of the program.
fn expected(rank: Rank, other: Rank) -> Vec<Step> {
    let at = |target, disp, bytes| Step::Put { target, disp: WindowDisp(disp), bytes };
    let put = |disp, bytes| at(other, disp, bytes);
    let update = |call, disp, bytes| Step::Update { call, target: other, disp: WindowDisp(disp), bytes };
    let lock = |kind| Step::Lock { kind, target: other, assert: Assert::None };
    let group: std::sync::Arc<[Rank]> = [other].into();
    let start = || Step::Start { group: group.clone(), assert: StartAssert::default() };
    vec![
        Step::Barrier,
        lock(LockKind::Shared),
        put(1, 16),
        put(4, 24),
        put(12, 8),
        Step::Get { target: other, disp: WindowDisp(14), bytes: 16 },
        Step::Flush { target: other },
        Step::Unlock { target: other },
        lock(LockKind::Exclusive),
        update(Update::Accumulate(ElementKind::I64, Op::Sum), 16, 16),
        update(Update::GetAccumulate(ElementKind::F64, Op::Max), 18, 8),
        update(Update::FetchAndOp(ElementKind::I32, Op::BitOr), 19, 4),
        update(Update::CompareAndSwap(ElementKind::I64), 20, 8),
        // For a long double, a trace has the bytes.
        update(Update::Accumulate(ElementKind::Byte, Op::Replace), 22, 16),
        put(24, 8),
        Step::Unlock { target: other },
        Step::LockAll { assert: Assert::None },
        at(rank, 25, 8),
        Step::FlushAll,
        Step::UnlockAll,
        Step::Barrier,
        Step::Fence(FenceAssert { noprecede: true, ..FenceAssert::default() }),
        put(26, 8),
        Step::Fence(FenceAssert { nostore: true, nosucceed: true, ..FenceAssert::default() }),
        Step::Barrier,
        Step::Post { group: group.clone(), assert: PostAssert { nostore: true, ..PostAssert::default() } },
        start(),
        put(27, 8),
        Step::Complete,
        Step::Wait,
        Step::Post { group: group.clone(), assert: PostAssert::default() },
        start(),
        Step::Complete,
        Step::Test,
    ]
}

fn open(name: &str) -> Trace {
    let folder = std::env::var_os(FOLDER).expect("the variable names the folder of the traces");
    Trace::open(PathBuf::from(folder).join(name)).expect("the program was recorded")
}

fn calls(trace: &Trace, rank: Rank) -> Vec<Step> {
    let steps = trace.steps(rank).map(|step| step.expect("the trace is whole"));
    steps.filter(|step| !matches!(step, Step::Compute(_))).collect()
}

#[test]
#[ignore = "needs the traces of programs/recorded.c in RMALAB_TEST_TRACES"]
fn the_calls_of_the_program_are_in_its_traces() {
    let trace = open("window");
    assert_eq!((trace.ranks(), trace.topology().nodes(), trace.shape().flavor()), (2, 1, Flavor::Allocate));
    assert!(trace.info().get("rmalab_mode").is_some(), "{}", trace.info());
    for (rank, other) in [(Rank(0), Rank(1)), (Rank(1), Rank(0))] {
        assert_eq!(calls(&trace, rank), expected(rank, other), "{rank}");
        assert!(matches!(trace.parts()[rank.index()].ending(), Ending::Complete { .. }));
    }
    let dynamic = open("window-2");
    assert_eq!(dynamic.shape().flavor(), Flavor::Dynamic);
    for (rank, other) in [(Rank(0), Rank(1)), (Rank(1), Rank(0))] {
        let found = calls(&dynamic, rank);
        let [lock, Step::Put { target, bytes: 8, .. }, unlock, Step::Barrier] = &found[..] else {
            panic!("{rank}: {found:?}");
        };
        assert_eq!(*target, other);
        assert_eq!(*lock, Step::Lock { kind: LockKind::Exclusive, target: other, assert: Assert::None });
        assert_eq!(*unlock, Step::Unlock { target: other });
    }
}

#[test]
#[ignore = "needs the traces of programs/recorded.c in RMALAB_TEST_TRACES"]
fn the_traces_replay() {
    for name in ["window", "window-2"] {
        let trace = open(name);
        let ranks = World::threads(trace.ranks()).run(|ra| {
            let team = Team::new(ra)?;
            let shape = trace.shape().clone().in_segments();
            let mut replay = Replay::new(Window::builder(&team), &shape)?;
            replay.run(trace.steps(ra.rank()), |_| ())?;
            replay.free()
        });
        ranks.unwrap().into_iter().collect::<rmalab_windows::Result<()>>().unwrap();
    }
}
