//! Hidden worlds: the ranks of a communicator as a world of rmalab's, whose words are those of epochs and locks.

use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rmalab_atomics::mapped::{Layout, Liveness, Mapping};
use rmalab_atomics::{Mapped, Mpi, Rank, Topology, shm};

use crate::boundary::host::{self, Comm};
use crate::settings::Control;

/// A world of the ranks of a communicator.
pub(crate) enum World {
    Shared(Box<Mapped>),
    Remote(Box<Mpi>),
}

impl World {
    /// Makes the world of the ranks of `comm`. Collective; all ranks return the same kind, or a reason.
    pub(crate) fn new(comm: Comm, wanted: Control) -> Result<World, String> {
        let (rank, size) = host::place(comm)?;
        if wanted != Control::Remote {
            // The file stays open until all ranks have opened it, or cannot.
            let (_file, shared) = shared(comm, rank, size)?;
            let is_everywhere = host::largest(comm, &[u64::from(shared.is_err())])?[0] == 0;
            match shared {
                Ok(world) if is_everywhere => return Ok(World::Shared(Box::new(world))),
                Err(why) if wanted == Control::Shared => return Err(why),
                Ok(_) if wanted == Control::Shared => {
                    return Err("another rank cannot share memory with rank 0".to_owned());
                }
                Ok(_) | Err(_) => {}
            }
        }
        host::remote_world(comm, segment_bytes(size)).map(|world| World::Remote(Box::new(world)))
    }

    pub(crate) fn control(&self) -> Control {
        match self {
            World::Shared(_) => Control::Shared,
            World::Remote(_) => Control::Remote,
        }
    }
}

/// Returns the bytes that one window's team, epochs and locks take at a rank: 8 KiB for each of its links to other ranks in
/// collectives, some words for each other rank, and the locks.
fn segment_bytes(size: u32) -> u64 {
    let links = u64::from(size.next_power_of_two().trailing_zeros());
    (64 << 10) + links * (8 << 10) + u64::from(size) * 256
}

/// The ranks' launcher ends all of them when one dies, so that no rank has to look.
struct Launched;

impl Liveness for Launched {
    fn dead_peer(&self) -> Option<Rank> {
        None
    }
}

/// Makes the world over a memory file of rank 0, which returns the file, too.
fn shared(comm: Comm, rank: u32, size: u32) -> Result<(Option<File>, Result<Mapped, String>), String> {
    let layout = Layout::new(size, segment_bytes(size)).map_err(|error| error.to_string());
    let made = (rank == 0).then(|| layout.clone().and_then(make));
    let mut place = [0; PLACE];
    if let Some(Ok((_, _, given))) = &made {
        place = *given;
    }
    host::broadcast(comm, &mut place)?;
    let (file, mapping) = match made {
        Some(Ok((file, mapping, _))) => (Some(file), Ok(mapping)),
        Some(Err(why)) => (None, Err(why)),
        None => (None, layout.and_then(|layout| open(layout, place))),
    };
    let world = mapping.and_then(|mapping| {
        Mapped::new(Arc::new(mapping), Rank(rank), Topology::one_node(size), "shm", Box::new(Launched))
            .map_err(|error| error.to_string())
    });
    Ok((file, world))
}

/// Words of a file's place: the kernel (two), the process, the descriptor, the device, the file's number.
const PLACE: usize = 6;

type Place = [u64; PLACE];

fn make(layout: Layout) -> Result<(File, Mapping, Place), String> {
    let file = File::from(shm::create(layout).map_err(|error| error.to_string())?);
    let mapping = Mapping::shared(file.as_fd(), layout, true).map_err(|error| error.to_string())?;
    let [kernel, boot] = kernel()?;
    let [device, number] = identity(&file.metadata().map_err(|error| format!("reading a memory file: {error}"))?);
    let descriptor = u64::try_from(file.as_raw_fd()).expect("an open descriptor is not negative");
    let place = [kernel, boot, u64::from(std::process::id()), descriptor, device, number];
    Ok((file, mapping, place))
}

fn open(layout: Layout, place: Place) -> Result<Mapping, String> {
    let [kernel_there, boot_there, process, descriptor, device, number] = place;
    if process == 0 {
        return Err("rank 0 has made no memory file".to_owned());
    }
    if kernel()? != [kernel_there, boot_there] {
        return Err("rank 0 is on another host".to_owned());
    }
    let path = format!("/proc/{process}/fd/{descriptor}");
    let failed = |error| format!("opening {path}, rank 0's memory file: {error}");
    let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
    if identity(&file.metadata().map_err(failed)?) != [device, number] {
        return Err(format!("{path} is not rank 0's memory file: the ranks do not see the same processes"));
    }
    Mapping::shared(file.as_fd(), layout, false).map_err(|error| error.to_string())
}

/// Returns the identity of a file of this kernel.
fn identity(file: &Metadata) -> [u64; 2] {
    [file.dev(), file.ino()]
}

/// Returns the identity of the running kernel.
fn kernel() -> Result<[u64; 2], String> {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("reading {FILE}: {error}"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|error| format!("reading {FILE}: {error}"))?;
    Ok([number as u64, (number >> 64) as u64])
}
