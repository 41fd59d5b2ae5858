//! Locks that outlive ranks beside the locks that they extend, without a failure.

use std::time::Instant;

use rmalab::finding::{Table, Value};
use rmalab_atomics::{Mapped, Rank, RemoteAtomics};
use rmalab_locks::{
    Hierarchical, LockKind, Mcs, Place, RawMutex, RawRwLock, Recoverable, RecoverableRw, RmeMcs, RobustHierarchical,
    RobustMcs, RobustRw, RobustTas, RobustTicket, RobustTwoLevel, Tas, TasRw, Ticket, TwoLevel, WindowLock,
};
use rmalab_report::statistics::median;

/// Measurements of each side.
const REPETITIONS: usize = 31;

/// Acquisitions of a measurement: a millisecond.
const PAIRS: u32 = 100_000;

/// The largest allowed time, by that of the plain lock.
const GOAL: f64 = 1.1;

/// A pair of locks: names, and medians of the times of the plain and of the robust one, and of their ratio.
pub(crate) type Row = (String, [f64; 3]);

pub(crate) fn table(backend: &str, rows: &[Row]) -> Table {
    let title = format!("An acquire and a release of one rank, on {backend}; medians of {REPETITIONS}, in turn");
    let mut table = Table::new(title, ["locks", "plain", "robust", "ratio", "goal, at most", "met"]);
    for (name, [plain, robust, ratio]) in rows {
        let met = if *ratio <= GOAL { "met" } else { "not met" };
        let times = [Value::Time(*plain), Value::Time(*robust), Value::Ratio(*ratio), Value::Ratio(GOAL)];
        table.row(std::iter::once(name.as_str().into()).chain(times).chain([met.into()]));
    }
    table
}

/// Measures all pairs, in a world of one rank.
pub(crate) fn measure(ra: &Mapped) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, plain: &mut dyn FnMut() -> f64, robust: &mut dyn FnMut() -> f64| {
        rows.push((name.to_owned(), in_turn(plain, robust)));
    };
    let (mut plain, mut robust) = (mutex::<Tas>(ra), mutex::<RobustTas>(ra));
    row("robust-tas, tas", &mut || acquire(ra, &mut plain), &mut || recover(ra, &mut robust));
    let (mut plain, mut robust) = (mutex::<Ticket>(ra), mutex::<RobustTicket>(ra));
    row("robust-ticket, ticket", &mut || acquire(ra, &mut plain), &mut || recover(ra, &mut robust));
    let (mut plain, mut robust) = (mutex::<Mcs>(ra), mutex::<RobustMcs>(ra));
    row("robust-mcs, mcs", &mut || acquire(ra, &mut plain), &mut || recover(ra, &mut robust));
    let (mut plain, mut robust) = (mutex::<Mcs>(ra), mutex::<RmeMcs>(ra));
    row("rme-mcs, mcs", &mut || acquire(ra, &mut plain), &mut || acquire(ra, &mut robust));
    let (mut plain, mut robust) = (rw_lock::<TasRw>(ra), rw_lock::<RobustRw>(ra));
    row("robust-rw, tas-rw, read", &mut || read(ra, &mut plain), &mut || recover_read(ra, &mut robust));
    row("robust-rw, tas-rw, write", &mut || write(ra, &mut plain), &mut || recover_write(ra, &mut robust));
    windows::<TwoLevel, RobustTwoLevel>(ra, &mut row);
    windows::<Hierarchical, RobustHierarchical>(ra, &mut row);
    rows
}

/// The measurement of a pair of locks: a name, the plain one and the robust one.
type Measure<'m> = dyn FnMut(&str, &mut dyn FnMut() -> f64, &mut dyn FnMut() -> f64) + 'm;

fn windows<Plain: WindowLock, Robust: WindowLock>(ra: &Mapped, row: &mut Measure<'_>) {
    let (mut plain, mut robust) = (window::<Plain>(ra), window::<Robust>(ra));
    let mut named = |what: &str, plain: &mut dyn FnMut() -> f64, robust: &mut dyn FnMut() -> f64| {
        row(&format!("{}, {}, {what}", Robust::NAME, Plain::NAME), plain, robust);
    };
    named("exclusive", &mut || exclusive(ra, &mut plain), &mut || recover_exclusive(ra, &mut robust));
    named("shared", &mut || shared(ra, &mut plain), &mut || recover_shared(ra, &mut robust));
    named("lock_all", &mut || lock_all(ra, &mut plain), &mut || recover_lock_all(ra, &mut robust));
}

/// Medians of both times, measured in turn, and of their ratio.
fn in_turn(plain: &mut dyn FnMut() -> f64, robust: &mut dyn FnMut() -> f64) -> [f64; 3] {
    let mut results = [Vec::new(), Vec::new(), Vec::new()];
    plain();
    robust();
    for _ in 0..REPETITIONS {
        let (plain, robust) = (plain(), robust());
        for (list, value) in results.iter_mut().zip([plain, robust, robust / plain]) {
            list.push(value);
        }
    }
    results.map(|values| median(values.into_iter()))
}

fn mutex<L: RawMutex<Params: Default>>(ra: &Mapped) -> L {
    let place = Place::alloc(ra, Rank(0), L::WORDS, L::NODE).expect("the world has room");
    L::bind(ra, place, L::Params::default()).expect("one rank is not too many")
}

fn rw_lock<L: RawRwLock<Params: Default>>(ra: &Mapped) -> L {
    let place = Place::alloc(ra, Rank(0), L::words(ra.size()), L::NODE).expect("the world has room");
    L::bind(ra, place, L::Params::default()).expect("one rank is not too many")
}

fn window<W: WindowLock>(ra: &Mapped) -> W {
    W::new(ra, W::Params::default()).expect("the world has room")
}

/// Makes a function that measures a pair of calls: functions of the same form, whose arguments are in registers.
macro_rules! measured {
    ($($name:ident<$lock:ident: $bound:ident>($ra:ident, $handle:ident) $acquire:expr, $release:expr;)*) => {
        $(
            #[inline(never)]
            fn $name<$lock: $bound>($ra: &Mapped, $handle: &mut $lock) -> f64 {
                let start = Instant::now();
                for _ in 0..PAIRS {
                    $acquire.expect("no other rank uses the lock");
                    $release.expect("it is held");
                }
                start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
            }
        )*
    };
}

measured! {
    acquire<L: RawMutex>(ra, lock) lock.acquire(ra), lock.release(ra);
    recover<L: Recoverable>(ra, lock) lock.recoverable_acquire(ra).map(drop), lock.release(ra);
    read<L: RawRwLock>(ra, lock) lock.acquire_read(ra), lock.release_read(ra);
    write<L: RawRwLock>(ra, lock) lock.acquire_write(ra), lock.release_write(ra);
    recover_read<L: RecoverableRw>(ra, lock) lock.recoverable_acquire_read(ra).map(drop), lock.release_read(ra);
    recover_write<L: RecoverableRw>(ra, lock) lock.recoverable_acquire_write(ra).map(drop), lock.release_write(ra);
    exclusive<W: WindowLock>(ra, window)
        window.lock(ra, LockKind::Exclusive, Rank(0)), window.unlock(ra, LockKind::Exclusive, Rank(0));
    recover_exclusive<W: WindowLock>(ra, window)
        window.recoverable_lock(ra, LockKind::Exclusive, Rank(0)).map(drop), window.unlock(ra, LockKind::Exclusive, Rank(0));
    shared<W: WindowLock>(ra, window)
        window.lock(ra, LockKind::Shared, Rank(0)), window.unlock(ra, LockKind::Shared, Rank(0));
    recover_shared<W: WindowLock>(ra, window)
        window.recoverable_lock(ra, LockKind::Shared, Rank(0)).map(drop), window.unlock(ra, LockKind::Shared, Rank(0));
    lock_all<W: WindowLock>(ra, window) window.lock_all(ra), window.unlock_all(ra);
    recover_lock_all<W: WindowLock>(ra, window) window.recoverable_lock_all(ra).map(drop), window.unlock_all(ra);
}
