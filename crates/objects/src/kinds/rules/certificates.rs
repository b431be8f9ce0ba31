//! CertificateSigningRequests: asked once, approved by some, signed by others.

use serde_json::{Value, json};

use super::{immutable, keep_all_but};
use crate::json::{items, text};
use crate::status::Cause;

pub(super) const GROUP: &str = "certificates.k8s.io";

/// Decisions are taken through `approval`; certificates and failures come through `status`.
pub(super) fn keep(old: &Value, new: &mut Value, subresource: &str) {
    let decision = |condition: &&Value| ["Approved", "Denied"].contains(&text(condition, "/type"));
    let part = |object: &Value, decisions: bool| -> Vec<Value> {
        items(object, "/status/conditions")
            .iter()
            .filter(|condition| decision(condition) == decisions)
            .cloned()
            .collect()
    };
    let approving = subresource == "approval";
    let mut conditions = part(if approving { new } else { old }, true);
    conditions.extend(part(if approving { old } else { new }, false));
    if approving {
        match old.pointer("/status/certificate") {
            Some(certificate) => new["status"]["certificate"] = certificate.clone(),
            None => {
                super::object(&mut new["status"]).remove("certificate");
            }
        }
    }
    if !conditions.is_empty() || new["status"].is_object() {
        new["status"]["conditions"] = json!(conditions);
    }
    keep_all_but(old, new, "status", false);
}

pub(super) fn validate(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if let Some(old) = old {
        immutable("spec", &new["spec"], &old["spec"], causes);
    } else {
        if text(new, "/spec/request").is_empty() {
            causes.push(Cause::required("spec.request", ""));
        }
        if items(new, "/spec/usages").is_empty() {
            causes.push(Cause::required("spec.usages", "usages are required"));
        }
        let signer = text(new, "/spec/signerName");
        if signer.is_empty() {
            causes.push(Cause::required("spec.signerName", ""));
        } else if !signer
            .split_once('/')
            .is_some_and(|(domain, path)| domain.contains('.') && !path.is_empty())
        {
            let why =
                "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            causes.push(Cause::invalid("spec.signerName", &json!(signer), why));
        }
        let seconds = &new["spec"]["expirationSeconds"];
        if seconds.as_i64().is_some_and(|seconds| seconds < 600) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            causes.push(Cause::invalid("spec.expirationSeconds", seconds, why));
        }
    }
    let has = |kind: &str| {
        items(new, "/status/conditions")
            .iter()
            .any(|condition| condition["type"] == kind)
    };
    if has("Approved") && has("Denied") {
        let why = "Approved and Denied conditions are mutually exclusive";
        let conditions = &new["status"]["conditions"];
        causes.push(Cause::invalid("status.conditions", conditions, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approval_and_status_touch_only_their_own_part() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"request": "x"},
            "status": {"conditions": [{"type": "Approved", "status": "True"}]}});
        let mut signed = json!({"metadata": {"name": "a"}, "spec": {"request": "changed"},
            "status": {"certificate": "c", "conditions": [{"type": "Denied"}, {"type": "Failed"}]}});
        keep(&old, &mut signed, "status");
        assert_eq!(
            signed,
            json!({"metadata": {"name": "a"}, "spec": {"request": "x"},
                "status": {"certificate": "c", "conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed"}]}})
        );
        let mut approved = json!({"metadata": {"name": "a"}, "spec": {},
            "status": {"certificate": "forged", "conditions": [{"type": "Denied"}]}});
        keep(&old, &mut approved, "approval");
        assert_eq!(
            approved["status"],
            json!({"conditions": [{"type": "Denied"}]})
        );
    }

    #[test]
    fn a_request_says_what_it_wants_and_does_not_change() {
        let mut causes = vec![];
        validate(&json!({"spec": {"signerName": "me"}}), None, &mut causes);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["spec.request", "spec.usages", "spec.signerName"]);
        let mut causes = vec![];
        let old = json!({"spec": {"request": "a"}});
        validate(&json!({"spec": {"request": "b"}}), Some(&old), &mut causes);
        assert_eq!(causes[0].field, "spec");
        let both = json!({"status": {"conditions": [{"type": "Approved"}, {"type": "Denied"}]}});
        let mut causes = vec![];
        validate(&both, Some(&json!({})), &mut causes);
        assert_eq!(causes[0].field, "status.conditions");
    }
}
