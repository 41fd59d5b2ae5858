//! A lock while this rank is exposed.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let (_, mut exposure) = window.pscw()?;
    let epoch = exposure.post(&[Rank(0)])?;
    window.lock(LockKind::Shared, Rank(0))?.unlock()?;
    epoch.wait()
}

fn main() {
    let _ = case;
}
