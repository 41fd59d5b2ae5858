//! The steps of one rank, an iterator that draws them on demand.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::SplitMix64;
use rmalab_atomics::{Rank, WORD};
use rmalab_windows::replay::{Step, Update};
use rmalab_windows::{Assert, Kind, LockKind, Op, WindowDisp};

use super::table::{Popularity, scattered};
use super::{Acquire, Class, Operation, OperationKind, Span, Targets, Workload};

/// The steps of one rank; from [`Workload::steps`].
#[derive(Clone, Debug)]
pub struct Steps<'w> {
    workload: &'w Workload,
    rank: Rank,
    random: SplitMix64,
    /// Remaining acquisitions, including this one.
    left: u64,
    /// The present acquisition: its class, its target, and the next step.
    class: &'w Class,
    target: Rank,
    next: Next,
    /// The position of the next transfer in the window.
    at: u64,
    /// The present operation: its target, and the remaining bytes.
    to: Rank,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Between,
    Lock,
    /// The index of the operation's kind, and the number of completed operations.
    Operation(usize, u32),
    /// The rest of the operation after these.
    Part(usize, u32),
    Inside,
    Unlock,
}

impl<'w> Steps<'w> {
    pub(super) fn new(workload: &'w Workload, seed: u64, rank: Rank) -> Steps<'w> {
        // The generator steps through its states one by one, so another one draws distant begins for the ranks.
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
            target: rank,
            next: Next::Between,
            at: u64::from(rank.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) % words * WORD,
            to: rank,
            bytes: 0,
        }
    }

    fn draw_class(&mut self) -> &'w Class {
        let mut left = self.random.random::<f64>();
        let classes = &self.workload.classes;
        // Past the last one only by rounding.
        let drawn = classes.iter().find(|class| {
            left -= class.share;
            left < 0.0
        });
        drawn.or(classes.iter().rfind(|class| class.share > 0.0)).unwrap_or(&classes[0])
    }

    fn draw_target(&mut self) -> Rank {
        if let Some(layout) = &self.workload.layout {
            let popularity = match self.class.targets {
                Targets::Zipf(exponent) => Popularity::Zipf(exponent),
                _ => Popularity::Uniform,
            };
            let node = self.rank.0 / self.workload.ranks_per_node;
            return layout.home(layout.draw_by(popularity, node, &mut self.random));
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

    fn begin(&mut self, operation: Operation) {
        self.to = if operation.any { self.draw_target() } else { self.target };
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
            OperationKind::Update => Step::Update { call: Update::FetchAndOp(Kind::U64, Op::Sum), target, disp, bytes },
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
                    self.target = self.draw_target();
                    self.next = Next::Lock;
                    let ns = self.draw_time(self.class.between);
                    if ns > 0 {
                        return Some(Step::Compute(ns));
                    }
                }
                Next::Lock => {
                    self.next = Next::Operation(0, 0);
                    let (target, assert) = (self.target, Assert::None);
                    return Some(match self.class.lock {
                        Acquire::LockAll => Step::LockAll { assert },
                        Acquire::Shared => Step::Lock { kind: LockKind::Shared, target, assert },
                        Acquire::Exclusive => Step::Lock { kind: LockKind::Exclusive, target, assert },
                    });
                }
                Next::Operation(kind, done) => match self.class.operations.get(kind) {
                    None => self.next = Next::Inside,
                    Some(operation) if done == operation.count => self.next = Next::Operation(kind + 1, 0),
                    Some(&operation) => {
                        self.next = Next::Part(kind, done);
                        self.begin(operation);
                    }
                },
                Next::Part(kind, done) if self.bytes == 0 => self.next = Next::Operation(kind, done + 1),
                Next::Part(kind, _) => return Some(self.part(self.class.operations[kind].kind)),
                Next::Inside => {
                    self.next = Next::Unlock;
                    let ns = self.draw_time(self.class.inside);
                    if ns > 0 {
                        return Some(Step::Compute(ns));
                    }
                }
                Next::Unlock => {
                    self.next = Next::Between;
                    self.left -= 1;
                    let target = self.target;
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
