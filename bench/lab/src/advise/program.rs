//! Advice on every window of a program.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rmalab_job::{Error, Result};
use rmalab_report::document::Document;
use rmalab_report::finding::{Cell, Column, Table};
use rmalab_windows::Config;
use rmalab_windows::trace::Trace;

use super::{Advice, Advise, Epochs, Options, Progress};
use crate::Registry;

/// The windows of a program: one of a description, or all of a folder of traces.
#[derive(Debug)]
pub struct Program<'a> {
    windows: Vec<Window<'a>>,
    stop: Arc<AtomicBool>,
}

/// A window, with its name in the folder of traces.
#[derive(Debug)]
struct Window<'a> {
    name: String,
    task: Task<'a>,
}

/// The work for a window.
#[derive(Debug)]
enum Task<'a> {
    Advise(Box<Advise<'a>>),
    Describe(Epochs),
}

impl<'a> Program<'a> {
    /// Reads and checks the input, like [`Advise::new`]. A trace may have several windows, and windows without locks.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`], as from [`Advise::new`].
    pub fn new(registry: &'a Registry, options: &Options) -> Result<Program<'a>> {
        let traces: Vec<Option<PathBuf>> = match &options.trace {
            Some(path) if options.workload.is_none() => {
                let paths = Trace::windows(path).map_err(|error| Error::usage(error.to_string()))?;
                paths.into_iter().map(Some).collect()
            }
            other => vec![other.clone()],
        };
        let stop = Arc::default();
        let window = |trace: Option<PathBuf>| {
            let name =
                trace.as_ref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy().into_owned();
            let options = Options { trace, ..options.clone() };
            let source = options.source()?;
            let task = match Epochs::of(&source) {
                Some(epochs) => Task::Describe(epochs),
                None => {
                    let advise = Advise::of(registry, options, source)?;
                    Task::Advise(Box::new(Advise { stop: Arc::clone(&stop), ..advise }))
                }
            };
            Ok(Window { name, task })
        };
        Ok(Program { windows: traces.into_iter().map(window).collect::<Result<_>>()?, stop })
    }

    /// A flag that ends the advice once set.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The windows with locks, in a line.
    pub fn describe(&self) -> String {
        let sources = self.windows.iter().filter_map(|window| match &window.task {
            Task::Advise(advise) => Some(advise.describe()),
            Task::Describe(_) => None,
        });
        sources.collect::<Vec<_>>().join("; ")
    }

    /// Makes the document of the advice on all windows. Returns `None` if it was stopped.
    ///
    /// # Errors
    ///
    /// As from [`Advise::run`].
    pub fn run(&self, progress: &(dyn Fn(&Progress) + Sync)) -> Result<Option<Document>> {
        let is_advised = |window: &&Window<'_>| matches!(window.task, Task::Advise(_));
        let mut left = self.windows.iter().filter(is_advised).count();
        let (mut before, mut documents, mut advices) = (0, Vec::new(), Vec::new());
        for Window { name, task } in &self.windows {
            let document = match task {
                Task::Describe(epochs) => epochs.document(),
                Task::Advise(advise) => {
                    let simulations = AtomicUsize::new(0);
                    // The windows that follow may need as many simulations as this one.
                    let advice = advise.run(&|&Progress { done, of, measuring }| {
                        simulations.store(of, Ordering::Relaxed);
                        progress(&Progress { done: before + done, of: before + of * left, measuring });
                    })?;
                    let Some(mut advice) = advice else { return Ok(None) };
                    before += simulations.into_inner();
                    left -= 1;
                    advice.window = (self.windows.len() > 1).then(|| name.clone());
                    let document = advice.document();
                    advices.push(advice);
                    document
                }
            };
            documents.push((name.as_str(), document));
        }
        if documents.len() == 1 {
            return Ok(documents.pop().map(|(_, document)| document));
        }
        let mut document = joined(documents);
        document.summary.extend(variable(&advices));
        Ok(Some(document))
    }
}

/// One document of several windows. The name of its window leads each sentence of the summary and each row of the data.
fn joined(documents: Vec<(&str, Document)>) -> Document {
    let (_, first) = documents.first().expect("there are several windows");
    let mut all = Document::new(
        &first.kind,
        "Which lock policy each window should have",
        first.run.clone(),
        first.machine.clone(),
    );
    let mut data: Option<Table> = None;
    for (number, (window, document)) in (1..).zip(documents) {
        all.summary.extend(document.summary.iter().map(|line| format!("{window}: {line}")));
        for mut section in document.sections {
            section.id = format!("{}-{number}", section.id);
            section.title = format!("{window}: {}", section.title);
            all.sections.push(section);
        }
        let Some(table) = document.data else { continue };
        let columns = || std::iter::once(Column::from("window")).chain(table.columns.iter().cloned());
        let data = data.get_or_insert_with(|| Table::new(table.title.clone(), columns()).keyed(1 + table.keys));
        for row in table.rows {
            data.row(std::iter::once(Cell::from(window)).chain(row));
        }
    }
    all.data = data;
    all
}

/// A sentence on what a variable can do for several windows, if some need another policy than they have.
fn variable(advices: &[Advice]) -> Option<String> {
    let (first, others) = advices.split_first()?;
    if others.is_empty() || advices.iter().all(Advice::keeps) {
        return None;
    }
    let variable = Config::LOCK_POLICY_VARIABLE;
    Some(if others.iter().all(|other| other.choice == first.choice) {
        format!(
            "{variable} selects the policy of every window whose info does not name one, so one value suits all windows."
        )
    } else {
        format!(
            "{variable} selects one policy for all windows whose info does not name one. These windows need different \
             policies, so set the info key rmalab_lock_policy of each."
        )
    })
}
