//! A buffer that is read while a get into it is under way.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    let mut dest = [0_u8; 8];
    epoch.batch(|batch| {
        batch.get(&epoch, WindowDisp(0), &mut dest)?;
        assert_eq!(dest[0], 0);
        Ok(())
    })?;
    epoch.unlock()
}

fn main() {
    let _ = case;
}
