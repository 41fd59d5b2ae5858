//! The collective operations, on this backend's ordering and waits.

use super::{Lab, Outcome, require};
use crate::random::Random;
use crate::{Collectives, Rank, RemoteAtomics};

pub(super) fn barriers_separate<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let at = lab.alloc(1)?;
    let counter = Rank(lab.ra.size() - 1).at(at);
    let mut random = lab.random();
    for round in 1..=lab.rounds(300) {
        lab.dawdle(&mut random)?;
        lab.ra.fetch_add(counter, 1)?;
        lab.barrier()?;
        let seen = lab.ra.get(counter)?;
        let (least, most) = (round * lab.size(), (round + 1) * lab.size() - 1);
        require!((least..=most).contains(&seen), "after barrier {round}, {seen} arrivals instead of {least} to {most}");
    }
    Ok(())
}

pub(super) fn collectives_agree_with_a_sequential_run<A: RemoteAtomics + ?Sized>(lab: &Lab<'_, A>) -> Outcome {
    let size = lab.ra.size();
    let words = |call: u64, rank: Rank, len: usize| {
        let mut random = Random::new(call, u64::from(rank.0));
        (0..len).map(|_| random.next()).collect::<Vec<_>>()
    };
    let (me, mut common, mut own) = (lab.ra.rank(), lab.common_random(), lab.random());
    // Two objects, used in turn: operations of one must not disturb the other.
    let both = [Collectives::with_chunk(lab.ra, 8)?, Collectives::with_chunk(lab.ra, 200)?];
    for call in 0..lab.rounds(150) {
        let collectives = &both[common.below(2) as usize];
        let root = lab.any_rank(&mut common);
        let most = [12, 12, 12, 120][common.below(4) as usize];
        let len = common.below(most) as usize;
        lab.dawdle(&mut own)?;
        match common.below(8) {
            0 => {
                let mut seen = words(call, me, len);
                collectives.broadcast(root, &mut seen)?;
                require!(seen == words(call, root, len), "call {call}: broadcast of {len} words from {root}");
            }
            1 => {
                let bytes = |rank: Rank| {
                    let mut bytes = vec![0; len];
                    Random::new(call, u64::from(rank.0)).fill(&mut bytes);
                    bytes
                };
                let mut seen = bytes(me);
                collectives.broadcast_bytes(root, &mut seen)?;
                require!(seen == bytes(root), "call {call}: broadcast of {len} bytes from {root}");
            }
            2 => {
                let seen = collectives.allgather(&words(call, me, len))?;
                let expected: Vec<_> = lab.ranks().flat_map(|rank| words(call, rank, len)).collect();
                require!(seen == expected, "call {call}: allgather of {len} words");
            }
            3 => {
                let seen = collectives.reduce_scatter(&words(call, me, size as usize))?;
                let mine = lab.ranks().map(|rank| words(call, rank, size as usize)[me.index()]);
                let expected = mine.fold(0, u64::wrapping_add);
                require!(seen == expected, "call {call}: reduce_scatter gave {seen:#x} and not {expected:#x}");
            }
            4 => {
                let bytes = |rank: Rank| {
                    let mut random = Random::new(call, u64::from(rank.0));
                    let mut bytes = vec![0; random.below(1 + len as u64) as usize];
                    random.fill(&mut bytes);
                    bytes
                };
                let seen = collectives.allgather_bytes(&bytes(me))?;
                require!(lab.ranks().map(bytes).eq(seen), "call {call}: allgather of up to {len} bytes");
            }
            5 => {
                let len = len.div_ceil(size as usize);
                let sent = |rank: Rank| words(call, rank, len * size as usize);
                let seen = collectives.alltoall(&sent(me))?;
                let mine = me.index() * len..(me.index() + 1) * len;
                let expected: Vec<_> = lab.ranks().flat_map(|rank| sent(rank)[mine.clone()].to_vec()).collect();
                require!(seen == expected, "call {call}: alltoall of {len} words");
            }
            6 => {
                let combine = [u64::wrapping_add, u64::max][common.below(2) as usize];
                let mut seen = words(call, me, len);
                collectives.allreduce(&mut seen, combine)?;
                let all: Vec<_> = lab.ranks().map(|rank| words(call, rank, len)).collect();
                let expected = (0..len).map(|i| all[1..].iter().fold(all[0][i], |result, of| combine(result, of[i])));
                require!(expected.eq(seen), "call {call}: allreduce of {len} words");
            }
            _ => collectives.barrier()?,
        }
    }
    Ok(())
}
