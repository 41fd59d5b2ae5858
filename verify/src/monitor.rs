//! The properties that a state breaks. All engines use these functions.

use rmalab_atomics::controlled::Call;
use rmalab_atomics::{Address, Rank};

use crate::check::Check;
use crate::play::Event;
use crate::status::{Phase, Status};
use crate::{Access, Property, Violation};

impl Check {
    /// The access of `rank` in acquisition `acquisition`.
    pub fn access(&self, rank: Rank, acquisition: u32) -> Option<Access> {
        let (role, times) = self.scenario.part(rank)?;
        (acquisition < times).then(|| role.access(rank, acquisition))
    }

    /// Returns whether `are` holds for the first accesses of two different ranks.
    fn some_pair(&self, are: impl Fn(Access, Access) -> bool) -> bool {
        let accesses: Vec<Access> = (0..self.active()).map(Rank).filter_map(|rank| self.access(rank, 0)).collect();
        let later = |i: usize| accesses[i + 1..].iter();
        accesses.iter().enumerate().any(|(i, &one)| later(i).any(|&two| are(one, two)))
    }

    /// Returns whether two ranks exclude each other, so that a rank must wait in some interleaving.
    pub fn some_rank_waits(&self) -> bool {
        self.some_pair(|one, two| self.subject.excludes(one, two))
    }

    /// Returns whether two ranks do not exclude each other, so that both are inside in some interleaving.
    pub fn some_ranks_share(&self) -> bool {
        self.some_pair(|one, two| !self.subject.excludes(one, two))
    }

    /// The violation by `event` of `rank`, if any. `statuses` include the event.
    pub fn breaks(&self, rank: Rank, event: Event, statuses: &[Status]) -> Option<Violation> {
        match event {
            Event::Entered => self.exclusion(rank, statuses),
            Event::Saw { target, writes } => self.visibility(rank, statuses, target, writes),
            Event::Begins(_) | Event::Leaves | Event::Left => None,
        }
    }

    /// Returns a violation if `rank`, which has just entered, is inside together with a rank that it excludes.
    pub fn exclusion(&self, rank: Rank, statuses: &[Status]) -> Option<Violation> {
        let inside = |rank: Rank| {
            let status = statuses.get(rank.index())?;
            if status.phase == Phase::Inside { self.access(rank, status.acquisition) } else { None }
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

    /// Returns a violation if the number that `rank` read in `target`'s data is not the number of writes so far.
    pub fn visibility(&self, rank: Rank, statuses: &[Status], target: Rank, writes: u64) -> Option<Violation> {
        let of_target = |access: Access| access.writes() && self.data(access).contains(&target.0);
        let put: usize = (0..self.active())
            .map(Rank)
            .map(|writer| {
                let done = statuses[writer.index()].done_inside();
                self.scenario.accesses(writer).take(done as usize).filter(|&access| of_target(access)).count()
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
    /// `waits` are the calls in which ranks still wait. `words` are all named words, with their values.
    pub fn end(
        &self,
        statuses: &[Status],
        waits: &[Option<Call>],
        words: impl IntoIterator<Item = (Address, u64)>,
    ) -> Option<Violation> {
        let stuck: Vec<Rank> =
            (0..).zip(waits).filter(|(_, call)| call.is_some()).map(|(rank, _)| Rank(rank)).collect();
        if let Some(&rank) = stuck.first() {
            let list: Vec<String> = stuck
                .iter()
                .map(|&rank| {
                    let call = waits[rank.index()].expect("a rank that is stuck waits for a call");
                    match call.address(rank).and_then(|at| self.subject.word_at(at, self.home())) {
                        Some(word) => format!("{rank} in {call} ({})", word.name),
                        None => format!("{rank} in {call}"),
                    }
                })
                .collect();
            // A rank inside, or in its release, would have to wake them. Without one, the wake-up is lost.
            let others = statuses.iter().any(|status| matches!(status.phase, Phase::Inside | Phase::Releasing));
            let property = if others || stuck.len() > 1 { Property::NoDeadlock } else { Property::NoLostWakeUp };
            return Some(Violation {
                property,
                rank,
                acquisition: Some(statuses[rank.index()].acquisition),
                seen: format!("no step is possible any more, and these ranks wait: {}", list.join(", ")),
            });
        }
        let name_of = |at| self.subject.word_at(at, self.home()).map(|word| word.name);
        let left = |at| self.mutant.zip(name_of(at)).is_some_and(|(mutant, name)| mutant.leaves.contains(&name));
        let kept = |at| name_of(at).map_or(0, |name| self.subject.kept(name));
        let (at, value) = words
            .into_iter()
            .find(|&(at, value)| value & !kept(at) != 0 && self.subject.rests(at.disp) && !left(at))?;
        let name = name_of(at).map_or(String::new(), |name| format!(" ({name})"));
        Some(Violation {
            property: Property::CleanRest,
            rank: at.rank,
            acquisition: None,
            seen: format!("the word at {}{name} is {value:#x}", at.disp),
        })
    }
}
