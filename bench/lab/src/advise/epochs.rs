//! A window without locks: its calls, and the settings that apply to them.

use std::collections::BTreeMap;

use rmalab_report::Run;
use rmalab_report::document::{Document, Section};
use rmalab_report::finding::{Cell, Column, Table, Value};
use rmalab_report::numbers::humane;
use rmalab_windows::replay::{Step, Update};
use rmalab_windows::{AccumulateStrategy, FenceStrategy, PscwStrategy};

use super::source::{Recorded, Source};

/// A program's calls on a window on which no rank takes a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Epochs {
    /// The trace, in a line.
    pub source: String,
    /// Each call with its number for all ranks together, the most frequent call first.
    pub calls: Vec<(&'static str, u64)>,
    /// The nanoseconds of all ranks together in the calls, and from the first call to the last; `None` if a file has no end.
    pub time: Option<(u64, u64)>,
    /// The settings that apply to the calls, a line each.
    pub settings: Vec<String>,
    /// True if the program is one on windows of an MPI.
    pub is_mpi: bool,
}

impl Epochs {
    /// The calls of a trace in which no rank takes a lock; `None` for every other source.
    pub(super) fn of(source: &Source) -> Option<Epochs> {
        let Source::Trace(trace) = source else { return None };
        if source.acquisitions() > 0 {
            return None;
        }
        let mut counts = BTreeMap::new();
        let mut computed = 0;
        for step in trace.steps().iter().flatten() {
            if let Some(call) = name(step) {
                *counts.entry(call).or_insert(0) += 1;
            }
            computed += super::source::computed(step).as_nanos() as u64;
        }
        let mut calls: Vec<(&'static str, u64)> = counts.into_iter().collect();
        calls.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        Some(Epochs {
            source: source.describe(),
            time: trace.elapsed.map(|elapsed| (elapsed.saturating_sub(computed), elapsed)),
            settings: settings(trace, &calls),
            calls,
            is_mpi: source.is_mpi(),
        })
    }

    /// The document: the calls, and the settings that apply to them.
    pub fn document(&self) -> Document {
        let title = "Which lock policy this window should have";
        let mut document = Document::new("advise", title, Run::begin(), rmalab_report::Machine::describe());
        document.summary.push("No lock policy applies: no rank takes a lock on this window.".to_owned());
        let mut section = Section::new("calls", "Calls").paragraph(format!("{}.", self.source.trim_end_matches('.')));
        if let Some((inside, all)) = self.time {
            section.text.push(format!(
                "The ranks spent {} of {} in these calls, all ranks together and with the time of the recording.",
                humane(inside as f64),
                humane(all as f64)
            ));
        }
        let mut table = Table::new("Calls of all ranks", [Column::from("call"), Column::neither("number")]);
        for &(call, count) in &self.calls {
            table.row([Cell::from(call), Value::Count(count).into()]);
        }
        if self.calls.is_empty() {
            section.text.push("The ranks made no call on it.".to_owned());
        } else {
            section.finding.tables.push(table);
        }
        document.sections.push(section);
        if !self.settings.is_empty() {
            let mut section = Section::new("settings", "Settings that apply").paragraph(
                "These info keys choose how the calls are carried out, the default first. The trace does not show which \
                 value is fastest: time the program with each.",
            );
            if self.is_mpi {
                section.text.push(
                    "They apply under rmalab preload in the modes native and policy; a variable is for all windows whose info \
                     does not have the key."
                        .to_owned(),
                );
            }
            section.listings.push(self.settings.join("\n"));
            document.sections.push(section);
        }
        document
    }
}

/// The name of a call; `None` for a computation.
fn name(step: &Step) -> Option<&'static str> {
    Some(match step {
        Step::Compute(_) | Step::BatchEnd => return None,
        // Every other lock is an acquisition.
        Step::LockAll { .. } | Step::Lock { .. } => "lock with MPI_MODE_NOCHECK",
        Step::Unlock { .. } | Step::UnlockAll => "unlock",
        Step::Put { .. } => "put",
        Step::Get { .. } => "get",
        Step::Update { call: Update::Accumulate(..), .. } => "accumulate",
        Step::Update { call: Update::GetAccumulate(..), .. } => "get_accumulate",
        Step::Update { call: Update::FetchAndOp(..), .. } => "fetch_and_op",
        Step::Update { call: Update::CompareAndSwap(_), .. } => "compare_and_swap",
        Step::Flush { .. } | Step::FlushAll => "flush",
        Step::BatchBegin => "batch",
        Step::Barrier => "barrier",
        Step::Fence(_) => "fence",
        Step::Post { .. } => "post",
        Step::Start { .. } => "start",
        Step::Complete => "complete",
        Step::Wait => "wait",
        Step::Test => "test",
    })
}

/// The settings that apply to the calls. A two-sided window has one way for each.
fn settings(trace: &Recorded, calls: &[(&str, u64)]) -> Vec<String> {
    let has = |names: &[&str]| calls.iter().any(|(call, _)| names.contains(call));
    let mut settings = Vec::new();
    let mut offer = |key: &str, variable: &str, default: &str, names: &[&str]| {
        let others = names.iter().filter(|&&name| name != default && name != FenceStrategy::Deferred.name());
        let values: Vec<&str> = std::iter::once(default).chain(others.copied()).collect();
        let variable = if trace.mpi.is_some() { format!("   (variable {variable})") } else { String::new() };
        settings.push(format!("info  {key}={}{variable}", values.join("|")));
    };
    if trace.is_two_sided {
        return Vec::new();
    }
    if has(&["fence"]) {
        offer("rmalab_fence", "RMALAB_FENCE", FenceStrategy::default().name(), FenceStrategy::NAMES);
    }
    if has(&["post", "start"]) {
        offer("rmalab_pscw", "RMALAB_PSCW", PscwStrategy::default().name(), PscwStrategy::NAMES);
    }
    // Windows of an MPI have no such key.
    if trace.mpi.is_none() && has(&["accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"]) {
        offer("rmalab_accumulate", "", AccumulateStrategy::default().name(), AccumulateStrategy::NAMES);
    }
    settings
}
