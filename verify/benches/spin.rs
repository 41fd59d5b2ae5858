//! Spin and the explorer side by side: the models of `verify/spin`, and the locks themselves in the same scenarios.
//!
//! `cargo bench -p rmalab-verify --bench spin` prints a table in Markdown; an argument keeps the rows that contain it,
//! for example `-- mcs-rw-rp`. `-- --write` writes the whole table into `verify/spin/README.md`. It needs `spin`, `gcc`
//! and `python3`. The searches run one after the other, each on one thread. Spin runs as C code that is already
//! compiled, with and without compression of states. The explorer's time includes the runs of the lock's code. Short
//! searches run several times. The least time counts.

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::{Check, Finding, Network, subject};

/// A model, its readers and writers, and the acquisitions of each reader and of each writer. The models of `tas-rw` and
/// `ticket` are missing: each of their acquisitions may be a try, which no scenario has.
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

/// Prints the table line by line, and returns it.
fn table(only: Option<&str>) -> Result<String, Box<dyn Error>> {
    let mut table = String::new();
    let mut print = |line: &str| {
        println!("{line}");
        table.extend([line, "\n"]);
    };
    print("| lock | scenario | network | Spin states | Spin s | explorer states | explorer s | times faster |");
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |");
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
        print(&format!("| {name} | {} | {} | {ratio} |", cells(faster), cells(ours)));
    }
    Ok(table)
}

/// The comments of the page between which the table is.
const MARKS: [&str; 2] = ["<!-- times: begin -->", "<!-- times: end -->"];

/// The output of a command, in one line.
fn output_of(program: &str, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program).args(arguments).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Writes the table into the page of the models, in place of the last one.
fn write(table: &str) -> Result<(), Box<dyn Error>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("spin/README.md");
    let text = std::fs::read_to_string(&page)?;
    let parts = text.split_once(MARKS[0]).and_then(|(before, rest)| Some((before, rest.split_once(MARKS[1])?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{} has no {MARKS:?}", page.display()))?;
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("an unknown processor");
    let made = format!(
        "Made by `cargo bench -p rmalab-verify --bench spin -- --write` on {}, commit {}, {}, {}. Not edited by hand.",
        output_of("date", &["-u", "+%FT%TZ"])?,
        output_of("git", &["rev-parse", "--short=12", "HEAD"])?,
        output_of("spin", &["-V"])?,
        model.trim_start_matches([' ', '\t', ':'])
    );
    let [begin, end] = MARKS;
    std::fs::write(&page, format!("{before}{begin}\n{made}\n\n{table}{end}{after}"))?;
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
    let only = arguments.iter().find(|argument| !argument.starts_with("--")).map(String::as_str);
    let writes = arguments.iter().any(|argument| argument == "--write");
    if writes && only.is_some() {
        eprintln!("--write writes the whole table: name no rows");
        return ExitCode::FAILURE;
    }
    match table(only).and_then(|table| if writes { write(&table) } else { Ok(()) }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
