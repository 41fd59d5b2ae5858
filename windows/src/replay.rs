//! One rank's steps in an experiment (calls of a window, computation), and their replay on a real window, under any lock
//! policy and on any backend.
//!
//! Steps come from a recorded program ([`Trace`](crate::trace::Trace)) or from a description of one. A [`Replay`] makes a
//! window of the recorded [`Shape`] and makes the recorded calls on it, at their displacements:
//!
//! ```
//! use rmalab_atomics::{Rank, RemoteAtomics, World};
//! use rmalab_windows::replay::Replay;
//! use rmalab_windows::trace::Trace;
//! use rmalab_windows::{LockKind, Result, Team, Window, WindowDisp};
//!
//! let dir = tempfile::tempdir()?;
//! let all = |ranks: Vec<Result<()>>| ranks.into_iter().collect::<Result<Vec<()>>>();
//! all(World::threads(2).run(|ra| {
//!     let team = Team::new(ra)?;
//!     let window = Window::builder(&team).record(dir.path()).allocate(64)?;
//!     let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
//!     epoch.put(WindowDisp(8), &[1_u64, 2])?;
//!     epoch.unlock()?;
//!     window.free()
//! })?)?;
//!
//! let trace = Trace::open(dir.path())?;
//! all(World::threads(trace.ranks()).run(|ra| {
//!     let team = Team::new(ra)?;
//!     let mut replay = Replay::new(Window::builder(&team).info(trace.info()), trace.shape())?;
//!     replay.run(trace.steps(ra.rank()), |_| ())?;
//!     replay.free()
//! })?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a replay does not reproduce
//!
//! * Values, and what a program does because of them. Zeros are put and combined, or swapped for zeros; a rank that polled
//!   until it found something polls as often as it did then.
//! * Layouts. A transfer with a layout is one of as many bytes from the layout's first one on.
//! * Forms with requests, which are made as those without, outside of batches.
//! * What was not recorded: a rank's loads and stores, messages between ranks, collectives other than the barrier. The
//!   time that they took is replayed as computation, whether the rank worked in it or waited.
//! * Tests that found an epoch of exposure open: the one that found it over is made again until it does.
//! * When memory was attached to a dynamic window. All of it is attached before the first step.
//! * A batch ends at the first call in it that is neither a transfer nor an update.
//!
//! # Cost
//!
//! Two clock readings for a lock or unlock, an entry for each lock held, and buffers: the longest put and the longest get,
//! and what a batch gets, at most [`BATCH`] bytes.

mod calls;
mod memory;
mod shape;
mod step;
mod window;

pub use calls::BATCH;
pub use shape::Shape;
pub use step::{Step, Update};
pub use window::{Locked, Observed, Part, Replay};
