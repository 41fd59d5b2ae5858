//! lock_all while a lock is open.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let lock = window.lock(LockKind::Shared, Rank(0))?;
    let all = window.lock_all()?;
    all.unlock_all()?;
    lock.unlock()
}

fn main() {
    let _ = case;
}
