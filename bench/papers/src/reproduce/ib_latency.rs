//! MVAPICH2's ping-pong of one put per epoch.

use super::infiniband::{
    Design, Epochs, Pattern, because, beside, cluster, curves, measured, near, numbers, series, simulated, sizes,
    sizes_here, tabulated,
};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Series, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-latency",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.2, figure 5",
    title: "ping-pong of one put per epoch",
    protocol: "Two processes take turns: one posts and waits, the other one starts, puts and completes; the time of \
               an epoch. Simulated on the paper's cluster (profile infiniband-2004, fitted to 6.3 µs for a put to be \
               seen), and measured on 2 processes of this machine. One-sided: post and complete are flags that are \
               put; send/receive: MPICH2's design over rings of InfiniBand, whose small messages take 7.6 µs by its \
               own paper; and our two-sided transport.",
    found: "Small messages take 12.6 µs instead of 15.6 µs, 19 % less; large ones up to 17 µs less, since there is no \
            handshake.",
    lesson: "A message that needs two processors costs the network's time, and the processors' time: to find \
             the receive for it, and copy it, or to negotiate its destination. A put has its destination. \
             It only has to notify the target, and a flag that follows the data does \
             that.",
    seconds: (15, 60),
    run,
};

fn run(context: &Context<'_>) -> Result<Finding> {
    let (sizes, sizes_here) = (sizes(context), sizes_here(context));
    let jobs = |sizes: &[usize], world: &Ranks| -> Vec<(Epochs, Ranks)> {
        let each = |design| {
            sizes
                .iter()
                .map(move |&bytes| (design, bytes))
                .map(|(design, bytes)| Epochs::new(design, Pattern::PingPong, bytes).on(world.clone()))
        };
        Design::ALL.into_iter().flat_map(each).collect()
    };
    let cluster = curves(&numbers(&sizes), &simulated(context, &jobs(&sizes, &cluster(2)))?, |_, time| time);
    let here =
        curves(&numbers(&sizes_here), &measured(context, &jobs(&sizes_here, &Ranks::processes(2)))?, |_, time| time);

    let mut finding = Finding::new();
    let names = Design::ALL.map(Design::name);
    let columns = ["bytes", names[0], names[1], names[2]];
    for (place, curves) in [("simulated", &cluster), ("2 processes here", &here)] {
        let title = format!("Time of an epoch, {place}");
        finding.tables.push(tabulated(title, &columns, curves, |bytes| Value::Bytes(bytes as u64), Value::Time));
    }

    let small = [cluster[0][0].1, cluster[1][0].1];
    let half = " (the profile was fitted to half of it, the time of a put)";
    for (time, paper, design, fitted) in
        [(small[0], 12_600.0, "one-sided", half), (small[1], 15_600.0, "send/receive", "")]
    {
        finding.claim(
            near(time, paper),
            format!("small messages, {design}: {}{fitted}", Value::Time(paper)),
            format!("simulated: {}", beside(Value::Time, time, paper)),
        );
        because(
            &mut finding,
            "a rank posts for the next epoch right after its own put, so that the post is there when the other one \
             starts. The simulated processors spend only the profile's 0.6 µs on descriptors and completions: so a \
             simulated epoch is little more than one message, where the paper's is nearly two",
        );
    }
    let gain = 1.0 - small[0] / small[1];
    finding.claim(
        (0.09..=0.29).contains(&gain),
        "19 % less for small messages",
        format!("simulated: {} less", Value::Share(gain)),
    );
    because(
        &mut finding,
        "in the model, sends and receives exceed puts only by the difference from 7.6 µs per message",
    );
    let ahead = cluster[0].iter().zip(&cluster[1]).all(|(one, two)| one.1 < two.1);
    finding.claim(
        ahead,
        "one-sided is ahead at every size",
        format!("simulated: {}", if ahead { "so" } else { "not so" }),
    );
    let long = cluster[0].iter().zip(&cluster[1]).filter(|(point, _)| point.0 > super::send_receive::EAGER as f64);
    let most = long.map(|(one, two)| two.1 - one.1).fold(0.0, f64::max);
    finding.claim(
        near(most, 17_000.0),
        "large messages are up to 17 µs faster",
        format!("simulated: up to {}", beside(Value::Time, most, 17_000.0)),
    );
    for (other, name) in [(1, names[1]), (2, names[2])] {
        let ratios: Vec<(f64, f64)> =
            here[0].iter().zip(&here[other]).map(|(one, two)| (one.0, two.1 / one.1)).collect();
        let least = ratios.iter().map(|ratio| ratio.1).fold(f64::INFINITY, f64::min);
        finding.claim(
            ratios.iter().all(|&(bytes, ratio)| ratio > if bytes <= 4096.0 { 1.0 } else { 0.9 }),
            format!("one-sided is ahead of {name}"),
            format!(
                "2 processes here: {name} takes {} of its time for 4 B, and at least {}",
                Value::Ratio(ratios[0].1),
                Value::Ratio(least)
            ),
        );
    }

    let mut shown = series(&Design::ALL, &cluster, Origin::Simulated);
    for (style, time) in [12_600.0, 15_600.0].into_iter().enumerate() {
        let name = ["one-sided, the paper", "send/receive, the paper"][style].to_owned();
        shown.push(Series {
            name,
            origin: Origin::Published,
            style,
            points: vec![(4.0, time)],
            spread: Vec::new(),
            group: String::new(),
        });
    }
    let x = || Axis::new("bytes of the put", Quantity::Bytes);
    let y = || Axis::new("time of an epoch", Quantity::Time);
    finding.plots.push(Plot {
        name: "cluster".into(),
        title: "One put per epoch, on the paper's cluster".into(),
        x: x(),
        y: y(),
        series: shown,
        text: "At the left everything is latency: an epoch takes as long as its sequence of \
               messages. At the right it is the bandwidth, which all designs share. The step in the send/receive curve \
               is where messages exceed the buffers at the target, and begin with a handshake. Our two-sided \
               transport has one ring for all its senders, so each message begins with an atomic operation that takes \
               a slot in it, there and back: that is the distance of its curve."
            .into(),
    });
    finding.plots.push(Plot {
        name: "here".into(),
        title: "One put per epoch, on 2 processes of this machine".into(),
        x: x(),
        y: y(),
        series: series(&Design::ALL, &here, Origin::Measured),
        text: "The same programs over shared memory. There is no network, so only the processors' work remains: a \
               put copies once, messages are copied into a ring and out of it, and the rank that serves \
               them has to notice each."
            .into(),
    });
    Ok(finding)
}
