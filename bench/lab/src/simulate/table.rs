//! The table at the end of simulations.

use super::point::{Outcome, Point};
use rmalab_report::numbers::{digits, humane, si};
use rmalab_report::text::aligned;

/// The most important figures as aligned text: for each machine and load the time for a pair at every number of ranks,
/// and all that was counted at the largest.
pub fn table(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (machine, load) in outcome.panels() {
        let points: Vec<&Point> = outcome.panel(machine, load).collect();
        let changed = if machine.changed.is_empty() { String::new() } else { format!(" with {}", machine.changed) };
        text += &format!("{}{changed}: {load}\n\n", machine.name);
        text += &times(outcome, &points);
        text.push('\n');
        text += &details(outcome, &points);
        text.push('\n');
    }
    for left in &outcome.left_out {
        text += &format!("left out: {}: {}\n", left.key, left.why);
    }
    text
}

/// The slowest rank's time for a pair: a row for each lock, a column for each number of ranks.
fn times(outcome: &Outcome, points: &[&Point]) -> String {
    let mut ranks: Vec<u32> = points.iter().map(|point| point.key.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut header = vec!["time for a pair,\nslowest rank".to_owned()];
    header.extend(ranks.iter().map(|ranks| format!("{ranks}\nranks")));
    let rows = outcome.subjects.iter().filter_map(|info| {
        let of = |ranks: u32| points.iter().find(|point| point.key.lock == info.name && point.key.ranks == ranks);
        let times: Vec<_> = ranks.iter().map(|&ranks| of(ranks)).collect();
        times.iter().any(Option::is_some).then(|| {
            let times = times.into_iter().map(|point| point.map_or("-".into(), |point| humane(point.slowest_ns)));
            std::iter::once(info.name.clone()).chain(times).collect()
        })
    });
    aligned(header, rows)
}

/// All that was counted of each lock, at the largest number of ranks that it has.
fn details(outcome: &Outcome, points: &[&Point]) -> String {
    let mixed = points.iter().any(|point| point.readers.is_some() && point.writers.is_some());
    let mut header: Vec<String> =
        ["lock", "ranks", "fastest\nrank", "mean\nrank", "p50\nacquire", "p99\nacquire", "longest\nacquire"]
            .map(str::to_owned)
            .to_vec();
    if mixed {
        header.extend(["p99\nwriters", "longest\nwriters"].map(str::to_owned));
    }
    header.extend(
        [
            "pairs\n1/s",
            "Jain\nindex",
            "bypass\nmost",
            "operations\nown",
            "\nnode",
            "\nremote",
            "adapter\nbusy",
            "queue\nmean",
            "\nlongest",
            "bound of\none word",
            "events",
            "took",
        ]
        .map(str::to_owned),
    );
    let rows = outcome.subjects.iter().filter_map(|info| {
        let point = points.iter().filter(|point| point.key.lock == info.name).max_by_key(|point| point.key.ranks)?;
        let none = || "-".to_owned();
        let acquire = point.main_side().map(|side| side.acquire);
        let mut row = vec![info.name.clone(), point.key.ranks.to_string()];
        row.extend([point.fastest_ns, point.mean_ns].map(humane));
        row.extend(acquire.map_or([none(), none(), none()], |times| {
            [times.p50, times.p99, times.max].map(|time| humane(time as f64))
        }));
        if mixed {
            let times = point.writers.as_ref().map(|side| [side.acquire.p99, side.acquire.max]);
            row.extend(times.map_or([none(), none()], |times| times.map(|time| humane(time as f64))));
        }
        row.extend([si(point.throughput), format!("{:.3}", point.jain), point.bypass_max().to_string()]);
        row.extend(point.operations.by_distance().map(digits));
        row.extend([
            format!("{:.0} %", point.utilization * 100.0),
            digits(point.mean_queue),
            point.longest_queue.to_string(),
            if point.bound_ns > 0.0 { humane(point.bound_ns) } else { none() },
            si(point.events as f64),
            humane(point.wall_s * 1e9),
        ]);
        Some(row)
    });
    aligned(header, rows)
}
