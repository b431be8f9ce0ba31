//! The IPMI message as a LAN carries it (13.8).
//!
//! ```text
//!   to | network function(6), to LUN(2) | checksum | from | sequence(6), from LUN(2) | command | data | checksum
//! ```
//! A response has the odd network function and a completion code as its first data byte.

use super::{Error, Reader};

pub const BMC_ADDRESS: u8 = 0x20;
/// The software id consoles use.
pub const CONSOLE_ADDRESS: u8 = 0x81;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub to: u8,
    pub to_lun: u8,
    pub net_fn: u8,
    pub from: u8,
    pub from_lun: u8,
    /// Six bits that pair a response with its request.
    pub sequence: u8,
    pub command: u8,
    pub data: Vec<u8>,
}

impl Message {
    /// A request from a console to the BMC.
    pub fn request(net_fn: u8, command: u8, sequence: u8, data: Vec<u8>) -> Self {
        Self {
            to: BMC_ADDRESS,
            to_lun: 0,
            net_fn,
            from: CONSOLE_ADDRESS,
            from_lun: 0,
            sequence: sequence & 0x3f,
            command,
            data,
        }
    }

    /// The response to this request.
    #[must_use]
    pub fn response(&self, completion: u8, data: &[u8]) -> Self {
        let mut body = vec![completion];
        body.extend(data);
        Self {
            to: self.from,
            to_lun: self.from_lun,
            net_fn: self.net_fn | 1,
            from: self.to,
            from_lun: self.to_lun,
            sequence: self.sequence,
            command: self.command,
            data: body,
        }
    }

    pub fn is_request(&self) -> bool {
        self.net_fn & 1 == 0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("IPMI message", bytes);
        let head @ [to, function, _] = reader.array()?;
        if sum(&head) != 0 {
            return Err(Error::Checksum {
                part: "IPMI message header",
            });
        }
        let body = reader.rest();
        if sum(body) != 0 {
            return Err(Error::Checksum {
                part: "IPMI message body",
            });
        }
        let mut reader = Reader::new("IPMI message", body);
        let [from, sequence, command] = reader.array()?;
        let Some((_checksum, data)) = reader.rest().split_last() else {
            return Err(Error::Short {
                part: "IPMI message",
                missing: 1,
            });
        };
        Ok(Self {
            to,
            to_lun: function & 3,
            net_fn: function >> 2,
            from,
            from_lun: sequence & 3,
            sequence: sequence >> 2,
            command,
            data: data.to_vec(),
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.to, self.net_fn << 2 | self.to_lun & 3];
        bytes.push(checksum(&bytes));
        bytes.extend([
            self.from,
            self.sequence << 2 | self.from_lun & 3,
            self.command,
        ]);
        bytes.extend(&self.data);
        bytes.push(checksum(&bytes[3..]));
        bytes
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The byte that makes the sum of all zero.
pub(in crate::ipmi) fn checksum(bytes: &[u8]) -> u8 {
    sum(bytes).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_message()(
            (to, from, command) in any::<(u8, u8, u8)>(),
            (to_lun, from_lun, net_fn, sequence) in (0u8..4, 0u8..4, 0u8..64, 0u8..64),
            data in prop::collection::vec(any::<u8>(), 0..80),
        ) -> Message {
            Message { to, to_lun, net_fn, from, from_lun, sequence, command, data }
        }
    }

    #[test]
    fn get_device_id_is_the_bytes_of_the_specification() {
        let message = Message::request(0x06, 0x01, 0, vec![]);
        assert_eq!(message.encode(), [0x20, 0x18, 0xc8, 0x81, 0x00, 0x01, 0x7e]);
    }

    proptest! {
        #[test]
        fn messages_read_back_as_written(message in any_message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn a_changed_byte_is_noticed(message in any_message(), at: prop::sample::Index, change in 1u8..) {
            let mut bytes = message.encode();
            let at = at.index(bytes.len());
            bytes[at] = bytes[at].wrapping_add(change);
            prop_assert!(Message::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_give_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Message::decode(&bytes);
        }
    }
}
