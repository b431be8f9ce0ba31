//! Certificate signing requests: who asks is what the server saw, and only who may approve for a signer approves.

use objects::access::{Ask, Decision, User};
use objects::{Kind, Status};
use serde_json::{Value, json};

use super::super::{Call, read};

fn is_request(kind: &Kind) -> bool {
    kind.group == "certificates.k8s.io" && kind.plural == "certificatesigningrequests"
}

/// Whatever the client wrote there, a request is made by who made it.
pub fn name_the_requester(kind: &Kind, user: &User, object: &mut Value) {
    let Some(spec) = object
        .get_mut("spec")
        .and_then(Value::as_object_mut)
        .filter(|_| is_request(kind))
    else {
        return;
    };
    for field in ["uid", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".into(), json!(user.name));
    spec.insert("groups".into(), json!(user.groups));
    if !user.uid.is_empty() {
        spec.insert("uid".into(), json!(user.uid));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".into(), json!(user.extra));
    }
}

/// `approve` on the signer, or on all signers of its domain (`kubernetes.io/*`), besides the right to write.
pub async fn check_approval(call: &Call<'_>) -> Result<(), Status> {
    let request = read::find(call).await?;
    let signer = request
        .pointer("/spec/signerName")
        .and_then(Value::as_str)
        .unwrap_or("");
    let domain = format!("{}/*", signer.split('/').next().unwrap_or(""));
    let allowed = [signer, &domain].into_iter().any(|name| {
        let ask = Ask::Resource {
            verb: "approve",
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        matches!(
            call.core.access.decide(call.user, &ask),
            Decision::Allowed { .. }
        )
    });
    if allowed {
        return Ok(());
    }
    let why = format!("user not permitted to approve requests with signerName {signer:?}");
    Err(Status::forbidden(&call.kind.resource(), call.name(), &why))
}
