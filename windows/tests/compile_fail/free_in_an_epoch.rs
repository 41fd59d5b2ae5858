//! A window that is freed with an epoch open.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window};

fn case(window: Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    window.free()?;
    epoch.unlock()
}

fn main() {
    let _ = case;
}
