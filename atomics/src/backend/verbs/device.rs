//! A device, its ports and events, memory registered with it, and queues of completions: objects of the verbs library,
//! each with an owner that destroys it.
//!
//! The library's calls may be made from any thread (ibv_open_device(3) and the others; rdma-core's
//! Documentation/libibverbs.md), so the objects may be shared. Only a completion queue is polled by a single thread.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_mummy_sys as ffi;

use super::memory::Memory;
use crate::{Atomicity, Error, Result};

/// The variable for the device's name, or for several names separated by commas, which the ranks of a host take in
/// turn.
pub(super) const DEVICE: &str = "RMALAB_DEVICE";

/// The link layer of a port whose peers have no LID (`IBV_LINK_LAYER_ETHERNET`).
const ETHERNET: u8 = 2;

/// An open device with the protection domain of all objects of a rank.
pub(super) struct Device {
    context: NonNull<ffi::ibv_context>,
    domain: NonNull<ffi::ibv_pd>,
    name: Box<str>,
}

// SAFETY: the verbs library's objects may be used from any thread, and are owned by this value.
unsafe impl Send for Device {}
// SAFETY: as above; its functions take their own locks.
unsafe impl Sync for Device {}

/// The abilities of a device that this backend uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abilities {
    /// The atomicity of its atomics; `None` if it has no atomics.
    pub(super) atomicity: Option<Atomicity>,
    /// The number of reads and atomics that a queue pair may have under way as requester.
    pub(super) initiator: u8,
    /// The number of reads and atomics that it answers at a time.
    pub(super) responder: u8,
}

/// A port of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) number: u8,
    pub(super) active: bool,
    /// True if only GIDs address peers.
    pub(super) ethernet: bool,
    pub(super) lid: u16,
    /// The active MTU, by the library's number.
    pub(super) mtu: u32,
    pub(super) gids: u32,
}

/// An address of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gid {
    pub(super) index: u8,
    pub(super) bytes: [u8; 16],
    pub(super) kind: GidKind,
}

/// The protocol of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GidKind {
    InfiniBand,
    RoceV1,
    RoceV2,
}

/// The list of devices of this host; freed when dropped.
struct List {
    start: NonNull<*mut ffi::ibv_device>,
    len: usize,
}

impl List {
    fn get() -> Result<List> {
        let mut len = 0;
        // SAFETY: the library writes the number of entries and returns the list, or null.
        let start = unsafe { ffi::ibv_get_device_list(&raw mut len) };
        match NonNull::new(start) {
            Some(start) => Ok(List { start, len: usize::try_from(len).unwrap_or(0) }),
            None => {
                let error = std::io::Error::last_os_error();
                Err(match error.raw_os_error() {
                    // The loading layer returns this if there is no library.
                    Some(libc::EOPNOTSUPP) => Error::world(
                        "verbs: libibverbs.so.1 is not on this host; install it (Debian: libibverbs1 and ibverbs-providers)",
                    ),
                    Some(libc::ENOSYS) => no_devices(),
                    _ => Error::system("verbs: listing the RDMA devices of this host", error),
                })
            }
        }
    }

    fn names(&self) -> Vec<Box<str>> {
        (0..self.len).map(|index| self.name(index)).collect()
    }

    fn name(&self, index: usize) -> Box<str> {
        // SAFETY: the list has `len` entries, which are devices as long as the list lives; their names are C strings.
        unsafe {
            let name = ffi::ibv_get_device_name(self.start.as_ptr().add(index).read());
            CStr::from_ptr(name).to_string_lossy().into()
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from the library and is freed once; open devices outlive it.
        unsafe { ffi::ibv_free_device_list(self.start.as_ptr()) };
    }
}

fn no_devices() -> Error {
    Error::world(
        "verbs: this host has no RDMA device (`ibv_devices` lists none, and the kernel has no ib_uverbs if that fails)",
    )
}

impl Device {
    /// Returns the names of this host's devices.
    ///
    /// # Errors
    ///
    /// [`Error::World`] when there are none, or no library.
    pub(super) fn names() -> Result<Vec<Box<str>>> {
        let names = List::get()?.names();
        if names.is_empty() { Err(no_devices()) } else { Ok(names) }
    }

    /// Opens the device called `name`.
    pub(super) fn open(name: &str) -> Result<Arc<Device>> {
        let list = List::get()?;
        let names = list.names();
        let Some(index) = names.iter().position(|there| &**there == name) else {
            if names.is_empty() {
                return Err(no_devices());
            }
            return Err(Error::world(format!(
                "verbs: this host has no RDMA device {name:?}; it has {} ({})",
                names.join(", "),
                DEVICE
            )));
        };
        let failed = |what: &str| Error::system(format!("verbs: {what} {name}"), std::io::Error::last_os_error());
        // SAFETY: the entry is a device of the list, which lives.
        let context = unsafe { ffi::ibv_open_device(list.start.as_ptr().add(index).read()) };
        let context = NonNull::new(context).ok_or_else(|| failed("opening the device"))?;
        // SAFETY: the context was just opened.
        let Some(domain) = NonNull::new(unsafe { ffi::ibv_alloc_pd(context.as_ptr()) }) else {
            let error = failed("making a protection domain of");
            // SAFETY: nothing was made of the context.
            unsafe { ffi::ibv_close_device(context.as_ptr()) };
            return Err(error);
        };
        let device = Device { context, domain, name: name.into() };
        // Events are polled, never waited for.
        rustix::io::ioctl_fionbio(device.events(), true)
            .map_err(|error| Error::system(format!("verbs: setting up the events of {name}"), error))?;
        Ok(Arc::new(device))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open as long as `self` lives, and so is its descriptor.
        unsafe { BorrowedFd::borrow_raw(self.context.as_ref().async_fd) }
    }

    pub(super) fn domain(&self) -> NonNull<ffi::ibv_pd> {
        self.domain
    }

    pub(super) fn abilities(&self) -> Result<Abilities> {
        let mut attributes = MaybeUninit::<ffi::ibv_device_attr>::zeroed();
        // SAFETY: the library fills the structure, of integers, all of which may also be zero.
        let (answer, attributes) = unsafe {
            let answer = ffi::ibv_query_device(self.context.as_ptr(), attributes.as_mut_ptr());
            (answer, attributes.assume_init())
        };
        self.answer(answer, "asking for its attributes")?;
        let small = |value: i32| u8::try_from(value.clamp(0, 255)).expect("it was clamped");
        Ok(Abilities {
            atomicity: match attributes.atomic_cap {
                ffi::ibv_atomic_cap::IBV_ATOMIC_HCA => Some(Atomicity::Hca),
                ffi::ibv_atomic_cap::IBV_ATOMIC_GLOB => Some(Atomicity::Global),
                _ => None,
            },
            initiator: small(attributes.max_qp_init_rd_atom),
            responder: small(attributes.max_qp_rd_atom),
        })
    }

    pub(super) fn port(&self, number: u8) -> Result<Port> {
        let mut attributes = MaybeUninit::<ffi::ibv_port_attr>::zeroed();
        // SAFETY: as in `abilities`.
        let (answer, attributes) = unsafe {
            let answer = ffi::ibv_query_port(self.context.as_ptr(), number, attributes.as_mut_ptr());
            (answer, attributes.assume_init())
        };
        self.answer(answer, &format!("asking for the state of port {number}"))?;
        Ok(Port {
            number,
            active: attributes.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
            ethernet: attributes.link_layer == ETHERNET,
            lid: attributes.lid,
            mtu: attributes.active_mtu,
            gids: u32::try_from(attributes.gid_tbl_len).unwrap_or(0),
        })
    }

    /// Returns the addresses of a port that are set.
    pub(super) fn gids(&self, port: &Port) -> Vec<Gid> {
        let entry = |index: u8| {
            let mut entry = MaybeUninit::<ffi::ibv_gid_entry>::zeroed();
            // SAFETY: as in `abilities`; the call passes the structure's length to the library.
            let (answer, entry) = unsafe {
                let (number, index) = (port.number.into(), index.into());
                let answer = ffi::ibv_query_gid_ex(self.context.as_ptr(), number, index, entry.as_mut_ptr(), 0);
                (answer, entry.assume_init())
            };
            let kind = match entry.gid_type {
                ffi::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
                ffi::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
                _ => GidKind::InfiniBand,
            };
            // SAFETY: any 16 bytes are an address.
            (answer == 0).then_some(Gid { index, bytes: unsafe { entry.gid.raw }, kind })
        };
        (0..port.gids.min(256)).filter_map(|index| entry(index as u8)).filter(|gid| gid.bytes != [0; 16]).collect()
    }

    /// Converts the library's error number to an error.
    fn answer(&self, answer: i32, what: &str) -> Result<()> {
        match answer {
            0 => Ok(()),
            number => {
                let error = match number {
                    -1 => std::io::Error::last_os_error(),
                    number => std::io::Error::from_raw_os_error(number),
                };
                Err(Error::system(format!("verbs: device {}: {what}", self.name), error))
            }
        }
    }

    /// Checks whether the device has reported a failure of itself, its port or a queue. This is a call of the kernel.
    ///
    /// # Errors
    ///
    /// [`Error::World`] if it has.
    pub(super) fn look(&self) -> Result<()> {
        loop {
            let mut event = MaybeUninit::<ffi::ibv_async_event>::zeroed();
            // SAFETY: the descriptor does not block, so the call returns at once, with an event or none.
            if unsafe { ffi::ibv_get_async_event(self.context.as_ptr(), event.as_mut_ptr()) } != 0 {
                return Ok(());
            }
            // SAFETY: the library has filled the event. Its kind is read as a number, since there may be new ones.
            let kind = unsafe {
                let kind = (&raw const (*event.as_ptr()).event_type).cast::<u32>().read();
                ffi::ibv_ack_async_event(event.as_mut_ptr());
                kind
            };
            let what = match kind {
                0 => "a completion queue has overflowed",
                1 => "a queue pair has failed",
                8 => "it has failed, or was taken away",
                10 => "its port has gone down",
                _ => continue,
            };
            return Err(Error::world(format!(
                "verbs: device {}: {what} (asynchronous event {kind}); `rdma link` shows its state",
                self.name
            )));
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: every object made in the domain holds a reference to this value, so it no longer exists.
        unsafe {
            ffi::ibv_dealloc_pd(self.domain.as_ptr());
            ffi::ibv_close_device(self.context.as_ptr());
        }
    }
}

/// Memory that a device may access until this value is dropped.
pub(super) struct Region {
    region: NonNull<ffi::ibv_mr>,
    /// The owner of the memory, which must outlive the registration.
    _device: Arc<Device>,
    _memory: Option<Arc<Memory>>,
}

// SAFETY: as for `Device`.
unsafe impl Send for Region {}
// SAFETY: as for `Device`; after its making it is only read.
unsafe impl Sync for Region {}

/// The access rights of registered memory.
const LOCAL: u32 = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
const REMOTE: u32 = LOCAL
    | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
    | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
    | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;

impl Region {
    fn register(
        device: &Arc<Device>,
        start: *const u8,
        len: usize,
        access: u32,
        memory: Option<Arc<Memory>>,
    ) -> Result<Region> {
        // SAFETY: the kernel checks the range and pins its pages; the caller is responsible for letting the device
        // access them.
        let region =
            unsafe { ffi::ibv_reg_mr(device.domain.as_ptr(), start.cast_mut().cast(), len, access.cast_signed()) };
        match NonNull::new(region) {
            Some(region) => Ok(Region { region, _device: Arc::clone(device), _memory: memory }),
            None => {
                let error = std::io::Error::last_os_error();
                let what = format!("verbs: registering {len} bytes with {}", device.name);
                Err(match error.raw_os_error() {
                    Some(libc::ENOMEM | libc::EPERM | libc::EAGAIN) => {
                        Error::system(format!("{what}{}", memlock_advice()), error)
                    }
                    _ => Error::system(what, error),
                })
            }
        }
    }

    /// Registers memory of this process for the device and for the peers of its queue pairs.
    pub(super) fn segment(device: &Arc<Device>, memory: Arc<Memory>) -> Result<Region> {
        Region::register(device, memory.start().as_ptr(), memory.len(), REMOTE, Some(memory))
    }

    /// Registers memory of the program, which the caller keeps.
    pub(super) fn registered(device: &Arc<Device>, start: *const u8, len: usize) -> Result<Region> {
        Region::register(device, start, len, REMOTE, None)
    }

    /// Registers memory of the caller for this rank's own requests.
    pub(super) fn local(device: &Arc<Device>, start: *const u8, len: usize) -> Result<Region> {
        Region::register(device, start, len, LOCAL, None)
    }

    /// Returns the key of the memory in this rank's requests.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the region lives as long as `self`.
        unsafe { self.region.as_ref().lkey }
    }

    /// Returns the key of the memory in other ranks' requests.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.region.as_ref().rkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was made by the library and is given back once.
        unsafe { ffi::ibv_dereg_mr(self.region.as_ptr()) };
    }
}

/// A queue of completions, polled by one thread.
pub(super) struct Completions {
    queue: NonNull<ffi::ibv_cq>,
    device: Arc<Device>,
}

// SAFETY: as for `Device`. It is not Sync, so only one thread uses it at a time.
unsafe impl Send for Completions {}

/// One completion: the number of the request, and the library's status if it has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    pub(super) number: u64,
    pub(super) failure: Option<u32>,
}

/// The number of completions that a poll takes at a time.
const BATCH: usize = 8;

impl Completions {
    pub(super) fn new(device: &Arc<Device>, entries: u32) -> Result<Completions> {
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: the context is open; there is no channel, as completions are polled for.
        let queue = unsafe {
            let (none, channel) = (std::ptr::null_mut(), std::ptr::null_mut());
            ffi::ibv_create_cq(device.context.as_ptr(), entries, none, channel, 0)
        };
        let Some(queue) = NonNull::new(queue) else {
            let what = format!("verbs: making a completion queue of {entries} entries on {}", device.name);
            return Err(Error::system(what, std::io::Error::last_os_error()));
        };
        Ok(Completions { queue, device: Arc::clone(device) })
    }

    pub(super) fn queue(&self) -> NonNull<ffi::ibv_cq> {
        self.queue
    }

    /// Calls `each` for each completion, in order; returns their number.
    #[inline]
    pub(super) fn poll(&self, mut each: impl FnMut(Completion)) -> Result<usize> {
        let mut entries = MaybeUninit::<[ffi::ibv_wc; BATCH]>::uninit();
        // SAFETY: the library writes at most as many entries as the call allows.
        let count = unsafe { ffi::ibv_poll_cq(self.queue.as_ptr(), BATCH as i32, entries.as_mut_ptr().cast()) };
        let Ok(count) = usize::try_from(count) else {
            let what = format!("verbs: polling a completion queue of {}", self.device.name);
            return Err(Error::system(what, std::io::Error::last_os_error()));
        };
        for index in 0..count {
            // SAFETY: the library has written the first `count` entries; number and status are always valid.
            let entry = unsafe { entries.as_ptr().cast::<ffi::ibv_wc>().add(index).read() };
            let failure = (entry.status != ffi::ibv_wc_status::IBV_WC_SUCCESS).then_some(entry.status);
            each(Completion { number: entry.wr_id, failure });
        }
        Ok(count)
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that complete to it are declared before it, so they were dropped before.
        unsafe { ffi::ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

/// Returns the library's text for a completion's status.
pub(super) fn status_words(status: u32) -> String {
    // SAFETY: for any number, the library returns null or a C string that lives forever.
    unsafe {
        let words = ffi::ibv_wc_status_str(status);
        if words.is_null() { format!("status {status}") } else { CStr::from_ptr(words).to_string_lossy().into() }
    }
}

/// Returns advice for a system that does not let a rank lock its memory, with the current limit.
pub(super) fn memlock_advice() -> String {
    let limit = match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "unlimited".into(),
    };
    format!(
        " (the limit on locked memory is {limit}; raise it: `ulimit -l unlimited`, or `* - memlock unlimited` in a file of /etc/security/limits.d, or LimitMEMLOCK=infinity for a service such as slurmd)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_limit_and_three_ways_to_raise_it() {
        let advice = memlock_advice();
        for words in ["ulimit -l", "/etc/security/limits.d", "LimitMEMLOCK", "limit on locked memory is"] {
            assert!(advice.contains(words), "{advice}");
        }
    }
}
