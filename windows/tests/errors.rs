//! Misuse that types cannot prevent: errors that name the call, the rank and the open epoch, and their classes.

use crate::support::threads;
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Mapped, Rank};
use rmalab_locks::Error as LockError;
use rmalab_windows::{
    Call, Class, Error, Info, Layout, LayoutError, LockKind, Op, Open, PolicyKind, Result, Team, Window, WindowDisp,
};

type Win<'t> = Window<'t, Mapped>;
type Forget = fn(&mut Win<'_>);
type Try = fn(&mut Win<'_>) -> Result<()>;

/// Epochs that are opened and forgotten, by the kind of the open epoch.
const FORGOTTEN: [(Open, Forget); 5] = [
    (Open::Lock, |window| std::mem::forget(window.lock(LockKind::Shared, Rank(1)).unwrap())),
    (Open::LockAll, |window| std::mem::forget(window.lock_all().unwrap())),
    // Dropping it closes nothing.
    (Open::Fence, |window| _ = window.fence().unwrap().at(None).unwrap()),
    (Open::Access, |window| {
        let (mut access, _) = window.pscw().unwrap();
        std::mem::forget(access.start(&[]).unwrap());
    }),
    (Open::Exposure, |window| {
        let (_, mut exposure) = window.pscw().unwrap();
        std::mem::forget(exposure.post(&[]).unwrap());
    }),
];

/// Every call that opens an epoch.
const CALLS: [(Call, Try); 6] = [
    // To a target that no rank has locked.
    (Call::Lock, |window| window.lock(LockKind::Exclusive, Rank(0)).map(drop)),
    (Call::LockAll, |window| window.lock_all().map(drop)),
    (Call::Fence, |window| window.fence().map(drop)),
    (Call::Start, |window| window.pscw()?.0.start(&[]).map(drop)),
    (Call::Post, |window| window.pscw()?.1.post(&[]).map(drop)),
    (Call::Free, |_| Ok(())),
];

/// Checks the names in an error of this kind.
fn names(error: &Error, rank: Rank, call: &str, open: &str) {
    let text = error.to_string();
    for part in [rank.to_string().as_str(), call, open] {
        assert!(text.contains(part), "'{text}' does not name {part}");
    }
    assert_eq!(error.class(), Class::RmaSync, "{text}");
}

/// Every call after every forgotten epoch, each with its own window.
fn misuse(team: &Team<'_, Mapped>) {
    let me = team.rank();
    for (open, forget) in FORGOTTEN {
        for (call, try_call) in CALLS {
            let mut window = Window::allocate(team, 8).unwrap();
            forget(&mut window);
            let allowed = match (open, call) {
                // Several locks to different targets; the fence that follows closes a fence epoch.
                (Open::Lock, Call::Lock) | (Open::Fence, Call::Fence) | (_, Call::Free) => {
                    try_call(&mut window).unwrap();
                    true
                }
                _ => false,
            };
            if !allowed {
                let error = try_call(&mut window).unwrap_err();
                match (&error, open) {
                    (&Error::Conflict { rank, call: refused, open: found }, _) => {
                        // `pscw` returns both sides together.
                        let refused = if refused == Call::Start && call == Call::Post { call } else { refused };
                        assert_eq!((rank, refused, found), (me, call, open));
                        names(&error, me, if call == Call::Post { "start" } else { call.name() }, &open.to_string());
                    }
                    (Error::Locks(LockError::LockAllWhileLocked { rank, .. }), Open::Lock | Open::LockAll) => {
                        assert_eq!((*rank, call), (me, Call::LockAll));
                        names(&error, me, "lock_all", if open == Open::Lock { "rank 1" } else { "lock_all" });
                    }
                    (Error::Locks(LockError::AlreadyLocked { rank, held: "lock_all", .. }), Open::LockAll) => {
                        assert_eq!((*rank, call), (me, Call::Lock));
                        names(&error, me, "lock", "lock_all");
                    }
                    _ => panic!("{call} with {open}: {error:?}"),
                }
            }
            if (open, call) == (Open::Fence, Call::Fence) {
                // The second fence has closed the epoch, and has no operations after it.
                window.free().unwrap();
                continue;
            }
            let error = window.free().unwrap_err();
            assert!(matches!(error, Error::LeftOpen { call: Call::Free, open: found, .. } if found == open), "{error}");
            names(&error, me, "free", &open.to_string());
        }
    }
}

#[test]
fn every_call_with_every_epoch_open() {
    threads(2, misuse);
}

/// An access and an exposure epoch may be open together, but not two of a kind, even if one was forgotten.
#[test]
fn a_second_start_and_a_second_post() {
    threads(1, |team| {
        let mut window = Window::allocate(team, 8).unwrap();
        {
            let (mut access, mut exposure) = window.pscw().unwrap();
            std::mem::forget(access.start(&[]).unwrap());
            let error = access.start(&[]).unwrap_err();
            names(&error, Rank(0), "start", "an access epoch (start)");
            std::mem::forget(exposure.post(&[]).unwrap());
            let error = exposure.post(&[]).unwrap_err();
            names(&error, Rank(0), "post", "an exposure epoch (post)");
        }
        // The window that was forgotten with the epoch is no longer usable. Other windows are not affected.
        let mut other = Window::allocate(team, 8).unwrap();
        other.fence().unwrap().close().unwrap();
        other.free().unwrap();
        drop(window);
    });
}

#[test]
fn a_target_is_locked_once() {
    threads(2, |team| {
        for &policy in PolicyKind::ALL.iter().filter(|&&policy| policy != PolicyKind::NoCheck) {
            let info = format!("rmalab_lock_policy={policy}").parse().unwrap();
            let window = Window::builder(team).info(&info).allocate(8).unwrap();
            for (kind, held) in [(LockKind::Shared, "shared"), (LockKind::Exclusive, "exclusive")] {
                let epoch = window.lock(kind, team.rank()).unwrap();
                for again in [LockKind::Shared, LockKind::Exclusive] {
                    let error = window.lock(again, team.rank()).unwrap_err();
                    names(&error, team.rank(), "lock", held);
                }
                epoch.unlock().unwrap();
            }
            window.lock(LockKind::Exclusive, team.rank()).unwrap().unlock().unwrap();
            window.free().unwrap();
        }
    });
}

/// A policy with one lock for all targets cannot make a shared lock exclusive.
#[test]
fn an_upgrade_is_a_conflict() {
    threads(2, |team| {
        let info = "rmalab_lock_policy=mcs-rw-rp".parse().unwrap();
        let window = Window::builder(team).info(&info).allocate(8).unwrap();
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        let error = window.lock(LockKind::Exclusive, Rank(1)).unwrap_err();
        assert!(matches!(error, Error::Locks(LockError::Upgrade { .. })), "{error}");
        assert_eq!(error.class(), Class::RmaConflict);
        epoch.unlock().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn invalid_groups_and_targets_are_errors() {
    threads(2, |team| {
        let me = team.rank();
        let mut window = Window::allocate(team, 8).unwrap();
        let missing = Rank(2);
        assert_eq!(window.lock(LockKind::Shared, missing).unwrap_err().class(), Class::Rank);
        assert_eq!(window.shared_query(missing).unwrap_err().class(), Class::Rank);
        let epoch = window.lock_all().unwrap();
        let error = epoch.at(missing).unwrap_err();
        assert_eq!(error.to_string(), "at: rank 2 does not exist in a team of 2 ranks");
        for error in [epoch.flush_local(missing).unwrap_err(), epoch.flush(missing).unwrap_err()] {
            assert_eq!(error.to_string(), "flush: rank 2 does not exist in a team of 2 ranks");
            assert_eq!(error.class(), Class::Rank);
        }
        epoch.unlock_all().unwrap();
        let epoch = window.fence().unwrap();
        assert_eq!(epoch.at(missing).unwrap_err().class(), Class::Rank);
        epoch.close().unwrap();
        let (mut access, mut exposure) = window.pscw().unwrap();
        assert_eq!(access.start(&[missing]).unwrap_err().class(), Class::Rank);
        assert_eq!(exposure.post(&[missing]).unwrap_err().class(), Class::Rank);
        for error in [access.start(&[me, me]).unwrap_err(), exposure.post(&[me, me]).unwrap_err()] {
            assert!(error.to_string().contains("twice"), "{error}");
            assert_eq!(error.class(), Class::Group);
        }
        // The refused calls have opened no epoch.
        let exposed = exposure.post(&[me]).unwrap();
        let epoch = access.start(&[me]).unwrap();
        let error = epoch.at(Rank(1 - me.0)).unwrap_err();
        let expected = format!(
            "{me}: an operation on {}, which the group of this access epoch (start) does not contain: [{}]",
            Rank(1 - me.0),
            me.0
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.class(), Class::RmaSync);
        epoch.at(me).unwrap().put_value(WindowDisp(0), 1_u64).unwrap();
        epoch.complete().unwrap();
        exposed.wait().unwrap();
        window.free().unwrap();
    });
}

/// An error of each class of windows.
#[test]
fn every_error_has_its_class() {
    threads(1, |team| {
        let window = Window::allocate(team, 8).unwrap();
        let dynamic = Window::create_dynamic(team).unwrap();
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        let number = Layout::of::<u32>();
        let hints = |text: &str| -> Result<Info, Error> { Ok(text.parse()?) };
        let (disp, mut buffer) = (WindowDisp(0), [0_u32; 2]);
        let errors = [
            (Class::RmaRange, epoch.put(WindowDisp(1), &[0_u64]).unwrap_err()),
            (Class::Op, epoch.accumulate(disp, Op::BitAnd, &[0.0_f32]).unwrap_err()),
            (Class::Count, epoch.get_layout(disp, number.item(), &mut buffer, number.items(2)).unwrap_err()),
            (Class::Type, Error::from(Layout::contiguous(u64::MAX, &number).unwrap_err())),
            (
                Class::Type,
                epoch.accumulate_layout(disp, Layout::of::<i32>().item(), Op::Sum, &buffer, number.item()).unwrap_err(),
            ),
            (Class::Disp, Window::builder(team).disp_unit(0).allocate(8).unwrap_err()),
            (Class::NoMem, Window::allocate(team, u64::MAX).unwrap_err()),
            (Class::NoMem, Error::from(LayoutError::OutOfMemory { bytes: 1 << 60 })),
            (Class::Size, Error::Uneven { rank: Rank(0), bytes: 8, other: Rank(1), there: 16 }),
            (Class::RmaFlavor, window.detach(disp).unwrap_err()),
            (Class::RmaAttach, dynamic.attach(UserMemory::from_vec(Vec::<u8>::new())).unwrap_err()),
            (Class::RmaAttach, dynamic.detach(disp).unwrap_err()),
            (Class::Rank, window.lock(LockKind::Shared, Rank(1)).unwrap_err()),
            (Class::RmaSync, window.lock(LockKind::Shared, Rank(0)).unwrap_err()),
            (Class::RmaShared, Error::NotShared { call: Call::SharedQuery, rank: Rank(0), target: Rank(1) }),
            (Class::InfoKey, hints("=1").unwrap_err()),
            (Class::InfoValue, hints(&format!("a={}", "1".repeat(1025))).unwrap_err()),
            (Class::Info, hints("a").unwrap_err()),
            (Class::Other, Error::NotMade { rank: Rank(0) }),
        ];
        for (class, error) in errors {
            assert_eq!(error.class(), class, "{error}");
            assert!(!error.to_string().is_empty());
        }
        let error = Layout::subarray(&[4], &[2], &[3], rmalab_windows::layout::Order::C, &number).unwrap_err();
        assert!(matches!(error, LayoutError::Subarray { dimension: 0, .. }), "{error}");
        epoch.unlock().unwrap();
        // A refused operation leaves its epoch and its window unchanged.
        window.free().unwrap();
        dynamic.free().unwrap();
    });
}
