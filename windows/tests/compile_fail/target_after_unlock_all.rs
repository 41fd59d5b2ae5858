//! A target that outlives its epoch.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock_all()?;
    let target = epoch.at(Rank(0))?;
    epoch.unlock_all()?;
    target.put(WindowDisp(0), &[1_u8])
}

fn main() {
    let _ = case;
}
