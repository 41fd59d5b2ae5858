//! Memory that is attached to a dynamic window, and detached.

use rmalab_atomics::RemoteAtomics;

use crate::place::{TargetMemory, TargetPart};
use crate::trace::recorder::{Event, Kind};
use crate::{Call, Error, Result, UserMemory, WindowCore, WindowDisp};

impl<A: RemoteAtomics + ?Sized> WindowCore<'_, A> {
    /// Attaches this rank's part of `other` to a dynamic window, and returns its address for the others.
    ///
    /// So one dynamic window reaches memory of other windows, as DART nests shared windows in a dynamic one. The other
    /// window may be over another team of the same world, such as this rank's node. Detach the memory before `other` is
    /// freed. Otherwise later operations would reach memory with a new use.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`] when `other` is neither allocated nor shared, or when this window is not dynamic.
    /// [`Error::NoSuchTarget`] when its memory belongs to a rank that is not in this window's team. [`Error::Attach`] when
    /// `other` belongs to another world. The errors of [`attach`](Self::attach).
    pub fn attach_window<B: RemoteAtomics + ?Sized>(&self, other: &WindowCore<'_, B>) -> Result<WindowDisp> {
        self.attach_part(other).map_err(|error| self.hear(error))
    }

    fn attach_part<B: RemoteAtomics + ?Sized>(&self, other: &WindowCore<'_, B>) -> Result<WindowDisp> {
        let dynamic = self.dynamic(Call::Attach)?;
        let refuse = || Error::Flavor { call: Call::Attach, flavor: other.flavor() };
        let local = other.reach(Call::Local, other.ra.rank())?;
        let TargetPart::Fixed(TargetMemory::Segment(at)) = local.part() else { return Err(refuse()) };
        let (owner, team) = (at.rank, self.team);
        if !team.is_of_world_of(other.team) {
            let (rank, disp, len) = (team.rank(), WindowDisp(at.disp.0 as i64), local.bytes());
            let why = "the window belongs to another world, whose memory this window's team does not reach";
            return Err(Error::Attach { rank, disp, len, why });
        }
        let unknown = || Error::NoSuchTarget { call: Call::Attach, target: owner, size: team.size() };
        let at = other.team().translate(owner, team).ok_or_else(unknown)?.at(at.disp);
        // The program's address of the memory. If there is none, the displacement replaces it.
        let address = local.words().filter(|words| !words.is_empty()).map_or(at.disp.0, |words| words.as_ptr() as u64);
        let started = self.start_record();
        let disp = dynamic.attach_segment(self.ra, address, at, local.bytes())?;
        self.record(started, Event::of(Kind::Attach).moving(disp.0, local.bytes()));
        Ok(disp)
    }

    /// Detaches the memory that [`attach_window`](Self::attach_window) has attached at `disp`.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`], [`Error::Detach`].
    pub fn detach_window(&self, disp: WindowDisp) -> Result<()> {
        self.take(disp, false).map(drop).map_err(|error| self.hear(error))
    }

    /// Takes the region at `disp` off the list. `exposed` is true if the region has to be memory of the program.
    fn take(&self, disp: WindowDisp, exposed: bool) -> Result<Option<UserMemory>> {
        let (dynamic, ra) = (self.dynamic(Call::Detach)?, self.ra);
        if dynamic.is_exposed(disp) != Some(exposed) {
            return Err(Error::Detach { rank: ra.rank(), disp });
        }
        let started = self.start_record();
        let memory = dynamic.take(ra, disp)?;
        self.record(started, Event::of(Kind::Detach).moving(disp.0, 0));
        Ok(memory)
    }

    /// Detaches the memory at `disp`, and returns it (`MPI_Win_detach`).
    ///
    /// The call waits for operations of others that are under way. Later operations find nothing there.
    ///
    /// # Errors
    ///
    /// [`Error::Flavor`], [`Error::Detach`], and [`PeerFailed`](rmalab_atomics::Error::PeerFailed) when a rank has failed
    /// and the operation of another rank does not end. The memory is detached then, and never given back, since that rank
    /// may still write to it. Between processes of a host, an operation of a killed rank does not keep memory. Over
    /// `verbs` it does, since an adapter counts operations, without their ranks.
    pub fn detach(&self, disp: WindowDisp) -> Result<UserMemory> {
        let missing = || Error::Detach { rank: self.ra.rank(), disp };
        let detached = self.take(disp, true).and_then(|memory| memory.ok_or_else(missing));
        detached.map_err(|error| self.hear(error))
    }
}
