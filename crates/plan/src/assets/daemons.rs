//! Configuration files of the daemons, `/etc/plinth/<daemon>.yaml`.

use std::net::IpAddr;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Inputs, payload, yaml};
use crate::cluster::{HostPlan, Looks, Pace};
use crate::install_config::{Mode, Payload, Role};

/// Names that the bootstrap's NICs get by their MAC, so that files can be written before it boots.
pub const EXTERNAL: &str = "external";
pub const PROVISIONING: &str = "provisioning";

/// `netd` of the node called `name`; `bootstrap` for the bootstrap VM, a role for any node of it.
pub fn netd(inputs: &Inputs, name: &str) -> String {
    let mut vips = Vec::new();
    let mut used = std::collections::BTreeSet::new();
    for vip in &inputs.plan.vips {
        // A pool's own file serves nodes that have no name yet: the lowest rank of the role.
        let holder = vip
            .holders
            .iter()
            .find(|holder| holder.node == name)
            .or_else(|| {
                vip.holders.iter().rfind(|holder| {
                    holder
                        .node
                        .rsplit_once('-')
                        .is_some_and(|(role, _)| role == name)
                })
            });
        let Some(holder) = holder else { continue };
        used.extend(holder.checks.iter().map(|check| check.check));
        let checks: Vec<Value> = holder
            .checks
            .iter()
            .map(|check| match check.weight {
                Some(weight) => json!({"check": check.check, "weight": weight}),
                None => json!({"check": check.check}),
            })
            .collect();
        vips.push(json!({
            "name": vip.name,
            "address": vip.address,
            "id": vip.vrid,
            "version": vip.vrrp_version,
            "advertise_ms": vip.advertise_ms,
            "priority": holder.base,
            "checks": checks,
        }));
    }
    let mut config = json!({"cluster": inputs.plan.cluster.name, "vips": vips});
    if used.contains("balancer") {
        config["lb"] = balancers(inputs);
    }
    names(inputs, name, &mut config);
    let checks: Vec<Value> = used.into_iter().map(|name| check(inputs, name)).collect();
    config["checks"] = checks.into();
    yaml(&config)
}

/// Answers for the cluster's names, and says who this node is.
fn names(inputs: &Inputs, name: &str, config: &mut Value) {
    let plan = inputs.plan;
    if !plan.cluster.internal_dns_records {
        return;
    }
    let host = plan
        .hosts
        .iter()
        .find(|host| host.node.as_deref() == Some(name));
    let fixed = plan
        .bootstrap
        .fixed
        .as_ref()
        .filter(|_| name == "bootstrap");
    let own = host.iter().flat_map(|host| &host.addresses).copied();
    let mut listen: Vec<IpAddr> = own.chain(fixed.map(|fixed| fixed.address)).collect();
    let mut networks = Vec::new();
    if listen.is_empty() {
        // The site's DHCP decides the node's address: its own programs are answered in any case.
        listen.push(IpAddr::from([127, 0, 0, 1]));
        networks.clone_from(&plan.networks.machine);
    }
    config["dns"] = json!({
        "listen": listen,
        "networks": networks,
        "domain": plan.cluster.domain,
        "api": plan.api_vips(),
        "ingress": plan.ingress_vips(),
        "etcd_minimum": plan.cluster.masters,
        "resolv_conf": {},
    });
    let role = host
        .and_then(|host| host.role)
        .map_or(name, |role| role.name());
    config["mdns"] = json!({
        "publish": name != "bootstrap",
        // Not by the provisioning network: its addresses are lent.
        "networks": plan.networks.machine,
        "etcd": role == Role::Master.name(),
    });
    if let Some(host) = host {
        config["mdns"]["host"] = json!(host.node);
    }
}

fn check(inputs: &Inputs, name: &str) -> Value {
    let ports = &inputs.plan.ports;
    let Looks {
        interval_ms,
        timeout_ms,
    } = Pace::of(inputs.plan.cluster.hardware_speed).checks;
    let http = |url: String, insecure: bool| {
        let mut look = json!({"url": url});
        if insecure {
            look["insecure"] = json!(true);
        }
        json!({"name": name, "http": look, "interval_ms": interval_ms, "timeout_ms": timeout_ms})
    };
    let https =
        |port: &str, path: &str| http(format!("https://127.0.0.1:{}{path}", ports[port]), true);
    match name {
        // It hears of changes; the interval is for nothing but safety.
        "balancer" => json!({"name": name, "lb": {"listener": "api"}, "interval_ms": 1000}),
        // The balancer looks far more often, where its clients are.
        "api" => https("api", "/readyz"),
        "mcs" => https("mcs", "/healthz"),
        "ingress" => http("http://127.0.0.1:1936/healthz".into(), false),
        _ => http("http://127.0.0.1:1936/healthz/ready".into(), false),
    }
}

/// The servers have their ports on every address, so these are led to the balancer by a redirect.
fn balancers(inputs: &Inputs) -> Value {
    let ports = &inputs.plan.ports;
    let vips = inputs.plan.api_vips();
    let pace = Pace::of(inputs.plan.cluster.hardware_speed);
    let families = [("0.0.0.0", true), ("[::]", false)];
    let listen = families
        .iter()
        .filter(|(_, v4)| vips.iter().any(|vip| vip.is_ipv4() == *v4));
    let listener = |name: &str, balancer: &str, check: Value| {
        let port = ports[balancer];
        let listen = listen.clone().map(|(any, _)| format!("{any}:{port}"));
        let mut listener = json!({
            "name": name,
            "listen": listen.collect::<Vec<_>>(),
            "redirect": {"addresses": vips, "port": ports[name]},
            "members": {"port": ports[name]},
            "check": check,
        });
        let looks = if name == "api" {
            pace.api_looks
        } else {
            Some(pace.other_looks)
        };
        if let Some(looks) = looks {
            listener["check"]["interval_ms"] = json!(looks.interval_ms);
            listener["check"]["timeout_ms"] = json!(looks.timeout_ms);
        }
        listener
    };
    let https = |path: &str| json!({"https": path});
    let mut all = vec![
        listener("api", "balancer", https("/readyz")),
        listener("mcs", "balancer-mcs", https("/healthz")),
    ];
    if inputs.plan.cluster.payload == Payload::Builtin {
        // On one master at a time; agents find it wherever it is.
        all.push(listener("ironic", "balancer-ironic", https("/")));
        if inputs.plan.provisioning.mode == Mode::Disabled {
            // With a provisioning network images are at its address.
            all.push(listener(
                "boot-http",
                "balancer-boot-http",
                json!({"tcp": true}),
            ));
        }
    }
    all.into()
}

/// Where an `mcs` runs.
#[derive(Clone, Copy)]
pub enum Mcs<'a> {
    Bootstrap,
    /// A master; which one is known if it has a config of its own.
    Master(Option<&'a HostPlan>),
}

/// Between the moments at which two masters begin to fetch the payload: all at once they would keep the API, which has
/// only just formed, from answering.
const TURN_S: usize = 20;

/// `mcs`: on the bootstrap it serves every pool and the control plane's hosts; on masters those that join later.
pub fn mcs(inputs: &Inputs, place: Mcs) -> String {
    let bootstrap = matches!(place, Mcs::Bootstrap);
    let dir = "/etc/plinth/mcs";
    let mut pools = Vec::new();
    for (pool, secret) in &inputs.keys.pools {
        if bootstrap || pool == Role::Worker.name() {
            pools.push(json!({
                "name": pool,
                "secret_sha256": sha256(secret.expose()),
                "config": format!("{dir}/{pool}.ign"),
            }));
        }
    }
    let mut hosts = Vec::new();
    for host in inputs.plan.hosts.iter().filter(|_| bootstrap) {
        if let (Some(token), Some(role)) = (inputs.keys.hosts.get(&host.name), host.role) {
            hosts.push(json!({
                "name": host.name,
                "pool": role.name(),
                "token_sha256": sha256(token.expose()),
                "config": format!("{dir}/hosts/{}.ign", host.name),
            }));
        }
    }
    let mut config = json!({
        "listen": format!("[::]:{}", inputs.plan.ports["mcs"]),
        "public": format!("[::]:{}", inputs.plan.ports["mcs-files"]),
        "tls": {"certificate": "/etc/plinth/pki/mcs.crt", "key": "/etc/plinth/pki/mcs.key"},
        "state": "/var/lib/plinth/mcs",
        "files": "/var/lib/plinth/files",
        "payload": payload::MOUNT,
        "pools": pools,
        "hosts": hosts,
    });
    if let Mcs::Master(host) = place
        && let Some(secret) = inputs.keys.pools.get(Role::Master.name())
    {
        // From whoever has the API's address: the bootstrap at first, another master later.
        config["replicate"] = json!({
            "from": inputs.mcs_url(),
            "files": inputs.files_url(),
            "ca": "/etc/plinth/pki/root-ca.crt",
            "secret": secret.expose(),
        });
        if inputs.plan.cluster.payload == Payload::Builtin {
            // A node that has joined: to fetch images while etcd forms would hold it up.
            config["replicate"]["after"] = json!("/var/lib/plinth/node/identity.pem");
            let mut masters = inputs.plan.with_role(Role::Master);
            let turn = masters.position(|master| host.is_some_and(|host| host.name == master.name));
            config["replicate"]["delay_s"] = json!(turn.unwrap_or(0) * TURN_S);
        }
        config["readers"] = json!([
            {"name": "control-plane", "secret_sha256": sha256(secret.expose())},
        ]);
    }
    yaml(&config)
}

pub fn sha256(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// `ironic` on the bootstrap VM, for the control plane's MACs and those of nodes it has; or on a master, for those that
/// come later.
pub fn ironic(inputs: &Inputs, master: Option<&HostPlan>) -> String {
    yaml(&ironic_settings(inputs, master))
}

/// `ironic` on a bootstrap VM that cleans: a host is off when it has done with it.
pub fn cleaning_ironic(inputs: &Inputs) -> String {
    let mut config = ironic_settings(inputs, None);
    config["fast_track"] = json!(false);
    config["automated_clean"] = json!(true);
    yaml(&config)
}

fn ironic_settings(inputs: &Inputs, master: Option<&HostPlan>) -> Value {
    let ports = &inputs.plan.ports;
    let images = format!("{}/images", payload::MOUNT);
    let mut config = json!({
        "listen": format!("[::]:{}", ports["ironic"]),
        // Discs take the authority along, by which agents know the service.
        "tls": {
            "certificate": "/etc/plinth/pki/ironic.crt",
            "key": "/etc/plinth/pki/ironic.key",
            "ca": "/etc/plinth/pki/root-ca.crt",
        },
        "auth": {"htpasswd": "/etc/plinth/ironic.htpasswd"},
        "state": "/var/lib/plinth/ironic/ironic.redb",
        "host": master.map_or("bootstrap", node_name),
        "fast_track": true,
        "kexec": inputs.plan.provisioning.kexec,
        "timers": {"deploy_callback": inputs.plan.timeouts.deploy_callback},
        "deploy": {"image_directories": [images], "public_images": [images]},
    });
    if inputs.plan.provisioning.mode == Mode::Disabled {
        // Agents call the API's address; with a provisioning network they call Ironic's own.
        config["public_endpoint"] = match inputs.plan.api_vips().first() {
            Some(IpAddr::V4(vip)) => json!(format!("https://{vip}:{}", ports["ironic"])),
            Some(IpAddr::V6(vip)) => json!(format!("https://[{vip}]:{}", ports["ironic"])),
            None => Value::Null,
        };
    }
    let boot = match master {
        None => bootstrap_boot(inputs),
        Some(host) => cluster_boot(inputs, host),
    };
    if let Some(boot) = boot {
        config["boot"] = boot;
    }
    config
}

/// The boot services; over IPv6 alone there are none yet.
fn bootstrap_boot(inputs: &Inputs) -> Option<Value> {
    let provisioning = &inputs.plan.provisioning;
    let (interface, address, prefix) = match provisioning.mode {
        Mode::Managed | Mode::Unmanaged => (
            PROVISIONING,
            provisioning.bootstrap_ip?,
            provisioning.cidr?.prefix_len(),
        ),
        Mode::Disabled => {
            // Without an address of its own that is known, BMCs find the media behind the VIP.
            let fixed = inputs
                .plan
                .bootstrap
                .fixed
                .as_ref()
                .map(|fixed| fixed.address);
            let own = fixed.or(inputs.plan.api_vips().first().copied())?;
            let home = inputs
                .plan
                .networks
                .machine
                .iter()
                .find(|net| net.contains(&own));
            (EXTERNAL, own, home.map_or(24, ipnet::IpNet::prefix_len))
        }
    };
    let macs = provisioning.control_plane_macs.iter();
    let known = json!({
        "allow": "known",
        "hosts": macs.map(|mac| json!({"mac": mac})).collect::<Vec<_>>(),
    });
    boot(inputs, interface, address, prefix, &known)
}

/// What holds on this master whatever the Provisioning object says. metal3 puts the link and the address of the
/// provisioning network in; without such a network a static address of the host's own is served from.
fn cluster_boot(inputs: &Inputs, host: &HostPlan) -> Option<Value> {
    let provisioning = &inputs.plan.provisioning;
    let place = match (provisioning.mode, provisioning.cluster_ip) {
        (Mode::Managed | Mode::Unmanaged, Some(address)) => {
            let interface = provisioning.interface.clone().unwrap_or_default();
            Some((interface, address, provisioning.cidr?.prefix_len()))
        }
        (Mode::Managed | Mode::Unmanaged, None) => None,
        (Mode::Disabled, _) => own_place(inputs, host),
    };
    let (interface, address, prefix) = place?;
    boot(inputs, &interface, address, prefix, &json!({}))
}

/// The host's interface on the machine network, if its address is static.
fn own_place(inputs: &Inputs, host: &HostPlan) -> Option<(String, IpAddr, u8)> {
    let interfaces = host.network.as_ref()?.interfaces.iter();
    interfaces
        .flat_map(|interface| {
            let addresses = interface.ipv4.addresses.iter();
            let addresses = addresses.chain(&interface.ipv6.addresses);
            addresses.map(|net| (interface.name.clone(), net.addr(), net.prefix_len()))
        })
        .find(|(_, address, _)| {
            let machine = &inputs.plan.networks.machine;
            machine.iter().any(|net| net.contains(address))
        })
}

fn boot(
    inputs: &Inputs,
    interface: &str,
    address: IpAddr,
    prefix: u8,
    clients: &Value,
) -> Option<Value> {
    let provisioning = &inputs.plan.provisioning;
    let ports = &inputs.plan.ports;
    if !address.is_ipv4() {
        return None;
    }
    let dhcp = match provisioning.mode {
        Mode::Managed => {
            let (first, last) = provisioning.dhcp_range?;
            let mut dhcp = json!({
                "mode": "server",
                "ranges": [format!("{first},{last}")],
                "router": provisioning.gateway,
            });
            for (key, value) in clients.as_object().into_iter().flatten() {
                dhcp[key] = value.clone();
            }
            dhcp
        }
        Mode::Unmanaged => json!({"mode": "proxy"}),
        Mode::Disabled => json!({"mode": "off"}),
    };
    Some(json!({
        "interface": interface,
        "address": format!("{address}/{prefix}"),
        "dhcp": dhcp,
        "tftp_port": ports["tftp"],
        "http_port": ports["boot-http"],
        // What the installer's disc brought, and every master has of it.
        "loaders": format!("{}/ipxe", payload::MOUNT),
        "ramdisk": {
            "kernel": format!("{}/ramdisk/vmlinuz", payload::MOUNT),
            "initrd": format!("{}/ramdisk/initrd", payload::MOUNT),
        },
        "media": {"port": ports["virtual-media"]},
    }))
}

/// The node's file name among hosts of its role.
pub fn node_name(host: &HostPlan) -> &str {
    host.node.as_deref().unwrap_or(&host.name)
}
