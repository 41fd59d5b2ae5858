//! The `rmalab` program, as a user starts it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::CommandCargoExt;

pub(crate) fn rmalab(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("rmalab").expect("cargo builds it for its tests");
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    rmalab(arguments).output().expect("the program starts")
}

/// Runs the program on a terminal of `columns`, and returns what the terminal has got.
pub(crate) fn on_a_terminal(columns: u32, arguments: &[&str]) -> String {
    let program = rmalab(arguments);
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let line: Vec<String> = words.map(|word| format!("'{}'", word.to_str().expect("plain words"))).collect();
    let line = format!("stty columns {columns} && {}", line.join(" "));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    let output = script.output().expect("script starts");
    assert!(output.status.success(), "{}", stdout(&output));
    stdout(&output).replace("\r\n", "\n")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a program at `path`. Another process writes it: a file that a child of another test holds open for writing
/// cannot be started.
pub(crate) fn write_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = shell.spawn().expect("sh starts");
    writer.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("sh reads it");
    assert!(writer.wait().expect("sh ends").success(), "{} cannot be written", path.display());
}
