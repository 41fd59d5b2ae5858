//! The windows of unchanged MPI programs, with rmalab's epochs and lock policies.
//!
//! The crate is a shared library, `librmalab_mpi.so`, for one MPI: the MPI of the `mpicc` that built it (`MPICC`). A program
//! gets it by `LD_PRELOAD`, or is linked with it before its MPI. The library defines the calls of MPI's chapter on one-sided
//! communication (`MPI_Win_lock`, `MPI_Put`). It calls the MPI below it, the *host*, by its profiling names (`PMPI_Put`).
//!
//! ```sh
//! mpirun -n 4 env LD_PRELOAD=$PWD/librmalab_mpi.so RMALAB_LOCK_POLICY=hierarchical ./program
//! ```
//!
//! # Windows
//!
//! `table` finds the state of a managed window by its handle. A window without state belongs to the host alone: every call on it goes to
//! the host.
//!
//! | mode | epochs and locks | data |
//! | --- | --- | --- |
//! | `off`, `record` | the host's | the host's |
//! | `policy` | rmalab's window engine's, on a hidden world of the communicator's ranks | the host's, in one `MPI_Win_lock_all` epoch for the life of the window |
//! | `native` | the same | the engine's, in the hidden world's shared memory, or between the processes' own memory |
//!
//! In the modes `off`, `record` and `policy`, the window is a window of the host, of the requested flavor. So the host keeps its memory,
//! attributes, name, info, error handler and group, and calls on them need no code here.
//!
//! In mode `policy`, the engine is a window without memory ([`RawWindow`](rmalab_windows::RawWindow)). An operation first checks its epoch
//! with the engine, and then the host executes it. A call that ends an epoch first completes the operations by the host's flush, then ends
//! the epoch in the engine. So the next rank inside finds the data. The host's `MPI_Win_sync` at both ends of an epoch orders a rank's loads
//! and stores to its own window.
//!
//! In mode `native`, the engine is a window with memory, and the handle is a window of the host over this rank alone, the *carrier*. It
//! has the program's name, attributes, info and error handler, which need no other rank. So the host takes no part when a window is made,
//! and a carrier that the program has not changed serves the next window. The library answers five attributes, the group and the queries
//! of shared memory itself. `boundary::native` lists the path of each operation, and explains why all accumulates are atomic against each
//! other. Every thousandth call that completes operations lets the host make progress, since the program may wait in a loop for data that
//! the host still has to send.
//!
//! The memory of `MPI_Win_create` and of dynamic windows is the program's. The kernel copies it between the processes
//! ([`registered`](rmalab_atomics::registered)), and the target takes no part. Its own rank's atomics would not be atomic against such
//! copies. So all accumulates there take a lock of the target. Where the kernel forbids the copies, these windows get the mode `policy`
//! instead of `native`. So do all windows of ranks on several hosts.
//!
//! The hidden world belongs to the communicator, and its windows share it. It is an attribute of the communicator, whose delete callback
//! frees it when the last of the windows is gone. It is one of two:
//!
//! * `shared`: an anonymous memory file that all ranks map. Rank 0 makes it, and the others open it by its place in `/proc`. The
//!   ranks are on one host if all of them find this very file there. It spans a terabyte of addresses, and has pages only where
//!   some rank has stored. A window for which it is too small gets its own file.
//! * `remote`: a window of the host, over its remote atomics, on any network and any number of hosts: the backend
//!   [`mpi`](https://docs.rs/rmalab-atomics).
//!
//! A rank that waits in `shared` lets the host make progress meanwhile, since other ranks may wait for it in calls of the host.
//!
//! A communicator whose windows have a world in shared memory has its barriers there, too.
//!
//! # Recording
//!
//! With `rmalab_record`, in any mode, and always in the mode `record`, `record` times the calls on a window and writes a trace
//! ([`rmalab_windows::trace`]). Then native windows do not take their short paths. `boundary::events` turns calls into the trace's
//! steps, and lists the types and operations that a trace lacks.
//!
//! # Choice
//!
//! The README has the info keys and the variables. All ranks of a window pass the same values. Where they do not, or where a mode
//! cannot work, the host keeps the window to itself. `RMALAB_VERBOSE=1` prints the choice for each window, with the reason.
//!
//! # Limits
//!
//! * A library for one MPI under a program of the other ends the program in `MPI_Init`, with a line that names the
//!   cause.
//! * If the launcher of the other MPI starts a program, each process becomes a program of one rank. `MPI_Init` prints a line then, and so
//!   does a new window, since a Fortran program may begin without a call that reaches this library.
//! * With `MPI_THREAD_MULTIPLE`, calls of a process follow each other, except where they wait (`boundary::threads`). A window has its own
//!   world, which has to be `shared`. While a call of one thread waits on a window, calls of other threads on that window wait for that
//!   call. If only such a call can end the wait, the program hangs.
//! * Over `remote`, locks need a host whose atomics work. Open MPI 4 without RDMA needs `OMPI_MCA_osc=sm` on one node; otherwise its
//!   compare-and-swap ends with a segmentation fault. The library detects that, and leaves the window to the host.
//! * For Fortran, `boundary::fortran` has the functions under gfortran's names. Functions with large counts go to the
//!   host.
//!
//! # Layers
//!
//! `boundary` has the unsafe code: the calls that programs see, and the host's calls as safe functions. `settings` reads hints and variables.
//! `world` makes hidden worlds, and maps their memory. `policy` and `boundary::native` have the windows of these modes, and `table` finds
//! them. `summary` counts calls, and `record` records them.

#![deny(unsafe_code)]
#![cfg_attr(
    not(feature = "mpi"),
    allow(dead_code, reason = "without the feature only tests use the modules that need no MPI")
)]

#[cfg(feature = "mpi")]
mod boundary;
#[cfg(feature = "mpi")]
mod policy;
#[cfg(feature = "mpi")]
mod record;
#[cfg(any(feature = "mpi", test))]
mod settings;
#[cfg(any(feature = "mpi", test))]
mod summary;
#[cfg(feature = "mpi")]
mod table;
#[cfg(feature = "mpi")]
mod world;
