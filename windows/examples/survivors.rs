//! A hash table that loses a rank, and goes on: the survivors keep every key that was not stored at the lost rank.
//!
//! Four processes insert keys and look for them. SIGKILL ends one of them ahead of its n-th operation, for any n: inside a lock, or
//! half-way through an insertion. The others get `PeerFailed` from their next wait. They make a world of the survivors, and a window over
//! the old window's memory. They look for every key whose insertion was complete, and go on inserting, including lost keys.
//!
//! `cargo run -p rmalab-windows --example survivors -- 100` does that a hundred times, in a hundred jobs of four processes.
//! With `--backend verbs`, the processes communicate over RDMA, and the memory of the lost rank is lost with it. After
//! another `--` comes the command that starts the ranks, if they are on several hosts:
//! `survivors --backend verbs 10 -- rmalab launch --hosts a:2,b:2 --interface eth0 --grace 2m --`.

use std::error::Error;
use std::ffi::OsString;
use std::process::{Command, exit};
use std::time::{Duration, Instant};

use rmalab_atomics::{
    Backend, Crashing, Error as AtomicsError, Launcher, Output, Rank, RemoteAtomics, Survivors, started_as,
};
use rmalab_windows::{Error as WindowError, LockKind, Result, Team, Window, WindowDisp};

const RANKS: u32 = 4;
/// The keys that each rank inserts, from 1 on.
const KEYS: u64 = 40;
/// The slots of each rank: room for all keys.
const SLOTS: u64 = RANKS as u64 * KEYS;
/// The time that a job may take, and its survivors.
const LIMIT: Duration = Duration::from_secs(120);
/// The exit code of a job whose first failure is a rank that SIGKILL has ended.
const KILLED: i32 = 128 + 9;

/// The handle of a rank, which may be killed ahead of an operation.
type Handle<'a> = Crashing<'a, dyn RemoteAtomics + 'a>;

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
    ra: &Handle<'_>,
    team: &Team<'_, Handle<'_>>,
    table: &Table<'_, '_, Handle<'_>>,
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

fn run(ra: &dyn RemoteAtomics, (victim, number): (u32, u64)) -> Outcome {
    let ahead_of = (ra.rank() == Rank(victim)).then_some(number);
    let ra = &Crashing::new(ra, None);
    // Reserves room for the world of the survivors while all ranks live.
    let reserved = Survivors::reserve(ra, 1 << 18)?;
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
    println!("{} {GOES_ON}", ra.rank());
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

/// What each survivor prints at its end.
const GOES_ON: &str = "has lost no key, and goes on to its end";

/// Runs a job, in which `victim` is killed ahead of its operation `number`.
fn lose(options: &Options, victim: u32, number: u64) -> Outcome {
    let start = Instant::now();
    let what = format!("rank {victim} ahead of operation {number}");
    let program = std::env::current_exe()?;
    let arguments = ["--backend", options.backend.name(), "--crash", &format!("{victim}:{number}")];
    match options.launcher.split_first() {
        Some((launcher, rest)) => {
            let output = Command::new(launcher).args(rest).arg(program).args(arguments).output()?;
            let stdout = String::from_utf8_lossy(&output.stdout);
            print!("{stdout}");
            let survivors = stdout.matches(GOES_ON).count();
            if output.status.code() != Some(KILLED) || survivors != RANKS as usize - 1 {
                let stderr = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{what}: {survivors} have gone on, {}: {stderr}", output.status).into());
            }
        }
        None => {
            let job = Launcher::new(RANKS)
                .command(program, arguments)
                .hub(options.backend.meets())
                .output(Output::Inherit)
                .grace(LIMIT)
                .time_limit(LIMIT)
                .spawn()?;
            let outcome = job.wait()?;
            if outcome.first_failure != Some(Rank(victim)) {
                return Err(format!("{what}: the first failure is {:?}", outcome.first_failure).into());
            }
            for rank in (0..RANKS).filter(|&rank| rank != victim) {
                if !outcome.statuses[rank as usize].success() {
                    return Err(format!("{what}: {}", outcome.describe(Rank(rank))).into());
                }
            }
        }
    }
    println!("{what}: the job took {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

type Outcome = std::result::Result<(), Box<dyn Error + Send + Sync>>;

struct Options {
    backend: Backend,
    times: u64,
    /// The victim and the number of its operation, for a rank.
    crash: Option<(u32, u64)>,
    /// The command that starts the ranks; empty for this program itself.
    launcher: Vec<OsString>,
}

fn options(mut args: impl Iterator<Item = OsString>) -> std::result::Result<Options, Box<dyn Error + Send + Sync>> {
    let mut options = Options { backend: Backend::Shm, times: 4, crash: None, launcher: Vec::new() };
    while let Some(option) = args.next() {
        let text = option.to_str().ok_or("an argument is not text")?;
        let mut value =
            || args.next().and_then(|value| value.into_string().ok()).ok_or(format!("{text}: has no value"));
        match text {
            "--backend" => {
                options.backend = value()?.parse()?;
                options.backend.check_built()?;
            }
            "--crash" => {
                let value = value()?;
                let (victim, number) = value.split_once(':').ok_or("--crash: give RANK:NUMBER")?;
                options.crash = Some((victim.parse()?, number.parse()?));
            }
            "--" => options.launcher = args.by_ref().collect(),
            _ => {
                options.times = text.parse().map_err(|error| format!("the argument is a number of deaths: {error}"))?;
            }
        }
    }
    Ok(options)
}

fn main() -> Outcome {
    let options = options(std::env::args_os().skip(1)).unwrap_or_else(|error| {
        eprintln!("{error}");
        exit(2)
    });
    if let (Some(_), Some(crash)) = (started_as()?, options.crash) {
        options.backend.try_run(RANKS, |ra| run(ra, crash))?;
        return Ok(());
    }
    let times = options.times;
    for time in 0..times {
        // All ranks in turn, and operation numbers from the first insertion to the last and beyond.
        lose(&options, (time % u64::from(RANKS)) as u32, 1 + time * 197 % 2_000)?;
    }
    println!("{times} times a rank was lost, and no key that did not live there");
    Ok(())
}
