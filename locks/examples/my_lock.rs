//! A lock of your own: write it, then hold it to what every lock of this laboratory promises.
//!
//! `cargo run --release -p rmalab-locks --example my_lock`
//!
//! One word at the home rank: bit 0 is set while a writer is inside, and each reader counts 2. Readers go first; all of
//! them wait by polling.

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawRwLock, Result, suite};

const WRITER: u64 = 1;
const READER: u64 = 2;

struct MyLock {
    word: Address,
}

impl RawRwLock for MyLock {
    const NAME: &'static str = "my-lock";
    const WORDS: u64 = WORD; // bytes at the home rank, zero before the first use and after the last
    const NODE: u64 = 0; // bytes at every rank: none, for there is no queue
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<MyLock> {
        Ok(MyLock { word: place.home.at(place.words) })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let mut seen = ra.fetch_add(self.word, READER)?;
        while seen & WRITER != 0 {
            ra.pause(8)?;
            seen = ra.get(self.word)?;
        }
        Ok(())
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.fetch_add(self.word, READER.wrapping_neg()).map(drop)?)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        while ra.compare_and_swap(self.word, 0, WRITER)? != 0 {
            ra.pause(8)?;
        }
        Ok(())
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.fetch_add(self.word, WRITER.wrapping_neg()).map(drop)?)
    }
}

fn main() {
    suite::rw_lock::<MyLock>(()); // panics, and says on which rank, if it finds something
    let [read, write] = suite::rw_lock_cost::<MyLock>(());
    println!("{}: exclusion, sharing, no lost wake-up, clean rest: nothing found on 2 to 16 threads", MyLock::NAME);
    println!("remote operations, acquire / release: reader {}/{}, writer {}/{}", read.0, read.1, write.0, write.1);
}
