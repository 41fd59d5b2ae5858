//! The user's choices for a window: info keys, and variables for programs that cannot be edited.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use rmalab_windows::{Config, Info};

/// The info keys that are read when a window is made, and their variables.
pub(crate) const KEYS: [(&str, &str); 6] = [
    ("rmalab_mode", "RMALAB_MODE"),
    ("rmalab_control", "RMALAB_CONTROL"),
    (POLICY, Config::LOCK_POLICY_VARIABLE),
    ("rmalab_fence", "RMALAB_FENCE"),
    ("rmalab_pscw", "RMALAB_PSCW"),
    ("rmalab_record", Config::RECORD_VARIABLE),
];

/// The key of the lock policy, whose default depends on the window.
const POLICY: &str = "rmalab_lock_policy";

/// The folder of traces where the mode is `record` and nothing names another one.
const TRACES: &str = "rmalab-trace";

/// The standard's hint on the memory of allocated windows. In mode `native` the engine has that memory.
const ALIGNMENT: &str = "mpi_minimum_memory_alignment";

/// The division of work between rmalab and the host on a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Mode {
    /// Rmalab does everything, in memory that all ranks map, if the window can have such memory. Otherwise like `Policy`.
    #[default]
    Native,
    /// Rmalab does epochs and locks, and the host moves data.
    Policy,
    /// The host does everything.
    Off,
    /// The host does everything, and calls are recorded.
    Record,
}

/// The place of the words of epochs and locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Control {
    /// In shared memory if all ranks are on one host, otherwise in a window of the host.
    #[default]
    Auto,
    /// In shared memory.
    Shared,
    /// In a window of the host.
    Remote,
}

impl Mode {
    const ALL: [Mode; 4] = [Mode::Native, Mode::Policy, Mode::Off, Mode::Record];

    /// Returns whether the host does everything.
    pub(crate) fn is_hosts(self) -> bool {
        matches!(self, Mode::Off | Mode::Record)
    }
}

impl Control {
    const ALL: [Control; 3] = [Control::Auto, Control::Shared, Control::Remote];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Native => "native",
            Mode::Policy => "policy",
            Mode::Off => "off",
            Mode::Record => "record",
        })
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Control::Auto => "auto",
            Control::Shared => "shared",
            Control::Remote => "remote",
        })
    }
}

/// The choices for one window.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) control: Control,
    /// The strategies of the engine.
    pub(crate) config: Config,
    /// True if the program or its user has chosen the lock policy.
    pub(crate) names_policy: bool,
    /// The folder of the window's trace, if its calls are recorded.
    pub(crate) record: Option<PathBuf>,
    /// A line for each value that does not exist.
    pub(crate) warnings: Vec<String>,
    /// A number that is the same at all ranks with the same choices.
    pub(crate) digest: u64,
}

impl Settings {
    /// Reads the hints, and the variable of each key without a hint.
    pub(crate) fn read(hint: impl Fn(&str) -> Option<String>, variable: impl Fn(&str) -> Option<String>) -> Settings {
        let mut warnings = Vec::new();
        let (mut mode, mut control, mut strategies) = (Mode::default(), Control::default(), Info::new());
        let mut record = None;
        for (key, name) in KEYS {
            let given = hint(key).map(|value| (key, value));
            let Some((source, value)) = given.or_else(|| variable(name).map(|value| (name, value))) else { continue };
            match key {
                "rmalab_mode" => choose(&mut mode, &Mode::ALL, source, &value, &mut warnings),
                "rmalab_control" => choose(&mut control, &Control::ALL, source, &value, &mut warnings),
                "rmalab_record" => record = (!value.is_empty()).then(|| PathBuf::from(value)),
                _ => {
                    let refused = match Info::from_pairs([(key, &value)]) {
                        Ok(strategy) => {
                            let (_, ignored) = Config::from_info(&strategy);
                            ignored
                                .into_iter()
                                .find(|ignored| ignored.key == key)
                                .map(|ignored| ignored.reason.to_string())
                        }
                        Err(error) => Some(error.to_string()),
                    };
                    match refused {
                        Some(why) => warnings.push(format!("{source}={value} is ignored: {why}")),
                        None => drop(strategies.set(key, &value)),
                    }
                }
            }
        }
        if let Some(alignment) = hint(ALIGNMENT) {
            // A value that does not exist is ignored, as the host does.
            drop(strategies.set(ALIGNMENT, &alignment));
        }
        if mode == Mode::Record {
            record.get_or_insert_with(|| PathBuf::from(TRACES));
        }
        // The only value that the engine still ignores is its own variable, which already has its line.
        let (config, _) = Config::from_info(&strategies);
        let names_policy = strategies.get(POLICY).is_some();
        let mut settings = Settings { mode, control, config, names_policy, record, warnings, digest: 0 };
        settings.digest = digest(&settings.choices());
        settings
    }

    /// Returns all keys with the chosen values. All ranks have the same keys, in the same order.
    pub(crate) fn choices(&self) -> Vec<(String, String)> {
        let record = self.record.as_deref().unwrap_or(Path::new("")).display().to_string();
        let ours = [
            ("rmalab_mode", self.mode.to_string()),
            ("rmalab_control", self.control.to_string()),
            ("rmalab_record", record),
        ];
        let strategies = self.config.to_info();
        let strategies = strategies.iter().map(|(key, value)| {
            let chosen = if key == POLICY && !self.names_policy { "default" } else { value };
            (key.to_owned(), chosen.to_owned())
        });
        ours.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(strategies).collect()
    }
}

/// Returns a number that is the same for the same value.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn choose<T: Copy + fmt::Display>(choice: &mut T, all: &[T], source: &str, value: &str, warnings: &mut Vec<String>) {
    match all.iter().find(|one| one.to_string() == value) {
        Some(&found) => *choice = found,
        None => {
            let names: Vec<String> = all.iter().map(T::to_string).collect();
            warnings.push(format!("{source}={value} is ignored: '{value}' is not one of {}", names.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use rmalab_windows::{FenceStrategy, PolicyKind};

    use super::*;

    fn read(hints: &[(&str, &str)], variables: &[(&str, &str)]) -> Settings {
        let of =
            |pairs: &[(&str, &str)], name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        Settings::read(|name| of(hints, name), |name| of(variables, name))
    }

    #[test]
    fn a_hint_comes_before_its_variable() {
        let settings = read(
            &[("rmalab_lock_policy", "hierarchical"), ("rmalab_control", "remote")],
            &[("RMALAB_LOCK_POLICY", "mcs"), ("RMALAB_CONTROL", "shared"), ("RMALAB_FENCE", "naive")],
        );
        assert_eq!((settings.mode, settings.control), (Mode::Native, Control::Remote));
        assert_eq!((settings.config.policy, settings.config.fence), (PolicyKind::Hierarchical, FenceStrategy::Naive));
        assert!(settings.warnings.is_empty());
    }

    #[test]
    fn a_value_that_does_not_exist_is_a_line_and_the_default() {
        let settings = read(
            &[("rmalab_mode", "fast"), ("rmalab_pscw", "deferred")],
            &[("RMALAB_LOCK_POLICY", "best"), ("RMALAB_CONTROL", "remote")],
        );
        assert_eq!((settings.mode, settings.control), (Mode::Native, Control::Remote));
        assert_eq!(settings.config, Config::default());
        let [mode, policy, pscw] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
        assert_eq!(mode, "rmalab_mode=fast is ignored: 'fast' is not one of native, policy, off, record");
        assert!(policy.starts_with("RMALAB_LOCK_POLICY=best is ignored: ") && policy.contains("two-level"), "{policy}");
        assert!(pscw.starts_with("rmalab_pscw=deferred is ignored: "), "{pscw}");
    }

    #[test]
    fn a_folder_records_and_the_mode_record_has_one() {
        let folder = |hints: &[(&str, &str)], variables: &[(&str, &str)]| read(hints, variables).record;
        assert_eq!(folder(&[], &[]), None);
        assert_eq!(folder(&[], &[("RMALAB_RECORD", "")]), None);
        assert_eq!(folder(&[], &[("RMALAB_RECORD", "a")]), Some("a".into()));
        assert_eq!(folder(&[("rmalab_record", "b")], &[("RMALAB_RECORD", "a")]), Some("b".into()));
        assert_eq!(folder(&[("rmalab_mode", "record")], &[]), Some("rmalab-trace".into()));
        assert_eq!(folder(&[("rmalab_mode", "record")], &[("RMALAB_RECORD", "a")]), Some("a".into()));
    }

    #[test]
    fn digests_differ_where_choices_do() {
        let digest = |hints: &[(&str, &str)]| read(hints, &[]).digest;
        assert_eq!(digest(&[]), digest(&[("rmalab_mode", "native"), ("rmalab_fence", "dissemination")]));
        for other in [
            ("rmalab_mode", "policy"),
            ("rmalab_mode", "off"),
            ("rmalab_control", "remote"),
            ("rmalab_lock_policy", "mcs"),
            ("rmalab_lock_policy", "two-level"),
            ("rmalab_record", "traces"),
        ] {
            assert_ne!(digest(&[]), digest(&[other]), "{other:?}");
        }
    }
}
