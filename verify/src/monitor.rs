//! The properties that a state breaks. All engines use these functions.

use std::cmp::Ordering;

use rmalab_atomics::controlled::Call;
use rmalab_atomics::{Address, Rank, Time};
use rmalab_locks::lease::MAX_VALUE;
use rmalab_locks::suite::REST_REMEDY;

use crate::check::Check;
use crate::network::Memory;
use crate::play::{DATA, Event};
use crate::status::{Phase, Status};
use crate::subject::Holds;
use crate::workload::Workload;
use crate::{Access, Form, Property, Violation, clock};

impl Check {
    /// The access of `rank` in acquisition `acquisition`.
    pub fn access(&self, rank: Rank, acquisition: u32) -> Option<Access> {
        let (role, times) = self.scenario.part(rank)?;
        (acquisition < times).then(|| role.access(rank, acquisition))
    }

    /// Returns whether an acquisition of `rank` is its last one, or one of an endless sequence.
    pub(crate) fn is_last(&self, rank: Rank, acquisition: u32) -> bool {
        self.scenario.is_endless() || self.access(rank, acquisition + 1).is_none()
    }

    /// Returns whether the first accesses of some two ranks exclude each other, or do not, as `exclude` says. The form
    /// of one of them must satisfy `is`.
    fn some_pair(&self, exclude: bool, is: impl Fn(Form) -> bool) -> bool {
        let first = |rank| Some((self.access(rank, 0)?, is(self.scenario.form(rank))));
        let ranks: Vec<(Access, bool)> = (0..self.active()).map(Rank).filter_map(first).collect();
        let later = |i: usize| ranks[i + 1..].iter();
        let are = |one: (Access, bool), two: (Access, bool)| {
            (one.1 || two.1) && self.subject.excludes(one.0, two.0) == exclude
        };
        ranks.iter().enumerate().any(|(i, &one)| later(i).any(|&two| are(one, two)))
    }

    /// Returns whether two ranks exclude each other, so that a rank must wait in some interleaving.
    pub fn some_rank_waits(&self) -> bool {
        self.some_pair(true, |form| form != Form::Try)
    }

    /// Returns whether two ranks exclude each other, so that a rank must give up in some interleaving.
    pub fn some_rank_gives_up(&self) -> bool {
        self.some_pair(true, |form| form != Form::Wait)
    }

    /// Returns whether two ranks do not exclude each other, so that both are inside in some interleaving.
    pub fn some_ranks_share(&self) -> bool {
        self.some_pair(false, |_| true)
    }

    /// The violation by `event` of `rank`, if any. `statuses` include the event.
    pub fn breaks(&self, rank: Rank, event: Event, statuses: &[Status]) -> Option<Violation> {
        match event {
            Event::Entered => self.exclusion(rank, statuses),
            Event::Saw { target, writes } => self.visibility(rank, statuses, target, writes),
            Event::Begins(_) | Event::Told | Event::GaveUp { .. } | Event::Leaves | Event::Left => None,
            Event::CameBack | Event::Idle => None,
        }
    }

    /// Returns whether `rank`, whose next call is the first one of an acquisition, has the lock to itself.
    pub(crate) fn is_alone(&self, rank: Rank, statuses: impl IntoIterator<Item = Status>, memory: &Memory) -> bool {
        let mut others = (0..).map(Rank).zip(statuses).filter(|&(other, _)| other != rank);
        others.all(|(_, status)| status.phase == Phase::Outside) && memory.is_quiet()
    }

    /// The violation by a rank that gives up without a call that may show whether the lock is free.
    pub(crate) fn gives_up_at_once() -> (Property, String) {
        (Property::NoEarlyFailure, "it gives up without a look at the lock".to_owned())
    }

    /// Returns a violation if `rank` gives up in `acquisition` too early. `alone` is true if it has had the lock to
    /// itself since the start of the acquisition, `now` its clock.
    ///
    /// Only a window's policy promises that it tries once although the deadline has passed.
    pub(crate) fn gives_up(&self, rank: Rank, acquisition: u32, alone: bool, now: Time) -> Option<Violation> {
        let is_timed = self.is_timed(rank);
        let seen = if is_timed && now < clock::deadline(acquisition) {
            format!("{rank} gives up ahead of its deadline")
        } else if alone && (!is_timed || self.subject.is_window()) {
            format!("{rank} gives up, while all other ranks are outside")
        } else {
            return None;
        };
        Some(Violation { property: Property::NoEarlyFailure, rank, acquisition: Some(acquisition), seen })
    }

    /// Returns a violation if `rank`, which has just entered, is inside together with a rank that it excludes.
    pub fn exclusion(&self, rank: Rank, statuses: &[Status]) -> Option<Violation> {
        let inside = |rank: Rank| {
            let status = statuses.get(rank.index())?;
            if status.phase == Phase::Inside && !status.lapsed { self.access(rank, status.acquisition) } else { None }
        };
        let mine = inside(rank)?;
        let others = (0..self.active()).map(Rank).filter(|&other| other != rank);
        let (other, theirs) = others
            .filter_map(|other| Some((other, inside(other)?)))
            .find(|&(_, theirs)| self.subject.excludes(mine, theirs))?;
        Some(Violation {
            property: Property::MutualExclusion,
            rank,
            acquisition: Some(statuses[rank.index()].acquisition),
            seen: format!("{rank} is inside ({mine}) together with {other} ({theirs})"),
        })
    }

    /// The violation by `rank`, whose write has changed the fenced word of the data from `old` to `new`, if any. A word has the
    /// token of its last write above the value, which is the writer's rank plus one.
    pub(crate) fn fenced(&self, rank: Rank, acquisition: u32, at: Address, old: u64, new: u64) -> Option<Violation> {
        if self.scenario.lapses() == 0 || (at.rank, at.disp) != (self.home(), DATA) || old == new {
            return None;
        }
        let token = |word: u64| word >> MAX_VALUE.count_ones();
        let seen = match token(new).cmp(&token(old)) {
            Ordering::Greater => return None,
            Ordering::Less => {
                format!("{rank} writes with token {}, after a write with token {}", token(new), token(old))
            }
            Ordering::Equal => format!("{rank} writes with token {}, as another rank has", token(new)),
        };
        Some(Violation { property: Property::Fenced, rank, acquisition: Some(acquisition), seen })
    }

    /// The data that a failure of `rank` would leave half written now: the rank is inside, and may write.
    pub(crate) fn half_written(&self, rank: Rank, status: &Status) -> u64 {
        let writes = |access: Access| access.writes() || !self.subject.shares();
        let is_writing = status.phase == Phase::Inside && self.access(rank, status.acquisition).is_some_and(writes);
        if is_writing { self.told(rank, status.acquisition) } else { 0 }
    }

    /// The data about which `rank` learns in an acquisition, if they are half written. There is a bit for each target where targets
    /// are apart, and one bit otherwise.
    pub(crate) fn told(&self, rank: Rank, acquisition: u32) -> u64 {
        match self.access(rank, acquisition) {
            Some(access) if self.subject.tells_by_target() => {
                self.data(access).fold(0, |bits, target| bits | 1 << target)
            }
            _ => 1,
        }
    }

    /// The violation by `rank`, which has just entered without learning that a rank had failed inside.
    pub(crate) fn untold(&self, rank: Rank, acquisition: u32) -> Violation {
        let seen = format!("{rank} enters after a rank that failed inside, and is not told");
        Violation { property: Property::Told, rank, acquisition: Some(acquisition), seen }
    }

    /// The violation, if any, by `rank`, which failed in the phase `before` and has come back without the lock.
    pub(crate) fn comes_back_idle(&self, rank: Rank, acquisition: u32, before: Phase) -> Option<Violation> {
        let seen = || format!("{rank} has failed inside, and comes back without the lock");
        let property = Property::ReEntry;
        (before == Phase::Inside).then(|| Violation { property, rank, acquisition: Some(acquisition), seen: seen() })
    }

    /// Returns whether a word may have this value at rest, after some ranks have failed: it is nil, or names one of them.
    /// Numbers may count their acquisitions, so they may have any value.
    fn names_the_dead(&self, at: Address, value: u64, down: u64) -> bool {
        let names =
            |pointer: u32| pointer.checked_sub(1).is_some_and(|rank| down.checked_shr(rank).unwrap_or(0) & 1 == 1);
        let holds = self.word_at(at).map(|word| word.holds);
        down != 0 && (holds != Some(Holds::Pointer) || value as u32 == 0 || names(value as u32))
    }

    /// Returns a violation if the number that `rank` read in `target`'s data is not the number of writes so far.
    pub fn visibility(&self, rank: Rank, statuses: &[Status], target: Rank, writes: u64) -> Option<Violation> {
        let of_target = |access: Access| access.writes() && self.data(access).contains(&target.0);
        let put: usize = (0..self.active())
            .map(Rank)
            .map(|writer| {
                let status = statuses[writer.index()];
                let done = self.scenario.accesses(writer).take(status.done_inside() as usize);
                // All writes of a rank have the same target.
                done.filter(|&access| of_target(access)).count().saturating_sub(status.unwritten as usize)
            })
            .sum();
        (writes != put as u64).then(|| Violation {
            property: Property::Visibility,
            rank,
            acquisition: Some(statuses[rank.index()].acquisition),
            seen: format!("{rank} read {writes} from {target}'s data after {put} writes"),
        })
    }

    /// The violation in a state where no step is possible: ranks wait forever, or words are not at rest.
    ///
    /// `waits` are the calls in which ranks still wait. `words` are all named words, with their values. `down` are the ranks
    /// that have failed, as bits.
    pub fn end(
        &self,
        statuses: &[Status],
        waits: &[Option<Call>],
        down: u64,
        words: impl IntoIterator<Item = (Address, u64)>,
    ) -> Option<Violation> {
        let stuck: Vec<Rank> =
            (0..).zip(waits).filter(|(_, call)| call.is_some()).map(|(rank, _)| Rank(rank)).collect();
        if let Some(&rank) = stuck.first() {
            let list: Vec<String> = stuck
                .iter()
                .map(|&rank| {
                    let call = waits[rank.index()].expect("a rank that is stuck waits for a call");
                    match call.address(rank).and_then(|at| self.word_at(at)) {
                        Some(word) => format!("{rank} in {call} ({})", word.name),
                        None => format!("{rank} in {call}"),
                    }
                })
                .collect();
            // A rank inside, or in its release, would have to wake them. Without one, the wake-up is lost.
            let others = statuses.iter().any(|status| matches!(status.phase, Phase::Inside | Phase::Releasing));
            let property = if others || stuck.len() > 1 { Property::NoDeadlock } else { Property::NoLostWakeUp };
            let timed = stuck.iter().any(|&rank| self.is_timed(rank));
            let unless = if timed { ", unless a deadline passes" } else { "" };
            return Some(Violation {
                property,
                rank,
                acquisition: Some(statuses[rank.index()].acquisition),
                seen: format!("no step is possible any more{unless}, and these ranks wait: {}", list.join(", ")),
            });
        }
        let name_of = |at| self.word_at(at).map(|word| word.name);
        let left = |at| self.mutant.zip(name_of(at)).is_some_and(|(mutant, name)| mutant.leaves.contains(&name));
        let kept = |at: Address| self.subject.kept(name_of(at), at.disp, self.world());
        let (at, value) = words
            .into_iter()
            .filter(|&(at, value)| value & !kept(at) != 0 && !left(at))
            .find(|&(at, value)| !self.names_the_dead(at, value, down))?;
        let name = name_of(at).map_or_else(String::new, |name| format!(" ({name})"));
        let is_lock = matches!(self.subject.workload(), Workload::Lock(_));
        let remedy = if is_lock { format!("; {REST_REMEDY}") } else { String::new() };
        let seen = format!("the word at {}{name} is {value:#x}{remedy}", at.disp);
        Some(Violation { property: Property::CleanRest, rank: at.rank, acquisition: None, seen })
    }
}
