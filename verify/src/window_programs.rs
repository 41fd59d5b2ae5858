//! Programs on windows as checks: the code of each rank with a team and one or two windows, written like user code.
//!
//! A [`WindowProgram`] is code for every rank on the real window layer. [`WindowProgram::check`] makes a [`Check`] of
//! it for every engine. A program fails in one of these ways:
//!
//! * a rank sees a value that it must not see: the code returns [`Error::Seen`] with the violated property;
//! * ranks wait forever, or run in a cycle;
//! * a call of the window layer fails or panics;
//! * at the end, the synchronization words of the windows are not at rest: slots of posts, locks of accumulates, words
//!   of the lock policy. Other words may have any value: numbers that only grow (barriers, posts, completions,
//!   tickets), the windows' data, and the bias of accumulates.
//!
//! # State
//!
//! The explorer knows a rank by its answers since its last [`step`]. A program ends a step where it can list everything
//! that it remembers from there on. The explorer tests with witnesses that the list is complete (see its `learned`). A
//! program without steps is one phase, and exact without any assumption.
//!
//! # Defects
//!
//! A defect is a [`Mutant`] of the window layer. It drops or changes some of the layer's calls, selected by the names
//! of their words. It acts like the layer without a flush, a wait or a lock. Each defect breaks one of the programs.

mod defects;
mod programs;

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

pub use defects::defects;
pub use programs::programs;
use rmalab_atomics::controlled::{Answer, Call, Executor, Shape};
use rmalab_atomics::{Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::{LINE, Mcs, RawMutex};
use rmalab_windows::messages::{self, Messages};
use rmalab_windows::{Config, PscwStrategy, Team, Window};

use crate::network::Network;
use crate::play::{Event, Player, Stage};
use crate::subject::{At, Holds};
use crate::{Check, Error, Mutant, Program, Property, Result};

/// The size of each rank's part of a program's windows.
pub const BYTES: u64 = 16;

/// The arguments of one rank's code: its team, its allocated windows, and its end-point of messages.
pub struct Scene<'a, 'p> {
    /// The team of all ranks.
    pub team: &'a Team<'a, Stage<'p>>,
    /// The windows, of [`BYTES`] bytes at each rank.
    pub windows: Vec<Window<'a, Stage<'p>>>,
    /// The end-point, if the program has messages.
    pub messages: Option<Messages<'a, Stage<'p>>>,
}

type Code = dyn Fn(Scene<'_, '_>) -> Result<()> + Send + Sync;

/// A program on windows.
#[derive(Clone)]
pub struct WindowProgram {
    /// Its name, in tables.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// The number of ranks.
    pub ranks: u32,
    /// The configurations of its windows.
    pub windows: Vec<Config>,
    /// The options of its messages, if it has them.
    pub messages: Option<messages::Options>,
    /// The number of slots in a ring of posts, if not the window layer's default.
    pub slots: Option<u32>,
    /// The bias of accumulates, if any. The first number is the least number of elements of a run. The mode changes
    /// after the second number of elements of runs, and after the third number of single updates.
    pub bias: Option<(usize, u64, u64)>,
    /// True if more than two ranks use the barrier of ranks that share processors.
    pub centralized: bool,
    /// The networks on which a search takes seconds.
    pub networks: &'static [Network],
    /// True if the backend claims ordered puts on every network. On a network without them, this is a defect.
    pub claims_ordered_puts: bool,
    /// True if each rank's processor reaches all memory. Then 8-byte operations of the windows are its loads and
    /// stores.
    pub local_words: bool,
    code: Arc<Code>,
}

impl Debug for WindowProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowProgram").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The check of the program that `defect` breaks, with the defect.
///
/// # Errors
///
/// [`Error::Unsound`] if there is no such program, and the errors of creating its windows.
pub fn check_of(defect: &'static Mutant) -> Result<Check> {
    let program = programs().into_iter().find(|program| defect.suits(program.name));
    let program = program.ok_or_else(|| Error::Unsound(format!("{}: it breaks no program", defect.name)))?;
    Ok(Check { mutant: Some(defect), ..program.check(defect.network)? })
}

/// Some words of a program: their place, their names, and whether they are zero at rest.
struct Words {
    place: Range<Disp>,
    name: &'static str,
    rest: bool,
}

impl WindowProgram {
    /// The check of the program on `network`.
    ///
    /// # Errors
    ///
    /// The errors of creating its windows.
    pub fn check(&self, network: Network) -> Result<Check> {
        let (own, shape) = (self.clone(), self.shape(network));
        let mut program = Program::new(self.ranks, move |rank, player| own.run(&shape, rank, player));
        if self.bias.is_some() {
            program = program.fencing();
        }
        let layout = self.layout(network)?;
        for words in layout.iter().filter(|words| words.rest) {
            program = program.rest(words.place.clone());
        }
        let mut check = Check::program(self.name, program);
        for Words { place, name, .. } in layout {
            let count = (place.end.0 - place.start.0) / WORD;
            let names: Vec<_> = (0..count).map(|_| (name, Holds::Number)).collect();
            check.subject = check.subject.words(At::Each, place.start, &names);
        }
        Ok(Check { network, ..check })
    }

    fn run(&self, shape: &Shape, rank: Rank, player: &dyn Player) -> Result<()> {
        let stage = Stage::new(player, shape, rank);
        let team = Team::new(&stage)?;
        let windows = self.windows.iter().map(|config| self.window(&team, config)).collect::<Result<_>>()?;
        let messages = self.messages.map(|options| Messages::with_options(&stage, options)).transpose();
        (self.code)(Scene { team: &team, windows, messages: messages.map_err(rmalab_windows::Error::from)? })
    }

    /// The world on `network`. It has fences for all ranks if accumulates have a bias.
    fn shape(&self, network: Network) -> Shape {
        let mut shape = network.shape(Shape::new(self.ranks));
        shape.capabilities.ordered_puts |= self.claims_ordered_puts;
        shape.capabilities.asymmetric_fence = self.bias.is_some();
        shape.capabilities.shares_processors = self.centralized;
        shape.local_words = self.local_words;
        shape
    }

    fn window<'a, 'p>(&self, team: &'a Team<'a, Stage<'p>>, config: &Config) -> Result<Window<'a, Stage<'p>>> {
        // Creating a symmetric window makes no call, so that it is no part of the search.
        let builder = Window::builder(team).config(*config).symmetric();
        let builder = match self.slots {
            Some(slots) => builder.pscw_slots(slots),
            None => builder,
        };
        let builder = match self.bias {
            Some((run, debt, rent)) => builder.accumulate_limits(run, debt, rent),
            None => builder,
        };
        Ok(builder.allocate(BYTES)?)
    }

    /// The words of the team and of the windows.
    fn layout(&self, network: Network) -> Result<Vec<Words>> {
        let stage = Stage::new(&Silent as &dyn Player, &self.shape(network), Rank(0));
        let team = Team::new(&stage)?;
        let mut layout = Vec::new();
        let mut add = |name, place, rest| layout.push(Words { place, name, rest });
        let rounds = self.ranks.next_power_of_two().ilog2() as usize;
        for (round, name) in (0..).zip(&BARRIER[..rounds]) {
            add(name, Disp(0).word(round)..Disp(0).word(round + 1), false);
        }
        if self.centralized {
            for (number, name) in (3 * rounds as u64..).zip(CENTRALIZED) {
                add(name, Disp(0).word(number)..Disp(0).word(number + 1), false);
            }
        }
        let mut known = allocations(&stage);
        for (config, names) in self.windows.iter().zip([A, B]) {
            let window = self.window(&team, config)?;
            let mut new = allocations(&stage);
            new.retain(|block| !known.contains(block));
            known.extend(new.iter().cloned());
            // In the order of a window's allocations: data, matching, lock of accumulates, words of the policy.
            let [data, matching, accumulate, policy @ ..] = new.as_slice() else {
                return Err(Error::Unsound(format!("{}: a window has at least three allocations", self.name)));
            };
            let [data_name, completions, tail, posts, lock, mode, rent, busy, policy_name] = names;
            let ring = config.pscw == PscwStrategy::Matching;
            let line = matching.start.plus(LINE);
            let first = line.word(u64::from(ring));
            add(data_name, data.clone(), false);
            add(completions, matching.start..line, false);
            add(tail, line..first, false);
            // Flags count the posts, but slots are empty at rest.
            add(posts, first..matching.end, ring);
            // Both modes are valid while no rank updates.
            let word = |number| accumulate.start.word(number);
            let nodes = accumulate.start.plus(LINE);
            let node_end = nodes.plus(Mcs::NODE);
            add(lock, word(0)..word(1), true);
            add(mode, word(1)..word(2), false);
            add(rent, word(2)..word(3), false);
            add(lock, nodes..node_end, true);
            add(busy, node_end..accumulate.end, true);
            for block in policy {
                add(policy_name, block.clone(), true);
            }
            drop(window);
        }
        if let Some(options) = self.messages {
            Messages::with_options(&stage, options).map_err(rmalab_windows::Error::from)?;
            let ring = allocations(&stage).into_iter().find(|block| !known.contains(block));
            let ring = ring.ok_or_else(|| Error::Unsound(format!("{}: messages need a ring", self.name)))?;
            let mut add = |name, first, words| {
                let place = ring.start.word(first)..ring.start.word(first + words);
                layout.push(Words { place, name, rest: false });
            };
            let line = RING_LINE / WORD;
            add("ring.tail", 0, 1);
            add("ring.head", line, 1);
            add("ring.waiters", 2 * line, 1);
            add("ring.at", 2 * line + 1, 1);
            add("ring.nodes", 3 * line, line);
            let words = u64::from(options.slot_bytes) / WORD;
            for slot in (0..u64::from(options.slots)).map(|slot| 4 * line + slot * words) {
                add("ring.number", slot, 1);
                add("ring.packet", slot + 1, words - 1);
            }
        }
        Ok(layout)
    }
}

/// The words of a team's barrier, one for each round: a program has at most 4 ranks.
const BARRIER: [&str; 2] = ["barrier round 1", "barrier round 2"];

/// The words of the barrier of ranks that share processors.
const CENTRALIZED: [&str; 3] = ["barrier count", "barrier reached", "barrier released"];

macro_rules! words {
    ($window:literal $($word:literal)*) => { [$(concat!($window, $word)),*] };
}

/// The words of the first and of the second window.
const A: [&str; 9] = words!("A" ".data" ".completions" ".tail" ".posts" ".accumulate" ".mode" ".rent" ".busy" ".lock");
const B: [&str; 9] = words!("B" ".data" ".completions" ".tail" ".posts" ".accumulate" ".mode" ".rent" ".busy" ".lock");

/// The alignment of rings of messages, in bytes.
const RING_LINE: u64 = 64;

/// All allocations of a heap that start at a line, in the order of their displacements.
fn allocations(stage: &Stage<'_>) -> Vec<Range<Disp>> {
    let heap = stage.heap();
    let mut left = heap.capacity() - heap.free_bytes();
    let mut blocks = Vec::new();
    let mut at = Disp(0);
    while left > 0 && at < heap.end() {
        if let Ok(bytes) = heap.len_of(at) {
            left -= bytes;
            blocks.push(at..at.plus(bytes.next_multiple_of(WORD)));
        }
        at = at.plus(RING_LINE);
    }
    blocks
}

/// Ends a step: `remembered` is everything that this rank's code and windows remember from here on.
pub fn step(team: &Team<'_, Stage<'_>>, remembered: &dyn Debug) {
    team.ra().executor().event(Event::Left, remembered);
}

/// Returns a violation of `property` unless `got` is one of `allowed`.
///
/// # Errors
///
/// [`Error::Seen`].
#[expect(clippy::needless_pass_by_value, reason = "the callers pass values that they have just read")]
pub fn sees<T: PartialEq + Debug>(property: Property, what: &str, got: T, allowed: &[T]) -> Result<()> {
    if allowed.contains(&got) {
        return Ok(());
    }
    Err(Error::Seen { property, seen: format!("{what} is {got:?}, but must be one of {allowed:?}") })
}

/// Rejects all calls: creating a team and windows makes none.
struct Silent;

impl Executor for Silent {
    fn call(&self, call: Call) -> Answer {
        panic!("creating windows must not communicate, but calls {call}")
    }
}

impl Player for Silent {
    fn event(&self, _event: Event, _handle: &dyn Debug) {}
}
