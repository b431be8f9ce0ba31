//! Secrets that a host uses: reading them, and marking them as used.

use crd::BareMetalHost;
use crd::host::{SECRET_FINALIZER, SECRET_LABEL};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use lifecycle::host::{Credentials, SecretRef};
use serde_json::json;

use crate::context::MANAGER;
use crate::error::Error;

/// How to log in to a BMC.
pub struct Login {
    pub username: String,
    pub password: model::Secret<String>,
}

/// The credentials of a BMC, and what of them may be told.
pub fn credentials(secret: Option<&Secret>) -> (Credentials, Option<Login>) {
    let Some(secret) = secret else {
        return (Credentials::Missing, None);
    };
    // People encode a newline along with the password.
    let field = |key: &str| text(secret, key).map(|text| text.trim().to_owned());
    let login = match (field("username"), field("password")) {
        (Some(username), Some(password)) if !username.is_empty() && !password.is_empty() => Login {
            username,
            password: model::Secret::new(password),
        },
        (username, _) => {
            let missing = match username {
                Some(username) if !username.is_empty() => "password",
                _ => "username",
            };
            let reason = format!("the Secret {:?} has no {missing}", secret.name_any());
            return (Credentials::Invalid { reason }, None);
        }
    };
    let present = Credentials::Present {
        secret: SecretRef {
            name: secret.name_any(),
            namespace: secret.namespace().unwrap_or_default(),
        },
        version: secret.resource_version().unwrap_or_default(),
    };
    (present, Some(login))
}

/// A field of a Secret as text.
pub fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    Some(String::from_utf8_lossy(&bytes.0).into_owned())
}

/// Whether a Secret carries all of our marks.
pub fn is_claimed(secret: &Secret, host: &BareMetalHost) -> bool {
    let labelled = secret.labels().get(SECRET_LABEL.0).map(String::as_str) == Some(SECRET_LABEL.1);
    labelled && is_owned(secret, host) && is_kept(secret)
}

fn is_owned(secret: &Secret, host: &BareMetalHost) -> bool {
    let uid = host.uid().unwrap_or_default();
    secret.owner_references().iter().any(|o| o.uid == uid)
}

fn is_kept(secret: &Secret) -> bool {
    secret.finalizers().iter().any(|f| f == SECRET_FINALIZER)
}

/// Marks a Secret as used by this host: labelled so that it is watched, owned so that its changes wake the host, kept
/// until the host lets go of it. Nothing where that was so already.
pub async fn claim(
    api: &Api<Secret>,
    secret: &Secret,
    host: &BareMetalHost,
) -> Result<Option<Secret>, Error> {
    if is_claimed(secret, host) {
        return Ok(None);
    }
    let mut owners = secret.owner_references().to_vec();
    if !is_owned(secret, host) {
        owners.extend(host.owner_ref(&()));
    }
    let mut finalizers = secret.finalizers().to_vec();
    if !is_kept(secret) {
        finalizers.push(SECRET_FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "resourceVersion": secret.resource_version(),
        "labels": {SECRET_LABEL.0: SECRET_LABEL.1},
        "ownerReferences": owners,
        "finalizers": finalizers,
    }});
    let name = secret.name_any();
    api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
        .await
        .map(Some)
        .map_err(Error::kube("claim the Secret", &name))
}

/// Lets go of a Secret: what other hosts have on it stays.
pub async fn release(
    api: &Api<Secret>,
    name: &str,
    host: &BareMetalHost,
) -> Result<(), kube::Error> {
    let Some(secret) = api.get_opt(name).await? else {
        return Ok(());
    };
    let uid = host.uid().unwrap_or_default();
    let owners: Vec<_> = secret
        .owner_references()
        .iter()
        .filter(|owner| owner.uid != uid)
        .cloned()
        .collect();
    let shared = owners
        .iter()
        .any(|owner| owner.kind == BareMetalHost::kind(&()));
    let finalizers: Vec<_> = secret
        .finalizers()
        .iter()
        .filter(|finalizer| shared || *finalizer != SECRET_FINALIZER)
        .cloned()
        .collect();
    if owners.len() == secret.owner_references().len()
        && finalizers.len() == secret.finalizers().len()
    {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "resourceVersion": secret.resource_version(),
        "ownerReferences": owners,
        "finalizers": finalizers,
    }});
    api.patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(fields: &[(&str, &str)]) -> Secret {
        let data: BTreeMap<_, _> = fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect();
        let mut secret = Secret {
            data: Some(data),
            ..Secret::default()
        };
        secret.metadata.name = Some("s".into());
        secret
    }

    #[test]
    fn a_newline_after_the_password_is_not_part_of_it() {
        let (told, login) = credentials(Some(&secret(&[
            ("username", "root\n"),
            ("password", "x \n"),
        ])));
        assert!(matches!(told, Credentials::Present { .. }));
        let login = login.expect("it can be used");
        assert_eq!(
            (login.username.as_str(), login.password.expose().as_str()),
            ("root", "x")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        for (fields, missing) in [
            (vec![("password", "x")], "username"),
            (vec![("username", "root"), ("password", " \n")], "password"),
            (vec![], "username"),
        ] {
            let (told, login) = credentials(Some(&secret(&fields)));
            assert!(login.is_none());
            let Credentials::Invalid { reason } = told else {
                panic!("{told:?}");
            };
            assert!(reason.ends_with(missing), "{reason}");
        }
        assert_eq!(credentials(None).0, Credentials::Missing);
    }
}
