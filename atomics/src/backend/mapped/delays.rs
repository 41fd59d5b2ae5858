//! Delays at random in front of operations on words, for tests (`--cfg rmalab_delays`: see scripts/delays).
//!
//! A test may depend on an order of its ranks that it does not enforce. On an idle machine the ranks nearly always come in that order.
//! With delays, a rank is often interrupted between two operations, for as long as other ranks need for several.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::random::Random;

thread_local! {
    static RANDOM: RefCell<Random> = RefCell::new(Random::new(RandomState::new().hash_one(()), 0));
}

/// Sleeps ahead of one operation in 16, up to 400 microseconds.
pub(super) fn delay() {
    RANDOM.with_borrow_mut(|random| {
        if random.below(16) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(400)));
        }
    });
}
