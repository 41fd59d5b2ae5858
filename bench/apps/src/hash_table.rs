//! A distributed hash table with overflow heaps.
//!
//! R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access programming with MPI-3 one
//! sided, SC'13, section 4.1. Each rank has a part: slots, and a heap of cells for keys whose slot is taken.
//! compare_and_swap puts a key into its slot. If the slot is taken, fetch_and_op returns a cell of the same rank for
//! the key. A compare_and_swap then puts the cell at the head of its slot's list. (windows/examples/hash_table.rs is a
//! simpler version; read it first.)
//!
//! # Checks
//!
//! Keys are different by construction. After the last insert each rank traverses its slots and lists. It sorts all keys
//! there, and compares them with its share of all ranks' keys from a sequential computation. Each key must be there
//! exactly once, and no others.

use clap::Args;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::parts::{Parts, cells_for};
use super::random::mixed;
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// Insert random keys into a distributed table.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HashTable {
    /// Keys that each rank inserts
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub inserts: u64,
    /// Slots of each rank [default: as many as keys]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub slots: Option<u64>,
    /// Seed of the keys
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u32,
    /// Strategies of the window.
    #[command(flatten)]
    pub strategies: Strategies,
}

/// The result of a rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Inserted {
    /// Nanoseconds from the first insert to the last.
    pub time: f64,
    /// The number of its keys that went into cells.
    pub in_cells: u64,
    /// The number of correct keys in its part.
    pub found: u64,
}

impl Job for HashTable {
    type Out = Inserted;

    const NAME: &'static str = "hash-table";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        (16 << 20) + 8 * self.parts().words()
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Inserted> {
        let team = Team::new(ra)?;
        let parts = self.parts();
        let mut window = self.strategies.window(&team, 8 * parts.words())?;
        self.strategies.served(&mut window, |window| {
            team.barrier()?;
            let table = window.lock_all()?;
            let begin = ra.now();
            let mut in_cells = 0;
            for key in self.keys(team.rank()) {
                in_cells += u64::from(parts.insert(&table, key, 0)?);
            }
            let time = elapsed(ra, begin);
            table.unlock_all()?;
            team.barrier()?;
            let found = self.verify(window)?;
            Ok(Inserted { time, in_cells, found })
        })
    }
}

impl Application for HashTable {
    const TITLE: &'static str = "random inserts into a distributed hash table";

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn check(&self, _world: &Ranks) -> Result<()> {
        Ok(())
    }

    fn time(&self, ran: &Ran<Inserted>) -> f64 {
        ran.ranks.iter().map(|rank| rank.time).fold(0.0, f64::max)
    }

    fn table(&self, ran: &Ran<Inserted>) -> Table {
        let sum = |part: fn(&Inserted) -> u64| ran.ranks.iter().map(part).sum();
        let mut table = Table::new(Self::TITLE, ["what", "value"]);
        table.row(["inserts".into(), Value::Count(self.inserts * ran.ranks.len() as u64)]);
        table.row(["time, slowest rank".into(), Value::Time(self.time(ran))]);
        table.row(["inserts of all ranks".into(), Value::Rate(self.rate(ran))]);
        table.row(["inserts of a rank".into(), Value::Rate(self.rate(ran) / ran.ranks.len() as f64)]);
        table.row(["keys in overflow cells".into(), Value::Count(sum(|rank| rank.in_cells))]);
        table.row(["keys found, each once".into(), Value::Count(sum(|rank| rank.found))]);
        table
    }
}

impl HashTable {
    fn parts(&self) -> Parts {
        Parts { slots: self.slots.unwrap_or(self.inserts), cells: cells_for(self.inserts), values: false }
    }

    /// Inserts per second, of all ranks.
    pub fn rate(&self, ran: &Ran<Inserted>) -> f64 {
        self.inserts as f64 * ran.ranks.len() as f64 / self.time(ran) * 1e9
    }

    /// The keys that a rank inserts: all different, and not 0.
    fn keys(&self, rank: Rank) -> impl Iterator<Item = u64> + use<> {
        let first = (u64::from(self.seed) << 40).wrapping_add(u64::from(rank.0) * self.inserts) + 1;
        (first..first + self.inserts).map(mixed)
    }

    /// Compares the content of this rank's part with the expected one; returns the number of keys.
    fn verify<A: RemoteAtomics + ?Sized>(&self, window: &Window<'_, A>) -> Result<u64> {
        let (me, size, parts) = (window.team().rank(), window.team().size(), self.parts());
        let mut words = vec![0; parts.words() as usize];
        window.local()?.read(WindowDisp(0), &mut words)?;
        let wrong = |what: String| Error::Wrong(format!("hash-table, {me}: {what}"));
        let found = parts.content(&words).map_err(wrong)?;
        let all = (0..size).flat_map(|rank| self.keys(Rank(rank)));
        let mut expected: Vec<u64> = all.filter(|&key| parts.slot_of(key, size).0 == me).collect();
        expected.sort_unstable();
        Parts::compare(&found, &expected).map_err(wrong)?;
        Ok(found.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::parts::word;
    use crate::run;
    use rmalab_job as job;

    /// A table with long lists.
    fn crowded(transport: Option<&str>) -> HashTable {
        let strategies = Strategies { transport: transport.map(Into::into), ..Strategies::default() };
        HashTable { inserts: 200, slots: Some(20), seed: 7, strategies }
    }

    #[test]
    fn every_key_is_found_once() {
        let stop = AtomicBool::new(false);
        for transport in [None, Some("two-sided"), Some("two-sided-agent")] {
            for ranks in [1, 2, 3] {
                let done = run(&crowded(transport), &Ranks::threads(ranks), 1, &stop).unwrap();
                assert_eq!(done.table.rows[5][1].value, Value::Count(200 * u64::from(ranks)), "{transport:?}");
            }
        }
        for policy in rmalab_locks::PolicyKind::NAMES {
            let mut table = crowded(None);
            table.strategies.policy = Some((*policy).into());
            run(&table, &Ranks::simulated("gemini", 8), 1, &stop).unwrap();
        }
    }

    /// Removes one key of rank 0 from a table.
    #[derive(Clone, Serialize, Deserialize)]
    struct Lossy(HashTable);

    impl Job for Lossy {
        type Out = u64;

        const NAME: &'static str = "hash-table-lossy";

        fn run(&self, ra: &dyn RemoteAtomics) -> Result<u64> {
            let team = Team::new(ra)?;
            let parts = self.0.parts();
            let mut window = self.0.strategies.window(&team, 8 * parts.words())?;
            let table = window.lock_all()?;
            for key in self.0.keys(team.rank()) {
                parts.insert(&table, key, 0)?;
            }
            team.barrier()?;
            if team.rank() == Rank(0) {
                let key = self.0.keys(Rank(0)).next().expect("there are keys");
                let (rank, slot) = parts.slot_of(key, team.size());
                table.at(rank)?.put_value(word(slot), 0_u64)?;
            }
            table.unlock_all()?;
            team.barrier()?;
            let found = self.0.verify(&window);
            team.barrier()?;
            found
        }
    }

    #[test]
    fn a_lost_key_is_detected() {
        let table = HashTable { slots: Some(10_000), ..crowded(None) };
        let error = job::run(&Lossy(table), &Ranks::threads(2), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.starts_with("wrong result: hash-table, rank ") && error.ends_with("is not there"), "{error}");
    }
}
