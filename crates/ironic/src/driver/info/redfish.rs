//! Keys of a Redfish BMC. The iDRAC's are the same.

use std::path::PathBuf;

use clients::redfish::{Auth, Config};
use serde_json::Value;

use super::{Keys, flag};

/// A system behind a Redfish service.
#[derive(Debug)]
pub struct Redfish {
    pub config: Config,
    /// Whose word is taken for who the BMC is.
    pub verify: Verify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verify {
    System,
    /// Certificates in this PEM file.
    File(PathBuf),
    Nobody,
}

pub(super) fn read(keys: &mut Keys<'_>) -> Option<Redfish> {
    let address = keys.required("redfish_address", "https://192.0.2.10");
    let system = system(keys);
    let username = keys.text("redfish_username").unwrap_or_default();
    let password = keys.password("redfish_password");
    let verify = verify(keys);
    let auth = keys.word(
        "redfish_auth_type",
        &[
            ("auto", Auth::Auto),
            ("session", Auth::Session),
            ("basic", Auth::Basic),
            ("none", Auth::Nobody),
        ],
    );
    // Nobody can log in without a name.
    let auth = auth.unwrap_or(if username.is_empty() {
        Auth::Nobody
    } else {
        Auth::Auto
    });
    let address = with_scheme(address?);
    match Config::new(&address, &username, password) {
        Ok(config) => Some(Redfish {
            config: Config {
                system,
                auth,
                ..config
            },
            verify,
        }),
        Err(error) => {
            keys.problems
                .insert(0, format!("driver_info.redfish_address: {error}"));
            None
        }
    }
}

/// Ironic takes a bare host to mean HTTPS.
fn with_scheme(address: String) -> String {
    if address.contains("://") {
        address
    } else {
        format!("https://{address}")
    }
}

/// The service root stands for "the only system there is".
fn system(keys: &mut Keys<'_>) -> Option<String> {
    let path = keys.text("redfish_system_id")?;
    if !path.starts_with('/') {
        keys.problem(
            "redfish_system_id",
            "must be a path, such as /redfish/v1/Systems/1",
        );
        return None;
    }
    let bare = path.trim_end_matches('/');
    (!matches!(bare, "" | "/redfish" | "/redfish/v1")).then(|| bare.to_owned())
}

fn verify(keys: &mut Keys<'_>) -> Verify {
    let Some(value) = keys.get("redfish_verify_ca") else {
        return Verify::System;
    };
    match (flag(value), value) {
        (Some(true), _) => Verify::System,
        (Some(false), _) => Verify::Nobody,
        (None, Value::String(path)) if path.starts_with('/') => Verify::File(path.into()),
        (None, _) => {
            keys.problem(
                "redfish_verify_ca",
                "must be true, false, or the absolute path of a PEM file",
            );
            Verify::System
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::object;
    use super::super::{Access, access};
    use super::*;

    fn redfish(info: Value) -> Redfish {
        match access("redfish", &object(info)).unwrap() {
            Access::Redfish(redfish) => redfish,
            Access::Ipmi(_) => panic!("it is Redfish"),
        }
    }

    #[test]
    fn a_bare_host_means_https_and_the_service_root_means_the_only_system() {
        let read =
            redfish(json!({"redfish_address": "192.0.2.10", "redfish_system_id": "/redfish/v1/"}));
        assert_eq!(read.config.address.as_str(), "https://192.0.2.10/");
        assert_eq!(read.config.system, None);
        assert_eq!(read.config.auth, Auth::Nobody);
    }

    #[test]
    fn what_metal3_writes_is_understood() {
        let read = redfish(json!({
            "redfish_address": "http://192.0.2.1:8000", "redfish_username": "admin", "redfish_password": "password",
            "redfish_system_id": "/redfish/v1/Systems/ab-cd", "redfish_verify_ca": false,
        }));
        assert_eq!(
            read.config.system.as_deref(),
            Some("/redfish/v1/Systems/ab-cd")
        );
        assert_eq!(read.verify, Verify::Nobody);
        assert_eq!(read.config.auth, Auth::Auto);
    }

    #[test]
    fn certificates_to_check_with_are_a_file_or_a_word() {
        for (value, verify) in [
            (json!("False"), Verify::Nobody),
            (json!("true"), Verify::System),
            (
                json!("/etc/ssl/bmc.pem"),
                Verify::File("/etc/ssl/bmc.pem".into()),
            ),
        ] {
            let read = redfish(json!({"redfish_address": "bmc", "redfish_verify_ca": value}));
            assert_eq!(read.verify, verify);
        }
    }
}
