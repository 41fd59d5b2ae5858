//! Diagrams show every step of a schedule, and the right text for it.

use std::path::Path;

use rmalab_atomics::{Rank, RemoteAtomics, Until};
use rmalab_locks::qnode::pointer;
use rmalab_locks::{Place, RawMutex, RawRwLock};
use rmalab_verify::explorer::{Options, explore};
use rmalab_verify::play::Section;
use rmalab_verify::subject::{At, Holds, Order, WORDS};
use rmalab_verify::{
    Check, Choice, Counterexample, Error, Finding, Live, Network, Property, Subject, Violation, diagram, mutant,
    replay, subject, subjects,
};

/// Checks that the word is free, and takes it in a second step.
#[derive(Debug)]
struct LooksThenTakes(Place);

impl RawRwLock for LooksThenTakes {
    const NAME: &'static str = "looks-then-takes";
    const WORDS: u64 = 8;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> rmalab_locks::Result<Self> {
        Ok(LooksThenTakes(place))
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.acquire_write(ra)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.release_write(ra)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        while ra.get(self.0.word(0))? != 0 {
            ra.pause(1)?;
        }
        Ok(ra.put(self.0.word(0), pointer(ra.rank()))?)
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(ra.put(self.0.word(0), 0)?)
    }
}

/// Swaps itself in, waits for its predecessor, and wakes no rank.
#[derive(Debug)]
struct WakesNoRank(Place);

impl RawRwLock for WakesNoRank {
    const NAME: &'static str = "wakes-no-rank";
    const WORDS: u64 = 8;
    const NODE: u64 = 8;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> rmalab_locks::Result<Self> {
        Ok(WakesNoRank(place))
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.acquire_write(ra)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        self.release_write(ra)
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        if ra.fetch_store(self.0.word(0), pointer(ra.rank()))? != 0 {
            ra.wait_until(self.0.node, Until::Ne(0))?;
        }
        Ok(())
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        ra.fetch_store(self.0.word(0), 0)?;
        Ok(())
    }
}

fn looks_then_takes(scenario: &str) -> Check {
    let subject = Subject::lock::<LooksThenTakes>(()).words(At::Home, WORDS, &[("owner", Holds::Pointer)]);
    Check::new(subject, scenario.parse().unwrap())
}

fn wakes_no_rank(scenario: &str) -> Check {
    let subject = Subject::lock::<WakesNoRank>(()).words(At::Home, WORDS, &[("tail", Holds::Pointer)]).words(
        At::Each,
        WORDS.plus(rmalab_locks::LINE),
        &[("unblocked", Holds::Number)],
    );
    Check::new(subject, scenario.parse().unwrap())
}

fn steps(ranks: &[u32]) -> Vec<Choice> {
    ranks.iter().map(|&rank| Choice::Step(Rank(rank))).collect()
}

/// A schedule with the violation that the replay finds.
fn found(check: &Check, schedule: Vec<Choice>) -> Counterexample {
    let (_, violation) = replay(check, &schedule).unwrap();
    Counterexample::new(check, violation.expect("the schedule breaks something"), schedule, None)
}

/// A schedule with a claimed violation of `property`, whatever it does.
fn claimed(check: &Check, property: Property, schedule: Vec<Choice>, cycle: Option<usize>) -> Counterexample {
    let violation = Violation { property, rank: Rank(0), acquisition: Some(0), seen: "a claim".to_owned() };
    Counterexample::new(check, violation, schedule, cycle)
}

fn two_inside() -> (Check, Counterexample) {
    let check = looks_then_takes("2W");
    let counterexample = found(&check, steps(&[0, 1, 0, 1]));
    (check, counterexample)
}

/// One of the schedules of `check`, by a multiplicative hash of `seed`, up to a violation or to its end.
fn walk(check: &Check, seed: u64) -> Counterexample {
    let mut live = Live::new(check).unwrap();
    let mut schedule: Vec<Choice> = Vec::new();
    let mut random = seed;
    let mut broken = None;
    // A lock that polls may take any number of steps.
    while broken.is_none() && schedule.len() < 200 {
        let choices = live.choices();
        if choices.is_empty() {
            broken = live.end();
            break;
        }
        random = (random + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let going_on = schedule.last().filter(|last| choices.contains(last) && random >> 62 != 0);
        let choice = going_on.copied().unwrap_or(choices[(random >> 32) as usize % choices.len()]);
        schedule.push(choice);
        broken = live.take(choice).unwrap().violation;
    }
    match broken {
        Some(violation) => Counterexample::new(check, violation, schedule, None),
        None => claimed(check, Property::Order, schedule, None),
    }
}

/// The step numbers at the start of a text's lines; a folded row gives all its steps.
fn numbers<'t>(words: impl Iterator<Item = &'t str>) -> Vec<usize> {
    words
        .filter_map(|word| {
            let word = word.trim_end_matches('*');
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}

/// The characters of a lifeline in a text.
const LIFELINE: [char; 8] = ['╎', '│', '┃', '●', '○', '┼', '╂', '┊'];

/// Checks that no text of the diagram covers a lifeline.
fn check_text(text: &str) {
    let rows = text.lines().skip_while(|line| !line.contains(LIFELINE)).take_while(|line| !line.is_empty());
    let mut lifelines: Vec<usize> = Vec::new();
    for row in rows {
        let letters: Vec<char> = row.chars().collect();
        if lifelines.is_empty() {
            lifelines = (0..letters.len()).filter(|&at| LIFELINE.contains(&letters[at])).collect();
        }
        for &at in &lifelines {
            assert!(LIFELINE.contains(&letters[at]) || letters[at..].starts_with(&['✗', ' ']), "{at} in {row}\n{text}");
        }
    }
    assert!(!lifelines.is_empty(), "{text}");
}

/// Checks that the labels of an SVG diagram overlap neither each other nor a lifeline, whose bars are 18 pixels wide.
fn check_labels(svg: &str) {
    struct Label<'s> {
        text: &'s str,
        left: f64,
        right: f64,
        top: f64,
        bottom: f64,
    }
    let document = roxmltree::Document::parse(svg).unwrap();
    let lifelines = document.descendants().filter(|node| node.attribute("stroke-width") == Some("2"));
    let lifelines: Vec<[f64; 3]> = lifelines
        .map(|node| {
            let path: Vec<&str> = node.attribute("d").unwrap().split(' ').collect();
            [&path[0][1..], path[1], &path[2][1..]].map(|number| number.parse().unwrap())
        })
        .collect();
    let [_, top, bottom] = lifelines[0];
    let mut labels = Vec::new();
    for node in document.descendants().filter(|node| node.has_tag_name("text")) {
        let number = |name: &str| -> f64 { node.attribute(name).unwrap().parse().unwrap() };
        let (x, y, size, text) = (number("x"), number("y"), number("font-size"), node.text().unwrap());
        if y < top || y > bottom {
            continue;
        }
        let letter = if node.attribute("font-weight").is_some() { 0.64 } else { 0.56 };
        let width = text.chars().count() as f64 * size * letter;
        let left = match node.attribute("text-anchor").unwrap() {
            "start" => x,
            "end" => x - width,
            other => panic!("{other}: {svg}"),
        };
        labels.push(Label { text, left, right: left + width, top: y - 0.9 * size, bottom: y + 0.25 * size });
    }
    for (i, label) in labels.iter().enumerate() {
        for other in &labels[..i] {
            let beside = label.right <= other.left || other.right <= label.left;
            let above = label.bottom <= other.top || other.bottom <= label.top;
            assert!(beside || above, "{:?} overlaps {:?}", label.text, other.text);
        }
        for [x, ..] in &lifelines {
            let beside = label.right <= x - 9.0 || x + 9.0 <= label.left;
            assert!(beside, "{:?} crosses the lifeline at {x}", label.text);
        }
    }
}

fn preemptions(check: &Check, ranks: &[u32]) -> Vec<usize> {
    claimed(check, Property::Order, steps(ranks), None).preemptions(check).unwrap()
}

#[test]
fn two_inside_as_text() {
    let (check, counterexample) = two_inside();
    let expected = "\
looks-then-takes
scenario 2Wx1, network sc: 4 steps, 3 preemptions

    rank 0 (W)     rank 1 (W)     home
    ╎ begins write ╎              ╎
1   ●──────────────┼─────────────▶╎    get owner → nil
    │              ╎ begins write ╎
2*  │              ●─────────────▶╎    get owner → nil
3*  ●──────────────┼─────────────▶╎    put owner := rank 0
    ┃ ENTERS       │              ╎
4*  ┃              ●─────────────▶╎    put owner := rank 1
    ┃              ┃ ENTERS       ╎    ✗ rank 1 is inside (write) together with rank 0 (write)

In the end: owner = rank 1; all other words are zero.
✗ mutual-exclusion: rank 1 in acquisition 0: rank 1 is inside (write) together with rank 0 (write)

╎ outside, or memory   │ acquires or releases   ┃ inside      * preempts a rank that could continue
●──▶ takes effect   ●╌╌▷ is posted   ○╌╌▶ arrives   ● alone: on the rank's own memory
";
    let text = diagram::text(&check, &counterexample).unwrap();
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn a_rank_that_waits_forever_is_shown_with_its_word() {
    let check = wakes_no_rank("1R2W");
    let text = diagram::text(&check, &found(&check, steps(&[2, 1, 0, 2]))).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("✗ waits")).collect();
    assert_eq!(
        rows,
        [
            "    ✗ waits       │              ╎              ╎    forever: wait local unblocked ≠ 0, and it is 0",
            "    │             ✗ waits        ╎              ╎    forever: wait local unblocked ≠ 0, and it is 0"
        ],
        "\n{text}"
    );
    assert!(text.contains("✗ no-deadlock: rank 0"), "{text}");
}

#[test]
fn posted_puts_are_shown_twice_or_listed_as_under_way() {
    let mut check = looks_then_takes("2W");
    check.network = Network::LatePuts;
    let mut schedule = steps(&[0, 0, 0, 1]);
    schedule.insert(3, Choice::Arrive { from: Rank(0), index: 0 });
    let text = diagram::text(&check, &claimed(&check, Property::Order, schedule, None)).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(|c: char| "2345".contains(c))).collect();
    assert_eq!(
        rows,
        [
            "2   ●╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌▷╎    put owner := rank 0, posted",
            "3   ●╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌▷╎    put owner := nil, posted",
            "4   ○╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌▶╎    arrives: owner := rank 0 (of step 2)",
            "5   ╎              ●─────────────▶╎    get owner → rank 0",
        ],
        "\n{text}"
    );
    assert!(text.contains("\nStill under way: put owner := nil (step 3).\nIn the end: owner = rank 0;"), "{text}");
}

#[test]
fn an_operation_in_two_halves_has_two_rows() {
    let mut check = wakes_no_rank("2W");
    check.network = Network::Hca;
    // The home takes part, so that it has no column of its own.
    check.home = Some(Rank(1));
    check.section = Section::Data;
    let text = diagram::text(&check, &found(&check, steps(&[0, 0, 1, 1, 0, 0, 0, 0, 0]))).unwrap();
    for row in [
        "\n    rank 0 (W)     rank 1 (W)\n                   home\n",
        "\n1   ●─────────────▶╎              [1/2] swap tail := rank 0: reads nil\n",
        "\n2   ●─────────────▶╎              [2/2] swap tail := rank 0 → nil\n",
        "\n3*  ┃              ●              [1/2] swap tail := rank 1: reads rank 0\n",
        "\n    ┃ sees 0       │\n",
    ] {
        assert!(text.contains(row), "{row} in {text}");
    }
}

#[test]
fn a_call_that_bypasses_the_network_is_marked() {
    let mut check = wakes_no_rank("2W");
    check.network = Network::HcaOwnerCpu;
    check.home = Some(Rank(1));
    let text = diagram::text(&check, &claimed(&check, Property::Order, steps(&[1, 0]), None)).unwrap();
    assert!(text.contains(" swap tail := rank 1 → nil, by its processor\n"), "{text}");
    assert!(text.contains(" [1/2] swap tail := rank 0: reads rank 1\n"), "{text}");
}

#[test]
fn polls_are_folded_but_not_into_a_cycle() {
    let check = looks_then_takes("2W");
    // Rank 1 is inside; rank 0 polls and pauses eight times.
    let schedule = steps(&[[1, 1].as_slice(), &[0; 16]].concat());
    let rows = |cycle| {
        let text = diagram::text(&check, &claimed(&check, Property::NoLivelock, schedule.clone(), cycle)).unwrap();
        let rows: Vec<String> = text.lines().filter(|line| line.contains("...")).map(str::to_owned).collect();
        (text, rows)
    };
    let (text, folded) = rows(None);
    assert_eq!(folded, ["5-18   ┊              ┃              ╎    ... 7 more polls"], "{text}");
    let (text, folded) = rows(Some(6));
    assert_eq!(
        folded,
        [
            " 5-6   ┊              ┃              ╎    ... 1 more poll",
            "9-18   ┊              ┃              ╎    ... 5 more polls"
        ],
        "{text}"
    );
    let lines: Vec<&str> = text.lines().collect();
    let cycle = lines.iter().position(|line| line.ends_with("↻ the steps below repeat forever")).unwrap();
    assert!(lines[cycle + 1].trim_start().starts_with("7 "), "{text}");
    assert!(text.contains("\nSteps 7 to 18 repeat forever.\n"), "{text}");
}

#[test]
fn preemptions_are_switches_from_ranks_that_could_continue() {
    let check = looks_then_takes("2W");
    assert_eq!(preemptions(&check, &[0, 1, 0, 1]), [1, 2, 3]);
    // Rank 0 has left, so that it could not continue.
    assert!(preemptions(&check, &[0, 0, 0, 1, 1, 1]).is_empty());
    let check = wakes_no_rank("2W");
    // Rank 1 waits after its step, so that it could not continue.
    assert_eq!(preemptions(&check, &[0, 1, 0]), [1]);
}

#[test]
fn a_schedule_that_does_not_fit_is_an_error() {
    let (check, good) = two_inside();
    let why = |counterexample: &Counterexample| {
        let (text, svg) = (diagram::text(&check, counterexample), diagram::svg(&check, counterexample));
        match (text, svg) {
            (Err(Error::Schedule { step, .. }), Err(Error::Schedule { step: same, .. })) if step == same => step,
            other => panic!("{other:?}"),
        }
    };
    let with = |schedule| Counterexample { schedule, ..good.clone() };
    // Rank 0 ends after three steps, there is no rank 9, and nothing is under way.
    assert_eq!(why(&with(steps(&[0, 0, 0, 0]))), 3);
    assert_eq!(why(&with(steps(&[0, 9]))), 1);
    assert_eq!(why(&with(vec![Choice::Arrive { from: Rank(0), index: 0 }])), 0);
    assert_eq!(why(&with(vec![Choice::Arrive { from: Rank(9), index: 9 }])), 0);
    assert_eq!(why(&Counterexample { cycle: Some(4), ..good.clone() }), 4);
    assert_eq!(why(&Counterexample { lock: "another".to_owned(), ..good.clone() }), 0);
    assert_eq!(why(&Counterexample { network: Network::Hca, ..good.clone() }), 0);
}

#[test]
fn a_note_says_that_the_replay_does_not_find_the_claim() {
    let check = looks_then_takes("2W");
    let text = |property| diagram::text(&check, &claimed(&check, property, steps(&[0, 0, 0, 1]), None)).unwrap();
    let other = text(Property::MutualExclusion);
    assert!(
        other.contains("\nThe replay does not find this: ") && other.contains("\nreported, not seen here: "),
        "{other}"
    );
    assert!(!other.contains("\n✗"), "{other}");
    // A single schedule cannot show this, so there is no note.
    assert!(!text(Property::NoLivelock).contains("The replay"));
}

#[test]
fn an_svg_is_well_formed_and_escaped() {
    let name = "<a> & \"b\"";
    let subject = Subject::lock::<LooksThenTakes>(()).words(At::Home, WORDS, &[(name, Holds::Pointer)]);
    let check = Check::new(subject, "2W".parse().unwrap());
    let mut counterexample = found(&check, steps(&[0, 1, 0, 1]));
    counterexample.violation.seen = "]]> \u{1b}[31m".to_owned();
    let svg = diagram::svg(&check, &counterexample).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let texts: Vec<&str> = document.descendants().filter(|n| n.has_tag_name("text")).filter_map(|n| n.text()).collect();
    assert!(texts.contains(&format!("get {name} → nil").as_str()), "{texts:?}");
    assert!(texts.contains(&"✗ mutual-exclusion: rank 1 in acquisition 0: ]]> \u{fffd}[31m"), "{texts:?}");
    // The document uses nothing external, and no script.
    for node in document.descendants().filter(|node| node.is_element()) {
        let tag = node.tag_name().name();
        assert!(!["script", "style", "image", "use", "a", "foreignObject"].contains(&tag), "{tag}");
        assert!(node.attributes().all(|a| !a.name().contains("href") && !a.name().starts_with("on")), "{node:?}");
    }
    // Both ranks have a red background from the step at which both are inside.
    let marked: Vec<_> = document.descendants().filter(|n| n.has_tag_name("rect")).collect();
    let red = marked.iter().filter(|n| n.attribute("fill") == Some("#dc2626")).count();
    assert_eq!(red, 2, "{svg}");
}

#[test]
fn labels_overlap_neither_each_other_nor_a_lifeline() {
    for name in ["neutral-no-second-look", "neutral-untagged"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("counterexamples/{name}.json"));
        let counterexample = Counterexample::load(&path).unwrap();
        let mut check = Check::new(subject(&counterexample.lock).unwrap(), counterexample.scenario.parse().unwrap());
        check.mutant = mutant(name);
        assert_eq!(check.active(), 4);
        check_text(&diagram::text(&check, &counterexample).unwrap());
        check_labels(&diagram::svg(&check, &counterexample).unwrap());
    }
}

#[test]
fn every_step_of_every_lock_is_shown() {
    let mut diagrams = 0;
    // nocheck makes no calls, so that all ranks are inside before the first step, and there is no schedule to draw.
    let subjects: Vec<Subject> = subjects().into_iter().filter(|subject| subject.name() != "nocheck").collect();
    for subject in &subjects {
        for network in Network::ALL {
            for seed in 0..4 {
                let mut check = Check::new(subject.clone(), "2R2W".parse().unwrap());
                check.network = network;
                check.section = if seed % 2 == 0 { Section::Empty } else { Section::Data };
                let counterexample = walk(&check, seed);
                let all: Vec<usize> = (1..=counterexample.schedule.len()).collect();

                let text = diagram::text(&check, &counterexample).unwrap();
                // The words below the steps may be on several lines, which begin with any of them.
                let steps = text.lines().take_while(|line| !line.starts_with("In the end"));
                let shown = numbers(steps.filter_map(|line| line.split_whitespace().next()));
                assert_eq!(shown, all, "{text}");
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= 170, "{widest} columns: {text}");
                check_text(&text);

                let svg = diagram::svg(&check, &counterexample).unwrap();
                let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
                let texts = document.descendants().filter(|n| n.has_tag_name("text") && n.attribute("x") == Some("76"));
                let shown = numbers(texts.filter_map(|n| n.text()));
                assert_eq!(shown, all, "{svg}");
                check_labels(&svg);
                diagrams += 1;
            }
        }
    }
    assert_eq!(diagrams, subjects.len() * Network::ALL.len() * 4);
}

/// The search judges the order of entries, and a replay does not. The picture marks the entry all the same.
#[test]
fn an_entry_out_of_order_is_marked() {
    let check = Check::new(subject("tas").unwrap().order(Order::Fifo), "3Wx1".parse().unwrap());
    let options = Options { order: true, ..Options::default() };
    let Finding::Violated(found) = explore(&check, &options, &|_| true).unwrap().finding else {
        panic!("tas is not first come, first served");
    };
    assert_eq!(found.violation.property, Property::Order);
    let text = diagram::text(&check, &found).unwrap();
    let last = text.lines().rfind(|line| line.contains("ENTERS")).unwrap();
    assert!(last.contains(&format!("✗ {}", found.violation.seen)), "{text}");
}

/// Puts a pointer to a rank that does not exist.
#[derive(Debug)]
struct PointsNowhere(Place);

impl RawMutex for PointsNowhere {
    const NAME: &'static str = "points-nowhere";
    const WORDS: u64 = 8;
    const NODE: u64 = 0;
    type Params = ();

    fn bind<A: RemoteAtomics + ?Sized>(_: &A, place: Place, (): ()) -> rmalab_locks::Result<Self> {
        Ok(PointsNowhere(place))
    }

    fn acquire<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> rmalab_locks::Result<()> {
        Ok(ra.put(self.0.word(0), pointer(Rank(8)))?)
    }

    fn release<A: RemoteAtomics + ?Sized>(&mut self, _: &A) -> rmalab_locks::Result<()> {
        Ok(())
    }
}

#[test]
fn a_pointer_to_no_rank_is_drawn_as_such() {
    let lock = Subject::mutex::<PointsNowhere>(()).lock_words(&[("tail", Holds::Pointer)], &[]);
    let check = Check::new(lock, "1W".parse().unwrap());
    let text = diagram::text(&check, &walk(&check, 0)).unwrap();
    assert!(text.contains("tail := rank 8 (there is none)"), "{text}");
}
