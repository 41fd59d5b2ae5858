//! BRAVO: readers that write only their own word.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_report::finding::Finding;
use rmalab_report::numbers::{digits, humane, si};

use super::over_table::{Case, Figures, figures, of, table};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "bravo-readers",
    source: "BRAVO (Dice, Kogan, ATC'19), abstract",
    title: "biased readers around a lock with a counter",
    protocol: "One lock, 16 to 256 ranks, 16 on each node: all shared, and 1 in 1,000 exclusive. bravo around mcs-rw-neutral beside \
               mcs-rw-neutral alone. The paper measures threads of one machine; simulated here on profile infiniband-ndr, where a word is \
               farther away; --long has 25 times as many acquisitions.",
    found: "With mostly reads, it scales where the lock below it does not, and its writers are as fast as the inner lock's writers.",
    lesson: "A counter of readers is one word that all of them change. Instead, each of BRAVO's readers writes a \
             separate word, until a writer takes the bias away. That costs the writer a visit to every such word, so \
             the bias returns only after a multiple of that time.",
    seconds: (20, 600),
    run,
};

const LOCKS: [&str; 2] = ["mcs-rw-neutral", "bravo"];
const RANKS: [u32; 3] = [16, 64, 256];

fn run(context: &Context<'_>) -> Result<Finding> {
    let mut finding = Finding::new();
    let mut all: Vec<Vec<(&str, Figures)>> = Vec::new();
    for exclusive in [0.0, 0.001] {
        for ranks in RANKS {
            let case = Case { ranks: (ranks, 16), table: "1", exclusive, think: Duration::ZERO };
            let rows =
                LOCKS.iter().map(|&lock| Ok((lock, figures(context, lock, case)?))).collect::<Result<Vec<_>>>()?;
            let what = if exclusive == 0.0 { "all shared" } else { "1 in 1,000 exclusive" };
            finding.tables.push(table(&format!("{ranks} ranks, {what}"), &rows));
            all.push(rows);
        }
    }
    let rate = |at: usize, lock: &str| of(&all[at], lock).rate;
    let growth = |lock| rate(2, lock) / rate(0, lock);
    finding.claim(
        growth("bravo") >= 8.0 && growth("mcs-rw-neutral") < 4.0,
        "readers scale where the inner lock's readers do not",
        format!(
            "from 16 to 256 ranks {} times the throughput, mcs-rw-neutral {} times; at 256 ranks {}/s against {}/s",
            digits(growth("bravo")),
            digits(growth("mcs-rw-neutral")),
            si(rate(2, "bravo")),
            si(rate(2, "mcs-rw-neutral"))
        ),
    );
    finding.claim(
        rate(5, "bravo") > rate(5, "mcs-rw-neutral"),
        "so does the mix of many readers and few writers",
        format!("at 256 ranks, {}/s against {}/s", si(rate(5, "bravo")), si(rate(5, "mcs-rw-neutral"))),
    );
    let [ours, below] = LOCKS.map(|lock| of(&all[5], lock).sides[1]);
    let [below, ours] = [ours, below];
    finding.claim(
        ours <= 2.0 * below,
        "writers as fast as the inner lock's writers",
        format!("writers' p99 at 256 ranks {}, and {} below", humane(ours), humane(below)),
    );
    finding.why = "a writer that takes the bias away visits every rank's word, over the network, where the paper's reads a table of 4,096 \
                   slots in memory"
        .into();
    Ok(finding)
}
