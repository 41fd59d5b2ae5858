//! Experiments that papers report, made again here, and the comparison with other implementations.
#![forbid(unsafe_code)]

pub mod compare;
mod jobs;
pub mod reproduce;

pub use jobs::serve;
