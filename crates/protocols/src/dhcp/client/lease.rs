//! What a server gives: the contents of an offer or acknowledgement.

use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::{DhcpOption as O, Message};

use crate::dhcp::packet;

/// What the server gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub server: Ipv4Addr,
    pub router: Option<Ipv4Addr>,
    pub dns: Vec<Ipv4Addr>,
    pub domain: Option<String>,
    pub ntp: Vec<Ipv4Addr>,
    pub hostname: Option<String>,
    pub mtu: Option<u16>,
    pub next_server: Option<Ipv4Addr>,
    /// A path at the next server, or a URL.
    pub boot_file: Option<String>,
    pub lease: Duration,
    pub renew: Duration,
    pub rebind: Duration,
}

impl Lease {
    /// The boot file, if it is to be fetched by HTTP.
    pub fn boot_url(&self) -> Option<&str> {
        self.boot_file
            .as_deref()
            .filter(|file| file.starts_with("http://") || file.starts_with("https://"))
    }
}

/// Reads an offer or acknowledgement; without address, server or time it is none.
pub(super) fn read(message: &Message) -> Option<Lease> {
    let mut server = None;
    let mut time = None;
    let (mut renew, mut rebind) = (None, None);
    let mut name = None;
    let mut lease = Lease {
        address: message.yiaddr(),
        prefix: 32,
        server: Ipv4Addr::UNSPECIFIED,
        router: None,
        dns: Vec::new(),
        domain: None,
        ntp: Vec::new(),
        hostname: None,
        mtu: None,
        next_server: Some(message.siaddr()).filter(|address| !address.is_unspecified()),
        boot_file: None,
        lease: Duration::ZERO,
        renew: Duration::ZERO,
        rebind: Duration::ZERO,
    };
    for (_, option) in message.opts() {
        match option {
            O::SubnetMask(mask) => lease.prefix = u32::from(*mask).leading_ones() as u8,
            O::Router(routers) => lease.router = routers.first().copied(),
            O::DomainNameServer(servers) => lease.dns.clone_from(servers),
            O::DomainName(domain) => lease.domain = Some(domain.clone()),
            O::NtpServers(servers) => lease.ntp.clone_from(servers),
            O::Hostname(hostname) => lease.hostname = Some(hostname.clone()),
            O::InterfaceMtu(mtu) => lease.mtu = Some(*mtu),
            O::ServerIdentifier(id) => server = Some(*id),
            O::AddressLeaseTime(seconds) => time = Some(*seconds),
            O::Renewal(seconds) => renew = Some(*seconds),
            O::Rebinding(seconds) => rebind = Some(*seconds),
            O::BootfileName(file) => name = Some(file.as_slice()),
            _ => {}
        }
    }
    let file = name.or_else(|| packet::file(message));
    lease.boot_file = file
        .and_then(|file| {
            Some(
                std::str::from_utf8(file)
                    .ok()?
                    .trim_end_matches('\0')
                    .to_owned(),
            )
        })
        .filter(|file| !file.is_empty());
    lease.server = server?;
    let time = u64::from(time.filter(|seconds| *seconds > 0)?);
    // Times out of order are not believed.
    let rebind = rebind.map_or(time * 7 / 8, u64::from).clamp(0, time);
    let renew = renew.map_or(time / 2, u64::from).clamp(0, rebind);
    lease.lease = Duration::from_secs(time);
    lease.rebind = Duration::from_secs(rebind);
    lease.renew = Duration::from_secs(renew.max(1).min(time));
    (!lease.address.is_unspecified()).then_some(lease)
}
