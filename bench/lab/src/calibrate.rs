//! Calibration: measures a profile of this machine's shared memory for the simulator, with two ranks.
//!
//! Both ranks run the same small programs on words of the `local` backend, each bound to a core. The words of `shm` are
//! the same. The programs take turns in many short series, so that other load on the machine disturbs all of them alike.
//! Results are medians of series. For `contended`, these are the series in which both ranks had a share. For the others,
//! they are the undisturbed half, since a disturbance can only make a series longer.
//!
//! | program | timed operation | in the simulator's terms |
//! | --- | --- | --- |
//! | get, put | one, of a word on a private line | `hit` |
//! | fetch-add | one, on a word on a private line | `atomic` |
//! | turns | a put to the one word that both ranks poll, until the other rank has read it | 2 (`hit` + `core`) |
//! | ping-pong | a put to the other rank's word, until that rank's `wait_until` has returned | 2 (`hit` + `core`) + `notice` |
//! | contended | one of the fetch_adds of both ranks on one word, as fast as possible | `atomic` / `keep` |
//! | pause | one, for one operation | its 64 ns + `pause` |
//! | fence | one for both ranks, while the other rank runs | `fence` |
//! | copy | a byte of a long put | `byte` |
//!
//! A core gives a line away when the other one requests it, and no core has it during the transfer. So of two contending
//! cores, one works for a share of each transfer (`keep`), and none for the rest. That share is the time of an operation
//! alone, divided by its contended time. The programs also run on the simulator, to check that the profile reproduces
//! the measurements.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmalab_atomics::mapped::OPERATION;
use rmalab_atomics::sim::profile::{Node, Profile, Span};
use rmalab_atomics::sim::{self, Simulator};
use rmalab_atomics::{Disp, Rank, RemoteAtomics, Topology, Until, World, bind_to_core};

use rmalab_job::{Error, Result};
use rmalab_report::Machine;
use rmalab_report::machine::Build;

/// The programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// Gets of a word on a private line.
    Get,
    /// Puts to a word on a private line.
    Put,
    /// fetch_adds on a word on a private line.
    FetchAdd,
    /// fetch_adds of both ranks on one word.
    Contended,
    /// Puts to and gets of one word, in turns.
    Turns,
    /// Puts and waits, back and forth.
    PingPong,
    /// Pauses for one operation.
    Pause,
    /// Fences for both ranks.
    Fence,
    /// A long put.
    Copy,
}

impl Program {
    /// All programs.
    pub const ALL: [Program; 9] = [
        Program::Get,
        Program::Put,
        Program::FetchAdd,
        Program::Contended,
        Program::Turns,
        Program::PingPong,
        Program::Pause,
        Program::Fence,
        Program::Copy,
    ];

    /// The program's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Get => "get, own line",
            Program::Put => "put, own line",
            Program::FetchAdd => "fetch_add, own line",
            Program::Contended => "fetch_add, two ranks",
            Program::Turns => "put until read",
            Program::PingPong => "put until noticed",
            Program::Pause => "pause",
            Program::Fence => "fence for all ranks",
            Program::Copy => "copy of a byte",
        }
    }

    /// Operations in a series; a series takes some 20 to 100 us.
    const fn times(self) -> u64 {
        match self {
            Program::Get | Program::Put | Program::FetchAdd => 5_000,
            Program::Contended => 10_000,
            Program::PingPong | Program::Turns => 250,
            Program::Pause => 500,
            Program::Fence => 20,
            Program::Copy => 4,
        }
    }
}

/// Times of the programs, in nanoseconds per operation, in the order of [`Program::ALL`].
pub type Times = [f64; Program::ALL.len()];

/// The result of a calibration.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The machine's profile.
    pub profile: Profile,
    /// Times of the programs on the machine.
    pub measured: Times,
    /// Times of the programs on the simulator with the profile.
    pub simulated: Times,
    /// The number of rounds of series.
    pub rounds: usize,
    /// True if there was time for all of them.
    pub complete: bool,
}

impl Calibration {
    /// The profile's file, with a comment on its measurement at the head.
    pub fn to_toml(&self) -> String {
        let mut head = format!(
            "This machine, as measured by rmalab calibrate ({}, {} build): medians of {} series.\n\n\
             {:22} {:>10} {:>10}\n",
            env!("CARGO_PKG_VERSION"),
            Build::get().profile,
            self.rounds,
            "nanoseconds",
            "measured",
            "simulated"
        );
        for (program, (measured, simulated)) in Program::ALL.iter().zip(self.measured.iter().zip(&self.simulated)) {
            head += &format!("{:22} {measured:>10.2} {simulated:>10.2}\n", program.name());
        }
        head += "\nhit, atomic and byte are measured; core is half the time of a put until it is read, beyond the hit;\n\
                 notice is the extra time until a waiting rank notices it;\n\
                 keep is the time of a fetch_add alone, divided by its time with two ranks.";
        self.profile.to_toml(&head)
    }
}

/// Options of a calibration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The profile's name.
    pub name: String,
    /// Duration of the measurement.
    pub duration: Duration,
}

/// Words of a segment for the programs, each on a separate line.
const WORD: Disp = Disp(0);
const PING: Disp = Disp(256);
const TURN: Disp = Disp(1536);
/// Orders to the partner: the program, and a number that marks a new order.
const KIND: Disp = Disp(512);
const ORDER: Disp = Disp(768);
/// Answers of the partner: the number of the completed order, and its count of fetch_adds.
const ANSWER: Disp = Disp(1024);
const COUNT: Disp = Disp(1280);
/// Destination and length of long puts.
const BYTES: Disp = Disp(4096);
const COPIED: usize = 64 << 10;

/// The order to end.
const END: u64 = 255;

/// fetch_adds of the partner between two polls of its orders.
const BATCH: u64 = 16;

/// The intended duration of a pause for one operation, in nanoseconds.
const UNIT_OF_PAUSE: f64 = OPERATION as f64;

/// The time of a fence for all ranks where there is none.
const NO_FENCE: f64 = 0.0;

/// Least number of valid series of each program.
const LEAST: usize = 3;

/// Longest extension of the requested time to get them.
const PATIENCE: Duration = Duration::from_secs(30);

/// One series of each program, in the order of [`Program::ALL`]; none if it does not count.
type Round = [Option<f64>; Program::ALL.len()];

/// Measures this machine, and reports the completed share to `progress`. Once `stop` is set it ends early.
///
/// # Errors
///
/// [`Error::Ranks`] when fewer than two processors may be used, or when the two ranks never ran at the same time.
/// [`Error::Atomics`] when the world of two ranks cannot be made.
pub fn calibrate(options: &Options, stop: &AtomicBool, progress: impl FnMut(f64) + Send) -> Result<Calibration> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores < 2 {
        return Err(Error::Ranks("calibration needs two processors, and this program may use only one".into()));
    }
    let progress = Mutex::new(progress);
    let results = World::threads(2).topology(Topology::blocks(2, 2, 1)?).run(|ra| {
        bind_to_core(ra.rank())?;
        if ra.rank() == Rank(1) {
            return partner(ra, 1).map(|()| Vec::new());
        }
        let mut first = First { ra, order: 0, pings: 0, turns: 0 };
        let mut rounds: Vec<Round> = Vec::new();
        let mut count = 0;
        let start = Instant::now();
        while start.elapsed() < options.duration || (count < LEAST && start.elapsed() < options.duration + PATIENCE) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let round = first.round()?;
            count += usize::from(round.iter().all(Option::is_some));
            rounds.push(round);
            let share = start.elapsed().as_secs_f64() / options.duration.as_secs_f64();
            progress.lock().expect("no thread panics while it holds the lock")(share.min(1.0));
        }
        first.end()?;
        Ok(rounds)
    })?;
    let mut rounds = Vec::new();
    for result in results {
        rounds.extend(result?);
    }
    let measured = of_rounds(&rounds)?;
    let profile = fitted(&options.name, cores, &measured);
    let simulated = simulate(&profile)?;
    let complete = !stop.load(Ordering::Relaxed);
    Ok(Calibration { profile, measured, simulated, rounds: rounds.len(), complete })
}

/// Times of the programs on the simulator of a machine, in nanoseconds per operation.
///
/// # Errors
///
/// [`Error::Atomics`] when the profile does not allow a machine of two ranks.
pub fn simulate(profile: &Profile) -> Result<Times> {
    let simulator = Simulator::new(profile, &sim::Options { ranks_per_node: Some(2), ..sim::Options::new(2) })?;
    let outcome = simulator.run(|ra| {
        if ra.rank() == Rank(1) {
            return partner(ra, 1).map(|()| None);
        }
        let mut first = First { ra, order: 0, pings: 0, turns: 0 };
        let round = first.round()?;
        first.end()?;
        Ok(Some(round))
    })?;
    let mut rounds = Vec::new();
    for result in outcome.results {
        rounds.extend(result?);
    }
    of_rounds(&rounds)
}

/// The rank that measures.
struct First<'a, A> {
    ra: &'a A,
    /// The last order.
    order: u64,
    /// The number of pings sent.
    pings: u64,
    /// The number of turns of either rank.
    turns: u64,
}

impl<A: RemoteAtomics> First<'_, A> {
    fn round(&mut self) -> rmalab_atomics::Result<Round> {
        let mut round = [None; Program::ALL.len()];
        for (program, time) in Program::ALL.into_iter().zip(&mut round) {
            *time = self.series(program)?;
        }
        Ok(round)
    }

    /// Time of each operation in a series.
    fn series(&mut self, program: Program) -> rmalab_atomics::Result<Option<f64>> {
        let ra = self.ra;
        let (own, peer, times) = (ra.rank().at(WORD), Rank(1), program.times());
        match program {
            Program::Get => self.timed(times, |_| ra.get(own).map(drop)),
            Program::Put => self.timed(times, |value| ra.put(own, value)),
            Program::FetchAdd => self.timed(times, |_| ra.fetch_add(own, 1).map(drop)),
            Program::Pause => self.timed(times, |_| ra.pause(1)),
            Program::Copy => {
                let bytes = vec![1; COPIED];
                let each = self.timed(times, |_| ra.put_bytes(peer.at(BYTES), &bytes))?;
                Ok(each.map(|time| time / COPIED as f64))
            }
            Program::Fence => {
                // A rank that is parked needs no fence.
                self.order(program as u64)?;
                let is_there = std::cell::Cell::new(true);
                let each =
                    self.timed(times, |_| ra.fence_everywhere().map(|done| is_there.set(is_there.get() && done)))?;
                self.order(0)?;
                Ok(if is_there.get() { each } else { Some(NO_FENCE) })
            }
            Program::Contended => {
                self.order(program as u64)?;
                let each = self.timed(times, |_| ra.fetch_add(own, 1).map(drop))?;
                self.order(0)?;
                let others = ra.get(peer.at(COUNT))?;
                // Unless both have a fair share, one of them was off its processor for much of the time.
                let shared = (times / 3..=times * 3).contains(&others);
                Ok(each.filter(|_| shared).map(|each| each * times as f64 / (times + others) as f64))
            }
            Program::Turns => {
                self.order(program as u64)?;
                let mut turns = self.turns;
                let round_trip =
                    self.timed(times, |_| turn(ra, &mut turns, true).and_then(|()| turn(ra, &mut turns, false)))?;
                self.turns = turns;
                self.order(0)?;
                Ok(round_trip.map(|time| time / 2.0))
            }
            Program::PingPong => {
                self.order(program as u64)?;
                let first = self.pings + 1;
                self.pings += times + 1;
                let round_trip = self.timed(times, |number| {
                    ra.put(peer.at(PING), first + number)?;
                    ra.wait_until(PING, Until::Ge(first + number)).map(drop)
                })?;
                self.order(0)?;
                Ok(round_trip.map(|time| time / 2.0))
            }
        }
    }

    fn timed(
        &self,
        times: u64,
        mut each: impl FnMut(u64) -> rmalab_atomics::Result<()>,
    ) -> rmalab_atomics::Result<Option<f64>> {
        // One more put ahead of the measurement fetches the line.
        each(0)?;
        let start = self.ra.now();
        for number in 1..=times {
            each(number)?;
        }
        Ok(Some(self.ra.now().since(start).as_nanos() as f64 / times as f64))
    }

    /// Orders the partner to begin the program `kind`, or to end it.
    fn order(&mut self, kind: u64) -> rmalab_atomics::Result<()> {
        self.order += 1;
        self.ra.put(Rank(1).at(KIND), kind)?;
        self.ra.put(Rank(1).at(ORDER), self.order)?;
        self.ra.wait_until(ANSWER, Until::Ge(self.order)).map(drop)
    }

    fn end(&mut self) -> rmalab_atomics::Result<()> {
        self.order(END)
    }
}

/// The next turn on the one word: a put by this rank (`mine`), or a poll for the other rank's.
fn turn<A: RemoteAtomics>(ra: &A, turns: &mut u64, mine: bool) -> rmalab_atomics::Result<()> {
    let at = Rank(0).at(TURN);
    *turns += 1;
    if mine {
        return ra.put(at, *turns);
    }
    while ra.get(at)? < *turns {
        std::hint::spin_loop();
    }
    Ok(())
}

/// The other rank: carries out orders, starting with that number, until the order to end.
fn partner<A: RemoteAtomics>(ra: &A, mut order: u64) -> rmalab_atomics::Result<()> {
    let (me, first) = (ra.rank(), Rank(0));
    let (mut pings, mut turns) = (0, 0);
    loop {
        ra.wait_until(ORDER, Until::Ge(order))?;
        let kind = ra.get(me.at(KIND))?;
        ra.put(first.at(ANSWER), order)?;
        order += 1;
        if kind == Program::Contended as u64 {
            let mut count = 0;
            while ra.get(me.at(ORDER))? < order {
                for _ in 0..BATCH {
                    ra.fetch_add(first.at(WORD), 1)?;
                }
                count += BATCH;
            }
            ra.put(me.at(COUNT), count)?;
        } else if kind == Program::Fence as u64 {
            while ra.get(me.at(ORDER))? < order {
                std::hint::spin_loop();
            }
        } else if kind == Program::PingPong as u64 {
            for _ in 0..=Program::PingPong.times() {
                pings += 1;
                ra.wait_until(PING, Until::Ge(pings))?;
                ra.put(first.at(PING), pings)?;
            }
        } else if kind == Program::Turns as u64 {
            for _ in 0..=Program::Turns.times() {
                turn(ra, &mut turns, false)?;
                turn(ra, &mut turns, true)?;
            }
        } else if kind == END {
            return Ok(());
        }
    }
}

/// Medians of many rounds.
fn of_rounds(rounds: &[Round]) -> Result<Times> {
    let mut times = [0.0; Program::ALL.len()];
    for (index, program) in Program::ALL.into_iter().enumerate() {
        let mut series: Vec<f64> = rounds.iter().filter_map(|round| round[index]).collect();
        series.sort_by(f64::total_cmp);
        let counted = if program == Program::Contended { series.len() } else { series.len().div_ceil(2) };
        times[index] = *series.get(counted / 2).ok_or_else(|| {
            let why = "the two ranks never ran at the same time; end other programs, or measure longer: --duration";
            Error::Ranks(format!("calibration of {:?}: {why}", program.name()))
        })?;
    }
    Ok(times)
}

/// The machine of one node on which the programs take these times.
fn fitted(name: &str, cores: usize, measured: &Times) -> Profile {
    let &[get, put, fetch_add, contended, read, noticed, pause, fence, copy] = measured;
    // Every time is positive, and less than a tenth of a nanosecond is no measurement.
    let span = |nanoseconds: f64| Span((nanoseconds.max(0.1) * 10.0).round() as u64 * 100);
    let hit = (get + put) / 2.0;
    // Only a disturbance can make these negative.
    let core = (read / 2.0 - hit).max(0.0);
    let notice = (noticed - 2.0 * (hit + core)).max(0.0);
    let keep = (fetch_add / contended).clamp(0.0, 1.0);
    let machine = Machine::describe();
    let node = Node {
        sockets: 1,
        hit: span(hit),
        atomic: span(fetch_add),
        core: span(core),
        socket: span(core),
        notice: Span((notice * 10.0).round() as u64 * 100),
        keep: (keep * 100.0).round() / 100.0,
        fence: (fence != NO_FENCE).then(|| span(fence)),
        pause: Span(((pause - UNIT_OF_PAUSE).max(0.0) * 10.0).round() as u64 * 100),
        byte: (copy * 1e4).round() / 10.0,
    };
    let about = format!("{cores} processors, {}, as `rmalab calibrate` measured them", machine.cpu);
    Profile::of_node(name, &about.replace(['"', '\\'], ""), u32::try_from(cores).unwrap_or(u32::MAX), node)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// get, put, fetch_add, contended, read, noticed, pause, fence, copy.
    const MEASURED: Times = [1.0, 2.0, 5.0, 10.0, 103.0, 123.0, 104.0, 3000.0, 0.05];

    #[test]
    fn the_simulator_reproduces_the_measured_times() {
        let profile = fitted("test", 2, &MEASURED);
        let Node { hit, core, notice, pause, keep, .. } = profile.node;
        assert_eq!([hit, core, notice, pause].map(Span::as_nanoseconds), [1.5, 50.0, 20.0, 40.0]);
        assert_eq!(keep, 0.5);
        let simulated = simulate(&profile).unwrap();
        // hit is the mean of get and put. A rank that continues with a line completes its operation.
        let expected = [1.5, 1.5, 5.0, 10.0, 103.0, 123.0, 104.0, 3000.0, 0.05];
        for (program, (simulated, expected)) in Program::ALL.iter().zip(simulated.iter().zip(expected)) {
            let most = if *program == Program::Contended { 0.15 } else { 0.05 };
            assert!((simulated / expected - 1.0).abs() < most, "{program:?}: {simulated} and not {expected}");
        }
    }

    #[test]
    fn the_file_of_a_calibration_is_its_profile() {
        for fence in [MEASURED[Program::Fence as usize], NO_FENCE] {
            let mut measured = MEASURED;
            measured[Program::Fence as usize] = fence;
            let profile = fitted("test", 2, &measured);
            let simulated = simulate(&profile).unwrap();
            let calibration = Calibration { profile, measured, simulated, rounds: 1, complete: true };
            assert_eq!(Profile::parse("test.toml", &calibration.to_toml()).unwrap(), calibration.profile);
            assert_eq!(calibration.profile.node.fence.is_some(), fence != NO_FENCE);
        }
    }

    #[test]
    fn series_that_do_not_count_are_left_out() {
        let series = |contended| {
            let mut round = [Some(1.0); Program::ALL.len()];
            round[Program::Contended as usize] = contended;
            round
        };
        assert_eq!(of_rounds(&[series(None), series(Some(7.0)), series(None)]).unwrap()[3], 7.0);
        assert!(of_rounds(&[series(None)]).unwrap_err().to_string().contains("never ran at the same time"));
    }
}
