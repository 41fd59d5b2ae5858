//! Reports: findings with their tables and plots, pages, and the description of the machine.
//!
//! This crate knows no lock and no backend. What was measured comes in as numbers with their units.
#![forbid(unsafe_code)]

pub mod drawing;
mod error;
pub mod finding;
pub mod folder;
pub mod html;
pub mod machine;
pub mod names;
pub mod numbers;
pub mod plots;
pub mod statistics;
pub mod text;

pub use error::{Error, Result};
pub use machine::Machine;
