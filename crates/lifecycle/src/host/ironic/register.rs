//! The host's node: made, kept in step with the host, verified.

use model::{BmcAddress, Mac, Scheme};
use serde_json::{Map, Value};

use super::patch::{Patches, text};
use crate::host::bmc;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::ramdisk::Ramdisk;
use crate::host::spec::{BootMode, CleaningMode, InspectionMode};
use crate::host::status::{CredentialsStatus, ErrorType};
use crate::host::step::{Action, Event, NewNode, Verb};
use crate::host::view::Node;
use crate::node::State;

impl Pass<'_> {
    /// Ends well once Ironic has a node for the host that it can manage, set up as the host says.
    pub fn register(&self, secret: &CredentialsStatus, ramdisk: &Ramdisk) -> Flow {
        let address = bmc::parse(&self.host.spec).map_err(Halt::Failed)?;
        self.refuse_impossible(&address)?;
        let mac = self.boot_mac()?;
        let Some(node) = self.find_node()? else {
            return Err(self.create(&address, mac, secret)?);
        };
        if node.uuid != self.status().provisioning.id {
            return Err(self.note_id(node));
        }
        self.follow(node, &address, secret)?;
        self.ports(node, mac)?;
        match node.provision_state {
            State::Enroll => {
                let again = self.retrying(ErrorType::Registration);
                if node.target_provision_state.as_deref() == Some("manageable") {
                    return Err(self.working("the BMC to be verified", self.config.pace.short));
                }
                if let Some(trouble) = node.trouble()
                    && !again
                {
                    return Err(Halt::Failed(trouble.to_owned()));
                }
                Err(self.verb(node, Verb::Manage, vec![]))
            }
            State::Verifying => Err(self.working("the BMC to be verified", self.config.pace.short)),
            State::Cleaning
            | State::CleanWait
            | State::Deploying
            | State::WaitCallBack
            | State::Inspecting => Ok(()),
            State::Manageable
            | State::Available
            | State::InspectWait
            | State::InspectFailed
            | State::CleanHold
            | State::CleanFailed
            | State::DeployHold
            | State::DeployFailed
            | State::Active
            | State::Deleting
            | State::Error
            | State::Adopting
            | State::AdoptFailed
            | State::Rescuing
            | State::RescueWait
            | State::RescueFailed
            | State::Rescue
            | State::Unrescuing
            | State::UnrescueFailed
            | State::Servicing
            | State::ServiceWait
            | State::ServiceHold
            | State::ServiceFailed => self.configure(node, ramdisk),
        }
    }

    fn refuse_impossible(&self, address: &BmcAddress) -> Flow {
        let spec = &self.host.spec;
        let scheme = address.scheme;
        let name = scheme.name();
        let refuse = |why: String| Err(Halt::Failed(why));
        if self.host.inspection_mode() == InspectionMode::Fast && !scheme.is_redfish() {
            return refuse(format!(
                "inspectionMode fast needs a Redfish BMC; {name}:// is none"
            ));
        }
        if self.boot_mode() == BootMode::UefiSecureBoot && !scheme.can_secure_boot() {
            return refuse(format!(
                "bootMode UEFISecureBoot is not possible with {name}://"
            ));
        }
        if self.config.provisioning_network_disabled && scheme.needs_provisioning_network() {
            return refuse(format!(
                "{name}:// boots over the provisioning network, and there is none; use a virtual media address"
            ));
        }
        if spec.disable_power_off && self.seen.ironic.is_some_and(|minor| minor < 95) {
            return refuse("disablePowerOff needs an Ironic with API version 1.95".into());
        }
        Ok(())
    }

    pub fn boot_mode(&self) -> BootMode {
        let provisioning = &self.status().provisioning;
        provisioning
            .boot_mode
            .or(self.host.spec.boot_mode)
            .unwrap_or_default()
    }

    fn create(
        &self,
        address: &BmcAddress,
        mac: Option<Mac>,
        secret: &CredentialsStatus,
    ) -> Flow<Halt> {
        let spec = &self.host.spec;
        let needed = address.scheme == Scheme::Libvirt || self.host.inspection_disabled();
        match mac {
            None if needed => {
                let why = "bootMACAddress is needed, as nothing else tells which NIC boots";
                return Err(Halt::Failed(why.into()));
            }
            None => {}
            Some(mac) => {
                if let Some(owner) = self.check_mac(mac, None)? {
                    // It was found on the network before it was described.
                    let mut draft = self.draft();
                    draft.status.provisioning.id = owner;
                    return Ok(self.save(draft));
                }
            }
        }
        // Written down before there is a node: a host that has tried nothing has nothing to clean up.
        if self.status().tried_credentials != *secret {
            let mut draft = self.draft();
            draft.status.tried_credentials = secret.clone();
            // What failed before failed without these: nothing is waited for on its account.
            draft.clear_error();
            return Ok(self.save(draft));
        }
        let mut interfaces: Map<String, Value> = bmc::interfaces(address.scheme)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        let inspect = bmc::inspect_interface(self.host.inspection_mode());
        interfaces.insert("inspect_interface".into(), inspect.into());
        // Adoption takes the node as it is, so the way it was deployed must be right from the start.
        let image = self
            .status()
            .provisioning
            .image
            .as_ref()
            .or(spec.image.as_ref());
        if image.is_some_and(crate::host::Image::is_live_iso) {
            interfaces.insert("deploy_interface".into(), "ramdisk".into());
        } else if spec.custom_deploy.is_some() {
            interfaces.insert("deploy_interface".into(), "custom-agent".into());
        }
        let mut properties = Map::new();
        let capabilities = bmc::capabilities("", self.boot_mode());
        properties.insert("capabilities".into(), capabilities.into());
        properties.insert("cpu_arch".into(), self.architecture().into());
        let node = NewNode {
            name: self.host.node_name(),
            driver: address.scheme.driver().to_owned(),
            driver_info: self.driver_info(address),
            properties,
            interfaces,
            disable_power_off: spec.disable_power_off,
            automated_clean: self.cleans(),
            login: bmc::login(address.scheme),
        };
        let note = "Registered new host";
        Ok(Self::act(
            vec![Action::CreateNode(Box::new(node))],
            vec![Event::normal("Registered", note)],
        ))
    }

    /// There is a node, and it is not the one written down.
    fn note_id(&self, node: &Node) -> Halt {
        let mut draft = self.draft();
        draft.status.provisioning.id.clone_from(&node.uuid);
        if self.status().state() == crate::host::State::Preparing {
            draft.clear_settings();
        }
        self.save(draft)
    }

    /// Name, credentials, address and driver of a node that exists.
    fn follow(&self, node: &Node, address: &BmcAddress, secret: &CredentialsStatus) -> Flow {
        let spec = &self.host.spec;
        let fresh = self.status().tried_credentials != *secret;
        let wanted = self.driver_info(address);
        let own = |key: &String| key.starts_with("redfish_") || key.starts_with("ipmi_");
        // The server shows stars for passwords: only the rest can be compared.
        let login = bmc::login(address.scheme);
        let moved = wanted.iter().any(|(key, value)| {
            node.driver_info
                .get(key)
                .is_none_or(|now| !same(now, value))
        });
        let left = node.driver_info.keys().any(|key| {
            own(key) && !wanted.contains_key(key) && key != login.username && key != login.password
        });
        let mut patch = Patches::default();
        patch.set(
            "name",
            text(node.name.as_ref()).as_ref(),
            self.host.node_name(),
        );
        if self.seen.ironic.is_some_and(|minor| minor >= 95) {
            let now = node.disable_power_off.unwrap_or(false);
            patch.set(
                "disable_power_off",
                Some(&Value::Bool(now)),
                spec.disable_power_off,
            );
        }
        let changeable = matches!(
            node.provision_state,
            State::Enroll | State::Manageable | State::Available
        );
        let boot = address.scheme.boot_interface();
        let foreign = node.driver != address.scheme.driver()
            || node
                .boot_interface
                .as_deref()
                .is_some_and(|now| now != boot);
        if changeable && foreign {
            // DEVIATION: metal3 leaves driver and interfaces of a node as they are when the scheme changes.
            patch.set("driver", None, address.scheme.driver());
            for (key, value) in bmc::interfaces(address.scheme) {
                patch.set(key, None, value);
            }
        }
        let mut actions: Vec<Action> = patch.action(node).into_iter().collect();
        let mut events = Vec::new();
        if fresh || moved || left {
            let mut info: Map<String, Value> = node
                .driver_info
                .iter()
                .filter(|(key, _)| !own(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            info.extend(wanted);
            actions.push(Action::PatchDriverInfo {
                node: node.uuid.clone(),
                driver_info: info,
                login,
            });
            let idle = node.provision_state == State::Enroll && !node.has_target();
            if idle && !node.maintenance {
                actions.push(Action::Provision {
                    node: node.uuid.clone(),
                    verb: Verb::Manage,
                });
            }
            let mut draft = self.draft();
            draft.status.tried_credentials = secret.clone();
            draft.status.operation_history.register.begin(self.now);
            if self.retrying(ErrorType::Registration) {
                draft.clear_error();
            }
            let (save, more) = self.saving(draft);
            actions.push(save);
            events.extend(more);
        }
        if actions.is_empty() {
            return Ok(());
        }
        Err(Self::act(actions, events))
    }

    pub fn cleans(&self) -> bool {
        self.host.spec.automated_cleaning_mode != CleaningMode::Disabled
    }

    fn driver_info(&self, address: &BmcAddress) -> Map<String, Value> {
        bmc::driver_info(
            &self.host.spec,
            address,
            self.config.external_url_v6.as_deref(),
        )
    }
}

/// Ports are numbers here and texts there.
fn same(now: &Value, wanted: &Value) -> bool {
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    now == wanted || plain(now) == plain(wanted)
}
