//! Starting the ranks of a world, as threads or as processes, and seeing them through to their end.

pub(crate) mod dynamic;
pub(crate) mod launch;
pub(crate) mod local;
pub(crate) mod processes;
