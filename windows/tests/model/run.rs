//! One rank's run of a program on windows, checked against the model after each phase.

use std::collections::HashMap;

use rmalab_atomics::{Mapped, Rank, RemoteAtomics};
use rmalab_windows::{
    Assert, ElementKind, Error, FenceAssert, Flavor, LockKind, Op, Passive, PostAssert, RawWindow, Request,
    StartAssert, Target, Team, Transport, UserMemory, Window, WindowDisp,
};

use super::oracle::{Oracle, Seen, differ, pattern, stored};
use super::program::{
    Act, Call, Locks, Phase, Plan, Round, Section, Step, Storm, StormWay, Sync, WindowPlan, transport,
};

type Win<'t> = RawWindow<'t, Mapped>;

/// Requests that no call has waited for: the act's number, whether it fetches, the request.
type Requests<'w> = Vec<(usize, bool, Request<'w, Mapped, u8>)>;

/// Returns an element of a kind, as bytes, after an update by one value.
fn combined(kind: ElementKind, op: Op, mut element: Vec<u8>, value: &[u8]) -> Vec<u8> {
    kind.combine_bytes(op, &mut element, value);
    element
}

/// Makes a call that every kind of epoch has.
fn call<P>(target: &Target<'_, Mapped, P>, disp: WindowDisp, act: &Act) -> Result<Vec<u8>, Error> {
    let (here, there) = (act.here.layout(act.n, act.kind), act.there.layout(act.n, act.kind));
    let (origin, to) = (here.0.items(here.1), there.0.items(there.1));
    let (source, mut dest) = (act.source(), act.blank());
    let (kind, op) = (act.kind, act.op);
    if matches!(act.call, Call::FetchAndOp | Call::GetValue) {
        // The null target returns zeros.
        dest.fill(0);
    }
    match act.call {
        Call::Put | Call::PutValue => target.put(disp, &source)?,
        Call::PutLayout => target.put_layout(disp, to, &source, origin)?,
        Call::Accumulate => target.accumulate_untyped(disp, kind, op, &source)?,
        Call::AccumulateLayout => target.accumulate_layout_untyped(disp, to, kind, op, &source, origin)?,
        Call::Get | Call::GetValue => target.get(disp, &mut dest)?,
        Call::GetLayout => target.get_layout(disp, to, &mut dest, origin)?,
        Call::GetAccumulate | Call::FetchAndOp => {
            target.get_accumulate_untyped(disp, kind, op, &source, &mut dest)?;
        }
        Call::GetAccumulateLayout => {
            let results = act.results.layout(act.n, act.kind);
            let results = results.0.items(results.1);
            target.get_accumulate_layout_untyped(disp, to, kind, op, &source, origin, &mut dest, results)?;
        }
        Call::CompareAndSwap => {
            target.compare_and_swap_untyped(disp, kind, &act.expected(), &act.value(0), &mut dest)?;
        }
        Call::ReadModifyWrite => {
            target.get(disp, &mut dest)?;
            target.put(disp, &combined(kind, op, dest.clone(), &act.value(0)))?;
        }
        _ => panic!("{:?} is a call with a request, or a batch", act.call),
    }
    Ok(if act.call.fetches() { dest } else { Vec::new() })
}

/// Begins a call with a request.
fn begin<'w>(
    target: &Target<'w, Mapped, Passive<'_>>,
    disp: WindowDisp,
    act: &Act,
) -> Result<Request<'w, Mapped, u8>, Error> {
    let (here, there) = (act.here.layout(act.n, act.kind), act.there.layout(act.n, act.kind));
    let (origin, to) = (here.0.items(here.1), there.0.items(there.1));
    match act.call {
        Call::Rput => target.rput(disp, act.source()),
        Call::Rget => target.rget(disp, act.blank()),
        Call::RputLayout => target.rput_layout(disp, to, act.source(), origin),
        Call::RgetLayout => target.rget_layout(disp, to, act.blank(), origin),
        Call::Raccumulate => target.raccumulate_untyped(disp, act.kind, act.op, act.source()),
        Call::RgetAccumulate => target.rget_accumulate_untyped(disp, act.kind, act.op, &act.source(), act.blank()),
        _ => panic!("{:?} has no request", act.call),
    }
}

/// Adds 1 many times, while the others do the same. Returns the sum of the found values.
fn count(window: &Win<'_>, disp: WindowDisp, storm: &Storm) -> Result<u64, Error> {
    let (kind, target, size) = (storm.kind, Rank(storm.target), storm.kind.size() as usize);
    let one = &1_u64.to_ne_bytes()[..size];
    let mut sum = 0_u64;
    for _ in 0..storm.times {
        let mut old = vec![0; size];
        match storm.way {
            StormWay::FetchAndOp | StormWay::GetAccumulate => {
                let fetch =
                    |target: &Target<'_, Mapped, _>| target.get_accumulate_untyped(disp, kind, Op::Sum, one, &mut old);
                window.operate(rmalab_windows::Call::GetAccumulate, target, fetch)?;
            }
            StormWay::Accumulate => {
                let add = |target: &Target<'_, Mapped, _>| target.accumulate_untyped(disp, kind, Op::Sum, one);
                window.operate(rmalab_windows::Call::Accumulate, target, add)?;
            }
            // The first guess may be right.
            StormWay::CompareAndSwap => loop {
                let next = combined(kind, Op::Sum, old.clone(), one);
                let mut seen = vec![0; size];
                let swap = |target: &Target<'_, Mapped, _>| {
                    target.compare_and_swap_untyped(disp, kind, &old, &next, &mut seen)
                };
                window.operate(rmalab_windows::Call::CompareAndSwap, target, swap)?;
                if seen == old {
                    break;
                }
                old = seen;
            },
            StormWay::ReadModifyWrite => {
                window.lock(LockKind::Exclusive, target, Assert::None)?;
                window.operate(rmalab_windows::Call::Put, target, |target| {
                    target.get(disp, &mut old)?;
                    target.put(disp, &combined(kind, Op::Sum, old.clone(), one))
                })?;
                window.unlock(target)?;
            }
        }
        old.resize(8, 0);
        sum = sum.wrapping_add(u64::from_ne_bytes(old.try_into().expect("8 bytes")));
    }
    Ok(sum)
}

/// A window, and the data that turn displacements into addresses for a dynamic window.
struct Made<'t> {
    window: Win<'t>,
    /// The window whose memory a dynamic window has attached, if there is one.
    inner: Option<Win<'t>>,
    /// The address of displacement 0 of each rank.
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
        Flavor::Allocate => builder.allocate(bytes as u64)?.into_raw(),
        Flavor::Shared => builder.allocate_shared(bytes as u64)?.into_raw(),
        Flavor::Create => builder.create(memory())?.into_raw(),
        Flavor::Dynamic => {
            let window = builder.create_dynamic()?.into_raw();
            let base = if plan.attach_own {
                if bytes == 0 { WindowDisp(0) } else { attach(&window, memory(), plan.pieces)? }
            } else {
                let shared = inner.insert(Window::allocate_shared(team, bytes as u64)?.into_raw());
                if bytes == 0 { WindowDisp(0) } else { window.attach_window(shared)? }
            };
            bases = team.allgather(&[base.0 as u64])?.into_iter().map(|base| base as i64).collect();
            window
        }
    };
    assert_eq!(window.flavor(), plan.flavor);
    Ok(Made { window, inner, bases })
}

/// Attaches `memory`, in regions of `pieces` bytes if set. Returns its start.
fn attach(window: &Win<'_>, mut memory: UserMemory, pieces: Option<usize>) -> Result<WindowDisp, Error> {
    let start = WindowDisp(memory.start().as_ptr() as i64);
    // A list of regions has 256 places in the segment.
    let piece = pieces.unwrap_or(usize::MAX).max(memory.len().div_ceil(300));
    while memory.len() > piece {
        let (first, rest) = memory.split(piece).expect("that many bytes");
        window.attach(first)?;
        memory = rest;
    }
    window.attach(memory)?;
    Ok(start)
}

impl Made<'_> {
    fn read(&self, len: usize, me: Rank) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        match (&self.inner, self.window.flavor()) {
            (Some(inner), _) => inner.local()?.read(WindowDisp(0), &mut bytes)?,
            (None, Flavor::Dynamic) => {
                self.window.lock(LockKind::Shared, me, Assert::None)?;
                let disp = WindowDisp(self.bases[me.index()]);
                self.window.operate(rmalab_windows::Call::Get, me, |target| target.get(disp, &mut bytes))?;
                self.window.unlock(me)?;
            }
            _ => self.window.local()?.read(WindowDisp(0), &mut bytes)?,
        }
        Ok(bytes)
    }

    /// Makes a local store. It starts at a unit, so earlier bytes are written again.
    fn store(&self, at: usize, bytes: &[u8], me: Rank) -> Result<(), Error> {
        let local = match (&self.inner, self.window.flavor()) {
            (Some(inner), _) => inner.local()?,
            (None, Flavor::Dynamic) => {
                self.window.lock(LockKind::Exclusive, me, Assert::None)?;
                let disp = WindowDisp(self.bases[me.index()] + at as i64);
                self.window.operate(rmalab_windows::Call::Put, me, |target| target.put(disp, bytes))?;
                return self.window.unlock(me);
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

struct Rankwise<'a> {
    ra: &'a Mapped,
    team: &'a Team<'a, Mapped>,
    plan: &'a Plan,
    me: u32,
    /// The values that the acts of this phase have fetched.
    log: Vec<Vec<u8>>,
    /// The sum of the values that this rank has found while all ranks counted up.
    found: u64,
}

/// Runs a program as one rank. Panics if the windows and the model differ.
pub(crate) fn run(ra: &Mapped, team: &Team<'_, Mapped>, plan: &Plan) -> Result<(), Error> {
    let me = ra.rank().0;
    let free = ra.heap().free_bytes();
    let made = plan.windows.iter().map(|window| make(team, window)).collect::<Result<Vec<_>, _>>()?;
    let contents = plan.windows.iter().map(|window| {
        let filled = window.flavor == Flavor::Create || window.attach_own;
        let part = |(rank, &len): (u32, &usize)| if filled { pattern(rank, len) } else { vec![0; len] };
        (0..).zip(&window.sizes).map(part).collect()
    });
    let mut oracle = Oracle::new(contents.collect());
    let mut rank = Rankwise { ra, team, plan, me, log: Vec::new(), found: 0 };
    // Making a window does not synchronize attached memory or first stores.
    team.barrier()?;
    for (number, phase) in plan.phases.iter().enumerate() {
        rank.phase(&made, phase)?;
        rank.check(&made, phase, &mut oracle).unwrap_or_else(|what| panic!("phase {number}, rank {me}: {what}"));
    }
    for (number, made) in made.into_iter().enumerate() {
        let Made { window: made, inner, bases } = made;
        if inner.is_some() && bases[me as usize] != 0 {
            made.detach_window(WindowDisp(bases[me as usize]))?;
        }
        let memory = made.reclaim()?;
        for memory in memory.into_iter().filter(|_| plan.windows[number].pieces.is_none()) {
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
    fn phase(&mut self, made: &[Made<'_>], phase: &Phase) -> Result<(), Error> {
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
        let last = phase.rounds.len() - 1;
        for (number, round) in phase.rounds.iter().enumerate() {
            self.round(made, phase, round, number == 0, number == last)?;
        }
        if phase.syncs.contains(&Sync::Passive) {
            self.team.barrier()?;
        }
        Ok(())
    }

    fn round(&mut self, made: &[Made<'_>], phase: &Phase, round: &Round, first: bool, last: bool) -> Result<(), Error> {
        let me = self.me as usize;
        for (number, Made { window, .. }) in made.iter().enumerate() {
            let nostore = !phase.stores.iter().any(|store| (store.0, store.1) == (self.me, number));
            let noput = !round.written[number][me];
            match phase.syncs[number] {
                Sync::Passive => {}
                Sync::Fence => {
                    let noprecede = first && phase.noprecede;
                    window.fence(FenceAssert { nostore, noput, noprecede, nosucceed: false })?;
                }
                Sync::Pscw => {
                    let starts = &round.starts[number];
                    let to: Vec<Rank> = starts[me].iter().copied().map(Rank).collect();
                    let origins = (0..self.plan.ranks).filter(|&rank| starts[rank as usize].contains(&self.me));
                    let from: Vec<Rank> = origins.map(Rank).collect();
                    let nocheck = phase.nocheck;
                    window.post(&from, PostAssert { nocheck, nostore, noput })?;
                    if nocheck {
                        self.team.barrier()?;
                    }
                    window.start(&to, StartAssert { nocheck })?;
                }
            }
        }
        for section in &round.sections[me] {
            self.section(made, section)?;
        }
        for (Made { window, .. }, sync) in made.iter().zip(&phase.syncs) {
            match sync {
                Sync::Passive => {}
                // An open epoch is closed by the next round's fence.
                Sync::Fence if !last => {
                    if phase.extra {
                        window.fence(FenceAssert::default())?;
                    }
                }
                Sync::Fence => window.fence(FenceAssert { nosucceed: true, ..FenceAssert::default() })?,
                Sync::Pscw => {
                    window.complete()?;
                    if phase.test {
                        while !window.test()? {
                            self.ra.pause(1)?;
                        }
                    } else {
                        window.wait()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn section(&mut self, made: &[Made<'_>], section: &Section) -> Result<(), Error> {
        let assert = |nocheck| if nocheck { Assert::NoCheck } else { Assert::None };
        let windows = made.iter().zip(&self.plan.windows);
        for ((Made { window, bases, .. }, plan), locks) in windows.zip(&section.locks) {
            match locks {
                Locks::None => {}
                Locks::All { nocheck } => {
                    window.lock_all(assert(*nocheck))?;
                    if transport() != Transport::OneSided {
                        // Acquires all locks, in the order that all ranks use.
                        for (rank, _) in (0..).zip(&plan.sizes).filter(|&(_, &bytes)| bytes > 0) {
                            let disp = WindowDisp(bases[rank as usize]);
                            let get = |target: &Target<'_, Mapped, _>| target.get(disp, &mut [0_u8]);
                            window.operate(rmalab_windows::Call::Get, Rank(rank), get)?;
                        }
                    }
                }
                Locks::Some(locks) => {
                    for &(target, kind, nocheck) in locks {
                        window.lock(kind, Rank(target), assert(nocheck))?;
                    }
                }
            }
        }
        self.steps(made, section)?;
        for (Made { window, .. }, locks) in made.iter().zip(&section.locks) {
            match locks {
                Locks::None => {}
                Locks::All { .. } => window.unlock_all()?,
                Locks::Some(locks) => {
                    let mut targets: Vec<Rank> = locks.iter().map(|&(target, ..)| Rank(target)).collect();
                    if section.end & 2 == 0 {
                        targets.reverse();
                    }
                    for target in targets {
                        window.unlock(target)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn steps(&mut self, made: &[Made<'_>], section: &Section) -> Result<(), Error> {
        let mut requests = Requests::new();
        for step in &section.steps {
            match step {
                Step::Storm(storm) => {
                    let Made { window, bases, .. } = &made[storm.window];
                    let disp = WindowDisp(storm.disp + bases[storm.target as usize]);
                    self.found = count(window, disp, storm)?;
                }
                Step::Act(act) => self.act(&made[act.window], act, &mut requests)?,
                Step::Settle { window, target } => {
                    self.wait(&mut requests)?;
                    made[*window].window.flush(Rank(*target))?;
                }
                Step::Other { window, target, which } => {
                    let all = matches!(section.locks[*window], Locks::All { .. });
                    let window = &made[*window].window;
                    match if all { which % 5 } else { 3 + 2 * (which % 2) } {
                        0 => window.flush_all()?,
                        1 => window.flush_local_all()?,
                        2 | 5 => window.flush_local(Rank(*target))?,
                        3 if all => window.sync(),
                        _ => window.flush(Rank(*target))?,
                    }
                }
            }
        }
        self.wait(&mut requests)
    }

    fn wait(&mut self, requests: &mut Requests<'_>) -> Result<(), Error> {
        for (id, fetches, request) in requests.drain(..) {
            let buffer = request.wait()?;
            if fetches {
                self.log[id] = buffer;
            }
        }
        Ok(())
    }

    fn act<'w>(&mut self, made: &'w Made<'_>, act: &Act, requests: &mut Requests<'w>) -> Result<(), Error> {
        assert_eq!(act.id, self.log.len());
        self.log.push(Vec::new());
        let Made { window, bases, .. } = made;
        let target = act.target.map(Rank);
        let base = target.map_or(0, |target| bases[target.index()]);
        let disp = WindowDisp(act.disp.wrapping_add(base));
        let name = rmalab_windows::Call::Put;
        if matches!(
            act.call,
            Call::Rput | Call::Rget | Call::RputLayout | Call::RgetLayout | Call::Raccumulate | Call::RgetAccumulate
        ) {
            let begun = window.operate_with_requests(name, target, |target| begin(target, disp, act));
            if let Some(request) = self.accepted(act, begun) {
                requests.push((act.id, act.call.fetches(), request));
                // Some requests are waited for at once, so that both cases occur.
                if act.salt & 2 == 0 {
                    self.wait(requests)?;
                }
            }
            return Ok(());
        }
        let done = window.operate(name, target, |target| {
            if act.call != Call::Batch {
                return call(target, disp, act);
            }
            let (source, mut dest) = (act.source(), vec![0; act.also.map_or(0, |also| also.2)]);
            let get = act.also.map(|(disp, ..)| WindowDisp(disp + base));
            window.batch(|batch| {
                batch.put(target, disp, &source)?;
                get.map_or(Ok(()), |disp| batch.get(target, disp, &mut dest))
            })?;
            Ok(dest)
        });
        if act.call == Call::ReadModifyWrite
            && let Some(target) = target
        {
            window.flush(target)?;
        }
        if let Some(fetched) = self.accepted(act, done) {
            self.log[act.id] = fetched;
        }
        Ok(())
    }

    /// Returns the result of an act, unless the program expects that it is refused.
    fn accepted<R>(&self, act: &Act, result: Result<R, Error>) -> Option<R> {
        if act.refused {
            let error = result.map(drop).expect_err("an operation outside of the window");
            assert!(matches!(error, Error::OutOfWindow { .. } | Error::NotAttached { .. }), "{act:?}: {error}");
            return None;
        }
        Some(result.unwrap_or_else(|error| panic!("rank {}: {error}: {act:?}", self.me)))
    }

    /// Compares this rank's memory and all fetched values with the model.
    fn check(&self, made: &[Made<'_>], phase: &Phase, oracle: &mut Oracle) -> Result<(), String> {
        let mut found = Vec::new();
        for (made, window) in made.iter().zip(&self.plan.windows) {
            found.push(made.read(window.sizes[self.me as usize], Rank(self.me)).map_err(|error| error.to_string())?);
        }
        let neighbour = Rank((self.me + 1) % self.plan.ranks);
        // After a wait others may still be in their epochs; after a fence and a barrier no rank is.
        let mut neighbours = Vec::new();
        // Two-sided windows give loads no guarantee for the neighbour's memory.
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
                return Err(format!("byte {at} of {found:?} is wrong, expected {expected:?}: {act:?}"));
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

    /// Exchanges the values of contended elements that all ranks have seen. It is also the barrier that ends the phase.
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
