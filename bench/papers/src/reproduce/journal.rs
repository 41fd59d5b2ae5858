//! The journal of an unfinished run: a file of results, one on each line, from which a stopped or killed run resumes.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use rmalab_job::{Error, Result};

/// Results by their keys; each is written to the file first.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    kept: HashMap<String, Value>,
}

/// The first line identifies the run. Results of another program, or with other options, are not usable.
#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    rmalab_journal: u32,
    of: String,
}

#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    key: std::borrow::Cow<'a, str>,
    value: Value,
}

/// The version of the file's format.
const VERSION: u32 = 1;

impl Journal {
    /// Opens the journal at `path`, or creates one. `of` identifies all data on which results depend beside their keys,
    /// such as the build; `fresh` discards existing results.
    ///
    /// An incomplete last line is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when the file is not a journal, or has another `of`; [`Error::File`].
    pub fn open(path: &Path, of: &str, fresh: bool) -> Result<Journal> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let head = Head { rmalab_journal: VERSION, of: of.to_owned() };
        let file = OpenOptions::new().create(true).append(true).read(true).open(path).map_err(failed)?;
        // Until this process ends, in any way.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::usage(format!(
                    "another run writes {}; wait for it to end, or name another report",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = String::new();
        (&file).read_to_string(&mut text).map_err(failed)?;
        let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut kept = HashMap::new();
        let mut sound = 0;
        if let Some(first) = lines.next() {
            let found: Head = serde_json::from_str(first).map_err(|_| {
                Error::usage(format!(
                    "{} is not the journal of an unfinished run; move it away, or name another report",
                    path.display()
                ))
            })?;
            if found != head && !fresh {
                return Err(Error::usage(format!(
                    "{} has results of another run ({}); resume that one, or start again with --fresh",
                    path.display(),
                    found.of
                )));
            }
            if !fresh {
                sound = first.len();
                for line in lines {
                    let Ok(entry) = serde_json::from_str::<Entry<'_>>(line) else { break };
                    kept.insert(entry.key.into_owned(), entry.value);
                    sound += line.len();
                }
            }
        } else if !serde_json::to_string(&head).expect("two values are JSON").starts_with(&text) {
            return Err(Error::usage(format!(
                "{} is not the journal of an unfinished run; move it away, or name another report",
                path.display()
            )));
        }
        file.set_len(sound as u64).map_err(failed)?;
        let mut journal = Journal { path: path.to_owned(), file, kept };
        if sound == 0 {
            journal.line(&head)?;
        }
        Ok(journal)
    }

    /// The number of results.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The result with that key.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.kept.get(key)
    }

    /// Adds a result.
    pub(crate) fn put(&mut self, key: &str, value: Value) -> Result<()> {
        self.line(&Entry { key: key.into(), value: value.clone() })?;
        self.kept.insert(key.to_owned(), value);
        Ok(())
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).expect("a result is JSON");
        line.push(b'\n');
        self.file.write_all(&line).map_err(|source| Error::File { path: self.path.clone(), source })
    }

    /// Removes the file at the end of the run.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn finish(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|source| Error::File { path: self.path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_a_kill_in_the_middle_of_a_line() {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("journal");
        let mut journal = Journal::open(&path, "build 1", false).unwrap();
        journal.put("a", 1.5.into()).unwrap();
        journal.put("b", 2.5.into()).unwrap();
        drop(journal);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        let mut journal = Journal::open(&path, "build 1", false).unwrap();
        assert_eq!((journal.value("a"), journal.value("b")), (Some(&1.5.into()), None));
        journal.put("b", 3.5.into()).unwrap();
        drop(journal);
        let journal = Journal::open(&path, "build 1", false).unwrap();
        assert_eq!((journal.len(), journal.value("b")), (2, Some(&3.5.into())));
        journal.finish().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn two_runs_do_not_share_a_journal() {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("journal");
        let mut journal = Journal::open(&path, "build 1", false).unwrap();
        for fresh in [false, true] {
            let error = Journal::open(&path, "build 1", fresh).unwrap_err().to_string();
            assert!(error.contains("another run"), "{error}");
        }
        journal.put("a", 1.into()).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&path, "build 1", false).unwrap().value("a"), Some(&1.into()));
    }

    #[test]
    fn other_files_and_other_runs_are_refused() {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("journal");
        for (text, fresh) in
            [("a thesis", false), ("a thesis", true), ("of\ntwo lines", false), ("of\ntwo lines", true)]
        {
            fs::write(&path, text).unwrap();
            let error = Journal::open(&path, "build 1", fresh).unwrap_err().to_string();
            assert!(error.contains("is not the journal"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::remove_file(&path).unwrap();
        Journal::open(&path, "build 1", false).unwrap().put("a", 1.into()).unwrap();
        let error = Journal::open(&path, "build 2", false).unwrap_err().to_string();
        assert!(error.contains("another run (build 1)") && error.contains("--fresh"), "{error}");
        assert!(Journal::open(&path, "build 2", true).unwrap().is_empty());
        assert!(Journal::open(&path, "build 2", false).unwrap().is_empty());
    }
}
