//! Hints and their effects on a window, names, attributes, and error handlers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::support::{everywhere, threads};
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Mapped, Rank, RemoteAtomics, World};
use rmalab_windows::{
    Attributes, Call, Class, Config, Error, Info, Keyval, LockKind, Model, Op, Open, PolicyKind, Team, Window,
    WindowDisp,
};

fn info(text: &str) -> Info {
    text.parse().unwrap()
}

/// The defaults for one rank. The environment may set the lock policy.
const DEFAULTS: [(&str, &str); 15] = [
    ("accumulate_ops", "same_op_no_op"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("alloc_shared_noncontig", "false"),
    ("epochs_used", "fence,pscw,lock,lockall"),
    ("mpi_accumulate_granularity", "0"),
    ("mpi_assert_memory_alloc_kinds", "system,mpi,mpi:alloc_mem,mpi:win_allocate,mpi:win_allocate_shared"),
    ("mpi_minimum_memory_alignment", "128"),
    ("no_locks", "false"),
    ("rmalab_accumulate", "native"),
    ("rmalab_fence", "dissemination"),
    ("rmalab_pscw", "flags"),
    ("rmalab_transport", "one-sided"),
    ("same_disp_unit", "false"),
    ("same_size", "false"),
    ("which_accumulate_ops", "max,min,sum,prod,maxloc,minloc,band,bor,bxor,land,lor,lxor,replace,no_op,cswap"),
];

#[test]
fn get_info_reports_the_defaults() {
    threads(1, |team| {
        let window = Window::allocate(team, 8).unwrap();
        let mut in_use = window.info();
        assert_eq!(in_use.delete("rmalab_lock_policy"), Some(PolicyKind::default().to_string()));
        assert_eq!(in_use.iter().collect::<Vec<_>>(), DEFAULTS);
        assert!(window.ignored().is_empty());
    });
}

/// Each hint with a value other than its default is granted and reported.
#[test]
fn every_hint_is_granted_and_reported() {
    let hints = [
        ("accumulate_ops", "same_op"),
        ("accumulate_ordering", "rar,waw"),
        ("alloc_shared_noncontig", "true"),
        ("epochs_used", "fence,lockall"),
        ("mpi_accumulate_granularity", "128"),
        ("mpi_assert_memory_alloc_kinds", "system"),
        ("mpi_minimum_memory_alignment", "1024"),
        ("no_locks", "true"),
        ("rmalab_accumulate", "cas"),
        ("rmalab_fence", "naive"),
        ("rmalab_lock_policy", "per-target"),
        ("rmalab_pscw", "matching"),
        ("same_disp_unit", "true"),
        ("same_size", "true"),
        ("which_accumulate_ops", "sum,cswap"),
    ];
    threads(2, |team| {
        let window = Window::builder(team).info(&Info::from_pairs(hints).unwrap()).allocate_shared(8).unwrap();
        assert_eq!(window.ignored(), []);
        let in_use = window.info();
        for (key, value) in hints {
            assert_eq!(in_use.get(key), Some(value));
        }
        window.free().unwrap();
    });
}

/// A program that needs more than a word to be synchronized at once gets a lock. Accumulates are correct either way.
#[test]
fn a_granularity_of_more_than_a_word_asks_for_a_lock() {
    threads(2, |team| {
        for (bytes, strategy) in [(0, "native"), (8, "native"), (9, "lock"), (4096, "lock")] {
            let hint = info(&format!("mpi_accumulate_granularity={bytes}"));
            let window = Window::builder(team).info(&hint).allocate(64).unwrap();
            assert_eq!(window.info().get("rmalab_accumulate"), Some(strategy), "{bytes}");
            assert_eq!(window.info().get("mpi_accumulate_granularity"), Some(bytes.to_string().as_str()));
            let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
            for _ in 0..100 {
                epoch.accumulate(WindowDisp(0), Op::Sum, &[1_u64; 8]).unwrap();
            }
            epoch.unlock().unwrap();
            team.barrier().unwrap();
            let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
            assert_eq!(epoch.get_value::<[u64; 8]>(WindowDisp(0)).unwrap(), [200; 8]);
            epoch.unlock().unwrap();
            window.free().unwrap();
        }
    });
}

/// Tests every lock policy by its name, and locks under it.
fn policies(team: &Team<'_, Mapped>) {
    for &policy in PolicyKind::ALL.iter().filter(|&&policy| policy != PolicyKind::NoCheck) {
        let hint = info(&format!("rmalab_lock_policy={policy}"));
        let mut window = Window::builder(team).info(&hint).allocate(16).unwrap();
        assert_eq!(window.info().get("rmalab_lock_policy"), Some(policy.to_string().as_str()));
        for _ in 0..50 {
            let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            let value = epoch.get_value::<u64>(WindowDisp(8)).unwrap();
            epoch.put_value(WindowDisp(8), value + 1).unwrap();
            epoch.unlock().unwrap();
        }
        window.lock_all().unwrap().unlock_all().unwrap();
        team.barrier().unwrap();
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        assert_eq!(epoch.get_value::<u64>(WindowDisp(8)).unwrap(), 50 * u64::from(team.size()), "{policy}");
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn a_lock_policy_is_chosen_by_its_name() {
    everywhere("hints::a_lock_policy_is_chosen_by_its_name", 3, policies);
}

#[test]
fn ignored_hints_are_reported() {
    threads(1, |team| {
        let asked = info(
            "colour=red,no_locks=perhaps,rmalab_lock_policy=fair,rmalab_fence=deferred,mpi_minimum_memory_alignment=100",
        );
        let window = Window::builder(team).info(&asked).allocate(8).unwrap();
        let keys: Vec<&str> = window.ignored().iter().map(|ignored| ignored.key.as_str()).collect();
        for key in ["colour", "no_locks", "rmalab_lock_policy", "rmalab_fence", "mpi_minimum_memory_alignment"] {
            assert!(keys.contains(&key), "{key} in {keys:?}");
        }
        assert_eq!(keys.len(), 5);
        let in_use = window.info();
        assert_eq!(in_use.get("colour"), None);
        assert_eq!(in_use.get("no_locks"), Some("false"));
        assert_eq!(in_use.get("rmalab_fence"), Some("dissemination"));
        // The window works as if it had no ignored hints.
        window.lock(LockKind::Exclusive, Rank(0)).unwrap().unlock().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn a_window_without_locks_refuses_them() {
    threads(2, |team| {
        let mut window = Window::builder(team).info(&info("no_locks=true")).allocate(8).unwrap();
        let rank = team.rank();
        for kind in [LockKind::Shared, LockKind::Exclusive] {
            let error = window.lock(kind, Rank(0)).unwrap_err();
            assert!(matches!(error, Error::NoLocks { call: Call::Lock, .. }), "{error}");
            assert_eq!(error.to_string(), format!("{rank}: lock of a window that was made with the hint no_locks"));
        }
        let error = window.lock_all().unwrap_err();
        assert!(matches!(error, Error::NoLocks { call: Call::LockAll, .. }), "{error}");
        assert_eq!(error.class(), Class::RmaSync);
        // Epochs of other kinds still work.
        let epoch = window.fence().unwrap();
        epoch.at(Rank(1 - rank.0)).unwrap().put_value(WindowDisp(0), 7_u64).unwrap();
        epoch.close().unwrap();
        assert_eq!(window.local().unwrap().load::<u64>(WindowDisp(0)).unwrap(), 7);
        window.free().unwrap();
    });
}

/// Sizes or units that differ in spite of a promise are an error on all ranks, and no memory is taken.
fn broken_promises(team: &Team<'_, Mapped>) {
    let free = team.ra().heap().free_bytes();
    let me = team.rank().0;
    for (hint, what, class, bytes, unit) in [
        ("same_size=true", "the size", Class::Size, 8 + u64::from(me == 1), 1),
        ("same_disp_unit=true", "the displacement unit", Class::Disp, 8, 1 + u32::from(me == 2)),
    ] {
        let builder = || Window::builder(team).info(&info(hint)).disp_unit(unit);
        let memory = UserMemory::from_vec(vec![0_u8; bytes as usize]);
        for result in [builder().allocate_shared(bytes), builder().create(memory), builder().allocate(bytes)] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Hint { what: found, .. } if found == what), "{error}");
            assert_eq!(error.class(), class);
        }
        // Kept promises are not errors.
        builder().disp_unit(4).allocate_shared(8).unwrap().free().unwrap();
        builder().disp_unit(4).allocate(8).unwrap().free().unwrap();
    }
    assert_eq!(team.ra().heap().free_bytes(), free);
}

#[test]
fn broken_promises_are_errors_everywhere() {
    everywhere("hints::broken_promises_are_errors_everywhere", 3, broken_promises);
}

#[test]
fn set_info_changes_what_may_change() {
    threads(1, |team| {
        let window = Window::builder(team).info(&info("same_size=true")).allocate(8).unwrap();
        let asked = info("accumulate_ordering=rar,accumulate_ops=same_op,no_locks=true,colour=red,same_size=true");
        let ignored: Vec<String> = window.set_info(&asked).iter().map(ToString::to_string).collect();
        assert_eq!(
            ignored,
            [
                "colour=red is ignored: no hint has this key",
                "no_locks=true is ignored: the window was created with false, and this can no longer change",
            ]
        );
        let in_use = window.info();
        let seen = ["accumulate_ordering", "accumulate_ops", "no_locks", "same_size"].map(|key| in_use.get(key));
        assert_eq!(seen, [Some("rar"), Some("same_op"), Some("false"), Some("true")]);
        // A stricter order than at the window's making is not granted later.
        assert_eq!(window.set_info(&info("accumulate_ordering=rar,waw")).len(), 1);
        assert_eq!(window.set_info(&info("accumulate_ordering=none")).len(), 0);
        assert_eq!(window.info().get("accumulate_ordering"), Some("none"));
        assert_eq!(window.info().get("rmalab_pscw"), Some("flags"), "what is not mentioned stays");
        window.free().unwrap();
    });
}

#[test]
fn allocated_memory_is_aligned_as_asked() {
    let world = World::threads(2).segment_bytes(1 << 20).run(|ra| {
        let team = Team::new(ra).unwrap();
        // This prevents an alignment of the next allocation by chance.
        let _before = Window::allocate(&team, 8).unwrap();
        for (text, align) in
            [("", 128), ("mpi_minimum_memory_alignment=4096", 4096), ("mpi_minimum_memory_alignment=8", 128)]
        {
            let builder = || Window::builder(&team).info(&info(text));
            for window in [builder().allocate(24).unwrap(), builder().allocate_shared(24).unwrap()] {
                assert!(window.ignored().is_empty());
                let start = window.shared_query(Rank(0)).unwrap().words().unwrap().as_ptr().addr();
                assert!(start.is_multiple_of(align), "{start:#x} for {align}");
            }
        }
    });
    world.unwrap();
}

#[test]
fn windows_have_names() {
    threads(1, |team| {
        let window = Window::allocate(team, 8).unwrap();
        assert_eq!(window.name(), "");
        window.set_name("halo");
        assert_eq!(window.name(), "halo");
        let named = Window::builder(team).name("left").create_dynamic().unwrap();
        assert_eq!(named.name(), "left");
        assert!(named.team().rank() == team.rank() && named.team().size() == 1);
    });
}

/// The attributes that the standard predefines.
#[test]
fn windows_have_base_size_unit_flavor_and_model() {
    threads(2, |team| {
        let me = team.rank().0;
        let window = Window::builder(team).disp_unit(4).allocate(64).unwrap();
        assert_eq!((window.bytes(), window.disp_unit(), window.model()), (64, 4, Model::Unified));
        assert_eq!(
            (window.flavor().to_string(), window.model().to_string()),
            ("allocate".to_owned(), "unified".to_owned())
        );
        // The base is the memory that the other ranks reach.
        let base = window.base().unwrap();
        assert_eq!(base.len(), 8);
        base[3].store(u64::from(me) + 5, Ordering::SeqCst);
        window.sync();
        team.barrier().unwrap();
        let epoch = window.lock(LockKind::Shared, Rank(1 - me)).unwrap();
        assert_eq!(epoch.get_value::<u64>(WindowDisp(6)).unwrap(), u64::from(1 - me) + 5);
        epoch.unlock().unwrap();
        let dynamic = Window::create_dynamic(team).unwrap();
        assert_eq!((dynamic.bytes(), dynamic.disp_unit(), dynamic.base().is_none()), (0, 1, true));
        dynamic.free().unwrap();
        window.free().unwrap();
    });
}

#[test]
fn attributes_are_deleted_with_their_window() {
    threads(1, |team| {
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let keyval = |name: &'static str| {
            let deleted = Arc::clone(&deleted);
            Keyval::with_delete(move |value: &mut u32| deleted.lock().unwrap().push((name, *value)))
        };
        let (first, second, unset) = (keyval("first"), keyval("second"), keyval("unset"));
        let window = Window::allocate(team, 8).unwrap();
        let other = Window::allocate(team, 8).unwrap();
        let attributes = || window.attributes().borrow_mut();
        assert_eq!(attributes().set(&first, 1), None);
        assert_eq!(attributes().set(&second, 2), None);
        assert_eq!(attributes().set(&first, 3), Some(1));
        assert_eq!(attributes().get(&first), Some(&3));
        assert_eq!(attributes().get(&unset), None);
        assert_eq!(other.attributes().borrow().get(&first), None, "a window's attributes are its own");
        other.attributes().borrow_mut().set(&second, 9);
        assert_eq!(other.attributes().borrow_mut().delete(&second), Some(9));
        first.free();
        assert_eq!(*deleted.lock().unwrap(), [("first", 1), ("second", 9)]);
        window.free().unwrap();
        // Attributes are deleted in reverse order, including one whose keyval was freed before.
        assert_eq!(deleted.lock().unwrap()[2..], [("first", 3), ("second", 2)]);
        // Dropping a window deletes attributes, too.
        other.attributes().borrow_mut().set(&unset, 4);
        drop(other);
        assert_eq!(deleted.lock().unwrap().last(), Some(&("unset", 4)));
        assert_eq!(Attributes::new().get(&second), None);
    });
}

/// If no call can return an error, the handler gets it, and the next call returns it once.
#[test]
fn an_epoch_that_ends_by_being_dropped_calls_the_error_handler() {
    let told = Mutex::new(Vec::new());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        World::threads(2).run(|ra| {
            let team = Team::new(ra).unwrap();
            let mut window = Window::allocate(&team, 8).unwrap();
            if team.rank() == Rank(1) {
                let (_, mut exposure) = window.pscw().unwrap();
                let _exposure = exposure.post(&[Rank(0)]).unwrap();
                panic!("in an exposure epoch");
            }
            let errors = Arc::new(Mutex::new(Vec::new()));
            let handler = Arc::clone(&errors);
            window.error_handler().set(Some(Arc::new(move |error: &Error| {
                handler.lock().unwrap().push((error.class(), error.to_string()));
            })));
            {
                let (_, mut exposure) = window.pscw().unwrap();
                // Rank 1 never completes: the wait of the drop fails.
                drop(exposure.post(&[Rank(1)]).unwrap());
                let error = exposure.post(&[]).unwrap_err();
                assert!(
                    matches!(error, Error::Atomics(rmalab_atomics::Error::PeerFailed { rank: Rank(1) })),
                    "{error}"
                );
            }
            assert!(window.pscw().is_ok(), "reported once");
            *told.lock().unwrap() = std::mem::take(&mut *errors.lock().unwrap());
            // A program can call the handler itself.
            let own = Error::NotMade { rank: Rank(1) };
            assert!(window.error_handler().call(&own));
            assert_eq!(errors.lock().unwrap().len(), 1);
            assert!(window.error_handler().set(None).is_some());
            assert!(!window.error_handler().call(&own) && window.error_handler().get().is_none());
        })
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"in an exposure epoch"));
    let told = told.into_inner().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, Class::Other);
    assert!(told[0].1.contains("rank 1"), "{told:?}");
}

/// The window reports strategies of the builder as the hints of the same names.
#[test]
fn a_window_reports_its_configuration_as_hints() {
    threads(1, |team| {
        let (config, ignored) =
            Config::from_info(&info("rmalab_fence=naive,rmalab_pscw=flags,rmalab_accumulate=lock,no_locks=true"));
        assert!(ignored.is_empty());
        let window = Window::builder(team).config(config).allocate(8).unwrap();
        assert_eq!(window.info(), config.to_info());
        let error = window.lock(LockKind::Shared, Rank(0)).unwrap_err();
        assert!(matches!(error, Error::NoLocks { .. }), "{error}");
        window.free().unwrap();
        // An open epoch changes no hint.
        let mut window = Window::allocate(team, 8).unwrap();
        let _ = window.fence().unwrap().at(Rank(0)).unwrap();
        assert_eq!(window.set_info(&info("accumulate_ops=same_op")).len(), 0);
        let error = window.free().unwrap_err();
        assert!(matches!(error, Error::LeftOpen { open: Open::Fence, .. }), "{error}");
    });
}
