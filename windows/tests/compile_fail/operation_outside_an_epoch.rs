//! A put outside of an epoch.

use rmalab_atomics::Mapped;
use rmalab_windows::{Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    window.put(WindowDisp(0), &[1_u8])
}

fn main() {
    let _ = case;
}
