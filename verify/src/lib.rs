//! Checks of locks over network atomics.
//!
//! A [`Check`] has a [`Workload`] (a lock, a window's policy or a program, as it is), a [`Scenario`] (which rank locks
//! how and how often, as in `3R1Wx2`), a model of the [`network`] and, if it is to break, a [`Mutant`]. Every engine
//! makes the same checks, and reports an [`Outcome`]:
//!
//! - [`explorer`]: every order of the ranks' calls and of the network's steps, with the shortest way to break a
//!   [`Property`] as a [`Counterexample`];
//! - [`loom_engine`]: every execution under most of the C11 memory model, with few ranks;
//! - [`shuttle_engine`]: schedules at random, with random priorities, or one after the other;
//! - [`stress`]: a scenario on any real backend, under real contention. It finds what happens often enough on the machine
//!   that it runs on; that it finds nothing proves nothing, and a deadlock shows as a run that does not end.
//!
//! ```
//! use rmalab_verify::explorer::{Options, explore};
//! use rmalab_verify::{Check, Finding, diagram, subject};
//!
//! let mcs = subject("mcs").expect("it is one of the workspace's locks");
//! let check = Check::new(mcs, "2Wx2".parse()?);
//! match explore(&check, &Options::default(), &|_progress| true)?.finding {
//!     Finding::Violated(counterexample) => panic!("{}", diagram::text(&check, &counterexample)?),
//!     finding => assert_eq!(finding, Finding::Holds),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`diagram`] draws counterexamples, [`replay`] takes their steps again, [`kill_matrix`] shows that each property can
//! fail, and [`litmus`] says exactly what each network model allows.
#![forbid(unsafe_code)]
#![warn(unnameable_types)]

mod actor;
mod check;
mod choice;
mod concurrent;
pub mod configurations;
mod counterexample;
pub mod diagram;
mod error;
pub mod explorer;
pub mod kill_matrix;
pub mod litmus;
mod live;
pub mod loom_engine;
mod monitor;
pub mod mutant;
pub mod network;
mod outcome;
mod panics;
pub mod play;
mod property;
mod scenario;
pub mod shuttle_engine;
mod standard;
mod status;
pub mod stress;
pub mod subject;
pub mod window_programs;
mod workload;

pub use actor::{Actor, Move, Told};
pub use check::Check;
pub use counterexample::{Choice, Counterexample};
pub use error::{Error, Result};
pub use live::{Effect, Live, Slots, Step, replay};
pub use mutant::{Mutant, mutant, mutants};
pub use network::Network;
pub use outcome::{Finding, Limit, Livelocks, Outcome, Progress, TOGETHER, WAITED, Watch};
pub use play::DATA;
pub use property::{Property, Violation};
pub use scenario::{Access, Group, Nodes, ParseError, Role, Scenario};
pub use standard::{subject, subjects};
pub use status::{Phase, Status};
pub use subject::Subject;
pub use workload::{Bind, Program, Workload};
