//! What needs no device.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::bootstrap::Hub;

#[test]
fn a_device_that_is_not_there_is_one_clear_line_and_known_to_all() {
    let hub = Hub::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 2).unwrap();
    let join = |rank| Membership::join(hub.invitation(), Rank(rank), 2, "here", Duration::from_secs(20), None).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1).barrier());
        let error = Attach::new().device("no-such-device").attach(join(0)).unwrap_err().to_string();
        // Whether this host has a device, or the library at all.
        let known = ["has no RDMA device", "libibverbs.so.1 is not on this host", "listing the RDMA devices"];
        assert!(known.iter().any(|words| error.contains(words)) && !error.contains('\n'), "{error}");
        assert!(matches!(other.join().unwrap(), Err(Error::PeerFailed { rank: Rank(0) })));
    });
}

#[test]
fn requests_name_their_rank_and_number() {
    for (rank, number) in [(0, 1), (7, 12_345), (MOST_RANKS - 1, NUMBERS)] {
        let made = request(Rank(rank), number);
        assert_eq!(read_request(&made), Some((rank, number)));
        assert_ne!(made, DONE);
    }
    // Numbers go on for ever; those under way differ in the bits that a request has.
    assert_eq!(read_request(&request(Rank(3), (5 << NUMBER_BITS) + 9)), Some((3, 9)));
    assert_eq!(read_request(&DONE), None);
}

#[test]
fn the_first_guess_is_what_was_last_seen() {
    let guesses = Guesses::default();
    let (word, same_place) = (Rank(2).at(Disp(64)), Rank(3).at(Disp(64)));
    assert_eq!(guesses.of(word), 0);
    guesses.note(word, 9);
    assert_eq!((guesses.of(word), guesses.of(same_place)), (9, 0));
    guesses.note(same_place, 4);
    assert_eq!((guesses.of(word), guesses.of(same_place)), (0, 4), "one place, the last word in it");
}

#[test]
fn the_first_failure_is_told_for_ever() {
    let told = |error: &Error| Failed::of(error).error().to_string();
    assert_eq!(told(&Error::PeerFailed { rank: Rank(4) }), "rank 4 has failed");
    assert_eq!(told(&Error::world("verbs: device rxe0: gone")), "verbs: device rxe0: gone");
}
