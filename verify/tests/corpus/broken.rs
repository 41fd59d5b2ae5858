//! Broken locks. Most of them behave correctly where a search looks, and differ where it merges states.

mod classics;
mod outside;
mod polls;
mod ranks;

use crate::Entry;

pub(crate) fn entries() -> Vec<Entry> {
    [polls::entries(), ranks::entries(), outside::entries(), classics::entries()].into_iter().flatten().collect()
}
