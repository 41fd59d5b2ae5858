//! The report of a study: a folder with one self-contained page, its figures, and the data.

mod data;
mod figures;
mod page;

use std::path::{Path, PathBuf};

pub use data::{csv, json};
use rmalab_report::folder::Folder;

use crate::study::Outcome;
use rmalab_job::{Error, Result};

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
        Ok(Report { folder: Folder::prepare(path)? })
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
        let page = page::page(outcome, &figures);
        let svgs = figures.iter().map(|figure| (figure.name.as_str(), figure.svg.as_str()));
        Ok(self.folder.write(svgs, &data, &table, &[("index.html", &page)])?)
    }
}
