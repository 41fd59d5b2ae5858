//! The address on which a hub listens.

use std::net::IpAddr;

use crate::{Error, Result};

/// Returns the address of this host for `interface`: an address, or the name of a network interface. An IPv4 address is
/// preferred.
///
/// # Errors
///
/// [`Error::World`] when this host has no such interface or address; the error lists its interfaces. [`Error::System`]
/// when the system does not report them.
pub fn address_of(interface: &str) -> Result<IpAddr> {
    let mut all = if_addrs::get_if_addrs()
        .map_err(|error| Error::system("asking the system for its network interfaces", error))?;
    // A link-local address is not usable without its interface, which the address alone does not name.
    all.retain(|found| !matches!(found.ip(), IpAddr::V6(address) if address.is_unicast_link_local()));
    let mut matching: Vec<IpAddr> = match interface.parse::<IpAddr>() {
        Ok(address) => all.iter().map(|found| found.ip()).filter(|found| *found == address).collect(),
        Err(_) => all.iter().filter(|found| found.name == interface).map(|found| found.ip()).collect(),
    };
    matching.sort_by_key(IpAddr::is_ipv6);
    matching.first().copied().ok_or_else(|| {
        let has: Vec<String> = all.iter().map(|found| format!("{} ({})", found.name, found.ip())).collect();
        Error::world(format!("this host has no network interface or address {interface:?}; it has {}", has.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn interfaces_have_names_and_addresses() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(address_of("lo").unwrap(), loopback);
        assert_eq!(address_of("127.0.0.1").unwrap(), loopback);
        for wrong in ["", "no-such-interface", "192.0.2.1", "lo "] {
            let words = address_of(wrong).unwrap_err().to_string();
            assert!(words.contains(&format!("{wrong:?}")) && words.contains("lo (127.0.0.1)"), "{words}");
        }
    }
}
