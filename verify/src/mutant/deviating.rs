//! What carries a mutant's rules out: a player between the lock and the real one.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, Executor};

use super::calls::Moment;
use super::{Mutant, Rule};
use crate::Access;
use crate::play::{Event, Player};
use crate::status::Phase;
use crate::subject::Subject;

/// One rank's calls, with a mutant's deviation.
///
/// All that it remembers is of the current phase, so that a rank's next call remains a function of what its handle shows
/// and of the answers since the phase began.
pub struct Deviating<'p> {
    player: &'p dyn Player,
    mutant: &'static Mutant,
    subject: &'p Subject,
    now: Cell<Moment>,
    /// Calls that the lock has made and that are made later.
    held: RefCell<Vec<Call>>,
}

impl<'p> Deviating<'p> {
    /// Puts `mutant` between a lock on `rank` and its player.
    pub fn new(
        player: &'p dyn Player,
        mutant: &'static Mutant,
        subject: &'p Subject,
        home: Rank,
        rank: Rank,
    ) -> Deviating<'p> {
        let now = Moment { rank, home, phase: Phase::Outside, access: Access::Read, waited: false };
        Deviating { player, mutant, subject, now: Cell::new(now), held: RefCell::default() }
    }

    fn is(&self, rule: &Rule, call: &Call) -> bool {
        let fits = |calls: &super::Calls| calls.fit(call, self.now.get(), self.subject);
        match rule {
            Rule::Late(late, _) => late.iter().any(fits),
            Rule::Unmarked(_) => true,
            _ => rule.calls().into_iter().any(fits),
        }
    }

    /// Whether calls that are held back stay so while `call` is made.
    fn goes_before_held(&self, call: &Call) -> bool {
        let fits = |calls: &super::Calls| calls.fit(call, self.now.get(), self.subject);
        self.mutant.rules.iter().any(|rule| match rule {
            Rule::Late(late, past) => late.iter().chain(*past).any(fits),
            _ => false,
        })
    }

    fn make_held(&self) {
        for call in self.held.take() {
            self.player.call(call);
        }
    }

    /// What the lock gets for a call that is not made: what the word is now, if it needs an answer.
    fn unmade(&self, call: Call) -> Answer {
        match call {
            _ if !call.answers_a_word() => Answer::Done,
            _ => call.address(self.now.get().rank).map_or(Answer::Done, |at| self.player.call(Call::Get { at })),
        }
    }

    fn deviate(&self, rule: &Rule, call: Call) -> Answer {
        match *rule {
            Rule::Skip(_) => self.unmade(call),
            Rule::Answer(_, _) if !call.answers_a_word() => Answer::Done,
            Rule::Answer(_, word) => Answer::Word(word),
            Rule::See(_, seen) => match self.player.call(call) {
                Answer::Word(word) => Answer::Word(seen(word)),
                other => other,
            },
            Rule::Change(_, other) => match self.player.call(other(call)) {
                Answer::Word(_) if !call.answers_a_word() => Answer::Done,
                answer => answer,
            },
            Rule::Instead(_, other, seen) => match self.player.call(other(call)) {
                Answer::Word(word) => Answer::Word(seen(word)),
                answer => answer,
            },
            Rule::Twice(_) => {
                self.player.call(call);
                self.player.call(call)
            }
            Rule::Split(_) => self.split(call),
            Rule::ClaimSuccess(_) => succeeded(call, self.player.call(call)),
            Rule::AsStore(_) => match call {
                Call::CompareAndSwap { at, desired, .. } => {
                    succeeded(call, self.player.call(Call::FetchStore { at, value: desired }))
                }
                _ => self.player.call(call),
            },
            Rule::AsAttempt(_, obstacle) => self.attempt(call, obstacle),
            Rule::ZeroFirst(_) => {
                if let Some(at) = call.address(self.now.get().rank) {
                    self.player.call(Call::Put { at, value: 0 });
                }
                self.player.call(call)
            }
            Rule::Late(..) => {
                let answer = self.unmade(call);
                self.held.borrow_mut().push(call);
                answer
            }
            Rule::Unmarked(mark) => self.unmarked(call, mark),
        }
    }

    fn split(&self, call: Call) -> Answer {
        let Some(at) = call.address(self.now.get().rank) else { return self.player.call(call) };
        let answer = self.player.call(Call::Get { at });
        let Answer::Word(old) = answer else { return answer };
        let new = match call {
            Call::FetchAdd { value, .. } => Some(old.wrapping_add(value)),
            Call::FetchStore { value, .. } => Some(value),
            Call::CompareAndSwap { expected, desired, .. } => (old == expected).then_some(desired),
            _ => None,
        };
        if let Some(value) = new {
            self.player.call(Call::Put { at, value });
        }
        answer
    }

    fn attempt(&self, call: Call, obstacle: u64) -> Answer {
        let Call::CompareAndSwap { at, expected, desired } = call else { return self.player.call(call) };
        let value = desired.wrapping_sub(expected);
        match self.player.call(Call::FetchAdd { at, value }) {
            Answer::Word(old) if old & obstacle != 0 => {
                self.player.call(Call::FetchAdd { at, value: value.wrapping_neg() });
                Answer::Word(old)
            }
            answer => succeeded(call, answer),
        }
    }

    fn unmarked(&self, call: Call, mark: u64) -> Answer {
        // Only identities of writers are marked: all other values, but for counts by fetch-and-add, are small.
        match call {
            Call::CompareAndSwap { at, expected, desired } => {
                let bare = Call::CompareAndSwap { at, expected: expected & !mark, desired: desired & !mark };
                match self.player.call(bare) {
                    Answer::Word(word) if word == expected & !mark => Answer::Word(expected),
                    other => other,
                }
            }
            Call::FetchStore { at, value } => self.player.call(Call::FetchStore { at, value: value & !mark }),
            Call::Put { at, value } => self.player.call(Call::Put { at, value: value & !mark }),
            _ => self.player.call(call),
        }
    }
}

fn succeeded(call: Call, answer: Answer) -> Answer {
    match (call, answer) {
        (Call::CompareAndSwap { expected, .. }, Answer::Word(_)) => Answer::Word(expected),
        _ => answer,
    }
}

impl Executor for Deviating<'_> {
    fn call(&self, call: Call) -> Answer {
        if !self.goes_before_held(&call) {
            self.make_held();
        }
        let answer = match self.mutant.rules.iter().find(|rule| self.is(rule, &call)) {
            Some(rule) => self.deviate(rule, call),
            None => self.player.call(call),
        };
        if matches!(call, Call::WaitUntil { .. }) {
            self.now.set(Moment { waited: true, ..self.now.get() });
        }
        answer
    }
}

impl Player for Deviating<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        self.make_held();
        let now = self.now.get();
        let begun = |phase, access| Moment { phase, access, waited: false, ..now };
        let access = now.access;
        match event {
            Event::Begins(access) => self.now.set(begun(Phase::Acquiring, access)),
            Event::Entered => self.now.set(begun(Phase::Inside, access)),
            Event::Leaves => self.now.set(begun(Phase::Releasing, access)),
            Event::Left => self.now.set(begun(Phase::Outside, access)),
            Event::Saw { .. } => {}
        }
        self.player.event(event, handle);
    }
}
