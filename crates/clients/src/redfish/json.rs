//! Reading what a BMC sends: what must be there is named when it is not.

use serde_json::Value;

use super::Error;

/// A resource: where it was read, and what it says.
#[derive(Debug, Clone)]
pub struct Resource {
    pub path: String,
    pub url: String,
    pub body: Value,
}

impl Resource {
    /// A text that must be there. The pointer is a JSON pointer, `/Boot/BootSourceOverrideTarget`.
    pub fn text(&self, operation: &'static str, pointer: &str) -> Result<&str, Error> {
        self.text_at(pointer)
            .ok_or_else(|| self.missing(operation, pointer))
    }

    pub fn missing(&self, operation: &'static str, pointer: &str) -> Error {
        Error::Missing {
            operation,
            url: self.url.clone(),
            property: name(pointer),
        }
    }

    pub fn text_at(&self, pointer: &str) -> Option<&str> {
        text(&self.body, pointer)
    }

    /// The path a link leads to: `{"@odata.id": …}`.
    pub fn link(&self, pointer: &str) -> Option<&str> {
        link(self.body.pointer(pointer)?)
    }

    pub fn must_link(&self, operation: &'static str, pointer: &str) -> Result<&str, Error> {
        self.link(pointer)
            .ok_or_else(|| self.missing(operation, pointer))
    }

    pub fn links(&self, pointer: &str) -> Vec<String> {
        list(&self.body, pointer)
            .iter()
            .filter_map(link)
            .map(ToString::to_string)
            .collect()
    }

    /// The target of an action, by its full name: `#ComputerSystem.Reset`.
    pub fn action(&self, action: &str) -> Option<&str> {
        text(self.body.get("Actions")?.get(action)?, "/target")
    }

    /// What a property may be, where the BMC says so.
    pub fn allowable(&self, pointer: &str) -> Vec<&str> {
        list(&self.body, &format!("{pointer}@Redfish.AllowableValues"))
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }
}

pub fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value
        .pointer(pointer)?
        .as_str()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

pub fn number(value: &Value, pointer: &str) -> Option<u64> {
    let number = value.pointer(pointer)?;
    number.as_u64().or_else(|| {
        number
            .as_f64()
            .filter(|float| *float >= 0.0)
            .map(|float| float as u64)
    })
}

pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn link(value: &Value) -> Option<&str> {
    text(value, "/@odata.id")
}

/// Present and well, or silent about it. `Absent` drives and broken NICs are listed too.
pub fn in_use(value: &Value) -> bool {
    let enabled = text(value, "/Status/State")
        .is_none_or(|state| matches!(state, "Enabled" | "StandbyOffline" | "Quiesced"));
    let well = text(value, "/Status/Health").is_none_or(|health| health == "OK");
    enabled && well
}

/// A pointer as people write a property.
fn name(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// What a BMC says in an error body: its messages, and their ids.
pub fn messages(body: &Value) -> (String, Vec<String>) {
    let empty = Value::Null;
    let error = body.get("error").unwrap_or(&empty);
    let extended = list(error, "/@Message.ExtendedInfo");
    // Some send one message where a list belongs.
    let extended = match error.get("@Message.ExtendedInfo") {
        Some(single @ Value::Object(_)) => std::slice::from_ref(single),
        _ => extended,
    };
    let ids = extended.iter().filter_map(|info| text(info, "/MessageId"));
    let ids: Vec<String> = ids
        .chain(text(error, "/code"))
        .map(|id| clip(id, 200))
        .collect();
    let texts: Vec<&str> = extended
        .iter()
        .filter_map(|info| text(info, "/Message"))
        .take(4)
        .collect();
    let said = if texts.is_empty() {
        text(error, "/message").unwrap_or_default().to_string()
    } else {
        texts.join(" ")
    };
    (clip(&said, 600), ids)
}

pub fn clip(text: &str, most: usize) -> String {
    let cleaned = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    cleaned.take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn messages_are_found_in_each_form_bmcs_use() {
        let body = json!({"error": {"code": "Base.1.0.GeneralError", "message": "see below", "@Message.ExtendedInfo": [
            {"MessageId": "IDRAC.2.8.SYS518", "Message": "not ready"}]}});
        let (said, ids) = messages(&body);
        assert_eq!(said, "not ready");
        assert_eq!(ids, ["IDRAC.2.8.SYS518", "Base.1.0.GeneralError"]);
        let single = json!({"error": {"message": "x", "@Message.ExtendedInfo": {"MessageId": "A.B", "Message": "y"}}});
        assert_eq!(messages(&single), ("y".into(), vec!["A.B".into()]));
        assert_eq!(messages(&json!("<html>")), (String::new(), vec![]));
    }

    proptest! {
        #[test]
        fn any_text_in_a_message_is_clipped_and_without_control_characters(text in ".{0,2000}") {
            let (said, _) = messages(&json!({"error": {"message": text}}));
            prop_assert!(said.chars().count() <= 600 && !said.chars().any(char::is_control));
        }
    }
}
