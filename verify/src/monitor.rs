//! What every engine watches for: how far each rank has come, and which properties that breaks.

use rmalab_atomics::Rank;

use crate::check::Check;
use crate::play::Event;
use crate::{Access, Property, Violation};

/// Where a rank is in its current acquisition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// It has not begun, or it has left.
    #[default]
    Outside,
    /// It has made a call to acquire, and has not entered.
    Acquiring,
    /// It has entered, and has made no call to release.
    Inside,
    /// It has made a call to release, and has not left.
    Releasing,
}

/// How far a rank has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Status {
    /// Where it is.
    pub phase: Phase,
    /// How many acquisitions it has been through: the current one's number, or the next one's if it is outside.
    pub acquisition: u32,
    /// The phase that its next call begins.
    next: Option<Phase>,
}

impl Status {
    /// The rank's call has been answered: what that call began has begun.
    pub fn answered(&mut self) {
        if let Some(phase) = self.next.take() {
            self.phase = phase;
        }
    }

    /// The rank has told `event`.
    pub fn told(&mut self, event: Event) {
        match event {
            Event::Begins(_) => self.next = Some(Phase::Acquiring),
            Event::Leaves => self.next = Some(Phase::Releasing),
            Event::Entered => {
                self.next = None;
                self.phase = Phase::Inside;
            }
            Event::Left => {
                self.next = None;
                self.phase = Phase::Outside;
                self.acquisition += 1;
            }
            Event::Saw { .. } => {}
        }
    }

    /// The number of acquisitions in which it has done its work inside.
    pub fn done_inside(&self) -> u32 {
        self.acquisition + u32::from(self.phase == Phase::Releasing)
    }
}

impl Check {
    /// What `rank` acquires in acquisition number `acquisition`.
    pub fn access(&self, rank: Rank, acquisition: u32) -> Option<Access> {
        let (role, times) = self.scenario.part(rank)?;
        (acquisition < times).then(|| role.access(rank, acquisition))
    }

    /// Whether two of the first acquisitions of different ranks `are` so.
    fn some_pair(&self, are: impl Fn(Access, Access) -> bool) -> bool {
        let accesses: Vec<Access> = (0..self.active()).map(Rank).filter_map(|rank| self.access(rank, 0)).collect();
        let later = |i: usize| accesses[i + 1..].iter();
        accesses.iter().enumerate().any(|(i, &one)| later(i).any(|&two| are(one, two)))
    }

    /// Whether ranks exclude each other, so that one has to wait sometimes.
    pub fn somebody_waits(&self) -> bool {
        self.some_pair(|one, two| self.subject.excludes(one, two))
    }

    /// Whether ranks do not exclude each other, so that two should be inside together sometimes.
    pub fn somebody_shares(&self) -> bool {
        self.some_pair(|one, two| !self.subject.excludes(one, two))
    }

    /// Whether two ranks are inside that must not be, `rank` being the one that has just entered.
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

    /// Whether what `rank` saw of `target`'s data is not what the writers before it have put.
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
            seen: format!("{rank} got {writes} from {target}'s data, to which {put} writes had been made"),
        })
    }
}
