//! The steps of one rank, an iterator that draws them on demand.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::SplitMix64;
use rmalab_atomics::{Rank, WORD};
use rmalab_windows::replay::{Step, Update};
use rmalab_windows::{Assert, ElementKind, LockKind, Op, WindowDisp};

use super::table::{Popularity, Requests, scattered};
use super::{Acquire, Class, Operation, OperationKind, Span, Targets, Workload};

/// The steps of one rank; from [`Workload::steps`].
#[derive(Clone, Debug)]
pub struct Steps<'w> {
    workload: &'w Workload,
    rank: Rank,
    random: SplitMix64,
    /// Remaining acquisitions, including this one.
    left: u64,
    /// The present acquisition: its class, its target, and the next step. lock_all has a target for its operations.
    class: &'w Class,
    target: (Rank, LockKind),
    /// If the workload has a trace: the transaction's targets, instead of that target.
    traced: Option<Box<Traced>>,
    next: Next,
    /// The position of the next transfer in the window.
    at: u64,
    /// The present operation: its target, and the remaining bytes.
    to: Rank,
    bytes: u64,
}

/// The transactions of a rank.
#[derive(Clone, Debug)]
struct Traced {
    requests: Requests,
    /// The targets of the present one, by rising ranks.
    targets: Vec<(Rank, LockKind)>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Between,
    /// The index of the target.
    Lock(usize),
    /// The index of the operation's kind, and the number of completed operations on all targets.
    Operation(u32, u64),
    /// The rest of the operation after those.
    Part(u32, u64),
    Inside,
    /// The number of targets that are still locked.
    Unlock(usize),
}

impl<'w> Steps<'w> {
    pub(super) fn new(workload: &'w Workload, seed: u64, rank: Rank) -> Steps<'w> {
        // The generator steps through its states one by one, so another generator draws distant starts for the ranks.
        let mut begin = SplitMix64::seed_from_u64(seed ^ u64::from(rank.0).wrapping_mul(0xd134_2543_de82_ef95));
        let random = SplitMix64::seed_from_u64(begin.random());
        let class = &workload.classes[0];
        let words = workload.window_bytes() / WORD;
        Steps {
            workload,
            rank,
            random,
            left: workload.acquisitions,
            class,
            target: (rank, LockKind::Shared),
            traced: workload.layout.as_ref().filter(|layout| layout.table().trace.is_some()).map(|layout| {
                let requests = Requests::new(layout, rank, workload.ranks, rank.0 / workload.ranks_per_node);
                Box::new(Traced { requests, targets: Vec::new() })
            }),
            next: Next::Between,
            at: u64::from(rank.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) % words * WORD,
            to: rank,
            bytes: 0,
        }
    }

    fn draw_class(&mut self) -> &'w Class {
        let mut left = self.random.random::<f64>();
        let classes = &self.workload.classes;
        // Only rounding leads past the last one.
        let drawn = classes.iter().find(|class| {
            left -= class.share;
            left < 0.0
        });
        drawn.or(classes.iter().rfind(|class| class.share > 0.0)).unwrap_or(&classes[0])
    }

    /// The targets of the present acquisition, at least one.
    fn targets(&self) -> &[(Rank, LockKind)] {
        self.traced.as_ref().map_or(std::slice::from_ref(&self.target), |traced| &traced.targets)
    }

    /// Draws the targets of an acquisition.
    fn draw_targets(&mut self) {
        let kind = match self.class.lock {
            Acquire::LockAll | Acquire::Shared => LockKind::Shared,
            Acquire::Exclusive => LockKind::Exclusive,
        };
        let Some(Traced { requests, targets }) = self.traced.as_deref_mut() else {
            self.target = (self.draw_target(), kind);
            return;
        };
        let mut locks = Vec::new();
        requests.next(Popularity::Uniform, kind, &mut self.random, &mut locks);
        targets.clear();
        targets.extend(locks.into_iter().map(|(lock, kind)| (requests.layout().home(lock), kind)));
        in_order(targets);
    }

    fn draw_target(&mut self) -> Rank {
        if let Some(layout) = &self.workload.layout {
            let popularity = match self.class.targets {
                Targets::Zipf(exponent) => Popularity::Zipf(exponent),
                _ => Popularity::Uniform,
            };
            let node = self.rank.0 / self.workload.ranks_per_node;
            return layout.home(layout.draw(popularity, node, &mut self.random));
        }
        let ranks = self.workload.ranks;
        match self.class.targets {
            Targets::Own => self.rank,
            Targets::Single(target) => target,
            Targets::Uniform => Rank(self.random.random_range(0..ranks)),
            Targets::Neighbours => {
                let step = if self.random.random() { 1 } else { ranks - 1 };
                Rank(((u64::from(self.rank.0) + u64::from(step)) % u64::from(ranks)) as u32)
            }
            Targets::Zipf(exponent) => {
                let place = Popularity::Zipf(exponent).draw(ranks, &mut self.random);
                Rank(scattered(place, ranks))
            }
        }
    }

    fn draw_time(&mut self, span: Span) -> u64 {
        match span {
            Span::Constant(ns) => ns,
            Span::Uniform(least, most) => self.random.random_range(least..=most),
            Span::Exponential(mean) => {
                let factor: f64 = Exp1.sample(&mut self.random);
                (mean as f64 * factor).round() as u64
            }
        }
    }

    /// Begins an operation after `done` ones of its kind, which go to one target after the other.
    fn begin(&mut self, operation: Operation, done: u64) {
        let targets = self.targets();
        let own = targets[(done % targets.len() as u64) as usize].0;
        self.to = if operation.any { self.draw_target() } else { own };
        self.bytes = operation.bytes;
    }

    /// The next part of an operation.
    fn part(&mut self, kind: OperationKind) -> Step {
        let window = self.workload.window_bytes();
        let bytes = self.bytes.min(if kind == OperationKind::Update { WORD } else { window });
        self.bytes -= bytes;
        // Updates are whole words.
        let bytes = if kind == OperationKind::Update { WORD } else { bytes };
        if window - self.at < bytes {
            self.at = 0;
        }
        let (target, disp) = (self.to, WindowDisp(self.at as i64));
        self.at = (self.at + bytes.next_multiple_of(WORD)) % window;
        match kind {
            OperationKind::Put => Step::Put { target, disp, bytes },
            OperationKind::Get => Step::Get { target, disp, bytes },
            OperationKind::Update => {
                Step::Update { call: Update::FetchAndOp(ElementKind::U64, Op::Sum), target, disp, bytes }
            }
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        while self.left > 0 {
            match self.next {
                Next::Between => {
                    self.class = self.draw_class();
                    self.draw_targets();
                    self.next = Next::Lock(0);
                    let ns = self.draw_time(self.class.between);
                    if ns > 0 {
                        return Some(Step::Compute(ns));
                    }
                }
                Next::Lock(at) => match self.targets().get(at) {
                    None => self.next = Next::Operation(0, 0),
                    Some(&(target, kind)) => {
                        self.next = Next::Lock(at + 1);
                        let assert = Assert::None;
                        return Some(match self.class.lock {
                            Acquire::LockAll => Step::LockAll { assert },
                            Acquire::Shared | Acquire::Exclusive => Step::Lock { kind, target, assert },
                        });
                    }
                },
                Next::Operation(kind, done) => match self.class.operations.get(kind as usize) {
                    None => self.next = Next::Inside,
                    Some(operation) if done == u64::from(operation.count) * self.targets().len() as u64 => {
                        self.next = Next::Operation(kind + 1, 0);
                    }
                    Some(&operation) => {
                        self.next = Next::Part(kind, done);
                        self.begin(operation, done);
                    }
                },
                Next::Part(kind, done) if self.bytes == 0 => self.next = Next::Operation(kind, done + 1),
                Next::Part(kind, _) => return Some(self.part(self.class.operations[kind as usize].kind)),
                Next::Inside => {
                    self.next = Next::Unlock(self.targets().len());
                    let ns = self.draw_time(self.class.inside);
                    if ns > 0 {
                        return Some(Step::Compute(ns));
                    }
                }
                Next::Unlock(0) => {
                    self.next = Next::Between;
                    self.left -= 1;
                }
                Next::Unlock(held) => {
                    self.next = Next::Unlock(held - 1);
                    let target = self.targets()[held - 1].0;
                    return Some(match self.class.lock {
                        Acquire::LockAll => Step::UnlockAll,
                        Acquire::Shared | Acquire::Exclusive => Step::Unlock { target },
                    });
                }
            }
        }
        None
    }
}

/// Puts the targets of a transaction in the order in which a window can lock them: by rising ranks, each once, in the stronger mode.
///
/// A transaction that needs both modes takes its first target exclusively. The reason is that a policy with one lock for the
/// window cannot upgrade it.
fn in_order(targets: &mut Vec<(Rank, LockKind)>) {
    targets.sort_by_key(|&(target, kind)| (target.0, kind == LockKind::Shared));
    targets.dedup_by_key(|&mut (target, _)| target);
    if targets.iter().any(|&(_, kind)| kind == LockKind::Exclusive) {
        targets[0].1 = LockKind::Exclusive;
    }
}
