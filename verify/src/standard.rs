//! The locks and policies of the workspace as subjects, with the names of their words.

use std::sync::LazyLock;

use rmalab_atomics::{Disp, Rank};
use rmalab_locks::qnode::Qnode;
use rmalab_locks::{
    ALock, ALockParams, Backoff, BigReader, BigReaderParams, BrLock, Bravo, BravoParams, Clh, ClhParams, Cna,
    CnaParams, Cohort, CohortParams, Contended, DecLock, DslrWide, DslrWideParams, Gcr, GcrParams, GcrRw, Global,
    GlobalParams, Hapax, Hierarchical, HierarchicalParams, LINE, LeaseParams, MAX_LEVELS, Malthusian, MalthusianParams,
    Mcs, McsRwNeutral, McsRwRp, McsRwWp, Mpi4pyMcs, NoCheck, OshmemMcs, PerTarget, Reciprocating, RmaMcs, RmaMcsParams,
    RmaRw, RmaRwParams, RmeMcs, RobustGlobal, RobustHierarchical, RobustHierarchicalParams, RobustMcs, RobustRw,
    RobustTas, RobustTicket, RobustTwoLevel, RobustTwoLevelParams, Sherman, ShermanParams, ShiftLock, ShiftLockParams,
    Tas, TasRw, Ticket, TicketParams, TwoLevel, TwoLevelParams, TwoLevelScan, TwoLevelScanParams,
};

use crate::play::DATA;
use crate::subject::At::{Each, Home};
use crate::subject::Holds::{self, Number, Pointer, PointerIn};
use crate::subject::{Order, Subject, WORDS};

/// Pauses are no steps of a model checker, so that their lengths would only multiply the states of a handle.
const SHORTEST: Backoff = Backoff { min: 1, max: 1 };

const NODE: Disp = WORDS.plus(LINE);
const QNODE: [(&str, Holds); 2] = [("next", Pointer), ("unblocked", Number)];

/// The number of a rank's last acquisition of rme-mcs, without a place.
const RME_MCS_AT_REST: u64 = ((1 << 22) - 1) << 3;

/// The count of releases and the mode of ShiftLock.
const SHIFTLOCK_AT_REST: u64 = u64::MAX << 43 | 1 << 21;

/// All subjects, in the order of lists: mutexes, reader-writer locks, policies.
pub fn subjects() -> Vec<Subject> {
    let rp_words = [("rcnt", Number), ("r_hd", Pointer), ("w_tl", Pointer), ("w_hd", Pointer)];
    vec![
        Subject::timed_mutex::<Tas>(SHORTEST).words(Home, WORDS, &[("owner", Pointer)]),
        Subject::tried_mutex::<Ticket>(TicketParams { hold: 1 }).order(Order::Fifo).words(
            Home,
            WORDS,
            &[("lock", Number)],
        ),
        Subject::recoverable_mutex::<RobustTas>(SHORTEST).words(Home, WORDS, &[("owner", Pointer)]),
        Subject::recoverable_mutex::<RobustTicket>(TicketParams { hold: 1 })
            .order(Order::Fifo)
            .words(Home, WORDS, &[("lock", Number)])
            .words(Each, NODE, &[("announced", Number)])
            .keeps("lock", u64::MAX),
        Subject::recoverable_mutex::<RobustMcs>(())
            .order(Order::Fifo)
            .words(Home, WORDS, &[("tail", Pointer), ("repairer", Pointer)])
            .words(Each, NODE, &[("next", Pointer), ("grant", Number), ("announced", Number)])
            .keeps("next", u64::MAX)
            .keeps("grant", u64::MAX),
        Subject::resumable_mutex::<RmeMcs>(())
            .order(Order::Fifo)
            .words(Home, WORDS, &[("tail", Pointer), ("repairer", Pointer)])
            .words(Each, NODE, &[("next", Pointer), ("grant", Number), ("announced", Number)])
            .keeps("next", u64::MAX)
            .keeps("grant", u64::MAX)
            .keeps("announced", RME_MCS_AT_REST),
        Subject::tried_mutex::<Mcs>(())
            .order(Order::Fifo)
            .words(Home, WORDS, &[("tail", Pointer)])
            .words(Each, NODE, &QNODE),
        Subject::tried_mutex::<OshmemMcs>(()).order(Order::Fifo).words(Home, WORDS, &[("tail", Pointer)]).words(
            Each,
            NODE,
            &[("next", Pointer)],
        ),
        Subject::tried_mutex::<Reciprocating>(()).words(Home, WORDS, &[("arrivals", Pointer)]).words(
            Each,
            NODE,
            &[("gate", Pointer)],
        ),
        Subject::tried_mutex::<Mpi4pyMcs>(())
            .order(Order::Fifo)
            .words(Home, WORDS, &[("tail", Pointer)])
            .words(Each, NODE, &QNODE),
        cna(1),
        cna(2).named("cna-2"),
        malthusian(2),
        malthusian(4).named("malthusian-4"),
        Subject::tried_mutex::<Hapax>(())
            .order(Order::Fifo)
            .words(Home, WORDS, &[("arrive", Pointer)])
            .words(Each, NODE, &[("go", Number), ("depart", Pointer)])
            .keeps("arrive", u64::MAX)
            .keeps("depart", u64::MAX << 32),
        Subject::tried_mutex::<Clh>(ClhParams { pause: 1 })
            .order(Order::Fifo)
            .words(Home, WORDS, &[("tail", Pointer)])
            .words(Each, NODE, &[("granted", Pointer)])
            .keeps("tail", u64::MAX)
            .keeps("granted", u64::MAX),
        cohort(),
        alock(2),
        alock(1).named("alock-1"),
        sherman(),
        rma_mcs(2),
        rma_mcs(1).named("rma-mcs-1"),
        gcr(1, 1),
        gcr(2, 1).named("gcr-2-1"),
        lease(),
        Subject::timed_lock::<TasRw>(SHORTEST).words(Home, WORDS, &[("lock", Number)]),
        Subject::recoverable_lock::<RobustRw>(SHORTEST).words(Home, WORDS, &[("lock", Number)]),
        Subject::lock::<McsRwRp>(()).order(Order::ReadersFirst).words(Home, WORDS, &rp_words).words(Each, NODE, &QNODE),
        Subject::lock::<McsRwWp>(())
            .order(Order::WritersFirst)
            .words(Home, WORDS, &[("state", Number), ("r_hd", Pointer), ("w_tl", Pointer), ("w_hd", Pointer)])
            .words(Each, NODE, &QNODE),
        Subject::lock::<McsRwNeutral>(())
            .order(Order::Fifo)
            .words(Home, WORDS, &[("tail", Pointer), ("reader_count", Number), ("next_writer", Pointer)])
            .words(Each, NODE, &QNODE)
            .words(Each, NODE.plus(Qnode::BYTES), &[("state", Number)]),
        big_reader(false),
        big_reader(true).named("big-reader-fence").fencing(),
        Subject::lock::<BrLock>(SHORTEST).words(Home, WORDS, &[("writer", Pointer)]).words(
            Each,
            NODE,
            &[("here", Number)],
        ),
        gcr_rw(1, 1),
        gcr_rw(2, 1).named("gcr-rw-2-1"),
        bravo(0),
        bravo(1).named("bravo-1"),
        rma_rw(2, 1, 1),
        rma_rw(1, 2, 1).named("rma-rw-1-2-1"),
        rma_rw(2, 2, 2).named("rma-rw-2-2-2"),
        declock(),
        Subject::lock::<DslrWide>(DslrWideParams { hold: 1 })
            .order(Order::Fifo)
            .words(Home, WORDS, &[("drawn", Number), ("served", Number)])
            .keeps("drawn", u64::MAX)
            .keeps("served", u64::MAX),
        shiftlock(1),
        shiftlock(2).named("shiftlock-2"),
        Subject::window::<Global<McsRwRp>>(|home| GlobalParams { home, lock: () })
            .words(Home, WORDS, &rp_words)
            .words(Each, NODE, &QNODE),
        Subject::timed_window::<Global<TasRw>>(|home| GlobalParams { home, lock: SHORTEST })
            .named("global-tas-rw")
            .words(Home, WORDS, &[("lock", Number)]),
        Subject::recoverable_window::<RobustGlobal<RobustRw>>(|home| GlobalParams { home, lock: SHORTEST }).words(
            Home,
            WORDS,
            &[("lock", Number)],
        ),
        Subject::window::<PerTarget<McsRwRp>>(|_| ()).without_home().words(Each, WORDS, &rp_words),
        Subject::timed_window::<PerTarget<TasRw>>(|_| SHORTEST).named("per-target-tas-rw").without_home().words(
            Each,
            WORDS,
            &[("lock", Number)],
        ),
        Subject::window::<PerTarget<ShiftLock>>(|_| ShiftLockParams { n: 1, backoff: SHORTEST })
            .named("per-target-shiftlock")
            .without_home()
            .words(Each, WORDS, &[("lock", PointerIn(21))])
            .keeps("lock", SHIFTLOCK_AT_REST),
        two_level(Contended::Wait),
        two_level(Contended::Retract).named("two-level-retract"),
        two_level_scan(),
        robust_two_level(false),
        robust_two_level(true).named("robust-two-level-announced"),
        hierarchical(0, 1),
        hierarchical(1, 2).named("hierarchical-1"),
        robust_hierarchical(false),
        robust_hierarchical(true).named("robust-hierarchical-announced"),
        Subject::window::<NoCheck>(|_| ()).without_home(),
    ]
}

/// With a small threshold, since otherwise no check reaches it.
fn cna(threshold: u32) -> Subject {
    Subject::tried_mutex::<Cna>(CnaParams { threshold, scan: 2, ranks: 0 })
        .words(Home, WORDS, &[("tail", Pointer)])
        .words(Each, NODE, &[("next", Pointer), ("spin", Number)])
}

/// With a short period, since otherwise no check reaches it.
fn malthusian(period: u32) -> Subject {
    Subject::tried_mutex::<Malthusian>(MalthusianParams { period }).words(Home, WORDS, &[("tail", Pointer)]).words(
        Each,
        NODE,
        &[("next", Pointer), ("spin", Number), ("older", Pointer), ("newer", Pointer)],
    )
}

/// Its cohorts are the nodes, and each passes the lock on once.
fn cohort() -> Subject {
    let params = CohortParams { may_pass_local: 1, ..CohortParams::default() };
    let of_cohort = [("local_tail", Pointer), ("global_next", Pointer)];
    Subject::mutex::<Cohort>(params)
        .words(Home, WORDS, &[("global_tail", Pointer)])
        .words(Each, NODE, &[("next", Pointer), ("state", Number), ("global", Number)])
        .words(Each, NODE.plus(LINE), &of_cohort)
}

/// With a small budget of both classes, since otherwise no check reaches it. At rest, the last victim stays.
fn alock(budget: u32) -> Subject {
    Subject::mutex::<ALock>(ALockParams { near: budget, far: budget, backoff: SHORTEST })
        .words(Home, WORDS, &[("near_tail", Pointer), ("far_tail", Pointer), ("victim", Number)])
        .words(Each, NODE, &[("next", Pointer), ("budget", Number)])
        .keeps("victim", 0b11)
}

/// Its nodes hold the lock twice in a row.
fn sherman() -> Subject {
    Subject::mutex::<Sherman>(ShermanParams { max: 2, ranks: 0, backoff: SHORTEST })
        .words(Home, WORDS, &[("global", Pointer)])
        .words(Each, NODE, &[("next", Pointer), ("turn", Number)])
        .words(Each, NODE.plus(LINE), &[("local_tail", Pointer)])
}

/// Of mcs, with small thresholds, since otherwise no check reaches them.
fn gcr(active: u32, threshold: u32) -> Subject {
    let subject = Subject::mutex::<Gcr<Mcs>>(GcrParams { active, threshold, inner: () });
    restricted(subject.words(Home, WORDS, &[("tail", Pointer)]).words(Each, NODE, &QNODE))
}

/// Of mcs-rw-neutral, like [`gcr`].
fn gcr_rw(active: u32, threshold: u32) -> Subject {
    let subject = Subject::lock::<GcrRw<McsRwNeutral>>(GcrParams { active, threshold, inner: () })
        .words(Home, WORDS, &[("tail", Pointer), ("reader_count", Number), ("next_writer", Pointer)])
        .words(Each, NODE, &QNODE)
        .words(Each, NODE.plus(Qnode::BYTES), &[("state", Number)]);
    restricted(subject)
}

/// Names the words of a concurrency restriction, which follow a node of one line.
fn restricted(inner: Subject) -> Subject {
    let of_rank = [("passive_next", Pointer), ("passive_unblocked", Number), ("approved", Number)];
    inner.words(Each, NODE.plus(LINE), &[("gate", Pointer), ("passive_tail", Pointer)]).words(
        Each,
        NODE.plus(2 * LINE),
        &of_rank,
    )
}

/// Of mcs-rw-neutral. A reader sets the bias whenever it can; with a price, it would never set the bias in a search.
fn bravo(inhibit: u32) -> Subject {
    Subject::lock::<Bravo<McsRwNeutral>>(BravoParams { inhibit, backoff: SHORTEST, inner: () })
        .words(Home, WORDS, &[("tail", Pointer), ("reader_count", Number), ("next_writer", Pointer), ("bias", Number)])
        .words(Each, NODE, &QNODE)
        .words(Each, NODE.plus(Qnode::BYTES), &[("state", Number)])
        .words(Each, NODE.plus(LINE), &[("slot", Number), ("biased", Number)])
        .keeps("bias", 1)
        .keeps("biased", 1)
}

/// With a fence for all ranks, or with swaps.
fn big_reader(fence: bool) -> Subject {
    Subject::lock::<BigReader>(BigReaderParams { fence, backoff: SHORTEST })
        .words(Home, WORDS, &[("tail", Pointer)])
        .words(Each, NODE, &QNODE)
        .words(Each, NODE.plus(LINE), &[("here", Number), ("gate", Number)])
}

/// With one line of slots; larger worlds have more of them. At rest, the count of releases and old entries stay.
fn declock() -> Subject {
    // `size` and `excl` have two bits each or, from four ranks on, three.
    Subject::lock::<DecLock>(SHORTEST)
        .order(Order::Fifo)
        .words(Home, WORDS, &[("header", Number)])
        .words(Home, WORDS.plus(LINE), &[("slot", Pointer); 16])
        .words(Each, WORDS.plus(2 * LINE), &[("grant", Number)])
        .keeps("header", u64::MAX << 4)
        .keeps("slot", u64::MAX)
}

/// With a small `n`, since otherwise no check reaches it.
fn shiftlock(n: u32) -> Subject {
    Subject::lock::<ShiftLock>(ShiftLockParams { n, backoff: SHORTEST })
        .words(Home, WORDS, &[("lock", PointerIn(21))])
        .words(Each, NODE, &[("suc", Pointer), ("note", Number)])
        .keeps("lock", SHIFTLOCK_AT_REST)
}

/// Its gates are the nodes, with that many leaves each, and each word of its tree has two children. At rest, gates stay open.
fn hierarchical(leaf: u32, leaves: u64) -> Subject {
    let line = |number| WORDS.plus(number * LINE);
    let subject = Subject::window::<Hierarchical>(move |root| hierarchical_params(root, leaf))
        .words(Each, line(0), &[("gate", Number)])
        .words(Each, line(1), &[("gate_tail", Pointer)])
        .words(Each, line(2), &[("target", Pointer), ("target_tail", Pointer)])
        .words(
            Home,
            line(3),
            &[("tail", Pointer), ("reader_count", Number), ("next_writer", Pointer), ("revoker_tail", Pointer)],
        )
        .words(Each, line(4), &[("next", Pointer), ("unblocked", Number), ("state", Number)])
        .words(Each, line(4).word(3), &[("revoker_next", Pointer), ("revoker_unblocked", Number)])
        .words(Each, line(4).word(5), &[("gate_next", Pointer), ("gate_unblocked", Number)])
        .words(
            Each,
            line(4).word(7),
            &[("target_next", Pointer), ("target_unblocked", Number), ("granted", Number), ("drained", Number)],
        );
    let subject = (0..leaves).fold(subject, |subject, leaf| subject.words(Each, line(5 + leaf), &[("leaf", Pointer)]));
    let children = (1 << hierarchical_params(Rank(0), leaf).fan_out) - 1;
    (0..).zip(PRESENT.iter()).fold(subject.keeps("gate", 1), |subject, (level, name)| {
        subject.words(Each, line(5 + leaves).word(level), &[(name.as_str(), Number)]).keeps(name, children)
    })
}

/// It has the words of [`robust_two_level`]. At rest, open gates stay open, and numbers stay.
fn robust_hierarchical(announces: bool) -> Subject {
    let params = move |root| RobustHierarchicalParams {
        root,
        leaf: 0,
        fan_out: hierarchical_params(root, 0).fan_out,
        announces,
        backoff: SHORTEST,
    };
    let line = |number: u64| WORDS.plus((2 + u64::from(announces) + number) * LINE);
    let subject = two_level_words(Subject::recoverable_window::<RobustHierarchical>(params), announces)
        .words(Each, line(0), &[("gate", Number)])
        .words(Each, line(1), &[("gate_tail", Pointer), ("gate_repairer", Pointer)])
        .words(Home, line(2), &[("phase_tail", Pointer), ("phase_repairer", Pointer)])
        .words(Each, line(3), &[("phase_next", Pointer), ("phase_grant", Number), ("phase_announced", Number)])
        .words(Each, line(3).word(3), &[("gate_next", Pointer), ("gate_grant", Number), ("gate_announced", Number)])
        .words(Each, line(4), &[("leaf", Number)]);
    let subject = ["phase_next", "phase_grant", "gate_next", "gate_grant"]
        .into_iter()
        .fold(subject, |subject, name| subject.keeps(name, u64::MAX));
    let children = (1 << hierarchical_params(Rank(0), 0).fan_out) - 1;
    (0..).zip(PRESENT.iter()).fold(subject.keeps("gate", 1).keeps("master", 1 << 63), |subject, (level, name)| {
        subject.words(Each, line(5).word(level), &[(name.as_str(), Number)]).keeps(name, children)
    })
}

/// The names of the words of the tree of a hierarchical lock, from the lowest level on.
static PRESENT: LazyLock<Vec<String>> = LazyLock::new(|| {
    (0..hierarchical_params(Rank(0), 0).most_levels()).map(|level| format!("present_{level}")).collect()
});

fn hierarchical_params(root: Rank, leaf: u32) -> HierarchicalParams {
    HierarchicalParams { root, leaf, fan_out: 2 }
}

/// The words of a tree of queues, in each rank's node.
const TREE: [(&str, Holds); 8] = [
    ("status", Number),
    ("next1", Pointer),
    ("next2", Pointer),
    ("next3", Pointer),
    ("next4", Pointer),
    ("tail2", Pointer),
    ("tail3", Pointer),
    ("tail4", Pointer),
];

/// With T_L = `t_l` in each level: small, since otherwise no check reaches the threshold.
fn rma_mcs(t_l: u16) -> Subject {
    let params = RmaMcsParams { t_l: [t_l; MAX_LEVELS], backoff: SHORTEST, ..RmaMcsParams::default() };
    Subject::mutex::<RmaMcs>(params).words(Home, WORDS, &[("tail1", Pointer)]).words(Each, NODE, &TREE)
}

/// With these thresholds, which are small for the same reason as in [`rma_mcs`].
fn rma_rw(t_dc: u32, t_l: u16, t_r: u32) -> Subject {
    let params = RmaRwParams { t_dc, t_l: [t_l; MAX_LEVELS], t_r, backoff: SHORTEST, ..RmaRwParams::default() };
    Subject::lock::<RmaRw>(params).words(Home, WORDS, &[("tail1", Pointer)]).words(Each, NODE, &TREE).words(
        Each,
        NODE.plus(LINE),
        &[("counter", Number)],
    )
}

fn two_level(contended: Contended) -> Subject {
    Subject::timed_window::<TwoLevel>(move |master| TwoLevelParams { master, contended, backoff: SHORTEST })
        .words(Home, WORDS, &[("master", Number)])
        .words(Each, WORDS.plus(LINE), &[("target", Number)])
}

fn two_level_scan() -> Subject {
    Subject::timed_window::<TwoLevelScan>(|master| TwoLevelScanParams { master, backoff: SHORTEST })
        .words(Home, WORDS, &[("master", Number)])
        .words(Each, WORDS.plus(LINE), &[("target", Number)])
}

fn robust_two_level(announces: bool) -> Subject {
    let params = move |master| RobustTwoLevelParams { master, announces, backoff: SHORTEST };
    two_level_words(Subject::recoverable_window::<RobustTwoLevel>(params), announces)
}

/// With the words of the robust two-level lock. At rest, the numbers of changes stay.
fn two_level_words(subject: Subject, announces: bool) -> Subject {
    let subject = subject.telling_by_target().words(Home, WORDS, &[("master", Number), ("repairer", Pointer)]).words(
        Each,
        WORDS.plus(LINE),
        &[("target", Pointer)],
    );
    if !announces {
        return subject;
    }
    subject
        .words(Each, WORDS.plus(2 * LINE), &[("announced", Number), ("shared", Number)])
        .keeps("announced", u64::MAX << 3)
}

/// A lease lasts for one lapse. Its holders also write a word that refuses late writes.
fn lease() -> Subject {
    let with_term = |term| LeaseParams { term, backoff: SHORTEST };
    Subject::lease(1, with_term)
        .words(Home, DATA, &[("data", Number)])
        .words(Home, WORDS, &[("lock", PointerIn(24))])
        .keeps("lock", u64::MAX << 24)
}

/// The subject called `name`.
pub fn subject(name: &str) -> Option<Subject> {
    subjects().into_iter().find(|subject| subject.name() == name)
}
