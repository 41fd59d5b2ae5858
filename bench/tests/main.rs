//! All tests of the program and of its commands, in one program.

mod advise;
mod architecture;
mod command;
mod compare;
mod launch;
mod own_lock;
mod program;
mod run;
mod simulate;
mod validation;
mod verify;
mod workload;
mod workload_fuzz;
