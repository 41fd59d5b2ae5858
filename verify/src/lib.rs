//! Checks of locks over network atomics.
//!
//! What is here: [`Scenario`], the description of who locks how and how often, as in `3R1Wx2`; and [`stress`], which
//! runs a scenario on any backend, with real contention, and reports every broken [`Property`] with rank and values.
//!
//! Stress finds what happens often enough on the machine that it runs on; that it finds nothing proves nothing. A
//! deadlock shows as a run that does not end, so whoever runs it limits its time from outside.
#![forbid(unsafe_code)]

mod actor;
mod check;
pub mod concurrent;
pub mod configurations;
mod counterexample;
pub mod diagram;
mod error;
pub mod explorer;
pub mod litmus;
mod live;
pub mod loom_engine;
pub mod monitor;
pub mod mutant;
pub mod network;
pub mod play;
mod property;
mod scenario;
pub mod shuttle_engine;
mod standard;
pub mod stress;
pub mod subject;

pub use actor::{Actor, Move, Told};
pub use check::{Check, DATA};
pub use counterexample::{Choice, Counterexample};
pub use error::{Error, Result};
pub use live::{Effect, Live, Slots, Step, replay};
pub use network::Network;
pub use property::{Property, Violation};
pub use scenario::{Access, Group, ParseError, Role, Scenario};
pub use standard::{subject, subjects};
pub use subject::Subject;
