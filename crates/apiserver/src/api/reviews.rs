//! Questions in the form of objects: may I, may they, what may I, who am I, who is this.
//!
//! A review is answered and forgotten; nothing is kept.

use objects::access::{Ask, Decision, Rule, User};
use objects::{Cause, Kind, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, Content};
use super::{Call, body};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    Token,
    SubjectAccess,
    LocalSubjectAccess,
    SelfSubjectAccess,
    SelfSubjectRules,
    SelfSubject,
}

impl Review {
    /// The question this kind asks, if it asks one.
    pub fn of(kind: &Kind) -> Option<Self> {
        match (kind.group.as_str(), kind.plural.as_str()) {
            ("authentication.k8s.io", "tokenreviews") => Some(Self::Token),
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::SelfSubject),
            ("authorization.k8s.io", "subjectaccessreviews") => Some(Self::SubjectAccess),
            ("authorization.k8s.io", "localsubjectaccessreviews") => Some(Self::LocalSubjectAccess),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::SelfSubjectAccess),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::SelfSubjectRules),
            _ => None,
        }
    }
}

pub fn answer(call: &Call<'_>, review: Review) -> Result<Answer, Status> {
    let mut object = body::object(&call.parts.headers, call.body)?.value;
    let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
    let status = match review {
        Review::Token => token(call, &spec),
        Review::SelfSubject => Ok(json!({ "userInfo": user_info(call.user) })),
        Review::SelfSubjectAccess => access(call, &spec, call.user),
        Review::SubjectAccess => access(call, &spec, &subject(call, &spec)?),
        Review::LocalSubjectAccess => {
            let asked = spec
                .pointer("/resourceAttributes/namespace")
                .and_then(Value::as_str)
                .unwrap_or("");
            if asked != call.namespace() {
                let why = "must be the same namespace as metadata.namespace";
                return Err(invalid(
                    call,
                    Cause::invalid("spec.resourceAttributes.namespace", &json!(asked), why),
                ));
            }
            access(call, &spec, &subject(call, &spec)?)
        }
        Review::SelfSubjectRules => rules(call, &spec),
    }?;
    object["apiVersion"] = json!(call.kind.api_version());
    object["kind"] = json!(call.kind.kind);
    if !object["metadata"].is_object() {
        object["metadata"] = json!({ "creationTimestamp": null });
    }
    object["status"] = status;
    Ok(Answer::new(201, Content::Json(object)))
}

fn invalid(call: &Call<'_>, cause: Cause) -> Status {
    Status::invalid(&call.kind.group, &call.kind.kind, "", vec![cause])
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Attributes {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    path: String,
}

fn access(call: &Call<'_>, spec: &Value, user: &User) -> Result<Value, Status> {
    let read = |field: &str| -> Result<Option<Attributes>, Status> {
        let written = spec.get(field).filter(|written| !written.is_null());
        let read = written.map(Attributes::deserialize).transpose();
        read.map_err(|error| Status::bad_request(format!("spec.{field}: {error}")))
    };
    let (resource, path) = (read("resourceAttributes")?, read("nonResourceAttributes")?);
    let ask = match (&resource, &path) {
        (Some(asked), None) => Ask::Resource {
            verb: &asked.verb,
            group: &asked.group,
            resource: &asked.resource,
            subresource: &asked.subresource,
            namespace: &asked.namespace,
            name: &asked.name,
        },
        (None, Some(asked)) => Ask::Path {
            verb: &asked.verb,
            path: &asked.path,
        },
        (None, None) | (Some(_), Some(_)) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(
                call,
                Cause::invalid("spec.resourceAttributes", &Value::Null, why),
            ));
        }
    };
    Ok(match call.core.access.decide(user, &ask) {
        Decision::Allowed { reason } => json!({ "allowed": true, "reason": reason }),
        Decision::NoOpinion => json!({ "allowed": false }),
    })
}

/// The user a SubjectAccessReview asks about.
fn subject(call: &Call<'_>, spec: &Value) -> Result<User, Status> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Subject {
        user: String,
        uid: String,
        groups: Vec<String>,
        extra: std::collections::BTreeMap<String, Vec<String>>,
    }
    let Subject {
        user: name,
        uid,
        groups,
        extra,
    } = Subject::deserialize(spec)
        .map_err(|error| Status::bad_request(format!("spec: {error}")))?;
    if name.is_empty() && groups.is_empty() {
        return Err(invalid(
            call,
            Cause::invalid(
                "spec.user",
                &json!(""),
                "at least one of user or group must be specified",
            ),
        ));
    }
    Ok(User {
        name,
        uid,
        groups,
        extra,
    })
}

fn rules(call: &Call<'_>, spec: &Value) -> Result<Value, Status> {
    let namespace = spec.get("namespace").and_then(Value::as_str).unwrap_or("");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (paths, resources): (Vec<Rule>, Vec<Rule>) = call
        .core
        .access
        .rules(call.user, namespace)
        .into_iter()
        .partition(|rule| !rule.non_resource_urls.is_empty());
    let paths: Vec<Value> = paths
        .into_iter()
        .map(|rule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls }))
        .collect();
    Ok(json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false }))
}

fn token(call: &Call<'_>, spec: &Value) -> Result<Value, Status> {
    let Some(token) = spec
        .get("token")
        .and_then(Value::as_str)
        .filter(|token| !token.is_empty())
    else {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    };
    let audiences: Vec<String> = spec
        .get("audiences")
        .and_then(Value::as_array)
        .map(|list| {
            list.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    Ok(match call.core.access.authenticate(token, &audiences) {
        Some(user) => {
            json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
        }
        None => {
            json!({ "authenticated": false, "error": "the token is not known or no longer valid" })
        }
    })
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
