//! The controller of certificate requests: what a Machine expects is approved, everything else is left to people.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use lifecycle::machine::csr::{Request, Verdict, judge};
use serde_json::json;
use tracing::{debug, info, warn};

use super::{known, view};
use crate::cache::Cache;
use crate::context::{Context, MANAGER};
use crate::error::Error;

struct Shared {
    context: Arc<Context>,
    cache: Cache,
}

/// A request that no Machine expects yet is looked at again so often.
const AGAIN: Duration = Duration::from_secs(10);

/// Approves until `stop`.
pub async fn run(
    context: Arc<Context>,
    cache: Cache,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let requests: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    Controller::new(requests, watcher::Config::default())
        .with_config(Config::default().concurrency(4))
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, Arc::new(Shared { context, cache }))
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "certificate requests");
            }
        })
        .await;
}

async fn reconcile(
    object: Arc<CertificateSigningRequest>,
    shared: Arc<Shared>,
) -> Result<Action, Error> {
    let name = object.name_any();
    let conditions = object.status.clone().and_then(|status| status.conditions);
    if conditions.as_ref().is_some_and(|all| !all.is_empty()) {
        return Ok(Action::await_change());
    }
    let request = match request(&object) {
        Ok(request) => request,
        Err(why) => {
            debug!(request = name, why, "a certificate request cannot be read");
            return Ok(Action::await_change());
        }
    };
    let machines = known(&shared.cache);
    let nodes: Vec<_> = shared
        .cache
        .nodes()
        .iter()
        .map(|node| view::node(node))
        .collect();
    match judge(&request, &machines, &nodes, Timestamp::now()) {
        Verdict::Approve { reason } => {
            approve(&shared.context, &name, &reason).await?;
            info!(
                request = name,
                node = request.common_name,
                reason,
                "certificate approved"
            );
            Ok(Action::await_change())
        }
        Verdict::Wait { reason } => {
            debug!(request = name, reason, "waits for");
            Ok(Action::requeue(AGAIN))
        }
        Verdict::Leave { reason } => {
            debug!(request = name, reason, "left alone");
            Ok(Action::await_change())
        }
    }
}

async fn approve(context: &Context, name: &str, reason: &str) -> Result<(), Error> {
    let requests: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    let now = Timestamp::now();
    let patch = json!({"status": {"conditions": [{
        "type": "Approved", "status": "True", "reason": "NodeCSRApprove", "message": reason,
        "lastUpdateTime": now, "lastTransitionTime": now,
    }]}});
    requests
        .patch_approval(name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(Error::kube("approve the certificate request", name))
}

/// The request taken apart, or why it cannot be.
fn request(object: &CertificateSigningRequest) -> Result<Request, String> {
    let spec = &object.spec;
    let all = |given: &Option<Vec<String>>| given.iter().flatten().cloned().collect();
    let request = Request {
        signer: spec.signer_name.clone(),
        username: spec.username.clone().unwrap_or_default(),
        groups: all(&spec.groups),
        usages: all(&spec.usages),
        created: object
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        ..Request::default()
    };
    request.asking(&spec.request.0)
}

fn on_error(object: Arc<CertificateSigningRequest>, error: &Error, _: Arc<Shared>) -> Action {
    warn!(
        request = object.name_any(),
        error = model::chain(error),
        "a certificate request could not be cared for"
    );
    Action::requeue(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use k8s_openapi::ByteString;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn asked(pem: &str) -> CertificateSigningRequest {
        let mut object = CertificateSigningRequest::default();
        object.spec.request = ByteString(pem.as_bytes().to_vec());
        object.spec.signer_name = "kubernetes.io/kubelet-serving".into();
        object
    }

    #[test]
    fn a_request_is_taken_apart() {
        let mut parameters = CertificateParams::new(vec!["worker-0".to_owned()]).expect("names");
        parameters
            .subject_alt_names
            .push(SanType::IpAddress("192.0.2.7".parse().expect("an address")));
        parameters
            .distinguished_name
            .push(DnType::CommonName, "system:node:worker-0");
        parameters
            .distinguished_name
            .push(DnType::OrganizationName, "system:nodes");
        let key = KeyPair::generate().expect("a key");
        let pem = parameters
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .expect("a request");
        let request = request(&asked(&pem)).expect("it is read");
        assert_eq!(request.common_name, "system:node:worker-0");
        assert_eq!(request.organizations, ["system:nodes"]);
        assert_eq!(request.dns_names, ["worker-0"]);
        assert_eq!(
            request.ips,
            ["192.0.2.7".parse::<IpAddr>().expect("an address")]
        );
        assert_eq!(request.other_names, 0);
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in [
            "",
            "hello",
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
        ] {
            assert!(request(&asked(nonsense)).is_err(), "{nonsense:?}");
        }
    }
}
