//! Two documents of one kind, compared row by row.

use crate::document::{Document, Section};
use crate::finding::{Better, Cell, Column, Table, Value};
use crate::{Error, Result};

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Diff {
    /// The comparison as a document.
    pub document: Document,
    /// The number of values that got worse by more than the threshold, and by more than their spreads.
    pub worse: usize,
}

/// The verdict on one value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Worse,
    Changed,
    Better,
    Same,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Worse => "worse",
            Verdict::Changed => "changed",
            Verdict::Better => "better",
            Verdict::Same => "same",
        }
    }
}

/// A value in both documents.
struct Change {
    verdict: Verdict,
    /// The quotient of the new value and the old one, or its inverse: always at least 1.
    factor: f64,
    /// The section and the table.
    of: [String; 2],
    cells: Vec<Cell>,
}

/// Compares `new` with `old`: values of the same section, table, row and column.
///
/// A value is worse, or better, when it moved by more than `threshold` (0.1 is 10 %) and the spreads of the two do not
/// overlap. Columns without a direction are only `changed`. So are values without a spread in results of repeated runs,
/// since their variation from run to run is unknown.
///
/// # Errors
///
/// [`Error::Document`] if the documents are of different kinds, or have no value in common.
pub fn diff(old: &Document, new: &Document, threshold: f64) -> Result<Diff> {
    if old.kind != new.kind {
        return Err(Error::Document {
            why: format!("results of `{}` and of `{}` cannot be compared", old.kind, new.kind),
        });
    }
    let mut changes = Vec::new();
    let mut missing = Vec::new();
    let repeated = is_repeated(old) || is_repeated(new);
    for section in &old.sections {
        let other = new.sections.iter().find(|other| other.id == section.id);
        for table in &section.finding.tables {
            let other = other.and_then(|other| other.finding.tables.iter().find(|other| other.title == table.title));
            match other {
                Some(other) => compare(section, table, other, (threshold, repeated), &mut changes, &mut missing),
                None => missing.push(format!("{}: {}", section.title, table.title)),
            }
        }
    }
    if changes.is_empty() {
        return Err(Error::Document {
            why: "the two documents have no value in common: were their options the same?".into(),
        });
    }
    changes.sort_by(|a, b| a.verdict.cmp(&b.verdict).then(b.factor.total_cmp(&a.factor)));
    let count = |verdict| changes.iter().filter(|change| change.verdict == verdict).count();
    let [worse, changed, better, same] = [Verdict::Worse, Verdict::Changed, Verdict::Better, Verdict::Same].map(count);
    let mut document = Document::new("diff", format!("{}: two runs", new.title), new.run.clone(), new.machine.clone());
    document.summary.push(format!(
        "{worse} worse, {better} better, {changed} changed, {same} unchanged within {:.0} % or within their spreads.",
        threshold * 100.0
    ));
    if repeated {
        document.summary.push("Values without a spread are not judged, only listed as changed.".into());
    } else {
        // Other commands have no option that gives their values a spread.
        document.summary.push(match old.kind.as_str() {
            "simulate" => "No value has a spread: more seeds (--seeds) give a safer verdict.".into(),
            "study" | "run" | "compare" => {
                "No value has a spread: more repetitions (--repetitions) give a safer verdict.".into()
            }
            _ => "No value has a spread.".into(),
        });
    }
    if old.machine.cpu != new.machine.cpu || old.machine.profile != new.machine.profile {
        let side = |document: &Document| format!("{} ({})", document.machine.cpu, document.machine.profile);
        document.summary.push(format!("The runs are of different machines or builds: {}; {}.", side(old), side(new)));
    }
    let columns = |keys: &[&str]| {
        let values = [Column::neither("old"), Column::neither("new"), Column::neither("new by old"), "verdict".into()];
        keys.iter().map(|&key| Column::from(key)).chain(values).collect::<Vec<_>>()
    };
    let mut all = Table::new("Values that moved", columns(&["section", "table", "row", "column"])).keyed(4);
    // A table of the runs is one here, under its caption; the one with the worst value comes first.
    let mut tables: Vec<Table> = Vec::new();
    for Change { of: [of_section, of_table], cells, .. } in
        changes.into_iter().filter(|one| one.verdict != Verdict::Same)
    {
        let caption = if of_table == of_section { of_table.clone() } else { format!("{of_section}: {of_table}") };
        let at = tables.iter().position(|table| table.title == caption).unwrap_or_else(|| {
            tables.push(Table::new(caption, columns(&["row", "column"])).keyed(2));
            tables.len() - 1
        });
        tables[at].row(cells.clone());
        all.row([of_section.into(), of_table.into()].into_iter().chain(cells));
    }
    let mut section = Section::new("changes", "Changes");
    section.finding.tables = tables;
    document.data = Some(all);
    if !missing.is_empty() {
        section = section.paragraph(format!("Only in the old run: {}.", missing.join("; ")));
    }
    document.sections.push(section);
    Ok(Diff { document, worse })
}

/// Returns whether some value has a spread, as values of repeated measurements have.
fn is_repeated(document: &Document) -> bool {
    let tables = document.sections.iter().flat_map(|section| &section.finding.tables);
    tables.flat_map(|table| table.rows.iter().flatten()).any(|cell| cell.spread.is_some())
}

fn compare(
    section: &Section,
    old: &Table,
    new: &Table,
    (threshold, repeated): (f64, bool),
    changes: &mut Vec<Change>,
    missing: &mut Vec<String>,
) {
    for row in &old.rows {
        let name = old.name(row);
        let Some(other) = new.rows.iter().find(|other| new.name(other) == name) else {
            missing.push(format!("{}: {name}", old.title));
            continue;
        };
        for (column, before) in old.columns.iter().zip(row).skip(old.keys) {
            let at = new.columns.iter().position(|other| other.name == column.name);
            let Some(after) = at.map(|at| &other[at]) else { continue };
            let (Some(a), Some(b)) = (before.value.number(), after.value.number()) else { continue };
            let factor = if a == b { 1.0 } else { b / a };
            let unknown = repeated && (before.spread.is_none() || after.spread.is_none());
            let direction = if unknown { Better::Neither } else { column.direction(&before.value) };
            let verdict = verdict(direction, (before, a), (after, b), threshold);
            let size = if factor > 0.0 { factor.max(1.0 / factor) } else { f64::MAX };
            let of = [&section.title, &old.title].map(Clone::clone);
            let key = [&name, &column.name].map(|text| Cell::from(text.as_str()));
            let values = [before.clone(), after.clone(), Value::Ratio(factor).into(), verdict.name().into()];
            changes.push(Change { verdict, factor: size, of, cells: key.into_iter().chain(values).collect() });
        }
    }
}

fn verdict(better: Better, (before, a): (&Cell, f64), (after, b): (&Cell, f64), threshold: f64) -> Verdict {
    let (low, high) = (a.min(b), a.max(b));
    // A share or an index that moves from 0 has no factor, but has changed.
    let moved = if low > 0.0 { high / low > 1.0 + threshold } else { high > low };
    let (before, after) = (before.spread.unwrap_or((a, a)), after.spread.unwrap_or((b, b)));
    let overlap = before.0 <= after.1 && after.0 <= before.1;
    match better {
        _ if !moved || overlap => Verdict::Same,
        Better::Lower if b > a => Verdict::Worse,
        Better::Higher if b < a => Verdict::Worse,
        Better::Lower | Better::Higher => Verdict::Better,
        Better::Neither | Better::ByKind => Verdict::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::example;

    /// The example with the first lock's rate multiplied by `factor`, and the spread with it.
    fn scaled(factor: f64) -> Document {
        let mut document = example();
        let cell = &mut document.sections[0].finding.tables[0].rows[0][1];
        *cell = Cell::from(Value::Rate(1e6 * factor)).between(9e5 * factor, 1.1e6 * factor);
        document
    }

    #[test]
    fn only_a_drop_beyond_threshold_and_spread_is_worse() {
        assert_eq!(diff(&example(), &scaled(0.5), 0.1).unwrap().worse, 1);
        assert_eq!(diff(&example(), &scaled(0.85), 0.1).unwrap().worse, 0, "the spreads overlap");
        let faster = diff(&example(), &scaled(2.0), 0.1).unwrap();
        assert_eq!(faster.worse, 0);
        assert_eq!(faster.document.sections[0].finding.tables[0].rows.len(), 1);
        assert_eq!(diff(&example(), &scaled(0.5), 1.5).unwrap().worse, 0, "the threshold is larger");
    }

    #[test]
    fn a_value_without_a_spread_beside_values_with_one_is_not_judged() {
        let mut unfair = example();
        unfair.sections[0].finding.tables[0].rows[0][2] = Value::Number(0.1).into();
        let moved = diff(&example(), &unfair, 0.1).unwrap();
        assert_eq!(moved.worse, 0);
        assert_eq!(moved.document.sections[0].finding.tables[0].rows.len(), 1, "it is listed");
    }

    #[test]
    fn incomparable_documents_are_refused() {
        let mut other = example();
        other.kind = "verify".into();
        assert!(diff(&example(), &other, 0.1).is_err());
        let mut empty = example();
        empty.sections.clear();
        assert!(diff(&example(), &empty, 0.1).is_err());
    }

    #[test]
    fn the_hint_names_an_option_of_the_command() {
        for (kind, hint) in
            [("study", "(--repetitions)"), ("simulate", "(--seeds)"), ("verify", "No value has a spread.")]
        {
            let mut alone = example();
            alone.kind = kind.into();
            let cells = alone.sections.iter_mut().flat_map(|section| &mut section.finding.tables);
            cells.flat_map(|table| table.rows.iter_mut().flatten()).for_each(|cell| cell.spread = None);
            let summary = diff(&alone, &alone, 0.1).unwrap().document.summary;
            assert!(
                summary[1].contains(hint) && summary[1].starts_with("No value has a spread"),
                "{kind}: {summary:?}"
            );
        }
    }

    #[test]
    fn a_caption_is_there_once() {
        let mut other = scaled(0.5);
        other.sections[0].finding.tables[0].rows[1][1] = Value::Rate(1.0).into();
        let moved = diff(&example(), &other, 0.1).unwrap().document;
        assert!(moved.data.as_ref().unwrap().rows.len() > 1);
        let text = crate::text::document(&moved, usize::MAX);
        let caption = &example().sections[0].finding.tables[0].title;
        assert_eq!(text.matches(caption.as_str()).count(), 1, "{text}");
    }

    #[test]
    fn missing_rows_are_named() {
        let mut fewer = example();
        fewer.sections[0].finding.tables[0].rows.remove(1);
        let text = &diff(&example(), &fewer, 0.1).unwrap().document.sections[0].text;
        assert!(text[0].contains("ticket"), "{text:?}");
    }
}
