//! The subject of a check: a lock, a window's policy or a program, with the facts that a check needs beyond its code.

use std::fmt::{self, Debug};
use std::time::Duration;

use rmalab_atomics::{Address, Disp, Rank, WORD};
use rmalab_locks::{
    Exclusive, LINE, Lease, LeaseParams, RawMutex, RawMutexTimed, RawMutexTry, RawRwLock, RawRwLockTimed, Recoverable,
    RecoverableRw, Resumable, WindowLock, WindowLockTimed,
};

use crate::clock::LAPSE;
use crate::play::DATA;
use crate::workload::{Attempt, Bind, LockMemory, Program, Workload, attempt_lock, attempt_window, lines, no_attempt};
use crate::{Access, Form};

/// The start of a lock's words on the symmetric heap, after the line of the protected data.
pub const WORDS: Disp = Disp(LINE);

/// The sign between the names of two locks, the inner one last.
const NESTED: &str = "+";

/// The end of the name of two locks that odd ranks acquire in the opposite order.
const OPPOSITE: &str = " (opposite)";

/// The memory that contains a named word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum At {
    /// The memory of the home.
    Home,
    /// The memory of every rank.
    Each,
}

/// The meaning of a word's values under a permutation of the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Holds {
    /// Not a rank: a count, a flag, a number.
    Number,
    /// A rank, by [`pointer`](rmalab_locks::qnode::pointer): the lower 32 bits are its number plus one, or nil.
    Pointer,
    /// The same in this number of low bits, for a word with other fields above them.
    PointerIn(u32),
}

impl Holds {
    /// The bits that have the pointer, if there is one.
    pub(crate) const fn pointer_bits(self) -> Option<u64> {
        match self {
            Holds::Number => None,
            Holds::Pointer => Some(u32::MAX as u64),
            Holds::PointerIn(bits) => Some(u64::MAX >> (u64::BITS - bits)),
        }
    }
}

/// One named word, for diagrams, mutants and symmetry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its name in the lock's table of state.
    pub name: &'static str,
    /// The memory that contains it.
    pub at: At,
    /// Its displacement.
    pub disp: Disp,
    /// The kind of its value.
    pub holds: Holds,
}

/// A lock's claim about which rank may overtake which. A rank *waits* once it has reached a wait: its turn is fixed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// No claim.
    #[default]
    None,
    /// A rank that begins while another rank waits, and excludes it, enters after that rank.
    Fifo,
    /// A waiting reader is overtaken by no writer that begins later, and by at most one writer that waited.
    ReadersFirst,
    /// While one writer is inside and all other ranks that have begun wait, no reader that begins overtakes them. Among
    /// writers, the order is [`Order::Fifo`]. It is not checked with late puts, because the writer inside may not yet
    /// see the next one.
    WritersFirst,
}

/// One lock, policy or program under test.
#[derive(Clone)]
pub struct Subject {
    name: &'static str,
    workload: Workload,
    order: Order,
    /// The last form of acquisition that it supports.
    form: Form,
    readers_share: bool,
    has_home: bool,
    fences: bool,
    words: Vec<Word>,
    /// Bits of named words that may be set at rest.
    keeps: Vec<(&'static str, u64)>,
    /// True if it is two locks, one inside the other.
    is_nested: bool,
    /// True if it goes on after the failure of a rank.
    recovers: bool,
    /// True if only ranks that lock the same target learn of a failure inside a lock of one target.
    tells_by_target: bool,
    /// If its holders lose it with time, the number of lapses that a lease lasts.
    lease: Option<u32>,
}

impl Subject {
    /// The reader-writer lock `L`.
    ///
    /// `Debug` must show everything that a handle remembers, as the derived one does: the explorer distinguishes
    /// handles by it.
    pub fn lock<L: RawRwLock + Debug + 'static>(params: L::Params) -> Subject {
        Subject::lock_by::<L>(params, no_attempt)
    }

    /// Like [`lock`](Self::lock), in every form of acquisition.
    pub fn timed_lock<L: RawRwLockTimed + Debug + 'static>(params: L::Params) -> Subject {
        Subject { form: Form::Timed, ..Subject::lock_by::<L>(params, attempt_lock) }
    }

    fn lock_by<L: RawRwLock + Debug + 'static>(params: L::Params, attempt: Attempt<L>) -> Subject {
        let subject = Subject::new(L::NAME, Workload::Lock(Bind::lock::<L>(params, attempt)));
        Subject { readers_share: L::READERS_SHARE, ..subject }
    }

    /// The mutex `M`: its readers exclude each other like writers.
    ///
    /// `Debug` must show everything that a handle remembers, as for a [`lock`](Self::lock).
    pub fn mutex<M: RawMutex + Debug + 'static>(params: M::Params) -> Subject {
        Subject::lock::<Exclusive<M>>(params)
    }

    /// Like [`mutex`](Self::mutex), and it can be tried.
    pub fn tried_mutex<M: RawMutexTry + Debug + 'static>(params: M::Params) -> Subject {
        let subject = Subject::new(M::NAME, Workload::Lock(Bind::tried_mutex::<M>(params)));
        Subject { form: Form::Try, readers_share: false, ..subject }
    }

    /// Like [`mutex`](Self::mutex), in every form of acquisition.
    pub fn timed_mutex<M: RawMutexTimed + Debug + 'static>(params: M::Params) -> Subject {
        Subject::timed_lock::<Exclusive<M>>(params)
    }

    /// The mutex `M`, which goes on after the failure of a rank.
    pub fn recoverable_mutex<M: Recoverable + Debug + 'static>(params: M::Params) -> Subject {
        let subject = Subject::new(M::NAME, Workload::Lock(Bind::recoverable::<M>(params)));
        Subject { readers_share: false, recovers: true, ..subject }
    }

    /// The mutex `M`, whose ranks may fail and come back.
    pub fn resumable_mutex<M: Resumable + Debug + 'static>(params: M::Params) -> Subject {
        let subject = Subject::new(M::NAME, Workload::Lock(Bind::resumable::<M>(params)));
        Subject { readers_share: false, ..subject }
    }

    /// The reader-writer lock `L`, which goes on after the failure of a rank.
    pub fn recoverable_lock<L: RecoverableRw + Debug + 'static>(params: L::Params) -> Subject {
        let subject = Subject::new(L::NAME, Workload::Lock(Bind::recoverable_rw::<L>(params)));
        Subject { recovers: true, ..subject }
    }

    /// The lease mutex. Its leases last until time has passed `lapses` times; `params` gets their term.
    ///
    /// A waiter waits for an eighth more than the term, which is no longer than that.
    pub fn lease(lapses: u32, params: impl FnOnce(Duration) -> LeaseParams) -> Subject {
        let term = LAPSE * lapses;
        let params = params(term - term / 8);
        let subject = Subject::new(Lease::NAME, Workload::Lock(Bind::lease(params)));
        Subject { readers_share: false, ..subject }.leasing(lapses)
    }

    /// Declares that a holder loses it when time has passed that many times since its entry.
    #[must_use]
    pub fn leasing(self, lapses: u32) -> Subject {
        Subject { lease: Some(lapses), ..self }
    }

    /// The window policy `W`; `params` gets the rank for its global words.
    pub fn window<W: WindowLock + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> Subject {
        Subject::new(W::NAME, Workload::Window(Bind::window::<W>(params, no_attempt)))
    }

    /// Like [`window`](Self::window), in every form of acquisition.
    pub fn timed_window<W: WindowLockTimed + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> Subject {
        let subject = Subject::new(W::NAME, Workload::Window(Bind::window::<W>(params, attempt_window)));
        Subject { form: Form::Timed, ..subject }
    }

    /// Like [`window`](Self::window), and it goes on after the failure of a rank.
    pub fn recoverable_window<W: WindowLock + Debug + 'static>(
        params: impl Fn(Rank) -> W::Params + Send + Sync + 'static,
    ) -> Subject {
        let subject = Subject::new(W::NAME, Workload::Window(Bind::recoverable_window::<W>(params)));
        Subject { recovers: true, ..subject }
    }

    pub(crate) fn program(name: &'static str, program: Program) -> Subject {
        let fences = program.fences();
        Subject { fences, ..Subject::new(name, Workload::Program(program)).without_home() }
    }

    fn new(name: &'static str, workload: Workload) -> Subject {
        Subject {
            name,
            workload,
            order: Order::None,
            form: Form::Wait,
            readers_share: true,
            has_home: true,
            fences: false,
            words: Vec::new(),
            keeps: Vec::new(),
            is_nested: false,
            recovers: false,
            tells_by_target: false,
            lease: None,
        }
    }

    /// Two locks. Each rank acquires one inside the other: `inner` inside `outer`. If they are `opposite`, odd
    /// ranks acquire `outer` inside `inner`. `None` if one of them is no lock, or is two locks itself.
    ///
    /// Each call leaks some bytes, for names.
    pub fn nested(outer: &Subject, inner: &Subject, opposite: bool) -> Option<Subject> {
        let (Workload::Lock(of_outer), Workload::Lock(of_inner)) = (&outer.workload, &inner.workload) else {
            return None;
        };
        if outer.is_nested || inner.is_nested {
            return None;
        }
        let order = if opposite { OPPOSITE } else { "" };
        let name = format!("{}{NESTED}{}{order}", outer.name, inner.name).leak();
        let of_inner_word = |name: &str| -> &'static str { format!("inner {name}").leak() };
        let words = inner.words.iter().map(|&word| Word {
            name: of_inner_word(word.name),
            disp: word.disp.plus(of_outer.bytes()),
            ..word
        });
        let keeps = inner.keeps.iter().map(|&(name, bits)| (of_inner_word(name), bits));
        Some(Subject {
            form: outer.form.min(inner.form),
            readers_share: outer.readers_share && inner.readers_share,
            fences: outer.fences || inner.fences,
            words: outer.words.iter().copied().chain(words).collect(),
            keeps: outer.keeps.iter().copied().chain(keeps).collect(),
            is_nested: true,
            ..Subject::new(name, Workload::Lock(Bind::nested(of_outer, of_inner, opposite)))
        })
    }

    /// The names of the outer and the inner lock in `name`, and whether they are opposite. `None` unless `name` names
    /// two [`nested`](Self::nested) locks.
    pub fn names_of_nested(name: &str) -> Option<(&str, &str, bool)> {
        let (outer, inner) = name.split_once(NESTED).filter(|(_, inner)| !inner.contains(NESTED))?;
        Some(match inner.strip_suffix(OPPOSITE) {
            Some(inner) => (outer, inner, true),
            None => (outer, inner, false),
        })
    }

    /// Returns whether it goes on after the failure of a rank.
    pub fn recovers(&self) -> bool {
        self.recovers
    }

    /// Returns whether its ranks may fail and come back.
    pub fn resumes(&self) -> bool {
        matches!(&self.workload, Workload::Lock(bind) if bind.resumes())
    }

    /// Declares that only ranks that lock the same target learn of a failure inside a lock of one target.
    #[must_use]
    pub fn telling_by_target(self) -> Subject {
        Subject { tells_by_target: true, ..self }
    }

    pub(crate) fn tells_by_target(&self) -> bool {
        self.tells_by_target
    }

    /// The number of lapses after which a holder loses it; `None` if it has no leases.
    pub fn lease_lapses(&self) -> Option<u32> {
        self.lease
    }

    /// Returns whether it is two locks, one inside the other.
    pub fn is_nested(&self) -> bool {
        self.is_nested
    }

    /// Gives it another name, to distinguish two sets of parameters.
    #[must_use]
    pub fn named(self, name: &'static str) -> Subject {
        Subject { name, ..self }
    }

    /// Declares that its readers exclude each other.
    #[must_use]
    pub fn exclusive(self) -> Subject {
        Subject { readers_share: false, ..self }
    }

    /// Declares which rank may overtake which.
    #[must_use]
    pub fn order(self, order: Order) -> Subject {
        Subject { order, ..self }
    }

    /// Declares that it has no words at a home.
    #[must_use]
    pub fn without_home(self) -> Subject {
        Subject { has_home: false, ..self }
    }

    /// Declares that ranks may call [`fence_everywhere`](rmalab_atomics::RemoteAtomics::fence_everywhere). Engines also find
    /// that out, but then begin again.
    #[must_use]
    pub fn fencing(self) -> Subject {
        Subject { fences: true, ..self }
    }

    /// Names its words from the displacement `from` on, in the memory `at`.
    ///
    /// A [`lock`](Subject::lock) has its shared words from [`WORDS`] on, and its node one [`LINE`] later.
    #[must_use]
    pub fn words(mut self, at: At, from: Disp, words: &[(&'static str, Holds)]) -> Subject {
        let named = (0..).zip(words).map(|(i, &(name, holds))| Word { name, at, disp: from.word(i), holds });
        self.words.extend(named);
        self
    }

    /// Names the words of a lock: the words at its home, and the words of each rank's node, both from the first word
    /// on.
    ///
    /// A named word may be set at rest if the lock's constants say so.
    ///
    /// # Panics
    ///
    /// If it is not one lock, or has fewer words than names.
    #[must_use]
    pub fn lock_words(mut self, home: &[(&'static str, Holds)], node: &[(&'static str, Holds)]) -> Subject {
        let memory = if let Workload::Lock(bind) = &self.workload { bind.memory().copied() } else { None };
        let LockMemory { named, words_rest, node: bytes, node_at_rest, .. } =
            memory.unwrap_or_else(|| panic!("'{}' is not one lock: its words have no names", self.name));
        let home_at_rest = if words_rest { named } else { 0 };
        for (words, bytes, at_rest) in [(home, named, home_at_rest), (node, bytes, node_at_rest)] {
            let (names, words_there) = (words.len() as u64, bytes / WORD);
            assert!(names <= words_there, "'{}' has {words_there} words there, and {names} names", self.name);
            let kept = words.iter().skip((at_rest / WORD) as usize);
            self.keeps.extend(kept.map(|&(name, _)| (name, u64::MAX)));
        }
        self.words(At::Home, WORDS, home).words(At::Each, WORDS.plus(lines(named)), node)
    }

    /// Declares that these bits of the word `name` may be set at rest: the lock remembers something from one use to the
    /// next.
    #[must_use]
    pub fn keeps(mut self, name: &'static str, bits: u64) -> Subject {
        self.keeps.push((name, bits));
        self
    }

    /// Returns whether its shared words are zero at rest, by the constants of its locks. Other words may count without
    /// end.
    pub fn words_rest(&self) -> bool {
        match &self.workload {
            Workload::Lock(bind) | Workload::Window(bind) => bind.words_rest(),
            Workload::Program(_) => true,
        }
    }

    /// The bits of the word at `disp` that may be set at rest, in a world of that many ranks. `name` is the word's name, if it
    /// has one.
    ///
    /// For words without a name, a lock's constants say whether they are zero at rest.
    pub fn kept(&self, name: Option<&str>, disp: Disp, ranks: u32) -> u64 {
        let may_have_any = match &self.workload {
            Workload::Program(program) => !program.rests(disp),
            Workload::Lock(_) | Workload::Window(_) if disp == DATA => true,
            Workload::Lock(bind) => name.is_none() && !bind.rests(disp, WORDS, ranks),
            Workload::Window(_) => false,
        };
        if may_have_any {
            return u64::MAX;
        }
        self.keeps.iter().filter(|kept| Some(kept.0) == name).fold(0, |bits, kept| bits | kept.1)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The code of each rank.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns whether it is a window's policy, which supports the roles of windows besides the roles of locks.
    pub fn is_window(&self) -> bool {
        matches!(self.workload, Workload::Window(_))
    }

    /// Returns whether it has acquisitions of this form.
    pub fn supports(&self, form: Form) -> bool {
        form <= self.form
    }

    /// Which rank may overtake which.
    pub fn claimed_order(&self) -> Order {
        self.order
    }

    /// Returns whether readers can be inside together.
    pub fn shares(&self) -> bool {
        self.readers_share
    }

    /// Returns whether these two accesses exclude each other.
    pub fn excludes(&self, one: Access, two: Access) -> bool {
        let as_played = |access| match access {
            Access::Read if self.is_window() => Access::All,
            Access::Write if self.is_window() => Access::Exclusive(Rank(0)),
            _ => access,
        };
        !self.readers_share || as_played(one).excludes(as_played(two))
    }

    /// Returns whether it has words at one rank only, the home.
    pub fn has_home(&self) -> bool {
        self.has_home
    }

    /// Returns whether ranks may call a fence for all ranks.
    pub(crate) fn fences(&self) -> bool {
        self.fences
    }

    /// Its named words.
    pub fn named_words(&self) -> &[Word] {
        &self.words
    }

    /// The displacement of the word's name, for the word at `disp` in a world of `size` ranks.
    pub(crate) fn named_disp(&self, disp: Disp, size: u32) -> Disp {
        let Workload::Lock(bind) = &self.workload else { return disp };
        let Some((named, in_world)) = bind.words(size) else { return disp };
        let (end, more) = (WORDS.plus(named), in_world.saturating_sub(named));
        match disp {
            _ if more == 0 || disp < end => disp,
            _ if disp < end.plus(more) => Disp(end.0 - WORD),
            _ => Disp(disp.0 - more),
        }
    }

    /// The named word at an address in a world of few ranks, if any; [`Check::word_at`](crate::Check::word_at) is for all.
    pub fn word_at(&self, address: Address, home: Rank) -> Option<&Word> {
        self.words.iter().find(|word| word.disp == address.disp && (word.at == At::Each || address.rank == home))
    }
}

impl Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}
