//! A lock of your own: write it, explore every order of its operations, put it through the suite and the study:
//! `cargo run --release -p rmalab --example my_lock`.
//!
//! One word at the home rank: bit 0 is a writer inside, each reader counts 2; readers go first; all wait by polling.

use rmalab_atomics::{Address, RemoteAtomics, WORD};
use rmalab_locks::{Place, RawRwLock, Result, suite};
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Check, Finding, Subject, diagram};

const WRITER: u64 = 1;
const READER: u64 = 2;

#[derive(Debug)]
struct MyLock {
    word: Address,
}

impl RawRwLock for MyLock {
    const NAME: &'static str = "my-lock";
    const WORDS: u64 = WORD; // bytes at the home rank, zero before the first use and after the last
    const NODE: u64 = 0; // bytes at every rank: none, for there is no queue
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

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut registry = rmalab::Registry::standard();
    registry.add_rw_lock::<MyLock>("a lock of my own");
    rmalab::study::serve(&registry)?; // the study's processes are this program again, and end here

    let check = Check::new(Subject::lock::<MyLock>(()), "2R2Wx2".parse()?);
    match explore(&check, &Options::default(), &|_| true)?.finding {
        Finding::Violated(counterexample) => println!("{}", diagram::text(&check, &counterexample)?),
        finding => println!("every order of the operations of 2 readers and 2 writers, twice each: {finding:?}"),
    }
    suite::rw_lock::<MyLock>(()); // panics, and says on which rank, if it finds something

    let mut options = rmalab::Options::default();
    options.locks = ["my-lock", "tas-rw", "mcs-rw-rp"].map(String::from).to_vec();
    print!("{}", rmalab::table(&rmalab::study::run(&registry, &options)?));
    Ok(())
}
