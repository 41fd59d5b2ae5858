//! Results: tables, plots, and claims of papers that hold here or not.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::numbers::{digits, grouped, humane, si, size};

/// A value of a table, with its unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Words.
    Text(String),
    /// A time, in nanoseconds.
    Time(f64),
    /// Events in a second.
    Rate(f64),
    /// Bytes.
    Bytes(u64),
    /// Bytes in a second.
    Bandwidth(f64),
    /// The quotient of two values.
    Ratio(f64),
    /// A fraction, shown in percent.
    Share(f64),
    /// A count.
    Count(u64),
    /// A mean of counts, or another number without a unit.
    Number(f64),
    /// A missing value.
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
            Value::Count(count) => grouped(count),
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

impl Value {
    /// The value without its unit, and the unit. Text and missing values have none.
    pub fn plain(&self) -> (String, &'static str) {
        match *self {
            Value::Text(ref text) => (text.clone(), ""),
            Value::Time(ns) => (ns.to_string(), "ns"),
            Value::Rate(rate) => (rate.to_string(), "1/s"),
            Value::Bytes(bytes) => (bytes.to_string(), "B"),
            Value::Bandwidth(rate) => (rate.to_string(), "B/s"),
            Value::Ratio(ratio) => (ratio.to_string(), "times"),
            Value::Share(share) => (share.to_string(), "of 1"),
            Value::Count(count) => (count.to_string(), ""),
            Value::Number(number) => (number.to_string(), ""),
            Value::None => (String::new(), ""),
        }
    }

    /// The value as a number, in the unit of [`plain`](Value::plain).
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Time(number)
            | Value::Rate(number)
            | Value::Bandwidth(number)
            | Value::Ratio(number)
            | Value::Share(number)
            | Value::Number(number) => Some(number),
            Value::Bytes(number) | Value::Count(number) => Some(number as f64),
            Value::Text(_) | Value::None => None,
        }
    }

    /// A value of the same kind with another number.
    fn with(&self, number: f64) -> Value {
        match self {
            Value::Time(_) => Value::Time(number),
            Value::Rate(_) => Value::Rate(number),
            Value::Bandwidth(_) => Value::Bandwidth(number),
            Value::Ratio(_) => Value::Ratio(number),
            Value::Share(_) => Value::Share(number),
            Value::Bytes(_) => Value::Bytes(number.round() as u64),
            Value::Count(_) => Value::Count(number.round() as u64),
            Value::Number(_) => Value::Number(number),
            Value::Text(_) | Value::None => Value::None,
        }
    }

    /// The better direction, if the kind alone decides: short times, high rates.
    fn better(&self) -> Better {
        match self {
            Value::Time(_) => Better::Lower,
            Value::Rate(_) | Value::Bandwidth(_) => Better::Higher,
            _ => Better::Neither,
        }
    }
}

/// A value of a table, perhaps with the spread of its repetitions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "CellForm", into = "CellForm")]
pub struct Cell {
    /// The value: the median of the repetitions, if any.
    pub value: Value,
    /// The lowest and the highest of the repetitions, in the value's unit.
    pub spread: Option<(f64, f64)>,
}

/// The JSON form of a cell: a value, or a value between two bounds.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CellForm {
    Spread { value: Value, low: f64, high: f64 },
    Plain(Value),
}

impl From<CellForm> for Cell {
    fn from(form: CellForm) -> Cell {
        match form {
            CellForm::Spread { value, low, high } => Cell { value, spread: Some((low, high)) },
            CellForm::Plain(value) => Cell { value, spread: None },
        }
    }
}

impl From<Cell> for CellForm {
    fn from(cell: Cell) -> CellForm {
        match cell.spread {
            Some((low, high)) => CellForm::Spread { value: cell.value, low, high },
            None => CellForm::Plain(cell.value),
        }
    }
}

impl Cell {
    /// Adds the lowest and the highest value of the repetitions.
    #[must_use]
    pub fn between(self, low: f64, high: f64) -> Cell {
        Cell { spread: (low.is_finite() && high.is_finite()).then_some((low, high)), ..self }
    }

    /// The lowest and the highest value as text, if they differ.
    pub fn spread_text(&self) -> Option<String> {
        let (low, high) = self.spread.filter(|(low, high)| low < high)?;
        Some(format!("{} to {}", self.value.with(low), self.value.with(high)))
    }
}

impl<V: Into<Value>> From<V> for Cell {
    fn from(value: V) -> Cell {
        let value = value.into();
        // JSON has no infinite numbers, and they would mean nothing to a reader.
        let value = if value.number().is_some_and(|number| !number.is_finite()) { Value::None } else { value };
        Cell { value, spread: None }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// The better direction of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The kind of the values decides: short times and high rates are better; other kinds have no better direction.
    #[default]
    ByKind,
    /// Low values.
    Lower,
    /// High values.
    Higher,
    /// A change is neither better nor worse.
    Neither,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The better direction of its values.
    #[serde(default)]
    pub better: Better,
}

impl<S: Into<String>> From<S> for Column {
    fn from(name: S) -> Column {
        Column { name: name.into(), better: Better::ByKind }
    }
}

impl Column {
    /// A column in which low values are better.
    pub fn lower(name: impl Into<String>) -> Column {
        Column { name: name.into(), better: Better::Lower }
    }

    /// A column in which high values are better.
    pub fn higher(name: impl Into<String>) -> Column {
        Column { name: name.into(), better: Better::Higher }
    }

    /// A column without a better direction.
    pub fn neither(name: impl Into<String>) -> Column {
        Column { name: name.into(), better: Better::Neither }
    }

    /// The better direction of this value of the column.
    pub fn direction(&self, value: &Value) -> Better {
        if self.better == Better::ByKind { value.better() } else { self.better }
    }
}

/// Values in rows. The first columns name the row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its title; unique within its section.
    pub title: String,
    /// The number of columns that name a row.
    pub keys: usize,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows; its first column names the row.
    pub fn new<C: Into<Column>>(title: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Table {
        let columns = columns.into_iter().map(Into::into).collect();
        Table { title: title.into(), keys: 1, columns, rows: Vec::new() }
    }

    /// Sets the number of columns that name a row.
    #[must_use]
    pub fn keyed(self, keys: usize) -> Table {
        Table { keys, ..self }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If the number of values is not the number of columns.
    pub fn row<V: Into<Cell>>(&mut self, values: impl IntoIterator<Item = V>) {
        let row: Vec<Cell> = values.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.columns.len(), "{}: a row of another length", self.title);
        self.rows.push(row);
    }

    /// The cell of a row in the column of that name.
    pub fn get<'a>(&self, row: &'a [Cell], column: &str) -> Option<&'a Cell> {
        row.get(self.columns.iter().position(|other| other.name == column)?)
    }

    /// The value whose repetitions differ by the largest factor, as text; nothing if no value has a spread.
    pub fn widest_spread(&self) -> Option<String> {
        let spreads = self.rows.iter().flat_map(|row| row.iter().zip(&self.columns).map(move |cell| (row, cell)));
        let wide = spreads.filter_map(|(row, (cell, column))| {
            let (low, high) = cell.spread.filter(|(low, high)| 0.0 < *low && low < high)?;
            Some((high / low, row, column, cell.spread_text()?))
        });
        let (_, row, column, spread) = wide.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let column = column.name.replace('\n', " ");
        Some(format!("The widest spread of repetitions: {}, {column}: {spread}.", self.name(row)))
    }

    /// The values that name a row, joined.
    pub fn name(&self, row: &[Cell]) -> String {
        row.iter().take(self.keys).map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.title, crate::text::table(self, usize::MAX))
    }
}

/// Quantities on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Nanoseconds; logarithmic.
    Time,
    /// Events per second; logarithmic.
    Rate,
    /// Bytes; logarithmic, to base 2 on the x axis.
    Bytes,
    /// Bytes per second; logarithmic.
    Bandwidth,
    /// A ratio; logarithmic.
    Ratio,
    /// Numbers of something, such as ranks; logarithmic, to base 2 on the x axis.
    Count,
    /// A fraction; linear.
    Share,
    /// A number without a unit, from 0 on; linear.
    Number,
}

/// An axis.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// Its label, without the unit, which the numbers have.
    pub label: String,
    /// The kind of its values.
    pub quantity: Quantity,
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, quantity: Quantity) -> Axis {
        Axis { label: label.to_owned(), quantity }
    }
}

/// Origins of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured on this machine: a solid line with filled marks.
    Measured,
    /// Simulated: a solid line with hollow marks.
    Simulated,
    /// Published: a dashed line with filled marks.
    Published,
    /// Computed as a bound: a thin dashed line without marks.
    Bound,
}

/// A line of a plot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Its name, short. Labels add the origin.
    pub name: String,
    /// The origin of its values.
    pub origin: Origin,
    /// Its colour and mark. Series to compare, such as a published one and ours, share them.
    pub style: usize,
    /// Its points, x and y.
    pub points: Vec<(f64, f64)>,
    /// The lowest and the highest y of the repetitions of each point; empty if there is no spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<(f64, f64)>,
    /// Its group: series of a group share a panel if there are too many for one. Empty if it does not matter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
}

/// Curves in one panel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plot {
    /// The name of its file, without the extension. The section's name precedes it.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// A paragraph for a newcomer: how to read it, what to look for, and what it shows.
    pub text: String,
}

/// A range from one value to another.
pub type Range = (f64, f64);

/// Horizontal bars: each row has parts, and each part reaches from one value to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bars {
    /// The name of its file, without the extension. The section's name precedes it.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The axis of the values.
    pub axis: Axis,
    /// The names of the parts.
    pub parts: Vec<String>,
    /// True if the parts follow each other in one lane; otherwise each part has its own lane.
    pub stacked: bool,
    /// The rows: a name, and for each part the start and the end of its bar.
    pub rows: Vec<(String, Vec<Option<Range>>)>,
    /// A paragraph for a newcomer.
    pub text: String,
}

/// Verdicts on a paper's finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of it holds.
    Holds,
    /// It holds in part, or with other figures.
    Partly,
    /// It does not hold.
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

/// The evidence for a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Measured on this machine, or simulated with a profile that was not fitted to the claim.
    #[default]
    Found,
    /// The simulated machine's profile was fitted to these figures, so they are no evidence.
    Fitted,
}

/// An expectation, such as a figure of a paper or a goal, and the result here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The expectation, with its figures.
    pub expected: String,
    /// The result here, with the figures and their origin: measured on how many processes, or simulated.
    pub here: String,
    /// True if they agree; computed from the figures.
    pub holds: bool,
    /// The evidence.
    #[serde(default)]
    pub basis: Basis,
}

impl Claim {
    /// The verdict in words.
    pub fn verdict(&self) -> &'static str {
        match (self.holds, self.basis) {
            (true, Basis::Found) => "holds",
            (true, Basis::Fitted) => "fitted",
            (false, Basis::Found) => "does not hold",
            (false, Basis::Fitted) => "fitted, does not hold",
        }
    }
}

/// The results of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The paper's claims, point by point, with the results here.
    pub claims: Vec<Claim>,
    /// The reason why some claims do not hold; empty if all hold.
    pub why: String,
    /// The paper's figures beside ours.
    pub tables: Vec<Table>,
    /// Plots of the figures.
    pub plots: Vec<Plot>,
}

impl Finding {
    /// An empty finding.
    pub fn new() -> Finding {
        Finding { claims: Vec::new(), why: String::new(), tables: Vec::new(), plots: Vec::new() }
    }

    /// Adds a claim.
    pub fn claim(&mut self, holds: bool, paper: impl Into<String>, here: impl Into<String>) {
        self.claims.push(Claim { expected: paper.into(), here: here.into(), holds, basis: Basis::Found });
    }

    /// Adds a claim about figures to which the simulated machine's profile was fitted.
    pub fn fitted(&mut self, holds: bool, paper: impl Into<String>, here: impl Into<String>) {
        self.claim(holds, paper, here);
        self.claims.last_mut().expect("a claim was just added").basis = Basis::Fitted;
    }

    /// Returns whether all claims hold, some, or none.
    pub fn verdict(&self) -> Verdict {
        match self.claims.iter().filter(|claim| claim.holds).count() {
            held if held == self.claims.len() => Verdict::Holds,
            0 => Verdict::Differs,
            _ => Verdict::Partly,
        }
    }

    /// One sentence: whether the paper's finding holds here, or why not.
    pub fn sentence(&self) -> String {
        let held = self.claims.iter().filter(|claim| claim.holds).count();
        let all = self.claims.len();
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        let sentence = match self.verdict() {
            Verdict::Holds => "The paper's finding holds here.".to_owned(),
            Verdict::Partly => format!("The paper's finding holds here in part, {held} of {all} points{why}."),
            Verdict::Differs => format!("The paper's finding does not hold here{why}."),
        };
        match self.claims.iter().filter(|claim| claim.basis == Basis::Fitted).count() {
            0 => sentence,
            fitted => {
                format!(
                    "{sentence} {fitted} of {all} points are fitted to the paper's figures, so they are no evidence."
                )
            }
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
    fn fits_recover_their_parameters() {
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
        finding.fitted(true, "c", "d");
        assert!(
            finding.sentence().ends_with("1 of 3 points are fitted to the paper's figures, so they are no evidence.")
        );
        assert_eq!(finding.claims[2].verdict(), "fitted");
    }

    #[test]
    fn values_have_units() {
        assert_eq!(Value::Time(1500.0).to_string(), "1.50 µs");
        assert_eq!(Value::Bandwidth(8.65e8).to_string(), "865 MB/s");
        assert_eq!(Value::Bytes(65536).to_string(), "64 KiB");
        assert_eq!(Value::Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!(Value::Bytes(16).to_string(), "16 B");
    }

    #[test]
    fn the_widest_spread_is_that_of_the_largest_factor() {
        let mut table = Table::new("Rates", ["lock", "2\nranks"]);
        assert_eq!(table.widest_spread(), None);
        table.row([Cell::from("a"), Cell::from(Value::Rate(2e3)).between(1e3, 3e3)]);
        table.row([Cell::from("b"), Cell::from(Value::Rate(2e6)).between(1.9e6, 2.1e6)]);
        table.row([Cell::from("c"), Cell::from(Value::Rate(1.0))]);
        assert_eq!(
            table.widest_spread().unwrap(),
            "The widest spread of repetitions: a, 2 ranks: 1.00 k/s to 3.00 k/s."
        );
    }

    #[test]
    fn cells_survive_json() {
        let plain = Cell::from(Value::Time(3.5));
        let spread = plain.clone().between(3.0, 4.0);
        assert_eq!(spread.spread_text().unwrap(), "3.00 ns to 4.00 ns");
        for cell in
            [plain, spread, Cell::from("text"), Cell::from(Value::None), Cell::from(Value::Ratio(f64::INFINITY))]
        {
            let text = serde_json::to_string(&cell).unwrap();
            assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell, "{text}");
        }
        assert_eq!(Cell::from(Value::Ratio(f64::INFINITY)).value, Value::None);
    }
}
