//! The names of policies as text.

use super::PolicyKind;
use crate::{Global, McsRwRp, WindowLock};

impl std::fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl PolicyKind {
    /// The name of the policy with one reader-writer lock for the whole window. As the name of a policy it means
    /// [`McsRwRp`](PolicyKind::McsRwRp); the name of any other lock means this policy over that lock.
    pub const GLOBAL: &str = <Global<McsRwRp> as WindowLock>::NAME;
}

/// No policy has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no lock policy is called '{name}'; there are {}, and {} for {}", PolicyKind::NAMES.join(", "), PolicyKind::GLOBAL, PolicyKind::McsRwRp)]
pub struct UnknownPolicy {
    /// The name.
    pub name: String,
}

impl std::str::FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<PolicyKind, UnknownPolicy> {
        if name == PolicyKind::GLOBAL {
            return Ok(PolicyKind::McsRwRp);
        }
        let kind = PolicyKind::ALL.iter().find(|kind| kind.name() == name);
        kind.copied().ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}
