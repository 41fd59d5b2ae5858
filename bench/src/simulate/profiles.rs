//! Profiles by their names.

use rmalab_atomics::sim::Profile;
use rmalab_atomics::sim::network::Shape;
use rmalab_atomics::sim::profile::*;

use crate::{Error, Result};

/// The profile of that name, or in the file of that name.
///
/// # Errors
///
/// [`Error::Usage`] when there is none.
pub fn profile(name: &str) -> Result<Profile> {
    let ns = Span::nanoseconds;
    if name != "fx100" {
        return Err(Error::usage(format!("no profile is called '{name}'")));
    }
    Ok(Profile {
        name: "fx100".into(),
        about: String::new(),
        shape: Shape::Torus { free: 3, fixed: vec![2, 3, 2], wrap: true },
        ranks_per_node: 32,
        placement: Placement::Block,
        overhead: ns(150),
        completion: ns(100),
        wire: ns(350),
        hop: ns(100),
        loopback: ns(300),
        local_atomics: LocalAtomics::Processor,
        arbitration: Arbitration::RoundRobin,
        jitter: Jitter::Exponential(ns(5)),
        nic: Nic { engines: 1, gap: ns(50), byte: 80.0, atomic: ns(106), word: ns(159), put: ns(60), get: ns(60) },
        node: Node { sockets: 1, hit: ns(2), atomic: ns(10), core: ns(60), socket: ns(90), notice: ns(0), byte: 50.0 },
    })
}
