//! The errors of layouts.

/// The largest depth of a layout, after contiguous and evenly spaced parts were folded.
pub const MAX_DEPTH: u32 = 64;

/// The largest number of parts (blocks of a list, and lists) of a layout.
pub const MAX_PARTS: u64 = 1 << 26;

/// The result of making or using a layout.
pub(super) type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// An impossible layout, or a layout that does not fit its use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A displacement, extent or size beyond 63 bits.
    #[error("a layout's {what} does not fit in 63 bits")]
    Overflow {
        /// The value that became too large.
        what: &'static str,
    },
    /// More levels than [`MAX_DEPTH`], or more parts than [`MAX_PARTS`].
    #[error("a layout of {depth} levels and {parts} parts: the limits are {MAX_DEPTH} and {MAX_PARTS}")]
    TooComplex {
        /// The number of levels that it would have.
        depth: u32,
        /// The number of parts that it would have.
        parts: u64,
    },
    /// The lists that describe a subarray differ in length.
    #[error(
        "a subarray of {sizes} sizes, {subsizes} subsizes and {starts} starts: give one of each for each dimension"
    )]
    Dimensions {
        /// Length of the list of sizes.
        sizes: usize,
        /// Length of the list of subsizes.
        subsizes: usize,
        /// Length of the list of starts.
        starts: usize,
    },
    /// A subarray that reaches outside of its array.
    #[error("a subarray of {subsize} from {start} in dimension {dimension}, which has {size}")]
    Subarray {
        /// The dimension, counted from 0 in the order of the lists.
        dimension: usize,
        /// The array's size in this dimension.
        size: u64,
        /// The subarray's size in this dimension.
        subsize: u64,
        /// The start of the subarray in this dimension.
        start: u64,
    },
    /// The two ends of a transfer describe different amounts of data.
    #[error("{left} bytes at one end and {right} at the other: both layouts of a transfer must have the same number")]
    Mismatch {
        /// Bytes of the first layout (the packed data, when unpacking).
        left: u64,
        /// Bytes of the second layout.
        right: u64,
    },
    /// A layout whose runs are not always whole elements.
    #[error(
        "elements of {element} bytes in a layout whose smallest unit is {grain} bytes: build it from such elements"
    )]
    Elements {
        /// Bytes of an element.
        element: u64,
        /// A number that divides the bytes of every run of the layout.
        grain: u64,
    },
    /// A layout that reaches outside of its buffer.
    #[error("bytes {first} up to {end} of a buffer of {buffer} bytes: the layout reaches outside of it")]
    OutOfBuffer {
        /// Offset of the layout's first byte from the buffer's start.
        first: i64,
        /// One past the offset of the layout's last byte.
        end: i64,
        /// Bytes of the buffer.
        buffer: u64,
    },
    /// No memory for the packed data.
    #[error("no memory for {bytes} bytes of packed data")]
    OutOfMemory {
        /// The number of bytes that were requested.
        bytes: u64,
    },
}
