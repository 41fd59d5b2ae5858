//! Lock policies that are chosen by name when a window is made.
//!
//! [`PolicyKind`] has the name of every policy of the crate, and [`Policy`] is any one of them. The name of a mutex or of a reader-writer
//! lock means one such lock for the whole window ([`Global`]), with its words at rank 0. All parameters have their defaults. For other
//! parameters, use the policy's own type instead of [`Policy`].
//!
//! # Adding a policy
//! Add one line to the list below: `policy` for a window lock, `rw_lock` or `mutex` for one lock of the whole window, `robust_rw_lock` or
//! `robust_mutex` for one that outlives ranks ([`RobustGlobal`]). The line makes the two variants and the name, which is the type's name.
//!
//! # Cost
//! The cost of the policy, and one branch in each call.

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

use crate::{
    ALock, Begun, BigReader, BrLock, Bravo, Clh, Cna, Cohort, DecLock, DslrWide, Entry, Exclusion, Exclusive, Gcr,
    GcrRw, Global, Hapax, Hierarchical, LockKind, Malthusian, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Mpi4pyMcs, NoCheck,
    OshmemMcs, PerTarget, RawMutex, RawRwLock, Reciprocating, Result, RmaMcs, RmaRw, RobustGlobal, RobustHierarchical,
    RobustMcs, RobustRw, RobustTas, RobustTicket, RobustTwoLevel, Sherman, ShiftLock, Tas, TasRw, Ticket, TwoLevel,
    TwoLevelScan, WindowLock,
};

/// One entry of the list of policies: its type, its name, the call of a visitor, or whether it is a mutex.
macro_rules! entry {
    (type policy $policy:ty) => { $policy };
    (type rw_lock $lock:ty) => { Global<$lock> };
    (type robust_rw_lock $lock:ty) => { RobustGlobal<$lock> };
    (type robust_mutex $lock:ty) => { RobustGlobal<Exclusive<$lock>> };
    (type mutex $lock:ty) => { Global<Exclusive<$lock>> };
    (visit $visitor:ident policy $policy:ty) => { $visitor.visit::<$policy>() };
    (visit $visitor:ident rw_lock $lock:ty) => { $visitor.visit_lock::<$lock>() };
    (visit $visitor:ident mutex $lock:ty) => { $visitor.visit_lock::<Exclusive<$lock>>() };
    (visit $visitor:ident robust_rw_lock $lock:ty) => { $visitor.visit_robust_lock::<$lock>() };
    (visit $visitor:ident robust_mutex $lock:ty) => { $visitor.visit_robust_lock::<Exclusive<$lock>>() };
    (name policy $policy:ty) => { <$policy as WindowLock>::NAME };
    (name rw_lock $lock:ty) => { <$lock as RawRwLock>::NAME };
    (name robust_rw_lock $lock:ty) => { <$lock as RawRwLock>::NAME };
    (name robust_mutex $lock:ty) => { <$lock as RawMutex>::NAME };
    (name mutex $lock:ty) => { <$lock as RawMutex>::NAME };
    (is_mutex mutex) => { true };
    (is_mutex robust_mutex) => { true };
    (is_mutex $other:ident) => { false };
}

/// Makes [`PolicyKind`] and [`Policy`] from the list of policies.
macro_rules! policies {
    ($($(#[$meta:meta])* $kind:ident $variant:ident: $lock:ty;)*) => {
        /// The name of a policy, which chooses a [`Policy`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[non_exhaustive]
        pub enum PolicyKind {
            $($(#[$meta])* $variant,)*
        }

        impl PolicyKind {
            /// All policies.
            pub const ALL: &[PolicyKind] = &[$(PolicyKind::$variant),*];
            /// The names of [`ALL`](Self::ALL), in the same order.
            pub const NAMES: &[&str] = &[$(entry!(name $kind $lock)),*];

            /// Returns the policy's name, the same one everywhere.
            pub const fn name(self) -> &'static str {
                match self {
                    $(PolicyKind::$variant => entry!(name $kind $lock),)*
                }
            }

            /// Returns whether the policy is a mutex, under which shared locks and lock_all exclude each other, too.
            pub const fn is_mutex(self) -> bool {
                match self {
                    $(PolicyKind::$variant => entry!(is_mutex $kind),)*
                }
            }

            /// Runs the visitor's code for the type of this policy, without the branches of a [`Policy`].
            pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Out {
                match self {
                    $(PolicyKind::$variant => entry!(visit visitor $kind $lock),)*
                }
            }
        }

        /// One rank's part of a window lock that was chosen by name; see the [module's text](self).
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Policy {
            $(
                #[doc = concat!("See [`PolicyKind::", stringify!($variant), "`].")]
                $variant(entry!(type $kind $lock)),
            )*
        }

        impl Policy {
            /// Returns the name of the policy.
            pub const fn kind(&self) -> PolicyKind {
                match self {
                    $(Policy::$variant(_) => PolicyKind::$variant,)*
                }
            }

            #[inline(never)]
            fn lock_any<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    $(Policy::$variant(policy) => policy.lock(ra, kind, target),)*
                }
            }

            #[inline(never)]
            fn unlock_any<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    $(Policy::$variant(policy) => policy.unlock(ra, kind, target),)*
                }
            }

            #[inline(never)]
            fn lock_all_any<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    $(Policy::$variant(policy) => policy.lock_all(ra),)*
                }
            }

            #[inline(never)]
            fn unlock_all_any<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    $(Policy::$variant(policy) => policy.unlock_all(ra),)*
                }
            }
        }

        impl WindowLock for Policy {
            /// One name for all policies; [`PolicyKind::name`] is the name of the chosen policy.
            const NAME: &'static str = "policy";
            type Params = PolicyKind;

            fn new<A: RemoteAtomics + ?Sized>(ra: &A, kind: PolicyKind) -> Result<Policy> {
                Ok(match kind {
                    $(PolicyKind::$variant => Policy::$variant(WindowLock::new(ra, Default::default())?),)*
                })
            }

            // The policies of most windows are inlined where they are used. The others are a call; otherwise every use would
            // contain all of them.
            #[inline(always)]
            fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.lock(ra, kind, target),
                    Policy::TwoLevelScan(policy) => policy.lock(ra, kind, target),
                    other => other.lock_any(ra, kind, target),
                }
            }

            #[inline(always)]
            fn begin_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Begun {
                match self {
                    Policy::TwoLevelScan(policy) => policy.begin_lock(ra, kind, target),
                    _ => Begun::Nothing,
                }
            }

            #[inline(never)]
            fn complete_lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    Policy::TwoLevelScan(policy) => policy.complete_lock(ra, kind, target),
                    other => other.lock_any(ra, kind, target),
                }
            }

            #[inline(always)]
            fn unlock_shortly<A: RemoteAtomics + ?Sized>(
                &mut self,
                ra: &A,
                kind: LockKind,
                target: Rank,
            ) -> Option<Result<()>> {
                match self {
                    Policy::TwoLevelScan(policy) => policy.unlock_shortly(ra, kind, target),
                    _ => None,
                }
            }

            #[inline(always)]
            fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.unlock(ra, kind, target),
                    Policy::TwoLevelScan(policy) => policy.unlock(ra, kind, target),
                    other => other.unlock_any(ra, kind, target),
                }
            }

            #[inline(always)]
            fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.lock_all(ra),
                    Policy::TwoLevelScan(policy) => policy.lock_all(ra),
                    other => other.lock_all_any(ra),
                }
            }

            #[inline(always)]
            fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.unlock_all(ra),
                    Policy::TwoLevelScan(policy) => policy.unlock_all(ra),
                    other => other.unlock_all_any(ra),
                }
            }

            fn recoverable_lock<A: RemoteAtomics + ?Sized>(
                &mut self,
                ra: &A,
                kind: LockKind,
                target: Rank,
            ) -> Result<Entry> {
                match self {
                    $(Policy::$variant(policy) => policy.recoverable_lock(ra, kind, target),)*
                }
            }

            fn recoverable_lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<Entry> {
                match self {
                    $(Policy::$variant(policy) => policy.recoverable_lock_all(ra),)*
                }
            }

            fn consistent<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    $(Policy::$variant(policy) => policy.consistent(ra),)*
                }
            }

            fn exclusion(&self) -> Exclusion {
                match self {
                    $(Policy::$variant(policy) => policy.exclusion(),)*
                }
            }

            fn allocations(&self) -> Vec<Disp> {
                match self {
                    $(Policy::$variant(policy) => policy.allocations(),)*
                }
            }
        }
    };
}

policies! {
    /// foMPI's policy: a master word for lock_all against exclusive locks, and a word for each target ([`TwoLevel`]).
    #[default]
    policy TwoLevel: TwoLevel;
    /// [`TwoLevel`] whose exclusive locks leave the master alone: lock_all looks at every target ([`TwoLevelScan`]).
    policy TwoLevelScan: TwoLevelScan;
    /// One [`McsRwRp`] for each target ([`PerTarget`]).
    policy PerTarget: PerTarget<McsRwRp>;
    /// A policy made for lock_all: each node admits its own ranks until an exclusive lock closes it ([`Hierarchical`]).
    policy Hierarchical: Hierarchical;
    /// One [`McsRwRp`] for the whole window, as in the FX100 study. It also has the name `global`.
    rw_lock McsRwRp: McsRwRp;
    /// One [`McsRwWp`] for the whole window.
    rw_lock McsRwWp: McsRwWp;
    /// One [`McsRwNeutral`] for the whole window.
    rw_lock McsRwNeutral: McsRwNeutral;
    /// One [`BigReader`] for the whole window: lock_all touches its own rank's memory only.
    rw_lock BigReader: BigReader;
    /// One [`BrLock`] for the whole window: lock_all writes its own rank's memory, and reads one word.
    rw_lock BrLock: BrLock;
    /// One [`RmaRw`] for the whole window: readers are counted on their nodes, writers go through a tree of queues.
    rw_lock RmaRw: RmaRw;
    /// One [`DecLock`] for the whole window: the home sees one addition of each lock and each unlock.
    rw_lock DecLock: DecLock;
    /// One [`DslrWide`] for the whole window: additions draw and serve tickets, and waiters poll.
    rw_lock DslrWide: DslrWide;
    /// One [`ShiftLock`] for the whole window: exclusive locks pass it on, and after some of them admit the waiting shared locks.
    rw_lock ShiftLock: ShiftLock;
    /// One [`McsRwNeutral`] for the whole window, for which few ranks compete at a time.
    rw_lock GcrRw: GcrRw<McsRwNeutral>;
    /// One [`McsRwNeutral`] for the whole window, which lock_all bypasses in its own rank's memory while no exclusive lock comes.
    rw_lock Bravo: Bravo<McsRwNeutral>;
    /// One [`TasRw`] for the whole window.
    rw_lock TasRw: TasRw;
    /// One [`Mcs`] mutex for the whole window: shared locks and lock_all exclude each other, too.
    mutex Mcs: Mcs;
    /// One [`OshmemMcs`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    mutex OshmemMcs: OshmemMcs;
    /// One [`Mpi4pyMcs`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    mutex Mpi4pyMcs: Mpi4pyMcs;
    /// One [`Reciprocating`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    mutex Reciprocating: Reciprocating;
    /// One [`Cna`] mutex for the whole window, as [`Mcs`](Self::Mcs): near ranks first.
    mutex Cna: Cna;
    /// One [`Malthusian`] mutex for the whole window, as [`Mcs`](Self::Mcs), for which few ranks compete at a time.
    mutex Malthusian: Malthusian;
    /// One [`Hapax`] mutex for the whole window, as [`Mcs`](Self::Mcs), without queue nodes.
    mutex Hapax: Hapax;
    /// One [`Clh`] mutex for the whole window, as [`Mcs`](Self::Mcs), without links: a release is one put to the rank's own word.
    mutex Clh: Clh;
    /// One [`RmaMcs`] mutex for the whole window, as [`Mcs`](Self::Mcs): near ranks first.
    mutex RmaMcs: RmaMcs;
    /// One [`Ticket`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    mutex Ticket: Ticket;
    /// One [`Cohort`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    mutex Cohort: Cohort;
    /// One [`ALock`] mutex for the whole window, as [`Mcs`](Self::Mcs): the ranks of the home's node and all others take turns.
    mutex ALock: ALock;
    /// One [`Sherman`] mutex for the whole window, as [`Mcs`](Self::Mcs): near ranks first.
    mutex Sherman: Sherman;
    /// One [`Mcs`] mutex for the whole window, for which few ranks compete at a time.
    mutex Gcr: Gcr<Mcs>;
    /// One [`Tas`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    mutex Tas: Tas;
    /// One [`RobustTas`] mutex for the whole window, as [`Mcs`](Self::Mcs). A recoverable lock of the window outlives its holder.
    robust_mutex RobustTas: RobustTas;
    /// One [`RobustTicket`] mutex for the whole window, as [`RobustTas`](Self::RobustTas).
    robust_mutex RobustTicket: RobustTicket;
    /// One [`RobustMcs`] mutex for the whole window, as [`RobustTas`](Self::RobustTas).
    robust_mutex RobustMcs: RobustMcs;
    /// One [`RobustRw`] for the whole window, of at most 58 ranks. A recoverable lock of the window outlives its holder.
    robust_rw_lock RobustRw: RobustRw;
    /// [`TwoLevel`] whose targets outlive their holders: a recoverable lock takes a target over from a failed one ([`RobustTwoLevel`]).
    policy RobustTwoLevel: RobustTwoLevel;
    /// [`Hierarchical`] whose targets and gates outlive their holders, with the targets of [`RobustTwoLevel`] ([`RobustHierarchical`]).
    policy RobustHierarchical: RobustHierarchical;
    /// No lock at all; the caller guarantees that none is needed ([`NoCheck`]).
    policy NoCheck: NoCheck;
}

mod names;
mod visitor;

pub use names::UnknownPolicy;
pub use visitor::PolicyVisitor;

#[cfg(test)]
mod tests;
