//! Error handlers: the handler gets each error of a call on a window once, before the call returns it.

use std::sync::{Arc, Mutex};

use crate::support::{processes, threads};
use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Mapped, Rank};
use rmalab_windows::{
    Config, Error, ErrorHandler, Layout, LockKind, Op, Result, Target, Team, Transport, Window, WindowDisp,
};

/// The errors that the handler of a window got.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn listen(window: &Window<'_, Mapped>) -> Heard {
        let heard = Heard::default();
        let log = Arc::clone(&heard.0);
        window.error_handler().set(Some(Arc::new(move |error: &Error| log.lock().unwrap().push(error.to_string()))));
        heard
    }

    /// Checks that `result` is an error, and that the handler got only this error, once.
    #[track_caller]
    fn once<T>(&self, result: Result<T>) {
        let Err(error) = result else { panic!("no error") };
        assert_eq!(std::mem::take(&mut *self.0.lock().unwrap()), [error.to_string()]);
    }
}

const FAR: WindowDisp = WindowDisp(1 << 40);
const START: WindowDisp = WindowDisp(0);

/// Makes every operation that all epochs have, outside of the window, or with buffers that do not fit.
fn operations<P>(heard: &Heard, target: &Target<'_, Mapped, P>) {
    let (one, two) = (Layout::of::<u32>(), Layout::contiguous(2, &Layout::of::<u32>()).unwrap());
    let mut buffer = [0_u32; 2];
    heard.once(target.put(FAR, &[1_u64]));
    heard.once(target.put(FAR, &[1_u8; 3]));
    heard.once(target.put_value(FAR, 1_u64));
    heard.once(target.get(FAR, &mut buffer));
    heard.once(target.get_value::<u64>(FAR));
    heard.once(target.put_layout(FAR, one.item(), &buffer, one.item()));
    heard.once(target.put_layout(START, one.item(), &buffer, two.item()));
    heard.once(target.get_layout(FAR, one.item(), &mut buffer, one.item()));
    heard.once(target.get_layout(START, one.items(3), &mut buffer, one.items(3)));
    heard.once(target.accumulate(FAR, Op::Sum, &[1_u64]));
    heard.once(target.accumulate(FAR, Op::Sum, &[1_u64; 9]));
    heard.once(target.accumulate(START, Op::BitAnd, &[1.0_f64]));
    heard.once(target.accumulate_layout(FAR, one.item(), Op::Sum, &buffer, one.item()));
    heard.once(target.accumulate_layout(START, one.item(), Op::MinLoc, &buffer, one.item()));
    heard.once(target.get_accumulate(FAR, Op::Sum, &[1_u32; 2], &mut buffer));
    heard.once(target.get_accumulate(START, Op::Sum, &[1_u32; 3], &mut buffer));
    let source = [1_u32; 2];
    heard.once(target.get_accumulate_layout(FAR, one.item(), Op::Sum, &source, one.item(), &mut buffer, one.item()));
    heard.once(target.fetch_and_op(FAR, Op::Sum, 1_u64));
    heard.once(target.fetch_and_op(FAR, Op::Max, 1_u8));
    heard.once(target.fetch_and_op(START, Op::BitAnd, 1.0_f32));
    heard.once(target.compare_and_swap(FAR, 1_u64, 2));
    heard.once(target.compare_and_swap(FAR, 1_u16, 2));
}

/// Makes the forms with requests.
fn requests(heard: &Heard, target: &Target<'_, Mapped>) {
    let one = Layout::of::<u32>();
    heard.once(target.rput(FAR, vec![1_u8]));
    heard.once(target.rget(FAR, vec![1_u8]));
    heard.once(target.rput_layout(FAR, one.item(), vec![1_u32], one.item()));
    heard.once(target.rput_layout(START, one.items(2), vec![1_u32], one.item()));
    heard.once(target.rget_layout(FAR, one.item(), vec![1_u32], one.item()));
    heard.once(target.rget_layout(START, one.items(2), vec![1_u32], one.item()));
    heard.once(target.raccumulate(FAR, Op::Sum, vec![1_u64]));
    heard.once(target.rget_accumulate(FAR, Op::Sum, &[1_u64], vec![0]));
}

fn every_call(team: &Team<'_, Mapped>, transport: Transport) {
    let (me, missing) = (team.rank(), Rank(9));
    let mut window = Window::builder(team).config(Config { transport, ..Config::default() }).allocate(64).unwrap();
    let heard = Heard::listen(&window);
    // Calls on the window.
    heard.once(window.shared_query(missing));
    heard.once(window.local().unwrap().load::<u64>(FAR));
    heard.once(window.local().unwrap().write(FAR, &[1_u8; 3]));
    heard.once(window.attach(UserMemory::from_vec(vec![0_u8])));
    heard.once(window.detach(START));
    heard.once(window.detach_window(START));
    heard.once(window.agent());
    heard.once(window.stop_agent());
    // Epochs by locks.
    heard.once(window.lock(LockKind::Shared, missing));
    let epoch = window.lock(LockKind::Shared, me).unwrap();
    heard.once(window.lock(LockKind::Shared, me));
    operations(&heard, &epoch);
    requests(&heard, &epoch);
    let (source, mut dest) = ([1_u8; 3], [0_u8; 3]);
    heard.once(epoch.batch(|batch| batch.put(&epoch, FAR, &source)));
    heard.once(epoch.batch(|batch| batch.get(&epoch, FAR, &mut dest)));
    epoch.unlock().unwrap();
    let epoch = window.lock_all().unwrap();
    heard.once(epoch.at(missing));
    heard.once(epoch.flush_local(missing));
    operations(&heard, &epoch.at(me).unwrap());
    requests(&heard, &epoch.at(me).unwrap());
    let target = epoch.at(me).unwrap();
    heard.once(epoch.batch(|batch| batch.put(&target, FAR, &source)));
    heard.once(epoch.window().lock(LockKind::Shared, me));
    epoch.unlock_all().unwrap();
    // Fences.
    let epoch = window.fence().unwrap();
    heard.once(epoch.at(missing));
    operations(&heard, &epoch.at(me).unwrap());
    drop(epoch);
    heard.once(window.lock(LockKind::Shared, me));
    heard.once(window.lock_all());
    heard.once(window.pscw().map(drop));
    window.fence().unwrap().close().unwrap();
    // Post and start.
    {
        let (mut access, mut exposure) = window.pscw().unwrap();
        heard.once(access.start(&[missing]));
        heard.once(exposure.post(&[me, me]));
        let exposed = exposure.post(&[me]).unwrap();
        let epoch = access.start(&[me]).unwrap();
        heard.once(epoch.at(Rank(1 - me.0)));
        operations(&heard, &epoch.at(me).unwrap());
        epoch.complete().unwrap();
        exposed.wait().unwrap();
    }
    std::mem::forget(window.lock(LockKind::Shared, me).unwrap());
    heard.once(window.lock_all());
    heard.once(window.fence());
    heard.once(window.free());
    // A dynamic window.
    let window = Window::builder(team).config(Config { transport, ..Config::default() }).create_dynamic().unwrap();
    let heard = Heard::listen(&window);
    heard.once(window.local());
    heard.once(window.attach(UserMemory::from_vec(Vec::<u8>::new())));
    heard.once(window.attach_window(&window));
    heard.once(window.detach(START));
    heard.once(window.detach_window(START));
    let epoch = window.lock(LockKind::Shared, me).unwrap();
    heard.once(epoch.put(START, &[1_u8]));
    heard.once(epoch.fetch_and_op(START, Op::Sum, 1_u64));
    epoch.unlock().unwrap();
    // Without an error the handler is not called.
    window.free().unwrap();
    assert!(heard.0.lock().unwrap().is_empty());
}

#[test]
fn the_handler_gets_every_error_once() {
    threads(2, |team| {
        every_call(team, Transport::OneSided);
        every_call(team, Transport::TwoSided);
    });
}

#[test]
fn the_handler_gets_locks_that_a_hint_refuses() {
    threads(1, |team| {
        let mut window = Window::builder(team).info(&"no_locks=true".parse().unwrap()).allocate(8).unwrap();
        let heard = Heard::listen(&window);
        heard.once(window.lock(LockKind::Shared, Rank(0)));
        heard.once(window.lock_all());
        window.free().unwrap();
    });
}

/// MPI's default handler ends all ranks of the process; the other ranks get the failure.
#[test]
fn the_fatal_handler_ends_the_process() {
    let outcome = processes("handlers::the_fatal_handler_ends_the_process", 2).run(|ra| {
        let team = Team::new(ra).unwrap();
        let window = Window::allocate(&team, 8).unwrap();
        window.error_handler().set(Some(ErrorHandler::fatal()));
        if team.rank() == Rank(1) {
            let error = window.lock(LockKind::Shared, Rank(7)).map(drop);
            unreachable!("the call does not return: {error:?}");
        }
        let waited = team.barrier();
        assert!(waited.is_err(), "rank 1 has failed");
    });
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("rank 1"), "{error}");
    assert!(error.contains("signal"), "{error}");
}
