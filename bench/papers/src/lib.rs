//! Reproductions of papers' experiments, and the comparison with other implementations.
#![forbid(unsafe_code)]

pub mod compare;
mod jobs;
pub mod reproduce;

pub use jobs::serve;
