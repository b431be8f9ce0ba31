//! Keys that say what a node boots for its agent.

use super::{Keys, flag};
use crate::record::Object;

/// Everything wrong with the boot settings of a node.
pub fn problems(info: &Object) -> Vec<String> {
    let mut keys = Keys {
        info,
        problems: Vec::new(),
    };
    for key in [
        "deploy_kernel",
        "deploy_ramdisk",
        "deploy_iso",
        "bootloader",
    ] {
        if let Some(address) = keys.text(key)
            && !is_address(&address)
        {
            keys.problem(key, "must be an http, https or file address");
        }
    }
    let (kernel, ramdisk) = (keys.get("deploy_kernel"), keys.get("deploy_ramdisk"));
    match (kernel.is_some(), ramdisk.is_some()) {
        (true, false) => keys.problem("deploy_ramdisk", "is needed together with deploy_kernel"),
        (false, true) => keys.problem("deploy_kernel", "is needed together with deploy_ramdisk"),
        (true, true) | (false, false) => {}
    }
    if let Some(params) = keys.text("kernel_append_params")
        && let Some(bad) = forbidden(&params)
    {
        keys.problem(
            "kernel_append_params",
            &format!(
                "must not contain {bad:?}: boot scripts would take it for more than a parameter"
            ),
        );
    }
    if let Some(value) = keys.get("force_persistent_boot_device") {
        let word = value.as_str().unwrap_or_default().to_lowercase();
        if !matches!(word.as_str(), "default" | "always" | "never") && flag(value).is_none() {
            keys.problem(
                "force_persistent_boot_device",
                "must be Default, Always or Never",
            );
        }
    }
    keys.flag("fast_track");
    keys.flag("kexec");
    keys.problems
}

fn is_address(text: &str) -> bool {
    ["http://", "https://", "file:///"]
        .iter()
        .any(|scheme| text.len() > scheme.len() && text.starts_with(scheme))
}

/// The first character that ends a line, or means something to iPXE or GRUB.
fn forbidden(params: &str) -> Option<char> {
    params
        .chars()
        .find(|c| c.is_control() || matches!(c, ';' | '|' | '&' | '`' | '\\'))
}

/// Whether a boot device is to be set for good: what the node says, or else what is usual for this boot.
pub fn persistent(info: &Object, usual: bool) -> bool {
    let Some(value) = info.get("force_persistent_boot_device") else {
        return usual;
    };
    match value.as_str().unwrap_or_default().to_lowercase().as_str() {
        "always" => true,
        "never" => false,
        _ => flag(value).map_or(usual, |forced| forced || usual),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::object;
    use super::*;

    #[test]
    fn boot_settings_that_are_right_have_no_problems() {
        for info in [
            json!({}),
            json!({"deploy_kernel": "http://192.0.2.1/k", "deploy_ramdisk": "file:///srv/r", "fast_track": "true"}),
            json!({"deploy_iso": "https://192.0.2.1/agent.iso", "force_persistent_boot_device": "Never",
                   "kernel_append_params": "%default% ipa-insecure=1 console=ttyS0,115200n8"}),
        ] {
            assert_eq!(problems(&object(info)), Vec::<String>::new());
        }
    }

    #[test]
    fn boot_settings_that_are_wrong_are_named() {
        let info = json!({"deploy_kernel": "/srv/kernel", "kernel_append_params": "a\nshell", "fast_track": "perhaps",
                          "force_persistent_boot_device": "Sometimes"});
        let problems = problems(&object(info));
        let keys: Vec<_> = problems
            .iter()
            .map(|problem| problem.split([':', '.']).nth(1).unwrap())
            .collect();
        assert_eq!(
            keys,
            [
                "deploy_kernel",
                "deploy_ramdisk",
                "kernel_append_params",
                "force_persistent_boot_device",
                "fast_track"
            ]
        );
    }

    #[test]
    fn a_node_may_have_its_boot_device_set_for_good_or_never() {
        let said = |word: Value| object(json!({"force_persistent_boot_device": word}));
        for (word, usual, is) in [
            (json!("Default"), false, false),
            (json!("Default"), true, true),
            (json!("Always"), false, true),
            (json!("Never"), true, false),
            (json!(true), false, true),
        ] {
            assert_eq!(persistent(&said(word.clone()), usual), is, "{word} {usual}");
        }
    }
}
