//! The tutorial's lock after a first reading of the paper. It is wrong.

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawMutex, Result};

const FREE: u64 = 0;
const TAKEN: u64 = 1;

#[derive(Debug)]
pub(crate) struct Draft {
    word: Address,
}

impl RawMutex for Draft {
    const NAME: &'static str = "draft";
    const WORDS: u64 = WORD; // bytes at the home rank
    const NODE: u64 = 0; // bytes at every rank: none, since this lock has no queue
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<Draft> {
        Ok(Draft { word: place.word(0) })
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while ra.get(self.word)? == TAKEN {
            ra.pause(8)?;
        }
        Ok(ra.put(self.word, TAKEN)?)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.put(self.word, FREE)?)
    }
}
