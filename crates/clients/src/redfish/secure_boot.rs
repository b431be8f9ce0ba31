//! Secure boot.

use serde_json::{Value, json};

use super::Error;
use super::json::Resource;
use super::talk::Client;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecureBoot {
    /// From the next boot on.
    pub enabled: bool,
    /// What the server booted with, where the BMC says.
    pub current: Option<bool>,
}

impl Client {
    /// `None` where there is none, or no licence to see it.
    pub async fn secure_boot(&self) -> Result<Option<SecureBoot>, Error> {
        let Some(resource) = self.secure_boot_resource("read secure boot").await? else {
            return Ok(None);
        };
        let Some(enabled) = resource
            .body
            .get("SecureBootEnable")
            .and_then(Value::as_bool)
        else {
            return Ok(None);
        };
        let current = resource
            .text_at("/SecureBootCurrentBoot")
            .map(|text| text == "Enabled");
        Ok(Some(SecureBoot { enabled, current }))
    }

    /// Takes effect at the next boot. Returns false, and changes nothing, if it is so already.
    pub async fn set_secure_boot(&self, enable: bool) -> Result<bool, Error> {
        let operation = "set secure boot";
        let url = self.config.address.to_string();
        let none = || Error::Unsupported {
            operation,
            url,
            why: "it has no secure boot".to_string(),
        };
        let resource = self
            .secure_boot_resource(operation)
            .await?
            .ok_or_else(none)?;
        if resource.body.get("SecureBootEnable") == Some(&Value::Bool(enable)) {
            return Ok(false);
        }
        self.patch(
            operation,
            &resource.path,
            &json!({"SecureBootEnable": enable}),
        )
        .await?;
        Ok(true)
    }

    async fn secure_boot_resource(
        &self,
        operation: &'static str,
    ) -> Result<Option<Resource>, Error> {
        let system = self.system_resource(operation).await?;
        let Some(path) = system.link("/SecureBoot") else {
            return Ok(None);
        };
        match self.find(operation, path).await {
            Err(error) if error.status() == Some(403) => Ok(None),
            outcome => outcome,
        }
    }
}
