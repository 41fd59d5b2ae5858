//! Names on the command line, and the one that was meant.

/// What is said of a `name` that no `thing` has: the most similar one of `names`, and all of them.
pub fn unknown<'a>(thing: &str, name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    let closest = names.iter().copied().min_by_key(|other| edits(name, other));
    let hint = closest
        .filter(|other| edits(name, other) <= 1 + name.len() / 3)
        .map_or(String::new(), |other| format!("; did you mean '{other}'?"));
    names.sort_unstable();
    format!("no {thing} is called '{name}'{hint} (there are {})", names.join(", "))
}

/// How many letters have to be changed, added or left out to make one word from the other (Levenshtein's distance).
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
}
