//! All tests of windows in one program. Otherwise each of many programs would compile the generic code again.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

mod costs;
mod environment;
mod epochs;
mod errors;
mod examples;
mod flavors;
mod global;
mod growth;
mod guards;
mod handlers;
mod hints;
mod memory;
mod messages;
mod model;
mod names;
mod operations;
mod phases;
mod progress;
mod raw;
mod readme;
mod recoverable;
mod requests;
mod soundness;
mod support;
mod survivors;
mod teams;
mod touching;
mod trace;
mod trace_fuzz;
mod two_sided;
