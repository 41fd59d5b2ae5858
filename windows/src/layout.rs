//! Data layouts: the bytes of a buffer that an operation touches, and their order (MPI's derived datatypes).
//!
//! # Sources
//!
//! MPI-4.1, sections 5.1.2 (the constructors), 5.1.3 (subarray), 5.1.6 and 5.1.7 (bounds and extent), 5.1.8 (true
//! bounds); 12.3.1 and 12.3.4 (their use at the origin and at the target).
//!
//! # State
//!
//! A layout is a tree of parts. A part is `count` copies of a shape, `stride` bytes apart; a shape is a run of bytes or
//! a list of parts. The tree is as large as the description, not as the data: a vector of a million blocks is one part.
//!
//! # Invariants
//!
//! * I1. Every byte of a layout, and the byte after each run, has an offset within `i64`, and the size is below 2^64.
//!   So sums of offsets on the way down the tree may wrap, and are right at its leaves.
//! * I2. Canonical: no part is empty; a part whose copies touch is one run; a part that holds just one part is folded
//!   into it where the strides agree; neighbouring runs that touch are one. So building a tree anew from its own parts
//!   gives the same tree, and layouts of the same pieces are equal.
//! * I3. The tree is at most [`MAX_DEPTH`] deep and has at most [`MAX_PARTS`] parts.
//! * I4. `grain` divides the bytes of every run: it is the greatest common divisor of the sizes of the elements.
//!
//! # Cost
//!
//! Iteration holds one frame for each level of the tree below the first, and takes a few instructions for each run.
//! Every contiguous layout, and every vector of contiguous blocks, needs no memory at all.

mod describe;
mod error;
mod measure;
mod pack;
mod pairs;
mod runs;
#[cfg(test)]
mod tests;
mod tree;

pub use describe::Order;
pub use error::{LayoutError, MAX_DEPTH, MAX_PARTS};
pub use pairs::{PairRuns, Piece, pair_elements, pair_runs};
pub use runs::Runs;
pub use tree::{Layout, Run};
