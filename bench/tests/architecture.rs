//! docs/architecture.md names files and functions that exist, and every file of tests belongs to a program of tests.

use std::path::Path;

#[test]
fn the_walks_name_functions_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let mut names = 0;
    for quoted in page.split('`').skip(1).step_by(2) {
        let Some((file, function)) = quoted.split_once(".rs::") else { continue };
        let file = format!("{file}.rs");
        let source = std::fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let defined = source.contains(&format!("fn {function}(")) || source.contains(&format!("fn {function}<"));
        assert!(defined, "{file} has no function {function}");
        names += 1;
    }
    assert!(names >= 14, "the walks of a fetch_add and of a put have 13 steps in files, and there are only {names}");
}

/// Crates with few programs of tests name these in their manifests. A file that is in none of them would not run.
#[test]
fn every_file_of_tests_is_in_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["atomics", "locks", "windows", "verify"] {
        let manifest = std::fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
        assert!(manifest.contains("autotests = false"), "{name} does not name its programs of tests");
        let mut files = Vec::new();
        for entry in std::fs::read_dir(root.join(name).join("tests")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.file_stem().unwrap().to_str().unwrap().to_owned(), text));
            }
        }
        let is_program = |file: &str| {
            ["name = \"", "path = \"tests/"]
                .iter()
                .zip(["\"", ".rs\""])
                .any(|(before, after)| manifest.lines().any(|line| line == format!("{before}{file}{after}")))
        };
        let programs = files.iter().filter(|(file, _)| is_program(file));
        let modules: String = programs.map(|(_, text)| text.as_str()).collect();
        for (file, _) in &files {
            let is_module = modules.contains(&format!("\nmod {file};\n"));
            assert!(is_program(file) || is_module, "{name}/tests/{file}.rs is in no program of tests");
        }
    }
}
