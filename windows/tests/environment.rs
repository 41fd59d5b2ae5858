//! The environment variable that sets the default lock policy.

use std::process::Command;

use rmalab_atomics::World;
use rmalab_windows::{Config, Info, Team, Window};

/// A variable that is set in the child: the policy that it must find, and the number of reported hints.
const EXPECTED: &str = "RMALAB_TEST_EXPECTED";

/// Runs itself, with different values of the variable.
#[test]
fn the_variable_sets_the_default_policy() {
    if let Ok(expected) = std::env::var(EXPECTED) {
        let (config, ignored) = Config::from_info(&Info::new());
        assert_eq!(format!("{} {}", config.policy, ignored.len()), expected);
        // Two windows of two ranks.
        let made = World::threads(2).run(|ra| {
            let team = Team::new(ra).unwrap();
            for bytes in [8, 16] {
                Window::builder(&team).allocate(bytes).unwrap().free().unwrap();
            }
        });
        made.unwrap();
        return;
    }
    let values = [
        (None, "two-level 0"),
        (Some("global"), "mcs-rw-rp 0"),
        (Some("per-target"), "per-target 0"),
        (Some("x"), "two-level 1"),
    ];
    for (value, expected) in values {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "environment::the_variable_sets_the_default_policy", "--nocapture"])
            .env(EXPECTED, expected);
        child.env_remove(Config::LOCK_POLICY_VARIABLE);
        if let Some(value) = value {
            child.env(Config::LOCK_POLICY_VARIABLE, value);
        }
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{value:?}: {text}");
        let said = String::from_utf8_lossy(&output.stderr);
        let notes = said.matches("note: RMALAB_LOCK_POLICY=x is ignored: no lock policy is called 'x'").count();
        assert_eq!(notes, usize::from(value == Some("x")), "{said}");
    }
}
