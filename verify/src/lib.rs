//! Checks of locks over network atomics.
//!
//! A [`Check`] consists of a [`Workload`], a [`Scenario`], a model of the [`network`], and possibly a [`Mutant`]. The
//! workload is the real code of a lock, a window's policy or a program. The scenario lists which ranks lock how and how
//! often, as in `3R1Wx2`. Every engine runs the same checks, and returns an [`Outcome`]:
//!
//! - [`explorer`]: all interleavings of the ranks' calls and the network's steps, with a shortest [`Counterexample`] to
//!   a [`Property`];
//! - [`loom_engine`]: every execution under most of the C11 memory model, with few ranks;
//! - [`shuttle_engine`]: schedules at random, by random priorities, or all in turn;
//! - [`stress`]: a scenario on a real backend, under real contention. It finds events that are frequent on the machine
//!   that it runs on. A run without findings proves nothing, and a run that hangs shows a deadlock.
//!
//! ```
//! use rmalab_verify::explorer::{Options, explore};
//! use rmalab_verify::network::Network;
//! use rmalab_verify::{Check, Finding, diagram, subject};
//!
//! let mcs = subject("mcs").expect("a lock of the workspace");
//! for network in [Network::Sc, Network::LatePuts] {
//!     let check = Check { network, ..Check::new(mcs.clone(), "2Wx2".parse()?) };
//!     match explore(&check, &Options::default(), &|_progress| true)?.finding {
//!         Finding::Violated(counterexample) => panic!("{}", diagram::text(&check, &counterexample)?),
//!         finding => assert_eq!(finding, Finding::Holds),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`diagram`] draws counterexamples, [`replay`] repeats their steps, [`kill_matrix`] shows that each property can
//! fail, and [`litmus`] lists the outcomes that each network model allows.
#![forbid(unsafe_code)]
#![warn(unnameable_types)]

mod actor;
mod bounded;
mod check;
mod choice;
mod clock;
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

pub use actor::{Actor, Move};
pub use check::Check;
pub use clock::{LAPSE, deadline};
pub use counterexample::{Choice, Counterexample};
pub use error::{Error, Result};
pub use live::{Effect, Live, Slots, Step, replay};
pub use mutant::{Mutant, mutant, mutants};
pub use network::Network;
pub use outcome::{
    Bypass, CLOCK, DEADLINE, Finding, GAVE_UP, Limit, Livelocks, Outcome, Progress, RE_ENTERED, TOGETHER, TOLD,
    TOOK_OVER, WAITED, Watch,
};
pub use play::DATA;
pub use property::{Property, Violation};
pub use scenario::{Access, Form, Group, Nodes, ParseError, Role, Scenario};
pub use standard::{subject, subjects};
pub use status::{Phase, Status};
pub use subject::Subject;
pub use workload::{Bind, Program, Workload};
