//! Lock traces that resemble two database benchmarks: TATP and TPC-C.
//!
//! A lock is a row. The profiles of the transactions, and where they deviate from the benchmarks, are in the book (`docs/simulate.md`).
//! Sources: the TATP Benchmark Description 1.0 (IBM, 2009), and the TPC Benchmark C Standard Specification 5.11 (TPC, 2010).

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::LockTrace;
use super::table::MAX_LOCKS;
use rmalab_job::{Error, Result};

/// A benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Benchmark {
    /// TATP; its size is the number of subscribers.
    Tatp,
    /// TPC-C; its size is the number of warehouses.
    TpcC,
}

/// Locks of a TATP subscriber: a subscriber, 4 rows of access info, 4 special facilities, and 3 call forwardings of each of these.
const OF_SUBSCRIBER: u32 = 1 + 4 + 4 + 12;

/// Rows of a TPC-C warehouse.
const DISTRICTS: u32 = 10;
const CUSTOMERS: u32 = 3000;
const ITEMS: u32 = 100_000;

/// Locks of a TPC-C warehouse: itself, its districts, the oldest new order of each, their customers, and the stock.
const OF_WAREHOUSE: u32 = 1 + DISTRICTS + DISTRICTS + DISTRICTS * CUSTOMERS + ITEMS;

/// The number of undelivered new orders of a district at the start.
const UNDELIVERED: usize = 900;

/// The modes of the format.
const SHARED: u32 = 1;
const EXCLUSIVE: u32 = 2;

impl Benchmark {
    /// The default size: TATP's own, and ten warehouses.
    pub const fn size(self) -> u32 {
        match self {
            Benchmark::Tatp => 100_000,
            Benchmark::TpcC => 10,
        }
    }

    /// The largest size, by the locks that a table may have.
    pub const fn largest(self) -> u32 {
        MAX_LOCKS
            / match self {
                Benchmark::Tatp => OF_SUBSCRIBER,
                Benchmark::TpcC => OF_WAREHOUSE,
            }
    }

    /// Checks the size of a trace.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for a size outside 1 to [`largest`](Self::largest), and without a transaction.
    pub fn check(self, size: u64, transactions: u64) -> Result<()> {
        if !(1..=u64::from(self.largest())).contains(&size) {
            return Err(Error::usage(format!("the size {size} is not from 1 to {}", self.largest())));
        }
        if transactions == 0 {
            return Err(Error::usage("a trace of 0 transactions would be empty"));
        }
        Ok(())
    }

    /// Writes a trace of that many transactions.
    ///
    /// # Errors
    ///
    /// Errors of `to`, and [`io::ErrorKind::InvalidInput`] for a size that [`check`](Self::check) refuses.
    pub fn write(self, size: u32, transactions: u64, seed: u64, to: &mut dyn Write) -> io::Result<()> {
        self.check(size.into(), transactions).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let random = StdRng::seed_from_u64(seed);
        match self {
            Benchmark::Tatp => lines(to, transactions, Tatp { random, subscribers: size }),
            Benchmark::TpcC => lines(to, transactions, TpcC::new(random, size)),
        }
    }

    /// A trace in memory.
    ///
    /// # Errors
    ///
    /// Errors of [`check`](Self::check) and [`LockTrace::parse`].
    pub fn trace(self, size: u32, transactions: u64, seed: u64) -> Result<LockTrace> {
        self.check(size.into(), transactions)?;
        let mut text = Vec::new();
        self.write(size, transactions, seed, &mut text).expect("memory takes any text, and the size was checked");
        let name = match self {
            Benchmark::Tatp => "TATP",
            Benchmark::TpcC => "TPC-C",
        };
        LockTrace::parse(Path::new(name), &text[..]).map_err(|error| Error::usage(error.to_string()))
    }
}

/// Draws transactions.
trait Transactions {
    /// Adds the locks of a transaction, with their modes, and returns its type.
    fn draw(&mut self, locks: &mut Vec<(u32, u32)>) -> u32;
}

fn lines(to: &mut dyn Write, transactions: u64, mut of: impl Transactions) -> io::Result<()> {
    writeln!(to, "txn,0,type,lock,mode")?;
    let mut locks = Vec::new();
    for transaction in 0..transactions {
        locks.clear();
        let kind = of.draw(&mut locks);
        for (lock, mode) in &locks {
            writeln!(to, "{transaction},0,{kind},{lock},{mode}")?;
        }
    }
    Ok(())
}

/// The number, from 1, of the type that a percentage falls to.
fn kind(random: &mut StdRng, shares: &[u32]) -> u32 {
    let mut left = random.random_range(0..100);
    for (number, &share) in (1..).zip(shares) {
        if left < share {
            return number;
        }
        left -= share;
    }
    unreachable!("the shares are constants of the benchmarks and sum to 100")
}

/// The benchmarks' non-uniform distribution over `from..=to`.
fn skewed(random: &mut StdRng, a: u32, c: u32, from: u32, to: u32) -> u32 {
    ((random.random_range(0..=a) | random.random_range(from..=to)) + c) % (to - from + 1) + from
}

struct Tatp {
    random: StdRng,
    subscribers: u32,
}

impl Transactions for Tatp {
    fn draw(&mut self, locks: &mut Vec<(u32, u32)>) -> u32 {
        let (n, random) = (self.subscribers, &mut self.random);
        let kind = kind(random, &[35, 10, 35, 2, 14, 2, 2]);
        let a = match n {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        let subscriber = skewed(random, a, 0, 1, n) - 1;
        // Rows of access info or facilities have a number from 0 to 3; call forwardings start at hours 0, 8 or 16.
        let (row, start) = (random.random_range(0..4), random.random_range(0..3));
        let access = n + 4 * subscriber + row;
        let facility = |row: u32| 5 * n + 4 * subscriber + row;
        let forwarding = |start: u32| 9 * n + 12 * subscriber + 3 * row + start;
        match kind {
            // Get subscriber data.
            1 => locks.push((subscriber, SHARED)),
            // Get new destination: the forwardings that start by an hour.
            2 => {
                locks.push((facility(row), SHARED));
                locks.extend((0..=start).map(|start| (forwarding(start), SHARED)));
            }
            // Get access data.
            3 => locks.push((access, SHARED)),
            // Update subscriber data.
            4 => locks.extend([(subscriber, EXCLUSIVE), (facility(row), EXCLUSIVE)]),
            // Update location.
            5 => locks.push((subscriber, EXCLUSIVE)),
            // Insert call forwarding: it looks for the subscriber's facilities first.
            6 => {
                locks.push((subscriber, SHARED));
                locks.extend((0..4).map(|row| (facility(row), SHARED)));
                locks.push((forwarding(start), EXCLUSIVE));
            }
            // Delete call forwarding.
            _ => locks.extend([(subscriber, SHARED), (forwarding(start), EXCLUSIVE)]),
        }
        kind
    }
}

struct TpcC {
    random: StdRng,
    warehouses: u32,
    /// The constants of the distributions of customers and of items.
    constants: [u32; 2],
    /// The customers of the undelivered orders of each district, the oldest first.
    orders: Vec<VecDeque<u32>>,
}

impl TpcC {
    fn new(mut random: StdRng, warehouses: u32) -> TpcC {
        let constants = [random.random_range(0..=1023), random.random_range(0..=8191)];
        let customer = |random: &mut StdRng| random.random_range(0..CUSTOMERS);
        let orders = (0..warehouses * DISTRICTS).map(|_| (0..UNDELIVERED).map(|_| customer(&mut random)).collect());
        let orders = orders.collect();
        TpcC { random, warehouses, constants, orders }
    }

    fn customer(&mut self) -> u32 {
        skewed(&mut self.random, 1023, self.constants[0], 1, CUSTOMERS) - 1
    }

    /// Another warehouse; the same one if there is no other.
    fn other(&mut self, warehouse: u32) -> u32 {
        match self.warehouses {
            1 => warehouse,
            all => (warehouse + self.random.random_range(1..all)) % all,
        }
    }
}

impl Transactions for TpcC {
    fn draw(&mut self, locks: &mut Vec<(u32, u32)>) -> u32 {
        let w = self.warehouses;
        let kind = kind(&mut self.random, &[45, 43, 4, 4, 4]);
        let warehouse = self.random.random_range(0..w);
        let district = warehouse * DISTRICTS + self.random.random_range(0..DISTRICTS);
        // The rows of each table follow the rows of the previous table.
        let of_district = |district: u32| w + district;
        let oldest = |district: u32| w * (1 + DISTRICTS) + district;
        let of_customer = |district: u32, customer: u32| w * (1 + 2 * DISTRICTS) + district * CUSTOMERS + customer;
        let stock =
            |warehouse: u32, item: u32| w * (1 + 2 * DISTRICTS + DISTRICTS * CUSTOMERS) + warehouse * ITEMS + item;
        match kind {
            // New-order.
            1 => {
                let customer = self.customer();
                locks.push((warehouse, SHARED));
                locks.push((of_district(district), EXCLUSIVE));
                locks.push((of_customer(district, customer), SHARED));
                for _ in 0..self.random.random_range(5..=15) {
                    let item = skewed(&mut self.random, 8191, self.constants[1], 1, ITEMS) - 1;
                    let remote = self.random.random_range(1..=100) == 1;
                    let from = if remote { self.other(warehouse) } else { warehouse };
                    locks.push((stock(from, item), EXCLUSIVE));
                }
                self.orders[district as usize].push_back(customer);
            }
            // Payment, 15 % of them of a customer of another warehouse.
            2 => {
                let remote = self.random.random_range(1..=100) > 85;
                let of = if remote {
                    self.other(warehouse) * DISTRICTS + self.random.random_range(0..DISTRICTS)
                } else {
                    district
                };
                let customer = self.customer();
                locks.extend([(warehouse, EXCLUSIVE), (of_district(district), EXCLUSIVE)]);
                locks.push((of_customer(of, customer), EXCLUSIVE));
            }
            // Order-status.
            3 => locks.push((of_customer(district, self.customer()), SHARED)),
            // Delivery: the oldest order of each district.
            4 => {
                for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
                    locks.push((oldest(district), EXCLUSIVE));
                    if let Some(customer) = self.orders[district as usize].pop_front() {
                        locks.push((of_customer(district, customer), EXCLUSIVE));
                    }
                }
            }
            // Stock-level.
            _ => locks.push((of_district(district), SHARED)),
        }
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a trace, as numbers.
    fn numbers(benchmark: Benchmark, size: u32, transactions: u64, seed: u64) -> Vec<[u32; 5]> {
        let mut text = Vec::new();
        benchmark.write(size, transactions, seed, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = |line: &str| {
            let numbers: Vec<u32> = line.split(',').map(|number| number.parse().unwrap()).collect();
            <[u32; 5]>::try_from(numbers).unwrap()
        };
        text.lines().skip(1).map(line).collect()
    }

    #[test]
    fn types_have_their_shares() {
        for (benchmark, shares) in
            [(Benchmark::Tatp, &[35, 10, 35, 2, 14, 2, 2][..]), (Benchmark::TpcC, &[45, 43, 4, 4, 4])]
        {
            let mut lines = numbers(benchmark, 2, 20_000, 1);
            lines.dedup_by_key(|line| line[0]);
            assert_eq!(lines.len(), 20_000);
            for (kind, &share) in (1..).zip(shares) {
                let count = lines.iter().filter(|line| line[2] == kind).count() as f64 / 200.0;
                // Five standard deviations.
                assert!((count - f64::from(share)).abs() < 1.8, "{benchmark:?} {kind}: {count} %");
            }
        }
    }

    #[test]
    fn seeds_and_sizes_matter() {
        for benchmark in [Benchmark::Tatp, Benchmark::TpcC] {
            assert_eq!(numbers(benchmark, 3, 50, 7), numbers(benchmark, 3, 50, 7));
            assert_ne!(numbers(benchmark, 3, 50, 7), numbers(benchmark, 3, 50, 8));
            let each = benchmark.size().min(3);
            let of = if benchmark == Benchmark::Tatp { OF_SUBSCRIBER } else { OF_WAREHOUSE };
            assert!(numbers(benchmark, each, 2000, 1).iter().all(|line| line[3] < each * of));
            for size in [0, benchmark.largest() + 1] {
                let error = benchmark.write(size, 1, 1, &mut io::sink()).unwrap_err().to_string();
                assert!(error.contains("is not from 1 to"), "{error}");
            }
            assert!(benchmark.write(1, 0, 1, &mut io::sink()).is_err());
        }
    }

    /// Each profile locks the rows that it reads in shared mode, and the rows that it writes exclusively. A new order
    /// locks 5 to 15 rows of stock.
    #[test]
    fn profiles_have_their_locks() {
        let modes = |benchmark, kind: u32| {
            let mut modes: Vec<Vec<u32>> = Vec::new();
            let mut last = None;
            for line in numbers(benchmark, 2, 4000, 3).iter().filter(|line| line[2] == kind) {
                if last != Some(line[0]) {
                    modes.push(Vec::new());
                }
                last = Some(line[0]);
                modes.last_mut().unwrap().push(line[4]);
            }
            modes.sort();
            modes.dedup();
            modes
        };
        let tatp = |kind| modes(Benchmark::Tatp, kind);
        assert_eq!(tatp(1), [[1]]);
        assert_eq!(tatp(2), [vec![1, 1], vec![1, 1, 1], vec![1, 1, 1, 1]]);
        assert_eq!(tatp(3), [[1]]);
        assert_eq!(tatp(4), [[2, 2]]);
        assert_eq!(tatp(5), [[2]]);
        assert_eq!(tatp(6), [[1, 1, 1, 1, 1, 2]]);
        assert_eq!(tatp(7), [[1, 2]]);
        let tpcc = |kind| modes(Benchmark::TpcC, kind);
        let stock: Vec<usize> = tpcc(1).iter().map(|modes| modes.len() - 3).collect();
        assert_eq!(stock, (5..=15).collect::<Vec<_>>());
        assert!(tpcc(1).iter().all(|modes| modes[..3] == [1, 2, 1] && modes[3..].iter().all(|&mode| mode == 2)));
        assert_eq!(tpcc(2), [[2, 2, 2]]);
        assert_eq!(tpcc(3), [[1]]);
        assert_eq!(tpcc(4), [[2; 20]]);
        assert_eq!(tpcc(5), [[1]]);
    }

    /// Deliveries take the oldest orders, and have none when all are delivered.
    #[test]
    fn deliveries_follow_orders() {
        let mut of = TpcC::new(StdRng::seed_from_u64(1), 1);
        for orders in &mut of.orders {
            orders.clear();
        }
        of.orders[3].extend([17, 18]);
        let customer = |number: u32| 1 + 20 + 3 * CUSTOMERS + number;
        let mut seen = Vec::new();
        let mut locks = Vec::new();
        while seen.len() < 3 {
            locks.clear();
            of.orders.iter_mut().enumerate().filter(|(at, _)| *at != 3).for_each(|(_, orders)| orders.clear());
            let before = of.orders[3].len();
            if of.draw(&mut locks) == 4 {
                let taken = locks.iter().filter(|lock| lock.0 >= 21).map(|lock| lock.0);
                let taken: Vec<u32> = taken.filter(|lock| (customer(0)..customer(CUSTOMERS)).contains(lock)).collect();
                seen.push(taken);
            } else {
                of.orders[3].truncate(before);
            }
        }
        assert_eq!(seen, [vec![customer(17)], vec![customer(18)], vec![]]);
    }
}
