use proptest::collection::vec;
use proptest::prelude::*;

use super::error::Result;
use super::tree::gcd;
use super::*;
use crate::{ElementKind, Pair};

/// The description of a layout.
#[derive(Clone, Debug)]
enum Spec {
    Leaf(ElementKind),
    Contiguous(u64, Box<Spec>),
    Vector(u64, u64, i64, Box<Spec>),
    Hvector(u64, u64, i64, Box<Spec>),
    Indexed(Vec<(u64, i64)>, Box<Spec>),
    Hindexed(Vec<(u64, i64)>, Box<Spec>),
    IndexedBlock(u64, Vec<i64>, Box<Spec>),
    HindexedBlock(u64, Vec<i64>, Box<Spec>),
    /// Size, subsize and start of each dimension.
    Subarray(Vec<(u64, u64, u64)>, Order, Box<Spec>),
    Structure(Vec<(u64, i64, Spec)>),
    Resized(i64, i64, Box<Spec>),
}

impl Spec {
    fn layout(&self) -> Layout {
        match self {
            Spec::Leaf(kind) => Ok(Layout::of_kind(*kind)),
            Spec::Contiguous(count, inner) => Layout::contiguous(*count, &inner.layout()),
            Spec::Vector(count, block, stride, inner) => Layout::vector(*count, *block, *stride, &inner.layout()),
            Spec::Hvector(count, block, stride, inner) => Layout::hvector(*count, *block, *stride, &inner.layout()),
            Spec::Indexed(blocks, inner) => Layout::indexed(blocks, &inner.layout()),
            Spec::Hindexed(blocks, inner) => Layout::hindexed(blocks, &inner.layout()),
            Spec::IndexedBlock(block, disps, inner) => Layout::indexed_block(*block, disps, &inner.layout()),
            Spec::HindexedBlock(block, disps, inner) => Layout::hindexed_block(*block, disps, &inner.layout()),
            Spec::Subarray(dimensions, order, inner) => {
                let list = |pick: fn(&(u64, u64, u64)) -> u64| dimensions.iter().map(pick).collect::<Vec<_>>();
                let (sizes, subsizes, starts) = (list(|d| d.0), list(|d| d.1), list(|d| d.2));
                Layout::subarray(&sizes, &subsizes, &starts, *order, &inner.layout())
            }
            Spec::Structure(blocks) => {
                let layouts: Vec<Layout> = blocks.iter().map(|(_, _, inner)| inner.layout()).collect();
                let blocks = blocks.iter().zip(&layouts).map(|((count, disp, _), inner)| (*count, *disp, inner));
                Layout::structure(&blocks.collect::<Vec<_>>())
            }
            Spec::Resized(lower, extent, inner) => inner.layout().resized(*lower, *extent),
        }
        .unwrap()
    }

    fn typemap(&self) -> Typemap {
        /// Returns the typemaps of `inner` at displacements in bytes.
        fn at(inner: &Typemap, disps: impl IntoIterator<Item = i64>) -> Typemap {
            let mut all = Typemap::default();
            disps.into_iter().for_each(|disp| all.add(inner, disp));
            all
        }
        let blocks = |inner: &Spec, blocks: Vec<(u64, i64)>| {
            let inner = inner.typemap();
            let extent = inner.extent();
            at(&inner, blocks.iter().flat_map(|&(block, disp)| (0..block as i64).map(move |i| disp + i * extent)))
        };
        match self {
            Spec::Leaf(kind) => Typemap { entries: vec![(0, *kind)], marks: vec![] },
            Spec::Contiguous(count, inner) => blocks(inner, vec![(*count, 0)]),
            Spec::Vector(count, block, stride, inner) => {
                let stride = stride * inner.typemap().extent();
                blocks(inner, (0..*count as i64).map(|i| (*block, i * stride)).collect())
            }
            Spec::Hvector(count, block, stride, inner) => {
                blocks(inner, (0..*count as i64).map(|i| (*block, i * stride)).collect())
            }
            Spec::Indexed(list, inner) => {
                let extent = inner.typemap().extent();
                blocks(inner, list.iter().map(|(block, disp)| (*block, disp * extent)).collect())
            }
            Spec::Hindexed(list, inner) => blocks(inner, list.clone()),
            Spec::IndexedBlock(block, disps, inner) => {
                let extent = inner.typemap().extent();
                blocks(inner, disps.iter().map(|disp| (*block, disp * extent)).collect())
            }
            Spec::HindexedBlock(block, disps, inner) => {
                blocks(inner, disps.iter().map(|disp| (*block, *disp)).collect())
            }
            Spec::Subarray(dimensions, order, inner) => {
                // Walks all elements of the array in the order of memory, and keeps those inside the box.
                let inner = inner.typemap();
                let elements: u64 = dimensions.iter().map(|(size, ..)| size).product();
                let inside = |element: &u64| {
                    let mut rest = *element;
                    let mut within = |&(size, subsize, start): &(u64, u64, u64)| {
                        let index = rest % size;
                        rest /= size;
                        (start..start + subsize).contains(&index)
                    };
                    match order {
                        Order::C => dimensions.iter().rev().all(&mut within),
                        Order::Fortran => dimensions.iter().all(&mut within),
                    }
                };
                let disps = (0..elements).filter(inside).map(|element| element as i64 * inner.extent());
                let marks = vec![(0, elements as i64 * inner.extent())];
                Typemap { entries: at(&inner, disps).entries, marks }
            }
            Spec::Structure(list) => {
                let mut all = Typemap::default();
                for (count, disp, inner) in list {
                    let inner = inner.typemap();
                    (0..*count as i64).for_each(|i| all.add(&inner, disp + i * inner.extent()));
                }
                all
            }
            Spec::Resized(lower, extent, inner) => Typemap { marks: vec![(*lower, lower + extent)], ..inner.typemap() },
        }
    }
}

/// The standard's typemap: every element with its displacement, in order, and the markers of bounds.
#[derive(Clone, Debug, Default)]
struct Typemap {
    entries: Vec<(i64, ElementKind)>,
    marks: Vec<(i64, i64)>,
}

impl Typemap {
    fn add(&mut self, other: &Typemap, disp: i64) {
        self.entries.extend(other.entries.iter().map(|(at, kind)| (at + disp, *kind)));
        self.marks.extend(other.marks.iter().map(|(lower, upper)| (lower + disp, upper + disp)));
    }

    fn true_bounds(&self) -> (i64, i64) {
        let ends = self.entries.iter().map(|(at, kind)| at + kind.size() as i64);
        (self.entries.iter().map(|(at, _)| *at).min().unwrap_or(0), ends.max().unwrap_or(0))
    }

    fn bounds(&self) -> (i64, i64) {
        if self.marks.is_empty() {
            let (first, end) = self.true_bounds();
            let align = self.entries.iter().map(|(_, kind)| kind.align() as i64).max().unwrap_or(1);
            let over = (end - first).rem_euclid(align);
            (first, if over == 0 { end } else { end + align - over })
        } else {
            let (lowers, uppers) = (self.marks.iter().map(|m| m.0), self.marks.iter().map(|m| m.1));
            (lowers.min().unwrap(), uppers.max().unwrap())
        }
    }

    fn extent(&self) -> i64 {
        let (lower, upper) = self.bounds();
        upper - lower
    }

    /// Returns the offset of every byte of `count` items, in order.
    fn bytes(&self, count: u64) -> Vec<i64> {
        let items = (0..count as i64).map(|item| item * self.extent());
        let entries = |start| self.entries.iter().map(move |(at, kind)| (start + at, kind.size() as i64));
        items.flat_map(entries).flat_map(|(at, size)| at..at + size).collect()
    }
}

fn kind() -> impl Strategy<Value = ElementKind> {
    (0..ElementKind::ALL.len()).prop_map(|i| ElementKind::ALL[i])
}

/// Generates layouts of up to some thousand bytes, whose leaves are from `kinds`.
fn spec_of(kinds: impl Strategy<Value = ElementKind> + 'static) -> impl Strategy<Value = Spec> {
    let leaf = kinds.prop_map(Spec::Leaf);
    leaf.prop_recursive(5, 64, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let count = || prop_oneof![1 => Just(0), 30 => 1_u64..4];
        let disp = || -9_i64..10;
        let (blocks, disps) = (|| vec((count(), disp()), 1..4), || vec(disp(), 1..4));
        let dimension = (1_u64..4, any::<u64>(), any::<u64>()).prop_map(|(size, subsize, start)| {
            // The subsize is 0 in one case of 30.
            let subsize = if subsize < u64::MAX / 30 { 0 } else { 1 + subsize % size };
            (size, subsize, start % (size - subsize + 1))
        });
        let order = prop_oneof![Just(Order::C), Just(Order::Fortran)];
        prop_oneof![
            4 => (count(), boxed()).prop_map(|(n, i)| Spec::Contiguous(n, i)),
            4 => (count(), count(), -3_i64..6, boxed()).prop_map(|(n, b, s, i)| Spec::Vector(n, b, s, i)),
            4 => (count(), count(), -30_i64..60, boxed()).prop_map(|(n, b, s, i)| Spec::Hvector(n, b, s, i)),
            4 => (blocks(), boxed()).prop_map(|(l, i)| Spec::Indexed(l, i)),
            4 => (blocks(), boxed()).prop_map(|(l, i)| Spec::Hindexed(l, i)),
            4 => (count(), disps(), boxed()).prop_map(|(b, l, i)| Spec::IndexedBlock(b, l, i)),
            4 => (count(), disps(), boxed()).prop_map(|(b, l, i)| Spec::HindexedBlock(b, l, i)),
            4 => (vec(dimension, 0..4), order, boxed()).prop_map(|(d, o, i)| Spec::Subarray(d, o, i)),
            8 => vec((count(), disp(), inner.clone()), 1..4).prop_map(Spec::Structure),
            1 => Just(Spec::Structure(vec![])),
            4 => (disp(), -20_i64..40, boxed()).prop_map(|(l, e, i)| Spec::Resized(l, e, i)),
        ]
    })
    .prop_filter("of a size that is quick to list", |spec| spec.layout().size() < 4096)
}

fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![spec_of(kind()), kind().prop_flat_map(|kind| spec_of(Just(kind)))]
}

/// Returns the longest possible runs, from the offset of every byte.
fn merged(bytes: &[i64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &offset in bytes {
        match runs.last_mut() {
            Some(run) if run.offset + run.bytes as i64 == offset => run.bytes += 1,
            _ => runs.push(Run { offset, bytes: 1 }),
        }
    }
    runs
}

fn gap(kind: ElementKind) -> Layout {
    Layout::of_kind(kind).resized(0, 2 * kind.size() as i64).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn layouts_agree_with_their_typemaps(spec in spec(), count in 0_u64..4) {
        let (layout, typemap) = (spec.layout(), spec.typemap());
        let bytes = typemap.bytes(count);
        prop_assert_eq!(layout.size(), typemap.bytes(1).len() as u64);
        prop_assert_eq!(layout.total(count), Ok(bytes.len() as u64));
        prop_assert_eq!((layout.lower_bound(), layout.extent()), (typemap.bounds().0, typemap.extent()));
        prop_assert_eq!(layout.true_bounds(), typemap.true_bounds());
        let ends = bytes.iter().min().zip(bytes.iter().max());
        prop_assert_eq!(layout.span(count), Ok(ends.map_or((0, 0), |(first, last)| (*first, last + 1))));
        let first = typemap.entries.first().map(|(_, kind)| *kind);
        let one = typemap.entries.iter().all(|(_, kind)| Some(*kind) == first);
        prop_assert_eq!(layout.kind(), first.filter(|_| one));
        prop_assert!(ElementKind::ALL.iter().all(|k| layout.is_all(*k) == typemap.entries.iter().all(|(_, e)| e == k)));
        let runs = merged(&bytes);
        prop_assert_eq!(layout.runs(count).unwrap().collect::<Vec<_>>(), runs.clone());
        let single = layout.as_run(count).unwrap();
        if let Some(run) = single {
            prop_assert_eq!(merged(&bytes), if run.bytes == 0 { vec![] } else { vec![run] });
        }
        prop_assert!(single.is_some() || runs.len() > 1);
        prop_assert_eq!(layout.is_contiguous(), merged(&typemap.bytes(3)).len() <= 1);
    }

    #[test]
    fn unpacking_restores_packed_data(spec in spec(), count in 0_u64..4) {
        // The layout and its bounds are moved to the buffer's start.
        let (layout, typemap) = (spec.layout(), spec.typemap());
        let (first, end) = layout.span(count).unwrap();
        let moved = Layout::hindexed(&[(1, -first)], &layout).unwrap();
        let moved = moved.resized(0, layout.extent()).unwrap();
        let offsets: Vec<usize> = typemap.bytes(count).iter().map(|offset| (offset - first) as usize).collect();
        let buffer: Vec<u8> = (0..end - first).map(|i| (i % 251 + 1) as u8).collect();

        let mut packed = vec![9];
        moved.pack(count, &buffer, &mut packed).unwrap();
        prop_assert_eq!(&packed[1..], offsets.iter().map(|&at| buffer[at]).collect::<Vec<_>>());

        let data: Vec<u8> = (0..offsets.len()).map(|i| (i % 249 + 1) as u8).collect();
        let (mut target, mut expected) = (vec![0; buffer.len()], vec![0; buffer.len()]);
        moved.unpack(count, &data, &mut target).unwrap();
        offsets.iter().zip(&data).for_each(|(&at, &byte)| expected[at] = byte);
        prop_assert_eq!(&target, &expected);

        if !offsets.is_empty() {
            let longer = data.len() as u64;
            let mismatch = LayoutError::Mismatch { left: longer - 1, right: longer };
            prop_assert_eq!(moved.unpack(count, &data[1..], &mut target), Err(mismatch));
            let short = &buffer[1..];
            let out = LayoutError::OutOfBuffer { first: 0, end: end - first, buffer: short.len() as u64 };
            prop_assert_eq!(moved.pack(count, short, &mut packed), Err(out.clone()));
            prop_assert_eq!(moved.unpack(count, &data, &mut target[1..]), Err(out));
            let before = Layout::hindexed(&[(1, -first - 1)], &layout).unwrap();
            let before = before.resized(0, layout.extent()).unwrap();
            let out = matches!(before.pack(count, &buffer, &mut packed), Err(LayoutError::OutOfBuffer { first: -1, .. }));
            prop_assert!(out);
            prop_assert_eq!(&target, &expected);
            prop_assert_eq!(packed.len(), data.len() + 1);
        }
    }

    #[test]
    fn pairs_walk_both_layouts_in_order(
        (left, right) in prop_oneof![(spec(), spec()), kind().prop_flat_map(|k| (spec_of(Just(k)), spec_of(Just(k))))],
    ) {
        let (a, b) = (left.layout(), right.layout());
        let whole = gcd(a.size(), b.size()).max(1);
        // Both have the same number of bytes, if both have data and not too many.
        let (a_count, b_count) = (b.size() / whole % 64, a.size() / whole % 64);
        let (a_bytes, b_bytes) = (left.typemap().bytes(a_count), right.typemap().bytes(b_count));
        let pieces = pair_runs(&a, a_count, &b, b_count);
        if a_bytes.len() != b_bytes.len() {
            let mismatch = LayoutError::Mismatch { left: a_bytes.len() as u64, right: b_bytes.len() as u64 };
            prop_assert_eq!(pieces.err(), Some(mismatch));
            return Ok(());
        }
        let mut expected: Vec<Piece> = Vec::new();
        for (&left, &right) in a_bytes.iter().zip(&b_bytes) {
            match expected.last_mut() {
                Some(piece)
                    if (piece.left + piece.bytes as i64, piece.right + piece.bytes as i64) == (left, right) =>
                {
                    piece.bytes += 1;
                }
                _ => expected.push(Piece { left, right, bytes: 1 }),
            }
        }
        prop_assert_eq!(pieces.unwrap().collect::<Vec<_>>(), expected);
        for kind in [a.kind(), b.kind(), Some(ElementKind::I64)].into_iter().flatten() {
            match pair_elements(&a, a_count, &b, b_count, kind.size()) {
                Ok(mut pieces) => prop_assert!(pieces.all(|piece| piece.bytes.is_multiple_of(kind.size()))),
                Err(_) => prop_assert!(!(a.is_all(kind) && b.is_all(kind))),
            }
        }
    }
}

#[test]
fn bounds_agree_with_c() {
    let (double, byte) = (Layout::of::<f64>(), Layout::of::<i8>());
    let structure = Layout::structure(&[(1, 0, &double), (1, 8, &byte)]).unwrap();
    assert_eq!((structure.size(), structure.extent(), structure.kind()), (9, 16, None));
    // Bounds that were set outweigh the data's own bounds.
    let set = double.resized(-8, 32).unwrap();
    let structure = Layout::structure(&[(1, 8, &set), (1, 100, &byte)]).unwrap();
    assert_eq!((structure.lower_bound(), structure.extent(), structure.true_bounds()), (0, 32, (8, 101)));
    assert_eq!(Layout::contiguous(0, &double).unwrap().extent(), 0);
}

#[test]
fn the_memory_of_a_layout_depends_on_its_description_only() {
    let million = Layout::vector(1 << 40, 1, 2, &Layout::of::<f64>()).unwrap();
    assert_eq!(million.body.parts, 1);
    let runs = million.runs(1).unwrap();
    assert_eq!(runs.stack.capacity(), 0);
    assert_eq!(runs.skip(2).step_by(1000).nth(1), Some(Run { offset: 1002 * 16, bytes: 8 }));
    // Rows of a vector continue each other: one level. A box of three dimensions: two.
    let all = Layout::contiguous(5, &gap(ElementKind::F64)).unwrap();
    assert_eq!(Layout::contiguous(3, &all).unwrap().body.parts, 1);
    let cube = Layout::subarray(&[9, 9, 9], &[3, 3, 3], &[1, 1, 1], Order::C, &Layout::of::<i32>()).unwrap();
    assert_eq!((cube.body.parts, cube.body.depth, cube.runs(1).unwrap().count()), (2, 2, 9));
    // Whole planes are a run each, and a whole array is one.
    let planes = Layout::subarray(&[9, 9, 9], &[3, 9, 9], &[1, 0, 0], Order::C, &Layout::of::<i32>()).unwrap();
    assert_eq!(planes.as_run(1), Ok(Some(Run { offset: 324, bytes: 972 })));
}

#[test]
fn mixed_structures_are_not_whole_elements() {
    let (int, double) = (Layout::of::<i32>(), Layout::of::<f64>());
    let mixed = Layout::structure(&[(1, 0, &int), (1, 4, &double)]).unwrap();
    let doubles = Layout::contiguous(3, &double).unwrap();
    let refused = pair_elements(&mixed, 2, &doubles, 1, 8).err();
    assert_eq!(refused, Some(LayoutError::Elements { element: 8, grain: 4 }));
    assert_eq!(pair_elements(&mixed, 2, &doubles, 1, 4).unwrap().map(|piece| piece.bytes).sum::<u64>(), 24);
    assert_eq!(pair_elements(&mixed, 2, &doubles, 1, 0).err(), Some(LayoutError::Elements { element: 0, grain: 4 }));
    let pair = Layout::of::<Pair<f64, i64>>();
    assert_eq!(pair_elements(&pair, 1, &pair, 1, 16).unwrap().count(), 1);
}

#[test]
fn overlapping_data_are_kept_in_order() {
    let twice = Layout::hindexed(&[(1, 0), (1, 0), (1, 1)], &Layout::of::<i16>()).unwrap();
    let mut target = [0; 3];
    twice.unpack(1, &[1, 2, 3, 4, 5, 6], &mut target).unwrap();
    assert_eq!(target, [3, 5, 6]);
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let overflow = |layout: Result<Layout>| assert!(matches!(layout, Err(LayoutError::Overflow { .. })), "{layout:?}");
    let (int, byte) = (Layout::of::<i32>(), Layout::of::<u8>());
    let top = i64::MAX as u64;
    overflow(Layout::contiguous(u64::MAX, &int));
    overflow(Layout::contiguous(top, &int));
    overflow(Layout::contiguous(top + 1, &byte));
    let longest = Layout::contiguous(top, &byte).unwrap();
    assert_eq!(longest.as_run(1), Ok(Some(Run { offset: 0, bytes: top })));
    assert!(longest.runs(2).is_err() && longest.span(2).is_err() && longest.total(3).is_err());
    overflow(Layout::vector(2, 1, i64::MAX, &int));
    overflow(Layout::hvector(u64::MAX, 1, i64::MIN, &int));
    overflow(Layout::hvector(3, 1, i64::MAX, &byte));
    // Any number of copies of the same bytes, as long as they can be counted.
    assert_eq!(Layout::hvector(u64::MAX, 1, 0, &byte).unwrap().size(), u64::MAX);
    overflow(Layout::hvector(u64::MAX, 2, 0, &byte));
    overflow(Layout::indexed(&[(1, i64::MIN)], &int));
    overflow(Layout::hindexed(&[(1, i64::MAX)], &int));
    overflow(Layout::hindexed(&[(1, i64::MIN), (1, i64::MAX - 8)], &byte));
    overflow(Layout::subarray(&[1 << 32, 1 << 32], &[1, 1], &[0, 0], Order::C, &byte));
    overflow(int.resized(i64::MAX, 1));
    assert_eq!(byte.resized(i64::MAX, -4).unwrap().lower_bound(), i64::MAX);
    let refused = Layout::subarray(&[4, 4], &[2, 2], &[0, 3], Order::C, &int);
    assert_eq!(refused, Err(LayoutError::Subarray { dimension: 1, size: 4, subsize: 2, start: 3 }));
    let refused = Layout::subarray(&[4, 4], &[2], &[0, 3], Order::Fortran, &int);
    assert_eq!(refused, Err(LayoutError::Dimensions { sizes: 2, subsizes: 1, starts: 2 }));
    let mut packed = Vec::new();
    let everything = Layout::hvector(u64::MAX, 1, 0, &byte).unwrap();
    assert_eq!(everything.pack(1, &[7], &mut packed), Err(LayoutError::OutOfMemory { bytes: u64::MAX }));
}

#[test]
fn depth_and_parts_are_limited() {
    // Each level has two parts, so the number of parts doubles from level to level.
    let double = |inner: &Layout| Layout::hindexed(&[(1, 0), (1, 1 << 40)], inner);
    let mut layout = Layout::of::<i8>();
    let error = loop {
        match double(&layout) {
            Ok(next) => layout = next,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LayoutError::TooComplex { parts, .. } if parts > MAX_PARTS), "{error}");
    // Each level has one part, which does not fold.
    let mut layout = gap(ElementKind::I8);
    let mut levels = 0;
    let error = loop {
        match Layout::hvector(2, 1, 3 + levels, &layout) {
            Ok(next) => (layout, levels) = (next, levels + 1),
            Err(error) => break error,
        }
    };
    assert_eq!(levels, i64::from(MAX_DEPTH) - 1, "{error}");
}
