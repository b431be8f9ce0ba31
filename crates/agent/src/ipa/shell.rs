//! The task that owns a server's life with Ironic: carries calls, time and commands to the machine in `life`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::Mac;
use serde_json::Value;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};
use uuid::Uuid;

use super::certificate::{self, Identity};
use super::command::{Commands, Outcome};
use super::image::Sources;
use super::ironic::{Found, Heartbeat, Ironic};
use super::life::{Action, Assignment, Config, Event, Failed, Life, Node};
use super::machine::{Machine, Progress};
use super::report;
use super::server::{self, Api, Order};
use super::token::Gate;
use super::work::{Command, End, Work};
use crate::http::{self, Way};
use crate::parameters::Parameters;
use crate::resolve::Resolver;

/// One server's agent.
pub struct Settings {
    /// For logs and the certificate: the server's name, if it has one.
    pub name: String,
    pub parameters: Parameters,
    pub way: Way,
    /// A certificate made beforehand; its own otherwise.
    pub identity: Option<Identity>,
    /// Whether the clock is set to Ironic's before certificates are looked at.
    pub set_clock: bool,
    pub seed: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no ipa-api-url and no ipa-inspection-callback-url on the kernel line: nobody to work for"
    )]
    Nobody,
    #[error(transparent)]
    Http(#[from] http::Error),
    #[error("read the server's hardware: {0}")]
    Inventory(String),
    #[error("find the address to be called back at")]
    Address(#[source] io::Error),
    #[error("make the agent's certificate")]
    Certificate(#[from] certificate::Error),
    #[error("listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
}

/// Works for Ironic until it is told to end.
pub async fn run(settings: Settings, machine: Arc<dyn Machine>) -> Result<End, Error> {
    let mut shell = Shell::new(settings, machine).await?;
    let actions = shell.life.handle(Instant::now(), Event::Start);
    shell.act(actions).await?;
    loop {
        let event = tokio::select! {
            Some(event) = shell.events.recv() => event,
            Some(order) = shell.orders.recv() => match shell.order(order) {
                Some(event) => event,
                None => continue,
            },
            Some(done) = shell.work_done.recv() => match shell.done(done) {
                After::Tell => Event::Finished,
                After::Nothing => continue,
                After::End(end) => {
                    // The answer to the last call is still on its way out.
                    tokio::time::sleep(FAREWELL).await;
                    return Ok(end);
                }
            },
            () = until(shell.life.wake_at()) => Event::Timer,
            // Finished calls have sent their event already.
            Some(_) = shell.tasks.join_next() => continue,
        };
        let actions = shell.life.handle(Instant::now(), event);
        shell.act(actions).await?;
    }
}

const FAREWELL: Duration = Duration::from_millis(500);
/// A clock closer than this needs no setting.
const CLOCK: Duration = Duration::from_secs(30);

struct Shell {
    settings: Settings,
    machine: Arc<dyn Machine>,
    life: Life,
    ironic: Ironic,
    macs: Vec<Mac>,
    work: Arc<Work>,
    commands: Arc<Commands>,
    serving: Option<Serving>,
    clock_is_set: bool,
    tasks: JoinSet<()>,
    event: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    order: mpsc::Sender<Order>,
    orders: mpsc::Receiver<Order>,
    work_end: mpsc::Sender<Done>,
    work_done: mpsc::Receiver<Done>,
}

struct Serving {
    assignment: Assignment,
    callback_url: String,
    certificate: String,
    server: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.work.stop();
    }
}

/// A command that came to its end.
struct Done {
    id: Uuid,
    command: Command,
    outcome: Outcome,
}

enum After {
    Tell,
    Nothing,
    End(End),
}

impl Shell {
    async fn new(settings: Settings, machine: Arc<dyn Machine>) -> Result<Self, Error> {
        let parameters = &settings.parameters;
        if parameters.api.is_empty() && parameters.inspection_callback.is_none() {
            return Err(Error::Nobody);
        }
        for url in parameters.api.iter().chain(&parameters.inspection_callback) {
            settings.way.check(url)?;
        }
        let client = settings.way.client()?;
        let life = Life::new(Config {
            apis: parameters.api.len(),
            inspect: parameters.inspection_callback.is_some(),
            token: parameters.token.clone(),
            lookup_interval: parameters.lookup_interval,
            lookup_timeout: parameters.lookup_timeout,
            seed: settings.seed,
        });
        let ironic = Ironic {
            client: client.clone(),
            timeout: parameters.http_timeout,
            request_id: parameters.global_request_id.clone(),
        };
        let sources = Sources {
            way: settings.way.clone(),
            client,
            patience: parameters.download,
            md5: false,
        };
        let work = Work::new(
            machine.clone(),
            sources,
            parameters.ignore_bootloader_failure,
        );
        let reader = machine.clone();
        let inventory = tokio::task::spawn_blocking(move || reader.inventory()).await;
        let inventory = inventory
            .map_err(|error| Error::Inventory(error.to_string()))?
            .map_err(|failure| Error::Inventory(failure.details))?;
        let (event, events) = mpsc::channel(8);
        let (order, orders) = mpsc::channel(8);
        let (work_end, work_done) = mpsc::channel(8);
        Ok(Self {
            macs: inventory
                .interfaces
                .iter()
                .map(|nic| nic.mac_address)
                .collect(),
            settings,
            machine,
            life,
            ironic,
            work: Arc::new(work),
            commands: Arc::default(),
            serving: None,
            clock_is_set: false,
            tasks: JoinSet::new(),
            event,
            events,
            order,
            orders,
            work_end,
            work_done,
        })
    }

    async fn act(&mut self, actions: Vec<Action>) -> Result<(), Error> {
        for action in actions {
            match action {
                Action::Say(text) => {
                    let server = &self.settings.name;
                    warn!(server, "{text}");
                }
                Action::Inspect => {
                    self.set_clock().await;
                    self.inspect();
                }
                Action::Lookup { api, node } => {
                    self.set_clock().await;
                    self.look_up(api, node);
                }
                Action::Serve(assignment) => self.serve(assignment).await?,
                Action::Stop => self.stop().await,
                Action::Beat { api, node } => self.beat(api, node),
            }
        }
        Ok(())
    }

    /// The date comes from whoever answers, before certificates can be checked against it.
    async fn set_clock(&mut self) {
        if self.clock_is_set || !self.settings.set_clock {
            return;
        }
        let anyone = Way {
            insecure: true,
            ..self.settings.way.clone()
        };
        let Ok(client) = anyone.client() else {
            return;
        };
        let ironic = Ironic {
            client,
            ..self.ironic.clone()
        };
        let parameters = &self.settings.parameters;
        for url in parameters.api.iter().chain(&parameters.inspection_callback) {
            let Some(theirs) = ironic.time(url).await else {
                continue;
            };
            let ours = SystemTime::now();
            let apart = match theirs.duration_since(ours) {
                Ok(ahead) => ahead,
                Err(behind) => behind.duration(),
            };
            if apart > CLOCK {
                info!(
                    server = self.settings.name,
                    seconds = apart.as_secs(),
                    "clock set to Ironic's"
                );
                self.machine.set_clock(theirs);
            }
            self.clock_is_set = true;
            return;
        }
    }

    fn inspect(&mut self) {
        let Some(url) = self.settings.parameters.inspection_callback.clone() else {
            return;
        };
        let (machine, parameters) = (self.machine.clone(), self.settings.parameters.clone());
        let (ironic, event) = (self.ironic.clone(), self.event.clone());
        let server = self.settings.name.clone();
        self.tasks.spawn(async move {
            let collect = move || report::collect(&*machine, &parameters);
            let answer = match tokio::task::spawn_blocking(collect).await {
                Ok(report) => ironic.inspect(&url, &report).await,
                Err(error) => Err(Failed::Refused(format!("this is a bug: {error}"))),
            };
            if let Ok(node) = &answer {
                info!(
                    server,
                    node = node.as_deref().unwrap_or("?"),
                    "inspection data sent"
                );
            }
            let _ = event.send(Event::Inspected(answer)).await;
        });
    }

    fn look_up(&mut self, api: usize, node: Option<String>) {
        let url = self.settings.parameters.api[api].clone();
        let (ironic, event, macs) = (self.ironic.clone(), self.event.clone(), self.macs.clone());
        let work = self.work.clone();
        self.tasks.spawn(async move {
            let found = ironic.lookup(&url, &macs, node.as_deref()).await;
            let answer = found.map(|found: Found| -> Node {
                work.learn(found.document, &found.config);
                found.node
            });
            let _ = event.send(Event::LookedUp(answer)).await;
        });
    }

    async fn serve(&mut self, assignment: Assignment) -> Result<(), Error> {
        self.stop().await;
        let parameters = &self.settings.parameters;
        let host = match &parameters.advertise_host {
            Some(host) => host.clone(),
            None => self.own_address().await?.to_string(),
        };
        let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        let host = ip.map_or(host, bracketed);
        let any = match ip {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            Some(IpAddr::V4(_)) | None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let listen = parameters
            .listen_host
            .or(self.settings.way.source)
            .unwrap_or(any);
        let address = SocketAddr::new(listen, parameters.listen_port);
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let port = match parameters.advertise_port {
            Some(port) => port,
            None => listener.local_addr().map_err(failed)?.port(),
        };
        let identity = if let Some(given) = &self.settings.identity {
            given.clone()
        } else {
            let addresses: Vec<_> = ip.into_iter().collect();
            Identity::new(&self.settings.name, &addresses)?
        };
        let api = Arc::new(Api {
            gate: Gate::new(assignment.token.clone()),
            commands: self.commands.clone(),
            orders: self.order.clone(),
            started: SystemTime::now(),
        });
        let acceptor = TlsAcceptor::from(identity.tls);
        let callback_url = format!("https://{host}:{port}");
        info!(
            server = self.settings.name,
            node = assignment.node,
            url = callback_url,
            "working for Ironic"
        );
        self.serving = Some(Serving {
            assignment,
            callback_url,
            certificate: identity.pem,
            server: tokio::spawn(server::run(listener, acceptor, api)),
        });
        Ok(())
    }

    /// Returns when the port is free again.
    async fn stop(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            serving.server.abort();
            let _ = (&mut serving.server).await;
        }
    }

    /// The address from which the kernel speaks to Ironic is where Ironic can speak to us.
    async fn own_address(&self) -> Result<IpAddr, Error> {
        if let Some(source) = self.settings.way.source {
            return Ok(source);
        }
        let mut last = io::Error::other("no API URL");
        for api in &self.settings.parameters.api {
            match source_for(api, self.settings.way.own_resolver).await {
                Ok(ip) => return Ok(ip),
                Err(error) => last = error,
            }
        }
        Err(Error::Address(last))
    }

    fn beat(&mut self, api: usize, node: String) {
        let Some(serving) = &self.serving else {
            return;
        };
        let url = self.settings.parameters.api[api].clone();
        let (ironic, event) = (self.ironic.clone(), self.event.clone());
        let token = serving.assignment.token.clone();
        let callback_url = serving.callback_url.clone();
        let certificate = serving.certificate.clone();
        self.tasks.spawn(async move {
            let beat = Heartbeat {
                callback_url: &callback_url,
                token: token.as_ref(),
                certificate: Some(&certificate),
            };
            let answer = ironic.heartbeat(&url, &node, &beat).await;
            let _ = event.send(Event::Beaten(answer)).await;
        });
    }

    fn order(&mut self, order: Order) -> Option<Event> {
        match order {
            Order::Heard => Some(Event::Heard),
            Order::Run {
                id,
                command,
                params,
            } => {
                self.start(id, command, params);
                None
            }
        }
    }

    fn start(&mut self, id: Uuid, command: Command, params: Value) {
        let (work, commands, end) = (
            self.work.clone(),
            self.commands.clone(),
            self.work_end.clone(),
        );
        let show = Arc::new(move |progress: Progress| commands.progress(id, progress));
        self.tasks.spawn(async move {
            let outcome = work.run(command, params, show).await;
            let _ = end
                .send(Done {
                    id,
                    command,
                    outcome,
                })
                .await;
        });
    }

    fn done(&mut self, done: Done) -> After {
        let server = &self.settings.name;
        let failed = match &done.outcome {
            Outcome::Succeeded(_) => false,
            Outcome::Failed(failure) | Outcome::VersionMismatch(failure) => {
                warn!(server, command = ?done.command, error = failure.details, "command failed");
                true
            }
        };
        self.commands.end(done.id, done.outcome);
        match done.command.end() {
            Some(end) if !failed => After::End(end),
            Some(_) | None if done.command.is_synchronous() => After::Nothing,
            Some(_) | None => {
                info!(server, command = ?done.command, "command done");
                After::Tell
            }
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Asks the kernel for a route by connecting a socket that sends nothing.
async fn source_for(api: &str, own_resolver: bool) -> io::Result<IpAddr> {
    let url: reqwest::Url = api.parse().map_err(io::Error::other)?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let there: Vec<IpAddr> = match host.parse() {
        Ok(ip) => vec![ip],
        Err(_) if own_resolver => Resolver::system().look_up(host).await?,
        Err(_) => tokio::net::lookup_host((host, port))
            .await?
            .map(|address| address.ip())
            .collect(),
    };
    let mut last = io::Error::other(format!("{host} has no address"));
    for ip in there {
        let any = match ip {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let probe = async {
            let socket = UdpSocket::bind((any, 0)).await?;
            socket.connect((ip, port)).await?;
            Ok::<_, io::Error>(socket.local_addr()?.ip())
        };
        match probe.await {
            Ok(ours) => return Ok(ours),
            Err(error) => last = error,
        }
    }
    Err(last)
}
