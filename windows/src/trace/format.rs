//! How a trace is laid out in its file; see the [module's text](super).

use rmalab_atomics::{Rank, Topology};
use rmalab_locks::LockKind;

use crate::replay::Step;

pub(super) const MAGIC: [u8; 8] = *b"rmalab\0T";
pub(super) const VERSION: u32 = 1;
/// Bytes of magic and version.
pub(super) const PREFIX: u64 = 12;
/// Bytes of a block before its body.
pub(super) const HEAD: usize = 17;

/// The longest bodies that are believed: a header has an entry for each rank at the most.
pub(super) const MAX_HEADER: u32 = 64 << 20;
pub(super) const MAX_EVENTS: u32 = 1 << 20;

/// What no program does between two calls (a day), and in one (a tebibyte).
const MAX_GAP: u64 = 86_400 * 1_000_000_000;
const MAX_BYTES: u64 = 1 << 40;

/// What the header says.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) ranks: u32,
    pub(super) rank: u32,
    pub(super) topology: Topology,
    /// The window's name.
    pub(super) window: String,
    /// The window's hints.
    pub(super) info: String,
    /// What the times were measured with: nanoseconds of a backend's clock.
    pub(super) clock: String,
}

/// The kinds of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Header = b'H' as isize,
    Events = b'E' as isize,
    End = b'Z' as isize,
}

/// What stands before a block's body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) kind: BlockKind,
    pub(super) events: u32,
    pub(super) len: u32,
    pub(super) sum: u32,
}

impl Head {
    /// A block, complete.
    pub(super) fn block(kind: BlockKind, events: u32, body: &[u8]) -> Vec<u8> {
        let mut block = Vec::with_capacity(HEAD + body.len());
        block.push(kind as u8);
        block.extend(events.to_le_bytes());
        block.extend((body.len() as u32).to_le_bytes());
        block.extend(crc32fast::hash(body).to_le_bytes());
        block.extend(crc32fast::hash(&block).to_le_bytes());
        block.extend(body);
        block
    }

    /// Reads a head.
    pub(super) fn parse(bytes: &[u8; HEAD]) -> Result<Head, String> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if crc32fast::hash(&bytes[..HEAD - 4]) != word(HEAD - 4) {
            return Err("the block's head has another checksum than it says".to_owned());
        }
        let kind = match bytes[0] {
            b'H' => BlockKind::Header,
            b'E' => BlockKind::Events,
            b'Z' => BlockKind::End,
            other => return Err(format!("a block of unknown kind {other:#04x}")),
        };
        let (events, len, sum) = (word(1), word(5), word(9));
        let most = if kind == BlockKind::Header { MAX_HEADER } else { MAX_EVENTS };
        if len > most {
            return Err(format!("a block of {len} bytes, more than the {most} that its kind may have"));
        }
        Ok(Head { kind, events, len, sum })
    }

    /// Checks the body.
    pub(super) fn check(&self, body: &[u8]) -> Result<(), String> {
        if crc32fast::hash(body) == self.sum {
            Ok(())
        } else {
            Err("the block has another checksum than it says".to_owned())
        }
    }
}

/// Appends `value` as a varint.
pub(super) fn push_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Takes a varint off the front; `None` if there is none of at most 64 bits.
pub(super) fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The kinds of events; their numbers are the format's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    LockAll,
    UnlockAll,
    Shared,
    Exclusive,
    Unlock,
    Put,
    Get,
    Update,
    Flush,
    FlushAll,
    Barrier,
    Pscw,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::LockAll,
        Kind::UnlockAll,
        Kind::Shared,
        Kind::Exclusive,
        Kind::Unlock,
        Kind::Put,
        Kind::Get,
        Kind::Update,
        Kind::Flush,
        Kind::FlushAll,
        Kind::Barrier,
        Kind::Pscw,
    ];

    fn has_target(self) -> bool {
        use Kind::{Exclusive, Flush, Get, Put, Shared, Unlock, Update};
        matches!(self, Shared | Exclusive | Unlock | Put | Get | Update | Flush)
    }

    fn has_bytes(self) -> bool {
        matches!(self, Kind::Put | Kind::Get | Kind::Update)
    }
}

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// 0 where the kind has none.
    pub(crate) target: Rank,
    /// 0 where the kind has none.
    pub(crate) bytes: u64,
}

impl Event {
    /// The step that does the same; a replay has none for post, start, complete and wait.
    pub(super) fn step(self) -> Option<Step> {
        let Event { kind, target, bytes } = self;
        Some(match kind {
            Kind::LockAll => Step::LockAll,
            Kind::UnlockAll => Step::UnlockAll,
            Kind::Shared => Step::Lock { kind: LockKind::Shared, target },
            Kind::Exclusive => Step::Lock { kind: LockKind::Exclusive, target },
            Kind::Unlock => Step::Unlock { target },
            Kind::Put => Step::Put { target, bytes },
            Kind::Get => Step::Get { target, bytes },
            Kind::Update => Step::Update { target, bytes },
            Kind::Flush => Step::Flush { target },
            Kind::FlushAll => Step::FlushAll,
            Kind::Barrier => Step::Barrier,
            Kind::Pscw => return None,
        })
    }
}

const SAME_TARGET: u8 = 1 << 4;
const SAME_BYTES: u8 = 1 << 5;

/// What the events of a block are written against: the last target and the last bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    target: Option<Rank>,
    bytes: Option<u64>,
}

impl Last {
    /// Appends an event that came `gap` nanoseconds after the one before.
    pub(super) fn encode(&mut self, to: &mut Vec<u8>, event: Event, gap: u64) {
        let Event { kind, target, bytes } = event;
        let target = kind.has_target().then_some(target).filter(|&target| self.target.replace(target) != Some(target));
        let bytes = kind.has_bytes().then_some(bytes).filter(|&bytes| self.bytes.replace(bytes) != Some(bytes));
        let same = |has: bool, written: bool, flag: u8| if has && !written { flag } else { 0 };
        to.push(
            kind as u8
                | same(kind.has_target(), target.is_some(), SAME_TARGET)
                | same(kind.has_bytes(), bytes.is_some(), SAME_BYTES),
        );
        if let Some(target) = target {
            push_varint(to, u64::from(target.0));
        }
        if let Some(bytes) = bytes {
            push_varint(to, bytes);
        }
        push_varint(to, gap);
    }

    /// Takes an event off the front, and the nanoseconds since the one before.
    pub(super) fn decode(&mut self, from: &mut &[u8], ranks: u32) -> Result<(Event, u64), String> {
        const SHORT: &str = "the block ends within an event, or a number has more than 64 bits";
        let (&first, rest) = from.split_first().ok_or(SHORT)?;
        *from = rest;
        let kind = Kind::ALL.get(usize::from(first & 0xf)).copied();
        let flags = first & 0xf0;
        let Some(kind) = kind.filter(|kind| {
            let may = same_flag(kind.has_target(), SAME_TARGET) | same_flag(kind.has_bytes(), SAME_BYTES);
            flags & !may == 0
        }) else {
            return Err(format!("an event of unknown kind {first:#04x}"));
        };
        if kind.has_target() && flags & SAME_TARGET == 0 {
            let target = take_varint(from).ok_or(SHORT)?;
            let known = u32::try_from(target).ok().filter(|&target| target < ranks);
            self.target = Some(Rank(known.ok_or_else(|| format!("target {target}, where there are {ranks} ranks"))?));
        }
        if kind.has_bytes() && flags & SAME_BYTES == 0 {
            self.bytes = Some(take_varint(from).ok_or(SHORT)?);
        }
        let gap = take_varint(from).ok_or(SHORT)?;
        const FIRST: &str = "the same target or bytes as before, in the first event that has some";
        let target = if kind.has_target() { self.target.ok_or(FIRST)? } else { Rank(0) };
        let bytes = if kind.has_bytes() { self.bytes.ok_or(FIRST)? } else { 0 };
        if gap > MAX_GAP {
            return Err(format!("{gap} ns between two calls, more than a day"));
        }
        if bytes > MAX_BYTES {
            return Err(format!("a transfer of {bytes} bytes, more than 1 TiB"));
        }
        Ok((Event { kind, target, bytes }, gap))
    }
}

const fn same_flag(has: bool, flag: u8) -> u8 {
    if has { flag } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_they_are_written() {
        for value in [0, 1, 0x7f, 0x80, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            let mut left = &bytes[..];
            assert_eq!((take_varint(&mut left), left.len()), (Some(value), 0));
            assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), None, "{value}");
        }
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(take_varint(&mut &too_large[..]), None);
        assert_eq!(take_varint(&mut &[0x80; 11][..]), None);
    }

    #[test]
    fn events_are_read_as_they_are_written() {
        let mut events = Vec::new();
        for kind in Kind::ALL {
            for (target, bytes) in [(3, 8), (3, 8), (0, 4096), (3, 0)] {
                let target = if kind.has_target() { Rank(target) } else { Rank(0) };
                let bytes = if kind.has_bytes() { bytes } else { 0 };
                events.push((Event { kind, target, bytes }, u64::from(target.0) * 1000));
            }
        }
        let (mut bytes, mut last) = (Vec::new(), Last::default());
        for &(event, gap) in &events {
            last.encode(&mut bytes, event, gap);
        }
        let (mut left, mut last) = (&bytes[..], Last::default());
        for &event in &events {
            assert_eq!(last.decode(&mut left, 4), Ok(event));
        }
        assert!(left.is_empty());
    }

    #[test]
    fn events_that_cannot_be_are_refused() {
        let bad: [(&[u8], &str); 8] = [
            (&[], "ends within an event"),
            (&[0x0c, 0], "unknown kind 0x0c"),
            (&[0x10, 0], "unknown kind 0x10"),
            (&[0x45, 1, 1, 0], "unknown kind 0x45"),
            (&[0x05, 4, 1, 0], "target 4, where there are 4 ranks"),
            (&[0x15, 1, 0], "the same target or bytes as before"),
            (&[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "more than a day"),
            (&[0x05, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0], "more than 1 TiB"),
        ];
        for (bytes, what) in bad {
            let error = Last::default().decode(&mut &bytes[..], 4).unwrap_err();
            assert!(error.contains(what), "{bytes:?}: {error}");
        }
    }
}
