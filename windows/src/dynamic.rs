//! Dynamic windows: memory that comes and goes while the window lives.
//!
//! # Source
//!
//! foMPI's region lists: R. Gerstenberger, M. Besta, T. Hoefler, Enabling highly-scalable remote memory access programming
//! with MPI-3 one sided, SC'13, section 2.2: every rank keeps a list of its regions with a counter; the others keep
//! copies, and look at the counter before every use.
//!
//! # State
//!
//! | words, of each rank | value |
//! | --- | --- |
//! | version | odd while the owner changes the list, even otherwise; grows with every change |
//! | used | entries from this one on have never been used |
//! | entries, 4 words each | address, length (0 for none), key or rank, 0 or displacement + 1 |
//!
//! An entry names memory that its owner has exposed, or memory in a rank's segment.
//!
//! # Invariants
//!
//! * I1. A copy that was read between two looks at the same even version is a list that the owner had.
//! * I2. An operation on exposed memory holds a lease of it, so that a detach that comes between the look at the version
//!   and the operation either waits for it, or the lease is refused and the list is read anew. So what a peer does, however
//!   wrong the program, never meets memory that has been given back.
//!
//! # Cost
//!
//! An operation is one remote get of the version, the lease, and the operation; a change of the list makes it one bulk get more.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use rmalab_atomics::exposed::{ExposedKey, UserMemory};
use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{LINE, WindowLock};

use crate::target::{Part, Place};
use crate::{Call, Error, Result, Window, WindowDisp};

/// Regions that a rank may have attached at once.
pub const REGIONS: usize = 256;

/// Words of an entry.
const ENTRY: usize = 4;

/// Word operations' worth of pause while the owner changes its list.
const CHANGING: u32 = 4;

/// A dynamic window's memory: one rank's part.
#[derive(Debug)]
pub(crate) struct Dynamic {
    version: Disp,
    /// This rank's regions by address, and their entries' numbers.
    own: RefCell<BTreeMap<u64, (Region, usize)>>,
    /// What this rank knows of the others.
    known: RefCell<HashMap<Rank, Known>>,
    /// Targets that this rank has accessed since their last flush, and other ranks that had the memory.
    owners: RefCell<Vec<(Rank, Rank)>>,
}

#[derive(Debug, Default)]
struct Known {
    version: u64,
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
    Exposed(ExposedKey),
    Segment(Address),
}

impl Region {
    fn words(&self) -> [u64; ENTRY] {
        match self.memory {
            Memory::Exposed(key) => [self.address, self.len, key.0, 0],
            Memory::Segment(at) => [self.address, self.len, u64::from(at.rank.0), at.disp.0.wrapping_add(1)],
        }
    }

    /// The region of an entry; `None` for an empty one.
    fn of_words(&[address, len, key, segment]: &[u64; ENTRY]) -> Option<Region> {
        let memory = match segment {
            0 => Memory::Exposed(ExposedKey(key)),
            disp => Memory::Segment(Rank(u32::try_from(key).ok()?).at(Disp(disp - 1))),
        };
        (len > 0).then_some(Region { address, len, memory })
    }

    fn contains(&self, address: u64, len: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset <= self.len && len <= self.len - offset)
    }
}

impl Dynamic {
    pub(crate) fn new<A: RemoteAtomics + ?Sized>(ra: &A) -> Result<Dynamic> {
        let version = ra.heap().alloc(LINE + (REGIONS * ENTRY) as u64 * WORD, LINE)?;
        Ok(Dynamic::reader(version))
    }

    /// Another reader of the list that starts at `version`.
    pub(crate) fn reader(version: Disp) -> Dynamic {
        Dynamic { version, own: RefCell::default(), known: RefCell::default(), owners: RefCell::default() }
    }

    pub(crate) fn allocation(&self) -> Disp {
        self.version
    }

    /// Bytes of what is known of the others.
    pub(crate) fn remembered_bytes(&self) -> usize {
        let each = |known: &Known| size_of::<(Rank, Known)>() + size_of_val(&known.regions[..]);
        self.known.borrow().values().map(each).sum()
    }

    fn used(&self) -> Disp {
        self.version.word(1)
    }

    fn entry(&self, number: usize) -> Disp {
        self.version.plus(LINE).word((number * ENTRY) as u64)
    }

    /// The keys of all memory of the program that is attached, in the order of the addresses.
    pub(crate) fn keys(&self) -> Vec<ExposedKey> {
        let own = self.own.borrow();
        let keys = own.values().filter_map(|(region, _)| match region.memory {
            Memory::Exposed(key) => Some(key),
            Memory::Segment(_) => None,
        });
        keys.collect()
    }

    pub(crate) fn attach<A: RemoteAtomics + ?Sized>(&self, ra: &A, memory: UserMemory) -> Result<WindowDisp> {
        let (address, len) = (memory.start().as_ptr() as u64, memory.len() as u64);
        let number = self.room(ra, address, len)?;
        let key = ra.expose(memory).map_err(|refused| refused.error)?;
        self.add(ra, Region { address, len, memory: Memory::Exposed(key) }, number)
    }

    /// Attaches `len` bytes in a segment, which the program knows by `address`.
    pub(crate) fn attach_segment<A: RemoteAtomics + ?Sized>(
        &self,
        ra: &A,
        address: u64,
        at: Address,
        len: u64,
    ) -> Result<WindowDisp> {
        let number = self.room(ra, address, len)?;
        self.add(ra, Region { address, len, memory: Memory::Segment(at) }, number)
    }

    /// The number of a free entry, for memory that may be attached.
    fn room<A: RemoteAtomics + ?Sized>(&self, ra: &A, address: u64, len: u64) -> Result<usize> {
        let own = self.own.borrow();
        let refuse = |why| Error::Attach { rank: ra.rank(), disp: WindowDisp(address as i64), len, why };
        if len == 0 {
            return Err(refuse("there are no bytes to attach"));
        }
        let end = address.checked_add(len).ok_or_else(|| refuse("it reaches past the end of all addresses"))?;
        let overlaps = |(region, _): &(Region, usize)| region.address + region.len > address;
        if own.range(..end).next_back().is_some_and(|(_, region)| overlaps(region)) {
            return Err(refuse("it overlaps memory that is attached; detach that first"));
        }
        let mut taken = [false; REGIONS];
        own.values().for_each(|&(_, number)| taken[number] = true);
        taken.iter().position(|&taken| !taken).ok_or_else(|| {
            refuse("as many regions are attached as a rank may have; detach some, or attach larger ones")
        })
    }

    fn add<A: RemoteAtomics + ?Sized>(&self, ra: &A, region: Region, number: usize) -> Result<WindowDisp> {
        self.change(ra, number, region.words())?;
        self.own.borrow_mut().insert(region.address, (region, number));
        Ok(WindowDisp(region.address as i64))
    }

    /// Writes an entry of this rank's list.
    fn change<A: RemoteAtomics + ?Sized>(&self, ra: &A, number: usize, words: [u64; ENTRY]) -> Result<()> {
        let me = ra.rank();
        ra.fetch_add(me.at(self.version), 1)?;
        for (i, word) in (0..).zip(words) {
            ra.fetch_store(me.at(self.entry(number).word(i)), word)?;
        }
        if ra.get(me.at(self.used()))? <= number as u64 {
            ra.fetch_store(me.at(self.used()), number as u64 + 1)?;
        }
        ra.fetch_add(me.at(self.version), 1)?;
        Ok(())
    }

    /// Takes the region at `disp` off the list, and gives its memory back if it is of the program.
    pub(crate) fn take<A: RemoteAtomics + ?Sized>(&self, ra: &A, disp: WindowDisp) -> Result<Option<UserMemory>> {
        let removed = self.own.borrow_mut().remove(&(disp.0 as u64));
        let (region, number) = removed.ok_or(Error::Detach { rank: ra.rank(), disp })?;
        self.change(ra, number, [0; ENTRY])?;
        match region.memory {
            Memory::Exposed(key) => Ok(Some(ra.withdraw(key)?)),
            Memory::Segment(_) => Ok(None),
        }
    }

    /// Whether the region at `disp` is memory of the program, if there is one.
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
        then: impl FnOnce(Place<'_>, u64) -> Result<R>,
    ) -> Result<R> {
        let address = disp.0 as u64;
        loop {
            self.refresh(ra, rank)?;
            let known = self.known.borrow();
            let regions = known.get(&rank).map_or(&[][..], |known| &known.regions);
            let Some(&region) = regions.iter().find(|region| region.contains(address, len)) else {
                return Err(Error::NotAttached { call, target: rank, disp, len, regions: regions.len() });
            };
            drop(known);
            let offset = address - region.address;
            match region.memory {
                Memory::Segment(at) => {
                    self.note_owner(rank, at.rank);
                    return then(Place::Segment(at), offset);
                }
                Memory::Exposed(key) => match ra.lease(rank, key) {
                    Ok(lease) => return then(Place::Leased(&*lease), offset),
                    // Detached since the look at the version: the next look finds another one (I2).
                    Err(rmalab_atomics::Error::NotExposed { .. }) => ra.pause(CHANGING)?,
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// `owner` has memory of `target`, and has to be flushed with it.
    fn note_owner(&self, target: Rank, owner: Rank) {
        if owner == target {
            return;
        }
        let mut owners = self.owners.borrow_mut();
        if !owners.contains(&(target, owner)) {
            owners.push((target, owner));
        }
    }

    /// Flushes `target`, and the other ranks that had what was accessed there.
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

    /// Brings what is known of `rank` up to date.
    fn refresh<A: RemoteAtomics + ?Sized>(&self, ra: &A, rank: Rank) -> Result<()> {
        let mut known = self.known.borrow_mut();
        let known = known.entry(rank).or_default();
        loop {
            let version = ra.get(rank.at(self.version))?;
            if version == known.version {
                return Ok(());
            }
            if version.is_multiple_of(2) {
                let used = ra.get(rank.at(self.used()))?.min(REGIONS as u64) as usize;
                let mut words = vec![[0; ENTRY]; used];
                ra.get_bytes(rank.at(self.entry(0)), bytemuck::cast_slice_mut(&mut words))?;
                if ra.get(rank.at(self.version))? == version {
                    // I1
                    known.regions = words.iter().filter_map(Region::of_words).collect();
                    known.version = version;
                    return Ok(());
                }
            }
            ra.pause(CHANGING)?;
        }
    }
}

impl<A: RemoteAtomics + ?Sized, W: WindowLock> Window<'_, A, W> {
    /// Attaches this rank's part of `other` to a dynamic window, and returns its address for the others.
    ///
    /// So one dynamic window reaches memory that other windows have, as DART nests shared windows in one. The other one may
    /// be over another team of the same world, such as this rank's node. What is attached has to be detached before `other`
    /// is freed: behind that, operations would meet whoever gets the memory next.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`] when `other` is neither allocated nor shared, or when this window is not dynamic,
    /// [`Error::NoSuchTarget`] when its memory belongs to a rank that is not in this window's team, [`Error::Attach`] when
    /// `other` is of another world, and as [`attach`](Self::attach).
    pub fn attach_window<B: RemoteAtomics + ?Sized, V: WindowLock>(
        &self,
        other: &Window<'_, B, V>,
    ) -> Result<WindowDisp> {
        let dynamic = self.core.dynamic(Call::Attach)?;
        let refuse = || Error::Flavor { call: Call::Attach, flavor: other.flavor() };
        let local = other.local()?;
        let Part::Fixed(Place::Segment(at)) = local.part() else { return Err(refuse()) };
        let (owner, team) = (at.rank, self.core.team);
        if !team.is_of_world_of(other.core.team) {
            let (rank, disp, len) = (team.rank(), WindowDisp(at.disp.0 as i64), local.bytes());
            let why = "the window belongs to another world, whose memory this window's team does not reach";
            return Err(Error::Attach { rank, disp, len, why });
        }
        let unknown = || Error::NoSuchTarget { call: Call::Attach, target: owner, size: team.size() };
        let at = other.team().translate(owner, team).ok_or_else(unknown)?.at(at.disp);
        // The address by which the program knows the memory; where it has none, the displacement is as good.
        let address = local.words().filter(|words| !words.is_empty()).map_or(at.disp.0, |words| words.as_ptr() as u64);
        dynamic.attach_segment(self.core.ra, address, at, local.bytes())
    }

    /// Detaches what [`attach_window`](Self::attach_window) has attached at `disp`.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`], [`Error::Detach`].
    pub fn detach_window(&self, disp: WindowDisp) -> Result<()> {
        let (dynamic, ra) = (self.core.dynamic(Call::Detach)?, self.core.ra);
        match dynamic.is_exposed(disp) {
            Some(false) => dynamic.take(ra, disp).map(drop),
            Some(true) | None => Err(Error::Detach { rank: ra.rank(), disp }),
        }
    }

    /// Detaches the memory at `disp`, and gives it back (`MPI_Win_detach`).
    ///
    /// Operations of others that are under way are waited for; later ones find nothing there.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`], [`Error::Detach`], and [`PeerFailed`](rmalab_atomics::Error::PeerFailed) when a rank has failed
    /// and an operation is under way. Which rank's operation it is cannot be told, and it may be one that still writes, so
    /// the memory is detached then and never given back.
    pub fn detach(&self, disp: WindowDisp) -> Result<UserMemory> {
        let (dynamic, ra) = (self.core.dynamic(Call::Detach)?, self.core.ra);
        let detached = match dynamic.is_exposed(disp) {
            Some(true) => dynamic.take(ra, disp)?,
            Some(false) | None => None,
        };
        detached.ok_or(Error::Detach { rank: ra.rank(), disp })
    }
}
