//! Whether the caller may ask this at all.

use jiff::Timestamp;
use objects::Status;
use objects::access::{Ask, Decision, Rule, User};
use serde_json::Value;

use super::request::{RequestInfo, Resource};

/// Who may do what, and who is behind a token. The server answers from live RBAC objects; tests from a table.
pub trait Access: Send + Sync {
    fn decide(&self, user: &User, ask: &Ask<'_>) -> Decision;

    /// The rules that hold for the user in a namespace.
    fn rules(&self, user: &User, namespace: &str) -> Vec<Rule>;

    /// Nobody gives away more than they have: checked for every RBAC object written.
    fn check_write(&self, user: &User, object: &Value, old: Option<&Value>) -> Result<(), Status>;

    /// Who is behind a bearer token; `None` if nobody. `audiences` is empty where this server itself is meant.
    fn authenticate(&self, token: &str, audiences: &[String]) -> Option<User>;

    /// A token for a service account.
    fn issue(&self, wish: &TokenWish<'_>) -> Result<(String, Timestamp), Status>;
}

/// What a token is to say.
#[derive(Debug, Clone)]
pub struct TokenWish<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// Empty for this server itself.
    pub audiences: Vec<String>,
    pub seconds: i64,
}

/// Refuses with 403, in Kubernetes' words.
pub fn check(access: &dyn Access, user: &User, info: &RequestInfo) -> Result<(), Status> {
    match access.decide(user, &ask(info)) {
        Decision::Allowed { .. } => Ok(()),
        Decision::NoOpinion => Err(refusal(user, info)),
    }
}

fn ask(info: &RequestInfo) -> Ask<'_> {
    let verb = info.verb.as_str();
    match &info.resource {
        Some(at) => Ask::Resource {
            verb,
            group: &at.group,
            resource: &at.plural,
            subresource: at.subresource.as_deref().unwrap_or(""),
            namespace: at.namespace.as_deref().unwrap_or(""),
            name: at.name.as_deref().unwrap_or(""),
        },
        None => Ask::Path {
            verb,
            path: &info.path,
        },
    }
}

fn refusal(user: &User, info: &RequestInfo) -> Status {
    let verb = info.verb.as_str();
    let Some(at) = &info.resource else {
        let why = format!("User {:?} cannot {verb} path {:?}", user.name, info.path);
        return Status::forbidden(&objects::Resource::default(), "", &why);
    };
    let name = at.name.as_deref().unwrap_or("");
    Status::forbidden(&named(at), name, &explain(user, verb, at))
}

fn named(at: &Resource) -> objects::Resource {
    objects::Resource::new(&at.group, &at.plural)
}

/// `User "a" cannot list resource "secrets" in API group "" in the namespace "b"`.
fn explain(user: &User, verb: &str, at: &Resource) -> String {
    let resource = match &at.subresource {
        Some(subresource) => format!("{}/{subresource}", at.plural),
        None => at.plural.clone(),
    };
    let scope = match &at.namespace {
        Some(namespace) if at.plural != "namespaces" || !at.group.is_empty() => {
            format!("in the namespace {namespace:?}")
        }
        _ => "at the cluster scope".to_owned(),
    };
    format!(
        "User {:?} cannot {verb} resource {resource:?} in API group {:?} {scope}",
        user.name, at.group
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request;

    #[test]
    fn a_refusal_says_who_what_and_where() {
        let user = User {
            name: "jane".into(),
            ..User::default()
        };
        let table = [
            (
                "/api/v1/namespaces/a/secrets",
                r#"secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "a""#,
            ),
            (
                "/api/v1/nodes/n/status",
                r#"nodes "n" is forbidden: User "jane" cannot get resource "nodes/status" in API group "" at the cluster scope"#,
            ),
            (
                "/metrics",
                r#"forbidden: User "jane" cannot get path "/metrics""#,
            ),
        ];
        for (uri, message) in table {
            let info = request::parse(&axum::http::Method::GET, &uri.parse().expect("an address"));
            assert_eq!(refusal(&user, &info).message, message);
        }
    }
}
