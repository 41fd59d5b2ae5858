//! The results of operations, against models: every element type, operation, strategy, flavor and place.

use crate::support::{Made, accumulating, everywhere, processes, threads};
use rmalab_atomics::{Mapped, Rank, World};
use rmalab_windows::layout::Order;
use rmalab_windows::{
    AccumulateOps, AccumulateOrdering, AccumulateStrategy, Assert, Byte, Call, Class, Complex, Config, DoubleInt,
    Element, Error, FenceAssert, Layout, LayoutError, LockKind, Logical, LongInt, Op, Pair, PostAssert, PscwStrategy,
    ShortInt, StartAssert, Swappable, Target, Team, Transport, Window, WindowDisp,
};

/// Sample elements: zeros, equal values, small values whose sums are exact.
trait Sample: Element {
    fn sample(seed: u64) -> Self;
}

macro_rules! samples {
    ($($type:ty = $sample:expr;)*) => {$(
        impl Sample for $type {
            fn sample(seed: u64) -> $type {
                let sample: fn(u64) -> $type = $sample;
                sample(seed)
            }
        }
    )*};
}

fn bits(seed: u64) -> u64 {
    if seed.is_multiple_of(5) { 0 } else { seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(29) }
}

fn quarters(seed: u64) -> f32 {
    (bits(seed) % 64) as f32 / 4.0 - 8.0
}

samples! {
    i8 = |seed| bits(seed) as i8;
    i16 = |seed| bits(seed) as i16;
    i32 = |seed| bits(seed) as i32;
    i64 = |seed| bits(seed) as i64;
    u8 = |seed| bits(seed) as u8;
    u16 = |seed| bits(seed) as u16;
    u32 = |seed| bits(seed) as u32;
    u64 = bits;
    f32 = quarters;
    f64 = |seed| quarters(seed).into();
    Pair<i16, i16> = |seed| Pair::new((seed % 3) as i16, bits(seed) as i16);
    Pair<i32, i32> = |seed| Pair::new((seed % 3) as i32, bits(seed) as i32);
    Pair<i64, i64> = |seed| Pair::new((seed % 3) as i64, bits(seed) as i64);
    Pair<u32, u32> = |seed| Pair::new((seed % 3) as u32, bits(seed) as u32);
    Pair<u64, u64> = |seed| Pair::new(seed % 3, bits(seed));
    Pair<f32, i32> = |seed| Pair::new(quarters(seed % 7), bits(seed) as i32);
    Pair<f64, i64> = |seed| Pair::new(quarters(seed % 7).into(), bits(seed) as i64);
    DoubleInt = |seed| DoubleInt::new(quarters(seed % 7).into(), bits(seed) as i32);
    LongInt = |seed| LongInt::new((seed % 3) as i64, bits(seed) as i32);
    ShortInt = |seed| ShortInt::new((seed % 3) as i16, bits(seed) as i32);
    Complex<f32> = |seed| Complex::new(quarters(seed), quarters(seed + 1));
    Complex<f64> = |seed| Complex::new(quarters(seed).into(), quarters(seed + 1).into());
    Logical = |seed| Logical::new(seed.is_multiple_of(3));
    Byte = |seed| Byte(bits(seed) as u8);
}

/// Calls a function for every element type.
macro_rules! every_type {
    ($function:ident($($argument:expr),*)) => {
        every_type!($function($($argument),*) i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        every_type!($function($($argument),*) Pair<i16, i16>, Pair<i32, i32>, Pair<i64, i64>, Pair<u32, u32>,
            Pair<u64, u64>, Pair<f32, i32>, Pair<f64, i64>, DoubleInt, LongInt, ShortInt, Complex<f32>, Complex<f64>,
            Logical, Byte);
    };
    ($function:ident $arguments:tt $($type:ident)*) => { $($function::<$type> $arguments;)* };
    ($function:ident $arguments:tt $($type:ty),*) => { $($function::<$type> $arguments;)* };
}

fn right(team: &Team<'_, Mapped>) -> Rank {
    Rank((team.rank().0 + 1) % team.size())
}

const BYTES: usize = 160;

/// Checks that every operation on elements of `T`, in all forms, changes the right bytes and no others.
fn updates<T: Sample>(target: &Target<'_, Mapped>, start: i64, offsets: &[usize]) {
    for op in Op::ALL {
        if !op.is_defined_for(T::KIND) {
            let errors = [
                target.accumulate::<T>(WindowDisp(start), op, &[T::sample(0)]).unwrap_err(),
                target.get_accumulate::<T>(WindowDisp(start), op, &[], &mut []).unwrap_err(),
                target.fetch_and_op::<T>(WindowDisp(start), op, T::sample(0)).unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, Error::Op { kind, .. } if kind == T::KIND), "{error}");
                assert_eq!(error.class(), Class::Op);
            }
            continue;
        }
        for (offset, len, form) in
            offsets.iter().flat_map(|&at| [1, 5].into_iter().flat_map(move |n| (0..5).map(move |form| (at, n, form))))
        {
            let disp = WindowDisp(start + offset as i64);
            let seed = offset as u64 + 11 * form;
            let old: Vec<T> = (0..len).map(|i| T::sample(seed + i)).collect();
            let source: Vec<T> = (0..len).map(|i| T::sample(seed + 3 + 7 * i)).collect();
            let new: Vec<T> = old.iter().zip(&source).map(|(&old, &value)| T::combine(op, old, value)).collect();
            target.put(WindowDisp(start), &[0xA5_u8; BYTES]).unwrap();
            target.put(disp, &old).unwrap();
            let mut before = vec![T::sample(1); len as usize];
            let ignored: &[T] = if op == Op::NoOp { &[] } else { &source };
            match form {
                0 => {
                    target.accumulate(disp, op, &source).unwrap();
                    before.clone_from(&old);
                }
                1 => target.get_accumulate(disp, op, ignored, &mut before).unwrap(),
                2 => {
                    for (at, (before, value)) in before.iter_mut().zip(&source).enumerate() {
                        *before = target.fetch_and_op(disp.plus((at * size_of::<T>()) as i64), op, *value).unwrap();
                    }
                }
                3 => {
                    let mut request = target.raccumulate(disp, op, source.clone()).unwrap();
                    while !request.test().unwrap() {}
                    assert_eq!(request.wait().unwrap(), source);
                    before.clone_from(&old);
                }
                _ => before = target.rget_accumulate(disp, op, ignored, before).unwrap().wait().unwrap(),
            }
            assert_eq!(before, old, "{} of {} at {offset}: the value before", op, T::KIND);
            let mut expected = [0xA5_u8; BYTES];
            let new: &[u8] = bytemuck::cast_slice(&new);
            expected[offset..][..new.len()].copy_from_slice(new);
            let mut all = [0; BYTES];
            target.get(WindowDisp(start), &mut all).unwrap();
            assert_eq!(all, expected, "{op} of {len} {} at {offset}, form {form}", T::KIND);
        }
    }
}

/// Checks that compare and swap of elements of `T` stores its value if the element is the expected one, and changes no
/// other bytes.
fn swaps<T: Sample + Swappable>(target: &Target<'_, Mapped>, start: i64, offsets: &[usize]) {
    let [old, other, new] = [T::from_word(u64::MAX), T::from_word(0x0706_0504_0302_0100), T::from_word(1)];
    for &offset in offsets {
        for (expected, swapped) in [(old, true), (other, false)] {
            let disp = WindowDisp(start + offset as i64);
            target.put(WindowDisp(start), &[0xA5_u8; BYTES]).unwrap();
            target.put_value(disp, old).unwrap();
            assert_eq!(target.compare_and_swap(disp, expected, new).unwrap(), old, "{} at {offset}", T::KIND);
            let mut all = [0xA5_u8; BYTES];
            let after = if swapped { new } else { old };
            all[offset..][..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&after));
            let mut seen = [0; BYTES];
            target.get(WindowDisp(start), &mut seen).unwrap();
            assert_eq!(seen, all, "{} at {offset}, which the swap expects: {swapped}", T::KIND);
        }
    }
}

/// A rank alone with every target, in shared and exclusive mode.
fn every_update(team: &Team<'_, Mapped>, transport: Transport, made: &[Made], offsets: &[usize]) {
    for made in made {
        for &strategy in AccumulateStrategy::ALL {
            let config = Config { transport, ..accumulating(strategy) };
            let (window, starts) = made.make(team, config, BYTES);
            team.barrier().unwrap();
            for kind in [LockKind::Shared, LockKind::Exclusive] {
                let epoch = window.lock(kind, right(team)).unwrap();
                let start = starts[right(team).index()];
                every_type!(updates(&epoch, start, offsets));
                every_type!(swaps(&epoch, start, offsets) i8 i16 i32 i64 u8 u16 u32 u64 Logical Byte);
                epoch.unlock().unwrap();
            }
            window.free().unwrap();
        }
    }
}

#[test]
fn every_operation_on_every_type_by_every_strategy() {
    // If the kernel copies, an operation takes much longer.
    let world = processes("operations::every_operation_on_every_type_by_every_strategy", 2);
    world.run(|ra| every_update(&Team::new(ra).unwrap(), Transport::OneSided, &Made::ALL, &[8, 13])).unwrap();
    threads(2, |team| every_update(team, Transport::OneSided, &Made::ALL, &[0, 1, 4, 6, 8, 13, 16]));
}

#[test]
fn every_operation_on_every_type_by_messages() {
    // A rank serves its own requests, so that no request waits for the other rank to run.
    threads(1, |team| every_update(team, Transport::TwoSided, &Made::ALL, &[8, 13]));
}

/// All ranks combine into the same elements at once; the result does not depend on the order.
fn together<T: Sample>(team: &Team<'_, Mapped>, window: &Window<'_, Mapped>, start: i64, rounds: u64) {
    const LEN: usize = 3;
    let last = Rank(team.size() - 1);
    let value = |rank: u32, round: u64, at: usize| T::sample(1000 * u64::from(rank) + 3 * round + at as u64);
    let ops = [Op::Sum, Op::Min, Op::Max, Op::BitXor, Op::MinLoc, Op::MaxLoc];
    for op in ops.into_iter().filter(|op| op.is_defined_for(T::KIND)) {
        // At a word, and one byte after it.
        for (disp, expected) in [0, 65].map(|at| (WindowDisp(start + at), at)) {
            let first: [T; LEN] = std::array::from_fn(|at| T::sample(expected as u64 + at as u64));
            if team.rank() == last {
                let epoch = window.lock(LockKind::Exclusive, last).unwrap();
                epoch.put(disp, &first).unwrap();
                epoch.unlock().unwrap();
            }
            team.barrier().unwrap();
            let epoch = window.lock(LockKind::Shared, last).unwrap();
            for round in 0..rounds {
                let values: [T; LEN] = std::array::from_fn(|at| value(team.rank().0, round, at));
                match round % 3 {
                    0 => epoch.accumulate(disp, op, &values).unwrap(),
                    1 => epoch.get_accumulate(disp, op, &values, &mut [T::zeroed(); LEN]).unwrap(),
                    _ => {
                        for (at, value) in values.into_iter().enumerate() {
                            epoch.fetch_and_op(disp.plus((at * size_of::<T>()) as i64), op, value).unwrap();
                        }
                    }
                }
            }
            epoch.unlock().unwrap();
            team.barrier().unwrap();
            let mut expected = first;
            for (rank, round) in (0..team.size()).flat_map(|rank| (0..rounds).map(move |round| (rank, round))) {
                for (at, element) in expected.iter_mut().enumerate() {
                    *element = T::combine(op, *element, value(rank, round, at));
                }
            }
            let epoch = window.lock(LockKind::Shared, last).unwrap();
            let mut seen = [T::zeroed(); LEN];
            epoch.get(disp, &mut seen).unwrap();
            epoch.unlock().unwrap();
            assert_eq!(seen, expected, "{op} of {}", T::KIND);
            team.barrier().unwrap();
        }
    }
}

fn all_together(team: &Team<'_, Mapped>) {
    for made in Made::ALL {
        for &strategy in AccumulateStrategy::ALL {
            let (window, starts) = made.make(team, accumulating(strategy), BYTES);
            let start = starts[team.size() as usize - 1];
            every_type!(together(team, &window, start, 6));
            window.free().unwrap();
        }
        // Changing between atomics and a lock every few updates.
        let config = accumulating(AccumulateStrategy::Native);
        let (window, starts) = made.make_by(team, config, BYTES, |builder| builder.accumulate_limits(2, 8, 2));
        every_type!(together(team, &window, starts[team.size() as usize - 1], 6));
        window.free().unwrap();
    }
}

#[test]
fn accumulates_of_all_ranks_at_once_lose_nothing() {
    everywhere("operations::accumulates_of_all_ranks_at_once_lose_nothing", 4, all_together);
}

/// Ranks combine into runs that begin and end within the same words, so they change words with elements of other runs.
fn neighbours<T: Sample>(team: &Team<'_, Mapped>, window: &Window<'_, Mapped>, start: i64, one: T) {
    const LEN: usize = 48;
    // Enough rounds for the ranks to meet.
    const ROUNDS: usize = 20_000;
    let run =
        |rank: usize, round: usize| (rank + 5 * round) % (LEN - 12)..(rank + 5 * round) % (LEN - 12) + 1 + round % 11;
    let at = |element: usize| WindowDisp(start + (element * size_of::<T>()) as i64);
    let me = team.rank().index();
    let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
    for round in 0..ROUNDS {
        let run = run(me, round);
        if round % 3 == 0 {
            epoch.get_accumulate(at(run.start), Op::Sum, &vec![one; run.len()], &mut vec![one; run.len()]).unwrap();
        } else {
            epoch.accumulate(at(run.start), Op::Sum, &vec![one; run.len()]).unwrap();
        }
    }
    epoch.unlock().unwrap();
    team.barrier().unwrap();
    if me == 0 {
        let mut expected = [T::zeroed(); LEN];
        for (rank, round) in (0..team.size() as usize).flat_map(|rank| (0..ROUNDS).map(move |round| (rank, round))) {
            for element in &mut expected[run(rank, round)] {
                *element = T::combine(Op::Sum, *element, one);
            }
        }
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        let mut seen = [T::zeroed(); LEN];
        epoch.get(at(0), &mut seen).unwrap();
        assert_eq!(seen, expected, "{}", T::KIND);
        epoch.put(at(0), &[T::zeroed(); LEN]).unwrap();
        epoch.unlock().unwrap();
    }
    team.barrier().unwrap();
}

#[test]
fn runs_leave_the_neighbours_of_their_words_alone() {
    threads(3, |team| {
        for strategy in [AccumulateStrategy::Native, AccumulateStrategy::Cas] {
            // Always with atomics.
            let config = accumulating(strategy);
            let (window, starts) = Made::Allocated
                .make_by(team, config, 512, |builder| builder.accumulate_limits(usize::MAX, u64::MAX, 1));
            neighbours(team, &window, starts[0], 1_i8);
            neighbours(team, &window, starts[0], 1_u16);
            neighbours(team, &window, starts[0], 1_i32);
            neighbours(team, &window, starts[0], 1.0_f32);
            neighbours(team, &window, starts[0], 1.0_f64);
            window.free().unwrap();
        }
    });
}

/// Ranks update the same elements with runs, one by one, and with compare and swap, while the target changes its mode.
fn runs_and_singles(team: &Team<'_, Mapped>) {
    // A run with atomics takes longer than a fence everywhere.
    const LEN: usize = 1_000;
    const ROUNDS: u64 = 1_500;
    for made in [Made::Allocated, Made::Created] {
        for strategy in [AccumulateStrategy::Native, AccumulateStrategy::Cas] {
            // The fewer updates between changes of the mode, the more often they meet.
            for (run, debt, rent) in [(2, 2, 1), (8, 3_000, 4), (LEN, 2_500, 20)] {
                let (mut window, starts) = made.make_by(team, accumulating(strategy), LEN * 8, |builder| {
                    builder.accumulate_limits(run, debt, rent)
                });
                let all = window.lock_all().unwrap();
                let target = all.at(Rank(0)).unwrap();
                let at = |element: usize| WindowDisp(starts[0] + 8 * element as i64);
                let mut expected = [0_u64; LEN];
                let me = u64::from(team.rank().0);
                let mut random = me + 1;
                for round in 0..ROUNDS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let (first, value) = ((random >> 8) as usize % LEN, random >> 32);
                    // Ranks change their most frequent operation, at different times.
                    let last = match (round / 100 + me) % 3 {
                        0 => LEN,
                        1 => LEN.min(first + random as usize % 100 + 1),
                        _ if random % 50 == 0 => LEN,
                        _ => first + 1,
                    };
                    let values = [value; LEN];
                    match (last - first, random % 4) {
                        (1, 0) => {
                            let mut seen = target.fetch_and_op(at(first), Op::NoOp, 0_u64).unwrap();
                            loop {
                                let sum = seen.wrapping_add(value);
                                let before = target.compare_and_swap(at(first), seen, sum).unwrap();
                                if before == seen {
                                    break;
                                }
                                seen = before;
                            }
                        }
                        (1, 1) => drop(target.fetch_and_op(at(first), Op::Sum, value).unwrap()),
                        (n, 2) => target.get_accumulate(at(first), Op::Sum, &values[..n], &mut [0; LEN][..n]).unwrap(),
                        (n, _) => target.accumulate(at(first), Op::Sum, &values[..n]).unwrap(),
                    }
                    for element in &mut expected[first..last] {
                        *element = element.wrapping_add(value);
                    }
                }
                all.unlock_all().unwrap();
                let sums = team.allgather(&expected).unwrap();
                let sum =
                    |element| sums.iter().skip(element).step_by(LEN).fold(0, |sum: u64, one| sum.wrapping_add(*one));
                let mut seen = [0_u64; LEN];
                let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
                epoch.get(at(0), &mut seen).unwrap();
                epoch.unlock().unwrap();
                assert_eq!(seen, std::array::from_fn(sum), "{made:?}, {strategy:?}, from {run}, {debt}, {rent}");
                window.free().unwrap();
            }
        }
    }
}

#[test]
fn runs_and_single_updates_do_not_lose_each_other() {
    everywhere("operations::runs_and_single_updates_do_not_lose_each_other", 3, runs_and_singles);
}

/// All ranks count with compare and swap, and retry after updates of the others.
fn count<T: Swappable>(team: &Team<'_, Mapped>, window: &Window<'_, Mapped>, start: i64) {
    const ROUNDS: u64 = 40;
    let all_ones = T::from_word(u64::MAX);
    let next = |value: T| T::combine(Op::Sum, value, all_ones);
    for at in [0, 32 + 1] {
        let disp = WindowDisp(start + at);
        team.barrier().unwrap();
        let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
        for _ in 0..ROUNDS {
            let mut seen = T::zeroed();
            loop {
                let before = epoch.compare_and_swap(disp, seen, next(seen)).unwrap();
                if before == seen {
                    break;
                }
                seen = before;
            }
        }
        epoch.unlock().unwrap();
        team.barrier().unwrap();
        let expected = (0..ROUNDS * u64::from(team.size())).fold(T::zeroed(), |sum, _| next(sum));
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        assert_eq!(epoch.get_value::<T>(disp).unwrap(), expected, "{} at {at}", T::KIND);
        epoch.unlock().unwrap();
        team.barrier().unwrap();
        if team.rank() == Rank(0) {
            let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
            epoch.put_value(disp, T::zeroed()).unwrap();
            epoch.unlock().unwrap();
        }
    }
}

fn count_all(team: &Team<'_, Mapped>) {
    for made in Made::ALL {
        for &strategy in AccumulateStrategy::ALL {
            let (window, starts) = made.make(team, accumulating(strategy), BYTES);
            every_type!(count(team, &window, starts[0]) i8 i16 i32 i64 u8 u16 u32 u64);
            window.free().unwrap();
        }
    }
}

#[test]
fn compare_and_swap_of_every_width_counts_exactly() {
    everywhere("operations::compare_and_swap_of_every_width_counts_exactly", 4, count_all);
}

/// A spin lock of one element, which each rank takes with compare and swap to change the number beside it.
fn spin<T: Swappable>(team: &Team<'_, Mapped>, window: &Window<'_, Mapped>, start: i64, free: T, taken: T) {
    const ROUNDS: u64 = 20;
    let (lock, number) = (WindowDisp(start + 1), WindowDisp(start + 8));
    let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
    for _ in 0..ROUNDS {
        while epoch.compare_and_swap(lock, free, taken).unwrap() != free {}
        let old: u64 = epoch.fetch_and_op(number, Op::NoOp, 0).unwrap();
        epoch.accumulate(number, Op::Replace, &[old + 1]).unwrap();
        assert_eq!(epoch.compare_and_swap(lock, taken, free).unwrap(), taken);
    }
    epoch.unlock().unwrap();
    team.barrier().unwrap();
    let epoch = window.lock(LockKind::Shared, Rank(0)).unwrap();
    assert_eq!(epoch.get_value::<u64>(number).unwrap(), ROUNDS * u64::from(team.size()), "{}", T::KIND);
    epoch.unlock().unwrap();
    team.barrier().unwrap();
    let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
    epoch.put_value(number, 0_u64).unwrap();
    epoch.unlock().unwrap();
    team.barrier().unwrap();
}

#[test]
fn logical_values_and_bytes_are_compared_and_swapped() {
    threads(3, |team| {
        for made in [Made::Allocated, Made::Dynamic] {
            for &strategy in AccumulateStrategy::ALL {
                let (window, starts) = made.make(team, accumulating(strategy), BYTES);
                team.barrier().unwrap();
                spin(team, &window, starts[0], Logical::new(false), Logical::new(true));
                spin(team, &window, starts[0], Byte(0), Byte(0xF0));
                window.free().unwrap();
            }
        }
    });
}

/// Accumulates of one rank to one place take effect in the order of its calls, for all hints on order and on mixed
/// operations.
fn ordered(team: &Team<'_, Mapped>) {
    let relaxed = Config {
        accumulate_ordering: AccumulateOrdering::NONE,
        accumulate_ops: AccumulateOps::SameOp,
        ..Config::default()
    };
    for (made, config) in Made::ALL.into_iter().flat_map(|made| [(made, Config::default()), (made, relaxed)]) {
        let (window, starts) = made.make(team, config, BYTES);
        team.barrier().unwrap();
        let (target, disp) = (right(team), WindowDisp(starts[right(team).index()]));
        let epoch = window.lock(LockKind::Shared, target).unwrap();
        for round in 1..=200_u64 {
            let back = epoch.raccumulate(disp, Op::Replace, vec![round]).unwrap();
            let seen = epoch.rget_accumulate(disp, Op::Sum, &[1000], vec![0_u64]).unwrap();
            epoch.accumulate(disp, Op::Prod, &[2_u64]).unwrap();
            assert_eq!(epoch.fetch_and_op(disp, Op::NoOp, 0_u64).unwrap(), 2 * (round + 1000));
            assert_eq!((seen.wait().unwrap(), back.wait().unwrap()), (vec![round], vec![round]));
        }
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn accumulates_of_one_rank_are_ordered() {
    everywhere("operations::accumulates_of_one_rank_are_ordered", 2, ordered);
}

/// Returns numbers that identify their places.
fn numbers<const N: usize>() -> [u16; N] {
    std::array::from_fn(|at| at as u16 + 1)
}

/// Layouts at both ends, with put, get and their forms with requests, against copies one by one.
fn layouts(team: &Team<'_, Mapped>) {
    let number = Layout::of::<u16>();
    let column = Layout::vector(4, 1, 5, &number).unwrap();
    let scattered = Layout::indexed(&[(1, 9), (2, 0), (1, 5)], &number).unwrap();
    let block = Layout::subarray(&[4, 5], &[2, 2], &[1, 2], Order::C, &number).unwrap();
    let pair = Layout::structure(&[(1, 2, &number), (3, 8, &Layout::of::<i16>())]).unwrap();
    let places: [(&Layout, [usize; 4]); 5] = [
        (&Layout::contiguous(4, &number).unwrap(), [0, 1, 2, 3]),
        (&column, [0, 5, 10, 15]),
        (&scattered, [9, 0, 1, 5]),
        (&block, [7, 8, 12, 13]),
        (&pair, [1, 4, 5, 6]),
    ];
    for made in Made::ALL {
        let (window, starts) = made.make(team, Config::default(), 48);
        team.barrier().unwrap();
        let disp = WindowDisp(starts[right(team).index()]).plus(2);
        let epoch = window.lock(LockKind::Shared, right(team)).unwrap();
        for (here, from) in places {
            for (there, to) in places {
                for request in [false, true] {
                    let source = numbers::<20>();
                    let mut expected = [0_u16; 24];
                    from.iter().zip(to).for_each(|(&from, to)| expected[to + 1] = source[from]);
                    epoch.put(disp.plus(-2), &[0_u16; 24]).unwrap();
                    if request {
                        let sent = epoch.rput_layout(disp, there.item(), source.to_vec(), here.item()).unwrap();
                        assert_eq!(sent.wait().unwrap(), source);
                    } else {
                        epoch.put_layout(disp, there.item(), &source, here.item()).unwrap();
                    }
                    epoch.flush().unwrap();
                    let mut all = [0_u16; 24];
                    epoch.get(disp.plus(-2), &mut all).unwrap();
                    assert_eq!(all, expected, "{made:?}: {from:?} to {to:?}");

                    epoch.put(disp, &source).unwrap();
                    let mut dest = [0_u16; 20];
                    let mut expected = dest;
                    from.iter().zip(to).for_each(|(&from, to)| expected[from] = source[to]);
                    if request {
                        let got = epoch.rget_layout(disp, there.item(), dest.to_vec(), here.item()).unwrap();
                        dest.copy_from_slice(&got.wait().unwrap());
                    } else {
                        epoch.get_layout(disp, there.item(), &mut dest, here.item()).unwrap();
                    }
                    assert_eq!(dest, expected, "{made:?}: {to:?} to {from:?}");
                }
            }
        }
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn layouts_at_both_ends() {
    everywhere("operations::layouts_at_both_ends", 2, layouts);
}

/// For a get into overlapping bytes the last item counts, and for a put, too.
#[test]
fn overlapping_layouts_are_written_in_order() {
    threads(2, |team| {
        for made in Made::ALL {
            let (window, starts) = made.make(team, Config::default(), 48);
            team.barrier().unwrap();
            let disp = WindowDisp(starts[right(team).index()]);
            let epoch = window.lock(LockKind::Shared, right(team)).unwrap();
            epoch.put(disp, &numbers::<4>()).unwrap();
            let number = Layout::of::<u16>();
            let (plain, twice) = (Layout::contiguous(4, &number).unwrap(), Layout::hvector(2, 2, 2, &number).unwrap());
            let mut dest = [0_u16; 3];
            epoch.get_layout(disp, plain.item(), &mut dest, twice.item()).unwrap();
            assert_eq!(dest, [1, 3, 4]);
            let dest = epoch.rget_layout(disp, plain.item(), vec![0_u16; 3], twice.item()).unwrap().wait().unwrap();
            assert_eq!(dest, [1, 3, 4]);
            // The same bytes of the target, repeatedly.
            let again = Layout::vector(4, 1, 0, &number).unwrap();
            let mut dest = [0_u16; 4];
            epoch.get_layout(disp.plus(2), again.item(), &mut dest, plain.item()).unwrap();
            assert_eq!(dest, [2; 4]);
            epoch.put_layout(disp.plus(16), twice.item(), &numbers::<4>(), plain.item()).unwrap();
            epoch.flush().unwrap();
            assert_eq!(epoch.get_value::<[u16; 3]>(disp.plus(16)).unwrap(), [1, 3, 4]);
            // If a layout has an element twice, both accumulates count.
            epoch.accumulate_layout(disp, again.item(), Op::Sum, &[10_u16, 20, 30, 40], plain.item()).unwrap();
            assert_eq!(epoch.get_value::<[u16; 4]>(disp).unwrap(), [101, 2, 3, 4]);
            epoch.unlock().unwrap();
            window.free().unwrap();
        }
    });
}

#[test]
fn accumulates_take_layouts_at_all_three_ends() {
    threads(2, |team| {
        for made in Made::ALL {
            for &strategy in AccumulateStrategy::ALL {
                let (window, starts) = made.make(team, accumulating(strategy), 64);
                team.barrier().unwrap();
                let disp = WindowDisp(starts[right(team).index()]).plus(1);
                let epoch = window.lock(LockKind::Exclusive, right(team)).unwrap();
                epoch.put(disp, &[1_i32, 2, 3, 4, 5, 6]).unwrap();
                let number = Layout::of::<i32>();
                let every_other = Layout::vector(3, 1, 2, &number).unwrap();
                let backwards = Layout::indexed(&[(1, 2), (1, 1), (1, 0)], &number).unwrap();
                let plain = Layout::contiguous(3, &number).unwrap();
                let mut results = [0; 6];
                epoch
                    .get_accumulate_layout(
                        disp,
                        every_other.item(),
                        Op::Sum,
                        &[10, 20, 30],
                        backwards.item(),
                        &mut results,
                        every_other.item(),
                    )
                    .unwrap();
                assert_eq!(results, [1, 0, 3, 0, 5, 0]);
                assert_eq!(epoch.get_value::<[i32; 6]>(disp).unwrap(), [31, 2, 23, 4, 15, 6]);
                // No_op ignores any origin.
                epoch
                    .get_accumulate_layout(
                        disp,
                        plain.item(),
                        Op::NoOp,
                        &[],
                        plain.item(),
                        &mut results,
                        backwards.item(),
                    )
                    .unwrap();
                assert_eq!(results, [23, 2, 31, 0, 5, 0]);
                epoch.accumulate_layout(disp, plain.item(), Op::Replace, &[7, 8, 9], backwards.item()).unwrap();
                assert_eq!(epoch.get_value::<[i32; 6]>(disp).unwrap(), [9, 8, 7, 4, 15, 6]);
                let error =
                    epoch.accumulate_layout(disp, number.items(3), Op::Sum, &[0_u32; 3], plain.item()).unwrap_err();
                assert!(matches!(error, Error::Type { call: Call::Accumulate, .. }), "{error}");
                assert_eq!(error.class(), Class::Type);
                epoch.unlock().unwrap();
                window.free().unwrap();
            }
        }
    });
}

#[test]
fn ends_that_do_not_fit_are_errors_and_nothing_is_done() {
    threads(1, |team| {
        let window = Window::allocate(team, 16).unwrap();
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        let disp = WindowDisp(0);
        let number = Layout::of::<u32>();
        let mut dest = [1_u32; 4];
        let class = |result: rmalab_windows::Result<()>| result.unwrap_err().class();
        assert_eq!(class(epoch.put_layout(disp, number.items(2), &dest, number.items(3))), Class::Count);
        assert_eq!(class(epoch.get_layout(disp, number.items(3), &mut dest, number.items(2))), Class::Count);
        assert_eq!(class(epoch.get_accumulate(disp, Op::Sum, &[1_u32], &mut dest)), Class::Count);
        let error = epoch.put_layout(disp, number.items(5), &dest, number.items(5)).unwrap_err();
        assert!(matches!(error, Error::Layout(LayoutError::OutOfBuffer { end: 20, buffer: 16, .. })), "{error}");
        assert_eq!(error.class(), Class::Type);
        let error = epoch.put_layout(WindowDisp(4), number.items(4), &dest, number.items(4)).unwrap_err();
        assert!(matches!(error, Error::OutOfWindow { len: 16, bytes: 16, .. }), "{error}");
        let error = epoch.check(Call::Put, WindowDisp(4), number.items(4)).unwrap_err();
        assert!(matches!(error, Error::OutOfWindow { call: Call::Put, len: 16, .. }), "{error}");
        epoch.check(Call::Put, WindowDisp(4), number.items(3)).unwrap();
        let error = epoch.rput_layout(WindowDisp(4), number.items(4), dest.to_vec(), number.items(4)).unwrap_err();
        assert_eq!(error.class(), Class::RmaRange);
        let error = epoch.rget(WindowDisp(1), vec![0_u64; 2]).unwrap_err();
        assert_eq!(error.class(), Class::RmaRange);
        let before = Layout::hindexed(&[(1, -4)], &number).unwrap();
        let error = epoch.put_layout(disp, before.item(), &dest, number.item()).unwrap_err();
        assert!(matches!(error, Error::OutOfWindow { len: 4, .. }), "{error}");
        assert_eq!(epoch.get_value::<[u32; 4]>(disp).unwrap(), [0; 4]);
        epoch.unlock().unwrap();
    });
}

/// Puts and gets that overlap each other, to every target.
fn batches(team: &Team<'_, Mapped>) {
    const LEN: usize = 8;
    let (me, size) = (team.rank().index(), team.size());
    for made in Made::ALL {
        let (mut window, starts) = made.make(team, Config::default(), 8 * LEN * size as usize);
        team.barrier().unwrap();
        let mine: Vec<u64> = (0..LEN as u64).map(|at| 100 * me as u64 + at).collect();
        let place = |target: Rank, at: usize| WindowDisp(starts[target.index()] + (8 * LEN * at) as i64);
        let epoch = window.lock_all().unwrap();
        epoch
            .batch(|batch| {
                for target in (0..size).map(Rank) {
                    let part = epoch.at(target)?;
                    let (low, high) = mine.split_at(3);
                    batch.put(&part, place(target, me), low)?;
                    batch.put(&part, place(target, me).plus(24), high)?;
                    batch.put::<u8, _>(&part, place(target, me), &[])?;
                    let error = batch.put(&part, place(target, size as usize), &mine).unwrap_err();
                    assert_eq!(error.class(), Class::RmaRange);
                }
                batch.put(&epoch.at(None)?, WindowDisp(-1), &mine)
            })
            .unwrap();
        // The operations are complete at both ends without a flush.
        team.barrier().unwrap();
        let mut all = vec![[0_u64; LEN]; (size * size) as usize];
        epoch
            .batch(|batch| {
                for (at, piece) in all.iter_mut().enumerate() {
                    let (target, from) = (Rank(at as u32 / size), at % size as usize);
                    batch.get(&epoch.at(target)?, place(target, from), piece)?;
                }
                Ok(())
            })
            .unwrap();
        for (at, piece) in all.iter().enumerate() {
            let from = at as u64 % u64::from(size);
            assert!(piece.iter().zip(0..).all(|(&seen, i)| seen == 100 * from + i), "{made:?}: {piece:?} of {from}");
        }
        epoch.unlock_all().unwrap();
        // The same in an epoch to one target.
        let epoch = window.lock(LockKind::Shared, right(team)).unwrap();
        let mut back = [0_u64; LEN];
        epoch.batch(|batch| batch.get(&epoch, place(right(team), me), &mut back)).unwrap();
        assert_eq!(back[..], mine);
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn batches_are_complete_when_they_return() {
    everywhere("operations::batches_are_complete_when_they_return", 3, batches);
}

/// Requests that are tested, waited for in another order, and dropped.
fn requests(team: &Team<'_, Mapped>) {
    for made in Made::ALL {
        let (window, starts) = made.make(team, Config::default(), 4096);
        team.barrier().unwrap();
        let disp = WindowDisp(starts[right(team).index()]);
        let epoch = window.lock(LockKind::Exclusive, right(team)).unwrap();
        let first = epoch.rput(disp, vec![1_u8; 1000]).unwrap();
        let mut second = epoch.rput(disp.plus(1000), vec![2_u8; 1000]).unwrap();
        drop(epoch.rput(disp.plus(2000), vec![3_u8; 1000]).unwrap());
        while !second.test().unwrap() {}
        assert!(second.test().unwrap());
        assert_eq!(second.wait().unwrap(), [2; 1000]);
        assert_eq!(first.wait().unwrap(), [1; 1000]);
        epoch.flush().unwrap();
        let mut got = epoch.rget(disp, vec![0_u8; 3000]).unwrap();
        while !got.test().unwrap() {}
        let got = got.wait().unwrap();
        assert!(got.chunks(1000).zip(1..).all(|(chunk, value)| chunk.iter().all(|&byte| byte == value)));
        drop(epoch.rget(disp, vec![0_u8; 100]).unwrap());
        assert!(epoch.rput(disp, Vec::<u64>::new()).unwrap().wait().unwrap().is_empty());
        // The layouts are needed only during the call.
        let spread = {
            let every_other = Layout::vector(2, 1, 2, &Layout::of::<u16>()).unwrap();
            epoch.rput_layout(disp.plus(3100), every_other.item(), vec![6_u16, 7, 8], every_other.item()).unwrap()
        };
        assert_eq!(spread.wait().unwrap(), [6, 7, 8]);
        epoch.flush().unwrap();
        assert_eq!(epoch.get_value::<[u16; 3]>(disp.plus(3100)).unwrap(), [6, 0, 8]);
        // A request that outlives its epoch is complete by then.
        let late = epoch.rput(disp.plus(3001), vec![5_u16]).unwrap();
        epoch.unlock().unwrap();
        assert_eq!(late.wait().unwrap(), [5]);
        let epoch = window.lock(LockKind::Exclusive, right(team)).unwrap();
        assert_eq!(epoch.get_value::<u16>(disp.plus(3001)).unwrap(), 5);
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn requests_give_their_buffers_back() {
    everywhere("operations::requests_give_their_buffers_back", 2, requests);
}

/// Every form of an operation under a lock, on the null target, writes nothing and reads nothing.
fn null_forms(null: &Target<'_, Mapped>) {
    let (disp, plain) = (WindowDisp(i64::MIN), Layout::of::<u32>());
    assert_eq!(null.rank(), None);
    assert_eq!(null.rput(disp, vec![1_u8; 3]).unwrap().wait().unwrap(), [1; 3]);
    assert_eq!(null.rget(disp, vec![1_u8; 3]).unwrap().wait().unwrap(), [1; 3]);
    assert_eq!(null.raccumulate(disp, Op::Max, vec![1_u8]).unwrap().wait().unwrap(), [1]);
    assert_eq!(null.rget_accumulate(disp, Op::Max, &[1], vec![9_u8]).unwrap().wait().unwrap(), [9]);
    let mut dest = [7_u32];
    null.put_layout(disp, plain.item(), &dest, plain.item()).unwrap();
    null.get_layout(disp, plain.item(), &mut dest, plain.item()).unwrap();
    let mut results = [8_u32];
    null.get_accumulate_layout(disp, plain.item(), Op::Sum, &dest, plain.item(), &mut results, plain.item()).unwrap();
    assert_eq!((dest, results), ([7], [8]));
    assert_eq!(null.fetch_and_op(disp, Op::Sum, 5_u64).unwrap(), 0);
    assert_eq!(null.compare_and_swap(disp, 5_u64, 6).unwrap(), 0);
    // Errors that do not depend on the target stay errors.
    assert_eq!(null.accumulate(disp, Op::BitXor, &[1.0_f64]).unwrap_err().class(), Class::Op);
    assert_eq!(null.put_layout(disp, plain.items(2), &dest, plain.item()).unwrap_err().class(), Class::Count);
}

#[test]
fn the_null_target_takes_every_form() {
    threads(1, |team| {
        let mut window = Window::allocate(team, 0).unwrap();
        let epoch = window.lock_all().unwrap();
        null_forms(&epoch.at(None).unwrap());
        epoch.flush(None).unwrap();
        epoch.flush_local(None).unwrap();
        epoch.unlock_all().unwrap();
    });
}

/// A lock of the null target locks no rank, under any policy and transport.
#[test]
fn the_null_target_is_locked_at_once() {
    threads(2, |team| {
        for hints in ["", "rmalab_lock_policy=mcs-rw-rp", "rmalab_transport=two-sided"] {
            let mut window = Window::builder(team).info(&hints.parse().unwrap()).allocate(8).unwrap();
            for kind in [LockKind::Shared, LockKind::Exclusive] {
                let epoch = window.lock(kind, None).unwrap();
                null_forms(&epoch);
                epoch.flush().unwrap();
                epoch.flush_local().unwrap();
                epoch.batch(|batch| batch.put(&epoch, WindowDisp(3), &[1_u8])).unwrap();
                // It excludes no rank, not even this one.
                team.barrier().unwrap();
                let other = window.lock(LockKind::Exclusive, team.rank()).unwrap();
                let again = window.lock_assert(kind, None, Assert::NoCheck).unwrap();
                other.unlock().unwrap();
                again.unlock().unwrap();
                epoch.unlock().unwrap();
            }
            drop(window.lock(LockKind::Exclusive, None).unwrap());
            // The epoch is over, so other epochs may open.
            window.lock_all().unwrap().unlock_all().unwrap();
            window.fence().unwrap().close().unwrap();
            window.free().unwrap();
        }
    });
}

/// Counts and displacements beyond 32 bits.
#[test]
fn counts_and_displacements_have_64_bits() {
    const HUGE: u64 = 1 << 40;
    let world = World::threads(1).segment_bytes((4 << 30) + (1 << 20)).run(|ra| {
        let team = Team::new(ra).unwrap();
        let bytes = (4 << 30) + 4096;
        let window = Window::allocate(&team, bytes).unwrap();
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        let last = WindowDisp(bytes as i64 - 8);
        epoch.put_value(last, 7_u64).unwrap();
        assert_eq!(epoch.fetch_and_op(last, Op::Sum, 1_u64).unwrap(), 7);
        // The first and the last byte of the window in one layout.
        let ends = Layout::hvector(2, 1, bytes as i64 - 1, &Layout::of::<u8>()).unwrap();
        epoch.put_layout(WindowDisp(0), ends.item(), &[1_u8, 2], Layout::of::<u8>().items(2)).unwrap();
        assert_eq!(epoch.get_value::<u8>(WindowDisp(bytes as i64 - 1)).unwrap(), 2);
        // The other forms, at the last words of the window.
        epoch.put_value(last, 8_u64).unwrap();
        epoch.accumulate(last, Op::Sum, &[1_u64]).unwrap();
        let mut old = [0_u64];
        epoch.get_accumulate(last, Op::Prod, &[2], &mut old).unwrap();
        assert_eq!(old, [9]);
        epoch.raccumulate(last, Op::Sum, vec![1_u64]).unwrap().wait().unwrap();
        assert_eq!(epoch.rget_accumulate(last, Op::NoOp, &[], vec![0_u64]).unwrap().wait().unwrap(), [19]);
        epoch.rput(last.plus(-8), vec![5_u64]).unwrap().wait().unwrap();
        epoch.flush().unwrap();
        assert_eq!(epoch.rget(last.plus(-8), vec![0_u64; 2]).unwrap().wait().unwrap(), [5, 19]);
        assert_eq!(window.shared_query(Rank(0)).unwrap().bytes(), bytes);
        // A layout with more items than memory has bytes can be described and measured, but is refused.
        let same = Layout::hvector(HUGE, 1, 0, &Layout::of::<u8>()).unwrap();
        let error = epoch.put_layout(WindowDisp(0), Layout::of::<u8>().items(HUGE), &[1_u8], same.item()).unwrap_err();
        assert!(matches!(error, Error::OutOfWindow { len: HUGE, .. }), "{error}");
        let none = Layout::contiguous(0, &Layout::of::<u8>()).unwrap();
        epoch.put_layout::<u8>(WindowDisp(0), none.items(HUGE), &[], none.items(HUGE)).unwrap();
        epoch.unlock().unwrap();
        window.free().unwrap();
    });
    world.unwrap();
}

/// An epoch asserted free of conflicts locks nothing, but its operations work.
fn nocheck(team: &Team<'_, Mapped>) {
    for made in Made::ALL {
        let (mut window, starts) = made.make(team, Config::default(), 64);
        team.barrier().unwrap();
        let disp = |target: Rank| WindowDisp(starts[target.index()]);
        let last = Rank(team.size() - 1);
        // All ranks at once, in exclusive mode, since nothing is locked: the operations are still atomic.
        let epoch = window.lock_assert(LockKind::Exclusive, last, Assert::NoCheck).unwrap();
        team.barrier().unwrap();
        for _ in 0..100 {
            epoch.accumulate(disp(last), Op::Sum, &[1_u64; 6]).unwrap();
        }
        epoch.flush_local().unwrap();
        epoch.flush().unwrap();
        epoch.unlock().unwrap();
        let epoch = window.lock_all_assert(Assert::NoCheck).unwrap();
        for target in (0..team.size()).map(Rank) {
            epoch.at(target).unwrap().accumulate(disp(target).plus(48), Op::Sum, &[1_u16]).unwrap();
            epoch.flush_local(target).unwrap();
            epoch.flush(target).unwrap();
        }
        epoch.flush_local_all().unwrap();
        epoch.flush_all().unwrap();
        epoch.sync();
        team.barrier().unwrap();
        let sums = epoch.at(last).unwrap().get_value::<[u64; 6]>(disp(last)).unwrap();
        assert_eq!(sums, [100 * u64::from(team.size()); 6], "{made:?}");
        for target in (0..team.size()).map(Rank) {
            let count = epoch.at(target).unwrap().get_value::<u16>(disp(target).plus(48)).unwrap();
            assert_eq!(u32::from(count), team.size());
        }
        epoch.unlock_all().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn nocheck_skips_the_acquisition_and_nothing_else() {
    everywhere("operations::nocheck_skips_the_acquisition_and_nothing_else", 3, nocheck);
}

/// Asserts that hold change only the cost.
fn fences_with_asserts(team: &Team<'_, Mapped>) {
    let me = u64::from(team.rank().0);
    for made in Made::ALL {
        let (mut window, starts) = made.make(team, Config::default(), 64);
        let (to, from) = (right(team), (me + u64::from(team.size()) - 1) % u64::from(team.size()));
        let read = |epoch: &rmalab_windows::Fence<'_, '_, Mapped>, rank: Rank| {
            epoch.at(rank).unwrap().get_value::<u64>(WindowDisp(starts[rank.index()])).unwrap()
        };
        // There is nothing before it, and no rank puts.
        let first = FenceAssert { noprecede: true, noput: true, ..FenceAssert::default() };
        let mut epoch = window.fence_assert(first).unwrap();
        for round in 1..=50 {
            epoch.at(to).unwrap().put_value(WindowDisp(starts[to.index()]), 100 * round + me).unwrap();
            // No rank has stored locally, and no rank puts until the next fence.
            epoch = epoch.next_assert(FenceAssert { nostore: true, noput: true, ..FenceAssert::default() }).unwrap();
            assert_eq!(read(&epoch, team.rank()), 100 * round + from, "{made:?}");
            assert_eq!(read(&epoch, to), 100 * round + me);
            epoch = epoch.next_assert(FenceAssert { nostore: true, ..FenceAssert::default() }).unwrap();
        }
        drop(epoch.next_assert(FenceAssert { nosucceed: true, ..FenceAssert::default() }).unwrap());
        // No operations follow: other epochs may open.
        window.lock(LockKind::Shared, to).unwrap().unlock().unwrap();
        // Both asserts together mean no fence at all.
        let none = FenceAssert { noprecede: true, nosucceed: true, ..FenceAssert::default() };
        drop(window.fence_assert(none).unwrap());
        window.lock_all().unwrap().unlock_all().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn asserts_of_fences_change_no_result() {
    everywhere("operations::asserts_of_fences_change_no_result", 3, fences_with_asserts);
}

fn pscw_with_asserts(team: &Team<'_, Mapped>) {
    let me = u64::from(team.rank().0);
    for &pscw in PscwStrategy::ALL {
        let config = Config { pscw, ..Config::default() };
        let mut window = Window::builder(team).config(config).allocate(64).unwrap();
        let (to, from) = (right(team), Rank((team.rank().0 + team.size() - 1) % team.size()));
        for round in 1..=50 {
            // With nocheck, other means order the post first, and neither side notifies the other.
            let nocheck = round % 2 == 0;
            let post = PostAssert { nocheck, nostore: round % 3 == 0, ..PostAssert::default() };
            let (mut access, mut exposure) = window.pscw().unwrap();
            let exposed = exposure.post_assert(&[from], post).unwrap();
            if nocheck {
                team.barrier().unwrap();
            }
            let epoch = access.start_assert(&[to], StartAssert { nocheck }).unwrap();
            epoch.at(to).unwrap().put_value(WindowDisp(0), 100 * round + me).unwrap();
            epoch.complete().unwrap();
            exposed.wait().unwrap();
            let seen = window.local().unwrap().load::<u64>(WindowDisp(0)).unwrap();
            assert_eq!(seen, 100 * round + u64::from(from.0));
            // This epoch has only gets.
            let (mut access, mut exposure) = window.pscw().unwrap();
            let exposed = exposure.post_assert(&[from], PostAssert { noput: true, ..PostAssert::default() }).unwrap();
            let epoch = access.start(&[to]).unwrap();
            assert_eq!(epoch.at(to).unwrap().get_value::<u64>(WindowDisp(0)).unwrap(), 100 * round + me);
            epoch.complete().unwrap();
            exposed.wait().unwrap();
        }
        window.free().unwrap();
    }
}

#[test]
fn asserts_of_post_and_start_change_no_result() {
    everywhere("operations::asserts_of_post_and_start_change_no_result", 3, pscw_with_asserts);
}

/// Exclusive holders make two numbers unequal and then equal again; no other rank sees them unequal.
fn exclusion(team: &Team<'_, Mapped>) {
    for made in Made::ALL {
        let (mut window, starts) = made.make(team, Config::default(), 64);
        team.barrier().unwrap();
        let (low, high) = (WindowDisp(starts[0]), WindowDisp(starts[0] + 40));
        let equal = |target: &Target<'_, Mapped>| {
            let seen = [low, high].map(|disp| target.get_value::<u64>(disp).unwrap());
            assert_eq!(seen[0], seen[1], "{made:?}");
        };
        for round in 0..200 {
            match (team.rank().0 + round) % 4 {
                0 => equal(&window.lock(LockKind::Shared, Rank(0)).unwrap()),
                1 => equal(&window.lock_all().unwrap().at(Rank(0)).unwrap()),
                _ => {
                    let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
                    equal(&epoch);
                    let value = epoch.get_value::<u64>(low).unwrap() + 1;
                    epoch.put_value(low, value).unwrap();
                    epoch.flush().unwrap();
                    epoch.put_value(high, value).unwrap();
                    epoch.unlock().unwrap();
                }
            }
        }
        team.barrier().unwrap();
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        assert_eq!(epoch.get_value::<u64>(high).unwrap(), 100 * u64::from(team.size()));
        epoch.unlock().unwrap();
        window.free().unwrap();
    }
}

#[test]
fn exclusive_locks_exclude_shared_ones_and_lock_all() {
    everywhere("operations::exclusive_locks_exclude_shared_ones_and_lock_all", 4, exclusion);
}

/// One epoch of every kind, each on its own window, all open at once.
fn overlapping_epochs(team: &Team<'_, Mapped>) {
    let (me, to) = (team.rank(), right(team));
    let make = || Window::allocate(team, 8).unwrap();
    let (mut fenced, locked, mut all, mut posted) = (make(), make(), make(), make());
    for round in 1..=50_u64 {
        let fence = fenced.fence().unwrap();
        let (mut access, mut exposure) = posted.pscw().unwrap();
        let others: Vec<Rank> = (0..team.size()).map(Rank).collect();
        let exposed = exposure.post(&others).unwrap();
        let lock_all = all.lock_all().unwrap();
        let started = access.start(&others).unwrap();
        let lock = locked.lock(LockKind::Exclusive, to).unwrap();
        fence.at(to).unwrap().put_value(WindowDisp(0), round).unwrap();
        started.at(to).unwrap().put_value(WindowDisp(0), round).unwrap();
        lock_all.at(to).unwrap().put_value(WindowDisp(0), round).unwrap();
        lock.put_value(WindowDisp(0), round).unwrap();
        // The epochs do not end in the order in which they began.
        lock_all.unlock_all().unwrap();
        lock.unlock().unwrap();
        started.complete().unwrap();
        fence.close().unwrap();
        exposed.wait().unwrap();
        team.barrier().unwrap();
        for window in [&fenced, &locked, &all, &posted] {
            assert_eq!(window.local().unwrap().load::<u64>(WindowDisp(0)).unwrap(), round, "{me}");
        }
        team.barrier().unwrap();
    }
    for window in [fenced, locked, all, posted] {
        window.free().unwrap();
    }
}

#[test]
fn epochs_of_different_windows_overlap() {
    everywhere("operations::epochs_of_different_windows_overlap", 3, overlapping_epochs);
}

/// A rank's lock of itself is held when the call returns, so its loads and stores are safe then.
#[test]
fn a_rank_locks_and_reaches_itself() {
    threads(3, |team| {
        for made in [Made::Allocated, Made::Created, Made::Shared] {
            let (window, _) = made.make(team, Config::default(), 8);
            team.barrier().unwrap();
            for _ in 0..300 {
                let mine = window.lock(LockKind::Exclusive, team.rank()).unwrap();
                let local = window.local().unwrap();
                let value: u64 = local.load(WindowDisp(0)).unwrap();
                local.store(WindowDisp(0), value + 1).unwrap();
                window.sync();
                mine.unlock().unwrap();
                let other = window.lock(LockKind::Exclusive, right(team)).unwrap();
                let value: u64 = other.get_value(WindowDisp(0)).unwrap();
                other.put_value(WindowDisp(0), value + 1).unwrap();
                other.unlock().unwrap();
            }
            team.barrier().unwrap();
            assert_eq!(window.local().unwrap().load::<u64>(WindowDisp(0)).unwrap(), 600, "{made:?}");
            window.free().unwrap();
        }
    });
}
