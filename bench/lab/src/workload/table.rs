//! Tables of locks: their locks, the homes of these, and how ranks draw the next one.
//!
//! Every description of work over many locks uses this module: `simulate --table`, the table `[table]` of a workload's file, and the
//! arena. A lock is a number below [`Table::locks`]; [`Layout`] has the home of each in one world. [`Requests`] has the locks that a rank
//! asks for: drawn by the table's popularity, or from a trace.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};
use rmalab_atomics::{Rank, Topology};
use rmalab_locks::LockKind;
use rmalab_report::numbers::{digits, number};

use super::LockTrace;
use super::lock_trace::Client;

/// The most locks of a table.
pub const MAX_LOCKS: u32 = 1_000_000_000;

/// The largest accepted exponent of Zipf's law.
pub(super) const MAX_ZIPF: f64 = 10.0;

/// The distribution of draws over a number of places.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Popularity {
    /// All alike.
    #[default]
    Uniform,
    /// The k-th of them in proportion to k to the power of minus this exponent.
    Zipf(f64),
}

impl Popularity {
    /// Draws one of `places` places, the most popular one first.
    pub(crate) fn draw(self, places: u32, random: &mut impl Rng) -> u32 {
        match self {
            Popularity::Uniform => random.random_range(0..places),
            Popularity::Zipf(exponent) => {
                // So close to 1 the general formula would divide by almost zero.
                let exponent = if (exponent - 1.0).abs() < 1e-6 { 1.0 } else { exponent };
                match Zipf::new(f64::from(places), exponent) {
                    Ok(zipf) => (zipf.sample(random) as u32).clamp(1, places) - 1,
                    // The parser checked the exponent.
                    Err(_) => 0,
                }
            }
        }
    }
}

/// The member at `place` in the order of popularity. Popular members are far from each other, and member 0, where many policies have their
/// words, is not the first.
pub(super) fn scattered(place: u32, members: u32) -> u32 {
    let members = u64::from(members);
    // Near the golden section of all members, and without a common divisor, so that each member has one place.
    let mut stride = (members * 618 / 1000).max(1);
    while divisor(stride, members) != 1 {
        stride += 1;
    }
    ((u64::from(place) + 1) * stride % members) as u32
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// A table of locks.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The number of locks, at least 1.
    pub locks: u32,
    /// The distribution of draws.
    pub popularity: Popularity,
    /// The share of draws of locks on the rank's own node; the other draws are of locks on other nodes. Without it, nodes do not matter.
    pub local: Option<f64>,
    /// The number of ranks, evenly spread from rank 0 on, that have the locks in their memory; all without it.
    pub homes: Option<u32>,
    /// The transactions of the ranks. With them, `popularity` and `local` mean nothing.
    pub trace: Option<Arc<LockTrace>>,
}

impl Table {
    /// A table of the locks of a trace.
    pub fn traced(trace: Arc<LockTrace>) -> Table {
        let locks = trace.locks();
        Table { locks, popularity: Popularity::Uniform, local: None, homes: None, trace: Some(trace) }
    }
}

impl FromStr for Table {
    type Err = String;

    /// Reads `10M`, `100k:zipf=0.99`, `1k:local=90%:homes=4`, `trace=FILE:homes=4`; reads the file of a trace, too.
    fn from_str(text: &str) -> Result<Table, String> {
        let mut parts = text.split(':');
        let first = parts.next().unwrap_or("");
        let mut table = match first.trim().strip_prefix("trace=") {
            Some(file) => {
                let trace = LockTrace::read(Path::new(file)).map_err(|error| error.to_string())?;
                Table::traced(Arc::new(trace))
            }
            None => {
                let locks = count(first)?;
                Table { locks, popularity: Popularity::Uniform, local: None, homes: None, trace: None }
            }
        };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name.trim() {
                "uniform" | "zipf" | "local" if table.trace.is_some() => {
                    return Err(format!(
                        "'{part}': a trace has its own order of locks; beside it there is only homes=4"
                    ));
                }
                "uniform" if value.is_empty() => table.popularity = Popularity::Uniform,
                "zipf" => {
                    let exponent = value.trim().parse().ok().filter(|exponent| (0.0..=MAX_ZIPF).contains(exponent));
                    let wrong = || format!("'{part}': the exponent is not a number from 0 to {MAX_ZIPF}");
                    table.popularity = Popularity::Zipf(exponent.ok_or_else(wrong)?);
                }
                "local" => table.local = Some(crate::simulate::share(value)?),
                "homes" => table.homes = Some(count(value).map_err(|_| format!("'{part}': not a number above 0"))?),
                _ => {
                    return Err(format!(
                        "'{part}' is not one of uniform, zipf=0.99, local=90%, homes=4: write a table as 100k:zipf=0.99"
                    ));
                }
            }
        }
        Ok(table)
    }
}

/// A number from 1 to [`MAX_LOCKS`], perhaps in thousands or millions.
fn count(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1000),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1_000_000)),
    };
    let count = number.parse::<u32>().ok().and_then(|count| count.checked_mul(unit));
    count
        .filter(|count| (1..=MAX_LOCKS).contains(count))
        .ok_or_else(|| format!("'{text}' is not a number of locks from 1 to {MAX_LOCKS}, such as 1000, 100k or 10M"))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", rmalab_report::numbers::counted(self.locks.into(), "lock"))?;
        match (&self.trace, self.popularity) {
            (Some(trace), _) => write!(f, ", {trace}")?,
            (None, Popularity::Uniform) => write!(f, ", uniform")?,
            (None, Popularity::Zipf(exponent)) => write!(f, ", Zipf {}", digits(exponent))?,
        }
        if let Some(local) = self.local {
            write!(f, ", {} % on the rank's node", number(local * 100.0))?;
        }
        match self.homes {
            Some(1) => write!(f, ", all at one rank"),
            Some(homes) => write!(f, ", at {homes} ranks"),
            None => Ok(()),
        }
    }
}

/// The places of a table's locks in one world.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Layout {
    table: Table,
    /// The number of homes, and the distance between two of them.
    homes: u32,
    step: u32,
    /// The numbers of the homes of each node that has any, and where each node is in this list; empty if nodes do not matter.
    by_node: Vec<(u32, Vec<u32>)>,
}

impl Layout {
    /// The places of the locks of `table` among the ranks of `topology`. There are no more homes than locks.
    pub(crate) fn new(table: Table, topology: &Topology) -> Layout {
        let homes = table.homes.unwrap_or(u32::MAX).min(topology.size()).min(table.locks).max(1);
        let step = topology.size() / homes;
        let mut by_node: Vec<(u32, Vec<u32>)> = Vec::new();
        if table.local.is_some() {
            let mut homes: Vec<(u32, u32)> =
                (0..homes).map(|home| (topology.node_of(Rank(home * step)), home)).collect();
            homes.sort_unstable();
            for (node, home) in homes {
                match by_node.last_mut() {
                    Some((last, homes)) if *last == node => homes.push(home),
                    _ => by_node.push((node, vec![home])),
                }
            }
        }
        Layout { table, homes, step, by_node }
    }

    /// The table.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The number of locks.
    pub(crate) fn locks(&self) -> u32 {
        self.table.locks
    }

    /// The rank with a lock's words.
    pub(crate) fn home(&self, lock: u32) -> Rank {
        Rank(lock % self.homes * self.step)
    }

    /// Draws a lock for a rank on `node`.
    ///
    /// With a share of local locks, the node is drawn first: the rank's own or another one, and then a lock there, by `popularity`.
    /// If no lock is on the rank's node, or all are there, the draw is among all locks.
    pub(super) fn draw(&self, popularity: Popularity, node: u32, random: &mut impl Rng) -> u32 {
        let Some(local) = self.table.local else {
            return scattered(popularity.draw(self.table.locks, random), self.table.locks);
        };
        let nodes = self.by_node.len();
        let own = self.by_node.binary_search_by_key(&node, |&(node, _)| node).ok();
        let at = match own {
            Some(own) if nodes == 1 || random.random::<f64>() < local => own,
            Some(own) => (own + random.random_range(1..nodes)) % nodes,
            None => random.random_range(0..nodes),
        };
        let homes = &self.by_node[at].1;
        // Every home has these locks; the few more of some homes are not drawn.
        let each = self.table.locks / self.homes;
        let locks = each * homes.len() as u32;
        let lock = scattered(popularity.draw(locks, random), locks);
        lock / homes.len() as u32 * self.homes + homes[lock as usize % homes.len()]
    }
}

/// The requests of one rank on a table.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    layout: Arc<Layout>,
    node: u32,
    client: Option<Client>,
}

impl Requests {
    /// The requests of `rank`, on `node`, in a world of `ranks`.
    pub(crate) fn new(layout: &Arc<Layout>, rank: Rank, ranks: u32, node: u32) -> Requests {
        let client = layout.table.trace.as_ref().map(|trace| Client::new(Arc::clone(trace), rank.0, ranks));
        Requests { layout: Arc::clone(layout), node, client }
    }

    /// The places of the locks.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets `locks` to the locks of the next transaction, by rising numbers. That is the trace's next transaction, or a lock drawn by
    /// `popularity` and taken in this `kind`.
    pub(crate) fn next(
        &mut self,
        popularity: Popularity,
        kind: LockKind,
        random: &mut impl Rng,
        locks: &mut Vec<(u32, LockKind)>,
    ) {
        locks.clear();
        match &mut self.client {
            Some(client) => locks.extend(client.next()),
            None => locks.push((self.layout.draw(popularity, self.node, random), kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn tables_are_written_in_one_word() {
        let all =
            Table { locks: 100_000, popularity: Popularity::Zipf(0.99), local: Some(0.9), homes: Some(4), trace: None };
        assert_eq!("100k:zipf=0.99:local=90%:homes=4".parse(), Ok(all.clone()));
        assert_eq!(all.to_string(), "100,000 locks, Zipf 0.99, 90 % on the rank's node, at 4 ranks");
        assert_eq!(table("10M").to_string(), "10,000,000 locks, uniform");
    }

    #[test]
    fn errors_are_one_line() {
        for (wrong, part) in [
            ("", "not a number of locks"),
            ("0", "not a number of locks"),
            ("2000M", "not a number of locks"),
            ("99999999M", "not a number of locks"),
            ("1k:zipf=-1", "from 0 to 10"),
            ("1k:zipf=NaN", "from 0 to 10"),
            ("1k:zipf", "from 0 to 10"),
            ("1k:local=101%", "not from 0 to 100 %"),
            ("1k:homes=0", "not a number above 0"),
            ("1k:near=1", "write a table as"),
            ("1k:", "write a table as"),
            ("trace=no-such.csv", "no-such.csv: "),
        ] {
            let error = wrong.parse::<Table>().unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_member_has_one_place_in_the_order_of_popularity() {
        for members in (1..70).chain([128, 999, 1000]) {
            let mut seen = vec![false; members as usize];
            for place in 0..members {
                assert!(!std::mem::replace(&mut seen[scattered(place, members) as usize], true));
            }
            assert!(members == 1 || scattered(0, members) != 0);
        }
    }

    #[test]
    fn homes_are_evenly_spread() {
        let topology = Topology::blocks(12, 4, 1).unwrap();
        let homes = |text: &str| {
            let layout = Layout::new(table(text), &topology);
            (0..6).map(|lock| layout.home(lock).0).collect::<Vec<_>>()
        };
        assert_eq!(homes("100"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(homes("100:homes=1"), [0; 6]);
        assert_eq!(homes("100:homes=3"), [0, 4, 8, 0, 4, 8]);
        assert_eq!(homes("2"), [0, 6, 0, 6, 0, 6]);
    }

    #[test]
    fn local_locks_have_their_share() {
        let topology = Topology::blocks(12, 4, 1).unwrap();
        let mut random = SmallRng::seed_from_u64(1);
        for (text, least, most) in [
            ("1000:local=90%", 880, 920),
            ("1000:local=1", 1000, 1000),
            ("1000:zipf=0.99:local=0%", 0, 0),
            // A third of the locks is on each node.
            ("1000", 300, 366),
            // All are on node 0.
            ("1000:local=90%:homes=1", 0, 0),
        ] {
            let layout = Layout::new(table(text), &topology);
            let own = (0..1000)
                .filter(|_| topology.node_of(layout.home(layout.draw(layout.table.popularity, 1, &mut random))) == 1)
                .count();
            assert!((least..=most).contains(&own), "{text}: {own}");
        }
    }

    #[test]
    fn popular_locks_are_drawn_by_the_law() {
        let layout = Layout::new(table("1000:zipf=1"), &Topology::one_node(4));
        let mut random = SmallRng::seed_from_u64(1);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..100_000 {
            counts[layout.draw(layout.table.popularity, 0, &mut random) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The sum of 1/k for 1,000 is 7.49.
        assert!((13_000..13_700).contains(&counts[0]), "{}", counts[0]);
        assert!((6_350..7_000).contains(&counts[1]), "{}", counts[1]);
    }
}
