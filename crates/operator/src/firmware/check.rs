//! Whether a BIOS setting may have a value.

use crd::firmware_schema::{AttributeType, SettingSchema};

/// Why a setting cannot be given this value.
pub fn check(name: &str, schema: Option<&SettingSchema>, value: &str) -> Result<(), String> {
    let wrong = |why: String| Err(format!("{name} cannot be {value:?}: {why}"));
    let Some(schema) = schema else {
        return Err(format!("{name} is not a setting of this BIOS"));
    };
    if schema.read_only == Some(true) {
        return Err(format!("{name} cannot be changed"));
    }
    if is_password(name) || schema.attribute_type == Some(AttributeType::Password) {
        return Err(format!("{name} is a password, which is not set here"));
    }
    match schema.attribute_type {
        None => Ok(()),
        Some(AttributeType::Password) => Err(format!("{name} is a password")),
        Some(AttributeType::Enumeration) => {
            let allowed = &schema.allowable_values;
            if allowed.iter().any(|one| one == value) {
                return Ok(());
            }
            wrong(format!("it is one of {}", allowed.join(", ")))
        }
        Some(AttributeType::Integer) => {
            let Ok(number) = value.parse::<i64>() else {
                return wrong("it is a whole number".to_owned());
            };
            let low = schema.lower_bound.is_some_and(|bound| number < bound);
            let high = schema.upper_bound.is_some_and(|bound| number > bound);
            if low || high {
                let bound =
                    |bound: Option<i64>| bound.map_or_else(|| "any".to_owned(), |b| b.to_string());
                return wrong(format!(
                    "it is from {} to {}",
                    bound(schema.lower_bound),
                    bound(schema.upper_bound)
                ));
            }
            Ok(())
        }
        Some(AttributeType::String) => {
            let length = i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
            let short = schema.min_length.is_some_and(|bound| length < bound);
            let long = schema.max_length.is_some_and(|bound| length > bound);
            if short || long {
                return wrong(format!("its length is {length}"));
            }
            Ok(())
        }
        Some(AttributeType::Boolean) => match value {
            "true" | "false" => Ok(()),
            _ => wrong("it is true or false".to_owned()),
        },
    }
}

/// Never read, never shown.
pub fn is_password(name: &str) -> bool {
    name.contains("Password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_their_schema_says() {
        let of = |kind: AttributeType| SettingSchema {
            attribute_type: Some(kind),
            ..SettingSchema::default()
        };
        let choice = SettingSchema {
            allowable_values: vec!["On".into(), "Off".into()],
            ..of(AttributeType::Enumeration)
        };
        let number = SettingSchema {
            lower_bound: Some(1),
            upper_bound: Some(9),
            ..of(AttributeType::Integer)
        };
        let text = SettingSchema {
            max_length: Some(3),
            ..of(AttributeType::String)
        };
        let fixed = SettingSchema {
            read_only: Some(true),
            ..SettingSchema::default()
        };
        for (name, schema, value, good) in [
            ("choice", Some(&choice), "On", true),
            ("choice", Some(&choice), "on", false),
            ("number", Some(&number), "9", true),
            ("number", Some(&number), "10", false),
            ("number", Some(&number), "nine", false),
            ("text", Some(&text), "abc", true),
            ("text", Some(&text), "abcd", false),
            ("switch", Some(&of(AttributeType::Boolean)), "true", true),
            ("switch", Some(&of(AttributeType::Boolean)), "True", false),
            ("secret", Some(&of(AttributeType::Password)), "x", false),
            ("SysPassword", Some(&text), "x", false),
            ("fixed", Some(&fixed), "x", false),
            ("free", Some(&SettingSchema::default()), "x", true),
            ("unknown", None, "x", false),
        ] {
            let checked = check(name, schema, value);
            assert_eq!(checked.is_ok(), good, "{name} {value}: {checked:?}");
        }
    }
}
