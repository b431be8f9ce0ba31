//! Certificate requests of masters. Machines come later, so the plan says who may join.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use lifecycle::machine::csr::{Request, Verdict, judge};
use lifecycle::machine::{HOST_ANNOTATION, Machine, NodeSeen};
use plan::cluster::HostPlan;
use serde_json::json;
use tracing::debug;

use super::{Failed, api};

/// Those that are waiting, and that one of these masters may have made.
pub(crate) async fn look<'a>(
    client: &Client,
    masters: impl Iterator<Item = &'a HostPlan>,
    nodes: &[Node],
) -> Result<Vec<String>, Failed> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let found = requests
        .list(&ListParams::default().match_any())
        .await?
        .items;
    let expected = expected(masters);
    let nodes: Vec<NodeSeen> = nodes
        .iter()
        .map(|node| NodeSeen {
            name: node.name_any(),
            ..NodeSeen::default()
        })
        .collect();
    let now = Timestamp::now();
    let wanted = |object: &&CertificateSigningRequest| {
        let name = object.name_any();
        let conditions = object.status.as_ref().and_then(|it| it.conditions.as_ref());
        if conditions.is_some_and(|all| !all.is_empty()) {
            return false;
        }
        match request(object).map(|request| judge(&request, &expected, &nodes, now)) {
            Ok(Verdict::Approve { .. }) => true,
            Ok(Verdict::Wait { reason } | Verdict::Leave { reason }) => {
                debug!(request = name, reason, "a certificate request is left");
                false
            }
            Err(why) => {
                debug!(request = name, why, "a certificate request cannot be read");
                false
            }
        }
    };
    let found = found.iter().filter(wanted);
    Ok(found.map(ResourceExt::name_any).collect())
}

/// The plan's masters in the shape of the Machines that they will be.
fn expected<'a>(masters: impl Iterator<Item = &'a HostPlan>) -> Vec<Machine> {
    masters
        .filter_map(|host| host.node.as_ref())
        .map(|node| Machine {
            name: node.clone(),
            provider_id: node.clone(),
            annotations: BTreeMap::from([(HOST_ANNOTATION.to_owned(), format!("plan/{node}"))]),
            ..Machine::default()
        })
        .collect()
}

fn request(object: &CertificateSigningRequest) -> Result<Request, String> {
    let spec = &object.spec;
    let all = |given: &Option<Vec<String>>| given.iter().flatten().cloned().collect();
    let created = object.metadata.creation_timestamp.as_ref();
    let request = Request {
        signer: spec.signer_name.clone(),
        username: spec.username.clone().unwrap_or_default(),
        groups: all(&spec.groups),
        usages: all(&spec.usages),
        created: created.map(|time| time.0),
        ..Request::default()
    };
    request.asking(&spec.request.0)
}

pub(crate) async fn approve(client: Client, names: &[String]) -> Result<(), Failed> {
    let requests: Api<CertificateSigningRequest> = Api::all(client);
    let now = Timestamp::now();
    let patch = json!({"status": {"conditions": [{
        "type": "Approved", "status": "True", "reason": "PlannedMaster",
        "message": "the install's plan has a master of this name",
        "lastUpdateTime": now, "lastTransitionTime": now,
    }]}});
    for name in names {
        let params = PatchParams::apply(api::MANAGER);
        let patch = Patch::Merge(&patch);
        requests.patch_approval(name, &params, &patch).await?;
    }
    Ok(())
}
