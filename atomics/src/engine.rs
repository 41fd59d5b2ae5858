//! Backends whose ranks are coroutines: an engine carries out their calls, for model checking or in simulated time.

pub mod controlled;
pub mod coroutine;
pub mod sim;
