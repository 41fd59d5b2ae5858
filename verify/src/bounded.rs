//! Refuses calls of a lock that use words outside of its memory.
//!
//! A lock whose constants are too small would use words of a later allocation.

use std::fmt::Debug;

use rmalab_atomics::Rank;
use rmalab_atomics::controlled::{Answer, Call, Executor};

use crate::actor::answer_to;
use crate::play::{DATA, Event, Player};
use crate::subject::WORDS;
use crate::workload::Bind;

/// The layer between a lock on `rank` and its player.
pub(crate) struct Bounded<'p> {
    pub(crate) player: &'p dyn Player,
    pub(crate) bind: &'p Bind,
    pub(crate) rank: Rank,
    /// The number of ranks.
    pub(crate) ranks: u32,
}

impl Executor for Bounded<'_> {
    fn call(&self, call: Call) -> Answer {
        // A call that the rank repeats was tested before.
        if let Some(word) = self.player.repeats(&call) {
            return answer_to(&call, word);
        }
        if let Some(at) = call.address(self.rank)
            && at.disp != DATA
            && !self.bind.owns(at.disp, WORDS, self.ranks)
        {
            panic!("{call} uses a word outside of the lock's memory, which the constants WORDS and NODE reserve");
        }
        self.player.call(call)
    }
}

impl Player for Bounded<'_> {
    fn repeats(&self, call: &Call) -> Option<u64> {
        self.player.repeats(call)
    }

    fn event(&self, event: Event, handle: &dyn Debug) {
        self.player.event(event, handle);
    }
}
