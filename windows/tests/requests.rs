//! Requests on a network, where operations take time, and the effect of an epoch's calls on them.

use rmalab_atomics::sim::{Options, Profile, Sim, Simulator};
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{AccumulateOrdering, Config, LockKind, Op, Request, Result, Team, Window, WindowDisp};

/// Runs `body` on rank 0 of two ranks on two nodes.
fn across(body: impl Fn(&mut Window<'_, Sim<'_>>) -> Result<()> + 'static) {
    across_with(Config::default(), body);
}

/// Like [`across`], on a window with this configuration.
fn across_with(config: Config, body: impl Fn(&mut Window<'_, Sim<'_>>) -> Result<()> + 'static) {
    let profile = Profile::builtin("infiniband-ndr").unwrap();
    let options = Options { ranks_per_node: Some(1), ..Options::new(2) };
    let run = Simulator::new(&profile, &options).unwrap().run(move |ra| -> Result<()> {
        let team = Team::new(ra)?;
        let mut window = Window::builder(&team).config(config).allocate(1 << 16)?;
        team.barrier()?;
        if ra.rank() == Rank(0) {
            body(&mut window).unwrap();
        }
        team.barrier()?;
        window.free()
    });
    run.unwrap().results.into_iter().for_each(|result| result.unwrap());
}

const LONG: usize = 1 << 15;

/// Returns whether the request is already complete. This takes no virtual time.
fn is_complete(request: &mut Request<'_, Sim<'_>, u8>) -> bool {
    request.test().unwrap()
}

/// A get takes longer than its call, so there is something to wait for. A put of this network has copied its source.
#[test]
fn flush_local_waits_for_requests() {
    across(|window| {
        let epoch = window.lock(LockKind::Shared, Rank(1))?;
        epoch.put(WindowDisp(0), &[3_u8; LONG])?;
        epoch.flush()?;
        let mut get = epoch.rget(WindowDisp(0), vec![0_u8; LONG])?;
        assert!(!is_complete(&mut get));
        epoch.flush_local()?;
        assert!(is_complete(&mut get));
        assert_eq!(get.wait()?, vec![3; LONG]);
        epoch.unlock()?;
        let epoch = window.lock_all()?;
        let target = epoch.at(Rank(1))?;
        let mut get = target.rget(WindowDisp(0), vec![0_u8; LONG])?;
        assert!(!is_complete(&mut get));
        epoch.flush_local(Rank(1))?;
        assert!(is_complete(&mut get));
        drop(get);
        let mut get = target.rget(WindowDisp(0), vec![0_u8; LONG])?;
        assert!(!is_complete(&mut get));
        epoch.flush_local_all()?;
        assert!(is_complete(&mut get));
        drop(get);
        epoch.unlock_all()
    });
}

/// Without a request there is nothing to wait for, and no message is sent.
#[test]
fn flush_local_without_requests_costs_nothing() {
    across(|window| {
        let epoch = window.lock(LockKind::Shared, Rank(1))?;
        epoch.put(WindowDisp(0), &[7_u8; 64])?;
        epoch.rget(WindowDisp(64), vec![0_u8; 64])?.wait()?;
        let ra = window.team().ra();
        let before = ra.now();
        epoch.flush_local()?;
        assert_eq!(ra.now(), before);
        epoch.unlock()
    });
}

/// The end of an epoch completes its requests. As in MPI, the program may wait for them afterwards.
#[test]
fn requests_are_complete_when_their_epoch_has_ended() {
    across(|window| {
        let epoch = window.lock(LockKind::Exclusive, Rank(1))?;
        let put = epoch.rput(WindowDisp(0), vec![3_u8; LONG])?;
        let mut get = epoch.rget(WindowDisp(0), vec![0_u8; LONG])?;
        assert!(!is_complete(&mut get));
        epoch.unlock()?;
        assert!(is_complete(&mut get));
        assert_eq!((put.wait()?.len(), get.wait()?.len()), (LONG, LONG));
        let epoch = window.lock_all()?;
        let mut get = epoch.at(Rank(1))?.rget(WindowDisp(0), vec![0_u8; LONG])?;
        assert!(!is_complete(&mut get));
        epoch.unlock_all()?;
        assert!(is_complete(&mut get));
        assert_eq!(get.wait()?, vec![3; LONG]);
        Ok(())
    });
}

/// The number of updates that the tests below have under way.
const UPDATES: usize = 32;

/// The network has many updates under way at a time. On its clock, together they take less than half of their time one by
/// one.
#[test]
fn updates_of_a_batch_overlap() {
    across(|window| {
        let epoch = window.lock_all()?;
        let ra = epoch.window().team().ra();
        let target = epoch.at(Rank(1))?;
        let disp = |i: usize| WindowDisp(8 * i as i64);
        let began = ra.now();
        for i in 0..UPDATES {
            assert_eq!(target.fetch_and_op(disp(i), Op::Sum, i as u64)?, 0);
        }
        let alone = ra.now().0 - began.0;
        let began = ra.now();
        let (mut old, mut words, mut swapped) = ([0_u64; UPDATES], [0_u64; 2], 0_u64);
        epoch.batch(|batch| {
            for (i, old) in old.iter_mut().enumerate() {
                batch.fetch_and_op(&target, disp(i), Op::Sum, 100, old)?;
            }
            Ok(())
        })?;
        let together = ra.now().0 - began.0;
        for (i, &old) in old.iter().enumerate() {
            assert_eq!(old, i as u64);
        }
        assert!(2 * together < alone, "{UPDATES} updates together took {together} ns, one by one {alone} ns");
        epoch.batch(|batch| {
            batch.get_accumulate(&target, disp(0), Op::NoOp, &[], &mut words)?;
            batch.compare_and_swap(&target, disp(2), 102, 7, &mut swapped)
        })?;
        assert_eq!((words, swapped), ([100, 101], 102));
        // Operations that the network lacks are done when the call returns: floats, an unaligned element.
        let (mut float, mut odd) = (0.0, 0_u64);
        epoch.batch(|batch| {
            batch.fetch_and_op(&target, disp(UPDATES), Op::Sum, 1.5_f64, &mut float)?;
            batch.fetch_and_op(&target, WindowDisp(8 * UPDATES as i64 + 12), Op::Sum, 3_u64, &mut odd)
        })?;
        assert_eq!((float, odd), (0.0, 0));
        assert_eq!(target.get_value::<f64>(disp(UPDATES))?, 1.5);
        assert_eq!(target.get_value::<u64>(WindowDisp(8 * UPDATES as i64 + 12))?, 3);
        epoch.unlock_all()
    });
}

/// Accumulates with requests overlap only if a hint of the window declares their order irrelevant.
#[test]
fn accumulates_with_requests_overlap_where_their_order_does_not_matter() {
    for (accumulate_ordering, overlap) in [(AccumulateOrdering::NONE, true), (AccumulateOrdering::ALL, false)] {
        across_with(Config { accumulate_ordering, ..Config::default() }, move |window| {
            let epoch = window.lock(LockKind::Shared, Rank(1))?;
            let values: Vec<u64> = (0..UPDATES as u64).collect();
            let mut add = epoch.raccumulate(WindowDisp(0), Op::Sum, values.clone())?;
            assert_eq!(add.test()?, !overlap);
            let given = add.wait()?;
            assert_eq!(given, values);
            let mut fetch = epoch.rget_accumulate(WindowDisp(0), Op::Sum, &values, vec![0; UPDATES])?;
            assert_eq!(fetch.test()?, !overlap);
            assert_eq!(fetch.wait()?, values);
            let mut read = epoch.rget_accumulate(WindowDisp(0), Op::NoOp, &[], vec![0_u64; UPDATES])?;
            assert_eq!(read.test()?, !overlap);
            epoch.flush()?;
            assert!(read.test()?);
            assert!(read.wait()?.iter().zip(&values).all(|(seen, value)| *seen == 2 * value));
            // Buffers that do not fit each other are refused as usual.
            assert!(epoch.rget_accumulate(WindowDisp(0), Op::Sum, &values[1..], vec![0; UPDATES]).is_err());
            epoch.unlock()
        });
    }
}
