//! A corpus of locks: unusual correct locks, and broken locks whose error is hard to find. Each has the verdict that the
//! explorer should have. A mark of a still wrong verdict fails once the verdict is right. A depth-first search has to agree
//! with the breadth-first one in its verdict, and where both reach their end, in its states.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod broken;
mod chance;
mod correct;
mod protocol;

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rmalab_verify::explorer::{Options, Search, explore};
use rmalab_verify::shuttle_engine;
use rmalab_verify::{Check, Counterexample, Finding, Live, Network, Progress, Property, Subject};

/// A network without late puts.
const SC: &[Network] = &[Network::Sc];
/// A network with late puts.
const LATE: &[Network] = &[Network::LatePuts];
/// Without and with late puts.
const BOTH: &[Network] = &[Network::Sc, Network::LatePuts];

const EXCLUSION: &[Property] = &[Property::MutualExclusion];
const LIVELOCK: &[Property] = &[Property::NoLivelock];
const REST: &[Property] = &[Property::CleanRest];
/// Ranks wait forever. The number of them depends on the schedule.
const STUCK: &[Property] = &[Property::NoDeadlock, Property::NoLostWakeUp];

/// The correct verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Holds,
    /// One of these is broken first.
    Breaks(&'static [Property]),
    /// The search has no end, so that a limit has to end it.
    Limit,
}

/// The explorer's verdict of today.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Today {
    Right,
    /// At least one run has this wrong verdict; the other runs are right.
    Wrong(&'static str),
}

/// A lock, its runs, and the verdict of all of them.
struct Entry {
    name: &'static str,
    subject: fn() -> Subject,
    scenarios: &'static [&'static str],
    networks: &'static [Network],
    symmetry: &'static [bool],
    options: Options,
    /// True if a replay can show that the expected verdict is right: it has no clock, and nothing decides but answers.
    replays: bool,
    /// A schedule that shows it, if it is too rare to be found by chance: ranks, and their steps in a row.
    script: Vec<(u32, u32)>,
    expected: Expected,
    today: Today,
}

impl Entry {
    fn new(name: &'static str, subject: fn() -> Subject, expected: Expected) -> Entry {
        let options =
            Options { threads: 2, max_bytes: 1 << 30, max_time: Some(Duration::from_secs(60)), ..Options::default() };
        Entry {
            name,
            subject,
            scenarios: &["2Wx2"],
            networks: SC,
            symmetry: &[true],
            options,
            replays: true,
            script: Vec::new(),
            expected,
            today: Today::Right,
        }
    }

    fn on(self, networks: &'static [Network]) -> Entry {
        Entry { networks, ..self }
    }

    /// Runs it with symmetry and without.
    fn with_and_without_symmetry(self) -> Entry {
        Entry { symmetry: &[true, false], ..self }
    }

    /// Ends each run at this number of states, for searches that have no end.
    fn at_most(mut self, states: u64) -> Entry {
        self.options.max_states = Some(states);
        self
    }

    fn limits(mut self, max_bytes: u64, seconds: u64) -> Entry {
        self.options.max_bytes = max_bytes;
        self.options.max_time = Some(Duration::from_secs(seconds));
        self
    }

    /// Declares that no replay can show the expected verdict.
    fn beyond_replays(self) -> Entry {
        Entry { replays: false, ..self }
    }

    fn script(self, script: Vec<(u32, u32)>) -> Entry {
        Entry { script, ..self }
    }

    /// The checks of all its scenarios and networks.
    fn checks(&self) -> impl Iterator<Item = Check> {
        self.scenarios.iter().flat_map(|scenario| {
            self.networks.iter().map(|&network| {
                let scenario = scenario.parse().unwrap();
                Check { network, ..Check::new((self.subject)(), scenario) }
            })
        })
    }

    /// Marks a wrong verdict of today.
    fn today(self, verdict: &'static str) -> Entry {
        Entry { today: Today::Wrong(verdict), ..self }
    }
}

fn holds(
    name: &'static str,
    scenarios: &'static [&'static str],
    networks: &'static [Network],
    subject: fn() -> Subject,
) -> Entry {
    Entry { scenarios, networks, ..Entry::new(name, subject, Expected::Holds) }
}

fn breaks(
    name: &'static str,
    scenarios: &'static [&'static str],
    properties: &'static [Property],
    subject: fn() -> Subject,
) -> Entry {
    Entry { scenarios, ..Entry::new(name, subject, Expected::Breaks(properties)) }
}

/// Returns whether the cycle of a livelock is one: no rank enters or leaves in 300 rounds, and each ends where it began.
fn repeats(check: &Check, found: &Counterexample) -> bool {
    let Some(cycle) = found.cycle else { return false };
    let mut live = Live::new(check).unwrap();
    if found.schedule[..cycle].iter().any(|&choice| live.take(choice).is_err()) {
        return false;
    }
    let now = |live: &mut Live| {
        let words: Vec<_> = live.words().filter(|&(_, word)| word != 0).collect();
        (words, live.calls().collect::<Vec<_>>(), live.statuses(), live.choices())
    };
    let before = now(&mut live);
    (0..300).all(|_| {
        let same = found.schedule[cycle..].iter().all(|&choice| live.take(choice).is_ok_and(|s| s.events.is_empty()));
        same && now(&mut live) == before
    })
}

/// The verdict of one run, and its progress.
fn verdict(check: &Check, options: &Options) -> (String, Progress) {
    match catch_unwind(AssertUnwindSafe(|| explore(check, options, &|_| true))) {
        Err(_) => ("crash".to_owned(), Progress::default()),
        Ok(Err(error)) => (format!("unsound: {error}"), Progress::default()),
        Ok(Ok(outcome)) => {
            let text = match &outcome.finding {
                Finding::Holds => "holds".to_owned(),
                Finding::Incomplete(limit) => format!("limit: {}", limit.name()),
                Finding::Violated(found) => match found.violation.property {
                    Property::NoLivelock if !repeats(check, found) => "false no-livelock".to_owned(),
                    property => property.name().to_owned(),
                },
            };
            (text, outcome.progress)
        }
    }
}

/// Returns whether a verdict is right. For a broken lock, it is enough that the explorer reports an incomplete search.
fn is_right(expected: Expected, verdict: &str) -> bool {
    match expected {
        Expected::Holds => verdict == "holds",
        Expected::Breaks(properties) => {
            let breaks = properties.iter().any(|property| property.name() == verdict);
            breaks || verdict.starts_with("unsound: ") || verdict.starts_with("limit: ")
        }
        Expected::Limit => verdict.starts_with("limit: "),
    }
}

/// The error in the verdict of a depth-first search, compared with a complete breadth-first search.
fn disagrees(entry: &Entry, breadth: &(String, Progress), depth: &(String, Progress)) -> Option<String> {
    let ((one, by_breadth), (other, by_depth)) = (breadth, depth);
    let agree = match one.as_str() {
        "holds" => other == "holds" && by_breadth.states == by_depth.states,
        // It does not search for livelocks.
        "no-livelock" => other == "holds",
        _ if one.starts_with("unsound: ") => is_right(entry.expected, other),
        // The first violation that it comes to may be one of another property.
        _ => Property::ALL.iter().any(|property| property.name() == other),
    };
    let states = (by_breadth.states, by_depth.states);
    (!agree).then(|| format!("{one} breadth-first, {other} depth-first, of {} and {} states", states.0, states.1))
}

/// Runs all entries, and fails with the list of entries whose verdict is not the marked one.
fn run_all(entries: &[Entry], runs: &Sender<String>) {
    let mut failures = String::new();
    for entry in entries {
        let Entry { name, expected, today, .. } = entry;
        let mut wrong = Vec::new();
        for check in entry.checks() {
            for &symmetry in entry.symmetry {
                let Check { scenario, network, .. } = &check;
                runs.send(format!("{name} {scenario} {network} symmetry {symmetry}")).unwrap();
                let begun = Instant::now();
                let (verdict, progress) = verdict(&check, &Options { symmetry, ..entry.options.clone() });
                println!(
                    "{name:32} {scenario:7} {network:9} symmetry {symmetry:5} {:>8} states {:6.2} s  expected {expected:?}, is {verdict}",
                    progress.states,
                    begun.elapsed().as_secs_f64()
                );
                if !is_right(*expected, &verdict) {
                    wrong.push((format!("{scenario} {network} symmetry {symmetry}"), verdict));
                } else if !verdict.starts_with("limit: ") && *today == Today::Right {
                    let options = Options { symmetry, search: Search::DepthFirst, ..entry.options.clone() };
                    let depth = self::verdict(&check, &options);
                    if let Some(why) = disagrees(entry, &(verdict, progress), &depth) {
                        writeln!(failures, "{name} {scenario} {network} symmetry {symmetry}: {why}").unwrap();
                    }
                }
            }
        }
        let unmarked = |verdict: &str| !matches!(today, Today::Wrong(known) if verdict.starts_with(known));
        for (run, verdict) in wrong.iter().filter(|(_, verdict)| unmarked(verdict)) {
            writeln!(failures, "{name} {run}: expected {expected:?}, is {verdict}").unwrap();
        }
        if wrong.is_empty() && *today != Today::Right {
            writeln!(failures, "{name}: every verdict is right now: remove its mark {today:?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "wrong verdicts:\n{failures}");
}

/// Runs the entries, and ends the process if the explorer neither ends nor keeps its limits.
fn watched(entries: &[Entry]) {
    std::thread::scope(|scope| {
        let (sender, runs) = channel::<String>();
        scope.spawn(move || {
            let mut last = String::new();
            loop {
                match runs.recv_timeout(Duration::from_secs(180)) {
                    Ok(run) => last = run,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        // The test captures what a macro prints.
                        let _ = writeln!(std::io::stderr(), "{last} neither ends nor reaches its limits");
                        std::process::exit(101);
                    }
                }
            }
        });
        run_all(entries, &sender);
        drop(sender);
    });
}

#[test]
#[ignore = "a quarter of a minute; .ci/run longer"]
fn longer_correct_locks_hold() {
    watched(&correct::entries());
}

/// What the explorer finds correct breaks in no random execution, as far as shuttle supports it.
#[test]
fn correct_locks_break_in_no_random_execution() {
    let mut runs = 0;
    for entry in correct::entries() {
        for check in entry.checks().filter(|check| check.network == Network::Sc) {
            // A wait by the clock, which stands still there, is cut.
            let options =
                shuttle_engine::Options { executions: 300, max_steps: 3_000, ..shuttle_engine::Options::default() };
            match shuttle_engine::run(&check, &options, &|_| true) {
                Ok(outcome) => {
                    assert_eq!(outcome.violation(), None, "{} {}", entry.name, check.scenario);
                    runs += 1;
                }
                Err(error) => println!("{} {}: {error}", entry.name, check.scenario),
            }
        }
    }
    assert!(runs > 50, "{runs} runs");
}

#[test]
#[ignore = "a third of a minute; .ci/run longer"]
fn longer_broken_locks_are_caught() {
    watched(&broken::entries());
}
