//! A violation with the schedule that leads to it.

use std::io::Read as _;
use std::path::Path;

use rmalab_atomics::Rank;

use crate::check::Check;
pub use crate::choice::Choice;
use crate::live::Live;
use crate::network::Network;
use crate::play::Section;
use crate::{Error, Result, Violation};

/// A way to break a property: all that a replay needs except the lock.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Counterexample {
    /// The version of the format.
    pub version: u32,
    /// The lock's name.
    pub lock: String,
    /// The mutant's name, if any.
    pub mutant: Option<String>,
    /// The scenario.
    pub scenario: String,
    /// The work of ranks inside.
    pub section: Section,
    /// The network model.
    pub network: Network,
    /// The rank that holds the lock's global words, if the check names one.
    pub home: Option<Rank>,
    /// The property that the schedule breaks.
    pub violation: Violation,
    /// The steps, from the start.
    pub schedule: Vec<Choice>,
    /// For a livelock: the schedule repeats forever from this step on.
    pub cycle: Option<usize>,
}

/// The largest file that is read, in bytes: a schedule of more than a hundred thousand steps.
const LONGEST: u64 = 16 << 20;

/// The version of the format that this program writes and reads.
const VERSION: u32 = 1;

impl Counterexample {
    /// Creates a counterexample to `check`.
    pub fn new(check: &Check, violation: Violation, schedule: Vec<Choice>, cycle: Option<usize>) -> Counterexample {
        Counterexample {
            version: VERSION,
            lock: check.subject.name().to_owned(),
            mutant: check.mutant.map(|mutant| mutant.name.to_owned()),
            scenario: check.scenario.to_string(),
            section: check.section,
            network: check.network,
            home: check.home,
            violation,
            schedule,
            cycle,
        }
    }

    /// The preemptions of the schedule: the steps, counted from 0, before which the schedule leaves a rank that could
    /// continue.
    ///
    /// # Errors
    ///
    /// [`Error::Schedule`] when the schedule does not fit `check`, and the errors of [`Live::new`].
    pub fn preemptions(&self, check: &Check) -> Result<Vec<usize>> {
        let mut live = Live::new(check)?;
        let mut running: Option<Rank> = None;
        let mut preempted = Vec::new();
        for (i, &choice) in self.schedule.iter().enumerate() {
            if let Choice::Step(rank) = choice {
                if running.is_some_and(|before| before != rank && live.ready(before)) {
                    preempted.push(i);
                }
                running = Some(rank);
            }
            live.take(choice).map_err(|why| Error::Schedule { step: i, why })?;
        }
        Ok(preempted)
    }

    /// Returns an error unless this is a counterexample to `check`.
    ///
    /// # Errors
    ///
    /// [`Error::Schedule`] when it belongs to another lock, mutant, scenario or network, or when its cycle begins after
    /// its end.
    pub fn suits(&self, check: &Check) -> Result<()> {
        let none = |step, why: String| Err(Error::Schedule { step, why });
        let of_check = Counterexample::new(check, self.violation.clone(), self.schedule.clone(), self.cycle);
        if *self != of_check {
            let description = |one: &Counterexample| {
                let mutant = one.mutant.as_ref().map_or(String::new(), |mutant| format!(", mutant {mutant}"));
                let home = one.home.map_or(String::new(), |home| format!(", home at {home}"));
                let (lock, scenario, section, network) = (&one.lock, &one.scenario, one.section, one.network);
                format!("{lock}{mutant}, scenario {scenario}, section {section:?}, network {network}{home}")
            };
            return none(0, format!("it belongs to {}, not to {}", description(self), description(&of_check)));
        }
        match self.cycle {
            Some(first) if first >= self.schedule.len() => none(first, "its cycle begins after its end".to_owned()),
            _ => Ok(()),
        }
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("it is plain data");
        std::fs::write(path, text + "\n").map_err(|source| Error::File { path: path.into(), source })
    }

    /// Reads it from JSON.
    ///
    /// # Errors
    ///
    /// [`Error::File`], and [`Error::Format`] if it is no counterexample or has another version.
    pub fn load(path: &Path) -> Result<Counterexample> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
            .map_err(|source| Error::File { path: path.into(), source })?;
        let format = |why: String| Error::Format { path: path.into(), why };
        if bytes.len() as u64 > LONGEST {
            return Err(format(format!("it has more than {LONGEST} bytes, the limit for a counterexample")));
        }
        let text = String::from_utf8(bytes).map_err(|_| format("it is no text in UTF-8".into()))?;
        let one: Counterexample = serde_json::from_str(&text).map_err(|error| format(error.to_string()))?;
        if one.version != VERSION {
            return Err(format(format!("it has version {}, and this program reads version {VERSION}", one.version)));
        }
        Ok(one)
    }
}
