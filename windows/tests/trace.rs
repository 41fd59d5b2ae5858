//! Traces: recorded on threads and on processes, read complete, cut and damaged, and replayed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{self, processes};
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Counted, Mapped, Rank, RemoteAtomics, Time, Topology, World};
use rmalab_locks::{McsRwRp, PerTarget, Policy, PolicyKind, TwoLevel, WindowLock};
use rmalab_windows::replay::{Locked, Observed, Phase, Replay, Shape, Step, Update};
use rmalab_windows::trace::{Description, Ending, Recorder, Trace, TraceError};
use rmalab_windows::{
    Assert, Builder, Config, DoubleInt, ElementKind, Error, FenceAssert, Flavor, Info, Layout, LockKind, Op,
    PostAssert, StartAssert, Team, Transport, Window, WindowDisp,
};

const DIR: &str = "RMALAB_TEST_DIR";

/// The folder of a test. Ranks that are processes use the parent's folder.
struct Dir {
    path: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Dir {
    fn new() -> Dir {
        match std::env::var_os(DIR) {
            Some(path) => Dir { path: path.into(), _own: None },
            None => {
                let own = tempfile::tempdir().unwrap();
                Dir { path: own.path().to_owned(), _own: Some(own) }
            }
        }
    }
}

fn calls(trace: &Trace, rank: u32) -> Vec<Step> {
    let steps = trace.steps(Rank(rank)).map(|step| step.unwrap());
    steps.filter(|step| !matches!(step, Step::Compute(_))).collect()
}

/// Makes all recorded calls on a window of 256 bytes with units of one byte. Returns the rank's expected trace.
fn everything(
    team: &Team<'_, Mapped>,
    mut window: Window<'_, Mapped>,
    start: &[i64],
) -> rmalab_windows::Result<Vec<Step>> {
    let size = team.size();
    let other = Rank((team.rank().0 + 1) % size);
    let at = |bytes: i64| WindowDisp(start[other.index()] + bytes);
    let put = |disp, bytes| Step::Put { target: other, disp: at(disp), bytes };
    let get = |disp, bytes| Step::Get { target: other, disp: at(disp), bytes };
    let update = |call, bytes| Step::Update { call, target: other, disp: at(64), bytes };
    let flush = Step::Flush { target: other };
    let mut steps = Vec::new();
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        let epoch = window.lock(kind, other)?;
        steps.push(Step::Lock { kind, target: other, assert: Assert::None });
        epoch.put(at(0), &[1u8, 2, 3])?;
        epoch.get_value::<u64>(at(8))?;
        steps.extend([put(0, 3), get(8, 8)]);
        let column = Layout::vector(4, 1, 3, &Layout::of::<u16>()).unwrap();
        let four = Layout::of::<u16>();
        epoch.put_layout(at(16), column.item(), &[1u16, 2, 3, 4], four.items(4))?;
        epoch.get_layout(at(16), column.item(), &mut [0u16; 4], four.items(4))?;
        // A column from the bottom up begins ahead of the displacement, by six bytes for each row.
        let upwards = Layout::vector(4, 1, -3, &Layout::of::<u16>()).unwrap();
        epoch.put_layout(at(34), upwards.item(), &[1u16, 2, 3, 4], four.items(4))?;
        steps.extend([put(16, 8), get(16, 8), put(16, 8)]);
        epoch.accumulate(at(64), Op::Sum, &[1u32, 2, 3])?;
        epoch.get_accumulate(at(64), Op::Sum, &[1u32, 2], &mut [0; 2])?;
        epoch.fetch_and_op(at(64), Op::Sum, 1u64)?;
        epoch.compare_and_swap(at(64), 1u16, 2)?;
        epoch.accumulate_layout(at(64), column.item(), Op::Sum, &[1u16, 2, 3, 4], four.items(4))?;
        steps.extend([
            update(Update::Accumulate(ElementKind::U32, Op::Sum), 12),
            update(Update::GetAccumulate(ElementKind::U32, Op::Sum), 8),
            update(Update::FetchAndOp(ElementKind::U64, Op::Sum), 8),
            update(Update::CompareAndSwap(ElementKind::U16), 2),
            update(Update::Accumulate(ElementKind::U16, Op::Sum), 8),
        ]);
        epoch.accumulate(at(64), Op::Max, &[1f32, 2.0])?;
        epoch.get_accumulate(at(64), Op::NoOp, &[], &mut [0i64; 3])?;
        epoch.get_accumulate(at(64), Op::Replace, &[1i64, 2, 3], &mut [0i64; 3])?;
        epoch.fetch_and_op(at(64), Op::BitOr, 1i16)?;
        // Three elements, each of which begins within the previous one: the bytes of two and a half elements.
        let over = Layout::hvector(3, 1, 3, &Layout::of::<u32>()).unwrap();
        let three = Layout::of::<u32>();
        epoch.accumulate_layout(at(64), over.item(), Op::BitXor, &[1u32, 2, 3], three.items(3))?;
        steps.extend([
            update(Update::Accumulate(ElementKind::F32, Op::Max), 8),
            update(Update::GetAccumulate(ElementKind::I64, Op::NoOp), 24),
            update(Update::GetAccumulate(ElementKind::I64, Op::Replace), 24),
            update(Update::FetchAndOp(ElementKind::I16, Op::BitOr), 2),
            update(Update::Accumulate(ElementKind::U32, Op::BitXor), 8),
        ]);
        epoch.flush()?;
        steps.push(flush.clone());
        epoch.rput(at(0), vec![1u8; 5])?.wait()?;
        epoch.rget(at(0), vec![1u8; 6])?.wait()?;
        epoch.raccumulate(at(64), Op::Sum, vec![1u64])?.wait()?;
        steps.extend([put(0, 5), get(0, 6), update(Update::Accumulate(ElementKind::U64, Op::Sum), 8)]);
        let source = [7u8; 20];
        let mut dest = [7u8; 30];
        epoch.batch(|batch| {
            batch.put(&epoch, at(0), &source)?;
            batch.get(&epoch, at(40), &mut dest)
        })?;
        steps.extend([Step::BatchBegin, put(0, 20), get(40, 30), Step::BatchEnd]);
        // A refused operation has no effect.
        assert!(epoch.put(at(1 << 40), &[0u8]).is_err());
        epoch.flush_local()?;
        epoch.unlock()?;
        steps.push(Step::Unlock { target: other });
    }
    let epoch = window.lock_assert(LockKind::Exclusive, other, Assert::NoCheck)?;
    epoch.put(at(0), &[1u8; 2])?;
    drop(epoch);
    steps.extend([
        Step::Lock { kind: LockKind::Exclusive, target: other, assert: Assert::NoCheck },
        put(0, 2),
        Step::Unlock { target: other },
    ]);

    let epoch = window.lock_all()?;
    epoch.at(None)?.put(at(0), &[1u8; 2])?;
    epoch.at(other)?.put(at(0), &[1u8; 4])?;
    epoch.flush(other)?;
    epoch.flush_all()?;
    epoch.batch(|_| Ok(()))?;
    epoch.unlock_all()?;
    steps.extend([Step::LockAll { assert: Assert::None }, put(0, 4), flush, Step::FlushAll]);
    steps.extend([Step::BatchBegin, Step::BatchEnd, Step::UnlockAll]);
    let epoch = window.lock_all_assert(Assert::NoCheck)?;
    drop(epoch);
    steps.extend([Step::LockAll { assert: Assert::NoCheck }, Step::UnlockAll]);

    team.barrier()?;
    steps.push(Step::Barrier);
    let fence = window.fence()?;
    fence.at(other)?.put(at(0), &[0u8; 7])?;
    let fence = fence.next_assert(FenceAssert { noput: true, ..FenceAssert::default() })?;
    fence.close()?;
    let none = FenceAssert { noprecede: true, nosucceed: true, ..FenceAssert::default() };
    drop(window.fence_assert(none)?);
    steps.extend([Step::Fence(FenceAssert::default()), put(0, 7)]);
    steps.push(Step::Fence(FenceAssert { noput: true, ..FenceAssert::default() }));
    steps.push(Step::Fence(FenceAssert { nosucceed: true, ..FenceAssert::default() }));
    steps.push(Step::Fence(none));

    let before = Rank((team.rank().0 + size - 1) % size);
    let (mut access, mut exposure) = window.pscw()?;
    let exposed = exposure.post_assert(&[before], PostAssert { nostore: true, ..PostAssert::default() })?;
    let accessed = access.start(&[other])?;
    accessed.at(other)?.put(at(9), &[0u8; 9])?;
    accessed.complete()?;
    exposed.wait()?;
    steps.extend([
        Step::Post { group: [before].into(), assert: PostAssert { nostore: true, ..PostAssert::default() } },
        Step::Start { group: [other].into(), assert: StartAssert::default() },
        put(9, 9),
        Step::Complete,
        Step::Wait,
    ]);
    let mut exposed = exposure.post(&[])?;
    assert!(exposed.test()?);
    drop(exposed);
    steps.extend([Step::Post { group: [].into(), assert: PostAssert::default() }, Step::Test]);
    window.free()?;
    Ok(steps)
}

/// Records [`everything`] on windows of this kind, and returns the expected trace.
fn record(team: &Team<'_, Mapped>, dir: &Path, kind: &str) -> Vec<String> {
    let mut config = Config::default();
    if let Some(transport) = Transport::ALL.iter().find(|transport| transport.name() == kind) {
        config.transport = *transport;
    }
    let builder: Builder<'_, Mapped> = Window::builder(team).config(config).name(kind).record(dir);
    let mut start = vec![0; team.size() as usize];
    let window = match kind {
        "created" => builder.create(UserMemory::from_vec(vec![0u8; 256])),
        "shared" => builder.allocate_shared(256),
        "dynamic" => {
            let window = builder.create_dynamic().unwrap();
            let own = window.attach(UserMemory::from_vec(vec![0u64; 32])).unwrap();
            start = team.allgather(&[own.0 as u64]).unwrap().into_iter().map(|start| start as i64).collect();
            Ok(window)
        }
        _ => builder.allocate(256),
    };
    let steps = everything(team, window.unwrap(), &start).unwrap();
    steps.iter().map(|step| format!("{step:?}")).collect()
}

fn check_everything(dir: &Path, kind: &str, expected: &[Vec<String>]) {
    let trace = Trace::open(dir.join(kind)).unwrap();
    assert_eq!((trace.window(), trace.ranks() as usize), (kind, expected.len()));
    assert_eq!(trace.info().get("rmalab_lock_policy"), Some("two-level"));
    for (rank, expected) in (0..).zip(expected) {
        let found: Vec<String> = calls(&trace, rank).iter().map(|step| format!("{step:?}")).collect();
        assert_eq!(&found, expected, "{kind}: rank {rank}");
        let part = &trace.parts()[rank as usize];
        assert_eq!(part.events(), expected.len() as u64 + u64::from(kind == "dynamic"));
        assert!(matches!(part.ending(), Ending::Complete { elapsed } if !elapsed.is_zero()));
    }
    assert!(trace.remarks().is_empty(), "{:?}", trace.remarks());
    let flavor = match kind {
        "created" => Flavor::Create,
        "shared" => Flavor::Shared,
        "dynamic" => Flavor::Dynamic,
        _ => Flavor::Allocate,
    };
    // For attached memory, the offsets within cache lines are kept, too.
    let bytes = trace.shape().bytes();
    assert!(trace.shape().flavor() == flavor && (bytes == 256 || kind == "dynamic" && bytes > 256), "{kind}");
}

const KINDS: [&str; 5] = ["one-sided", "created", "shared", "dynamic", "two-sided"];

#[test]
fn the_calls_of_a_program_are_recorded_on_threads() {
    let dir = Dir::new();
    for kind in KINDS {
        let expected = support::threads(3, |team| record(team, &dir.path, kind));
        check_everything(&dir.path, kind, &expected);
    }
}

#[test]
fn the_calls_of_a_program_are_recorded_on_processes() {
    let dir = Dir::new();
    let world = processes("trace::the_calls_of_a_program_are_recorded_on_processes", 3).env(DIR, &dir.path);
    // Access to private memory of other processes may be forbidden.
    let kinds = || KINDS.into_iter().filter(|kind| !["created", "dynamic"].contains(kind));
    let expected = world.run(|ra| {
        let team = Team::new(ra).unwrap();
        kinds().map(|kind| record(&team, &dir.path, kind)).collect::<Vec<_>>()
    });
    let expected = expected.unwrap();
    for (i, kind) in kinds().enumerate() {
        let expected: Vec<_> = expected.iter().map(|rank| rank[i].clone()).collect();
        check_everything(&dir.path, kind, &expected);
    }
}

#[test]
fn the_time_between_calls_is_recorded() {
    let dir = Dir::new();
    support::threads(1, |team| {
        let window = Window::builder(team).record(&dir.path).allocate(8).unwrap();
        for _ in 0..3 {
            let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            team.ra().compute(std::time::Duration::from_millis(2)).unwrap();
            epoch.unlock().unwrap();
        }
        window.free().unwrap();
    });
    let trace = Trace::open(&dir.path).unwrap();
    let steps: Vec<Step> = trace.steps(Rank(0)).map(|step| step.unwrap()).collect();
    let unlocks = steps.windows(2).filter(|pair| matches!(pair[1], Step::Unlock { .. }));
    let inside = unlocks.map(|pair| if let Step::Compute(ns) = pair[0] { ns } else { 0 });
    assert_eq!(inside.filter(|&ns| ns >= 2_000_000).count(), 3, "{steps:?}");
}

/// A program of many acquisitions, which calls `after` after each.
fn many(team: &Team<'_, Mapped>, window: &mut Window<'_, Mapped>, rounds: u32, after: impl Fn(u32)) {
    for round in 0..rounds {
        let target = Rank(round % team.size());
        let kind = if round % 3 == 0 { LockKind::Exclusive } else { LockKind::Shared };
        let epoch = window.lock(kind, target).unwrap();
        epoch.put(WindowDisp(0), &[0u64; 2]).unwrap();
        epoch.unlock().unwrap();
        if round % 100 == 0 {
            let all = window.lock_all().unwrap();
            all.at(target).unwrap().fetch_and_op(WindowDisp(0), Op::Sum, 1u64).unwrap();
            all.unlock_all().unwrap();
        }
        after(round);
    }
}

/// Returns the steps of [`many`] in the trace.
fn steps_of_many(size: u32, rounds: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..rounds {
        let target = Rank(round % size);
        let kind = if round % 3 == 0 { LockKind::Exclusive } else { LockKind::Shared };
        let disp = WindowDisp(0);
        let lock = Step::Lock { kind, target, assert: Assert::None };
        steps.extend([lock, Step::Put { target, disp, bytes: 16 }, Step::Unlock { target }]);
        if round % 100 == 0 {
            let update = Step::Update { call: Update::FetchAndOp(ElementKind::U64, Op::Sum), target, disp, bytes: 8 };
            steps.extend([Step::LockAll { assert: Assert::None }, update, Step::UnlockAll]);
        }
    }
    steps
}

/// The largest number of events of a block: each has at least two bytes, and a block has 4 KiB and one event when no
/// lock is held.
const BLOCK: usize = 2048 + 16;

#[test]
fn a_killed_process_leaves_all_but_its_last_block() {
    const ROUNDS: u32 = 6000;
    let dir = Dir::new();
    let world = processes("trace::a_killed_process_leaves_all_but_its_last_block", 2).env(DIR, &dir.path);
    let outcome = world.run(|ra| {
        let team = Team::new(ra).unwrap();
        let mut window = Window::builder(&team).record(&dir.path).allocate(64).unwrap();
        if ra.rank() == Rank(1) {
            many(&team, &mut window, ROUNDS, |_| ());
            let killed = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
            panic!("still alive: {killed:?}");
        }
        // The barrier fails, since one rank was killed.
        team.barrier().unwrap_err();
    });
    assert!(matches!(outcome, Err(rmalab_atomics::Error::RankEnded { rank: Rank(1), .. })), "{outcome:?}");
    let trace = Trace::open(&dir.path).unwrap();
    let done = steps_of_many(2, ROUNDS);
    let found = calls(&trace, 1);
    assert!(found.len() <= done.len() && found.len() + BLOCK > done.len(), "{} of {}", found.len(), done.len());
    assert_eq!(found[..], done[..found.len()]);
    assert!(matches!(trace.parts()[1].ending(), Ending::Early { lost: 0, .. }));
    let remarks = trace.remarks();
    assert!(remarks.iter().any(|remark| remark.contains("rank-1.trace: the file ends at byte ")), "{remarks:?}");
}

/// A trace of one rank, its file, and its bytes.
fn small() -> (Dir, PathBuf, Vec<u8>) {
    let dir = Dir::new();
    support::threads(1, |team| {
        let mut window = Window::builder(team).name("small").record(&dir.path).allocate(64).unwrap();
        many(team, &mut window, 700, |_| ());
        window.free().unwrap();
    });
    let file = dir.path.join("small-rank-0.trace");
    let bytes = std::fs::read(&file).unwrap();
    (dir, file, bytes)
}

#[test]
fn a_trace_that_is_cut_is_read_up_to_there() {
    a_trace_is_read_up_to_every(7);
}

#[test]
#[ignore = "a quarter of a minute; .ci/run longer"]
fn longer_a_trace_that_is_cut_anywhere_is_read_up_to_there() {
    a_trace_is_read_up_to_every(1);
}

/// Cuts a trace at every `stride`th byte, from its end to its beginning.
fn a_trace_is_read_up_to_every(stride: usize) {
    let (dir, file, bytes) = small();
    let whole = calls(&Trace::open(&dir.path).unwrap(), 0);
    assert_eq!(whole, steps_of_many(1, 700));
    let (mut lengths, mut lost_seen) = (std::collections::BTreeSet::new(), 0);
    for cut in (0..bytes.len()).rev().step_by(stride) {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        match Trace::open(&dir.path) {
            Ok(trace) => {
                let found = calls(&trace, 0);
                assert_eq!(found[..], whole[..found.len()], "{cut}");
                let Ending::Early { lost, offset } = trace.parts()[0].ending() else { panic!("{cut}: complete") };
                assert!(offset <= cut as u64 && lost as usize <= whole.len() - found.len(), "{cut}");
                lost_seen = lost_seen.max(lost);
                lengths.insert(found.len());
                assert_eq!(trace.remarks().len(), 1);
            }
            // Without its header the file is not a trace.
            Err(error) => assert!(is_one_line(&error.to_string(), &file) && cut < 1000, "{cut}: {error}"),
        }
    }
    assert!(lengths.contains(&0) && lengths.contains(&whole.len()) && lengths.len() > 2, "{lengths:?}");
    assert!(lost_seen > 0);
}

/// Returns whether an error is one line that names the file and a place in it.
fn is_one_line(error: &str, file: &Path) -> bool {
    error.lines().count() == 1 && error.starts_with(&format!("{}: byte ", file.display()))
}

#[test]
fn wrong_bits_are_detected() {
    wrong_bits_are_detected_in_every(23);
}

#[test]
#[ignore = "half a minute; .ci/run longer"]
fn longer_a_wrong_bit_is_detected_in_every_byte() {
    wrong_bits_are_detected_in_every(1);
}

fn wrong_bits_are_detected_in_every(step: usize) {
    let (dir, file, mut bytes) = small();
    for at in (0..bytes.len()).step_by(step) {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        std::fs::write(&file, &bytes).unwrap();
        let error = Trace::open(&dir.path).expect_err("a bit is wrong").to_string();
        assert!(is_one_line(&error, &file), "{at}: {error}");
        bytes[at] ^= bit;
    }
}

#[test]
fn the_windows_of_a_folder_are_in_their_order() {
    let dir = Dir::new();
    assert!(Trace::windows(&dir.path).unwrap_err().to_string().contains("there is no trace here"));
    // Only the names count.
    for window in ["table-10", "a-b", "table-2", "table"] {
        for rank in 0..2 {
            std::fs::write(dir.path.join(format!("{window}-rank-{rank}.trace")), "").unwrap();
        }
    }
    let found = Trace::windows(&dir.path).unwrap();
    assert_eq!(found, ["a-b", "table", "table-2", "table-10"].map(|window| dir.path.join(window)));
    let one = dir.path.join("table-2");
    assert_eq!(Trace::windows(&one).unwrap(), [one]);
}

#[test]
fn files_of_different_traces_are_errors() {
    let dir = Dir::new();
    let fails = |path: &Path, what: &str| {
        let error = Trace::open(path).expect_err(what).to_string();
        assert!(error.contains(what) && error.lines().count() == 1, "{error}");
    };
    fails(&dir.path, "there is no trace here");
    fails(&dir.path.join("nowhere/table"), "reading the folder of a trace");
    support::threads(3, |team| {
        for name in ["a", "b"] {
            Window::builder(team).name(name).record(&dir.path).allocate(8).unwrap().free().unwrap();
        }
    });
    fails(&dir.path, "traces of several windows (a, b)");
    assert_eq!(Trace::open(dir.path.join("b")).unwrap().window(), "b");
    let file = |name: &str, rank: u32| dir.path.join(format!("{name}-rank-{rank}.trace"));
    std::fs::copy(file("a", 1), file("b", 1)).unwrap();
    fails(&dir.path.join("b"), "b-rank-1.trace: the window differs from the one in");
    std::fs::copy(file("a", 2), file("b", 1)).unwrap();
    fails(&dir.path.join("b"), "the header is of rank 2, but the file's name is of rank 1");
    std::fs::remove_file(file("b", 1)).unwrap();
    fails(&dir.path.join("b"), "b-rank-1.trace: this file of the trace is missing");
    std::fs::remove_file(file("b", 2)).unwrap();
    fails(&dir.path.join("b"), "files of 1 rank, but the program had 3: b-rank-1.trace is missing");
    std::fs::write(file("b", 0), "This is some other text.").unwrap();
    fails(&dir.path.join("b"), "byte 0: this is not a trace");
    for old in [1, 2] {
        std::fs::write(file("b", 0), [&b"rmalab\0T"[..], &[old, 0, 0, 0]].concat()).unwrap();
        let lacks = "of the format, which lacks data that a replay needs; this program reads";
        fails(&dir.path.join("b"), &format!("byte 8: version {old} {lacks}"));
        fails(&dir.path.join("b"), "record the program again");
    }
    std::fs::write(file("b", 0), b"rmalab\0T\x04\0\0\0").unwrap();
    fails(&dir.path.join("b"), "byte 8: version 4 of the format; this program reads version 3");
}

#[test]
fn names_of_traces_are_unused_and_the_same_at_all_ranks() {
    let dir = Dir::new();
    support::threads(2, |team| {
        let builder = || Window::builder(team).record(dir.path.join("made/here"));
        let make = |builder: Builder<'_, Mapped>| builder.allocate(8).unwrap().free().unwrap();
        make(builder());
        make(builder());
        make(builder().name("../odd name\n"));
        make(builder().name("x".repeat(200)));
    });
    let mut names: Vec<String> = std::fs::read_dir(dir.path.join("made/here"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let long = "x".repeat(64);
    let expected = ["___odd_name_", "window-2", "window", &long];
    let expected: Vec<String> =
        expected.iter().flat_map(|stem| [0, 1].map(|rank| format!("{stem}-rank-{rank}.trace"))).collect();
    assert_eq!(names, expected);
    assert_eq!(Trace::open(dir.path.join("made/here/___odd_name_")).unwrap().window(), "../odd name\n");
}

/// A window that cannot be recorded is not made, on any rank, and takes no memory.
#[test]
fn a_folder_that_cannot_be_used_is_an_error_everywhere() {
    let dir = Dir::new();
    let taken = dir.path.join("file");
    std::fs::write(&taken, "").unwrap();
    // A file of rank 1 already exists, but no file of rank 0.
    let half = dir.path.join("half");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("window-rank-1.trace"), "").unwrap();
    let errors = support::threads(2, |team| {
        let before = team.ra().heap().alloc(8, 8).unwrap();
        let errors = [&taken, &half].map(|dir| {
            let made = Window::builder(team).record(dir).allocate(8);
            made.map(drop).unwrap_err()
        });
        team.ra().heap().release(before).unwrap();
        assert_eq!(team.ra().heap().alloc(8, 8).unwrap(), before);
        errors.map(|error| (matches!(error, Error::Trace(_)), error.to_string()))
    });
    let [[(true, first), (false, _)], [(false, _), (true, second)]] = &errors[..] else { panic!("{errors:?}") };
    assert!(first.contains("making the folder of the trace") && second.contains("making the trace"), "{errors:?}");
    assert_eq!(std::fs::read_dir(&half).unwrap().count(), 1);
}

/// Nothing is written without a request. The variable and the hint are requests.
#[test]
fn windows_are_recorded_only_on_request() {
    const CHILD: &str = "RMALAB_TEST_CHILD";
    let dir = Dir::new();
    if std::env::var_os(CHILD).is_some() {
        support::threads(2, |team| {
            Window::allocate(team, 8).unwrap().free().unwrap();
            let info = Info::from_pairs([("rmalab_record", dir.path.join("hint").to_string_lossy())]).unwrap();
            let window = Window::builder(team).info(&info).allocate(8).unwrap();
            assert_eq!((window.ignored().len(), window.info().get("rmalab_record")), (0, info.get("rmalab_record")));
            window.free().unwrap();
        });
        return;
    }
    for recorded in [false, true] {
        let here = dir.path.join(recorded.to_string());
        std::fs::create_dir(&here).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["trace::windows_are_recorded_only_on_request", "--exact"])
            .env(CHILD, "1")
            .env(DIR, &here)
            .current_dir(&here);
        child.env_remove(Config::RECORD_VARIABLE);
        if recorded {
            child.env(Config::RECORD_VARIABLE, here.join("variable"));
        }
        let output = child.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let folders = std::fs::read_dir(&here).unwrap().count();
        assert_eq!(folders, if recorded { 2 } else { 1 });
        Trace::open(here.join("hint")).unwrap();
        assert_eq!(Trace::open(here.join("variable")).is_ok(), recorded);
    }
}

/// Replays a trace under a policy on threads; returns each rank's observed lock calls, and the counts.
fn replay<W: WindowLock>(trace: &Trace, params: W::Params) -> Vec<(Vec<Step>, rmalab_atomics::Counts)> {
    let world = World::threads(trace.ranks());
    let ranks = world.run(|ra| {
        let ra = Counted::new(ra);
        let team = Team::new(&ra).unwrap();
        let builder = Window::builder(&team).info(trace.info()).policy::<W>(params);
        let mut replay = Replay::new(builder, trace.shape()).unwrap();
        let mut seen = Vec::new();
        let before = ra.counts();
        let done = replay.run(trace.steps(ra.rank()), |Observed { phase, locked, start, end }| {
            assert!(start <= end);
            let assert = Assert::None;
            match (phase, locked) {
                (Phase::Acquire, Locked::All) => seen.push(Step::LockAll { assert }),
                (Phase::Acquire, Locked::Target(kind, target)) => seen.push(Step::Lock { kind, target, assert }),
                (Phase::Release, Locked::All) => seen.push(Step::UnlockAll),
                (Phase::Release, Locked::Target(_, target)) => seen.push(Step::Unlock { target }),
                (Phase::Hold, _) => {}
            }
        });
        done.unwrap();
        let counts = ra.counts() - before;
        replay.free().unwrap();
        (seen, counts)
    });
    ranks.unwrap()
}

fn is_lock(step: &Step) -> bool {
    matches!(step, Step::LockAll { .. } | Step::UnlockAll | Step::Lock { .. } | Step::Unlock { .. })
}

#[test]
fn a_replay_makes_the_calls_of_the_trace_under_any_policy() {
    let dir = Dir::new();
    support::threads(3, |team| {
        let mut window = Window::builder(team).record(&dir.path).allocate(64).unwrap();
        many(team, &mut window, 200, |_| ());
        window.free().unwrap();
    });
    let trace = Trace::open(&dir.path).unwrap();
    let expected: Vec<Step> = steps_of_many(3, 200).into_iter().filter(is_lock).collect();
    for (rank, (seen, _)) in replay::<TwoLevel>(&trace, Default::default()).iter().enumerate() {
        assert_eq!(seen, &expected, "rank {rank}");
    }
    for (rank, (seen, _)) in replay::<PerTarget<McsRwRp>>(&trace, ()).iter().enumerate() {
        assert_eq!(seen, &expected, "rank {rank}");
    }
    // Without locks the other recorded operations remain.
    for (seen, counts) in replay::<Policy>(&trace, PolicyKind::NoCheck) {
        assert_eq!(seen, expected);
        assert_eq!((counts.put_bytes.total(), counts.fetch_add.total()), (200, 2));
    }
}

#[test]
fn a_replay_of_a_trace_that_ends_early_ends() {
    let dir = Dir::new();
    support::threads(2, |team| {
        let mut window = Window::builder(team).record(&dir.path).allocate(64).unwrap();
        for _ in 0..40 {
            many(team, &mut window, 40, |_| ());
            team.barrier().unwrap();
        }
        window.free().unwrap();
    });
    // The file of rank 1 loses its end, including barriers.
    let file = dir.path.join("window-rank-1.trace");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let trace = Trace::open(&dir.path).unwrap();
    let remarks = trace.remarks();
    assert!(remarks.len() == 2 && remarks[1].contains("in the middle of the block of "), "{remarks:?}");
    assert!(remarks[0].contains("barriers or fences that not all ranks have"), "{remarks:?}");
    let ranks = replay::<TwoLevel>(&trace, Default::default());
    assert!(ranks[1].0.len() < ranks[0].0.len());
}

/// Files of different programs, one for each rank, whose calls do not fit each other.
#[test]
fn calls_of_ranks_that_do_not_fit_are_errors() {
    let dir = Dir::new();
    let (fence, start) = (FenceAssert::default(), StartAssert::default());
    let nocheck = StartAssert { nocheck: true };
    // Programs of two ranks, which differ in the calls of rank 1.
    let record = |name: &str, body: &(dyn Fn(&Team<'_, Mapped>, &mut Window<'_, Mapped>) + Sync)| {
        support::threads(2, |team| {
            let mut window = Window::builder(team).record(dir.path.join(name)).allocate(8).unwrap();
            body(team, &mut window);
            window.free().unwrap();
        });
    };
    let epochs = |window: &mut Window<'_, Mapped>, groups: [&[Rank]; 2], assert: StartAssert| {
        let (mut access, mut exposure) = window.pscw().unwrap();
        let exposed = exposure.post_assert(groups[0], PostAssert { nocheck: assert.nocheck, ..PostAssert::default() });
        let exposed = exposed.unwrap();
        access.start_assert(groups[1], assert).unwrap().complete().unwrap();
        exposed.wait().unwrap();
    };
    let other = |team: &Team<'_, Mapped>| [Rank(1 - team.rank().0)];
    record("fences", &|_, window| drop(window.fence_assert(fence).unwrap().next().unwrap()));
    record("barriers", &|team, _| (0..2).for_each(|_| team.barrier().unwrap()));
    record("closed", &|_, window| window.fence().unwrap().close().unwrap());
    record("both", &|team, window| (0..3).for_each(|_| epochs(window, [&other(team), &other(team)], start)));
    record("one", &|team, window| epochs(window, [&other(team), &other(team)], start));
    record("unchecked", &|team, window| {
        for round in 0..3 {
            team.barrier().unwrap();
            epochs(window, [&other(team), &other(team)], if round == 1 { nocheck } else { start });
        }
    });
    record("checked", &|team, window| {
        for _ in 0..3 {
            team.barrier().unwrap();
            epochs(window, [&other(team), &other(team)], start);
        }
    });
    let cases = [
        ("fences", "barriers", "rank-1.trace: rank 1, event 1: a barrier, where ranks of lower numbers call a fence"),
        (
            "fences",
            "closed",
            "rank-1.trace: rank 1, event 2: a fence with nosucceed, where ranks of lower numbers call a fence",
        ),
        (
            "both",
            "one",
            "rank-0.trace: rank 0, event 6: a start with rank 1 in its group, for which rank 1 has no post",
        ),
        (
            "one",
            "both",
            "rank-1.trace: rank 1, event 5: a post with rank 0 in its group, for which rank 0 has no start",
        ),
        (
            "unchecked",
            "checked",
            "rank-0.trace: rank 0, event 8: a start that asserts nocheck and a post of rank 1 that does not",
        ),
    ];
    for (first, second, what) in cases {
        let mixed = dir.path.join(format!("{first}-{second}"));
        std::fs::create_dir(&mixed).unwrap();
        for (from, rank) in [(first, 0), (second, 1)] {
            let name = format!("window-rank-{rank}.trace");
            std::fs::copy(dir.path.join(from).join(&name), mixed.join(&name)).unwrap();
        }
        let error = Trace::open(&mixed).unwrap_err();
        assert!(matches!(error, TraceError::Epochs { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// Epochs of post and start that one file lacks are left out of the others.
#[test]
fn a_replay_leaves_out_epochs_that_not_all_files_have() {
    const ROUNDS: usize = 1500;
    let dir = Dir::new();
    support::threads(3, |team| {
        let mut window = Window::builder(team).record(&dir.path).allocate(64).unwrap();
        let others: Vec<Rank> = (0..3).map(Rank).filter(|&rank| rank != team.rank()).collect();
        for _ in 0..ROUNDS {
            let (mut access, mut exposure) = window.pscw().unwrap();
            let exposed = exposure.post(&others).unwrap();
            let accessed = access.start(&others).unwrap();
            for &target in &others {
                accessed.at(target).unwrap().put(WindowDisp(8), &[1u64]).unwrap();
            }
            accessed.complete().unwrap();
            exposed.wait().unwrap();
        }
        window.fence().unwrap().close().unwrap();
        window.free().unwrap();
    });
    assert_eq!(Trace::open(&dir.path).unwrap().remarks().len(), 0);
    let file = dir.path.join("window-rank-1.trace");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let trace = Trace::open(&dir.path).unwrap();
    let remarks = trace.remarks();
    let lost = |of: &str| remarks.iter().any(|remark| remark.contains(of));
    assert!(lost("epochs of post and start of rank 0 with rank 1") && lost("of rank 1 with rank 2"), "{remarks:?}");
    assert!(!lost("of rank 0 with rank 2"), "{remarks:?}");
    let puts = |rank, target| {
        let to = |step: &Step| matches!(step, Step::Put { target: of, .. } if *of == Rank(target));
        calls(&trace, rank).iter().filter(|step| to(step)).count()
    };
    assert_eq!((puts(0, 2), puts(2, 0)), (ROUNDS, ROUNDS));
    assert!(puts(0, 1) < ROUNDS && puts(1, 0) <= puts(0, 1) + 1, "{} {}", puts(0, 1), puts(1, 0));
    // No rank has the fence at its end, since rank 1 lacks it.
    assert!(!calls(&trace, 0).iter().any(|step| matches!(step, Step::Fence(_))));
    replay::<TwoLevel>(&trace, Default::default());
}

#[test]
fn a_replay_ends_open_epochs_and_refuses_impossible_steps() {
    World::threads(1)
        .run(|ra| {
            let team = Team::new(ra).unwrap();
            let mut replay = Replay::new(Window::builder(&team), &Shape::allocated(1000)).unwrap();
            let mut run = |steps: &[Step]| {
                let mut phases = Vec::new();
                let done = replay.run(steps.iter().map(|step| Ok(step.clone())), |seen| phases.push(seen.phase));
                (done, phases)
            };
            let (target, disp, none) = (Rank(0), WindowDisp(0), Assert::None);
            let update = |call, bytes| Step::Update { call, target, disp, bytes };
            let mut updates = Vec::new();
            for kind in ElementKind::ALL {
                for op in Op::ALL.into_iter().filter(|op| op.is_defined_for(kind)) {
                    for n in [0, 1, 3, 8] {
                        updates.push(update(Update::Accumulate(kind, op), n * kind.size()));
                        updates.push(update(Update::GetAccumulate(kind, op), n * kind.size()));
                    }
                    updates.push(update(Update::FetchAndOp(kind, op), kind.size()));
                }
                if kind.is_swappable() {
                    updates.push(update(Update::CompareAndSwap(kind), kind.size()));
                }
            }
            let mut steps = vec![
                Step::Lock { kind: LockKind::Exclusive, target, assert: none },
                Step::Put { target, disp, bytes: 1000 },
                Step::Get { target, disp, bytes: 1000 },
                Step::Get { target, disp: WindowDisp(5000), bytes: 0 },
                Step::Compute(10),
                Step::Flush { target },
                Step::FlushAll,
            ];
            steps.extend(updates.clone());
            steps.push(Step::BatchBegin);
            steps.extend(updates);
            let (done, phases) = run(&steps);
            done.unwrap();
            assert_eq!(phases, [Phase::Acquire, Phase::Hold, Phase::Release]);
            let (done, _) = run(&[
                Step::Post { group: [target].into(), assert: PostAssert::default() },
                Step::Start { group: [target].into(), assert: StartAssert::default() },
                Step::Put { target, disp, bytes: 8 },
            ]);
            done.unwrap();
            let lock = Step::LockAll { assert: none };
            let put = |target, disp, bytes| Step::Put { target: Rank(target), disp: WindowDisp(disp), bytes };
            let wrong: [(&[Step], &str); 10] = [
                (&[Step::Unlock { target }], "unlock of rank 0, which it has not locked"),
                (&[Step::UnlockAll], "unlock_all without a lock_all"),
                (&[put(0, 0, 8)], "rank 0"),
                (&[Step::Complete], "complete"),
                (&[lock.clone(), put(7, 0, 8)], "rank 7"),
                (&[Step::Unlock { target }, put(0, 996, 8)], "unlock of rank 0"),
                (&[put(0, 0, u64::MAX)], "1000 bytes"),
                (&[update(Update::FetchAndOp(ElementKind::U64, Op::Sum), 4)], "4 bytes"),
                (&[update(Update::Accumulate(ElementKind::U32, Op::Sum), 6)], "6 bytes"),
                (&[update(Update::CompareAndSwap(ElementKind::F64), 8)], "f64"),
            ];
            for (steps, what) in wrong {
                let error = run(steps).0.unwrap_err().to_string();
                assert!(error.contains(what), "{error}");
            }
        })
        .unwrap();
}

/// A program of all kinds of epochs on a window with parts and units of different sizes.
fn mixed(team: &Team<'_, Mapped>, mut window: Window<'_, Mapped>, starts: &[i64]) -> rmalab_windows::Result<()> {
    let (me, size) = (team.rank().0, team.size());
    let (next, before) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let at = |target: Rank, disp: i64| WindowDisp(starts[target.index()] + disp);
    for round in 0..5 {
        let fence = window.fence()?;
        for target in (0..size).map(Rank) {
            fence.at(target)?.put(at(target, i64::from(me) + round), &[me as u8; 8])?;
            fence.at(target)?.accumulate(at(target, 64), Op::Sum, &[1u64, 2])?;
        }
        let fence = fence.next()?;
        fence.at(next)?.get(at(next, 24), &mut [0u8; 40])?;
        fence.close()?;

        let (mut access, mut exposure) = window.pscw()?;
        let group = if round % 2 == 0 { vec![before] } else { vec![before, Rank(me)] };
        let mut exposed = exposure.post_assert(&group, PostAssert { noput: round == 3, ..PostAssert::default() })?;
        let group = if round % 2 == 0 { vec![next] } else { vec![Rank(me), next] };
        let accessed = access.start(&group)?;
        accessed.at(next)?.put(at(next, 10 * round), &vec![1u8; round as usize])?;
        accessed.complete()?;
        while round == 4 && !exposed.test()? {}
        exposed.wait()?;

        let kind = if round % 2 == 0 { LockKind::Shared } else { LockKind::Exclusive };
        let epoch = window.lock(kind, next)?;
        epoch.fetch_and_op(at(next, 64), Op::Sum, 1u64)?;
        epoch.compare_and_swap(at(next, 80), 0u32, 1)?;
        epoch.get_accumulate(at(next, 64), Op::Max, &[1u64, 2], &mut [0; 2])?;
        epoch.fetch_and_op(at(next, 64), Op::Replace, 1.0f64)?;
        epoch.fetch_and_op(at(next, 64), Op::Sum, -1i64)?;
        epoch.fetch_and_op(at(next, 64), Op::BitAnd, 1u8)?;
        epoch.compare_and_swap(at(next, 80), 0i64, 1)?;
        epoch.accumulate(at(next, 80), Op::MinLoc, &[DoubleInt::new(1.0, 1)])?;
        epoch.flush()?;
        let (source, mut dest, mut old) = ([1u8; 20], [0u8; 33], 0u64);
        let (mut floats, mut swapped, mut signed) = ([0f64; 3], 0i64, 0i64);
        epoch.batch(|batch| {
            batch.put(&epoch, at(next, 0), &source)?;
            batch.get(&epoch, at(next, 3), &mut dest)?;
            batch.get_accumulate(&epoch, at(next, 80), Op::Replace, &[1f64; 3], &mut floats)?;
            batch.compare_and_swap(&epoch, at(next, 80), 0i64, 1, &mut swapped)?;
            batch.fetch_and_op(&epoch, at(next, 80), Op::BitXor, 1i64, &mut signed)?;
            epoch.accumulate(at(next, 80), Op::Prod, &[1f32; 2])?;
            batch.fetch_and_op(&epoch, at(next, 64), Op::Sum, 1u64, &mut old)
        })?;
        epoch.unlock()?;
        let all = window.lock_all_assert(if round == 2 { Assert::NoCheck } else { Assert::None })?;
        all.at(before)?.put(at(before, 1), &[0u8; 3])?;
        all.flush_all()?;
        all.unlock_all()?;
        team.barrier()?;
    }
    window.free()
}

/// Makes a window of this kind, with parts of growing size, and returns the starts of the parts.
fn of_kind<'t>(team: &'t Team<'t, Mapped>, kind: &str, builder: Builder<'t, Mapped>) -> (Window<'t, Mapped>, Vec<i64>) {
    let mut starts = vec![0; team.size() as usize];
    let bytes = 256 + 8 * u64::from(team.rank().0);
    let window = match kind {
        "created" => builder.create(UserMemory::from_vec(vec![0u8; bytes as usize])),
        "shared" => builder.allocate_shared(bytes),
        "dynamic" => {
            let window = builder.create_dynamic().unwrap();
            // Memory that is attached and detached, and some that stays.
            let first = window.attach(UserMemory::from_vec(vec![0u64; 4])).unwrap();
            let own = window.attach(UserMemory::from_vec(vec![0u8; bytes as usize])).unwrap();
            window.detach(first).unwrap();
            starts = team.allgather(&[own.0 as u64]).unwrap().into_iter().map(|start| start as i64).collect();
            Ok(window)
        }
        _ => builder.allocate(bytes),
    };
    (window.unwrap(), starts)
}

/// Returns the calls of a trace. Displacements of a dynamic window count from the start of each rank's memory.
fn comparable(trace: &Trace, rank: u32, starts: &[i64]) -> Vec<String> {
    let start = |target: Rank| starts[target.index()];
    let calls = calls(trace, rank).into_iter().map(|step| match step {
        Step::Put { target, disp, bytes } => Step::Put { target, disp: disp.plus(-start(target)), bytes },
        Step::Get { target, disp, bytes } => Step::Get { target, disp: disp.plus(-start(target)), bytes },
        Step::Update { call, target, disp, bytes } => {
            Step::Update { call, target, disp: disp.plus(-start(target)), bytes }
        }
        step => step,
    });
    calls.map(|step| format!("{step:?}")).collect()
}

/// A replay repeats the recorded calls, targets, displacements, bytes, elements, operations, groups and assertions.
#[test]
fn a_replay_that_is_recorded_is_the_same_trace() {
    let dir = Dir::new();
    for kind in KINDS {
        let first = dir.path.join(kind).join("first");
        let mut config = Config::default();
        if let Some(transport) = Transport::ALL.iter().find(|transport| transport.name() == kind) {
            config.transport = *transport;
        }
        let starts = support::threads(3, |team| {
            let (window, starts) = of_kind(team, kind, Window::builder(team).config(config).record(&first));
            mixed(team, window, &starts).unwrap();
            starts
        });
        let trace = Trace::open(&first).unwrap();
        assert_eq!(trace.remarks().len(), 0, "{:?}", trace.remarks());
        let again = dir.path.join(kind).join("again");
        for (what, shape) in [("same", trace.shape().clone()), ("allocated", trace.shape().clone().in_segments())] {
            let again = again.join(what);
            support::threads(3, |team| {
                let builder = Window::builder(team).info(trace.info()).record(&again);
                let mut replay = Replay::new(builder, &shape).unwrap();
                replay.run(trace.steps(team.rank()), |_| ()).unwrap();
                replay.free().unwrap();
            });
            let second = Trace::open(&again).unwrap();
            assert_eq!(second.info(), trace.info());
            if kind != "dynamic" {
                assert_eq!(second.shape(), &shape, "{kind}");
            }
            for rank in 0..3 {
                let expected = comparable(&trace, rank, &starts[0]);
                let moved = second_starts(&second, &trace, &starts[0], kind);
                assert_eq!(comparable(&second, rank, &moved), expected, "{kind}, {what}: rank {rank}");
                assert!(expected.len() > 100);
            }
        }
    }
}

/// Returns the start of each rank's memory in a replay of a dynamic window, at the same distance from the recorded
/// start as every put.
fn second_starts(second: &Trace, first: &Trace, starts: &[i64], kind: &str) -> Vec<i64> {
    if kind != "dynamic" {
        return starts.to_vec();
    }
    let place = |trace: &Trace, target: Rank| {
        let put = |step: &Step| match *step {
            Step::Put { target: of, disp, .. } if of == target => Some(disp.0),
            _ => None,
        };
        calls(trace, 0).iter().find_map(put).unwrap()
    };
    let targets = (0..first.ranks()).map(Rank);
    targets.map(|target| starts[target.index()] + place(second, target) - place(first, target)).collect()
}

/// A recorder of another library's windows writes the steps that it is given, with the times between them.
#[test]
fn steps_that_are_recorded_one_by_one_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let what = |rank| Description {
        rank,
        topology: Topology::one_node(2),
        window: "table".to_owned(),
        flavor: Flavor::Create,
        bytes: 64,
        unit: 8,
        info: "rmalab_mode=record".parse().unwrap(),
        clock: "nanoseconds of a test".to_owned(),
    };
    let group: std::sync::Arc<[Rank]> = [Rank(0), Rank(1)].into();
    let update = |call, bytes| Step::Update { call, target: Rank(1), disp: WindowDisp(2), bytes };
    let steps = [
        Step::Lock { kind: LockKind::Shared, target: Rank(1), assert: Assert::NoCheck },
        Step::Put { target: Rank(1), disp: WindowDisp(7), bytes: 8 },
        Step::Get { target: Rank(1), disp: WindowDisp(0), bytes: 64 },
        update(Update::Accumulate(ElementKind::F32, Op::Max), 24),
        update(Update::GetAccumulate(ElementKind::Byte, Op::Replace), 5),
        update(Update::FetchAndOp(ElementKind::I16, Op::BitOr), 2),
        update(Update::CompareAndSwap(ElementKind::U64), 8),
        Step::BatchBegin,
        Step::BatchEnd,
        Step::Flush { target: Rank(1) },
        Step::FlushAll,
        Step::Unlock { target: Rank(1) },
        Step::Lock { kind: LockKind::Exclusive, target: Rank(0), assert: Assert::None },
        Step::Unlock { target: Rank(0) },
        Step::LockAll { assert: Assert::None },
        Step::UnlockAll,
        Step::Barrier,
        Step::Fence(FenceAssert { noprecede: true, nosucceed: true, ..FenceAssert::default() }),
        Step::Post { group: group.clone(), assert: PostAssert { noput: true, ..PostAssert::default() } },
        Step::Start { group: group.clone(), assert: StartAssert::default() },
        Step::Complete,
        Step::Wait,
        Step::Post { group: group.clone(), assert: PostAssert::default() },
        Step::Start { group, assert: StartAssert::default() },
        Step::Complete,
        Step::Test,
    ];
    // Both ranks at once: rank 0 names the trace, and each has its file.
    for rank in [Rank(0), Rank(1)] {
        let all = |number| Ok(vec![number; 2]);
        let recorder = Recorder::new::<Error>(dir.path(), &what(rank), || Time(1000), |_| Ok(1), all).unwrap();
        for (at, step) in (1..).zip(&steps) {
            // A call of 3 ns every 10 ns, after which the recorder takes 2 ns.
            recorder.record(&Step::Compute(4), Time(0), || panic!("a computation is no call"));
            recorder.record(step, Time(1000 + 10 * at), || Time(1000 + 10 * at + 5));
        }
        assert!(recorder.path().ends_with(format!("table-rank-{}.trace", rank.0)));
        recorder.finish().unwrap();
    }
    let trace = Trace::open(dir.path()).unwrap();
    assert_eq!((trace.window(), trace.info().get("rmalab_mode")), ("table", Some("record")));
    assert_eq!(trace.clock(), "nanoseconds of a test");
    for rank in [Rank(0), Rank(1)] {
        assert_eq!(calls(&trace, rank.0), steps, "{rank}");
        let gaps: Vec<u64> = (trace.steps(rank))
            .filter_map(|step| match step.unwrap() {
                Step::Compute(gap) => Some(gap),
                _ => None,
            })
            .collect();
        assert_eq!((gaps[0], gaps.len()), (10, steps.len()));
        assert!(gaps[1..].iter().all(|&gap| gap == 5), "{gaps:?}");
    }
}

#[test]
fn a_recorder_without_a_file_at_one_rank_leaves_none() {
    let dir = tempfile::tempdir().unwrap();
    let what = Description {
        rank: Rank(0),
        topology: Topology::one_node(2),
        window: String::new(),
        flavor: Flavor::Allocate,
        bytes: 0,
        unit: 1,
        info: Info::new(),
        clock: String::new(),
    };
    let made = Recorder::new::<Error>(dir.path(), &what, || Time(0), Ok, |number| Ok(vec![number, 0]));
    assert!(matches!(made, Err(Error::NotMade { rank: Rank(1) })), "{made:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
