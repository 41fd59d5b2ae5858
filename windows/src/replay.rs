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
//! use rmalab_windows::{LockKind, Team, Window, WindowDisp};
//!
//! let dir = tempfile::tempdir()?;
//! World::threads(2).try_run(|ra| {
//!     let team = Team::new(ra)?;
//!     let window = Window::builder(&team).record(dir.path()).allocate(64)?;
//!     let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
//!     epoch.put(WindowDisp(8), &[1_u64, 2])?;
//!     epoch.unlock()?;
//!     window.free()
//! })?;
//!
//! let trace = Trace::open(dir.path())?;
//! World::threads(trace.ranks()).try_run(|ra| {
//!     let team = Team::new(ra)?;
//!     let mut replay = Replay::new(Window::builder(&team).info(trace.info()), trace.shape())?;
//!     replay.run(trace.steps(ra.rank()), |_| ())?;
//!     replay.free()
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a replay does not reproduce
//!
//! * Values, and decisions that depend on them. Zeros are put and combined, or swapped for zeros. A rank that polled for a
//!   value polls as many times as in the recording.
//! * Layouts. A transfer with a layout becomes a transfer of the same number of bytes from the layout's first byte on.
//! * Forms with requests. Outside of batches, the forms without requests replace them.
//! * Calls that are not recorded: a rank's loads and stores, messages between ranks, collectives other than the
//!   barrier. Their time is replayed as computation, whether the rank worked or waited.
//! * Tests that found an exposure epoch open. The test that found it over is repeated until it finds it over again.
//! * The time at which memory was attached to a dynamic window. All memory is attached before the first step.
//! * A batch with other calls than transfers and updates. It ends at the first such call.
//!
//! # Cost
//!
//! A replay reads the clock twice for a lock or unlock, and has an entry for each held lock. Its buffers are as long as
//! the longest put, the longest get, and the gets of a batch, at most [`BATCH`] bytes.

mod calls;
mod memory;
mod shape;
mod step;
mod window;

pub use calls::BATCH;
pub use shape::Shape;
pub use step::{Step, Update};
pub use window::{Locked, Observed, Phase, Replay};
