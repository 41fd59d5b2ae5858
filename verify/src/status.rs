//! The progress of a rank.

use crate::play::Event;

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
    /// The number of completed acquisitions, which is also the number of the current one, or of the next one.
    pub acquisition: u32,
    /// The number of writes of the data that it has not made, since it gave up.
    pub unwritten: u32,
    /// The phase that its next call begins.
    next: Option<Phase>,
}

impl Status {
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
            Event::Left => {
                self.next = None;
                self.phase = Phase::Outside;
                self.acquisition += 1;
            }
            Event::GaveUp { writes } => {
                self.next = None;
                self.phase = Phase::Outside;
                self.acquisition += 1;
                self.unwritten += u32::from(writes);
            }
            Event::Saw { .. } => {}
        }
    }

    /// The number of acquisitions in which it has finished its work inside.
    pub fn done_inside(&self) -> u32 {
        self.acquisition + u32::from(self.phase == Phase::Releasing)
    }
}
