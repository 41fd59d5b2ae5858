//! Reports: a folder with one self-contained page, its figures, and the data.

mod data;
mod figures;
mod folder;
mod html;
mod plots;

use std::fs;
use std::path::{Path, PathBuf};

pub use data::{csv, json};
use folder::Folder;

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
        let draft = self.folder.draft()?;
        let plots = draft.join("plots");
        fs::create_dir(&plots).map_err(|source| Error::File { path: plots.clone(), source })?;
        for figure in &figures {
            write(&plots.join(format!("{}.svg", figure.name)), figure.svg.as_bytes())?;
        }
        let into = |name: &str, fill: fn(&Outcome, &mut Vec<u8>) -> std::io::Result<()>| {
            let path = draft.join(name);
            let mut bytes = Vec::new();
            fill(outcome, &mut bytes).map_err(|source| Error::File { path: path.clone(), source })?;
            write(&path, &bytes)
        };
        into("data.json", |outcome, to| json(outcome, to))?;
        into("data.csv", |outcome, to| csv(outcome, to))?;
        write(&draft.join("index.html"), html::page(outcome, &figures).as_bytes())?;
        self.folder.publish()
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// A number as short as it can be told: no decimals that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
