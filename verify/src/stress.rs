//! The stress engine: a scenario on a real backend, under real contention.
//!
//! # The critical section
//!
//! Every writer increments two variables, on two ranks if there are two, one after the other, by bulk operations with
//! pauses in between. A rank inside reads both variables. They must be equal, must not change while the rank is inside,
//! and must not be older than its last reading. At the end, both must equal the number of writes.
//!
//! In every other acquisition, a rank also announces itself by a fetch-and-add to a word that counts the readers and
//! writers inside. This detects a broken exclusion at once, and shows how many readers were together. But the
//! fetch-and-add is sequentially consistent, so it could hide a defect of a lock that orders too little. The other
//! acquisitions do without it.
//!
//! # Why it finds defects
//!
//! All ranks begin together. Pauses inside and outside have several lengths, which depend only on the rank and the
//! acquisition. Some of them, the first one included, yield the processor, so that other ranks run even with fewer
//! processors than ranks. A rank's first reading waits inside for another reader, for a bounded time.

use rmalab_atomics::{Address, Disp, Rank, RemoteAtomics, Until, WORD};
use rmalab_locks::suite::REST_REMEDY;
use rmalab_locks::{LINE, Place, RawRwLock};

use crate::{Error, Form, Property, Result, Scenario, Violation};

/// The claim about a lock's shared words and queue nodes once no rank holds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Rest {
    /// They are zero, as far as the lock traits require it: checked.
    #[default]
    Zero,
    /// They may have any values, as in a plain ticket lock: not checked.
    Any,
}

/// The options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options<P> {
    /// The lock's parameters.
    pub params: P,
    /// The lock's home rank.
    pub home: Rank,
    /// The lock's claim about its words at rest.
    pub rest: Rest,
}

/// The result of a run: of one rank, or, after [`merge`](Verdict::merge), of all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The lock's name.
    pub lock: &'static str,
    /// The scenario.
    pub scenario: Scenario,
    /// The number of acquisitions for reading.
    pub reads: u64,
    /// The number of acquisitions for writing.
    pub writes: u64,
    /// The largest number of readers seen inside together: evidence, not a property. It is 0 if no rank has read.
    pub readers_together: u32,
    /// The violations: the first [`LISTED`] findings of each property by each rank.
    pub violations: Vec<Violation>,
    /// The number of further findings.
    pub unlisted: u64,
}

/// The number of findings of one property that a rank lists. A broken lock soon has thousands of similar ones.
pub const LISTED: usize = 2;

impl Verdict {
    /// Returns whether nothing is broken.
    pub fn passed(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns whether `property` is broken.
    pub fn broke(&self, property: Property) -> bool {
        self.violations.iter().any(|violation| violation.property == property)
    }

    /// Combines the verdicts of all ranks; `None` if there are none.
    pub fn merge(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Verdict> {
        verdicts.into_iter().reduce(|mut all, one| {
            all.reads += one.reads;
            all.writes += one.writes;
            all.readers_together = all.readers_together.max(one.readers_together);
            all.violations.extend(one.violations);
            all.unlisted += one.unlisted;
            all
        })
    }

    fn report(&mut self, property: Property, rank: Rank, acquisition: Option<u32>, seen: String) {
        let alike = self.violations.iter().filter(|one| (one.property, one.rank) == (property, rank)).count();
        if alike < LISTED {
            self.violations.push(Violation { property, rank, acquisition, seen });
        } else {
            self.unlisted += 1;
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { lock, scenario, reads, writes, readers_together, violations, unlisted } = self;
        let result = if self.passed() { "nothing found" } else { "BROKEN" };
        write!(
            f,
            "{lock}, {scenario}, stress: {result} in {reads} reads and {writes} writes, at most {readers_together} readers together"
        )?;
        for violation in violations {
            write!(f, "\n  {violation}")?;
        }
        if *unlisted > 0 {
            write!(f, "\n  and {unlisted} more findings")?;
        }
        Ok(())
    }
}

/// One reader in the word that counts the ranks inside.
const READER: u64 = 1;
/// One writer in that word.
const WRITER: u64 = 1 << 32;
/// The number of times that a rank's first reading looks for another reader.
const LOOKS: u32 = 40;
/// The longest pause between two looks, in operations; pauses double up to this. Long pauses yield the processor, so
/// that other ranks run even on few or busy processors.
const BETWEEN_LOOKS: u32 = 1 << 12;
/// The longest stay, in operations: long enough to yield the processor, for the same reason.
const LONG_STAY: u32 = 10_000;

/// Runs `scenario` with a new lock `L`, and returns the findings of this rank.
///
/// All ranks of the world call it at the same point of their sequences of allocations, with the same arguments. Ranks
/// beyond the scenario's only wait for the ranks of the scenario. [`Verdict::merge`] combines their verdicts. The
/// memory of the run (the lock's, and four lines) stays allocated as long as the world lives.
///
/// # Errors
///
/// [`Error::TooFewRanks`], on every rank, if the scenario has more ranks than the world. Any other error comes from the
/// lock or the network. The other ranks then wait for this rank until it leaves the world as failed.
///
/// ```
/// use rmalab_atomics::World;
/// use rmalab_locks::RawRwLock;
/// use rmalab_verify::{Scenario, stress};
///
/// fn check<L: RawRwLock>(scenario: &Scenario) -> stress::Verdict {
///     let verdicts = World::threads(scenario.ranks())
///         .run(|ra| stress::run::<L, _>(ra, scenario, &stress::Options::default()).expect("a run without errors"));
///     stress::Verdict::merge(verdicts.expect("a world")).expect("a rank")
/// }
/// ```
pub fn run<L: RawRwLock, A: RemoteAtomics + ?Sized>(
    ra: &A,
    scenario: &Scenario,
    options: &Options<L::Params>,
) -> Result<Verdict> {
    let (rank, size) = (ra.rank(), ra.size());
    if scenario.ranks() > size {
        return Err(Error::TooFewRanks { rank, scenario: scenario.to_string(), needed: scenario.ranks(), size });
    }
    if scenario.has(Form::Try) || scenario.has(Form::Timed) {
        let why = format!("it only waits for locks, but {scenario} has other forms");
        return Err(Error::Unsupported { engine: "stress", why });
    }
    if scenario.is_endless() {
        let why = format!("a run has an end, but {scenario} has none");
        return Err(Error::Unsupported { engine: "stress", why });
    }
    let place = Place::alloc(ra, options.home, L::words(size), L::NODE)?;
    let section = Section::alloc(ra, options.home)?;
    let mut lock = L::bind(ra, place, options.params)?;
    let mut verdict = Verdict {
        lock: L::NAME,
        scenario: scenario.clone(),
        reads: 0,
        writes: 0,
        readers_together: 0,
        violations: Vec::new(),
        unlisted: 0,
    };

    section.meet(ra, 1)?;
    if let Some((role, acquisitions)) = scenario.part(rank) {
        let mut visit = Visit { ra, section: &section, verdict: &mut verdict, acquisition: 0, newest: 0 };
        for acquisition in 0..acquisitions {
            visit.acquisition = acquisition;
            visit.dwell(Stay::Outside)?;
            if role.writes(rank, acquisition) {
                lock.acquire_write(ra)?;
                visit.write()?;
                lock.release_write(ra)?;
            } else {
                lock.acquire_read(ra)?;
                visit.read()?;
                lock.release_read(ra)?;
            }
        }
    }
    // A release may end in posted puts.
    ra.flush_all()?;
    section.meet(ra, 2)?;
    if rank == options.home {
        section.check_sum(ra, scenario, &mut verdict)?;
    }
    if options.rest == Rest::Zero {
        if rank == options.home && L::RESTS_AT_ZERO {
            check_rest(ra, "the lock's shared", place.words, L::words(size), &mut verdict)?;
        }
        check_rest(ra, "its own", place.node, L::NODE_AT_REST, &mut verdict)?;
    }
    // No rank leaves the world while another rank reads its memory.
    section.meet(ra, 3)?;
    Ok(verdict)
}

/// Checks that the `bytes` from `start` on are zero in the local segment.
fn check_rest<A: RemoteAtomics + ?Sized>(
    ra: &A,
    whose: &str,
    start: Disp,
    bytes: u64,
    verdict: &mut Verdict,
) -> Result<()> {
    for index in 0..bytes / WORD {
        let word = ra.get(ra.rank().at(start.word(index)))?;
        if word != 0 {
            let seen = format!("{whose} word {index} is {word:#x}; {REST_REMEDY}");
            verdict.report(Property::CleanRest, ra.rank(), None, seen);
        }
    }
    Ok(())
}

/// The memory of the check itself.
struct Section {
    /// The ranks inside: readers in the low half, writers in the high half.
    inside: Address,
    /// The number of arrivals at meetings.
    arrived: Address,
    /// The two variables.
    pair: [Address; 2],
}

impl Section {
    fn alloc<A: RemoteAtomics + ?Sized>(ra: &A, home: Rank) -> Result<Section> {
        let line = || -> Result<Disp> { Ok(ra.heap().alloc(LINE, LINE)?) };
        let (inside, arrived, data) = (line()?, line()?, line()?);
        let near = |distance: u32| Rank(((u64::from(home.0) + u64::from(distance)) % u64::from(ra.size())) as u32);
        Ok(Section {
            inside: home.at(inside),
            arrived: home.at(arrived),
            // Two different words, for the world of one rank.
            pair: [near(1).at(data), near(2).at(data.word(1))],
        })
    }

    /// Waits until all ranks of the world have arrived at meeting `meeting`, counted from 1.
    fn meet<A: RemoteAtomics + ?Sized>(&self, ra: &A, meeting: u64) -> Result<()> {
        let all = meeting * u64::from(ra.size());
        if ra.fetch_add(self.arrived, 1)? + 1 >= all {
            return Ok(());
        }
        if self.arrived.rank == ra.rank() {
            ra.wait_until(self.arrived.disp, Until::Ge(all))?;
        } else {
            let mut operations = 1;
            while ra.get(self.arrived)? < all {
                ra.pause(operations)?;
                operations = (2 * operations).min(1_000);
            }
        }
        Ok(())
    }

    /// Reads the two variables, by bulk operations.
    fn load<A: RemoteAtomics + ?Sized>(&self, ra: &A) -> Result<[u64; 2]> {
        let mut values = [0; 2];
        for (value, at) in values.iter_mut().zip(self.pair) {
            let mut bytes = [0; 8];
            ra.get_bytes(at, &mut bytes)?;
            *value = u64::from_ne_bytes(bytes);
        }
        Ok(values)
    }

    /// Checks that both variables are the number of writes.
    fn check_sum<A: RemoteAtomics + ?Sized>(&self, ra: &A, scenario: &Scenario, verdict: &mut Verdict) -> Result<()> {
        let (_, writes) = scenario.acquisitions();
        let [first, second] = self.load(ra)?;
        if (first, second) != (writes, writes) {
            let seen = format!("after {writes} writes, the variables are {first} and {second}");
            verdict.report(Property::NoLostUpdate, ra.rank(), None, seen);
        }
        Ok(())
    }
}

/// The place of a pause.
#[derive(Clone, Copy, PartialEq)]
enum Stay {
    /// Ahead of an acquisition. Without this pause, a lock that prefers its last holder would starve the other ranks.
    Outside,
    /// Inside, after reading the variables.
    Reading,
    /// Inside, between the two writes.
    Writing,
}

/// One rank's visits to the critical section.
struct Visit<'v, A: RemoteAtomics + ?Sized> {
    ra: &'v A,
    section: &'v Section,
    verdict: &'v mut Verdict,
    acquisition: u32,
    /// The newest value that this rank has read.
    newest: u64,
}

impl<A: RemoteAtomics + ?Sized> Visit<'_, A> {
    fn read(&mut self) -> Result<()> {
        self.verdict.reads += 1;
        let together = if self.announces() {
            let others = self.announce(READER)?;
            self.check_no_writer(others, "on arrival");
            self.await_company(others)?
        } else {
            1
        };
        self.verdict.readers_together = self.verdict.readers_together.max(together);
        let before = self.load()?;
        self.dwell(Stay::Reading)?;
        let after = self.load()?;
        if before != after {
            self.report(
                Property::Consistent,
                format!("the variables changed from {before:?} to {after:?} while it was inside"),
            );
        }
        if self.announces() {
            let others = self.announce(READER.wrapping_neg())?;
            self.check_no_writer(others, "on leaving");
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.verdict.writes += 1;
        if self.announces() {
            let others = self.announce(WRITER)?;
            self.check_alone(others, "on arrival");
        }
        let [first, second] = self.load()?;
        self.dwell(Stay::Reading)?;
        self.ra.put_bytes(self.section.pair[0], &(first + 1).to_ne_bytes())?;
        self.dwell(Stay::Writing)?;
        self.ra.put_bytes(self.section.pair[1], &(second + 1).to_ne_bytes())?;
        self.newest = first + 1;
        if self.announces() {
            let inside = self.announce(WRITER.wrapping_neg())?;
            self.check_alone(inside.wrapping_sub(WRITER), "on leaving");
        }
        Ok(())
    }

    fn announces(&self) -> bool {
        self.acquisition.is_multiple_of(2)
    }

    /// Changes the counts of ranks inside, and returns the previous counts.
    fn announce(&self, change: u64) -> Result<u64> {
        Ok(self.ra.fetch_add(self.section.inside, change)?)
    }

    fn check_no_writer(&mut self, inside: u64, when: &str) {
        let writers = inside >> 32;
        if writers != 0 {
            self.report(Property::MutualExclusion, format!("{writers} writers inside with a reader {when}"));
        }
    }

    fn check_alone(&mut self, others: u64, when: &str) {
        if others != 0 {
            let (writers, readers) = (others >> 32, others & (WRITER - 1));
            let seen = format!("{readers} readers and {writers} other writers inside with a writer {when}");
            self.report(Property::MutualExclusion, seen);
        }
    }

    /// Waits for another reader, for a bounded time and in the first acquisition only. Returns the number of readers.
    fn await_company(&mut self, others: u64) -> Result<u32> {
        let count = |inside: u64| (inside & (WRITER - 1)) as u32;
        let mut together = count(others) + 1;
        let mut looks = 0;
        while self.acquisition == 0 && together == 1 && looks < LOOKS {
            self.ra.pause(1_u32.checked_shl(looks).map_or(BETWEEN_LOOKS, |pause| pause.min(BETWEEN_LOOKS)))?;
            together = count(self.ra.get(self.section.inside)?);
            looks += 1;
        }
        Ok(together)
    }

    /// Reads the two variables, and checks that they are equal and not older than this rank's last reading.
    fn load(&mut self) -> Result<[u64; 2]> {
        let [first, second] = self.section.load(self.ra)?;
        if first != second {
            self.report(Property::Consistent, format!("the variables are {first} and {second}"));
        } else if first < self.newest {
            self.report(
                Property::Consistent,
                format!("the variables are {first}, after this rank had read {}", self.newest),
            );
        }
        self.newest = self.newest.max(first);
        Ok([first, second])
    }

    /// Pauses, or not. A pause is long inside in the first acquisition, and anywhere one time in 256. It is short one
    /// time in four.
    fn dwell(&self, place: Stay) -> Result<()> {
        // Fibonacci hashing of rank, acquisition and place: the high bits of the product are well mixed.
        let key = u64::from(self.ra.rank().0) << 34 | u64::from(self.acquisition) << 2 | place as u64;
        let operations = match key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 {
            _ if self.acquisition == 0 && place != Stay::Outside => LONG_STAY,
            0 => LONG_STAY,
            1..16 => 200,
            16..64 => 10,
            _ => return Ok(()),
        };
        Ok(self.ra.pause(operations)?)
    }

    fn report(&mut self, property: Property, seen: String) {
        self.verdict.report(property, self.ra.rank(), Some(self.acquisition), seen);
    }
}
