//! A look at a word that another rank changes when it is this rank's turn.
//!
//! On a network each look is a round trip. In coherent memory the word's line stays in this core's cache until another rank writes it. So
//! the rank whose turn is next looks again and again, and a pause would only make the handover longer.

use std::sync::atomic::Ordering;

use rmalab_atomics::{Address, RemoteAtomics};

/// The number of looks before a rank pauses between them: some tens of microseconds.
const LOOKS: u32 = 1000;

/// Looks at a word until its value `is_turn`, if loads see it and the other rank does not need this core. Returns the value, or `None` if
/// the caller has to poll from now on.
pub(crate) fn spin<A: RemoteAtomics + ?Sized>(ra: &A, at: Address, is_turn: impl Fn(u64) -> bool) -> Option<u64> {
    if ra.capabilities().shares_processors {
        return None;
    }
    let word = ra.direct_words(at, 1)?.first()?;
    for _ in 0..LOOKS {
        let value = word.load(Ordering::SeqCst);
        if is_turn(value) {
            return Some(value);
        }
        std::hint::spin_loop();
    }
    None
}
