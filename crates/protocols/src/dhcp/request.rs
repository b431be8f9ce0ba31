//! What a client says: one packet, read into the things a server decides by.

use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode};
use model::Mac;

use super::packet::{self, DecodeError};

/// A packet from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub kind: Kind,
    pub xid: u32,
    pub flags: Flags,
    pub mac: Mac,
    /// The client's own identifier (option 61), as sent.
    pub client_id: Option<Vec<u8>>,
    /// The address the client uses already.
    pub ciaddr: Ipv4Addr,
    /// The relay it came through.
    pub giaddr: Option<Ipv4Addr>,
    pub hops: u8,
    /// The address asked for (option 50).
    pub wants: Option<Ipv4Addr>,
    pub wants_lease: Option<Duration>,
    /// The server the client speaks to (option 54).
    pub server_id: Option<Ipv4Addr>,
    pub hostname: Option<String>,
    /// Codes of the options asked for; none when the client sent no list.
    pub asks_for: Option<Vec<u8>>,
    pub firmware: Firmware,
    /// The relay's information (option 82), returned as it came (RFC 3046).
    pub relay_info: Option<Vec<u8>>,
}

/// What a client's packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Discover,
    Request,
    Decline,
    Release,
    Inform,
}

/// What the client tells of its boot firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// Vendor class (option 60), such as `PXEClient:Arch:00007:UNDI:003016`.
    pub class: Vec<u8>,
    /// Architecture (option 93).
    pub arch: Option<u16>,
    /// iPXE is asking, not the ROM.
    pub ipxe: bool,
    /// Machine identifier (option 97), without its type byte.
    pub uuid: Option<[u8; 16]>,
}

impl Firmware {
    /// Whether it is boot firmware at all, and not an operating system.
    pub fn boots(&self) -> bool {
        self.ipxe || self.class.starts_with(b"PXEClient") || self.class.starts_with(b"HTTPClient")
    }
}

/// What arrived at a server's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A client's packet.
    Client(Box<Request>),
    /// Another server answers on our wire.
    Server { id: Ipv4Addr },
    /// A packet no server has to answer.
    Other,
}

impl Heard {
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let message = packet::decode(bytes)?;
        let kind = message
            .opts()
            .msg_type()
            .ok_or(DecodeError::NoMessageType)?;
        match (message.opcode(), kind) {
            (Opcode::BootRequest, MessageType::Discover) => {
                Ok(Self::client(Kind::Discover, &message))
            }
            (Opcode::BootRequest, MessageType::Request) => {
                Ok(Self::client(Kind::Request, &message))
            }
            (Opcode::BootRequest, MessageType::Decline) => {
                Ok(Self::client(Kind::Decline, &message))
            }
            (Opcode::BootRequest, MessageType::Release) => {
                Ok(Self::client(Kind::Release, &message))
            }
            (Opcode::BootRequest, MessageType::Inform) => Ok(Self::client(Kind::Inform, &message)),
            (Opcode::BootReply, MessageType::Offer | MessageType::Ack | MessageType::Nak) => {
                match message.opts().get(OptionCode::ServerIdentifier) {
                    Some(DhcpOption::ServerIdentifier(id)) => Ok(Self::Server { id: *id }),
                    _ => Ok(Self::Other),
                }
            }
            _ => Ok(Self::Other),
        }
    }

    fn client(kind: Kind, message: &Message) -> Self {
        let mut octets = [0; 6];
        octets.copy_from_slice(&message.chaddr()[..6]);
        let mut request = Request {
            kind,
            xid: message.xid(),
            flags: message.flags(),
            mac: Mac(octets),
            client_id: None,
            ciaddr: message.ciaddr(),
            giaddr: Some(message.giaddr()).filter(|relay| !relay.is_unspecified()),
            hops: message.hops(),
            wants: None,
            wants_lease: None,
            server_id: None,
            hostname: None,
            asks_for: None,
            firmware: Firmware {
                ipxe: packet::raw_data(message, 175).is_some(),
                ..Firmware::default()
            },
            relay_info: packet::raw_data(message, 82).map(<[u8]>::to_vec),
        };
        for (_, option) in message.opts() {
            request.read(option);
        }
        Self::Client(Box::new(request))
    }
}

impl Request {
    fn read(&mut self, option: &DhcpOption) {
        match option {
            // One byte would be the type alone; longer than a DUID is noise.
            DhcpOption::ClientIdentifier(id) if (2..=255).contains(&id.len()) => {
                self.client_id = Some(id.clone());
            }
            DhcpOption::RequestedIpAddress(address) => {
                self.wants = Some(*address).filter(|a| !a.is_unspecified());
            }
            DhcpOption::AddressLeaseTime(seconds) => {
                self.wants_lease = Some(Duration::from_secs((*seconds).into()));
            }
            DhcpOption::ServerIdentifier(id) => self.server_id = Some(*id),
            DhcpOption::Hostname(name) => self.hostname = hostname(name),
            DhcpOption::ParameterRequestList(codes) => {
                self.asks_for = Some(codes.iter().map(|code| u8::from(*code)).collect());
            }
            DhcpOption::ClassIdentifier(class) => self.firmware.class.clone_from(class),
            DhcpOption::ClientSystemArchitecture(arch) => self.firmware.arch = Some(arch.0),
            // RFC 3004 wants a length before each class; iPXE sends the bare word.
            DhcpOption::UserClass(class) => {
                self.firmware.ipxe |= class.windows(4).any(|word| word == b"iPXE");
            }
            DhcpOption::ClientMachineIdentifier(id) => {
                self.firmware.uuid = id.get(1..).and_then(|id| id.try_into().ok());
            }
            _ => {}
        }
    }

    pub fn wants_broadcast(&self) -> bool {
        self.flags.broadcast()
    }
}

/// The first label of the name a client gives itself, if it can be a DNS label.
pub(super) fn hostname(name: &str) -> Option<String> {
    let label = name.split('.').next()?;
    let fits = (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-');
    fits.then(|| label.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_label_of_a_decent_host_name_is_taken() {
        assert_eq!(
            hostname("Worker-0.example.com").as_deref(),
            Some("worker-0")
        );
        for bad in ["", ".x", "-a", "a_b", "a b", &"x".repeat(64)] {
            assert_eq!(hostname(bad), None, "{bad}");
        }
    }
}
