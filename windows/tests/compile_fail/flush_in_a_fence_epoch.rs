//! A flush in a fence epoch: only passive epochs have it.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.fence()?;
    epoch.flush(Rank(0))?;
    epoch.close()
}

fn main() {
    let _ = case;
}
