//! The untyped engine below the epochs.

pub(crate) mod core;
