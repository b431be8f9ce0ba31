//! DNS servers on the rack's hosts, and someone to ask them.
#![allow(dead_code, reason = "each tier uses its own part")]

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use linux::netns::Host;
use netd::config::dns::{self as config, Dns};
use netd::dns::{self, Feed, Handle, Vips};
use netd::members::{Member, Members, Source};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;

/// A DNS server on a host.
pub struct Server {
    pub host: Arc<Host>,
    pub handle: Option<Handle>,
    pub vips: watch::Sender<Vips>,
    pub members: watch::Sender<Members>,
}

pub fn parse(text: &str) -> Dns {
    let written: config::Written = serde_saphyr::from_str(text).unwrap();
    let mut problems = Vec::new();
    config::resolve(&written, &[], &[], "dns", &mut problems)
        .unwrap_or_else(|| panic!("{problems:?}"))
}

pub fn member(name: &str, addresses: &[&str], control_plane: bool) -> (String, Member) {
    let member = Member {
        name: name.into(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        source: Source::Static,
        seen: Instant::now(),
        control_plane,
    };
    (name.into(), member)
}

impl Server {
    pub fn start(host: &Arc<Host>, text: &str) -> Self {
        let config = parse(text);
        let (vips, vips_seen) = watch::channel(Vips::default());
        let (members, members_seen) = watch::channel(Members::new());
        let feed = Feed {
            vips: vips_seen,
            members: members_seen,
        };
        let handle = host.run(move || async move { dns::start(&config, feed).unwrap() });
        Self {
            host: Arc::clone(host),
            handle: Some(handle),
            vips,
            members,
        }
    }

    pub fn status(&self) -> dns::Status {
        self.handle.as_ref().unwrap().status()
    }

    pub fn stop(&mut self) {
        let handle = self.handle.take().unwrap();
        self.host
            .run(move || async move { handle.stop().await.unwrap() });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.handle.is_some() {
            self.stop();
        }
    }
}

pub fn query(name: &str, kind: RecordType, id: u16) -> Message {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

/// Asks once by UDP; `None` if nothing comes.
pub fn ask(host: &Host, server: &str, name: &str, kind: RecordType) -> Option<Message> {
    let server: SocketAddr = SocketAddr::new(server.parse().unwrap(), 53);
    let bytes = query(name, kind, 99).to_vec().unwrap();
    host.run(move || async move {
        let any = match server.ip() {
            IpAddr::V4(_) => "0.0.0.0:0",
            IpAddr::V6(_) => "[::]:0",
        };
        let socket = UdpSocket::bind(any).await.unwrap();
        socket.connect(server).await.unwrap();
        socket.send(&bytes).await.unwrap();
        let mut buffer = [0; 4096];
        let heard = tokio::time::timeout(Duration::from_secs(6), socket.recv(&mut buffer)).await;
        let len = heard.ok()?.ok()?;
        Some(Message::from_vec(&buffer[..len]).unwrap())
    })
}

/// The data of the answers, or the code if there are none.
pub fn answer(host: &Host, server: &str, name: &str, kind: RecordType) -> String {
    match ask(host, server, name, kind) {
        None => "silence".into(),
        Some(message) if message.answers.is_empty() => {
            format!("{:?}", message.metadata.response_code)
        }
        Some(message) => {
            let mut data: Vec<String> = message
                .answers
                .iter()
                .map(|record| record.data.to_string())
                .collect();
            data.sort();
            data.join(" ")
        }
    }
}

/// All questions at once on one connection; answers in the order they come.
pub fn ask_tcp(host: &Host, server: &str, queries: Vec<Message>) -> Vec<Message> {
    let server: SocketAddr = SocketAddr::new(server.parse().unwrap(), 53);
    host.run(move || async move {
        let mut stream = TcpStream::connect(server).await.unwrap();
        let mut bytes = Vec::new();
        for query in &queries {
            let query = query.to_vec().unwrap();
            bytes.extend((query.len() as u16).to_be_bytes());
            bytes.extend(query);
        }
        stream.write_all(&bytes).await.unwrap();
        let mut answers = Vec::new();
        for _ in &queries {
            let len = stream.read_u16().await.unwrap();
            let mut answer = vec![0; len.into()];
            stream.read_exact(&mut answer).await.unwrap();
            answers.push(Message::from_vec(&answer).unwrap());
        }
        answers
    })
}

/// How an upstream behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Every name has the address 203.0.113.N.
    Honest(u8),
    Silent,
    /// Sends three lies before the truth: another id, another name, and garbage.
    Liar(u8),
    /// By UDP cut, by TCP whole.
    Cut(u8),
}

/// An upstream on a host; its manner can change.
pub struct Upstream {
    pub manner: Arc<Mutex<Manner>>,
    pub asked: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Upstream {
    pub fn start(host: &Host, address: &str, manner: Manner) -> Self {
        let upstream = Self {
            manner: Arc::new(Mutex::new(manner)),
            asked: Arc::default(),
        };
        let address: SocketAddr = SocketAddr::new(address.parse().unwrap(), 53);
        let (manner, asked) = (Arc::clone(&upstream.manner), Arc::clone(&upstream.asked));
        host.run(move || async move {
            let socket = UdpSocket::bind(address).await.unwrap();
            let listener = tokio::net::TcpListener::bind(address).await.unwrap();
            let by_tcp = Arc::clone(&manner);
            tokio::task::spawn_local(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let len = stream.read_u16().await.unwrap();
                    let mut query = vec![0; len.into()];
                    stream.read_exact(&mut query).await.unwrap();
                    let Manner::Cut(n) = *by_tcp.lock().unwrap() else {
                        continue;
                    };
                    let reply = reply(&query, n, 60).to_vec().unwrap();
                    stream.write_u16(reply.len() as u16).await.unwrap();
                    stream.write_all(&reply).await.unwrap();
                }
            });
            tokio::task::spawn_local(async move {
                let mut buffer = [0; 4096];
                loop {
                    let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
                    let bytes = &buffer[..len];
                    asked.lock().unwrap().push(from);
                    let now = *manner.lock().unwrap();
                    let truth = |n| reply(bytes, n, 2).to_vec().unwrap();
                    let packets = match now {
                        Manner::Honest(n) => vec![truth(n)],
                        Manner::Silent => vec![],
                        Manner::Liar(n) => {
                            let (mut id, mut name) = (truth(66), truth(66));
                            id[0] ^= 0x55;
                            name[13] ^= 0x01;
                            vec![id, name, vec![0; 40], truth(n)]
                        }
                        Manner::Cut(_) => {
                            let mut cut = reply(bytes, 66, 60);
                            cut.answers.clear();
                            cut.metadata.truncation = true;
                            vec![cut.to_vec().unwrap()]
                        }
                    };
                    for packet in packets {
                        socket.send_to(&packet, from).await.unwrap();
                    }
                }
            });
        });
        upstream
    }

    pub fn set(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }
}

fn reply(query: &[u8], n: u8, ttl: u32) -> Message {
    let asked = Message::from_vec(query).unwrap();
    let mut message = Message::response(asked.metadata.id, OpCode::Query);
    message.queries = asked.queries;
    let owner = message.queries[0].name().clone();
    if message.queries[0].query_type() == RecordType::A {
        let data = RData::A(A([203, 0, 113, n].into()));
        message.add_answer(Record::from_rdata(owner, ttl, data));
    }
    message
}
