//! The leases of DSLR (D. Y. Yoon, M. Chowdhury, B. Mozafari: Distributed Lock Management with RDMA, SIGMOD'18), as published and as
//! in ShiftLock's artifact (FAST'25). Time that passes at any step breaks them.
//!
//! A lease lasts for [`LAPSE`], except where a test says otherwise. So a rank that has entered since time passed last holds a lease
//! that has not passed.

use rmalab_atomics::{Address, RemoteAtomics, Time, WORD};
use rmalab_locks::{Place, RawRwLock, Result};
use rmalab_verify::subject::{At, Holds, WORDS};
use rmalab_verify::{Check, LAPSE, Property, Subject};

use super::{check, drawn};

/// The fields of DSLR's word, from the lowest up: tickets of readers and of writers that were drawn, and that were served.
const BITS: u32 = 8;
const MAX_S: u64 = 1;
const MAX_X: u64 = MAX_S << BITS;
const N_S: u64 = MAX_X << BITS;
const N_X: u64 = N_S << BITS;

const fn field(word: u64, unit: u64) -> u64 {
    (word / unit) & ((1 << BITS) - 1)
}

/// The changes of the served tickets that restart the time after which a waiter goes past them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restarts {
    /// As published: one of them.
    Either,
    /// As ShiftLock's artifact has it: both.
    Both,
}

/// The form of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Release {
    /// As published: unless its lease has passed.
    UnlessPassed,
    /// By a compare-and-swap, unless a writer's ticket after the holder's is served.
    IfItsTurn,
}

/// A form of DSLR with leases.
#[derive(Clone, Copy, Debug)]
struct Form {
    restarts: Restarts,
    release: Release,
}

const PUBLISHED: Form = Form { restarts: Restarts::Either, release: Release::UnlessPassed };

impl Default for Form {
    fn default() -> Form {
        PUBLISHED
    }
}

#[derive(Debug)]
struct Dslr {
    lock: Address,
    form: Form,
    /// The ticket, while it holds the lock, and the time at which it entered.
    ticket: u64,
    entered: Time,
}

impl Dslr {
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, unit: u64) -> Result<()> {
        loop {
            // The lease begins ahead of the look that finds its turn: any later begin would let the holder stay longer.
            let mut look = ra.now();
            let ticket = ra.fetch_add(self.lock, unit)?;
            let (mine_x, mine_s) = (field(ticket, MAX_X), field(ticket, MAX_S));
            let (mut now, mut served, mut since) = (ticket, ticket, None);
            loop {
                let (n_x, n_s) = (field(now, N_X), field(now, N_S));
                if n_x == mine_x && (unit == MAX_S || n_s == mine_s) {
                    (self.ticket, self.entered) = (ticket, look);
                    return Ok(());
                }
                // Another rank has gone past this one.
                if n_x > mine_x {
                    break;
                }
                let (x_moved, s_moved) = (n_x != field(served, N_X), n_s != field(served, N_S));
                let moved = if self.form.restarts == Restarts::Both { x_moved && s_moved } else { x_moved || s_moved };
                if moved || since.is_none() {
                    (served, since) = (now, Some(ra.now()));
                }
                ra.pause(1)?;
                look = ra.now();
                if since.is_some_and(|since| look.since(since) >= 2 * LAPSE) {
                    let (x, s) = if unit == MAX_X { (mine_x + 1, mine_s) } else { (mine_x, mine_s + 1) };
                    let seen = ra.compare_and_swap(self.lock, now, now % N_S + s * N_S + x * N_X)?;
                    if seen == now {
                        break;
                    }
                    now = seen;
                } else {
                    now = ra.get(self.lock)?;
                }
            }
        }
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, unit: u64) -> Result<()> {
        let (ticket, entered) = (std::mem::take(&mut self.ticket), std::mem::replace(&mut self.entered, Time(0)));
        match self.form.release {
            Release::UnlessPassed if ra.now().since(entered) >= LAPSE => {}
            Release::UnlessPassed => _ = ra.fetch_add(self.lock, unit)?,
            Release::IfItsTurn => {
                let mut now = ra.get(self.lock)?;
                while field(now, N_X) == field(ticket, MAX_X) {
                    match ra.compare_and_swap(self.lock, now, now + unit)? {
                        seen if seen == now => break,
                        seen => now = seen,
                    }
                }
            }
        }
        Ok(())
    }
}

impl RawRwLock for Dslr {
    const NAME: &'static str = "dslr-lease";
    const WORDS: u64 = WORD;
    const NODE: u64 = 0;
    const RESTS_AT_ZERO: bool = false;
    type Params = Form;

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, form: Form) -> Result<Dslr> {
        Ok(Dslr { lock: place.word(0), form, ticket: 0, entered: Time(0) })
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

fn dslr(form: Form, scenario: &str) -> Check {
    let subject = Subject::lock::<Dslr>(form).leasing(1);
    check(subject.words(At::Home, WORDS, &[("lock", Holds::Number)]).keeps("lock", u64::MAX), scenario)
}

#[test]
fn a_release_of_dslr_comes_after_its_look_at_the_clock() {
    assert_eq!(drawn(&dslr(PUBLISHED, "2Wx2 lapse2"), "dslr-late-release"), Property::MutualExclusion);
}

#[test]
fn a_rank_of_dslr_that_finds_its_turn_late_enters_beside_one_that_has_gone_past_it() {
    let compares = Form { release: Release::IfItsTurn, ..PUBLISHED };
    assert_eq!(drawn(&dslr(compares, "2Wx2 lapse2"), "dslr-late-look"), Property::MutualExclusion);
}

#[test]
fn a_reader_of_dslr_that_goes_past_a_writer_counts_other_readers_out() {
    let compares = Form { release: Release::IfItsTurn, ..PUBLISHED };
    assert_eq!(drawn(&dslr(compares, "2Rx1+1Wx2 lapse2"), "dslr-reader-skip"), Property::MutualExclusion);
}

#[test]
fn shiftlocks_form_of_dslr_goes_past_a_live_writer() {
    let artifact = Form { restarts: Restarts::Both, release: Release::IfItsTurn };
    assert_eq!(drawn(&dslr(artifact, "3Wx1 lapse2"), "shiftlock-dslr"), Property::MutualExclusion);
}
