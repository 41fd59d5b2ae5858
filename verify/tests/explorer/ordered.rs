//! Puts that are ordered ahead of the next put or atomic, under the explorer.

use rmalab_atomics::controlled::Shape;
use rmalab_atomics::{Disp, Rank, RemoteAtomics, Until};
use rmalab_verify::explorer::{Options, Search};
use rmalab_verify::play::{Player, Stage};
use rmalab_verify::window_programs::sees;
use rmalab_verify::{Check, Network, Program, Property};

use crate::{counterexample, plain, replayed, run, verdict};

/// The calls of a rank between its put and its next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    Nothing,
    Order,
    Flush,
}

/// The step of a rank that the put has to come ahead of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// A put that notifies the other rank.
    Put,
    /// A swap that notifies the other rank.
    Swap,
    /// A look at the other rank's put (Dekker's first step).
    Look,
}

fn puts(between: Between, then: Then, network: Network) -> Check {
    let body = move |rank: Rank, player: &dyn Player| {
        let ra = Stage::new(player, &Shape::new(2), rank);
        let other = Rank(1 - rank.0);
        let (word, told, inside) = (Disp(64), Disp(128), Rank(0).at(Disp(0)));
        if rank == Rank(1) && then != Then::Look {
            ra.wait_until(told, Until::Ne(0))?;
            return sees(Property::Visibility, "the word", ra.get(Rank(0).at(word))?, &[1]);
        }
        ra.put(rank.at(word), 1)?;
        match between {
            Between::Nothing => {}
            Between::Order => ra.order(rank)?,
            Between::Flush => ra.flush(rank)?,
        }
        match then {
            Then::Put => ra.put(other.at(told), 1)?,
            Then::Swap => _ = ra.fetch_store(other.at(told), 1)?,
            Then::Look if ra.get(other.at(word))? == 0 => {
                sees(Property::MutualExclusion, "the number of ranks inside", ra.fetch_add(inside, 1)?, &[0])?;
            }
            Then::Look => {}
        }
        Ok(())
    };
    Check { network, ..Check::program("puts", Program::new(2, body)) }
}

#[test]
fn an_ordered_put_comes_ahead_of_the_next_put_or_atomic_and_not_of_a_get() {
    for network in [Network::Sc, Network::LatePuts, Network::UnorderedBulk, Network::OrderedBulk, Network::Hca] {
        let late = network.puts_are_late();
        for then in [Then::Put, Then::Swap, Then::Look] {
            let broken = if then == Then::Look { Property::MutualExclusion } else { Property::Visibility };
            for between in [Between::Nothing, Between::Order, Between::Flush] {
                let enough = match between {
                    Between::Nothing => !late,
                    Between::Order => !late || then != Then::Look,
                    Between::Flush => true,
                };
                let check = puts(between, then, network);
                for options in [
                    plain(),
                    Options { partial_order: true, ..plain() },
                    Options { search: Search::DepthFirst, ..plain() },
                ] {
                    let outcome = run(&check, &options);
                    let expected = (!enough).then_some(broken);
                    assert_eq!(verdict(&outcome), expected, "{network}, {between:?}, {then:?}, {options:?}");
                    if expected.is_some() {
                        replayed(&check, counterexample(&outcome));
                    }
                }
            }
        }
    }
}
