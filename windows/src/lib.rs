//! Windows: memory of every rank of a team, which the other ranks access inside epochs, as in chapter 12 of MPI-4.1.
//!
//! | what | where |
//! | --- | --- |
//! | groups of ranks, their collectives | [`Team`], [`Subset`](rmalab_atomics::Subset) |
//! | windows over memory of the program, allocated, shared, dynamic | [`Window`], [`Builder`] |
//! | epochs | [`Lock`], [`LockAll`], [`Fence`], [`Access`], [`Exposure`] |
//! | communication | [`Target`], [`Request`], [`Batch`], [`Local`] |
//! | element types, operations, layouts of data | [`Element`], [`Op`], [`Layout`], [`Items`] |
//! | global pointers, without epochs | [`GlobalMemory`], [`GlobalPtr`] |
//! | strategies and hints | [`Config`], [`Info`] |
//! | traces of a program's calls on a window, and their replay | [`trace`], [`replay`] |
//! | windows whose operations are messages to the target | [`two_sided`], [`Agent`] |
//!
//! An epoch is a value, and communication is its methods. So an operation outside an epoch does not compile. Neither does a second epoch
//! that must not be open together with the first. Other misuse is an [`Error`].
//!
//! ```
//! use rmalab_atomics::{Rank, RemoteAtomics, World};
//! use rmalab_windows::{Op, Team, Window, WindowDisp};
//!
//! let mut totals = World::threads(3).try_run(|ra| {
//!     let team = Team::new(ra)?;
//!     let mut window = Window::allocate(&team, 8)?;
//!     let epoch = window.lock_all()?;
//!     let before = epoch.at(Rank(0))?.fetch_and_op(WindowDisp(0), Op::Sum, 5_u64)?;
//!     epoch.unlock_all()?;
//!     window.free()?;
//!     Ok::<u64, rmalab_windows::Error>(before)
//! })?;
//! totals.sort();
//! assert_eq!(totals, [0, 5, 10]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(unnameable_types)]

mod accumulate;
mod attach;
mod attributes;
mod batch;
mod bias;
mod builder;
mod config;
mod dynamic;
mod element;

mod error;
mod fence;
mod global;
mod info;
mod items;
pub mod layout;
mod local;
pub mod messages;
mod passive;
mod place;
mod pscw;

mod raw;
mod recoverable;
pub mod replay;
mod request;
mod target;
mod team;
pub mod trace;
pub mod two_sided;
mod window;

pub use attributes::{Attributes, ErrorHandler, Handler, Keyval};
pub use batch::Batch;
pub use builder::Builder;
pub use config::{
    AccumulateOpSet, AccumulateOps, AccumulateOrdering, AccumulateStrategy, Config, EpochKinds, FenceStrategy, Ignored,
    IgnoredReason, InvalidHintValue, MemoryKinds, PscwStrategy, Transport,
};
pub use element::{
    Byte, Complex, DoubleInt, Element, ElementKind, FloatInt, Logical, LongInt, Op, Pair, ShortInt, Swappable, TwoInt,
    combine_slice,
};
pub use error::{Call, Class, Error, Open, Result};
pub use fence::{Fence, FenceAssert};
pub use global::{GlobalMemory, GlobalPtr, Handle, Reserve};
pub use info::{Info, InfoError, MAX_INFO_KEY, MAX_INFO_VAL};
pub use items::Items;
pub use layout::{Layout, LayoutError};
pub use local::Local;
pub use passive::{Lock, LockAll};
pub use pscw::{Access, AccessSide, Exposure, ExposureSide, PostAssert, StartAssert};
pub use raw::RawWindow;
pub use raw::core::WindowCore;
pub use recoverable::{Acquired, Inconsistent};
pub use request::Request;
pub use rmalab_atomics::registered::UserMemory;
pub use rmalab_locks::{Assert, Begun, LockKind, Policy, PolicyKind};
pub use target::{Active, Passive, Target, WithRequests};
pub use team::Team;
pub use two_sided::Agent;
pub use window::{Flavor, FreeError, Model, Window, WindowDisp};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
