//! The death of a rank: every operation that could wait for it forever returns an error, on every other rank.

use std::time::Duration;

use super::{Failure, Lab, Outcome, require};
use crate::{Error, Rank, RemoteAtomics, Result, Until};

/// Rank 1 dies in `die`. All other ranks, each blocked in another way, get [`PeerFailed`](Error::PeerFailed) with rank
/// 1.
///
/// All ranks of a world of at least 3 call it. For threads `die` is a panic, which the caller of the world catches. For
/// processes it is an abort or a signal, so that no destructor runs. The world cannot be used afterwards.
///
/// # Errors
///
/// A [`Failure`] when a rank gets anything else, when `die` returns, or in a world of fewer than 3 ranks.
pub fn peer_death<A: RemoteAtomics + ?Sized>(ra: &A, die: impl FnOnce()) -> Result<(), Failure> {
    let body = || -> Outcome {
        let lab = Lab::new(CHECK, ra)?;
        require!(lab.size() >= 3, "this check needs 3 ranks");
        let word = lab.alloc(1)?;
        lab.barrier()?;
        if lab.me() == 1 {
            // All ranks have left the barrier then, and most of the time they are blocked.
            ra.wait_until(word, Until::Ge(lab.size() - 1))?;
            for _ in 0..4 {
                ra.pause(10_000)?;
            }
            die();
            require!(false, "this rank should have died here");
        }
        ra.fetch_add(Rank(1).at(word), 1)?;
        // Rank 1 is dead, now or soon, so its operations never happen. After its first error, each rank gets the error
        // again in all other ways.
        for way in lab.me()..lab.me() + WAYS {
            expect(way, &block(&lab, way, word))?;
        }
        Ok(())
    };
    body().map_err(|stop| stop.explain(CHECK, ra))
}

const CHECK: &str = "peer_death";

/// The number of ways to block.
const WAYS: u64 = 6;

/// Waits, in one of the ways, for something that never happens.
fn block<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>, way: u64, word: crate::Disp) -> Result<()> {
    let ra = lab.ra;
    match way % WAYS {
        0 => ra.wait_until(word, Until::Ne(0)).map(drop),
        1 => ra.wait_until_deadline(word, Until::Ne(0), ra.now().after(Duration::from_secs(3600))).map(drop),
        2 => lab.collectives.barrier(),
        3 => loop {
            // Polls a live rank for a word that the dead rank would have written.
            let _ = ra.get(Rank(0).at(word))?;
            ra.pause(1)?;
        },
        4 => loop {
            ra.pause(10_000)?;
        },
        _ => lab.collectives.broadcast(Rank(1), &mut [0]),
    }
}

fn expect(way: u64, seen: &Result<()>) -> Outcome {
    let right = matches!(seen, Err(Error::PeerFailed { rank: Rank(1) }));
    require!(right, "blocked in way {}, it got {seen:?} and not the failure of rank 1", way % WAYS);
    Ok(())
}
