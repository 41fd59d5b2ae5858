//! What a window holds: element types, and the predefined operations that accumulates apply to them.
//!
//! # Sources
//!
//! MPI-4.1, sections 6.9.2 and 6.9.4 (the predefined operations, minloc and maxloc), 12.3.4 (replace, no_op, and that
//! accumulates take predefined operations only) and 12.3.6 (compare-and-swap takes integer, logical and byte types).
//!
//! # Which operation on which kind
//!
//! | operations | integers | floats | complex | logical | bytes | pairs |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | min, max | yes | yes | no | no | no | no |
//! | sum, prod | yes | yes | yes | no | no | no |
//! | land, lor, lxor | yes | no | no | yes | no | no |
//! | band, bor, bxor | yes | no | no | no | yes | no |
//! | minloc, maxloc | no | no | no | no | no | yes |
//! | replace, no_op | yes | yes | yes | yes | yes | yes |
//! | compare-and-swap ([`Swappable`]) | yes | no | no | yes | yes | no |
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
pub use num_complex::Complex;

mod sealed {
    #[expect(unnameable_types, reason = "no other crate implements `Element`")]
    pub trait Sealed {}
}

/// A type that accumulates combine: integers and floats of 8 to 64 bits, [`Complex`] numbers, [`Logical`], [`Byte`], and
/// pairs of a value and an index.
///
/// Sealed: the set is that of MPI's predefined types which Rust has. Structures are described by a
/// [`Layout`](crate::Layout) of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element type of windows",
    label = "not an element type",
    note = "accumulates combine integers and floats of 8 to 64 bits, `Complex`, `Logical`, `Byte` and pairs; a structure is described by a `Layout` of these, and `put` and `get` take any `Pod` type"
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

/// The elements that compare-and-swap takes: integers of 8 to 64 bits, [`Logical`] and [`Byte`] (MPI-4.1, section
/// 12.3.6).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared and swapped",
    label = "not an integer of 8 to 64 bits, `Logical` or `Byte`",
    note = "`compare_and_swap` takes these types only, as in MPI; swap the bits of a float: `f64::to_bits`, `f64::from_bits`"
)]
pub trait Swappable: Element + Eq {}

/// A truth value of one byte: 0 is false, and every other value is true (`MPI_C_BOOL`, `MPI_CXX_BOOL`).
///
/// Rust's `bool` cannot be an element: a peer may write a byte that is neither 0 nor 1. Two values are equal if their
/// bytes are; [`new`](Self::new) and the logical operations give 0 and 1 only.
///
/// ```
/// use rmalab_windows::{Element, Logical, Op};
///
/// let both = Logical::combine(Op::LogicalAnd, Logical::new(true), Logical::new(false));
/// assert!(!both.value());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Zeroable, Pod)]
#[repr(transparent)]
pub struct Logical(u8);

impl Logical {
    /// The element for `value`.
    pub const fn new(value: bool) -> Logical {
        Logical(value as u8)
    }

    /// Whether it is true.
    pub const fn value(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Logical {
    fn from(value: bool) -> Logical {
        Logical::new(value)
    }
}

/// Eight bits that are no number (`MPI_BYTE`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Zeroable, Pod)]
#[repr(transparent)]
pub struct Byte(pub u8);

/// A value and the index where it was found, for minloc and maxloc: two fields of one size, without padding.
///
/// | pair | MPI's type where `int` has 32 and `long` 64 bits |
/// | --- | --- |
/// | `Pair<f32, i32>`, [`FloatInt`] | `MPI_FLOAT_INT` |
/// | `Pair<i32, i32>`, [`TwoInt`] | `MPI_2INT`, and Fortran's `MPI_2INTEGER` |
/// | [`DoubleInt`], [`LongInt`], [`ShortInt`] | `MPI_DOUBLE_INT`, `MPI_LONG_INT`, `MPI_SHORT_INT` |
/// | `Pair<i16, i16>`, `Pair<i64, i64>`, `Pair<f64, i64>` | none: an index of the value's size |
/// | `Pair<u32, u32>`, `Pair<u64, u64>` | none: unsigned counterparts |
///
/// `MPI_2REAL` and `MPI_2DOUBLE_PRECISION` keep an index in a float only because Fortran has no mixed pairs;
/// `MPI_LONG_DOUBLE_INT` has no Rust type.
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

/// `MPI_FLOAT_INT`.
pub type FloatInt = Pair<f32, i32>;

/// `MPI_2INT`.
pub type TwoInt = Pair<i32, i32>;

/// Pairs of fields that differ in size: C structures whose padding is a field of its own.
macro_rules! padded_pairs {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty,)* } $value:ty, $index:ty;)*) => {$(
        $(#[$meta])*
        ///
        /// In memory it is what the C structure of the two fields is; its padding is written as zeros.
        #[derive(Clone, Copy, Zeroable, Pod)]
        #[repr(C)]
        pub struct $name {
            $($field: $type,)*
        }

        impl $name {
            /// A value and its index.
            #[inline(always)]
            pub fn new(value: $value, index: $index) -> $name {
                $name { value, index, ..$name::zeroed() }
            }

            /// The value.
            #[inline(always)]
            pub fn value(self) -> $value {
                self.value
            }

            /// The index.
            #[inline(always)]
            pub fn index(self) -> $index {
                self.index
            }
        }

        /// As the fields compare: a pair whose value is a NaN is not equal to itself.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value == other.value && self.index == other.index
            }
        }

        impl Debug for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("value", &self.value).field("index", &self.index).finish()
            }
        }
    )*};
}

padded_pairs! {
    /// An `f64` and an `i32` index, for minloc and maxloc (`MPI_DOUBLE_INT`).
    DoubleInt { value: f64, index: i32, padding: u32, } f64, i32;
    /// An `i64` and an `i32` index, for minloc and maxloc (`MPI_LONG_INT` where `long` has 64 bits).
    LongInt { value: i64, index: i32, padding: u32, } i64, i32;
    /// An `i16` and an `i32` index, for minloc and maxloc (`MPI_SHORT_INT`).
    ShortInt { value: i16, padding: u16, index: i32, } i16, i32;
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

    /// Returns whether elements of this kind have the operation.
    ///
    /// Min and max on integers and floats; sum and prod on complex numbers, too; logical operations on integers and
    /// logical values; bitwise ones on integers and bytes; minloc and maxloc on pairs; replace and no_op on all.
    #[inline]
    pub const fn is_defined_for(self, kind: Kind) -> bool {
        kind.category().operations() & 1 << self.code() != 0
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

/// Evaluates an expression with `$op` as a constant `$known`, so that the compiler has a loop of its own for each operation.
macro_rules! known {
    ($op:ident as $known:ident => $body:expr) => {
        known!($op as $known => $body; Sum Prod Min Max LogicalAnd LogicalOr LogicalXor BitAnd BitOr BitXor Replace NoOp
            MinLoc MaxLoc)
    };
    ($op:ident as $known:ident => $body:expr; $($name:ident)*) => {
        match $op {
            $(Op::$name => {
                const $known: Op = Op::$name;
                $body
            })*
        }
    };
}

/// Combines slices element by element: `target[i]` becomes [`combine`](Element::combine)`(op, target[i], origin[i])`.
///
/// Elements that only the longer slice has are left out. If `op` is not defined for the kind, nothing changes.
pub fn combine_slice<T: Element>(op: Op, target: &mut [T], origin: &[T]) {
    known!(op as OP => for (target, origin) in target.iter_mut().zip(origin) {
        *target = T::combine(OP, *target, *origin);
    });
}

/// Like [`combine_slice`], on bytes of any alignment; a rest shorter than an element is left out.
fn combine_bytes<T: Element>(op: Op, target: &mut [u8], origin: &[u8]) {
    let len = target.len().min(origin.len()) / size_of::<T>() * size_of::<T>();
    let (target, origin) = (&mut target[..len], &origin[..len]);
    if let (Ok(target), Ok(origin)) = (bytemuck::try_cast_slice_mut(target), bytemuck::try_cast_slice(origin)) {
        return combine_slice::<T>(op, target, origin);
    }
    let pairs = target.chunks_exact_mut(size_of::<T>()).zip(origin.chunks_exact(size_of::<T>()));
    known!(op as OP => for (target, origin) in pairs {
        let combined = T::combine(OP, bytemuck::pod_read_unaligned(target), bytemuck::pod_read_unaligned(origin));
        target.copy_from_slice(bytemuck::bytes_of(&combined));
    });
}

/// Combines two elements of at most 8 bytes, given and returned as words (see [`Element::to_word`]).
pub(crate) type CombineWords = fn(target: u64, origin: u64) -> u64;

/// The operations on words of elements of type `T`; the one at place i is that of the operation with code i.
const fn combine_words<T: Element>() -> [CombineWords; Op::ALL.len()] {
    macro_rules! words {
        ($($op:ident)*) => {
            [$(|target, origin| T::combine(Op::$op, T::from_word(target), T::from_word(origin)).to_word()),*]
        };
    }
    words!(Sum Prod Min Max LogicalAnd LogicalOr LogicalXor BitAnd BitOr BitXor Replace NoOp MinLoc MaxLoc)
}

/// The bytes of an element of at most 8 bytes, as [`Element::to_word`] has them.
#[inline(always)]
pub(crate) fn to_word(element: &[u8]) -> u64 {
    // By constant lengths, each of which is one load.
    match *element {
        [a] => a.to_word(),
        [a, b] => u16::from_ne_bytes([a, b]).to_word(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).to_word(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Writes the element that `word` stands for to the bytes of one, at most 8.
#[inline(always)]
pub(crate) fn from_word(word: u64, element: &mut [u8]) {
    let bytes = word.to_ne_bytes();
    match element.len() {
        1 => element.copy_from_slice(&bytes[..1]),
        2 => element.copy_from_slice(&bytes[..2]),
        4 => element.copy_from_slice(&bytes[..4]),
        8 => element.copy_from_slice(&bytes),
        _ => {}
    }
}

/// Kinds that have the same operations: the standard's groups of types (section 6.9.2).
#[derive(Clone, Copy)]
enum Category {
    Integer,
    Float,
    Complex,
    Logical,
    Byte,
    Pair,
}

impl Category {
    /// The operations that its kinds have: the bit of each is its code.
    const fn operations(self) -> u16 {
        const ALL: u16 = bits(&[Op::Replace, Op::NoOp]);
        const ORDER: u16 = bits(&[Op::Min, Op::Max]);
        const ARITHMETIC: u16 = bits(&[Op::Sum, Op::Prod]);
        const LOGICAL: u16 = bits(&[Op::LogicalAnd, Op::LogicalOr, Op::LogicalXor]);
        const BITWISE: u16 = bits(&[Op::BitAnd, Op::BitOr, Op::BitXor]);
        const LOCATE: u16 = bits(&[Op::MinLoc, Op::MaxLoc]);
        match self {
            Category::Integer => ALL | ORDER | ARITHMETIC | LOGICAL | BITWISE,
            Category::Float => ALL | ORDER | ARITHMETIC,
            Category::Complex => ALL | ARITHMETIC,
            Category::Logical => ALL | LOGICAL,
            Category::Byte => ALL | BITWISE,
            Category::Pair => ALL | LOCATE,
        }
    }
}

/// A set of operations, as bits.
const fn bits(ops: &[Op]) -> u16 {
    let (mut bits, mut i) = (0, 0);
    while i < ops.len() {
        bits |= 1 << ops[i].code();
        i += 1;
    }
    bits
}

/// The kinds: a line for each, with its category, the name of the variant, the type and how it prints.
macro_rules! kinds {
    ($($category:ident $kind:ident, $type:ty, $name:literal;)*) => {
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

            const fn category(self) -> Category {
                match self {
                    $(Kind::$kind => Category::$category,)*
                }
            }

            /// Like [`combine_slice`], on the bytes of elements of this kind, which need not be aligned.
            ///
            /// Bytes that only the longer slice has are left out, and so is a rest that is no whole element. If `op` is not
            /// defined for the kind, nothing changes.
            pub fn combine_bytes(self, op: Op, target: &mut [u8], origin: &[u8]) {
                match self {
                    $(Kind::$kind => combine_bytes::<$type>(op, target, origin),)*
                }
            }

            /// What combines two elements of this kind as words, by `op`. The kind's elements fit in a word.
            #[inline]
            pub(crate) fn combine_words(self, op: Op) -> CombineWords {
                static ALL: [[CombineWords; Op::ALL.len()]; Kind::ALL.len()] = [$(combine_words::<$type>()),*];
                ALL[usize::from(self.code())][usize::from(op.code())]
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
    Integer I8, i8, "i8";
    Integer I16, i16, "i16";
    Integer I32, i32, "i32";
    Integer I64, i64, "i64";
    Integer U8, u8, "u8";
    Integer U16, u16, "u16";
    Integer U32, u32, "u32";
    Integer U64, u64, "u64";
    Float F32, f32, "f32";
    Float F64, f64, "f64";
    Pair PairI16, Pair<i16, i16>, "pair of i16 and i16";
    Pair PairI32, Pair<i32, i32>, "pair of i32 and i32";
    Pair PairI64, Pair<i64, i64>, "pair of i64 and i64";
    Pair PairU32, Pair<u32, u32>, "pair of u32 and u32";
    Pair PairU64, Pair<u64, u64>, "pair of u64 and u64";
    Pair PairF32I32, Pair<f32, i32>, "pair of f32 and i32";
    Pair PairF64I64, Pair<f64, i64>, "pair of f64 and i64";
    Pair DoubleInt, DoubleInt, "pair of f64 and i32";
    Pair LongInt, LongInt, "pair of i64 and i32";
    Pair ShortInt, ShortInt, "pair of i16 and i32";
    Complex ComplexF32, Complex<f32>, "complex f32";
    Complex ComplexF64, Complex<f64>, "complex f64";
    Logical Logical, Logical, "logical";
    Byte Byte, Byte, "byte";
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

    /// Returns whether it is an integer.
    pub const fn is_integer(self) -> bool {
        matches!(self.category(), Category::Integer)
    }

    /// Returns whether compare-and-swap takes it: the kinds of the [`Swappable`] types.
    pub const fn is_swappable(self) -> bool {
        matches!(self.category(), Category::Integer | Category::Logical | Category::Byte)
    }

    /// Returns whether it is a [`Pair`], or a pair of fields that differ in size.
    pub const fn is_pair(self) -> bool {
        matches!(self.category(), Category::Pair)
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

        impl Swappable for $type {}
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

macro_rules! complex {
    ($($type:ty, $kind:ident;)*) => {$(
        impl Element for Complex<$type> {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn combine(op: Op, target: Self, origin: Self) -> Self {
                match op {
                    Op::Sum => target + origin,
                    Op::Prod => target * origin,
                    Op::Replace => origin,
                    _ => target,
                }
            }
        }
    )*};
}

complex! {
    f32, ComplexF32;
    f64, ComplexF64;
}

impl Element for Logical {
    const KIND: Kind = Kind::Logical;

    #[inline(always)]
    fn combine(op: Op, target: Self, origin: Self) -> Self {
        match op {
            Op::LogicalAnd => Logical::new(target.value() && origin.value()),
            Op::LogicalOr => Logical::new(target.value() || origin.value()),
            Op::LogicalXor => Logical::new(target.value() != origin.value()),
            Op::Replace => origin,
            _ => target,
        }
    }
}

impl Swappable for Logical {}

impl Element for Byte {
    const KIND: Kind = Kind::Byte;

    #[inline(always)]
    fn combine(op: Op, target: Self, origin: Self) -> Self {
        match op {
            Op::BitAnd => Byte(target.0 & origin.0),
            Op::BitOr => Byte(target.0 | origin.0),
            Op::BitXor => Byte(target.0 ^ origin.0),
            Op::Replace => origin,
            _ => target,
        }
    }
}

impl Swappable for Byte {}

macro_rules! pairs {
    ($($type:ty, $kind:ident;)*) => {$(
        impl Element for $type {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn combine(op: Op, target: Self, origin: Self) -> Self {
                let wanted = match op {
                    Op::MinLoc => Ordering::Less,
                    Op::MaxLoc => Ordering::Greater,
                    Op::Replace => return origin,
                    _ => return target,
                };
                let (old, new) = ((target.value(), target.index()), (origin.value(), origin.index()));
                if origin_wins(old, new, wanted) { origin } else { target }
            }
        }
    )*};
}

pairs! {
    Pair<i16, i16>, PairI16;
    Pair<i32, i32>, PairI32;
    Pair<i64, i64>, PairI64;
    Pair<u32, u32>, PairU32;
    Pair<u64, u64>, PairU64;
    Pair<f32, i32>, PairF32I32;
    Pair<f64, i64>, PairF64I64;
    DoubleInt, DoubleInt;
    LongInt, LongInt;
    ShortInt, ShortInt;
}

/// Whether the origin's pair of value and index replaces the target's: its value is `wanted` against the target's, or a
/// number against a NaN, or neither is preferred and it has the lower index.
#[inline(always)]
fn origin_wins<V: Copy + PartialOrd, I: Copy + Ord>(target: (V, I), origin: (V, I), wanted: Ordering) -> bool {
    // Only a NaN does not compare with itself.
    let is_nan = |value: V| value.partial_cmp(&value).is_none();
    let (ours, theirs) = (origin.0, target.0);
    match ours.partial_cmp(&theirs) {
        Some(Ordering::Equal) => origin.1 < target.1,
        Some(order) => order == wanted,
        None if is_nan(ours) && is_nan(theirs) => origin.1 < target.1,
        None => is_nan(theirs),
    }
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
            let mut of_word = bytes(&target);
            from_word(T::KIND.combine_words(op)(to_word(&bytes(&target)), to_word(&bytes(&origin))), &mut of_word);
            assert_eq!(of_word, bytes(&combined));
        }
        combined
    }

    #[test]
    fn the_table_of_operations() {
        let defined = |kind: Kind| Op::ALL.map(|op| u8::from(op.is_defined_for(kind)));
        let rows = |kinds: &[Kind], row| kinds.iter().for_each(|kind| assert_eq!(defined(*kind), row, "{kind}"));
        rows(&Kind::ALL[..8], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        rows(&Kind::ALL[8..10], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
        rows(&Kind::ALL[10..20], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
        rows(&Kind::ALL[20..22], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
        rows(&[Kind::Logical], [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0]);
        rows(&[Kind::Byte], [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]);
        let swappable: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_swappable()).collect();
        assert_eq!(swappable, [&Kind::ALL[..8], &[Kind::Logical, Kind::Byte]].concat());
    }

    #[test]
    fn codes_and_names() {
        for op in Op::ALL {
            assert_eq!(Op::from_code(op.code()), Some(op));
        }
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        assert_eq!((Op::from_code(14), Kind::from_code(24)), (None, None));
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
        let double = apply(Op::MaxLoc, DoubleInt::new(2.5, 7), DoubleInt::new(2.5, 3));
        assert_eq!((double.value(), double.index()), (2.5, 3));
        assert_eq!(apply(Op::MinLoc, LongInt::new(i64::MIN, 1), LongInt::new(0, 0)), LongInt::new(i64::MIN, 1));
        assert_eq!(apply(Op::MinLoc, ShortInt::new(1, 70_000), ShortInt::new(-1, 90_000)), ShortInt::new(-1, 90_000));
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

    /// C puts the index of a short at the next multiple of its size, and rounds a structure's size up to its alignment.
    #[test]
    fn pairs_of_two_sizes_are_those_of_c() {
        let bytes = |value: &[u8], index: i32| [value, &index.to_ne_bytes()].concat();
        let padded = |value: &[u8], index| [bytes(value, index), vec![0; 4]].concat();
        assert_eq!(bytemuck::bytes_of(&DoubleInt::new(1.5, -1)), padded(&1.5_f64.to_ne_bytes(), -1));
        assert_eq!(bytemuck::bytes_of(&LongInt::new(7, -1)), padded(&7_i64.to_ne_bytes(), -1));
        let short = [7_i16.to_ne_bytes(), [0; 2]].concat();
        assert_eq!(bytemuck::bytes_of(&ShortInt::new(7, -1)), bytes(&short, -1));
        assert_eq!(
            [Kind::DoubleInt, Kind::LongInt, Kind::ShortInt].map(|kind| (kind.size(), kind.align())),
            [(16, 8), (16, 8), (8, 4)]
        );
        assert_eq!(format!("{:?}", ShortInt::new(7, 3)), "ShortInt { value: 7, index: 3 }");
        // What a C program has left in the padding is no part of the value.
        let dirty = [short[..2].to_vec(), vec![0xA5; 2], 3_i32.to_ne_bytes().to_vec()].concat();
        assert_eq!(bytemuck::pod_read_unaligned::<ShortInt>(&dirty), ShortInt::new(7, 3));
    }

    #[test]
    fn complex_numbers_are_added_and_multiplied() {
        let (a, b) = (Complex::new(1.0_f64, 2.0), Complex::new(3.0, -1.0));
        assert_eq!(apply(Op::Sum, a, b), Complex::new(4.0, 1.0));
        assert_eq!(apply(Op::Prod, a, b), Complex::new(5.0, 5.0));
        assert_eq!(apply(Op::Replace, Complex::new(1.0_f32, 2.0), Complex::new(0.5, 0.0)), Complex::new(0.5, 0.0));
        assert_eq!(bytemuck::bytes_of(&a), [1.0_f64.to_ne_bytes(), 2.0_f64.to_ne_bytes()].concat());
    }

    #[test]
    fn logical_values_and_bytes_have_operations_of_their_own() {
        let truth = |op| [(0, 0), (0, 2), (1, 0), (1, 2)].map(|(a, b)| apply(op, Logical(a), Logical(b)).0);
        assert_eq!(truth(Op::LogicalAnd), [0, 0, 0, 1]);
        assert_eq!(truth(Op::LogicalOr), [0, 1, 1, 1]);
        assert_eq!(truth(Op::LogicalXor), [0, 1, 1, 0]);
        assert_eq!((Logical::from(true), Logical::default()), (Logical::new(true), Logical::new(false)));
        let bits = |op| apply(op, Byte(0b1100), Byte(0b1010)).0;
        assert_eq!([Op::BitAnd, Op::BitOr, Op::BitXor].map(bits), [0b1000, 0b1110, 0b0110]);
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
            if !op.is_defined_for(Kind::ComplexF32) {
                assert_eq!(apply(op, Complex::new(3.0_f32, 4.0), Complex::default()), Complex::new(3.0, 4.0), "{op}");
            }
            if !op.is_defined_for(Kind::Logical) {
                assert_eq!(apply(op, Logical::new(true), Logical::new(false)), Logical::new(true), "{op}");
            }
            if !op.is_defined_for(Kind::Byte) {
                assert_eq!(apply(op, Byte(3), Byte(5)), Byte(3), "{op}");
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
