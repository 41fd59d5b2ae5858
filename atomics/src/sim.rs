//! The simulator: ranks as coroutines in virtual time, over a model of a machine's network and processors.

pub mod network;
pub mod profile;
pub mod settings;
pub mod units;
