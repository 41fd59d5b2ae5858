//! Pages with their included text, as readers see them.

use std::path::{Component, Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository is there")
}

pub(crate) fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// `path` without `..`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// The pages in SUMMARY.md, in order.
pub(crate) fn book() -> Vec<PathBuf> {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let targets = summary.split("](").skip(1).map(|rest| rest.split(')').next().expect("a link ends"));
    targets.map(|target| docs.join(target)).collect()
}

/// The documents outside the book.
pub(crate) fn others() -> Vec<PathBuf> {
    let mut found = vec![];
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && !["target", "docs", "node_modules"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text of a page, with each `{{#include FILE}}`, `FILE:ANCHOR` and `FILE:FROM:TO` replaced.
pub(crate) fn text(file: &Path) -> String {
    let mut text = String::new();
    for line in read(file).lines() {
        match line.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) {
            Some(what) => text += &included(file, what),
            None => text += line,
        }
        text.push('\n');
    }
    text
}

fn included(page: &Path, what: &str) -> String {
    let (file, part) = what.split_once(':').map_or((what, None), |(file, part)| (file, Some(part)));
    let whole = read(&plain(&page.parent().expect("a page is in a folder").join(file)));
    let Some(part) = part else { return whole };
    let is_mark = |line: &&str| line.contains("ANCHOR");
    let lines: Vec<&str> = if part.starts_with(|first: char| first.is_ascii_digit()) {
        let (from, to) = part.split_once(':').unwrap_or((part, part));
        let to = if to.is_empty() { usize::MAX } else { to.parse().expect("a line") };
        let from: usize = from.parse().expect("a line");
        whole.lines().skip(from - 1).take(to.saturating_sub(from - 1)).collect()
    } else {
        let (begin, end) = (format!("ANCHOR: {part}"), format!("ANCHOR_END: {part}"));
        let has = |mark: &str| whole.lines().any(|line| line.trim_end_matches(" -->").ends_with(mark));
        assert!(has(&begin) && has(&end), "{}: no part {part} in {file}", page.display());
        let from = whole.lines().skip_while(|line| !line.trim_end_matches(" -->").ends_with(&begin)).skip(1);
        from.take_while(|line| !line.trim_end_matches(" -->").ends_with(&end)).filter(|line| !is_mark(line)).collect()
    };
    assert!(!lines.is_empty(), "{}: {what} is empty", page.display());
    lines.join("\n")
}

/// The lines of `text`, each with a flag for code blocks, without the fences.
pub(crate) fn lines(text: &str) -> Vec<(bool, &str)> {
    let (mut fence, mut indented, mut after_blank) = (false, false, true);
    let mut lines = vec![];
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fence = !fence;
            continue;
        }
        let blank = line.trim().is_empty();
        indented = line.starts_with("    ") && (indented || after_blank) || indented && blank;
        after_blank = blank;
        lines.push((fence || indented, line));
    }
    lines
}
