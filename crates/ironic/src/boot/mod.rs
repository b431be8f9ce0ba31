//! What servers boot from: addresses by DHCP, loaders over TFTP, scripts and systems over HTTP, CDs for BMCs.
//!
//! ```text
//!   firmware ── DHCP ──▶ services::dhcp ◀── dhcp.rs: what it decides by, from the configuration and the ports there are
//!      │ ── TFTP ──▶ tftp ──▶ shelf (loaders)
//!      └─ iPXE ─ HTTP ──▶ web ──▶ script.rs   from the node's record, whenever asked
//!   BMC ────── HTTPS ──▶ web ──▶ media.rs     a CD, laid out and never written
//!                         └──▶ sightings: how far each machine came ──▶ its node, or notebook.rs if it is nobody's
//! ```
//!
//! Nothing here remembers what a server is to boot: that is in its record, so a restart loses nothing.

pub mod arguments;
mod blocks;
mod certificate;
pub mod dhcp;
pub mod http;
pub mod media;
pub mod notebook;
pub mod script;
mod serve;
pub mod shelf;
pub mod sightings;
#[cfg(test)]
mod tests;
pub mod tftp;
mod web;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use model::Mac;
use protocols::dhcp::server::{Config as Decisions, Report};
use protocols::dhcp6::server::{Config as Decisions6, Report as Report6};
use protocols::tftp::server::Limits;
use services::holder::{self, Transport};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{error, info, warn};
use uuid::Uuid;

use self::arguments::Api;
use self::notebook::{About, Notebook};
use self::shelf::Shelf;
use self::sightings::Sightings;
use self::web::Web;
use crate::conductor::Conductor;
use crate::config::Config;
use crate::config::boot::{Boot, MediaBy, Mode};
use crate::record::Node;
use crate::store::Store;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not serve DHCP on {interface}")]
    Dhcp {
        interface: String,
        source: services::dhcp::Error,
    },
    #[error("could not serve DHCPv6 on {interface}")]
    Dhcp6 {
        interface: String,
        source: services::dhcp6::Error,
    },
    #[error("could not listen on {what} of {address}{}{}", if by.is_some() { ", held by " } else { "" }, by.as_deref().unwrap_or_default())]
    Listen {
        what: &'static str,
        address: SocketAddr,
        by: Option<String>,
        source: io::Error,
    },
    #[error("could not read {}, by which agents are to know this service (tls.ca, or else tls.certificate)", path.display())]
    Authority { path: PathBuf, source: io::Error },
    #[error("could not make a certificate for virtual media")]
    Certificate(#[source] certificate::Error),
}

/// Everything that boot files are made by, besides the node itself.
#[derive(Debug, Clone)]
pub struct Settings {
    pub boot: Boot,
    pub api: Api,
    /// Where firmware fetches from.
    pub http_url: String,
    /// Where BMCs fetch from.
    pub media_url: String,
}

impl Settings {
    /// Nothing where no boot services are wanted.
    pub fn of(config: &Config) -> Result<Option<Self>, Error> {
        let Some(boot) = config.boot.clone() else {
            return Ok(None);
        };
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let url = config.public_endpoint.as_ref().map_or_else(
            || format!("{scheme}://{}:{}", boot.address, config.listen.port()),
            |url| url.trim_end_matches('/').to_owned(),
        );
        // Whoever signed it is named, or at the end of the chain.
        let authority = config.tls.as_ref().map(|tls| {
            std::fs::read(tls.authority()).map_err(|source| Error::Authority {
                path: tls.authority().to_owned(),
                source,
            })
        });
        let certificate = authority.transpose()?;
        let media_scheme = match boot.media.by {
            MediaBy::OwnTls | MediaBy::Tls(_) => "https",
            MediaBy::Http => "http",
        };
        let media_url =
            boot.media.url.clone().unwrap_or_else(|| {
                format!("{media_scheme}://{}:{}", boot.address, boot.media.port)
            });
        Ok(Some(Self {
            api: Api { url, certificate },
            http_url: format!("http://{}:{}", boot.address, boot.http_port),
            media_url,
            boot,
        }))
    }

    /// The address of the CD a node is to boot from now.
    pub fn media_url(&self, node: &Node) -> Option<String> {
        use lifecycle::node::BootInto;
        let order = node.boot_order.as_ref()?;
        let text = |info: &crate::record::Object, key: &str| {
            info.get(key)
                .and_then(serde_json::Value::as_str)
                .map(str::to_owned)
        };
        match order.into {
            BootInto::BootIso => text(&node.instance_info, "boot_iso"),
            BootInto::Ramdisk | BootInto::Inspection => text(&node.driver_info, "deploy_iso")
                .or_else(|| {
                    Some(format!(
                        "{}/media/{}/{}/boot.iso",
                        self.media_url, node.uuid, order.key
                    ))
                }),
        }
    }

    fn append(&self) -> &str {
        self.boot
            .ramdisk
            .as_ref()
            .map_or(crate::config::boot::APPEND, |ramdisk| &ramdisk.append)
    }

    /// Where firmware gets a node's kernel and ramdisk.
    pub fn system_urls(&self, node: &Node, mac: Mac) -> Result<(String, String), String> {
        let url = |key: &str, part: &str| match own(node, key) {
            Some(given) if is_url(given) => script::url(given).map(str::to_owned),
            Some(_) | None => Ok(format!(
                "{}/boot/{}/{part}",
                self.http_url,
                script::dashed(mac)
            )),
        };
        let urls = (
            url("deploy_kernel", "kernel")?,
            url("deploy_ramdisk", "initrd")?,
        );
        if [own(node, "deploy_kernel"), own(node, "deploy_ramdisk")]
            .iter()
            .any(|given| !given.is_some_and(is_url))
        {
            self.system_files(node)?;
        }
        Ok(urls)
    }

    /// The files of a node's kernel and ramdisk, as far as they are ours. A node's own come from directories that the
    /// configuration allows, and from nowhere else.
    pub fn system_files(&self, node: &Node) -> Result<(PathBuf, PathBuf), String> {
        let ramdisk = self.boot.ramdisk.as_ref();
        let file = |key: &str, default: Option<&PathBuf>| match own(node, key) {
            None => default.cloned().ok_or_else(|| {
                format!("driver_info.{key} is not set, and neither is boot.ramdisk")
            }),
            Some(given) if is_url(given) => Ok(PathBuf::new()),
            Some(given) => {
                let path = PathBuf::from(given.strip_prefix("file://").unwrap_or(given));
                let allowed = ramdisk.is_some_and(|ramdisk| {
                    path.canonicalize().is_ok_and(|path| {
                        ramdisk.directories.iter().any(|directory| {
                            directory
                                .canonicalize()
                                .is_ok_and(|directory| path.starts_with(directory))
                        })
                    })
                });
                if allowed {
                    Ok(path)
                } else {
                    Err(format!(
                        "driver_info.{key}: {given:?} is not a file in a directory of boot.ramdisk.directories"
                    ))
                }
            }
        };
        Ok((
            file("deploy_kernel", ramdisk.map(|ramdisk| &ramdisk.kernel))?,
            file("deploy_ramdisk", ramdisk.map(|ramdisk| &ramdisk.initrd))?,
        ))
    }
}

fn own<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.driver_info
        .get(key)
        .and_then(serde_json::Value::as_str)
        .filter(|text| !text.is_empty())
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// The settings that hold now.
#[derive(Debug, Clone)]
pub struct Current(Arc<RwLock<Arc<Settings>>>);

impl Current {
    fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, settings: Settings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}

/// The running services. [`Service::stop`] ends them.
pub struct Service {
    stop: watch::Sender<bool>,
    reload: watch::Sender<u64>,
    settings: Current,
    tasks: Mutex<JoinSet<()>>,
}

const STOP_WITHIN: Duration = Duration::from_secs(5);

impl Service {
    /// Opens every socket in the caller's network namespace, then starts to answer.
    pub async fn start(
        settings: Settings,
        config: &Config,
        store: Arc<Store>,
        conductor: Arc<Conductor>,
        notebook: Arc<Notebook>,
    ) -> Result<Self, Error> {
        let boot = settings.boot.clone();
        for missing in web::look_around(&boot.loaders, &settings) {
            warn!("{missing}");
        }
        let state = config
            .state
            .parent()
            .map(std::path::Path::to_owned)
            .unwrap_or_default();
        let images = config
            .deploy
            .images
            .clone()
            .unwrap_or_else(|| state.join("images"));
        let current = Current(Arc::new(RwLock::new(Arc::new(settings.clone()))));
        let (sightings, teller) =
            sightings::start(Arc::clone(&store), conductor, Arc::clone(&notebook));
        let (stop, stopped) = watch::channel(false);
        let (reload, reloaded) = watch::channel(0);
        let mut tasks = JoinSet::new();

        let tftp_at = SocketAddr::from((boot.address, boot.tftp_port));
        let tftp =
            UdpSocket::bind(tftp_at)
                .await
                .map_err(listening("TFTP", Transport::Udp, tftp_at))?;
        let tftp6 = match &boot.dhcp6 {
            None => None,
            Some(dhcp6) => {
                let at = SocketAddr::from((dhcp6.address, boot.tftp_port));
                let bound = UdpSocket::bind(at).await;
                Some(bound.map_err(listening("TFTP", Transport::Udp, at))?)
            }
        };
        let http = listen("HTTP", boot.http_port).await?;
        let media = listen("virtual media", boot.media.port).await?;
        let tls = certificate::server(&boot, &state).map_err(Error::Certificate)?;
        let dhcp = bind_dhcp(&settings, &store, &state).await?;
        let dhcp6 = bind_dhcp6(&settings, &store).await?;

        let loaders = Shelf::new(boot.loaders.clone());
        let web = Web {
            store: Arc::clone(&store),
            settings: current.clone(),
            loaders: loaders.clone(),
            images: std::iter::once(images)
                .chain(config.deploy.public_images.clone())
                .map(Shelf::new)
                .collect(),
            sightings: sightings.clone(),
            discs: media::Discs::default(),
        };
        tasks.spawn(serve::serve(
            http,
            web.clone().files(),
            None,
            stopped.clone(),
        ));
        tasks.spawn(serve::serve(media, web.media(), tls, stopped.clone()));
        if let Some(socket) = tftp6 {
            tasks.spawn(serve_tftp(
                socket,
                loaders.clone(),
                sightings.clone(),
                stopped.clone(),
            ));
        }
        let changes = Changes {
            v4: dhcp.as_ref().map(services::dhcp::Shell::changes),
            v6: dhcp6.as_ref().map(services::dhcp6::Shell::changes),
        };
        tasks.spawn(serve_tftp(
            tftp,
            loaders,
            sightings.clone(),
            stopped.clone(),
        ));
        if boot.dhcp.mode == Mode::Server && dhcp6.is_none() {
            // The network is ours, and only IPv4.
            let (link, stopped) = (boot.interface.clone(), stopped.clone());
            tasks.spawn(async move { services::no_router::run(&link, stopped).await });
        }
        if let Some(dhcp) = dhcp {
            tasks.spawn(serve_dhcp(
                dhcp,
                sightings.clone(),
                notebook,
                stopped.clone(),
            ));
        }
        if let Some(dhcp6) = dhcp6 {
            let stopped = stopped.clone();
            let told = move |report| heard6(&report, &sightings);
            tasks.spawn(async move {
                if let Err(error) = dhcp6.run(stopped, told).await {
                    error!(error = model::chain(&error), "DHCPv6 ended");
                }
            });
        }
        tasks.spawn(follow(
            changes,
            current.clone(),
            store,
            reloaded,
            stopped.clone(),
        ));
        tasks.spawn(teller.run(stopped));
        info!(interface = boot.interface, address = %boot.address, dhcp = ?boot.dhcp.mode, media = settings.media_url, "boot services listen");
        Ok(Self {
            stop,
            reload,
            settings: current,
            tasks: Mutex::new(tasks),
        })
    }

    /// Takes what can change while clients boot: ranges, who is answered, kernel and arguments. Leases stay.
    pub fn reload(&self, settings: Settings) {
        let before = self.settings.get();
        let (old, new) = (&before.boot, &settings.boot);
        let fixed = old.interface != new.interface
            || old.address != new.address
            || old.dhcp.mode != new.dhcp.mode
            || old.tftp_port != new.tftp_port
            || old.http_port != new.http_port
            || old.media != new.media
            || old.loaders != new.loaders
            || old
                .dhcp6
                .as_ref()
                .map(|dhcp6| (dhcp6.address, dhcp6.prefix))
                != new
                    .dhcp6
                    .as_ref()
                    .map(|dhcp6| (dhcp6.address, dhcp6.prefix));
        if fixed {
            warn!(
                "boot: interface, address, ports, mode, loaders and media need a restart; they stay as they were"
            );
        }
        let boot = Boot {
            interface: old.interface.clone(),
            address: old.address,
            subnet: old.subnet,
            tftp_port: old.tftp_port,
            http_port: old.http_port,
            media: old.media.clone(),
            loaders: old.loaders.clone(),
            dhcp: crate::config::boot::Dhcp {
                mode: old.dhcp.mode,
                ..settings.boot.dhcp
            },
            ..settings.boot
        };
        self.settings.set(Settings {
            boot,
            http_url: before.http_url.clone(),
            media_url: before.media_url.clone(),
            api: settings.api,
        });
        self.reload.send_modify(|count| *count += 1);
    }

    pub async fn stop(&self) {
        _ = self.stop.send(true);
        let mut tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *tasks)
        };
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            warn!("boot services did not stop in time");
        }
    }
}

fn listening(
    what: &'static str,
    transport: Transport,
    address: SocketAddr,
) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Listen {
        what,
        address,
        by: (source.kind() == io::ErrorKind::AddrInUse)
            .then(|| holder::of(transport, address.port()))
            .flatten(),
        source,
    }
}

/// BMCs and agents may come from other networks than the one we boot on: every address.
async fn listen(what: &'static str, port: u16) -> Result<TcpListener, Error> {
    let everywhere = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
    match TcpListener::bind(everywhere).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            TcpListener::bind(address)
                .await
                .map_err(listening(what, Transport::Tcp, address))
        }
        bound => bound.map_err(listening(what, Transport::Tcp, everywhere)),
    }
}

async fn bind_dhcp(
    settings: &Settings,
    store: &Store,
    state: &std::path::Path,
) -> Result<Option<services::dhcp::Shell>, Error> {
    match settings.boot.dhcp.mode {
        Mode::Off => return Ok(None),
        Mode::Server | Mode::Proxy => {}
    }
    let config = services::dhcp::Config {
        link: settings.boot.interface.clone(),
        dhcp: decisions(settings, store),
        leases: state.join("leases.redb"),
    };
    let bound = services::dhcp::Shell::bind(config).await;
    bound.map(Some).map_err(|source| Error::Dhcp {
        interface: settings.boot.interface.clone(),
        source,
    })
}

fn decisions(settings: &Settings, store: &Store) -> Decisions {
    let boot = &settings.boot;
    let cards = dhcp::cards(&store.read());
    let files = dhcp::files(boot, &settings.http_url);
    dhcp::decisions(&boot.dhcp, boot.address, boot.subnet, Some(files), &cards)
}

async fn bind_dhcp6(
    settings: &Settings,
    store: &Store,
) -> Result<Option<services::dhcp6::Shell>, Error> {
    let Some(dhcp6) = &settings.boot.dhcp6 else {
        return Ok(None);
    };
    let decided = dhcp::decisions6(&settings.boot, dhcp6, &dhcp::cards(&store.read()));
    let link = &settings.boot.interface;
    let bound = services::dhcp6::Shell::bind(link, dhcp6.prefix, decided).await;
    bound.map(Some).map_err(|source| Error::Dhcp6 {
        interface: link.clone(),
        source,
    })
}

fn heard6(report: &Report6, sightings: &Sightings) {
    match report {
        Report6::Leased {
            address,
            mac: Some(mac),
        } => {
            sightings.leased((*address).into(), *mac);
            let about = About {
                address: Some((*address).into()),
                ..About::default()
            };
            sightings.saw(*mac, format!("got address {address}"), about);
        }
        Report6::Released { address } => sightings.ended((*address).into()),
        Report6::Booting {
            mac: Some(mac),
            arch,
            ignored,
        } => {
            let about = About {
                architecture: *arch,
                ..About::default()
            };
            let what = if *ignored {
                "asked for an IPv6 address and was not answered: it is not known"
            } else {
                "asked for an IPv6 address"
            };
            sightings.saw(*mac, what, about);
        }
        Report6::Leased { mac: None, .. }
        | Report6::Booting { mac: None, .. }
        | Report6::Exhausted
        | Report6::Malformed(_) => {}
    }
}

/// Where new decisions go.
struct Changes {
    v4: Option<mpsc::Sender<Decisions>>,
    v6: Option<mpsc::Sender<Decisions6>>,
}

/// Keeps DHCP told of ports that come and go, and of new settings.
async fn follow(
    changes: Changes,
    settings: Current,
    store: Arc<Store>,
    mut reloaded: watch::Receiver<u64>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ports = store.ports_changed();
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            Ok(()) = ports.changed() => {}
            Ok(()) = reloaded.changed() => {}
        }
        let settings = settings.get();
        // A server that has ended takes nothing.
        if let Some(v4) = &changes.v4 {
            _ = v4.send(decisions(&settings, &store)).await;
        }
        if let (Some(v6), Some(dhcp6)) = (&changes.v6, &settings.boot.dhcp6) {
            let decided = dhcp::decisions6(&settings.boot, dhcp6, &dhcp::cards(&store.read()));
            _ = v6.send(decided).await;
        }
    }
}

async fn serve_dhcp(
    dhcp: services::dhcp::Shell,
    sightings: Sightings,
    notebook: Arc<Notebook>,
    stop: watch::Receiver<bool>,
) {
    let mut leases = 0;
    for lease in dhcp.leases() {
        leases += 1;
        sightings.leased(lease.address.into(), lease.mac);
    }
    notebook.set_leases(leases);
    let told = move |report: Report| heard(&report, &sightings, &notebook);
    if let Err(error) = dhcp.run(stop, told).await {
        error!(error = model::chain(&error), "DHCP ended");
    }
}

fn heard(report: &Report, sightings: &Sightings, notebook: &Notebook) {
    match report {
        Report::Leased(lease) => {
            sightings.leased(lease.address.into(), lease.mac);
            notebook.set_leases(sightings.count());
            let about = About {
                address: Some(lease.address.into()),
                ..About::default()
            };
            sightings.saw(lease.mac, format!("got address {}", lease.address), about);
        }
        Report::Released(lease) | Report::Expired(lease) => {
            sightings.ended(lease.address.into());
            notebook.set_leases(sightings.count());
        }
        Report::Booting {
            mac,
            firmware,
            ignored,
        } => {
            let about = About {
                address: None,
                architecture: firmware.arch,
                uuid: firmware.uuid.map(smbios),
            };
            let what = match (ignored, firmware.ipxe) {
                (true, _) => "asked for an address and was not answered: it is not known",
                (false, true) => "started iPXE and asked for an address",
                (false, false) => "asked for an address",
            };
            sightings.saw(*mac, what, about);
        }
        Report::PoolExhausted { mac } => {
            sightings.saw(
                *mac,
                "asked for an address, and none is left",
                About::default(),
            );
        }
        Report::OtherServer { id } => notebook.other_server(*id, Timestamp::now()),
        Report::Conflict { .. }
        | Report::Declined { .. }
        | Report::Refused { .. }
        | Report::Malformed(_) => {}
    }
}

/// SMBIOS writes the first three parts of an identifier the other way round.
fn smbios(bytes: [u8; 16]) -> Uuid {
    Uuid::from_bytes_le(bytes)
}

async fn serve_tftp(
    socket: UdpSocket,
    loaders: Shelf,
    sightings: Sightings,
    mut stop: watch::Receiver<bool>,
) {
    let fetched: tftp::Fetched = Arc::new(move |peer: IpAddr, file: &str| {
        if let Some(mac) = sightings.at(peer) {
            sightings.saw(
                mac,
                format!("fetched {} by TFTP", file.trim_start_matches('/')),
                About::default(),
            );
        }
    });
    tokio::select! {
        served = tftp::serve_watched(socket, loaders, Limits::default(), fetched) => {
            if let Err(error) = served {
                error!(%error, "TFTP ended");
            }
        }
        _ = stop.changed() => {}
    }
}
