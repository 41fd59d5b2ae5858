//! The `shm` backend: ranks are processes of one host that share an anonymous memory file (memfd).
//!
//! The file has no name, in `/dev/shm` or elsewhere, so nothing can be left behind: it disappears with the last process
//! that maps it, however that process ends. It is sealed against changes of its size, so that no rank can remove the
//! memory while the others use it.
//!
//! # How a death is noticed
//!
//! A rank holds a POSIX record lock on one byte of the file, the byte with its own number. The kernel releases it when
//! the process ends, after any signal, and before another process has reaped it; a fork does not inherit it. Every half
//! a second a waiting rank checks whether the bytes of ranks that have attached and not departed are still locked. In a
//! world of up to 64 ranks it checks all of them, and beyond that some in turn, so that the waiting ranks share the
//! work. A rank that departs in good order reports it before it releases its lock.
//!
//! The launcher of this crate notices every end at once, also the end of a rank that has not attached yet.

mod rendezvous;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::backend::mapped::{Layout, Liveness, Mapped, Mapping};
use crate::join::environment::{self, Environment, Identity};
use crate::{Error, Joined, Rank, Result, SEGMENT_BYTES, SHARED_SEGMENT_BYTES, Topology, Wishes};

/// The backend's name for `--backend`.
const BACKEND: &str = "shm";

/// Joins the world of this process, as the rank that its launcher has chosen.
///
/// This is [`Attach`] without options.
///
/// # Errors
///
/// See [`Attach::attach`].
pub fn attach() -> Result<Mapped> {
    Attach::new().attach()
}

/// Returns the number of ranks of this process's job, if a launcher started it as a rank.
///
/// # Errors
///
/// [`Error::World`] when an environment variable has an impossible value. The error names the variable.
pub fn launched_size() -> Result<Option<u32>> {
    Ok(match Environment::own().identity()? {
        Identity::Alone => None,
        Identity::Launched { size, .. } | Identity::Foreign { size, .. } => Some(size),
    })
}

/// A rank's options for the world that it joins.
///
/// Ranks are started by [`Launcher`](crate::Launcher), by an `mpirun` (Open MPI, MPICH, and others that speak Hydra's
/// variables), or by `srun`. Under the launcher of this crate the memory is inherited. Under the others rank 0 makes it
/// and sends it to the rest over a Unix socket with an abstract name. Such a socket has no file, and no other user can
/// pretend to be rank 0.
#[derive(Clone, Default, Debug)]
#[must_use = "nothing happens before `attach`"]
pub struct Attach {
    segment_bytes: Option<u64>,
    topology: Option<Topology>,
}

impl Attach {
    /// Segments of [`SHARED_SEGMENT_BYTES`] and the machine's own topology, unless the launcher sets others.
    pub fn new() -> Attach {
        Attach::default()
    }

    /// Asks for segments of at least this length, in bytes.
    ///
    /// The launcher of this crate makes the memory before the rank runs, so there this is only a check.
    pub fn segment_bytes(mut self, bytes: u64) -> Attach {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Places the ranks on nodes, where the launcher does not.
    pub fn topology(mut self, topology: Topology) -> Attach {
        self.topology = Some(topology);
        self
    }

    /// Joins the world; once in the life of a process.
    ///
    /// Under `mpirun` and `srun` this waits for the other ranks, for 30 seconds or the time in `RMALAB_TIMEOUT`.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when no launcher has started this process, or an environment variable has an impossible value.
    /// Also when the ranks are not all on this host, some of them do not arrive, or they disagree. [`Error::System`]
    /// when the system refuses memory, a socket or a lock.
    pub fn attach(self) -> Result<Mapped> {
        self.attach_as(Environment::own().identity()?)
    }

    pub(crate) fn attach_as(self, identity: Identity) -> Result<Mapped> {
        match identity {
            Identity::Alone => Err(Error::world(
                "no launcher has started this process: none of RMALAB_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK and SLURM_PROCID (of a step) is set; start it with `rmalab launch`, mpirun or srun",
            )),
            Identity::Launched { shm: None, .. } => Err(Error::world(
                "the launcher has given this process no memory to share: its ranks are on several hosts; use another backend than shm",
            )),
            Identity::Launched { rank, size, shm: Some((shm, segment_bytes)), topology, .. } => {
                if let Some(wanted) = self.segment_bytes
                    && wanted > segment_bytes
                {
                    return Err(Error::world(format!(
                        "{rank} needs a segment of {wanted} bytes, and the launcher has made one of {segment_bytes}: start the \
                         ranks by `rmalab launch --segment {wanted}`, or by Launcher::segment_bytes"
                    )));
                }
                let layout = Layout::new(size, segment_bytes)?;
                let topology = topology.or(self.topology).unwrap_or_else(|| Topology::of_machine(size));
                join(inherited(shm, layout)?, layout, rank, topology)
            }
            Identity::Foreign { hosts: environment::Hosts::Several(words), .. } => {
                Err(Error::world(format!("{words}; ranks that share memory must all be on one host")))
            }
            Identity::Foreign { rank, size, variable, job, .. } => {
                let environment = Environment::own();
                let segment_bytes = match (self.segment_bytes, environment.segment_bytes()?) {
                    (Some(wanted), Some(given)) if wanted > given => {
                        return Err(Error::world(format!(
                            "{rank} needs a segment of {wanted} bytes, and {}={given}: set it to {wanted} or more",
                            environment::SEGMENT_BYTES
                        )));
                    }
                    (wanted, given) => given.or(wanted),
                };
                let topology = environment.topology(size)?.or(self.topology);
                let topology = topology.unwrap_or_else(|| Topology::of_machine(size));
                once()?;
                let meeting = rendezvous::Meeting {
                    rank,
                    layout: layout(size, segment_bytes)?,
                    topology,
                    patience: environment.patience()?,
                    name: rendezvous::name(&environment, variable, &job),
                    user: rustix::process::geteuid(),
                };
                meeting.hold()
            }
        }
    }
}

/// A process joins one world once. Two handles would share one lock, and the first drop would release it.
fn once() -> Result<()> {
    static JOINED: AtomicBool = AtomicBool::new(false);
    if JOINED.swap(true, Ordering::SeqCst) {
        return Err(Error::world("this process has joined its world before; a process is one rank, once"));
    }
    Ok(())
}

/// Makes the layout of `size` ranks that share memory, with segments of the requested length.
///
/// Refuses more memory than there is. With segments of the default length, a rank is expected to touch no more memory than
/// it would have on a network.
pub(crate) fn layout(size: u32, segment_bytes: Option<u64>) -> Result<Layout> {
    let expected = Layout::new(size, segment_bytes.unwrap_or(SEGMENT_BYTES))?;
    crate::join::limits::memory(size, expected.segment_bytes(), expected.total_bytes())?;
    Layout::new(size, segment_bytes.unwrap_or(SHARED_SEGMENT_BYTES))
}

/// Makes a sealed memory file for `layout`, for this user alone. Ranks that meet without this crate map it by [`Mapping::shared`].
///
/// # Errors
///
/// [`Error::System`] when the system refuses it.
pub fn create(layout: Layout) -> Result<OwnedFd> {
    let len = layout.total_bytes();
    let failed = |what: &str| {
        let what = format!("{what} a memory file of {len} bytes");
        move |error: rustix::io::Errno| Error::system(what, error)
    };
    let fd = rustix::fs::memfd_create("rmalab", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(failed("creating"))?;
    rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(failed("restricting"))?;
    rustix::fs::ftruncate(&fd, len).map_err(failed("sizing"))?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(failed("sealing"))?;
    // A number above the standard streams, which a child would replace with its own.
    if fd.as_raw_fd() < 3 { rustix::io::fcntl_dupfd_cloexec(&fd, 3).map_err(failed("keeping")) } else { Ok(fd) }
}

/// Checks that `fd` is a memory file for `layout` that no peer can shrink.
fn check_memory_file(fd: BorrowedFd<'_>, layout: Layout, from: &str) -> Result<()> {
    let stat =
        rustix::fs::fstat(fd).map_err(|error| Error::system(format!("{from} is not an open descriptor"), error))?;
    let seals = rustix::fs::fcntl_get_seals(fd)
        .map_err(|error| Error::system(format!("{from} is not a memory file of the launcher"), error))?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err(Error::world(format!("{from} is a memory file whose size others could change")));
    }
    if u64::try_from(stat.st_size).ok() != Some(layout.total_bytes()) {
        return Err(Error::world(format!(
            "{from} has {} bytes, and {} ranks with segments of {} bytes need {}",
            stat.st_size,
            layout.size(),
            layout.segment_bytes(),
            layout.total_bytes()
        )));
    }
    Ok(())
}

/// Takes the memory file that the launcher has left open at `number`.
fn inherited(number: RawFd, layout: Layout) -> Result<OwnedFd> {
    let from = format!("{}={number}", environment::SHM_FD);
    // SAFETY: the borrow ends with the checks, which fail without harm when nothing is open at this number. No code of
    // this process knows a descriptor that it has inherited, so none closes it during the checks.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    check_memory_file(borrowed, layout, &from)?;
    once()?;
    // SAFETY: it is open, and is a sealed memory file of the size that the launcher has announced. So it is the
    // launcher's file, which nothing in this process owns. `once` admits one caller.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)
        .map_err(|error| Error::system("keeping the shared memory from child processes", error))?;
    Ok(fd)
}

/// Joins: maps the memory file, and locks the rank's byte.
fn join(fd: OwnedFd, layout: Layout, rank: Rank, topology: Topology) -> Result<Mapped> {
    // SAFETY: the memory file of a launcher or of another rank is sealed, and its processes only map it in this way.
    let mapping = Arc::new(unsafe { Mapping::shared(fd.as_fd(), layout, false)? });
    if !mapping.is_absent(rank) {
        return Err(Error::world(format!("{rank} has joined this world before, as another process")));
    }
    let locks = Locks::hold(fd, Arc::clone(&mapping), rank)?;
    Mapped::watching(mapping, rank, topology, BACKEND, Box::new(locks))
}

/// The number of lock queries that the ranks of a world make together, each time that all of them check.
///
/// The kernel keeps the locks of a file in a list, so a query takes time in proportion to the ranks. If each of n ranks
/// asked about all others, they would take n³ steps together: a thousand ranks on two cores did nothing else.
const QUESTIONS: u32 = 4096;

/// The record locks that show which ranks of a memory file live.
struct Locks {
    /// The only descriptor of the file in this process: closing any other would release the lock.
    fd: OwnedFd,
    mapping: Arc<Mapping>,
    rank: Rank,
    /// The peer to ask about next.
    next: AtomicU32,
}

impl Locks {
    /// Locks the rank's own byte, for as long as the process or the handle lives.
    fn hold(fd: OwnedFd, mapping: Arc<Mapping>, rank: Rank) -> Result<Locks> {
        let byte = byte(rank);
        // SAFETY: the descriptor is open, and the kernel reads the structure during the call only.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLK, &raw const byte) } == -1 {
            let error = std::io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EACCES | libc::EAGAIN) => Error::world(format!("another process is {rank} already")),
                _ => Error::system(format!("locking the byte of {rank}"), error),
            });
        }
        // Ranks that wait together ask about different peers first.
        Ok(Locks { fd, mapping, rank, next: AtomicU32::new(rank.0 + 1) })
    }

    /// Returns the process that holds the byte of `rank`: `None` if there is none, and 0 if its number is unknown here.
    fn holder(&self, rank: Rank) -> Option<libc::pid_t> {
        let mut byte = byte(rank);
        // SAFETY: the descriptor is open, and the kernel writes the structure during the call only.
        let answer = unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_GETLK, &raw mut byte) };
        match answer {
            // If the kernel gives no answer, the rank does not count as dead.
            -1 => Some(0),
            _ if byte.l_type == libc::F_UNLCK as libc::c_short => None,
            _ => Some(byte.l_pid),
        }
    }

    fn held(&self, rank: Rank) -> bool {
        self.holder(rank).is_some()
    }

    /// Kills the process that holds the byte of `rank`, if `process` is still that process.
    fn kill_holder(&self, rank: Rank, process: Pid) -> rustix::io::Result<()> {
        match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
            // The descriptor was opened while that process held the byte. So it stands for no later process with the same number.
            Ok(pidfd) if self.holder(rank) == Some(process.as_raw_pid()) => {
                rustix::process::pidfd_send_signal(&pidfd, Signal::KILL)
            }
            Ok(_) => Ok(()),
            // Without such descriptors, another process could have got the number since the question.
            Err(_) => rustix::process::kill_process(process, Signal::KILL),
        }
    }
}

/// The interval at which a rank asks whether a process that it has killed has ended.
const ENDING: Duration = Duration::from_millis(1);

impl Liveness for Locks {
    fn dead_peer(&self) -> Option<Rank> {
        let size = self.mapping.layout().size();
        let peers = size.min((QUESTIONS / size).max(1));
        let first = self.next.fetch_add(peers, Ordering::Relaxed);
        let mut asked = (0..peers).map(|peer| Rank(first.wrapping_add(peer) % size));
        asked.find(|&peer| !self.mapping.has_failed(peer) && self.is_dead(peer))
    }

    fn kill(&self, rank: Rank) -> Result<()> {
        while let Some(holder) = self.holder(rank) {
            let process = Pid::from_raw(holder).filter(|_| holder > 0).ok_or_else(|| {
                Error::world(format!("the process of {rank} is in another PID namespace, so it cannot be expelled"))
            })?;
            match self.kill_holder(rank, process) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => std::thread::sleep(ENDING),
                Err(error) => return Err(Error::system(format!("expelling {rank}, process {holder}"), error)),
            }
        }
        Ok(())
    }

    fn is_dead(&self, rank: Rank) -> bool {
        // A rank attaches after it has locked its byte, and departs before it unlocks it. So if the byte is unlocked in
        // between, the rank is dead. The second look is for a rank that departs between the first look and the query.
        let is_there = || self.mapping.is_attached(rank) || self.mapping.has_failed(rank);
        rank != self.rank && is_there() && !self.held(rank) && is_there()
    }
}

/// Returns a write lock on the byte of `rank`.
fn byte(rank: Rank) -> libc::flock {
    // SAFETY: a structure of integers, all of which may be zero.
    let mut byte: libc::flock = unsafe { std::mem::zeroed() };
    byte.l_type = libc::F_WRLCK as libc::c_short;
    byte.l_whence = libc::SEEK_SET as libc::c_short;
    byte.l_start = rank.0.into();
    byte.l_len = 1;
    byte
}

impl Joined for Mapped {
    const MEETS: bool = false;

    fn join(wishes: Wishes) -> Result<Mapped> {
        let Wishes { segment_bytes, topology } = wishes;
        Attach { segment_bytes, topology }.attach()
    }

    fn fail(self) {
        Mapped::fail(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new(3, 4096).unwrap()
    }

    #[test]
    fn the_memory_file_is_sealed_private_and_closed_on_exec() {
        let fd = create(layout()).unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, layout().total_bytes() + 1).is_err());
        assert!(rustix::fs::fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE).is_err(), "no further seal is possible");
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_mode & 0o777, 0o600);
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(FdFlags::CLOEXEC));
        check_memory_file(fd.as_fd(), layout(), "this").unwrap();
    }

    #[test]
    fn only_a_sealed_memory_file_of_the_right_size_will_do() {
        let refused = |fd: BorrowedFd<'_>, because: &str| {
            let error = check_memory_file(fd, layout(), "RMALAB_SHM_FD=5").unwrap_err().to_string();
            assert!(error.contains(because) && error.contains("RMALAB_SHM_FD=5"), "{error}");
        };
        let (reader, _writer) = std::io::pipe().unwrap();
        refused(reader.as_fd(), "not a memory file");
        let unsealed = rustix::fs::memfd_create("rmalab-test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&unsealed, layout().total_bytes()).unwrap();
        refused(unsealed.as_fd(), "others could change");
        let other = create(Layout::new(2, 4096).unwrap()).unwrap();
        refused(other.as_fd(), "3 ranks with segments of 4096 bytes");
        let error = inherited(999_999, layout()).unwrap_err().to_string();
        assert!(error.contains("RMALAB_SHM_FD=999999 is not an open descriptor"), "{error}");
    }

    #[test]
    fn the_living_hold_their_bytes() {
        // Locks belong to the process, and here the process is every rank, so it always looks dead to itself.
        let fd = create(layout()).unwrap();
        // SAFETY: a new sealed file, which no other code writes.
        let mapping = Arc::new(unsafe { Mapping::shared(fd.as_fd(), layout(), true).unwrap() });
        let locks = Locks::hold(fd, Arc::clone(&mapping), Rank(1)).unwrap();
        assert_eq!(locks.dead_peer(), None, "a rank that has not attached is not dead");
        mapping.mark_attached(Rank(2));
        assert_eq!(locks.dead_peer(), Some(Rank(2)));
        mapping.mark_departed(Rank(2));
        assert_eq!(locks.dead_peer(), None, "a rank that has departed is not dead");
    }

    #[test]
    fn in_a_large_world_all_ranks_are_checked_in_turn() {
        let layout = Layout::new(1000, 8).unwrap();
        let fd = create(layout).unwrap();
        // SAFETY: as above.
        let mapping = Arc::new(unsafe { Mapping::shared(fd.as_fd(), layout, true).unwrap() });
        let locks = Locks::hold(fd, Arc::clone(&mapping), Rank(7)).unwrap();
        mapping.mark_attached(Rank(3));
        let looks = 1000 / (QUESTIONS / 1000);
        assert_eq!((0..looks).filter_map(|_| locks.dead_peer()).collect::<Vec<_>>(), [Rank(3)]);
    }
}
