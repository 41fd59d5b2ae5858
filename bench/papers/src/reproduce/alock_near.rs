//! ALock: near ranks need no network.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_report::finding::Finding;
use rmalab_report::numbers::digits;

use super::over_table::{Case, each, of, table};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "alock-near",
    source: "ALock (Baran, Nelson-Slivon, Tseng, Palmieri, SPAA'24), the benchmark of 20 nodes",
    title: "a queue for near ranks and one for far ranks",
    protocol: "20 nodes of 4 clients, 100 locks, 85 % and 100 % of a client's requests near, uniform there, exclusive. alock with budgets 5 \
               and 20 beside mcs, which has one queue for all. Simulated on profile infiniband-ndr; --long has 25 times as many \
               acquisitions.",
    found: "Near ranks acquire and release without the network. Far ranks pay for that with a larger number of operations.",
    lesson: "Where the adapter's atomics are not atomic to the processor's, all ranks of a lock have to use the adapter, even those beside \
             the word. ALock gives each class its own tail word, so that no word is changed by both, and lets Peterson's algorithm choose \
             between the two queues.",
    seconds: (10, 400),
    run,
};

fn run(context: &Context<'_>) -> Result<Finding> {
    let locks = ["mcs", "alock"];
    let case = |table| Case { ranks: (80, 4), table, exclusive: 1.0, think: Duration::ZERO };
    let most = each(context, &locks, case("100:local=85%"))?;
    let all = each(context, &locks, case("100:local=100%"))?;
    let none = each(context, &locks, case("100:local=0%"))?;
    let mut finding = Finding::new();
    finding.tables = vec![table("85 % near", &most), table("100 % near", &all), table("All far", &none)];
    let [mcs, near, far] = [of(&none, "mcs"), of(&all, "alock"), of(&none, "alock")];
    finding.claim(
        near.remote == 0.0,
        "near ranks need no operation of the network",
        format!("{} operations leave the node for a pair, all near", digits(near.remote)),
    );
    finding.claim(
        far.remote > mcs.remote,
        "far ranks pay: 3 operations to acquire and 1 to release alone, where mcs has 1 and 1",
        format!("{} operations for a pair, all far; {} of mcs", digits(far.remote), digits(mcs.remote)),
    );
    finding.why =
        "the profile lets the processor carry out atomics inside a node, so near ranks of mcs need no network either"
            .into();
    Ok(finding)
}
