//! Two exposure epochs at once.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let (_, mut exposure) = window.pscw()?;
    let first = exposure.post(&[Rank(0)])?;
    let second = exposure.post(&[Rank(1)])?;
    first.wait()?;
    second.wait()
}

fn main() {
    let _ = case;
}
