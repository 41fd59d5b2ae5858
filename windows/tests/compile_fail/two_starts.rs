//! Two access epochs at once.

use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{Window};

fn case(window: &mut Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    let (mut access, _) = window.pscw()?;
    let first = access.start(&[Rank(0)])?;
    let second = access.start(&[Rank(1)])?;
    first.complete()?;
    second.complete()
}

fn main() {
    let _ = case;
}
