//! The progress of a rank.

use rmalab_atomics::Rank;

use crate::play::Event;
use crate::{Group, Role, Scenario};

/// The phase of a rank in its current acquisition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// It has not begun, or it has left.
    #[default]
    Outside,
    /// It has made a call to acquire, but has not entered.
    Acquiring,
    /// It has entered, but has made no call to release.
    Inside,
    /// It has made a call to release, but has not left.
    Releasing,
}

/// The progress of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Status {
    /// The phase.
    pub phase: Phase,
    /// The number of completed acquisitions, which is also the number of the current or the next one. If the rank
    /// acquires without end, it is the number of an equal acquisition.
    pub acquisition: u32,
    /// The number of writes to the data that it has not made because it gave up.
    pub unwritten: u32,
    /// True if it is inside, and its lease has passed.
    pub lapsed: bool,
    /// The phase that its next call begins.
    next: Option<Phase>,
    /// The number of acquisitions after which they repeat without end; 0 if they end.
    period: u32,
}

impl Status {
    /// The status of `rank` before it begins.
    pub fn of(scenario: &Scenario, rank: Rank) -> Status {
        let period = match scenario.part(rank) {
            Some((Role::Mixed, Group::ENDLESS)) => 2,
            Some((_, Group::ENDLESS)) => 1,
            _ => 0,
        };
        Status { period, ..Status::default() }
    }

    /// The same status, of a rank whose lease has passed or not.
    pub(crate) fn lapsed(self, lapsed: bool) -> Status {
        Status { lapsed, ..self }
    }

    /// The same status, of a rank that has failed, and has not resumed.
    pub(crate) fn failed(self) -> Status {
        Status { next: None, ..self }
    }

    /// Counts an acquisition that is over.
    fn is_over(&mut self) {
        self.next = None;
        self.phase = Phase::Outside;
        self.acquisition += 1;
        if self.period > 0 {
            self.acquisition %= self.period;
        }
    }

    /// Records an answer to the rank's call, which may begin a phase.
    pub fn answered(&mut self) {
        if let Some(phase) = self.next.take() {
            self.phase = phase;
        }
    }

    /// Records `event` of the rank.
    pub fn record(&mut self, event: Event) {
        match event {
            Event::Begins(_) => self.next = Some(Phase::Acquiring),
            Event::Leaves => self.next = Some(Phase::Releasing),
            Event::Entered => {
                self.next = None;
                self.phase = Phase::Inside;
            }
            Event::Left => self.is_over(),
            Event::GaveUp { writes } => {
                self.is_over();
                self.unwritten += u32::from(writes);
            }
            Event::CameBack => self.next = None,
            Event::Idle if self.phase == Phase::Releasing => self.is_over(),
            Event::Idle => self.phase = Phase::Outside,
            Event::Told | Event::Saw { .. } => {}
        }
    }

    /// The number of acquisitions in which it has finished its work inside.
    pub fn done_inside(&self) -> u32 {
        self.acquisition + u32::from(self.phase == Phase::Releasing)
    }
}
