//! scratch
#![allow(clippy::unwrap_used)]
use rmalab_verify::explorer::*;
use rmalab_verify::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut check = Check::new(subject(&args[1]).unwrap(), args[2].parse().unwrap());
    let mut options = Options { max_bytes: 16 << 30, ..Options::default() };
    for arg in &args[3..] {
        let (key, value) = arg.split_once('=').unwrap();
        match key {
            "net" => check.network = value.parse().unwrap(),
            "data" => check.section = play::Section::Data,
            "t" => options.threads = value.parse().unwrap(),
            "p" => options.preemptions = Some(value.parse().unwrap()),
            "order" => options.order = true,
            "sym" => options.symmetry = value == "1",
            "dfs" => options.search = Search::DepthFirst,
            "mem" => options.max_bytes = value.parse::<u64>().unwrap() << 30,
            _ => panic!(),
        }
    }
    let out = explore(&check, &options, &|_| true).unwrap();
    match &out.finding {
        Finding::Violated(c) => {
            println!("VIOLATED {} after {} steps", c.violation, c.schedule.len());
            let (steps, end) = replay(&check, &c.schedule).unwrap();
            if args.len() > 9 {
                for s in &steps {
                    println!("{:?} {:?} {:?}", s.choice, s.effect, s.told);
                }
            }
            println!("replay: {:?}", end.map(|v| v.to_string()));
        }
        other => println!("{other:?}"),
    }
    let p = out.progress;
    println!(
        "{} {}: {} states, {} transitions, depth {}, {:.2} s, {:.0} states/s, {:.1} B/state, bounded {} {:?}",
        args[1],
        args[2],
        p.states,
        p.transitions,
        p.depth,
        p.elapsed.as_secs_f64(),
        p.states as f64 / p.elapsed.as_secs_f64(),
        p.bytes as f64 / p.states as f64,
        out.bounded,
        out.sometimes.iter().filter(|s| !s.1).collect::<Vec<_>>()
    );
}
