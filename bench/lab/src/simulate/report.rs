//! The report of simulations: a page, its figures, and the data.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::simulate::{Outcome, Point};
use crate::subject::Info;
use rmalab_job::{Error, Result};
use rmalab_report::folder::Folder;
use rmalab_report::html::{CSS, escape, inline, push};
use rmalab_report::numbers::{digits, humane, si};
use rmalab_report::numbers::{rate, short};
use rmalab_report::plots::{self, Bars, Lines, Scale, X};
use rmalab_report::statistics::Quantiles;

/// A report of simulations that can be written, as has been made sure of before anything is simulated.
#[derive(Debug)]
pub struct SimulationReport {
    folder: Folder,
}

impl SimulationReport {
    /// Makes sure that a report can be written at `path`, a folder that need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Report`] when there is a file of that name, when the folder holds anything but an older report, or when
    /// it cannot be written.
    pub fn prepare(path: &Path) -> Result<SimulationReport> {
        Ok(SimulationReport { folder: Folder::prepare(path)? })
    }

    /// Writes the report, all of it or nothing, and returns where it is.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Report`] when it cannot be written after all, [`Error::Drawing`] when a figure fails.
    pub fn write(self, outcome: &Outcome) -> Result<PathBuf> {
        let figures = figures(outcome)?;
        let mut json = serde_json::to_vec_pretty(outcome).expect("numbers and texts are JSON");
        json.push(b'\n');
        let mut csv = Vec::new();
        table(outcome, &mut csv).map_err(|source| Error::File { path: "data.csv".into(), source })?;
        let page = page(outcome, &figures);
        let svgs = figures.iter().map(|figure| (figure.name, figure.svg.as_str()));
        Ok(self.folder.write(svgs, &json, &csv, &[("index.html", &page)])?)
    }
}

struct Figure {
    /// The name of its file, without the ending.
    name: &'static str,
    title: &'static str,
    svg: String,
    /// How to read it.
    text: &'static str,
}

fn figures(outcome: &Outcome) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut add = |name, title, svg: Result<String, String>, text| {
        let svg = svg.map_err(|why| Error::Drawing { figure: String::from(name), why })?;
        figures.push(Figure { name, title, svg, text });
        Ok::<(), Error>(())
    };
    let time = Scale::Log(short);
    add(
        "time",
        "Time for a pair",
        plots::lines_of(
            &lines(outcome, "time for a pair, slowest rank", time, |point| Some(point.slowest_ns), true),
            WIDE,
        ),
        "What an acquisition and its release take on the slowest rank, on average over its pairs; both axes are \
         logarithmic. The thin dashed line of a colour is that lock's bound: the operations on its busiest word, one after \
         the other, take that long for a pair of every rank. A curve that follows its bound is limited by that word, one \
         above it by something else.",
    )?;
    add(
        "throughput",
        "Throughput",
        plots::lines(&lines(
            outcome,
            "pairs per second, all ranks",
            Scale::Log(rate),
            |point| Some(point.throughput),
            false,
        )),
        "Pairs of all ranks together, from the first begin to the last end of what is measured.",
    )?;
    let quantile = |value: fn(Quantiles) -> u64| {
        move |point: &Point| point.main_side().map(|side| value(side.acquire).max(1) as f64)
    };
    let mut panels = lines(outcome, "time to acquire, median", time, quantile(|times| times.p50), false);
    panels.extend(lines(outcome, "time to acquire, 99th percentile", time, quantile(|times| times.p99), false));
    add(
        "latency",
        "Time to acquire",
        plots::lines(&panels),
        "From the request to the grant: the median, below which half of all acquisitions stay, and the 99th percentile; of \
         readers where there are any.",
    )?;
    let writers = |point: &Point| Some(point.writers.as_ref()?.acquire.p99.max(1) as f64);
    if outcome.points.iter().any(|point| point.writers.is_some() && point.readers.is_some()) {
        add(
            "writers",
            "Time to acquire of writers",
            plots::lines(&lines(outcome, "time to acquire of writers, 99th percentile", time, writers, false)),
            "From the request of an exclusive lock to its grant, 99th percentile.",
        )?;
    }
    add(
        "fairness",
        "Fairness",
        plots::lines(&lines(outcome, "Jain's index", Scale::Unit, |point| Some(point.jain), false)),
        "Jain's index of the ranks' rates: 1 when all are equal, and one over the number of ranks when one has everything.",
    )?;
    add(
        "adapter",
        "The busiest adapter",
        plots::lines(&lines(outcome, "share of time busy", Scale::Unit, |point| Some(point.utilization), false)),
        "How much of the time the engines of the busiest network adapter had something to do; at 1 it is what limits.",
    )?;
    add(
        "operations",
        "Operations",
        plots::bars(&bars(outcome)),
        "Operations of all ranks for a pair at the largest number of ranks, by how far their target is.",
    )?;
    Ok(figures)
}

/// Width and height of the panels of the main figure.
const WIDE: (u32, u32) = (760, 520);

/// A panel for each machine and load, a line for each lock, perhaps with its bound.
fn lines(
    outcome: &Outcome,
    y_label: &str,
    scale: Scale,
    value: impl Fn(&Point) -> Option<f64>,
    bounds: bool,
) -> Vec<Lines> {
    let panel = |(machine, load)| {
        let mut series = Vec::new();
        for info in &outcome.subjects {
            let of = |value: &dyn Fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
                let points = outcome.panel(machine, load).filter(|point| point.key.lock == info.name);
                points.filter_map(|point| Some((f64::from(point.key.ranks), value(point)?))).collect()
            };
            let points = of(&value);
            if points.is_empty() {
                continue;
            }
            series.push((info.style(), points));
            let bound = of(&|point| Some(point.bound_ns).filter(|&bound| bound > 0.0));
            if bounds && bound.len() > 1 {
                series.push((info.style().bound(), bound));
            }
        }
        let title = title(outcome, &machine.name, &load.to_string());
        Lines { title, x: X::Ranks, y_label: y_label.into(), scale, series }
    };
    outcome.panels().map(panel).collect()
}

/// What tells panels apart.
fn title(outcome: &Outcome, machine: &str, load: &str) -> String {
    match (outcome.machines.len(), outcome.loads.len()) {
        (1, 1) => format!("{machine}: {load}"),
        (1, _) => load.into(),
        (_, 1) => machine.into(),
        _ => format!("{machine}: {load}"),
    }
}

fn bars(outcome: &Outcome) -> Vec<Bars> {
    let panel = |(machine, load)| {
        let rows = outcome.subjects.iter().filter_map(|info: &Info| {
            let points = outcome.panel(machine, load).filter(|point| point.key.lock == info.name);
            let point = points.max_by_key(|point| point.key.ranks)?;
            Some((format!("{} ({})", info.name, point.key.ranks), point.operations.by_distance()))
        });
        Bars {
            title: title(outcome, &machine.name, &load.to_string()),
            x_label: "operations per pair (mean)".into(),
            rows: rows.collect(),
        }
    };
    outcome.panels().map(panel).collect()
}

/// All of the plot with every lock on one machine under one load: its SVG document.
///
/// # Errors
///
/// [`Error::Drawing`] when it cannot be drawn.
pub(crate) fn one_plot(outcome: &Outcome) -> Result<String> {
    let panels =
        lines(outcome, "time for a pair, slowest rank", Scale::Log(short), |point| Some(point.slowest_ns), true);
    plots::lines_of(&panels, WIDE).map_err(|why| Error::Drawing { figure: "scale".into(), why })
}

/// A column of the CSV file: its name, and its value of a point.
type Column = (&'static str, fn(&Point) -> String);

const COLUMNS: [Column; 45] = {
    macro_rules! columns {
        ($($name:literal: $point:ident => $value:expr;)*) => {
            [$(($name, |$point: &Point| $value.to_string())),*]
        };
    }
    columns! {
        "profile": point => point.key.profile;
        "load": point => point.key.load;
        "lock": point => point.key.lock;
        "ranks": point => point.key.ranks;
        "pairs": point => point.pairs;
        "seeds": point => point.seeds;
        "pair_slowest_ns": point => point.slowest_ns;
        "pair_slowest_least_seed_ns": point => point.slowest_min_ns;
        "pair_slowest_greatest_seed_ns": point => point.slowest_max_ns;
        "pair_fastest_ns": point => point.fastest_ns;
        "pair_mean_ns": point => point.mean_ns;
        "bound_ns": point => point.bound_ns;
        "throughput_per_s": point => point.throughput;
        "jain_index": point => point.jain;
        "reader_acquire_mean_ns": point => side(point.readers.as_ref().map(|side| side.acquire.mean));
        "reader_acquire_p50_ns": point => side(point.readers.as_ref().map(|side| side.acquire.p50));
        "reader_acquire_p99_ns": point => side(point.readers.as_ref().map(|side| side.acquire.p99));
        "reader_acquire_max_ns": point => side(point.readers.as_ref().map(|side| side.acquire.max));
        "reader_bypass_mean": point => side(point.readers.as_ref().map(|side| side.bypass_mean));
        "reader_bypass_max": point => side(point.readers.as_ref().map(|side| side.bypass_max));
        "writer_acquire_mean_ns": point => side(point.writers.as_ref().map(|side| side.acquire.mean));
        "writer_acquire_p50_ns": point => side(point.writers.as_ref().map(|side| side.acquire.p50));
        "writer_acquire_p99_ns": point => side(point.writers.as_ref().map(|side| side.acquire.p99));
        "writer_acquire_max_ns": point => side(point.writers.as_ref().map(|side| side.acquire.max));
        "writer_bypass_mean": point => side(point.writers.as_ref().map(|side| side.bypass_mean));
        "writer_bypass_max": point => side(point.writers.as_ref().map(|side| side.bypass_max));
        "writer_operations_max": point => side(point.writers.as_ref().and_then(|side| side.operations_max));
        "atomics_own": point => point.operations.atomic[0];
        "atomics_node": point => point.operations.atomic[1];
        "atomics_remote": point => point.operations.atomic[2];
        "gets_own": point => point.operations.get[0];
        "gets_node": point => point.operations.get[1];
        "gets_remote": point => point.operations.get[2];
        "puts_own": point => point.operations.put[0];
        "puts_node": point => point.operations.put[1];
        "puts_remote": point => point.operations.put[2];
        "bulk_own": point => point.operations.bulk[0];
        "bulk_node": point => point.operations.bulk[1];
        "bulk_remote": point => point.operations.bulk[2];
        "adapter_busy": point => point.utilization;
        "queue_mean": point => point.mean_queue;
        "queue_longest": point => point.longest_queue;
        "virtual_end_ns": point => point.end_ns;
        "events": point => point.events;
        "wall_s": point => point.wall_s;
    }
};

fn side(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Writes one line for each point, after one with the columns' names; what does not exist is empty.
fn table(outcome: &Outcome, to: impl Write) -> std::io::Result<()> {
    let mut to = csv::Writer::from_writer(to);
    to.write_record(COLUMNS.map(|column| column.0))?;
    for point in &outcome.points {
        to.write_record(COLUMNS.map(|column| column.1(point)))?;
    }
    to.flush()
}

fn page(outcome: &Outcome, figures: &[Figure]) -> String {
    let mut page = String::new();
    let out = &mut page;
    push(
        out,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>rmalab: simulated locks</title>\n\
             <style>{CSS}</style>\n</head>\n<body>\n<h1>Locks over network atomics, simulated</h1>\n\
             <p class=\"sub\">{}</p>\n",
            escape(&outcome.generator),
            escape(&outcome.started)
        ),
    );
    if !outcome.complete {
        out.push_str("<p class=\"warn\"><strong>Incomplete:</strong> the simulations were interrupted.</p>\n");
    }
    out.push_str("<ul>\n");
    for machine in &outcome.machines {
        let changed = if machine.changed.is_empty() { String::new() } else { format!("; with {}", machine.changed) };
        let line = format!("{}: {}{changed}", machine.name, machine.about);
        push(out, format_args!("<li>{}</li>\n", escape(&line)));
    }
    out.push_str("</ul>\n");
    for figure in figures {
        push(
            out,
            format_args!(
                "<h2>{}</h2>\n<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
                escape(figure.title),
                inline(&figure.svg, figure.title),
                escape(figure.text)
            ),
        );
    }
    if !outcome.left_out.is_empty() {
        out.push_str("<h2>Left out</h2>\n<ul>\n");
        for left in &outcome.left_out {
            push(out, format_args!("<li>{}</li>\n", escape(&format!("{}: {}", left.key, left.why))));
        }
        out.push_str("</ul>\n");
    }
    push(
        out,
        format_args!(
            "<h2>Method</h2>\n<p>Ranks run the locks' own code in virtual time, over a model of the machine. {} Mutexes take \
             part with readers that exclude one another.</p>\n<p>Command:</p>\n<pre>{}</pre>\n",
            escape(&outcome.method()),
            escape(&outcome.command)
        ),
    );
    points(out, outcome);
    out.push_str("</body>\n</html>\n");
    page
}

fn points(out: &mut String, outcome: &Outcome) {
    out.push_str(
        "<h2>All points</h2>\n<details><summary>More in data.csv and data.json</summary>\n<div class=\"wide\"><table>\n\
         <tr><th>profile</th><th>load</th><th>lock</th>",
    );
    for column in [
        "ranks",
        "pairs",
        "slowest rank",
        "fastest",
        "mean",
        "bound",
        "acquire p50",
        "p99",
        "longest",
        "writers p99",
        "pairs/s",
        "Jain",
        "bypass",
        "operations",
        "remote",
        "adapter busy",
        "queue",
        "longest",
        "events",
    ] {
        push(out, format_args!("<th class=\"n\">{column}</th>"));
    }
    out.push_str("</tr>\n");
    let none = || "–".to_owned();
    for point in &outcome.points {
        let key = &point.key;
        let texts = [&key.profile, &key.load.to_string(), &key.lock].map(|text| escape(text));
        push(out, format_args!("<tr><td>{}</td>", texts.join("</td><td>")));
        let mut row = vec![key.ranks.to_string(), point.pairs.to_string()];
        row.extend([point.slowest_ns, point.fastest_ns, point.mean_ns].map(humane));
        row.push(if point.bound_ns > 0.0 { humane(point.bound_ns) } else { none() });
        let times = |times: Quantiles| [times.p50, times.p99, times.max].map(|time| humane(time as f64));
        row.extend(point.main_side().map_or([none(), none(), none()], |side| times(side.acquire)));
        row.push(point.writers.as_ref().map_or(none(), |side| humane(side.acquire.p99 as f64)));
        row.extend([si(point.throughput), format!("{:.3}", point.jain), point.bypass_max().to_string()]);
        row.extend([digits(point.operations.total()), digits(point.operations.by_distance()[2])]);
        row.extend([format!("{:.0} %", point.utilization * 100.0), digits(point.mean_queue)]);
        row.extend([point.longest_queue.to_string(), si(point.events as f64)]);
        for text in row {
            push(out, format_args!("<td class=\"n\">{}</td>", escape(&text)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div></details>\n");
}
