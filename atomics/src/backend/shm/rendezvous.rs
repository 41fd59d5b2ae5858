//! The meeting of ranks that another launcher has started: rank 0 makes the memory and sends its descriptor to the
//! others.
//!
//! Rank 0 listens on a Unix socket with an abstract name (`unix(7)`), which exists only as long as its socket does. Each
//! of the others sends a hello and gets the memory's descriptor, or an error. It joins and reports that it is ready. When
//! all are ready, rank 0 sends all ranks the message to start. If an error comes earlier, all ranks return it, with the
//! same text.
//!
//! The name can be guessed, so both sides ask the kernel for the other's user id. A process of another user can take the
//! name. Then the ranks end with an error that names that cause, and `RMALAB_JOB` can give the job a name that cannot be
//! guessed.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::Uid;

use crate::backend::mapped::{Layout, Mapped, Mapping};
use crate::join::environment::Environment;
use crate::{Error, Rank, Result, Topology};

/// The first bytes of every hello: its kind and version.
const MAGIC: [u8; 8] = *b"rmalab\0\x01";

/// Bytes of a hello: the magic, then rank and size in 4 bytes and the segment's length in 8, little-endian.
const HELLO: usize = 24;

/// The number of bytes for every other message, including errors in words.
const MESSAGE: usize = 4096;

const GO: u8 = b'G';
const READY: u8 = b'R';
const MEMORY: u8 = b'M';
const REFUSED: u8 = b'E';

/// The time between two attempts at a name that no process has bound yet, or that another process still has.
const RETRY: Duration = Duration::from_millis(5);

/// The time for which a process may hold the name without listening. A rank 0 listens as soon as it has the name.
const HELD: Duration = Duration::from_secs(1);

/// The advice for a name that another process has taken.
const WAY_OUT: &str = "set RMALAB_JOB for all ranks to words that other users cannot guess";

/// One rank's part in the meeting.
pub(super) struct Meeting {
    pub(super) rank: Rank,
    pub(super) layout: Layout,
    pub(super) topology: Topology,
    pub(super) patience: Duration,
    pub(super) name: String,
    /// The user who owns the ranks' processes.
    pub(super) user: Uid,
}

impl Meeting {
    /// Waits until all ranks have joined.
    pub(super) fn hold(self) -> Result<Mapped> {
        let deadline = Instant::now() + self.patience;
        if self.rank == Rank(0) { self.host(deadline) } else { self.visit(deadline) }
    }

    fn address(&self) -> Result<SocketAddrUnix> {
        SocketAddrUnix::new_abstract_name(self.name.as_bytes())
            .map_err(|error| Error::system(format!("naming the socket {:?}", self.name), error))
    }

    fn host(self, deadline: Instant) -> Result<Mapped> {
        let listener = socket(SocketFlags::NONBLOCK)?;
        let address = self.address()?;
        let mut silent_since = Instant::now();
        loop {
            match rustix::net::bind(&listener, &address) {
                Ok(()) => break,
                // Another rank 0 of this same job may have the name, and will release it. A process of another user
                // does not.
                Err(Errno::ADDRINUSE) if Instant::now() < deadline => {
                    if self.is_held(&address)? {
                        silent_since = Instant::now();
                    } else if silent_since.elapsed() >= HELD {
                        return Err(Error::world(format!(
                            "another process has taken the name @{} by which the ranks of this job meet, but does not listen; {WAY_OUT}",
                            self.name
                        )));
                    }
                    std::thread::sleep(RETRY);
                }
                Err(error) => return Err(Error::system(format!("binding the socket @{}", self.name), error)),
            }
        }
        rustix::net::listen(&listener, 4096)
            .map_err(|error| Error::system(format!("listening on @{}", self.name), error))?;
        let fd = super::create(self.layout)?;
        // SAFETY: a new sealed file, which only the ranks of this job get, to map it in the same way.
        drop(unsafe { Mapping::shared(fd.as_fd(), self.layout, true)? });
        let mut guests = Guests::default();
        let joined = guests
            .receive(&self, &listener, fd.as_fd(), deadline)
            .and_then(|()| super::join(fd, self.layout, self.rank, self.topology.clone()));
        match joined {
            Ok(ra) => {
                for guest in &guests.all {
                    send(&guest.socket, &[GO])?;
                }
                Ok(ra)
            }
            Err(error) => {
                let words = refusal(&error);
                // Guests that have connected by now also get the reason.
                while guests.admit(&listener, self.user).unwrap_or(false) {}
                for guest in &guests.all {
                    let _ = send(&guest.socket, &words);
                }
                Err(error)
            }
        }
    }

    /// Returns whether a process of this user listens under the name.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when a process of another user does.
    fn is_held(&self, address: &SocketAddrUnix) -> Result<bool> {
        let probe = socket(SocketFlags::NONBLOCK)?;
        match rustix::net::connect(&probe, address) {
            Ok(()) => self.check_user(&probe).map(|()| true),
            Err(error) => Ok(error == Errno::AGAIN),
        }
    }

    /// Refuses a listener that is not this user's.
    fn check_user(&self, socket: &OwnedFd) -> Result<()> {
        let found = user_of(socket)?;
        if found == self.user {
            return Ok(());
        }
        Err(Error::world(format!(
            "a process of user {} has taken the name @{} by which the ranks of this job meet, but the ranks belong to user {}; {WAY_OUT}",
            found.as_raw(),
            self.name,
            self.user.as_raw()
        )))
    }

    fn visit(self, deadline: Instant) -> Result<Mapped> {
        // A listener that accepts no connections must not delay this rank beyond its patience.
        let socket = socket(SocketFlags::NONBLOCK)?;
        let address = self.address()?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(RETRY);
                }
                Err(Errno::AGAIN) => {
                    return Err(Error::world(format!(
                        "what listens on @{} has taken no connection within {:?}; if it is not rank 0 of this job, {WAY_OUT}",
                        self.name, self.patience
                    )));
                }
                Err(Errno::CONNREFUSED) => {
                    return Err(Error::world(format!(
                        "rank 0 did not come within {:?}: no process listens on @{}",
                        self.patience, self.name
                    )));
                }
                Err(error) => return Err(Error::system(format!("connecting to @{}", self.name), error)),
            }
        }
        self.check_user(&socket)?;
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..12].copy_from_slice(&self.rank.0.to_le_bytes());
        hello[12..16].copy_from_slice(&self.layout.size().to_le_bytes());
        hello[16..].copy_from_slice(&self.layout.segment_bytes().to_le_bytes());
        // A rank 0 that has closed the socket has sent the reason before. That is the better error.
        let _ = send(&socket, &hello);
        // Rank 0 gives up by the same clock, and then sends the reason. That is worth a little more patience.
        let deadline = deadline + Duration::from_secs(2);
        let fd = self.answer(&socket, MEMORY, deadline)?;
        let fd = fd.ok_or_else(|| Error::world("rank 0 has sent no descriptor of the shared memory"))?;
        super::check_memory_file(fd.as_fd(), self.layout, "what rank 0 has sent")?;
        let ra = super::join(fd, self.layout, self.rank, self.topology.clone())?;
        let _ = send(&socket, &[READY]);
        match self.answer(&socket, GO, deadline) {
            Ok(_) => Ok(ra),
            Err(error) => {
                ra.fail();
                Err(error)
            }
        }
    }

    /// Waits for the message `kind` of rank 0, and returns the descriptor that came with it.
    fn answer(&self, socket: &OwnedFd, kind: u8, deadline: Instant) -> Result<Option<OwnedFd>> {
        let late = || Error::world(format!("rank 0 has not answered {} within {:?}", self.rank, self.patience));
        loop {
            wait(&mut [PollFd::new(socket, PollFlags::IN)], deadline)?.then_some(()).ok_or_else(late)?;
            let mut bytes = [0; MESSAGE];
            let Some((len, fd)) = receive(socket, &mut bytes)? else { continue };
            return match bytes[..len].split_first() {
                Some((&found, _)) if found == kind => Ok(fd),
                Some((&REFUSED, words)) => Err(Error::world(String::from_utf8_lossy(words))),
                Some((&found, _)) => {
                    Err(Error::world(format!("rank 0 has said {found:#x} where {kind:#x} was to come")))
                }
                None => Err(Error::world("rank 0 has ended while the ranks were joining")),
            };
        }
    }
}

/// A process that has connected to rank 0.
struct Guest {
    socket: OwnedFd,
    /// The guest's rank, known from the hello on.
    rank: Option<Rank>,
    ready: bool,
}

#[derive(Default)]
struct Guests {
    all: Vec<Guest>,
}

impl Guests {
    /// Serves all guests, until all ranks are ready.
    fn receive(&mut self, meeting: &Meeting, listener: &OwnedFd, fd: BorrowedFd<'_>, deadline: Instant) -> Result<()> {
        let size = meeting.layout.size();
        while self.all.iter().filter(|guest| guest.ready).count() + 1 < size as usize {
            let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
            polled.extend(self.all.iter().map(|guest| PollFd::new(&guest.socket, PollFlags::IN)));
            if !wait(&mut polled, deadline)? {
                return Err(self.missing(meeting));
            }
            let called: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            // From the last to the first, so that a removed guest does not shift the guests that still follow.
            for at in (0..self.all.len()).rev().filter(|&at| called[at + 1]) {
                self.hear(at, meeting, fd)?;
            }
            if called[0] {
                self.admit(listener, meeting.user)?;
            }
        }
        // A guest that is not a rank of this world must not get the start message.
        self.all.retain(|guest| guest.ready);
        Ok(())
    }

    /// Accepts one more guest. Returns whether more guests may be waiting.
    fn admit(&mut self, listener: &OwnedFd, user: Uid) -> Result<bool> {
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                // Another user gets no answer.
                if user_of(&socket)? == user {
                    self.all.push(Guest { socket, rank: None, ready: false });
                }
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::INTR | Errno::CONNABORTED) => Ok(true),
            Err(error) => Err(Error::system("accepting a rank's connection", error)),
        }
    }

    fn hear(&mut self, at: usize, meeting: &Meeting, fd: BorrowedFd<'_>) -> Result<()> {
        let guest = &self.all[at];
        let mut bytes = [0; MESSAGE];
        let message = match receive(&guest.socket, &mut bytes) {
            Ok(None) => return Ok(()),
            Ok(Some((len, _))) => &bytes[..len],
            Err(_) => &[],
        };
        match (guest.rank, message) {
            (Some(rank), [READY]) => {
                debug_assert!(rank.0 < meeting.layout.size());
                self.all[at].ready = true;
                Ok(())
            }
            (Some(rank), []) => Err(Error::world(format!("{rank} has ended while the ranks were joining"))),
            (Some(rank), _) => Err(Error::world(format!("{rank} has sent a message of unknown kind"))),
            (None, hello) => match self.greet(hello, meeting) {
                Ok(rank) => {
                    self.all[at].rank = Some(rank);
                    send_fd(&self.all[at].socket, fd)
                }
                // A stranger, which connects and sends no valid hello, is disconnected. A rank with other settings of
                // this world is an error for all.
                Err(None) => {
                    self.all.swap_remove(at);
                    Ok(())
                }
                Err(Some(error)) => Err(error),
            },
        }
    }

    /// Returns the rank that sends the hello. A stranger is not an error.
    fn greet(&self, hello: &[u8], meeting: &Meeting) -> Result<Rank, Option<Error>> {
        let hello: &[u8; HELLO] = hello.try_into().map_err(|_| None)?;
        let (magic, words) = hello.split_at(8);
        if magic[..6] != MAGIC[..6] {
            return Err(None);
        }
        if magic != MAGIC {
            return Err(Some(Error::world(format!(
                "a rank speaks version {} of the start-up protocol, and rank 0 version {}",
                u16::from_be_bytes([magic[6], magic[7]]),
                u16::from_be_bytes([MAGIC[6], MAGIC[7]])
            ))));
        }
        let number = |from: usize| u32::from_le_bytes(words[from..from + 4].try_into().expect("a slice of 4 bytes"));
        let (rank, size) = (Rank(number(0)), number(4));
        let segment = u64::from(number(8)) | u64::from(number(12)) << 32;
        let layout = meeting.layout;
        if size != layout.size() || segment != layout.segment_bytes() {
            return Err(Some(Error::world(format!(
                "{rank} has joined for {size} ranks with segments of {segment} bytes, and rank 0 for {} with {}",
                layout.size(),
                layout.segment_bytes()
            ))));
        }
        if rank.0 == 0 || rank.0 >= size {
            return Err(Some(Error::world(format!(
                "a process has come as {rank} of {size} ranks, which does not exist"
            ))));
        }
        if self.all.iter().any(|guest| guest.rank == Some(rank)) {
            return Err(Some(Error::world(format!("two processes have come as {rank}"))));
        }
        Ok(rank)
    }

    fn missing(&self, meeting: &Meeting) -> Error {
        let here: Vec<Rank> = self.all.iter().filter(|guest| guest.ready).filter_map(|guest| guest.rank).collect();
        let mut missing = (1..meeting.layout.size()).map(Rank).filter(|rank| !here.contains(rank));
        let named: Vec<String> = missing.by_ref().take(20).map(|rank| rank.0.to_string()).collect();
        let more = missing.count();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Error::world(format!(
            "of {} ranks, these did not come within {:?}: {}{more}",
            meeting.layout.size(),
            meeting.patience,
            named.join(", ")
        ))
    }
}

fn socket(flags: SocketFlags) -> Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::system("making a socket for the ranks to meet", error))
}

/// Returns the user at the other end of a socket.
fn user_of(socket: &OwnedFd) -> Result<Uid> {
    rustix::net::sockopt::socket_peercred(socket)
        .map(|peer| peer.uid)
        .map_err(|error| Error::system("asking for the user at the other end of a socket", error))
}

/// Polls until an event comes or the deadline has passed. Returns whether an event has come.
fn wait(polled: &mut [PollFd<'_>], deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(polled, Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(Error::system("waiting for the other ranks", error)),
        }
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<()> {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
        .map(|_| ())
        .map_err(|error| Error::system("writing to another rank's socket", error))
}

fn send_fd(socket: &OwnedFd, fd: BorrowedFd<'_>) -> Result<()> {
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "room was made for one descriptor");
    rustix::net::sendmsg(socket, &[IoSlice::new(&[MEMORY])], &mut control, SendFlags::NOSIGNAL)
        .map(|_| ())
        .map_err(|error| Error::system("handing the shared memory to another rank", error))
}

/// Returns one message and its descriptor, no bytes when the other end has closed, and `None` when there is no message.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<Option<(usize, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
        Ok(message) => {
            let mut fd = None;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(mut fds) = message {
                    fd = fds.next();
                }
            }
            Ok(Some((message.bytes, fd)))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(Errno::CONNRESET) => Ok(Some((0, None))),
        Err(error) => Err(Error::system("reading from another rank's socket", error)),
    }
}

fn refusal(error: &Error) -> Vec<u8> {
    let mut words = vec![REFUSED];
    words.extend(error.to_string().bytes().take(MESSAGE - 1));
    words
}

/// Returns the name by which the ranks of one job find each other, and no ranks of another job.
///
/// The ranks of a job on one host have one parent: `mpirun` itself, or its or Slurm's daemon for this host and step. A
/// wrapper (a shell, `perf`) may come in between, and has inherited the rank's variable. So the common parent is the
/// nearest ancestor without that variable.
pub(super) fn name(environment: &Environment<'_>, variable: &str, job: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    let text = match environment.job() {
        Some(name) => format!("{name:?}"),
        None => format!("{variable} {job} {}", parent_without(variable)),
    };
    format!("rmalab-{user}-{:016x}", hash(&text))
}

/// Returns the process id and the start time of the nearest ancestor that was not started with `variable`.
fn parent_without(variable: &str) -> String {
    let mut pid = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let marks = |environment: &[u8]| {
        environment
            .split(|&byte| byte == 0)
            .any(|entry| entry.strip_prefix(variable.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')))
    };
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The second field is the command in parentheses, and may contain any text. The third is the state.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let (parent, started) = (fields.get(1), fields.get(19));
        // This process cannot read another user's environment. Such an ancestor is not a wrapper of this user.
        let wrapper = std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| marks(&environment));
        match parent.and_then(|parent| parent.parse().ok()) {
            Some(parent) if wrapper && parent > 0 => pid = parent,
            _ => return format!("{pid} {}", started.unwrap_or(&"")),
        }
    }
}

/// The 64-bit hash FNV-1a of Fowler, Noll and Vo, on which every build of this crate agrees.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn names_depend_on_the_job_and_can_be_given() {
        let nothing = |_: &str| None::<OsString>;
        let environment = Environment(&nothing);
        let name = |job: &str| name(&environment, "PMI_RANK", job);
        assert_eq!(name("1"), name("1"));
        assert_ne!(name("1"), name("2"));
        let given = |key: &str| (key == "RMALAB_JOB").then(|| OsString::from("mine"));
        let given = Environment(&given);
        assert_eq!(super::name(&given, "PMI_RANK", "1"), super::name(&given, "PMIX_RANK", "2"));
    }

    fn meeting(name: &str, rank: u32, user: Uid, patience: Duration) -> Meeting {
        let layout = Layout::new(2, 4096).unwrap();
        Meeting { rank: Rank(rank), layout, topology: Topology::one_node(2), patience, name: name.to_owned(), user }
    }

    /// Returns a socket with a name of this test, and the name.
    fn named(of: &str) -> (OwnedFd, String) {
        let name = format!("rmalab-test-{of}-{}", std::process::id());
        let socket = socket(SocketFlags::empty()).unwrap();
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        (socket, name)
    }

    #[test]
    fn a_name_that_another_user_has_taken_is_an_error() {
        let (taken, name) = named("another-user");
        rustix::net::listen(&taken, 16).unwrap();
        // To ranks of another user, this process belongs to the other user.
        let user = Uid::from_raw(rustix::process::geteuid().as_raw() ^ 1);
        for rank in [0, 1] {
            let error = meeting(&name, rank, user, Duration::from_secs(5)).hold().unwrap_err().to_string();
            assert!(error.contains("has taken the name") && error.contains("set RMALAB_JOB"), "rank {rank}: {error}");
        }
    }

    #[test]
    fn a_name_under_which_no_process_listens_is_an_error() {
        let (_taken, name) = named("silent");
        let own = rustix::process::geteuid();
        let error = meeting(&name, 0, own, Duration::from_secs(600)).hold().unwrap_err().to_string();
        assert!(error.contains("does not listen") && error.contains("set RMALAB_JOB"), "{error}");
    }

    #[test]
    fn a_listener_that_takes_no_connection_holds_up_no_rank() {
        let (taken, name) = named("full");
        rustix::net::listen(&taken, 0).unwrap();
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let fill = || {
            let socket = socket(SocketFlags::NONBLOCK).unwrap();
            rustix::net::connect(&socket, &address).ok().map(|()| socket)
        };
        let _full: Vec<OwnedFd> = std::iter::from_fn(fill).collect();
        let own = rustix::process::geteuid();
        let error = meeting(&name, 1, own, Duration::from_millis(20)).hold().unwrap_err().to_string();
        assert!(error.contains("has taken no connection within 20ms"), "{error}");
    }

    #[test]
    fn fnv_agrees_with_its_authors() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
