//! A fence while lock_all is open.

use rmalab_atomics::Mapped;
use rmalab_windows::{Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let all = window.lock_all()?;
    let fence = window.fence()?;
    all.unlock_all()?;
    fence.close()
}

fn main() {
    let _ = case;
}
