//! Mutexes, reader-writer locks and lock policies of windows, generic over network atomics.
//!
//! | kind | trait | locks | handle with guards |
//! | --- | --- | --- | --- |
//! | mutex | [`RawMutex`] | [`Tas`], [`Ticket`], [`Mcs`], [`OshmemMcs`], [`Mpi4pyMcs`], [`Reciprocating`], [`Cna`], [`Malthusian`], [`Hapax`], [`Clh`], [`Cohort`], [`RmaMcs`], [`ALock`], [`Sherman`], [`Gcr`], [`RobustTas`], [`RobustTicket`], [`RobustMcs`], [`RmeMcs`], [`Lease`] | [`Mutex`] |
//! | reader-writer lock | [`RawRwLock`] | [`TasRw`], [`McsRwRp`], [`McsRwWp`], [`McsRwNeutral`], [`BigReader`], [`BrLock`], [`RmaRw`], [`DecLock`], [`DslrWide`], [`ShiftLock`], [`GcrRw`], [`Bravo`], [`RobustRw`] | [`RwLock`] |
//! | mutex that outlives ranks | [`Recoverable`] | [`RobustTas`], [`RobustTicket`], [`RobustMcs`] | [`RobustMutex`](recoverable::RobustMutex) |
//! | mutex for ranks that come back | [`Resumable`] | [`RmeMcs`] | [`Mutex`] |
//! | reader-writer lock that outlives ranks | [`RecoverableRw`] | [`RobustRw`] | [`RobustRwLock`](recoverable::RobustRwLock) |
//! | mutex whose holder loses it after a time | – | [`Lease`] | [`LeaseMutex`](lease::LeaseMutex) |
//! | policy of a window | [`WindowLock`] | [`Global`], [`PerTarget`], [`TwoLevel`], [`TwoLevelScan`], [`Hierarchical`], [`NoCheck`] | [`WindowLocks`] |
//! | policy of a window that outlives ranks | [`WindowLock`] | [`RobustGlobal`], [`RobustTwoLevel`], [`RobustHierarchical`] | [`WindowLocks`] |
//!
//! Each algorithm is one module. Its documentation names the paper, the properties and how they were checked, and the words of memory. The
//! invariants, the memory ordering, the deviations from the paper, and the cost follow. [`Policy`] is a policy that is chosen by name.
//! [`suite`] has the tests that every lock passes.
#![forbid(unsafe_code)]
#![warn(unnameable_types)]

pub mod alock;
pub mod backoff;
pub mod big_reader;
pub mod bravo;
pub mod brlock;
pub mod clh;
pub mod cna;
pub mod cohort;
pub mod declock;
pub mod dslr_wide;
mod error;
pub mod exclusive;
pub mod gcr;
pub mod gcr_rw;
pub mod global;
pub mod guard;
pub mod hapax;
pub mod hierarchical;
pub mod lease;
pub mod levels;
pub mod malthusian;
pub mod mcs;
pub mod mcs_rw_neutral;
pub mod mcs_rw_rp;
pub mod mcs_rw_wp;
pub mod mpi4py_mcs;
pub mod nocheck;
pub mod oshmem_mcs;
mod own;
pub mod per_target;
pub mod policy;
mod poll;
pub mod qnode;
mod raw;
pub mod reciprocating;
pub mod recoverable;
pub mod rma_mcs;
pub mod rma_rw;
pub mod rme_mcs;
pub mod robust_global;
pub mod robust_hierarchical;
pub mod robust_mcs;
pub mod robust_rw;
pub mod robust_tas;
pub mod robust_ticket;
pub mod robust_two_level;
pub mod sherman;
pub mod shiftlock;
pub mod suite;
pub mod tas;
pub mod tas_rw;
pub mod ticket;
pub mod two_level;
pub mod two_level_scan;
pub mod window_guard;
pub mod window_locks;
mod word_ref;

pub use alock::{ALock, ALockParams};
pub use backoff::{Backoff, BackoffState};
pub use big_reader::{BigReader, BigReaderParams};
pub use bravo::{Bravo, BravoParams};
pub use brlock::BrLock;
pub use clh::{Clh, ClhParams};
pub use cna::{Cna, CnaParams};
pub use cohort::{Cohort, CohortParams};
pub use declock::DecLock;
pub use dslr_wide::{DslrWide, DslrWideParams};
pub use error::{Error, Result};
pub use exclusive::Exclusive;
pub use gcr::{Gcr, GcrParams};
pub use gcr_rw::GcrRw;
pub use global::{Global, GlobalParams};
pub use guard::{Mutex, RwLock};
pub use hapax::Hapax;
pub use hierarchical::{Hierarchical, HierarchicalParams};
pub use lease::{Lease, LeaseParams};
pub use levels::{Elements, Levels, MAX_LEVELS};
pub use malthusian::{Malthusian, MalthusianParams};
pub use mcs::Mcs;
pub use mcs_rw_neutral::McsRwNeutral;
pub use mcs_rw_rp::McsRwRp;
pub use mcs_rw_wp::McsRwWp;
pub use mpi4py_mcs::Mpi4pyMcs;
pub use nocheck::NoCheck;
pub use oshmem_mcs::OshmemMcs;
pub use per_target::PerTarget;
pub use policy::{Policy, PolicyKind, PolicyVisitor, UnknownPolicy};
pub use raw::{
    Begun, Exclusion, LINE, LockKind, Place, RawMutex, RawMutexTimed, RawMutexTry, RawRwLock, RawRwLockTimed,
    WindowLock, WindowLockTimed,
};
pub use reciprocating::Reciprocating;
pub use recoverable::{Entry, Recoverable, RecoverableRw, Resumable};
pub use rma_mcs::{RmaMcs, RmaMcsParams};
pub use rma_rw::{RmaRw, RmaRwParams};
pub use rme_mcs::RmeMcs;
pub use robust_global::RobustGlobal;
pub use robust_hierarchical::{RobustHierarchical, RobustHierarchicalParams};
pub use robust_mcs::RobustMcs;
pub use robust_rw::RobustRw;
pub use robust_tas::RobustTas;
pub use robust_ticket::RobustTicket;
pub use robust_two_level::{RobustTwoLevel, RobustTwoLevelParams};
pub use sherman::{Sherman, ShermanParams};
pub use shiftlock::{ShiftLock, ShiftLockParams};
pub use tas::Tas;
pub use tas_rw::TasRw;
pub use ticket::{Ticket, TicketParams};
pub use two_level::{Contended, TwoLevel, TwoLevelParams};
pub use two_level_scan::{TwoLevelScan, TwoLevelScanParams};
pub use window_locks::{Assert, WindowLocks};

/// The example of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
