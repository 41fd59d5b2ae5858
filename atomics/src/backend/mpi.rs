//! The `mpi` backend: ranks are the processes of an MPI job, and operations are MPI-3's remote memory access.
//!
//! So rmalab runs on every machine with an MPI, over the network of that MPI, and the MPI's own atomics can be studied,
//! too. The feature is `mpi`. The program is bound to the MPI of the `mpicc` that built it, and the `mpirun` of that
//! same MPI starts it. The variable `MPICC` names an `mpicc` other than the first in the path.
//!
//! # Operations
//!
//! The segments are one window of `MPI_Win_allocate`, in one `MPI_Win_lock_all` epoch (`MPI_MODE_NOCHECK`) for the life of
//! the world.
//!
//! | trait | MPI-3.1, chapter 11 |
//! | --- | --- |
//! | `fetch_add`, `fetch_store`, `get` | `MPI_Fetch_and_op` with `MPI_SUM`, `MPI_REPLACE`, `MPI_NO_OP`, then `MPI_Win_flush` |
//! | `compare_and_swap` | `MPI_Compare_and_swap`, then `MPI_Win_flush` |
//! | `start` of one of these | the same without the flush, which the wait for the operation replaces |
//! | `put` | `MPI_Accumulate` with `MPI_REPLACE`; before it `MPI_Win_flush`, if a put to *another* word of that target is under way |
//! | `put_bytes_nb`, `get_bytes_nb` | `MPI_Rput`, `MPI_Rget` |
//! | `put_bytes`, `post_bytes`, `get_bytes` | `MPI_Put` or `MPI_Get`, then `MPI_Win_flush`, or `MPI_Win_flush_local` |
//! | `wait_until` | loads of the local word, `MPI_Iprobe` between them (mpi/wait.rs) |
//!
//! Some puts need a flush before them. MPI orders the accumulates of one rank only at one *location* (section 11.7.1),
//! but the trait orders the puts of one rank at one *target*. [`Mpi::ordering_flushes`] counts these flushes.
//!
//! # Requirements on an MPI beyond the standard
//!
//! * The standard lets an MPI assume that concurrent accumulates at one location have the same operation, or
//!   `MPI_NO_OP` (`accumulate_ops`, section 11.2.1; the weakest value is the default). Locks add, swap and compare at
//!   one word. No MPI is known to use the assumption; the conformance suite shows it.
//! * The standard does not define a put at a location where another rank accumulates. Bulk operations here are atomic for
//!   each aligned word where the MPI's copies are, like the copies of processors and network adapters.
//! * A posted put is on its way when its call returns; the standard lets an MPI hold it back until the flush. Waits and
//!   pauses of this backend complete posted puts; a rank that computes does not.
//! * On one node Open MPI 4 chooses its osc/rdma component even on a machine without RDMA. Then it ends with a
//!   segmentation fault in the first `MPI_Compare_and_swap`, even of a rank with itself (its issues 7027, 7967 and 11349;
//!   seen in 4.1.4). [`Attach::attach`] returns an error then, and names the flags of `mpirun` that choose another
//!   component.
//!
//! # Progress
//!
//! An MPI whose network has no atomics executes them with messages, which the target serves only in its own calls; so
//! `passive_progress` is false. A rank that computes for long keeps others waiting, unless the MPI has a progress thread
//! (`MPICH_ASYNC_PROGRESS=1`). A test with a sleeping target showed that Debian's MPICH 4.0.2 (ch4:ucx, no network
//! adapter) works this way even on one node, including puts and windows of `MPI_Win_allocate_shared`. Open MPI 4.1.4 with
//! osc/sm does not.
//!
//! Where a node has more ranks than cores, such an MPI also blocks in a flush while the target has no core. Before such
//! a flush, the rank sends a request that it can test, and yields the core between the tests (mpi/wait.rs).
//!
//! # Failures
//!
//! The death of a rank ends the job: `mpirun` ends the other ranks. So no operation returns
//! [`PeerFailed`](crate::Error::PeerFailed). A rank that [fails](Mpi::fail), or whose thread panics, ends the job with
//! `MPI_Abort`. So does an operation that MPI cannot complete, since MPI does not say whether it still uses its
//! buffers. An operation that MPI refuses to start returns [`Error::System`].
//!
//! # Binding
//!
//! The binding is mpi-sys, rsmpi's bindgen output for the installed `mpi.h`. It has all calls, for MPICH and Open MPI. Calls
//! use the profiling names (`PMPI_Put`), so that a library that intercepts a program's calls does not intercept these.
//! It lacks some constants that the headers define by C expressions and that rsmpi itself does not use: `MPI_REPLACE`,
//! `MPI_NO_OP`, `MPI_WIN_MODEL`, `MPI_WIN_UNIFIED`. A C file of four lines has these. rsmpi's safe layer has no
//! windows.

mod library;
mod posted;
mod wait;

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use mpi_sys as ffi;

pub use library::library;
use library::{Handles, Session, check, explain};
use posted::{Posted, Requests, UnderWay};

use crate::join::environment::{self, Environment};
use crate::model::fabric::{self, Bytes, Completion, DONE, Delay, Extras, Fabric, Span, Word, WordOp, WorldView};
use crate::{
    Address, Atomicity, Capabilities, Error, Joined, Operation, Rank, Request, Result, SEGMENT_BYTES, SymmetricHeap,
    Time, Topology, Until, WORD, Wishes,
};

/// The backend's name for `--backend`.
const BACKEND: &str = "mpi";

/// The largest number of bytes of one call of MPI, whose counts have 31 bits.
const CALL_BYTES: usize = 1 << 30;

/// Joins the world of the MPI job in which this process was started.
///
/// This is [`Attach`] without options.
///
/// # Errors
///
/// See [`Attach::attach`].
pub fn attach() -> Result<Mpi> {
    Attach::new().attach()
}

/// A rank's options for the world that it joins.
#[derive(Clone, Default, Debug)]
#[must_use = "nothing happens before `attach`"]
pub struct Attach {
    segment_bytes: Option<u64>,
    topology: Option<Topology>,
}

impl Attach {
    /// Segments of [`SEGMENT_BYTES`] and MPI's nodes, unless the environment sets others (`RMALAB_SEGMENT_BYTES`,
    /// `RMALAB_TOPOLOGY`).
    pub fn new() -> Attach {
        Attach::default()
    }

    /// Asks for segments of this length, in bytes; it is rounded up to a multiple of 8.
    pub fn segment_bytes(mut self, bytes: u64) -> Attach {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Places the ranks on nodes, instead of MPI's hosts.
    pub fn topology(mut self, topology: Topology) -> Attach {
        self.topology = Some(topology);
        self
    }

    /// Joins the world. All ranks of `MPI_COMM_WORLD` call this, once in the life of a process.
    ///
    /// Initializes MPI, unless the program has done so; then the caller must be the initializing thread.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when no `mpirun`, or the `mpirun` of another MPI, has started this process, when the ranks
    /// disagree on their segments, when the topology has another number of ranks, and at a second call.
    /// [`Error::Unsupported`] on a machine without coherent memory. [`Error::System`] when MPI refuses something.
    pub fn attach(self) -> Result<Mpi> {
        let environment = Environment::own();
        let segment = match (self.segment_bytes, environment.segment_bytes()?) {
            (Some(wanted), Some(given)) if wanted > given => {
                return Err(Error::world(format!(
                    "a segment of {wanted} bytes is needed, and {}={given}",
                    environment::SEGMENT_BYTES
                )));
            }
            (wanted, given) => given.or(wanted).unwrap_or(SEGMENT_BYTES),
        };
        let segment = whole_words(segment)?;
        let session = Session::start()?;
        // SAFETY: the session has initialized MPI, and its end comes after the communicator's.
        let comm = unsafe { Comm::of(ffi::RSMPI_COMM_WORLD)? };
        let (_, size) = comm.place()?;
        if size == 1 {
            check_launched()?;
        }
        let given = environment.topology(size).map(|given| given.or(self.topology));
        join(Some(session), comm, segment, given)
    }

    /// Makes a world of the ranks of `comm`, in a program that uses MPI itself. A process may be in several such worlds at a time.
    ///
    /// Collective over `comm`, as is dropping the handle. The environment chooses nothing here.
    ///
    /// # Safety
    ///
    /// MPI is initialized, and `comm` is a communicator of one group. MPI is not finalized before the handle is dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`attach`](Self::attach) that do not concern the launcher.
    pub unsafe fn over(self, comm: ffi::MPI_Comm) -> Result<Mpi> {
        let segment = whole_words(self.segment_bytes.unwrap_or(SEGMENT_BYTES))?;
        // SAFETY: the caller's promise.
        let comm = unsafe { Comm::of(comm)? };
        join(None, comm, segment, Ok(self.topology))
    }
}

/// Returns the length of a segment of at least `bytes` bytes.
fn whole_words(bytes: u64) -> Result<u64> {
    let segment = bytes.max(WORD).checked_next_multiple_of(WORD).filter(|&bytes| i64::try_from(bytes).is_ok());
    segment.ok_or_else(|| Error::world("a segment must be shorter than 2^63 bytes"))
}

/// Makes a world of the ranks of `comm`. All ranks take part, including a rank whose topology is an error.
fn join(session: Option<Session>, comm: Comm, segment: u64, given: Result<Option<Topology>>) -> Result<Mpi> {
    let handles = Handles::new();
    let (rank, size) = comm.place()?;
    let given = given.and_then(|given| match given {
        Some(given) if given.size() != size => {
            Err(Error::world(format!("the topology has {} ranks, but the world has {size}", given.size())))
        }
        given => Ok(given),
    });
    // A rank leaves only after all know of its failure: otherwise the others would wait for it.
    let [longest, shortest, refused] = comm.largest(&handles, [segment, !segment, u64::from(given.is_err())])?;
    let given = given?;
    if refused != 0 {
        return Err(Error::world("another rank does not join this world; its message says why"));
    }
    if longest != !shortest {
        return Err(Error::world(format!(
            "the ranks disagree on their segments: {rank} asks for {segment} bytes, but others for {} to {longest}",
            !shortest
        )));
    }
    let nodes = comm.nodes(&handles, rank, size)?;
    let neighbours = nodes.iter().filter(|&&node| node == nodes[rank.index()]).count();
    let (window, base) = Window::allocate(&handles, &comm, segment)?;
    if size > 1 {
        window.check_usable()?;
    }
    let capabilities = Capabilities {
        backend: BACKEND,
        atomicity: Atomicity::Hca,
        native_fetch_store: true,
        late_puts: true,
        ordered_puts: false,
        atomic_puts: true,
        passive_progress: false,
        asymmetric_fence: false,
        lasting_memory: false,
        shares_processors: false,
    };
    let topology = given.unwrap_or_else(|| Topology::of_places(nodes.iter().map(|&node| (node, 0))));
    Ok(Mpi {
        base,
        view: WorldView::new(rank, segment, capabilities, topology, SymmetricHeap::new(segment))?,
        handles,
        patience: wait::Patience::new(neighbours as u32),
        posted: RefCell::new(Posted::new()),
        requests: RefCell::new(Requests::new()),
        ordering_flushes: Cell::new(0),
        reached_out_to: RefCell::default(),
        window,
        comm,
        _session: session,
    })
}

/// Returns an error if no `mpirun` has started this process, which MPI takes for a world of one rank, or if the
/// `mpirun` of another MPI has.
fn check_launched() -> Result<()> {
    // The variables of Open MPI and PRRTE, of Hydra and `srun --mpi=pmi2`, and of Slurm's steps.
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"] {
        let Some(ranks) = std::env::var_os(variable) else { continue };
        if ranks.to_str().map(str::trim) == Some("1") {
            return Ok(());
        }
        return Err(Error::world(format!(
            "the launcher has started {} ranks ({variable}), but the MPI of this program sees only this one: the program is built for {}; start it with the mpirun of that MPI",
            ranks.display(),
            library()
        )));
    }
    Err(Error::world(format!(
        "no launcher has started this process; start it with `mpirun -n RANKS` of {}, for which it is built",
        library()
    )))
}

/// A communicator of all ranks of a world, for this crate alone, whose errors are returned.
struct Comm(ffi::MPI_Comm);

impl Comm {
    /// Returns a communicator of the same ranks as `other`.
    ///
    /// # Safety
    ///
    /// MPI is initialized, and is not finalized before this value is dropped. `other` is a communicator of one group.
    unsafe fn of(other: ffi::MPI_Comm) -> Result<Comm> {
        let doing = || "making a communicator of all ranks".to_owned();
        // SAFETY: the caller's promise; the calls write to live variables, and take a communicator that one of them made.
        unsafe {
            let mut comm = ffi::RSMPI_COMM_NULL;
            check(ffi::PMPI_Comm_dup(other, &mut comm), doing)?;
            let comm = Comm(comm);
            check(ffi::PMPI_Comm_set_errhandler(comm.0, ffi::RSMPI_ERRORS_RETURN), doing)?;
            Ok(comm)
        }
    }

    fn place(&self) -> Result<(Rank, u32)> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the communicator lives; the calls write to live variables.
        unsafe {
            check(ffi::PMPI_Comm_rank(self.0, &mut rank), || "asking for this rank".to_owned())?;
            check(ffi::PMPI_Comm_size(self.0, &mut size), || "asking for the number of ranks".to_owned())?;
        }
        // MPI's numbers are not negative.
        Ok((Rank(rank as u32), size as u32))
    }

    /// Returns the largest of each number over all ranks.
    fn largest<const N: usize>(&self, handles: &Handles, numbers: [u64; N]) -> Result<[u64; N]> {
        let mut largest = numbers;
        // SAFETY: both buffers have N words, as all ranks' do.
        let code = unsafe {
            let (from, to) = (numbers.as_ptr().cast::<c_void>(), largest.as_mut_ptr().cast::<c_void>());
            ffi::PMPI_Allreduce(from, to, N as c_int, handles.word, ffi::RSMPI_MAX, self.0)
        };
        check(code, || "agreeing on the segments".to_owned())?;
        Ok(largest)
    }

    /// Returns, for each rank, the first rank of its node: of the ranks with which it can share memory.
    fn nodes(&self, handles: &Handles, rank: Rank, size: u32) -> Result<Vec<u32>> {
        let doing = || "asking which ranks share a node".to_owned();
        let mut first = u64::from(rank.0);
        let mut nodes = vec![0u64; size as usize];
        // SAFETY: all ranks of the communicator, which lives, make the same calls, which read and write one word, or a
        // word for each rank, in live variables; the communicator of the node is freed and not used afterwards.
        unsafe {
            let mut node = ffi::RSMPI_COMM_NULL;
            let (by, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            check(ffi::PMPI_Comm_split_type(self.0, by, rank.0 as c_int, info, &mut node), doing)?;
            check(ffi::PMPI_Bcast((&raw mut first).cast(), 1, handles.word, 0, node), doing)?;
            check(ffi::PMPI_Comm_free(&mut node), doing)?;
            let (from, to) = ((&raw const first).cast(), nodes.as_mut_ptr().cast());
            check(ffi::PMPI_Allgather(from, 1, handles.word, to, 1, handles.word, self.0), doing)?;
        }
        Ok(nodes.into_iter().map(|node| node as u32).collect())
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // SAFETY: it is freed here only, and the session goes after it.
        let _ = unsafe { ffi::PMPI_Comm_free(&mut self.0) };
    }
}

/// The window of all segments, in its epoch.
struct Window(ffi::MPI_Win);

impl Window {
    /// Allocates zeroed segments of `bytes` bytes on all ranks, and returns the start of this rank's segment.
    fn allocate(handles: &Handles, comm: &Comm, bytes: u64) -> Result<(Window, NonNull<u8>)> {
        let doing = || format!("allocating a window with segments of {bytes} bytes");
        let mut base: *mut c_void = std::ptr::null_mut();
        // SAFETY: all ranks make the same calls, with the same length (which they have agreed on); the calls write to live
        // variables of the types that they ask for.
        unsafe {
            let mut info = ffi::RSMPI_INFO_NULL;
            check(ffi::PMPI_Info_create(&mut info), doing)?;
            for key in [c"same_size", c"same_disp_unit"] {
                check(ffi::PMPI_Info_set(info, key.as_ptr(), c"true".as_ptr()), doing)?;
            }
            let mut win = ffi::RSMPI_WIN_NULL;
            let code =
                ffi::PMPI_Win_allocate(bytes as ffi::MPI_Aint, 1, info, comm.0, (&raw mut base).cast(), &mut win);
            check(code, doing)?;
            check(ffi::PMPI_Info_free(&mut info), doing)?;
            check(ffi::PMPI_Win_set_errhandler(win, ffi::RSMPI_ERRORS_RETURN), doing)?;
            let (mut model, mut found): (*mut c_int, c_int) = (std::ptr::null_mut(), 0);
            check(ffi::PMPI_Win_get_attr(win, handles.win_model, (&raw mut model).cast(), &mut found), doing)?;
            // The attribute's value is a pointer to an integer, which lives as long as the window (section 11.2.6).
            if found == 0 || *model != handles.win_unified {
                return Err(Error::Unsupported {
                    what: "a rank's wait for a word of its own segment",
                    why: "this MPI's windows have the separate memory model; use an MPI and a machine whose memory is coherent (MPI_WIN_UNIFIED)",
                });
            }
            let base = NonNull::new(base.cast::<u8>()).filter(|base| base.cast::<u64>().is_aligned());
            let base = base.ok_or_else(|| Error::world("MPI has allocated a window that is not aligned to 8 bytes"))?;
            base.write_bytes(0, bytes as usize);
            check(ffi::PMPI_Win_lock_all(ffi::MPI_MODE_NOCHECK as c_int, win), doing)?;
            check(ffi::PMPI_Win_sync(win), doing)?;
            // No rank writes to a segment before its owner has zeroed it.
            check(ffi::PMPI_Barrier(comm.0), doing)?;
            Ok((Window(win), base))
        }
    }
}

impl Window {
    /// Returns an error where Open MPI 4 itself has chosen the component that crashes; see the documentation of the
    /// module.
    fn check_usable(&self) -> Result<()> {
        let chosen = ["OMPI_MCA_osc", "OMPI_MCA_btl"].iter().any(|name| std::env::var_os(name).is_some());
        if chosen || !library().starts_with("Open MPI v4.") {
            return Ok(());
        }
        let mut name = [0u8; ffi::MPI_MAX_OBJECT_NAME as usize + 1];
        let mut len: c_int = 0;
        // SAFETY: the buffer is as long as the call may write (section 6.8).
        let code = unsafe { ffi::PMPI_Win_get_name(self.0, name.as_mut_ptr().cast(), &mut len) };
        check(code, || "asking for the window's name".to_owned())?;
        // The first word of the window's name is the name of the component.
        if !name.starts_with(b"rdma ") {
            return Ok(());
        }
        Err(Error::Unsupported {
            what: "MPI_Compare_and_swap through the osc/rdma component of Open MPI 4",
            why: "between ranks of one node it ends in a segmentation fault (its issue 7027); start with `mpirun --mca osc sm` on one node, with `--mca osc pt2pt` on several, or, where the network has its own atomics, say `--mca osc rdma`",
        })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: it is freed here only. The free waits for all ranks, so that none accesses a segment that is gone.
        unsafe {
            let _ = ffi::PMPI_Win_unlock_all(self.0);
            let _ = ffi::PMPI_Win_free(&mut self.0);
        }
    }
}

/// One rank of an MPI job, in the thread that has initialized MPI (`MPI_THREAD_FUNNELED`), which it cannot leave.
///
/// Dropping it leaves the world. It waits until all other ranks leave, and finalizes MPI, if it was initialized here.
/// When its thread is panicking, dropping it ends the job instead.
pub struct Mpi {
    /// The start of this rank's segment.
    base: NonNull<u8>,
    view: WorldView,
    handles: Handles,
    patience: wait::Patience,
    posted: RefCell<Posted>,
    requests: RefCell<Requests>,
    ordering_flushes: Cell<u64>,
    /// Targets of bulk operations and word puts since the last flush of everything, where ranks share cores.
    reached_out_to: RefCell<Vec<Rank>>,
    // In the order in which they are dropped.
    window: Window,
    comm: Comm,
    _session: Option<Session>,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi")
            .field("rank", &self.view.rank())
            .field("size", &self.view.size())
            .field("segment", &self.view.segment())
            .finish_non_exhaustive()
    }
}

/// Returns the operands of an operation, in the trait's order.
#[inline(always)]
fn operands(op: WordOp) -> [u64; 2] {
    match op {
        WordOp::FetchAdd(value) | WordOp::FetchStore(value) | WordOp::Put(value) => [value, 0],
        WordOp::CompareAndSwap { expected, desired } => [expected, desired],
        WordOp::Get => [0, 0],
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy)]
enum Direction {
    Put,
    Get,
}

impl Mpi {
    /// Returns the number of flushes before a put, made because puts to another word of the same target were under way.
    pub fn ordering_flushes(&self) -> u64 {
        self.ordering_flushes.get()
    }

    /// Ends the job as failed: MPI ends the other ranks, and this rank with exit code 1. No destructor runs.
    pub fn fail(self) -> ! {
        self.abort("has failed")
    }

    /// Prints the reason, and ends the job.
    #[cold]
    fn abort(&self, why: &str) -> ! {
        crate::model::error::tell(format_args!(
            "rmalab: {} of {} {why}; this ends the job (MPI_Abort)",
            self.view.rank(),
            self.view.size()
        ));
        library::abort(self.comm.0)
    }

    /// Ends the job if an operation has not been completed, since MPI may still use its buffers.
    #[inline(always)]
    fn check_completed(&self, code: c_int) {
        if code != ffi::MPI_SUCCESS as c_int {
            self.abort(&format!("cannot complete an operation: {}", explain(code)));
        }
    }

    /// Returns the error of an operation that MPI has not started.
    #[inline(always)]
    fn started(&self, code: c_int, operation: Operation, at: Address) -> Result<()> {
        check(code, || format!("{operation} of {} on {at}", self.view.rank()))
    }

    /// Returns a word of this rank's segment.
    fn own_word(&self, own: Word) -> &AtomicU64 {
        assert!(
            self.view.has_word(own) && own.rank() == self.view.rank(),
            "{} is not a word of this rank",
            own.address()
        );
        // SAFETY: the word exists (just checked) and is aligned (so is the base); the window lives as long as `self`.
        // Other ranks change it by whole words, as the processor sees them in the unified memory model.
        unsafe { self.base.add(own.disp().0 as usize).cast::<AtomicU64>().as_ref() }
    }

    /// Completes operations under way to `target`, except requests.
    #[inline(always)]
    fn flush_words(&self, target: Rank) {
        self.let_go_until_reached(&[target]);
        // SAFETY: the rank exists (the caller's check); the window lives as long as `self`, in one epoch.
        self.check_completed(unsafe { ffi::PMPI_Win_flush(target.0 as c_int, self.window.0) });
        self.posted.borrow_mut().completed(target);
        self.requests.borrow_mut().words_completed(Some(target));
    }

    /// Completes operations under way to `target` at this rank: their buffers may be used again.
    #[inline(always)]
    fn complete_here(&self, target: Rank) {
        self.let_go_until_reached(&[target]);
        // SAFETY: the rank exists (the caller's check); the window lives as long as `self`, in one epoch.
        self.check_completed(unsafe { ffi::PMPI_Win_flush_local(target.0 as c_int, self.window.0) });
    }

    /// Executes a fetching operation, which is complete when this returns.
    #[inline(always)]
    fn fetch(&self, at: Word, op: WordOp) -> Result<u64> {
        let (mut old, operands) = (0u64, operands(op));
        // SAFETY: live variables; nothing accesses them before the flush.
        unsafe { self.start_fetch(at, op, operands.each_ref().map(|operand| &raw const *operand), &raw mut old)? };
        self.flush_words(at.rank());
        // SAFETY: a live variable; MPI has written it without the compiler's knowledge.
        Ok(unsafe { (&raw const old).read_volatile() })
    }

    /// Starts a fetching operation: `old` gets the old word.
    ///
    /// # Safety
    ///
    /// Until a flush, the operands are valid for reads and do not change, and `old` is valid for writes and not accessed.
    #[inline(always)]
    unsafe fn start_fetch(&self, at: Word, op: WordOp, operands: [*const u64; 2], old: *mut u64) -> Result<()> {
        let [first, second] = operands.map(|operand| operand.cast::<c_void>());
        let (old, word, win) = (old.cast::<c_void>(), self.handles.word, self.window.0);
        let (rank, disp) = (at.rank().0 as c_int, at.disp().0 as ffi::MPI_Aint);
        let mpi_op = match op {
            WordOp::CompareAndSwap { .. } => {
                // SAFETY: the word exists (`word` has checked); the caller's promise.
                let code = unsafe { ffi::PMPI_Compare_and_swap(second, first, old, word, rank, disp, win) };
                return self.started(code, op.operation(), at.address());
            }
            WordOp::FetchAdd(_) => self.handles.sum,
            WordOp::FetchStore(_) | WordOp::Put(_) => self.handles.replace,
            WordOp::Get => self.handles.no_op,
        };
        // SAFETY: as above.
        let code = unsafe { ffi::PMPI_Fetch_and_op(first, old, word, rank, disp, mpi_op, win) };
        self.started(code, op.operation(), at.address())
    }

    #[inline(always)]
    fn put_word(&self, at: Word, value: u64) -> Result<()> {
        let address = at.address();
        if self.posted.borrow().to_another_word(address) {
            self.flush_words(at.rank());
            self.ordering_flushes.set(self.ordering_flushes.get() + 1);
        }
        if self.posted.borrow().is_full() {
            // SAFETY: the window lives as long as `self`, in one epoch.
            self.check_completed(unsafe { ffi::PMPI_Win_flush_local_all(self.window.0) });
            self.posted.borrow_mut().completed_locally();
        }
        self.reach_out_to(at.rank());
        let slot = self.posted.borrow_mut().take(address, value);
        let (rank, disp) = (at.rank().0 as c_int, at.disp().0 as ffi::MPI_Aint);
        let (word, replace) = (self.handles.word, self.handles.replace);
        // SAFETY: the word exists (`word` has checked); the slot keeps its value and its place until a flush.
        let code = unsafe { ffi::PMPI_Accumulate(slot.cast(), 1, word, rank, disp, 1, word, replace, self.window.0) };
        self.started(code, Operation::Put, address)
    }

    /// Completes everything under way.
    pub(crate) fn complete_all(&self) {
        let targets = self.reached_out_to.take();
        self.let_go_until_reached(&targets);
        // SAFETY: the window lives as long as `self`, in one epoch.
        self.check_completed(unsafe { ffi::PMPI_Win_flush_all(self.window.0) });
        self.posted.borrow_mut().all_completed();
        self.requests.borrow_mut().words_completed(None);
        self.finish_flushed(None);
    }

    /// Zeroes bytes of this rank's segment; complete when it returns.
    ///
    /// # Safety
    ///
    /// The span belongs to this world.
    unsafe fn zero(&self, span: Span) -> Result<()> {
        /// The number of zeros that are written at a time.
        const ZEROS: usize = 64 << 10;
        static ZERO: [u8; ZEROS] = [0; ZEROS];
        let at = span.address();
        for start in (0..span.len()).step_by(ZEROS) {
            let part = (span.len() - start).min(ZEROS);
            let at = at.rank.at(at.disp.plus(start as u64));
            // SAFETY: a part of the span, which exists (the caller's promise); the zeros are never written to.
            unsafe { self.move_bytes(Direction::Put, at, ZERO.as_ptr().cast_mut(), part)? };
        }
        self.flush_words(at.rank);
        Ok(())
    }

    /// Starts to move `len` bytes between `at` and `own`, in as many calls as needed.
    ///
    /// # Safety
    ///
    /// The range at `at` exists. `own` is valid for a transfer of `len` bytes in the direction `direction`, until the
    /// transfer is complete.
    unsafe fn move_bytes(&self, direction: Direction, at: Address, own: *mut u8, len: usize) -> Result<()> {
        self.reach_out_to(at.rank);
        let (win, byte, rank) = (self.window.0, self.handles.byte, at.rank.0 as c_int);
        for start in (0..len).step_by(CALL_BYTES) {
            let part = (len - start).min(CALL_BYTES) as c_int;
            let disp = at.disp.plus(start as u64).0 as ffi::MPI_Aint;
            // SAFETY: the caller's promise, for a part of the ranges.
            let code = unsafe {
                let own = own.add(start).cast::<c_void>();
                match direction {
                    Direction::Put => ffi::PMPI_Put(own, part, byte, rank, disp, part, byte, win),
                    Direction::Get => ffi::PMPI_Get(own, part, byte, rank, disp, part, byte, win),
                }
            };
            if let Err(error) = self.started(code, direction.operation(), at) {
                // Earlier parts are under way; MPI no longer accesses the buffer once they are complete.
                self.flush_words(at.rank);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Like [`move_bytes`](Self::move_bytes), with a request.
    ///
    /// # Safety
    ///
    /// The conditions of [`move_bytes`](Self::move_bytes).
    unsafe fn move_bytes_nb(&self, direction: Direction, at: Address, own: *mut u8, len: usize) -> Result<Request> {
        if len > CALL_BYTES {
            // SAFETY: the caller's promise; it is complete before this returns.
            unsafe { self.move_bytes(direction, at, own, len)? };
            self.flush_words(at.rank);
            return Ok(DONE);
        }
        if len == 0 {
            return Ok(DONE);
        }
        if self.requests.borrow().is_full() {
            self.complete_all();
        }
        self.reach_out_to(at.rank);
        let mut request = self.handles.null_request;
        let (win, byte, rank, len) = (self.window.0, self.handles.byte, at.rank.0 as c_int, len as c_int);
        let (own, disp) = (own.cast::<c_void>(), at.disp.0 as ffi::MPI_Aint);
        // SAFETY: the caller's promise.
        let code = unsafe {
            match direction {
                Direction::Put => ffi::PMPI_Rput(own, len, byte, rank, disp, len, byte, win, &mut request),
                Direction::Get => ffi::PMPI_Rget(own, len, byte, rank, disp, len, byte, win, &mut request),
            }
        };
        self.started(code, direction.operation(), at)?;
        Ok(Request(self.requests.borrow_mut().keep(at.rank, request)))
    }

    /// Waits for the completion of a request at this rank.
    fn finish_request(&self, mut request: ffi::MPI_Request) {
        // SAFETY: a request that has not been completed yet; its buffers live (promised where it was made).
        self.check_completed(unsafe { ffi::PMPI_Wait(&mut request, self.handles.ignored_status) });
    }

    /// Waits for the requests to `target`, or all requests, whose operations a flush has completed.
    #[inline(always)]
    fn finish_flushed(&self, target: Option<Rank>) {
        for request in self.requests.borrow_mut().take_bytes(target) {
            self.finish_request(request);
        }
    }
}

impl Direction {
    fn operation(self) -> Operation {
        match self {
            Direction::Put => Operation::PutBytes,
            Direction::Get => Operation::GetBytes,
        }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort("has panicked");
        }
        // An error would have ended the job.
        self.complete_all();
    }
}

impl Joined for Mpi {
    const MEETS: bool = false;
    const STARTED_BY: Option<&'static str> = Some(
        "the ranks of the backend mpi are the processes of an MPI job, such as `mpirun -n 4 PROGRAM --backend mpi`",
    );

    fn join(wishes: Wishes) -> Result<Mpi> {
        let Wishes { segment_bytes, topology } = wishes;
        Attach { segment_bytes, topology }.attach()
    }

    fn fail(self) {
        Mpi::fail(self);
    }
}

impl Fabric for Mpi {
    #[inline(always)]
    fn view(&self) -> &WorldView {
        &self.view
    }

    #[inline]
    fn word(&self, at: Word, op: WordOp) -> Result<u64> {
        assert!(self.view.has_word(at), "{} is a word of another world", at.address());
        match op {
            WordOp::Put(value) => self.put_word(at, value).map(|()| 0),
            _ => self.fetch(at, op),
        }
    }

    /// MPI's word operations have no request. A wait for an operation flushes its target, and so does a test.
    unsafe fn start_word(&self, at: Word, op: WordOp, result: *mut u64) -> Result<Request> {
        assert!(self.view.has_word(at), "{} is a word of another world", at.address());
        if let WordOp::Put(value) = op {
            self.put_word(at, value)?;
            self.flush_words(at.rank());
            // SAFETY: the caller's promise.
            unsafe { result.write(0) };
            return Ok(DONE);
        }
        if self.requests.borrow().is_full() {
            self.complete_all();
        }
        self.reach_out_to(at.rank());
        let (number, operands) = self.requests.borrow_mut().keep_word(at.rank(), operands(op));
        // SAFETY: the slot keeps the operands until a flush; the caller's promise for the result.
        if let Err(error) = unsafe { self.start_fetch(at, op, operands, result) } {
            self.requests.borrow_mut().remove(number);
            return Err(error);
        }
        Ok(Request(number))
    }

    unsafe fn transfer(&self, at: Span, bytes: Bytes, until: Completion) -> Result<Request> {
        let (direction, own) = match bytes {
            // The source is only read.
            Bytes::Put(source) => (Direction::Put, source.cast_mut()),
            Bytes::Get(dest) => (Direction::Get, dest),
            Bytes::Clear => {
                // SAFETY: the caller's promise.
                unsafe { self.zero(at)? };
                return Ok(DONE);
            }
        };
        let (address, len) = (at.address(), at.len());
        if until == Completion::Request {
            // SAFETY: the caller's promise.
            return unsafe { self.move_bytes_nb(direction, address, own, len) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_bytes(direction, address, own, len)? };
        match (bytes, until) {
            (Bytes::Put(_), Completion::Target) => self.complete(Some(at.rank()))?,
            _ => self.complete_here(at.rank()),
        }
        fence(Ordering::Acquire);
        Ok(DONE)
    }

    fn done(&self, request: &Request) -> Result<bool> {
        let mut requests = self.requests.borrow_mut();
        let Some((target, operation)) = requests.get(request.0) else { return Ok(true) };
        let UnderWay::Bytes(under_way) = operation else {
            let target = *target;
            drop(requests);
            self.flush_words(target);
            return Ok(true);
        };
        let mut done = 0;
        // SAFETY: a request that has not been completed yet; its buffers live (promised where it was made).
        self.check_completed(unsafe { ffi::PMPI_Test(under_way, &mut done, self.handles.ignored_status) });
        if done != 0 {
            requests.remove(request.0);
        }
        Ok(done != 0)
    }

    fn finish(&self, request: Request) -> Result<()> {
        let mut requests = self.requests.borrow_mut();
        match requests.get(request.0) {
            Some(&mut (_, UnderWay::Bytes(under_way))) => {
                requests.remove(request.0);
                drop(requests);
                self.finish_request(under_way);
            }
            Some(&mut (target, UnderWay::Word(_))) => {
                drop(requests);
                self.flush_words(target);
            }
            None => {}
        }
        Ok(())
    }

    #[inline]
    fn complete(&self, target: Option<Rank>) -> Result<()> {
        match target {
            Some(target) => {
                self.flush_words(target);
                self.finish_flushed(Some(target));
            }
            None => self.complete_all(),
        }
        Ok(())
    }

    #[inline]
    fn wait_on(&self, own: Word, until: Until, deadline: Option<Time>) -> Result<Option<u64>> {
        self.wait_for(own, until, deadline)
    }

    #[inline]
    fn delay(&self, delay: Delay) -> Result<()> {
        match delay {
            Delay::Operations(operations) => self.pause_for(operations),
            Delay::Compute(time) => {
                fabric::keep_busy(self, time);
                Ok(())
            }
        }
    }

    #[inline]
    fn clock(&self) -> Time {
        fabric::monotonic()
    }

    fn extras(&self) -> Extras<'_> {
        Extras::default()
    }
}
