//! DecLock's microbenchmark: the load on the home of a lock.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_report::finding::Finding;
use rmalab_report::numbers::digits;

use super::over_table::{Case, each, of, table};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "declock-home",
    source: "DecLock (Zhang, Cheng, Chen, Wei, Chen, arXiv:2505.17641, 2025), the microbenchmark of figure 13",
    title: "one addition each way at the home, for any number of waiters",
    protocol: "256 clients, 32 on each of 8 nodes, over 100,000 locks, Zipf 0.99, 50 % shared, empty section. DecLock beside locks whose \
               waiters poll the home (tas-rw, dslr-wide). Simulated on profile infiniband-ndr; --long has 25 times as many acquisitions.",
    found: "The home serves one fetch-and-add to acquire and one to release, and predecessors wake the waiters.",
    lesson: "The adapter of the memory node serves all locks, so a lock should leave the waiting to the clients. DecLock draws a place in a \
             queue by one addition; all that follows goes between the clients, or into slots that ranks hardly ever read.",
    seconds: (10, 400),
    run,
};

const LOCKS: [&str; 3] = ["tas-rw", "dslr-wide", "declock"];

fn run(context: &Context<'_>) -> Result<Finding> {
    let case = Case { ranks: (256, 32), table: "100k:zipf=0.99", exclusive: 0.5, think: Duration::ZERO };
    let rows = each(context, &LOCKS, case)?;
    let mut finding = Finding::new();
    finding.tables.push(table("Zipf 0.99, 50 % shared", &rows));
    let [dslr, ours] = ["dslr-wide", "declock"].map(|lock| of(&rows, lock));
    finding.claim(
        (1.99..2.01).contains(&ours.atomics),
        "one fetch-and-add to acquire and one to release at the home",
        format!("{} atomics for a pair", digits(ours.atomics)),
    );
    finding.claim(
        ours.gets < 0.5 * dslr.gets,
        "waiters wait in their own memory, not at the home",
        format!("{} gets for a pair, where waiters of dslr-wide poll with {}", digits(ours.gets), digits(dslr.gets)),
    );
    finding.why = "a writer releases here by a compare-and-swap, and by an addition after it if another rank has come, since the published \
                   order can lose the entry of a waiting reader; a releasing reader scans the queue for the next writer, and each look is \
                   a get at the home. Only the paper's statements on operations are compared, and not its figures"
        .into();
    Ok(finding)
}
