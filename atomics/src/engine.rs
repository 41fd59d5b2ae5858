//! Backends whose ranks are coroutines: an engine executes their calls, for model checking or in simulated time.

pub mod controlled;
pub mod coroutine;
pub mod sim;
