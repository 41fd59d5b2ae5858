//! Passes compiler, profile and commit to the program, for every report.

use std::path::Path;
use std::process::Command;

fn main() {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let rustc = std::env::var("RUSTC").ok().and_then(|rustc| run(&rustc, &["--version"]));
    println!("cargo::rustc-env=RMALAB_RUSTC={}", rustc.unwrap_or_else(|| "unknown".into()));
    // PROFILE is `release` for all profiles that inherit from it, so the name comes from OUT_DIR:
    // .../PROFILE/build/NAME/out.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = match folder.map(|name| name.to_string_lossy()) {
        // `cargo bench` has the folder of the release, and optimizes further.
        Some(name) if name == "release" && std::env::var("OPT_LEVEL").is_ok_and(|level| level == "3") => "bench".into(),
        name => name.unwrap_or("unknown".into()),
    };
    println!("cargo::rustc-env=RMALAB_PROFILE={profile}");
    let commit = run("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    println!("cargo::rustc-env=RMALAB_COMMIT={}", commit.unwrap_or_else(|| "unknown".into()));
    // A change of any crate makes the commit a dirty one.
    for path in ["../.git/HEAD", "../.git/logs/HEAD", "../atomics", "../locks", "../windows", "../verify", "../bench"] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}
