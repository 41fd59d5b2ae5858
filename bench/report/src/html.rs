//! Parts of a page: everything in one file, nothing from the network.

use std::fmt::Write;

use crate::finding::Table;
use crate::machine::Machine;

/// How all pages look.
pub const CSS: &str = "
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1120px; padding: 24px; }
h1 { font-size: 1.9em; margin: 0 0 .2em; } h2 { margin: 2em 0 .4em; border-bottom: 2px solid #ddd; } h3 { margin: 1.6em 0 .3em; }
p { max-width: 46em; } .sub { color: #555; margin-top: 0; }
.warn { background: #fff3cd; border-left: 5px solid #d68f00; padding: .6em 1em; }
figure { margin: 0 0 1.2em; } figure svg { max-width: 100%; height: auto; } figcaption { max-width: 46em; color: #333; }
table { border-collapse: collapse; font-size: .88em; } th, td { padding: .25em .7em; border-bottom: 1px solid #e4e4e4; text-align: left; vertical-align: top; }
th { background: #f5f5f5; } th.c { text-align: center; border-left: 2px solid #fff; } td { white-space: normal; } td:first-child { white-space: nowrap; } td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } code, pre { font-family: ui-monospace, monospace; font-size: .92em; } pre { background: #f5f5f5; padding: .7em 1em; overflow-x: auto; }
summary { cursor: pointer; font-weight: 600; margin: .6em 0; } nav a { margin-right: 1.2em; }
";

/// A table of a finding.
pub fn table(out: &mut String, table: &Table) {
    push(out, format_args!("<h3>{}</h3>\n<div class=\"wide\"><table>\n<tr>", escape(&table.title)));
    for (place, column) in table.columns.iter().enumerate() {
        let class = if place == 0 { "" } else { " class=\"n\"" };
        push(out, format_args!("<th{class}>{}</th>", escape(column)));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (place, value) in row.iter().enumerate() {
            let class = if place == 0 { "" } else { " class=\"n\"" };
            push(out, format_args!("<td{class}>{}</td>", escape(&value.to_string())));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

/// A machine's description as a table.
pub fn machine(out: &mut String, machine: &Machine) {
    out.push_str("<table>\n");
    for (name, value) in machine.rows() {
        push(out, format_args!("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(&value)));
    }
    out.push_str("</table>\n");
}

/// An SVG document as an element of the page: without what only a file of its own needs, and with a name.
pub fn inline(svg: &str, title: &str) -> String {
    let start = svg.find("<svg").unwrap_or(0);
    svg[start..].replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1).replacen(
        "<svg",
        &format!("<svg role=\"img\" aria-label=\"{}\"", escape(title)),
        1,
    )
}

/// Text as it can stand anywhere in a page, in an attribute, too.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Adds formatted text to a page.
pub fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        assert_eq!(escape("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
    }

    #[test]
    fn figures_lose_their_name_space() {
        let svg = "<?xml version=\"1.0\"?>\n<svg width=\"1\" xmlns=\"http://www.w3.org/2000/svg\"></svg>";
        assert_eq!(inline(svg, "A"), "<svg role=\"img\" aria-label=\"A\" width=\"1\"></svg>");
    }
}
