//! The numbers of requests in the program.

use crate::{Rank, Request};

/// The bit of a request that is under way; the other bits are its rank and its number.
pub(super) const PENDING: u64 = 1 << 63;
pub(super) const NUMBER_BITS: u32 = 39;
pub(super) const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
pub(super) const MOST_RANKS: u32 = 1 << (63 - NUMBER_BITS);

pub(super) fn request(rank: Rank, number: u64) -> Request {
    Request(PENDING | u64::from(rank.0) << NUMBER_BITS | number & NUMBERS)
}

/// Returns the rank and the low bits of the number.
pub(super) fn read_request(request: &Request) -> Option<(u32, u64)> {
    (request.0 & PENDING != 0).then_some((((request.0 & !PENDING) >> NUMBER_BITS) as u32, request.0 & NUMBERS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fabric::DONE;

    #[test]
    fn requests_name_their_rank_and_number() {
        for (rank, number) in [(0, 1), (7, 12_345), (MOST_RANKS - 1, NUMBERS)] {
            let made = request(Rank(rank), number);
            assert_eq!(read_request(&made), Some((rank, number)));
            assert_ne!(made, DONE);
        }
        // Numbers grow without end; the numbers under way differ in the bits that a request has.
        assert_eq!(read_request(&request(Rank(3), (5 << NUMBER_BITS) + 9)), Some((3, 9)));
        assert_eq!(read_request(&DONE), None);
    }
}
