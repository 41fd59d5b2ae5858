//! Traces of a window's synchronization and communication: recorded by the ranks of a program, read for a replay.
//!
//! A window is recorded when [`Builder::record`](crate::Builder::record), the hint `rmalab_record` or the variable
//! [`RMALAB_RECORD`](crate::Config::RECORD_VARIABLE) names a folder, and never otherwise. Each rank then writes one file of
//! it, `WINDOW-rank-N.trace`. WINDOW is the window's name when it is made, or `window`; where the folder has such a trace
//! already it is `WINDOW-2`, `WINDOW-3`, and so on, the same at all ranks. Nothing is ever overwritten.
//!
//! # What is recorded
//!
//! | call | event |
//! | --- | --- |
//! | lock, lock_all, unlock, unlock_all | one; under `Assert::NoCheck` none for the lock, and a flush for the unlock |
//! | put, get and their forms with layouts, with requests and in batches | one, with the bytes of data |
//! | accumulate, get_accumulate, fetch_and_op, compare_and_swap and their forms | an update, with the bytes of data |
//! | flush, flush_all; the end of a batch | one |
//! | fence, [`Team::barrier`](crate::Team::barrier) | a barrier |
//! | post, start, complete, wait, test | one that says only that there was such a call; a replay leaves it out |
//!
//! and with each event the time from the end of the call before to the begin of this one, so that neither the time in
//! calls nor the recorder's own counts as the program's; but for one reading of the clock, some 20 ns. Nothing is recorded
//! of the null target, of flush_local, of a rank's loads and stores ([`Local`](crate::Local)), of the waits of requests and of
//! the other collectives of a team: these are time between calls.
//!
//! # Format, version 1
//!
//! A file is 8 bytes of magic, the version as 4 bytes, then blocks: a header, events, and an end if the window was freed
//! or dropped. All numbers are little-endian.
//!
//! | bytes of a block | what |
//! | --- | --- |
//! | 1 | `H`, `E` or `Z` |
//! | 4 | how many events it has |
//! | 4 | the length of its body |
//! | 4 | CRC-32 of its body |
//! | 4 | CRC-32 of the 13 bytes before |
//! | as its length says | its body |
//!
//! The header's body is JSON: ranks, rank, topology, window, info, clock. The end's is two varints (LEB128): how many
//! events there were, and the nanoseconds from the first call to the last. An event is
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | its kind (4 bits), and whether target (bit 4) and bytes (bit 5) are those of the event before that had some |
//! | 0 to 5 | target, if the kind has one and it is not the same: varint |
//! | 0 to 6 | bytes, if the kind has some and they are not the same: varint |
//! | 1 to 7 | nanoseconds since the call before: varint |
//!
//! A block's first event knows of none before. A block is written by one call once it has 4 KiB, or once it is a second
//! old; not while a lock is held, unless it has 16 KiB. So a killed rank loses its last block at the most.
//!
//! # Reading
//!
//! [`Trace::open`] reads all files once and checks all of it: sums, numbers, that locks and unlocks fit each other, that the
//! ranks agree. What is wrong is a [`TraceError`]. A file that ends early is no error but an [`Ending`].

mod error;
mod format;
mod reader;
pub(crate) mod recorder;

pub use error::TraceError;
pub use reader::{Ending, RankTrace, Steps, Trace};
