//! The document of the experiments: each paper's finding, the finding here, and the lesson of each plot.

use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Cell, Table};
use rmalab_report::numbers::digits;

use super::{Outcome, Reproduced};

impl Outcome {
    /// The document of the experiments: a section for each, with its lesson, and a list of words.
    pub fn document(&self) -> Document {
        let mut document =
            Document::new("reproduce", "The papers' experiments", self.run.clone(), self.machine.clone());
        document.summary = self.experiments.iter().map(|one| format!("{}: {}", one.experiment.id, said(one))).collect();
        let introduction = Section::new("experiments", "Experiments")
            .paragraph(
                "Each experiment follows a paper's protocol on this program's own stack: on processes of this machine \
                 at sizes that fit it, and on simulated machines at the paper's sizes. Absolute times of the papers' \
                 clusters are compared with simulated ones only; ratios, orders and shapes with both.",
            )
            .paragraph(
                "Solid lines with filled marks are measured on this machine, lines with hollow marks are simulated, \
                 and dashed lines are published. Lines of one colour belong together. A claim marked as fitted is no \
                 evidence: the simulated machine's profile was fitted to these figures.",
            )
            .table(self.list())
            .folded();
        document.sections.push(introduction);
        document.sections.extend(self.experiments.iter().map(section));
        let mut words = Table::new("Words", ["word", "meaning"]);
        for (word, meaning) in WORDS {
            words.row([word, meaning]);
        }
        document.sections.push(Section::new("words", "Words").table(words).folded());
        document
    }

    fn list(&self) -> Table {
        let mut table = Table::new("All experiments", ["experiment", "what", "source", "the paper's finding"]);
        for one in &self.experiments {
            let verdict = one.finding.as_ref().map_or("failed".into(), |finding| finding.verdict().to_string());
            let experiment = one.experiment;
            table.row([experiment.id, experiment.title, experiment.source, &verdict].map(Cell::from));
        }
        table
    }
}

/// A sentence on the finding.
pub(super) fn said(one: &Reproduced) -> String {
    one.finding.as_ref().map_or_else(|why| format!("failed: {why}"), |finding| finding.sentence())
}

/// The section of one experiment.
pub(super) fn section(one: &Reproduced) -> Section {
    let experiment = one.experiment;
    let mut section = Section::new(experiment.id, format!("{}: {}", experiment.id, experiment.title));
    section.text = vec![
        format!("{}.", experiment.source.trim_end_matches('.')),
        experiment.lesson.to_owned(),
        experiment.protocol.to_owned(),
        format!("The paper: {}", experiment.found),
        format!("Here: {}", said(one)),
    ];
    if let Ok(finding) = &one.finding {
        section.finding = finding.clone();
    }
    section.text.push(format!("Took {} s: `rmalab reproduce {}`.", digits(one.seconds), experiment.id));
    section
}

/// Words that the lessons use.
const WORDS: [(&str, &str); 12] = [
    ("rank", "One of the processes (or threads) of a program that runs as many; they are numbered from 0."),
    ("window", "Memory of every rank that other ranks access without its help, by put, get and accumulate."),
    ("origin, target", "The rank that issues an operation, and the rank whose memory it accesses."),
    ("epoch", "The section of a program in which a rank may issue operations; its end completes them."),
    ("fence", "A collective call that ends one epoch of all ranks and begins the next."),
    (
        "PSCW",
        "Post, start, complete, wait: an epoch between named neighbours only. The target posts its window to a group \
         and waits; the origins start and complete.",
    ),
    ("lock, unlock", "An epoch in which the target takes no part: the origin locks its window, exclusively or shared."),
    ("lock_all", "A shared lock of all ranks' windows at once; most one-sided programs hold it for their whole life."),
    ("flush", "Completes the operations to a target, within an epoch of locks."),
    ("network atomic", "fetch_and_add, compare_and_swap and the like, carried out by the target's network adapter."),
    (
        "one-sided, two-sided",
        "One-sided: only the origin and the network do the work. Two-sided: the target's processor takes part, as in \
         messages.",
    ),
    ("overlap", "The share of a communication's time in which the processor can compute."),
];
