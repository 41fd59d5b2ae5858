//! Generated pages of the book: the catalogue of locks, and the command line.
//!
//! `RMALAB_DOCS=write cargo test -p rmalab --test documents generated` updates them.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::CommandCargoExt;
use rmalab_locks::PolicyKind;

use crate::page::{read, root};

/// Writes the page, or returns its first difference from `text`.
fn page(name: &str, text: &str) -> Option<String> {
    let file = root().join("docs").join(name);
    if std::env::var_os("RMALAB_DOCS").is_some_and(|what| what == "write") {
        std::fs::write(file, text).expect("the page can be written");
        return None;
    }
    let old = std::fs::read_to_string(&file).unwrap_or_default();
    let line = text.lines().zip(old.lines()).find(|(new, old)| new != old).map_or("its length", |(new, _)| new);
    (old != text).then(|| format!("docs/{name} differs at: {line}"))
}

fn assert_current(stale: &[String]) {
    assert!(
        stale.is_empty(),
        "these pages are stale; write them by `RMALAB_DOCS=write cargo test -p rmalab --test documents generated`:\n{}",
        stale.join("\n")
    );
}

/// The comment at the head of a file, as Markdown.
fn head(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// Text of rustdoc without links to items, which exist in rustdoc only; headings go one level down.
fn without_item_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        plain += &rest[..at];
        rest = &rest[at..];
        let end = rest.find(']').expect("a bracket is closed");
        let (inner, after) = (&rest[1..end], &rest[end + 1..]);
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        match target {
            Some((target, after)) if !target.contains("://") => {
                plain += inner;
                rest = after;
            }
            None if inner.starts_with('`') => {
                plain += &inner.replace("crate::", "");
                rest = after;
            }
            _ => {
                plain.push('[');
                rest = &rest[1..];
            }
        }
    }
    plain += rest;
    plain.lines().map(|line| if line.starts_with('#') { format!("#{line}\n") } else { format!("{line}\n") }).collect()
}

/// The measured bypass of the lock `name`, from the page of the explorer's results. It is from scenarios without end if
/// there are any, and otherwise from scenarios in which every rank waits.
fn bypass(name: &str) -> String {
    let results = read(&root().join("docs/results/checked.md"));
    let cells =
        |line: &str| -> Vec<String> { line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
    let rows: Vec<Vec<String>> = results.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let head = rows.iter().find(|row| row.iter().any(|cell| cell == "bypass")).expect("a table with the bypass");
    let at = |name: &str| head.iter().position(|cell| cell == name).expect("a column");
    let [lock, scenario, network, order, is] = ["lock", "scenario", "network", "order", "bypass"].map(at);
    let measured = |row: &&Vec<String>| row.len() == head.len() && row[lock] == name && row[is] != "–";
    let (endless, ending): (Vec<_>, Vec<_>) =
        rows.iter().filter(measured).partition(|row| row[scenario].contains("xinf"));
    let waits = |row: &&Vec<String>| {
        let forms = row[scenario].contains("try") || row[scenario].contains("timed");
        !forms && row[network] == "sc" && row[order] == "–"
    };
    let rows = if endless.is_empty() { ending.into_iter().filter(waits).collect() } else { endless };
    let rows: String =
        rows.iter().map(|row| format!("| `{}` | {} | {} |\n", row[scenario], row[network], row[is])).collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "## Bypass\n\nHow often ranks enter ahead of one that waits, at most, in any schedule of a scenario, as the \
         [explorer](../verify.md) measures it.\n\n| scenario | network | bypass |\n| --- | --- | --- |\n{rows}\n"
    )
}

/// The page of the lock or policy `name`.
fn lock_page(name: &str) -> String {
    let source = format!("locks/src/{}.rs", name.replace('-', "_"));
    let head = head(&read(&root().join(&source)));
    assert!(head.contains("\n# Cost\n"), "{source}: its head has no cost");
    let parts: Vec<String> = head
        .split("```")
        .enumerate()
        .map(|(part, text)| if part % 2 == 0 { without_item_links(text) } else { format!("```{text}```") })
        .collect();
    let text = parts.concat().replace("\n\n\n", "\n\n");
    let bypass = bypass(name);
    format!(
        "# {name}\n\n<!-- Generated from the head of {source} and from results/checked.md: change it there. -->\n\n\
         {text}\n{bypass}*Source: `{source}`.*\n"
    )
}

/// Pages of locks that no window has as its policy by itself: `global` takes another lock, a window's epoch does not end with time, and
/// windows do not come back.
const NO_POLICIES: [&str; 3] = ["global", "lease", "rme-mcs"];

#[test]
fn the_catalogue_of_locks_is_current() {
    let names = PolicyKind::NAMES.iter().copied().chain(NO_POLICIES);
    assert_current(&names.filter_map(|name| page(&format!("locks/{name}.md"), &lock_page(name))).collect::<Vec<_>>());
}

#[test]
fn a_head_becomes_a_page() {
    let source = "//! A lock.\n//!\n//! # State\n//! See [`crate::qnode`], [a\n//! word](Place::word) and [x](https://x.org).\nuse x;\n";
    let text = "A lock.\n\n## State\nSee `qnode`, a\nword and [x](https://x.org).\n";
    assert_eq!(without_item_links(&head(source)), text);
}

fn help(of: &[&str]) -> String {
    let mut command = Command::cargo_bin("rmalab").expect("cargo builds it for its tests");
    let output = command.args(of).arg("--help").env_remove("COLUMNS").output().expect("the program starts");
    assert!(output.status.success(), "{of:?}");
    let text = String::from_utf8(output.stdout).expect("help is text");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn the_page_of_the_command_line_is_current() {
    let general = help(&[]);
    let list = general.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let names = list.lines().filter_map(|line| line.split_whitespace().next()).filter(|&name| name != "help");
    let mut text = format!(
        "# Command line\n\n<!-- Generated from the help of the program: change it there. -->\n\n\
         `rmalab --help` and the `--help` of each command print these texts.\n\n## rmalab\n\n```text\n{general}```\n"
    );
    for name in names {
        text += &format!("\n## rmalab {name}\n\n```text\n{}```\n", help(&[name]));
    }
    assert_current(&page("command-line.md", &text).into_iter().collect::<Vec<_>>());
}

/// Generated pages are in the book; [`crate::links`] checks that.
#[test]
fn the_catalogue_has_no_other_pages() {
    let known = |path: &Path| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        NO_POLICIES.contains(&name) || PolicyKind::NAMES.contains(&name)
    };
    for entry in std::fs::read_dir(root().join("docs/locks")).expect("a folder") {
        let path = entry.expect("an entry").path();
        assert!(known(&path), "{}: no lock has this name", path.display());
    }
}
