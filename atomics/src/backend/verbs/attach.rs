//! Joining a world over RDMA verbs: the program's options, the choice of the device, and the meeting of all ranks.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::answering::Answering;
use super::bounce::BouncePool;
use super::bulk::{SLOT_BYTES, SLOTS};
use super::device::{Completions, DEVICE, Device, Region};
use super::failures::Deaths;
use super::guesses::Guesses;
use super::landing::DEPTH;
use super::memory::Memory;
use super::message::Opened;
use super::queue_pair::LocalPort;
use super::request::MOST_RANKS;
use super::{Verbs, settings, shared};
use crate::join::bootstrap::Membership;
use crate::join::environment::Environment;
use crate::model::fabric::WorldView;
use crate::{
    Atomicity, Capabilities, Error, Joined, Rank, Result, SEGMENT_BYTES, SymmetricHeap, Topology, WORD, Wishes,
};

/// The backend's name for `--backend`.
const BACKEND: &str = "verbs";

/// A rank's options for the world that it joins, and for the adapter.
#[derive(Clone, Default, Debug)]
#[must_use = "nothing happens before `attach`"]
pub struct Attach {
    segment_bytes: Option<u64>,
    device: Option<String>,
    gid_index: Option<u8>,
    port: Option<u8>,
    node_shared: Option<bool>,
    topology: Option<Topology>,
    completion_entries: Option<u32>,
    failing_part: Option<u64>,
}

impl Attach {
    /// Segments of [`SEGMENT_BYTES`], and the first device with a port that is up, unless the environment sets others.
    pub fn new() -> Attach {
        Attach::default()
    }

    /// Sets the length of segments, in bytes, rounded up to whole words. All ranks must set the same length.
    pub fn segment_bytes(mut self, bytes: u64) -> Attach {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Sets the device's name, or several names separated by commas, which the ranks of a host take in turn; otherwise
    /// `RMALAB_DEVICE`.
    pub fn device(mut self, name: impl Into<String>) -> Attach {
        self.device = Some(name.into());
        self
    }

    /// Sets the number of the port's address; otherwise `RMALAB_GID_INDEX`, or the best address: RoCE v2 over IPv4.
    pub fn gid_index(mut self, index: u8) -> Attach {
        self.gid_index = Some(index);
        self
    }

    /// Sets the device's port; otherwise `RMALAB_IB_PORT`, or 1.
    pub fn port(mut self, number: u8) -> Attach {
        self.port = Some(number);
        self
    }

    /// Places the ranks on nodes; otherwise each host is a node. The hosts still decide what ranks share.
    pub fn topology(mut self, topology: Topology) -> Attach {
        self.topology = Some(topology);
        self
    }

    /// Sets whether bulk operations between ranks of one host are copies by the processor; otherwise
    /// `RMALAB_NODE_SHARED`, or yes. Word operations always go through the adapter.
    pub fn node_shared(mut self, shared: bool) -> Attach {
        self.node_shared = Some(shared);
        self
    }

    /// Sets the entries of the completion queues, instead of one for each request, for tests of full queues.
    #[doc(hidden)]
    pub fn completion_entries(mut self, entries: u32) -> Attach {
        self.completion_entries = Some(entries);
        self
    }

    /// Makes the part with this number of every bulk operation fail, for tests of operations under way after a failure.
    #[doc(hidden)]
    pub fn failing_part(mut self, part: u64) -> Attach {
        self.failing_part = Some(part);
        self
    }

    /// Joins the world of `membership`. All its ranks call this.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there is no such device, port or address, when the device has no atomics, or when the
    /// ranks disagree. [`Error::System`] when the system refuses memory or its registration. [`Error::PeerFailed`] when
    /// another rank could not join.
    pub fn attach(self, membership: Membership) -> Result<Verbs> {
        match self.prepare(&membership) {
            Ok(parts) => Verbs::join(parts, membership),
            Err(error) => {
                // The other ranks wait for this one.
                membership.fail();
                Err(error)
            }
        }
    }

    fn prepare(self, membership: &Membership) -> Result<Parts> {
        let (rank, hosts) = (membership.rank(), membership.hosts());
        let local = hosts[..rank.index()].iter().filter(|host| **host == hosts[rank.index()]).count();
        let list = match self.device {
            Some(list) => Some(list),
            None => settings::variable(DEVICE)?,
        };
        let number = match self.port {
            Some(number) => number,
            None => settings::number(settings::PORT)?.unwrap_or(1),
        };
        let device = match list {
            Some(list) => Device::open(settings::turn(&list, local)?)?,
            None => first_active(number)?,
        };
        let abilities = device.abilities()?;
        let name = device.name();
        let Some(atomicity) = abilities.atomicity else {
            return Err(Error::world(format!(
                "verbs: device {name} has no atomic operations (atomic_cap is ATOMIC_NONE)"
            )));
        };
        let port = device.port(number)?;
        if !port.active {
            return Err(Error::world(format!(
                "verbs: port {number} of {name} is not active; `rdma link` shows its state ({} chooses another port, {} another device)",
                settings::PORT,
                DEVICE
            )));
        }
        let wanted = match self.gid_index {
            Some(index) => Some(index),
            None => settings::number(settings::GID_INDEX)?,
        };
        let gid = if port.ethernet {
            let gids = device.gids(&port);
            let chosen = settings::choose(&gids, wanted).ok_or_else(|| {
                let there: Vec<String> = gids.iter().map(|gid| gid.index.to_string()).collect();
                Error::world(format!(
                    "verbs: port {number} of {name} has no usable address{} (numbers in use: [{}]; an IP address on its network interface gives it one, {} names one)",
                    wanted.map_or(String::new(), |index| format!(" with number {index}")),
                    there.join(", "),
                    settings::GID_INDEX
                ))
            })?;
            Some(chosen)
        } else {
            None
        };
        let node_shared = match self.node_shared {
            Some(shared) => shared,
            None => settings::number(shared::NODE_SHARED)? != Some(0),
        };
        let completions = self.completion_entries.unwrap_or(DEPTH as u32);
        let (initiator, responder) = (abilities.initiator.clamp(1, READS), abilities.responder.clamp(1, READS));
        let local_port = LocalPort { port, gid, initiator, responder };
        let view = view(membership, atomicity, self.segment_bytes, self.topology)?;
        let memory = Arc::new(Memory::new(view.segment())?);
        let region = Arc::new(Region::segment(&device, Arc::clone(&memory))?);
        let bounce = BouncePool::new(SLOTS, SLOT_BYTES, |start, len| Region::local(&device, start, len))?;
        Ok(Parts {
            device,
            local_port,
            view,
            memory,
            region,
            bounce,
            node_shared,
            completions,
            failing_part: self.failing_part,
        })
    }
}

/// Makes a rank's view of its world, whose segments have the requested length.
fn view(
    membership: &Membership,
    atomicity: Atomicity,
    segment_bytes: Option<u64>,
    topology: Option<Topology>,
) -> Result<WorldView> {
    let size = membership.size();
    let topology = topology.unwrap_or_else(|| membership.topology().clone());
    if topology.size() != size {
        let ranks = topology.size();
        return Err(Error::world(format!("the topology has {ranks} ranks, but the world has {size}")));
    }
    if size > MOST_RANKS {
        return Err(Error::world(format!("verbs: {size} ranks; this backend supports at most {MOST_RANKS}")));
    }
    let segment = segment_bytes.unwrap_or(SEGMENT_BYTES);
    let segment = segment
        .checked_next_multiple_of(WORD)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| Error::world(format!("a segment of {segment} bytes: ask for 1 byte or more, up to 2^64 - 8")))?;
    let capabilities = Capabilities {
        backend: BACKEND,
        atomicity,
        native_fetch_store: false,
        late_puts: true,
        ordered_puts: false,
        atomic_puts: false,
        passive_progress: true,
        asymmetric_fence: false,
        lasting_memory: false,
        shares_processors: false,
    };
    WorldView::new(membership.rank(), segment, capabilities, topology, SymmetricHeap::new(segment))
}

/// Opens the first device whose port with this number is active.
fn first_active(number: u8) -> Result<Arc<Device>> {
    let names = Device::names()?;
    for name in &names {
        let device = Device::open(name)?;
        if device.port(number).is_ok_and(|port| port.active) {
            return Ok(device);
        }
    }
    Err(Error::world(format!(
        "verbs: no RDMA device of this host ({}) has a port {number} that is active; `rdma link` shows their state",
        names.join(", ")
    )))
}

/// The largest number of reads and atomics under way on a connection of this backend.
const READS: u8 = 64;

/// A rank's objects before it meets the others.
struct Parts {
    device: Arc<Device>,
    local_port: LocalPort,
    view: WorldView,
    memory: Arc<Memory>,
    region: Arc<Region>,
    bounce: BouncePool<Region>,
    node_shared: bool,
    completions: u32,
    failing_part: Option<u64>,
}

impl Verbs {
    fn join(parts: Parts, membership: Membership) -> Result<Verbs> {
        let Parts { device, local_port, view, memory, region, bounce, node_shared, completions, failing_part } = parts;
        let verbs = Verbs {
            view,
            peers: RefCell::default(),
            membership: Some(membership),
            bounce,
            region,
            memory,
            device,
            local_port,
            completions,
            failing_part,
            fault: RefCell::default(),
            deaths: Deaths::default(),
            burst: Cell::new(0),
            looked: Cell::new(None),
            guesses: Guesses::default(),
            registrations: RefCell::default(),
            node_shared,
            neighbours: RefCell::default(),
            past: Cell::default(),
            second_guesses: Cell::new(0),
        };
        match verbs.open() {
            Ok(()) => Ok(verbs),
            Err(error) => {
                verbs.fail();
                Err(error)
            }
        }
    }

    /// Begins to answer the others, and checks that all agree.
    fn open(&self) -> Result<()> {
        let answering = Answering {
            pairs: FxHashMap::default(),
            queue: Completions::new(&self.device, 1)?,
            device: Arc::clone(&self.device),
            local_port: self.local_port,
            memory: Opened { address: self.memory.start().as_ptr() as u64, key: self.region.remote_key() },
            shared: Arc::clone(&self.memory),
            _region: Arc::clone(&self.region),
        };
        let membership = self.membership();
        membership.serve_until_failures(answering);
        let mine = (self.view.segment(), self.local_port.port.ethernet);
        let card = [&mine.0.to_le_bytes()[..], &[mine.1.into()]].concat();
        for (rank, card) in (0..).map(Rank).zip(membership.allgather(&card)?) {
            let theirs = card.split_first_chunk().map(|(bytes, rest)| (u64::from_le_bytes(*bytes), rest == [1]));
            if theirs != Some(mine) {
                return Err(Error::world(format!(
                    "verbs: {rank} and {} disagree: (bytes of a segment, whether the link is Ethernet) are {theirs:?} and {mine:?}",
                    self.view.rank()
                )));
            }
        }
        Ok(())
    }
}

impl Joined for Verbs {
    const MEETS: bool = true;

    /// Joins with the launcher that the environment names, on the device that it names, if it names one.
    fn join(wishes: Wishes) -> Result<Verbs> {
        let mut attach = Attach::new();
        let environment = Environment::own();
        if let Some(bytes) = wishes.segment_bytes.max(environment.segment_bytes()?) {
            attach = attach.segment_bytes(bytes);
        }
        let membership = Membership::by_environment()?;
        if let Some(topology) = wishes.topology.or(environment.topology(membership.size())?) {
            attach = attach.topology(topology);
        }
        attach.attach(membership)
    }

    fn fail(self) {
        Verbs::fail(self);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::*;
    use crate::join::bootstrap::Hub;

    #[test]
    fn a_missing_device_is_an_error_of_one_line_on_all_ranks() {
        let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 2).unwrap();
        let join =
            |rank| Membership::join(hub.invitation(), Rank(rank), 2, "here", Duration::from_secs(20), None).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| join(1).barrier());
            let error = Attach::new().device("no-such-device").attach(join(0)).unwrap_err().to_string();
            // The error depends on whether this host has a device, or the library at all.
            let known = ["has no RDMA device", "libibverbs.so.1 is not on this host", "listing the RDMA devices"];
            assert!(known.iter().any(|words| error.contains(words)) && !error.contains('\n'), "{error}");
            assert!(matches!(other.join().unwrap(), Err(Error::PeerFailed { rank: Rank(0) })));
        });
    }
}
