//! Networks of machines, pods and services.

use ipnet::IpNet;

use super::super::written::{self, Written};
use super::super::{ClusterNetwork, Networking, Pool};
use super::text::shown;
use crate::problem::Problems;

/// What OVN uses inside, besides the join network.
const OVN_INTERNAL: [(&str, &str); 5] = [
    ("100.88.0.0/16", "transit"),
    ("169.254.0.0/17", "masquerade"),
    ("fd98::/64", "join"),
    ("fd97::/64", "transit"),
    ("fd69::/112", "masquerade"),
];

const DOCKER: &str = "172.17.0.0/16";

pub fn resolve(
    written: &Written,
    control_plane: &Pool,
    compute: &Pool,
    problems: &mut Problems,
) -> Networking {
    let empty = written::Networking::default();
    let networking = written.networking.as_ref().unwrap_or(&empty);
    let mut named: Vec<(String, IpNet)> = Vec::new();
    let mut machine = Vec::new();
    for (at, network) in networking.machine_network.iter().enumerate() {
        let path = format!("networking.machineNetwork[{at}].cidr");
        let cidr = network.as_ref().and_then(|network| network.cidr.as_deref());
        if let Some(net) = parse_net(&path, cidr.unwrap_or_default(), problems) {
            machine.push(net);
            named.push((path, net));
        }
    }
    let cluster = cluster(networking, &mut named, problems);
    let mut service = Vec::new();
    for (at, cidr) in networking.service_network.iter().enumerate() {
        let path = format!("networking.serviceNetwork[{at}]");
        let Some(net) = parse_net(&path, cidr.as_deref().unwrap_or_default(), problems) else {
            continue;
        };
        let (least, good) = if net.addr().is_ipv4() {
            (12, 16)
        } else {
            (108, 112)
        };
        if net.prefix_len() < least {
            problems.add(
                &path,
                format!("/{} is too large", net.prefix_len()),
                format!("write a prefix of at least /{least}, such as /{good}"),
            );
        }
        service.push(net);
        named.push((path, net));
    }
    let nodes = u64::from(control_plane.replicas) + u64::from(compute.replicas);
    let join = join(networking, nodes, &mut named, problems);
    overlaps(&named, problems);
    families(&machine, &cluster, &service, problems);
    if networking.cluster_network_mtu.is_some() {
        problems.add(
            "networking.clusterNetworkMTU",
            "is not possible on bare metal",
            "remove it",
        );
    }
    Networking {
        network_type: network_type(networking, problems),
        machine,
        cluster,
        service,
        join,
    }
}

/// A network without host bits.
pub fn parse_net(path: &str, text: &str, problems: &mut Problems) -> Option<IpNet> {
    let Ok(net) = text.parse::<IpNet>() else {
        let what = if text.is_empty() {
            "is missing".to_owned()
        } else {
            format!("{} is not a network", shown(text))
        };
        problems.add(path, what, "write address/prefix, such as 192.0.2.0/24");
        return None;
    };
    if net.addr() != net.network() {
        problems.add(
            path,
            format!("{net} has bits of a host"),
            format!("write {}", net.trunc()),
        );
    }
    Some(net.trunc())
}

fn cluster(
    networking: &written::Networking,
    named: &mut Vec<(String, IpNet)>,
    problems: &mut Problems,
) -> Vec<ClusterNetwork> {
    let mut cluster: Vec<ClusterNetwork> = Vec::new();
    for (at, network) in networking.cluster_network.iter().enumerate() {
        let path = format!("networking.clusterNetwork[{at}]");
        let empty = written::ClusterNetwork::default();
        let network = network.as_ref().unwrap_or(&empty);
        let cidr_path = format!("{path}.cidr");
        let cidr = network.cidr.as_deref().unwrap_or_default();
        let Some(cidr) = parse_net(&cidr_path, cidr, problems) else {
            continue;
        };
        named.push((cidr_path, cidr));
        let prefix = network.host_prefix.unwrap_or(0);
        let path = format!("{path}.hostPrefix");
        let v4 = cidr.addr().is_ipv4();
        if !v4 && prefix != 64 {
            problems.add(
                path,
                format!("{prefix} is not possible with IPv6"),
                "write 64",
            );
        } else if v4 && !(i64::from(cidr.prefix_len())..=30).contains(&prefix) {
            problems.add(
                path,
                format!("{prefix} does not fit into {cidr}"),
                format!("write a number from {} to 30", cidr.prefix_len()),
            );
        } else if v4
            && let Some(other) = cluster
                .iter()
                .find(|other| other.cidr.addr().is_ipv4() && i64::from(other.host_prefix) != prefix)
        {
            problems.add(
                path,
                format!(
                    "{prefix} differs from {} of {}",
                    other.host_prefix, other.cidr
                ),
                "write the same for all IPv4 networks",
            );
        } else {
            cluster.push(ClusterNetwork {
                cidr,
                host_prefix: prefix as u8,
            });
        }
    }
    cluster
}

fn join(
    networking: &written::Networking,
    nodes: u64,
    named: &mut Vec<(String, IpNet)>,
    problems: &mut Problems,
) -> IpNet {
    let default = "100.64.0.0/16".parse().expect("a network");
    let written = networking
        .ovn_kubernetes_config
        .as_ref()
        .and_then(|config| config.ipv4.as_ref())
        .and_then(|ipv4| ipv4.internal_join_subnet.as_deref());
    let path = "networking.ovnKubernetesConfig.ipv4.internalJoinSubnet";
    let Some(text) = written else {
        named.push((path.into(), default));
        return default;
    };
    let Some(net) = parse_net(path, text, problems) else {
        return default;
    };
    if !net.addr().is_ipv4() {
        problems.add(path, format!("{net} is not IPv4"), "write an IPv4 network");
        return default;
    }
    let addresses = 1_u64 << (32 - u32::from(net.prefix_len()));
    if addresses < nodes + 3 {
        problems.add(
            path,
            format!("{net} has {addresses} addresses for {nodes} nodes"),
            "write a larger network, such as 100.64.0.0/16",
        );
    }
    named.push((path.into(), net));
    net
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

fn overlaps(named: &[(String, IpNet)], problems: &mut Problems) {
    for (at, (path, net)) in named.iter().enumerate() {
        for (other_path, other) in &named[..at] {
            if overlap(net, other) {
                problems.add(
                    path,
                    format!("{net} overlaps {other} of {other_path}"),
                    "choose networks that are apart",
                );
            }
        }
        for (internal, what) in OVN_INTERNAL {
            let internal: IpNet = internal.parse().expect("a network");
            if overlap(net, &internal) {
                problems.add(
                    path,
                    format!("{net} overlaps {internal}, the {what} network of OVN"),
                    "choose another network",
                );
            }
        }
        if overlap(net, &DOCKER.parse().expect("a network")) {
            problems.warn(
                path,
                format!("{net} overlaps {DOCKER}, which container runtimes like to use"),
                "choose another network if you can",
            );
        }
    }
}

/// Single or dual stack is told by the services; the other lists must follow, with the same family first.
fn families(
    machine: &[IpNet],
    cluster: &[ClusterNetwork],
    service: &[IpNet],
    problems: &mut Problems,
) {
    let v4 = |nets: &[IpNet]| {
        nets.iter()
            .map(|net| net.addr().is_ipv4())
            .collect::<Vec<_>>()
    };
    let cluster: Vec<IpNet> = cluster.iter().map(|network| network.cidr).collect();
    let services = v4(service);
    match services[..] {
        [] | [_] => {}
        [a, b] if a != b => {}
        _ => problems.add(
            "networking.serviceNetwork",
            format!(
                "{} networks that are not one IPv4 and one IPv6",
                service.len()
            ),
            "write one network, or one of each family",
        ),
    }
    let Some(primary) = services.first().copied() else {
        return;
    };
    let word = |v4: bool| if v4 { "IPv4" } else { "IPv6" };
    let dual = services.contains(&!primary);
    for (path, nets) in [
        ("networking.machineNetwork", v4(machine)),
        ("networking.clusterNetwork", v4(&cluster)),
    ] {
        let Some(first) = nets.first() else { continue };
        if dual && !nets.contains(&!first) {
            problems.add(
                path,
                format!(
                    "has only {}, but serviceNetwork has both families",
                    word(*first)
                ),
                format!("add an {} network", word(!first)),
            );
        } else if *first != primary {
            problems.add(
                path,
                format!(
                    "begins with {}, but serviceNetwork with {}",
                    word(*first),
                    word(primary)
                ),
                "let all lists begin with the same family",
            );
        } else if !dual && nets.contains(&!primary) {
            problems.add(
                path,
                format!("has {}, but serviceNetwork has not", word(!primary)),
                format!(
                    "add an {} network to serviceNetwork, or remove it here",
                    word(!primary)
                ),
            );
        }
    }
}

fn network_type(networking: &written::Networking, problems: &mut Problems) -> String {
    let kind = networking.network_type.clone().unwrap_or_default();
    let path = "networking.networkType";
    match kind.to_ascii_lowercase().as_str() {
        "ovnkubernetes" => return "OVNKubernetes".into(),
        "openshiftsdn" | "kuryr" => problems.add(
            path,
            format!("{kind} is no longer supported"),
            "write OVNKubernetes",
        ),
        "" => problems.add(path, "is empty", "write OVNKubernetes, or remove it"),
        _ if !kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => problems.add(
            path,
            format!("{} is not a network type", shown(&kind)),
            "write OVNKubernetes",
        ),
        _ => {}
    }
    kind
}
