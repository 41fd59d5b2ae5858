//! The options of simulations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rmalab_atomics::sim::Profile;
use rmalab_atomics::sim::profile::{LocalAtomics, Placement};
use rmalab_atomics::sim::units;
use serde::{Serialize, Serializer};

use crate::Registry;
use crate::workload::{LockTrace, Table};
use rmalab_job::{Error, Result};
use rmalab_report::numbers::{counted, humane, nanoseconds};

/// The points of a simulation: every lock at every number of ranks, on every profile under every load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The machines.
    pub profiles: Vec<Profile>,
    /// The subjects' names; none means all that are registered.
    pub locks: Vec<String>,
    /// Numbers of ranks.
    pub ranks: Vec<u32>,
    /// The loads of the ranks.
    pub loads: Vec<Load>,
    /// The targets of shared and exclusive locks.
    pub target: Target,
    /// The home of global locks, which is also the target of [`Target::Same`].
    pub home: u32,
    /// The number of ranks, evenly spread, that take only exclusive locks.
    pub exclusive_ranks: u32,
    /// Measured acquisitions of each rank; none means [`auto_pairs`].
    pub pairs: Option<u32>,
    /// The share of `pairs` that each rank acquires before it measures, at least one acquisition. After its measured
    /// acquisitions, it goes on until all ranks have measured, for at most as many again. 0 switches both off.
    pub warm_up: f64,
    /// The number of seeds for each point.
    pub seeds: u32,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Changes of the profiles' machines.
    pub machine: Override,
    /// A point with more events than this is left out.
    pub max_events: u64,
    /// The number of simultaneous simulations; none means one for each processor.
    pub threads: Option<usize>,
}

/// Changes of a profile's machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Override {
    /// Ranks on a node.
    pub ranks_per_node: Option<u32>,
    /// Placement of ranks.
    pub placement: Option<Placement>,
    /// Atomic engines of an adapter.
    pub engines: Option<u32>,
    /// The device that carries out atomics inside a node.
    pub local_atomics: Option<LocalAtomics>,
}

impl fmt::Display for Override {
    /// Lists the changes; empty if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.ranks_per_node.map(|ranks| format!("{} on a node", counted(ranks.into(), "rank"))),
            self.placement.map(|placement| match placement {
                Placement::Block => "ranks placed in blocks".to_owned(),
                Placement::Cyclic => "ranks placed in turn".to_owned(),
            }),
            self.engines.map(|engines| format!("{engines} engines for each adapter")),
            self.local_atomics.map(|who| match who {
                LocalAtomics::Nic => "atomics inside a node by the adapter".to_owned(),
                LocalAtomics::Processor => "atomics inside a node by the processor".to_owned(),
            }),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Default limit on the events of a point: some two minutes.
pub const MAX_EVENTS: u64 = 200_000_000;

/// Default number of measured acquisitions of a point, all ranks together.
const AUTO_PAIRS: u32 = 300_000;

/// Default number of measured acquisitions of each of `ranks` ranks: 1,000, or fewer, but at least 4, if they would take
/// more than seconds.
pub fn auto_pairs(ranks: u32) -> u32 {
    (AUTO_PAIRS / ranks.max(1)).clamp(4, 1000)
}

impl Options {
    /// All locks under lock_all alone, at 4 to 4,096 ranks of that machine.
    pub fn new(profile: Profile) -> Options {
        Options {
            profiles: vec![profile],
            locks: Vec::new(),
            ranks: vec![4, 16, 64, 256, 1024, 4096],
            loads: vec![Load::default()],
            target: Target::default(),
            home: 0,
            exclusive_ranks: 0,
            pairs: None,
            warm_up: 0.1,
            seeds: 1,
            seed: 1,
            machine: Override::default(),
            max_events: MAX_EVENTS,
            threads: None,
        }
    }

    /// Checks every option, and fills in the names of all subjects if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for the first option that makes no sense.
    pub fn checked(mut self, registry: &Registry) -> Result<Options> {
        if self.locks.is_empty() {
            self.locks = registry.subjects().map(|subject| subject.info().name.clone()).collect();
        }
        for name in &self.locks {
            registry.find(name)?;
        }
        self.ranks.sort_unstable();
        self.ranks.dedup();
        for (empty, what) in [
            (self.locks.is_empty(), "lock"),
            (self.ranks.is_empty(), "number of ranks"),
            (self.profiles.is_empty(), "profile"),
            (self.loads.is_empty(), "load"),
        ] {
            if empty {
                return Err(Error::usage(format!("a simulation needs at least one {what}")));
            }
        }
        for &ranks in &self.ranks {
            let needed = self.home.max(self.exclusive_ranks.saturating_sub(1));
            if needed >= ranks {
                return Err(Error::usage(format!(
                    "a world of {ranks} ranks has no rank {needed} (they count from 0), but --home or \
                     --exclusive-ranks needs it"
                )));
            }
        }
        for load in &self.loads {
            let Some(table) = &load.table else { continue };
            if load.mix.lock_all > 0.0 {
                return Err(Error::usage("a lock of a table has no lock_all: use shares of shared and exclusive"));
            }
            if self.exclusive_ranks > 0 {
                return Err(Error::usage("--exclusive-ranks is for one lock; a table's ranks draw from --mix"));
            }
            if table.trace.as_ref().is_some_and(|trace| Mix::of(trace) != load.mix) {
                return Err(Error::usage(
                    "a trace has its own shares of exclusive locks: leave out --mix and --writers",
                ));
            }
            let (homes, ranks) = (table.homes.unwrap_or(1), self.ranks[0]);
            if homes > ranks {
                return Err(Error::usage(format!("a table at {homes} ranks does not fit a world of {ranks}")));
            }
            if table.locks == 0 {
                return Err(Error::usage("a table of 0 locks would simulate nothing"));
            }
        }
        for (zero, what) in [
            (self.pairs == Some(0), "--pairs"),
            (self.seeds == 0, "--seeds"),
            (self.machine.ranks_per_node == Some(0), "--ranks-per-node"),
            (self.machine.engines == Some(0), "--engines"),
            (self.max_events == 0, "--max-events"),
            (self.threads == Some(0), "--threads"),
        ] {
            if zero {
                return Err(Error::usage(format!("{what}: 0 would simulate nothing")));
            }
        }
        Ok(self)
    }

    /// The number of simulations: points times seeds.
    pub fn simulations(&self) -> usize {
        self.profiles.len() * self.loads.len() * self.locks.len() * self.ranks.len() * self.seeds as usize
    }

    /// Measured acquisitions of each of `ranks` ranks.
    pub fn pairs(&self, ranks: u32) -> u32 {
        self.pairs.unwrap_or_else(|| auto_pairs(ranks))
    }

    /// Unmeasured acquisitions of each of `ranks` ranks ahead of the measurement.
    pub fn warm_up(&self, ranks: u32) -> u32 {
        if self.warm_up == 0.0 { 0 } else { ((f64::from(self.pairs(ranks)) * self.warm_up).ceil() as u32).max(1) }
    }
}

/// The repeated actions of ranks: the locks that they acquire, and their actions with these.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Load {
    /// The locks.
    pub mix: Mix,
    /// The actions of a rank while it holds the locks, or after their release.
    pub section: Section,
    /// The table from which each acquisition draws its lock, or whose trace has the transactions of the ranks. Without
    /// it, there is one lock, and a [`Target`] in it.
    pub table: Option<Table>,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mix)?;
        if self.section != Section::Empty {
            write!(f, "; {}", self.section)?;
        }
        self.table.as_ref().map_or(Ok(()), |table| write!(f, "; {table}"))
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Shares of acquisitions by kind; together they are 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    /// lock_all.
    pub lock_all: f64,
    /// Shared locks of one target.
    pub shared: f64,
    /// Exclusive locks of one target.
    pub exclusive: f64,
}

impl Mix {
    /// The same shares for locks of a table, where no lock covers all others: lock_all becomes shared.
    #[must_use]
    pub fn in_table(self) -> Mix {
        Mix { lock_all: 0.0, shared: self.lock_all + self.shared, ..self }
    }

    /// The shares of a trace's requests.
    pub fn of(trace: &LockTrace) -> Mix {
        Mix::writers(trace.exclusive()).in_table()
    }

    /// That share of exclusive locks; the others are lock_all.
    pub fn writers(share: f64) -> Mix {
        Mix { lock_all: 1.0 - share, shared: 0.0, exclusive: share }
    }
}

impl Default for Mix {
    fn default() -> Mix {
        Mix::writers(0.0)
    }
}

impl FromStr for Mix {
    type Err = String;

    /// Reads `lock_all=90%,shared=0.05,exclusive=5%`; missing kinds have no share.
    fn from_str(text: &str) -> Result<Mix, String> {
        let mut mix = Mix { lock_all: 0.0, shared: 0.0, exclusive: 0.0 };
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("'{part}' is not KIND=SHARE, such as lock_all=90%"))?;
            let place = match name.trim() {
                "lock_all" => &mut mix.lock_all,
                "shared" => &mut mix.shared,
                "exclusive" => &mut mix.exclusive,
                other => {
                    return Err(format!("no kind of lock is called '{other}': there are lock_all, shared, exclusive"));
                }
            };
            *place = share(value)?;
        }
        let sum = mix.lock_all + mix.shared + mix.exclusive;
        if (sum - 1.0).abs() > 1e-6 {
            return Err(format!("the shares sum to {} %, not to 100 %", sum * 100.0));
        }
        Ok(mix)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [("lock_all", self.lock_all), ("shared", self.shared), ("exclusive", self.exclusive)];
        let present: Vec<_> = kinds.into_iter().filter(|(_, share)| *share > 0.0).collect();
        if let [(name, _)] = present[..] {
            return write!(f, "{name} only");
        }
        let parts: Vec<_> =
            present.iter().map(|(name, share)| format!("{} % {name}", (share * 1e4).round() / 100.0)).collect();
        f.write_str(&parts.join(", "))
    }
}

/// Reads a share, as a fraction or in percent.
///
/// # Errors
///
/// A description of the error.
pub fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim(), 100.0));
    let share: f64 = number.parse().map_err(|_| format!("'{text}' is not a share, such as 0.02 or 2%"))?;
    let share = share / whole;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(format!("'{text}' is not from 0 to 100 %")) }
}

/// The actions of a rank with a lock: the workloads of P. Schmid, M. Besta, T. Hoefler, High-Performance Distributed RMA
/// Locks, HPDC'16, section 5.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Section {
    /// Nothing.
    #[default]
    Empty,
    /// One operation on a word of a rank that the lock covers: a get, and inside exclusive locks a put and its flush.
    Operation,
    /// Computes inside, for a uniform time from the first to the second.
    Work(Duration, Duration),
    /// Computes after the release, for a uniform time from the first to the second.
    Wait(Duration, Duration),
}

/// The longest work and wait.
const LONGEST: Duration = Duration::from_secs(3600);

/// The lengths of the paper's work and wait.
pub(super) const LENGTHS: (Duration, Duration) = (Duration::from_micros(1), Duration::from_micros(4));

impl FromStr for Section {
    type Err = String;

    /// Reads `empty`, `operation`, `work:1us-4us`, `wait:2us`; the default lengths are 1 to 4 us.
    fn from_str(text: &str) -> Result<Section, String> {
        let (name, lengths) = match text.split_once(':') {
            Some((name, lengths)) => (name, Some(lengths)),
            None => (text, None),
        };
        let range = || -> Result<(Duration, Duration), String> {
            let Some(lengths) = lengths else { return Ok(LENGTHS) };
            let (from, to) = lengths.split_once('-').unwrap_or((lengths, lengths));
            let time = |text: &str| units::duration(text, LONGEST);
            let (from, to) = (time(from)?, time(to)?);
            if from <= to { Ok((from, to)) } else { Err(format!("'{lengths}' begins after its end")) }
        };
        match (name, lengths) {
            ("empty", None) => Ok(Section::Empty),
            ("operation", None) => Ok(Section::Operation),
            ("work", _) => range().map(|(from, to)| Section::Work(from, to)),
            ("wait", _) => range().map(|(from, to)| Section::Wait(from, to)),
            _ => Err(format!("'{text}' is not one of empty, operation, work:1us-4us, wait:1us-4us")),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Duration| humane(nanoseconds(time) as f64);
        match *self {
            Section::Empty => f.write_str("nothing inside"),
            Section::Operation => f.write_str("one operation inside"),
            Section::Work(from, to) if from == to => write!(f, "{} of work inside", time(from)),
            Section::Work(from, to) => write!(f, "{} to {} of work inside", time(from), time(to)),
            Section::Wait(from, to) if from == to => write!(f, "{} of waiting outside", time(from)),
            Section::Wait(from, to) => write!(f, "{} to {} of waiting outside", time(from), time(to)),
        }
    }
}

/// Targets of shared and exclusive locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Each rank locks itself.
    Own,
    /// All ranks lock the home rank.
    #[default]
    Same,
    /// A rank drawn for every lock.
    Random,
}

/// The largest number of ranks in the options; memory usually sets a lower limit.
pub const MAX_RANKS: u32 = 16_000_000;

/// Reads numbers of ranks: a number, or a sweep `start:end:factor`, which includes both ends.
///
/// # Errors
///
/// A description of the error.
pub fn ranks(text: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| -> Result<u32, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], 1_000),
            Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
            _ => (text, 1),
        };
        let value = digits.trim().parse::<u32>().ok().and_then(|value| value.checked_mul(unit));
        value
            .filter(|ranks| (1..=MAX_RANKS).contains(ranks))
            .ok_or_else(|| format!("'{text}' is not a number of ranks from 1 to {MAX_RANKS}, such as 64, 4k or 1M"))
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [one] => Ok(vec![number(one)?]),
        [start, end, factor] => {
            let (start, end) = (number(start)?, number(end)?);
            let factor: f64 =
                factor.trim().parse().map_err(|_| format!("'{factor}' is not a factor, such as 2 or 4"))?;
            if start > end {
                return Err(format!("'{text}' begins after its end"));
            }
            if !(1.1..=1e6).contains(&factor) {
                return Err(format!("'{text}': the factor is not between 1.1 and 1000000"));
            }
            let mut all: Vec<u32> = std::iter::successors(Some(f64::from(start)), |ranks| Some(ranks * factor))
                .take_while(|&ranks| ranks < f64::from(end))
                .map(|ranks| ranks.round() as u32)
                .collect();
            all.push(end);
            all.dedup();
            Ok(all)
        }
        _ => Err(format!("'{text}' is neither a number of ranks nor a sweep start:end:factor, such as 4:4096:4")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_include_both_ends() {
        assert_eq!(ranks("64"), Ok(vec![64]));
        assert_eq!(ranks("1M"), Ok(vec![1_000_000]));
        assert_eq!(ranks("4:256:4"), Ok(vec![4, 16, 64, 256]));
        assert_eq!(ranks("1024:663552:4"), Ok(vec![1024, 4096, 16384, 65536, 262_144, 663_552]));
        assert_eq!(ranks("1:3:1.5"), Ok(vec![1, 2, 3]));
        for wrong in ["", "0", "k", "8:4:2", "4:8", "4:8:1", "4:8:NaN", "1:2:3:4", "17M", "4294967296", "-4", "é"] {
            assert!(ranks(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mixes_round_trip() {
        assert_eq!("lock_all=90%,exclusive=0.1".parse(), Ok(Mix { lock_all: 0.9, shared: 0.0, exclusive: 0.1 }));
        assert_eq!(Mix::writers(0.002).to_string(), "99.8 % lock_all, 0.2 % exclusive");
        assert_eq!(Mix::default().to_string(), "lock_all only");
        for wrong in ["", "lock_all", "lock_all=1,shared=1", "read=1", "lock_all=101%", "lock_all=NaN"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sections_have_lengths() {
        let us = Duration::from_micros;
        assert_eq!("work:1us-4us".parse(), Ok(Section::Work(us(1), us(4))));
        assert_eq!("wait".parse(), Ok(Section::Wait(us(1), us(4))));
        assert_eq!("wait:2us".parse(), Ok(Section::Wait(us(2), us(2))));
        assert_eq!("operation".parse(), Ok(Section::Operation));
        for wrong in ["", "work:", "work:4us-1us", "work:1-4", "empty:1us", "sleep"] {
            assert!(wrong.parse::<Section>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn large_points_measure_fewer_pairs() {
        assert_eq!((auto_pairs(4), auto_pairs(4096), auto_pairs(1_000_000)), (1000, 73, 4));
    }
}
