//! Checks of locks over network atomics.
//!
//! What is here: [`Scenario`], the description of who locks how and how often, as in `3R1Wx2`; and [`stress`], which
//! runs a scenario on any backend, with real contention, and reports every broken [`Property`] with rank and values.
//!
//! Stress finds what happens often enough on the machine that it runs on; that it finds nothing proves nothing. A
//! deadlock shows as a run that does not end, so whoever runs it limits its time from outside.
#![forbid(unsafe_code)]

mod error;
mod property;
mod scenario;
pub mod stress;

pub use error::{Error, Result};
pub use property::{Property, Violation};
pub use scenario::{Group, ParseError, Role, Scenario};
