//! A flush outside of an epoch.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    window.flush(Rank(0))
}

fn main() {
    let _ = case;
}
