//! `platform.baremetal`: the bootstrap VM, images, and what is said elsewhere put together.

use std::net::IpAddr;

use model::Mac;

use super::super::written::{self, Written};
use super::super::{BareMetal, BootstrapStatic, HardwareSpeed, Image, Mode, Networking, Pool};
use super::text::{check_certificates, is_sha256, is_subdomain, shown};
use super::{hosts, known, provisioning, vips};
use crate::problem::Problems;

const PATH: &str = "platform.baremetal";

pub fn resolve(
    written: &Written,
    networking: &Networking,
    pools: [&Pool; 3],
    problems: &mut Problems,
) -> Option<BareMetal> {
    let Some(baremetal) = written.platform.as_ref().and_then(|p| p.baremetal.as_ref()) else {
        problems.add(
            PATH,
            "is missing",
            "write platform.baremetal with apiVIPs, ingressVIPs and hosts",
        );
        return None;
    };
    let at = |field: &str| format!("{PATH}.{field}");
    let balancer = baremetal
        .load_balancer
        .as_ref()
        .and_then(|lb| lb.kind.as_deref());
    let balancer = balancer.unwrap_or_default();
    known(
        &at("loadBalancer.type"),
        balancer,
        &["OpenShiftManagedDefault", "UserManaged"],
        problems,
    );
    let managed = balancer != "UserManaged";
    let records = baremetal.dns_records_type.as_deref().unwrap_or_default();
    known(
        &at("dnsRecordsType"),
        records,
        &["Internal", "External"],
        problems,
    );
    if records == "External" && managed {
        problems.add(
            at("dnsRecordsType"),
            "External needs a load balancer of your own",
            "write Internal, or loadBalancer.type: UserManaged",
        );
    }
    let api_vips = vips::resolve(
        "apiVIPs",
        baremetal.api_vips.as_ref(),
        networking,
        managed,
        problems,
    );
    let ingress_vips = vips::resolve(
        "ingressVIPs",
        baremetal.ingress_vips.as_ref(),
        networking,
        managed,
        problems,
    );
    for (index, vip) in ingress_vips.iter().enumerate() {
        if managed && api_vips.contains(vip) {
            problems.add(
                format!("{PATH}.ingressVIPs[{index}]"),
                format!("{vip} is an API VIP too"),
                "reserve another address of the machine network",
            );
        }
    }
    if !api_vips.is_empty() && !ingress_vips.is_empty() && api_vips.len() != ingress_vips.len() {
        problems.add(
            at("ingressVIPs"),
            format!(
                "{} of them, but {} apiVIPs",
                ingress_vips.len(),
                api_vips.len()
            ),
            "write the same families for both",
        );
    }
    let provisioning = provisioning::resolve(baremetal, networking, problems);
    let taken: Vec<IpAddr> = api_vips.iter().chain(&ingress_vips).copied().collect();
    vips::check_neighbours(&taken, provisioning.as_ref(), problems);
    let bootstrap_static = bootstrap_static(baremetal, networking, &taken, problems);
    let (external_mac, provisioning_mac) = macs(baremetal, problems);
    let mode = provisioning.as_ref().map(|p| p.mode);
    let hosts = hosts::resolve(baremetal, mode, pools, &taken, problems);
    for (field, value) in [
        ("externalBridge", &baremetal.external_bridge),
        ("provisioningBridge", &baremetal.provisioning_bridge),
        (
            "provisioningNetworkInterface",
            &baremetal.provisioning_network_interface,
        ),
    ] {
        if let Some(name) = value
            && (name.is_empty() || name.len() > 15 || name.contains(['/', ' ']))
        {
            problems.add(
                at(field),
                format!("{} is not an interface's name", shown(name)),
                "write one of at most 15 characters",
            );
        }
    }
    let uri = baremetal.libvirt_uri.clone().unwrap_or_default();
    if uri
        .split_once("://")
        .is_none_or(|(scheme, _)| scheme.is_empty())
    {
        problems.add(
            at("libvirtURI"),
            format!("{} is not an absolute URI", shown(&uri)),
            "write qemu:///system, or remove it",
        );
    }
    let bootstrap_os_image = image(
        "bootstrapOSImage",
        baremetal.bootstrap_os_image.as_deref(),
        problems,
    );
    let cluster_os_image = image(
        "clusterOSImage",
        baremetal.cluster_os_image.as_deref(),
        problems,
    );
    let ntp_servers: Vec<String> = baremetal
        .additional_ntp_servers
        .iter()
        .flatten()
        .cloned()
        .collect();
    for (index, server) in ntp_servers.iter().enumerate() {
        if server.parse::<IpAddr>().is_err() && !is_subdomain(&server.to_lowercase()) {
            problems.add(
                format!("{PATH}.additionalNTPServers[{index}]"),
                format!("{} is neither an address nor a name", shown(server)),
                "write one such as 192.0.2.1 or ntp.example.com",
            );
        }
    }
    if let Some(pem) = &baremetal.bmc_verify_ca {
        check_certificates(&at("bmcVerifyCA"), pem, problems);
    }
    if baremetal.bgp_vip_config.is_some() {
        problems.add(
            at("bgpVIPConfig"),
            "is not supported: VIPs move by VRRP",
            "remove it, or use loadBalancer.type: UserManaged",
        );
    }
    let hardware_speed = hardware_speed(baremetal, problems);
    let provisioning = provisioning?;
    let bridged = provisioning.mode != Mode::Disabled;
    Some(BareMetal {
        api_vips,
        ingress_vips,
        hosts,
        provisioning_bridge: bridged.then(|| {
            baremetal
                .provisioning_bridge
                .clone()
                .unwrap_or_else(|| "provisioning".into())
        }),
        provisioning,
        provisioning_mac,
        external_bridge: baremetal.external_bridge.clone().unwrap_or_default(),
        external_mac,
        bootstrap_static,
        bootstrap_os_image,
        cluster_os_image,
        libvirt_uri: uri,
        ntp_servers,
        managed_load_balancer: managed,
        external_dns_records: records == "External",
        bmc_verify_ca: baremetal.bmc_verify_ca.clone(),
        kexec: baremetal.kexec.unwrap_or_default(),
        hardware_speed,
    })
}

fn hardware_speed(baremetal: &written::BareMetal, problems: &mut Problems) -> HardwareSpeed {
    let field = format!("{PATH}.controlPlaneHardwareSpeed");
    let Some(word) = &baremetal.control_plane_hardware_speed else {
        return HardwareSpeed::default();
    };
    known(&field, word, &["Standard", "Slower"], problems);
    if word == "Slower" {
        HardwareSpeed::Slower
    } else {
        HardwareSpeed::Standard
    }
}

fn bootstrap_static(
    baremetal: &written::BareMetal,
    networking: &Networking,
    vips: &[IpAddr],
    problems: &mut Problems,
) -> Option<BootstrapStatic> {
    let fields = [
        (
            "bootstrapExternalStaticIP",
            &baremetal.bootstrap_external_static_ip,
        ),
        (
            "bootstrapExternalStaticGateway",
            &baremetal.bootstrap_external_static_gateway,
        ),
        (
            "bootstrapExternalStaticDNS",
            &baremetal.bootstrap_external_static_dns,
        ),
    ];
    if fields.iter().all(|(_, value)| value.is_none()) {
        return None;
    }
    let mut parsed = Vec::new();
    for (field, value) in fields {
        let path = format!("{PATH}.{field}");
        match value.as_deref().map(str::parse::<IpAddr>) {
            Some(Ok(address)) => parsed.push(address),
            Some(Err(_)) => {
                problems.add(path, "is not an IP address", "write one such as 192.0.2.9");
            }
            None => problems.add(
                path,
                "is missing",
                "write address, gateway and DNS, or none of them",
            ),
        }
    }
    let [address, gateway, dns] = parsed[..] else {
        return None;
    };
    if address.is_ipv4() != gateway.is_ipv4() {
        problems.add(
            format!("{PATH}.bootstrapExternalStaticGateway"),
            format!("{gateway} and {address} are of two families"),
            "write one family",
        );
    }
    if vips.contains(&address) {
        problems.add(
            format!("{PATH}.bootstrapExternalStaticIP"),
            format!("{address} is a VIP too"),
            "write another address of the machine network",
        );
    }
    if !networking.machine.iter().any(|net| net.contains(&address)) {
        problems.add(
            format!("{PATH}.bootstrapExternalStaticIP"),
            format!("{address} is in no machine network"),
            "write an address of the machine network",
        );
    }
    Some(BootstrapStatic {
        address,
        gateway,
        dns,
    })
}

fn macs(baremetal: &written::BareMetal, problems: &mut Problems) -> (Option<Mac>, Option<Mac>) {
    let mut mac = |field: &str, text: Option<&String>| {
        let path = format!("{PATH}.{field}");
        match text?.parse::<Mac>() {
            Ok(mac) if mac.is_multicast() => {
                problems.add(
                    path,
                    format!("{mac} is a multicast address"),
                    "write a unicast MAC, with an even first pair",
                );
                None
            }
            Ok(mac) => Some(mac),
            Err(error) => {
                problems.add(path, error.to_string(), "");
                None
            }
        }
    };
    let external = mac(
        "externalMACAddress",
        baremetal.external_mac_address.as_ref(),
    );
    let provisioning = mac(
        "provisioningMACAddress",
        baremetal.provisioning_mac_address.as_ref(),
    );
    if external.is_some() && external == provisioning {
        problems.add(
            format!("{PATH}.provisioningMACAddress"),
            "is externalMACAddress too",
            "the bootstrap VM has two NICs: write two addresses",
        );
    }
    (external, provisioning)
}

/// An image's URL carries its checksum.
fn image(field: &str, text: Option<&str>, problems: &mut Problems) -> Option<Image> {
    let text = text?;
    let path = format!("{PATH}.{field}");
    let remedy = "write http(s)://host/image.qcow2.gz?sha256=<64 hexadecimal digits>";
    let url = url::Url::parse(text).ok();
    let Some(mut url) =
        url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    else {
        problems.add(path, "is not an http or https URL", remedy);
        return None;
    };
    let sum = url
        .query_pairs()
        .find(|(key, _)| key == "sha256")
        .map(|(_, sum)| sum.into_owned());
    let Some(sha256) = sum.filter(|sum| is_sha256(sum)) else {
        problems.add(path, "has no checksum", remedy);
        return None;
    };
    let rest: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(key, _)| key != "sha256")
        .map(|(k, v)| (k.into_owned(), v.into_owned()))
        .collect();
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    Some(Image {
        url: url.into(),
        sha256: sha256.to_lowercase(),
    })
}
