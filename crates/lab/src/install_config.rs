//! The `install-config.yaml` that describes a lab, as an operator would write it for such a site.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::hardware::{Firmware, Network};
use crate::status::{Server, Status};

/// How servers are booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Over the provisioning network.
    Pxe,
    /// By their BMCs; the provisioning network is not used.
    VirtualMedia,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    pub masters: usize,
    pub workers: usize,
    pub mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the lab has {servers} servers; {masters} masters and {workers} workers need {}", masters + workers)]
    TooFew {
        servers: usize,
        masters: usize,
        workers: usize,
    },
    #[error("the lab's network {0:?} is not one")]
    Subnet(String),
    #[error("server {server} has no card on {network}")]
    NoCard {
        server: String,
        network: &'static str,
    },
}

/// Below the site's DHCP pool.
const API_VIP: u32 = 5;
const INGRESS_VIP: u32 = 6;

/// The addresses of the cluster on the lab's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vips {
    pub api: Ipv4Addr,
    pub ingress: Ipv4Addr,
}

pub fn vips(subnet: Ipv4Net) -> Vips {
    let nth = |n: u32| Ipv4Addr::from(u32::from(subnet.network()) + n);
    Vips {
        api: nth(API_VIP),
        ingress: nth(INGRESS_VIP),
    }
}

/// Writes it. Servers beyond the wish are workers that nobody has asked for yet.
pub fn render(lab: &Status, wish: Wish) -> Result<String, Error> {
    let Wish {
        masters,
        workers,
        mode,
    } = wish;
    if lab.servers.len() < masters + workers {
        return Err(Error::TooFew {
            servers: lab.servers.len(),
            masters,
            workers,
        });
    }
    let subnet: Ipv4Net = lab
        .site
        .subnet
        .parse()
        .map_err(|_| Error::Subnet(lab.site.subnet.clone()))?;
    let Vips { api, ingress } = vips(subnet);
    let provisioning = match mode {
        Mode::Pxe => {
            "    provisioningNetwork: Managed\n    provisioningNetworkCIDR: 172.22.0.0/24\n    provisioningBridge: provisioning\n    kexec: true\n"
        }
        Mode::VirtualMedia => "    provisioningNetwork: Disabled\n",
    };
    let speed = if lab.is_emulated() {
        "    controlPlaneHardwareSpeed: Slower\n"
    } else {
        ""
    };
    let mut text = format!(
        "apiVersion: v1\nbaseDomain: {domain}\nmetadata:\n  name: {name}\n\
         controlPlane:\n  name: master\n  replicas: {masters}\ncompute:\n  - name: worker\n    replicas: {workers}\n\
         networking:\n  machineNetwork:\n    - cidr: {subnet}\n\
         platform:\n  baremetal:\n    apiVIPs:\n      - {api}\n    ingressVIPs:\n      - {ingress}\n    externalBridge: baremetal\n\
         {provisioning}{speed}    hosts:\n",
        domain = lab.site.domain,
        name = lab.name,
    );
    for (index, server) in lab.servers.iter().enumerate() {
        let (role, number) = if index < masters {
            ("master", index)
        } else {
            ("worker", index - masters)
        };
        text += &host(server, role, number, mode)?;
    }
    text.push_str("payload: builtin\n");
    Ok(text)
}

fn host(server: &Server, role: &str, number: usize, mode: Mode) -> Result<String, Error> {
    let (scheme, network) = match mode {
        Mode::Pxe => ("redfish", Network::Provisioning),
        Mode::VirtualMedia => ("redfish-virtualmedia", Network::Baremetal),
    };
    let card = server.macs.iter().find(|port| port.network == network);
    let mac = card.map(|port| port.mac).ok_or_else(|| Error::NoCard {
        server: server.name.clone(),
        network: network.bridge(),
    })?;
    let address = server.redfish.trim_start_matches("https");
    let boot_mode = match server.firmware {
        Firmware::Uefi => "UEFI",
        Firmware::Bios => "legacy",
    };
    let mut text = String::new();
    _ = write!(
        text,
        "      - name: {role}-{number}\n        role: {role}\n        bmc:\n          address: {scheme}{address}\n\
         \x20         username: {user}\n          password: {password}\n          disableCertificateVerification: true\n\
         \x20       bootMACAddress: {mac}\n        bootMode: {boot_mode}\n",
        user = server.user,
        password = server.password,
    );
    Ok(text)
}
