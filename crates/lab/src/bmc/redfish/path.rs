//! Every resource of the service, where it is, and what can be done with it.

use crate::bmc::COMPONENTS;
use crate::bmc::personality::{Owner, Personality};

pub const ROOT: &str = "/redfish/v1";

/// A thing with an address. Numbers count from 0; in addresses they count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Versions,
    Root,
    Odata,
    /// The one that is XML.
    Metadata,
    Systems,
    System,
    ResetInfo,
    Bios,
    BiosSettings,
    SecureBoot,
    Nics,
    Nic(usize),
    Processors,
    Processor,
    Memory,
    Dimm,
    Storages,
    Storage,
    Drive(usize),
    Controllers,
    Controller,
    Volumes,
    SimpleStorages,
    SimpleStorage,
    Slots,
    Slot(usize),
    SlotCertificates(usize),
    Managers,
    Manager,
    ManagerNics,
    ManagerNic,
    ChassisCollection,
    Chassis,
    Power,
    Thermal,
    SessionService,
    Sessions,
    Session(u64),
    AccountService,
    Accounts,
    Account,
    Roles,
    Role(usize),
    TaskService,
    Tasks,
    Task(u64),
    TaskMonitor(u64),
    EventService,
    Subscriptions,
    Subscription(u64),
    UpdateService,
    FirmwareInventory,
    Firmware(&'static str),
    Registries,
    BaseFile,
    BaseRegistry,
    AttributesFile,
    AttributesRegistry,
    CertificateService,
    CertificateLocations,
    Action(Action),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Reset,
    ResetBmc,
    Insert(usize),
    Eject(usize),
    ResetBios,
    ResetKeys,
    Update,
    TestEvent,
}

impl Action {
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "ComputerSystem.Reset",
            Self::ResetBmc => "Manager.Reset",
            Self::Insert(_) => "VirtualMedia.InsertMedia",
            Self::Eject(_) => "VirtualMedia.EjectMedia",
            Self::ResetBios => "Bios.ResetBios",
            Self::ResetKeys => "SecureBoot.ResetKeys",
            Self::Update => "UpdateService.SimpleUpdate",
            Self::TestEvent => "EventService.SubmitTestEvent",
        }
    }

    fn of(self) -> Resource {
        match self {
            Self::Reset => Resource::System,
            Self::ResetBmc => Resource::Manager,
            Self::Insert(slot) | Self::Eject(slot) => Resource::Slot(slot),
            Self::ResetBios => Resource::Bios,
            Self::ResetKeys => Resource::SecureBoot,
            Self::Update => Resource::UpdateService,
            Self::TestEvent => Resource::EventService,
        }
    }
}

impl Resource {
    /// What there is at a path, slash at its end or not.
    pub fn parse(path: &str, p: &Personality) -> Option<Self> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if path == "/redfish" {
            return Some(Self::Versions);
        }
        let rest = path.strip_prefix(ROOT)?;
        if rest.is_empty() {
            return Some(Self::Root);
        }
        let parts: Vec<&str> = rest.strip_prefix('/')?.split('/').collect();
        Some(match &parts[..] {
            ["odata"] => Self::Odata,
            ["$metadata"] => Self::Metadata,
            ["Systems"] => Self::Systems,
            ["Systems", id, rest @ ..] if *id == p.system => parse_system(rest, p)?,
            ["Managers"] => Self::Managers,
            ["Managers", id, rest @ ..] if *id == p.manager => parse_manager(rest, p)?,
            ["Chassis"] => Self::ChassisCollection,
            ["Chassis", id, rest @ ..] if *id == p.chassis => match rest {
                [] => Self::Chassis,
                ["Power"] => Self::Power,
                ["Thermal"] => Self::Thermal,
                _ => return None,
            },
            [service, rest @ ..] => parse_service(service, rest)?,
            [] => return None,
        })
    }

    pub fn path(self, p: &Personality) -> String {
        let system = || format!("{ROOT}/Systems/{}", p.system);
        let manager = || format!("{ROOT}/Managers/{}", p.manager);
        let chassis = || format!("{ROOT}/Chassis/{}", p.chassis);
        let storage = || format!("{}/Storage/{}", system(), p.storage);
        let slots = || match p.media.of {
            Owner::System => format!("{}/VirtualMedia", system()),
            Owner::Manager => format!("{}/VirtualMedia", manager()),
        };
        let slot = |n: usize| format!("{}/{}", slots(), p.media.slots[n].id);
        match self {
            Self::Versions => "/redfish".into(),
            Self::Root => format!("{ROOT}/"),
            Self::Odata => format!("{ROOT}/odata"),
            Self::Metadata => format!("{ROOT}/$metadata"),
            Self::Systems => format!("{ROOT}/Systems"),
            Self::System => system(),
            Self::ResetInfo => format!("{}/ResetActionInfo", system()),
            Self::Bios => format!("{}/Bios", system()),
            Self::BiosSettings => format!("{}/Bios/Settings", system()),
            Self::SecureBoot => format!("{}/SecureBoot", system()),
            Self::Nics => format!("{}/EthernetInterfaces", system()),
            Self::Nic(n) => format!("{}/EthernetInterfaces/{}{}", system(), p.nic, n + 1),
            Self::Processors => format!("{}/Processors", system()),
            Self::Processor => format!("{}/Processors/1", system()),
            Self::Memory => format!("{}/Memory", system()),
            Self::Dimm => format!("{}/Memory/1", system()),
            Self::Storages => format!("{}/Storage", system()),
            Self::Storage => storage(),
            Self::Drive(n) => format!("{}/Drives/{}", storage(), n + 1),
            Self::Controllers => format!("{}/Controllers", storage()),
            Self::Controller => format!("{}/Controllers/1", storage()),
            Self::Volumes => format!("{}/Volumes", storage()),
            Self::SimpleStorages => format!("{}/SimpleStorage", system()),
            Self::SimpleStorage => format!("{}/SimpleStorage/{}", system(), p.storage),
            Self::Slots => slots(),
            Self::Slot(n) => slot(n),
            Self::SlotCertificates(n) => format!("{}/Certificates", slot(n)),
            Self::Managers => format!("{ROOT}/Managers"),
            Self::Manager => manager(),
            Self::ManagerNics => format!("{}/EthernetInterfaces", manager()),
            Self::ManagerNic => format!("{}/EthernetInterfaces/1", manager()),
            Self::ChassisCollection => format!("{ROOT}/Chassis"),
            Self::Chassis => chassis(),
            Self::Power => format!("{}/Power", chassis()),
            Self::Thermal => format!("{}/Thermal", chassis()),
            Self::SessionService => format!("{ROOT}/SessionService"),
            Self::Sessions => format!("{ROOT}/SessionService/Sessions"),
            Self::Session(id) => format!("{ROOT}/SessionService/Sessions/{id}"),
            Self::AccountService => format!("{ROOT}/AccountService"),
            Self::Accounts => format!("{ROOT}/AccountService/Accounts"),
            Self::Account => format!("{ROOT}/AccountService/Accounts/1"),
            Self::Roles => format!("{ROOT}/AccountService/Roles"),
            Self::Role(n) => format!("{ROOT}/AccountService/Roles/{}", ROLES[n]),
            Self::TaskService => format!("{ROOT}/TaskService"),
            Self::Tasks => format!("{ROOT}/TaskService/Tasks"),
            Self::Task(id) => format!("{ROOT}/TaskService/Tasks/{id}"),
            Self::TaskMonitor(id) => format!("{ROOT}/TaskService/TaskMonitors/{id}"),
            Self::EventService => format!("{ROOT}/EventService"),
            Self::Subscriptions => format!("{ROOT}/EventService/Subscriptions"),
            Self::Subscription(id) => format!("{ROOT}/EventService/Subscriptions/{id}"),
            Self::UpdateService => format!("{ROOT}/UpdateService"),
            Self::FirmwareInventory => format!("{ROOT}/UpdateService/FirmwareInventory"),
            Self::Firmware(name) => format!("{ROOT}/UpdateService/FirmwareInventory/{name}"),
            Self::Registries => format!("{ROOT}/Registries"),
            Self::BaseFile => format!("{ROOT}/Registries/Base"),
            Self::BaseRegistry => format!("{ROOT}/Registries/Base/Registry"),
            Self::AttributesFile => format!("{ROOT}/Registries/{ATTRIBUTES}"),
            Self::AttributesRegistry => format!("{ROOT}/Registries/{ATTRIBUTES}/Registry"),
            Self::CertificateService => format!("{ROOT}/CertificateService"),
            Self::CertificateLocations => format!("{ROOT}/CertificateService/CertificateLocations"),
            Self::Action(action) => format!("{}/Actions/{}", action.of().path(p), action.name()),
        }
    }

    /// What may be done, as an `Allow` header says it.
    pub fn allow(self) -> &'static str {
        match self {
            Self::System
            | Self::BiosSettings
            | Self::SecureBoot
            | Self::Slot(_)
            | Self::Manager
            | Self::Chassis
            | Self::SessionService => "GET, HEAD, PATCH",
            Self::Sessions | Self::Subscriptions => "GET, HEAD, POST",
            Self::Session(_) | Self::Subscription(_) => "GET, HEAD, DELETE",
            Self::Action(_) => "POST",
            Self::Versions
            | Self::Root
            | Self::Odata
            | Self::Metadata
            | Self::Systems
            | Self::ResetInfo
            | Self::Bios
            | Self::Nics
            | Self::Nic(_)
            | Self::Processors
            | Self::Processor
            | Self::Memory
            | Self::Dimm
            | Self::Storages
            | Self::Storage
            | Self::Drive(_)
            | Self::Controllers
            | Self::Controller
            | Self::Volumes
            | Self::SimpleStorages
            | Self::SimpleStorage
            | Self::Slots
            | Self::SlotCertificates(_)
            | Self::Managers
            | Self::ManagerNics
            | Self::ManagerNic
            | Self::ChassisCollection
            | Self::Power
            | Self::Thermal
            | Self::AccountService
            | Self::Accounts
            | Self::Account
            | Self::Roles
            | Self::Role(_)
            | Self::TaskService
            | Self::Tasks
            | Self::Task(_)
            | Self::TaskMonitor(_)
            | Self::EventService
            | Self::UpdateService
            | Self::FirmwareInventory
            | Self::Firmware(_)
            | Self::Registries
            | Self::BaseFile
            | Self::BaseRegistry
            | Self::AttributesFile
            | Self::AttributesRegistry
            | Self::CertificateService
            | Self::CertificateLocations => "GET, HEAD",
        }
    }

    pub fn allows(self, method: &str) -> bool {
        self.allow().split(", ").any(|allowed| allowed == method)
    }

    /// Whether it is given with an ETag: what can be changed is, and accounts always are (DSP0266).
    pub fn has_etag(self) -> bool {
        self.allows("PATCH") || self == Self::Account
    }

    /// Whether it can be read without logging in.
    pub fn is_public(self) -> bool {
        matches!(
            self,
            Self::Versions | Self::Root | Self::Odata | Self::Metadata
        )
    }
}

/// The roles every service has (DSP0266).
pub const ROLES: [&str; 3] = ["Administrator", "Operator", "ReadOnly"];

/// The registry of BIOS attributes.
pub const ATTRIBUTES: &str = "BiosAttributeRegistry.1.0.0";

fn parse_system(rest: &[&str], p: &Personality) -> Option<Resource> {
    Some(match rest {
        [] => Resource::System,
        ["Actions", "ComputerSystem.Reset"] => Resource::Action(Action::Reset),
        ["ResetActionInfo"] => Resource::ResetInfo,
        ["Bios"] => Resource::Bios,
        ["Bios", "Settings"] => Resource::BiosSettings,
        ["Bios", "Actions", "Bios.ResetBios"] => Resource::Action(Action::ResetBios),
        ["SecureBoot"] => Resource::SecureBoot,
        ["SecureBoot", "Actions", "SecureBoot.ResetKeys"] => Resource::Action(Action::ResetKeys),
        ["EthernetInterfaces"] => Resource::Nics,
        ["EthernetInterfaces", id] => Resource::Nic(index(id.strip_prefix(p.nic)?)?),
        ["Processors"] => Resource::Processors,
        ["Processors", "1"] => Resource::Processor,
        ["Memory"] => Resource::Memory,
        ["Memory", "1"] => Resource::Dimm,
        ["Storage"] => Resource::Storages,
        ["Storage", id, rest @ ..] if *id == p.storage => match rest {
            [] => Resource::Storage,
            ["Drives", n] => Resource::Drive(index(n)?),
            ["Controllers"] => Resource::Controllers,
            ["Controllers", "1"] => Resource::Controller,
            ["Volumes"] => Resource::Volumes,
            _ => return None,
        },
        ["SimpleStorage"] => Resource::SimpleStorages,
        ["SimpleStorage", id] if *id == p.storage => Resource::SimpleStorage,
        ["VirtualMedia", rest @ ..] if p.media.of == Owner::System => parse_slot(rest, p)?,
        _ => return None,
    })
}

fn parse_manager(rest: &[&str], p: &Personality) -> Option<Resource> {
    Some(match rest {
        [] => Resource::Manager,
        ["Actions", "Manager.Reset"] => Resource::Action(Action::ResetBmc),
        ["EthernetInterfaces"] => Resource::ManagerNics,
        ["EthernetInterfaces", "1"] => Resource::ManagerNic,
        ["VirtualMedia", rest @ ..] if p.media.of == Owner::Manager => parse_slot(rest, p)?,
        _ => return None,
    })
}

fn parse_slot(rest: &[&str], p: &Personality) -> Option<Resource> {
    let [id, rest @ ..] = rest else {
        return Some(Resource::Slots);
    };
    let slot = p.media.slots.iter().position(|slot| slot.id == *id)?;
    Some(match rest {
        [] => Resource::Slot(slot),
        ["Certificates"] => Resource::SlotCertificates(slot),
        ["Actions", "VirtualMedia.InsertMedia"] => Resource::Action(Action::Insert(slot)),
        ["Actions", "VirtualMedia.EjectMedia"] => Resource::Action(Action::Eject(slot)),
        _ => return None,
    })
}

fn parse_service(service: &str, rest: &[&str]) -> Option<Resource> {
    Some(match (service, rest) {
        ("SessionService", []) => Resource::SessionService,
        // DSP0266: the Members of a collection stand for it.
        ("SessionService", ["Sessions"] | ["Sessions", "Members"]) => Resource::Sessions,
        ("SessionService", ["Sessions", id]) => Resource::Session(number(id)?),
        ("AccountService", []) => Resource::AccountService,
        ("AccountService", ["Accounts"]) => Resource::Accounts,
        ("AccountService", ["Accounts", "1"]) => Resource::Account,
        ("AccountService", ["Roles"]) => Resource::Roles,
        ("AccountService", ["Roles", id]) => {
            Resource::Role(ROLES.iter().position(|role| role == id)?)
        }
        ("TaskService", []) => Resource::TaskService,
        ("TaskService", ["Tasks"]) => Resource::Tasks,
        ("TaskService", ["Tasks", id]) => Resource::Task(number(id)?),
        ("TaskService", ["TaskMonitors", id]) => Resource::TaskMonitor(number(id)?),
        ("EventService", []) => Resource::EventService,
        ("EventService", ["Actions", "EventService.SubmitTestEvent"]) => {
            Resource::Action(Action::TestEvent)
        }
        ("EventService", ["Subscriptions"] | ["Subscriptions", "Members"]) => {
            Resource::Subscriptions
        }
        ("EventService", ["Subscriptions", id]) => Resource::Subscription(number(id)?),
        ("UpdateService", []) => Resource::UpdateService,
        ("UpdateService", ["Actions", "UpdateService.SimpleUpdate"]) => {
            Resource::Action(Action::Update)
        }
        ("UpdateService", ["FirmwareInventory"]) => Resource::FirmwareInventory,
        ("UpdateService", ["FirmwareInventory", name]) => {
            Resource::Firmware(COMPONENTS.into_iter().find(|component| component == name)?)
        }
        ("Registries", []) => Resource::Registries,
        ("Registries", ["Base"]) => Resource::BaseFile,
        ("Registries", ["Base", "Registry"]) => Resource::BaseRegistry,
        ("Registries", [name]) if *name == ATTRIBUTES => Resource::AttributesFile,
        ("Registries", [name, "Registry"]) if *name == ATTRIBUTES => Resource::AttributesRegistry,
        ("CertificateService", []) => Resource::CertificateService,
        ("CertificateService", ["CertificateLocations"]) => Resource::CertificateLocations,
        _ => return None,
    })
}

/// A number written the one way it is written.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n: &u64| n.to_string() == text)
}

fn index(text: &str) -> Option<usize> {
    usize::try_from(number(text)?.checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmc::personality::ALL;
    use proptest::prelude::*;

    #[test]
    fn odd_spellings_lead_nowhere() {
        let p = &ALL[0];
        for path in [
            "",
            "/",
            "/redfish/v2",
            "/redfish/v1x",
            "/redfish/v1//Systems",
            "/redfish/v1/systems",
            "/redfish/v1/Systems/2",
            "/redfish/v1/Systems/1/EthernetInterfaces/nic0",
            "/redfish/v1/Systems/1/EthernetInterfaces/nic01",
            "/redfish/v1/SessionService/Sessions/+1",
            "/redfish/v1/TaskService/Tasks/99999999999999999999999",
            "/redfish/v1/Systems/1/Storage/1/Drives/../../Bios",
        ] {
            assert_eq!(Resource::parse(path, p), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_a_panic_and_written_back(path in "(/redfish)?(/v1)?(/[A-Za-z0-9.]{0,20}){0,6}") {
            for p in ALL {
                if let Some(resource) = Resource::parse(&path, p) {
                    prop_assert_eq!(Resource::parse(&resource.path(p), p), Some(resource));
                }
            }
        }
    }
}
