//! DSLR: tickets in place of blind retries.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_report::finding::Finding;
use rmalab_report::numbers::{digits, humane};

use super::over_table::{Case, each, of, table};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "dslr-retries",
    source: "DSLR (Yoon, Chowdhury, Mozafari, SIGMOD'18)",
    title: "tickets against blind retries of a CAS",
    protocol: "32 clients on 8 nodes over 1,000 locks of one home, Zipf 0.99, 50 % shared, up to 10 us between two acquisitions. dslr-wide, \
               DSLR's tickets without its 16-bit fields, beside a CAS that each client retries (tas-rw). The paper runs TPC-C, which \
               holds several locks at a time; here a client holds one. Simulated on profile infiniband-ndr; --long has 25 times as many \
               acquisitions.",
    found: "No blind retries and no starvation; under TPC-C, 1.8 times better on average.",
    lesson: "A failed CAS costs the home as much as a successful one and changes nothing. A ticket is drawn by an addition, which always \
             succeeds, and its distance to the served ticket gives the time to wait until the next look.",
    seconds: (10, 400),
    run,
};

fn run(context: &Context<'_>) -> Result<Finding> {
    let think = Duration::from_micros(10);
    let case = Case { ranks: (32, 4), table: "1k:zipf=0.99:homes=1", exclusive: 0.5, think };
    let rows = each(context, &["tas-rw", "dslr-wide"], case)?;
    let mut finding = Finding::new();
    finding.tables.push(table("Zipf 0.99, 50 % shared", &rows));
    let (cas, ours) = (of(&rows, "tas-rw"), of(&rows, "dslr-wide"));
    finding.claim(
        cas.mean / ours.mean >= 1.2,
        "1.8 times better on average under TPC-C",
        format!("a pair takes {} on average, and {} with retries", humane(ours.mean), humane(cas.mean)),
    );
    finding.claim(
        (1.99..2.01).contains(&ours.atomics) && cas.atomics > ours.atomics,
        "no blind retries: an addition to acquire and one to release",
        format!("{} atomics for a pair, and {} with retries", digits(ours.atomics), digits(cas.atomics)),
    );
    finding.claim(
        ours.sides[1] < cas.sides[1],
        "no starvation of writers",
        format!("writers' p99 {}, and {} with retries", humane(ours.sides[1]), humane(cas.sides[1])),
    );
    finding.why = "one lock at a time is not TPC-C, whose transactions wait while they hold other locks, so that long waits cost more. And on \
                   this network a poll is short beside the pause between two polls, which grows with the distance to the holder"
        .into();
    Ok(finding)
}
