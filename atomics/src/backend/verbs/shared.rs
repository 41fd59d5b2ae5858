//! Ranks of one host reach each other's data with the processor: they map each other's memory files.
//!
//! Bulk operations on the segment of a rank of the same host are then copies, like those on the local segment. All other
//! operations, including all word operations, go through the owner's adapter as before, so that each word has one kind of
//! atomics.
//!
//! The file has no name. A rank asks for its number through the bootstrap, and opens it in `/proc/PID/fd`. The kernel
//! allows that to processes of the same user: it needs the right to read a process, which Yama does not restrict, not
//! the right to trace it. The rank checks the opened file against the owner's description: the same inode number, this
//! user, the right size, and sealed against shrinking. Where the file cannot be opened (containers with separate
//! process numbers, other users), the adapter copies.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, SealFlags};

use super::Verbs;
use super::memory::Memory;
use super::message::{self, Shared};
use crate::model::fabric::Span;
use crate::{Rank, Result};

/// The variable that decides whether ranks of one host share their data, unless the program does: 0 for no.
pub(super) const NODE_SHARED: &str = "RMALAB_NODE_SHARED";

/// Returns the owner's description of a memory file.
pub(super) fn description(file: BorrowedFd<'_>) -> Result<Shared, String> {
    let stat = rustix::fs::fstat(file).map_err(|error| error.to_string())?;
    Ok(Shared {
        process: std::process::id(),
        descriptor: file.as_raw_fd().cast_unsigned(),
        file: stat.st_ino,
        bytes: stat.st_size.cast_unsigned(),
    })
}

/// Opens the described file, if this process can.
fn open(shared: &Shared) -> Option<OwnedFd> {
    let path = format!("/proc/{}/fd/{}", shared.process, shared.descriptor);
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let seals = rustix::fs::fcntl_get_seals(&file).ok()?;
    let right = (stat.st_ino, stat.st_size.cast_unsigned()) == (shared.file, shared.bytes)
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && seals.contains(SealFlags::SHRINK);
    right.then_some(file)
}

impl Verbs {
    /// Returns the address of the bytes of `at`, if the processor reaches them.
    #[inline]
    pub(super) fn reach(&self, at: Span) -> Result<Option<*mut u8>> {
        let (rank, disp, len) = (at.rank(), at.disp().0, at.len());
        if rank == self.view.rank() {
            return Ok(self.memory.range(disp, len));
        }
        if !self.node_shared
            || self.membership().topology().node_of(self.view.rank()) != self.membership().topology().node_of(rank)
        {
            return Ok(None);
        }
        if let Some(memory) = self.neighbours.borrow().get(&rank.0) {
            return Ok(memory.as_ref().and_then(|memory| memory.range(disp, len)));
        }
        let memory = self.map(rank)?;
        let range = memory.as_ref().and_then(|memory| memory.range(disp, len));
        // The mapping stays until this rank acknowledges a failure of the other, which is a separate call.
        self.neighbours.borrow_mut().insert(rank.0, memory);
        Ok(range)
    }

    /// Maps the memory of another rank of this host; `None` where that is impossible.
    #[cold]
    fn map(&self, rank: Rank) -> Result<Option<Rc<Memory>>> {
        self.check_rank(rank)?;
        let answer = self.membership().request(rank, &message::SHARE)?;
        let Some(shared) = message::read_shared(&answer) else { return Ok(None) };
        if shared.bytes != self.memory.len() as u64 {
            return Ok(None);
        }
        Ok(open(&shared).and_then(|file| Memory::map(file, self.memory.len()).ok()).map(Rc::new))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_the_described_file_is_opened() {
        let memory = Memory::new(4096).unwrap();
        let right = description(memory.file()).unwrap();
        let file = open(&right).expect("this process's own file");
        let other = Memory::map(file, memory.len()).unwrap();
        memory.word(8).unwrap().store(7, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(other.word(8).unwrap().load(std::sync::atomic::Ordering::Relaxed), 7);
        assert!(open(&Shared { file: right.file + 1, ..right }).is_none());
        assert!(open(&Shared { bytes: right.bytes + 1, ..right }).is_none());
        assert!(open(&Shared { descriptor: 999_999, ..right }).is_none());
        assert!(open(&Shared { process: 1 << 30, ..right }).is_none());
        let unsealed = rustix::fs::memfd_create("rmalab-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&unsealed, 4096).unwrap();
        assert!(open(&description(unsealed.as_fd()).unwrap()).is_none());
    }
}
