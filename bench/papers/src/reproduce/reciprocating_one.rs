//! Reciprocating locks: as fast as queues, without a link to write.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_report::finding::Finding;
use rmalab_report::numbers::{digits, si};

use super::over_table::{Case, Figures, each, of, table};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "reciprocating-one",
    source: "Reciprocating locks (Dice, Kogan, PPoPP'25), abstract",
    title: "a stack of arrivals against queues of waiters",
    protocol: "One lock, 4 to 256 ranks, 16 on each node, exclusive, with no work outside and with up to 20 us of it. reciprocating beside \
               the queue locks mcs, oshmem-mcs and hapax. The paper measures threads of one machine; simulated here on profile \
               infiniband-ndr; --long has 25 times as many acquisitions.",
    found: "As fast as the best queue locks.",
    lesson: "Arrivals push themselves onto a stack by a swap; a release takes the whole stack and serves it, last in, first out. So no \
             waiter has to write its address to its predecessor, and a rank is overtaken at most once by each other one.",
    seconds: (20, 600),
    run,
};

const LOCKS: [&str; 4] = ["mcs", "oshmem-mcs", "hapax", "reciprocating"];

fn run(context: &Context<'_>) -> Result<Finding> {
    let mut finding = Finding::new();
    let mut worst = (f64::INFINITY, String::new());
    for (think, what) in [(Duration::ZERO, "no work outside"), (Duration::from_micros(20), "up to 20 us outside")] {
        for ranks in [4, 64, 256] {
            let case = Case { ranks: (ranks, 16), table: "1", exclusive: 1.0, think };
            let rows = each(context, &LOCKS, case)?;
            let rate = |figures: &Figures| figures.rate;
            let best = LOCKS[..3].iter().map(|lock| rate(of(&rows, lock))).fold(0.0, f64::max);
            let ours = of(&rows, "reciprocating");
            let share = ours.rate / best;
            if share < worst.0 {
                worst = (share, format!("at {ranks} ranks, {what}: {}/s against {}/s", si(ours.rate), si(best)));
            }
            finding.tables.push(table(&format!("{ranks} ranks, {what}"), &rows));
        }
    }
    finding.claim(
        worst.0 >= 0.95,
        "as fast as the best queue locks",
        format!("at least {} times the best of them, {}", digits(worst.0), worst.1),
    );
    finding.why = "the end of each segment of arrivals takes a failed compare-and-swap, a swap and a put, one after the other. With few ranks \
                   the segments are short, so much of the time goes into their ends"
        .into();
    Ok(finding)
}
