//! Element types that Rust lacks: truth values, bytes, pairs.

use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

/// A truth value of one byte: 0 is false, and every other value is true (`MPI_C_BOOL`, `MPI_CXX_BOOL`).
///
/// Rust's `bool` cannot be an element: a peer may write a byte that is neither 0 nor 1. Two values are equal if their
/// bytes are equal; [`new`](Self::new) and the logical operations return only 0 and 1.
///
/// ```
/// use rmalab_windows::{Element, Logical, Op};
///
/// let both = Logical::combine(Op::LogicalAnd, Logical::new(true), Logical::new(false));
/// assert!(!both.value());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Zeroable, Pod)]
#[repr(transparent)]
pub struct Logical(pub(super) u8);

impl Logical {
    /// Returns the element for `value`.
    pub const fn new(value: bool) -> Logical {
        Logical(value as u8)
    }

    /// Returns whether the value is true.
    pub const fn value(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Logical {
    fn from(value: bool) -> Logical {
        Logical::new(value)
    }
}

/// Eight bits that are not a number (`MPI_BYTE`).
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
/// In memory it is the value, then the index, each with the size and alignment of `I`, like the C structure of the two.
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
    /// The value's bits, and the index. The fields have one type, so that the compiler can see that there is no padding
    /// between them.
    fields: [I; 2],
    value: PhantomData<V>,
}

impl<V: Pod, I: Pod> Pair<V, I> {
    /// Makes a pair. Types of different sizes do not compile.
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

/// Compares the fields: a pair whose value is a NaN is not equal to itself.
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

/// Pairs of fields that differ in size: C structures with their padding as a separate field.
macro_rules! padded_pairs {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty,)* } $value:ty, $index:ty;)*) => {$(
        $(#[$meta])*
        ///
        /// In memory it is the C structure of the two fields. Its padding is written as zeros.
        #[derive(Clone, Copy, Zeroable, Pod)]
        #[repr(C)]
        pub struct $name {
            $($field: $type,)*
        }

        impl $name {
            /// Makes a pair.
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

        /// Compares the fields: a pair whose value is a NaN is not equal to itself.
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
