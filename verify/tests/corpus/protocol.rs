//! A lock in two functions, with as many named words and as much memory as it needs.

use std::fmt::{self, Debug};
use std::ops::Deref;

use rmalab_atomics::{Address, Rank, RemoteAtomics, Result, WORD};
use rmalab_locks::qnode::{NIL, pointer};
use rmalab_locks::{LINE, Place, RawRwLock};
use rmalab_verify::Subject;
use rmalab_verify::subject::{At, Holds, WORDS};

/// The names and the kinds of a row of words.
pub(crate) type Words = &'static [(&'static str, Holds)];

/// A lock. Its value has its parameters.
pub(crate) trait Protocol: Copy + Default + Debug + Send + Sync + 'static {
    /// The words at the home.
    const HOME: Words = &[];
    /// The words of each rank.
    const EACH: Words = &[];
    /// Bits of words that may be set at rest.
    const KEEPS: &'static [(&'static str, u64)] = &[];
    /// False for a mutex.
    const READERS_SHARE: bool = false;
    /// Everything that a rank remembers from one call of acquire or release to the next. Its `Debug` may hide some of
    /// it.
    type Memo: Debug + Default + 'static;

    fn acquire(self, side: &mut Side<'_, Self::Memo>) -> Result<()>;
    fn release(self, side: &mut Side<'_, Self::Memo>) -> Result<()>;

    fn acquire_read(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        self.acquire(side)
    }

    fn release_read(self, side: &mut Side<'_, Self::Memo>) -> Result<()> {
        self.release(side)
    }
}

/// A value that `Debug` shows or hides.
#[derive(Default)]
pub(crate) struct Memory<const SHOWN: bool, T>(pub(crate) T);

impl<const SHOWN: bool, T: Debug> Debug for Memory<SHOWN, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if SHOWN { self.0.fmt(f) } else { f.write_str("hidden") }
    }
}

/// One rank's side of a protocol.
pub(crate) struct Side<'s, M> {
    ra: &'s dyn RemoteAtomics,
    place: Place,
    pub(crate) memo: &'s mut M,
}

impl<M> Side<'_, M> {
    /// A word at the home.
    pub(crate) fn home(&self, index: u64) -> Address {
        self.place.word(index)
    }

    /// A word of `rank`.
    pub(crate) fn of(&self, rank: Rank, index: u64) -> Address {
        rank.at(self.place.node.word(index))
    }

    /// A word of this rank.
    pub(crate) fn own(&self, index: u64) -> Address {
        self.of(self.rank(), index)
    }

    /// The ranks that take part. The last rank is the home, and takes no part.
    pub(crate) fn ranks(&self) -> impl DoubleEndedIterator<Item = Rank> + use<M> {
        (0..self.size() - 1).map(Rank)
    }

    /// The other ranks that take part.
    pub(crate) fn others(&self) -> impl DoubleEndedIterator<Item = Rank> + use<M> {
        let me = self.rank();
        self.ranks().filter(move |&rank| rank != me)
    }

    /// Rank 1 for rank 0, and rank 0 for rank 1.
    pub(crate) fn other(&self) -> Rank {
        Rank(1 - self.rank().0)
    }

    /// The pointer to this rank.
    pub(crate) fn me(&self) -> u64 {
        pointer(self.rank())
    }

    /// Puts a word, and completes the put.
    pub(crate) fn write(&self, at: Address, value: u64) -> Result<()> {
        self.put(at, value)?;
        self.flush(at.rank)
    }

    /// Polls until `done` holds for a word. Returns the word.
    pub(crate) fn poll(&self, at: Address, done: impl Fn(u64) -> bool) -> Result<u64> {
        loop {
            let word = self.get(at)?;
            if done(word) {
                return Ok(word);
            }
            self.pause(1)?;
        }
    }

    /// Polls until a word is zero.
    pub(crate) fn poll_zero(&self, at: Address) -> Result<()> {
        self.poll(at, |word| word == 0).map(drop)
    }

    /// Takes a test-and-set lock by compare-and-swap.
    pub(crate) fn take(&self, at: Address) -> Result<()> {
        while self.compare_and_swap(at, NIL, self.me())? != NIL {
            self.pause(1)?;
        }
        Ok(())
    }
}

impl<'s, M> Deref for Side<'s, M> {
    type Target = dyn RemoteAtomics + 's;

    fn deref(&self) -> &Self::Target {
        self.ra
    }
}

/// A protocol as a lock.
struct Lock<P: Protocol> {
    place: Place,
    protocol: P,
    memo: P::Memo,
}

impl<P: Protocol> Debug for Lock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memo.fmt(f)
    }
}

impl<P: Protocol> Lock<P> {
    fn side<'s, A: RemoteAtomics + ?Sized>(&'s mut self, ra: &'s A) -> Side<'s, P::Memo> {
        Side { ra: ra.whole_world(), place: self.place, memo: &mut self.memo }
    }
}

impl<P: Protocol> RawRwLock for Lock<P> {
    const NAME: &'static str = "corpus";
    const WORDS: u64 = LINE;
    const NODE: u64 = LINE;
    const READERS_SHARE: bool = P::READERS_SHARE;
    type Params = P;

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, protocol: P) -> rmalab_locks::Result<Lock<P>> {
        Ok(Lock { place, protocol, memo: P::Memo::default() })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(self.protocol.acquire_read(&mut self.side(ra))?)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(self.protocol.release_read(&mut self.side(ra))?)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(self.protocol.acquire(&mut self.side(ra))?)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(self.protocol.release(&mut self.side(ra))?)
    }
}

/// The protocol as a subject.
pub(crate) fn lock<P: Protocol>(name: &'static str, protocol: P) -> Subject {
    assert!((P::HOME.len().max(P::EACH.len()) as u64) <= LINE / WORD, "{name} has words beyond its lines");
    let subject = Subject::lock::<Lock<P>>(protocol).named(name);
    let subject = subject.words(At::Home, WORDS, P::HOME).words(At::Each, WORDS.plus(LINE), P::EACH);
    P::KEEPS.iter().fold(subject, |subject, &(name, bits)| subject.keeps(name, bits))
}
