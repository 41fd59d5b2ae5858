//! The guarantees of epochs, on threads.

use rmalab_atomics::{Mapped, Rank, RemoteAtomics, World};
use rmalab_locks::{Error as LockError, McsRwRp, PerTarget, TwoLevel, WindowLock};
use rmalab_windows::{
    Assert, Call, Class, Config, Error, FenceAssert, FenceStrategy, LockKind, Op, Open, PscwStrategy, Team, Window,
    WindowDisp,
};

const COUNTER: WindowDisp = WindowDisp(0);

/// Runs `body` on threads, each with its team.
fn on<T: Send>(size: u32, body: impl Fn(&Mapped, &Team<'_, Mapped>) -> T + Sync) -> Vec<T> {
    World::threads(size).run(|ra| body(ra, &Team::new(ra).unwrap())).unwrap()
}

/// Each holder finds every word of the block with the value of one earlier holder, and writes its own value.
fn exclusive_sections<W: WindowLock>(params: W::Params) {
    const WORDS: usize = 64;
    let last = on(4, |ra, team| {
        let window = Window::builder(team).policy::<W>(params).allocate(8 * WORDS as u64).unwrap();
        for round in 0..500 {
            let epoch = window.lock(LockKind::Exclusive, Rank(3)).unwrap();
            let mut block = [0_u64; WORDS];
            epoch.get(WindowDisp(0), &mut block).unwrap();
            let first = block[0];
            assert!(block.iter().all(|&word| word == first), "{}: a torn block in round {round}", ra.rank());
            // The last word first, so that the order of posting does not hide a fault.
            for word in (0..WORDS as i64).rev() {
                epoch.put_value(WindowDisp(8 * word), first + 1).unwrap();
            }
            // Both ways to end an epoch.
            if round % 2 == 0 {
                epoch.unlock().unwrap();
            }
        }
        let epoch = window.lock(LockKind::Exclusive, Rank(3)).unwrap();
        epoch.get_value::<u64>(COUNTER).unwrap()
    });
    assert_eq!(last.iter().max(), Some(&2_000));
}

#[test]
fn the_next_holder_sees_all_of_it() {
    exclusive_sections::<TwoLevel>(Default::default());
    exclusive_sections::<PerTarget<McsRwRp>>(());
}

#[test]
fn fetch_and_op_counts_under_lock_all() {
    const ROUNDS: u64 = 5_000;
    let seen = on(3, |_, team| {
        let mut window = Window::allocate(team, 8).unwrap();
        let epoch = window.lock_all().unwrap();
        let target = epoch.at(Rank(2)).unwrap();
        for _ in 0..ROUNDS {
            target.fetch_and_op(COUNTER, Op::Sum, 1_u64).unwrap();
        }
        epoch.flush(Rank(2)).unwrap();
        epoch.unlock_all().unwrap();
        team.collectives().barrier().unwrap();
        window.lock_all().unwrap().at(Rank(2)).unwrap().get_value::<u64>(COUNTER).unwrap()
    });
    assert_eq!(seen, [3 * ROUNDS; 3]);
}

#[test]
fn compare_and_swap_lets_one_rank_win() {
    let winners = on(4, |ra, team| {
        let window = Window::allocate(team, 16).unwrap();
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        let mine = ra.rank().0 as u16 + 1;
        epoch.compare_and_swap(WindowDisp(6), 0, mine).unwrap() == 0
    });
    assert_eq!(winners.into_iter().filter(|&won| won).count(), 1);
}

#[test]
fn several_epochs_at_once_to_different_targets() {
    let seen = on(3, |_, team| {
        let mut window = Window::allocate(team, 8).unwrap();
        // In the order of the ranks, so that ranks do not wait in a circle.
        for _ in 0..200 {
            let low = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            let middle = window.lock(LockKind::Exclusive, Rank(1)).unwrap();
            let high = window.lock(LockKind::Shared, Rank(2)).unwrap();
            let value = low.get_value::<u64>(COUNTER).unwrap();
            assert_eq!(middle.get_value::<u64>(COUNTER).unwrap(), value);
            low.put_value(COUNTER, value + 1).unwrap();
            drop(high);
            middle.put_value(COUNTER, value + 1).unwrap();
            low.flush().unwrap();
            middle.flush().unwrap();
            // The first target locked is the first target unlocked.
            middle.unlock().unwrap();
            low.unlock().unwrap();
        }
        team.collectives().barrier().unwrap();
        window.lock_all().unwrap().at(Rank(1)).unwrap().get_value::<u64>(COUNTER).unwrap()
    });
    assert_eq!(seen, [600; 3]);
}

/// In every round each rank writes to all others, and finds after the fence the values of all others.
#[test]
fn fences_separate_rounds() {
    for fence in [FenceStrategy::Dissemination, FenceStrategy::Naive] {
        for size in [1, 2, 3, 5] {
            on(size, |ra, team| {
                let config = Config { fence, ..Config::default() };
                let mut window =
                    Window::builder(team).config(config).disp_unit(8).allocate(8 * u64::from(size)).unwrap();
                let me = i64::from(ra.rank().0);
                let mut epoch = window.fence_assert(FenceAssert { noprecede: true, ..Default::default() }).unwrap();
                for round in 1..=100_u64 {
                    for target in 0..size {
                        epoch.at(Rank(target)).unwrap().put_value(WindowDisp(me), round).unwrap();
                    }
                    epoch = epoch.next().unwrap();
                    let mut seen = vec![0_u64; size as usize];
                    epoch.at(ra.rank()).unwrap().get(WindowDisp(0), &mut seen).unwrap();
                    assert!(seen.iter().all(|&word| word == round), "{seen:?} in round {round}");
                    epoch = epoch.next().unwrap();
                }
                epoch.close().unwrap();
                window.free().unwrap();
            });
        }
    }
}

/// A ring: each rank writes to its successor and reads the value of its predecessor.
#[test]
fn post_start_complete_wait_pass_a_token() {
    for pscw in [PscwStrategy::Auto, PscwStrategy::Flags, PscwStrategy::Matching] {
        for size in [1, 2, 3, 5] {
            on(size, |ra, team| {
                let config = Config { pscw, ..Config::default() };
                let mut window = Window::builder(team).config(config).allocate(8).unwrap();
                let me = ra.rank().0;
                let (successor, predecessor) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
                for round in 1..=200_u64 {
                    let (mut access, mut exposure) = window.pscw().unwrap();
                    let mut exposure = exposure.post(&[predecessor]).unwrap();
                    let access = access.start(&[successor]).unwrap();
                    access.at(successor).unwrap().put_value(COUNTER, round).unwrap();
                    access.complete().unwrap();
                    if round % 2 == 0 {
                        exposure.wait().unwrap();
                    } else {
                        while !exposure.test().unwrap() {
                            ra.pause(1).unwrap();
                        }
                        drop(exposure);
                    }
                    assert_eq!(window.local().unwrap().load::<u64>(COUNTER).unwrap(), round);
                }
                window.free().unwrap();
            });
        }
    }
}

/// There are more posters than the ring has slots: every rank posts to all ranks before any rank starts.
#[test]
fn a_full_ring_of_posts_blocks_no_rank() {
    const SIZE: u32 = 80;
    on(SIZE, |ra, team| {
        let config = Config { pscw: PscwStrategy::Matching, ..Config::default() };
        let mut window = Window::builder(team).config(config).disp_unit(4).allocate(4 * u64::from(SIZE)).unwrap();
        let others: Vec<Rank> = (0..SIZE).map(Rank).filter(|&rank| rank != ra.rank()).collect();
        for round in 1..=3_u32 {
            let (mut access, mut exposure) = window.pscw().unwrap();
            let exposure = exposure.post(&others).unwrap();
            let access = access.start(&others).unwrap();
            for &target in &others {
                access.at(target).unwrap().put_value(WindowDisp(i64::from(ra.rank().0)), round).unwrap();
            }
            access.complete().unwrap();
            exposure.wait().unwrap();
            let mut seen = vec![0_u32; SIZE as usize];
            window.local().unwrap().read(WindowDisp(0), &mut seen).unwrap();
            seen[ra.rank().index()] = round;
            assert!(seen.iter().all(|&value| value == round), "{seen:?} in round {round}");
        }
    });
}

#[test]
fn accesses_beyond_the_window_are_errors() {
    on(2, |ra, team| {
        let window = Window::builder(team).disp_unit(4).allocate(16).unwrap();
        let other = Rank(1 - ra.rank().0);
        let epoch = window.lock(LockKind::Shared, other).unwrap();
        epoch.put::<u64>(WindowDisp(4), &[]).unwrap();
        epoch.get(WindowDisp(3), &mut [0_u8; 4]).unwrap();
        let error = epoch.put(WindowDisp(3), &[0_u8; 5]).unwrap_err();
        assert_eq!(error.class(), Class::RmaRange);
        assert_eq!(
            error.to_string(),
            format!("put of 5 bytes at displacement 3 (in units of 4 bytes) of {other}: the window has 16 bytes there")
        );
        for disp in [i64::MAX, i64::MIN, -1, 4] {
            let result = epoch.get(WindowDisp(disp), &mut [0_u16; 2]);
            assert!(matches!(result, Err(Error::OutOfWindow { call: Call::Get, .. })), "{result:?}");
            let result = epoch.fetch_and_op(WindowDisp(disp), Op::Sum, 1_u64);
            assert!(matches!(result, Err(Error::OutOfWindow { call: Call::FetchAndOp, .. })), "{result:?}");
        }
    });
}

#[test]
fn an_error_names_the_call_of_the_program() {
    on(1, |_, team| {
        let mut window = Window::builder(team).disp_unit(1).allocate(1).unwrap();
        let local = window.local().unwrap();
        let beyond =
            "local access of 4 bytes at displacement 0 (in units of 1 byte) of rank 0: the window has 1 byte there";
        assert_eq!(local.store(WindowDisp(0), 1_u32).unwrap_err().to_string(), beyond);
        assert_eq!(local.load::<u32>(WindowDisp(0)).unwrap_err().to_string(), beyond);
        assert_eq!(local.write(WindowDisp(0), &[1_u32]).unwrap_err().to_string(), beyond);
        assert_eq!(local.read(WindowDisp(0), &mut [1_u32]).unwrap_err().to_string(), beyond);
        let nowhere = "at: rank 3 does not exist in a team of 1 rank";
        let epoch = window.lock_all().unwrap();
        assert_eq!(epoch.at(Rank(3)).unwrap_err().to_string(), nowhere);
        epoch.unlock_all().unwrap();
        let epoch = window.fence().unwrap();
        assert_eq!(epoch.at(Rank(3)).unwrap_err().to_string(), nowhere);
        epoch.close().unwrap();
        let window = window.into_raw();
        window.lock_all(Assert::None).unwrap();
        let error = window.operate(Call::Put, Rank(3), |target| target.put(WindowDisp(0), &[1_u8])).unwrap_err();
        assert_eq!(error.to_string(), "put: rank 3 does not exist in a team of 1 rank");
        window.unlock_all().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn a_window_of_no_bytes_and_a_team_of_one_rank() {
    on(1, |_, team| {
        let mut window = Window::allocate(team, 0).unwrap();
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        epoch.put::<u8>(WindowDisp(0), &[]).unwrap();
        epoch.get_value::<u64>(WindowDisp(0)).unwrap_err();
        epoch.unlock().unwrap();
        window.lock_all().unwrap().unlock_all().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn the_null_target_takes_everything() {
    on(1, |_, team| {
        let mut window = Window::allocate(team, 0).unwrap();
        let epoch = window.fence().unwrap();
        let null = epoch.at(None).unwrap();
        assert_eq!(null.rank(), None);
        null.put(WindowDisp(1 << 40), &[1_u64]).unwrap();
        let mut dest = [7_u32];
        null.get(WindowDisp(-1), &mut dest).unwrap();
        assert_eq!(dest, [7]);
        null.accumulate(WindowDisp(5), Op::Sum, &[1.0_f32]).unwrap();
        assert_eq!(null.fetch_and_op(WindowDisp(5), Op::Replace, 5_u8).unwrap(), 0);
        assert_eq!(null.compare_and_swap(WindowDisp(5), 5_u8, 6).unwrap(), 0);
        epoch.close().unwrap();
    });
}

#[test]
fn misuse_of_locks_is_an_error_that_names_the_target() {
    on(2, |ra, team| {
        let mut window = Window::builder(team).policy::<TwoLevel>(Default::default()).allocate(8).unwrap();
        let me = ra.rank();
        let epoch = window.lock(LockKind::Exclusive, me).unwrap();
        match window.lock(LockKind::Shared, me) {
            Err(Error::Locks(LockError::AlreadyLocked { rank, target, held: "exclusive", .. })) => {
                assert_eq!((rank, target), (me, me));
            }
            result => panic!("{result:?}"),
        }
        std::mem::forget(epoch);
        let error = window.lock_all().unwrap_err();
        assert!(matches!(error, Error::Locks(LockError::LockAllWhileLocked { .. })), "{error:?}");
        let error = window.fence().unwrap_err();
        assert!(matches!(error, Error::Conflict { call: Call::Fence, open: Open::Lock, .. }), "{error:?}");
        assert_eq!(error.class(), Class::RmaSync);
        let error = window.lock(LockKind::Shared, Rank(2)).unwrap_err();
        assert!(matches!(error, Error::Locks(LockError::NoSuchTarget { target: Rank(2), size: 2, .. })), "{error:?}");
        let error = window.free().unwrap_err();
        assert!(matches!(error, Error::LeftOpen { call: Call::Free, open: Open::Lock, .. }), "{error:?}");
    });
}

#[test]
fn misuse_of_groups_is_an_error() {
    on(3, |_, team| {
        let mut window = Window::allocate(team, 8).unwrap();
        let (mut access, mut exposure) = window.pscw().unwrap();
        let error = access.start(&[Rank(1), Rank(0), Rank(1)]).unwrap_err();
        assert!(matches!(error, Error::Group { call: Call::Start, twice: Rank(1), .. }), "{error:?}");
        let error = exposure.post(&[Rank(3)]).unwrap_err();
        assert!(matches!(error, Error::NoSuchTarget { call: Call::Post, .. }), "{error:?}");
        let all = [Rank(0), Rank(1), Rank(2)];
        let exposed = exposure.post(&all).unwrap();
        let epoch = access.start(&[]).unwrap();
        let error = epoch.at(Rank(1)).unwrap_err();
        assert!(matches!(error, Error::NotInGroup { target: Rank(1), .. }), "{error:?}");
        epoch.complete().unwrap();
        access.start(&all).unwrap().complete().unwrap();
        exposed.wait().unwrap();
    });
}

#[test]
fn an_epoch_asserted_free_of_conflicts_locks_nothing() {
    on(1, |_, team| {
        let mut window = Window::allocate(team, 8).unwrap();
        // An epoch without a lock does not unlock either: a later lock still works.
        window.lock_assert(LockKind::Exclusive, Rank(0), Assert::NoCheck).unwrap().unlock().unwrap();
        window.lock_all_assert(Assert::NoCheck).unwrap().unlock_all().unwrap();
        window.lock(LockKind::Exclusive, Rank(0)).unwrap().unlock().unwrap();
        window.lock_all().unwrap().unlock_all().unwrap();
    });
}

#[test]
fn a_freed_window_leaves_clean_memory_and_nothing_else() {
    on(3, |ra, team| {
        let before = ra.heap().free_bytes();
        let bytes = 200_000;
        // Makes more windows than fit at once.
        for round in 1..20_u64 {
            let window = Window::allocate(team, bytes).unwrap();
            let last = WindowDisp(bytes as i64 - 8);
            assert_eq!(window.local().unwrap().load::<u64>(last).unwrap(), 0);
            let epoch = window.lock(LockKind::Shared, ra.rank()).unwrap();
            epoch.put_value(last, round).unwrap();
            epoch.accumulate(WindowDisp(1), Op::Sum, &[1_u64]).unwrap();
            epoch.unlock().unwrap();
            window.free().unwrap();
        }
        assert_eq!(ra.heap().free_bytes(), before);
    });
}
