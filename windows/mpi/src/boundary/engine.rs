//! The engine of one window, with the world and the team that it borrows.

use std::ptr::NonNull;

use rmalab_atomics::{Attended, Mapped, Mpi, RemoteAtomics, Result as NetworkResult, Served};
use rmalab_windows::{Config, RawWindow, Result, Team, Window};

use super::host;
use crate::world::World;

type Ranks = dyn RemoteAtomics;
type Serve = fn() -> NetworkResult<Served>;

/// A value on the heap that others borrow.
struct Lent<T>(NonNull<T>);

impl<T> Lent<T> {
    /// Lends the value.
    ///
    /// # Safety
    ///
    /// Nothing uses the reference, or what borrows by it, once the returned owner is dropped.
    unsafe fn new(value: Box<T>) -> (Lent<T>, &'static T) {
        let place = NonNull::from(Box::leak(value));
        // SAFETY: the box was just leaked, and is freed with its owner only.
        (Lent(place), unsafe { place.as_ref() })
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: `new` has leaked this box, and nothing borrows it any more (its promise).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The ranks of a window. Fields are dropped from the first to the last, and each borrows the next.
enum Base {
    Shared(
        #[expect(dead_code, reason = "an owner")] Lent<Attended<'static, Mapped, Serve>>,
        #[expect(dead_code, reason = "an owner")] Lent<Mapped>,
    ),
    Remote(#[expect(dead_code, reason = "an owner")] Lent<Mpi>),
}

/// A window without memory, which has the epochs and locks of a window of the host.
pub(crate) struct Engine {
    // Dropped in this order: each borrows those below.
    raw: Option<RawWindow<'static, Ranks>>,
    _team: Lent<Team<'static, Ranks>>,
    _base: Base,
}

impl Engine {
    /// Makes the engine on `world`. All ranks call it; all return an error, or none does.
    pub(crate) fn new(world: World, config: Config) -> Result<Engine> {
        // SAFETY: the engine has all owners, and drops what borrows before what is borrowed. See `raw`.
        let (base, ranks): (Base, &'static Ranks) = unsafe {
            match world {
                World::Shared(world) => {
                    let (owner, world) = Lent::new(world);
                    let serve: Serve = || Ok(host::progress());
                    let (attended, ranks) = Lent::new(Box::new(Attended::new(world, serve)));
                    (Base::Shared(attended, owner), ranks)
                }
                World::Remote(world) => {
                    let (owner, ranks) = Lent::new(world);
                    (Base::Remote(owner), ranks)
                }
            }
        };
        // SAFETY: as above; locals are dropped in the reverse order.
        let (owner, team) = unsafe { Lent::new(Box::new(Team::new(ranks)?)) };
        let window = Window::builder(team).config(config).without_variable().symmetric().allocate(0)?;
        Ok(Engine { raw: Some(window.into_raw()), _team: owner, _base: base })
    }

    /// Returns the window. Its lifetime is the engine's; the crate keeps nothing that the window returns.
    #[inline(always)]
    pub(crate) fn raw(&self) -> &RawWindow<'static, Ranks> {
        self.raw.as_ref().expect("it is taken out when the engine is freed")
    }

    /// Frees the window. Collective.
    pub(crate) fn free(mut self) -> Result<()> {
        self.raw.take().map_or(Ok(()), RawWindow::free)
    }
}
