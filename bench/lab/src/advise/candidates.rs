//! The candidates: policies with the parameters that matter.

use std::sync::Arc;

use rmalab_job::{Error, Result};
use rmalab_locks::{
    ALock, Backoff, BigReader, BrLock, Bravo, BravoParams, Clh, Cna, CnaParams, Cohort, CohortParams, Contended,
    DecLock, DslrWide, Exclusive, Gcr, GcrParams, GcrRw, Global, GlobalParams, Hapax, Hierarchical, HierarchicalParams,
    Malthusian, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Mpi4pyMcs, NoCheck, OshmemMcs, PerTarget, PolicyKind,
    Reciprocating, RmaMcs, RmaRw, RmaRwParams, RobustHierarchical, RobustHierarchicalParams, RobustMcs, RobustRw,
    RobustTas, RobustTicket, RobustTwoLevel, RobustTwoLevelParams, Sherman, ShiftLock, ShiftLockParams, Tas, TasRw,
    Ticket, TicketParams, TwoLevel, TwoLevelParams, TwoLevelScan, TwoLevelScanParams, WindowLock,
};
use rmalab_report::names;

use super::simulated::{Failure, Machine, Sample};
use crate::Registry;
use crate::subject::any_lock::Maker;

/// A policy of the workspace with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// Its name in tables: the policy's name, and after a slash the difference from its defaults.
    pub label: &'static str,
    /// The policy.
    pub kind: PolicyKind,
    /// The call that selects it on a window's builder.
    pub call: &'static str,
}

impl Candidate {
    /// Returns whether all of its parameters are the policy's defaults, as with the info string.
    pub fn is_default(&self) -> bool {
        self.label == self.kind.name()
    }

    /// The info string that chooses the policy, with its defaults.
    pub fn info(&self) -> String {
        format!("rmalab_lock_policy={}", self.kind)
    }

    /// Returns whether it is a mutex, under which shared locks and lock_all exclude each other.
    pub fn is_mutex(&self) -> bool {
        self.kind.is_mutex()
    }

    /// The builder that chooses the candidate.
    pub fn builder(&self) -> String {
        // The compiler breaks long texts into lines.
        let call = self.call.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(", }", " }");
        format!("Window::builder(&team){call}")
    }
}

/// Makes the list, and the function from a candidate to the constructor of its lock.
macro_rules! candidates {
    ($($kind:ident $label:literal: $lock:ty, $params:expr;)*) => {
        /// All candidates; for each policy, the one with the defaults first.
        pub const ALL: &[Candidate] = &[$(Candidate {
            label: $label,
            kind: PolicyKind::$kind,
            call: concat!(".policy::<", stringify!($lock), ">(", stringify!($params), ")"),
        }),*];

        impl Candidate {
            fn maker(&self) -> Maker {
                match self.label {
                    $($label => Maker(&|ra| Ok(Box::new(<$lock>::new(ra, $params)?))),)*
                    other => panic!("candidate {other} is not in the list"),
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
    TwoLevelScan "two-level-scan": TwoLevelScan, TwoLevelScanParams::default();
    RobustTwoLevel "robust-two-level": RobustTwoLevel, RobustTwoLevelParams::default();
    Hierarchical "hierarchical": Hierarchical, HierarchicalParams::default();
    Hierarchical "hierarchical/leaf-1": Hierarchical, HierarchicalParams { leaf: 1, ..HierarchicalParams::default() };
    Hierarchical "hierarchical/fan-out-8": Hierarchical,
        HierarchicalParams { fan_out: 8, ..HierarchicalParams::default() };
    RobustHierarchical "robust-hierarchical": RobustHierarchical, RobustHierarchicalParams::default();
    PerTarget "per-target": PerTarget<McsRwRp>, ();
    PerTarget "per-target/shiftlock": PerTarget<ShiftLock>, ShiftLockParams::default();
    BigReader "big-reader": Global<BigReader>, GlobalParams::default();
    BrLock "brlock": Global<BrLock>, GlobalParams::default();
    RmaRw "rma-rw": Global<RmaRw>, GlobalParams::default();
    RmaRw "rma-rw/t-r-100": Global<RmaRw>,
        GlobalParams { lock: RmaRwParams { t_r: 100, ..RmaRwParams::default() }, ..GlobalParams::default() };
    DecLock "declock": Global<DecLock>, GlobalParams::default();
    DslrWide "dslr-wide": Global<DslrWide>, GlobalParams::default();
    ShiftLock "shiftlock": Global<ShiftLock>, GlobalParams::default();
    McsRwRp "mcs-rw-rp": Global<McsRwRp>, GlobalParams::default();
    McsRwWp "mcs-rw-wp": Global<McsRwWp>, GlobalParams::default();
    McsRwNeutral "mcs-rw-neutral": Global<McsRwNeutral>, GlobalParams::default();
    GcrRw "gcr-rw": Global<GcrRw<McsRwNeutral>>, GlobalParams::default();
    Bravo "bravo": Global<Bravo<McsRwNeutral>>, GlobalParams::default();
    Bravo "bravo/inhibit-0": Global<Bravo<McsRwNeutral>>,
        GlobalParams { lock: BravoParams { inhibit: 0, ..BravoParams::default() }, ..GlobalParams::default() };
    TasRw "tas-rw": Global<TasRw>, GlobalParams::default();
    TasRw "tas-rw/backoff-8": Global<TasRw>,
        GlobalParams { lock: Backoff { min: 1, max: 8 }, ..GlobalParams::default() };
    TasRw "tas-rw/backoff-512": Global<TasRw>,
        GlobalParams { lock: Backoff { min: 1, max: 512 }, ..GlobalParams::default() };
    RobustRw "robust-rw": Global<RobustRw>, GlobalParams::default();
    Mcs "mcs": Global<Exclusive<Mcs>>, GlobalParams::default();
    OshmemMcs "oshmem-mcs": Global<Exclusive<OshmemMcs>>, GlobalParams::default();
    Mpi4pyMcs "mpi4py-mcs": Global<Exclusive<Mpi4pyMcs>>, GlobalParams::default();
    Reciprocating "reciprocating": Global<Exclusive<Reciprocating>>, GlobalParams::default();
    Cna "cna": Global<Exclusive<Cna>>, GlobalParams::default();
    Cna "cna/threshold-64": Global<Exclusive<Cna>>,
        GlobalParams { lock: CnaParams { threshold: 64, ..CnaParams::default() }, ..GlobalParams::default() };
    Malthusian "malthusian": Global<Exclusive<Malthusian>>, GlobalParams::default();
    Hapax "hapax": Global<Exclusive<Hapax>>, GlobalParams::default();
    Clh "clh": Global<Exclusive<Clh>>, GlobalParams::default();
    Ticket "ticket": Global<Exclusive<Ticket>>, GlobalParams::default();
    RobustTas "robust-tas": Global<Exclusive<RobustTas>>, GlobalParams::default();
    RobustMcs "robust-mcs": Global<Exclusive<RobustMcs>>, GlobalParams::default();
    RobustTicket "robust-ticket": Global<Exclusive<RobustTicket>>, GlobalParams::default();
    Ticket "ticket/hold-8": Global<Exclusive<Ticket>>,
        GlobalParams { lock: TicketParams { hold: 8 }, ..GlobalParams::default() };
    RmaMcs "rma-mcs": Global<Exclusive<RmaMcs>>, GlobalParams::default();
    Cohort "cohort": Global<Exclusive<Cohort>>, GlobalParams::default();
    Cohort "cohort/pass-8": Global<Exclusive<Cohort>>,
        GlobalParams { lock: CohortParams { may_pass_local: 8, ranks: 0 }, ..GlobalParams::default() };
    ALock "alock": Global<Exclusive<ALock>>, GlobalParams::default();
    Sherman "sherman": Global<Exclusive<Sherman>>, GlobalParams::default();
    Gcr "gcr": Global<Exclusive<Gcr<Mcs>>>, GlobalParams::default();
    Gcr "gcr/active-2": Global<Exclusive<Gcr<Mcs>>>,
        GlobalParams { lock: GcrParams { active: 2, ..GcrParams::default() }, ..GlobalParams::default() };
    Tas "tas": Global<Exclusive<Tas>>, GlobalParams::default();
    Tas "tas/backoff-8": Global<Exclusive<Tas>>,
        GlobalParams { lock: Backoff { min: 1, max: 8 }, ..GlobalParams::default() };
    Tas "tas/backoff-512": Global<Exclusive<Tas>>,
        GlobalParams { lock: Backoff { min: 1, max: 512 }, ..GlobalParams::default() };
    NoCheck "nocheck": NoCheck, ();
}

/// No lock at all: the reference of every policy.
pub(super) fn baseline() -> Tried {
    Tried::Listed(ALL.iter().find(|candidate| candidate.kind == PolicyKind::NoCheck).expect("the list has it"))
}

/// A lock or policy of any type as a candidate.
pub(crate) struct Advised {
    name: &'static str,
    shares: bool,
    builder: String,
    maker: Maker,
}

impl Advised {
    /// The policy `W`, or the lock inside it, with `check` for checks.
    pub(crate) fn new<W: WindowLock + 'static>(check: &rmalab_verify::Subject, params: W::Params) -> Advised {
        // The paths of all types, without their modules.
        let policy = std::any::type_name::<W>();
        let plain = policy.split_inclusive(['<', '>', ',']).map(|part| part.rsplit("::").next().unwrap_or(part));
        let policy: String = plain.collect();
        Advised {
            name: check.name(),
            shares: check.shares(),
            builder: format!("Window::builder(&team).policy::<{policy}>(Default::default())"),
            maker: Maker::new::<W>(params),
        }
    }
}

/// A candidate: one of the list, or a lock of the registry from outside the workspace.
#[derive(Clone)]
pub(super) enum Tried {
    Listed(&'static Candidate),
    Outside(Arc<Advised>),
}

impl Tried {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Tried::Listed(candidate) => candidate.label,
            Tried::Outside(advised) => advised.name,
        }
    }

    /// Returns whether several readers can hold it together.
    pub(super) fn shares(&self) -> bool {
        match self {
            Tried::Listed(candidate) => !candidate.is_mutex(),
            Tried::Outside(advised) => advised.shares,
        }
    }

    /// Returns whether a rank may wait for ever while other ranks get the lock again and again.
    pub(super) fn lets_starve(&self) -> bool {
        use PolicyKind::{
            BigReader, BrLock, McsRwRp, McsRwWp, PerTarget, RobustHierarchical, RobustRw, RobustTas, RobustTwoLevel,
            Tas, TasRw, TwoLevel, TwoLevelScan,
        };
        match self {
            Tried::Listed(candidate) => {
                let kinds = [
                    Tas,
                    RobustTas,
                    TasRw,
                    RobustRw,
                    TwoLevel,
                    TwoLevelScan,
                    RobustTwoLevel,
                    RobustHierarchical,
                    PerTarget,
                    McsRwRp,
                    McsRwWp,
                    BigReader,
                    BrLock,
                ];
                kinds.contains(&candidate.kind)
            }
            Tried::Outside(_) => false,
        }
    }

    /// The info string that selects it; empty if there is none.
    pub(super) fn info(&self) -> String {
        match self {
            Tried::Listed(candidate) => candidate.info(),
            Tried::Outside(..) => String::new(),
        }
    }

    pub(super) fn builder(&self) -> String {
        match self {
            Tried::Listed(candidate) => candidate.builder(),
            Tried::Outside(advised) => advised.builder.clone(),
        }
    }

    pub(super) fn is_default(&self) -> bool {
        match self {
            Tried::Listed(candidate) => candidate.is_default(),
            Tried::Outside(..) => true,
        }
    }

    /// Simulates it under one seed.
    pub(super) fn simulate(&self, machine: &Machine<'_>, seed: u64) -> std::result::Result<Sample, Failure> {
        machine.simulate(seed, self.maker())
    }

    /// Makes its lock.
    pub(super) fn maker(&self) -> Maker {
        match self {
            Tried::Listed(candidate) => candidate.maker(),
            Tried::Outside(advised) => advised.maker,
        }
    }

    fn is_called(&self, name: &str) -> bool {
        match self {
            Tried::Listed(candidate) => candidate.label == name || candidate.kind.name() == name,
            Tried::Outside(advised) => advised.name == name,
        }
    }
}

impl std::fmt::Debug for Tried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.label())
    }
}

/// The candidates with these names of policies or candidates. By default all except nocheck and, if the program `shares`
/// locks, the mutexes: these would serialize it, or make it wait for ever. With `by_name`, only candidates that the info
/// string selects.
pub(super) fn chosen(registry: &Registry, chosen: &[String], shares: bool, by_name: bool) -> Result<Vec<Tried>> {
    let listed = ALL.iter().map(Tried::Listed);
    let outside = registry.outside().map(|subject| Tried::Outside(Arc::clone(&subject.advised)));
    let selectable = |one: &Tried| !by_name || one.is_default() && !one.info().is_empty();
    let mut all: Vec<Tried> = listed.chain(outside).filter(selectable).collect();
    for name in chosen {
        if !all.iter().any(|one| one.is_called(name)) {
            return Err(Error::usage(names::unknown("lock policy", name, all.iter().map(Tried::label))));
        }
    }
    match chosen {
        [] => all.retain(|one| one.label() != PolicyKind::NoCheck.name() && (one.shares() || !shares)),
        names => all.retain(|one| names.iter().any(|name| one.is_called(name))),
    }
    Ok(all)
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

    fn named(names: &[&str]) -> Result<Vec<Tried>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        chosen(&Registry::standard(), &names, true, false)
    }

    #[test]
    fn by_name_there_are_no_parameters() {
        let registry = Registry::standard();
        let all = chosen(&registry, &[], false, true).unwrap();
        assert_eq!(all.len(), PolicyKind::ALL.len() - 1, "all but nocheck: {all:?}");
        assert!(all.iter().all(Tried::is_default), "{all:?}");
        assert!(chosen(&registry, &["two-level/retract".to_owned()], false, true).unwrap_err().is_usage());
    }

    #[test]
    fn mutexes_are_not_offered_to_a_program_that_shares_locks() {
        let all = chosen(&Registry::standard(), &[], true, false).unwrap();
        assert!(all.len() > 10 && all.iter().all(Tried::shares), "{all:?}");
    }

    #[test]
    fn calls_are_code() {
        // The list evaluates exactly the tokens that it prints, so one comparison is enough.
        assert_eq!(
            named(&["two-level/retract"]).unwrap()[0].builder(),
            "Window::builder(&team).policy::<TwoLevel>(TwoLevelParams { contended: Contended::Retract, \
             ..TwoLevelParams::default() })"
        );
        assert!(named(&["per-target"]).unwrap()[0].builder().ends_with(".policy::<PerTarget<McsRwRp>>(())"));
    }

    #[test]
    fn names_choose() {
        let all = chosen(&Registry::standard(), &[], false, false).unwrap();
        assert!(all.iter().any(|tried| !tried.shares()) && all.iter().all(|tried| tried.label() != "nocheck"));
        let labels = |names: &[&str]| named(names).unwrap().iter().map(Tried::label).collect::<Vec<_>>();
        assert_eq!(
            labels(&["cohort", "nocheck", "tas/backoff-8"]),
            ["cohort", "cohort/pass-8", "tas/backoff-8", "nocheck"]
        );
        let error = named(&["two-levle"]).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("did you mean 'two-level'"), "{error}");
    }
}
