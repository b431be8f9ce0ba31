//! HardwareDetails: what inspection found, in the words of the host's API.

use model::Mac;
use serde_json::{Map, Value, json};

/// From the body of `GET nodes/<id>/inventory`. What is missing or odd is left out; never fails.
pub fn details(body: &Value) -> Value {
    let inventory = &body["inventory"];
    let plugins = &body["plugin_data"];
    let vendor = &inventory["system_vendor"];
    let bios = &vendor["firmware"];
    let mut all = Map::new();
    all.insert(
        "systemVendor".into(),
        texts(
            vendor,
            &[
                ("manufacturer", "manufacturer"),
                ("productName", "product_name"),
                ("serialNumber", "serial_number"),
            ],
        ),
    );
    let bios = texts(
        bios,
        &[
            ("vendor", "vendor"),
            ("version", "version"),
            ("date", "build_date"),
        ],
    );
    all.insert("firmware".into(), json!({ "bios": bios }));
    all.insert("ramMebibytes".into(), memory(&inventory["memory"]));
    all.insert(
        "nics".into(),
        items(&inventory["interfaces"], |nic| interface(nic, plugins)),
    );
    all.insert(
        "storage".into(),
        items(&inventory["disks"], |disk| vec![storage(disk)]),
    );
    all.insert("cpu".into(), cpu(&inventory["cpu"]));
    let hostname = inventory["hostname"].as_str().unwrap_or("");
    all.insert("hostname".into(), hostname.into());
    Value::Object(all)
}

/// The MACs of details, and whether each boots by PXE.
pub(super) fn nics(details: &Value) -> Vec<(Mac, bool)> {
    let nics = details["nics"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mac = |nic: &Value| nic["mac"].as_str()?.parse().ok();
    nics.iter()
        .filter_map(|nic| Some((mac(nic)?, nic["pxe"].as_bool().unwrap_or(false))))
        .collect()
}

pub(super) fn architecture(details: &Value) -> Option<&str> {
    details["cpu"]["arch"]
        .as_str()
        .filter(|arch| !arch.is_empty())
}

fn items(list: &Value, each: impl Fn(&Value) -> Vec<Value>) -> Value {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().flat_map(each).collect()
}

/// Copies texts under new names; those that are missing or empty are left out.
fn texts(from: &Value, names: &[(&str, &str)]) -> Value {
    let mut all = Map::new();
    for (to, key) in names {
        if let Some(text) = from[*key].as_str().filter(|text| !text.is_empty()) {
            all.insert((*to).to_owned(), text.into());
        }
    }
    Value::Object(all)
}

fn memory(memory: &Value) -> Value {
    let physical = memory["physical_mb"].as_u64();
    let kernel = || memory["total"].as_u64().map(|bytes| bytes >> 20);
    physical.or_else(kernel).unwrap_or(0).into()
}

fn cpu(cpu: &Value) -> Value {
    let megahertz = match &cpu["frequency"] {
        Value::String(text) => text.trim().parse().unwrap_or(0.0),
        other => other.as_f64().unwrap_or(0.0),
    };
    let mut flags: Vec<&str> = cpu["flags"]
        .as_array()
        .map(|flags| flags.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    flags.sort_unstable();
    json!({
        "arch": cpu["architecture"].as_str().unwrap_or(""),
        "model": cpu["model_name"].as_str().unwrap_or(""),
        "clockMegahertz": f64::round(megahertz.clamp(0.0, 1e9)) as u64,
        "count": cpu["count"].as_u64().unwrap_or(0),
        "flags": flags,
    })
}

/// One entry for each address the NIC has; one without if it has none.
fn interface(nic: &Value, plugins: &Value) -> Vec<Value> {
    let name = nic["name"].as_str().unwrap_or("");
    let text = |key: &str| nic[key].as_str().unwrap_or("");
    let model = format!("{} {}", text("vendor"), text("product"));
    let boots = plugins["all_interfaces"][name]["pxe_enabled"]
        .as_bool()
        .unwrap_or(false);
    let mut entry = Map::new();
    entry.insert("name".into(), name.into());
    entry.insert("mac".into(), text("mac_address").into());
    entry.insert("model".into(), model.trim().into());
    entry.insert(
        "speedGbps".into(),
        (nic["speed_mbps"].as_u64().unwrap_or(0) / 1000).into(),
    );
    entry.insert("pxe".into(), boots.into());
    if !text("pci_address").is_empty() {
        entry.insert("pciAddress".into(), text("pci_address").into());
    }
    lldp(&mut entry, &plugins["parsed_lldp"][name]);
    let addresses: Vec<&str> = ["ipv4_address", "ipv6_address"]
        .into_iter()
        .map(text)
        .filter(|address| !address.is_empty())
        .collect();
    let addresses = if addresses.is_empty() {
        vec![""]
    } else {
        addresses
    };
    addresses
        .into_iter()
        .map(|address| {
            let mut entry = entry.clone();
            entry.insert("ip".into(), address.into());
            Value::Object(entry)
        })
        .collect()
}

fn lldp(entry: &mut Map<String, Value>, seen: &Value) {
    let vlans = items(&seen["switch_port_vlans"], |vlan| {
        vec![
            json!({"id": vlan["id"].as_u64().unwrap_or(0), "name": vlan["name"].as_str().unwrap_or("")}),
        ]
    });
    if vlans.as_array().is_some_and(|vlans| !vlans.is_empty()) {
        entry.insert("vlans".into(), vlans);
    }
    if let Some(id) = seen["switch_port_untagged_vlan_id"].as_u64() {
        entry.insert("vlanId".into(), id.into());
    }
    let names = [
        ("switchID", "switch_chassis_id"),
        ("portID", "switch_port_id"),
        ("switchSystemName", "switch_system_name"),
    ];
    let switch = texts(seen, &names);
    if switch.as_object().is_some_and(|switch| !switch.is_empty()) {
        entry.insert("lldp".into(), switch);
    }
}

fn storage(disk: &Value) -> Value {
    let name = disk["name"].as_str().unwrap_or("");
    let by_path = disk["by_path"].as_str().unwrap_or("");
    let rotational = disk["rotational"].as_bool().unwrap_or(false);
    let kind = match rotational {
        true => "HDD",
        false if name.starts_with("/dev/nvme") => "NVME",
        false => "SSD",
    };
    let names = [
        ("vendor", "vendor"),
        ("model", "model"),
        ("serialNumber", "serial"),
        ("wwn", "wwn"),
        ("wwnVendorExtension", "wwn_vendor_extension"),
        ("wwnWithExtension", "wwn_with_extension"),
        ("hctl", "hctl"),
    ];
    let mut all = texts(disk, &names);
    all["name"] = if by_path.is_empty() { name } else { by_path }.into();
    let alternates: Vec<&str> = [name, by_path]
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect();
    all["alternateNames"] = alternates.into();
    all["type"] = kind.into();
    all["sizeBytes"] = disk["size"].as_u64().unwrap_or(0).into();
    all["rotational"] = rotational.into();
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_inventory_is_told_in_the_words_of_the_host() {
        let body = json!({
            "inventory": {
                "hostname": "worker-0",
                "system_vendor": {"manufacturer": "QEMU", "product_name": "Standard PC", "serial_number": "",
                    "firmware": {"vendor": "EFI", "version": "1", "build_date": "01/02/2024"}},
                "memory": {"physical_mb": 4096, "total": 1},
                "cpu": {"architecture": "x86_64", "model_name": "EPYC", "count": 4, "frequency": "2899.6", "flags": ["sse", "aes"]},
                "interfaces": [
                    {"name": "eth0", "mac_address": "52:54:00:00:00:01", "ipv4_address": "192.0.2.7", "ipv6_address": "2001:db8::7",
                     "vendor": "0x1af4", "product": "0x0001", "speed_mbps": 25000, "pci_address": "0000:00:03.0"},
                    {"name": "eth1", "mac_address": "52:54:00:00:00:02"},
                ],
                "disks": [
                    {"name": "/dev/nvme0n1", "size": 1000, "rotational": false, "model": "fast", "serial": "S"},
                    {"name": "/dev/sda", "by_path": "/dev/disk/by-path/p", "size": 2000, "rotational": true, "hctl": "0:0:0:0"},
                ],
            },
            "plugin_data": {
                "all_interfaces": {"eth0": {"pxe_enabled": true}},
                "parsed_lldp": {"eth1": {"switch_chassis_id": "aa", "switch_port_id": "p1", "switch_port_untagged_vlan_id": 4,
                    "switch_port_vlans": [{"id": 4, "name": "lab"}]}},
            },
        });
        let details = details(&body);
        insta::assert_json_snapshot!(details);
        assert_eq!(nics(&details).len(), 3);
        assert!(nics(&details)[0].1);
        assert_eq!(architecture(&details), Some("x86_64"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("inventory"),
            Just("interfaces"),
            Just("disks"),
            Just("cpu"),
            Just("memory"),
            Just("name"),
            Just("frequency"),
            Just("plugin_data"),
            Just("parsed_lldp"),
            Just("switch_port_vlans"),
            Just("x"),
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_answer_gives_details(body in any_json()) {
            let details = details(&body);
            prop_assert!(details["nics"].is_array());
            nics(&details);
        }
    }
}
