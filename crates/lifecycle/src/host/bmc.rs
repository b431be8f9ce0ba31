//! What a host's BMC address means to Ironic: driver, interfaces, where to find it.

use model::{BmcAddress, Scheme};
use serde_json::{Map, Value};

use super::spec::{BootMode, InspectionMode, Spec};
use super::step::Login;

pub(super) fn parse(spec: &Spec) -> Result<BmcAddress, String> {
    spec.bmc
        .address
        .parse()
        .map_err(|error| format!("bmc.address {:?} {error}", spec.bmc.address))
}

/// Counts against the limit of hosts that boot over the network.
pub(super) fn is_limited(spec: &Spec) -> bool {
    parse(spec).map_or(true, |address| !boots_iso(address.scheme))
}

/// The ramdisk comes as an ISO, not over the network.
pub(super) fn boots_iso(scheme: Scheme) -> bool {
    !scheme.needs_provisioning_network()
}

pub(super) fn login(scheme: Scheme) -> Login {
    if scheme.is_redfish() {
        Login {
            username: "redfish_username",
            password: "redfish_password",
        }
    } else {
        Login {
            username: "ipmi_username",
            password: "ipmi_password",
        }
    }
}

pub(super) fn driver_info(
    spec: &Spec,
    address: &BmcAddress,
    external_url_v6: Option<&str>,
) -> Map<String, Value> {
    let verify = !spec.bmc.disable_certificate_verification;
    let mut info: Map<String, Value> = address
        .driver_info(verify)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    if let Some(url) = external_url_v6
        && address.host.contains(':')
    {
        info.insert("external_http_url".into(), url.into());
    }
    info
}

/// The interfaces of a node; those left out are the driver's defaults.
pub(super) fn interfaces(scheme: Scheme) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![("boot_interface", scheme.boot_interface())];
    match scheme {
        Scheme::Ipmi | Scheme::Libvirt => all.push(("raid_interface", "no-raid")),
        Scheme::Redfish
        | Scheme::Ilo5Redfish
        | Scheme::RedfishVirtualMedia
        | Scheme::Ilo5VirtualMedia
        | Scheme::RedfishUefiHttp => {
            all.extend([
                ("raid_interface", "redfish"),
                ("firmware_interface", "redfish"),
            ]);
        }
        Scheme::IdracRedfish | Scheme::IdracVirtualMedia => all.extend([
            ("bios_interface", "idrac-redfish"),
            ("management_interface", "idrac-redfish"),
            ("power_interface", "idrac-redfish"),
            ("vendor_interface", "idrac-redfish"),
            ("raid_interface", "idrac-redfish"),
            ("firmware_interface", "redfish"),
        ]),
    }
    all
}

pub(super) fn raid_interface(scheme: Scheme) -> &'static str {
    let all = interfaces(scheme);
    let found = all.iter().find(|(key, _)| *key == "raid_interface");
    found.map_or("no-raid", |(_, value)| value)
}

pub(super) fn inspect_interface(mode: InspectionMode) -> &'static str {
    match mode {
        InspectionMode::Fast => "redfish",
        InspectionMode::Agent | InspectionMode::Disabled => "agent",
    }
}

/// `properties.capabilities`, with what else is there left as it is.
pub(super) fn capabilities(old: &str, mode: BootMode) -> String {
    let mut all: Vec<&str> = match mode {
        BootMode::Uefi => vec!["boot_mode:uefi"],
        BootMode::UefiSecureBoot => vec!["boot_mode:uefi", "secure_boot:true"],
        BootMode::Legacy => vec!["boot_mode:bios"],
    };
    all.extend(old.split(',').filter(|item| {
        let key = item.split(':').next().unwrap_or("").trim();
        !key.is_empty() && key != "boot_mode" && key != "secure_boot"
    }));
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_capabilities_are_kept() {
        for (old, mode, wanted) in [
            ("", BootMode::Uefi, "boot_mode:uefi"),
            (
                "boot_mode:bios,cpu_vt:true",
                BootMode::UefiSecureBoot,
                "boot_mode:uefi,secure_boot:true,cpu_vt:true",
            ),
            ("secure_boot:true", BootMode::Legacy, "boot_mode:bios"),
        ] {
            assert_eq!(capabilities(old, mode), wanted);
            assert_eq!(capabilities(wanted, mode), wanted, "it is stable");
        }
    }

    #[test]
    fn every_scheme_has_the_interfaces_of_its_driver() {
        for scheme in Scheme::ALL {
            let all = interfaces(scheme);
            assert_eq!(all[0], ("boot_interface", scheme.boot_interface()));
            let dell = all.iter().any(|(_, value)| *value == "idrac-redfish");
            assert_eq!(dell, scheme.driver() == "idrac", "{scheme:?}");
            assert_eq!(raid_interface(scheme) == "no-raid", !scheme.is_redfish());
        }
    }
}
