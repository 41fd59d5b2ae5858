//! Sherman's skewed writes: a CAS from each node in place of one from each thread.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_report::finding::Finding;
use rmalab_report::numbers::{digits, humane};

use super::over_table::{Case, each, of, table};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "sherman-skew",
    source: "Sherman (Wang, Lu, Shu, SIGMOD'22), abstract",
    title: "locks of an index under skewed writes",
    protocol: "8 nodes of 22 clients write under 32,768 locks, the number in Sherman's code, Zipf 0.99, empty section. sherman beside the \
               lock of earlier designs, a CAS that each client retries (tas). The tree of the paper is not there: only its locks. \
               Simulated on profile infiniband-ndr; --long has 25 times as many acquisitions.",
    found: "10 times the throughput and p99 of earlier designs under skewed writes, of the whole index.",
    lesson: "If clients of one node queue at a lock of their node first, one of them at a time goes to the network, and hands the global lock \
             on to its neighbours. So failed attempts, which grow with the number of clients, grow with the number of nodes instead.",
    seconds: (10, 400),
    run,
};

fn run(context: &Context<'_>) -> Result<Finding> {
    let case = Case { ranks: (176, 22), table: "32768:zipf=0.99", exclusive: 1.0, think: Duration::ZERO };
    let rows = each(context, &["tas", "mcs", "sherman"], case)?;
    let mut finding = Finding::new();
    finding.tables.push(table("Zipf 0.99, exclusive only", &rows));
    let (cas, ours) = (of(&rows, "tas"), of(&rows, "sherman"));
    finding.claim(
        ours.rate >= 5.0 * cas.rate,
        "10 times the throughput of earlier designs, of the index as a whole",
        format!("{} times the throughput of tas, of the lock alone", digits(ours.rate / cas.rate)),
    );
    finding.claim(
        ours.p99 <= cas.p99 / 5.0,
        "a p99 10 times shorter, of the index as a whole",
        format!("{} against {}, of the lock alone", humane(ours.p99), humane(cas.p99)),
    );
    finding.claim(
        ours.remote < cas.remote,
        "a CAS from each node in place of one from each client",
        format!("{} operations leave the node for a pair; {} of tas", digits(ours.remote), digits(cas.remote)),
    );
    finding.why = "the paper's figures are for a whole index, whose other parts (versions in entries, batches of \
                   commands, a cache) it improves, too; and each home has its adapter here, so the locks share eight"
        .into();
    Ok(finding)
}
