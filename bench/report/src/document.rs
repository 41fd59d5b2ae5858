//! The document that every command returns. Renderers make text, Markdown, CSV, and pages of it; JSON stores it.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::finding::{Bars, Finding, Table};
use crate::machine::Machine;
use crate::{Error, Result};

/// The version of the JSON format. It changes when an older program cannot read a newer document.
pub const FORMAT: u32 = 1;

/// The largest file that is read as a document, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// The results of a command, with all data that a reader needs to read and to repeat them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Document {
    /// The format, [`FORMAT`].
    pub format: u32,
    /// The command that made it, such as `study`. Only documents of one kind can be compared.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// The result in words, a paragraph each.
    pub summary: Vec<String>,
    /// The command and its completion.
    pub run: Run,
    /// The machine.
    pub machine: Machine,
    /// The results.
    pub sections: Vec<Section>,
    /// Every measurement, a row each; it becomes the CSV file.
    pub data: Option<Table>,
}

/// The run that made a document.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The program and its version.
    pub generator: String,
    /// The command line, without the folders of the program and of the files that it writes.
    pub command: String,
    /// The time of its start (RFC 3339, UTC).
    pub started: String,
    /// True if it ran to its end. An interrupted run is incomplete.
    pub complete: bool,
    /// The seed of its random choices, if it made any.
    pub seed: Option<u64>,
}

impl Run {
    /// A run of this program that begins now.
    pub fn begin() -> Run {
        Run {
            generator: concat!("rmalab ", env!("CARGO_PKG_VERSION")).into(),
            command: command_of(std::env::args()),
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            complete: true,
            seed: None,
        }
    }
}

/// The options that name a command's output. A reader who repeats the command has other folders.
const DESTINATIONS: [&str; 3] = ["-o", "--output", "--report"];

fn command_of(words: impl Iterator<Item = String>) -> String {
    // The program comes first, as if an option had named it.
    let mut is_place = true;
    let short = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let words = words.map(|word| {
        let was_place = std::mem::replace(&mut is_place, DESTINATIONS.contains(&&*word));
        let joined = word.split_once('=').filter(|(option, _)| DESTINATIONS.contains(option));
        quoted(match joined {
            _ if was_place => short(&word),
            Some((option, path)) => format!("{option}={}", short(path)),
            None => word,
        })
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell.
fn quoted(word: String) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// A part of a document with a heading.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    /// Its name in links and in names of files: letters, digits and dashes, unique within the document.
    pub id: String,
    /// The heading.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Preformatted text, such as a diagram.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listings: Vec<String>,
    /// Claims, tables and plots.
    pub finding: Finding,
    /// Horizontal bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bars>,
    /// True if a page folds it and a terminal leaves it out.
    #[serde(default)]
    pub folded: bool,
}

impl Section {
    /// A section with a heading and no content.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Section {
        Section { id: id.into(), title: title.into(), ..Section::default() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn paragraph(mut self, text: impl Into<String>) -> Section {
        self.text.push(text.into());
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Section {
        self.finding.tables.push(table);
        self
    }

    /// Folds the section on a page, and leaves it out on a terminal.
    #[must_use]
    pub fn folded(self) -> Section {
        Section { folded: true, ..self }
    }
}

impl Document {
    /// A document without sections.
    pub fn new(kind: &str, title: impl Into<String>, run: Run, machine: Machine) -> Document {
        Document {
            format: FORMAT,
            kind: kind.into(),
            title: title.into(),
            summary: Vec::new(),
            run,
            machine,
            sections: Vec::new(),
            data: None,
        }
    }

    /// The document as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and texts are JSON") + "\n"
    }

    /// Formats the document as a program's arguments request: `--markdown`, `--json`, or by default text.
    pub fn for_arguments(&self, mut arguments: impl Iterator<Item = String>) -> String {
        match arguments.find(|argument| argument == "--markdown" || argument == "--json").as_deref() {
            Some("--markdown") => crate::markdown::document(self),
            Some(_) => self.json(),
            None => crate::text::document(self, usize::MAX),
        }
    }

    /// Reads a document from its JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Document`] if it is not a document, or has another format.
    pub fn from_json(text: &str) -> Result<Document> {
        let fail = |why: String| Error::Document { why };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| fail(format!("it is not JSON: {error}")))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(fail(format!("its format is {format}, but this program reads format {FORMAT}")));
            }
            None => return Err(fail("it is JSON, but not a document of rmalab".into())),
        }
        let document: Document =
            serde_json::from_value(value).map_err(|error| fail(format!("a part of it is invalid: {error}")))?;
        document.check().map_err(fail)?;
        Ok(document)
    }

    /// Checks constraints beyond the types, such as the length of rows.
    fn check(&self) -> std::result::Result<(), String> {
        let tables = self.sections.iter().flat_map(|section| &section.finding.tables).chain(&self.data);
        for table in tables {
            if table.keys > table.columns.len() || table.rows.iter().any(|row| row.len() != table.columns.len()) {
                return Err(format!("the table '{}' has a row of another length", table.title));
            }
        }
        for section in &self.sections {
            if !is_id(&section.id) {
                return Err(format!("'{}' is not a valid name of a section", section.id));
            }
            let finding = &section.finding;
            let names = finding.plots.iter().map(|plot| &plot.name).chain(section.bars.iter().map(|bars| &bars.name));
            if let Some(name) = names.into_iter().find(|name| !is_id(name)) {
                return Err(format!("'{name}' is not a valid name of a plot"));
            }
            for bars in &section.bars {
                if bars.rows.iter().any(|(_, parts)| parts.len() != bars.parts.len()) {
                    return Err(format!("the bars '{}' have a row of another length", bars.title));
                }
            }
        }
        Ok(())
    }

    /// Reads a document from a file, or from the folder of a report.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be read, [`Error::Document`] if it is not a document.
    pub fn read(path: &std::path::Path) -> Result<Document> {
        let is_folder = path.is_dir();
        let path = if is_folder { path.join("data.json") } else { path.to_owned() };
        if is_folder && !path.exists() {
            let folder = path.parent().unwrap_or(&path).display();
            return Err(Error::Document {
                why: format!("{folder} is a folder, but not a report: it has no data.json"),
            });
        }
        let fail = |source| Error::File { path: path.clone(), source };
        let file = std::fs::File::open(&path).map_err(fail)?;
        let wrong = |why: String| Error::Document { why: format!("{}: {why}", path.display()) };
        let mut bytes = Vec::new();
        let mut limited = std::io::Read::take(file, MOST_BYTES + 1);
        std::io::Read::read_to_end(&mut limited, &mut bytes).map_err(fail)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(wrong(format!("it is larger than {} MiB", MOST_BYTES >> 20)));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong("this is not text in UTF-8".into()))?;
        Document::from_json(&text).map_err(|error| wrong(reason(error)))
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Document { why } => why,
        other => other.to_string(),
    }
}

/// Checks a name, which becomes a part of paths and links.
fn is_id(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::finding::{Axis, Basis, Cell, Claim, Column, Origin, Plot, Quantity, Series, Value};

    /// A document with one of each kind of content.
    pub(crate) fn example() -> Document {
        let mut document = Document::new("study", "Locks & <windows>", Run::begin(), Machine::default());
        document.summary.push("mcs wins where many ranks write.".into());
        let columns = [Column::from("lock"), "2 ranks".into(), Column::higher("Jain")];
        let mut table = Table::new("Throughput", columns);
        for (place, name) in ["mcs", "ticket", "tas"].into_iter().enumerate() {
            let rate = 1e6 / (place + 1) as f64;
            let spread = Cell::from(Value::Rate(rate)).between(rate * 0.9, rate * 1.1);
            table.row([Cell::from(name), spread, Cell::from(Value::Number(0.9))]);
        }
        document.data = Some(table.clone());
        let mut section = Section::new("local", "Threads").paragraph("How fast.").table(table);
        let line = |place: usize| Series {
            name: format!("lock-{place}"),
            origin: [Origin::Measured, Origin::Simulated, Origin::Published, Origin::Bound][place % 4],
            style: place,
            points: (0..4)
                .map(|power| (f64::from(1 << power), 3e7 * (place + 1) as f64 / f64::from(power + 1)))
                .collect(),
            spread: (0..4).map(|power| (2.7e7 / f64::from(power + 1), 3e8)).collect(),
            group: String::new(),
        };
        section.finding.plots.push(Plot {
            name: "throughput".into(),
            title: "Throughput".into(),
            x: Axis::new("ranks", Quantity::Count),
            y: Axis::new("acquisitions per second, all ranks", Quantity::Rate),
            series: (0..9).map(line).collect(),
            text: "Higher is better.".into(),
        });
        section.bars.push(Bars {
            name: "operations".into(),
            title: "Operations".into(),
            axis: Axis::new("operations for a pair", Quantity::Number),
            parts: vec!["near".into(), "far".into()],
            stacked: true,
            rows: vec![
                ("mcs".into(), vec![Some((0.0, 2.0)), Some((2.0, 5.0))]),
                ("tas".into(), vec![None, Some((0.0, 9.0))]),
            ],
            text: "Lower is better.".into(),
        });
        section.finding.claims.push(Claim {
            expected: "constant".into(),
            here: "linear".into(),
            holds: false,
            basis: Basis::Found,
        });
        section.listings.push("rank 0 ──▶ <home>".into());
        document.sections.push(section);
        document
    }

    #[test]
    fn documents_survive_json() {
        let document = example();
        assert_eq!(Document::from_json(&document.json()).unwrap(), document);
    }

    #[test]
    fn invalid_documents_are_refused() {
        let refused = |text: &str| Document::from_json(text).unwrap_err().to_string();
        assert!(refused("{").contains("not JSON"));
        assert!(refused("{}").contains("not a document of rmalab"));
        assert!(refused("{\"format\": 99}").contains("format is 99"));
        let mut short = example();
        short.sections[0].finding.tables[0].rows[0].pop();
        assert!(refused(&short.json()).contains("another length"));
        let mut climbing = example();
        climbing.sections[0].finding.plots[0].name = "../../x".into();
        assert!(refused(&climbing.json()).contains("not a valid name of a plot"));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--ranks=1,2".into()), "--ranks=1,2");
        assert_eq!(quoted("it's".into()), "'it'\\''s'");
    }

    #[test]
    fn a_file_that_is_not_text_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0xff, 0xfe]).unwrap();
        let said = Document::read(file.path()).unwrap_err().to_string();
        assert_eq!(said, format!("{}: this is not text in UTF-8", file.path().display()));
    }

    #[test]
    fn a_command_names_no_folder_of_the_machine_that_has_run_it() {
        let of = |line: &str| command_of(line.split(' ').map(str::to_owned));
        assert_eq!(of("/home/a/bin/rmalab study -o /tmp/x/page.md --seed 1"), "rmalab study -o page.md --seed 1");
        assert_eq!(of("rmalab run --report=/tmp/x/ --output out/page.md"), "rmalab run --report=x --output page.md");
        assert_eq!(of("rmalab advise bench/workloads/a.toml -o"), "rmalab advise bench/workloads/a.toml -o");
    }
}
