//! DSLR as it was published, with its doubtful steps, in counters so small that a search reaches them.
//!
//! D. Y. Yoon, M. Chowdhury and B. Mozafari, "Distributed Lock Management with RDMA: Decentralization without Starvation",
//! SIGMOD 2018. One word counts the tickets drawn and served. When a count is full, the lock is frozen: arriving ranks give
//! their tickets back. The rank with the last ticket resets the word after all ranks have released.
//! [`rmalab_locks::dslr_wide`] has no such count, and none of these steps.

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawRwLock, Result};
use rmalab_verify::subject::{At, Holds, WORDS};
use rmalab_verify::{Check, Property, Subject};

use super::{check, drawn, run, verdict};

/// Tickets of readers and of writers, from the lowest field up: drawn, and then served.
const MAX_S: u64 = 1;
const MAX_X: u64 = 1 << 16;
const N_S: u64 = 1 << 32;
const N_X: u64 = 1 << 48;

/// The field of `word` in which `one` is 1.
const fn field(word: u64, one: u64) -> u64 {
    (word / one) & 0xffff
}

/// A rank that finds the lock frozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frozen {
    /// Gives its ticket back, and draws again, as published. (The time in between is random there.)
    DrawsAgain,
    /// Gives its ticket back, and draws again once the lock is not frozen.
    Waits,
    /// Like `Waits`, and resets the lock once all holders have released, since the rank that should do that has failed.
    Resets,
    /// Like `Resets`, and gives its ticket back only while the lock is frozen.
    GivesBackOnlyIfSo,
}

/// A reader that waits and finds that more readers are served than had drawn before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Skipped {
    /// Enters when it is its turn, and otherwise waits on.
    Never,
    /// Takes itself for skipped and draws again, unless it is its turn.
    AfterItsTurn,
    /// Takes itself for skipped and draws again, even if it is its turn.
    BeforeItsTurn,
}

#[derive(Clone, Copy, Debug)]
struct Form {
    /// The tickets of a full count.
    m: u64,
    frozen: Frozen,
    skipped: Skipped,
}

impl Default for Form {
    fn default() -> Form {
        Form { m: 1, frozen: Frozen::Waits, skipped: Skipped::Never }
    }
}

#[derive(Debug)]
struct Dslr {
    lock: Address,
    form: Form,
    /// The word to reset, if this rank has drawn the last ticket.
    reset: u64,
}

impl Dslr {
    fn is_frozen(&self, word: u64) -> bool {
        field(word, MAX_X) >= self.form.m || field(word, MAX_S) >= self.form.m
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, ticket: u64) -> Result<()> {
        loop {
            let drawn = self.draw(ra, ticket)?;
            let mut now = drawn;
            loop {
                let no_writers = field(now, N_X) == field(drawn, MAX_X);
                let is_turn = no_writers && (ticket == MAX_S || field(now, N_S) == field(drawn, MAX_S));
                let is_passed = ticket == MAX_S && field(now, N_S) > field(drawn, MAX_S);
                if is_passed && self.form.skipped == Skipped::BeforeItsTurn {
                    break;
                }
                if is_turn {
                    return Ok(());
                }
                if is_passed && self.form.skipped == Skipped::AfterItsTurn {
                    break;
                }
                ra.pause(1)?;
                now = ra.get(self.lock)?;
            }
        }
    }

    /// Draws a ticket, and returns the word before.
    fn draw<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, ticket: u64) -> Result<u64> {
        loop {
            let before = ra.fetch_add(self.lock, ticket)?;
            if !self.is_frozen(before) {
                let drawn = before.wrapping_add(ticket);
                let counts = drawn & (N_S - 1);
                self.reset = if self.is_frozen(drawn) { (counts * N_S) | counts } else { 0 };
                return Ok(before);
            }
            self.give_back(ra, ticket)?;
            if self.form.frozen == Frozen::DrawsAgain {
                ra.pause(1)?;
                continue;
            }
            loop {
                ra.pause(1)?;
                let now = ra.get(self.lock)?;
                if !self.is_frozen(now) {
                    break;
                }
                if self.form.frozen != Frozen::Waits && field(now, N_X) >= self.form.m {
                    ra.compare_and_swap(self.lock, now, 0)?;
                }
            }
        }
    }

    fn give_back<A: RemoteAtomics + ?Sized>(&self, ra: &A, ticket: u64) -> Result<()> {
        if self.form.frozen != Frozen::GivesBackOnlyIfSo {
            ra.fetch_add(self.lock, ticket.wrapping_neg())?;
            return Ok(());
        }
        let mut now = ra.get(self.lock)?;
        while self.is_frozen(now) {
            let seen = ra.compare_and_swap(self.lock, now, now.wrapping_sub(ticket))?;
            if seen == now {
                break;
            }
            now = seen;
        }
        Ok(())
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, served: u64) -> Result<()> {
        ra.fetch_add(self.lock, served)?;
        let reset = std::mem::take(&mut self.reset);
        let resets = matches!(self.form.frozen, Frozen::DrawsAgain | Frozen::Waits);
        if reset != 0 && resets {
            while ra.compare_and_swap(self.lock, reset, 0)? != reset {
                ra.pause(1)?;
            }
        }
        Ok(())
    }
}

impl RawRwLock for Dslr {
    const NAME: &'static str = "dslr";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    const RESTS_AT_ZERO: bool = false;
    type Params = Form;

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, form: Form) -> Result<Dslr> {
        Ok(Dslr { lock: place.word(0), form, reset: 0 })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.acquire(ra, MAX_S)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.release(ra, N_S)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.acquire(ra, MAX_X)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.release(ra, N_X)
    }
}

/// The check of `form`.
fn checked(form: Form, scenario: &str) -> Check {
    let subject = Subject::lock::<Dslr>(form);
    check(subject.words(At::Home, WORDS, &[("lock", Holds::Number)]).keeps("lock", u64::MAX), scenario)
}

/// The explorer's finding about `form`.
fn found(form: Form, scenario: &str) -> Option<Property> {
    verdict(&run(&checked(form, scenario), &Default::default()))
}

/// The book's drawings show why the published lock is not among the locks.
#[test]
fn the_book_draws_what_the_freeze_does() {
    for (frozen, scenario, name, property) in [
        (Frozen::DrawsAgain, "1R1Wx1", "dslr-freeze", Property::NoLivelock),
        (Frozen::Resets, "3Wx1", "dslr-reset", Property::MutualExclusion),
    ] {
        let check = checked(Form { frozen, ..Form::default() }, scenario);
        assert_eq!(drawn(&check, name), property);
    }
}

#[test]
fn with_ranks_that_wait_while_it_is_frozen_it_holds() {
    for (m, scenario) in [(1, "1R1Wx2"), (1, "2R1Wx1"), (1, "1R2Wx1"), (2, "1R1Wx2"), (2, "2R1Wx1"), (2, "1R2Wx1")] {
        assert_eq!(found(Form { m, ..Form::default() }, scenario), None, "m = {m}, {scenario}");
    }
}

#[test]
fn ranks_that_draw_again_while_it_is_frozen_keep_it_from_being_reset() {
    let form = Form { frozen: Frozen::DrawsAgain, ..Form::default() };
    assert_eq!(found(form, "1R1Wx1"), Some(Property::NoLivelock));
    assert_eq!(found(Form { m: 2, ..form }, "1R+2Wx2"), Some(Property::NoLivelock));
}

#[test]
fn a_ticket_that_is_given_back_after_a_forced_reset_is_taken_from_another_rank() {
    let form = Form { frozen: Frozen::Resets, ..Form::default() };
    assert_eq!(found(form, "2Wx1"), None);
    assert_eq!(found(form, "3Wx1"), Some(Property::MutualExclusion));
}

#[test]
fn to_give_back_only_while_it_is_frozen_mends_that_until_it_is_frozen_again() {
    let form = Form { frozen: Frozen::GivesBackOnlyIfSo, ..Form::default() };
    assert_eq!(found(form, "3Wx1"), Some(Property::MutualExclusion));
    assert_eq!(found(Form { m: 2, ..form }, "3Wx1"), None);
}

#[test]
fn a_reader_that_takes_itself_for_skipped_in_its_turn_leaves_its_ticket_for_ever() {
    let form = Form { m: 8, skipped: Skipped::BeforeItsTurn, ..Form::default() };
    assert_eq!(found(form, "2R2Wx1"), Some(Property::NoLivelock));
    let form = Form { skipped: Skipped::AfterItsTurn, ..form };
    assert_eq!(found(form, "2R2Wx1"), None);
}
