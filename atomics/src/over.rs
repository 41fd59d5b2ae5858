//! Code over the trait that runs on every backend: wrappers, and operations made of others.

pub(crate) mod attended;
pub mod bulk;
pub(crate) mod collectives;
pub(crate) mod counted;
pub(crate) mod crashing;
pub(crate) mod probed;
pub(crate) mod region;
pub mod subset;
pub(crate) mod survivors;
