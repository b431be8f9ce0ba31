//! A node that exists, kept as its host says: ports, ramdisk, cleaning, boot mode.

use std::collections::BTreeMap;

use model::Mac;
use serde_json::{Map, Value};

use super::patch::Patches;
use crate::host::bmc;
use crate::host::hardware;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::ramdisk::Ramdisk;
use crate::host::step::Action;
use crate::host::view::{Look, Node};
use crate::node::State;

impl Pass<'_> {
    /// Ports of the boot MAC and of every NIC known. Nodes that are settled had theirs made on the way.
    pub fn ports(&self, node: &Node, boot: Option<Mac>) -> Flow {
        let open = matches!(
            node.provision_state,
            State::Enroll | State::Manageable | State::InspectFailed | State::AdoptFailed
        );
        let mut wanted: BTreeMap<Mac, bool> = BTreeMap::new();
        let known = self
            .seen
            .hardware_data
            .as_ref()
            .or(self.status().hardware.as_ref());
        wanted.extend(known.map(hardware::nics).unwrap_or_default());
        wanted.extend(boot.map(|mac| (mac, true)));
        if !open || wanted.is_empty() {
            return Ok(());
        }
        let Some(ports) = &self.seen.ports else {
            return Err(Self::look(Look::Ports {
                node: node.uuid.clone(),
            }));
        };
        for (mac, pxe) in wanted {
            if ports.contains(&mac) {
                continue;
            }
            self.check_mac(mac, Some(node))?;
            return Err(Self::act(
                vec![Action::CreatePort {
                    node: node.uuid.clone(),
                    mac,
                    pxe,
                }],
                vec![],
            ));
        }
        Ok(())
    }

    /// The ramdisk, cleaning, boot mode: what may change while a node is managed.
    pub fn configure(&self, node: &Node, ramdisk: &Ramdisk) -> Flow {
        let mut patch = Patches::default();
        if let Some(wanted) = ramdisk.driver_info() {
            for (key, value) in wanted {
                patch.set_in(
                    "driver_info",
                    &node.driver_info,
                    key,
                    value.map(Value::String),
                );
            }
        }
        patch.set(
            "automated_clean",
            node.automated_clean.map(Value::Bool).as_ref(),
            self.cleans(),
        );
        self.patch_properties(&mut patch, node);
        self.network_data(&mut patch, node)?;
        match patch.action(node) {
            Some(action) => Err(Self::act(vec![action], vec![])),
            None => Ok(()),
        }
    }

    fn network_data(&self, patch: &mut Patches, node: &Node) -> Flow {
        let named = !self.host.spec.preprovisioning_network_data_name.is_empty();
        let settled = node.provision_state == State::Active;
        let built_in = self.config.image_builder && self.config.network_in_images;
        if !named || settled || built_in {
            return Ok(());
        }
        match &self.seen.network_data {
            None => Err(Self::look(Look::NetworkData)),
            Some(Err(why)) => Err(Halt::Failed(why.clone())),
            Some(Ok(data)) => {
                let wanted = data.clone().unwrap_or_else(|| Value::Object(Map::new()));
                let now = Value::Object(node.network_data.clone());
                patch.set("network_data", Some(&now), wanted);
                Ok(())
            }
        }
    }

    pub fn patch_properties(&self, patch: &mut Patches, node: &Node) {
        let old = node.properties.get("capabilities").and_then(Value::as_str);
        let capabilities = bmc::capabilities(old.unwrap_or(""), self.boot_mode());
        let properties = &node.properties;
        patch.set_in(
            "properties",
            properties,
            "capabilities",
            Some(capabilities.into()),
        );
        patch.set_in(
            "properties",
            properties,
            "cpu_arch",
            Some(self.architecture().into()),
        );
    }

    /// As written, as found, or as assumed.
    pub fn architecture(&self) -> String {
        let spec = &self.host.spec.architecture;
        if !spec.is_empty() {
            return spec.clone();
        }
        let found = [
            self.seen.hardware_data.as_ref(),
            self.status().hardware.as_ref(),
        ];
        let found = found.into_iter().flatten().find_map(hardware::architecture);
        found.map_or_else(|| self.config.architecture.clone(), str::to_owned)
    }
}
