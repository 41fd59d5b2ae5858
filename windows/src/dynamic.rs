//! Dynamic windows: memory that ranks attach and detach while the window lives.
//!
//! # Source
//!
//! foMPI's region lists: R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access programming with MPI-3
//! one sided, SC'13, section 2.2: every rank has a list of its regions with a counter. Other ranks have copies, and read the counter
//! before every use.
//!
//! # State
//!
//! | words, of each rank | value |
//! | --- | --- |
//! | version | odd while the owner changes the list, even otherwise; grows with every change |
//! | used | entries from this one on have never been used |
//! | far | the key of the far entries, if more than [`NEAR`] entries are used |
//! | entries, 4 words each | address, length (0 for none), key or rank, 0 or displacement + 1 |
//!
//! An entry names memory that its owner has registered, or memory in a rank's segment. The first [`NEAR`] entries are in the owner's segment.
//! The others are the far entries, in registered memory of the owner. When a list is full, a list of twice its length replaces it. So a
//! window takes little of the segments, and only the backend limits the number of regions, by its limit of registered memory.
//!
//! # Invariants
//!
//! * I1. A copy is a list that the owner had, if the same even version was read before and after it.
//! * I2. An operation on registered memory pins it. If a detach comes between the read of the version and the operation, either the detach
//!   waits, or the pin fails and the list is read again. So no operation of a peer touches memory that was returned to the program, even if
//!   the program is incorrect.
//!
//! # Cost
//!
//! An operation is one remote get of the version, a bisection, the pin, and the operation. After a change of the list it needs one more bulk
//! get, or two with far entries. An operation across regions that touch pins each of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rmalab_atomics::registered::{Pinned, RegisteredKey, UserMemory};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::LINE;

use crate::place::{Joined, TargetMemory};
use crate::{Call, Error, Result, WindowDisp};

/// Entries in a rank's segment.
const NEAR: usize = 256;

/// Words of an entry.
const ENTRY: usize = 4;

/// The pause while the owner changes its list, in word operations.
const CHANGING: u32 = 4;

/// One rank's part of a dynamic window's memory.
#[derive(Debug)]
pub(crate) struct Dynamic {
    version: Disp,
    /// The numbers of the team's ranks for this handle, where they differ from the numbers in the list.
    ranks: Arc<[Rank]>,
    /// This rank's regions by address, and their entries' numbers.
    own: RefCell<BTreeMap<u64, (Region, usize)>>,
    /// Numbers of entries that have been used, and are free.
    free: RefCell<Vec<usize>>,
    /// This rank's far entries.
    far: Cell<Option<Far>>,
    /// This rank's copies of the other ranks' lists.
    known: RefCell<HashMap<Rank, Known>>,
    /// Targets that this rank has accessed since their last flush, and other ranks that had the memory.
    owners: RefCell<Vec<(Rank, Rank)>>,
}

/// A list of far entries, and its capacity.
#[derive(Clone, Copy, Debug)]
struct Far {
    key: RegisteredKey,
    room: usize,
}

#[derive(Debug, Default)]
struct Known {
    version: u64,
    /// In the order of the addresses. None overlap.
    regions: Vec<Region>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    address: u64,
    len: u64,
    memory: Memory,
}

#[derive(Clone, Copy, Debug)]
enum Memory {
    Exposed(RegisteredKey),
    Segment(Address),
}

/// A region's memory, which stays valid while this value lives.
enum Lease<'a> {
    Exposed(Box<dyn Pinned + 'a>),
    Segment(Address),
}

/// The memory of an operation, and the operation's offset there.
enum Found<'a> {
    Region(Lease<'a>, u64),
    /// Adjoining regions, with their lengths.
    Joined(Vec<(u64, Lease<'a>)>, u64),
}

impl Lease<'_> {
    fn place(&self) -> TargetMemory<'_> {
        match self {
            Lease::Exposed(lease) => TargetMemory::Leased(&**lease),
            &Lease::Segment(at) => TargetMemory::Segment(at),
        }
    }
}

impl Region {
    fn words(&self) -> [u64; ENTRY] {
        match self.memory {
            Memory::Exposed(key) => [self.address, self.len, key.0, 0],
            Memory::Segment(at) => [self.address, self.len, u64::from(at.rank.0), at.disp.0.wrapping_add(1)],
        }
    }

    /// Returns the region of an entry; `None` for an empty entry.
    fn of_words(&[address, len, key, segment]: &[u64; ENTRY]) -> Option<Region> {
        let memory = match segment {
            0 => Memory::Exposed(RegisteredKey(key)),
            disp => Memory::Segment(Rank(u32::try_from(key).ok()?).at(Disp(disp - 1))),
        };
        (len > 0).then_some(Region { address, len, memory })
    }

    fn contains(&self, address: u64, len: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset <= self.len && len <= self.len - offset)
    }
}

/// Returns the regions of `regions`, which are in the order of their addresses, that together have `len` bytes at
/// `address`: each begins where the previous one ends.
fn touching(regions: &[Region], address: u64, len: u64) -> Option<Vec<Region>> {
    let first = regions.partition_point(|region| region.address <= address).checked_sub(1)?;
    let (regions, end) = (&regions[first..], address.checked_add(len)?);
    let mut reached = regions[0].address;
    let mut count = 0;
    while reached < end {
        let next = regions.get(count).filter(|region| region.address == reached)?;
        reached = reached.checked_add(next.len)?;
        count += 1;
        if reached <= address {
            // The first byte is in no region.
            return None;
        }
    }
    Some(regions[..count].to_vec())
}

impl Dynamic {
    pub(crate) fn new<A: RemoteAtomics + ?Sized>(ra: &A) -> Result<Dynamic> {
        let version = ra.heap().alloc(LINE + (NEAR * ENTRY) as u64 * WORD, LINE)?;
        Ok(Dynamic::reader(version, Arc::default()))
    }

    /// Makes another reader of the list that starts at `version`. Its handle has the numbers `ranks` for the team's ranks;
    /// none if they are the same.
    pub(crate) fn reader(version: Disp, ranks: Arc<[Rank]>) -> Dynamic {
        Dynamic {
            version,
            ranks,
            own: RefCell::default(),
            free: RefCell::default(),
            far: Cell::new(None),
            known: RefCell::default(),
            owners: RefCell::default(),
        }
    }

    pub(crate) fn allocation(&self) -> Disp {
        self.version
    }

    /// Returns the bytes of this rank's copies of the other ranks' lists.
    pub(crate) fn remembered_bytes(&self) -> usize {
        let each = |known: &Known| size_of::<(Rank, Known)>() + size_of_val(&known.regions[..]);
        self.known.borrow().values().map(each).sum()
    }

    fn used(&self) -> Disp {
        self.version.word(1)
    }

    fn far_key(&self) -> Disp {
        self.version.word(2)
    }

    fn entry(&self, number: usize) -> Disp {
        self.version.plus(LINE).word((number * ENTRY) as u64)
    }

    /// Returns the keys of all attached memory of the program, in the order of the addresses.
    pub(crate) fn keys(&self) -> Vec<RegisteredKey> {
        let own = self.own.borrow();
        let keys = own.values().filter_map(|(region, _)| match region.memory {
            Memory::Exposed(key) => Some(key),
            Memory::Segment(_) => None,
        });
        keys.collect()
    }

    /// Returns the key of the far entries, if there are any.
    pub(crate) fn list(&self) -> Option<RegisteredKey> {
        self.far.get().map(|far| far.key)
    }

    pub(crate) fn attach<A: RemoteAtomics + ?Sized>(&self, ra: &A, memory: UserMemory) -> Result<WindowDisp> {
        let (address, len) = (memory.start().as_ptr() as u64, memory.len() as u64);
        self.check(ra, address, len)?;
        let key = ra.register(memory).map_err(|refused| full(ra, address, len, refused.error))?;
        let added = self.add(ra, Region { address, len, memory: Memory::Exposed(key) });
        if added.is_err() {
            ra.deregister(key)?;
        }
        added
    }

    /// Attaches `len` bytes in a segment, under the program's address `address`.
    pub(crate) fn attach_segment<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        address: u64,
        at: Address,
        len: u64,
    ) -> Result<WindowDisp> {
        self.check(ra, address, len)?;
        self.add(ra, Region { address, len, memory: Memory::Segment(at) })
    }

    /// Refuses memory that may not be attached.
    fn check<A: RemoteAtomics + ?Sized>(&self, ra: &A, address: u64, len: u64) -> Result<()> {
        let refuse = |why| Err(Error::Attach { rank: ra.rank(), disp: WindowDisp(address as i64), len, why });
        if len == 0 {
            return refuse("there are no bytes to attach");
        }
        let Some(end) = address.checked_add(len) else { return refuse("it reaches past the end of all addresses") };
        let overlaps = |(region, _): &(Region, usize)| region.address + region.len > address;
        if self.own.borrow().range(..end).next_back().is_some_and(|(_, region)| overlaps(region)) {
            return refuse("it overlaps memory that is attached; detach that first");
        }
        Ok(())
    }

    fn add<A: RemoteAtomics + ?Sized>(&self, ra: &A, region: Region) -> Result<WindowDisp> {
        let mut free = self.free.borrow_mut();
        let number = free.last().copied().unwrap_or(self.own.borrow().len());
        self.change(ra, number, &region, region.words())?;
        free.pop();
        self.own.borrow_mut().insert(region.address, (region, number));
        Ok(WindowDisp(region.address as i64))
    }

    /// Writes the entry of `region` in this rank's list.
    fn change<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        number: usize,
        region: &Region,
        words: [u64; ENTRY],
    ) -> Result<()> {
        let me = ra.rank();
        let far = number.checked_sub(NEAR);
        let longer = match far {
            Some(at) if self.far.get().is_none_or(|far| at >= far.room) => {
                Some(self.longer(ra).map_err(|error| full(ra, region.address, region.len, error))?)
            }
            _ => None,
        };
        ra.fetch_add(me.at(self.version), 1)?;
        let shorter = longer.and_then(|longer| self.far.replace(Some(longer)));
        if let Some(longer) = longer {
            ra.fetch_store(me.at(self.far_key()), longer.key.0)?;
        }
        match (far, self.far.get()) {
            (Some(at), Some(far)) => {
                let lease = ra.pin(me, far.key)?;
                lease.put((at * ENTRY) as u64 * WORD, bytemuck::cast_slice(&words))?;
                ra.flush(me)?;
            }
            _ => {
                for (i, word) in (0..).zip(words) {
                    ra.fetch_store(me.at(self.entry(number).word(i)), word)?;
                }
            }
        }
        if ra.get(me.at(self.used()))? <= number as u64 {
            ra.fetch_store(me.at(self.used()), number as u64 + 1)?;
        }
        ra.fetch_add(me.at(self.version), 1)?;
        if let Some(shorter) = shorter {
            // Waits for the readers that still use it. The next look of each reader finds the longer list.
            drop(ra.deregister(shorter.key)?);
        }
        Ok(())
    }

    /// Registers a list of far entries with twice the capacity, and with the present entries.
    fn longer<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<Far, rmalab_atomics::Error> {
        let room = self.far.get().map_or(NEAR, |far| 2 * far.room);
        let mut words = vec![[0; ENTRY]; room];
        for (region, number) in self.own.borrow().values() {
            if let Some(at) = number.checked_sub(NEAR) {
                words[at] = region.words();
            }
        }
        let key = ra.register(UserMemory::from_vec(words)).map_err(|refused| refused.error)?;
        Ok(Far { key, room })
    }

    /// Takes the region at `disp` off the list, and gives its memory back if it belongs to the program.
    pub(crate) fn take<A: RemoteAtomics + ?Sized>(&self, ra: &A, disp: WindowDisp) -> Result<Option<UserMemory>> {
        let removed = self.own.borrow_mut().remove(&(disp.0 as u64));
        let (region, number) = removed.ok_or(Error::Detach { rank: ra.rank(), disp })?;
        self.change(ra, number, &region, [0; ENTRY])?;
        self.free.borrow_mut().push(number);
        match region.memory {
            Memory::Exposed(key) => Ok(Some(ra.deregister(key)?)),
            Memory::Segment(_) => Ok(None),
        }
    }

    /// Returns whether the region at `disp` is memory of the program, if there is one.
    pub(crate) fn is_exposed(&self, disp: WindowDisp) -> Option<bool> {
        self.own.borrow().get(&(disp.0 as u64)).map(|(region, _)| matches!(region.memory, Memory::Exposed(_)))
    }

    /// Calls `then` with the place of `len` bytes at the address `disp` of `rank`, and their offset there.
    pub(crate) fn with_region<A: RemoteAtomics + ?Sized, R>(
        &self,
        ra: &A,
        call: Call,
        rank: Rank,
        disp: WindowDisp,
        len: u64,
        then: impl FnOnce(TargetMemory<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        match self.find(ra, call, rank, disp, len)? {
            Found::Region(lease, offset) => then(lease.place(), offset),
            Found::Joined(leases, offset) => {
                let places = leases.iter().map(|(len, lease)| (*len, lease.place()));
                then(TargetMemory::Joined(&Joined::new(places)), offset)
            }
        }
    }

    /// Finds `len` bytes at the address `disp` of `rank`, and keeps them attached as long as the result lives.
    fn find<'a, A: RemoteAtomics + ?Sized>(
        &self,
        ra: &'a A,
        call: Call,
        rank: Rank,
        disp: WindowDisp,
        len: u64,
    ) -> Result<Found<'a>> {
        let address = disp.0 as u64;
        loop {
            self.refresh(ra, rank)?;
            let known = self.known.borrow();
            let regions = known.get(&rank).map_or(&[][..], |known| &known.regions);
            let next = regions.partition_point(|region| region.address <= address);
            let before = next.checked_sub(1).map(|at| &regions[at]);
            let Some(&region) = before.filter(|region| region.contains(address, len)) else {
                drop(known);
                return self.find_joined(ra, call, rank, disp, len);
            };
            drop(known);
            let offset = address - region.address;
            match region.memory {
                Memory::Segment(at) => return Ok(Found::Region(Lease::Segment(self.in_segment(rank, at)), offset)),
                Memory::Exposed(key) => match ra.pin(rank, key) {
                    Ok(lease) => return Ok(Found::Region(Lease::Exposed(lease), offset)),
                    // The region was detached after the look at the version. The next look finds another version (I2).
                    Err(rmalab_atomics::Error::NotRegistered { .. }) => ra.pause(CHANGING)?,
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// Like [`find`](Self::find), for bytes that no single region has.
    #[cold]
    #[inline(never)]
    fn find_joined<'a, A: RemoteAtomics + ?Sized>(
        &self,
        ra: &'a A,
        call: Call,
        rank: Rank,
        disp: WindowDisp,
        len: u64,
    ) -> Result<Found<'a>> {
        let address = disp.0 as u64;
        loop {
            self.refresh(ra, rank)?;
            let known = self.known.borrow();
            let regions = known.get(&rank).map_or(&[][..], |known| &known.regions);
            let Some(touching) = touching(regions, address, len) else {
                return Err(Error::NotAttached { call, target: rank, disp, len, regions: regions.len() });
            };
            drop(known);
            match self.lease_all(ra, rank, &touching)? {
                Some(leases) => {
                    let joined = touching.iter().map(|region| region.len).zip(leases).collect();
                    return Ok(Found::Joined(joined, address - touching[0].address));
                }
                None => ra.pause(CHANGING)?,
            }
        }
    }

    /// Pins all `regions` of `rank`. Returns `None` if one of them has been detached since the look at the version.
    #[cold]
    fn lease_all<'a, A: RemoteAtomics + ?Sized>(
        &self,
        ra: &'a A,
        rank: Rank,
        regions: &[Region],
    ) -> Result<Option<Vec<Lease<'a>>>> {
        let mut leases = Vec::with_capacity(regions.len());
        for region in regions {
            leases.push(match region.memory {
                Memory::Segment(at) => Lease::Segment(self.in_segment(rank, at)),
                Memory::Exposed(key) => match ra.pin(rank, key) {
                    Ok(lease) => Lease::Exposed(lease),
                    Err(rmalab_atomics::Error::NotRegistered { .. }) => return Ok(None),
                    Err(error) => return Err(error.into()),
                },
            });
        }
        Ok(Some(leases))
    }

    /// Returns the address of a region of `target` in this handle's numbers. Its rank then has to be flushed with the
    /// target.
    fn in_segment(&self, target: Rank, at: Address) -> Address {
        let owner = self.ranks.get(at.rank.index()).copied().unwrap_or(at.rank);
        self.note_owner(target, owner);
        owner.at(at.disp)
    }

    /// Notes that `owner` has memory of `target`, and has to be flushed with it.
    fn note_owner(&self, target: Rank, owner: Rank) {
        if owner == target {
            return;
        }
        let mut owners = self.owners.borrow_mut();
        if !owners.contains(&(target, owner)) {
            owners.push((target, owner));
        }
    }

    /// Returns whether memory of another rank was accessed through `target` since its last flush.
    pub(crate) fn has_other_owner(&self, target: Rank) -> bool {
        self.owners.borrow().iter().any(|&(accessed, _)| accessed == target)
    }

    /// Flushes `target`, and the other ranks whose memory was accessed through it.
    pub(crate) fn flush<A: RemoteAtomics + ?Sized>(&self, ra: &A, target: Rank) -> Result<()> {
        let mut flushed = ra.flush(target);
        self.owners.borrow_mut().retain(|&(accessed, owner)| {
            if accessed == target && flushed.is_ok() {
                flushed = ra.flush(owner);
            }
            accessed != target
        });
        Ok(flushed?)
    }

    /// Updates this rank's copy of the list of `rank`.
    fn refresh<A: RemoteAtomics + ?Sized>(&self, ra: &A, rank: Rank) -> Result<()> {
        let mut known = self.known.borrow_mut();
        let known = known.entry(rank).or_default();
        loop {
            let version = ra.get(rank.at(self.version))?;
            if version == known.version {
                return Ok(());
            }
            if version.is_multiple_of(2) {
                let mut words = self.near_entries(ra, rank)?;
                let is_whole = words.len() < NEAR || self.far_entries(ra, rank, &mut words)?;
                if is_whole && ra.get(rank.at(self.version))? == version {
                    // I1
                    known.regions = words.iter().filter_map(Region::of_words).collect();
                    known.regions.sort_unstable_by_key(|region| region.address);
                    known.version = version;
                    return Ok(());
                }
            }
            ra.pause(CHANGING)?;
        }
    }

    /// Returns the used entries in the segment of `rank`.
    fn near_entries<A: RemoteAtomics + ?Sized>(&self, ra: &A, rank: Rank) -> Result<Vec<[u64; ENTRY]>> {
        let used = ra.get(rank.at(self.used()))?.min(NEAR as u64) as usize;
        let mut words = vec![[0; ENTRY]; used];
        ra.get_bytes(rank.at(self.entry(0)), bytemuck::cast_slice_mut(&mut words))?;
        Ok(words)
    }

    /// Adds the far entries of `rank` to `words`. Returns whether the list was still there.
    fn far_entries<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        rank: Rank,
        words: &mut Vec<[u64; ENTRY]>,
    ) -> Result<bool> {
        let used = ra.get(rank.at(self.used()))? as usize;
        if used <= NEAR {
            return Ok(true);
        }
        let lease = match ra.pin(rank, RegisteredKey(ra.get(rank.at(self.far_key()))?)) {
            Ok(lease) => lease,
            // A longer list has replaced it since the look at its key.
            Err(rmalab_atomics::Error::NotRegistered { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // The two numbers may belong to different versions, which the caller detects.
        let room = (lease.bytes() / (ENTRY as u64 * WORD)) as usize;
        words.resize(NEAR + (used - NEAR).min(room), [0; ENTRY]);
        lease.get(0, bytemuck::cast_slice_mut(&mut words[NEAR..]))?;
        Ok(true)
    }
}

/// Returns the error of an attach after the registration's `error`.
fn full<A: RemoteAtomics + ?Sized>(ra: &A, address: u64, len: u64, error: rmalab_atomics::Error) -> Error {
    match error {
        rmalab_atomics::Error::RegistrationFull { rank, .. } if rank == ra.rank() => Error::Attach {
            rank,
            disp: WindowDisp(address as i64),
            len,
            why: "as many regions are attached as the network has places for exposed memory; detach some, or attach larger ones",
        },
        error => error.into(),
    }
}
