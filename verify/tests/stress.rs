//! The stress engine with a correct lock and with locks that are broken on purpose.
#![allow(clippy::unwrap_used, reason = "clippy.toml's exception for tests does not reach their helpers")]

use rmalab_atomics::{Address, Rank, RemoteAtomics, World};
use rmalab_locks::{Exclusive, Mcs, McsRwNeutral, McsRwRp, McsRwWp, Place, RawRwLock, Result, Tas, TasRw, Ticket};
use rmalab_verify::stress::{self, Options, Rest, Verdict};
use rmalab_verify::{Error, Property, Scenario};

/// The writer's bit; readers count above it.
const WRITER: u64 = 1;
const READER: u64 = 2;

/// A lock of one word, with a selectable defect.
struct OneWord {
    word: Address,
    flaw: Flaw,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
enum Flaw {
    #[default]
    None,
    /// No rank waits.
    NoExclusion,
    /// A writer waits only for writers.
    WriterIgnoresReaders,
    /// Each release for reading adds a reader to bits that no rank reads.
    Litters,
}

/// The position of the bits that `Litters` changes.
const LITTER: u64 = 1 << 48;

impl OneWord {
    fn attempt<A: RemoteAtomics + ?Sized>(&self, ra: &A, mine: u64, others: u64) -> Result<()> {
        while ra.fetch_add(self.word, mine)? & others & (LITTER - 1) != 0 && self.flaw != Flaw::NoExclusion {
            ra.fetch_add(self.word, mine.wrapping_neg())?;
            ra.pause(1 + ra.rank().0)?;
        }
        Ok(())
    }
}

impl RawRwLock for OneWord {
    const NAME: &'static str = "one-word";
    const WORDS: u64 = 8;
    const NODE: u64 = 0;
    type Params = Flaw;

    fn bind<A: RemoteAtomics + ?Sized>(_ra: &A, place: Place, flaw: Flaw) -> Result<OneWord> {
        Ok(OneWord { word: place.home.at(place.words), flaw })
    }

    fn acquire_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        self.attempt(ra, READER, WRITER)
    }

    fn release_read<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        let litter = if self.flaw == Flaw::Litters { LITTER } else { 0 };
        ra.fetch_add(self.word, READER.wrapping_neg().wrapping_add(litter))?;
        Ok(())
    }

    fn acquire_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        // The writer's state is one bit instead of a count, which would carry into the readers' count. A writer takes
        // it once the word allows that.
        loop {
            let old = ra.get(self.word)?;
            let free = match self.flaw {
                Flaw::NoExclusion => return Ok(()),
                Flaw::WriterIgnoresReaders => old & WRITER == 0,
                Flaw::None | Flaw::Litters => old & (LITTER - 1) == 0,
            };
            if free && ra.compare_and_swap(self.word, old, old | WRITER)? == old {
                return Ok(());
            }
            ra.pause(1 + ra.rank().0)?;
        }
    }

    fn release_write<A: RemoteAtomics + ?Sized>(&mut self, ra: &A) -> Result<()> {
        if self.flaw != Flaw::NoExclusion {
            ra.fetch_add(self.word, WRITER.wrapping_neg())?;
        }
        Ok(())
    }
}

fn verdict(text: &str, flaw: Flaw, rest: Rest) -> Verdict {
    let scenario: Scenario = text.parse().unwrap();
    let options = Options { params: flaw, home: Rank(scenario.ranks() - 1), rest };
    let world = World::threads(scenario.ranks() + 1);
    let verdicts = world.run(|ra| stress::run::<OneWord, _>(ra, &scenario, &options).unwrap());
    Verdict::merge(verdicts.unwrap()).unwrap()
}

#[test]
fn a_right_lock_passes() {
    let verdict = verdict("2R1W2Mx600", Flaw::None, Rest::Zero);
    assert!(verdict.passed(), "{verdict}");
    assert_eq!((verdict.reads, verdict.writes), (1_800, 1_200));
    assert!(verdict.readers_together >= 1);
}

fn of<L: RawRwLock>(text: &str) -> Verdict {
    let scenario: Scenario = text.parse().unwrap();
    let world = World::threads(scenario.ranks());
    let verdicts = world.run(|ra| stress::run::<L, _>(ra, &scenario, &Options::default()).unwrap());
    Verdict::merge(verdicts.unwrap()).unwrap()
}

#[test]
fn the_workspaces_locks_pass() {
    // Readers and writers; the scenario that shows the known errors of the neutral lock; and readers that enter and
    // leave often.
    for scenario in ["2R2Wx300", "3R+1Wx2", "2R1W2Mx300"] {
        for verdict in [
            of::<McsRwRp>(scenario),
            of::<McsRwWp>(scenario),
            of::<McsRwNeutral>(scenario),
            of::<TasRw>(scenario),
            of::<Exclusive<Mcs>>(scenario),
            of::<Exclusive<Tas>>(scenario),
            of::<Exclusive<Ticket>>(scenario),
        ] {
            assert!(verdict.passed(), "{verdict}");
        }
    }
}

#[test]
fn a_mutex_keeps_its_readers_apart() {
    let verdict = of::<Exclusive<Mcs>>("3R1Wx200");
    assert_eq!((verdict.lock, verdict.reads, verdict.writes, verdict.readers_together), ("mcs", 600, 200, 1));
}

#[test]
fn readers_are_seen_together() {
    let verdict = verdict("4Rx200", Flaw::None, Rest::Zero);
    assert!(verdict.passed(), "{verdict}");
    assert!((2..=4).contains(&verdict.readers_together), "{verdict}");
}

#[test]
fn a_lock_that_excludes_no_rank_is_found() {
    let verdict = verdict("2R2Wx2000", Flaw::NoExclusion, Rest::Zero);
    assert!(verdict.broke(Property::NoLostUpdate), "{verdict}");
    assert!(verdict.broke(Property::Consistent) || verdict.broke(Property::MutualExclusion), "{verdict}");
    let listed = 4 * stress::LISTED * Property::ALL.len();
    assert!(verdict.violations.len() <= listed && verdict.unlisted > 0, "{verdict}");
    let text = verdict.to_string();
    assert!(text.starts_with("one-word, 2R2Wx2000, stress: BROKEN in 4000 reads and 4000 writes"), "{text}");
}

#[test]
fn a_writer_among_readers_is_found() {
    let verdict = verdict("3R1Wx2000", Flaw::WriterIgnoresReaders, Rest::Zero);
    assert!(!verdict.passed(), "{verdict}");
    assert!(!verdict.broke(Property::NoLostUpdate), "its one writer is alone among writers: {verdict}");
}

#[test]
fn nonzero_words_are_found_if_the_lock_claims_rest() {
    let found = verdict("2R1Wx50", Flaw::Litters, Rest::Zero);
    assert!(found.broke(Property::CleanRest), "{found}");
    assert_eq!(found.violations.len(), 1, "{found}");
    assert_eq!(
        found.violations[0].to_string(),
        "clean-rest: rank 2 after the last release: the lock's shared word 0 is 0x64000000000000; a lock that keeps values \
         declares it by RESTS_AT_ZERO or NODE_AT_REST"
    );
    let unclaimed = verdict("2R1Wx50", Flaw::Litters, Rest::Any);
    assert!(unclaimed.passed(), "{unclaimed}");
}

#[test]
fn a_world_of_one_rank_works() {
    let scenario: Scenario = "1Mx10".parse().unwrap();
    let verdicts = World::threads(1).run(|ra| stress::run::<OneWord, _>(ra, &scenario, &Options::default()).unwrap());
    let verdict = Verdict::merge(verdicts.unwrap()).unwrap();
    assert!(verdict.passed(), "{verdict}");
    assert_eq!((verdict.reads, verdict.writes, verdict.readers_together), (5, 5, 1));
}

#[test]
fn too_few_ranks_are_an_error_on_all_of_them() {
    let scenario: Scenario = "2R1Wx1".parse().unwrap();
    let results = World::threads(2).run(|ra| stress::run::<OneWord, _>(ra, &scenario, &Options::default()));
    for (rank, result) in results.unwrap().into_iter().enumerate() {
        match result {
            Err(Error::TooFewRanks { rank: Rank(r), needed: 3, size: 2, .. }) => assert_eq!(r as usize, rank),
            other => panic!("{other:?}"),
        }
    }
}
