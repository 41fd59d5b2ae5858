//! Names on the command line, and suggestions for wrong ones.

use std::path::{Path, PathBuf};

/// An error lists all names up to this number.
const FEW: usize = 24;

/// The number of suggestions in an error.
const NEAREST: usize = 3;

/// The error for a `name` that no `thing` has: the nearest names, and all of them if they are few.
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
    let all = if names.len() <= FEW {
        format!("there are {}", names.join(", "))
    } else {
        // The kinds of the command `list` are the plurals: locks, mutants, ...
        format!("there are {}: `{} list {}` prints them", names.len(), program(), plural(thing))
    };
    format!("no {thing} is called '{name}'{hint} ({all})")
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

/// The names nearest to `name`, in order of distance; none that is too far away.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let far = 1 + name.chars().count() / 3;
    let mut near: Vec<(usize, &str)> = names.iter().map(|&other| (edits(name, other), other)).collect();
    near.retain(|&(edits, other)| {
        edits <= far || (name.chars().count() >= 3 && (other.starts_with(name) || name.starts_with(other)))
    });
    near.sort_unstable();
    // A single nearest name with one wrong letter is the only suggestion.
    if let [(1, _), (second, _), ..] = near[..]
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
        let hint = format!("(there are 100: `{} list mutants` prints them)", program());
        assert!(said.ends_with(&hint) && said.len() < 200 + hint.len(), "{said}");
    }
}
