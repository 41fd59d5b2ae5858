//! The kill matrix: for each mutant, the smallest check that kills it, and the violation.
//!
//! Each mutant runs in the [`scenarios`] of its lock, the smallest first, until the explorer finds a violation. The
//! counterexample is a shortest one of that scenario. Then the search runs again with at most 0, 1, 2, ... preemptions
//! until it finds one again. A mutant that is equivalent to its lock must survive all scenarios.

use std::fmt::Write;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::explorer::{Options, explore};
use crate::loom_engine;
use crate::network::Network;
use crate::outcome::{Finding, Limit, Watch};
use crate::shuttle_engine::{self, Method};
use crate::{Check, Counterexample, Error, Form, Mutant, Result, Scenario, Subject, Workload, subject};

/// A mutant on one of its locks, with its fate.
#[derive(Clone, Debug)]
pub struct Row {
    /// The mutant.
    pub mutant: &'static Mutant,
    /// The lock.
    pub lock: &'static str,
    /// The result.
    pub fate: Fate,
}

/// The result for a mutant.
#[derive(Clone, Debug)]
pub enum Fate {
    /// This check kills it, and no smaller one does.
    Killed {
        /// A shortest counterexample.
        counterexample: Box<Counterexample>,
        /// The least number of preemptions of a counterexample in this check. `None` for a livelock, which switches
        /// forever, and where ranks fail.
        preemptions: Option<u32>,
        /// The other engines that find a violation in this check.
        also: Vec<&'static str>,
    },
    /// It has survived these checks, each of them a complete search.
    Survived {
        /// The scenarios.
        complete: Vec<Scenario>,
    },
}

/// The limit for states in one check of a mutant.
const MAX_STATES: u64 = 20_000_000;

/// The limit for states in one check of a mutant that is documented as equivalent.
const MAX_STATES_OF_EQUIVALENTS: u64 = 1_000_000;

/// The options of the search: one thread, so that it always finds the same of several shortest counterexamples.
pub fn options() -> Options {
    Options { threads: 1, ..Options::default() }
}

/// The scenarios for mutants of `subject`, ordered by their numbers of ranks, then of acquisitions. For locks that know
/// levels, on nodes of one rank and of two.
pub fn scenarios(subject: &Subject) -> Vec<Scenario> {
    let has_levels = subject.named_words().iter().any(|word| word.name == "tail2");
    let texts = match (subject.workload(), subject.shares()) {
        (Workload::Lock(_), false) if has_levels => "2W/2, 2Wx2/2, 3W/2, 3Wx2/2, 4W/2",
        (Workload::Lock(_), true) if has_levels => {
            "1R1W/1, 1R1W/2, 1R1Wx2/1, 1R1Wx2/2, 2R1W/2, 1R1W1R/2, 1R2W/2, 2R1Wx2/2, 1R2Wx2/2, 1R1W1R1W/2"
        }
        _ if matches!(subject.name(), "cohort" | "cna" | "cna-2" | "alock" | "alock-1" | "sherman") => {
            "2W, 2W/1, 2Wx2, 2Wx2/1, 3W/2, 3W/1, 3Wx2/2"
        }
        // Usually there is one rank per node. Each node has a leaf, and so has the home. Two words are above them.
        _ if subject.name() == "hierarchical" => {
            "1A1E@0/1, 1S@0 1E@0/1, 2E@0/1, 2E@0, 1A+1E@0x2/1, 1A1E@0x2/1, 1S@0 1E@0x2/1, 2A1E@0/1, \
             2A1E@0/2, 1A2E@0/1, 1S@0 2E@0/1, 2S@0 1E@0/1, 1S@0 2E@0x2/1"
        }
        _ if subject.name() == "robust-hierarchical" => "1A1E@0/1, 1S@0 1E@0/1, 2E@0/1, 1A1E@0x2/1, 2A1E@0/1",
        // Larger searches have too many states.
        _ if subject.name().starts_with("robust-two-level") => {
            "1A1E@0, 1S@0 1E@0, 2E@0, 2A1E@0, 1A1S@0 1E@0, 2S@0 1E@0"
        }
        // Two ranks can be passive.
        _ if subject.name().starts_with("malthusian") => "2W, 2Wx2, 3W, 3W+1Wx2, 2W+2Wx2",
        (Workload::Lock(_), false) => "2W, 2Wx2, 3W, 3Wx2",
        (Workload::Lock(_), true) => {
            "1R1W, 2W, 1R+1Wx2, 1R1Wx2, 2Wx2, 2R1W, 1R2W, 2R+1Wx2, 1R+2Wx2, 2Rx2+1W, 2R1Wx2, 1R2Wx2, 3R1W, 3R+1Wx2"
        }
        (Workload::Program(_), _) => "",
        (Workload::Window(_), _) => {
            "1A1E@0, 1A1E@1, 1S@0 1E@0, 2E@0, 1A+1E@0x2, 1A1E@0x2, 1S@0 1E@0x2, 2E@0x2, 2A1E@0, 1A2E@0, \
             1A1E@0 1E@1, 1A1S@0 1E@0"
        }
    };
    texts.split_terminator(", ").map(|text| text.parse().expect("a valid scenario")).collect()
}

/// The check of `mutant` on `subject` in `scenario`.
pub fn check(mutant: &'static Mutant, subject: &Subject, scenario: Scenario) -> Check {
    Check {
        section: mutant.section,
        network: mutant.network,
        home: mutant.home,
        mutant: Some(mutant),
        ..Check::new(
            subject.clone(),
            scenario
                .in_form(mutant.form)
                .with_crashes(mutant.crashes)
                .with_restarts(mutant.restarts)
                .with_lapses(mutant.lapses),
        )
    }
}

/// The fate of `mutant` on `lock`. The search uses `options`, with the bounds that the matrix needs.
///
/// # Errors
///
/// The errors of [`explore`], and [`Error::Mutant`] when the mutant does not suit the lock. [`Error::Unsound`] when
/// `watch` or a limit has ended a search that the matrix needs.
pub fn row(mutant: &'static Mutant, lock: &str, options: &Options, watch: Watch<'_>) -> Result<Row> {
    let not_its_lock = || Error::Mutant { mutant: mutant.name, lock: mutant.locks[0], of: mutant.locks.join(", ") };
    let subject = subject(lock).filter(|subject| mutant.suits(subject.name())).ok_or_else(not_its_lock)?;
    let most = if mutant.equivalent.is_some() { MAX_STATES_OF_EQUIVALENTS } else { MAX_STATES };
    let search = Search { options: Options { max_states: Some(most), order: mutant.order, ..options.clone() }, watch };
    let mut complete = Vec::new();
    for scenario in scenarios(&subject) {
        let check = check(mutant, &subject, scenario);
        match search.finding(&check, None)? {
            Finding::Holds => complete.push(check.scenario),
            Finding::Incomplete(_) => break,
            Finding::Violated(counterexample) => {
                let preemptions = match mutant.crashes + mutant.restarts + mutant.lapses {
                    0 => search.least_preemptions(&check, &counterexample)?,
                    // The bounded searches have too many states.
                    _ => None,
                };
                let also = also(mutant, &check, watch)?;
                let fate = Fate::Killed { counterexample: Box::new(counterexample), preemptions, also };
                return Ok(Row { mutant, lock: subject.name(), fate });
            }
        }
    }
    Ok(Row { mutant, lock: subject.name(), fate: Fate::Survived { complete } })
}

/// The number of executions of loom and shuttle for a mutant.
const EXECUTIONS: u64 = 2_000;

/// The limit for preemptions of loom's executions.
const LOOM_PREEMPTIONS: u32 = 3;

/// Returns whether engines besides the explorer support the checks of `mutant`.
fn has_others(mutant: &Mutant) -> bool {
    mutant.network == Network::Sc && mutant.form != Form::Timed && mutant.crashes + mutant.restarts + mutant.lapses == 0
}

/// The engines besides the explorer that find a violation of `check`.
fn also(mutant: &Mutant, check: &Check, watch: Watch<'_>) -> Result<Vec<&'static str>> {
    if !has_others(mutant) {
        return Ok(Vec::new());
    }
    let mut engines = Vec::new();
    let loom = loom_engine::Options {
        preemptions: Some(LOOM_PREEMPTIONS),
        max_executions: Some(EXECUTIONS),
        ..loom_engine::Options::default()
    };
    if loom_engine::run(check, &loom, watch)?.violation().is_some() {
        engines.push("loom");
    }
    let shuttle = |method| shuttle_engine::Options { method, executions: EXECUTIONS, ..Default::default() };
    for (name, method) in
        [("shuttle-random", Method::Random { seed: 1 }), ("shuttle-pct", Method::Pct { seed: 1, depth: 3 })]
    {
        if shuttle_engine::run(check, &shuttle(method), watch)?.violation().is_some() {
            engines.push(name);
        }
    }
    Ok(engines)
}

/// The parameters of a search.
struct Search<'w> {
    options: Options,
    watch: Watch<'w>,
}

impl Search<'_> {
    /// The finding of a search. No limit except the one for states may end it.
    fn finding(&self, check: &Check, preemptions: Option<u32>) -> Result<Finding> {
        match explore(check, &Options { preemptions, ..self.options.clone() }, self.watch)?.finding {
            Finding::Incomplete(limit) if limit != Limit::States => {
                Err(Error::Unsound(format!("{}: the limit {limit:?} ended a search", check.scenario)))
            }
            finding => Ok(finding),
        }
    }

    /// The least number of preemptions of a counterexample to `check`, of which `known` is one. `None` for a livelock.
    fn least_preemptions(&self, check: &Check, known: &Counterexample) -> Result<Option<u32>> {
        if known.cycle.is_some() {
            return Ok(None);
        }
        let most = known.preemptions(check)?.len() as u32;
        for bound in 0..most {
            match self.finding(check, Some(bound))? {
                Finding::Violated(_) => return Ok(Some(bound)),
                Finding::Holds => {}
                Finding::Incomplete(_) => {
                    let Check { scenario, .. } = check;
                    return Err(Error::Unsound(format!("{scenario} has too many states with {bound} preemptions")));
                }
            }
        }
        Ok(Some(most))
    }
}

impl Row {
    /// Returns whether the mutant has survived without an argument for that, or died despite one.
    pub fn is_unexpected(&self) -> bool {
        matches!(self.fate, Fate::Killed { .. }) == self.mutant.equivalent.is_some()
    }

    /// Its line in the table of killed mutants, or of survivors.
    pub fn markdown(&self) -> String {
        let Row { mutant, lock, fate } = self;
        let for_what = mutant.stands_for.map_or(String::new(), |published| format!(" *({published})*"));
        match fate {
            Fate::Killed { counterexample: one, preemptions, also } => format!(
                "| `{lock}` | `{}` | {}{for_what} | {}{} | {} | {} | {} | {} | {} |",
                mutant.name,
                mutant.description,
                one.scenario,
                if one.section == crate::play::Section::Data { ", data" } else { "" },
                one.network,
                one.violation.property,
                one.cycle.map_or_else(
                    || one.schedule.len().to_string(),
                    |first| format!("{first} + {} again and again", one.schedule.len() - first)
                ),
                preemptions.map_or("–".to_owned(), |preemptions| preemptions.to_string()),
                match also.is_empty() {
                    true if has_others(mutant) => "none".to_owned(),
                    true => "–".to_owned(),
                    false => also.join(", "),
                }
            ),
            Fate::Survived { complete } => {
                let scenarios: Vec<String> = complete.iter().map(Scenario::to_string).collect();
                format!(
                    "| `{lock}` | `{}` | {}{for_what} | {} | {} | {} |",
                    mutant.name,
                    mutant.description,
                    mutant.equivalent.unwrap_or("**no argument given: it should have been killed**"),
                    mutant.network,
                    scenarios.join(", ")
                )
            }
        }
    }
}

/// The document of killed and surviving mutants.
pub fn document(rows: &[Row]) -> String {
    let (killed, survived): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| matches!(row.fate, Fate::Killed { .. }));
    let mut text = String::from(HEAD);
    for row in killed {
        let _ = writeln!(text, "{}", row.markdown());
    }
    text.push_str(SURVIVORS);
    for row in survived {
        let _ = writeln!(text, "{}", row.markdown());
    }
    text.push_str(NO_COUNTERPART);
    text
}

const HEAD: &str = "\
# Mutants: locks broken on purpose, and what kills them

Generated by `cargo xtask kill-matrix docs/results/mutants.md`; a test compares it with a fresh generation.

A mutant is a layer between a lock and the network. It drops, changes, delays or falsifies single calls and answers; the
lock's code is the real one. Each mutant runs in a list of scenarios, the smallest first, until the explorer finds a
violation.

- scenario: the first of the list that kills it, after complete searches of all smaller ones. `1Rx1+1Wx2` is a reader with
  one acquisition and a writer with two; `/2` at the end places two ranks on each node; with *data*, ranks read and write
  the protected data inside.
- network: the model of the search. `sc` is sequentially consistent; `late-puts` lets posted puts arrive late, in order to
  each target; `unordered-bulk` adds bulk puts in any order; on `hca` a put may come between the read and the write of an
  atomic; on `hca-owner-cpu`, moreover, the owner of the lock's words uses its processor, whose atomics are not atomic with
  those of the network.
- steps: the length of a shortest counterexample, without pauses, and without flushes that no other rank can observe on
  `sc`. `10 + 2 again and again` is a livelock, whose last two steps can repeat forever.
- preemptions: the least number of switches away from a rank that could continue, in any counterexample of that scenario.
  A livelock has no such number, since it switches forever. Where ranks fail (`crash1`), it was not determined.
- in italics: the mutation of the published algorithm that a mutant represents.
- also killed by: the other engines that find a violation in the same check, in 2,000 executions each: loom with up to 3
  preemptions, shuttle at random and by PCT of depth 3, seed 1. They support only `sc` without deadlines, and check no order.
  They report ranks that poll in vain as a deadlock.

All rows are results of the explorer.

## Killed

| lock | mutant | what is broken | scenario | network | property | steps | preemptions | also killed by |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const SURVIVORS: &str = "
## Equivalent mutants

These must survive, for the given reason. All searches of their scenarios were complete.

| lock | mutant | what is changed | why that is right | network | survived |
| --- | --- | --- | --- | --- | --- |
";

const NO_COUNTERPART: &str = "
## Mutations of the published locks that have no counterpart here

- *Neutral: link before successor class.* A writer's class is a bit of its identity, so that the link itself carries it:
  no two steps could be in a wrong order.
- *`blocked = 1` after the node is published* (RP, MCS). Our flag is inverted and reset after the wait, so that nothing is
  set before a node is published. The nearest mutants reset it at that point (`mcs-late-reset`, `rp-late-reset`,
  `wp-late-reset`), or late in the network (the mutants called `no-prepare`).
";

/// All rows, in the order of `mutants` and their locks. `done` receives each row as soon as it is known. Each processor makes one row at
/// a time.
///
/// # Errors
///
/// The errors of [`row`].
pub fn rows(
    mutants: impl IntoIterator<Item = &'static Mutant>,
    options: &Options,
    watch: Watch<'_>,
    done: impl FnMut(&Row) + Send,
) -> Result<Vec<Row>> {
    let of_locks = |mutant: &'static Mutant| mutant.locks.iter().map(move |&lock| (mutant, lock));
    let all: Vec<(&Mutant, &str)> = mutants.into_iter().flat_map(of_locks).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(done));
    let work = || {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(mutant, lock)) = all.get(at) else { return made };
            let row = row(mutant, lock, options, watch);
            match &row {
                Ok(row) => crate::panics::lock(&done)(row),
                // The others begin no further row.
                Err(_) => next.store(all.len(), Ordering::Relaxed),
            }
            made.push((at, row));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut made: Vec<(usize, Result<Row>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    made.sort_by_key(|&(at, _)| at);
    made.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects;

    #[test]
    fn scenarios_are_ordered_by_size() {
        for subject in subjects() {
            let sizes: Vec<(u32, u64)> = scenarios(&subject)
                .iter()
                .map(|scenario| {
                    let (reads, writes) = scenario.acquisitions();
                    (scenario.ranks(), reads + writes)
                })
                .collect();
            assert!(sizes.is_sorted(), "{}: {sizes:?}", subject.name());
        }
    }
}
