//! DHCP packets: total decoding in front of dhcproto, and encoding as old boot ROMs want it.
//!
//! dhcproto stops in silence at the first option it cannot read, and in debug builds panics on some wrong lengths.
//! So the options are walked here: lengths are checked against a table before a typed option is made, an option
//! whose length is wrong is left out, and codes that nobody here reads stay raw. dhcproto sees the fixed header only.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use dhcproto::v4::{
    Architecture, DhcpOption, Flags, Message, MessageType, Opcode, OptionCode, UnknownOption,
};
use dhcproto::{Decodable, Decoder, Encodable, Encoder};

pub const SERVER_PORT: u16 = 67;
pub const CLIENT_PORT: u16 = 68;

/// Header and magic cookie; options follow.
const HEADER: usize = 240;
/// Boot ROMs drop replies shorter than a BOOTP packet (RFC 1542, 2.1).
const MIN_LENGTH: usize = 300;
/// Larger than any datagram that an Ethernet carries without fragments.
const MAX_LENGTH: usize = 4096;
const COOKIE: [u8; 4] = [99, 130, 83, 99];

const SNAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;

/// Why bytes are not a DHCP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("{0} bytes cannot be a DHCP packet")]
    Length(usize),
    #[error("the magic cookie is missing")]
    Cookie,
    #[error("the hardware address is not Ethernet (type {htype}, length {hlen})")]
    NotEthernet { htype: u8, hlen: u8 },
    #[error("option {code} is longer than the packet")]
    Truncated { code: u8 },
    #[error("the header cannot be read")]
    Header,
    #[error("there is no message type: a BOOTP packet")]
    NoMessageType,
}

/// Reads a packet; every option in the result is whole and of the length its code demands.
pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    if bytes.len() < HEADER || bytes.len() > MAX_LENGTH {
        return Err(DecodeError::Length(bytes.len()));
    }
    if bytes[236..HEADER] != COOKIE {
        return Err(DecodeError::Cookie);
    }
    let (htype, hlen) = (bytes[1], bytes[2]);
    if htype != 1 || hlen != 6 {
        return Err(DecodeError::NotEthernet { htype, hlen });
    }

    let mut raw = BTreeMap::new();
    walk(&bytes[HEADER..], &mut raw)?;
    // Option overload (RFC 2131, 4.1): the file field is read before sname.
    let overload = raw
        .remove(&52)
        .and_then(|data| data.first().copied())
        .unwrap_or(0);
    let mut header = bytes[..HEADER].to_vec();
    if overload & 1 != 0 {
        walk(&bytes[FILE], &mut raw)?;
        header[FILE].fill(0);
    }
    if overload & 2 != 0 {
        walk(&bytes[SNAME], &mut raw)?;
        header[SNAME].fill(0);
    }

    header.push(255);
    let mut message =
        Message::decode(&mut Decoder::new(&header)).map_err(|_| DecodeError::Header)?;
    for (code, data) in raw {
        if let Some(option) = typed(code, data) {
            message.opts_mut().insert(option);
        }
    }
    Ok(message)
}

/// Collects options by code; parts of a split option are joined (RFC 3396).
fn walk(mut bytes: &[u8], into: &mut BTreeMap<u8, Vec<u8>>) -> Result<(), DecodeError> {
    loop {
        match bytes {
            [] | [255, ..] => return Ok(()),
            [0, rest @ ..] => bytes = rest,
            [code, rest @ ..] => {
                let truncated = DecodeError::Truncated { code: *code };
                let (length, rest) = rest.split_first().ok_or(truncated)?;
                let (data, rest) = rest.split_at_checked(*length as usize).ok_or(truncated)?;
                into.entry(*code).or_default().extend_from_slice(data);
                bytes = rest;
            }
        }
    }
}

/// The typed form of the options we read, if the length fits; all others raw.
fn typed(code: u8, data: Vec<u8>) -> Option<DhcpOption> {
    use DhcpOption as O;
    // Options without data say nothing to us, and dhcproto could not write them again.
    if data.is_empty() {
        return None;
    }
    let option = match code {
        1 => O::SubnetMask(address(&data)?),
        3 => O::Router(addresses(&data)?),
        6 => O::DomainNameServer(addresses(&data)?),
        12 => O::Hostname(text(data)?),
        15 => O::DomainName(text(data)?),
        26 => O::InterfaceMtu(u16::from_be_bytes(data.try_into().ok()?)),
        28 => O::BroadcastAddr(address(&data)?),
        42 => O::NtpServers(addresses(&data)?),
        43 => O::VendorExtensions(data),
        50 => O::RequestedIpAddress(address(&data)?),
        51 => O::AddressLeaseTime(u32::from_be_bytes(data.try_into().ok()?)),
        53 => match data[..] {
            [kind] => O::MessageType(MessageType::from(kind)),
            _ => return None,
        },
        54 => O::ServerIdentifier(address(&data)?),
        55 => O::ParameterRequestList(data.into_iter().map(OptionCode::from).collect()),
        56 => O::Message(text(data)?),
        57 => O::MaxMessageSize(u16::from_be_bytes(data.try_into().ok()?)),
        58 => O::Renewal(u32::from_be_bytes(data.try_into().ok()?)),
        59 => O::Rebinding(u32::from_be_bytes(data.try_into().ok()?)),
        60 => O::ClassIdentifier(data),
        61 => O::ClientIdentifier(data),
        66 => O::TFTPServerName(data),
        67 => O::BootfileName(data),
        77 => O::UserClass(data),
        // A list; the first is the one the firmware prefers.
        93 => match data[..] {
            [high, low, ..] => {
                O::ClientSystemArchitecture(Architecture(u16::from_be_bytes([high, low])))
            }
            _ => return None,
        },
        94 => match data[..] {
            [kind, major, minor] => O::ClientNetworkInterface(kind, major, minor),
            _ => return None,
        },
        97 => O::ClientMachineIdentifier(data),
        150 => O::TFTPServerAddress(address(data.get(..4)?)?),
        code => raw_option(code, data),
    };
    Some(option)
}

/// An option as it is on the wire.
pub fn raw_option(code: u8, data: Vec<u8>) -> DhcpOption {
    DhcpOption::Unknown(UnknownOption::new(OptionCode::from(code), data))
}

fn address(data: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(data).ok().map(Ipv4Addr::from)
}

fn addresses(data: &[u8]) -> Option<Vec<Ipv4Addr>> {
    if data.is_empty() || !data.len().is_multiple_of(4) {
        return None;
    }
    Some(data.chunks_exact(4).filter_map(address).collect())
}

/// Texts may end in a NUL (RFC 2132, 2); an empty or undecodable one says nothing.
fn text(mut data: Vec<u8>) -> Option<String> {
    while data.last() == Some(&0) {
        data.pop();
    }
    String::from_utf8(data).ok().filter(|text| !text.is_empty())
}

/// Writes a packet, padded for old boot ROMs.
///
/// Options are written one by one: dhcproto's list would write a raw option 82 twice. The relay's own is the last
/// (RFC 3046, 2.1).
pub fn encode(message: &Message) -> Vec<u8> {
    const SIZED: &str = "a vector takes all bytes, and names were cut to their fields";
    let mut header = message.clone();
    header.opts_mut().clear();
    let mut bytes = Vec::with_capacity(576);
    let mut encoder = Encoder::new(&mut bytes);
    header.encode(&mut encoder).expect(SIZED);
    let (relay, own): (Vec<_>, Vec<_>) = message
        .opts()
        .iter()
        .partition(|(code, _)| u8::from(**code) == 82);
    for (_, option) in own.into_iter().chain(relay) {
        option.encode(&mut encoder).expect(SIZED);
    }
    DhcpOption::End.encode(&mut encoder).expect(SIZED);
    if bytes.len() < MIN_LENGTH {
        bytes.resize(MIN_LENGTH, 0);
    }
    bytes
}

/// An empty packet from or to `mac`.
pub(super) fn blank(opcode: Opcode, xid: u32, mac: model::Mac) -> Message {
    let zero = Ipv4Addr::UNSPECIFIED;
    let mut message = Message::new_with_id(xid, zero, zero, zero, zero, &mac.octets());
    message.set_opcode(opcode).set_flags(Flags::default());
    message
}

/// Puts a boot file name into the header if it fits with its closing NUL.
pub(super) fn set_file(message: &mut Message, file: &str) {
    if file.len() < FILE.len() {
        message.set_fname(file.as_bytes());
    }
}

/// The boot file name in the header.
pub fn file(message: &Message) -> Option<&[u8]> {
    let name = message.fname()?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    (!name.is_empty()).then_some(name)
}

/// The data of a raw option.
pub fn raw_data(message: &Message, code: u8) -> Option<&[u8]> {
    match message.opts().get(OptionCode::from(code)) {
        Some(DhcpOption::Unknown(option)) => Some(option.data()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn discover(options: &[u8]) -> Vec<u8> {
        let mut bytes = encode(&blank(
            Opcode::BootRequest,
            7,
            model::Mac([2, 0, 0, 0, 0, 1]),
        ));
        bytes.truncate(HEADER);
        bytes.extend_from_slice(options);
        bytes
    }

    #[test]
    fn an_option_of_the_wrong_length_is_left_out_and_the_rest_is_read() {
        let message = decode(&discover(&[
            94, 2, 1, 2, 53, 1, 1, 151, 0, 80, 1, 0, 81, 1, 0, 50, 4, 10, 0, 0, 9, 255,
        ]))
        .unwrap();
        assert_eq!(message.opts().msg_type(), Some(MessageType::Discover));
        assert!(
            message
                .opts()
                .get(OptionCode::ClientNetworkInterface)
                .is_none()
        );
        assert_eq!(
            message.opts().get(OptionCode::RequestedIpAddress),
            Some(&DhcpOption::RequestedIpAddress(Ipv4Addr::new(10, 0, 0, 9)))
        );
    }

    #[test]
    fn a_split_option_is_joined() {
        let message = decode(&discover(&[61, 2, 1, 2, 53, 1, 1, 61, 1, 3, 255])).unwrap();
        assert_eq!(
            message.opts().get(OptionCode::ClientIdentifier),
            Some(&DhcpOption::ClientIdentifier(vec![1, 2, 3]))
        );
    }

    #[test]
    fn options_overflowing_into_file_and_sname_are_found() {
        let mut bytes = discover(&[53, 1, 1, 52, 1, 3, 255]);
        bytes[FILE][..5].copy_from_slice(&[12, 2, b'h', b'i', 255]);
        bytes[SNAME][..4].copy_from_slice(&[57, 2, 5, 220]);
        let message = decode(&bytes).unwrap();
        assert_eq!(
            message.opts().get(OptionCode::Hostname),
            Some(&DhcpOption::Hostname("hi".into()))
        );
        assert_eq!(
            message.opts().get(OptionCode::MaxMessageSize),
            Some(&DhcpOption::MaxMessageSize(1500))
        );
        assert_eq!(file(&message), None);
    }

    #[test]
    fn foreign_packets_are_refused_by_name() {
        assert_eq!(decode(&[0; 12]), Err(DecodeError::Length(12)));
        assert_eq!(decode(&[0; 300]), Err(DecodeError::Cookie));
        assert_eq!(
            decode(&discover(&[53])),
            Err(DecodeError::Truncated { code: 53 })
        );
        assert_eq!(
            decode(&discover(&[53, 9, 1])),
            Err(DecodeError::Truncated { code: 53 })
        );
        let mut bytes = discover(&[]);
        bytes[2] = 200;
        assert_eq!(
            decode(&bytes),
            Err(DecodeError::NotEthernet {
                htype: 1,
                hlen: 200
            })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn any_options_give_a_packet_or_an_error_and_are_kept_when_written_again(
            header in proptest::collection::vec(any::<u8>(), 233),
            options in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..9)), 0..24),
            tail in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let mut bytes = vec![1, 1, 6];
            bytes.extend(header);
            bytes.extend(COOKIE);
            for (code, data) in options {
                bytes.push(code);
                bytes.push(data.len() as u8);
                bytes.extend(data);
            }
            bytes.extend(tail);
            if let Ok(message) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&message)).expect("what we write we read"), message);
            }
        }
    }
}
