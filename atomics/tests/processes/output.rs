//! What becomes of the ranks' output.

use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};

use rmalab_atomics::{Launcher, Line, Output, Rank, Stream};

use crate::{driver, here, is_driver};

type Lines = Arc<Mutex<Vec<(Rank, Stream, Vec<u8>)>>>;

fn collected() -> (Lines, Output) {
    let lines = Lines::default();
    let taken = Arc::clone(&lines);
    let take = move |line: Line<'_>| taken.lock().unwrap().push((line.rank, line.stream, line.bytes.to_vec()));
    (lines, Output::Lines(Box::new(take)))
}

fn shell(size: u32, script: &str) -> Launcher {
    Launcher::new(size).command("sh", ["-c", script]).time_limit(crate::HUNG)
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
        // An end to the line that libtest has begun.
        println!();
        // Both streams to the full, so that ranks and launcher would block each other if one were read after the other.
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
        // Libtest's words about a success would go the same closed way.
        std::process::exit(if outcome.success() { 50 } else { 51 });
    }
    let mut child = driver(here!()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // libtest's own words have to be out before the stream is closed.
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
fn what_a_rank_leaves_running_holds_nobody_up() {
    let (lines, output) = collected();
    // The sleeper inherits the pipes, and dies with its rank.
    let outcome = shell(1, "sleep 1000 & echo started").output(output).spawn().unwrap().wait().unwrap();
    assert!(outcome.success());
    assert_eq!(*lines.lock().unwrap(), [(Rank(0), Stream::Out, b"started".to_vec())]);
}

#[test]
fn a_panic_of_the_output_function_is_carried_on() {
    let output = Output::Lines(Box::new(|_| panic!("of the function")));
    let job = shell(2, "echo line; sleep 1000").output(output).spawn().unwrap();
    let pids = [job.pid(Rank(0)), job.pid(Rank(1))];
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.wait())).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the function"));
    assert!(pids.into_iter().all(crate::has_ended));
}
