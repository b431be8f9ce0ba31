//! Finding out what the decider asks for.

use clients::ironic::Ironic;
use lifecycle::host::{Look, Node, PortOwner};
use serde_json::Value;

use super::deploy_data::{self, DeployData};
use super::fake;
use super::pass::Pass;
use crate::convert::converted;
use crate::error::Error;

impl Pass<'_> {
    /// Writes the answer into what was seen; false where there is nobody to ask.
    pub async fn look(&mut self, look: Look) -> Result<bool, Error> {
        let Some(ironic) = self.ironic.clone() else {
            return Ok(false);
        };
        let outcome = self.ask(&ironic, look).await;
        if let Err(Error::Ironic(error)) = &outcome
            && error.status().is_none()
        {
            self.context.ironic.lost().await;
        }
        outcome.map(|()| true)
    }

    async fn ask(&mut self, ironic: &Ironic, look: Look) -> Result<(), Error> {
        let seen = &mut self.seen;
        match look {
            Look::DeployData => {
                let read = DeployData::read(self.context, &self.host).await?;
                seen.deploy_data = Some(match read {
                    Ok(data) => {
                        self.deploy_data = Some(data);
                        Ok(())
                    }
                    Err(why) => Err(why),
                });
            }
            Look::NetworkData => {
                seen.network_data =
                    Some(deploy_data::network_data(self.context, &self.host).await?);
            }
            Look::Node { idents } => {
                let mut found: Option<Node> = None;
                for ident in idents {
                    let Some(node) = ironic.show::<Value>(&ident).await? else {
                        continue;
                    };
                    let node = if self.context.config.fake_hardware {
                        fake::undress(node)
                    } else {
                        node
                    };
                    found = Some(converted("node", &ident, node)?);
                    break;
                }
                seen.node = Some(found);
            }
            Look::PortOwner { mac } => {
                let owner = match ironic.port_of(mac).await? {
                    Some(port) => {
                        let node = ironic.find_node(&port.node_uuid.to_string()).await?;
                        node.map(|node| PortOwner {
                            uuid: node.uuid.to_string(),
                            name: node.name.filter(|name| !name.is_empty()),
                        })
                    }
                    None => None,
                };
                seen.port_owners.insert(mac, owner);
            }
            Look::Ports { node } => {
                let ports = match node.parse() {
                    Ok(uuid) => ironic.ports_of(uuid).await?,
                    Err(_) => Vec::new(),
                };
                seen.ports = Some(ports.into_iter().map(|port| port.address).collect());
            }
            Look::Inventory { node } => seen.inventory = Some(ironic.inventory(&node).await?),
            Look::Busy => {
                let limit = self.context.config.host.provisioning_limit;
                let own = self.host.node_name();
                seen.busy = Some(self.context.busy.ask(ironic, &own, limit).await?);
            }
            Look::Validation { node } => {
                let all = ironic.validate(&node).await?;
                let wrong = ["boot", "deploy"].into_iter().filter_map(|interface| {
                    let found = all.get(interface)?;
                    (found.result == Some(false)).then(|| {
                        let reason = found.reason.as_deref().unwrap_or("no reason is given");
                        format!("{interface}: {reason}")
                    })
                });
                seen.validation = Some(wrong.collect());
            }
            Look::Components { node } => {
                seen.has_components = Some(!ironic.firmware(&node).await?.is_empty());
            }
            Look::Bios { node } => {
                let settings = ironic.bios(&node, false).await?;
                let settings = settings
                    .into_iter()
                    .map(|setting| (setting.name, setting.value.unwrap_or_default()));
                seen.bios = Some(settings.collect());
            }
            Look::VirtualMedia { node } => {
                seen.media_inserted = Some(ironic.has_media(&node).await?);
            }
        }
        Ok(())
    }
}
