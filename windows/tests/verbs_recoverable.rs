//! Windows with a robust lock policy over RDMA verbs, where the memory of a killed rank is lost: the survivors go on.
//!
//! Needs an RDMA device and fails without one; Soft-RoCE in a virtual machine will do (`scripts/soft-roce`).

#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use rmalab_atomics::World;
use rmalab_atomics::verbs::Verbs;

#[path = "recoverable/played.rs"]
mod played;

use played::{CRASH, ROBUST, kill, play};

#[test]
fn a_killed_holder_is_told() {
    if std::env::var_os(CRASH).is_some() {
        World::processes(3).over::<Verbs>().run(play).unwrap();
        return;
    }
    let (deaths, torn) = kill("a_killed_holder_is_told", 13, true);
    println!("{deaths} deaths, {torn} times with torn data");
    assert!(deaths >= ROBUST.len() as u64 * 2, "{deaths} deaths");
}
