//! Worlds: how many ranks, how much memory each, and where they run.

/// The start of everything: [`World::threads`] or [`World::processes`](World::processes).
#[derive(Debug)]
pub struct World;

/// Bytes of a rank's segment, unless the world is told otherwise.
///
/// Untouched pages cost nothing; this holds the words of a few hundred locks.
pub const SEGMENT_BYTES: u64 = 1 << 20;
