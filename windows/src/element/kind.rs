//! Elements, their kinds, and the combination of slices.

use std::fmt::{Debug, Display, Formatter};

use bytemuck::Pod;
use num_complex::Complex;

use super::op::Op;
use super::types::{Byte, DoubleInt, Logical, LongInt, Pair, ShortInt};

mod sealed {
    #[expect(unnameable_types, reason = "no other crate implements `Element`")]
    pub trait Sealed {}
}

/// A type that accumulates combine: integers and floats of 8 to 64 bits, [`Complex`] numbers, [`Logical`], [`Byte`], and
/// pairs of a value and an index.
///
/// Sealed: the set has those predefined types of MPI that Rust has. A [`Layout`](crate::Layout) of these describes a
/// structure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element type of windows",
    label = "not an element type",
    note = "accumulates combine integers and floats of 8 to 64 bits, `Complex`, `Logical`, `Byte` and pairs; a structure is described by a `Layout` of these, and `put` and `get` take any `Pod` type"
)]
pub trait Element: sealed::Sealed + Pod + PartialEq + Debug + Send + Sync + 'static {
    /// The type as a value.
    const KIND: ElementKind;

    /// Bytes of one element.
    const SIZE: u64 = size_of::<Self>() as u64;

    /// True if an element fits in a word of the network atomics, so that [`to_word`](Self::to_word) loses nothing.
    const FITS_WORD: bool = size_of::<Self>() <= size_of::<u64>();

    /// Returns the new value of `target` when `origin` is accumulated into it by `op`.
    ///
    /// Returns `target` unchanged if `op` is not defined for this kind; call [`Op::is_defined_for`] first.
    fn combine(op: Op, target: Self, origin: Self) -> Self;

    /// Returns the element's bytes, in memory order, as the first bytes of a word. The other bytes are 0.
    ///
    /// If [`FITS_WORD`](Self::FITS_WORD) does not hold, the word has only the first 8 bytes.
    #[inline(always)]
    fn to_word(self) -> u64 {
        let mut word = [0; size_of::<u64>()];
        let len = size_of::<Self>().min(word.len());
        word[..len].copy_from_slice(&bytemuck::bytes_of(&self)[..len]);
        u64::from_ne_bytes(word)
    }

    /// Returns the element whose [`to_word`](Self::to_word) is `word`. Bytes beyond the element are ignored, and
    /// missing bytes are 0.
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

impl Op {
    /// Returns whether the operation is defined for elements of this kind.
    ///
    /// Integers and floats have min, max, sum and prod, and complex numbers have sum and prod. Integers and logical
    /// values have logical operations. Integers and bytes have bitwise operations. Pairs have minloc and maxloc. All
    /// kinds have replace and no_op.
    #[inline]
    pub const fn is_defined_for(self, kind: ElementKind) -> bool {
        kind.category().operations() & 1 << self.code() != 0
    }
}

/// Evaluates an expression with `$op` as a constant `$known`, so that the compiler makes a separate loop for each
/// operation.
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
/// Elements that only the longer slice has are ignored. If `op` is not defined for the kind, nothing changes.
pub fn combine_slice<T: Element>(op: Op, target: &mut [T], origin: &[T]) {
    known!(op as OP => for (target, origin) in target.iter_mut().zip(origin) {
        *target = T::combine(OP, *target, *origin);
    });
}

/// Like [`combine_slice`], for bytes of any alignment. A rest that is shorter than an element is ignored.
fn combine_bytes<T: Element>(op: Op, target: &mut [u8], origin: &[u8]) {
    let len = target.len().min(origin.len()) / size_of::<T>() * size_of::<T>();
    let (target, origin) = (&mut target[..len], &origin[..len]);
    if let (Ok(target), Ok(origin)) = (bytemuck::try_cast_slice_mut(target), bytemuck::try_cast_slice(origin)) {
        return combine_slice::<T>(op, target, origin);
    }
    // Bytes that are not aligned are combined in aligned copies.
    const COPIED: usize = 16;
    let (mut to, mut from) = ([T::zeroed(); COPIED], [T::zeroed(); COPIED]);
    let bytes = COPIED * size_of::<T>();
    for (target, origin) in target.chunks_mut(bytes).zip(origin.chunks(bytes)) {
        let count = target.len() / size_of::<T>();
        bytemuck::cast_slice_mut(&mut to[..count]).copy_from_slice(target);
        bytemuck::cast_slice_mut(&mut from[..count]).copy_from_slice(origin);
        combine_slice(op, &mut to[..count], &from[..count]);
        target.copy_from_slice(bytemuck::cast_slice(&to[..count]));
    }
}

/// Combines two elements of at most 8 bytes, given and returned as words (see [`Element::to_word`]).
pub(crate) type CombineWords = fn(target: u64, origin: u64) -> u64;

/// The operations on words of elements of type `T`; the function at index i belongs to the operation with code i.
const fn combine_words<T: Element>() -> [CombineWords; Op::ALL.len()] {
    macro_rules! words {
        ($($op:ident)*) => {
            [$(|target, origin| T::combine(Op::$op, T::from_word(target), T::from_word(origin)).to_word()),*]
        };
    }
    words!(Sum Prod Min Max LogicalAnd LogicalOr LogicalXor BitAnd BitOr BitXor Replace NoOp MinLoc MaxLoc)
}

/// Returns the bytes of an element of at most 8 bytes as a word, like [`Element::to_word`].
#[inline(always)]
pub(crate) fn to_word(element: &[u8]) -> u64 {
    // Each case has a constant length, which is one load.
    match *element {
        [a] => a.to_word(),
        [a, b] => u16::from_ne_bytes([a, b]).to_word(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).to_word(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Writes the element that `word` represents to the bytes of an element of at most 8 bytes.
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
    /// Returns the operations of its kinds; the bit of each is its code.
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

/// Defines the kinds: a line for each, with its category, the name of the variant, the type and the printed name.
macro_rules! kinds {
    ($($category:ident $kind:ident, $type:ty, $name:literal;)*) => {
        /// An [`Element`] type, as a value.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum ElementKind {
            $(#[doc = concat!("`", stringify!($type), "`.")] $kind,)*
        }

        impl ElementKind {
            /// All kinds; the kind at index i has [`code`](Self::code) i.
            pub const ALL: [ElementKind; [$(ElementKind::$kind),*].len()] = [$(ElementKind::$kind),*];

            /// Bytes of an element.
            #[inline]
            pub const fn size(self) -> u64 {
                match self {
                    $(ElementKind::$kind => size_of::<$type>() as u64,)*
                }
            }

            /// The alignment of an element in Rust, in bytes.
            pub const fn align(self) -> u64 {
                match self {
                    $(ElementKind::$kind => align_of::<$type>() as u64,)*
                }
            }

            const fn category(self) -> Category {
                match self {
                    $(ElementKind::$kind => Category::$category,)*
                }
            }

            /// Like [`combine_slice`], for the bytes of elements of this kind, which need not be aligned.
            ///
            /// Bytes that only the longer slice has are ignored, and so is a rest shorter than an element. If `op` is not
            /// defined for the kind, nothing changes.
            pub fn combine_bytes(self, op: Op, target: &mut [u8], origin: &[u8]) {
                match self {
                    $(ElementKind::$kind => combine_bytes::<$type>(op, target, origin),)*
                }
            }

            /// Returns the function that combines two elements of this kind as words, by `op`. The kind's elements fit
            /// in a word.
            #[inline]
            pub(crate) fn combine_words(self, op: Op) -> CombineWords {
                static ALL: [[CombineWords; Op::ALL.len()]; ElementKind::ALL.len()] = [$(combine_words::<$type>()),*];
                ALL[usize::from(self.code())][usize::from(op.code())]
            }
        }

        impl Display for ElementKind {
            fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(ElementKind::$kind => $name,)*
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

impl ElementKind {
    /// Returns the kind's number in messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind with that [`code`](Self::code), if there is one.
    pub fn from_code(code: u8) -> Option<ElementKind> {
        ElementKind::ALL.get(usize::from(code)).copied()
    }

    /// Returns whether the kind is an integer.
    pub const fn is_integer(self) -> bool {
        matches!(self.category(), Category::Integer)
    }

    /// Returns whether compare-and-swap accepts the kind: the kinds of the [`Swappable`] types.
    pub const fn is_swappable(self) -> bool {
        matches!(self.category(), Category::Integer | Category::Logical | Category::Byte)
    }

    /// Returns whether the kind is a [`Pair`], or a pair of fields that differ in size.
    pub const fn is_pair(self) -> bool {
        matches!(self.category(), Category::Pair)
    }
}
