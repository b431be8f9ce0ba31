//! Hosts on fake hardware: Ironic's fake driver in the clothes of the real one.
//!
//! What a node would be driven by is written into its `extra` and read back from there, so that everything else is as
//! with a real BMC.

use serde_json::{Map, Value, json};

const DRIVER: &str = "fake-hardware";

fn is_clothing(key: &str) -> bool {
    key == "driver" || key.ends_with("_interface")
}

/// The body of a new node.
pub fn dress_new(mut node: Value) -> Value {
    if let Value::Object(fields) = &mut node {
        let clothes: Map<String, Value> = fields
            .iter()
            .filter(|(key, _)| is_clothing(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        fields.retain(|key, _| !is_clothing(key));
        fields.insert("driver".to_owned(), DRIVER.into());
        fields.insert("extra".to_owned(), json!(clothes));
    }
    node
}

/// A JSON patch of a node.
pub fn dress_patch(mut patch: Value) -> Value {
    for change in patch.as_array_mut().into_iter().flatten() {
        let path = change["path"].as_str().unwrap_or_default();
        let key = path.trim_start_matches('/');
        if is_clothing(key) {
            change["path"] = format!("/extra/{key}").into();
        }
    }
    patch
}

/// A node as it would be seen.
pub fn undress(mut node: Value) -> Value {
    let extra = node["extra"].as_object().cloned().unwrap_or_default();
    for (key, value) in extra.into_iter().filter(|(key, _)| is_clothing(key)) {
        node[key] = value;
    }
    node
}

#[test]
fn what_is_put_on_is_seen() {
    let dressed = dress_new(json!({"name": "n", "driver": "redfish", "boot_interface": "ipxe"}));
    assert_eq!(
        dressed,
        json!({"name": "n", "driver": DRIVER, "extra": {"driver": "redfish", "boot_interface": "ipxe"}})
    );
    let seen = undress(dressed);
    assert_eq!(
        (&seen["driver"], &seen["boot_interface"]),
        (&json!("redfish"), &json!("ipxe"))
    );
    let patch = json!([{"op": "add", "path": "/deploy_interface", "value": "ramdisk"}, {"op": "remove", "path": "/name"}]);
    let patch = dress_patch(patch);
    assert_eq!(patch[0]["path"], "/extra/deploy_interface");
    assert_eq!(patch[1]["path"], "/name");
}
