//! Lock policies that are chosen by name when a window is made.
//!
//! [`PolicyKind`] has the name of every policy of the crate, and [`Policy`] is any one of them. The name of a mutex or of a reader-writer
//! lock means one such lock for the whole window ([`Global`]), with its words at rank 0. All parameters have their defaults. For other
//! parameters, use the policy's own type instead of [`Policy`].
//!
//! # Adding a policy
//!
//! Add one line to the list below. It makes the two variants and the name, which is that of the type.
//!
//! # Cost
//!
//! The cost of the policy, and one branch in each call.

use rmalab_atomics::{Disp, Rank, RemoteAtomics};

use crate::{
    Cohort, Exclusion, Exclusive, Global, Hierarchical, LockKind, Mcs, McsRwNeutral, McsRwRp, McsRwWp, NoCheck,
    PerTarget, RawMutex, RawRwLock, Result, RmaMcs, RmaRw, Tas, TasRw, Ticket, TwoLevel, WindowLock,
};

/// Makes [`PolicyKind`] and [`Policy`] from the list of policies.
macro_rules! policies {
    ($($(#[$meta:meta])* $variant:ident: $policy:ty, $name:expr;)*) => {
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
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the policy's name, the same one everywhere.
            pub const fn name(self) -> &'static str {
                match self {
                    $(PolicyKind::$variant => $name,)*
                }
            }
        }

        /// One rank's part of a window lock that was chosen by name; see the [module's text](self).
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Policy {
            $(
                #[doc = concat!("See [`PolicyKind::", stringify!($variant), "`].")]
                $variant($policy),
            )*
        }

        impl Policy {
            /// Returns which policy it is.
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
            /// One name for all; [`PolicyKind::name`] is the name of the chosen policy.
            const NAME: &'static str = "policy";
            type Params = PolicyKind;

            fn new<A: RemoteAtomics + ?Sized>(ra: &A, kind: PolicyKind) -> Result<Policy> {
                Ok(match kind {
                    $(PolicyKind::$variant => Policy::$variant(WindowLock::new(ra, Default::default())?),)*
                })
            }

            // What most windows have is inlined where it is used; the others are a call, or every use would hold them all.
            #[inline(always)]
            fn lock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.lock(ra, kind, target),
                    other => other.lock_any(ra, kind, target),
                }
            }

            #[inline(always)]
            fn unlock<A: RemoteAtomics + ?Sized>(&mut self, ra: &A, kind: LockKind, target: Rank) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.unlock(ra, kind, target),
                    other => other.unlock_any(ra, kind, target),
                }
            }

            #[inline(always)]
            fn lock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.lock_all(ra),
                    other => other.lock_all_any(ra),
                }
            }

            #[inline(always)]
            fn unlock_all<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
                match self {
                    Policy::TwoLevel(policy) => policy.unlock_all(ra),
                    other => other.unlock_all_any(ra),
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
    TwoLevel: TwoLevel, <TwoLevel as WindowLock>::NAME;
    /// One [`McsRwRp`] for each target ([`PerTarget`]).
    PerTarget: PerTarget<McsRwRp>, <PerTarget<McsRwRp> as WindowLock>::NAME;
    /// A policy made for lock_all: each node admits its own ranks until an exclusive lock closes it ([`Hierarchical`]).
    Hierarchical: Hierarchical, <Hierarchical as WindowLock>::NAME;
    /// One [`McsRwRp`] for the whole window, as in the FX100 study. It also has the name `global`.
    McsRwRp: Global<McsRwRp>, <McsRwRp as RawRwLock>::NAME;
    /// One [`McsRwWp`] for the whole window.
    McsRwWp: Global<McsRwWp>, <McsRwWp as RawRwLock>::NAME;
    /// One [`McsRwNeutral`] for the whole window.
    McsRwNeutral: Global<McsRwNeutral>, <McsRwNeutral as RawRwLock>::NAME;
    /// One [`RmaRw`] for the whole window: readers are counted on their nodes, writers go through a tree of queues.
    RmaRw: Global<RmaRw>, <RmaRw as RawRwLock>::NAME;
    /// One [`TasRw`] for the whole window.
    TasRw: Global<TasRw>, <TasRw as RawRwLock>::NAME;
    /// One [`Mcs`] mutex for the whole window: shared locks and lock_all exclude each other, too.
    Mcs: Global<Exclusive<Mcs>>, <Mcs as RawMutex>::NAME;
    /// One [`RmaMcs`] mutex for the whole window, as [`Mcs`](Self::Mcs): near ranks first.
    RmaMcs: Global<Exclusive<RmaMcs>>, <RmaMcs as RawMutex>::NAME;
    /// One [`Ticket`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    Ticket: Global<Exclusive<Ticket>>, <Ticket as RawMutex>::NAME;
    /// One [`Cohort`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    Cohort: Global<Exclusive<Cohort>>, <Cohort as RawMutex>::NAME;
    /// One [`Tas`] mutex for the whole window, as [`Mcs`](Self::Mcs).
    Tas: Global<Exclusive<Tas>>, <Tas as RawMutex>::NAME;
    /// No lock at all; the caller promises that none is needed ([`NoCheck`]).
    NoCheck: NoCheck, <NoCheck as WindowLock>::NAME;
}

impl std::fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no lock policy is called '{name}'; there are {}", PolicyKind::NAMES.join(", "))]
pub struct UnknownPolicy {
    /// The name.
    pub name: String,
}

impl std::str::FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<PolicyKind, UnknownPolicy> {
        if name == <Global<McsRwRp> as WindowLock>::NAME {
            return Ok(PolicyKind::McsRwRp);
        }
        let kind = PolicyKind::ALL.iter().find(|kind| kind.name() == name);
        kind.copied().ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use rmalab_atomics::World;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(PolicyKind::default().to_string(), "two-level");
        for (&kind, &name) in PolicyKind::ALL.iter().zip(PolicyKind::NAMES) {
            assert_eq!(kind.to_string(), name);
            assert_eq!(name.parse(), Ok(kind));
            assert_eq!(PolicyKind::NAMES.iter().filter(|&&other| other == name).count(), 1, "{name}");
        }
        assert_eq!("global".parse(), Ok(PolicyKind::McsRwRp));
        let error = "three-level".parse::<PolicyKind>().unwrap_err().to_string();
        assert!(
            error.starts_with("no lock policy is called 'three-level'; there are two-level, per-target,"),
            "{error}"
        );
    }

    #[test]
    fn the_chosen_one_is_made() {
        let world = World::threads(2).run(|ra| {
            for &kind in PolicyKind::ALL {
                assert_eq!(Policy::new(ra, kind).unwrap().kind(), kind);
            }
        });
        world.unwrap();
    }
}
