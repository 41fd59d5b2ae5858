//! Finds the launcher of this process by the environment, and joins the job through it.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;
use rustix::io::FdFlags;

use super::pmi1::Pmi1;
use super::pmix::Pmix;
use super::{Bootstrap, Hub, Invitation, Membership, Opener, address_of};
use crate::join::environment::{Environment, HOST, HUB, Hosts, INTERFACE, Identity};
use crate::{Error, Rank, Result};

/// The descriptor of the connection to a launcher that speaks PMI-1.
const PMI_FD: &str = "PMI_FD";

/// The launcher of this crate: its invitation is in the environment.
#[derive(Debug)]
struct Launched {
    rank: Rank,
    size: u32,
    invitation: Invitation,
}

impl Bootstrap for Launched {
    fn name(&self) -> &'static str {
        "rmalab"
    }

    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn one_host(&self) -> Option<bool> {
        None
    }

    fn invitation(&mut self, _: Opener<'_>) -> Result<Invitation> {
        Ok(self.invitation.clone())
    }
}

/// The connection of this process to its launcher.
#[derive(PartialEq, Eq, Debug)]
enum LauncherLink {
    Launched { rank: Rank, size: u32, invitation: Invitation },
    Pmi1 { fd: RawFd, rank: Rank, size: u32, one_host: Option<bool> },
    Pmix,
}

fn link(environment: &Environment<'_>) -> Result<LauncherLink> {
    let pmix = || {
        if environment.chosen("PMIX_NAMESPACE").is_some() {
            return Ok(LauncherLink::Pmix);
        }
        Err(Error::world(
            "the launcher of this process has no PMIx server for it (PMIX_NAMESPACE is not set); start it with `rmalab launch`, `srun --mpi=pmix`, or an mpirun of Open MPI 4 or newer",
        ))
    };
    // The number of ranks need not be in the environment, since the launcher's server reports it.
    if environment.chosen("RMALAB_RANK").is_none()
        && matches!(environment.foreign()?, Some("OMPI_COMM_WORLD_RANK" | "PMIX_RANK"))
    {
        return pmix();
    }
    match environment.identity()? {
        Identity::Alone => Err(Error::world(
            "no launcher has started this process: none of RMALAB_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK and SLURM_PROCID (of a step) is set; start it with `rmalab launch`, mpirun or srun",
        )),
        Identity::Launched { rank, size, hub: Some(invitation), .. } => {
            Ok(LauncherLink::Launched { rank, size, invitation })
        }
        Identity::Launched { .. } => Err(Error::world(format!(
            "the launcher of this process has opened no hub for its ranks to meet ({HUB} is not set); programs ask for it by Launcher::hub"
        ))),
        Identity::Foreign { rank, size, hosts, variable: "PMI_RANK", .. } => {
            let Some(fd) = environment.descriptor(PMI_FD)? else {
                return Err(Error::world(format!(
                    "PMI_RANK is set, but {PMI_FD} is not, through which the ranks would find each other; start them with `rmalab launch`, MPICH's mpiexec, or `srun --mpi=pmi2`"
                )));
            };
            let one_host = match hosts {
                Hosts::Unknown => None,
                Hosts::One => Some(true),
                Hosts::Several(_) => Some(false),
            };
            Ok(LauncherLink::Pmi1 { fd, rank, size, one_host })
        }
        Identity::Foreign { variable, .. } => Err(Error::world(format!(
            "{variable} is set, but nothing through which the ranks would find each other; start them with `srun --mpi=pmix` or `srun --mpi=pmi2`"
        ))),
    }
}

/// The connection that a launcher has left open for this process.
fn inherited(fd: RawFd) -> Result<UnixStream> {
    if fd < 3 {
        return Err(Error::world(format!("{PMI_FD}={fd} is a standard stream, not a connection to the launcher")));
    }
    // SAFETY: the borrow ends with the check, which fails without harm when nothing is open at this number. No code of
    // this process knows a descriptor that it has inherited, so none closes it during the check.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(borrowed)
        .map_err(|error| Error::system(format!("{PMI_FD}={fd} is not an open descriptor"), error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(Error::world(format!("{PMI_FD}={fd} is not a socket")));
    }
    // SAFETY: it is an open socket (just checked) that the environment names as this process's connection to its
    // launcher, so nothing else in this process owns it; `once` prevents a second call.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&owned, FdFlags::CLOEXEC)
        .map_err(|error| Error::system("keeping the launcher's connection from child processes", error))?;
    Ok(owned.into())
}

/// A process joins one job once, since the launcher's descriptors and data can be used only once.
fn once() -> Result<()> {
    static JOINED: AtomicBool = AtomicBool::new(false);
    if JOINED.swap(true, Ordering::SeqCst) {
        return Err(Error::world("this process has joined its job before; a process is one rank, once"));
    }
    Ok(())
}

/// Returns the bootstrap of the launcher that has started this process; once in the life of a process.
///
/// # Errors
///
/// [`Error::World`] when no launcher has started this process, when the launcher gives the ranks no way to find each
/// other, or when an environment variable has an impossible value.
pub fn by_environment() -> Result<Box<dyn Bootstrap>> {
    let environment = Environment::own();
    let (link, patience) = (link(&environment)?, environment.patience()?);
    once()?;
    Ok(match link {
        LauncherLink::Launched { rank, size, invitation } => Box::new(Launched { rank, size, invitation }),
        LauncherLink::Pmi1 { fd, rank, size, one_host } => {
            Box::new(Pmi1::new(inherited(fd)?, rank, size, one_host, patience))
        }
        LauncherLink::Pmix => Box::new(Pmix::connect(patience)?),
    })
}

/// Returns the address where a hub of this process must listen.
fn hub_address(environment: &Environment<'_>, one_host: Option<bool>) -> Result<IpAddr> {
    match (environment.chosen(INTERFACE), one_host) {
        (Some(interface), _) => {
            address_of(&interface).map_err(|error| Error::world(format!("{INTERFACE}={interface:?}: {error}")))
        }
        (None, Some(true)) => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        (None, Some(false)) => Err(Error::world(format!(
            "the ranks are on several hosts: set {INTERFACE} to the network interface of rank 0 (its name, or an address) that all of them can reach"
        ))),
        (None, None) => Err(Error::world(format!(
            "the launcher does not report whether the ranks are on one host: set {INTERFACE} to the network interface of rank 0 (its name, or an address) that all of them can reach; lo if they are on one host"
        ))),
    }
}

/// Returns the identity of this host: its name, and its boot.
fn host(environment: &Environment<'_>) -> Result<String> {
    if let Some(host) = environment.chosen(HOST) {
        return Ok(host);
    }
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| Error::system(format!("reading {path}"), error))
    };
    Ok(format!("{}/{}", read("/proc/sys/kernel/hostname")?, read("/proc/sys/kernel/random/boot_id")?))
}

impl Membership {
    /// Joins the job in which any launcher has started this process; once in the life of a process.
    ///
    /// If the launcher does not host the hub, rank 0 does. `RMALAB_INTERFACE` in its environment names the network
    /// interface (by name or address) through which the others reach it; ranks on one host do not need it. All ranks
    /// wait for each other, for 30 seconds or the time of `RMALAB_TIMEOUT`.
    ///
    /// # Errors
    ///
    /// The errors of [`by_environment`] and of [`join`](Membership::join), and [`Error::World`] when the interface is
    /// missing or unknown.
    pub fn by_environment() -> Result<Membership> {
        let environment = Environment::own();
        let (patience, host) = (environment.patience()?, host(&environment)?);
        let mut bootstrap = by_environment()?;
        let (rank, size, one_host) = (bootstrap.rank(), bootstrap.size(), bootstrap.one_host());
        let mut hub = None;
        let invitation = bootstrap.invitation(&mut || {
            let opened = Hub::open(hub_address(&environment, one_host)?, size)?;
            Ok(hub.insert(opened).invitation().clone())
        })?;
        // The launcher is not asked again, and a connection to it would only interfere.
        drop(bootstrap);
        Membership::join(&invitation, rank, size, &host, patience, hub)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::join::bootstrap::Secret;

    fn with<T>(variables: &[(&str, &str)], look: impl FnOnce(&Environment<'_>) -> T) -> T {
        look(&Environment(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())))
    }

    #[test]
    fn every_launcher_has_its_way() {
        let found = |variables: &[(&str, &str)]| with(variables, link).unwrap();
        let secret = Secret::new().unwrap();
        let text = format!("10.0.0.1:99/{}", secret.to_hex());
        let ours = [("RMALAB_RANK", "1"), ("RMALAB_SIZE", "2"), ("RMALAB_SEGMENT_BYTES", "4096"), (HUB, &text)];
        let inside = [("PMI_RANK", "0"), ("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "outer"), ("PMI_SIZE", "1")];
        let invitation = text.parse().unwrap();
        let launched = LauncherLink::Launched { rank: Rank(1), size: 2, invitation };
        assert_eq!(found(&[&ours[..], &inside].concat()), launched, "the inner launcher counts");
        let hydra = [("PMI_RANK", "2"), ("PMI_SIZE", "3"), ("PMI_FD", "7")];
        let pmi1 = |one_host| LauncherLink::Pmi1 { fd: 7, rank: Rank(2), size: 3, one_host };
        assert_eq!(found(&hydra), pmi1(None));
        assert_eq!(found(&[&hydra[..], &[("MPI_LOCALNRANKS", "3")]].concat()), pmi1(Some(true)));
        assert_eq!(found(&[&hydra[..], &[("MPI_LOCALNRANKS", "1")]].concat()), pmi1(Some(false)));
        assert_eq!(found(&[("OMPI_COMM_WORLD_RANK", "0"), ("PMIX_NAMESPACE", "job")]), LauncherLink::Pmix);
        assert_eq!(found(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "job")]), LauncherLink::Pmix);
    }

    #[test]
    fn errors_name_missing_variables() {
        let refused = |variables: &[(&str, &str)], because: &str| {
            let words = with(variables, link).unwrap_err().to_string();
            assert!(words.contains(because), "{words}");
        };
        refused(&[], "no launcher has started this process");
        refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD is not");
        refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("PMI_FD", "x")], "PMI_FD=\"x\"");
        refused(&[("OMPI_COMM_WORLD_RANK", "0")], "PMIX_NAMESPACE");
        refused(&[("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "1")], "srun --mpi=pmix");
        let ours =
            [("RMALAB_RANK", "0"), ("RMALAB_SIZE", "1"), ("RMALAB_SHM_SEGMENT_BYTES", "8"), ("RMALAB_SHM_FD", "3")];
        refused(&ours, "no hub");
    }

    #[test]
    fn a_hub_listens_at_the_given_address() {
        let address = |variables: &[(&str, &str)], one_host| {
            with(variables, |environment| hub_address(environment, one_host)).map_err(|error| error.to_string())
        };
        let loopback = Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(address(&[], Some(true)), loopback);
        assert_eq!(address(&[(INTERFACE, "lo")], Some(false)), loopback);
        assert_eq!(address(&[(INTERFACE, "127.0.0.1")], None), loopback);
        assert!(address(&[], Some(false)).unwrap_err().contains("several hosts: set RMALAB_INTERFACE"));
        assert!(address(&[], None).unwrap_err().contains("does not report"));
        let words = address(&[(INTERFACE, "no-such")], Some(true)).unwrap_err();
        assert!(words.contains("RMALAB_INTERFACE=\"no-such\""), "{words}");
    }

    #[test]
    fn hosts_have_names() {
        let own = with(&[], host).unwrap();
        assert_eq!(own, with(&[(HOST, "")], host).unwrap());
        assert!(own.split_once('/').is_some_and(|(name, life)| !name.is_empty() && life.len() == 36), "{own}");
        assert_eq!(with(&[(HOST, "pretended")], host).unwrap(), "pretended");
    }

    #[test]
    fn only_a_socket_is_a_connection_to_the_launcher() {
        let (reader, _writer) = std::io::pipe().unwrap();
        for wrong in [-1, 0, 2, reader.as_raw_fd(), 999_999] {
            let words = inherited(wrong).unwrap_err().to_string();
            assert!(words.contains(&format!("PMI_FD={wrong}")), "{words}");
        }
    }
}
