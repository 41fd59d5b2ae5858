//! The tutorial's lock: the correct test-and-set mutex.

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawMutex, Result};

const FREE: u64 = 0;
const TAKEN: u64 = 1;

#[derive(Debug)]
pub(crate) struct Gate {
    word: Address,
}

impl RawMutex for Gate {
    const NAME: &'static str = "gate";
    const WORDS: u64 = WORD; // bytes at the home rank
    const NODE: u64 = 0; // bytes at every rank: none, since this lock has no queue
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<Gate> {
        Ok(Gate { word: place.word(0) })
    }

    // ANCHOR: acquire
    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while ra.compare_and_swap(self.word, FREE, TAKEN)? != FREE {
            ra.pause(8)?;
        }
        Ok(())
    }
    // ANCHOR_END: acquire

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.word, FREE)?)
    }
}
