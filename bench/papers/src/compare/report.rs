//! The report of a comparison: a page with what was found, the plots, and the data.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::summary::times;
use super::{Bar, Outcome, What};
use rmalab_job::{Error, Result};
use rmalab_report::drawing::draw;
use rmalab_report::folder::Folder;
use rmalab_report::html::table;
use rmalab_report::html::{CSS, escape, inline, push};

/// A report of a comparison that can be written, as has been made sure of before anything is measured.
#[derive(Debug)]
pub struct ComparisonReport {
    folder: Folder,
}

impl ComparisonReport {
    /// Makes sure that a report can be written at `path`, a folder that need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Report`] when there is a file of that name, when the folder holds anything but an older report, or when
    /// it cannot be written.
    pub fn prepare(path: &Path) -> Result<ComparisonReport> {
        Ok(ComparisonReport { folder: Folder::prepare(path)? })
    }

    /// Writes the report, all of it or nothing, and returns where it is.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Report`] when it cannot be written after all, [`Error::Drawing`] when a figure fails.
    pub fn write(self, outcome: &Outcome) -> Result<PathBuf> {
        let mut figures: Vec<(String, String)> = Vec::new();
        if !outcome.summary.bars.is_empty() {
            figures.push(("ratios".into(), bars(&outcome.summary.bars)));
        }
        for plot in &outcome.summary.plots {
            let svg = draw(plot).map_err(|why| Error::Drawing { figure: plot.name.clone(), why })?;
            figures.push((plot.name.clone(), svg));
        }
        let mut json = serde_json::to_vec_pretty(outcome).expect("numbers and texts are JSON");
        json.push(b'\n');
        let csv = csv(outcome).map_err(|source| Error::File { path: "data.csv".into(), source })?;
        let page = page(outcome, &figures);
        let svgs = figures.iter().map(|(name, svg)| (name.as_str(), svg.as_str()));
        Ok(self.folder.write(svgs, &json, &csv, &[("index.html", &page)])?)
    }
}

fn page(outcome: &Outcome, figures: &[(String, String)]) -> String {
    let mut page = String::new();
    let out = &mut page;
    push(
        out,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>rmalab: beside others</title>\n\
             <style>{CSS}</style>\n</head>\n<body>\n<h1>rmalab beside others</h1>\n\
             <p class=\"sub\">{} · {} · {} usable processors</p>\n",
            escape(&outcome.generator),
            escape(&outcome.started),
            escape(&outcome.machine.cpu),
            outcome.machine.cores
        ),
    );
    if !outcome.complete {
        out.push_str(
            "<p class=\"warn\"><strong>Incomplete:</strong> the run was interrupted; figures are of fewer repetitions.</p>\n",
        );
    }
    push(
        out,
        format_args!(
            "<p>The same measurements through every implementation, in one interleaved run: medians of {} repetitions. Windows are \
             allocated ones, ranks are processes, bound to cores in turn. A ratio is the time of the best of the others by \
             ours: above 1 ours is faster.</p>\n",
            outcome.repetitions
        ),
    );
    let summary = &outcome.summary;
    if !summary.goals.is_empty() {
        out.push_str("<div class=\"wide\"><table>\n<tr><th></th><th>goal</th><th>here</th></tr>\n");
        for goal in &summary.goals {
            let met = if goal.met { "met" } else { "not met" };
            push(
                out,
                format_args!("<tr><td>{met}</td><td>{}</td><td>{}</td></tr>\n", escape(&goal.goal), escape(&goal.here)),
            );
        }
        out.push_str("</table></div>\n");
    }
    if let Some((_, svg)) = figures.iter().find(|(name, _)| name == "ratios") {
        push(
            out,
            format_args!(
                "<h2>Two ranks: how many times faster</h2>\n<figure>\n{}\n<figcaption>Each bar is one operation: the time of the \
                 best of the others by ours, on a logarithmic scale. Bars to the right of the line are operations that are \
                 faster here, bars to the left those that are slower.</figcaption>\n</figure>\n",
                inline(svg, "Ratios")
            ),
        );
    }
    out.push_str("<h2>Figures</h2>\n");
    for found in &summary.tables {
        table(out, found);
    }
    if !summary.plots.is_empty() {
        out.push_str("<h2>More ranks and threads</h2>\n");
    }
    for plot in &summary.plots {
        let Some((_, svg)) = figures.iter().find(|(name, _)| *name == plot.name) else { continue };
        push(
            out,
            format_args!(
                "<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
                inline(svg, &plot.title),
                escape(&plot.text)
            ),
        );
    }
    out.push_str("<h2>Versions and notes</h2>\n<ul>\n");
    for note in &summary.notes {
        push(out, format_args!("<li>{}</li>\n", escape(note)));
    }
    out.push_str("</ul>\n<h2 id=\"machine\">Machine and build</h2>\n<table>\n");
    for (name, value) in outcome.machine.rows() {
        push(out, format_args!("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(&value)));
    }
    push(out, format_args!("</table>\n<p>Command:</p>\n<pre>{}</pre>\n</body>\n</html>\n", escape(&outcome.command)));
    page
}

/// Ratios as bars from a line at 1, on a logarithmic scale.
fn bars(bars: &[Bar]) -> String {
    const NAMES: f64 = 380.0;
    const WIDTH: f64 = 420.0;
    const LABELS: f64 = 70.0;
    const ROW: f64 = 20.0;
    let most = bars.iter().map(|bar| bar.ratio.ln()).fold(2.0_f64.ln(), f64::max);
    let least = bars.iter().map(|bar| bar.ratio.ln()).fold(0.5_f64.ln(), f64::min);
    let at = |ratio: f64| NAMES + LABELS + (ratio.ln() - least) / (most - least) * WIDTH;
    let (width, height) = (NAMES + WIDTH + 2.0 * LABELS, ROW * (bars.len() as f64 + 0.5));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (place, bar) in bars.iter().enumerate() {
        let (y, one, end) = (ROW * (place as f64 + 0.25), at(1.0), at(bar.ratio));
        let (x, length) = (one.min(end), (end - one).abs());
        let (colour, anchor, label) =
            if bar.ratio >= 1.0 { ("#0072b2", "start", end + 4.0) } else { ("#d55e00", "end", end - 4.0) };
        let _ = writeln!(
            svg,
            "<text x=\"{NAMES}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" \
             height=\"14\" fill=\"{colour}\"/><text x=\"{label:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            y + 11.0,
            escape(&bar.title),
            y + 11.0,
            times(bar.ratio)
        );
    }
    let one = at(1.0);
    let _ =
        writeln!(svg, "<line x1=\"{one:.1}\" y1=\"0\" x2=\"{one:.1}\" y2=\"{height}\" stroke=\"#282828\"/>\n</svg>");
    svg
}

/// Every measurement on a line of its own.
fn csv(outcome: &Outcome) -> std::io::Result<Vec<u8>> {
    let mut to = csv::Writer::from_writer(Vec::new());
    to.write_record(["what", "ranks or threads", "writers of 100", "who", "repetition", "ns"])?;
    for cell in &outcome.cells {
        let (what, ranks, writers) = match &cell.what {
            What::Operation { name, ranks } => (name.as_str(), ranks, String::new()),
            What::Lock { threads, writers } => ("lock", threads, writers.to_string()),
        };
        for (repetition, ns) in cell.ns.iter().enumerate() {
            let (ranks, repetition, ns) = (ranks.to_string(), (repetition + 1).to_string(), ns.to_string());
            to.write_record([what, &ranks, &writers, &cell.who, &repetition, &ns])?;
        }
        for how in &cell.failures {
            to.write_record([what, &ranks.to_string(), &writers, &cell.who, "", how])?;
        }
    }
    to.into_inner().map_err(|error| error.into_error())
}
