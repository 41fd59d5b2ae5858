//! HPCC RandomAccess: updates of random words of a table that is distributed over the ranks.
//!
//! The HPC Challenge benchmark's rules: <https://icl.utk.edu/projectsfiles/hpcc/RandomAccess/>. As DART's paper uses
//! it: H. Zhou, K. Idrees, J. Gracia, Leveraging MPI-3 shared-memory extensions for efficient PGAS runtime systems,
//! Euro-Par 2015, section 4.2.
//!
//! # The rules
//!
//! * The table has 2^n words; word i is i at the start. Each rank has a block of it.
//! * The updates are the numbers x_0 = 1, x_(k+1) = 2 x_k, where a bit shifted out at the top adds 7. They are powers
//!   of x among the polynomials modulo x^64 + x^2 + x + 1 over two elements. Update k combines word x_k mod 2^n with
//!   x_k by exclusive or. There are four times as many updates as words, and each rank makes a part of the sequence,
//!   starting at its power.
//! * A rank may have up to 1,024 updates under way.
//! * Up to one word in a hundred may be wrong at the end. The check repeats the updates, one after the other, after
//!   which word i must be i again. Here each rank does so for its own block, and goes through the whole sequence for
//!   it.
//!
//! With atomic updates, no word may be wrong.

use clap::{Args, ValueEnum};
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{GlobalMemory, LockAll, Op, Reserve, Team, WindowDisp};
use serde::{Deserialize, Serialize};

use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Place, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// Update random words of a distributed table.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RandomAccess {
    /// Binary logarithm of the table's length in words
    #[arg(long, value_name = "N", default_value = "18", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub log2_words: u32,
    /// Updates of all ranks together [default: four times as many as words]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub updates: Option<u64>,
    /// Method of updates
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Update::Atomic)]
    pub how: Update,
    /// Updates of a rank under way at a time; 1 makes each complete before the next
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub look_ahead: u32,
    /// Strategies of the window.
    #[command(flatten)]
    pub strategies: Strategies,
}

/// Methods of updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// One accumulate
    Atomic,
    /// A get and a put; an update of another rank between them is lost
    GetPut,
    /// The same with global pointers, which are loads and stores within a node (DART); each is complete when it returns
    DartGetPut,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Updated {
    /// Nanoseconds from the first update to the last.
    pub time: f64,
    /// The number of updates of this rank.
    pub updates: u64,
    /// The number of wrong words of all ranks.
    pub errors: u64,
}

impl Job for RandomAccess {
    type Out = Updated;

    const NAME: &'static str = "random-access";

    fn segment_bytes(&self, ranks: u32) -> u64 {
        (16 << 20) + 16 * self.block(ranks)
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Updated> {
        let team = Team::new(ra)?;
        if self.how == Update::DartGetPut {
            return self.by_pointers(&team);
        }
        let mut window = self.strategies.window(&team, 8 * self.block(team.size()))?;
        self.strategies.served(&mut window, |window| {
            let own: Vec<u64> = self.own(&team).collect();
            window.local()?.write(WindowDisp(0), &own)?;
            team.barrier()?;
            let epoch = window.lock_all()?;
            let time = self.updates(&team, |rank, disp, number, last| self.update(&epoch, rank, disp, number, last))?;
            epoch.unlock_all()?;
            team.barrier()?;
            let mut words = vec![0; own.len()];
            window.local()?.read(WindowDisp(0), &mut words)?;
            self.verified(&team, words, time)
        })
    }
}

impl Application for RandomAccess {
    const TITLE: &'static str = "HPCC RandomAccess: updates of random words of a table";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, world: &Ranks) -> Result<()> {
        if u64::from(world.ranks) > self.words() {
            let ranks = world.ranks;
            return Err(Error::usage(format!(
                "--log2-words {}: each of {ranks} ranks needs at least one word",
                self.log2_words
            )));
        }
        if self.how == Update::DartGetPut {
            if matches!(world.place, Place::Sim(_)) {
                return Err(Error::usage(
                    "dart-get-put needs memory that ranks of a node share, which simulated ranks do not have; use \
                     get-put, with operations within a node by the processor or by the adapter, as in the profile",
                ));
            }
            if self.strategies != Strategies::default() {
                return Err(Error::usage("dart-get-put takes no strategies: global memory has its own windows"));
            }
        }
        Ok(())
    }

    fn time(&self, ran: &Ran<Updated>) -> f64 {
        ran.ranks.iter().map(|rank| rank.time).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Updated>) -> Table {
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        table.row(["words".into(), Value::Count(self.words())]);
        table.row(["updates".into(), Value::Count(ran.ranks.iter().map(|rank| rank.updates).sum())]);
        table.row(["time, slowest rank".into(), Value::Time(self.time(ran))]);
        table.row(["updates of all ranks".into(), Value::Rate(self.rate(ran))]);
        table.row([
            "words that are wrong".into(),
            Value::Count(ran.ranks.iter().map(|rank| rank.errors).max().unwrap_or(0)),
        ]);
        table.row(["words that may be".into(), Value::Count(self.tolerated())]);
        table
    }
}

impl RandomAccess {
    fn words(&self) -> u64 {
        1 << self.log2_words
    }

    fn all_updates(&self) -> u64 {
        self.updates.unwrap_or(4 * self.words())
    }

    /// Words of a rank's block; the last ones may have fewer, or none.
    fn block(&self, ranks: u32) -> u64 {
        self.words().div_ceil(u64::from(ranks))
    }

    /// The numbers of this rank's words.
    fn own<A: RemoteAtomics + ?Sized>(&self, team: &Team<'_, A>) -> impl Iterator<Item = u64> + use<A> {
        let block = self.block(team.size());
        let first = (u64::from(team.rank().0) * block).min(self.words());
        first..(first + block).min(self.words())
    }

    /// The allowed number of wrong words.
    fn tolerated(&self) -> u64 {
        if self.how == Update::Atomic { 0 } else { self.words() / 100 }
    }

    /// Updates per second, of all ranks.
    pub fn rate(&self, ran: &Ran<Updated>) -> f64 {
        ran.ranks.iter().map(|rank| rank.updates).sum::<u64>() as f64 / self.time(ran) * 1e9
    }

    /// Makes this rank's updates with `update`, which gets the place, the number, and whether to complete all updates so
    /// far; returns the nanoseconds.
    fn updates<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        mut update: impl FnMut(Rank, i64, u64, bool) -> Result<()>,
    ) -> Result<f64> {
        let (block, begin) = (self.block(team.size()), team.ra().now());
        let part = self.part(team);
        let (first, many) = (part.start, part.end - part.start);
        for (count, number) in (1..=many).zip(sequence(first)) {
            let place = number & (self.words() - 1);
            let rank = Rank((place / block) as u32);
            update(rank, (place % block * 8) as i64, number, count % u64::from(self.look_ahead) == 0 || count == many)?;
        }
        Ok(elapsed(team.ra(), begin))
    }

    /// The range of this rank's updates.
    fn part<A: RemoteAtomics + ?Sized>(&self, team: &Team<'_, A>) -> std::ops::Range<u64> {
        let (rank, size) = (u128::from(team.rank().0), u128::from(team.size()));
        let share = |rank: u128| (u128::from(self.all_updates()) * rank / size) as u64;
        share(rank)..share(rank + 1)
    }

    fn update<A: RemoteAtomics + ?Sized>(
        &self,
        epoch: &LockAll<'_, '_, A>,
        rank: Rank,
        disp: i64,
        number: u64,
        last: bool,
    ) -> Result<()> {
        let (target, disp) = (epoch.at(rank)?, WindowDisp(disp));
        match self.how {
            Update::Atomic => target.accumulate(disp, Op::BitXor, &[number])?,
            Update::GetPut | Update::DartGetPut => {
                let word: u64 = target.get_value(disp)?;
                target.put_value(disp, word ^ number)?;
            }
        }
        if last {
            epoch.flush_all()?;
        }
        Ok(())
    }

    fn by_pointers<A: RemoteAtomics + ?Sized>(&self, team: &Team<'_, A>) -> Result<Updated> {
        let bytes = 8 * self.block(team.size());
        GlobalMemory::run(team, Reserve { collective: bytes + (64 << 10), pool: 0 }, |memory| {
            let table = memory.team_memalloc_aligned(bytes)?;
            let own: Vec<u64> = self.own(team).collect();
            memory.put(table.at_unit(team.rank()), &own)?;
            team.barrier()?;
            let time = self.updates(team, |rank, disp, number, _| {
                let word = table.at_unit(rank).plus(disp);
                let old: u64 = memory.get_value(word)?;
                Ok(memory.put_value(word, old ^ number)?)
            })?;
            team.barrier()?;
            let mut words = vec![0; own.len()];
            memory.get(table.at_unit(team.rank()), &mut words)?;
            self.verified(team, words, time)
        })
    }

    /// Repeats all updates on this rank's words, and returns the number of words of all ranks that differ from the
    /// start.
    fn verified<A: RemoteAtomics + ?Sized>(
        &self,
        team: &Team<'_, A>,
        mut words: Vec<u64>,
        time: f64,
    ) -> Result<Updated> {
        let first = self.own(team).next().unwrap_or(0);
        for number in sequence(0).take(self.all_updates() as usize) {
            let place = (number & (self.words() - 1)).wrapping_sub(first);
            if let Some(word) = words.get_mut(place as usize) {
                *word ^= number;
            }
        }
        let wrong = words.iter().zip(self.own(team)).filter(|(word, number)| *word != number).count();
        let mut errors = [wrong as u64];
        team.collectives().allreduce(&mut errors, u64::wrapping_add)?;
        let [errors] = errors;
        if errors > self.tolerated() {
            return Err(Error::Wrong(format!(
                "random-access: {errors} of {} words differ from the sequential run of the same updates; {} may, of \
                 which {} are {}'s",
                self.words(),
                self.tolerated(),
                wrong,
                team.rank()
            )));
        }
        let part = self.part(team);
        Ok(Updated { time, updates: part.end - part.start, errors })
    }
}

/// The value that a bit shifted out at the top adds.
const BACK: u64 = 7;

/// The polynomial times x.
fn times_x(number: u64) -> u64 {
    (number << 1) ^ if number >> 63 == 1 { BACK } else { 0 }
}

/// The product of two polynomials.
fn product(a: u64, b: u64) -> u64 {
    (0..64).rev().fold(0, |sum, bit| times_x(sum) ^ if b >> bit & 1 == 1 { a } else { 0 })
}

/// Number k of the sequence: x to the power of k.
fn start(k: u64) -> u64 {
    (0..64).rev().fold(1, |power, bit| {
        let square = product(power, power);
        if k >> bit & 1 == 1 { times_x(square) } else { square }
    })
}

/// The sequence from number `first` on.
fn sequence(first: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(start(first)), |&number| Some(times_x(number)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::{Done, run};
    use rmalab_job::Ranks;

    fn access(how: Update, log2_words: u32) -> RandomAccess {
        RandomAccess { log2_words, updates: None, how, look_ahead: 1024, strategies: Strategies::default() }
    }

    fn wrong(done: &Done) -> &Value {
        &done.table.rows[4][1].value
    }

    #[test]
    fn the_sequence_can_start_anywhere() {
        let numbers: Vec<u64> = sequence(0).take(2000).collect();
        assert_eq!(numbers[..4], [1, 2, 4, 8]);
        // x^64 = x^2 + x + 1.
        assert_eq!(numbers[64..66], [7, 14]);
        for k in [0, 1, 63, 64, 65, 999, 1999] {
            assert_eq!(start(k as u64), numbers[k]);
        }
        // The length of the sequence, as in the rules.
        assert_eq!(start(1_317_624_576_693_539_401), 1);
    }

    #[test]
    fn atomic_updates_lose_nothing() {
        let stop = AtomicBool::new(false);
        for ranks in [1, 2, 3, 4] {
            let done = run(&access(Update::Atomic, 8), &Ranks::threads(ranks), 1, &stop).unwrap();
            assert_eq!(wrong(&done), &Value::Count(0));
        }
        let simulated = Ranks::simulated("aries", 32);
        assert_eq!(wrong(&run(&access(Update::Atomic, 10), &simulated, 1, &stop).unwrap()), &Value::Count(0));
        for transport in ["two-sided", "two-sided-agent"] {
            let strategies = Strategies { transport: Some(transport.into()), ..Strategies::default() };
            let access = RandomAccess { strategies, ..access(Update::Atomic, 8) };
            assert_eq!(wrong(&run(&access, &Ranks::threads(2), 1, &stop).unwrap()), &Value::Count(0));
        }
    }

    #[test]
    fn racy_updates_are_counted() {
        let stop = AtomicBool::new(false);
        for how in [Update::GetPut, Update::DartGetPut] {
            assert_eq!(wrong(&run(&access(how, 8), &Ranks::threads(1), 1, &stop).unwrap()), &Value::Count(0));
        }
        // A word for each rank: most updates meet other updates.
        let error = run(&access(Update::GetPut, 6), &Ranks::simulated("aries", 64), 1, &stop).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::Wrong(_)) && said.contains("of 64 words differ"), "{said}");
    }

    #[test]
    fn global_pointers_access_the_same_words() {
        // The number of updates is so large that the second rank's numbers differ from the first numbers, 1, 2, 4, ....
        // Otherwise the ranks would go through the same words in step, and lose many updates. A word that no update
        // reaches is wrong at once.
        let access = RandomAccess { updates: Some(200_000), ..access(Update::DartGetPut, 16) };
        let done = run(&access, &Ranks::threads(2), 1, &AtomicBool::new(false)).unwrap();
        let Value::Count(errors) = *wrong(&done) else { panic!("a number of words") };
        assert!(errors <= 200, "{errors} of 65,536 words");
    }

    #[test]
    fn invalid_options_are_refused() {
        let stop = AtomicBool::new(false);
        let refused = |access: &RandomAccess, world: &Ranks| run(access, world, 1, &stop).unwrap_err().is_usage();
        assert!(refused(&access(Update::Atomic, 1), &Ranks::threads(3)));
        assert!(refused(&access(Update::DartGetPut, 8), &Ranks::simulated("aries", 2)));
        let policy = Strategies { policy: Some("mcs".into()), ..Strategies::default() };
        assert!(refused(&RandomAccess { strategies: policy, ..access(Update::DartGetPut, 8) }, &Ranks::threads(2)));
    }
}
