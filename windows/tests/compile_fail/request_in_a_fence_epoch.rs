//! A form with a request in a fence epoch: only passive epochs have it.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.fence()?;
    epoch.at(Rank(0))?.rput(WindowDisp(0), vec![1_u8])?.wait()?;
    epoch.close()
}

fn main() {
    let _ = case;
}
