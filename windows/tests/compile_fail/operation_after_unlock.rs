//! An operation after the epoch's end.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    epoch.unlock()?;
    epoch.put(WindowDisp(0), &[1_u8])
}

fn main() {
    let _ = case;
}
