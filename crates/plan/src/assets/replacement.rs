//! A fresh master in the place of a lost one: its config, and its objects in the API.
//!
//! Nobody serves a master's config any more: mcs on masters has those of workers. So the config goes whole, keys and all,
//! through a Secret onto the host's config drive.

use std::fmt;

use serde_json::{Value, json};

use super::manifests::{self, NAMESPACE};
use super::{Inputs, nodes};
use crate::cluster::HostPlan;
use crate::install_config::Role;

/// On a BareMetalHost: the etcd member it was made for.
pub const MEMBER_ANNOTATION: &str = "plinth.io/etcd-member";

/// Objects, to be applied as they are.
#[derive(Clone)]
pub struct Replacement {
    /// How its BMC is logged in to, and its network.
    pub secrets: Vec<Value>,
    /// What its disk is written with.
    pub user_data: Value,
    host: Value,
    pub machine: Value,
    /// Of all masters' NICs on the provisioning network, where the cluster knows them by these.
    pub macs: Option<Value>,
}

impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Replacement {
    /// The BareMetalHost, made for this member of etcd.
    pub fn host(&self, mark: &str) -> Value {
        let mut host = self.host.clone();
        host["metadata"]["annotations"] = json!({MEMBER_ANNOTATION: mark});
        host
    }
}

/// The Secret of a host's config, there only while it is being replaced.
pub fn user_data_name(host: &str) -> String {
    format!("{host}-replacement-user-data")
}

/// What a replacement of this master is made of; none for a host that install-config.yaml does not have.
pub fn replacement(inputs: &Inputs, plan: &HostPlan) -> Option<Replacement> {
    let hosts = &inputs.config.baremetal.hosts;
    let given = hosts.iter().find(|host| host.name == plan.name)?;
    let machine = plan.machine.as_ref()?;
    let name = user_data_name(&plan.name);
    let config = nodes::joining(inputs, plan);
    let user_data = [("userData", &*config), ("disableTemplating", "true")];
    let mut host = manifests::bare_metal_host(plan, given);
    // This time it is metal3 that writes it. It is its Machine's from the start, so that no worker is put on it.
    host["spec"]["externallyProvisioned"] = json!(false);
    host["spec"]["image"] = manifests::provider_spec(inputs, Role::Master.name())["image"].take();
    host["spec"]["userData"] = json!({"name": name, "namespace": NAMESPACE});
    let provisioning = manifests::provisioning(inputs);
    Some(Replacement {
        secrets: manifests::secrets(given)
            .into_iter()
            .map(|(_, secret)| secret)
            .collect(),
        user_data: manifests::secret(&name, &user_data),
        host,
        machine: manifests::control_plane_machine(inputs, plan, machine),
        macs: provisioning["spec"]
            .get("provisioningMacAddresses")
            .cloned(),
    })
}
