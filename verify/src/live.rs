//! A check that runs step by step along a schedule: the replay of counterexamples, and the reference for a step.

use std::sync::Arc;

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::coroutine::Turn;
use rmalab_atomics::{Address, Rank};

use crate::actor::{Actor, RESTART};
use crate::check::Check;
use crate::choice::Choice;
use crate::network::{Issued, Memory, Posted};
use crate::panics::panicked;
use crate::play::Event;
use crate::status::{Phase, Status};
use crate::{Error, Result, Violation, clock};

/// The slots of the named words.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    addresses: Vec<Address>,
}

impl Slots {
    /// The slot of the word at `address`; a word without one gets a new slot.
    ///
    /// # Panics
    ///
    /// When a check uses more than 65,536 words.
    pub fn of(&mut self, address: Address) -> u16 {
        let address = address.unwatched();
        let slot = self.addresses.iter().position(|&known| known == address).unwrap_or_else(|| {
            self.addresses.push(address);
            self.addresses.len() - 1
        });
        u16::try_from(slot).expect("a check of at most 65,536 words")
    }

    /// The slot of the word at `address`, if it has one.
    pub fn find(&self, address: Address) -> Option<u16> {
        let address = address.unwatched();
        self.addresses.iter().position(|&known| known == address).map(|slot| slot as u16)
    }

    /// The word of a slot.
    pub fn address(&self, slot: u16) -> Address {
        self.addresses[usize::from(slot)]
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

/// The effect of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The call was carried out, with this answer.
    Answered(Call, Answer),
    /// The call has read its word, which is locked until it writes.
    Halfway(Call),
    /// A posted or started operation took effect on this word. The last value is the word before that.
    Arrived(Address, Posted, u64),
    /// The deadline of the rank's acquisition has passed.
    Passed,
    /// Time has passed on all clocks.
    Lapsed,
    /// The rank has failed, with this number of operations under way.
    Crashed(usize),
    /// The rank has failed amid this operation, with this number of other operations under way.
    CrashedAmid(Call, usize),
    /// The rank has failed and come back, and this number of its operations under way are lost.
    Restarted(usize),
    /// The rank has learned that this one has failed.
    Noticed(Rank),
}

/// One step of a schedule, as it was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The choice.
    pub choice: Choice,
    /// Its effect.
    pub effect: Effect,
    /// The events that the rank reported before its next call.
    pub events: Vec<Event>,
    /// The progress of the rank.
    pub status: Status,
    /// The violation by this step.
    pub violation: Option<Violation>,
}

#[derive(Debug)]
struct Player {
    actor: Actor,
    /// The call that the rank waits for; `None` once it has ended.
    calls: Option<Call>,
    status: Status,
    /// True once its acquisition has made a call that may show whether the lock is free.
    asked: bool,
}

/// A check under way.
#[derive(Debug)]
pub struct Live {
    check: Arc<Check>,
    memory: Memory,
    slots: Slots,
    players: Vec<Player>,
    /// The rank that has had the lock to itself since its acquisition began.
    alone: Option<Rank>,
    /// The violation ahead of the first step.
    at_once: Option<Violation>,
}

impl Live {
    /// Creates the check before its first step: each rank waits with its first call.
    ///
    /// # Errors
    ///
    /// Returns an error if the check is invalid, or if the system has no memory for a stack.
    pub fn new(check: &Check) -> Result<Live> {
        check.validate()?;
        let check = Arc::new(check.clone());
        let ranks = check.active();
        let mut live = Live {
            memory: Memory::new(ranks as usize),
            slots: Slots::default(),
            players: Vec::new(),
            alone: None,
            at_once: None,
            check: Arc::clone(&check),
        };
        for rank in (0..ranks).map(Rank) {
            let actor = Actor::new(&check, rank)?;
            let status = Status::of(&check.scenario, rank);
            live.players.push(Player { actor, calls: None, status, asked: false });
            let (_, violation) = live.resume(rank, Answer::Done);
            live.at_once = live.at_once.or(violation);
        }
        Ok(live)
    }

    /// The progress of each rank.
    pub fn statuses(&self) -> Vec<Status> {
        let of = self.players.iter().zip(&self.memory.held);
        of.map(|(player, &held)| player.status.lapsed(self.check.has_lapsed(held))).collect()
    }

    /// The call that each rank waits for.
    pub fn calls(&self) -> impl Iterator<Item = Option<Call>> {
        self.players.iter().map(|player| player.calls)
    }

    /// The named words, and their values.
    pub fn words(&self) -> impl Iterator<Item = (Address, u64)> {
        (0..self.slots.len()).map(|slot| (self.slots.address(slot as u16), self.memory.word(slot as u16)))
    }

    /// The ranks that have failed, as bits.
    pub fn down(&self) -> u64 {
        self.memory.deaths.down
    }

    /// Returns whether the call of `rank` is enabled.
    pub fn ready(&mut self, rank: Rank) -> bool {
        self.players[rank.index()].calls.is_some_and(|call| {
            let issued = self.issue(rank, call);
            self.memory.ready(rank.index(), &issued)
        })
    }

    fn issue(&mut self, rank: Rank, call: Call) -> Issued {
        Issued::new(self.check.network, rank, call, |address| self.slots.of(address))
    }

    /// All possible next steps. At the end, and in a deadlock, there are none, or only deadlines that may pass.
    pub fn choices(&mut self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for rank in (0..self.check.active()).map(Rank) {
            if self.ready(rank) {
                choices.push(Choice::Step(rank));
            }
            if self.is_ahead_of_deadline(rank) {
                choices.push(Choice::Deadline(rank));
            }
            for index in 0..self.memory.posts[rank.index()].len() {
                if self.memory.may_arrive(rank.index(), index) {
                    choices.push(Choice::Arrive { from: rank, index: index as u16 });
                }
            }
            if self.may_crash(rank) {
                choices.push(Choice::Crash(rank));
                choices.extend(self.amid(rank).map(|_| Choice::CrashAmid(rank)));
            }
            let comes_back = self.players[rank.index()].calls.is_some() && self.memory.may_fail(rank.index());
            if comes_back && self.check.may_restart(self.memory.restarts) {
                choices.push(Choice::Restart(rank));
            }
            if let Some(call) = self.players[rank.index()].calls {
                let issued = self.issue(rank, call);
                let of = (0..self.check.active()).map(Rank);
                let dead = of.filter(|of| self.memory.may_notice(rank.index(), &issued, of.index()));
                choices.extend(dead.map(|of| Choice::Notice { rank, of }));
            }
        }
        if self.check.may_lapse(self.memory.lapses()) && self.players.iter().any(|player| player.calls.is_some()) {
            choices.push(self.check.lapse(&self.statuses()));
        }
        choices
    }

    /// Returns whether `rank` may fail now. After its end, it can only lose what it has posted.
    fn may_crash(&self, rank: Rank) -> bool {
        let has_more = self.players[rank.index()].calls.is_some() || !self.memory.posts[rank.index()].is_empty();
        has_more && self.memory.may_fail(rank.index()) && self.check.may_crash(rank, self.memory.deaths.down)
    }

    /// The operation amid which `rank` may fail.
    fn amid(&mut self, rank: Rank) -> Option<Posted> {
        let issued = self.players[rank.index()].calls.map(|call| self.issue(rank, call))?;
        self.memory.amid(self.check.network, rank.index(), &issued)
    }

    /// Returns whether the deadline of an acquisition of `rank` may pass. Its next acquisition begins where the last one
    /// ended. So a rank that goes on is in an acquisition.
    fn is_ahead_of_deadline(&self, rank: Rank) -> bool {
        let Player { calls, status, .. } = &self.players[rank.index()];
        let now = self.memory.clocks[rank.index()];
        self.check.is_timed(rank) && calls.is_some() && now < clock::deadline(status.acquisition)
    }

    /// Returns whether no step is possible, except for deadlines that may pass.
    pub fn is_over(&mut self) -> bool {
        let choices = self.choices();
        choices.iter().all(|choice| choice.is_optional(|rank| self.memory.deaths.is_down(rank.index())))
    }

    /// Takes one of the [choices](Live::choices).
    ///
    /// # Errors
    ///
    /// Returns a sentence if the choice is not possible.
    pub fn take(&mut self, choice: Choice) -> Result<Step, String> {
        if !self.choices().contains(&choice) {
            return Err(format!("{choice:?} is not possible here"));
        }
        let rank = choice.rank();
        let (mut events, mut violation) = (Vec::new(), None);
        let effect = match choice {
            Choice::Deadline(_) => {
                let acquisition = self.players[rank.index()].status.acquisition;
                self.memory.pass(rank.index(), clock::deadline(acquisition));
                Effect::Passed
            }
            Choice::Crash(_) | Choice::CrashAmid(_) => {
                let player = &mut self.players[rank.index()];
                let untold = self.check.half_written(rank, &player.status);
                let call = player.calls.take();
                player.status = Status::default();
                let under_way = self.memory.posts[rank.index()].len();
                match call.filter(|_| matches!(choice, Choice::CrashAmid(_))) {
                    Some(call) => {
                        let issued = self.issue(rank, call);
                        self.memory.crash_amid(self.check.network, rank.index(), &issued);
                        Effect::CrashedAmid(call, under_way)
                    }
                    None => {
                        self.memory.crash(rank.index(), untold);
                        Effect::Crashed(under_way)
                    }
                }
            }
            Choice::Restart(_) => {
                let lost = self.memory.posts[rank.index()].len();
                self.memory.restart(rank.index());
                (events, violation) = self.resume(rank, RESTART);
                Effect::Restarted(lost)
            }
            Choice::Lapse(_) => {
                let players = &self.players;
                self.memory.lapse(|rank| players[rank].status.phase == Phase::Inside);
                Effect::Lapsed
            }
            Choice::Notice { of, .. } => {
                self.memory.notice(rank.index(), of.index());
                Effect::Noticed(of)
            }
            Choice::Arrive { from, index } => {
                let posted = self.memory.posts[from.index()][usize::from(index)];
                let before = self.memory.word(posted.slot);
                self.memory.arrive(from.index(), usize::from(index));
                let at = self.slots.address(posted.slot);
                violation = self.fenced(from, at, before);
                Effect::Arrived(at, posted, before)
            }
            Choice::Step(_) => {
                let call = self.players[rank.index()].calls.expect("a rank that is ready has a call");
                let issued = self.issue(rank, call);
                let begins = self.players[rank.index()].status.phase == Phase::Outside;
                if begins && self.memory.halfway[rank.index()].is_none() {
                    let alone = self.check.is_alone(rank, self.statuses(), &self.memory);
                    self.alone = alone.then_some(rank);
                }
                let before = self.memory.word(issued.slot);
                match self.memory.carry_out(self.check.network, rank.index(), &issued) {
                    None => Effect::Halfway(call),
                    Some(answer) => {
                        let unfenced = call.address(rank).and_then(|at| self.fenced(rank, at, before));
                        let player = &mut self.players[rank.index()];
                        player.status.answered();
                        player.asked |= self.check.silent(player.actor.is_timed(), &call).is_none();
                        (events, violation) = self.resume(rank, answer);
                        violation = unfenced.or(violation);
                        Effect::Answered(call, answer)
                    }
                }
            }
        };
        Ok(Step { choice, effect, events, status: self.players[rank.index()].status, violation })
    }

    /// The violation by a write of `rank` to the word at `at`, which was `before`, if any.
    fn fenced(&mut self, rank: Rank, at: Address, before: u64) -> Option<Violation> {
        let after = self.memory.word(self.slots.of(at));
        self.check.fenced(rank, self.players[rank.index()].status.acquisition, at, before, after)
    }

    fn resume(&mut self, rank: Rank, answer: Answer) -> (Vec<Event>, Option<Violation>) {
        let moved = self.players[rank.index()].actor.resume(answer);
        let mut violation = None;
        let events = moved.events;
        for &event in &events {
            let Status { acquisition, phase, .. } = self.players[rank.index()].status;
            self.players[rank.index()].status.record(event);
            self.players[rank.index()].asked &= !matches!(event, Event::Begins(_));
            if event == Event::Entered {
                self.memory.held[rank.index()] = 0;
            }
            let told = self.check.told(rank, acquisition);
            let untold = event == Event::Entered && self.memory.deaths.untold & told != 0;
            if event == Event::Told {
                self.memory.deaths.untold &= !told;
            }
            violation = violation.or_else(|| match event {
                Event::Idle => self.check.comes_back_idle(rank, acquisition, phase),
                Event::Entered if untold => Some(self.check.untold(rank, acquisition)),
                Event::GaveUp { .. } => {
                    let (alone, now) = (self.alone == Some(rank), self.memory.clocks[rank.index()]);
                    let at_once = (!self.players[rank.index()].asked).then(Check::gives_up_at_once);
                    let at_once = at_once.map(|(property, seen)| Violation {
                        property,
                        rank,
                        acquisition: Some(acquisition),
                        seen,
                    });
                    at_once.or_else(|| self.check.gives_up(rank, acquisition, alone, now))
                }
                event => self.check.breaks(rank, event, &self.statuses()),
            });
        }
        if self.check.is_timed(rank) {
            self.memory.pass(rank.index(), clock::begin(self.players[rank.index()].status.acquisition));
        }
        let player = &mut self.players[rank.index()];
        if player.status.phase != Phase::Inside {
            self.memory.held[rank.index()] = 0;
        }
        player.calls = None;
        let ended = match moved.turn {
            Turn::Calls(call) => {
                player.calls = Some(call);
                None
            }
            Turn::Finished(Ok(())) => None,
            Turn::Finished(Err(error)) => Some(error.breaks()),
            Turn::Panicked(text) => Some(panicked(&text)),
        };
        let broken = ended.map(|(property, seen)| Violation {
            property,
            rank,
            acquisition: Some(player.status.acquisition),
            seen,
        });
        (events, violation.or(broken))
    }

    /// The violation in a state that is over: ranks that wait forever, or words that are not at rest.
    pub fn end(&mut self) -> Option<Violation> {
        if !self.is_over() {
            return None;
        }
        let waits: Vec<Option<Call>> = self.calls().collect();
        let words: Vec<(Address, u64)> = self.words().collect();
        self.check.end(&self.statuses(), &waits, self.memory.deaths.down, words)
    }
}

/// Takes the steps of `schedule` up to the first violation. Takes no step if the ranks break a property before their
/// first calls.
///
/// # Errors
///
/// [`Error::Schedule`] when a step is not possible.
pub fn replay(check: &Check, schedule: &[Choice]) -> Result<(Vec<Step>, Option<Violation>)> {
    let mut live = Live::new(check)?;
    let mut steps = Vec::new();
    if live.at_once.is_some() {
        return Ok((steps, live.at_once));
    }
    for (i, &choice) in schedule.iter().enumerate() {
        let step = live.take(choice).map_err(|why| Error::Schedule { step: i, why })?;
        let broken = step.violation.clone();
        steps.push(step);
        if broken.is_some() {
            return Ok((steps, broken));
        }
    }
    let end = live.end();
    Ok((steps, end))
}
