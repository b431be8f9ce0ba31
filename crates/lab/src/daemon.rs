//! The lab's process: everything in the rack, held by one task each, until told to stop.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linux::netlink::Netlink;
use linux::netns::{self, Namespace};
use protocols::dhcp::server::{Config as DhcpConfig, Known};
use protocols::dns::Data;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{info, warn};
use vm::accel::{self, Accel};

use crate::bmc::media::{Clients, Fetcher, Limits};
use crate::certificate::{self, Authority};
use crate::control::{self, Answer, Request, ServerFault};
use crate::fault::{Faults, Kind as FaultKind, Order};
use crate::hardware::Network;
use crate::install_config;
use crate::network;
use crate::port::{self, Port};
use crate::rack::{Kind, Place, Rack};
use crate::server::chassis::Event;
use crate::server::sim::wire::Wire;
use crate::server::{Board, Server, TellError, qemu, sim};
use crate::site::{self, DnsConfig, Site};
use crate::state::{self, Dir, Found, Record, Runner};
use crate::status;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    State(#[from] state::Error),
    #[error("no lab is recorded in {0}; `plinth lab up` starts one")]
    NoRecord(PathBuf),
    #[error("make the lab's network namespace")]
    Namespace(#[from] netns::Error),
    #[error("{action}")]
    Io {
        action: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Network(#[from] network::Error),
    #[error("start the site's services")]
    Site(#[from] site::Error),
    #[error(transparent)]
    Certificate(#[from] certificate::Error),
    #[error("plug the simulated servers in")]
    Wire(#[from] sim::wire::Error),
    #[error(transparent)]
    Port(#[from] port::Error),
}

fn io_error(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, source }
}

/// Runs the lab that the directory records until it is told to stop.
pub fn run(dir: &Dir) -> Result<(), Error> {
    let (Found::Left(record) | Found::Living(record)) = dir.look()? else {
        return Err(Error::NoRecord(dir.path().to_path_buf()));
    };
    let runner = Runner::ourselves().map_err(io_error("find our own process"))?;
    dir.write(&Record {
        runner: Some(runner),
        ..(*record).clone()
    })?;
    // Threads take the namespace of the one that makes them: enter it before there is a second.
    Namespace::create(&record.rack.namespace)?.enter()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // Work that blocks is short, but for the few who write images.
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .map_err(io_error("start the runtime"))?;
    runtime.block_on(async {
        let mut lab = Lab::build(dir.clone(), *record).await?;
        let result = lab.serve().await;
        lab.stop().await;
        result
    })
}

struct Lab {
    dir: Dir,
    record: Record,
    accelerator: String,
    netlink: Netlink,
    site: Site,
    units: BTreeMap<String, Unit>,
    tasks: JoinSet<()>,
}

/// A server and its BMC, plugged in.
struct Unit {
    place: Place,
    server: Server,
    port: Port,
}

impl Lab {
    async fn build(dir: Dir, record: Record) -> Result<Self, Error> {
        let rack = &record.rack;
        let netlink = network::build(rack).await?;
        let site = Site::start(site_config(rack, &dir)).await?;
        let authority = Authority::new(&rack.name)?;
        std::fs::write(dir.ca(), authority.pem())
            .map_err(io_error("write the lab's CA certificate"))?;
        let clients = Clients::new(authority.store());
        let boards = Boards::prepare(rack, &netlink).await?;
        let mut lab = Self {
            accelerator: boards.describe(),
            dir,
            netlink,
            site,
            units: BTreeMap::new(),
            tasks: JoinSet::new(),
            record,
        };
        for place in lab.record.rack.places.clone() {
            lab.add(&boards, place, &authority, &clients).await?;
        }
        Ok(lab)
    }

    async fn add(
        &mut self,
        boards: &Boards,
        place: Place,
        authority: &Authority,
        clients: &Clients,
    ) -> Result<(), Error> {
        let name = place.hardware.name.clone();
        let home = self.dir.server(&name);
        std::fs::create_dir_all(home.join("media"))
            .map_err(io_error("create the server's directory"))?;
        let faults = Faults::default();
        let board = boards
            .make(&self.netlink, &place, &home, &faults, clients)
            .await?;
        let (server, task) = Server::spawn(place.hardware.clone(), place.firmware, faults, board);
        self.tasks.spawn(async move { _ = task.await });
        let config = port::Config {
            server: server.clone(),
            place: place.clone(),
            user: self.record.rack.bmc_user.clone(),
            password: self.record.bmc_password.clone(),
            media_dir: home.join("media"),
            tls: authority.server(&name, place.bmc.into())?,
            clients: clients.clone(),
        };
        let port = Port::plug(config, self.netlink.clone()).await?;
        self.units.insert(
            name,
            Unit {
                place,
                server,
                port,
            },
        );
        Ok(())
    }

    /// Answers on the control socket until told to stop, by it or by a signal.
    async fn serve(&mut self) -> Result<(), Error> {
        let socket = self.dir.control_socket();
        let listener = UnixListener::bind(&socket).map_err(io_error("open the control socket"))?;
        let mut terminate =
            signal(SignalKind::terminate()).map_err(io_error("listen for signals"))?;
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(io_error("listen for signals"))?;
        info!(
            lab = self.record.rack.name,
            servers = self.units.len(),
            accelerator = self.accelerator,
            "lab is up"
        );
        loop {
            tokio::select! {
                connection = listener.accept() => match connection {
                    Ok((mut stream, _)) => if self.answer(&mut stream).await { return Ok(()) },
                    Err(error) => warn!(%error, "control socket"),
                },
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
            }
        }
    }

    /// Answers one request; true if it was to go down.
    async fn answer(&mut self, stream: &mut UnixStream) -> bool {
        let request = match tokio::time::timeout(REQUEST_WITHIN, control::read(stream)).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => {
                warn!(%error, "control request");
                return false;
            }
            Err(_) => return false,
        };
        let down = matches!(request, Ok(Request::Down));
        let answer = match request {
            Ok(request) => self.handle(request).await,
            Err(answer) => answer,
        };
        if let Err(error) = control::reply(stream, &answer).await {
            warn!(%error, "control answer");
        }
        down
    }

    async fn handle(&mut self, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            Request::Power { server, reset } => match self.units.get(&server) {
                Some(unit) => answer(unit.server.tell(Event::Reset(reset)).await),
                None => self.unknown(&server),
            },
            Request::AddFault { server, order } => self.add_fault(&server, order).await,
            Request::ListFaults => Answer::Faults(self.faults()),
            Request::ClearFaults { server, id } => self.clear_faults(server.as_deref(), id).await,
            Request::Down => Answer::Done,
        }
    }

    async fn add_fault(&mut self, server: &str, order: Order) -> Answer {
        if let Err(why) = order.check() {
            return Answer::Refused(why);
        }
        let Some(unit) = self.units.get_mut(server) else {
            return self.unknown(server);
        };
        info!(
            server,
            kind = order.kind.name(),
            count = order.count,
            "fault added"
        );
        unit.server.faults().add(order);
        unit.faults_changed().await
    }

    async fn clear_faults(&mut self, server: Option<&str>, id: Option<u32>) -> Answer {
        if let Some(name) = server
            && !self.units.contains_key(name)
        {
            return self.unknown(name);
        }
        let chosen = self
            .units
            .iter_mut()
            .filter(|(name, _)| server.is_none_or(|server| server == *name));
        let mut cleared = 0;
        let mut last = Answer::Done;
        for (name, unit) in chosen {
            let gone = unit.server.faults().clear(id);
            cleared += gone.len();
            if !gone.is_empty() {
                info!(server = name, count = gone.len(), "faults cleared");
                last = unit.faults_changed().await;
            }
        }
        match id {
            Some(id) if cleared == 0 => Answer::Refused(format!(
                "there is no fault {id}; `plinth lab fault list` shows them"
            )),
            Some(_) | None => last,
        }
    }

    fn unknown(&self, server: &str) -> Answer {
        Answer::Refused(format!(
            "no server {server:?} in lab {}: there are server-0 to server-{}",
            self.record.rack.name,
            self.units.len() - 1
        ))
    }

    fn faults(&self) -> Vec<ServerFault> {
        let of = |(name, unit): (&String, &Unit)| {
            let name = name.clone();
            unit.server
                .faults()
                .list()
                .into_iter()
                .map(move |fault| ServerFault {
                    server: name.clone(),
                    fault,
                })
        };
        self.in_order().flat_map(of).collect()
    }

    /// By place in the rack, not by the alphabet.
    fn in_order(&self) -> impl Iterator<Item = (&String, &Unit)> {
        self.record
            .rack
            .places
            .iter()
            .filter_map(|place| self.units.get_key_value(&place.hardware.name))
    }

    fn status(&self) -> status::Status {
        let rack = &self.record.rack;
        status::Status {
            name: rack.name.clone(),
            namespace: rack.namespace.clone(),
            pid: std::process::id(),
            accelerator: self.accelerator.clone(),
            site: status::Site {
                subnet: rack.site.subnet.to_string(),
                router: rack.site.router,
                domain: rack.site.domain.clone(),
                leases: self.site.leases().into_iter().map(lease).collect(),
            },
            ca_file: self.dir.ca(),
            servers: self
                .in_order()
                .map(|(_, unit)| self.server_status(unit))
                .collect(),
        }
    }

    fn server_status(&self, unit: &Unit) -> status::Server {
        let status = unit.server.status();
        let hardware = unit.server.hardware();
        status::Server {
            name: hardware.name.clone(),
            redfish: format!("https://{}{}", unit.place.bmc, unit.port.system_path()),
            ipmi: unit.place.bmc.to_string(),
            user: self.record.rack.bmc_user.clone(),
            password: self.record.bmc_password.clone(),
            macs: hardware
                .nics
                .iter()
                .map(|nic| status::Port {
                    network: nic.network,
                    mac: nic.mac,
                })
                .collect(),
            power: status.view.power,
            firmware: status.view.firmware,
            boot: status.view.boot,
            media: status.view.media.map(|media| media.url),
            console: unit.server.console().log().to_path_buf(),
            faults: unit.server.faults().list().len(),
            boots: status.view.boots,
            trouble: status.trouble,
        }
    }

    /// Stops everything; a server that does not stop in time is named and left to the namespace's end.
    async fn stop(self) {
        let Self {
            units,
            mut tasks,
            site,
            ..
        } = self;
        let mut ports = JoinSet::new();
        for (_, unit) in units {
            drop(unit.server);
            ports.spawn(unit.port.unplug());
        }
        let all = async {
            while ports.join_next().await.is_some() {}
            while tasks.join_next().await.is_some() {}
            site.stop().await;
        };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            warn!("some servers did not stop in time");
        }
    }
}

const REQUEST_WITHIN: Duration = Duration::from_secs(5);
const STOP_WITHIN: Duration = Duration::from_secs(30);

impl Unit {
    async fn faults_changed(&mut self) -> Answer {
        let down = self.server.faults().holds(FaultKind::BmcDown);
        if let Err(error) = self.port.set_down(down).await {
            return Answer::Refused(model::chain(&error));
        }
        answer(self.server.tell(Event::FaultsChanged).await)
    }
}

fn lease(lease: protocols::dhcp::server::Lease) -> status::Lease {
    status::Lease {
        mac: lease.mac,
        address: lease.address,
        hostname: lease.hostname,
    }
}

/// What an operator registers for a cluster before installing it: the names that the world finds it by.
fn cluster_names(rack: &Rack) -> Vec<(String, Data)> {
    let domain = format!("{}.{}", rack.name, rack.site.domain);
    let vips = install_config::vips(rack.site.subnet);
    vec![
        (format!("api.{domain}"), Data::A(vips.api)),
        (format!("*.apps.{domain}"), Data::A(vips.ingress)),
    ]
}

/// Servers are known to the site by name, as an organisation would register them; addresses come from the pool.
fn site_config(rack: &Rack, dir: &Dir) -> site::Config {
    let Rack { site, places, .. } = rack;
    let mut dhcp = DhcpConfig::new(site.router, site.subnet, vec![site.pool.0..=site.pool.1]);
    dhcp.options.router = Some(site.router);
    dhcp.options.dns = vec![site.router];
    dhcp.options.domain = Some(site.domain.clone());
    for place in places {
        let nics = place
            .hardware
            .nics
            .iter()
            .filter(|nic| nic.network == Network::Baremetal);
        let known = Known {
            hostname: Some(place.hardware.name.clone()),
            ..Known::default()
        };
        dhcp.known.extend(nics.map(|nic| (nic.mac, known.clone())));
    }
    let dns = DnsConfig {
        address: site.router,
        domain: site.domain.clone(),
        records: cluster_names(rack),
        upstreams: site.dns_upstreams.clone(),
    };
    site::Config {
        link: Network::Baremetal.bridge().into(),
        dhcp,
        dns,
        leases: dir.leases(),
    }
}

fn answer(result: Result<(), TellError>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(model::chain(&error)),
    }
}

/// What boards of this rack are made from.
enum Boards {
    Qemu { accel: Accel },
    Sim { wire: Arc<Wire> },
}

impl Boards {
    async fn prepare(rack: &Rack, netlink: &Netlink) -> Result<Self, Error> {
        Ok(match rack.kind {
            Kind::Qemu => Self::Qemu {
                accel: accel::probe().await.clone(),
            },
            Kind::Sim => Self::Sim {
                wire: Arc::new(Wire::plug(netlink).await?),
            },
        })
    }

    fn describe(&self) -> String {
        match self {
            Self::Qemu { accel: Accel::Kvm } => "kvm".into(),
            Self::Qemu {
                accel: Accel::Tcg { why },
            } => format!("{}: {why}", status::EMULATED),
            Self::Sim { .. } => "sim".into(),
        }
    }

    async fn make(
        &self,
        netlink: &Netlink,
        place: &Place,
        home: &std::path::Path,
        faults: &Faults,
        clients: &Clients,
    ) -> Result<Board, Error> {
        match self {
            Self::Qemu { accel } => {
                for nic in &place.hardware.nics {
                    network::plug(netlink, nic).await?;
                }
                let fetcher = Fetcher::new(home.join("media"), Limits::default(), clients.clone());
                Ok(qemu::spawn(place.clone(), home, accel.clone(), fetcher))
            }
            Self::Sim { wire } => Ok(sim::spawn(
                &place.hardware,
                home,
                Some(wire.clone()),
                faults.clone(),
            )),
        }
    }
}
