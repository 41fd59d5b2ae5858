//! Documents and tables as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, presets};

use crate::document::{Document, Section};
use crate::finding::Table;

/// The width of lines if the terminal does not report one.
pub const WIDTH: usize = 100;

/// A table without lines, numbers right-aligned.
pub fn aligned(header: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    aligned_from(header, rows, 1)
}

/// Like [`aligned`], except that the first `left` columns are left-aligned.
fn aligned_from(header: Vec<String>, rows: impl Iterator<Item = Vec<String>>, left: usize) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A table without its title and without columns that have no value. A table wider than `width` continues below, with the names of its rows
/// again.
pub fn table(table: &Table, width: usize) -> String {
    let has_value = |at: &usize| table.rows.is_empty() || table.rows.iter().any(|row| row[*at].to_string() != "–");
    let columns = (0..table.columns.len()).filter(has_value);
    let (keys, others): (Vec<usize>, Vec<usize>) = columns.partition(|&at| at < table.keys);
    let wide = |at: usize| {
        let cells = table.rows.iter().map(|row| row[at].to_string().chars().count());
        cells
            .chain([table.columns[at].name.lines().map(|line| line.chars().count()).max().unwrap_or(0)])
            .max()
            .unwrap_or(0)
            + 2
    };
    let names: usize = keys.iter().copied().map(wide).sum();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for at in others {
        let needed = wide(at);
        if blocks.is_empty() || used.saturating_add(needed) > width {
            blocks.push(keys.clone());
            used = names;
        }
        used += needed;
        blocks.last_mut().expect("a block was just added").push(at);
    }
    if blocks.is_empty() {
        blocks.push(keys.clone());
    }
    let left =
        |at: &usize| table.rows.iter().any(|row| row[*at].value.number().is_none() && row[*at].to_string() != "–");
    let block = |columns: &Vec<usize>| {
        let header = columns.iter().map(|&at| table.columns[at].name.clone()).collect();
        let rows = table.rows.iter().map(|row| columns.iter().map(|&at| row[at].to_string()).collect());
        aligned_from(header, rows, columns.iter().take_while(|at| left(at)).count().max(1))
    };
    blocks.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// A document as text for a terminal with that many columns: the summary, then each section that is not folded.
pub fn document(document: &Document, width: usize) -> String {
    let mut text = String::new();
    for section in document.sections.iter().filter(|section| !section.folded) {
        text += &self::section(section, width);
    }
    for line in &document.summary {
        let _ = writeln!(text, "{}", fill(line, width));
    }
    text
}

/// A section as text.
fn section(section: &Section, width: usize) -> String {
    let mut text = String::new();
    let finding = &section.finding;
    for line in &section.text {
        let _ = writeln!(text, "{}", fill(line, width));
    }
    for listing in &section.listings {
        let _ = writeln!(text, "{}", listing.trim_end());
    }
    for claim in &finding.claims {
        let _ = writeln!(text, "- expected: {}\n  here: {} ({})", claim.expected, claim.here, claim.verdict());
    }
    for found in &finding.tables {
        if !text.is_empty() && !text.ends_with("\n\n") {
            text.push('\n');
        }
        let _ = writeln!(text, "{}\n\n{}", fill(&found.title, width), table(found, width));
        if let Some(spread) = found.widest_spread() {
            let _ = writeln!(text, "{}\n", fill(&spread, width));
        }
    }
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    text
}

/// Text in lines of at most `width` characters, unless a word is longer.
pub fn fill(text: &str, width: usize) -> String {
    let mut filled = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            filled.push('\n');
            column = 0;
        } else if column > 0 {
            filled.push(' ');
            column += 1;
        }
        filled += word;
        column += length;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Value;

    #[test]
    fn a_wide_table_continues_below() {
        let mut wide = Table::new("t", ["lock", "first column", "second column", "third column"]);
        wide.row([Value::from("mcs"), Value::Count(1), Value::Count(2), Value::Count(3)]);
        let text = table(&wide, 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert_eq!(text.matches("mcs").count(), 2, "{text}");
        assert_eq!(table(&wide, usize::MAX).matches("mcs").count(), 1);
    }

    #[test]
    fn a_column_without_values_is_left_out() {
        let mut sparse = Table::new("t", ["lock", "order", "states", "bytes"]).keyed(2);
        sparse.row([Value::from("mcs"), Value::None, Value::Count(7), Value::None]);
        assert_eq!(table(&sparse, 40), " lock  states\n mcs        7\n");
        sparse.row([Value::from("tas"), Value::None, Value::Count(8), Value::Count(9)]);
        assert_eq!(table(&sparse, 40), " lock  states  bytes\n mcs        7      –\n tas        8      9\n");
    }

    #[test]
    fn a_caption_fits_the_terminal() {
        let mut document = crate::document::tests::example();
        document.sections[0].finding.tables[0].title = "Throughput of all ranks, and time to acquire".into();
        let text = super::document(&document, 40);
        assert!(text.contains("Throughput of all ranks, and time to\nacquire\n\n"), "{text}");
    }

    #[test]
    fn text_is_filled() {
        assert_eq!(fill("one two three", 7), "one two\nthree");
        assert_eq!(fill("incomprehensibilities", 5), "incomprehensibilities");
    }
}
