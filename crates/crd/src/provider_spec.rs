//! `BareMetalMachineProviderSpec`: what a machine on bare metal is made of. It stands inside a Machine.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::CustomDeploy;

pub const API_VERSION: &str = "baremetal.cluster.k8s.io/v1alpha1";
pub const KIND: &str = "BareMetalMachineProviderSpec";

/// Unknown fields are mistakes: a misspelt selector would choose any host.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BareMetalMachineProviderSpec {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    /// Written by tools that print Go's types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<MachineImage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_selector: Option<HostSelector>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct MachineImage {
    #[serde(default)]
    pub url: String,
    /// A digest, or the URL of a file with one.
    #[serde(default)]
    pub checksum: String,
}

/// Which hosts will do: all of it must match.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostSelector {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<HostSelectorRequirement>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HostSelectorRequirement {
    pub key: String,
    /// in, notin, exists, !, =, ==, !=; letter case does not matter.
    pub operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What is wrong with a provider spec.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("spec.providerSpec.value is missing")]
    Missing,
    #[error("spec.providerSpec.value is not a {KIND}: {0}")]
    NotUnderstood(#[source] serde_json::Error),
    #[error(
        "spec.providerSpec.value.image needs url and checksum, unless customDeploy.method is given"
    )]
    NoImage,
}

impl BareMetalMachineProviderSpec {
    /// Understood and complete, or what is wrong.
    pub fn parse(value: Option<&Value>) -> Result<Self, Error> {
        let value = value.ok_or(Error::Missing)?;
        let spec = Self::deserialize(value).map_err(Error::NotUnderstood)?;
        let has_image = spec
            .image
            .as_ref()
            .is_some_and(|image| !image.url.is_empty() && !image.checksum.is_empty());
        let has_step = spec
            .custom_deploy
            .as_ref()
            .is_some_and(|deploy| !deploy.method.is_empty());
        if has_image || has_step {
            Ok(spec)
        } else {
            Err(Error::NoImage)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_installers_write_is_understood() {
        for (name, value, good) in [
            (
                "an image",
                json!({"apiVersion": API_VERSION, "kind": KIND, "image": {"url": "http://a/b", "checksum": "c"},
                    "userData": {"name": "worker-user-data", "namespace": "x"}, "hostSelector": {}}),
                true,
            ),
            (
                "a deploy step, and Go's empty fields",
                json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"creationTimestamp": null},
                    "customDeploy": {"method": "install_coreos"}, "image": {"checksum": "", "url": ""}}),
                true,
            ),
            ("no image", json!({"hostSelector": {}}), false),
            (
                "no checksum",
                json!({"image": {"url": "http://a/b"}}),
                false,
            ),
            (
                "a misspelt selector",
                json!({"customDeploy": {"method": "m"}, "hostselector": {}}),
                false,
            ),
        ] {
            let parsed = BareMetalMachineProviderSpec::parse(Some(&value));
            assert_eq!(parsed.is_ok(), good, "{name}: {parsed:?}");
        }
        assert!(BareMetalMachineProviderSpec::parse(None).is_err());
    }
}
