//! One check: its subject, scenario, network and mutant.

use std::fmt::Debug;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use rmalab_atomics::controlled::{Answer, Call, Executor, Shape};
use rmalab_atomics::{Address, Rank, RemoteAtomics, Topology, WORD};
use rmalab_locks::LINE;
use rmalab_locks::recoverable::Stage as Resumed;

use crate::actor::Restarted;
use crate::bounded::Bounded;
use crate::choice::Choice;
use crate::mutant::{Deviating, Mutant};
use crate::network::Network;
use crate::play::{DATA, Event, Handle, Player, Section, Stage};
use crate::status::{Phase, Status};
use crate::subject::{Subject, Word};
use crate::workload::{Bind, Program, Workload};
use crate::{Access, Form, Result, Scenario, clock};

/// The input of every engine. A verdict depends on this, and on how the engine searches.
#[derive(Clone, Debug)]
pub struct Check {
    /// The lock, the policy or the program.
    pub subject: Subject,
    /// The ranks, with their acquisitions. For a program, only the number of ranks.
    pub scenario: Scenario,
    /// The work of ranks inside.
    pub section: Section,
    /// The network model, for engines that have one.
    pub network: Network,
    /// The planted defect, if any.
    pub mutant: Option<&'static Mutant>,
    /// The rank that holds the lock's global words. `None` stands for an extra rank that takes no part.
    ///
    /// `None` gives the strongest check. Posted puts to the lock's words and puts to a node then never have the same
    /// target. So more of them are unordered, and no flush of one covers the other.
    pub home: Option<Rank>,
}

impl Check {
    /// A check of the real lock on the sequentially consistent network, with nothing done inside.
    ///
    /// A lock for real networks also has to hold on [`Network::LatePuts`].
    pub fn new(subject: Subject, scenario: Scenario) -> Check {
        Check { subject, scenario, section: Section::Empty, network: Network::Sc, mutant: None, home: None }
    }

    /// A check of the program, on the sequentially consistent network.
    pub fn program(name: &'static str, program: Program) -> Check {
        let scenario = Scenario::of_ranks(program.ranks());
        Check::new(Subject::program(name, program), scenario)
    }

    /// The rank that holds the lock's global words.
    pub fn home(&self) -> Rank {
        self.home.unwrap_or(Rank(self.active().max(self.targets())))
    }

    /// The number of ranks that take part: ranks 0 to `active() - 1`.
    pub fn active(&self) -> u32 {
        self.scenario.ranks()
    }

    fn targets(&self) -> u32 {
        match self.subject.workload() {
            Workload::Lock(_) => 1,
            Workload::Window(_) => self.scenario.targets(),
            Workload::Program(_) => 0,
        }
    }

    /// The number of ranks of the world.
    pub fn world(&self) -> u32 {
        let home = if self.subject.has_home() { self.home().0 + 1 } else { 0 };
        self.active().max(self.targets()).max(home)
    }

    /// The placement of the world's ranks, as the lock sees it.
    pub fn topology(&self) -> Topology {
        self.scenario.topology(self.world())
    }

    /// The ranks whose data an acquisition protects.
    pub fn data(&self, access: Access) -> Range<u32> {
        let one = |rank: Rank| rank.0..rank.0 + 1;
        match access {
            Access::Read | Access::Write if !self.subject.is_window() => one(self.home()),
            Access::Read | Access::All => 0..self.targets(),
            Access::Write => one(Rank(0)),
            Access::Shared(target) | Access::Exclusive(target) => one(target),
        }
    }

    /// The named word at an address, if any. A lock with more words in a larger world has more of its last shared word.
    pub fn word_at(&self, at: Address) -> Option<&Word> {
        let disp = self.subject.named_disp(at.disp, self.world());
        self.subject.word_at(Address { disp, ..at }, self.home())
    }

    /// Returns whether the memory of `rank` has a special role: it is the home, or a target of a window.
    pub fn is_named(&self, rank: Rank) -> bool {
        let home = self.subject.has_home() && rank == self.home();
        home || self.subject.is_window() && rank.0 < self.targets()
    }

    /// Returns whether the acquisitions of `rank` have deadlines.
    pub fn is_timed(&self, rank: Rank) -> bool {
        self.scenario.form(rank) == Form::Timed
    }

    /// Returns whether the clock of `rank` moves.
    pub(crate) fn has_clock(&self, rank: Rank) -> bool {
        self.is_timed(rank) || self.scenario.lapses() > 0
    }

    /// Returns whether a lease has ended after `held` lapses since its rank entered.
    pub(crate) fn has_lapsed(&self, held: u8) -> bool {
        self.subject.lease_lapses().is_some_and(|lease| u32::from(held) >= lease)
    }

    /// Returns whether time may pass once more, after it has passed that many times.
    pub(crate) fn may_lapse(&self, lapses: u32) -> bool {
        lapses < self.scenario.lapses()
    }

    /// The rank for which time passes, in reports: one that is inside, if there is one.
    pub(crate) fn lapse(&self, statuses: &[Status]) -> Choice {
        let inside = statuses.iter().position(|status| status.phase == Phase::Inside && !status.lapsed);
        Choice::Lapse(Rank(inside.unwrap_or(0) as u32))
    }

    /// Returns whether an acquisition of some rank may fail.
    pub fn has_attempts(&self) -> bool {
        self.scenario.has(Form::Try) || self.scenario.has(Form::Timed)
    }

    /// Returns whether `rank` may fail after the ranks of `down` have failed.
    pub(crate) fn may_crash(&self, rank: Rank, down: u64) -> bool {
        let crashes = self.scenario.crashes();
        crashes != 0 && down.count_ones() < crashes && down >> rank.0 & 1 == 0
    }

    /// Returns whether a rank may fail and come back once more, after that many returns.
    pub(crate) fn may_restart(&self, restarts: u32) -> bool {
        restarts < self.scenario.restarts()
    }

    /// The answer to `call` if it is a silent step: no rank can observe when it happens. The clock of a rank with deadlines moves
    /// (`is_timed`). Where ranks fail, a pause may end with the news of a failure.
    pub(crate) fn silent(&self, is_timed: bool, call: &Call) -> Option<Answer> {
        let late = self.network.puts_are_late();
        let crashes = self.scenario.crashes() > 0;
        match *call {
            Call::Pause { .. } if !crashes => Some(Answer::Done),
            Call::Failed if !crashes => Some(Answer::Word(0)),
            Call::Acknowledge { ranks } | Call::Silence { ranks } if !crashes => Some(Answer::Word(ranks)),
            Call::Now if !is_timed => Some(Answer::Word(0)),
            Call::Flush { .. } | Call::Order { .. } | Call::Stored | Call::FenceEverywhere if !late => {
                Some(Answer::Done)
            }
            _ => None,
        }
    }

    /// Returns an error if the check makes no sense.
    ///
    /// # Errors
    ///
    /// [`Error::Scenario`](crate::Error::Scenario) when a lock gets the roles of a window. [`Error::Form`](crate::Error::Form)
    /// when it does not support a form of acquisition. [`Error::Crashes`](crate::Error::Crashes) when ranks fail or come back,
    /// or leases pass, and the lock does not go on then. [`Error::Mutant`](crate::Error::Mutant) when the mutant does not suit
    /// it.
    pub fn validate(&self) -> Result<()> {
        let of_windows = self.scenario.groups().iter().find(|group| group.role.is_of_windows());
        if !self.subject.is_window()
            && let Some(group) = of_windows
        {
            return Err(crate::Error::Scenario {
                scenario: self.scenario.to_string(),
                lock: self.subject.name(),
                role: group.role.to_string(),
            });
        }
        if let Some(group) = self.scenario.groups().iter().find(|group| !self.subject.supports(group.form)) {
            return Err(crate::Error::Form {
                scenario: self.scenario.to_string(),
                lock: self.subject.name(),
                form: group.form,
                tries: self.subject.supports(Form::Try),
            });
        }
        if let Some(source) = self.too_many_ranks() {
            let home = self.world() > self.active();
            return Err(crate::Error::TooManyRanks { scenario: self.scenario.to_string(), source, home });
        }
        if self.scenario.crashes() > 0
            && let Some(why) = self.no_crashes()
        {
            return Err(crate::Error::Crashes { scenario: self.scenario.to_string(), lock: self.subject.name(), why });
        }
        if self.scenario.restarts() > 0
            && let Some(why) = self.no_restarts()
        {
            return Err(crate::Error::Crashes { scenario: self.scenario.to_string(), lock: self.subject.name(), why });
        }
        if self.scenario.lapses() > 0
            && let Some(why) = self.no_lapses()
        {
            return Err(crate::Error::Crashes { scenario: self.scenario.to_string(), lock: self.subject.name(), why });
        }
        match self.mutant {
            Some(mutant) if !mutant.suits(self.subject.name()) => Err(crate::Error::Mutant {
                mutant: mutant.name,
                lock: self.subject.name(),
                of: mutant.locks.join(", "),
            }),
            _ => Ok(()),
        }
    }

    /// The error of the lock if it cannot count the ranks of the world.
    fn too_many_ranks(&self) -> Option<rmalab_locks::Error> {
        let (Workload::Lock(bind) | Workload::Window(bind)) = self.subject.workload() else { return None };
        let shape = self.shape();
        let player: &dyn Player = &Mute;
        let stage = Stage::new(player, &shape, Rank(0));
        stage.heap().alloc(LINE, LINE).ok()?;
        bind.bind(&stage, self.home()).err().filter(|error| matches!(error, rmalab_locks::Error::TooManyRanks { .. }))
    }

    /// The reason why no rank may fail in this check, if there is one.
    fn no_crashes(&self) -> Option<&'static str> {
        match self {
            _ if !self.subject.recovers() => Some("it does not recover from the failure of a rank"),
            _ if self.active() > u64::BITS => Some("at most 64 ranks take part where ranks fail"),
            _ if self.scenario.targets() > u64::BITS => Some("at most 64 targets are locked where ranks fail"),
            _ if self.has_attempts() => Some("where ranks fail, all acquisitions wait"),
            _ if self.section == Section::Data => {
                Some("a rank that fails leaves the data half written; use --section empty")
            }
            _ if self.network.splits_atomics() => Some("ranks do not fail where atomics take two steps"),
            _ => None,
        }
    }

    /// The reason why no rank may fail and come back in this check, if there is one.
    fn no_restarts(&self) -> Option<&'static str> {
        match self {
            _ if !self.subject.resumes() => Some("its ranks cannot come back"),
            _ if self.has_attempts() => Some("where ranks come back, all acquisitions wait"),
            _ if self.scenario.crashes() + self.scenario.lapses() > 0 => {
                Some("where ranks come back, no rank fails for ever, and no lease passes")
            }
            _ if self.section == Section::Data => {
                Some("a rank that comes back inside finds the data half written; use --section empty")
            }
            _ if self.network.splits_atomics() => Some("ranks do not come back where atomics take two steps"),
            _ => None,
        }
    }

    /// The reason why no lease may pass in this check, if there is one.
    fn no_lapses(&self) -> Option<&'static str> {
        match self {
            _ if self.subject.lease_lapses().is_none() => Some("it has no leases"),
            _ if self.has_attempts() => Some("where leases pass, all acquisitions wait"),
            _ if self.scenario.crashes() > 0 => {
                Some("no rank fails where leases pass: a rank that is paused forever is like a failed one")
            }
            _ if self.section == Section::Data => Some(
                "a rank that has lost the lock leaves the data half written; use --section empty, which has a fenced word",
            ),
            _ => None,
        }
    }

    /// Runs the code of `rank`. Every engine calls this for each rank, with its own `player`.
    ///
    /// # Errors
    ///
    /// The errors of the lock and of the player.
    pub fn play(&self, rank: Rank, player: &dyn Player) -> Result<()> {
        let deviating;
        let player: &dyn Player = match self.mutant {
            Some(mutant) => {
                deviating = Deviating::new(player, mutant, &self.subject, self.home(), rank);
                &deviating
            }
            None => player,
        };
        let bounded;
        let (bind, player): (_, &dyn Player) = match self.subject.workload() {
            Workload::Program(program) => return program.run(rank, player),
            Workload::Window(bind) => (bind, player),
            Workload::Lock(bind) => {
                bounded = Bounded { player, bind, rank, ranks: self.world() };
                (bind, &bounded)
            }
        };
        let mut past = Past::default();
        if self.scenario.restarts() == 0 {
            return self.play_lock(rank, player, bind, &mut past);
        }
        loop {
            // The closure leaves only the lock half done, as a failure does.
            match catch_unwind(AssertUnwindSafe(|| self.play_lock(rank, player, bind, &mut past))) {
                Ok(ended) => return ended,
                Err(payload) if payload.is::<Restarted>() => past.has_failed = true,
                Err(payload) => resume_unwind(payload),
            }
        }
    }

    /// The world of a lock.
    fn shape(&self) -> Shape {
        self.network.shape(Shape { topology: Arc::new(self.topology()), ..Shape::new(self.world()) })
    }

    /// Runs all acquisitions of one rank, or what is left of them after its last failure.
    fn play_lock(&self, rank: Rank, player: &dyn Player, bind: &Bind, past: &mut Past) -> Result<()> {
        let shape = self.shape();
        let stage = &Stage::new(player, &shape, rank);
        let data = stage.heap().alloc(LINE, LINE)?;
        assert_eq!(data, DATA, "an empty heap starts at 0");
        let mut is_inside = false;
        let mut handle = if past.has_failed {
            player.event(Event::CameBack, &());
            let (handle, resumed) = bind.resume(stage, self.home())?;
            is_inside = resumed == Resumed::Inside;
            if !is_inside {
                past.over += usize::from(past.releases);
                player.event(Event::Idle, &handle);
            }
            handle
        } else {
            bind.bind(stage, self.home())?
        };
        past.releases = false;
        let handle = &mut *handle;
        let form = self.scenario.form(rank);
        for (number, access) in (0..).zip(self.scenario.accesses(rank)).skip(past.over) {
            if !std::mem::take(&mut is_inside) {
                player.event(Event::Begins(access), handle);
                let acquired = match form {
                    Form::Wait => handle.acquire(stage, access).map(|()| true)?,
                    Form::Try => handle.attempt(stage, access, None)?,
                    Form::Timed => handle.attempt(stage, access, Some(clock::deadline(number)))?,
                };
                if !acquired {
                    player.event(Event::GaveUp { writes: self.section == Section::Data && access.writes() }, handle);
                    continue;
                }
            }
            player.event(Event::Entered, handle);
            if self.scenario.lapses() > 0 {
                handle.write(stage, self.home().at(DATA))?;
            }
            if self.section == Section::Data {
                for target in self.data(access).map(Rank) {
                    visit(stage, handle, access, target.at(DATA))?;
                }
            }
            player.event(Event::Leaves, handle);
            past.releases = true;
            handle.release(stage, access)?;
            (past.releases, past.over) = (false, past.over.wrapping_add(1));
            player.event(Event::Left, handle);
        }
        if self.scenario.restarts() > 0 {
            // A rank may fail until its last puts have arrived, and then has to come back.
            stage.flush_all()?;
        }
        Ok(())
    }
}

/// Answers no call.
struct Mute;

impl Executor for Mute {
    fn call(&self, _call: Call) -> Answer {
        Answer::GivenUp
    }
}

impl Player for Mute {
    fn event(&self, _event: Event, _handle: &dyn Debug) {}
}

/// The work of a rank before it failed: a function of its status.
#[derive(Default)]
struct Past {
    has_failed: bool,
    /// The number of acquisitions that are over.
    over: usize,
    /// True from the start of a release to its end.
    releases: bool,
}

/// Reads the data, and also writes them if `access` allows that.
fn visit(stage: &Stage<'_>, handle: &dyn Handle, access: Access, data: Address) -> Result<()> {
    let mut bytes = [0; WORD as usize];
    stage.get_bytes(data, &mut bytes)?;
    let writes = u64::from_ne_bytes(bytes);
    stage.executor().event(Event::Saw { target: data.rank, writes }, &handle);
    if access.writes() {
        stage.put_bytes(data, &writes.wrapping_add(1).to_ne_bytes())?;
    }
    Ok(())
}
