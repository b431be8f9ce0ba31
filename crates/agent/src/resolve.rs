//! Names to addresses, asked of the name servers in `/etc/resolv.conf`: a static program has no system resolver.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use reqwest::dns::{Addrs, Name as Asked, Resolve, Resolving};
use tokio::net::UdpSocket;

/// Reads its files at every question, for leases come and go.
#[derive(Debug, Clone)]
pub struct Resolver {
    resolv_conf: PathBuf,
    hosts: PathBuf,
    port: u16,
}

const TRIES: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(2);

impl Resolver {
    pub fn system() -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            port: 53,
        }
    }

    /// All addresses of a name, IPv4 first.
    pub async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let hosts = fs::read_to_string(&self.hosts).unwrap_or_default();
        let listed = in_hosts(&hosts, name);
        if !listed.is_empty() {
            return Ok(listed);
        }
        let text = fs::read_to_string(&self.resolv_conf).unwrap_or_default();
        let conf = Conf::parse(&text);
        if conf.servers.is_empty() {
            return Err(io::Error::other(format!(
                "{name} cannot be looked up: no name server is known"
            )));
        }
        let mut last = io::Error::other(format!("no name server knows {name}"));
        for candidate in conf.candidates(name) {
            for _ in 0..TRIES {
                for server in &conf.servers {
                    match ask_both(SocketAddr::new(*server, self.port), &candidate).await {
                        Ok(found) if !found.is_empty() => return Ok(found),
                        Ok(_) => {}
                        Err(error) => last = error,
                    }
                }
                if last.kind() != io::ErrorKind::TimedOut {
                    break;
                }
            }
        }
        Err(last)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Asked) -> Resolving {
        let this = self.clone();
        Box::pin(async move {
            let found = this.look_up(name.as_str()).await?;
            // The client puts the right port in.
            let addresses: Addrs = Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}

async fn ask_both(server: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
    let (v4, v6) = tokio::join!(
        ask(server, name, RecordType::A),
        ask(server, name, RecordType::AAAA)
    );
    match (v4, v6) {
        (Ok(mut v4), Ok(v6)) => {
            v4.extend(v6);
            Ok(v4)
        }
        (Ok(some), Err(_)) | (Err(_), Ok(some)) if !some.is_empty() => Ok(some),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

async fn ask(server: SocketAddr, name: &str, kind: RecordType) -> io::Result<Vec<IpAddr>> {
    let any: IpAddr = if server.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    let id = uuid::Uuid::new_v4().as_u128() as u16;
    let query = question(id, name, kind)?;
    let wait = async {
        socket.send(&query).await?;
        let mut buffer = [0; 4096];
        loop {
            let len = socket.recv(&mut buffer).await?;
            if let Some(answer) = read(&buffer[..len], id)? {
                return Ok(answer);
            }
        }
    };
    tokio::time::timeout(TIMEOUT, wait)
        .await
        .unwrap_or_else(|_| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("name server {} did not answer", server.ip()),
            ))
        })
}

fn question(id: u16, name: &str, kind: RecordType) -> io::Result<Vec<u8>> {
    let name = Name::from_ascii(name).map_err(io::Error::other)?;
    let mut message = Message::query();
    message.metadata.id = id;
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, kind));
    message.to_vec().map_err(io::Error::other)
}

/// The addresses in an answer; nothing if it answers somebody else's question.
fn read(bytes: &[u8], id: u16) -> io::Result<Option<Vec<IpAddr>>> {
    let Ok(message) = Message::from_vec(bytes) else {
        return Ok(None);
    };
    if message.metadata.id != id {
        return Ok(None);
    }
    match message.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        other => return Err(io::Error::other(format!("the name server answers {other}"))),
    }
    let address = |data: &RData| match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(a) => Some(IpAddr::V6(a.0)),
        _ => None,
    };
    Ok(Some(
        message
            .answers
            .iter()
            .filter_map(|record| address(&record.data))
            .collect(),
    ))
}

fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words
                .any(|word| word.eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Conf {
    servers: Vec<IpAddr>,
    search: Vec<String>,
}

impl Conf {
    fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf
                    .servers
                    .extend(words.next().and_then(|ip| ip.parse::<IpAddr>().ok())),
                Some("search" | "domain") => conf.search = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        conf
    }

    /// A name with a dot is tried as it is first.
    fn candidates(&self, name: &str) -> Vec<String> {
        let full = format!("{}.", name.trim_end_matches('.'));
        if name.ends_with('.') {
            return vec![full];
        }
        let searched = self
            .search
            .iter()
            .map(|domain| format!("{full}{}.", domain.trim_end_matches('.')));
        if name.contains('.') {
            std::iter::once(full.clone()).chain(searched).collect()
        } else {
            searched.chain([full.clone()]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_searched_for_first() {
        let conf = Conf::parse("search lab.test\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n");
        assert_eq!(conf.servers.len(), 2);
        assert_eq!(conf.candidates("ironic"), ["ironic.lab.test.", "ironic."]);
        assert_eq!(conf.candidates("a.b"), ["a.b.", "a.b.lab.test."]);
        assert_eq!(conf.candidates("a.b."), ["a.b."]);
    }

    #[test]
    fn the_hosts_file_is_read_first() {
        let text = "127.0.0.1 localhost\n192.0.2.7 ironic.lab.test Ironic # ours\n";
        assert_eq!(
            in_hosts(text, "ironic"),
            ["192.0.2.7".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(in_hosts(text, "ours"), [] as [IpAddr; 0]);
    }

    #[tokio::test]
    async fn a_name_server_is_asked() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (len, from) = server.recv_from(&mut buffer).await.unwrap();
                let asked = Message::from_vec(&buffer[..len]).unwrap();
                let query = asked.queries[0].clone();
                let mut answer = Message::response(asked.metadata.id, asked.metadata.op_code);
                answer.add_query(query.clone());
                if query.query_type() == RecordType::A {
                    let data = RData::A(Ipv4Addr::new(192, 0, 2, 9).into());
                    answer.add_answer(hickory_proto::rr::Record::from_rdata(
                        query.name().clone(),
                        60,
                        data,
                    ));
                }
                server
                    .send_to(&answer.to_vec().unwrap(), from)
                    .await
                    .unwrap();
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let resolv_conf = dir.path().join("resolv.conf");
        fs::write(&resolv_conf, "nameserver 127.0.0.1\n").unwrap();
        let resolver = Resolver {
            resolv_conf,
            hosts: dir.path().join("hosts"),
            port,
        };
        let found = resolver.look_up("ironic.lab.test").await.unwrap();
        assert_eq!(found, ["192.0.2.9".parse::<IpAddr>().unwrap()]);
    }
}
