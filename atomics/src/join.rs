//! Finds the rank and the world of a process, and the other ranks.

pub mod bootstrap;
pub(crate) mod environment;
pub(crate) mod joined;
pub(crate) mod limits;
