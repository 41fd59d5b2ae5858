//! Random programs as data, which proptest generates, and the plans made from them.
//!
//! A [`Raw`] program is only numbers, taken modulo the valid ranges. So every program is valid, and a smaller one is
//! simpler. [`plan`] makes the steps of each rank from it. It keeps a ledger of the accesses to every byte of every window
//! in the phase, and leaves out operations that the standard leaves undefined. There are two marked exceptions. The results
//! of puts by several ranks to the same bytes are undefined until they are written again, and gets of such bytes are not
//! compared. Where a rank's own operations need a flush between them, the plan has one.

use proptest::collection::vec;
use proptest::prelude::*;
use rmalab_windows::{
    AccumulateStrategy, Config, ElementKind, FenceStrategy, Flavor, Layout, LockKind, Op, PolicyKind, PscwStrategy,
    Transport, layout::Order,
};

/// The largest number of windows of a program.
const WINDOWS: usize = 3;

/// The largest number of updates of one element by several ranks in a phase, so that the search for an order ends soon.
const UPDATES: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Raw {
    windows: Vec<(u8, [u8; 4], u8, u8, u16, u8)>,
    phases: Vec<RawPhase>,
}

#[derive(Clone, Debug)]
struct RawPhase {
    syncs: [u8; WINDOWS],
    groups: u64,
    flags: u16,
    stores: Vec<(u8, u8, u16, u8, u32)>,
    rounds: Vec<Vec<RawSection>>,
    storm: (u8, u8, u8, u16, u8, u8),
}

#[derive(Clone, Debug)]
struct RawSection {
    rank: u8,
    modes: [u8; WINDOWS],
    sets: u16,
    end: u8,
    ops: Vec<RawOp>,
}

#[derive(Clone, Debug)]
struct RawOp {
    what: u8,
    window: u8,
    target: u8,
    kind: u8,
    op: u8,
    at: u16,
    n: u8,
    here: u16,
    there: u16,
    salt: u32,
    flags: u8,
}

pub(crate) fn raw() -> impl Strategy<Value = Raw> {
    let op = any::<(u8, u8, u8, u8, u8, u16, u8, u16, u16, (u32, u8))>().prop_map(
        |(what, window, target, kind, op, at, n, here, there, (salt, flags))| RawOp {
            what,
            window,
            target,
            kind,
            op,
            at,
            n,
            here,
            there,
            salt,
            flags,
        },
    );
    let section = (any::<(u8, [u8; WINDOWS], u16, u8)>(), vec(op, 1..7))
        .prop_map(|((rank, modes, sets, end), ops)| RawSection { rank, modes, sets, end, ops });
    let phase = (
        any::<([u8; WINDOWS], u64, u16)>(),
        vec(any::<(u8, u8, u16, u8, u32)>(), 0..3),
        vec(vec(section, 0..8), 1..4),
        any::<(u8, u8, u8, u16, u8, u8)>(),
    )
        .prop_map(|((syncs, groups, flags), stores, rounds, storm)| RawPhase {
            syncs,
            groups,
            flags,
            stores,
            rounds,
            storm,
        });
    (vec(any::<(u8, [u8; 4], u8, u8, u16, u8)>(), 1..=WINDOWS), vec(phase, 1..4))
        .prop_map(|(windows, phases)| Raw { windows, phases })
}

/// The windows of a program, and the steps of all ranks.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) ranks: u32,
    pub(crate) windows: Vec<WindowPlan>,
    pub(crate) phases: Vec<Phase>,
}

#[derive(Debug)]
pub(crate) struct WindowPlan {
    pub(crate) flavor: Flavor,
    /// True if a dynamic window gets memory of the program instead of another window's memory.
    pub(crate) attach_own: bool,
    /// The size of the touching regions in which that memory is attached; `None` for one region.
    pub(crate) pieces: Option<usize>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) units: Vec<u32>,
    pub(crate) config: Config,
    kind: ElementKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    Fence,
    Pscw,
    Passive,
}

#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) syncs: Vec<Sync>,
    /// Local stores before everything else: (rank, window, offset, length, salt).
    pub(crate) stores: Vec<(u32, usize, usize, usize, u32)>,
    /// True if a barrier separates the stores from the operations.
    pub(crate) barrier: bool,
    /// True if the first fence asserts that nothing precedes it.
    pub(crate) noprecede: bool,
    /// True if posts and starts assert nocheck.
    pub(crate) nocheck: bool,
    /// True if an extra, empty fence epoch follows each round.
    pub(crate) extra: bool,
    /// True if exposures end by tests.
    pub(crate) test: bool,
    pub(crate) rounds: Vec<Round>,
    /// Elements that several ranks update.
    pub(crate) contended: Vec<Contended>,
    /// The integer that all ranks count up at the start of the first round.
    pub(crate) storm: Option<Storm>,
    /// Bytes whose values are not determined after the phase.
    pub(crate) racy: Vec<(usize, u32, usize)>,
}

#[derive(Debug)]
pub(crate) struct Round {
    /// The targets of each rank's start: by window, then by rank; empty without PSCW.
    pub(crate) starts: Vec<Vec<Vec<u32>>>,
    pub(crate) sections: Vec<Vec<Section>>,
    /// Which parts are targets of puts or accumulates, by window and rank.
    pub(crate) written: Vec<Vec<bool>>,
}

#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) locks: Vec<Locks>,
    pub(crate) steps: Vec<Step>,
    /// The way to release the locks.
    pub(crate) end: u8,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Locks {
    None,
    All { nocheck: bool },
    Some(Vec<(u32, LockKind, bool)>),
}

#[derive(Debug)]
pub(crate) enum Step {
    Act(Act),
    /// Waits for requests, and flushes the target.
    Settle {
        window: usize,
        target: u32,
    },
    Storm(Storm),
    /// A call that changes nothing: flush, flush_local, sync, by number.
    Other {
        window: usize,
        target: u32,
        which: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Put,
    Get,
    PutValue,
    GetValue,
    PutLayout,
    GetLayout,
    Accumulate,
    AccumulateLayout,
    GetAccumulate,
    GetAccumulateLayout,
    FetchAndOp,
    CompareAndSwap,
    Rput,
    Rget,
    RputLayout,
    RgetLayout,
    Raccumulate,
    RgetAccumulate,
    Batch,
    /// Get, combine, put and flush by a rank that holds the target exclusively.
    ReadModifyWrite,
}

/// The effect of a call on a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Get,
    Rget,
    Put,
    Update,
    Rmw,
}

impl Call {
    /// All calls; frequent calls appear more than once.
    pub(crate) const OFTEN: [Call; 32] = [
        Call::Put,
        Call::Get,
        Call::Put,
        Call::Get,
        Call::PutValue,
        Call::GetValue,
        Call::PutLayout,
        Call::GetLayout,
        Call::PutLayout,
        Call::GetLayout,
        Call::Accumulate,
        Call::Accumulate,
        Call::AccumulateLayout,
        Call::AccumulateLayout,
        Call::GetAccumulate,
        Call::GetAccumulate,
        Call::GetAccumulateLayout,
        Call::FetchAndOp,
        Call::FetchAndOp,
        Call::FetchAndOp,
        Call::CompareAndSwap,
        Call::CompareAndSwap,
        Call::Rput,
        Call::Rget,
        Call::RputLayout,
        Call::RgetLayout,
        Call::Raccumulate,
        Call::RgetAccumulate,
        Call::Batch,
        Call::Batch,
        Call::ReadModifyWrite,
        Call::ReadModifyWrite,
    ];

    fn usage(self) -> Use {
        match self {
            Call::Put | Call::PutValue | Call::PutLayout | Call::Rput | Call::RputLayout | Call::Batch => Use::Put,
            Call::Get | Call::GetValue | Call::GetLayout => Use::Get,
            Call::Rget | Call::RgetLayout => Use::Rget,
            Call::ReadModifyWrite => Use::Rmw,
            _ => Use::Update,
        }
    }

    /// Returns whether the origin reads the target's bytes.
    pub(crate) fn fetches(self) -> bool {
        match self.usage() {
            Use::Get | Use::Rget | Use::Rmw => true,
            Use::Put => false,
            Use::Update => !matches!(self, Call::Accumulate | Call::AccumulateLayout | Call::Raccumulate),
        }
    }

    /// Returns whether the call changes the target.
    pub(crate) fn writes(self) -> bool {
        !matches!(self.usage(), Use::Get | Use::Rget)
    }

    pub(crate) fn updates(self) -> bool {
        matches!(self.usage(), Use::Update | Use::Rmw)
    }

    pub(crate) fn is_passive(self) -> bool {
        matches!(
            self,
            Call::Rput
                | Call::Rget
                | Call::RputLayout
                | Call::RgetLayout
                | Call::Raccumulate
                | Call::RgetAccumulate
                | Call::Batch
                | Call::ReadModifyWrite
        )
    }

    fn has_layout(self) -> bool {
        matches!(
            self,
            Call::PutLayout
                | Call::GetLayout
                | Call::AccumulateLayout
                | Call::GetAccumulateLayout
                | Call::RputLayout
                | Call::RgetLayout
        )
    }

    fn is_single(self) -> bool {
        matches!(
            self,
            Call::PutValue | Call::GetValue | Call::FetchAndOp | Call::CompareAndSwap | Call::ReadModifyWrite
        )
    }
}

/// One call, for the rank that makes it, and for the models of all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    /// Its number among the acts of its rank in the phase.
    pub(crate) id: usize,
    pub(crate) window: usize,
    /// The target; `None` is the null target.
    pub(crate) target: Option<u32>,
    pub(crate) call: Call,
    pub(crate) kind: ElementKind,
    pub(crate) op: Op,
    /// In the target's units.
    pub(crate) disp: i64,
    /// The offset in the target's part, in bytes.
    pub(crate) base: i64,
    /// The number of elements.
    pub(crate) n: usize,
    pub(crate) here: Shape,
    pub(crate) there: Shape,
    pub(crate) results: Shape,
    pub(crate) salt: u32,
    /// True if the fetched values are not determined.
    pub(crate) masked: bool,
    /// True if the call reaches outside of the window, and must be refused.
    pub(crate) refused: bool,
    /// The target's bytes of the other part of a batch, a get.
    pub(crate) also: Option<(i64, i64, usize)>,
}

impl Act {
    /// Bytes of an element.
    pub(crate) fn size(&self) -> usize {
        self.kind.size() as usize
    }

    /// Returns the offset of each element in the target's part.
    pub(crate) fn places(&self) -> Vec<i64> {
        self.there.offsets(self.n, self.size()).into_iter().map(|offset| self.base + offset).collect()
    }

    /// Returns the origin's value for element `i`.
    pub(crate) fn value(&self, i: usize) -> Vec<u8> {
        element(self.kind, self.salt, i as u32)
    }

    /// Returns the expected element of compare-and-swap.
    pub(crate) fn expected(&self) -> Vec<u8> {
        element(self.kind, self.salt & !1 | 1, 7)
    }

    /// Returns the buffer with the origin's elements.
    pub(crate) fn source(&self) -> Vec<u8> {
        let size = self.size();
        let mut buffer = vec![0xee; self.here.bytes(self.n, size)];
        for (i, at) in self.here.offsets(self.n, size).into_iter().enumerate() {
            buffer[at as usize..at as usize + size].copy_from_slice(&self.value(i));
        }
        buffer
    }

    /// Returns the shape of the fetched elements in their buffer.
    pub(crate) fn fetched(&self) -> Shape {
        if self.call == Call::GetAccumulateLayout { self.results } else { self.here }
    }

    /// Returns the buffer for the fetched elements, before the fetch.
    pub(crate) fn blank(&self) -> Vec<u8> {
        vec![0xc3; self.fetched().bytes(self.n, self.size())]
    }
}

/// Returns the bytes of an element for `salt` and `i`: half of the values are small numbers, so that values repeat.
pub(crate) fn element(kind: ElementKind, salt: u32, i: u32) -> Vec<u8> {
    let mut bits = (u64::from(salt) << 32 | u64::from(i)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 32;
    let small = bits % 4;
    let is_small = salt & 1 == 1;
    let number = if is_small { small } else { bits };
    let field = |size: usize, number: u64| match size {
        1 => (number as u8).to_ne_bytes().to_vec(),
        2 => (number as u16).to_ne_bytes().to_vec(),
        4 => (number as u32).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    };
    let size = kind.size() as usize;
    match kind {
        ElementKind::F32 => ((number % 1000) as f32 / 8.0).to_ne_bytes().to_vec(),
        ElementKind::F64 => ((number % 1000) as f64 / 8.0).to_ne_bytes().to_vec(),
        ElementKind::PairF32I32 => [((number % 8) as f32).to_ne_bytes().to_vec(), field(4, number >> 8)].concat(),
        ElementKind::PairF64I64 => [((number % 8) as f64).to_ne_bytes().to_vec(), field(8, number >> 8)].concat(),
        ElementKind::DoubleInt => {
            [((number % 8) as f64).to_ne_bytes().to_vec(), field(4, number >> 8), vec![0; 4]].concat()
        }
        ElementKind::LongInt => [field(8, small), field(4, bits >> 40), vec![0; 4]].concat(),
        ElementKind::ShortInt => [field(2, small), vec![0; 2], field(4, bits >> 40)].concat(),
        ElementKind::ComplexF32 => {
            [number, number >> 8].map(|part| ((part % 1000) as f32 / 8.0).to_ne_bytes()).concat()
        }
        ElementKind::ComplexF64 => {
            [number, number >> 8].map(|part| ((part % 1000) as f64 / 8.0).to_ne_bytes()).concat()
        }
        _ if kind.is_pair() => [field(size / 2, small), field(size / 2, bits >> 40)].concat(),
        _ => field(size, number),
    }
}

/// The placement of elements, at either end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Plain,
    /// One vector: blocks, and elements between them.
    Vector {
        block: usize,
        gap: usize,
    },
    /// A vector from its end to its start; at the target only.
    Backwards {
        block: usize,
        gap: usize,
    },
    /// Items of a resized block.
    Items {
        block: usize,
        gap: usize,
    },
    /// Two blocks of elements, the first one after the second one if `swap`.
    Indexed {
        cut: usize,
        gap: usize,
        swap: bool,
    },
    /// A box in an array.
    Sub {
        block: usize,
        left: usize,
        right: usize,
        above: usize,
        fortran: bool,
    },
    /// Like `Indexed`, with a gap in bytes.
    Struct {
        cut: usize,
        gap: usize,
        swap: bool,
    },
}

impl Shape {
    fn of(raw: u16, is_target: bool) -> Shape {
        let number = |shift: u32, bound: u16| usize::from((raw >> shift) % bound);
        let (block, gap, swap) = (1 + number(3, 4), number(5, 4), raw & 128 != 0);
        match raw % 8 {
            0 => Shape::Plain,
            1 => Shape::Vector { block, gap },
            2 if is_target => Shape::Backwards { block, gap },
            2 | 3 => Shape::Items { block, gap },
            4 | 5 => Shape::Indexed { cut: number(8, 5), gap, swap },
            6 => Shape::Sub { block, left: number(8, 3), right: gap, above: number(10, 2), fortran: swap },
            _ => Shape::Struct { cut: number(8, 5), gap: number(10, 7), swap },
        }
    }

    /// Returns a block length that divides `n`.
    fn block(block: usize, n: usize) -> usize {
        if n.is_multiple_of(block) { block } else { n.max(1) }
    }

    /// Returns the offset of each of `n` elements of `size` bytes.
    pub(crate) fn offsets(self, n: usize, size: usize) -> Vec<i64> {
        let at = |i: usize| -> i64 {
            let (i, size) = (i as i64, size as i64);
            let strided = |block: usize, stride: i64| {
                let block = Shape::block(block, n) as i64;
                (i / block, i % block, block + stride)
            };
            let halves = |cut: usize, swap: bool| {
                let cut = cut.min(n) as i64;
                let (first, second) = if swap { (n as i64 - cut, 0) } else { (0, cut) };
                // The index of the element without the gap, and whether the gap lies ahead of it.
                if i < cut { (first + i, swap) } else { (second + i - cut, !swap) }
            };
            match self {
                Shape::Plain => i * size,
                Shape::Vector { block, gap } | Shape::Items { block, gap } => {
                    let (nth, rest, stride) = strided(block, gap as i64);
                    (nth * stride + rest) * size
                }
                Shape::Backwards { block, gap } => {
                    let (nth, rest, stride) = strided(block, gap as i64);
                    (rest - nth * stride) * size
                }
                Shape::Indexed { cut, gap, swap } => {
                    let (index, behind) = halves(cut, swap);
                    (index + if behind { gap as i64 } else { 0 }) * size
                }
                Shape::Struct { cut, gap, swap } => {
                    let (index, behind) = halves(cut, swap);
                    index * size + if behind { gap as i64 } else { 0 }
                }
                Shape::Sub { block, left, right, above, .. } => {
                    let (row, column, width) = strided(block, (left + right) as i64);
                    ((row + above as i64) * width + left as i64 + column) * size
                }
            }
        };
        (0..n).map(at).collect()
    }

    /// Returns the bytes of a buffer for the shape, in whole elements.
    pub(crate) fn bytes(self, n: usize, size: usize) -> usize {
        self.offsets(n, size).into_iter().max().map_or(0, |last| (last as usize + size).next_multiple_of(size))
    }

    /// Returns the layout, and the number of its items.
    pub(crate) fn layout(self, n: usize, kind: ElementKind) -> (Layout, u64) {
        let one = Layout::of_kind(kind);
        let size = kind.size() as i64;
        let total = n as u64;
        let strided = |block: usize| {
            let block = Shape::block(block, n) as u64;
            (total / block, block)
        };
        let halves = |cut: usize, swap: bool, gap: i64, size: i64| {
            let cut = cut.min(n) as i64;
            let rest = n as i64 - cut;
            if swap {
                [(cut as u64, rest * size + gap), (rest as u64, 0)]
            } else {
                [(cut as u64, 0), (rest as u64, cut * size + gap)]
            }
        };
        let layout = match self {
            Shape::Plain => return (one, total),
            Shape::Vector { block, gap } => {
                let (count, block) = strided(block);
                Layout::vector(count, block, (block + gap as u64) as i64, &one)
            }
            Shape::Backwards { block, gap } => {
                let (count, block) = strided(block);
                Layout::hvector(count, block, -((block + gap as u64) as i64) * size, &one)
            }
            Shape::Items { block, gap } => {
                let (count, block) = strided(block);
                let item = Layout::contiguous(block, &one).unwrap();
                return (item.resized(0, (block + gap as u64) as i64 * size).unwrap(), count);
            }
            Shape::Indexed { cut, gap, swap } => Layout::indexed(&halves(cut, swap, gap as i64, 1), &one),
            Shape::Struct { cut, gap, swap } => {
                Layout::structure(&halves(cut, swap, gap as i64, size).map(|(count, disp)| (count, disp, &one)))
            }
            Shape::Sub { block, left, right, above, fortran } => {
                let (rows, block) = strided(block);
                let mut lists = [
                    [rows + above as u64 + 1, block + (left + right) as u64],
                    [rows, block],
                    [above as u64, left as u64],
                ];
                if fortran {
                    lists.iter_mut().for_each(|list| list.reverse());
                }
                let order = if fortran { Order::Fortran } else { Order::C };
                Layout::subarray(&lists[0], &lists[1], &lists[2], order, &one)
            }
        };
        (layout.unwrap(), 1)
    }
}

/// An integer to which all ranks add 1, many times and at the same time, so that they really conflict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storm {
    pub(crate) window: usize,
    pub(crate) target: u32,
    pub(crate) disp: i64,
    pub(crate) start: usize,
    pub(crate) kind: ElementKind,
    pub(crate) way: StormWay,
    /// The number of times that each rank adds.
    pub(crate) times: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StormWay {
    FetchAndOp,
    Accumulate,
    GetAccumulate,
    /// Compare-and-swap until it succeeds.
    CompareAndSwap,
    /// Get and put under an exclusive lock each time.
    ReadModifyWrite,
}

/// An element that several ranks update in a phase.
#[derive(Clone, Debug)]
pub(crate) struct Contended {
    pub(crate) window: usize,
    pub(crate) target: u32,
    pub(crate) start: usize,
    pub(crate) kind: ElementKind,
    /// The rank, the number of its act, and the number of the element in the act, in the order of each rank's calls.
    pub(crate) updates: Vec<(u32, usize, usize)>,
}

/// The accesses to a byte in the phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Touch {
    Nothing,
    /// Gets of these ranks.
    Read(u8),
    /// Operations of one rank; `pure` if all are puts.
    Own {
        rank: u32,
        pending: Pending,
        pure: bool,
    },
    /// Accumulates of this element.
    Update(usize),
    /// Puts of several ranks.
    Racy,
}

/// A rank's own last operation, which may be incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pending {
    No,
    Put,
    Get,
    Update(ElementKind, usize),
}

#[derive(Debug)]
struct Element {
    contended: Contended,
    ranks: u8,
    /// True if all updating ranks have really locked the target.
    locked: bool,
    rmw: bool,
    /// True if the round with updates of several ranks is over.
    closed: bool,
}

impl Element {
    fn is_only_of(&self, rank: u32) -> bool {
        self.ranks == 1 << rank
    }
}

/// Returns whether an operation may follow the earlier accesses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fit {
    Fits,
    Settle,
    Never,
}

struct Ledger {
    touches: Vec<Vec<Vec<Touch>>>,
    elements: Vec<Element>,
}

impl Ledger {
    fn new(windows: &[WindowPlan]) -> Ledger {
        let touches = |window: &WindowPlan| window.sizes.iter().map(|&size| vec![Touch::Nothing; size]).collect();
        Ledger { touches: windows.iter().map(touches).collect(), elements: Vec::new() }
    }

    /// `start` is the offset of the byte's element.
    fn fit(&self, touch: Touch, rank: u32, usage: Use, kind: ElementKind, start: usize, locked: bool) -> Fit {
        let settle = |needed: bool| if needed { Fit::Settle } else { Fit::Fits };
        match touch {
            Touch::Nothing => Fit::Fits,
            Touch::Read(ranks) => {
                if usage == Use::Get || ranks == 1 << rank {
                    Fit::Fits
                } else {
                    Fit::Never
                }
            }
            Touch::Own { rank: owner, .. } if owner != rank => Fit::Never,
            Touch::Own { pending, .. } => match usage {
                Use::Get => settle(!matches!(pending, Pending::No | Pending::Get)),
                Use::Put | Use::Rget | Use::Rmw => settle(pending != Pending::No),
                Use::Update => settle(pending != Pending::No && pending != Pending::Update(kind, start)),
            },
            Touch::Update(number) => {
                let element = &self.elements[number];
                let same = element.contended.kind == kind && element.contended.start == start;
                let alone = element.is_only_of(rank);
                match usage {
                    _ if element.closed => Fit::Never,
                    Use::Update | Use::Rmw if same => {
                        let rmw = element.rmw || usage == Use::Rmw;
                        if element.contended.updates.len() >= UPDATES || rmw && !(element.locked && locked) {
                            Fit::Never
                        } else {
                            settle(usage == Use::Rmw && element.ranks & 1 << rank != 0)
                        }
                    }
                    _ if alone => Fit::Settle,
                    _ => Fit::Never,
                }
            }
            Touch::Racy => Fit::Never,
        }
    }

    /// Forgets the pending operations of `rank` at a part.
    fn settle(&mut self, window: usize, target: u32, rank: u32) {
        for touch in &mut self.touches[window][target as usize] {
            match touch {
                Touch::Own { rank: owner, pending, .. } if *owner == rank => *pending = Pending::No,
                _ => {}
            }
        }
    }

    /// Enters an operation on one element.
    fn enter(&mut self, act: &Act, i: usize, start: usize, rank: u32, locked: bool, usage: Use) {
        let (window, target) = (act.window, act.target.expect("a real target") as usize);
        let range = start..start + act.size();
        if matches!(usage, Use::Update | Use::Rmw) {
            let before = &self.touches[window][target][range.clone()];
            let all = |test: &dyn Fn(Touch) -> bool| before.iter().all(|&touch| test(touch));
            if let Touch::Update(number) = before[0]
                && all(&|touch| touch == before[0])
                && self.elements[number].contended.start == start
                && self.elements[number].contended.kind == act.kind
            {
                let element = &mut self.elements[number];
                element.contended.updates.push((rank, act.id, i));
                element.ranks |= 1 << rank;
                element.locked &= locked;
                element.rmw |= usage == Use::Rmw;
                return;
            }
            // Only bytes that this rank has not read: other ranks may update here, and the get would not be determined.
            if all(&|touch| touch == Touch::Nothing) {
                let contended = Contended {
                    window,
                    target: target as u32,
                    start,
                    kind: act.kind,
                    updates: vec![(rank, act.id, i)],
                };
                let rmw = usage == Use::Rmw;
                self.elements.push(Element { contended, ranks: 1 << rank, locked, rmw, closed: false });
                self.touches[window][target][range].fill(Touch::Update(self.elements.len() - 1));
                return;
            }
        }
        for touch in &mut self.touches[window][target][range] {
            let own = |pending, pure| Touch::Own { rank, pending, pure };
            *touch = match (usage, *touch) {
                (Use::Get, Touch::Nothing) => Touch::Read(1 << rank),
                (Use::Get, Touch::Read(ranks)) => Touch::Read(ranks | 1 << rank),
                (Use::Get, Touch::Own { pending: Pending::Get, .. }) => own(Pending::Get, false),
                (Use::Get | Use::Rmw, _) => own(Pending::No, false),
                (Use::Rget, _) => own(Pending::Get, false),
                (Use::Put, Touch::Nothing | Touch::Own { pure: true, .. }) => own(Pending::Put, true),
                (Use::Put, _) => own(Pending::Put, false),
                (Use::Update, _) => own(Pending::Update(act.kind, start), false),
            };
        }
    }
}

struct Planner {
    plan: Plan,
    ledger: Ledger,
    /// The number of acts of each rank in the phase.
    acts: Vec<usize>,
}

/// The section that contains an operation.
struct Around<'s> {
    rank: u32,
    syncs: &'s [Sync],
    locks: &'s [Locks],
    starts: &'s [Vec<Vec<u32>>],
}

impl Around<'_> {
    /// Returns the targets that can be reached on a window.
    fn targets(&self, window: usize, ranks: u32) -> Vec<u32> {
        match (self.syncs[window], &self.locks[window]) {
            (Sync::Fence, _) | (_, Locks::All { .. }) => (0..ranks).collect(),
            (Sync::Pscw, _) => self.starts[window][self.rank as usize].clone(),
            (Sync::Passive, Locks::None) => Vec::new(),
            (Sync::Passive, Locks::Some(held)) => held.iter().map(|&(target, ..)| target).collect(),
        }
    }

    /// Returns whether the target is really locked, and whether exclusively.
    fn held(&self, window: usize, target: u32) -> (bool, bool) {
        match &self.locks[window] {
            Locks::None => (false, false),
            Locks::All { nocheck } => (!nocheck, false),
            Locks::Some(held) => {
                let &(_, kind, nocheck) = held.iter().find(|held| held.0 == target).expect("a target that is held");
                (!nocheck, !nocheck && kind == LockKind::Exclusive)
            }
        }
    }
}

const SIZES: [usize; 16] = [0, 1, 7, 8, 16, 24, 24, 32, 32, 40, 61, 64, 64, 100, 257, 6000];
const UNITS: [u32; 6] = [1, 1, 2, 4, 8, 3];

/// Returns the transport, from the variable `RMALAB_MODEL_TRANSPORT`.
pub(crate) fn transport() -> Transport {
    std::env::var("RMALAB_MODEL_TRANSPORT").map_or(Transport::OneSided, |name| name.parse().expect("a transport"))
}

fn window_plan(
    ranks: u32,
    &(flavor, sizes, unit, policy, strategies, kind): &(u8, [u8; 4], u8, u8, u16, u8),
) -> WindowPlan {
    let flavor = [Flavor::Allocate, Flavor::Shared, Flavor::Create, Flavor::Dynamic][usize::from(flavor) % 4];
    let ranks = ranks as usize;
    let size = |rank: usize| SIZES[usize::from(sizes[rank]) % SIZES.len()];
    let unit_of = |rank: usize| UNITS[(usize::from(unit) + rank) % UNITS.len()];
    let uniform = flavor == Flavor::Allocate;
    let pick = |shift: u32, bound: u16| usize::from((strategies >> shift) % bound);
    let attach_own = flavor == Flavor::Dynamic && pick(14, 2) == 1;
    let config = Config {
        policy: PolicyKind::ALL[usize::from(policy) % PolicyKind::ALL.len()],
        fence: [FenceStrategy::Dissemination, FenceStrategy::Naive][pick(0, 2)],
        pscw: [PscwStrategy::Auto, PscwStrategy::Flags, PscwStrategy::Matching, PscwStrategy::Matching][pick(1, 4)],
        accumulate: AccumulateStrategy::ALL[pick(3, 8) % 3],
        // Attached memory is read under a lock.
        no_locks: pick(6, 8) == 7 && !attach_own,
        alloc_shared_noncontig: pick(9, 2) == 1,
        mpi_minimum_memory_alignment: [64, 8, 4096, 1][pick(10, 4)],
        mpi_accumulate_granularity: [0, 1, 64, 4096][pick(12, 4)],
        transport: transport(),
        ..Config::default()
    };
    WindowPlan {
        flavor,
        attach_own,
        // Most elements lie in one piece, others across a border, and some across several.
        pieces: (attach_own && pick(15, 2) == 1).then(|| [3, 12, 16, 101][usize::from(unit) % 4]),
        sizes: (0..ranks).map(|rank| size(if uniform { 0 } else { rank })).collect(),
        units: (0..ranks)
            .map(|rank| if flavor == Flavor::Dynamic { 1 } else { unit_of(if uniform { 0 } else { rank }) })
            .collect(),
        config,
        kind: ElementKind::ALL[usize::from(kind) % ElementKind::ALL.len()],
    }
}

/// Returns the steps of a program for `ranks` ranks.
pub(crate) fn plan(raw: &Raw, ranks: u32) -> Plan {
    let windows: Vec<WindowPlan> = raw.windows.iter().map(|window| window_plan(ranks, window)).collect();
    let ledger = Ledger::new(&windows);
    let mut planner = Planner { plan: Plan { ranks, windows, phases: Vec::new() }, ledger, acts: Vec::new() };
    for phase in &raw.phases {
        planner.phase(phase);
    }
    planner.plan
}

impl Planner {
    fn phase(&mut self, raw: &RawPhase) {
        let (ranks, windows) = (self.plan.ranks, self.plan.windows.len());
        self.ledger = Ledger::new(&self.plan.windows);
        self.acts = vec![0; ranks as usize];
        let syncs: Vec<Sync> = (0..windows)
            .map(|window| match raw.syncs[window] % 5 {
                0 => Sync::Fence,
                1 => Sync::Pscw,
                _ if self.plan.windows[window].config.no_locks => Sync::Fence,
                _ => Sync::Passive,
            })
            .collect();
        let stores: Vec<_> = (raw.stores.iter())
            .filter_map(|&(rank, window, at, len, salt)| {
                let (rank, window) = (u32::from(rank) % ranks, usize::from(window) % windows);
                let size = self.plan.windows[window].sizes[rank as usize];
                let at = usize::from(at).checked_rem(size)?;
                Some((rank, window, at, (1 + usize::from(len) % 16).min(size - at), salt))
            })
            .collect();
        let barrier = stores.iter().any(|&(_, window, ..)| syncs[window] == Sync::Passive);
        let nocheck = raw.flags & 7 == 0;
        let storm = self.storm(raw, &syncs);
        let mut rounds = Vec::new();
        for (number, sections) in raw.rounds.iter().enumerate() {
            let starts = (0..windows).map(|window| match syncs[window] {
                Sync::Pscw => {
                    let bits = raw.groups.rotate_left((number * 21 + window * 16) as u32);
                    let group = |rank: u32| (0..ranks).filter(|to| bits >> (4 * rank + to) & 1 == 1).collect();
                    (0..ranks).map(group).collect()
                }
                _ => vec![Vec::new(); ranks as usize],
            });
            let starts: Vec<Vec<Vec<u32>>> = starts.collect();
            let mut by_rank: Vec<Vec<Section>> = (0..ranks).map(|_| Vec::new()).collect();
            if let Some(storm) = storm.filter(|_| number == 0) {
                for (rank, sections) in (0..).zip(&mut by_rank) {
                    sections.push(self.storm_section(rank, storm, &syncs, raw.flags));
                }
            }
            for section in sections {
                let rank = u32::from(section.rank) % ranks;
                let section = self.section(rank, section, raw.flags, &syncs, &starts);
                by_rank[rank as usize].push(section);
            }
            let mut written = vec![vec![false; ranks as usize]; windows];
            if let Some(storm) = storm {
                written[storm.window][storm.target as usize] |= number == 0;
            }
            for step in by_rank.iter().flatten().flat_map(|section| &section.steps) {
                if let Step::Act(Act { window, target: Some(target), call, n, refused: false, .. }) = step {
                    written[*window][*target as usize] |= *n > 0 && call.writes();
                }
            }
            self.round_ends(&syncs);
            rounds.push(Round { starts, sections: by_rank, written });
        }
        let mut racy = Vec::new();
        for (window, parts) in self.ledger.touches.iter().enumerate() {
            for (rank, part) in (0..).zip(parts) {
                let of_part = part.iter().enumerate().filter(|&(_, &touch)| touch == Touch::Racy);
                racy.extend(of_part.map(|(byte, _)| (window, rank, byte)));
            }
        }
        let elements = std::mem::take(&mut self.ledger.elements);
        let contended = elements.into_iter().filter(|element| element.ranks.count_ones() > 1);
        self.plan.phases.push(Phase {
            syncs,
            stores,
            barrier,
            noprecede: raw.flags & 8 != 0,
            nocheck,
            extra: raw.flags & 0x70 == 0,
            test: raw.flags & 0x80 != 0,
            rounds,
            contended: contended.map(|element| element.contended).collect(),
            storm,
            racy,
        });
    }

    /// Chooses the integer that all ranks count up, and excludes it from all other operations.
    fn storm(&mut self, raw: &RawPhase, syncs: &[Sync]) -> Option<Storm> {
        let (often, window, target, at, kind, way) = raw.storm;
        let (ranks, window) = (self.plan.ranks, usize::from(window) % syncs.len());
        let here = &self.plan.windows[window];
        let target = u32::from(target) % ranks;
        let (size, unit) = (here.sizes[target as usize], here.units[target as usize] as usize);
        // The integers come first.
        let kind = ElementKind::ALL[usize::from(kind) % 8];
        let bytes = kind.size() as usize;
        // Mostly aligned, so that all paths occur.
        let start = (usize::from(at >> 1) % 4 * bytes * if at & 1 == 0 { unit } else { 1 }).next_multiple_of(unit);
        if often % 3 != 0 || ranks == 1 || syncs[window] == Sync::Pscw || start + bytes > size {
            return None;
        }
        let trusted = here.config.policy == PolicyKind::NoCheck || raw.flags >> (8 + 2 * window) & 3 == 0;
        let way = match way % 5 {
            0 => StormWay::FetchAndOp,
            1 => StormWay::Accumulate,
            2 => StormWay::GetAccumulate,
            3 => StormWay::CompareAndSwap,
            _ if syncs[window] == Sync::Fence || trusted => StormWay::FetchAndOp,
            _ => StormWay::ReadModifyWrite,
        };
        let is_slow = way == StormWay::ReadModifyWrite
            || here.config.accumulate == AccumulateStrategy::Locked
            || here.flavor == Flavor::Create
            || here.flavor == Flavor::Dynamic
            || !start.is_multiple_of(bytes);
        let times = if is_slow { 40 } else { 1_000 };
        let contended = Contended { window, target, start, kind, updates: Vec::new() };
        self.ledger.elements.push(Element { contended, ranks: 0, locked: false, rmw: false, closed: true });
        let closed = Touch::Update(self.ledger.elements.len() - 1);
        self.ledger.touches[window][target as usize][start..start + bytes].fill(closed);
        Some(Storm { window, target, disp: (start / unit) as i64, start, kind, way, times })
    }

    fn storm_section(&self, rank: u32, storm: Storm, syncs: &[Sync], flags: u16) -> Section {
        let Storm { window, target, way, .. } = storm;
        let trusted = self.plan.windows[window].config.policy == PolicyKind::NoCheck;
        let nocheck = trusted || flags >> (8 + 2 * window) & 3 == 0;
        let mut locks = vec![Locks::None; syncs.len()];
        // Some use lock_all, and some use a lock. Each read-modify-write step has its own lock.
        if syncs[window] == Sync::Passive && way != StormWay::ReadModifyWrite {
            locks[window] = if (rank + target).is_multiple_of(2) {
                Locks::All { nocheck }
            } else {
                Locks::Some(vec![(target, LockKind::Shared, nocheck)])
            };
        }
        Section { locks, steps: vec![Step::Storm(storm)], end: 0 }
    }

    /// After a fence or a wait all operations are complete.
    fn round_ends(&mut self, syncs: &[Sync]) {
        for element in &mut self.ledger.elements {
            element.closed |= syncs[element.contended.window] != Sync::Passive && element.ranks.count_ones() > 1;
        }
        let elements = &self.ledger.elements;
        for (window, parts) in self.ledger.touches.iter_mut().enumerate() {
            if syncs[window] == Sync::Passive {
                continue;
            }
            for touch in parts.iter_mut().flatten() {
                *touch = match *touch {
                    Touch::Racy => Touch::Racy,
                    Touch::Update(number) if elements[number].closed => Touch::Update(number),
                    _ => Touch::Nothing,
                };
            }
        }
    }

    fn section(
        &mut self,
        rank: u32,
        raw: &RawSection,
        flags: u16,
        syncs: &[Sync],
        starts: &[Vec<Vec<u32>>],
    ) -> Section {
        let (ranks, windows) = (self.plan.ranks, self.plan.windows.len());
        let locks: Vec<Locks> = (0..windows)
            .map(|window| {
                if syncs[window] != Sync::Passive {
                    return Locks::None;
                }
                // With nocheck no rank excludes another, so only operations without exclusion are correct.
                let trusted = self.plan.windows[window].config.policy == PolicyKind::NoCheck;
                let nocheck = flags >> (8 + 2 * window) & 3 == 0;
                let set = raw.sets >> (5 * window);
                let first = u32::from(set) % ranks;
                let kind = |exclusive: bool| {
                    if exclusive && !nocheck && !trusted { LockKind::Exclusive } else { LockKind::Shared }
                };
                match raw.modes[window] % 8 {
                    0..=2 => Locks::Some(vec![(first, kind(raw.modes[window] & 16 != 0), nocheck || trusted)]),
                    3 | 4 => {
                        let mut held: Vec<_> = (0..ranks)
                            .filter(|target| set >> target & 1 == 1)
                            .map(|target| {
                                let exclusive = raw.modes[window] >> (4 + target) & 1 == 1;
                                (target, kind(exclusive), nocheck || trusted)
                            })
                            .collect();
                        // In the order of the targets, so that ranks do not wait in a circle. The first lock is exclusive
                        // if any is, since a single lock for the whole window cannot be upgraded; see also "Properties"
                        // of the two-level policy.
                        if held.iter().any(|held| held.1 == LockKind::Exclusive) {
                            held[0].1 = LockKind::Exclusive;
                        }
                        Locks::Some(held)
                    }
                    5 | 6 => Locks::All { nocheck: nocheck || trusted },
                    _ => Locks::None,
                }
            })
            .collect();
        let around = Around { rank, syncs, locks: &locks, starts };
        let mut steps = Vec::new();
        for op in &raw.ops {
            self.step(&around, op, &mut steps);
        }
        for window in (0..windows).filter(|&window| syncs[window] == Sync::Passive) {
            for target in 0..ranks {
                self.ledger.settle(window, target, rank);
            }
        }
        Section { locks, steps, end: raw.end }
    }

    fn step(&mut self, around: &Around<'_>, raw: &RawOp, steps: &mut Vec<Step>) {
        let (ranks, windows) = (self.plan.ranks, self.plan.windows.len());
        // The first reachable window, starting at the drawn one.
        let window = (0..windows).map(|i| (usize::from(raw.window) + i) % windows);
        let Some((window, targets)) =
            window.map(|window| (window, around.targets(window, ranks))).find(|(_, targets)| !targets.is_empty())
        else {
            return;
        };
        let passive = around.syncs[window] == Sync::Passive;
        // Half of all operations go to the first target.
        let target =
            if raw.target & 1 == 0 { targets[0] } else { targets[usize::from(raw.target >> 1) % targets.len()] };
        if raw.flags & 0x78 == 0 && passive {
            steps.push(Step::Other { window, target, which: raw.op });
            return;
        }
        let Some(mut act) = self.draw(window, target, raw) else { return };
        let (locked, exclusive) = around.held(window, target);
        if act.call.is_passive() && !passive || act.call == Call::ReadModifyWrite && !exclusive {
            act.call = if act.call.fetches() { Call::GetAccumulate } else { Call::Put };
            if act.n == 1 {
                act.call = Call::FetchAndOp;
            }
            act.here = Shape::Plain;
            act.there = Shape::Plain;
            let left = self.plan.windows[window].sizes[target as usize] as i64 - act.base;
            act.n = act.n.min((left / act.size() as i64).max(0) as usize);
            if act.n == 0 {
                return;
            }
            if !act.op.is_defined_for(act.kind) {
                act.op = Op::Replace;
            }
        }
        act.id = self.acts[around.rank as usize];
        let mut null = raw.flags & 0x7 == 7 && raw.there & 7 == 0;
        null &= !matches!(around.locks[window], Locks::Some(_)) || !passive;
        null &= act.call != Call::Batch && act.call != Call::ReadModifyWrite;
        if null {
            act.target = None;
        } else if raw.flags & 0x7 == 6 && raw.there & 3 == 0 {
            if !self.outside(&mut act, raw) {
                return;
            }
        } else {
            let racy = raw.flags & 0x7 == 5;
            if !self.admit(&mut act, around.rank, passive, locked, racy, steps) {
                return;
            }
            if act.call == Call::Batch {
                self.batch(&mut act, around.rank, locked, raw);
                self.ledger.settle(window, target, around.rank);
            }
        }
        self.acts[around.rank as usize] += 1;
        steps.push(Step::Act(act));
    }

    /// Returns an operation on `target`, without regard to others.
    fn draw(&self, window: usize, target: u32, raw: &RawOp) -> Option<Act> {
        let here = &self.plan.windows[window];
        let (size, unit) = (here.sizes[target as usize] as i64, i64::from(here.units[target as usize]));
        let mut call = Call::OFTEN[usize::from(raw.what) % Call::OFTEN.len()];
        let kind = if raw.kind & 7 == 0 {
            ElementKind::ALL[usize::from(raw.kind >> 3) % ElementKind::ALL.len()]
        } else {
            here.kind
        };
        if call == Call::CompareAndSwap && !kind.is_swappable() {
            call = Call::FetchAndOp;
        }
        let ops: Vec<Op> = Op::ALL.into_iter().filter(|op| op.is_defined_for(kind)).collect();
        let op = ops[usize::from(raw.op) % ops.len()];
        let bytes = kind.size() as i64;
        let there = if call.has_layout() { Shape::of(raw.there, true) } else { Shape::Plain };
        let shape = |raw| if call.has_layout() { Shape::of(raw, false) } else { Shape::Plain };
        // Often one of the first elements, so that ranks conflict.
        let mut disp = i64::from(raw.at >> 3) % (size / unit + 1);
        if raw.at & 7 < 5 {
            disp = (i64::from(raw.at >> 3) % 3 * bytes + unit - 1) / unit;
        }
        let base = disp * unit;
        let most = if size > 4096 && raw.n > 200 { 700 } else { 1 + i64::from(raw.n) % 9 };
        let mut n = if call.is_single() { 1 } else { most.min((size / bytes).max(0)) as usize };
        if raw.n == 77 && !call.is_single() && !call.has_layout() {
            n = 0;
        }
        let within = |n: usize| {
            let offsets = there.offsets(n, bytes as usize);
            offsets.iter().all(|&offset| base + offset >= 0 && base + offset + bytes <= size)
        };
        while n > 0 && !within(n) {
            n -= 1;
        }
        if n == 0 && (call.is_single() || matches!(call, Call::Batch)) {
            return None;
        }
        Some(Act {
            id: 0,
            window,
            target: Some(target),
            call,
            kind,
            op,
            disp,
            base,
            n,
            here: shape(raw.here),
            there,
            results: shape(raw.here.rotate_left(7)),
            salt: raw.salt,
            masked: false,
            refused: false,
            also: None,
        })
    }

    /// Enters an operation into the ledger if it is allowed, with a flush before it if it needs one.
    fn admit(
        &mut self,
        act: &mut Act,
        rank: u32,
        passive: bool,
        locked: bool,
        racy: bool,
        steps: &mut Vec<Step>,
    ) -> bool {
        let (window, target, usage) = (act.window, act.target.expect("a real target"), act.call.usage());
        let places = act.places();
        let touch = |ledger: &Ledger, byte: usize| ledger.touches[window][target as usize][byte];
        let bytes = |start: i64| start as usize..start as usize + act.size();
        let fit_of = |ledger: &Ledger| {
            let fits = places.iter().flat_map(|&start| bytes(start).map(move |byte| (start as usize, byte)));
            let fits = fits.map(|(start, byte)| ledger.fit(touch(ledger, byte), rank, usage, act.kind, start, locked));
            fits.max().unwrap_or(Fit::Fits)
        };
        // Elements that overlap others. Either all bytes belong to one element, or none do.
        let mixed = |ledger: &Ledger| {
            places.iter().any(|&start| {
                let mut touches = bytes(start).map(|byte| touch(ledger, byte));
                let first = touches.next();
                let shared = |touch: Touch| match touch {
                    Touch::Update(number) => !ledger.elements[number].is_only_of(rank),
                    _ => false,
                };
                first.is_some_and(shared) && touches.any(|touch| Some(touch) != first)
            })
        };
        match fit_of(&self.ledger) {
            Fit::Fits if !mixed(&self.ledger) => {}
            Fit::Settle if passive && !mixed(&self.ledger) => {
                self.ledger.settle(window, target, rank);
                steps.push(Step::Settle { window, target });
            }
            _ if racy && usage == Use::Get => {
                act.masked = true;
                return true;
            }
            _ if racy && usage == Use::Put => {
                let races = |&start: &i64| {
                    bytes(start).all(|byte| match touch(&self.ledger, byte) {
                        Touch::Nothing | Touch::Racy => true,
                        Touch::Own { pure, .. } => pure,
                        Touch::Read(_) | Touch::Update(_) => false,
                    })
                };
                if !places.iter().all(races) {
                    return false;
                }
                for byte in places.iter().flat_map(|&start| bytes(start)) {
                    self.ledger.touches[window][target as usize][byte] = Touch::Racy;
                }
                return true;
            }
            _ => return false,
        }
        for (i, &start) in places.iter().enumerate() {
            self.ledger.enter(act, i, start as usize, rank, locked, usage);
        }
        true
    }

    /// Adds the other part of a batch: a get of some bytes that the put does not touch.
    fn batch(&mut self, act: &mut Act, rank: u32, locked: bool, raw: &RawOp) {
        let (window, target) = (act.window, act.target.expect("a real target") as usize);
        let here = &self.plan.windows[window];
        let (size, unit) = (here.sizes[target] as i64, i64::from(here.units[target]));
        let disp = i64::from(raw.here) % (size / unit + 1);
        let len = (1 + i64::from(raw.there) % 24).min(size - disp * unit).max(0) as usize;
        let range = (disp * unit) as usize..(disp * unit) as usize + len;
        let part = &self.ledger.touches[window][target];
        let fits = |touch| self.ledger.fit(touch, rank, Use::Get, ElementKind::U8, 0, locked) == Fit::Fits;
        if range.clone().all(|byte| fits(part[byte])) {
            let get = Act { kind: ElementKind::U8, call: Call::Get, n: len, ..act.clone() };
            for byte in range {
                self.ledger.enter(&get, 0, byte, rank, locked, Use::Get);
            }
            act.also = Some((disp, disp * unit, len));
        }
    }

    /// Moves an operation so that it reaches outside of the window.
    fn outside(&self, act: &mut Act, raw: &RawOp) -> bool {
        let here = &self.plan.windows[act.window];
        let target = act.target.expect("a real target") as usize;
        let (size, unit) = (here.sizes[target] as i64, i64::from(here.units[target]));
        if act.n == 0 || act.call == Call::ReadModifyWrite || act.call == Call::Batch {
            return false;
        }
        let span = act.places().into_iter().max().unwrap_or(0) - act.base + act.size() as i64;
        // The first displacement beyond the end, or one before the start.
        act.disp = if raw.at & 1 == 0 { ((size - span).div_euclid(unit) + 1).max(0) } else { -(1 + span / unit) };
        act.base = act.disp * unit;
        act.refused = true;
        true
    }
}
