//! The limit of a policy: the largest part of the ranks' time.
//!
//! The time of all ranks from begin to end has four parts. *Computation* is the time in the steps. *Data* is the time
//! outside computation, lock and unlock. It includes the flushes of the unlocks, as long as they take without any lock.
//! *Operations* are the lock's own operations, as long as each takes undisturbed: all operations, less the operations
//! of a run without locks.
//! *Waiting* is the rest of lock and unlock: for holders, or for a turn at a word or at an adapter.

use rmalab_atomics::Distance;
use serde::Serialize;

use super::simulated::Sample;
use rmalab_report::numbers::digits;

/// From this busy share on, ranks wait for the word or the adapter.
const BUSY: f64 = 0.6;

/// The limit of a policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Limit {
    /// One word, on which operations take turns, is busy for this share of the time.
    Word {
        /// The rank with the word in its segment.
        rank: u32,
        /// The displacement of its line.
        disp: u64,
        /// The serialization bound as a share of the time.
        busy: f64,
    },
    /// One node's adapter is busy for this share of the time.
    Adapter {
        /// The node.
        node: u32,
        /// The share of the time.
        busy: f64,
    },
    /// The ranks spend this share of their time waiting for holders of a lock.
    Holders {
        /// The share of the time.
        share: f64,
    },
    /// The ranks spend this share of their time in the lock's own operations.
    Operations {
        /// The number of operations of an acquisition.
        count: f64,
        /// True if most of them go to other nodes.
        remote: bool,
        /// The share of the time.
        share: f64,
    },
    /// The ranks spend this share of their time in transfers.
    Data {
        /// The share of the time.
        share: f64,
    },
    /// The ranks spend this share of their time computing.
    Processor {
        /// The share of the time.
        share: f64,
    },
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: &f64| format!("{:.0} %", share * 100.0);
        let text = match self {
            Limit::Word { rank, disp, busy } => format!("word {disp} of rank {rank}, busy {}", percent(busy)),
            Limit::Adapter { node, busy } => format!("adapter of node {node}, busy {}", percent(busy)),
            Limit::Holders { share } => format!("waiting for holders {}", percent(share)),
            Limit::Operations { count, remote, share } => {
                let kind = if *remote { "remote operations" } else { "operations" };
                format!("{} {kind} each {}", digits(*count), percent(share))
            }
            Limit::Data { share } => format!("transfers {}", percent(share)),
            Limit::Processor { share } => format!("processor {}", percent(share)),
        };
        f.pad(&text)
    }
}

/// The lock's operations of an acquisition by distance, and the limit; `costs` has the nanoseconds of an undisturbed
/// operation, by distance.
pub(super) fn of(samples: &[Sample], unlocked: &[Sample], costs: [f64; 3]) -> ([f64; 3], Limit) {
    let mut operations = [0.0; 3];
    let [mut computing, mut locking, mut own] = [0.0; 3];
    for (sample, free) in samples.iter().zip(unlocked) {
        let time = sample.time.max(1) as f64;
        let more = sample.operations().into_iter().zip(free.operations()).map(|(all, data)| (all - data).max(0.0));
        for (at, count) in more.enumerate() {
            operations[at] += count;
            own += count * costs[at] * sample.acquisitions as f64 / time;
        }
        computing += sample.computed as f64 / time;
        locking += sample.locking.saturating_sub(free.locking) as f64 / time;
    }
    let count = samples.len().min(unlocked.len()).max(1) as f64;
    operations = operations.map(|sum| sum / count);
    let (computing, locking) = (computing / count, locking / count);
    let own = (own / count).min(locking);
    let (waiting, data) = (locking - own, (1.0 - computing - locking).max(0.0));
    let most = [computing, data, own, waiting].into_iter().fold(0.0, f64::max);
    let limit = if most == waiting {
        queue(&samples[0]).unwrap_or(Limit::Holders { share: waiting })
    } else if most == own {
        let remote = operations[Distance::Remote.index()];
        let all: f64 = operations.iter().sum();
        let most_are = 2.0 * remote > all;
        Limit::Operations { count: if most_are { remote } else { all }, remote: most_are, share: own }
    } else if most == data {
        Limit::Data { share: data }
    } else {
        Limit::Processor { share: computing }
    };
    (operations, limit)
}

/// The word or adapter that is busy enough to make ranks wait.
fn queue(sample: &Sample) -> Option<Limit> {
    let end = sample.stats.end.0.max(1) as f64;
    let word = sample.stats.hottest.map(|word| (word, word.bound.0 as f64 / end));
    if let Some((word, busy)) = word.filter(|&(_, busy)| busy >= BUSY) {
        return Some(Limit::Word { rank: word.rank, disp: word.disp, busy });
    }
    let adapter = sample.stats.busiest.filter(|adapter| adapter.utilization >= BUSY)?;
    Some(Limit::Adapter { node: adapter.node, busy: adapter.utilization })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_as_sentences() {
        let text = Limit::Operations { count: 2.0, remote: true, share: 0.456 }.to_string();
        assert_eq!(text, "2.00 remote operations each 46 %");
        assert_eq!(Limit::Word { rank: 0, disp: 64, busy: 0.97 }.to_string(), "word 64 of rank 0, busy 97 %");
    }
}
