//! What a person sees of a running study.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;

use crate::study::{Progress, Study};

/// Time between two lines of progress where there is no terminal.
const LINES: Duration = Duration::from_secs(5);

/// Shows how far a study is: a bar on a terminal, a line now and then elsewhere, nothing if it is to be quiet.
pub(crate) enum Watch {
    Quiet,
    Bar(ProgressBar),
    Lines(RefCell<Option<Instant>>),
}

impl Watch {
    /// Says what will be measured and how long that takes.
    pub(crate) fn new(study: &Study<'_>, quiet: bool) -> Watch {
        if quiet {
            return Watch::Quiet;
        }
        let options = study.options();
        let list = |items: Vec<String>| items.join(", ");
        say!(
            "study: {} locks on {} with {} ranks, {} measurements of {:.0?} each: about {} s",
            options.locks.len(),
            list(options.backends.iter().map(ToString::to_string).collect()),
            list(options.ranks.iter().map(ToString::to_string).collect()),
            study.measurements(),
            options.cell_duration(),
            study.estimate().as_secs_f64().ceil()
        );
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(study.measurements() as u64);
            let style = "{bar:30} {pos}/{len}  {elapsed} gone, {eta} left  {msg}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
            Watch::Bar(bar)
        } else {
            Watch::Lines(RefCell::new(None))
        }
    }

    /// Shows one more measurement.
    pub(crate) fn show(&self, progress: &Progress) {
        let message = progress.last.as_ref().map_or(String::new(), |key| {
            format!("{}, ranks {}, {}, share of lock_all {}", key.backend, key.ranks, key.lock, key.read_fraction)
        });
        match self {
            Watch::Quiet => (),
            Watch::Bar(bar) => {
                bar.set_position(progress.done as u64);
                bar.set_message(message);
            }
            Watch::Lines(last) => {
                let due = last.borrow().is_none_or(|last| last.elapsed() >= LINES);
                if due && progress.last.is_some() {
                    *last.borrow_mut() = Some(Instant::now());
                    say!("{}/{}: {message}", progress.done, progress.of);
                }
            }
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Watch::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
