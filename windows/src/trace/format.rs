//! The layout of a trace in its file; see the [documentation of the module](super).

use std::sync::Arc;

use rmalab_atomics::{Rank, Topology};

use crate::{ElementKind, Op};

pub(super) const MAGIC: [u8; 8] = *b"rmalab\0T";
pub(super) const VERSION: u32 = 3;
/// Bytes of magic and version.
pub(super) const PREFIX: u64 = 12;
/// Bytes of a block ahead of its body.
pub(super) const HEAD: usize = 17;

/// The longest accepted bodies. A header has at most one entry for each rank.
pub(super) const MAX_HEADER: u32 = 64 << 20;
pub(super) const MAX_EVENTS: u32 = 1 << 20;

/// The longest time between two calls: a day.
const MAX_GAP: u64 = 86_400 * 1_000_000_000;
/// The largest number of bytes of one call: a tebibyte.
const MAX_BYTES: u64 = 1 << 40;

/// The header.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) ranks: u32,
    pub(super) rank: u32,
    pub(super) topology: Topology,
    /// The window's name.
    pub(super) window: String,
    /// The flavor of the window, by name.
    pub(super) flavor: String,
    /// Bytes of the rank's part of the window.
    pub(super) bytes: u64,
    /// Bytes of the displacement unit of that part.
    pub(super) unit: u32,
    /// The window's hints.
    pub(super) info: String,
    /// The clock of the times: nanoseconds of a backend's clock.
    pub(super) clock: String,
}

/// The kinds of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Header = b'H' as isize,
    Events = b'E' as isize,
    End = b'Z' as isize,
}

/// The head of a block, ahead of its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) kind: BlockKind,
    pub(super) events: u32,
    pub(super) len: u32,
    pub(super) sum: u32,
}

impl Head {
    /// Makes a whole block.
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
            return Err("the block's head does not have the checksum that it states".to_owned());
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
            Err("the block does not have the checksum that it states".to_owned())
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

/// Takes a varint off the front; `None` if there is no varint of at most 64 bits.
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

/// The kinds of events; the format defines their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    LockAll,
    UnlockAll,
    Shared,
    Exclusive,
    Unlock,
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
    Flush,
    FlushAll,
    Barrier,
    Fence,
    Post,
    Start,
    Complete,
    Wait,
    /// A test that found the epoch open.
    TestOpen,
    /// A test that found the epoch over.
    TestOver,
    Attach,
    Detach,
    BatchBegin,
    BatchEnd,
}

/// The fields that events of a kind have.
#[derive(Clone, Copy, Default)]
struct Fields {
    target: bool,
    group: bool,
    bytes: bool,
    /// The type of the elements and the operation.
    update: bool,
    disp: bool,
    /// The assertions that a call of this kind may have.
    asserts: u8,
}

const NONE: Fields = Fields { target: false, group: false, bytes: false, update: false, disp: false, asserts: 0 };
const TARGET: Fields = Fields { target: true, ..NONE };
const TRANSFER: Fields = Fields { bytes: true, disp: true, ..TARGET };
const UPDATE: Fields = Fields { update: true, ..TRANSFER };

impl Kind {
    const ALL: [Kind; 25] = [
        Kind::LockAll,
        Kind::UnlockAll,
        Kind::Shared,
        Kind::Exclusive,
        Kind::Unlock,
        Kind::Put,
        Kind::Get,
        Kind::Accumulate,
        Kind::GetAccumulate,
        Kind::FetchAndOp,
        Kind::CompareAndSwap,
        Kind::Flush,
        Kind::FlushAll,
        Kind::Barrier,
        Kind::Fence,
        Kind::Post,
        Kind::Start,
        Kind::Complete,
        Kind::Wait,
        Kind::TestOpen,
        Kind::TestOver,
        Kind::Attach,
        Kind::Detach,
        Kind::BatchBegin,
        Kind::BatchEnd,
    ];

    fn fields(self) -> Fields {
        match self {
            Kind::Put | Kind::Get => TRANSFER,
            Kind::Accumulate | Kind::GetAccumulate | Kind::FetchAndOp | Kind::CompareAndSwap => UPDATE,
            Kind::Unlock | Kind::Flush => TARGET,
            Kind::Shared | Kind::Exclusive => Fields { asserts: 1, ..TARGET },
            Kind::LockAll => Fields { asserts: 1, ..NONE },
            Kind::Fence => Fields { asserts: 0b1111, ..NONE },
            Kind::Post => Fields { group: true, asserts: 0b111, ..NONE },
            Kind::Start => Fields { group: true, asserts: 1, ..NONE },
            Kind::Attach => Fields { bytes: true, disp: true, ..NONE },
            Kind::Detach => Fields { disp: true, ..NONE },
            Kind::UnlockAll
            | Kind::FlushAll
            | Kind::Barrier
            | Kind::Complete
            | Kind::Wait
            | Kind::TestOpen
            | Kind::TestOver
            | Kind::BatchBegin
            | Kind::BatchEnd => NONE,
        }
    }

    /// Returns whether the event moves data.
    pub(super) fn is_transfer(self) -> bool {
        let Fields { target, bytes, .. } = self.fields();
        target && bytes
    }
}

/// One call, apart from its group. A field that its kind does not have is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) target: Rank,
    /// The displacement, in units of the target's part of the window.
    pub(crate) disp: i64,
    pub(crate) bytes: u64,
    /// The type of the elements, and the operation; of a compare-and-swap it is replace.
    pub(crate) update: Option<(ElementKind, Op)>,
    /// The assertions, as bits.
    pub(crate) asserts: u8,
}

impl Event {
    pub(crate) fn of(kind: Kind) -> Event {
        Event { kind, target: Rank(0), disp: 0, bytes: 0, update: None, asserts: 0 }
    }

    pub(crate) fn at(self, target: Rank) -> Event {
        Event { target, ..self }
    }

    pub(crate) fn asserting(self, asserts: u8) -> Event {
        Event { asserts, ..self }
    }

    pub(crate) fn moving(self, disp: i64, bytes: u64) -> Event {
        Event { disp, bytes, ..self }
    }
}

const KIND: u8 = 0b1_1111;
/// The target or the group is the same as in the last event that had one.
const SAME_PARTNER: u8 = 1 << 5;
/// The bytes, with the type and the operation of an update, or the assertions are the same as in the last event that
/// had some.
const SAME_AMOUNT: u8 = 1 << 6;
/// The displacement is as far from the previous one as that one was from its own predecessor.
const SAME_STRIDE: u8 = 1 << 7;

/// The last value of each field, to which the events of a block refer.
#[derive(Clone, Debug, Default)]
pub(super) struct Last {
    target: Option<Rank>,
    group: Option<Arc<[Rank]>>,
    bytes: Option<u64>,
    update: Option<(ElementKind, Op)>,
    asserts: u8,
    disp: i64,
    stride: i64,
}

impl Last {
    /// Appends an event that began `gap` nanoseconds after the previous one.
    pub(super) fn encode(&mut self, to: &mut Vec<u8>, event: Event, group: &[Rank], gap: u64) {
        let Event { kind, target, disp, bytes, update, asserts } = event;
        let fields = kind.fields();
        let first = to.len();
        let mut flags = 0;
        to.push(0);
        if fields.target {
            if self.target.replace(target) == Some(target) {
                flags |= SAME_PARTNER;
            } else {
                push_varint(to, u64::from(target.0));
            }
        }
        if fields.group {
            if self.group.as_deref() == Some(group) {
                flags |= SAME_PARTNER;
            } else {
                push_varint(to, group.len() as u64);
                let mut before = 0;
                for rank in group {
                    push_varint(to, zigzag(i64::from(rank.0) - before));
                    before = i64::from(rank.0);
                }
                self.group = Some(group.into());
            }
        }
        if fields.bytes {
            let same = self.bytes.replace(bytes) == Some(bytes);
            match update {
                _ if same && (update.is_none() || update == self.update) => flags |= SAME_AMOUNT,
                None => push_varint(to, bytes),
                Some((element, op)) => {
                    push_varint(to, bytes);
                    to.extend([element.code(), op.code()]);
                }
            }
            self.update = update.or(self.update);
        }
        if fields.asserts != 0 {
            if std::mem::replace(&mut self.asserts, asserts) == asserts {
                flags |= SAME_AMOUNT;
            } else {
                to.push(asserts);
            }
        }
        if fields.disp {
            let stride = disp.wrapping_sub(self.disp);
            if std::mem::replace(&mut self.stride, stride) == stride {
                flags |= SAME_STRIDE;
            } else {
                push_varint(to, zigzag(stride));
            }
            self.disp = disp;
        }
        to[first] = kind as u8 | flags;
        push_varint(to, gap);
    }

    /// Takes an event off the front, and the nanoseconds since the previous one. [`group`](Self::group) returns its
    /// group.
    pub(super) fn decode(&mut self, from: &mut &[u8], ranks: u32) -> Result<(Event, u64), String> {
        const SHORT: &str = "the block ends within an event, or a number has more than 64 bits";
        const FIRST: &str = "the first event with a target, group or bytes refers to an earlier one";
        let (&first, rest) = from.split_first().ok_or(SHORT)?;
        *from = rest;
        let flags = first & !KIND;
        let known = Kind::ALL.get(usize::from(first & KIND)).map(|&kind| (kind, kind.fields()));
        let Some((kind, fields)) = known.filter(|(_, fields)| {
            let flag = |has: bool, flag: u8| if has { flag } else { 0 };
            let may = flag(fields.target || fields.group, SAME_PARTNER)
                | flag(fields.bytes || fields.asserts != 0, SAME_AMOUNT)
                | flag(fields.disp, SAME_STRIDE);
            flags & !may == 0
        }) else {
            return Err(format!("an event of unknown kind {first:#04x}"));
        };
        let mut event = Event::of(kind);
        if fields.target {
            if flags & SAME_PARTNER == 0 {
                let target = take_varint(from).ok_or(SHORT)?;
                let known = u32::try_from(target).ok().filter(|&target| target < ranks);
                let known = known.ok_or_else(|| format!("target {target}, but there are {ranks} ranks"))?;
                self.target = Some(Rank(known));
            }
            event.target = self.target.ok_or(FIRST)?;
        }
        if fields.group {
            if flags & SAME_PARTNER == 0 {
                self.group = Some(take_group(from, ranks)?.ok_or(SHORT)?);
            } else if self.group.is_none() {
                return Err(FIRST.to_owned());
            }
        }
        if fields.bytes {
            if flags & SAME_AMOUNT == 0 {
                self.bytes = Some(take_varint(from).ok_or(SHORT)?);
                if fields.update {
                    self.update = Some(take_update(from)?.ok_or(SHORT)?);
                }
            }
            event.bytes = self.bytes.ok_or(FIRST)?;
            if fields.update {
                let update = self.update.ok_or(FIRST)?;
                check_update(kind, update, event.bytes)?;
                event.update = Some(update);
            }
        }
        if fields.asserts != 0 {
            if flags & SAME_AMOUNT == 0 {
                let (&asserts, rest) = from.split_first().ok_or(SHORT)?;
                *from = rest;
                self.asserts = asserts;
            }
            event.asserts = self.asserts;
            if event.asserts & !fields.asserts != 0 {
                return Err(format!("assertions {:#04x}, which the call does not have", event.asserts));
            }
        }
        if fields.disp {
            if flags & SAME_STRIDE == 0 {
                self.stride = unzigzag(take_varint(from).ok_or(SHORT)?);
            }
            self.disp = self.disp.wrapping_add(self.stride);
            event.disp = self.disp;
        }
        let gap = take_varint(from).ok_or(SHORT)?;
        if gap > MAX_GAP {
            return Err(format!("{gap} ns between two calls, more than a day"));
        }
        if event.bytes > MAX_BYTES {
            return Err(format!("a transfer of {} bytes, more than 1 TiB", event.bytes));
        }
        Ok((event, gap))
    }

    /// Returns the group of the last event that had one.
    pub(super) fn group(&self) -> Arc<[Rank]> {
        self.group.clone().unwrap_or_default()
    }
}

/// Takes an element type and an operation off the front. `None` if the bytes end before that.
fn take_update(from: &mut &[u8]) -> Result<Option<(ElementKind, Op)>, String> {
    let Some((&[element, op], rest)) = from.split_first_chunk() else { return Ok(None) };
    *from = rest;
    let element =
        ElementKind::from_code(element).ok_or_else(|| format!("{element} is not a code of an element type"))?;
    let op = Op::from_code(op).ok_or_else(|| format!("{op} is not a code of an operation"))?;
    Ok(Some((element, op)))
}

/// Checks that a call of this kind can make an update of this many bytes.
fn check_update(kind: Kind, (element, op): (ElementKind, Op), bytes: u64) -> Result<(), String> {
    if !op.is_defined_for(element) {
        return Err(format!("{op} is not defined for elements of type {element}"));
    }
    let fits = match kind {
        Kind::FetchAndOp | Kind::CompareAndSwap => bytes == element.size(),
        _ => bytes.is_multiple_of(element.size()),
    };
    if !fits {
        return Err(format!("an update of {bytes} bytes, but an element of type {element} has {}", element.size()));
    }
    if kind == Kind::CompareAndSwap && !(element.is_swappable() && op == Op::Replace) {
        return Err(format!("a compare_and_swap of an element of type {element} by {op}"));
    }
    Ok(())
}

/// Takes the ranks of a group off the front. `None` if the bytes end before the group does.
fn take_group(from: &mut &[u8], ranks: u32) -> Result<Option<Arc<[Rank]>>, String> {
    let Some(count) = take_varint(from) else { return Ok(None) };
    if count > u64::from(ranks) {
        return Err(format!("a group of {count}, but there are {ranks} ranks"));
    }
    let mut group = Vec::new();
    let mut before = 0i64;
    for _ in 0..count {
        let Some(step) = take_varint(from) else { return Ok(None) };
        before = before.wrapping_add(unzigzag(step));
        let known = u32::try_from(before).ok().filter(|&rank| rank < ranks);
        group.push(Rank(known.ok_or_else(|| format!("rank {before} in a group, but there are {ranks} ranks"))?));
    }
    let mut sorted = group.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("{} twice in a group", twice[0])),
        None => Ok(Some(group.into())),
    }
}

/// Converts a signed number to an unsigned one, which is small if the number is near 0.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_back() {
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
    fn signed_numbers_are_read_back() {
        for value in [0, -1, 1, 63, -64, i64::from(u32::MAX), i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    const UPDATES: [(ElementKind, Op); 2] = [(ElementKind::I64, Op::Replace), (ElementKind::F64, Op::Max)];

    const GROUPS: [&[Rank]; 4] = [&[Rank(3), Rank(0)], &[Rank(3), Rank(0)], &[], &[Rank(1)]];

    #[test]
    fn events_are_read_back() {
        let mut events = Vec::new();
        for kind in Kind::ALL {
            let fields = kind.fields();
            let one = matches!(kind, Kind::FetchAndOp | Kind::CompareAndSwap);
            let (some, none) = if one { (8, 8) } else { (4096, 0) };
            let moves = [(3, 8, 0), (3, 8, 16), (0, some, 32), (3, none, i64::MIN), (3, none, i64::MAX)];
            for (at, (target, bytes, disp)) in moves.into_iter().enumerate() {
                let event = Event {
                    kind,
                    target: if fields.target { Rank(target) } else { Rank(0) },
                    bytes: if fields.bytes { bytes } else { 0 },
                    disp: if fields.disp { disp } else { 0 },
                    update: fields.update.then(|| UPDATES[if kind == Kind::CompareAndSwap { 0 } else { at % 2 }]),
                    asserts: at as u8 & fields.asserts,
                };
                events.push((event, GROUPS[at % GROUPS.len()], u64::from(target) * 1000));
            }
        }
        let (mut bytes, mut last) = (Vec::new(), Last::default());
        for &(event, group, gap) in &events {
            last.encode(&mut bytes, event, group, gap);
        }
        let (mut left, mut last) = (&bytes[..], Last::default());
        for &(event, group, gap) in &events {
            assert_eq!(last.decode(&mut left, 4), Ok((event, gap)));
            if event.kind.fields().group {
                assert_eq!(&*last.group(), group);
            }
        }
        assert!(left.is_empty());
    }

    /// Puts of one size to one target take two bytes each, at one displacement or at equal distances. So do updates of one
    /// type by one operation.
    #[test]
    fn fields_that_follow_from_the_last_event_are_omitted() {
        for (kind, update) in [(Kind::Put, None), (Kind::Accumulate, Some(UPDATES[1]))] {
            for stride in [0, 8, -1_000_000] {
                let (mut bytes, mut last) = (Vec::new(), Last::default());
                for i in 0..100 {
                    let event = Event::of(kind).at(Rank(3)).moving((1 << 20) + i * stride, 8);
                    last.encode(&mut bytes, Event { update, ..event }, &[], 100);
                }
                assert!(bytes.len() < 220, "{stride}: {} bytes", bytes.len());
            }
        }
    }

    /// A put repeats the bytes of the put before, and an update repeats the update before.
    #[test]
    fn updates_between_puts_are_read_back() {
        let put = Event::of(Kind::Put).at(Rank(1)).moving(0, 16);
        let update =
            |update, bytes| Event { update: Some(update), ..Event::of(Kind::Accumulate).at(Rank(1)).moving(0, bytes) };
        let [one, other] = UPDATES;
        let events =
            [put, update(one, 16), put, update(one, 16), update(other, 16), put, update(one, 16), update(one, 8)];
        let (mut bytes, mut last) = (Vec::new(), Last::default());
        events.iter().for_each(|&event| last.encode(&mut bytes, event, &[], 0));
        let (mut left, mut last) = (&bytes[..], Last::default());
        for event in events {
            assert_eq!(last.decode(&mut left, 2), Ok((event, 0)));
        }
    }

    const U64: u8 = ElementKind::U64.code();

    #[test]
    fn impossible_events_are_refused() {
        let bad: [(&[u8], &str); 21] = [
            (&[], "ends within an event"),
            (&[0x19, 0], "unknown kind 0x19"),
            (&[0x20, 0], "unknown kind 0x20"),
            (&[0x84, 1, 0], "unknown kind 0x84"),
            (&[0x05, 4, 1, 0, 0], "target 4, but there are 4 ranks"),
            (&[0x25, 1, 0, 0], "the first event with a target, group or bytes refers"),
            (&[0x2f, 1, 0], "the first event with a target, group or bytes refers"),
            (&[0x0f, 5, 0, 0], "a group of 5, but there are 4 ranks"),
            (&[0x0f, 1, 8, 0, 0], "rank 4 in a group, but there are 4 ranks"),
            (&[0x0f, 2, 2, 0, 0, 0], "rank 1 twice in a group"),
            (&[0x00, 2, 0], "assertions 0x02, which the call does not have"),
            (&[0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "more than a day"),
            (&[0x05, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0], "more than 1 TiB"),
            (&[0x07, 1, 8], "ends within an event"),
            (&[0x07, 1, 8, 7], "ends within an event"),
            (&[0x07, 1, 8, 200, 0, 0, 0], "200 is not a code of an element type"),
            (&[0x07, 1, 8, 7, 200, 0, 0], "200 is not a code of an operation"),
            (&[0x07, 1, 7, U64, Op::Sum as u8, 0, 0], "an update of 7 bytes, but an element of type u64 has 8"),
            (&[0x09, 1, 16, U64, Op::Sum as u8, 0, 0], "an update of 16 bytes, but an element of type u64 has 8"),
            (&[0x07, 1, 8, U64, Op::MinLoc as u8, 0, 0], "minloc is not defined for elements of type u64"),
            (&[0x0a, 1, 8, U64, Op::Sum as u8, 0, 0], "a compare_and_swap of an element of type u64 by sum"),
        ];
        for (bytes, what) in bad {
            let error = Last::default().decode(&mut &bytes[..], 4).unwrap_err();
            assert!(error.contains(what), "{bytes:?}: {error}");
        }
    }
}
