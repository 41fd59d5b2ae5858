//! `cargo xtask`: refused arguments, and written files.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::CommandCargoExt;

fn xtask(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("xtask").expect("cargo builds it for its tests");
    command.args(arguments).current_dir(at).stdin(Stdio::null()).output().expect("the program starts")
}

#[test]
fn scale_writes_a_page() {
    let at = tempfile::tempdir().unwrap();
    let small = ["scale", "--lock", "nocheck,two-level", "--ranks", "4:16:2", "--pairs", "2", "--quiet"];
    let output = xtask(at.path(), &[&small[..], &["--format", "markdown", "-o", "scale.md"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(at.path().join("scale.md")).unwrap();
    assert!(page.contains("How lock_all scales") && page.contains("two-level"), "{page}");
}

#[test]
fn bad_arguments_are_refused_with_a_clear_line() {
    let at = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&["kill-matrix", "matrix.md", "--lock", "mcs"][..], "--lock"),
        (&["kill-matrix", "nowhere/matrix.md"], "nowhere/matrix.md"),
        (&["scale", "--writers", "2%"], "--writers"),
    ] {
        let output = xtask(at.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(says), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(at.path()).unwrap().count(), 0);
}
