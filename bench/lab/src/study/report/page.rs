//! The report's page: everything in one file, nothing from the network.

use super::figures::{Figure, load};
use crate::study::{Backend, Cell, Outcome};
use rmalab_report::html::{self, CSS, escape, inline, push};
use rmalab_report::numbers::{humane, humane_span, number, si};
use rmalab_report::statistics::Quantiles;

/// The whole page.
pub(super) fn page(outcome: &Outcome, figures: &[Figure]) -> String {
    let mut page = String::new();
    let out = &mut page;
    head(out, outcome);
    for &backend in &outcome.options.backends {
        if !outcome.cells.iter().any(|cell| cell.key.backend == backend) {
            continue;
        }
        push(out, format_args!("<h2 id=\"{backend}\">Backend {backend}: {}</h2>\n", escape(backend.description())));
        summary(out, outcome, backend);
        for figure in figures.iter().filter(|figure| figure.backend == backend) {
            let title = escape(figure.title);
            push(out, format_args!("<h3>{title}</h3>\n<figure>\n{}\n", inline(&figure.svg, figure.title)));
            push(out, format_args!("<figcaption>{}</figcaption>\n</figure>\n", escape(&figure.text)));
        }
    }
    subjects(out, outcome);
    method(out, outcome);
    out.push_str("<h2 id=\"machine\">Machine and build</h2>\n");
    html::machine(out, &outcome.machine);
    all_cells(out, outcome);
    out.push_str("</body>\n</html>\n");
    page
}

fn head(out: &mut String, outcome: &Outcome) {
    let options = &outcome.options;
    push(
        out,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>rmalab: locks over network atomics</title>\n\
             <style>{CSS}</style>\n</head>\n<body>\n<h1>Locks over network atomics</h1>\n",
            escape(&outcome.generator)
        ),
    );
    push(
        out,
        format_args!(
            "<p class=\"sub\">{} · {} · {} usable processors</p>\n",
            escape(&outcome.started),
            escape(&outcome.machine.cpu),
            outcome.machine.cores
        ),
    );
    if !outcome.complete {
        push(
            out,
            format_args!(
                "<p class=\"warn\"><strong>Incomplete:</strong> the study was interrupted. {} of {} cells were measured; \
                 the others are missing below.</p>\n",
                outcome.cells.len(),
                options.cells()
            ),
        );
    }
    if outcome.machine.profile != "release" {
        push(
            out,
            format_args!(
                "<p class=\"warn\"><strong>Not a release build</strong> ({}): the times say little about the locks.</p>\n",
                escape(&outcome.machine.profile)
            ),
        );
    }
    let ranks = options.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let loads = options.read_fractions.iter().map(|&fraction| load(fraction)).collect::<Vec<_>>().join("; ");
    push(
        out,
        format_args!(
            "<p>{} locks and policies under the same load: {ranks} ranks acquire and release as often as they can ({}), \
             with {} inside the critical section and {} between two acquisitions.</p>\n",
            options.locks.len(),
            escape(&loads),
            humane_span(options.critical_section),
            humane_span(options.think_time)
        ),
    );
    out.push_str("<nav>");
    for backend in &options.backends {
        push(out, format_args!("<a href=\"#{backend}\">Backend {backend}</a>"));
    }
    out.push_str(
        "<a href=\"#subjects\">Locks</a><a href=\"#method\">Method</a><a href=\"#machine\">Machine</a>\
         <a href=\"#cells\">All cells</a></nav>\n",
    );
}

/// Throughputs of one backend: a row for each lock, a column for each number of ranks and each load.
fn summary(out: &mut String, outcome: &Outcome, backend: Backend) {
    let options = &outcome.options;
    out.push_str(
        "<p>Acquisitions per second, all ranks together:</p>\n<div class=\"wide\"><table>\n\
         <tr><th rowspan=\"2\">lock</th>",
    );
    for &fraction in &options.read_fractions {
        let columns = options.ranks.len();
        push(out, format_args!("<th class=\"c\" colspan=\"{columns}\">{}</th>", escape(&load(fraction))));
    }
    out.push_str("</tr>\n<tr>");
    for _ in &options.read_fractions {
        for ranks in &options.ranks {
            let ranks = if *ranks == 1 { "1 rank".into() } else { format!("{ranks} ranks") };
            push(out, format_args!("<th class=\"n\">{ranks}</th>"));
        }
    }
    out.push_str("</tr>\n");
    for info in &outcome.subjects {
        push(out, format_args!("<tr><td>{}</td>", escape(&info.name)));
        for &fraction in &options.read_fractions {
            for &ranks in &options.ranks {
                let cell = outcome.cells.iter().find(|cell| {
                    let key = &cell.key;
                    key.backend == backend
                        && key.lock == info.name
                        && key.ranks == ranks
                        && key.read_fraction == fraction
                });
                let text = cell.map_or("–".into(), |cell| si(cell.values.throughput));
                push(out, format_args!("<td class=\"n\">{text}</td>"));
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

fn subjects(out: &mut String, outcome: &Outcome) {
    out.push_str(
        "<h2 id=\"subjects\">Locks and policies</h2>\n<div class=\"wide\"><table>\n\
         <tr><th>name</th><th>what it is</th><th>fairness</th><th>paper</th></tr>\n",
    );
    for info in &outcome.subjects {
        let cells = [&info.name, &info.description, &info.fairness, &info.paper].map(|text| escape(text));
        push(out, format_args!("<tr><td>{}</td></tr>\n", cells.join("</td><td>")));
    }
    out.push_str("</table></div>\n");
}

fn method(out: &mut String, outcome: &Outcome) {
    let options = &outcome.options;
    let cell = humane_span(std::time::Duration::from_nanos(outcome.cell_ns));
    push(
        out,
        format_args!(
            "<h2 id=\"method\">Method</h2>\n\
             <p>A cell is one lock under one load with one number of ranks; it was measured {} for {cell}, in three passes \
             that all ranks start together after a warm-up. The first counts acquisitions, and looks at the clock once in \
             16 of them: it gives the throughput and the fairness. The second reads the clock after each acquire and each \
             release: it gives the latencies, which are kept in histograms to 1 %. The third counts remote operations, \
             and keeps a ledger of grants at the target: it gives operations per pair, bypasses (grants to others between a \
             request and its grant) and handovers inside and across nodes. The ledger's own operations are not counted, but \
             they slow the ranks, so no time is taken in this pass.</p>\n\
             <p>A mutex takes part with readers that exclude one another. A lock that is not a policy of its own stands for \
             the policy <em>global</em>: one lock for all targets. Exclusive locks name {}. {} Results are medians over \
             the repetitions; the longest times and bypasses are the longest of all. The seed was {}.</p>\n\
             <p>Command:</p>\n<pre>{}</pre>\n",
            if options.repetitions == 1 { "once".into() } else { format!("{} times", options.repetitions) },
            match options.target {
                crate::study::Target::Home => format!("rank {}, the home of the global locks", options.home),
                crate::study::Target::Random => "a rank drawn anew for every lock".into(),
            },
            if options.bind {
                "Each rank is bound to one processor, in turn."
            } else {
                "The scheduler places the ranks on processors."
            },
            options.seed,
            escape(&outcome.command)
        ),
    );
}

fn all_cells(out: &mut String, outcome: &Outcome) {
    out.push_str(
        "<h2 id=\"cells\">All cells</h2>\n<details><summary>The measurements as a table (more in data.csv and data.json)\
         </summary>\n<div class=\"wide\"><table>\n<tr><th>backend</th><th class=\"n\">ranks</th><th>load</th><th>lock</th>",
    );
    for column in [
        "acquisitions/s",
        "slowest rank/s",
        "fastest rank/s",
        "Jain",
        "reader p50",
        "p99",
        "p99.9",
        "max",
        "writer p50",
        "p99",
        "p99.9",
        "max",
        "reader bypass max",
        "writer bypass max",
        "handovers same node",
        "other node",
        "reader ops",
        "writer ops",
    ] {
        push(out, format_args!("<th class=\"n\">{column}</th>"));
    }
    out.push_str("</tr>\n");
    for cell in &outcome.cells {
        let Cell { key, values, .. } = cell;
        push(
            out,
            format_args!(
                "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td>",
                key.backend,
                key.ranks,
                escape(&load(key.read_fraction)),
                escape(&key.lock)
            ),
        );
        let none = || "–".to_owned();
        let times = |side: Option<Quantiles>| {
            side.map_or([none(), none(), none(), none()], |times| {
                [times.p50, times.p99, times.p999, times.max].map(|time| humane(time as f64))
            })
        };
        let (readers, writers) = (values.readers.as_ref(), values.writers.as_ref());
        let mut row = vec![si(values.throughput), si(values.rank_throughput_min), si(values.rank_throughput_max)];
        row.push(format!("{:.3}", values.jain));
        row.extend(times(readers.map(|side| side.acquire)));
        row.extend(times(writers.map(|side| side.acquire)));
        row.extend([readers, writers].map(|side| side.map_or(none(), |side| side.bypass_max.to_string())));
        row.extend([(values.handovers_own + values.handovers_node).to_string(), values.handovers_remote.to_string()]);
        row.extend([readers, writers].map(|side| side.map_or(none(), |side| number(side.operations()))));
        for text in row {
            push(out, format_args!("<td class=\"n\">{}</td>", escape(&text)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div></details>\n");
}
