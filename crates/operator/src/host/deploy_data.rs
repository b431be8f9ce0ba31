//! What a system finds on its config drive, and the login of an image's registry: read from Secrets.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use lifecycle::host::{ConfigDrive, Host, SecretRef};
use serde_json::{Map, Value, json};

use super::secret::text;
use crate::context::Context;
use crate::error::Error;

/// Never shown, never logged.
#[derive(Default)]
pub struct DeployData {
    user_data: Option<model::Secret<String>>,
    network_data: Option<Value>,
    meta_data: Map<String, Value>,
    /// In base64, as Ironic wants it.
    pub pull_secret: Option<model::Secret<String>>,
}

impl DeployData {
    /// The data, or why it cannot be used.
    pub async fn read(context: &Context, host: &Host) -> Result<Result<Self, String>, Error> {
        let mut data = Self::default();
        let spec = &host.spec;
        if let Some(reference) = &spec.user_data {
            match field(context, host, reference, "userData").await? {
                Ok(Some(text)) => data.user_data = Some(model::Secret::new(text)),
                Ok(None) => return Ok(Err(lacks(reference, "userData"))),
                Err(why) => return Ok(Err(why)),
            }
        }
        let before = SecretRef {
            name: spec.preprovisioning_network_data_name.clone(),
            namespace: host.namespace.clone(),
        };
        let network = spec
            .network_data
            .as_ref()
            .or((!before.name.is_empty()).then_some(&before));
        if let Some(reference) = network {
            match field(context, host, reference, "networkData").await? {
                Ok(Some(text)) => match yaml(&text) {
                    Ok(value) => data.network_data = Some(value),
                    Err(why) => return Ok(Err(unreadable(reference, "networkData", &why))),
                },
                // Of OpenShift's, which has network state for the ramdisk only.
                Ok(None) => {}
                Err(why) => return Ok(Err(why)),
            }
        }
        if let Some(reference) = &spec.meta_data {
            match field(context, host, reference, "metaData").await? {
                Ok(Some(text)) => match yaml(&text) {
                    Ok(Value::Object(fields)) => data.meta_data = fields,
                    Ok(_) => return Ok(Err(unreadable(reference, "metaData", "it is no mapping"))),
                    Err(why) => return Ok(Err(unreadable(reference, "metaData", &why))),
                },
                Ok(None) => return Ok(Err(lacks(reference, "metaData"))),
                Err(why) => return Ok(Err(why)),
            }
        }
        if let Some(image) = spec.image.as_ref().filter(|image| image.is_oci())
            && !image.oci_auth_secret_name.is_empty()
        {
            let reference = SecretRef {
                name: image.oci_auth_secret_name.clone(),
                namespace: host.namespace.clone(),
            };
            match registry_login(context, host, &reference, &image.url).await? {
                Ok(login) => data.pull_secret = login.map(model::Secret::new),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(data))
    }

    /// The drive in the form that Ironic makes an image of.
    pub fn drive(&self, asked: &ConfigDrive) -> Value {
        let mut meta_data = asked.defaults.clone();
        meta_data.extend(self.meta_data.clone());
        let mut drive = json!({"meta_data": meta_data});
        if let Some(user_data) = &self.user_data {
            drive["user_data"] = user_data.expose().as_str().into();
        }
        if let Some(network_data) = &self.network_data {
            drive["network_data"] = network_data.clone();
        }
        drive
    }
}

/// The ramdisk's network configuration, if its Secret has one in the form that Ironic knows.
pub async fn network_data(
    context: &Context,
    host: &Host,
) -> Result<Result<Option<Value>, String>, Error> {
    let reference = SecretRef {
        name: host.spec.preprovisioning_network_data_name.clone(),
        namespace: host.namespace.clone(),
    };
    Ok(
        match field(context, host, &reference, "networkData").await? {
            Ok(Some(text)) => yaml(&text)
                .map(Some)
                .map_err(|why| unreadable(&reference, "networkData", &why)),
            Ok(None) => Ok(None),
            Err(why) => Err(why),
        },
    )
}

/// A field under its own name, or as `value`.
async fn field(
    context: &Context,
    host: &Host,
    reference: &SecretRef,
    key: &str,
) -> Result<Result<Option<String>, String>, Error> {
    let secret = match find(context, host, reference).await? {
        Ok(secret) => secret,
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(text(&secret, key).or_else(|| text(&secret, "value"))))
}

async fn find(
    context: &Context,
    host: &Host,
    reference: &SecretRef,
) -> Result<Result<Secret, String>, Error> {
    let name = &reference.name;
    if !reference.namespace.is_empty() && reference.namespace != host.namespace {
        return Ok(Err(format!(
            "the Secret {name:?} must be in the host's namespace, not in {:?}",
            reference.namespace
        )));
    }
    let secrets: Api<Secret> = context.in_namespace(&host.namespace);
    let found = secrets
        .get_opt(name)
        .await
        .map_err(Error::kube("read the Secret", name))?;
    Ok(found.ok_or_else(|| format!("the Secret {name:?} does not exist")))
}

fn lacks(reference: &SecretRef, key: &str) -> String {
    format!(
        "the Secret {:?} has neither {key} nor value",
        reference.name
    )
}

/// Says where it is wrong, never what it says.
fn unreadable(reference: &SecretRef, key: &str, why: &str) -> String {
    format!(
        "{key} in the Secret {:?} cannot be read: {why}",
        reference.name
    )
}

/// JSON is YAML as well.
fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.without_snippet().to_string())
}

/// The entry of a registry in a Docker config, as `user:password` in base64.
async fn registry_login(
    context: &Context,
    host: &Host,
    reference: &SecretRef,
    url: &str,
) -> Result<Result<Option<String>, String>, Error> {
    let secret = match find(context, host, reference).await? {
        Ok(secret) => secret,
        Err(why) => return Ok(Err(why)),
    };
    let json = text(&secret, ".dockerconfigjson");
    let Some(document) = json.or_else(|| text(&secret, ".dockercfg")) else {
        return Ok(Err(format!(
            "the Secret {:?} is neither of type dockerconfigjson nor dockercfg",
            secret.name_any()
        )));
    };
    Ok(docker_entry(&document, url).map_err(|why| unreadable(reference, "the login", &why)))
}

fn docker_entry(document: &str, url: &str) -> Result<Option<String>, String> {
    let parsed: Value = serde_json::from_str(document)
        .map_err(|error| format!("it is not JSON (line {})", error.line()))?;
    let entries = parsed.get("auths").unwrap_or(&parsed);
    let registry = url
        .trim_start_matches("oci://")
        .split('/')
        .next()
        .unwrap_or_default();
    let entry = entries.as_object().into_iter().flatten().find(|(name, _)| {
        let name = name
            .trim_start_matches("https://")
            .trim_start_matches("http://");
        name.split('/').next() == Some(registry)
    });
    let Some((_, entry)) = entry else {
        return Ok(None);
    };
    if let Some(auth) = entry["auth"].as_str() {
        return Ok(Some(auth.to_owned()));
    }
    match (entry["username"].as_str(), entry["password"].as_str()) {
        (Some(user), Some(password)) => Ok(Some(base64_of(&format!("{user}:{password}")))),
        _ => Err("its entry for the registry has no login".to_owned()),
    }
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registrys_own_entry_is_taken() {
        for (name, document, expected) in [
            (
                "auth",
                r#"{"auths": {"https://r.example/v1/": {"auth": "YTpi"}}}"#,
                Ok(Some("YTpi")),
            ),
            (
                "user and password",
                r#"{"auths": {"r.example": {"username": "a", "password": "b"}}}"#,
                Ok(Some("YTpi")),
            ),
            (
                "the old form",
                r#"{"r.example": {"auth": "YTpi"}}"#,
                Ok(Some("YTpi")),
            ),
            (
                "another registry",
                r#"{"auths": {"q.example": {"auth": "YTpi"}}}"#,
                Ok(None),
            ),
            ("an empty entry", r#"{"auths": {"r.example": {}}}"#, Err(())),
            ("not JSON", "nonsense", Err(())),
        ] {
            let found = docker_entry(document, "oci://r.example/a/b:c");
            match expected {
                Ok(expected) => assert_eq!(found, Ok(expected.map(str::to_owned)), "{name}"),
                Err(()) => assert!(found.is_err(), "{name}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_drive_has_what_the_secrets_say_over_what_is_usual() {
        let data = DeployData {
            user_data: Some(model::Secret::new("#!".into())),
            network_data: yaml("links: []\n").ok(),
            meta_data: Map::from_iter([("name".into(), json!("other"))]),
            pull_secret: None,
        };
        let asked = ConfigDrive {
            defaults: Map::from_iter([("name".into(), json!("h")), ("uuid".into(), json!("u"))]),
            ..ConfigDrive::default()
        };
        assert_eq!(
            data.drive(&asked),
            json!({"meta_data": {"name": "other", "uuid": "u"}, "user_data": "#!", "network_data": {"links": []}})
        );
    }
}
