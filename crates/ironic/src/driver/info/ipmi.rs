//! Keys of an IPMI BMC.

use clients::ipmi::{Config, Privilege, Suite};
use serde_json::Value;

use super::Keys;

#[derive(Debug)]
pub struct Ipmi {
    pub config: Config,
}

const PRIVILEGES: [(&str, Privilege); 4] = [
    ("ADMINISTRATOR", Privilege::Administrator),
    ("OPERATOR", Privilege::Operator),
    ("USER", Privilege::User),
    ("CALLBACK", Privilege::Callback),
];

pub(super) fn read(keys: &mut Keys<'_>) -> Option<Ipmi> {
    let host = keys.required("ipmi_address", "192.0.2.10");
    let port = port(keys);
    let username = keys.text("ipmi_username").unwrap_or_default();
    let password = keys.password("ipmi_password");
    let privilege = keys.word("ipmi_priv_level", &PRIVILEGES);
    let suites = suites(keys);
    if let Some(bridging) = keys.text("ipmi_bridging")
        && bridging != "no"
    {
        keys.problem(
            "ipmi_bridging",
            "is not supported: give the address of the BMC itself, and leave this out",
        );
    }
    if let Some(version) = keys.text("ipmi_protocol_version")
        && version != "2.0"
    {
        keys.problem(
            "ipmi_protocol_version",
            "only 2.0 is spoken: 1.5 sends the password in the clear",
        );
    }
    if keys.get("ipmi_hex_kg_key").is_some() {
        keys.problem(
            "ipmi_hex_kg_key",
            "two-key logins are not supported; leave this out",
        );
    }
    let host = host?;
    let bare_v6 = host.contains(':') && !host.starts_with('[');
    let address = if bare_v6 {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let config = Config::new(&address, &username, password);
    Some(Ipmi {
        config: Config {
            privilege: privilege.unwrap_or(Privilege::Administrator),
            suites,
            ..config
        },
    })
}

fn port(keys: &mut Keys<'_>) -> u16 {
    let Some(text) = keys.text("ipmi_port") else {
        return 623;
    };
    let port = text.parse().ok().filter(|port| *port > 0);
    if port.is_none() {
        keys.problem("ipmi_port", "must be a number from 1 to 65535");
    }
    port.unwrap_or(623)
}

fn suites(keys: &mut Keys<'_>) -> Vec<Suite> {
    let Some(value) = keys.get("ipmi_cipher_suite") else {
        return Suite::ALL.to_vec();
    };
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let suite = number
        .and_then(|number| u8::try_from(number).ok())
        .and_then(Suite::from_id);
    if let Some(suite) = suite {
        return vec![suite];
    }
    keys.problem(
        "ipmi_cipher_suite",
        "must be 17 or 3; leave it out to have both tried",
    );
    Suite::ALL.to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::object;
    use super::super::{Access, access};
    use super::*;

    #[test]
    fn what_metal3_writes_is_understood() {
        let info = json!({
            "ipmi_address": "192.0.2.10", "ipmi_port": "6230", "ipmi_username": "admin", "ipmi_password": "password",
            "ipmi_priv_level": "OPERATOR",
        });
        let Ok(Access::Ipmi(read)) = access("ipmi", &object(info)) else {
            panic!("it is IPMI")
        };
        assert_eq!(read.config.address, "192.0.2.10:6230");
        assert_eq!(read.config.privilege, Privilege::Operator);
        assert_eq!(read.config.suites, Suite::ALL);
    }

    #[test]
    fn an_ipv6_address_gets_its_brackets() {
        let info = json!({"ipmi_address": "2001:db8::1", "ipmi_cipher_suite": "3"});
        let Ok(Access::Ipmi(read)) = access("ipmi", &object(info)) else {
            panic!("it is IPMI")
        };
        assert_eq!(read.config.address, "[2001:db8::1]:623");
        assert_eq!(read.config.suites, [Suite::Three]);
    }
}
