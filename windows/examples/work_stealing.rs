//! Work stealing: every rank has a queue of tasks, and takes them from the others' queues when its own one is empty.
//!
//! A queue of tasks that are known beforehand is one counter, the number of the next task: fetch_and_op takes one, for
//! the owner as for a thief, and neither needs the other's help.
//!
//! `cargo run -p rmalab-windows --example work_stealing -- --backend shm --ranks 4`; with `--features mpi` under
//! `mpirun -n 4`, with `--features verbs` either way.

mod world;

use std::path::Path;

use rmalab_atomics::{Rank, RemoteAtomics};
use rmalab_windows::{Op, Team, Window, WindowDisp};

/// Tasks of each rank.
const TASKS: u64 = 5000;

// Each rank's part of the window, in words: the next task, how often each of its tasks was done, and the results.
const NEXT: WindowDisp = WindowDisp(0);
const DONE: WindowDisp = WindowDisp(1);
const RESULTS: WindowDisp = WindowDisp(1 + TASKS as i64);
const WORDS: u64 = 1 + 2 * TASKS;

/// A task: the longest of some Collatz sequences. Those of rank 0 take by far the most time.
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

    // One epoch for all of it: operations on all targets, and no rank takes part in those on its own queue.
    let epoch = window.lock_all()?;
    // The own queue first, then the others', beginning with the next rank's.
    for owner in (0..size).map(|distance| Rank((me.0 + distance) % size)) {
        let queue = epoch.at(owner)?;
        loop {
            let task: u64 = queue.fetch_and_op(NEXT, Op::Sum, 1)?;
            if task >= TASKS {
                break; // the queue is empty: the counter goes on, to no effect
            }
            let result = work(owner, task);
            queue.put_value(RESULTS.plus(task as i64), result)?;
            queue.accumulate(DONE.plus(task as i64), Op::Sum, &[1_u64])?;
            stolen += u64::from(owner != me);
        }
    }
    epoch.unlock_all()?; // what this rank has put is complete

    // Behind the barrier that is so for all ranks, and each looks at its own tasks.
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
