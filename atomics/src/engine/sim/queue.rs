//! Events in the order of their times: a radix heap.
//!
//! R. K. Ahuja, K. Mehlhorn, J. B. Orlin, R. E. Tarjan, Faster algorithms for the shortest path problem, J. ACM 37, 1990.
//! A pushed time is never earlier than the last popped time. Bucket i holds the events whose highest bit that differs
//! from that time is bit i - 1. An event moves only to lower buckets, and sequentially through memory. Events of one time
//! are popped in the order of their pushes: they are always in one bucket, and keep their order as they move.

use std::collections::VecDeque;

/// An event at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<T> {
    pub(super) time: u64,
    pub(super) what: T,
}

/// The future events.
pub(super) struct Queue<T> {
    /// The last popped time.
    last: u64,
    now: VecDeque<T>,
    /// The events of bucket i + 1.
    later: [Vec<Event<T>>; 64],
    /// Bit i is set when `later[i]` is not empty.
    filled: u64,
    /// Empty, and kept for its memory.
    spare: Vec<Event<T>>,
}

impl<T: Copy> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue { last: 0, now: VecDeque::new(), later: [const { Vec::new() }; 64], filled: 0, spare: Vec::new() }
    }

    /// Adds an event, which is not earlier than the last popped event.
    #[inline]
    pub(super) fn push(&mut self, time: u64, what: T) {
        debug_assert!(time >= self.last, "an event at {time} comes after {}", self.last);
        let differing = time ^ self.last;
        if differing == 0 {
            self.now.push_back(what);
        } else {
            let bucket = 63 - differing.leading_zeros();
            self.later[bucket as usize].push(Event { time, what });
            self.filled |= 1 << bucket;
        }
    }

    /// Takes the first event.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event<T>> {
        if self.now.is_empty() {
            self.refill()?;
        }
        self.now.pop_front().map(|what| Event { time: self.last, what })
    }

    /// Moves the events of the next time to `now`; `None` when there are none.
    fn refill(&mut self) -> Option<()> {
        if self.filled == 0 {
            return None;
        }
        let bucket = self.filled.trailing_zeros();
        self.filled &= !(1 << bucket);
        let mut events = std::mem::replace(&mut self.later[bucket as usize], std::mem::take(&mut self.spare));
        self.last = events.iter().map(|event| event.time).min()?;
        for Event { time, what } in events.drain(..) {
            self.push(time, what);
        }
        self.spare = events;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_popped_by_time_and_then_by_push_order() {
        let mut queue = Queue::new();
        let mut model: Vec<(u64, u32)> = Vec::new();
        let (mut state, mut now, mut number) = (1_u64, 0, 0);
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let choice = state >> 33;
            if choice % 5 < 3 || model.len() < 10 {
                // Times are near and far, and often repeated.
                let time =
                    now + [0, choice % 8, choice % 1000, choice % 1_000_000, choice << 20][(choice % 5) as usize];
                queue.push(time, number);
                model.push((time, number));
                number += 1;
            } else {
                let at = (0..model.len()).min_by_key(|&i| model[i]).unwrap();
                let expected = model.swap_remove(at);
                let event = queue.pop().unwrap();
                assert_eq!((event.time, event.what), expected);
                now = event.time;
            }
            if model.len() > 60 {
                model.sort_unstable();
                for expected in model.drain(..) {
                    let event = queue.pop().unwrap();
                    assert_eq!((event.time, event.what), expected);
                    now = event.time;
                }
                assert!(queue.pop().is_none());
            }
        }
    }
}
