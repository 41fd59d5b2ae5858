//! The options of a study.

use std::time::Duration;

use rmalab_atomics::Backend;
use serde::{Deserialize, Serialize};

use crate::Registry;
use crate::subject::passes::Target;
use crate::workload::Table;
use rmalab_job::{Error, Result};

/// The measurements of a study, and their durations.
///
/// [`Options::default`] is the main study, at a size fit for this machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Options {
    /// The places of the ranks; each backend is measured separately.
    pub backends: Vec<Backend>,
    /// Numbers of ranks; each makes a separate world.
    pub ranks: Vec<u32>,
    /// The subjects' names; none means all that are registered.
    pub locks: Vec<String>,
    /// Shares of acquisitions that are lock_all (the others are exclusive locks of one target), 0 to 1.
    pub read_fractions: Vec<f64>,
    /// Computing time of a rank while it holds the lock.
    #[serde(rename = "critical_section_ns", with = "in_nanoseconds")]
    pub critical_section: Duration,
    /// Computing time of a rank between two acquisitions.
    #[serde(rename = "think_time_ns", with = "in_nanoseconds")]
    pub think_time: Duration,
    /// Duration of one cell, all passes together; none means [`BUDGET`] divided by the number of cells.
    #[serde(rename = "duration_ns", with = "in_optional_nanoseconds")]
    pub duration: Option<Duration>,
    /// The number of measurements of each cell; the result is their median.
    pub repetitions: u32,
    /// Time without progress, in a trial or after the end of a measurement, after which the lock counts as stuck.
    #[serde(rename = "patience_ns", with = "in_nanoseconds")]
    pub patience: Duration,
    /// The seed of the ranks' random choices.
    pub seed: u64,
    /// The number of ranks on a (simulated) node; none means the machine's own NUMA nodes.
    pub ranks_per_node: Option<u32>,
    /// True if each rank is bound to one core, in turn; otherwise the scheduler places them.
    pub bind: bool,
    /// The home of global locks, and the default target of exclusive locks.
    pub home: u32,
    /// The target of exclusive locks.
    pub target: Target,
    /// The table of locks from which acquisitions draw, as in [`simulate`](crate::simulate). With it, the shares of readers are shares of
    /// shared locks. Without it, there is one lock, and they are shares of lock_all.
    pub table: Option<String>,
}

/// Duration of all cells of a study together when no duration is given.
///
/// With start-up and report this leaves the main study below a minute.
pub const BUDGET: Duration = Duration::from_secs(45);

/// Bounds of the default duration: shorter is noise, longer is waste.
const DURATIONS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The shortest default with a network among the backends: a slow network's barrier takes 10 ms, and a cell has several.
const SHORTEST_OF_NETWORKS: Duration = Duration::from_millis(200);

/// Returns whether the backend's operations are operations on shared memory.
pub(crate) fn shares_memory(backend: Backend) -> bool {
    matches!(backend, Backend::Local | Backend::Shm)
}

/// The longest duration of a cell.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The most repetitions of a cell.
pub const MAX_REPETITIONS: u32 = 100_000;

/// The most ranks that one world of a study may have.
pub const MAX_RANKS: u32 = 4096;

impl Default for Options {
    fn default() -> Options {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let most = (2 * cores).clamp(8, 64);
        Options {
            backends: vec![Backend::Local, Backend::Shm],
            ranks: std::iter::successors(Some(1), |ranks| Some(ranks * 2)).take_while(|&ranks| ranks <= most).collect(),
            locks: Vec::new(),
            read_fractions: vec![1.0, 0.9],
            critical_section: Duration::ZERO,
            think_time: Duration::ZERO,
            duration: None,
            repetitions: 3,
            patience: Duration::from_secs(10),
            seed: 1,
            ranks_per_node: None,
            bind: true,
            home: 0,
            target: Target::Home,
            table: None,
        }
    }
}

impl Options {
    /// Checks every option, and fills in the names of all subjects if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for the first option that makes no sense.
    pub fn checked(mut self, registry: &Registry) -> Result<Options> {
        if self.locks.is_empty() {
            self.locks = registry.subjects().map(|subject| subject.info().name.clone()).collect();
        }
        dedup(&mut self.locks);
        dedup(&mut self.backends);
        dedup(&mut self.ranks);
        dedup(&mut self.read_fractions);
        for name in &self.locks {
            registry.find(name)?;
        }
        for backend in &self.backends {
            backend.check_built().map_err(|error| Error::usage(error.to_string()))?;
        }
        for (empty, what) in [
            (self.locks.is_empty(), "lock"),
            (self.backends.is_empty(), "backend"),
            (self.ranks.is_empty(), "number of ranks"),
            (self.read_fractions.is_empty(), "read fraction"),
        ] {
            if empty {
                return Err(Error::usage(format!("a study needs at least one {what}")));
            }
        }
        for &ranks in &self.ranks {
            if !(1..=MAX_RANKS).contains(&ranks) {
                return Err(Error::usage(format!("ranks: {ranks} is not between 1 and {MAX_RANKS}")));
            }
            if self.home >= ranks {
                return Err(Error::usage(format!(
                    "home: rank {} does not exist in a world of {ranks} ranks (they count from 0)",
                    self.home
                )));
            }
        }
        if let Some(table) = self.table()? {
            self.check_table(&table)?;
        }
        for &fraction in &self.read_fractions {
            if !(0.0..=1.0).contains(&fraction) {
                return Err(Error::usage(format!("read fraction: {fraction} is not between 0 and 1")));
            }
        }
        if !(1..=MAX_REPETITIONS).contains(&self.repetitions) {
            return Err(Error::usage(format!(
                "repetitions: {} is not between 1 and {MAX_REPETITIONS}",
                self.repetitions
            )));
        }
        if self.duration.is_some_and(|duration| duration.is_zero() || duration > LONGEST) {
            return Err(Error::usage("duration: give a time above 0, and at most 24h"));
        }
        if self.patience.is_zero() || self.patience > LONGEST {
            return Err(Error::usage("patience: give a time above 0, and at most 24h"));
        }
        let duration = self.cell_duration();
        for (time, what) in [(self.critical_section, "critical section"), (self.think_time, "think time")] {
            if time > duration {
                return Err(Error::usage(format!(
                    "{what}: {time:?} is longer than the {duration:?} that a cell is measured; make it shorter, or \
                     give a longer duration"
                )));
            }
        }
        if self.ranks_per_node == Some(0) {
            return Err(Error::usage("ranks per node: give at least 1"));
        }
        Ok(self)
    }

    /// Reads the table of locks, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for text that is no table, and errors of a trace's file.
    pub(crate) fn table(&self) -> Result<Option<Table>> {
        self.table.as_deref().map(|table| table.parse().map_err(Error::usage)).transpose()
    }

    /// Checks the options beside a table, and takes the share of readers from a trace.
    fn check_table(&mut self, table: &Table) -> Result<()> {
        if let Some(backend) = self.backends.iter().find(|&&backend| !shares_memory(backend)) {
            return Err(Error::usage(format!("--table: a study over a table runs on local and shm, not on {backend}")));
        }
        if self.home != 0 || self.target != Target::Home {
            return Err(Error::usage("--table: the locks have their homes; leave out --home and --target"));
        }
        if let (Some(homes), Some(&least)) = (table.homes, self.ranks.iter().min())
            && homes > least
        {
            return Err(Error::usage(format!("a table at {homes} ranks does not fit a world of {least}")));
        }
        if let Some(trace) = &table.trace {
            let shares = vec![1.0 - trace.exclusive()];
            if self.read_fractions != Options::default().read_fractions && self.read_fractions != shares {
                return Err(Error::usage("a trace has its own share of exclusive locks: leave out --writers"));
            }
            self.read_fractions = shares;
        }
        Ok(())
    }

    /// The locks of each world. Each world measures its locks in turn; a table leaves no room for another one.
    pub(super) fn locks_of_worlds(&self) -> Vec<Vec<String>> {
        match self.table {
            None => vec![self.locks.clone()],
            Some(_) => self.locks.iter().map(|lock| vec![lock.clone()]).collect(),
        }
    }

    /// The lock that a reader acquires.
    pub fn readers(&self) -> &'static str {
        if self.table.is_some() { "shared locks" } else { "lock_all" }
    }

    /// The number of cells: combinations of backend, number of ranks, lock and read fraction, without repetitions.
    pub fn cells(&self) -> usize {
        self.backends.len() * self.ranks.len() * self.locks.len() * self.read_fractions.len()
    }

    /// Duration of one cell in one repetition, all passes together.
    pub fn cell_duration(&self) -> Duration {
        self.duration.unwrap_or_else(|| {
            let measurements = u32::try_from(self.cells()).unwrap_or(u32::MAX).saturating_mul(self.repetitions).max(1);
            let all_share = self.backends.iter().copied().all(shares_memory);
            let shortest = if all_share { DURATIONS.0 } else { SHORTEST_OF_NETWORKS };
            (BUDGET / measurements).clamp(shortest, DURATIONS.1)
        })
    }
}

/// Drops all but the first of equal values.
fn dedup<T: PartialEq>(values: &mut Vec<T>) {
    let mut at = 0;
    while at < values.len() {
        if values[..at].contains(&values[at]) {
            values.remove(at);
        } else {
            at += 1;
        }
    }
}

/// Durations in data files: whole nanoseconds.
mod in_nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(rmalab_report::numbers::nanoseconds(*duration))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

/// Like [`in_nanoseconds`], for an optional duration.
mod in_optional_nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        duration.map(rmalab_report::numbers::nanoseconds).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Option::<u64>::deserialize(from).map(|nanoseconds| nanoseconds.map(Duration::from_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_removed_in_place() {
        let mut values = vec![4, 1, 4, 2, 1];
        dedup(&mut values);
        assert_eq!(values, [4, 1, 2]);
    }

    #[test]
    fn options_survive_serialization_to_the_ranks() {
        let options = Options { duration: Some(Duration::from_millis(7)), ..Options::default() };
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), options);
    }

    #[test]
    fn invalid_options_are_refused() {
        let registry = Registry::standard();
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.checked(&registry).unwrap_err().to_string()
        };
        assert!(refused(|options| options.ranks = vec![0]).contains("ranks: 0"));
        assert!(refused(|options| options.home = 8).contains("home"));
        assert!(refused(|options| options.read_fractions = vec![1.5]).contains("1.5"));
        assert!(refused(|options| options.read_fractions = vec![f64::NAN]).contains("NaN"));
        assert!(refused(|options| options.locks = vec!["no-such".into()]).contains("no-such"));
        assert!(refused(|options| options.repetitions = 0).contains("repetitions"));
        assert!(refused(|options| options.repetitions = u32::MAX).contains("repetitions"));
        assert!(refused(|options| options.duration = Some(Duration::ZERO)).contains("duration"));
        assert!(refused(|options| options.duration = Some(Duration::MAX)).contains("duration"));
        assert!(refused(|options| options.critical_section = Duration::from_secs(600)).contains("critical section"));
        assert!(refused(|options| options.think_time = Duration::MAX).contains("think time"));
    }
}
