//! Names on the command line, and suggestions for wrong ones.

use std::path::{Path, PathBuf};

/// An error lists all names up to this number.
const FEW: usize = 24;

/// The number of suggestions in an error.
const NEAREST: usize = 3;

/// The error for a `name` that no `thing` has: the nearest names, and all of them if they are few, or the command that
/// prints them.
pub fn unknown<'a>(thing: &str, name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let near = nearest(name, &names);
    let near: Vec<String> = near.iter().map(|other| format!("'{other}'")).collect();
    let hint = match &near[..] {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [others @ .., last] => format!("; did you mean {} or {last}?", others.join(", ")),
    };
    let all = match names.len() {
        0 => String::new(),
        1..=FEW => format!(" (there are {})", names.join(", ")),
        _ => format!(" (`{} {}` prints the names)", program(), listing(thing)),
    };
    format!("no {thing} is called '{name}'{hint}{all}")
}

/// The command that prints the names of all things of a kind. Options take locks and policies alike, so that only the list of
/// all kinds has the names of both.
fn listing(thing: &str) -> String {
    if thing.starts_with("lock") { "list".into() } else { format!("list {}", plural(thing)) }
}

/// The name of the program, which may be one with locks of its own.
fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    path.as_deref().and_then(Path::file_name).map_or("rmalab".into(), |name| name.to_string_lossy().into_owned())
}

/// The plural of the last word of `thing`.
fn plural(thing: &str) -> String {
    let word = thing.rsplit(' ').next().unwrap_or(thing);
    word.strip_suffix('y').map_or_else(|| format!("{word}s"), |stem| format!("{stem}ies"))
}

/// The names nearest to `name`, in order of distance; none that is too far away. Capital letters do not matter.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let far = 1 + name.chars().count() / 3;
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .map(|&other| (other, other.to_lowercase()))
        .filter_map(|(other, small)| {
            let edits = edits(&name, &small);
            let begins = name.chars().count() >= 3 && (small.starts_with(&name) || name.starts_with(&small));
            (edits <= far || begins).then_some((edits, other))
        })
        .collect();
    near.sort_unstable();
    // A single nearest name with at most one wrong letter is the only suggestion.
    if let [(0 | 1, _), (second, _), ..] = near[..]
        && second > 1
    {
        near.truncate(1);
    }
    near.into_iter().take(NEAREST).map(|(_, other)| other).collect()
}

/// The number of letters to change, add or remove to make one word from the other (Levenshtein's distance).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_between_words() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("ticket", "tickets"), 1);
        assert_eq!(edits("mcs", "msc"), 2);
        assert_eq!(edits("same", "same"), 0);
    }

    #[test]
    fn the_kind_of_names_is_a_plural() {
        assert_eq!(["mutant", "lock policy", "window operation"].map(plural), ["mutants", "policies", "operations"]);
    }

    #[test]
    fn the_error_for_an_unknown_name_suggests_the_nearest_ones() {
        let few = ["ticket", "mcs", "tas"];
        assert_eq!(
            unknown("lock", "tikcet", few),
            "no lock is called 'tikcet'; did you mean 'ticket'? (there are mcs, tas, ticket)"
        );
        assert_eq!(unknown("lock", "zebra", few), "no lock is called 'zebra' (there are mcs, tas, ticket)");
        let many: Vec<String> = (0..100).map(|number| format!("mutant-{number}")).collect();
        let said = unknown("mutant", "mutant-1000", many.iter().map(String::as_str));
        assert!(said.contains("did you mean 'mutant-1") && said.matches('\'').count() <= 2 + 2 * NEAREST, "{said}");
        let hint = format!("(`{} list mutants` prints the names)", program());
        assert!(said.ends_with(&hint) && said.len() < 200 + hint.len(), "{said}");
    }

    #[test]
    fn the_list_of_all_kinds_has_the_names_of_locks_and_policies() {
        let many: Vec<String> = (0..100).map(|number| format!("lock-{number}")).collect();
        for thing in ["lock", "lock policy"] {
            let said = unknown(thing, "zebra", many.iter().map(String::as_str));
            assert_eq!(said, format!("no {thing} is called 'zebra' (`{} list` prints the names)", program()));
        }
    }

    #[test]
    fn without_names_there_is_no_list() {
        assert_eq!(unknown("command", "zebra", []), "no command is called 'zebra'");
    }

    #[test]
    fn capital_letters_do_not_hide_a_name() {
        let few = ["ticket", "mcs", "tas", "MyLock"];
        assert!(unknown("lock", "MCS", few).contains("; did you mean 'mcs'?"));
        assert!(unknown("lock", "mylock", few).contains("; did you mean 'MyLock'?"));
    }
}
