//! Calls that the kernel or a container refuses.

use rmalab_atomics::{Collectives, Disp, Launcher, Mapped, Output, Rank, RemoteAtomics, World, bind_to_core};
use rustix::process::Signal;

use super::{alone, be_a_rank, driver, has_ended, here, is_driver, launcher};

/// Makes every system call `number` of this thread, and of the threads and processes that it starts, fail with `error`,
/// like the seccomp profile of a container.
fn refuse(number: libc::c_long, error: i32) {
    let instruction = |code: u32, jump_if_not: u8, value: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: jump_if_not,
        k: value,
    };
    let mut filter = [
        // The number of the call is the first field of a filter's data.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, u32::try_from(number).unwrap()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | u32::try_from(error).unwrap()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the first call takes integers only; the second reads the program and its four instructions, which live
    // until it returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn ranks_are_watched_where_pidfd_open_is_refused() {
    alone(here!(), || {
        refuse(libc::SYS_pidfd_open, libc::EPERM);
        let shell = |script: &str| {
            Launcher::new(2)
                .command("sh", ["-c", script])
                .output(Output::Discard)
                .time_limit(super::HUNG)
                .grace(std::time::Duration::from_millis(50))
                .spawn()
        };
        assert_eq!(shell("exit $RMALAB_RANK").unwrap().wait().unwrap().exit_code(), 1);
        let job = shell("exec sleep 1000").unwrap();
        let pids = [job.pid(Rank(0)), job.pid(Rank(1))];
        job.signal(Rank(1), Signal::KILL).unwrap();
        let outcome = job.wait().unwrap();
        assert_eq!((outcome.first_failure, outcome.exit_code()), (Some(Rank(1)), 137));
        assert!(pids.into_iter().all(has_ended));
    });
}

/// A rank of a world that must not start.
fn never(_: &Mapped) {
    unreachable!("there is no world");
}

#[test]
fn a_refused_memory_file_is_an_error_that_names_it() {
    alone(here!(), || {
        refuse(libc::SYS_memfd_create, libc::EPERM);
        let error = super::world(here!(), 2).run(never).unwrap_err().to_string();
        assert!(error.contains("creating a memory file of ") && error.contains("not permitted"), "{error}");
        // Threads need no such call.
        assert_eq!(World::threads(2).run(|ra| ra.rank().0).unwrap(), [0, 1]);
    });
}

#[test]
fn a_refused_process_is_an_error_and_leaves_none_behind() {
    alone(here!(), || {
        for call in [libc::SYS_clone, libc::SYS_clone3, libc::SYS_fork, libc::SYS_vfork] {
            refuse(call, libc::EAGAIN);
        }
        let error = super::world(here!(), 2).run(never).unwrap_err().to_string();
        assert!(error.contains("starting"), "{error}");
        assert!(super::children(std::process::id()).is_empty());
    });
}

#[test]
fn too_few_descriptors_are_an_error_that_names_the_limit() {
    alone(here!(), || {
        let limit = rustix::process::Rlimit { current: Some(32), maximum: Some(32) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let error = super::world(here!(), 64).run(never).unwrap_err().to_string();
        assert!(error.contains("64 ranks need ") && error.contains("may have 32 (ulimit -Hn)"), "{error}");
        assert!(super::children(std::process::id()).is_empty());
    });
}

#[test]
fn a_refused_binding_names_the_remedy() {
    alone(here!(), || {
        refuse(libc::SYS_sched_setaffinity, libc::EPERM);
        let error = bind_to_core(Rank(0)).unwrap_err().to_string();
        assert!(error.contains("binding rank 0 to a core") && error.contains("seccomp"), "{error}");
    });
}

/// Fills and frees memory of many pages, and returns whether all of it is zero at the next allocation.
fn fill_and_free(ra: &Mapped) -> bool {
    const BYTES: u64 = 512 << 10;
    let collectives = Collectives::new(ra).unwrap();
    let place = ra.heap().alloc(BYTES, 4096).unwrap();
    ra.put_bytes(ra.rank().at(place), &[0xff; BYTES as usize]).unwrap();
    collectives.free(place).unwrap();
    let place: Disp = ra.heap().alloc(BYTES, 4096).unwrap();
    let mut found = vec![1; BYTES as usize];
    ra.get_bytes(ra.rank().at(place), &mut found).unwrap();
    collectives.barrier().unwrap();
    found.iter().all(|&byte| byte == 0)
}

#[test]
fn freed_memory_is_zero_where_the_kernel_does_not_report_pages() {
    const CALLS: [libc::c_long; 4] = [libc::SYS_madvise, libc::SYS_mincore, libc::SYS_lseek, libc::SYS_membarrier];
    be_a_rank(2, |ra| {
        CALLS.into_iter().for_each(|call| refuse(call, libc::ENOSYS));
        fill_and_free(ra)
    });
    alone(here!(), || {
        CALLS.into_iter().for_each(|call| refuse(call, libc::ENOSYS));
        assert_eq!(World::threads(2).run(fill_and_free).unwrap(), [true; 2]);
    });
    let outcome = launcher(here!(), 2).spawn().unwrap().wait().unwrap();
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(super::results::<bool>(&outcome), [Some(true); 2]);
}

#[test]
#[ignore = "needs valgrind"]
fn freed_memory_is_zero_under_valgrind() {
    be_a_rank(2, fill_and_free);
    if is_driver() {
        assert_eq!(World::threads(2).run(fill_and_free).unwrap(), [true; 2]);
        let outcome = launcher(here!(), 2).spawn().unwrap().wait().unwrap();
        assert!(outcome.success(), "{outcome:?}");
        assert_eq!(super::results::<bool>(&outcome), [Some(true); 2]);
        return;
    }
    let own = driver(here!());
    let mut command = std::process::Command::new("valgrind");
    command.args(["-q", "--trace-children=yes"]).arg(own.get_program()).args(own.get_args());
    own.get_envs().for_each(|(name, value)| {
        command.env(name, value.unwrap_or_default());
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
