//! Safe code may forget, drop, race and panic. Nothing is undefined, and no rank hangs without need.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Made, everywhere, processes, threads};
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Error as AtomicsError, Mapped, Rank, RemoteAtomics, World};
use rmalab_windows::{Call, Config, Error, LockKind, Op, Open, Result, Team, Window, WindowDisp};

/// Does not compile if the type has the trait, since the choice would be ambiguous.
macro_rules! assert_is_not {
    ($type:ty: $trait:path) => {
        const _: fn() = || {
            trait Choice<A> {
                fn of() {}
            }
            impl<T: ?Sized> Choice<()> for T {}
            #[allow(dead_code, reason = "only the name of the type is needed")]
            struct Has;
            impl<T: ?Sized + $trait> Choice<Has> for T {}
            let _ = <$type as Choice<_>>::of;
        };
    };
}

assert_is_not!(Window<'static, Mapped>: Sync);
assert_is_not!(Window<'static, Mapped>: Send);
assert_is_not!(rmalab_windows::Lock<'static, 'static, Mapped>: Send);
assert_is_not!(rmalab_windows::Lock<'static, 'static, Mapped>: Sync);
assert_is_not!(rmalab_windows::Target<'static, Mapped>: Sync);

/// The epoch in which a rank fails.
#[derive(Clone, Copy, PartialEq, Debug)]
enum EpochKind {
    Exclusive,
    Shared,
    LockAll,
    Fence,
    Access,
    Exposure,
    Batch,
    Request,
}

impl EpochKind {
    const ALL: [EpochKind; 8] = [
        EpochKind::Exclusive,
        EpochKind::Shared,
        EpochKind::LockAll,
        EpochKind::Fence,
        EpochKind::Access,
        EpochKind::Exposure,
        EpochKind::Batch,
        EpochKind::Request,
    ];
}

/// Rank 1 opens an epoch of this kind and calls `end` in it; the other ranks make calls that would wait for it.
fn end_within(team: &Team<'_, Mapped>, epoch: EpochKind, end: impl Fn()) -> Result<()> {
    let mut window = Window::allocate(team, 4096)?;
    let (me, data) = (team.rank(), vec![me_byte(team.rank()); 4096]);
    let others: Vec<Rank> = (0..team.size()).map(Rank).filter(|&rank| rank != Rank(1)).collect();
    team.barrier()?;
    if me == Rank(1) {
        match epoch {
            EpochKind::Exclusive | EpochKind::Shared => {
                let kind = if epoch == EpochKind::Exclusive { LockKind::Exclusive } else { LockKind::Shared };
                let epoch = window.lock(kind, Rank(0))?;
                epoch.put(WindowDisp(0), &data)?;
                team.barrier()?;
                end();
            }
            EpochKind::LockAll => {
                let epoch = window.lock_all()?;
                epoch.at(Rank(0))?.put(WindowDisp(0), &data)?;
                team.barrier()?;
                end();
            }
            EpochKind::Fence => {
                let epoch = window.fence()?;
                epoch.at(Rank(0))?.put(WindowDisp(0), &data)?;
                end();
            }
            EpochKind::Access => {
                let (mut access, _) = window.pscw()?;
                let epoch = access.start(&others)?;
                epoch.at(Rank(0))?.put(WindowDisp(0), &data)?;
                end();
            }
            EpochKind::Exposure => {
                let (_, mut exposure) = window.pscw()?;
                let _epoch = exposure.post(&others)?;
                end();
            }
            EpochKind::Batch => {
                let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
                team.barrier()?;
                epoch.batch(|batch| {
                    batch.put(&epoch, WindowDisp(0), &data)?;
                    end();
                    Ok(())
                })?;
            }
            EpochKind::Request => {
                let epoch = window.lock(LockKind::Exclusive, Rank(0))?;
                let _request = epoch.rput(WindowDisp(0), data)?;
                team.barrier()?;
                end();
            }
        }
        unreachable!("rank 1 ended before");
    }
    match epoch {
        EpochKind::Fence => window.fence()?.close()?,
        // No rank completes.
        EpochKind::Access => window.pscw()?.1.post(&[Rank(1)])?.wait()?,
        // The posted memory can be accessed.
        EpochKind::Exposure => {
            let (mut access, _) = window.pscw()?;
            let epoch = access.start(&[Rank(1)])?;
            epoch.at(Rank(1))?.put(WindowDisp(0), &data)?;
            epoch.complete()?;
        }
        EpochKind::Exclusive | EpochKind::Shared | EpochKind::LockAll | EpochKind::Batch | EpochKind::Request => {
            team.barrier()?;
            // Rank 1 may have released the lock in its panic. If it has not, this waits only as long as rank 1 lives.
            window.lock(LockKind::Exclusive, Rank(0))?.unlock()?;
        }
    }
    window.free()
}

fn me_byte(rank: Rank) -> u8 {
    rank.0 as u8 + 1
}

/// Returns whether the result is the failure of rank 1.
fn is_failure(result: &Result<()>) -> bool {
    use rmalab_locks::Error as LockError;
    matches!(
        result,
        Err(Error::Atomics(AtomicsError::PeerFailed { rank: Rank(1) })
            | Error::Locks(LockError::Atomics(AtomicsError::PeerFailed { rank: Rank(1) })))
    )
}

#[test]
fn a_panic_in_an_epoch_is_an_error_of_the_others() {
    for epoch in EpochKind::ALL {
        let failures = AtomicU64::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            World::threads(3).run(|ra| {
                let result = end_within(&Team::new(ra).unwrap(), epoch, || panic!("within an epoch"));
                assert!(is_failure(&result), "{epoch:?}: {result:?}");
                failures.fetch_add(1, Ordering::Relaxed);
            })
        }));
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"within an epoch"), "{epoch:?}");
        assert_eq!(failures.into_inner(), 2, "{epoch:?}");
    }
}

#[test]
fn a_process_that_dies_in_an_epoch_is_an_error_of_the_others() {
    const WAY: &str = "RMALAB_TEST_WAY";
    for (number, epoch) in EpochKind::ALL.into_iter().enumerate() {
        // A rank runs only the call of its own world.
        if std::env::var(WAY).is_ok_and(|wanted| wanted != number.to_string()) {
            continue;
        }
        let world = processes("soundness::a_process_that_dies_in_an_epoch_is_an_error_of_the_others", 3);
        let outcome = world.env(WAY, number.to_string()).run(|ra| {
            let result = end_within(&Team::new(ra).unwrap(), epoch, || std::process::abort());
            assert!(is_failure(&result), "{epoch:?}: {result:?}");
        });
        // The error would name a failed assertion of another rank instead.
        match outcome {
            Err(AtomicsError::RankEnded { rank: Rank(1), .. }) => {}
            outcome => panic!("{epoch:?}: {outcome:?}"),
        }
    }
}

/// A panic that the rank itself catches leaves the epoch closed and the window usable.
#[test]
fn a_panic_that_is_caught_closes_its_epochs() {
    threads(2, |team| {
        let mut window = Window::allocate(team, 4096).unwrap();
        let right = Rank(1 - team.rank().0);
        for round in 0..80_u8 {
            let data = vec![round; 4096];
            let caught = catch_unwind(AssertUnwindSafe(|| {
                if round % 4 == 0 {
                    let epoch = window.lock_all().unwrap();
                    epoch.at(right).unwrap().put(WindowDisp(0), &data).unwrap();
                    panic!("caught");
                }
                let epoch = window.lock(LockKind::Exclusive, right).unwrap();
                if round % 4 == 1 {
                    let _request = epoch.rput(WindowDisp(0), data.clone()).unwrap();
                    panic!("caught");
                }
                let batch: Result<()> = epoch.batch(|batch| {
                    batch.put(&epoch, WindowDisp(0), &data)?;
                    if round % 4 == 2 {
                        panic!("caught");
                    }
                    Ok(())
                });
                batch.unwrap();
                panic!("caught");
            }));
            assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"caught"));
            let epoch = window.lock(LockKind::Exclusive, right).unwrap();
            assert_eq!(epoch.get_value::<[u8; 4096]>(WindowDisp(0)).unwrap()[..], data);
            epoch.unlock().unwrap();
        }
        window.free().unwrap();
    });
}

/// Forgotten requests and epochs cost only their memory and their locks.
fn forget(team: &Team<'_, Mapped>) {
    for made in Made::ALL {
        let (mut window, starts) = made.make(team, Config::default(), 4096);
        team.barrier().unwrap();
        let (me, disp) = (team.rank(), |rank: Rank| WindowDisp(starts[rank.index()]));
        let right = Rank((me.0 + 1) % team.size());
        // The memory of buffers whose requests no call waits for is never reused.
        let epoch = window.lock(LockKind::Shared, right).unwrap();
        for round in 0..100_u8 {
            std::mem::forget(epoch.rput(disp(right), vec![round; 2000]).unwrap());
            std::mem::forget(epoch.rget(disp(right), vec![round; 2000]).unwrap());
        }
        epoch.flush().unwrap();
        assert_eq!(epoch.get_value::<u8>(disp(right).plus(1999)).unwrap(), 99);
        epoch.unlock().unwrap();
        team.barrier().unwrap();
        // An epoch, with memory on the stack that a batch has used.
        let epoch = window.lock(LockKind::Shared, right).unwrap();
        {
            let source = [7_u8; 64];
            epoch.batch(|batch| batch.put(&epoch, disp(right), &source)).unwrap();
        }
        std::mem::forget(epoch);
        let error = window.lock_all().map(drop).unwrap_err();
        assert!(matches!(error, Error::Locks(_)), "{error}");
        // The other ranks continue: the lock is shared.
        let epoch = window.lock(LockKind::Shared, me).unwrap();
        assert_eq!(epoch.get_value::<[u8; 64]>(disp(me)).map(|bytes| bytes.len()).unwrap(), 64);
        epoch.unlock().unwrap();
        let error = window.free().unwrap_err();
        assert!(matches!(error, Error::LeftOpen { call: Call::Free, open: Open::Lock, .. }), "{error}");
    }
}

#[test]
fn forgotten_values_cost_only_their_memory() {
    everywhere("soundness::forgotten_values_cost_only_their_memory", 3, forget);
}

#[test]
fn a_window_ends_its_forgotten_epoch() {
    everywhere("soundness::a_window_ends_its_forgotten_epoch", 2, |team| {
        let window = Window::allocate(team, 64).unwrap();
        if team.rank() == Rank(0) {
            std::mem::forget(window.lock(LockKind::Exclusive, Rank(0)).unwrap());
        }
        team.barrier().unwrap();
        // The drop of rank 0's window comes at any time.
        if team.rank() == Rank(1) {
            window.lock(LockKind::Exclusive, Rank(0)).unwrap().unlock().unwrap();
        }
    });
}

/// Windows that are not freed, but forgotten or dropped, while others still put.
fn abandon(team: &Team<'_, Mapped>, forget: bool) {
    let me = team.rank();
    for made in Made::ALL {
        let (window, starts) = made.make(team, Config::default(), 64);
        team.barrier().unwrap();
        let kept = if me != Rank(1) {
            Some(window)
        } else if forget {
            std::mem::forget(window);
            None
        } else {
            drop(window);
            None
        };
        team.barrier().unwrap();
        // The next window is at another place.
        let next = Window::allocate(team, 64).unwrap();
        let memory = (0..50).map(|_| vec![0x11_u8; 64]).collect::<Vec<_>>();
        if let Some(window) = &kept {
            let epoch = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            let disp = WindowDisp(starts[1]);
            epoch.put(disp, &[me_byte(me); 64]).unwrap();
            epoch.accumulate(disp, Op::Sum, &[1_u8; 64]).unwrap();
            assert_eq!(epoch.get_value::<[u8; 64]>(disp).unwrap(), [me_byte(me) + 1; 64], "{made:?}");
            epoch.unlock().unwrap();
        }
        team.barrier().unwrap();
        assert!(memory.iter().flatten().all(|&byte| byte == 0x11));
        assert_eq!(next.local().unwrap().load::<[u8; 64]>(WindowDisp(0)).unwrap(), [0; 64]);
        next.free().unwrap();
        drop(kept);
    }
}

#[test]
fn windows_that_are_dropped_stay_in_place() {
    everywhere("soundness::windows_that_are_dropped_stay_in_place", 3, |team| abandon(team, false));
}

#[test]
fn windows_that_are_forgotten_stay_in_place() {
    everywhere("soundness::windows_that_are_forgotten_stay_in_place", 3, |team| abandon(team, true));
}

/// A rank leaves the world with a created window while others still put to it: they reach the memory, or get an error
/// that the rank has left.
fn leave(team: &Team<'_, Mapped>) {
    let window = Window::create(team, vec![0_u64; 512]).unwrap();
    team.barrier().unwrap();
    if team.rank() == Rank(1) {
        return;
    }
    let epoch = window.lock(LockKind::Shared, Rank(1)).unwrap();
    for round in 0..2_000_u64 {
        if let Err(error) = epoch.put(WindowDisp(0), &[round; 512]) {
            assert!(matches!(error, Error::Atomics(_)), "{error}");
        }
        team.ra().pause(10).unwrap();
    }
    // The unlock of the drop may fail; it reports no error, and does not hang.
}

#[test]
fn a_rank_that_leaves_with_its_window_harms_no_rank() {
    everywhere("soundness::a_rank_that_leaves_with_its_window_harms_no_rank", 2, leave);
}

/// All ranks access the same bytes at once, with all operations: the values are undefined, but nothing else is.
fn race(team: &Team<'_, Mapped>) {
    for made in [Made::Allocated, Made::CreatedOdd, Made::Shared, Made::Dynamic] {
        let (mut window, starts) = made.make(team, Config::default(), 256);
        team.barrier().unwrap();
        let disp = WindowDisp(starts[0]);
        for round in 0..300_u64 {
            if team.rank() == Rank(0) && made != Made::Dynamic {
                let local = window.local().unwrap();
                local.write(WindowDisp(3), &[round; 30]).unwrap();
                let mut bytes = [0_u8; 256];
                local.read(WindowDisp(0), &mut bytes).unwrap();
                if let Some(words) = local.words() {
                    words[2].store(round, Ordering::Relaxed);
                }
            }
            let epoch = window.lock_all().unwrap();
            let target = epoch.at(Rank(0)).unwrap();
            target.put(disp.plus((round % 7) as i64), &[round as u8; 200]).unwrap();
            target.accumulate(disp.plus(8), Op::Sum, &[1_u32; 40]).unwrap();
            target.accumulate(disp.plus(9), Op::Max, &[1.5_f64; 20]).unwrap();
            target.compare_and_swap(disp.plus(16), round, round + 1).unwrap();
            target.get_value::<[u64; 32]>(disp).unwrap();
            epoch.unlock_all().unwrap();
        }
        window.free().unwrap();
    }
}

#[test]
fn racing_ranks_find_bytes() {
    everywhere("soundness::racing_ranks_find_bytes", 4, race);
}

/// Memory that its owner detaches while others write to it is returned complete, and is never written to again.
#[test]
fn detached_memory_belongs_to_its_owner() {
    const ROUNDS: usize = 200;
    threads(3, |team| {
        let ra = team.ra();
        let place = ra.heap().alloc(8, 8).unwrap();
        let window = Window::create_dynamic(team).unwrap();
        team.barrier().unwrap();
        if team.rank() == Rank(0) {
            for _ in 0..ROUNDS {
                let at = window.attach(UserMemory::from_vec(vec![0_u64; 64])).unwrap();
                ra.fetch_store(Rank(0).at(place), at.0 as u64).unwrap();
                ra.pause(50).unwrap();
                let memory = window.detach(at).unwrap().into_vec::<u64>().unwrap();
                let before = memory.clone();
                ra.pause(10).unwrap();
                assert_eq!(memory, before);
            }
            ra.fetch_store(Rank(0).at(place), 1).unwrap();
        } else {
            let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
            loop {
                match ra.get(Rank(0).at(place)).unwrap() {
                    0 => ra.pause(1).unwrap(),
                    1 => break,
                    at => match epoch.put(WindowDisp(at as i64), &[u64::from(team.rank().0); 64]) {
                        Ok(()) | Err(Error::NotAttached { .. }) => {}
                        Err(error) => panic!("{error}"),
                    },
                }
            }
            epoch.unlock().unwrap();
        }
        window.free().unwrap();
    });
}
