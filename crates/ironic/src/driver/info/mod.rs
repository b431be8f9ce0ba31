//! What a node's `driver_info` says, read into what will be used: every problem at once, each with its key.

mod boot;
mod ipmi;
mod redfish;

use model::Secret;
use serde_json::Value;

use crate::api::MASK;
use crate::record::Object;
pub use boot::{persistent, problems as boot_problems};
pub use ipmi::Ipmi;
pub use redfish::{Redfish, Verify};

/// How a node's BMC is reached.
#[derive(Debug)]
pub enum Access {
    Redfish(Redfish),
    Ipmi(Ipmi),
}

/// Reads how to reach the BMC. `driver` is a hardware type that has one.
pub fn access(driver: &str, info: &Object) -> Result<Access, Vec<String>> {
    let mut keys = Keys {
        info,
        problems: Vec::new(),
    };
    let access = if driver == "ipmi" {
        ipmi::read(&mut keys).map(Access::Ipmi)
    } else {
        redfish::read(&mut keys).map(Access::Redfish)
    };
    match (access, keys.problems.is_empty()) {
        (Some(access), true) => Ok(access),
        _ => Err(keys.problems),
    }
}

/// The keys of `driver_info`, and what was found wrong with them so far.
struct Keys<'a> {
    info: &'a Object,
    problems: Vec<String>,
}

impl<'a> Keys<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.info.get(key).filter(|value| !value.is_null())
    }

    fn problem(&mut self, key: &str, what: &str) {
        self.problems.push(format!("driver_info.{key}: {what}"));
    }

    /// A text that may be left out.
    fn text(&mut self, key: &str) -> Option<String> {
        match self.get(key)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                self.problem(key, "must be a text");
                None
            }
        }
    }

    fn required(&mut self, key: &str, example: &str) -> Option<String> {
        let there = self.get(key).is_some();
        let text = self.text(key);
        if text.is_none() && (!there || self.get(key) == Some(&Value::String(String::new()))) {
            self.problem(key, &format!("is needed, such as {example}"));
        }
        text
    }

    fn password(&mut self, key: &str) -> Secret<String> {
        let text = self.text(key).unwrap_or_default();
        if text == MASK {
            self.problem(
                key,
                "is the mask that is shown in place of a password; set the password itself",
            );
        }
        Secret::new(text)
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        let flag = flag(self.get(key)?);
        if flag.is_none() {
            self.problem(key, "must be true or false");
        }
        flag
    }

    /// One of these words, however they are written.
    fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.problem(key, &format!("must be one of {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }
}

/// True and false as clients write them.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => match number.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            Some(_) | None => None,
        },
        Value::String(text) => match text.to_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    pub(super) fn object(value: Value) -> Object {
        let Value::Object(object) = value else {
            panic!("an object is meant")
        };
        object
    }

    #[test]
    fn every_problem_of_a_redfish_node_is_told_at_once() {
        let info = object(json!({
            "redfish_address": "ftp://bmc", "redfish_system_id": "Systems/1", "redfish_password": "******",
            "redfish_verify_ca": 7, "redfish_auth_type": "oauth",
        }));
        let problems = access("redfish", &info).unwrap_err();
        let keys: Vec<_> = problems
            .iter()
            .map(|problem| problem.split(':').next().unwrap())
            .collect();
        assert_eq!(
            keys,
            [
                "driver_info.redfish_address",
                "driver_info.redfish_system_id",
                "driver_info.redfish_password",
                "driver_info.redfish_verify_ca",
                "driver_info.redfish_auth_type",
            ]
        );
    }

    #[test]
    fn every_problem_of_an_ipmi_node_is_told_at_once() {
        let info = object(json!({
            "ipmi_port": 0, "ipmi_cipher_suite": 1, "ipmi_priv_level": "ROOT", "ipmi_bridging": "single",
            "ipmi_protocol_version": "1.5", "ipmi_hex_kg_key": "00",
        }));
        let problems = access("ipmi", &info).unwrap_err();
        assert_eq!(problems.len(), 7, "{problems:#?}");
        assert!(
            problems[0].contains("ipmi_address: is needed"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_password_is_never_part_of_a_problem() {
        let info = object(
            json!({"redfish_address": "https://u:hunter2@bmc", "redfish_password": ["hunter2"]}),
        );
        let problems = access("redfish", &info).unwrap_err().join("\n");
        assert!(!problems.contains("hunter2"), "{problems}");
    }

    proptest! {
        #[test]
        fn anything_is_an_access_or_a_list_of_problems(text in ".{0,40}", number: i64, driver in "redfish|idrac|ipmi") {
            for value in [json!(text), json!(number), json!([text]), json!({"a": number}), json!(null), json!(true)] {
                let info: Object = [
                    "redfish_address", "redfish_system_id", "redfish_verify_ca", "redfish_auth_type", "redfish_username",
                    "ipmi_address", "ipmi_port", "ipmi_cipher_suite", "ipmi_priv_level", "ipmi_username",
                ].into_iter().map(|key| (key.to_owned(), value.clone())).collect();
                if let Err(problems) = access(&driver, &info) {
                    prop_assert!(!problems.is_empty());
                }
            }
        }
    }
}
