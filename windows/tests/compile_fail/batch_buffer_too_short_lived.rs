//! A buffer that is dropped before the operation is complete.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    epoch.batch(|batch| {
        let source = [1_u8; 8];
        batch.put(&epoch, WindowDisp(0), &source)
    })?;
    epoch.unlock()
}

fn main() {
    let _ = case;
}
