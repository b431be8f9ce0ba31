//! The bytes of an answer and where they go (RFC 2131, 4.1 and table 3).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::{DhcpOption as O, Flags, Message, MessageType, Opcode};
use model::Mac;

use super::boot::{Boot, By};
use super::config::{Config, Known};
use crate::dhcp::packet;
use crate::dhcp::request::Request;

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dest {
    /// To everyone, port 68.
    Broadcast,
    /// To a client that may not answer ARP for its address yet: the frame is addressed by hand.
    Unicast { ip: Ipv4Addr, mac: Mac },
    /// To the relay, port 67.
    Relay { giaddr: Ipv4Addr },
    /// To where the packet came from.
    Back,
}

/// What a lease's answer says.
pub(super) struct Grant<'a> {
    pub address: Ipv4Addr,
    pub lease: Duration,
    pub hostname: Option<&'a str>,
}

pub(super) fn offer(config: &Config, request: &Request, grant: &Grant<'_>) -> (Vec<u8>, Dest) {
    leasing(MessageType::Offer, config, request, grant)
}

pub(super) fn ack(config: &Config, request: &Request, grant: &Grant<'_>) -> (Vec<u8>, Dest) {
    leasing(MessageType::Ack, config, request, grant)
}

fn leasing(
    kind: MessageType,
    config: &Config,
    request: &Request,
    grant: &Grant<'_>,
) -> (Vec<u8>, Dest) {
    let mut message = start(kind, config, request);
    message.set_yiaddr(grant.address).set_ciaddr(request.ciaddr);
    let seconds = grant.lease.as_secs().min(u64::from(u32::MAX - 1)) as u32;
    let options = message.opts_mut();
    options.insert(O::AddressLeaseTime(seconds));
    options.insert(O::Renewal(seconds / 2));
    options.insert(O::Rebinding((u64::from(seconds) * 7 / 8) as u32));
    tell(&mut message, config, request, grant.hostname);
    (
        finish(message, request),
        destination(request, grant.address),
    )
}

/// The answer to a client that has its address from elsewhere: no lease, no address (4.3.5).
pub(super) fn inform(config: &Config, request: &Request) -> (Vec<u8>, Dest) {
    let mut message = start(MessageType::Ack, config, request);
    message.set_ciaddr(request.ciaddr);
    tell(&mut message, config, request, None);
    (
        finish(message, request),
        Dest::Unicast {
            ip: request.ciaddr,
            mac: request.mac,
        },
    )
}

/// A refusal: broadcast, because the client's idea of its address is wrong (4.3.2).
pub(super) fn nak(config: &Config, request: &Request, why: &str) -> (Vec<u8>, Dest) {
    let mut message = start(MessageType::Nak, config, request);
    message.set_siaddr(Ipv4Addr::UNSPECIFIED);
    message.opts_mut().insert(O::Message(why.to_owned()));
    let dest = match request.giaddr {
        None => Dest::Broadcast,
        Some(giaddr) => {
            message.set_flags(request.flags.set_broadcast());
            Dest::Relay { giaddr }
        }
    };
    (finish(message, request), dest)
}

/// An offer of a boot file without an address; nothing where there is none for this firmware.
pub(super) fn proxy_offer(config: &Config, request: &Request) -> Option<(Vec<u8>, Dest)> {
    let bytes = proxy(MessageType::Offer, config, request)?;
    // The client has no address that we could know.
    let dest = match request.giaddr {
        Some(giaddr) => Dest::Relay { giaddr },
        None => Dest::Broadcast,
    };
    Some((bytes, dest))
}

/// The same on the boot server's port.
pub(super) fn proxy_ack(config: &Config, request: &Request) -> Option<(Vec<u8>, Dest)> {
    Some((proxy(MessageType::Ack, config, request)?, Dest::Back))
}

fn proxy(kind: MessageType, config: &Config, request: &Request) -> Option<Vec<u8>> {
    let table = boot_of(config, request);
    let chosen = table.choose(&request.firmware)?;
    let mut message = start(kind, config, request);
    message.set_ciaddr(request.ciaddr);
    boot(&mut message, table, request);
    let options = message.opts_mut();
    match chosen.by {
        // The class makes it a proxy's answer; without boot servers to choose from, the file is to be taken as it is.
        By::Tftp | By::Ipxe => {
            options.insert(O::ClassIdentifier(b"PXEClient".to_vec()));
            options.insert(O::VendorExtensions(vec![6, 1, 8, 255]));
        }
        By::Http => {}
    }
    if let Some(uuid) = request.firmware.uuid {
        let id = std::iter::once(0).chain(uuid).collect();
        options.insert(O::ClientMachineIdentifier(id));
    }
    Some(finish(message, request))
}

fn boot_of<'a>(config: &'a Config, request: &Request) -> &'a Boot {
    let known = config.known.get(&request.mac);
    known
        .and_then(|known| known.boot.as_ref())
        .unwrap_or(&config.boot)
}

fn start(kind: MessageType, config: &Config, request: &Request) -> Message {
    let mut message = packet::blank(Opcode::BootReply, request.xid, request.mac);
    message.set_flags(Flags::new(u16::from(request.flags)));
    message.set_giaddr(request.giaddr.unwrap_or(Ipv4Addr::UNSPECIFIED));
    message.opts_mut().insert(O::MessageType(kind));
    message
        .opts_mut()
        .insert(O::ServerIdentifier(config.server_id));
    message
}

/// Everything but the lease.
fn tell(message: &mut Message, config: &Config, request: &Request, hostname: Option<&str>) {
    let asked = |code: u8| {
        request
            .asks_for
            .as_ref()
            .is_none_or(|codes| codes.contains(&code))
    };
    let known = config.known.get(&request.mac);
    let ours = &config.options;
    let options = message.opts_mut();
    options.insert(O::SubnetMask(config.subnet.netmask()));
    if let Some(router) = ours.router {
        options.insert(O::Router(vec![router]));
    }
    if !ours.dns.is_empty() {
        options.insert(O::DomainNameServer(ours.dns.clone()));
    }
    if let Some(domain) = ours.domain.as_ref().filter(|_| asked(15)) {
        options.insert(O::DomainName(domain.clone()));
    }
    if let Some(name) = hostname.filter(|_| asked(12)) {
        options.insert(O::Hostname(name.to_owned()));
    }
    if let Some(mtu) = ours.mtu.filter(|_| asked(26)) {
        options.insert(O::InterfaceMtu(mtu));
    }
    if asked(28) {
        options.insert(O::BroadcastAddr(config.subnet.broadcast()));
    }
    if !ours.ntp.is_empty() && asked(42) {
        options.insert(O::NtpServers(ours.ntp.clone()));
    }
    boot(message, boot_of(config, request), request);
    raw(message, &ours.raw, known);
}

fn boot(message: &mut Message, boot: &Boot, request: &Request) {
    let Some(boot) = boot.choose(&request.firmware) else {
        return;
    };
    // Some ROMs read the header only, some the options only: both are filled.
    message.set_siaddr(boot.next_server);
    packet::set_file(message, &boot.file);
    let options = message.opts_mut();
    options.insert(O::BootfileName(boot.file.into_bytes()));
    match boot.by {
        By::Tftp => {
            options.insert(O::TFTPServerName(boot.next_server.to_string().into_bytes()));
            options.insert(O::TFTPServerAddress(boot.next_server));
        }
        // UEFI takes an offer for HTTP boot only if the class comes back.
        By::Http => {
            options.insert(O::ClassIdentifier(b"HTTPClient".to_vec()));
        }
        // iPXE's `no-pxedhcp`: all there is to know is here, and no second server is worth seconds of waiting.
        By::Ipxe => {
            options.insert(packet::raw_option(175, vec![176, 1, 1]));
        }
    }
}

fn raw(message: &mut Message, ours: &BTreeMap<u8, Vec<u8>>, known: Option<&Known>) {
    let theirs = known.into_iter().flat_map(|known| &known.raw);
    for (code, data) in ours.iter().chain(theirs) {
        message
            .opts_mut()
            .insert(packet::raw_option(*code, data.clone()));
    }
}

fn finish(mut message: Message, request: &Request) -> Vec<u8> {
    if let Some(info) = &request.relay_info {
        message
            .opts_mut()
            .insert(packet::raw_option(82, info.clone()));
    }
    packet::encode(&message)
}

fn destination(request: &Request, address: Ipv4Addr) -> Dest {
    if let Some(giaddr) = request.giaddr {
        return Dest::Relay { giaddr };
    }
    if !request.ciaddr.is_unspecified() {
        return Dest::Unicast {
            ip: request.ciaddr,
            mac: request.mac,
        };
    }
    if request.wants_broadcast() {
        return Dest::Broadcast;
    }
    Dest::Unicast {
        ip: address,
        mac: request.mac,
    }
}
