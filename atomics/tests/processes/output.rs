//! The output of ranks.

use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};

use rmalab_atomics::{Launcher, Line, Output, Rank, Stream};

use super::{driver, here, is_driver};

type Lines = Arc<Mutex<Vec<(Rank, Stream, Vec<u8>)>>>;

fn collected() -> (Lines, Output) {
    let lines = Lines::default();
    let taken = Arc::clone(&lines);
    let take = move |line: Line<'_>| taken.lock().unwrap().push((line.rank, line.stream, line.bytes.to_vec()));
    (lines, Output::Lines(Box::new(take)))
}

fn shell(size: u32, script: &str) -> Launcher {
    Launcher::new(size).command("sh", ["-c", script]).time_limit(super::HUNG)
}

#[test]
fn lines_come_with_their_rank_and_stream() {
    let (lines, output) = collected();
    let script = r"echo out $RMALAB_RANK of $RMALAB_SIZE; echo err >&2; printf '\377\000x\n'; printf 'no end'";
    let outcome = shell(3, script).output(output).spawn().unwrap().wait().unwrap();
    assert!(outcome.success());
    let lines = lines.lock().unwrap();
    for rank in 0..3 {
        let of = |stream| {
            let mine = lines.iter().filter(|line| (line.0, line.1) == (Rank(rank), stream));
            mine.map(|line| line.2.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(Stream::Out), [format!("out {rank} of 3").as_bytes(), b"\xff\0x", b"no end"]);
        assert_eq!(of(Stream::Err), [b"err"]);
    }
}

#[test]
fn lines_are_prefixed_and_whole() {
    if is_driver() {
        // This ends the line that libtest has begun.
        println!();
        // Both streams fill up, so that ranks and launcher would block each other if one stream were read after the
        // other.
        let script = r#"i=0; while [ $i -lt 3000 ]; do echo "out $i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."; echo "err $i bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb." >&2; i=$((i+1)); done; printf last"#;
        assert!(shell(4, script).spawn().unwrap().wait().unwrap().success());
        return;
    }
    let output = driver(here!()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let check = |bytes: &[u8], name: &str, filler: &str, last: bool| {
        let text = std::str::from_utf8(bytes).unwrap();
        for rank in 0..4 {
            let prefix = format!("[{rank}] ");
            let mine: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
            let mut expected: Vec<String> = (0..3000).map(|i| format!("{name} {i} {filler}.")).collect();
            expected.extend(last.then(|| "last".to_string()));
            assert_eq!(mine.len(), expected.len());
            for (found, expected) in mine.iter().zip(&expected) {
                assert_eq!(found, expected);
            }
        }
    };
    check(&output.stdout, "out", &"a".repeat(56), true);
    check(&output.stderr, "err", &"b".repeat(57), false);
}

#[test]
fn a_closed_stream_reaches_the_ranks_as_a_broken_pipe() {
    if is_driver() {
        let outcome = shell(2, "while :; do echo y || exit 3; done").spawn().unwrap().wait().unwrap();
        // Libtest's report of a success would go to the closed stream.
        std::process::exit(if outcome.success() { 50 } else { 51 });
    }
    let mut child = driver(here!()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Libtest must write its own output before the stream is closed.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "[1] y"));
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(51));
}

#[test]
fn discarded_and_inherited_output() {
    if is_driver() {
        shell(2, "echo thrown away").output(Output::Discard).spawn().unwrap().wait().unwrap();
        shell(2, "echo as it is").output(Output::Inherit).spawn().unwrap().wait().unwrap();
        std::io::stdout().flush().unwrap();
        return;
    }
    let output = driver(here!()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("thrown away"));
    assert_eq!(text.matches("as it is").count(), 2);
}

#[test]
fn processes_that_a_rank_leaves_running_block_no_rank() {
    let (lines, output) = collected();
    // The sleeper inherits the pipes, and dies with its rank.
    let outcome = shell(1, "sleep 1000 & echo started").output(output).spawn().unwrap().wait().unwrap();
    assert!(outcome.success());
    assert_eq!(*lines.lock().unwrap(), [(Rank(0), Stream::Out, b"started".to_vec())]);
}

#[test]
fn a_panic_of_the_output_function_is_passed_on() {
    let output = Output::Lines(Box::new(|_| panic!("of the function")));
    let job = shell(2, "echo line; sleep 1000").output(output).spawn().unwrap();
    let pids = [job.pid(Rank(0)), job.pid(Rank(1))];
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.wait())).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the function"));
    assert!(pids.into_iter().all(super::has_ended));
}

/// Waits until the pipe of `out` is full.
fn until_full(out: &impl std::os::fd::AsFd) {
    let mut before = 0;
    super::eventually("a full pipe", || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = rustix::io::ioctl_fionread(out).unwrap();
        now > 4096 && std::mem::replace(&mut before, now) == now
    });
}

#[test]
fn signals_are_obeyed_while_no_process_reads_the_output() {
    if is_driver() {
        let ended = shell(2, "trap '' TERM; while :; do echo y; done").spawn().unwrap().wait();
        std::process::exit(ended.map_or(1, |outcome| outcome.exit_code()));
    }
    let mut child = driver(here!()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    until_full(&out);
    super::eventually("the end of the launcher", || {
        super::kill(child.id(), rustix::process::Signal::TERM);
        child.try_wait().unwrap().is_some()
    });
    let status = child.wait().unwrap();
    // Once the job is over, a further signal has its usual effect on the launcher.
    assert!(status.code() == Some(137) || super::signal_of(status) == Some(15), "{status}");
    drop(out);
}

#[test]
fn the_death_of_a_rank_is_detected_while_no_process_reads_the_output() {
    if is_driver() {
        println!();
        let script = "case $RMALAB_RANK in 0) while :; do echo y; done;; *) exec sleep 1000;; esac";
        let outcome = shell(2, script).grace(std::time::Duration::from_millis(50)).spawn().unwrap().wait().unwrap();
        std::process::exit(outcome.exit_code());
    }
    let mut child = driver(here!()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    until_full(&out);
    let ranks = super::children(child.id());
    let sleeps = |pid: &&u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"sleep\n");
    let victim = *ranks.iter().find(sleeps).unwrap();
    super::kill(victim, rustix::process::Signal::KILL);
    super::eventually("the end of both ranks, which their launcher has reaped", || {
        super::children(child.id()).is_empty()
    });
    // The launcher itself still has lines to write.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut out, &mut rest).unwrap();
    let text = String::from_utf8(rest).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with('[')).peekable();
    assert!(lines.peek().is_some() && lines.all(|line| line == "[0] y"));
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn a_time_limit_holds_while_the_output_function_does_not_return() {
    let (_held, never) = std::sync::mpsc::channel::<()>();
    let output = Output::Lines(Box::new(move |_| never.recv().unwrap_or_default()));
    let job = shell(1, "echo line; sleep 1000").output(output).time_limit(std::time::Duration::from_millis(50));
    let waiting = std::thread::spawn(move || job.spawn().unwrap().wait().unwrap_err().to_string());
    super::eventually("the end of the job", || waiting.is_finished());
    let error = waiting.join().unwrap();
    assert!(error.contains("did not end within 50ms"), "{error}");
}

#[test]
fn no_line_is_lost_when_a_process_reads_late() {
    if is_driver() {
        println!();
        let script = "i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done; echo last >&2";
        let outcome = shell(2, script).spawn().unwrap().wait().unwrap();
        std::process::exit(outcome.exit_code());
    }
    let mut child = driver(here!());
    let mut child = child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    until_full(child.stdout.as_ref().unwrap());
    let output = {
        child.stdin.take();
        child.wait_with_output().unwrap()
    };
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..2 {
        let prefix = format!("[{rank}] ");
        let mine = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        assert!(mine.eq((0..30_000).map(|i| i.to_string())), "the lines of rank {rank}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("last").count(), 2);
}
