//! A lock in a fence epoch.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let fence = window.fence()?;
    window.lock(LockKind::Shared, Rank(0))?.unlock()?;
    fence.close()
}

fn main() {
    let _ = case;
}
