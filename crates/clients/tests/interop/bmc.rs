//! A server of the lab behind a BMC of a vendor, on loopback.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lab::bmc::{Bmc, Config, Personality, media};
use lab::fault::Faults;
use lab::hardware::{Disk, Firmware, Hardware, Network, Nic};
use lab::server::{Server, sim};
use model::Secret;
use rustls::RootCertStore;

pub const USER: &str = "admin";
pub const PASSWORD: &str = "pa55:word with spaces";

pub fn hardware() -> Hardware {
    let nic = |network, mac: &str, port: &str| Nic {
        network,
        mac: mac.parse().unwrap(),
        port: port.into(),
    };
    let disk = |serial: &str, gib: u64| Disk {
        serial: serial.into(),
        size_bytes: gib << 30,
    };
    Hardware {
        name: "server-0".into(),
        uuid: uuid::Uuid::from_u128(0x1234),
        serial: "LAB0001".into(),
        cpus: 4,
        memory_mib: 8192,
        nics: vec![
            nic(Network::Provisioning, "52:54:00:00:00:01", "p0"),
            nic(Network::Baremetal, "52:54:00:00:00:02", "b0"),
        ],
        disks: vec![disk("D1", 20), disk("D2", 40)],
    }
}

pub fn bmc(vendor: &str, dir: &Path, licensed: bool) -> Arc<Bmc> {
    let hardware = hardware();
    let faults = Faults::default();
    let board = sim::spawn(&hardware, dir, None, faults.clone());
    // The server's task ends with the last handle, which the BMC holds.
    let (server, _task) = Server::spawn(hardware, Firmware::Uefi, faults, board);
    let media_dir = dir.join("media");
    std::fs::create_dir(&media_dir).unwrap();
    Bmc::new(Config {
        server,
        personality: Personality::named(vendor).unwrap(),
        user: USER.into(),
        password: Secret::new(PASSWORD.into()),
        mac: "52:54:00:00:01:01".parse().unwrap(),
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        media_dir,
        media_limits: media::Limits::default(),
        clients: media::Clients::new(RootCertStore::empty()),
        licensed,
        restart: Duration::from_millis(300),
    })
}
