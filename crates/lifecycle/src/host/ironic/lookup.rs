//! Which node of Ironic's is the host's.

use model::Mac;

use crate::host::pass::{Flow, Halt, Pass};
use crate::host::view::{Look, Node};

impl<'a> Pass<'a> {
    /// The host's node: by the id written down, by name, by a port with the boot MAC.
    pub fn find_node(&self) -> Flow<Option<&'a Node>> {
        let Some(found) = &self.seen.node else {
            return Err(Self::look(Look::Node {
                idents: self.idents(),
            }));
        };
        Ok(found.as_ref())
    }

    /// The node, which must be there.
    pub fn node(&self) -> Flow<&'a Node> {
        match self.find_node()? {
            Some(node) => Ok(node),
            None => Err(self.wait(
                "its node in Ironic, which is gone, to be made anew",
                self.config.pace.short,
            )),
        }
    }

    fn idents(&self) -> Vec<String> {
        let id = &self.status().provisioning.id;
        let mut idents = Vec::new();
        if !id.is_empty() {
            idents.push(id.clone());
        }
        idents.push(self.host.node_name());
        // As it was called once.
        if !self.host.name.contains('~') {
            idents.push(self.host.name.clone());
        }
        idents
    }

    pub fn boot_mac(&self) -> Flow<Option<Mac>> {
        let text = self.host.spec.boot_mac_address.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let mac = text
            .parse()
            .map_err(|error| Halt::Failed(format!("bootMACAddress {text:?} {error}")))?;
        Ok(Some(mac))
    }

    /// Whether a MAC is free to use. A node nobody has named yet, but which has a port with it, is the host's.
    pub fn check_mac(&self, mac: Mac, own: Option<&Node>) -> Flow<Option<String>> {
        let Some(owner) = self.seen.port_owners.get(&mac) else {
            return Err(Self::look(Look::PortOwner { mac }));
        };
        match owner {
            None => Ok(None),
            Some(owner) if own.is_some_and(|own| own.uuid == owner.uuid) => Ok(None),
            Some(owner) => match &owner.name {
                None if own.is_none() => Ok(Some(owner.uuid.clone())),
                name => {
                    let whose = name.as_deref().unwrap_or(&owner.uuid);
                    Err(Halt::Failed(format!(
                        "the MAC {mac} is in use by the node {whose:?}; a NIC belongs to one host only"
                    )))
                }
            },
        }
    }
}
