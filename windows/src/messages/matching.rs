//! The matching of messages with receives (MPI 4.1, section 3.5): queues, without communication.

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
    /// The whole message.
    Whole(Vec<u8>),
    /// The message arrives once its sender is clear to send.
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

/// Both queues; by M2 no message of one queue matches a receive of the other.
#[derive(Debug, Default)]
pub(super) struct Matching {
    unexpected: VecDeque<Arrival>,
    posted: VecDeque<Posted>,
    /// Receives that a message has matched, with the data once they have arrived.
    matched: BTreeMap<u64, (Status, Option<Vec<u8>>)>,
    /// The number of the last receive.
    next: u64,
}

fn matches(status: &Status, from: Option<Rank>, tag: Option<Tag>) -> bool {
    from.is_none_or(|from| from == status.from) && tag.is_none_or(|tag| tag == status.tag)
}

impl Matching {
    /// Posts a receive and returns its number, with the sender and number of the send to clear, if there is one.
    pub(super) fn post(&mut self, from: Option<Rank>, tag: Option<Tag>) -> (u64, Option<(Endpoint, u64)>) {
        let number = self.number();
        let Some(arrival) = self.claim(from, tag) else {
            self.posted.push_back(Posted { number, from, tag });
            return (number, None);
        };
        (number, self.pair(number, arrival))
    }

    /// Takes off the queue the message that a receive gets now.
    pub(super) fn claim(&mut self, from: Option<Rank>, tag: Option<Tag>) -> Option<Arrival> {
        let found = self.unexpected.iter().position(|arrival| matches(&arrival.status, from, tag))?;
        self.unexpected.remove(found)
    }

    /// Adds a receive of a message that has been claimed, and returns its number.
    pub(super) fn expect(&mut self, status: Status) -> u64 {
        let number = self.number();
        self.matched.insert(number, (status, None));
        number
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds a message that has arrived. Returns the number of its receive, if one was posted.
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

    /// Adds the data of receive `number`, which may have been given up.
    pub(super) fn complete(&mut self, number: u64, data: Vec<u8>) {
        if let Some((_, place)) = self.matched.get_mut(&number) {
            *place = Some(data);
        }
    }

    pub(super) fn is_complete(&self, number: u64) -> bool {
        matches!(self.matched.get(&number), Some((_, Some(_))))
    }

    /// Returns the message of receive `number`, if it has arrived.
    pub(super) fn take(&mut self, number: u64) -> Option<(Vec<u8>, Status)> {
        let (status, place) = self.matched.get_mut(&number)?;
        Some((place.take()?, *status))
    }

    /// Gives up receive `number`.
    pub(super) fn forget(&mut self, number: u64) {
        if self.matched.remove(&number).is_none() {
            self.posted.retain(|posted| posted.number != number);
        }
    }

    /// Returns the message that a receive would get.
    pub(super) fn find(&self, from: Option<Rank>, tag: Option<Tag>) -> Option<Status> {
        self.unexpected.iter().map(|arrival| arrival.status).find(|status| matches(status, from, tag))
    }
}
