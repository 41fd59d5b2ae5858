//! compare_and_swap of a float.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    epoch.compare_and_swap(WindowDisp(0), 0.0_f64, 1.0)?;
    epoch.unlock()
}

fn main() {
    let _ = case;
}
