//! The memory of a replay's window, and the translation of recorded addresses.

use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Error as AtomicsError, Rank, RemoteAtomics, WORD};
use rmalab_locks::WindowLock;

use super::shape::{Region, Shape, packed};
use crate::{Error, Result, Window, WindowDisp};

/// The new addresses of memory that was attached to a dynamic window.
#[derive(Default, Debug)]
pub(super) struct Moved {
    /// The recorded regions of each rank, and their new addresses. Empty for other windows.
    regions: Vec<(Vec<Region>, Vec<i64>)>,
}

impl Moved {
    /// Makes the translation for an allocated window.
    pub(super) fn packed(shape: &Shape) -> Moved {
        Moved { regions: shape.regions.iter().map(|regions| (regions.clone(), packed(regions).0)).collect() }
    }

    /// Returns the new address of the memory that was at `disp`.
    pub(super) fn find(&self, target: Rank, disp: WindowDisp) -> WindowDisp {
        let Some((regions, starts)) = self.regions.get(target.index()) else { return disp };
        let after = regions.partition_point(|region| region.start as u64 <= disp.0 as u64);
        match after.checked_sub(1).and_then(|at| Some((regions.get(at)?, starts.get(at)?))) {
            Some((region, &start)) => WindowDisp(start.wrapping_add(disp.0.wrapping_sub(region.start))),
            // The window refuses this address.
            None => disp,
        }
    }
}

/// Returns the error for memory that this program cannot allocate.
fn too_large() -> Error {
    let (what, why) = ("memory of the recorded size", "this program cannot allocate as much");
    AtomicsError::Unsupported { what, why }.into()
}

/// Refuses an impossible size, on all ranks alike.
pub(super) fn check_size(bytes: u64) -> Result<()> {
    let words = usize::try_from(bytes.div_ceil(WORD) + 1).map_err(|_| too_large())?;
    Vec::<u64>::new().try_reserve_exact(words).map_err(|_| too_large())
}

/// Allocates zeroed memory of the program, whose address has the same offset within a word as `start`.
pub(super) fn memory(start: i64, bytes: u64) -> Result<UserMemory> {
    let first = (start as u64 % WORD) as usize;
    let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
    let words = UserMemory::from_vec(vec![0u64; (first + bytes).div_ceil(WORD as usize)]);
    Ok(words.part(first..first + bytes).unwrap_or(UserMemory::from_vec(Vec::<u64>::new())))
}

/// Attaches this rank's regions, and gathers the addresses of the other ranks' regions.
pub(super) fn attach_all<A: RemoteAtomics + ?Sized, W: WindowLock>(
    window: &Window<'_, A, W>,
    shape: &Shape,
) -> Result<Moved> {
    let team = window.team();
    let most = shape.regions.iter().map(Vec::len).max().unwrap_or(0);
    let mut own = Vec::with_capacity(most + 1);
    let mut attached = Ok(());
    for region in shape.regions.get(team.rank().index()).into_iter().flatten() {
        match memory(region.start, region.bytes).and_then(|memory| window.attach(memory)) {
            Ok(start) => own.push(start.0 as u64),
            Err(error) => {
                attached = Err(error);
                break;
            }
        }
    }
    own.resize(most, 0);
    own.push(u64::from(attached.is_err()));
    // This is called after an error, too, so that no rank waits forever.
    let all = team.allgather(&own)?;
    attached?;
    let ranks = all.chunks_exact(most + 1);
    if let Some((rank, _)) = (0..).zip(ranks.clone()).find(|(_, starts)| starts[most] != 0) {
        return Err(Error::NotMade { rank: Rank(rank) });
    }
    let regions = shape.regions.iter().zip(ranks).map(|(regions, starts)| {
        let starts = starts.iter().take(regions.len()).map(|&start| start as i64);
        (regions.clone(), starts.collect())
    });
    Ok(Moved { regions: regions.collect() })
}
