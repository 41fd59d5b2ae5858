//! The messages between hub and members: frames of a length, a kind and a body.
//!
//! All numbers are little-endian. Before the proofs have been checked, frames are of fixed, small lengths.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::secret::BYTES;
use crate::join::environment::Environment;
use crate::{Error, Result};

/// The start of a connection: its kind and version.
pub(super) const MAGIC: [u8; 8] = *b"rmahub\0\x04";

/// The largest contribution of a rank to an exchange, or message to another rank, in bytes.
pub(crate) const MOST: usize = 64 << 10;

/// The largest body, in bytes, except for the results of exchanges, which are as long as all contributions.
const LONGEST: usize = 1 << 30;

/// The largest body from a member, in bytes: a contribution with the head of a request or an answer.
pub(super) const LONGEST_OF_MEMBER: usize = MOST + 64;

/// After the magic: the member's nonce, its rank, the number of ranks, and a proof for these. The hub drops a connection
/// without a right proof at once, so only processes that know the secret take up room in it. A listener on the network
/// could repeat a hello, so the hub still challenges the member.
pub(super) const HELLO: usize = MAGIC.len() + BYTES + 8 + BYTES;

/// The hub's answer: its nonce and its proof.
pub(super) const CHALLENGE: usize = 2 * BYTES;

pub(super) const GREETING: &[u8] = b"hello";
pub(super) const HUB: &[u8] = b"hub";
pub(super) const RANK: &[u8] = b"rank";

/// The time for each step of the handshake after a hello.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time for which the hub waits for the hello on a new connection.
pub(super) const SILENT: Duration = Duration::from_secs(2);

/// Kinds of frames.
pub(super) mod kind {
    /// From the hub: the proof was right.
    pub(in crate::join::bootstrap) const WELCOME: u8 = 1;
    /// From the hub: the proof is wrong, or the rank is impossible, as a text.
    pub(in crate::join::bootstrap) const REFUSED: u8 = 2;
    /// From a member: its part of the exchange. From the hub: the parts of all, each after its length in 4 bytes.
    pub(in crate::join::bootstrap) const GATHER: u8 = 3;
    /// A request of one member to another: the other's rank (from the hub: the asker's), a number, the bytes.
    pub(in crate::join::bootstrap) const REQUEST: u8 = 4;
    /// The answer to a request, in the same form, with a byte that marks an error text.
    pub(in crate::join::bootstrap) const ANSWER: u8 = 5;
    /// From a member: it leaves in good order.
    pub(in crate::join::bootstrap) const DEPART: u8 = 6;
    /// From a member: it leaves as failed. From the hub: this rank has failed.
    pub(in crate::join::bootstrap) const FAILED: u8 = 7;
    /// From a member: it knows that this rank has failed, and executes nothing more for it. From the hub: all live ranks
    /// have said so.
    pub(in crate::join::bootstrap) const SILENT: u8 = 8;
    /// From a member: it is about to leave. From the hub: all live ranks are.
    pub(in crate::join::bootstrap) const FINISH: u8 = 9;
    /// From a member: this rank counts as failed. From the hub: the member itself does.
    pub(in crate::join::bootstrap) const EXPEL: u8 = 11;
    /// From a member: it revokes this generation of worlds and all earlier ones. From the hub: they were revoked.
    pub(in crate::join::bootstrap) const REVOKE: u8 = 10;
}

/// A frame of several parts.
pub(super) fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(5 + length);
    frame.extend((length as u32).to_le_bytes());
    frame.push(kind);
    for part in parts {
        frame.extend(*part);
    }
    frame
}

/// Takes frames out of bytes as they come.
#[derive(Default, Debug)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Reads once. Returns whether the connection continues.
    ///
    /// It reads once, since the bytes may be whole frames, and the next read of a blocking connection would wait for
    /// more.
    pub(super) fn read(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        let mut chunk = [0; 16 << 10];
        match stream.read(&mut chunk) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.bytes.extend(&chunk[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the next whole frame's kind and body; an error for an invalid frame.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &[u8])>> {
        self.next_within(LONGEST)
    }

    /// Like [`next`](Self::next), with an error for a body of more than `longest` bytes as soon as it is announced.
    pub(super) fn next_within(&mut self, longest: usize) -> Result<Option<(u8, &[u8])>> {
        let rest = &self.bytes[self.taken..];
        let Some((&length, behind)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(length) as usize;
        if length > longest {
            return Err(Error::world(format!("a frame of {length} bytes, which is not valid")));
        }
        if behind.len() < 1 + length {
            return Ok(None);
        }
        let start = self.taken + 4;
        self.taken = start + 1 + length;
        Ok(Some((self.bytes[start], &self.bytes[start + 1..self.taken])))
    }
}

/// Returns a number of 4 bytes at the front of `bytes`, and the rest.
pub(super) fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk::<4>().map(|(number, rest)| (u32::from_le_bytes(*number), rest))
}

/// Returns a number of 8 bytes at the front of `bytes`, and the rest.
pub(super) fn long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    bytes.split_first_chunk::<8>().map(|(number, rest)| (u64::from_le_bytes(*number), rest))
}

/// Sends a frame on a connection that blocks.
pub(super) fn send(mut stream: &TcpStream, frame: &[u8]) -> io::Result<()> {
    stream.write_all(frame)
}

/// Sets a connection up: no delays, and an end once the other host has been silent for some four seconds, or the
/// seconds of `RMALAB_SILENCE`. With `never` there, no silence ends it. The host of a process reports its death at once.
pub(super) fn prepare(stream: &TcpStream) -> Result<()> {
    use rustix::net::sockopt;
    let silence = Environment::own().silence()?;
    let failed = |error| Error::system("setting a connection up", error);
    stream.set_nodelay(true).map_err(|error| Error::system("setting a connection up", error))?;
    let Some(silence) = silence else {
        // Without a limit, Linux gives up data that no host confirms after some 15 minutes.
        return sockopt::set_tcp_user_timeout(stream, i32::MAX as u32).map_err(failed);
    };
    sockopt::set_socket_keepalive(stream, true).map_err(failed)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(1)).map_err(failed)?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1)).map_err(failed)?;
    sockopt::set_tcp_keepcnt(stream, silence - 1).map_err(failed)?;
    sockopt::set_tcp_user_timeout(stream, silence * 1000).map_err(failed)
}
