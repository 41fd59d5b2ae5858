//! The death of a rank: on every other rank, each operation that could wait for it forever returns an error, until the
//! caller has acknowledged the failure.

use std::time::Duration;

use super::{Failure, Lab, Outcome, require};
use crate::{Collectives, Error, Failed, Rank, RemoteAtomics, Result, Survivors, Until};

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
        // Rank 1 is dead, now or soon, so the awaited operations never happen. After its first error, each rank gets
        // the error again in all other ways.
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

/// Rank 1 dies in `die`. All other ranks learn of it, acknowledge it, and go on.
///
/// The conditions of [`peer_death`] apply.
///
/// # Errors
///
/// The errors of [`peer_death`].
pub fn survivors_go_on<A: RemoteAtomics + ?Sized>(ra: &A, die: impl FnOnce()) -> Result<(), Failure> {
    let body = || -> Outcome {
        let lab = Lab::new(SURVIVAL, ra)?;
        require!(lab.size() >= 3, "this check needs 3 ranks");
        let word = lab.alloc(3)?;
        let token = word.word(2);
        require!(ra.failed()?.is_empty(), "no rank has failed, but {} has", ra.failed()?);
        let early = ra.acknowledge(&Failed::from_iter([Rank(1)]));
        require!(matches!(early, Err(Error::NotFailed { rank: Rank(1) })), "a live rank: {early:?}");
        lab.barrier()?;
        if lab.me() == 1 {
            // Its puts to a live rank are complete, so they are there.
            ra.put(Rank(0).at(word.word(1)), 7)?;
            ra.flush(Rank(0))?;
            ra.wait_until(word, Until::Ge(lab.size() - 1))?;
            die();
            require!(false, "this rank should have died here");
        }
        ra.fetch_add(Rank(1).at(word), 1)?;
        let told = ra.wait_until(word, Until::Ne(0));
        require!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "a wait got {told:?}");
        let failed = ra.failed()?;
        require!(failed == Failed::from_iter([Rank(1)]), "rank 1 has failed, and this rank knows of {failed}");
        let told = ra.pause(1);
        require!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "a pause got {told:?}");
        let wrong = ra.acknowledge(&Failed::from_iter([Rank(0), Rank(1)]));
        require!(matches!(wrong, Err(Error::NotFailed { rank: Rank(0) })), "a live rank: {wrong:?}");
        let wrong = ra.silence(&Failed::from_iter([Rank(1), Rank(lab.size() as u32)]));
        require!(matches!(wrong, Err(Error::NotFailed { .. })), "a rank that does not exist: {wrong:?}");
        let told = ra.pause(1);
        require!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "not acknowledged: {told:?}");
        ra.acknowledge(&failed)?;
        ra.silence(&failed)?;
        ra.pause(1)?;
        let soon = ra.now().after(Duration::from_micros(10));
        let none = ra.wait_until_deadline(word, Until::Eq(u64::MAX), soon)?;
        require!(none.is_none(), "no rank writes {none:?}");
        // A token goes around among the survivors. A rank that has left with an error passes no token on.
        let me = lab.me() as u32;
        let next = Rank(if u64::from(me) + 1 == lab.size() { 0 } else { (me + 1).max(2) });
        let before = Rank(match me {
            0 => lab.size() as u32 - 1,
            2 => 0,
            _ => me - 1,
        });
        for round in 1..=3 {
            if me != 0 {
                ra.wait_until_from(token, Until::Eq(round), before)?;
            }
            ra.put(next.at(token), round)?;
            if me == 0 {
                ra.wait_until_from(token, Until::Eq(round), before)?;
            }
        }
        let left = ra.get(Rank(0).at(word.word(1)))?;
        require!(left == 7, "{left} and not the 7 that rank 1 has put before it died");
        ra.flush_all()?;
        Ok(())
    };
    body().map_err(|stop| stop.explain(SURVIVAL, ra))
}

const SURVIVAL: &str = "survivors_go_on";

/// Rank 1 dies in `die`. Rank 0 acknowledges that, and waits for an event that never happens. All other ranks revoke the world.
/// So all of them meet in a world of the survivors.
///
/// The conditions of [`peer_death`] apply.
///
/// # Errors
///
/// The errors of [`peer_death`].
pub fn revocation_ends_waits<A: RemoteAtomics + ?Sized>(ra: &A, die: impl FnOnce()) -> Result<(), Failure> {
    let body = || -> Outcome {
        let lab = Lab::new(REVOCATION, ra)?;
        require!(lab.size() >= 3, "this check needs 3 ranks");
        let word = lab.alloc(2)?;
        let reserved = Survivors::reserve(ra, 64 << 10)?;
        lab.barrier()?;
        if lab.me() == 1 {
            ra.wait_until(word, Until::Ge(lab.size() - 1))?;
            die();
            require!(false, "this rank should have died here");
        }
        ra.fetch_add(Rank(1).at(word), 1)?;
        let told = ra.wait_until(word, Until::Ne(0));
        require!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "a wait got {told:?}");
        if lab.me() == 0 {
            ra.acknowledge(&ra.failed()?)?;
            let revoked = ra.wait_until(word, Until::Ne(0));
            require!(matches!(revoked, Err(Error::Revoked)), "a wait in a revoked world got {revoked:?}");
            let revoked = ra.pause(1);
            require!(matches!(revoked, Err(Error::Revoked)), "a pause in a revoked world got {revoked:?}");
            ra.fetch_add(Rank(2).at(word.word(1)), 1)?;
        } else {
            reserved.revoke()?;
        }
        let (survivors, failed) = reserved.shrink()?;
        require!(failed == Failed::from_iter([Rank(1)]), "rank 1 has failed, and the survivors agree on {failed}");
        let mut sum = [lab.me() + 1];
        Collectives::new(&survivors)?.allreduce(&mut sum, |a, b| a + b)?;
        let all = lab.size() * (lab.size() + 1) / 2 - 2;
        require!(sum == [all], "the sum of the survivors is {sum:?}, not {all}");
        Ok(())
    };
    body().map_err(|stop| stop.explain(REVOCATION, ra))
}

const REVOCATION: &str = "revocation_ends_waits";

/// Rank 1 changes words of all others without end. Rank 0 expels it. After a silence, none of its operations takes effect.
///
/// All ranks of a world of at least 3 call it, and they are processes. Where rank 1 is not killed, it gets the error
/// [`Expelled`](Error::Expelled).
///
/// # Errors
///
/// The errors of [`peer_death`].
pub fn expelled_rank_has_no_effect<A: RemoteAtomics + ?Sized>(ra: &A) -> Result<(), Failure> {
    let body = || -> Outcome {
        let lab = Lab::new(EXPULSION, ra)?;
        require!(lab.size() >= 3, "this check needs 3 ranks");
        let word = lab.alloc(1)?;
        let others = || (0..ra.size()).map(Rank).filter(|&rank| rank != Rank(1));
        for wrong in [ra.rank(), Rank(ra.size())] {
            let refused = ra.expel(wrong);
            require!(matches!(refused, Err(Error::World(_))), "{} has expelled {wrong}: {refused:?}", ra.rank());
        }
        lab.barrier()?;
        if lab.me() == 1 {
            let end = loop {
                if let Err(error) = others().try_for_each(|rank| ra.fetch_add(rank.at(word), 1).map(drop)) {
                    break error;
                }
            };
            require!(matches!(end, Error::Expelled), "the rank that was expelled got {end:?}");
            return Ok(());
        }
        let mine = ra.rank().at(word);
        if lab.me() == 0 {
            for rank in others() {
                while ra.get(rank.at(word))? == 0 {
                    ra.pause(1)?;
                }
            }
            ra.expel(Rank(1))?;
            ra.expel(Rank(1))?;
        } else {
            let told = ra.wait_until(word, Until::Eq(u64::MAX));
            require!(matches!(told, Err(Error::PeerFailed { rank: Rank(1) })), "a wait got {told:?}");
        }
        let failed = ra.failed()?;
        require!(failed == Failed::from_iter([Rank(1)]), "rank 1 was expelled, and this rank knows of {failed}");
        ra.silence(&failed)?;
        ra.acknowledge(&failed)?;
        let last = ra.get(mine)?;
        for _ in 0..20 {
            ra.pause(10_000)?;
        }
        let now = ra.get(mine)?;
        require!(now == last, "an operation of a rank that was expelled and silenced took effect: {last}, then {now}");
        Ok(())
    };
    body().map_err(|stop| stop.explain(EXPULSION, ra))
}

const EXPULSION: &str = "expelled_rank_has_no_effect";

/// Waits, in one of the ways, for an event that never happens.
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
