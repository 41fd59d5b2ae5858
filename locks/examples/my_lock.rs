//! A lock of your own: write it, then let the stress engine look for what is wrong with it.
//!
//! `cargo run --release -p rmalab-locks --example my_lock`
//!
//! A fair reader-writer lock: everybody draws a ticket; a reader lets the next reader in at once, a writer nobody until
//! it leaves.

use rmalab_atomics::{Address, RemoteAtomics, World};
use rmalab_locks::{Place, RawRwLock, Result};
use rmalab_verify::stress::{self, Options, Rest, Verdict};

struct MyLock {
    tickets: Address,
    readers_may: Address, // the ticket that may begin to read
    writers_may: Address, // the ticket that may begin to write
}

fn draw_and_wait<A: RemoteAtomics + ?Sized>(ra: &A, tickets: Address, turn: Address) -> Result<()> {
    let mine = ra.fetch_add(tickets, 1)?;
    while ra.get(turn)? != mine {
        ra.pause(8)?;
    }
    Ok(())
}

impl RawRwLock for MyLock {
    const NAME: &'static str = "my-lock";
    const WORDS: u64 = 24;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> Result<MyLock> {
        let [tickets, readers_may, writers_may] = [0, 1, 2].map(|word| place.home.at(place.words.word(word)));
        Ok(MyLock { tickets, readers_may, writers_may })
    }
    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        draw_and_wait(ra, self.tickets, self.readers_may)?;
        Ok(ra.fetch_add(self.readers_may, 1).map(drop)?)
    }
    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        Ok(ra.fetch_add(self.writers_may, 1).map(drop)?)
    }
    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        draw_and_wait(ra, self.tickets, self.writers_may)
    }
    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        ra.fetch_add(self.readers_may, 1)?;
        Ok(ra.fetch_add(self.writers_may, 1).map(drop)?)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let scenario = "2R2Mx2000".parse()?;
    let options = Options { rest: Rest::Any, ..Options::default() }; // tickets go on from where they are
    let verdicts =
        World::threads(4).run(|ra| stress::run::<MyLock, _>(ra, &scenario, &options).expect("no peer fails"))?;
    println!("{}", Verdict::merge(verdicts).expect("a world has ranks"));
    Ok(())
}
