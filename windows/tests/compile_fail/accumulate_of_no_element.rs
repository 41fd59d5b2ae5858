//! An accumulate of a type that MPI does not have.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{LockKind, Op, Window, WindowDisp};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let epoch = window.lock(LockKind::Shared, Rank(0))?;
    epoch.accumulate(WindowDisp(0), Op::Sum, &[1_u128])?;
    epoch.unlock()
}

fn main() {
    let _ = case;
}
