//! The hub: one thread, to which every rank has one connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::secret::{BYTES, random};
use super::wire::{self, CHALLENGE, Frames, GREETING, HANDSHAKE, HELLO, HUB, MAGIC, MOST, RANK, SILENT, frame, kind};
use super::{Invitation, Secret};
use crate::join::limits;
use crate::{Error, Rank, Result};

/// The largest number of connections without a hello. A further one takes the place of the oldest, so that no crowd
/// keeps the ranks from the hub. A rank sends its hello at once.
const STRANGERS: usize = 64;

/// The largest number of connections with a hello but without the last proof, beyond one for each rank.
const CLAIMS: usize = 64;

/// The time for the last frames to the members, once a rank has failed and the hub must end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The number of connections that the kernel keeps until the hub accepts them. In a large job all arrive at once.
const BACKLOG: i32 = 4096;

/// The number of descriptors that the hub needs in addition to its connections.
const FDS_BESIDE: u64 = 16;

/// The time for which the hub waits before it tries again to accept connections that the system refuses.
const RETRY: Duration = Duration::from_millis(10);

/// The meeting point of the ranks of one job. Dropping it ends the job's connections.
#[derive(Debug)]
pub struct Hub {
    invitation: Invitation,
    /// Takes commands, and returns answers of one byte. A command is the number, in 4 bytes, of a rank whose process has
    /// ended. The hub ends when this closes.
    control: Option<UnixStream>,
    thread: Option<JoinHandle<Vec<MemberState>>>,
    /// The states of the ranks, once the thread has ended.
    last: Vec<MemberState>,
}

impl Hub {
    /// Opens a hub for `size` ranks on a free port of `address`, with a new secret.
    ///
    /// # Errors
    ///
    /// [`Error::World`] for no ranks, or for more than this process may have connections; [`Error::System`] when the
    /// system refuses the port, a thread or a secret.
    pub fn open(address: IpAddr, size: u32) -> Result<Hub> {
        Hub::open_at(SocketAddr::new(address, 0), size)
    }

    /// Opens a hub at one port.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Hub::open); a port in use is an [`Error::System`] that names it.
    pub fn open_at(address: SocketAddr, size: u32) -> Result<Hub> {
        if size == 0 {
            return Err(Error::world("a world needs at least one rank"));
        }
        limits::open_files(u64::from(size) + (STRANGERS + CLAIMS) as u64 + FDS_BESIDE, size)?;
        let failed = |error| Error::system(format!("listening on {address} for the ranks of the job"), error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        // The socket already listens. This only makes its queue longer.
        rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
        listener.set_nonblocking(true).map_err(failed)?;
        let hub = listener.local_addr().map_err(failed)?;
        let secret = Secret::new()?;
        let (control, commands) = UnixStream::pair().map_err(failed)?;
        commands.set_nonblocking(true).map_err(failed)?;
        let invitation = Invitation { hub, secret: secret.clone(), host: None };
        let state = HubState {
            secret,
            listener,
            commands: Some(commands),
            connections: BTreeMap::new(),
            next: 0,
            members: vec![MemberState::Empty; size as usize],
            parts: vec![None; size as usize],
            asked: BTreeSet::new(),
            failed: Vec::new(),
            revoked: None,
            unsilenced: BTreeMap::new(),
            finishing: BTreeSet::new(),
            ending: None,
            crowded: false,
        };
        let thread = std::thread::Builder::new()
            .name("rmalab-hub".into())
            .spawn(move || state.run())
            .map_err(|error| Error::system("starting the hub's thread", error))?;
        Ok(Hub { invitation, control: Some(control), thread: Some(thread), last: Vec::new() })
    }

    /// Returns the data that a rank needs to join.
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Notes that the process of `rank` has ended, and returns the rank's state after everything that it has sent.
    ///
    /// A rank that has not joined never will, and all other ranks get that failure. A rank that has joined stays
    /// [`Joined`](Presence::Joined) here until its connection has ended, which may take a moment if it ran on another
    /// host.
    pub fn ended(&mut self, rank: Rank) -> Presence {
        if let Some(mut control) = self.control.as_ref() {
            let mut answer = [0];
            let asked = control.write_all(&rank.0.to_le_bytes()).and_then(|()| control.read_exact(&mut answer));
            if asked.is_ok() {
                return match answer[0] {
                    0 => Presence::Absent,
                    1 => Presence::Joined,
                    2 => Presence::Departed,
                    _ => Presence::Failed,
                };
            }
        }
        // The hub's thread has ended, and has left its last state.
        self.settle();
        self.last.get(rank.index()).map_or(Presence::Absent, |place| place.presence())
    }

    /// Waits until every rank has left.
    pub(super) fn settle(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread does not panic. If it did, there would be nothing left to wait for.
            self.last = thread.join().unwrap_or_default();
        }
    }
}

/// The presence of a rank, see [`Hub::ended`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It has never joined.
    Absent,
    /// It has joined, and has not left.
    Joined,
    /// It has left in good order.
    Departed,
    /// It has left as failed, or its connection has ended without a farewell.
    Failed,
}

impl Drop for Hub {
    fn drop(&mut self) {
        drop(self.control.take());
        self.settle();
    }
}

/// The state of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemberState {
    Empty,
    /// The number of its connection.
    Joined(u64),
    Departed,
    Failed,
}

impl MemberState {
    fn presence(self) -> Presence {
        match self {
            MemberState::Empty => Presence::Absent,
            MemberState::Joined(_) => Presence::Joined,
            MemberState::Departed => Presence::Departed,
            MemberState::Failed => Presence::Failed,
        }
    }
}

#[derive(Debug)]
enum Who {
    /// Has not sent a whole hello yet.
    Stranger,
    /// Has sent a hello with the right proof, and still has to answer the challenge.
    Claims {
        rank: u32,
        nonces: [[u8; BYTES]; 2],
        claim: [u8; 8],
    },
    Member(Rank),
    /// A refused connection, which gets only the reason.
    Refused,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    who: Who,
    since: Instant,
    /// The bytes of a stranger so far.
    said: Vec<u8>,
    frames: Frames,
    /// The frames still to send. A frame to all ranks exists once, for any number of connections.
    out: VecDeque<Arc<[u8]>>,
    /// The number of bytes of the first frame that were sent.
    gone: usize,
}

impl Connection {
    fn send(&mut self, frame: impl Into<Arc<[u8]>>) {
        self.out.push_back(frame.into());
        // The rest is sent when the socket accepts more; the next read returns an error.
        let _ = self.push();
    }

    fn push(&mut self) -> io::Result<()> {
        while let Some(frame) = self.out.front() {
            match self.stream.write(&frame[self.gone..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.gone == frame.len() {
                self.gone = 0;
                self.out.pop_front();
            }
        }
        Ok(())
    }

    fn is_member(&self) -> bool {
        matches!(self.who, Who::Member(_))
    }

    fn is_stranger(&self) -> bool {
        matches!(self.who, Who::Stranger)
    }

    /// Returns whether the handshake has taken too long.
    fn is_late(&self) -> bool {
        let limit = if self.is_stranger() { SILENT } else { HANDSHAKE };
        !self.is_member() && self.since.elapsed() >= limit
    }
}

/// A frame of a member, taken out of its connection.
type Said = (u8, Vec<u8>);

struct HubState {
    secret: Secret,
    listener: TcpListener,
    commands: Option<UnixStream>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    members: Vec<MemberState>,
    /// The exchange that is going on.
    parts: Vec<Option<Vec<u8>>>,
    /// Requests without an answer: the receiver, the sender, and the number.
    asked: BTreeSet<(Rank, Rank, [u8; 8])>,
    /// The ranks that have failed, in the order in which all members learn of them.
    failed: Vec<Rank>,
    /// The highest generation of worlds that was revoked.
    revoked: Option<u32>,
    /// For each of these ranks that is not silent yet: the ranks that have not said that they are done with it.
    unsilenced: BTreeMap<Rank, BTreeSet<Rank>>,
    /// The ranks that are about to leave.
    finishing: BTreeSet<Rank>,
    /// The time since which the hub only waits until its last frames are sent.
    ending: Option<Instant>,
    /// True if the hub has reported that strangers crowd it.
    crowded: bool,
}

impl HubState {
    /// Runs the hub until all ranks have left, or no rank needs it any longer. Returns the states of the ranks.
    fn run(mut self) -> Vec<MemberState> {
        loop {
            let over = self.members.iter().all(|place| matches!(place, MemberState::Departed | MemberState::Failed));
            if (over || self.commands.is_none()) && self.ending.is_none() {
                self.ending = Some(Instant::now());
            }
            if let Some(since) = self.ending {
                let unsaid = self.connections.values().any(|connection| !connection.out.is_empty());
                if !unsaid || since.elapsed() >= LAST_WORDS {
                    return self.members;
                }
            }
            if self.turn().is_err() {
                // Without polls there is no hub. The members see their connections end.
                return self.members;
            }
        }
    }

    /// Waits for events, and handles them all.
    fn turn(&mut self) -> Result<(), Errno> {
        let handshakes = self.connections.values().any(|connection| !connection.is_member());
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        let commands = self.commands.as_ref().map_or(self.listener.as_fd(), |commands| commands.as_fd());
        polled.push(PollFd::from_borrowed_fd(
            commands,
            if self.commands.is_some() { PollFlags::IN } else { PollFlags::empty() },
        ));
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for connection in self.connections.values() {
            let out = if connection.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            polled.push(PollFd::new(&connection.stream, PollFlags::IN | out));
        }
        // Handshakes and last words have deadlines; nothing else depends on the time.
        let timed = handshakes || self.ending.is_some();
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        match rustix::event::poll(&mut polled, timed.then_some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let happened: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        for (number, _) in numbers.iter().zip(&happened[2..]).filter(|(_, happened)| **happened) {
            self.hear(*number);
        }
        if happened[1] {
            self.command();
        }
        if happened[0] {
            self.admit();
        }
        self.connections.retain(|_, connection| !connection.is_late());
        Ok(())
    }

    fn command(&mut self) {
        let Some(commands) = &mut self.commands else { return };
        let mut bytes = [0; 4];
        match commands.read(&mut bytes) {
            // Written in one piece of 4 bytes, so read in one piece.
            Ok(4) => {
                let presence = self.has_ended(Rank(u32::from_le_bytes(bytes)));
                if let Some(commands) = &mut self.commands {
                    // One byte fits: the owner waits for it before the next command.
                    let _ = commands.write_all(&[presence as u8]);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            _ => self.commands = None,
        }
    }

    /// Notes that the process of a rank has ended, and returns the rank's last state.
    fn has_ended(&mut self, rank: Rank) -> Presence {
        // Its earlier frames come first, for instance a farewell.
        while let Some(&MemberState::Joined(number)) = self.members.get(rank.index()) {
            let waiting =
                self.connections.get(&number).map(|connection| rustix::io::ioctl_fionread(&connection.stream));
            self.hear(number);
            if !matches!(waiting, Some(Ok(1..))) {
                break;
            }
        }
        let presence = self.members.get(rank.index()).map_or(Presence::Absent, |place| place.presence());
        if self.members.get(rank.index()) == Some(&MemberState::Empty) {
            self.gone(rank, MemberState::Failed);
        }
        presence
    }

    /// Takes the connections that wait in the kernel's queue. There may be more: then the next poll returns at once.
    fn admit(&mut self) {
        for _ in 0..STRANGERS {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                    if !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) {
                        // There is no descriptor or memory for the connection. It stays in the queue, and poll would
                        // return at once.
                        std::thread::sleep(RETRY);
                    }
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() || wire::prepare(&stream).is_err() {
                continue;
            }
            let connection = Connection {
                stream,
                who: Who::Stranger,
                since: Instant::now(),
                said: Vec::new(),
                frames: Frames::default(),
                out: VecDeque::new(),
                gone: 0,
            };
            let number = self.next;
            self.next += 1;
            self.connections.insert(number, connection);
            // The hello of a rank has usually arrived by now, and a rank does not take a stranger's place.
            self.hear(number);
            self.make_room(peer);
        }
    }

    /// If too many connections have not finished their handshake, ends the oldest of them. `peer` has opened the
    /// newest.
    fn make_room(&mut self, peer: SocketAddr) {
        let oldest = |connections: &BTreeMap<u64, Connection>, of: fn(&Connection) -> bool, most: usize| {
            let mut found = connections.iter().filter(|(_, connection)| of(connection)).map(|(number, _)| *number);
            let first = found.next()?;
            (found.count() >= most).then_some(first)
        };
        if let Some(number) = oldest(&self.connections, Connection::is_stranger, STRANGERS) {
            self.connections.remove(&number);
            self.report_crowd(peer);
        }
        let claims = |connection: &Connection| !connection.is_member() && !connection.is_stranger();
        if let Some(number) = oldest(&self.connections, claims, self.members.len() + CLAIMS) {
            self.connections.remove(&number);
        }
    }

    /// Reports once that the hub ends connections for lack of room.
    fn report_crowd(&mut self, peer: SocketAddr) {
        if std::mem::replace(&mut self.crowded, true) {
            return;
        }
        let hub = self.listener.local_addr().map_or_else(|_| String::new(), |hub| format!(" at {hub}"));
        let say = move || {
            crate::model::error::tell(format_args!(
                "connections that do not belong to the job crowd its hub{hub}, the last one from {peer}; the hub ends them, and ranks come first"
            ));
        };
        // On a separate thread: a standard error that no process reads must not block the hub. Without a thread there is
        // no report.
        let _ = std::thread::Builder::new().name("rmalab-hub-report".into()).spawn(say);
    }

    fn hear(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let mut goes_on = connection.push().is_ok();
        let said = match connection.who {
            Who::Member(rank) => {
                goes_on &= connection.frames.read(&mut connection.stream).unwrap_or(false);
                let mut all: Vec<Said> = Vec::new();
                loop {
                    match connection.frames.next_within(wire::LONGEST_OF_MEMBER) {
                        Ok(Some((kind, body))) => all.push((kind, body.to_vec())),
                        Ok(None) => break,
                        Err(_) => {
                            goes_on = false;
                            break;
                        }
                    }
                }
                Some((rank, all))
            }
            Who::Stranger | Who::Claims { .. } => {
                goes_on &= self.listen_to_stranger(number).unwrap_or(false);
                None
            }
            Who::Refused => {
                // Ignores its data. When the peer closes, this side closes.
                goes_on &= matches!(connection.stream.read(&mut [0; 1024]), Ok(1..));
                None
            }
        };
        if let Some((rank, all)) = said {
            // After a member's farewell, or a failure, its data are ignored.
            goes_on &= all.into_iter().all(|(kind, body)| self.obey(rank, kind, &body));
        }
        if !goes_on {
            self.close(number);
        }
    }

    /// Ends a connection. A member that has not sent a farewell has failed.
    fn close(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else { return };
        if let Who::Member(rank) = connection.who
            && self.members[rank.index()] == MemberState::Joined(number)
        {
            self.gone(rank, MemberState::Failed);
        }
    }

    /// Reads only the next part of a handshake. Returns whether the connection continues.
    fn listen_to_stranger(&mut self, number: u64) -> Result<bool> {
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(false) };
        let awaited = if matches!(connection.who, Who::Stranger) { HELLO } else { BYTES };
        let mut chunk = [0; HELLO];
        match connection.stream.read(&mut chunk[..awaited - connection.said.len()]) {
            Ok(0) => return Ok(false),
            Ok(count) => connection.said.extend(&chunk[..count]),
            Err(error) => {
                return Ok(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted));
            }
        }
        if connection.said.len() < awaited {
            return Ok(true);
        }
        let said = std::mem::take(&mut connection.said);
        match connection.who {
            Who::Stranger => {
                let Some(hello) = said.strip_prefix(&MAGIC) else { return Ok(false) };
                let Some((theirs, hello)) = hello.split_first_chunk::<BYTES>() else { return Ok(false) };
                let Some((&claim, proof)) = hello.split_first_chunk::<8>() else { return Ok(false) };
                if !self.secret.verify(GREETING, [theirs, &[0; BYTES]], &claim, proof) {
                    // This challenge proves nothing. By it a process with another job's secret can detect that and
                    // report it.
                    connection.send([0; CHALLENGE]);
                    return Ok(false);
                }
                let nonces = [*theirs, random()?];
                let proof = self.secret.prove(HUB, [&nonces[0], &nonces[1]], &claim);
                let mut challenge = [0; CHALLENGE];
                challenge[..BYTES].copy_from_slice(&nonces[1]);
                challenge[BYTES..].copy_from_slice(&proof);
                let rank = u32::from_le_bytes([claim[0], claim[1], claim[2], claim[3]]);
                connection.who = Who::Claims { rank, nonces, claim };
                connection.send(challenge);
                Ok(true)
            }
            Who::Claims { rank, nonces, claim } => {
                let proved = self.secret.verify(RANK, [&nonces[0], &nonces[1]], &claim, &said);
                let refused = self.welcome(number, rank, proved, &claim);
                if let Err(why) = refused
                    && let Some(connection) = self.connections.get_mut(&number)
                {
                    connection.who = Who::Refused;
                    connection.send(frame(kind::REFUSED, &[why.as_bytes()]));
                    // These were the last frames. A connection that is already closed needs no shutdown.
                    let _ = connection.stream.shutdown(Shutdown::Write);
                }
                Ok(true)
            }
            Who::Member(_) | Who::Refused => Ok(false),
        }
    }

    fn welcome(&mut self, number: u64, rank: u32, proved: bool, claim: &[u8; 8]) -> Result<(), String> {
        if !proved {
            return Err("the job's secret is wrong".into());
        }
        let size = u32::from_le_bytes([claim[4], claim[5], claim[6], claim[7]]);
        if size as usize != self.members.len() {
            return Err(format!("the rank says that the job has {size} ranks, and it has {}", self.members.len()));
        }
        match self.members.get(rank as usize) {
            None => return Err(format!("rank {rank} does not exist in a job of {size} ranks")),
            Some(MemberState::Empty) => {}
            Some(MemberState::Failed) => return Err(format!("rank {rank} has failed before")),
            Some(_) => return Err(format!("rank {rank} has joined before, as another process")),
        }
        self.members[rank as usize] = MemberState::Joined(number);
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        connection.who = Who::Member(Rank(rank));
        connection.send(frame(kind::WELCOME, &[]));
        for failed in &self.failed {
            connection.send(frame(kind::FAILED, &[&failed.0.to_le_bytes()]));
        }
        if let Some(generation) = self.revoked {
            connection.send(frame(kind::REVOKE, &[&generation.to_le_bytes()]));
        }
        Ok(())
    }

    /// Executes a member's frame. Returns whether the member's connection continues.
    fn obey(&mut self, rank: Rank, kind: u8, body: &[u8]) -> bool {
        match kind {
            kind::GATHER if body.len() <= MOST && self.parts[rank.index()].is_none() => {
                self.parts[rank.index()] = Some(body.to_vec());
                self.finish_exchange();
                true
            }
            kind::REQUEST | kind::ANSWER => self.pass_on(rank, kind, body),
            kind::SILENT => {
                let Some((failed, [])) = wire::number(body) else { return false };
                if let Some(left) = self.unsilenced.get_mut(&Rank(failed)) {
                    left.remove(&rank);
                }
                self.report_silence();
                true
            }
            kind::FINISH => {
                self.finishing.insert(rank);
                self.finish();
                true
            }
            kind::REVOKE => {
                let Some((generation, [])) = wire::number(body) else { return false };
                self.revoked = self.revoked.max(Some(generation));
                self.notify_all(frame(kind::REVOKE, &[&generation.to_le_bytes()]));
                true
            }
            kind::EXPEL => {
                let Some((expelled, [])) = wire::number(body) else { return false };
                self.expel(Rank(expelled));
                true
            }
            kind::DEPART => {
                self.gone(rank, MemberState::Departed);
                self.finish_exchange();
                false
            }
            kind::FAILED => {
                self.gone(rank, MemberState::Failed);
                false
            }
            // No member sends such a frame, so the sender counts as failed.
            _ => false,
        }
    }

    /// Ends the exchange if all ranks have contributed, or reports that it cannot end since a rank has left.
    fn finish_exchange(&mut self) {
        let waiting = self.parts.iter().any(Option::is_some);
        let left = self.members.iter().position(|place| *place == MemberState::Departed);
        if let Some(left) = left.filter(|_| waiting) {
            self.announce(Rank(left as u32));
            return;
        }
        if self.parts.iter().any(Option::is_none) {
            return;
        }
        let parts: Vec<Vec<u8>> = self.parts.iter_mut().filter_map(Option::take).collect();
        let mut body = Vec::with_capacity(parts.iter().map(|part| 4 + part.len()).sum());
        for part in parts {
            body.extend((part.len() as u32).to_le_bytes());
            body.extend(part);
        }
        self.notify_all(frame(kind::GATHER, &[&body]));
    }

    /// Passes a request or an answer on.
    fn pass_on(&mut self, from: Rank, kind: u8, body: &[u8]) -> bool {
        let Some((to, rest)) = wire::number(body) else { return false };
        let to = Rank(to);
        let Some((number, said)) = rest.split_first_chunk::<8>() else { return false };
        // A byte that marks errors, and the text.
        if said.len() > 1 + MOST {
            return false;
        }
        if kind == kind::ANSWER {
            if !self.asked.remove(&(from, to, *number)) {
                return false;
            }
            self.tell(to, frame(kind, &[&from.0.to_le_bytes(), rest]));
            return true;
        }
        match self.members.get(to.index()) {
            Some(MemberState::Joined(_)) => {
                self.asked.insert((to, from, *number));
                self.tell(to, frame(kind, &[&from.0.to_le_bytes(), rest]));
            }
            None => self.refuse(to, from, number, "does not exist"),
            Some(MemberState::Empty) => self.refuse(to, from, number, "has not joined yet"),
            Some(MemberState::Departed | MemberState::Failed) => self.refuse(to, from, number, "has left"),
        }
        true
    }

    /// Answers a request to `to` on its behalf.
    fn refuse(&mut self, to: Rank, from: Rank, number: &[u8; 8], why: &str) {
        self.tell(from, frame(kind::ANSWER, &[&to.0.to_le_bytes(), number, &[1], why.as_bytes()]));
    }

    /// Notes that a rank is gone. Notifies all ranks if it has failed, and the ranks that wait for its answers.
    fn gone(&mut self, rank: Rank, how: MemberState) {
        self.members[rank.index()] = how;
        if how == MemberState::Failed {
            self.announce(rank);
        }
        let after = self.asked.split_off(&(rank, Rank(0), [0; 8]));
        let (mine, others): (BTreeSet<_>, BTreeSet<_>) = after.into_iter().partition(|asked| asked.0 == rank);
        self.asked.extend(others);
        for (to, from, number) in mine {
            self.refuse(to, from, &number, "has left");
        }
        // No rank waits for this one any longer.
        for left in self.unsilenced.values_mut() {
            left.remove(&rank);
        }
        self.report_silence();
        self.finish();
    }

    /// Counts `rank` as failed, tells it, and ignores it from then on.
    fn expel(&mut self, rank: Rank) {
        let Some(&place) = self.members.get(rank.index()) else { return };
        if let MemberState::Joined(number) = place
            && let Some(connection) = self.connections.get_mut(&number)
        {
            connection.who = Who::Refused;
            connection.send(frame(kind::EXPEL, &[]));
        }
        self.gone(rank, MemberState::Failed);
    }

    /// Reports the failed ranks for which no live rank executes anything any more.
    fn report_silence(&mut self) {
        let silent: Vec<Rank> =
            self.unsilenced.iter().filter(|(_, left)| left.is_empty()).map(|(&rank, _)| rank).collect();
        for rank in silent {
            self.unsilenced.remove(&rank);
            self.notify_all(frame(kind::SILENT, &[&rank.0.to_le_bytes()]));
        }
    }

    /// Lets the ranks leave, once all ranks that are still there are about to.
    fn finish(&mut self) {
        let are_finishing = (0..).map(Rank).zip(&self.members).all(|(rank, place)| match place {
            MemberState::Departed | MemberState::Failed => true,
            MemberState::Joined(_) | MemberState::Empty => self.finishing.contains(&rank),
        });
        if are_finishing && !self.finishing.is_empty() {
            self.finishing.clear();
            self.notify_all(frame(kind::FINISH, &[]));
        }
    }

    fn tell(&mut self, rank: Rank, frame: Vec<u8>) {
        if let Some(MemberState::Joined(number)) = self.members.get(rank.index())
            && let Some(connection) = self.connections.get_mut(number)
        {
            connection.send(frame);
        }
    }

    /// Notifies all ranks that a rank has failed, once.
    fn announce(&mut self, rank: Rank) {
        if self.failed.contains(&rank) {
            return;
        }
        self.failed.push(rank);
        self.notify_all(frame(kind::FAILED, &[&rank.0.to_le_bytes()]));
        let is_there = |(_, place): &(Rank, &MemberState)| matches!(place, MemberState::Joined(_));
        let there = (0..).map(Rank).zip(&self.members).filter(is_there).map(|(rank, _)| rank);
        self.unsilenced.insert(rank, there.collect());
        // It is silent at once if it was the last one.
        self.report_silence();
    }

    fn notify_all(&mut self, frame: Vec<u8>) {
        let frame: Arc<[u8]> = frame.into();
        for connection in self.connections.values_mut() {
            if connection.is_member() {
                connection.send(Arc::clone(&frame));
            }
        }
    }
}
