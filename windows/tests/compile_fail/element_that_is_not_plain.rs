//! A put of a value with a pointer.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    epoch.put(WindowDisp(0), &[String::new()])?;
    epoch.unlock()
}

fn main() {
    let _ = case;
}
