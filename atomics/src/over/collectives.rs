//! Collective operations, built from the trait's own operations: barrier, broadcast, allgather, alltoall, reduce-scatter,
//! allreduce, free.
//!
//! # Sources
//!
//! * Barrier by dissemination: D. Hensgen, R. Finkel, U. Manber, Two algorithms for barrier synchronization,
//!   International Journal of Parallel Programming 17, 1988, <https://doi.org/10.1007/BF01379320>.
//! * Allgather and alltoall by dissemination of blocks, for any number of ranks: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal,
//!   D. Weathersby, Efficient algorithms for all-to-all communications in multiport message-passing systems,
//!   IEEE TPDS 8, 1997, <https://doi.org/10.1109/71.642949>.
//! * Centralized barrier, where ranks share processors: J. Mellor-Crummey, M. Scott, Algorithms for scalable synchronization
//!   on shared-memory multiprocessors, ACM TOCS 9(1), 1991, section 3.1. Here each rank has its own copy of the paper's flag.
//! * Reduce-scatter is that allgather run backwards, with additions in place of copies. Broadcast is a binomial tree.
//! * Allreduce is a dissemination of results over windows of ranks, see [`allreduce`](Collectives::allreduce).
//!
//! # Links
//!
//! With p ranks there are R = ⌈log₂ p⌉ *links*. Link r leads from rank i to rank i + 2^r (modulo p), its successor, and
//! every operation here uses links only. A link is a channel of messages of at most one chunk, with two slots:
//!
//! | word or buffer, for each link | home | written by | value |
//! | --- | --- | --- | --- |
//! | barrier | successor | predecessor | epoch of the last barrier that the predecessor has come to |
//! | arrived | successor | predecessor | number of the last message whose data is in its slot |
//! | slots | successor | predecessor | message n is in slot n mod 2 |
//! | taken | predecessor | successor | number of the last message that was copied out of its slot |
//!
//! Where ranks share processors, each rank also has these words:
//!
//! | word | home | written by | value |
//! | --- | --- | --- | --- |
//! | count | rank 0 | all | number of calls of barriers, of all ranks together |
//! | reached | each rank | itself | epoch of the last barrier that it has reached |
//! | released | each rank | the last rank to arrive | epoch of the last barrier from which it is released |
//!
//! # The centralized barrier
//!
//! In dissemination each of R rounds waits for other ranks. Where ranks share processors, each of these waits may cost a
//! switch to another rank. So every rank counts itself at rank 0 and waits once. The last one releases all others. With
//! 8 processes on 2 processors, that takes 3.3 us instead of 4.9 us.
//!
//! * C1. `count` is epoch × p exactly when all ranks have reached that barrier, since no rank reaches the next one
//!   before.
//! * C2. A rank does not know which rank will be the last one. So it waits for the rank behind it. A rank that has left
//!   the world after the barrier has reached the barrier. If a rank leaves before, the rank ahead of it gets an error and
//!   ends, and then so do the ranks ahead of that rank.
//!
//! # Invariants
//!
//! * I1. Every word and slot of a link has one writer, and the values of every word only grow; all words start as 0.
//! * I2. `arrived` = n implies that the data of messages up to n is in the slots. Short messages are word puts, and the
//!   put of `arrived` to the same target is ordered after them. Long messages are bulk puts, flushed before that put.
//! * I3. `taken` = n implies that messages up to n are copied, since gets are complete when they return, and the put
//!   follows.
//! * I4. Message n is written only once `taken` ≥ n − 2, so by I3 no rank needs the old content of its slot. The puts
//!   of message n − 2 took effect before, since by I2 the successor saw `arrived` ≥ n − 2 after them.
//! * I5. All ranks make the same calls in the same order, and a call is the same sequence of steps (chunk, link) on all of
//!   them. Within a step a rank sends before it receives. So no rank waits forever: consider a waiting rank whose step is
//!   the earliest. If it receives, its predecessor sends at the same step, and can wait only at an earlier place. If it
//!   sends, it waits for a receive of an earlier step, at which its successor would have to wait. Both contradict the
//!   choice. (In a broadcast a rank receives before it sends, but at an earlier step: it sends on higher links. In an
//!   allgather of different lengths a rank may have no message at a step. Then its successor expects none.)
//! * I6. Operations may follow each other without a barrier: numbers continue from one to the next (I1), and the link
//!   controls the flow of all operations on it (I4).
//!
//! # Memory
//!
//! Every rank has 24 bytes and two chunks for each of the R links, for any length of messages: with the default chunk, 4
//! KiB for each link. Where ranks share processors, there are 24 bytes more. These words stay allocated as long as the
//! world lives, since the last barrier before their release would itself need them. Make one object for each world, and
//! share it.

use std::cell::{Cell, RefCell};

use crate::{Attended, Disp, Error, Rank, RemoteAtomics, Result, Served, Until, WORD};

/// Default number of bytes of a chunk.
///
/// Half a page. It is long enough that the two word puts of a message cost little compared to its data. It is short
/// enough that each of a million simulated ranks with 20 links takes 80 KiB.
pub const CHUNK_BYTES: u64 = 2048;

/// Slots of a link: one is filled while the other is emptied.
const SLOTS: u64 = 2;

/// Messages of up to this many words (a cache line) travel as word puts, which need no flush. That is one trip, not
/// two.
const SHORT: usize = 8;

/// Collective operations of all ranks of a world.
///
/// Every method that communicates is collective: all ranks call it, in the same order, and with arguments that agree as the method
/// requires. The ranks do not check this. If lengths, roots or the order of calls disagree, a call waits forever or returns other data.
/// After an error the ranks may be at different points, and the object is no longer usable. Errors come from wrong arguments, from a
/// failed peer, or from a peer that has left before it made the call ([`PeerLeft`](crate::Error::PeerLeft), on backends that know).
///
/// The methods keep their state in plain cells, so a rank's object is not [`Sync`].
///
/// ```
/// use rmalab_atomics::{Collectives, Rank, RemoteAtomics, World};
///
/// let sums = World::threads(3).run(|ra| {
///     let collectives = Collectives::new(ra).expect("room for its words");
///     let mut word = [if ra.rank() == Rank(1) { 7 } else { 0 }];
///     collectives.broadcast(Rank(1), &mut word).expect("all ranks live");
///     collectives.reduce_scatter(&[word[0], 1, 2]).expect("all ranks live")
/// })?;
/// assert_eq!(sums, [21, 3, 6]);
/// # Ok::<(), rmalab_atomics::Error>(())
/// ```
#[derive(Debug)]
pub struct Collectives<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    links: Vec<Link>,
    /// The words of the centralized barrier, if ranks share processors.
    centralized: Option<Centralized>,
    /// Words of a chunk.
    chunk: usize,
    /// The number of barriers that this rank has called.
    epoch: Cell<u64>,
    /// A buffer of one chunk, for the conversion between words and bytes.
    bytes: RefCell<Vec<u8>>,
    /// The function that waits call, and a flag that tells whether they need to call it.
    serve: Option<(fn() -> bool, Serve)>,
}

/// The function that a rank's waits call, with the rank's handle of the world.
type Serve = fn(&dyn RemoteAtomics) -> Result<Served>;

/// The words of the centralized barrier.
#[derive(Clone, Copy, Debug)]
struct Centralized {
    count: Disp,
    reached: Disp,
    released: Disp,
}

/// One rank's ends of a link: it sends to the successor, and receives from the predecessor.
#[derive(Debug)]
struct Link {
    successor: Rank,
    predecessor: Rank,
    barrier: Disp,
    arrived: Disp,
    taken: Disp,
    slots: Disp,
    /// The number of messages that this rank has sent.
    sent: Cell<u64>,
    /// The number of messages that this rank has received.
    received: Cell<u64>,
}

impl<'a, A: RemoteAtomics + ?Sized> Collectives<'a, A> {
    /// Allocates the words and buffers, with chunks of [`CHUNK_BYTES`]; collective, without communication.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::Error::OutOfMemory), on all ranks alike.
    pub fn new(ra: &'a A) -> Result<Collectives<'a, A>> {
        Collectives::with_chunk(ra, CHUNK_BYTES)
    }

    /// Like [`new`](Self::new), with chunks of `bytes` bytes, rounded up to whole words. All ranks pass the same value.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::Error::OutOfMemory), on all ranks alike.
    pub fn with_chunk(ra: &'a A, bytes: u64) -> Result<Collectives<'a, A>> {
        // With two ranks, dissemination has one round.
        Collectives::with_barrier(ra, bytes, ra.capabilities().shares_processors && ra.size() > 2)
    }

    fn with_barrier(ra: &'a A, bytes: u64, is_centralized: bool) -> Result<Collectives<'a, A>> {
        let (me, size) = (u64::from(ra.rank().0), u64::from(ra.size()));
        let chunk = bytes.div_ceil(WORD).max(1);
        let rounds = u64::from(rounds(ra.size()));
        // Three words for each link, the words of the centralized barrier, then the slots, each at the start of a cache
        // line.
        let words = (3 * rounds + if is_centralized { 3 } else { 0 }).next_multiple_of(8);
        let slots = rounds.saturating_mul(SLOTS).saturating_mul(chunk);
        let base =
            if words == 0 { Disp(0) } else { ra.heap().alloc(words.saturating_add(slots).saturating_mul(WORD), 64)? };
        let links = (0..rounds).map(|r| Link {
            successor: Rank(((me + (1 << r)) % size) as u32),
            predecessor: Rank(((me + size - (1 << r)) % size) as u32),
            barrier: base.word(r),
            arrived: base.word(rounds + r),
            taken: base.word(2 * rounds + r),
            slots: base.word(words + r * SLOTS * chunk),
            sent: Cell::new(0),
            received: Cell::new(0),
        });
        let centralized = is_centralized.then(|| {
            let word = |number| base.word(3 * rounds + number);
            Centralized { count: word(0), reached: word(1), released: word(2) }
        });
        Ok(Collectives {
            ra,
            links: links.collect(),
            centralized,
            // The allocation above has shown that it fits.
            chunk: chunk as usize,
            epoch: Cell::new(0),
            bytes: RefCell::new(Vec::new()),
            serve: None,
        })
    }

    /// Returns the same operations, whose waits call `serve` repeatedly, like the waits of an [`Attended`] handle. A wait
    /// that begins while `is_needed` returns false never calls it.
    #[must_use]
    pub fn attended(self, is_needed: fn() -> bool, serve: Serve) -> Collectives<'a, A> {
        Collectives { serve: Some((is_needed, serve)), ..self }
    }

    /// Waits for a word that only `writer` still has to write.
    fn wait(&self, own: Disp, until: Until, writer: Rank) -> Result<u64> {
        match self.serve {
            Some((is_needed, serve)) if is_needed() => self.wait_and_serve(serve, own, until, writer),
            _ => self.ra.wait_until_from(own, until, writer),
        }
    }

    #[cold]
    fn wait_and_serve(&self, serve: Serve, own: Disp, until: Until, writer: Rank) -> Result<u64> {
        let attended = Attended::new(self.ra, || serve(self.ra.whole_world()));
        attended.wait_until_from(own, until, writer)
    }

    /// Returns the rank handle of these operations.
    pub fn ra(&self) -> &'a A {
        self.ra
    }

    /// Waits until all ranks have called it. After the barrier, every rank sees operations that were *complete* at any
    /// rank's call.
    ///
    /// It flushes nothing by itself. A rank's earlier puts without a flush are *posted*, and need not be visible to any
    /// rank after the barrier: call [`flush_all`](RemoteAtomics::flush_all) first if they must be. Gets, fetching
    /// operations and flushed puts are complete already.
    ///
    /// It takes R = ⌈log₂ p⌉ word puts and as many waits. Where ranks [share processors](crate::Capabilities::shares_processors), it
    /// takes an addition and a wait, and p − 1 word puts of the last rank.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    pub fn barrier(&self) -> Result<()> {
        let epoch = self.epoch.get() + 1;
        self.epoch.set(epoch);
        if let Some(words) = self.centralized {
            return self.centralized_barrier(words, epoch);
        }
        for link in &self.links {
            self.ra.put(link.successor.at(link.barrier), epoch)?;
            // Not equality: the predecessor may be in the next barrier already (by I1 the word only grows).
            self.wait(link.barrier, Until::Ge(epoch), link.predecessor)?;
        }
        Ok(())
    }

    fn centralized_barrier(&self, words: Centralized, epoch: u64) -> Result<()> {
        let (ra, me, size) = (self.ra, self.ra.rank().0, self.ra.size());
        ra.put(ra.rank().at(words.reached).unwatched(), epoch)?;
        let count = ra.fetch_add(Rank(0).at(words.count).unwatched(), 1)? + 1;
        // The ranks behind this one, the nearest first.
        let mut others = (1..size).map(|by| Rank((me + by) % size));
        if count == epoch * u64::from(size) {
            return others.try_for_each(|rank| ra.put(rank.at(words.released), epoch));
        }
        loop {
            let until = Until::Ge(epoch);
            let Some(awaited) = others.next() else {
                // All ranks have reached the barrier, so the last one is about to release this rank.
                return ra.wait_until(words.released, until).map(drop);
            };
            match self.wait(words.released, until, awaited) {
                // C2: the last rank may have released that rank, which has left since, and not yet this rank.
                Err(Error::PeerLeft { .. }) if ra.get(awaited.at(words.reached).unwatched())? >= epoch => {}
                ended => return ended.map(drop),
            }
        }
    }

    /// Copies `words` of rank `root` to `words` of all ranks, which have the same length.
    ///
    /// Ranks may leave before others have arrived. An empty broadcast does nothing.
    ///
    /// It takes R rounds for one chunk. Further chunks follow in a pipeline.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    ///
    /// # Panics
    ///
    /// When there is no rank `root`.
    pub fn broadcast(&self, root: Rank, words: &mut [u64]) -> Result<()> {
        let tree = self.tree(root);
        for chunk in words.chunks_mut(self.chunk) {
            self.broadcast_chunk(tree, chunk)?;
        }
        Ok(())
    }

    /// Like [`broadcast`](Self::broadcast), for bytes.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    ///
    /// # Panics
    ///
    /// When there is no rank `root`.
    pub fn broadcast_bytes(&self, root: Rank, bytes: &mut [u8]) -> Result<()> {
        let tree = self.tree(root);
        let mut words = Vec::new();
        for chunk in bytes.chunks_mut(self.chunk * WORD as usize) {
            words.clear();
            words.extend(chunk.chunks(WORD as usize).map(word_of));
            self.broadcast_chunk(tree, &mut words)?;
            for (part, word) in chunk.chunks_mut(WORD as usize).zip(&words) {
                part.copy_from_slice(&word.to_ne_bytes()[..part.len()]);
            }
        }
        Ok(())
    }

    /// Returns this rank's place in the binomial tree below `root`: its parent's link, if any, and its children's
    /// links.
    fn tree(&self, root: Rank) -> (Option<usize>, (usize, usize)) {
        let size = u64::from(self.ra.size());
        assert!(u64::from(root.0) < size, "broadcast: the root is {root}, and there are {size} ranks");
        let relative = (u64::from(self.ra.rank().0) + size - u64::from(root.0)) % size;
        // Round r doubles the ranks that have the data: 0 ≤ relative < 2^r send to relative + 2^r.
        let parent = relative.checked_ilog2().map(|r| r as usize);
        let first = parent.map_or(0, |r| r + 1);
        let end = (first..self.links.len()).find(|r| relative + (1 << r) >= size).unwrap_or(self.links.len());
        (parent, (first, end))
    }

    fn broadcast_chunk(&self, tree: (Option<usize>, (usize, usize)), words: &mut [u64]) -> Result<()> {
        let (parent, (first, end)) = tree;
        if let Some(r) = parent {
            self.receive(&self.links[r], words)?;
        }
        // The first child has the largest subtree.
        for link in &self.links[first..end] {
            self.send(link, words)?;
        }
        Ok(())
    }

    /// Gathers `words` of all ranks on all ranks: `words` of rank i are at i × `words.len()`; all lengths are equal.
    ///
    /// It takes R rounds, and each rank sends and receives p − 1 blocks. Both are the minimum, so there is no other
    /// algorithm for long blocks.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    pub fn allgather(&self, words: &[u64]) -> Result<Vec<u64>> {
        let (me, size, len) = (self.ra.rank().index(), self.ra.size() as usize, words.len());
        // Block number k belongs to rank me − k.
        let mut blocks = vec![0; size * len];
        blocks[..len].copy_from_slice(words);
        for (r, link) in self.links.iter().enumerate() {
            let have = 1 << r;
            let more = have.min(size - have);
            let (old, new) = blocks.split_at_mut(have * len);
            self.exchange(link, &old[..more * len], &mut new[..more * len])?;
        }
        let mut gathered = vec![0; size * len];
        for k in 0..size {
            let rank = (me + size - k) % size;
            gathered[rank * len..(rank + 1) * len].copy_from_slice(&blocks[k * len..(k + 1) * len]);
        }
        Ok(gathered)
    }

    /// Gathers `bytes` of all ranks, of any length each, on all ranks: element i comes from rank i.
    ///
    /// It is an [`allgather`](Self::allgather) of the lengths, and then of blocks with these lengths, in whole words. It
    /// takes 2 R rounds, and no rank sends or receives a block twice.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    pub fn allgather_bytes(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        const WORD_BYTES: usize = WORD as usize;
        let (me, size) = (self.ra.rank().index(), self.ra.size() as usize);
        let lengths = self.allgather(&[bytes.len() as u64])?;
        // Block number k belongs to rank me − k, and starts at word starts[k].
        let mut starts = vec![0; size + 1];
        for k in 0..size {
            starts[k + 1] = starts[k] + lengths[(me + size - k) % size].div_ceil(WORD) as usize;
        }
        let mut blocks = vec![0; starts[size]];
        for (word, part) in blocks.iter_mut().zip(bytes.chunks(WORD_BYTES)) {
            *word = word_of(part);
        }
        for (r, link) in self.links.iter().enumerate() {
            let have = 1 << r;
            let more = have.min(size - have);
            let (old, new) = blocks.split_at_mut(starts[have]);
            self.exchange(link, &old[..starts[more]], &mut new[..starts[have + more] - starts[have]])?;
        }
        let block = |rank: usize| {
            let start = starts[(me + size - rank) % size];
            let mut bytes = vec![0; lengths[rank] as usize];
            for (part, word) in bytes.chunks_mut(WORD_BYTES).zip(&blocks[start..]) {
                part.copy_from_slice(&word.to_ne_bytes()[..part.len()]);
            }
            bytes
        };
        Ok((0..size).map(block).collect())
    }

    /// Sends block number i of `words` to rank i, and returns the blocks for this rank, with the block of rank i at index
    /// i. There is one block for each rank, and all blocks of all ranks have the same length.
    ///
    /// It takes R rounds, in each of which half of the blocks travel, which is best for short blocks. Put long blocks
    /// directly to their targets.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    ///
    /// # Panics
    ///
    /// When the number of words is not a multiple of the number of ranks.
    pub fn alltoall(&self, words: &[u64]) -> Result<Vec<u64>> {
        let (me, size) = (self.ra.rank().index(), self.ra.size() as usize);
        assert!(words.len().is_multiple_of(size), "alltoall: a block for each rank, all of the same length");
        let len = words.len() / size;
        let block = |i: usize| i % size * len..(i % size + 1) * len;
        // Block number k has to move k ranks further on, with a hop on link r for each bit r of k.
        let mut blocks: Vec<u64> = (0..size).flat_map(|k| &words[block(me + k)]).copied().collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (r, link) in self.links.iter().enumerate() {
            let travels = || (0..size).filter(|k| k & (1 << r) != 0);
            ours.clear();
            ours.extend(travels().flat_map(|k| &blocks[block(k)]));
            theirs.resize(ours.len(), 0);
            self.exchange(link, &ours, &mut theirs)?;
            for (i, k) in travels().enumerate() {
                blocks[block(k)].copy_from_slice(&theirs[block(i)]);
            }
        }
        // A block that has come from a distance of k ranks belongs to rank me − k.
        Ok((0..size).flat_map(|rank| &blocks[block(me + size - rank)]).copied().collect())
    }

    /// Combines `words` of all ranks by `combine`, element by element, and leaves the result in `words` of all ranks, whose
    /// lengths are equal.
    ///
    /// `combine` is associative and commutative, and the same on all ranks: `u64::wrapping_add`, `u64::max`, `u64::min`, or
    /// a closure such as `|a, b| a ^ b`.
    ///
    /// A rank's window of n is the result over the n ranks that end with it. Windows of 2^r double from link to link. Where
    /// p has bit r, a window of 2^r continues the window of the lower bits of p, which the predecessor sends as well. So no
    /// rank is counted twice, for any p.
    ///
    /// It takes R rounds, each with one message of as many words, or of twice as many where p has the bit. Long vectors
    /// are better reduced in parts, one for each rank, and then gathered.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    pub fn allreduce(&self, words: &mut [u64], combine: impl Fn(u64, u64) -> u64) -> Result<()> {
        let (size, len) = (u64::from(self.ra.size()), words.len());
        // The window of 2^r, followed by the window of p mod 2^r.
        let mut ours = [&*words, &*words].concat();
        let mut theirs = vec![0; 2 * len];
        for (r, link) in self.links.iter().enumerate() {
            let low = size % (1 << r) != 0;
            let continues = size & (1 << r) != 0;
            let travel = if continues && low { 2 * len } else { len };
            self.exchange(link, &ours[..travel], &mut theirs[..travel])?;
            let (window, rest) = ours.split_at_mut(len);
            if continues {
                for ((rest, &window), &theirs) in rest.iter_mut().zip(&*window).zip(&theirs[len..]) {
                    *rest = if low { combine(theirs, window) } else { window };
                }
            }
            for (window, &theirs) in window.iter_mut().zip(&theirs) {
                *window = combine(theirs, *window);
            }
        }
        let (window, rest) = ours.split_at(len);
        words.copy_from_slice(if size.is_power_of_two() { window } else { rest });
        Ok(())
    }

    /// Adds up `values` of all ranks, element by element, and returns to rank i the sum of the elements number i.
    ///
    /// Sums are modulo 2^64. It is like MPI_Reduce_scatter_block with one element for each rank (MPI 4.1, section
    /// 6.10.1).
    ///
    /// It takes R rounds, and each rank sends and receives p − 1 words.
    ///
    /// # Errors
    ///
    /// [`PeerFailed`](crate::Error::PeerFailed).
    ///
    /// # Panics
    ///
    /// When there is not one value for each rank.
    pub fn reduce_scatter(&self, values: &[u64]) -> Result<u64> {
        let (me, size) = (self.ra.rank().index(), self.ra.size() as usize);
        assert_eq!(values.len(), size, "reduce_scatter: one value for each rank");
        // Element number k is this rank's part of the sum for rank me + k.
        let mut parts: Vec<u64> = (0..size).map(|k| values[(me + k) % size]).collect();
        let mut theirs = vec![0; size / 2 + 1];
        for (r, link) in self.links.iter().enumerate().rev() {
            let keep = 1 << r;
            let give = keep.min(size - keep);
            let theirs = &mut theirs[..give];
            // Part keep + k is for rank me + keep + k. The rank keep further on receives it as its part k.
            self.exchange(link, &parts[keep..keep + give], theirs)?;
            for (part, theirs) in parts.iter_mut().zip(theirs) {
                *part = part.wrapping_add(*theirs);
            }
        }
        Ok(parts[0])
    }

    /// Gives the allocation at `disp` back to the symmetric heap on all ranks, zeroed.
    ///
    /// This happens between two barriers. So no memory is zeroed while a rank may still use it, and no rank gets it
    /// again before it is zero on all ranks. The call flushes this rank's operations first, so that no late put lands
    /// in the memory.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`](crate::Error::NotAllocated) on all ranks alike, before any communication, and
    /// [`PeerFailed`](crate::Error::PeerFailed).
    pub fn free(&self, disp: Disp) -> Result<()> {
        let len = self.ra.heap().len_of(disp)?;
        self.ra.flush_all()?;
        self.barrier()?;
        self.ra.clear(disp, len)?;
        self.ra.heap().release(disp)?;
        self.barrier()
    }

    /// Sends `ours` to the successor and receives `theirs` from the predecessor, which sends as many words.
    fn exchange(&self, link: &Link, ours: &[u64], theirs: &mut [u64]) -> Result<()> {
        let (mut ours, mut theirs) = (ours.chunks(self.chunk), theirs.chunks_mut(self.chunk));
        loop {
            let (out, into) = (ours.next(), theirs.next());
            if let Some(out) = out {
                self.send(link, out)?;
            }
            match into {
                Some(into) => self.receive(link, into)?,
                None if out.is_none() => return Ok(()),
                None => {}
            }
        }
    }

    /// Sends one message, of at most a chunk.
    fn send(&self, link: &Link, words: &[u64]) -> Result<()> {
        let number = link.sent.get() + 1;
        if let Some(taken) = number.checked_sub(SLOTS).filter(|&taken| taken > 0) {
            self.wait(link.taken, Until::Ge(taken), link.successor)?; // I4
        }
        let slot = self.slot(link, number);
        if words.len() <= SHORT {
            for (i, &word) in (0..).zip(words) {
                self.ra.put(link.successor.at(slot.word(i)), word)?;
            }
        } else {
            let mut bytes = self.bytes.borrow_mut();
            bytes.clear();
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            self.ra.put_bytes(link.successor.at(slot), &bytes)?; // with its flush, for I2
        }
        self.ra.put(link.successor.at(link.arrived), number)?;
        link.sent.set(number);
        Ok(())
    }

    /// Receives one message, of at most a chunk.
    fn receive(&self, link: &Link, words: &mut [u64]) -> Result<()> {
        let number = link.received.get() + 1;
        self.wait(link.arrived, Until::Ge(number), link.predecessor)?; // I2
        let slot = self.ra.rank().at(self.slot(link, number));
        if let [word] = words {
            *word = self.ra.get(slot)?;
        } else {
            let mut bytes = self.bytes.borrow_mut();
            bytes.resize(size_of_val(words), 0);
            self.ra.get_bytes(slot, &mut bytes)?;
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
        }
        self.ra.put(link.predecessor.at(link.taken), number)?; // I3
        link.received.set(number);
        Ok(())
    }

    fn slot(&self, link: &Link, number: u64) -> Disp {
        link.slots.word(number % SLOTS * self.chunk as u64)
    }
}

/// Returns up to 8 bytes as a word, filled up with zeros.
fn word_of(part: &[u8]) -> u64 {
    let mut word = [0; WORD as usize];
    word[..part.len()].copy_from_slice(part);
    u64::from_ne_bytes(word)
}

/// Returns ⌈log₂ size⌉: after that many doublings, every rank has been reached.
fn rounds(size: u32) -> u32 {
    size.saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::{Counted, Error, World};

    const SIZES: [u32; 7] = [1, 2, 3, 4, 5, 8, 16];

    #[test]
    fn rounds_double_up_to_the_size() {
        for (size, expected) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (u32::MAX, 32)] {
            assert_eq!(rounds(size), expected, "{size} ranks");
        }
    }

    /// Returns the data of a rank, from random numbers that all ranks draw alike.
    fn data(seed: u64, rank: u32, len: usize) -> Vec<u64> {
        let mut random = Random::new(seed, u64::from(rank));
        (0..len).map(|_| random.next()).collect()
    }

    const COMBINATIONS: [fn(u64, u64) -> u64; 7] =
        [u64::wrapping_add, u64::wrapping_mul, u64::min, u64::max, |a, b| a & b, |a, b| a | b, |a, b| a ^ b];

    #[test]
    fn every_number_of_ranks_is_counted_once() {
        for size in 1..=33 {
            let sums = World::threads(size).run(|ra| {
                let mut ones = [1, u64::from(ra.rank().0)];
                Collectives::new(ra).unwrap().allreduce(&mut ones, u64::wrapping_add).unwrap();
                ones
            });
            let count = u64::from(size);
            assert_eq!(sums.unwrap(), vec![[count, count * (count - 1) / 2]; size as usize], "{size} ranks");
        }
    }

    fn delay(random: &mut Random) {
        for _ in 0..random.below(4) {
            std::thread::yield_now();
        }
    }

    /// Many calls of all kinds back to back, compared with the results of a sequential program.
    fn mixed(size: u32, chunk: u64, calls: u64, is_centralized: bool) {
        World::threads(size)
            .run(|ra| {
                let collectives = Collectives::with_barrier(ra, chunk, is_centralized).unwrap();
                let me = ra.rank().0;
                // `common` draws the same on all ranks, `own` does not.
                let (mut common, mut own) = (Random::new(chunk, 1000), Random::new(chunk, u64::from(me)));
                for call in 0..calls {
                    delay(&mut own);
                    let kind = common.below(8);
                    let len = match common.below(3) {
                        0 => common.below(3),
                        1 => common.below(20),
                        _ => common.below(6 * chunk.div_ceil(8)),
                    } as usize;
                    let root = Rank(common.below(u64::from(size)) as u32);
                    match kind {
                        0 => collectives.barrier().unwrap(),
                        1 => {
                            let mut words = data(call, me, len);
                            collectives.broadcast(root, &mut words).unwrap();
                            assert_eq!(words, data(call, root.0, len), "broadcast number {call}");
                        }
                        2 => {
                            let bytes_of = |rank: u32| {
                                let mut bytes = vec![0; len];
                                Random::new(call, u64::from(rank)).fill(&mut bytes);
                                bytes
                            };
                            let mut bytes = bytes_of(me);
                            collectives.broadcast_bytes(root, &mut bytes).unwrap();
                            assert_eq!(bytes, bytes_of(root.0), "broadcast of bytes number {call}");
                        }
                        3 => {
                            let gathered = collectives.allgather(&data(call, me, len)).unwrap();
                            let expected: Vec<_> = (0..size).flat_map(|rank| data(call, rank, len)).collect();
                            assert_eq!(gathered, expected, "allgather number {call}");
                        }
                        4 => {
                            // Lengths that differ from rank to rank, some of them 0.
                            let bytes_of = |rank: u32| {
                                let mut random = Random::new(call, u64::from(rank));
                                let mut bytes =
                                    vec![0; random.below(2) as usize * random.below(1 + len as u64) as usize];
                                random.fill(&mut bytes);
                                bytes
                            };
                            let gathered = collectives.allgather_bytes(&bytes_of(me)).unwrap();
                            let expected: Vec<_> = (0..size).map(bytes_of).collect();
                            assert_eq!(gathered, expected, "allgather of bytes number {call}");
                        }
                        5 => {
                            let len = len.div_ceil(size as usize);
                            let sent = |rank: u32| data(call, rank, len * size as usize);
                            let received = collectives.alltoall(&sent(me)).unwrap();
                            let own = me as usize * len..(me as usize + 1) * len;
                            let expected: Vec<_> =
                                (0..size).flat_map(|rank| sent(rank)[own.clone()].to_vec()).collect();
                            assert_eq!(received, expected, "alltoall number {call}");
                        }
                        6 => {
                            let combine = COMBINATIONS[common.below(COMBINATIONS.len() as u64) as usize];
                            let mut words = data(call, me, len);
                            collectives.allreduce(&mut words, combine).unwrap();
                            let expected = (1..size).fold(data(call, 0, len), |result, rank| {
                                result.into_iter().zip(data(call, rank, len)).map(|(a, b)| combine(a, b)).collect()
                            });
                            assert_eq!(words, expected, "allreduce number {call}");
                        }
                        _ => {
                            let sum = collectives.reduce_scatter(&data(call, me, size as usize)).unwrap();
                            let expected = (0..size)
                                .fold(0u64, |sum, rank| sum.wrapping_add(data(call, rank, size as usize)[me as usize]));
                            assert_eq!(sum, expected, "reduce_scatter number {call}");
                        }
                    }
                }
            })
            .unwrap();
    }

    #[test]
    fn mixed_calls_agree_with_a_sequential_run() {
        for size in SIZES {
            for (chunk, is_centralized) in [(1, false), (72, true), (CHUNK_BYTES, false)] {
                mixed(size, chunk, 400, is_centralized);
            }
        }
    }

    #[test]
    fn no_rank_leaves_a_barrier_before_all_have_come() {
        for (size, is_centralized) in SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]) {
            World::threads(size)
                .run(|ra| {
                    let collectives = Collectives::with_barrier(ra, CHUNK_BYTES, is_centralized).unwrap();
                    let counter = Rank(size / 2).at(ra.heap().alloc(8, 8).unwrap());
                    let mut random = Random::new(7, u64::from(ra.rank().0));
                    for round in 1..=200 {
                        delay(&mut random);
                        ra.fetch_add(counter, 1).unwrap();
                        collectives.barrier().unwrap();
                        let seen = ra.get(counter).unwrap();
                        assert!(seen >= round * u64::from(size), "{seen} in round {round}");
                        assert!(seen < (round + 1) * u64::from(size), "{seen} in round {round}");
                    }
                })
                .unwrap();
        }
    }

    #[test]
    fn a_rank_that_leaves_before_a_barrier_ends_it_for_all() {
        for (is_centralized, leaves) in [(false, 2), (true, 0), (true, 2), (true, 3)] {
            let ends = World::threads(4).run(|ra| {
                let collectives = Collectives::with_barrier(ra, CHUNK_BYTES, is_centralized).unwrap();
                collectives.barrier().unwrap();
                (ra.rank().0 != leaves).then(|| collectives.barrier().unwrap_err())
            });
            for (rank, end) in ends.unwrap().into_iter().enumerate() {
                assert!(rank == leaves as usize || matches!(end, Some(Error::PeerLeft { .. })), "{rank}: {end:?}");
            }
        }
    }

    #[test]
    fn costs_are_those_of_the_documentation() {
        for size in SIZES {
            let rounds = u64::from(rounds(size));
            World::threads(size)
                .run(|ra| {
                    let ra = Counted::new(ra);
                    let collectives = Collectives::with_barrier(&ra, CHUNK_BYTES, false).unwrap();
                    collectives.barrier().unwrap();
                    let barrier = ra.take();
                    assert_eq!((barrier.put.total(), barrier.wait), (rounds, rounds));
                    assert_eq!(barrier.remote_operations(), rounds);
                    let centralized = Collectives::with_barrier(&ra, CHUNK_BYTES, true).unwrap();
                    centralized.barrier().unwrap();
                    let barrier = ra.take();
                    let others = u64::from(size) - 1;
                    assert_eq!(barrier.fetch_add.total(), 1);
                    // The rank's own word, and either the words of all others or a wait.
                    assert!([(1 + others, 0), (1, 1)].contains(&(barrier.put.total(), barrier.wait)), "{barrier:?}");
                    collectives.reduce_scatter(&vec![1; size as usize]).unwrap();
                    let sums = ra.take();
                    // Up to 8 words travel as word puts; each message has a number and a receipt.
                    if size <= 16 {
                        assert_eq!(sums.put.others(), u64::from(size) - 1 + 2 * rounds);
                    }
                    assert_eq!(sums.flush.total() + sums.put_bytes.total(), 0);
                    collectives.allreduce(&mut [1], u64::wrapping_add).unwrap();
                    let all = ra.take();
                    // A second word where the size has a bit that is not its lowest.
                    let second = u64::from(size.count_ones()) - 1;
                    assert_eq!((all.put.others(), all.get.total()), (3 * rounds + second, rounds - second));
                })
                .unwrap();
        }
    }

    #[test]
    fn freed_memory_is_zero_on_all_ranks_when_it_is_allocated_again() {
        for size in SIZES {
            World::threads(size)
                .run(|ra| {
                    let collectives = Collectives::new(ra).unwrap();
                    let mut random = Random::new(3, u64::from(ra.rank().0));
                    let mut common = Random::new(4, 0);
                    for _ in 0..50 {
                        let words = 2 + common.below(1500);
                        // The last word may be an incomplete one.
                        let disp = ra.heap().alloc(8 * words - common.below(8), 8).unwrap();
                        for _ in 0..4 {
                            let target = Rank(random.below(u64::from(size)) as u32);
                            ra.fetch_add(target.at(disp.word(random.below(words - 1))), 1).unwrap();
                            delay(&mut random);
                        }
                        collectives.barrier().unwrap();
                        let own = |i| ra.get(ra.rank().at(disp.word(i))).unwrap();
                        let total: u64 = (0..words - 1).map(own).sum();
                        let totals = collectives.allgather(&[total]).unwrap();
                        assert_eq!(totals.iter().sum::<u64>(), 4 * u64::from(size));
                        collectives.free(disp).unwrap();
                    }
                    assert!(matches!(collectives.free(Disp(1)), Err(Error::NotAllocated { .. })));
                })
                .unwrap();
        }
    }

    #[test]
    fn a_dead_rank_is_an_error_of_every_operation_that_waits_for_it() {
        let outcome = std::panic::catch_unwind(|| {
            World::threads(4).run(|ra| {
                let collectives = Collectives::new(ra).unwrap();
                collectives.barrier().unwrap();
                assert_ne!(ra.rank(), Rank(1), "rank 1 dies");
                let error = match ra.rank() {
                    Rank(0) => collectives.barrier().unwrap_err(),
                    Rank(2) => collectives.broadcast(Rank(1), &mut [0]).unwrap_err(),
                    _ => collectives.allgather(&[0]).unwrap_err(),
                };
                assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
            })
        });
        let panic = outcome.unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("rank 1 dies"));
    }

    #[test]
    fn a_rank_that_has_left_is_an_error_of_every_operation_that_waits_for_it() {
        type Operation = fn(&Collectives<'_, crate::Mapped>) -> Result<()>;
        let operations: [Operation; 4] = [
            |collectives| collectives.barrier(),
            |collectives| collectives.broadcast(Rank(1), &mut [0]),
            |collectives| collectives.allgather(&[0; 2 * SHORT]).map(drop),
            // There are more messages than a link has slots. The rank ahead of the rank that has left waits for its
            // receipts.
            |collectives| collectives.allgather(&[0; 2048]).map(drop),
        ];
        for operation in operations {
            let seen = World::threads(4).run(|ra| {
                let collectives = Collectives::new(ra).unwrap();
                collectives.barrier().unwrap();
                if ra.rank() == Rank(1) {
                    None
                } else {
                    Some(operation(&collectives).map_err(|error| error.to_string()))
                }
            });
            let seen = seen.unwrap();
            for (rank, seen) in seen.iter().enumerate().filter(|(rank, _)| *rank != 1) {
                let error = seen.as_ref().unwrap().as_ref().unwrap_err();
                assert!(error.contains("has left, and this rank waits for it"), "rank {rank}: {error}");
            }
        }
    }

    #[test]
    fn a_rank_that_leaves_after_its_part_is_no_error() {
        for delayed in (0..3).cycle().take(30) {
            World::threads(3)
                .run(|ra| {
                    let collectives = Collectives::new(ra).unwrap();
                    collectives.barrier().unwrap();
                    if ra.rank() == Rank(delayed) {
                        // Usually the others have left by then, as far as they can.
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    let mut words = [u64::from(ra.rank().0); 12];
                    collectives.broadcast(Rank(0), &mut words).unwrap();
                    assert_eq!(words, [0; 12]);
                })
                .unwrap();
        }
    }

    #[test]
    fn impossible_arguments_panic() {
        World::threads(1)
            .run(|ra| {
                let collectives = Collectives::new(ra).unwrap();
                let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
                assert!(panics(&|| drop(collectives.broadcast(Rank(1), &mut [0]))));
                assert!(panics(&|| drop(collectives.reduce_scatter(&[]))));
            })
            .unwrap();
        World::threads(2)
            .run(|ra| {
                let collectives = Collectives::new(ra).unwrap();
                let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
                assert!(panics(&|| drop(collectives.alltoall(&[1, 2, 3]))), "no equal blocks");
            })
            .unwrap();
    }
}
