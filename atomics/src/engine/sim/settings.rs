//! Settings in TOML: tables whose values have units, and errors that name file, line and key.
//!
//! A [`Table`] is read key by key. Every error is one line: `FILE:LINE: KEY: the fault; what to write instead`.

use std::fmt::Display;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::units::{self, Span, quoted};
use crate::{Error, Result};

/// The longest file of settings, in bytes.
const LONGEST: u64 = 1 << 20;

/// A table of settings: a file, or a part of one.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    source: Rc<Source<'a>>,
    /// The prefix of its keys in messages: empty, or `nic.`.
    prefix: String,
    /// The offset of its start in the text.
    at: usize,
    table: DeTable<'a>,
}

/// The file that messages name.
#[derive(Debug)]
struct Source<'a> {
    name: String,
    text: &'a str,
}

/// Reads the text of a file of settings.
///
/// # Errors
///
/// [`Error::Settings`] when it cannot be read, is longer than a MiB, or is not text.
pub fn read(path: &Path) -> Result<String> {
    let name = path.display();
    let refused = |error: std::io::Error| Error::settings(format!("{name}: cannot be read: {error}"));
    let mut bytes = Vec::new();
    // A pipe or a device has no length, so the bytes are counted while they are read.
    std::fs::File::open(path).map_err(refused)?.take(LONGEST + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > LONGEST {
        return Err(Error::settings(format!("{name}: has more than {LONGEST} bytes, the most that settings have")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        Error::settings(format!("{name}:{line}: is not UTF-8 text; write TOML"))
    })
}

impl<'a> Table<'a> {
    /// Parses the settings `text` of a file called `name`, which may have only these `keys`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn parse(name: &str, text: &'a str, keys: &[&str]) -> Result<Table<'a>> {
        let source = Rc::new(Source { name: name.to_owned(), text });
        match DeTable::parse(text) {
            Ok(table) => Table { source, prefix: String::new(), at: 0, table: table.into_inner() }.with_keys(keys),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                Err(source.error(at, format_args!("{}; write TOML: key = \"value\"", error.message())))
            }
        }
    }

    /// Makes an error that names `key`.
    pub fn error(&self, key: &str, what: impl Display) -> Error {
        let at = self.table.get(key).map_or(self.at, |value| value.span().start);
        self.source.error(at, format_args!("{}{key}: {what}", self.prefix))
    }

    /// Returns whether the table has this key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns the table called `key`, which may have only these `keys`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn table(&self, key: &str, keys: &[&str]) -> Result<Table<'a>> {
        let value = self.value(key, "a table")?;
        match value.get_ref() {
            DeValue::Table(table) => Table {
                source: Rc::clone(&self.source),
                prefix: format!("{}{key}.", self.prefix),
                at: value.span().start,
                table: table.clone(),
            }
            .with_keys(keys),
            other => Err(self.mistyped(key, other, "a table")),
        }
    }

    /// Returns the array of tables called `key`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn tables(&self, key: &str, keys: &[&str]) -> Result<Vec<Table<'a>>> {
        let wanted = "tables";
        let DeValue::Array(array) = self.value(key, wanted)?.get_ref() else {
            return Err(self.mistyped(key, self.value(key, wanted)?.get_ref(), wanted));
        };
        let tables = array.iter().enumerate().map(|(index, value)| match value.get_ref() {
            DeValue::Table(table) => Table {
                source: Rc::clone(&self.source),
                prefix: format!("{}{key}[{index}].", self.prefix),
                at: value.span().start,
                table: table.clone(),
            }
            .with_keys(keys),
            other => Err(self.mistyped(key, other, wanted)),
        });
        tables.collect()
    }

    /// Returns a text.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn text(&self, key: &str) -> Result<&str> {
        let wanted = "a text in quotation marks";
        match self.value(key, wanted)?.get_ref() {
            DeValue::String(text) => Ok(text),
            other => Err(self.mistyped(key, other, wanted)),
        }
    }

    /// Returns the value of a text, one of `choices`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T> {
        let text = self.text(key)?;
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, meaning)) => Ok(*meaning),
            None => {
                let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
                Err(self.error(key, format_args!("{} is unknown; write {}", quoted(text), names.join(" or "))))
            }
        }
    }

    /// Returns a truth value.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn flag(&self, key: &str) -> Result<bool> {
        let wanted = "true or false";
        match self.value(key, wanted)?.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(self.mistyped(key, other, wanted)),
        }
    }

    /// Returns a whole number within `range`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64> {
        let wanted = integers(&range);
        self.integer_of(key, self.value(key, &wanted)?.get_ref(), &range)
    }

    /// Returns a list of whole numbers within `range`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn integers(&self, key: &str, range: RangeInclusive<u64>) -> Result<Vec<u64>> {
        let wanted = format!("a list such as [2, 3], each {}", integers(&range));
        match self.value(key, &wanted)?.get_ref() {
            DeValue::Array(array) => array.iter().map(|value| self.integer_of(key, value.get_ref(), &range)).collect(),
            other => Err(self.mistyped(key, other, &wanted)),
        }
    }

    /// Returns a number, whole or not, within `range`.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64> {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        let value = self.value(key, &wanted)?.get_ref();
        let number = match value {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse::<f64>().ok(),
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            other => return Err(self.mistyped(key, other, &wanted)),
        };
        match number {
            Some(number) if range.contains(&number) => Ok(number),
            _ => Err(self.mistyped(key, value, &wanted)),
        }
    }

    /// Returns a time with its unit.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn time(&self, key: &str) -> Result<Span> {
        self.with_unit(key, "a time such as \"100ns\" or \"0.71us\"", units::time)
    }

    /// Returns a number of bytes with its unit.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn bytes(&self, key: &str) -> Result<u64> {
        self.with_unit(key, "a length such as \"8B\" or \"4KiB\"", units::bytes)
    }

    /// Returns the picoseconds for each byte, from a bandwidth or a time.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]
    pub fn per_byte(&self, key: &str) -> Result<f64> {
        self.with_unit(key, "a bandwidth such as \"12.5GB/s\", or \"80ps/B\"", units::per_byte)
    }

    fn with_unit<T>(&self, key: &str, wanted: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T> {
        match self.value(key, wanted)?.get_ref() {
            DeValue::String(text) => read(text).map_err(|what| self.error(key, what)),
            DeValue::Integer(number) => self.unitless(key, number.as_str(), wanted),
            DeValue::Float(number) => self.unitless(key, number.as_str(), wanted),
            other => Err(self.mistyped(key, other, wanted)),
        }
    }

    fn unitless<T>(&self, key: &str, number: &str, wanted: &str) -> Result<T> {
        Err(self.error(key, format_args!("{number} has no unit; write {wanted}")))
    }

    fn integer_of(&self, key: &str, value: &DeValue<'_>, range: &RangeInclusive<u64>) -> Result<u64> {
        let DeValue::Integer(integer) = value else { return Err(self.mistyped(key, value, &integers(range))) };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(self.mistyped(key, value, &integers(range))),
        }
    }

    fn value(&self, key: &str, wanted: &str) -> Result<&Spanned<DeValue<'a>>> {
        self.table.get(key).ok_or_else(|| self.error(key, format_args!("is missing; write {wanted}")))
    }

    fn mistyped(&self, key: &str, value: &DeValue<'_>, wanted: &str) -> Error {
        let is = match value {
            DeValue::String(text) => quoted(text),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(date) => date.to_string(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.error(key, format_args!("{is} is not what it should be; write {wanted}"))
    }

    /// Returns the table, unless it has other keys.
    fn with_keys(self, keys: &[&str]) -> Result<Table<'a>> {
        let unknown = self.table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(self),
            Some(key) => {
                let what = format_args!("is unknown; known are {}", keys.join(", ")).to_string();
                let name = key.get_ref().chars().take(40).collect::<String>();
                Err(self.source.error(key.span().start, format_args!("{}{name}: {what}", self.prefix)))
            }
        }
    }
}

impl Source<'_> {
    fn error(&self, at: usize, what: impl Display) -> Error {
        let line = 1 + self.text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count();
        Error::settings(format!("{}:{line}: {what}", self.name))
    }
}

fn integers(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a = \"5ns\"\nb = 3\n\n[c]\nd = [1, 0x10]\ne = \"two\"\nf = 0.5\ng = true\n[[h]]\ni = \"4KiB\"\n";

    fn said<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn values_are_read() {
        let table = Table::parse("x.toml", TEXT, &["a", "b", "c", "h"]).unwrap();
        assert_eq!(table.time("a").unwrap(), Span::nanoseconds(5));
        assert_eq!(table.integer("b", 1..=3).unwrap(), 3);
        assert_eq!(table.number("b", 0.0..=4.0).unwrap(), 3.0);
        let part = table.table("c", &["d", "e", "f", "g"]).unwrap();
        assert_eq!(part.integers("d", 0..=16).unwrap(), [1, 16]);
        assert_eq!(part.choice("e", &[("one", 1), ("two", 2)]).unwrap(), 2);
        assert_eq!(part.number("f", 0.0..=1.0).unwrap(), 0.5);
        assert!(part.flag("g").unwrap() && part.has("g") && !part.has("h"));
        assert_eq!(table.tables("h", &["i"]).unwrap()[0].bytes("i").unwrap(), 4096);
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let table = Table::parse("x.toml", TEXT, &["a", "b", "c", "h"]).unwrap();
        let part = table.table("c", &["d", "e", "f", "g"]).unwrap();
        for (said, expected) in [
            (said(table.time("b")), "x.toml:2: b: 3 has no unit; write a time such as \"100ns\" or \"0.71us\""),
            (
                said(table.integer("b", 4..=9)),
                "x.toml:2: b: 3 is not what it should be; write a whole number from 4 to 9",
            ),
            (said(table.flag("z")), "x.toml:1: z: is missing; write true or false"),
            (said(part.flag("z")), "x.toml:4: c.z: is missing; write true or false"),
            (said(part.choice("e", &[("one", 1)])), "x.toml:6: c.e: \"two\" is unknown; write \"one\""),
            (
                said(part.number("f", 1.0..=2.0)),
                "x.toml:7: c.f: 0.5 is not what it should be; write a number from 1 to 2",
            ),
            (said(part.integers("d", 0..=1)), "x.toml:5: c.d: 16 is not"),
            (said(table.table("c", &["e", "f"])), "x.toml:5: c.d: is unknown; known are e, f"),
            (said(table.tables("h", &["j"])), "x.toml:10: h[0].i: is unknown; known are j"),
            (said(table.table("a", &[])), "x.toml:1: a: \"5ns\" is not what it should be; write a table"),
            (said(Table::parse("x.toml", "a = 1\na = 2", &["a"])), "x.toml:2: duplicate key; write TOML"),
            (said(Table::parse("x.toml", "\n\na = ", &["a"])), "x.toml:3: "),
        ] {
            // Integers are printed in their radix.
            let expected = expected.replace("16 is not", "10 is not");
            assert!(said.starts_with(&expected), "{said}\n{expected}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
