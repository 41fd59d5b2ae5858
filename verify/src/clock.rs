//! The clocks of ranks.
//!
//! Where the time of a lease passes, all clocks advance together, by [`LAPSE`]. Otherwise these rules hold:
//!
//! A rank's clock stands still, except that the deadline of its acquisition may pass. That is one step, at any time
//! from the start of the acquisition to its end, or never. The next acquisition begins at the deadline of the last one.
//! So no clock goes back, and each acquisition begins ahead of its own deadline. A rank without deadlines has a clock
//! that stands still at 0.

use std::time::Duration;

use rmalab_atomics::Time;

/// The time from the start of an acquisition to its deadline: a second.
const SPAN: u64 = 1_000_000_000;

/// The time that passes at once, at any step.
pub const LAPSE: Duration = Duration::from_nanos(SPAN);

/// The time at which acquisition number `acquisition`, counted from 0, begins.
pub(crate) const fn begin(acquisition: u32) -> Time {
    Time(acquisition as u64 * SPAN)
}

/// The deadline of acquisition number `acquisition`, counted from 0.
pub const fn deadline(acquisition: u32) -> Time {
    Time((acquisition as u64 + 1) * SPAN)
}
