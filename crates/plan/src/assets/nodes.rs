//! Full configs: the bootstrap VM's, which holds those of the nodes, and the nodes' own.

use std::fmt::Write as _;

use model::Secret;

use super::daemons::{self, EXTERNAL, Mcs, PROVISIONING, node_name};
use super::ignition::Config;
use super::units::{
    APISERVER, BINARY, BOOTSTRAP_APISERVER, ETCD, IRONIC, LEAVE, MASTER_MCS, MCS, METAL3, NAME,
    NETD, NODE, ROUTER, leave_unit, name_unit,
};
use super::{Inputs, control_plane, kubeconfig, payload};
use crate::cluster::HostPlan;
use crate::install_config::{InstallConfig, Mode, Payload, Role};

const PKI: &str = "/etc/plinth/pki";

pub fn bootstrap(inputs: &Inputs) -> String {
    let mut config = bootstrap_machine(inputs);
    config.file(
        "/etc/plinth/mcs.yaml",
        0o600,
        daemons::mcs(inputs, Mcs::Bootstrap),
    );
    for pool in inputs.keys.pools.keys() {
        let full = node(inputs, pool, None);
        config.file(&format!("/etc/plinth/mcs/{pool}.ign"), 0o600, full);
    }
    for host in &inputs.plan.hosts {
        if let (Some(role), true) = (host.role, inputs.keys.hosts.contains_key(&host.name)) {
            let full = node(inputs, role.name(), Some(host));
            config.file(
                &format!("/etc/plinth/mcs/hosts/{}.ign", host.name),
                0o600,
                full,
            );
        }
    }
    bootstrap_ironic(&mut config, inputs, daemons::ironic(inputs, None));
    for name in [
        "mcs",
        "ironic",
        "apiserver",
        "bootstrap",
        "etcd-client",
        "front-proxy-client",
        "apiserver-kubelet-client",
    ] {
        pair(&mut config, inputs, name);
    }
    for name in ["root-ca", "kube-ca", "etcd-ca", "front-proxy-ca"] {
        authority(&mut config, inputs, name);
    }
    service_account(&mut config, inputs);
    config.file(
        "/etc/plinth/kubeconfig",
        0o600,
        kubeconfig::bootstrap(inputs),
    );
    for unit in [&NETD, &MCS, &IRONIC] {
        config.unit(&unit.name(), &unit.render_after(&[payload::UNIT]));
    }
    if inputs.plan.cluster.payload == Payload::Builtin {
        let unit = &BOOTSTRAP_APISERVER;
        config.file(
            "/etc/plinth/apiserver.yaml",
            0o600,
            control_plane::bootstrap_apiserver(inputs),
        );
        config.unit(&unit.name(), &unit.render_after(&[payload::UNIT]));
        config.unit(LEAVE, &leave_unit());
    }
    config.render()
}

/// A bootstrap VM that has Ironic and nothing else of a cluster: no host finds a config on it, and no API.
pub fn cleaner(inputs: &Inputs) -> String {
    let mut config = bootstrap_machine(inputs);
    bootstrap_ironic(&mut config, inputs, daemons::cleaning_ironic(inputs));
    pair(&mut config, inputs, "ironic");
    authority(&mut config, inputs, "root-ca");
    for unit in [&NETD, &IRONIC] {
        config.unit(&unit.name(), &unit.render_after(&[payload::UNIT]));
    }
    config.render()
}

/// The VM without its services: its name, the program, its links.
fn bootstrap_machine(inputs: &Inputs) -> Config {
    let mut config = common(inputs, "bootstrap");
    config.file("/etc/hostname", 0o644, "bootstrap\n");
    match &inputs.binary.bootstrap_url {
        Some(url) => _ = config.remote(BINARY, 0o755, url, &inputs.binary.sha256, None),
        None => payload::unit(&mut config),
    }
    for (path, text) in nics(inputs) {
        config.file(&format!("/etc/systemd/network/{path}"), 0o644, text);
    }
    config
}

fn bootstrap_ironic(config: &mut Config, inputs: &Inputs, settings: String) {
    config.file("/etc/plinth/ironic.yaml", 0o600, settings);
    let line = format!("bootstrap-user:{}\n", inputs.keys.ironic_hash.expose());
    config.file("/etc/plinth/ironic.htpasswd", 0o600, line);
}

/// Which etcd a master becomes a member of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Etcd {
    /// All masters form it together.
    New,
    /// The others are its members already.
    Existing,
}

/// What `mcs` answers: a node of a pool, or one host that is known by its token.
pub fn node(inputs: &Inputs, pool: &str, host: Option<&HostPlan>) -> String {
    let token = host
        .and_then(|host| inputs.keys.hosts.get(&host.name))
        .or_else(|| inputs.keys.pools.get(pool));
    full(inputs, pool, host, Etcd::New, token)
}

/// A master that takes a lost one's place. Masters give files to who knows the pool's secret; the tokens of hosts were
/// the bootstrap's.
pub fn joining(inputs: &Inputs, host: &HostPlan) -> String {
    let pool = Role::Master.name();
    let token = inputs.keys.pools.get(pool);
    full(inputs, pool, Some(host), Etcd::Existing, token)
}

fn full(
    inputs: &Inputs,
    pool: &str,
    host: Option<&HostPlan>,
    etcd: Etcd,
    token: Option<&Secret<String>>,
) -> String {
    let name = host.map_or(pool, node_name);
    let mut config = common(inputs, name);
    let sha256 = &inputs.binary.sha256;
    let (base, token) = match inputs.files_url() {
        // The checksum vouches for it, and came by TLS.
        Some(files) => (files, None),
        None => (inputs.mcs_url(), token),
    };
    let url = format!("{base}/files/{sha256}");
    config.remote(BINARY, 0o755, &url, sha256, token);
    config.file(
        &format!("{PKI}/root-ca.crt"),
        0o644,
        inputs.certificate("root-ca"),
    );
    config.file(
        &format!("{PKI}/kube-ca.crt"),
        0o644,
        inputs.certificate("kube-ca"),
    );
    if let Some(host) = host {
        config.file("/etc/hostname", 0o644, format!("{name}\n"));
        network(&mut config, host);
    }
    pair(&mut config, inputs, "node-bootstrapper");
    config.file("/etc/plinth/kubeconfig", 0o600, kubeconfig::node(inputs));
    config.unit(&NETD.name(), &NETD.render());
    if inputs.plan.cluster.payload == Payload::Builtin {
        joins(&mut config, inputs, pool, host);
    }
    if pool == Role::Master.name() {
        master(&mut config, inputs, host, etcd);
    }
    config.render()
}

/// What every node of the built-in payload runs to be one.
fn joins(config: &mut Config, inputs: &Inputs, pool: &str, host: Option<&HostPlan>) {
    let text = control_plane::node(inputs, pool, host);
    config.file("/etc/plinth/node.yaml", 0o600, text);
    config.unit(&NODE.name(), &NODE.render());
    if host.is_none() {
        config.unit(NAME, &name_unit());
    }
    if pool == Role::Worker.name() || inputs.plan.cluster.schedulable_masters {
        config.file("/etc/plinth/router.yaml", 0o644, "{}\n");
        config.unit(&ROUTER.name(), &ROUTER.render());
    }
}

fn master(config: &mut Config, inputs: &Inputs, host: Option<&HostPlan>, etcd: Etcd) {
    for name in [
        "kube-ca",
        "front-proxy-ca",
        "mcs",
        "ironic",
        "apiserver",
        "apiserver-kubelet-client",
        "controller-manager",
        "scheduler",
        "metal3",
        "front-proxy-client",
        "etcd-client",
    ] {
        pair(config, inputs, name);
    }
    config.file(
        &format!("{PKI}/etcd-ca.crt"),
        0o644,
        inputs.certificate("etcd-ca"),
    );
    if let Some(host) = host {
        pair(config, inputs, &format!("etcd-{}", node_name(host)));
        config.file(
            "/etc/plinth/etcd.yaml",
            0o600,
            control_plane::etcd(inputs, host, etcd),
        );
        config.unit(&ETCD.name(), &ETCD.render());
        if inputs.plan.cluster.payload == Payload::Builtin {
            builtin(config, inputs, host);
        }
    }
    service_account(config, inputs);
    config.file(
        "/etc/plinth/mcs.yaml",
        0o600,
        daemons::mcs(inputs, Mcs::Master(host)),
    );
    // A master serves those that join later: workers.
    if inputs.keys.pools.contains_key(Role::Worker.name()) {
        let worker = node(inputs, Role::Worker.name(), None);
        config.file("/etc/plinth/mcs/worker.ign", 0o600, worker);
    }
    config.unit(&MASTER_MCS.name(), &MASTER_MCS.render());
}

/// The API on the store of all masters, and metal3, which is active on one of them.
fn builtin(config: &mut Config, inputs: &Inputs, host: &HostPlan) {
    for (path, text) in [
        ("apiserver.yaml", control_plane::apiserver(inputs, host)),
        ("metal3.yaml", control_plane::metal3(inputs, host)),
        ("metal3.kubeconfig", kubeconfig::metal3(inputs)),
        ("ironic.yaml", daemons::ironic(inputs, Some(host))),
    ] {
        config.file(&format!("/etc/plinth/{path}"), 0o600, text);
    }
    let login = format!("metal3:{}\n", inputs.keys.ironic_hash.expose());
    config.file("/etc/plinth/ironic.htpasswd", 0o600, login);
    config.unit(&APISERVER.name(), &APISERVER.render());
    config.unit(&METAL3.name(), &METAL3.render());
}

/// What daemons say is also on the serial console: there when nothing else of a machine can be reached.
const JOURNAL: &str =
    "[Journal]\nForwardToConsole=yes\nTTYPath=/dev/console\nMaxLevelConsole=info\n";

fn common(inputs: &Inputs, name: &str) -> Config {
    let mut config = Config::default();
    config.file(
        "/etc/systemd/journald.conf.d/10-plinth-console.conf",
        0o644,
        JOURNAL,
    );
    config.authority(inputs.certificate("root-ca"));
    config.user("core", &inputs.config.ssh_keys);
    config.file("/etc/plinth/netd.yaml", 0o600, daemons::netd(inputs, name));
    if let Some(bundle) = &inputs.config.trust_bundle {
        config.file(
            "/usr/local/share/ca-certificates/plinth-additional.crt",
            0o644,
            &bundle.pem,
        );
    }
    if !inputs.plan.cluster.ntp_servers.is_empty() {
        let servers = inputs.plan.cluster.ntp_servers.join(" ");
        let text = format!("[Time]\nNTP={servers}\n");
        config.file("/etc/systemd/timesyncd.conf.d/10-plinth.conf", 0o644, text);
    }
    proxy(&mut config, inputs.config);
    config
}

fn proxy(config: &mut Config, install: &InstallConfig) {
    let Some(proxy) = &install.proxy else { return };
    let mut text = String::from("[Manager]\n");
    for (name, value) in [("HTTP_PROXY", &proxy.http), ("HTTPS_PROXY", &proxy.https)] {
        if let Some(value) = value {
            // systemd expands percent signs.
            let value = value.expose().replace('%', "%%");
            _ = writeln!(text, "DefaultEnvironment={name}={value}");
        }
    }
    _ = writeln!(
        text,
        "DefaultEnvironment=NO_PROXY={}",
        proxy.no_proxy.join(",")
    );
    config.file(
        "/etc/systemd/system.conf.d/10-plinth-proxy.conf",
        0o600,
        text,
    );
}

fn pair(config: &mut Config, inputs: &Inputs, name: &str) {
    config.file(
        &format!("{PKI}/{name}.crt"),
        0o644,
        inputs.certificate(name),
    );
    config.file(&format!("{PKI}/{name}.key"), 0o600, inputs.key(name));
}

fn authority(config: &mut Config, inputs: &Inputs, name: &str) {
    let path = format!("{PKI}/{name}.crt");
    config.file(&path, 0o644, inputs.certificate(name));
}

fn service_account(config: &mut Config, inputs: &Inputs) {
    let account = &inputs.keys.service_account;
    config.file(
        &format!("{PKI}/service-account.pub"),
        0o644,
        &account.public,
    );
    config.file(
        &format!("{PKI}/service-account.key"),
        0o600,
        account.private.expose(),
    );
}

/// Both managers get their files; whichever the image runs reads its own.
fn network(config: &mut Config, host: &HostPlan) {
    let Some(network) = &host.network else { return };
    for (name, text) in network.keyfiles() {
        config.file(
            &format!("/etc/NetworkManager/system-connections/{name}"),
            0o600,
            text,
        );
    }
    for (name, text) in network.networkd() {
        config.file(&format!("/etc/systemd/network/{name}"), 0o644, text);
    }
}

/// The bootstrap's two NICs by MAC: names that the daemons' files rely on, and addresses.
fn nics(inputs: &Inputs) -> Vec<(String, String)> {
    let bootstrap = &inputs.plan.bootstrap;
    let link = |mac: model::Mac, name: &str| {
        (
            format!("10-{name}.link"),
            format!("[Match]\nMACAddress={mac}\n\n[Link]\nName={name}\n"),
        )
    };
    let mut files = vec![link(bootstrap.external_mac, EXTERNAL)];
    let external = match &bootstrap.fixed {
        Some(fixed) => {
            let home = inputs
                .plan
                .networks
                .machine
                .iter()
                .find(|net| net.contains(&fixed.address));
            let prefix = home.map_or(24, ipnet::IpNet::prefix_len);
            format!(
                "Address={}/{prefix}\nGateway={}\nDNS={}\n",
                fixed.address, fixed.gateway, fixed.dns
            )
        }
        None => "DHCP=yes\n".to_owned(),
    };
    files.push((
        format!("20-{EXTERNAL}.network"),
        format!(
            "[Match]\nMACAddress={}\n\n[Network]\n{external}",
            bootstrap.external_mac
        ),
    ));
    let provisioning = &inputs.plan.provisioning;
    if let (Some(mac), Some(ip), Some(cidr), Mode::Managed | Mode::Unmanaged) = (
        bootstrap.provisioning_mac,
        provisioning.bootstrap_ip,
        provisioning.cidr,
        provisioning.mode,
    ) {
        files.push(link(mac, PROVISIONING));
        files.push((
            format!("20-{PROVISIONING}.network"),
            format!("[Match]\nMACAddress={mac}\n\n[Network]\nAddress={ip}/{}\nIPv6AcceptRA=no\nConfigureWithoutCarrier=yes\n", cidr.prefix_len()),
        ));
    }
    files
}
