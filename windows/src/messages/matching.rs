//! Which message goes to which receive (MPI 4.1, section 3.5): no communication, only queues.

use std::collections::{BTreeMap, VecDeque};

use rmalab_atomics::Rank;

use super::{Endpoint, Status, Tag};

/// A message that has arrived, or its announcement.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) status: Status,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    /// The message itself.
    Whole(Vec<u8>),
    /// It comes once its sender is clear to send.
    Announced {
        /// The sender.
        from: Endpoint,
        /// The number of the send.
        send: u64,
    },
}

/// A receive that no message has matched.
#[derive(Debug)]
struct Posted {
    number: u64,
    from: Option<Rank>,
    tag: Option<Tag>,
}

/// Both queues; by M2 no message of the one matches a receive of the other.
#[derive(Debug, Default)]
pub(super) struct Matching {
    unexpected: VecDeque<Arrival>,
    posted: VecDeque<Posted>,
    /// Receives that a message has matched; with its data, once that has come.
    matched: BTreeMap<u64, (Status, Option<Vec<u8>>)>,
    /// The number of the last receive.
    next: u64,
}

fn matches(status: &Status, from: Option<Rank>, tag: Option<Tag>) -> bool {
    from.is_none_or(|from| from == status.from) && tag.is_none_or(|tag| tag == status.tag)
}

impl Matching {
    /// A new receive, by its number; and the sender and number of the send that is to be cleared, if there is one.
    pub(super) fn post(&mut self, from: Option<Rank>, tag: Option<Tag>) -> (u64, Option<(Endpoint, u64)>) {
        let number = self.number();
        let Some(arrival) = self.claim(from, tag) else {
            self.posted.push_back(Posted { number, from, tag });
            return (number, None);
        };
        (number, self.pair(number, arrival))
    }

    /// The message that a receive gets now, which it takes off the queue.
    pub(super) fn claim(&mut self, from: Option<Rank>, tag: Option<Tag>) -> Option<Arrival> {
        let found = self.unexpected.iter().position(|arrival| matches(&arrival.status, from, tag))?;
        self.unexpected.remove(found)
    }

    /// A new receive, by its number, of a message that has been claimed.
    pub(super) fn expect(&mut self, status: Status) -> u64 {
        let number = self.number();
        self.matched.insert(number, (status, None));
        number
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A message has arrived; returns the number of its receive, if one was posted.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Option<u64> {
        let found = self.posted.iter().position(|posted| matches(&arrival.status, posted.from, posted.tag));
        let Some(Posted { number, .. }) = found.and_then(|at| self.posted.remove(at)) else {
            self.unexpected.push_back(arrival);
            return None;
        };
        self.pair(number, arrival);
        Some(number)
    }

    fn pair(&mut self, number: u64, Arrival { status, body }: Arrival) -> Option<(Endpoint, u64)> {
        let (data, clear) = match body {
            Body::Whole(data) => (Some(data), None),
            Body::Announced { from, send } => (None, Some((from, send))),
        };
        self.matched.insert(number, (status, data));
        clear
    }

    /// The message of receive `number` has come, which may have been given up.
    pub(super) fn complete(&mut self, number: u64, data: Vec<u8>) {
        if let Some((_, place)) = self.matched.get_mut(&number) {
            *place = Some(data);
        }
    }

    pub(super) fn is_complete(&self, number: u64) -> bool {
        matches!(self.matched.get(&number), Some((_, Some(_))))
    }

    /// The message of receive `number`, if it has come.
    pub(super) fn take(&mut self, number: u64) -> Option<(Vec<u8>, Status)> {
        let (status, place) = self.matched.get_mut(&number)?;
        Some((place.take()?, *status))
    }

    /// Gives receive `number` up.
    pub(super) fn forget(&mut self, number: u64) {
        if self.matched.remove(&number).is_none() {
            self.posted.retain(|posted| posted.number != number);
        }
    }

    /// The message that a receive would get.
    pub(super) fn find(&self, from: Option<Rank>, tag: Option<Tag>) -> Option<Status> {
        self.unexpected.iter().map(|arrival| arrival.status).find(|status| matches(status, from, tag))
    }
}
