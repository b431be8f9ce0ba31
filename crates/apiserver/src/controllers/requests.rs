//! Certificate requests: those that a role allows are approved, and old ones go.
//!
//! Which requests these are is Kubernetes' own rule: a client certificate of a node, approved if whoever asks may create
//! `certificatesigningrequests/selfnodeclient` (for its own name) or `.../nodeclient` (for any). A node may renew its own;
//! first certificates are left to those who know the machines.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tracing::info;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

use super::work::{Controller, Next};
use super::{Context, meta};
use crate::local::Refusal;
use crate::store;

pub(super) struct Requests(pub Context);

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Roles change; a request that waits is asked about again.
const AGAIN: Duration = Duration::from_mins(1);

impl Controller for Requests {
    const NAME: &'static str = "requests";

    fn prefix(&self) -> String {
        store::prefix(GROUP, PLURAL, "")
    }

    async fn look(&mut self, _: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some(csr) = object else {
            return Ok(Next::Done);
        };
        let name = meta(&csr, "name");
        let path = format!("/apis/{GROUP}/v1/{PLURAL}/{name}");
        let Some(left) = time_left(&csr, Timestamp::now()) else {
            info!(csr = name, "an old certificate request goes");
            let options = json!({"preconditions": {"uid": meta(&csr, "uid")}});
            return match self.0.local.delete(&path, &options).await {
                Err(refusal) if refusal.code != 404 => Err(refusal),
                _ => Ok(Next::Done),
            };
        };
        let Some(right) = right_needed(&csr) else {
            return Ok(Next::After(left));
        };
        if !self.may(&csr, right).await? {
            return Ok(Next::After(left.min(AGAIN)));
        }
        info!(csr = name, right, "certificate request approved");
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({
            "type": "Approved", "status": "True", "reason": "AutoApproved",
            "message": format!("a role allows whoever asks to create {PLURAL}/{right}"),
            "lastUpdateTime": now, "lastTransitionTime": now,
        });
        let version = &csr["metadata"]["resourceVersion"];
        let patch = json!({
            "metadata": {"resourceVersion": version}, "status": {"conditions": [condition]},
        });
        self.0
            .local
            .merge(&format!("{path}/approval"), &patch)
            .await?;
        // The change brings us here again.
        Ok(Next::Done)
    }
}

impl Requests {
    async fn may(&self, csr: &Value, right: &str) -> Result<bool, Refusal> {
        let attributes = json!({
            "group": GROUP, "resource": PLURAL, "subresource": right, "verb": "create", "version": "*",
        });
        let mut spec = json!({"resourceAttributes": attributes});
        for (field, asked) in [
            ("user", "username"),
            ("groups", "groups"),
            ("uid", "uid"),
            ("extra", "extra"),
        ] {
            if let Some(value) = csr["spec"].get(asked) {
                spec[field] = value.clone();
            }
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
        });
        let answer = self.0.local.create(REVIEWS, &review).await?;
        Ok(answer["status"]["allowed"] == json!(true))
    }
}

/// How long it is still kept: an hour once it is decided on, a day while it waits. Nothing if that is over.
fn time_left(csr: &Value, now: Timestamp) -> Option<Duration> {
    let decided = csr["status"]["conditions"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let kept = SignedDuration::from_hours(if decided { 1 } else { 24 });
    let Ok(created) = meta(csr, "creationTimestamp").parse::<Timestamp>() else {
        return Some(AGAIN);
    };
    let left = kept.checked_sub(now.duration_since(created))?;
    // Not before a second has passed, however little is left.
    left.is_positive()
        .then(|| left.unsigned_abs().max(Duration::from_secs(1)))
}

/// What whoever asks must be allowed, if this is a request that a role can decide on.
fn right_needed(csr: &Value) -> Option<&'static str> {
    let undecided = csr["status"]["conditions"]
        .as_array()
        .is_none_or(Vec::is_empty);
    if !undecided || csr["spec"]["signerName"] != json!(SIGNER) || !has_usages_of_a_client(csr) {
        return None;
    }
    let bytes = STANDARD.decode(csr["spec"]["request"].as_str()?).ok()?;
    let name = node_asked_for(&bytes)?;
    let own = csr["spec"]["username"] == json!(name);
    Some(if own { "selfnodeclient" } else { "nodeclient" })
}

fn has_usages_of_a_client(csr: &Value) -> bool {
    let usages = csr["spec"]["usages"].as_array();
    let mut usages: Vec<&str> = usages
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    usages.sort_unstable();
    usages == ["client auth", "digital signature"]
        || usages == ["client auth", "digital signature", "key encipherment"]
}

/// The common name, if all of the request is as a node's client's must be.
fn node_asked_for(pem: &[u8]) -> Option<String> {
    let (_, pem) = parse_x509_pem(pem).ok()?;
    let (rest, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    let names: Vec<&str> = subject
        .iter_common_name()
        .filter_map(|name| name.as_str().ok())
        .collect();
    let groups: Vec<&str> = subject
        .iter_organization()
        .filter_map(|name| name.as_str().ok())
        .collect();
    let plain = request.requested_extensions().is_none_or(|mut all| {
        !all.any(|extension| {
            matches!(
                extension,
                x509_parser::extensions::ParsedExtension::SubjectAlternativeName(_)
            )
        })
    });
    let [name] = names[..] else { return None };
    let fits = rest.is_empty()
        && plain
        && groups == ["system:nodes"]
        && name
            .strip_prefix("system:node:")
            .is_some_and(|node| !node.is_empty());
    fits.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn request(name: &str, group: &str, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    fn csr(user: &str, pem: &str) -> Value {
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "request": STANDARD.encode(pem), "signerName": SIGNER, "username": user,
                "usages": ["digital signature", "client auth"],
            },
        })
    }

    #[test]
    fn a_node_may_be_allowed_its_own_name_and_others_any() {
        let node = "system:node:n";
        let good = request(node, "system:nodes", &[]);
        let mut denied = csr(node, &good);
        denied["status"]["conditions"] = json!([{"type": "Denied", "status": "True"}]);
        let mut serving = csr(node, &good);
        serving["spec"]["usages"] = json!(["digital signature", "server auth"]);
        let mut other_signer = csr(node, &good);
        other_signer["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client");
        for (name, csr, expected) in [
            ("renewal", csr(node, &good), Some("selfnodeclient")),
            (
                "another node",
                csr("system:node:m", &good),
                Some("nodeclient"),
            ),
            (
                "first",
                csr("system:bootstrap:x", &good),
                Some("nodeclient"),
            ),
            (
                "not a node",
                csr("jane", &request("jane", "system:nodes", &[])),
                None,
            ),
            (
                "a master",
                csr(node, &request(node, "system:masters", &[])),
                None,
            ),
            (
                "more names",
                csr(node, &request(node, "system:nodes", &["n"])),
                None,
            ),
            ("denied", denied, None),
            ("a server's", serving, None),
            ("another signer", other_signer, None),
            ("nonsense", csr(node, "nonsense"), None),
        ] {
            assert_eq!(right_needed(&csr), expected, "{name}");
        }
    }

    #[test]
    fn requests_are_kept_a_day_and_an_hour_once_they_are_decided_on() {
        let mut csr = csr("n", "");
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let noon = at("2026-01-01T12:00:00Z");
        assert_eq!(time_left(&csr, noon), Some(Duration::from_hours(12)));
        assert_eq!(time_left(&csr, at("2026-01-02T00:00:01Z")), None);
        csr["status"]["conditions"] = json!([{"type": "Approved", "status": "True"}]);
        assert_eq!(time_left(&csr, noon), None);
        assert_eq!(
            time_left(&csr, at("2026-01-01T00:30:00Z")),
            Some(Duration::from_mins(30))
        );
    }

    proptest! {
        #[test]
        fn any_request_is_read_or_left(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(node_asked_for(&bytes), None);
        }
    }
}
