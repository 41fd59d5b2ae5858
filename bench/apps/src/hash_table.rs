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
//! Keys are different by construction. After the last insert each rank traverses its slots and lists. It compares all
//! keys there, sorted, with its share of all ranks' keys from a sequential computation: each must be there exactly
//! once, and no others.

use clap::Args;
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{LockAll, Op, Team, Window, WindowDisp};
use serde::{Deserialize, Serialize};

use super::random::mixed;
use super::{Application, Strategies};
use rmalab_job::{Error, Result};
use rmalab_job::{Job, Ran, Ranks, elapsed};
use rmalab_report::finding::{Table, Value};

/// Insert random keys into a distributed table.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HashTable {
    /// Keys that each rank inserts
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub inserts: u64,
    /// Slots of each rank [default: as many as keys]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub slots: Option<u64>,
    /// Seed of the keys
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
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

// A part, in words: the number of taken cells, then the slots, then the cells. Slots and cells are a key, 0 for none,
// and the index of the next cell, 0 for none.
const TAKEN: u64 = 0;
const FIRST_SLOT: u64 = 1;

fn key_at(place: u64) -> WindowDisp {
    WindowDisp((8 * place) as i64)
}

fn next_at(place: u64) -> WindowDisp {
    key_at(place + 1)
}

impl Job for HashTable {
    type Out = Inserted;

    const NAME: &'static str = "hash-table";

    fn segment_bytes(&self, _ranks: u32) -> u64 {
        (16 << 20) + 8 * self.words()
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Inserted> {
        let team = Team::new(ra)?;
        let mut window = self.strategies.window(&team, 8 * self.words())?;
        self.strategies.served(&mut window, |window| {
            team.barrier()?;
            let table = window.lock_all()?;
            let begin = ra.now();
            let mut in_cells = 0;
            for key in self.keys(team.rank()) {
                in_cells += u64::from(self.insert(&table, key)?);
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
    fn slots(&self) -> u64 {
        self.slots.unwrap_or(self.inserts)
    }

    /// Cells of each rank: its expected number of keys, and ten standard deviations more.
    fn cells(&self) -> u64 {
        self.inserts + 10 * self.inserts.isqrt() + 64
    }

    fn first_cell(&self) -> u64 {
        FIRST_SLOT + 2 * self.slots()
    }

    fn words(&self) -> u64 {
        self.first_cell() + 2 * self.cells()
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

    /// The rank and the index of a key's slot.
    fn slot_of(&self, key: u64, ranks: u32) -> (Rank, u64) {
        let (hash, ranks) = (mixed(key ^ 0x9e37_79b9_7f4a_7c15), u64::from(ranks));
        (Rank((hash % ranks) as u32), FIRST_SLOT + 2 * (hash / ranks % self.slots()))
    }

    /// Inserts a key that is not there yet. Returns whether it went into a cell.
    fn insert<A: RemoteAtomics + ?Sized>(&self, table: &LockAll<'_, '_, A>, key: u64) -> Result<bool> {
        let (rank, slot) = self.slot_of(key, table.window().team().size());
        let part = table.at(rank)?;
        if part.compare_and_swap(key_at(slot), 0, key)? == 0 {
            return Ok(false);
        }
        let taken = part.fetch_and_op(key_at(TAKEN), Op::Sum, 1_u64)?;
        if taken >= self.cells() {
            return Err(Error::Wrong(format!("hash-table: all {} cells of {rank} are taken", self.cells())));
        }
        let cell = self.first_cell() + 2 * taken;
        let mut head: u64 = part.get_value(next_at(slot))?;
        loop {
            part.put(key_at(cell), &[key, head])?;
            table.flush(rank)?; // no rank may find the cell before its words are there
            match part.compare_and_swap(next_at(slot), head, cell)? {
                seen if seen == head => return Ok(true),
                seen => head = seen,
            }
        }
    }

    /// Compares the content of this rank's part with the expected one; returns the number of keys.
    fn verify<A: RemoteAtomics + ?Sized>(&self, window: &Window<'_, A>) -> Result<u64> {
        let (me, size) = (window.team().rank(), window.team().size());
        let mut words = vec![0; self.words() as usize];
        window.local()?.read(WindowDisp(0), &mut words)?;
        let wrong = |what: String| Err(Error::Wrong(format!("hash-table, {me}: {what}")));
        let mut found = Vec::new();
        for slot in (FIRST_SLOT..self.first_cell()).step_by(2) {
            let mut place = slot;
            while let Some(&[key, next]) = words.get(place as usize..place as usize + 2) {
                if key != 0 {
                    found.push(key);
                }
                if found.len() as u64 > self.slots() + self.cells() {
                    return wrong(format!("the list of the slot at word {slot} has no end"));
                }
                if next == 0 {
                    break;
                }
                place = next;
            }
        }
        found.sort_unstable();
        let all = (0..size).flat_map(|rank| self.keys(Rank(rank)));
        let mut expected: Vec<u64> = all.filter(|&key| self.slot_of(key, size).0 == me).collect();
        expected.sort_unstable();
        if found != expected {
            let lost = expected.iter().find(|key| found.binary_search(key).is_err());
            let odd = found.iter().find(|key| expected.binary_search(key).is_err());
            return wrong(format!(
                "{} keys instead of {}{}{}",
                found.len(),
                expected.len(),
                lost.map_or(String::new(), |key| format!("; {key:#x} is not there")),
                odd.map_or(String::new(), |key| format!("; {key:#x} is unexpected")),
            ));
        }
        Ok(found.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
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
            let mut window = self.0.strategies.window(&team, 8 * self.0.words())?;
            let table = window.lock_all()?;
            for key in self.0.keys(team.rank()) {
                self.0.insert(&table, key)?;
            }
            team.barrier()?;
            if team.rank() == Rank(0) {
                let key = self.0.keys(Rank(0)).next().expect("there are keys");
                let (rank, slot) = self.0.slot_of(key, team.size());
                table.at(rank)?.put_value(key_at(slot), 0_u64)?;
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
