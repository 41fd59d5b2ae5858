//! Documents as CSV.

use std::io;

use crate::document::Document;
use crate::finding::Table;

/// A document as CSV: its data with one line for each measurement, or otherwise one line for each value of its tables.
pub fn document(document: &Document) -> String {
    let written = match &document.data {
        Some(data) => wide(data),
        None => long(document),
    };
    let bytes = written.expect("writing to memory does not fail");
    String::from_utf8(bytes).expect("text and numbers are UTF-8")
}

/// A line for each row. A column's name has the unit; spreads have separate columns.
fn wide(table: &Table) -> io::Result<Vec<u8>> {
    let mut to = csv::Writer::from_writer(Vec::new());
    let unit = |at: usize| table.rows.iter().map(|row| row[at].value.plain().1).find(|unit| !unit.is_empty());
    let spread = |at: usize| table.rows.iter().any(|row| row[at].spread.is_some());
    let mut header = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let name = match unit(at) {
            Some(unit) => format!("{} [{unit}]", column.name),
            None => column.name.clone(),
        };
        if spread(at) {
            header.extend([format!("{name} low"), format!("{name} high")]);
        }
        header.push(name);
    }
    to.write_record(header)?;
    for row in &table.rows {
        let mut record = Vec::new();
        for (at, cell) in row.iter().enumerate() {
            if spread(at) {
                let (low, high) = cell.spread.unzip();
                record.extend([low, high].map(|bound| bound.map_or(String::new(), |bound| bound.to_string())));
            }
            record.push(cell.value.plain().0);
        }
        to.write_record(record)?;
    }
    to.into_inner().map_err(|error| error.into_error())
}

/// A line for each value of each table, and for each claim.
fn long(document: &Document) -> io::Result<Vec<u8>> {
    let mut to = csv::Writer::from_writer(Vec::new());
    to.write_record(["section", "table", "row", "column", "value", "unit", "low", "high"])?;
    for section in &document.sections {
        for claim in &section.finding.claims {
            to.write_record([&section.id, "claims", &claim.expected, &claim.here, claim.verdict(), "", "", ""])?;
        }
        for table in &section.finding.tables {
            for row in &table.rows {
                let name = table.name(row);
                for (column, cell) in table.columns.iter().zip(row).skip(table.keys) {
                    let (value, unit) = cell.value.plain();
                    let (low, high) = cell.spread.unzip();
                    let [low, high] = [low, high].map(|bound| bound.map_or(String::new(), |bound| bound.to_string()));
                    to.write_record([&section.id, &table.title, &name, &column.name, &value, unit, &low, &high])?;
                }
            }
        }
    }
    to.into_inner().map_err(|error| error.into_error())
}

#[cfg(test)]
mod tests {
    use crate::document::tests::example;

    #[test]
    fn csv_has_a_line_for_each_row_or_each_value() {
        let mut document = example();
        let text = super::document(&document);
        assert!(text.starts_with("lock,2 ranks [1/s] low,2 ranks [1/s] high,2 ranks [1/s],Jain\n"), "{text}");
        assert_eq!(text.lines().count(), 4);
        document.data = None;
        let text = super::document(&document);
        assert_eq!(text.lines().count(), 1 + 1 + 6, "{text}");
        assert!(text.contains("local,Throughput,mcs,2 ranks,1000000,1/s,900000,1100000"), "{text}");
    }
}
