//! ShiftLock's microbenchmark, millions of locks at one home, and its transactions: TATP and TPC-C.

use std::time::Duration;

use rmalab_job::Result;
use rmalab_lab::simulate::Parameters;
use rmalab_lab::workload::Benchmark;
use rmalab_report::finding::{Column, Finding, Table, Value};
use rmalab_report::numbers::{digits, humane};

use super::over_table::{Case, Figures, each, of, table, traced};
use super::{Context, Experiment};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "shiftlock-table",
    source: "ShiftLock (Gao, Wang, Shu, FAST'25), figures 4, 5, 10 and 12",
    title: "handover from rank to rank against polling and queues, over ten million locks",
    protocol: "240 clients, 48 on each node, over 10,000,000 locks of one home, Zipf 0.99 and uniform, 50 % and 95 % shared, empty \
               section. ShiftLock, its baselines CAS (tas-rw), DSLR (dslr-wide), MCS (mcs) and RMA-RW (rma-rw). Then TATP and \
               TPC-C, 20,000 transactions of our own traces, whose locks are held for 2.8 and 7 µs; ShiftLock with N from 1 to 32, and \
               without a limit. Simulated on profile \
               infiniband-ndr; --long has 25 times as many acquisitions and transactions.",
    found: "ShiftLock is first: up to 3.62 times the throughput of the others, and a p99 76.6 % lower, at 50 % shared under Zipf. \
            On TATP it has 1.25 to 2.85 times the throughput of the others, on TPC-C 1.09 to 2.14 times.",
    lesson: "Under Zipf 0.99, one of ten million locks still gets one request in twenty. Clients that retry a CAS on it use up the home's \
             adapter, through which all other locks go, too. So a lock that hands over from client to client helps even those that do \
             not contend. Transactions show it at TPC-C's warehouses, which half of them lock exclusively; TATP's subscribers hardly contend, so \
         there the lock with the fewest operations at the home is first.",
    seconds: (10, 900),
    run,
};

/// The results of all locks under one load.
type Rows = Vec<(&'static str, Figures)>;

const LOCKS: [&str; 5] = ["tas-rw", "dslr-wide", "mcs", "rma-rw", "shiftlock"];

/// ShiftLock's N: the number of writers in a row ahead of waiting readers.
const N: [u32; 7] = [1, 2, 4, 8, 16, 32, u32::MAX];

fn run(context: &Context<'_>) -> Result<Finding> {
    let case = |table, exclusive| Case { ranks: (240, 48), table, exclusive, think: Duration::ZERO };
    let half = each(context, &LOCKS, case("10M:zipf=0.99:homes=1", 0.5))?;
    let few = each(context, &LOCKS, case("10M:zipf=0.99:homes=1", 0.05))?;
    let even = each(context, &LOCKS, case("10M:homes=1", 0.5))?;
    let held = [(Benchmark::Tatp, Duration::from_nanos(2800)), (Benchmark::TpcC, Duration::from_micros(7))];
    let one = |lock, parameters, (benchmark, hold)| traced(context, (lock, parameters), (240, 48), benchmark, hold);
    let rows = |held| -> Result<Rows> {
        LOCKS.iter().map(|&lock| Ok((lock, one(lock, Parameters::default(), held)?))).collect()
    };
    let [tatp, tpcc] = [rows(held[0])?, rows(held[1])?];
    let mut by_n = Vec::new();
    for n in N {
        let parameters = Parameters { n: Some(n), ..Parameters::default() };
        by_n.push((n, [one("shiftlock", parameters, held[0])?, one("shiftlock", parameters, held[1])?]));
    }
    Ok(report(&half, &few, &even, [&tatp, &tpcc], &by_n))
}

/// The results of ShiftLock by its N.
fn by_n(rows: &[(u32, [Figures; 2])]) -> Table {
    let columns = [
        Column::from("N"),
        Column::from("TATP: pairs"),
        Column::from("TATP: p99 of readers"),
        Column::from("TATP: p99 of writers"),
        Column::from("TPC-C: pairs"),
        Column::from("TPC-C: p99 of readers"),
        Column::from("TPC-C: p99 of writers"),
    ];
    let mut table = Table::new("ShiftLock by N, the number of writers in a row ahead of waiting readers", columns);
    for (n, figures) in rows {
        let name = if *n == u32::MAX { "no limit".to_owned() } else { n.to_string() };
        let mut row = vec![Value::Text(name)];
        for Figures { rate, sides: [readers, writers], .. } in figures {
            row.extend([Value::Rate(*rate), Value::Time(*readers), Value::Time(*writers)]);
        }
        table.row(row);
    }
    table
}

fn report(
    half: &[(&str, Figures)],
    few: &[(&str, Figures)],
    even: &[(&str, Figures)],
    [tatp, tpcc]: [&[(&str, Figures)]; 2],
    rows_by_n: &[(u32, [Figures; 2])],
) -> Finding {
    let mut finding = Finding::new();
    finding.tables = vec![
        table("Zipf 0.99, 50 % shared", half),
        table("Zipf 0.99, 95 % shared", few),
        table("Uniform, 50 % shared", even),
        table("TATP, each lock of a transaction, held for 2.8 µs", tatp),
        table("TPC-C, each lock of a transaction, held for 7 µs", tpcc),
        by_n(rows_by_n),
    ];
    let others = |better: fn(f64, f64) -> f64, begin: f64, value: fn(&Figures) -> f64| {
        half.iter().filter(|(lock, _)| *lock != "shiftlock").map(|(_, figures)| value(figures)).fold(begin, better)
    };
    let ours = of(half, "shiftlock");
    let (best, worst) = (others(f64::max, 0.0, |of| of.rate), others(f64::min, f64::INFINITY, |of| of.rate));
    finding.claim(
        ours.rate > best && ours.rate / worst >= 2.0,
        "first, up to 3.62 times the throughput of the others (50 % shared, Zipf)",
        format!(
            "{} times the slowest, {} times the fastest of the others",
            digits(ours.rate / worst),
            digits(ours.rate / best)
        ),
    );
    let tail = others(f64::max, 0.0, |of| of.p99);
    finding.claim(
        ours.p99 < 0.5 * tail,
        "p99 up to 76.6 % lower",
        format!("{} against {} of the lock with the longest tail", humane(ours.p99), humane(tail)),
    );
    finding.claim(
        (1.5..3.0).contains(&ours.atomics),
        "2.01 atomics and 0.36 reads for a pair (50 % shared, Zipf)",
        format!("{} atomics and {} reads of a word", digits(ours.atomics), digits(ours.gets)),
    );
    for (rows, least, most, name) in [(tatp, 1.25, 2.85, "TATP"), (tpcc, 1.09, 2.14, "TPC-C")] {
        let ours = of(rows, "shiftlock").rate;
        let others = rows.iter().filter(|(lock, _)| *lock != "shiftlock").map(|(_, figures)| ours / figures.rate);
        let (low, high) = others.fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        finding.claim(
            low >= least && high >= most,
            format!("{} to {} times the throughput of the others on {name}", digits(least), digits(most)),
            format!("{} to {} times", digits(low), digits(high)),
        );
    }
    finding.why = format!(
        "the published lock swaps masked parts of a 128-bit word, which always succeeds. With 64-bit words a writer's swap is a loop of \
         compare-and-swaps that arriving readers let fail: the surplus of atomics. Under uniform popularity it needs {}. A fifth of the \
         clients is on the home's node here, and none in the paper. On TATP the home's adapter limits all locks but \
         rma-rw, whose readers use a counter on their own node",
        digits(of(even, "shiftlock").atomics)
    );
    finding
}
