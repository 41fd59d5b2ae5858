//! The workspace's own locks and policies.

use rmalab_locks::{
    ALock, BigReader, BrLock, Bravo, Clh, Cna, Cohort, DecLock, DslrWide, Gcr, GcrRw, Hapax, Hierarchical,
    HierarchicalParams, Lease, Malthusian, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Mpi4pyMcs, NoCheck, OshmemMcs,
    PerTarget, Reciprocating, RmaMcs, RmaRw, RmeMcs, RobustHierarchical, RobustHierarchicalParams, RobustMcs, RobustRw,
    RobustTas, RobustTicket, RobustTwoLevel, RobustTwoLevelParams, Sherman, ShiftLock, Tas, TasRw, Ticket, TwoLevel,
    TwoLevelParams, TwoLevelScan, TwoLevelScanParams,
};

use super::Registry;

const MCS_RW: &str =
    "Mellor-Crummey, Scott: Scalable Reader-Writer Synchronization, PPoPP'91, doi:10.1145/109625.109637";
const FOMPI: &str = "Gerstenberger, Besta, Hoefler: Enabling Highly-Scalable RMA Programming with MPI-3 One Sided, \
                     SC'13, doi:10.1145/2503210.2503286";

const RMA: &str =
    "Schmid, Besta, Hoefler: High-Performance Distributed RMA Locks, HPDC'16, doi:10.1145/2907294.2907323";

const GCR: &str = "Dice, Kogan: Avoiding Scalability Collapse by Restricting Concurrency, Euro-Par'19, doi:10.1007/978-3-030-29400-7_26";

/// In the order of lists and legends: mutexes, reader-writer locks, policies; simple ones first.
pub(super) fn fill(registry: &mut Registry) {
    registry
        .add_mutex::<Tas>("test-and-set mutex: one word, polled with exponential backoff")
        .paper("Anderson: The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990, doi:10.1109/71.80120")
        .fairness("none: any waiter may starve");
    registry
        .add_mutex::<Ticket>("ticket mutex: a dispenser and a display, polled with proportional backoff")
        .paper("Mellor-Crummey, Scott: Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, doi:10.1145/103727.103729")
        .fairness("first come, first served");
    registry
        .add_mutex::<Mcs>("MCS queue mutex: each rank waits on its own word")
        .paper("Mellor-Crummey, Scott: Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, doi:10.1145/103727.103729")
        .fairness("first come, first served");
    registry
        .add_mutex::<OshmemMcs>(
            "MCS queue mutex of Open MPI's OpenSHMEM: adds to one word a rank link, arm and wake in any order",
        )
        .paper("Open MPI, oshmem/shmem/c/shmem_lock.c, pull request 12003, 2023")
        .fairness("first come, first served");
    registry
        .add_mutex::<Mpi4pyMcs>(
            "MCS queue mutex of mpi4py: a release tries to empty the queue before it looks for a successor",
        )
        .paper("mpi4py, src/mpi4py/util/sync.py, class Mutex")
        .fairness("first come, first served");
    registry
        .add_mutex::<Reciprocating>(
            "reciprocating mutex: arrivals stack up on one word, are taken whole, and served last-in first",
        )
        .paper("Dice, Kogan: Reciprocating Locks, PPoPP'25, doi:10.1145/3710848.3710862")
        .fairness("another rank overtakes a waiter at most once");
    registry
        .add_mutex::<Cna>("CNA mutex: an MCS queue, from which a release moves ranks of other nodes to a second queue")
        .paper("Dice, Kogan: Compact NUMA-aware Locks, EuroSys'19, doi:10.1145/3302424.3303984")
        .fairness("near ranks first, a bounded number of times in a row");
    registry
        .add_mutex::<Malthusian>(
            "Malthusian mutex: an MCS queue, from which a release sends surplus ranks to a passive stack",
        )
        .paper("Dice: Malthusian Locks, EuroSys'17, doi:10.1145/3064176.3064203")
        .fairness("passive ranks last-in first-out; the oldest one after a bounded number of releases");
    registry
        .add_mutex::<Hapax>(
            "Hapax mutex: each acquisition has a number, and a rank waits until its predecessor's has left",
        )
        .paper("Dice, Kogan: Hapax Locks - Value-Based Mutual Exclusion, PPoPP'26, arXiv 2511.14608")
        .fairness("first come, first served");
    registry
        .add_mutex::<Clh>("CLH queue mutex: each rank polls its predecessor's word, and a release is a put to the rank's own")
        .paper("Craig: Building FIFO and Priority-Queuing Spin Locks from Atomic Swap, 1993; Magnusson, Landin, Hagersten: Queue Locks on Cache Coherent Multiprocessors, IPPS'94, doi:10.1109/IPPS.1994.288305")
        .fairness("first come, first served");
    registry
        .add_mutex::<Cohort>(
            "cohort mutex: MCS queues on each node, joined by a global one; it passes on within a node first",
        )
        .paper("Dice, Marathe, Shavit: Lock Cohorting, PPoPP'12, doi:10.1145/2145816.2145848")
        .fairness("first come, first served on each node and among nodes; a node's turn is bounded");
    registry
        .add_mutex::<ALock>(
            "ALock mutex: an MCS queue of the ranks on the home's node and one of all others, which take turns by Peterson's algorithm",
        )
        .paper("Baran, Nelson-Slivon, Tseng, Palmieri: ALock: Asymmetric Lock Primitive for RDMA Systems, SPAA'24, doi:10.1145/3626183.3659977")
        .fairness("first come, first served in each class; the other class overtakes up to its budget");
    registry
        .add_mutex::<Sherman>(
            "Sherman's hierarchical mutex: one rank of each node at a time polls one word, and passes it on within its node",
        )
        .paper("Wang, Lu, Shu: Sherman: A Write-Optimized Distributed B+Tree Index on Disaggregated Memory, SIGMOD'22, doi:10.1145/3514221.3517824")
        .fairness("first come, first served on each node; a node may starve");
    registry
        .add_mutex::<RmaMcs>("RMA-MCS mutex: a tree of MCS queues, which passes the lock to near ranks first")
        .paper(RMA)
        .fairness("first come, first served in each queue; a node keeps the lock for T_L acquisitions");
    registry
        .add_mutex::<Gcr<Mcs>>("concurrency restriction of mcs: one rank of each node at a time goes on to the queue, the others wait ahead of it")
        .paper(GCR)
        .fairness("passive ranks first come, first served; the active rank overtakes them, a bounded number of times");
    registry
        .add_mutex::<RobustTas>("robust test-and-set mutex: survivors take it over from a holder that has failed")
        .paper("Anderson: The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990, doi:10.1109/71.80120; the repair is this project's")
        .fairness("none: any waiter may starve");
    registry
        .add_mutex::<RobustTicket>("robust ticket mutex: survivors skip the tickets of ranks that have failed")
        .paper("Mellor-Crummey, Scott: Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, doi:10.1145/103727.103729; the repair is this project's")
        .fairness("first come, first served");
    registry
        .add_mutex::<RobustMcs>("robust MCS queue mutex: survivors rebuild the queue from their own words")
        .paper("Mellor-Crummey, Scott: Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, doi:10.1145/103727.103729; Jayanti, Jayanti, Joshi: A Recoverable Mutex Algorithm, PODC'19, arXiv:1904.02124")
        .fairness("first come, first served until the first failure");
    registry
        .add_mutex::<RmeMcs>("recoverable MCS queue mutex: a rank that fails comes back, and repairs the queue that it has torn")
        .paper("Mellor-Crummey, Scott: Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, doi:10.1145/103727.103729; Jayanti, Jayanti, Joshi: A Recoverable Mutex Algorithm, PODC'19, arXiv:1904.02124")
        .fairness("first come, first served until the first failure");
    registry
        .add_mutex::<Lease>("lease mutex: waiters take it over from a holder that keeps it too long, and late writes are refused by token")
        .paper("Gray, Cheriton: Leases, SOSP'89, doi:10.1145/74850.74870; Burrows: The Chubby Lock Service, OSDI'06")
        .fairness("none: any waiter may starve");
    registry
        .add_rw_lock::<TasRw>("test-and-set reader-writer lock: a count of readers and a writer's bit, polled")
        .paper(FOMPI)
        .fairness("readers are not passed; writers may starve");
    registry
        .add_rw_lock::<RobustRw>(
            "robust test-and-set reader-writer lock: a bit for each reader, and survivors clear those of ranks that have failed",
        )
        .paper(&format!("{FOMPI}; the repair is this project's"))
        .fairness("readers are not passed; writers may starve");
    registry
        .add_rw_lock::<McsRwRp>("MCS reader-writer lock with reader preference, from the FX100 study")
        .paper(&format!("{MCS_RW}; Hatanaka, Hori, Ishikawa: MPI RMA lock synchronization on FX100"))
        .fairness("readers first, writers may starve; writers among themselves first come, first served");
    registry
        .add_rw_lock::<McsRwWp>("MCS reader-writer lock with writer preference")
        .paper(MCS_RW)
        .fairness("writers first, readers may starve; writers among themselves first come, first served");
    registry
        .add_rw_lock::<McsRwNeutral>("MCS reader-writer lock without preference: neighbouring readers share")
        .paper(MCS_RW)
        .fairness("first come, first served");
    registry
        .add_rw_lock::<BigReader>("big-reader lock: a reader writes its own rank's word only, a writer visits every rank")
        .paper("Hsieh, Weihl: Scalable Reader-Writer Locks for Parallel Systems, IPPS'92, doi:10.1109/IPPS.1992.222989; Linux 2.4")
        .fairness("readers may starve; writers among themselves first come, first served");
    registry
        .add_rw_lock::<BrLock>("brlock: a reader sets its own flag and looks at the writers' word, a writer looks at every flag")
        .paper("Hsieh, Weihl: Scalable Reader-Writer Locks for Parallel Systems, IPPS'92, doi:10.1109/IPPS.1992.222989; Concurrency Kit")
        .fairness("none: readers and writers may starve");
    registry
        .add_rw_lock::<GcrRw<McsRwNeutral>>(
            "concurrency restriction of mcs-rw-neutral: one rank of each node at a time goes on to the queue",
        )
        .paper(GCR)
        .fairness("no rank starves; as gcr");
    registry
        .add_rw_lock::<Bravo<McsRwNeutral>>(
            "biased readers around mcs-rw-neutral: a reader writes its own rank's word only, until a writer takes the bias away",
        )
        .paper("Dice, Kogan: BRAVO - Biased Locking for Reader-Writer Locks, ATC'19, arXiv 1810.01553")
        .fairness("as mcs-rw-neutral; fast readers overtake writers that wait for slow readers");
    registry
        .add_rw_lock::<RmaRw>("RMA-RW lock: readers are counted on their nodes, writers go through a tree of queues")
        .paper(RMA)
        .fairness("no rank starves: T_W writers in a row, then the readers that wait; T_R readers before a writer");
    registry
        .add_rw_lock::<DecLock>("DecLock's queue of entries: one addition each to acquire and to release, and holders wake each other")
        .paper("Zhang, Cheng, Chen, Wei, Chen: DecLock: A Case of Decoupled Locking for Disaggregated Memory, 2025, arXiv:2505.17641")
        .fairness("first come, first served");
    registry
        .add_rw_lock::<DslrWide>(
            "DSLR's bakery with wide fields: additions draw and serve tickets, waiters poll with proportional backoff",
        )
        .paper(
            "Yoon, Chowdhury, Mozafari: Distributed Lock Management with RDMA, SIGMOD'18, doi:10.1145/3183713.3196890",
        )
        .fairness("first come, first served");
    registry
        .add_rw_lock::<ShiftLock>(
            "ShiftLock: writers hand the lock over from rank to rank, and a change of its mode lets in all readers that wait",
        )
        .paper("Gao, Wang, Shu: ShiftLock: Mitigate One-sided RDMA Lock Contention via Handover, FAST'25")
        .fairness("writers first come, first served; waiting readers after at most N of them; readers may starve writers that arrive");
    registry
        .add_policy::<PerTarget<McsRwRp>>("policy: one mcs-rw-rp for each target; lock_all takes each of them", |_| ())
        .paper("Li and others: Efficient and Truly Passive MPI-3 RMA Using InfiniBand Atomics, EuroMPI'13, doi:10.1145/2488551.2488573")
        .fairness("as mcs-rw-rp, for each target")
        .state_by_target();
    registry
        .add_policy::<TwoLevel>(
            "policy: a master word for lock_all against exclusive locks, and a word for each target",
            |master| TwoLevelParams { master, ..TwoLevelParams::default() },
        )
        .paper(FOMPI)
        .fairness("none: exclusive locks may starve");
    registry
        .add_policy::<TwoLevelScan>(
            "policy: two-level, whose lock_all looks at all targets, so that exclusive locks leave the master alone",
            |master| TwoLevelScanParams { master, ..TwoLevelScanParams::default() },
        )
        .paper(&format!("{FOMPI}; the handshake is Dijkstra's (CACM 8(9), 1965)"))
        .fairness("none: exclusive locks may starve");
    registry
        .add_policy::<RobustTwoLevel>(
            "policy: two-level, whose counts survivors put right, and whose targets they take over from holders that have failed",
            |master| RobustTwoLevelParams { master, ..RobustTwoLevelParams::default() },
        )
        .paper(&format!("{FOMPI}; the repair is this project's"))
        .fairness("none: exclusive locks may starve");
    registry
        .add_policy::<Hierarchical>(
            "policy: ranks are counted in words of their nodes, whose gates admit lock_all until an exclusive lock closes them",
            |root| HierarchicalParams { root, ..HierarchicalParams::default() },
        )
        .paper("this project's; parts from BRAVO (USENIX ATC'19), RMA-RW (HPDC'16) and MCS locks")
        .fairness("exclusive locks and openings of gates first come, first served; no rank starves");
    registry
        .add_policy::<RobustHierarchical>(
            "policy: hierarchical, whose open gates hold one lock_all of robust-two-level, so that survivors close them",
            |root| RobustHierarchicalParams { root, ..RobustHierarchicalParams::default() },
        )
        .paper(&format!("this project's; targets from {FOMPI}"))
        .fairness("closings and openings of gates first come, first served; exclusive locks of one target may starve");
    registry
        .add_policy::<NoCheck>("policy: no lock at all, which shows the rate of the load without one", |_| ())
        .paper("MPI_MODE_NOCHECK of the MPI standard")
        .fairness("excludes no rank")
        .excludes_nobody();
}
