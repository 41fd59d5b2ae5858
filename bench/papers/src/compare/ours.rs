//! The operations on our windows, with processes. `peers/mpi.c` does the same with an MPI: the same loops, sizes and
//! checks.

use std::hint::black_box;

use rmalab_atomics::{Mapped, Rank, RemoteAtomics, bind_to_core};
use rmalab_windows::{LockAll, LockKind, Op, Team, Window, WindowDisp};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::batches;
use rmalab_job::Job;
use rmalab_job::{Error, Result};
use rmalab_report::statistics::median;

const MIB: usize = 1 << 20;
const BURST: usize = 16;
const MANY: usize = 1000;
const TABLE_WORDS: u64 = 1 << 16;
const ELEMENTS: usize = 65_536;
const START: WindowDisp = WindowDisp(0);
const COUNTER: WindowDisp = WindowDisp((BURST * MIB) as i64);
const WINDOW_BYTES: u64 = (BURST * MIB + 4096) as u64;

/// Measurements of operations, one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Operations {
    /// Their names.
    pub(super) names: Vec<String>,
    /// Nanoseconds for each.
    pub(super) budget: f64,
}

impl Job for Operations {
    /// Nanoseconds of each, the same on all ranks.
    type Out = Vec<f64>;

    const NAME: &'static str = "compared operations";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        64 << 20
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Vec<f64>> {
        Err(Error::usage(format!(
            "the comparison of operations needs shared memory, not {}",
            ra.capabilities().backend
        )))
    }

    fn run_on_memory(&self, ra: &Mapped) -> Result<Vec<f64>> {
        bind_to_core(ra.rank())?;
        let team = Team::new(ra)?;
        let mut window = Window::allocate(&team, WINDOW_BYTES)?;
        // Touches all pages ahead of the measurements.
        window.local()?.write(START, &vec![0_u8; WINDOW_BYTES as usize])?;
        team.barrier()?;
        let member = Member { team: &team, budget: self.budget };
        let times = self.names.iter().map(|name| member.operation(name, &mut window)).collect();
        window.free()?;
        times
    }
}

/// The expected content of memory after an operation.
enum Check {
    Nothing,
    /// The other rank's counter: the calls of rank 0.
    OthersCounter,
    /// The sum of all counters: the calls of all ranks.
    AllCounters,
    /// The other rank's first and last element: the calls of rank 0.
    Elements(usize),
}

/// A rank that measures.
struct Member<'t> {
    team: &'t Team<'t, Mapped>,
    budget: f64,
}

/// Nanoseconds of the clock that all processes of a machine share.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Random numbers, the same as a peer's.
struct Random(u64);

impl Random {
    fn of(rank: Rank) -> Random {
        Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(rank.0) + 1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

impl Member<'_> {
    fn rank(&self) -> Rank {
        self.team.rank()
    }

    fn other(&self) -> Rank {
        Rank(u32::from(self.rank().0 == 0))
    }

    fn after(&self) -> Rank {
        Rank((self.rank().0 + 1) % self.team.size())
    }

    fn before(&self) -> Rank {
        Rank((self.rank().0 + self.team.size() - 1) % self.team.size())
    }

    /// One of the other ranks.
    fn random_other(&self, bits: u64) -> Rank {
        let size = u64::from(self.team.size());
        Rank(((u64::from(self.rank().0) + 1 + (bits >> 32) % (size - 1)) % size) as u32)
    }

    /// Nanoseconds of a call of `body`, and their number, from the first rank's start to the last rank's end.
    fn timed(&self, alone: bool, body: &mut dyn FnMut(u64) -> Result<()>) -> Result<(f64, u64)> {
        batches::measure(self.budget, |calls| {
            // The first start has the greatest complement.
            let mut ends = [0, 0];
            self.team.barrier()?;
            if !alone || self.rank() == Rank(0) {
                ends[0] = !now();
                body(calls)?;
                ends[1] = now();
            }
            let team = self.team.collectives();
            team.allreduce(&mut ends, u64::max)?;
            Ok(ends[1].saturating_sub(!ends[0]) as f64)
        })
    }

    /// Like [`timed`](Self::timed), by all ranks, each as often as it can: the median of the ranks' times, and the sum
    /// of their calls.
    fn freely(&self, body: &mut dyn FnMut(u64) -> Result<()>) -> Result<(f64, u64)> {
        let mut total = 0;
        let time = batches::measure_freely(self.budget, |time| {
            self.team.barrier()?;
            let (each, calls) = batches::until(time, || now() as f64, body)?;
            let all = self.team.collectives().allgather(&[each.to_bits(), calls])?;
            total += all.iter().skip(1).step_by(2).sum::<u64>();
            Ok(median(all.iter().step_by(2).map(|&each| f64::from_bits(each))))
        })?;
        Ok((time, total))
    }

    /// Like [`timed`](Self::timed), by rank 0 alone, inside lock_all.
    fn alone(
        &self,
        window: &mut Window<'_, Mapped>,
        mut body: impl FnMut(&LockAll<'_, '_, Mapped>, u64) -> Result<()>,
    ) -> Result<(f64, u64)> {
        if self.rank() != Rank(0) {
            return self.timed(true, &mut |_| Ok(()));
        }
        let epoch = window.lock_all()?;
        let timed = self.timed(true, &mut |calls| body(&epoch, calls))?;
        epoch.unlock_all()?;
        Ok(timed)
    }

    /// Like [`freely`](Self::freely), inside lock_all.
    fn all(
        &self,
        window: &mut Window<'_, Mapped>,
        mut body: impl FnMut(&LockAll<'_, '_, Mapped>, u64) -> Result<()>,
    ) -> Result<(f64, u64)> {
        let epoch = window.lock_all()?;
        let timed = self.freely(&mut |calls| body(&epoch, calls))?;
        epoch.unlock_all()?;
        Ok(timed)
    }

    /// Nanoseconds of the operation with that name.
    fn operation(&self, name: &str, window: &mut Window<'_, Mapped>) -> Result<f64> {
        let local = window.local()?;
        local.write(START, &vec![0_u8; MIB])?;
        local.store(COUNTER, 0_u64)?;
        self.team.barrier()?;
        let ((time, total), each, check) = self.measured(name, window)?;
        self.team.barrier()?;
        self.check(name, window, total, &check)?;
        Ok(time / each)
    }

    fn check(&self, name: &str, window: &Window<'_, Mapped>, total: u64, check: &Check) -> Result<()> {
        let local = window.local()?;
        let counter = local.load::<u64>(COUNTER)?;
        let (mine, expected) = match *check {
            Check::Nothing => (0, 0),
            Check::OthersCounter => (if self.rank() == Rank(1) { counter } else { 0 }, total),
            Check::AllCounters => (counter, total),
            Check::Elements(count) => {
                let last = WindowDisp(8 * (count as i64 - 1));
                let (first, last) = (local.load::<u64>(START)?, local.load::<u64>(last)?);
                let value = if first == last { first } else { u64::MAX };
                (if self.rank() == Rank(1) { value } else { 0 }, total)
            }
        };
        let mut found = [mine];
        self.team.collectives().allreduce(&mut found, u64::wrapping_add)?;
        if found[0] == expected {
            return Ok(());
        }
        Err(Error::Ranks(format!("{name}: memory has {} instead of {expected}", found[0])))
    }

    /// The time and number of an operation's calls, the operations in a call, and the check.
    fn measured(&self, name: &str, window: &mut Window<'_, Mapped>) -> Result<((f64, u64), f64, Check)> {
        let (team, other) = (self.team, self.other());
        let source = vec![1_u8; MIB];
        let words = vec![0x0101_0101_0101_0101_u64; MANY];
        let ones = vec![1_i64; ELEMENTS];
        let mut random = Random::of(self.rank());
        let mut made = 0_u64;
        let (mut each, mut check) = (1.0, Check::Nothing);
        let timed = match name {
            "put-8" => {
                check = Check::OthersCounter;
                self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        made += 1;
                        target.put(COUNTER, &[made])?;
                        epoch.flush(other)?;
                    }
                    Ok(())
                })
            }
            "get-8" => {
                let mut wrong = 0;
                let timed = self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        let mut value = [u64::MAX];
                        target.get(COUNTER, &mut value)?;
                        epoch.flush(other)?;
                        wrong += u64::from(value[0] != 0);
                    }
                    Ok(())
                });
                if wrong > 0 {
                    return Err(Error::Ranks(format!("{name}: {wrong} gets returned values that no rank has put")));
                }
                timed
            }
            "put-8-many" => {
                each = MANY as f64;
                self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        for place in 0..MANY {
                            target.put(WindowDisp(8 * place as i64), &words[place..=place])?;
                        }
                        epoch.flush(other)?;
                    }
                    Ok(())
                })
            }
            "put-128k" => self.alone(window, |epoch, calls| {
                let target = epoch.at(other)?;
                for _ in 0..calls {
                    target.put(START, &source[..128 << 10])?;
                    epoch.flush(other)?;
                }
                Ok(())
            }),
            "put-1m-burst" => {
                each = BURST as f64;
                self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        for place in 0..BURST {
                            target.put(WindowDisp((place * MIB) as i64), &source)?;
                        }
                        epoch.flush(other)?;
                    }
                    Ok(())
                })
            }
            "fetch-and-op" => {
                check = Check::OthersCounter;
                self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        target.fetch_and_op(COUNTER, Op::Sum, 1_i64)?;
                        epoch.flush(other)?;
                    }
                    Ok(())
                })
            }
            "all-fetch-and-op" => {
                check = Check::AllCounters;
                self.all(window, |epoch, calls| {
                    let target = epoch.at(Rank(0))?;
                    for _ in 0..calls {
                        target.fetch_and_op(COUNTER, Op::Sum, 1_i64)?;
                        epoch.flush(Rank(0))?;
                    }
                    Ok(())
                })
            }
            "compare-and-swap" => {
                check = Check::OthersCounter;
                self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        target.compare_and_swap(COUNTER, made as i64, made as i64 + 1)?;
                        made += 1;
                        epoch.flush(other)?;
                    }
                    Ok(())
                })
            }
            "accumulate-1" | "accumulate-128" | "accumulate-1k" | "accumulate-64k" => {
                let count = match name {
                    "accumulate-1" => 1,
                    "accumulate-128" => 128,
                    "accumulate-1k" => 1024,
                    _ => ELEMENTS,
                };
                check = Check::Elements(count);
                self.alone(window, |epoch, calls| {
                    let target = epoch.at(other)?;
                    for _ in 0..calls {
                        target.accumulate(START, Op::Sum, &ones[..count])?;
                        epoch.flush(other)?;
                    }
                    Ok(())
                })
            }
            "lock-exclusive" => self.timed(true, &mut locks::<true>(window, other)),
            "lock-shared" => self.timed(true, &mut locks::<false>(window, other)),
            "all-lock-exclusive" => self.freely(&mut locks::<true>(window, Rank(0))),
            "all-lock-shared" => self.freely(&mut locks::<false>(window, Rank(0))),
            "lock-all" | "all-lock-all" => {
                let mut body = |calls| {
                    for _ in 0..calls {
                        window.lock_all()?.unlock_all()?;
                    }
                    Ok(())
                };
                if name == "lock-all" { self.timed(true, &mut body) } else { self.freely(&mut body) }
            }
            "lock-put" => {
                check = Check::OthersCounter;
                self.timed(true, &mut |calls| {
                    for _ in 0..calls {
                        made += 1;
                        let epoch = window.lock(LockKind::Exclusive, other)?;
                        epoch.put(COUNTER, &[made])?;
                        epoch.unlock()?;
                    }
                    Ok(())
                })
            }
            "flush" => self.alone(window, |epoch, calls| {
                for _ in 0..calls {
                    epoch.flush(other)?;
                }
                Ok(())
            }),
            "sync" => self.alone(window, |epoch, calls| {
                for _ in 0..calls {
                    // Keeps the compiler from merging the calls into one.
                    black_box(made);
                    epoch.sync();
                }
                Ok(())
            }),
            "fence-pair" | "ghost-fence" => {
                let mut epoch = Some(window.fence()?);
                let timed = self.timed(false, &mut |calls| {
                    let mut now = epoch.take().ok_or_else(|| Error::Ranks("a fence has failed".into()))?;
                    for _ in 0..calls {
                        if name == "fence-pair" {
                            now = now.next()?;
                        } else {
                            now.at(self.after())?.put(START, &ones[..2])?;
                        }
                        now = now.next()?;
                    }
                    epoch = Some(now);
                    Ok(())
                });
                if let Some(epoch) = epoch {
                    epoch.close()?;
                }
                timed
            }
            "pscw" | "ghost-pscw" => {
                let (mut access, mut exposure) = window.pscw()?;
                let (before, after) = ([self.before()], [self.after()]);
                self.timed(false, &mut |calls| {
                    for _ in 0..calls {
                        let exposed = exposure.post(&before)?;
                        let epoch = access.start(&after)?;
                        if name == "ghost-pscw" {
                            epoch.at(after[0])?.put(START, &ones[..2])?;
                        }
                        epoch.complete()?;
                        exposed.wait()?;
                    }
                    Ok(())
                })
            }
            "barrier" => self.timed(false, &mut |calls| {
                for _ in 0..calls {
                    team.barrier()?;
                }
                Ok(())
            }),
            "create-4k" | "create-1m" | "create-16m" => {
                let bytes = match name {
                    "create-4k" => 4 << 10,
                    "create-1m" => 1 << 20,
                    _ => 16 << 20,
                };
                self.timed(false, &mut |calls| {
                    for _ in 0..calls {
                        Window::allocate(team, bytes)?.free()?;
                    }
                    Ok(())
                })
            }
            "hash-insert" => {
                check = Check::AllCounters;
                self.all(window, |epoch, calls| {
                    for _ in 0..calls {
                        let bits = random.next();
                        let (key, owner) = ((bits >> 1 | 1) as i64, self.random_other(bits));
                        let target = epoch.at(owner)?;
                        target.compare_and_swap(WindowDisp(8 * (bits % TABLE_WORDS) as i64), 0_i64, key)?;
                        epoch.flush(owner)?;
                        target.fetch_and_op(COUNTER, Op::Sum, 1_i64)?;
                        epoch.flush(owner)?;
                    }
                    Ok(())
                })
            }
            "gups" => self.all(window, |epoch, calls| {
                for _ in 0..calls {
                    let bits = random.next();
                    let owner = self.random_other(bits);
                    let word = WindowDisp(8 * (bits % TABLE_WORDS) as i64);
                    epoch.at(owner)?.fetch_and_op(word, Op::BitXor, bits)?;
                    epoch.flush(owner)?;
                }
                Ok(())
            }),
            _ => Err(Error::usage(format!("there is no operation '{name}'"))),
        };
        Ok((timed?, each, check))
    }
}

/// Returns a function that locks and unlocks `target` a given number of times. The kind is known at compile time, as in users'
/// programs.
fn locks<'w, const EXCLUSIVE: bool>(
    window: &'w Window<'_, Mapped>,
    target: Rank,
) -> impl FnMut(u64) -> Result<()> + 'w {
    let kind = if EXCLUSIVE { LockKind::Exclusive } else { LockKind::Shared };
    move |calls| {
        for _ in 0..calls {
            window.lock(kind, target)?.unlock()?;
        }
        Ok(())
    }
}
