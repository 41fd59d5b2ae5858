//! The tables of README.md: every item of MPI-4.1's chapter has a row, and every test that a row names exists.

use std::collections::BTreeSet;
use std::path::Path;

/// MPI-4.1, chapter 12: its functions, asserts, info keys, attributes, flavors, models and error classes.
const CHAPTER: &str = "
    MPI_Win_create MPI_Win_allocate MPI_Win_allocate_shared MPI_Win_create_dynamic MPI_Win_attach MPI_Win_detach
    MPI_Win_free MPI_Win_shared_query MPI_Win_get_group MPI_Win_set_info MPI_Win_get_info

    MPI_Put MPI_Get MPI_Accumulate MPI_Get_accumulate MPI_Fetch_and_op MPI_Compare_and_swap
    MPI_Rput MPI_Rget MPI_Raccumulate MPI_Rget_accumulate

    MPI_Win_fence MPI_Win_start MPI_Win_complete MPI_Win_post MPI_Win_wait MPI_Win_test
    MPI_Win_lock MPI_Win_lock_all MPI_Win_unlock MPI_Win_unlock_all
    MPI_Win_flush MPI_Win_flush_local MPI_Win_flush_all MPI_Win_flush_local_all MPI_Win_sync

    MPI_Win_set_name MPI_Win_get_name
    MPI_Win_create_keyval MPI_Win_free_keyval MPI_Win_set_attr MPI_Win_get_attr MPI_Win_delete_attr
    MPI_Win_create_errhandler MPI_Win_set_errhandler MPI_Win_get_errhandler MPI_Win_call_errhandler

    MPI_Win_create_c MPI_Win_allocate_c MPI_Win_allocate_shared_c MPI_Win_shared_query_c
    MPI_Put_c MPI_Get_c MPI_Accumulate_c MPI_Get_accumulate_c
    MPI_Rput_c MPI_Rget_c MPI_Raccumulate_c MPI_Rget_accumulate_c

    MPI_MODE_NOCHECK MPI_MODE_NOSTORE MPI_MODE_NOPUT MPI_MODE_NOPRECEDE MPI_MODE_NOSUCCEED

    no_locks accumulate_ordering accumulate_ops same_size same_disp_unit alloc_shared_noncontig
    mpi_accumulate_granularity mpi_minimum_memory_alignment mpi_assert_memory_alloc_kinds

    MPI_WIN_BASE MPI_WIN_SIZE MPI_WIN_DISP_UNIT MPI_WIN_CREATE_FLAVOR MPI_WIN_MODEL
    MPI_WIN_FLAVOR_CREATE MPI_WIN_FLAVOR_ALLOCATE MPI_WIN_FLAVOR_SHARED MPI_WIN_FLAVOR_DYNAMIC
    MPI_WIN_UNIFIED MPI_WIN_SEPARATE MPI_LOCK_SHARED MPI_LOCK_EXCLUSIVE MPI_PROC_NULL MPI_WIN_NULL

    MPI_SUM MPI_PROD MPI_MIN MPI_MAX MPI_LAND MPI_LOR MPI_LXOR MPI_BAND MPI_BOR MPI_BXOR
    MPI_MINLOC MPI_MAXLOC MPI_REPLACE MPI_NO_OP
    MPI_FLOAT_INT MPI_DOUBLE_INT MPI_LONG_INT MPI_2INT MPI_SHORT_INT MPI_C_BOOL MPI_BYTE MPI_C_FLOAT_COMPLEX
    MPI_C_DOUBLE_COMPLEX

    MPI_ERR_WIN MPI_ERR_BASE MPI_ERR_SIZE MPI_ERR_DISP MPI_ERR_LOCKTYPE MPI_ERR_ASSERT
    MPI_ERR_RMA_CONFLICT MPI_ERR_RMA_SYNC MPI_ERR_RMA_RANGE MPI_ERR_RMA_ATTACH MPI_ERR_RMA_SHARED MPI_ERR_RMA_FLAVOR
    MPI_ERR_RANK MPI_ERR_OP MPI_ERR_COUNT MPI_ERR_TYPE MPI_ERR_NO_MEM

    MPI_ERRORS_ARE_FATAL MPI_ERRORS_RETURN
";

/// Returns the texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the cells of the rows of all tables whose last column names tests.
fn rows(readme: &str) -> Vec<Vec<&str>> {
    let mut rows = Vec::new();
    let mut within = false;
    for line in readme.lines() {
        let Some(line) = line.strip_prefix("| ") else {
            within = false;
            continue;
        };
        let cells: Vec<&str> = line.trim_end_matches('|').split('|').map(str::trim).collect();
        if cells.last() == Some(&"tested by") && cells[0] != "ranks are" {
            within = true;
        } else if within && !cells[0].starts_with("---") {
            rows.push(cells);
        }
    }
    rows
}

/// Returns whether `file::name` is a test that is run.
fn exists(test: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some((file, name)) = test.split_once("::") else { return false };
    if file == "compile_fail" {
        let case = root.join("tests/compile_fail").join(name);
        return case.with_extension("rs").exists() && case.with_extension("stderr").exists();
    }
    // The tests of a source file may be in a separate file.
    [format!("tests/{file}.rs"), format!("src/{file}.rs"), format!("src/{file}/tests.rs")].iter().any(|path| {
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let head = format!("fn {name}(");
        lines.iter().enumerate().any(|(at, line)| {
            let above: Vec<&&str> =
                lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
            let is_ignored = above.iter().any(|line| line.starts_with("#[ignore"));
            line.starts_with(&head) && above.iter().any(|line| **line == "#[test]") && !is_ignored
        })
    })
}

#[test]
fn the_table_is_complete() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let rows = rows(&readme);
    let mut wrong = Vec::new();
    let mut items = BTreeSet::new();
    for cells in &rows {
        items.extend(quoted(cells[0]));
        let tests: Vec<&str> = quoted(cells[cells.len() - 1]).collect();
        wrong.extend(tests.iter().filter(|test| !exists(test)).map(|test| format!("{test}: no such test")));
        // A row without a test has the reason beside it.
        let reason = cells.len() == 3 && cells[1].starts_with("none: ") && cells[2] == "–";
        if tests.is_empty() && !reason {
            wrong.push(format!("{}: neither a test nor a reason", cells[0]));
        }
    }
    let missing = CHAPTER.split_whitespace().filter(|item| !items.contains(item));
    wrong.extend(missing.map(|item| format!("{item}: no row")));
    assert!(wrong.is_empty(), "README.md:\n{}", wrong.join("\n"));
    assert!(rows.len() > 100 && !exists("readme::rows") && !exists("compile_fail::nothing"), "what it finds");
}

/// Every case of `compile_fail` is in a row.
#[test]
fn every_compile_fail_case_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    for entry in std::fs::read_dir(root.join("tests/compile_fail")).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("`compile_fail::{}`", path.file_stem().unwrap().to_str().unwrap());
        assert!(readme.contains(&name), "{name} is in no row of README.md");
    }
}
