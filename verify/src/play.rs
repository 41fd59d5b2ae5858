//! What each rank of a scenario does, whichever engine runs it.

use std::fmt::Debug;

use rmalab_atomics::controlled::{Controlled, Executor};
use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};

use crate::check::{Check, DATA};
use crate::{Access, Result};

/// Something that a rank says of itself, between its calls.
///
/// An acquisition begins with the first call of `acquire` and has been made once its last call is answered; it ends with
/// the first call of `release`. So [`Entered`](Event::Entered) and [`Left`](Event::Left) belong to the call before them,
/// [`Begins`](Event::Begins) and [`Leaves`](Event::Leaves) to the call after them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// It is about to acquire.
    Begins(Access),
    /// It has acquired: it is inside.
    Entered,
    /// It has read the data of a target, inside.
    Saw {
        /// Whose data.
        target: Rank,
        /// What they are: the number of writes to them.
        writes: u64,
    },
    /// It is about to release.
    Leaves,
    /// It has released.
    Left,
}

/// What carries out a rank's calls, and is told how far it has come.
pub trait Player: Executor {
    /// This rank has come to `event`.
    ///
    /// `handle` is all that the lock's code remembers on this rank until its next call of acquire or release, where the
    /// event is between two such calls.
    fn event(&self, event: Event, handle: &dyn Debug);
}

/// What a lock under test runs on, on one rank.
pub type Stage<'p> = Controlled<&'p dyn Player>;

/// What is done inside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// Nothing.
    #[default]
    Empty,
    /// Whoever is inside gets the data that the lock protects; who may write them puts them, one higher, and flushes.
    Data,
}

/// One rank's handle of the lock under test, of whatever kind.
pub trait Handle: Debug {
    /// Acquires for `access`.
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()>;

    /// Releases what was acquired for `access`.
    fn release(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()>;
}

/// Plays the part of the stage's rank in `check`, with the lock `handle`.
///
/// # Errors
///
/// Those of the lock and of the stage.
pub fn play(stage: &Stage<'_>, handle: &mut dyn Handle, check: &Check) -> Result<()> {
    let player = stage.executor();
    for access in check.scenario.accesses(stage.rank()) {
        player.event(Event::Begins(access), handle);
        handle.acquire(stage, access)?;
        player.event(Event::Entered, handle);
        if check.section == Section::Data {
            for target in check.data(access).map(Rank) {
                visit(stage, handle, access, target.at(DATA))?;
            }
        }
        player.event(Event::Leaves, handle);
        handle.release(stage, access)?;
        player.event(Event::Left, handle);
    }
    Ok(())
}

fn visit(stage: &Stage<'_>, handle: &dyn Handle, access: Access, data: Address) -> Result<()> {
    let mut bytes = [0; WORD as usize];
    stage.get_bytes(data, &mut bytes)?;
    let writes = u64::from_ne_bytes(bytes);
    stage.executor().event(Event::Saw { target: data.rank, writes }, &handle);
    if access.writes() {
        stage.put_bytes(data, &writes.wrapping_add(1).to_ne_bytes())?;
    }
    Ok(())
}
