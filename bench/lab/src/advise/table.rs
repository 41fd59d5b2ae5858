//! Advice as a table, as CSV and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use super::{ALIKE, Advice, Estimate, Measured, Objective, Row, Standing, name};
use rmalab_report::numbers::{humane, si};

/// Advice as text: the ranking, what limits each, the choice.
pub fn table(advice: &Advice) -> String {
    let objective = advice.objective;
    let mut text = format!(
        "{}\nprofile {}, {} seed{}, ranked by {}; without any lock: {}/s\n\n",
        advice.source,
        advice.profile,
        advice.seeds,
        if advice.seeds == 1 { "" } else { "s" },
        name(objective),
        si(advice.unlocked)
    );
    let measured = advice.rows.iter().any(|row| row.measured.is_some());
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header =
        ["#", "policy", "1/s", "95 %", "p50", "p99", "Jain", "beside the first"].map(str::to_owned).to_vec();
    if measured {
        header.extend(["measured\n1/s", "measured\np99"].map(str::to_owned));
    }
    header.push("limited by".to_owned());
    table.set_header(header);
    for (number, row) in (1..).zip(&advice.rows) {
        let mut cells = vec![
            number.to_string(),
            row.candidate.to_owned(),
            si(row.throughput.mean),
            interval(row.value(objective)),
            humane(row.p50.mean),
            humane(row.p99.mean),
            format!("{:.3}", row.fairness.mean),
            beside(row.standing, objective),
        ];
        if measured {
            let cell = |part: fn(&Measured) -> String| row.measured.as_ref().map_or("-".to_owned(), part);
            cells.extend([cell(|measured| si(measured.throughput)), cell(|measured| humane(measured.p99))]);
        }
        cells.push(row.limit.to_string());
        table.add_row(cells);
    }
    let columns = table.column_count();
    for (at, column) in table.column_iter_mut().enumerate() {
        if at != 1 && at + 1 != columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for left in &advice.left_out {
        let _ = writeln!(text, "left out: {}: {}", left.candidate, left.why);
    }
    for remark in &advice.remarks {
        let _ = writeln!(text, "note: {remark}");
    }
    if let Some(chosen) = advice.rows.iter().find(|row| row.candidate == advice.choice) {
        text.push('\n');
        text += &choice(advice, chosen);
    }
    text
}

/// The choice, how sure it is, and how it is made.
fn choice(advice: &Advice, chosen: &Row) -> String {
    let tied = advice.rows.iter().filter(|row| !matches!(row.standing, Standing::Worse(_)));
    let as_good: Vec<&str> = tied.map(|row| row.candidate).filter(|&other| other != chosen.candidate).collect();
    let kept = chosen.candidate == advice.current;
    let mut text = format!("{} {}", if kept { "keep" } else { "choose" }, chosen.candidate);
    text += &match (advice.rows.len(), as_good.as_slice()) {
        (1, _) => ": the only one that was tried".to_owned(),
        (_, []) => ": better than all others, by more than the intervals".to_owned(),
        (_, few) => format!(
            ": {}{} as good, by overlapping intervals or within {:.0} %",
            few.join(", "),
            if few.len() == 1 { " is" } else { " are" },
            ALIKE * 100.0
        ),
    };
    let _ = writeln!(text, "\n  builder  {}", chosen.builder);
    if chosen.info.is_empty() {
        text += "  info     none: a lock from outside of the library is chosen by the builder\n";
    } else {
        let _ = write!(text, "  info     {}", chosen.info);
        let only = "   (the policy with its defaults; parameters are the builder's)\n";
        text += if chosen.is_default { "\n" } else { only };
    }
    if let (Some(verdict), Some(measured)) = (&advice.verdict, &chosen.measured) {
        let _ = writeln!(
            text,
            "measured on this machine, load {}: {} is best by {}; {} ({}/s, p99 {}) is {:.1} % worse: {}",
            verdict.load,
            verdict.best,
            name(advice.objective),
            chosen.candidate,
            si(measured.throughput),
            humane(measured.p99),
            verdict.worse_by * 100.0,
            if verdict.right { "the choice is right (within 10 %)" } else { "the choice is wrong (by more than 10 %)" }
        );
    }
    text
}

fn interval(estimate: &Estimate) -> String {
    estimate.relative().map_or("-".to_owned(), |half| format!("± {:.1} %", half * 100.0))
}

fn beside(standing: Standing, objective: Objective) -> String {
    match (standing, objective) {
        (Standing::Winner, _) => "first".to_owned(),
        (Standing::AsGood, _) => "as good".to_owned(),
        (Standing::Worse(by), Objective::P99) => format!("+{:.0} %", by * 100.0),
        (Standing::Worse(by), _) => format!("-{:.0} %", by * 100.0),
    }
}

/// Writes a line for each candidate, the best first.
///
/// # Errors
///
/// Those of the writer.
pub fn csv(advice: &Advice, to: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record([
        "place",
        "candidate",
        "standing",
        "throughput",
        "throughput_half",
        "p50_ns",
        "p50_half_ns",
        "p99_ns",
        "p99_half_ns",
        "fairness",
        "fairness_half",
        "operations_own",
        "operations_node",
        "operations_remote",
        "limit",
        "measured_throughput",
        "measured_p50_ns",
        "measured_p99_ns",
        "measured_fairness",
        "info",
        "builder",
    ])?;
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for (place, row) in (1..).zip(&advice.rows) {
        let standing = match row.standing {
            Standing::Winner => "winner",
            Standing::AsGood => "as-good",
            Standing::Worse(_) => "worse",
        };
        let mut record = vec![place.to_string(), row.candidate.to_owned(), standing.to_owned()];
        for estimate in [row.throughput, row.p50, row.p99, row.fairness] {
            record.extend([estimate.mean.to_string(), optional(estimate.half)]);
        }
        record.extend(row.operations.map(|count| count.to_string()));
        record.push(row.limit.to_string());
        let measured: [fn(&Measured) -> f64; 4] =
            [|one| one.throughput, |one| one.p50, |one| one.p99, |one| one.fairness];
        record.extend(measured.map(|part| optional(row.measured.as_ref().map(part))));
        record.extend([row.info.clone(), row.builder.clone()]);
        csv.write_record(record)?;
    }
    csv.flush()
}

/// Writes everything.
///
/// # Errors
///
/// Those of the writer.
pub fn json(advice: &Advice, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *to, advice)?;
    writeln!(to)
}
