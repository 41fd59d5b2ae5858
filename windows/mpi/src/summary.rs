//! The summary of a program's calls on its windows, printed at its end where `RMALAB_SUMMARY` asks for it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rmalab_windows::PolicyKind;

/// The calls that are counted, in the order of the table. Calls with large counts count as the calls without.
pub(crate) const CALLS: [&str; 24] = [
    "MPI_Win_lock",
    "MPI_Win_unlock",
    "MPI_Win_lock_all",
    "MPI_Win_unlock_all",
    "MPI_Win_flush",
    "MPI_Win_flush_all",
    "MPI_Win_flush_local",
    "MPI_Win_flush_local_all",
    "MPI_Win_fence",
    "MPI_Win_start",
    "MPI_Win_complete",
    "MPI_Win_post",
    "MPI_Win_wait",
    "MPI_Win_test",
    "MPI_Put",
    "MPI_Get",
    "MPI_Accumulate",
    "MPI_Get_accumulate",
    "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",
    "MPI_Rput",
    "MPI_Rget",
    "MPI_Raccumulate",
    "MPI_Rget_accumulate",
];

const POLICIES: usize = PolicyKind::ALL.len();

/// The numbers: windows that are the host's alone, windows of each policy, calls of each kind, nanoseconds in each kind.
pub(crate) const NUMBERS: usize = 1 + POLICIES + 2 * CALLS.len();
const FIRST_CALL: usize = 1 + POLICIES;
const FIRST_TIME: usize = FIRST_CALL + CALLS.len();

static COUNTS: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];

/// The variable's answer, whether to print the summary: not known yet, no, or yes.
static WANTED: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

/// Returns whether the variable asks for the summary.
#[inline(always)]
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) != NO && asks()
}

#[cold]
fn asks() -> bool {
    if WANTED.load(Ordering::Relaxed) == UNKNOWN {
        let asks = std::env::var_os("RMALAB_SUMMARY").is_some_and(|value| !value.is_empty() && value != "0");
        WANTED.store(if asks { YES } else { NO }, Ordering::Relaxed);
    }
    WANTED.load(Ordering::Relaxed) == YES
}

fn add(number: usize, more: u64) {
    COUNTS[number].fetch_add(more, Ordering::Relaxed);
}

/// Returns the place of a call in the table, without the end of its form for large counts.
pub(crate) const fn place(name: &str) -> usize {
    let name = name.as_bytes();
    let mut len = name.len();
    if name[len - 2] == b'_' && name[len - 1] == b'c' {
        len -= 2;
    }
    let mut call = 0;
    while call < CALLS.len() {
        let other = CALLS[call].as_bytes();
        let mut same = 0;
        while same < len && other.len() == len && other[same] == name[same] {
            same += 1;
        }
        if same == len {
            return call;
        }
        call += 1;
    }
    panic!("a call that the table does not have")
}

/// Counts a call.
#[inline(always)]
pub(crate) fn count(place: usize) {
    if is_wanted() {
        add(FIRST_CALL + place, 1);
    }
}

/// Begins to time a call.
#[inline(always)]
pub(crate) fn begin() -> Option<Instant> {
    if is_wanted() { Some(Instant::now()) } else { None }
}

/// Counts a call, and its time.
#[inline(always)]
pub(crate) fn end(place: usize, begin: Option<Instant>) {
    if let Some(begin) = begin {
        note(place, begin);
    }
}

#[cold]
fn note(place: usize, begin: Instant) {
    add(FIRST_CALL + place, 1);
    add(FIRST_TIME + place, u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
}

/// Counts a window, at its rank 0: with its policy, or as the host's alone.
pub(crate) fn window(policy: Option<&str>) {
    let at = policy.and_then(|policy| PolicyKind::NAMES.iter().position(|name| *name == policy));
    add(at.map_or(0, |at| 1 + at), 1);
}

/// Returns this rank's numbers.
pub(crate) fn numbers() -> [u64; NUMBERS] {
    std::array::from_fn(|at| COUNTS[at].load(Ordering::Relaxed))
}

/// Returns the lines of the table for the sums of all ranks' numbers.
pub(crate) fn table(sums: &[u64; NUMBERS], ranks: u32) -> Vec<String> {
    let mut windows: Vec<String> = PolicyKind::NAMES
        .iter()
        .zip(&sums[1..FIRST_CALL])
        .filter(|&(_, &count)| count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if sums[0] > 0 {
        windows.push(format!("{} the MPI's own", sums[0]));
    }
    let windows = if windows.is_empty() { "none".to_owned() } else { windows.join(", ") };
    let mut lines = vec![format!("windows of {ranks} rank{}: {windows}", if ranks == 1 { "" } else { "s" })];
    let calls = CALLS.iter().zip(&sums[FIRST_CALL..FIRST_TIME]).zip(&sums[FIRST_TIME..]);
    for ((name, &calls), &time) in calls.filter(|((_, calls), _)| **calls > 0) {
        let time = if time == 0 {
            String::new()
        } else {
            format!("  {:>10.1?} in all, {:.1?} each", Duration::from_nanos(time), Duration::from_nanos(time / calls))
        };
        lines.push(format!("{name:24}{calls:>12}{time}"));
    }
    lines
}

/// Returns the lines about a program's traces. They name the traces if `is_wanted`, and say how many updates of all ranks the traces lack.
/// A trace is named by its file of rank 0.
pub(crate) fn traces(files: &[PathBuf], inexact: u64, is_wanted: bool) -> Vec<String> {
    /// The number of traces that are named.
    const MOST: usize = 4;
    let mut lines = Vec::new();
    let name = |file: &PathBuf| {
        let file = file.to_string_lossy().into_owned();
        file.strip_suffix("-rank-0.trace").map_or(file.clone(), str::to_owned)
    };
    if is_wanted && !files.is_empty() {
        let all: Vec<String> = files.iter().take(MOST).map(name).collect();
        let more = if files.len() > MOST { ", ..." } else { "" };
        let count = if files.len() == 1 { "1 window is".to_owned() } else { format!("{} windows are", files.len()) };
        lines.push(format!("{count} recorded, for rmalab advise --trace: {}{more}", all.join(", ")));
    }
    if inexact > 0 {
        let count = if inexact == 1 { "1 update".to_owned() } else { format!("{inexact} updates") };
        lines.push(format!("{count} with a type or operation that traces do not hold: recorded as replaced bytes"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_name_the_traces_and_what_they_do_not_hold() {
        let file = |name: &str| PathBuf::from(format!("traces/{name}-rank-0.trace"));
        assert!(traces(&[], 0, true).is_empty());
        assert!(traces(&[file("window")], 0, false).is_empty());
        assert_eq!(
            traces(&[file("window")], 1, true),
            [
                "1 window is recorded, for rmalab advise --trace: traces/window",
                "1 update with a type or operation that traces do not hold: recorded as replaced bytes",
            ]
        );
        let many: Vec<PathBuf> = (1..=5).map(|number| file(&format!("window-{number}"))).collect();
        let [line] = &traces(&many, 0, true)[..] else { panic!("one line") };
        assert!(line.starts_with("5 windows are recorded,") && line.ends_with("traces/window-4, ..."), "{line}");
    }

    #[test]
    fn each_call_has_its_place() {
        for (at, name) in CALLS.iter().enumerate() {
            assert_eq!(place(name), at);
            assert_eq!(place(&format!("{name}_c")), at);
        }
    }

    #[test]
    fn the_table_has_what_was_done() {
        let mut sums = [0; NUMBERS];
        assert_eq!(table(&sums, 3), ["windows of 3 ranks: none"]);
        let two_level = PolicyKind::NAMES.iter().position(|name| *name == "two-level").unwrap();
        sums[0] = 2;
        sums[1 + two_level] = 4;
        sums[FIRST_CALL + place("MPI_Win_lock")] = 10;
        sums[FIRST_TIME + place("MPI_Win_lock")] = 25_000;
        sums[FIRST_CALL + place("MPI_Rget_c")] = 7;
        let lines = table(&sums, 2);
        assert_eq!(lines[0], "windows of 2 ranks: 4 two-level, 2 the MPI's own");
        assert!(
            lines[1].starts_with("MPI_Win_lock ") && lines[1].ends_with("25.0µs in all, 2.5µs each"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["MPI_Rget", "7"]);
        assert_eq!(lines.len(), 3);
    }
}
