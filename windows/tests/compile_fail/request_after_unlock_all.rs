//! A request that outlives its epoch.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock_all()?;
    let request = epoch.at(Rank(0))?.rput(WindowDisp(0), vec![1_u8])?;
    epoch.unlock_all()?;
    request.wait().map(drop)
}

fn main() {
    let _ = case;
}
