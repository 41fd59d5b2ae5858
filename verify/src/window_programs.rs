//! Programs on windows as checks: what each rank does with a team and one or two windows, written as users write it.
//!
//! A [`Program`] is code for every rank, on the window layer as it is. [`Program::check`] makes it a [`Check`] that every
//! engine takes. It is wrong, if it is, in one of these ways:
//!
//! * a rank sees what it must not see: the code says so by [`Error::Seen`], with the property that is broken;
//! * ranks wait for ever, or go round in circles;
//! * a call of the window layer fails or panics;
//! * in the end the words of the windows' synchronization are not at rest: slots of posts, locks of accumulates, words of
//!   the lock policy. Numbers that only grow (barriers, posts and completions, tickets), the windows'
//!   data, and what accumulates are biased towards need not be zero.
//!
//! # State
//!
//! The explorer knows a rank by its answers since its last [`step`]. A program ends a step where it knows all that it
//! remembers from there on; the explorer tests that this is all (`explorer`, on witnesses). A program without steps
//! is one phase, and exact without any assumption.
//!
//! # Defects
//!
//! A [`Defect`] stands between the window layer and whatever carries its calls out, and drops or changes some of them:
//! what the layer would be without a flush, a wait, a lock. Each has a program that breaks by it.

mod defects;
mod programs;

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

pub use defects::{Defect, defects};
pub use programs::programs;
use rmalab_atomics::controlled::{Answer, Call, Executor, Shape};
use rmalab_atomics::{Disp, Rank, RemoteAtomics, WORD};
use rmalab_locks::LINE;
use rmalab_windows::{Config, PscwStrategy, Team, Window};

use crate::network::Network;
use crate::play::{Event, Player, Stage};
use crate::subject::{At, Holds};
use crate::{Check, Error, Group, Property, Result, Role, Scenario, Subject};

/// Bytes of each rank's part of a program's windows.
pub const BYTES: u64 = 16;

/// What one rank's code has: its team, and its windows, which are allocated.
pub struct Scene<'a, 'p> {
    /// The team of all ranks.
    pub team: &'a Team<'a, Stage<'p>>,
    /// The windows, of [`BYTES`] bytes at each rank.
    pub windows: Vec<Window<'a, Stage<'p>>>,
}

type Code = dyn Fn(Scene<'_, '_>) -> Result<()> + Send + Sync;

/// A program on windows.
#[derive(Clone)]
pub struct Program {
    /// Its name, in tables.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// How many ranks run it.
    pub ranks: u32,
    /// How its windows are made.
    pub windows: Vec<Config>,
    /// The most slots that a ring of posts has, if not as many as in earnest.
    pub slots: Option<u32>,
    /// When accumulates change between atomics and a lock, if they do: from how many elements on, after how many elements
    /// of runs, after how many single updates.
    pub bias: Option<(usize, u64, u64)>,
    /// The networks that it is searched on within seconds.
    pub networks: &'static [Network],
    /// Whether each rank's processor reaches all memory: 8-byte operations of the windows are its loads and stores then.
    pub local_words: bool,
    code: Arc<Code>,
}

impl Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Program {
    /// The check of the program on `network`.
    ///
    /// # Errors
    ///
    /// Those of making its windows.
    pub fn check(&self, network: Network) -> Result<Check> {
        self.check_with(network, None)
    }

    /// The check of the program as it runs with a defect in the window layer.
    ///
    /// # Errors
    ///
    /// Those of making its windows.
    pub fn check_defect(&self, defect: &'static Defect) -> Result<Check> {
        self.check_with(defect.network, Some(defect))
    }

    fn check_with(&self, network: Network, defect: Option<&'static Defect>) -> Result<Check> {
        let program = self.clone();
        let mut subject = Subject::program(self.name, move |rank, player| match defect {
            Some(defect) => program.run(rank, &Defective { player, rank, defect }),
            None => program.run(rank, player),
        });
        if self.bias.is_some() {
            subject = subject.fencing();
        }
        for (words, names, rest) in self.layout()? {
            let count = (words.end.0 - words.start.0) / WORD;
            let all: Vec<_> = (0..count).map(|_| (names, Holds::Number)).collect();
            subject = subject.words(At::Each, words.start, &all);
            if rest {
                subject = subject.rest(words);
            }
        }
        let group = Group { ranks: self.ranks, role: Role::Reader, acquisitions: 1 };
        let scenario = Scenario::new(vec![group]).map_err(Error::Unsound)?;
        let mut check = Check::new(subject, scenario);
        check.network = network;
        Ok(check)
    }

    fn run(&self, rank: Rank, player: &dyn Player) -> Result<()> {
        let stage = Stage::new(player, &self.shape(), rank);
        let team = Team::new(&stage)?;
        let windows = self.windows.iter().map(|config| self.window(&team, config)).collect::<Result<_>>()?;
        (self.code)(Scene { team: &team, windows })
    }

    /// The world: it has fences for all where accumulates have a bias.
    fn shape(&self) -> Shape {
        let mut shape = Shape::new(self.ranks);
        shape.capabilities.asymmetric_fence = self.bias.is_some();
        shape.local_words = self.local_words;
        shape
    }

    fn window<'a, 'p>(&self, team: &'a Team<'a, Stage<'p>>, config: &Config) -> Result<Window<'a, Stage<'p>>> {
        // So making a window is no part of what is explored.
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

    /// Where the words of the team and of the windows are, what they are called, and whether they are zero at rest.
    fn layout(&self) -> Result<Vec<(Range<Disp>, &'static str, bool)>> {
        let stage = Stage::new(&Silent as &dyn Player, &self.shape(), Rank(0));
        let team = Team::new(&stage)?;
        let mut layout = Vec::new();
        let rounds = u64::from(self.ranks.next_power_of_two().ilog2());
        layout.push((Disp(0)..Disp(0).word(rounds), "barrier", false));
        let mut known = allocations(&stage);
        for (config, names) in self.windows.iter().zip([A, B]) {
            let window = self.window(&team, config)?;
            let mut new = allocations(&stage);
            new.retain(|block| !known.contains(block));
            known.extend(new.iter().cloned());
            // In the order in which a window allocates: data, matching, lock of accumulates, words of the policy.
            let [data, matching, accumulate, policy @ ..] = new.as_slice() else {
                return Err(Error::Unsound(format!("{}: a window has at least three allocations", self.name)));
            };
            let posts = matching.start.plus(LINE);
            let ring = config.pscw == PscwStrategy::Matching;
            let first = posts.word(u64::from(ring));
            layout.push((data.clone(), names[0], false));
            layout.push((matching.start..matching.start.word(1), names[1], false));
            layout.push((posts..first, names[2], false));
            // A bit tells whether the number of posts is odd.
            layout.push((first..matching.end, names[3], ring));
            // Behind the lock's word are those of its bias, both of which are right with nobody active.
            let bias = accumulate.start.word(1)..accumulate.start.word(3);
            layout.push((accumulate.start..bias.start, names[4], true));
            layout.push((bias.clone(), names[6], false));
            layout.push((bias.end..accumulate.end, names[4], true));
            layout.extend(policy.iter().map(|block| (block.clone(), names[5], true)));
            drop(window);
        }
        Ok(layout)
    }
}

/// The words of the first and of the second window.
const A: [&str; 7] = ["A.data", "A.completions", "A.tail", "A.posts", "A.accumulate", "A.lock", "A.bias"];
const B: [&str; 7] = ["B.data", "B.completions", "B.tail", "B.posts", "B.accumulate", "B.lock", "B.bias"];

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
        at = at.plus(LINE);
    }
    blocks
}

/// Ends a step: all that this rank's code, the windows included, remembers of it from here on is `remembered`.
pub fn step(team: &Team<'_, Stage<'_>>, remembered: &dyn Debug) {
    team.ra().executor().event(Event::Left, remembered);
}

/// Says that `property` is broken unless `got` is one of `allowed`.
///
/// # Errors
///
/// [`Error::Seen`].
#[expect(clippy::needless_pass_by_value, reason = "values are written where they are seen")]
pub fn sees<T: PartialEq + Debug>(property: Property, what: &str, got: T, allowed: &[T]) -> Result<()> {
    if allowed.contains(&got) {
        return Ok(());
    }
    Err(Error::Seen { property, seen: format!("{what} is {got:?}, and may be {allowed:?}") })
}

/// Where nobody carries anything out: making a team and windows makes no call.
struct Silent;

impl Executor for Silent {
    fn call(&self, call: Call) -> Answer {
        panic!("making windows communicates nothing, and calls {call}")
    }
}

impl Player for Silent {
    fn event(&self, _event: Event, _handle: &dyn Debug) {}
}

/// A player with a defect between it and the window layer.
struct Defective<'p> {
    player: &'p dyn Player,
    rank: Rank,
    defect: &'static Defect,
}

impl Executor for Defective<'_> {
    fn call(&self, call: Call) -> Answer {
        (self.defect.call)(self.player, self.rank, call)
    }
}

impl Player for Defective<'_> {
    fn event(&self, event: Event, handle: &dyn Debug) {
        self.player.event(event, handle);
    }
}
