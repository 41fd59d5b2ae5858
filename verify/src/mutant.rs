//! Locks broken on purpose: what a mutant deviates in is a call or an answer, and no lock is touched.
//!
//! A [`Mutant`] stands between a lock and whatever carries out its calls. It sees each call with the phase that it is
//! made in and the names of the lock's words, and may drop it, change it, hold it back, or change its answer.

use std::fmt::Debug;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, Executor};

use crate::check::Check;
use crate::play::{Event, Player};

/// A deviation from one or several locks.
#[derive(Debug)]
pub struct Mutant {
    /// Its name, on the command line and in the kill matrix.
    pub name: &'static str,
    /// What is broken, in one line.
    pub description: &'static str,
    /// The locks that it suits.
    pub locks: &'static [&'static str],
}

impl Mutant {
    /// Whether it can be put on the lock called `name`.
    pub fn suits(&self, name: &str) -> bool {
        self.locks.contains(&name)
    }
}

/// One rank's calls, with a mutant's deviation.
pub struct Deviating<'p> {
    player: &'p dyn Player,
}

impl<'p> Deviating<'p> {
    /// Puts `mutant` between a lock on `rank` and its player.
    pub fn new(player: &'p dyn Player, _mutant: &'static Mutant, _check: &Check, _rank: Rank) -> Deviating<'p> {
        Deviating { player }
    }
}

impl Executor for Deviating<'_> {
    fn call(&self, call: Call) -> Answer {
        self.player.call(call)
    }
}

impl Player for Deviating<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        self.player.event(event, handle);
    }
}
