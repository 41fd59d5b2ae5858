//! Progress of a running study.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;

use crate::document::numbers::{counted, number, si};
use crate::study::{Backend, Key, Progress, Study};

/// Time between two lines of progress without a terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows the progress of a study, and its first results.
pub(crate) struct Watch {
    show: Show,
    best: Best,
}

/// A bar on a terminal, a line now and then elsewhere, and nothing in a quiet run.
enum Show {
    Quiet,
    Bar(ProgressBar),
    Lines(Option<Instant>),
}

/// The fastest locks of the load that is being measured.
struct Best {
    /// The number of locks.
    locks: usize,
    /// The subjects that exclude nothing, and so are no locks.
    no_locks: Vec<String>,
    repetitions: u32,
    /// The lock that readers acquire.
    readers: &'static str,
    /// First measurements of the worlds and loads that are not reported yet: with a table, one lock after the other is measured.
    measured: Vec<(Load, String, f64)>,
    /// The worlds and loads that were reported: later repetitions are not.
    reported: Vec<Load>,
}

/// A world, and the bits of its share of readers.
type Load = (Backend, u32, u64);

impl Best {
    /// Adds a measurement; returns a line after the last lock.
    fn measured(&mut self, key: &Key, throughput: f64) -> Option<String> {
        let world = (key.backend, key.ranks, key.read_fraction.to_bits());
        let again = self.measured.iter().any(|(of, lock, _)| *of == world && *lock == key.lock);
        if again || self.reported.contains(&world) {
            return None;
        }
        self.measured.push((world, key.lock.clone(), throughput));
        if self.measured.iter().filter(|(of, ..)| *of == world).count() < self.locks {
            return None;
        }
        self.reported.push(world);
        let mut measured: Vec<_> = self.measured.extract_if(.., |(of, ..)| *of == world).collect();
        measured.sort_by(|a, b| b.2.total_cmp(&a.2));
        let no_lock = |lock: &str| self.no_locks.iter().any(|name| name == lock);
        let best = measured
            .iter()
            .filter(|(_, lock, _)| !no_lock(lock))
            .take(3)
            .map(|(_, lock, rate)| format!("{lock} {}/s", si(*rate)));
        let best: Vec<String> = best.collect();
        let ranks = counted(key.ranks.into(), "rank");
        let first =
            if self.repetitions > 1 { format!(" (repetition 1 of {})", self.repetitions) } else { String::new() };
        Some(format!("{}, {ranks}, {}: {}{first}", key.backend, load(key.read_fraction, self.readers), best.join(", ")))
    }
}

fn load(fraction: f64, readers: &str) -> String {
    format!("{} % {readers}", number(fraction * 100.0))
}

impl Watch {
    /// Prints the number of measurements and their expected time.
    pub(crate) fn new(study: &Study<'_>, quiet: bool) -> Watch {
        let options = study.options();
        let best = Best {
            locks: options.locks.len(),
            no_locks: study.subjects().filter(|info| !info.excludes).map(|info| info.name.clone()).collect(),
            repetitions: options.repetitions,
            readers: options.readers(),
            measured: Vec::new(),
            reported: Vec::new(),
        };
        if quiet {
            return Watch { show: Show::Quiet, best };
        }
        let list = |items: Vec<String>| items.join(", ");
        let ranks = match options.ranks[..] {
            [one] => counted(one.into(), "rank"),
            ref several => format!("{} ranks", list(several.iter().map(ToString::to_string).collect())),
        };
        say!(
            "study: {} on {} with {ranks}, {} measurements of {:.0?} each: about {} s",
            counted(options.locks.len() as u64, "lock"),
            list(options.backends.iter().map(ToString::to_string).collect()),
            study.measurements(),
            options.cell_duration(),
            study.estimate().as_secs_f64().ceil()
        );
        let show = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(study.measurements() as u64);
            let style = "{bar:30} {pos}/{len}  {elapsed} elapsed, {eta} left  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
            Show::Bar(bar)
        } else {
            Show::Lines(None)
        };
        Watch { show, best }
    }

    /// Shows one more measurement. After all of one load in one world, prints the fastest locks.
    pub(crate) fn show(&mut self, progress: &Progress) {
        let Some((key, throughput)) = &progress.last else { return };
        if let Some(line) = self.best.measured(key, *throughput) {
            match &self.show {
                Show::Quiet => (),
                Show::Bar(bar) => bar.println(line),
                Show::Lines(_) => say!("{line}"),
            }
        }
        let ranks = counted(key.ranks.into(), "rank");
        let message = format!("{}, {ranks}, {}, {}", key.backend, key.lock, load(key.read_fraction, self.best.readers));
        match &mut self.show {
            Show::Quiet => (),
            Show::Bar(bar) => {
                bar.set_position(progress.done as u64);
                bar.set_message(message);
            }
            Show::Lines(last) => {
                if last.is_none_or(|last| last.elapsed() >= LINES) {
                    *last = Some(Instant::now());
                    say!("{}/{}: {message}", progress.done, progress.of);
                }
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}
