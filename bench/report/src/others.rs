//! The processor time that other programs take during a measurement.

use std::fs;
use std::time::Instant;

/// A watch on the processors of this machine.
#[derive(Debug)]
pub struct Others {
    begin: Instant,
    /// Ticks of all programs, and ticks of this process and its ended children.
    ticks: (u64, u64),
}

impl Others {
    /// Begins to watch; `None` where the system does not report its processors' times.
    pub fn begin() -> Option<Others> {
        Some(Others { begin: Instant::now(), ticks: ticks()? })
    }

    /// The number of processors that programs other than this process and its ended children have kept busy, on average
    /// since the start.
    pub fn processors(&self) -> Option<f64> {
        let (all, own) = ticks()?;
        let others = all.saturating_sub(self.ticks.0).saturating_sub(own.saturating_sub(self.ticks.1));
        let seconds = self.begin.elapsed().as_secs_f64().max(1e-3);
        Some(others as f64 / rustix::param::clock_ticks_per_second() as f64 / seconds)
    }
}

fn ticks() -> Option<(u64, u64)> {
    Some((all(&fs::read_to_string("/proc/stat").ok()?)?, own(&fs::read_to_string("/proc/self/stat").ok()?)?))
}

/// The busy ticks in the text of `/proc/stat`: all but idle and waiting ones. Guests' ticks are part of the users'.
fn all(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen, ..] = numbers[..] else {
        return None;
    };
    Some(user + nice + system + interrupts + soft_interrupts + stolen)
}

/// The ticks of the process and its ended children in the text of `/proc/self/stat`.
fn own(text: &str) -> Option<u64> {
    // The name in parentheses may contain spaces.
    let (_, after) = text.rsplit_once(')')?;
    let times: Option<Vec<u64>> = after.split_whitespace().skip(11).take(4).map(|time| time.parse().ok()).collect();
    times.filter(|times| times.len() == 4).map(|times| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_from_the_systems_texts() {
        assert_eq!(all("cpu  10 2 5 900 80 1 3 4 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"), Some(25));
        assert_eq!(all("cpu  10 2\n"), None);
        let stat = "42 (a (strange) name) S 1 42 42 0 -1 4194304 9 9 0 0 30 4 5 6 20 0 1 0 100 1 1";
        assert_eq!(own(stat), Some(45));
        assert_eq!(own("42 (name) S 1"), None);
    }
}
