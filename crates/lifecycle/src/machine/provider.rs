//! `BareMetalMachineProviderSpec`: what kind of host a Machine wants, and what goes onto it.

use serde::Deserialize;
use serde_json::Value;

use super::selector::HostSelector;
use crate::host::{self, Labels, SecretRef};

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProviderSpec {
    pub api_version: String,
    pub kind: String,
    pub metadata: Value,
    pub image: ProviderImage,
    pub custom_deploy: CustomDeploy,
    pub user_data: Option<SecretRef>,
    pub host_selector: HostSelector,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderImage {
    pub url: String,
    pub checksum: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CustomDeploy {
    pub method: String,
}

impl ProviderSpec {
    /// Reads and checks it; the error says what is wrong.
    pub fn parse(value: &Value) -> Result<Self, String> {
        if value.is_null() {
            return Err("providerSpec.value is missing".into());
        }
        let spec =
            Self::deserialize(value).map_err(|error| format!("providerSpec.value: {error}"))?;
        if spec.custom_deploy.method.is_empty() {
            if spec.image.url.is_empty() {
                return Err(
                    "providerSpec.value.image.url is missing; give it, or customDeploy.method"
                        .into(),
                );
            }
            if spec.image.checksum.is_empty() {
                return Err("providerSpec.value.image.checksum is missing".into());
            }
        }
        spec.host_selector
            .matches(&Labels::new())
            .map_err(|error| format!("providerSpec.value.hostSelector.{error}"))?;
        Ok(spec)
    }

    pub fn host_image(&self) -> Option<host::Image> {
        let image = &self.image;
        let given = !image.url.is_empty() && !image.checksum.is_empty();
        given.then(|| host::Image {
            url: image.url.clone(),
            checksum: image.checksum.clone(),
            ..host::Image::default()
        })
    }

    pub fn host_deploy(&self) -> Option<host::CustomDeploy> {
        let method = &self.custom_deploy.method;
        (!method.is_empty()).then(|| host::CustomDeploy {
            method: method.clone(),
        })
    }

    /// The Secret; in the Machine's namespace where it does not say.
    pub fn host_user_data(&self, namespace: &str) -> Option<SecretRef> {
        let mut secret = self.user_data.clone()?;
        if secret.namespace.is_empty() {
            namespace.clone_into(&mut secret.namespace);
        }
        Some(secret)
    }
}
