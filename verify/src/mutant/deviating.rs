//! Applies a mutant's rules between a lock and its real player.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use rmalab_atomics::controlled::{Answer, Call, Executor};
use rmalab_atomics::{Address, Rank, Until};

use super::calls::Moment;
use super::{Calls, Mutant, Rule};
use crate::Access;
use crate::play::{Event, Player};
use crate::status::Phase;
use crate::subject::Subject;
use crate::workload::Workload;

/// One rank's calls, with the deviation of a mutant.
///
/// It remembers nothing beyond the current phase. So a rank's next call is still a function of its handle and its
/// answers since the phase began.
pub struct Deviating<'p> {
    player: &'p dyn Player,
    mutant: &'static Mutant,
    subject: &'p Subject,
    now: Cell<Moment>,
    /// Delayed calls of the lock.
    held: RefCell<Vec<Call>>,
    /// The numbers of started operations that deviate, and their results.
    started: RefCell<Vec<(u32, u64)>>,
}

impl<'p> Deviating<'p> {
    /// Creates the layer between `subject` on `rank` and its player. The global words are at `home`.
    pub fn new(
        player: &'p dyn Player,
        mutant: &'static Mutant,
        subject: &'p Subject,
        home: Rank,
        rank: Rank,
    ) -> Deviating<'p> {
        let has_phases = !matches!(subject.workload(), Workload::Program(_));
        let phase = has_phases.then_some(Phase::Outside);
        let now = Moment { rank, home, phase, access: Access::Read, waited: false };
        Deviating {
            player,
            mutant,
            subject,
            now: Cell::new(now),
            held: RefCell::default(),
            started: RefCell::default(),
        }
    }

    fn fits(&self, calls: &Calls, call: &Call) -> bool {
        calls.fit(call, self.now.get(), self.subject)
    }

    fn is(&self, rule: &Rule, call: &Call) -> bool {
        match rule {
            Rule::Late(late, _) => late.iter().any(|calls| self.fits(calls, call)),
            Rule::Unmarked(_) => true,
            _ => rule.calls().into_iter().any(|calls| self.fits(calls, call)),
        }
    }

    /// Returns whether `call` is made ahead of the delayed calls.
    fn goes_before_held(&self, call: &Call) -> bool {
        self.mutant.rules.iter().any(|rule| match rule {
            Rule::Late(late, past) => late.iter().chain(*past).any(|calls| self.fits(calls, call)),
            _ => false,
        })
    }

    fn make_held(&self) {
        for call in self.held.take() {
            self.player.call(call);
        }
    }

    /// The answer to a call that is not made: the present word, if the lock needs a word.
    fn unmade(&self, call: Call) -> Answer {
        match call {
            _ if !call.answers_a_word() => Answer::Done,
            Call::Failed | Call::Acknowledge { .. } | Call::Silence { .. } => Answer::Word(0),
            _ => call.address(self.now.get().rank).map_or(Answer::Done, |at| self.player.call(Call::Get { at })),
        }
    }

    /// Makes `other` instead of `call`.
    fn instead(&self, call: Call, other: Call) -> Answer {
        match self.player.call(other) {
            Answer::Word(_) if !call.answers_a_word() => Answer::Done,
            answer => answer,
        }
    }

    fn deviate(&self, rule: &Rule, call: Call) -> Answer {
        let at = call.address(self.now.get().rank);
        let word = |answer, seen: fn(u64) -> u64| match answer {
            Answer::Word(word) => Answer::Word(seen(word)),
            other => other,
        };
        match (*rule, at) {
            (Rule::Skip(_), _) => self.unmade(call),
            (Rule::Answer(_, _), _) if !call.answers_a_word() => Answer::Done,
            (Rule::Answer(_, word), _) => Answer::Word(word),
            (Rule::Pretend(_), _) => pretended(call),
            (Rule::TimesOut(_), _) => match call {
                Call::WaitUntil { deadline: Some(_), .. } => Answer::TimedOut,
                _ => self.player.call(call),
            },
            (Rule::See(_, seen), _) => word(self.player.call(call), seen),
            (Rule::LookAgain(_, seen), Some(at)) => {
                match (self.player.call(call), self.player.call(Call::Get { at })) {
                    (Answer::Word(first), Answer::Word(second)) => Answer::Word(seen(first, second)),
                    (other, _) => other,
                }
            }
            (Rule::Change(_, other), _) => self.instead(call, other(call)),
            (Rule::Value(_, value), _) => self.player.call(with_value(call, value)),
            (Rule::AsGet(_), Some(at)) => self.instead(call, Call::Get { at }),
            (Rule::AsSwap(_, value), Some(at)) => self.instead(call, Call::FetchStore { at, value }),
            (Rule::Posted(_, answer), _) => match call {
                Call::FetchStore { at, value } => {
                    self.player.call(Call::Put { at, value });
                    Answer::Word(answer)
                }
                _ => self.player.call(call),
            },
            (Rule::Instead(_, other, seen), _) => word(self.player.call(other(call)), seen),
            (Rule::Twice(_), _) => {
                self.player.call(call);
                self.player.call(call)
            }
            (Rule::Split(_), Some(at)) => self.split(call, at),
            (Rule::ClaimSuccess(_), _) => succeeded(call, self.player.call(call)),
            (Rule::AsStore(_), _) => match call {
                Call::CompareAndSwap { at, desired, .. } => {
                    succeeded(call, self.player.call(Call::FetchStore { at, value: desired }))
                }
                _ => self.player.call(call),
            },
            (Rule::AsAttempt(_, obstacle), _) => self.attempt(call, obstacle),
            (Rule::ZeroFirst(_), Some(at)) => {
                self.player.call(Call::Put { at, value: 0 });
                self.player.call(call)
            }
            (Rule::ZeroAfter(_), Some(at)) => {
                let answer = self.player.call(call);
                self.player.call(Call::Put { at, value: 0 });
                answer
            }
            (Rule::Late(..), _) => {
                let answer = self.unmade(call);
                self.held.borrow_mut().push(call);
                answer
            }
            (Rule::Unmarked(mark), _) => self.unmarked(call, mark),
            (Rule::Untold, _) => self.player.call(call),
            // A rule about a word does not apply to a call without one.
            (_, None) => self.player.call(call),
        }
    }

    /// Makes a started operation with its deviation at once: it may take effect at any time until it is finished.
    fn start(&self, rule: &Rule, request: u32, call: Call) -> Answer {
        let word = match self.deviate(rule, call) {
            Answer::Word(word) => word,
            Answer::Done => 0,
            failed => return failed,
        };
        self.started.borrow_mut().push((request, word));
        Answer::Done
    }

    /// The result of a started operation that deviates.
    fn finish(&self, request: u32) -> Option<Answer> {
        let mut started = self.started.borrow_mut();
        let place = started.iter().position(|&(number, _)| number == request)?;
        Some(Answer::Word(started.swap_remove(place).1))
    }

    fn split(&self, call: Call, at: Address) -> Answer {
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
        // Only identities of writers are marked. All other values are small, except for counts by fetch-and-add.
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

/// The call with another value to add or to store.
fn with_value(call: Call, other: fn(u64) -> u64) -> Call {
    match call {
        Call::FetchAdd { at, value } => Call::FetchAdd { at, value: other(value) },
        Call::FetchStore { at, value } => Call::FetchStore { at, value: other(value) },
        Call::Put { at, value } => Call::Put { at, value: other(value) },
        Call::CompareAndSwap { at, expected, desired } => {
            Call::CompareAndSwap { at, expected, desired: other(desired) }
        }
        _ => call,
    }
}

/// The desired answer of a compare-and-swap or a wait.
fn pretended(call: Call) -> Answer {
    match call {
        Call::CompareAndSwap { expected, .. } => Answer::Word(expected),
        Call::WaitUntil { until: Until::Eq(word) | Until::Ge(word), .. } => Answer::Word(word),
        _ if call.answers_a_word() => Answer::Word(0),
        _ => Answer::Done,
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
        if let Call::Finish { request, .. } = call
            && let Some(answer) = self.finish(request)
        {
            return answer;
        }
        if !self.goes_before_held(&call) {
            self.make_held();
        }
        let rule = |call| self.mutant.rules.iter().find(|rule| self.is(rule, call));
        let answer = match (rule(&call), call) {
            (Some(rule), _) => self.deviate(rule, call),
            (None, Call::Start { request, at, op }) => match rule(&Call::new(at, op)) {
                Some(rule) => self.start(rule, request, Call::new(at, op)),
                None => self.player.call(call),
            },
            (None, _) => self.player.call(call),
        };
        if matches!(call, Call::WaitUntil { .. }) {
            self.now.set(Moment { waited: true, ..self.now.get() });
        }
        answer
    }
}

impl Player for Deviating<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        if event == Event::CameBack {
            // A call that was delayed is lost.
            self.held.borrow_mut().clear();
            self.started.borrow_mut().clear();
        }
        self.make_held();
        if event == Event::Told && self.mutant.rules.iter().any(|rule| matches!(rule, Rule::Untold)) {
            return;
        }
        let now = self.now.get();
        let (phase, access) = match event {
            Event::Begins(access) => (Phase::Acquiring, access),
            Event::Entered => (Phase::Inside, now.access),
            Event::Leaves => (Phase::Releasing, now.access),
            Event::CameBack => (Phase::Acquiring, now.access),
            Event::GaveUp { .. } | Event::Left | Event::Idle => (Phase::Outside, now.access),
            Event::Told | Event::Saw { .. } => return self.player.event(event, handle),
        };
        self.now.set(Moment { phase: now.phase.map(|_| phase), access, waited: false, ..now });
        self.player.event(event, handle);
    }
}
