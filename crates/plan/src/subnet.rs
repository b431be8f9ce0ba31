//! Arithmetic of networks.

use std::net::IpAddr;

use ipnet::IpNet;

/// The address `n` places behind the network's own.
pub fn nth(net: IpNet, n: u128) -> Option<IpAddr> {
    let address = match net.network() {
        IpAddr::V4(base) => {
            IpAddr::V4((u32::from(base).checked_add(u32::try_from(n).ok()?)?).into())
        }
        IpAddr::V6(base) => IpAddr::V6(u128::from(base).checked_add(n)?.into()),
    };
    net.contains(&address).then_some(address)
}
