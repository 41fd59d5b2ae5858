//! Work stealing: every rank has a queue of tasks, and takes tasks from the others' queues when its own queue is empty.
//!
//! Since the tasks are known beforehand, a queue is one counter, the number of the next task. Owner and thief both take
//! a task with fetch_and_op, and neither needs the other's help.
//!
//! `cargo run -p rmalab-windows --example work_stealing -- --backend shm --ranks 4`; with `--features mpi` under
//! `mpirun -n 4`, with `--features verbs` both ways.

mod world;

use std::path::Path;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Op, Team, Window, WindowDisp};

/// The number of tasks of each rank.
const TASKS: u64 = 5000;

// Each rank's part of the window, in words: the next task, the number of times that each task was done, and the
// results.
const NEXT: WindowDisp = WindowDisp(0);
const DONE: WindowDisp = WindowDisp(1);
const RESULTS: WindowDisp = WindowDisp(1 + TASKS as i64);
const WORDS: u64 = 1 + 2 * TASKS;

/// Does a task: finds the longest of some Collatz sequences. The tasks of rank 0 take by far the most time.
fn work(owner: Rank, task: u64) -> u64 {
    let (first, many) = (1 + task * 10, if owner == Rank(0) { 40 } else { 1 });
    let length = |mut n: u64| {
        let mut steps = 0;
        while n != 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    };
    (first..first + many).map(length).max().unwrap_or(0)
}

fn work_and_steal(ra: &dyn RemoteAtomics, record: Option<&Path>) -> world::Result<u64> {
    let team = Team::new(ra)?;
    let (me, size) = (team.rank(), team.size());
    let mut builder = Window::builder(&team).disp_unit(8).name("work_stealing");
    if let Some(dir) = record {
        builder = builder.record(dir);
    }
    let mut window = builder.allocate(8 * WORDS)?;
    let mut stolen = 0;

    // One epoch for all operations on all targets. No rank takes part in operations of others on its queue.
    let epoch = window.lock_all()?;
    // The local queue comes first, then the others' queues, beginning with the next rank's.
    for owner in (0..size).map(|distance| Rank((me.0 + distance) % size)) {
        let queue = epoch.at(owner)?;
        loop {
            let task: u64 = queue.fetch_and_op(NEXT, Op::Sum, 1)?;
            if task >= TASKS {
                break; // the queue is empty; a larger counter has no effect
            }
            let result = work(owner, task);
            queue.put_value(RESULTS.plus(task as i64), result)?;
            queue.accumulate(DONE.plus(task as i64), Op::Sum, &[1_u64])?;
            stolen += u64::from(owner != me);
        }
    }
    epoch.unlock_all()?; // this rank's puts are complete

    // After the barrier all ranks' puts are complete, and each rank checks its own tasks.
    team.barrier()?;
    let (mut done, mut results) = (vec![0_u64; TASKS as usize], vec![0_u64; TASKS as usize]);
    window.local()?.read(DONE, &mut done)?;
    window.local()?.read(RESULTS, &mut results)?;
    window.free()?;
    for (task, (done, result)) in (0..).zip(done.into_iter().zip(results)) {
        if done != 1 || result != work(me, task) {
            return Err(format!("{me}: task {task} was done {done} times, with the result {result}").into());
        }
    }
    Ok(stolen)
}

fn main() -> world::Result<()> {
    world::run(work_and_steal, |stolen| {
        println!("every task was done exactly once, with the right result; {stolen} were stolen");
    })
}
