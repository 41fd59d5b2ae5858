//! Reports: a folder with one self-contained page, its figures, and the data.

#[path = "../../../papers/src/compare/report.rs"]
mod comparison;
mod data;
mod figures;
#[path = "../../../report/src/folder.rs"]
mod folder;
#[path = "report/page.rs"]
mod html;
#[path = "../../../report/src/plots.rs"]
mod plots;
#[path = "../../../papers/src/reproduce/report.rs"]
mod reproduction;
#[path = "../simulate/report.rs"]
mod simulated;

use std::fs;
use std::path::{Path, PathBuf};

pub use comparison::ComparisonReport;
pub use data::{csv, json};
use folder::Folder;
pub use reproduction::ReproductionReport;
pub use simulated::SimulationReport;
pub(crate) use simulated::one_plot;

use crate::study::Outcome;
use crate::{Error, Result};

/// A report that can be written, as has been made sure of before anything is measured.
#[derive(Debug)]
pub struct Report {
    folder: Folder,
}

impl Report {
    /// Makes sure that a report can be written at `path`, a folder that need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Report`] when there is a file of that name, when the folder holds anything but an older report, or when
    /// it cannot be written.
    pub fn prepare(path: &Path) -> Result<Report> {
        Folder::prepare(path).map(|folder| Report { folder })
    }

    /// Writes the report, all of it or nothing, and returns where it is.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Report`] when it cannot be written after all, [`Error::Drawing`] when a figure fails.
    pub fn write(self, outcome: &Outcome) -> Result<PathBuf> {
        let figures = figures::all(outcome)?;
        let (mut data, mut table) = (Vec::new(), Vec::new());
        let filled = json(outcome, &mut data).and_then(|()| csv(outcome, &mut table));
        filled.map_err(|source| Error::File { path: "data.json and data.csv".into(), source })?;
        let page = html::page(outcome, &figures);
        let svgs = figures.iter().map(|figure| (figure.name.as_str(), figure.svg.as_str()));
        publish(self.folder, svgs, &data, &table, &[("index.html", &page)])
    }
}

/// Writes a report's parts into its folder, all of them or nothing, and returns where it is.
fn publish<'a>(
    folder: Folder,
    figures: impl Iterator<Item = (&'a str, &'a str)>,
    json: &[u8],
    csv: &[u8],
    pages: &[(&str, &str)],
) -> Result<PathBuf> {
    let draft = folder.draft()?;
    let plots = draft.join("plots");
    fs::create_dir(&plots).map_err(|source| Error::File { path: plots.clone(), source })?;
    for (name, svg) in figures {
        write(&plots.join(format!("{name}.svg")), svg.as_bytes())?;
    }
    write(&draft.join("data.json"), json)?;
    write(&draft.join("data.csv"), csv)?;
    for (name, page) in pages {
        write(&draft.join(name), page.as_bytes())?;
    }
    folder.publish()
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// A number as short as it can be told: no decimals that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
