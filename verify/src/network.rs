//! The network models: when what a rank has issued takes effect.

use std::fmt;
use std::str::FromStr;

use rmalab_atomics::controlled::{Answer, Call};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Rank};

/// How far operations may be late, and what is atomic with what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Every operation takes effect as it is issued: sequential consistency.
    #[default]
    Sc,
    /// A posted put takes effect at any time before the next flush of its target; those of one rank to one target in
    /// the order of their posting, all others in any order. Nothing else waits for it, not even a get by the same rank.
    ///
    /// A started operation takes effect at any time before it is waited for or its target is flushed, in one order with
    /// the puts of its rank to its target.
    LatePuts,
    /// Like [`LatePuts`](Network::LatePuts), except that bulk puts and started operations take effect at any time
    /// before they have to, in any order: all orders that the trait's memory model allows, but for bulk gets, whose
    /// words are read one after the other as they are issued, and never later.
    UnorderedBulk,
    /// Like [`Sc`](Network::Sc), except that an atomic operation of the network reads and writes in two steps. No other
    /// atomic operation comes between them, but a put may: the second step then loses it, unless that writes nothing.
    /// The owner's operations go through the network as well, as the backends' contract demands.
    ///
    /// This is the trait without `Capabilities::atomic_puts`.
    Hca,
    /// Like [`Hca`](Network::Hca), except that the owner goes through its processor, against the contract: a mutant of
    /// a backend.
    HcaOwnerCpu,
}

impl Network {
    /// All models.
    pub const ALL: [Network; 5] =
        [Network::Sc, Network::LatePuts, Network::UnorderedBulk, Network::Hca, Network::HcaOwnerCpu];

    /// The model's name, on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Sc => "sc",
            Network::LatePuts => "late-puts",
            Network::UnorderedBulk => "unordered-bulk",
            Network::Hca => "hca",
            Network::HcaOwnerCpu => "hca-owner-cpu",
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        Network::ALL.into_iter().find(|network| network.name() == text).ok_or_else(|| {
            let names = Network::ALL.map(Network::name).join(", ");
            format!("no network model is called '{text}' (there are {names})")
        })
    }
}

/// Something that is under way in the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Posted {
    /// The word, as a slot of the memory.
    pub slot: u16,
    /// The rank whose memory that is in.
    pub target: Rank,
    /// Whether it has no place in the order of what its rank has posted to the target.
    pub unordered: bool,
    /// What happens to the word.
    pub change: Change,
}

/// What happens to a word when something takes effect on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// A posted put.
    Put {
        /// Which bits are written.
        mask: u64,
        /// What they become.
        value: u64,
    },
    /// A store by the rank's processor.
    Store {
        /// What the word becomes.
        value: u64,
        /// Whether flushes wait for it.
        flushed: bool,
    },
    /// A started operation.
    Start {
        /// Its number.
        request: u32,
        /// What it does.
        op: WordOp,
    },
}

/// What one rank has under way: what it has posted and started, in that order.
pub type Posts = Vec<Posted>;

/// The result of a started operation that has taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Delivered {
    /// The operation's number.
    pub request: u32,
    /// Its word, as a slot of the memory.
    pub slot: u16,
    /// The result.
    pub word: u64,
}

/// What one rank can finish, by ascending numbers.
pub type Results = Vec<Delivered>;

/// The memory of all ranks and what is under way to it.
///
/// Words have slots in the order in which they were first named; a word without a slot is zero.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// The words, by slot.
    pub words: Vec<u64>,
    /// What each rank has under way.
    pub posts: Vec<Posts>,
    /// What each rank can finish.
    pub results: Vec<Results>,
    /// On a network of [`Network::Hca`]'s kind: the ranks whose atomic operation has read its word and not yet written
    /// it, with what it read. The word is locked against other atomic operations of the network until then.
    pub halfway: Vec<Option<(u16, u64)>>,
}

/// A call as the memory takes it: with the slot of its word, and the way it goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Issued {
    /// The call.
    pub call: Call,
    /// The slot of its word; means nothing if it has none.
    pub slot: u16,
    /// Whether the processor of the word's owner carries it out, beside the network.
    pub by_cpu: bool,
}

impl Issued {
    /// `call` by `rank` on `network`; `slot` gives the slot of a word.
    pub fn new(network: Network, rank: Rank, call: Call, slot: impl FnOnce(Address) -> u16) -> Issued {
        let address = call.address(rank);
        Issued {
            call,
            slot: address.map_or(0, slot),
            by_cpu: network == Network::HcaOwnerCpu && address.is_some_and(|at| at.rank == rank),
        }
    }
}

impl Network {
    const fn puts_are_late(self) -> bool {
        matches!(self, Network::LatePuts | Network::UnorderedBulk)
    }

    const fn bulk_is_late(self) -> bool {
        matches!(self, Network::UnorderedBulk)
    }

    /// Returns whether `call` is posted: it is answered at once, and takes effect later.
    pub const fn is_late(self, call: &Call) -> bool {
        match call {
            Call::Put { .. } | Call::Store { .. } | Call::Start { .. } => self.puts_are_late(),
            Call::BulkPut { .. } => self.bulk_is_late(),
            _ => false,
        }
    }

    /// Returns whether atomic operations of the network take two steps.
    pub const fn splits_atomics(self) -> bool {
        matches!(self, Network::Hca | Network::HcaOwnerCpu)
    }
}

impl Memory {
    /// The memory of `ranks` ranks at rest.
    pub fn new(ranks: usize) -> Memory {
        Memory {
            words: Vec::new(),
            posts: vec![Posts::new(); ranks],
            results: vec![Results::new(); ranks],
            halfway: vec![None; ranks],
        }
    }

    /// The word in `slot`.
    pub fn word(&self, slot: u16) -> u64 {
        self.words.get(usize::from(slot)).copied().unwrap_or(0)
    }

    fn set(&mut self, slot: u16, value: u64) {
        let slot = usize::from(slot);
        if slot >= self.words.len() {
            self.words.resize(slot + 1, 0);
        }
        self.words[slot] = value;
    }

    /// What `rank` has last stored to a word, if that is under way.
    fn stored(&self, rank: usize, slot: u16) -> Option<u64> {
        self.posts[rank].iter().rev().find_map(|post| match post.change {
            Change::Store { value, .. } if post.slot == slot => Some(value),
            _ => None,
        })
    }

    fn result(&self, rank: usize, request: u32) -> Option<usize> {
        self.results[rank].iter().position(|result| result.request == request)
    }

    fn deliver(&mut self, rank: usize, result: Delivered) {
        let results = &mut self.results[rank];
        let place = results.partition_point(|before| before.request < result.request);
        results.insert(place, result);
    }

    /// Returns whether `rank` can go on with `issued` now. A wait that is not over, a finish or a flush of what is not
    /// there yet, and an atomic operation on a word that another one has locked cannot.
    ///
    /// A started operation is taken as its own call where it is not late.
    pub fn ready(&self, rank: usize, issued: &Issued) -> bool {
        match issued.call {
            Call::WaitUntil { until, .. } => until.holds(self.word(issued.slot)),
            Call::Flush { target } => {
                let waits = |post: &Posted| !matches!(post.change, Change::Store { flushed: false, .. });
                self.posts[rank].iter().all(|post| !waits(post) || target.is_some_and(|target| post.target != target))
            }
            Call::Finish { request, .. } => self.result(rank, request).is_some(),
            Call::FenceEverywhere => {
                let word_put =
                    |post: &Posted| !post.unordered && matches!(post.change, Change::Put { .. } | Change::Store { .. });
                !self.posts.iter().flatten().any(word_put)
            }
            Call::Get { .. } | Call::BulkGet { .. } | Call::Test { .. } | Call::Pause { .. } | Call::Now => true,
            // The adapter's writes take no part in the order of its atomics.
            Call::Put { .. } | Call::BulkPut { .. } | Call::Load { .. } | Call::Store { .. } | Call::Stored => true,
            Call::Start { op: WordOp::Get | WordOp::Put(_), .. } => true,
            // A processor's operations on one word are in one order, those of its adapter's too, where it has stored to
            // it.
            _ if self.stored(rank, issued.slot).is_some() => false,
            _ if issued.by_cpu => true,
            _ => {
                let locked = |(other, half): (usize, &Option<(u16, u64)>)| {
                    other != rank && half.is_some_and(|(slot, _)| slot == issued.slot)
                };
                !self.halfway.iter().enumerate().any(locked)
            }
        }
    }

    /// Carries out `issued` by `rank`, or the first half of it; the answer comes with the second.
    ///
    /// Only what is [ready](Memory::ready).
    pub fn carry_out(&mut self, network: Network, rank: usize, issued: &Issued) -> Option<Answer> {
        let slot = issued.slot;
        let atomic = |memory: &mut Memory, new: &dyn Fn(u64) -> Option<u64>| {
            let old = if network.splits_atomics() && !issued.by_cpu {
                match memory.halfway[rank].take() {
                    Some((_, old)) => old,
                    None => {
                        memory.halfway[rank] = Some((slot, memory.word(slot)));
                        return None;
                    }
                }
            } else {
                memory.word(slot)
            };
            if let Some(new) = new(old) {
                memory.set(slot, new);
            }
            Some(Answer::Word(old))
        };
        match issued.call {
            Call::Start { at, request, op } => {
                if network.is_late(&issued.call) {
                    let change = Change::Start { request, op };
                    return self.put(
                        true,
                        rank,
                        Posted { slot, target: at.rank, unordered: network.bulk_is_late(), change },
                    );
                }
                let at_once = Issued { call: Call::new(at, op), ..*issued };
                let word = match self.carry_out(network, rank, &at_once)? {
                    Answer::Word(old) => old,
                    _ => 0,
                };
                self.deliver(rank, Delivered { request, slot, word });
                Some(Answer::Done)
            }
            Call::Finish { request, .. } => {
                let place = self.result(rank, request).expect("only what is ready is carried out");
                Some(Answer::Word(self.results[rank].remove(place).word))
            }
            Call::Test { request } => Some(Answer::Word(u64::from(self.result(rank, request).is_some()))),
            Call::FetchAdd { value, .. } => atomic(self, &|old| Some(old.wrapping_add(value))),
            Call::FetchStore { value, .. } => atomic(self, &|_| Some(value)),
            Call::CompareAndSwap { expected, desired, .. } => atomic(self, &|old| (old == expected).then_some(desired)),
            Call::Get { .. } | Call::BulkGet { .. } | Call::WaitUntil { .. } => Some(Answer::Word(self.word(slot))),
            Call::Put { at, value } => {
                let change = Change::Put { mask: u64::MAX, value };
                self.put(network.puts_are_late(), rank, Posted { slot, target: at.rank, unordered: false, change })
            }
            Call::Load { .. } => Some(Answer::Word(self.stored(rank, slot).unwrap_or_else(|| self.word(slot)))),
            Call::Store { at, value } => {
                let change = Change::Store { value, flushed: false };
                self.put(network.puts_are_late(), rank, Posted { slot, target: at.rank, unordered: false, change })
            }
            Call::Stored => {
                for post in &mut self.posts[rank] {
                    if let Change::Store { flushed, .. } = &mut post.change {
                        *flushed = true;
                    }
                }
                Some(Answer::Done)
            }
            Call::BulkPut { at, mask, value } => {
                let change = Change::Put { mask, value };
                self.put(network.bulk_is_late(), rank, Posted { slot, target: at.rank, unordered: true, change })
            }
            Call::Flush { .. } | Call::FenceEverywhere | Call::Pause { .. } => Some(Answer::Done),
            // Time stands still: no deadline passes.
            Call::Now => Some(Answer::Word(0)),
        }
    }

    /// Returns whether number `index` of what `rank` has under way may take effect now.
    pub fn may_arrive(&self, rank: usize, index: usize) -> bool {
        let posts = &self.posts[rank];
        let Posted { target, unordered, .. } = posts[index];
        unordered || posts[..index].iter().all(|post| post.unordered || post.target != target)
    }

    /// Lets that take effect.
    pub fn arrive(&mut self, rank: usize, index: usize) {
        let posted = self.posts[rank].remove(index);
        self.apply(rank, posted);
    }

    /// Posts a put, or lets it take effect at once where it is not late.
    fn put(&mut self, late: bool, rank: usize, posted: Posted) -> Option<Answer> {
        if late {
            self.posts[rank].push(posted);
        } else {
            self.apply(rank, posted);
        }
        Some(Answer::Done)
    }

    /// Lets what `rank` has posted take effect.
    fn apply(&mut self, rank: usize, Posted { slot, change, .. }: Posted) {
        let old = self.word(slot);
        match change {
            Change::Put { mask, value } => self.set(slot, old & !mask | value & mask),
            Change::Store { value, .. } => self.set(slot, value),
            Change::Start { request, op } => {
                if let Some(new) = op.written(old) {
                    self.set(slot, new);
                }
                self.deliver(rank, Delivered { request, slot, word: op.result(old) });
            }
        }
    }
}
