//! A window that two threads share.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window};

fn case(window: &Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    std::thread::scope(|scope| {
        scope.spawn(|| window.lock(LockKind::Shared, Rank(0)).map(drop));
    });
    Ok(())
}

fn main() {
    let _ = case;
}
