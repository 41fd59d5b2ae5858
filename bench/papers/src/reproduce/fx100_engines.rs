//! The FX100 study's figures 11 and 12: fetch_and_add on one word through one receiving engine, and through four.

use rmalab_atomics::sim::Profile;

use super::{Context, Experiment};
use rmalab_job::Result;
use rmalab_lab::simulate::validate;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fx100-engines",
    source: "FX100 study (Hatanaka, Hori, Ishikawa), section 5.2, figures 11 and 12",
    title: "fetch_and_add on one word with 1 and 4 receiving engines",
    protocol: "The ranks of one node add to one word of it through the adapter, all at the same time (in loop-back, \
               as the study measured it); the time of a fetch_and_add on the slowest rank. Simulated on profile fx100 \
               with 1, 2 and 4 engines and 1 to 32 ranks.",
    found: "Four engines take about 40 % less than one, and not 75 %: the study suspects that the atomic operations \
            lock the bus, and that the engines invalidate each other's caches.",
    lesson: "Four servers at a counter help four times only if their customers are independent. Atomic operations on \
             one word are not: each needs the word exclusively for a while. The rest of an engine's work goes on in \
             parallel; the time with the word does not (Amdahl's law in a network adapter).",
    seconds: (5, 10),
    run,
};

/// The part of the time that four engines save.
const PUBLISHED: f64 = 0.4;

const ENGINES: [u32; 3] = [1, 2, 4];

fn run(context: &Context<'_>) -> Result<Finding> {
    let profile = Profile::find("fx100")?;
    let times = context.pick(500, 5000);
    let mut curves = Vec::new();
    for engines in ENGINES {
        let mut points = Vec::new();
        for ranks in [1, 2, 3, 4, 6, 8, 16, 32] {
            let key = format!("{engines} engines, {ranks} ranks, {times} times");
            let time: f64 = context.keep(&key, || validate::fetch_adds(&profile, engines, ranks, times))?;
            points.push((f64::from(ranks), time));
        }
        curves.push(points);
    }
    let word = profile.nic.word.as_nanoseconds();
    Ok(report(&curves, word))
}

/// Ranks and nanoseconds for each of [`ENGINES`], and how long an operation holds the word.
fn report(curves: &[Vec<(f64, f64)>], word: f64) -> Finding {
    let mut finding = Finding::new();
    let mut table = Table::new(
        "Time of a fetch_and_add, slowest rank",
        ["ranks", "1 engine", "2 engines", "4 engines", "4 engines save"],
    );
    let [one, two, four] = [0, 1, 2].map(|at| &curves[at]);
    for ((one, two), four) in one.iter().zip(two).zip(four) {
        table.row([
            Value::Count(one.0 as u64),
            Value::Time(one.1),
            Value::Time(two.1),
            Value::Time(four.1),
            Value::Share(1.0 - four.1 / one.1),
        ]);
    }
    finding.tables.push(table);
    let last = |points: &[(f64, f64)]| points.last().copied().unwrap_or((f64::NAN, f64::NAN));
    let ((ranks, single), (_, quadruple)) = (last(one), last(four));
    let gain = 1.0 - quadruple / single;
    finding.fitted(
        (gain - PUBLISHED).abs() <= 0.1,
        "four engines take about 40 % less",
        format!("{:.1} % less with {ranks} ranks, simulated (within 10 points counts as agreement)", gain * 100.0),
    );
    finding.fitted(
        gain < 0.65,
        "not 75 % less",
        format!(
            "an operation takes {} of the four engines' time in turn with {ranks} ranks, and holds the word for {}: \
             that is the limit, whatever the number of engines",
            Value::Time(quadruple / ranks),
            Value::Time(word)
        ),
    );
    let series = ENGINES.iter().zip(curves).enumerate().map(|(style, (engines, points))| Series {
        name: if *engines == 1 { "1 engine".into() } else { format!("{engines} engines") },
        origin: Origin::Simulated,
        style,
        points: points.clone(),
        spread: Vec::new(),
        group: String::new(),
    });
    let mut series: Vec<Series> = series.collect();
    series.push(Series {
        name: "40 % less than 1 engine".into(),
        origin: Origin::Published,
        style: 2,
        points: one
            .iter()
            .filter(|point| point.0 >= 8.0)
            .map(|&(ranks, time)| (ranks, time * (1.0 - PUBLISHED)))
            .collect(),
        spread: Vec::new(),
        group: String::new(),
    });
    finding.plots.push(Plot {
        name: "origins".into(),
        title: "fetch_and_add on one word".into(),
        x: Axis::new("ranks that add", Quantity::Count),
        y: Axis::new("time, slowest rank", Quantity::Time),
        series,
        text: "With one or two ranks an engine is idle most of the time, and more of them do not help. Once \
               operations queue, each rank waits for all others, and the curves are straight lines: the distance \
               between them is the gain from more engines. Two engines already bring nearly all of it, since then the \
               word itself is always busy. The dashed line is the study's finding with four."
            .into(),
    });
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_help_up_to_the_hold_of_the_word() {
        let profile = Profile::find("fx100").unwrap();
        let curve = |engines| {
            let time = |ranks: u32| validate::fetch_adds(&profile, engines, ranks, 100).unwrap();
            [1, 32].map(|ranks| (f64::from(ranks), time(ranks))).to_vec()
        };
        let curves = ENGINES.map(curve);
        assert_eq!(curves[0][0], curves[2][0], "alone, a rank does not use a second engine");
        let word = profile.nic.word.as_nanoseconds();
        assert!(curves[2][1].1 >= 0.95 * 32.0 * word, "the word is held by one at a time");
        assert!(report(&curves, word).claims.iter().all(|claim| claim.holds));
        // Without the shared word, four engines would differ.
        let ideal = [curves[0].clone(), curves[0].clone(), curves[0].iter().map(|&(x, y)| (x, y / 4.0)).collect()];
        assert!(report(&ideal, word).claims.iter().all(|claim| !claim.holds));
    }
}
