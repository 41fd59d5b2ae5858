//! Requests on a network, where operations take time: what an epoch's calls leave of them.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use rmalab_atomics::sim::{Options, Profile, Sim, Simulator};
use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{LockKind, Request, Result, Team, Window, WindowDisp};

/// Two ranks of two nodes; rank 0 runs `body`.
fn across(body: impl Fn(&mut Window<'_, Sim<'_>>) -> Result<()> + 'static) {
    let profile = Profile::builtin("infiniband-ndr").unwrap();
    let options = Options { ranks_per_node: Some(1), ..Options::new(2) };
    let run = Simulator::new(&profile, &options).unwrap().run(move |ra| -> Result<()> {
        let team = Team::new(ra)?;
        let mut window = Window::allocate(&team, 1 << 16)?;
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

/// One look, which takes no time: whether the request is complete already.
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

/// The end of an epoch completes its requests; they may be waited for after it, as in MPI.
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
