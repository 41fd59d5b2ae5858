//! Links refer to existing files, to headings, and, in the book, to pages of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::page::{book, lines, others, plain, read, root, text};

/// The text without code blocks and inline code.
fn prose(text: &str) -> String {
    let outside: Vec<&str> = lines(text).into_iter().filter(|(code, _)| !code).map(|(_, line)| line).collect();
    outside.join("\n").split('`').step_by(2).collect()
}

/// The targets of all links and images of a page: `[text](target)`, `[text][label]`.
fn targets(text: &str) -> Result<Vec<String>, String> {
    let prose = prose(text);
    let labels: BTreeMap<&str, &str> = prose
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
        .map(|(label, target)| (label, target.trim()))
        .collect();
    let mut targets = vec![];
    for (at, _) in prose.match_indices("](") {
        let rest = &prose[at + 2..];
        targets.push(rest[..rest.find(')').ok_or("a link does not end")?].to_owned());
    }
    for (at, _) in prose.match_indices("][") {
        let rest = &prose[at + 2..];
        let label = &rest[..rest.find(']').ok_or("a label does not end")?];
        targets.push((*labels.get(label).ok_or(format!("[{label}] is not defined"))?).to_owned());
    }
    Ok(targets)
}

/// The anchors of a page's headings, as mdBook and code hosts make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).into_iter().filter(|(code, line)| !code && line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|&c| c.is_alphanumeric() || "_- ".contains(c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The errors in the links of one document with the text `content`.
fn wrong_links(document: &Path, content: &str, book: Option<&[PathBuf]>, seen: &mut usize) -> Vec<String> {
    let targets = match targets(content) {
        Ok(targets) => targets,
        Err(error) => return vec![error],
    };
    let mut wrong = vec![];
    for target in targets.iter().filter(|target| !target.contains("://")) {
        *seen += 1;
        let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(file, at)| (file, Some(at)));
        let path = if file.is_empty() { document.to_owned() } else { plain(&document.with_file_name("").join(file)) };
        let is_page = path.extension().is_some_and(|end| end == "md");
        if !path.exists() {
            wrong.push(format!("{target}: there is no such file"));
        } else if let Some(book) = book
            && !(if is_page { book.contains(&path) } else { path.starts_with(root().join("docs")) })
        {
            wrong.push(format!("{target}: it is not in the book; name the file as `code` instead"));
        } else if let Some(anchor) = anchor
            && is_page
            && !anchors(&text(&path)).contains(anchor)
        {
            wrong.push(format!("{target}: there is no such heading"));
        }
    }
    wrong
}

#[test]
fn links_refer_to_files_and_headings() {
    let book = book();
    let (mut wrong, mut links) = (vec![], 0);
    for page in &book {
        let found = wrong_links(page, &text(page), Some(&book), &mut links);
        wrong.extend(found.into_iter().map(|link| format!("{}: {link}", page.display())));
    }
    for document in others() {
        let found = wrong_links(&document, &read(&document), None, &mut links);
        wrong.extend(found.into_iter().map(|link| format!("{}: {link}", document.display())));
    }
    assert!(wrong.is_empty(), "wrong links:\n{}", wrong.join("\n"));
    assert!(links > 80, "only {links} links were found");
}

#[test]
fn a_wrong_link_is_detected() {
    let book = book();
    let page = root().join("docs/locks.md");
    for (text, says) in [
        ("[x](no-such-page.md)", "no such file"),
        ("[x](backends.md#no-such-heading)", "no such heading"),
        ("[x](../CONTRIBUTING.md)", "not in the book"),
        ("[x][nowhere]", "not defined"),
        ("[x](#here)", "no such heading"),
    ] {
        let wrong = wrong_links(&page, text, Some(&book), &mut 0);
        assert!(wrong.len() == 1 && wrong[0].contains(says), "{text}: {wrong:?}");
    }
    let right = "`[x](no-such-page.md)` [x](backends.md#hardware) [y][z] <https://spinroot.com>\n\n    [x](a.md)\n\n[z]: neutral-aba.svg";
    assert_eq!(wrong_links(&page, right, Some(&book), &mut 0), [""; 0]);
}

#[test]
fn the_summary_lists_every_page_of_the_book_once() {
    let listed = book();
    let docs = root().join("docs");
    let mut written: Vec<PathBuf> = [docs.clone(), docs.join("locks"), docs.join("results")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()))
        .filter(|path| path.extension().is_some_and(|end| end == "md") && !path.ends_with("SUMMARY.md"))
        .collect();
    let mut sorted = listed.clone();
    sorted.sort();
    written.sort();
    assert_eq!(sorted, written);
}
