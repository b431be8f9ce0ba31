//! What holds when nothing is written, and deprecated names folded into those of today.

use std::net::IpAddr;

use super::Facts;
use super::written::{
    BareMetal, Cidr, ClusterNetwork, List, LoadBalancer, Networking, Payload, Pool, Written,
};
use crate::problem::Problems;

/// Filling in twice changes nothing more.
pub fn fill(mut written: Written, facts: &Facts, problems: &mut Problems) -> Written {
    networking(written.networking.get_or_insert_default(), problems);
    let pool = |pool: &mut Pool, name: &str, replicas: i64| {
        pool.name.get_or_insert_with(|| name.into());
        pool.replicas.get_or_insert(replicas);
        pool.architecture.get_or_insert_with(|| "amd64".into());
        pool.hyperthreading.get_or_insert_with(|| "Enabled".into());
    };
    pool(written.control_plane.get_or_insert_default(), "master", 3);
    pool(written.arbiter.get_or_insert_default(), "arbiter", 0);
    if written.compute.is_empty() {
        written.compute.push(Some(Pool::default()));
    }
    for compute in written.compute.iter_mut().flatten() {
        pool(compute, "worker", 3);
    }
    if !written.image_content_sources.is_empty() && written.image_digest_sources.is_empty() {
        deprecated("imageContentSources", "imageDigestSources", problems);
        written.image_digest_sources = std::mem::take(&mut written.image_content_sources);
    }
    // A file that says what it runs pulls from no registry: the secret is wanted of OpenShift's files only.
    if written.payload.is_none() && written.pull_secret.is_none() {
        problems.add(
            "pullSecret",
            "is missing",
            "write the JSON object with your registry credentials, or payload: builtin",
        );
    }
    let payload: &mut Payload = written.payload.get_or_insert_default();
    payload.kind.get_or_insert_with(|| "builtin".into());
    for (field, value) in [
        (&mut written.publish, "External"),
        (&mut written.additional_trust_bundle_policy, "Proxyonly"),
        (&mut written.cpu_partitioning_mode, "None"),
        (&mut written.feature_set, "Default"),
        (&mut written.os_image_stream, "rhel-9"),
    ] {
        if field.as_deref().unwrap_or_default().is_empty() {
            *field = Some(value.into());
        }
    }
    if let Some(baremetal) = written.platform.as_mut().and_then(|p| p.baremetal.as_mut()) {
        fill_baremetal(baremetal, facts, problems);
    }
    written
}

fn deprecated(old: &str, new: &str, problems: &mut Problems) {
    problems.warn(old, "is deprecated", format!("write {new}"));
}

fn networking(networking: &mut Networking, problems: &mut Problems) {
    if let Some(kind) = networking.kind.take() {
        deprecated("networking.type", "networkType", problems);
        networking.network_type.get_or_insert(kind);
    }
    networking
        .network_type
        .get_or_insert_with(|| "OVNKubernetes".into());
    if let Some(cidr) = networking.machine_cidr.take() {
        deprecated("networking.machineCIDR", "machineNetwork", problems);
        if networking.machine_network.is_empty() {
            networking
                .machine_network
                .push(Some(Cidr { cidr: Some(cidr) }));
        }
    }
    if networking.machine_network.is_empty() {
        problems.warn(
            "networking.machineNetwork",
            "is not written: 10.0.0.0/16 is assumed",
            "write the network that your servers and VIPs are in",
        );
        networking.machine_network.push(Some(Cidr {
            cidr: Some("10.0.0.0/16".into()),
        }));
    }
    if !networking.cluster_networks.is_empty() {
        deprecated("networking.clusterNetworks", "clusterNetwork", problems);
        let old = std::mem::take(&mut networking.cluster_networks);
        if networking.cluster_network.is_empty() {
            networking.cluster_network = old;
        }
    }
    if networking.cluster_network.is_empty() {
        networking.cluster_network.push(Some(ClusterNetwork {
            cidr: Some("10.128.0.0/14".into()),
            ..ClusterNetwork::default()
        }));
    }
    for network in networking.cluster_network.iter_mut().flatten() {
        let v6 = network
            .cidr
            .as_deref()
            .is_some_and(|cidr| cidr.contains(':'));
        let bits = if v6 { 128 } else { 32 };
        if let Some(length) = network.host_subnet_length.take() {
            network.host_prefix.get_or_insert(bits - length);
        }
        network.host_prefix.get_or_insert(if v6 { 64 } else { 23 });
    }
    if let Some(cidr) = networking.service_cidr.take() {
        deprecated("networking.serviceCIDR", "serviceNetwork", problems);
        if networking.service_network.is_empty() {
            networking.service_network.push(Some(cidr));
        }
    }
    if networking.service_network.is_empty() {
        networking
            .service_network
            .push(Some("172.30.0.0/16".into()));
    }
}

fn fill_baremetal(baremetal: &mut BareMetal, facts: &Facts, problems: &mut Problems) {
    fold_vip(
        &mut baremetal.api_vip,
        &mut baremetal.api_vips,
        "apiVIP",
        &facts.api,
        problems,
    );
    fold_vip(
        &mut baremetal.ingress_vip,
        &mut baremetal.ingress_vips,
        "ingressVIP",
        &facts.ingress,
        problems,
    );
    if let Some(external) = baremetal.provisioning_dhcp_external.take() {
        let path = "platform.baremetal.provisioningDHCPExternal";
        deprecated(path, "provisioningNetwork: Unmanaged", problems);
        if external {
            baremetal
                .provisioning_network
                .get_or_insert_with(|| "Unmanaged".into());
        }
    }
    if let Some(old) = baremetal.provisioning_host_ip.take() {
        let path = "platform.baremetal.provisioningHostIP";
        deprecated(path, "clusterProvisioningIP", problems);
        match &baremetal.cluster_provisioning_ip {
            Some(new) if *new != old => problems.add(
                path,
                "contradicts clusterProvisioningIP",
                "remove provisioningHostIP",
            ),
            Some(_) => {}
            None => baremetal.cluster_provisioning_ip = Some(old),
        }
    }
    baremetal
        .provisioning_network
        .get_or_insert_with(|| "Managed".into());
    baremetal
        .external_bridge
        .get_or_insert_with(|| "baremetal".into());
    baremetal
        .libvirt_uri
        .get_or_insert_with(|| "qemu:///system".into());
    baremetal
        .dns_records_type
        .get_or_insert_with(|| "Internal".into());
    let balancer = baremetal
        .load_balancer
        .get_or_insert_with(LoadBalancer::default);
    balancer
        .kind
        .get_or_insert_with(|| "OpenShiftManagedDefault".into());
}

fn fold_vip(
    old: &mut Option<String>,
    new: &mut Option<List<String>>,
    name: &str,
    facts: &[IpAddr],
    problems: &mut Problems,
) {
    let path = format!("platform.baremetal.{name}");
    if let Some(old) = old.take() {
        deprecated(&path, &format!("{name}s"), problems);
        match new {
            Some(list) if !list.iter().flatten().any(|vip| *vip == old) => {
                problems.add(
                    path,
                    format!("is not among {name}s"),
                    format!("remove {name}"),
                );
            }
            Some(_) => {}
            None => *new = Some(vec![Some(old)]),
        }
        return;
    }
    if let (None, Some(fact)) = (&new, facts.first()) {
        *new = Some(vec![Some(fact.to_string())]);
    }
}
