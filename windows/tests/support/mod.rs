//! Worlds of threads and of processes for tests.

use std::time::Duration;

use rmalab_atomics::registered::UserMemory;
use rmalab_atomics::{Mapped, Processes, World};
use rmalab_windows::{AccumulateStrategy, Builder, Config, Team, Window};

/// The time after which a world of processes counts as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(120);

/// Runs `body` on threads, each with its team.
pub(crate) fn threads<T: Send>(size: u32, body: impl Fn(&Team<'_, Mapped>) -> T + Sync) -> Vec<T> {
    World::threads(size).run(|ra| body(&Team::new(ra).unwrap())).unwrap()
}

/// Returns a world of processes that run the test of this name.
pub(crate) fn processes(test: &str, size: u32) -> Processes {
    let only = [test, "--exact", "--nocapture", "--test-threads=1"];
    World::processes(size).command(std::env::current_exe().unwrap(), only).env("RUST_BACKTRACE", "0").time_limit(HUNG)
}

/// Runs `body` on processes that run the test of this name, and then on threads.
pub(crate) fn everywhere(test: &str, size: u32, body: impl Fn(&Team<'_, Mapped>) + Sync) {
    processes(test, size).run(|ra| body(&Team::new(ra).unwrap())).unwrap();
    threads(size, body);
}

/// The kinds of windows by their memory, including memory that starts at an odd address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Made {
    Allocated,
    Created,
    CreatedOdd,
    Shared,
    Dynamic,
}

impl Made {
    pub(crate) const ALL: [Made; 5] = [Made::Allocated, Made::Created, Made::CreatedOdd, Made::Shared, Made::Dynamic];

    /// Makes a window with `bytes` zero bytes at each rank, and returns the start of each rank's part.
    pub(crate) fn make<'t>(
        self,
        team: &'t Team<'t, Mapped>,
        config: Config,
        bytes: usize,
    ) -> (Window<'t, Mapped>, Vec<i64>) {
        self.make_by(team, config, bytes, |builder| builder)
    }

    /// Like [`make`](Made::make), with a builder.
    pub(crate) fn make_by<'t>(
        self,
        team: &'t Team<'t, Mapped>,
        config: Config,
        bytes: usize,
        more: impl FnOnce(Builder<'t, Mapped>) -> Builder<'t, Mapped>,
    ) -> (Window<'t, Mapped>, Vec<i64>) {
        let builder = more(Window::builder(team).config(config));
        let starts = vec![0; team.size() as usize];
        let odd = || UserMemory::from_vec(vec![0u8; bytes + 16]).part(3..3 + bytes).unwrap();
        let window = match self {
            Made::Allocated => builder.allocate(bytes as u64),
            Made::Created => builder.create(UserMemory::from_vec(vec![0u8; bytes])),
            Made::CreatedOdd => builder.create(odd()),
            Made::Shared => builder.allocate_shared(bytes as u64),
            Made::Dynamic => {
                let window = builder.create_dynamic().unwrap();
                let start = window.attach(UserMemory::from_vec(vec![0u8; bytes])).unwrap();
                let starts = team.allgather(&[start.0 as u64]).unwrap();
                return (window, starts.into_iter().map(|start| start as i64).collect());
            }
        };
        (window.unwrap(), starts)
    }
}

/// Returns the default configuration with this strategy for accumulates.
pub(crate) fn accumulating(accumulate: AccumulateStrategy) -> Config {
    Config { accumulate, ..Config::default() }
}

/// Runs `body`, and ends the test program if it hangs.
pub(crate) fn watched(body: impl FnOnce()) {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = waits.recv_timeout(HUNG) {
            eprintln!("hung for {HUNG:?}");
            std::process::exit(1);
        }
    });
    body();
    drop(done);
}
