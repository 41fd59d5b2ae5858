//! Traces of a window's synchronization and communication: recorded by the ranks of a program, read for a replay.
//!
//! A window is recorded when [`Builder::record`](crate::Builder::record), the hint `rmalab_record` or the variable
//! [`RMALAB_RECORD`](crate::Config::RECORD_VARIABLE) names a folder, and never otherwise. Each rank then writes one file in
//! it, `WINDOW-rank-N.trace`. WINDOW is the window's name when it is made, or `window`; where the folder has such a trace
//! already it is `WINDOW-2`, `WINDOW-3`, and so on, the same at all ranks. Nothing is ever overwritten.
//!
//! # What is recorded
//!
//! | call | event |
//! | --- | --- |
//! | lock, lock_all, with their assertion; unlock, unlock_all | one |
//! | put, get and their forms with layouts, with requests and in batches | one, with target, displacement and bytes |
//! | accumulate, get_accumulate, fetch_and_op, compare_and_swap and their forms | the same, with the element type and the operation |
//! | flush, flush_all | one |
//! | a batch | one for its begin and one for its end |
//! | fence, with its assertions; [`Team::barrier`](crate::Team::barrier) | one |
//! | post, start, with group and assertions; complete, wait | one |
//! | test | one, with its answer |
//! | attach, detach, of a dynamic window | one, with address and bytes |
//!
//! and with each event the time from the end of the call before to the begin of this one. So neither the time in calls nor
//! the recorder's own counts as the program's, except for one reading of the clock, some 20 ns. Nothing is recorded of the
//! null target, of flush_local, of a rank's loads and stores ([`Local`](crate::Local)), of the waits of requests, and of
//! the other collectives of a team: these are time between calls.
//!
//! A transfer with a layout has the displacement of the unit in which its first byte is, and counts each byte once. The operation
//! of a compare_and_swap is replace.
//!
//! # Format, version 3
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
//! The header's body is JSON: ranks, rank, topology, window, flavor, bytes and unit of the rank's part, info, clock. The
//! end's is two varints (LEB128): how many events there were, and the nanoseconds from the first call to the last. An event
//! is
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | its kind (5 bits), and which of the fields below are not written, since they follow from the event before (3 bits) |
//! | 0 to 5 | target: varint. Not written (bit 5) if it is that of the event before that had one |
//! | 0 or more | group: how many ranks, and the distance of each from the one before, as zigzag varints. Not written (bit 5) if it is that of the event before that had one |
//! | 0 to 6 | bytes: varint. Not written (bit 6) if they are those of the event before that had some, and of an update also element type and operation |
//! | 0 or 2 | of an update: the codes of the element type ([`Kind::code`](crate::Kind::code)) and of the operation ([`Op::code`](crate::Op::code)). Not written (bit 6) with the bytes |
//! | 0 to 1 | assertions, as bits. Not written (bit 6) if they are those of the event before that could have some |
//! | 0 to 10 | displacement: its distance from the one before, a zigzag varint. Not written (bit 7) if that one has the same distance from its own predecessor |
//! | 1 to 7 | nanoseconds since the call before: varint |
//!
//! as far as its kind has the field. For a block's first event there is none before: assertions and displacements begin at 0.
//! A block is written by one call once it has 4 KiB, or once it is a second old; not while a lock is held, unless it has
//! 16 KiB. So a killed rank loses at most its last block.
//!
//! Version 1 had no displacements and no groups, version 2 no element types and operations. They are not read any more: such a
//! program has to be recorded again.
//!
//! # Reading
//!
//! [`Trace::open`] reads all files once and checks all of it: sums, numbers, that the calls of each rank fit each other by the
//! rules of epochs, that transfers lie in the window, and that ranks fit each other where they meet. A barrier or fence is
//! the same call at all ranks; a start has a post of each of its targets, both with nocheck or both without. What is wrong is
//! a [`TraceError`]. A file that ends early is no error but an [`Ending`].

mod blocks;
mod error;
mod events;
mod files;
mod format;
mod meetings;
mod reader;
pub(crate) mod recorder;
mod rules;
mod steps;

pub use error::TraceError;
pub use reader::{Ending, RankTrace, Trace};
pub use steps::Steps;
