//! Every file of an install, rendered from the plan and the key material. The same input gives the same bytes.
//!
//! ```text
//! plan + config + keys ─▶ manifests/          what is applied through the VIP
//!                      ─▶ *.ign hosts/*.ign   bootstrap (full), pools and hosts (pointers to mcs)
//!                      ─▶ auth/ tls/ metadata.json
//! ```
//!
//! Custom resource definitions are those of the API types.

mod control_plane;
mod daemons;
mod ignition;
mod kubeconfig;
mod manifests;
mod nodes;
pub mod payload;
mod replacement;
mod units;

use std::collections::BTreeMap;
use std::fmt;

use model::Secret;

use crate::cluster::{Identity, Plan};
use crate::install_config::{InstallConfig, Role};

pub use ignition::pointer;
pub use replacement::{MEMBER_ANNOTATION, Replacement, replacement, user_data_name};

/// What files are made of.
pub struct Inputs<'a> {
    pub plan: &'a Plan,
    pub config: &'a InstallConfig,
    pub identity: &'a Identity,
    pub keys: &'a Keys,
    pub binary: &'a Binary,
}

/// Secrets and certificates, made once per cluster.
#[derive(Debug, Clone)]
pub struct Keys {
    /// By the plan's names.
    pub certificates: BTreeMap<String, KeyPair>,
    /// Signs service account tokens.
    pub service_account: KeyPair,
    /// Pool name to the secret in its pointer config.
    pub pools: BTreeMap<String, Secret<String>>,
    /// BareMetalHost name to its one-time token; control plane only.
    pub hosts: BTreeMap<String, Secret<String>>,
    pub ironic_password: Secret<String>,
    /// The same, hashed with bcrypt.
    pub ironic_hash: Secret<String>,
}

/// PEM; for the service account the public part is a public key.
#[derive(Debug, Clone)]
pub struct KeyPair {
    pub public: String,
    pub private: Secret<String>,
}

/// The program that every node runs.
#[derive(Debug, Clone)]
pub struct Binary {
    pub sha256: String,
    /// Where the bootstrap VM gets it; the installer hands it over in another way without one.
    pub bootstrap_url: Option<String>,
}

/// One file to write.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub mode: u32,
    pub bytes: Vec<u8>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o} {} bytes", self.mode, self.bytes.len())
    }
}

/// Path under the install directory to content.
pub type Files = BTreeMap<String, File>;

impl File {
    pub fn public(text: impl Into<Vec<u8>>) -> Self {
        Self {
            mode: 0o644,
            bytes: text.into(),
        }
    }

    pub fn private(text: impl Into<Vec<u8>>) -> Self {
        Self {
            mode: 0o600,
            bytes: text.into(),
        }
    }
}

/// `manifests/`.
pub fn manifests(inputs: &Inputs) -> Files {
    manifests::render(inputs)
}

/// `bootstrap.ign`, `master.ign`, `worker.ign` and one pointer per control plane host.
pub fn ignition_configs(inputs: &Inputs) -> Files {
    let mut files = Files::new();
    files.insert(
        "bootstrap.ign".into(),
        File::private(nodes::bootstrap(inputs)),
    );
    for (pool, secret) in &inputs.keys.pools {
        let config = ignition::pointer(inputs, pool, secret);
        files.insert(format!("{pool}.ign"), File::private(config));
    }
    for host in inputs
        .plan
        .with_role(Role::Master)
        .chain(inputs.plan.with_role(Role::Arbiter))
    {
        if let (Some(token), Some(role)) = (inputs.keys.hosts.get(&host.name), host.role) {
            let config = ignition::pointer(inputs, role.name(), token);
            files.insert(format!("hosts/{}.ign", host.name), File::private(config));
            if let Some(network) = &host.network {
                let data = format!("{:#}\n", network.network_data());
                let path = format!("hosts/{}.network-data.json", host.name);
                files.insert(path, File::public(data));
            }
        }
    }
    files
}

/// The config of a bootstrap VM that is started to clean hosts, and for nothing else.
pub fn cleaner(inputs: &Inputs) -> File {
    File::private(nodes::cleaner(inputs))
}

/// What agents and we know the provisioning service by: `tls/root-ca.crt`.
pub fn authority(inputs: &Inputs) -> Files {
    let pem = inputs.certificate("root-ca");
    Files::from([("tls/root-ca.crt".to_owned(), File::public(pem))])
}

/// `auth/`, `tls/` and `metadata.json`.
pub fn access(inputs: &Inputs) -> Files {
    let mut files = Files::new();
    files.insert(
        "auth/kubeconfig".into(),
        File::private(kubeconfig::admin(inputs)),
    );
    for (name, pair) in &inputs.keys.certificates {
        files.insert(format!("tls/{name}.crt"), File::public(pair.public.clone()));
        files.insert(
            format!("tls/{name}.key"),
            File::private(pair.private.expose().clone()),
        );
    }
    let account = &inputs.keys.service_account;
    files.insert(
        "tls/service-account.pub".into(),
        File::public(account.public.clone()),
    );
    files.insert(
        "tls/service-account.key".into(),
        File::private(account.private.expose().clone()),
    );
    files.insert("metadata.json".into(), File::public(metadata(inputs)));
    files
}

fn metadata(inputs: &Inputs) -> String {
    let metadata = serde_json::json!({
        "clusterName": inputs.plan.cluster.name,
        "clusterID": inputs.identity.cluster_id,
        "infraID": inputs.identity.infra_id,
        "baremetal": {
            "libvirtURI": inputs.config.baremetal.libvirt_uri,
            "bootstrapProvisioningIP": inputs.plan.provisioning.bootstrap_ip,
            "provisioningHostIP": inputs.plan.provisioning.cluster_ip,
        },
    });
    format!("{metadata:#}\n")
}

impl Inputs<'_> {
    fn certificate(&self, name: &str) -> &str {
        self.keys
            .certificates
            .get(name)
            .map_or("", |pair| &pair.public)
    }

    fn key(&self, name: &str) -> &str {
        self.keys
            .certificates
            .get(name)
            .map_or("", |pair| pair.private.expose())
    }

    /// Where nodes fetch: by address, because names are not served before Ignition ran.
    fn mcs_url(&self) -> String {
        format!("https://{}:{}", self.mcs_host(), self.plan.ports["mcs"])
    }

    /// Where nodes fetch what is no secret and has a known checksum; nowhere if the site balances by itself, because it
    /// was asked for the API and mcs alone.
    fn files_url(&self) -> Option<String> {
        let managed = self.plan.vips.iter().any(|vip| !vip.holders.is_empty());
        managed.then(|| {
            format!(
                "http://{}:{}",
                self.mcs_host(),
                self.plan.ports["mcs-files"]
            )
        })
    }

    fn mcs_host(&self) -> String {
        let vip = self.plan.api_vips().first().copied();
        match vip {
            Some(std::net::IpAddr::V6(vip)) => format!("[{vip}]"),
            Some(std::net::IpAddr::V4(vip)) => vip.to_string(),
            None => format!("api-int.{}", self.plan.cluster.domain),
        }
    }
}

/// YAML for people and for daemons.
pub fn yaml(value: &serde_json::Value) -> String {
    serde_saphyr::to_string(value).expect("JSON can be written as YAML")
}

#[cfg(test)]
mod tests;
