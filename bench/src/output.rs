//! Output options, which have the same meaning in every command.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum, ValueHint};
use rmalab_job::say;

use crate::document::Document;
use crate::document::folder::Folder;
use crate::document::{markdown, tabular, text};
use crate::{Error, Result};

/// The options of output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Format of the result
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Write the result to FILE [default: standard output]
    #[arg(long, short, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write a report to the folder DIR: a page with its plots, and the data as JSON and CSV. It replaces only an older
    /// report [default: none]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) report: Option<PathBuf>,
    /// Print only the result and errors, without progress and notes
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// The formats of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Tables for a terminal
    Text,
    /// The whole document, which `rmalab report` and `rmalab diff` read
    Json,
    /// One line for each measurement
    Csv,
    /// A page of Markdown
    Markdown,
}

/// The destination of a document, checked before the measurements.
pub(crate) struct Outlet {
    format: Format,
    /// The file; `None` is standard output.
    file: Option<ResultFile>,
    report: Option<(PathBuf, Folder)>,
    quiet: bool,
}

impl OutputArgs {
    /// Checks that the destination is writable. `report` is the default folder of the report, for a result that is text on standard
    /// output. A result in a file, or in another format, needs no report by default.
    pub(crate) fn prepare(&self, report: Option<&str>) -> Result<Outlet> {
        let default = report.filter(|_| self.format == Format::Text && self.output.is_none());
        let report = self.report.clone().or(default.map(PathBuf::from));
        let report = report.map(|path| Ok::<_, Error>((path.clone(), Folder::prepare(&path)?))).transpose()?;
        let path = self.output.as_deref().filter(|path| *path != Path::new("-"));
        Ok(Outlet { format: self.format, file: path.map(ResultFile::open).transpose()?, report, quiet: self.quiet })
    }

    /// Writes data that are no document, by `write`, to the file or to standard output. A closed reader of standard output is no error.
    /// `stop` ends the writing, and a file keeps no part of the data then.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the options ask for a document; [`Error::File`] if a write fails; [`Error::Interrupted`] after `stop`.
    pub(crate) fn write_data(
        &self,
        stop: &AtomicBool,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        if self.format != Format::Text || self.report.is_some() {
            return Err(Error::usage("the result has one format and no report: leave out --format and --report"));
        }
        let done = match self.prepare(None)?.file {
            Some(mut file) => file.write(|to| write(&mut Stoppable { to, stop })),
            None => {
                let mut to = Stoppable { to: BufWriter::new(io::stdout().lock()), stop };
                let done = write(&mut to).and_then(|()| to.flush());
                done.map_err(|source| Error::File { path: "standard output".into(), source })
            }
        };
        match done {
            Err(Error::File { .. }) if stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }

    /// The report's default folder, if the command line names none.
    pub(crate) fn folder(&self, default: &str) -> PathBuf {
        self.report.clone().unwrap_or_else(|| default.into())
    }
}

impl Outlet {
    /// Writes the document and its report, and prints the report's path. The document of an interrupted run does not replace
    /// the report of a complete one.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if a write fails. A closed reader of standard output is no error.
    pub(crate) fn write(mut self, document: &Document) -> Result<()> {
        let rendered = self.render(document);
        self.print(&rendered)?;
        self.report(document)
    }

    /// Writes text to the file, or to standard output.
    pub(crate) fn print(&mut self, text: &str) -> Result<()> {
        match &mut self.file {
            None => print(text),
            Some(file) => file.write(|to| to.write_all(text.as_bytes())),
        }
    }

    /// Returns whether the result is text for people, so that the command may print parts of it early.
    pub(crate) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// Returns the greatest width of lines of text.
    pub(crate) fn width(&self) -> usize {
        if self.file.is_some() { usize::MAX } else { width() }
    }

    /// Formats the document as requested.
    pub(crate) fn render(&self, document: &Document) -> String {
        match self.format {
            Format::Text => text::document(document, self.width()),
            Format::Json => document.json(),
            Format::Csv => tabular::document(document),
            Format::Markdown => markdown::document(document),
        }
    }

    /// Writes the report, if requested, and prints its path.
    pub(crate) fn report(self, document: &Document) -> Result<()> {
        let Some((path, folder)) = self.report else { return Ok(()) };
        let older = Document::read(&path).ok();
        if !document.run.complete && older.as_ref().is_some_and(|older| older.run.complete) {
            say!("interrupted: {} still holds the report of an earlier, complete run", path.display());
            return Ok(());
        }
        folder.write(document)?;
        let page = path.join("index.html");
        match older {
            // A quiet run prints this, too: the older report is gone.
            Some(older) => say!("report: {}, in place of the report of {}", page.display(), older.run.started),
            None if self.quiet => {}
            None => say!("report: {}", page.display()),
        }
        Ok(())
    }
}

/// A file for a result, known to be writable. It keeps its earlier contents until the first write. Without a complete result at the
/// end, a new file is removed, and an older one is empty or as it was.
pub(crate) struct ResultFile {
    path: PathBuf,
    file: File,
    is_new: bool,
    state: Written,
}

/// What a [`ResultFile`] has so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Nothing,
    Part,
    All,
}

impl ResultFile {
    /// Opens the file, and creates it if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if it cannot be written.
    pub(crate) fn open(path: &Path) -> Result<ResultFile> {
        let mut options = File::options();
        options.write(true);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            // A link to a file that does not exist is no new file either.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path), false)
            }
            file => (file, true),
        };
        let file = file.map_err(|error| Error::usage(format!("{} cannot be written: {error}", path.display())))?;
        Ok(ResultFile { path: path.to_owned(), file, is_new, state: Written::Nothing })
    }

    /// Adds what `write` writes.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if a write fails.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut done = Ok(());
        if self.state == Written::Nothing {
            self.state = Written::Part;
            done = self.empty();
        }
        let mut to = BufWriter::new(&self.file);
        done = done.and_then(|()| write(&mut to)).and_then(|()| to.flush());
        // A buffer that is dropped would be written after all.
        let _ = to.into_parts();
        done.map_err(|source| Error::File { path: self.path.clone(), source })?;
        self.state = Written::All;
        Ok(())
    }

    /// Removes the contents, unless it is a pipe or a device.
    fn empty(&self) -> io::Result<()> {
        if self.file.metadata()?.is_file() { self.file.set_len(0) } else { Ok(()) }
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        // If this fails, an empty or incomplete file is left; the error of the write has its name.
        let _ = match self.state {
            Written::Nothing | Written::Part if self.is_new => std::fs::remove_file(&self.path),
            Written::Part => self.empty(),
            Written::Nothing | Written::All => Ok(()),
        };
    }
}

/// A destination whose writes fail after `stop`.
struct Stoppable<'a, W> {
    to: W,
    stop: &'a AtomicBool,
}

impl<W: Write> Write for Stoppable<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A write of the kind `Interrupted` would be tried again.
        if self.stop.load(Ordering::Relaxed) { Err(io::Error::other("stopped")) } else { self.to.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes to standard output. Ignores a closed reader.
///
/// # Errors
///
/// [`Error::File`] for all other errors, such as a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut to = io::stdout().lock();
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(source) => Err(Error::File { path: "standard output".into(), source }),
        Ok(()) => Ok(()),
    }
}

/// Creates a folder that an argument names, if there is none.
///
/// # Errors
///
/// [`Error::Usage`] if that fails.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| {
        let why = if path.is_file() { "it is a file; give another folder".into() } else { error.to_string() };
        Error::usage(format!("{} cannot be a folder: {why}", path.display()))
    })
}

/// The number of the terminal's columns; without a terminal, lines stay whole.
pub(crate) fn width() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    rustix::termios::tcgetwinsize(io::stdout()).map_or(text::WIDTH, |size| usize::from(size.ws_col.max(40)))
}

/// Escapes control characters in a message, which may contain text from files or arguments.
pub(crate) fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() && c != '\n' { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}
