//! What the network told us: machines that boot and are nobody's yet, and other DHCP servers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::Mac;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Machines remembered; the one that was silent longest is forgotten first.
const MOST: usize = 1024;
/// Other DHCP servers remembered.
const MOST_SERVERS: usize = 16;

/// A machine that is nobody's yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub mac: Mac,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// How far it came.
    pub seen: String,
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// The architecture its firmware names (DHCP option 93).
    #[serde(default)]
    pub architecture: Option<u16>,
    /// The identifier its firmware names (DHCP option 97), most often that of SMBIOS.
    #[serde(default)]
    pub uuid: Option<Uuid>,
}

/// What is known of a machine besides how far it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    pub address: Option<IpAddr>,
    pub architecture: Option<u16>,
    pub uuid: Option<Uuid>,
}

#[derive(Debug, Default)]
pub struct Notebook(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    machines: BTreeMap<Mac, Machine>,
    servers: BTreeMap<Ipv4Addr, Timestamp>,
    leases: usize,
    /// Not on disk yet.
    dirty: bool,
}

impl Notebook {
    /// Where it is kept in the store.
    pub const DOCUMENT: &str = "discovered";

    /// What is on disk; what cannot be read is nothing lost but a list of machines that ask again.
    pub fn restore(&self, document: &[u8]) {
        if let Ok(machines) = serde_json::from_slice::<Vec<Machine>>(document) {
            let machines = machines
                .into_iter()
                .take(MOST)
                .map(|machine| (machine.mac, machine));
            self.pages().machines = machines.collect();
        }
    }

    pub fn note(&self, mac: Mac, seen: &str, about: &About, now: Timestamp) {
        let mut pages = self.pages();
        let machine = pages.machines.entry(mac).or_insert_with(|| Machine {
            mac,
            first_seen: now,
            last_seen: now,
            seen: String::new(),
            address: None,
            architecture: None,
            uuid: None,
        });
        machine.last_seen = now;
        seen.clone_into(&mut machine.seen);
        machine.address = about.address.or(machine.address);
        machine.architecture = about.architecture.or(machine.architecture);
        machine.uuid = about.uuid.or(machine.uuid);
        pages.dirty = true;
        if pages.machines.len() > MOST {
            let oldest = pages.machines.values().min_by_key(|it| it.last_seen);
            if let Some(mac) = oldest.map(|oldest| oldest.mac) {
                pages.machines.remove(&mac);
            }
        }
    }

    pub fn forget(&self, mac: Mac) -> Option<Machine> {
        let mut pages = self.pages();
        let machine = pages.machines.remove(&mac);
        pages.dirty |= machine.is_some();
        machine
    }

    pub fn machine(&self, mac: Mac) -> Option<Machine> {
        self.pages().machines.get(&mac).cloned()
    }

    /// Those seen last come first.
    pub fn machines(&self) -> Vec<Machine> {
        let mut machines: Vec<_> = self.pages().machines.values().cloned().collect();
        machines.sort_by_key(|machine| std::cmp::Reverse(machine.last_seen));
        machines
    }

    pub fn other_server(&self, id: Ipv4Addr, now: Timestamp) {
        let mut pages = self.pages();
        if pages.servers.len() >= MOST_SERVERS && !pages.servers.contains_key(&id) {
            pages.servers.clear();
        }
        pages.servers.insert(id, now);
    }

    /// Other DHCP servers, and when they were last heard.
    pub fn other_servers(&self) -> BTreeMap<Ipv4Addr, Timestamp> {
        self.pages().servers.clone()
    }

    pub fn set_leases(&self, leases: usize) {
        self.pages().leases = leases;
    }

    pub fn leases(&self) -> usize {
        self.pages().leases
    }

    /// The document to be written, if there is news.
    pub fn unwritten(&self) -> Option<Vec<u8>> {
        let mut pages = self.pages();
        if !std::mem::take(&mut pages.dirty) {
            return None;
        }
        let machines: Vec<_> = pages.machines.values().collect();
        Some(serde_json::to_vec(&machines).expect("machines have only texts, numbers and times"))
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_survive_a_restart_and_the_table_is_bounded() {
        let notebook = Notebook::default();
        let at = |second: u32| Timestamp::from_second(second.into()).unwrap();
        for n in 0..1500_u32 {
            let [_, _, high, low] = n.to_be_bytes();
            let about = About {
                architecture: Some(7),
                ..About::default()
            };
            notebook.note(
                Mac([2, 0, 0, 0, high, low]),
                "got an address",
                &about,
                at(n),
            );
        }
        let machines = notebook.machines();
        assert_eq!(machines.len(), MOST);
        assert_eq!(machines[0].last_seen, at(1499));
        let again = Notebook::default();
        again.restore(&notebook.unwritten().unwrap());
        assert_eq!(again.machines(), machines);
        assert_eq!(notebook.unwritten(), None);
        again.restore(b"nonsense");
        assert_eq!(again.machines().len(), MOST);
        assert!(again.forget(machines[0].mac).is_some());
        assert!(again.machine(machines[0].mac).is_none());
    }
}
