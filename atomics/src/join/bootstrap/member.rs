//! A rank's connection to the hub, and the thread that listens to it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::secret::{BYTES, random};
use super::wire::{self, CHALLENGE, Frames, GREETING, HANDSHAKE, HELLO, HUB, MAGIC, MOST, RANK, frame, kind};
use super::{Hub, Invitation};
use crate::{Error, Rank, Result, Topology};

/// The number of failures once the hub is gone. From then on no rank learns of a failure.
const HUB_GONE: u32 = u32::MAX;

/// A rank's answer to a request of another rank, or the reason why it cannot answer.
pub type Answer = std::result::Result<Vec<u8>, String>;

type Server = Box<dyn Serve + Send>;

/// The tasks of a rank for the other ranks, which the bootstrap's thread executes while the rank runs its own code.
pub trait Serve {
    /// Answers a request of a rank that has not failed.
    fn answer(&mut self, from: Rank, request: &[u8]) -> Answer;

    /// Ends everything that a failed rank may still have under way here.
    fn retire(&mut self, failed: Rank);
}

/// A server that only answers.
impl<F: FnMut(Rank, &[u8]) -> Answer> Serve for F {
    fn answer(&mut self, from: Rank, request: &[u8]) -> Answer {
        self(from, request)
    }

    fn retire(&mut self, _: Rank) {}
}

/// A request that has arrived before there was a server for it.
struct Early {
    from: Rank,
    number: u64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct ReceivedFrames {
    gathered: Option<Vec<Vec<u8>>>,
    answers: HashMap<u64, Answer>,
    early: Vec<Early>,
    /// The ranks that have failed, in the hub's order.
    failed: Vec<Rank>,
    /// Those for which no live rank executes anything any more.
    silent: BTreeSet<Rank>,
    /// True if all live ranks are about to leave.
    is_finished: bool,
}

struct Shared {
    rank: Rank,
    /// The rank that hosts the hub; none if that is the launcher.
    host: Option<Rank>,
    stream: TcpStream,
    /// One frame at a time.
    writing: Mutex<()>,
    /// One exchange at a time.
    exchanging: Mutex<()>,
    /// The number of ranks that have failed, or [`HUB_GONE`]. It changes only while the state is locked.
    failures: AtomicU32,
    /// The highest generation of worlds that was revoked, plus one; 0 while none was.
    revoked: AtomicU32,
    /// True if another rank has expelled this one.
    is_expelled: AtomicBool,
    state: Mutex<ReceivedFrames>,
    changed: Condvar,
    server: Mutex<Option<Server>>,
}

/// A rank's membership in its job: it exchanges keys, meets the others, and learns of their deaths.
///
/// Made by [`join`](Membership::join). Dropping it leaves the job in good order, or as failed in a thread that panics.
pub struct Membership {
    rank: Rank,
    size: u32,
    hosts: Vec<Box<str>>,
    topology: Topology,
    numbers: AtomicU32,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
    /// The hub, in the rank that hosts the meeting.
    hub: Option<Hub>,
    /// True if all live ranks are about to leave.
    is_finished: AtomicBool,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

/// This crate does not panic while it holds a lock, but a caller's server may.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Membership {
    /// Joins the job at `invitation` as `rank` of `size`, and waits until all ranks have joined, for at most
    /// `patience`.
    ///
    /// Ranks with the same `host` are on one host. `hub` is the hub itself, in the process that hosts it.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when the hub refuses (a wrong secret, a rank that has already joined) or not all ranks arrive.
    /// [`Error::System`] when the hub cannot be reached. [`Error::PeerFailed`] when a rank has already failed.
    pub fn join(
        invitation: &Invitation,
        rank: Rank,
        size: u32,
        host: &str,
        patience: Duration,
        hub: Option<Hub>,
    ) -> Result<Membership> {
        let stream = shake_hands(invitation, rank, size, patience)?;
        let failed = |error| Error::system("setting the connection to the hub up", error);
        let reader = stream.try_clone().map_err(failed)?;
        let shared = Arc::new(Shared {
            rank,
            // When the hub is gone, the rank that hosts it is gone, too.
            host: invitation.host,
            stream,
            writing: Mutex::new(()),
            exchanging: Mutex::new(()),
            failures: AtomicU32::new(0),
            revoked: AtomicU32::new(0),
            is_expelled: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            server: Mutex::new(None),
        });
        let listener = std::thread::Builder::new()
            .name("rmalab-member".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    if catch_unwind(AssertUnwindSafe(|| shared.listen(reader))).is_err() {
                        shared.server_panicked();
                    }
                }
            })
            .map_err(|error| Error::system("starting the thread that listens to the hub", error))?;
        let mut membership = Membership {
            rank,
            size,
            hosts: Vec::new(),
            topology: Topology::one_node(size),
            numbers: AtomicU32::new(0),
            shared,
            listener: Some(listener),
            hub,
            is_finished: AtomicBool::new(false),
        };
        let deadline = Instant::now() + patience;
        let hosts = match membership.exchange(host.as_bytes(), Some((deadline, patience))) {
            Ok(hosts) => hosts,
            Err(error) => {
                // Without this rank there is no job, so its own hub does not wait for ranks that never arrive.
                membership.leave(true);
                membership.hub = None;
                return Err(error);
            }
        };
        membership.hosts = hosts.iter().map(|host| String::from_utf8_lossy(host).into()).collect();
        let mut nodes = HashMap::new();
        let places: Vec<(u32, u32)> = membership
            .hosts
            .iter()
            .map(|host| {
                let next = nodes.len() as u32;
                (*nodes.entry(host.clone()).or_insert(next), 0)
            })
            .collect();
        membership.topology = Topology::of_places(places);
        Ok(membership)
    }

    /// Returns the rank of this process.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the host of each rank, in the order of the ranks.
    pub fn hosts(&self) -> &[Box<str>] {
        &self.hosts
    }

    /// Returns the hosts as nodes, all in one rack.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Gives `bytes`, at most 64 KiB, to all ranks, and returns the bytes of all ranks, in their order. All ranks call
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`] when a rank has failed or left, [`Error::World`] when the launcher has, or for too many bytes.
    pub fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(bytes, None)
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    ///
    /// The errors of [`allgather`](Membership::allgather).
    pub fn barrier(&self) -> Result<()> {
        self.allgather(&[]).map(drop)
    }

    /// Sends a request to `to`, whose [server](Membership::serve) answers while its rank runs its own code.
    ///
    /// # Errors
    ///
    /// [`Error::World`] with the text of the other rank's refusal, or when it has left. [`Error::PeerFailed`] when it
    /// has failed.
    pub fn request(&self, to: Rank, bytes: &[u8]) -> Result<Vec<u8>> {
        check_length(bytes)?;
        self.check_rank(to)?;
        let number = u64::from(self.numbers.fetch_add(1, Ordering::Relaxed));
        self.shared.send(&frame(kind::REQUEST, &[&to.0.to_le_bytes(), &number.to_le_bytes(), bytes]))?;
        // The hub answers for a rank that has left.
        let answer = self.shared.wait(None, |shared, _| shared.check_hub(), |state| state.answers.remove(&number))?;
        answer.or_else(|why| {
            // For a failed rank, the hub reports that it has left after it has reported the failure.
            self.check_rank(to)?;
            Err(Error::world(format!("{to}: {why}")))
        })
    }

    /// Makes `server` answer the requests of the other ranks, on the thread that listens to the hub.
    ///
    /// It must not wait for other ranks itself, since it receives nothing from them in that time. If it panics, its
    /// rank has failed.
    pub fn serve(&self, server: impl FnMut(Rank, &[u8]) -> Answer + Send + 'static) {
        self.serve_until_failures(server);
    }

    /// Like [`serve`](Self::serve), with a server that also learns which ranks have failed. It gets no request of such a
    /// rank afterwards.
    pub fn serve_until_failures(&self, server: impl Serve + Send + 'static) {
        let mut place = lock(&self.shared.server);
        *place = Some(Box::new(server));
        // Only here is the state locked after the server. So a request comes either before or after this.
        let early = std::mem::take(&mut lock(&self.shared.state).early);
        for Early { from, number, bytes } in early {
            self.shared.answer(place.as_mut(), from, number, &bytes);
        }
    }

    /// Returns an error if any rank has failed. This is one load.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`], or [`Error::World`] when the launcher has gone away.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.shared.check()
    }

    /// Returns a number that changes with each failure, and when the hub goes. It is 0 before. This is one load.
    #[inline]
    pub fn failures(&self) -> u32 {
        self.shared.failures.load(Ordering::Acquire)
    }

    /// Makes `rank` count as failed, and waits until that is known here.
    ///
    /// # Errors
    ///
    /// The errors of [`check_hub`](Self::check_hub), and of the connection.
    pub fn expel(&self, rank: Rank) -> Result<()> {
        self.check_hub()?;
        self.shared.send(&frame(kind::EXPEL, &[&rank.0.to_le_bytes()]))?;
        let is_known = |state: &mut ReceivedFrames| state.failed.contains(&rank).then_some(());
        self.shared.wait(None, |shared, _| shared.check_hub(), is_known)
    }

    /// Returns how many generations of worlds were [revoked](Self::revoke). This is one load.
    #[inline]
    pub fn revoked(&self) -> u32 {
        self.shared.revoked.load(Ordering::Acquire)
    }

    /// Revokes this generation of worlds, and all earlier ones, at all live ranks.
    ///
    /// # Errors
    ///
    /// The errors of [`check_hub`](Self::check_hub), and of the connection.
    pub fn revoke(&self, generation: u32) -> Result<()> {
        self.check_hub()?;
        self.shared.note_revocation(generation);
        self.shared.send(&frame(kind::REVOKE, &[&generation.to_le_bytes()]))
    }

    /// Returns the ranks that have failed, in the order in which the hub has learned of them.
    pub fn failed(&self) -> Vec<Rank> {
        lock(&self.shared.state).failed.clone()
    }

    /// Returns an error if `rank` has failed, or if the hub is gone. Without any failure this is one load.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`], and [`Error::World`] when the launcher has gone away.
    #[inline]
    pub fn check_rank(&self, rank: Rank) -> Result<()> {
        match self.failures() {
            0 => Ok(()),
            _ => self.check_listed(rank),
        }
    }

    #[cold]
    fn check_listed(&self, rank: Rank) -> Result<()> {
        if lock(&self.shared.state).failed.contains(&rank) {
            return Err(Error::PeerFailed { rank });
        }
        self.check_hub()
    }

    /// Returns an error if the hub is gone. From then on no rank learns of a failure.
    ///
    /// # Errors
    ///
    /// [`Error::PeerFailed`] when a rank has hosted it, and [`Error::World`] when the launcher has.
    pub fn check_hub(&self) -> Result<()> {
        self.shared.check_hub()
    }

    /// Waits until all live ranks know that the ranks `failed`, which are known here to have failed, have failed, and their
    /// servers have [retired](Serve::retire) them. A live rank that has no server counts as having done so.
    ///
    /// # Errors
    ///
    /// The errors of [`check_hub`](Self::check_hub).
    pub fn await_silence(&self, failed: impl Iterator<Item = Rank>) -> Result<()> {
        let failed: Vec<Rank> = failed.collect();
        let are_silent =
            |state: &mut ReceivedFrames| failed.iter().all(|rank| state.silent.contains(rank)).then_some(());
        self.shared.wait(None, |shared, _| shared.check_hub(), are_silent)
    }

    /// Waits until all live ranks have called it, before they leave. Ranks that have left or failed are not waited for.
    ///
    /// # Errors
    ///
    /// The errors of [`check_hub`](Self::check_hub).
    pub fn finish(&self) -> Result<()> {
        self.shared.send(&frame(kind::FINISH, &[]))?;
        self.shared.wait(None, |shared, _| shared.check_hub(), |state| state.is_finished.then_some(()))?;
        self.is_finished.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Leaves the job as failed: all other ranks get the failure.
    pub fn fail(self) {
        self.leave(true);
    }

    /// Ends the connection as a kill would.
    #[cfg(test)]
    pub(super) fn cut(&self) {
        let _ = self.shared.stream.shutdown(Shutdown::Both);
    }

    /// Sends a request, and does not wait for its answer.
    #[cfg(test)]
    pub(super) fn send_request(&self, to: Rank, bytes: &[u8]) {
        self.shared.send(&frame(kind::REQUEST, &[&to.0.to_le_bytes(), &u64::MAX.to_le_bytes(), bytes])).unwrap();
    }

    /// Reports to all ranks that this rank has failed, or that it leaves. Only the first report counts.
    fn leave(&self, failed: bool) {
        let kind = if failed { kind::FAILED } else { kind::DEPART };
        // If this fails, the hub is gone, and there is nothing to notify.
        let _ = self.shared.send(&frame(kind, &[]));
    }

    fn exchange(&self, bytes: &[u8], until: Option<(Instant, Duration)>) -> Result<Vec<Vec<u8>>> {
        check_length(bytes)?;
        let _one = lock(&self.shared.exchanging);
        self.check()?;
        self.shared.send(&frame(kind::GATHER, &[bytes]))?;
        let parts = self.shared.wait(until, Shared::check_all, |state| state.gathered.take())?;
        if parts.len() == self.size as usize {
            Ok(parts)
        } else {
            Err(Error::world(format!("the hub has sent {} parts to {} ranks", parts.len(), self.size)))
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        // This is read before the rank leaves, since the hub ends the connection of a rank that has left, which looks
        // like the hub's end.
        let told = self.check().is_err() && !self.is_finished.load(Ordering::Relaxed);
        self.leave(failed);
        if let Some(mut hub) = self.hub.take() {
            if failed || told {
                drop(hub);
            } else {
                // Only the host can report a death to the others, so it leaves last.
                hub.settle();
            }
        }
        let _ = self.shared.stream.shutdown(Shutdown::Both);
        if let Some(listener) = self.listener.take() {
            // The thread does not panic, since it catches a server's panic.
            let _ = listener.join();
        }
    }
}

impl Shared {
    #[inline]
    fn check(&self) -> Result<()> {
        match self.failures.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(self.first_failure(&lock(&self.state))),
        }
    }

    #[cold]
    fn first_failure(&self, state: &ReceivedFrames) -> Error {
        match state.failed.first() {
            _ if self.is_expelled.load(Ordering::Relaxed) => Error::Expelled,
            Some(&rank) => Error::PeerFailed { rank },
            None => hub_gone(self.host),
        }
    }

    /// Like [`check`](Self::check), while the state is locked.
    fn check_all(&self, state: &ReceivedFrames) -> Result<()> {
        match self.failures.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(self.first_failure(state)),
        }
    }

    fn check_hub(&self) -> Result<()> {
        match self.failures.load(Ordering::Acquire) {
            HUB_GONE if self.is_expelled.load(Ordering::Relaxed) => Err(Error::Expelled),
            HUB_GONE => Err(hub_gone(self.host)),
            _ => Ok(()),
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<()> {
        let _one = lock(&self.writing);
        wire::send(&self.stream, bytes).map_err(|error| {
            // If a rank has failed, that failure is the error.
            self.check().err().unwrap_or_else(|| Error::system("writing to the job's hub", error))
        })
    }

    /// Waits until `take` returns a value, or `check` an error.
    fn wait<T>(
        &self,
        until: Option<(Instant, Duration)>,
        check: impl Fn(&Shared, &ReceivedFrames) -> Result<()>,
        mut take: impl FnMut(&mut ReceivedFrames) -> Option<T>,
    ) -> Result<T> {
        let mut state = lock(&self.state);
        loop {
            if let Some(taken) = take(&mut state) {
                return Ok(taken);
            }
            check(self, &state)?;
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((deadline, patience)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Error::world(format!(
                            "not all ranks of the job have joined within {patience:?} (RMALAB_TIMEOUT sets how many seconds to wait)"
                        )));
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The listening thread.
    fn listen(&self, mut reader: TcpStream) {
        let mut frames = Frames::default();
        loop {
            loop {
                match frames.next() {
                    Ok(Some((kind, body))) => {
                        if self.hear(kind, body).is_none() {
                            return self.hub_is_gone();
                        }
                    }
                    Ok(None) => break,
                    Err(_) => return self.hub_is_gone(),
                }
            }
            if !matches!(frames.read(&mut reader), Ok(true)) {
                return self.hub_is_gone();
            }
        }
    }

    /// Without its server a rank answers no request, so it has failed.
    fn server_panicked(&self) {
        // If this fails, the hub is gone, and there is nothing to notify.
        let _ = self.send(&frame(kind::FAILED, &[]));
        self.note_failure(self.rank);
        // No other failure will be noticed.
        self.hub_is_gone();
    }

    fn note_failure(&self, rank: Rank) {
        let mut state = lock(&self.state);
        if !state.failed.contains(&rank) {
            state.failed.push(rank);
            self.failures.fetch_add(1, Ordering::Release);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn note_revocation(&self, generation: u32) {
        self.revoked.fetch_max(generation.saturating_add(1), Ordering::Release);
    }

    /// The listening thread ends.
    fn hub_is_gone(&self) {
        let mut state = lock(&self.state);
        if let Some(host) = self.host
            && !self.is_expelled.load(Ordering::Relaxed)
            && !state.failed.contains(&host)
        {
            state.failed.push(host);
        }
        self.failures.store(HUB_GONE, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// Ends everything that a failed rank may have under way here, and reports it to the hub.
    fn retire(&self, rank: Rank) {
        // This rank knows of the failure before the others may rely on that.
        self.note_failure(rank);
        let mut server = lock(&self.server);
        lock(&self.state).early.retain(|early| early.from != rank);
        if let Some(server) = server.as_mut() {
            server.retire(rank);
        }
        drop(server);
        // If this fails, the hub is gone, and no rank relies on it.
        let _ = self.send(&frame(kind::SILENT, &[&rank.0.to_le_bytes()]));
    }

    /// Handles a frame of the hub; `None` for an invalid frame.
    fn hear(&self, kind: u8, body: &[u8]) -> Option<()> {
        match kind {
            kind::GATHER => {
                let mut parts = Vec::new();
                let mut rest = body;
                while !rest.is_empty() {
                    let (length, behind) = wire::number(rest)?;
                    let (part, behind) = behind.split_at_checked(length as usize)?;
                    parts.push(part.to_vec());
                    rest = behind;
                }
                lock(&self.state).gathered = Some(parts);
                self.changed.notify_all();
            }
            kind::ANSWER => {
                let (_, rest) = wire::number(body)?;
                let (number, rest) = wire::long(rest)?;
                let (&refused, bytes) = rest.split_first()?;
                let answer = if refused == 0 { Ok(bytes.to_vec()) } else { Err(String::from_utf8_lossy(bytes).into()) };
                lock(&self.state).answers.insert(number, answer);
                self.changed.notify_all();
            }
            kind::REQUEST => {
                let (from, rest) = wire::number(body)?;
                let (number, bytes) = wire::long(rest)?;
                let mut server = lock(&self.server);
                if server.is_none() {
                    lock(&self.state).early.push(Early { from: Rank(from), number, bytes: bytes.to_vec() });
                } else {
                    self.answer(server.as_mut(), Rank(from), number, bytes);
                }
            }
            kind::FAILED => self.retire(Rank(wire::number(body)?.0)),
            kind::SILENT => {
                let (rank, _) = wire::number(body)?;
                lock(&self.state).silent.insert(Rank(rank));
                self.changed.notify_all();
            }
            kind::EXPEL => {
                self.is_expelled.store(true, Ordering::Relaxed);
                // The hub ignores this rank from now on.
                return None;
            }
            kind::REVOKE => self.note_revocation(wire::number(body)?.0),
            kind::FINISH => {
                lock(&self.state).is_finished = true;
                self.changed.notify_all();
            }
            _ => return None,
        }
        Some(())
    }

    fn answer(&self, server: Option<&mut Server>, from: Rank, number: u64, bytes: &[u8]) {
        let Some(server) = server else { return };
        let (refused, answer) = match server.answer(from, bytes) {
            Ok(answer) if answer.len() <= MOST => (0, answer),
            Ok(answer) => (1, format!("an answer of {} bytes is too long", answer.len()).into_bytes()),
            Err(mut why) => {
                why.truncate(why.floor_char_boundary(MOST));
                (1, why.into_bytes())
            }
        };
        // If this fails, the hub is gone, and the asking rank detects that itself.
        let _ = self.send(&frame(kind::ANSWER, &[&from.0.to_le_bytes(), &number.to_le_bytes(), &[refused], &answer]));
    }
}

#[cold]
fn hub_gone(host: Option<Rank>) -> Error {
    match host {
        Some(rank) => Error::PeerFailed { rank },
        None => Error::world("the launcher of this job has gone away, and with it the ranks' meeting"),
    }
}

fn check_length(bytes: &[u8]) -> Result<()> {
    if bytes.len() <= MOST {
        return Ok(());
    }
    Err(Error::world(format!("{} bytes in one message of the ranks, which has room for {MOST}", bytes.len())))
}

/// The time for which a rank waits before it connects again to a hub that has closed the connection.
const RETRY: Duration = Duration::from_millis(10);

/// Connects. Both sides prove that they know the secret.
///
/// A hub with too many connections may close this one before it has read the hello. So a rank tries again.
fn shake_hands(invitation: &Invitation, rank: Rank, size: u32, patience: Duration) -> Result<TcpStream> {
    let deadline = Instant::now() + patience;
    for closed in 1.. {
        if let Some(stream) = shake_hands_once(invitation, rank, size)? {
            return Ok(stream);
        }
        if Instant::now() >= deadline {
            return Err(Error::world(format!(
                "the job's hub at {} has closed {closed} connections of {rank} within {patience:?} and answered none: connections that do not belong to the job crowd it (end what opens them), or what listens there is no hub of this version",
                invitation.hub
            )));
        }
        std::thread::sleep(RETRY);
    }
    unreachable!("the loop ends by its deadline")
}

/// Like [`shake_hands`], once; `None` when the hub has closed the connection before it answered.
fn shake_hands_once(invitation: &Invitation, rank: Rank, size: u32) -> Result<Option<TcpStream>> {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    let hub = invitation.hub;
    let failed = |what: &str| {
        let what = format!("{what} the job's hub at {hub}");
        move |error| Error::system(what, error)
    };
    let closed = |error: &std::io::Error| {
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    };
    let mut stream = match TcpStream::connect_timeout(&hub, HANDSHAKE) {
        Ok(stream) => stream,
        Err(error) if error.kind() == TimedOut || closed(&error) => return Ok(None),
        Err(error) => return Err(failed("connecting to")(error)),
    };
    wire::prepare(&stream)?;
    stream.set_read_timeout(Some(HANDSHAKE)).map_err(failed("setting up the connection to"))?;
    let nonce = random()?;
    let mut claim = [0; 8];
    claim[..4].copy_from_slice(&rank.0.to_le_bytes());
    claim[4..].copy_from_slice(&size.to_le_bytes());
    let proof = invitation.secret.prove(GREETING, [&nonce, &[0; BYTES]], &claim);
    let hello = [&MAGIC[..], &nonce, &claim, &proof].concat();
    debug_assert_eq!(hello.len(), HELLO);
    let mut challenge = [0; CHALLENGE];
    match wire::send(&stream, &hello).and_then(|()| stream.read_exact(&mut challenge)) {
        Ok(()) => {}
        Err(error) if closed(&error) => return Ok(None),
        Err(error) => return Err(failed("hearing from")(error)),
    }
    let (theirs, proof) = challenge.split_first_chunk::<BYTES>().expect("a challenge is two of them");
    if !invitation.secret.verify(HUB, [&nonce, theirs], &claim, proof) {
        return Err(Error::world(format!(
            "what listens at {hub} does not know this job's secret, or this process does not: {rank} was started with another job's secret"
        )));
    }
    wire::send(&stream, &invitation.secret.prove(RANK, [&nonce, theirs], &claim)).map_err(failed("answering"))?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).map_err(failed("hearing from"))?;
    let mut body = vec![0; (u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize).min(4096)];
    stream.read_exact(&mut body).map_err(failed("hearing from"))?;
    match head[4] {
        kind::WELCOME => {
            stream.set_read_timeout(None).map_err(failed("setting up the connection to"))?;
            Ok(Some(stream))
        }
        _ => Err(Error::world(format!("the job's hub at {hub} refuses {rank}: {}", String::from_utf8_lossy(&body)))),
    }
}
