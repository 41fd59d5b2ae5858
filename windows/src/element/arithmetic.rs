//! The result of each operation on two elements of each type.

use std::cmp::Ordering;

use num_complex::Complex;

use super::kind::{Element, ElementKind, Swappable};
use super::op::Op;
use super::types::{Byte, DoubleInt, Logical, LongInt, Pair, ShortInt};

macro_rules! integers {
    ($($type:ty, $kind:ident;)*) => {$(
        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;

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
            const KIND: ElementKind = ElementKind::$kind;

            #[inline(always)]
            fn combine(op: Op, target: Self, origin: Self) -> Self {
                match op {
                    Op::Sum => target + origin,
                    Op::Prod => target * origin,
                    // This does not use the type's own min and max, since the sign of a zero that they return is not
                    // specified, and could differ between ranks.
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
            const KIND: ElementKind = ElementKind::$kind;

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
    const KIND: ElementKind = ElementKind::Logical;

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
    const KIND: ElementKind = ElementKind::Byte;

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
            const KIND: ElementKind = ElementKind::$kind;

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

/// Returns whether the origin's pair of value and index replaces the target's. It does if its value compares as `wanted`, or is
/// a number where the target's is a NaN. If neither value is preferred, the lower index wins.
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
