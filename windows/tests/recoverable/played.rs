//! Three ranks lock a window with a robust policy, and one of them is killed ahead of one of its operations.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmalab_atomics::{
    Address, Crashing, Error as AtomicsError, Launcher, Line, Outcome, Output, Rank, RemoteAtomics, WORD,
};
use rmalab_locks::Error as LockError;
use rmalab_windows::{Acquired, Config, Error, Lock, LockKind, PolicyKind, Result, Team, Window, WindowDisp};

pub(super) const ROBUST: [PolicyKind; 6] = [
    PolicyKind::RobustTas,
    PolicyKind::RobustTicket,
    PolicyKind::RobustMcs,
    PolicyKind::RobustRw,
    PolicyKind::RobustTwoLevel,
    PolicyKind::RobustHierarchical,
];
pub(super) const EXCLUSIVE: LockKind = LockKind::Exclusive;
pub(super) const LEFT: WindowDisp = WindowDisp(0);
pub(super) const RIGHT: WindowDisp = WindowDisp(8);
/// The rank whose part has the two words.
pub(super) const HOME: Rank = Rank(2);
pub(super) fn allocate<'t, A: RemoteAtomics>(team: &'t Team<'t, A>, policy: PolicyKind) -> Window<'t, A> {
    Window::builder(team).config(Config { policy, ..Config::default() }).symmetric().allocate(16).unwrap()
}

/// Makes the words equal, if they are not. Returns their value and whether they were torn.
pub(super) fn repair<A: RemoteAtomics>(part: &Lock<'_, '_, A>) -> (u64, bool) {
    let [left, right]: [u64; 2] = part.get_value(LEFT).unwrap();
    part.put_value(RIGHT, left).unwrap();
    (left, left != right)
}

/// The operation ahead of which rank 1 is killed, and the policy: `17:robust-tas`.
pub(super) const CRASH: &str = "RMALAB_TEST_WINDOW_CRASH";
pub(super) const TURNS: u64 = 3;

/// Locks [`HOME`] in a turn of [`play`], and repairs its words if this rank gets `OwnerDead`.
fn enter<'w, 't, A: RemoteAtomics>(
    window: &'w Window<'t, A>,
    turn: u64,
    told: &mut u64,
    torn: &mut u64,
) -> Lock<'w, 't, A> {
    let kind = if turn.is_multiple_of(2) { LockKind::Shared } else { EXCLUSIVE };
    match window.recoverable_lock(kind, HOME).unwrap() {
        Acquired::Clean(part) => part,
        Acquired::OwnerDead(inconsistent) => {
            *told += 1;
            *torn += u64::from(repair(&inconsistent).1);
            inconsistent.consistent().unwrap()
        }
    }
}

/// Returns whether the result is the loss of the rank's memory.
pub(super) fn is_lost<T>(result: &Result<T>, lost: Rank) -> bool {
    match result {
        Err(Error::Atomics(error) | Error::Locks(LockError::Atomics(error))) => {
            matches!(error, AtomicsError::PeerFailed { rank } if *rank == lost)
        }
        _ => false,
    }
}

/// Adds one to both words, [`TURNS`] times, with a read ahead of each, once by a lock_all. Returns the number of times that this rank got
/// `OwnerDead`, the number of torn words then, and the words' value when all live ranks are done.
pub(super) fn play<A: RemoteAtomics>(ra: &A) -> (u64, u64, u64) {
    let crash = std::env::var(CRASH).unwrap();
    let (number, policy) = crash.split_once(':').unwrap();
    let done = Rank(0).at(ra.heap().alloc(WORD, WORD).unwrap());
    let ra = &Crashing::new(ra, None);
    let team = Team::new(ra).unwrap();
    let mut window = allocate(&team, policy.parse().unwrap());
    let (mut told, mut torn) = (0, 0);
    // Without a barrier, which would end with the death.
    if ra.rank() == Rank(1) {
        ra.arm(Some(number.parse().unwrap()));
    }
    for turn in 0..2 * TURNS {
        if turn == 2 {
            let all = match window.recoverable_lock_all().unwrap() {
                Acquired::Clean(all) => all,
                Acquired::OwnerDead(inconsistent) => {
                    let part = inconsistent.at(HOME).unwrap();
                    let [left, right]: [u64; 2] = part.get_value(LEFT).unwrap();
                    part.put_value(RIGHT, left).unwrap();
                    (told, torn) = (told + 1, torn + u64::from(left != right));
                    inconsistent.consistent().unwrap()
                }
            };
            let [left, right]: [u64; 2] = all.at(HOME).unwrap().get_value(LEFT).unwrap();
            assert_eq!(left, right, "{}: lock_all is not told of torn data", ra.rank());
            // A lock's message may have been under way to the failed rank, whose memory is lost.
            let ended = all.unlock_all();
            let may_lose = !ra.capabilities().lasting_memory;
            assert!(ended.is_ok() || may_lose && is_lost(&ended, Rank(1)), "{}: {ended:?}", ra.rank());
            continue;
        }
        let part = enter(&window, turn, &mut told, &mut torn);
        let [left, right]: [u64; 2] = part.get_value(LEFT).unwrap();
        assert_eq!(left, right, "{}: not told of torn data", ra.rank());
        if turn % 2 == 1 {
            for word in [LEFT, RIGHT] {
                part.put_value(word, left + 1).unwrap();
                part.flush().unwrap();
            }
        }
        part.unlock().unwrap();
    }
    meet_the_living(ra, done);
    // It may have died after the last lock of the others.
    let part = enter(&window, 1, &mut told, &mut torn);
    let sum = part.get_value(LEFT).unwrap();
    part.unlock().unwrap();
    (told, torn, sum)
}

/// Sets this rank's bit, and waits until all live ranks have done so.
pub(super) fn meet_the_living<A: RemoteAtomics>(ra: &A, done: Address) {
    ra.fetch_add(done, 1 << ra.rank().0).unwrap();
    loop {
        let failed = ra.failed().unwrap();
        ra.acknowledge(&failed).unwrap();
        let are_done = ra.get(done).unwrap();
        if (0..3).all(|rank| are_done >> rank & 1 == 1 || failed.contains(Rank(rank))) {
            break;
        }
        let _ = ra.pause(64);
    }
}

/// Runs `test` as three ranks, one of which is killed ahead of its operation `number`. Also returns what they have printed.
pub(super) fn launch(test: &str, policy: PolicyKind, number: usize, hub: bool) -> (Outcome, String) {
    let printed = Arc::new(Mutex::new(String::new()));
    let lines = Arc::clone(&printed);
    let print = move |line: Line<'_>| {
        let text = String::from_utf8_lossy(line.bytes);
        lines.lock().unwrap().push_str(&format!("[{}] {text}\n", line.rank.0));
    };
    let job = Launcher::new(3)
        .command(std::env::current_exe().unwrap(), [test, "--exact", "--nocapture", "--include-ignored"])
        .env(CRASH, format!("{number}:{policy}"))
        .hub(hub)
        .output(Output::Lines(Box::new(print)))
        // The survivors go on. The deadline only ends a run that hangs.
        .grace(Duration::from_secs(60))
        .time_limit(Duration::from_secs(60))
        .spawn()
        .unwrap();
    let outcome = job.wait().unwrap();
    let printed = std::mem::take(&mut *printed.lock().unwrap());
    (outcome, printed)
}

/// Kills rank 1 of three ahead of its operations number 1, 1 + `step`, ... under each policy. Returns the number of deaths and of torn
/// data. `hub` is for ranks that meet by connections.
pub(super) fn kill(test: &str, step: usize, hub: bool) -> (u64, u64) {
    let (mut deaths, mut all_torn) = (0, 0);
    for policy in ROBUST {
        for number in (1..200).step_by(step) {
            let (outcome, printed) = launch(test, policy, number, hub);
            let what = format!("{policy}, ahead of operation {number}");
            let died = outcome.first_failure.is_some();
            assert!(matches!(outcome.first_failure, None | Some(Rank(1))), "{what}: {:?}", outcome.first_failure);
            let (mut told, mut torn) = (0, 0);
            for rank in (0..3).filter(|&rank| !died || rank != 1) {
                let seen = serde_json::from_slice::<(u64, u64, u64)>(&outcome.results[rank]);
                let seen =
                    seen.unwrap_or_else(|e| panic!("{what}: {e}: {}\n{printed}", outcome.describe(Rank(rank as u32))));
                told += seen.0;
                torn += seen.1;
                let least = TURNS * if died { 2 } else { 3 };
                assert!((least..=3 * TURNS).contains(&seen.2), "{what}: {seen:?}");
            }
            assert!(torn <= told && told <= u64::from(died), "{what}: told {told}, torn {torn}");
            all_torn += torn;
            if !died {
                break;
            }
            deaths += 1;
        }
    }
    (deaths, all_torn)
}
