//! Litmus tests: small programs whose outcomes show the reorderings of an implementation of the memory model.
//!
//! The names come from the literature: L. Maranget, S. Sarkar, P. Sewell, A tutorial introduction to the ARM and POWER
//! relaxed memory models, 2012. The text of [`RemoteAtomics`] defines the forbidden outcomes. Operations that return a
//! value are sequentially consistent among themselves and complete when they return. Word puts are ordered only after
//! their rank's earlier operations on the same target; a flush completes them.
//!
//! A test races 64 instances, each on its own words, between two barriers, so that the barriers cost little and the
//! ranks run in parallel. Each rank starts at a random instance, and sometimes pauses within an instance, so that ranks
//! that share a core meet there, too. The homes of the variables rotate, so that every role is played on local and on
//! remote words. Allowed outcomes need not occur, and the histogram shows which ones did. On one core, or on a backend
//! without late puts, many tests show few outcomes.

use std::cell::Cell;
use std::fmt;

use super::{Failure, Lab, Outcome, require, run};
use crate::{Address, Disp, Rank, RemoteAtomics, WORD};

/// The number of instances of a test between two barriers: as many as a mask has bits.
const BATCH: u64 = 64;

/// The number of instances of a test as a check of the suite, at the usual number of rounds.
const ITERATIONS: u64 = 20_000;

/// Bytes of a variable: a cache line, so that the variables of one instance do not travel together.
const STRIDE: u64 = 64;

/// The largest distance between the first instances of two ranks.
const SKEW: u64 = 8;

/// The result of a test.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Litmus {
    /// The test's name.
    pub name: String,
    /// The number of ranks of the world.
    pub ranks: u32,
    /// Every conceivable outcome, with its count.
    pub outcomes: Vec<LitmusOutcome>,
}

/// One outcome of a test: the values that its reads returned.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct LitmusOutcome {
    /// The reads, as `r1:x=0`: the rank in role 1 read 0 from x; or `x=1`: x was 1 in the end.
    pub reads: String,
    /// True if the memory model forbids it.
    pub forbidden: bool,
    /// The number of times that it was seen.
    pub seen: u64,
}

impl Litmus {
    /// Returns the number of instances with an allowed outcome.
    pub fn allowed(&self) -> u64 {
        self.sum(false)
    }

    /// Returns the number of instances with a forbidden outcome.
    pub fn forbidden(&self) -> u64 {
        self.sum(true)
    }

    fn sum(&self, forbidden: bool) -> u64 {
        self.outcomes.iter().filter(|outcome| outcome.forbidden == forbidden).map(|outcome| outcome.seen).sum()
    }
}

/// Writes the histogram, a line for each outcome.
impl fmt::Display for Litmus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} ranks)", self.name, self.ranks)?;
        for outcome in &self.outcomes {
            let verdict = if outcome.forbidden { "forbidden" } else { "allowed" };
            write!(f, "\n{:>10}  {:<9}  {}", outcome.seen, verdict, outcome.reads)?;
        }
        Ok(())
    }
}

/// A litmus test of the table.
#[derive(Debug)]
pub struct LitmusTest<A: ?Sized> {
    /// Its name.
    pub name: &'static str,
    /// The number of ranks of an instance. A world needs at least that many; more ranks take turns.
    pub roles: u32,
    /// The function that each rank calls, with the number of instances, which is rounded up to a multiple of 64. All
    /// ranks return the same counts. A forbidden outcome is counted, and is not an error.
    pub run: fn(&A, u64) -> Result<Litmus, Failure>,
}

/// Long pauses within instances: one instance out of the first number has a pause, whose length is the second number of
/// operations. A long pause yields the processor where ranks share it.
const LONG_PAUSE: (u64, u32) = (32, 4_000);
/// Short pauses, like [`LONG_PAUSE`], of random length up to this many operations.
const SHORT_PAUSE: (u64, u32) = (8, 64);

/// The placement of the variables of an instance.
#[derive(Clone, Copy)]
enum Homes {
    /// All on one rank.
    Same,
    /// Any two of them on different ranks.
    Apart,
    /// Either, in turn.
    Mixed,
}

/// A test: its program is a function of the role.
struct Shape<A: RemoteAtomics + ?Sized> {
    roles: u32,
    homes: Homes,
    variables: u64,
    /// The reads, in the order of the bits of an outcome. The last ones are the variables' final values, if `ends`.
    reads: &'static [&'static str],
    /// True if the variables are read in the end. A set bit of such a read shows that the first write came last.
    ends: bool,
    /// The program of a role, which returns the bits that it has read.
    program: fn(u32, &Instance<'_, A>) -> Outcome<u32>,
    /// Returns whether the model forbids an outcome.
    forbidden: fn(u32) -> bool,
}

/// One run of a test's program by one rank.
struct Instance<'a, A: RemoteAtomics + ?Sized> {
    ra: &'a A,
    homes: [Rank; 2],
    words: [Disp; 2],
    /// The smallest value that this instance writes. All earlier instances wrote smaller values.
    new: u64,
    /// The number of word operations of this rank before it pauses in this instance, and the length of the pause.
    pause: Cell<Option<(u32, u32)>>,
}

const X: usize = 0;
const Y: usize = 1;

impl<A: RemoteAtomics + ?Sized> Instance<'_, A> {
    fn at(&self, variable: usize) -> Address {
        self.homes[variable].at(self.words[variable])
    }

    /// Pauses, if the pause of this instance is due here. Every operation calls it first.
    fn step(&self) -> Outcome {
        match self.pause.get() {
            Some((0, operations)) => {
                self.pause.set(None);
                self.ra.pause(operations)?;
            }
            Some((left, operations)) => self.pause.set(Some((left - 1, operations))),
            None => {}
        }
        Ok(())
    }

    fn fetch_store(&self, variable: usize) -> Outcome {
        self.fetch_store_of(variable, self.new)
    }

    fn fetch_store_of(&self, variable: usize, value: u64) -> Outcome {
        self.step()?;
        self.ra.fetch_store(self.at(variable), value)?;
        Ok(())
    }

    /// Writes with an addition; only for variables with one writer.
    fn fetch_add(&self, variable: usize) -> Outcome {
        let old = self.ra.get(self.at(variable))?;
        self.step()?;
        self.ra.fetch_add(self.at(variable), self.new - old)?;
        Ok(())
    }

    fn put(&self, variable: usize) -> Outcome {
        self.put_of(variable, self.new)
    }

    fn put_of(&self, variable: usize, value: u64) -> Outcome {
        self.step()?;
        Ok(self.ra.put(self.at(variable), value)?)
    }

    fn put_bytes(&self, variable: usize) -> Outcome {
        self.step()?;
        let bytes: Vec<u8> = (0..STRIDE / WORD).flat_map(|_| self.new.to_ne_bytes()).collect();
        Ok(self.ra.put_bytes(self.at(variable), &bytes)?)
    }

    /// Puts one word as bytes, without a wait.
    fn put_unwatched(&self, variable: usize) -> Outcome {
        self.step()?;
        Ok(self.ra.put_bytes(self.at(variable).unwatched(), &self.new.to_ne_bytes())?)
    }

    /// Puts a word with this rank's own store, where it reaches the word.
    fn store(&self, variable: usize) -> Outcome {
        let words = self.ra.local_words(self.at(variable), 1);
        let Some(word) = words.and_then(|words| words.get(0)) else { return self.put(variable) };
        self.step()?;
        word.store(self.new)?;
        self.ra.stored();
        Ok(())
    }

    fn flush(&self, variable: usize) -> Outcome {
        Ok(self.ra.flush(self.homes[variable])?)
    }

    fn order(&self, variable: usize) -> Outcome {
        Ok(self.ra.order(self.homes[variable])?)
    }

    /// Reads a variable; returns bit number `bit` if this instance's write was seen.
    fn get(&self, variable: usize, bit: u32) -> Outcome<u32> {
        self.step()?;
        Ok(u32::from(self.ra.get(self.at(variable))? >= self.new) << bit)
    }

    /// Reads all words of a variable; returns bit number `bit` if this instance's write was seen in all of them.
    fn get_bytes(&self, variable: usize, bit: u32) -> Outcome<u32> {
        self.step()?;
        let mut bytes = [0; STRIDE as usize];
        self.ra.get_bytes(self.at(variable), &mut bytes)?;
        let all = bytes.as_chunks().0.iter().all(|word| u64::from_ne_bytes(*word) >= self.new);
        Ok(u32::from(all) << bit)
    }
}

/// Runs `iterations` instances and counts their outcomes; all ranks return the same counts.
fn race<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>, shape: &Shape<A>, iterations: u64) -> Outcome<Vec<u64>> {
    let size = lab.size();
    require!(size >= u64::from(shape.roles), "{} ranks are too few for {} roles", size, shape.roles);
    let batches = iterations.div_ceil(BATCH).max(1);
    let words = lab.alloc(BATCH * shape.variables * STRIDE / WORD)?;
    let mut random = lab.random();
    // The instances in which this rank has seen the bit, for each batch and each read.
    let mut masks = vec![0u64; batches as usize * shape.reads.len()];
    for (batch, masks) in masks.chunks_mut(shape.reads.len()).enumerate() {
        let instance = |i: u64| {
            let turn = i + batch as u64;
            let apart = match shape.homes {
                Homes::Same => 0,
                Homes::Apart => 1,
                Homes::Mixed => turn / size % 2,
            };
            let home = |variable: u64| Rank(((turn + apart * variable) % size) as u32);
            let word = |variable| words.plus((i * shape.variables + variable) * STRIDE);
            // Every batch has two values, which are larger than the values of all earlier batches.
            Instance {
                ra: lab.ra,
                homes: [home(0), home(1)],
                words: [word(0), word(shape.variables - 1)],
                new: 2 * batch as u64 + 2,
                pause: Cell::new(None),
            }
        };
        // Roles rotate, so that every rank plays each role with homes of every kind.
        let role = ((lab.me() + batch as u64 / 2) % size) as u32;
        let skew = random.below(SKEW);
        let mut record = |i: u64, seen: u32| {
            for (read, mask) in masks.iter_mut().enumerate() {
                *mask |= u64::from(seen >> read & 1) << i;
            }
        };
        lab.barrier()?;
        if role < shape.roles {
            for i in (0..BATCH).map(|i| (i + skew) % BATCH) {
                let instance = instance(i);
                if random.below(LONG_PAUSE.0) == 0 {
                    instance.pause.set(Some((random.below(2) as u32, LONG_PAUSE.1)));
                } else if random.below(SHORT_PAUSE.0) == 0 {
                    instance.pause.set(Some((random.below(2) as u32, random.below(u64::from(SHORT_PAUSE.1)) as u32)));
                }
                record(i, (shape.program)(role, &instance)?);
            }
        }
        if shape.ends {
            lab.complete_barrier()?;
            if role == 0 {
                let first_bit = shape.reads.len() as u32 - shape.variables as u32;
                for i in 0..BATCH {
                    let instance = instance(i);
                    for (variable, bit) in (0..shape.variables as usize).zip(first_bit..) {
                        let end = lab.ra.get(instance.at(variable))?;
                        require!(end >= instance.new, "a write is lost: {} is {end}", instance.at(variable));
                        record(i, u32::from(end == instance.new) << bit);
                    }
                }
            }
        }
    }
    lab.complete_barrier()?;
    // The roles' bits are disjoint, so that a sum joins them.
    let all = lab.collectives.allgather(&masks)?;
    let joined: Vec<u64> = (0..masks.len()).map(|i| all.iter().skip(i).step_by(masks.len()).sum()).collect();
    let mut seen = vec![0; 1 << shape.reads.len()];
    for masks in joined.chunks(shape.reads.len()) {
        for i in 0..BATCH {
            let outcome =
                masks.iter().enumerate().map(|(read, mask)| ((mask >> i & 1) as usize) << read).sum::<usize>();
            seen[outcome] += 1;
        }
    }
    Ok(seen)
}

fn measure<A: RemoteAtomics + ?Sized>(
    name: &'static str,
    lab: &Lab<'_, A>,
    shape: &Shape<A>,
    iterations: u64,
) -> Outcome<Litmus> {
    let seen = race(lab, shape, iterations)?;
    let ends = if shape.ends { shape.reads.len() - shape.variables as usize } else { shape.reads.len() };
    let outcome = |(bits, seen): (u32, u64)| {
        let reads = shape.reads.iter().enumerate().map(|(read, what)| {
            let bit = bits >> read & 1;
            // The final value of a variable is 1, the first write to it in the program's text, or 2.
            let value = if read < ends { bit } else { 2 - bit };
            format!("{what}={value}")
        });
        LitmusOutcome { reads: reads.collect::<Vec<_>>().join(" "), forbidden: (shape.forbidden)(bits), seen }
    };
    Ok(Litmus { name: name.to_owned(), ranks: lab.ra.size(), outcomes: (0..).zip(seen).map(outcome).collect() })
}

/// Runs a test as a check: no forbidden outcome in [`ITERATIONS`], or the requested share of them.
fn check<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>, shape: &Shape<A>) -> Outcome {
    let litmus = measure(lab.check, lab, shape, lab.rounds(ITERATIONS))?;
    require!(litmus.forbidden() == 0, "forbidden outcomes were seen:\n{litmus}");
    Ok(())
}

macro_rules! tests {
    ($($(#[$doc:meta])* $name:ident $shape:expr;)*) => {
        /// Returns the litmus tests, for a command that runs them at length and prints their histograms.
        pub fn litmus<A: RemoteAtomics + ?Sized>() -> Vec<LitmusTest<A>> {
            vec![$({
                let shape: Shape<A> = $shape;
                LitmusTest {
                    name: stringify!($name),
                    roles: shape.roles,
                    run: |ra, iterations| {
                        let shape: Shape<A> = $shape;
                        run(stringify!($name), ra, |lab| measure(stringify!($name), lab, &shape, iterations))
                    },
                }
            }),*]
        }

        $($(#[$doc])*
        pub(super) fn $name<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
            check(lab, &$shape)
        })*
    };
}

/// Both roles write one variable, then read the other.
fn store_buffering<A: RemoteAtomics + ?Sized>(
    program: fn(u32, &Instance<'_, A>) -> Outcome<u32>,
    forbidden: fn(u32) -> bool,
) -> Shape<A> {
    let reads = &["r0:y", "r1:x"];
    Shape { roles: 2, homes: Homes::Mixed, variables: 2, reads, ends: false, program, forbidden }
}

/// Role 0 writes data x, then flag y; role 1 reads the flag, then the data.
fn message_passing<A: RemoteAtomics + ?Sized>(
    homes: Homes,
    program: fn(u32, &Instance<'_, A>) -> Outcome<u32>,
    forbidden: fn(u32) -> bool,
) -> Shape<A> {
    Shape { roles: 2, homes, variables: 2, reads: &["r1:y", "r1:x"], ends: false, program, forbidden }
}

/// The flag without the data.
const STALE: fn(u32) -> bool = |seen| seen == 0b01;

/// Role 0 writes x = 1 then y = 2. Role 1 writes y = 1 then x = 2.
fn two_plus_two_writes<A: RemoteAtomics + ?Sized>(
    homes: Homes,
    program: fn(u32, &Instance<'_, A>) -> Outcome<u32>,
) -> Shape<A> {
    let forbidden = |seen| seen == 0b11; // both of the first writes came last
    Shape { roles: 2, homes, variables: 2, reads: &["x", "y"], ends: true, program, forbidden }
}

const NEVER: fn(u32) -> bool = |_| false;

tests! {
    /// Fetching operations are sequentially consistent: one of the two reads sees the other's write.
    store_buffering_fetch_store store_buffering(|role, i| {
        let (mine, other) = if role == 0 { (X, Y) } else { (Y, X) };
        i.fetch_store(mine)?;
        i.get(other, role)
    }, |seen| seen == 0);

    /// A flushed put is complete: one of the two reads sees the other's write.
    store_buffering_flushed_put store_buffering(|role, i| {
        let (mine, other) = if role == 0 { (X, Y) } else { (Y, X) };
        i.put(mine)?;
        i.flush(mine)?;
        i.get(other, role)
    }, |seen| seen == 0);

    /// A flushed store to a direct word is complete: one of the two reads sees the other's write.
    store_buffering_stored store_buffering(|role, i| {
        let (mine, other) = if role == 0 { (X, Y) } else { (Y, X) };
        i.store(mine)?;
        i.flush(mine)?;
        i.get(other, role)
    }, |seen| seen == 0);

    /// An ordered put may be late for its own rank's next get: every outcome is allowed.
    store_buffering_ordered_put store_buffering(|role, i| {
        let (mine, other) = if role == 0 { (X, Y) } else { (Y, X) };
        i.put(mine)?;
        i.order(mine)?;
        i.get(other, role)
    }, NEVER);

    /// A posted put may be late: every outcome is allowed.
    store_buffering_put store_buffering(|role, i| {
        let (mine, other) = if role == 0 { (X, Y) } else { (Y, X) };
        i.put(mine)?;
        i.get(other, role)
    }, NEVER);

    /// A bulk put that is flushed is complete: one of the two reads sees the other's write.
    store_buffering_bulk store_buffering(|role, i| {
        let (mine, other) = if role == 0 { (X, Y) } else { (Y, X) };
        i.put_unwatched(mine)?;
        i.get(other, role)
    }, |seen| seen == 0);

    /// A fence everywhere is also a fence of a rank with a light fence. Where there is no such fence, that rank
    /// flushes.
    store_buffering_asymmetric store_buffering(|role, i| {
        if role == 0 {
            i.put(X)?;
            if i.ra.capabilities().asymmetric_fence { i.ra.fence_light() } else { i.flush(X)? };
            return i.get(Y, 0);
        }
        i.put(Y)?;
        i.flush(Y)?;
        let fenced = i.ra.fence_everywhere()?;
        let seen = i.get(X, 1)?;
        // A kernel may refuse it, and the call reports that.
        let refused = i.ra.capabilities().asymmetric_fence && !fenced;
        Ok(if refused { 1 << 1 } else { seen })
    }, |seen| seen == 0);

    /// Two puts to one target are ordered.
    message_passing_put_same_target message_passing(Homes::Same, |role, i| {
        if role == 0 {
            i.put(X)?;
            i.put(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get(X, 1)?)
    }, STALE);

    /// Two puts to different targets are not ordered.
    message_passing_put_two_targets message_passing(Homes::Apart, |role, i| {
        if role == 0 {
            i.put(X)?;
            i.put(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get(X, 1)?)
    }, NEVER);

    /// Two puts to different targets are ordered if the first is flushed.
    message_passing_flushed_put message_passing(Homes::Apart, |role, i| {
        if role == 0 {
            i.put(X)?;
            i.flush(X)?;
            i.put(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get(X, 1)?)
    }, STALE);

    /// Two puts to different targets are in order if the first is ordered.
    message_passing_ordered_put message_passing(Homes::Apart, |role, i| {
        if role == 0 {
            i.put(X)?;
            i.order(X)?;
            i.put(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get(X, 1)?)
    }, STALE);

    /// A put that is ordered comes ahead of a later atomic.
    message_passing_ordered_put_then_atomic message_passing(Homes::Mixed, |role, i| {
        if role == 0 {
            i.put(X)?;
            i.order(X)?;
            i.fetch_store(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get(X, 1)?)
    }, STALE);

    /// A fetching operation is complete when it returns, for any next target.
    message_passing_fetch_add message_passing(Homes::Mixed, |role, i| {
        if role == 0 {
            i.fetch_add(X)?;
            i.put(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get(X, 1)?)
    }, STALE);

    /// All bytes of a flushed bulk put are complete.
    message_passing_bulk message_passing(Homes::Mixed, |role, i| {
        if role == 0 {
            i.put_bytes(X)?;
            i.put(Y)?;
            return Ok(0);
        }
        Ok(i.get(Y, 0)? | i.get_bytes(X, 1)?)
    }, STALE);

    /// A read is complete before the next write begins: two ranks do not both read the other's later write.
    load_buffering Shape {
        roles: 2,
        homes: Homes::Mixed,
        variables: 2,
        reads: &["r0:x", "r1:y"],
        ends: false,
        program: |role, i| {
            let (other, mine) = if role == 0 { (X, Y) } else { (Y, X) };
            let seen = i.get(other, role)?;
            i.put(mine)?;
            Ok(seen)
        },
        forbidden: |seen| seen == 0b11,
    };

    /// Writes that complete in program order have one common order.
    two_plus_two_writes_fetch_store two_plus_two_writes(Homes::Mixed, |role, i| {
        let (first, second) = if role == 0 { (X, Y) } else { (Y, X) };
        i.fetch_store(first)?;
        i.fetch_store_of(second, i.new + 1)?;
        Ok(0)
    });

    /// Puts to one target are ordered, even where they overwrite each other.
    two_plus_two_writes_put_same_target two_plus_two_writes(Homes::Same, |role, i| {
        let (first, second) = if role == 0 { (X, Y) } else { (Y, X) };
        i.put(first)?;
        i.put_of(second, i.new + 1)?;
        Ok(0)
    });

    /// A rank that sees another rank's write also sees the writes that the other rank saw before.
    read_to_write_causality Shape {
        roles: 3,
        homes: Homes::Mixed,
        variables: 2,
        reads: &["r1:x", "r2:y", "r2:x"],
        ends: false,
        program: |role, i| match role {
            0 => i.put(X).map(|()| 0),
            1 => {
                let seen = i.get(X, 0)?;
                i.put(Y)?;
                Ok(seen)
            }
            _ => Ok(i.get(Y, 1)? | i.get(X, 2)?),
        },
        forbidden: |seen| seen == 0b011,
    };

    /// Two readers agree on the order of two writers.
    independent_reads_of_independent_writes Shape {
        roles: 4,
        homes: Homes::Mixed,
        variables: 2,
        reads: &["r2:x", "r2:y", "r3:y", "r3:x"],
        ends: false,
        program: |role, i| match role {
            0 => i.fetch_store(X).map(|()| 0),
            1 => i.fetch_store(Y).map(|()| 0),
            2 => Ok(i.get(X, 0)? | i.get(Y, 1)?),
            _ => Ok(i.get(Y, 2)? | i.get(X, 3)?),
        },
        forbidden: |seen| seen == 0b0101,
    };

    /// The second of two reads of one word does not return an older value.
    coherent_reads Shape {
        roles: 2,
        homes: Homes::Mixed,
        variables: 1,
        reads: &["r1:x", "r1:x'"],
        ends: false,
        program: |role, i| {
            if role == 0 {
                return i.put(X).map(|()| 0);
            }
            Ok(i.get(X, 0)? | i.get(X, 1)?)
        },
        forbidden: |seen| seen == 0b01,
    };

    /// A rank may or may not read its own posted put: the model allows both.
    own_put_then_get Shape {
        roles: 1,
        homes: Homes::Mixed,
        variables: 1,
        reads: &["r0:x"],
        ends: false,
        program: |_, i| {
            i.put(X)?;
            i.get(X, 0)
        },
        forbidden: NEVER,
    };
}
