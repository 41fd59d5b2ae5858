//! The choice of the device, the port and the address: from options, from the environment, or by default.

use super::device::{DEVICE, Gid, GidKind};
use crate::{Error, Result};

/// The variable for the number of the port's address.
pub(super) const GID_INDEX: &str = "RMALAB_GID_INDEX";
/// The variable for the number of the device's port.
pub(super) const PORT: &str = "RMALAB_IB_PORT";

/// Returns the value of a variable, if it is set and not empty.
pub(super) fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::world(format!("{name} is not text"))),
    }
}

/// Reads a small number from the environment.
pub(super) fn number(name: &str) -> Result<Option<u8>> {
    let Some(value) = variable(name)? else { return Ok(None) };
    let read = value.parse().map_err(|_| Error::world(format!("{name}={value:?} is not a number from 0 to 255")))?;
    Ok(Some(read))
}

/// Returns the device of the rank with number `local` on its host, from a list with commas.
pub(super) fn turn(list: &str, local: usize) -> Result<&str> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(Error::world(format!("{DEVICE}={list:?} has an empty name in it")));
    }
    Ok(names[local % names.len()])
}

/// Returns the address of a port to use: the address with number `wanted`, or the best one.
///
/// RoCE v2 over IPv4 comes first, since it passes routers and switches are set up for it. Then comes RoCE v2 over IPv6,
/// with link-local addresses last, then RoCE v1.
pub(super) fn choose(gids: &[Gid], wanted: Option<u8>) -> Option<Gid> {
    if let Some(wanted) = wanted {
        return gids.iter().find(|gid| gid.index == wanted).copied();
    }
    let worth = |gid: &&Gid| match gid.kind {
        GidKind::RoceV2 if gid.bytes.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) => 0,
        GidKind::RoceV2 if !gid.bytes.starts_with(&[0xfe, 0x80]) => 1,
        GidKind::RoceV2 => 2,
        GidKind::RoceV1 => 3,
        GidKind::InfiniBand => 4,
    };
    gids.iter().min_by_key(worth).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u8, kind: GidKind, text: &str) -> Gid {
        Gid { index, bytes: text.parse::<std::net::Ipv6Addr>().unwrap().octets(), kind }
    }

    #[test]
    fn the_best_address_is_chosen() {
        let all = [
            gid(0, GidKind::RoceV1, "fe80::1"),
            gid(1, GidKind::RoceV2, "fe80::1"),
            gid(2, GidKind::RoceV1, "::ffff:10.0.0.1"),
            gid(5, GidKind::RoceV2, "2001:db8::1"),
            gid(7, GidKind::RoceV2, "::ffff:10.0.0.1"),
        ];
        for (count, best) in [(1, 0), (2, 1), (3, 1), (4, 5), (5, 7)] {
            assert_eq!(choose(&all[..count], None).unwrap().index, best);
        }
        assert_eq!(choose(&all, Some(2)), Some(all[2]));
        assert_eq!(choose(&all, Some(3)), None);
        assert_eq!(choose(&[], None), None);
    }

    #[test]
    fn ranks_take_devices_in_turn() {
        let names: Vec<&str> = (0..5).map(|local| turn("rxe0, rxe1,rxe2", local).unwrap()).collect();
        assert_eq!(names, ["rxe0", "rxe1", "rxe2", "rxe0", "rxe1"]);
        assert_eq!(turn("mlx5_0", 7).unwrap(), "mlx5_0");
        assert!(turn("rxe0,,rxe1", 0).unwrap_err().to_string().contains("RMALAB_DEVICE=\"rxe0,,rxe1\""));
    }
}
