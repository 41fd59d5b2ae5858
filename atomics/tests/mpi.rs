//! Ranks of an MPI job. When `mpirun` starts it, this binary is one rank and runs the whole conformance suite:
//!
//! ```text
//! mpirun.mpich -n 4 target/debug/deps/mpi-*
//! ```
//!
//! Without `mpirun`, as in `cargo test`, it starts itself under the `mpirun` of the MPI with which it is linked, once for
//! each case of [`CASES`]. Arguments that are parts of case names select cases. `MPIRUN` names another `mpirun`.

#![allow(clippy::unwrap_used, reason = "these are tests and ranks")]

use std::io::Write;
use std::process::{Command, ExitCode, Output};

use rmalab_atomics::conformance::checks;
use rmalab_atomics::mpi::{self, Attach, Mpi};
use rmalab_atomics::{Address, Collectives, Disp, Error, Rank, RemoteAtomics, Until};

/// The variable for the role of a rank.
const ROLE: &str = "RMALAB_TEST_ROLE";

/// Seconds after which a job counts as hung.
const HUNG: &str = "600";

/// The variables that show that this process is a rank.
const LAUNCHED: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// The code of a rank.
type Role = fn() -> Result<(), String>;

/// The check of a job's outcome.
type Verdict = fn(&Output, u32) -> Result<(), String>;

/// The jobs: name, numbers of ranks, the code of each rank, and the check of the outcome.
const CASES: &[(&str, &[u32], Role, Verdict)] = &[
    ("conformance", &[1, 2, 3, 4, 8], conformance, all_checks_have_passed),
    ("particulars", &[1, 3], particulars, ends_well),
    ("worlds_over_communicators", &[1, 2, 5], worlds_over_communicators, ends_well),
    ("segments_that_differ_are_refused", &[3], differing_segments, ends_well),
    ("a_topology_of_another_size_is_refused_by_all", &[3], wrong_topology, ends_well),
    ("the_end_of_a_rank_that_fails_ends_the_job", &[3], fails, |output, _| ended_by("has failed", output)),
    ("the_end_of_a_rank_that_panics_ends_the_job", &[3], panics, |output, _| ended_by("has panicked", output)),
    ("the_end_of_a_rank_that_is_killed_ends_the_job", &[3], is_killed, |output, _| ended_by("", output)),
];

fn main() -> ExitCode {
    let role = std::env::var(ROLE).ok();
    let launched = LAUNCHED.iter().any(|name| std::env::var_os(name).is_some());
    let outcome = match role.as_deref() {
        Some("attach") => mpi::attach().map(drop).map_err(|error| error.to_string()),
        Some(role) => CASES.iter().find(|case| case.0 == role).unwrap().2(),
        None if launched => conformance(),
        None => return drive(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases that the arguments name, or all cases.
fn drive() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    println!("under {} ({})", mpirun(), mpi::library());
    let mut failed = 0;
    let mut report = |name: String, outcome: Result<(), String>| match outcome {
        Ok(()) => println!("{name} ... ok"),
        Err(why) => {
            failed += 1;
            println!("{name} ... FAILED\n{why}");
        }
    };
    for (name, sizes, _, verdict) in CASES.iter().filter(|case| is_wanted(case.0)) {
        for &size in *sizes {
            let output = job(name, size);
            let outcome = verdict(&output, size).map_err(|why| format!("{why}\n{}", said(&output)));
            report(format!("{name} with {size} ranks"), outcome);
        }
    }
    if is_wanted("without_the_right_mpirun") {
        report("without_the_right_mpirun".to_owned(), without_the_right_mpirun());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the `mpirun` of the MPI with which this program is linked, where several are installed.
fn mpirun() -> String {
    if let Ok(given) = std::env::var("MPIRUN") {
        return given;
    }
    let own = if mpi::library().starts_with("Open MPI") { "mpirun.openmpi" } else { "mpirun.mpich" };
    let is_there = |folder: std::path::PathBuf| folder.join(own).exists();
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(is_there);
    if found { own.to_owned() } else { "mpirun".to_owned() }
}

/// Runs a job of `size` ranks with the role `role`.
fn job(role: &str, size: u32) -> Output {
    let size = size.to_string();
    Command::new("timeout")
        .args([HUNG, &mpirun(), "-n", &size])
        .arg(std::env::current_exe().unwrap())
        .env(ROLE, role)
        // Without these, Open MPI refuses to run as root, as in a container, and with more ranks than cores. Version 4
        // also needs an option to avoid a component that crashes (see rmalab_atomics::mpi).
        .envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")))
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_osc", std::env::var_os("OMPI_MCA_osc").unwrap_or_else(|| "sm".into()))
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ends_well(output: &Output, _size: u32) -> Result<(), String> {
    if output.status.success() { Ok(()) } else { Err(format!("ended with {}", output.status)) }
}

fn all_checks_have_passed(output: &Output, size: u32) -> Result<(), String> {
    ends_well(output, size)?;
    let expected = checks::<Mpi>().iter().filter(|check| check.suits(size)).count();
    let passed = String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with("... ok")).count();
    if passed == expected { Ok(()) } else { Err(format!("{passed} of {expected} checks have passed")) }
}

/// Checks that the job has failed, but not at its time limit, and that rank 1 has printed the reason.
fn ended_by(why: &str, output: &Output) -> Result<(), String> {
    let said = said(output);
    match output.status.code() {
        Some(0 | 124) => Err(format!("ended with {}", output.status)),
        _ if !why.is_empty() && !said.contains(&format!("rank 1 of 3 {why}")) => Err(format!("nothing says {why:?}")),
        _ => Ok(()),
    }
}

/// Runs every check of the suite, one after the other; rank 0 reports.
fn conformance() -> Result<(), String> {
    let ra = mpi::attach().map_err(|error| error.to_string())?;
    for check in checks::<Mpi>().into_iter().filter(|check| check.suits(ra.size())) {
        if let Err(failure) = (check.run)(&ra) {
            eprintln!("{failure}");
            ra.fail();
        }
        if ra.rank() == Rank(0) {
            println!("{} ... ok", check.name);
            std::io::stdout().flush().unwrap();
        }
    }
    Ok(())
}

/// Checks the guarantees of this backend beyond the suite.
fn particulars() -> Result<(), String> {
    let ra = mpi::attach().unwrap();
    let error = mpi::attach().unwrap_err().to_string();
    assert!(error.contains("has joined its MPI world before"), "{error}");
    assert_eq!(ra.topology().size(), ra.size());
    assert_eq!(ra.topology().nodes(), 1, "mpirun was asked for ranks on this host");
    let capabilities = ra.capabilities();
    assert_eq!((capabilities.backend, capabilities.native_fetch_store), ("mpi", true));

    // Any number of puts to one word follow each other without a flush. A put to another word needs a flush before it.
    let words = ra.heap().alloc(8 * 64, 8).unwrap();
    let target = Rank((ra.rank().0 + 1) % ra.size());
    let word = |i: u64| target.at(words.word(i));
    for value in 1..=1_000 {
        ra.put(word(0), value).unwrap();
    }
    assert_eq!(ra.ordering_flushes(), 0);
    ra.put(word(1), 1).unwrap();
    ra.put(word(1), 2).unwrap();
    ra.put(word(0), 1_001).unwrap();
    assert_eq!(ra.ordering_flushes(), 2);
    ra.flush(target).unwrap();
    ra.put(word(1), 3).unwrap();
    assert_eq!(ra.ordering_flushes(), 2, "nothing was under way");
    assert_eq!(ra.get(word(0)).unwrap(), 1_001);
    ra.put(word(0), 1_002).unwrap();
    assert_eq!(ra.ordering_flushes(), 2, "the get has completed the put before it");
    // All targets share the slots.
    for value in 0..500 {
        for rank in 0..ra.size() {
            ra.put(Rank(rank).at(words.word(2 + u64::from(ra.rank().0))), value).unwrap();
            ra.put(Rank(rank).at(words.word(5 + u64::from(ra.rank().0))), value).unwrap();
        }
    }
    ra.flush_all().unwrap();
    for rank in 0..ra.size() {
        for first in [2, 5] {
            assert_eq!(ra.get(Rank(rank).at(words.word(first + u64::from(ra.rank().0)))).unwrap(), 499);
        }
    }

    // More requests than are kept at a time, without a wait for most of them.
    let (mut bytes, at) = (vec![0u8; 8 * 1_000], ra.heap().alloc(8 * 1_000 * 3, 8).unwrap());
    let place = |i: usize| -> Address { target.at(at.plus(8 * (1_000 * u64::from(ra.rank().0) + i as u64))) };
    let values: Vec<[u8; 8]> = (0..1_000u64).map(u64::to_ne_bytes).collect();
    let mut last = None;
    for (i, value) in values.iter().enumerate() {
        // SAFETY: the values live, unwritten, until the flush below.
        last = Some(unsafe { ra.put_bytes_nb(place(i), value.as_ptr(), 8) }.unwrap());
    }
    ra.flush(target).unwrap();
    assert!(ra.test(last.as_ref().unwrap()).unwrap(), "a flush completes requests");
    ra.wait(last.unwrap()).unwrap();
    for (i, value) in bytes.chunks_mut(8).enumerate() {
        // SAFETY: the vector lives, untouched, until the flush below.
        let _ = unsafe { ra.get_bytes_nb(place(i), value.as_mut_ptr(), 8) }.unwrap();
    }
    ra.flush_all().unwrap();
    assert_eq!(bytes, values.concat());

    // A clear that does not fit has no effect.
    let end = ra.heap().capacity();
    ra.put(ra.rank().at(Disp(end - 8)), 1).unwrap();
    for (own, len) in [(end - 8, 9), (0, end + 1), (8, u64::MAX)] {
        assert!(matches!(ra.clear(Disp(own), len), Err(Error::OutOfSegment { .. })));
    }
    assert_eq!(ra.get(ra.rank().at(Disp(end - 8))).unwrap(), 1);
    Collectives::new(&ra).unwrap().barrier().unwrap();
    Ok(())
}

/// Checks two worlds over a communicator of a part of the ranks, beside the job's own world.
fn worlds_over_communicators() -> Result<(), String> {
    let ra = mpi::attach().unwrap();
    let me = ra.rank().0;
    // The ranks with odd numbers, and those with even ones; both in reverse.
    // SAFETY: the world has initialized MPI; the communicator is written before it is used.
    let half = unsafe {
        let mut half = mpi_sys::RSMPI_COMM_NULL;
        mpi_sys::MPI_Comm_split(mpi_sys::RSMPI_COMM_WORLD, (me % 2) as i32, -(me as i32), &mut half);
        half
    };
    let numbers: Vec<u32> = (0..ra.size()).rev().filter(|rank| rank % 2 == me % 2).collect();
    let over = |bytes| {
        // SAFETY: the communicator has one group; the first world finalizes MPI, and is dropped last.
        unsafe { Attach::new().segment_bytes(bytes).over(half) }.unwrap()
    };
    let worlds = [over(1 << 16), over(1 << 17)];
    for world in &worlds {
        assert_eq!((numbers[world.rank().index()], world.size() as usize), (me, numbers.len()));
        let collectives = Collectives::new(world).unwrap();
        let word = world.heap().alloc(8, 8).unwrap();
        for rank in 0..world.size() {
            world.fetch_add(Rank(rank).at(word), u64::from(me) + 1).unwrap();
        }
        collectives.barrier().unwrap();
        let sum: u32 = numbers.iter().map(|number| number + 1).sum();
        assert_eq!(world.get(world.rank().at(word)).unwrap(), u64::from(sum));
        collectives.barrier().unwrap();
    }
    let [first, second] = worlds;
    drop(first);
    // The other world, and the job's world, go on.
    Collectives::new(&second).unwrap().barrier().unwrap();
    drop(second);
    Collectives::new(&ra).unwrap().barrier().unwrap();
    // SAFETY: made above, and not used afterwards.
    unsafe { mpi_sys::MPI_Comm_free(&mut { half }) };
    Ok(())
}

fn differing_segments() -> Result<(), String> {
    // Rank 2 asks for more than the others. Every rank gets the error, and none waits.
    let bytes = if std::env::var("PMI_RANK").or(std::env::var("OMPI_COMM_WORLD_RANK")).as_deref() == Ok("2") {
        8192
    } else {
        4096
    };
    let error = Attach::new().segment_bytes(bytes).attach().unwrap_err().to_string();
    assert!(error.contains("disagree") && error.contains(&bytes.to_string()), "{error}");
    Ok(())
}

fn wrong_topology() -> Result<(), String> {
    let wrong = std::env::var("PMI_RANK").or(std::env::var("OMPI_COMM_WORLD_RANK")).as_deref() == Ok("2");
    let topology = rmalab_atomics::Topology::one_node(if wrong { 7 } else { 3 });
    let error = Attach::new().topology(topology).attach().unwrap_err().to_string();
    let expected = if wrong { "the topology has 7 ranks, but the world has 3" } else { "another rank does not join" };
    assert!(error.contains(expected), "{error}");
    Ok(())
}

/// Rank 1 ends with `end`, while each of the others waits for an event that never happens.
fn ends_by(end: fn(Mpi)) -> Result<(), String> {
    let ra = mpi::attach().unwrap();
    let collectives = Collectives::new(&ra).unwrap();
    let word = ra.heap().alloc(8, 8).unwrap();
    collectives.barrier().unwrap();
    match ra.rank().0 {
        0 => ra.wait_until(word, Until::Ne(0)).map(drop),
        1 => {
            drop(collectives);
            end(ra);
            return Ok(());
        }
        _ => collectives.barrier(),
    }
    .map_err(|error| error.to_string())
}

fn fails() -> Result<(), String> {
    ends_by(|ra| ra.fail())
}

fn panics() -> Result<(), String> {
    ends_by(|_ra| panic!("this is meant"))
}

fn is_killed() -> Result<(), String> {
    ends_by(|_ra| {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    })
}

/// Checks the errors without an `mpirun`, and with the `mpirun` of another MPI, which this one does not recognize.
fn without_the_right_mpirun() -> Result<(), String> {
    let foreign = if mpi::library().starts_with("Open MPI") { "PMI_SIZE" } else { "OMPI_COMM_WORLD_SIZE" };
    for (variable, expected) in [(None, "no launcher has started this process"), (Some(foreign), "has started 4 ranks")]
    {
        let mut command = Command::new("timeout");
        command.arg(HUNG).arg(std::env::current_exe().unwrap()).env(ROLE, "attach");
        command.envs(variable.map(|variable| (variable, "4")));
        let output = command.output().unwrap();
        if output.status.success() || !said(&output).contains(expected) {
            return Err(format!("nothing says {expected:?}, {}: {}", output.status, said(&output)));
        }
    }
    Ok(())
}
