//! What the cluster begins with, one object per file; applied in the order of names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{File, Files, Inputs, payload, pointer, yaml};
use crate::cluster::HostPlan;
use crate::install_config::{Host, Mode, Role};

pub const NAMESPACE: &str = "openshift-machine-api";

pub fn render(inputs: &Inputs) -> Files {
    let mut files = Files::new();
    let mut add = |name: String, secret: bool, value: &Value| {
        let text = yaml(value);
        let file = if secret {
            File::private(text)
        } else {
            File::public(text)
        };
        files.insert(format!("manifests/{name}.yaml"), file);
    };
    add(
        "00_namespace-machine-api".into(),
        false,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    );
    for definition in crd::all() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let value = serde_json::to_value(&definition).expect("a definition is plain data");
        add(format!("05_crd-{name}"), false, &value);
    }
    for (name, value) in rbac() {
        add(format!("10_rbac-{name}"), false, &value);
    }
    add(
        "20_bootstrap-configmap".into(),
        false,
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bootstrap", "namespace": "kube-system"},
            // The installer says complete when the hand-over is done.
            "data": {"status": "progressing"},
        }),
    );
    add(
        "cluster-infrastructure-02-config".into(),
        false,
        &infrastructure(inputs),
    );
    add(
        "99_baremetal-provisioning-config".into(),
        false,
        &provisioning(inputs),
    );
    if let Some(pem) = &inputs.config.baremetal.bmc_verify_ca {
        add(
            "99_bmc-verify-ca".into(),
            false,
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "bmc-verify-ca", "namespace": NAMESPACE},
                "data": {"verify_ca.crt": pem},
            }),
        );
    }
    let prefix = "99_openshift-cluster-api";
    for (pool, token) in &inputs.keys.pools {
        let data = secret(
            &format!("{pool}-user-data"),
            &[
                ("userData", &pointer(inputs, pool, token)),
                ("disableTemplating", "true"),
            ],
        );
        add(format!("{prefix}_{pool}-user-data-secret"), true, &data);
    }
    let width = inputs.plan.hosts.len().saturating_sub(1).to_string().len();
    for (at, plan) in inputs.plan.hosts.iter().enumerate() {
        let Some(host) = inputs
            .config
            .baremetal
            .hosts
            .iter()
            .find(|host| host.name == plan.name)
        else {
            continue;
        };
        for (kind, value) in secrets(host) {
            add(format!("{prefix}_{kind}-{at:0width$}"), true, &value);
        }
        add(
            format!("{prefix}_hosts-{at:0width$}"),
            false,
            &bare_metal_host(plan, host),
        );
        if let Some(machine) = &plan.machine {
            add(
                format!("{prefix}_master-machines-{at:0width$}"),
                false,
                &control_plane_machine(inputs, plan, machine),
            );
        }
    }
    add(
        format!("{prefix}_worker-machineset-0"),
        false,
        &machine_set(inputs),
    );
    files
}

/// What a host's own Secrets say, by the kind in their file's name.
pub fn secrets(host: &Host) -> Vec<(&'static str, Value)> {
    let credentials = [
        ("username", host.username.as_str()),
        ("password", host.password.expose()),
    ];
    let bmc = secret(&format!("{}-bmc-secret", host.name), &credentials);
    let mut secrets = vec![("host-bmc-secrets", bmc)];
    if let Some(document) = &host.network_document {
        let name = format!("{}-network-config-secret", host.name);
        let network = secret(&name, &[("nmstate", &yaml(document))]);
        secrets.push(("host-network-config-secrets", network));
    }
    if let Some(network) = &host.network {
        let name = format!("{}-network-data-secret", host.name);
        let data = secret(
            &name,
            &[("networkData", &network.network_data().to_string())],
        );
        secrets.push(("host-network-data-secrets", data));
    }
    secrets
}

pub fn secret(name: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into()))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": data,
    })
}

fn rbac() -> Vec<(&'static str, Value)> {
    let binding = |name: &str, role: &str, kind: &str, subject: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": subject}],
        })
    };
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let all = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    vec![
        (
            "metal3-role",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "plinth:metal3"},
                "rules": [
                    rule(&["metal3.io"], &["*"], &all),
                    rule(&["machine.openshift.io"], &["*"], &all),
                    rule(&["config.openshift.io"], &["infrastructures"], &["get", "list", "watch"]),
                    rule(&[""], &["secrets", "configmaps"], &["get", "list", "watch", "create", "update", "patch"]),
                    rule(&[""], &["nodes"], &["get", "list", "watch", "patch", "update", "delete"]),
                    rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
                    rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update", "patch"]),
                    rule(&["certificates.k8s.io"], &["certificatesigningrequests"], &["get", "list", "watch"]),
                    rule(&["certificates.k8s.io"], &["certificatesigningrequests/approval"], &["update", "patch"]),
                    rule(&["certificates.k8s.io"], &["signers"], &["approve"]),
                ],
            }),
        ),
        (
            "metal3",
            binding("plinth:metal3", "plinth:metal3", "Group", "plinth:metal3"),
        ),
        (
            "node-bootstrapper-role",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "plinth:node-bootstrapper"},
                "rules": [rule(&["certificates.k8s.io"], &["certificatesigningrequests"], &["get", "list", "watch", "create"])],
            }),
        ),
        (
            "node-bootstrapper",
            binding(
                "plinth:node-bootstrapper",
                "plinth:node-bootstrapper",
                "Group",
                "system:bootstrappers",
            ),
        ),
    ]
}

fn infrastructure(inputs: &Inputs) -> Value {
    let plan = inputs.plan;
    let cluster = &plan.cluster;
    let (api, ingress) = (plan.api_vips(), plan.ingress_vips());
    let balancer = if cluster.managed_load_balancer {
        "OpenShiftManagedDefault"
    } else {
        "UserManaged"
    };
    let nodes = if cluster.workers == 1 || (cluster.workers == 0 && cluster.masters == 1) {
        "SingleReplica"
    } else {
        "HighlyAvailable"
    };
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
        "metadata": {"name": "cluster"},
        "spec": {"cloudConfig": {"name": ""}, "platformSpec": {"type": "BareMetal", "baremetal": {
            "apiServerInternalIPs": api, "ingressIPs": ingress, "machineNetworks": plan.networks.machine,
        }}},
        "status": {
            "infrastructureName": inputs.identity.infra_id,
            "platform": "BareMetal",
            "apiServerURL": format!("https://api.{}:{}", cluster.domain, plan.ports["api"]),
            "apiServerInternalURI": format!("https://api-int.{}:{}", cluster.domain, plan.ports["api"]),
            "controlPlaneTopology": cluster.topology,
            "infrastructureTopology": nodes,
            "cpuPartitioning": if inputs.config.cpu_partitioning { "AllNodes" } else { "None" },
            "etcdDiscoveryDomain": "",
            "platformStatus": {"type": "BareMetal", "baremetal": {
                "apiServerInternalIP": api.first(), "apiServerInternalIPs": api,
                "ingressIP": ingress.first(), "ingressIPs": ingress,
                "loadBalancer": {"type": balancer},
                "dnsRecordsType": if cluster.internal_dns_records { "Internal" } else { "External" },
                "machineNetworks": plan.networks.machine,
            }},
        },
    })
}

pub fn provisioning(inputs: &Inputs) -> Value {
    let given = &inputs.plan.provisioning;
    let mut spec = json!({
        "provisioningNetwork": given.mode,
        "watchAllNamespaces": false,
    });
    if given.mode != Mode::Disabled {
        spec["provisioningNetworkCIDR"] = json!(given.cidr);
        match &given.interface {
            Some(interface) => spec["provisioningInterface"] = json!(interface),
            None => spec["provisioningMacAddresses"] = json!(given.control_plane_macs),
        }
    }
    if let Some(ip) = given.cluster_ip {
        spec["provisioningIP"] = json!(ip);
    }
    if let Some((first, last)) = given.dhcp_range {
        spec["provisioningDHCPRange"] = json!(format!("{first},{last}"));
    }
    if let Some(gateway) = given.gateway {
        spec["provisioningNetworkGateway"] = json!(gateway);
    }
    if !inputs.plan.cluster.ntp_servers.is_empty() {
        spec["additionalNTPServers"] = json!(inputs.plan.cluster.ntp_servers);
    }
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": spec,
    })
}

pub fn bare_metal_host(plan: &HostPlan, host: &Host) -> Value {
    let profile = if host.hardware_profile == "default" {
        "unknown"
    } else {
        &host.hardware_profile
    };
    let mut spec = json!({
        "online": plan.machine.is_some(),
        "bmc": {
            "address": host.bmc,
            "credentialsName": format!("{}-bmc-secret", host.name),
            "disableCertificateVerification": !host.verify_bmc,
        },
        "bootMACAddress": host.boot_mac,
        "bootMode": host.boot_mode,
        "hardwareProfile": profile,
        "automatedCleaningMode": "metadata",
    });
    if !host.hints.is_empty() {
        spec["rootDeviceHints"] = json!(host.hints);
    }
    if host.network_document.is_some() {
        spec["preprovisioningNetworkDataName"] =
            json!(format!("{}-network-config-secret", host.name));
    }
    if host.network.is_some() {
        // For the config drive: an image that reads it has its addresses before Ignition runs.
        spec["networkData"] = json!({
            "name": format!("{}-network-data-secret", host.name), "namespace": NAMESPACE,
        });
    }
    let mut labels = json!({});
    if let Some(machine) = &plan.machine {
        // Written by the installer before there is a cluster: it must never be written again.
        spec["externallyProvisioned"] = json!(true);
        spec["consumerRef"] = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "namespace": NAMESPACE, "name": machine,
        });
        labels = json!({"installer.openshift.io/role": "control-plane"});
    }
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": host.name, "namespace": NAMESPACE, "labels": labels},
        "spec": spec,
    })
}

pub fn control_plane_machine(inputs: &Inputs, plan: &HostPlan, machine: &str) -> Value {
    let role = plan.role.map_or("master", Role::name);
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": machine, "namespace": NAMESPACE,
            "labels": labels(inputs, role),
            "annotations": {"metal3.io/BareMetalHost": format!("{NAMESPACE}/{}", plan.name)},
        },
        "spec": {"metadata": {}, "providerSpec": {"value": provider_spec(inputs, role)}},
    })
}

fn labels(inputs: &Inputs, role: &str) -> Value {
    json!({
        "machine.openshift.io/cluster-api-cluster": inputs.identity.infra_id,
        "machine.openshift.io/cluster-api-machine-role": role,
        "machine.openshift.io/cluster-api-machine-type": role,
    })
}

fn machine_set(inputs: &Inputs) -> Value {
    let role = Role::Worker.name();
    let name = format!("{}-worker-0", inputs.identity.infra_id);
    let mut template = labels(inputs, role);
    template["machine.openshift.io/cluster-api-machineset"] = json!(name);
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(inputs, role)},
        "spec": {
            "replicas": inputs.plan.cluster.workers,
            "selector": {"matchLabels": {
                "machine.openshift.io/cluster-api-cluster": inputs.identity.infra_id,
                "machine.openshift.io/cluster-api-machineset": name,
            }},
            "template": {
                "metadata": {"labels": template},
                "spec": {"metadata": {}, "providerSpec": {"value": provider_spec(inputs, role)}},
            },
        },
    })
}

pub fn provider_spec(inputs: &Inputs, role: &str) -> Value {
    // From the cluster's own store, which every master has; nothing outside is needed to add a worker.
    let at = inputs.plan.provisioning.cluster_ip;
    let host = match at.or(inputs.plan.api_vips().first().copied()) {
        Some(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
        Some(std::net::IpAddr::V4(ip)) => ip.to_string(),
        None => format!("api-int.{}", inputs.plan.cluster.domain),
    };
    let image = &inputs.plan.images.cluster_os;
    let name = payload::os_image(&image.source);
    let url = format!("http://{host}:{}/{name}", inputs.plan.ports["boot-http"]);
    let sum = image.sha256.clone();
    let image = json!({"checksum": sum.unwrap_or_else(|| format!("{url}.sha256sum")), "url": url});
    json!({
        "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
        "image": image,
        "userData": {"name": format!("{role}-user-data"), "namespace": NAMESPACE},
        "hostSelector": {},
    })
}
