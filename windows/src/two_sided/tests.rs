//! Requests and answers whose bytes are damaged.

use rmalab_atomics::World;

use super::*;
use crate::{Config, LockKind, Team, Transport, Window, WindowDisp};

/// Returns the next pseudo-random number. The state must not be 0.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The end-point that serves the windows in a world of one rank.
const OWN: Endpoint = Endpoint { rank: Rank(0), port: 0 };

/// Makes a request on window 0, with flags, the codes of its header and one piece.
fn request(flags: u32, element: u8, op: u8, run: (u64, u64), payload: &[u8]) -> (u64, Vec<u8>) {
    let second = u64::from(element) | u64::from(op) << 8 | 1 << 16;
    let mut data: Vec<u8> = [0, second, run.0, run.1].into_iter().flat_map(u64::to_ne_bytes).collect();
    data.extend_from_slice(payload);
    (u64::from(flags) << 32, data)
}

/// Returns the error that the window's owner gets for a packet that it sends to itself.
fn refusal(kind: Kind, (word, data): (u64, Vec<u8>)) -> String {
    let errors = World::threads(1).run(|ra| {
        let team = Team::new(ra).unwrap();
        let (transport, port) =
            if kind == REGISTER { (Transport::TwoSidedAgent, AGENT) } else { (Transport::TwoSided, 0) };
        let config = Config { transport, ..Config::default() };
        let window = Window::builder(&team).config(config).allocate(64).unwrap();
        team.endpoints().send(Endpoint { port, ..OWN }, kind, word, data.clone()).unwrap();
        let damaged = window.progress();
        // The origin of a request that could be answered gets the error; here it is this rank.
        let damaged = damaged.and_then(|()| window.two_sided.as_ref().unwrap().refused());
        // The packet has left neither a lock nor anything else.
        let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
        epoch.put_value(WindowDisp(0), 5_u64).unwrap();
        assert_eq!(epoch.get_value::<u64>(WindowDisp(0)).unwrap(), 5);
        epoch.unlock().unwrap();
        window.free().unwrap();
        damaged.unwrap_err().to_string()
    });
    errors.unwrap().remove(0)
}

#[test]
fn errors_name_unknown_codes_by_their_numbers() {
    let u64_code = ElementKind::U64.code();
    let sum = Op::Sum.code();
    for (kind, packet, expected) in [
        (ACCUMULATE, request(0, 99, sum, (0, 8), &[0; 8]), "99 is not a code of an element type"),
        (ACCUMULATE, request(0, u64_code, 77, (0, 8), &[0; 8]), "77 is not a code of an operation"),
        (FETCH, request(0, u64_code, Op::MinLoc.code(), (0, 8), &[0; 8]), "minloc is not defined for elements"),
        (CAS, request(0, ElementKind::F64.code(), sum, (0, 8), &[0; 16]), "cannot be compared and swapped"),
        (CAS, request(0, u64_code, sum, (0, 8), &[0; 8]), "8 bytes of data in place of 16"),
        (PUT, request(0, 0, sum, (0, 8), &[0; 7]), "7 bytes of data in place of 8"),
        (PUT, request(0, 0, sum, (60, 8), &[0; 8]), "the window has 64 bytes there"),
        (GET, request(0, 0, sum, (0, 1 << 60), &[]), "the window has 64 bytes there"),
        (GET, request(0, 0, sum, (u64::MAX, 8), &[]), "past the last address"),
        (PUT, request(64, 0, sum, (0, 8), &[0; 8]), "0x40 are not the flags"),
        (PUT, request(3, 0, sum, (0, 8), &[0; 8]), "0x3 asks for two locks"),
        (PUT, (0, vec![0; 3]), "3 bytes are too few for a header"),
        (PUT, (0, [0, u64::MAX].into_iter().flat_map(u64::to_ne_bytes).collect()), "is not a code"),
        (PUT, (0, [0, 0xFFFF_FFFF << 16].into_iter().flat_map(u64::to_ne_bytes).collect()), "pieces do not fit"),
        (Kind(99), request(0, 0, sum, (0, 8), &[0; 8]), "99 is not a kind of request"),
        (
            REGISTER,
            (0, [7, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect()),
            "7 is not a code of a place",
        ),
        (
            REGISTER,
            (0, [0, 0, 0, 0, 9, 0].into_iter().flat_map(u64::to_ne_bytes).collect()),
            "9 is not a code of an acc",
        ),
        (REGISTER, (0, vec![0; 8]), "8 bytes in place of 6 words"),
        (ANSWER, (5 << 32, vec![]), "an answer to request 5, which waits for none"),
        (SUM, (0, vec![0; 9]), "9 bytes are not whole words"),
    ] {
        let error = refusal(kind, packet);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// The call returns an error for an answer that is too short, and not the beginning of a value.
#[test]
fn a_short_answer_is_an_error() {
    World::threads(1)
        .run(|ra| {
            let team = Team::new(ra).unwrap();
            let config = Config { transport: Transport::TwoSided, ..Config::default() };
            let window = Window::builder(&team).config(config).allocate(64).unwrap();
            for answered in [0, 7, 9] {
                let epoch = window.lock(LockKind::Exclusive, Rank(0)).unwrap();
                // It arrives ahead of the answer to the next request.
                let ticket = {
                    let state = &mut *team.endpoints().hub().state.borrow_mut();
                    let ticket = state.ticket();
                    state.answers.remove(&ticket);
                    ticket + 1
                };
                team.endpoints().send(OWN, ANSWER, u64::from(ticket) << 32, vec![0; answered]).unwrap();
                let error = epoch.get_value::<u64>(WindowDisp(0)).unwrap_err().to_string();
                assert!(error.contains(&format!("{answered} bytes from rank 0 in place of the 8")), "{error}");
                let _ = epoch.unlock();
                let _ = window.progress();
            }
            window.free().unwrap();
        })
        .unwrap();
}

#[test]
fn damaged_packets_do_not_make_the_receiver_panic() {
    World::threads(1)
        .run(|ra| {
            let team = Team::new(ra).unwrap();
            let config = || Config { transport: Transport::TwoSided, ..Config::default() };
            let first = Window::builder(&team).config(config()).allocate(64).unwrap();
            let dynamic = Window::builder(&team).config(config()).create_dynamic().unwrap();
            let exposed = Window::builder(&team).config(config()).create(crate::UserMemory::from_vec(vec![0_u64; 8]));
            let exposed = exposed.unwrap();
            let last = Window::builder(&team).config(config()).allocate(64).unwrap();
            let mut random = 0x9E37_79B9_7F4A_7C15;
            for _ in 0..50_000 {
                let kind = Kind((1 + next(&mut random) % 16) as u8);
                let window = next(&mut random) % 4;
                // The last window must stay unchanged.
                let window = if window == 3 { 7 } else { window };
                let flags = next(&mut random) % 64;
                let runs: Vec<(u64, u64)> =
                    (0..next(&mut random) % 3).map(|_| (next(&mut random) % 65, 8 * (next(&mut random) % 9))).collect();
                let codes = (next(&mut random) % 18, next(&mut random) % 15);
                let second = codes.0 | codes.1 << 8 | (runs.len() as u64) << 16;
                let words = [(next(&mut random) % 8) << 32, second].into_iter();
                let runs_words = runs.iter().flat_map(|&(offset, len)| [offset, len]);
                let mut data: Vec<u8> = words.chain(runs_words).flat_map(u64::to_ne_bytes).collect();
                let payload = runs.iter().map(|&(_, len)| len).sum::<u64>();
                data.resize(data.len() + payload as usize, next(&mut random) as u8);
                let mut word = window | flags << 32;
                match next(&mut random) % 6 {
                    0 => data.truncate(next(&mut random) as usize % (data.len() + 1)),
                    1 => data.extend(vec![1; next(&mut random) as usize % 40]),
                    2 | 3 => {
                        let at = next(&mut random) as usize % data.len();
                        data[at] = next(&mut random) as u8;
                    }
                    4 => word ^= 1 << (next(&mut random) % 64),
                    _ => {}
                }
                if word as u32 == 3 {
                    word |= 7;
                }
                team.endpoints().send(OWN, kind, word, data).unwrap();
                // Any result except a panic or an endless wait is correct.
                let _ = first.progress();
            }
            let hub = team.endpoints().hub();
            hub.state.borrow_mut().sums.clear();
            let epoch = last.lock(LockKind::Exclusive, Rank(0)).unwrap();
            assert_eq!(epoch.get_value::<[u64; 8]>(WindowDisp(0)).unwrap(), [0; 8]);
            epoch.put_value(WindowDisp(0), 5_u64).unwrap();
            assert_eq!(epoch.get_value::<u64>(WindowDisp(0)).unwrap(), 5);
            epoch.unlock().unwrap();
            drop((first, dynamic, exposed, last));
        })
        .unwrap();
}
