//! One rank's run of a program on the window layer, checked against the model phase by phase.

use std::collections::HashMap;

use bytemuck::allocation::pod_collect_to_vec;
use rmalab_atomics::{Mapped, Rank, RemoteAtomics};
use rmalab_windows::{
    Access, Assert, Byte, Complex, DoubleInt, Element, Error, Exposure, Fence, FenceAssert, Flavor, Kind, Lock,
    LockAll, LockKind, Logical, LongInt, Op, Pair, Passive, PostAssert, Request, ShortInt, StartAssert, Swappable,
    Target, Team, Transport, UserMemory, Window, WindowDisp,
};

use crate::oracle::{Oracle, Seen, differ, pattern, stored};
use crate::program::{
    Act, Call, Locks, Phase, Plan, Round, Section, Step, Storm, StormWay, Sync, WindowPlan, transport,
};

type Win<'t> = Window<'t, Mapped>;

/// Runs `$body` with the element type of a kind.
macro_rules! with_kind {
    ($kind:expr, $T:ident => $body:expr) => {
        with_kind!(@ $kind, $T => $body,
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64,
            PairI16 Pair<i16, i16>, PairI32 Pair<i32, i32>, PairI64 Pair<i64, i64>, PairU32 Pair<u32, u32>,
            PairU64 Pair<u64, u64>, PairF32I32 Pair<f32, i32>, PairF64I64 Pair<f64, i64>, DoubleInt DoubleInt,
            LongInt LongInt, ShortInt ShortInt, ComplexF32 Complex<f32>, ComplexF64 Complex<f64>, Logical Logical,
            Byte Byte)
    };
    (@ $kind:expr, $T:ident => $body:expr, $($variant:ident $type:ty),*) => {
        match $kind {
            $(Kind::$variant => { type $T = $type; $body })*
        }
    };
}

/// As `with_kind`, of kinds that compare-and-swap takes.
macro_rules! with_swappable {
    ($kind:expr, $T:ident => $body:expr) => {
        with_swappable!(@ $kind, $T => $body, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            Logical Logical, Byte Byte)
    };
    (@ $kind:expr, $T:ident => $body:expr, $($variant:ident $type:ty),*) => {
        match $kind {
            $(Kind::$variant => { type $T = $type; $body })*
            kind => panic!("compare_and_swap does not take {kind}"),
        }
    };
}

fn bytes_of<T: Element>(elements: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(elements).to_vec()
}

/// A call of any epoch.
fn call<T: Element, P>(target: &Target<'_, Mapped, P>, disp: WindowDisp, act: &Act) -> Result<Vec<u8>, Error> {
    let (here, there) = (act.here.layout(act.n, act.kind), act.there.layout(act.n, act.kind));
    let (origin, to) = (here.0.items(here.1), there.0.items(there.1));
    let source: Vec<T> = pod_collect_to_vec(&act.source());
    let mut dest: Vec<T> = pod_collect_to_vec(&act.blank());
    let nothing = Ok(Vec::new());
    match act.call {
        Call::Put => target.put(disp, &source).and(nothing),
        Call::PutValue => target.put_value(disp, source[0]).and(nothing),
        Call::PutLayout => target.put_layout(disp, to, &source, origin).and(nothing),
        Call::Accumulate => target.accumulate(disp, act.op, &source).and(nothing),
        Call::AccumulateLayout => target.accumulate_layout(disp, to, act.op, &source, origin).and(nothing),
        Call::Get => target.get(disp, &mut dest).map(|()| bytes_of(&dest)),
        Call::GetValue => target.get_value::<T>(disp).map(|value| bytes_of(&[value])),
        Call::GetLayout => target.get_layout(disp, to, &mut dest, origin).map(|()| bytes_of(&dest)),
        Call::GetAccumulate => target.get_accumulate(disp, act.op, &source, &mut dest).map(|()| bytes_of(&dest)),
        Call::GetAccumulateLayout => {
            let results = act.results.layout(act.n, act.kind);
            let results = results.0.items(results.1);
            target
                .get_accumulate_layout(disp, to, act.op, &source, origin, &mut dest, results)
                .map(|()| bytes_of(&dest))
        }
        Call::FetchAndOp => target.fetch_and_op(disp, act.op, source[0]).map(|old| bytes_of(&[old])),
        Call::CompareAndSwap => swap(target, disp, act),
        _ => panic!("{:?} in an epoch without requests", act.call),
    }
}

fn swap<P>(target: &Target<'_, Mapped, P>, disp: WindowDisp, act: &Act) -> Result<Vec<u8>, Error> {
    fn swap<T: Swappable, P>(target: &Target<'_, Mapped, P>, disp: WindowDisp, act: &Act) -> Result<Vec<u8>, Error> {
        let element = |bytes: Vec<u8>| -> T { bytemuck::pod_read_unaligned(&bytes) };
        let old = target.compare_and_swap(disp, element(act.expected()), element(act.value(0)))?;
        Ok(bytes_of(&[old]))
    }
    with_swappable!(act.kind, T => swap::<T, P>(target, disp, act))
}

/// Adds 1 many times, while the others do; returns the sum of the values that were found.
fn count<P>(target: &Target<'_, Mapped, P>, disp: WindowDisp, storm: &Storm) -> Result<u64, Error> {
    fn count<T: Swappable, P>(target: &Target<'_, Mapped, P>, disp: WindowDisp, storm: &Storm) -> Result<u64, Error> {
        let one = T::from_word(1);
        let mut sum = 0u64;
        for _ in 0..storm.times {
            let mut old = [T::zeroed()];
            match storm.way {
                StormWay::FetchAndOp => old[0] = target.fetch_and_op(disp, Op::Sum, one)?,
                StormWay::Accumulate => target.accumulate(disp, Op::Sum, &[one])?,
                StormWay::GetAccumulate => target.get_accumulate(disp, Op::Sum, &[one], &mut old)?,
                StormWay::CompareAndSwap | StormWay::ReadModifyWrite => {
                    // The first guess may be right.
                    loop {
                        let next = T::combine(Op::Sum, old[0], one);
                        let seen = target.compare_and_swap(disp, old[0], next)?;
                        if seen == old[0] {
                            break;
                        }
                        old[0] = seen;
                    }
                }
            }
            sum = sum.wrapping_add(old[0].to_word());
        }
        Ok(sum)
    }
    with_swappable!(storm.kind, T => count::<T, P>(target, disp, storm))
}

/// As [`count`], by a get and a put under an exclusive lock.
fn count_locked<T: Swappable>(window: &Win<'_>, disp: WindowDisp, storm: &Storm) -> Result<u64, Error> {
    let mut sum = 0u64;
    for _ in 0..storm.times {
        let lock = window.lock(LockKind::Exclusive, Rank(storm.target))?;
        let old: T = lock.get_value(disp)?;
        lock.put_value(disp, T::combine(Op::Sum, old, T::from_word(1)))?;
        lock.unlock()?;
        sum = sum.wrapping_add(old.to_word());
    }
    Ok(sum)
}

/// What a call with a request has come to.
enum Begun<'e> {
    Done(Vec<u8>),
    UnderWay(Request<'e, Mapped, u8>),
}

/// A call of passive epochs only.
fn call_passive<'e, T: Element>(
    target: &Target<'e, Mapped, Passive>,
    disp: WindowDisp,
    act: &Act,
) -> Result<Begun<'e>, Error> {
    let (here, there) = (act.here.layout(act.n, act.kind), act.there.layout(act.n, act.kind));
    let (origin, to) = (here.0.items(here.1), there.0.items(there.1));
    match act.call {
        Call::Rput => target.rput(disp, act.source()).map(Begun::UnderWay),
        Call::Rget => target.rget(disp, act.blank()).map(Begun::UnderWay),
        Call::RputLayout => target.rput_layout(disp, to, act.source(), origin).map(Begun::UnderWay),
        Call::RgetLayout => target.rget_layout(disp, to, act.blank(), origin).map(Begun::UnderWay),
        Call::Raccumulate => {
            let source: Vec<T> = pod_collect_to_vec(&act.source());
            let given = target.raccumulate(disp, act.op, source.clone())?.wait()?;
            assert_eq!(bytes_of(&given), bytes_of(&source), "the buffer of raccumulate");
            Ok(Begun::Done(Vec::new()))
        }
        Call::RgetAccumulate => {
            let source: Vec<T> = pod_collect_to_vec(&act.source());
            let mut request = target.rget_accumulate(disp, act.op, &source, pod_collect_to_vec(&act.blank()))?;
            while !request.test()? {}
            Ok(Begun::Done(bytes_of(&request.wait()?)))
        }
        Call::ReadModifyWrite => {
            let old: T = target.get_value(disp)?;
            let new = T::combine(act.op, old, bytemuck::pod_read_unaligned(&act.value(0)));
            target.put_value(disp, new)?;
            Ok(Begun::Done(bytes_of(&[old])))
        }
        _ => call::<T, _>(target, disp, act).map(Begun::Done),
    }
}

/// A window, and what makes its displacements addresses where it is dynamic.
struct Made<'t> {
    window: Win<'t>,
    /// What a dynamic window has attached, if that is a window.
    inner: Option<Win<'t>>,
    /// Where displacement 0 of each rank is.
    bases: Vec<i64>,
}

fn make<'t>(team: &'t Team<'t, Mapped>, plan: &WindowPlan) -> Result<Made<'t>, Error> {
    let me = team.rank().index();
    let (bytes, unit) = (plan.sizes[me], plan.units[me]);
    let memory = || UserMemory::from_vec(pattern(me as u32, bytes));
    let builder = Window::builder(team).config(plan.config).disp_unit(unit);
    let mut bases = vec![0; team.size() as usize];
    let mut inner = None;
    let window = match plan.flavor {
        Flavor::Allocate => builder.allocate(bytes as u64)?,
        Flavor::Shared => builder.allocate_shared(bytes as u64)?,
        Flavor::Create => builder.create(memory())?,
        Flavor::Dynamic => {
            let window = builder.create_dynamic()?;
            let base = if plan.attach_own {
                if bytes == 0 { WindowDisp(0) } else { window.attach(memory())? }
            } else {
                let shared = inner.insert(Window::allocate_shared(team, bytes as u64)?);
                if bytes == 0 { WindowDisp(0) } else { window.attach_window(shared)? }
            };
            bases = team.allgather(&[base.0 as u64])?.into_iter().map(|base| base as i64).collect();
            window
        }
    };
    assert_eq!(window.flavor(), plan.flavor);
    Ok(Made { window, inner, bases })
}

impl Made<'_> {
    fn read(&self, len: usize, me: Rank) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        match (&self.inner, self.window.flavor()) {
            (Some(inner), _) => inner.local()?.read(WindowDisp(0), &mut bytes)?,
            (None, Flavor::Dynamic) => {
                let lock = self.window.lock(LockKind::Shared, me)?;
                lock.get(WindowDisp(self.bases[me.index()]), &mut bytes)?;
                lock.unlock()?;
            }
            _ => self.window.local()?.read(WindowDisp(0), &mut bytes)?,
        }
        Ok(bytes)
    }

    /// Local stores; every one starts at a unit, so bytes before it are written again.
    fn store(&self, at: usize, bytes: &[u8], me: Rank) -> Result<(), Error> {
        let local = match (&self.inner, self.window.flavor()) {
            (Some(inner), _) => inner.local()?,
            (None, Flavor::Dynamic) => {
                let lock = self.window.lock(LockKind::Exclusive, me)?;
                lock.put(WindowDisp(self.bases[me.index()] + at as i64), bytes)?;
                return lock.unlock();
            }
            _ => self.window.local()?,
        };
        let unit = local.disp_unit() as usize;
        let before = at % unit;
        let mut all = vec![0; before];
        let disp = WindowDisp((at / unit) as i64);
        local.read(disp, &mut all)?;
        all.extend_from_slice(bytes);
        local.write(disp, &all)
    }
}

/// A window in a phase: itself, or the two sides of PSCW.
enum Handle<'w, 't> {
    Window(&'w mut Win<'t>),
    Sides(rmalab_windows::AccessSide<'w, 't, Mapped>, rmalab_windows::ExposureSide<'w, 't, Mapped>),
}

/// A window in a round.
enum Open<'h, 't> {
    Passive(&'h mut Win<'t>),
    Fence(Fence<'h, 't, Mapped>),
    Pscw(Access<'h, 't, Mapped>, Exposure<'h, 't, Mapped>),
}

/// A window in a section.
enum Held<'s, 'h, 't> {
    None,
    All(LockAll<'s, 't, Mapped>),
    Some(Vec<(u32, Lock<'s, 't, Mapped>)>),
    Fence(&'s Fence<'h, 't, Mapped>),
    Pscw(&'s Access<'h, 't, Mapped>),
}

struct Rankwise<'a> {
    ra: &'a Mapped,
    team: &'a Team<'a, Mapped>,
    plan: &'a Plan,
    me: u32,
    /// What the acts of this phase have fetched.
    log: Vec<Vec<u8>>,
    /// The sum of the values that it has found while all counted up.
    found: u64,
}

/// Runs a program as one rank; panics where the layer and the model differ.
pub(crate) fn run(ra: &Mapped, team: &Team<'_, Mapped>, plan: &Plan) -> Result<(), Error> {
    let me = ra.rank().0;
    let free = ra.heap().free_bytes();
    let mut made = plan.windows.iter().map(|window| make(team, window)).collect::<Result<Vec<_>, _>>()?;
    let contents = plan.windows.iter().map(|window| {
        let filled = window.flavor == Flavor::Create || window.attach_own;
        let part = |(rank, &len): (u32, &usize)| if filled { pattern(rank, len) } else { vec![0; len] };
        (0..).zip(&window.sizes).map(part).collect()
    });
    let mut oracle = Oracle::new(contents.collect());
    let mut rank = Rankwise { ra, team, plan, me, log: Vec::new(), found: 0 };
    // What a window's making does not synchronize: memory that is attached or first stored to.
    team.barrier()?;
    for (number, phase) in plan.phases.iter().enumerate() {
        rank.phase(&mut made, phase)?;
        rank.check(&made, phase, &mut oracle).unwrap_or_else(|what| panic!("phase {number}, rank {me}: {what}"));
    }
    for (number, made) in made.into_iter().enumerate() {
        let Made { window: made, inner, bases } = made;
        if inner.is_some() && bases[me as usize] != 0 {
            made.detach_window(WindowDisp(bases[me as usize]))?;
        }
        let memory = made.reclaim()?;
        for memory in memory {
            let found: Vec<u8> = memory.into_vec().expect("the vector that was given");
            oracle.compare(plan, number, me, &found).unwrap_or_else(|what| panic!("after reclaim: {what}"));
        }
        if let Some(inner) = inner {
            inner.free()?;
        }
    }
    assert_eq!(ra.heap().free_bytes(), free, "memory that the windows have not given back");
    Ok(())
}

impl Rankwise<'_> {
    fn phase(&mut self, made: &mut [Made<'_>], phase: &Phase) -> Result<(), Error> {
        self.log.clear();
        for &(rank, window, at, len, salt) in &phase.stores {
            if rank == self.me {
                made[window].store(at, &stored(salt, len), Rank(rank))?;
                made[window].window.sync();
            }
        }
        if phase.barrier {
            self.team.barrier()?;
        }
        let bases: Vec<Vec<i64>> = made.iter().map(|made| made.bases.clone()).collect();
        let mut handles = Vec::new();
        for (made, sync) in made.iter_mut().zip(&phase.syncs) {
            handles.push(match sync {
                Sync::Pscw => {
                    let (access, exposure) = made.window.pscw()?;
                    Handle::Sides(access, exposure)
                }
                Sync::Fence | Sync::Passive => Handle::Window(&mut made.window),
            });
        }
        let last = phase.rounds.len() - 1;
        for (number, round) in phase.rounds.iter().enumerate() {
            self.round(&mut handles, &bases, phase, round, number == 0, number == last)?;
        }
        if phase.syncs.contains(&Sync::Passive) {
            self.team.barrier()?;
        }
        Ok(())
    }

    fn round(
        &mut self,
        handles: &mut [Handle<'_, '_>],
        bases: &[Vec<i64>],
        phase: &Phase,
        round: &Round,
        first: bool,
        last: bool,
    ) -> Result<(), Error> {
        let me = self.me as usize;
        let mut opens = Vec::new();
        for (window, handle) in handles.iter_mut().enumerate() {
            let nostore = !phase.stores.iter().any(|store| (store.0, store.1) == (self.me, window));
            let noput = !round.written[window][me];
            opens.push(match handle {
                Handle::Window(made) => {
                    if phase.syncs[window] == Sync::Passive {
                        Open::Passive(made)
                    } else {
                        let noprecede = first && phase.noprecede;
                        Open::Fence(made.fence_assert(FenceAssert { nostore, noput, noprecede, nosucceed: false })?)
                    }
                }
                Handle::Sides(access, exposure) => {
                    let starts = &round.starts[window];
                    let to: Vec<Rank> = starts[me].iter().copied().map(Rank).collect();
                    let from: Vec<Rank> = (0..self.plan.ranks)
                        .filter(|&rank| starts[rank as usize].contains(&self.me))
                        .map(Rank)
                        .collect();
                    let nocheck = phase.nocheck;
                    let exposure = exposure.post_assert(&from, PostAssert { nocheck, nostore, noput })?;
                    if nocheck {
                        self.team.barrier()?;
                    }
                    Open::Pscw(access.start_assert(&to, StartAssert { nocheck })?, exposure)
                }
            });
        }
        for section in &round.sections[me] {
            self.section(&mut opens, bases, section)?;
        }
        for open in opens {
            match open {
                Open::Passive(_) => {}
                // An open epoch is closed by the next round's fence.
                Open::Fence(fence) if !last => {
                    if phase.extra {
                        drop(fence.next()?);
                    }
                }
                Open::Fence(fence) => fence.close()?,
                Open::Pscw(access, mut exposure) => {
                    access.complete()?;
                    if phase.test {
                        while !exposure.test()? {
                            self.ra.pause(1)?;
                        }
                    } else {
                        exposure.wait()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn section(&mut self, opens: &mut [Open<'_, '_>], bases: &[Vec<i64>], section: &Section) -> Result<(), Error> {
        if let [Step::Storm(storm @ Storm { way: StormWay::ReadModifyWrite, .. })] = section.steps[..] {
            let Open::Passive(window) = &opens[storm.window] else { unreachable!("locks in an active epoch") };
            let disp = WindowDisp(storm.disp + bases[storm.window][storm.target as usize]);
            self.found = with_swappable!(storm.kind, T => count_locked::<T>(window, disp, &storm))?;
            return Ok(());
        }
        let mut held = Vec::new();
        let windows = bases.iter().zip(&self.plan.windows);
        for ((open, locks), (bases, plan)) in opens.iter_mut().zip(&section.locks).zip(windows) {
            let assert = |nocheck| if nocheck { Assert::NoCheck } else { Assert::None };
            held.push(match (open, locks) {
                (Open::Fence(fence), _) => Held::Fence(fence),
                (Open::Pscw(access, _), _) => Held::Pscw(access),
                (Open::Passive(_), Locks::None) => Held::None,
                (Open::Passive(window), Locks::All { nocheck }) => {
                    let all = window.lock_all_assert(assert(*nocheck))?;
                    if transport() != Transport::OneSided {
                        // Acquires all locks, in the order in which others may hold several.
                        for (rank, _) in (0..).zip(&plan.sizes).filter(|&(_, &bytes)| bytes > 0) {
                            all.at(Rank(rank))?.get(WindowDisp(bases[rank as usize]), &mut [0_u8])?;
                        }
                    }
                    Held::All(all)
                }
                (Open::Passive(window), Locks::Some(locks)) => {
                    let mut all = Vec::new();
                    for &(target, kind, nocheck) in locks {
                        all.push((target, window.lock_assert(kind, Rank(target), assert(nocheck))?));
                    }
                    Held::Some(all)
                }
            });
        }
        {
            let mut requests = Vec::new();
            for step in &section.steps {
                match step {
                    Step::Storm(storm) => {
                        let disp = WindowDisp(storm.disp + bases[storm.window][storm.target as usize]);
                        let to = Rank(storm.target);
                        self.found = match &held[storm.window] {
                            Held::None => unreachable!("read-modify-write has a loop of its own"),
                            Held::All(all) => count(&all.at(to)?, disp, storm)?,
                            Held::Some(locks) => count(lock_of(locks, storm.target), disp, storm)?,
                            Held::Fence(fence) => count(&fence.at(to)?, disp, storm)?,
                            Held::Pscw(access) => count(&access.at(to)?, disp, storm)?,
                        };
                    }
                    Step::Act(act) => self.act(&held, bases, act, &mut requests)?,
                    Step::Settle { window, target } => {
                        self.wait(&mut requests)?;
                        match &held[*window] {
                            Held::All(all) => all.flush(Rank(*target))?,
                            Held::Some(locks) => lock_of(locks, *target).flush()?,
                            _ => unreachable!("a flush in an active epoch"),
                        }
                    }
                    Step::Other { window, target, which } => match &held[*window] {
                        Held::All(all) => match which % 5 {
                            0 => all.flush_all()?,
                            1 => all.flush_local_all()?,
                            2 => all.flush_local(Rank(*target))?,
                            3 => all.sync(),
                            _ => all.flush(Rank(*target))?,
                        },
                        Held::Some(locks) => match which % 2 {
                            0 => lock_of(locks, *target).flush()?,
                            _ => lock_of(locks, *target).flush_local()?,
                        },
                        _ => unreachable!("a flush in an active epoch"),
                    },
                }
            }
            self.wait(&mut requests)?;
        }
        for held in held {
            match held {
                Held::All(all) if section.end & 1 == 0 => all.unlock_all()?,
                Held::Some(mut locks) if section.end & 1 == 0 => {
                    if section.end & 2 == 0 {
                        locks.reverse();
                    }
                    for (_, lock) in locks {
                        lock.unlock()?;
                    }
                }
                // Dropped.
                _ => {}
            }
        }
        Ok(())
    }

    fn wait(&mut self, requests: &mut Vec<(usize, bool, Request<'_, Mapped, u8>)>) -> Result<(), Error> {
        for (id, fetches, request) in requests.drain(..) {
            let buffer = request.wait()?;
            if fetches {
                self.log[id] = buffer;
            }
        }
        Ok(())
    }

    fn act<'r>(
        &mut self,
        held: &'r [Held<'r, '_, '_>],
        bases: &[Vec<i64>],
        act: &Act,
        requests: &mut Vec<(usize, bool, Request<'r, Mapped, u8>)>,
    ) -> Result<(), Error> {
        assert_eq!(act.id, self.log.len());
        self.log.push(Vec::new());
        let target = act.target.map(Rank);
        let base = target.map_or(0, |target| bases[act.window][target.index()]);
        let disp = WindowDisp(act.disp.wrapping_add(base));
        let result = match &held[act.window] {
            Held::None => unreachable!("an operation on a window that is not locked"),
            Held::Fence(fence) => {
                let target = fence.at(target)?;
                with_kind!(act.kind, T => call::<T, _>(&target, disp, act)).map(Begun::Done)
            }
            Held::Pscw(access) => {
                let target = access.at(target)?;
                with_kind!(act.kind, T => call::<T, _>(&target, disp, act)).map(Begun::Done)
            }
            Held::All(all) if act.call == Call::Batch => {
                let (source, mut dest) = (act.source(), vec![0; act.also.map_or(0, |also| also.2)]);
                let target = all.at(target)?;
                all.batch(|batch| {
                    batch.put(&target, disp, &source)?;
                    act.also.map_or(Ok(()), |(disp, ..)| batch.get(&target, WindowDisp(disp + base), &mut dest))
                })
                .map(|()| Begun::Done(dest))
            }
            Held::All(all) => {
                let target = all.at(target)?;
                with_kind!(act.kind, T => call_passive::<T>(&target, disp, act))
            }
            Held::Some(locks) => {
                let lock = lock_of(locks, act.target.expect("a lock of a rank"));
                if act.call == Call::Batch {
                    let (source, mut dest) = (act.source(), vec![0; act.also.map_or(0, |also| also.2)]);
                    lock.batch(|batch| {
                        batch.put(lock, disp, &source)?;
                        act.also.map_or(Ok(()), |(disp, ..)| batch.get(lock, WindowDisp(disp + base), &mut dest))
                    })
                    .map(|()| Begun::Done(dest))
                } else {
                    let done = with_kind!(act.kind, T => call_passive::<T>(lock, disp, act));
                    if act.call == Call::ReadModifyWrite {
                        lock.flush()?;
                    }
                    done
                }
            }
        };
        if act.refused {
            let error = result.map(drop).expect_err("an operation outside of the window");
            assert!(matches!(error, Error::OutOfWindow { .. } | Error::NotAttached { .. }), "{act:?}: {error}");
            return Ok(());
        }
        match result.unwrap_or_else(|error| panic!("rank {}: {error}: {act:?}", self.me)) {
            Begun::Done(fetched) => self.log[act.id] = fetched,
            // Some are waited for at once, so that both ways are met.
            Begun::UnderWay(request) => {
                requests.push((act.id, act.call.fetches(), request));
                if act.salt & 2 == 0 {
                    self.wait(requests)?;
                }
            }
        }
        Ok(())
    }

    /// Compares everything that this rank has, and has fetched, with the model.
    fn check(&self, made: &[Made<'_>], phase: &Phase, oracle: &mut Oracle) -> Result<(), String> {
        let mut found = Vec::new();
        for (made, window) in made.iter().zip(&self.plan.windows) {
            found.push(made.read(window.sizes[self.me as usize], Rank(self.me)).map_err(|error| error.to_string())?);
        }
        let neighbour = Rank((self.me + 1) % self.plan.ranks);
        // Behind a wait others may still be in their epochs; behind a fence and a barrier nobody is.
        let mut neighbours = Vec::new();
        // Two-sided windows promise nothing of the neighbour's memory to loads.
        if !phase.syncs.contains(&Sync::Pscw) && transport() == Transport::OneSided {
            for (window, (made, plan)) in made.iter().zip(&self.plan.windows).enumerate() {
                if plan.flavor == Flavor::Shared || plan.flavor == Flavor::Allocate {
                    let part = made.window.shared_query(neighbour).map_err(|error| error.to_string())?;
                    let mut bytes = vec![0; part.bytes() as usize];
                    part.read(WindowDisp(0), &mut bytes).map_err(|error| error.to_string())?;
                    neighbours.push((window, bytes));
                }
            }
        }
        let seen = self.gather(phase, &found).map_err(|error| error.to_string())?;
        let expected = oracle.replay(phase, self.me);
        let acts = phase.rounds.iter().flat_map(|round| &round.sections[self.me as usize]);
        let acts = acts.flat_map(|section| &section.steps).filter_map(|step| match step {
            Step::Act(act) => Some(act),
            _ => None,
        });
        for ((act, expected), found) in acts.zip(&expected).zip(&self.log) {
            if let Some(at) = differ(expected, found) {
                return Err(format!("byte {at} of {found:?} is wrong, {expected:?} is expected: {act:?}"));
            }
        }
        oracle.explain(phase, &seen)?;
        for (window, found) in found.iter().enumerate() {
            oracle.compare(self.plan, window, self.me, found)?;
        }
        for (window, found) in &neighbours {
            oracle.compare(self.plan, *window, neighbour.0, found)?;
        }
        Ok(())
    }

    /// Exchanges what all ranks have seen of contended elements; also the barrier that ends the phase.
    fn gather(&self, phase: &Phase, found: &[Vec<u8>]) -> Result<Seen, Error> {
        const WIDTH: usize = 16;
        let acts: HashMap<usize, &Act> = (phase.rounds.iter())
            .flat_map(|round| &round.sections[self.me as usize])
            .flat_map(|section| &section.steps)
            .filter_map(|step| match step {
                Step::Act(act) => Some((act.id, act)),
                _ => None,
            })
            .collect();
        let mut own = Vec::new();
        if let Some(Storm { window, target, start, kind, .. }) = phase.storm {
            let mut left = [0; 8];
            if target == self.me {
                let size = kind.size() as usize;
                left[..size].copy_from_slice(&found[window][start..start + size]);
            }
            own.extend_from_slice(&self.found.to_le_bytes());
            own.extend_from_slice(&left);
        }
        let mut push = |bytes: &[u8]| {
            own.extend_from_slice(bytes);
            own.resize(own.len() + WIDTH - bytes.len(), 0);
        };
        for element in &phase.contended {
            let size = element.kind.size() as usize;
            for &(rank, id, i) in &element.updates {
                if rank == self.me {
                    let act = acts[&id];
                    let spot = act.fetched().offsets(act.n, size)[i] as usize;
                    push(self.log[id].get(spot..spot + size).unwrap_or(&[]));
                }
            }
            if element.target == self.me {
                push(&found[element.window][element.start..element.start + size]);
            }
        }
        let all = self.team.allgather_bytes(&own)?;
        let mut next: Vec<_> = all.iter().map(|bytes| bytes.chunks_exact(WIDTH)).collect();
        let mut seen = Seen { fetched: HashMap::new(), left: Vec::new(), storm: Vec::new() };
        if phase.storm.is_some() {
            for bytes in next.iter_mut().map(|next| next.next().expect("what every rank sends")) {
                let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                seen.storm.push((word(0), word(8)));
            }
        }
        let fetches: HashMap<(u32, usize), bool> = phase
            .rounds
            .iter()
            .flat_map(|round| (0..).zip(&round.sections))
            .flat_map(|(rank, sections)| {
                sections.iter().flat_map(move |section| section.steps.iter().map(move |step| (rank, step)))
            })
            .filter_map(|(rank, step)| match step {
                Step::Act(act) => Some(((rank, act.id), act.call.fetches())),
                _ => None,
            })
            .collect();
        for element in &phase.contended {
            let size = element.kind.size() as usize;
            let mut take = |rank: u32| next[rank as usize].next().expect("as many as were sent")[..size].to_vec();
            for &update in &element.updates {
                let value = take(update.0);
                if fetches[&(update.0, update.1)] {
                    seen.fetched.insert(update, value);
                }
            }
            seen.left.push(take(element.target));
        }
        Ok(seen)
    }
}

fn lock_of<'l, 's, 't>(locks: &'l [(u32, Lock<'s, 't, Mapped>)], target: u32) -> &'l Lock<'s, 't, Mapped> {
    &locks.iter().find(|lock| lock.0 == target).expect("a target that is held").1
}
