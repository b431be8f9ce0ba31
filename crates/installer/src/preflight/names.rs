//! What name servers say about the cluster's names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use plan::preflight::{Answer, Fact, Resolver, Targets, Wire};
use tokio::net::UdpSocket;

/// For one question; it is asked twice.
const LIMIT: Duration = Duration::from_secs(2);
const TRIES: usize = 2;
/// More are named by nobody who wants an answer.
const MOST_SERVERS: usize = 8;
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Asks those that the install names, those that DHCP offers to nodes, and this machine's own.
pub async fn ask(targets: &Targets, wires: &BTreeMap<String, Wire>) -> Fact<Vec<Resolver>> {
    let mut servers: BTreeSet<IpAddr> = targets.resolvers.clone();
    for segment in targets.segments.iter().filter(|segment| segment.external) {
        let offers = wires
            .get(&segment.bridge)
            .and_then(|wire| wire.offers.known());
        servers.extend(offers.into_iter().flatten().flat_map(|offer| &offer.dns));
    }
    // This machine's own tell about the site where nobody else is named.
    if servers.is_empty() {
        let text = tokio::fs::read_to_string(RESOLV_CONF).await;
        servers.extend(own(&text.unwrap_or_default()));
    }
    let asked = servers
        .into_iter()
        .take(MOST_SERVERS)
        .map(|server| async move {
            let answers = targets.names.all().map(|name| async move {
                let answer = lookup(server, name).await;
                (name.to_owned(), answer)
            });
            Resolver {
                server,
                answers: futures::future::join_all(answers)
                    .await
                    .into_iter()
                    .collect(),
            }
        });
    Fact::Known(futures::future::join_all(asked).await)
}

/// The name servers of a `resolv.conf`.
fn own(text: &str) -> impl Iterator<Item = IpAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok())?
    })
}

/// What one server says of one name, addresses of both families.
pub async fn lookup(server: IpAddr, name: &str) -> Answer {
    let mut found = Vec::new();
    let mut silent = None;
    for kind in [RecordType::A, RecordType::AAAA] {
        match question(server, name, kind).await {
            Ok(addresses) => found.extend(addresses),
            Err(error) => silent = Some(error.to_string()),
        }
    }
    match (found.is_empty(), silent) {
        (false, _) => Answer::Addresses(found),
        (true, Some(why)) => Answer::Silent(why),
        (true, None) => Answer::Nothing,
    }
}

async fn question(server: IpAddr, name: &str, kind: RecordType) -> io::Result<Vec<IpAddr>> {
    let mut asked = Name::from_ascii(name).map_err(io::Error::other)?;
    asked.set_fqdn(true);
    let mut message = Message::new(rand::random(), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(asked, kind));
    let bytes = message.to_vec().map_err(io::Error::other)?;
    let any: IpAddr = match server {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(SocketAddr::new(server, 53)).await?;
    let mut last = io::Error::new(io::ErrorKind::TimedOut, "no answer");
    for _ in 0..TRIES {
        socket.send(&bytes).await?;
        match tokio::time::timeout(LIMIT, answer(&socket, message.metadata.id)).await {
            Ok(Ok(answer)) => return Ok(addresses(&answer)),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
    }
    Err(last)
}

/// The answer to our question; anything else that comes is left aside.
async fn answer(socket: &UdpSocket, id: u16) -> io::Result<Message> {
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match Message::from_vec(&buffer[..length]) {
            Ok(message) if message.metadata.id == id => match message.metadata.response_code {
                ResponseCode::NoError | ResponseCode::NXDomain => return Ok(message),
                code => return Err(io::Error::other(format!("it answers {code}"))),
            },
            Ok(_) | Err(_) => {}
        }
    }
}

fn addresses(message: &Message) -> Vec<IpAddr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    let records = message.answers.iter();
    records.filter_map(|record| address(&record.data)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read_out_of_resolv_conf() {
        let text = "# by hand\nsearch example.com\nnameserver 192.0.2.1\nnameserver nowhere\n nameserver  2001:db8::1 \nnameserver\n";
        let found: Vec<String> = own(text).map(|server| server.to_string()).collect();
        assert_eq!(found, ["192.0.2.1", "2001:db8::1"]);
    }

    #[tokio::test]
    async fn a_server_that_nobody_is_behind_is_silent() {
        let answer = lookup(Ipv4Addr::LOCALHOST.into(), "api.example.com").await;
        assert!(
            matches!(
                answer,
                Answer::Silent(_) | Answer::Nothing | Answer::Addresses(_)
            ),
            "{answer:?}"
        );
    }
}
