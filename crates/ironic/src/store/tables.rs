//! All records in memory, found by id, uuid, name and owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::Change;
use crate::record::{Allocation, Kept, Node, Port, Portgroup, Record, Row};

#[derive(Clone, Default)]
pub struct Tables {
    pub nodes: Table<Node>,
    pub ports: Table<Port>,
    pub portgroups: Table<Portgroup>,
    pub allocations: Table<Allocation>,
    pub kept: Table<Kept>,
    last_id: u64,
}

impl Tables {
    /// Gives an id to every record that is new.
    pub(super) fn number(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut numbered = changes;
        for change in &mut numbered {
            let Change::Put(record) = change else {
                continue;
            };
            let id = match record {
                Record::Node(node) => &mut Arc::make_mut(node).id,
                Record::Port(port) => &mut Arc::make_mut(port).id,
                Record::Portgroup(portgroup) => &mut Arc::make_mut(portgroup).id,
                Record::Allocation(allocation) => &mut Arc::make_mut(allocation).id,
                Record::Kept(kept) => &mut Arc::make_mut(kept).id,
            };
            if *id == 0 {
                self.last_id += 1;
                *id = self.last_id;
            }
        }
        numbered
    }

    pub(super) fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(Record::Node(node)) => self.nodes.put(node),
                Change::Put(Record::Port(port)) => self.ports.put(port),
                Change::Put(Record::Portgroup(portgroup)) => self.portgroups.put(portgroup),
                Change::Put(Record::Allocation(allocation)) => self.allocations.put(allocation),
                Change::Put(Record::Kept(kept)) => self.kept.put(kept),
                Change::Remove(Record::Kept(kept)) => self.kept.remove(kept.id),
                Change::Remove(Record::Node(node)) => self.nodes.remove(node.id),
                Change::Remove(Record::Port(port)) => self.ports.remove(port.id),
                Change::Remove(Record::Portgroup(portgroup)) => {
                    self.portgroups.remove(portgroup.id);
                }
                Change::Remove(Record::Allocation(allocation)) => {
                    self.allocations.remove(allocation.id);
                }
                Change::PutDocument { .. } | Change::RemoveDocuments { .. } => {}
            }
        }
        let newest = [
            self.nodes.newest(),
            self.ports.newest(),
            self.portgroups.newest(),
            self.allocations.newest(),
            self.kept.newest(),
        ];
        self.last_id = newest.into_iter().fold(self.last_id, u64::max);
    }
}

/// Records of one kind, in order of creation.
#[derive(Clone)]
pub struct Table<T> {
    rows: BTreeMap<u64, Arc<T>>,
    by_uuid: HashMap<Uuid, u64>,
    by_name: HashMap<String, u64>,
    by_owner: BTreeSet<(Uuid, u64)>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            by_uuid: HashMap::new(),
            by_name: HashMap::new(),
            by_owner: BTreeSet::new(),
        }
    }
}

impl<T: Row> Table<T> {
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<T>> {
        self.by_uuid.get(&uuid).and_then(|id| self.rows.get(id))
    }

    /// By a name that only one row can have.
    pub fn named(&self, name: &str) -> Option<&Arc<T>> {
        self.by_name.get(name).and_then(|id| self.rows.get(id))
    }

    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.rows.values()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn of(&self, owner: Uuid) -> impl Iterator<Item = &Arc<T>> {
        self.by_owner
            .range((owner, 0)..=(owner, u64::MAX))
            .filter_map(|(_, id)| self.rows.get(id))
    }

    fn newest(&self) -> u64 {
        self.rows.last_key_value().map_or(0, |(id, _)| *id)
    }

    fn put(&mut self, row: &Arc<T>) {
        self.remove(row.id());
        self.by_uuid.insert(row.uuid(), row.id());
        for name in row.names() {
            let before = self.by_name.insert(name, row.id());
            debug_assert!(
                before.is_none(),
                "two rows of kind {} have the same name",
                T::KIND
            );
        }
        if let Some(owner) = row.owner() {
            self.by_owner.insert((owner, row.id()));
        }
        self.rows.insert(row.id(), Arc::clone(row));
    }

    fn remove(&mut self, id: u64) {
        let Some(row) = self.rows.remove(&id) else {
            return;
        };
        self.by_uuid.remove(&row.uuid());
        for name in row.names() {
            self.by_name.remove(&name);
        }
        if let Some(owner) = row.owner() {
            self.by_owner.remove(&(owner, id));
        }
    }
}
