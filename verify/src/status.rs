//! How far a rank has come.

use crate::play::Event;

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

    /// The rank has reported `event`.
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
