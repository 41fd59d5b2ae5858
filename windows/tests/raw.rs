//! The untyped interface, whose calls check epochs at run time.

use std::sync::atomic::{AtomicBool, Ordering};

use rmalab_atomics::{Mapped, Rank, RemoteAtomics, World};
use rmalab_windows::{
    AccumulateStrategy, Assert, Begun, Call, Class, Config, Error, FenceAssert, LockKind, Op, Open, PolicyKind,
    PostAssert, RawWindow, StartAssert, Team, Transport, Window, WindowDisp,
};

/// Runs `body` as each of `ranks` ranks, with a window of 64 bytes in units of 8, one-sided and two-sided.
fn on_windows(ranks: u32, body: impl Fn(&Team<'_, Mapped>, &RawWindow<'_, Mapped>) -> Result<(), Error> + Sync) {
    for transport in [Transport::OneSided, Transport::TwoSided] {
        let done = World::threads(ranks).run(|ra| {
            let team = Team::new(ra)?;
            let config = Config { transport, ..Config::default() };
            let window = Window::builder(&team).config(config).disp_unit(8).allocate(64)?.into_raw();
            body(&team, &window)?;
            window.free()
        });
        for done in done.unwrap() {
            done.unwrap_or_else(|error| panic!("{transport:?}: {error}"));
        }
    }
}

fn add(window: &RawWindow<'_, Mapped>, target: Rank, value: u64) -> Result<(), Error> {
    window.operate(Call::Accumulate, target, |target| target.accumulate(WindowDisp(1), Op::Sum, &[value]))
}

fn read(window: &RawWindow<'_, Mapped>, target: Rank) -> Result<u64, Error> {
    window.operate(Call::Get, target, |target| target.get_value(WindowDisp(1)))
}

#[test]
fn operations_find_the_epoch_that_is_open() {
    on_windows(3, |team, window| {
        let me = team.rank();
        let next = Rank((me.0 + 1) % 3);
        // Locks.
        window.lock(LockKind::Exclusive, next, Assert::None)?;
        add(window, next, 1)?;
        window.flush(next)?;
        assert_eq!(read(window, next)?, 1);
        window.unlock(next)?;
        team.barrier()?;
        window.lock_all(Assert::None)?;
        for target in (0..3).map(Rank) {
            add(window, target, 1)?;
        }
        window.flush_all()?;
        window.unlock_all()?;
        team.barrier()?;
        // Fences; the second one closes the epoch of the first.
        window.fence(FenceAssert { noprecede: true, ..FenceAssert::default() })?;
        add(window, next, 1)?;
        window.fence(FenceAssert { nosucceed: true, ..FenceAssert::default() })?;
        assert_eq!(window.local()?.load::<u64>(WindowDisp(1))?, 5);
        // Post, start, complete, wait.
        window.post(&[Rank((me.0 + 2) % 3)], PostAssert::default())?;
        window.start(&[next], StartAssert::default())?;
        add(window, next, 1)?;
        window.complete()?;
        window.wait()?;
        assert_eq!(window.local()?.load::<u64>(WindowDisp(1))?, 6);
        window.post(&[], PostAssert::default())?;
        while !window.test()? {}
        Ok(())
    });
}

#[test]
fn requests_belong_to_locks() {
    on_windows(2, |team, window| {
        let me = team.rank();
        window.lock(LockKind::Exclusive, me, Assert::None)?;
        let put = window.operate_with_requests(Call::Put, me, |target| target.rput(WindowDisp(1), vec![7_u64]))?;
        assert_eq!(put.wait()?, [7]);
        window.flush_local(me)?;
        assert_eq!(read(window, me)?, 7);
        window.unlock(me)?;
        team.barrier()?;
        window.fence(FenceAssert::default())?;
        let refused = window.operate_with_requests(Call::Put, me, |target| target.rput(WindowDisp(1), vec![7_u64]));
        assert!(matches!(refused.unwrap_err(), Error::NotOpen { call: Call::Put, .. }));
        window.fence(FenceAssert { nosucceed: true, ..FenceAssert::default() })
    });
}

/// Every call that needs an epoch that is not open is refused with MPI's class, and changes nothing.
#[test]
fn calls_outside_of_their_epochs_are_refused() {
    on_windows(1, |_, window| {
        let me = Rank(0);
        let refused = |what: &str, result: Result<(), Error>, class: Class| {
            let error = result.expect_err(what);
            assert_eq!(error.class(), class, "{what}: {error}");
            assert!(error.to_string().contains("rank 0"), "{what}: {error}");
        };
        refused("put", window.operate(Call::Put, me, |target| target.put(WindowDisp(0), &[1_u8])), Class::RmaSync);
        refused("put to the null target", window.operate(Call::Put, None, |_| Ok(())), Class::RmaSync);
        refused("flush", window.flush(me), Class::RmaSync);
        refused("flush_all", window.flush_all(), Class::RmaSync);
        refused("flush_local", window.flush_local(me), Class::RmaSync);
        refused("flush_local_all", window.flush_local_all(), Class::RmaSync);
        refused("unlock", window.unlock(me), Class::RmaSync);
        refused("unlock_all", window.unlock_all(), Class::RmaSync);
        refused("complete", window.complete(), Class::RmaSync);
        refused("wait", window.wait(), Class::RmaSync);
        refused("test", window.test().map(drop), Class::RmaSync);
        refused("lock of no rank", window.lock(LockKind::Shared, Rank(1), Assert::None), Class::Rank);
        // Calls of other kinds in an epoch of one kind.
        window.lock(LockKind::Shared, me, Assert::None)?;
        refused("a second lock", window.lock(LockKind::Shared, me, Assert::None), Class::RmaSync);
        refused("lock_all", window.lock_all(Assert::None), Class::RmaSync);
        refused("unlock_all", window.unlock_all(), Class::RmaSync);
        refused("fence", window.fence(FenceAssert::default()), Class::RmaSync);
        refused("start", window.start(&[me], StartAssert::default()), Class::RmaSync);
        refused("post", window.post(&[me], PostAssert::default()), Class::RmaSync);
        window.unlock(me)?;
        window.post(&[], PostAssert::default())?;
        refused("a second post", window.post(&[], PostAssert::default()), Class::RmaSync);
        window.start(&[], StartAssert::default())?;
        refused("a second start", window.start(&[], StartAssert::default()), Class::RmaSync);
        let outside = window.operate(Call::Put, me, |target| target.put(WindowDisp(0), &[1_u8]));
        assert!(matches!(outside, Err(Error::NotInGroup { .. })));
        window.complete()?;
        window.wait()
    });
}

/// MPI's rule: a fence without NOSUCCEED opens an epoch once an operation is called, and the next call decides.
#[test]
fn the_call_after_a_fence_decides() {
    on_windows(1, |_, window| {
        let me = Rank(0);
        window.fence(FenceAssert::default())?;
        window.lock(LockKind::Shared, me, Assert::None)?;
        window.unlock(me)?;
        // The lock has ended the epoch that the fence allowed.
        assert!(matches!(add(window, me, 1), Err(Error::NotOpen { .. })));
        window.fence(FenceAssert::default())?;
        add(window, me, 1)?;
        let refused = window.lock(LockKind::Shared, me, Assert::None);
        assert!(matches!(refused, Err(Error::Conflict { open: Open::Fence, .. })));
        window.fence(FenceAssert { nosucceed: true, ..FenceAssert::default() })?;
        assert!(matches!(add(window, me, 1), Err(Error::NotOpen { .. })));
        window.lock(LockKind::Shared, me, Assert::None)?;
        assert_eq!(read(window, me)?, 1);
        window.unlock(me)
    });
}

/// Freeing a window with held locks, or with an open access epoch, returns an error and does not keep other ranks
/// waiting.
#[test]
fn free_releases_open_epochs() {
    for transport in [Transport::OneSided, Transport::TwoSided] {
        let freed = World::threads(2).run(|ra| {
            let team = Team::new(ra)?;
            let config = Config { transport, ..Config::default() };
            let window = Window::builder(&team).config(config).allocate(64)?.into_raw();
            let held = Rank(0);
            if ra.rank() == held {
                window.lock(LockKind::Exclusive, held, Assert::None)?;
                window.operate(Call::Put, held, |target| target.put(WindowDisp(0), &[1_u8]))?;
                window.flush(held)?;
            }
            team.barrier()?;
            if ra.rank() != held {
                // Waits for the other rank's free.
                window.lock(LockKind::Exclusive, held, Assert::None)?;
                window.unlock(held)?;
            }
            Ok::<_, Error>(window.free())
        });
        let freed: Vec<_> = freed.unwrap().into_iter().map(|freed| freed.unwrap()).collect();
        assert!(matches!(freed[0], Err(Error::LeftOpen { open: Open::Lock, .. })), "{:?}", freed[0]);
        assert!(freed[1].is_ok(), "{:?}", freed[1]);
    }
}

/// A forgotten guard is another case of a lock that was left open.
#[test]
fn a_forgotten_lock_is_released_when_its_window_is_dropped() {
    let dropped = AtomicBool::new(false);
    let done = World::threads(2).run(|ra| {
        let team = Team::new(ra)?;
        let window = Window::allocate(&team, 64)?;
        if ra.rank() == Rank(0) {
            std::mem::forget(window.lock(LockKind::Exclusive, Rank(1))?);
            team.barrier()?;
            dropped.store(true, Ordering::SeqCst);
            drop(window);
        } else {
            team.barrier()?;
            let lock = window.lock(LockKind::Exclusive, Rank(1))?;
            assert!(dropped.load(Ordering::SeqCst));
            lock.unlock()?;
        }
        team.barrier()
    });
    done.unwrap().into_iter().collect::<Result<(), _>>().unwrap();
}

/// A rank that runs its own kind of update excludes other ranks' atomics and their runs of many elements.
#[test]
fn updates_that_exclude_all_others_lose_nothing() {
    const ROUNDS: u64 = if cfg!(miri) { 10 } else { 3_000 };
    for (policy, accumulate) in [
        (PolicyKind::TwoLevel, AccumulateStrategy::Native),
        (PolicyKind::TwoLevel, AccumulateStrategy::Cas),
        (PolicyKind::TwoLevel, AccumulateStrategy::Locked),
        (PolicyKind::NoCheck, AccumulateStrategy::Locked),
    ] {
        let done = World::threads(3).run(|ra| {
            let team = Team::new(ra)?;
            let config = Config { policy, accumulate, ..Config::default() };
            let window = Window::builder(&team).config(config).disp_unit(8).allocate(64 * 8)?.into_raw();
            window.lock_all(Assert::None)?;
            let here = Rank(0);
            for _ in 0..ROUNDS {
                match team.rank().0 {
                    0 => window.operate(Call::Accumulate, here, |target| {
                        target.exclusively(|| {
                            // This is not atomic in any way.
                            let local = window.local().unwrap();
                            let old: u64 = local.load(WindowDisp(1)).unwrap();
                            std::thread::yield_now();
                            local.store(WindowDisp(1), old + 1).unwrap();
                        })
                    })?,
                    1 => add(&window, here, 1)?,
                    _ => window.operate(Call::Accumulate, here, |target| {
                        target.accumulate(WindowDisp(0), Op::Sum, &[1_u64; 64])
                    })?,
                }
            }
            window.unlock_all()?;
            team.barrier()?;
            if team.rank() == here {
                assert_eq!(window.local()?.load::<u64>(WindowDisp(1))?, 3 * ROUNDS, "{policy} {accumulate}");
            }
            window.free()
        });
        done.unwrap().into_iter().collect::<Result<Vec<()>, Error>>().unwrap();
    }
}

#[test]
fn an_update_cannot_exclude_others_where_nothing_stops_their_atomics() {
    World::threads(2)
        .run(|ra| {
            let team = Team::new(ra)?;
            let config = Config { policy: PolicyKind::NoCheck, ..Config::default() };
            let window = Window::builder(&team).config(config).disp_unit(8).allocate(64)?.into_raw();
            window.lock_all(Assert::None)?;
            let refused = window.operate(Call::Accumulate, Rank(0), |target| target.exclusively(|| ()));
            assert!(matches!(refused, Err(Error::Atomics(rmalab_atomics::Error::Unsupported { .. }))), "{refused:?}");
            window.operate(Call::Accumulate, None, |target| target.exclusively(|| ())).unwrap();
            window.unlock_all()?;
            window.free()
        })
        .unwrap()
        .into_iter()
        .collect::<Result<Vec<()>, Error>>()
        .unwrap();
}

/// The shortcuts do the same as the other calls, or nothing.
#[test]
fn short_ways_do_the_same_or_nothing() {
    on_windows(2, |team, window| {
        let one_sided = window.info().get("rmalab_transport").is_none_or(|transport| transport == "one-sided");
        let next = Rank(1 - team.rank().0);
        assert!(window.locked(next).is_none());
        assert!(!window.unlock_plainly(next) && !window.unlock_all_plainly());
        window.fence(FenceAssert::default())?;
        add(window, next, 1)?;
        // An operation after a fence has opened its epoch.
        assert!(!window.lock_plainly(LockKind::Shared, next) && !window.lock_all_plainly());
        window.fence(FenceAssert { nosucceed: true, ..FenceAssert::default() })?;
        assert_eq!(window.lock_plainly(LockKind::Exclusive, next), one_sided);
        if !one_sided {
            return Ok(());
        }
        assert!(!window.lock_plainly(LockKind::Shared, next), "it is locked");
        assert!(!window.lock_plainly(LockKind::Shared, Rank(2)) && window.locked(Rank(2)).is_none());
        let target = window.locked(next).unwrap();
        let update = |disp, op, value| target.update_word(WindowDisp(disp), op, value);
        assert_eq!(update(1, Op::Sum, 4), Some(1));
        assert_eq!(update(1, Op::BitXor, 3), Some(5));
        assert_eq!(update(1, Op::Max, 9), Some(6));
        assert_eq!(update(1, Op::Replace, 2), Some(9));
        assert_eq!(target.swap_word(WindowDisp(1), 7, 8), Some(2));
        assert_eq!(target.swap_word(WindowDisp(1), 2, 8), Some(2));
        assert_eq!(read(window, next)?, 8);
        for (disp, op) in [(8, Op::Sum), (-1, Op::Sum), (i64::MAX, Op::Replace), (1, Op::NoOp), (1, Op::MinLoc)] {
            assert_eq!(update(disp, op, 1), None);
        }
        assert!(window.add_to_words(next, WindowDisp(1), &[3, 4]));
        for (disp, values) in [(7, &[1, 1][..]), (-1, &[1]), (i64::MAX, &[1]), (1, &[])] {
            assert!(!window.add_to_words(next, WindowDisp(disp), values));
        }
        assert!(!window.add_to_words(Rank(2), WindowDisp(1), &[3]), "it is not locked");
        assert_eq!((read(window, next)?, update(2, Op::Sum, 0), update(7, Op::Sum, 0)), (11, Some(4), Some(0)));
        assert!(window.unlock_plainly(next));
        team.barrier()?;
        assert!(window.lock_all_plainly() && window.locked(Rank(0)).is_some() && window.locked(Rank(2)).is_none());
        assert!(window.unlock_all_plainly());
        Ok(())
    });
}

/// A lock that is begun and waits is completed by its rest; every rank holds at most one lock of a target.
#[test]
fn locks_are_begun_and_completed() {
    let ends = World::threads(2).run(|ra| {
        let team = Team::new(ra)?;
        let config = Config { policy: PolicyKind::TwoLevelScan, ..Config::default() };
        let window = Window::builder(&team).config(config).disp_unit(8).allocate(64)?.into_raw();
        let at = Rank(1);
        let barrier = || team.barrier();
        if team.rank() == Rank(0) {
            assert!(!window.unlock_shortly(at), "nothing is locked");
            assert!(matches!(window.begin_plainly(LockKind::Exclusive, at), Begun::Held));
            assert!(matches!(window.begin_plainly(LockKind::Shared, Rank(0)), Begun::Nothing), "one is locked");
            assert!(window.lock(LockKind::Shared, at, Assert::None).is_err(), "it is locked");
            barrier()?;
            barrier()?;
            add(&window, at, 3)?;
            window.flush(at)?;
            assert!(!window.unlock_shortly(Rank(0)) && window.unlock_shortly(at) && !window.unlock_shortly(at));
        } else {
            barrier()?;
            assert!(matches!(window.begin_plainly(LockKind::Shared, Rank(2)), Begun::Nothing), "there is no such rank");
            assert!(matches!(window.begin_plainly(LockKind::Shared, at), Begun::Waits));
            barrier()?;
            window.complete_lock(LockKind::Shared, at)?;
            assert_eq!(read(&window, at)?, 3);
            // Two locks at a time take the long way.
            window.lock(LockKind::Exclusive, Rank(0), Assert::None)?;
            assert!(!window.unlock_shortly(at) && !window.unlock_shortly(Rank(0)));
            window.unlock(Rank(0))?;
            assert!(window.unlock_shortly(at) && window.locked(at).is_none());
        }
        window.free()
    });
    ends.unwrap().into_iter().collect::<Result<Vec<()>, Error>>().unwrap();
}
