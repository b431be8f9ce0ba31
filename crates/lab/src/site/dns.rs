//! The site's DNS on real sockets: UDP and TCP on the router's address.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocols::dns::{Action, Asker, Event, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info};

use super::book::Book;
use super::{DnsConfig, Error};

const PORT: u16 = 53;
const SEND_WITHIN: Duration = Duration::from_millis(100);
/// A connection that says nothing this long is closed (RFC 7766, 6.2.3).
const IDLE: Duration = Duration::from_secs(10);
/// An answer by TCP may wait for upstreams.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const UPSTREAM_WITHIN: Duration = Duration::from_secs(2);
const MAX_CONNECTIONS: usize = 64;
const MAX_TO_UPSTREAM: usize = 64;
const ERROR_PAUSE: Duration = Duration::from_millis(250);

/// The resolver's sockets.
pub struct Shell {
    udp: UdpSocket,
    tcp: TcpListener,
    /// Questions to upstreams leave from here.
    upstream: UdpSocket,
    book: Book,
}

/// A question that came by TCP, and where its answer goes.
type Question = (Vec<u8>, oneshot::Sender<Vec<u8>>);

impl Shell {
    pub async fn bind(config: &DnsConfig, book: Book) -> Result<Self, Error> {
        let address = SocketAddr::from((config.address, PORT));
        let failed = |what: &'static str| {
            move |source| Error::Listen {
                what: format!("{address} ({what})"),
                source,
            }
        };
        let udp = UdpSocket::bind(address).await.map_err(failed("UDP"))?;
        let tcp = TcpListener::bind(address).await.map_err(failed("TCP"))?;
        let upstream = UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0)))
            .await
            .map_err(failed("questions to upstreams"))?;
        info!(%address, domain = config.domain, "the site's DNS listens");
        Ok(Self {
            udp,
            tcp,
            upstream,
            book,
        })
    }

    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let Self {
            udp,
            tcp,
            upstream,
            book,
        } = self;
        let (ask, mut asked) = mpsc::channel::<Question>(MAX_CONNECTIONS);
        let (tell, mut told) = mpsc::channel::<(SocketAddr, Vec<u8>)>(MAX_TO_UPSTREAM);
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut tasks = JoinSet::new();
        let mut waiting: BTreeMap<u64, oneshot::Sender<Vec<u8>>> = BTreeMap::new();
        let mut number = 0;
        let mut wake = None;
        let (mut question, mut answer) = (vec![0; 4096], vec![0; 4096]);
        loop {
            let bytes;
            let event = tokio::select! {
                _ = stop.changed() => break,
                received = udp.recv_from(&mut question) => match received {
                    Ok((length, from)) => Event::Query { from: Asker::Udp(from), bytes: &question[..length] },
                    Err(error) => { pause(&error).await; continue }
                },
                received = upstream.recv_from(&mut answer) => match received {
                    Ok((length, from)) => Event::UpstreamAnswer { from, bytes: &answer[..length] },
                    // Some upstream's port is closed: its question times out.
                    Err(error) => { pause(&error).await; continue }
                },
                accepted = tcp.accept() => {
                    match accepted {
                        Ok((stream, _)) => if let Ok(permit) = Arc::clone(&connections).try_acquire_owned() {
                            let ask = ask.clone();
                            tasks.spawn(async move {
                                if let Err(error) = converse(stream, ask).await {
                                    debug!(%error, "a DNS connection ended");
                                }
                                drop(permit);
                            });
                        },
                        Err(error) => pause(&error).await,
                    }
                    continue;
                }
                Some((query, reply)) = asked.recv() => {
                    waiting.retain(|_, reply| !reply.is_closed());
                    number += 1;
                    waiting.insert(number, reply);
                    bytes = query;
                    Event::Query { from: Asker::Tcp(number), bytes: &bytes }
                }
                Some((from, reply)) = told.recv() => {
                    bytes = reply;
                    Event::UpstreamAnswer { from, bytes: &bytes }
                }
                () = sleep_until(wake.unwrap_or_else(|| Instant::now() + IDLE)) => Event::Timer,
                Some(_) = tasks.join_next() => continue,
            };
            let (actions, next) = book.resolve(event);
            wake = next.map(Instant::from_std);
            for action in actions {
                match action {
                    Action::Answer {
                        to: Asker::Udp(to),
                        bytes,
                    } => send(&udp, &bytes, to).await,
                    Action::Answer {
                        to: Asker::Tcp(number),
                        bytes,
                    } => {
                        if let Some(reply) = waiting.remove(&number) {
                            let _ = reply.send(bytes);
                        }
                    }
                    Action::AskUpstream {
                        upstream: to,
                        transport: Transport::Udp,
                        bytes,
                    } => send(&upstream, &bytes, to).await,
                    Action::AskUpstream {
                        upstream: to,
                        transport: Transport::Tcp,
                        bytes,
                    } => {
                        let tell = tell.clone();
                        tasks.spawn(async move {
                            if let Ok(Ok(reply)) =
                                timeout(UPSTREAM_WITHIN, exchange(to, &bytes)).await
                            {
                                let _ = tell.try_send((to, reply));
                            }
                        });
                    }
                }
            }
        }
        tasks.shutdown().await;
    }
}

async fn pause(error: &io::Error) {
    debug!(%error, "a DNS socket failed");
    sleep(ERROR_PAUSE).await;
}

async fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) {
    match timeout(SEND_WITHIN, socket.send_to(bytes, to)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => debug!(%to, %error, "a DNS packet was not sent"),
        Err(_) => debug!(%to, "a DNS packet was not sent: the queue is full"),
    }
}

/// Questions and answers on one connection, in turn.
async fn converse(mut stream: TcpStream, ask: mpsc::Sender<Question>) -> io::Result<()> {
    loop {
        let query = match timeout(IDLE, read(&mut stream)).await {
            Ok(Ok(query)) => query,
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Ok(()),
        };
        let (reply, answer) = oneshot::channel();
        if ask.send((query, reply)).await.is_err() {
            return Ok(());
        }
        let Ok(Ok(answer)) = timeout(ANSWER_WITHIN, answer).await else {
            return Ok(());
        };
        timeout(IDLE, write(&mut stream, &answer)).await??;
    }
}

async fn exchange(to: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(to).await?;
    write(&mut stream, query).await?;
    read(&mut stream).await
}

/// A message after its length (RFC 1035, 4.2.2); at most 64 KiB.
async fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length =
        u16::try_from(bytes.len()).map_err(|_| io::Error::other("an answer above 64 KiB"))?;
    stream
        .write_all(&[&length.to_be_bytes()[..], bytes].concat())
        .await
}
