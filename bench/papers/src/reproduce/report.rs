//! The report of reproduced experiments: a page with what was found, a page to learn from, the plots, and the data.

use std::path::{Path, PathBuf};

use crate::reproduce::{Outcome, Reproduced};
use rmalab_job::{Error, Result};
use rmalab_report::drawing::draw;
use rmalab_report::finding::{Finding, Plot, Value};
use rmalab_report::folder::Folder;
use rmalab_report::html::{CSS, escape, inline, push, table};
use rmalab_report::numbers::digits;

/// A report of experiments that can be written, as has been made sure of before anything is measured.
#[derive(Debug)]
pub struct ReproductionReport {
    folder: Folder,
}

impl ReproductionReport {
    /// Makes sure that a report can be written at `path`, a folder that need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Report`] when there is a file of that name, when the folder holds anything but an older report, or when
    /// it cannot be written.
    pub fn prepare(path: &Path) -> Result<ReproductionReport> {
        Ok(ReproductionReport { folder: Folder::prepare(path)? })
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
        let csv = csv(outcome).map_err(|source| Error::File { path: "data.csv".into(), source })?;
        let pages = [("index.html", page(outcome, &figures)), ("docs.html", docs(outcome, &figures))];
        let pages = pages.each_ref().map(|(name, page)| (*name, page.as_str()));
        let svgs = figures.iter().map(|figure| (figure.name.as_str(), figure.svg.as_str()));
        Ok(self.folder.write(svgs, &json, &csv, &pages)?)
    }
}

/// A plot that was drawn.
struct Figure<'a> {
    /// The name of its file, without the ending.
    name: String,
    id: &'static str,
    plot: &'a Plot,
    svg: String,
}

fn figures(outcome: &Outcome) -> Result<Vec<Figure<'_>>> {
    let found = outcome.experiments.iter().filter_map(|one| Some((one.experiment.id, one.finding.as_ref().ok()?)));
    let plots = found.flat_map(|(id, finding)| finding.plots.iter().map(move |plot| (id, plot)));
    plots
        .map(|(id, plot)| {
            let name = format!("{id}-{}", plot.name);
            let svg = draw(plot).map_err(|why| Error::Drawing { figure: name.clone(), why })?;
            Ok(Figure { name, id, plot, svg })
        })
        .collect()
}

fn head(title: &str, outcome: &Outcome) -> String {
    let mut page = String::new();
    push(
        &mut page,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>rmalab: {title}</title>\n\
             <style>{CSS}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
             <p class=\"sub\">{} · {} · {} usable processors</p>\n",
            escape(&outcome.generator),
            escape(&outcome.started),
            escape(&outcome.machine.cpu),
            outcome.machine.cores
        ),
    );
    page
}

fn page(outcome: &Outcome, figures: &[Figure<'_>]) -> String {
    let mut page = head("The papers' experiments", outcome);
    let out = &mut page;
    if !outcome.complete {
        out.push_str(
            "<p class=\"warn\"><strong>Incomplete:</strong> the run was interrupted; experiments are missing.</p>\n",
        );
    }
    if outcome.machine.profile != "release" {
        let profile = escape(&outcome.machine.profile);
        push(
            out,
            format_args!("<p class=\"warn\"><strong>Not a release build</strong> ({profile}): times say little.</p>\n"),
        );
    }
    out.push_str(
        "<p>Each experiment follows a paper's protocol on this program's own stack: on processes of this machine at sizes \
         that fit it, and on simulated machines at the paper's. Absolute times of the papers' clusters are compared with \
         simulated ones only; ratios, orders and shapes with both. <a href=\"docs.html\">What each plot teaches</a>.</p>\n",
    );
    out.push_str("<div class=\"wide\"><table>\n<tr><th>experiment</th><th>what</th><th>source</th><th>the paper's finding</th></tr>\n");
    for one in &outcome.experiments {
        let id = one.experiment.id;
        let texts = [one.experiment.title, one.experiment.source].map(escape);
        let verdict = one.finding.as_ref().map_or("failed".into(), |finding| finding.verdict().to_string());
        push(
            out,
            format_args!(
                "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{verdict}</td></tr>\n",
                texts.join("</td><td>")
            ),
        );
    }
    out.push_str("</table></div>\n");
    for one in &outcome.experiments {
        section(out, one, figures);
    }
    out.push_str("<h2 id=\"machine\">Machine and build</h2>\n<table>\n");
    for (name, value) in outcome.machine.rows() {
        push(out, format_args!("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(&value)));
    }
    push(out, format_args!("</table>\n<p>Command:</p>\n<pre>{}</pre>\n</body>\n</html>\n", escape(&outcome.command)));
    page
}

fn section(out: &mut String, one: &Reproduced, figures: &[Figure<'_>]) {
    let experiment = one.experiment;
    let id = experiment.id;
    push(
        out,
        format_args!(
            "<h2 id=\"{id}\">{id}: {}</h2>\n<p class=\"sub\">{}</p>\n<p>{}</p>\n<p><strong>The paper:</strong> {}</p>\n",
            escape(experiment.title),
            escape(experiment.source),
            escape(experiment.protocol),
            escape(experiment.found)
        ),
    );
    let finding = match &one.finding {
        Ok(finding) => finding,
        Err(why) => {
            push(out, format_args!("<p class=\"warn\"><strong>Failed:</strong> {}</p>\n", escape(why)));
            return;
        }
    };
    push(out, format_args!("<p><strong>Here:</strong> {}</p>\n", escape(&finding.sentence())));
    claims(out, finding);
    for figure in figures.iter().filter(|figure| figure.id == id) {
        push(
            out,
            format_args!(
                "<figure id=\"{}\">\n{}\n<figcaption><a href=\"docs.html#{}\">How to read it</a></figcaption>\n</figure>\n",
                figure.name,
                inline(&figure.svg, &figure.plot.title),
                figure.name
            ),
        );
    }
    for found in &finding.tables {
        table(out, found);
    }
    push(
        out,
        format_args!("<p class=\"sub\">Took {} s. <code>rmalab reproduce {id}</code></p>\n", digits(one.seconds)),
    );
}

fn claims(out: &mut String, finding: &Finding) {
    out.push_str("<div class=\"wide\"><table>\n<tr><th></th><th>the paper</th><th>here</th></tr>\n");
    for claim in &finding.claims {
        let mark = if claim.holds { "holds" } else { "does not hold" };
        let texts = [&claim.paper, &claim.here].map(|text| escape(text));
        push(out, format_args!("<tr><td>{mark}</td><td>{}</td></tr>\n", texts.join("</td><td>")));
    }
    out.push_str("</table></div>\n");
}

/// Words that the lessons use.
const WORDS: [(&str, &str); 12] = [
    ("rank", "One of the processes (or threads) of a program that runs as many; they are numbered from 0."),
    ("window", "Memory of every rank that the others reach without its help, by put, get and accumulate."),
    ("origin, target", "The rank that issues an operation, and the rank whose memory it is about."),
    ("epoch", "The stretch of a program in which a rank may issue operations; its end makes them complete."),
    ("fence", "A collective call that ends one epoch of all ranks and begins the next."),
    (
        "PSCW",
        "Post, start, complete, wait: an epoch between named neighbours only. The target posts its window to a group and \
         waits; the origins start and complete.",
    ),
    ("lock, unlock", "An epoch in which the target takes no part: the origin locks its window, exclusively or shared."),
    ("lock_all", "A shared lock of all ranks' windows at once; most one-sided programs hold it for their whole life."),
    ("flush", "Makes the operations to a target complete, within an epoch of locks."),
    ("network atomic", "fetch_and_add, compare_and_swap and the like, carried out by the target's network adapter."),
    (
        "one-sided, two-sided",
        "Whether an operation is done by the origin and the network alone, or takes the target's processor as a message does.",
    ),
    ("overlap", "How much of a communication's time the processor may spend computing meanwhile."),
];

fn docs(outcome: &Outcome, figures: &[Figure<'_>]) -> String {
    let mut page = head("What each plot teaches", outcome);
    let out = &mut page;
    out.push_str("<p><a href=\"index.html\">What was found</a></p>\n<h2>Words</h2>\n<table>\n");
    for (word, meaning) in WORDS {
        push(out, format_args!("<tr><td>{}</td><td>{}</td></tr>\n", escape(word), escape(meaning)));
    }
    out.push_str(
        "</table>\n<p>Solid lines with filled marks were measured on this machine, those with hollow marks were simulated, \
         dashed ones are published. Lines of one colour belong together. Most axes are logarithmic: a straight line is a \
         power law there, and lines that keep their distance keep their ratio.</p>\n",
    );
    for one in &outcome.experiments {
        let (experiment, id) = (one.experiment, one.experiment.id);
        push(
            out,
            format_args!("<h2 id=\"{id}\">{}</h2>\n<p>{}</p>\n", escape(experiment.title), escape(experiment.lesson)),
        );
        for figure in figures.iter().filter(|figure| figure.id == id) {
            push(
                out,
                format_args!(
                    "<h3 id=\"{}\">{}</h3>\n<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
                    figure.name,
                    escape(&figure.plot.title),
                    inline(&figure.svg, &figure.plot.title),
                    escape(&figure.plot.text)
                ),
            );
        }
        if let Ok(finding) = &one.finding {
            let sentence = escape(&finding.sentence());
            push(out, format_args!("<p>{sentence} <a href=\"index.html#{id}\">The figures</a>.</p>\n"));
        }
    }
    out.push_str("</body>\n</html>\n");
    page
}

/// Every value of every table on a line of its own, and the claims.
fn csv(outcome: &Outcome) -> std::io::Result<Vec<u8>> {
    let mut to = csv::Writer::from_writer(Vec::new());
    to.write_record(["experiment", "table", "row", "column", "value", "unit"])?;
    for one in &outcome.experiments {
        let Ok(finding) = &one.finding else { continue };
        let id = one.experiment.id;
        for claim in &finding.claims {
            to.write_record([id, "claims", &claim.paper, &claim.here, if claim.holds { "1" } else { "0" }, "holds"])?;
        }
        for table in &finding.tables {
            for row in &table.rows {
                let name = row.first().map(ToString::to_string).unwrap_or_default();
                for (column, value) in table.columns.iter().zip(row).skip(1) {
                    let (value, unit) = plain(value);
                    to.write_record([id, &table.title, &name, column, &value, unit])?;
                }
            }
        }
    }
    to.into_inner().map_err(|error| error.into_error())
}

/// A value without its unit, and the unit.
fn plain(value: &Value) -> (String, &'static str) {
    match value {
        Value::Text(text) => (text.clone(), ""),
        Value::Time(ns) => (ns.to_string(), "ns"),
        Value::Rate(rate) => (rate.to_string(), "1/s"),
        Value::Bytes(bytes) => (bytes.to_string(), "B"),
        Value::Bandwidth(rate) => (rate.to_string(), "B/s"),
        Value::Ratio(ratio) => (ratio.to_string(), "times"),
        Value::Share(share) => (share.to_string(), "of 1"),
        Value::Count(count) => (count.to_string(), ""),
        Value::Number(number) => (number.to_string(), ""),
        Value::None => (String::new(), ""),
    }
}
