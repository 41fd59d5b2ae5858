//! Reproductions of papers' experiments: the same protocols on our stack, the papers' figures beside ours.
//!
//! An [`Experiment`] is an entry of the list [`all`]. It runs its jobs through a [`Context`], which keeps their results
//! in a [journal](Journal), so that a stopped run can resume.

mod context;
mod journal;

// The experiments, one file each.
mod alock_near;
mod bravo_readers;
pub(crate) mod dart_distance;
mod dart_gups;
pub(crate) mod dart_latency;
mod dart_stencil;
mod declock_home;
mod document;
mod dslr_retries;
pub(crate) mod fompi_atomics;
mod fompi_dsde;
pub(crate) mod fompi_fence;
mod fompi_fft;
mod fompi_hashtable;
pub(crate) mod fompi_latency;
pub(crate) mod fompi_locks;
mod fompi_milc;
pub(crate) mod fompi_pscw;
pub(crate) mod fompi_windows;
mod fx100_engines;
mod fx100_future;
pub(crate) mod fx100_lockall;
mod fx100_ppn;
pub(crate) mod fx10_software;
mod ib_bandwidth;
mod ib_bidir;
mod ib_latency;
mod ib_origins;
mod ib_overlap;
mod ib_skew;
mod ib_sync;
pub(crate) mod infiniband;
mod mpich2_ghost;
pub(crate) mod mpich2_ops;
mod over_table;
mod reciprocating_one;
mod send_receive;
mod sherman_skew;
mod shiftlock_table;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use context::{Context, Progress};
pub use journal::Journal;

use rmalab_job::{Error, Result};
use rmalab_report::finding::Finding;
use rmalab_report::{Machine, Run, names};

/// The extent of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Sizes and repetitions with which all experiments take 15 minutes on two processors.
    #[default]
    Quick,
    /// The papers' sizes.
    Long,
}

impl Extent {
    /// One of two values: the quick one, or the long one.
    pub fn pick<T>(self, quick: T, long: T) -> T {
        match self {
            Extent::Quick => quick,
            Extent::Long => long,
        }
    }
}

/// An experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub id: &'static str,
    /// The system and the publication, with the figure.
    pub source: &'static str,
    /// Its subject, in a few words.
    pub title: &'static str,
    /// The paper's protocol, and its sizes and machine here.
    pub protocol: &'static str,
    /// The paper's finding, in a sentence.
    pub found: &'static str,
    /// A paragraph that explains the subject to a newcomer.
    pub lesson: &'static str,
    /// Duration in seconds on two processors, quick and long.
    pub seconds: (u32, u32),
    /// Runs it.
    pub run: fn(&Context<'_>) -> Result<Finding>,
}

impl Experiment {
    /// The approximate duration.
    pub fn estimate(&self, extent: Extent) -> Duration {
        Duration::from_secs(u64::from(extent.pick(self.seconds.0, self.seconds.1)))
    }
}

/// All experiments, in the order of the papers.
pub fn all() -> Vec<&'static Experiment> {
    vec![
        &mpich2_ghost::EXPERIMENT,
        &mpich2_ops::EXPERIMENT,
        &ib_latency::EXPERIMENT,
        &ib_bidir::EXPERIMENT,
        &ib_bandwidth::EXPERIMENT,
        &ib_sync::EXPERIMENT,
        &ib_overlap::EXPERIMENT,
        &ib_skew::EXPERIMENT,
        &ib_origins::EXPERIMENT,
        &dart_latency::EXPERIMENT,
        &dart_distance::EXPERIMENT,
        &dart_gups::EXPERIMENT,
        &dart_stencil::EXPERIMENT,
        &fx100_lockall::EXPERIMENT,
        &fx100_ppn::EXPERIMENT,
        &fx100_engines::EXPERIMENT,
        &fx10_software::EXPERIMENT,
        &fx100_future::EXPERIMENT,
        &fompi_latency::EXPERIMENT,
        &fompi_atomics::EXPERIMENT,
        &fompi_fence::EXPERIMENT,
        &fompi_pscw::EXPERIMENT,
        &fompi_locks::EXPERIMENT,
        &fompi_windows::EXPERIMENT,
        &fompi_hashtable::EXPERIMENT,
        &fompi_dsde::EXPERIMENT,
        &fompi_fft::EXPERIMENT,
        &fompi_milc::EXPERIMENT,
        &dslr_retries::EXPERIMENT,
        &bravo_readers::EXPERIMENT,
        &sherman_skew::EXPERIMENT,
        &alock_near::EXPERIMENT,
        &reciprocating_one::EXPERIMENT,
        &shiftlock_table::EXPERIMENT,
        &declock_home::EXPERIMENT,
    ]
}

/// The experiments with those names, in the order of the papers.
///
/// # Errors
///
/// [`Error::Usage`] for an unknown name.
pub fn named(ids: &[String]) -> Result<Vec<&'static Experiment>> {
    let all = all();
    for id in ids {
        if !all.iter().any(|experiment| experiment.id == id) {
            return Err(Error::usage(names::unknown("experiment", id, all.iter().map(|experiment| experiment.id))));
        }
    }
    Ok(all.into_iter().filter(|experiment| ids.iter().any(|id| id == experiment.id)).collect())
}

/// The result of one experiment.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Its finding, or its error.
    pub finding: std::result::Result<Finding, String>,
    /// Its duration in seconds, without results from the journal.
    pub seconds: f64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command of the run, and whether all experiments ended.
    pub run: Run,
    /// Quick or long.
    pub extent: Extent,
    /// The machine.
    pub machine: Machine,
    /// The experiments, in order.
    pub experiments: Vec<Reproduced>,
}

/// Runs experiments one after the other, even if one fails. After an interrupt, returns the findings so
/// far.
///
/// # Errors
///
/// Errors of the journal.
pub fn run(
    experiments: &[&'static Experiment],
    context: &Context<'_>,
    mut done: impl FnMut(&Reproduced),
) -> Result<Outcome> {
    let mut run = Run::begin();
    let machine = Machine::describe();
    let mut reproduced = Vec::new();
    for experiment in experiments {
        let begin = Instant::now();
        context.enter(experiment);
        let finding = match (experiment.run)(context) {
            Err(Error::Interrupted) => {
                run.complete = false;
                break;
            }
            Err(error @ (Error::File { .. } | Error::Usage(_))) => return Err(error),
            Err(error) => Err(error.to_string()),
            Ok(finding) => Ok(finding),
        };
        let one = Reproduced { experiment, finding, seconds: begin.elapsed().as_secs_f64() };
        done(&one);
        reproduced.push(one);
    }
    Ok(Outcome { run, extent: context.extent(), machine, experiments: reproduced })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_texts_are_complete() {
        let all = all();
        for experiment in &all {
            assert_eq!(all.iter().filter(|other| other.id == experiment.id).count(), 1, "{}", experiment.id);
            let texts = [experiment.source, experiment.title, experiment.protocol, experiment.found, experiment.lesson];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", experiment.id);
            assert!(experiment.seconds.0 > 0 && experiment.seconds.1 >= experiment.seconds.0, "{}", experiment.id);
        }
        let seconds: u32 = all.iter().map(|experiment| experiment.seconds.0).sum();
        assert!(seconds <= 15 * 60, "all of them take {seconds} s by their own estimates");
    }
}
