//! A host as objects of the API.

use std::fmt::Write as _;

use anyhow::Result;
use crd::BareMetalHost;
use crd::host::{BareMetalHostSpec, BmcDetails};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::entry::Entry;

/// The name of the Secret with the BMC's login.
pub fn secret_name(entry: &Entry) -> String {
    format!("{}-bmc", entry.name)
}

pub fn secret(entry: &Entry) -> Secret {
    let login = [
        ("username", entry.username.clone()),
        ("password", entry.password.expose().clone()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(entry)),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        string_data: Some(login.map(|(key, value)| (key.to_owned(), value)).into()),
        ..Secret::default()
    }
}

pub fn host(entry: &Entry) -> BareMetalHost {
    let spec = BareMetalHostSpec {
        bmc: Some(BmcDetails {
            address: entry.bmc.as_str().to_owned(),
            credentials_name: secret_name(entry),
            disable_certificate_verification: !entry.verify_tls,
        }),
        boot_mac_address: entry.mac.map(|mac| mac.to_string()),
        boot_mode: entry.boot_mode,
        root_device_hints: entry.root_device.clone(),
        online: entry.online,
        description: entry.description.clone(),
        ..BareMetalHostSpec::default()
    };
    let mut host = BareMetalHost::new(&entry.name, spec);
    if !entry.labels.is_empty() {
        host.metadata.labels = Some(entry.labels.clone());
    }
    host
}

/// Every object, for `kubectl apply -f -`; stars stand for passwords unless they are to be shown.
pub fn yaml(entries: &[Entry], namespace: Option<&str>, passwords: bool) -> Result<String> {
    let mut text = String::new();
    for entry in entries {
        let mut secret = json!(secret(entry));
        if !passwords {
            secret["stringData"]["password"] = Value::from(entry.password.to_string());
        }
        let mut host = json!(host(entry));
        // What only the controller says.
        if let Some(host) = host.as_object_mut() {
            host.remove("status");
        }
        for mut object in [secret, host] {
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = namespace.into();
            }
            write!(text, "---\n{}", serde_saphyr::to_string(&object)?)?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::entry::resolve;
    use super::super::written::table;
    use super::*;

    fn entries() -> Vec<Entry> {
        let rows = table(
            "name,bmc,username,password,mac,boot_mode,root_device,labels,verify_tls\n\
             w0,redfish://192.0.2.1/redfish/v1/Systems/1,admin,hunter2,52:54:00:00:00:01,legacy,serialNumber=S1,rack=r1,no\n\
             w1,redfish-virtualmedia://192.0.2.2/redfish/v1/Systems/1,admin,hunter3,,,,,\n",
        );
        resolve(&rows.expect("a table")).expect("they are good")
    }

    #[test]
    fn a_host_is_a_secret_and_an_object() {
        insta::assert_snapshot!(yaml(&entries(), None, false).expect("YAML"));
    }

    #[test]
    fn passwords_are_shown_only_where_that_is_asked_for() {
        assert!(
            !yaml(&entries(), Some("metal"), false)
                .expect("YAML")
                .contains("hunter")
        );
        assert!(
            yaml(&entries(), None, true)
                .expect("YAML")
                .contains("hunter2")
        );
    }
}
