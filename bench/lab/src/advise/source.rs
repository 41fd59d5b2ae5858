//! The work of the ranks: a workload, or a trace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;
use rmalab_atomics::sim::network;
use rmalab_atomics::sim::profile::Profile;
use rmalab_atomics::{Rank, SEGMENT_BYTES, Topology};
use rmalab_locks::PolicyKind;
use rmalab_windows::replay::{Shape, Step};
use rmalab_windows::trace::{Ending, RankTrace, Trace};
use rmalab_windows::{Assert, Config, LockKind, Transport};

use crate::workload::{Acquire, Objective, Workload};
use rmalab_job::{Error, Result};
use rmalab_report::numbers::counted;

/// Default number of acquisitions of all ranks for one candidate and one seed.
pub const ACQUISITIONS: u64 = 50_000;

/// The largest number of replayed steps of a trace: memory has to hold them, some 24 bytes each.
const STEPS: u64 = 100_000_000;

/// The largest change of a trace's times by a seed.
const STRETCH: f64 = 0.1;

/// The work of the ranks.
#[derive(Clone, Debug)]
pub enum Source {
    /// A description.
    Workload(Workload),
    /// The trace of a program.
    Trace(Recorded),
}

/// A trace in memory.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its folder.
    pub path: PathBuf,
    /// The placement of the ranks.
    pub topology: Topology,
    /// Remarks on its use, a line each.
    pub remarks: Vec<String>,
    /// The number of files that end early.
    pub cut: usize,
    /// The nanoseconds from the first call to the last, of all ranks together; `None` if a file ends early.
    pub elapsed: Option<u64>,
    /// True if the window was two-sided.
    pub is_two_sided: bool,
    /// The policy of the recorded run.
    pub policy: Option<String>,
    /// The mode of the window, if it was one of an MPI: such a program chooses a policy by a variable or an info key.
    pub mpi: Option<String>,
    shape: Shape,
    config: Config,
    steps: Vec<Vec<Step>>,
}

impl Source {
    /// Reads a description, and replaces its numbers of ranks and acquisitions if given.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] with file, line, key and the error.
    pub fn workload(path: &Path, ranks: Option<u32>, acquisitions: Option<u64>) -> Result<Source> {
        let mut workload = Workload::read(path).map_err(|error| Error::usage(error.to_string()))?;
        if let Some(ranks) = ranks {
            workload = workload.with_ranks(ranks);
        }
        let most = (ACQUISITIONS / u64::from(workload.ranks)).max(20);
        workload.acquisitions = acquisitions.unwrap_or(workload.acquisitions.min(most));
        Ok(Source::Workload(workload))
    }

    /// Reads the trace in a folder.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when it cannot be read, is damaged, ends ahead of its first lock, or is too long.
    pub fn trace(path: &Path) -> Result<Source> {
        let usage = |error: &dyn std::fmt::Display| Error::usage(error.to_string());
        let trace = Trace::open(path).map_err(|error| usage(&error))?;
        if trace.events() > STEPS {
            return Err(Error::usage(format!(
                "{}: {} events, but advice uses at most {STEPS}; record less of the program",
                path.display(),
                trace.events()
            )));
        }
        let steps = (0..trace.ranks())
            .map(|rank| trace.steps(Rank(rank)).collect::<Result<Vec<Step>, _>>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| usage(&error))?;
        let cuts: Vec<String> = trace.parts().iter().filter_map(RankTrace::cut).collect();
        if let [first, others @ ..] = cuts.as_slice()
            && !steps.iter().flatten().any(is_lock)
        {
            let others = match others.len() {
                0 => String::new(),
                others => format!(" ({} of {} files end early)", others + 1, trace.ranks()),
            };
            return Err(Error::usage(format!(
                "{first}{others}. No lock is among these calls: record the program again, and let it end normally"
            )));
        }
        let elapsed = trace.parts().iter().map(|part| match part.ending() {
            Ending::Complete { elapsed } => Some(elapsed.as_nanos() as u64),
            Ending::Early { .. } => None,
        });
        let elapsed = elapsed.sum();
        let mut remarks = trace.remarks();
        let (mut config, _) = Config::from_info(trace.info());
        let is_two_sided = std::mem::take(&mut config.transport) != Transport::OneSided;
        if is_two_sided {
            remarks.push("the window was two-sided, where locks have no policy; it is replayed one-sided".to_owned());
        }
        Ok(Source::Trace(Recorded {
            path: path.to_owned(),
            topology: trace.topology().clone(),
            remarks,
            cut: cuts.len(),
            elapsed,
            is_two_sided,
            // The backends here reach only memory of their segments, and no lock policy depends on the place of the
            // data.
            shape: trace.shape().clone().in_segments(),
            config,
            policy: trace.info().get("rmalab_lock_policy").map(str::to_owned),
            mpi: trace.info().get("rmalab_mode").map(str::to_owned),
            steps,
        }))
    }

    /// One line of description.
    pub fn describe(&self) -> String {
        let nodes = self.ranks().div_ceil(self.ranks_per_node());
        let of = format!("{}, {}", counted(self.ranks().into(), "rank"), counted(nodes.into(), "node"));
        match self {
            Source::Workload(workload) => {
                let what = workload.trace().map_or("acquisitions", |_| "transactions");
                format!("workload {}: {of}, {} {what} each", workload.name, workload.acquisitions)
            }
            Source::Trace(trace) => {
                let steps: usize = trace.steps.iter().map(Vec::len).sum();
                let by = match (&trace.policy, &trace.mpi) {
                    (Some(policy), _) => format!(", recorded with {policy}"),
                    (None, Some(_)) => ", recorded with the locks of the MPI".to_owned(),
                    (None, None) => String::new(),
                };
                format!("trace {}: {of}, {steps} steps{by}", trace.path.display())
            }
        }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        match self {
            Source::Workload(workload) => workload.ranks,
            Source::Trace(trace) => trace.topology.size(),
        }
    }

    /// The number of ranks on a node.
    pub fn ranks_per_node(&self) -> u32 {
        match self {
            Source::Workload(workload) => workload.ranks_per_node,
            Source::Trace(trace) => trace.topology.ranks_per_node().max(1),
        }
    }

    /// The present policy of the window: the recorded one, or the default of windows.
    pub(super) fn policy(&self) -> PolicyKind {
        self.config().policy
    }

    /// Returns whether this is the trace of a program on windows of an MPI.
    pub(super) fn is_mpi(&self) -> bool {
        matches!(self, Source::Trace(Recorded { mpi: Some(_), .. }))
    }

    /// Returns whether it was recorded from a program.
    pub(super) fn is_recorded(&self) -> bool {
        matches!(self, Source::Trace(_))
    }

    /// Returns whether the recorded locks were an MPI's, and not a policy's.
    pub(super) fn has_other_locks(&self) -> bool {
        matches!(self, Source::Trace(Recorded { mpi: Some(_), policy: None, .. }))
    }

    /// Returns whether some acquisition is shared: several ranks can hold the lock at a time.
    pub(super) fn shares(&self) -> bool {
        match self {
            Source::Workload(workload) => match workload.trace() {
                Some(trace) => trace.exclusive() < 1.0,
                None => workload.classes.iter().any(|class| class.share > 0.0 && class.lock != Acquire::Exclusive),
            },
            Source::Trace(trace) => trace.steps.iter().flatten().any(|step| {
                matches!(
                    step,
                    Step::LockAll { assert: Assert::None }
                        | Step::Lock { kind: LockKind::Shared, assert: Assert::None, .. }
                )
            }),
        }
    }

    /// The number of acquisitions of all ranks together.
    pub fn acquisitions(&self) -> u64 {
        match self {
            Source::Workload(workload) => workload.acquisitions * u64::from(workload.ranks),
            Source::Trace(trace) => trace.steps.iter().flatten().filter(|step| is_lock(step)).count() as u64,
        }
    }

    /// The default objective.
    pub fn objective(&self) -> Objective {
        match self {
            Source::Workload(workload) => workload.objective,
            Source::Trace(_) => Objective::Throughput,
        }
    }

    /// The machine: the given one, or a node without network if that is enough.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when a machine is needed but not given, is no profile, or is one node but the ranks are on several.
    pub fn profile(&self, name: Option<&str>) -> Result<Profile> {
        let one = self.ranks() <= self.ranks_per_node();
        let several = || format!("{} ranks, {} on each node, need a network", self.ranks(), self.ranks_per_node());
        let names = || Profile::names().collect::<Vec<_>>().join(", ");
        let name = match name {
            Some(name) => name,
            None if one => "shm",
            None => {
                return Err(Error::usage(format!(
                    "{}: name its profile by --profile; there are {}, or a file's path",
                    several(),
                    names()
                )));
            }
        };
        let profile = Profile::find(name).map_err(|error| Error::usage(error.to_string()))?;
        if matches!(profile.shape, network::Shape::OneNode) && !one {
            return Err(Error::usage(format!(
                "{}, and profile {} has none; there are {}, or a file's path",
                several(),
                profile.name,
                names()
            )));
        }
        Ok(profile)
    }

    /// The memory of the window.
    pub(super) fn shape(&self) -> Shape {
        match self {
            Source::Workload(workload) => Shape::allocated(workload.window_bytes()),
            Source::Trace(trace) => trace.shape.clone(),
        }
    }

    /// Bytes of a rank's segment with that many windows.
    pub(super) fn segment_bytes(&self, windows: u64) -> u64 {
        self.shape().bytes().saturating_mul(windows).saturating_add(SEGMENT_BYTES)
    }

    /// The strategies and hints of the window, without its lock policy.
    pub(super) fn config(&self) -> Config {
        match self {
            Source::Workload(_) => Config::default(),
            Source::Trace(trace) => trace.config,
        }
    }

    /// The steps of a rank under a seed. A seed makes each time between calls of a trace up to a tenth shorter or
    /// longer. The reason is that the recorded run is one of many, and its times are not exact.
    pub(super) fn steps(&self, seed: u64, rank: Rank) -> Box<dyn Iterator<Item = Step> + '_> {
        match self {
            Source::Workload(workload) => Box::new(workload.steps(seed, rank)),
            Source::Trace(trace) => {
                let mut random =
                    SplitMix64::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(rank.0));
                let steps = trace.steps.get(rank.index()).map_or(&[][..], Vec::as_slice);
                Box::new(steps.iter().map(move |step| match *step {
                    Step::Compute(ns) => {
                        Step::Compute((ns as f64 * random.random_range(1.0 - STRETCH..=1.0 + STRETCH)).round() as u64)
                    }
                    ref step => step.clone(),
                }))
            }
        }
    }
}

impl Recorded {
    /// The steps of each rank.
    pub(super) fn steps(&self) -> &[Vec<Step>] {
        &self.steps
    }
}

fn is_lock(step: &Step) -> bool {
    matches!(step, Step::Lock { assert: Assert::None, .. } | Step::LockAll { assert: Assert::None })
}

/// The computing time of a step.
pub(super) fn computed(step: &Step) -> Duration {
    match *step {
        Step::Compute(ns) => Duration::from_nanos(ns),
        _ => Duration::ZERO,
    }
}
