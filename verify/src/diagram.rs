//! Counterexamples as sequence diagrams: one column per rank, one row per step.
//!
//! [`text`] is for terminals and logs, [`svg`] for pages. Both draw the same story from a replay of the schedule, so
//! that a diagram shows the present lock.
//!
//! The lifeline of a rank shows its phase: dotted outside, thin while it acquires or releases, bold inside. An arrow
//! goes from the acting rank to the rank whose memory has the word. All steps are shown, except that rounds of a poll
//! that change nothing share one row.

mod label;
mod svg;
mod text;

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::{Address, Rank};

use crate::check::Check;
use crate::counterexample::{Choice, Counterexample};
use crate::live::{Effect, Live, Step};
use crate::network::{Change, Network};
use crate::play::Event;
use crate::status::{Phase, Status};
use crate::{Access, Error, Property, Result, Violation};

/// Draws `counterexample` to `check` in box-drawing characters.
///
/// Four ranks and a home take about 120 columns.
///
/// # Errors
///
/// [`Error::Schedule`] when the schedule does not fit `check`, and the errors of [`Live::new`].
pub fn text(check: &Check, counterexample: &Counterexample) -> Result<String> {
    Ok(text::draw(&Story::new(check, counterexample)?))
}

/// Draws `counterexample` to `check` as a self-contained SVG document.
///
/// # Errors
///
/// The errors of [`text()`].
pub fn svg(check: &Check, counterexample: &Counterexample) -> Result<String> {
    Ok(svg::draw(&Story::new(check, counterexample)?))
}

/// The content of a diagram.
#[derive(Debug)]
struct Story {
    /// The lock, and the mutant if there is one.
    title: String,
    /// The description of the mutant.
    deviation: Option<&'static str>,
    /// Scenario, network, and the numbers of steps and preemptions.
    facts: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// For a livelock: the first and the last repeated step, counted from 1.
    cycle: Option<(usize, usize)>,
    /// The violated property, and a sentence that explains it. If the replay does not find the violation, the sentence
    /// is from the file.
    claim: String,
    violation: Violation,
    /// Further facts about the end.
    notes: Vec<String>,
    /// The columns of the ranks that the violation names.
    hurt: Vec<usize>,
}

/// One rank's memory, and its lifeline if it takes part.
#[derive(Debug)]
struct Column {
    rank: Rank,
    title: String,
    /// The line below the title: "home" if a rank that takes part is the home, too.
    subtitle: &'static str,
}

/// The phase of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// It takes no part: only its memory matters.
    Memory,
    /// It has failed.
    Failed,
    Outside,
    /// It acquires or releases.
    Busy(Access),
    Inside(Access),
}

#[derive(Debug)]
struct Row {
    /// The phase of each rank, by column.
    lives: Vec<Life>,
    what: What,
}

#[derive(Debug)]
enum What {
    Step {
        /// The step, counted from 1.
        number: usize,
        /// True if the rank of the previous step could have continued.
        preempts: bool,
        arrow: Arrow,
        label: String,
    },
    /// Repetitions of the steps above that change nothing.
    Polls { first: usize, last: usize, column: usize, rounds: usize },
    /// An event of the rank in a column, and the property that it breaks, if any.
    Mark { column: usize, text: String, broken: Option<String> },
    /// The steps below repeat forever.
    Cycle,
    /// The rank in a column waits forever.
    Stuck { column: usize, label: String },
}

/// From the column of the acting rank to the column of the word. They are equal for a local word, and for a call
/// without a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arrow {
    from: usize,
    to: usize,
    kind: Kind,
}

impl Arrow {
    /// An arrow of a rank without a word. The ranks that take part have the first columns.
    const fn at(rank: Rank) -> Arrow {
        Arrow { from: rank.index(), to: rank.index(), kind: Kind::Done }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It takes effect in this step.
    Done,
    /// It takes effect in a later step, or not at all.
    Posted { arrival: Option<usize> },
    /// It was posted in an earlier step.
    Arrives { posted: usize },
}

/// One step of the replay. The label is made at once, since it depends on the state.
struct Taken {
    step: Step,
    preempts: bool,
    arrow: Arrow,
    label: String,
}

impl Taken {
    /// Returns whether the step only reads.
    fn is_idle(&self) -> bool {
        let changes = match self.step.effect {
            Effect::Answered(Call::CompareAndSwap { expected, .. }, answer) => answer == Answer::Word(expected),
            Effect::Answered(
                Call::Get { .. }
                | Call::Load { .. }
                | Call::BulkGet { .. }
                | Call::Test { .. }
                | Call::Pause { .. }
                | Call::Now,
                _,
            ) => false,
            _ => true,
        };
        !changes && self.step.events.is_empty() && self.step.violation.is_none()
    }

    fn repeats(&self, other: &Taken) -> bool {
        self.is_idle()
            && other.is_idle()
            && self.step.choice == other.step.choice
            && self.step.effect == other.step.effect
    }
}

/// The longest round of a poll that is folded, in steps: two reads and a pause.
const LONGEST_ROUND: usize = 3;

/// The rounds of a poll that begin at step `i` (counted from 0) and repeat the steps above: their length and number.
fn polls(taken: &[Taken], i: usize, cycle: Option<usize>) -> Option<(usize, usize)> {
    (1..=LONGEST_ROUND.min(i)).find_map(|length| {
        // The beginning of the cycle has its own row, so that no fold may cross it.
        let end = cycle.filter(|&cycle| cycle > i - length).unwrap_or(taken.len());
        let same = (i..end).take_while(|&j| taken[j].repeats(&taken[j - length])).count();
        let rounds = same / length;
        (rounds * length >= 2).then_some((length, rounds))
    })
}

/// A replay under way.
struct Replay<'c> {
    check: &'c Check,
    live: Live,
    columns: Vec<Column>,
    /// By rank: the posted puts under way, as the numbers of the posting steps, oldest first.
    posts: Vec<Vec<usize>>,
    /// By rank: true if its call is half done.
    halfway: Vec<bool>,
}

impl Story {
    fn new(check: &Check, counterexample: &Counterexample) -> Result<Story> {
        // Loom delays puts in a check on sc, too, and names that network in its counterexample.
        let delayed = Check { network: Network::LatePuts, ..check.clone() };
        let is_delayed = (check.network, counterexample.network) == (Network::Sc, Network::LatePuts);
        let check = if is_delayed { &delayed } else { check };
        counterexample.suits(check)?;
        let preemptions = counterexample.preemptions(check)?;
        let live = Live::new(check)?;
        let columns = columns(check, counterexample)?;
        let statuses = live.statuses();
        let pending = (0..).map(Rank).zip(&statuses).map(|(rank, status)| {
            let access = check.access(rank, status.acquisition)?;
            (status.phase == Phase::Outside).then(|| begins(access))
        });
        let pending = pending.collect();
        let ranks = check.active() as usize;
        let failed = vec![false; ranks];
        let mut lives = Lives { check, statuses, pending, columns: columns.len(), rows: Vec::new(), failed };
        let mut replay = Replay { check, live, columns, posts: vec![Vec::new(); ranks], halfway: vec![false; ranks] };

        let schedule = &counterexample.schedule;
        let mut taken: Vec<Taken> = Vec::with_capacity(schedule.len());
        for (i, &choice) in schedule.iter().enumerate() {
            let mut one = replay.take(i, choice)?;
            one.preempts = preemptions.contains(&i);
            if let Kind::Arrives { posted } = one.arrow.kind {
                taken[posted - 1].arrow.kind = Kind::Posted { arrival: Some(i + 1) };
            }
            taken.push(one);
        }

        let mut i = 0;
        while i < taken.len() {
            if counterexample.cycle == Some(i) {
                lives.push(What::Cycle);
            }
            if let Some((length, rounds)) = polls(&taken, i, counterexample.cycle) {
                let (first, last, column) = (i + 1, i + rounds * length, taken[i].arrow.from);
                lives.push(What::Polls { first, last, column, rounds });
                i = last;
            } else {
                lives.step(i + 1, &taken[i]);
                i += 1;
            }
        }

        lives.out_of_order(&counterexample.violation);
        let end = replay.live.end();
        if replay.live.is_over() {
            for (rank, label) in replay.stuck() {
                lives.flush_pending(rank);
                lives.push(What::Stuck { column: rank.index(), label });
            }
        }
        let found: Vec<&Violation> =
            taken.iter().filter_map(|taken| taken.step.violation.as_ref()).chain(end.as_ref()).collect();
        let mut notes = replay.rest(&taken);
        let doubt = doubt(&counterexample.violation, &found);
        let doubted = doubt.is_some();
        notes.extend(doubt);
        let hurt = replay.hurt(&counterexample.violation, &lives.statuses);
        Ok(Story {
            title: match check.mutant {
                Some(mutant) => format!("{}, mutant {}", check.subject.name(), mutant.name),
                None => check.subject.name().to_owned(),
            },
            deviation: check.mutant.map(|mutant| mutant.description),
            facts: format!(
                "{}{}, network {}: {}, {}",
                if check.scenario.groups().is_empty() { "" } else { "scenario " },
                check.scenario,
                check.network,
                counted(schedule.len(), "step"),
                counted(preemptions.len(), "preemption")
            ),
            columns: replay.columns,
            rows: lives.rows,
            cycle: counterexample.cycle.map(|first| (first + 1, schedule.len())),
            claim: format!("{}{}", if doubted { "reported, not seen here: " } else { "✗ " }, counterexample.violation),
            violation: counterexample.violation.clone(),
            notes,
            hurt,
        })
    }
}

/// Splits `text` into lines of at most `width` characters; only a single word may be longer.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn more_polls(rounds: usize) -> String {
    format!("... {}", counted(rounds, "more poll"))
}

/// The ranks that take part, the home, and all other ranks whose memory is used.
fn columns(check: &Check, counterexample: &Counterexample) -> Result<Vec<Column>> {
    let (steps, _) = crate::live::replay(check, &counterexample.schedule)?;
    let is_used = |rank: Rank| {
        steps.iter().any(|step| match (step.effect, step.choice) {
            (Effect::CrashedAmid(call, _), choice) => call.address(choice.rank()).is_some_and(|at| at.rank == rank),
            (Effect::Answered(call, _) | Effect::Halfway(call), Choice::Step(actor)) => {
                let is_target = match call {
                    Call::Flush { target: Some(target) } | Call::Order { target } => target == rank,
                    _ => false,
                };
                is_target || call.address(actor).is_some_and(|at| at.rank == rank)
            }
            _ => false,
        })
    };
    let is_home = |rank| check.subject.has_home() && rank == check.home();
    let ranks = (0..check.world()).map(Rank);
    let shown = ranks.filter(|&rank| rank.0 < check.active() || is_home(rank) || is_used(rank));
    Ok(shown
        .map(|rank| match check.scenario.part(rank) {
            Some((role, _)) => {
                let form = check.scenario.form(rank).name();
                let title = format!("{rank} ({role}{form})");
                Column { rank, title, subtitle: if is_home(rank) { "home" } else { "" } }
            }
            None if is_home(rank) => Column { rank, title: "home".to_owned(), subtitle: "" },
            None => Column { rank, title: rank.to_string(), subtitle: "" },
        })
        .collect())
}

/// The note for a replay whose finding differs from the counterexample's claim.
fn doubt(violation: &Violation, found: &[&Violation]) -> Option<String> {
    use Property::{Consistent, NoLivelock, NoLostUpdate, Order};
    // A replay does not judge these.
    let judged = !matches!(violation.property, Consistent | NoLivelock | NoLostUpdate | Order);
    if !judged || found.iter().any(|found| found.property == violation.property) {
        return None;
    }
    Some(match found.first() {
        None => "The replay does not find this: the schedule breaks nothing in this version of the lock.".to_owned(),
        Some(other) => format!("The replay does not find this, but: {other}."),
    })
}

impl Replay<'_> {
    fn column(&self, rank: Rank) -> usize {
        // Every rank that acts, or whose memory is used, has a column: see `columns`.
        self.columns.iter().position(|column| column.rank == rank).unwrap_or(0)
    }

    /// Takes step `i`, counted from 0.
    fn take(&mut self, i: usize, choice: Choice) -> Result<Taken> {
        let step = self.live.take(choice).map_err(|why| Error::Schedule { step: i, why })?;
        let check = self.check;
        let (arrow, label) = match (step.effect, choice) {
            (Effect::Arrived(at, posted, before), Choice::Arrive { from, index }) => {
                let by = self.posts[from.index()].remove(usize::from(index));
                let arrow =
                    Arrow { from: from.index(), to: self.column(at.rank), kind: Kind::Arrives { posted: by + 1 } };
                let put = |word| format!("{} := {}", label::word(check, Some(from), at), label::value(check, at, word));
                let what = match posted.change {
                    Change::Put { mask, value } => put(value & mask),
                    Change::Store { value, .. } => put(value),
                    Change::Start { op, .. } => {
                        let was = label::value(check, at, before);
                        format!("{} → {was}", label::call(check, from, Call::new(at, op)))
                    }
                };
                (arrow, format!("arrives: {what} (of step {})", by + 1))
            }
            (Effect::Crashed(under_way), _) => {
                let arrow = Arrow::at(choice.rank());
                let lost = match under_way {
                    0 => String::new(),
                    count => format!(", with {} under way", counted(count, "operation")),
                };
                (arrow, format!("crashes{lost}"))
            }
            (Effect::CrashedAmid(call, others), _) => {
                let rank = choice.rank();
                self.posts[rank.index()].push(i);
                let to = call.address(rank).map_or(rank.index(), |at| self.column(at.rank));
                let lost = match others {
                    0 => String::new(),
                    count => format!(", with {} more under way", counted(count, "operation")),
                };
                let arrow = Arrow { to, kind: Kind::Posted { arrival: None }, ..Arrow::at(rank) };
                (arrow, format!("crashes amid {}{lost}", label::call(check, rank, call)))
            }
            (Effect::Restarted(lost), _) => {
                let rank = choice.rank();
                self.posts[rank.index()].clear();
                self.halfway[rank.index()] = false;
                let lost = match lost {
                    0 => String::new(),
                    count => format!(", and {} under way never arrive", counted(count, "operation")),
                };
                (Arrow::at(rank), format!("crashes and comes back{lost}"))
            }
            (Effect::Noticed(of), _) => (Arrow::at(choice.rank()), format!("learns that {of} has failed")),
            (Effect::Answered(call, _) | Effect::Halfway(call), _) => {
                let rank = choice.rank();
                if let Call::Silence { ranks } = call {
                    for (of, posts) in self.posts.iter_mut().enumerate() {
                        posts.retain(|_| (ranks & self.live.down()) >> of & 1 == 0);
                    }
                }
                let at = call.address(rank);
                let to = match call {
                    Call::Flush { target: Some(target) } | Call::Order { target } => self.column(target),
                    _ => at.map_or(rank.index(), |at| self.column(at.rank)),
                };
                let late = check.network.is_late(&call);
                let mut label = label::call(check, rank, call);
                let is_half = matches!(step.effect, Effect::Halfway(_));
                let was_half = std::mem::replace(&mut self.halfway[rank.index()], is_half);
                match (step.effect, at) {
                    (Effect::Answered(_, answer), _) => label += &label::answer(check, rank, call, answer),
                    (_, Some(at)) => label += &format!(": reads {}", self.value(at)),
                    _ => {}
                }
                if is_half || was_half {
                    label = format!("[{}/2] {label}", 1 + u32::from(was_half));
                }
                let changes = !matches!(
                    call,
                    Call::Get { .. }
                        | Call::Load { .. }
                        | Call::BulkGet { .. }
                        | Call::Finish { .. }
                        | Call::WaitUntil { .. }
                );
                if check.network == Network::HcaOwnerCpu && changes && at.is_some_and(|at| at.rank == rank) {
                    label += ", by its processor";
                }
                if late {
                    self.posts[rank.index()].push(i);
                    label += ", posted";
                }
                let kind = if late { Kind::Posted { arrival: None } } else { Kind::Done };
                (Arrow { from: rank.index(), to, kind }, label)
            }
            (Effect::Lapsed, _) => (Arrow::at(choice.rank()), "time passes, longer than a lease".to_owned()),
            (Effect::Passed, _) => (Arrow::at(choice.rank()), "its deadline passes".to_owned()),
            (Effect::Arrived(..), _) => unreachable!("a step of a rank is no arrival"),
        };
        Ok(Taken { step, preempts: false, arrow, label })
    }

    /// The present value of the word at `at`.
    fn value(&self, at: Address) -> String {
        let word = self.live.words().find(|&(of, _)| of == at.unwatched()).map_or(0, |(_, word)| word);
        label::value(self.check, at, word)
    }

    /// The ranks that wait when no step is possible any more, each with the call in which it waits.
    fn stuck(&self) -> Vec<(Rank, String)> {
        let waits = (0..).map(Rank).zip(self.live.calls());
        waits
            .filter_map(|(rank, call)| {
                let call = call?;
                let is = call.address(rank).map_or(String::new(), |at| format!(", and it is {}", self.value(at)));
                Some((rank, format!("forever: {}{is}", label::call(self.check, rank, call))))
            })
            .collect()
    }

    /// Notes on the operations under way and the memory after the last step.
    fn rest(&self, taken: &[Taken]) -> Vec<String> {
        let mut notes = Vec::new();
        let under_way: Vec<String> = self
            .posts
            .iter()
            .flatten()
            .map(|&i| format!("{} (step {})", taken[i].label.trim_end_matches(", posted"), i + 1))
            .collect();
        if !under_way.is_empty() {
            notes.push(format!("Still under way: {}.", under_way.join(", ")));
        }
        let mut words: Vec<_> = self.live.words().filter(|&(_, value)| value != 0).collect();
        words.sort_by_key(|&(at, _)| (at.rank != self.check.home(), at.rank, at.disp));
        let words: Vec<String> = words
            .iter()
            .map(|&(at, value)| {
                format!("{} = {}", label::word(self.check, None, at), label::value(self.check, at, value))
            })
            .collect();
        notes.push(match words.is_empty() {
            true => "In the end all words are zero.".to_owned(),
            false => format!("In the end: {}; all other words are zero.", words.join(", ")),
        });
        notes
    }

    /// The columns of the ranks that `violation` names.
    fn hurt(&self, violation: &Violation, statuses: &[Status]) -> Vec<usize> {
        let rank = violation.rank.index();
        match violation.property {
            Property::MutualExclusion => {
                (0..statuses.len()).filter(|&i| i == rank || statuses[i].phase == Phase::Inside).collect()
            }
            Property::NoDeadlock | Property::NoLostWakeUp => {
                self.stuck().iter().map(|(rank, _)| rank.index()).collect()
            }
            _ => self.columns.iter().position(|column| column.rank == violation.rank).into_iter().collect(),
        }
    }
}

/// Collects the rows, with the phase of each rank.
struct Lives<'c> {
    check: &'c Check,
    statuses: Vec<Status>,
    /// By rank: the text to print with its next call.
    pending: Vec<Option<String>>,
    columns: usize,
    rows: Vec<Row>,
    /// By rank: whether it has failed.
    failed: Vec<bool>,
}

impl Lives<'_> {
    fn push(&mut self, what: What) {
        let life = |rank: Rank| {
            let Some(status) = self.statuses.get(rank.index()) else { return Life::Memory };
            if self.failed[rank.index()] {
                return Life::Failed;
            }
            match (status.phase, self.check.access(rank, status.acquisition)) {
                (Phase::Outside, _) | (_, None) => Life::Outside,
                (Phase::Acquiring | Phase::Releasing, Some(access)) => Life::Busy(access),
                (Phase::Inside, Some(access)) => Life::Inside(access),
            }
        };
        // The ranks that take part have the first columns.
        let lives = (0..self.columns as u32).map(|column| life(Rank(column))).collect();
        self.rows.push(Row { lives, what });
    }

    fn mark(&mut self, rank: Rank, text: String) {
        self.push(What::Mark { column: rank.index(), text, broken: None });
    }

    /// Prints the pending text of `rank`.
    fn flush_pending(&mut self, rank: Rank) {
        if let Some(text) = self.pending[rank.index()].take() {
            self.mark(rank, text);
        }
    }

    /// Marks the last event if it is an entry out of order, which a replay does not judge.
    fn out_of_order(&mut self, violation: &Violation) {
        if violation.property == Property::Order
            && let Some(Row { what: What::Mark { column, broken, .. }, .. }) = self.rows.last_mut()
            && *column == violation.rank.index()
        {
            *broken = Some(violation.seen.clone());
        }
    }

    fn step(&mut self, number: usize, taken: &Taken) {
        let Taken { step, preempts, arrow, label } = taken;
        let rank = step.choice.rank();
        if let Choice::Crash(_) | Choice::CrashAmid(_) | Choice::Restart(_) = step.choice {
            self.pending[rank.index()] = None;
        } else if !matches!(step.choice, Choice::Arrive { .. }) {
            self.flush_pending(rank);
        }
        if matches!(step.effect, Effect::Answered(..)) {
            self.statuses[rank.index()].answered();
        }
        self.push(What::Step { number, preempts: *preempts, arrow: *arrow, label: label.clone() });
        if let Choice::Crash(_) | Choice::CrashAmid(_) = step.choice {
            self.failed[rank.index()] = true;
            self.statuses[rank.index()] = Status::default();
            self.mark(rank, "CRASHES".to_owned());
        }
        for &event in &step.events {
            self.flush_pending(rank);
            let was_inside = self.statuses[rank.index()].phase == Phase::Inside;
            self.statuses[rank.index()].record(event);
            match event {
                Event::Begins(access) => self.pending[rank.index()] = Some(begins(access)),
                Event::Leaves => self.pending[rank.index()] = Some("leaves".to_owned()),
                Event::Told => self.mark(rank, "gets OwnerDead".to_owned()),
                Event::Entered if was_inside => self.mark(rank, "IS INSIDE".to_owned()),
                Event::Entered => self.mark(rank, "ENTERS".to_owned()),
                Event::CameBack => self.mark(rank, "RESTARTS".to_owned()),
                Event::Idle => self.mark(rank, "is idle".to_owned()),
                Event::GaveUp { .. } => self.mark(rank, "GIVES UP".to_owned()),
                Event::Left => self.mark(rank, "left".to_owned()),
                Event::Saw { writes, .. } => self.mark(rank, format!("sees {writes}")),
            }
        }
        let Some(violation) = &step.violation else { return };
        if violation.property == Property::Invariant {
            self.mark(rank, "FAILS".to_owned());
        }
        if let Some(Row { what: What::Mark { broken, .. }, .. }) = self.rows.last_mut() {
            *broken = Some(violation.seen.clone());
        }
    }
}

fn begins(access: Access) -> String {
    match access {
        Access::Read | Access::Write => format!("begins {access}"),
        Access::All => "begins all".to_owned(),
        Access::Shared(target) => format!("begins S@{}", target.0),
        Access::Exclusive(target) => format!("begins E@{}", target.0),
    }
}
