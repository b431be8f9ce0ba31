//! The operator's shell in the simulation: looks, does, dies.

use std::time::Duration;

use lifecycle::host::{
    Action, Credentials, Look, Observed, PortOwner, SecretRef, Step, Trouble, busy, next, troubled,
};

use crate::rack::Rack;

/// How a pass ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is more to do at once.
    Acted,
    Waits,
    Died,
}

impl Rack {
    /// One pass over one host.
    pub fn reconcile(&mut self, place: usize) -> Ended {
        let Some(mut seen) = self.see(place) else {
            return Ended::Waits;
        };
        let mut looked = Vec::new();
        for _ in 0..20 {
            let object = self.objects[place].as_ref().unwrap();
            let host = object.host.clone();
            let step = next(&host, &seen, &self.config, self.now);
            assert_eq!(
                step,
                next(&host, &seen, &self.config, self.now),
                "asking twice gives the same answer, seed {}",
                self.seed
            );
            match step {
                Step::Look(look) => {
                    assert!(
                        !looked.contains(&look),
                        "{look:?} is asked for twice\n{}",
                        self.story()
                    );
                    if self.ironic.away || self.dice.percent(self.flaky) {
                        return self.wait(place, "Ironic did not answer", Duration::from_secs(5));
                    }
                    self.look(&look, &mut seen);
                    looked.push(look);
                }
                Step::Do { actions, .. } => {
                    if let Some(ended) = self.act(place, &actions, &mut seen) {
                        return ended;
                    }
                }
                Step::Wait { reason, until } => {
                    assert!(
                        until > self.now,
                        "{reason}: a wait ends in the future\n{}",
                        self.story()
                    );
                    let object = self.objects[place].as_mut().unwrap();
                    object.wake_at = until;
                    object.reason = reason;
                    return Ended::Waits;
                }
                Step::Done => {
                    return self.wait(place, "done", Duration::from_hours(1));
                }
            }
        }
        panic!("a pass that does not end\n{}", self.story());
    }

    fn wait(&mut self, place: usize, reason: &str, after: Duration) -> Ended {
        let object = self.objects[place].as_mut().unwrap();
        object.wake_at = self.now + after;
        reason.clone_into(&mut object.reason);
        Ended::Waits
    }

    fn see(&self, place: usize) -> Option<Observed> {
        let object = self.objects[place].as_ref()?;
        let credentials = match object.secret {
            None => Credentials::Missing,
            Some(version) => Credentials::Present {
                secret: SecretRef {
                    name: "bmc".into(),
                    namespace: "metal".into(),
                },
                version: version.to_string(),
            },
        };
        Some(Observed {
            credentials,
            hardware_data: object.hardware_data.clone(),
            ironic: (!self.ironic.away).then_some(110),
            ..Observed::default()
        })
    }

    fn look(&self, look: &Look, seen: &mut Observed) {
        let ironic = &self.ironic;
        match look {
            Look::Node { idents } => {
                let found = idents.iter().find_map(|ident| ironic.find(ident));
                seen.node = Some(found.cloned());
            }
            Look::PortOwner { mac } => {
                let owner = ironic
                    .ports
                    .get(mac)
                    .and_then(|uuid| ironic.nodes.get(uuid));
                let owner = owner.map(|node| PortOwner {
                    uuid: node.uuid.clone(),
                    name: node.name.clone(),
                });
                seen.port_owners.insert(*mac, owner);
            }
            Look::Ports { node } => {
                let own = ironic.ports.iter().filter(|(_, owner)| *owner == node);
                seen.ports = Some(own.map(|(mac, _)| *mac).collect());
            }
            Look::Inventory { node } => seen.inventory = Some(ironic.inventory(node)),
            Look::Busy => {
                let counts = ironic.nodes.values().filter(|node| {
                    busy(
                        node.provision_state,
                        node.boot_interface.as_deref().unwrap_or(""),
                    )
                });
                seen.busy = Some(counts.filter_map(|node| node.name.clone()).collect());
            }
            Look::Validation { .. } => seen.validation = Some(vec![]),
            Look::DeployData => seen.deploy_data = Some(Ok(())),
            Look::NetworkData => seen.network_data = Some(Ok(None)),
            Look::Components { .. } => seen.has_components = Some(false),
            Look::Bios { .. } => seen.bios = Some(std::collections::BTreeMap::new()),
            Look::VirtualMedia { .. } => seen.media_inserted = Some(false),
        }
    }

    /// Does the actions; nothing where the pass goes on with what it learnt.
    fn act(&mut self, place: usize, actions: &[Action], seen: &mut Observed) -> Option<Ended> {
        for action in actions {
            if self.dice.percent(self.deadly) {
                self.note(&format!(
                    "host-{place}: the operator dies before {}",
                    brief(action)
                ));
                return Some(Ended::Died);
            }
            let lost = action.is_ironic() && self.dice.percent(self.flaky);
            let answer = if self.ironic.away && action.is_ironic() {
                Err(Trouble::Unreachable {
                    message: "away".into(),
                })
            } else {
                self.perform(place, action)
            };
            if let Action::Provision { node, .. } | Action::Power { node, .. } = action
                && self.ironic.instant
            {
                for _ in 0..12 {
                    self.ironic.work(node, &mut self.metals, &mut self.dice);
                }
            }
            self.note(&format!(
                "host-{place}: {} {}",
                brief(action),
                told(&answer)
            ));
            self.check();
            let answer = if lost {
                // Done or not, nobody heard of it.
                Err(Trouble::Unreachable {
                    message: "the answer was lost".into(),
                })
            } else {
                answer
            };
            let Err(trouble) = answer else {
                continue;
            };
            let soft = matches!(action, Action::Power { power, .. } if power.is_soft());
            if soft && matches!(trouble, Trouble::Refused { .. }) {
                seen.soft_power_refused = true;
                return None;
            }
            let host = self.objects[place].as_ref().unwrap().host.clone();
            let step = troubled(&host, seen, &self.config, self.now, action, &trouble);
            match step {
                Step::Do { actions, .. } => {
                    for action in &actions {
                        assert!(!action.is_ironic(), "trouble is only written down");
                        self.perform(place, action).unwrap();
                    }
                    return Some(Ended::Acted);
                }
                Step::Wait { reason, until } => {
                    let object = self.objects[place].as_mut().unwrap();
                    object.wake_at = until;
                    object.reason = reason;
                    return Some(Ended::Waits);
                }
                Step::Look(_) | Step::Done => panic!("trouble is not answered by {step:?}"),
            }
        }
        self.check();
        if let Some(object) = &mut self.objects[place] {
            object.wake_at = self.now;
        }
        Some(Ended::Acted)
    }

    fn perform(&mut self, place: usize, action: &Action) -> Result<(), Trouble> {
        let password = self.objects[place].as_ref().unwrap().secret.unwrap_or(0);
        let ironic = &mut self.ironic;
        match action {
            Action::Save(status) => self.save(place, status),
            Action::AddFinalizer => self.objects[place].as_mut().unwrap().host.finalizer = true,
            Action::Release => {
                let name = self.objects[place].as_ref().unwrap().host.node_name();
                let left = self.ironic.find(&name).is_some();
                assert!(
                    !left,
                    "a host that is gone leaves no node\n{}",
                    self.story()
                );
                self.objects[place] = None;
            }
            Action::RemoveAnnotations(keys) => {
                for key in keys {
                    self.annotate(place, key, None);
                }
            }
            Action::SetArchitecture(arch) => {
                self.edit(place, |spec| spec.architecture.clone_from(arch));
            }
            Action::SaveHardwareData(details) => {
                self.objects[place].as_mut().unwrap().hardware_data = Some(details.clone());
            }
            Action::EnsureFirmwareObjects { .. }
            | Action::SaveFirmwareUpdates(_)
            | Action::EnsurePreprovisioningImage(_)
            | Action::SaveDataImage { .. }
            | Action::SetRaid { .. }
            | Action::AttachMedia { .. }
            | Action::DetachMedia { .. } => {}
            Action::CreateNode(node) => return ironic.create(node, password),
            Action::PatchNode { node, patch } => return ironic.patch(node, patch),
            Action::PatchDriverInfo {
                node,
                driver_info,
                login,
            } => {
                return ironic.set_driver_info(node, driver_info, *login, password);
            }
            Action::CreatePort { node, mac, .. } => return ironic.create_port(node, *mac),
            Action::Provision { node, verb } => {
                return ironic.provision(node, verb);
            }
            Action::Power { node, power } => {
                let object = self.objects[place].as_mut().unwrap();
                object.off_asked = object.wants_off();
                return ironic.power(node, *power, &mut self.dice);
            }
            Action::SetMaintenance { node, .. } => return ironic.maintenance(node, true),
            Action::ClearMaintenance { node } => return ironic.maintenance(node, false),
            Action::DeleteNode { node } => return ironic.delete(node),
        }
        Ok(())
    }
}

fn told(answer: &Result<(), Trouble>) -> String {
    match answer {
        Ok(()) => String::new(),
        Err(trouble) => format!("=> {trouble:?}"),
    }
}

fn brief(action: &Action) -> String {
    match action {
        Action::Save(status) => format!(
            "save {:?} {:?} {:?} x{}",
            status.state(),
            status.operational_status,
            status.error_message,
            status.error_count
        ),
        Action::CreateNode(node) => format!("create {}", node.name),
        Action::Provision { node, verb } => format!("{} {node}", verb.word()),
        other => {
            let mut text = format!("{other:?}");
            text.truncate(160);
            text
        }
    }
}
