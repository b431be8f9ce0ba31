//! The task that owns socket and console of one BMC.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use model::Secret;
use protocols::ipmi::console::{self, Action, Answer, Console, Event, Request};
use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::trace;

use super::{Config, Error};

type Reply = oneshot::Sender<Result<Answer, console::Error>>;

#[derive(Debug)]
pub struct Link {
    asks: mpsc::Sender<(Request, Reply)>,
    task: JoinHandle<()>,
    bmc: String,
    limit: Duration,
}

/// Requests that may wait for the task.
const QUEUE: usize = 16;
const RESOLVE: Duration = Duration::from_secs(10);
/// The largest RMCP+ packet is far smaller.
pub(super) const DATAGRAM: usize = 2048;

impl Link {
    pub async fn spawn(config: Config) -> Result<Self, Error> {
        let bmc = config.address.clone();
        let socket = connect(&bmc).await?;
        let limits = config.limits.clone();
        let console = console(config);
        let (asks, inbox) = mpsc::channel(QUEUE);
        let shell = Shell {
            socket,
            console,
            idle: limits.idle,
            asked: BTreeMap::new(),
            last_id: 0,
            open: false,
        };
        let task = tokio::spawn(shell.run(inbox));
        Ok(Self {
            asks,
            task,
            bmc,
            limit: limits.command,
        })
    }

    pub async fn ask(&self, operation: &'static str, request: Request) -> Result<Answer, Error> {
        let (reply, answered) = oneshot::channel();
        let bmc = || self.bmc.clone();
        let asked = async {
            self.asks.send((request, reply)).await.ok()?;
            answered.await.ok()
        };
        match timeout(self.limit, asked).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(source))) => Err(Error::Talk {
                operation,
                bmc: bmc(),
                tries: 1,
                source,
            }),
            Ok(None) => Err(Error::Ended {
                operation,
                bmc: bmc(),
            }),
            Err(_) => Err(Error::Slow {
                operation,
                bmc: bmc(),
                limit: self.limit,
            }),
        }
    }

    pub async fn close(self) {
        drop(self.asks);
        // The task ends by itself once nobody can ask.
        _ = self.task.await;
    }
}

/// A socket that speaks with this BMC alone.
pub(super) async fn connect(bmc: &str) -> Result<UdpSocket, Error> {
    let address = resolve(bmc).await?;
    let local: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let failed = |source| Error::Socket {
        bmc: bmc.to_string(),
        source,
    };
    let socket = UdpSocket::bind(local).await.map_err(failed)?;
    socket.connect(address).await.map_err(failed)?;
    Ok(socket)
}

pub(super) fn console(config: Config) -> Console {
    Console::new(
        console::Config {
            privilege: config.privilege,
            suites: config.suites,
            attempts: config.limits.attempts,
            patience: config.limits.patience,
            ..console::Config::new(config.username, config.password)
        },
        Secret::new(rand::random()),
    )
}

async fn resolve(bmc: &str) -> Result<SocketAddr, Error> {
    let bare_v6 = bmc.parse::<Ipv6Addr>().is_ok();
    let with_port = if bare_v6 {
        format!("[{bmc}]:623")
    } else if bmc
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        bmc.to_string()
    } else {
        format!("{bmc}:623")
    };
    let failed = |source| Error::Resolve {
        bmc: bmc.to_string(),
        source,
    };
    let late = |_| failed(std::io::ErrorKind::TimedOut.into());
    let mut found = timeout(RESOLVE, lookup_host(with_port))
        .await
        .map_err(late)?
        .map_err(failed)?;
    found.next().ok_or_else(|| Error::NoAddress {
        bmc: bmc.to_string(),
    })
}

struct Shell {
    socket: UdpSocket,
    console: Console,
    idle: Duration,
    asked: BTreeMap<u64, Reply>,
    last_id: u64,
    /// A session may be open.
    open: bool,
}

impl Shell {
    async fn run(mut self, mut inbox: mpsc::Receiver<(Request, Reply)>) {
        let mut buffer = vec![0; DATAGRAM];
        let mut heard = Instant::now();
        loop {
            let idle_at = (self.open && self.asked.is_empty()).then(|| heard + self.idle);
            let wake_at = self.console.wake_at().map(Instant::from_std);
            let event = tokio::select! {
                ask = inbox.recv() => match ask {
                    Some((request, reply)) => self.run_event(request, reply),
                    None => break,
                },
                // Errors here are of datagrams sent before (port unreachable): the console sends again.
                read = self.socket.recv(&mut buffer) => match read {
                    Ok(length) => Event::Datagram(buffer[..length].to_vec()),
                    Err(error) => {
                        trace!(%error, "IPMI socket");
                        continue;
                    }
                },
                () = at(wake_at) => Event::Timer,
                () = at(idle_at) => Event::Close,
            };
            self.open = event != Event::Close;
            heard = Instant::now();
            self.feed(event).await;
        }
        self.feed(Event::Close).await;
    }

    fn run_event(&mut self, request: Request, reply: Reply) -> Event {
        self.last_id += 1;
        self.asked.insert(self.last_id, reply);
        Event::Run {
            id: self.last_id,
            request,
        }
    }

    async fn feed(&mut self, event: Event) {
        for action in self.console.handle(Instant::now().into_std(), event) {
            match action {
                Action::Send(bytes) => {
                    if let Err(error) = self.socket.send(&bytes).await {
                        trace!(%error, "IPMI datagram not sent");
                    }
                }
                Action::Answered { id, answer } => self.answer(id, Ok(answer)),
                Action::Failed { id, error } => self.answer(id, Err(error)),
            }
        }
    }

    fn answer(&mut self, id: u64, outcome: Result<Answer, console::Error>) {
        if let Some(reply) = self.asked.remove(&id) {
            // Whoever gave up waiting has gone.
            _ = reply.send(outcome);
        }
    }
}

pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
