//! A hash table that loses a rank, and goes on: the survivors keep every key that was not stored at the lost rank.
//!
//! Four processes insert keys and look for them. SIGKILL ends one of them ahead of its n-th operation, for any n: inside a lock, or
//! half-way through an insertion. The others get `PeerFailed` from their next wait. They make a world of the survivors, and a window over
//! the old window's memory. They look for every key whose insertion was complete, and go on inserting, including lost keys.
//!
//! `cargo run -p rmalab-windows --example survivors -- 100` does that a hundred times, in a hundred jobs of four processes.

use std::error::Error;
use std::process::exit;
use std::time::Duration;

use rmalab_atomics::{
    Crashing, Error as AtomicsError, Launcher, Mapped, Output, Rank, RemoteAtomics, Survivors, World, shm,
};
use rmalab_windows::{Error as WindowError, LockKind, Result, Team, Window, WindowDisp};

const RANKS: u32 = 4;
/// The keys that each rank inserts, from 1 on.
const KEYS: u64 = 40;
/// The slots of each rank: room for all keys.
const SLOTS: u64 = RANKS as u64 * KEYS;
/// The rank that is killed, and the operation ahead of which it is killed: `1:17`.
const CRASH: &str = "SURVIVORS_CRASH";

// Each rank's part, in words: the number of keys that each rank has inserted, then the slots. A slot is a key, its value,
// and 1 once both are written.
const FIRST_SLOT: u64 = RANKS as u64;
const SLOT: u64 = 3;
const PART: u64 = FIRST_SLOT + SLOT * SLOTS;

fn word(word: u64) -> WindowDisp {
    WindowDisp(word as i64)
}

/// Returns key number `number` of `rank`, counted from 0.
fn key(rank: Rank, number: u64) -> u64 {
    u64::from(rank.0) * KEYS + number + 1
}

fn value(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The table, for a rank of `team`.
struct Table<'w, 't, A: RemoteAtomics + ?Sized> {
    window: &'w Window<'t, A>,
    /// The number in the team of each live rank of the first world.
    numbers: Vec<Option<Rank>>,
}

impl<A: RemoteAtomics + ?Sized> Table<'_, '_, A> {
    /// Returns the rank that has the key: its rank in the first world or, if that rank is lost, the next one.
    fn home(&self, key: u64) -> Rank {
        let first = (value(key) >> 40) as usize % self.numbers.len();
        let mut ranks = self.numbers.iter().cycle().skip(first).flatten();
        *ranks.next().expect("a rank lives")
    }

    fn insert(&self, key: u64) -> Result<()> {
        let home = self.home(key);
        let part = self.window.lock(LockKind::Exclusive, home)?;
        let mut slot = FIRST_SLOT;
        loop {
            let [found, _, is_complete]: [u64; 3] = part.get_value(word(slot))?;
            if is_complete == 0 {
                // The slot is empty, or a rank was lost half-way.
                break;
            }
            if found == key {
                return part.unlock();
            }
            slot += SLOT;
        }
        part.put(word(slot), &[key, value(key)])?;
        part.flush()?;
        part.put_value(word(slot + 2), 1_u64)?;
        part.unlock()
    }

    fn contains(&self, key: u64) -> Result<bool> {
        let part = self.window.lock(LockKind::Shared, self.home(key))?;
        let mut slot = FIRST_SLOT;
        let found = loop {
            match part.get_value::<[u64; 3]>(word(slot))? {
                [_, _, 0] => break false,
                [found, stored, _] if found == key => break stored == value(key),
                _ => slot += SLOT,
            }
        };
        part.unlock()?;
        Ok(found)
    }

    /// Reports to all ranks that `rank` of the first world has inserted `count` keys.
    fn announce(&self, rank: Rank, count: u64) -> Result<()> {
        for &there in self.numbers.iter().flatten() {
            let part = self.window.lock(LockKind::Shared, there)?;
            part.put_value(word(u64::from(rank.0)), count)?;
            part.unlock()?;
        }
        Ok(())
    }

    /// Returns the number of keys that `rank` of the first world has inserted, as reported to rank `me` of the team.
    fn announced(&self, me: Rank, rank: Rank) -> Result<u64> {
        let part = self.window.lock(LockKind::Shared, me)?;
        let count = part.get_value(word(u64::from(rank.0)))?;
        part.unlock()?;
        Ok(count)
    }
}

/// Inserts this rank's keys, and then looks for them repeatedly, until a rank fails.
fn serve(
    ra: &Crashing<'_, Mapped>,
    team: &Team<'_, Crashing<'_, Mapped>>,
    table: &Table<'_, '_, Crashing<'_, Mapped>>,
    ahead_of: Option<u64>,
) -> Result<()> {
    // A rank that fails from here on finds all others with their part of the table.
    team.barrier()?;
    ra.arm(ahead_of);
    for turn in 0.. {
        let key = key(ra.rank(), turn % KEYS);
        table.insert(key)?;
        table.announce(ra.rank(), KEYS.min(turn + 1))?;
        if !table.contains(key)? {
            return Err(AtomicsError::world(format!("{}: key {key} is missing", ra.rank())).into());
        }
        ra.pause(1)?;
    }
    Ok(())
}

fn run(ra: &Mapped) -> std::result::Result<(), Box<dyn Error + Send + Sync>> {
    let crash = std::env::var(CRASH)?;
    let (victim, number) = crash.split_once(':').ok_or("RANK:NUMBER")?;
    let ahead_of = if victim.parse() == Ok(ra.rank().0) { Some(number.parse()?) } else { None };
    let ra = &Crashing::new(ra, None);
    // Reserves room for the world of the survivors while all ranks live.
    let reserved = Survivors::reserve(ra, 1 << 20)?;
    let team = Team::new(ra)?;
    let window = Window::builder(&team).disp_unit(8).allocate(8 * PART)?;
    let table = Table { window: &window, numbers: (0..RANKS).map(|rank| Some(Rank(rank))).collect() };
    match serve(ra, &team, &table, ahead_of) {
        Err(WindowError::Atomics(AtomicsError::PeerFailed { .. }))
        | Err(WindowError::Locks(rmalab_locks::Error::Atomics(AtomicsError::PeerFailed { .. }))) => {}
        other => return Err(format!("no rank has failed: {other:?}").into()),
    }

    let (survivors, failed) = reserved.shrink()?;
    let team = Team::new(&survivors)?;
    let mut window = Window::builder(&team).over(&window)?;
    let me = team.rank();
    let numbers: Vec<Option<Rank>> = (0..RANKS).map(|rank| survivors.inner(Rank(rank))).collect();
    let lost = |key: u64| failed.contains(Rank((value(key) >> 40) as u32 % RANKS));
    let table = Table { window: &window, numbers };
    let mut kept = 0;
    for rank in (0..RANKS).map(Rank) {
        for number in 0..table.announced(me, rank)? {
            let key = key(rank, number);
            if !lost(key) {
                kept += 1;
                if !table.contains(key)? {
                    return Err(format!("{me}: key {key} of {rank} is lost, but its home lives").into());
                }
            }
        }
    }
    // All ranks look before one of them inserts again.
    team.barrier()?;
    for number in 0..KEYS {
        table.insert(key(ra.rank(), number))?;
    }
    team.barrier()?;
    for rank in (0..RANKS).map(Rank).filter(|&rank| !failed.contains(rank)) {
        for key in (0..KEYS).map(|number| key(rank, number)) {
            if !table.contains(key)? {
                return Err(format!("{me}: key {key} of {rank} is missing at the end").into());
            }
        }
    }
    active(&team, &mut window)?;
    if me == Rank(0) {
        println!("{failed} was killed: {kept} keys are kept");
    }
    Ok(())
}

/// Uses the other kinds of epochs, among the survivors: each rank puts its number at the next one.
fn active<A: RemoteAtomics + ?Sized>(team: &Team<'_, A>, window: &mut Window<'_, A>) -> Result<()> {
    let (me, size) = (team.rank().0, team.size());
    let (next, before) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let check = |window: &Window<'_, A>, expected: u32| -> Result<()> {
        let part = window.lock(LockKind::Shared, team.rank())?;
        let found: u64 = part.get_value(word(0))?;
        part.unlock()?;
        assert_eq!(found, u64::from(expected), "{}", team.rank());
        Ok(())
    };
    let fence = window.fence()?;
    fence.at(next)?.put_value(word(0), u64::from(me))?;
    fence.close()?;
    check(window, before.0)?;
    team.barrier()?;
    let (mut access, mut exposure) = window.pscw()?;
    let exposure = exposure.post(&[before])?;
    let access = access.start(&[next])?;
    access.at(next)?.put_value(word(0), 100 + u64::from(me))?;
    access.complete()?;
    exposure.wait()?;
    check(window, 100 + before.0)
}

/// Runs a job, in which `victim` is killed ahead of its operation `number`.
fn lose(victim: u32, number: u64) -> std::result::Result<(), Box<dyn Error + Send + Sync>> {
    let job = Launcher::new(RANKS)
        .command(std::env::current_exe()?, [""; 0])
        .env(CRASH, format!("{victim}:{number}"))
        .output(Output::Inherit)
        .grace(Duration::from_secs(60))
        .time_limit(Duration::from_secs(60))
        .spawn()?;
    let outcome = job.wait()?;
    let what = format!("rank {victim} ahead of operation {number}");
    if outcome.first_failure != Some(Rank(victim)) {
        return Err(format!("{what}: the first failure is {:?}", outcome.first_failure).into());
    }
    for rank in (0..RANKS).filter(|&rank| rank != victim) {
        if !outcome.statuses[rank as usize].success() {
            return Err(format!("{what}: {}", outcome.describe(Rank(rank))).into());
        }
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error + Send + Sync>> {
    if shm::launched_size()?.is_some() {
        World::processes(RANKS).try_run(run)?;
        return Ok(());
    }
    let times = std::env::args().nth(1).map_or(Ok(4), |times| times.parse::<u64>()).unwrap_or_else(|error| {
        eprintln!("the argument is a number of deaths: {error}");
        exit(2)
    });
    for time in 0..times {
        // All ranks in turn, and operation numbers from the first insertion to the last and beyond.
        lose((time % u64::from(RANKS)) as u32, 1 + time * 37 % 2_000)?;
    }
    println!("{times} times a rank was lost, and no key that did not live there");
    Ok(())
}
