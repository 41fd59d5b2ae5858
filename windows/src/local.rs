//! Access to memory of a window that this rank's processor reaches.

use std::sync::atomic::AtomicU64;

use bytemuck::Pod;
use rmalab_atomics::{Address, Rank, RemoteAtomics, WORD};

use crate::place::{TargetMemory, TargetPart};
use crate::{Result, Target, WindowDisp};

/// A part of a window that this rank reaches by loads, stores and copies, without an epoch.
///
/// Other ranks may access this memory at the same time. So there are no references to it, only copies, and words as atomics. Displacements
/// are in the units of the rank that has the part.
#[derive(Debug)]
pub struct Local<'w, A: RemoteAtomics + ?Sized> {
    pub(crate) target: Target<'w, A>,
    pub(crate) place: TargetMemory<'w>,
}

impl<'w, A: RemoteAtomics + ?Sized> Local<'w, A> {
    pub(crate) fn part(&self) -> TargetPart<'w> {
        self.target.part
    }

    /// Returns the rank that has the part.
    pub fn rank(&self) -> Rank {
        self.target.rank
    }

    /// Returns the number of bytes of the part.
    pub fn bytes(&self) -> u64 {
        self.target.bytes
    }

    /// Returns the displacement unit in bytes.
    pub fn disp_unit(&self) -> u32 {
        self.target.unit
    }

    /// Returns the place of the part's first byte, if the part is in a rank's segment.
    pub fn address(&self) -> Option<Address> {
        match self.place {
            TargetMemory::Segment(at) => Some(at),
            TargetMemory::Leased(_) | TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => None,
        }
    }

    /// Loads a value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`](crate::Error::OutOfWindow).
    #[inline]
    pub fn load<T: Pod>(&self, disp: WindowDisp) -> Result<T> {
        self.target.get_value(disp)
    }

    /// Stores a value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`](crate::Error::OutOfWindow).
    #[inline]
    pub fn store<T: Pod>(&self, disp: WindowDisp, value: T) -> Result<()> {
        self.target.put_value(disp, value)
    }

    /// Copies values out.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`](crate::Error::OutOfWindow).
    #[inline]
    pub fn read<T: Pod>(&self, disp: WindowDisp, dest: &mut [T]) -> Result<()> {
        self.target.get(disp, dest)
    }

    /// Copies values in.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfWindow`](crate::Error::OutOfWindow).
    #[inline]
    pub fn write<T: Pod>(&self, disp: WindowDisp, source: &[T]) -> Result<()> {
        self.target.put(disp, source)
    }

    /// Returns the whole words of the part, if this rank's processor reaches them and the part starts at a word.
    pub fn words(&self) -> Option<&'w [AtomicU64]> {
        let (head, words) = self.reached()?;
        (head == 0).then_some(words)
    }

    /// Returns the number of bytes before the first word, and the words.
    pub(crate) fn reached(&self) -> Option<(u64, &'w [AtomicU64])> {
        match self.place {
            TargetMemory::Segment(at) => {
                let head = at.disp.0.next_multiple_of(WORD) - at.disp.0;
                let words = self.target.bytes.saturating_sub(head) / WORD;
                let first = at.rank.at(at.disp.plus(head));
                let words = if words == 0 { &[] } else { self.target.core.ra.shared_words(first, words)? };
                Some((head, words))
            }
            TargetMemory::Leased(lease) => lease.words().map(|leased| (leased.head, leased.words)),
            TargetMemory::Joined(_) | TargetMemory::TwoSided(..) => None,
        }
    }
}
