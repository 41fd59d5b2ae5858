//! Starts the ranks of a world, as threads or as processes, and supervises them until they end.

pub(crate) mod dynamic;
pub(crate) mod launch;
pub(crate) mod local;
pub(crate) mod processes;
