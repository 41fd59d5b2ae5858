//! Comparisons without peers, and summaries of given figures.

use super::*;

fn options(operations: &[&str]) -> Options {
    let names: Vec<String> = operations.iter().map(|&name| name.to_owned()).collect();
    Options {
        operations: named(&names).unwrap(),
        ranks: vec![2],
        locks: false,
        repetitions: 3,
        budget: Duration::from_millis(1),
        preloads: Vec::new(),
    }
}

fn no_peers(skipped: &[&str]) -> Peers {
    let skipped = skipped.iter().map(|&line| line.to_owned()).collect();
    Peers { mpis: Vec::new(), kit: None, skipped, _folder: tempfile::tempdir().unwrap() }
}

fn cell(name: &str, ranks: u32, who: &str, ns: &[f64], failures: &[&str]) -> Cell {
    Cell {
        what: What::Operation { name: name.into(), ranks },
        who: who.into(),
        ns: ns.to_vec(),
        failures: failures.iter().map(|&how| how.to_owned()).collect(),
    }
}

fn with_peers(names: &[&str]) -> Peers {
    let mut peers = no_peers(&[]);
    peers.mpis = names.iter().map(|name| Peer::named(name)).collect();
    peers
}

#[test]
fn implementations_take_turns() {
    let (options, peers, stop) = (options(&["put-8"]), with_peers(&["A", "B"]), AtomicBool::new(false));
    let run = Run { options: &options, peers: &peers, stop: &stop };
    let order = |repetition| {
        let steps = run.steps(repetition);
        assert_eq!(steps[0], Step::PingPong);
        steps[1..].iter().map(|step| run.who(step).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(0), [OURS, "A", "B"]);
    assert_eq!(order(1), ["A", "B", OURS]);
    assert_eq!(order(5), ["B", OURS, "A"]);
}

#[test]
fn ratios_use_the_best_of_the_others_that_do_not_fail() {
    let (options, peers) = (options(&["put-8", "barrier", "compare-and-swap"]), with_peers(&["A", "B"]));
    let cells = [
        cell("put-8", 2, OURS, &[10.0, 90.0, 11.0], &[]),
        cell("put-8", 2, "A", &[22.0, 22.0, 1.0], &[]),
        cell("put-8", 2, "B", &[33.0], &[]),
        cell("barrier", 2, OURS, &[100.0], &[]),
        cell("barrier", 2, "A", &[200.0], &[]),
        cell("barrier", 2, "B", &[50.0], &[]),
        cell("compare-and-swap", 2, OURS, &[8.0], &[]),
        cell("compare-and-swap", 2, "A", &[24.0], &[]),
        cell("compare-and-swap", 2, "B", &[1.0], &["crashes (segmentation fault)"]),
    ];
    let summary = Summary::of(&options, &peers, &Machine::default(), &[100.0, 500.0], &cells);
    let text = summary.tables[0].to_string();
    for words in ["ahead 2.00×", "BEHIND 0.50×", "ahead 3.00×", "crashes"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let goal = &summary.goals[0];
    assert!(!goal.holds && goal.here == "2 of 3; not barrier 0.50×", "{goal:?}");
    assert_eq!(summary.bars.iter().map(|bar| bar.1).collect::<Vec<_>>(), [3.0, 2.0, 0.5]);
    let notes = summary.notes.join("\n");
    assert!(notes.contains("B: compare-and-swap, 2 ranks: crashes (segmentation fault) (1 of 2 times)"), "{notes}");
    assert!(notes.contains("near cores in 1 repetitions, far ones in 1"), "{notes}");
}

#[test]
fn preloaded_programs_are_beside_the_others_and_none_of_them() {
    let (options, peers) = (options(&["put-8", "barrier"]), with_peers(&["A", "B", "A preloaded"]));
    let cells = [
        cell("put-8", 2, OURS, &[10.0], &[]),
        cell("put-8", 2, "A", &[40.0], &[]),
        cell("put-8", 2, "B", &[20.0], &[]),
        cell("put-8", 2, "A preloaded", &[5.0], &[]),
        cell("barrier", 2, OURS, &[10.0], &[]),
        cell("barrier", 2, "A", &[20.0], &[]),
        cell("barrier", 2, "A preloaded", &[25.0], &[]),
    ];
    let summary = Summary::of(&options, &peers, &Machine::default(), &[], &cells);
    let text = summary.tables[0].to_string();
    // The preloaded program is faster than ours, but no other implementation.
    for words in ["ahead 2.00×", "ahead 4.00×", "BEHIND 0.80×"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let [ours, preloaded] = &summary.goals[..] else { panic!("{:?}", summary.goals) };
    assert!(ours.holds, "{ours:?}");
    assert!(preloaded.expected.contains("A preloaded") && !preloaded.holds, "{preloaded:?}");
    assert_eq!(preloaded.here, "1 of 2; not barrier 0.80×");
}

#[test]
fn implementations_that_wait_for_the_scheduler_set_a_higher_goal() {
    let (options, peers) = (Options { ranks: vec![1024], ..options(&["barrier", "pscw"]) }, with_peers(&["A", "B"]));
    let figures = |barrier| {
        [
            cell("barrier", 1024, OURS, &[1e4], &[]),
            cell("barrier", 1024, "A", &[barrier], &[]),
            cell("barrier", 1024, "B", &[2e4], &[]),
            cell("pscw", 1024, OURS, &[1e4], &[]),
            cell("pscw", 1024, "A", &[barrier / 90.0], &[]),
        ]
    };
    let summary = Summary::of(&options, &peers, &Machine::default(), &[], &figures(8e6));
    assert_eq!(summary.goals.len(), 1);
    assert!(!summary.goals[0].holds && summary.goals[0].here.contains("not pscw 8.89×"), "{:?}", summary.goals);
    // An implementation with short times does not wait for the scheduler, so this goal does not apply.
    assert!(Summary::of(&options, &peers, &Machine::default(), &[], &figures(2e4)).goals.is_empty());
}

#[test]
fn a_stopped_run_resumes_from_the_journal() {
    let at = tempfile::tempdir().unwrap();
    let path = at.path().join("journal");
    let (options, peers) = (Options { locks: true, ..options(&["put-8"]) }, no_peers(&["A is skipped"]));
    // The stop flag would show any step that the journal does not have.
    let stop = AtomicBool::new(true);
    let run_of = Run { options: &options, peers: &peers, stop: &stop };
    let mut journal = Journal::open(&path, "test", false).unwrap();
    for step in &run_of.steps(0)[..2] {
        let rows: Rows = match step {
            Step::PingPong => vec![("ping-pong".into(), Took::Time(100.0))],
            _ => vec![("put-8".into(), Took::Time(7.0))],
        };
        journal.put(&run_of.key(step, 0), serde_json::to_value(&rows).unwrap()).unwrap();
    }
    let outcome = run(&options, &peers, &stop, Some(&mut journal), |_| {}).unwrap();
    assert!(!outcome.run.complete);
    assert_eq!(outcome.cells, [cell("put-8", 2, OURS, &[7.0], &[])]);
    assert_eq!(outcome.ping_pong_ns, [100.0]);
    assert_eq!(outcome.skipped, ["A is skipped"]);
}
