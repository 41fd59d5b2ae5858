//! How a process learns its rank and its world, and finds the other ranks.

pub mod bootstrap;
pub(crate) mod environment;
pub(crate) mod joined;
pub(crate) mod limits;
