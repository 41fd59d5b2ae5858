//! `rmalab list`: all names on the command line.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use rmalab_atomics::sim::Profile;
use rmalab_windows::PolicyKind;
use serde_json::{Map, Value, json};

use crate::compare::OPERATIONS;
use crate::document::text::fill;
use crate::output::{self, OutputArgs, print};
use crate::study::Backend;
use crate::{Error, Registry, Result, applications, reproduce};

/// Options of `rmalab list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// One kind of names, with all that is known about each [default: all kinds, in short]
    #[arg(value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    /// Format of the names
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The formats of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// Lines
    Text,
    /// An object with a list for each kind
    Json,
}

/// The kinds of names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Mutexes and reader-writer locks
    Locks,
    /// Lock policies of windows
    Policies,
    /// Backends, which are the places of ranks and carry out their operations
    Backends,
    /// Simulated machines
    Profiles,
    /// Experiments of papers, for reproduce
    Experiments,
    /// Mutants for verify --mutant: locks broken on purpose
    Mutants,
    /// Applications, for run
    Applications,
    /// Operations of windows, for compare
    Operations,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Locks => "Locks",
            Kind::Policies => "Policies",
            Kind::Backends => "Backends",
            Kind::Profiles => "Profiles",
            Kind::Experiments => "Experiments",
            Kind::Mutants => "Mutants",
            Kind::Applications => "Applications",
            Kind::Operations => "Operations",
        }
    }

    /// All kinds, in the order of the lists.
    fn named(self, registry: &Registry) -> Vec<Named> {
        match self {
            Kind::Locks => subjects(registry, false),
            Kind::Policies => {
                let about = format!(
                    "one reader-writer lock for the whole window: {}; the name of any other lock means that lock in its place",
                    PolicyKind::McsRwRp
                );
                std::iter::once(Named::new(PolicyKind::GLOBAL, about)).chain(subjects(registry, true)).collect()
            }
            Kind::Backends => Backend::ALL.into_iter().map(backend).collect(),
            Kind::Profiles => Profile::names()
                .map(|name| Named::new(name, Profile::builtin(name).map_or(String::new(), |profile| profile.about)))
                .collect(),
            Kind::Experiments => reproduce::all()
                .into_iter()
                .map(|one| {
                    let (quick, long) = one.seconds;
                    Named::new(one.id, one.title)
                        .with("source", one.source)
                        .with("seconds", format!("{quick}, with --long {long}"))
                })
                .collect(),
            Kind::Mutants => rmalab_verify::mutants()
                .map(|mutant| Named::new(mutant.name, mutant.description).with("of", mutant.locks.join(", ")))
                .collect(),
            Kind::Applications => applications::ALL.iter().map(|&(name, title)| Named::new(name, title)).collect(),
            Kind::Operations => OPERATIONS.iter().map(|one| Named::new(one.name, one.title)).collect(),
        }
    }
}

/// A name and its description.
struct Named {
    name: String,
    description: String,
    more: Vec<(&'static str, String)>,
}

impl Named {
    fn new(name: impl Into<String>, description: impl Into<String>) -> Named {
        Named { name: name.into(), description: description.into(), more: Vec::new() }
    }

    fn with(mut self, what: &'static str, text: impl Into<String>) -> Named {
        self.more.push((what, text.into()));
        self
    }
}

fn subjects(registry: &Registry, policies: bool) -> Vec<Named> {
    let of_kind = registry.subjects().filter(|subject| (subject.info().kind == crate::Kind::Policy) == policies);
    let named = of_kind.map(|subject| {
        let info = subject.info();
        Named::new(&info.name, &info.description).with("fairness", &info.fairness).with("paper", &info.paper)
    });
    named.collect()
}

/// The remark on a backend that needs a feature.
const NOT_BUILT: &str = "not in this program";

fn backend(backend: Backend) -> Named {
    let named = Named::new(backend.name(), backend.description());
    if backend.is_built() { named } else { named.with(NOT_BUILT, format!("build it with --features {backend}")) }
}

/// Runs the sub-command.
pub(crate) fn run(registry: &Registry, arguments: &ListArgs) -> Result<ExitCode> {
    let kinds = arguments.kind.as_ref().map_or(Kind::value_variants(), std::slice::from_ref);
    print(&names(registry, kinds, arguments.format, output::width()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints all names of one kind, as the options of output require.
///
/// # Errors
///
/// [`Error::Usage`] for a format other than text and JSON, and for a report: names are no results.
pub(crate) fn print_kind(registry: &Registry, kind: Kind, output: &OutputArgs) -> Result<ExitCode> {
    let format = match output.format {
        output::Format::Text => Format::Text,
        output::Format::Json => Format::Json,
        output::Format::Csv | output::Format::Markdown => {
            return Err(Error::usage("names are printed as text or JSON; give --format text or --format json"));
        }
    };
    if output.report.is_some() {
        return Err(Error::usage("names have no report; leave out --report, and give -o FILE for a file"));
    }
    let mut outlet = output.prepare(None)?;
    outlet.print(&names(registry, &[kind], format, outlet.width()))?;
    Ok(ExitCode::SUCCESS)
}

fn names(registry: &Registry, kinds: &[Kind], format: Format, width: usize) -> String {
    if format == Format::Json {
        let all: Map<String, Value> =
            kinds.iter().map(|&kind| (kind.title().to_lowercase(), as_json(&kind.named(registry)))).collect();
        return serde_json::to_string_pretty(&all).expect("texts are JSON") + "\n";
    }
    if let [kind] = kinds {
        return as_text(*kind, &kind.named(registry), width);
    }
    let text: Vec<String> = kinds.iter().map(|&kind| in_short(kind, kind.named(registry), width)).collect();
    let more = fill("`rmalab list locks` adds fairness and papers, and so on for each kind.", width);
    text.join("\n") + &format!("\n{more}\n")
}

/// A line for each name; of many names, only their number.
fn in_short(kind: Kind, mut all: Vec<Named>, width: usize) -> String {
    if all.len() > MANY {
        let (title, word) = (kind.title(), kind.title().to_lowercase());
        let line = format!("{title}: there are {}; `rmalab list {word}` prints them", all.len());
        return fill(&line, width) + "\n";
    }
    all.iter_mut().for_each(|named| named.more.retain(|(what, _)| *what == NOT_BUILT));
    as_text(kind, &all, width)
}

/// The list of all kinds gives only the number of a kind with more names than this.
const MANY: usize = 100;

/// A description that would have fewer columns than this beside its name is below it.
const NARROWEST: usize = 40;

/// The names with their descriptions, in lines of at most `width` characters, unless a word is longer.
fn as_text(kind: Kind, all: &[Named], width: usize) -> String {
    let names = all.iter().map(|named| named.name.len()).max().unwrap_or(0);
    let is_beside = width.saturating_sub(names + 4) >= NARROWEST;
    let indent = if is_beside { names + 4 } else { 4 };
    let mut text = format!("{}:\n", kind.title());
    for named in all {
        let more = named.more.iter().filter(|(_, more)| !more.is_empty()).map(|(what, more)| format!("{what}: {more}"));
        let paragraphs: Vec<String> =
            std::iter::once(named.description.clone()).chain(more).map(|one| fill(&one, width - indent)).collect();
        let mut lines = paragraphs.iter().flat_map(|one| one.lines());
        match lines.next() {
            Some(first) if is_beside => text += &format!("  {:names$}  {first}\n", named.name),
            Some(first) => text += &format!("  {}\n    {first}\n", named.name),
            None => text += &format!("  {}\n", named.name),
        }
        for line in lines {
            text += &format!("{:indent$}{line}\n", "");
        }
    }
    text
}

fn as_json(all: &[Named]) -> Value {
    let one = |named: &Named| {
        let mut object = Map::new();
        object.insert("name".into(), json!(named.name));
        object.insert("description".into(), json!(named.description));
        object.extend(named.more.iter().map(|(what, more)| ((*what).to_owned(), json!(more))));
        Value::Object(object)
    };
    all.iter().map(one).collect()
}
