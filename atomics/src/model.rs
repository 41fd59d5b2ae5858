//! The model of operations on a rank's memory: addresses, words, worlds, the trait of users and the trait of backends.

pub(crate) mod address;
pub(crate) mod error;
pub mod fabric;
pub(crate) mod failed;
pub(crate) mod heap;
pub mod registered;
pub(crate) mod remote;
pub(crate) mod topology;
pub(crate) mod word;
pub mod words;
pub(crate) mod world;
