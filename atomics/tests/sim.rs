//! The simulator: its costs by hand, its determinism, and the conformance suite on it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rmalab_atomics::sim::network::Shape;
use rmalab_atomics::sim::profile::{Arbitration, Jitter, LocalAtomics, Nic, Node, Placement, Profile, Span};
use rmalab_atomics::sim::{Kind, Options, Simulator};
use rmalab_atomics::{Disp, Distance, Error, Rank, RemoteAtomics, Until};

/// A machine whose costs are easy to add.
fn machine(shape: Shape) -> Profile {
    let ns = Span::nanoseconds;
    Profile {
        name: "test".into(),
        about: "costs that are easy to add".into(),
        shape,
        ranks_per_node: 2,
        placement: Placement::Block,
        overhead: ns(100),
        completion: ns(50),
        wire: ns(400),
        hop: ns(30),
        loopback: ns(200),
        local_atomics: LocalAtomics::Processor,
        arbitration: Arbitration::RoundRobin,
        jitter: Jitter::None,
        nic: Nic { engines: 1, gap: ns(10), byte: 100.0, atomic: ns(20), word: ns(60), put: ns(15), get: ns(25) },
        node: Node { sockets: 1, hit: ns(1), atomic: ns(5), core: ns(40), socket: ns(90), byte: 50.0 },
    }
}

fn torus() -> Shape {
    Shape::Torus { free: 1, fixed: vec![], wrap: false }
}

#[test]
fn operations_take_what_the_profile_says() {
    let simulator = Simulator::new(&machine(torus()), &Options::new(4)).unwrap();
    let outcome = simulator.run(|ra| {
        let word = ra.heap().alloc(8, 8).unwrap();
        let mut times = Vec::new();
        if ra.rank() == Rank(0) {
            let mut timed = |what: &mut dyn FnMut()| {
                let before = ra.time().0;
                what();
                times.push((ra.time().0 - before) / 1000);
            };
            timed(&mut || assert_eq!(ra.fetch_add(Rank(2).at(word), 3).unwrap(), 0));
            timed(&mut || assert_eq!(ra.get(Rank(2).at(word)).unwrap(), 3));
            timed(&mut || ra.put(Rank(2).at(word), 9).unwrap());
            timed(&mut || ra.flush(Rank(2)).unwrap());
            timed(&mut || assert_eq!(ra.fetch_store(Rank(1).at(word), 1).unwrap(), 0));
            timed(&mut || assert_eq!(ra.compare_and_swap(Rank(1).at(word), 1, 2).unwrap(), 1));
            timed(&mut || ra.compute(Duration::from_nanos(123)).unwrap());
            timed(&mut || ra.put_bytes(Rank(3).at(Disp(64)), &[7; 1000]).unwrap());
        }
        times
    });
    // One hop. An atomic: 100 + 430 + 20 + 60 + 430 + 50; a get has 25 in the engine. A put: 100, then until 430 + 15 + 430
    // behind that, and 50. Bulk: 100 + 100 to leave, 430, 15 + 100, 430, 50.
    assert_eq!(outcome.unwrap().results[0], [1090, 1035, 100, 925, 5, 5, 123, 1225]);
}
