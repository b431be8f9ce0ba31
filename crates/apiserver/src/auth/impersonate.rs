//! Standing in for somebody else (`kubectl --as`), for those who may.

use axum::http::HeaderMap;
use objects::access::{Ask, Decision, User};
use objects::{Resource, Status};

use super::tokens::account_groups;
use super::{Auth, authenticated};
use crate::api::Access as _;

const AUTHENTICATION: &str = "authentication.k8s.io";
const EXTRA: &str = "impersonate-extra-";

/// Who the request is to be seen as coming from.
pub fn effective(auth: &Auth, user: User, headers: &HeaderMap) -> Result<User, Status> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(user);
    };
    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let ask = Ask::Resource {
            verb: "impersonate",
            group,
            resource,
            subresource,
            namespace,
            name,
        };
        match auth.decide(&user, &ask) {
            Decision::Allowed { .. } => Ok(()),
            Decision::NoOpinion => {
                let why = format!(
                    "User {:?} cannot impersonate resource {resource:?} in API group {group:?} at the cluster scope",
                    user.name
                );
                Err(Status::forbidden(
                    &Resource::new(group, resource),
                    name,
                    &why,
                ))
            }
        }
    };
    match account(&wanted.name) {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        may("", "groups", "", "", group)?;
    }
    if !wanted.uid.is_empty() {
        may(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            may(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    let mut wanted = wanted;
    if let Some((namespace, _)) = account(&wanted.name)
        && wanted.groups.is_empty()
    {
        wanted.groups = account_groups(namespace);
    }
    Ok(authenticated(wanted))
}

fn account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// Whom the headers name; nobody if there are none.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect()
    };
    let mut user = User {
        name: all("impersonate-user").pop().unwrap_or_default(),
        uid: all("impersonate-uid").pop().unwrap_or_default(),
        groups: all("impersonate-group"),
        ..User::default()
    };
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            user.extra.insert(key.to_owned(), all(header.as_str()));
        }
    }
    if user == User::default() {
        return Ok(None);
    }
    if user.name.is_empty() {
        return Err(Status::bad_request(
            "requested impersonation without impersonating a user",
        ));
    }
    Ok(Some(user))
}
