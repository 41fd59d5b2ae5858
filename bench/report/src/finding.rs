//! What an experiment has found: tables, plots, and whether what a paper says holds here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::numbers::{digits, humane, si, size};
use crate::text::aligned;

/// A value of a table, with what it is a value of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Words.
    Text(String),
    /// A time, in nanoseconds.
    Time(f64),
    /// So many a second.
    Rate(f64),
    /// Bytes.
    Bytes(u64),
    /// Bytes a second.
    Bandwidth(f64),
    /// How often one thing is in another.
    Ratio(f64),
    /// A part of 1, shown in per cent.
    Share(f64),
    /// A number of things.
    Count(u64),
    /// A mean of numbers of things, or another number without a unit.
    Number(f64),
    /// There is none.
    None,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Value::Text(ref text) => text.clone(),
            Value::Time(ns) => humane(ns),
            Value::Rate(rate) => format!("{}/s", si(rate)),
            Value::Bytes(bytes) => size(bytes as f64),
            Value::Bandwidth(rate) => format!("{}B/s", si_spaced(rate)),
            Value::Ratio(ratio) => format!("{}×", digits(ratio)),
            Value::Share(share) => format!("{:.1} %", share * 100.0),
            Value::Count(count) => count.to_string(),
            Value::Number(number) => digits(number),
            Value::None => "–".into(),
        };
        f.pad(&text)
    }
}

fn si_spaced(value: f64) -> String {
    let text = si(value);
    if text.ends_with(|last: char| last.is_ascii_digit()) { format!("{text} ") } else { text }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

/// Values in rows; the first column names the row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// What it is a table of.
    pub title: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// As many values in each as there are columns.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(title: impl Into<String>, columns: impl IntoIterator<Item = S>) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If it has not as many values as there are columns.
    pub fn row<V: Into<Value>>(&mut self, values: impl IntoIterator<Item = V>) {
        let row: Vec<Value> = values.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.columns.len(), "{}: a row of another length", self.title);
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| row.iter().map(ToString::to_string).collect());
        write!(f, "{}\n\n{}", self.title, aligned(self.columns.clone(), rows))
    }
}

/// What an axis has on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Nanoseconds; logarithmic.
    Time,
    /// So many a second; logarithmic.
    Rate,
    /// Bytes; logarithmic, to base 2 on the x axis.
    Bytes,
    /// Bytes a second; logarithmic.
    Bandwidth,
    /// A ratio; logarithmic.
    Ratio,
    /// Numbers of something, such as ranks; logarithmic, to base 2 on the x axis.
    Count,
    /// A part of 1; linear.
    Share,
    /// A number without a unit, from 0 on, of an x axis; linear.
    Number,
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, without the unit, which the numbers have.
    pub label: String,
    /// What kind of values these are.
    pub quantity: Quantity,
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, quantity: Quantity) -> Axis {
        Axis { label: label.to_owned(), quantity }
    }
}

/// Whose values a series has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured on this machine: drawn through, with filled marks.
    Measured,
    /// Simulated: drawn through, with hollow marks.
    Simulated,
    /// Published: dashed, with filled marks.
    Published,
}

/// A line of a plot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend, short; its origin is told beside it.
    pub name: String,
    /// Whose values they are.
    pub origin: Origin,
    /// Its colour and mark: series that are to be compared, such as a published one and ours, have the same.
    pub style: usize,
    /// Its points, x and y.
    pub points: Vec<(f64, f64)>,
}

/// Curves in one panel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plot {
    /// The name of its file, without the ending; the experiment's name is put before it.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// A paragraph for a newcomer: how to read it, what to look for, and what it teaches.
    pub text: String,
}

/// Whether what a paper found holds here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of it.
    Holds,
    /// Some of it, or with other figures.
    Partly,
    /// It does not.
    Differs,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Holds => "holds",
            Verdict::Partly => "holds in part",
            Verdict::Differs => "does not hold",
        })
    }
}

/// One thing that a paper says, beside what was found here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// What the paper says, with its figures.
    pub paper: String,
    /// What was found here, with the figures and where: measured on how many processes, or simulated.
    pub here: String,
    /// Whether they agree; computed from the figures.
    pub holds: bool,
}

/// What an experiment has found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// What the paper says, point by point, and what was found.
    pub claims: Vec<Claim>,
    /// Why claims do not hold, where some do not; empty otherwise.
    pub why: String,
    /// The paper's figures beside ours.
    pub tables: Vec<Table>,
    /// The same drawn.
    pub plots: Vec<Plot>,
}

impl Finding {
    /// Nothing yet.
    pub fn new() -> Finding {
        Finding { claims: Vec::new(), why: String::new(), tables: Vec::new(), plots: Vec::new() }
    }

    /// Adds a claim.
    pub fn claim(&mut self, holds: bool, paper: impl Into<String>, here: impl Into<String>) {
        self.claims.push(Claim { paper: paper.into(), here: here.into(), holds });
    }

    /// Whether all claims hold, some, or none.
    pub fn verdict(&self) -> Verdict {
        match self.claims.iter().filter(|claim| claim.holds).count() {
            held if held == self.claims.len() => Verdict::Holds,
            0 => Verdict::Differs,
            _ => Verdict::Partly,
        }
    }

    /// One sentence: whether the paper's finding holds here, and why where it does not.
    pub fn sentence(&self) -> String {
        let held = self.claims.iter().filter(|claim| claim.holds).count();
        let all = self.claims.len();
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        match self.verdict() {
            Verdict::Holds => "The paper's finding holds here.".to_owned(),
            Verdict::Partly => format!("The paper's finding holds here in part, {held} of {all} points{why}."),
            Verdict::Differs => format!("The paper's finding does not hold here{why}."),
        }
    }
}

impl Default for Finding {
    fn default() -> Finding {
        Finding::new()
    }
}

/// The least-squares line through points, (slope, intercept, R²): of logarithms, the slope is the exponent of growth.
pub fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let n = points.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |part: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| part(point.0 - x, point.1 - y)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 {
        return (0.0, y, 0.0);
    }
    let slope = xy / xx;
    let explained = if yy == 0.0 { 1.0 } else { slope * xy / yy };
    (slope, y - slope * x, explained)
}

/// The exponent of growth of y with x, fitted to logarithms, and R².
pub fn growth(points: &[(f64, f64)]) -> (f64, f64) {
    let logarithms: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let (slope, _, explained) = line(&logarithms);
    (slope, explained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_find_what_was_put_in() {
        let points: Vec<(f64, f64)> = (1..6).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        let (slope, intercept, explained) = line(&points);
        assert!((slope - 2.0).abs() < 1e-12 && (intercept - 3.0).abs() < 1e-12 && (explained - 1.0).abs() < 1e-12);
        let square: Vec<(f64, f64)> = (1..6).map(|x| (f64::from(x), 7.0 * f64::from(x * x))).collect();
        assert!((growth(&square).0 - 2.0).abs() < 1e-12);
        assert_eq!(line(&[(1.0, 2.0), (1.0, 4.0)]).0, 0.0);
    }

    #[test]
    fn verdicts_follow_from_claims() {
        let mut finding = Finding::new();
        finding.claim(true, "a", "b");
        assert_eq!(finding.verdict(), Verdict::Holds);
        finding.claim(false, "a", "b");
        finding.why = "one core has to do the work of four".into();
        assert_eq!(finding.verdict(), Verdict::Partly);
        assert_eq!(
            finding.sentence(),
            "The paper's finding holds here in part, 1 of 2 points: one core has to do the work of four."
        );
    }

    #[test]
    fn values_have_units() {
        assert_eq!(Value::Time(1500.0).to_string(), "1.50 µs");
        assert_eq!(Value::Bandwidth(8.65e8).to_string(), "865 MB/s");
        assert_eq!(Value::Bytes(65536).to_string(), "64 KiB");
        assert_eq!(Value::Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!(Value::Bytes(16).to_string(), "16 B");
    }
}
