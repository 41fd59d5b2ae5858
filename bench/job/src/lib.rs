//! Runs one program as the ranks of any world: threads, processes of this machine, or ranks of a simulated one.
//!
//! A [`Job`] is the work of every rank. It is data, so that processes can receive it and results can refer to it. Its
//! code is compiled once, for any backend; a job whose loops take nanoseconds has more code for shared memory.

#![forbid(unsafe_code)]

mod error;
pub mod file;
pub mod interrupt;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rmalab_atomics::sim::profile::LocalAtomics;
use rmalab_atomics::sim::{self, Profile, Sim, Simulator, Stats};
use rmalab_atomics::{
    Backend, Collectives, Distance, Mapped, Member, Processes, Rank, RemoteAtomics, Wishes, World, bind_to_core,
};
use rmalab_report::numbers::counted;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::{Error, Result};

/// Writes a line to standard error, as `eprintln!` does, but does not panic if the reader has closed it.
#[macro_export]
macro_rules! say {
    ($($part:tt)*) => {{
        use ::std::io::Write as _;
        // A single write, since several processes may write at a time.
        let _ = ::std::io::stderr().write_all((::std::format!($($part)*) + "\n").as_bytes());
    }};
}

/// The environment variable with the task of a rank.
const TASK: &str = "RMALAB_JOB_TASK";

/// Bytes of a simulated rank's stack: only touched pages take memory.
const STACK_BYTES: usize = 256 << 10;

/// The work of every rank of a world.
pub trait Job: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The result of each rank.
    type Out: Serialize + DeserializeOwned + Send + 'static;

    /// The job's unique name.
    const NAME: &'static str;

    /// Bytes of each rank's segment in a world of `ranks`. Only touched pages take memory.
    fn segment_bytes(&self, _ranks: u32) -> u64 {
        16 << 20
    }

    /// The work of a rank.
    ///
    /// # Errors
    ///
    /// The errors of the job. Other ranks may be waiting for this one, so the world ends with this error.
    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Self::Out>;

    /// The work of a rank on shared memory. A job whose loops take nanoseconds has code for that type here, so that no
    /// call goes through a table of functions.
    ///
    /// # Errors
    ///
    /// Errors of [`run`](Self::run).
    fn run_on_memory(&self, ra: &Mapped) -> Result<Self::Out> {
        self.run(ra)
    }
}

/// The result of a rank, of a type that only the job knows.
type Returned = Box<dyn Any + Send>;

/// A job of a type that is chosen at run time, so that the worlds below are compiled once for all jobs.
trait AnyJob: Sync {
    fn to_json(&self) -> Value;
    /// Returns a copy for the ranks of a simulated machine.
    fn to_rc(&self) -> Rc<dyn AnyJob>;
    fn segment_bytes(&self, ranks: u32) -> u64;
    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Returned>;
    fn run_on_memory(&self, ra: &Mapped) -> Result<Returned>;
    /// Like [`run`](Self::run), with the result as JSON.
    fn run_to_json(&self, ra: &dyn RemoteAtomics) -> Result<Value>;
    /// Like [`run_on_memory`](Self::run_on_memory), with the result as JSON.
    fn run_on_memory_to_json(&self, ra: &Mapped) -> Result<Value>;
}

impl<J: Job> AnyJob for J {
    fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a job is JSON")
    }

    fn to_rc(&self) -> Rc<dyn AnyJob> {
        Rc::new(self.clone())
    }

    fn segment_bytes(&self, ranks: u32) -> u64 {
        Job::segment_bytes(self, ranks)
    }

    fn run(&self, ra: &dyn RemoteAtomics) -> Result<Returned> {
        Ok(Box::new(Job::run(self, ra)?))
    }

    fn run_on_memory(&self, ra: &Mapped) -> Result<Returned> {
        Ok(Box::new(Job::run_on_memory(self, ra)?))
    }

    fn run_to_json(&self, ra: &dyn RemoteAtomics) -> Result<Value> {
        Ok(serde_json::to_value(Job::run(self, ra)?).expect("a result is JSON"))
    }

    fn run_on_memory_to_json(&self, ra: &Mapped) -> Result<Value> {
        Ok(serde_json::to_value(Job::run_on_memory(self, ra)?).expect("a result is JSON"))
    }
}

/// Places of the ranks of a world.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Place {
    /// Threads of this process.
    Local,
    /// Processes of this machine, over shared memory.
    Shm,
    /// Processes that a launcher started, over any backend of processes. This process is one of the ranks. Every rank
    /// runs the same jobs and gets the results of all ranks. See [`leave`].
    Launched(Backend),
    /// Ranks of a simulated machine.
    Sim(Machine),
}

thread_local! {
    /// The world of this process if a launcher started it as a rank; its first job joins it.
    static LAUNCHED: RefCell<Option<Member>> = const { RefCell::new(None) };
}

/// A simulated machine. The profile has the values that the options leave out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Its profile: a name, or a file.
    pub profile: String,
    /// Ranks on a node.
    pub ranks_per_node: Option<u32>,
    /// Engines of an adapter.
    pub engines: Option<u32>,
    /// True if adapters carry out atomics inside a node.
    pub atomics_by_adapter: Option<bool>,
    /// True if adapters carry out bulk operations inside a node.
    #[serde(default)]
    pub bulk_by_adapter: Option<bool>,
    /// The seed of irregularities.
    pub seed: u64,
}

/// A number of ranks at a place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ranks {
    /// Their place.
    pub place: Place,
    /// Their number.
    pub ranks: u32,
}

impl Ranks {
    /// This many threads of this process.
    pub fn threads(ranks: u32) -> Ranks {
        Ranks { place: Place::Local, ranks }
    }

    /// This many processes of this machine, each bound to a separate processor if there are enough.
    pub fn processes(ranks: u32) -> Ranks {
        Ranks { place: Place::Shm, ranks }
    }

    /// This many ranks of a simulated machine, with its profile's defaults.
    pub fn simulated(profile: &str, ranks: u32) -> Ranks {
        let machine = Machine {
            profile: profile.to_owned(),
            ranks_per_node: None,
            engines: None,
            atomics_by_adapter: None,
            bulk_by_adapter: None,
            seed: 1,
        };
        Ranks { place: Place::Sim(machine), ranks }
    }

    /// Places this many ranks on each node. It applies to simulated machines only.
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Ranks {
        if let Place::Sim(machine) = &mut self.place {
            machine.ranks_per_node = Some(ranks);
        }
        self
    }

    /// Gives each adapter this many engines. It applies to simulated machines only.
    #[must_use]
    pub fn engines(mut self, engines: u32) -> Ranks {
        if let Place::Sim(machine) = &mut self.place {
            machine.engines = Some(engines);
        }
        self
    }

    /// Sets whether adapters carry out puts and gets of bytes inside a node. It applies to simulated machines only.
    #[must_use]
    pub fn bulk_by_adapter(mut self, by_adapter: bool) -> Ranks {
        if let Place::Sim(machine) = &mut self.place {
            machine.bulk_by_adapter = Some(by_adapter);
        }
        self
    }

    /// Sets whether adapters carry out atomics inside a node. It applies to simulated machines only.
    #[must_use]
    pub fn atomics_by_adapter(mut self, by_adapter: bool) -> Ranks {
        if let Place::Sim(machine) = &mut self.place {
            machine.atomics_by_adapter = Some(by_adapter);
        }
        self
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |thing| counted(self.ranks.into(), thing);
        let processes = || if self.ranks == 1 { "1 process".to_owned() } else { format!("{} processes", self.ranks) };
        match &self.place {
            Place::Local => f.write_str(&counted("thread")),
            Place::Shm => f.write_str(&processes()),
            Place::Launched(backend) => write!(f, "{} over {backend}", processes()),
            Place::Sim(machine) => write!(f, "{} of {}, simulated", counted("rank"), machine.profile),
        }
    }
}

/// The results of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ran<T> {
    /// The ranks' results, in order.
    pub ranks: Vec<T>,
    /// The simulator's counters.
    pub simulated: Option<Counted>,
}

/// Counters of a simulator, from the start of the world to its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// Processed events.
    pub events: u64,
    /// Virtual time, in nanoseconds.
    pub end_ns: f64,
    /// Operations of all ranks by the distance of their targets: local rank, same node, other nodes.
    pub operations: [u64; 3],
    /// The share of the time in which the engines of the busiest adapter were busy.
    pub adapter_busy: f64,
}

impl Counted {
    fn of(stats: &Stats) -> Counted {
        Counted {
            events: stats.events,
            end_ns: stats.end.as_nanoseconds(),
            operations: Distance::ALL.map(|distance| stats.operations.at(distance)),
            adapter_busy: stats.busiest.map_or(0.0, |busiest| busiest.utilization),
        }
    }
}

/// The task of a process that is a rank.
#[derive(Serialize, Deserialize)]
struct Task {
    job: Value,
    ranks: u32,
}

/// Runs a job on all ranks of a world, until it ends or `stop` is set.
///
/// # Errors
///
/// [`Error::Interrupted`] if it was stopped, the error of the first rank whose job failed, and errors of the world.
pub fn run<J: Job>(job: &J, world: &Ranks, stop: &AtomicBool) -> Result<Ran<J::Out>> {
    match run_any(job, J::NAME, world, stop)? {
        Results::Returned(all, simulated) => Ok(Ran { ranks: typed(all), simulated }),
        Results::Json(all) => from_json(all),
    }
}

/// The results of all ranks, and what the simulator counted.
enum Results {
    Returned(Vec<Returned>, Option<Counted>),
    Json(Vec<Value>),
}

fn run_any(job: &dyn AnyJob, name: &str, world: &Ranks, stop: &AtomicBool) -> Result<Results> {
    let ranks = world.ranks;
    let ran = match &world.place {
        Place::Local => threads(job, ranks).map(|all| Results::Returned(all, None)),
        Place::Shm => {
            let task = Task { job: job.to_json(), ranks };
            processes(job, ranks, &serde_json::json!({ "name": name, "task": task })).map(Results::Json)
        }
        Place::Launched(backend) => launched(job, *backend, ranks).map(Results::Json),
        Place::Sim(machine) => {
            simulated(job.to_rc(), machine, ranks, stop).map(|(all, counted)| Results::Returned(all, Some(counted)))
        }
    };
    // After an interrupt, failed ranks are no error of the world.
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { ran }
}

/// Converts the results of all ranks to the type of the job.
fn typed<T: 'static>(all: Vec<Returned>) -> Vec<T> {
    all.into_iter().map(|one| *one.downcast().expect("each rank has run this job")).collect()
}

fn from_json<T: DeserializeOwned>(all: Vec<Value>) -> Result<Ran<T>> {
    let typed = |(rank, one)| {
        serde_json::from_value(one).map_err(|error| Error::Ranks(format!("the result of {}: {error}", Rank(rank))))
    };
    Ok(Ran { ranks: (0..).zip(all).map(typed).collect::<Result<_>>()?, simulated: None })
}

/// Binds a rank to a processor, if there is one for every rank.
fn bind(ra: &Mapped) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if ra.size() as usize <= processors {
        bind_to_core(ra.rank())?;
    }
    Ok(())
}

/// Runs a job on threads. A rank whose job fails unwinds, so that the other ranks do not wait for it.
fn threads(job: &dyn AnyJob, ranks: u32) -> Result<Vec<Returned>> {
    let first = Mutex::new(None);
    let body = |ra: &Mapped| {
        bind(ra).and_then(|()| job.run_on_memory(ra)).unwrap_or_else(|error| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
            drop(first);
            resume_unwind(Box::new(()))
        })
    };
    let world = World::threads(ranks).segment_bytes(job.segment_bytes(ranks));
    let done = catch_unwind(AssertUnwindSafe(|| world.run(body)));
    match (done, first.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        (Ok(done), _) => Ok(done?),
        (Err(panic), Some(error)) if panic.is::<()>() => Err(error),
        (Err(panic), _) => resume_unwind(panic),
    }
}

fn processes(job: &dyn AnyJob, ranks: u32, task: &Value) -> Result<Vec<Value>> {
    let program = std::env::current_exe()
        .map_err(|error| Error::Ranks(format!("cannot find this program's file, which its ranks run: {error}")))?;
    let world = World::processes(ranks).segment_bytes(job.segment_bytes(ranks));
    be_or_start(world.command(program, [] as [&str; 0]).env(TASK, task.to_string()), job)
}

/// Runs as a rank of a world of processes, or starts them.
fn be_or_start(world: Processes, job: &dyn AnyJob) -> Result<Vec<Value>> {
    Ok(world.try_run(|ra| bind(ra).and_then(|()| job.run_on_memory_to_json(ra)))?)
}

/// The task of this process, if it was started as a rank of a job: the job's name, and the rest.
///
/// # Errors
///
/// [`Error::Ranks`] when the task cannot be read.
pub fn told() -> Result<Option<(String, Value)>> {
    #[derive(Deserialize)]
    struct Told {
        name: String,
        task: Value,
    }
    let Some(text) = std::env::var_os(TASK) else { return Ok(None) };
    let told: Told = serde_json::from_slice(text.as_encoded_bytes()).map_err(|error| nonsense(&error))?;
    Ok(Some((told.name, told.task)))
}

fn nonsense(error: &serde_json::Error) -> Error {
    Error::Ranks(format!("{TASK}: {error}; only the program itself sets it, for its ranks"))
}

/// Runs as a rank of that job, and ends the process.
///
/// # Errors
///
/// [`Error::Ranks`] when the task cannot be read, and errors of the world.
pub fn rank<J: Job>(task: Value) -> Result<()> {
    let Task { job, ranks } = serde_json::from_value(task).map_err(|error| nonsense(&error))?;
    let job: J = serde_json::from_value(job).map_err(|error| nonsense(&error))?;
    be_rank(&job, ranks)
}

fn be_rank(job: &dyn AnyJob, ranks: u32) -> Result<()> {
    be_or_start(World::processes(ranks).segment_bytes(job.segment_bytes(ranks)), job).map(drop)
}

fn launched(job: &dyn AnyJob, backend: Backend, ranks: u32) -> Result<Vec<Value>> {
    LAUNCHED.with_borrow_mut(|member| {
        let member = match member {
            Some(member) => member,
            None => {
                let mut wishes = Wishes::default();
                wishes.segment_bytes = Some(job.segment_bytes(ranks));
                member.insert(backend.join(wishes)?)
            }
        };
        let ra = member.atomics();
        let own = job.run_to_json(ra)?;
        from_all(ra, &own)
    })
}

/// The results of all ranks, in order; every rank gets them.
fn from_all(ra: &dyn RemoteAtomics, own: &Value) -> Result<Vec<Value>> {
    let own = serde_json::to_vec(own).expect("a value is JSON");
    let collectives = Collectives::new(ra)?;
    let all = (0..ra.size()).map(Rank).map(|root| {
        let mut length = [own.len() as u64];
        collectives.broadcast(root, &mut length)?;
        let mut bytes = if root == ra.rank() { own.clone() } else { vec![0; length[0] as usize] };
        collectives.broadcast_bytes(root, &mut bytes)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Ranks(format!("the result of {root}: {error}")))
    });
    all.collect()
}

/// Leaves the world of the jobs in [`Place::Launched`], if there was one, and returns this process's rank. If this
/// rank's job has failed, it leaves with an error, so that the other ranks do not wait for it.
///
/// Call it before the process ends.
pub fn leave(failed: bool) -> Option<Rank> {
    let member = LAUNCHED.take()?;
    let rank = member.atomics().rank();
    if failed {
        member.fail();
    }
    Some(rank)
}

fn simulated(
    job: Rc<dyn AnyJob>,
    machine: &Machine,
    ranks: u32,
    stop: &AtomicBool,
) -> Result<(Vec<Returned>, Counted)> {
    let profile = Profile::find(&machine.profile)?;
    let by = |by_adapter| if by_adapter { LocalAtomics::Nic } else { LocalAtomics::Processor };
    let options = sim::Options {
        ranks_per_node: machine.ranks_per_node,
        engines: machine.engines,
        local_atomics: machine.atomics_by_adapter.map(by),
        local_bulk: machine.bulk_by_adapter.map(by),
        seed: machine.seed,
        segment_bytes: job.segment_bytes(ranks),
        stack_bytes: STACK_BYTES,
        ..sim::Options::new(ranks)
    };
    // Other ranks may wait for ever for a failed rank, so its error is the cause.
    let first: Rc<RefCell<Option<Error>>> = Rc::default();
    let body = {
        let first = Rc::clone(&first);
        move |ra: &Sim<'_>| {
            job.run(ra)
                .map_err(|error| {
                    first.borrow_mut().get_or_insert(error);
                })
                .ok()
        }
    };
    let done = Simulator::new(&profile, &options)?.run_with(body, &mut |_| !stop.load(Ordering::Relaxed));
    if let Some(error) = first.borrow_mut().take() {
        return Err(error);
    }
    let done = done?;
    let ranks = done.results.into_iter().map(|result| result.expect("no rank has failed")).collect();
    Ok((ranks, Counted::of(&done.stats)))
}

/// Nanoseconds between two readings of a rank's clock, [`RemoteAtomics::now`].
pub fn elapsed(ra: &(impl RemoteAtomics + ?Sized), since: rmalab_atomics::Time) -> f64 {
    ra.now().since(since).as_nanos() as f64
}
