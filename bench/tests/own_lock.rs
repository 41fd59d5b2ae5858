//! A lock from outside the workspace: every part of the laboratory accepts its name, and detects its faults.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmalab::finding::{Cell, Value};
use rmalab::verify::{Selection, Verdict};
use rmalab::{Options, Order, Registry, simulate, study};
use rmalab_atomics::sim::Profile;
use rmalab_atomics::{Address, Backend, RemoteAtomics, Time, WORD};
use rmalab_locks::{Exclusive, Place, RawMutex, RawMutexTimed, RawMutexTry, Result};
use rmalab_verify::{Form, Network, explorer};

/// A test-and-set by an atomic, or by a get and a put; with or without release.
#[derive(Debug)]
struct Word<const SPLIT: bool, const RELEASES: bool>(Address);

impl<const SPLIT: bool, const RELEASES: bool> RawMutex for Word<SPLIT, RELEASES> {
    const NAME: &'static str = match (SPLIT, RELEASES) {
        (false, _) if !RELEASES => "never-free",
        (true, _) => "get-then-put",
        _ => "my-mutex",
    };
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<Self> {
        Ok(Word(place.word(0)))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if SPLIT {
            while ra.get(self.0)? != 0 {
                ra.pause(4)?;
            }
            return Ok(ra.put(self.0, 1)?);
        }
        while ra.compare_and_swap(self.0, 0, 1)? != 0 {
            ra.pause(4)?;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if RELEASES {
            ra.put(self.0, 0)?;
            ra.flush(self.0.rank)?;
        }
        Ok(())
    }
}

#[test]
fn the_simulator_says_that_a_lock_is_never_free_again() {
    let mut registry = Registry::standard();
    registry.add_mutex::<Word<false, false>>("never releases");
    let mut options = simulate::Options::new(Profile::builtin("fx100").unwrap());
    options.locks = vec!["never-free".into()];
    options.ranks = vec![4];
    options.max_events = 10_000_000;
    let outcome = simulate::Simulation::new(&registry, options).unwrap().run(|_| ()).unwrap();
    let why = &outcome.left_out[0].why;
    assert!(why.contains("No rank was done with an acquisition") && why.contains("verify --lock never-free"), "{why}");
}

#[test]
fn the_simulator_leaves_out_a_lock_that_two_ranks_hold() {
    let mut registry = Registry::standard();
    registry.add_mutex::<Word<true, true>>("a get and a put");
    registry.add_mutex::<Word<false, true>>("a compare-and-swap");
    let mut options = simulate::Options::new(Profile::builtin("fx100").unwrap());
    options.locks = vec!["get-then-put".into(), "my-mutex".into()];
    options.ranks = vec![4];
    options.loads[0].mix = simulate::Mix { lock_all: 0.0, shared: 0.0, exclusive: 1.0 };
    // Without an operation inside, a rank is inside for no time.
    options.loads[0].section = simulate::Section::Operation;
    let outcome = simulate::Simulation::new(&registry, options).unwrap().run(|_| ()).unwrap();
    let why = &outcome.left_out[0].why;
    assert!(outcome.left_out.len() == 1 && outcome.left_out[0].is_violated() && why.contains("verify"), "{why}");
    assert_eq!(outcome.points.iter().map(|point| point.key.lock.as_str()).collect::<Vec<_>>(), ["my-mutex"]);
}

/// A lock that is released some times, and then never again.
#[derive(Debug)]
struct StuckLater(Word<false, true>);

impl RawMutex for StuckLater {
    const NAME: &'static str = "stuck-later";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, (): ()) -> Result<Self> {
        Word::bind(ra, place, ()).map(StuckLater)
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.0.acquire(ra)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        static RELEASES: AtomicU64 = AtomicU64::new(0);
        if RELEASES.fetch_add(1, Ordering::Relaxed) < 500 { self.0.release(ra) } else { Ok(()) }
    }
}

fn registry() -> Registry {
    let mut registry = Registry::standard();
    registry.add_mutex::<Word<false, true>>("right");
    registry.add_mutex::<Word<true, true>>("two ranks may see it free");
    registry.add_mutex::<Word<false, false>>("no rank gets it a second time");
    registry.add_mutex::<StuckLater>("released some times only");
    registry
}

fn options(locks: &[&str]) -> Options {
    let mut options = Options::default();
    options.backends = vec![Backend::Local];
    options.ranks = vec![4];
    options.read_fractions = vec![0.5];
    options.locks = locks.iter().map(|&name| name.to_owned()).collect();
    options.duration = Some(Duration::from_millis(500));
    options
}

#[test]
fn a_study_marks_a_lock_that_two_ranks_hold() {
    let outcome = study::run(&registry(), &options(&["tas", "get-then-put", "my-mutex", "nocheck"])).unwrap();
    let violated: Vec<&str> = outcome.violated().map(|cell| cell.key.lock.as_str()).collect();
    assert_eq!(violated, ["get-then-put"], "{:?}", outcome.cells);
    let document = outcome.document();
    assert!(document.summary[0].starts_with("VIOLATED: ") && document.summary[0].contains("get-then-put"));
    let data = document.data.as_ref().unwrap();
    let violations = |row: &&Vec<Cell>| data.get(row, "violations").unwrap().value != Value::Count(0);
    assert_eq!(data.rows.iter().filter(violations).count(), 1);
    let shown = rmalab::document::text::document(&document, usize::MAX);
    assert!(shown.contains("get-then-put VIOLATED"), "{shown}");
}

#[test]
fn a_study_of_a_lock_that_is_never_released_ends_with_the_place() {
    let mut options = options(&["never-free"]);
    options.patience = Duration::from_millis(300);
    let said = study::run(&registry(), &options).unwrap_err().to_string();
    for part in ["never-free", "rank ", "compare_and_swap on", "no rank has come further"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// The timed passes do not read the clock while they wait. The watchdog ends the process, which is this test
/// once more.
#[test]
fn a_study_of_a_lock_that_is_stuck_later_ends_as_well() {
    const CHILD: &str = "RMALAB_TEST_STUCK";
    if std::env::var_os(CHILD).is_some() {
        let mut options = options(&["stuck-later"]);
        options.patience = Duration::from_millis(300);
        let outcome = study::run(&registry(), &options);
        panic!("the watchdog has not ended this process: {outcome:?}");
    }
    let name = "own_lock::a_study_of_a_lock_that_is_stuck_later_ends_as_well";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["error: stuck-later: rank ", "has not returned from an acquire or a release", "warm-up"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

impl RawMutexTry for Word<false, true> {
    fn try_acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<bool> {
        Ok(ra.compare_and_swap(self.0, 0, 1)? == 0)
    }
}

impl RawMutexTimed for Word<false, true> {
    fn acquire_until<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, deadline: Time) -> Result<bool> {
        while ra.compare_and_swap(self.0, 0, 1)? != 0 {
            if ra.now() >= deadline {
                return Ok(false);
            }
            ra.pause(4)?;
        }
        Ok(true)
    }
}

#[test]
fn its_other_forms_are_checked_and_its_order() {
    type Add = fn(&mut Registry) -> &mut rmalab::Subject;
    let jobs = |add: Add, scenario: Option<&str>, order| {
        let mut registry = Registry::empty();
        add(&mut registry);
        let selection = Selection {
            locks: vec!["my-mutex".into()],
            scenarios: scenario.iter().map(|scenario| scenario.parse().unwrap()).collect(),
            networks: vec![Network::Sc],
            order,
            ..Selection::default()
        };
        selection.jobs(&registry, &explorer::Options::default()).map_err(|error| error.to_string())
    };
    let verdict = |add, scenario, order| jobs(add, Some(scenario), order).map(|jobs| jobs[0].run(&|_| true).verdict);
    type Mine = Word<false, true>;
    let tried: Add = |registry| registry.add_tried_mutex::<Mine>("tried");
    let timed: Add = |registry| registry.add_timed_mutex::<Mine>("timed");
    let shared: Add = |registry| registry.add_timed_rw_lock::<Exclusive<Mine>>("both");
    let fair: Add = |registry| registry.add_mutex::<Mine>("fair").order(Order::Fifo);
    assert_eq!(verdict(tried, "2Wtry x2", false), Ok(Verdict::Holds));
    assert!(verdict(tried, "2Wtimed x1", false).is_err_and(|error| error.contains("use try")));
    assert!(verdict(tried, "2Wx1", true).is_err_and(|error| error.contains("my-mutex claims no order")));
    assert_eq!(verdict(timed, "2Wtimed x1", false), Ok(Verdict::Holds));
    assert_eq!(verdict(shared, "1R1Wtimed x1", false), Ok(Verdict::Holds));
    assert!(matches!(verdict(fair, "3Wx1", true), Ok(Verdict::Violated { .. })));

    // The standard configurations have them, too.
    let standard = |add| jobs(add, None, false).unwrap();
    for (add, form) in [(tried, Form::Try), (timed, Form::Timed), (shared, Form::Timed)] {
        assert!(standard(add).iter().any(|job| job.check.scenario.has(form)));
    }
    assert!(standard(fair).iter().any(|job| job.options.order) && standard(tried).iter().all(|job| !job.options.order));
}

#[test]
fn the_engines_check_it() {
    let registry = registry();
    let check = |name: &str| {
        let selection =
            Selection { locks: vec![name.into()], scenarios: vec!["2Wx1".parse().unwrap()], ..Selection::default() };
        let jobs = selection.jobs(&registry, &explorer::Options::default()).unwrap();
        jobs[0].run(&|_| true)
    };
    assert_eq!(check("my-mutex").verdict, Verdict::Holds);
    assert!(check("get-then-put").counterexample().is_some());
    let error = Selection { locks: vec!["my-mutxe".into()], ..Selection::default() }
        .jobs(&registry, &explorer::Options::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean 'my-mutex'?"), "{error}");
}

#[test]
fn it_is_simulated_and_a_candidate_of_advice() {
    use rmalab::{advise, simulate};

    let registry = registry();
    let mut options = simulate::Options::new(Profile::builtin("fx100").unwrap());
    (options.locks, options.ranks, options.pairs) = (vec!["my-mutex".into()], vec![16], Some(4));
    let outcome = simulate::Simulation::new(&registry, options).unwrap().run(|_| {}).unwrap();
    assert_eq!(outcome.points.len(), 1, "{:?}", outcome.left_out);

    let at = tempfile::tempdir().unwrap();
    let work = at.path().join("work.toml");
    let text = "ranks = 4\nranks_per_node = 4\nacquisitions = 20\nobjective = \"throughput\"\n\n[[class]]\nshare = 1.0\n\
                lock = \"exclusive\"\ntargets = \"own\"\nbetween = \"1us\"\ninside = \"100ns\"\n";
    std::fs::write(&work, text).unwrap();
    let options = advise::Options {
        workload: Some(work),
        policies: vec!["my-mutex".into(), "two-level".into()],
        seeds: 2,
        ..advise::Options::default()
    };
    let advice = advise::Advise::new(&registry, options).unwrap().run(&|_| ()).unwrap().unwrap();
    let row = advice.rows.iter().find(|row| row.candidate == "my-mutex").expect("it is ranked");
    assert!(row.info.is_empty() && row.builder.contains(".policy::<Global<Exclusive<Word<"), "{}", row.builder);
    assert!(row.throughput.mean > 0.0);
}
