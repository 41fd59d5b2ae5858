//! The program's memory, registered for ranks that are processes.

use rmalab_atomics::registered::{RegisteredKey, UserMemory};
use rmalab_atomics::{Collectives, Disp, Error, Mapped, Rank, RemoteAtomics, Until};
use rustix::process::Signal;

use super::{be_a_rank, eventually, here, launcher, results, signal_of, world};
use crate::registration::{self, RANKS};

#[test]
fn agrees_with_a_model() {
    world(here!(), RANKS).run(registration::agrees_with_a_model).unwrap();
}

#[test]
fn memory_comes_back() {
    world(here!(), RANKS).run(registration::memory_comes_back).unwrap();
}

#[test]
fn refusals() {
    world(here!(), RANKS).run(registration::refusals).unwrap();
}

#[test]
fn a_deregistration_waits_for_the_pins() {
    let used = world(here!(), RANKS).run(registration::a_deregistration_waits_for_the_pins).unwrap()[0];
    // The wait takes some 200 ms, as between threads.
    assert!(used < 20_000_000, "the deregistration has used {used} ns of processor time");
}

#[test]
fn nothing_is_written_after_a_deregistration() {
    world(here!(), RANKS).run(registration::nothing_is_written_after_a_deregistration).unwrap();
}

#[test]
fn used_up_places_are_reused() {
    world(here!(), RANKS).run(|ra| registration::used_up_places_are_reused(ra, 16 << 10)).unwrap();
}

#[test]
fn only_a_rank_itself_reaches_its_memory_as_words() {
    let seen = world(here!(), 2).run(|ra| {
        let collectives = Collectives::new(ra).unwrap();
        let key = ra.register(UserMemory::from_vec(vec![3u64; 4])).unwrap();
        let keys = registration::exchange(&collectives, key);
        let words: Vec<bool> =
            (0..2).map(|rank| ra.pin(Rank(rank), keys[rank as usize]).unwrap().words().is_some()).collect();
        collectives.barrier().unwrap();
        ra.deregister(key).unwrap();
        words
    });
    assert_eq!(seen.unwrap(), [[true, false], [false, true]]);
}

/// Kills this rank, once every other rank has counted itself at `passed` as out of [`pinned`]. A rank that still waits in the
/// barrier there would get `PeerFailed` from it.
fn die(ra: &Mapped, passed: Disp) {
    ra.wait_until(passed, Until::Eq(u64::from(ra.size()) - 1)).unwrap();
    rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
}

/// Registers memory on rank 1, and pins it on every other rank before rank 1 continues. Returns where [`die`] waits, too.
fn pinned<'a>(
    ra: &'a Mapped,
    collectives: &Collectives<'_, Mapped>,
) -> (RegisteredKey, Option<Box<dyn rmalab_atomics::registered::Pinned + 'a>>, Disp) {
    let passed = ra.heap().alloc(8, 8).unwrap();
    let key = ra.register(UserMemory::from_vec(vec![0u8; 100_000])).unwrap();
    let key = registration::exchange(collectives, key)[1];
    let pin = (ra.rank() != Rank(1)).then(|| ra.pin(Rank(1), key).unwrap());
    collectives.barrier().unwrap();
    for other in (0..ra.size()).map(Rank).filter(|&other| other != ra.rank()) {
        ra.fetch_add(other.at(passed), 1).unwrap();
    }
    (key, pin, passed)
}

#[test]
fn pins_report_the_death_of_their_owner() {
    be_a_rank(3, |ra| {
        let collectives = Collectives::new(ra).unwrap();
        let (key, pin, passed) = pinned(ra, &collectives);
        let Some(pin) = pin else {
            return die(ra, passed);
        };
        let error = loop {
            // One rank writes and the other reads.
            let done = if ra.rank() == Rank(0) { pin.put(1, &[1; 9]) } else { pin.get(1, &mut [0; 90_000]) };
            if let Err(error) = done {
                break error;
            }
        };
        assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
        let error = ra.pin(Rank(1), key).unwrap_err();
        assert!(matches!(error, Error::PeerFailed { rank: Rank(1) }), "{error}");
    });
    let outcome = launcher(here!(), 3).spawn().unwrap().wait().unwrap();
    assert_eq!(signal_of(outcome.statuses[1]), Some(9));
    assert_eq!(results::<()>(&outcome), [Some(()), None, Some(())]);
}

#[test]
fn memory_comes_back_from_a_holder_that_was_killed() {
    be_a_rank(3, |ra| {
        let collectives = Collectives::new(ra).unwrap();
        let (key, pin, passed) = pinned(ra, &collectives);
        match ra.rank().0 {
            0 => {
                let pin = pin.unwrap();
                pin.put(99_998, &[7, 8]).unwrap();
                die(ra, passed);
            }
            1 => {
                let memory = ra.deregister(key).unwrap().into_vec::<u8>().unwrap();
                assert_eq!((&memory[..2], &memory[99_998..]), (&[0, 0][..], &[7, 8][..]));
                // Another registration does not get the place of the one that stays pinned forever.
                let next = ra.register(UserMemory::from_vec(vec![1_u8])).unwrap();
                assert_ne!(next.0 as u32, key.0 as u32);
                assert_eq!(ra.deregister(next).unwrap().len(), 1);
            }
            // The deregistration waits for the pin of a live rank, until that rank gets the failure.
            _ => {
                let told = ra.wait_until(ra.heap().alloc(8, 8).unwrap(), Until::Ne(0));
                assert!(matches!(told, Err(Error::PeerFailed { rank: Rank(0) })), "{told:?}");
                drop(pin);
            }
        }
    });
    let outcome = launcher(here!(), 3).spawn().unwrap().wait().unwrap();
    assert_eq!(signal_of(outcome.statuses[0]), Some(9));
    assert_eq!(results::<()>(&outcome), [None, Some(()), Some(())]);
}

#[test]
fn a_holder_that_lives_keeps_the_memory_when_another_was_killed() {
    be_a_rank(3, |ra| {
        let collectives = Collectives::new(ra).unwrap();
        let over = ra.heap().alloc(8, 8).unwrap();
        let (key, pin, passed) = pinned(ra, &collectives);
        match ra.rank().0 {
            0 => die(ra, passed),
            1 => {
                let error = ra.deregister(key).unwrap_err();
                assert!(matches!(error, Error::PeerFailed { rank: Rank(0) }), "{error}");
                let error = ra.deregister(key).unwrap_err();
                assert!(matches!(error, Error::NotRegistered { .. }), "{error}");
                ra.put(Rank(2).at(over), 1).unwrap();
            }
            // The memory is leaked, so this pin is still valid.
            _ => {
                let pin = pin.unwrap();
                eventually("the end of the deregistration", || ra.get(Rank(2).at(over)).unwrap() == 1);
                drop(pin);
            }
        }
    });
    let outcome = launcher(here!(), 3).spawn().unwrap().wait().unwrap();
    assert_eq!(signal_of(outcome.statuses[0]), Some(9));
    assert_eq!(results::<()>(&outcome), [None, Some(()), Some(())]);
}

/// Makes the kernel refuse the copies of this process from here on, like the seccomp profile of a container.
#[cfg(target_arch = "x86_64")]
fn forbid_copies(errno: i32) {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut program = [
        // The number of the call is the first field of the filter's data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(jump, 2, 0, libc::SYS_process_vm_readv as u32),
        statement(jump, 1, 0, libc::SYS_process_vm_writev as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (yes, no): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: the kernel reads the filter and its program, which live until after the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, no, no, no), 0);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_container_that_forbids_copies_is_named() {
    let told = world(here!(), 3).run(|ra| {
        let collectives = Collectives::new(ra).unwrap();
        let key = ra.register(UserMemory::from_vec(vec![7u8; 3])).unwrap();
        let keys = registration::exchange(&collectives, key);
        let mut told = Vec::new();
        if ra.rank() != Rank(1) {
            let pin = ra.pin(Rank(1), keys[1]).unwrap();
            forbid_copies(if ra.rank() == Rank(0) { libc::EPERM } else { libc::ENOSYS });
            told.push(pin.put(0, &[1]).unwrap_err().to_string());
            told.push(pin.get(0, &mut [1]).unwrap_err().to_string());
            told.push(ra.pin(Rank(1), keys[1]).unwrap_err().to_string());
            let refused = ra.register(UserMemory::from_vec(vec![8u8; 3])).unwrap_err();
            assert!(matches!(refused.error, Error::Unsupported { .. }), "{refused}");
            assert_eq!(refused.memory.into_vec::<u8>().unwrap(), [8; 3]);
            told.push(refused.error.to_string());
            // A rank still reaches its own memory.
            assert_eq!(registration::contents(ra, ra.rank(), keys[ra.rank().index()]), [7; 3]);
        }
        collectives.barrier().unwrap();
        assert_eq!(ra.deregister(key).unwrap().into_vec::<u8>().unwrap(), [7; 3]);
        told
    });
    let told = told.unwrap();
    assert!(told[0].iter().all(|error| error.contains("EPERM") && error.contains("--cap-add=SYS_PTRACE")), "{told:?}");
    assert!(told[2].iter().all(|error| error.contains("this kernel has no process_vm_readv")), "{told:?}");
    assert_eq!((told[0].len(), told[1].len(), told[2].len()), (4, 0, 4));
}
