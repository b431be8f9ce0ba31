//! Where a BMC meets the network: its address, its Redfish listener and its IPMI socket, plugged and unplugged together.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linux::netlink::Netlink;
use model::{Mac, Secret};
use rustls::ServerConfig;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;
use tracing::info;

use crate::bmc::personality::Personality;
use crate::bmc::redfish;
use crate::bmc::{self, Bmc, ipmi, media};
use crate::network;
use crate::rack::Place;
use crate::server::Server;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("plug BMC {address} in")]
    Network {
        address: Ipv4Addr,
        source: network::Error,
    },
    #[error("BMC {address}: listen on {what}")]
    Listen {
        address: Ipv4Addr,
        what: &'static str,
        source: io::Error,
    },
}

/// What a BMC is made of.
pub struct Config {
    pub server: Server,
    pub place: Place,
    pub user: String,
    pub password: String,
    pub media_dir: PathBuf,
    pub tls: Arc<ServerConfig>,
    pub clients: media::Clients,
}

/// A BMC with its cable.
pub struct Port {
    address: Ipv4Addr,
    netlink: Netlink,
    bmc: Arc<Bmc>,
    tls: Arc<ServerConfig>,
    plugged: Option<Plugged>,
}

struct Plugged {
    redfish: redfish::Handle,
    ipmi: JoinHandle<()>,
}

impl Port {
    pub async fn plug(config: Config, netlink: Netlink) -> Result<Self, Error> {
        let address = config.place.bmc;
        let bmc = Bmc::new(bmc::Config {
            server: config.server,
            personality: Personality::named(&config.place.vendor)
                .expect("the plan knows the vendor"),
            user: config.user,
            password: Secret::new(config.password),
            mac: bmc_mac(address),
            addresses: vec![address.into()],
            media_dir: config.media_dir,
            media_limits: media::Limits::default(),
            clients: config.clients,
            licensed: true,
            restart: BMC_RESTARTS_WITHIN,
        });
        let mut port = Self {
            address,
            netlink,
            bmc,
            tls: config.tls,
            plugged: None,
        };
        port.set_down(false).await?;
        Ok(port)
    }

    /// The path of the server in its BMC's Redfish tree.
    pub fn system_path(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.bmc.personality().system)
    }

    /// Pulls the cable, or plugs it in again.
    pub async fn set_down(&mut self, down: bool) -> Result<(), Error> {
        let address = self.address;
        let network = |source| Error::Network { address, source };
        match (down, self.plugged.take()) {
            (true, Some(plugged)) => {
                plugged.stop().await;
                info!(bmc = %address, "BMC unplugged");
                network::detach_bmc(&self.netlink, address)
                    .await
                    .map_err(network)
            }
            (true, None) => Ok(()),
            (false, Some(plugged)) => {
                self.plugged = Some(plugged);
                Ok(())
            }
            (false, None) => {
                network::attach_bmc(&self.netlink, address)
                    .await
                    .map_err(network)?;
                self.plugged = Some(self.listen().await?);
                Ok(())
            }
        }
    }

    async fn listen(&self) -> Result<Plugged, Error> {
        let address = self.address;
        let failed = |what| {
            move |source| Error::Listen {
                address,
                what,
                source,
            }
        };
        let tcp = TcpListener::bind((address, 443))
            .await
            .map_err(failed("tcp 443, Redfish"))?;
        let udp = UdpSocket::bind((address, 623))
            .await
            .map_err(failed("udp 623, IPMI"))?;
        let redfish = redfish::spawn(tcp, Some(self.tls.clone()), self.bmc.clone())
            .map_err(failed("tcp 443, Redfish"))?;
        let ipmi = tokio::spawn(ipmi::serve(udp, self.bmc.clone()));
        Ok(Plugged { redfish, ipmi })
    }

    /// For good: the BMC ends.
    pub async fn unplug(self) {
        self.bmc.abandon_work();
        if let Some(plugged) = self.plugged {
            plugged.stop().await;
        }
    }
}

impl Plugged {
    async fn stop(self) {
        self.ipmi.abort();
        _ = self.ipmi.await;
        self.redfish.stop().await;
    }
}

/// Long enough to be noticed by a client, short enough for a lab.
const BMC_RESTARTS_WITHIN: Duration = Duration::from_secs(2);

fn bmc_mac(address: Ipv4Addr) -> Mac {
    let [_, b, c, d] = address.octets();
    Mac([0x52, 0x54, 0xbc, b, c, d])
}
