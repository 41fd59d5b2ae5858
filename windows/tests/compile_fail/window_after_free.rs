//! A window that is used after it was freed.

use rmalab_atomics::Mapped;
use rmalab_windows::Window;

fn case(mut window: Window<'_, Mapped>) -> rmalab_windows::Result<()> {
    window.free()?;
    window.fence()?.close()
}

fn main() {
    let _ = case;
}
