//! Checks of the BMCs: can they be spoken to, and can they do what the plan wants of them?

use std::collections::BTreeMap;

use model::Scheme;

use super::firmware::{fault, media_licence};
use super::observed::{Bmc, Server};
use super::{Report, Site};
use crate::cluster::HostPlan;
use crate::install_config::{BootMode, Mode};

/// Certificates are good from an hour before they are made, and BMCs check ours.
const SKEW_SECONDS: u64 = 60;

const NOT_ASKED: &str = "the BMC was not asked";

/// Does the host boot from a CD behind its BMC?
pub fn uses_media(host: &HostPlan) -> bool {
    host.bmc.boot_interface.contains("virtual-media")
}

/// What the BMC says, or why it says nothing.
fn seen<'a>(site: &Site<'a>, host: &HostPlan) -> Result<&'a Server, &'a str> {
    match site.observed.bmcs.get(&host.name) {
        Some(Bmc::Open(server)) => Ok(server),
        Some(
            Bmc::Silent { why }
            | Bmc::Untrusted { why }
            | Bmc::NotLetIn { why }
            | Bmc::NoSystem { why }
            | Bmc::Unread { why },
        ) => Err(why),
        None => Err(NOT_ASKED),
    }
}

/// Every host whose BMC told about its server; the others are said to be unknown.
pub fn open<'a>(site: &Site<'a>, report: &mut Report) -> Vec<(&'a HostPlan, &'a Server)> {
    let mut open = Vec::new();
    for host in &site.plan.hosts {
        match seen(site, host) {
            Ok(server) => open.push((host, server)),
            Err(why) => report.unknown(&host.name, why),
        }
    }
    open
}

pub fn reachable(site: &Site, report: &mut Report) {
    for host in &site.plan.hosts {
        let address = &host.bmc.address;
        match site.observed.bmcs.get(&host.name) {
            None => report.unknown(&host.name, NOT_ASKED),
            Some(Bmc::Silent { why }) => report.bad(
                &host.name,
                format!("{address} does not answer: {why}"),
                "check the address, the cable of the BMC, and the route and firewall between",
            ),
            Some(
                Bmc::Untrusted { .. }
                | Bmc::NotLetIn { .. }
                | Bmc::NoSystem { .. }
                | Bmc::Unread { .. }
                | Bmc::Open(_),
            ) => report.pass(&host.name, format!("{address} answers")),
        }
    }
}

pub fn trusted(site: &Site, report: &mut Report) {
    for host in &site.plan.hosts {
        let bmc = &host.bmc;
        if !bmc.address.scheme.is_redfish() {
            report.pass(&host.name, "IPMI has no certificates");
            continue;
        }
        if !bmc.address.tls {
            report.warn(
                &host.name,
                "the password crosses the network in the clear",
                "leave +http out of the address, if the BMC can do HTTPS",
            );
            continue;
        }
        match site.observed.bmcs.get(&host.name) {
            None => report.unknown(&host.name, NOT_ASKED),
            Some(Bmc::Silent { why }) => report.unknown(&host.name, why),
            Some(Bmc::Untrusted { why }) => report.bad(
                &host.name,
                format!("its certificate is not trusted: {why}"),
                "give the authority in platform.baremetal.bmcVerifyCA, or write disableCertificateVerification: true for this host",
            ),
            Some(
                Bmc::NotLetIn { .. } | Bmc::NoSystem { .. } | Bmc::Unread { .. } | Bmc::Open(_),
            ) if bmc.verify => report.pass(&host.name, "its certificate is trusted"),
            Some(
                Bmc::NotLetIn { .. } | Bmc::NoSystem { .. } | Bmc::Unread { .. } | Bmc::Open(_),
            ) => report.pass(&host.name, "its certificate is not looked at, as configured"),
        }
    }
}

pub fn credentials(site: &Site, report: &mut Report) {
    for host in &site.plan.hosts {
        match site.observed.bmcs.get(&host.name) {
            None => report.unknown(&host.name, NOT_ASKED),
            Some(Bmc::Silent { why } | Bmc::Untrusted { why }) => report.unknown(&host.name, why),
            Some(Bmc::NotLetIn { why }) => report.bad(
                &host.name,
                format!("user {:?} is not let in: {why}", host.bmc.username),
                "correct bmc.username and bmc.password; some BMCs lock an account for minutes after wrong ones",
            ),
            Some(Bmc::NoSystem { .. } | Bmc::Unread { .. } | Bmc::Open(_)) => {
                report.pass(&host.name, format!("user {:?} is let in", host.bmc.username));
            }
        }
    }
}

pub fn system(site: &Site, report: &mut Report) {
    for host in &site.plan.hosts {
        match site.observed.bmcs.get(&host.name) {
            None => report.unknown(&host.name, NOT_ASKED),
            Some(
                Bmc::Silent { why }
                | Bmc::Untrusted { why }
                | Bmc::NotLetIn { why }
                | Bmc::Unread { why },
            ) => report.unknown(&host.name, why),
            Some(Bmc::NoSystem { why }) => report.bad(
                &host.name,
                format!("no one system is meant: {why}"),
                "write the system's path in bmc.address, such as /redfish/v1/Systems/1",
            ),
            Some(Bmc::Open(server)) => {
                let model = server.model.as_deref().unwrap_or("a system");
                report.pass(&host.name, format!("{model} is found"));
            }
        }
    }
}

pub fn unique(site: &Site, report: &mut Report) {
    let mut servers: BTreeMap<&str, &str> = BTreeMap::new();
    for (host, server) in open(site, report) {
        match server.uuid.as_deref() {
            None => report.unknown(&host.name, "the BMC gives the server no UUID"),
            Some(uuid) => match servers.insert(uuid, &host.name) {
                Some(other) => report.bad(
                    &host.name,
                    format!("it is the same server as {other}: both BMCs say {uuid}"),
                    "give each host a BMC, or a system, of its own",
                ),
                None => report.pass(&host.name, format!("it is the server {uuid}")),
            },
        }
    }
}

pub fn address(site: &Site, report: &mut Report) {
    for host in &site.plan.hosts {
        let Ok(address) = host.bmc.address.host.parse() else {
            report.pass(&host.name, "the BMC is named, not numbered");
            continue;
        };
        let vip = site.plan.vips.iter().find(|vip| vip.address == address);
        let ours = super::targets::bootstrap_addresses(site.plan).contains(&address)
            || site
                .plan
                .hosts
                .iter()
                .any(|host| host.addresses.contains(&address));
        let leased = super::wire::in_range(site, address);
        if let Some(vip) = vip {
            report.bad(
                &host.name,
                format!("its BMC has the address of the VIP {}", vip.name),
                "choose another VIP",
            );
        } else if ours {
            report.bad(
                &host.name,
                format!("its BMC has {address}, which a node is given as well"),
                "choose another static address",
            );
        } else if leased {
            report.bad(
                &host.name,
                format!("its BMC's {address} is within provisioningDHCPRange"),
                "take it out of the range, or it is given to a server",
            );
        } else {
            report.pass(
                &host.name,
                "no other part of the plan has the BMC's address",
            );
        }
    }
}

pub fn power(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        match server.on {
            Some(false) => report.pass(&host.name, "it is off"),
            Some(true) => report.bad(
                &host.name,
                "it is on: what runs there is ended, and its disk erased",
                "make sure that nobody needs it, or power it off",
            ),
            None => report.bad(
                &host.name,
                "the BMC does not say whether it is on",
                "look at the server; restarting its BMC often helps",
            ),
        }
    }
}

pub fn health(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        match server.health.as_deref() {
            None => report.unknown(&host.name, "the BMC does not judge the server's health"),
            Some("OK") => report.pass(&host.name, "the BMC calls the server healthy"),
            Some(health) => report.bad(
                &host.name,
                format!("the BMC calls the server's health {health}"),
                "look into the BMC's log for the part that failed",
            ),
        }
    }
}

pub fn clock(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let Some(ahead) = report.known(&host.name, &server.clock_ahead) else {
            continue;
        };
        match ahead {
            None => report.unknown(&host.name, "the BMC shows no clock"),
            Some(ahead) if ahead.unsigned_abs() <= SKEW_SECONDS => {
                report.pass(&host.name, format!("the BMC's clock is {ahead} s ahead"));
            }
            Some(ahead) => report.bad(
                &host.name,
                format!("the BMC's clock is {ahead} s ahead of this machine's"),
                "set the BMC's clock, or give it an NTP server: it refuses certificates that are not valid yet",
            ),
        }
    }
}

pub fn firmware(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let vendor = server.vendor.as_deref().unwrap_or_default();
        if host.bmc.address.scheme == Scheme::RedfishVirtualMedia
            && vendor.to_lowercase().contains("dell")
        {
            report.bad(
                &host.name,
                "redfish-virtualmedia does not boot a Dell",
                "write idrac-virtualmedia:// in its address",
            );
            continue;
        }
        let Some(version) = report.known(&host.name, &server.firmware) else {
            continue;
        };
        let Some(version) = version else {
            report.unknown(&host.name, "the BMC does not say its version");
            continue;
        };
        match fault(vendor, version, uses_media(host)) {
            Some(row) => report.bad(
                &host.name,
                format!("BMC firmware {version}: {}", row.what),
                format!("update it to {} or newer", row.good),
            ),
            None => report.pass(
                &host.name,
                format!("nothing is known against BMC firmware {version}"),
            ),
        }
    }
}

pub fn boot_mode(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let wanted = if host.boot_mode == BootMode::Legacy {
            BootMode::Legacy
        } else {
            BootMode::Uefi
        };
        match server.boot_mode {
            None => report.unknown(&host.name, "the BMC does not say how the server boots"),
            Some(mode) if mode == wanted => report.pass(&host.name, "it boots as the plan wants"),
            Some(BootMode::Legacy) => report.bad(
                &host.name,
                "it boots by legacy BIOS, and UEFI is wanted",
                "switch it to UEFI in its setup; not every BMC can do that at install time",
            ),
            Some(BootMode::Uefi | BootMode::UefiSecureBoot) => report.bad(
                &host.name,
                "it boots by UEFI, and legacy is wanted",
                "leave bootMode: legacy out, or switch the server in its setup",
            ),
        }
    }
}

pub fn boot_device(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let Some(targets) = report.known(&host.name, &server.boot_targets) else {
            continue;
        };
        let (wanted, name): (&[&str], _) = if uses_media(host) {
            (&["Cd", "UsbCd"], "a CD")
        } else {
            (&["Pxe", "UefiHttp"], "the network")
        };
        if targets.is_empty() {
            report.unknown(&host.name, "the BMC does not list boot devices");
        } else if targets
            .iter()
            .any(|target| wanted.contains(&target.as_str()))
        {
            report.pass(&host.name, format!("it can be told to boot from {name}"));
        } else {
            report.bad(
                &host.name,
                format!(
                    "it cannot be told to boot from {name}, only from {}",
                    targets.join(", ")
                ),
                "use another scheme in bmc.address, or switch the device on in the server's setup",
            );
        }
    }
}

pub fn secure_boot(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let wanted = host.boot_mode == BootMode::UefiSecureBoot;
        let Some(enabled) = report.known(&host.name, &server.secure_boot) else {
            continue;
        };
        match (wanted, enabled) {
            (true, None) => report.bad(
                &host.name,
                "secure boot is wanted, and the BMC shows none",
                "write bootMode: UEFI, or a host whose BMC can do it",
            ),
            (true, Some(_)) => report.pass(&host.name, "the BMC can switch secure boot"),
            (false, Some(true)) => report.warn(
                &host.name,
                "secure boot is on, and the plan does not want it",
                "write bootMode: UEFISecureBoot, or switch it off: the ramdisk may be refused",
            ),
            (false, Some(false) | None) => {
                report.pass(&host.name, "secure boot is off, as planned");
            }
        }
    }
}

pub fn media(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        if !uses_media(host) {
            report.pass(&host.name, "it boots over the network");
            continue;
        }
        let Some(slots) = report.known(&host.name, &server.media) else {
            continue;
        };
        if slots.iter().any(|slot| slot.cd) {
            report.pass(&host.name, "the BMC has a virtual CD drive");
        } else {
            let other = match site.plan.provisioning.mode {
                Mode::Disabled => "there is no provisioning network to boot from instead",
                Mode::Managed | Mode::Unmanaged => "or boot it over the network, with redfish://",
            };
            report.bad(
                &host.name,
                "the BMC has no virtual CD drive",
                format!("switch virtual media on in the BMC; {other}"),
            );
        }
    }
}

pub fn media_empty(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        if !uses_media(host) {
            report.pass(&host.name, "it boots over the network");
            continue;
        }
        let Some(slots) = report.known(&host.name, &server.media) else {
            continue;
        };
        let used = slots
            .iter()
            .find_map(|slot| Some((slot, slot.image.as_ref()?)));
        match used {
            None => report.pass(&host.name, "its virtual drives are empty"),
            Some((slot, image)) => report.bad(
                &host.name,
                format!("{image} is in its virtual drive {}", slot.id),
                "somebody may be at work there; it is ejected when the install begins",
            ),
        }
    }
}

pub fn licence(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let vendor = server.vendor.as_deref().unwrap_or_default();
        let words = media_licence(vendor).filter(|_| uses_media(host));
        let Some(words) = words else {
            report.pass(&host.name, "it needs no licence for what is planned");
            continue;
        };
        let Some(licences) = report.known(&host.name, &server.licences) else {
            continue;
        };
        let Some(licences) = licences else {
            report.unknown(
                &host.name,
                format!("{vendor} sells virtual media apart, and the BMC lists no licences"),
            );
            continue;
        };
        let fits = |name: &&String| words.iter().any(|word| name.to_lowercase().contains(word));
        match licences.iter().find(fits) {
            Some(name) => report.pass(&host.name, format!("licence {name:?} covers virtual media")),
            None => report.bad(
                &host.name,
                format!(
                    "none of its licences covers virtual media: {}",
                    listed(licences)
                ),
                format!("{vendor} needs one of the kind {}", words.join(" or ")),
            ),
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "it has none".into()
    } else {
        names.join(", ")
    }
}
