//! Slots whose words are damaged.

use std::cell::RefCell;

use rmalab_atomics::World;
use rmalab_atomics::controlled::{Answer, Call, Controlled, Executor, Shape};

use super::*;
use crate::messages::{ANY_SOURCE, ANY_TAG, Messages, Tag};

/// Returns the next pseudo-random number. The state must not be 0.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

const OPTIONS: Options = Options { slots: 4, slot_bytes: 128, eager_limit: 1000 };

/// Sends itself a packet whose slot `damage` changes, and returns the error.
fn received(damage: impl Fn(&mut [u64; 3]) + Sync) -> String {
    let errors = World::threads(1).run(|ra| {
        let messages = Messages::with_options(ra, OPTIONS).unwrap();
        messages.send(Rank(0), Tag(5), &[1; 60]).unwrap();
        let slot = messages.state.borrow().packets.layout.slot(0, 0);
        let mut words = [0, 1, 2].map(|i| ra.get(Rank(0).at(slot.word(i))).unwrap());
        damage(&mut words);
        for (i, word) in (0..).zip(words) {
            ra.fetch_store(Rank(0).at(slot.word(i)), word).unwrap();
        }
        let error = messages.progress().unwrap_err().to_string();
        // The next message is not damaged.
        messages.send(Rank(0), Tag(6), &[2; 60]).unwrap();
        assert_eq!(messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap().1.tag, Tag(6));
        error
    });
    errors.unwrap().remove(0)
}

#[test]
fn the_error_of_a_damaged_slot_names_the_fault() {
    let error = received(|words| words[1] = words[1] & !0xFFFF_FFFF | 9);
    assert!(error.contains("end-point 0 of rank 9, which does not exist"), "{error}");
    let error = received(|words| words[1] |= 3 << 40);
    assert!(error.contains("end-point 3 of rank 0, which does not exist"), "{error}");
    let error = received(|words| words[1] |= 1 << 60);
    assert!(error.contains("bytes in a slot for 104"), "{error}");
    let kind = |kind: u64| move |words: &mut [u64; 3]| words[1] = words[1] & !(0xFF << 32) | kind << 32;
    for unknown in [7, 250] {
        let error = received(kind(unknown));
        assert!(error.contains(&format!("there is no kind {unknown}")), "{error}");
    }
    let error = received(kind(242));
    assert!(error.contains("kind 242") && error.contains("in place of 1 words"), "{error}");
    let error = received(|words| {
        kind(240)(words);
        words[2] = 1 << 33;
    });
    assert!(error.contains("0x200000000 is not a tag"), "{error}");
}

#[test]
fn the_slots_of_a_packet_have_its_announced_length() {
    World::threads(1)
        .run(|ra| {
            let messages = Messages::with_options(ra, OPTIONS).unwrap();
            for length in [u64::MAX, 5, 1 << 62] {
                let first = messages.state.borrow().packets.head;
                messages.send(Rank(0), Tag(5), &[1; 200]).unwrap();
                let second = messages.state.borrow().packets.layout.slot(0, first + 1);
                ra.fetch_store(Rank(0).at(second.word(2)), length).unwrap();
                let error = messages.progress().unwrap_err().to_string();
                assert!(error.contains("of kind 240") && error.contains(&length.to_string()), "{error}");
            }
            messages.send(Rank(0), Tag(6), &[1; 200]).unwrap();
            assert_eq!(messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap().0, [1; 200]);
        })
        .unwrap();
}

#[test]
fn damaged_slots_do_not_make_the_reader_panic() {
    World::threads(1)
        .run(|ra| {
            let messages = Messages::with_options(ra, OPTIONS).unwrap();
            let mut random = 0x9E37_79B9_7F4A_7C15;
            for _ in 0..20_000 {
                let head = messages.state.borrow().packets.head;
                let length = next(&mut random) as usize % 300;
                drop(messages.isend(Rank(0), Tag(3), vec![7; length]).unwrap());
                let slots = length.div_ceil(104).max(1) as u64;
                let damaged = head + next(&mut random) % slots;
                let slot = messages.state.borrow().packets.layout.slot(0, damaged);
                let at = Rank(0).at(slot.word(1 + next(&mut random) % 16 % 5));
                let word = ra.get(at).unwrap();
                let changed = match next(&mut random) % 3 {
                    0 => word ^ 1 << (next(&mut random) % 64),
                    1 => next(&mut random),
                    _ => word ^ (next(&mut random) & 0xFF) << 32,
                };
                ra.fetch_store(at, changed).unwrap();
                // Any result except a panic or an endless wait is correct.
                while messages.state.borrow().packets.head < head + slots {
                    let _ = messages.progress();
                }
                while let Ok(Some(_)) = messages.try_probe(ANY_SOURCE, ANY_TAG) {
                    let request = messages.irecv(ANY_SOURCE, ANY_TAG);
                    drop(request);
                }
                messages.state.borrow_mut().packets.partial.clear();
            }
            messages.send(Rank(0), Tag(6), &[1; 200]).unwrap();
            assert_eq!(messages.recv_vec(ANY_SOURCE, ANY_TAG).unwrap().0, [1; 200]);
        })
        .unwrap();
}

/// An empty ring with room, which records the calls of its sender.
#[derive(Default)]
struct Log(RefCell<Vec<Call>>);

impl Executor for Log {
    fn call(&self, call: Call) -> Answer {
        self.0.borrow_mut().push(call);
        match call {
            Call::Put { .. } | Call::BulkPut { .. } | Call::Flush { .. } | Call::Order { .. } => Answer::Done,
            _ => Answer::Word(0),
        }
    }
}

/// A nudge is a compare-and-swap that may store to the number's word while the packet's number arrives.
#[test]
fn numbers_are_put_only_where_puts_are_atomic() {
    for atomic_puts in [true, false] {
        let mut shape = Shape::new(2);
        shape.capabilities.atomic_puts = atomic_puts;
        let ra = Controlled::new(Log::default(), &shape, Rank(0));
        let layout = Layout::alloc(ra.heap(), 1, &OPTIONS).unwrap();
        let (me, to) = (Endpoint { rank: Rank(0), port: 0 }, Endpoint { rank: Rank(1), port: 0 });
        let number = to.rank.at(layout.slot(0, 0));
        assert!(Packets::new(layout, me).send_now(&ra, to, Kind(1), 0, &[1; 8]).unwrap());
        let calls = ra.executor().0.borrow();
        let last = &calls[calls.len() - 2..];
        if atomic_puts {
            assert_eq!(last[1], Call::Put { at: number, value: 1 });
        } else {
            // The flush orders the packet ahead of its number, which is not a put that follows the others.
            let flushed = Call::Flush { target: Some(to.rank) };
            assert_eq!(last, [flushed, Call::FetchStore { at: number, value: 1 }]);
        }
    }
}
