//! Worlds of threads in which ranks die.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

#[cfg(test)]
use rmalab_atomics::Rank;
use rmalab_atomics::{Mapped, RemoteAtomics, Threads, World};

use crate::Result;

/// The panic of a rank that dies.
const DIED: &str = "this rank dies";

/// Ends the calling rank of [`with_deaths`].
pub(crate) fn die() -> ! {
    resume_unwind(Box::new(DIED))
}

/// Runs `body` on each rank of a world of `size` threads, where at least one rank [dies](die). Panics if another rank panics.
pub(crate) fn with_deaths(size: u32, body: impl Fn(&Mapped) -> Result<()> + Sync) {
    dying(World::threads(size), body);
}

/// Runs `body` as [`with_deaths`] does, on the nodes of `topology`.
#[cfg(test)]
pub(crate) fn with_deaths_in(topology: &rmalab_atomics::Topology, body: impl Fn(&Mapped) -> Result<()> + Sync) {
    dying(World::threads(topology.size()).topology(topology.clone()), body);
}

/// Waits until `has_come` returns true. Panics if another rank than the doomed ones has failed.
#[cfg(test)]
pub(crate) fn wait(ra: &Mapped, doomed: &[Rank], has_come: impl Fn() -> Result<bool>) -> Result<()> {
    while !has_come()? {
        assert!(ra.failed()?.iter().all(|rank| doomed.contains(&rank)), "another rank has found a fault");
        std::thread::yield_now();
    }
    Ok(())
}

fn dying(world: Threads, body: impl Fn(&Mapped) -> Result<()> + Sync) {
    let is_death = |panic: &(dyn Any + Send)| panic.downcast_ref::<&str>() == Some(&DIED);
    // The world ends with the first panic, which is that of the rank that dies.
    let others = Mutex::new(None);
    let survive = |ra: &Mapped| {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            body(ra).unwrap_or_else(|error| panic!("{}: {error}", ra.rank()));
        }));
        if let Err(panic) = ended {
            if !is_death(&*panic) {
                others.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
            die();
        }
    };
    let died = catch_unwind(AssertUnwindSafe(|| world.run(survive))).expect_err("a rank dies");
    if let Some(panic) = others.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(panic);
    }
    assert!(is_death(&*died), "a rank dies");
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::Rank;

    use super::*;

    fn a_death_amid(survive: impl Fn() + Sync) {
        with_deaths(3, |ra| {
            if ra.rank() == Rank(1) {
                die();
            }
            while ra.failed()?.is_empty() {
                std::thread::yield_now();
            }
            survive();
            Ok(())
        });
    }

    #[test]
    fn survivors_may_go_on() {
        a_death_amid(|| ());
    }

    #[test]
    #[should_panic(expected = "a survivor finds a fault")]
    fn a_panic_after_the_death_is_passed_on() {
        a_death_amid(|| panic!("a survivor finds a fault"));
    }
}
