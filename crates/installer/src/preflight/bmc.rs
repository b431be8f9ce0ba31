//! What a BMC says about itself and its server.

use std::time::{Duration, SystemTime};

use clients::redfish::{self, Medium, Verify};
use clients::{BootMode as Booted, Power, ipmi};
use model::BmcAddress;
use plan::install_config::{BootMode, Host};
use plan::preflight::{Bmc, Fact, Nic, Server, Slot};
use protocols::ipmi::console;

use super::{seconds, within};

/// Until it is known whether the BMC answers and lets us in.
const FIRST: Duration = Duration::from_secs(20);
/// For one question after that; a BMC with many disks is asked for each of them.
const EACH: Duration = Duration::from_secs(30);
const LEAVE: Duration = Duration::from_secs(5);

pub async fn look(host: &Host, authorities: Option<&str>) -> Bmc {
    if host.bmc.scheme.is_redfish() {
        // Seven questions at once are a large thing to carry about.
        Box::pin(redfish(host, authorities)).await
    } else {
        ipmi(host).await
    }
}

async fn redfish(host: &Host, authorities: Option<&str>) -> Bmc {
    let client = match client(host, authorities) {
        Ok(client) => client,
        Err(error) => return judged(&error),
    };
    let bmc = match tokio::time::timeout(FIRST, client.system()).await {
        Ok(Ok(system)) => Bmc::Open(Box::new(Box::pin(details(&client, system)).await)),
        Ok(Err(error)) => judged(&error),
        Err(_) => Bmc::Silent {
            why: format!("no answer within {} s", FIRST.as_secs()),
        },
    };
    // BMCs have few sessions.
    _ = tokio::time::timeout(LEAVE, client.close()).await;
    bmc
}

pub fn client(host: &Host, authorities: Option<&str>) -> Result<redfish::Client, redfish::Error> {
    let address = &host.bmc;
    let mut config = redfish::Config::new(
        &format!("{}://{}", transport(address), authority(address)),
        &host.username,
        host.password.clone(),
    )?;
    config.system = Some(address.path.clone()).filter(|path| !path.is_empty());
    config.verify = match (host.verify_bmc, authorities) {
        (false, _) => Verify::Nobody,
        (true, Some(pem)) => Verify::Pem(pem.as_bytes().to_vec()),
        (true, None) => Verify::System,
    };
    config.limits = redfish::Limits {
        connect: Duration::from_secs(5),
        answer: Duration::from_secs(15),
        tries: 2,
        patience: Duration::from_secs(10),
        pause: Duration::from_millis(500),
        ..redfish::Limits::default()
    };
    redfish::Client::new(config)
}

fn transport(address: &BmcAddress) -> &'static str {
    if address.tls { "https" } else { "http" }
}

pub fn authority(address: &BmcAddress) -> String {
    let host = &address.host;
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    format!("{host}:{}", address.port_or_default())
}

/// How far one got, by what went wrong.
fn judged(error: &redfish::Error) -> Bmc {
    let why = model::chain(error);
    match error {
        redfish::Error::Unreachable { .. } if why.contains("certificate") => Bmc::Untrusted { why },
        redfish::Error::Certificates { .. } => Bmc::Untrusted { why },
        redfish::Error::Unreachable { .. } | redfish::Error::Address { .. } => Bmc::Silent { why },
        redfish::Error::Login { .. }
        | redfish::Error::Refused {
            status: 401 | 403, ..
        } => Bmc::NotLetIn { why },
        redfish::Error::Refused { status: 404, .. }
        | redfish::Error::Unsupported { .. }
        | redfish::Error::Missing { .. } => Bmc::NoSystem { why },
        redfish::Error::Prepare { .. }
        | redfish::Error::Refused { .. }
        | redfish::Error::TooLarge { .. }
        | redfish::Error::NotJson { .. }
        | redfish::Error::Task { .. }
        | redfish::Error::Slow { .. } => Bmc::Unread { why },
    }
}

async fn details(client: &redfish::Client, system: redfish::System) -> Server {
    let (vendor, firmware, clock, secure_boot, media, licences, inventory) = tokio::join!(
        within(EACH, client.vendor()),
        within(EACH, client.bmc_version()),
        clock(client),
        within(EACH, client.secure_boot()),
        within(EACH, client.virtual_media()),
        within(EACH, client.licences()),
        within(EACH, client.inventory()),
    );
    let part = |fact: &Fact<model::inventory::Inventory>| match fact {
        Fact::Known(_) => String::new(),
        Fact::Unknown(why) => why.clone(),
        Fact::Unasked => "it was not asked".into(),
    };
    let why = part(&inventory);
    let inventory = inventory.known();
    Server {
        vendor: vendor.known().cloned().flatten().or(system.manufacturer),
        model: system.model,
        uuid: system.uuid,
        on: system.power.map(|power| power == Power::On),
        health: system.health,
        boot_mode: system.boot_mode.map(|mode| match mode {
            Booted::Uefi => BootMode::Uefi,
            Booted::Bios => BootMode::Legacy,
        }),
        boot_targets: Fact::Known(system.boot.targets),
        secure_boot: map(secure_boot, |secure| secure.map(|secure| secure.enabled)),
        clock_ahead: clock,
        firmware,
        nics: of(inventory, &why, |inventory| {
            let nics = inventory.interfaces.iter();
            nics.map(|nic| Nic {
                mac: nic.mac_address,
                link: nic.has_carrier,
            })
            .collect()
        }),
        disks: of(inventory, &why, |inventory| inventory.disks.clone()),
        memory_mib: said(
            of(inventory, &why, |inventory| inventory.memory.total >> 20),
            "the BMC does not say how much memory there is",
        ),
        cpus: said(
            of(inventory, &why, |inventory| inventory.cpu.count),
            "the BMC does not count the processors",
        ),
        architecture: of(inventory, &why, |inventory| {
            inventory.cpu.architecture.clone()
        }),
        media: map(media, |slots| {
            let slot = |slot: redfish::Slot| Slot {
                cd: slot.takes(Medium::Cd),
                image: slot.image.filter(|_| slot.inserted),
                id: slot.id,
            };
            slots.into_iter().map(slot).collect()
        }),
        licences,
    }
}

/// How far the BMC's clock is ahead of ours.
async fn clock(client: &redfish::Client) -> Fact<Option<i64>> {
    let shown = within(EACH, client.clock()).await;
    let now = seconds(SystemTime::now());
    match shown {
        Fact::Known(Some(text)) => match text.parse::<jiff::Timestamp>() {
            Ok(time) => Fact::Known(Some(time.as_second() - now)),
            Err(_) => Fact::Unknown("the BMC's clock cannot be read".into()),
        },
        Fact::Known(None) => Fact::Known(None),
        Fact::Unknown(why) => Fact::Unknown(why),
        Fact::Unasked => Fact::Unasked,
    }
}

fn map<T, U>(fact: Fact<T>, change: impl FnOnce(T) -> U) -> Fact<U> {
    match fact {
        Fact::Known(value) => Fact::Known(change(value)),
        Fact::Unknown(why) => Fact::Unknown(why),
        Fact::Unasked => Fact::Unasked,
    }
}

fn of<T, U>(whole: Option<&T>, why: &str, part: impl FnOnce(&T) -> U) -> Fact<U> {
    match whole {
        Some(whole) => Fact::Known(part(whole)),
        None => Fact::Unknown(why.into()),
    }
}

/// Zero is how a BMC says nothing.
fn said<T: Default + PartialEq>(fact: Fact<T>, why: &str) -> Fact<T> {
    match fact {
        Fact::Known(value) if value == T::default() => Fact::Unknown(why.into()),
        Fact::Known(value) => Fact::Known(value),
        Fact::Unknown(why) => Fact::Unknown(why),
        Fact::Unasked => Fact::Unasked,
    }
}

pub async fn ipmi_client(host: &Host) -> Result<ipmi::Client, ipmi::Error> {
    let mut config =
        ipmi::Config::new(&authority(&host.bmc), &host.username, host.password.clone());
    config.limits = ipmi::Limits {
        command: Duration::from_secs(10),
        attempts: 3,
        tries: 1,
        ..ipmi::Limits::default()
    };
    ipmi::Client::new(config).await
}

async fn ipmi(host: &Host) -> Bmc {
    let asked = async {
        let client = ipmi_client(host).await?;
        let device = client.device_id().await;
        let power = client.power().await;
        client.close().await;
        device.map(|device| (device, power))
    };
    match tokio::time::timeout(FIRST, asked).await {
        Ok(Ok((device, power))) => Bmc::Open(Box::new(by_ipmi(&device, &power))),
        Ok(Err(error)) => judged_by_ipmi(&error),
        Err(_) => Bmc::Silent {
            why: format!("no answer within {} s", FIRST.as_secs()),
        },
    }
}

fn judged_by_ipmi(error: &ipmi::Error) -> Bmc {
    let why = model::chain(error);
    match error {
        ipmi::Error::Talk { source, .. } => match source {
            console::Error::Password
            | console::Error::Impostor
            | console::Error::Raise { .. }
            | console::Error::Refused { .. } => Bmc::NotLetIn { why },
            console::Error::Silent { .. } => Bmc::Silent { why },
            console::Error::Crowded | console::Error::Closed => Bmc::Unread { why },
        },
        ipmi::Error::Resolve { .. }
        | ipmi::Error::NoAddress { .. }
        | ipmi::Error::Socket { .. }
        | ipmi::Error::Slow { .. } => Bmc::Silent { why },
        ipmi::Error::Answer { .. }
        | ipmi::Error::PowerStays { .. }
        | ipmi::Error::Console { .. }
        | ipmi::Error::Ended { .. } => Bmc::Unread { why },
    }
}

/// IPMI knows the switch and little else.
fn by_ipmi(device: &ipmi::DeviceId, power: &Result<Power, ipmi::Error>) -> Server {
    let (major, minor) = device.firmware;
    let version = format!("{major}.{minor:02}");
    Server {
        on: power.as_ref().ok().map(|power| *power == Power::On),
        firmware: Fact::Known(Some(version)),
        boot_targets: Fact::Known(vec!["Pxe".into(), "Hdd".into(), "Cd".into()]),
        secure_boot: Fact::Known(None),
        clock_ahead: unsaid(),
        nics: unsaid(),
        disks: unsaid(),
        memory_mib: unsaid(),
        cpus: unsaid(),
        architecture: unsaid(),
        media: unsaid(),
        licences: unsaid(),
        ..Server::default()
    }
}

fn unsaid<T>() -> Fact<T> {
    Fact::Unknown("IPMI does not say".into())
}
