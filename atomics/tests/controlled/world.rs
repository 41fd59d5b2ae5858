//! A small engine for the controlled backend: ranks are coroutines of one thread, random numbers choose the next call,
//! and time is virtual.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use rmalab_atomics::controlled::{Answer, Call, Controlled, RankTask, Shape, spawn};
use rmalab_atomics::coroutine::{Port, Turn};
use rmalab_atomics::fabric::WordOp;
use rmalab_atomics::{Address, Disp, Rank, Topology};

/// The backend of a rank's code.
pub(crate) type Ra<'t> = Controlled<&'t Port<'t, Answer, Call>>;

/// The virtual time of a call, and of one operation of a pause, in nanoseconds.
const OPERATION: u64 = 100;

/// More calls than any test makes. A world with more calls would never end.
const MOST_CALLS: u64 = 1 << 28;

/// When puts take effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Puts {
    /// When they are issued.
    AtOnce,
    /// At any time before a flush: word puts of one rank to one target in order, bulk puts without an order.
    Late,
}

/// Random numbers that depend only on the seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) % bound as u64) as usize
    }
}

/// A posted operation under way.
struct Post {
    at: Address,
    what: What,
    /// True if later puts and atomics of words come after it.
    ahead: bool,
}

impl Post {
    fn new(at: Address, what: What) -> Post {
        Post { at, what, ahead: false }
    }

    /// Returns whether it takes effect before `later`, which the same rank has posted after it.
    fn comes_before(&self, later: &Post) -> bool {
        match (self.what, later.what) {
            (What::Put(_), What::Put(_)) => self.ahead || self.at.rank == later.at.rank,
            (What::Put(_), What::Started { .. }) => self.ahead,
            _ => false,
        }
    }
}

/// The kind of a posted operation.
#[derive(Clone, Copy)]
enum What {
    Put(u64),
    Bulk { mask: u64, value: u64 },
    Started { request: u32, op: WordOp },
}

type Word = (Rank, Disp);

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Run<T> {
    /// The result of each rank; a panic is an error, too.
    pub(crate) ends: Vec<Result<T, String>>,
    /// The number of executed calls.
    pub(crate) calls: u64,
    /// A hash of all calls with their ranks and answers, in order.
    pub(crate) hash: u64,
}

pub(crate) struct World<T: 'static> {
    puts: Puts,
    chance: Chance,
    clock: u64,
    ranks: Vec<Option<RankTask<Result<T, String>>>>,
    ends: Vec<Option<Result<T, String>>>,
    /// The call that each rank waits for.
    calls: Vec<Call>,
    /// The end of a rank's pause, if it pauses.
    pauses: Vec<Option<u64>>,
    /// Ranks whose call may be executed, unordered.
    runnable: Vec<usize>,
    /// True if a rank is not runnable, since its wait or pause is not over.
    blocked: Vec<bool>,
    /// Ranks that may wait for a word. A rank that no longer waits only looks once more.
    waiting: HashMap<Word, Vec<usize>>,
    /// The times at which ranks have to look again.
    alarms: BinaryHeap<Reverse<(u64, usize)>>,
    words: HashMap<Word, u64>,
    posts: Vec<Vec<Post>>,
    /// The results of started operations that have taken effect, by rank and number.
    results: HashMap<(usize, u32), u64>,
    /// Ranks with operations under way.
    posting: Vec<usize>,
    failed: Option<Rank>,
    /// For each rank, whether it has acknowledged that failure.
    acknowledged: Vec<bool>,
    made: u64,
    hash: DefaultHasher,
}

/// Runs `body` on each of `ranks` ranks, whose segments have `segment` bytes, until all have ended.
///
/// A rank fails with an error or a panic. From then on all other ranks' waits fail.
///
/// # Panics
///
/// If no further step is possible, with the call of each rank.
pub(crate) fn run<T: 'static>(
    ranks: u32,
    segment: u64,
    puts: Puts,
    seed: u64,
    body: impl for<'t> Fn(&Ra<'t>) -> Result<T, String> + Clone + 'static,
) -> Run<T> {
    let mut shape = Shape::new(ranks);
    shape.topology = Topology::one_node(ranks).into();
    shape.segment = segment;
    shape.capabilities.late_puts = puts == Puts::Late;
    shape.local_words = true;
    let size = ranks as usize;
    let spawn_rank = |rank| {
        let body = body.clone();
        Some(spawn(&shape, Rank(rank), move |ra: &Ra<'_>| body(ra)).expect("a stack"))
    };
    let mut world = World {
        puts,
        chance: Chance(seed),
        clock: 0,
        ranks: (0..ranks).map(spawn_rank).collect(),
        ends: (0..ranks).map(|_| None).collect(),
        calls: vec![Call::Now; size],
        pauses: vec![None; size],
        runnable: Vec::new(),
        blocked: vec![false; size],
        waiting: HashMap::new(),
        alarms: BinaryHeap::new(),
        words: HashMap::new(),
        posts: (0..ranks).map(|_| Vec::new()).collect(),
        results: HashMap::new(),
        posting: Vec::new(),
        failed: None,
        acknowledged: vec![false; ranks as usize],
        made: 0,
        hash: DefaultHasher::new(),
    };
    for rank in 0..size {
        world.resume(rank, Answer::Done);
    }
    while world.step() {}
    let ends = world.ends.into_iter().map(|end| end.expect("all ranks have ended")).collect();
    Run { ends, calls: world.made, hash: world.hash.finish() }
}

impl<T: 'static> World<T> {
    /// Does one step; returns false when all ranks have ended.
    fn step(&mut self) -> bool {
        while let Some(&Reverse((time, rank))) = self.alarms.peek()
            && time <= self.clock
        {
            self.alarms.pop();
            self.wake(rank);
        }
        if !self.posting.is_empty() && (self.runnable.is_empty() || self.chance.below(4) == 0) {
            let rank = self.posting[self.chance.below(self.posting.len())];
            let index = self.chance.below(self.posts[rank].len());
            self.arrive(rank, index);
            return true;
        }
        if self.runnable.is_empty() {
            if let Some(&Reverse((time, _))) = self.alarms.peek() {
                self.clock = time;
                return true;
            }
            let stuck: Vec<usize> = (0..self.blocked.len()).filter(|&rank| self.blocked[rank]).collect();
            let waits: Vec<String> = stuck.iter().map(|&rank| format!("rank {rank} in {}", self.calls[rank])).collect();
            assert!(stuck.is_empty(), "nothing can happen any more: {}", waits.join(", "));
            return false;
        }
        let chosen = self.chance.below(self.runnable.len());
        let rank = self.runnable[chosen];
        if let Some(answer) = self.carry_out(rank) {
            self.made += 1;
            assert!(self.made < MOST_CALLS, "the run does not end");
            self.clock = self.clock.saturating_add(OPERATION);
            (rank, self.calls[rank], answer).hash(&mut self.hash);
            self.runnable.swap_remove(chosen);
            self.resume(rank, answer);
        } else if self.blocked[rank] {
            self.runnable.swap_remove(chosen);
        }
        true
    }

    fn wake(&mut self, rank: usize) {
        if self.blocked[rank] {
            self.blocked[rank] = false;
            self.runnable.push(rank);
        }
    }

    /// Blocks the rank until its alarm, if it has one, or until another rank wakes it.
    fn block(&mut self, rank: usize, alarm: Option<u64>) -> Option<Answer> {
        self.blocked[rank] = true;
        self.alarms.extend(alarm.map(|time| Reverse((time, rank))));
        None
    }

    fn resume(&mut self, rank: usize, answer: Answer) {
        let task = self.ranks[rank].as_mut().expect("a rank that has not ended");
        let end = match task.resume(answer) {
            Turn::Calls(call) => {
                self.calls[rank] = call;
                self.runnable.push(rank);
                return;
            }
            Turn::Finished(end) => end,
            Turn::Panicked(text) => Err(text),
        };
        if end.is_err() && self.failed.is_none() {
            self.failed = Some(Rank(rank as u32));
            (0..self.blocked.len()).for_each(|rank| self.wake(rank));
        }
        self.ends[rank] = Some(end);
        self.ranks[rank].take().expect("it was there").stop();
    }

    fn word(&self, word: Word) -> u64 {
        self.words.get(&word).copied().unwrap_or(0)
    }

    fn set(&mut self, word: Word, value: u64) {
        self.words.insert(word, value);
        for rank in self.waiting.remove(&word).unwrap_or_default() {
            self.wake(rank);
        }
    }

    fn update(&mut self, at: Address, new: impl FnOnce(u64) -> u64) -> Option<Answer> {
        let word = (at.rank, at.disp);
        let old = self.word(word);
        let new = new(old);
        if new != old {
            self.set(word, new);
        }
        Some(Answer::Word(old))
    }

    fn post(&mut self, rank: usize, post: Post) -> Option<Answer> {
        if self.posts[rank].is_empty() {
            self.posting.push(rank);
        }
        self.posts[rank].push(post);
        if self.puts == Puts::AtOnce {
            self.arrive(rank, 0);
        }
        Some(Answer::Done)
    }

    /// Makes put number `index` of `rank` take effect, or the put that has to come before it.
    fn arrive(&mut self, rank: usize, index: usize) {
        let posts = &mut self.posts[rank];
        let mut index = index;
        while let Some(before) = posts[..index].iter().position(|post| post.comes_before(&posts[index])) {
            index = before;
        }
        let Post { at, what, .. } = posts.remove(index);
        if posts.is_empty() {
            self.posting.retain(|&other| other != rank);
        }
        let answer = self.update(at, |old| match what {
            What::Put(value) => value,
            What::Bulk { mask, value } => old & !mask | value & mask,
            What::Started { op, .. } => op.written(old).unwrap_or(old),
        });
        if let (What::Started { request, op }, Some(Answer::Word(old))) = (what, answer) {
            assert_eq!(
                self.results.insert((rank, request), op.result(old)),
                None,
                "each number belongs to one operation"
            );
        }
    }

    /// Returns the answer to the rank's call; `None` if it is not done yet: the rank is blocked, or must be tried
    /// again.
    fn carry_out(&mut self, rank: usize) -> Option<Answer> {
        let call = self.calls[rank];
        if let Call::FetchAdd { .. } | Call::FetchStore { .. } | Call::CompareAndSwap { .. } = call
            && let Some(ahead) = self.posts[rank].iter().position(|post| post.ahead)
        {
            self.arrive(rank, ahead);
            return None;
        }
        match call {
            Call::FetchAdd { at, value } => self.update(at, |old| old.wrapping_add(value)),
            Call::FetchStore { at, value } => self.update(at, |_| value),
            Call::CompareAndSwap { at, expected, desired } => {
                self.update(at, |old| if old == expected { desired } else { old })
            }
            Call::Load { at } => {
                let own = self.posts[rank].iter().rev().find_map(|post| match post.what {
                    What::Put(value) if post.at == at => Some(value),
                    _ => None,
                });
                Some(Answer::Word(own.unwrap_or_else(|| self.word((at.rank, at.disp)))))
            }
            Call::Stored => Some(Answer::Done),
            Call::Get { at } | Call::BulkGet { at } => self.update(at, |old| old),
            Call::Put { at, value } | Call::Store { at, value } => self.post(rank, Post::new(at, What::Put(value))),
            Call::BulkPut { at, mask, value, .. } => self.post(rank, Post::new(at, What::Bulk { mask, value })),
            Call::Start { request, at, op } => self.post(rank, Post::new(at, What::Started { request, op })),
            Call::Finish { request, .. } => match self.results.remove(&(rank, request)) {
                Some(old) => Some(Answer::Word(old)),
                None => {
                    let is_it = |post: &Post| matches!(post.what, What::Started { request: of, .. } if of == request);
                    let index = self.posts[rank].iter().position(is_it).expect("an operation that is not finished");
                    self.arrive(rank, index);
                    None
                }
            },
            Call::Test { request } => Some(Answer::Word(u64::from(self.results.contains_key(&(rank, request))))),
            Call::Flush { target } => {
                let wanted = |post: &Post| target.is_none_or(|target| post.at.rank == target);
                match self.posts[rank].iter().rposition(wanted) {
                    Some(index) => {
                        self.arrive(rank, index);
                        None
                    }
                    None => Some(Answer::Done),
                }
            }
            Call::Order { target } => {
                for post in &mut self.posts[rank] {
                    post.ahead |= post.at.rank == target && matches!(post.what, What::Put(_));
                }
                Some(Answer::Done)
            }
            Call::FenceEverywhere => {
                let word = |posts: &Vec<Post>| posts.iter().rposition(|post| matches!(post.what, What::Put(_)));
                let found = self.posts.iter().enumerate().find_map(|(rank, posts)| Some((rank, word(posts)?)));
                match found {
                    Some((rank, index)) => {
                        self.arrive(rank, index);
                        None
                    }
                    None => Some(Answer::Done),
                }
            }
            Call::WaitUntil { own, until, deadline } => {
                let word = (Rank(rank as u32), own);
                let value = self.word(word);
                if until.holds(value) {
                    return Some(Answer::Word(value));
                }
                if let Some(failed) = self.failed.filter(|_| !self.acknowledged[rank]) {
                    return Some(Answer::PeerFailed(failed));
                }
                if deadline.is_some_and(|deadline| deadline.0 <= self.clock) {
                    return Some(Answer::TimedOut);
                }
                self.waiting.entry(word).or_default().push(rank);
                self.block(rank, deadline.map(|deadline| deadline.0))
            }
            Call::Pause { operations } => {
                if let Some(failed) = self.failed.filter(|_| !self.acknowledged[rank]) {
                    self.pauses[rank] = None;
                    return Some(Answer::PeerFailed(failed));
                }
                let length = u64::from(operations) * OPERATION;
                let end = *self.pauses[rank].get_or_insert(self.clock.saturating_add(length));
                if end <= self.clock {
                    self.pauses[rank] = None;
                    return Some(Answer::Done);
                }
                self.block(rank, Some(end))
            }
            Call::Now => Some(Answer::Word(self.clock)),
            Call::Failed => Some(Answer::Word(self.failed.map_or(0, |failed| 1 << failed.0))),
            Call::Acknowledge { ranks } => {
                let unknown = ranks & !self.failed.map_or(0, |failed| 1 << failed.0);
                self.acknowledged[rank] |= unknown == 0 && ranks != 0;
                Some(Answer::Word(unknown))
            }
            Call::Silence { ranks } => {
                let unknown = ranks & !self.failed.map_or(0, |failed| 1 << failed.0);
                if unknown == 0 {
                    for (of, posts) in self.posts.iter_mut().enumerate() {
                        if ranks >> of & 1 == 1 {
                            posts.clear();
                        }
                    }
                    self.posting.retain(|&of| ranks >> of & 1 == 0);
                }
                Some(Answer::Word(unknown))
            }
        }
    }
}
