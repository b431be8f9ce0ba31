//! One master in the cluster's API: its Node, its BareMetalHost with its Secrets, its Machine.

use crd::{BareMetalHost, Machine, Provisioning};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use lifecycle::host::{State, annotations::DETACHED};
use lifecycle::machine::EXCLUDE_DRAIN;
use plan::assets::{MEMBER_ANNOTATION, Replacement, user_data_name};
use plan::cluster::HostPlan;
use plan::install::Far;
use plan::replace;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::api::{MANAGER, METAL3_LEASE, METAL3_NAMESPACE, condition, joined, metal3};
use crate::cluster::{Failed, requests, workers};

/// There is one Provisioning.
const PROVISIONING: &str = "provisioning-configuration";

pub struct Objects<'a> {
    client: Client,
    host: &'a HostPlan,
}

/// How the BMC of the host as the cluster knows it is reached.
pub struct OldBmc {
    pub address: String,
    pub verify: bool,
    pub username: String,
    pub password: model::Secret<String>,
}

impl<'a> Objects<'a> {
    pub fn new(client: Client, host: &'a HostPlan) -> Self {
        Self { client, host }
    }

    /// All there is of the master, and every Node of the cluster.
    pub async fn look(&self) -> Result<(replace::Api, Vec<Node>), Failed> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let leases: Api<Lease> = self.namespaced();
        let (host, machine) = (self.host_name(), self.machine_name());
        let user_data = user_data_name(host);
        let (hosts, machines, secrets) = (self.hosts(), self.machines(), self.secrets());
        let listed = ListParams::default();
        let (nodes, host, machine, user_data, lease) = tokio::try_join!(
            nodes.list(&listed),
            hosts.get_opt(host),
            machines.get_opt(machine),
            secrets.get_metadata_opt(&user_data),
            leases.get_opt(METAL3_LEASE),
        )?;
        let nodes = nodes.items;
        let node = nodes
            .iter()
            .find(|node| node.name_any() == self.node_name());
        // Whoever asks before its host was written is somebody else.
        let written = host.as_ref().is_some_and(|host| seen(host).provisioned);
        let masters = written.then_some(self.host);
        let api = replace::Api {
            requests: requests::look(&self.client, masters.into_iter(), &nodes).await?,
            node: node.map(|node| replace::Node {
                ready: condition(node, "Ready"),
                joined: joined(node),
            }),
            host: host.as_ref().map(seen),
            machine: machine.map(|machine| replace::Machine {
                deleting: machine.metadata.deletion_timestamp.is_some(),
            }),
            user_data: user_data.is_some(),
            metal3: metal3(lease.as_ref()),
        };
        Ok((api, nodes))
    }

    /// None if the cluster does not know the host, or how to log in there.
    pub async fn old_bmc(&self) -> Result<Option<OldBmc>, Failed> {
        let host = self.hosts().get_opt(self.host_name()).await?;
        let Some(bmc) = host.and_then(|host| host.spec.bmc) else {
            return Ok(None);
        };
        let Some(secret) = self.secrets().get_opt(&bmc.credentials_name).await? else {
            return Ok(None);
        };
        let field = |key: &str| {
            let bytes = secret.data.as_ref()?.get(key)?;
            Some(String::from_utf8_lossy(&bytes.0).trim().to_owned())
        };
        Ok(field("username")
            .zip(field("password"))
            .map(|(username, password)| OldBmc {
                address: bmc.address,
                verify: !bmc.disable_certificate_verification,
                username,
                password: model::Secret::new(password),
            }))
    }

    pub async fn delete_node(&self) -> Result<(), Failed> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        delete(&nodes, self.node_name(), None).await
    }

    /// Detached first: then its BMC, which may be dead, is not asked for anything.
    pub async fn delete_host(&self) -> Result<(), Failed> {
        delete(&self.hosts(), self.host_name(), Some((DETACHED, "true"))).await
    }

    /// Its Node is not there to be drained.
    pub async fn delete_machine(&self) -> Result<(), Failed> {
        delete(
            &self.machines(),
            self.machine_name(),
            Some((EXCLUDE_DRAIN, "")),
        )
        .await
    }

    /// The host last: whoever finds it finds all that it needs.
    pub async fn create_host(&self, made: &Replacement, member: u64) -> Result<(), Failed> {
        for secret in made.secrets.iter().chain([&made.user_data]) {
            apply(&self.secrets(), secret).await?;
        }
        if let Some(macs) = &made.macs {
            let all: Api<Provisioning> = Api::all(self.client.clone());
            let patch = json!({"spec": {"provisioningMacAddresses": macs}});
            let params = PatchParams::default();
            all.patch(PROVISIONING, &params, &Patch::Merge(patch))
                .await?;
        }
        apply(&self.hosts(), &made.host(&replace::mark(member))).await
    }

    pub async fn create_machine(&self, made: &Replacement) -> Result<(), Failed> {
        apply(&self.machines(), &made.machine).await
    }

    pub async fn approve(&self, names: &[String]) -> Result<(), Failed> {
        requests::approve(self.client.clone(), names).await
    }

    /// The Secret last: as long as it is there, the replacement is not over.
    pub async fn forget(&self) -> Result<(), Failed> {
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({"spec": {"userData": null}}));
        self.hosts()
            .patch(self.host_name(), &params, &patch)
            .await?;
        delete(&self.secrets(), &user_data_name(self.host_name()), None).await
    }

    fn host_name(&self) -> &str {
        &self.host.name
    }

    fn node_name(&self) -> &str {
        self.host.node.as_deref().unwrap_or(&self.host.name)
    }

    fn machine_name(&self) -> &str {
        self.host.machine.as_deref().unwrap_or_default()
    }

    fn hosts(&self) -> Api<BareMetalHost> {
        self.namespaced()
    }

    fn machines(&self) -> Api<Machine> {
        self.namespaced()
    }

    fn secrets(&self) -> Api<Secret> {
        self.namespaced()
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), METAL3_NAMESPACE)
    }
}

fn seen(host: &BareMetalHost) -> replace::Host {
    let status = host.status.clone().unwrap_or_default();
    let (doing, percent) = workers::doing(&status);
    let provisioned = status.provisioning.state == State::Provisioned.as_str();
    replace::Host {
        mark: host.annotations().get(MEMBER_ANNOTATION).cloned(),
        deleting: host.metadata.deletion_timestamp.is_some(),
        provisioned,
        doing,
        far: percent.map(|percent| Far {
            percent,
            mb_per_s: None,
        }),
    }
}

async fn apply<K>(api: &Api<K>, object: &Value) -> Result<(), Failed>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams::apply(MANAGER).force();
    api.patch(name, &params, &Patch::Apply(object)).await?;
    Ok(())
}

/// Deletes the very object that is found, with an annotation before. A server that lags behind may show one that is gone
/// already, and what has its name since is left alone.
async fn delete<K>(api: &Api<K>, name: &str, annotation: Option<(&str, &str)>) -> Result<(), Failed>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let Some(found) = api.get_metadata_opt(name).await? else {
        return Ok(());
    };
    if let Some((key, value)) = annotation {
        let patch = json!({"metadata": {
            "resourceVersion": found.resource_version(), "annotations": {key: value},
        }});
        let params = PatchParams::default();
        api.patch_metadata(name, &params, &Patch::Merge(patch))
            .await?;
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
