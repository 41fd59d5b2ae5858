//! CONTRIBUTING.md names exactly the steps of `.ci/run`.

use std::process::Command;

use crate::page::{read, root};

#[test]
fn the_steps_match_ci() {
    let output = Command::new(root().join(".ci/run")).arg("--list").output().expect("the script starts");
    let listed = String::from_utf8(output.stdout).expect("text");
    let listed: Vec<&str> = listed.lines().map(|line| line.trim_end_matches(" *")).collect();
    let text = read(&root().join("CONTRIBUTING.md"));
    let table = text.split("| step | what | command |").nth(1).and_then(|rest| rest.split("\n\n").next());
    let rows = table.expect("a table of steps").lines().skip(2);
    let named: Vec<&str> = rows.map(|row| row.split('`').nth(1).expect("a step's name")).collect();
    assert_eq!(named, listed);
}
