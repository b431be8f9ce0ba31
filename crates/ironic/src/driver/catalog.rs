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
pub const TYPES: &[HardwareType] = &[HardwareType {
    name: "fake-hardware",
    interfaces: &[
        ("bios", &["fake", "no-bios"]),
        ("boot", &["fake"]),
        ("console", &["fake", "no-console"]),
        ("deploy", &["fake"]),
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
    properties: &[
        ("A1", "A1 description. Required."),
        ("A2", "A2 description. Required."),
        ("B1", "B1 description. Required."),
        ("B2", "B2 description. Required."),
        (
            "fast_track",
            "Whether an agent that is up is used as it is. Optional.",
        ),
    ],
}];

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
            ["boot_interface: \"ilo\" is not enabled for fake-hardware; there are fake"]
        );
    }
}
