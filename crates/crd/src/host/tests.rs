//! What an API server lets pass as a host.

use std::sync::LazyLock;

use model::Scheme;
use serde_json::{Value, json};

use super::*;

/// The schema takes a while to make.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let all = crate::all();
    let crd = all
        .iter()
        .find(|crd| crd.spec.names.kind == "BareMetalHost")
        .expect("it is one of ours");
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("plain data");
    schema["openAPIV3Schema"].clone()
});

/// What is wrong with `new`, created or put in place of `old`.
fn complaints(new: &Value, old: Option<&Value>) -> Vec<String> {
    let default = |value: &Value| kube_cel::apply_defaults(&SCHEMA, value);
    let old = old.map(default);
    match kube_cel::Validator::new().validate(&SCHEMA, &default(new), old.as_ref()) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec().into_iter().map(|e| e.message).collect(),
    }
}

fn host(spec: Value) -> Value {
    let mut host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "rack-1"},
        "spec": {"online": true, "bmc": {"address": "redfish://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "s"},
            "bootMACAddress": "52:54:00:00:00:01"},
    });
    merge(&mut host["spec"], spec);
    host
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, from) => *into = from,
    }
}

fn in_state(mut host: Value, state: &str, operational: &str) -> Value {
    host["status"] = json!({"operationalStatus": operational, "provisioning": {"state": state}});
    host
}

#[test]
fn what_a_new_host_may_say() {
    let image = |fields: Value| json!({"image": fields});
    for (name, spec, complaint) in [
        ("plain", json!({}), None),
        ("no BMC", json!({"bmc": null}), None),
        (
            "a bare host",
            json!({"bmc": {"address": "192.0.2.1:623"}}),
            None,
        ),
        (
            "an unknown scheme",
            json!({"bmc": {"address": "telnet://192.0.2.1"}}),
            Some("scheme is none of"),
        ),
        (
            "a scheme of old",
            json!({"bmc": {"address": "ilo4://192.0.2.1"}}),
            Some("scheme is none of"),
        ),
        (
            "a login in the address",
            json!({"bmc": {"address": "redfish://root:calvin@192.0.2.1/x"}}),
            Some("do not belong"),
        ),
        (
            "firmware",
            json!({"firmware": {"sriovEnabled": true}}),
            Some("HostFirmwareSettings"),
        ),
        (
            "power must stay, but off",
            json!({"online": false, "disablePowerOff": true}),
            Some("has to be online"),
        ),
        (
            "no inspection, no MAC",
            json!({"inspectionMode": "disabled", "bootMACAddress": null}),
            Some("inspection is disabled"),
        ),
        ("no inspection", json!({"inspectionMode": "disabled"}), None),
        (
            "libvirt without MAC",
            json!({"bmc": {"address": "libvirt://192.0.2.1"}, "bootMACAddress": null}),
            Some("libvirt"),
        ),
        (
            "fast over IPMI",
            json!({"bmc": {"address": "ipmi://192.0.2.1"}, "inspectionMode": "fast"}),
            Some("fast inspection"),
        ),
        ("fast", json!({"inspectionMode": "fast"}), None),
        (
            "secure boot over IPMI",
            json!({"bmc": {"address": "ipmi://192.0.2.1"}, "bootMode": "UEFISecureBoot"}),
            Some("secure boot"),
        ),
        ("secure boot", json!({"bootMode": "UEFISecureBoot"}), None),
        (
            "a hint to a directory",
            json!({"rootDeviceHints": {"deviceName": "/dev/disk/by-id/x"}}),
            Some("/dev/NAME"),
        ),
        (
            "a hint by path",
            json!({"rootDeviceHints": {"deviceName": "/dev/disk/by-path/pci-0"}}),
            None,
        ),
        (
            "an image",
            image(json!({"url": "http://a/b", "checksum": "c"})),
            None,
        ),
        (
            "an image unchecked",
            image(json!({"url": "http://a/b"})),
            Some("needs a checksum"),
        ),
        (
            "a file",
            image(json!({"url": "file:///b", "checksum": "c"})),
            Some("scheme is none of"),
        ),
        (
            "a live ISO",
            image(json!({"url": "http://a/b", "format": "live-iso"})),
            None,
        ),
        (
            "from a registry",
            image(json!({"url": "oci://a/b", "ociAuthSecretName": "s"})),
            None,
        ),
        (
            "from a registry, checked",
            image(json!({"url": "oci://a/b", "checksum": "c"})),
            Some("leave checksum out"),
        ),
        (
            "a registry's login for a server",
            image(json!({"url": "http://a/b", "checksum": "c", "ociAuthSecretName": "s"})),
            Some("oci://"),
        ),
        (
            "both kinds of RAID",
            json!({"raid": {"hardwareRAIDVolumes": [{"level": "1"}], "softwareRAIDVolumes": [{"level": "1"}]}}),
            Some("exclude each other"),
        ),
        (
            "hardware RAID over IPMI",
            json!({"bmc": {"address": "ipmi://192.0.2.1"}, "raid": {"hardwareRAIDVolumes": [{"level": "1"}]}}),
            Some("hardware RAID needs"),
        ),
        (
            "all RAID gone",
            json!({"raid": {"hardwareRAIDVolumes": [], "softwareRAIDVolumes": []}}),
            None,
        ),
        (
            "disks without controller",
            json!({"raid": {"hardwareRAIDVolumes": [{"level": "1", "physicalDisks": ["a", "b"]}]}}),
            Some("controller"),
        ),
        (
            "another number of disks",
            json!({"raid": {"hardwareRAIDVolumes": [
            {"level": "1", "controller": "c", "physicalDisks": ["a", "b"], "numberOfPhysicalDisks": 3}]}}),
            Some("numberOfPhysicalDisks"),
        ),
        (
            "two roots",
            json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}, {"level": "1", "rootVolume": true}]}}),
            Some("only one volume"),
        ),
        (
            "a striped root",
            json!({"raid": {"softwareRAIDVolumes": [{"level": "0", "rootVolume": true}]}}),
            Some("level 1"),
        ),
        (
            "a root twice",
            json!({"raid": {"softwareRAIDVolumes": [{"level": "1", "rootVolume": true}]}, "rootDeviceHints": {"model": "m"}}),
            Some("exclude each other"),
        ),
        (
            "a NIC twice",
            json!({"networkInterfaces": [{"name": "eth0"}, {"name": "ETH0"}]}),
            Some("only once"),
        ),
        (
            "a NIC by both",
            json!({"networkInterfaces": [{"name": "eth0", "macAddress": "52:54:00:00:00:01"}]}),
            Some("not both"),
        ),
        (
            "two NICs",
            json!({"networkInterfaces": [{"name": "eth0"}, {"macAddress": "52:54:00:00:00:01"}]}),
            None,
        ),
    ] {
        let found = complaints(&host(spec), None);
        match complaint {
            None => assert!(found.is_empty(), "{name}: {found:?}"),
            Some(text) => assert!(found.iter().any(|f| f.contains(text)), "{name}: {found:?}"),
        }
    }
    let mut uuid = host(json!({}));
    uuid["metadata"]["name"] = json!("6b1f0f6e-3c0b-4d0e-9b65-000000000000");
    assert!(complaints(&uuid, None)[0].contains("UUID"));
}

#[test]
fn what_may_change() {
    let old = host(json!({}));
    let address = host(json!({"bmc": {"address": "redfish://192.0.2.2/redfish/v1/Systems/1"}}));
    let external = host(json!({"externallyProvisioned": true}));
    for (name, new, old, complaint) in [
        (
            "nothing",
            old.clone(),
            in_state(old.clone(), "provisioned", "OK"),
            None,
        ),
        (
            "the address while registering",
            in_state(address.clone(), "registering", "error"),
            in_state(old.clone(), "registering", "error"),
            None,
        ),
        (
            "the address while detached",
            in_state(address.clone(), "provisioned", "detached"),
            in_state(old.clone(), "provisioned", "detached"),
            None,
        ),
        (
            "the address while provisioned",
            in_state(address, "provisioned", "OK"),
            in_state(old.clone(), "provisioned", "OK"),
            Some("registering or detached"),
        ),
        (
            "the MAC",
            host(json!({"bootMACAddress": "52:54:00:00:00:02"})),
            old.clone(),
            Some("cannot be changed"),
        ),
        (
            "the MAC's letters",
            host(json!({"bootMACAddress": "52:54:00:00:00:0A"})),
            host(json!({"bootMACAddress": "52:54:00:00:00:0a"})),
            None,
        ),
        (
            "the MAC goes",
            host(json!({"bootMACAddress": null})),
            old.clone(),
            Some("cannot be changed"),
        ),
        (
            "taken over when available",
            in_state(external.clone(), "available", "OK"),
            in_state(old.clone(), "available", "OK"),
            None,
        ),
        (
            "taken over when provisioned",
            in_state(external.clone(), "provisioned", "OK"),
            in_state(old.clone(), "provisioned", "OK"),
            Some("created or available"),
        ),
        (
            "given back",
            in_state(old, "externally provisioned", "OK"),
            in_state(external, "externally provisioned", "OK"),
            None,
        ),
    ] {
        let found = complaints(&new, Some(&old));
        match complaint {
            None => assert!(found.is_empty(), "{name}: {found:?}"),
            Some(text) => assert!(found.iter().any(|f| f.contains(text)), "{name}: {found:?}"),
        }
    }
}

#[test]
fn every_way_to_drive_a_bmc_is_let_through() {
    for scheme in Scheme::ALL {
        let name = scheme.name();
        let plain = format!("{name}://192.0.2.1/redfish/v1/Systems/1");
        let found = complaints(&host(json!({"bmc": {"address": plain}})), None);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn a_status_is_read_although_parts_are_missing() {
    let status: BareMetalHostStatus =
        serde_json::from_value(json!({"provisioning": {"state": "provisioned"}}))
            .expect("it is read");
    assert_eq!(status.provisioning.state, "provisioned");
    assert_eq!(status.error_count, 0);
    let error: ErrorType = serde_json::from_value(json!("detach error")).expect("it is known");
    assert_eq!(error, ErrorType::Detach);
}
