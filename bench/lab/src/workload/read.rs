//! The parser of descriptions.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmalab_atomics::Rank;
use rmalab_atomics::sim::units;
use rmalab_report::numbers::nanoseconds;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::table::{MAX_LOCKS, MAX_ZIPF, Popularity};
use super::{Acquire, Class, LockTrace, Objective, Operation, OperationKind, Span, Targets, Workload, WorkloadError};

type Result<T> = std::result::Result<T, WorkloadError>;

/// The largest accepted numbers of ranks, acquisitions of a rank, and operations of a kind, and the largest exponent.
const MAX_RANKS: u64 = crate::simulate::MAX_RANKS as u64;
const MAX_ACQUISITIONS: u64 = 1_000_000_000;
const MAX_COUNT: u64 = 1_000_000;

/// The longest accepted time: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The largest accepted size: a tebibyte.
const LARGEST: u64 = 1 << 40;

/// Allowed deviation of the sum of the shares from 1, for decimal fractions.
const SLACK: f64 = 1e-6;

/// A text for a message: on one line, and not too long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 40;
    let plain: String = text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let more = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    format!("'{plain}{more}'")
}

/// The file.
struct Source<'s> {
    file: &'s Path,
    text: &'s str,
}

impl Source<'_> {
    fn error(&self, at: &Range<usize>, key: impl Into<String>, what: impl Into<String>) -> WorkloadError {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        // Keeps the message on one line, whatever the file contains.
        let key = key.into().replace(char::is_control, " ");
        WorkloadError { file: self.file.to_owned(), line: Some(line), key, what: what.into() }
    }
}

/// A table.
struct Table<'s, 't> {
    source: &'s Source<'s>,
    /// The prefix of its keys in messages.
    path: String,
    at: Range<usize>,
    table: &'t DeTable<'t>,
}

/// A value.
struct Value<'s, 't> {
    source: &'s Source<'s>,
    key: String,
    at: Range<usize>,
    value: &'t DeValue<'t>,
}

impl<'s, 't> Table<'s, 't> {
    /// A table with no other keys than `known`.
    fn new(
        source: &'s Source<'s>,
        path: String,
        at: Range<usize>,
        table: &'t DeTable<'t>,
        known: &[&str],
    ) -> Result<Table<'s, 't>> {
        let table = Table { source, path, at, table };
        // The first unknown key in the file, not in the order of keys.
        let unknown = table.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(table),
            Some(key) => {
                let what = format!("there is no such key; the keys here are {}", known.join(", "));
                Err(source.error(&key.span(), table.key(key.get_ref()), what))
            }
        }
    }

    fn key(&self, key: &str) -> String {
        // Quoted keys may contain any character.
        let key: String = key.chars().take(40).collect();
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }

    fn get(&self, key: &str) -> Option<Value<'s, 't>> {
        let value = self.table.get(key)?;
        Some(Value { source: self.source, key: self.key(key), at: value.span(), value: value.get_ref() })
    }

    fn need(&self, key: &str, example: &str) -> Result<Value<'s, 't>> {
        self.get(key).ok_or_else(|| {
            self.source.error(&self.at, self.key(key), format!("it is missing; write {key} = {example}"))
        })
    }

    /// The tables of an array.
    fn tables(&self, key: &str) -> Result<Vec<Spanned<&'t DeTable<'t>>>> {
        let Some(Value { key, at, value, .. }) = self.get(key) else { return Ok(Vec::new()) };
        let wrong = |at: &Range<usize>| self.source.error(at, &*key, format!("this is not a table; write [[{key}]]"));
        let array = value.as_array().ok_or_else(|| wrong(&at))?;
        let table = |item: &'t Spanned<DeValue<'t>>| match item.get_ref().as_table() {
            Some(table) => Ok(Spanned::new(item.span(), table)),
            None => Err(wrong(&item.span())),
        };
        array.iter().map(table).collect()
    }
}

impl<'s, 't> Value<'s, 't> {
    fn error(&self, what: impl Into<String>) -> WorkloadError {
        self.source.error(&self.at, &*self.key, what)
    }

    /// Describes the value for a message.
    fn is(&self) -> String {
        match self.value {
            DeValue::String(text) => shown(text),
            DeValue::Integer(number) => shown(&number.to_string()),
            DeValue::Float(number) => shown(number.as_str()),
            DeValue::Boolean(value) => format!("'{value}'"),
            other => format!("a value of type {}", other.type_str()),
        }
    }

    fn whole(&self, least: u64, most: u64) -> Result<u64> {
        let number =
            self.value.as_integer().and_then(|number| i128::from_str_radix(number.as_str(), number.radix()).ok());
        let number = number.and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.error(format!("{} is not a whole number from {least} to {most}", self.is())))
    }

    fn number(&self, least: f64, most: f64) -> Result<f64> {
        let number = match self.value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            _ => None,
        };
        number
            .filter(|number: &f64| (least..=most).contains(number))
            .ok_or_else(|| self.error(format!("{} is not a number from {least} to {most}", self.is())))
    }

    /// A share: `0.9`, or `"90%"`.
    fn share(&self) -> Result<f64> {
        match self.value {
            DeValue::String(text) => crate::simulate::share(text).map_err(|what| self.error(what)),
            _ => self.number(0.0, 1.0),
        }
    }

    fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T> {
        let chosen = self.value.as_str().and_then(|text| choices.iter().find(|&&(name, _)| name == text));
        chosen.map(|&(_, choice)| choice).ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            self.error(format!("{} is not one of {}", self.is(), names.join(", ")))
        })
    }

    fn time(&self) -> Result<u64> {
        match self.value {
            DeValue::String(text) => units::duration(text, LONGEST).map(nanoseconds).map_err(|what| self.error(what)),
            _ => Err(self.error(self.no_unit(units::TIME_UNITS, "5us"))),
        }
    }

    fn size(&self) -> Result<u64> {
        match self.value {
            DeValue::String(text) => match units::bytes(text) {
                Ok(bytes) if bytes > LARGEST => {
                    Err(self.error(format!("{} is more than 1 TiB; write a size of at most 1024GiB", shown(text))))
                }
                bytes => bytes.map_err(|what| self.error(what)),
            },
            _ => Err(self.error(self.no_unit(units::BYTE_UNITS, "64B"))),
        }
    }

    fn no_unit(&self, units: &str, example: &str) -> String {
        format!("{} has no unit; write it as \"{example}\" (the units are {units})", self.is())
    }

    /// The trace in a file, whose path begins at the description's folder.
    fn lock_trace(&self) -> Result<LockTrace> {
        let name = self.value.as_str().ok_or_else(|| self.error(format!("{} is not a file's name", self.is())))?;
        let file = self.source.file.parent().unwrap_or(Path::new("")).join(name);
        LockTrace::read(&file).map_err(|error| self.error(error.to_string().replace(char::is_control, " ")))
    }

    /// An inline table.
    fn table(&self, known: &[&str]) -> Result<Option<Table<'s, 't>>> {
        let table = self.value.as_table();
        table.map(|table| Table::new(self.source, self.key.clone(), self.at.clone(), table, known)).transpose()
    }

    fn span(&self) -> Result<Span> {
        let Some(table) = self.table(&["min", "max", "mean"])? else {
            return Ok(Span::Constant(self.time()?));
        };
        match (table.get("mean"), table.get("min"), table.get("max")) {
            (Some(mean), None, None) => Ok(Span::Exponential(mean.time()?)),
            (None, Some(min), Some(max)) => {
                let (least, most) = (min.time()?, max.time()?);
                if least > most {
                    return Err(min.error("it is more than max"));
                }
                Ok(Span::Uniform(least, most))
            }
            _ => Err(self.error(
                "write a time as \"5us\", or { min = \"1us\", max = \"9us\" }, or { mean = \"5us\" } (exponential)",
            )),
        }
    }

    fn targets(&self, ranks: u32) -> Result<Targets> {
        const HOW: &str = "\"uniform\", \"own\", \"neighbours\", { zipf = 0.99 } or { single = 0 }";
        let Some(table) = self.table(&["zipf", "single"])? else {
            let names = [("uniform", Targets::Uniform), ("own", Targets::Own), ("neighbours", Targets::Neighbours)];
            return self.choice(&names).map_err(|_| self.error(format!("{} is not one of {HOW}", self.is())));
        };
        match (table.get("zipf"), table.get("single")) {
            (Some(exponent), None) => Ok(Targets::Zipf(exponent.number(0.0, MAX_ZIPF)?)),
            (None, Some(target)) => {
                let target = target.whole(0, u64::from(ranks) - 1)?;
                Ok(Targets::Single(Rank(target as u32)))
            }
            _ => Err(self.error(format!("write {HOW}"))),
        }
    }
}

pub(super) fn workload(file: &Path, text: &str) -> Result<Workload> {
    let source = Source { file, text };
    let document = DeTable::parse(text).map_err(|error| {
        let what = error.message().replace(char::is_control, " ");
        source.error(&error.span().unwrap_or(0..0), "", format!("this is not TOML: {what}"))
    })?;
    let known = ["ranks", "ranks_per_node", "acquisitions", "objective", "table", "class"];
    let top = Table::new(&source, String::new(), 0..0, document.get_ref(), &known)?;
    let ranks = top.need("ranks", "64")?.whole(1, MAX_RANKS)? as u32;
    let ranks_per_node = top.need("ranks_per_node", &ranks.min(8).to_string())?.whole(1, u64::from(ranks))? as u32;
    let acquisitions = top.need("acquisitions", "1000")?.whole(1, MAX_ACQUISITIONS)?;
    let objective = top.need("objective", "\"throughput\"")?.choice(&[
        ("throughput", Objective::Throughput),
        ("p99", Objective::P99),
        ("fairness", Objective::Fairness),
    ])?;
    let tables = top.tables("class")?;
    let Some(last) = tables.last() else {
        return Err(source.error(&(0..0), "class", "it is missing; describe at least one class in a table [[class]]"));
    };
    let mut classes = Vec::new();
    let locks = top.get("table").map(|value| table_of_locks(&value, ranks)).transpose()?;
    for (i, table) in (1..).zip(&tables) {
        classes.push(class(&source, format!("class {i}"), table, ranks, locks.as_ref())?);
    }
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    if (sum - 1.0).abs() > SLACK {
        let what = format!("the shares of all classes sum to {sum}, but must sum to 1");
        return Err(source.error(&last.span(), "class.share", what));
    }
    let name = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let workload = Workload { name, ranks, ranks_per_node, acquisitions, objective, classes, layout: None };
    Ok(match locks {
        Some(table) => workload.with_table(table),
        None => workload,
    })
}

fn table_of_locks(value: &Value<'_, '_>, ranks: u32) -> Result<super::Table> {
    let wrong = || value.error("this is not a table; write [table], and locks = 100000 in it");
    let table = value.table(&["locks", "homes", "local", "trace"])?.ok_or_else(wrong)?;
    if let Some(trace) = table.get("trace") {
        if let Some(other) = table.get("locks").or(table.get("local")) {
            return Err(other.error("a trace has its own locks; beside it there is only homes = 4"));
        }
        let homes = homes(&table, ranks)?;
        return Ok(super::Table { homes, ..super::Table::traced(Arc::new(trace.lock_trace()?)) });
    }
    let locks = table.need("locks", "100000")?.whole(1, MAX_LOCKS.into())? as u32;
    let homes = homes(&table, ranks)?;
    let local = table.get("local").map(|local| local.share()).transpose()?;
    Ok(super::Table { locks, popularity: Popularity::Uniform, local, homes, trace: None })
}

fn homes(table: &Table<'_, '_>, ranks: u32) -> Result<Option<u32>> {
    Ok(table.get("homes").map(|homes| homes.whole(1, ranks.into())).transpose()?.map(|homes| homes as u32))
}

/// A class; `locks` is the table from which its locks come, if there is one.
fn class(
    source: &Source<'_>,
    path: String,
    table: &Spanned<&DeTable<'_>>,
    ranks: u32,
    locks: Option<&super::Table>,
) -> Result<Class> {
    let known = ["share", "lock", "targets", "between", "inside", "operation"];
    let table = Table::new(source, path, table.span(), table.get_ref(), &known)?;
    let share = table.need("share", "1.0")?.share()?;
    let (lock, targets) = match locks {
        Some(super::Table { trace: Some(_), .. }) => {
            if let Some(other) = table.get("lock").or(table.get("targets")) {
                return Err(other.error("the trace of [table] has the locks and their modes; leave this out"));
            }
            (Acquire::Exclusive, Targets::Uniform)
        }
        locks => locked(&table, ranks, locks.is_some())?,
    };
    let between = table.need("between", "\"5us\"")?.span()?;
    let inside = table.need("inside", "\"0ns\"")?.span()?;
    let mut operations = Vec::new();
    for (i, operation_table) in (1..).zip(table.tables("operation")?) {
        operations.push(operation(source, format!("{}.operation {i}", table.path), &operation_table, lock)?);
    }
    Ok(Class { share, lock, targets, between, inside, operations })
}

/// The lock of a class, and its targets.
fn locked(table: &Table<'_, '_>, ranks: u32, locks: bool) -> Result<(Acquire, Targets)> {
    let lock = table.need("lock", "\"lock_all\"")?.choice(&[
        ("lock_all", Acquire::LockAll),
        ("shared", Acquire::Shared),
        ("exclusive", Acquire::Exclusive),
    ])?;
    let value = table.need("targets", "\"uniform\"")?;
    let targets = value.targets(ranks)?;
    if locks && !matches!(targets, Targets::Uniform | Targets::Zipf(_)) {
        return Err(value.error("a lock of a table is drawn by \"uniform\" or { zipf = 0.99 }"));
    }
    Ok((lock, targets))
}

fn operation(source: &Source<'_>, path: String, table: &Spanned<&DeTable<'_>>, lock: Acquire) -> Result<Operation> {
    let table = Table::new(source, path, table.span(), table.get_ref(), &["kind", "count", "bytes", "target"])?;
    let kind = table.need("kind", "\"put\"")?.choice(&[
        ("put", OperationKind::Put),
        ("get", OperationKind::Get),
        ("update", OperationKind::Update),
    ])?;
    let count = table.get("count").map_or(Ok(1), |count| count.whole(1, MAX_COUNT))? as u32;
    let bytes = match table.get("bytes") {
        None if kind == OperationKind::Update => 8,
        bytes => bytes.map_or_else(|| table.need("bytes", "\"64B\""), Ok)?.size()?,
    };
    let any = match table.get("target") {
        None => false,
        Some(target) => {
            let any = target.choice(&[("same", false), ("any", true)])?;
            if any && lock != Acquire::LockAll {
                return Err(target.error("only lock_all reaches targets other than the locked one"));
            }
            any
        }
    };
    Ok(Operation { kind, count, bytes, any })
}
