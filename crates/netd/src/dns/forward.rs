//! The forwarder's sockets: one per question sent, so that every question has a port of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocols::dns::Transport;
use protocols::dns::forward::{Action, AskId, Asker, Config, Event, Forwarder, Report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep_until, timeout};

use super::UpstreamStatus;
use super::desk::{Ask, Desk};
use crate::config::dns::Dns;

/// One client's share of the questions under way.
const SHARE: usize = 4;
const HEARD: usize = 1024;
/// The machine gives up sooner; this is for sockets it forgot.
const LISTEN_FOR: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const MAX_ANSWER: usize = 4096;
const WARN_EVERY: Duration = Duration::from_secs(10);
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What the task shows of itself.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub upstreams: Vec<UpstreamStatus>,
    pub pending: usize,
    pub counts: BTreeMap<&'static str, u64>,
}

pub fn config(config: &Dns) -> Config {
    Config {
        own: config.listen.clone(),
        max_pending: config.max_pending,
        max_pending_per_client: (config.max_pending / SHARE).max(1),
        mixed_case: config.mixed_case,
    }
}

/// From the network.
enum Heard {
    Answer(AskId, SocketAddr, Vec<u8>),
    Failed(AskId),
    /// Nothing could be sent: we are out of descriptors.
    NoSocket(AskId),
}

struct Shell {
    desk: Arc<Desk>,
    forwarder: Forwarder,
    sockets: Vec<std::net::UdpSocket>,
    open: BTreeMap<AskId, AbortHandle>,
    tasks: JoinSet<()>,
    heard: mpsc::Sender<Heard>,
    warned: Option<Instant>,
}

pub async fn run(
    desk: Arc<Desk>,
    config: Config,
    sockets: Vec<std::net::UdpSocket>,
    mut questions: mpsc::Receiver<Ask>,
    mut upstreams: watch::Receiver<Vec<SocketAddr>>,
    status: watch::Sender<Seen>,
) {
    let (heard, mut answers) = mpsc::channel(HEARD);
    let mut shell = Shell {
        desk,
        forwarder: Forwarder::new(config, rand::random()),
        sockets,
        open: BTreeMap::new(),
        tasks: JoinSet::new(),
        heard,
        warned: None,
    };
    let first = upstreams.borrow_and_update().clone();
    let mut watching = true;
    shell.feed(Event::Upstreams(first));
    status.send_replace(shell.seen());
    let mut tell = tokio::time::interval(TELL_EVERY);
    tell.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let wake = shell.forwarder.wake_at();
        let wake = wake.unwrap_or_else(|| Instant::now() + LISTEN_FOR);
        tokio::select! {
            ask = questions.recv() => match ask {
                Some(ask) => shell.question(&ask),
                None => return,
            },
            Some(heard) = answers.recv() => match heard {
                Heard::Answer(ask, from, bytes) => shell.feed(Event::Answer { ask, from, bytes: &bytes }),
                Heard::Failed(ask) => shell.feed(Event::Failed { ask }),
                Heard::NoSocket(ask) => {
                    shell.warn_of_descriptors();
                    shell.feed(Event::Failed { ask });
                }
            },
            changed = upstreams.changed(), if watching => {
                watching = changed.is_ok();
                let list = upstreams.borrow_and_update().clone();
                tracing::info!(upstreams = ?list, "DNS upstreams");
                shell.feed(Event::Upstreams(list));
                status.send_replace(shell.seen());
            }
            () = sleep_until(wake.into()) => shell.feed(Event::Timer),
            Some(_) = shell.tasks.join_next() => {}
            _ = tell.tick() => {
                status.send_replace(shell.seen());
            }
        }
    }
}

impl Shell {
    fn question(&mut self, ask: &Ask) {
        if self.forwarder.upstreams().is_empty()
            && let Some(bytes) = self.desk.alone(&ask.bytes, ask.from.transport())
        {
            return self.answer(ask.from, bytes);
        }
        self.feed(Event::Query {
            from: ask.from,
            bytes: &ask.bytes,
            stale: ask.stale,
        });
    }

    fn feed(&mut self, event: Event<'_>) {
        let now = Instant::now();
        for action in self.forwarder.handle(now, event) {
            match action {
                Action::Answer { to, bytes } => self.answer(to, bytes),
                Action::Stale { to, query } => {
                    if let Some(bytes) = self.desk.stale(now, &query, to.transport()) {
                        self.answer(to, bytes);
                    }
                }
                Action::Ask {
                    ask,
                    upstream,
                    transport,
                    bytes,
                } => {
                    let heard = self.heard.clone();
                    let task = async move {
                        let told = heard.clone();
                        let outcome = match transport {
                            Transport::Udp => by_udp(ask, upstream, &bytes, heard).await,
                            Transport::Tcp => by_tcp(ask, upstream, &bytes, heard).await,
                        };
                        if let Err(error) = outcome {
                            tracing::debug!(%upstream, %error, "DNS upstream");
                            let failed = match error.raw_os_error() {
                                Some(EMFILE | ENFILE) => Heard::NoSocket(ask),
                                _ => Heard::Failed(ask),
                            };
                            let _ = told.send(failed).await;
                        }
                    };
                    self.open.insert(ask, self.tasks.spawn(task));
                }
                Action::Forget { ask } => {
                    if let Some(task) = self.open.remove(&ask) {
                        task.abort();
                    }
                }
                Action::Keep { query, stored } => self.desk.remember(now, &query, stored),
                Action::Report(report) => tell(&report),
            }
        }
    }

    fn warn_of_descriptors(&mut self) {
        let now = Instant::now();
        if self.warned.is_none_or(|last| now > last + WARN_EVERY) {
            self.warned = Some(now);
            tracing::warn!("out of file descriptors: questions to DNS upstreams fail");
        }
    }

    fn answer(&self, to: Asker, bytes: Vec<u8>) {
        match to {
            Asker::Udp { socket, from } => {
                if let Some(socket) = self.sockets.get(socket) {
                    // Lost is lost: a client asks again.
                    let _ = socket.send_to(&bytes, from);
                }
            }
            Asker::Tcp { connection, .. } => self.desk.connections.deliver(connection, bytes),
        }
    }

    fn seen(&self) -> Seen {
        let now = Instant::now();
        let counts = self.forwarder.counts();
        let mut shown = BTreeMap::from([
            ("upstream_asked", counts.asked),
            ("upstream_answered", counts.answered),
            ("upstream_joined", counts.joined),
            ("upstream_failed", counts.failed),
            ("upstream_tcp", counts.tcp),
            ("upstream_full", counts.refused_full),
        ]);
        for (why, count) in &counts.dropped {
            let name = match *why {
                "wrong_id" => "dropped_wrong_id",
                "wrong_question" => "dropped_wrong_question",
                "wrong_source" => "dropped_wrong_source",
                "late" => "dropped_late",
                _ => "dropped_malformed",
            };
            *shown.entry(name).or_default() += count;
        }
        Seen {
            upstreams: self
                .forwarder
                .upstreams()
                .iter()
                .map(|upstream| UpstreamStatus {
                    address: upstream.address,
                    state: match (upstream.is_looped(now), upstream.is_up()) {
                        (true, _) => "loop",
                        (false, true) => "up",
                        (false, false) => "down",
                    },
                    answers: upstream.answers,
                    failures: upstream.timeouts,
                })
                .collect(),
            pending: self.forwarder.pending(),
            counts: shown,
        }
    }
}

/// Bound to a port the kernel picks at random, and connected: the kernel drops what others send.
async fn by_udp(
    ask: AskId,
    upstream: SocketAddr,
    bytes: &[u8],
    heard: mpsc::Sender<Heard>,
) -> io::Result<()> {
    let any = match upstream.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(upstream).await?;
    socket.send(bytes).await?;
    let listen = async {
        let mut buffer = vec![0; MAX_ANSWER];
        loop {
            let len = socket.recv(&mut buffer).await?;
            let answer = Heard::Answer(ask, upstream, buffer[..len].to_vec());
            if heard.send(answer).await.is_err() {
                return Ok(());
            }
        }
    };
    timeout(LISTEN_FOR, listen).await.unwrap_or(Ok(()))
}

async fn by_tcp(
    ask: AskId,
    upstream: SocketAddr,
    bytes: &[u8],
    heard: mpsc::Sender<Heard>,
) -> io::Result<()> {
    let talk = async {
        let mut stream = TcpStream::connect(upstream).await?;
        let mut framed = (bytes.len() as u16).to_be_bytes().to_vec();
        framed.extend_from_slice(bytes);
        stream.write_all(&framed).await?;
        let len = stream.read_u16().await?;
        let mut answer = vec![0; usize::from(len)];
        stream.read_exact(&mut answer).await?;
        let _ = heard.send(Heard::Answer(ask, upstream, answer)).await;
        Ok(())
    };
    let late = || Err(io::ErrorKind::TimedOut.into());
    timeout(CONNECT_WITHIN, talk)
        .await
        .unwrap_or_else(|_| late())
}

fn tell(report: &Report) {
    match report {
        Report::Down(upstream) => tracing::warn!(%upstream, "DNS upstream does not answer"),
        Report::Up(upstream) => tracing::info!(%upstream, "DNS upstream answers again"),
        Report::Own(upstream) => {
            tracing::warn!(%upstream, "DNS upstream is this server: left out");
        }
        Report::Loop(upstream) => {
            tracing::warn!(%upstream, "DNS upstream sends our questions back to us: left out");
        }
    }
}
