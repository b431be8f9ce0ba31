//! What listens on this machine, by `/proc/net`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plan::preflight::{Fact, Listening, Transport};

/// TCP_LISTEN; a UDP socket that is bound is in state 7.
const LISTEN: &str = "0A";
const BOUND: &str = "07";

pub fn listening() -> Fact<Vec<Listening>> {
    let mut found = Vec::new();
    for (file, transport) in [
        ("tcp", Transport::Tcp),
        ("tcp6", Transport::Tcp),
        ("udp", Transport::Udp),
        ("udp6", Transport::Udp),
    ] {
        // Of this thread's namespace; a family the kernel does not have is no file.
        match std::fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
            Ok(text) => found.extend(parse(&text, transport)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Fact::Unknown(format!("read /proc/net/{file}: {error}")),
        }
    }
    Fact::Known(found)
}

fn parse(text: &str, transport: Transport) -> impl Iterator<Item = Listening> {
    text.lines().skip(1).filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (words.get(1)?, *words.get(3)?);
        let waits = match transport {
            Transport::Tcp => state == LISTEN,
            Transport::Udp => state == BOUND,
        };
        let (address, port) = local.split_once(':')?;
        waits.then_some(())?;
        Some(Listening {
            transport,
            address: parse_address(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
        })
    })
}

/// Words of 32 bits, each in the machine's own order.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_wait_are_read_and_others_are_not() {
        let text = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:0035 00000000:0000 0A 0\n   1: 0100007F:1F90 0100007F:9999 01 0\n   2: rubbish\n   3: 00000000:0016 0 0A\n";
        let found: Vec<String> = parse(text, Transport::Tcp)
            .map(|socket| format!("{} {}", socket.address, socket.port))
            .collect();
        assert_eq!(found, ["127.0.0.1 53", "0.0.0.0 22"]);
        let six = "x\n 0: 00000000000000000000000001000000:0043 0 07\n";
        let found: Vec<Listening> = parse(six, Transport::Udp).collect();
        assert_eq!(
            (found[0].address.to_string().as_str(), found[0].port),
            ("::1", 67)
        );
    }

    #[test]
    fn a_socket_of_ours_is_among_those_of_the_machine() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let Fact::Known(found) = listening() else {
            panic!("it can be read")
        };
        assert!(
            found
                .iter()
                .any(|socket| socket.port == port && socket.transport == Transport::Udp)
        );
    }
}
