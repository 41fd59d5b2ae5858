//! The element types of windows, and the predefined operations that accumulates apply to them.
//!
//! # Sources
//!
//! MPI-4.1, sections 6.9.2 and 6.9.4 (the predefined operations, minloc and maxloc), 12.3.4 (replace, no_op, and that
//! accumulates take predefined operations only) and 12.3.6 (compare-and-swap takes integer, logical and byte types).
//!
//! # The operations of each kind
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
//! # Choices that the standard leaves open
//!
//! * Sums and products of integers wrap.
//! * The minimum or maximum of a number and a NaN is the number. Of values that compare equal (0 and -0), or of two
//!   NaNs, it is the target's value. Minloc and maxloc follow these rules, except that of equal values, or of two NaNs,
//!   they take the pair with the lower index.

mod arithmetic;
mod kind;
mod op;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use kind::{CombineWords, from_word, to_word};
pub use kind::{Element, ElementKind, Swappable, combine_slice};
pub use num_complex::Complex;
pub use op::Op;
pub use types::{Byte, DoubleInt, FloatInt, Logical, LongInt, Pair, ShortInt, TwoInt};
