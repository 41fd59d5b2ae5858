//! The failures that end all operations, and how a rank detects them.

use std::time::{Duration, Instant};

use super::connection::Broken;
use super::{Verbs, device, queue_pair};
use crate::{Error, Rank, Result};

/// The failure that ends all operations.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    Peer(Rank),
    Other(Box<str>),
}

impl Failed {
    pub(super) fn of(error: &Error) -> Failed {
        match error {
            Error::PeerFailed { rank } => Failed::Peer(*rank),
            other => Failed::Other(other.to_string().into()),
        }
    }

    pub(super) fn error(&self) -> Error {
        match self {
            Failed::Peer(rank) => Error::PeerFailed { rank: *rank },
            Failed::Other(words) => Error::World(words.clone()),
        }
    }
}

/// The interval at which a waiting rank asks its device for events.
const EVENTS: Duration = Duration::from_millis(100);

/// The time for which a rank waits for the bootstrap to report a death after a request has failed.
const GRACE: Duration = Duration::from_secs(1);

impl Verbs {
    /// Returns an error if any rank has failed.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        match &*self.failed.borrow() {
            None => self.membership().check(),
            Some(failed) => Err(failed.error()),
        }
    }

    /// Returns an error if the device has failed; asks it at intervals.
    pub(super) fn look(&self) -> Result<()> {
        let now = Instant::now();
        if self.looked.get().is_none_or(|then| now.duration_since(then) >= EVENTS) {
            self.looked.set(Some(now));
            if let Err(error) = self.device.look() {
                return Err(self.has_failed(Failed::of(&error)));
            }
        }
        Ok(())
    }

    /// Stores the first failure, and returns it.
    #[cold]
    pub(super) fn has_failed(&self, failed: Failed) -> Error {
        self.failed.borrow_mut().get_or_insert(failed).error()
    }

    /// Returns the reason why the connection to `rank` broke.
    #[cold]
    pub(super) fn explain(&self, rank: Rank, broken: Broken) -> Error {
        let status = match broken {
            Broken::Error(error) => return self.has_failed(Failed::of(&error)),
            Broken::Status(status) => status,
        };
        // The bootstrap knows which rank has died, and the device knows whether it has failed.
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if let Err(error) = self.check().and_then(|()| self.device.look()) {
                return self.has_failed(Failed::of(&error));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if !queue_pair::is_local(status) {
            return self.has_failed(Failed::Peer(rank));
        }
        let words = device::status_words(status);
        let name = self.device.name();
        self.has_failed(Failed::Other(format!("verbs: a request to {rank} failed on device {name}: {words}").into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_returned_forever() {
        let told = |error: &Error| Failed::of(error).error().to_string();
        assert_eq!(told(&Error::PeerFailed { rank: Rank(4) }), "rank 4 has failed");
        assert_eq!(told(&Error::world("verbs: device rxe0: gone")), "verbs: device rxe0: gone");
    }
}
