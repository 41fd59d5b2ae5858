//! The configuration of a window: its strategies and the program's promises, as fields and as info hints.
//!
//! # Sources
//!
//! Hints: MPI-4.1, sections 12.2.1 (`no_locks`, `accumulate_ordering`, `accumulate_ops`, `mpi_accumulate_granularity`,
//! `same_size`, `same_disp_unit`), 12.2.3 (`alloc_shared_noncontig`), 9.2 and 12.2.2 (`mpi_minimum_memory_alignment`),
//! 11.4.3 (`mpi_assert_memory_alloc_kinds`) and 12.2.7 (set_info and get_info). `epochs_used` and `which_accumulate_ops` are not in the
//! standard; programs set them. Hints that begin with `rmalab_` choose strategies.
//!
//! # Rules
//!
//! * A hint is never an error. A hint that is not granted is reported as [`Ignored`].
//! * All ranks of a window pass the same values. That holds for hints about a rank's own use, too (`no_locks`, `epochs_used`), since a
//!   strategy may depend on them.
//! * After creation only [`Config::accumulate_ordering`], [`Config::accumulate_ops`] and [`Config::mpi_assert_memory_alloc_kinds`] can
//!   change, and only to less order or stronger promises. Only the origin keeps order, and a stronger promise may stay unused. So a change
//!   does not break a rank that has not made it yet. This holds as long as no rank uses the promise in a way that other ranks have to match.
//!   All else is fixed: the ranks agree on strategies, words and memory when they make the window.

use std::ffi::OsStr;
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use rmalab_locks::{LINE, PolicyKind, UnknownPolicy};

use crate::Info;

/// A text that is not a value of its hint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{value}' is not {expected}")]
pub struct InvalidHintValue {
    /// The text.
    pub value: String,
    /// The values that the hint can have.
    pub expected: String,
}

impl InvalidHintValue {
    fn new(value: &str, expected: impl Into<String>) -> InvalidHintValue {
        InvalidHintValue { value: value.to_owned(), expected: expected.into() }
    }
}

/// Makes an enumeration whose values have names.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant),*];
            /// The names of [`ALL`](Self::ALL), in the same order.
            pub const NAMES: &[&str] = &[$($text),*];

            /// Returns the name, as the hint spells it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = InvalidHintValue;

            fn from_str(text: &str) -> Result<$name, InvalidHintValue> {
                let choice = $name::ALL.iter().find(|choice| choice.name() == text);
                choice.copied().ok_or_else(|| InvalidHintValue::new(text, format!("one of {}", $name::NAMES.join(", "))))
            }
        }
    };
}

/// Makes a set whose members have names. As text it is a list with commas, or `none`.
macro_rules! set {
    ($(#[$meta:meta])* $name:ident($bits:ty) { $($(#[$member_meta:meta])* $member:ident = $bit:literal $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name($bits);

        impl $name {
            $($(#[$member_meta])* pub const $member: $name = $name(1 << $bit);)*
            /// The empty set.
            pub const NONE: $name = $name(0);
            /// The set of all members.
            pub const ALL: $name = $name($((1 << $bit))|*);
            /// The members' names.
            pub const NAMES: &[&str] = &[$($text),*];

            /// Returns whether this set contains every member of `other`.
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::ALL
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let members = [$(($name::$member, $text)),*];
                let names: Vec<&str> =
                    members.iter().filter(|(member, _)| self.contains(*member)).map(|&(_, name)| name).collect();
                f.pad(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
            }
        }

        impl FromStr for $name {
            type Err = InvalidHintValue;

            fn from_str(text: &str) -> Result<$name, InvalidHintValue> {
                if text == "none" {
                    return Ok($name::NONE);
                }
                let member = |name: &str| match name.trim() {
                    $($text => Ok($name::$member),)*
                    _ => Err(InvalidHintValue::new(text, format!("'none' or a list of {}", $name::NAMES.join(", ")))),
                };
                text.split(',').try_fold($name::NONE, |set, name| Ok(set | member(name)?))
            }
        }
    };
}

choice! {
    /// The synchronization of a fence (MPI-4.1, section 12.5.1); hint `rmalab_fence`.
    FenceStrategy {
        /// Two barriers.
        Naive = "naive",
        /// A flush, then one barrier by dissemination (foMPI, SC'13). The default.
        #[default]
        Dissemination = "dissemination",
        /// Operations wait for the second fence, which sends each target their number (MPICH-2). Two-sided only.
        Deferred = "deferred",
    }
}

choice! {
    /// The synchronization of post, start, complete and wait (MPI-4.1, section 12.5.2); hint `rmalab_pscw`.
    PscwStrategy {
        /// [`Flags`](Self::Flags) or [`Matching`](Self::Matching), by the number of ranks. The default.
        #[default]
        Auto = "auto",
        /// Posts and completes put a flag of each rank (MVAPICH2). The memory is in proportion to the ranks.
        Flags = "flags",
        /// Starts match lists of posts (foMPI, SC'13). The memory is in proportion to the neighbours.
        Matching = "matching",
        /// Operations wait for complete, and zero-byte messages carry the posts (MPICH-2). Two-sided only.
        Deferred = "deferred",
    }
}

impl PscwStrategy {
    /// The largest number of ranks for which [`Auto`](Self::Auto) is [`Flags`](Self::Flags): 8 KiB of flags at each rank.
    pub const MAX_FLAGS: u32 = 512;

    /// Returns the strategy for a team of `ranks`: this strategy, or the choice of [`Auto`](Self::Auto).
    pub const fn for_ranks(self, ranks: u32) -> PscwStrategy {
        match self {
            PscwStrategy::Auto if ranks <= PscwStrategy::MAX_FLAGS => PscwStrategy::Flags,
            PscwStrategy::Auto => PscwStrategy::Matching,
            chosen => chosen,
        }
    }
}

choice! {
    /// The way to make accumulates atomic for each element (MPI-4.1, section 12.7.1); hint `rmalab_accumulate`.
    AccumulateStrategy {
        /// With the network's atomics, if it has them for the type and the operation; otherwise like
        /// [`Locked`](Self::Locked). The default.
        #[default]
        Native = "native",
        /// Under a lock of the target.
        Locked = "lock",
        /// Get, operate, and compare-and-swap, again until no other rank interferes (MVAPICH2).
        Cas = "cas",
    }
}

choice! {
    /// The transport of the operations; hint `rmalab_transport`.
    Transport {
        /// One-sided operations, in which the target takes no part. The default.
        #[default]
        OneSided = "one-sided",
        /// Messages that the target serves whenever it makes a call.
        TwoSided = "two-sided",
        /// Messages that an agent thread of the target serves.
        TwoSidedAgent = "two-sided-agent",
    }
}

choice! {
    /// The operations that concurrent accumulates to one location may mix (hint `accumulate_ops`).
    AccumulateOps {
        /// The same operation, and no-ops. The default.
        #[default]
        SameOpNoOp = "same_op_no_op",
        /// Only the same operation: a stronger promise of the program.
        SameOp = "same_op",
    }
}

set! {
    /// The accumulates of one origin to one location that stay in program order (MPI-4.1, section 12.7.2; hint
    /// `accumulate_ordering`). All by default.
    AccumulateOrdering(u8) {
        /// Reads after reads.
        RAR = 0 "rar",
        /// Reads after writes.
        RAW = 1 "raw",
        /// Writes after reads.
        WAR = 2 "war",
        /// Writes after writes.
        WAW = 3 "waw",
    }
}

set! {
    /// The kinds of epochs that a program opens (hint `epochs_used`). All by default.
    EpochKinds(u8) {
        /// Fence.
        FENCE = 0 "fence",
        /// Post, start, complete, wait.
        PSCW = 1 "pscw",
        /// Lock of one target.
        LOCK = 2 "lock",
        /// Lock of all targets.
        LOCKALL = 3 "lockall",
    }
}

set! {
    /// The accumulate operations that a program uses (hint `which_accumulate_ops`). All by default.
    AccumulateOpSet(u16) {
        /// `MPI_MAX`.
        MAX = 0 "max",
        /// `MPI_MIN`.
        MIN = 1 "min",
        /// `MPI_SUM`.
        SUM = 2 "sum",
        /// `MPI_PROD`.
        PROD = 3 "prod",
        /// `MPI_MAXLOC`.
        MAXLOC = 4 "maxloc",
        /// `MPI_MINLOC`.
        MINLOC = 5 "minloc",
        /// `MPI_BAND`.
        BAND = 6 "band",
        /// `MPI_BOR`.
        BOR = 7 "bor",
        /// `MPI_BXOR`.
        BXOR = 8 "bxor",
        /// `MPI_LAND`.
        LAND = 9 "land",
        /// `MPI_LOR`.
        LOR = 10 "lor",
        /// `MPI_LXOR`.
        LXOR = 11 "lxor",
        /// `MPI_REPLACE`.
        REPLACE = 12 "replace",
        /// `MPI_NO_OP`.
        NO_OP = 13 "no_op",
        /// Compare-and-swap.
        CSWAP = 14 "cswap",
    }
}

set! {
    /// The kinds of memory of the program's buffers (hint `mpi_assert_memory_alloc_kinds`). All by default.
    ///
    /// The kind `mpi` means all memory that MPI allocates. Kinds that begin with `mpi:` are parts of it.
    MemoryKinds(u8) {
        /// Memory of the system's allocators.
        SYSTEM = 0 "system",
        /// Memory that MPI allocates, by any call.
        MPI = 1 "mpi",
        /// `MPI_Alloc_mem`.
        MPI_ALLOC_MEM = 2 "mpi:alloc_mem",
        /// `MPI_Win_allocate`.
        MPI_WIN_ALLOCATE = 3 "mpi:win_allocate",
        /// `MPI_Win_allocate_shared`.
        MPI_WIN_ALLOCATE_SHARED = 4 "mpi:win_allocate_shared",
    }
}

/// The configuration of a window. Every field is a hint.
///
/// ```
/// use rmalab_windows::{Config, FenceStrategy, Info};
///
/// let info: Info = "rmalab_fence=naive,no_locks=maybe,colour=red".parse()?;
/// let (config, ignored) = Config::from_info(&info);
/// assert_eq!(config.fence, FenceStrategy::Naive);
/// assert_eq!(ignored[0].to_string(), "colour=red is ignored: no hint has this key");
/// assert_eq!(ignored[1].to_string(), "no_locks=maybe is ignored: 'maybe' is not one of true, false");
/// # Ok::<(), rmalab_windows::InfoError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The lock policy (`rmalab_lock_policy`, default two-level).
    pub policy: PolicyKind,
    /// The synchronization of a fence (`rmalab_fence`, default dissemination; deferred on two-sided transports).
    pub fence: FenceStrategy,
    /// The synchronization of post, start, complete and wait (`rmalab_pscw`, default auto; deferred on two-sided
    /// transports).
    pub pscw: PscwStrategy,
    /// The way to make accumulates atomic (`rmalab_accumulate`, default native).
    pub accumulate: AccumulateStrategy,
    /// The transport of the operations (`rmalab_transport`, default one-sided).
    pub transport: Transport,
    /// The program never locks the window (`no_locks`, default false).
    pub no_locks: bool,
    /// The accumulates that stay in order (`accumulate_ordering`, default all).
    pub accumulate_ordering: AccumulateOrdering,
    /// The operations that concurrent accumulates may mix (`accumulate_ops`, default the same operation and no-ops).
    pub accumulate_ops: AccumulateOps,
    /// The parts of all ranks have the same size (`same_size`, default false).
    pub same_size: bool,
    /// All ranks have the same displacement unit (`same_disp_unit`, default false).
    pub same_disp_unit: bool,
    /// The parts of a shared window may have gaps between them (`alloc_shared_noncontig`, default false).
    pub alloc_shared_noncontig: bool,
    /// The number of bytes for which an accumulate should take its lock at once (`mpi_accumulate_granularity`). With 0, the default, the window
    /// chooses. The number is rounded up to a multiple of an element.
    pub mpi_accumulate_granularity: u64,
    /// The alignment of allocated memory in bytes (`mpi_minimum_memory_alignment`): a power of two of at most
    /// [`MAX_ALIGNMENT`](Self::MAX_ALIGNMENT), default [`LINE`].
    pub mpi_minimum_memory_alignment: u64,
    /// The kinds of memory of the program's buffers (`mpi_assert_memory_alloc_kinds`, default all).
    pub mpi_assert_memory_alloc_kinds: MemoryKinds,
    /// The kinds of epochs that the program opens (`epochs_used`, default all).
    pub epochs_used: EpochKinds,
    /// The accumulate operations that the program uses (`which_accumulate_ops`, default all; `any_op` also stands for
    /// all).
    pub which_accumulate_ops: AccumulateOpSet,
}

impl Default for Config {
    /// Returns the defaults of the fields, without the environment.
    fn default() -> Config {
        Config {
            policy: PolicyKind::default(),
            fence: FenceStrategy::default(),
            pscw: PscwStrategy::default(),
            accumulate: AccumulateStrategy::default(),
            transport: Transport::default(),
            no_locks: false,
            accumulate_ordering: AccumulateOrdering::default(),
            accumulate_ops: AccumulateOps::default(),
            same_size: false,
            same_disp_unit: false,
            alloc_shared_noncontig: false,
            mpi_accumulate_granularity: 0,
            mpi_minimum_memory_alignment: LINE,
            mpi_assert_memory_alloc_kinds: MemoryKinds::default(),
            epochs_used: EpochKinds::default(),
            which_accumulate_ops: AccumulateOpSet::default(),
        }
    }
}

/// A hint that was not granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ignored {
    /// The hint's key, or the name of its environment variable.
    pub key: String,
    /// The requested value.
    pub value: String,
    /// The reason.
    pub reason: IgnoredReason,
}

/// The reason why a hint was not granted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoredReason {
    /// No hint has this key.
    #[error("no hint has this key")]
    UnknownKey,
    /// The hint cannot have this value. The text lists its values.
    #[error("{0}")]
    Value(String),
    /// The hint cannot change after the window's creation, or not in this way.
    #[error("the window was created with {in_use}, and this can no longer change")]
    Fixed {
        /// The value that stays in use.
        in_use: String,
    },
    /// The transport does not have it.
    #[error("the {transport} transport does not offer it; {in_use} is used")]
    Transport {
        /// The transport.
        transport: Transport,
        /// The value that is used instead.
        in_use: String,
    },
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ignored { key, value, reason } = self;
        write!(f, "{key}={value} is ignored: {reason}")
    }
}

/// The functions that write, read and change one hint.
struct Hint {
    key: &'static str,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Result<(), String>,
    /// Returns whether a window with the first configuration may change to the second, which differs only in this hint.
    may_change: fn(&Config, &Config) -> bool,
}

/// Makes a hint whose value is a field. It is fixed unless a rule for changes is given.
macro_rules! hint {
    ($key:literal, $field:ident, $parse:expr) => {
        hint!($key, $field, $parse, |_, _| false)
    };
    ($key:literal, $field:ident, $parse:expr, $may_change:expr) => {
        Hint {
            key: $key,
            get: |config| config.$field.to_string(),
            set: |config, value| {
                config.$field = $parse(value)?;
                Ok(())
            },
            may_change: $may_change,
        }
    };
}

fn parse<T: FromStr<Err: fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn boolean(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| InvalidHintValue::new(value, "one of true, false").to_string())
}

fn bytes(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| InvalidHintValue::new(value, "a number of bytes").to_string())
}

fn operations(value: &str) -> Result<AccumulateOpSet, String> {
    if value == "any_op" { Ok(AccumulateOpSet::ALL) } else { parse(value) }
}

/// All hints, each once.
const HINTS: &[Hint] = &[
    hint!("rmalab_lock_policy", policy, parse),
    hint!("rmalab_fence", fence, parse),
    hint!("rmalab_pscw", pscw, parse),
    hint!("rmalab_accumulate", accumulate, parse),
    hint!("rmalab_transport", transport, parse),
    hint!("no_locks", no_locks, boolean),
    hint!("accumulate_ordering", accumulate_ordering, parse, |old, new| {
        old.accumulate_ordering.contains(new.accumulate_ordering)
    }),
    hint!("accumulate_ops", accumulate_ops, parse, |_, new| new.accumulate_ops == AccumulateOps::SameOp),
    hint!("same_size", same_size, boolean),
    hint!("same_disp_unit", same_disp_unit, boolean),
    hint!("alloc_shared_noncontig", alloc_shared_noncontig, boolean),
    hint!("mpi_accumulate_granularity", mpi_accumulate_granularity, bytes),
    hint!("mpi_minimum_memory_alignment", mpi_minimum_memory_alignment, bytes),
    hint!("mpi_assert_memory_alloc_kinds", mpi_assert_memory_alloc_kinds, parse, |old, new| {
        old.mpi_assert_memory_alloc_kinds.contains(new.mpi_assert_memory_alloc_kinds)
    }),
    hint!("epochs_used", epochs_used, parse),
    hint!("which_accumulate_ops", which_accumulate_ops, operations),
];

impl Config {
    /// The environment variable that sets the default of [`policy`](Self::policy).
    pub const LOCK_POLICY_VARIABLE: &str = "RMALAB_LOCK_POLICY";

    /// The environment variable that names a folder in which all windows are recorded; see
    /// [`Builder::record`](crate::Builder::record).
    pub const RECORD_VARIABLE: &str = "RMALAB_RECORD";

    /// The key of [`same_disp_unit`](Self::same_disp_unit), as [`Error::Hint`](crate::Error::Hint) names it.
    pub(crate) const SAME_DISP_UNIT: &str = "same_disp_unit";

    /// The largest alignment in bytes: a page, to which memory is mapped.
    pub const MAX_ALIGNMENT: u64 = 4096;

    /// Returns the configuration of a new window with these hints, and the hints that are not granted.
    ///
    /// Other fields have their defaults. The variable [`LOCK_POLICY_VARIABLE`](Self::LOCK_POLICY_VARIABLE), the same at all ranks, sets the
    /// default of the lock policy.
    pub fn from_info(info: &Info) -> (Config, Vec<Ignored>) {
        Config::from_hints(info, std::env::var_os(Config::LOCK_POLICY_VARIABLE).as_deref())
    }

    fn from_hints(info: &Info, variable: Option<&OsStr>) -> (Config, Vec<Ignored>) {
        let (mut config, mut ignored) = (Config::default(), Vec::new());
        if let Some(value) = variable {
            let value = value.to_string_lossy();
            match value.trim().parse() {
                Ok(policy) => config.policy = policy,
                Err::<_, UnknownPolicy>(error) => ignored.push(Ignored {
                    key: Config::LOCK_POLICY_VARIABLE.to_owned(),
                    value: value.to_string(),
                    reason: IgnoredReason::Value(error.to_string()),
                }),
            }
        }
        let mut set = Vec::new();
        for (key, value) in info.iter() {
            let result = match hint(key) {
                None => Err(IgnoredReason::UnknownKey),
                Some(hint) => (hint.set)(&mut config, value).map_err(IgnoredReason::Value),
            };
            match result {
                Ok(()) => set.push(key),
                Err(reason) => ignored.push(refuse(key, value, reason)),
            }
        }
        ignored.extend(config.settle(|key, _| set.contains(&key)));
        (config, ignored)
    }

    /// Returns the configuration that a window with these fields gets, and the fields that are not granted.
    ///
    /// * Fence and PSCW are deferred on two-sided transports, and not on the one-sided one. That is reported, unless it replaces a default.
    /// * The default alignment replaces an impossible one.
    pub fn normalized(mut self) -> (Config, Vec<Ignored>) {
        let ignored = self.settle(|_, is_default| !is_default);
        (self, ignored)
    }

    /// Makes the fields agree. `report` decides whether to report a hint, by its key and whether it had its default.
    fn settle(&mut self, report: impl Fn(&str, bool) -> bool) -> Vec<Ignored> {
        let (asked, transport) = (*self, self.transport);
        let mut ignored = Vec::new();
        let two_sided = transport != Transport::OneSided;
        if two_sided != (self.fence == FenceStrategy::Deferred) {
            self.fence = if two_sided { FenceStrategy::Deferred } else { FenceStrategy::default() };
        }
        if two_sided != (self.pscw == PscwStrategy::Deferred) {
            self.pscw = if two_sided { PscwStrategy::Deferred } else { PscwStrategy::default() };
        }
        let alignment = self.mpi_minimum_memory_alignment;
        if !alignment.is_power_of_two() || alignment > Config::MAX_ALIGNMENT {
            self.mpi_minimum_memory_alignment = LINE;
        }
        // Most windows are made with fields that agree, and the texts of all hints take longer than the rest of it.
        if *self == asked {
            return ignored;
        }
        for Hint { key, get, .. } in HINTS {
            let (value, in_use) = (get(&asked), get(self));
            if value == in_use || !report(key, value == get(&Config::default())) {
                continue;
            }
            let reason = if *key == "mpi_minimum_memory_alignment" {
                let expected = format!("a power of two of at most {} bytes", Config::MAX_ALIGNMENT);
                IgnoredReason::Value(InvalidHintValue::new(&value, expected).to_string())
            } else {
                IgnoredReason::Transport { transport, in_use }
            };
            ignored.push(refuse(key, &value, reason));
        }
        ignored
    }

    /// Returns the hints in use, including defaults (`MPI_Win_get_info`).
    pub fn to_info(&self) -> Info {
        let pairs = HINTS.iter().map(|hint| (hint.key, (hint.get)(self)));
        Info::from_pairs(pairs).expect("keys and values of hints are short")
    }

    /// Applies the hints of `info` to an existing window (`MPI_Win_set_info`), and returns the hints that are not
    /// granted.
    ///
    /// Other hints keep their values. A value that is already in use is granted. Otherwise only less order and stronger promises are
    /// granted.
    pub fn update(&mut self, info: &Info) -> Vec<Ignored> {
        let mut ignored = Vec::new();
        for (key, value) in info.iter() {
            if let Err(reason) = self.update_hint(key, value) {
                ignored.push(refuse(key, value, reason));
            }
        }
        ignored
    }

    fn update_hint(&mut self, key: &str, value: &str) -> Result<(), IgnoredReason> {
        let hint = hint(key).ok_or(IgnoredReason::UnknownKey)?;
        let mut changed = *self;
        (hint.set)(&mut changed, value).map_err(IgnoredReason::Value)?;
        if changed != *self && !(hint.may_change)(self, &changed) {
            return Err(IgnoredReason::Fixed { in_use: (hint.get)(self) });
        }
        *self = changed;
        Ok(())
    }
}

fn hint(key: &str) -> Option<&'static Hint> {
    HINTS.iter().find(|hint| hint.key == key)
}

fn refuse(key: &str, value: &str, reason: IgnoredReason) -> Ignored {
    Ignored { key: key.to_owned(), value: value.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> Info {
        text.parse().unwrap()
    }

    /// Returns the configuration from hints, without the environment, and the reported hints as text.
    fn by(text: &str) -> (Config, Vec<String>) {
        let (config, ignored) = Config::from_hints(&info(text), None);
        (config, texts(&ignored))
    }

    fn texts(ignored: &[Ignored]) -> Vec<String> {
        ignored.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        fn check<T: FromStr<Err: fmt::Debug> + fmt::Display + PartialEq + fmt::Debug>(all: &[T], names: &[&str]) {
            assert_eq!(all.len(), names.len());
            for (value, name) in all.iter().zip(names) {
                assert_eq!(value.to_string(), *name);
                assert_eq!(name.parse::<T>().unwrap(), *value);
            }
        }
        check(FenceStrategy::ALL, FenceStrategy::NAMES);
        check(PscwStrategy::ALL, PscwStrategy::NAMES);
        check(AccumulateStrategy::ALL, AccumulateStrategy::NAMES);
        check(Transport::ALL, Transport::NAMES);
        check(AccumulateOps::ALL, AccumulateOps::NAMES);
        let error = "fast".parse::<FenceStrategy>().unwrap_err().to_string();
        assert_eq!(error, "'fast' is not one of naive, dissemination, deferred");
    }

    #[test]
    fn sets_are_lists() {
        type Order = AccumulateOrdering;
        assert_eq!(Order::default(), Order::RAR | Order::RAW | Order::WAR | Order::WAW);
        assert_eq!(Order::default().to_string(), "rar,raw,war,waw");
        assert_eq!("waw, rar".parse(), Ok(Order::RAR | Order::WAW));
        assert_eq!(("none".parse(), Order::NONE.to_string()), (Ok(Order::NONE), "none".to_owned()));
        for text in ["", "rar,none", "rar,,waw", "RAR"] {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
        assert!(Order::ALL.contains(Order::WAW) && !Order::RAR.contains(Order::RAR | Order::WAW));
        for ops in [AccumulateOpSet::NONE, AccumulateOpSet::ALL, AccumulateOpSet::MAX | AccumulateOpSet::CSWAP] {
            assert_eq!(ops.to_string().parse(), Ok(ops));
        }
        assert_eq!(EpochKinds::ALL.to_string(), "fence,pscw,lock,lockall");
    }

    #[test]
    fn hints_choose() {
        let text = "rmalab_lock_policy=mcs-rw-wp,rmalab_fence=naive,rmalab_pscw=matching,rmalab_accumulate=cas,\
                    rmalab_transport=one-sided,no_locks=true,accumulate_ordering=rar,waw,accumulate_ops=same_op,\
                    same_size=true,same_disp_unit=true,alloc_shared_noncontig=true,mpi_accumulate_granularity=4096,\
                    mpi_minimum_memory_alignment=512,mpi_assert_memory_alloc_kinds=system,mpi:win_allocate,\
                    epochs_used=fence,pscw,which_accumulate_ops=sum,cswap";
        let (config, ignored) = by(text);
        assert!(ignored.is_empty(), "{ignored:?}");
        let expected = Config {
            policy: PolicyKind::McsRwWp,
            fence: FenceStrategy::Naive,
            pscw: PscwStrategy::Matching,
            accumulate: AccumulateStrategy::Cas,
            transport: Transport::OneSided,
            no_locks: true,
            accumulate_ordering: AccumulateOrdering::RAR | AccumulateOrdering::WAW,
            accumulate_ops: AccumulateOps::SameOp,
            same_size: true,
            same_disp_unit: true,
            alloc_shared_noncontig: true,
            mpi_accumulate_granularity: 4096,
            mpi_minimum_memory_alignment: 512,
            mpi_assert_memory_alloc_kinds: MemoryKinds::SYSTEM | MemoryKinds::MPI_WIN_ALLOCATE,
            epochs_used: EpochKinds::FENCE | EpochKinds::PSCW,
            which_accumulate_ops: AccumulateOpSet::SUM | AccumulateOpSet::CSWAP,
        };
        assert_eq!(config, expected);
        // The hints of get_info make the same window again, and include each hint.
        assert_eq!(config.to_info(), info(text));
        assert_eq!(by("").0.to_info().len(), HINTS.len());
        let (again, ignored) = by(&Config::default().to_info().to_string());
        assert_eq!((again, ignored.len()), (Config::default(), 0));
        assert_eq!(by("which_accumulate_ops=any_op"), (Config::default(), Vec::new()));
    }

    #[test]
    fn ignored_hints_are_reported_and_have_their_defaults() {
        let (config, ignored) = by("colour=red,rmalab_lock_policy=x,no_locks=yes,mpi_accumulate_granularity=-1,\
                                    mpi_minimum_memory_alignment=48,accumulate_ordering=rar,later,rmalab_pscw=deferred");
        assert_eq!(config, Config::default());
        assert_eq!(
            ignored,
            [
                "accumulate_ordering=rar,later is ignored: 'rar,later' is not 'none' or a list of rar, raw, war, waw",
                "colour=red is ignored: no hint has this key",
                "mpi_accumulate_granularity=-1 is ignored: '-1' is not a number of bytes",
                "no_locks=yes is ignored: 'yes' is not one of true, false",
                &format!("rmalab_lock_policy=x is ignored: {}", "x".parse::<PolicyKind>().unwrap_err()),
                "rmalab_pscw=deferred is ignored: the one-sided transport does not offer it; auto is used",
                "mpi_minimum_memory_alignment=48 is ignored: '48' is not a power of two of at most 4096 bytes",
            ]
        );
        // A kind of memory that this library does not know.
        let (config, ignored) = by("mpi_assert_memory_alloc_kinds=system,cuda:device");
        assert_eq!((config, ignored.len()), (Config::default(), 1));
        assert!(ignored[0].contains("mpi:win_allocate"), "{ignored:?}");
        for alignment in ["0", "8192"] {
            let (config, ignored) = by(&format!("mpi_minimum_memory_alignment={alignment}"));
            assert_eq!((config.mpi_minimum_memory_alignment, ignored.len()), (LINE, 1));
        }
    }

    #[test]
    fn two_sided_transports_defer() {
        for (name, transport) in [("two-sided", Transport::TwoSided), ("two-sided-agent", Transport::TwoSidedAgent)] {
            let (config, ignored) = by(&format!("rmalab_transport={name}"));
            assert_eq!((config.fence, config.pscw), (FenceStrategy::Deferred, PscwStrategy::Deferred));
            assert_eq!((config.transport, ignored.len()), (transport, 0), "defaults give way");
        }
        let (config, ignored) = by("rmalab_transport=two-sided,rmalab_fence=dissemination,rmalab_pscw=x");
        assert_eq!((config.fence, config.pscw), (FenceStrategy::Deferred, PscwStrategy::Deferred));
        assert_eq!(
            ignored,
            [
                "rmalab_pscw=x is ignored: 'x' is not one of auto, flags, matching, deferred",
                "rmalab_fence=dissemination is ignored: the two-sided transport does not offer it; deferred is used",
            ]
        );
        // As fields, where a request is visible only as a value other than the default.
        let fields = Config { transport: Transport::TwoSided, pscw: PscwStrategy::Flags, ..Config::default() };
        let (config, ignored) = fields.normalized();
        assert_eq!((config.fence, config.pscw), (FenceStrategy::Deferred, PscwStrategy::Deferred));
        assert_eq!(ignored.iter().map(|ignored| ignored.key.as_str()).collect::<Vec<_>>(), ["rmalab_pscw"]);
        assert_eq!(config.normalized(), (config, Vec::new()));
        assert_eq!(Config::default().normalized(), (Config::default(), Vec::new()));
    }

    #[test]
    fn a_window_that_exists_only_relaxes() {
        let (mut config, _) = by("rmalab_fence=naive,same_size=true");
        let before = config;
        let ignored = config.update(&info(
            "rmalab_fence=dissemination,same_size=true,no_locks=true,colour=red,accumulate_ops=any,rmalab_pscw=auto",
        ));
        assert_eq!(
            texts(&ignored),
            [
                "accumulate_ops=any is ignored: 'any' is not one of same_op_no_op, same_op",
                "colour=red is ignored: no hint has this key",
                "no_locks=true is ignored: the window was created with false, and this can no longer change",
                "rmalab_fence=dissemination is ignored: the window was created with naive, and this can no longer change",
            ]
        );
        assert_eq!(config, before);
        assert_eq!(config.update(&info("accumulate_ordering=rar,waw,accumulate_ops=same_op")), []);
        assert_eq!(config.accumulate_ordering, AccumulateOrdering::RAR | AccumulateOrdering::WAW);
        assert_eq!(config.accumulate_ops, AccumulateOps::SameOp);
        // A change back is refused, and so is a change to a value that is neither weaker nor stronger.
        let relaxed = config;
        assert_eq!(config.update(&info("accumulate_ordering=rar,raw,accumulate_ops=same_op_no_op")).len(), 2);
        assert_eq!(config, relaxed);
        assert_eq!(config.update(&info("accumulate_ordering=none,mpi_assert_memory_alloc_kinds=mpi")), []);
        assert_eq!(config.mpi_assert_memory_alloc_kinds, MemoryKinds::MPI);
        assert_eq!(config.update(&info("mpi_assert_memory_alloc_kinds=system")).len(), 1);
        assert_eq!(config.accumulate_ordering, AccumulateOrdering::NONE);
    }

    #[test]
    fn flags_serve_small_teams() {
        assert_eq!(PscwStrategy::Auto.for_ranks(512), PscwStrategy::Flags);
        assert_eq!(PscwStrategy::Auto.for_ranks(513), PscwStrategy::Matching);
        assert_eq!(PscwStrategy::Flags.for_ranks(513), PscwStrategy::Flags);
    }

    #[test]
    fn a_variable_sets_the_default_policy() {
        let by = |text: &str, value: &str| Config::from_hints(&info(text), Some(OsStr::new(value)));
        assert_eq!(by("", "ticket").0.policy, PolicyKind::Ticket);
        assert_eq!(by("rmalab_lock_policy=mcs", "ticket").0.policy, PolicyKind::Mcs);
        assert_eq!(by("rmalab_lock_policy=x", "ticket").0.policy, PolicyKind::Ticket);
        let (config, ignored) = by("", "x");
        assert_eq!(config, Config::default());
        assert!(
            texts(&ignored)[0].starts_with("RMALAB_LOCK_POLICY=x is ignored: no lock policy is called 'x'; there are")
        );
    }
}
