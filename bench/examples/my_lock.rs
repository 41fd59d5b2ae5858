//! A lock of your own: write it, and pass it to the whole command line, which accepts it by name.
//!
//! ```text
//! cargo run --release -p rmalab --example my_lock -- verify --lock my-lock            every order of its operations
//! cargo run --release -p rmalab --example my_lock -- study --lock my-lock,tas-rw       threads and processes
//! cargo run --release -p rmalab --example my_lock -- simulate --lock my-lock          thousands of ranks
//! ```
//!
//! One word at the home rank: bit 0 is a writer inside, each reader counts 2; readers go first; all wait by polling.

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawRwLock, Result};

const WRITER: u64 = 1;
const READER: u64 = 2;

#[derive(Debug)]
struct MyLock {
    word: Address,
}

impl RawRwLock for MyLock {
    const NAME: &'static str = "my-lock";
    const WORDS: u64 = WORD; // bytes at the home rank, zero before the first use and after the last
    const NODE: u64 = 0; // bytes at every rank: none, since there is no queue
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<MyLock> {
        Ok(MyLock { word: place.word(0) })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.word, READER)?;
        while ra.get(self.word)? & WRITER != 0 {
            ra.pause(8)?;
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

fn main() -> std::process::ExitCode {
    let mut registry = rmalab::Registry::standard();
    registry.add_rw_lock::<MyLock>("a lock of my own").words(&[("word", rmalab::Holds::Number)], &[]); // names for drawings
    rmalab::main_with(registry)
}

/// `cargo test -p rmalab --example my_lock`
#[test]
fn it_keeps_the_contract_of_locks() {
    rmalab_locks::suite::rw_lock::<MyLock>(()); // panics with the rank if it finds a fault
}
