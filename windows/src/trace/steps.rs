//! The calls of a rank, as steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmalab_atomics::Rank;
use rmalab_locks::{Assert, LockKind};

use super::TraceError;
use super::events::Events;
use super::format::{Event, Kind};
use crate::replay::{Step, Update};
use crate::{ElementKind, FenceAssert, Op, PostAssert, Result, StartAssert, WindowDisp};

/// The steps of a rank; from [`Trace::steps`](super::Trace::steps).
#[derive(Debug)]
pub struct Steps {
    /// `None` when there are no more events.
    events: Option<Events>,
    rank: Rank,
    /// The number of remaining barriers and fences that all ranks have.
    meetings: u64,
    /// The number of common epochs of an origin and a target, where one of their files lacks some.
    matched: Arc<BTreeMap<(Rank, Rank), u64>>,
    /// The epochs of this rank so far, by the call and the other rank.
    begun: BTreeMap<(bool, Rank), u64>,
    /// Targets that are left out of the access epoch.
    lost: Vec<Rank>,
    /// The call that follows the computation that was returned last.
    next: Option<Step>,
}

impl Steps {
    pub(super) fn new(
        events: Option<Events>,
        rank: Rank,
        meetings: u64,
        matched: Arc<BTreeMap<(Rank, Rank), u64>>,
    ) -> Steps {
        Steps { events, rank, meetings, matched, begun: BTreeMap::new(), lost: Vec::new(), next: None }
    }

    fn event(&mut self) -> Result<Option<(Event, u64)>, TraceError> {
        self.events.as_mut().map_or(Ok(None), Events::next)
    }

    /// Splits the last event's group into the ranks that have an epoch for it and the others.
    fn group(&mut self, is_start: bool) -> (Arc<[Rank]>, Vec<Rank>) {
        let group = self.events.as_ref().map(Events::group).unwrap_or_default();
        let mut lost = Vec::new();
        if !self.matched.is_empty() {
            for &rank in &*group {
                let pair = if is_start { (self.rank, rank) } else { (rank, self.rank) };
                if let Some(&common) = self.matched.get(&pair) {
                    let begun = self.begun.entry((is_start, rank)).or_default();
                    *begun += 1;
                    if *begun > common {
                        lost.push(rank);
                    }
                }
            }
        }
        if lost.is_empty() {
            return (group, lost);
        }
        (group.iter().copied().filter(|rank| !lost.contains(rank)).collect(), lost)
    }

    /// Returns the step for an event, if there is one. A fence that not all ranks have ends the steps.
    fn step(&mut self, event: Event) -> Option<Step> {
        let Event { kind, target, disp, bytes, update, asserts } = event;
        if kind.is_transfer() && self.lost.contains(&target) {
            return None;
        }
        let disp = WindowDisp(disp);
        let assert = if asserts == 0 { Assert::None } else { Assert::NoCheck };
        // Every update has both.
        let (element, op) = update.unwrap_or((ElementKind::U8, Op::NoOp));
        let update = |call| Step::Update { call, target, disp, bytes };
        Some(match kind {
            Kind::LockAll => Step::LockAll { assert },
            Kind::UnlockAll => Step::UnlockAll,
            Kind::Shared => Step::Lock { kind: LockKind::Shared, target, assert },
            Kind::Exclusive => Step::Lock { kind: LockKind::Exclusive, target, assert },
            Kind::Unlock => Step::Unlock { target },
            Kind::Put => Step::Put { target, disp, bytes },
            Kind::Get => Step::Get { target, disp, bytes },
            Kind::Accumulate => update(Update::Accumulate(element, op)),
            Kind::GetAccumulate => update(Update::GetAccumulate(element, op)),
            Kind::FetchAndOp => update(Update::FetchAndOp(element, op)),
            Kind::CompareAndSwap => update(Update::CompareAndSwap(element)),
            Kind::Flush => Step::Flush { target },
            Kind::FlushAll => Step::FlushAll,
            Kind::BatchBegin => Step::BatchBegin,
            Kind::BatchEnd => Step::BatchEnd,
            Kind::Barrier => {
                self.meetings = self.meetings.checked_sub(1)?;
                Step::Barrier
            }
            Kind::Fence => {
                let assert = FenceAssert::from_bits(asserts);
                if assert.is_synchronization() {
                    match self.meetings.checked_sub(1) {
                        Some(left) => self.meetings = left,
                        None => {
                            self.events = None;
                            return None;
                        }
                    }
                }
                Step::Fence(assert)
            }
            Kind::Post => {
                let (group, _) = self.group(false);
                Step::Post { group, assert: PostAssert::from_bits(asserts) }
            }
            Kind::Start => {
                let (group, lost) = self.group(true);
                self.lost = lost;
                Step::Start { group, assert: StartAssert::from_bits(asserts) }
            }
            Kind::Complete => {
                self.lost.clear();
                Step::Complete
            }
            Kind::Wait => Step::Wait,
            Kind::TestOver => Step::Test,
            Kind::TestOpen | Kind::Attach | Kind::Detach => return None,
        })
    }
}

/// Returns the event of a call, and its group: the inverse of [`Steps`]. A computation has none.
pub(super) fn event_of(step: &Step) -> Option<(Event, &[Rank])> {
    let asserted = |assert: Assert| u8::from(assert == Assert::NoCheck);
    let none: &[Rank] = &[];
    let event = match *step {
        Step::Compute(_) => return None,
        Step::LockAll { assert } => Event::of(Kind::LockAll).asserting(asserted(assert)),
        Step::UnlockAll => Event::of(Kind::UnlockAll),
        Step::Lock { kind, target, assert } => {
            let kind = if kind == LockKind::Shared { Kind::Shared } else { Kind::Exclusive };
            Event::of(kind).at(target).asserting(asserted(assert))
        }
        Step::Unlock { target } => Event::of(Kind::Unlock).at(target),
        Step::Put { target, disp, bytes } => Event::of(Kind::Put).at(target).moving(disp.0, bytes),
        Step::Get { target, disp, bytes } => Event::of(Kind::Get).at(target).moving(disp.0, bytes),
        Step::Update { call, target, disp, bytes } => {
            let (kind, element, op) = match call {
                Update::Accumulate(element, op) => (Kind::Accumulate, element, op),
                Update::GetAccumulate(element, op) => (Kind::GetAccumulate, element, op),
                Update::FetchAndOp(element, op) => (Kind::FetchAndOp, element, op),
                Update::CompareAndSwap(element) => (Kind::CompareAndSwap, element, Op::Replace),
            };
            Event { update: Some((element, op)), ..Event::of(kind).at(target).moving(disp.0, bytes) }
        }
        Step::Flush { target } => Event::of(Kind::Flush).at(target),
        Step::FlushAll => Event::of(Kind::FlushAll),
        Step::BatchBegin => Event::of(Kind::BatchBegin),
        Step::BatchEnd => Event::of(Kind::BatchEnd),
        Step::Barrier => Event::of(Kind::Barrier),
        Step::Fence(assert) => Event::of(Kind::Fence).asserting(assert.bits()),
        Step::Post { ref group, assert } => return Some((Event::of(Kind::Post).asserting(assert.bits()), group)),
        Step::Start { ref group, assert } => return Some((Event::of(Kind::Start).asserting(assert.bits()), group)),
        Step::Complete => Event::of(Kind::Complete),
        Step::Wait => Event::of(Kind::Wait),
        Step::Test => Event::of(Kind::TestOver),
    };
    Some((event, none))
}

impl Iterator for Steps {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Result<Step>> {
        if let Some(step) = self.next.take() {
            return Some(Ok(step));
        }
        loop {
            let (event, gap) = match self.event() {
                Ok(event) => event?,
                Err(error) => {
                    self.events = None;
                    return Some(Err(error.into()));
                }
            };
            let step = self.step(event);
            if gap > 0 {
                self.next = step;
                return Some(Ok(Step::Compute(gap)));
            }
            if let Some(step) = step {
                return Some(Ok(step));
            }
        }
    }
}
