//! The YCSB core workloads over a distributed hash table.
//!
//! B. F. Cooper, A. Silberstein, E. Tam, R. Ramakrishnan, R. Sears, Benchmarking cloud serving systems with YCSB, SoCC'10. Each rank loads
//! its records, and then makes operations of the mix. It draws keys by Zipf's law, or the latest ones most often. Values have
//! one word.
//!
//! # Deviations
//!
//! - A scan reads records with consecutive numbers, one by one, since a hash table has no order of keys. YCSB assumes an ordered store.
//! - A read-modify-write is a read and a compare_and_swap, repeated until it succeeds, so no modification is lost. In YCSB, it is a read and an
//!   update.
//! - A rank that draws the latest records knows only its own inserts, and assumes that other ranks have inserted as many. Such a record may
//!   not be there yet.
//!
//! # Checks
//!
//! A value has a part that depends on its key, and a number. Each read checks the first part. After the last operation, each rank compares
//! the keys of its part with a sequential computation. All loaded and inserted keys must be there, each once. In a mix that only reads and
//! modifies, the numbers add up to the modifications of all ranks.

use clap::{Args, ValueEnum};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{LockAll, Op, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::parts::{Parts, cells_for, value_at};
use super::random::mixed;
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// A core workload.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// Update heavy: 50 % reads, 50 % updates
    A,
    /// Read mostly: 95 % reads, 5 % updates
    B,
    /// Reads only
    C,
    /// Read latest: 95 % reads of the latest records, 5 % inserts
    D,
    /// Short ranges: 95 % scans of 1 to 100 records, 5 % inserts
    E,
    /// 50 % reads, 50 % read-modify-writes
    F,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Read,
    Update,
    Insert,
    Scan,
    Modify,
}

impl Mix {
    /// The more frequent step and its percentage, and the other one.
    fn steps(self) -> (Step, u32, Step) {
        match self {
            Mix::A => (Step::Read, 50, Step::Update),
            Mix::B => (Step::Read, 95, Step::Update),
            Mix::C => (Step::Read, 100, Step::Read),
            Mix::D => (Step::Read, 95, Step::Insert),
            Mix::E => (Step::Scan, 95, Step::Insert),
            Mix::F => (Step::Read, 50, Step::Modify),
        }
    }

    fn inserts(self) -> bool {
        self.steps().2 == Step::Insert
    }
}

/// The most records of a scan.
const LONGEST_SCAN: u64 = 100;

/// Read, update, insert and scan records of a distributed table.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ycsb {
    /// Core workload
    #[arg(long, value_enum, default_value_t = Mix::A)]
    pub workload: Mix,
    /// Records that each rank loads
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    pub records: u64,
    /// Operations of each rank
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    pub operations: u64,
    /// Exponent of Zipf's law, by which records are drawn; 0 draws all alike
    #[arg(long, value_name = "NUMBER", default_value = "0.99", value_parser = exponent)]
    pub skew: f64,
    /// Seed of the keys and of the operations
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u32,
    /// Strategies of the window.
    #[command(flatten)]
    pub strategies: Strategies,
}

/// Reads an exponent of Zipf's law.
fn exponent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=10.0).contains(number));
    number.ok_or_else(|| "an exponent is a number from 0 to 10".to_owned())
}

/// The work of a rank.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Served {
    /// Nanoseconds from the first operation to the last.
    pub time: f64,
    /// Reads of single records.
    pub reads: u64,
    /// Updates.
    pub updates: u64,
    /// Inserts.
    pub inserts: u64,
    /// Scans.
    pub scans: u64,
    /// Records that scans have read.
    pub scanned: u64,
    /// Read-modify-writes.
    pub modified: u64,
    /// Records that another rank had not inserted yet when this one looked for them.
    pub not_yet: u64,
    /// Records in its part at the end, each found once.
    pub found: u64,
}

/// The part of a value that depends on its key, never 0; the lower half is its number.
fn mark(key: u64) -> u64 {
    (mixed(key ^ 0x5851_f42d_4c95_7f2d) | 1 << 63) & !NUMBER
}

const NUMBER: u64 = u32::MAX as u64;

/// One rank's operations.
struct Client<'a, 'w, 't, A: RemoteAtomics + ?Sized> {
    of: &'a Ycsb,
    table: &'a LockAll<'w, 't, A>,
    parts: Parts,
    rank: u64,
    ranks: u64,
    random: SmallRng,
    popularity: Zipf<f64>,
    done: Served,
}

impl<A: RemoteAtomics + ?Sized> Client<'_, '_, '_, A> {
    fn loaded(&self) -> u64 {
        self.of.records * self.ranks
    }

    /// The number of records if all ranks have inserted as many as this one.
    fn supposed(&self) -> u64 {
        self.loaded() + self.done.inserts * self.ranks
    }

    /// Draws the number of a record.
    fn draw(&mut self) -> u64 {
        let place = (self.popularity.sample(&mut self.random) as u64).clamp(1, self.loaded());
        if self.of.workload == Mix::D { self.supposed() - place } else { place - 1 }
    }

    /// Reads the value of record number `number`: `None` if another rank has yet to insert it.
    fn read(&mut self, number: u64) -> Result<Option<(Rank, u64, u64)>> {
        let key = self.of.key(number);
        if let Some((rank, place)) = self.parts.find(self.table, key)? {
            let value = self.table.at(rank)?.fetch_and_op(value_at(place), Op::NoOp, 0_u64)?;
            if value & !NUMBER == mark(key) {
                return Ok(Some((rank, place, value)));
            }
            // A new record is without its value for a moment.
            if value != 0 || number < self.loaded() {
                return Err(Error::Wrong(format!("ycsb: record {number} has the value {value:#x} of another one")));
            }
        }
        if number < self.loaded() || number % self.ranks == self.rank {
            return Err(Error::Wrong(format!("ycsb: record {number} is not there")));
        }
        self.done.not_yet += 1;
        Ok(None)
    }

    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Read => {
                let number = self.draw();
                self.read(number)?;
                self.done.reads += 1;
            }
            Step::Update => {
                let number = self.draw();
                let key = self.of.key(number);
                let Some((rank, place)) = self.parts.find(self.table, key)? else {
                    return Err(Error::Wrong(format!("ycsb: record {number} is not there")));
                };
                self.done.updates += 1;
                let value = mark(key) | (self.done.updates & NUMBER);
                self.table.at(rank)?.accumulate(value_at(place), Op::Replace, &[value])?;
                self.table.flush(rank)?;
            }
            Step::Insert => {
                // Records after the loaded ones belong to the ranks in turn.
                let key = self.of.key(self.supposed() + self.rank);
                self.parts.insert(self.table, key, mark(key))?;
                self.done.inserts += 1;
            }
            Step::Scan => {
                let first = self.draw();
                let length = self.random.random_range(1..=LONGEST_SCAN).min(self.supposed() - first);
                for number in first..first + length {
                    self.done.scanned += u64::from(self.read(number)?.is_some());
                }
                self.done.scans += 1;
            }
            Step::Modify => {
                let number = self.draw();
                let Some((rank, place, mut value)) = self.read(number)? else { return Ok(()) };
                let part = self.table.at(rank)?;
                loop {
                    match part.compare_and_swap(value_at(place), value, value + 1)? {
                        seen if seen == value => break,
                        seen => value = seen,
                    }
                }
                self.done.modified += 1;
            }
        }
        Ok(())
    }
}

impl Ycsb {
    /// The key of a record.
    fn key(&self, number: u64) -> u64 {
        mixed((u64::from(self.seed) << 40).wrapping_add(number) + 1)
    }

    fn parts(&self) -> Parts {
        // One of 20 operations is an insert, within ten standard deviations.
        let inserted = if self.workload.inserts() { self.operations / 20 + 3 * self.operations.isqrt() } else { 0 };
        let keys = self.records + inserted;
        Parts { slots: keys, cells: cells_for(keys), values: true }
    }

    /// Operations per second, of all ranks.
    pub fn rate(&self, ran: &Ran<Served>) -> f64 {
        self.operations as f64 * ran.ranks.len() as f64 / self.time(ran) * 1e9
    }

    fn serve<A: RemoteAtomics + ?Sized>(&self, ra: &A, table: &LockAll<'_, '_, A>) -> Result<Served> {
        let team = table.window().team();
        let (rank, ranks) = (u64::from(team.rank().0), u64::from(team.size()));
        let popularity = Zipf::new((self.records * ranks) as f64, self.skew);
        let mut client = Client {
            of: self,
            table,
            parts: self.parts(),
            rank,
            ranks,
            random: SmallRng::seed_from_u64(mixed(u64::from(self.seed) << 32 | rank)),
            popularity: popularity.map_err(|error| Error::Usage(format!("--skew {}: {error}", self.skew)))?,
            done: Served::default(),
        };
        for number in (rank..self.records * ranks).step_by(ranks as usize) {
            let key = self.key(number);
            client.parts.insert(table, key, mark(key))?;
        }
        team.barrier()?;
        let (often, percent, other) = self.workload.steps();
        let begin = ra.now();
        for _ in 0..self.operations {
            let step = if client.random.random_range(0..100) < percent { often } else { other };
            client.step(step)?;
        }
        client.done.time = elapsed(ra, begin);
        Ok(client.done)
    }

    /// Compares the content of this rank's part with the work that all ranks have `done`; returns the number of
    /// records.
    fn verify<A: RemoteAtomics + ?Sized>(&self, window: &Window<'_, A>, done: Served) -> Result<u64> {
        let team = window.team();
        let (me, size, parts) = (team.rank(), u64::from(team.size()), self.parts());
        let wrong = |what: String| Error::Wrong(format!("ycsb, {me}: {what}"));
        let mut words = vec![0; parts.words() as usize];
        window.local()?.read(WindowDisp(0), &mut words)?;
        let found = parts.content(&words).map_err(wrong)?;
        let inserts = team.collectives().allgather(&[done.inserts])?;
        let loaded = self.records * size;
        let inserted = inserts.iter().zip(0..).flat_map(|(&inserts, rank)| (0..inserts).map(move |at| (at, rank)));
        let numbers = (0..loaded).chain(inserted.map(|(at, rank)| loaded + at * size + rank));
        let mut expected: Vec<u64> =
            numbers.map(|number| self.key(number)).filter(|&key| parts.slot_of(key, size as u32).0 == me).collect();
        expected.sort_unstable();
        Parts::compare(&found, &expected).map_err(wrong)?;
        if let Some((key, value)) = found.iter().find(|&&(key, value)| value & !NUMBER != mark(key)) {
            return Err(wrong(format!("key {key:#x} has the value {value:#x} of another one")));
        }
        let numbers: u64 = found.iter().map(|(_, value)| value & NUMBER).sum();
        let sums = team.collectives().allgather(&[numbers, done.modified])?;
        let sum = |of: usize| sums.iter().skip(of).step_by(2).sum::<u64>();
        if self.workload == Mix::F && sum(0) != sum(1) {
            return Err(wrong(format!(
                "the values count {} modifications, and the ranks have made {}",
                sum(0),
                sum(1)
            )));
        }
        Ok(found.len() as u64)
    }
}

impl Job for Ycsb {
    type Out = Served;

    const NAME: &'static str = "ycsb";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        (16 << 20) + 8 * self.parts().words()
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Served> {
        let team = Team::new(ra)?;
        let mut window = self.strategies.window(&team, 8 * self.parts().words())?;
        self.strategies.served(&mut window, |window| {
            team.barrier()?;
            let table = window.lock_all()?;
            let served = self.serve(ra, &table)?;
            table.unlock_all()?;
            team.barrier()?;
            let found = self.verify(window, served)?;
            Ok(Served { found, ..served })
        })
    }
}

impl Application for Ycsb {
    const TITLE: &'static str = "YCSB's core workloads over a distributed hash table";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, _world: &Ranks) -> Result<()> {
        Ok(())
    }

    fn time(&self, ran: &Ran<Served>) -> f64 {
        ran.ranks.iter().map(|rank| rank.time).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Served>) -> Table {
        let sum = |part: fn(&Served) -> u64| Value::Count(ran.ranks.iter().map(part).sum());
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        table.row(["workload".into(), Value::from(format!("{:?}", self.workload))]);
        table.row(["Zipf exponent".into(), Value::Number(self.skew)]);
        table.row(["loaded records".into(), Value::Count(self.records * ran.ranks.len() as u64)]);
        table.row(["time, slowest rank".into(), Value::Time(self.time(ran))]);
        table.row(["operations of all ranks".into(), Value::Rate(self.rate(ran))]);
        table.row(["operations of a rank".into(), Value::Rate(self.rate(ran) / ran.ranks.len() as f64)]);
        table.row(["reads".into(), sum(|rank| rank.reads)]);
        table.row(["updates".into(), sum(|rank| rank.updates)]);
        table.row(["inserts".into(), sum(|rank| rank.inserts)]);
        table.row(["scans".into(), sum(|rank| rank.scans)]);
        table.row(["records of scans".into(), sum(|rank| rank.scanned)]);
        table.row(["read-modify-writes".into(), sum(|rank| rank.modified)]);
        table.row(["records not there yet".into(), sum(|rank| rank.not_yet)]);
        table.row(["records found at the end, each once".into(), sum(|rank| rank.found)]);
        table
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::run;

    fn small(workload: Mix) -> Ycsb {
        let strategies = Strategies::default();
        Ycsb { workload, records: 40, operations: 300, skew: 0.99, seed: 3, strategies }
    }

    fn served(of: &Ycsb, ranks: &Ranks) -> Vec<Served> {
        let done = run(of, ranks, 1, &AtomicBool::new(false)).unwrap();
        serde_json::from_value(done.runs[0]["ranks"].clone()).unwrap()
    }

    #[test]
    fn each_workload_makes_its_operations_and_its_table_is_right() {
        for workload in Mix::value_variants() {
            let (often, percent, _) = workload.steps();
            for ranks in [1, 3] {
                let all = served(&small(*workload), &Ranks::threads(ranks));
                assert_eq!(all.len(), ranks as usize);
                for rank in &all {
                    let other = rank.updates + rank.inserts + rank.modified;
                    assert_eq!(rank.reads + rank.scans + other, 300, "{rank:?}");
                    let frequent = if often == Step::Scan { rank.scans } else { rank.reads };
                    let expected = 3 * u64::from(percent);
                    assert!(frequent.abs_diff(expected) <= 45 * u64::from(percent < 100), "{workload:?}: {rank:?}");
                }
                let inserted: u64 = all.iter().map(|rank| rank.inserts).sum();
                assert_eq!(inserted > 0, workload.inserts());
                assert_eq!(all.iter().map(|rank| rank.found).sum::<u64>(), 40 * u64::from(ranks) + inserted);
            }
        }
    }

    #[test]
    fn popular_records_are_modified_more_often() {
        let of = |skew| Ycsb { skew, operations: 2_000, ..small(Mix::F) };
        // A run that ends well has found the sum of all modifications in the values.
        for skew in [0.0, 0.99, 1.0, 3.0] {
            served(&of(skew), &Ranks::threads(2));
        }
        served(&small(Mix::F), &Ranks::simulated("gemini", 8));
    }

    #[test]
    fn values_of_different_keys_differ() {
        let table = small(Mix::A);
        let mut marks: Vec<u64> = (0..10_000).map(|number| mark(table.key(number))).collect();
        assert!(marks.iter().all(|mark| mark & NUMBER == 0 && mark >> 63 == 1));
        marks.sort_unstable();
        marks.dedup();
        assert!(marks.len() > 9_990, "{}", marks.len());
    }

    #[test]
    fn an_exponent_is_a_number() {
        assert_eq!(exponent("0.99"), Ok(0.99));
        for wrong in ["-1", "11", "NaN", "much", ""] {
            assert_eq!(exponent(wrong), Err("an exponent is a number from 0 to 10".to_owned()), "{wrong}");
        }
    }
}
