//! Faults, which end all operations of this rank, and how a rank detects them. The failure of another rank is none, see
//! [failures](super::failures).

use std::time::{Duration, Instant};

use super::connection::Broken;
use super::{Verbs, device, queue_pair};
use crate::{Error, Rank, Result};

/// The fault that ends all operations.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// This rank does not answer, and the bootstrap has not reported its failure.
    Peer(Rank),
    Other(Box<str>),
}

impl Fault {
    pub(super) fn of(error: &Error) -> Fault {
        match error {
            Error::PeerFailed { rank } => Fault::Peer(*rank),
            other => Fault::Other(other.to_string().into()),
        }
    }

    pub(super) fn error(&self) -> Error {
        match self {
            Fault::Peer(rank) => Error::PeerFailed { rank: *rank },
            Fault::Other(words) => Error::World(words.clone()),
        }
    }
}

/// The interval at which a waiting rank asks its device for events.
const EVENTS: Duration = Duration::from_millis(100);

/// The time for which a rank waits for the bootstrap to report a death after a request has failed.
const GRACE: Duration = Duration::from_secs(1);

impl Verbs {
    /// Returns an error if any rank has failed, and this rank has not acknowledged that failure.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        match &*self.fault.borrow() {
            None => self.check_failures(),
            Some(fault) => Err(fault.error()),
        }
    }

    /// Returns an error if `rank` has failed, acknowledged or not. The error names the first failure that is not
    /// acknowledged, which may be the cause of this one, or otherwise `rank`.
    #[inline]
    pub(super) fn check_rank(&self, rank: Rank) -> Result<()> {
        match &*self.fault.borrow() {
            None => self.membership().check_rank(rank).map_err(|error| match self.check_failures() {
                Err(first @ Error::PeerFailed { .. }) => first,
                _ => error,
            }),
            Some(fault) => Err(fault.error()),
        }
    }

    /// Returns an error if the device has failed; asks it at intervals.
    pub(super) fn look(&self) -> Result<()> {
        let now = Instant::now();
        if self.looked.get().is_none_or(|then| now.duration_since(then) >= EVENTS) {
            self.looked.set(Some(now));
            if let Err(error) = self.device.look() {
                return Err(self.note(Fault::of(&error)));
            }
        }
        Ok(())
    }

    /// Stores the first fault, and returns it.
    #[cold]
    pub(super) fn note(&self, fault: Fault) -> Error {
        self.fault.borrow_mut().get_or_insert(fault).error()
    }

    /// Returns the reason why the connection to `rank` broke.
    #[cold]
    pub(super) fn explain(&self, rank: Rank, broken: Broken) -> Error {
        let status = match broken {
            // It comes from the check for this rank.
            Broken::Error(error @ (Error::PeerFailed { .. } | Error::Expelled)) => return error,
            Broken::Error(error) => return self.note(Fault::of(&error)),
            Broken::Status(status) => status,
        };
        // The bootstrap knows whether the rank has died, and the device knows whether it has failed.
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if let Err(error) = self.check_rank(rank) {
                return error;
            }
            if let Err(error) = self.device.look() {
                return self.note(Fault::of(&error));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if !queue_pair::is_local(status) {
            return self.note(Fault::Peer(rank));
        }
        let words = device::status_words(status);
        let name = self.device.name();
        self.note(Fault::Other(format!("verbs: a request to {rank} failed on device {name}: {words}").into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_returned_forever() {
        let told = |error: &Error| Fault::of(error).error().to_string();
        assert_eq!(told(&Error::PeerFailed { rank: Rank(4) }), "rank 4 has failed");
        assert_eq!(told(&Error::world("verbs: device rxe0: gone")), "verbs: device rxe0: gone");
    }
}
