//! The policies that are tried, each with the parameters that matter.

use rmalab_locks::{
    Backoff, Cohort, CohortParams, Contended, Exclusive, Global, GlobalParams, Hierarchical, HierarchicalParams, Mcs,
    McsRwNeutral, McsRwRp, McsRwWp, NoCheck, PerTarget, PolicyKind, RmaMcs, RmaRw, RmaRwParams, Tas, TasRw, Ticket,
    TicketParams, TwoLevel, TwoLevelParams, WindowLock,
};

use rmalab_job::{Error, Result};
use rmalab_report::names;

/// A policy with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// What tables call it: the policy's name, and after a slash what differs from its defaults.
    pub label: &'static str,
    /// The policy.
    pub kind: PolicyKind,
    /// The call that chooses it on a window's builder.
    pub call: &'static str,
}

impl Candidate {
    /// Returns whether all of its parameters are the policy's defaults, as the info string chooses it.
    pub fn is_default(&self) -> bool {
        self.label == self.kind.name()
    }

    /// The info string that chooses the policy, with its defaults.
    pub fn info(&self) -> String {
        format!("rmalab_lock_policy={}", self.kind)
    }

    /// The builder that chooses the candidate.
    pub fn builder(&self) -> String {
        // The compiler breaks what is long into lines.
        let call = self.call.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(", }", " }");
        format!("Window::builder(&team){call}")
    }
}

/// What can be done with any policy.
pub(super) trait Visitor {
    type Out;
    fn visit<W: WindowLock + 'static>(self, params: W::Params) -> Self::Out;
}

/// Makes the list, and the way from a candidate to its type.
macro_rules! candidates {
    ($($kind:ident $label:literal: $lock:ty, $params:expr;)*) => {
        /// All candidates; of one policy the one with the defaults first.
        pub const ALL: &[Candidate] = &[$(Candidate {
            label: $label,
            kind: PolicyKind::$kind,
            call: concat!(".policy::<", stringify!($lock), ">(", stringify!($params), ")"),
        }),*];

        impl Candidate {
            pub(super) fn visit<V: Visitor>(&self, visitor: V) -> V::Out {
                match self.label {
                    $($label => visitor.visit::<$lock>($params),)*
                    other => panic!("no candidate is called {other}: they all come from the list"),
                }
            }
        }
    };
}

candidates! {
    TwoLevel "two-level": TwoLevel, TwoLevelParams::default();
    TwoLevel "two-level/retract": TwoLevel,
        TwoLevelParams { contended: Contended::Retract, ..TwoLevelParams::default() };
    TwoLevel "two-level/backoff-8": TwoLevel,
        TwoLevelParams { backoff: Backoff { min: 1, max: 8 }, ..TwoLevelParams::default() };
    TwoLevel "two-level/backoff-512": TwoLevel,
        TwoLevelParams { backoff: Backoff { min: 1, max: 512 }, ..TwoLevelParams::default() };
    Hierarchical "hierarchical": Hierarchical, HierarchicalParams::default();
    Hierarchical "hierarchical/leaf-1": Hierarchical, HierarchicalParams { leaf: 1, ..HierarchicalParams::default() };
    Hierarchical "hierarchical/fan-out-8": Hierarchical,
        HierarchicalParams { fan_out: 8, ..HierarchicalParams::default() };
    PerTarget "per-target": PerTarget<McsRwRp>, ();
    RmaRw "rma-rw": Global<RmaRw>, GlobalParams::default();
    RmaRw "rma-rw/t-r-100": Global<RmaRw>,
        GlobalParams { lock: RmaRwParams { t_r: 100, ..RmaRwParams::default() }, ..GlobalParams::default() };
    McsRwRp "mcs-rw-rp": Global<McsRwRp>, GlobalParams::default();
    McsRwWp "mcs-rw-wp": Global<McsRwWp>, GlobalParams::default();
    McsRwNeutral "mcs-rw-neutral": Global<McsRwNeutral>, GlobalParams::default();
    TasRw "tas-rw": Global<TasRw>, GlobalParams::default();
    TasRw "tas-rw/backoff-8": Global<TasRw>,
        GlobalParams { lock: Backoff { min: 1, max: 8 }, ..GlobalParams::default() };
    TasRw "tas-rw/backoff-512": Global<TasRw>,
        GlobalParams { lock: Backoff { min: 1, max: 512 }, ..GlobalParams::default() };
    Mcs "mcs": Global<Exclusive<Mcs>>, GlobalParams::default();
    Ticket "ticket": Global<Exclusive<Ticket>>, GlobalParams::default();
    Ticket "ticket/hold-8": Global<Exclusive<Ticket>>,
        GlobalParams { lock: TicketParams { hold: 8 }, ..GlobalParams::default() };
    RmaMcs "rma-mcs": Global<Exclusive<RmaMcs>>, GlobalParams::default();
    Cohort "cohort": Global<Exclusive<Cohort>>, GlobalParams::default();
    Cohort "cohort/pass-8": Global<Exclusive<Cohort>>,
        GlobalParams { lock: CohortParams { may_pass_local: 8, ranks: 0 }, ..GlobalParams::default() };
    Tas "tas": Global<Exclusive<Tas>>, GlobalParams::default();
    Tas "tas/backoff-8": Global<Exclusive<Tas>>,
        GlobalParams { lock: Backoff { min: 1, max: 8 }, ..GlobalParams::default() };
    Tas "tas/backoff-512": Global<Exclusive<Tas>>,
        GlobalParams { lock: Backoff { min: 1, max: 512 }, ..GlobalParams::default() };
    NoCheck "nocheck": NoCheck, ();
}

/// No lock at all: what every policy is compared with.
pub(super) fn baseline() -> &'static Candidate {
    ALL.iter().find(|candidate| candidate.kind == PolicyKind::NoCheck).expect("the list has it")
}

/// The candidates of these names, policies' or candidates'; without any name all but the one that does not lock.
pub(super) fn chosen(chosen: &[String]) -> Result<Vec<&'static Candidate>> {
    for name in chosen {
        if !ALL.iter().any(|candidate| candidate.label == name || candidate.kind.name() == name) {
            return Err(Error::usage(names::unknown("lock policy", name, ALL.iter().map(|candidate| candidate.label))));
        }
    }
    let named = |candidate: &&Candidate| match chosen {
        [] => candidate.kind != PolicyKind::NoCheck,
        names => names.iter().any(|name| candidate.label == name || candidate.kind.name() == name),
    };
    Ok(ALL.iter().filter(named).collect())
}

#[cfg(test)]
mod tests {
    use rmalab_windows::{Config, Info};

    use super::*;

    #[test]
    fn every_policy_has_a_candidate_with_its_defaults() {
        for &kind in PolicyKind::ALL {
            assert_eq!(ALL.iter().filter(|candidate| candidate.kind == kind && candidate.is_default()).count(), 1);
        }
        for (at, candidate) in ALL.iter().enumerate() {
            assert!(!ALL[..at].iter().any(|other| other.label == candidate.label), "{}", candidate.label);
        }
    }

    #[test]
    fn info_strings_choose_the_policy() {
        for candidate in ALL {
            let info: Info = candidate.info().parse().unwrap();
            let (config, ignored) = Config::from_info(&info);
            assert_eq!((config.policy, ignored.len()), (candidate.kind, 0), "{}", candidate.label);
        }
    }

    #[test]
    fn calls_are_code() {
        // What the list evaluates is what it prints, token by token; so only the whole has to be seen once.
        assert_eq!(
            chosen(&["two-level/retract".to_owned()]).unwrap()[0].builder(),
            "Window::builder(&team).policy::<TwoLevel>(TwoLevelParams { contended: Contended::Retract, \
             ..TwoLevelParams::default() })"
        );
        assert!(
            chosen(&["per-target".to_owned()]).unwrap()[0].builder().ends_with(".policy::<PerTarget<McsRwRp>>(())")
        );
    }

    #[test]
    fn names_choose() {
        assert!(chosen(&[]).unwrap().iter().all(|candidate| candidate.kind != PolicyKind::NoCheck));
        let labels = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&names).unwrap().iter().map(|candidate| candidate.label).collect::<Vec<_>>()
        };
        assert_eq!(
            labels(&["cohort", "nocheck", "tas/backoff-8"]),
            ["cohort", "cohort/pass-8", "tas/backoff-8", "nocheck"]
        );
        let error = chosen(&["two-levle".to_owned()]).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("did you mean 'two-level'"), "{error}");
    }
}
