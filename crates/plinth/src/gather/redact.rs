//! Stars over what must not leave: passwords, tokens, keys, and the user data of hosts.

use serde_json::Value;

/// Parts of field names whose values are nobody's business.
const SECRET: [&str; 8] = [
    "password",
    "secret",
    "token",
    "configdrive",
    "config_drive",
    "user_data",
    "userdata",
    "private",
];
const STARS: &str = "******";

/// Any document, without what its fields' names say is secret. Names of Secrets may be told.
pub fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            for (name, value) in fields {
                let lower = name.to_ascii_lowercase();
                let named = lower.ends_with("name") || lower.ends_with("namespace");
                let secret = !named && SECRET.iter().any(|part| lower.contains(part));
                if secret && !is_reference(value) {
                    *value = STARS.into();
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) if text.contains("PRIVATE KEY") => *text = STARS.into(),
        // kubectl keeps a whole object in an annotation.
        Value::String(text) if text.starts_with('{') => {
            if let Ok(mut inner) = serde_json::from_str::<Value>(text) {
                redact(&mut inner);
                *text = inner.to_string();
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `{name, namespace}` of a Secret, nothing, or whether there is one.
fn is_reference(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.keys().all(|key| key == "name" || key == "namespace"),
        Value::Null | Value::Bool(_) => true,
        Value::String(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_starred_and_their_names_are_not() {
        let mut object = json!({
            "metadata": {"managedFields": [1], "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":{\"password\":\"hunter2\"}}",
            }},
            "driver_info": {"redfish_password": "hunter2", "redfish_username": "admin"},
            "instance_info": {"configdrive": {"user_data": "hunter2"}, "image_source": "http://x"},
            "driver_internal_info": {"agent_secret_token": "hunter2"},
            "spec": {
                "userData": {"name": "worker-user-data", "namespace": "n"},
                "bmc": {"credentialsName": "bmc-secret"},
                "pullSecret": "hunter2",
                "secretName": "fine",
            },
            "list": [{"privateKey": ["hunter2"]}, "-----BEGIN PRIVATE KEY-----\nhunter2"],
        });
        redact(&mut object);
        let text = object.to_string();
        assert!(
            !text.contains("hunter2") && !text.contains("managedFields"),
            "{text}"
        );
        for kept in [
            "worker-user-data",
            "bmc-secret",
            "fine",
            "admin",
            "http://x",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_secret_field_holds_is_gone(name in "[a-z]{0,5}(Password|_token|secret)[a-z]{0,3}", text in "hunter[0-9]{3}") {
            prop_assume!(!name.ends_with("name"));
            let mut value = json!({"a": [{"b": {name: {"deep": [text.clone()]}}}]});
            redact(&mut value);
            prop_assert!(!value.to_string().contains(&text));
        }
    }
}
