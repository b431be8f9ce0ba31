//! A server for one prefix: which address a client gets, and what it is told to boot.
//!
//! DEVIATION: leases are not on disk. An address follows from the client's identifier, and a client that renews one we
//! do not remember keeps it as long as nobody else has it: after a restart everyone has what they had.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use model::Mac;

use super::code;
use super::packet::{self, DecodeError, Kind, Message, Writer};

/// Bindings remembered at most; those over longest go first.
const MOST: usize = 1 << 16;
/// Addresses tried for a client before there is none.
const TRIES: u32 = 4096;
const SUCCESS: u16 = 0;
const NO_ADDRESS: u16 = 2;
const NOT_ON_LINK: u16 = 4;
/// Architectures (RFC 5970, 3.3) that mean UEFI over HTTP.
const HTTP: [u16; 2] = [16, 19];
const ARM64: [u16; 2] = [11, 19];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Ours, as clients know us (a DUID).
    pub id: Vec<u8>,
    pub range: RangeInclusive<Ipv6Addr>,
    pub lease: Duration,
    pub dns: Vec<Ipv6Addr>,
    pub boot: Option<Boot>,
    /// Those who are answered, if not everyone is.
    pub only: Option<Vec<Mac>>,
}

/// URLs by what asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// UEFI on x86-64, and whoever does not say what it is.
    pub x64: Option<String>,
    pub arm64: Option<String>,
    pub http_x64: Option<String>,
    pub http_arm64: Option<String>,
    pub ipxe: String,
}

/// What the server wants done with one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To where the packet came from.
    Send {
        bytes: Vec<u8>,
    },
    Report(Report),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Leased {
        address: Ipv6Addr,
        mac: Option<Mac>,
    },
    Released {
        address: Ipv6Addr,
    },
    /// A machine boots.
    Booting {
        mac: Option<Mac>,
        arch: Option<u16>,
        ignored: bool,
    },
    Exhausted,
    Malformed(DecodeError),
}

/// A client's address wish: who, and which of its interfaces.
type Key = (Vec<u8>, u32);

#[derive(Debug)]
pub struct Server {
    config: Config,
    leases: BTreeMap<Key, (Ipv6Addr, SystemTime)>,
    taken: BTreeMap<Ipv6Addr, Key>,
}

impl Server {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            leases: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    pub fn reconfigure(&mut self, config: Config) {
        self.config = config;
        let range = self.config.range.clone();
        self.leases
            .retain(|_, (address, _)| range.contains(address));
        self.taken.retain(|address, _| range.contains(address));
    }

    /// Leases remembered; never more than a bound.
    pub fn bound(&self) -> usize {
        self.leases.len()
    }

    pub fn handle(&mut self, now: SystemTime, bytes: &[u8], from: Ipv6Addr) -> Vec<Action> {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return vec![Action::Report(Report::Malformed(error))],
        };
        let Some(client) = message
            .get(code::CLIENT_ID)
            .filter(|id| (3..=130).contains(&id.len()))
        else {
            return Vec::new();
        };
        let mac = mac_of(client, from);
        let for_us = message
            .get(code::SERVER_ID)
            .is_none_or(|id| id == self.config.id);
        let ignored = self
            .config
            .only
            .as_ref()
            .is_some_and(|only| !mac.is_some_and(|mac| only.contains(&mac)));
        let mut actions = Vec::new();
        if message.kind == Kind::Solicit && boots(&message) {
            actions.push(Action::Report(Report::Booting {
                mac,
                arch: architecture(&message),
                ignored,
            }));
        }
        if !for_us || ignored {
            return actions;
        }
        let kind = match message.kind {
            Kind::Solicit if message.get(code::RAPID_COMMIT).is_some() => Kind::Reply,
            Kind::Solicit => Kind::Advertise,
            Kind::Request
            | Kind::Confirm
            | Kind::Renew
            | Kind::Rebind
            | Kind::Release
            | Kind::Decline
            | Kind::InformationRequest => Kind::Reply,
            // Another server's.
            Kind::Advertise | Kind::Reply => return actions,
        };
        let mut reply = Writer::new(kind, message.xid)
            .put(code::CLIENT_ID, client)
            .put(code::SERVER_ID, &self.config.id);
        match message.kind {
            Kind::Confirm => {
                let status = self.confirm(&message);
                reply = reply.put(code::STATUS, &status.to_be_bytes());
            }
            Kind::Release | Kind::Decline => {
                for address in self.release(client, &message) {
                    actions.push(Action::Report(Report::Released { address }));
                }
                reply = reply.put(code::STATUS, &SUCCESS.to_be_bytes());
            }
            Kind::InformationRequest => {}
            Kind::Solicit
            | Kind::Request
            | Kind::Renew
            | Kind::Rebind
            | Kind::Advertise
            | Kind::Reply => {
                if kind == Kind::Advertise {
                    // Nobody needs to wait for other offers.
                    reply = reply.put(code::PREFERENCE, &[255]);
                } else if message.kind == Kind::Solicit {
                    reply = reply.put(code::RAPID_COMMIT, &[]);
                }
                for association in message.all(code::IA_NA).take(4) {
                    let Some((head, given)) = self.associate(now, client, association) else {
                        continue;
                    };
                    reply = reply.put(code::IA_NA, &head);
                    match given {
                        Some(address) if kind == Kind::Reply => {
                            actions.push(Action::Report(Report::Leased { address, mac }));
                        }
                        Some(_) => {}
                        None => actions.push(Action::Report(Report::Exhausted)),
                    }
                }
            }
        }
        let reply = self.tell(reply, &message);
        actions.push(Action::Send {
            bytes: reply.done(),
        });
        actions
    }

    /// The answer to one IA_NA, and the address in it.
    fn associate(
        &mut self,
        now: SystemTime,
        client: &[u8],
        data: &[u8],
    ) -> Option<(Vec<u8>, Option<Ipv6Addr>)> {
        let (iaid, rest) = data.split_first_chunk::<4>()?;
        let wished = rest
            .get(8..)
            .and_then(|options| packet::options(options).ok())
            .and_then(|options| address(packet::find(&options, code::IA_ADDRESS)?));
        let key = (client.to_vec(), u32::from_be_bytes(*iaid));
        let given = self.choose(now, &key, wished);
        let seconds = self.config.lease.as_secs().min(u64::from(u32::MAX - 1)) as u32;
        let mut answer = iaid.to_vec();
        answer.extend((seconds / 2).to_be_bytes());
        answer.extend((seconds / 8 * 7).to_be_bytes());
        match given {
            Some(address) => {
                let mut inner = address.octets().to_vec();
                inner.extend(seconds.to_be_bytes());
                inner.extend(seconds.to_be_bytes());
                packet::put(&mut answer, code::IA_ADDRESS, &inner);
            }
            None => packet::put(&mut answer, code::STATUS, &NO_ADDRESS.to_be_bytes()),
        }
        Some((answer, given))
    }

    /// What it has, else what it wishes for, else what its identifier leads to.
    fn choose(&mut self, now: SystemTime, key: &Key, wished: Option<Ipv6Addr>) -> Option<Ipv6Addr> {
        let free = |address: &Ipv6Addr, server: &Self| match server.taken.get(address) {
            None => true,
            Some(by) if by == key => true,
            Some(by) => server.leases.get(by).is_none_or(|(_, until)| *until <= now),
        };
        let had = self.leases.get(key).map(|(address, _)| *address);
        let in_range = |address: &Ipv6Addr| self.config.range.contains(address);
        let address = had
            .into_iter()
            .chain(wished.filter(in_range))
            .chain(candidates(&self.config.range, key))
            .find(|address| free(address, self))?;
        if let Some(before) = self.taken.insert(address, key.clone())
            && before != *key
        {
            self.leases.remove(&before);
        }
        self.leases
            .insert(key.clone(), (address, now + self.config.lease));
        if self.leases.len() > MOST {
            let oldest = self.leases.iter().min_by_key(|(_, (_, until))| *until);
            if let Some((oldest, (address, _))) = oldest.map(|(key, lease)| (key.clone(), *lease)) {
                self.leases.remove(&oldest);
                self.taken.remove(&address);
            }
        }
        Some(address)
    }

    fn confirm(&self, message: &Message<'_>) -> u16 {
        let mut addresses = message.all(code::IA_NA).filter_map(|data| {
            let options = packet::options(data.get(12..)?).ok()?;
            address(packet::find(&options, code::IA_ADDRESS)?)
        });
        if addresses.all(|address| self.config.range.contains(&address)) {
            SUCCESS
        } else {
            NOT_ON_LINK
        }
    }

    fn release(&mut self, client: &[u8], message: &Message<'_>) -> Vec<Ipv6Addr> {
        let mut released = Vec::new();
        for data in message.all(code::IA_NA) {
            let Some((iaid, _)) = data.split_first_chunk::<4>() else {
                continue;
            };
            let key = (client.to_vec(), u32::from_be_bytes(*iaid));
            if let Some((address, _)) = self.leases.remove(&key) {
                self.taken.remove(&address);
                released.push(address);
            }
        }
        released
    }

    /// Everything but addresses.
    fn tell(&self, mut reply: Writer, message: &Message<'_>) -> Writer {
        if !self.config.dns.is_empty() {
            let dns: Vec<u8> = self.config.dns.iter().flat_map(Ipv6Addr::octets).collect();
            reply = reply.put(code::DNS, &dns);
        }
        let Some(boot) = self.config.boot.as_ref().filter(|_| boots(message)) else {
            return reply;
        };
        let arch = architecture(message);
        let over_http =
            arch.is_some_and(|arch| HTTP.contains(&arch)) || class(message, b"HTTPClient");
        let is_arm = arch.is_some_and(|arch| ARM64.contains(&arch));
        let url = match (is_ipxe(message), over_http, is_arm) {
            (true, _, _) => Some(&boot.ipxe),
            (false, true, false) => boot.http_x64.as_ref(),
            (false, true, true) => boot.http_arm64.as_ref(),
            (false, false, true) => boot.arm64.as_ref(),
            (false, false, false) => boot.x64.as_ref(),
        };
        let Some(url) = url else { return reply };
        reply = reply.put(code::BOOT_URL, url.as_bytes());
        if over_http && !is_ipxe(message) {
            // UEFI takes a URL for HTTP boot only if the class comes back (enterprise 343).
            let class = [&[0, 0, 1, 87, 0, 10][..], b"HTTPClient"].concat();
            reply = reply.put(code::VENDOR_CLASS, &class);
        }
        reply
    }
}

fn candidates(range: &RangeInclusive<Ipv6Addr>, key: &Key) -> impl Iterator<Item = Ipv6Addr> {
    let (first, last) = (u128::from(*range.start()), u128::from(*range.end()));
    let span = last.saturating_sub(first).saturating_add(1);
    let bytes = key.0.iter().copied().chain(key.1.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let tries = span.min(u128::from(TRIES));
    (0..tries).map(move |step| Ipv6Addr::from(first + (u128::from(hash) + step) % span))
}

fn address(data: &[u8]) -> Option<Ipv6Addr> {
    data.first_chunk::<16>()
        .map(|octets| Ipv6Addr::from(*octets))
}

fn architecture(message: &Message<'_>) -> Option<u16> {
    let first = message.get(code::ARCHITECTURE)?.first_chunk()?;
    Some(u16::from_be_bytes(*first))
}

fn contains(data: &[u8], word: &[u8]) -> bool {
    data.windows(word.len()).any(|part| part == word)
}

fn class(message: &Message<'_>, word: &[u8]) -> bool {
    message
        .get(code::VENDOR_CLASS)
        .is_some_and(|data| contains(data, word))
}

fn is_ipxe(message: &Message<'_>) -> bool {
    message
        .get(code::USER_CLASS)
        .is_some_and(|data| contains(data, b"iPXE"))
}

fn boots(message: &Message<'_>) -> bool {
    is_ipxe(message)
        || class(message, b"PXEClient")
        || class(message, b"HTTPClient")
        || message.get(code::ARCHITECTURE).is_some()
}

/// From the identifier (RFC 8415, 11), or from the link-local address it asks from: UEFI names itself by SMBIOS.
fn mac_of(client: &[u8], from: Ipv6Addr) -> Option<Mac> {
    let (kind, rest) = client.split_first_chunk::<2>()?;
    let link = match u16::from_be_bytes(*kind) {
        1 => rest.get(6..),
        3 => rest.get(2..),
        _ => None,
    };
    if let Some(link) = link.filter(|_| rest.starts_with(&[0, 1])) {
        return <[u8; 6]>::try_from(link).ok().map(Mac);
    }
    let octets = from.octets();
    match octets {
        [
            0xfe,
            0x80,
            0,
            0,
            0,
            0,
            0,
            0,
            first,
            one,
            two,
            0xff,
            0xfe,
            rest @ ..,
        ] => {
            let [three, four, five] = rest;
            Some(Mac([first ^ 2, one, two, three, four, five]))
        }
        _ => None,
    }
}
