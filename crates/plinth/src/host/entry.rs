//! A host that can be added: every field in its type.

use std::collections::BTreeMap;

use crd::host::{BootMode, RootDeviceHints};
use model::{BmcAddress, Mac, Scheme, Secret};
use serde_json::{Map, Value};

use super::Password;
use super::written::{Field, Written};

#[derive(Debug, Clone)]
pub struct Entry {
    /// `line 3`; empty where there is only one.
    pub place: String,
    pub name: String,
    pub bmc: BmcAddress,
    pub username: String,
    pub password: Password,
    pub mac: Option<Mac>,
    pub boot_mode: Option<BootMode>,
    pub root_device: Option<RootDeviceHints>,
    pub online: bool,
    pub verify_tls: bool,
    pub labels: BTreeMap<String, String>,
    pub description: Option<String>,
}

impl Entry {
    /// Which server it is: no two hosts may have one.
    pub fn server(&self) -> (String, u16, String) {
        server(&self.bmc)
    }
}

pub fn server(bmc: &BmcAddress) -> (String, u16, String) {
    (
        bmc.host.to_ascii_lowercase(),
        bmc.port_or_default(),
        bmc.path.clone(),
    )
}

/// Every host, or every problem.
pub fn resolve(rows: &[Written]) -> Result<Vec<Entry>, Vec<String>> {
    let mut problems = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    for row in rows {
        let Some(entry) = one(row, &mut problems) else {
            continue;
        };
        for other in &entries {
            let mut clash = |field, what: &str| {
                let why = format!("{what}, as at {}", other.place);
                problems.push(row.problem(field, &why));
            };
            if other.name == entry.name {
                clash(Field::Name, &format!("{} is there twice", entry.name));
            }
            if other.server() == entry.server() {
                clash(Field::Bmc, "this server is there twice");
            }
            if let Some(mac) = entry.mac.filter(|mac| other.mac == Some(*mac)) {
                clash(Field::Mac, &format!("{mac} is there twice"));
            }
        }
        entries.push(entry);
    }
    if problems.is_empty() {
        Ok(entries)
    } else {
        Err(problems)
    }
}

/// What is wrong with one answer, taken by itself.
pub fn check(field: Field, text: &str) -> Result<(), String> {
    match field {
        Field::Name => name(text).map(drop),
        Field::Bmc => bmc(text).map(drop),
        Field::Mac => mac(text).map(drop),
        Field::BootMode => boot_mode(text).map(drop),
        Field::RootDevice => root_device(text).map(drop),
        Field::Online | Field::VerifyTls => flag(text).map(drop),
        Field::Labels => labels(text).map(drop),
        Field::Username | Field::Password => needed(text).map(drop),
        Field::Description => Ok(()),
    }
}

fn one(row: &Written, problems: &mut Vec<String>) -> Option<Entry> {
    let before = problems.len();
    for field in Field::ALL {
        if (field.is_needed() || !row.lacks(field))
            && let Err(why) = check(field, row.get(field))
        {
            problems.push(row.problem(field, &why));
        }
    }
    let bmc = bmc(row.get(Field::Bmc)).ok();
    let boot_mode = boot_mode(row.get(Field::BootMode)).ok();
    if let Some(bmc) = &bmc {
        let scheme = bmc.scheme;
        if row.lacks(Field::Mac) && needs_mac(scheme) {
            let why = format!("is needed: {}:// boots over the network", scheme.name());
            problems.push(row.problem(Field::Mac, &why));
        }
        if boot_mode == Some(BootMode::UefiSecureBoot) && !scheme.can_secure_boot() {
            let why = format!("uefi-secure-boot is not possible with {}://", scheme.name());
            problems.push(row.problem(Field::BootMode, &why));
        }
    }
    if problems.len() > before {
        return None;
    }
    let text = |field| Some(row.get(field)).filter(|text| !text.is_empty());
    Some(Entry {
        place: row.place.clone(),
        name: row.get(Field::Name).to_owned(),
        bmc: bmc?,
        username: row.get(Field::Username).to_owned(),
        password: Secret::new(row.get(Field::Password).to_owned()),
        mac: text(Field::Mac).and_then(|text| mac(text).ok()),
        boot_mode: boot_mode.filter(|_| !row.lacks(Field::BootMode)),
        root_device: text(Field::RootDevice).and_then(|text| root_device(text).ok()),
        online: text(Field::Online).is_none_or(|text| flag(text).unwrap_or(true)),
        verify_tls: text(Field::VerifyTls).is_none_or(|text| flag(text).unwrap_or(true)),
        labels: labels(row.get(Field::Labels)).unwrap_or_default(),
        description: text(Field::Description).map(str::to_owned),
    })
}

/// The NIC that boots is told apart by its MAC; a CD goes to one server anyway.
fn needs_mac(scheme: Scheme) -> bool {
    scheme.needs_provisioning_network()
}

fn needed(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        Err("is missing".to_owned())
    } else {
        Ok(text)
    }
}

/// A name of Kubernetes, short enough for the names made of it.
fn name(text: &str) -> Result<&str, String> {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
    };
    if needed(text)?.len() > 63 || !text.split('.').all(part) {
        return Err(format!(
            "{text:?} is not a name; write small letters, digits, dots and dashes, 63 at most, such as worker-0"
        ));
    }
    Ok(text)
}

fn bmc(text: &str) -> Result<BmcAddress, String> {
    needed(text)?.parse().map_err(|error| {
        // Whoever writes a login there has written a password.
        if matches!(error, model::BmcAddressError::Credentials) {
            return error.to_string();
        }
        format!("{text:?}: {error}")
    })
}

fn mac(text: &str) -> Result<Mac, String> {
    needed(text)?
        .parse()
        .map_err(|error: model::ParseMacError| error.to_string())
}

fn boot_mode(text: &str) -> Result<BootMode, String> {
    match text.to_ascii_lowercase().replace('_', "-").as_str() {
        "" | "uefi" => Ok(BootMode::Uefi),
        "uefi-secure-boot" | "uefisecureboot" => Ok(BootMode::UefiSecureBoot),
        "legacy" | "bios" => Ok(BootMode::Legacy),
        _ => Err(format!(
            "{text:?} is none of uefi, uefi-secure-boot, legacy"
        )),
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// `/dev/sda`, or `serialNumber=ABC;rotational=false`.
fn root_device(text: &str) -> Result<RootDeviceHints, String> {
    const KEYS: [&str; 10] = [
        "deviceName",
        "hctl",
        "model",
        "vendor",
        "serialNumber",
        "minSizeGigabytes",
        "wwn",
        "wwnWithExtension",
        "wwnVendorExtension",
        "rotational",
    ];
    let mut hints = Map::new();
    if text.starts_with("/dev/") {
        hints.insert("deviceName".into(), text.into());
    } else {
        for (key, value) in pairs(text)? {
            let Some(known) = KEYS
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(key))
            else {
                return Err(format!(
                    "{key:?} is not a hint; there are {}",
                    KEYS.join(", ")
                ));
            };
            let value = match known {
                "minSizeGigabytes" => value
                    .parse::<u32>()
                    .map(Value::from)
                    .map_err(|_| format!("{known} is a number of GB, not {value:?}"))?,
                "rotational" => flag(value).map(Value::from)?,
                _ => Value::from(value),
            };
            hints.insert(known.to_owned(), value);
        }
    }
    serde_json::from_value(hints.into()).map_err(|error| error.to_string())
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let pairs = pairs(text)?.into_iter();
    Ok(pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

/// `key=value;key=value`
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let parts = text.split(';').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(|part| match part.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim(), value.trim())),
            Some(_) | None => Err(format!("{part:?} is not key=value")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::written::table;
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        resolve(&table(text).expect("a table")).expect_err("it is refused")
    }

    #[test]
    fn a_host_has_every_field_in_its_type() {
        let rows = table(
            "name,bmc,username,password,mac,boot_mode,root_device,online,verify_tls,labels\n\
             w0,redfish://192.0.2.1/redfish/v1/Systems/1,admin,\"a,b\",52:54:00:00:00:01,legacy,\
             serialnumber=S1;minSizeGigabytes=100;rotational=no,no,no,rack=r1;row=2\n\
             w1,redfish-virtualmedia://192.0.2.2/redfish/v1/Systems/1,admin,secret,,,/dev/sda,,,\n",
        );
        let entries = resolve(&rows.expect("a table")).expect("they are good");
        let first = &entries[0];
        assert_eq!(first.password.expose(), "a,b");
        assert_eq!(first.boot_mode, Some(BootMode::Legacy));
        let hints = first.root_device.as_ref().expect("hints");
        assert_eq!(hints.serial_number.as_deref(), Some("S1"));
        assert_eq!(
            (hints.min_size_gigabytes, hints.rotational),
            (Some(100), Some(false))
        );
        assert!(!first.online && !first.verify_tls);
        assert_eq!(first.labels["rack"], "r1");
        let second = &entries[1];
        assert!(second.online && second.verify_tls && second.mac.is_none());
        let hints = second.root_device.as_ref().expect("hints");
        assert_eq!(hints.device_name.as_deref(), Some("/dev/sda"));
    }

    #[test]
    fn every_problem_is_told_with_its_line_and_none_tells_a_password() {
        let told = problems(
            "name,bmc,username,password,mac,boot_mode,root_device,online,labels\n\
             W_0,redfsh://192.0.2.1/x,admin,secret,zz,,,,\n\
             w1,redfish://192.0.2.1/redfish/v1/Systems/1,,,,secure,size=1,maybe,rack\n\
             w2,ipmi://admin:secret@192.0.2.3,admin,secret,52:54:00:00:00:02,,,,\n",
        );
        let places: Vec<&str> = told
            .iter()
            .map(|problem| {
                let end = problem.match_indices(": ").nth(1).expect("a place").0;
                &problem[..end]
            })
            .collect();
        assert_eq!(
            places,
            [
                "line 2: name",
                "line 2: bmc",
                "line 2: mac",
                "line 3: username",
                "line 3: password",
                "line 3: boot_mode",
                "line 3: root_device",
                "line 3: online",
                "line 3: labels",
                "line 3: mac",
                "line 4: bmc",
            ]
        );
        assert!(
            told.iter().all(|problem| !problem.contains("secret")),
            "{told:#?}"
        );
    }

    #[test]
    fn two_hosts_cannot_have_one_server() {
        let told = problems(
            "name,bmc,username,password,mac\n\
             w0,ipmi://192.0.2.1,a,b,52:54:00:00:00:01\n\
             w1,ipmi://192.0.2.1:623,a,b,52:54:00:00:00:01\n\
             w0,ipmi://192.0.2.2,a,b,52:54:00:00:00:02\n",
        );
        assert_eq!(told.len(), 3, "{told:#?}");
        assert_eq!(
            told[0],
            "line 3: bmc: this server is there twice, as at line 2"
        );
        assert!(told[2].starts_with("line 4: name: w0 is there twice"));
    }

    proptest! {
        #[test]
        fn any_answer_is_good_or_refused(text in any::<String>()) {
            for field in Field::ALL {
                _ = check(field, &text);
            }
        }
    }
}
