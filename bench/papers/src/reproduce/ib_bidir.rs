//! MVAPICH2's bidirectional latency: put and fence against isend and irecv.

use super::infiniband::{
    Design, Epochs, Pattern, because, cluster, curves, measured, numbers, series, simulated, sizes, sizes_here,
    tabulated,
};
use super::{Context, Experiment};
use rmalab_job::Ranks;
use rmalab_job::Result;
use rmalab_report::finding::{Axis, Finding, Origin, Plot, Quantity, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "ib-bidir",
    source: "MVAPICH2 (Jiang and others, CCGrid 2004), section 5.2, figure 6",
    title: "bidirectional put and fence against isend and irecv",
    protocol: "Two processes put to each other, and fence; or each begins to send and to receive, and waits for both. \
               The time of a round. Simulated on the paper's cluster (profile infiniband-2004), and measured on 2 \
               processes of this machine. Beside the one-sided fence: sends and receives over rings of InfiniBand, \
               our own messages, and the deferred fence of our two-sided transport, which is the original design.",
    found: "Two-sided communication is ahead for very small messages, since it synchronizes by the message itself; \
            one-sided communication by RDMA is ahead beyond 4 KiB, and ahead of the original design at every size.",
    lesson: "A receive means two things at once: the data, and their arrival. A put has only the first, and a fence \
             has to follow. For a few bytes that is a loss. Long messages have to be copied twice, or begin with a \
             request, when they are sent to a receive, and a put does neither: there it wins.",
    seconds: (15, 60),
    run,
};

const DESIGNS: [Design; 4] = [Design::Rdma, Design::SendReceive, Design::TwoSided, Design::Messages];

const NAMES: [&str; 4] = ["put and fence", "isend/irecv", "put and fence, two-sided", "isend/irecv, our messages"];

fn run(context: &Context<'_>) -> Result<Finding> {
    let (sizes, sizes_here) = (sizes(context), sizes_here(context));
    let jobs = |sizes: &[usize], world: &Ranks| -> Vec<(Epochs, Ranks)> {
        let each = |design| {
            sizes
                .iter()
                .map(move |&bytes| (design, bytes))
                .map(|(design, bytes)| Epochs::new(design, Pattern::Exchange, bytes).on(world.clone()))
        };
        DESIGNS.into_iter().flat_map(each).collect()
    };
    let cluster = curves(&numbers(&sizes), &simulated(context, &jobs(&sizes, &cluster(2)))?, |_, time| time);
    let here =
        curves(&numbers(&sizes_here), &measured(context, &jobs(&sizes_here, &Ranks::processes(2)))?, |_, time| time);

    let mut finding = Finding::new();
    for (where_, curves) in [("simulated", &cluster), ("2 processes here", &here)] {
        let columns = ["bytes", NAMES[0], NAMES[1], NAMES[2], NAMES[3]];
        let title = format!("Time of a round, {where_}");
        finding.tables.push(tabulated(title, &columns, curves, |bytes| Value::Bytes(bytes as u64), Value::Time));
        let sizes: Vec<f64> = curves[0].iter().map(|point| point.0).collect();
        let ratio = |other: usize, row: usize| curves[other][row].1 / curves[0][row].1;
        let rows = |wanted: &dyn Fn(f64) -> bool| -> Vec<usize> {
            (0..sizes.len()).filter(|&row| wanted(sizes[row])).collect()
        };
        let least = |other, rows: &[usize]| rows.iter().map(|&row| ratio(other, row)).fold(f64::INFINITY, f64::min);
        let small = rows(&|bytes| bytes <= 16.0);
        let most = small.iter().map(|&row| ratio(1, row)).fold(0.0, f64::max);
        finding.claim(
            most < 1.0,
            "isend and irecv are ahead for very small messages",
            format!("{where_}: up to 16 B they take at most {} of the time of put and fence", Value::Ratio(most)),
        );
        because(
            &mut finding,
            "a fence of processes of one machine is a few loads and stores, less than copying a message into a ring \
             and out of it; the paper's fence goes over the network, as ours does where it is simulated",
        );
        let large = rows(&|bytes| bytes > 4096.0);
        let of_large = least(1, &large);
        finding.claim(
            of_large > 1.0,
            "put and fence are ahead beyond 4 KiB",
            format!("{where_}: beyond 4 KiB isend and irecv take at least {} of their time", Value::Ratio(of_large)),
        );
        let of_all = least(2, &rows(&|_| true));
        finding.claim(
            of_all > 1.0,
            "put and fence by RDMA are ahead of the original design at every size",
            format!("{where_}: the two-sided transport takes at least {} of their time", Value::Ratio(of_all)),
        );
        let place = if where_ == "simulated" {
            ("cluster", "the paper's cluster")
        } else {
            ("here", "2 processes of this machine")
        };
        let origin = if where_ == "simulated" { Origin::Simulated } else { Origin::Measured };
        let mut shown = series(&DESIGNS, curves, origin);
        shown.iter_mut().zip(NAMES).for_each(|(series, name)| series.name = name.into());
        finding.plots.push(Plot {
            name: place.0.into(),
            title: format!("Both ways at once, on {}", place.1),
            x: Axis::new("bytes each way", Quantity::Bytes),
            y: Axis::new("time of a round", Quantity::Time),
            series: shown,
            text:
                "Find the point where the curve of put and fence crosses the curve of isend and irecv. At its left the \
                   cost is the fence: the put must be complete, and every rank must know of every \
                   other put. At its right, copies and the handshake of long messages cost more than that."
                    .into(),
        });
    }
    Ok(finding)
}
