//! The network models: the time at which an issued operation takes effect.

use std::fmt;
use std::str::FromStr;

use rmalab_atomics::controlled::{Answer, Call, Shape};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Rank, Time};

use crate::clock;

/// The possible delay of operations, and the operations that are atomic with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Every operation takes effect as it is issued: sequential consistency.
    #[default]
    Sc,
    /// A posted put takes effect at any time before the next flush of its target. Puts of one rank to one target take
    /// effect in the order of their posting, all other puts in any order. An ordered put takes effect before the rank's later puts and
    /// atomics. No other operation waits for a put, not even a get by the same rank.
    ///
    /// A started operation takes effect at any time before its finish or a flush of its target. It is in order with its
    /// rank's puts to the target.
    LatePuts,
    /// Like [`LatePuts`](Network::LatePuts), except that bulk puts and started operations take effect in any order.
    /// These are all orders of the trait's memory model, with one exception. Bulk gets read their words one after the
    /// other at their issue, never later.
    UnorderedBulk,
    /// Like [`UnorderedBulk`](Network::UnorderedBulk), except that the bulk puts and word puts of one rank to one target
    /// take effect in the order of their calls. The words of one bulk put have no order.
    ///
    /// This is the trait with `Capabilities::ordered_puts`, which the explored code sees. The capability concerns nothing
    /// else. Puts to two targets have no order. No get, atomic or started operation waits for a put. An order of a target
    /// orders its word puts ahead of later word operations, and orders no bulk put. But a bulk put ahead of an ordered word
    /// put comes ahead of it.
    OrderedBulk,
    /// Like [`Sc`](Network::Sc), except that an atomic operation of the network reads and writes in two steps. No other
    /// atomic operation comes between them, but a put may. The second step then overwrites the put, unless it writes
    /// nothing. The owner's operations also go through the network, as the contract of backends requires.
    ///
    /// This is the trait without `Capabilities::atomic_puts`, as the explored code sees it.
    Hca,
    /// Like [`Hca`](Network::Hca), except that the owner uses its processor, against the contract: a mutant of a
    /// backend.
    HcaOwnerCpu,
}

impl Network {
    /// All models.
    pub const ALL: [Network; 6] = [
        Network::Sc,
        Network::LatePuts,
        Network::UnorderedBulk,
        Network::OrderedBulk,
        Network::Hca,
        Network::HcaOwnerCpu,
    ];

    /// The model's name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Sc => "sc",
            Network::LatePuts => "late-puts",
            Network::UnorderedBulk => "unordered-bulk",
            Network::OrderedBulk => "ordered-bulk",
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
            format!("unknown network model '{text}'; use one of {names}")
        })
    }
}

/// An operation under way in the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Posted {
    /// The word, as a slot of the memory.
    pub slot: u16,
    /// The rank that owns the word.
    pub target: Rank,
    /// Its order among the rank's other operations to the target.
    pub sequence: Sequence,
    /// True if the rank's later puts and atomics of words come after it.
    pub ahead: bool,
    /// Its effect on the word.
    pub change: Change,
}

impl Posted {
    /// An operation that is in order with the rank's other ones to the target.
    fn new(slot: u16, target: Rank, change: Change) -> Posted {
        Posted { slot, target, sequence: Sequence::InOrder, ahead: false, change }
    }

    /// Returns whether it takes effect before `later`, which the same rank has posted after it, and which is no word of
    /// the same bulk put.
    fn comes_before(&self, later: &Posted) -> bool {
        let is_of_word = later.sequence == Sequence::InOrder || matches!(later.change, Change::Start { .. });
        let in_order = |post: &Posted| post.sequence != Sequence::Unordered;
        self.ahead && is_of_word || in_order(self) && in_order(later) && self.target == later.target
    }
}

/// The order of an operation under way among its rank's other operations to the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sequence {
    /// An operation on a word that is in order with all others that have an order.
    InOrder,
    /// It has no order.
    Unordered,
    /// A word of a bulk put that is in order with the rank's other puts, but not with the other words of this bulk put.
    Bulk {
        /// False for the first word of the bulk put that is still under way. The others directly follow.
        further: bool,
    },
}

/// The effect of an operation on its word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// A posted put.
    Put {
        /// The bits that are written.
        mask: u64,
        /// Their new value.
        value: u64,
    },
    /// A store by the rank's processor.
    Store {
        /// The new value of the word.
        value: u64,
        /// True if flushes wait for it.
        flushed: bool,
    },
    /// A started operation.
    Start {
        /// Its number.
        request: u32,
        /// The operation.
        op: WordOp,
    },
}

/// The operations of one rank under way: posted and started, in that order.
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

/// The results that one rank can finish, by ascending numbers.
pub type Results = Vec<Delivered>;

/// The memory of all ranks, and the operations under way.
///
/// Words get slots in the order of their first use. A word without a slot is zero.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// The words, by slot.
    pub words: Vec<u64>,
    /// The operations of each rank under way.
    pub posts: Vec<Posts>,
    /// The results that each rank can finish.
    pub results: Vec<Results>,
    /// On [`Network::Hca`] and [`Network::HcaOwnerCpu`]: for each rank whose atomic operation has read but not yet
    /// written its word, the slot and the value read. The word is locked against other atomic operations of the network
    /// until then.
    pub halfway: Vec<Option<(u16, u64)>>,
    /// The clock of each rank.
    pub clocks: Vec<Time>,
    /// For each rank inside, how often time has passed since it entered.
    pub held: Vec<u8>,
    /// The ranks that have failed.
    pub deaths: Deaths,
    /// The number of times that a rank has failed and come back.
    pub restarts: u32,
}

/// The ranks that have failed, and the ranks that know it. Bit i of a word is rank i.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Deaths {
    /// The ranks that have failed.
    pub down: u64,
    /// For each live rank, the failed ranks that it knows.
    pub known: Vec<u64>,
    /// For each live rank, the failed ranks that it has acknowledged.
    pub acknowledged: Vec<u64>,
    /// The half-written data of ranks that failed inside, as long as no later rank has learned of that. There is a bit for each
    /// target where targets are apart, and one bit otherwise.
    pub untold: u64,
}

impl Deaths {
    /// Returns whether `rank` has failed.
    #[inline]
    pub fn is_down(&self, rank: usize) -> bool {
        self.down != 0 && self.down >> rank & 1 == 1
    }

    /// The first failure that `rank` knows and has not acknowledged: it ends the rank's waits.
    fn news(&self, rank: usize) -> Option<Rank> {
        match self.known[rank] & !self.acknowledged[rank] {
            0 => None,
            news => Some(Rank(news.trailing_zeros())),
        }
    }
}

/// A call with the slot of its word, and its path to the word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Issued {
    /// The call.
    pub call: Call,
    /// The slot of its word; meaningless without a word.
    pub slot: u16,
    /// True if the processor of the word's owner carries it out, bypassing the network.
    pub by_cpu: bool,
}

impl Issued {
    /// `call` by `rank` on `network`; `slot` returns the slot of a word.
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
    /// Returns whether posted word puts and started operations may take effect later.
    pub const fn puts_are_late(self) -> bool {
        matches!(self, Network::LatePuts | Network::UnorderedBulk | Network::OrderedBulk)
    }

    const fn bulk_is_late(self) -> bool {
        matches!(self, Network::UnorderedBulk | Network::OrderedBulk)
    }

    /// Returns `shape` with the capabilities by which this network differs from others.
    pub fn shape(self, mut shape: Shape) -> Shape {
        shape.capabilities.ordered_puts = self == Network::OrderedBulk;
        shape.capabilities.atomic_puts = !self.splits_atomics();
        shape
    }

    /// Returns whether `call` is posted: it returns at once, and takes effect later.
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
            clocks: vec![Time(0); ranks],
            held: vec![0; ranks],
            deaths: Deaths { known: vec![0; ranks], acknowledged: vec![0; ranks], ..Deaths::default() },
            restarts: 0,
        }
    }

    /// Returns whether `rank` may fail: its ordered puts have taken effect. They do so in any case. No rank notices whether that is
    /// ahead of the failure, so a search loses no behaviour.
    pub fn may_fail(&self, rank: usize) -> bool {
        self.posts[rank].iter().all(|post| !post.ahead)
    }

    /// The operation under way if `rank` fails amid `issued`: an atomic operation, where operations are late.
    pub fn amid(&self, network: Network, rank: usize, issued: &Issued) -> Option<Posted> {
        let (target, op) = match issued.call {
            Call::FetchAdd { at, value } => (at.rank, WordOp::FetchAdd(value)),
            Call::FetchStore { at, value } => (at.rank, WordOp::FetchStore(value)),
            Call::CompareAndSwap { at, expected, desired } => (at.rank, WordOp::CompareAndSwap { expected, desired }),
            _ => return None,
        };
        let may_be_posted = network.puts_are_late() && self.ready(rank, issued);
        // It waits for no put. No rank takes its result.
        let change = Change::Start { request: 0, op };
        may_be_posted.then(|| Posted { sequence: Sequence::Unordered, ..Posted::new(issued.slot, target, change) })
    }

    /// Lets `rank` fail, which leaves `untold` half written. Its posted operations may arrive until it is silenced, or never.
    pub fn crash(&mut self, rank: usize, untold: u64) {
        self.deaths.down |= 1 << rank;
        (self.deaths.known[rank], self.deaths.acknowledged[rank]) = (0, 0);
        self.deaths.untold |= untold;
        self.results[rank].clear();
    }

    /// Lets `rank` fail amid `issued`, which may arrive as what it has posted. It leaves nothing half written: at the first operation of
    /// its release, it has left.
    pub fn crash_amid(&mut self, network: Network, rank: usize, issued: &Issued) {
        let amid = self.amid(network, rank, issued);
        self.posts[rank].extend(amid);
        self.crash(rank, 0);
    }

    /// Lets `rank` fail and come back. Its posted puts that have not arrived are lost. An arrival between the failure and the
    /// return is the same as one ahead of the failure, since no other rank notices either.
    pub fn restart(&mut self, rank: usize) {
        self.restarts += 1;
        self.posts[rank].clear();
        self.results[rank].clear();
    }

    /// Returns whether the news that `of` has failed matters to `rank` now: its call looks for failures. So the search
    /// lets the rank learn of them there, and loses no behaviour.
    pub fn may_notice(&self, rank: usize, issued: &Issued, of: usize) -> bool {
        let looks = match issued.call {
            Call::Failed | Call::Pause { .. } => true,
            Call::WaitUntil { until, .. } => !until.holds(self.word(issued.slot)),
            _ => false,
        };
        looks && self.deaths.is_down(of) && self.deaths.known[rank] >> of & 1 == 0
    }

    /// Lets `rank` learn that `of` has failed.
    pub fn notice(&mut self, rank: usize, of: usize) {
        self.deaths.known[rank] |= 1 << of;
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

    /// The value that `rank` has last stored to a word, if the store is under way.
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

    /// Lets time pass for `rank` until `time`.
    pub fn pass(&mut self, rank: usize, time: Time) {
        self.clocks[rank] = self.clocks[rank].max(time);
    }

    /// Lets the time of a lapse pass for all ranks; `inside` returns whether a rank holds the lock.
    pub fn lapse(&mut self, inside: impl Fn(usize) -> bool) {
        for rank in 0..self.clocks.len() {
            self.clocks[rank] = self.clocks[rank].after(clock::LAPSE);
            self.held[rank] = if inside(rank) { self.held[rank].saturating_add(1) } else { 0 };
        }
    }

    /// The number of times that time has passed for all ranks.
    pub fn lapses(&self) -> u32 {
        let now = self.clocks.first().map_or(Time(0), |&now| now);
        now.since(Time(0)).as_secs() as u32
    }

    /// Returns whether no operation is under way, and none is half done.
    pub fn is_quiet(&self) -> bool {
        self.posts.iter().all(Vec::is_empty) && self.halfway.iter().all(Option::is_none)
    }

    /// Returns whether `issued` of `rank` is enabled. These calls are not: a wait whose condition is false ahead of its deadline,
    /// and a finish without a result. Nor are a flush of operations under way, and a fence for all ranks while puts are under way.
    /// Nor are atomic operations on a locked word, or after an ordered put.
    ///
    /// On a network without late operations, a started operation counts as the blocking call.
    pub fn ready(&self, rank: usize, issued: &Issued) -> bool {
        match issued.call {
            Call::WaitUntil { until, deadline, .. } => {
                until.holds(self.word(issued.slot))
                    || deadline.is_some_and(|deadline| deadline <= self.clocks[rank])
                    || self.deaths.news(rank).is_some()
            }
            Call::Flush { target } => {
                let waits = |post: &Posted| !matches!(post.change, Change::Store { flushed: false, .. });
                self.posts[rank].iter().all(|post| !waits(post) || target.is_some_and(|target| post.target != target))
            }
            Call::Finish { request, .. } => self.result(rank, request).is_some(),
            Call::FenceEverywhere => {
                let word_put =
                    |post: &Posted| post.sequence == Sequence::InOrder && !matches!(post.change, Change::Start { .. });
                !self.posts.iter().flatten().any(word_put)
            }
            Call::Get { .. } | Call::BulkGet { .. } | Call::Test { .. } | Call::Pause { .. } | Call::Now => true,
            Call::Failed | Call::Acknowledge { .. } | Call::Silence { .. } => true,
            // The adapter's writes are not ordered with its atomics.
            Call::Put { .. } | Call::BulkPut { .. } | Call::Load { .. } | Call::Store { .. } | Call::Stored => true,
            Call::Order { .. } => true,
            Call::Start { op: WordOp::Get | WordOp::Put(_), .. } => true,
            // A processor's operations on one word are in order. The adapter's operations on a word join that order if
            // the processor has stored to it.
            _ if self.stored(rank, issued.slot).is_some() => false,
            _ if self.posts[rank].iter().any(|post| post.ahead) => false,
            _ if issued.by_cpu => true,
            _ => {
                let locked = |(other, half): (usize, &Option<(u16, u64)>)| {
                    other != rank && half.is_some_and(|(slot, _)| slot == issued.slot)
                };
                !self.halfway.iter().enumerate().any(locked)
            }
        }
    }

    /// Carries out `issued` by `rank`, or the first half of it. The second half returns the answer.
    ///
    /// The call must be [ready](Memory::ready).
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
                    let sequence = if network.bulk_is_late() { Sequence::Unordered } else { Sequence::InOrder };
                    let posted = Posted { sequence, ..Posted::new(slot, at.rank, Change::Start { request, op }) };
                    return self.put(true, rank, posted);
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
                let place = self.result(rank, request).expect("the call is ready");
                Some(Answer::Word(self.results[rank].remove(place).word))
            }
            Call::Test { request } => Some(Answer::Word(u64::from(self.result(rank, request).is_some()))),
            Call::FetchAdd { value, .. } => atomic(self, &|old| Some(old.wrapping_add(value))),
            Call::FetchStore { value, .. } => atomic(self, &|_| Some(value)),
            Call::CompareAndSwap { expected, desired, .. } => atomic(self, &|old| (old == expected).then_some(desired)),
            Call::WaitUntil { until, .. } if !until.holds(self.word(slot)) => {
                Some(self.deaths.news(rank).map_or(Answer::TimedOut, Answer::PeerFailed))
            }
            Call::Get { .. } | Call::BulkGet { .. } | Call::WaitUntil { .. } => Some(Answer::Word(self.word(slot))),
            Call::Put { at, value } => {
                let change = Change::Put { mask: u64::MAX, value };
                self.put(network.puts_are_late(), rank, Posted::new(slot, at.rank, change))
            }
            Call::Load { .. } => Some(Answer::Word(self.stored(rank, slot).unwrap_or_else(|| self.word(slot)))),
            Call::Store { at, value } => {
                let change = Change::Store { value, flushed: false };
                self.put(network.puts_are_late(), rank, Posted::new(slot, at.rank, change))
            }
            Call::Stored => {
                for post in &mut self.posts[rank] {
                    if let Change::Store { flushed, .. } = &mut post.change {
                        *flushed = true;
                    }
                }
                Some(Answer::Done)
            }
            Call::BulkPut { at, mask, value, first } => {
                let sequence = match network {
                    Network::OrderedBulk => Sequence::Bulk { further: !first && self.is_in_bulk_put(rank, at.rank) },
                    _ => Sequence::Unordered,
                };
                let posted = Posted { sequence, ..Posted::new(slot, at.rank, Change::Put { mask, value }) };
                self.put(network.bulk_is_late(), rank, posted)
            }
            Call::Order { target } => {
                for post in &mut self.posts[rank] {
                    let is_word_put = post.sequence == Sequence::InOrder && matches!(post.change, Change::Put { .. });
                    post.ahead |= post.target == target && is_word_put;
                }
                Some(Answer::Done)
            }
            Call::Pause { .. } => Some(self.deaths.news(rank).map_or(Answer::Done, Answer::PeerFailed)),
            Call::Flush { .. } | Call::FenceEverywhere => Some(Answer::Done),
            Call::Now => Some(Answer::Word(self.clocks[rank].0)),
            Call::Failed => Some(Answer::Word(self.deaths.known[rank])),
            Call::Acknowledge { ranks } => {
                let unknown = ranks & !self.deaths.known[rank];
                if unknown == 0 {
                    self.deaths.acknowledged[rank] |= ranks;
                }
                Some(Answer::Word(unknown))
            }
            Call::Silence { ranks } => {
                let unknown = ranks & !self.deaths.known[rank];
                if unknown == 0 {
                    self.silence(ranks);
                }
                Some(Answer::Word(unknown))
            }
        }
    }

    /// Lets every live rank know that these have failed. Puts that these ranks have posted and that have not arrived
    /// are lost.
    fn silence(&mut self, silenced: u64) {
        for rank in 0..self.posts.len() {
            if self.deaths.is_down(rank) {
                if silenced >> rank & 1 == 1 {
                    self.posts[rank].clear();
                }
            } else {
                self.deaths.known[rank] |= silenced;
            }
        }
    }

    /// Returns whether earlier words of the bulk put to `target` that `rank` is posting are under way.
    ///
    /// If they have all arrived, so have the earlier bulk puts to this target.
    fn is_in_bulk_put(&self, rank: usize, target: Rank) -> bool {
        let last = self.posts[rank].last();
        last.is_some_and(|post| post.target == target && matches!(post.sequence, Sequence::Bulk { .. }))
    }

    /// Returns whether the operation under way with number `index` of `rank` may take effect now.
    pub fn may_arrive(&self, rank: usize, index: usize) -> bool {
        let posts = &self.posts[rank];
        let is_further = |post: &Posted| post.sequence == Sequence::Bulk { further: true };
        let further = posts[..=index].iter().rev().take_while(|post| is_further(post)).count();
        !posts[..index - further].iter().any(|post| post.comes_before(&posts[index]))
    }

    /// Lets operation `index` of `rank` take effect.
    pub fn arrive(&mut self, rank: usize, index: usize) {
        let posts = &mut self.posts[rank];
        let posted = posts.remove(index);
        if posted.sequence == (Sequence::Bulk { further: false })
            && let Some(Posted { sequence: Sequence::Bulk { further }, .. }) = posts.get_mut(index)
        {
            *further = false;
        }
        self.apply(rank, posted);
    }

    /// Posts a put. A put that is not late takes effect at once.
    fn put(&mut self, late: bool, rank: usize, posted: Posted) -> Option<Answer> {
        if late {
            self.posts[rank].push(posted);
        } else {
            self.apply(rank, posted);
        }
        Some(Answer::Done)
    }

    /// Lets an operation of `rank` take effect.
    fn apply(&mut self, rank: usize, Posted { slot, change, .. }: Posted) {
        let old = self.word(slot);
        match change {
            Change::Put { mask, value } => self.set(slot, old & !mask | value & mask),
            Change::Store { value, .. } => self.set(slot, value),
            Change::Start { request, op } => {
                if let Some(new) = op.written(old) {
                    self.set(slot, new);
                }
                if !self.deaths.is_down(rank) {
                    self.deliver(rank, Delivered { request, slot, word: op.result(old) });
                }
            }
        }
    }
}
