//! Words that the processor reaches, under an engine.

use rmalab_atomics::controlled::Shape;
use rmalab_atomics::{Disp, Rank, RemoteAtomics};
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::play::{Player, Stage};
use rmalab_verify::window_programs::sees;
use rmalab_verify::{Check, Network, Program, Property};

use crate::{counterexample, plain, replayed, run, verdict};

/// A rank's operations between its store and its load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    Nothing,
    /// A flush without an announcement of the store.
    Flush,
    StoredAndFlush,
    /// The frequent side of an asymmetric fence. The other rank has the rare side.
    Fences,
}

/// Dekker's first step on local words: each rank sets its flag, and enters unless the other flag is set.
fn says_then_looks(between: Between, network: Network) -> Check {
    let body = move |rank: Rank, player: &dyn Player| {
        let ra = Stage::new(player, &Shape { local_words: true, ..Shape::new(2) }, rank);
        let flag = |of: Rank| ra.local_words(of.at(Disp(64)), 1).and_then(|words| words.get(0)).expect("a local word");
        flag(rank).store(1)?;
        match between {
            Between::Nothing => {}
            Between::Flush => ra.flush(rank)?,
            Between::StoredAndFlush => {
                ra.stored();
                ra.flush(rank)?;
            }
            Between::Fences if rank == Rank(0) => ra.fence_light(),
            Between::Fences => _ = ra.fence_everywhere()?,
        }
        if flag(Rank(1 - rank.0)).load()? == 0 {
            let inside = ra.fetch_add(Rank(0).at(Disp(0)), 1)?;
            sees(Property::MutualExclusion, "the number of ranks inside", inside, &[0])?;
        }
        // A rank's loads always return its own stores.
        sees(Property::Invariant, "the rank's own flag", flag(rank).load()?, &[1])
    };
    let program = Program::new(2, body);
    let program = if between == Between::Fences { program.fencing() } else { program };
    Check { network, ..Check::program("says-then-looks", program) }
}

#[test]
fn a_store_is_late_until_it_is_announced_and_flushed_or_fenced_for() {
    for network in [Network::Sc, Network::LatePuts, Network::UnorderedBulk, Network::OrderedBulk, Network::Hca] {
        let late = network.puts_are_late();
        for (between, enough) in [
            (Between::Nothing, !late),
            (Between::Flush, !late),
            (Between::StoredAndFlush, true),
            (Between::Fences, true),
        ] {
            let check = says_then_looks(between, network);
            for options in
                [plain(), Options { partial_order: true, ..plain() }, Options { search: Search::DepthFirst, ..plain() }]
            {
                let outcome = run(&check, &options);
                let expected = (!enough).then_some(Property::MutualExclusion);
                assert_eq!(verdict(&outcome), expected, "{network}, {between:?}, {options:?}");
                if expected.is_some() {
                    replayed(&check, counterexample(&outcome));
                }
            }
        }
    }
}
