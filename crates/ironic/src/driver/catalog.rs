//! Which hardware types there are, and which implementations of each interface a node of one may choose.

use crate::record::Interfaces;

/// A hardware type by name.
pub struct HardwareType {
    pub name: &'static str,
    /// By interface, the first being the default.
    pub interfaces: &'static [(&'static str, &'static [&'static str])],
    /// `driver_info` keys, each with what it is for.
    pub properties: &'static [(&'static str, &'static str)],
}

/// All hardware types this build can really drive.
///
/// Where several implementations exist, the first is the one metal3 would choose: boot over the network, inspection by
/// the agent, everything else through the BMC.
pub const TYPES: &[HardwareType] = &[
    HardwareType {
        name: "fake-hardware",
        interfaces: &[
            ("bios", &["fake", "no-bios"]),
            (
                "boot",
                &[
                    "fake",
                    "ipxe",
                    "pxe",
                    "redfish-virtual-media",
                    "redfish-https",
                ],
            ),
            ("console", &["fake", "no-console"]),
            ("deploy", &["fake", "direct", "ramdisk", "custom-agent"]),
            ("firmware", &["fake", "no-firmware"]),
            ("inspect", &["fake", "no-inspect", "agent"]),
            ("management", &["fake", "noop"]),
            ("network", &["noop"]),
            ("power", &["fake"]),
            ("raid", &["fake", "no-raid"]),
            ("rescue", &["fake", "no-rescue"]),
            ("storage", &["noop"]),
            ("vendor", &["fake", "no-vendor"]),
        ],
        properties: FAKE,
    },
    HardwareType {
        name: "redfish",
        interfaces: &[
            ("bios", &["redfish", "no-bios"]),
            (
                "boot",
                &["ipxe", "pxe", "redfish-virtual-media", "redfish-https"],
            ),
            ("console", &["no-console"]),
            ("deploy", &["direct", "ramdisk", "custom-agent"]),
            ("firmware", &["redfish", "no-firmware"]),
            ("inspect", &["agent", "redfish", "no-inspect"]),
            ("management", &["redfish", "noop"]),
            ("network", &["noop"]),
            ("power", &["redfish"]),
            // metal3 asks for `redfish` by name; it has no steps yet.
            ("raid", &["no-raid", "redfish"]),
            ("rescue", &["no-rescue"]),
            ("storage", &["noop"]),
            ("vendor", &["redfish", "no-vendor"]),
        ],
        properties: REDFISH,
    },
    HardwareType {
        name: "idrac",
        interfaces: &[
            ("bios", &["idrac-redfish", "no-bios"]),
            (
                "boot",
                &[
                    "ipxe",
                    "pxe",
                    "idrac-redfish-virtual-media",
                    "redfish-https",
                ],
            ),
            ("console", &["no-console"]),
            ("deploy", &["direct", "ramdisk", "custom-agent"]),
            ("firmware", &["redfish", "no-firmware"]),
            ("inspect", &["agent", "idrac-redfish", "no-inspect"]),
            ("management", &["idrac-redfish"]),
            ("network", &["noop"]),
            ("power", &["idrac-redfish"]),
            ("raid", &["no-raid", "idrac-redfish"]),
            ("rescue", &["no-rescue"]),
            ("storage", &["noop"]),
            ("vendor", &["idrac-redfish", "no-vendor"]),
        ],
        properties: REDFISH,
    },
    HardwareType {
        name: "ipmi",
        interfaces: &[
            ("bios", &["no-bios"]),
            ("boot", &["ipxe", "pxe"]),
            ("console", &["no-console"]),
            ("deploy", &["direct", "ramdisk", "custom-agent"]),
            ("firmware", &["no-firmware"]),
            ("inspect", &["agent", "no-inspect"]),
            ("management", &["ipmitool", "noop"]),
            ("network", &["noop"]),
            ("power", &["ipmitool"]),
            ("raid", &["no-raid"]),
            ("rescue", &["no-rescue"]),
            ("storage", &["noop"]),
            ("vendor", &["no-vendor"]),
        ],
        properties: IPMI,
    },
];

type Properties = &'static [(&'static str, &'static str)];

const FAKE: Properties = &[
    ("A1", "A1 description. Required."),
    ("A2", "A2 description. Required."),
    ("B1", "B1 description. Required."),
    ("B2", "B2 description. Required."),
    (
        "fast_track",
        "Whether an agent that is up is used as it is. Optional.",
    ),
];

const REDFISH: Properties = &[
    (
        "redfish_address",
        "Where the BMC is: scheme, host and perhaps a port, such as https://192.0.2.10; HTTPS where no scheme is given. Required.",
    ),
    (
        "redfish_system_id",
        "The path of the system, such as /redfish/v1/Systems/1. Needed only where the BMC has several.",
    ),
    ("redfish_username", "Who logs in. Without it nobody does."),
    ("redfish_password", "The password of that user."),
    (
        "redfish_verify_ca",
        "True: the BMC's certificate is checked against the machine's authorities. False: it is not checked. A path: it is checked against the certificates in that PEM file. Default: True.",
    ),
    (
        "redfish_auth_type",
        "session, basic, none, or auto: a session, or basic where the BMC has none to give. Default: auto.",
    ),
    DEPLOY_KERNEL,
    DEPLOY_RAMDISK,
    (
        "deploy_iso",
        "Address of a ready ISO image with the agent, for virtual media. Optional.",
    ),
    APPEND,
    PERSISTENT,
    FAST_TRACK,
    KEXEC,
];

const IPMI: Properties = &[
    (
        "ipmi_address",
        "IP address or host name of the BMC. Required.",
    ),
    ("ipmi_port", "Its UDP port. Default: 623."),
    ("ipmi_username", "Who logs in. Default: the nameless user."),
    ("ipmi_password", "The password of that user."),
    (
        "ipmi_priv_level",
        "ADMINISTRATOR, OPERATOR, USER or CALLBACK. Default: ADMINISTRATOR.",
    ),
    (
        "ipmi_cipher_suite",
        "17 or 3. Default: 17, and 3 where the BMC does not know it.",
    ),
    ("ipmi_protocol_version", "2.0, the only one spoken here."),
    DEPLOY_KERNEL,
    DEPLOY_RAMDISK,
    APPEND,
    PERSISTENT,
    FAST_TRACK,
    KEXEC,
];

const DEPLOY_KERNEL: (&str, &str) = (
    "deploy_kernel",
    "Address of the agent's kernel. Optional where the service has one for all nodes.",
);
const DEPLOY_RAMDISK: (&str, &str) = (
    "deploy_ramdisk",
    "Address of the agent's ramdisk. Goes with deploy_kernel.",
);
const APPEND: (&str, &str) = (
    "kernel_append_params",
    "Kernel parameters for the agent; %default% stands for those of the service. Optional.",
);
const PERSISTENT: (&str, &str) = (
    "force_persistent_boot_device",
    "Always, Never, or Default: boot devices are set for one boot, and for good where an installed system is to boot.",
);
const KEXEC: (&str, &str) = (
    "kexec",
    "Whether the agent starts the installed system in its own place, without the firmware. Optional.",
);
const FAST_TRACK: (&str, &str) = (
    "fast_track",
    "Whether an agent that is up is used as it is. Optional.",
);

pub fn find(name: &str) -> Option<&'static HardwareType> {
    TYPES.iter().find(|hardware| hardware.name == name)
}

impl HardwareType {
    pub fn enabled(&self, interface: &str) -> &'static [&'static str] {
        self.interfaces
            .iter()
            .find(|(name, _)| *name == interface)
            .map_or(&[], |(_, enabled)| enabled)
    }

    pub fn defaults(&self) -> Interfaces {
        let default = |interface| {
            self.enabled(interface)
                .first()
                .copied()
                .unwrap_or_default()
                .to_owned()
        };
        Interfaces {
            bios: default("bios"),
            boot: default("boot"),
            console: default("console"),
            deploy: default("deploy"),
            firmware: default("firmware"),
            inspect: default("inspect"),
            management: default("management"),
            network: default("network"),
            power: default("power"),
            raid: default("raid"),
            rescue: default("rescue"),
            storage: default("storage"),
            vendor: default("vendor"),
        }
    }

    /// Everything in a node's choice that this type does not have.
    pub fn problems(&self, chosen: &Interfaces) -> Vec<String> {
        let wrong = |(interface, name): &(&str, &str)| !self.enabled(interface).contains(name);
        let problem = |(interface, name): (&str, &str)| {
            format!(
                "{interface}_interface: {name:?} is not enabled for {}; there are {}",
                self.name,
                self.enabled(interface).join(", ")
            )
        };
        chosen
            .by_name()
            .into_iter()
            .filter(wrong)
            .map(problem)
            .collect()
    }
}

impl Interfaces {
    pub fn by_name(&self) -> [(&'static str, &str); 13] {
        [
            ("bios", &self.bios),
            ("boot", &self.boot),
            ("console", &self.console),
            ("deploy", &self.deploy),
            ("firmware", &self.firmware),
            ("inspect", &self.inspect),
            ("management", &self.management),
            ("network", &self.network),
            ("power", &self.power),
            ("raid", &self.raid),
            ("rescue", &self.rescue),
            ("storage", &self.storage),
            ("vendor", &self.vendor),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_every_type_are_enabled() {
        for hardware in TYPES {
            assert_eq!(
                hardware.problems(&hardware.defaults()),
                Vec::<String>::new(),
                "{}",
                hardware.name
            );
        }
    }

    #[test]
    fn an_interface_that_is_not_enabled_is_named_with_those_that_are() {
        let hardware = find("fake-hardware").unwrap();
        let chosen = Interfaces {
            boot: "ilo".into(),
            ..hardware.defaults()
        };
        assert_eq!(
            hardware.problems(&chosen),
            [
                "boot_interface: \"ilo\" is not enabled for fake-hardware; there are fake, ipxe, pxe, redfish-virtual-media, redfish-https"
            ]
        );
    }
}
