//! The report's folder. It is written completely or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::document::Document;
use crate::error::describe_io;
use crate::{Error, Result, chart, html, markdown, tabular};

/// Names in a report. A folder that holds anything else is not replaced.
pub const CONTENTS: [&str; 6] = ["index.html", "index.md", "docs.html", "data.csv", "data.json", "plots"];

/// The figures of a document: the names of their files, without the extension, and the files.
pub fn figures(document: &Document) -> Vec<(String, String)> {
    let plots = document.sections.iter().flat_map(|section| {
        let plots = section.finding.plots.iter().map(|plot| (&plot.name, chart::plot(plot)));
        let bars = section.bars.iter().map(|bars| (&bars.name, vec![chart::bars(bars)]));
        plots.chain(bars).map(|(name, panels)| (format!("{}-{name}", section.id), chart::file(&panels)))
    });
    plots.collect()
}

/// The destination of a report, known to be writable.
#[derive(Debug)]
pub struct Folder {
    /// The path as given, for errors.
    named: PathBuf,
    target: PathBuf,
    /// The draft of the report: beside the target, so that a rename moves it there. It exists only from
    /// [`draft`](Folder::draft) until this value is dropped, so that a killed measurement leaves nothing.
    draft: PathBuf,
}

impl Folder {
    /// Checks that a report can be written at `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`] when `path` is not a folder, holds anything that a report does not, or cannot be written.
    pub fn prepare(path: &Path) -> Result<Folder> {
        let fail = |why: String| Error::Folder { path: path.to_owned(), why };
        // Replaces the target of a link, not the link.
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::path::absolute(path).map_err(|error| fail(error.to_string()))?
            }
            Err(error) => return Err(fail(error.to_string())),
        };
        if target.exists() {
            replaceable(&target).map_err(fail)?;
        }
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(fail("it has no parent folder".into()));
        };
        fs::create_dir_all(parent)
            .map_err(|error| fail(format!("cannot create {}: {}", parent.display(), describe_io(&error))))?;
        let draft = parent.join(format!(".{}.draft-{}", name.to_string_lossy(), std::process::id()));
        // This only checks that it can be created.
        fs::create_dir(&draft).and_then(|()| fs::remove_dir(&draft)).map_err(|error| {
            fail(format!("its parent folder {} cannot be written: {}", parent.display(), describe_io(&error)))
        })?;
        Ok(Folder { named: path.to_owned(), target, draft })
    }

    /// Writes the report of a document, all of it or nothing, and returns its path.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::Folder`] when a write fails after all. They name the path as given, not the draft's.
    pub fn write(self, document: &Document) -> Result<PathBuf> {
        self.draft()?;
        self.put("plots", |path| fs::create_dir(path))?;
        let write = |name: &str, text: String| self.put(name, |path| fs::write(path, text));
        for (name, svg) in figures(document) {
            write(&format!("plots/{name}.svg"), svg)?;
        }
        write("data.json", document.json())?;
        write("data.csv", tabular::document(document))?;
        write("index.md", markdown::document(document))?;
        write("index.html", html::document(document))?;
        self.publish()
    }

    /// Creates the folder of the draft.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if that fails.
    fn draft(&self) -> Result<&Path> {
        fs::create_dir(&self.draft).map_err(|source| Error::File { path: self.named.clone(), source })?;
        Ok(&self.draft)
    }

    /// Creates a file or folder of the draft.
    fn put(&self, name: &str, create: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
        create(&self.draft.join(name)).map_err(|source| Error::File { path: self.named.join(name), source })
    }

    /// Moves the finished report to its target, and replaces an older report there.
    fn publish(self) -> Result<PathBuf> {
        let fail = |why: String| Error::Folder { path: self.named.clone(), why };
        if self.target.exists() {
            // There may be a new file by now.
            replaceable(&self.target).map_err(fail)?;
            // One step where the file system supports it. The old report then replaces the draft, and is dropped.
            if renameat_with(CWD, &self.draft, CWD, &self.target, RenameFlags::EXCHANGE).is_ok() {
                return Ok(self.target.clone());
            }
            fs::remove_dir_all(&self.target).map_err(|error| fail(describe_io(&error)))?;
        }
        fs::rename(&self.draft, &self.target).map_err(|error| fail(describe_io(&error)))?;
        Ok(self.target.clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After a publication it does not exist, or it is the old report. If it cannot be removed, it does no harm.
        let _ = fs::remove_dir_all(&self.draft);
    }
}

/// Returns why `target` cannot be replaced, unless it is an older report or an empty folder.
fn replaceable(target: &Path) -> Result<(), String> {
    if !target.is_dir() {
        return Err("it is a file; give another folder".into());
    }
    let entries = fs::read_dir(target)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
        .map_err(|error| error.to_string())?;
    if entries.is_empty() {
        return Ok(());
    }
    let foreign = entries.iter().find(|name| !CONTENTS.iter().any(|ours| name.as_os_str() == *ours));
    let ours = fs::read(target.join("data.json"))
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        // Reports of older versions have it at the top.
        .is_some_and(|data| {
            [&data["run"]["generator"], &data["generator"]]
                .iter()
                .any(|generator| generator.as_str().is_some_and(|generator| generator.starts_with("rmalab ")))
        });
    match (foreign, ours) {
        (None, true) => Ok(()),
        (Some(name), true) => Err(format!(
            "it holds '{}', which is not part of a report and would be lost; move it away, or give another folder",
            name.display()
        )),
        (_, false) => Err("it is not empty and was not written by rmalab; give another folder".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(at: &Path) {
        fs::create_dir(at).unwrap();
        fs::write(at.join("data.json"), r#"{"run": {"generator":"rmalab 0"}}"#).unwrap();
        fs::write(at.join("index.html"), "old").unwrap();
    }

    #[test]
    fn an_older_report_is_replaced_and_the_draft_is_removed() {
        let at = tempfile::tempdir().unwrap();
        let target = at.path().join("report");
        report(&target);
        let folder = Folder::prepare(&target).unwrap();
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 1, "no folder exists ahead of the first write");
        fs::write(folder.draft().unwrap().join("index.html"), "new").unwrap();
        folder.publish().unwrap();
        assert_eq!(fs::read_to_string(target.join("index.html")).unwrap(), "new");
        assert!(!target.join("data.json").exists());
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unused_folder_leaves_no_trace() {
        let at = tempfile::tempdir().unwrap();
        drop(Folder::prepare(&at.path().join("report")).unwrap());
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
    }

    #[test]
    fn foreign_files_are_kept() {
        let at = tempfile::tempdir().unwrap();
        let foreign = at.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("thesis.tex"), "").unwrap();
        assert!(Folder::prepare(&foreign).unwrap_err().to_string().contains("not written by rmalab"));
        let mixed = at.path().join("mixed");
        report(&mixed);
        fs::write(mixed.join("notes.txt"), "").unwrap();
        assert!(Folder::prepare(&mixed).unwrap_err().to_string().contains("notes.txt"));
        let file = at.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Folder::prepare(&file).unwrap_err().to_string().contains("it is a file"));
        assert!(Folder::prepare(&file.join("below")).is_err());
    }

    #[test]
    fn a_file_created_during_the_measurement_is_kept() {
        let at = tempfile::tempdir().unwrap();
        let target = at.path().join("report");
        let folder = Folder::prepare(&target).unwrap();
        folder.draft().unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("thesis.tex"), "").unwrap();
        assert!(folder.publish().is_err());
        assert!(target.join("thesis.tex").exists());
    }
}
