//! Spin and the explorer side by side: the models of `verify/spin`, and the locks themselves in the same scenarios.
//!
//! `cargo bench -p rmalab-verify --bench spin` prints a table in Markdown; an argument keeps the rows that contain it, for
//! example `-- mcs-rw-rp`. It needs `spin`, `gcc` and `python3`. Each search runs on one thread, one after the other:
//! Spin's as C code that is already compiled, with and without compression of states, the explorer's with the runs of the
//! lock's code. Short searches run several times. The least time counts.

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Check, Finding, Network, subject};

/// A model, its readers and writers, and the acquisitions of each reader and of each writer. The models of `tas-rw` and
/// `ticket` are missing: each acquisition of theirs may be a try, which no scenario is.
type Row = (&'static str, [u32; 4], Network);

const ROWS: &[Row] = &[
    ("mcs", [0, 4, 1, 2], Network::Sc),
    ("mcs", [0, 3, 1, 2], Network::LatePuts),
    ("mcs-rw-rp", [3, 1, 1, 1], Network::Sc),
    ("mcs-rw-rp", [1, 3, 1, 1], Network::Sc),
    ("mcs-rw-rp", [2, 2, 2, 2], Network::Sc),
    ("mcs-rw-rp", [2, 1, 2, 2], Network::LatePuts),
    ("mcs-rw-rp", [1, 2, 2, 2], Network::LatePuts),
    ("mcs-rw-rp", [2, 2, 1, 1], Network::LatePuts),
    ("mcs-rw-wp", [2, 2, 2, 2], Network::Sc),
    ("mcs-rw-wp", [3, 1, 2, 1], Network::Sc),
    ("mcs-rw-wp", [1, 3, 2, 2], Network::Sc),
    ("mcs-rw-wp", [3, 2, 1, 1], Network::Sc),
    ("mcs-rw-wp", [2, 3, 1, 1], Network::Sc),
    ("mcs-rw-wp", [2, 1, 2, 2], Network::LatePuts),
    ("mcs-rw-wp", [1, 2, 2, 2], Network::LatePuts),
    ("mcs-rw-wp", [2, 2, 1, 1], Network::LatePuts),
    ("mcs-rw-neutral", [3, 1, 1, 1], Network::Sc),
    ("mcs-rw-neutral", [3, 1, 1, 2], Network::Sc),
    ("mcs-rw-neutral", [2, 2, 2, 2], Network::Sc),
    ("mcs-rw-neutral", [2, 1, 1, 2], Network::LatePuts),
    ("mcs-rw-neutral", [1, 2, 1, 2], Network::LatePuts),
];

/// The time in which a search repeats.
const ENOUGH: Duration = Duration::from_secs(1);
/// The most repetitions of a search.
const REPETITIONS: usize = 5;
/// The limit for one search, in seconds.
const SECONDS: u64 = 1_800;
/// The limit for the memory of one search, in MiB.
const MEMORY: u64 = 8_000;

/// The numbers of a search: distinct states, and seconds. `None` if it reached a limit.
type Searched = Option<(u64, f64)>;

/// The least time of some repetitions.
fn best(mut search: impl FnMut() -> Result<Searched, Box<dyn Error>>) -> Result<Searched, Box<dyn Error>> {
    let begun = Instant::now();
    let mut best: Searched = None;
    for _ in 0..REPETITIONS {
        let Some((states, seconds)) = search()? else { return Ok(best) };
        let before = best.map_or(f64::INFINITY, |(_, seconds)| seconds);
        best = Some((states, seconds.min(before)));
        if begun.elapsed() > ENOUGH {
            break;
        }
    }
    Ok(best)
}

fn scenario(&(_, [readers, writers, reads, writes], _): &Row) -> String {
    let part = |ranks: u32, role: &str, times: u32| (ranks > 0).then(|| format!("{ranks}{role}x{times}"));
    match (part(readers, "R", reads), part(writers, "W", writes)) {
        (Some(_), Some(_)) if reads == writes => format!("{readers}R{writers}Wx{writes}"),
        (first, second) => [first, second].into_iter().flatten().collect::<Vec<_>>().join("+"),
    }
}

fn spin(row: &Row, collapse: bool) -> Result<Searched, Box<dyn Error>> {
    let (name, numbers, network) = row;
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("spin/run"));
    command.arg(name).args(numbers.map(|number| number.to_string()));
    if *network == Network::LatePuts {
        command.arg("LATE");
    }
    command.env("COLLAPSE", if collapse { "1" } else { "0" });
    command.env("MEMORY", MEMORY.to_string()).env("SECONDS_AT_MOST", SECONDS.to_string());
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(3) {
        return Ok(None);
    }
    let numbers = text.split_once(": clean, ").and_then(|(_, rest)| rest.trim().split_once(" states in "));
    let Some((states, seconds)) = numbers.filter(|_| output.status.success()) else {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into());
    };
    Ok(Some((states.parse()?, seconds.trim_end_matches(" s").parse()?)))
}

fn explorer(row: &Row) -> Result<Searched, Box<dyn Error>> {
    let (name, _, network) = row;
    let lock = subject(name).ok_or("a model has the name of a lock")?;
    let check = Check { network: *network, ..Check::new(lock, scenario(row).parse()?) };
    let options = Options {
        threads: 1,
        max_bytes: MEMORY << 20,
        max_time: Some(Duration::from_secs(SECONDS)),
        ..Options::default()
    };
    let begun = Instant::now();
    let outcome = explore(&check, &options, &|_| true)?;
    match outcome.finding {
        Finding::Holds => Ok(Some((outcome.progress.states, begun.elapsed().as_secs_f64()))),
        Finding::Incomplete(_) => Ok(None),
        Finding::Violated(found) => Err(format!("{name}: {}", found.violation).into()),
    }
}

fn cells(searched: Searched) -> String {
    searched.map_or("– | limit".to_owned(), |(states, seconds)| format!("{states} | {seconds:.2}"))
}

fn table(only: Option<&str>) -> Result<(), Box<dyn Error>> {
    println!("| lock | scenario | network | Spin states | Spin s | explorer states | explorer s | times faster |");
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for row in ROWS {
        let name = format!("`{}` | {} | {}", row.0, scenario(row), row.2);
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let (packed, plain) = (best(|| spin(row, true))?, best(|| spin(row, false))?);
        let faster = [packed, plain].into_iter().flatten().min_by(|one, other| one.1.total_cmp(&other.1));
        let ours = best(|| explorer(row))?;
        let ratio = match (faster, ours) {
            (Some((_, theirs)), Some((_, ours))) => format!("{:.1}", theirs / ours),
            _ => "–".to_owned(),
        };
        println!("| {name} | {} | {} | {ratio} |", cells(faster), cells(ours));
    }
    Ok(())
}

fn main() -> ExitCode {
    // `cargo test` only checks that bench targets run.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let is_there = |program: &str, version: &str| Command::new(program).arg(version).output().is_ok();
    if let Some((missing, _)) = [("spin", "-V"), ("gcc", "--version"), ("python3", "--version")]
        .into_iter()
        .find(|(name, version)| !is_there(name, version))
    {
        eprintln!("the comparison with Spin needs {missing}; on Debian: apt-get install -y spin gcc python3");
        return ExitCode::FAILURE;
    }
    match table(arguments.iter().find(|argument| !argument.starts_with("--")).map(String::as_str)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
