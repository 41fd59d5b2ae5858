//! The identity of this process: its rank and its world, from the environment.
//!
//! Nothing in the environment is trusted: every value is parsed and compared with the others, and an error names the
//! variable and its value.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::time::Duration;

use crate::join::bootstrap::Invitation;
use crate::{Error, Rank, Result, Topology};

/// The rank's number: the first of the variables with which the launcher identifies a rank.
pub(crate) const RANK: &str = "RMALAB_RANK";
/// The number of ranks.
pub(crate) const SIZE: &str = "RMALAB_SIZE";
/// The descriptor of the shared memory.
pub(crate) const SHM_FD: &str = "RMALAB_SHM_FD";
/// The meeting point of the ranks, and the job's secret: an [`Invitation`].
pub(crate) const HUB: &str = "RMALAB_HUB";
/// Bytes of a rank's segment in the shared memory.
pub(crate) const SHM_SEGMENT_BYTES: &str = "RMALAB_SHM_SEGMENT_BYTES";
/// The requested bytes of a rank's segment.
pub(crate) const SEGMENT_BYTES: &str = "RMALAB_SEGMENT_BYTES";
/// The number of ranks for each node and of nodes for each rack, with a comma between them.
pub(crate) const TOPOLOGY: &str = "RMALAB_TOPOLOGY";
/// The descriptor of the pipe that takes the rank's result.
pub(crate) const RESULT_FD: &str = "RMALAB_RESULT_FD";
/// The number of the parent's call of `Processes::run` that started this rank, counted from 1.
pub(crate) const CALL: &str = "RMALAB_CALL";
/// Seconds that the ranks wait for each other at the start.
pub(crate) const TIMEOUT: &str = "RMALAB_TIMEOUT";
/// Seconds of silence after which a host is lost.
pub(crate) const SILENCE: &str = "RMALAB_SILENCE";
/// A name with which the ranks of one job find each other, instead of the name from their common parent.
pub(crate) const JOB: &str = "RMALAB_JOB";

/// The name of a rank's host in place of the real name, for tests of several hosts on one.
pub(crate) const HOST: &str = "RMALAB_HOST";
/// The interface on which rank 0 opens the hub, where the launcher has none.
pub(crate) const INTERFACE: &str = "RMALAB_INTERFACE";

/// Variables that are for one rank or one host, and so are not passed on to other hosts.
pub(crate) const OF_ONE_RANK: [&str; 12] =
    [RANK, SIZE, SHM_FD, SHM_SEGMENT_BYTES, HUB, SEGMENT_BYTES, TOPOLOGY, RESULT_FD, CALL, JOB, HOST, INTERFACE];

/// The time for which ranks wait for each other at the start, unless `RMALAB_TIMEOUT` sets another.
const PATIENCE: Duration = Duration::from_secs(30);

/// The environment's data about this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Identity {
    /// No launcher has started it.
    Alone,
    /// The launcher of this crate has started it.
    Launched {
        rank: Rank,
        size: u32,
        /// The descriptor of the shared memory, and the bytes of a segment there. `None` where its ranks do not share a
        /// host.
        shm: Option<(RawFd, u64)>,
        /// `None` if the launcher has not opened a hub.
        hub: Option<Invitation>,
        topology: Option<Topology>,
        call: Option<u32>,
    },
    /// Another launcher has started it.
    Foreign {
        rank: Rank,
        size: u32,
        /// The variable that gave the rank.
        variable: &'static str,
        hosts: Hosts,
        /// The value that distinguishes this job from others of the same parent, if there is one.
        job: String,
    },
}

/// The number of hosts of the ranks, as far as a launcher's variables report it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Hosts {
    Unknown,
    /// All ranks are on this host.
    One,
    /// They are on several hosts. The text names the variables.
    Several(Box<str>),
}

/// The variables with which one family of launchers identifies a rank.
struct Dialect {
    rank: &'static str,
    /// Variables of the number of ranks; the first one that is set counts.
    size: &'static [&'static str],
    /// The variable of the number of ranks on this host.
    local: &'static str,
    /// A variable that must also be set for the others to count.
    only_with: Option<&'static str>,
    /// Variables that together name the job.
    job: &'static [&'static str],
}

/// In the order in which they are looked for: an inner launcher before the outer launcher that started it.
const DIALECTS: [Dialect; 4] = [
    // Open MPI's mpirun, and PRRTE's prun.
    Dialect {
        rank: "OMPI_COMM_WORLD_RANK",
        size: &["OMPI_COMM_WORLD_SIZE"],
        local: "OMPI_COMM_WORLD_LOCAL_SIZE",
        only_with: None,
        job: &["PMIX_NAMESPACE"],
    },
    // Hydra (MPICH, MVAPICH, Intel MPI), and srun --mpi=pmi2.
    Dialect { rank: "PMI_RANK", size: &["PMI_SIZE"], local: "MPI_LOCALNRANKS", only_with: None, job: &["PMI_JOBID"] },
    // PMIx itself does not put the number of ranks into the environment: srun --mpi=pmix does with Slurm's variables, and
    // under other launchers the user does.
    Dialect {
        rank: "PMIX_RANK",
        size: &["OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", SIZE],
        local: "OMPI_COMM_WORLD_LOCAL_SIZE",
        only_with: None,
        job: &["PMIX_NAMESPACE"],
    },
    // A batch script has SLURM_PROCID as well, but is not a step, and so not a rank.
    Dialect {
        rank: "SLURM_PROCID",
        size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local: "",
        only_with: Some("SLURM_STEP_ID"),
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
];

/// Environment variables, the process's own or a test's.
pub(crate) struct Environment<'a>(pub(crate) &'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'static> {
    /// The variables of this process.
    pub(crate) fn own() -> Environment<'static> {
        Environment(&|name| std::env::var_os(name))
    }
}

impl Environment<'_> {
    /// Returns the value of `name` as text. Bytes that are not text cannot be a number, so the parser refuses them.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value: OsString| OsStr::to_string_lossy(&value).into_owned())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Error::world(format!("{name}={text:?} is not a number that fits here"))),
        }
    }

    fn required<T: std::str::FromStr>(&self, name: &str, beside: &str) -> Result<T> {
        self.number(name)?.ok_or_else(|| Error::world(format!("{beside} is set, but {name} is not")))
    }

    /// Returns the identity of this process.
    pub(crate) fn identity(&self) -> Result<Identity> {
        if let Some(rank) = self.number(RANK)? {
            let size = self.required(SIZE, RANK)?;
            check_rank(RANK, rank, SIZE, size)?;
            let (shm, hub) = (self.number::<RawFd>(SHM_FD)?, self.text(HUB));
            if let Some(shm) = shm.filter(|shm| *shm < 0) {
                return Err(Error::world(format!("{SHM_FD}={shm} is not a descriptor")));
            }
            let shm = shm.map(|shm| Ok((shm, self.required(SHM_SEGMENT_BYTES, SHM_FD)?))).transpose()?;
            if shm.is_none() && hub.is_none() {
                return Err(Error::world(format!("{RANK} is set, but neither {SHM_FD} nor {HUB} is")));
            }
            let hub = hub.map(|hub| hub.parse().map_err(|_| Error::world(format!("{HUB} is not ADDRESS:PORT/SECRET"))));
            return Ok(Identity::Launched {
                rank: Rank(rank),
                size,
                shm,
                hub: hub.transpose()?,
                topology: self.topology(size)?,
                call: self.number(CALL)?,
            });
        }
        let Some((dialect, rank)) = self.dialect()? else { return Ok(Identity::Alone) };
        let variable = dialect.size.iter().copied().find(|name| (self.0)(name).is_some());
        let Some(variable) = variable else {
            let names = dialect.size.join(" or ");
            return Err(Error::world(format!(
                "{} is set, but no variable has the number of ranks ({names})",
                dialect.rank
            )));
        };
        let size: u32 = self.required(variable, dialect.rank)?;
        check_rank(dialect.rank, rank, variable, size)?;
        let hosts = self.hosts(dialect, size, variable)?;
        let job = dialect.job.iter().filter_map(|name| self.text(name)).collect::<Vec<_>>().join(".");
        Ok(Identity::Foreign { rank: Rank(rank), size, variable: dialect.rank, hosts, job })
    }

    /// Returns the other launcher that has started this process, and its rank.
    fn dialect(&self) -> Result<Option<(&'static Dialect, u32)>> {
        for dialect in &DIALECTS {
            if dialect.only_with.is_some_and(|name| (self.0)(name).is_none()) {
                continue;
            }
            if let Some(rank) = self.number(dialect.rank)? {
                return Ok(Some((dialect, rank)));
            }
        }
        Ok(None)
    }

    /// Returns the variable with which another launcher has set this process's rank.
    pub(crate) fn foreign(&self) -> Result<Option<&'static str>> {
        Ok(self.dialect()?.map(|(dialect, _)| dialect.rank))
    }

    fn hosts(&self, dialect: &Dialect, size: u32, variable: &str) -> Result<Hosts> {
        if let Some(local) = self.number::<u32>(dialect.local)? {
            return Ok(if local == size {
                Hosts::One
            } else {
                Hosts::Several(
                    format!(
                        "{local} of the {size} ranks are on this host ({}={local}, {variable}={size})",
                        dialect.local
                    )
                    .into(),
                )
            });
        }
        for name in ["SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"] {
            match self.number::<u32>(name)? {
                None => continue,
                Some(1) => return Ok(Hosts::One),
                Some(nodes) => {
                    let words = format!("the {size} ranks are on {nodes} hosts ({name}={nodes})");
                    return Ok(Hosts::Several(words.into()));
                }
            }
        }
        Ok(Hosts::Unknown)
    }

    /// Returns the value of `RMALAB_SEGMENT_BYTES`.
    pub(crate) fn segment_bytes(&self) -> Result<Option<u64>> {
        self.number(SEGMENT_BYTES)
    }

    /// Returns the value of `RMALAB_TOPOLOGY`.
    pub(crate) fn topology(&self, size: u32) -> Result<Option<Topology>> {
        let Some(text) = self.text(TOPOLOGY) else { return Ok(None) };
        let parts = text.split_once(',').and_then(|(ranks, nodes)| Some((ranks.parse().ok()?, nodes.parse().ok()?)));
        let Some((ranks, nodes)) = parts else {
            return Err(Error::world(format!("{TOPOLOGY}={text:?} is not of the form RANKS_PER_NODE,NODES_PER_RACK")));
        };
        Topology::blocks(size, ranks, nodes).map(Some)
    }

    /// Returns how long the ranks wait for each other at the start.
    pub(crate) fn patience(&self) -> Result<Duration> {
        let Some(seconds) = self.number::<f64>(TIMEOUT)? else { return Ok(PATIENCE) };
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Error::world(format!("{TIMEOUT}={seconds} is not a number of seconds")))
    }

    /// Returns the seconds of silence after which another host is lost: 4, or the value of `RMALAB_SILENCE`; `None` for `never`.
    pub(crate) fn silence(&self) -> Result<Option<u32>> {
        match self.chosen(SILENCE).as_deref() {
            None => Ok(Some(4)),
            Some("never") => Ok(None),
            Some(text) => match text.parse() {
                Ok(seconds @ 2..=120) => Ok(Some(seconds)),
                _ => Err(Error::world(format!("{SILENCE}={text} is neither 'never' nor from 2 to 120 seconds"))),
            },
        }
    }

    /// Returns the value of `RMALAB_JOB`.
    pub(crate) fn job(&self) -> Option<OsString> {
        (self.0)(JOB)
    }

    /// Returns the value of `name`, if it is set and not empty.
    pub(crate) fn chosen(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// Returns the number in the variable `name`.
    pub(crate) fn descriptor(&self, name: &str) -> Result<Option<RawFd>> {
        self.number(name)
    }

    /// Returns the descriptor that takes the result, if there is one.
    pub(crate) fn result_fd(&self) -> Result<Option<RawFd>> {
        self.number(RESULT_FD)
    }
}

fn check_rank(rank_variable: &str, rank: u32, size_variable: &str, size: u32) -> Result<()> {
    if rank >= size {
        return Err(Error::world(format!(
            "{rank_variable}={rank} does not exist in a world of {size_variable}={size} ranks"
        )));
    }
    Ok(())
}

/// A topology as [`Environment::topology`] reads it.
pub(crate) fn topology_text(topology: &Topology) -> String {
    format!("{},{}", topology.ranks_per_node(), topology.nodes_per_rack())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(variables: &[(&str, &str)]) -> Result<Identity> {
        Environment(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())).identity()
    }

    #[track_caller]
    fn refused(variables: &[(&str, &str)], because: &str) {
        let error = identity(variables).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
    }

    #[test]
    fn the_time_limit_of_a_silent_connection_is_read() {
        let silence = |value: Option<&str>| {
            Environment(&|name| value.filter(|_| name == SILENCE).map(OsString::from))
                .silence()
                .map_err(|error| error.to_string())
        };
        assert_eq!((silence(None), silence(Some("30")), silence(Some("never"))), (Ok(Some(4)), Ok(Some(30)), Ok(None)));
        for wrong in ["1", "121", "x"] {
            assert!(silence(Some(wrong)).unwrap_err().contains(SILENCE), "{wrong}");
        }
    }

    #[test]
    fn the_launchers_variables_come_first() {
        let launched = [(RANK, "1"), (SIZE, "2"), (SHM_FD, "5"), (SHM_SEGMENT_BYTES, "4096"), ("PMI_RANK", "0")];
        assert_eq!(
            identity(&launched).unwrap(),
            Identity::Launched { rank: Rank(1), size: 2, shm: Some((5, 4096)), hub: None, topology: None, call: None }
        );
        assert_eq!(identity(&[]).unwrap(), Identity::Alone);
    }

    #[test]
    fn every_launcher_is_understood() {
        let foreign = |rank, size, variable, job: &str| Identity::Foreign {
            rank: Rank(rank),
            size,
            variable,
            hosts: Hosts::One,
            job: job.to_string(),
        };
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_RANK", "2"),
            ("PMIX_NAMESPACE", "812843009"),
        ];
        assert_eq!(identity(&open_mpi).unwrap(), foreign(2, 4, "OMPI_COMM_WORLD_RANK", "812843009"));
        let hydra = [("PMI_RANK", "0"), ("PMI_SIZE", "3"), ("MPI_LOCALNRANKS", "3")];
        assert_eq!(identity(&hydra).unwrap(), foreign(0, 3, "PMI_RANK", ""));
        let pmix = [("PMIX_RANK", "1"), ("SLURM_NTASKS", "2"), ("SLURM_NNODES", "1")];
        assert_eq!(identity(&pmix).unwrap(), foreign(1, 2, "PMIX_RANK", ""));
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_NUM_NODES", "1"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "3"),
        ];
        assert_eq!(identity(&slurm).unwrap(), foreign(1, 2, "SLURM_PROCID", "77.3"));
        assert_eq!(identity(&slurm[..2]).unwrap(), Identity::Alone, "a batch script is no rank");
    }

    #[test]
    fn nonsense_is_named() {
        refused(&[(RANK, "one")], "RMALAB_RANK=\"one\"");
        refused(&[(RANK, "-1")], "RMALAB_RANK=\"-1\"");
        refused(&[(RANK, "99999999999")], "RMALAB_RANK=\"99999999999\"");
        refused(&[(RANK, "0")], "RMALAB_SIZE is not");
        refused(&[(RANK, "2"), (SIZE, "2")], "RMALAB_RANK=2 does not exist");
        refused(&[(RANK, "0"), (SIZE, "0")], "RMALAB_RANK=0 does not exist");
        refused(&[(RANK, "0"), (SIZE, "1"), (SHM_FD, "-3")], "RMALAB_SHM_FD=-3");
        refused(&[(RANK, "0"), (SIZE, "1"), (SEGMENT_BYTES, "8")], "neither RMALAB_SHM_FD nor RMALAB_HUB");
        refused(&[(RANK, "0"), (SIZE, "1"), (SHM_FD, "3")], "RMALAB_SHM_SEGMENT_BYTES is not");
        refused(&[(RANK, "0"), (SIZE, "1"), (HUB, "somewhere")], "RMALAB_HUB is not");
        let launched = [(RANK, "0"), (SIZE, "1"), (SHM_FD, "3"), (SHM_SEGMENT_BYTES, "8"), (TOPOLOGY, "0,1")];
        refused(&launched, "0 ranks a node");
        refused(&[&launched[..4], &[(TOPOLOGY, "4x4")]].concat(), "RMALAB_TOPOLOGY=\"4x4\"");
        refused(&[("PMI_RANK", "0")], "PMI_SIZE");
        refused(&[("PMIX_RANK", "0")], "SLURM_NTASKS");
        refused(&[("PMI_RANK", "3"), ("PMI_SIZE", "3")], "PMI_RANK=3");
    }

    #[test]
    fn launchers_report_the_number_of_hosts() {
        #[track_caller]
        fn several(variables: &[(&str, &str)], why: &str) {
            match identity(variables).unwrap() {
                Identity::Foreign { hosts: Hosts::Several(words), .. } => assert!(words.contains(why), "{words}"),
                other => panic!("{other:?}"),
            }
        }
        several(
            &[("PMI_RANK", "0"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")],
            "2 of the 4 ranks are on this host (MPI_LOCALNRANKS=2, PMI_SIZE=4)",
        );
        several(
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_NODES", "2")],
            "on 2 hosts (SLURM_STEP_NUM_NODES=2)",
        );
        let untold = identity(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]).unwrap();
        assert!(matches!(untold, Identity::Foreign { hosts: Hosts::Unknown, .. }), "{untold:?}");
    }
}
