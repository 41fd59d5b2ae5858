//! What is checked: one lock or window policy, with what has to be known of it besides its code.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use rmalab_atomics::{Address, Disp, Rank};
use rmalab_locks::{LINE, LockKind, Place, RawRwLock, WindowLock};

use crate::play::{DATA, Handle, Player, Stage};
use crate::{Access, Result};

/// Where a lock's words start on the symmetric heap, after the line of the data that it protects.
pub const WORDS: Disp = Disp(LINE);

/// Whose memory a named word is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum At {
    /// The home's.
    Home,
    /// Every rank's.
    Each,
}

/// What the values of a word name, as far as ranks are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Holds {
    /// No rank: a count, a flag, a number.
    Number,
    /// A rank, by [`pointer`](rmalab_locks::qnode::pointer): the lower 32 bits are its number plus one, or nil.
    Pointer,
}

/// One word of a lock, for diagrams, mutants and symmetry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its name in the lock's table of state.
    pub name: &'static str,
    /// Whose memory it is in.
    pub at: At,
    /// Where.
    pub disp: Disp,
    /// What it holds.
    pub holds: Holds,
}

/// Who may be overtaken by whom, as a lock claims it. "Waits" means: has come to a wait, so that its turn is settled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Nothing is claimed.
    #[default]
    None,
    /// Whoever begins while another one waits, and excludes it, enters after it.
    Fifo,
    /// No reader that waits is overtaken by a writer that begins later, and by one at the most of those that waited.
    ReadersFirst,
    /// While one writer is inside and all others that have begun wait, no reader that begins overtakes those; among
    /// writers as [`Order::Fifo`]. Where posted puts are late, the one inside may not know of the next yet: not checked.
    WritersFirst,
}

/// Whether a subject takes the roles of readers and writers, or also those of windows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One reader-writer lock, or a mutex in its place.
    Lock,
    /// A window's policy.
    Window,
    /// A program of its own, in which nobody is inside; see [`Subject::program`].
    Program,
}

type Body = dyn Fn(Rank, &dyn Player) -> Result<()> + Send + Sync;
type Bind = dyn Fn(&Stage<'_>, Rank) -> rmalab_locks::Result<Box<dyn Handle>> + Send + Sync;

/// One lock or policy under test.
#[derive(Clone)]
pub struct Subject {
    name: &'static str,
    kind: Kind,
    order: Order,
    readers_share: bool,
    has_home: bool,
    words: Vec<Word>,
    code: Code,
    /// The displacements of the words that are zero at rest; all but the data's if nothing is said.
    rest: Option<Vec<Range<Disp>>>,
    /// Bits of named words that may be set at rest.
    keeps: Vec<(&'static str, u64)>,
    /// Whether a rank may fence for all of them.
    fences: bool,
}

/// What ranks run.
#[derive(Clone)]
enum Code {
    /// The scenario, on a lock that this binds.
    Lock(Arc<Bind>),
    /// This.
    Program(Arc<Body>),
}

impl Subject {
    /// The reader-writer lock `L`.
    ///
    /// `Debug` has to show all that a handle remembers, as the derived one does: the explorer tells handles apart by it.
    pub fn lock<L: RawRwLock + Debug + 'static>(params: L::Params) -> Subject {
        let bind = move |stage: &Stage<'_>, home| -> rmalab_locks::Result<Box<dyn Handle>> {
            let place = Place::alloc(stage, home, L::WORDS, L::NODE)?;
            Ok(Box::new(LockHandle(L::bind(stage, place, params)?)))
        };
        Subject::new(L::NAME, Kind::Lock, Code::Lock(Arc::new(bind)))
    }

    /// The window policy `W`; `params` gets the rank where its global words are to be.
    pub fn window<W: WindowLock + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> Subject {
        let bind = move |stage: &Stage<'_>, home| -> rmalab_locks::Result<Box<dyn Handle>> {
            Ok(Box::new(WindowHandle(W::new(stage, params(home))?)))
        };
        Subject::new(W::NAME, Kind::Window, Code::Lock(Arc::new(bind)))
    }

    /// The program whose rank `body` runs: of a scenario it takes nothing but the number of ranks.
    ///
    /// It says by [`Error::Seen`](crate::Error::Seen) what it has seen broken. With [`Event::Left`](crate::play::Event) it
    /// may end a *step*, which counts as an acquisition: all that it remembers from then on is in the handle that it gives
    /// with the event. Only the words that are named by [`rest`](Self::rest) have to be zero at the end.
    pub fn program(
        name: &'static str,
        body: impl Fn(Rank, &dyn Player) -> Result<()> + Send + Sync + 'static,
    ) -> Subject {
        let subject = Subject::new(name, Kind::Program, Code::Program(Arc::new(body))).without_home();
        Subject { rest: Some(Vec::new()), ..subject }
    }

    /// Says that ranks may fence for all of them ([`fence_everywhere`](rmalab_atomics::RemoteAtomics::fence_everywhere)).
    ///
    /// Without this the explorer takes it that nothing that others do looks at what a rank has posted.
    pub fn fencing(mut self) -> Subject {
        self.fences = true;
        self
    }

    pub(crate) fn fences(&self) -> bool {
        self.fences
    }

    fn new(name: &'static str, kind: Kind, code: Code) -> Subject {
        let order = Order::None;
        Subject {
            name,
            kind,
            order,
            readers_share: true,
            has_home: true,
            words: Vec::new(),
            code,
            rest: None,
            keeps: Vec::new(),
            fences: false,
        }
    }

    /// Says that the words of these displacements are zero at rest, and no others unless that is said as well.
    #[must_use]
    pub fn rest(mut self, words: Range<Disp>) -> Subject {
        self.rest.get_or_insert_default().push(words);
        self
    }

    /// Whether words at this displacement are zero at rest.
    pub fn rests(&self, disp: Disp) -> bool {
        self.rest.as_ref().map_or(disp != DATA, |rest| rest.iter().any(|words| words.contains(&disp)))
    }

    /// Says that these bits of the words of this name need not be zero at rest: what a lock keeps to be faster next time.
    #[must_use]
    pub fn keeps(mut self, word: &'static str, bits: u64) -> Subject {
        self.keeps.push((word, bits));
        self
    }

    /// The bits that need not be zero at rest in the word of this name.
    pub fn kept(&self, word: &str) -> u64 {
        self.keeps.iter().filter(|(name, _)| *name == word).fold(0, |bits, (_, more)| bits | more)
    }

    /// Gives it another name, to tell two sets of parameters apart.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Subject {
        self.name = name;
        self
    }

    /// Says that its readers exclude each other: it is a mutex.
    #[must_use]
    pub fn mutex(mut self) -> Subject {
        self.readers_share = false;
        self
    }

    /// Says who may be overtaken by whom.
    #[must_use]
    pub fn order(mut self, order: Order) -> Subject {
        self.order = order;
        self
    }

    /// Says that none of its words belong to a home that could be elsewhere.
    #[must_use]
    pub fn without_home(mut self) -> Subject {
        self.has_home = false;
        self
    }

    /// Names its words from the displacement `from` on, which are in `at`'s memory.
    ///
    /// A [`lock`](Subject::lock) has its shared words from [`WORDS`] on, and its node [`LINE`] further on.
    #[must_use]
    pub fn words(mut self, at: At, from: Disp, words: &[(&'static str, Holds)]) -> Subject {
        let named = (0..).zip(words).map(|(i, &(name, holds))| Word { name, at, disp: from.word(i), holds });
        self.words.extend(named);
        self
    }

    /// The name, the one that it has everywhere.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What roles it takes.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Who may be overtaken by whom.
    pub fn claimed_order(&self) -> Order {
        self.order
    }

    /// Whether readers can be inside together.
    pub fn shares(&self) -> bool {
        self.readers_share
    }

    /// Whether two ranks must not be inside in these ways at one time.
    pub fn excludes(&self, one: Access, two: Access) -> bool {
        if self.kind == Kind::Program {
            return false;
        }
        let as_played = |access| match (self.kind, access) {
            (Kind::Window, Access::Read) => Access::All,
            (Kind::Window, Access::Write) => Access::Exclusive(Rank(0)),
            _ => access,
        };
        !self.readers_share || as_played(one).excludes(as_played(two))
    }

    /// Whether there are words that only one rank has.
    pub fn has_home(&self) -> bool {
        self.has_home
    }

    /// Its named words.
    pub fn named_words(&self) -> &[Word] {
        &self.words
    }

    /// The address of the word `name`: the home's, or that of `owner` where every rank has one.
    pub fn address_of(&self, name: &str, home: Rank, owner: Rank) -> Option<Address> {
        let word = self.words.iter().find(|word| word.name == name)?;
        Some(match word.at {
            At::Home => home.at(word.disp),
            At::Each => owner.at(word.disp),
        })
    }

    /// The named word at an address, if it is one.
    pub fn word_at(&self, address: Address, home: Rank) -> Option<&Word> {
        self.words.iter().find(|word| word.disp == address.disp && (word.at == At::Each || address.rank == home))
    }

    /// This rank's handle of a new lock, its global words at `home`; on the symmetric heap there are only the data.
    ///
    /// # Errors
    ///
    /// Those of the lock.
    ///
    /// # Panics
    ///
    /// When it is a program.
    pub fn bind(&self, stage: &Stage<'_>, home: Rank) -> rmalab_locks::Result<Box<dyn Handle>> {
        match &self.code {
            Code::Lock(bind) => bind(stage, home),
            Code::Program(_) => panic!("{}: a program is no lock", self.name),
        }
    }

    /// The code of each rank, if it is a program.
    pub(crate) fn body(&self) -> Option<&Body> {
        match &self.code {
            Code::Lock(_) => None,
            Code::Program(body) => Some(&**body),
        }
    }
}

impl Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct LockHandle<L>(L);

impl<L: RawRwLock + Debug> Handle for LockHandle<L> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        if access.writes() { self.0.acquire_write(stage) } else { self.0.acquire_read(stage) }
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        if access.writes() { self.0.release_write(stage) } else { self.0.release_read(stage) }
    }
}

#[derive(Debug)]
struct WindowHandle<W>(W);

/// How a window's policy is called for an access; lock_all if there is no target.
fn window_call(access: Access) -> Option<(LockKind, Rank)> {
    match access {
        Access::Read | Access::All => None,
        Access::Write => Some((LockKind::Exclusive, Rank(0))),
        Access::Shared(target) => Some((LockKind::Shared, target)),
        Access::Exclusive(target) => Some((LockKind::Exclusive, target)),
    }
}

impl<W: WindowLock + Debug> Handle for WindowHandle<W> {
    fn acquire(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        match window_call(access) {
            Some((kind, target)) => self.0.lock(stage, kind, target),
            None => self.0.lock_all(stage),
        }
    }

    fn release(&mut self, stage: &Stage<'_>, access: Access) -> rmalab_locks::Result<()> {
        match window_call(access) {
            Some((kind, target)) => self.0.unlock(stage, kind, target),
            None => self.0.unlock_all(stage),
        }
    }
}
