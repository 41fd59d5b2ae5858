//! Reports: the document that every command returns, its renderers, and the description of the machine.
//!
//! This crate depends on no lock and no backend. It gets measurements as numbers with units.
#![forbid(unsafe_code)]

#[cfg(test)]
mod browser;
pub mod chart;
pub mod diff;
pub mod document;
mod error;
pub mod finding;
pub mod folder;
pub mod html;
pub mod machine;
pub mod markdown;
pub mod names;
pub mod numbers;
pub mod others;
pub mod statistics;
pub mod tabular;
pub mod text;
mod ticks;

pub use document::{Document, Run, Section};
pub use error::{Error, Result, describe_io};
pub use machine::Machine;
