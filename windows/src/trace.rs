//! Traces of a window's synchronization and communication, which the ranks of a program record and a replay reads.
//!
//! A window is recorded when [`Builder::record`](crate::Builder::record), the hint `rmalab_record` or the variable
//! [`RMALAB_RECORD`](crate::Config::RECORD_VARIABLE) names a folder, and never otherwise. Each rank then writes one file in
//! it, `WINDOW-rank-N.trace`. WINDOW is the window's name when it is made, or `window`. If the folder already has such a
//! trace, it is `WINDOW-2`, `WINDOW-3`, and so on, the same at all ranks. No file is ever overwritten.
//!
//! # What is recorded
//!
//! | call | event |
//! | --- | --- |
//! | lock, lock_all, with their assertion; unlock, unlock_all | one |
//! | put, get and their forms with layouts, with requests and in batches | one, with target, displacement and bytes |
//! | accumulate, get_accumulate, fetch_and_op, compare_and_swap and their forms | the same, with the element type and the operation |
//! | flush, flush_all | one |
//! | a batch | one for its start and one for its end |
//! | fence, with its assertions; [`Team::barrier`](crate::Team::barrier) | one |
//! | post, start, with group and assertions; complete, wait | one |
//! | test | one, with its answer |
//! | attach, detach, of a dynamic window | one, with address and bytes |
//!
//! Each event also has the time from the end of the previous call to the start of this one. So neither the time in calls
//! nor the recorder's own time counts as the program's time, except for one reading of the clock, about 20 ns. The trace
//! omits calls with the null target, flush_local, a rank's loads and stores ([`Local`](crate::Local)), the waits of
//! requests, and the other collectives of a team. These count as time between calls.
//!
//! A transfer with a layout has the displacement of the unit that contains its first byte, and counts each byte once. The
//! operation of a compare_and_swap is replace.
//!
//! # Format, version 3
//!
//! A file is 8 bytes of magic, the version as 4 bytes, then blocks: a header, events, and an end if the window was freed
//! or dropped. All numbers are little-endian.
//!
//! | bytes of a block | content |
//! | --- | --- |
//! | 1 | `H`, `E` or `Z` |
//! | 4 | the number of its events |
//! | 4 | the length of its body |
//! | 4 | CRC-32 of its body |
//! | 4 | CRC-32 of the 13 bytes before |
//! | as many as its length | its body |
//!
//! The header's body is JSON: ranks, rank, topology, window, flavor, bytes and unit of the rank's part, info, clock. The
//! end's body is two varints (LEB128): the number of events, and the nanoseconds from the first call to the last. An event
//! is
//!
//! | bytes | content |
//! | --- | --- |
//! | 1 | its kind (5 bits), and the fields below that are omitted, since they follow from the previous event (3 bits) |
//! | 0 to 5 | target: varint. Omitted (bit 5) if it equals the target of the last event that had one |
//! | 0 or more | group: the number of ranks, and the distance of each rank from the previous one, as zigzag varints. Omitted (bit 5) if it equals the group of the last event that had one |
//! | 0 to 6 | bytes: varint. Omitted (bit 6) if they equal the bytes of the last event that had some; of an update, element type and operation must be equal, too |
//! | 0 or 2 | of an update: the codes of the element type ([`ElementKind::code`](crate::ElementKind::code)) and of the operation ([`Op::code`](crate::Op::code)). Omitted (bit 6) with the bytes |
//! | 0 to 1 | assertions, as bits. Omitted (bit 6) if they equal the assertions of the last event that could have some |
//! | 0 to 10 | displacement: its distance from the previous one, a zigzag varint. Omitted (bit 7) if the previous one has the same distance from its own predecessor |
//! | 1 to 7 | nanoseconds since the previous call: varint |
//!
//! as far as its kind has the field. The first event of a block has no previous event: assertions and displacements begin at
//! 0. A block is written by one call once it has 4 KiB, or once it is a second old. While a lock is held, a block is written
//! only once it has 16 KiB. So a killed rank loses at most its last block.
//!
//! Version 1 had no displacements and no groups, version 2 no element types and operations. They can no longer be read,
//! so record such a program again.
//!
//! Windows of an MPI are recorded, too: `librmalab_mpi.so`, which unchanged programs preload, writes the same files by a [`Recorder`].
//!
//! # Reading
//!
//! [`Trace::open`] reads all files once. It checks the checksums and numbers, that the calls of each rank obey the rules of
//! epochs, and that transfers lie in the window. It also checks the calls in which ranks meet. A barrier or fence must be the
//! same call at all ranks. Each target of a start must post, both with nocheck or both without. A fault is a [`TraceError`]. A
//! file that ends early is not an error, but an [`Ending`].

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
pub use recorder::{Description, Recorder};
pub use steps::Steps;
