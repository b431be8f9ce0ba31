//! BareMetalHosts: what the schema cannot say, and what would let two hosts drive one server.
//!
//! The rules are those of metal3's own webhook, and one more that its users miss: no two hosts share a boot MAC or
//! a BMC.

use model::{BmcAddress, Mac};
use objects::{Cause, Kind, Status};
use serde_json::{Value, json};

use super::super::object;
use super::{Review, invalid};

pub fn is_host(kind: &Kind) -> bool {
    kind.group == "metal3.io" && kind.plural == "baremetalhosts"
}

/// Whether this write claims a server that the host did not have before: only then are others looked at.
pub fn claims_anew(kind: &Kind, new: &Value, old: Option<&Value>) -> bool {
    let same =
        |old: &Value| boot_mac(old) == boot_mac(new) && text(old, ADDRESS) == text(new, ADDRESS);
    is_host(kind) && !old.is_some_and(same)
}

pub fn host_is_sound(review: &Review<'_>) -> Result<(), Status> {
    if !is_host(review.kind)
        || !review.subresource.is_empty()
        || object::is_being_deleted(review.new)
    {
        return Ok(());
    }
    let mut causes = alone(review.new);
    if let Some(old) = review.old {
        causes.extend(changed(old, review.new));
    }
    causes.extend(beside_others(review.new, &review.others));
    if causes.is_empty() {
        Ok(())
    } else {
        Err(invalid(review, causes))
    }
}

/// What is wrong with a host taken by itself.
fn alone(host: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::meta(host, "name");
    if uuid::Uuid::try_parse(name).is_ok() {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(name),
            "must not be a UUID: Ironic takes a node by name or UUID",
        ));
    }
    let address = text(host, ADDRESS);
    if !address.is_empty()
        && let Err(problem) = address.parse::<BmcAddress>()
    {
        causes.push(Cause::invalid(
            "spec.bmc.address",
            &json!(address),
            &problem.to_string(),
        ));
    }
    let mac = text(host, BOOT_MAC);
    if !mac.is_empty() && mac.parse::<Mac>().is_err() {
        causes.push(Cause::invalid(
            "spec.bootMACAddress",
            &json!(mac),
            "must be a MAC address such as 52:54:00:12:34:56",
        ));
    }
    for field in ["userData", "networkData", "metaData"] {
        let namespace = text(host, &format!("/spec/{field}/namespace"));
        if !namespace.is_empty() && namespace != object::meta(host, "namespace") {
            causes.push(Cause::forbidden(
                format!("spec.{field}.namespace"),
                "must be the host's own namespace",
            ));
        }
    }
    let flag = |pointer: &str| {
        host.pointer(pointer)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    if flag("/spec/disablePowerOff") && !flag("/spec/online") {
        causes.push(Cause::invalid(
            "spec.disablePowerOff",
            &json!(true),
            "needs online: true",
        ));
    }
    causes
}

/// What a host may not become.
fn changed(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let either =
        |pointer: &str, wanted: &str| text(old, pointer) == wanted || text(new, pointer) == wanted;
    let (was, is) = (text(old, ADDRESS), text(new, ADDRESS));
    if !was.is_empty()
        && was != is
        && !either(OPERATIONAL, "detached")
        && !either(STATE, "registering")
    {
        let why = "may change only while the host is detached or registering";
        causes.push(Cause::invalid("spec.bmc.address", &json!(is), why));
    }
    let (was, is) = (text(old, BOOT_MAC), text(new, BOOT_MAC));
    if !was.is_empty() && !was.eq_ignore_ascii_case(is) {
        causes.push(Cause::invalid(
            "spec.bootMACAddress",
            &json!(is),
            "may not change once it is set",
        ));
    }
    let external = |host: &Value| {
        host.pointer("/spec/externallyProvisioned")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    if !external(old) && external(new) && !either(STATE, "available") {
        let why = "may be set only while the host is available";
        causes.push(Cause::invalid(
            "spec.externallyProvisioned",
            &json!(true),
            why,
        ));
    }
    causes
}

/// No two hosts share a boot MAC or a BMC's system: both would drive one server.
fn beside_others(host: &Value, others: &[Value]) -> Vec<Cause> {
    let itself = |other: &Value| {
        ["namespace", "name"]
            .iter()
            .all(|field| object::meta(other, field) == object::meta(host, field))
    };
    let mut causes = Vec::new();
    for other in others.iter().filter(|other| !itself(other)) {
        let holder = format!(
            "{}/{}",
            object::meta(other, "namespace"),
            object::meta(other, "name")
        );
        let mac = boot_mac(host);
        if !mac.is_empty() && mac == boot_mac(other) {
            let why = format!("is already the boot MAC of host {holder}");
            causes.push(Cause::invalid("spec.bootMACAddress", &json!(mac), &why));
        }
        if place(host).is_some() && place(host) == place(other) {
            let why = format!("is already the BMC of host {holder}");
            let address = text(host, ADDRESS);
            causes.push(Cause::invalid("spec.bmc.address", &json!(address), &why));
        }
    }
    causes
}

/// Where a BMC's system is. The scheme does not tell servers apart; the host, port and path do.
pub type Place = (String, u16, String);

/// The place of a host's BMC, if it has one that can be read.
pub fn place(host: &Value) -> Option<Place> {
    let address: BmcAddress = text(host, ADDRESS).parse().ok()?;
    let port = address.port_or_default();
    Some((address.host.to_ascii_lowercase(), port, address.path))
}

/// In one spelling; empty if there is none.
pub fn boot_mac(host: &Value) -> String {
    text(host, BOOT_MAC).to_ascii_lowercase()
}

const OPERATIONAL: &str = "/status/operationalStatus";
const STATE: &str = "/status/provisioning/state";
const ADDRESS: &str = "/spec/bmc/address";
const BOOT_MAC: &str = "/spec/bootMACAddress";

fn text<'a>(host: &'a Value, pointer: &str) -> &'a str {
    host.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, address: &str, mac: &str) -> Value {
        json!({
            "metadata": { "name": name, "namespace": "a" },
            "spec": { "online": true, "bmc": { "address": address }, "bootMACAddress": mac },
        })
    }

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn a_host_alone_is_checked_in_every_field_at_once() {
        let mut bad = host(
            "5f8f6a4e-2c1b-4c3d-9e0f-0123456789ab",
            "redfsh://1.2.3.4/x",
            "nonsense",
        );
        bad["spec"]["userData"] = json!({ "name": "s", "namespace": "b" });
        bad["spec"]["online"] = json!(false);
        bad["spec"]["disablePowerOff"] = json!(true);
        let found = alone(&bad);
        assert_eq!(
            fields(&found),
            [
                "metadata.name",
                "spec.bmc.address",
                "spec.bootMACAddress",
                "spec.userData.namespace",
                "spec.disablePowerOff"
            ]
        );
        assert!(alone(&host("w0", "ipmi://192.0.2.1", "52:54:00:00:00:01")).is_empty());
        assert!(alone(&host("w0", "", "")).is_empty());
    }

    #[test]
    fn two_hosts_cannot_have_one_server() {
        let first = host(
            "first",
            "redfish://192.0.2.1/redfish/v1/Systems/1",
            "52:54:00:00:00:0A",
        );
        let others = [first.clone()];
        let table: [(Value, &[&str]); 5] = [
            (
                host(
                    "second",
                    "redfish://192.0.2.1/redfish/v1/Systems/2",
                    "52:54:00:00:00:0b",
                ),
                &[],
            ),
            (
                host(
                    "second",
                    "redfish://192.0.2.1/redfish/v1/Systems/2",
                    "52:54:00:00:00:0a",
                ),
                &["spec.bootMACAddress"],
            ),
            (
                host(
                    "second",
                    "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1",
                    "",
                ),
                &["spec.bmc.address"],
            ),
            (
                host("second", "redfish://192.0.2.1:443/redfish/v1/Systems/1", ""),
                &["spec.bmc.address"],
            ),
            (first.clone(), &[]),
        ];
        for (host, expected) in table {
            assert_eq!(fields(&beside_others(&host, &others)), expected, "{host}");
        }
    }

    #[test]
    fn what_a_host_is_reached_by_stays_while_it_is_in_use() {
        let old = host("w0", "ipmi://192.0.2.1", "52:54:00:00:00:01");
        let moved = host("w0", "ipmi://192.0.2.2", "52:54:00:00:00:02");
        assert_eq!(
            fields(&changed(&old, &moved)),
            ["spec.bmc.address", "spec.bootMACAddress"]
        );
        let mut detached = old.clone();
        detached["status"] = json!({ "operationalStatus": "detached" });
        assert_eq!(fields(&changed(&detached, &moved)), ["spec.bootMACAddress"]);
        let mut taken = old.clone();
        taken["spec"]["externallyProvisioned"] = json!(true);
        assert_eq!(
            fields(&changed(&old, &taken)),
            ["spec.externallyProvisioned"]
        );
        assert!(changed(&taken, &old).is_empty());
    }
}
