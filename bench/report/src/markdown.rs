//! Documents as Markdown.

use std::fmt::Write;

use crate::document::{Document, Section};
use crate::finding::Table;

/// A document as Markdown. Plots are links into `plots/`, which a report's folder has.
pub fn document(document: &Document) -> String {
    let mut text = format!("# {}\n\n", document.title);
    let run = &document.run;
    let machine = &document.machine;
    let _ = writeln!(
        text,
        "Made by `{}` on {}, commit {}, {} build, {}, {} usable processors of {}. Not edited by hand.\n",
        run.command, run.started, machine.commit, machine.profile, machine.rustc, machine.cores, machine.cpu
    );
    if !run.complete {
        text += "**Incomplete:** the run was interrupted, so results are missing.\n\n";
    }
    for line in &document.summary {
        let _ = writeln!(text, "{line}\n");
    }
    for section in &document.sections {
        self::section(&mut text, section);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn section(text: &mut String, section: &Section) {
    let finding = &section.finding;
    let _ = writeln!(text, "## {}\n", section.title);
    for line in &section.text {
        let _ = writeln!(text, "{line}\n");
    }
    for listing in &section.listings {
        let _ = writeln!(text, "```text\n{}\n```\n", listing.trim_end());
    }
    if !finding.claims.is_empty() {
        *text += "| | expected | here |\n| --- | --- | --- |\n";
        for claim in &finding.claims {
            let _ = writeln!(text, "| {} | {} | {} |", claim.verdict(), escape(&claim.expected), escape(&claim.here));
        }
        text.push('\n');
    }
    let plots = finding.plots.iter().map(|plot| (&plot.name, &plot.title, &plot.text));
    let bars = section.bars.iter().map(|bars| (&bars.name, &bars.title, &bars.text));
    for (name, title, caption) in plots.chain(bars) {
        let _ = writeln!(text, "![{title}](plots/{}-{name}.svg)\n", section.id);
        if !caption.is_empty() {
            let _ = writeln!(text, "*{caption}*\n");
        }
    }
    for found in &finding.tables {
        let _ = writeln!(text, "### {}\n\n{}", found.title, table(found));
        if let Some(spread) = found.widest_spread() {
            let _ = writeln!(text, "{spread}\n");
        }
    }
}

/// A table as Markdown, without its title.
pub fn table(table: &Table) -> String {
    let names = table.columns.iter().map(|column| escape(&column.name)).collect::<Vec<_>>().join(" | ");
    let numeric = |at: usize| table.rows.iter().any(|row| row[at].value.number().is_some());
    let lines = (0..table.columns.len()).map(|at| if at >= table.keys && numeric(at) { "---:" } else { "---" });
    let mut text = format!("| {names} |\n| {} |\n", lines.collect::<Vec<_>>().join(" | "));
    for row in &table.rows {
        let cells = row.iter().map(|cell| escape(&cell.to_string())).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| {cells} |");
    }
    text
}

/// Escapes text for a cell.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use crate::document::tests::example;

    #[test]
    fn all_parts_are_rendered() {
        let text = super::document(&example());
        for part in [
            "# Locks & <windows>",
            "mcs wins",
            "## Threads",
            "```text",
            "(plots/local-throughput.svg)",
            "| ticket |",
            "does not hold",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
