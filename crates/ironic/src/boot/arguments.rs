//! Kernel arguments: what the agent is told by its boot, and nothing that a script or loader would take for its own.

use lifecycle::node::BootInto;
use serde_json::Value;

use crate::record::{BootOrder, Node};

/// How a kernel gets its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    Network,
    /// A CD that only this boot of this node knows the address of.
    Disc,
}

/// Where the API is, as agents see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    pub url: String,
    /// Agents can check its certificate by this, where it is on the disc with them.
    pub certificate: Option<Vec<u8>>,
}

/// The arguments of a node's kernel, or what is wrong with them.
pub fn of(
    node: &Node,
    order: &BootOrder,
    carrier: Carrier,
    default: &str,
    api: &Api,
) -> Result<String, String> {
    let mut all = words(&own(node, default))?;
    match order.into {
        BootInto::Ramdisk => {}
        BootInto::Inspection => {
            all.push(format!(
                "ipa-inspection-callback-url={}/v1/continue_inspection",
                api.url
            ));
            all.push("ipa-inspection-collectors=default,logs".into());
            all.push("ipa-collect-lldp=1".into());
            // Our agent greets the switches, which then answer at once; half a minute is for those that cannot.
            if !all.iter().any(|word| word.starts_with("ipa-lldp-timeout=")) {
                all.push(format!("ipa-lldp-timeout={LLDP_SECONDS}"));
            }
        }
        // The user's own system knows nothing of agents.
        BootInto::BootIso => return Ok(all.join(" ")),
    }
    all.push(format!("ipa-api-url={}", api.url));
    match carrier {
        Carrier::Network => {
            if api.url.starts_with("https://") {
                all.push("ipa-insecure=1".into());
            }
        }
        Carrier::Disc => {
            all.push("boot_method=vmedia".into());
            all.push(format!("ir_pub_id={}", order.key));
            all.extend(token(node).map(|token| format!("ipa-agent-token={token}")));
            if api.url.starts_with("https://") && api.certificate.is_none() {
                all.push("ipa-insecure=1".into());
            }
        }
    }
    Ok(all.join(" "))
}

/// More than a switch needs that speaks at once to a new neighbour.
const LLDP_SECONDS: u32 = 5;

/// The default, or what the node has instead of it; `%default%` stands for the default.
fn own(node: &Node, default: &str) -> String {
    let said = [&node.instance_info, &node.driver_info]
        .into_iter()
        .find_map(|info| info.get("kernel_append_params").and_then(Value::as_str));
    said.map_or_else(
        || default.to_owned(),
        |said| said.replace("%default%", default),
    )
}

/// A token that was made before the agent is booted, and is given to it this way only.
fn token(node: &Node) -> Option<&str> {
    let info = &node.driver_internal_info;
    info.get("agent_secret_token_pregenerated")
        .and_then(Value::as_bool)
        .filter(|made| *made)?;
    info.get("agent_secret_token").and_then(Value::as_str)
}

/// Arguments one by one. Those that iPXE, GRUB or a shell would take for more than a word are refused.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    const MOST: usize = 1500;
    if text.len() > MOST {
        return Err(format!(
            "kernel arguments are longer than {MOST} characters"
        ));
    }
    let bad = text
        .chars()
        .find(|c| !(c.is_ascii_graphic() || *c == ' ') || "\"'`\\$;|&<>{}#".contains(*c));
    match bad {
        Some(c) => Err(format!(
            "kernel arguments {:?} hold {c:?}, which boot loaders do not take as it is",
            text.chars().take(80).collect::<String>()
        )),
        None => Ok(text.split_ascii_whitespace().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_end_a_line_or_begin_a_command_is_refused() {
        for bad in [
            "a=1\nchain http://x",
            "a || shell",
            "a=${net0/ip}",
            "a;b",
            "a&&b",
            "a=\"b\"",
            "a\u{e4}",
            "a # b",
        ] {
            assert!(words(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            words(" console=ttyS0,115200  ip=[fd00::1]:eth0 x=a_b%c ").unwrap(),
            ["console=ttyS0,115200", "ip=[fd00::1]:eth0", "x=a_b%c"]
        );
    }

    proptest! {
        #[test]
        fn accepted_words_are_one_line_of_plain_text(text: String) {
            if let Ok(words) = words(&text) {
                prop_assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_graphic())));
            }
        }
    }
}
