//! An operation in a fence epoch that a fence has closed.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.fence()?;
    let next = epoch.next()?;
    epoch.at(Rank(0))?.put(WindowDisp(0), &[1_u8])?;
    next.close()
}

fn main() {
    let _ = case;
}
