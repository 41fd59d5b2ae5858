//! A mutex with a selectable defect, for tests that each engine finds it.

use rmalab_atomics::{Address, Disp, RemoteAtomics, Until, WORD};
use rmalab_locks::qnode::{NIL, pointer};
use rmalab_locks::{Place, RawRwLock, Result};
use rmalab_verify::{Property, Subject};

/// The defect of the mutex.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It reads that the lock is free, and takes it in a second operation.
    LooksThenTakes,
    /// A rank that finds the lock taken waits for a wake-up that no rank sends.
    NeverWakes,
    /// A rank that had to wait leaves a nonzero word.
    LeavesATrace,
    /// A rank that had to wait panics.
    Panics,
}

impl Fault {
    /// All defects, with the property that each of them breaks when two ranks acquire.
    pub(crate) const ALL: [(Fault, Property); 4] = [
        (Fault::LooksThenTakes, Property::MutualExclusion),
        (Fault::NeverWakes, Property::NoLostWakeUp),
        (Fault::LeavesATrace, Property::CleanRest),
        (Fault::Panics, Property::Invariant),
    ];

    /// The mutex with this defect.
    pub(crate) fn subject(self) -> Subject {
        Subject::lock::<Planted>(self).exclusive()
    }
}

/// The mutex.
#[derive(Debug)]
pub(crate) struct Planted {
    owner: Address,
    trace: Address,
    flag: Disp,
    me: u64,
    fault: Fault,
}

impl RawRwLock for Planted {
    const NAME: &'static str = "planted";
    const WORDS: u64 = 2 * WORD;
    const NODE: u64 = WORD;
    type Params = Fault;

    fn bind<A: RemoteAtomics + ?Sized>(ra: &A, place: Place, fault: Fault) -> Result<Planted> {
        Ok(Planted { owner: place.word(0), trace: place.word(1), flag: place.node, me: pointer(ra.rank()), fault })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.acquire_write(ra)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.release_write(ra)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.fault == Fault::LooksThenTakes {
            while ra.get(self.owner)? != NIL {
                ra.pause(1)?;
            }
            return Ok(ra.put(self.owner, self.me)?);
        }
        let mut waited = false;
        while ra.compare_and_swap(self.owner, NIL, self.me)? != NIL {
            waited = true;
            match self.fault {
                Fault::NeverWakes => drop(ra.wait_until(self.flag, Until::Ne(0))?),
                _ => ra.pause(1)?,
            }
        }
        match self.fault {
            Fault::LeavesATrace if waited => ra.put(self.trace, 1)?,
            Fault::Panics if waited => panic!("a planted panic"),
            _ => {}
        }
        Ok(())
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.owner, NIL)?)
    }
}
