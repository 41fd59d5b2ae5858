//! What a window holds: element types, and the predefined operations that accumulates apply to them.
//!
//! # Sources
//!
//! MPI-4.1, sections 6.9.2 and 6.9.4 (the predefined operations, minloc and maxloc), 12.3.4 (replace, no_op, and that
//! accumulates take predefined operations only) and 12.3.6 (compare-and-swap takes integer, logical and byte types).
//!
//! # Which operation on which kind
//!
//! | operations | integers | floats | pairs |
//! | --- | --- | --- | --- |
//! | sum, prod, min, max | yes | yes | no |
//! | land, lor, lxor, band, bor, bxor | yes | no | no |
//! | minloc, maxloc | no | no | yes |
//! | replace, no_op | yes | yes | yes |
//!
//! [`Op::is_defined_for`] is this table.
//!
//! # What the standard leaves open
//!
//! * Sums and products of integers wrap.
//! * The minimum or maximum of a number and a NaN is the number; of values that compare equal (0 and -0), or of two
//!   NaNs, the target's. So do minloc and maxloc, but of equal values, or of two NaNs, they take the pair with the
//!   lower index.

use std::cmp::Ordering;
use std::fmt::{Debug, Display, Formatter};
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

mod sealed {
    pub trait Sealed {}
}

/// A type that windows hold and that accumulates combine: integers and floats of 8 to 64 bits, and [`Pair`]s.
///
/// Sealed: the set is that of MPI's predefined types which Rust has. Structures are described by a
/// [`Layout`](crate::Layout) of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element type of windows",
    label = "not an element type",
    note = "accumulates combine integers and floats of 8 to 64 bits, and `Pair`s of them; a structure is described by a `Layout` of these, and `put` and `get` take any `Pod` type"
)]
pub trait Element: sealed::Sealed + Pod + PartialEq + Debug + Send + Sync + 'static {
    /// Which type this is, as a value.
    const KIND: Kind;

    /// Bytes of one element.
    const SIZE: u64 = size_of::<Self>() as u64;

    /// Whether an element fits in a word of the network atomics, so that [`to_word`](Self::to_word) loses nothing.
    const FITS_WORD: bool = size_of::<Self>() <= size_of::<u64>();

    /// What `target` becomes when `origin` is accumulated into it by `op`.
    ///
    /// `target` unchanged if `op` is not defined for this kind; ask [`Op::is_defined_for`] before.
    fn combine(op: Op, target: Self, origin: Self) -> Self;

    /// The element's bytes, in memory order, as the first bytes of a word; the others are 0.
    ///
    /// Of an element for which [`FITS_WORD`](Self::FITS_WORD) does not hold, the first 8 bytes only.
    #[inline(always)]
    fn to_word(self) -> u64 {
        let mut word = [0; size_of::<u64>()];
        let len = size_of::<Self>().min(word.len());
        word[..len].copy_from_slice(&bytemuck::bytes_of(&self)[..len]);
        u64::from_ne_bytes(word)
    }

    /// The element whose [`to_word`](Self::to_word) is `word`; bytes beyond the element are ignored, missing ones 0.
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        let mut element = Self::zeroed();
        let len = size_of::<Self>().min(size_of::<u64>());
        bytemuck::bytes_of_mut(&mut element)[..len].copy_from_slice(&word.to_ne_bytes()[..len]);
        element
    }
}

/// The elements that compare-and-swap takes: integers of 8 to 64 bits (MPI-4.1, section 12.3.6).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared and swapped",
    label = "not an integer of 8 to 64 bits",
    note = "`compare_and_swap` takes integers, as in MPI; swap the bits of a float: `f64::to_bits`, `f64::from_bits`"
)]
pub trait Integer: Element + Eq + Ord {}

/// A value and the index where it was found, for minloc and maxloc: two fields of one size, without padding.
///
/// | pair | MPI's type where `int` has 32 and `long` 64 bits |
/// | --- | --- |
/// | `Pair<f32, i32>` | `MPI_FLOAT_INT` |
/// | `Pair<i32, i32>` | `MPI_2INT`, and Fortran's `MPI_2INTEGER` |
/// | `Pair<u32, u32>`, `Pair<u64, u64>` | none: unsigned counterparts |
/// | `Pair<f64, i64>` | instead of `MPI_DOUBLE_INT`, and of `MPI_2DOUBLE_PRECISION` |
/// | `Pair<i64, i64>` | instead of `MPI_LONG_INT` |
/// | `Pair<i16, i16>` | instead of `MPI_SHORT_INT` |
///
/// `MPI_DOUBLE_INT`, `MPI_LONG_INT` and `MPI_SHORT_INT` are C structures with padding, which holds no values that safe
/// code could copy; so they are not here. `MPI_2REAL` and `MPI_2DOUBLE_PRECISION` keep an index in a float only because
/// Fortran has no mixed pairs; `MPI_LONG_DOUBLE_INT` has no Rust type.
///
/// In memory it is the value, then the index, each of I's size and alignment, as the C structure of the two is.
///
/// ```
/// use rmalab_windows::{Element, Op, Pair};
///
/// let lowest = Pair::combine(Op::MinLoc, Pair::new(2.5_f32, 7), Pair::new(2.5, 3));
/// assert_eq!((lowest.value(), lowest.index()), (2.5, 3));
/// ```
#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(transparent)]
pub struct Pair<V, I> {
    /// The value's bits, and the index: fields of one type, so that the compiler can see that no padding is between.
    fields: [I; 2],
    value: PhantomData<V>,
}

impl<V: Pod, I: Pod> Pair<V, I> {
    /// A value and its index. Types of different sizes do not compile.
    #[inline(always)]
    pub fn new(value: V, index: I) -> Pair<V, I> {
        const { assert!(size_of::<V>() == size_of::<I>(), "a pair's fields have the same size") };
        Pair { fields: [bytemuck::cast(value), index], value: PhantomData }
    }

    /// The value.
    #[inline(always)]
    pub fn value(self) -> V {
        bytemuck::cast(self.fields[0])
    }

    /// The index.
    #[inline(always)]
    pub fn index(self) -> I {
        self.fields[1]
    }
}

/// As the fields compare: a pair whose value is a NaN is not equal to itself.
impl<V: Pod + PartialEq, I: Pod + PartialEq> PartialEq for Pair<V, I> {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value() && self.index() == other.index()
    }
}

impl<V: Pod + Debug, I: Pod + Debug> Debug for Pair<V, I> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("value", &self.value()).field("index", &self.index()).finish()
    }
}

/// An operation of accumulates: what becomes of the target's element, given the origin's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// Their sum (`MPI_SUM`); integers wrap.
    Sum,
    /// Their product (`MPI_PROD`); integers wrap.
    Prod,
    /// The lesser (`MPI_MIN`); the number if the other is a NaN; of equal ones, or of two NaNs, the target's.
    Min,
    /// The greater (`MPI_MAX`); the number if the other is a NaN; of equal ones, or of two NaNs, the target's.
    Max,
    /// 1 if neither is 0, else 0 (`MPI_LAND`).
    LogicalAnd,
    /// 1 unless both are 0, else 0 (`MPI_LOR`).
    LogicalOr,
    /// 1 if one of them is 0 and the other is not, else 0 (`MPI_LXOR`).
    LogicalXor,
    /// The bits that both have (`MPI_BAND`).
    BitAnd,
    /// The bits that either has (`MPI_BOR`).
    BitOr,
    /// The bits that one of them has (`MPI_BXOR`).
    BitXor,
    /// The origin's (`MPI_REPLACE`).
    Replace,
    /// The target's (`MPI_NO_OP`).
    NoOp,
    /// The pair with the lesser value, or with the number if the other is a NaN; of equal values, or of two NaNs, the one
    /// with the lower index (`MPI_MINLOC`).
    MinLoc,
    /// The pair with the greater value, or with the number if the other is a NaN; of equal values, or of two NaNs, the one
    /// with the lower index (`MPI_MAXLOC`).
    MaxLoc,
}

impl Op {
    /// All of them; the one at place i has [`code`](Self::code) i.
    pub const ALL: [Op; 14] = [
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::LogicalAnd,
        Op::LogicalOr,
        Op::LogicalXor,
        Op::BitAnd,
        Op::BitOr,
        Op::BitXor,
        Op::Replace,
        Op::NoOp,
        Op::MinLoc,
        Op::MaxLoc,
    ];

    /// A number for it, for messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The operation with that [`code`](Self::code), if there is one.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.get(usize::from(code)).copied()
    }

    /// Whether it may be used on elements of this kind.
    ///
    /// Sum, prod, min and max on integers and floats; logical and bitwise operations on integers; minloc and maxloc on
    /// pairs; replace and no_op on all.
    #[inline]
    pub const fn is_defined_for(self, kind: Kind) -> bool {
        match self {
            Op::Sum | Op::Prod | Op::Min | Op::Max => !kind.is_pair(),
            Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor | Op::BitAnd | Op::BitOr | Op::BitXor => kind.is_integer(),
            Op::Replace | Op::NoOp => true,
            Op::MinLoc | Op::MaxLoc => kind.is_pair(),
        }
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Op::Sum => "sum",
            Op::Prod => "prod",
            Op::Min => "min",
            Op::Max => "max",
            Op::LogicalAnd => "land",
            Op::LogicalOr => "lor",
            Op::LogicalXor => "lxor",
            Op::BitAnd => "band",
            Op::BitOr => "bor",
            Op::BitXor => "bxor",
            Op::Replace => "replace",
            Op::NoOp => "no_op",
            Op::MinLoc => "minloc",
            Op::MaxLoc => "maxloc",
        })
    }
}

/// Combines slices element by element: `target[i]` becomes [`combine`](Element::combine)`(op, target[i], origin[i])`.
///
/// The longer slice's rest is left out. If `op` is not defined for the kind, nothing changes.
pub fn combine_slice<T: Element>(op: Op, target: &mut [T], origin: &[T]) {
    // One loop for each operation, known to the compiler, so that each is vectorised.
    macro_rules! loops {
        ($($op:ident)*) => {
            match op {
                $(Op::$op => {
                    for (target, origin) in target.iter_mut().zip(origin) {
                        *target = T::combine(Op::$op, *target, *origin);
                    }
                })*
            }
        };
    }
    loops!(Sum Prod Min Max LogicalAnd LogicalOr LogicalXor BitAnd BitOr BitXor Replace NoOp MinLoc MaxLoc);
}

/// [`combine_slice`] on bytes, which need not be aligned; a rest shorter than an element is left out.
fn combine_bytes<T: Element>(op: Op, target: &mut [u8], origin: &[u8]) {
    let len = target.len().min(origin.len()) / size_of::<T>() * size_of::<T>();
    let (target, origin) = (&mut target[..len], &origin[..len]);
    if let (Ok(target), Ok(origin)) = (bytemuck::try_cast_slice_mut(target), bytemuck::try_cast_slice(origin)) {
        return combine_slice::<T>(op, target, origin);
    }
    for (target, origin) in target.chunks_exact_mut(size_of::<T>()).zip(origin.chunks_exact(size_of::<T>())) {
        let combined = T::combine(op, bytemuck::pod_read_unaligned(target), bytemuck::pod_read_unaligned(origin));
        target.copy_from_slice(bytemuck::bytes_of(&combined));
    }
}

/// The kinds: a line for each, with the name of the variant, the type and how it prints.
macro_rules! kinds {
    ($($kind:ident, $type:ty, $name:literal;)*) => {
        /// An [`Element`] type, as a value.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = concat!("`", stringify!($type), "`.")] $kind,)*
        }

        impl Kind {
            /// All of them; the one at place i has [`code`](Self::code) i.
            pub const ALL: [Kind; [$(Kind::$kind),*].len()] = [$(Kind::$kind),*];

            /// Bytes of an element.
            #[inline]
            pub const fn size(self) -> u64 {
                match self {
                    $(Kind::$kind => size_of::<$type>() as u64,)*
                }
            }

            /// Bytes of which an element's address is a multiple where Rust keeps it.
            pub const fn align(self) -> u64 {
                match self {
                    $(Kind::$kind => align_of::<$type>() as u64,)*
                }
            }

            /// [`combine_slice`] on the bytes of elements of this kind, of any alignment.
            ///
            /// What is longer than the other, or than whole elements, is left out. If `op` is not defined for the kind,
            /// nothing changes.
            pub fn combine_bytes(self, op: Op, target: &mut [u8], origin: &[u8]) {
                match self {
                    $(Kind::$kind => combine_bytes::<$type>(op, target, origin),)*
                }
            }
        }

        impl Display for Kind {
            fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Kind::$kind => $name,)*
                })
            }
        }

        $(impl sealed::Sealed for $type {})*
    };
}

kinds! {
    I8, i8, "i8";
    I16, i16, "i16";
    I32, i32, "i32";
    I64, i64, "i64";
    U8, u8, "u8";
    U16, u16, "u16";
    U32, u32, "u32";
    U64, u64, "u64";
    F32, f32, "f32";
    F64, f64, "f64";
    PairI16, Pair<i16, i16>, "pair of i16 and i16";
    PairI32, Pair<i32, i32>, "pair of i32 and i32";
    PairI64, Pair<i64, i64>, "pair of i64 and i64";
    PairU32, Pair<u32, u32>, "pair of u32 and u32";
    PairU64, Pair<u64, u64>, "pair of u64 and u64";
    PairF32I32, Pair<f32, i32>, "pair of f32 and i32";
    PairF64I64, Pair<f64, i64>, "pair of f64 and i64";
}

impl Kind {
    /// A number for it, for messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with that [`code`](Self::code), if there is one.
    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(code)).copied()
    }

    /// Whether it is an integer, and so an [`Integer`].
    pub const fn is_integer(self) -> bool {
        !self.is_pair() && !matches!(self, Kind::F32 | Kind::F64)
    }

    /// Whether it is a [`Pair`].
    pub const fn is_pair(self) -> bool {
        matches!(
            self,
            Kind::PairI16
                | Kind::PairI32
                | Kind::PairI64
                | Kind::PairU32
                | Kind::PairU64
                | Kind::PairF32I32
                | Kind::PairF64I64
        )
    }
}

macro_rules! integers {
    ($($type:ty, $kind:ident;)*) => {$(
        impl Element for $type {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn combine(op: Op, target: Self, origin: Self) -> Self {
                match op {
                    Op::Sum => target.wrapping_add(origin),
                    Op::Prod => target.wrapping_mul(origin),
                    Op::Min => target.min(origin),
                    Op::Max => target.max(origin),
                    Op::LogicalAnd => (target != 0 && origin != 0) as $type,
                    Op::LogicalOr => (target != 0 || origin != 0) as $type,
                    Op::LogicalXor => ((target != 0) != (origin != 0)) as $type,
                    Op::BitAnd => target & origin,
                    Op::BitOr => target | origin,
                    Op::BitXor => target ^ origin,
                    Op::Replace => origin,
                    Op::NoOp | Op::MinLoc | Op::MaxLoc => target,
                }
            }
        }

        impl Integer for $type {}
    )*};
}

integers! {
    i8, I8;
    i16, I16;
    i32, I32;
    i64, I64;
    u8, U8;
    u16, U16;
    u32, U32;
    u64, U64;
}

macro_rules! floats {
    ($($type:ty, $kind:ident;)*) => {$(
        impl Element for $type {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn combine(op: Op, target: Self, origin: Self) -> Self {
                match op {
                    Op::Sum => target + origin,
                    Op::Prod => target * origin,
                    // Not the type's own min and max: which zero they give is open, and so could differ between ranks.
                    Op::Min => if origin < target || target.is_nan() { origin } else { target },
                    Op::Max => if origin > target || target.is_nan() { origin } else { target },
                    Op::Replace => origin,
                    _ => target,
                }
            }
        }
    )*};
}

floats! {
    f32, F32;
    f64, F64;
}

macro_rules! pairs {
    ($($value:ty, $index:ty, $kind:ident;)*) => {$(
        impl Element for Pair<$value, $index> {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn combine(op: Op, target: Self, origin: Self) -> Self {
                match op {
                    Op::MinLoc => located(target, origin, Ordering::Less),
                    Op::MaxLoc => located(target, origin, Ordering::Greater),
                    Op::Replace => origin,
                    _ => target,
                }
            }
        }
    )*};
}

pairs! {
    i16, i16, PairI16;
    i32, i32, PairI32;
    i64, i64, PairI64;
    u32, u32, PairU32;
    u64, u64, PairU64;
    f32, i32, PairF32I32;
    f64, i64, PairF64I64;
}

/// The pair whose value is `wanted` against the other's; any number against a NaN; else the one with the lower index.
#[inline(always)]
fn located<V: Pod + PartialOrd, I: Pod + Ord>(target: Pair<V, I>, origin: Pair<V, I>, wanted: Ordering) -> Pair<V, I> {
    // Only a NaN does not compare with itself.
    let is_nan = |value: V| value.partial_cmp(&value).is_none();
    let (ours, theirs) = (origin.value(), target.value());
    let origin_wins = match ours.partial_cmp(&theirs) {
        Some(Ordering::Equal) => origin.index() < target.index(),
        Some(order) => order == wanted,
        None if is_nan(ours) && is_nan(theirs) => origin.index() < target.index(),
        None => is_nan(theirs),
    };
    if origin_wins { origin } else { target }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Applies `op` to elements, to words, to a slice and to unaligned bytes, which must agree.
    fn apply<T: Element>(op: Op, target: T, origin: T) -> T {
        let combined = T::combine(op, target, origin);
        let mut slice = [target; 3];
        combine_slice(op, &mut slice, &[origin; 2]);
        let bytes = |element: &T| bytemuck::bytes_of(element).to_vec();
        assert_eq!(slice.map(|element| bytes(&element)), [combined, combined, target].map(|element| bytes(&element)));
        for shift in 0..2 {
            let mut of_target = [vec![0; shift], bytes(&target), bytes(&target), vec![7]].concat();
            let of_origin = [vec![0; shift], bytes(&origin), bytes(&origin), vec![9, 9]].concat();
            T::KIND.combine_bytes(op, &mut of_target[shift..], &of_origin[shift..]);
            // An element of one byte is combined with the rest, too.
            let whole = shift + 2 * size_of::<T>();
            assert_eq!(of_target[shift..whole], [bytes(&combined), bytes(&combined)].concat());
        }
        if T::FITS_WORD {
            assert_eq!(bytes(&T::from_word(combined.to_word())), bytes(&combined));
        }
        combined
    }

    #[test]
    fn the_table_of_operations() {
        let defined = |kind: Kind| Op::ALL.map(|op| u8::from(op.is_defined_for(kind)));
        let rows = |kinds: &[Kind], row| kinds.iter().for_each(|kind| assert_eq!(defined(*kind), row, "{kind}"));
        rows(&Kind::ALL[..8], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        rows(&Kind::ALL[8..10], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
        rows(&Kind::ALL[10..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn codes_and_names() {
        for op in Op::ALL {
            assert_eq!(Op::from_code(op.code()), Some(op));
        }
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        assert_eq!((Op::from_code(14), Kind::from_code(17)), (None, None));
        assert_eq!(Op::MinLoc.to_string(), "minloc");
        assert_eq!(i32::KIND.to_string(), "i32");
        assert_eq!(Pair::<f64, i64>::KIND.to_string(), "pair of f64 and i64");
        assert_eq!((Kind::PairF64I64.size(), Kind::PairI16.align()), (16, 2));
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(apply(Op::Sum, i8::MAX, 1), i8::MIN);
        assert_eq!(apply(Op::Prod, u16::MAX, u16::MAX), 1);
        assert_eq!(apply(Op::Sum, u64::MAX, 2), 1);
    }

    #[test]
    fn logical_operations_give_0_or_1() {
        let all = |op| [(0, 0), (0, -3), (5, 0), (5, -3)].map(|(target, origin)| apply(op, target, origin));
        assert_eq!(all(Op::LogicalAnd), [0, 0, 0, 1]);
        assert_eq!(all(Op::LogicalOr), [0, 1, 1, 1]);
        assert_eq!(all(Op::LogicalXor), [0, 1, 1, 0]);
    }

    #[test]
    fn numbers_win_over_nan() {
        for op in [Op::Min, Op::Max] {
            assert_eq!(apply(op, f64::NAN, 2.0), 2.0);
            assert_eq!(apply(op, 2.0, f64::NAN), 2.0);
            assert!(apply(op, f32::NAN, f32::NAN).is_nan());
            assert!(apply(op, -0.0_f64, 0.0).is_sign_negative());
            assert!(apply(op, 0.0_f64, -0.0).is_sign_positive());
        }
        assert_eq!(apply(Op::Min, 1.0, -2.0_f32), -2.0);
        assert_eq!(apply(Op::Max, 1.0, -2.0_f32), 1.0);
    }

    #[test]
    fn pairs_are_located() {
        let low = |target: (f32, i32), origin: (f32, i32)| {
            let pair = apply(Op::MinLoc, Pair::new(target.0, target.1), Pair::new(origin.0, origin.1));
            (pair.value(), pair.index())
        };
        assert_eq!(low((2.0, 1), (1.0, 9)), (1.0, 9));
        assert_eq!(low((1.0, 9), (2.0, 1)), (1.0, 9));
        assert_eq!(low((1.0, 9), (1.0, 1)), (1.0, 1));
        assert_eq!(low((1.0, 1), (1.0, 9)), (1.0, 1));
        assert_eq!(low((f32::NAN, 1), (1.0, 9)), (1.0, 9));
        assert_eq!(low((1.0, 9), (f32::NAN, 1)), (1.0, 9));
        assert_eq!(low((f32::NAN, 2), (f32::NAN, 1)).1, 1);
        let high = apply(Op::MaxLoc, Pair::new(-5_i64, 1), Pair::new(3, 2));
        assert_eq!(high, Pair::new(3, 2));
        assert_ne!(high, Pair::new(3, 1));
    }

    #[test]
    fn a_pair_is_the_value_then_the_index() {
        let pair = Pair::new(1.5_f64, -1_i64);
        assert_eq!(bytemuck::bytes_of(&pair), [1.5_f64.to_ne_bytes(), (-1_i64).to_ne_bytes()].concat());
        assert_eq!(format!("{pair:?}"), "Pair { value: 1.5, index: -1 }");
    }

    #[test]
    fn words_hold_the_bytes_in_memory_order() {
        assert_eq!(0x1234_u16.to_word().to_ne_bytes()[..2], 0x1234_u16.to_ne_bytes());
        assert_eq!((-1_i8).to_word().to_ne_bytes(), [255, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(u16::from_word(u64::MAX), u16::MAX);
        // Of a longer element the first 8 bytes.
        assert_eq!(Pair::<i64, i64>::from_word(Pair::new(7_i64, 8_i64).to_word()), Pair::new(7, 0));
    }

    #[test]
    fn what_is_not_defined_changes_nothing() {
        for op in Op::ALL {
            if !op.is_defined_for(Kind::F64) {
                assert_eq!(apply(op, 3.0, 5.0), 3.0, "{op}");
            }
            if !op.is_defined_for(Kind::PairI32) {
                assert_eq!(apply(op, Pair::new(3, 4), Pair::new(1, 1)), Pair::new(3, 4), "{op}");
            }
            if !op.is_defined_for(Kind::U8) {
                assert_eq!(apply(op, 3_u8, 5), 3, "{op}");
            }
        }
    }

    proptest! {
        #[test]
        fn integers_as_in_wide_arithmetic(target: i32, origin: i32) {
            let wide = |op| match op {
                Op::Sum => (i64::from(target) + i64::from(origin)) as i32,
                Op::Prod => (i64::from(target) * i64::from(origin)) as i32,
                Op::Min => if target < origin { target } else { origin },
                Op::Max => if target < origin { origin } else { target },
                Op::BitAnd => !(!target | !origin),
                Op::BitOr => !(!target & !origin),
                Op::BitXor => (target | origin) & !(target & origin),
                Op::Replace => origin,
                _ => target,
            };
            for op in [Op::Sum, Op::Prod, Op::Min, Op::Max, Op::BitAnd, Op::BitOr, Op::BitXor, Op::Replace, Op::NoOp] {
                prop_assert_eq!(apply(op, target, origin), wide(op), "{}", op);
            }
        }

        #[test]
        fn locating_does_not_depend_on_the_order(a: (i16, i16), b: (i16, i16), c: (i16, i16)) {
            for op in [Op::MinLoc, Op::MaxLoc] {
                let [a, b, c] = [a, b, c].map(|(value, index)| Pair::new(value % 4, index % 4));
                prop_assert_eq!(apply(op, a, b), apply(op, b, a));
                prop_assert_eq!(apply(op, apply(op, a, b), c), apply(op, a, apply(op, b, c)));
            }
        }
    }
}
