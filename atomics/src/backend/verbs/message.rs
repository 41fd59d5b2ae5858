//! The messages with which two ranks connect a queue pair. The request has one end. The answer has the other end, and
//! the answering rank's memory.

/// The magic bytes of the messages, with their version.
const MAGIC: [u8; 4] = *b"qp\0\x01";

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Endpoint {
    /// The queue pair's number.
    pub(super) number: u32,
    /// The number of the first packet that it sends.
    pub(super) first: u32,
    pub(super) lid: u16,
    pub(super) gid: [u8; 16],
    /// The port's active MTU, as the library numbers them.
    pub(super) mtu: u8,
    /// The number of reads and atomics that it may have under way.
    pub(super) initiator: u8,
    /// The number of reads and atomics that it answers at a time.
    pub(super) responder: u8,
}

/// The place of a rank's memory, for its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub(super) address: u64,
    pub(super) key: u32,
}

/// A rank's memory file, for other ranks of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shared {
    /// The number of the process.
    pub(super) process: u32,
    /// The number of the descriptor in that process.
    pub(super) descriptor: u32,
    /// The file's inode number.
    pub(super) file: u64,
    pub(super) bytes: u64,
}

/// The request for the memory file.
pub(super) const SHARE: [u8; 4] = *b"fd\0\x01";

const ENDPOINT: usize = 4 + 4 + 2 + 16 + 3;
const OPENED: usize = 8 + 4;

fn push(bytes: &mut Vec<u8>, end: &Endpoint) {
    bytes.extend(end.number.to_le_bytes());
    bytes.extend(end.first.to_le_bytes());
    bytes.extend(end.lid.to_le_bytes());
    bytes.extend(end.gid);
    bytes.extend([end.mtu, end.initiator, end.responder]);
}

/// Takes the first `N` bytes off.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn pull(bytes: &mut &[u8]) -> Option<Endpoint> {
    Some(Endpoint {
        number: u32::from_le_bytes(take(bytes)?),
        first: u32::from_le_bytes(take(bytes)?),
        lid: u16::from_le_bytes(take(bytes)?),
        gid: take(bytes)?,
        mtu: u8::from_le_bytes(take(bytes)?),
        initiator: u8::from_le_bytes(take(bytes)?),
        responder: u8::from_le_bytes(take(bytes)?),
    })
}

/// Makes the request to connect.
pub(super) fn request(end: &Endpoint) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAGIC.len() + ENDPOINT);
    bytes.extend(MAGIC);
    push(&mut bytes, end);
    bytes
}

/// Reads a request to connect; `None` if it is something else.
pub(super) fn read_request(mut bytes: &[u8]) -> Option<Endpoint> {
    if take(&mut bytes)? != MAGIC {
        return None;
    }
    let end = pull(&mut bytes)?;
    bytes.is_empty().then_some(end)
}

/// Makes the answer to a request to connect.
pub(super) fn answer(end: &Endpoint, memory: &Opened) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAGIC.len() + ENDPOINT + OPENED);
    bytes.extend(MAGIC);
    push(&mut bytes, end);
    bytes.extend(memory.address.to_le_bytes());
    bytes.extend(memory.key.to_le_bytes());
    bytes
}

/// Reads the answer to a request to connect; `None` if it is something else.
pub(super) fn read_answer(mut bytes: &[u8]) -> Option<(Endpoint, Opened)> {
    if take(&mut bytes)? != MAGIC {
        return None;
    }
    let end = pull(&mut bytes)?;
    let memory = Opened { address: u64::from_le_bytes(take(&mut bytes)?), key: u32::from_le_bytes(take(&mut bytes)?) };
    bytes.is_empty().then_some((end, memory))
}

/// Makes the answer to [`SHARE`].
pub(super) fn shared(shared: &Shared) -> Vec<u8> {
    let mut bytes = SHARE.to_vec();
    bytes.extend(shared.process.to_le_bytes());
    bytes.extend(shared.descriptor.to_le_bytes());
    bytes.extend(shared.file.to_le_bytes());
    bytes.extend(shared.bytes.to_le_bytes());
    bytes
}

/// Reads the answer to [`SHARE`]; `None` if it is something else.
pub(super) fn read_shared(mut bytes: &[u8]) -> Option<Shared> {
    if take(&mut bytes)? != SHARE {
        return None;
    }
    let shared = Shared {
        process: u32::from_le_bytes(take(&mut bytes)?),
        descriptor: u32::from_le_bytes(take(&mut bytes)?),
        file: u64::from_le_bytes(take(&mut bytes)?),
        bytes: u64::from_le_bytes(take(&mut bytes)?),
    };
    bytes.is_empty().then_some(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Endpoint = Endpoint {
        number: 0x0102_0304,
        first: 0x00ab_cdef,
        lid: 0x1122,
        gid: *b"sixteen bytes 16",
        mtu: 5,
        initiator: 16,
        responder: 128,
    };
    const MEMORY: Opened = Opened { address: u64::MAX - 7, key: 0x8765_4321 };

    #[test]
    fn messages_are_read_back() {
        assert_eq!(read_request(&request(&END)), Some(END));
        assert_eq!(read_answer(&answer(&END, &MEMORY)), Some((END, MEMORY)));
        let file = Shared { process: 7, descriptor: 9, file: u64::MAX - 1, bytes: 1 << 40 };
        assert_eq!(read_shared(&shared(&file)), Some(file));
        assert_eq!(read_shared(&shared(&file)[1..]), None);
        assert_eq!(read_shared(&shared(&file)[..27]), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let (request, answer) = (request(&END), answer(&END, &MEMORY));
        assert_eq!((request.len(), answer.len()), (MAGIC.len() + ENDPOINT, MAGIC.len() + ENDPOINT + OPENED));
        for len in 0..request.len() {
            assert_eq!(read_request(&request[..len]), None);
        }
        for len in 0..answer.len() {
            assert_eq!(read_answer(&answer[..len]), None);
        }
        assert_eq!(read_request(&answer), None);
        assert_eq!(read_answer(&[answer, vec![0]].concat()), None);
        let mut other = request;
        other[3] = 2;
        assert_eq!(read_request(&other), None);
    }
}
