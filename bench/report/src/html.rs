//! Documents as a page: one file, without network access. Without scripts it shows everything; with them a reader can
//! sort tables, hide series, filter rows, switch scales, and copy the values.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart;
use crate::document::{Document, Section};
use crate::finding::{Claim, Table};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of a document.
pub fn document(document: &Document) -> String {
    let machine = &document.machine;
    let run = &document.run;
    let charts = document.sections.iter().any(|section| !section.finding.plots.is_empty() || !section.bars.is_empty());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content=(run.generator);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "rmalab: " (document.title) }
                style { (PreEscaped(chart::style(true))) (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (document.title) }
                    p.sub { (run.generator) " · " (run.started) " · " (machine.cpu) " · " (machine.cores) " usable processors" }
                    @if !run.complete {
                        p.warn { strong { "Incomplete: " } "the run was interrupted, so results are missing." }
                    }
                    @if !matches!(machine.profile.as_str(), "release" | "measure" | "") {
                        p.warn { strong { "A " (machine.profile) " build: " } "times are not representative." }
                    }
                    @for line in &document.summary { p.summary { (prose(line)) } }
                    nav {
                        @for section in &document.sections { a href=(format!("#{}", section.id)) { (section.title) } " " }
                        a href="#machine" { "Machine and command" }
                    }
                    @if charts {
                        div.tools hidden {
                            label { "Show only names with " input #filter type="search" placeholder="mcs, ticket" size="20"; }
                            button #scale type="button" aria-pressed="false" { "linear scales" }
                        }
                    }
                }
                main {
                    @for section in &document.sections { (self::section(section)) }
                    section #machine {
                        h2 { "Machine and command" }
                        pre { (run.command) }
                        @if let Some(seed) = run.seed { p { "Seed " (seed) "." } }
                        div.wide {
                            table.plain { tbody {
                                @for (name, value) in machine.rows() { tr { th { (name) } td { (value) } } }
                            } }
                        }
                    }
                }
                div #tip role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

fn section(section: &Section) -> Markup {
    let finding = &section.finding;
    let inside = html! {
        @for line in &section.text { p { (prose(line)) } }
        @if !finding.claims.is_empty() { (claims(&finding.claims)) }
        @for listing in &section.listings { pre { (listing.trim_end()) } }
        @if !finding.plots.is_empty() || !section.bars.is_empty() {
            div.charts {
                @for plot in &finding.plots {
                    figure id=(format!("{}-{}", section.id, plot.name)) data-x=(plot.x.label) data-y=(plot.y.label) {
                        div.panels { @for panel in chart::plot(plot) { (panel.element(&plot.title)) } }
                        figcaption { (prose(&plot.text)) " " button.take type="button" hidden { "values as CSV" } }
                    }
                }
                @for bars in &section.bars {
                    figure id=(format!("{}-{}", section.id, bars.name)) {
                        div.panels { (chart::bars(bars).element(&bars.title)) }
                        figcaption { (prose(&bars.text)) }
                    }
                }
            }
        }
        @for found in &finding.tables { (table(found)) }
    };
    html! {
        section id=(section.id) {
            h2 { (section.title) }
            @if section.folded { details { summary { "Show" } (inside) } } @else { (inside) }
        }
    }
}

/// Text in which words between backticks are code.
fn prose(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn claims(claims: &[Claim]) -> Markup {
    html! {
        div.wide {
            table.claims {
                thead { tr { th { "" } th { "expected" } th { "here" } } }
                tbody {
                    @for claim in claims {
                        tr.holds[claim.holds] {
                            td { (claim.verdict()) } td { (claim.expected) } td { (claim.here) }
                        }
                    }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    let numeric = |at: usize| table.rows.iter().any(|row| row[at].value.number().is_some());
    html! {
        h3 { (table.title) }
        div.wide {
            table.data {
                thead { tr {
                    @for (at, column) in table.columns.iter().enumerate() {
                        th.n[numeric(at)] scope="col" { (column.name) }
                    }
                } }
                tbody {
                    @for row in &table.rows {
                        tr data-name=(table.name(row)) {
                            @for (at, cell) in row.iter().enumerate() {
                                td.n[numeric(at)] data-v=[cell.value.number()] title=[cell.spread_text()] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::document::tests::example;

    #[test]
    fn a_page_has_all_parts_and_no_references() {
        let page = super::document(&example());
        assert!(page.contains("<h1>Locks &amp; &lt;windows&gt;</h1>") && page.contains("rank 0 ──▶ &lt;home&gt;"));
        assert!(page.contains("does not hold") && page.contains("data-v=\"1000000\""));
        for outside in ["src=", "url(", "@import", "fetch(", "XMLHttpRequest", "http://", "https://"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
