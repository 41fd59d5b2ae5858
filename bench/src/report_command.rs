//! `rmalab report` and `rmalab diff`: render saved documents again, and compare them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::document::Document;
use crate::document::diff::diff;
use crate::{Error, Result};
use clap::{Args, ValueHint};

use crate::output::OutputArgs;

pub(crate) const ABOUT: &str = "\
Render a saved result again: as text, Markdown, CSV, JSON, or a report's folder.

FILE is the JSON that any command wrote (--format json), or the folder of a report.";

pub(crate) const DIFF: &str = "\
Compare two saved results of one command: values of the same table, row and column.

A value is worse, or better, when it moved by more than the threshold and the spreads of its repetitions do not overlap. In \
results of repeated runs, values without a spread are listed, but not judged. \
OLD and NEW are JSON files that a command wrote (--format json), or folders of reports.";

pub(crate) const DIFF_MANUAL: &str = "\
Examples:
  rmalab study --lock mcs,ticket --report before
  rmalab study --lock mcs,ticket --report after
  rmalab diff before after --threshold 5%

Exit codes:
  0  no value is worse
  1  a value is worse
  2  an argument is wrong, or the two cannot be compared";

/// Options of `rmalab report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The JSON file of a result, or the folder of a report
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Options of `rmalab diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The older result: a JSON file, or the folder of a report
    #[arg(value_name = "OLD", value_hint = ValueHint::AnyPath)]
    old: PathBuf,
    /// The newer result
    #[arg(value_name = "NEW", value_hint = ValueHint::AnyPath)]
    new: PathBuf,
    /// Threshold: ignore changes up to this share, such as 10% or 0.1
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = crate::simulate::share)]
    threshold: f64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Reads a document that an argument names; an invalid document is a usage error.
fn read(path: &Path) -> Result<Document> {
    Document::read(path).map_err(|error| Error::usage(error.to_string()))
}

/// Runs `rmalab report`.
pub(crate) fn report(arguments: &ReportArgs) -> Result<ExitCode> {
    let document = read(&arguments.file)?;
    arguments.output.prepare(None)?.write(&document)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `rmalab diff`.
pub(crate) fn compare(arguments: &DiffArgs) -> Result<ExitCode> {
    let (old, new) = (read(&arguments.old)?, read(&arguments.new)?);
    let found = diff(&old, &new, arguments.threshold)?;
    arguments.output.prepare(None)?.write(&found.document)?;
    Ok(if found.worse > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
